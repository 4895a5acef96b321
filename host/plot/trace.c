#include "trace.h"

#include "dsp/signal/smoothing.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <stdlib.h>

static void point_add(struct trace *t, struct point point)
{
    if (t->n == t->capacity && !t->failed) {
        size_t capacity = t->capacity ? 2 * t->capacity : 1024;
        struct point *grown = realloc(t->points, capacity * sizeof *grown);
        t->failed = !grown;
        if (grown) {
            t->points = grown;
            t->capacity = capacity;
        }
    }
    if (t->points && t->n < t->capacity) t->points[t->n++] = point;
}

void trace_finish(struct trace *t)
{
    if (!t->has_kept) return;
    struct point first = t->kept[0], low = t->kept[1], high = t->kept[2], last = t->kept[3];
    struct point early = low.x <= high.x ? low : high, late = low.x <= high.x ? high : low;
    point_add(t, first);
    if (early.x > first.x) point_add(t, early);
    if (late.x > early.x && late.x > first.x) point_add(t, late);
    if (last.x > late.x) point_add(t, last);
    t->has_kept = false;
}

void trace_gap(struct trace *t)
{
    if (!t->has_kept || (t->has_gap && t->column == t->gap_column)) return;
    trace_finish(t);
    point_add(t, (struct point){t->points ? t->points[t->n - 1].x : 0, NAN});
    t->gap_column = t->column;
    t->has_gap = true;
}

void trace_add(struct trace *t, double x, double y)
{
    if (!isfinite(y)) {
        trace_gap(t);
        return;
    }
    const struct point point = {x, y};
    if (t->has_kept && floor(x) != t->column) trace_finish(t);
    if (!t->has_kept) {
        for (int i = 0; i < 4; i++) t->kept[i] = point;
        t->has_kept = true;
        t->column = floor(x);
        return;
    }
    if (y < t->kept[1].y) t->kept[1] = point;
    if (y > t->kept[2].y) t->kept[2] = point;
    t->kept[3] = point;
}

void trace_free(struct trace *t)
{
    free(t->points);
    *t = (struct trace){0};
}

/* ---- a response, its level and its running sum over time -------------------------------------- */

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

/* ---- magnitude, phase and group delay --------------------------------------------------------- */

struct traces_spectrum {
    size_t n_bins, size;
    double bin_hz, octaves;
    double min;               /* power below which phase and group delay mean nothing */
    int peak;                 /* frame of the largest sample: its delay is removed */
    double complex *bins;     /* spectrum of the response, with that delay removed */
    double complex *ramped;   /* spectrum of frame * response, from that frame     */
    double *mean;             /* mean power over the octaves                        */
    double *power;            /* then scratch                                       */
    double *rectified, *rest; /* scratch                                            */
};

/* Returns the bin times e^(2 pi i k peak / size): the response then begins at its largest sample. */
static double complex undelayed(const struct traces_spectrum *s, double complex bin, size_t k)
{
    double angle = 2 * M_PI * fmod((double)k * s->peak / (double)s->size, 1);
    return bin * CMPLX(cos(angle), sin(angle));
}

/* Transforms frame * response, and removes the delay of both spectra. */
static void remove_delay(struct traces_spectrum *s, const struct transform *t, const struct plot_curve *curve)
{
    double *ramped = (double *)s->ramped;
    for (size_t i = 0; i < s->size + 2; i++)
        ramped[i] = i < (size_t)curve->n_frames ? ((double)i - s->peak) * (double)curve->h[i] : 0;
    transform_forward(t, s->ramped);
    for (size_t k = 0; k < s->n_bins; k++) {
        s->bins[k] = undelayed(s, s->bins[k], k);
        s->ramped[k] = undelayed(s, s->ramped[k], k);
    }
}

static void find_powers(struct traces_spectrum *s)
{
    const double min = 1e-6; /* share of the largest power */
    for (size_t k = 0; k < s->n_bins; k++) s->power[k] = bin_power(s->bins[k]);
    smooth_octaves(s->power, s->mean, s->n_bins, s->octaves);
    for (size_t k = 0; k < s->n_bins; k++) s->min = fmax(s->min, min * s->mean[k]);
}

static void traces_spectrum_close(struct traces_spectrum *s)
{
    free(s->bins);
    free(s->ramped);
    free(s->power);
}

/* Computes the spectrum. has_delay: the caller needs more than powers. */
static bool traces_spectrum_open(struct traces_spectrum *s, const struct plot_curve *curve, double octaves,
                                 bool has_delay)
{
    enum { MIN_SIZE = 1 << 17 }; /* the bins of a short filter must be dense at 20 Hz */
    struct transform t;
    size_t n = (size_t)curve->n_frames;
    *s = (struct traces_spectrum){.octaves = octaves, .peak = largest_frame(curve)};
    if (!transform_open(&t, transform_size(n > MIN_SIZE ? n : MIN_SIZE))) return false;
    s->size = t.size;
    s->n_bins = t.size / 2 + 1;
    s->bin_hz = (double)curve->rate / (double)t.size;
    s->bins = malloc(s->n_bins * sizeof *s->bins);
    s->ramped = malloc(s->n_bins * sizeof *s->ramped);
    s->power = malloc(4 * s->n_bins * sizeof *s->power);
    bool good = s->bins && s->ramped && s->power;
    if (good) {
        s->mean = s->power + s->n_bins;
        s->rectified = s->mean + s->n_bins;
        s->rest = s->rectified + s->n_bins;
        transform_response_float(&t, curve->h, n, s->bins);
        if (has_delay) remove_delay(s, &t, curve);
        find_powers(s);
    } else {
        traces_spectrum_close(s);
    }
    transform_close(&t);
    return good;
}

/* Replaces values[n_bins], which may be negative, by their mean over the octaves. smooth_octaves needs positive
 * values. */
static void smooth_signed(struct traces_spectrum *s, double *values)
{
    double *rectified = s->rectified;
    for (size_t k = 0; k < s->n_bins; k++) rectified[k] = fmax(-values[k], 0);
    smooth_octaves(rectified, s->rest, s->n_bins, s->octaves);
    for (size_t k = 0; k < s->n_bins; k++) rectified[k] = fmax(values[k], 0);
    smooth_octaves(rectified, values, s->n_bins, s->octaves);
    for (size_t k = 0; k < s->n_bins; k++) values[k] -= s->rest[k];
}

/* Returns the first bin at or below the start of the axis. */
static size_t first_bin(double bin_hz, const struct axis *x)
{
    size_t k = (size_t)(x->from / bin_hz);
    return k > 1 ? k : 1;
}

static void trace_magnitude(const double *power, size_t n_bins, double bin_hz, const struct axis *x,
                            struct trace *trace)
{
    for (size_t k = first_bin(bin_hz, x); k < n_bins; k++)
        trace_add(trace, axis_position(x, (double)k * bin_hz), 10 * log10(power[k]));
    trace_finish(trace);
}

/* The delay of a band is the mean of the delays of its bins, weighted by their energy: at the nulls between the modes
 * of a room the delay of a bin has no meaning. The delay of a bin is Re(X / H), X the spectrum of n h[n]. */
static void trace_group_delay(struct traces_spectrum *s, const struct axis *x, struct trace *trace)
{
    double *delay = s->power;
    for (size_t k = 0; k < s->n_bins; k++) delay[k] = creal(conj(s->bins[k]) * s->ramped[k]);
    smooth_signed(s, delay);
    double frames_per_ms = s->bin_hz * (double)s->size / 1000;
    for (size_t k = first_bin(s->bin_hz, x); k < s->n_bins; k++) {
        bool counts = s->mean[k] > s->min;
        trace_add(trace, axis_position(x, (double)k * s->bin_hz),
                  counts ? (delay[k] / s->mean[k] + s->peak) / frames_per_ms : NAN);
    }
    trace_finish(trace);
}

/* The phase of a band is the phase of the mean of its bins. */
static void trace_phase(struct traces_spectrum *s, const struct axis *x, struct trace *trace)
{
    double *real = s->power, *imaginary = (double *)s->ramped, before = 0;
    for (size_t k = 0; k < s->n_bins; k++) {
        real[k] = creal(s->bins[k]);
        imaginary[k] = cimag(s->bins[k]);
    }
    smooth_signed(s, real);
    smooth_signed(s, imaginary);
    for (size_t k = first_bin(s->bin_hz, x); k < s->n_bins; k++) {
        double degrees = s->mean[k] > s->min ? 180 / M_PI * atan2(imaginary[k], real[k]) : NAN;
        if (fabs(degrees - before) > 150) trace_gap(trace); /* wrapped, or past a null */
        trace_add(trace, axis_position(x, (double)k * s->bin_hz), degrees);
        before = degrees;
    }
    trace_finish(trace);
}

bool frequency_traces(const struct plot_curve *curve, const struct axis *x, double octaves, struct trace *magnitude,
                      struct trace *phase, struct trace *group_delay)
{
    struct traces_spectrum s;
    if (curve->power) {
        trace_magnitude(curve->power, curve->n_bins, 0.5 * curve->rate / (double)(curve->n_bins - 1), x, magnitude);
        return true;
    }
    if (!traces_spectrum_open(&s, curve, octaves, phase || group_delay)) return false;
    if (magnitude) trace_magnitude(s.mean, s.n_bins, s.bin_hz, x, magnitude);
    if (group_delay) trace_group_delay(&s, x, group_delay);
    if (phase) trace_phase(&s, x, phase); /* called last, because it overwrites `ramped` */
    traces_spectrum_close(&s);
    return true;
}
