/* bench_offline [OPTIONS] - times a long sound from memory to memory through a long mask, and its copies alone. */
#include "dsp/base/order.h"
#include "dsp/bench.h"
#include "dsp/haloconv_files.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "host/stopwatch.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct offline_settings {
    int seconds, channels, mask_seconds, runs;
    uint64_t seed;
    const char *backend;
    bool json;
};

enum { RATE = 48000 };

struct offline_run {
    const struct offline_settings *settings;
    hc_engine *engine;
    hc_info info;
    int n_taps;
    float *taps;        /* [channels][n_taps] */
    float *sound, *wet; /* [channels][block]: the caller's own memory, not pinned */
    const float **ins;
    float **outs;
    char why[MESSAGE_CAP];
};

static float noise(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (float)(int32_t)((*state * 0x2545f4914f6cdd1du) >> 32) * 0x1p-31f;
}

static bool run_open(struct offline_run *run, const struct offline_settings *s)
{
    *run = (struct offline_run){.settings = s, .n_taps = s->mask_seconds * RATE};
    size_t n = (size_t)s->channels;
    uint64_t state = s->seed ? s->seed : 1; /* 0 would stay 0 */
    hc_config config;
    hc_config_init(&config);
    config.block = HC_BLOCK_FILES;
    config.n_in = config.n_out = s->channels;
    config.max_taps = run->n_taps;
    config.fade_frames = HC_NO_FADE;
    config.backend = s->backend;
    config.wait_us = -1;
    if (hc_open(&config, &run->engine, run->why, sizeof run->why) != HC_OK) return false;
    run->info.size = sizeof run->info;
    hc_get_info(run->engine, &run->info);
    size_t block = (size_t)run->info.block;
    run->taps = calloc(n * (size_t)run->n_taps, sizeof *run->taps);
    run->sound = calloc(n * block, sizeof *run->sound);
    run->wet = calloc(n * block, sizeof *run->wet);
    run->ins = calloc(n, sizeof *run->ins);
    run->outs = calloc(n, sizeof *run->outs);
    hc_route *routes = calloc(n, sizeof *routes);
    hc_mask *mask;
    if (!run->taps || !run->sound || !run->wet || !run->ins || !run->outs || !routes) {
        free(routes);
        return message_write(run->why, sizeof run->why, "no memory for the sound; use a shorter --mask");
    }
    for (size_t ch = 0; ch < n; ch++) {
        float *taps = run->taps + ch * (size_t)run->n_taps;
        for (int k = 0; k < run->n_taps; k++) taps[k] = noise(&state) * 0.01f * (float)exp(-6.9 * k / run->n_taps);
        for (size_t i = 0; i < block; i++) run->sound[ch * block + i] = 0.5f * noise(&state);
        routes[ch] = (hc_route){.in = (int)ch, .out = (int)ch, .taps = taps, .n_taps = run->n_taps, .gain = 1};
        run->ins[ch] = run->sound + ch * block;
        run->outs[ch] = run->wet + ch * block;
    }
    int rc = hc_mask_make(run->engine, routes, sizeof *routes, s->channels, &mask, run->why, sizeof run->why);
    free(routes);
    if (rc == HC_OK) hc_mask_swap(run->engine, mask);
    return rc == HC_OK;
}

static void run_close(struct offline_run *run)
{
    hc_close(run->engine);
    free(run->taps);
    free(run->sound);
    free(run->wet);
    free(run->ins);
    free(run->outs);
}

static bool failed(struct offline_run *run, int rc)
{
    if (rc >= 0) return false;
    hc_get_info(run->engine, &run->info);
    message_write(run->why, sizeof run->why, "%s; use --backend cpu",
                  run->info.error[0] ? run->info.error : "the engine stopped");
    return true;
}

/* Copies a block of the sound to every input buffer of the engine, so that hc_submit(NULL) plays it. */
static bool fill_buffers(struct offline_run *run)
{
    size_t n = (size_t)run->settings->channels, block = (size_t)run->info.block;
    bool good = true;
    void *in;
    for (int i = 0; i < run->info.queue_depth && good; i++) {
        hc_block_buffers(run->engine, i, &in, NULL);
        for (size_t ch = 0; ch < n; ch++) memcpy((float *)in + ch * block, run->ins[ch], block * sizeof(float));
        good = !failed(run, hc_submit(run->engine, NULL, (int)block));
    }
    for (int i = 0; i < run->info.queue_depth && good; i++) good = !failed(run, hc_collect(run->engine, NULL));
    hc_reset(run->engine);
    return good;
}

/* Plays all blocks, with input and output in the engine's memory (own) or in the caller's. Returns the seconds; -1:
 * run->why has the reason. */
static double play_blocks(struct offline_run *run, bool own, int queue_depth)
{
    int64_t n_frames = (int64_t)run->settings->seconds * RATE, started = 0;
    int n_started = 0, block = run->info.block;
    hc_reset(run->engine);
    double start = stopwatch_now();
    while (started < n_frames || n_started > 0) {
        if (started < n_frames && n_started < queue_depth) {
            if (failed(run, hc_submit(run->engine, own ? NULL : run->ins, block))) return -1;
            started += block;
            n_started++;
        } else {
            if (failed(run, hc_collect(run->engine, own ? NULL : run->outs))) return -1;
            n_started--;
        }
    }
    return stopwatch_now() - start;
}

/* Returns the median of the seconds of all runs; -1: run->why has the reason. */
static double median(struct offline_run *run, bool own, int queue_depth)
{
    double seconds[64];
    int runs = run->settings->runs;
    if (play_blocks(run, own, queue_depth) < 0) return -1; /* warms up */
    for (int i = 0; i < runs; i++)
        if ((seconds[i] = play_blocks(run, own, queue_depth)) < 0) return -1;
    qsort(seconds, (size_t)runs, sizeof *seconds, order_of_doubles);
    return seconds[runs / 2];
}

/* Convolves some blocks of the same sound, and compares frames of the last block with sums in float64. */
static bool check_last_block(struct offline_run *run)
{
    int block = run->info.block, n_blocks = run->n_taps / block + 3, queue_depth = run->info.queue_depth;
    double worst = 0;
    float peak = 0;
    hc_reset(run->engine);
    for (int started = 0, done = 0; done < n_blocks;) {
        bool more = started < n_blocks && started - done < queue_depth;
        if (failed(run, more ? hc_submit(run->engine, run->ins, block) : hc_collect(run->engine, run->outs)))
            return false;
        started += more;
        done += !more;
    }
    for (int ch = 0; ch < run->settings->channels; ch++) {
        const float *x = run->ins[ch], *h = run->taps + (size_t)ch * (size_t)run->n_taps, *y = run->outs[ch];
        for (int i = 0; i < block; i++) peak = fmaxf(peak, fabsf(y[i]));
        for (int at = 0; at < block; at += block / 16 - 1) {
            double want = 0;
            for (int k = 0; k < run->n_taps; k++) want += (double)h[k] * (double)x[((at - k) % block + block) % block];
            worst = fmax(worst, isfinite(y[at]) ? fabs((double)y[at] - want) : INFINITY);
        }
    }
    if (worst <= 1e-6 * (double)peak) return true;
    return message_write(run->why, sizeof run->why,
                         "the check failed: the largest error is %.1f dB relative to the peak; no times are printed",
                         20 * log10(worst / (double)peak));
}

struct offline_times {     /* seconds */
    double own, alone;     /* in the engine's memory: [0] full queue, [1] one block at a time */
    double callers;        /* in the caller's memory, with a full queue */
    double roof, up, down; /* copies alone: both ways at once; to the device; from the device */
};

static bool measure_roof(const struct offline_run *run, struct offline_times *result, char *why, size_t cap)
{
    int64_t bytes = (int64_t)run->settings->seconds * RATE * run->settings->channels * (int64_t)sizeof(float);
    hc_copies copies;
    if (strcmp(run->info.backend, "cuda") != 0) return true;
    if (hc_measure_copies(bytes, bytes, 8 << 20, run->settings->runs, &copies, why, cap) != HC_OK) return false;
    result->roof = copies.both;
    result->up = copies.up;
    result->down = copies.down;
    return true;
}

static int print_offline_times(const struct offline_run *run, const struct offline_times *r)
{
    const struct offline_settings *s = run->settings;
    if (s->json) {
        json_t *all =
            json_pack("{s:i, s:i, s:i, s:I, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "seconds",
                      s->seconds, "channels", s->channels, "mask_seconds", s->mask_seconds, "seed", (json_int_t)s->seed,
                      "device", run->info.device, "method", run->info.method, "partition", run->info.partition, "block",
                      run->info.block, "queue_depth", run->info.queue_depth, "s", r->own, "one_at_a_time_s", r->alone,
                      "callers_memory_s", r->callers, "roof_s", r->roof, "up_s", r->up, "down_s", r->down);
        return json_print(all, 6, "bench");
    }
    printf("%d s, %d channels, float, mask %d s; %s, %s, partition %d, blocks of %d, %d under way; medians of %d; seed "
           "%llu\n",
           s->seconds, s->channels, s->mask_seconds, run->info.device, run->info.method, run->info.partition,
           run->info.block, run->info.queue_depth, s->runs, (unsigned long long)s->seed);
    if (r->roof > 0) {
        printf("  copies alone, up and down at once (the roof)  %8.1f ms\n", 1e3 * r->roof);
        printf("  up alone, down alone                          %8.1f ms, %.1f ms\n", 1e3 * r->up, 1e3 * r->down);
    }
    printf("  from the engine's memory to the engine's      %8.1f ms", 1e3 * r->own);
    if (r->roof > 0) printf(", %.0f %% of the roof", 100 * r->roof / r->own);
    printf("\n  the same, one block at a time                 %8.1f ms", 1e3 * r->alone);
    if (r->roof > 0) printf(": %.1f ms are kernels and waiting", 1e3 * (r->alone - r->up - r->down));
    printf("\n  from the caller's memory to the caller's      %8.1f ms: one thread copies in and out\n",
           1e3 * r->callers);
    return 0;
}

static const struct option_row offline_options[] = {
    {"seconds", 0, "S", "Length of the sound [3600]", option_int, OPTION_TO(struct offline_settings, seconds), .min = 1,
     .max = 360000},
    {"channels", 0, "N", "Channels in and out [2]", option_int, OPTION_TO(struct offline_settings, channels), .min = 1,
     .max = 1024},
    {"mask", 0, "S", "Length of the mask; its channels differ [10]", option_int,
     OPTION_TO(struct offline_settings, mask_seconds), .min = 1, .max = 600},
    {"runs", 0, "N", "Number of runs, of which the median counts [5]", option_int,
     OPTION_TO(struct offline_settings, runs), .min = 1, .max = 64},
    {"seed", 0, "N", "Seed of the sound and the mask [1]", option_seed, OPTION_TO(struct offline_settings, seed)},
    {"backend", 0, "cpu|cuda|cuda:N", "Processor to convolve on [cuda if there is a GPU, else cpu]", option_text,
     OPTION_TO(struct offline_settings, backend)},
    OPTION_JSON(OPTION_TO(struct offline_settings, json)),
    {0}};

static const struct command_line offline_line = {
    .command = "bench_offline",
    .text = "Convolves a long sound with a long mask, from host memory to host memory, in blocks like those of a file. "
            "On a GPU it also copies the same blocks to the GPU and back without convolving; this time is the lower "
            "bound (the roof).\v"
            "  bench_offline --backend cpu --seconds 60 --runs 1",
    .groups = {{NULL, offline_options}}};

int main(int argc, char **argv)
{
    struct offline_settings settings = {.seconds = 3600, .channels = 2, .mask_seconds = 10, .runs = 5, .seed = 1};
    struct offline_run run;
    struct offline_times result = {0};
    int status = option_parse(&offline_line, argc, argv, &settings);
    if (status >= 0) return status;
    char none[64];
    if (!settings.backend) settings.backend = hc_list_devices(1, none, sizeof none) == HC_OK ? "cuda" : "cpu";
    bool good = run_open(&run, &settings) && check_last_block(&run) && fill_buffers(&run);
    good = good && (result.own = median(&run, true, run.info.queue_depth)) >= 0 &&
           (result.alone = median(&run, true, 1)) >= 0 &&
           (result.callers = median(&run, false, run.info.queue_depth)) >= 0;
    good = good && measure_roof(&run, &result, run.why, sizeof run.why);
    status = good ? print_offline_times(&run, &result) : message_error("%s", run.why);
    run_close(&run);
    return status;
}
