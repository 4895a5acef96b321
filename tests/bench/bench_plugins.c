/* bench_plugins - measures what the same mask costs in our LV2, CLAP and VST3 plugins, live.
 *
 *   BUILD=build bench_plugins MASK SECONDS INSTANCES,BLOCK...      BACKEND: the number of the control's value (1: CPU)
 *
 * All instances of all standards are in one process. They play stereo, with the CPU or BACKEND, by the clock: one
 * standard at a time, for a tenth of SECONDS, then the next; so a change of the processor's clock rate meets all alike.
 * A round is one block of every instance of a standard, one after the other. An impulse before shows that the first
 * instance of each standard plays the mask: their outputs must be the same. Prints the time of a round with its share
 * of the period, the rounds that lasted longer, and p50 and mean beside those of LV2.
 */
#include "plugin_driver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RATE = 48000, MAX_INSTANCES = 512, CHANNELS = 2, TURNS = 10, LOADING_S = 4 };
enum standard { LV2_PLUGIN, CLAP_PLUGIN, VST3_PLUGIN, N_STANDARDS };
static const char *const names[] = {"LV2", "CLAP", "VST3"};
static const struct plugin_driver *const drivers[] = {&plugin_lv2, &plugin_clap, &plugin_vst3};

static struct plugin instances[N_STANDARDS][MAX_INSTANCES];
static float *in[CHANNELS], *out[CHANNELS];
static int n_instances, block, backend = BACKEND_CPU;

static void play_one(struct plugin *p)
{
    p->driver->play(p, (void *const *)in, (void *const *)out, block);
}

static void sleep_until(double when)
{
    struct timespec t = {(time_t)when, (long)((when - floor(when)) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {}
}

/* Plays rounds of noise by the clock. took[n_rounds] in seconds; NULL: not measured. */
static void play(enum standard standard, int n_rounds, double *took)
{
    static struct random random = {1};
    double due = now_s();
    for (int k = 0; k < n_rounds; k++) {
        for (int ch = 0; ch < CHANNELS; ch++)
            for (int i = 0; i < block; i++) in[ch][i] = random_sample(&random);
        double begin = now_s();
        for (int i = 0; i < n_instances; i++) play_one(&instances[standard][i]);
        if (took) took[k] = now_s() - begin;
        due = fmax(due + (double)block / RATE, now_s());
        sleep_until(due);
    }
}

/* Plays silence, then an impulse: response [CHANNELS][n_rounds * block] of the first instance. */
static void play_impulse(enum standard standard, int n_rounds, float *response)
{
    for (int k = -n_rounds; k < n_rounds; k++) {
        for (int ch = 0; ch < CHANNELS; ch++) memset(in[ch], 0, (size_t)block * sizeof(float));
        if (k == 0) in[0][0] = in[1][0] = 1;
        play_one(&instances[standard][0]);
        for (int ch = 0; ch < CHANNELS && k >= 0; ch++)
            memcpy(response + ((size_t)ch * (size_t)n_rounds + (size_t)k) * (size_t)block, out[ch],
                   (size_t)block * sizeof(float));
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(enum standard standard, double *took, int n, const double *lv2, double *own)
{
    double sum = 0, period = (double)block / RATE;
    int over = 0;
    for (int k = 0; k < n; k++) sum += took[k], over += took[k] > period;
    qsort(took, (size_t)n, sizeof *took, ascending);
    own[0] = took[n / 2], own[1] = sum / n;
    printf("| %-4s | %9d | %5d | %8.1f | %8.1f | %8.1f | %8.1f | %4.1f %% | %4d of %5d | %5.3f | %5.3f |\n",
           names[standard], n_instances, block, own[0] * 1e6, own[1] * 1e6, took[(long)n * 99 / 100] * 1e6,
           took[n - 1] * 1e6, own[0] / period * 100, over, n, own[0] / lv2[0], own[1] / lv2[1]);
    fflush(stdout);
}

static void measure(const char *mask, double seconds)
{
    const int impulse_rounds = LOADING_S * RATE / block, turn_rounds = (int)(seconds * RATE / TURNS) / block;
    const size_t n_response = (size_t)CHANNELS * (size_t)impulse_rounds * (size_t)block;
    float *responses[N_STANDARDS];
    double *took[N_STANDARDS], figures[N_STANDARDS][2];
    for (int ch = 0; ch < CHANNELS; ch++) {
        in[ch] = must_alloc((size_t)block, sizeof(float));
        out[ch] = must_alloc((size_t)block, sizeof(float));
    }
    for (int s = 0; s < N_STANDARDS; s++) {
        const struct plugin_setup setup = {.variant = "stereo",
                                           .mask = mask,
                                           .rate = RATE,
                                           .max_frames = block,
                                           .backend = (enum backend)backend,
                                           .is_live = true,
                                           .way = drivers[s]->n_workers - 1};
        for (int i = 0; i < n_instances; i++) plugin_open(&instances[s][i], drivers[s], &setup);
        took[s] = must_alloc((size_t)(TURNS * turn_rounds), sizeof(double));
        responses[s] = must_alloc(n_response, sizeof(float));
        play((enum standard)s, LOADING_S * RATE / block, NULL);
        play_impulse((enum standard)s, impulse_rounds, responses[s]);
        double power = 0;
        for (size_t k = 0; k < n_response; k++) {
            power += (double)responses[s][k] * (double)responses[s][k];
            check(fabsf(responses[s][k] - responses[0][k]) < 1e-6f, "%s plays another mask than LV2", names[s]);
        }
        check(power > 1e-3, "%s plays nothing", names[s]);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int s = 0; s < N_STANDARDS; s++) play((enum standard)s, turn_rounds, took[s] + turn * turn_rounds);
    for (int s = 0; s < N_STANDARDS; s++)
        print_row((enum standard)s, took[s], TURNS * turn_rounds, figures[0], figures[s]);
    for (int s = 0; s < N_STANDARDS; s++) {
        for (int i = 0; i < n_instances; i++) plugin_close(&instances[s][i]);
        free(took[s]);
        free(responses[s]);
    }
    for (int ch = 0; ch < CHANNELS; ch++) free(in[ch]), free(out[ch]);
}

int main(int argc, char **argv)
{
    char mask[4096];
    if (getenv("BACKEND")) backend = atoi(getenv("BACKEND"));
    if (argc < 4 || !realpath(argv[1], mask) || !(atof(argv[2]) > 0)) {
        fprintf(stderr, "bench_plugins: needs MASK SECONDS INSTANCES,BLOCK...\n");
        return 2;
    }
    printf("| kind | instances | block | p50 us   | mean us  | p99 us   | worst us | of block | overruns | p50 / LV2 | "
           "mean / LV2 |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int a = 3; a < argc; a++) {
        check(sscanf(argv[a], "%d,%d", &n_instances, &block) == 2 && n_instances > 0 && n_instances <= MAX_INSTANCES &&
                  block > 0,
              "%s is not INSTANCES,BLOCK", argv[a]);
        measure(mask, atof(argv[2]));
    }
    return 0;
}
