/* long_plan - windows, workspace and cycles of convolutions with filters too long for one fused kernel: in steps
 * through device memory, or as two rows (tensor_plan.h).
 *
 * A step reads what the step before it wrote, so the windows of a step are as many as keep the device busy and, where
 * possible, as stay in the L2 cache.
 */
#include "tensor_plan.h"

#include <limits.h>
#include <math.h>

#ifdef LONG_ROW
enum { CACHED_BYTES = 256 << 10 }; /* tests: several launches for the windows of a filter */
#else
enum { CACHED_BYTES = 32 << 20 }; /* max. bytes of windows (gradient h: of x) in the L2 cache */
#endif
enum { MAX_CACHED_BYTES = 40 << 20 };           /* of all windows and spectra that the launches of a step use */
enum { MAX_TWO_ROWS = INT_MAX / 4 };            /* max. windows of two rows of a launch, which counts in int */
enum { KEPT_WINDOWS = 4 };                      /* max. windows of gx of 16 bits whose row 0 waits for row 1 */
static const double bytes_of_cycle = 19.4;      /* bytes a cycle and multiprocessor: 4.5 TB/s of an H200 */
static const double cached_bytes_of_cycle = 27; /* the same for the L2 cache */
static const double launch_cycles = 3000;
/* Relative to the cycles of the two rows. */
static const double two_rows_factor = 1.3, two_rows_factor_of_parts = 1.7, gradient_h_factor = 1.2,
                    gradients_factor = 2.1;

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* Chooses the rows of a window of 2^log2_n complex points; log2_row 0: no size fits. */
static struct long_size rows_choose(const struct fused_device *device, int op, int log2_n)
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

/* The gradient of a bank has a filter for each group of rows in the workspace. */
static void bank_memory(const struct tensor_call *c, struct tensor_plan *plan)
{
    const int64_t filters = c->h.batch * c->h.channels, bytes = c->h.frames * (int64_t)sizeof(float);
    const int64_t half = (int64_t)(bank_limit(c) / 2) / bytes;
    plan->n_partial = min_of(filters, max_of(1, half));
    if (plan->n_partial < filters && c->h.type != HC_FLOAT32) {
        plan->n_partial = max_of(1, half / 2);
        plan->n_bank = min_of(c->bank.batch, max_of(1, half / 2));
        plan->sums = aligned((size_t)(plan->n_bank * bytes));
    }
    plan->partial = aligned((size_t)(plan->n_partial * bytes));
}

static bool long_windows_fit(const struct tensor_call *c, struct tensor_plan *plan)
{
    const int64_t points = (int64_t)2 << plan->log2_n, frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
    plan->is_single = holds_row(c, points);
    /* Filters of up to 3/4 of a window stay whole. Longer ones are cut into parts of up to half of a window, which
     * leave the other half for the output. */
    const int64_t parts = plan->is_single || c->h.frames <= points / 4 * 3 ? 1 : ceil_div(c->h.frames, points / 2);
    if (parts > 1 && c->op != HC_GRADIENT_H && type_of_output(c) != HC_FLOAT32) return false; /* no sum in 16 bits */
    if (parts > 1 && c->op == HC_GRADIENTS) return false;
    plan->taps = ceil_div(c->h.frames, parts);
    plan->hop = plan->is_single ? points : points - plan->taps + 1;
    plan->n_windows = plan->is_single && !c->x.packed ? 1 : windows_in(c, frames, plan->hop);
    if (c->has_index && c->op >= HC_GRADIENT_H) bank_memory(c, plan);
    if (c->op == HC_GRADIENTS && plan->n_bank < c->bank.batch) return false; /* each chunk would compute gx again */
    return plan->partial + plan->sums <= c->limit;
}

static bool steps_fit(const struct tensor_call *c, struct tensor_plan *plan)
{
    plan->size = rows_choose(plan->device, c->op, plan->log2_n);
    return plan->size.log2_row && long_windows_fit(c, plan);
}

static bool two_rows_fit(const struct tensor_call *c, struct tensor_plan *plan)
{
    plan->size = long_size{LOG_OF_TWO_ROWS, 1};
    return rows_choose(plan->device, c->op, plan->log2_n).log2_row && long_two_rows_fit(plan->device) &&
           long_windows_fit(c, plan);
}

/* ---- workspace --------------------------------------------------------------------------------------------------- */

/* The counts that decide the size of the workspace. */
struct long_counts {
    int64_t window_bytes;
    int64_t filters;        /* max. filters of a launch */
    bool by_bank;           /* they are those of the bank */
    bool is_shared;         /* windows are not grouped by filter: a launch may mix those of all filters */
    int64_t units_of_group; /* windows of a filter; is_shared: of all filters, too */
    bool is_rounded;        /* the results become 16 bits */
    size_t limit;
};

static struct long_counts long_counts_of(const struct tensor_call *c, const struct tensor_plan *plan)
{
    struct long_counts n = {};
    n.window_bytes = (int64_t)sizeof(float2) << plan->log2_n;
    n.by_bank = plan->by_bank && c->op < HC_GRADIENT_H;
    n.filters = min_of(n.by_bank ? c->bank.batch : c->h.batch * c->h.channels, LONG_MAX_UNITS);
    n.is_shared = n.by_bank || (c->x.packed && c->h.batch > 1);
    n.units_of_group = rows_of_filter(c) * plan->n_windows;
    if (n.is_shared && c->op == HC_GRADIENT_H)
        n.units_of_group = rows_of_filter(c) * ceil_div(c->x.packed, plan->hop);
    else if (n.is_shared)
        n.units_of_group = (int64_t)fmin(windows_in_all(c, plan->n_windows), 1LL << 40);
    n.is_rounded = type_of_output(c) != HC_FLOAT32 && !plan->n_partial;
    n.limit = c->limit - plan->partial - plan->sums;
    return n;
}

/* Sets how many filters and windows the workspace holds. */
static bool long_chunk_set(const struct tensor_call *c, const struct long_counts *n, int64_t groups, int64_t units,
                           struct tensor_plan *plan)
{
    if (units < 1 || groups < 1 || (n->by_bank && groups < c->bank.batch)) return false;
    if (n->by_bank) groups = min_of(c->h.batch * c->h.channels, INT_MAX);
    plan->n_units = (int)units;
    plan->n_groups = (int)groups;
    return true;
}

static bool steps_cut(const struct tensor_call *c, struct tensor_plan *plan)
{
    const struct long_counts n = long_counts_of(c, plan);
    const int64_t bytes = n.window_bytes, capacity = (int64_t)n.limit / bytes;
    const int64_t wave = long_rows_at_once(plan->device, plan->size.log2_row); /* rows */
    const int64_t waves = max_of(1, CACHED_BYTES / (wave * ((int64_t)sizeof(float2) << plan->size.log2_row)));
    const int64_t busy = min_of(LONG_MAX_UNITS, max_of(1, (waves * wave) >> plan->size.log2_r)); /* windows */
    int64_t units = min_of(busy, n.filters * n.units_of_group), groups;
    if (c->op == HC_GRADIENTS) {
        /* All windows of some filters. */
        const int64_t at_once = max_of(1, long_both_rows_at_once(plan->device) >> plan->size.log2_r); /* filters */
        const int64_t of_group = 2 * n.units_of_group + 1;                                            /* windows */
        groups = at_once * max_of(1, CACHED_BYTES / bytes / of_group / at_once);
        groups = min_of(min_of(groups, n.filters), min_of(capacity / of_group, LONG_MAX_UNITS / n.units_of_group));
        units = groups * n.units_of_group;
        plan->bytes = (size_t)((2 * units + groups) * bytes);
    } else if (c->op == HC_GRADIENT_H) {
        if (n.is_shared) return false; /* nearly all windows of a filter would be empty */
        units = min_of(units, capacity / 2);
        plan->is_summed = n.is_rounded && units < n.units_of_group;
        if (plan->is_summed) units = min_of(units, (capacity - 1) / 2);
        groups = max_of(1, units / n.units_of_group);
        plan->bytes = (size_t)((2 * units + plan->is_summed) * bytes);
    } else {
        groups = min_of(n.filters, max_of(max_of(1, wave >> plan->size.log2_r), ceil_div(units, n.units_of_group)));
        if (n.is_shared) groups = n.filters;
        if (units + groups > capacity) {
            units = max_of(1, capacity * units / (units + groups));
            groups = min_of(groups, capacity - units);
        }
        plan->bytes = (size_t)((units + groups) * bytes);
    }
    return long_chunk_set(c, &n, groups, units, plan);
}

static bool two_rows_gradient_cut(const struct tensor_call *c, const struct long_counts *n, struct tensor_plan *plan)
{
    const bool is_both = c->op == HC_GRADIENTS, is_kept = is_both && c->gx.type != HC_FLOAT32;
    if (n->units_of_group > MAX_TWO_ROWS || (plan->by_bank && c->bank.batch > LONG_MAX_UNITS)) return false;
    plan->of_step = (int)(is_kept ? min_of(n->units_of_group, KEPT_WINDOWS) : n->units_of_group);
    plan->n_stash = plan->of_step < n->units_of_group ? 3 : 2;
    plan->n_kept = is_kept ? 1 + plan->of_step : n->is_rounded;
    int64_t groups = min_of(n->filters, MAX_TWO_ROWS / n->units_of_group);
    for (;; groups = (groups + 1) / 2) {
        const size_t row = long_two_rows_kept(plan->device, (int)groups);
        const int64_t spectra = !is_both ? 0 : plan->by_bank ? c->bank.batch : groups;
        plan->kept = (size_t)plan->n_kept * row;
        plan->bytes = (size_t)(spectra * n->window_bytes) + (size_t)plan->n_stash * row + plan->kept;
        if (plan->bytes <= n->limit) return long_chunk_set(c, n, groups, MAX_TWO_ROWS, plan);
        if (groups == 1) return false;
    }
}

static bool two_rows_cut(const struct tensor_call *c, struct tensor_plan *plan)
{
    const struct long_counts n = long_counts_of(c, plan);
    if (c->op >= HC_GRADIENT_H) return two_rows_gradient_cut(c, &n, plan);
    if (n.is_rounded)
        plan->kept = long_two_rows_kept(plan->device, (int)min_of(MAX_TWO_ROWS, n.filters * n.units_of_group));
    if (plan->kept > n.limit || (n.is_shared && n.units_of_group > MAX_TWO_ROWS)) return false;
    int64_t groups = min_of(n.filters, (int64_t)(n.limit - plan->kept) / n.window_bytes);
    if (!n.is_shared) groups = min_of(groups, max_of(1, MAX_TWO_ROWS / n.units_of_group));
    plan->bytes = plan->kept + (size_t)(groups * n.window_bytes);
    return long_chunk_set(c, &n, groups, MAX_TWO_ROWS, plan);
}

/* has_spectra: the workspace has the spectra of filters; those of the whole bank, if they fit. */
static bool long_memory(const struct tensor_call *c, bool has_spectra,
                        bool (*cut)(const struct tensor_call *c, struct tensor_plan *plan), struct tensor_plan *plan)
{
    plan->by_bank = c->has_index && has_spectra && c->bank.batch <= c->h.batch * c->h.channels;
    bool is_cut = cut(c, plan);
    if (!is_cut && plan->by_bank) {
        plan->by_bank = false;
        is_cut = cut(c, plan);
    }
    plan->bytes = aligned(plan->bytes) + plan->partial + plan->sums;
    return is_cut;
}

static bool steps_memory(const struct tensor_call *c, struct tensor_plan *plan)
{
    return long_memory(c, c->op < HC_GRADIENT_H, steps_cut, plan);
}

static bool two_rows_memory(const struct tensor_call *c, struct tensor_plan *plan)
{
    return long_memory(c, c->op != HC_GRADIENT_H, two_rows_cut, plan);
}

/* ---- cycles ------------------------------------------------------------------------------------------------------ */

/* Estimates the cycles of the windows of a call. `split` and `join` each use 4 or 8 bytes of a point in device memory, and 8 of the
 * scratch; the rows use 16 to 44 of the scratch, and compute for 1.05 or 1.6 cycles of a multiprocessor: a transform
 * and its inverse (fused_cycles). */
struct long_costs {
    double n;              /* points of a window */
    double filters, parts; /* of all launches */
    double units;          /* windows of all rows and parts */
    double pass, cached;   /* cycles of `split` or `join` for a point; bytes a cycle of the scratch */
    double row, at_once;   /* cycles of a row, and rows that run at once */
};
static const double computed = 1.6;

static struct long_costs long_costs_of(const struct tensor_call *c, const struct tensor_plan *plan, bool is_cached)
{
    struct long_costs k = {};
    const int64_t n = (int64_t)1 << plan->log2_n;
    const bool is_lower_half =
        plan->is_single && c->from + c->y.frames <= n && c->h.frames <= n; /* no point from N on */
    k.n = (double)n;
    k.filters = (double)(plan->by_bank ? c->bank.batch : c->h.batch * c->h.channels);
    k.parts = (double)ceil_div(c->h.frames, plan->taps);
    k.units = windows_in_all(c, plan->n_windows) * k.parts;
    k.cached = is_cached ? cached_bytes_of_cycle : bytes_of_cycle;
    k.pass = (is_lower_half ? 4 : 8) / bytes_of_cycle + 8 / k.cached;
    k.row = team_cycles(plan->size.log2_row);
    k.at_once = long_rows_at_once(plan->device, plan->size.log2_row);
    return k;
}

/* The cycles of `split` and the transform of all filters. */
static double spectra_cycles(const struct long_costs *k, const struct tensor_plan *plan)
{
    return k->n * k->filters * k->parts * (k->pass + fmax(16 / k->cached, computed / 2)) / plan->device->n_sm;
}

static double steps_cycles(const struct tensor_call *c, const struct tensor_plan *plan)
{
    const bool gradient_h = c->op == HC_GRADIENT_H, is_both = c->op == HC_GRADIENTS;
    const double windows = (gradient_h || is_both ? 2.0 : 1.0) * plan->n_units + (gradient_h ? 0 : plan->n_groups);
    const double n_sm = plan->device->n_sm, point_bytes = sizeof(float2);
    const struct long_costs k =
        long_costs_of(c, plan, windows * (double)((int64_t)1 << plan->log2_n) * point_bytes <= MAX_CACHED_BYTES);
    if (is_both) {
        const double steps = ceil(k.filters / plan->n_groups), of_filter = k.units / k.filters;
        const double rounds =
            ceil((double)((int64_t)plan->n_groups << plan->size.log2_r) / long_both_rows_at_once(plan->device));
        const double full = k.n * k.units * (3 * k.pass + fmax(24 / k.cached, 1.5 * computed)) / n_sm +
                            k.n * k.filters * k.parts * (2 * k.pass + fmax(16 / k.cached, computed)) / n_sm;
        return fmax(full, steps * rounds * k.row * (1.5 * of_filter + 1)) + steps * 5 * launch_cycles;
    }
    const double of_groups = gradient_h ? 0 : ceil(k.filters / plan->n_groups);
    const double launches = k.parts * (ceil(k.units / k.parts / plan->n_units) * 3 + of_groups + 3);
    const double rows = (double)(1 << plan->size.log2_r) * (k.units * (gradient_h ? 2 : 1) + k.filters * k.parts);
    const double full =
        k.n * k.units * (2 * k.pass + fmax((gradient_h ? 44 : 24) / k.cached, computed)) / n_sm +
        (gradient_h ? k.n * k.filters * k.parts * (k.pass + computed / 2) / n_sm : spectra_cycles(&k, plan));
    return fmax(full, ceil(rows / k.at_once) * k.row) + launches * launch_cycles;
}

static double two_rows_cycles(const struct tensor_call *c, const struct tensor_plan *plan)
{
    const struct long_costs k = long_costs_of(c, plan, false);
    if (c->op < HC_GRADIENT_H) {
        const double window = 2 * k.row * (k.parts > 1 ? two_rows_factor_of_parts : two_rows_factor);
        return window * ceil(k.units / k.at_once) + spectra_cycles(&k, plan) + 3 * k.parts * launch_cycles;
    }
    const bool gradient_h = c->op == HC_GRADIENT_H;
    const double groups = (double)(c->h.batch * c->h.channels);
    const double steps = ceil(groups / plan->n_groups), rounds = steps * ceil(plan->n_groups / k.at_once);
    const double windows = (gradient_h ? gradient_h_factor : gradients_factor) * k.units / groups / k.parts;
    const double full = rounds * 2 * k.row * (windows + gradient_h_factor / 2) + steps * launch_cycles;
    return k.parts * full + (gradient_h ? 0 : spectra_cycles(&k, plan) + 2 * steps * launch_cycles);
}

const struct tensor_way steps_way = {
    LONG_ROW_MIN + 1, LONG_ROW_MAX + LONG_MAX_SPLITS, steps_fit, steps_memory, steps_cycles, long_steps_run};
const struct tensor_way two_rows_way = {LOG_OF_TWO_ROWS + 1, LOG_OF_TWO_ROWS + 1, two_rows_fit,
                                        two_rows_memory,     two_rows_cycles,     long_two_rows_run};
