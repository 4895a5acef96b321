/* long_plan - estimates the cycles of the possible plans (long_plan.h).
 *
 * A step reads what the step before it wrote, so the windows of a step are as many as keep the device busy and, where
 * possible, as stay in the L2 cache.
 */
#include "long_plan.h"

#include "plan_sizes.h"

#include <limits.h>
#include <math.h>

enum { CACHED_BYTES = 32 << 20 };                   /* max. bytes of windows (gradient h: of x) in the L2 cache */
enum { MAX_HALVES = INT_MAX / 4 };                  /* max. windows in halves of a launch, which counts in int */
static const double bytes_of_cycle = 19.4;          /* bytes a cycle and multiprocessor: 4.5 TB/s of an H200 */
static const double launch_cycles = 3000;
static const double halves_factor = 1.3, halves_factor_of_parts = 1.7; /* relative to the cycles of the two rows */

/* Chooses the rows of a window of 2^log2_n complex points; log2_row 0: no size fits. */
static struct long_size size_of(const struct fused_device *device, int log2_n)
{
    struct long_size size = {0, 0};
    for (int row = LONG_ROW_MIN; row <= LONG_ROW_MAX; row++) {
        const int r = log2_n - row;
        if (r < 1 || r > LONG_MAX_SPLITS || !long_rows_at_once(device, row)) continue;
        /* Smaller rows run in two blocks a multiprocessor, which hide each other's loads. So rows have 2^14 points only
         * if this saves a pass. */
        if (row == 14 && size.log2_row && size.log2_r <= LONG_PASS_SPLITS) continue;
        size.log2_row = row;
        size.log2_r = r;
    }
    return size;
}

/* The type of the output. */
static int type_of_output(const struct tensor_call *c)
{
    return (c->op == HC_CONVOLVE ? &c->y : c->op == HC_GRADIENT_X ? &c->x : &c->h)->type;
}

/* Sets n_groups, n_units, kept and bytes; false: the limit is too low. */
static bool memory_plan(const struct tensor_call *c, const struct fused_device *device, struct long_plan *plan)
{
    const int log2_n = plan->size.log2_row + plan->size.log2_r;
    const int64_t bytes = (int64_t)sizeof(float2) << log2_n;
    const int64_t filters = min_of(c->h.batch * c->h.channels, LONG_MAX_UNITS); /* max. filters of a launch */
    const int64_t units_of_group = rows_of_filter(c) * plan->n_windows;
    const int64_t wave = long_rows_at_once(device, plan->size.log2_row); /* rows */
    const int64_t waves = max_of(1, CACHED_BYTES / (wave * ((int64_t)sizeof(float2) << plan->size.log2_row)));
    const int64_t busy = min_of(LONG_MAX_UNITS, max_of(1, (waves * wave) >> plan->size.log2_r)); /* windows */
    int64_t units, groups;
    if (plan->is_halves && type_of_output(c) != HC_FLOAT32)
        plan->kept = long_halves_kept(device, (int)min_of(MAX_HALVES, filters * units_of_group));
    if (plan->kept > c->limit) return false;
    const int64_t capacity = (int64_t)((c->limit - plan->kept) / (size_t)bytes);
    if (plan->is_summed) {
        units = groups = capacity < 3 ? 0 : 1;
        plan->bytes = (size_t)(3 * bytes);
    } else if (plan->is_halves && c->op == HC_GRADIENT_H) {
        units = MAX_HALVES;
        groups = min_of(filters, max_of(1, units / units_of_group));
        plan->bytes = plan->kept + long_gradient_halves_stash(device, (int)groups);
        if (plan->bytes > c->limit || units_of_group > units) return false;
    } else if (plan->is_halves) {
        units = MAX_HALVES;
        groups = min_of(min_of(filters, capacity), max_of(1, units / units_of_group));
        plan->bytes = plan->kept + (size_t)(groups * bytes);
    } else if (c->op == HC_GRADIENT_H) {
        units = min_of(busy, filters * units_of_group);
        units = min_of(units, capacity / 2);
        const bool has_sum = units < units_of_group; /* not all windows of a filter fit */
        if (has_sum) units = min_of(units, (capacity - 1) / 2);
        groups = has_sum ? 1 : units / units_of_group;
        plan->bytes = (size_t)((2 * units + has_sum) * bytes);
    } else {
        units = min_of(busy, filters * units_of_group);
        groups = min_of(filters, max_of(busy, ceil_div(units, units_of_group)));
        if (units + groups > capacity) {
            units = max_of(1, capacity * units / (units + groups));
            groups = min_of(groups, capacity - units);
        }
        plan->bytes = (size_t)((units + groups) * bytes);
    }
    if (units < 1 || groups < 1) return false;
    plan->n_units = (int)units;
    plan->n_groups = (int)groups;
    return true;
}

/* The time of a plan: each step moves its bytes at the speed of the memory, or is a round of rows. */
static double long_cycles(const struct tensor_call *c, const struct fused_device *device, const struct long_plan *plan)
{
    const double n = (double)((int64_t)1 << (plan->size.log2_row + plan->size.log2_r));
    const double filters = (double)(c->h.batch * c->h.channels), parts = (double)ceil_div(c->h.frames, plan->taps);
    const double units = filters * (double)(rows_of_filter(c) * plan->n_windows) * parts;
    const bool gradient_h = c->op == HC_GRADIENT_H, second_pass = plan->size.log2_r > LONG_PASS_SPLITS;
    /* bytes of a point: 16 for split, 16 for join, 16 more each for a second pass, 16 for rows, 8 to 16 for a
     * product */
    const double of_unit = gradient_h ? 2 * (32 + second_pass * 16) + 16 : 56 + second_pass * 32;
    const double of_filter = parts * (32 + second_pass * 16);
    const double row = team_cycles(plan->size.log2_row);
    if (plan->is_halves && gradient_h) {
        const double rounds = ceil(filters / long_rows_at_once(device, plan->size.log2_row));
        return parts * (rounds * 2 * row * 1.2 * (units / filters / parts + 0.5) + launch_cycles);
    }
    if (plan->is_halves) {
        const double window = 2 * row * (parts > 1 ? halves_factor_of_parts : halves_factor);
        return window * ceil(units / long_rows_at_once(device, plan->size.log2_row)) +
               n * filters * of_filter / (bytes_of_cycle * device->n_sm) + 3 * parts * launch_cycles;
    }
    const double spectra = plan->is_summed ? units : filters * parts; /* filters that are transformed */
    const double bytes = n * (units * of_unit + spectra / parts * of_filter);
    const double chunks = ceil(units / plan->n_units), launches = chunks * (gradient_h ? 4 : 3) + 3 * spectra / filters;
    const double rows = (double)(1 << plan->size.log2_r) * (units * (gradient_h ? 2 : 1) + spectra);
    const double rounds = ceil(rows / long_rows_at_once(device, plan->size.log2_row));
    const double moved = bytes / (bytes_of_cycle * device->n_sm), computed = rounds * row;
    return (moved > computed ? moved : computed) + launches * launch_cycles;
}

bool long_plan_make(const struct tensor_call *c, const struct fused_device *device, struct long_plan *best)
{
    const int64_t frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
    best->cycles = 0;
    for (int log2_n = LONG_ROW_MIN + 1; log2_n <= LONG_ROW_MAX + LONG_MAX_SPLITS; log2_n++) {
        const int64_t points = (int64_t)2 << log2_n;
        struct long_plan plan = {};
        plan.size = size_of(device, log2_n);
        if (!plan.size.log2_row) continue;
        plan.is_single = holds_row(c, points);
        /* Filters of up to 3/4 of a window stay whole. Longer ones are cut into parts of up to half of a window, which
         * leave the other half for the output. */
        const int64_t parts = plan.is_single || c->h.frames <= points / 4 * 3 ? 1 : ceil_div(c->h.frames, points / 2);
        plan.taps = ceil_div(c->h.frames, parts);
        plan.hop = plan.is_single ? points : points - plan.taps + 1;
        plan.n_windows = plan.is_single ? 1 : ceil_div(frames, plan.hop);
        plan.is_summed = parts > 1 && c->op != HC_GRADIENT_H && type_of_output(c) != HC_FLOAT32;
        for (int halves = 0; halves < 2; halves++) {
            if (halves) {
                if (plan.is_summed || !long_halves_fit(device, log2_n - 1)) continue;
                plan.is_halves = true;
                plan.size = long_size{log2_n - 1, 1};
            }
            if (!memory_plan(c, device, &plan)) continue;
            plan.cycles = long_cycles(c, device, &plan);
            if (best->cycles == 0 || plan.cycles < best->cycles) *best = plan;
        }
    }
    return best->cycles > 0;
}
