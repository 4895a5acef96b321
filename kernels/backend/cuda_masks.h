/* cuda_masks - makes masks on the device, from taps in host memory or from noise, on stream `setup`, in parallel with
 * process. */
#ifndef HALOCONV_CUDA_MASKS_H
#define HALOCONV_CUDA_MASKS_H

#include "cuda_live.h"
#include "dsp/base/error.h"

/* Allocates and frees s->pinned and its events, in which masks of a plan without tail levels are packed. */
int cuda_staging_open(struct state *s, const hc_config *config, struct reason *why);
void cuda_staging_close(struct state *s);

int cuda_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why);
int cuda_mask_make_noise(void *state, const struct noise *noise, void **mask, struct reason *why);
void cuda_mask_free(void *state, void *mask);

#endif
