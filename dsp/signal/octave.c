#include "octave.h"

#include <math.h>
#include <stdlib.h>

const int octave_hz[OCTAVES] = {63, 125, 250, 500, 1000, 2000, 4000, 8000};

static double ratio(void) /* ratio of neighbouring midband frequencies: IEC 61260-1:2014, 5.2 */
{
    return pow(10, 0.3);
}

static double midband(int hz) /* the exact frequency; 5.4 */
{
    return 1000 * pow(ratio(), round(log2(hz / 1000.0)));
}

double octave_bandwidth(int hz)
{
    return midband(hz) * (sqrt(ratio()) - 1 / sqrt(ratio()));
}

double octave_delay(int hz)
{
    return 2.25 / (M_PI * octave_bandwidth(hz)); /* the centre of energy of the filter's response */
}

bool octave_fits(int hz, int rate)
{
    return midband(hz) * sqrt(ratio()) < rate / 2.0;
}

bool octave_open(struct octave_bank *bank, const double *h, int n, int rate)
{
    int ringing = (int)(40 / (M_PI * octave_bandwidth(octave_hz[0])) * rate); /* frames to a fall of 120 dB */
    *bank = (struct octave_bank){.rate = rate, .n = n, .size = transform_size((size_t)n + ringing)};
    size_t bytes = (bank->size / 2 + 1) * sizeof *bank->band;
    if (!transform_open(&bank->transform, bank->size)) return false;
    bank->spectrum = malloc(bytes);
    bank->band = malloc(bytes);
    if (!bank->spectrum || !bank->band) {
        octave_close(bank);
        return false;
    }
    transform_response(&bank->transform, h, (size_t)n, bank->spectrum);
    return true;
}

void octave_close(struct octave_bank *bank)
{
    free(bank->spectrum);
    free(bank->band);
    transform_close(&bank->transform);
    *bank = (struct octave_bank){0};
}

const double *octave_filter(struct octave_bank *bank, int hz)
{
    double middle = midband(hz), q = middle / octave_bandwidth(hz);
    bank->band[0] = 0;
    for (size_t k = 1; k <= bank->size / 2; k++) {
        double f = (double)k * bank->rate / (double)bank->size;
        double v = q * (f / middle - middle / f);
        double complex poles = CMPLX(1 - 2 * v * v, v * (2 - v * v));   /* (s + 1) (s^2 + s + 1) at s = i v */
        bank->band[k] = bank->spectrum[k] * (poles / bin_power(poles)); /* conj(1 / poles): runs backwards */
    }
    transform_inverse(&bank->transform, bank->band);
    return (const double *)bank->band;
}
