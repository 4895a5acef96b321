/* Every allocation and every new thread of a [setup] call fails once, and from then on, in turn: the call returns an
 * error or has done its work, what played before still plays, and the same call works afterwards.
 *
 * The input is the constant 1, so the output is the sum of a mask's taps. HC_TEST_FAULTS=all: each call fails in turn;
 * without it, about one of STEP. */
#include "check.h"
#include "fault_calls.h"
#include "haloconv_live.h"
#include "haloconv_scenes.h"
#include "haloconv_tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 256, TAPS = 16000, FRAMES = 3 * TAPS, STEP = SANITIZED ? 25 : 9 };

struct fault {
    enum fault_kind kind;
    long n;
    bool onward;
};

static struct fault fault;
static char why[512], folder[] = "/tmp/haloconv-faults.XXXXXX";

static const char *at(void)
{
    static char text[600];
    snprintf(text, sizeof text, "%s %ld %s: %s", fault.kind == FAULT_MEMORY ? "memory" : "thread", fault.n,
             fault.onward ? "onward" : "once", why);
    return text;
}

static void faults_on(void)
{
    why[0] = 0;
    fault_set(fault.kind, fault.n, fault.onward);
}

/* The call of a fault returned this. */
static bool succeeded(int code)
{
    fault_set(fault.kind, 0, false);
    check(code == HC_OK || code == HC_ENOMEM || code == HC_EDEVICE, "code %d, %s", code, at());
    check(code == HC_OK || fault_happened(), "code %d without a fault, %s", code, at());
    check(code == HC_OK || why[0], "code %d without a text, %s", code, at());
    return code == HC_OK;
}

/* Calls run(backend) once for each fault, until a fault's number is beyond the last call. */
static void each_fault(void (*run)(const char *), const char *backend)
{
    static const enum fault_kind kinds[] = {FAULT_MEMORY, FAULT_THREAD};
    const char *which = getenv("HC_TEST_FAULTS");
    struct random random = random_seeded(1);
    int step = which && strcmp(which, "all") == 0 ? 1 : STEP;
    for (int i = 0; i < 4; i++) {
        fault = (struct fault){.kind = kinds[i / 2], .onward = i % 2};
        for (fault.n = 1;; fault.n += fault.kind == FAULT_THREAD ? 1 : random_int(&random, 1, 2 * step - 1)) {
            run(backend);
            if (!fault_happened()) break;
        }
        check(fault.kind == FAULT_THREAD || fault.n > 1, "no allocation failed");
    }
}

/* ---- the engine ------------------------------------------------------------------------------------------------- */

static hc_config engine_config(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.block = BLOCK;
    c.max_taps = TAPS;
    c.n_threads = 2;
    c.wait_us = HC_WAIT_FOREVER;
    c.fade_frames = BLOCK;
    c.backend = backend;
    return c;
}

/* A mask whose taps have this sum, on both channels. */
static int make_mask(hc_engine *engine, float sum, hc_mask **mask)
{
    static float taps[TAPS];
    taps[0] = taps[TAPS - 1] = sum / 2;
    hc_route routes[] = {{0, 0, taps, TAPS, 1, 0}, {1, 1, taps, TAPS, 1, 0}};
    return hc_mask_make(engine, routes, sizeof *routes, 2, mask, why, sizeof why);
}

static void check_block(float y[2][BLOCK], double sum)
{
    for (int i = 0; i < 2 * BLOCK; i++)
        check(fabs(y[i / BLOCK][i % BLOCK] - sum) < 1e-5, "channel %d, frame %d: %g, want %g, %s", i / BLOCK, i % BLOCK,
              (double)y[i / BLOCK][i % BLOCK], sum, at());
}

static float x[BLOCK], y[2][BLOCK];
static const float *const in[] = {x, x};
static float *const out[] = {y[0], y[1]};

/* Plays until the whole mask has its input and every fade is over. */
static void engine_plays(hc_engine *engine, double sum)
{
    for (int i = 0; i < FRAMES; i += BLOCK)
        check(hc_process(engine, in, out, BLOCK) == HC_OK, "a late block, %s", at());
    check_block(y, sum);
}

static void fault_in_hc_open(const char *backend)
{
    hc_config c = engine_config(backend);
    hc_engine *engine = (void *)x;
    hc_mask *mask;
    faults_on();
    bool good = succeeded(hc_open(&c, &engine, why, sizeof why));
    check(good || !engine, "a failed hc_open gave an engine, %s", at());
    if (!good) return;
    check(make_mask(engine, 0.5f, &mask) == HC_OK && hc_mask_swap(engine, mask) == HC_OK, "no mask, %s", at());
    engine_plays(engine, 0.5);
    hc_close(engine);
}

static hc_engine *engine_opened; /* playing a mask with the sum 0.5 */

static void fault_in_hc_mask_make(const char *backend)
{
    hc_mask *mask = (void *)x, *again;
    faults_on();
    bool good = succeeded(make_mask(engine_opened, 0.75f, &mask));
    check(good || !mask, "a failed hc_mask_make gave a mask, %s", at());
    if (good) hc_mask_swap(engine_opened, mask);
    engine_plays(engine_opened, good ? 0.75 : 0.5);
    check(make_mask(engine_opened, 0.5f, &again) == HC_OK, "no mask after a fault, %s", at());
    hc_mask_swap(engine_opened, again);
    hc_mask_free(engine_opened, good ? mask : NULL);
    engine_plays(engine_opened, 0.5);
    hc_mask_free(engine_opened, again); /* it plays until the next one */
}

static void engine_survives_faults(const char *backend)
{
    hc_config c = engine_config(backend);
    hc_mask *mask;
    each_fault(fault_in_hc_open, backend);
    check(hc_open(&c, &engine_opened, why, sizeof why) == HC_OK, "%s", why);
    hc_info info = {.size = sizeof info};
    check(hc_get_info(engine_opened, &info) == HC_OK && info.n_levels > 1, "the engine has no tail levels");
    check(make_mask(engine_opened, 0.5f, &mask) == HC_OK && hc_mask_swap(engine_opened, mask) == HC_OK, "%s", why);
    engine_plays(engine_opened, 0.5);
    hc_mask_free(engine_opened, mask);
    each_fault(fault_in_hc_mask_make, backend);
    hc_close(engine_opened);
}

/* ---- steered sources --------------------------------------------------------------------------------------------- */

/* A bank of two entries whose taps have the sums `sum` and 2 sum. */
static int make_bank(hc_engine *engine, float sum, hc_bank **bank)
{
    static float taps[2][TAPS];
    const float *rows[] = {taps[0], taps[0], taps[1], taps[1]};
    taps[0][0] = taps[0][TAPS - 1] = sum / 2;
    taps[1][0] = taps[1][TAPS - 1] = sum;
    hc_bank_data data = {.size = sizeof data, .n_entries = 2, .n_out = 2, .n_taps = TAPS, .taps = rows};
    return hc_bank_make(engine, &data, bank, why, sizeof why);
}

static hc_config scene_config(const char *backend)
{
    hc_config c = engine_config(backend);
    c.max_taps = 1;
    c.n_sources = 1;
    c.block = 128;
    c.bank_taps = TAPS;
    return c;
}

/* Plays until the whole response has its input and every fade is over. */
static void scene_plays(hc_engine *engine, const hc_bank *bank, int entry, double sum)
{
    float y2[2][BLOCK] = {0};
    check(hc_steer(engine, 0, bank, &entry, NULL, 1) == HC_OK, "hc_steer, %s", at());
    for (int i = 0; i < TAPS + 12 * BLOCK; i += 128) {
        float *halves[] = {y2[0] + i % BLOCK, y2[1] + i % BLOCK};
        check(hc_process(engine, in, halves, 128) == HC_OK, "a late block, %s", at());
    }
    check_block(y2, sum);
}

static void fault_in_hc_open_with_sources(const char *backend)
{
    hc_config c = scene_config(backend);
    hc_engine *engine = (void *)x;
    hc_bank *bank;
    faults_on();
    bool good = succeeded(hc_open(&c, &engine, why, sizeof why));
    check(good || !engine, "a failed hc_open gave an engine, %s", at());
    if (!good) return;
    check(make_bank(engine, 0.5f, &bank) == HC_OK, "no bank, %s", at());
    scene_plays(engine, bank, 0, 0.5);
    hc_bank_free(bank);
    hc_close(engine);
}

static hc_bank *bank_playing;

static void fault_in_hc_bank_make(const char *backend)
{
    hc_bank *bank = (void *)x, *again;
    faults_on();
    bool good = succeeded(make_bank(engine_opened, 0.25f, &bank));
    check(good || !bank, "a failed hc_bank_make gave a bank, %s", at());
    scene_plays(engine_opened, good ? bank : bank_playing, 1, good ? 0.5 : 1);
    check(make_bank(engine_opened, 0.5f, &again) == HC_OK, "no bank after a fault, %s", at());
    hc_bank_free(good ? bank : NULL);
    hc_bank_free(bank_playing);
    bank_playing = again;
    scene_plays(engine_opened, again, 0, 0.5);
}

static void sources_survive_faults(const char *backend)
{
    hc_config c = scene_config(backend);
    hc_info info = {.size = sizeof info};
    each_fault(fault_in_hc_open_with_sources, backend);
    check(hc_open(&c, &engine_opened, why, sizeof why) == HC_OK, "%s", why);
    check(hc_get_info(engine_opened, &info) == HC_OK && info.n_steer_levels > 1, "the sources have no tail");
    check(make_bank(engine_opened, 0.5f, &bank_playing) == HC_OK, "%s", why);
    scene_plays(engine_opened, bank_playing, 0, 0.5);
    each_fault(fault_in_hc_bank_make, backend);
    hc_bank_free(bank_playing);
    hc_close(engine_opened);
}

/* ---- the live core ---------------------------------------------------------------------------------------------- */

static char paths[2][64];  /* masks with the sums 0.5 and 0.75 */
static char scenes[2][64]; /* configurations with one source, whose banks have these sums */
static int n_live_sources; /* 1: the masks are these configurations */

static const char *live_mask(int i)
{
    return n_live_sources ? scenes[i] : paths[i];
}

static void say(void *data, int level, const char *text)
{
    if (level != HC_LIVE_NOTE && !why[0]) snprintf(why, sizeof why, "%s", text);
}

static int live_open(const char *backend, hc_live **live)
{
    hc_live_config c;
    hc_live_config_init(&c);
    c.block = BLOCK;
    c.backend = backend;
    c.n_threads = 2;
    c.standby_share = 1e9;
    c.n_sources = n_live_sources;
    c.say = say;
    return hc_live_open(&c, live, why, sizeof why);
}

static void live_plays(hc_live *live, double sum)
{
    hc_live_set_freewheel(live, 1);
    for (int i = 0; i < FRAMES; i += BLOCK) {
        int code = hc_live_process(live, in, out, BLOCK);
        check(code == HC_OK, "hc_live_process: %d, %s", code, at());
    }
    check_block(y, sum);
    hc_live_set_freewheel(live, 0);
}

static void live_changes(hc_live *live, const char *mask, int block)
{
    hc_live_change change = {.size = sizeof change, .mask = mask, .block = block};
    check(hc_live_request(live, &change) == HC_OK && hc_live_work(live) == HC_OK, "no change after a fault, %s", at());
}

static void fault_in_hc_live_open(const char *backend)
{
    hc_live *live = (void *)x;
    faults_on();
    bool good = succeeded(live_open(backend, &live));
    check(good || !live, "a failed hc_live_open gave a live convolver, %s", at());
    if (!good) return;
    live_changes(live, live_mask(0), 0);
    live_plays(live, 0.5);
    hc_live_close(live);
}

static hc_live *live_opened; /* playing the first mask */

/* A mask that fits into the engine, then one that needs a new engine. */
static void fault_in_hc_live_work(const char *backend)
{
    static const int blocks[] = {0, 2 * BLOCK};
    for (int i = 0; i < 2; i++) {
        hc_live_change change = {.size = sizeof change, .mask = live_mask(1), .block = blocks[i]};
        check(hc_live_request(live_opened, &change) == HC_OK, "a request was refused");
        faults_on();
        bool good = succeeded(hc_live_work(live_opened));
        live_plays(live_opened, good ? 0.75 : 0.5);
        live_changes(live_opened, live_mask(0), BLOCK);
        live_plays(live_opened, 0.5);
    }
}

static void live_survives_faults(const char *backend)
{
    each_fault(fault_in_hc_live_open, backend);
    check(live_open(backend, &live_opened) == HC_OK, "%s", why);
    live_changes(live_opened, live_mask(0), 0);
    live_plays(live_opened, 0.5);
    each_fault(fault_in_hc_live_work, backend);
    hc_live_close(live_opened);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* All tensors are the constant 1, so each output is the number of products in its sum. */
static void fault_in_hc_tensor_plan(const char *backend)
{
    static const int sizes[] = {20, 3000, FRAMES}; /* direct; one partition; several */
    static float ones[4 * 2 * FRAMES], sums[4 * 2 * FRAMES];
    for (int i = 0; i < 3 * 3; i++) {
        int op = i % 3, n = sizes[i / 3];
        hc_tensors t = {.size = sizeof t,
                        .backend = backend,
                        .mode = HC_CAUSAL,
                        .n_threads = 2,
                        .n_batch = 4,
                        .n_channels = 2,
                        .n_frames = FRAMES,
                        .n_taps = n};
        int rows = op == HC_GRADIENT_H ? 1 : 8, frames = op == HC_GRADIENT_H ? n : FRAMES;
        int peak = op == HC_GRADIENT_H ? 8 * FRAMES : n;
        for (int k = 0; k < 4 * 2 * FRAMES; k++) ones[k] = 1;
        for (int again = 0; again < 2; again++) {
            if (!again) faults_on();
            hc_tensor_plan *plan;
            size_t bytes;
            int code = hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why);
            hc_tensor_data data = {.size = sizeof data, .a = ones, .b = ones, .out = sums};
            if (code == HC_OK) code = hc_tensor_plan_run(plan, &data, why, sizeof why);
            hc_tensor_plan_close(plan);
            bool good = again ? code == HC_OK : succeeded(code);
            check(good || !again, "no sums after a fault, %s", at());
            for (int k = 0; good && k < rows * frames; k++) {
                int at_frame = k % frames, left = op == HC_CONVOLVE ? at_frame + 1 : FRAMES - at_frame;
                int want = op == HC_GRADIENT_H ? 8 * left : left < n ? left : n;
                check(fabs((double)sums[k] - want) <= 1e-6 * peak, "frame %d: %g, want %d, %s", k, (double)sums[k],
                      want, at());
            }
        }
    }
}

static void tensors_on_the_cpu_survive_faults(const char *backend)
{
    each_fault(fault_in_hc_tensor_plan, "cpu");
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void engine_on_the_cpu_survives_faults(const char *backend)
{
    engine_survives_faults("cpu");
}
static void engine_on_hybrid_survives_faults(const char *backend)
{
    engine_survives_faults("hybrid:cpu");
}
static void sources_on_the_cpu_survive_faults(const char *backend)
{
    sources_survive_faults("cpu");
}
static void sources_on_hybrid_survive_faults(const char *backend)
{
    sources_survive_faults("hybrid:cpu");
}
static void live_on_the_cpu_survives_faults(const char *backend)
{
    live_survives_faults("cpu");
}
static void live_on_hybrid_survives_faults(const char *backend)
{
    live_survives_faults("hybrid:cpu");
}

static void live_sources_survive_faults(const char *backend)
{
    n_live_sources = 1;
    live_survives_faults("cpu");
    n_live_sources = 0;
}

/* Writes a bank of two entries, which are alike, and a configuration whose only source plays it. */
static bool write_scene(int i)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%d.txt", folder, i);
    FILE *taps = fopen(path, "w");
    snprintf(path, sizeof path, "%s/%d.csv", folder, i);
    FILE *bank = fopen(path, "w");
    snprintf(scenes[i], sizeof scenes[i], "%s/scene%d.conf", folder, i);
    FILE *scene = fopen(scenes[i], "w");
    if (!taps || !bank || !scene) return false;
    double half = i ? 0.375 : 0.25;
    fprintf(taps, "%g %g\n0 0\n%g %g\n", half, half, half, half);
    fprintf(bank, "azimuth,elevation,distance,file\n0,0,1,%d.txt\n90,0,1,%d.txt\n", i, i);
    fprintf(scene, "/convolver/new 2 2 256 %d\n/bank/read %d.csv\n/source/new 1 1 0 0\n", TAPS, i);
    bool closed[] = {fclose(taps) == 0, fclose(bank) == 0, fclose(scene) == 0};
    return closed[0] && closed[1] && closed[2];
}

int main(void)
{
    static const struct test tests[] = {
        TEST(engine_on_the_cpu_survives_faults, false), TEST(engine_on_hybrid_survives_faults, false),
        TEST(sources_on_the_cpu_survive_faults, false), TEST(sources_on_hybrid_survive_faults, false),
        TEST(live_on_the_cpu_survives_faults, false),   TEST(live_on_hybrid_survives_faults, false),
        TEST(live_sources_survive_faults, false),       TEST(tensors_on_the_cpu_survive_faults, false),
    };
    if (!mkdtemp(folder)) return 1;
    for (int i = 0; i < BLOCK; i++) x[i] = 1;
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.conf", folder, i);
        FILE *file = fopen(paths[i], "w");
        double gain = i ? 0.375 : 0.25;
        if (!file) return 1;
        fprintf(file, "/convolver/new 2 2 256 %d\n", TAPS);
        for (int k = 0; k < 4; k++)
            fprintf(file, "/impulse/dirac %d %d %g %d\n", k / 2 + 1, k / 2 + 1, gain, k % 2 ? TAPS - 1 : 0);
        if (fclose(file) != 0 || !write_scene(i)) return 1;
    }
    int status = check_main("faults_test", tests, sizeof tests / sizeof *tests);
    snprintf(why, sizeof why, "rm -rf '%s'", folder);
    if (system(why) != 0) return 1;
    return status;
}
