#include "measured_response.h"

#include "dsp/signal/acoustics.h"
#include "dsp/signal/hann.h"
#include "dsp/signal/transform.h"
#include "fir_design.h"

#include <math.h>
#include <string.h>

#define LOWEST_HZ 10.0 /* below this frequency the length of the window is constant */
enum { WINDOWS_PER_OCTAVE = 3 };

int direct_sound_find(const float *h, int n, int rate)
{
    int first = acoustics_start((float *[]){(float *)h}, 1, n), direct = first;
    for (int i = first; i < n && i <= first + rate / 1000; i++)
        if (fabsf(h[i]) > fabsf(h[direct])) direct = i;
    return h[direct] == 0 ? -1 : direct;
}

/* The windowed response, with its direct sound at frame 0. The frames before it wrap around to the end. */
static void window_apply(const struct transform *t, const float *h, int n, int direct, double length, double *real)
{
    int before = (int)fmin(direct, ceil(length / 8)), after = (int)fmin(n - direct, ceil(length));
    memset(real, 0, t->size * sizeof *real);
    for (int i = 0; i < after; i++) real[i] = (double)h[direct + i] * hann_rise(2 - 2 * (i / length));
    for (int i = 1; i <= before; i++)
        real[t->size - (size_t)i] = (double)h[direct - i] * hann_rise(1 - i / (length / 8));
}

static void copy_whole(const struct transform *t, const float *h, int n, int direct, double *real)
{
    memset(real, 0, t->size * sizeof *real);
    for (int i = 0; i < n; i++) real[i < direct ? t->size - (size_t)(direct - i) : (size_t)(i - direct)] = (double)h[i];
}

void measured_response(const struct transform *t, const float *h, int n, int direct, int rate, double cycles,
                       double complex *bins, double complex *scratch)
{
    size_t half = t->size / 2;
    if (cycles == 0) {
        copy_whole(t, h, n, direct, (double *)bins);
        transform_forward(t, bins);
        return;
    }
    double hz = (double)rate / (double)t->size;
    int last = (int)floor(WINDOWS_PER_OCTAVE * log2(0.5 * rate / LOWEST_HZ));
    memset(bins, 0, (half + 1) * sizeof *bins);
    for (int j = 0; j <= last; j++) {
        double ratio = exp2(1.0 / WINDOWS_PER_OCTAVE), centre = LOWEST_HZ * pow(ratio, j);
        window_apply(t, h, n, direct, fmax(cycles / centre * rate, 8), (double *)scratch);
        transform_forward(t, scratch);
        size_t from = j == 0 ? 0 : (size_t)ceil(centre / ratio / hz);
        size_t to = j == last ? half : (size_t)fmin(floor(centre * ratio / hz), (double)half);
        for (size_t k = from; k <= to; k++) {
            double distance = k ? WINDOWS_PER_OCTAVE * log2((double)k * hz / centre) : -1;
            bool beyond = (j == 0 && distance < 0) || (j == last && distance > 0);
            bins[k] += (beyond ? 1 : fmax(1 - fabs(distance), 0)) * scratch[k];
        }
    }
}

/* ---- excess phase ----------------------------------------------------------------------------- */

#define FULL_HZ 300.0 /* reversed up to here; above, a small movement of the head changes the phase */
#define NONE_HZ 600.0
#define MIN_MAGNITUDE 1e-4 /* smallest magnitude, relative to the largest */

static double complex unit(double complex bin)
{
    double size = cabs(bin);
    return size > 0 ? bin / size : 1;
}

static double share_reversed(double hz)
{
    double x = log2(fmax(hz, FULL_HZ) / FULL_HZ) / log2(NONE_HZ / FULL_HZ);
    return hann_rise(1 - x);
}

static void cut_pre_ringing(double *real, size_t size, int max)
{
    for (size_t i = 0; i <= size / 2; i++) {
        double keep = hann_rise(2 - 2 * (double)i / (max + 1));
        real[i] *= keep;
        if (i > 0 && i < size / 2) real[size - i] *= keep;
    }
}

void excess_phase_reverse(const struct transform *t, double complex *bins, int max, int rate, double complex *scratch)
{
    size_t half = t->size / 2;
    memcpy(scratch, bins, (half + 1) * sizeof *scratch);
    magnitude_minimum_phase(t, MIN_MAGNITUDE, scratch);
    for (size_t k = 0; k <= half; k++) bins[k] = unit(conj(bins[k]) * scratch[k]);
    bins[0] = creal(bins[0]) < 0 ? -1 : 1;
    bins[half] = 1;
    transform_inverse(t, bins);
    cut_pre_ringing((double *)bins, t->size, max);
    transform_forward(t, bins);
    for (size_t k = 0; k <= half; k++) {
        double share = share_reversed((double)k * rate / (double)t->size);
        bins[k] = 1 + share * (bins[k] - 1);
    }
}

void excess_phase_apply(const struct transform *t, const double complex *reversed, int delay, double complex *bins)
{
    size_t half = t->size / 2;
    for (size_t k = 0; k <= half; k++) bins[k] /= fmax(cabs(reversed[k]), 0.5);
    magnitude_minimum_phase(t, MIN_MAGNITUDE, bins);
    for (size_t k = 0; k <= half; k++) bins[k] *= reversed[k];
    transform_delay(t, bins, delay);
}
