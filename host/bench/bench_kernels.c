/* haloconv bench kernels - every rung of the kernel ladder on the GPU. */
#include "host/commands.h"
#include "host/message.h"
#include "host/option.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#ifdef HC_WITH_CUDA
#include "bench_play.h"
#include "kernels/ladder/bench.h"
#endif

struct kernels_settings {
    bool json, quick;
    const char *table;
    int seed; /* 0: by the clock */
};

static const struct option_row kernels_options[] = {
    {"quick", 0, NULL, "A few shapes, 5 seconds; all of them take about a minute", option_flag,
     OPTION_TO(struct kernels_settings, quick)},
    {"json", 0, NULL, "One JSON object on standard output instead of a line a measurement", option_flag,
     OPTION_TO(struct kernels_settings, json)},
    {"write-table", 0, "FILE", "Rewrite FILE between its lines <!-- bench kernels --> and <!-- end -->", option_text,
     OPTION_TO(struct kernels_settings, table)},
    {"seed", 0, "N", "Seed of the noise, as a report prints it [by the clock]", option_int,
     OPTION_TO(struct kernels_settings, seed), .min = 1, .max = INT_MAX},
    {0}};

static const struct command_line kernels_line = {
    .command = "bench kernels",
    .text =
        "Checks every convolution kernel against 64-bit arithmetic and times it on the first GPU, with the ceilings of "
        "the GPU and, if they are found along LD_LIBRARY_PATH, cuBLAS, cuDNN and cuFFT for comparison.\v"
        "  haloconv bench kernels --write-table kernels/ladder/README.md",
    .groups = {{NULL, kernels_options}}};

#ifdef HC_WITH_CUDA
/* Stereo blocks of 64 frames through 4096 taps, one after another. Left at 0 where there is no GPU: bench_kernels says
 * so. */
static void measure_live(double *p50_us, double *p99_us)
{
    struct bench_shape shape = bench_shape_usual();
    shape.n_in = shape.n_out = 2;
    shape.diagonal = true;
    shape.taps = 4096;
    shape.backend = "cuda";
    static const double seconds = 7; /* of audio: 5000 blocks */
    struct bench_result result;
    hc_engine *engine;
    char why[MESSAGE_CAP];
    if (!bench_open(&shape, &engine, &result, why, sizeof why)) return;
    if (bench_play(&engine, &shape, seconds, false, false, &result, why, sizeof why)) {
        *p50_us = result.p50_us;
        *p99_us = result.p99_us;
    }
    hc_close(engine);
}

static int bench_run(const struct kernels_settings *s)
{
    char why[MESSAGE_CAP];
    struct bench_options options = {.json = s->json, .quick = s->quick, .table = s->table, .seed = s->seed};
    measure_live(&options.live_p50_us, &options.live_p99_us);
    if (bench_kernels(&options, stdout, why, sizeof why) != 0) return message_error("bench: %s", why);
    return 0;
}
#else
static int bench_run(const struct kernels_settings *s)
{
    (void)s;
    return message_error("bench: this build has no CUDA; build with nvcc on PATH, or with NVCC=/path/to/nvcc");
}
#endif

int bench_kernels_command(int argc, char **argv)
{
    struct kernels_settings settings = {0};
    int status = option_parse(&kernels_line, argc, argv, &settings);
    return status >= 0 ? status : bench_run(&settings);
}
