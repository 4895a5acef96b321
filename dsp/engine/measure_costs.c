/* measure_costs - hc_measure: measures the costs of a backend, and keeps them for later plans; measures the copies
 * of a GPU. */
#include "dsp/backends/backend_choice.h"
#include "config.h"
#include "dsp/bench.h"
#include "call_costs.h"
#include "dsp/backends/costs.h"
#include "dsp/backends/gpu_module.h"

#include <stdio.h>

int hc_measure(const char *name, hc_costs *out, char *why, size_t cap)
{
    const struct backend *backend;
    int device;
    struct plan_costs costs;
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
    costs_keep(backend, device, &costs);
    *out = (hc_costs){costs.mac_ns,       costs.cmac_ns,   costs.live_cmac_ns, costs.fft_ns,  costs.tail_fft_ns,
                      costs.tail_cmac_ns, costs.launch_ns, costs.slice_ns,     costs.call_ns, n_built_in};
    return HC_OK;
}

int hc_measure_copies(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, hc_copies *copies,
                      char *why, size_t cap)
{
    const struct gpu_module *module = gpu_module_load(REASON(why, cap));
    if (!module) return HC_EUNSUPPORTED;
    return module->copies_measure(bytes_up, bytes_down, block_bytes, n_runs, copies, REASON(why, cap));
}
