#include "stopwatch.h"

#include <math.h>
#include <time.h>

struct processor_share processor_share_begin(double window_s, double max_s)
{
    return (struct processor_share){window_s, max_s, stopwatch_now(), stopwatch_thread()};
}

void processor_share_keep(struct processor_share *s)
{
    double now = stopwatch_now(), used = stopwatch_thread() - s->used_s;
    if (now < s->since_s + s->window_s && used < s->max_s) return;
    double rest = s->since_s + s->window_s * fmin(9, fmax(1, used / s->max_s)) - now;
    const struct timespec pause = {(time_t)rest, (long)((rest - floor(rest)) * 1e9)};
    if (rest > 0) nanosleep(&pause, NULL);
    *s = processor_share_begin(s->window_s, s->max_s);
}
