/* Wrong arguments are refused with a line that names the fault and its place; NaN and Inf never reach the output. */
#include "dsp/backends/backends.h"
#include "dsp/bench.h"
#include "haloconv_files.h"
#include "player.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line, not empty, and with `word` in it. */
static void says(const char *why, const char *word, const char *what)
{
    check(why[0] != 0 && !strchr(why, '\n'), "%s: the text is '%s', want one line", what, why);
    check(strstr(why, word), "%s: the text is '%s', want '%s' in it", what, why, word);
}

static void refuses_config(const char *backend, hc_config c, const char *word)
{
    char why[256] = "";
    hc_engine *e = NULL;
    if (!c.backend || strcmp(c.backend, "auto") == 0) c.backend = backend;
    int code = hc_open(&c, &e, why, sizeof why);
    hc_close(code == HC_OK ? e : NULL);
    check(code == HC_EINVAL, "%s: hc_open gave %d (%s), want HC_EINVAL", word, code, why);
    says(why, word, "hc_open");
}

static void bad_configs_are_refused(const char *backend)
{
    hc_config good;
    hc_config_init(&good);
#define REFUSES(field, value, word)                                                                                    \
    do {                                                                                                               \
        hc_config c = good;                                                                                            \
        c.field = value;                                                                                               \
        refuses_config(backend, c, word);                                                                              \
    } while (0)
    REFUSES(n_in, -1, "n_in is -1");
    REFUSES(n_in, 65537, "n_in is 65537");
    REFUSES(n_out, -1, "n_out is -1");
    REFUSES(n_out, 65537, "n_out is 65537");
    REFUSES(block, -2, "block");
    REFUSES(block, (1 << 20) + 1, "block");
    REFUSES(max_taps, -5, "max_taps");
    REFUSES(max_taps, (1 << 28) + 1, "max_taps");
    REFUSES(n_routes, -1, "n_routes");
    REFUSES(wait_us, -3, "wait_us");
    REFUSES(fade_frames, -2, "fade_frames");
    REFUSES(n_threads, -1, "n_threads");
    REFUSES(in_samples, HC_BIG_ENDIAN, "in_samples");
    REFUSES(out_samples, 5, "out_samples");
    REFUSES(queue_depth, 17, "queue_depth");
    REFUSES(rate, -48000, "rate");
    REFUSES(method, "magic", "magic");
    REFUSES(backend, "tpu", "tpu");
    REFUSES(backend, "hybrid:", "hybrid:");
    REFUSES(backend, "hybrid:tpu", "hybrid:tpu");
#undef REFUSES
    good.backend = "hybrid:cpu";
    good.block = HC_BLOCK_FILES;
    refuses_config(backend, good, "live");
    char why[256] = "";
    hc_costs costs;
    int code = hc_measure("hybrid:cpu", &costs, why, sizeof why);
    check(code == HC_EINVAL, "hc_measure(hybrid:cpu) gave %d (%s), want HC_EINVAL", code, why);
    says(why, "cpu", "hc_measure");
}

static void defaults_are_those_of_the_header(const char *backend)
{
    hc_config c;
    memset(&c, 0xa5, sizeof c);
    hc_config_init(&c);
    check(c.rate == 48000 && c.block == 64 && c.n_in == 2 && c.n_out == 2 && c.max_taps == 48000 && c.wait_us == 0 &&
              c.fade_frames == 512 && c.n_frames == 0 && strcmp(c.backend, "auto") == 0 &&
              strcmp(c.method, "auto") == 0,
          "rate %d block %d %d x %d taps %d wait %d fade %d", c.rate, c.block, c.n_in, c.n_out, c.max_taps, c.wait_us,
          c.fade_frames);
}

/* Is the GPU module there? A build with CUDA has it. */
static bool has_module(void)
{
    char why[512] = "";
    bool has = backend_gpu(REASON(why, sizeof why)) != NULL;
#ifdef HC_WITH_CUDA
    check(has, "%s", why);
#endif
    return has;
}

static void missing_device_is_said(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    static const char *const names[] = {"cuda:63", "hybrid:63"}; /* no machine has that many */
    char why[256] = "";
    for (int i = 0; i < 2; i++) {
        hc_engine *e = NULL;
        c.backend = names[i];
        int code = hc_open(&c, &e, why, sizeof why);
        const int want = has_module() ? HC_EDEVICE : HC_EUNSUPPORTED;
        check(code == want, "hc_open(%s): %d (%s), want %d", names[i], code, why, want);
        says(why, "CPU", "the remedy");
    }
    hc_engine *e = NULL;
    c.backend = "auto";
    int code = hc_open(&c, &e, why, sizeof why);
    check(code == HC_OK, "auto must open on any machine: %d, %s", code, why);
    hc_close(e);
    hc_close(NULL);
}

static void opening_says(const char *name, const char *want)
{
    hc_config c;
    hc_engine *e = NULL;
    char why[512] = "";
    hc_config_init(&c);
    c.backend = name;
    int code = hc_open(&c, &e, why, sizeof why);
    check(code != HC_OK && strncmp(why, want, strlen(want)) == 0, "hc_open(%s): %d, \"%s\", want \"%s\"", name, code,
          why, want);
}

/* A machine without a GPU is no broken one. */
static void no_gpu_is_one_sentence(const char *backend)
{
#ifdef CUDA_ON_CPU
    static const struct {
        const char *devices, *driver, *text;
    } machines[] = {
        {"0", "0", "the NVIDIA driver, which GPUs need, is missing; install it, or use the CPU"},
        {"0", "13000", "no NVIDIA GPU was found (nvidia-smi -L lists them); use the CPU"},
        {"1", "12040", "the NVIDIA driver is for CUDA 12.4, but this program needs 13.0; update it, or use the CPU"},
    };
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        setenv("CUDA_ON_CPU_DEVICES", machines[i].devices, 1);
        setenv("CUDA_ON_CPU_DRIVER", machines[i].driver, 1);
        opening_says("cuda", machines[i].text);
        opening_says("hybrid", machines[i].text);
    }
    unsetenv("CUDA_ON_CPU_DEVICES");
    unsetenv("CUDA_ON_CPU_DRIVER");
#else
    if (has_module()) check_skip("the machine may have a GPU");
    opening_says("cuda",
                 "backend cuda: the GPU module libhaloconv_cuda.so is missing; install haloconv-cuda (from source: "
                 "make, with nvcc), or use the CPU; haloconv looked beside /");
    opening_says("hybrid:1", "backend hybrid:1: the GPU module libhaloconv_cuda.so is missing; install haloconv-cuda");
#endif
}

static void devices_are_listed(const char *backend)
{
    char text[256];
    int n = 0, code;
    for (; (code = hc_list_devices(n, text, sizeof text)) == HC_OK; n++) {
        char *tab = strchr(text, '\t');
        check(tab && tab != text && tab[1], "device %d is '%s', want NAME, tab, description", n, text);
        *tab = 0;
        hc_config c;
        hc_config_init(&c);
        c.backend = text;
        char why[256] = "";
        hc_engine *e = NULL;
        code = hc_open(&c, &e, why, sizeof why);
        check(code == HC_OK, "the listed device '%s' does not open: %s", text, why);
        hc_close(e);
        check(n < 100, "the list has no end");
    }
    check(code == HC_EINVAL, "past the end: %d, want HC_EINVAL", code);
    check(hc_list_devices(-1, text, sizeof text) == HC_EINVAL, "device -1 exists");
}

static const float *good_taps(void)
{
    static float taps[300];
    for (int i = 0; i < 300; i++) taps[i] = 0.5f;
    return taps;
}

static void refuses_route(hc_engine *e, hc_route bad, const char *word)
{
    char why[256] = "";
    hc_route routes[] = {{0, 0, good_taps(), 300, 1, 0}, bad};
    hc_mask *mask = NULL;
    int code = hc_mask_make(e, routes, sizeof *routes, 2, &mask, why, sizeof why);
    check(code == HC_EINVAL, "%s: hc_mask_make gave %d (%s), want HC_EINVAL", word, code, why);
    says(why, word, "hc_mask_make");
    code = hc_mask_make(e, routes, sizeof *routes, 2, &mask, NULL, 0); /* the text is optional */
    check(code == HC_EINVAL, "%s, no text: %d", word, code);
}

static void bad_masks_are_refused(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.max_taps = 300;
    c.n_in = 2;
    c.n_out = 3;
    struct player p;
    player_open(&p, &c, backend, 1000, 1);
    const float *h = good_taps();
    refuses_route(p.engine, (hc_route){2, 0, h, 300, 1, 0}, "routes[1].in is 2"); /* no such input */
    refuses_route(p.engine, (hc_route){-1, 0, h, 300, 1, 0}, "-1");
    refuses_route(p.engine, (hc_route){0, 3, h, 300, 1, 0}, "routes[1].out is 3"); /* no such output */
    refuses_route(p.engine, (hc_route){0, -2, h, 300, 1, 0}, "-2");
    refuses_route(p.engine, (hc_route){0, 0, h, 0, 1, 0}, "taps"); /* 0 taps */
    refuses_route(p.engine, (hc_route){0, 0, h, -7, 1, 0}, "taps");
    refuses_route(p.engine, (hc_route){0, 0, NULL, 10, 1, 0}, "taps");
    refuses_route(p.engine, (hc_route){0, 0, h, 300, 1, -1}, "delay");
    refuses_route(p.engine, (hc_route){0, 0, h, 300, 1, 1}, "max_taps"); /* longer than max_taps by one */
    refuses_route(p.engine, (hc_route){0, 0, h, 1, 1, 300}, "max_taps");
    refuses_route(p.engine, (hc_route){0, 0, h, 1, 1, INT_MAX}, "max_taps");
    refuses_route(p.engine, (hc_route){0, 0, h, INT_MAX, 1, INT_MAX}, "max_taps");
    refuses_route(p.engine, (hc_route){0, 0, h, 300, NAN, 0}, "gain");
    refuses_route(p.engine, (hc_route){0, 0, h, 300, INFINITY, 0}, "gain");
    hc_mask *mask = NULL;
    hc_route fits = {0, 0, h, 299, 1, 1};
    char why[256] = "";
    check(hc_mask_make(p.engine, &fits, sizeof fits, 1, &mask, why, sizeof why) == HC_OK,
          "max_taps itself must fit: %s", why);
    check(hc_mask_make(p.engine, &fits, sizeof fits + 8, 1, &mask, why, sizeof why) == HC_EINVAL &&
              strstr(why, "route_size"),
          "%s", why);
    check(hc_mask_make(p.engine, &fits, sizeof fits, -1, &mask, why, sizeof why) == HC_EINVAL, "-1 routes");
    check(hc_mask_make(p.engine, NULL, sizeof(hc_route), 1, &mask, why, sizeof why) == HC_EINVAL,
          "NULL for the routes");
    player_close(&p);
}

static void nan_in_a_mask_is_refused_with_its_index(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.max_taps = 300;
    struct player p;
    player_open(&p, &c, backend, 1000, 2);
    static const int at[] = {0, 1, 137, 299};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++)
        for (int b = 0; b < 3; b++) {
            float taps[300];
            char index[32];
            memcpy(taps, good_taps(), sizeof taps);
            taps[at[i]] = bad[b];
            snprintf(index, sizeof index, "2: tap %d is", at[i]);
            refuses_route(p.engine, (hc_route){1, 1, taps, 300, 1, 0}, index);
        }
    player_close(&p);
}

/* Silence times infinity is NaN. */
static void routes_that_add_up_to_infinity_are_refused(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.max_taps = 300;
    struct player p;
    player_open(&p, &c, backend, 1000, 5);
    static const float huge[] = {0, 0, 3e38f}, minus[] = {-3e38f};
    static const hc_route cases[][3] = {{{0, 1, huge, 3, 1, 0}, {0, 1, huge, 3, 1, 0}},
                                        {{0, 1, huge, 3, 0.5f, 5}, {0, 1, huge, 3, 0.5f, 5}, {0, 1, huge, 3, 1, 5}},
                                        {{0, 1, huge, 3, -1, 40}, {1, 0, huge, 3, 1, 0}, {0, 1, minus, 1, 1, 42}}};
    static const char *const index[] = {"tap 2;", "tap 7;", "tap 42;"};
    for (int i = 0; i < 3; i++) {
        char why[256] = "";
        hc_mask *mask = NULL;
        int code = hc_mask_make(p.engine, cases[i], sizeof *cases[i], i == 0 ? 2 : 3, &mask, why, sizeof why);
        check(code == HC_EINVAL && !mask, "case %d: %d (%s), want HC_EINVAL", i, code, why);
        says(why, index[i], "the sum");
        says(why, "input 1 to output 2", "the sum");
    }
    const hc_route fits[] = {{0, 1, huge, 3, 1, 0}, {0, 0, huge, 3, 1, 0}, {0, 1, minus, 1, 1, 2}};
    player_swap(&p, player_scene(&p, fits, 3));
    player_close(&p);
}

/* An error text is cut to the buffer of the caller and ends with 0; nothing is written behind it. */
static void error_texts_fit_their_buffer(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.backend = backend;
    c.n_in = -1;
    for (size_t cap = 0; cap < 24; cap++) {
        char why[32];
        memset(why, '#', sizeof why);
        hc_engine *e = NULL;
        check(hc_open(&c, &e, why, cap) == HC_EINVAL, "cap %zu", cap);
        for (size_t i = cap; i < sizeof why; i++) check(why[i] == '#', "cap %zu: byte %zu was written", cap, i);
        if (cap) check(memchr(why, 0, cap), "cap %zu: the text has no end", cap);
    }
}

static void bad_frame_counts_leave_the_output_alone(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    c.block = 64;
    c.max_taps = 300;
    struct player p;
    player_open(&p, &c, backend, 1000, 3);
    hc_route h = {0, 0, good_taps(), 300, 1, 0};
    player_swap(&p, player_scene(&p, &h, 1));
    player_run(&p, 64);
    static const int counts[] = {-1, INT_MIN, 65, INT_MAX};
    for (int i = 0; i < 4; i++) {
        float buffer[2][70];
        for (int j = 0; j < 70; j++) buffer[0][j] = buffer[1][j] = 0.25f;
        const float *in[] = {p.in[0], p.in[1]};
        float *out[] = {buffer[0], buffer[1]};
        int code = hc_process(p.engine, in, out, counts[i]);
        check(code == HC_EINVAL, "n_frames %d: %d, want HC_EINVAL", counts[i], code);
        for (int j = 0; j < 70; j++)
            check(buffer[0][j] == 0.25f && buffer[1][j] == 0.25f, "n_frames %d: frame %d was written", counts[i], j);
    }
    player_run_all(&p); /* and the stream goes on as if nothing had been asked */
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    hc_get_info(p.engine, &p.info);
    check(p.info.frames == 1000, "%llu frames counted", (unsigned long long)p.info.frames);
    player_close(&p);
}

static void nan_in_the_input_counts_as_zero(const char *backend)
{
    static const char *methods[] = {"direct", "fft"};
    for (int m = 0; m < 2; m++) {
        hc_config c;
        hc_config_init(&c);
        c.block = 100;
        c.max_taps = 300;
        c.method = methods[m];
        struct player p;
        player_open(&p, &c, backend, 2000, 4);
        struct random r = random_seeded(5);
        float *taps = noise(&r, 300), *dirty[2];
        hc_route h[] = {{0, 0, taps, 300, 1, 0}, {1, 1, taps, 300, 1, 0}};
        player_swap(&p, player_scene(&p, h, 2));
        static const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
        uint64_t n_bad = 0;
        for (int ch = 0; ch < 2; ch++) { /* the copy in the player has 0 there, and so must the output */
            dirty[ch] = must_alloc(2000, sizeof(float));
            memcpy(dirty[ch], p.in[ch], 2000 * sizeof(float));
            for (int i = 0; i < 2000; i += random_int(&r, 1, 60)) {
                dirty[ch][i] = bad[random_int(&r, 0, 3)];
                p.in[ch][i] = 0;
                n_bad++;
            }
        }
        for (int at = 0; at < 2000;) {
            int n = random_int(&r, 1, 100);
            if (n > 2000 - at) n = 2000 - at;
            const float *in[] = {dirty[0] + at, dirty[1] + at};
            float *out[] = {p.out[0] + at, p.out[1] + at};
            int code = hc_process(p.engine, in, out, n);
            check(code == HC_OK, "hc_process: %d", code);
            at += n;
        }
        p.n_frames = 2000;
        p.changes[p.n_changes++] = (struct change){0, 0, p.waiting};
        player_check(&p, 0, 2000, PEAK_SHARE);
        hc_get_info(p.engine, &p.info);
        check(p.info.non_finite == n_bad, "counted %llu, want %llu", (unsigned long long)p.info.non_finite,
              (unsigned long long)n_bad);
        player_close(&p);
        free(taps);
        free(dirty[0]);
        free(dirty[1]);
    }
}

/* Denormal, tiny and huge samples are convolved like any others. */
static void extreme_samples_pass(const char *backend)
{
    static const char *methods[] = {"direct", "fft"};
    static const float scales[] = {1e-40f, 1e-30f, 1e30f};
    struct random r = random_seeded(6);
    float *taps = noise(&r, 300);
    for (int m = 0; m < 2; m++)
        for (int s = 0; s < 3; s++) {
            hc_config c;
            hc_config_init(&c);
            c.max_taps = 300;
            c.method = methods[m];
            struct player p;
            player_open(&p, &c, backend, 1000, 7);
            for (int ch = 0; ch < 2; ch++)
                for (int i = 0; i < 1000; i++) p.in[ch][i] *= scales[s];
            hc_route h[] = {{0, 0, taps, 300, 1, 0}, {1, 1, taps, 300, 1, 0}};
            player_swap(&p, player_scene(&p, h, 2));
            player_run_all(&p);
            if (scales[s] > 1e-35f) player_check(&p, 0, 1000, PEAK_SHARE);
            for (int i = 0; i < 1000; i++)
                check(isfinite(p.out[0][i]) && fabs((double)p.out[0][i]) <= 300 * (double)scales[s],
                      "%s %s, scale %g, frame %d: %g", backend, methods[m], (double)scales[s], i, (double)p.out[0][i]);
            player_close(&p);
        }
    free(taps);
}

/* ---- huge samples ------------------------------------------------------------------------------------------------ */

enum { HUGE_AT = 1500, HUGE_LENGTH = 500, HUGE_OUT = 3 };

struct burst {
    const char *method;
    int block, max_taps, n_frames;
    float taps;      /* size of the taps */
    bool swaps;      /* to another mask, in the burst */
    float values[2]; /* the burst alternates between them; 0: what it must count as */
};

/* Plays noise through two routes of their own (0 to 0, 1 to 1) and two that add up in output 2, with a burst in input 0.
 * Returns the outputs, one after the other: the caller frees them. */
static float *play_burst(const char *backend, const struct burst *b, hc_info *info)
{
    hc_config c = player_config(b->method, b->block, b->max_taps, 2, HUGE_OUT);
    struct player p;
    const int n_frames = b->n_frames;
    struct random r = random_seeded(11);
    float *taps[2] = {noise(&r, b->max_taps), noise(&r, b->max_taps)};
    float *all = must_alloc(HUGE_OUT * (size_t)n_frames, sizeof *all);
    for (int k = 0; k < b->max_taps; k++)
        for (int m = 0; m < 2; m++) taps[m][k] *= b->taps;
    c.n_routes = 4;
    c.fade_frames = 500;
    player_open(&p, &c, b->block ? backend : backend_for_files(backend), n_frames, 12);
    hc_route h[2][4];
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 4; i++)
            h[m][i] = (hc_route){i / 2, i % 2 ? 2 : i / 2, taps[(m + i) % 2], b->max_taps, 1, 0};
    for (int i = 0; i < HUGE_LENGTH; i++) p.in[0][HUGE_AT + i] = b->values[i % 2];
    struct scene scenes[2] = {player_scene(&p, h[0], 4), player_scene(&p, h[1], 4)};
    player_swap(&p, scenes[0]);
    int step = p.info.block < 4096 ? p.info.block : 4096;
    while (p.n_frames < n_frames) {
        bool was_before = p.n_frames < HUGE_AT + 100;
        player_run_up_to(&p, step, n_frames);
        if (b->swaps && was_before && p.n_frames >= HUGE_AT + 100) player_swap(&p, scenes[1]);
    }
    for (int o = 0; o < HUGE_OUT; o++)
        memcpy(all + (size_t)o * (size_t)n_frames, p.out[o], (size_t)n_frames * sizeof *all);
    *info = (hc_info){.size = sizeof *info};
    hc_get_info(p.engine, info);
    player_close(&p);
    free(taps[0]);
    free(taps[1]);
    return all;
}

/* The output is finite. Input 1 alone plays as without the burst, bit for bit. When the burst has left the mask, the
 * rest is within -120 dB of the output of the same input with zeros in the burst; exactly so from the start, where the
 * burst is counted as zeros. */
static void check_burst(const char *backend, const struct burst *b)
{
    struct burst silent = *b;
    silent.values[0] = silent.values[1] = 0;
    hc_info info, none;
    float *got = play_burst(backend, b, &info), *want = play_burst(backend, &silent, &none), peak = 0;
    int n_frames = b->n_frames, longest = info.partition;
    for (int l = 0; l < info.n_levels; l++)
        if (info.levels[l].size > longest) longest = info.levels[l].size;
    int back = HUGE_AT + HUGE_LENGTH + b->max_taps + 2 * longest;
    bool counts_as_zero = b->block > 0 && fabsf(b->values[0]) > 0x1p100f;
    check(back < n_frames - 500, "the burst ends at %d", back);
    check(info.non_finite == (counts_as_zero ? HUGE_LENGTH : 0), "%s: %llu counted", b->method,
          (unsigned long long)info.non_finite);
    double largest = counts_as_zero ? 0 : (double)fabsf(b->values[0]) * (double)b->taps;
    bool overflows = largest > 1e38, may_overflow = largest > 1e31;
    check(!overflows || info.overflowed > 0, "%s, %g: nothing has overflowed", b->method, (double)b->values[0]);
    check(may_overflow || info.overflowed == 0, "%s, %g: %llu overflowed", b->method, (double)b->values[0],
          (unsigned long long)info.overflowed);
    check(none.overflowed == 0 && none.non_finite == 0, "noise overflows");
    for (int i = back; i < n_frames; i++) peak = fmaxf(peak, fabsf(want[i]));
    for (int o = 0; o < HUGE_OUT; o++)
        for (int i = 0; i < n_frames; i++) {
            float y = got[o * n_frames + i], x = want[o * n_frames + i];
            check(isfinite(y), "%s, %d taps of %g, %g: output %d, frame %d is %g", b->method, b->max_taps,
                  (double)b->taps, (double)b->values[0], o, i, (double)y);
            bool same = o == 1 || counts_as_zero || i < HUGE_AT - info.block;
            double limit = same ? 0 : i >= back ? PEAK_SHARE * (double)peak : INFINITY;
            check(fabs((double)y - (double)x) <= limit, "%s, %d taps of %g, %g: output %d, frame %d is %g, want %g",
                  b->method, b->max_taps, (double)b->taps, (double)b->values[0], o, i, (double)y, (double)x);
        }
    free(got);
    free(want);
}

/* Finite samples that overflow in a transform, a product or a sum: as when raw bytes are played as floats. */
static void huge_samples_leave_no_nan(const char *backend)
{
    static const float values[][2] = {{1e38f, -1e38f}, {FLT_MAX, 1e38f}, {-FLT_MAX, -1.3e30f}, {1e30f, -1e30f}};
    for (int v = 0; v < 4; v++)
        for (int large = 0; large < 2; large++) {
            struct burst b = {.method = "direct", .block = 64, .max_taps = 300, .n_frames = 4000, .swaps = !large};
            memcpy(b.values, values[v], sizeof b.values);
            b.taps = large ? 1e20f : 0.1f;
            check_burst(backend, &b);
            b.method = "fft";
            check_burst(backend, &b);
            b.max_taps = 4000; /* with tail levels */
            b.n_frames = 11000;
            check_burst(backend, &b);
        }
}

/* An engine for files keeps all finite samples, because a program refuses a file that overflows. */
static void huge_samples_of_files_leave_no_nan(const char *backend)
{
    static const float values[][2] = {{1e38f, -1e38f}, {FLT_MAX, FLT_MAX}};
    for (int v = 0; v < 2; v++) {
        struct burst b = {.method = "auto", .block = 0, .max_taps = 6000, .n_frames = 200000, .taps = 1};
        memcpy(b.values, values[v], sizeof b.values);
        check_burst(backend, &b);
    }
}

static void empty_mask_is_silence(const char *backend)
{
    hc_config c;
    hc_config_init(&c);
    struct player p;
    player_open(&p, &c, backend, 500, 8);
    player_swap(&p, player_scene(&p, NULL, 0));
    player_run_all(&p);
    for (int i = 0; i < 500; i++) check(p.out[0][i] == 0 && p.out[1][i] == 0, "frame %d", i);
    player_close(&p);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(defaults_are_those_of_the_header, false),
        TEST(bad_configs_are_refused, true),
        TEST(missing_device_is_said, false),
        TEST(no_gpu_is_one_sentence, false),
        TEST(devices_are_listed, false),
        TEST(bad_masks_are_refused, true),
        TEST(routes_that_add_up_to_infinity_are_refused, 1),
        TEST(nan_in_a_mask_is_refused_with_its_index, true),
        TEST(error_texts_fit_their_buffer, true),
        TEST(bad_frame_counts_leave_the_output_alone, true),
        TEST(nan_in_the_input_counts_as_zero, true),
        TEST(extreme_samples_pass, true),
        TEST(huge_samples_leave_no_nan, true),
        TEST(huge_samples_of_files_leave_no_nan, ONCE_A_DEVICE),
        TEST(empty_mask_is_silence, true),
    };
    return check_main("refusals", tests, sizeof tests / sizeof *tests);
}
