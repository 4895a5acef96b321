#include "plan_report.h"

#include "host/json_print.h"

#include <stdio.h>

enum { MAX_CHANNELS = 4096 };

/* Finds, within an eighth, the smallest number of channels at which the GPU's plan costs less than the CPU's. */
static int crossover(struct plan_report *report, const hc_config *config, bool matrix)
{
    for (int n = 1; n <= MAX_CHANNELS; n += n < 16 ? 1 : n / 8) {
        hc_info cpu = {.size = sizeof cpu}, gpu = {.size = sizeof gpu};
        hc_config c = *config;
        c.n_in = c.n_out = n;
        c.n_routes = matrix ? n * n : n;
        c.backend = "cpu";
        if (hc_plan(&c, &cpu, NULL, 0) != HC_OK) return 0;
        c.backend = "cuda";
        if (hc_plan(&c, &gpu, NULL, 0) != HC_OK) return 0;
        report->knows_gpu = true;
        report->gpu_measured = cpu.measured && gpu.measured;
        if (gpu.cost_ns < cpu.cost_ns) return n;
    }
    return 0;
}

void plan_report_make(struct plan_report *report, const hc_config *config)
{
    *report = (struct plan_report){.plan.size = sizeof report->plan};
    report->has_plan = hc_plan(config, &report->plan, report->why, sizeof report->why) == HC_OK;
    if (!report->has_plan || config->block == HC_BLOCK_FILES) return;
    report->from_channels = crossover(report, config, false);
    if (report->knows_gpu) report->from_matrix = crossover(report, config, true);
}

/* ---- as text ------------------------------------------------------------------------------------ */

static void print_level(const hc_level *l, bool is_tail)
{
    printf("  %8d %8d   ", l->offset, l->n_taps);
    if (l->size == 0)
        printf("in the time domain");
    else
        printf("%d x %d", l->n_partitions, l->size);
    if (is_tail)
        printf(", on the device\n");
    else if (l->size == 0 || l->n_slices == 0)
        printf(", inside the call\n");
    else
        printf(", in %d slice%s\n", l->n_slices, message_s(l->n_slices));
}

static void print_gpu(const struct plan_report *report)
{
    printf("  a GPU is cheaper for ");
    if (report->from_channels > 0)
        printf("%d such channels and more", report->from_channels);
    else
        printf("no number of such channels");
    if (report->from_matrix > 0) printf(", and from a matrix of %d x %d on", report->from_matrix, report->from_matrix);
    printf(", by costs %s\n", report->gpu_measured ? "measured here" : "built in");
}

void plan_report_print(const struct plan_report *report, int rate)
{
    const hc_info *plan = &report->plan;
    if (!report->has_plan) {
        printf("no plan: %s\n", report->why);
        return;
    }
    printf("plan for blocks of %d frames, on the %s\n", plan->block, plan->backend);
    printf("  from tap    taps   partitions\n");
    for (int i = 0; i < plan->n_levels; i++) print_level(&plan->levels[i], i >= plan->n_levels - plan->n_device_levels);
    printf("  a frame of all channels reads %.0f bytes and takes %.0f operations\n", plan->bytes_a_frame,
           plan->flops_a_frame);
    printf("  expected: %.1f ns a frame, %.2f %% of the time, by costs %s\n", plan->cost_ns,
           plan->cost_ns * rate * 1e-7, plan->measured ? "measured here" : "built in");
    printf("  memory %.1f MB; a swap waits %.0f ms as a rule, %.0f ms at most\n", (double)plan->memory * 1e-6,
           1e3 * plan->swap_usual / rate, 1e3 * plan->swap_delay / rate);
    if (report->knows_gpu) print_gpu(report);
}

/* ---- as JSON ------------------------------------------------------------------------------------ */

json_t *plan_report_json(const struct plan_report *report)
{
    const hc_info *plan = &report->plan;
    if (!report->has_plan) return json_null();
    json_t *levels = json_array(), *gpu = json_null();
    for (int i = 0; i < plan->n_levels; i++) {
        const hc_level *l = &plan->levels[i];
        json_array_append_new(levels,
                              json_pack("{s:i, s:i, s:i, s:i, s:i, s:b}", "offset", l->offset, "taps", l->n_taps,
                                        "partition", l->size, "partitions", l->n_partitions, "slices", l->n_slices,
                                        "on_device", i >= plan->n_levels - plan->n_device_levels));
    }
    if (report->knows_gpu)
        gpu = json_pack("{s:o, s:o, s:b}", "channels", json_known(report->from_channels), "matrix",
                        json_known(report->from_matrix), "measured", (int)report->gpu_measured);
    return json_pack("{s:i, s:s, s:i, s:i, s:s, s:i, s:o, s:f, s:f, s:f, s:b, s:I, s:i, s:i, s:o}", "block",
                     plan->block, "method", plan->method, "partition", plan->partition, "partitions",
                     plan->n_partitions, "backend", plan->backend, "hop", plan->hop, "levels", levels, "bytes_a_frame",
                     plan->bytes_a_frame, "flops_a_frame", plan->flops_a_frame, "expected_ns_a_frame", plan->cost_ns,
                     "costs_measured", plan->measured, "memory_bytes", (json_int_t)plan->memory, "swap_delay",
                     plan->swap_delay, "swap_usual", plan->swap_usual, "gpu_is_cheaper_from", gpu);
}
