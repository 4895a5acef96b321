/* haloconv_tensors - convolution of tensors and its gradients, in the memory of a device, for machine learning.
 *
 *   full[b, c, m] = sum over k of h[b, c, k] x[b, c, m - k]        0 <= m < n_frames + n_taps - 1
 *   y[b, c, n]    = full[b, c, n + from]                           0 <= n < hc_tensors_frames
 *
 *   x [n_batch, n_channels, n_frames]     h [h_batch, h_channels, n_taps]     y [n_batch, n_channels, frames of y]
 *
 *   hc_tensors t = {.size = sizeof t, .backend = "cuda:0", .mode = HC_CAUSAL, .n_batch = 64, .n_channels = 768,
 *                   .n_frames = 4096, .h_batch = 1, .h_channels = 768, .n_taps = 4096};
 *   hc_tensor_plan_open(&t, HC_CONVOLVE, &plan, &bytes, why, sizeof why);      allocate `bytes` on the device
 *   hc_tensor_data d = {.size = sizeof d, .a = x, .b = h, .out = y, .workspace = workspace, .bytes = bytes};
 *   hc_tensor_plan_run(plan, &d, why, sizeof why);                             as often as you like
 *   hc_tensor_plan_close(plan);
 *
 * Filters by index: with n_filters > 0, h is a bank [n_filters, n_taps], and each item or channel uses the filter that
 * `index` names. Packed sequences: with n_sequences > 0, x and y have no items, but sequences of any lengths, one after
 * the other in each channel; no frame of one reaches another.
 *
 * The calls allocate no device memory and do not wait for the device: a run puts kernels into the caller's stream,
 * which may be under graph capture. Each tensor has its own type, float32, bfloat16 or float16; a run reads and writes
 * it in place. All sums are computed in float32, and a result in bfloat16 or float16 is rounded once, to the nearest.
 * NaN and Inf are not replaced: a NaN spoils all frames that the same transform computes, also frames that its taps do
 * not reach, but no other item or channel. Conventions, tags and error codes are those of haloconv.h.
 */
#ifndef HALOCONV_TENSORS_H
#define HALOCONV_TENSORS_H

#include "haloconv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hc_tensors_mode {
    HC_FULL,                   /* from = 0, n_frames + n_taps - 1 frames                                              */
    HC_SAME,                   /* from = (n_taps - 1) / 2 rounded down, n_frames frames                               */
    HC_VALID,                  /* from = min(n_frames, n_taps) - 1, |n_frames - n_taps| + 1 frames: those that all taps
                                  (or all of x) reach                                                                 */
    HC_CAUSAL                  /* from = 0, n_frames frames                                                           */
};

enum hc_tensors_op {           /* an operation, and its tensors a, b -> out                                     */
    HC_CONVOLVE,               /* x, h -> y                                                                           */
    HC_GRADIENT_X,             /* gy, h -> gx:  gx[n] = sum over k of h[k] gy[n + k - from]                           */
    HC_GRADIENT_H,             /* gy, x -> gh:  gh[k] = sum over n of x[n] gy[n + k - from], and over the items and
                                  channels that share the filter                                                      */
    HC_GRADIENTS               /* gy, x, h -> gx, gh: both. On a GPU faster than one after the other for windows of 2^12
                                  frames and more, except for packed sequences: for those as fast                     */
};

enum hc_tensor_type { HC_FLOAT32, HC_BFLOAT16, HC_FLOAT16 };

typedef struct hc_tensors {    /* sizes of a convolution, the same for all operations; 0: the default                 */
    size_t size;               /* sizeof(hc_tensors), set by the caller                                               */
    const char *backend;       /* "cpu", "cuda", "cuda:1": the device whose memory the tensors are in        "cpu"   */
    int mode;                  /* enum hc_tensors_mode                                                     HC_FULL    */
    int n_threads;             /* on the CPU                                                          all processors  */
    int64_t n_batch, n_channels; /* those of x and y; the product is at most 2^36. 0: there is nothing to compute, and
                                  HC_GRADIENT_H and HC_GRADIENTS write zeros to gh                                    */
    int64_t n_frames, n_taps;  /* 1 to 2^30                                                                           */
    int64_t h_batch, h_channels; /* 1: shared by all items (channels); else n_batch (n_channels)            1         */
    int64_t x_stride[2], h_stride[2], y_stride[2]; /* elements from an item to the next and from a channel to the next,
                                  of x or gx, h or gh, y or gy; 0 for an input repeats values. In an output, one of
                                  the two steps over all rows of the other dimension, so that no rows overlap. All
                                  six 0: dense. The frames of a channel are adjacent                                  */
    int x_type, h_type, y_type; /* enum hc_tensor_type of x or gx, h or gh, y or gy; any mix           HC_FLOAT32     */
    int64_t n_filters;         /* filters of a bank, from which hc_tensor_data.index chooses. h is then
                                  [n_filters, n_taps], h_stride[0] from a filter to the next, and h_batch and
                                  h_channels are the sizes of the index                              0: no index      */
    int64_t n_sequences;       /* packed sequences, up to 2^30. n_batch is 1, x is [n_channels, n_frames] with the
                                  frames of all sequences, and h_batch is 1 or n_sequences. Sequence i begins at
                                  hc_tensor_data.offsets[i], in y of HC_FULL i * (n_taps - 1) frames later.
                                                                                                     0: not packed    */
    int64_t gx_stride[2], gh_stride[2]; /* of gx and gh of HC_GRADIENTS, where those above are of x and h. All four 0:
                                  dense                                                                               */
} hc_tensors;

typedef struct hc_tensor_data { /* the memory of a run; pointers are to the device                                    */
    size_t size;               /* sizeof(hc_tensor_data), set by the caller                                           */
    const void *a, *b;         /* inputs, as enum hc_tensors_op lists them, aligned to their elements                 */
    void *out;                 /* the result, likewise; overlaps neither an input nor the workspace                   */
    const int64_t *lengths;    /* [h_batch * h_channels], of a bank [n_filters], 0 to n_taps: the taps of a filter from
                                  its length on count as 0, and their gradient is 0. NULL: all n_taps                 */
    void *workspace;           /* aligned to 256 bytes. A run uses it until its kernels have ended; runs at the same
                                  time need a workspace each                                                          */
    size_t bytes;              /* of the workspace: as many as hc_tensor_plan_open returns, or more                   */
    void *stream;              /* the cudaStream_t; NULL: the default stream. The CPU ignores it: there a run returns
                                  when the result is complete                                                         */
    const int64_t *index;      /* with n_filters, [h_batch * h_channels]: the number of each filter. Any other number
                                  means no filter: y (gx) is 0 there, which costs the writing of zeros, and no frame
                                  of x (gy) is read. HC_GRADIENT_H writes zeros for a filter that no row uses         */
    const int64_t *offsets;    /* with n_sequences, [n_sequences + 1]: 0, ascending, n_frames last. Sequence i of x
                                  has frames offsets[i] to offsets[i + 1] - 1, maybe none. Other offsets leave the
                                  result undefined, but nothing outside of the tensors is read or written             */
    const void *c;             /* h of HC_GRADIENTS, whose b is x                                                     */
    void *out_h;               /* gh of HC_GRADIENTS, whose out is gx                                                 */
} hc_tensor_data;

typedef struct hc_tensor_plan hc_tensor_plan; /* an operation on tensors of these sizes; it never changes             */

/* Returns the frames of y (of all sequences), 1 or more; a negative enum hc_error if a size is wrong. [rt] */
int64_t hc_tensors_frames(const hc_tensors *t);
/* Checks an operation (enum hc_tensors_op) and chooses how to compute it. *t is read during the call only. *bytes gets
 * the workspace that a run needs on the device: at most a quarter of the bytes of x, h and y, or 64 MiB if that is
 * more. On the CPU it is 0: a run allocates its memory itself. Fails with HC_EINVAL, HC_EUNSUPPORTED (no such backend;
 * packed sequences with HC_VALID; on a GPU 2^31 filters, or rows of a filter, or more; taps that are too long for it;
 * more than about 6.3 million taps if y or gx, as the output, has 16 bits, 8 million for the gradient of a bank in 16
 * bits), HC_ENOMEM, HC_EDEVICE; *plan is NULL then. [setup], any thread */
int hc_tensor_plan_open(const hc_tensors *t, int op, hc_tensor_plan **plan, size_t *bytes, char *why, size_t cap);
/* Runs the operation. *data is read during the call only. Several threads may run one plan at the same time. Results do
 * not depend on the run: the same tensors give the same bits. Fails with HC_EINVAL, HC_ENOMEM, HC_EDEVICE; out is then
 * undefined. [setup], any thread */
int hc_tensor_plan_run(const hc_tensor_plan *plan, const hc_tensor_data *data, char *why, size_t cap);
/* Frees a plan; no call may be running it. The kernels of its runs may still be in their streams. NULL is allowed.
 * [setup] */
void hc_tensor_plan_close(hc_tensor_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
