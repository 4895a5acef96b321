#include "resample.h"

#include "dsp/base/error.h"
#include "mask_file.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef HC_WITH_SOXR
#include <soxr.h>
#endif

enum {
    MAX_RATIO = 256,    /* largest ratio of two rates; a larger one is a mistake, and soxr needs minutes     */
    BATCH = 64,         /* channels of one call of soxr, which share its filter; more would need more memory */
    SHORT_FRAMES = 512, /* up to this length, resample_by_sums is faster than soxr                           */
};

int resample_length(int from, int to, int n, const char *path, int *length, struct reason *why)
{
#ifndef HC_WITH_SOXR
    (void)n, (void)length;
    return fail(HC_EUNSUPPORTED, why,
                "%s: has %d Hz, but the session has %d Hz, and this build has no resampler; build it with soxr, or "
                "resample the mask",
                path, from, to);
#endif
    double ratio = (double)to / from, frames = ceil((double)n * to / from);
    if (!(ratio <= MAX_RATIO && ratio >= 1.0 / MAX_RATIO))
        return fail(HC_EINVAL, why, "%s: %d Hz are too far from %d Hz to be resampled; check the rate in its header",
                    path, from, to);
    if (!(frames <= (double)MASK_MAX_SAMPLES))
        return fail(HC_EINVAL, why, "%s: %d frames of %d Hz are too many at %d Hz; cut the mask", path, n, from, to);
    *length = (int)frames;
    return HC_OK;
}

#ifdef HC_WITH_SOXR
static int resample_in_batches(int from, int to, int n_channels, const float *const *in, int n, float *const *out,
                               int length, const char *path, struct reason *why)
{
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_VHQ, 0);
    soxr_io_spec_t planar = soxr_io_spec(SOXR_FLOAT32_S, SOXR_FLOAT32_S);
    double ratio = (double)to / from;
    for (int first = 0; first < n_channels; first += BATCH) {
        int end = first + BATCH < n_channels ? first + BATCH : n_channels;
        size_t done = 0;
        soxr_error_t problem = soxr_oneshot(from, to, (unsigned)(end - first), in + first, (size_t)n, NULL,
                                            (soxr_out_t)(out + first), (size_t)length, &done, &planar, &quality, NULL);
        if (problem)
            return fail(HC_EINVAL, why, "%s: cannot be resampled from %d to %d Hz (%s); resample it yourself", path,
                        from, to, problem);
        for (int ch = first; ch < end; ch++) {
            for (size_t frame = 0; frame < done; frame++) out[ch][frame] = (float)(out[ch][frame] / ratio);
            memset(out[ch] + done, 0, ((size_t)length - done) * sizeof **out);
        }
    }
    return HC_OK;
}

/* Resamples the unit impulse at each of the n frames; every channel is a weighted sum of the results. soxr needs 0.24
 * ms even for a short channel, and a packed matrix may have a million channels. */
static int resample_by_sums(int from, int to, int n_channels, const float *const *in, int n, float *const *out,
                            int length, const char *path, struct reason *why)
{
    size_t width = (size_t)length;
    float *ones = calloc((size_t)n * 2, sizeof *ones), *columns = calloc((size_t)n * width, sizeof *columns);
    const float **one = calloc((size_t)n, sizeof *one);
    float **column = calloc((size_t)n, sizeof *column);
    double *sum = calloc(width, sizeof *sum);
    int error = ones && columns && one && column && sum
                    ? HC_OK
                    : fail(HC_ENOMEM, why, "%s: no memory to resample; use a shorter mask", path);
    for (int k = 0; !error && k < n; k++) {
        one[k] = ones + n - k; /* points into the zeros of `ones`, so that the 1 is at frame k */
        column[k] = columns + (size_t)k * width;
    }
    if (!error) ones[n] = 1;
    if (!error) error = resample_in_batches(from, to, n, one, n, column, length, path, why);
    for (int ch = 0; !error && ch < n_channels; ch++) {
        memset(sum, 0, width * sizeof *sum);
        for (int k = 0; k < n; k++)
            for (size_t frame = 0; frame < width; frame++) sum[frame] += (double)in[ch][k] * (double)column[k][frame];
        for (size_t frame = 0; frame < width; frame++) out[ch][frame] = (float)sum[frame];
    }
    free(sum);
    free(column);
    free(one);
    free(columns);
    free(ones);
    return error;
}

int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, struct reason *why)
{
    bool many = n <= SHORT_FRAMES && length <= 4 * SHORT_FRAMES && n_channels > 4 * n;
    int error = (many ? resample_by_sums : resample_in_batches)(from, to, n_channels, in, n, out, length, path, why);
    for (int ch = 0; !error && ch < n_channels; ch++)
        for (int i = 0; !error && i < length; i++)
            if (!isfinite(out[ch][i])) /* an interpolated value may be larger than the samples around it */
                error = fail(HC_EINVAL, why, "%s: exceeds the range of a float at %d Hz; scale the mask", path, to);
    return error;
}
#else
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, struct reason *why)
{
    (void)n_channels, (void)in, (void)out;
    return resample_length(from, to, n, path, &length, why);
}
#endif
