/* long_plan - estimates the cycles of the possible plans (long_plan.h).
 *
 * A step reads what the step before it wrote, so the windows of a step are as many as keep the device busy and, where
 * possible, as stay in the L2 cache.
 */
#include "long_plan.h"

#include "plan_sizes.h"

#include <limits.h>
#include <math.h>

#ifdef LONG_ROW
enum { CACHED_BYTES = 256 << 10 };                  /* tests: several launches for the windows of a filter */
#else
enum { CACHED_BYTES = 32 << 20 };                   /* max. bytes of windows (gradient h: of x) in the L2 cache */
#endif
enum { MAX_CACHED_BYTES = 40 << 20 };               /* of all windows and spectra that the launches of a step use */
enum { MAX_TWO_ROWS = INT_MAX / 4 };                /* max. windows of two rows of a launch, which counts in int */
enum { KEPT_WINDOWS = 4 };                          /* max. windows of gx of 16 bits whose row 0 waits for row 1 */
static const double bytes_of_cycle = 19.4;          /* bytes a cycle and multiprocessor: 4.5 TB/s of an H200 */
static const double cached_bytes_of_cycle = 27;     /* the same for the L2 cache */
static const double launch_cycles = 3000;
/* Relative to the cycles of the two rows. */
static const double two_rows_factor = 1.3, two_rows_factor_of_parts = 1.7, gradient_h_factor = 1.2,
                    gradients_factor = 2.1;

/* Chooses the rows of a window of 2^log2_n complex points; log2_row 0: no size fits. */
static struct long_size size_of(const struct fused_device *device, int op, int log2_n)
{
    struct long_size size = {0, 0};
    for (int row = LONG_ROW_MIN; row <= LONG_ROW_MAX; row++) {
        const int r = log2_n - row;
        if (op == HC_GRADIENTS && (row != LONG_BOTH_ROW || !long_both_rows_at_once(device))) continue;
        if (r < 1 || r > LONG_MAX_SPLITS || !long_rows_at_once(device, row) || !long_columns_fit(device, r)) continue;
        /* On an H100 columns of up to 2^7 points are faster than longer ones: 2^20 points as 2^13 x 2^7 take 0.82 of
         * the time of 2^10 x 2^10. */
        if (size.log2_row && size.log2_r <= 7) continue;
        size.log2_row = row;
        size.log2_r = r;
    }
    return size;
}

/* Sets n_groups, n_units, is_summed, kept and bytes; false: the limit is too low. */
static bool memory_plan(const struct tensor_call *c, const struct fused_device *device, size_t limit,
                        struct long_plan *plan)
{
    const int log2_n = plan->size.log2_row + plan->size.log2_r;
    const int64_t bytes = (int64_t)sizeof(float2) << log2_n;
    const bool by_bank = plan->by_bank && c->op < HC_GRADIENT_H;
    const int64_t all = by_bank ? c->bank.batch : c->h.batch * c->h.channels;
    const int64_t filters = min_of(all, LONG_MAX_UNITS); /* max. filters of a launch */
    /* The windows of other filters are counted, too, if one launch may have those of all. */
    const bool is_shared = by_bank || (c->x.packed && c->h.batch > 1);
    const double in_all = windows_in_all(c, plan->n_windows);
    const bool is_gradient = c->op == HC_GRADIENT_H;
    const int64_t of_row = is_shared && is_gradient ? ceil_div(c->x.packed, plan->hop) : plan->n_windows;
    const int64_t units_of_group =
        is_shared && !is_gradient ? (int64_t)fmin(in_all, 1LL << 40) : rows_of_filter(c) * of_row;
    const int64_t wave = long_rows_at_once(device, plan->size.log2_row); /* rows */
    const int64_t waves = max_of(1, CACHED_BYTES / (wave * ((int64_t)sizeof(float2) << plan->size.log2_row)));
    const int64_t busy = min_of(LONG_MAX_UNITS, max_of(1, (waves * wave) >> plan->size.log2_r)); /* windows */
    const bool is_rounded = type_of_output(c) != HC_FLOAT32 && !plan->n_partial;
    int64_t units, groups;
    if (is_shared && is_gradient && !plan->has_two_rows)
        return false; /* nearly all windows of a filter would be empty */
    if (plan->has_two_rows && is_rounded && c->op < HC_GRADIENT_H)
        plan->kept = long_two_rows_kept(device, (int)min_of(MAX_TWO_ROWS, filters * units_of_group));
    if (plan->kept > limit) return false;
    const int64_t capacity = (int64_t)((limit - plan->kept) / (size_t)bytes);
    if (plan->has_two_rows && c->op >= HC_GRADIENT_H) {
        const bool is_both = c->op == HC_GRADIENTS, is_kept = is_both && c->gx.type != HC_FLOAT32;
        units = MAX_TWO_ROWS;
        if (units_of_group > units || (plan->by_bank && c->bank.batch > LONG_MAX_UNITS)) return false;
        plan->of_step = (int)(is_kept ? min_of(units_of_group, KEPT_WINDOWS) : units_of_group);
        plan->n_stash = plan->of_step < units_of_group ? 3 : 2;
        plan->n_kept = is_kept ? 1 + plan->of_step : is_rounded;
        groups = min_of(filters, units / units_of_group);
        for (;; groups = (groups + 1) / 2) {
            const size_t row = long_two_rows_kept(device, (int)groups);
            plan->kept = (size_t)plan->n_kept * row;
            const int64_t spectra = !is_both ? 0 : plan->by_bank ? c->bank.batch : groups;
            plan->bytes = (size_t)(spectra * bytes) + (size_t)plan->n_stash * row + plan->kept;
            if (plan->bytes <= limit) break;
            if (groups == 1) return false;
        }
    } else if (plan->has_two_rows) {
        units = MAX_TWO_ROWS;
        groups = min_of(min_of(filters, capacity), is_shared ? filters : max_of(1, units / units_of_group));
        if (is_shared && units_of_group > units) return false;
        plan->bytes = plan->kept + (size_t)(groups * bytes);
    } else if (c->op == HC_GRADIENTS) {
        /* All windows of some filters. */
        const int64_t at_once = max_of(1, long_both_rows_at_once(device) >> plan->size.log2_r); /* filters */
        const int64_t of_group = 2 * units_of_group + 1;                                        /* windows */
        groups = at_once * max_of(1, CACHED_BYTES / bytes / of_group / at_once);
        groups = min_of(min_of(groups, filters), min_of(capacity / of_group, LONG_MAX_UNITS / units_of_group));
        units = groups * units_of_group;
        plan->bytes = (size_t)((2 * units + groups) * bytes);
    } else if (c->op == HC_GRADIENT_H) {
        units = min_of(busy, filters * units_of_group);
        units = min_of(units, capacity / 2);
        plan->is_summed = is_rounded && units < units_of_group;
        if (plan->is_summed) units = min_of(units, (capacity - 1) / 2);
        groups = max_of(1, units / units_of_group);
        plan->bytes = (size_t)((2 * units + plan->is_summed) * bytes);
    } else {
        units = min_of(busy, filters * units_of_group);
        groups = min_of(filters, max_of(max_of(1, wave >> plan->size.log2_r), ceil_div(units, units_of_group)));
        if (is_shared) groups = filters;
        if (units + groups > capacity) {
            units = max_of(1, capacity * units / (units + groups));
            groups = min_of(groups, capacity - units);
        }
        plan->bytes = (size_t)((units + groups) * bytes);
    }
    if (units < 1 || groups < 1 || (by_bank && groups < c->bank.batch)) return false;
    if (by_bank) groups = min_of(c->h.batch * c->h.channels, INT_MAX);
    plan->n_units = (int)units;
    plan->n_groups = (int)groups;
    return true;
}

/* The cycles of a point on a multiprocessor, for the windows (of_filters: for those of the filters). `split` and `join`
 * each use 4 or 8 bytes of a point in device memory, and 8 of the scratch; the rows use 16 to 44 of the scratch. The
 * rows compute for 1.05 or 1.6 cycles: a transform and its inverse (tensors_cuda.cu). */
static double point_cycles(const struct tensor_call *c, const struct long_plan *plan, bool of_filters)
{
    const bool gradient_h = c->op == HC_GRADIENT_H;
    const int64_t n = (int64_t)1 << (plan->size.log2_row + plan->size.log2_r);
    const bool is_both = c->op == HC_GRADIENTS && !plan->has_two_rows;
    const double windows = (gradient_h || is_both ? 2.0 : 1.0) * plan->n_units + (gradient_h ? 0 : plan->n_groups);
    const double scratch = windows * (double)n * sizeof(float2);
    const double cached = scratch <= MAX_CACHED_BYTES ? cached_bytes_of_cycle : bytes_of_cycle;
    const bool is_lower_half =
        plan->is_single && c->from + c->y.frames <= n && c->h.frames <= n; /* no point from N on */
    const double pass = (is_lower_half ? 4 : 8) / bytes_of_cycle + 8 / cached, computed = 1.6;
    if (is_both)
        return of_filters ? 2 * pass + fmax(16 / cached, computed) : 3 * pass + fmax(24 / cached, 1.5 * computed);
    if (gradient_h) return of_filters ? pass + computed / 2 : 2 * pass + fmax(44 / cached, computed);
    return of_filters ? pass + fmax(16 / cached, computed / 2) : 2 * pass + fmax(24 / cached, computed);
}

static double long_cycles(const struct tensor_call *c, const struct fused_device *device, const struct long_plan *plan)
{
    const double n = (double)((int64_t)1 << (plan->size.log2_row + plan->size.log2_r));
    const double filters = (double)(plan->by_bank ? c->bank.batch : c->h.batch * c->h.channels),
                 parts = (double)ceil_div(c->h.frames, plan->taps);
    const double units = windows_in_all(c, plan->n_windows) * parts;
    const double of_filters = n * filters * parts * point_cycles(c, plan, true) / device->n_sm;
    const double row = team_cycles(plan->size.log2_row), at_once = long_rows_at_once(device, plan->size.log2_row);
    const bool gradient_h = c->op == HC_GRADIENT_H;
    if (plan->has_two_rows && c->op >= HC_GRADIENT_H) {
        const double groups = (double)(c->h.batch * c->h.channels);
        const double steps = ceil(groups / plan->n_groups), rounds = steps * ceil(plan->n_groups / at_once);
        const double windows = (gradient_h ? gradient_h_factor : gradients_factor) * units / groups / parts;
        const double full = rounds * 2 * row * (windows + gradient_h_factor / 2) + steps * launch_cycles;
        return parts * full + (gradient_h ? 0 : of_filters + 2 * steps * launch_cycles);
    }
    if (plan->has_two_rows) {
        const double window = 2 * row * (parts > 1 ? two_rows_factor_of_parts : two_rows_factor);
        return window * ceil(units / at_once) + of_filters + 3 * parts * launch_cycles;
    }
    if (c->op == HC_GRADIENTS) {
        const double steps = ceil(filters / plan->n_groups), windows = units / filters;
        const double rounds =
            ceil((double)((int64_t)plan->n_groups << plan->size.log2_r) / long_both_rows_at_once(device));
        const double full = n * units * point_cycles(c, plan, false) / device->n_sm + of_filters;
        return fmax(full, steps * rounds * row * (1.5 * windows + 1)) + steps * 5 * launch_cycles;
    }
    const double of_groups = gradient_h ? 0 : ceil(filters / plan->n_groups);
    const double launches = parts * (ceil(units / parts / plan->n_units) * 3 + of_groups + 3);
    const double rows = (double)(1 << plan->size.log2_r) * (units * (gradient_h ? 2 : 1) + filters * parts);
    const double full = n * units * point_cycles(c, plan, false) / device->n_sm + of_filters;
    return fmax(full, ceil(rows / at_once) * row) + launches * launch_cycles;
}

bool long_plan_make(const struct tensor_call *c, const struct fused_device *device, struct long_plan *best)
{
    const int64_t frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
    best->cycles = 0;
    for (int log2_n = LONG_ROW_MIN + 1; log2_n <= LONG_ROW_MAX + LONG_MAX_SPLITS; log2_n++) {
        const int64_t points = (int64_t)2 << log2_n;
        struct long_plan plan = {};
        plan.size = size_of(device, c->op, log2_n);
        if (!plan.size.log2_row) continue;
        plan.is_single = holds_row(c, points);
        /* Filters of up to 3/4 of a window stay whole. Longer ones are cut into parts of up to half of a window, which
         * leave the other half for the output. */
        const int64_t parts = plan.is_single || c->h.frames <= points / 4 * 3 ? 1 : ceil_div(c->h.frames, points / 2);
        if (parts > 1 && c->op != HC_GRADIENT_H && type_of_output(c) != HC_FLOAT32) continue; /* no sum in 16 bits */
        if (parts > 1 && c->op == HC_GRADIENTS) continue;
        plan.taps = ceil_div(c->h.frames, parts);
        plan.hop = plan.is_single ? points : points - plan.taps + 1;
        plan.n_windows = plan.is_single && !c->x.packed ? 1 : windows_in(c, frames, plan.hop);
        if (c->has_index && c->op >= HC_GRADIENT_H) {
            const int64_t filters = c->h.batch * c->h.channels, bytes = c->h.frames * (int64_t)sizeof(float);
            const int64_t half = (int64_t)(bank_limit(c) / 2) / bytes;
            plan.n_partial = min_of(filters, max_of(1, half));
            plan.n_bank = c->bank.batch;
            if (plan.n_partial < filters && c->h.type != HC_FLOAT32) {
                plan.n_partial = max_of(1, half / 2);
                plan.n_bank = min_of(c->bank.batch, max_of(1, half / 2));
                plan.sums = aligned((size_t)(plan.n_bank * bytes));
            }
            if (c->op == HC_GRADIENTS && plan.n_bank < c->bank.batch) continue; /* each chunk would compute gx again */
            plan.partial = aligned((size_t)(plan.n_partial * bytes)) + plan.sums;
        }
        for (int two_rows = 0; two_rows < 2; two_rows++) {
            if (two_rows) {
                if (log2_n - 1 != LOG_OF_TWO_ROWS || !long_two_rows_fit(device)) continue;
                plan.has_two_rows = true;
                plan.size = long_size{LOG_OF_TWO_ROWS, 1};
            }
            if (plan.partial > c->limit) continue;
            const bool has_spectra = c->op < HC_GRADIENT_H || (c->op == HC_GRADIENTS && two_rows);
            plan.by_bank = c->has_index && has_spectra && c->bank.batch <= c->h.batch * c->h.channels;
            if (plan.by_bank && !memory_plan(c, device, c->limit - plan.partial, &plan)) plan.by_bank = false;
            if (!plan.by_bank && !memory_plan(c, device, c->limit - plan.partial, &plan)) continue;
            plan.bytes = aligned(plan.bytes) + plan.partial;
            plan.cycles = long_cycles(c, device, &plan);
            const auto expected = [&](const struct long_plan &p) {
                return p.cycles * (c->op == HC_GRADIENTS && !p.has_two_rows ? long_steps_factor : 1);
            };
            if (best->cycles == 0 || expected(plan) < expected(*best)) *best = plan;
        }
    }
    return best->cycles > 0;
}
