#include "measured_response.h"

#include "dsp/signal/hann.h"
#include "dsp/signal/acoustics.h"

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
