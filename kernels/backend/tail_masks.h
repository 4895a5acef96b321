/* tail_masks - makes the masks of tail_levels.h, in parallel with calls that play other masks. */
#ifndef HALOCONV_TAIL_MASKS_H
#define HALOCONV_TAIL_MASKS_H

#include "dsp/device/backend.h"
#include "tail_levels.h"

cudaError_t gpu_tail_masks_load(void); /* before the first mask on a device */
/* Fills *mask, which is all zero, and waits for the stream. noise: replaces matrix->taps, unless NULL. Even after an
 * error, the caller frees mask->memory. */
int gpu_tail_mask_make(struct gpu_tail_mask *mask, const struct gpu_tail *tail, const struct matrix *matrix,
                       const struct noise *noise, cudaStream_t stream, struct reason *why);
/* Copies bytes to the device through tail->pinned. */
cudaError_t gpu_tail_send(const struct gpu_tail *tail, void *to, const void *host, size_t bytes, cudaStream_t stream);

#endif
