/* long_rows - launches the steps of a plan in order (long_rows.h).
 *
 *   workspace, convolve and gradient x   [spectra of some filters] [some windows]
 *   convolve, gradient x of two rows     [spectra of some filters] [kept]
 *   workspace, gradient h                [sum, with is_summed] [some windows of gy] [as many of x]
 *   workspace, both gradients            [some filters] [windows of gy] [as many of x]
 *   gradient h of two rows               [stash] [kept]
 *   both gradients of two rows           [spectra of some filters] [stash] [kept]
 *   gradients with a bank                as above, [filters of some groups] [sums of a chunk of the bank]
 */
#include "long_rows.h"

#include "kernels/backend/cuda_error.h"
#include "plan_sizes.h"

static struct long_units long_units_of(const struct fused_groups *groups, const struct tensor_rows *rows,
                                       const struct long_plan *plan)
{
    struct long_units u = {};
    u.groups = *groups;
    u.rows = rows_of(rows);
    u.units_of_group = u.n_windows = 1;
    u.end = (int64_t)2 << (plan->size.log2_row + plan->size.log2_r);
    return u;
}

/* The windows of filters, from tap `first` on. */
static struct long_units filters_of(const struct fused_groups *groups, const struct tensor_call *c,
                                    const struct long_plan *plan, int64_t first)
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
struct window_range { int64_t first, n; };
static struct window_range windows_of(const struct long_plan *plan, int64_t start, int64_t frames, bool all)
{
    struct window_range range = {0, plan->n_windows};
    const int64_t points = (int64_t)2 << (plan->size.log2_row + plan->size.log2_r);
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

/* The device's properties for the launch of `split`. The first launch of a call with lists begins when all earlier
 * kernels, which may write the lists, are complete: `split` and later kernels read them before previous_wait. */
static struct fused_device split_device(const struct fused_device *device, const struct tensor_call *c, bool is_first)
{
    struct fused_device properties = *device;
    if (is_first && (c->has_index || c->x.packed)) properties.is_early = false;
    return properties;
}

static int run_long_convolve(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
                             const struct long_plan *plan, const struct fused_groups *groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const bool is_gradient = c->op == HC_GRADIENT_X;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    const int n_spectra = plan->by_bank ? (int)c->bank.batch : groups->n;
    const bool is_listed = c->has_index || c->x.packed;
    float2 *spectra = (float2 *)d->workspace, *scratch = spectra + (int64_t)n_spectra * n;
    bool is_first = true;
    for (int64_t tap = 0; tap < c->h.frames; tap += plan->taps) {
        const struct fused_groups bank = groups_of_bank(c);
        struct long_units filters = filters_of(plan->by_bank ? &bank : groups, c, plan, tap);
        const int64_t from = c->from - tap;
        struct long_units in = long_units_of(groups, is_gradient ? &c->y : &c->x, plan);
        struct long_units out = long_units_of(groups, is_gradient ? &c->x : &c->y, plan);
        struct long_output output = {0, 1.0f, tap > 0};
        if (is_gradient) {
            in.start = -from;
            out.end = plan->hop;
        } else {
            output.first_point = plan->is_single ? from : plan->taps - 1;
            in.start = from - output.first_point;
            out.start = -output.first_point;
        }
        const struct window_range range = windows_of(plan, in.start, in.rows.frames, tap == 0 || c->x.packed);
        if (range.n == 0) continue;
        in.hop = out.hop = plan->hop;
        in.n_windows = out.n_windows = range.n;
        in.start += range.first * plan->hop;
        out.start += range.first * plan->hop;
        in.units_of_group = out.units_of_group = rows_of_filter(c) * range.n;
        in.by_bank = out.by_bank = plan->by_bank;
        in.may_skip = true;
        struct long_rows of_filters = {}, rows = {};
        of_filters.op = LONG_FORWARD;
        of_filters.n = n_spectra;
        of_filters.data = spectra;
        of_filters.scale = 1.0f / (float)n;
        of_filters.conjugate = is_gradient;
        rows.op = LONG_CONVOLVE;
        rows.data = scratch;
        rows.spectra = spectra;
        rows.units_of_group = in.units_of_group;
        const int64_t units = c->x.packed && c->h.batch > 1 ? c->x.channels * range.n : groups->n * in.units_of_group;
        const int64_t step = ceil_div(units, ceil_div(units, plan->n_units));
        if (is_listed) rows.listed = &in;
        for (int64_t first = 0; first < units; first += step) {
            in.first = out.first = rows.first = first;
            in.n = out.n = rows.n = (int)min_of(step, units - first);
            struct long_units split = in;
            const struct fused_device of_split = split_device(device, c, is_first);
            is_first = false;
            if (plan->has_two_rows) split.n = 0;
            if (first == 0 || split.n > 0)
                TRY(long_split_launch(&of_split, plan->size, &filters, d->b, &split, d->a, first ? scratch : spectra,
                                      stream),
                    "a long convolution");
            if (first == 0)
                TRY(long_rows_launch(device, plan->size, &of_filters, stream), "the spectra of long filters");
            filters.n = 0;
            if (plan->has_two_rows) {
                const struct long_two_rows two_rows = {in, out, output, d->a, d->out, spectra, scratch};
                TRY(long_two_rows_launch(device, units_are_real(&in, n) && units_are_real(&out, n), &two_rows, stream),
                    "a long convolution");
                continue;
            }
            TRY(long_rows_launch(device, plan->size, &rows, stream), "a long convolution");
            TRY(long_join_launch(device, plan->size, &out, &output, scratch, n, d->out, stream), "a long convolution");
        }
    }
    return HC_OK;
}

/* Both gradients, or that of h, by long_gradient_two_rows; the caller sets the units. stash: after the spectra. */
static struct long_gradient_two_rows two_rows_of(const hc_tensor_data *d, const struct long_plan *plan, float2 *stash,
                                                 void *gh)
{
    struct long_gradient_two_rows p = {};
    p.gy_data = d->a;
    p.x_data = d->b;
    p.gh = gh;
    p.stash = stash;
    p.kept = (float2 *)((char *)d->workspace + (plan->bytes - plan->partial - plan->kept));
    p.n_stash = plan->n_stash;
    p.n_kept = plan->n_kept;
    return p;
}

/* gh_first: the group of gh's first filter. */
static int run_long_gradient_h(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
                               const struct long_plan *plan, const struct fused_groups *groups, void *gh, int gh_first,
                               struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    float2 *scratch = (float2 *)d->workspace;
    struct fused_groups of_filters = *groups;
    of_filters.index = of_filters.offsets = NULL; /* gh has a filter for each group */
    of_filters.first -= gh_first;
    for (int64_t lag = 0; lag < c->h.frames; lag += plan->taps) {
        const struct long_units filters = filters_of(&of_filters, c, plan, lag);
        struct long_units x = long_units_of(groups, &c->x, plan), gy = long_units_of(groups, &c->y, plan);
        gy.start = lag - c->from;
        x.end = plan->hop;
        struct window_range range = windows_of(plan, gy.start, gy.rows.frames, plan->is_single || c->x.packed);
        if (range.n == 0) range = window_range{0, 1}; /* one window, to write zeros */
        x.by_group = gy.by_group = c->x.packed && c->h.batch > 1;
        if (x.by_group) range.n = ceil_div(c->x.packed, plan->hop);
        x.hop = gy.hop = plan->hop;
        x.n_windows = gy.n_windows = range.n;
        x.start += range.first * plan->hop;
        gy.start += range.first * plan->hop;
        x.units_of_group = gy.units_of_group = rows_of_filter(c) * range.n;
        const int64_t units = groups->n * x.units_of_group;
        struct long_output output = {0, 1.0f / (float)n, false};
        if (plan->has_two_rows) {
            struct long_gradient_two_rows two_rows = two_rows_of(d, plan, scratch, gh);
            two_rows.x = x;
            two_rows.gy = gy;
            two_rows.filters = filters;
            two_rows.output = output;
            two_rows.windows = two_rows.of_step = (int)x.units_of_group;
            TRY(long_gradient_two_rows_launch(
                    device, units_are_real(&x, n) && units_are_real(&gy, n) && units_are_real(&filters, n), &two_rows,
                    stream),
                "a gradient of long filters");
            continue;
        }
        const int64_t step = ceil_div(units, ceil_div(units, plan->n_units));
        for (int64_t first = 0; first < units; first += step) {
            x.first = gy.first = first;
            x.n = gy.n = (int)min_of(step, units - first);
            const bool add = first > 0; /* then there is one filter */
            /* The sum of the first launch replaces its first window; later launches leave that window alone. */
            float2 *windows = scratch + (plan->is_summed && add ? n : 0);
            const struct long_gradient_rows rows = {groups->n, x.n / groups->n, windows + x.n * n, windows,
                                                    plan->is_summed && add};
            output.add = !plan->is_summed && add;
            const struct fused_device of_split = split_device(device, c, lag == 0 && first == 0);
            TRY(long_split_launch(&of_split, plan->size, &gy, d->a, &x, d->b, windows, stream),
                "a gradient of long filters");
            TRY(long_gradient_rows_launch(device, plan->size, &rows, stream), "a gradient of long filters");
            if (plan->is_summed && first + step < units) continue;
            TRY(long_join_launch(device, plan->size, &filters, &output, scratch, rows.windows * n, gh, stream),
                "a gradient of long filters");
        }
    }
    return HC_OK;
}

/* gh, gh_first: as in run_long_gradient_h. */
static int run_long_gradients(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
                              const struct long_plan *plan, const struct fused_groups *groups, void *gh, int gh_first,
                              struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    const struct long_units filters = filters_of(groups, c, plan, 0);
    struct long_units out = filters, gx, x = long_units_of(groups, &c->x, plan),
                      gy = long_units_of(groups, &c->y, plan);
    out.rows = rows_of(&c->gh);
    if (c->has_index) { /* gh has a filter for each group, with all taps */
        out.groups.index = NULL;
        out.groups.first -= gh_first;
        out.lengths = NULL;
    }
    x.may_skip = gy.may_skip = true;
    gy.start = -c->from;
    x.end = plan->hop;
    x.hop = gy.hop = plan->hop;
    x.n_windows = gy.n_windows = plan->n_windows;
    x.units_of_group = gy.units_of_group = rows_of_filter(c) * plan->n_windows;
    x.n = gy.n = (int)(groups->n * x.units_of_group);
    gx = x;
    gx.rows = rows_of(&c->gx);
    float2 *of_h = (float2 *)d->workspace, *of_gy = of_h + groups->n * n, *of_x = of_gy + gy.n * n;
    const struct long_both_rows rows = {*groups, groups->n, (int)x.units_of_group, of_h, of_gy, of_x};
    const struct fused_device of_first = split_device(device, c, true);
    const struct long_output output = {0, 1.0f / (float)n, false};
    struct long_units none = x;
    none.n = 0;
    if (plan->has_two_rows) {
        const struct fused_groups bank = groups_of_bank(c);
        const struct long_units spectra = plan->by_bank ? filters_of(&bank, c, plan, 0) : filters;
        const int64_t n_spectra = plan->by_bank ? bank.n : plan->n_groups;
        struct long_rows of_filters = {};
        of_filters.op = LONG_FORWARD;
        of_filters.n = spectra.n;
        of_filters.data = of_h;
        of_filters.scale = 1.0f;
        of_filters.conjugate = true;
        struct long_gradient_two_rows two_rows = two_rows_of(d, plan, of_h + n_spectra * n, gh);
        two_rows.x = x;
        two_rows.gy = gy;
        two_rows.gx = gx;
        two_rows.gx.by_bank = plan->by_bank;
        two_rows.filters = out;
        two_rows.output = output;
        two_rows.windows = (int)x.units_of_group;
        two_rows.of_step = plan->of_step;
        two_rows.gx_data = d->out;
        two_rows.spectra = of_h;
        TRY(long_split_launch(&of_first, plan->size, &spectra, d->c, &none, d->a, of_h, stream), "long gradients");
        TRY(long_rows_launch(device, plan->size, &of_filters, stream), "the spectra of long filters");
        TRY(long_gradient_two_rows_launch(
                device, units_are_real(&x, n) && units_are_real(&gy, n) && units_are_real(&out, n), &two_rows, stream),
            "long gradients");
        return HC_OK;
    }
    TRY(long_split_launch(&of_first, plan->size, &filters, d->c, &gy, d->a, of_h, stream), "long gradients");
    TRY(long_split_launch(device, plan->size, &x, d->b, &none, d->b, of_x, stream), "long gradients");
    TRY(long_both_rows_launch(device, plan->size.log2_r, &rows, stream), "long gradients");
    TRY(long_join_launch(device, plan->size, &gx, &output, of_gy, n, d->out, stream), "long gradients");
    TRY(long_join_launch(device, plan->size, &out, &output, of_h, n, gh, stream), "long gradients");
    return HC_OK;
}

/* Computes the gradient of a bank, alone or with that of x: a filter for each group of rows, then their sums. */
static int run_long_bank(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
                         const struct long_plan *plan, struct reason *why)
{
    const bool is_both = c->op == HC_GRADIENTS;
    struct tensor_call own = *c;
    if (!is_both) own.lengths = NULL;
    own.h.type = HC_FLOAT32;
    own.h.stride[1] = c->h.frames;
    own.h.stride[0] = c->h.channels * c->h.frames;
    own.gh = own.h;
    struct fused_gradient_h sum = {};
    float *sums = plan->sums ? (float *)((char *)d->workspace + (plan->bytes - plan->sums)) : NULL;
    sum.partial = (float *)((char *)d->workspace + (plan->bytes - plan->partial));
    sum.n_slices = 1;
    return with_chunks(c, d, plan->n_bank, plan->n_partial, [&](const struct fused_groups &chunk) {
        const int end = chunk.first + chunk.n;
        struct fused_groups groups = chunk;
        for (; groups.first < end; groups.first += groups.n) {
            groups.n = (int)min_of(plan->n_groups, end - groups.first);
            PASS((is_both ? run_long_gradients : run_long_gradient_h)(&own, d, device, plan, &groups, sum.partial,
                                                                      chunk.first, why));
        }
        sum.groups = chunk;
        bank_output_set(c, rows_of(is_both ? &c->gh : &c->bank), is_both ? d->out_h : d->out, sums, &sum);
        TRY(fused_bank_sum_launch(&sum, (cudaStream_t)d->stream), "the gradient of a bank");
        return (int)HC_OK;
    });
}

int long_run(const struct tensor_call *c, const hc_tensor_data *d, const struct fused_device *device,
             const struct long_plan *plan, struct reason *why)
{
    if (plan->n_partial > 0) return run_long_bank(c, d, device, plan, why);
    return with_chunks(c, d, c->bank.batch, plan->n_groups, [&](const struct fused_groups &groups) {
        return c->op == HC_GRADIENTS    ? run_long_gradients(c, d, device, plan, &groups, d->out_h, 0, why)
               : c->op == HC_GRADIENT_H ? run_long_gradient_h(c, d, device, plan, &groups, d->out, 0, why)
                                        : run_long_convolve(c, d, device, plan, &groups, why);
    });
}
