/* measure_costs - hc_measure: measures the costs of a backend, and keeps them for later plans; measures the copies
 * of a GPU. */
#include "config.h"
#include "dsp/backends/backends.h"
#include "dsp/backends/costs.h"
#include "dsp/backends/gpu_module.h"
#include "dsp/base/await.h"
#include "dsp/base/order.h"
#include "dsp/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 64, UNTIMED_CALLS = 20, CALLS = 101, PERIOD_NS = 1333333 };

/* Measures the fixed cost of an hc_process call on a backend, such as the way to a device and back: *ns gets the median
 * time of blocks of a small engine that spins, in nanoseconds; they come at 48 kHz. Needs 0.2 s. Fails as hc_open. */
static int call_costs_measure(const char *backend, double *ns, struct reason *why)
{
    static const float tap = 1;
    const hc_route route = {0, 0, &tap, 1, 1, 0};
    float frames[BLOCK] = {0};
    const float *in[] = {frames};
    float *out[] = {frames};
    double elapsed[CALLS];
    hc_config config;
    hc_engine *engine;
    hc_mask *mask;
    hc_config_init(&config);
    config.block = BLOCK;
    config.n_in = config.n_out = 1;
    config.max_taps = 1;
    config.backend = backend;
    config.spin = 1;
    config.wait_us = HC_WAIT_FOREVER;
    int error = hc_open(&config, &engine, REASON_TEXT(why));
    if (error) return error;
    error = hc_mask_make(engine, &route, sizeof route, 1, &mask, REASON_TEXT(why));
    if (!error) error = hc_mask_swap(engine, mask);
    int64_t next = now_ns(); /* blocks in sequence would find all threads awake */
    for (int i = -UNTIMED_CALLS; i < CALLS && !error; i++, next += PERIOD_NS) {
        while (now_ns() < next) cpu_relax();
        int64_t start = now_ns();
        error = hc_process(engine, in, out, BLOCK);
        if (i >= 0) elapsed[i] = (double)(now_ns() - start);
    }
    hc_close(engine);
    if (error) return error;
    qsort(elapsed, CALLS, sizeof *elapsed, order_of_doubles);
    *ns = elapsed[CALLS / 2];
    return HC_OK;
}

/* Measures the resident kernel of a device, and keeps the costs. *costs stays if the device has none. */
static int resident_measure(const struct backend *resident, int device, struct plan_costs *costs, int *n_built_in,
                            struct reason *why)
{
    char refusal[128];
    if (!resident || resident->describe(device, refusal, sizeof refusal) != HC_OK) return HC_OK;
    struct plan_costs found = *resident->costs;
    int error = resident->measure(device, &found, why);
    if (error) return error == HC_EUNSUPPORTED ? HC_OK : error;
    *n_built_in += costs_correct(resident, &found);
    costs_keep(resident, device, &found);
    *costs = found;
    return HC_OK;
}

/* Returns the largest matrix that the resident kernel plays by the known costs. */
static int resident_side(const struct backend *backend, int device, hc_config *config)
{
    enum { MAX_SIDE = 256 };
    config->backend = backend->name;
    for (int n = 1; n <= MAX_SIDE; n++) {
        config->n_in = config->n_out = n;
        config->n_routes = n * n;
        if (backend_resident_or(backend, device, config) == backend) return n - 1;
    }
    return MAX_SIDE;
}

int hc_measure(const char *name, hc_costs *out, char *why, size_t cap)
{
    const struct backend *backend;
    int device;
    struct plan_costs costs, resident = {0};
    const hc_config given = {.size = sizeof given, .backend = name};
    hc_config config;
    if (!out) return fail(HC_EINVAL, REASON(why, cap), "hc_measure: costs is NULL; pass a struct for them");
    int error = config_resolve(&given, &config, REASON(why, cap));
    if (!error) error = backend_choose(&config, &backend, &device, REASON(why, cap));
    if (error) return error;
    if (backend->head)
        return fail(HC_EINVAL, REASON(why, cap), "backend %s consists of two backends; measure cpu and cuda",
                    backend->name);
    costs = *backend->costs;
    if (!backend->in_place) {
        char own[32]; /* "auto" would choose the CPU for such a small engine */
        snprintf(own, sizeof own, "%s:%d:launched", backend->name, device);
        error = call_costs_measure(own, &costs.call_ns, REASON(why, cap));
    }
    if (!error && backend->measure) error = backend->measure(device, &costs, REASON(why, cap));
    if (error) return error;
    int n_built_in = costs_correct(backend, &costs);
    error = resident_measure(backend->resident, device, &resident, &n_built_in, REASON(why, cap));
    if (error) return error;
    costs_keep(backend, device, &costs);
    *out = (hc_costs){.mac_ns = costs.mac_ns,
                      .cmac_ns = costs.cmac_ns,
                      .live_cmac_ns = costs.live_cmac_ns,
                      .fft_ns = costs.fft_ns,
                      .tail_fft_ns = costs.tail_fft_ns,
                      .tail_cmac_ns = costs.tail_cmac_ns,
                      .launch_ns = costs.launch_ns,
                      .slice_ns = costs.slice_ns,
                      .call_ns = costs.call_ns,
                      .resident_call_ns = resident.call_ns,
                      .hop_ns = resident.hop_ns,
                      .word_ns = resident.word_ns,
                      .near_mac_ns = resident.mac_ns,
                      .far_mac_ns = resident.far_mac_ns,
                      .resident_side = resident.call_ns > 0 ? resident_side(backend, device, &config) : 0,
                      .n_built_in = n_built_in};
    return HC_OK;
}

int hc_measure_copies(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, hc_copies *copies,
                      char *why, size_t cap)
{
    const struct gpu_module *module = gpu_module_load(REASON(why, cap));
    if (!module) return HC_EUNSUPPORTED;
    return module->copies_measure(bytes_up, bytes_down, block_bytes, n_runs, copies, REASON(why, cap));
}
