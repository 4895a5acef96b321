/* bench_play - an engine of a stated shape, with masks of noise, played as a sound card would: a block each period. */
#ifndef BENCH_PLAY_H
#define BENCH_PLAY_H

#include "dsp/haloconv.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_shape {
    int n_in, n_out;
    bool diagonal;      /* input i to output i; else every input to every output */
    int taps, block, rate;
    int n_threads;      /* of the CPU; 0 = as many as it takes */
    int n_engines;      /* alike but for their masks, played one after the other in each period */
    int wait_us;        /* longest wait for a device; 0 = none, -1 = until it is done */
    bool spin;          /* as hc_config's */
    const char *backend, *method;
    uint64_t seed;
};

struct bench_result {
    hc_info info;
    double setup_s;     /* until the mask was ready */
    int64_t n_blocks;
    double period_us, mean_us, p50_us, p99_us, p999_us, max_us; /* of hc_process, of all engines together */
    double jitter_us;   /* p99.9 of how late this program was woken */
    int64_t n_missed;   /* blocks that were not there a period after they were due to begin ... */
    int64_t by_engine;  /* ... because hc_process took more than a period */
    int64_t by_wakeup;  /* ... because this program was woken too late */
    int64_t n_late;     /* blocks that the engines gave up, all of them together */
    double beside;      /* processors that were busy beside this thread: workers, and what drives a device */
    double peak;        /* of the last block's output */
    bool real_time;     /* the system granted a real-time priority */
};

/* One engine on its own choice of a backend, blocks of 64 frames at 48 kHz; no channels and no taps yet. */
struct bench_shape bench_shape_usual(void);

/* engines: [n_engines]. false: an error's line is in (why, cap), and none is open. */
bool bench_open(const struct bench_shape *shape, hc_engine **engines, struct bench_result *result, char *why,
                size_t cap);
void bench_close(const struct bench_shape *shape, hc_engine **engines);

/* Play for so many seconds of audio: paced by the clock, or as fast as it goes. The first blocks, while the caches
 * fill, do not count. may_miss: how many misses before it stops; -1 = all the same. */
bool bench_play(hc_engine *const *engines, const struct bench_shape *shape, double seconds, bool paced,
                int64_t may_miss, struct bench_result *result, char *why, size_t cap);

/* Options that the benches of engines share: false after a usage error. */
enum { BENCH_INPUTS = 256, BENCH_OUTPUTS, BENCH_ROUTES, BENCH_TAPS, BENCH_SECONDS, BENCH_BLOCK, BENCH_RATE,
       BENCH_BACKEND, BENCH_METHOD, BENCH_THREADS, BENCH_OWN };
#define BENCH_PLAY_OPTIONS                                                                                             \
    {"taps", required_argument, NULL, BENCH_TAPS}, {"seconds", required_argument, NULL, BENCH_SECONDS},                \
        {"block", required_argument, NULL, BENCH_BLOCK}, {"rate", required_argument, NULL, BENCH_RATE},                \
        {"backend", required_argument, NULL, BENCH_BACKEND}, {"method", required_argument, NULL, BENCH_METHOD},        \
        {"threads", required_argument, NULL, BENCH_THREADS}, {"help", no_argument, NULL, 'h'}
/* seconds: of the responses, to be turned into taps when the rate is known; 0 = taps were given. */
bool bench_play_option(int option, const char *text, struct bench_shape *shape, double *seconds);

#endif
