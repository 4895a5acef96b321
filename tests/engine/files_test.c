/* An engine for files (HC_BLOCK_FILES): large calls of many partitions on many threads are the same convolution. */
#include "haloconv_files.h"
#include "player.h"

#include <stdlib.h>
#include <string.h>

static hc_config config_for(const char *method, int max_taps, int n_in, int n_out, int n_threads)
{
    hc_config c = player_config(method, 0, max_taps, n_in, n_out);
    c.n_routes = n_in * n_out;
    c.n_threads = n_threads;
    c.fade_frames = 300;
    return c;
}

/* n_in x n_out responses, each n_taps but for a few shorter ones; one pair has none. */
static hc_route *matrix_of_shared_taps(const float *taps, int n_in, int n_out, int n_taps, int *n)
{
    hc_route *routes = must_alloc((size_t)(n_in * n_out), sizeof *routes);
    *n = 0;
    for (int out = 0; out < n_out; out++)
        for (int in = 0; in < n_in; in++) {
            if (n_in > 2 && in == 1 && out == 2) continue;
            int shorter = (in + out) % 3 == 2 ? n_taps / 3 + 1 : n_taps;
            routes[(*n)++] = (hc_route){.in = in, .out = out, .taps = taps + 97 * (in * n_out + out), .n_taps = shorter,
                                        .gain = 0.5f};
        }
    return routes;
}

struct file_play {
    struct player p;
    float *taps;
    hc_route *routes;
    int n_routes;
};

static void file_play_open(struct file_play *s, const char *backend, const hc_config *c, int64_t frames, uint64_t seed)
{
    struct random r = random_seeded(seed);
    s->taps = noise(&r, c->max_taps + 97 * c->n_in * c->n_out);
    s->routes = matrix_of_shared_taps(s->taps, c->n_in, c->n_out, c->max_taps, &s->n_routes);
    player_open(&s->p, c, backend, frames, seed);
}

static void file_play_close(struct file_play *s)
{
    player_close(&s->p);
    free(s->routes);
    free(s->taps);
}

/* Calls of these sizes, repeated until `frames` frames are played. 0: a whole block. */
static void file_play_calls(struct file_play *s, const int *sizes, int n_sizes, int64_t frames)
{
    for (int i = 0; s->p.n_frames < frames; i++) {
        bool is_whole = sizes[i % n_sizes] == 0 || sizes[i % n_sizes] > s->p.info.block;
        player_run_up_to(&s->p, is_whole ? s->p.info.block : sizes[i % n_sizes], frames);
    }
}

static void whole_blocks_match_reference(const char *backend)
{
    static const struct { int n_taps, n_in, n_out; } shapes[] = {
        {1, 1, 1}, {100, 2, 2}, {3000, 1, 3}, {8192, 3, 1}, {8193, 2, 2}, {40000, 5, 4}, {150001, 2, 2}};
    static const char *const methods[] = {"fft", "auto"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int m = 0; m < 2; m++) {
            if (SANITIZED && shapes[i].n_taps > 10000) continue;
            hc_config c = config_for(methods[m], shapes[i].n_taps, shapes[i].n_in, shapes[i].n_out, 3);
            int64_t frames = 600000;
            struct file_play s;
            file_play_open(&s, backend, &c, frames, 11 + i);
            player_swap(&s.p, player_scene(&s.p, s.routes, s.n_routes));
            file_play_calls(&s, (const int[]){0}, 1, frames);
            player_check(&s.p, 0, frames, PEAK_SHARE);
            file_play_close(&s);
        }
}

/* One stream of parts of a partition, of whole partitions that begin inside a block, and of whole blocks. */
static void parts_and_wholes_mix(const char *backend)
{
    static const int sizes[] = {0, 5, 2043, 70001, 1, 33333, 4096};
    hc_config c = config_for("fft", 6000, 2, 3, 2);
    int64_t frames = 400000;
    struct file_play s;
    file_play_open(&s, backend, &c, frames, 21);
    player_swap(&s.p, player_scene(&s.p, s.routes, s.n_routes));
    file_play_calls(&s, sizes, sizeof sizes / sizeof *sizes, frames);
    player_check(&s.p, 0, frames, PEAK_SHARE);
    file_play_close(&s);
}

/* A mask of many responses, short and long ones and one that pairs share, in an engine that was opened for one route:
 * its upload buffer on the device is small then, and the mask is uploaded in many chunks. */
static void responses_of_any_length_share_a_mask(const char *backend)
{
    enum { IN = 4, OUT = 5, TAPS = 9000 };
    static const char *const methods[] = {"fft", "direct"};
    for (int m = 0; m < 2; m++) {
        hc_config c = config_for(methods[m], TAPS, IN, OUT, 2);
        int64_t frames = 40000;
        struct file_play s;
        c.n_routes = 1;
        file_play_open(&s, backend, &c, frames, 61);
        int P = s.p.info.n_partitions > 0 ? s.p.info.partition : 64;
        const int lengths[] = {P + 1, 1, TAPS, P, 2, P - 1, TAPS - 1, 3, 2 * P, 63, 64, 65};
        hc_route routes[IN * OUT];
        for (int i = 0; i < IN * OUT; i++) {
            int n = lengths[i % (int)(sizeof lengths / sizeof *lengths)];
            routes[i] = (hc_route){.in = i % IN, .out = i / IN, .taps = s.taps + 97 * i, .n_taps = n < TAPS ? n : TAPS,
                                   .gain = 1 - 0.04f * (float)i};
        }
        routes[13] = (hc_route){.in = 13 % IN, .out = 13 / IN, .taps = routes[2].taps, .n_taps = TAPS,
                                .gain = routes[2].gain};
        player_swap(&s.p, player_scene(&s.p, routes, IN * OUT));
        file_play_calls(&s, (const int[]){9000, 5, 0}, 3, frames);
        player_check(&s.p, 0, frames, PEAK_SHARE);
        file_play_close(&s);
    }
}

/* The engine skips products with silence: before the first sound, in gaps shorter and longer than the responses,
 * different for each input, and after the last sound. The tails of earlier sound stay complete. */
static void sounds_between_silences_match_reference(const char *backend)
{
    enum { IN = 40, OUT = 3, TAPS = 30000, FRAMES = 400000 };
    static const int sizes[] = {0, 0, 10000, 0, 777};
    if (SANITIZED) check_skip("too slow under a sanitizer");
    static const int loud[][2] = {{61003, 61067}, {80000, 80001}, {150000, 260000}, {284000, 284064}, {399990, 400000}};
    hc_config c = config_for("fft", TAPS, IN, OUT, 0);
    struct file_play s;
    file_play_open(&s, backend, &c, FRAMES, 31);
    for (int ch = 0; ch < IN; ch++)
        for (int i = 0; i < FRAMES; i++) {
            bool sounds = false;
            for (int k = 0; k < 5; k++)
                sounds |= i >= loud[k][0] + 131 * ch && i < loud[k][1] + 131 * ch && (ch + k) % 4;
            if (!sounds) s.p.in[ch][i] = 0;
        }
    player_swap(&s.p, player_scene(&s.p, s.routes, s.n_routes));
    file_play_calls(&s, sizes, 5, FRAMES);
    player_check(&s.p, 0, FRAMES, PEAK_SHARE);
    file_play_close(&s);
}

/* A swap in a file fades as it does live, and a reset forgets. */
static void swap_and_reset_in_a_file(const char *backend)
{
    static const char *const methods[] = {"fft", "direct"};
    for (int m = 0; m < 2; m++) {
        hc_config c = config_for(methods[m], 700, 2, 2, 2);
        struct file_play s;
        file_play_open(&s, backend, &c, 300000, 31);
        struct scene whole = player_scene(&s.p, s.routes, s.n_routes), part = player_scene(&s.p, s.routes, 2);
        player_swap(&s.p, whole);
        file_play_calls(&s, (const int[]){0, 1000}, 2, 100000);
        player_swap(&s.p, part);
        file_play_calls(&s, (const int[]){0, 777}, 2, 200000);
        player_swap(&s.p, (struct scene){NULL, 0, NULL});
        file_play_calls(&s, (const int[]){0}, 1, 250000);
        player_check(&s.p, 0, s.p.n_frames, PEAK_SHARE);
        player_reset(&s.p);
        player_swap(&s.p, whole);
        file_play_calls(&s, (const int[]){0}, 1, 60000);
        player_check(&s.p, 0, s.p.n_frames, PEAK_SHARE);
        file_play_close(&s);
    }
}

/* Which thread computes which part is chance; the output does not depend on it. */
static void any_number_of_threads_is_identical(const char *backend)
{
    static const int threads[] = {1, 2, 3, 7};
    static const char *const methods[] = {"fft", "direct"};
    int64_t frames = SANITIZED ? 100000 : 300000;
    for (int m = 0; m < 2; m++) {
        float *first = NULL;
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            hc_config c = config_for(methods[m], m ? 40 : 20000, 6, 5, threads[i]);
            struct file_play s;
            file_play_open(&s, backend, &c, frames, 41);
            player_swap(&s.p, player_scene(&s.p, s.routes, s.n_routes));
            file_play_calls(&s, (const int[]){0, 12345}, 2, frames);
            if (!first) first = must_alloc((size_t)frames * 5, sizeof *first);
            for (int out = 0; out < 5; out++) {
                float *want = first + out * frames;
                if (i == 0) memcpy(want, s.p.out[out], (size_t)frames * sizeof *want);
                for (int64_t f = 0; f < frames; f++)
                    check(memcmp(&want[f], &s.p.out[out][f], sizeof *want) == 0,
                          "%s, %d threads, channel %d, frame %lld: got %.9g, 1 thread gave %.9g", methods[m],
                          threads[i], out, (long long)f, (double)s.p.out[out][f], (double)want[f]);
            }
            if (i == 0) player_check(&s.p, 0, frames, PEAK_SHARE);
            file_play_close(&s);
        }
        free(first);
    }
}

/* Several queued blocks of mixed sizes, some in the engine's own buffers, give the same output as single blocks. */
static void submit_and_collect_are_process(const char *backend)
{
    static const int sizes[] = {0, 0, 0, 0, 0, 5000, 0, 3, 70000, 0, 0, 0, 1, 0};
    enum { N = sizeof sizes / sizeof *sizes };
    hc_config c = config_for("fft", 200000, 2, 3, 2); /* several partitions: the reset has spectra to forget */
    struct file_play s;
    c.n_routes = 6;
    c.queue_depth = 3;
    file_play_open(&s, backend, &c, 3000000, 51);
    struct scene scene = player_scene(&s.p, s.routes, s.n_routes);
    int block = s.p.info.block, queue_depth = s.p.info.queue_depth, from[N + 1] = {0};
    check(queue_depth == 3, "queue depth %d", queue_depth);
    player_swap(&s.p, scene);
    for (int i = 0; i < N; i++) {
        int n = sizes[i] == 0 || sizes[i] > block ? block : sizes[i];
        from[i + 1] = from[i] + n;
        player_run(&s.p, n);
    }
    player_check(&s.p, 0, s.p.n_frames, PEAK_SHARE);
    float *got = must_alloc((size_t)from[N] * 3, sizeof *got), *outs[3];
    const float *ins[2];
    void *buffer;
    const void *read;
    hc_reset(s.p.engine);
    check(hc_collect(s.p.engine, NULL) == HC_EINVAL, "collected what was not submitted");
    for (int started = 0, done = 0; done < N;) {
        if (started < N && started - done < queue_depth) {
            int n = from[started + 1] - from[started];
            for (int ch = 0; ch < 2; ch++) ins[ch] = s.p.in[ch] + from[started];
            check(hc_block_buffers(s.p.engine, started, &buffer, NULL) == HC_OK, "no buffers for block %d", started);
            for (int ch = 0; ch < 2 && started % 3 == 0; ch++)
                memcpy((float *)buffer + (size_t)ch * (size_t)block, ins[ch], (size_t)n * sizeof(float));
            int rc = hc_submit(s.p.engine, started % 3 == 0 ? NULL : ins, n);
            check(rc == HC_OK, "hc_submit of block %d: %d", started, rc);
            started++;
            continue;
        }
        check(started == N || hc_submit(s.p.engine, ins, 1) == HC_EINVAL, "more than %d blocks were taken",
              queue_depth);
        for (int out = 0; out < 3; out++) outs[out] = got + (size_t)out * from[N] + from[done];
        check(hc_process(s.p.engine, ins, outs, 1) == HC_EINVAL, "hc_process between hc_submit and hc_collect");
        check(hc_block_buffers(s.p.engine, done, NULL, &read) == HC_OK, "no buffers of block %d", done);
        int n = hc_collect(s.p.engine, done % 2 ? NULL : outs);
        check(n == from[done + 1] - from[done], "block %d: %d frames, want %d", done, n, from[done + 1] - from[done]);
        for (int out = 0; out < 3 && done % 2; out++)
            memcpy(outs[out], (const float *)read + (size_t)out * (size_t)block, (size_t)n * sizeof(float));
        done++;
    }
    for (int out = 0; out < 3; out++)
        for (int f = 0; f < from[N]; f++) {
            float y = got[(size_t)out * from[N] + f], want = s.p.out[out][f];
            check(memcmp(&y, &want, sizeof y) == 0, "%s, channel %d, frame %d: got %.9g, hc_process gave %.9g", backend,
                  out, f, (double)y, (double)want);
        }
    free(got);
    file_play_close(&s);
}

/* Long masks have long partitions and blocks. A call that ends inside a partition, and threads, change nothing. */
static void masks_of_minutes_match_reference(const char *backend)
{
    if (strcmp(backend, "cpu") != 0) check_skip("of the CPU only");
    static const int sizes[] = {0, 0, 12345, 0};
    const int n_taps = (1 << (SANITIZED ? 21 : 22)) + 1, frames = n_taps / 4 * 5;
    struct file_play one, many;
    hc_config c = config_for("auto", n_taps, 1, 1, 1);
    file_play_open(&one, backend, &c, frames, 71);
    c.n_threads = 3;
    file_play_open(&many, backend, &c, frames, 71);
    check(one.p.info.partition >= n_taps / 64, "%d taps: partition %d", n_taps, one.p.info.partition);
    player_swap(&one.p, player_scene(&one.p, one.routes, one.n_routes));
    player_swap(&many.p, player_scene(&many.p, many.routes, many.n_routes));
    file_play_calls(&one, sizes, sizeof sizes / sizeof *sizes, frames);
    file_play_calls(&many, sizes, sizeof sizes / sizeof *sizes, frames);
    check(memcmp(one.p.out[0], many.p.out[0], (size_t)frames * sizeof(float)) == 0, "3 threads give another output");
    player_check(&one.p, 0, frames, PEAK_SHARE);
    file_play_close(&one);
    file_play_close(&many);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(whole_blocks_match_reference, ONCE_A_DEVICE),
        TEST(parts_and_wholes_mix, ONCE_A_DEVICE),
        TEST(responses_of_any_length_share_a_mask, ONCE_A_DEVICE),
        TEST(sounds_between_silences_match_reference, ONCE_A_DEVICE),
        TEST(swap_and_reset_in_a_file, ONCE_A_DEVICE),
        TEST(any_number_of_threads_is_identical, ONCE_A_DEVICE),
        TEST(submit_and_collect_are_process, ONCE_A_DEVICE),
        TEST(masks_of_minutes_match_reference, ONCE_A_DEVICE),
    };
    return check_main("files", tests, sizeof tests / sizeof *tests);
}
