#include "inversion.h"

#include "dsp/signal/transform.h"
#include "magnitude_fir.h"

#include <math.h>
#include <stdlib.h>

#define OUTSIDE_DB 20.0 /* beta outside the band, above the level: the gain is -40 dB */
enum { PER_OCTAVE = 48 };
#define FADE_OCTAVES 0.5 /* from the edge of the band to the full beta */

static double response_level(const double complex *bins, double bin_hz, const struct inversion_settings *s)
{
    double sum = 0, low = fmax(s->low_hz, bin_hz);
    int n = (int)(PER_OCTAVE * log2(s->high_hz / low)) + 1;
    for (int i = 0; i < n; i++)
        sum += log(fmax(bin_power(bins[lrint(low * exp2((double)i / PER_OCTAVE) / bin_hz)]), 1e-40));
    return exp(sum / n);
}

/* beta, relative to the power of the level. share: |H| relative to the level. */
static double beta_of(const struct inversion_settings *s, double hz, double share)
{
    double inside = fmin(fmax(hz, s->low_hz), s->high_hz);
    double beyond = hz > 0 ? fabs(log2(hz / inside)) / FADE_OCTAVES : s->low_hz > 0;
    double db = -s->regularise_db + (OUTSIDE_DB + s->regularise_db) * fmin(beyond, 1);
    /* With g / share^2 the gain is share^3 / (share^4 + g). Its maximum, 3^(3/4) / 4 g^(-1/4), is the limit. The
     * gain is 0 at a zero of the response, where the phase turns: a gain of any other size would step there. */
    double weak = pow(pow(3, 0.75) / 4 / pow(10, s->boost_db / 20), 4);
    return pow(10, db / 10) + weak / fmax(share * share, 1e-100);
}

static void invert(const struct inversion_settings *s, const struct transform *t, const double complex *response,
                   double complex *bins)
{
    double bin_hz = (double)s->rate / (double)t->size, level = response_level(response, bin_hz, s);
    for (size_t k = 0; k <= t->size / 2; k++) {
        double power = bin_power(response[k]), beta = level * beta_of(s, (double)k * bin_hz, sqrt(power / level));
        bins[k] = power + beta > 0 ? conj(response[k]) / (power + beta) : 0;
    }
    transform_delay(t, bins, s->delay);
}

/* Measures the inverse. bins: the spectrum of the inverse, overwritten. */
static void measure_inverse(const struct inversion_settings *s, const struct transform *t,
                            const double complex *response, double complex *bins, struct inversion_figures *figures)
{
    double bin_hz = (double)s->rate / (double)t->size, error = 0, max = 0;
    int n = 0;
    transform_delay(t, bins, -s->delay);
    for (size_t k = 0; k <= t->size / 2; k++) {
        double hz = (double)k * bin_hz;
        max = fmax(max, bin_power(bins[k]));
        if (hz < s->low_hz || hz > s->high_hz) continue;
        error += bin_power(response[k] * bins[k] - 1);
        n++;
    }
    figures->error_db = 10 * log10(error / fmax(n, 1) + 1e-40);
    figures->largest_gain_db = 10 * log10(max);
}

bool inversion_make(const struct inversion_settings *s, const float *response, int n, double *h,
                    struct inversion_figures *figures)
{
    struct transform t;
    size_t size = magnitude_fir_size(s->taps, s->rate), whole = transform_size((size_t)n + (size_t)s->taps);
    if (!transform_open(&t, size > whole ? size : whole)) return false;
    double complex *spectrum = malloc((t.size / 2 + 1) * sizeof *spectrum);
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins);
    bool good = spectrum && bins;
    if (good) {
        int fade = s->taps / 16, before = s->delay / 4 < fade ? s->delay / 4 : fade;
        transform_response_float(&t, response, (size_t)n, spectrum);
        invert(s, &t, spectrum, bins);
        magnitude_taps(&t, bins, s->taps, h);
        taps_fade_in(h, before);
        taps_fade_out(h + s->taps - fade, fade);
        transform_response(&t, h, (size_t)s->taps, bins);
        measure_inverse(s, &t, spectrum, bins, figures);
    }
    free(spectrum);
    free(bins);
    transform_close(&t);
    return good;
}
