/* progress - the status line of a command that takes over a second. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    double start, next; /* seconds of stopwatch_now */
    int rate;           /* Hz */
    int64_t n_frames;   /* in all; -1: unknown */
};

void progress_start(struct progress *progress, int rate, int64_t n_frames);
void progress_report(struct progress *progress, int64_t frames_done); /* call it often: prints five times a second */
void progress_clear(struct progress *progress);

#endif
