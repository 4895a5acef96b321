#include "spectrum.h"

#include <math.h>

static const double SILENCE = 1e-15; /* -150 dB */
static const double MAX_DB = 200;    /* JSON has no infinity */

double spectrum_centre(int band)
{
    return 20 * exp2(band * log2(1000) / (SPECTRUM_BANDS - 1));
}

bool spectrum_open(struct spectrum *s)
{
    for (int i = 0; i < SPECTRUM_FRAMES; i++) s->window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / SPECTRUM_FRAMES);
    return transform_open(&s->transform, SPECTRUM_FRAMES);
}

void spectrum_close(struct spectrum *s)
{
    transform_close(&s->transform);
}

/* Adds the powers of a channel's bins. */
static void spectrum_add_channel(struct spectrum *s, const float *x, double *power)
{
    double *real = (double *)s->bins;
    for (int i = 0; i < SPECTRUM_FRAMES; i++) real[i] = s->window[i] * (double)x[i];
    transform_forward(&s->transform, s->bins);
    for (int k = 0; k <= SPECTRUM_FRAMES / 2; k++) power[k] += bin_power(s->bins[k]);
}

/* Returns the power between two frequencies in bins: bin k has the power from k - 1/2 to k + 1/2. */
static double between(const double *power, double low, double high)
{
    double sum = 0;
    for (int k = (int)(low + 0.5); k <= SPECTRUM_FRAMES / 2 && k - 0.5 < high; k++)
        sum += power[k] * (fmin(high, k + 0.5) - fmax(low, k - 0.5));
    return sum;
}

void spectrum_measure(struct spectrum *s, const float *const *x, int n_channels, int rate, double *db)
{
    double power[SPECTRUM_FRAMES / 2 + 1] = {0};
    for (int ch = 0; ch < n_channels; ch++) spectrum_add_channel(s, x[ch], power);
    /* The window's squares sum to 3/8 of the frames; half of a sine's power is at the positive frequency. */
    double scale = 4 / (0.375 * SPECTRUM_FRAMES * SPECTRUM_FRAMES * n_channels);
    double edge = sqrt(spectrum_centre(1) / spectrum_centre(0)), bins = SPECTRUM_FRAMES / (double)rate;
    for (int b = 0; b < SPECTRUM_BANDS; b++) {
        double centre = spectrum_centre(b) * bins;
        db[b] = fmin(MAX_DB, 10 * log10(fmax(SILENCE, scale * between(power, centre / edge, centre * edge))));
    }
}
