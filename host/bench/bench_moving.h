/* bench_moving - hc_render from memory to memory: many signals of one moving source each. */
#ifndef BENCH_MOVING_H
#define BENCH_MOVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct moving_shape {
    int rate, step, n_entries, n_out, n_taps;
    int n_jobs;            /* jobs of one call of hc_render */
    double job_s;          /* length of each job, seconds */
    double time_s;         /* repeat the call for about so long */
    int every;             /* steps between two changes */
    int n_threads;
    const char *backend;
    uint64_t seed;
};

struct moving_result {
    double setup_s, elapsed_s; /* seconds of all calls together */
    int n_calls;
    double hours;          /* hours of rendered sound; a job counts once, with all of its outputs */
};

/* Measures hc_render. false: why has the reason. */
bool bench_moving(const struct moving_shape *shape, struct moving_result *result, char *why, size_t cap);

#endif
