#include "resample.h"

#include "dsp/engine/backend.h"
#include "mask_file.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef HC_WITH_SOXR
#include <soxr.h>
#endif

enum {
    MAX_RATIO = 256, /* of two rates: beyond it soxr takes minutes, and the rate is a mistake                    */
    BATCH = 64,      /* channels of one soxr: they share the design of its filter; more would take more memory   */
    SHORT = 512,     /* frames: up to here the sums of by_columns take less time than soxr does                  */
};

int resample_length(int from, int to, int n, const char *path, int *length, char *why, size_t cap)
{
#ifndef HC_WITH_SOXR
    (void)n, (void)length;
    return fail(HC_EUNSUPPORTED, why, cap,
                "%s: has %d Hz, the session %d Hz, and this build has no resampler; build it "
                "with soxr or resample the mask",
                path, from, to);
#endif
    double ratio = (double)to / from, frames = ceil((double)n * to / from);
    if (!(ratio <= MAX_RATIO && ratio >= 1.0 / MAX_RATIO))
        return fail(HC_EINVAL, why, cap,
                    "%s: %d Hz are too far from %d Hz to be resampled; check the rate in its header", path, from, to);
    if (!(frames <= (double)MASK_MAX_SAMPLES))
        return fail(HC_EINVAL, why, cap, "%s: %d frames of %d Hz are too many at %d Hz; cut the mask", path, n, from,
                    to);
    *length = (int)frames;
    return HC_OK;
}

#ifdef HC_WITH_SOXR
static int batch(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
                 const char *path, char *why, size_t cap)
{
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_VHQ, 0);
    soxr_io_spec_t planar = soxr_io_spec(SOXR_FLOAT32_S, SOXR_FLOAT32_S);
    size_t done = 0;
    soxr_error_t error = soxr_oneshot(from, to, (unsigned)n_channels, in, (size_t)n, NULL, (soxr_out_t)out,
                                      (size_t)length, &done, &planar, &quality, NULL);
    if (error)
        return fail(HC_EINVAL, why, cap, "%s: cannot be resampled from %d to %d Hz (%s); resample it yourself", path,
                    from, to, error);
    double ratio = (double)to / from;
    for (int ch = 0; ch < n_channels; ch++) {
        for (size_t frame = 0; frame < done; frame++) out[ch][frame] = (float)(out[ch][frame] / ratio);
        memset(out[ch] + done, 0, ((size_t)length - done) * sizeof **out);
    }
    return HC_OK;
}

static int batches(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
                   const char *path, char *why, size_t cap)
{
    int rc = HC_OK;
    for (int ch = 0; !rc && ch < n_channels; ch += BATCH)
        rc = batch(from, to, n_channels - ch < BATCH ? n_channels - ch : BATCH, in + ch, n, out + ch, length, path, why,
                   cap);
    return rc;
}

/* What becomes of a 1 in each frame is all there is to know: the rest is sums. soxr takes 0.24 ms for a channel however
 * short it is, and a packed matrix may have a million. */
static int by_columns(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
                      const char *path, char *why, size_t cap)
{
    size_t width = (size_t)length;
    float *ones = calloc((size_t)n * 2, sizeof *ones), *columns = calloc((size_t)n * width, sizeof *columns);
    const float **one = calloc((size_t)n, sizeof *one);
    float **column = calloc((size_t)n, sizeof *column);
    double *sum = calloc(width, sizeof *sum);
    int rc = ones && columns && one && column && sum
                 ? HC_OK
                 : fail(HC_ENOMEM, why, cap, "%s: no memory to resample; use a shorter mask", path);
    for (int k = 0; !rc && k < n; k++) {
        one[k] = ones + n - k; /* a window on the same zeros, with the 1 at frame k */
        column[k] = columns + (size_t)k * width;
    }
    if (!rc) ones[n] = 1;
    if (!rc) rc = batches(from, to, n, one, n, column, length, path, why, cap);
    for (int ch = 0; !rc && ch < n_channels; ch++) {
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
    return rc;
}

int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, char *why, size_t cap)
{
    bool many = n <= SHORT && length <= 4 * SHORT && n_channels > 4 * n;
    return (many ? by_columns : batches)(from, to, n_channels, in, n, out, length, path, why, cap);
}
#else
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, char *why, size_t cap)
{
    (void)n_channels, (void)in, (void)out;
    return resample_length(from, to, n, path, &length, why, cap);
}
#endif
