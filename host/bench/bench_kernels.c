/* haloconv bench kernels - every rung of the kernel ladder on the GPU. */
#include "bench.h"
#include "host/message.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#ifdef HC_WITH_CUDA
#include "bench_play.h"
#include "kernels/bench.h"
#endif

const char bench_kernels_help[] =
    "haloconv bench kernels - every convolution kernel, checked against float64 and timed, beside the ceilings of\n"
    "the GPU and, where they are found along LD_LIBRARY_PATH, cuBLAS, cuDNN and cuFFT\n"
    "\n"
    "      --quick              a few shapes, 5 seconds; all of them take about a minute\n"
    "      --json               one object on standard output instead of a line a measurement\n"
    "      --write-table FILE   rewrite FILE between its lines <!-- bench kernels --> and <!-- end -->\n"
    "      --write-choice FILE  rewrite FILE: the table by which the fastest kernel is chosen; 40 seconds more\n"
    "  -h, --help               this text\n"
    "\n"
    "  haloconv bench kernels --write-table kernels/README.md\n";

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
    if (bench_play(&engine, &shape, seconds, false, -1, &result, why, sizeof why)) {
        *p50_us = result.p50_us;
        *p99_us = result.p99_us;
    }
    hc_close(engine);
}

static int bench_run(bool json, bool quick, const char *table, const char *choice)
{
    char why[MESSAGE_CAP];
    struct bench_options options = {.json = json, .quick = quick, .table = table, .choice = choice};
    measure_live(&options.live_p50_us, &options.live_p99_us);
    if (bench_kernels(&options, stdout, why, sizeof why) != 0) return message_error("bench: %s", why);
    return 0;
}
#else
static int bench_run(bool json, bool quick, const char *table, const char *choice)
{
    (void)json, (void)quick, (void)table, (void)choice;
    return message_error("bench: this build has no CUDA; build with nvcc on PATH, or with NVCC=/path/to/nvcc");
}
#endif

int bench_kernels_command(int argc, char **argv)
{
    enum { QUICK = 256, JSON, TABLE, CHOICE };
    static const struct option options[] = {{"quick", no_argument, NULL, QUICK},
                                            {"json", no_argument, NULL, JSON},
                                            {"write-table", required_argument, NULL, TABLE},
                                            {"write-choice", required_argument, NULL, CHOICE},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool json = false, quick = false;
    const char *table = NULL, *choice = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(bench_kernels_help, stdout);
            return 0;
        }
        if (option == QUICK)
            quick = true;
        else if (option == JSON)
            json = true;
        else if (option == TABLE)
            table = optarg;
        else if (option == CHOICE)
            choice = optarg;
        else {
            message_note("see `haloconv bench --help`");
            return EXIT_USAGE;
        }
    }
    if (optind != argc) return message_usage("bench", "%s: is not an option of bench kernels", argv[optind]);
    return bench_run(json, quick, table, choice);
}
