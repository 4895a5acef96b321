/* live_engine - makes the engines of a session and closes them. */
#include "live.h"

#include "dsp/engine/config.h"
#include "messages.h"

#include <math.h>
#include <string.h>

void live_close_engine(hc_live *l, struct failover *f)
{
    if (!failover_close(f)) l->has_hung = true;
}

void live_close_or_put(hc_live *l, struct failover *f)
{
    if (f && !ready_put(f)) live_close_engine(l, f);
}

void live_close_returned(hc_live *l)
{
    live_close_or_put(l, atomic_exchange_explicit(&l->returned, NULL, memory_order_acq_rel));
}

/* The backend that "gpu" stands for: hybrid, if by the known costs the head takes the CPU less than half the time that
 * a call to the device takes. Many engines can then share the device, because none waits for it in its block. */
static const char *gpu_backend(const hc_config *config)
{
    hc_config hybrid = *config, gpu = *config;
    hc_info here = {.size = sizeof here}, there = {.size = sizeof there};
    hybrid.backend = "hybrid";
    gpu.backend = "cuda";
    if (config->n_sources > 0) return gpu.backend; /* the costs of sources are not known */
    if (hc_plan(&hybrid, &here, NULL, 0) != HC_OK || hc_plan(&gpu, &there, NULL, 0) != HC_OK) return gpu.backend;
    return here.cost_ns < there.cost_ns / 2 ? hybrid.backend : gpu.backend;
}

/* The first frame of the history that a new engine processes: whole blocks before the end, so that its partitions end
 * where blocks do. */
static int64_t catch_up_start(const hc_live *l, const struct failover *f)
{
    int longest =
        f->config.n_sources > 0 && f->config.bank_taps > f->config.max_taps ? f->config.bank_taps : f->config.max_taps;
    int64_t begin = f->begin, block = f->config.block, taps = (longest + block - 1) / block * block;
    int64_t most = l->history.size - (int64_t)HISTORY_SLACK_S * l->config.rate;
    int64_t from = input_history_end(&l->history) - (taps < most ? taps : most);
    return from > begin ? from : begin;
}

/* Makes an engine that plays a mask and has processed the history. */
static int make_engine(hc_live *l, const struct engine_format *format, const char *backend,
                       const struct live_mask *live_mask, struct failover **f, struct reason *why)
{
    const hc_responses *mask = &live_mask->responses;
    hc_config config;
    hc_config_init(&config);
    config.rate = format->rate;
    config.block = format->block < MAX_BLOCK ? format->block : MAX_BLOCK;
    config.n_in = l->config.n_in;
    config.n_out = l->config.n_out;
    config.max_taps = mask->n_frames > 0 ? mask->n_frames : 1;
    if (live_mask->banks) {
        config.n_sources = live_mask->banks->n_sources;
        config.bank_taps = live_mask->banks->n_taps;
    }
    config.n_routes = mask->n_routes > config.n_out ? mask->n_routes : config.n_out;
    /* engine_crossfade, too, counts frames of the fade. */
    config.fade_frames =
        l->config.fade_ms > 0 ? (int)fmin(CONFIG_MAX_FADE, l->config.fade_ms * 1e-3 * format->rate) : 0;
    if (config.fade_frames == 0) config.fade_frames = HC_NO_FADE;
    config.method = l->config.method;
    config.spin = l->config.spin;
    config.n_threads = l->config.n_threads;
    config.backend = strcmp(backend, "gpu") == 0 ? gpu_backend(&config) : backend;
    int64_t begin = atomic_load(&l->history_begin);
    int error = failover_open(&config, &l->history, &l->places, l->config.standby_share, f, why);
    if (error) return error;
    (*f)->begin = begin;
    error = failover_load(*f, mask->routes, mask->n_routes, live_mask->banks, why);
    if (!error) error = failover_start(*f, catch_up_start(l, *f), why);
    if (error) live_close_engine(l, *f);
    return error;
}

int live_engine_make(hc_live *l, const struct engine_format *format, const struct live_mask *mask, bool says,
                     struct failover **f, struct reason *why)
{
    int error = make_engine(l, format, format->backend, mask, f, why);
    if (!error || !l->config.cpu_if_no_device || strcmp(format->backend, "cpu") == 0) return error;
    if (says) live_say(&l->config, HC_LIVE_WARNING, "%s; the CPU plays", why->text);
    return make_engine(l, format, "cpu", mask, f, why);
}

bool live_engine_fits(const struct failover *f, const struct live_mask *mask)
{
    const struct bank_set *banks = mask->banks;
    if (mask->responses.n_frames > f->config.max_taps) return false;
    if (!banks) return f->config.n_sources == 0;
    return banks->n_sources <= f->config.n_sources && banks->n_taps <= f->config.bank_taps;
}
