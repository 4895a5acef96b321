/* scene_gpu - the structs that the files of the CUDA backend for moving sources share.
 *
 *   scene_cuda       struct scene_backend: open, play, reset
 *   scene_banks      makes and frees banks
 *   scene_transform, scene_product: the kernels
 *
 * A level here is a level of the plan: 0 is the head. P is half of its transform: a power of two.
 */
#ifndef HALOCONV_SCENE_GPU_H
#define HALOCONV_SCENE_GPU_H

#include "dsp/base/error.h"
#include "dsp/device/scene_backend.h"
#include "scene_product.h"

#include <cuda_runtime.h>
#include <stdint.h>

struct scene_bank {
    int device;
    void *memory;           /* device; h points into it                                                               */
    size_t bytes;
    int n_entries, n_out, n_levels;
    float2 *h[HC_MAX_STEER_LEVELS];   /* [n_entries][n_parts][n_out][P]                                              */
    int n_parts[HC_MAX_STEER_LEVELS]; /* partitions of this bank's responses, at most those of the plan              */
    int log2_P[HC_MAX_STEER_LEVELS];
};

/* Returns log2 of a level's P. HC_EUNSUPPORTED: the blocks are too large. */
int scene_log2_P(const struct scene_plan *plan, int level, struct reason *why);

int scene_bank_of_data(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank,
                       uint64_t *bytes, struct reason *why);
void scene_bank_release(void *bank);
/* Has the type piece_responses (dsp/device/scene_pieces.h). */
bool scene_bank_responses(const void *bank, int level, int entry, struct scene_piece *piece);

#endif
