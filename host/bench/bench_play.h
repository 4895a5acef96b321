/* bench_play - plays engines of a given shape, with masks of noise, as a sound card does: a block each period. */
#ifndef BENCH_PLAY_H
#define BENCH_PLAY_H

#include "dsp/haloconv.h"
#include "host/option.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_each { void (*call)(void *data); void *data; }; /* called at the start of each block, in its time */

struct bench_shape {
    int n_in, n_out;
    int n_sources;      /* the first n_sources inputs are moving sources; above 0: no mask is made */
    int diagonal;       /* input i to output i; else every input to every output */
    int taps, block, rate;
    int n_threads;      /* threads of the CPU; 0 = as many as needed */
    int n_engines;      /* engines of one shape with different masks, played one after the other in each period */
    int wait_us;        /* longest wait for a device; 0 = none, -1 = until it is done */
    bool spin;          /* as in hc_config */
    const char *backend, *method;
    uint64_t seed;
    struct bench_each each; /* call NULL: none */
};

struct bench_result {
    hc_info info;
    double setup_s;     /* seconds until the mask was ready */
    int64_t n_blocks;
    double period_us, mean_us, p50_us, p99_us, p999_us, max_us; /* times of hc_process for all engines together */
    double jitter_us;   /* p99.9 of the delay of wake-ups of this program */
    int64_t n_missed;   /* blocks that were not complete one period after they were due to begin */
    int64_t by_engine;  /* missed blocks for which hc_process ran longer than a period */
    int64_t by_wakeup;  /* missed blocks for which the system woke this program too late, or interrupted hc_process */
    int64_t n_late;     /* late blocks of all engines */
    double other_threads; /* processors that were busy with other threads: workers and the device thread */
    double peak;        /* peak of the last block's output */
    bool real_time;     /* the system granted a real-time priority */
};

/* One engine that chooses its backend, blocks of 64 frames at 48 kHz; the channels and the taps are 0. */
struct bench_shape bench_shape_usual(void);

/* Opens engines[n_engines]. With sources `taps` is hc_config.bank_taps. false: why has the reason; no engine is
 * open. */
bool bench_open(const struct bench_shape *shape, hc_engine **engines, struct bench_result *result, char *why,
                size_t cap);
void bench_close(const struct bench_shape *shape, hc_engine **engines);

/* Plays `seconds` of audio: paced by the clock, or as fast as possible. The first blocks do not count. judges: stops
 * after the first miss by the engine, and when too many are by wake-up (bench_is_judged). false: why has the reason. */
bool bench_play(hc_engine *const *engines, const struct bench_shape *shape, double seconds, bool paced, bool judges,
                struct bench_result *result, char *why, size_t cap);

/* Were the blocks paced well enough to judge the engine? At most a tenth of them may be missed by wake-up: after such a
 * miss the engine has more time than usual. */
bool bench_is_judged(const struct bench_result *result);

json_t *bench_result_json(const struct bench_shape *shape, const struct bench_result *result);

/* The options that the benches of engines share; the first member of their settings. */
struct bench_settings {
    struct bench_shape shape;
    double seconds;     /* length of the responses, if shape.taps is 0 */
    double time_s;
    bool json;
};
extern const struct option_row bench_play_options[]; /* rows for struct bench_settings */
#define BENCH_PLAY_TITLE "Options of engine, capacity and scene:"

struct bench_settings bench_settings_usual(void);
void bench_settings_complete(struct bench_settings *settings); /* outputs and taps that were not given */

#endif
