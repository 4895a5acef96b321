#include "convolver.h"
#include "ports.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int refuse(int code, char *why, size_t cap, const char *format, ...) __attribute__((format(printf, 4, 5)));
static int refuse(int code, char *why, size_t cap, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, cap, format, args);
    va_end(args);
    return code;
}

/* ---- masks -------------------------------------------------------------------------------------- */

int responses_fit(const char *path, const struct convolver_shape *shape, hc_responses *r, char *why, size_t cap)
{
    const char *dot = strrchr(path, '.');
    bool configuration = dot && strcasecmp(dot, ".conf") == 0; /* has counts of its own */
    int error = hc_responses_load(path, configuration ? 0 : shape->n_in, shape->rate, 0, r, why, cap);
    if (!error && (r->n_in > shape->n_in || r->n_out > shape->n_out))
        error = refuse(HC_EINVAL, why, cap,
                       "%s: is for %d inputs and %d outputs, this plugin has %d and %d; use one with as many", path,
                       r->n_in, r->n_out, shape->n_in, shape->n_out);
    if (!error && r->n_routes == 0) error = refuse(HC_EINVAL, why, cap, "%s: connects nothing; give it a route", path);
    if (error) hc_responses_free(r);
    return error;
}

static int longest(const hc_responses *r)
{
    int most = 1;
    for (int i = 0; i < r->n_routes; i++) {
        int taps = r->routes[i].n_taps + r->routes[i].delay;
        if (taps > most) most = taps;
    }
    return most;
}

static int play_mask(struct convolver *c, const hc_responses *r, char *why, size_t cap)
{
    hc_route all[MOST_CHANNELS]; /* one input and a mono mask: the same to every output */
    const hc_route *routes = r->routes;
    int n = r->n_routes;
    if (c->shape.n_in == 1 && r->n_channels == 1 && n == 1) {
        for (n = 0; n < c->shape.n_out; n++) {
            all[n] = r->routes[0];
            all[n].out = n;
        }
        routes = all;
    }
    hc_mask *mask;
    int error = hc_mask_make(c->engine, routes, n, &mask, why, cap);
    if (error) return error;
    hc_mask_swap(c->engine, mask);
    hc_mask_free(c->engine, mask); /* it plays, and goes with its engine */
    return HC_OK;
}

/* ---- open and close ----------------------------------------------------------------------------- */

/* What "GPU" means for an engine: its tail alone where the CPU needs less than half the time for the rest than a call
 * of the GPU takes, by the costs that are known. Many instances then share the GPU: none waits for it in its block. */
static const char *gpu_backend(const hc_config *config)
{
    hc_config hybrid = *config, gpu = *config;
    hc_info here = {.size = sizeof here}, there = {.size = sizeof there};
    hybrid.backend = "hybrid";
    gpu.backend = "cuda";
    if (hc_plan(&hybrid, &here, NULL, 0) != HC_OK || hc_plan(&gpu, &there, NULL, 0) != HC_OK) return gpu.backend;
    return here.cost_ns < there.cost_ns / 2 ? hybrid.backend : gpu.backend;
}

int convolver_open(const struct convolver_shape *shape, const char *backend, const hc_responses *r, const char *path,
                   struct convolver **out, char *why, size_t cap)
{
    struct convolver *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return refuse(HC_ENOMEM, why, cap, "%s: no memory for a convolver; free some", path);
    hc_config config;
    hc_config_init(&config);
    config.rate = shape->rate;
    config.block = shape->block;
    config.n_in = shape->n_in;
    config.n_out = shape->n_out;
    config.max_taps = longest(r);
    config.n_routes = r->n_routes > shape->n_out ? r->n_routes : shape->n_out;
    config.fade_frames = HC_NO_FADE;
    config.backend = backend;
    if (strcmp(backend, "cuda") == 0) config.backend = gpu_backend(&config);
    /* A host gives a plugin a part of the block's time; what takes longer than half of it is late. */
    config.wait_us = (int)(500000.0 * shape->block / shape->rate);
    c->shape = *shape;
    c->max_taps = config.max_taps;
    c->wait_us = config.wait_us;
    c->path = strdup(path);
    int error = c->path ? hc_open(&config, &c->engine, why, cap)
                        : refuse(HC_ENOMEM, why, cap, "%s: no memory for a convolver; free some", path);
    if (!error) error = play_mask(c, r, why, cap);
    if (error) {
        convolver_close(c);
        return error;
    }
    *out = c;
    return HC_OK;
}

void convolver_close(struct convolver *c)
{
    if (!c) return;
    hc_close(c->engine);
    free(c->path);
    free(c);
}

void convolver_reset(struct convolver *c, const struct history *history)
{
    hc_reset(c->engine);
    c->epoch = atomic_load(&history->epoch);
    c->heard = 0;
}

/* ---- the audio thread, and the worker before it ------------------------------------------------- */

void convolver_wait(struct convolver *c, bool waits)
{
    if (waits != c->waits) hc_wait_set(c->engine, waits ? -1 : c->wait_us);
    c->waits = waits;
}

int convolver_play(struct convolver *c, const float *const *in, float *const *out, int n)
{
    const float *x[MOST_CHANNELS];
    float *y[MOST_CHANNELS];
    int worst = HC_OK;
    for (int done = 0, part; done < n; done += part) {
        part = n - done < c->shape.block ? n - done : c->shape.block;
        for (int ch = 0; ch < c->shape.n_in; ch++) x[ch] = in[ch] + done;
        for (int ch = 0; ch < c->shape.n_out; ch++) y[ch] = out[ch] + done;
        int result = hc_process(c->engine, x, y, part);
        if (result != HC_OK && worst != HC_EDEVICE) worst = result;
    }
    c->heard += n;
    return worst;
}

bool convolver_catch_up(struct convolver *c, struct history *history, float *const *scratch, int64_t n)
{
    int64_t end = atomic_load_explicit(&history->end, memory_order_acquire), span = history_span(history);
    if (end - c->heard > span) c->heard = end - span; /* far too slow: it has missed something */
    while (c->heard < end && n > 0) {
        const float *in[MOST_CHANNELS];
        int64_t part = end - c->heard;
        if (part > c->shape.block) part = c->shape.block;
        if (part > n) part = n;
        history_read(history, c->heard, &part, in);
        convolver_play(c, in, scratch, (int)part);
        history_done(history, c->heard);
        n -= part;
    }
    return c->heard == end;
}

int convolver_hear(struct convolver *c, struct history *history, char *why, size_t cap)
{
    size_t block = (size_t)c->shape.block, n_out = (size_t)c->shape.n_out;
    float *samples = malloc(n_out * block * sizeof *samples), *scratch[MOST_CHANNELS];
    if (!samples)
        return refuse(HC_ENOMEM, why, cap, "no memory for %zu frames of %zu outputs; free some", block, n_out);
    for (size_t ch = 0; ch < n_out; ch++) scratch[ch] = samples + ch * block;
    c->epoch = atomic_load_explicit(&history->epoch, memory_order_acquire);
    int64_t end = atomic_load_explicit(&history->end, memory_order_acquire);
    c->heard = end > c->max_taps ? end - c->max_taps : 0;
    convolver_wait(c, true);
    /* A host that renders about as fast as this runs away: the audio thread then does the rest. */
    for (int64_t lag = end - c->heard, before = INT64_MAX; lag > 0 && lag <= before / 2;
         before = lag, lag = end - c->heard) {
        for (int64_t left = lag; left > 0; left -= c->shape.block)
            convolver_catch_up(c, history, scratch, left < c->shape.block ? left : c->shape.block);
        end = atomic_load_explicit(&history->end, memory_order_acquire);
    }
    convolver_wait(c, false);
    free(samples);
    return HC_OK;
}
