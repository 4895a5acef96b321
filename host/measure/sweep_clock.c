/* sweep_clock - measures by the sweeps how far the clocks of two sound cards drift apart, and whether frames were lost.
 *
 * Two sections of an output differ by noise and by a delay: the difference of the clocks over the time between them.
 * The sum of their cross spectra, over all outputs and inputs, is W e^(i w delay) with W > 0. Its transform has a peak
 * at the delay, which gives whole frames; the slope of its phase gives the rest. W is the power of the recordings, not
 * of the responses: that is the best weight in white noise.
 */
#include "sweep_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_band(const struct sweep_analysis *a, size_t k)
{
    double hz = (double)k * a->rate / (double)a->transform.size;
    return hz >= a->sweep->from_hz && hz <= a->sweep->to_hz;
}

static void add_cross(const struct sweep_analysis *a, const double complex *first, const double complex *last,
                      double complex *cross)
{
    for (size_t k = 0; k <= a->transform.size / 2; k++)
        if (in_band(a, k)) cross[k] += last[k] * conj(first[k]) / bin_power(a->inverse[k]);
}

/* Returns the frame of the peak, which may be negative. scratch: [size / 2 + 1]. */
static double whole_frames(const struct sweep_analysis *a, const double complex *cross, double complex *scratch)
{
    size_t size = a->transform.size, best = 0;
    const double *correlation = (const double *)scratch;
    memcpy(scratch, cross, (size / 2 + 1) * sizeof *scratch);
    transform_inverse(&a->transform, scratch);
    for (size_t i = 0; i < size; i++)
        if (correlation[i] > correlation[best]) best = i;
    return best < size / 2 ? (double)best : (double)best - (double)size;
}

/* Returns the delay in frames by Newton's method on the phases, each weighted by its spectrum. */
static double find_delay(const struct sweep_analysis *a, const double complex *cross, double delay)
{
    double unit = 2 * M_PI / (double)a->transform.size;
    for (int step = 0; step < 5; step++) {
        double slope = 0, weight = 0;
        for (size_t k = 1; k < a->transform.size / 2; k++) {
            double w = unit * (double)k, share = cabs(cross[k]);
            if (!(share > 0)) continue;
            slope += share * w * carg(cross[k] * cexp(I * w * delay));
            weight += share * w * w;
        }
        if (!(weight > 0)) break;
        delay -= slope / weight;
    }
    return delay;
}

bool sweep_find_shift(const struct sweep_analysis *a, const struct sweep_recording *r, int input, int section,
                      double hz, double complex *const scratch[2], double *shift_s)
{
    const double min_share = 0.5; /* share of the correlation of two equal responses */
    double complex *cross = scratch[0], *other = scratch[1];
    double unit = (double)a->rate / (double)a->transform.size, sum = 0;
    double middle = fmax(fmin(hz, a->sweep->to_hz * M_SQRT1_2), a->sweep->from_hz * M_SQRT2);
    sweep_section_bins(a, r, input, 0, cross);
    sweep_section_bins(a, r, input, section, other);
    for (size_t k = 0; k <= a->transform.size / 2; k++) {
        bool is_inside = fabs(log2((double)k * unit / middle)) <= 0.5;
        cross[k] = is_inside ? other[k] * conj(cross[k]) : 0;
        sum += 2 * cabs(cross[k]) / (double)a->transform.size;
    }
    double frames = whole_frames(a, cross, other);
    size_t peak = (size_t)(frames < 0 ? frames + (double)a->transform.size : frames);
    *shift_s = fabs(frames) / a->rate;
    return ((double *)other)[peak] > min_share * sum && fabs(frames) > 2 + 0.25 * a->rate / middle;
}

bool sweep_find_clock(const struct sweep_analysis *a, const struct sweep_recording *recordings, int n_inputs,
                      double *drift)
{
    int last = a->sweep->averages - 1;
    size_t n = a->transform.size / 2 + 1;
    *drift = NAN;
    if (last < 1) return true;
    double complex *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q), *cross = calloc(n, sizeof *cross);
    bool good = p && q && cross;
    for (int o = 0; good && o < a->sweep->n_outputs; o++)
        for (int i = 0; i < n_inputs; i++) {
            sweep_section_bins(a, &recordings[o], i, 0, p);
            sweep_section_bins(a, &recordings[o], i, last, q);
            add_cross(a, p, q, cross);
        }
    if (good) {
        double frames = find_delay(a, cross, whole_frames(a, cross, p));
        *drift = a->stretch * (1 + frames / (last * sweep_section_s(a->sweep) * a->rate * a->stretch)) - 1;
    }
    free(p);
    free(q);
    free(cross);
    return good;
}

/* ---- the other clock ---------------------------------------------------------------------------- */

enum { REACH = 256 /* frames on each side */, STEPS = 8192 /* in the table: linear interpolation is exact to 1e-7 */ };

/* Kaiser's window with beta 12 from its middle to its end; its Bessel function is a series. */
static void fill_window(double *table)
{
    for (int i = 0; i <= STEPS; i++) {
        double x = (double)i / STEPS, square = 36 * (1 - x * x), term = 1;
        table[i] = 1;
        for (int k = 1; k < 40; k++) table[i] += term *= square / ((double)k * k);
    }
    table[STEPS + 1] = 0;
}

void sweep_stretch(const double *x, size_t n_x, double first, double ratio, double *y, size_t n)
{
    const double min_fraction = 1e-6; /* makes an error of -110 dB */
    static double table[STEPS + 2];   /* too large for a stack; one thread measures */
    fill_window(table);
    for (size_t i = 0; i < n; i++) {
        double at = first + (double)i * ratio, whole = floor(at + min_fraction), fraction = at - whole, sum = 0;
        if (fabs(fraction) < min_fraction) { /* nearly always, if both sides have one clock */
            y[i] = whole >= 0 && whole < (double)n_x ? x[(size_t)whole] : 0;
            continue;
        }
        double sine = sin(M_PI * fraction) / M_PI;
        for (int k = 1 - REACH; k <= REACH; k++) {
            double from = whole + k, distance = fraction - k, position = fabs(distance) / REACH * STEPS;
            if (!(from >= 0 && from < (double)n_x && position <= STEPS)) continue;
            double sinc = fabs(distance) < 1e-9 ? 1 : sine * (k % 2 ? -1 : 1) / distance;
            int step = (int)position;
            double window = table[step] + (position - step) * (table[step + 1] - table[step]);
            sum += x[(size_t)from] * sinc * window;
        }
        y[i] = sum / table[0];
    }
}
