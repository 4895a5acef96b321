/* long_rows - see the header.
 *
 *   workspace, convolve and gradient x   [spectra of some filters] [some windows]
 *   the same, windows in halves          [spectra of some filters]
 *   workspace, gradient h                [windows of x] [as many of gy] [sum of their products]
 *
 * A step reads what the step before it wrote, so the windows of a step are as many as keep the device busy and, where
 * possible, as stay in the L2 cache.
 */
#include "long_rows.h"

#include "kernels/backend/cuda_error.h"

#include <limits.h>

enum { CACHED_BYTES = 16 << 20 };                   /* of windows, or of those of x */
static const double bytes_of_cycle = 19.4;          /* of a multiprocessor: 4.5 TB/s of an H200 */
static const double launch_cycles = 7000, row_cycles = 4000, point_cycles = 1.5; /* see tensors_cuda.cu: cycles */
static const double full_point_cycles = 2.0;        /* of a multiprocessor, for a point of a window in halves */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static int64_t rows_of_filter(const struct tensor_call *c)
{
    return (c->h.batch == 1 ? c->x.batch : 1) * (c->h.channels == 1 ? c->x.channels : 1);
}

/* The frames of x that the output depends on. */
static int64_t frames_used(const struct tensor_call *c)
{
    return c->op == HC_CONVOLVE ? least(c->x.frames, c->from + c->y.frames) : c->x.frames;
}

/* Does one window of 2N points hold a row? The wrapped part of the product must meet zeros. */
static bool holds_row(const struct tensor_call *c, int64_t points)
{
    const int64_t x = frames_used(c);
    if (c->op == HC_GRADIENT_H && c->h.frames > points) return false;
    return c->from + c->y.frames <= points && x <= points && x + c->h.frames - 1 <= points + c->from;
}

/* The rows of a window of 2^log2_n complex points; log2_row 0: there are none. */
static struct long_size size_of(const struct fused_device *device, int log2_n)
{
    struct long_size size = {0, 0};
    for (int row = LONG_ROW_LEAST; row <= LONG_ROW_MOST; row++) {
        const int r = log2_n - row;
        if (r < 1 || r > LONG_MOST_SPLITS || !long_rows_at_once(device, row)) continue;
        /* Two blocks a multiprocessor hide each other's loads: 2^14 only if that saves a pass. */
        if (row == 14 && size.log2_row && size.log2_r <= LONG_SPLIT_MOST) continue;
        size.log2_row = row;
        size.log2_r = r;
    }
    return size;
}

/* Sets n_groups, n_units and bytes; false: the limit is too low. */
static bool memory_plan(const struct tensor_call *c, const struct fused_device *device, struct long_plan *plan)
{
    const int log2_n = plan->size.log2_row + plan->size.log2_r;
    const int64_t bytes = (int64_t)sizeof(float2) << log2_n, slots = (int64_t)(c->limit / (size_t)bytes);
    const int64_t filters = c->h.batch * c->h.channels, units_of_group = rows_of_filter(c) * plan->n_windows;
    const int64_t wave = long_rows_at_once(device, plan->size.log2_row); /* rows */
    const int64_t waves = most(1, CACHED_BYTES / (wave * ((int64_t)sizeof(float2) << plan->size.log2_row)));
    const int64_t busy = least(LONG_MOST_UNITS, most(1, (waves * wave) >> plan->size.log2_r)); /* windows */
    int64_t units, groups;
    plan->has_sum = false;
    if (plan->is_halves && c->op == HC_GRADIENT_H) {
        units = INT_MAX / 4;
        groups = least(filters, most(1, units / units_of_group));
        plan->bytes = long_gradient_halves_stash(device, (int)groups);
        if (plan->bytes > c->limit || units_of_group > units) return false;
    } else if (plan->is_halves) {
        units = INT_MAX / 4;
        groups = least(least(filters, slots), most(1, units / units_of_group));
        plan->bytes = (size_t)(groups * bytes);
    } else if (c->op == HC_GRADIENT_H) {
        units = least(busy, filters * units_of_group);
        units = least(units, slots / 2);
        plan->has_sum = units < units_of_group;
        if (plan->has_sum) units = least(units, (slots - 1) / 2);
        groups = plan->has_sum ? 1 : units / units_of_group;
        plan->bytes = (size_t)((2 * units + plan->has_sum) * bytes);
    } else {
        units = least(busy, filters * units_of_group);
        groups = least(filters, most(busy, ceil_div(units, units_of_group)));
        if (units + groups > slots) {
            units = most(1, slots * units / (units + groups));
            groups = least(groups, slots - units);
        }
        plan->bytes = (size_t)((units + groups) * bytes);
    }
    if (units < 1 || groups < 1) return false;
    plan->n_units = (int)units;
    plan->n_groups = (int)least(groups, LONG_MOST_UNITS);
    return true;
}

/* The time of a plan: each step moves its bytes at the speed of the memory, or is a round of rows. */
static double cycles(const struct tensor_call *c, const struct fused_device *device, const struct long_plan *plan)
{
    const double n = (double)((int64_t)1 << (plan->size.log2_row + plan->size.log2_r));
    const double filters = (double)(c->h.batch * c->h.channels), parts = (double)ceil_div(c->h.frames, plan->taps);
    const double units = filters * (double)(rows_of_filter(c) * plan->n_windows) * parts;
    const bool gradient_h = c->op == HC_GRADIENT_H, again = plan->size.log2_r > LONG_SPLIT_MOST;
    /* bytes of a point: split and join 16 each and 16 more for a second pass, rows 16, spectrum or product 8 to 16 */
    const double of_unit = gradient_h ? 2 * (32 + again * 16) + 16 : 56 + again * 32;
    const double of_filter = parts * (32 + again * 16);
    const double row = row_cycles + point_cycles * (double)(1 << plan->size.log2_row);
    if (plan->is_halves && gradient_h) {
        const double rounds = ceil(filters / long_rows_at_once(device, plan->size.log2_row));
        return parts * (rounds * 2 * row * 1.2 * (units / filters / parts + 0.5) + launch_cycles);
    }
    if (plan->is_halves) {
        const double rounds = 2 * row * ceil(units / long_rows_at_once(device, plan->size.log2_row));
        const double full = units * n * full_point_cycles / device->n_sm;
        return (rounds > full ? rounds : full) + n * filters * of_filter / (bytes_of_cycle * device->n_sm) +
               3 * parts * launch_cycles;
    }
    const double bytes = n * (units * of_unit + filters * of_filter);
    const double chunks = ceil(units / plan->n_units), launches = chunks * (gradient_h ? 4 : 3) + 3 * parts;
    const double rows = (double)(1 << plan->size.log2_r) * (units * (gradient_h ? 2 : 1) + filters * parts);
    const double rounds = ceil(rows / long_rows_at_once(device, plan->size.log2_row));
    const double moved = bytes / (bytes_of_cycle * device->n_sm), computed = rounds * row;
    return (moved > computed ? moved : computed) + launches * launch_cycles;
}

bool long_plan_make(const struct tensor_call *c, const struct fused_device *device, struct long_plan *best)
{
    const int64_t frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
    best->cycles = 0;
    if (c->h.batch > INT_MAX / c->h.channels || rows_of_filter(c) > INT_MAX) return false;
    for (int log2_n = LONG_ROW_LEAST + 1; log2_n <= LONG_ROW_MOST + LONG_MOST_SPLITS; log2_n++) {
        const int64_t points = (int64_t)2 << log2_n;
        struct long_plan plan = {};
        plan.size = size_of(device, log2_n);
        if (!plan.size.log2_row) continue;
        plan.is_single = holds_row(c, points);
        /* A part of more than N taps leaves less than half of a window to use: rather more parts, but one is best. */
        const int64_t parts = plan.is_single || c->h.frames <= points / 4 * 3 ? 1 : ceil_div(c->h.frames, points / 2);
        plan.taps = ceil_div(c->h.frames, parts);
        plan.hop = plan.is_single ? points : points - plan.taps + 1;
        plan.n_windows = plan.is_single ? 1 : ceil_div(frames, plan.hop);
        for (int halves = 0; halves < 2; halves++) {
            if (halves) {
                if (!long_halves_fit(device, log2_n - 1)) continue;
                plan.is_halves = true;
                plan.size = long_size{log2_n - 1, 1};
            }
            if (!memory_plan(c, device, &plan)) continue;
            plan.cycles = cycles(c, device, &plan);
            if (best->cycles == 0 || plan.cycles < best->cycles) *best = plan;
        }
    }
    return best->cycles > 0;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static struct long_units units_of(const struct fused_groups *groups, const struct tensor_rows *rows,
                                  const struct long_plan *plan)
{
    struct long_units u = {};
    u.groups = *groups;
    u.rows = fused_rows{{rows->stride[0], rows->stride[1]}, rows->frames};
    u.units_of_group = u.n_windows = 1;
    u.end = (int64_t)2 << (plan->size.log2_row + plan->size.log2_r);
    return u;
}

/* The windows of filters, from tap `first` on. */
static struct long_units filters_of(const struct fused_groups *groups, const struct tensor_call *c,
                                    const struct long_plan *plan, int64_t first)
{
    struct long_units u = units_of(groups, &c->h, plan);
    u.lengths = c->lengths;
    u.start = first;
    u.end = least(plan->taps, c->h.frames - first);
    u.n = groups->n;
    return u;
}

/* The windows of a part of the filters: of those of a row, only the ones whose frames [j * hop + start, 2N more) exist.
 * all: all of them. */
struct window_range { int64_t first, n; };
static struct window_range windows_of(const struct long_plan *plan, int64_t start, int64_t frames, bool all)
{
    struct window_range range = {0, plan->n_windows};
    const int64_t points = (int64_t)2 << (plan->size.log2_row + plan->size.log2_r);
    if (all) return range;
    if (start + points <= 0) range.first = (-start - points) / plan->hop + 1;
    const int64_t end = start < frames ? least(plan->n_windows, (frames - start - 1) / plan->hop + 1) : 0;
    range.n = most(0, end - range.first);
    return range;
}

static int run_convolve(const struct tensor_call *c, const struct tensor_data *d, const struct fused_device *device,
                        const struct long_plan *plan, const struct fused_groups *groups, char *why, size_t cap)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const bool is_gradient = c->op == HC_GRADIENT_X;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    float2 *spectra = (float2 *)d->workspace, *scratch = spectra + (int64_t)plan->n_groups * n;
    for (int64_t tap = 0; tap < c->h.frames; tap += plan->taps) {
        const struct long_units filters = filters_of(groups, c, plan, tap);
        const int64_t from = c->from - tap;
        struct long_units in = units_of(groups, is_gradient ? &c->y : &c->x, plan);
        struct long_units out = units_of(groups, is_gradient ? &c->x : &c->y, plan);
        struct long_output output = {0, 1.0f, tap > 0};
        if (is_gradient) {
            in.start = -from;
            out.end = plan->hop;
        } else {
            output.first_point = plan->is_single ? from : plan->taps - 1;
            in.start = from - output.first_point;
            out.start = -output.first_point;
            if (plan->is_single) in.end = frames_used(c);
        }
        const struct window_range range = windows_of(plan, in.start, in.rows.frames, tap == 0);
        if (range.n == 0) continue;
        in.hop = out.hop = plan->hop;
        in.n_windows = out.n_windows = range.n;
        in.start += range.first * plan->hop;
        out.start += range.first * plan->hop;
        in.units_of_group = out.units_of_group = rows_of_filter(c) * range.n;
        TRY(long_split_launch(plan->size, &filters, d->b, spectra, stream), "the spectra of long filters");
        struct long_rows rows = {};
        rows.op = LONG_FORWARD;
        rows.n = groups->n;
        rows.stride = n;
        rows.data = spectra;
        rows.scale = 1.0f / (float)n;
        TRY(long_rows_launch(device, plan->size, &rows, stream), "the spectra of long filters");
        rows.op = LONG_CONVOLVE;
        rows.conjugate = is_gradient;
        rows.data = scratch;
        rows.spectra = spectra;
        rows.units_of_group = in.units_of_group;
        const int64_t units = groups->n * in.units_of_group, step = ceil_div(units, ceil_div(units, plan->n_units));
        for (int64_t first = 0; first < units; first += step) {
            in.first = out.first = rows.first = first;
            in.n = out.n = rows.n = (int)least(step, units - first);
            if (plan->is_halves) {
                const struct long_halves halves = {in, out, output, d->a, d->out, spectra, is_gradient};
                const bool is_real = (in.end <= n || in.start + n >= in.rows.frames) &&
                                     (out.end <= n || out.start + n >= out.rows.frames);
                TRY(long_halves_launch(device, plan->size.log2_row, is_real, &halves, stream), "a long convolution");
                continue;
            }
            TRY(long_split_launch(plan->size, &in, d->a, scratch, stream), "a long convolution");
            TRY(long_rows_launch(device, plan->size, &rows, stream), "a long convolution");
            TRY(long_join_launch(plan->size, &out, &output, scratch, n, d->out, stream), "a long convolution");
        }
    }
    return HC_OK;
}

static int run_gradient_h(const struct tensor_call *c, const struct tensor_data *d, const struct fused_device *device,
                          const struct long_plan *plan, const struct fused_groups *groups, char *why, size_t cap)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    float2 *scratch = (float2 *)d->workspace;
    for (int64_t lag = 0; lag < c->h.frames; lag += plan->taps) {
        const struct long_units filters = filters_of(groups, c, plan, lag);
        struct long_units x = units_of(groups, &c->x, plan), gy = units_of(groups, &c->y, plan);
        gy.start = lag - c->from;
        x.end = plan->hop;
        struct window_range range = windows_of(plan, gy.start, gy.rows.frames, plan->is_single);
        if (range.n == 0) range = window_range{0, 1}; /* the output needs zeros */
        x.hop = gy.hop = plan->hop;
        x.n_windows = gy.n_windows = range.n;
        x.start += range.first * plan->hop;
        gy.start += range.first * plan->hop;
        x.units_of_group = gy.units_of_group = rows_of_filter(c) * range.n;
        const int64_t units = groups->n * x.units_of_group;
        const struct long_output output = {0, 1.0f / (float)n, false};
        if (plan->is_halves) {
            const struct long_gradient_halves halves = {x, gy, filters, output, (int)x.units_of_group,
                                                        d->b, d->a, d->out, scratch};
            const bool is_real = (x.end <= n || x.start + n >= x.rows.frames) &&
                                 (gy.end <= n || gy.start + n >= gy.rows.frames) && filters.end <= n;
            TRY(long_gradient_halves_launch(device, is_real, &halves, stream), "a gradient of long filters");
            continue;
        }
        const bool at_once = units <= plan->n_units;
        const int64_t step = at_once ? units : ceil_div(units, ceil_div(units, plan->n_units));
        struct long_rows rows = {};
        struct long_products products = {};
        for (int64_t first = 0; first < units; first += step) {
            x.first = gy.first = first;
            x.n = gy.n = (int)least(step, units - first);
            rows.op = LONG_FORWARD;
            rows.n = 2 * x.n;
            rows.stride = n;
            rows.data = scratch;
            rows.scale = 1.0f;
            products.n_groups = at_once ? groups->n : 1;
            products.windows = (int)(at_once ? x.units_of_group : x.n);
            products.points = n;
            products.x = scratch;
            products.gy = scratch + x.n * n;
            products.sum = at_once ? scratch : scratch + 2 * n * plan->n_units;
            products.stride = at_once ? x.units_of_group * n : n;
            products.add = first > 0;
            TRY(long_split_launch(plan->size, &x, d->b, scratch, stream), "a gradient of long filters");
            TRY(long_split_launch(plan->size, &gy, d->a, scratch + x.n * n, stream), "a gradient of long filters");
            TRY(long_rows_launch(device, plan->size, &rows, stream), "a gradient of long filters");
            TRY(long_products_launch(&products, stream), "a gradient of long filters");
        }
        rows.op = LONG_INVERSE;
        rows.n = groups->n;
        rows.stride = products.stride;
        rows.data = products.sum;
        TRY(long_rows_launch(device, plan->size, &rows, stream), "a gradient of long filters");
        TRY(long_join_launch(plan->size, &filters, &output, products.sum, products.stride, d->out, stream),
            "a gradient of long filters");
    }
    return HC_OK;
}

int long_run(const struct tensor_call *c, const struct tensor_data *d, const struct fused_device *device,
             const struct long_plan *plan, char *why, size_t cap)
{
    const int filters = (int)(c->h.batch * c->h.channels);
    struct fused_groups groups = {(int)c->h.batch, (int)c->h.channels, (int)c->x.batch, (int)c->x.channels, 0, 0};
    for (; groups.first < filters; groups.first += groups.n) {
        groups.n = (int)least(plan->n_groups, filters - groups.first);
        PASS(c->op == HC_GRADIENT_H ? run_gradient_h(c, d, device, plan, &groups, why, cap)
                                    : run_convolve(c, d, device, plan, &groups, why, cap));
    }
    return HC_OK;
}
