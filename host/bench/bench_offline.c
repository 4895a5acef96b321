/* haloconv bench offline - a long sound from memory to memory through a long mask, beside what the copies alone take. */
#include "bench.h"
#include "dsp/haloconv_files.h"
#include "host/message.h"
#include "host/option.h"
#include "host/stopwatch.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HC_WITH_CUDA
#include "kernels/bench_offline.h"
#endif

static const char help[] =
    "haloconv bench offline - a long sound from host memory to host memory through a long mask, block after block as\n"
    "a file goes, beside the same blocks copied to the GPU and back with nothing between (the roof)\n"
    "\n"
    "      --seconds S          of sound                                                               [3600]\n"
    "      --channels N         in and out                                                                [2]\n"
    "      --mask S             seconds of the mask, each channel its own                                [10]\n"
    "      --runs N             of which the median counts                                                [5]\n"
    "      --backend B          cpu, cuda or cuda:N                                                    [cuda]\n"
    "      --json               one object on standard output\n"
    "  -h, --help               this text\n";

struct settings {
    int seconds, channels, mask_seconds, runs;
    const char *backend;
    bool json;
};

enum { RATE = 48000 };

struct stage {
    const struct settings *settings;
    hc_engine *engine;
    hc_info info;
    int n_taps;
    float *taps;       /* [channels][n_taps] */
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

static bool stage_open(struct stage *stage, const struct settings *s)
{
    *stage = (struct stage){.settings = s, .n_taps = s->mask_seconds * RATE};
    size_t n = (size_t)s->channels;
    uint64_t state = 1;
    hc_config config;
    hc_config_init(&config);
    config.block = HC_BLOCK_FILES;
    config.n_in = config.n_out = s->channels;
    config.max_taps = stage->n_taps;
    config.fade_frames = HC_NO_FADE;
    config.backend = s->backend;
    config.wait_us = -1;
    if (hc_open(&config, &stage->engine, stage->why, sizeof stage->why) != HC_OK) return false;
    stage->info.size = sizeof stage->info;
    hc_get_info(stage->engine, &stage->info);
    size_t block = (size_t)stage->info.block;
    stage->taps = calloc(n * (size_t)stage->n_taps, sizeof *stage->taps);
    stage->sound = calloc(n * block, sizeof *stage->sound);
    stage->wet = calloc(n * block, sizeof *stage->wet);
    stage->ins = calloc(n, sizeof *stage->ins);
    stage->outs = calloc(n, sizeof *stage->outs);
    hc_route *routes = calloc(n, sizeof *routes);
    hc_mask *mask;
    if (!stage->taps || !stage->sound || !stage->wet || !stage->ins || !stage->outs || !routes) {
        free(routes);
        return message_write(stage->why, sizeof stage->why, "no memory for the sound; use a shorter --mask");
    }
    for (size_t ch = 0; ch < n; ch++) {
        float *taps = stage->taps + ch * (size_t)stage->n_taps;
        for (int k = 0; k < stage->n_taps; k++) taps[k] = noise(&state) * 0.01f * (float)exp(-6.9 * k / stage->n_taps);
        for (size_t i = 0; i < block; i++) stage->sound[ch * block + i] = 0.5f * noise(&state);
        routes[ch] = (hc_route){.in = (int)ch, .out = (int)ch, .taps = taps, .n_taps = stage->n_taps, .gain = 1};
        stage->ins[ch] = stage->sound + ch * block;
        stage->outs[ch] = stage->wet + ch * block;
    }
    int rc = hc_mask_make(stage->engine, routes, s->channels, &mask, stage->why, sizeof stage->why);
    free(routes);
    if (rc == HC_OK) hc_mask_swap(stage->engine, mask);
    return rc == HC_OK;
}

static void stage_close(struct stage *stage)
{
    hc_close(stage->engine);
    free(stage->taps);
    free(stage->sound);
    free(stage->wet);
    free(stage->ins);
    free(stage->outs);
}

static bool failed(struct stage *stage, int rc)
{
    if (rc >= 0) return false;
    hc_get_info(stage->engine, &stage->info);
    message_write(stage->why, sizeof stage->why, "%s; use --backend cpu",
                  stage->info.error[0] ? stage->info.error : "the engine stopped");
    return true;
}

/* The sound's block into every one of the engine's own. */
static bool fill_rooms(struct stage *stage)
{
    size_t n = (size_t)stage->settings->channels, block = (size_t)stage->info.block;
    bool good = true;
    void *room;
    for (int i = 0; i < stage->info.flight && good; i++) {
        hc_room(stage->engine, i, &room, NULL);
        for (size_t ch = 0; ch < n; ch++) memcpy((float *)room + ch * block, stage->ins[ch], block * sizeof(float));
        good = !failed(stage, hc_submit(stage->engine, NULL, (int)block));
    }
    for (int i = 0; i < stage->info.flight && good; i++) good = !failed(stage, hc_collect(stage->engine, NULL));
    hc_reset(stage->engine);
    return good;
}

/* All blocks; own: from the engine's memory to the engine's memory, else from and to the caller's. -1 = failed. */
static double play(struct stage *stage, bool own, int flight)
{
    int64_t n_frames = (int64_t)stage->settings->seconds * RATE, started = 0;
    int n_started = 0, block = stage->info.block;
    hc_reset(stage->engine);
    double start = stopwatch_now();
    while (started < n_frames || n_started > 0) {
        if (started < n_frames && n_started < flight) {
            if (failed(stage, hc_submit(stage->engine, own ? NULL : stage->ins, block))) return -1;
            started += block;
            n_started++;
        } else {
            if (failed(stage, hc_collect(stage->engine, own ? NULL : stage->outs))) return -1;
            n_started--;
        }
    }
    return stopwatch_now() - start;
}

static int by_size(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

static double median(struct stage *stage, bool own, int flight)
{
    double seconds[64];
    int runs = stage->settings->runs;
    if (play(stage, own, flight) < 0) return -1; /* warms up */
    for (int i = 0; i < runs; i++)
        if ((seconds[i] = play(stage, own, flight)) < 0) return -1;
    qsort(seconds, (size_t)runs, sizeof *seconds, by_size);
    return seconds[runs / 2];
}

/* Frames of the last of some blocks against the definition in float64; every block holds the same sound. */
static bool check(struct stage *stage)
{
    int block = stage->info.block, n_blocks = stage->n_taps / block + 3, flight = stage->info.flight;
    double worst = 0, peak = 0;
    hc_reset(stage->engine);
    for (int started = 0, done = 0; done < n_blocks;) {
        bool more = started < n_blocks && started - done < flight;
        if (failed(stage, more ? hc_submit(stage->engine, stage->ins, block) : hc_collect(stage->engine, stage->outs)))
            return false;
        started += more;
        done += !more;
    }
    for (int ch = 0; ch < stage->settings->channels; ch++) {
        const float *x = stage->ins[ch], *h = stage->taps + (size_t)ch * (size_t)stage->n_taps, *y = stage->outs[ch];
        for (int i = 0; i < block; i++) peak = fmax(peak, fabs((double)y[i]));
        for (int at = 0; at < block; at += block / 16 - 1) {
            double want = 0;
            for (int k = 0; k < stage->n_taps; k++)
                want += (double)h[k] * (double)x[((at - k) % block + block) % block];
            worst = fmax(worst, isfinite(y[at]) ? fabs((double)y[at] - want) : INFINITY);
        }
    }
    if (worst <= 1e-6 * peak) return true;
    return message_write(stage->why, sizeof stage->why, "check failed: off by %.1f dB of the peak; no times are given",
                         20 * log10(worst / peak));
}

struct result {
    double own, alone, callers;          /* flight blocks at once, one block at a time, from and to the caller's memory */
    double roof, up, down;
};

static bool measure_roof(const struct stage *stage, struct result *result, char *why, size_t cap)
{
#ifdef HC_WITH_CUDA
    int64_t bytes = (int64_t)stage->settings->seconds * RATE * stage->settings->channels * (int64_t)sizeof(float);
    struct copy_ring ring;
    if (strcmp(stage->info.backend, "cuda") != 0) return true;
    if (bench_copy_ring(bytes, bytes, 8 << 20, stage->settings->runs, &ring, why, cap) != 0)
        return false;
    result->roof = ring.both;
    result->up = ring.up;
    result->down = ring.down;
#else
    (void)stage, (void)result, (void)why, (void)cap;
#endif
    return true;
}

static int print(const struct stage *stage, const struct result *r)
{
    const struct settings *s = stage->settings;
    if (s->json) {
        json_t *all =
            json_pack("{s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "seconds", s->seconds,
                      "channels", s->channels, "mask_seconds", s->mask_seconds, "device", stage->info.device, "method",
                      stage->info.method, "partition", stage->info.partition, "block", stage->info.block, "flight",
                      stage->info.flight, "s", r->own, "one_at_a_time_s", r->alone, "callers_memory_s", r->callers,
                      "roof_s", r->roof, "up_s", r->up, "down_s", r->down);
        if (!all) return message_error("no report as JSON: no memory for it; leave --json out");
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(all);
        return 0;
    }
    printf("%d s, %d channels, float, mask %d s; %s, %s, partition %d, blocks of %d, %d under way; medians of %d\n",
           s->seconds, s->channels, s->mask_seconds, stage->info.device, stage->info.method, stage->info.partition,
           stage->info.block, stage->info.flight, s->runs);
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

static int parse(int argc, char **argv, struct settings *s)
{
    enum { SECONDS = 256, CHANNELS, MASK, RUNS, BACKEND, JSON };
    static const struct option options[] = {{"seconds", required_argument, NULL, SECONDS},
                                            {"channels", required_argument, NULL, CHANNELS},
                                            {"mask", required_argument, NULL, MASK},
                                            {"runs", required_argument, NULL, RUNS},
                                            {"backend", required_argument, NULL, BACKEND},
                                            {"json", no_argument, NULL, JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    bool good = true;
    *s = (struct settings){3600, 2, 10, 5, "cuda", false};
    argv[0] = "haloconv";
    while (good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option == SECONDS) good = option_int("bench", "--seconds", optarg, 1, 360000, &s->seconds);
        if (option == CHANNELS) good = option_int("bench", "--channels", optarg, 1, 1024, &s->channels);
        if (option == MASK) good = option_int("bench", "--mask", optarg, 1, 600, &s->mask_seconds);
        if (option == RUNS) good = option_int("bench", "--runs", optarg, 1, 64, &s->runs);
        if (option == BACKEND) s->backend = optarg;
        if (option == JSON) s->json = true;
        if (option == '?') {
            message_note("see `haloconv bench offline --help`");
            return EXIT_USAGE;
        }
    }
    if (good && optind != argc) return message_usage("bench", "offline takes no names");
    return good ? -1 : EXIT_USAGE;
}

int bench_offline(int argc, char **argv)
{
    struct settings settings;
    struct stage stage;
    struct result result = {0};
    int status = parse(argc, argv, &settings);
    if (status >= 0) return status;
    bool good = stage_open(&stage, &settings) && check(&stage) && fill_rooms(&stage);
    good = good && (result.own = median(&stage, true, stage.info.flight)) >= 0 &&
           (result.alone = median(&stage, true, 1)) >= 0 &&
           (result.callers = median(&stage, false, stage.info.flight)) >= 0;
    good = good && measure_roof(&stage, &result, stage.why, sizeof stage.why);
    status = good ? print(&stage, &result) : message_error("%s", stage.why);
    stage_close(&stage);
    return status;
}
