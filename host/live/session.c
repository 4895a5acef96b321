#include "session.h"

#include "console.h"
#include "dsp/haloconv.h"
#include "guard.h"
#include "host/message.h"
#include "realtime.h"
#include "rig.h"
#include "host/stopwatch.h"
#include "tape.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_BLOCK = 8192,           /* frames of a rig's block; a longer period is played in several */
    MOST_REMARKS = 10,           /* of a configuration that are said */
    CATCH_UP_CALLS = 2,          /* a rig further behind than that is sent back to the builder */
    TAPE_SLACK_S = 2,            /* tape beyond the longest mask, so that a slow builder is not overtaken */
    TAPE_LEAST_S = 4,            /* a longer mask may come later */
    FREEWHEEL_WAIT_US = 10000000 /* a device that needs longer is hung, freewheeling or not */
};
static const double DUCKED_PAUSE_S = 30; /* a howl is said so often */
static const double PROBE_LEAST_S = 1, PROBE_MOST_S = 300;
static const double WAIT_SHARE = 0.5; /* of a block's time, for the device */

struct wish { /* what the control thread and the host want; under lock */
    char mask[512];
    int rate, block;
    char backend[32];
    uint64_t serial, mask_serial;
};

struct session {
    struct session_settings settings;
    int n_in, n_out;
    double start;
    struct tape tape;
    struct mixer mixer;
    struct guard guard;

    /* audio thread */
    struct rig *rig, *former; /* former: crossfaded from */
    int fade_pos, fade_frames;
    float *frames; /* [n_in + 2 n_out][MOST_BLOCK] */
    float **clean, **mix,
        **faded; /* rows of frames: input without NaN, output before it is the host's, the former rig's */

    /* handed over */
    _Atomic(struct rig *) next, returned; /* builder -> audio -> builder, or control while nothing plays */
    _Atomic(struct rig *) playing;        /* what session_get_status looks at; freed by the builder only */
    atomic_int rate, wait_us;
    atomic_bool freewheels;
    atomic_int_fast64_t heard_from; /* tape before this frame is of another rate */

    /* counted */
    struct histogram times;
    atomic_uint_fast64_t blocks, n_frames, late, over, xruns, non_finite, clipped, swaps, rigs;
    atomic_uint_fast64_t xrun_ms;  /* when the last was */
    atomic_uint peak_in, peak_out; /* bits of a float that is not negative: they sort as integers */

    /* the builder */
    pthread_t builder;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool end, busy, has_builder;
    struct wish wish, built;        /* built is written by the builder, under lock */
    bool probe;                     /* ask a device that was given up whether it answers again; under lock */
    double next_probe, probe_pause; /* control */
    uint64_t refused;               /* a wish that could not be fulfilled; under lock */
    char *paths;                    /* [n_in][n_out]: does the mask reach from input to output; under lock */
    unsigned paths_version;         /* under lock */
    hc_responses responses;         /* of the mask that plays; builder */
    struct rig *offered;            /* the last rig made; it plays, or soon will; builder */
    bool is_clean;                  /* no rig hung so far; builder */

    /* said by session_tend */
    const struct rig *said_rig; /* its device's loss was said */
    unsigned said_ducked;
    double next_ducked;
    uint64_t said_non_finite;
};

/* ---- audio ------------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* read from shared memory, no system call */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Bits of |x|; they sort as the numbers do, and infinity and NaN are the largest. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}
static const uint32_t INFINITE = 0x7f800000, ONE = 0x3f800000;

static void raise_peak(atomic_uint *peak, uint32_t bits)
{
    /* session_take_peaks may put 0 in between: then this peak belongs to its next call. */
    if (bits > atomic_load_explicit(peak, memory_order_relaxed))
        atomic_store_explicit(peak, bits, memory_order_relaxed);
}

static void clean_input(struct session *s, const float *const *in, int at, int n)
{
    uint32_t peak = 0;
    uint64_t bad = 0;
    for (int ch = 0; ch < s->n_in; ch++) {
        const float *x = in[ch] + at;
        float *y = s->clean[ch];
        for (int i = 0; i < n; i++) {
            uint32_t bits = bits_of(x[i]);
            bool finite = bits < INFINITE;
            y[i] = finite ? x[i] : 0;
            bits = finite ? bits : 0;
            bad += !finite;
            peak = bits > peak ? bits : peak;
        }
    }
    raise_peak(&s->peak_in, peak);
    if (bad) atomic_fetch_add_explicit(&s->non_finite, bad, memory_order_relaxed);
}

static uint32_t measure_output(struct session *s, float *const *out, int n)
{
    uint32_t peak = 0;
    uint64_t clipped = 0;
    for (int o = 0; o < s->n_out; o++) {
        const float *y = out[o];
        for (int i = 0; i < n; i++) {
            uint32_t bits = bits_of(y[i]);
            clipped += bits > ONE;
            peak = bits > peak ? bits : peak;
        }
    }
    raise_peak(&s->peak_out, peak);
    if (clipped) atomic_fetch_add_explicit(&s->clipped, clipped, memory_order_relaxed);
    return peak;
}

/* Take the builder's rig, unless there is one to fade from or it is too far behind. */
static void take_rig(struct session *s, int n)
{
    if (s->former || atomic_load_explicit(&s->next, memory_order_relaxed) == NULL) return;
    if (atomic_load_explicit(&s->returned, memory_order_relaxed) != NULL) return; /* the builder is not done with it */
    struct rig *rig = atomic_exchange_explicit(&s->next, NULL, memory_order_acquire);
    if (!rig) return;
    bool hurry = !atomic_load_explicit(&s->freewheels, memory_order_relaxed);
    if (rig_missing(rig) > (hurry ? CATCH_UP_CALLS * n : s->tape.cap / 2)) {
        atomic_store_explicit(&s->returned, rig, memory_order_release);
        return;
    }
    rig_catch_up(rig);
    s->former = s->rig;
    s->rig = rig;
    s->fade_pos = 0;
    s->fade_frames = rig->config.fade_frames;
    atomic_store_explicit(&s->playing, rig, memory_order_release);
}

static void silence(float *const *out, int n_out, int n)
{
    for (int o = 0; o < n_out; o++) memset(out[o], 0, (size_t)n * sizeof(float));
}

static enum rig_answer play(struct session *s, struct rig *rig, float *const *out, int n)
{
    if (rig->config.rate == atomic_load_explicit(&s->rate, memory_order_relaxed))
        return rig_process(rig, (const float *const *)s->clean, out, n);
    silence(out, s->n_out, n);
    return RIG_PLAYED; /* the wrong rate: what it would play has the wrong pitch */
}

/* The former rig's output in s->faded becomes s->mix's beginning. */
static void crossfade(struct session *s, int n)
{
    int len = s->fade_frames;
    play(s, s->former, s->faded, n);
    for (int i = 0; i < n; i++) {
        float t = s->fade_pos + i < len ? (float)(s->fade_pos + i + 1) / (float)(len + 1) : 1;
        float gain = t * t * (3 - 2 * t); /* both have heard the same input, so the gains add up to 1 */
        for (int o = 0; o < s->n_out; o++) s->mix[o][i] = s->faded[o][i] + gain * (s->mix[o][i] - s->faded[o][i]);
    }
    s->fade_pos += n;
    if (s->fade_pos < len) return;
    atomic_store_explicit(&s->returned, s->former, memory_order_release);
    s->former = NULL;
}

static int frames_at_once(const struct session *s, int n)
{
    int block = s->rig->config.block;
    if (s->former && s->former->config.block < block) block = s->former->config.block;
    return n < block ? n : block;
}

/* Frames [at, at + n) of the host's buffers, no more than the rigs take at once. */
static void process(struct session *s, const float *const *in, float *const *out, int at, int n)
{
    const float *const *clean = (const float *const *)s->clean;
    clean_input(s, in, at, n);
    enum rig_answer answer = play(s, s->rig, s->mix, n);
    if (s->former) crossfade(s, n);
    tape_write(&s->tape, clean, n);
    rig_heard(s->rig);
    if (s->former) rig_heard(s->former);
    if (answer != RIG_PLAYED) atomic_fetch_add_explicit(&s->late, 1, memory_order_relaxed);
    mixer_run(&s->mixer, clean, s->mix, n, answer == RIG_SILENT || (answer == RIG_LATE && s->settings.late_dry));
    uint32_t peak = measure_output(s, s->mix, n);
    if (s->settings.guard)
        guard_run(&s->guard, s->mix, s->n_out, n, atomic_load_explicit(&s->rate, memory_order_relaxed), peak >= ONE);
    for (int o = 0; o < s->n_out; o++) memcpy(out[o] + at, s->mix[o], (size_t)n * sizeof(float));
}

static int wait_for(const struct session *s, int n, int rate)
{
    if (atomic_load_explicit(&s->freewheels, memory_order_relaxed)) return FREEWHEEL_WAIT_US;
    int asked = atomic_load_explicit(&s->wait_us, memory_order_relaxed);
    if (asked >= 0) return asked > 0 ? asked : -2; /* hc_wait_set: do not wait */
    double wait_us = WAIT_SHARE * 1e6 * frames_at_once(s, n) / rate;
    return (int)(s->former ? wait_us / 2 : wait_us); /* two devices' rigs may have to be waited for */
}

void session_process(struct session *s, const float *const *in, float *const *out, int n)
{
    uint64_t start = now_ns();
    realtime_denormals_off();
    take_rig(s, n);
    int rate = atomic_load_explicit(&s->rate, memory_order_relaxed), wait_us = wait_for(s, n, rate);
    rig_wait(s->rig, wait_us);
    if (s->former) rig_wait(s->former, wait_us);
    for (int at = 0, piece; at < n; at += piece) {
        piece = frames_at_once(s, n - at);
        process(s, in, out, at, piece);
    }
    uint64_t took = now_ns() - start;
    histogram_add(&s->times, took);
    if ((double)took > 1e9 * n / rate && !atomic_load_explicit(&s->freewheels, memory_order_relaxed))
        atomic_fetch_add_explicit(&s->over, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->n_frames, (uint64_t)n, memory_order_relaxed);
}

/* ---- the builder ------------------------------------------------------------------------------- */

static int longest_of(const hc_responses *mask)
{
    int longest = 1;
    for (int i = 0; i < mask->n_routes; i++) {
        int length = mask->routes[i].delay + mask->routes[i].n_taps;
        if (length > longest) longest = length;
    }
    return longest;
}

/* A configuration has channel counts of its own. */
static bool is_configuration(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ".conf") == 0;
}

/* How many inputs suit a mask that leaves it open: stereo for one response and for four, else one a channel; 0: it will
 * say. -1: why has the reason. */
static int choose_inputs(const struct session_settings *settings, const char *path, char *why, size_t cap)
{
    hc_responses mask;
    if (settings->n_inputs > 0 || is_configuration(path)) return settings->n_inputs;
    int error = hc_responses_load(path, 0, 0, HC_KEEP_RATE, &mask, why, cap), n = mask.n_channels;
    hc_responses_free(&mask);
    if (error) return -1;
    if (n == 1 || n == 4) n = 2;
    return settings->most_inputs > 0 && n > settings->most_inputs ? settings->most_inputs : n;
}

static bool read_mask(struct session *s, const struct wish *wish, hc_responses *mask, char *why, size_t cap)
{
    unsigned flags = s->settings.keep_rate ? HC_KEEP_RATE : 0;
    if (hc_responses_load(wish->mask, s->n_in, wish->rate, flags, mask, why, cap) != HC_OK) {
        hc_responses_free(mask);
        return false;
    }
    for (int i = 0; i < mask->n_remarks && i < MOST_REMARKS; i++) console_say("%s", mask->remarks[i].text);
    if (mask->n_warnings > MOST_REMARKS) console_say("%s: more warnings; see `haloconv check`", wish->mask);
    if ((mask->n_in == s->n_in || s->n_in == 0) && (mask->n_out == s->n_out || s->n_out == 0)) return true;
    message_write(why, cap, "%s: it makes %d channels of %d, and this session has %d of %d; start again with it",
                  wish->mask, mask->n_out, mask->n_in, s->n_out, s->n_in);
    hc_responses_free(mask);
    return false;
}

static struct rig *make_rig(struct session *s, const struct wish *wish, const hc_responses *mask, char *why, size_t cap)
{
    hc_config config;
    hc_config_init(&config);
    config.rate = wish->rate;
    config.block = wish->block < MOST_BLOCK ? wish->block : MOST_BLOCK;
    config.n_in = s->n_in;
    config.n_out = s->n_out;
    config.max_taps = longest_of(mask);
    config.n_routes = mask->n_routes;
    config.wait_us = FREEWHEEL_WAIT_US; /* session_process says how long in every block */
    config.fade_frames = (int)(s->settings.fade_ms * 1e-3 * wish->rate);
    config.backend = wish->backend;
    config.method = s->settings.method;
    config.spin = s->settings.spin;
    /* A device's worker inherits this thread's priority. */
    struct realtime_before before = realtime_enter(s->settings.rt_priority - 1);
    struct rig *rig = rig_open(&config, &s->tape, s->settings.most_cpu_share, why, cap);
    realtime_leave(before);
    if (!rig || rig_load(rig, mask->routes, mask->n_routes, why, cap)) return rig;
    rig_close(rig);
    return NULL;
}

/* How far back the tape serves a rig. */
static int64_t history_start(const struct session *s, const struct rig *rig)
{
    int64_t now = tape_pos(&s->tape), heard = atomic_load(&s->heard_from);
    int64_t most = s->tape.cap - (int64_t)TAPE_SLACK_S * rig->config.rate;
    int64_t from = now - (rig->config.max_taps < most ? rig->config.max_taps : most);
    return from > heard ? from : heard;
}

static void close_rig(struct session *s, struct rig *rig)
{
    if (!rig_close(rig)) s->is_clean = false;
}

static void offer(struct session *s, struct rig *rig)
{
    s->offered = rig;
    close_rig(s, atomic_exchange_explicit(&s->next, rig, memory_order_acq_rel)); /* one that was not taken yet */
}

/* What the audio thread gave back: a rig that it no longer plays, or one that was too far behind. */
static void take_back(struct session *s)
{
    struct rig *rig = atomic_load_explicit(&s->returned, memory_order_acquire);
    if (!rig) return;
    atomic_store_explicit(&s->returned, NULL, memory_order_release);
    if (rig == s->offered) {
        rig_follow_on(rig);
        offer(s, rig);
        return;
    }
    /* The control thread may be looking at it; once it lets go of the lock it will look at the new one. */
    pthread_mutex_lock(&s->lock);
    pthread_mutex_unlock(&s->lock);
    close_rig(s, rig);
}

static void note_mask(struct session *s, const struct wish *wish, const hc_responses *mask)
{
    pthread_mutex_lock(&s->lock);
    memset(s->paths, 0, (size_t)s->n_in * (size_t)s->n_out);
    for (int i = 0; i < mask->n_routes; i++) s->paths[mask->routes[i].in * s->n_out + mask->routes[i].out] = 1;
    s->paths_version++;
    s->built = *wish;
    pthread_mutex_unlock(&s->lock);
}

/* Fulfil a wish beside the audio. false: why has the reason, and all is as it was. */
static bool build(struct session *s, struct wish *wish, char *why, size_t cap)
{
    bool read = wish->mask_serial != s->built.mask_serial || wish->rate != s->built.rate;
    hc_responses fresh = {0}, *mask = read ? &fresh : &s->responses;
    if (read && !read_mask(s, wish, mask, why, cap)) return false;
    bool broken = rig_state(s->offered) != RIG_WELL; /* the device must not be touched again */
    bool swap = !broken && wish->rate == s->built.rate && wish->block == s->built.block &&
                longest_of(mask) <= s->offered->config.max_taps;
    bool good;
    if (swap) {
        good = rig_load(s->offered, mask->routes, mask->n_routes, why, cap);
    } else {
        struct rig *rig = make_rig(s, wish, mask, why, cap);
        good = rig != NULL;
        if (rig) {
            rig_warm(rig);
            rig_follow(rig, history_start(s, rig));
            offer(s, rig);
            atomic_fetch_add_explicit(&s->rigs, 1, memory_order_relaxed);
        }
    }
    if (read && good) {
        atomic_fetch_add_explicit(&s->swaps, wish->mask_serial != s->built.mask_serial, memory_order_relaxed);
        hc_responses_free(&s->responses);
        s->responses = fresh;
    } else if (read) {
        hc_responses_free(&fresh);
    }
    if (good) note_mask(s, wish, &s->responses);
    return good;
}

static void fulfil(struct session *s, struct wish wish)
{
    char why[MESSAGE_CAP];
    bool new_mask = wish.mask_serial != s->built.mask_serial;
    int rate = s->built.rate, block = s->built.block;
    if (build(s, &wish, why, sizeof why)) {
        if (new_mask) console_say("%s: loaded, %.3f s", wish.mask, (double)longest_of(&s->responses) / wish.rate);
        if (wish.rate != rate || wish.block != block)
            console_say("now at %d Hz in blocks of %d frames", wish.rate, wish.block);
        return;
    }
    console_error("%s", why);
    pthread_mutex_lock(&s->lock);
    if (s->wish.mask_serial == wish.mask_serial) { /* what comes next is for the mask that plays */
        memcpy(s->wish.mask, s->built.mask, sizeof s->wish.mask);
        s->wish.mask_serial = s->built.mask_serial;
    }
    s->refused = wish.serial;
    pthread_mutex_unlock(&s->lock);
}

/* A device that was late for too long may have been busy, or asleep: an engine on it takes over again, filled from the
 * tape as any other. */
static void probe(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    bool asked = s->probe;
    s->probe = false;
    pthread_mutex_unlock(&s->lock);
    if (!asked || !rig_answers(s->offered)) return;
    console_say("%s: answers again", s->offered->info.device);
    pthread_mutex_lock(&s->lock);
    snprintf(s->wish.backend, sizeof s->wish.backend, "%s", s->settings.backend);
    s->wish.serial++;
    pthread_mutex_unlock(&s->lock);
}

static bool has_work(const struct session *s)
{
    return s->wish.serial != s->built.serial && s->wish.serial != s->refused;
}

static void *builder(void *arg)
{
    struct session *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->end) {
        if (has_work(s) || s->probe || atomic_load(&s->returned)) {
            struct wish wish = s->wish;
            bool work = has_work(s);
            s->busy = true;
            pthread_mutex_unlock(&s->lock);
            take_back(s);
            probe(s);
            if (work) fulfil(s, wish);
            pthread_mutex_lock(&s->lock);
            s->busy = false;
        } else {
            pthread_cond_wait(&s->changed, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------- */

static bool allocate(struct session *s, int rate, char *why, size_t cap)
{
    size_t rows = (size_t)s->n_in + 2 * (size_t)s->n_out;
    int64_t longest = longest_of(&s->responses), least = (int64_t)TAPE_LEAST_S * rate;
    s->frames = malloc(rows * MOST_BLOCK * sizeof *s->frames);
    s->clean = calloc(rows, sizeof *s->clean);
    s->paths = calloc((size_t)s->n_in, (size_t)s->n_out);
    bool good = tape_open(&s->tape, s->n_in, (longest > least ? longest : least) + (int64_t)TAPE_SLACK_S * rate);
    if (!good || !s->frames || !s->clean || !s->paths)
        return message_write(why, cap, "%d channels: no memory; free some or use fewer", s->n_in + s->n_out);
    memset(s->frames, 0, rows * MOST_BLOCK * sizeof *s->frames); /* not first touched by the audio thread */
    for (size_t i = 0; i < rows; i++) s->clean[i] = s->frames + i * MOST_BLOCK;
    s->mix = s->clean + s->n_in;
    s->faded = s->mix + s->n_out;
    return true;
}

struct session *session_open(const struct session_settings *settings, const char *mask, int rate, int block, char *why,
                             size_t cap)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) return (void)message_write(why, cap, "no memory for a session; free some"), NULL;
    s->settings = *settings;
    s->start = stopwatch_now();
    s->is_clean = true;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    atomic_init(&s->rate, rate);
    atomic_init(&s->wait_us, settings->wait_us);
    struct wish *wish = &s->wish;
    *wish = (struct wish){.rate = rate, .block = block, .serial = 1, .mask_serial = 1};
    snprintf(wish->mask, sizeof wish->mask, "%s", mask);
    snprintf(wish->backend, sizeof wish->backend, "%s", settings->backend);
    s->n_in = choose_inputs(settings, mask, why, cap);
    if (s->n_in < 0 || !read_mask(s, wish, &s->responses, why, cap)) goto fail;
    s->n_in = s->responses.n_in;
    s->n_out = s->responses.n_out;
    if (!allocate(s, rate, why, cap)) goto fail;
    if (!(s->rig = make_rig(s, wish, &s->responses, why, cap))) goto fail;
    rig_warm(s->rig);
    rig_follow(s->rig, 0);
    s->offered = s->rig;
    atomic_init(&s->playing, s->rig);
    note_mask(s, wish, &s->responses);
    mixer_open(&s->mixer, s->n_in, s->n_out, rate, settings->wet, settings->dry, settings->gain);
    guard_open(&s->guard);
    if (pthread_create(&s->builder, NULL, builder, s) != 0) {
        message_write(why, cap, "a thread cannot be started; raise the limit on processes (ulimit -u)");
        goto fail;
    }
    s->has_builder = true;
    return s;
fail:
    session_close(s);
    return NULL;
}

bool session_close(struct session *s)
{
    if (!s) return true;
    if (s->has_builder) {
        pthread_mutex_lock(&s->lock);
        s->end = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->builder, NULL);
    }
    close_rig(s, s->rig);
    close_rig(s, s->former);
    struct rig *returned = atomic_load(&s->returned), *next = atomic_load(&s->next);
    close_rig(s, returned);
    close_rig(s, next);
    bool clean = s->is_clean;
    hc_responses_free(&s->responses);
    tape_close(&s->tape);
    free(s->paths);
    free(s->clean);
    free(s->frames);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return clean;
}

/* ---- wishes ------------------------------------------------------------------------------------ */

static void wish_end(struct session *s)
{
    s->wish.serial++;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void session_wish_mask(struct session *s, const char *path)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->wish.mask, sizeof s->wish.mask, "%s", path);
    s->wish.mask_serial++;
    wish_end(s);
}

void session_resize(struct session *s, int rate, int block)
{
    pthread_mutex_lock(&s->lock);
    if (rate == s->wish.rate && block == s->wish.block) {
        pthread_mutex_unlock(&s->lock);
        return;
    }
    if (rate != s->wish.rate) {
        atomic_store(&s->heard_from, tape_pos(&s->tape));
        atomic_store(&s->rate, rate);
    }
    s->wish.rate = rate;
    s->wish.block = block;
    wish_end(s);
}

bool session_is_idle(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    bool idle = !s->busy && !has_work(s);
    pthread_mutex_unlock(&s->lock);
    return idle && !atomic_load(&s->next) && !atomic_load(&s->returned);
}

bool session_has_offer(struct session *s)
{
    return atomic_load(&s->next) != NULL;
}

void session_wait(struct session *s, int wait_us)
{
    atomic_store(&s->wait_us, wait_us);
}

void session_freewheel(struct session *s, bool on)
{
    atomic_store(&s->freewheels, on);
}

void session_count_xrun(struct session *s)
{
    atomic_fetch_add_explicit(&s->xruns, 1, memory_order_relaxed);
    atomic_store_explicit(&s->xrun_ms, (uint64_t)((stopwatch_now() - s->start) * 1e3), memory_order_relaxed);
}

/* ---- looking at it ----------------------------------------------------------------------------- */

int session_n_in(const struct session *s)
{
    return s->n_in;
}

int session_n_out(const struct session *s)
{
    return s->n_out;
}

const hc_port *session_ports(const struct session *s, bool outputs)
{
    return outputs ? s->responses.out_port : s->responses.in_port;
}

struct mixer *session_mixer(struct session *s)
{
    return &s->mixer;
}

bool session_path(struct session *s, int in, int out)
{
    bool dry = mixer_get(&s->mixer, MIXER_DRY) > 0 && (s->n_in == 1 || in == out);
    pthread_mutex_lock(&s->lock);
    bool path = s->paths[in * s->n_out + out];
    pthread_mutex_unlock(&s->lock);
    return path || dry;
}

unsigned session_paths_version(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    unsigned version = s->paths_version;
    pthread_mutex_unlock(&s->lock);
    return 2 * version + (mixer_get(&s->mixer, MIXER_DRY) > 0);
}

static const char *const state_names[] = {"well", "understudy", "dry"};

/* A device that was given up: say so, and let the builder make a rig on the CPU that can do all that the first could.
 */
static void tend_rig(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    struct rig *rig = atomic_load_explicit(&s->playing, memory_order_acquire);
    enum rig_state state = rig_state(rig);
    bool news = state != RIG_WELL && rig != s->said_rig;
    if (news) { /* one that is late again and again is asked less and less */
        s->probe_pause = s->probe_pause < PROBE_LEAST_S ? PROBE_LEAST_S : fmin(2 * s->probe_pause, PROBE_MOST_S);
        s->next_probe = stopwatch_now() + s->probe_pause;
    }
    char device[sizeof rig->info.device], error[sizeof rig->info.error] = "";
    if (news) {
        s->said_rig = rig;
        memcpy(device, rig->info.device, sizeof device);
        hc_info info;
        hc_get_info(rig->main.engine, &info);
        memcpy(error, info.error, sizeof error);
        snprintf(s->wish.backend, sizeof s->wish.backend, "cpu"); /* of engines to come */
    }
    pthread_mutex_unlock(&s->lock);
    if (!news) return;
    console_error("%s: %s; %s", device, *error ? error : "it answers no more",
                  state == RIG_UNDERSTUDY
                      ? "the CPU goes on in its place"
                      : "the CPU cannot carry this mask, so the input is passed on dry; start again");
}

/* Wake the builder for what the audio thread gave back, and for another look at a device that was late. */
static void tend_builder(struct session *s)
{
    double now = stopwatch_now();
    pthread_mutex_lock(&s->lock);
    struct rig *rig = atomic_load_explicit(&s->playing, memory_order_acquire);
    if (rig_state(rig) != RIG_WELL && atomic_load(&rig->hung) && now > s->next_probe) {
        s->probe = true;
        s->next_probe = now + s->probe_pause;
    }
    if (s->probe || atomic_load(&s->returned)) pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void session_tend(struct session *s)
{
    tend_rig(s);
    unsigned ducked = atomic_load(&s->guard.ducked);
    if (ducked != s->said_ducked && stopwatch_now() > s->next_ducked) {
        console_say("the output stays at full scale (feedback?) and is turned down by 40 dB for two seconds; move the "
                    "microphone, lower --gain, or give --no-guard");
        s->said_ducked = ducked;
        s->next_ducked = stopwatch_now() + DUCKED_PAUSE_S;
    }
    uint64_t bad = atomic_load(&s->non_finite);
    if (bad && !s->said_non_finite)
        console_say("the input has NaN or infinite samples; they count as 0 (the summary says how many)");
    s->said_non_finite = bad;
    tend_builder(s);
}

void session_get_status(struct session *s, struct session_status *status)
{
    memset(status, 0, sizeof *status);
    pthread_mutex_lock(&s->lock);
    struct rig *rig = atomic_load_explicit(&s->playing, memory_order_acquire);
    memcpy(status->device, rig->info.device, sizeof rig->info.device);
    memcpy(status->mask, s->built.mask, sizeof s->built.mask);
    status->backend = rig_state(rig) == RIG_UNDERSTUDY ? "cpu" : rig->info.backend;
    status->method = rig->info.method;
    status->state = state_names[rig_state(rig)];
    status->rate = s->built.rate;
    status->block = s->built.block;
    pthread_mutex_unlock(&s->lock);
    status->seconds = stopwatch_now() - s->start;
    status->blocks = atomic_load(&s->blocks);
    status->frames = atomic_load(&s->n_frames);
    status->late = atomic_load(&s->late);
    status->over = atomic_load(&s->over);
    status->xruns = atomic_load(&s->xruns);
    status->last_xrun_s = (double)atomic_load(&s->xrun_ms) / 1e3;
    status->swaps = atomic_load(&s->swaps);
    status->rigs = atomic_load(&s->rigs);
    status->non_finite = atomic_load(&s->non_finite);
    status->clipped = atomic_load(&s->clipped);
    status->ducked = atomic_load(&s->guard.ducked);
    histogram_look(&s->times, &status->times);
}

void session_count_on(struct session *s, const struct session_status *before)
{
    s->start -= before->seconds;
    atomic_fetch_add(&s->blocks, before->blocks);
    atomic_fetch_add(&s->n_frames, before->frames);
    atomic_fetch_add(&s->late, before->late);
    atomic_fetch_add(&s->over, before->over);
    atomic_fetch_add(&s->xruns, before->xruns);
    atomic_store(&s->xrun_ms, (uint64_t)(before->last_xrun_s * 1e3));
    atomic_fetch_add(&s->swaps, before->swaps);
    atomic_fetch_add(&s->rigs, before->rigs + 1); /* and the one that begins here */
    atomic_fetch_add(&s->non_finite, before->non_finite);
    atomic_fetch_add(&s->clipped, before->clipped);
    atomic_fetch_add(&s->guard.ducked, (unsigned)before->ducked);
    s->said_non_finite = before->non_finite;
    s->said_ducked = (unsigned)before->ducked;
    histogram_count_on(&s->times, &before->times);
}

static float take_peak(atomic_uint *peak)
{
    uint32_t bits = atomic_exchange_explicit(peak, 0, memory_order_relaxed);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void session_take_peaks(struct session *s, float *in, float *out)
{
    *in = take_peak(&s->peak_in);
    *out = take_peak(&s->peak_out);
}
