/* measure_costs - hc_measure: measures the costs of a backend, and keeps them for later plans; measures the copies
 * of a GPU. */
#include "dsp/backends/backend_choice.h"
#include "config.h"
#include "dsp/bench.h"
#include "call_costs.h"
#include "dsp/backends/costs.h"
#include "dsp/backends/gpu_module.h"

#include <stdio.h>

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
