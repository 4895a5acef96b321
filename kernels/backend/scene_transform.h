/* scene_transform - the transforms of moving sources. Picture in scene_transform.cu. A spectrum is [P] float2 as in
 * fft_teams.cuh, tw a table of fft_factors.h. */
#ifndef HALOCONV_SCENE_TRANSFORM_H
#define HALOCONV_SCENE_TRANSFORM_H

#include "dsp/device/scene_plan.h"

#include <cuda_runtime.h>
#include <stddef.h>

struct scene_forward {              /* x[source] = transform of 2P frames from `from` on                              */
    const float2 *tw;
    float *ring;                    /* [n_sources][ring_mask + 1], frame f at f & ring_mask                           */
    unsigned ring_mask, from;
    /* Window frames [new_at, new_at + n_new) come from `receive` and are stored in the ring; later frames are zeros. */
    const float *receive;           /* [n_sources][n_new]                                                             */
    int new_at, n_new;
    int n_sources, log2_P;
    float2 *x;                      /* [n_sources][P]: an entry of the FDL                                            */
};

struct scene_window {               /* y[out] = the last n frames of the inverse of sums[out]                         */
    const float2 *tw, *sums;        /* [n_out][P]                                                                     */
    float *y;                       /* [n_out][n]                                                                     */
    int n_out, log2_P, n;
};

struct scene_tail_windows {         /* two windows of a tail level that overlap by `fade` frames                      */
    const float *now, *before;      /* [n_out][hop + fade]; NULL: silence                                             */
    int n_now, n_before;            /* number of outputs of each window                                               */
    int at, hop, fade;              /* `at`: the frame of `now` at which the block starts                             */
};

struct scene_output {               /* out[o][i] = faded head + tails, at frame at + i of the block                   */
    const float2 *tw, *sums;        /* [n_lists][n_out][P]                                                            */
    int n_lists;                    /* 2: a fade from the first to the second                                         */
    int n_out, log2_P, block, fade; /* block <= P                                                                    */
    int at, n;
    float *out;                     /* [n_out][block], the host's pinned memory                                       */
    int n_tails;
    struct scene_tail_windows tails[HC_MAX_STEER_LEVELS];
};

cudaError_t scene_forward_launch(const struct scene_forward *job, cudaStream_t stream);
cudaError_t scene_window_launch(const struct scene_window *job, cudaStream_t stream);
cudaError_t scene_output_launch(const struct scene_output *job, cudaStream_t stream);
cudaError_t scene_transform_load(void); /* before the first launch on a device */

#endif
