#include "engine_state.h"

#include "dsp/backends/backends.h"
#include "dsp/backends/costs.h"
#include "dsp/backends/hybrid.h"
#include "dsp/device/resident_split.h"

#include <math.h>
#include <string.h>

bool plan_make(const struct backend *backend, int device, const hc_config *c, struct plan *plan, struct plan *tail_plan,
               struct plan_costs *costs)
{
    const struct plan_shape shape = config_shape(c);
    struct plan_shape head = shape, tail;
    struct plan_costs tail_costs;
    bool measured = costs_find(backend_head(backend), backend_head_device(backend, device), costs);
    bool has_tail = backend->tail && hybrid_split(backend, c->rate, &shape, &head, &tail);
    plan_choose(plan, costs, &head, c->method);
    if (backend == &backend_resident) {
        costs->call_ns = 1e3 * resident_us(costs, &head);
        costs->mac_ns = 0; /* call_ns has the multiply-adds */
    }
    if (!has_tail) return measured;
    costs_find(backend_find(backend->tail), device, &tail_costs);
    plan_choose(tail_plan, &tail_costs, &tail, c->method);
    plan->tail_plan = tail_plan;
    return measured;
}

/* Appends the levels of a plan to *info; the plan's first tap is tap `from` of the responses. */
static void levels_report(const struct plan *plan, int from, hc_info *info)
{
    if (info->n_levels + 1 + plan->n_tail_levels > HC_MAX_LEVELS) return; /* never: no plan has so many levels */
    info->levels[info->n_levels++] =
        (hc_level){from, plan->head_taps, plan->direct ? 0 : plan->partition, plan->n_partitions, 0};
    for (int i = 0; i < plan->n_tail_levels; i++) {
        const struct plan_level *level = &plan->tail_levels[i];
        int end = i + 1 < plan->n_tail_levels ? level[1].offset : plan->max_taps;
        info->levels[info->n_levels++] = (hc_level){from + level->offset, end - level->offset, level->size,
                                                    level->n_partitions, level->size / plan->hop};
    }
}

/* Stores the frames that the tail levels of a new mask need: the maximum, and the usual number. */
static void level_swap_frames(const struct backend *backend, const struct plan *plan, const struct plan_shape *shape,
                              int *max, int *usual)
{
    *max = plan->n_tail_levels ? 2 * plan->tail_levels[plan->n_tail_levels - 1].size : 0;
    *usual = *max > 0 && backend->swap_frames ? backend->swap_frames(plan, shape) : *max;
    if (*usual > *max) *usual = *max;
}

/* Returns the frames until the output of hybrid's device contains a new mask: the tail levels on the device need some,
 * then come the job that is filled next and the two jobs before it. */
static int hybrid_swap_frames(const struct plan *tail, int level_frames, int block)
{
    return (level_frames > 0 && level_frames < tail->block ? tail->block : level_frames) + 2 * tail->block + 2 * block;
}

void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                 const struct plan_shape *shape, hc_info *info)
{
    int max, usual;
    info->block = plan->block;
    info->partition = plan->partition;
    info->n_partitions = plan->direct ? 0 : plan->n_partitions;
    info->method = plan->direct ? "direct" : "fft";
    info->hop = plan->hop;
    info->n_levels = 0;
    levels_report(plan, 0, info);
    level_swap_frames(backend_head(backend), plan, shape, &max, &usual);
    info->swap_delay = plan->n_tail_levels ? max + plan->block : 0;
    info->swap_usual = plan->n_tail_levels ? usual + plan->block : 0;
    struct plan_work work;
    plan_count(plan, shape, &work);
    info->bytes_a_frame = work.bytes;
    info->flops_a_frame = work.flops;
    info->memory = (uint64_t)work.memory;
    info->cost_ns = plan_cost_ns(plan, costs, shape);
    const struct plan *tail = plan->tail_plan;
    if (!tail) return;
    info->n_device_levels = 1 + tail->n_tail_levels;
    levels_report(tail, plan->max_taps, info);
    level_swap_frames(backend_find(backend->tail), tail, shape, &max, &usual);
    max = hybrid_swap_frames(tail, max, plan->block);
    usual = hybrid_swap_frames(tail, usual, plan->block);
    if (max > info->swap_delay) info->swap_delay = max;
    if (usual > info->swap_usual) info->swap_usual = usual;
    plan_count(tail, shape, &work);
    info->bytes_a_frame += work.bytes;
    info->flops_a_frame += work.flops;
    info->memory += (uint64_t)(work.memory + hybrid_memory(tail, shape));
}

int hc_plan(const hc_config *given, hc_info *out, char *why, size_t cap)
{
    hc_config resolved, *config = &resolved;
    hc_info info = {0};
    int error = info_check(out, REASON(why, cap));
    if (!error) error = config_resolve(given, config, REASON(why, cap));
    if (error) return error;
    const struct backend *backend = backend_cpu_for(config);
    int device;
    if (strcmp(config->backend, "auto") != 0) error = backend_choose(config, &backend, &device, REASON(why, cap));
    if (error) return error;
    backend = backend_resident_or(backend, -1, config);
    struct plan plan, tail_plan;
    struct plan_costs costs;
    struct plan_shape shape = config_shape(config);
    bool is_cpu = backend->in_place && !backend->tail;
    info.measured = plan_make(backend, is_cpu ? 0 : -1, config, &plan, &tail_plan, &costs);
    plan_report(backend, &plan, &costs, &shape, &info);
    if (!isfinite(info.cost_ns))
        return fail(HC_EUNSUPPORTED, REASON(why, cap), "the head is too large for a resident kernel; use cuda");
    info.backend = backend->name;
    info_copy(&info, out);
    return HC_OK;
}
