/* partition - uniform partitioned overlap-save: transforms of blocks of P frames and sums of products of spectra.
 * Picture and cost in partition.cu. Spectra are [P] float2 in the layout of fft_block.cuh. */
#ifndef HALOCONV_PARTITION_H
#define HALOCONV_PARTITION_H

#include <cuda_runtime.h>
#include <stddef.h>

struct part_cell {            /* one response from one input                                                         */
    const float2 *spectra;    /* [n_parts][P]                                                                        */
    int n_parts;
    int in;
};

struct part_forward {         /* X[ch][slot][.] = scale * transform of frames first + b hop ... + n_valid, then zeros */
    const float *x;           /* row ch at x + ch * x_pitch, indexed by frame & ring_mask; even pitch and first       */
    size_t x_pitch;
    unsigned ring_mask;
    unsigned first;           /* frame at which block 0 starts                                                       */
    int hop, n_valid;         /* n_valid: 2P, or P = the upper half is zero                                          */
    int n_ch, n_blocks;
    float2 *spectra;          /* [n_ch][n_slots][P]                                                                  */
    int slot, n_slots;        /* block b goes to slot (slot + b) % n_slots                                           */
    float scale;
};

struct part_mac {             /* sums[split][out][b] = sum over cells and parts >= first_part of X[slot + b - p] H[p] */
    const float2 *x;          /* [n_in][n_slots][P]                                                                  */
    int slot, n_slots;
    const struct part_cell *cells;
    const int *first;         /* [n_out + 1]: cells of out, as in fir_job                                            */
    int n_out, n_blocks;
    int first_part, most_parts;
    float2 *sums;             /* [n_splits][n_out][n_blocks][P]                                                      */
    size_t sums_room;         /* spectra that sums has room for; at least n_out * n_blocks                           */
    int n_sm;
};

struct part_inverse {         /* y[out][b P + i] = frame P + i of the inverse of the sum over the splits, i < P       */
    const float2 *sums;
    int n_splits, n_out, n_blocks;
    float *y;
    size_t y_pitch;
};

/* Twiddles for P: tw[i] = exp(-2 pi i / 2P), i < P, in host memory. */
void part_twiddles(float2 *tw, int P);
cudaError_t part_forward_launch(const struct part_forward *job, int P, const float2 *tw, cudaStream_t stream);
/* *n_splits: how many partial sums it wrote. */
cudaError_t part_mac_launch(const struct part_mac *job, int P, int *n_splits, cudaStream_t stream);
cudaError_t part_inverse_launch(const struct part_inverse *job, int P, const float2 *tw, cudaStream_t stream);
cudaError_t part_load_kernels(void);

#endif
