/* bank - the arrays of a bank while it is read; the steps that change all responses: delay, rate; the largest gain. */
#include "bank.h"

#include "alignment.h"
#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/masks/mask_file.h"
#include "dsp/masks/resample.h"
#include "dsp/signal/sine_gain.h"
#include "dsp/signal/transform.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bank_free(struct bank *bank)
{
    free(bank->taps);
    free(bank->position);
    free(bank->onsets);
    *bank = (struct bank){0};
}

void bank_note(struct bank *bank, const char *format, ...)
{
    size_t at = strlen(bank->notes);
    va_list values;
    va_start(values, format);
    int n = vsnprintf(bank->notes + at, sizeof bank->notes - at, format, values);
    va_end(values);
    if (n < 0 || at + (size_t)n + 2 > sizeof bank->notes)
        bank->notes[at] = 0; /* notes[] is full: drop the line */
    else
        memcpy(bank->notes + at + n, "\n", 2);
}

void position_from_angles(double azimuth, double elevation, double distance, double position[3])
{
    double az = azimuth * (M_PI / 180), el = elevation * (M_PI / 180);
    position[0] = distance * cos(az) * cos(el);
    position[1] = distance * sin(az) * cos(el);
    position[2] = distance * sin(el);
}

int bank_make(struct bank *bank, size_t n_entries, size_t n_out, size_t n_taps, double bytes_beside, const char *path,
              struct reason *why)
{
    if (n_entries < 1 || n_entries > BANK_MAX_ENTRIES)
        return fail(HC_EINVAL, why, "%s: has %zu entries; give a bank 1 to %d", path, n_entries, BANK_MAX_ENTRIES);
    if (n_out < 1 || n_out > BANK_MAX_OUTPUTS)
        return fail(HC_EINVAL, why, "%s: has responses to %zu outputs; give a bank 1 to %d", path, n_out,
                    BANK_MAX_OUTPUTS);
    if (n_taps < 1 || n_taps > MASK_MAX_TAPS)
        return fail(HC_EINVAL, why, "%s: has responses of %zu taps; give a bank 1 to %d", path, n_taps, MASK_MAX_TAPS);
    double bytes = (double)n_entries * (double)n_out * (double)n_taps * sizeof(float), limit = (double)memory_limit();
    if (bytes + bytes_beside > limit)
        return fail(HC_ENOMEM, why,
                    "%s: %zu entries x %zu outputs x %zu taps need %.1f GB, but three quarters of this machine's "
                    "memory are %.1f GB; use fewer or shorter responses",
                    path, n_entries, n_out, n_taps, (bytes + bytes_beside) / 1e9, limit / 1e9);
    float *taps = bank->sizes_only ? NULL : calloc(n_entries * n_out * n_taps, sizeof *taps);
    if (!taps && !bank->sizes_only)
        return fail(HC_ENOMEM, why, "%s: no memory for %.1f GB of responses; free some memory", path, bytes / 1e9);
    bank->taps = taps;
    bank->n_entries = (int)n_entries;
    bank->n_out = (int)n_out;
    bank->n_taps = (int)n_taps;
    return HC_OK;
}

/* Makes a bank of zeros with the same entries and n_taps taps. replace_taps() later moves the taps to the old bank. */
static int make_longer(const struct bank *bank, size_t n_taps, struct bank *longer, const char *path,
                       struct reason *why)
{
    double old = (double)bank->n_entries * bank->n_out * bank->n_taps * sizeof(float);
    *longer = (struct bank){.sizes_only = bank->sizes_only};
    return bank_make(longer, (size_t)bank->n_entries, (size_t)bank->n_out, n_taps, old, path, why);
}

static void replace_taps(struct bank *bank, struct bank *from)
{
    free(bank->taps);
    bank->taps = from->taps;
    bank->n_taps = from->n_taps;
}

int bank_delay(struct bank *bank, const double *delays, const char *path, struct reason *why)
{
    size_t n = (size_t)bank->n_entries * (size_t)bank->n_out;
    double max = 0;
    bool whole = true;
    for (size_t i = 0; i < n; i++) {
        max = fmax(max, delays[i]);
        whole = whole && delays[i] == floor(delays[i]);
    }
    struct bank later;
    size_t longer = (size_t)ceil(max) + (whole ? 0 : FRACTIONAL_DELAY_HALF);
    int error = make_longer(bank, (size_t)bank->n_taps + longer, &later, path, why);
    if (error) return error;
    for (size_t i = 0; i < n && !bank->sizes_only; i++)
        fractional_delay_add(bank->taps + i * (size_t)bank->n_taps, (size_t)bank->n_taps, delays[i], 1,
                             later.taps + i * (size_t)later.n_taps, (size_t)later.n_taps);
    replace_taps(bank, &later);
    return HC_OK;
}

int bank_onsets(struct bank *bank, const char *path, struct reason *why)
{
    size_t n = (size_t)bank->n_entries * (size_t)bank->n_out;
    bank->onsets = malloc(n * sizeof *bank->onsets);
    int error = bank->onsets ? HC_OK : HC_ENOMEM;
    for (size_t i = 0; i < n && !error; i++)
        error = onset_find(bank->taps + i * (size_t)bank->n_taps, bank->n_taps, bank->rate, &bank->onsets[i]);
    return error ? fail(error, why, "%s: no memory for the onsets of %zu responses; free some memory", path, n) : HC_OK;
}

double bank_onset_spread(const struct bank *bank, const int *entries, int n)
{
    double max = 0;
    for (int out = 0; out < bank->n_out; out++) {
        double first = INFINITY, last = -INFINITY;
        for (int i = 0; i < n; i++) {
            double onset = bank->onsets[(size_t)(entries ? entries[i] : i) * (size_t)bank->n_out + (size_t)out];
            first = fmin(first, onset); /* fmin ignores NaN */
            last = fmax(last, onset);
        }
        max = fmax(max, last - first);
    }
    return max / (bank->rate ? bank->rate : 48000);
}

int bank_check_finite(const struct bank *bank, const char *path, struct reason *why)
{
    for (int i = 0; i < bank->n_entries * bank->n_out; i++) {
        const float *taps = bank->taps + (size_t)i * (size_t)bank->n_taps;
        for (int k = 0; k < bank->n_taps; k++)
            if (!isfinite(taps[k]))
                return fail(HC_EINVAL, why,
                            "%s: entry %d, output %d: tap %d is too large for a float once the response is delayed; "
                            "scale the responses down",
                            path, i / bank->n_out, i % bank->n_out, k + 1);
    }
    return HC_OK;
}

int bank_resample(struct bank *bank, int rate, const char *path, struct reason *why)
{
    enum { AT_ONCE = 64 }; /* channels of one call: they share the filter's design, but soxr copies each */
    int length = 0, n = bank->n_entries * bank->n_out;
    struct bank resampled;
    int error = resample_length(bank->rate, rate, bank->n_taps, path, &length, why);
    if (!error) error = make_longer(bank, (size_t)length, &resampled, path, why);
    if (error) return error;
    for (int i = 0; i < n && !error; i += AT_ONCE) {
        const float *in[AT_ONCE];
        float *out[AT_ONCE];
        int count = n - i < AT_ONCE ? n - i : AT_ONCE;
        for (int c = 0; c < count; c++) {
            in[c] = bank->taps + (size_t)(i + c) * (size_t)bank->n_taps;
            out[c] = resampled.taps + (size_t)(i + c) * (size_t)length;
        }
        error = resample(bank->rate, rate, count, in, bank->n_taps, out, length, path, why);
    }
    if (error) {
        bank_free(&resampled);
        return error;
    }
    bank_note(bank, "resampled from %d to %d Hz", bank->rate, rate);
    replace_taps(bank, &resampled);
    bank->rate = rate;
    return HC_OK;
}

/* ---- the largest gain -------------------------------------------------------------------------------------------- */

/* The largest gain for a sine over all responses. A transform of at least four times the length finds each maximum to
 * 0.69 dB: between two bins the magnitude falls no faster than a cosine (see dsp/signal/sine_gain.h), so no lower than
 * cos(pi / 8). The responses that can have the largest gain are then measured to 0.001 dB by sine_gain_find. */
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
