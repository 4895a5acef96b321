/* noise - the noise of a file job, added to its convolution.
 *
 * The SNR is the power of the convolution in the written range, over the power of the noise in the same range; a power
 * is the mean square of all channels. A noise longer than the range is cut from a drawn frame on; a shorter one
 * is repeated from a drawn frame on. A noise of one channel is added to every channel; else it has as many as the
 * output. It is resampled to the rate of the input, and stays in the cache of masks as a whole.
 */
#ifndef NOISE_H
#define NOISE_H

#include "batch_mask.h"
#include "manifest.h"

struct batch_noise { /* start with zeros */
    struct batch_mask *file;  /* NULL: none */
    int n_channels;           /* channels of the output */
    int64_t start;            /* the drawn frame, at the rate of the input */
    double gain;              /* linear; 0 before noise_fit */
};

/* Opens a noise. false: why has the reason. */
bool noise_open(struct batch_noise *noise, struct cache *masks, const char *path, int rate, int n_channels, char *why,
                size_t cap);

/* Draws the start and finds the gain for n_frames of a sound, whose power is the mean square of its samples. false: the
 * noise is silent there; why has the reason. */
bool noise_fit(struct batch_noise *noise, const struct manifest_row *row, int64_t n_frames, double power, char *why,
               size_t cap);

/* Adds the noise to planar[n_channels][stride], which are n frames of the sound from frame `first` on. */
void noise_add(const struct batch_noise *noise, int64_t first, float *planar, int64_t stride, int64_t n);

void noise_close(struct batch_noise *noise, struct cache *masks);

#endif
