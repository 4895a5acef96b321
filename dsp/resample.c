#include "resample.h"

#include "backend.h"
#include "mask_file.h"

#include <math.h>
#include <string.h>
#ifdef HC_WITH_SOXR
#include <soxr.h>
#endif

enum { MAX_RATIO = 256 }; /* of two rates: beyond it soxr takes minutes, and the rate is a mistake */

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
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
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
#else
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, char *why, size_t cap)
{
    (void)n_channels, (void)in, (void)out;
    return resample_length(from, to, n, path, &length, why, cap);
}
#endif
