#include "plan_report.h"

#include "choose.h"
#include "dsp/backends.h"
#include "dsp/costs/costs.h"
#include "engine_state.h"
#include "hybrid.h"

#include <string.h>

bool plan_make(const struct backend *backend, int device, const hc_config *c, struct plan *plan, struct plan *tail_plan,
               struct plan_costs *costs)
{
    struct plan_shape shape = config_shape(c);
    int from = backend->tail ? 2 * hybrid_tail_block(c->rate, c->block) : 0;
    if (from == 0 || shape.max_taps <= from) {
        bool measured = costs_find(backend_near(backend), backend->near ? 0 : device, costs);
        plan_choose(plan, costs, &shape, c->method);
        return measured;
    }
    struct plan_costs tail_costs;
    struct plan_shape near = shape, tail = shape;
    near.max_taps = from;
    tail.max_taps -= from;
    tail.block = from / 2;
    bool measured = costs_find(backend_near(backend), 0, costs);
    costs_find(backend_find(backend->tail), device, &tail_costs);
    plan_choose(plan, costs, &near, c->method);
    plan_choose(tail_plan, &tail_costs, &tail, c->method);
    plan->tail = tail_plan;
    return measured;
}

static void levels_report(const struct plan *plan, int from, hc_info *info)
{
    if (info->n_levels + 1 + plan->n_far > HC_MOST_LEVELS) return; /* no plan has so many */
    hc_level *levels = info->levels + info->n_levels;
    info->n_levels += 1 + plan->n_far;
    levels[0] = (hc_level){from, plan->near_taps, plan->direct ? 0 : plan->partition, plan->n_partitions, 0};
    for (int i = 0; i < plan->n_far; i++) {
        const struct plan_level *far = &plan->far[i];
        int end = i + 1 < plan->n_far ? plan->far[i + 1].offset : plan->max_taps;
        levels[1 + i] =
            (hc_level){from + far->offset, end - far->offset, far->size, far->n_partitions, far->size / plan->tick};
    }
}

/* The most frames that the far levels of a new mask need, and what they need as a rule. */
static int far_delay(const struct plan *plan)
{
    return plan->n_far ? 2 * plan->far[plan->n_far - 1].size : 0;
}

static int far_usual(const struct backend *backend, const struct plan *plan, const struct plan_shape *shape)
{
    int most = far_delay(plan), usual = backend->swap_frames ? backend->swap_frames(plan, shape) : most;
    return usual < most ? usual : most;
}

/* How long the device of a tail may need until what is heard has a new mask in it: its own far levels, then the job
 * that is filled when they are there and the two that are ahead of it. */
static int tail_delay(const struct plan *tail, int far, int block)
{
    return (far > 0 && far < tail->block ? tail->block : far) + 2 * tail->block + 2 * block;
}

void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                 const struct plan_shape *shape, hc_info *info)
{
    info->block = plan->block;
    info->partition = plan->partition;
    info->n_partitions = plan->direct ? 0 : plan->n_partitions;
    info->method = plan->direct ? "direct" : "fft";
    info->tick = plan->tick;
    info->n_levels = 0;
    levels_report(plan, 0, info);
    info->swap_delay = plan->n_far ? far_delay(plan) + plan->block : 0;
    info->swap_usual = plan->n_far ? far_usual(backend_near(backend), plan, shape) + plan->block : 0;
    struct plan_work work;
    plan_count(plan, shape, &work);
    info->bytes_a_frame = work.bytes;
    info->flops_a_frame = work.flops;
    info->memory = (uint64_t)work.memory;
    info->cost_ns = plan_cost_ns(plan, costs, shape);
    if (!plan->tail) return;
    int n_near = info->n_levels, delay = tail_delay(plan->tail, far_delay(plan->tail), plan->block);
    int usual = tail_delay(plan->tail, far_usual(backend_find(backend->tail), plan->tail, shape), plan->block);
    levels_report(plan->tail, plan->max_taps, info);
    info->n_tail_levels = info->n_levels - n_near;
    if (delay > info->swap_delay) info->swap_delay = delay;
    if (usual > info->swap_usual) info->swap_usual = usual;
    plan_count(plan->tail, shape, &work);
    info->bytes_a_frame += work.bytes;
    info->flops_a_frame += work.flops;
    info->memory += (uint64_t)(work.memory + hybrid_memory(plan->tail, shape));
}

int hc_plan(const hc_config *given, hc_info *out, char *why, size_t cap)
{
    hc_config resolved, *config = &resolved;
    hc_info info = {0};
    int error = info_check(out, why, cap);
    if (!error) error = config_resolve(given, config, why, cap);
    if (error) return error;
    const struct backend *backend = backend_cpu_for(config);
    int device;
    if (strcmp(config->backend, "auto") != 0) error = backend_choose(config, &backend, &device, why, cap);
    if (error) return error;
    struct plan plan, tail_plan;
    struct plan_costs costs;
    struct plan_shape shape = config_shape(config);
    bool is_cpu = backend->in_place && !backend->tail;
    info.measured = plan_make(backend, is_cpu ? 0 : -1, config, &plan, &tail_plan, &costs);
    plan_report(backend, &plan, &costs, &shape, &info);
    info.backend = backend->name;
    info_copy(&info, out);
    return HC_OK;
}
