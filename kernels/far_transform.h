/* far_transform - transforms for the far levels of a plan, all levels of a tick in one launch. Picture in far_transform.cu.
 * Spectra are [S] float2 in the layout of fft_block.cuh; S is the level's partition, 32 to FAR_SIZE_MOST. */
#ifndef HALOCONV_FAR_TRANSFORM_H
#define HALOCONV_FAR_TRANSFORM_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FAR_SIZE_LEAST = 32,
    FAR_SIZE_MOST = 8192,
    FAR_LEVELS = 10           /* a size each, one more for a near level that counts as far                          */
};

struct far_forward {          /* spectra[ch][slot] = transform of frames from ... from + 2S - 1 of n_ch channels        */
    const float2 *tw;         /* [S]                                                                                */
    float2 *spectra;          /* [n_in][n_slots][S]                                                                 */
    int log2_size, first_ch, n_ch;
    int slot, n_slots;
    unsigned from;            /* even                                                                               */
};

struct far_inverse {          /* due[out][at + i] = frame S + i of the inverse of sums[out], i < S                      */
    const float2 *tw;
    const float2 *sums;       /* [out][S]                                                                           */
    float *due;               /* [out][2S]: a ring                                                                  */
    int log2_size, first_out, n_out;
    unsigned at;
};

struct far_forwards {
    const float *x;           /* row ch at x + ch * (ring_mask + 1), frame f at f & ring_mask                        */
    unsigned ring_mask;
    int n;
    struct far_forward level[FAR_LEVELS];
    int first_block[FAR_LEVELS + 1]; /* the launch's own, as in the other jobs; it may take levels out              */
};

struct far_inverses {
    int n;
    struct far_inverse level[FAR_LEVELS];
    int first_block[FAR_LEVELS + 1];
};

struct far_responses {        /* spectra[part_at[row] + p] = transform of taps offset + p S ... + S - 1 of a row, S zeros */
    const float *taps;        /* [n_rows][pitch], zeros behind the last tap; even pitch                              */
    size_t pitch;
    int n_rows;
    const int *n_parts, *part_at; /* [n_rows]; device memory                                                         */
    int most_parts, offset, log2_size;
    float2 *spectra;
    const float2 *tw;
};

cudaError_t far_transform_load(int device); /* before the first launch on a device                                    */
cudaError_t far_forward_launch(struct far_forwards *job, cudaStream_t stream);
cudaError_t far_inverse_launch(struct far_inverses *job, cudaStream_t stream);
cudaError_t far_responses_launch(const struct far_responses *job, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
