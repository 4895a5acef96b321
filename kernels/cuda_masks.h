/* cuda_masks - masks on the device, made from the host's memory or of noise. Stream `setup`, beside process. */
#ifndef HALOCONV_CUDA_MASKS_H
#define HALOCONV_CUDA_MASKS_H

#include "cuda_state.h"

/* The way of partitions to the device, for a plan without far levels: s->half, pinned, left. */
int cuda_staging_open(struct state *s, const hc_config *config, char *why, size_t cap);
void cuda_staging_close(struct state *s);

int cuda_mask_make(void *state, const struct matrix *matrix, void **mask, char *why, size_t cap);
int cuda_mask_make_noise(void *state, const struct noise *noise, void **mask, char *why, size_t cap);
void cuda_mask_free(void *state, void *mask);

#endif
