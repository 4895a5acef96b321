#include "progress.h"

#include "stopwatch.h"

#include <stdio.h>
#include <unistd.h>

void progress_start(struct progress *progress, bool quiet, int rate, int64_t n_frames)
{
    double now = stopwatch_now();
    *progress = (struct progress){
        .on = !quiet && isatty(STDERR_FILENO), .start = now, .next = now + 1, .rate = rate, .n_frames = n_frames};
}

void progress_report(void *data, int64_t frames_done)
{
    struct progress *progress = data;
    if (!progress->on) return;
    double now = stopwatch_now();
    if (now < progress->next) return;
    double elapsed = now - progress->start, speed = (double)frames_done / elapsed;
    if (progress->n_frames > 0)
        fprintf(stderr, "\r%3.0f %%, %.0f x real time, %.0f s left\033[K",
                100.0 * (double)frames_done / (double)progress->n_frames, speed / progress->rate,
                (double)(progress->n_frames - frames_done) / speed);
    else
        fprintf(stderr, "\r%.0f s, %.0f x real time\033[K", (double)frames_done / progress->rate,
                speed / progress->rate);
    progress->shown = true;
    progress->next = now + 0.2;
}

void progress_clear(struct progress *progress)
{
    if (progress->shown) fputs("\r\033[K", stderr);
    progress->shown = false;
}
