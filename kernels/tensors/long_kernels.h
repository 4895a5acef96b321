/* long_kernels - convolutions with filters too long for one team of threads (fused_kernels.h), in steps through device
 * memory.
 *
 * A window of 2N real points is N complex points lo - i hi (fft_registers.cuh), N = R N'. Its transform has three steps:
 *
 *   split   levels 1 to log2 R of the tree: R rows of N' points, from the columns n' + N' j
 *   rows    a transform of each row by one team, with the shift (k + 1/4) / R; k is the number of the row with its bits
 *           reversed
 *   join    the inverse of `split`; writes the frames that do not wrap to the output
 *
 *   scratch of a window   [R rows][N'] float2
 */
#ifndef HALOCONV_LONG_KERNELS_H
#define HALOCONV_LONG_KERNELS_H

#include "fused_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tests compile with -DLONG_ROW=7, for short filters. */
#ifdef LONG_ROW
enum { LONG_ROW_MIN = LONG_ROW, LONG_ROW_MAX = LONG_ROW, LOG_OF_TWO_ROWS = LONG_ROW + 2 };
#else
enum { LONG_ROW_MIN = 12, LONG_ROW_MAX = 13 };    /* log2 N' */
enum { LOG_OF_TWO_ROWS = 14 };                    /* that of long_two_rows */
#endif
enum { LONG_MAX_SPLITS = 9 };                     /* max. log2 R */
enum { LONG_MAX_UNITS = 32767 };                  /* max. windows of a or of b in a launch */

struct long_size { int log2_row, log2_r; };

struct long_units {           /* a unit is a window, of a filter or of a signal row. The order of signal windows:
                                 - group, row, window
                                 - packed sequences with a filter for each: channel, window; those of groups of other
                                   launches do not exist
                                 - packed sequences with a filter for each, by_group: group, window           */
    struct fused_groups groups; /* groups.first: the group of unit 0                                          */
    bool is_filters;          /* windows of filters; with an index, of a bank                                 */
    bool by_group;            /* packed sequences: see above                                                  */
    bool by_bank;             /* with an index: a spectrum for each filter of the bank                        */
    bool may_skip;            /* windows without a filter are neither read nor computed                       */
    struct fused_rows rows;
    int64_t units_of_group;   /* 1 for the windows of filters */
    int64_t n_windows, hop;   /* windows of a row; window j begins at frame j * hop + start */
    int64_t start;
    int64_t end;              /* point p of a window exists for p < end, up to 2 N */
    const int64_t *lengths;   /* [filters]: a filter's frames from lengths on count as 0; NULL: all frames count */
    int64_t first;            /* first unit of this launch */
    int n;                    /* number of units of this launch */
};

struct long_output {          /* point p of window j is frame j * hop + start + p, for first_point <= p < end */
    int64_t first_point;
    float scale;
    bool add;                 /* add to the frames, of HC_FLOAT32, instead of writing them */
};

/* Prepares the kernels of the current device; once before the first launch. */
cudaError_t long_load(const struct fused_device *device);
/* The number of rows of 2^log2_row points that the device computes at once; 0: no kernel, or a row does not fit. */
int long_rows_at_once(const struct fused_device *device, int log2_row);
/* Does the device have enough shared memory to split windows into 2^log2_r rows? */
bool long_columns_fit(const struct fused_device *device, int log2_r);
/* Splits the windows of a_data, then those of b_data, into scratch[a->n + b->n][N]. */
cudaError_t long_split_launch(const struct fused_device *device, struct long_size size, const struct long_units *a,
                              const void *a_data, const struct long_units *b, const void *b_data, float2 *scratch,
                              cudaStream_t stream);
/* Writes or adds the windows to `data`. Unit i is at scratch + i * stride. */
cudaError_t long_join_launch(const struct fused_device *device, struct long_size size, const struct long_units *units,
                             const struct long_output *output, const float2 *scratch, int64_t stride, void *data,
                             cudaStream_t stream);

enum long_rows_op { LONG_FORWARD, LONG_CONVOLVE }; /* rows of 2^LOG_OF_TWO_ROWS points: LONG_FORWARD only */
struct long_rows {            /* the rows of n windows, in place */
    int op;                   /* enum long_rows_op */
    int n;
    float2 *data;             /* [n][N] */
    const float2 *spectra;    /* [groups][N]; LONG_CONVOLVE multiplies by them */
    int64_t units_of_group;   /* window i belongs to spectrum (first + i) / units_of_group, or */
    int64_t first;
    const struct long_units *listed; /* host memory: the windows of an index or of packed sequences; or NULL */
    float scale;              /* LONG_FORWARD: factor of the spectra */
    bool conjugate;           /* LONG_FORWARD: writes conjugate spectra */
};
cudaError_t long_rows_launch(const struct fused_device *device, struct long_size size, const struct long_rows *p,
                             cudaStream_t stream);

/* The sum over the windows of a group: the inverse of conj(spectrum of x) times the spectrum of gy. It replaces the
 * group's first window of gy; the other windows, and those of x, may be overwritten. */
struct long_gradient_rows {
    int n_groups, windows;    /* windows: windows of a group */
    float2 *x, *gy;           /* [n_groups][windows][N] */
    bool add;                 /* with one group: add the sum to the window before gy */
};
cudaError_t long_gradient_rows_launch(const struct fused_device *device, struct long_size size,
                                      const struct long_gradient_rows *p, cudaStream_t stream);

/* Both gradients: the inverse of conj(spectrum of h) times the spectrum of gy replaces the window of gy. The inverse of
 * the sum, over the windows of a group, of conj(spectrum of x) times the spectrum of gy replaces h. The windows of groups
 * without a filter stay as they are. */
enum { LONG_BOTH_ROW = LONG_ROW_MIN };            /* log2 N' */
struct long_both_rows {
    struct fused_groups groups;
    int n_groups, windows;    /* windows: windows of a group */
    float2 *h;                /* [n_groups][N] */
    float2 *gy, *x;           /* [n_groups][windows][N] */
};
/* The number of rows that the device computes at once; 0: they do not fit. */
int long_both_rows_at_once(const struct fused_device *device);
cudaError_t long_both_rows_launch(const struct fused_device *device, int log2_r, const struct long_both_rows *p,
                                  cudaStream_t stream);

/* Windows of N = 2 N' points without scratch: a team computes both rows of a window, one after the other, from the
 * frames of x, and adds each row's result to the frames of y. Frames of 16 bits are written once: the first row's
 * result stays in `kept` until then. */
struct long_two_rows {
    struct long_units in, out; /* windows of x; the same windows of y */
    struct long_output output;
    const void *x;
    void *y;
    const float2 *spectra;    /* [groups][N]: as in long_rows */
    float2 *kept;             /* long_two_rows_kept() bytes if y has 16 bits */
};
cudaError_t long_two_rows_load(const struct fused_device *device); /* called by long_load */
/* Do rows of 2^LOG_OF_TWO_ROWS points fit the device? */
bool long_two_rows_fit(const struct fused_device *device);
/* Bytes of `kept` for n windows: a row for each block. */
size_t long_two_rows_kept(const struct fused_device *device, int n);
/* Convolves all windows. real: the points of a window from N on are outside of x, and are not stored. */
cudaError_t long_two_rows_launch(const struct fused_device *device, bool real, const struct long_two_rows *p,
                                 cudaStream_t stream);

/* The gradient of filters, one thread block for each filter, and with spectra that of x, too. Both are 0 for groups
 * without a filter. */
struct long_gradient_two_rows {
    struct long_units x, gy, gx; /* windows of x; the same windows of gy and, with spectra, of gx */
    struct long_units filters;
    struct long_output output;
    int windows;              /* windows of a filter */
    int of_step;              /* row 0 of so many windows is computed before their row 1 */
    const void *x_data, *gy_data;
    void *gx_data, *gh;
    const float2 *spectra;    /* [groups][N], conjugate; by_bank: [n_filters][N]; NULL: only gh */
    float2 *stash;            /* [blocks][n_stash][N']: the spectrum of x, the sum; the sum of row 1, if there are
                                 several steps */
    float2 *kept;             /* [blocks][n_kept][N']: of gh, then of the windows of a step; unused for HC_FLOAT32 */
    int n_stash, n_kept;      /* as many times long_two_rows_kept(filters) bytes */
};
cudaError_t long_gradient_two_rows_launch(const struct fused_device *device, bool real,
                                          const struct long_gradient_two_rows *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
