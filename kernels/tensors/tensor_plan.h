/* tensor_plan - the plan of an operation with tensors on a GPU, and the three ways to compute it.
 *
 *   fused      one kernel computes a window; its transforms stay in registers              fused_way.cu
 *   steps      windows of long filters, in three steps through device memory               long_plan.cu, long_rows.cu
 *   two rows   one kernel computes a window as two rows of 2^LOG_OF_TWO_ROWS points        the same files
 *
 * tensors_cuda.cu chooses the way and the size of the windows that take the fewest cycles.
 */
#ifndef HALOCONV_TENSOR_PLAN_H
#define HALOCONV_TENSOR_PLAN_H

#include "dsp/base/order.h"
#include "dsp/device/tensor_backend.h"
#include "long_kernels.h"

struct tensor_plan {
    const struct tensor_way *way; /* NULL: none computes this call                                                   */
    const struct fused_device *device;
    int log2_n;              /* a window has 2N points, N = 2^log2_n                                                 */
    bool is_single;          /* one window computes a row, and its wrapped part is 0 or not needed                   */
    int64_t hop, n_windows;
    int n_groups;            /* filters of a chunk                                                                   */
    bool by_bank;            /* with an index: a spectrum for each filter of the bank, not for each that rows use    */
    int64_t n_bank;          /* filters of a chunk of the bank                                                       */
    size_t partial, sums;    /* bytes of the workspace's partial sums, and of the sums of a chunk of the bank, if
                                several launches add up to 16 bits                                                   */
    size_t bytes;            /* bytes of the workspace                                                               */
    double cycles;           /* estimated                                                                            */

    /* fused */
    bool is_one_launch;      /* each window's kernel transforms its filter, too: no workspace                        */
    int n_slices;            /* slices of the gradient of h                                                          */
    size_t stash;            /* bytes                                                                                */
    double in_chunks;        /* HC_GRADIENTS: cycles of the chunks one after the other; INFINITY: the workspace would
                                be too large, or each chunk of the bank would compute gx again                       */

    /* steps, two rows */
    struct long_size size;
    int64_t taps;            /* taps of a part: filters (or lags) are cut into parts whose results are added         */
    int n_units;             /* windows that the workspace of steps holds                                            */
    int64_t n_partial;       /* gradients of a bank: filters of `partial`, one for each group of rows; else 0        */
    bool is_summed;          /* steps, gradient h: launches for a filter add in the workspace, to round 16 bits once */
    int of_step, n_stash, n_kept; /* two rows: of long_gradient_two_rows                                             */
    size_t kept;             /* two rows: bytes of the first rows' results; 0: not needed                            */
};

struct tensor_way {
    int log2_min, log2_max;  /* log2_n of its windows */
    /* Cuts the rows into windows of 2^log2_n; false: this way does not compute the call with them. */
    bool (*fits)(const struct tensor_call *c, struct tensor_plan *plan);
    /* Cuts the workspace; false: the limit is too low. Fused kernels take what one filter needs, whatever the limit. */
    bool (*memory)(const struct tensor_call *c, struct tensor_plan *plan);
    double (*cycles)(const struct tensor_call *c, const struct tensor_plan *plan);
    /* Runs a chunk. The call's device is the current device. */
    int (*run)(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
               const struct fused_groups *groups, struct reason *why);
};

extern const struct tensor_way fused_way, steps_way, two_rows_way;
int long_steps_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                   const struct fused_groups *groups, struct reason *why);
int long_two_rows_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                      const struct fused_groups *groups, struct reason *why);

/* Computes the gradient of a bank, alone or with that of x, by steps or two rows. */
int long_bank_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                  struct reason *why);

/* Tests lower this, for short filters: bytes. */
#ifndef BANK_UP_TO
#define BANK_UP_TO SIZE_MAX
#endif

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum { ALIGNMENT = 256 }; /* bytes, of a workspace and its parts */
static inline size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static inline struct fused_rows rows_of(const struct tensor_rows *t)
{
    return fused_rows{{t->stride[0], t->stride[1]}, t->frames, t->type, t->gap};
}

/* The type of the output. */
static inline int type_of_output(const struct tensor_call *c)
{
    return (c->op == HC_CONVOLVE ? &c->y : c->op == HC_GRADIENT_X ? &c->x : &c->h)->type;
}

/* Returns the groups of a call; the caller sets the groups of a launch. Counts of filters and rows fit int
 * (tensor_plan_make). */
static inline struct fused_groups groups_of(const struct tensor_call *c, const hc_tensor_data *d)
{
    return fused_groups{(int)c->h.batch, (int)c->h.channels, (int)c->x.batch,
                        (int)c->x.channels, 0, 0, d->index, c->bank.batch, d->offsets, c->x.packed,
                        c->op == HC_CONVOLVE ? c->y.gap : 0, 0};
}
/* The filters of a bank, as groups. */
static inline struct fused_groups groups_of_bank(const struct tensor_call *c)
{
    struct fused_groups groups = {};
    groups.h_batch = groups.n = (int)c->bank.batch;
    groups.h_channels = groups.batch = groups.channels = 1;
    return groups;
}

/* Calls run(groups) for each chunk of n_groups groups, once for each chunk of n_bank filters of a bank. Ends with the
 * first error. */
template <class Run>
static int with_chunks(const struct tensor_call *c, const hc_tensor_data *d, int64_t n_bank, int64_t n_groups, Run run)
{
    const int filters = (int)(c->h.batch * c->h.channels);
    struct fused_groups groups = groups_of(c, d);
    int error = 0;
    for (; groups.first_filter < c->bank.batch && !error; groups.first_filter += n_bank) {
        groups.n_filters = min_of(n_bank, c->bank.batch - groups.first_filter);
        for (groups.first = 0; groups.first < filters && !error; groups.first += groups.n) {
            groups.n = (int)min_of(n_groups, filters - groups.first);
            error = run(groups);
        }
    }
    return error;
}

/* The max. bytes of the workspace for the partial sums of a bank's gradient, and for the sums of its filters. */
static inline size_t bank_limit(const struct tensor_call *c) { return c->limit < BANK_UP_TO ? c->limit : BANK_UP_TO; }

/* Sets where the gradients of a bank's filters go, from groups.first_filter on. Sums of earlier groups are in gh or, to
 * round 16 bits once, in `sums`, which is NULL otherwise. */
static inline void bank_output_set(const struct tensor_call *c, struct fused_rows bank, void *gh, float *sums,
                                   struct fused_gradient_h *p)
{
    const int64_t first = p->groups.first_filter;
    const bool is_last = p->groups.first + p->groups.n == c->h.batch * c->h.channels;
    p->out = bank;
    p->gh = (char *)gh + first * bank.stride[0] * tensor_element(&c->bank);
    p->lengths = c->lengths ? c->lengths + first : NULL;
    p->sums_stride = sums ? c->h.frames : bank.stride[0];
    p->sums = p->groups.first == 0 ? NULL : sums ? sums : (const float *)p->gh;
    if (!sums || is_last) return;
    p->gh = sums;
    p->out.stride[0] = c->h.frames;
    p->out.type = HC_FLOAT32;
}

/* The windows of a row; of packed sequences, the max. windows of all sequences (row_windows.cuh). */
static inline int64_t windows_in(const struct tensor_call *c, int64_t frames, int64_t hop)
{
    return c->x.packed ? frames / hop + c->x.batch : ceil_div(frames, hop);
}
/* The windows of all rows, with n_windows from windows_in. */
static inline double windows_in_all(const struct tensor_call *c, int64_t n_windows)
{
    return (double)n_windows * (double)c->x.channels * (c->x.packed ? 1.0 : (double)c->x.batch);
}

/* The number of rows that share a filter. The packed sequences of a channel count as one row. */
static inline int64_t rows_of_filter(const struct tensor_call *c)
{
    return (c->h.batch == 1 && !c->x.packed ? c->x.batch : 1) * (c->h.channels == 1 ? c->x.channels : 1);
}

/* Does one window of 2N points hold a row? The wrapped part of the product must meet zeros. In every mode y ends with
 * the last frame of x or later (from + y.frames >= x.frames), so x needs no separate condition. */
static inline bool holds_row(const struct tensor_call *c, int64_t points)
{
    return c->from + c->y.frames <= points && c->x.frames + c->h.frames - 1 <= points + c->from &&
           (c->op < HC_GRADIENT_H || c->h.frames <= points);
}

/* The cycles of a window of 2^log2_n complex points if its team runs alone, measured on an H200. */
static inline double team_cycles(int log2_n) { return 4000 + 1.5 * (double)(1 << log2_n); }

#endif
