/* resample - responses at another sample rate, by soxr. */
#ifndef HALOCONV_RESAMPLE_H
#define HALOCONV_RESAMPLE_H

#include <stddef.h>

/* Frames that n frames of `from` Hz have at `to` Hz. HC_EINVAL: the rates are too far apart, or they are too many (path
 * is for the message); HC_EUNSUPPORTED: this build cannot resample. */
int resample_length(int from, int to, int n, const char *path, int *length, char *why, size_t cap);

/* in[n_channels][n] to out[n_channels][resample_length]. soxr's filter is of linear phase and its delay is compensated,
 * so that a peak keeps its time. A response samples h(t): at twice the rate it has twice the samples, and each counts
 * half. Many channels at once cost one design of the filter. */
int resample(int from, int to, int n_channels, const float *const *in, int n, float *const *out, int length,
             const char *path, char *why, size_t cap);

#endif
