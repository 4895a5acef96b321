/* partition_kernels - the kernels of uniform partitioned overlap-save: transforms of blocks of P frames and sums of
 * products of spectra. Picture and cost in partition_kernels.cu. A spectrum is [P] float2 as in fft_teams.cuh,
 * tw a table of fft_factors.h. */
#ifndef HALOCONV_PARTITION_KERNELS_H
#define HALOCONV_PARTITION_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct part_cell {            /* one response from one input                                                         */
    const float2 *spectra;    /* [n_parts][P]                                                                        */
    int n_parts;
    int in;
};

struct part_forward {         /* spectrum of block b = transform of 2P frames from `from + b hop` on                  */
    const float *x;           /* row ch at x + ch * x_pitch, frame f at f & ring_mask                                 */
    size_t x_pitch;
    unsigned ring_mask;
    unsigned from;            /* frame at which block 0 starts                                                       */
    int hop, log2_P;
    int n_ch, n_blocks;
    float2 *spectra;          /* [n_ch][n_entries][P]: an FDL                                                        */
    int entry, n_entries;     /* the spectrum of block b goes to entry (entry + b) % n_entries                       */
    const float2 *tw;
};

struct part_mac {  /* sums[.][out][b] = sum over out's cells and parts p of x[in][entry + b - p] spectra[p]          */
    const float2 *x;          /* [n_in][n_entries][P]: the FDL                                                       */
    int entry, n_entries;
    const struct part_cell *cells;
    const int *first_cell;    /* [n_out + 1]: the cells of out are first_cell[out] to first_cell[out + 1] - 1        */
    int n_out, n_blocks;
    int first_part, max_parts; /* sums parts first_part ... of each cell; max_parts: the largest count of a cell   */
    float2 *sums;             /* [n_splits][n_out][n_blocks][P]                                                      */
    size_t sums_capacity;     /* the size of sums in spectra; at least n_out * n_blocks                              */
    int n_sm;
};

struct part_inverse {         /* y[out][b P + i] = frame P + i of the inverse of the sum over the splits, i < P       */
    const float2 *sums;
    int n_splits, n_out, n_blocks, log2_P;
    float *y;
    size_t y_pitch;
    const float2 *tw;
};

cudaError_t part_forward_launch(const struct part_forward *job, cudaStream_t stream);
/* *n_splits receives the number of partial sums of each output and block. */
cudaError_t part_mac_launch(const struct part_mac *job, int P, int *n_splits, cudaStream_t stream);
cudaError_t part_inverse_launch(const struct part_inverse *job, cudaStream_t stream);
cudaError_t part_load(void); /* before the first launch on a device */

#ifdef __cplusplus
}
#endif
#endif
