/* head_sparse - the head of many outputs that share no inputs; head_launch calls it. Picture and cost in
 * head_sparse.cu. */
#ifndef HALOCONV_HEAD_SPARSE_H
#define HALOCONV_HEAD_SPARSE_H

#include "head.h"

cudaError_t head_sparse_launch(const struct head_job *job, cudaStream_t stream);
cudaError_t head_sparse_load(void);

#endif
