/* priority - a helper thread gets the real-time priority right below that of the thread that it works for. */
#ifndef HALOCONV_PRIORITY_H
#define HALOCONV_PRIORITY_H

#include <stdatomic.h>

struct priority {   /* zeroed at first */
    atomic_int tid; /* of the thread that the helpers work for; 0: none yet */
};

/* Makes the helpers work for the calling thread from now on. [rt] */
void priority_lead(struct priority *priority);

/* Called by a helper before it works: sets the priority. *followed: the tid that the helper follows, kept by the
 * helper, at first 0. If the system refuses, the helper keeps its priority. */
void priority_follow(const struct priority *priority, int *followed);

#endif
