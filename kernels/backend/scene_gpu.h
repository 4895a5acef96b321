/* scene_gpu - the structs that the files of the CUDA backend for steered sources share.
 *
 *   scene_cuda       struct scene_backend: open, play, reset
 *   scene_banks      makes and frees banks
 *   scene_lists      turns the terms of a mix into the lists that the products read
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
    int n_parts[HC_MAX_STEER_LEVELS]; /* of this bank, which may be shorter than the plan's longest                  */
    int log2_P[HC_MAX_STEER_LEVELS];
};

/* log2 of P of a level; HC_EUNSUPPORTED: the blocks are too large. */
int scene_log2_P(const struct scene_plan *plan, int level, struct reason *why);

int scene_bank_of_data(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank,
                       uint64_t *bytes, struct reason *why);
void scene_bank_release(void *bank);

/* ---- lists ------------------------------------------------------------------------------------------------------- */

struct list_place;
struct list_maker {         /* engine thread                                                                          */
    struct list_place *table; /* [1 << log2_table]: an entry's newest piece, found by its bank and number             */
    int log2_table;
    uint64_t epoch;
    int *piece_of; /* [max_terms]                                                                           */
    int max_terms;
};

int list_maker_open(struct list_maker *maker, int max_terms, struct reason *why);
void list_maker_close(struct list_maker *maker);
/* Bytes of a list of n terms, at most. */
size_t list_bytes_most(int n_terms);
/* Writes the list of a mix to `to`: the pieces, then the sources. Returns its bytes; *n_pieces: the pieces. */
size_t list_make(struct list_maker *maker, const struct scene_mix *mix, int level, void *to, int *n_pieces);
/* The list whose bytes are at `base` in device memory. */
struct scene_list list_at(const void *base, int n_pieces);

#endif
