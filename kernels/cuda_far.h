/* cuda_far - a plan with far levels (far_levels.h): its masks and its calls. Picture in cuda_far.cu. */
#ifndef HALOCONV_CUDA_FAR_H
#define HALOCONV_CUDA_FAR_H

#include "cuda_state.h"

/* Fill m, which is zeroed; it is freed as any other. noise: instead of matrix->taps, or NULL. */
int cuda_far_mask_make(struct state *s, const struct matrix *matrix, const struct noise *noise, struct mask *m,
                       char *why, size_t cap);
/* As in struct backend; of a plan without far levels a mask is always ready. */
void cuda_mask_warm(void *state, void *mask);
bool cuda_mask_ready(void *state, const void *mask);
void cuda_mask_rest(void *state, void *mask);

int cuda_far_process(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap);

#endif
