/* bank_gain - the largest gain for a sine over all responses of a bank.
 *
 * A transform of at least four times the length finds each maximum to 0.69 dB: between two bins the magnitude falls no
 * faster than a cosine (see dsp/signal/sine_gain.h), so no lower than cos(pi / 8). The responses that can have
 * the largest gain are then measured to 0.001 dB by sine_gain_find.
 */
#include "bank.h"
#include "dsp/base/error.h"
#include "dsp/signal/sine_gain.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <stdlib.h>

static const double min_share = 0.9238; /* cos(pi / 8) */

/* Computes peaks[n], the largest magnitude of each response's bins. Returns false if there is no memory. */
static bool find_peaks(const struct bank *bank, size_t n, double *peaks)
{
    struct transform transform;
    if (!transform_open(&transform, transform_size(4 * (size_t)bank->n_taps))) return false;
    double complex *bins = malloc((transform.size / 2 + 1) * sizeof *bins);
    for (size_t i = 0; i < n && bins; i++) {
        double max = 0;
        transform_response_float(&transform, bank->taps + i * (size_t)bank->n_taps, (size_t)bank->n_taps, bins);
        for (size_t k = 0; k <= transform.size / 2; k++) max = fmax(max, bin_power(bins[k]));
        peaks[i] = sqrt(max);
    }
    free(bins);
    transform_close(&transform);
    return bins != NULL;
}

/* Measures responses exactly, largest peak first, until no other response can be larger. */
static bool measure_largest(const struct bank *bank, size_t n, double *peaks, double *gain)
{
    for (*gain = 0;;) {
        size_t largest = 0;
        for (size_t i = 1; i < n; i++)
            if (peaks[i] > peaks[largest]) largest = i;
        if (!(peaks[largest] > 0) || peaks[largest] < *gain * min_share) return true;
        struct sine_gain result;
        struct sine_gain_part part = {bank->taps + largest * (size_t)bank->n_taps, bank->n_taps, 1};
        if (!sine_gain_find(&part, 1, &result)) return false;
        *gain = fmax(*gain, result.gain);
        peaks[largest] = 0;
    }
}

int bank_gain(const struct bank *bank, double *gain, const char *path, struct reason *why)
{
    size_t n = (size_t)bank->n_entries * (size_t)bank->n_out;
    double *peaks = malloc(n * sizeof *peaks);
    bool good = peaks && find_peaks(bank, n, peaks) && measure_largest(bank, n, peaks, gain);
    free(peaks);
    return good ? HC_OK : fail(HC_ENOMEM, why, "%s: no memory to measure its gain; free some memory", path);
}
