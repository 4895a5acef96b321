/* tail_transform - the transforms of tail levels, for all levels of a hop in one launch. Picture in tail_transform.cu.
 * S is the level's partition size, 32 to TAIL_SIZE_MAX; a spectrum is [S] float2 as in fft_teams.cuh, tw a table of
 * fft_factors.h. */
#ifndef HALOCONV_TAIL_TRANSFORM_H
#define HALOCONV_TAIL_TRANSFORM_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TAIL_SIZE_MIN = 32,
    TAIL_SIZE_MAX = 8192,
    TAIL_LEVELS = 10         /* one for each size; one more for the first partition of a plan with whole_hops       */
};

struct tail_forward {         /* spectra[ch][entry] = transform of 2S frames from `from` on, of n_ch channels        */
    const float2 *tw;
    float2 *spectra;          /* [n_in][n_entries][S]: the level's FDL                                              */
    int log2_size, first_ch, n_ch;
    int entry, n_entries;
    unsigned from;
};

struct tail_inverse {         /* due[out][at + i] = frame S + i of the inverse of sums[out], i < S                   */
    const float2 *tw;
    const float2 *sums;       /* [out][S]                                                                           */
    float *due;               /* [out][2S]: a ring                                                                  */
    int log2_size, first_out, n_out;
    unsigned at;
};

struct tail_forwards {
    const float *x;           /* row ch at x + ch * (ring_mask + 1), frame f at f & ring_mask                        */
    unsigned ring_mask;
    int n;
    struct tail_forward level[TAIL_LEVELS];
    int first_block[TAIL_LEVELS + 1]; /* for the kernel; the caller does not set it                                 */
};

struct tail_inverses {
    int n;
    struct tail_inverse level[TAIL_LEVELS];
    int first_block[TAIL_LEVELS + 1]; /* for the kernel; the caller does not set it                                 */
};

cudaError_t tail_transform_load(void); /* before the first launch on a device                                         */
cudaError_t tail_forward_launch(const struct tail_forwards *job, cudaStream_t stream);
cudaError_t tail_inverse_launch(const struct tail_inverses *job, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
