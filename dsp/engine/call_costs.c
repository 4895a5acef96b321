#include "call_costs.h"

#include "dsp/base/await.h"
#include "dsp/base/order.h"
#include "haloconv.h"

#include <stdlib.h>

enum { BLOCK = 64, UNTIMED_CALLS = 20, CALLS = 101, PERIOD_NS = 1333333 };

int call_costs_measure(const char *backend, double *ns, struct reason *why)
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
