/* fused_kernels - convolutions of many rows, each computed by one team of threads without a step through device memory.
 *
 * A row is cut into windows of 2N points. The kernel multiplies the transform of a window (fft_registers.cuh) by the
 * filter's, and writes the frames that do not wrap. N is 2^log2_n, where log2_n is FUSED_MIN to FUSED_MAX.
 */
#ifndef HALOCONV_FUSED_KERNELS_H
#define HALOCONV_FUSED_KERNELS_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FUSED_MIN = 7, FUSED_MAX = 14 };    /* log2 N; 8 has no kernel */

struct fused_rows {           /* a tensor [batch][channels][frames], frames adjacent */
    int64_t stride[2];        /* elements */
    int64_t frames;
    int type;                 /* enum hc_tensor_type */
    int64_t gap;              /* packed sequences: frames that each has beyond those of x */
};

struct fused_groups {         /* the rows of a batch, sorted by the filter that they share */
    int h_batch, h_channels;  /* number of groups, and without an index of filters: h_batch * h_channels */
    int batch, channels;      /* of x; a group's rows: (h_batch == 1 ? batch : 1) * (h_channels == 1 ? channels : 1) */
    int first, n;             /* the groups of this launch */
    const int64_t *index;     /* [groups]: the number of a group's filter, another number for none; or NULL */
    int64_t n_filters;        /* with an index */
    const int64_t *offsets;   /* [batch + 1]: the items are packed sequences, with these first frames; or NULL */
    int64_t packed;           /* frames of all sequences of x */
    int64_t gap;              /* packed sequences: frames of each beyond those of x, in the rows cut into windows */
    int64_t first_filter;     /* with an index: the filter that is number 0 of this launch */
};

struct fused_convolve {       /* y = the convolution of x with the filters */
    struct fused_groups groups;
    struct fused_rows in, out;
    const void *x;
    void *y;
    const float2 *spectra;    /* [groups.n][N], from fused_spectra_launch; by_bank: [n_filters][N] */
    bool by_bank;
    int64_t n_windows;        /* windows of a row; of packed sequences, max. windows of all (row_windows.cuh) */
    int64_t hop;              /* frames from a window to the next */
    int64_t in_first;         /* window j begins at frame j * hop + in_first of x */
    int out_first, out_end;   /* point p of window j is frame j * hop + p - out_first of y, for
                                 out_first <= p < out_end <= 2N */
};

struct fused_spectra {        /* spectra of the filters of some groups; with an index, h is the bank */
    struct fused_groups groups;
    struct fused_rows h;
    const void *taps;
    const int64_t *lengths;   /* [filters of h] on the device, or NULL */
    bool conjugate;           /* correlation instead of convolution */
    float2 *spectra;          /* [groups.n][N], scaled by 1/N */
};

struct fused_gradient_h {     /* partial[slice][group][k] = sum over the slice's windows of x[n] gy[n + k]. With an
                                 index, gh is the bank and gets the sums of its filters' groups */
    struct fused_groups groups;
    struct fused_rows x, gy, out;
    const void *x_data, *gy_data;
    int64_t n_windows, hop;   /* window j has frames [j * hop, (j + 1) * hop) of x */
    int64_t gy_first;         /* window j has 2N frames of gy from j * hop + gy_first on */
    int n_slices;             /* teams that share the windows of a group */
    const int64_t *lengths;   /* with an index: from first_filter on, as gh */
    void *gh;                 /* the gradient, with the strides of `out` */
    float *partial;           /* [n_slices][groups.n][out.frames]; unused if n_slices is 1 and there is no index */
    const float *sums;        /* with an index: sums of earlier groups, to which these are added; NULL: none */
    int64_t sums_stride;      /* floats from a filter of the launch to the next */
    float2 *stash;            /* fused_gradient_h_stash() bytes; unused if that is 0 */
    struct fused_rows gx;     /* with spectra: the gradient of x, too */
    void *gx_data;
    const float2 *spectra;    /* [groups.n][N], conjugate, from fused_spectra_launch; by_bank: [n_filters][N]; NULL:
                                 only gh */
    bool by_bank;
};

struct fused_device {
    int n_sm, shared_bytes;   /* shared_bytes: max. bytes of a block, by opt-in */
    bool is_early;            /* a kernel may begin before the previous kernel has ended (early_launch.cuh) */
};

/* Prepares the kernels for `device`, which is the current device; once before the first launch. */
cudaError_t fused_load(int device, struct fused_device *properties);
cudaError_t fused_gradient_h_load(const struct fused_device *device); /* called by fused_load */
/* The number of teams for windows of size N that the device runs at once; 0: the kernel is absent or does not fit.
 * fused_gradient_h_teams: for the gradient of h. */
int fused_teams(const struct fused_device *device, int log2_n);
int fused_gradient_h_teams(const struct fused_device *device, int log2_n);
int fused_gradients_teams(const struct fused_device *device, int log2_n); /* for both gradients */
cudaError_t fused_spectra_launch(int log2_n, const struct fused_spectra *p, cudaStream_t stream);
/* Convolves all windows. real: the last N points of each window are outside of x, and out_end <= N. */
cudaError_t fused_convolve_launch(const struct fused_device *device, int log2_n, bool real,
                                  const struct fused_convolve *p, cudaStream_t stream);
/* The max. number of windows of all rows for fused_one_launch: half of those that run at once, because each takes one
 * transform more. */
int fused_one_launch_windows(const struct fused_device *device);
/* Convolves few windows of size 2^FUSED_MIN and float32, without spectra in device memory (p->spectra is unused); only
 * without an index and without packed sequences. */
cudaError_t fused_one_launch(const struct fused_convolve *p, const struct fused_spectra *filters, cudaStream_t stream);
/* Bytes of the stash for groups.n * n_slices = n_units teams. */
size_t fused_gradient_h_stash(int log2_n, int64_t n_units);
/* Writes or adds to each filter of a bank the partial sums of the groups that use it, in their order. */
cudaError_t fused_bank_sum_launch(const struct fused_gradient_h *p, cudaStream_t stream);
/* Computes the gradient. real: the last N points of each window are outside of x and of gy, and out.frames <= N. */
cudaError_t fused_gradient_h_launch(int log2_n, bool real, const struct fused_gradient_h *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
