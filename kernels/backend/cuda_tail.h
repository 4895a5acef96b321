/* cuda_tail - the masks and calls of a plan with tail levels (tail_levels.h). Picture in cuda_tail.cu. */
#ifndef HALOCONV_CUDA_TAIL_H
#define HALOCONV_CUDA_TAIL_H

#include "cuda_live.h"
#include "dsp/base/error.h"

/* Fills m, which is all zero; after an error too, cuda_mask_free frees it. noise: the taps, instead of matrix->taps; or
 * NULL. */
int cuda_tail_mask_make(struct state *s, const struct matrix *matrix, const struct noise *noise, struct mask *m,
                        struct reason *why);
/* As in struct backend; also for plans without tail levels, whose masks are always ready. */
void cuda_mask_prepare(void *state, void *mask);
bool cuda_mask_ready(void *state, const void *mask);
void cuda_mask_retire(void *state, void *mask);

int cuda_tail_process(struct state *s, struct slot *slot, int n, const struct fade *fade, struct reason *why);

#endif
