/* priority - a thread that helps gets the real-time priority right below that of the thread it works for. */
#ifndef HALOCONV_PRIORITY_H
#define HALOCONV_PRIORITY_H

#include <stdatomic.h>

struct priority {         /* zeroed: of nobody yet                                          */
    atomic_int tid;       /* of the thread that was worked for last; 0: none yet            */
};

/* The calling thread is the one that the helpers work for. [rt] */
void priority_lead(struct priority *priority);

/* A helper, before it works: takes its priority from the thread that leads. taken: that thread's number, kept by the
 * helper, at first 0. If the system refuses, the helper goes on as it is. */
void priority_follow(const struct priority *priority, int *taken);

#endif
