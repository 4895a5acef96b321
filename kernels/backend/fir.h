/* fir - causal FIR of many channels in one launch, in the time domain, on a stream of audio that continues from launch
 * to launch. There are two kernels, fir_few.cu and fir_register.cu; fir.cu chooses. */
#ifndef HALOCONV_FIR_H
#define HALOCONV_FIR_H

#include <cuda_runtime.h>
#include <stddef.h>

enum {
    FIR_PAD = 64,            /* taps of a response are padded with zeros to a multiple of this                        */
    FIR_RING_MIN = 4         /* min. frames of a ring, copied four at a time                                          */
};

struct fir_cell {            /* one response from one input; an output is the sum of its cells                        */
    const float *taps;       /* device; [n_taps padded], 16-byte aligned                                              */
    int n_taps;
    int in;
};

struct fir_job {             /* y[out][i] = add[out][i] + sum over out's cells and k of taps[k] x[in][pos + i - k]    */
    const float *x;          /* [n_in][ring_mask + 1]: rings, 16-byte aligned; frame f of the stream at f & ring_mask */
    unsigned ring_mask;
    unsigned pos;            /* frame of y[.][0]; wraps at 2^32 like the ring                                         */
    const struct fir_cell *cells;
    const int *first_cell;   /* [n_out + 1]: the cells of out are first_cell[out] to first_cell[out + 1] - 1          */
    float *y;                /* [n_out] rows of y_pitch floats                                                        */
    size_t y_pitch;
    const float *add;        /* [n_out] rows of add_pitch floats; NULL = nothing to add                               */
    size_t add_pitch;
    int n, n_out;
    int max_taps;            /* the largest sum of n_taps over the cells of one output; only divides the work         */
    int max_cells;           /* the largest number of cells of one output; only divides the work                      */
    void *scratch;           /* fir_scratch_bytes(n_sm), zeroed once; jobs that share it must run one after another   */
    int n_sm;
};

size_t fir_scratch_bytes(int n_sm);
cudaError_t fir_launch(const struct fir_job *job, cudaStream_t stream);
cudaError_t fir_load(void); /* before the first launch on a device */

/* fir_launch and fir_load call these functions of the two kernels. */
cudaError_t fir_few_launch(const struct fir_job *job, cudaStream_t stream);
cudaError_t fir_few_load(void);
cudaError_t fir_register_launch(const struct fir_job *job, cudaStream_t stream);
cudaError_t fir_register_load(void);

#endif
