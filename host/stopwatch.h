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

/* ---- a share of a core ------------------------------------------------------------------------ */

/* Keeps the calling thread to a share of a core: it sleeps when it has used its part of a window. */

struct processor_share {
    double window_s, max_s;   /* processor time of a window                                */
    double since_s, used_s;   /* start of the window: the time, and the thread's processor time */
};

/* Begins the first window. */
struct processor_share processor_share_begin(double window_s, double max_s);

/* Sleeps if the processor time of the window is used up, until the share is kept: up to 9 windows. */
void processor_share_keep(struct processor_share *share);

#endif
