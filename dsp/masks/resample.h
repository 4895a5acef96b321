/* resample - converts responses to another sample rate, with soxr. */
#ifndef HALOCONV_RESAMPLE_H
#define HALOCONV_RESAMPLE_H

#include "dsp/base/error.h"

/* Computes the number of frames that n frames of `from` Hz become at `to` Hz. HC_EINVAL: the rates are too far apart,
 * or the frames too many; HC_EUNSUPPORTED: this build cannot resample. path: for the message. */
int resample_length(int from, int to, int n, const char *path, int *length, struct reason *why);

/* Converts in[n_channels][n] to out[n_channels][length], with length from resample_length. soxr's filter has linear
 * phase and its delay is compensated: a peak keeps its time. Scales by from / to: a response at twice the rate has
 * twice the samples, and each sample is half as large. Channels of one call share the design of the filter. HC_EINVAL:
 * a result is out of the range of a float; HC_ENOMEM. path: for the message. */
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, struct reason *why);

#endif
