/* tail_transform_many - the transforms of tail_transform.h for a level with so many channels that it fills the device
 * alone. The launches of tail_transform.h call these launches. Picture in tail_transform_many.cu. */
#ifndef HALOCONV_TAIL_TRANSFORM_MANY_H
#define HALOCONV_TAIL_TRANSFORM_MANY_H

#include "tail_transform.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Do n transforms fill the device? If not, the launches below must not be called. */
bool tail_are_many(int n, int log2_size, int n_sm);
cudaError_t tail_forward_many_launch(const struct tail_forward *level, const float *x, unsigned ring_mask,
                                    cudaStream_t stream);
cudaError_t tail_inverse_many_launch(const struct tail_inverse *level, cudaStream_t stream);
cudaError_t tail_transform_many_load(void);

#ifdef __cplusplus
}
#endif

#endif
