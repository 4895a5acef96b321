/* processor_share - keeps the calling thread to a share of a core: it sleeps when it has used its part of a window. */
#ifndef PROCESSOR_SHARE_H
#define PROCESSOR_SHARE_H

struct processor_share {
    double window_s, max_s;   /* processor time of a window                                */
    double since_s, used_s;   /* start of the window: the time, and the thread's processor time */
};

/* Begins the first window. */
struct processor_share processor_share_begin(double window_s, double max_s);

/* Sleeps if the processor time of the window is used up, until the share is kept: up to 9 windows. */
void processor_share_keep(struct processor_share *share);

#endif
