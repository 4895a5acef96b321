/* priority - gives helper threads the real-time priority right below that of the thread that they work for, and keeps
 * them inside RLIMIT_RTTIME: once a real-time thread has used that much processor time without a call that blocks, the
 * system ends the process, which may be the user's DAW. RTKit and PipeWire's module-rt set 200 ms, at times late. */
#ifndef HALOCONV_PRIORITY_H
#define HALOCONV_PRIORITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct priority { /* initially all 0 */
    int tid;      /* atomic: tid of the thread that the helpers work for; 0: no thread yet */
};

struct follower {        /* a helper's record, which lives as long as its thread; initially all 0 */
    int tid;             /* of the thread that it follows */
    int64_t limit_us;    /* at the last look; INT64_MAX: there is none; 0: never read */
    int64_t looked_ns;   /* time of the last look */
    int64_t blocked_ns;  /* time of the first look after the last call that blocked */
    long n_blocked;      /* calls that blocked, at the last look */
};

struct load_watch {         /* record of an audio thread's calls; initially all 0 */
    int64_t begin_ns;       /* of the present window */
    int64_t worked_ns;      /* sum of the calls in it */
    struct follower thread; /* tid 0: nobody sets its priority */
};

/* Makes the helpers work for the calling thread from now on. [rt] */
void priority_lead(struct priority *priority);

/* Sets the priority of the calling helper thread; call it before each job. If the system refuses, the helper keeps its
 * priority. Below a limit of PRIORITY_MIN_LIMIT_US the helper stays without real-time priority. */
#define PRIORITY_MIN_LIMIT_US 100000
void priority_follow(const struct priority *priority, struct follower *follower);

/* Call it where a helper may have worked for a while and no other thread waits for a lock of it: it sleeps for 0.1 ms
 * if RLIMIT_RTTIME demands this, and obeys a limit that has changed. A thread that never called priority_follow, as the
 * audio thread, returns at once. [rt] */
void priority_rest(void);

/* Call it at the end of a call of the audio thread, which may be so slow that the next call follows at once: it rests as
 * priority_rest does. It makes system calls only if there was a limit when a thread last looked, and in a window of 25 ms
 * of which the calls took a tenth or more. [rt] */
void priority_worked(struct load_watch *watch, int64_t start_ns, int64_t end_ns);

/* Reads the limit for priority_worked. */
void priority_look(void);

/* Sleeps for 0.1 ms if there is a limit, for a call that has missed its deadline anyway. */
void priority_sleep(void);

/* Returns how often threads have slept because of the limit. The library and the GPU module count apart. */
unsigned priority_rests(void);

#ifdef __cplusplus
}
#endif
#endif
