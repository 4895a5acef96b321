/* scene_product - the sums of products of spectra for moving sources. Picture and cost in scene_product.cu. A spectrum
 * is [P] float2 as in fft_teams.cuh. */
#ifndef HALOCONV_SCENE_PRODUCT_H
#define HALOCONV_SCENE_PRODUCT_H

#include "dsp/device/scene_pieces.h"

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SCENE_PIECE_MAX = 16 };      /* sources of a piece                                                             */

/* sums[list][out] = sum over pieces and parts p of H[p][out] (sum over the piece's sources of weight X[entry - p]) */
struct scene_product {
    struct scene_list lists[2];     /* in device memory                                                               */
    int n_lists;
    const float2 *x;                /* [n_entries][n_sources][P]: the FDL                                             */
    int n_sources, entry, n_entries;
    int log2_P, n_parts, n_out;
    float2 *partial;                /* [n_lists][n_splits][n_out][P]                                                  */
    size_t capacity;                /* the size of `partial` in spectra                                               */
    float2 *sums;                   /* [n_lists][n_out][P]                                                            */
    int n_chunks, part_step, n_splits; /* set by the launch                                                           */
};

/* The number of spectra of `partial` that a launch can use; the buffer needs at least n_lists * n_out. */
size_t scene_product_capacity(int P, int n_parts, int n_out);
cudaError_t scene_product_launch(struct scene_product *job, cudaStream_t stream);
cudaError_t scene_product_load(void); /* before the first launch on a device */

#ifdef __cplusplus
}
#endif
#endif
