/* long_rows - runs the plans of long filters (long_plan.cu): launches the kernels of long_kernels.h in order.
 *
 *   workspace, convolve and gradient x   [spectra of some filters] [some windows]
 *   convolve, gradient x of two rows     [spectra of some filters] [kept]
 *   workspace, gradient h                [sum, with is_summed] [some windows of gy] [as many of x]
 *   workspace, both gradients            [some filters] [windows of gy] [as many of x]
 *   gradient h of two rows               [stash] [kept]
 *   both gradients of two rows           [spectra of some filters] [stash] [kept]
 *   gradients with a bank                as above, [filters of some groups] [sums of a chunk of the bank]
 */
#include "kernels/backend/cuda_error.h"
#include "tensor_plan.h"

static struct long_units long_units_of(const struct fused_groups *groups, const struct tensor_rows *rows,
                                       const struct tensor_plan *plan)
{
    struct long_units u = {};
    u.groups = *groups;
    u.rows = rows_of(rows);
    u.units_of_group = u.n_windows = 1;
    u.end = (int64_t)2 << plan->log2_n;
    return u;
}

/* The windows of filters, from tap `first` on. */
static struct long_units filters_of(const struct fused_groups *groups, const struct tensor_call *c,
                                    const struct tensor_plan *plan, int64_t first)
{
    struct long_units u = long_units_of(groups, c->op == HC_GRADIENT_H ? &c->h : &c->bank, plan);
    u.is_filters = true;
    u.lengths = c->lengths;
    u.start = first;
    u.end = min_of(plan->taps, c->h.frames - first);
    u.n = groups->n;
    return u;
}

/* The windows of a row whose 2N frames from j * hop + start on are partly in the row. The result of other windows is 0
 * for this part of the filters. all: all windows. */
struct window_range {
    int64_t first, n;
};
static struct window_range windows_of(const struct tensor_plan *plan, int64_t start, int64_t frames, bool all)
{
    struct window_range range = {0, plan->n_windows};
    const int64_t points = (int64_t)2 << plan->log2_n;
    if (all) return range;
    if (start + points <= 0) range.first = (-start - points) / plan->hop + 1;
    const int64_t end = start < frames ? min_of(plan->n_windows, (frames - start - 1) / plan->hop + 1) : 0;
    range.n = max_of(0, end - range.first);
    return range;
}

/* Are the points of each window from N on 0, or not needed? */
static bool units_are_real(const struct long_units *u, int64_t n)
{
    return u->end <= n || u->start + n >= u->rows.frames;
}

/* The first launch of a call with lists begins when all earlier kernels, which may write the lists, are complete:
 * `split` and later kernels read them before previous_wait. */
static cudaError_t split_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                             bool is_first, const struct long_units *a, const void *a_data, const struct long_units *b,
                             const void *b_data, float2 *scratch)
{
    struct fused_device device = *plan->device;
    if (is_first && (c->has_index || c->x.packed)) device.is_early = false;
    return long_split_launch(&device, plan->size, a, a_data, b, b_data, scratch, (cudaStream_t)d->stream);
}

/* Computes the spectra of filters from d->b or, of HC_GRADIENTS, d->c; splits the windows of d->a behind them. */
static int long_spectra_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                            bool is_first, const struct long_units *filters, const struct long_units *windows,
                            struct reason *why)
{
    const bool is_both = c->op == HC_GRADIENTS;
    struct long_rows rows = {};
    rows.op = LONG_FORWARD;
    rows.n = filters->n;
    rows.data = (float2 *)d->workspace;
    rows.scale = is_both ? 1.0f : 1.0f / (float)((int64_t)1 << plan->log2_n);
    rows.conjugate = c->op != HC_CONVOLVE;
    TRY(split_run(c, d, plan, is_first, filters, is_both ? d->c : d->b, windows, d->a, rows.data),
        "the spectra of long filters");
    TRY(long_rows_launch(plan->device, plan->size, &rows, (cudaStream_t)d->stream), "the spectra of long filters");
    return HC_OK;
}

/* ---- convolve, gradient x ---------------------------------------------------------------------------------------- */

struct long_part { /* the taps of a filter from `tap` on, with all windows of a chunk */
    struct long_units filters, in, out;
    struct long_output output;
    int64_t units, step; /* windows of the chunk, and of a launch */
};

/* false: the result of all windows is 0 for these taps. */
static bool long_part_set(const struct tensor_call *c, const struct tensor_plan *plan,
                          const struct fused_groups *groups, int64_t tap, struct long_part *part)
{
    const bool is_gradient = c->op == HC_GRADIENT_X;
    const struct fused_groups bank = groups_of_bank(c);
    const int64_t from = c->from - tap;
    struct long_units in = long_units_of(groups, is_gradient ? &c->y : &c->x, plan);
    struct long_units out = long_units_of(groups, is_gradient ? &c->x : &c->y, plan);
    part->filters = filters_of(plan->by_bank ? &bank : groups, c, plan, tap);
    part->output = long_output{0, 1.0f, tap > 0};
    if (is_gradient) {
        in.start = -from;
        out.end = plan->hop;
    } else {
        part->output.first_point = plan->is_single ? from : plan->taps - 1;
        in.start = from - part->output.first_point;
        out.start = -part->output.first_point;
    }
    const struct window_range range = windows_of(plan, in.start, in.rows.frames, tap == 0 || c->x.packed);
    if (range.n == 0) return false;
    in.hop = out.hop = plan->hop;
    in.n_windows = out.n_windows = range.n;
    in.start += range.first * plan->hop;
    out.start += range.first * plan->hop;
    in.units_of_group = out.units_of_group = rows_of_filter(c) * range.n;
    in.by_bank = out.by_bank = plan->by_bank;
    in.may_skip = true;
    part->in = in;
    part->out = out;
    part->units = c->x.packed && c->h.batch > 1 ? c->x.channels * range.n : groups->n * in.units_of_group;
    part->step = ceil_div(part->units, ceil_div(part->units, plan->n_units));
    return true;
}

/* Sets the windows of the launch from window `first` on. */
static void long_part_move(struct long_part *part, int64_t first)
{
    part->in.first = part->out.first = first;
    part->in.n = part->out.n = (int)min_of(part->step, part->units - first);
}

static int steps_convolve(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                          const struct fused_groups *groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << plan->log2_n;
    struct long_part part = {};
    bool is_first = true;
    for (int64_t tap = 0; tap < c->h.frames; tap += plan->taps) {
        if (!long_part_set(c, plan, groups, tap, &part)) continue;
        struct long_rows rows = {};
        rows.op = LONG_CONVOLVE;
        rows.spectra = (float2 *)d->workspace;
        rows.data = (float2 *)d->workspace + part.filters.n * n;
        rows.units_of_group = part.in.units_of_group;
        if (c->has_index || c->x.packed) rows.listed = &part.in;
        for (int64_t first = 0; first < part.units; first += part.step) {
            long_part_move(&part, first);
            rows.first = first;
            rows.n = part.in.n;
            if (first == 0) {
                PASS(long_spectra_run(c, d, plan, is_first, &part.filters, &part.in, why));
                is_first = false;
                part.filters.n = 0;
            } else {
                TRY(split_run(c, d, plan, false, &part.filters, d->b, &part.in, d->a, rows.data), "a long convolution");
            }
            TRY(long_rows_launch(plan->device, plan->size, &rows, stream), "a long convolution");
            TRY(long_join_launch(plan->device, plan->size, &part.out, &part.output, rows.data, n, d->out, stream),
                "a long convolution");
        }
    }
    return HC_OK;
}

static int two_rows_convolve(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                             const struct fused_groups *groups, struct reason *why)
{
    const int64_t n = (int64_t)1 << plan->log2_n;
    struct long_part part = {};
    bool is_first = true;
    for (int64_t tap = 0; tap < c->h.frames; tap += plan->taps) {
        if (!long_part_set(c, plan, groups, tap, &part)) continue;
        PASS(long_spectra_run(c, d, plan, is_first, &part.filters, &part.in, why)); /* part.in.n is 0 */
        is_first = false;
        float2 *spectra = (float2 *)d->workspace, *kept = spectra + part.filters.n * n;
        for (int64_t first = 0; first < part.units; first += part.step) {
            long_part_move(&part, first);
            const struct long_two_rows p = {part.in, part.out, part.output, d->a, d->out, spectra, kept};
            TRY(long_two_rows_launch(plan->device, units_are_real(&part.in, n) && units_are_real(&part.out, n), &p,
                                     (cudaStream_t)d->stream),
                "a long convolution");
        }
    }
    return HC_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The windows of a chunk for the lags from `lag` on; gh: the filters of the result, in the tensor or the workspace. */
struct long_lags {
    struct long_units x, gy, gh;
};

static struct long_lags long_lags_of(const struct tensor_call *c, const struct tensor_plan *plan,
                                     const struct fused_groups *groups, int64_t lag)
{
    struct fused_groups of_gh = *groups;
    of_gh.index = of_gh.offsets = NULL; /* gh has one filter for each group, with all its taps */
    if (plan->n_partial > 0) of_gh.first %= (int)plan->n_partial;
    struct long_lags w = {long_units_of(groups, &c->x, plan), long_units_of(groups, &c->y, plan),
                          filters_of(&of_gh, c, plan, lag)};
    w.gh.rows = rows_of(c->op == HC_GRADIENTS ? &c->gh : &c->h);
    if (c->has_index) w.gh.lengths = NULL;
    w.gy.start = lag - c->from;
    w.x.end = plan->hop;
    struct window_range range =
        windows_of(plan, w.gy.start, w.gy.rows.frames, plan->is_single || c->x.packed || c->op == HC_GRADIENTS);
    if (range.n == 0) range = window_range{0, 1}; /* one window, to write zeros */
    w.x.by_group = w.gy.by_group = c->x.packed && c->h.batch > 1;
    if (w.x.by_group) range.n = ceil_div(c->x.packed, plan->hop);
    w.x.hop = w.gy.hop = plan->hop;
    w.x.n_windows = w.gy.n_windows = range.n;
    w.x.start += range.first * plan->hop;
    w.gy.start += range.first * plan->hop;
    w.x.units_of_group = w.gy.units_of_group = rows_of_filter(c) * range.n;
    if (c->op != HC_GRADIENTS) return w;
    w.x.may_skip = w.gy.may_skip = true;
    w.x.n = w.gy.n = (int)(groups->n * w.x.units_of_group);
    return w;
}

static int steps_gradient_h(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                            const struct fused_groups *groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << plan->log2_n;
    float2 *scratch = (float2 *)d->workspace;
    for (int64_t lag = 0; lag < c->h.frames; lag += plan->taps) {
        struct long_lags w = long_lags_of(c, plan, groups, lag);
        struct long_output output = {0, 1.0f / (float)n, false};
        const int64_t units = groups->n * w.x.units_of_group, step = ceil_div(units, ceil_div(units, plan->n_units));
        for (int64_t first = 0; first < units; first += step) {
            w.x.first = w.gy.first = first;
            w.x.n = w.gy.n = (int)min_of(step, units - first);
            const bool add = first > 0; /* then there is one filter */
            /* The sum of the first launch replaces its first window; later launches leave that window alone. */
            float2 *windows = scratch + (plan->is_summed && add ? n : 0);
            const struct long_gradient_rows rows = {groups->n, w.x.n / groups->n, windows + w.x.n * n, windows,
                                                    plan->is_summed && add};
            output.add = !plan->is_summed && add;
            TRY(split_run(c, d, plan, lag == 0 && first == 0, &w.gy, d->a, &w.x, d->b, windows),
                "a gradient of long filters");
            TRY(long_gradient_rows_launch(plan->device, plan->size, &rows, stream), "a gradient of long filters");
            if (plan->is_summed && first + step < units) continue;
            TRY(long_join_launch(plan->device, plan->size, &w.gh, &output, scratch, rows.windows * n, d->out, stream),
                "a gradient of long filters");
        }
    }
    return HC_OK;
}

static int steps_gradients(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                           const struct fused_groups *groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << plan->log2_n;
    const struct long_lags w = long_lags_of(c, plan, groups, 0);
    const struct long_units filters = filters_of(groups, c, plan, 0);
    struct long_units gx = w.x, none = {};
    gx.rows = rows_of(&c->gx);
    float2 *of_h = (float2 *)d->workspace, *of_gy = of_h + groups->n * n, *of_x = of_gy + w.gy.n * n;
    const struct long_both_rows rows = {*groups, groups->n, (int)w.x.units_of_group, of_h, of_gy, of_x};
    const struct long_output output = {0, 1.0f / (float)n, false};
    TRY(split_run(c, d, plan, true, &filters, d->c, &w.gy, d->a, of_h), "long gradients");
    TRY(split_run(c, d, plan, false, &w.x, d->b, &none, d->b, of_x), "long gradients");
    TRY(long_both_rows_launch(plan->device, plan->size.log2_r, &rows, stream), "long gradients");
    TRY(long_join_launch(plan->device, plan->size, &gx, &output, of_gy, n, d->out, stream), "long gradients");
    TRY(long_join_launch(plan->device, plan->size, &w.gh, &output, of_h, n, d->out_h, stream), "long gradients");
    return HC_OK;
}

/* Both gradients or, without spectra, that of h, from lag w.gh.start on; stash: after the spectra. */
static int two_rows_gradient_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                                 const struct long_lags *w, const float2 *spectra, float2 *stash, struct reason *why)
{
    const int64_t n = (int64_t)1 << plan->log2_n;
    struct long_gradient_two_rows p = {};
    p.x = w->x;
    p.gy = w->gy;
    p.filters = w->gh;
    p.output.scale = 1.0f / (float)n;
    p.windows = p.of_step = (int)w->x.units_of_group;
    p.gy_data = d->a;
    p.x_data = d->b;
    p.gh = spectra ? d->out_h : d->out;
    if (spectra) {
        p.of_step = plan->of_step;
        p.gx = w->x;
        p.gx.rows = rows_of(&c->gx);
        p.gx.by_bank = plan->by_bank;
        p.gx_data = d->out;
        p.spectra = spectra;
    }
    p.stash = stash;
    p.kept = (float2 *)((char *)d->workspace + (plan->bytes - plan->partial - plan->sums - plan->kept));
    p.n_stash = plan->n_stash;
    p.n_kept = plan->n_kept;
    const bool is_real = units_are_real(&p.x, n) && units_are_real(&p.gy, n) && units_are_real(&p.filters, n);
    TRY(long_gradient_two_rows_launch(plan->device, is_real, &p, (cudaStream_t)d->stream),
        "a gradient of long filters");
    return HC_OK;
}

static int two_rows_gradients(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                              const struct fused_groups *groups, struct reason *why)
{
    float2 *workspace = (float2 *)d->workspace;
    if (c->op == HC_GRADIENTS) {
        const struct fused_groups bank = groups_of_bank(c);
        const struct long_units filters = filters_of(plan->by_bank ? &bank : groups, c, plan, 0), none = {};
        const int64_t n_spectra = plan->by_bank ? bank.n : plan->n_groups;
        const struct long_lags w = long_lags_of(c, plan, groups, 0);
        PASS(long_spectra_run(c, d, plan, true, &filters, &none, why));
        return two_rows_gradient_run(c, d, plan, &w, workspace, workspace + (n_spectra << plan->log2_n), why);
    }
    for (int64_t lag = 0; lag < c->h.frames; lag += plan->taps) {
        const struct long_lags w = long_lags_of(c, plan, groups, lag);
        PASS(two_rows_gradient_run(c, d, plan, &w, NULL, workspace, why));
    }
    return HC_OK;
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

int long_steps_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                   const struct fused_groups *groups, struct reason *why)
{
    return (c->op == HC_GRADIENTS    ? steps_gradients
            : c->op == HC_GRADIENT_H ? steps_gradient_h
                                     : steps_convolve)(c, d, plan, groups, why);
}

int long_two_rows_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                      const struct fused_groups *groups, struct reason *why)
{
    return (c->op >= HC_GRADIENT_H ? two_rows_gradients : two_rows_convolve)(c, d, plan, groups, why);
}

/* A filter for each group of rows, then their sums. */
int long_bank_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                  struct reason *why)
{
    const bool is_both = c->op == HC_GRADIENTS;
    struct tensor_call own = *c;
    own.h.type = HC_FLOAT32;
    own.h.stride[1] = c->h.frames;
    own.h.stride[0] = c->h.channels * c->h.frames;
    own.gh = own.h;
    struct fused_gradient_h sum = {};
    float *sums = plan->sums ? (float *)((char *)d->workspace + (plan->bytes - plan->sums)) : NULL;
    sum.partial = (float *)((char *)d->workspace + (plan->bytes - plan->sums - plan->partial));
    sum.n_slices = 1;
    hc_tensor_data data = *d;
    *(is_both ? &data.out_h : &data.out) = sum.partial;
    return with_chunks(c, d, plan->n_bank, plan->n_partial, [&](const struct fused_groups &chunk) {
        const int end = chunk.first + chunk.n;
        struct fused_groups groups = chunk;
        for (; groups.first < end; groups.first += groups.n) {
            groups.n = (int)min_of(plan->n_groups, end - groups.first);
            PASS(plan->way->run(&own, &data, plan, &groups, why));
        }
        sum.groups = chunk;
        bank_output_set(c, rows_of(is_both ? &c->gh : &c->bank), is_both ? d->out_h : d->out, sums, &sum);
        TRY(fused_bank_sum_launch(&sum, (cudaStream_t)d->stream), "the gradient of a bank");
        return (int)HC_OK;
    });
}
