/* stopwatch - seconds of a monotonic clock, since an arbitrary moment; and of processor time. */
#ifndef STOPWATCH_H
#define STOPWATCH_H

#include <time.h>

static inline double stopwatch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The processor time of the calling thread. */
static inline double stopwatch_thread(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

#endif
