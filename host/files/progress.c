#include "progress.h"

#include "host/message.h"
#include "host/stopwatch.h"

void progress_start(struct progress *progress, bool quiet, int rate, int64_t n_frames)
{
    double now = stopwatch_now();
    *progress = (struct progress){
        .on = !quiet && message_columns() > 0, .start = now, .next = now + 1, .rate = rate, .n_frames = n_frames};
}

void progress_report(struct progress *progress, int64_t frames_done)
{
    double now = stopwatch_now();
    if (!progress->on || now < progress->next) return;
    double elapsed = now - progress->start, speed = (double)frames_done / elapsed;
    if (progress->n_frames > 0)
        message_status("%3.0f %%, %.0f x real time, %.0f s left",
                       100.0 * (double)frames_done / (double)progress->n_frames, speed / progress->rate,
                       (double)(progress->n_frames - frames_done) / speed);
    else
        message_status("%.0f s, %.0f x real time", (double)frames_done / progress->rate, speed / progress->rate);
    progress->next = now + 0.2;
}

void progress_clear(struct progress *progress)
{
    if (progress->on) message_status("%s", "");
}
