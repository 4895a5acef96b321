#include "player.h"
#include "dsp/device/backend.h" /* fade_gain: the curve is the engine's promise */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hc_config player_config(const char *method, int block, int max_taps, int n_in, int n_out)
{
    hc_config c;
    hc_config_init(&c);
    c.method = method;
    c.block = block > 0 ? block : HC_BLOCK_FILES;
    c.max_taps = max_taps;
    c.n_in = n_in;
    c.n_out = n_out;
    return c;
}

void player_open(struct player *p, const hc_config *config, const char *backend, int64_t cap, uint64_t seed)
{
    char why[256] = "";
    memset(p, 0, sizeof *p);
    p->info.size = sizeof p->info;
    p->config = *config;
    p->config.backend = backend;
    if (p->config.wait_us == 0) p->config.wait_us = -1;
    p->seed = seed;
    p->cap = cap;
    int code = hc_open(&p->config, &p->engine, why, sizeof why);
    check(code == HC_OK, "hc_open(%s, %s, block %d, taps %d): %d, %s", backend, config->method, config->block,
          config->max_taps, code, why);
    hc_get_info(p->engine, &p->info);
    bool is_named = strncmp(p->info.backend, backend, strlen(p->info.backend)) == 0;
    check(is_named || strcmp(backend, "auto") == 0, "asked for %s, got %s", backend, p->info.backend);
    p->call_in = must_alloc((size_t)config->n_in, sizeof *p->call_in);
    p->call_out = must_alloc((size_t)config->n_out, sizeof *p->call_out);
    p->in = must_alloc((size_t)config->n_in, sizeof *p->in);
    p->out = must_alloc((size_t)config->n_out, sizeof *p->out);
    for (int ch = 0; ch < config->n_in; ch++) p->in[ch] = must_alloc((size_t)cap, sizeof **p->in);
    for (int ch = 0; ch < config->n_out; ch++) p->out[ch] = must_alloc((size_t)cap, sizeof **p->out);
    player_noise(p, seed);
}

void player_noise(struct player *p, uint64_t seed)
{
    struct random r = random_seeded(seed);
    for (int ch = 0; ch < p->config.n_in; ch++)
        for (int64_t i = 0; i < p->cap; i++) p->in[ch][i] = random_sample(&r);
}

void player_close(struct player *p)
{
    hc_close(p->engine);
    for (int ch = 0; ch < p->config.n_in; ch++) free(p->in[ch]);
    for (int ch = 0; ch < p->config.n_out; ch++) free(p->out[ch]);
    free(p->in);
    free(p->out);
    free(p->call_in);
    free(p->call_out);
}

struct scene player_scene(struct player *p, const hc_route *routes, int n)
{
    char why[256] = "";
    struct scene s = {routes, n, NULL};
    int code = hc_mask_make(p->engine, routes, sizeof *routes, n, &s.mask, why, sizeof why);
    check(code == HC_OK, "hc_mask_make of %d routes: %d, %s", n, code, why);
    return s;
}

void player_swap(struct player *p, struct scene scene)
{
    int code = hc_mask_swap(p->engine, scene.mask);
    check(code == HC_OK, "hc_mask_swap: %d", code);
    p->waiting = scene;
    p->is_waiting = true;
}

void player_reset(struct player *p)
{
    hc_reset(p->engine);
    struct scene now = {0};
    if (p->n_changes) now = p->changes[p->n_changes - 1].to; /* a fade under way is at its end */
    p->n_before += p->n_frames;
    p->n_frames = 0;
    p->taken_at = 0;
    p->changes[0] = (struct change){0, 0, now};
    p->n_changes = 1;
}

/* A requested scene becomes the coming one once no change is coming or fading. A swap to the playing mask is none. */
static void take_up(struct player *p)
{
    const struct change *last = p->n_changes ? &p->changes[p->n_changes - 1] : NULL;
    if (!p->is_waiting || p->is_coming || (last && p->n_frames < last->at + last->len)) return;
    p->is_waiting = false;
    if (p->waiting.mask == (last ? last->to.mask : NULL)) return;
    p->coming = p->waiting;
    p->is_coming = true;
    p->taken_at = p->n_frames;
}

/* Notes whether the fade of the coming scene began with the last call. It may begin up to swap_delay frames late, but
 * at once if the engine has no input history or the scene is silence. */
static void note_begin(struct player *p, int64_t at)
{
    uint64_t begun = p->info.swaps;
    hc_get_info(p->engine, &p->info);
    if (p->info.swaps == begun) {
        bool may_wait = at > 0 && p->coming.mask;
        check(!p->is_coming || (may_wait && p->n_frames - p->taken_at < p->info.swap_delay),
              "%s, block %d: the swap of frame %lld has not begun by frame %lld; swap_delay is %d", p->info.backend,
              p->info.block, (long long)p->taken_at, (long long)p->n_frames, p->info.swap_delay);
        return;
    }
    check(p->is_coming && p->info.swaps == begun + 1, "a swap that nobody asked for, at %lld", (long long)at);
    check((int64_t)p->info.swap_frame == p->n_before + at, "the swap began at frame %lld, and says %lld", (long long)at,
          (long long)p->info.swap_frame - (long long)p->n_before);
    check(p->n_changes < PLAYER_SWAPS, "test swaps more than %d times", PLAYER_SWAPS);
    int len = at == 0 || p->config.fade_frames == HC_NO_FADE ? 0 : p->config.fade_frames;
    p->changes[p->n_changes++] = (struct change){at, len, p->coming};
    p->is_coming = false;
}

void player_run(struct player *p, int n)
{
    check(p->n_frames + n <= p->cap, "test asks for more than its own %lld frames", (long long)p->cap);
    if (n > 0) take_up(p);
    for (int ch = 0; ch < p->config.n_in; ch++) p->call_in[ch] = p->in[ch] + p->n_frames;
    for (int ch = 0; ch < p->config.n_out; ch++) p->call_out[ch] = p->out[ch] + p->n_frames;
    int code = hc_process(p->engine, p->call_in, p->call_out, n);
    check(code == HC_OK, "hc_process of %d frames at %lld: %d", n, (long long)p->n_frames, code);
    p->n_frames += n;
    if (n > 0) note_begin(p, p->n_frames - n);
}

void player_run_up_to(struct player *p, int n, int64_t end)
{
    player_run(p, n < end - p->n_frames ? n : (int)(end - p->n_frames));
}

void player_run_all(struct player *p)
{
    while (p->n_frames < p->cap) player_run_up_to(p, p->info.block < 4096 ? p->info.block : 4096, p->cap);
}

static double scene_frame(const struct player *p, const struct scene *s, int out, int64_t frame)
{
    return reference_frame(s->routes, s->n_routes, (const float *const *)p->in, p->n_frames, out, frame);
}

/* loudest: raised to the magnitude of both signals of a fade before their gains: rounding errors scale with it. */
static double wants(const struct player *p, int out, int64_t frame, double *loudest)
{
    int i = p->n_changes - 1;
    while (i >= 0 && p->changes[i].at > frame) i--;
    if (i < 0) return 0; /* silence until a mask is swapped in */
    const struct change *now = &p->changes[i];
    double to = scene_frame(p, &now->to, out, frame);
    *loudest = fmax(*loudest, fabs(to));
    if (frame >= now->at + now->len) return to;
    struct scene silence = {0};
    double from = scene_frame(p, i > 0 ? &p->changes[i - 1].to : &silence, out, frame);
    *loudest = fmax(*loudest, fabs(from));
    double g = (double)fade_gain((int)(frame - now->at), now->len);
    return g * to + (1 - g) * from;
}

double player_wants(const struct player *p, int out, int64_t frame)
{
    double loudest = 0;
    return wants(p, out, frame, &loudest);
}

void player_check(struct player *p, int64_t first, int64_t last, double share)
{
    enum { EDGE = 8 };
    int64_t span = last - first, n = 0, taps = 1;
    for (int i = 0; i < p->n_changes; i++) {
        int64_t t = 0;
        for (int r = 0; r < p->changes[i].to.n_routes; r++) t += p->changes[i].to.routes[r].n_taps;
        if (t > taps) taps = t;
    }
    int64_t budget = SANITIZED ? 4000000 : 40000000; /* float64 products */
    bool all = span * taps <= budget;
    int n_sample = budget / taps > 150 ? (int)(budget / taps) : 150;
    int64_t *frames = must_alloc((size_t)(all ? span : (4 + 2 * p->n_changes) * EDGE + n_sample), sizeof *frames);
    if (all) {
        for (int64_t i = 0; i < span; i++) frames[n++] = first + i;
    } else {
        struct random r = random_seeded(p->seed + 7);
        int64_t part = p->info.partition, edges[4 + 2 * PLAYER_SWAPS] = {first, last - EDGE, first + part - EDGE / 2,
                                                                         first + (span - 1) / part * part - EDGE / 2};
        int n_edges = 4;
        for (int i = 0; i < p->n_changes; i++) { /* a fade's first frames, and where it ends */
            edges[n_edges++] = p->changes[i].at;
            edges[n_edges++] = p->changes[i].at + p->changes[i].len - EDGE / 2;
        }
        for (int e = 0; e < n_edges; e++)
            for (int j = 0; j < EDGE; j++)
                if (edges[e] + j >= first && edges[e] + j < last) frames[n++] = edges[e] + j;
        for (int j = 0; j < n_sample; j++) frames[n++] = first + random_int(&r, 0, (int)(span - 1));
    }

    double *want = must_alloc((size_t)(n * p->config.n_out), sizeof *want), peak = p->loudness;
    for (int ch = 0; ch < p->config.n_out; ch++)
        for (int64_t i = 0; i < n; i++) want[ch * n + i] = wants(p, ch, frames[i], &peak);
    double tol = share * peak, worst = 0;
    for (int ch = 0; ch < p->config.n_out; ch++)
        for (int64_t i = 0; i < n; i++) {
            float got = p->out[ch][frames[i]];
            double err = fabs((double)got - want[ch * n + i]);
            if (err > worst) worst = err;
            check(
                err <= tol, /* written so that NaN fails */
                "%s %s, block %d, partition %d, max_taps %d, %d in, %d out: channel %d, frame %lld of %lld: got %.9g, "
                "want %.9g, off by %.3g, allowed %.3g, seed %llu",
                p->info.backend, p->info.method, p->info.block, p->info.partition, p->config.max_taps, p->config.n_in,
                p->config.n_out, ch, (long long)frames[i], (long long)p->n_frames, (double)got, want[ch * n + i], err,
                tol, (unsigned long long)p->seed);
        }
    if (getenv("HC_TEST_VERBOSE") && peak > 0)
        printf("    %s %s block %d partition %d taps %d: worst %.1f dB of the peak\n", p->info.backend, p->info.method,
               p->info.block, p->info.partition, p->config.max_taps, 20 * log10(worst / peak + 1e-12));
    free(frames);
    free(want);
}
