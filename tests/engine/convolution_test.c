/* The output is the linear convolution: every method, size, block, channel layout and sequence of calls. */
#include "dsp/bench.h"
#include "dsp/device/noise.h"
#include "player.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static hc_route route(int in, int out, const float *taps, int n_taps)
{
    return (hc_route){.in = in, .out = out, .taps = taps, .n_taps = n_taps, .gain = 1, .delay = 0};
}

/* One mono response of n_taps through `frames` frames, checked. */
static void plays_right(const char *backend, const char *method, int block, int n_taps, int frames, uint64_t seed)
{
    struct random r = random_seeded(seed);
    float *taps = noise(&r, n_taps);
    hc_config c = player_config(method, block, n_taps, 1, 1);
    hc_route h = route(0, 0, taps, n_taps);
    struct player p;
    player_open(&p, &c, backend, frames, seed);
    player_swap(&p, player_scene(&p, &h, 1));
    player_run_all(&p);
    player_check(&p, 0, frames, PEAK_SHARE);
    player_close(&p);
    free(taps);
}

static void sizes(const char *backend, const char *method, const int *taps, int n_taps, const int *blocks, int n_blocks)
{
    for (int t = 0; t < n_taps; t++)
        for (int b = 0; b < n_blocks; b++) {
            int block = blocks[b] ? blocks[b] : 1024;
            if (!blocks[b] && backend_for_files(backend) != backend) continue;
            int frames = taps[t] + 3 * block + 77; /* past the end of the response, and not a whole block */
            if (block < 16 && frames > 3000) frames = 3000;
            if (SANITIZED && frames > 4000) frames = 4000;
            plays_right(backend, method, blocks[b], taps[t], frames, (uint64_t)(taps[t] * 10007 + blocks[b]));
        }
}

#define SIZES(backend, method, taps, blocks)                                                                           \
    sizes(backend, method, taps, sizeof(taps) / sizeof *(taps), blocks, sizeof(blocks) / sizeof *(blocks))

static const int edge_taps[] = {1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000};
static const int edge_blocks[] = {1, 2, 16, 63, 64, 65, 128, 480, 512, 1000, 1024, 4096, 0};
static const int few_blocks[] = {1, 64, 129, 512, 1000, 0};
static const int long_taps[] = {4095, 4096, 4097, 10007};

static void direct_matches_reference(const char *backend)
{
    SIZES(backend, "direct", edge_taps, edge_blocks);
}
static void fft_matches_reference(const char *backend)
{
    SIZES(backend, "fft", edge_taps, edge_blocks);
}
static void auto_matches_reference(const char *backend)
{
    SIZES(backend, "auto", edge_taps, few_blocks);
}

static void long_responses_match_reference(const char *backend)
{
    static const int huge_taps[] = {48000, 144000}, huge_blocks[] = {64, 1000, 0};
    SIZES(backend, "direct", long_taps, few_blocks);
    SIZES(backend, "fft", long_taps, few_blocks);
    SIZES(backend, "auto", huge_taps, huge_blocks);
    if (!SANITIZED) {
        plays_right(backend, "direct", 1024, 48000, 100003, 11);
        plays_right(backend, "fft", 64, 144000, 146000, 12);
        plays_right(backend, "fft", 4096, 144000, 160000, 13);
    }
}

/* Compares every frame of a live engine with the engine for files, which has no tail levels and is checked above, and
 * some frames with the definition. calls: their sizes in turn, ended by 0; NULL: whole blocks. */
static void live_equals_files(const char *backend, int block, int n_taps, int n_channels, int frames, const int *calls)
{
    struct random r = random_seeded((uint64_t)(block + n_taps));
    hc_route routes[64];
    float *taps[64];
    for (int i = 0; i < n_channels * n_channels; i++) {
        taps[i] = noise(&r, n_taps);
        routes[i] = route(i / n_channels, i % n_channels, taps[i], i % 3 == 2 ? n_taps / 3 + 1 : n_taps);
        routes[i].delay = i % 3 == 2 ? n_taps / 2 : 0; /* one that begins in a tail level */
    }
    struct player live, files;
    hc_config c = player_config("auto", block, n_taps, n_channels, n_channels);
    c.n_routes = n_channels * n_channels;
    player_open(&live, &c, backend, frames, 201);
    player_swap(&live, player_scene(&live, routes, n_channels * n_channels));
    for (int i = 0; live.n_frames < frames; i++) {
        player_run_up_to(&live, !calls ? block : calls[i] > 0 ? calls[i] : calls[i = 0], frames);
    }
    c.block = HC_BLOCK_FILES;
    player_open(&files, &c, backend_for_files(backend), frames, 201);
    player_swap(&files, player_scene(&files, routes, n_channels * n_channels));
    player_run_all(&files);
    for (int ch = 0; ch < n_channels; ch++) {
        double peak = 0;
        for (int i = 0; i < frames; i++) peak = fmax(peak, fabs((double)files.out[ch][i]));
        for (int i = 0; i < frames; i++)
            check(fabs((double)live.out[ch][i] - (double)files.out[ch][i]) <= PEAK_SHARE * peak,
                  "%s, block %d, %d taps: channel %d, frame %d: got %.9g, as a file %.9g, peak %g", backend, block,
                  n_taps, ch, i, (double)live.out[ch][i], (double)files.out[ch][i], peak);
    }
    player_check(&live, 0, frames, PEAK_SHARE);
    player_close(&live);
    player_close(&files);
    for (int i = 0; i < n_channels * n_channels; i++) free(taps[i]);
}

static void tail_levels_match_at_every_block(const char *backend)
{
    static const int blocks[] = {1, 3, 16, 63, 64, 65, 100, 128, 256, 480, 1000, 1024, 4096, 8192};
    for (int i = 0; i < 14; i++) live_equals_files(backend, blocks[i], 30011, 1, SANITIZED ? 9000 : 70000, NULL);
    for (int taps = 400; taps < 40000; taps = taps * 5 / 3 + 1) /* the last level's partitions, full and in part */
        live_equals_files(backend, 64, taps, 2, SANITIZED ? 9000 : 2 * taps + 20000, NULL);
}

static void tail_levels_match_in_any_calls(const char *backend)
{
    static const int odd[] = {1, 63, 64, 65, 128, 17, 0}, primes[] = {2, 3, 5, 7, 11, 101, 0},
                     most[] = {127, 1, 128, 0};
    int frames = SANITIZED ? 9000 : 60000;
    live_equals_files(backend, 128, 20000, 2, frames, odd);
    live_equals_files(backend, 128, 20000, 1, frames, primes);
    live_equals_files(backend, 512, 20000, 1, frames, odd);
    live_equals_files(backend, 200, 20000, 4, frames, most);
}

/* A GPU transforms a whole hop at once for the first partition too, between calls that are shorter than the hop; with
 * partitions behind it and without. */
static void whole_hops_match_between_short_calls(const char *backend)
{
    static const int calls[] = {4096, 4096, 100, 3996, 4096, 17, 4079, 0};
    static const int taps[] = {20000, 3000, 40};
    for (int i = 0; i < 3; i++) live_equals_files(backend, 4096, taps[i], 8, SANITIZED ? 20000 : 40000, calls);
}

/* Tail levels computed by threads, or by the caller alone, give the same frames, bit for bit. The blocks follow one
 * another without a pause, so the threads are always late and the caller does some of their work. */
static void threads_change_no_frame(const char *backend)
{
    if (strcmp(backend, "cpu") != 0) check_skip("of the CPU only");
    enum { CHANNELS = 6, TAPS = 20000 };
    struct random r = random_seeded(211);
    int frames = SANITIZED ? 20000 : 100000;
    hc_route routes[CHANNELS * CHANNELS];
    float *taps[CHANNELS * CHANNELS];
    for (int i = 0; i < CHANNELS * CHANNELS; i++) {
        taps[i] = noise(&r, TAPS);
        routes[i] = route(i / CHANNELS, i % CHANNELS, taps[i], i % 5 ? TAPS : 100);
    }
    for (int odd = 0; odd < 2; odd++) {
        hc_config c = player_config("auto", 64, TAPS, CHANNELS, CHANNELS);
        c.n_routes = CHANNELS * CHANNELS;
        struct player p[2];
        for (int i = 0; i < 2; i++) {
            c.n_threads = i ? 4 : 1;
            player_open(&p[i], &c, backend, frames, 212);
            player_swap(&p[i], player_scene(&p[i], routes, CHANNELS * CHANNELS));
            for (int call = 0; p[i].n_frames < frames; call++)
                player_run_up_to(&p[i], odd ? 1 + call * 37 % 64 : 64, frames);
        }
        for (int ch = 0; ch < CHANNELS; ch++)
            check(memcmp(p[0].out[ch], p[1].out[ch], (size_t)frames * sizeof(float)) == 0,
                  "output %d is another one with 4 threads than with 1", ch);
        player_check(&p[1], 0, frames, PEAK_SHARE);
        player_close(&p[0]);
        player_close(&p[1]);
    }
    for (int i = 0; i < CHANNELS * CHANNELS; i++) free(taps[i]);
}

static void masks_of_half_a_minute_match(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer is slow");
    live_equals_files(backend, 64, 30 * 48000, 1, 32 * 48000, NULL);
    live_equals_files(backend, 1024, 10 * 48000 + 1, 1, 11 * 48000, NULL);
}

/* The constant memory of a GPU holds 16384 taps: lengths on both sides of that, and of twice that. */
static void constant_memory_edges_match_reference(const char *backend)
{
    static const int taps[] = {16383, 16384, 16385, 32768, 32769}, blocks[] = {64, 1024};
    SIZES(backend, "direct", taps, blocks);
}

/* Calls of any sizes give the same stream as calls of one size. */
static void call_sizes_do_not_matter(const char *backend)
{
    static const int cycles[][12] = {{1},
                                     {63},
                                     {64},
                                     {65},
                                     {127, 1},
                                     {1, 63, 64, 65},
                                     {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37},
                                     {64, 0, 1},
                                     {480, 32},
                                     {511, 1, 512},
                                     {256, 256, 255, 257},
                                     {-1 /* random */}};
    static const char *methods[] = {"direct", "fft", "auto"};
    enum { BLOCK = 512, TAPS = 3001, FRAMES = 6007 };
    struct random r = random_seeded(21);
    float *taps = noise(&r, TAPS);
    hc_route h[2] = {route(0, 0, taps, TAPS), route(1, 1, taps, TAPS - 13)};
    for (int m = 0; m < 3; m++) {
        hc_config c = player_config(methods[m], BLOCK, TAPS, 2, 2);
        struct player whole;
        player_open(&whole, &c, backend, FRAMES, 22);
        player_swap(&whole, player_scene(&whole, h, 2));
        player_run_all(&whole);
        player_check(&whole, 0, FRAMES, PEAK_SHARE);
        double peak = 0;
        for (int i = 0; i < FRAMES; i++) peak = fmax(peak, fabs((double)whole.out[0][i]));
        for (size_t s = 0; s < sizeof cycles / sizeof *cycles; s++) {
            struct player p;
            player_open(&p, &c, backend, FRAMES, 22);
            player_swap(&p, player_scene(&p, h, 2));
            int len = 0;
            while (len < 12 && cycles[s][len] != 0) len++;
            if (cycles[s][0] == 64 && cycles[s][1] == 0) len = 3; /* the one with a call of no frames */
            for (int i = 0; p.n_frames < FRAMES; i++) {
                int n = cycles[s][i % len] < 0 ? random_int(&r, 0, BLOCK) : cycles[s][i % len];
                if (SANITIZED && n == 1 && len == 1) n = 5;
                player_run_up_to(&p, n, FRAMES);
            }
            for (int ch = 0; ch < 2; ch++)
                for (int i = 0; i < FRAMES; i++)
                    check(fabs((double)p.out[ch][i] - (double)whole.out[ch][i]) <= PEAK_SHARE * peak,
                          "%s %s, calls of %d, %d...: channel %d, frame %d: got %.9g, in whole blocks %.9g", backend,
                          methods[m], cycles[s][0], cycles[s][1], ch, i, (double)p.out[ch][i],
                          (double)whole.out[ch][i]);
            player_close(&p);
        }
        player_close(&whole);
    }
    free(taps);
}

/* One layout, both methods. */
static void layout(const char *backend, int n_in, int n_out, const hc_route *routes, int n, int max_taps, int frames,
                   uint64_t seed)
{
    static const char *methods[] = {"direct", "fft"};
    for (int m = 0; m < 2; m++) {
        hc_config c = player_config(methods[m], 128, max_taps, n_in, n_out);
        struct player p;
        player_open(&p, &c, backend, frames, seed);
        player_swap(&p, player_scene(&p, routes, n));
        struct random r = random_seeded(seed);
        while (p.n_frames < frames) player_run_up_to(&p, random_int(&r, 1, 128), frames);
        player_check(&p, 0, frames, PEAK_SHARE);
        player_close(&p);
    }
}

static void every_layout_matches_reference(const char *backend)
{
    struct random r = random_seeded(31);
    enum { TAPS = 700 };
    float *h[6];
    for (int i = 0; i < 6; i++) h[i] = noise(&r, TAPS);
    hc_route mono[] = {route(0, 0, h[0], TAPS)};
    layout(backend, 1, 1, mono, 1, TAPS, 2000, 32);
    hc_route diagonal[] = {route(0, 0, h[0], TAPS), route(1, 1, h[1], TAPS - 200)};
    layout(backend, 2, 2, diagonal, 2, TAPS, 2000, 33);
    hc_route true_stereo[] = {route(0, 0, h[0], TAPS), route(0, 1, h[1], TAPS), route(1, 0, h[2], 5),
                              route(1, 1, h[3], TAPS)};
    layout(backend, 2, 2, true_stereo, 4, TAPS, 2000, 34);
    hc_route one_to_four[] = {route(0, 0, h[0], TAPS), route(0, 1, h[1], 1), route(0, 2, h[2], 300),
                              route(0, 3, h[3], TAPS)};
    layout(backend, 1, 4, one_to_four, 4, TAPS, 2000, 35);
    hc_route holes[] = {route(2, 0, h[0], TAPS), route(0, 1, h[1], TAPS), route(2, 1, h[2], 64)};
    layout(backend, 3, 2, holes, 3, TAPS, 2000, 36);
    hc_route shuffled[] = {route(1, 1, h[0], TAPS), route(0, 0, h[1], TAPS), route(1, 0, h[2], TAPS)};
    layout(backend, 2, 3, shuffled, 3, TAPS, 2000, 37); /* not in order; output 2 has no route */
    for (int i = 0; i < 6; i++) free(h[i]);
}

static void routes_on_one_pair_add(const char *backend)
{
    struct random r = random_seeded(41);
    float *a = noise(&r, 300), *b = noise(&r, 90);
    hc_route routes[] = {route(0, 0, a, 300), route(0, 0, b, 90), route(0, 0, a, 300), route(1, 1, b, 90)};
    routes[1].delay = 57;
    routes[2].gain = -0.25f;
    layout(backend, 2, 2, routes, 4, 300, 1500, 42);
    free(a);
    free(b);
}

static void gain_and_delay_are_applied(const char *backend)
{
    struct random r = random_seeded(51);
    float *a = noise(&r, 300);
    for (int delay = 0; delay <= 700; delay += 100) {
        hc_route routes[] = {route(0, 0, a, 300), route(0, 1, a, 300), route(1, 1, a, 300), route(1, 2, a, 300)};
        routes[0].delay = delay;
        routes[1].gain = -1.5f;
        routes[2].gain = 0;
        routes[3].gain = 0.001f;
        routes[3].delay = delay / 2;
        layout(backend, 2, 3, routes, 4, 1000, 2100, (uint64_t)(52 + delay));
    }
    free(a);
}

/* A mask that the engine makes from a seed equals a mask made of the same taps: every device makes the same mask. */
static void noise_mask_is_made_of_its_taps(const char *backend)
{
    enum { TAPS = 3000, RT60 = 2000, IN = 3, OUT = 2 };
    for (int diagonal = 0; diagonal < 2; diagonal++) {
        double envelope[TAPS], energy = 0;
        for (int k = 0; k < TAPS; k++) envelope[k] = pow(10, -3.0 * k / RT60), energy += envelope[k] * envelope[k] / 3;
        struct noise of = {.seed = 0x123456789abcdefu, .diagonal = diagonal, .n_taps = TAPS};
        float *taps = must_alloc(IN * OUT * TAPS, sizeof *taps);
        hc_route routes[IN * OUT];
        int n = 0;
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++) {
                if (diagonal && i != o) continue;
                struct noise_key key = noise_key_of(of.seed, noise_response(&of, IN, i, o));
                float *h = taps + n * TAPS;
                double sum = 0;
                for (int k = 0; k < TAPS; k++) {
                    h[k] = noise_tap(key, (uint32_t)k, (float)(envelope[k] / sqrt(energy)));
                    sum += (double)h[k] * (double)h[k];
                }
                check(fabs(sum - 1) < 0.3, "the energy of response %d is %g", n, sum);
                routes[n++] = route(i, o, h, TAPS);
            }
        hc_config c = player_config("auto", 100, TAPS, IN, OUT);
        struct player p;
        player_open(&p, &c, backend, 7000, 62);
        char why[256] = "";
        struct scene scene = {routes, n, NULL};
        int code = hc_mask_make_noise(p.engine, diagonal, TAPS, RT60, of.seed, &scene.mask, why, sizeof why);
        check(code == HC_OK, "hc_mask_make_noise: %d, %s", code, why);
        player_swap(&p, scene);
        player_run_all(&p);
        player_check(&p, 0, 7000, PEAK_SHARE);
        hc_mask *mask;
        check(hc_mask_make_noise(p.engine, 0, TAPS + 1, RT60, 1, &mask, why, sizeof why) == HC_EINVAL, "%s", why);
        check(hc_mask_make_noise(p.engine, 0, TAPS, 0, 1, &mask, why, sizeof why) == HC_EINVAL && !mask, "%s", why);
        player_close(&p);
        free(taps);
    }
}

static void zero_gain_is_silence(const char *backend)
{
    float tap = 1;
    hc_route quiet = route(0, 0, &tap, 1);
    quiet.gain = 0;
    hc_config c = player_config("auto", 64, 64, 1, 1);
    struct player p;
    player_open(&p, &c, backend, 256, 61);
    player_swap(&p, player_scene(&p, &quiet, 1));
    player_run_all(&p);
    for (int i = 0; i < 256; i++) check(p.out[0][i] == 0, "frame %d: got %g, want 0", i, (double)p.out[0][i]);
    player_close(&p);
}

static void sixty_four_channels_match_reference(const char *backend)
{
    enum { CHANNELS = 64, TAPS = 500 };
    struct random r = random_seeded(71);
    float *h[CHANNELS];
    hc_route diagonal[CHANNELS], *full = must_alloc(CHANNELS * CHANNELS, sizeof *full);
    for (int i = 0; i < CHANNELS; i++) {
        h[i] = noise(&r, TAPS);
        diagonal[i] = route(i, i, h[i], TAPS - i);
    }
    layout(backend, CHANNELS, CHANNELS, diagonal, CHANNELS, TAPS, 1200, 72);
    for (int o = 0; o < CHANNELS; o++)
        for (int i = 0; i < CHANNELS; i++) full[o * CHANNELS + i] = route(i, o, h[(i + o) % 5], 100);
    layout(backend, CHANNELS, CHANNELS, full, CHANNELS * CHANNELS, TAPS, 400, 73); /* five spectra, 4096 cells */
    for (int i = 0; i < CHANNELS; i++) free(h[i]);
    free(full);
}

/* Blocks of 1 MiB and of 8 MiB on a device: several threads copy their channels (dsp/device/parallel_copy.h), and the
 * transfer of the large ones overlaps the tail levels. Also with one thread; full calls and some of a few frames; a
 * fade; with and without tail levels. */
static void many_channels_are_carried_whole(const char *backend)
{
    enum { IN = 270, OUT = 290, ROUTES = IN + OUT };
    static const int taps[] = {40, 5000, 5000, 5000}, threads[] = {4, 4, 1, 4};
    static const int blocks[] = {1024, 1024, 1024, 8192}, frames[] = {7000, 7000, 7000, 30000};
    struct random r = random_seeded(77);
#ifdef CUDA_ON_CPU
    enum { N = 3 }; /* built so that 1 MiB is transferred as 8 MiB are otherwise */
#else
    enum { N = 4 };
#endif
    for (int t = 0; t < N; t++) {
        const int block = blocks[t], n_frames = frames[t];
        hc_route routes[ROUTES];
        float *h[3];
        for (int i = 0; i < 3; i++) h[i] = noise(&r, taps[t]);
        for (int i = 0; i < ROUTES; i++) routes[i] = route(i % IN, i % OUT, h[i % 3], taps[t] - i % 7);
        hc_config c = player_config("auto", block, taps[t], IN, OUT);
        c.n_threads = threads[t];
        c.n_routes = 1 << 14;
        struct player p;
        player_open(&p, &c, backend, n_frames, 78);
        player_swap(&p, player_scene(&p, routes, ROUTES));
        const int calls[] = {block, 1, 300, block - 301, block, 17, block};
        for (int i = 0; p.n_frames < n_frames; i++) {
            player_run_up_to(&p, calls[i % 7], n_frames);
            if (i == 2) player_swap(&p, player_scene(&p, routes, ROUTES - 5));
        }
        player_check(&p, 0, n_frames, PEAK_SHARE);
        player_close(&p);
        for (int i = 0; i < 3; i++) free(h[i]);
    }
}

/* Blocks of a file are tiles on a GPU: cells that share an output, an output without a cell, calls that begin at any
 * frame. */
static void large_blocks_match_reference(const char *backend)
{
    enum { IN = 4, OUT = 6, TAPS = 300, FRAMES = 262144 + 1001 };
    static const char *methods[] = {"direct", "fft"};
    struct random r = random_seeded(75);
    float *h[5];
    for (int i = 0; i < 5; i++) h[i] = noise(&r, TAPS);
    hc_route routes[] = {route(0, 0, h[0], TAPS), route(1, 0, h[1], 129), route(2, 0, h[2], 1),
                         route(1, 1, h[1], 128),  route(3, 2, h[3], 33),  route(0, 3, h[4], TAPS),
                         route(3, 3, h[0], 299),  route(2, 5, h[2], 257)};
    for (int m = 0; m < 2; m++) {
        hc_config c = player_config(methods[m], 0, TAPS, IN, OUT); /* output 4 has no route */
        struct player p;
        player_open(&p, &c, backend, FRAMES, 76);
        player_swap(&p, player_scene(&p, routes, 8));
        const int calls[] = {p.info.block, 130, 1, p.info.block - 131, p.info.block - 1, 897};
        for (int i = 0; p.n_frames < FRAMES; i++) player_run_up_to(&p, calls[i % 6], FRAMES);
        player_check(&p, 0, FRAMES, PEAK_SHARE);
        player_close(&p);
    }
    for (int i = 0; i < 5; i++) free(h[i]);
}

static void many_outputs_of_one_input(const char *backend)
{
    enum { OUT = 1024 };
    struct random r = random_seeded(81);
    float *h = noise(&r, 64);
    hc_route *routes = must_alloc(OUT, sizeof *routes);
    for (int o = 0; o < OUT; o++) {
        routes[o] = route(0, o, h, 64);
        routes[o].gain = (float)o / OUT;
    }
    layout(backend, 1, OUT, routes, OUT, 64, 200, 82);
    free(h);
    free(routes);
}

/* in == out, and in[0] == out[1]: a host with few buffers passes them so. */
static void buffers_may_be_the_same(const char *backend)
{
    enum { TAPS = 400, BLOCK = 100, FRAMES = 2000 };
    static const char *methods[] = {"direct", "fft"};
    struct random r = random_seeded(91);
    float *h[4];
    for (int i = 0; i < 4; i++) h[i] = noise(&r, TAPS);
    hc_route routes[] = {route(0, 0, h[0], TAPS), route(0, 1, h[1], TAPS), route(1, 0, h[2], TAPS),
                         route(1, 1, h[3], TAPS)};
    for (int m = 0; m < 2; m++) {
        for (int crossed = 0; crossed < 2; crossed++) {
            hc_config c = player_config(methods[m], BLOCK, TAPS, 2, 2);
            struct player p;
            player_open(&p, &c, backend, FRAMES, 92);
            player_swap(&p, player_scene(&p, routes, 4));
            float left[BLOCK], right[BLOCK];
            for (int at = 0; at < FRAMES; at += BLOCK) {
                memcpy(left, p.in[0] + at, sizeof left);
                memcpy(right, p.in[1] + at, sizeof right);
                const float *in[] = {left, right};
                float *out[] = {crossed ? right : left, crossed ? left : right};
                int code = hc_process(p.engine, in, out, BLOCK);
                check(code == HC_OK, "hc_process: %d", code);
                memcpy(p.out[0] + at, out[0], sizeof left);
                memcpy(p.out[1] + at, out[1], sizeof left);
            }
            p.n_frames = FRAMES;
            p.changes[p.n_changes++] = (struct change){0, 0, p.waiting};
            player_check(&p, 0, FRAMES, PEAK_SHARE);
            player_close(&p);
        }
    }
    for (int i = 0; i < 4; i++) free(h[i]);
}

/* ---- the textbook: section 7.1 and the exercises of 7.8 ---------------------------------------------------------- */

/* The engine's causal, flipped convolution gives the textbook's centred one with the mask reversed and the output read
 * (mask_width - 1) / 2 frames later. In the time domain small integers are exact in float32; through an FFT they are
 * right to -120 dB of the peak. */
static void textbook_case(const char *backend, const char *method, const double *N, int width, const double *M,
                          int mask_width, const double *P)
{
    float reversed[16], x[32] = {0};
    for (int j = 0; j < mask_width; j++) reversed[j] = (float)M[mask_width - 1 - j];
    for (int i = 0; i < width; i++) x[i] = (float)N[i];
    int later = mask_width - 1 - mask_width / 2; /* the centre is M[mask_width / 2], also of an even mask */
    hc_config c = player_config(method, 4, mask_width, 1, 1);
    hc_route h = route(0, 0, reversed, mask_width);
    struct player p;
    player_open(&p, &c, backend, 32, 0);
    memcpy(p.in[0], x, sizeof x);
    player_swap(&p, player_scene(&p, &h, 1));
    player_run_all(&p);
    double peak = 0, by_definition[32];
    for (int i = 0; i < width; i++) peak = fmax(peak, fabs(P[i]));
    reference_textbook(N, width, M, mask_width, by_definition);
    for (int i = 0; i < width; i++) {
        bool exact = strcmp(method, "direct") == 0 && M[0] == (double)(float)M[0]; /* thirds are not */
        double tol = exact ? 0 : PEAK_SHARE * peak, got = (double)p.out[0][i + later];
        check(fabs(by_definition[i] - P[i]) <= 1e-12 * peak, "the definition gives P[%d] = %g, the book %g", i,
              by_definition[i], P[i]);
        check(fabs(got - P[i]) <= tol, "%s %s: P[%d]: got %.9g, want %.9g", backend, method, i, got, P[i]);
    }
    player_close(&p);
}

static void textbook_both(const char *backend, const double *N, int width, const double *M, int mask_width,
                          const double *P)
{
    textbook_case(backend, "direct", N, width, M, mask_width, P);
    textbook_case(backend, "fft", N, width, M, mask_width, P);
}

static const double seven[] = {1, 2, 3, 4, 5, 6, 7};

static void textbook_figures_7_1_to_7_3(const char *backend)
{
    /* P[1] = 38, P[2] = 57 and P[3] = 76 are the figures'; P[0] = 22 is exercise 1. */
    const double M[] = {3, 4, 5, 4, 3}, P[] = {22, 38, 57, 76, 95, 90, 74};
    textbook_both(backend, seven, 7, M, 5, P);
}

static void textbook_exercise_2(const char *backend)
{
    const double N[] = {4, 1, 3, 2, 3}, M[] = {2, 1, 4}, P[] = {8, 21, 13, 20, 7};
    textbook_both(backend, N, 5, M, 3, P);
}

static void textbook_exercise_3(const char *backend)
{
    const double same[] = {0, 1, 0}, left[] = {0, 0, 1}, right[] = {1, 0, 0}, slope[] = {-0.5, 0, 0.5},
                 smooth[] = {1 / 3.0, 1 / 3.0, 1 / 3.0};
    const double shifted_left[] = {2, 3, 4, 5, 6, 7, 0}, shifted_right[] = {0, 1, 2, 3, 4, 5, 6},
                 slopes[] = {1, 1, 1, 1, 1, 1, -3}, smoothed[] = {1, 2, 3, 4, 5, 6, 13 / 3.0};
    textbook_both(backend, seven, 7, same, 3, seven);
    textbook_both(backend, seven, 7, left, 3, shifted_left);
    textbook_both(backend, seven, 7, right, 3, shifted_right);
    textbook_both(backend, seven, 7, slope, 3, slopes);
    textbook_both(backend, seven, 7, smooth, 3, smoothed);
}

/* Exercise 4: of n outputs with a mask of m = 2h + 1 the halo cells are 2h, n * m products count them, and
 * n * m - h * (h + 1) do not. Counted here by walking the definition. */
static void textbook_exercise_4_counts(const char *backend)
{
    for (int n = 8; n < 40; n += 7)
        for (int m = 1; m < 16; m += 2) {
            int products = 0, halo = 0, h = m / 2, seen[64] = {0};
            for (int i = 0; i < n; i++)
                for (int j = 0; j < m; j++) {
                    int at = i - h + j;
                    if (at >= 0 && at < n)
                        products++;
                    else if (!seen[at + h])
                        seen[at + h] = 1, halo++;
                }
            check(halo == 2 * h, "n %d, m %d: %d halo cells", n, m, halo);
            check(products == n * m - h * (h + 1), "n %d, m %d: %d products", n, m, products);
        }
}

/* Exercise 7 and section 7.4: ceil(n / t) tiles; t + m - 1 floats a tile; (t * m) / (t + m - 1) fewer loads
 * inside: 10.20 and 8.38. (The book prints 10.13 and 8.14, having subtracted 10 above the line, which its formula does
 * not.) */
static void textbook_exercise_7_counts(const char *backend)
{
    struct {
        int tile, half;
        double reduction;
    } table[] = {{128, 5, 10.20}, {32, 5, 8.38}, {1000, 4, 8.93}};
    for (int i = 0; i < 3; i++) {
        int t = table[i].tile, m = 2 * table[i].half + 1, tiled = 0, plain = 0;
        for (int tap_loads = 0; tap_loads < t; tap_loads++) plain += m;
        for (int at = -table[i].half; at < t + table[i].half; at++) tiled++;
        check(tiled == t + m - 1, "tile %d, mask %d: %d loads", t, m, tiled);
        check(fabs((double)plain / tiled - table[i].reduction) < 0.005, "tile %d, mask %d: %.3f", t, m,
              (double)plain / tiled);
    }
    for (int n = 1; n < 1000; n += 37) {
        int tiles = 0;
        for (int at = 0; at < n; at += 128) tiles++;
        check(tiles == (n + 127) / 128, "n %d: %d tiles", n, tiles);
    }
}

/* ---- latency, precision, counters -------------------------------------------------------------------------------- */

static void impulse_gives_the_response_at_once(const char *backend)
{
    static const char *methods[] = {"direct", "fft", "auto"};
    struct random r = random_seeded(101);
    enum { TAPS = 600 };
    float *h = noise(&r, TAPS);
    hc_route only = route(0, 0, h, TAPS);
    for (int m = 0; m < 3; m++)
        for (int block = 16; block <= 1024; block *= 4) {
            hc_config c = player_config(methods[m], block, TAPS, 1, 1);
            struct player p;
            player_open(&p, &c, backend, 2 * TAPS, 102);
            memset(p.in[0], 0, 2 * TAPS * sizeof(float));
            p.in[0][0] = 1;
            player_swap(&p, player_scene(&p, &only, 1));
            player_run_all(&p);
            for (int i = 0; i < 2 * TAPS; i++) {
                double want = i < TAPS ? (double)h[i] : 0, got = (double)p.out[0][i];
                check(fabs(got - want) <= PEAK_SHARE, "%s %s, block %d, frame %d: got %.9g, want %.9g", backend,
                      methods[m], block, i, got, want);
            }
            player_close(&p);
        }
    free(h);
}

/* All-positive data is where float32 sums lose most: 65536 ones through 65536 ones. */
static void all_positive_data_keeps_its_precision(const char *backend)
{
    enum { TAPS = 65536 };
    static const char *methods[] = {"direct", "fft"};
    float *ones = must_alloc(TAPS, sizeof *ones);
    for (int i = 0; i < TAPS; i++) ones[i] = 1;
    hc_route only = route(0, 0, ones, TAPS);
    for (int m = SANITIZED; m < 2; m++) {
        hc_config c = player_config(methods[m], 1024, TAPS, 1, 1);
        struct player p;
        player_open(&p, &c, backend, TAPS + 3000, 111);
        for (int i = 0; i < TAPS + 3000; i++) p.in[0][i] = 1;
        player_swap(&p, player_scene(&p, &only, 1));
        player_run_all(&p);
        player_check(&p, 0, TAPS + 3000, PEAK_SHARE);
        player_close(&p);
        player_open(&p, &c, backend, TAPS + 3000, 112);
        for (int i = 0; i < TAPS + 3000; i++) p.in[0][i] = 0.1f * (1 + fabsf(p.in[0][i]));
        player_swap(&p, player_scene(&p, &only, 1));
        player_run_all(&p);
        player_check(&p, 0, TAPS + 3000, PEAK_SHARE);
        player_close(&p);
    }
    free(ones);
}

/* A long average of a steady level: all products are equal, so that the roundings of a plain sum go the same way. */
static void steady_level_keeps_its_precision(const char *backend)
{
    static const char *methods[] = {"direct", "fft"};
    static const int taps[] = {64, 256, 1000, 4099, 48000}, blocks[] = {64, 1024, 0};
    for (int m = 0; m < 2; m++)
        for (int t = 0; t < (SANITIZED ? 3 : 5); t++) {
            float *h = must_alloc((size_t)taps[t], sizeof *h);
            for (int i = 0; i < taps[t]; i++) h[i] = 0.7f / (float)taps[t];
            hc_route routes[] = {route(0, 0, h, taps[t]), route(1, 0, h, taps[t]), route(1, 1, h, taps[t])};
            for (int b = 0; b < (backend_for_files(backend) == backend ? 3 : 2); b++) {
                const int frames = taps[t] + 3000;
                hc_config c = player_config(methods[m], blocks[b], taps[t], 2, 2);
                struct player p;
                player_open(&p, &c, backend, frames, 113);
                for (int i = 0; i < frames; i++) p.in[0][i] = 0.1f, p.in[1][i] = 0.3f;
                player_swap(&p, player_scene(&p, routes, 3));
                player_run_all(&p);
                player_check(&p, 0, frames, PEAK_SHARE);
                player_close(&p);
            }
            free(h);
        }
}

/* A signal of a constant and one at a tenth of the rate: the -120 dB hold for tones too, not just for noise. */
static void tones_match_reference(const char *backend)
{
    static const char *methods[] = {"direct", "fft"};
    struct random r = random_seeded(121);
    float *h = noise(&r, 5000);
    hc_route only = route(0, 0, h, 5000);
    for (int m = 0; m < 2; m++) {
        hc_config c = player_config(methods[m], 256, 5000, 1, 1);
        struct player p;
        player_open(&p, &c, backend, 9000, 122);
        for (int i = 0; i < 9000; i++) p.in[0][i] = (float)(0.5 + 0.5 * sin(0.1 * 6.283185307179586 * i));
        player_swap(&p, player_scene(&p, &only, 1));
        player_run_all(&p);
        player_check(&p, 0, 9000, PEAK_SHARE);
        player_close(&p);
    }
    free(h);
}

static void no_mask_is_silence(const char *backend)
{
    hc_config c = player_config("auto", 64, 1000, 2, 3);
    struct player p;
    player_open(&p, &c, backend, 1000, 131);
    for (int ch = 0; ch < 3; ch++)
        for (int i = 0; i < 1000; i++) p.out[ch][i] = NAN;
    player_run_all(&p);
    for (int ch = 0; ch < 3; ch++)
        for (int i = 0; i < 1000; i++)
            check(p.out[ch][i] == 0, "channel %d, frame %d: %g", ch, i, (double)p.out[ch][i]);
    player_close(&p);
}

static void counters_count(const char *backend)
{
    float tap = 1;
    hc_route only = route(0, 0, &tap, 1);
    hc_config c = player_config("auto", 64, 64, 1, 1);
    struct player p;
    player_open(&p, &c, backend, 1000, 141);
    player_swap(&p, player_scene(&p, &only, 1));
    for (int i = 0; i < 10; i++) player_run(&p, 64);
    player_run(&p, 7);
    hc_info info = {.size = sizeof info};
    hc_get_info(p.engine, &info);
    check(info.blocks == 11 && info.frames == 647 && info.swaps == 1 && info.late == 0 && info.non_finite == 0,
          "blocks %llu frames %llu swaps %llu late %llu non_finite %llu", (unsigned long long)info.blocks,
          (unsigned long long)info.frames, (unsigned long long)info.swaps, (unsigned long long)info.late,
          (unsigned long long)info.non_finite);
    check(info.device[0] != 0 && info.error[0] == 0, "device '%s', error '%s'", info.device, info.error);
    player_close(&p);
}

/* Two engines at once know nothing of one another. */
static void engines_are_independent(const char *backend)
{
    struct random r = random_seeded(151);
    float *a = noise(&r, 777), *b = noise(&r, 99);
    hc_route first = route(0, 0, a, 777), second = route(0, 0, b, 99);
    hc_config c = player_config("fft", 64, 777, 1, 1), d = player_config("direct", 100, 99, 1, 1);
    struct player p, q;
    player_open(&p, &c, backend, 2000, 152);
    player_open(&q, &d, backend, 2000, 153);
    player_swap(&p, player_scene(&p, &first, 1));
    player_swap(&q, player_scene(&q, &second, 1));
    while (p.n_frames + 64 <= 2000) {
        player_run(&p, 64);
        player_run(&q, 61);
    }
    player_check(&p, 0, p.n_frames, PEAK_SHARE);
    player_check(&q, 0, q.n_frames, PEAK_SHARE);
    player_close(&p);
    player_close(&q);
    free(a);
    free(b);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(direct_matches_reference, true),
        TEST(fft_matches_reference, true),
        TEST(auto_matches_reference, true),
        TEST(long_responses_match_reference, true),
        TEST(tail_levels_match_at_every_block, true),
        TEST(tail_levels_match_in_any_calls, true),
        TEST(whole_hops_match_between_short_calls, true),
        TEST(threads_change_no_frame, true),
        TEST(masks_of_half_a_minute_match, true),
        TEST(constant_memory_edges_match_reference, true),
        TEST(call_sizes_do_not_matter, true),
        TEST(every_layout_matches_reference, true),
        TEST(routes_on_one_pair_add, true),
        TEST(gain_and_delay_are_applied, true),
        TEST(noise_mask_is_made_of_its_taps, true),
        TEST(zero_gain_is_silence, true),
        TEST(sixty_four_channels_match_reference, true),
        TEST(many_channels_are_carried_whole, true),
        TEST(large_blocks_match_reference, ONCE_A_DEVICE),
        TEST(many_outputs_of_one_input, true),
        TEST(buffers_may_be_the_same, true),
        TEST(textbook_figures_7_1_to_7_3, true),
        TEST(textbook_exercise_2, true),
        TEST(textbook_exercise_3, true),
        TEST(textbook_exercise_4_counts, false),
        TEST(textbook_exercise_7_counts, false),
        TEST(impulse_gives_the_response_at_once, true),
        TEST(all_positive_data_keeps_its_precision, true),
        TEST(steady_level_keeps_its_precision, true),
        TEST(tones_match_reference, true),
        TEST(no_mask_is_silence, true),
        TEST(counters_count, true),
        TEST(engines_are_independent, true),
    };
    return check_main("convolution", tests, sizeof tests / sizeof *tests);
}
