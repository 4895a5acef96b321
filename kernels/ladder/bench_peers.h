/* bench_peers - the libraries with which the ladder is compared. Each is opened at run time, if it is installed.
 *
 * The convolutions of cuDNN and cuFFT are written as rungs, so that the bench checks and times them like the others.
 * Their prepare, which is not timed, copies the input to the form that they need. */
#ifndef HALOCONV_BENCH_PEERS_H
#define HALOCONV_BENCH_PEERS_H

#include "ladder.h"

extern const struct rung peer_cudnn; /* best algorithm of cudnnConvolutionForward, fp32, no TF32            */
extern const struct rung peer_cufft; /* overlap-save in batched R2C and C2R, best segment length            */

/* NULL: the library is installed. Otherwise why it cannot be used. */
const char *peer_cudnn_missing(void);
const char *peer_cufft_missing(void);
const char *peer_cublas_missing(void);

/* One product of n x n matrices in fp32, no TF32, on the default stream; c = a b. */
cudaError_t peer_sgemm(int n, const float *a, const float *b, float *c);

/* The choice that prepare made for the last task: "1048576 points, 1 group". */
const char *peer_choice(void);

#endif
