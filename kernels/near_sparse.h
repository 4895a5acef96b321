/* near_sparse - the near taps of many outputs that share no inputs; near_launch comes here by itself. Picture and cost
 * in near_sparse.cu. */
#ifndef HALOCONV_NEAR_SPARSE_H
#define HALOCONV_NEAR_SPARSE_H

#include "near.h"

cudaError_t near_sparse_launch(const struct near_job *job, cudaStream_t stream);
cudaError_t near_sparse_load(void);

#endif
