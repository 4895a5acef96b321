#include "call_costs.h"

#include "haloconv.h"

#include <stdlib.h>
#include <time.h>

enum { BLOCK = 64, FIRST = 50, CALLS = 501 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int call_costs_measure(const char *backend, double *ns, char *why, size_t cap)
{
    static const float tap = 1;
    const hc_route route = {0, 0, &tap, 1, 1, 0};
    float frames[BLOCK] = {0};
    const float *in[] = {frames};
    float *out[] = {frames};
    double took[CALLS];
    hc_config config;
    hc_engine *engine;
    hc_mask *mask;
    hc_config_init(&config);
    config.block = BLOCK;
    config.n_in = config.n_out = 1;
    config.max_taps = 1;
    config.backend = backend;
    config.wait_us = -1; /* each block is waited for */
    int error = hc_open(&config, &engine, why, cap);
    if (error) return error;
    error = hc_mask_make(engine, &route, 1, &mask, why, cap);
    if (!error) error = hc_mask_swap(engine, mask);
    for (int i = -FIRST; i < CALLS && !error; i++) {
        double start = now_ns();
        error = hc_process(engine, in, out, BLOCK);
        if (i >= 0) took[i] = now_ns() - start;
    }
    hc_close(engine);
    if (error) return error;
    qsort(took, CALLS, sizeof *took, by_size);
    *ns = took[CALLS / 2];
    return HC_OK;
}
