/* far_transform_many - the transforms of far_transform.h for one level with so many channels that they fill the device
 * by themselves. The launches of far_transform.h come here by themselves. Picture in far_transform_many.cu. */
#ifndef HALOCONV_FAR_TRANSFORM_MANY_H
#define HALOCONV_FAR_TRANSFORM_MANY_H

#include "far_transform.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Are so many transforms enough? Else the launches are not to be called. */
bool far_are_many(int n, int log2_size, int n_sm);
cudaError_t far_forward_many_launch(const struct far_forward *level, const float *x, unsigned ring_mask,
                                    cudaStream_t stream);
cudaError_t far_inverse_many_launch(const struct far_inverse *level, cudaStream_t stream);
cudaError_t far_transform_many_load(void);

#ifdef __cplusplus
}
#endif

#endif
