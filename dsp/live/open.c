/* open - opens, closes and resets a live convolver. */
#include "live.h"

#include "dsp/base/memory.h"
#include "dsp/base/samples.h"
#include "dsp/base/struct_copy.h"
#include "dsp/device/backend.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces zero and NULL by the default. */
static void live_defaults(hc_live_config *c)
{
    if (!c->n_in) c->n_in = 2;
    if (!c->n_out) c->n_out = 2;
    if (!c->rate) c->rate = 48000;
    if (!c->block) c->block = 64;
    if (!c->backend) c->backend = "auto";
    if (!c->method) c->method = "auto";
    if (c->fade_ms == 0) c->fade_ms = 10;
    if (c->standby_share == 0) c->standby_share = 0.6; /* leaves 40 % of a block for the host's graph and for delays */
    if (c->history_s == 0) c->history_s = 6;
}

void hc_live_config_init(hc_live_config *config)
{
    if (!config) return;
    *config = (hc_live_config){.size = sizeof *config};
    live_defaults(config);
}

static int check_config(const hc_live_config *c, struct reason *why)
{
    hc_config config;
    hc_info info = {.size = sizeof info};
    hc_config_init(&config);
    config.rate = c->rate;
    config.block = c->block < MAX_BLOCK ? c->block : MAX_BLOCK;
    config.n_in = c->n_in;
    config.n_out = c->n_out;
    config.n_sources = c->n_sources;
    config.wait_us = c->wait_us;
    config.n_threads = c->n_threads;
    config.method = c->method;
    config.backend = "cpu";
    if (!isfinite(c->glide_ms) || c->glide_ms > MAX_GLIDE_MS)
        return fail(HC_EINVAL, why, "glide_ms is %g; give at most %d", c->glide_ms, MAX_GLIDE_MS);
    if (!(c->grid_deg == 0 || c->grid_deg == HC_GRID_NONE || (c->grid_deg >= 0.5 && c->grid_deg <= 45)))
        return fail(HC_EINVAL, why, "grid_deg is %g; give 0.5 to 45, 0 for the default, or HC_GRID_NONE", c->grid_deg);
    if (isnan(c->fade_ms)) return fail(HC_EINVAL, why, "fade_ms is NaN; give milliseconds, or -1 for no fade");
    if (isnan(c->standby_share))
        return fail(HC_EINVAL, why, "standby_share is NaN; give a share of a block's time, or -1 for none");
    if (strlen(c->backend) >= BACKEND_CAP)
        return fail(HC_EINVAL, why, "backend has %d bytes or more; give one that hc_config lists", (int)BACKEND_CAP);
    if (c->block < 1) return fail(HC_EINVAL, why, "block is %d; give 1 or more", c->block);
    if (c->rate > MAX_RATE) return fail(HC_EINVAL, why, "rate is %d Hz; give at most %d", c->rate, MAX_RATE);
    if (!(c->history_s > 0 && c->history_s <= MAX_HISTORY_S))
        return fail(HC_EINVAL, why, "history_s is %g; give seconds above 0, at most %d", c->history_s, MAX_HISTORY_S);
    double predelay = c->max_predelay_ms * c->rate / 1000;
    if (!(predelay >= 0 && predelay <= MAX_PREDELAY))
        return fail(HC_EINVAL, why, "max_predelay_ms is %g; give 0 to %g", c->max_predelay_ms,
                    1e3 * MAX_PREDELAY / c->rate);
    return hc_plan(&config, &info, REASON_TEXT(why));
}

static bool allocate(hc_live *l)
{
    const hc_live_config *c = &l->config;
    size_t n_in = (size_t)c->n_in, n_out = (size_t)c->n_out, stride = MAX_BLOCK + 16;
    l->frames = memory_packed(n_out * stride);
    l->rows = calloc(n_in, sizeof *l->rows);
    l->wet = calloc(n_out, sizeof *l->wet);
    l->faded = calloc(n_out, sizeof *l->faded);
    l->reaches = calloc(n_in, n_out);
    l->n_entries = calloc((size_t)c->n_sources + 1, sizeof *l->n_entries);
    l->positions = (struct positions){.n = c->n_sources, .mixes = c->mix_entries >= 0, .glide_ms = c->glide_ms};
    for (size_t o = 0; l->frames && l->faded && o < n_out; o++) l->faded[o] = l->frames + o * stride;
    double history_s = c->history_s + HISTORY_SLACK_S;
    return mailboxes_open(&l->ready.loads, 1, sizeof(struct text_request)) &&
           mailboxes_open(&l->backend, 1, sizeof(struct text_request)) &&
           mailboxes_open(&l->positions.targets, c->n_sources, sizeof(struct steer_target)) &&
           input_history_open(&l->stream.history, c->n_in, (int64_t)(history_s * c->rate) + 4 * MAX_BLOCK, MAX_BLOCK) &&
           signals_open(&l->signals, c->n_in, c->n_out) &&
           mixer_open(&l->mixer, c->n_in, c->n_out, (int)ceil(c->max_predelay_ms * c->rate / 1000), c->fade_in) &&
           l->frames && l->rows && l->wet && l->faded && l->reaches && l->n_entries;
}

int hc_live_open(const hc_live_config *config, hc_live **live, char *why, size_t cap)
{
    if (!live) return fail(HC_EINVAL, REASON(why, cap), "hc_live_open: live is NULL; pass a pointer to a hc_live *");
    *live = NULL;
    hc_live_config copy;
    int error = struct_copy(config, &copy, sizeof copy, "hc_live_config", REASON(why, cap));
    if (error) return error;
    hc_live *l = calloc(1, sizeof *l);
    if (!l) return fail(HC_ENOMEM, REASON(why, cap), "no memory for a live convolver; free some memory");
    l->config = copy;
    live_defaults(&l->config);
    error = check_config(&l->config, REASON(why, cap));
    if (!error && !allocate(l))
        error = fail(HC_ENOMEM, REASON(why, cap), "no memory for %d channels; free some memory or use fewer",
                     l->config.n_in + l->config.n_out);
    pthread_mutex_init(&l->setup, NULL);
    pthread_mutex_init(&l->info_lock, NULL);
    ready_open(&l->ready, &l->stream, &l->has_work);
    l->samples = samples_choose();
    l->is_fresh = true;
    l->sent_us = INT_MIN;
    l->refused = UINT_MAX;
    snprintf(l->requested_backend, sizeof l->requested_backend, "%s", l->config.backend);
    memcpy(l->next_backend, l->requested_backend, sizeof l->next_backend);
    l->config.method = strcmp(l->config.method, "direct") == 0 ? "direct"
                       : strcmp(l->config.method, "fft") == 0  ? "fft"
                                                               : "auto"; /* static: the caller may free its text */
    l->config.backend = NULL;
    feedback_limiter_open(&l->limiter);
    atomic_init(&l->stream.format, (uint64_t)l->config.rate << 32 | (uint32_t)l->config.block);
    atomic_init(&l->trim_db, INFINITY);
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
    struct live_engine *all[] = {l->playing, l->joining, l->former, atomic_load(&l->next), atomic_load(&l->returned)};
    ready_close(&l->ready);
    keep_close(l);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) live_engine_close(all[i]);
    bool has_hung = l->stream.has_hung;
    live_mask_free(&l->mask);
    input_history_close(&l->stream.history);
    signals_close(&l->signals);
    mixer_close(&l->mixer);
    memory_packed_free(l->frames);
    free(l->rows);
    free(l->wet);
    free(l->faded);
    free(l->reaches);
    free(l->n_entries);
    mailboxes_close(&l->positions.targets);
    mailboxes_close(&l->backend);
    mailboxes_close(&l->ready.loads);
    pthread_mutex_destroy(&l->setup);
    pthread_mutex_destroy(&l->info_lock);
    free(l);
    return has_hung ? HC_EDEVICE : HC_OK;
}

void hc_live_reset(hc_live *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->setup);
    struct live_engine *all[] = {l->former, l->playing, l->joining, atomic_exchange(&l->next, NULL)}, *newest = NULL;
    ready_put_or_close(&l->ready, atomic_exchange(&l->returned, NULL));
    for (int i = 0; i < 4; i++) { /* oldest first */
        if (!all[i]) continue;
        ready_put_or_close(&l->ready, newest);
        newest = all[i];
    }
    l->playing = newest;
    l->joining = l->former = NULL;
    l->is_fading = false;
    l->is_fresh = true;
    memset(l->sent, 0, sizeof l->sent);
    int64_t begin = input_history_end(&l->stream.history);
    atomic_store(&l->stream.begin, begin);
    if (newest) {
        failover_reset(newest->failover);
        newest->begin = begin;
        newest->forgotten = atomic_load(&l->stream.forgotten);
    }
    ready_reset(&l->ready);
    mixer_reset(&l->mixer);
    l->limiter.hold = 0;
    pthread_mutex_unlock(&l->setup);
}
