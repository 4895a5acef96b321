/* Tail levels change only the time that a call takes: any response, block, sequence of calls, matrix, swap and reset
 * gives the linear convolution. A large n_routes makes the plan use tail levels even for two channels. */
#include "dsp/bench.h"
#include "player.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 1 << 14 };

static hc_config config_for(const char *method, int block, int max_taps, int n_in, int n_out)
{
    hc_config c = player_config(method, block, max_taps, n_in, n_out);
    c.n_routes = MANY;
    return c;
}

/* Without tail levels these tests would check nothing. */
static void needs_tail_levels(const struct player *p)
{
    if (!p->info.swap_delay) check_skip("this backend's plan has no tail levels");
}

/* All routes of a matrix, each with noise of its own; those of an odd input end early. */
static hc_route *full_matrix(struct random *r, int n_in, int n_out, int n_taps)
{
    hc_route *routes = must_alloc((size_t)(n_in * n_out), sizeof *routes);
    for (int i = 0; i < n_in * n_out; i++) {
        int in = i % n_in, n = in % 2 ? n_taps / 3 + 1 : n_taps;
        routes[i] = (hc_route){in, i / n_in, noise(r, n), n, 1, 0};
    }
    return routes;
}

static void matrix_drop(hc_route *routes, int n)
{
    for (int i = 0; i < n; i++) free((float *)routes[i].taps);
    free(routes);
}

/* Calls of random sizes up to `most` (0: as large as possible). */
static void run_to(struct player *p, struct random *r, int64_t end, int most)
{
    while (p->n_frames < end) player_run_up_to(p, most ? random_int(r, 1, most) : p->info.block, end);
}

static void plays_right(const char *backend, const char *method, int block, int n_taps, int n_in, int n_out, int most,
                        uint64_t seed)
{
    struct random r = random_seeded(seed);
    hc_route *routes = full_matrix(&r, n_in, n_out, n_taps);
    hc_config c = config_for(method, block, n_taps, n_in, n_out);
    struct player p;
    player_open(&p, &c, backend, 2 * n_taps + 3 * block + 77, seed);
    needs_tail_levels(&p);
    player_swap(&p, player_scene(&p, routes, n_in * n_out));
    run_to(&p, &r, p.cap, most);
    player_check(&p, 0, p.cap, PEAK_SHARE);
    player_close(&p);
    matrix_drop(routes, n_in * n_out);
}

static const char *const methods[] = {"fft", "auto"};

static void every_block_matches_reference(const char *backend)
{
    static const int blocks[] = {1, 7, 8, 16, 31, 32, 64, 100, 128, 480, 1000, 2048, 4096, 8192};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (int m = 0; m < 2; m++) {
            if (SANITIZED && blocks[b] < 31) continue;
            int taps = blocks[b] < 8 ? 1500 : blocks[b] < 1000 ? 6007 : 12 * blocks[b] + 5;
            plays_right(backend, methods[m], blocks[b], taps, 1, 1, 0, (uint64_t)(100 + blocks[b]));
        }
}

static void every_length_matches_reference(const char *backend)
{
    static const int taps[] = {191, 192, 193, 447, 448, 449, 959, 960, 961, 1983, 1984, 1985, 5000, 48000};
    for (size_t t = 0; t < sizeof taps / sizeof *taps; t++) {
        hc_config c = config_for("auto", 64, SANITIZED ? 5000 : 48000, 2, 2);
        if (taps[t] > c.max_taps) continue;
        struct random r = random_seeded((uint64_t)taps[t]);
        hc_route *routes = full_matrix(&r, 2, 2, taps[t]);
        struct player p;
        player_open(&p, &c, backend, taps[t] + 9000, (uint64_t)taps[t]);
        needs_tail_levels(&p);
        player_swap(&p, player_scene(&p, routes, 4));
        run_to(&p, &r, p.cap, 0);
        player_check(&p, 0, p.cap, PEAK_SHARE);
        player_close(&p);
        matrix_drop(routes, 4);
    }
}

static void any_calls_match_reference(const char *backend)
{
    for (int m = 0; m < 2; m++) {
        plays_right(backend, methods[m], 64, 6007, 2, 3, 64, 31);
        plays_right(backend, methods[m], 100, 6007, 2, 3, 100, 32);
        plays_right(backend, methods[m], 512, 9001, 3, 2, 512, 33);
        plays_right(backend, methods[m], 4096, 48000, 1, 2, 4096, 34);
    }
}

static void half_a_minute_matches_reference(const char *backend)
{
    if (SANITIZED) check_skip("too slow under a sanitizer");
    plays_right(backend, "auto", 1024, 30 * 48000, 1, 1, 1024, 41);
    plays_right(backend, "auto", 64, 30 * 48000, 1, 1, 0, 42);
}

/* More outputs than share a block, inputs in common and not, missing pairs, shared and missing responses. */
static void every_layout_matches_reference(const char *backend)
{
    enum { TAPS = 3000, IN = 5, OUT = 11, FRAMES = 9000 };
    struct random r = random_seeded(51);
    float *h[4];
    for (int i = 0; i < 4; i++) h[i] = noise(&r, TAPS);
    hc_route routes[IN * OUT];
    int n = 0;
    for (int out = 0; out < OUT; out++)
        for (int in = 0; in < IN; in++)
            if (out != 6 && random_int(&r, 0, 2)) {
                int which = random_int(&r, 0, 3);
                routes[n++] = (hc_route){in, out, h[which], which == 2 ? 70 : TAPS, which == 3 ? -1.0f : 1.0f, 0};
            }
    hc_config c = config_for("auto", 64, TAPS, IN, OUT);
    struct player p;
    player_open(&p, &c, backend, FRAMES, 52);
    needs_tail_levels(&p);
    player_swap(&p, player_scene(&p, routes, n));
    run_to(&p, &r, FRAMES, 64);
    player_check(&p, 0, FRAMES, PEAK_SHARE);
    player_close(&p);
    for (int i = 0; i < 4; i++) free(h[i]);
}

/* More outputs than fill any GPU, each with no response, one or a few, on inputs of its own as a rule; and a swap to a
 * mask in which all share inputs, and back. */
static void many_sparse_outputs_match_reference(const char *backend)
{
    enum { TAPS = 1500, IN = 331, OUT = 1301, FRAMES = 1900, MOST = 4 * OUT };
    struct random r = random_seeded(53);
    float *h[5];
    for (int i = 0; i < 5; i++) h[i] = noise(&r, TAPS);
    hc_route *sparse = must_alloc(MOST, sizeof *sparse), *shared = must_alloc(MOST, sizeof *shared);
    int n_sparse = 0, n_shared = 0;
    for (int out = 0; out < OUT; out++) {
        int n = out % 37 == 5 ? 0 : out % 11 == 3 ? random_int(&r, 2, 4) : 1;
        for (int i = 0, in = random_int(&r, 0, 80); i < n; i++, in += random_int(&r, 1, 80)) {
            int which = random_int(&r, 0, 4), taps = which == 2 ? 70 : which == 3 ? 1 : TAPS;
            sparse[n_sparse++] = (hc_route){in, out, h[which], taps, which == 4 ? -0.5f : 1.0f, 0};
        }
        shared[n_shared++] = (hc_route){out / 8 % IN, out, h[out % 5], TAPS - out % 7, 1, 0};
    }
    static const int calls[] = {64, 64, 5, 59, 64, 1, 2, 61, 16, 48, 33};
    hc_config c = config_for("auto", 64, TAPS, IN, OUT);
    struct player p;
    player_open(&p, &c, backend, FRAMES, 54);
    needs_tail_levels(&p);
    player_swap(&p, player_scene(&p, sparse, n_sparse));
    for (int i = 0; p.n_frames < FRAMES; i++) {
        if (i == 6) player_swap(&p, player_scene(&p, shared, n_shared));
        if (i == 22) player_swap(&p, player_scene(&p, sparse, n_sparse / 2));
        player_run_up_to(&p, calls[i % 11], FRAMES);
    }
    player_check(&p, 0, FRAMES, PEAK_SHARE);
    player_close(&p);
    free(shared);
    free(sparse);
    for (int i = 0; i < 5; i++) free(h[i]);
}

/* The same mask of noise with tail levels and, on the CPU, without. */
static void noise_plays_right(const char *backend, int diagonal, int n_in, int n_out, int n_taps, int n_frames)
{
    hc_config c = config_for("auto", 64, n_taps, n_in, n_out), small = c;
    small.n_routes = 1;
    struct player tail, plain;
    player_open(&tail, &c, backend, n_frames, 61);
    needs_tail_levels(&tail);
    player_open(&plain, &small, "cpu", n_frames, 61);
    struct player *both[] = {&tail, &plain};
    for (int i = 0; i < 2; i++) {
        hc_mask *mask;
        char why[256] = "";
        check(hc_mask_make_noise(both[i]->engine, diagonal, n_taps, 3000, 62, &mask, why, sizeof why) == HC_OK, "%s",
              why);
        hc_mask_swap(both[i]->engine, mask);
        for (int at = 0; at < n_frames; at += 60) {
            for (int ch = 0; ch < n_in; ch++) both[i]->call_in[ch] = both[i]->in[ch] + at;
            for (int ch = 0; ch < n_out; ch++) both[i]->call_out[ch] = both[i]->out[ch] + at;
            check(hc_process(both[i]->engine, both[i]->call_in, both[i]->call_out, 60) == HC_OK, "hc_process");
        }
    }
    double peak = 0;
    for (int i = 0; i < n_frames; i++) peak = fmax(peak, fabs((double)plain.out[0][i]));
    for (int ch = 0; ch < n_out; ch++)
        for (int i = 0; i < n_frames; i++)
            check(fabs((double)tail.out[ch][i] - (double)plain.out[ch][i]) <= 2 * PEAK_SHARE * peak,
                  "%s, diagonal %d, %d in: channel %d, frame %d: got %.9g, the cpu %.9g", backend, diagonal, n_in, ch,
                  i, (double)tail.out[ch][i], (double)plain.out[ch][i]);
    player_close(&tail);
    player_close(&plain);
}

static void matrix_of_noise_is_that_matrix(const char *backend)
{
    noise_plays_right(backend, 0, 5, 6, 5000, 9000);
    noise_plays_right(backend, 1, 5, 6, 5000, 9000);
}

/* So many channels that the engine's two threads share the copying of them. */
static void thousands_of_channels_match_the_cpu(const char *backend)
{
    if (SANITIZED) check_skip("too slow under a sanitizer");
    noise_plays_right(backend, 1, 2101, 2100, 1000, 2400);
}

/* A whole matrix is swapped while it plays, within a call and more than once, and every frame is the crossfade's. */
static void a_swap_keeps_the_tail(const char *backend)
{
    enum { TAPS = 9000, FRAMES = 33000 };
    for (int m = 0; m < 2; m++) {
        struct random r = random_seeded(71);
        hc_route *a = full_matrix(&r, 3, 5, TAPS), *b = full_matrix(&r, 3, 5, TAPS - 700);
        hc_config c = config_for(methods[m], 64, TAPS, 3, 5);
        struct player p;
        player_open(&p, &c, backend, FRAMES, 72);
        needs_tail_levels(&p);
        struct scene first = player_scene(&p, a, 15), second = player_scene(&p, b, 15), silence = {0};
        player_swap(&p, first);
        run_to(&p, &r, 11011, 64);
        player_swap(&p, second);
        run_to(&p, &r, 22003, 64);
        player_swap(&p, silence);
        run_to(&p, &r, 23500, 64);
        player_swap(&p, first);
        run_to(&p, &r, FRAMES, 64);
        check(p.n_changes == 4, "%d changes", p.n_changes);
        player_check(&p, 0, FRAMES, PEAK_SHARE);
        player_close(&p);
        matrix_drop(a, 15);
        matrix_drop(b, 15);
    }
}

/* Checks some frames around the beginning and the end of the fade, and some of the 65536 frames after it, each in one
 * output. */
static void check_around(struct player *p, const struct change *change, int n, uint64_t seed)
{
    struct random r = random_seeded(seed);
    double peak = 0, *want = must_alloc((size_t)n, sizeof *want);
    int64_t *frames = must_alloc((size_t)n, sizeof *frames);
    for (int i = 0; i < n; i++) {
        int64_t in_fade = change->at - 2 + i, late = change->at + change->len + random_int(&r, 0, 1 << 16);
        frames[i] = i < 4 || late >= p->n_frames ? in_fade + (i < 4 ? 0 : change->len) : late;
        want[i] = player_wants(p, i % p->config.n_out, frames[i]);
        peak = fmax(peak, fabs(want[i]));
    }
    for (int i = 0; i < n; i++) {
        int out = i % p->config.n_out;
        double got = (double)p->out[out][frames[i]];
        check(fabs(got - want[i]) <= PEAK_SHARE * peak,
              "%s, %d x %d, %d taps: channel %d, frame %lld, %lld after the fade began: got %.9g, want %.9g, seed %llu",
              p->info.backend, p->config.n_in, p->config.n_out, p->config.max_taps, out, (long long)frames[i],
              (long long)(frames[i] - change->at), got, want[i], (unsigned long long)seed);
    }
    free(want);
    free(frames);
}

/* A swap to a mask of `taps`, requested at frame `from`. After each block the test sleeps 20 ms, so that the threads
 * have time, as they have live; a fifth of a second of audio is plenty. */
static void swap_is_soon(const char *backend, int n, int taps, int n_threads, int64_t from)
{
    enum { BLOCK = 64, SHARED = 8, MOST = 9600 };
    struct random r = random_seeded((uint64_t)(taps + n));
    float *h[SHARED];
    hc_route *a = must_alloc((size_t)(n * n), sizeof *a), *b = must_alloc((size_t)(n * n), sizeof *b);
    for (int i = 0; i < SHARED; i++) h[i] = noise(&r, taps);
    for (int i = 0; i < n * n; i++) {
        a[i] = (hc_route){i % n, i / n, h[i % 7], taps, 1, 0};
        b[i] = (hc_route){i % n, i / n, h[(i % 5 + 3) % SHARED], taps - 11, 1, 0};
    }
    hc_config c = config_for("auto", BLOCK, taps, n, n);
    c.n_routes = n * n;
    c.n_threads = n_threads;
    struct player p;
    player_open(&p, &c, backend, from + 2 * MOST + (1 << 16), (uint64_t)taps);
    struct scene first = player_scene(&p, a, n * n), second = player_scene(&p, b, n * n);
    player_swap(&p, first);
    while (p.n_frames < from) player_run(&p, BLOCK);
    int64_t requested = p.n_frames;
    player_swap(&p, second);
    do {
        player_run(&p, BLOCK);
        if (n_threads > 1) pause_us(20000);
    } while (p.is_coming && p.n_frames - requested < p.info.swap_delay);
    int64_t most = n_threads > 1 && p.info.swap_usual < MOST ? MOST : p.info.swap_usual;
    int64_t took = p.changes[p.n_changes - 1].at - requested;
    check(p.n_changes == 2 && took <= most, "%s, %d x %d, %d taps, %d threads: faded to after %lld frames, want %lld",
          backend, n, n, taps, n_threads, (long long)took, (long long)most);
    check(p.info.swap_usual <= p.info.swap_delay, "%d as a rule, %d at most", p.info.swap_usual, p.info.swap_delay);
    while (p.n_frames < p.cap - BLOCK) player_run(&p, BLOCK);
    check_around(&p, &p.changes[1], 40, (uint64_t)(taps + n_threads));
    if (getenv("HC_TEST_VERBOSE"))
        printf("    %s, %d x %d, %d taps, %d threads: %.1f ms; %.1f as a rule, %.1f at most\n", backend, n, n, taps,
               n_threads, (double)took / 48, p.info.swap_usual / 48.0, p.info.swap_delay / 48.0);
    player_close(&p);
    free(a);
    free(b);
    for (int i = 0; i < SHARED; i++) free(h[i]);
}

static void a_mask_plays_soon(const char *backend)
{
    if (strcmp(backend, "cpu") != 0) check_skip("this test counts on the time that the CPU backend takes");
    static const struct {
        int n, s, from;
    } shapes[] = {{1, 1, 70000},   {2, 1, 5000},   {1, 3, 160100}, {8, 1, 61234},
                  {1, 10, 500000}, {8, 3, 150300}, {8, 10, 481000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            if (SANITIZED && i > 1) continue;
            swap_is_soon(backend, shapes[i].n, 48000 * shapes[i].s, n_threads, shapes[i].from);
        }
}

/* While a mask catches up, two more are requested, and a reset: the mask goes on, and after its fade the last plays. */
static void a_swap_waits_while_a_mask_catches_up(const char *backend)
{
    if (strcmp(backend, "cpu") != 0) check_skip("this test counts on the time that the CPU backend takes");
    enum { TAPS = 40000, BLOCK = 64, RESET = 90048, FRAMES = 140000 };
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        struct random r = random_seeded(111);
        hc_route *routes[4];
        for (int i = 0; i < 4; i++) routes[i] = full_matrix(&r, 2, 2, TAPS - 900 * i);
        hc_config c = config_for("auto", BLOCK, TAPS, 2, 2);
        c.n_routes = 4;
        c.n_threads = n_threads;
        struct player p;
        player_open(&p, &c, backend, FRAMES, 112);
        needs_tail_levels(&p);
        struct scene s[4];
        for (int i = 0; i < 4; i++) s[i] = player_scene(&p, routes[i], 4);
        player_swap(&p, s[0]);
        while (p.n_frames < 50000) player_run(&p, BLOCK);
        player_swap(&p, s[1]);
        player_run(&p, BLOCK);
        check(p.is_coming, "the mask is ready at once: this test checks nothing");
        player_swap(&p, s[2]);
        player_run(&p, BLOCK);
        player_swap(&p, s[3]);
        while (p.n_frames < RESET) player_run(&p, BLOCK);
        check(p.n_changes == 3, "%d changes", p.n_changes);
        player_swap(&p, s[0]);
        player_run(&p, BLOCK);
        check(p.is_coming, "the mask is ready at once: this test checks nothing");
        player_check(&p, 45000, p.n_frames, PEAK_SHARE);
        player_reset(&p);
        player_noise(&p, 113);
        while (p.n_frames < 20000) player_run(&p, BLOCK);
        check(p.n_changes == 2, "%d changes", p.n_changes);
        player_swap(&p, s[1]);
        while (p.n_frames < 60000) player_run(&p, BLOCK);
        player_check(&p, 0, p.n_frames, PEAK_SHARE);
        player_close(&p);
        for (int i = 0; i < 4; i++) matrix_drop(routes[i], 4);
    }
}

/* A mask is freed as soon as another is requested. While it fades out, new masks are made, which take its memory once
 * it no longer plays, perhaps in the moment in which the device still computes its tail levels. */
static void a_new_mask_in_the_place_of_a_freed_one_is_whole(const char *backend)
{
    enum { TAPS = 9000, ROUNDS = 24, CALLS = 3, BLOCK = 64, QUEUE = 4, SETS = 3 };
    struct random r = random_seeded(101);
    hc_route *routes[SETS];
    for (int i = 0; i < SETS; i++)
        routes[i] = full_matrix(&r, 2, 2, TAPS - 1000 * i); /* so that their layouts in it differ */
    hc_config c = config_for("auto", BLOCK, TAPS, 2, 2);
    c.fade_frames = BLOCK;
    struct player p;
    player_open(&p, &c, backend, 20000 + ROUNDS * CALLS * BLOCK, 102);
    needs_tail_levels(&p);
    struct scene now = player_scene(&p, routes[0], 4), queue[QUEUE];
    int n = 0, n_made = 1;
    player_swap(&p, now);
    run_to(&p, &r, 20000, BLOCK);
    queue[n++] = player_scene(&p, routes[n_made++ % SETS], 4);
    for (int round = 0; round < ROUNDS; round++) {
        player_swap(&p, queue[0]);
        hc_mask_free(p.engine, now.mask);
        now = queue[0];
        memmove(queue, queue + 1, (size_t)--n * sizeof *queue);
        for (int call = 0; call < CALLS; call++) {
            player_run(&p, BLOCK);
            if (n < QUEUE) queue[n++] = player_scene(&p, routes[n_made++ % SETS], 4);
        }
    }
    check(p.n_changes >= 2, "%d changes", p.n_changes); /* a mask may be ready later on some backends */
    player_check(&p, 19000, p.n_frames, PEAK_SHARE);
    player_close(&p);
    for (int i = 0; i < SETS; i++) matrix_drop(routes[i], 4);
}

/* So large a mask that it gets ready over many calls, not in one. */
static void a_large_mask_is_ready_in_time(const char *backend)
{
    enum { CHANNELS = 40, TAPS = 9000, FRAMES = 60000 };
    if (SANITIZED) check_skip("too slow under a sanitizer");
    struct random r = random_seeded(81);
    hc_route *a = full_matrix(&r, 1, 2, TAPS), *b = must_alloc(CHANNELS * CHANNELS, sizeof *b);
    float *taps[8];
    for (int i = 0; i < 8; i++) taps[i] = noise(&r, TAPS);
    int n = 0; /* gains that differ: no two responses are one */
    for (int out = 0; out < CHANNELS; out++)
        for (int in = 0; in < (out < 2 ? 2 : CHANNELS); in++, n++)
            b[n] = (hc_route){in, out, taps[(in + out) % 8], TAPS, 1 + (float)n / 4096, 0};
    hc_config c = config_for("auto", 64, TAPS, CHANNELS, CHANNELS);
    struct player p;
    player_open(&p, &c, backend, FRAMES, 82);
    needs_tail_levels(&p);
    player_swap(&p, player_scene(&p, a, 2));
    run_to(&p, &r, 20011, 64);
    player_swap(&p, player_scene(&p, b, n));
    run_to(&p, &r, FRAMES, 64);
    check(p.n_changes == 2, "%d changes", p.n_changes);
    player_check(&p, 19000, FRAMES, PEAK_SHARE);
    player_close(&p);
    matrix_drop(a, 2);
    free(b);
    for (int i = 0; i < 8; i++) free(taps[i]);
}

static void reset_forgets_tail_levels(const char *backend)
{
    enum { TAPS = 9000 };
    struct random r = random_seeded(91);
    hc_route *a = full_matrix(&r, 2, 2, TAPS), *b = full_matrix(&r, 2, 2, TAPS);
    hc_config c = config_for("auto", 64, TAPS, 2, 2);
    struct player p;
    player_open(&p, &c, backend, 30000, 92);
    needs_tail_levels(&p);
    struct scene first = player_scene(&p, a, 4), second = player_scene(&p, b, 4);
    player_swap(&p, first);
    run_to(&p, &r, 21000, 64);
    player_reset(&p);
    player_noise(&p, 93);
    run_to(&p, &r, 15000, 64);
    player_swap(&p, second);
    run_to(&p, &r, 30000, 64);
    player_check(&p, 0, 30000, PEAK_SHARE);
    player_close(&p);
    matrix_drop(a, 4);
    matrix_drop(b, 4);
}

/* 1024 x 1024 responses of 10 s: 4 TB. The backend counts them before it allocates memory, and the engine plays on. */
static void a_mask_too_large_says_what_it_needs(const char *backend)
{
    enum { CHANNELS = 1024, TAPS = 480000 };
    if (strcmp(backend, "cuda") != 0) check_skip("a host promises more memory than it has");
#ifdef CUDA_ON_CPU
    check_skip("4 GB of a device's memory would be the host's");
#endif
    hc_config c = config_for("auto", 64, TAPS, CHANNELS, CHANNELS);
    c.n_routes = 0;
    struct player p;
    player_open(&p, &c, backend, 128, 95);
    hc_mask *mask = NULL;
    char why[256] = "";
    int code = hc_mask_make_noise(p.engine, 0, TAPS, TAPS, 96, &mask, why, sizeof why);
    check(code == HC_ENOMEM && !mask, "code %d: %s", code, why);
    check(strstr(why, "cuda: the mask needs 4") && strstr(why, " GB, but the device has "), "%s", why);
    float tap = 0.5f;
    hc_route route = {3, 5, &tap, 1, 1, 0};
    player_swap(&p, player_scene(&p, &route, 1));
    player_run_all(&p);
    player_check(&p, 0, 128, PEAK_SHARE);
    player_close(&p);
}

static const struct test tests[] = {
    TEST(every_block_matches_reference, true),
    TEST(every_length_matches_reference, true),
    TEST(any_calls_match_reference, true),
    TEST(half_a_minute_matches_reference, true),
    TEST(every_layout_matches_reference, true),
    TEST(many_sparse_outputs_match_reference, true),
    TEST(matrix_of_noise_is_that_matrix, true),
    TEST(thousands_of_channels_match_the_cpu, true),
    TEST(a_swap_keeps_the_tail, true),
    TEST(a_mask_plays_soon, true),
    TEST(a_swap_waits_while_a_mask_catches_up, true),
    TEST(a_new_mask_in_the_place_of_a_freed_one_is_whole, true),
    TEST(a_large_mask_is_ready_in_time, true),
    TEST(reset_forgets_tail_levels, true),
    TEST(a_mask_too_large_says_what_it_needs, true),
};

int main(void)
{
    return check_main("tail_levels", tests, sizeof tests / sizeof *tests);
}
