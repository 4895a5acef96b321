/* tensor_backend - the interface between hc_tensor_plan (dsp/tensors/tensors.c) and a device.
 *
 * Rows (items and channels) that share a filter are a group. An operation computes one of three sums, HC_GRADIENTS two:
 *   convolve     y[m]  = sum over k of h[k] x[m + from - k]
 *   gradient x   gx[n] = sum over k of h[k] gy[n + k - from]
 *   gradient h   gh[k] = sum over rows and n of x[n] gy[n + k - from]
 * A frame outside of its tensor counts as 0.
 *
 * A call that fails returns a negative enum hc_error and writes a line to *why. All calls are [setup], any
 * thread.
 */
#ifndef HALOCONV_TENSOR_BACKEND_H
#define HALOCONV_TENSOR_BACKEND_H

#include "dsp/base/error.h"
#include "dsp/haloconv_tensors.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int64_t tensor_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tensor_max(int64_t a, int64_t b) { return a > b ? a : b; }

struct tensor_rows {        /* [batch][channels][frames], frames adjacent */
    int64_t batch, channels; /* number of items and channels; 1 for a filter that they share */
    int64_t frames;
    int64_t stride[2];      /* elements from an item and from a channel to the next */
    int type;               /* enum hc_tensor_type */
    int64_t packed;         /* packed sequences: frames that the offsets cover. `frames` has also the gaps; the CPU
                               replaces `frames` by those of one sequence. Else 0 */
    int64_t gap;            /* sequence i has frames offsets[i] + i * gap to offsets[i + 1] + (i + 1) * gap - 1 */
};

/* Returns the bytes of an element. */
static inline int tensor_element(const struct tensor_rows *rows) { return rows->type == HC_FLOAT32 ? 4 : 2; }

/* A checked call: sizes are 1 or more, strides are set. Packed sequences are the items of x and y. For HC_GRADIENT_H, x
 * and y may have no rows (batch or channels is 0). Then `plan` is not called, `run` has no workspace, a and b may be
 * NULL, and out becomes zeros. HC_GRADIENTS without rows comes as HC_GRADIENT_H. */
struct tensor_call {
    int op;                 /* enum hc_tensors_op */
    int device;
    int n_threads;          /* threads of the CPU; 0: all processors */
    int64_t from;           /* the first frame of y in the full convolution */
    struct tensor_rows x, h, y; /* h: a filter for each group of rows */
    struct tensor_rows bank; /* h as it lies in memory: [filters][1][taps] with an index, else h */
    struct tensor_rows gx, gh; /* HC_GRADIENTS; gh: of the bank */
    bool has_index;         /* data->index has the number of each group's filter */
    const int64_t *lengths; /* [filters of the bank] in device memory, read by a run; or NULL */
    size_t limit;           /* max. bytes of workspace */
};

/* HC_GRADIENT_X or HC_GRADIENT_H as a part of a call of HC_GRADIENTS. */
static inline struct tensor_call tensor_part(const struct tensor_call *both, int op)
{
    struct tensor_call call = *both;
    call.op = op;
    if (op == HC_GRADIENT_X) call.x = both->gx;
    else call.bank = both->gh;
    if (!call.has_index) call.h = call.bank;
    return call;
}
static inline hc_tensor_data tensor_part_data(const hc_tensor_data *both, int op)
{
    hc_tensor_data data = *both;
    if (op == HC_GRADIENT_X) data.b = both->c;
    else data.out = both->out_h;
    return data;
}

struct tensor_backend {
    size_t plan_size; /* bytes of a plan; a plan needs no cleanup */
    /* Chooses how to compute a call, and fills in the plan. *bytes gets the size of the workspace that a run needs. */
    int (*plan)(const struct tensor_call *call, void *plan, size_t *bytes, struct reason *why);
    /* `run` refuses a workspace that is too small or not aligned. */
    int (*run)(const struct tensor_call *call, const void *plan, const hc_tensor_data *data, struct reason *why);
};

extern const struct tensor_backend tensors_cpu;
extern const struct tensor_backend tensors_cuda; /* exists in the GPU module only */

#ifdef __cplusplus
}
#endif

#endif
