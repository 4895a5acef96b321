/* bench_peers - the libraries that the ladder is measured against, each opened at run time if it is there.
 *
 * The two convolutions are written as rungs, so that the bench checks and times them as any other. They get their input
 * in the form that suits them, copied by prepare, which is not timed. */
#ifndef HALOCONV_BENCH_PEERS_H
#define HALOCONV_BENCH_PEERS_H

#include "ladder.h"

extern const struct rung peer_cudnn; /* best algorithm of cudnnConvolutionForward, fp32, no TF32            */
extern const struct rung peer_cufft; /* overlap-save in batched R2C and C2R, best segment length            */

/* NULL: it is there. Otherwise why it is not. */
const char *peer_cudnn_missing(void);
const char *peer_cufft_missing(void);
const char *peer_cublas_missing(void);

/* One product of n x n matrices in fp32, no TF32, on the default stream; c = a b. */
cudaError_t peer_sgemm(int n, const float *a, const float *b, float *c);

/* What prepare chose for the last task, in words: "1048576 points, 1 group". */
const char *peer_choice(void);

#endif
