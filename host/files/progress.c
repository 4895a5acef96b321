#include "progress.h"

#include "host/message.h"
#include "host/stopwatch.h"

#include <math.h>
#include <string.h>

/* Floating-point operations that take as long as to read or write a sample. */
static const double sample_flops = 100;

struct progress_work progress_work_make(const hc_info *info, int n_channels_in, int n_channels_out, int n_routes,
                                        int64_t n_in, int n_taps, int64_t end)
{
    struct progress_work work = {.n_in = n_in, .n_taps = n_taps, .end = n_in < 0 ? -1 : end, .out = 1};
    bool is_direct = strcmp(info->method, "direct") == 0;
    /* A GPU, and an engine for live blocks, do the same work for every frame. */
    if (strcmp(info->backend, "cpu") != 0 || info->queue_depth == 0) return work;
    double transform = is_direct ? 0 : 5 * log2(2.0 * info->partition);
    work.in = n_channels_in * (sample_flops + transform);
    work.out = n_channels_out * (sample_flops + transform) + (is_direct ? 2.0 * n_routes * n_taps : 0);
    work.tap = is_direct ? 0 : 8.0 * n_routes / info->partition;
    return work;
}

/* Sums 0 1 2 ... n n n ... over all frames before `frame`. */
static double ramp(int64_t frame, int64_t n)
{
    double steps = (double)(frame < n ? frame : n);
    return steps * steps / 2 + (double)n * (double)(frame > n ? frame - n : 0);
}

double progress_work_to(const struct progress_work *work, int64_t frame)
{
    if (frame > work->end) frame = work->end;
    int64_t tail = frame > work->n_in ? frame - work->n_in : 0; /* frames behind the input */
    double taps = ramp(frame, work->n_taps) - ramp(tail, work->n_taps);
    return work->in * (double)(frame - tail) + work->out * (double)frame + work->tap * taps;
}

void progress_start(struct progress *progress, int rate, struct progress_work work, double begun, double now)
{
    *progress = (struct progress){.on = message_columns() > 0,
                                  .begun = begun,
                                  .start = now,
                                  .next = now + 1,
                                  .rate = rate,
                                  .work = work};
}

double progress_rate_left(struct progress_rate *rate, double done, double all, double now)
{
    const double uncounted = 0.05, min = 0.1; /* shares of all work */
    if (rate->first_done < uncounted * all) *rate = (struct progress_rate){now, done};
    double counted = done - rate->first_done;
    return counted > 0 && done >= min * all ? (all - done) * (now - rate->first) / counted : -1;
}

double progress_left(struct progress *progress, int64_t frames_done, double now)
{
    if (progress->work.end < 0) return -1;
    double all = progress_work_to(&progress->work, progress->work.end);
    return progress_rate_left(&progress->rate_seen, progress_work_to(&progress->work, frames_done), all, now);
}

void progress_report(struct progress *progress, int64_t frames_done)
{
    if (!progress->on) return;
    double now = stopwatch_now(), elapsed = now - progress->start, left = progress_left(progress, frames_done, now);
    if (now < progress->next) return;
    double speed = (double)frames_done / elapsed / progress->rate, begun = now - progress->begun;
    if (left >= 0)
        message_status("%3.0f %%, %.0f x real time, %.0f s left", 100 * begun / (begun + left), speed, left);
    else
        message_status("%.0f s, %.0f x real time", (double)frames_done / progress->rate, speed);
    progress->next = now + 0.2;
}

void progress_clear(struct progress *progress)
{
    if (progress->on) message_status("%s", "");
}
