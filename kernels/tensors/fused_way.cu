/* fused_way - convolves tensors by kernels that each compute whole windows (tensor_plan.h, fused_kernels.h).
 *
 *   workspace, convolve and gradient x   [spectra of a chunk of filters], or nothing for few short windows
 *   workspace, gradient h                [stash] [partial sums] [sums of a chunk of a bank]
 *   workspace, both gradients            [partial sums] [sums of a chunk of a bank] [spectra of a chunk of filters]
 */
#include "kernels/backend/cuda_error.h"
#include "tensor_plan.h"

#include <limits.h>
#include <math.h>

/* Tests of long filters lower this, for short filters. */
#ifndef FUSED_UP_TO
#define FUSED_UP_TO FUSED_MAX
#endif

enum { MAX_GROUPS = 65535, MAX_WINDOWS = INT_MAX }; /* max. groups and windows of a launch */

/* The cycles of the windows of both gradients relative to those of one: three transforms of a window instead of two. */
static const double fused_gradients_factor = 1.5;

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static int teams_of_plan(const struct tensor_call *c, const struct tensor_plan *plan)
{
    return c->op == HC_GRADIENTS    ? fused_gradients_teams(plan->device, plan->log2_n)
           : c->op == HC_GRADIENT_H ? fused_gradient_h_teams(plan->device, plan->log2_n)
                                    : fused_teams(plan->device, plan->log2_n);
}

static bool fused_fits(const struct tensor_call *c, struct tensor_plan *plan)
{
    const int64_t points = (int64_t)2 << plan->log2_n, frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
    plan->is_single = holds_row(c, points);
    if (!teams_of_plan(c, plan) || (!plan->is_single && c->h.frames > points)) return false;
    plan->hop = plan->is_single ? points : points - c->h.frames + 1;
    plan->n_windows = plan->is_single && !c->x.packed ? 1 : windows_in(c, frames, plan->hop);
    const double windows =
        c->x.packed ? windows_in_all(c, plan->n_windows) : (double)plan->n_windows * (double)rows_of_filter(c);
    return windows <= MAX_WINDOWS;
}

/* HC_GRADIENT_H or HC_GRADIENTS: halves slices, then groups, until the workspace is small enough. */
static void fused_gradient_memory(const struct tensor_call *c, int64_t groups, struct tensor_plan *plan)
{
    const bool is_both = c->op == HC_GRADIENTS;
    const int64_t filters = c->h.batch * c->h.channels;
    const int64_t tasks = plan->n_windows * (c->x.packed ? c->x.channels : rows_of_filter(c)); /* max. */
    const size_t spectrum = sizeof(float2) << plan->log2_n, partial = (size_t)c->h.frames * sizeof(float);
    const size_t limit = c->has_index ? bank_limit(c) : c->limit;
    const size_t for_bank = c->limit / (c->h.type == HC_FLOAT32 ? 2 : 4); /* 16 bits have sums, too */
    plan->by_bank = is_both && c->has_index && c->bank.batch <= min_of(filters, (int64_t)(for_bank / spectrum));
    const int teams = teams_of_plan(c, plan);
    int64_t slices = min_of(tasks, max_of(1, teams / groups)); /* slices that all run at once */
    slices = ceil_div(tasks, ceil_div(tasks, slices));         /* fewer slices, if not slower */
    for (;;) {
        if (!is_both) plan->stash = aligned(fused_gradient_h_stash(plan->log2_n, groups * slices));
        plan->partial = slices > 1 || c->has_index ? aligned(partial * (size_t)(slices * groups)) : 0;
        if (c->has_index && c->h.type != HC_FLOAT32 && groups < filters) {
            plan->n_bank = min_of(c->bank.batch, max_of(1, (int64_t)(limit / 2 / partial)));
            plan->sums = aligned((size_t)plan->n_bank * partial);
        }
        plan->bytes = plan->stash + plan->partial + plan->sums;
        if (is_both) plan->bytes += (size_t)(plan->by_bank ? c->bank.batch : groups) * spectrum;
        if (plan->bytes <= limit || (slices == 1 && groups == 1)) break;
        if (slices > 1)
            slices /= 2;
        else
            groups = (groups + 1) / 2;
    }
    plan->n_slices = (int)slices;
    plan->n_groups = (int)groups;
    if (!is_both) return;
    const int64_t rounds = ceil_div(filters, groups) * ceil_div(groups * slices, teams) * ceil_div(tasks, slices);
    plan->in_chunks = plan->n_bank < c->bank.batch || plan->bytes > limit
                          ? INFINITY
                          : (double)rounds * team_cycles(plan->log2_n) * fused_gradients_factor;
}

static bool fused_memory(const struct tensor_call *c, struct tensor_plan *plan)
{
    const int64_t filters = c->h.batch * c->h.channels, rows = rows_of_filter(c);
    const size_t spectrum = sizeof(float2) << plan->log2_n;
    int64_t groups = min_of(filters, MAX_GROUPS);
    if (!c->x.packed) groups = min_of(groups, MAX_WINDOWS / (rows * plan->n_windows));
    if (c->op >= HC_GRADIENT_H) {
        fused_gradient_memory(c, groups, plan);
        return true;
    }
    plan->is_one_launch = !c->has_index && !c->x.packed && c->x.type == HC_FLOAT32 && c->y.type == HC_FLOAT32 &&
                          plan->log2_n == FUSED_MIN &&
                          filters * rows * plan->n_windows <= fused_one_launch_windows(plan->device);
    if (!plan->is_one_launch) {
        plan->by_bank = c->has_index && c->bank.batch <= min_of(filters, (int64_t)(c->limit / spectrum));
        if (!plan->by_bank) groups = max_of(1, min_of(groups, (int64_t)(c->limit / spectrum)));
        plan->bytes = aligned((size_t)(plan->by_bank ? c->bank.batch : groups) * spectrum);
    }
    plan->n_groups = (int)groups;
    return true;
}

/* The time of windows in cycles, as measured on an H200: rounds of teams that run alone or, if all multiprocessors are
 * full, 1.05 cycles of a multiprocessor for a point (points cross shared memory twice) or 1.6 (four times). */
static double fused_cycles(const struct tensor_call *c, const struct tensor_plan *plan)
{
    const double n = (double)(1 << plan->log2_n), a_point = plan->log2_n <= 10 ? 1.05 : 1.6;
    const double windows = windows_in_all(c, plan->n_windows);
    const double full = windows * n * a_point / plan->device->n_sm;
    const double alone = ceil(windows / teams_of_plan(c, plan)) * team_cycles(plan->log2_n);
    return fmax(full, alone) * (c->op == HC_GRADIENTS ? fused_gradients_factor : 1);
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

/* Computes the spectra of the filters of `groups`, or once those of a whole bank. */
static int fused_filters_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                             struct fused_spectra *filters, struct reason *why)
{
    const bool is_first = filters->groups.first == 0;
    if (plan->by_bank) filters->groups = groups_of_bank(c);
    if (!plan->by_bank || is_first)
        TRY(fused_spectra_launch(plan->log2_n, filters, (cudaStream_t)d->stream), "the spectra of filters");
    return HC_OK;
}

/* Is the second half of the points of each window 0 or not needed? */
static bool call_is_real(const struct tensor_call *c, const struct tensor_plan *plan)
{
    const int64_t n = (int64_t)1 << plan->log2_n;
    return plan->is_single && c->from + c->y.frames <= n && c->x.frames <= n &&
           (c->op < HC_GRADIENT_H || c->h.frames <= n);
}

static int fused_convolve_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                              const struct fused_groups *groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int n = 1 << plan->log2_n;
    const bool is_gradient = c->op == HC_GRADIENT_X;
    float2 *spectra = (float2 *)d->workspace;
    struct fused_spectra filters = {*groups, rows_of(&c->bank), d->b, c->lengths, is_gradient, spectra};
    if (!plan->is_one_launch) PASS(fused_filters_run(c, d, plan, &filters, why));
    struct fused_convolve p = {};
    p.groups = *groups;
    p.in = rows_of(is_gradient ? &c->y : &c->x);
    p.out = rows_of(is_gradient ? &c->x : &c->y);
    p.x = d->a;
    p.y = d->out;
    p.spectra = spectra;
    p.by_bank = plan->by_bank;
    p.n_windows = plan->n_windows;
    p.hop = plan->hop;
    if (is_gradient) {
        p.in_first = -c->from;
        p.out_end = (int)plan->hop;
    } else {
        p.out_first = (int)(plan->is_single ? c->from : 2 * n - plan->hop); /* is at least taps - 1 */
        p.in_first = plan->is_single ? 0 : c->from - p.out_first;
        p.out_end = 2 * n;
    }
    if (call_is_real(c, plan)) p.out_end = n;
    TRY(plan->is_one_launch ? fused_one_launch(&p, &filters, stream)
                            : fused_convolve_launch(plan->device, plan->log2_n, call_is_real(c, plan), &p, stream),
        "a convolution of tensors");
    return HC_OK;
}

/* HC_GRADIENT_H or HC_GRADIENTS. */
static int fused_gradient_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                              const struct fused_groups *groups, struct reason *why)
{
    const bool is_both = c->op == HC_GRADIENTS;
    struct fused_gradient_h p = {};
    p.groups = *groups;
    p.x = rows_of(&c->x);
    p.gy = rows_of(&c->y);
    p.out = rows_of(is_both ? &c->gh : &c->bank);
    p.gy_data = d->a;
    p.x_data = d->b;
    p.n_windows = plan->n_windows;
    p.hop = plan->hop;
    p.gy_first = -c->from;
    p.n_slices = plan->n_slices;
    p.lengths = c->lengths;
    p.gh = is_both ? d->out_h : d->out;
    p.stash = (float2 *)d->workspace;
    p.partial = (float *)((char *)d->workspace + plan->stash);
    if (c->has_index)
        bank_output_set(c, p.out, p.gh, plan->sums ? (float *)((char *)p.partial + plan->partial) : NULL, &p);
    if (is_both) {
        float2 *spectra = (float2 *)((char *)d->workspace + plan->partial + plan->sums);
        struct fused_spectra filters = {*groups, rows_of(&c->bank), d->c, c->lengths, true, spectra};
        PASS(fused_filters_run(c, d, plan, &filters, why));
        p.gx = rows_of(&c->gx);
        p.gx_data = d->out;
        p.spectra = spectra;
        p.by_bank = plan->by_bank;
    }
    TRY(fused_gradient_h_launch(plan->log2_n, call_is_real(c, plan), &p, (cudaStream_t)d->stream),
        "a gradient of filters");
    return HC_OK;
}

static int fused_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                     const struct fused_groups *groups, struct reason *why)
{
    return (c->op >= HC_GRADIENT_H ? fused_gradient_run : fused_convolve_run)(c, d, plan, groups, why);
}

const struct tensor_way fused_way = {FUSED_MIN, FUSED_UP_TO, fused_fits, fused_memory, fused_cycles, fused_run};
