/* progress - one line on a terminal for what takes over a second. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on, shown;
    double start, next; /* seconds of stopwatch_now */
    int rate;           /* Hz */
    int64_t n_frames;   /* in all; -1: not known */
};

void progress_start(struct progress *progress, bool quiet, int rate, int64_t n_frames);
void progress_report(void *progress, int64_t frames_done); /* as struct pipeline_progress wants it */
void progress_clear(struct progress *progress);

#endif
