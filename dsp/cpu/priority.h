/* priority - a thread that helps gets the real-time priority right below that of the thread it works for. */
#ifndef HALOCONV_PRIORITY_H
#define HALOCONV_PRIORITY_H

#include <pthread.h>
#include <stdatomic.h>

struct priority {         /* zeroed: of nobody yet                                          */
    pthread_t thread;     /* that was worked for last; priority_lead's own                  */
    atomic_int tid;       /* its number in the system; 0: none yet                          */
};

/* The calling thread is the one that the helpers work for. Its first call makes a system call, no other does. [rt] */
void priority_lead(struct priority *priority);

/* A helper, before it works: takes its priority from the thread that leads. taken: that thread's number, kept by the
 * helper, at first 0. If the system refuses, the helper goes on as it is. */
void priority_follow(const struct priority *priority, int *taken);

#endif
