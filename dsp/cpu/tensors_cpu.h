/* tensors_cpu - shared declarations of the CPU backend for tensors: tensors_cpu.c chooses a method, tensors_filter.c
 * filters signals (convolve, gradient x), tensors_gradient.c correlates them (gradient h).
 */
#ifndef HALOCONV_TENSORS_CPU_H
#define HALOCONV_TENSORS_CPU_H

#include "dsp/device/tensor_backend.h"

#include "cpu_costs.h"
#include "dsp/base/thread_pool.h"
#include "offline.h"
#include "simd.h"

#include <stdbool.h>

struct tensor_method {
    int size;  /* S of the transforms (dsp/fft/fft.h); 0: direct                                  */
    double ns; /* estimate for one thread                                                      */
};

struct tensor_work { /* one run of a plan                                                            */
    const struct tensor_call *call; /* of packed sequences, x.frames and y.frames are those of the longest      */
    const hc_tensor_data *data;
    const struct simd *simd;
    const struct fft *fft;    /* NULL: direct                                                               */
    struct thread_pool *pool;
};

struct tensor_filter {
    int64_t number;           /* in the bank; -1: no filter                                                 */
    int64_t n_taps;           /* length of the filter                                                       */
};

enum { TENSOR_DIRECT_FRAMES = 4096 }; /* frames that a direct job computes or sums                          */

/* Both return the ns that the operation takes on a Zen 5 core: direct (size 0) or by transforms of S = size. */
double tensor_filter_ns(const struct tensor_call *call, int size);
double tensor_gradient_ns(const struct tensor_call *call, int size);

/* Both return the floats of scratch memory that a thread needs. */
size_t tensor_filter_scratch(const struct tensor_call *call, int size);
size_t tensor_gradient_scratch(const struct tensor_call *call, int size);

/* Each runs one operation. false: no memory. */
bool tensor_filter_run(const struct tensor_work *work);
bool tensor_gradient_run(const struct tensor_work *work);

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* Returns the ns of a transform of S = size. */
static inline double tensor_transform_ns(int size)
{
    double ns = 0;
    for (int n = size; n > 1; n /= 2) ns += cpu_tensor_costs.transform_ns * size;
    return ns;
}

/* Returns a / b, rounded up (tensor_div_down: down); b > 0. */
static inline int64_t tensor_div_up(int64_t a, int64_t b)
{
    return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}
static inline int64_t tensor_div_down(int64_t a, int64_t b)
{
    return -tensor_div_up(-a, b);
}

struct tensor_row { /* the frames of a row, in the tensor's memory */
    int type;       /* enum hc_tensor_type */
    int64_t n;
    void *data;     /* [n] */
};
/* Returns row `item`, `channel` of a tensor in memory. offsets: of packed sequences. */
static inline struct tensor_row tensor_row(const struct tensor_rows *rows, const int64_t *offsets, const void *data,
                                           int64_t item, int64_t channel)
{
    if (rows->packed > 0) {
        int64_t begin = tensor_max(0, tensor_min(offsets[item], rows->packed));
        int64_t end = tensor_max(begin, tensor_min(offsets[item + 1], rows->packed));
        int64_t first = begin + item * rows->gap + (rows->channels > 1 ? channel * rows->stride[1] : 0);
        return (struct tensor_row){rows->type, end - begin + rows->gap, (char *)data + first * tensor_element(rows)};
    }
    int64_t at = (rows->batch > 1 ? item * rows->stride[0] : 0) + (rows->channels > 1 ? channel * rows->stride[1] : 0);
    return (struct tensor_row){rows->type, rows->frames, (char *)data + at * tensor_element(rows)};
}

/* Returns the number of rows that share a filter. */
static inline int64_t tensor_sharers(const struct tensor_call *call)
{
    return (call->x.batch / call->h.batch) * (call->x.channels / call->h.channels);
}

/* Returns the number of filters in memory. */
static inline int64_t tensor_n_filters(const struct tensor_call *call)
{
    return call->bank.batch * call->bank.channels;
}
/* Returns the number of the filter that a group of rows uses; -1: none. */
static inline int64_t tensor_filter_of(const struct tensor_work *w, int64_t group)
{
    int64_t number = w->call->has_index ? w->data->index[group] : group;
    return number >= 0 && number < tensor_n_filters(w->call) ? number : -1;
}

struct tensor_filter tensor_filter_at(const struct tensor_work *w, int64_t number);
/* The frames of a filter in `data`, the memory of h or gh. */
struct tensor_row tensor_filter_row(const struct tensor_work *w, const struct tensor_filter *filter, const void *data);
/* Finds row i of the rows of a group, which share a filter. */
void tensor_sharer(const struct tensor_call *call, int64_t group, int64_t i, int64_t *item, int64_t *channel);

/* Copies n frames of x from frame `from` on; frames outside [0, x->n) are 0. */
void tensor_copy(float *frames, const struct tensor_row *x, int64_t from, int64_t n);
/* The same, the last frame first. */
void tensor_copy_reversed(float *frames, const struct tensor_row *x, int64_t from, int64_t n);
/* Writes n frames of y from frame `from` on. frames NULL: zeros. */
void tensor_write(const struct tensor_row *y, int64_t from, const float *frames, int64_t n);

/* Transforms the 2S frames of x from `from` on. frames: [2S] scratch. */
void tensor_window(const struct tensor_work *w, const struct tensor_row *x, int64_t from, float *frames,
                   float *spectrum);

/* Writes to y[t] the sum of a list of one product in output window window + t, t < n <= FFT_BLOCKS. Partitions are not
 * multiplied by silent windows: a NaN in a partition spoils only the windows that the partition meets. */
void tensor_sums(const struct offline *rows, const struct offline_list *list, int64_t window, int n, float *const *y);

#endif
