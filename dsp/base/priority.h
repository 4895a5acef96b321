/* priority - gives helper threads the real-time priority right below that of the thread that they work for. */
#ifndef HALOCONV_PRIORITY_H
#define HALOCONV_PRIORITY_H

#ifdef __cplusplus
extern "C" {
#endif

struct priority { /* initially all 0 */
    int tid;      /* atomic: tid of the thread that the helpers work for; 0: no thread yet */
};

/* Makes the helpers work for the calling thread from now on. [rt] */
void priority_lead(struct priority *priority);

/* Sets the priority of the calling helper thread; call it before each job. *followed: the helper's record of the tid
 * that it follows; initially 0. If the system refuses, the helper keeps its priority. */
void priority_follow(const struct priority *priority, int *followed);

#ifdef __cplusplus
}
#endif
#endif
