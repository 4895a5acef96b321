#include "time_traces.h"

#include <math.h>

int largest_frame(const struct plot_curve *curve)
{
    int at = 0;
    for (int i = 1; i < curve->n_frames; i++)
        if (fabsf(curve->h[i]) > fabsf(curve->h[at])) at = i;
    return at;
}

void audible_frames(const struct plot_curve *curve, double db, int *first, int *end)
{
    double min = pow(10, db / 20) * fabs((double)curve->h[largest_frame(curve)]);
    *first = 0;
    *end = curve->n_frames;
    while (*first < *end - 1 && fabs((double)curve->h[*first]) < min) ++*first;
    while (*end > *first + 1 && fabs((double)curve->h[*end - 1]) < min) --*end;
}

static double sample(const struct plot_curve *curve, long long frame)
{
    return frame >= 0 && frame < curve->n_frames ? (double)curve->h[frame] : 0;
}

static double db_of_power(double power)
{
    if (power <= 0) return NAN;
    return 10 * log10(power);
}

/* Each unit of width shows its largest sample: the zeros between them would fill the panel. */
static void trace_level(const struct plot_curve *curve, const struct axis *x, struct trace *trace)
{
    double max = 0, at = 0;
    for (int i = 0; i < curve->n_frames; i++) {
        double position = axis_position(x, (double)i / curve->rate), size = fabs((double)curve->h[i]);
        if (i > 0 && floor(position) != floor(at)) {
            trace_add(trace, at, db_of_power(max * max));
            max = 0;
        }
        if (size >= max) {
            max = size;
            at = position;
        }
    }
    trace_add(trace, at, db_of_power(max * max));
}

static void trace_samples(const struct plot_curve *curve, bool is_step, const struct axis *x, struct trace *trace)
{
    double sum = 0;
    long long from = (long long)floor(x->from * curve->rate), to = (long long)ceil(x->to * curve->rate);
    for (long long i = from < 0 ? from : 0; i <= to; i++) {
        sum += sample(curve, i);
        if (i >= from) trace_add(trace, axis_position(x, (double)i / curve->rate), is_step ? sum : sample(curve, i));
    }
}

void time_trace(const struct plot_curve *curve, enum plot_panel kind, const struct axis *x, struct trace *trace)
{
    if (kind == PLOT_IMPULSE_DB)
        trace_level(curve, x, trace);
    else
        trace_samples(curve, kind == PLOT_STEP, x, trace);
    trace_finish(trace);
}
