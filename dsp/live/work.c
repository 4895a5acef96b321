/* work - the worker's side of a live convolver: opening, loading masks, building engines, freeing what is no longer
 * played. All of it runs on threads of the host's. */
#include "live.h"

#include "dsp/cpu/memory.h"
#include "dsp/cpu/simd.h"
#include "dsp/engine/await.h"
#include "dsp/engine/backend.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    TEXT_BYTES = 1024 + TEXT_CAP, /* of a message */
    MOST_REMARKS = 10             /* of a configuration that are said */
};
static const double HISTORY_S = 6, SLACK_S = 2; /* slack: a slow worker is not overtaken by the audio */
static const double PROBE_LEAST_S = 1, PROBE_MOST_S = 300;

static void say(const hc_live *l, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(const hc_live *l, int level, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    if (!l->config.say) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->config.say(l->config.data, level, text);
}

/* ---- masks ------------------------------------------------------------------------------------- */

/* A configuration has channel counts of its own. */
static bool is_configuration(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ".conf") == 0;
}

static void say_remarks(const hc_live *l, const char *path, const hc_responses *mask)
{
    for (int i = 0; i < mask->n_remarks && i < MOST_REMARKS; i++) say(l, HC_LIVE_WARNING, "%s", mask->remarks[i].text);
    if (mask->n_warnings > MOST_REMARKS) say(l, HC_LIVE_WARNING, "%s: more warnings; see `haloconv check`", path);
}

/* A single response on a single input plays at every output. */
static int spread(hc_responses *mask, int n_out, const char *path, char *why, size_t cap)
{
    hc_route *routes = realloc(mask->routes, (size_t)n_out * sizeof *routes);
    if (!routes) return fail(HC_ENOMEM, why, cap, "%s: no memory for %d routes; free some", path, n_out);
    mask->routes = routes;
    for (int o = 1; o < n_out; o++) {
        routes[o] = routes[0];
        routes[o].out = o;
    }
    mask->n_routes = mask->n_out = n_out;
    return HC_OK;
}

/* Does a mask suit the channels? A failure frees it. */
static int fit(const hc_live *l, const char *path, hc_responses *mask, char *why, size_t cap)
{
    int n_in = l->config.n_in, n_out = l->config.n_out, error = HC_OK;
    if (mask->n_in > n_in || mask->n_out > n_out)
        error =
            fail(HC_EINVAL, why, cap, "%s: is for %d inputs and %d outputs, here are %d and %d; use one with as many",
                 path, mask->n_in, mask->n_out, n_in, n_out);
    else if (mask->n_routes == 0)
        error = fail(HC_EINVAL, why, cap, "%s: connects nothing; give it a route", path);
    else if (mask->n_channels == 1 && n_in == 1 && n_out > 1)
        error = spread(mask, n_out, path, why, cap);
    if (error) hc_responses_free(mask);
    return error;
}

static int read_mask(const hc_live *l, const char *path, int rate, hc_responses *mask, char *why, size_t cap)
{
    unsigned flags = l->config.keep_rate ? HC_KEEP_RATE : 0;
    int error = hc_responses_load(path, is_configuration(path) ? 0 : l->config.n_in, rate, flags, mask, why, cap);
    if (error) {
        hc_responses_free(mask);
        return error;
    }
    say_remarks(l, path, mask);
    return fit(l, path, mask, why, cap);
}

/* ---- engines ----------------------------------------------------------------------------------- */

static void close_engine(hc_live *l, struct failover *f)
{
    if (!failover_close(f)) l->is_clean = false;
}

static void offer(hc_live *l, struct failover *f)
{
    l->offered = f;
    close_engine(l, atomic_exchange_explicit(&l->next, f, memory_order_acq_rel)); /* one that was not taken yet */
}

/* "gpu": only the tail is the device's where the head costs the CPU less than half the time that a call to the device
 * takes, by the costs that are known. Many engines then share the device: none waits for it in its block. */
static const char *gpu_backend(const hc_config *config)
{
    hc_config hybrid = *config, gpu = *config;
    hc_info here = {.size = sizeof here}, there = {.size = sizeof there};
    hybrid.backend = "hybrid";
    gpu.backend = "cuda";
    if (hc_plan(&hybrid, &here, NULL, 0) != HC_OK || hc_plan(&gpu, &there, NULL, 0) != HC_OK) return gpu.backend;
    return here.cost_ns < there.cost_ns / 2 ? hybrid.backend : gpu.backend;
}

/* Frames of the history that an engine leaves alone: the audio thread writes there meanwhile. */
static int64_t slack_frames(const hc_live *l)
{
    return (int64_t)(SLACK_S * l->config.rate);
}

/* How far back the history serves an engine. */
static int64_t history_start(const hc_live *l, const struct failover *f)
{
    int64_t now = input_history_end(&l->history), heard = atomic_load(&l->heard_from);
    int64_t most = l->history.size - slack_frames(l), taps = f->config.max_taps;
    int64_t from = now - (taps < most ? taps : most);
    return from > heard ? from : heard;
}

/* An engine that plays a mask and has processed the past. */
static int make_engine(hc_live *l, int rate, int block, const char *backend, const hc_responses *mask,
                       struct failover **f, char *why, size_t cap)
{
    hc_config config;
    hc_config_init(&config);
    config.rate = rate;
    config.block = block < MOST_BLOCK ? block : MOST_BLOCK;
    config.n_in = l->config.n_in;
    config.n_out = l->config.n_out;
    config.max_taps = mask->n_frames;
    config.n_routes = mask->n_routes > config.n_out ? mask->n_routes : config.n_out;
    config.fade_frames = l->config.fade_ms > 0 ? (int)(l->config.fade_ms * 1e-3 * rate) : 0;
    if (config.fade_frames == 0) config.fade_frames = HC_NO_FADE;
    config.method = l->config.method;
    config.spin = l->config.spin;
    config.n_threads = l->config.n_threads;
    config.backend = strcmp(backend, "gpu") == 0 ? gpu_backend(&config) : backend;
    int error = failover_open(&config, &l->history, l->config.standby_share, f, why, cap);
    if (error) return error;
    error = failover_load(*f, mask->routes, mask->n_routes, why, cap);
    if (!error) error = failover_start(*f, history_start(l, *f), why, cap);
    if (error) close_engine(l, *f);
    return error;
}

static void note(hc_live *l, const char *path, const hc_responses *mask)
{
    const hc_info *info = &l->offered->info;
    pthread_mutex_lock(&l->info_lock);
    l->info = (hc_live_info){.backend = info->backend,
                             .method = info->method,
                             .rate = l->rate,
                             .block = l->block,
                             .longest = mask->n_frames};
    memcpy(l->info.device, info->device, sizeof l->info.device);
    snprintf(l->path, sizeof l->path, "%s", path);
    memset(l->reaches, 0, (size_t)l->config.n_in * (size_t)l->config.n_out);
    for (int i = 0; i < mask->n_routes; i++) l->reaches[mask->routes[i].in * l->config.n_out + mask->routes[i].out] = 1;
    pthread_mutex_unlock(&l->info_lock);
}

static int build_engine(hc_live *l, int rate, int block, const char *backend, const hc_responses *mask, char *why,
                        size_t cap)
{
    int64_t heard = atomic_load(&l->heard_from);
    struct failover *f;
    int error = make_engine(l, rate, block, backend, mask, &f, why, cap);
    if (error && l->config.cpu_if_no_device && strcmp(backend, "cpu") != 0) {
        say(l, HC_LIVE_WARNING, "%s; the CPU plays", why);
        error = make_engine(l, rate, block, "cpu", mask, &f, why, cap);
    }
    if (error) return error;
    if (l->offered) atomic_fetch_add(&l->rebuilds, 1);
    offer(l, f);
    l->rate = rate;
    l->block = block;
    l->built_from = heard;
    snprintf(l->used_backend, sizeof l->used_backend, "%s", backend);
    return HC_OK;
}

/* Play a mask at a rate, in blocks, on a backend: by a swap where the engine can, else by an engine made anew. `fresh`
 * becomes the live convolver's, or is freed; NULL: the mask that plays. */
static int play_mask(hc_live *l, const char *path, hc_responses *fresh, int rate, int block, const char *backend,
                     char *why, size_t cap)
{
    const hc_responses *mask = fresh ? fresh : &l->responses;
    struct failover *f = l->offered;
    bool swaps = f && failover_state(f) == HC_LIVE_OK && rate == l->rate && block == l->block &&
                 strcmp(backend, l->used_backend) == 0 && l->built_from == atomic_load(&l->heard_from) &&
                 mask->n_frames <= f->config.max_taps;
    int error = swaps ? failover_load(f, mask->routes, mask->n_routes, why, cap)
                      : build_engine(l, rate, block, backend, mask, why, cap);
    if (error) {
        if (fresh) hc_responses_free(fresh);
        return error;
    }
    note(l, path, mask);
    if (!fresh) return HC_OK;
    hc_responses_free(&l->responses);
    l->responses = *fresh;
    return HC_OK;
}

/* ---- what the audio thread left ---------------------------------------------------------------- */

static void take_back(hc_live *l)
{
    struct failover *f = atomic_load_explicit(&l->returned, memory_order_acquire);
    if (!f) return;
    atomic_store_explicit(&l->returned, NULL, memory_order_release);
    close_engine(l, f);
}

static void next_probe(hc_live *l, const struct failover *f)
{
    int64_t pause = (int64_t)(1e9 * l->probe_pause_s);
    atomic_store(&l->next_probe_ns, atomic_load(&f->hung) ? now_ns() + pause : INT64_MAX);
}

/* May an engine on the CPU take the device's place, beside the standby engine that may play already? */
static bool cpu_may_play(const hc_live *l, const struct failover *f)
{
    return !f->is_on_cpu && (l->config.standby_share <= 0 || atomic_load(&f->is_able));
}

/* Say that a device was lost or is too slow. Returns whether an engine on the CPU is to be made. */
static bool announce(hc_live *l)
{
    struct failover *f = l->offered;
    if (!f) return false;
    enum hc_live_state state = failover_state(f);
    if (state != HC_LIVE_OK && !f->is_announced) {
        hc_info info = {.size = sizeof info};
        f->is_announced = true;
        l->probe_pause_s = l->probe_pause_s < PROBE_LEAST_S ? PROBE_LEAST_S : fmin(2 * l->probe_pause_s, PROBE_MOST_S);
        next_probe(l, f); /* a device that is late again and again is asked less and less */
        hc_get_info(f->main.engine, &info);
        bool plays = state == HC_LIVE_STANDBY || cpu_may_play(l, f);
        say(l, HC_LIVE_ERROR, "%s: %s; %s", f->info.device, info.error[0] ? info.error : "it answers no more",
            plays                ? "the CPU goes on in its place"
            : l->config.lost_dry ? "the CPU cannot carry this mask, so the input is passed on dry; start again"
                                 : "the CPU cannot carry this mask, so it is silent; start again");
        return state == HC_LIVE_LOST && plays;
    }
    if (state != HC_LIVE_OK || !atomic_exchange(&f->is_slow, false) || !cpu_may_play(l, f)) return false;
    say(l, HC_LIVE_ERROR, "%s: its blocks come too late; the CPU goes on in its place", f->info.device);
    return true;
}

/* A device that was late for too long may have been busy, or asleep. Returns whether an engine on it is to be made. */
static bool probe(hc_live *l)
{
    struct failover *f = l->offered;
    if (!f || !f->is_announced || now_ns() < atomic_load(&l->next_probe_ns)) return false;
    bool answers = failover_answers(f);
    next_probe(l, f);
    if (answers) say(l, HC_LIVE_NOTE, "%s: answers again", f->info.device);
    return answers;
}

/* ---- the worker's call ------------------------------------------------------------------------- */

/* A new mask that cannot be read or played changes nothing; the other requests hold for the mask that plays. */
static int change_mask(hc_live *l, const char *path, int rate, int block, const char *backend)
{
    char why[TEXT_BYTES] = "";
    hc_responses fresh = {0};
    int error = read_mask(l, path, rate, &fresh, why, sizeof why);
    bool is_first = l->offered == NULL;
    if (!error) error = play_mask(l, path, &fresh, rate, block, backend, why, sizeof why);
    if (error) {
        say(l, HC_LIVE_ERROR, "%s", why);
        return error;
    }
    if (!is_first) atomic_fetch_add(&l->masks, 1);
    const hc_info *info = &l->offered->info;
    say(l, HC_LIVE_NOTE, "%s: loaded, %.3f s (%d frames at %d Hz), %d routes; %s, %s", path,
        (double)l->responses.n_frames / rate, l->responses.n_frames, rate, l->responses.n_routes, info->device,
        info->method);
    return HC_OK;
}

/* The mask that plays, at another rate read anew. */
static int change_engine(hc_live *l, int rate, int block, const char *backend)
{
    char why[TEXT_BYTES] = "", path[TEXT_CAP];
    hc_responses fresh = {0};
    memcpy(path, l->path, sizeof path);
    bool reads = rate != l->rate && !l->config.keep_rate;
    int error = reads ? read_mask(l, path, rate, &fresh, why, sizeof why) : HC_OK;
    int old_rate = l->rate, old_block = l->block;
    if (!error) error = play_mask(l, path, reads ? &fresh : NULL, rate, block, backend, why, sizeof why);
    if (error)
        say(l, HC_LIVE_ERROR, "%s", why);
    else if (rate != old_rate || block != old_block)
        say(l, HC_LIVE_NOTE, "now at %d Hz in blocks of %d frames", rate, block);
    else
        say(l, HC_LIVE_NOTE, "a new engine; %s, %s", l->offered->info.device, l->offered->info.method);
    return error;
}

/* Is the engine not what was asked for? */
static bool is_outdated(const hc_live *l, int rate, int block)
{
    return l->refused != atomic_load(&l->format_requests) &&
           (rate != l->rate || block != l->block || l->built_from != atomic_load(&l->heard_from));
}

int hc_live_work(hc_live *l)
{
    char text[TEXT_CAP];
    int error = HC_OK;
    if (!l) return HC_EINVAL;
    pthread_mutex_lock(&l->setup);
    atomic_exchange_explicit(&l->has_work, false, memory_order_acq_rel);
    take_back(l);
    bool to_cpu = announce(l), to_asked = probe(l);
    if (to_cpu || (l->offered && l->offered->is_announced)) snprintf(l->next_backend, sizeof l->next_backend, "cpu");
    if (text_mailbox_take(&l->backend, text)) {
        snprintf(l->asked_backend, sizeof l->asked_backend, "%.*s", BACKEND_CAP - 1, text);
        to_asked = true;
    }
    if (to_asked) memcpy(l->next_backend, l->asked_backend, sizeof l->next_backend);
    bool new_backend = to_cpu || to_asked;
    unsigned requests = atomic_load(&l->format_requests);
    uint64_t format = atomic_load_explicit(&l->format, memory_order_acquire);
    int rate = format_rate(format), block = format_block(format);
    if (text_mailbox_take(&l->mask, text)) error = change_mask(l, text, rate, block, l->next_backend);
    if (l->offered && new_backend && failover_state(l->offered) == HC_LIVE_OK)
        new_backend = strcmp(l->next_backend, l->used_backend) != 0; /* the mask has brought it */
    if (l->offered && (new_backend || is_outdated(l, rate, block))) {
        int failed = change_engine(l, rate, block, l->next_backend);
        if (failed) l->refused = requests; /* until another format is asked for */
        if (!error) error = failed;
    }
    pthread_mutex_unlock(&l->setup);
    return error;
}

int hc_live_play(hc_live *l, const char *path, hc_responses *responses, char *why, size_t cap)
{
    if (!l || !path || !responses)
        return fail(HC_EINVAL, why, cap, "hc_live_play: live, path or responses is NULL; pass all");
    pthread_mutex_lock(&l->setup);
    uint64_t format = atomic_load_explicit(&l->format, memory_order_acquire);
    say_remarks(l, path, responses);
    int error = fit(l, path, responses, why, cap);
    if (!error)
        error = play_mask(l, path, responses, format_rate(format), format_block(format), l->next_backend, why, cap);
    pthread_mutex_unlock(&l->setup);
    *responses = (hc_responses){0};
    return error;
}

/* ---- open and close ---------------------------------------------------------------------------- */

void hc_live_config_init(hc_live_config *config)
{
    *config = (hc_live_config){.size = sizeof *config,
                               .n_in = 2,
                               .n_out = 2,
                               .rate = 48000,
                               .block = 64,
                               .backend = "auto",
                               .method = "auto",
                               .fade_ms = 10,
                               .standby_share = 0.6, /* the rest is for the graph and for bad moments */
                               .history_s = HISTORY_S};
}

/* Copies as many bytes of the caller's struct as its size says; zero and NULL become the default. */
static void resolve(hc_live_config *c, const hc_live_config *given)
{
    hc_live_config standard;
    hc_live_config_init(&standard);
    *c = standard;
    if (!given) return;
    memset(c, 0, sizeof *c);
    memcpy(c, given, given->size < sizeof *c ? given->size : sizeof *c);
    if (!c->n_in) c->n_in = standard.n_in;
    if (!c->n_out) c->n_out = standard.n_out;
    if (!c->rate) c->rate = standard.rate;
    if (!c->block) c->block = standard.block;
    if (!c->backend) c->backend = standard.backend;
    if (!c->method) c->method = standard.method;
    if (c->fade_ms == 0) c->fade_ms = standard.fade_ms;
    if (c->standby_share == 0) c->standby_share = standard.standby_share;
    if (c->history_s == 0) c->history_s = standard.history_s;
}

static int check(const hc_live_config *c, char *why, size_t cap)
{
    hc_config config;
    hc_info info = {.size = sizeof info};
    hc_config_init(&config);
    config.rate = c->rate;
    config.block = c->block < MOST_BLOCK ? c->block : MOST_BLOCK;
    config.n_in = c->n_in;
    config.n_out = c->n_out;
    config.method = c->method;
    config.backend = "cpu";
    if (c->block < 1) return fail(HC_EINVAL, why, cap, "block %d; it must be positive", c->block);
    return hc_plan(&config, &info, why, cap);
}

static bool allocate(hc_live *l)
{
    const hc_live_config *c = &l->config;
    size_t n_in = (size_t)c->n_in, n_out = (size_t)c->n_out, stride = MOST_BLOCK + 16;
    l->frames = memory_place(n_out * stride);
    l->rows = calloc(n_in, sizeof *l->rows);
    l->wet = calloc(n_out, sizeof *l->wet);
    l->faded = calloc(n_out, sizeof *l->faded);
    l->reaches = calloc(n_in, n_out);
    for (size_t o = 0; l->frames && l->faded && o < n_out; o++) l->faded[o] = l->frames + o * stride;
    double history_s = c->history_s + SLACK_S;
    return input_history_open(&l->history, c->n_in, (int64_t)(history_s * c->rate) + 4 * MOST_BLOCK, MOST_BLOCK) &&
           mixer_open(&l->mixer, c->n_in, c->n_out, (int)ceil(c->most_predelay_ms * c->rate / 1000), c->fade_in) &&
           l->frames && l->rows && l->wet && l->faded && l->reaches;
}

int hc_live_open(const hc_live_config *config, hc_live **live, char *why, size_t cap)
{
    if (!live) return fail(HC_EINVAL, why, cap, "hc_live_open: live is NULL");
    *live = NULL;
    if (config && (config->size < sizeof(size_t) || config->size > 4096))
        return fail(HC_EINVAL, why, cap, "hc_live_config.size is %zu; call hc_live_config_init", config->size);
    hc_live *l = calloc(1, sizeof *l);
    if (!l) return fail(HC_ENOMEM, why, cap, "no memory for a live convolver; free some");
    resolve(&l->config, config);
    int error = check(&l->config, why, cap);
    if (!error && !allocate(l))
        error = fail(HC_ENOMEM, why, cap, "no memory for %d channels; free some or use fewer",
                     l->config.n_in + l->config.n_out);
    pthread_mutex_init(&l->setup, NULL);
    pthread_mutex_init(&l->info_lock, NULL);
    l->simd = simd_choose();
    l->fresh = l->is_clean = true;
    l->told_us = INT_MIN;
    l->refused = UINT_MAX;
    snprintf(l->asked_backend, sizeof l->asked_backend, "%s", l->config.backend);
    memcpy(l->next_backend, l->asked_backend, sizeof l->next_backend);
    l->config.method = strcmp(l->config.method, "direct") == 0 ? "direct"
                       : strcmp(l->config.method, "fft") == 0  ? "fft"
                                                               : "auto"; /* the caller's strings may go */
    l->config.backend = NULL;
    feedback_limiter_open(&l->limiter);
    text_mailbox_open(&l->mask);
    text_mailbox_open(&l->backend);
    atomic_init(&l->format, (uint64_t)l->config.rate << 32 | (uint32_t)l->config.block);
    atomic_init(&l->wait_us, l->config.wait_us);
    atomic_init(&l->next_probe_ns, INT64_MAX);
    if (error) {
        hc_live_close(l);
        return error;
    }
    *live = l;
    return HC_OK;
}

int hc_live_close(hc_live *l)
{
    if (!l) return HC_OK;
    struct failover *all[] = {l->playing, l->joining, l->former, atomic_load(&l->next), atomic_load(&l->returned)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close_engine(l, all[i]);
    if (!l->is_clean) return HC_EDEVICE; /* the engine reads the history */
    hc_responses_free(&l->responses);
    input_history_close(&l->history);
    mixer_close(&l->mixer);
    memory_place_free(l->frames);
    free(l->rows);
    free(l->wet);
    free(l->faded);
    free(l->reaches);
    pthread_mutex_destroy(&l->setup);
    pthread_mutex_destroy(&l->info_lock);
    free(l);
    return HC_OK;
}

void hc_live_reset(hc_live *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->setup);
    struct failover *next = atomic_exchange(&l->next, NULL), *newest = next         ? next
                                                                       : l->joining ? l->joining
                                                                                    : l->playing;
    struct failover *all[] = {l->playing, l->joining, l->former};
    take_back(l);
    for (int i = 0; i < 3; i++)
        if (all[i] != newest) close_engine(l, all[i]);
    l->playing = newest;
    l->joining = l->former = NULL;
    l->is_fading = false;
    l->fresh = true;
    memset(l->told, 0, sizeof l->told);
    if (newest) failover_reset(newest);
    atomic_store(&l->heard_from, input_history_end(&l->history));
    l->built_from = atomic_load(&l->heard_from);
    mixer_reset(&l->mixer);
    l->limiter.hold = 0;
    pthread_mutex_unlock(&l->setup);
}

/* ---- what plays -------------------------------------------------------------------------------- */

void hc_live_get_info(hc_live *l, hc_live_info *info)
{
    if (!l || !info) return;
    size_t size = info->size;
    pthread_mutex_lock(&l->info_lock);
    memcpy(info, &l->info, size < sizeof *info ? size : sizeof *info);
    pthread_mutex_unlock(&l->info_lock);
    info->size = size;
}

size_t hc_live_mask(hc_live *l, char *path, size_t cap)
{
    if (!l) return 0;
    pthread_mutex_lock(&l->info_lock);
    size_t length = strlen(l->path);
    snprintf(path, cap, "%s", l->path);
    pthread_mutex_unlock(&l->info_lock);
    return length;
}

int hc_live_reaches(hc_live *l, int in, int out)
{
    if (!l || in < 0 || in >= l->config.n_in || out < 0 || out >= l->config.n_out) return 0;
    pthread_mutex_lock(&l->info_lock);
    int reaches = l->reaches[in * l->config.n_out + out];
    pthread_mutex_unlock(&l->info_lock);
    return reaches;
}
