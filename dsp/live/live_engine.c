#include "live_engine.h"

#include "dsp/backends/gpu_rules.h"
#include "dsp/engine/config.h"
#include "messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void live_engine_close(struct live_engine *e)
{
    if (!e) return;
    if (!failover_close(e->failover)) e->stream->has_hung = true;
    meter_close(&e->meter);
    free(e);
}

void live_engine_forget(struct live_engine *e)
{
    int64_t forgotten = atomic_load_explicit(&e->stream->forgotten, memory_order_acquire);
    if (e->forgotten != forgotten) failover_forget(e->failover, forgotten);
    e->forgotten = forgotten;
}

/* Returns the backend that "gpu" means, by the known costs (gpu_rules.h). */
static const char *gpu_backend(const hc_config *config)
{
    hc_config hybrid = *config, gpu = *config;
    hc_info here = {.size = sizeof here}, there = {.size = sizeof there};
    hybrid.backend = "hybrid";
    gpu.backend = "cuda";
    if (config->n_sources > 0) return gpu.backend; /* the costs of sources are not known */
    if (hc_plan(&hybrid, &here, NULL, 0) != HC_OK || hc_plan(&gpu, &there, NULL, 0) != HC_OK) return gpu.backend;
    return gpu_is_hybrid(here.cost_ns, there.cost_ns) ? hybrid.backend : gpu.backend;
}

static void engine_config(const hc_live_config *c, const struct engine_format *format, const char *backend,
                          const struct live_mask *mask, hc_config *config)
{
    const hc_responses *responses = &mask->responses;
    hc_config_init(config);
    config->rate = format->rate;
    config->block = format->block < MAX_BLOCK ? format->block : MAX_BLOCK;
    config->n_in = c->n_in;
    config->n_out = c->n_out;
    config->max_taps = responses->n_frames > 0 ? responses->n_frames : 1;
    if (mask->banks) {
        config->n_sources = mask->banks->n_sources;
        config->bank_taps = mask->banks->n_taps;
    }
    config->n_routes = responses->n_routes > config->n_out ? responses->n_routes : config->n_out;
    /* limit it to the longest fade that engine_crossfade can count */
    config->fade_frames = c->fade_ms > 0 ? (int)fmin(CONFIG_MAX_FADE, c->fade_ms * 1e-3 * format->rate) : 0;
    if (config->fade_frames == 0) config->fade_frames = HC_NO_FADE;
    config->method = c->method;
    config->spin = c->spin;
    config->n_threads = c->n_threads;
    config->backend = strcmp(backend, "gpu") == 0 ? gpu_backend(config) : backend;
}

/* Returns the first frame of the history that a new engine processes: whole blocks before the end, so that partitions
 * and blocks end together. slack: so many of the oldest frames must not be read. */
static int64_t catch_up_start(const struct live_engine *e, int64_t slack)
{
    const hc_config *c = &e->failover->config;
    int longest = c->n_sources > 0 && c->bank_taps > c->max_taps ? c->bank_taps : c->max_taps;
    int64_t block = c->block, taps = (longest + block - 1) / block * block, max = e->stream->history.size - slack;
    int64_t from = input_history_end(&e->stream->history) - (taps < max ? taps : max);
    int64_t first = e->begin > e->forgotten ? e->begin : e->forgotten;
    return from > first ? from : first;
}

static int make(const hc_live_config *c, struct stream *stream, struct positions *positions,
                const struct engine_format *format, const char *backend, const struct live_mask *mask,
                struct live_engine **engine, struct reason *why)
{
    hc_config config;
    struct live_engine *e = calloc(1, sizeof *e);
    int error = HC_OK;
    *engine = NULL;
    engine_config(c, format, backend, mask, &config);
    if (!e || !meter_open(&e->meter, config.n_out, config.rate))
        error = fail(HC_ENOMEM, why, "no memory for an engine; free some memory");
    if (!error) e->stream = stream;
    if (!error) e->begin = atomic_load(&stream->begin);
    if (!error) e->forgotten = atomic_load(&stream->forgotten);
    if (!error) error = failover_open(&config, &stream->history, positions, c->standby_share, &e->failover, why);
    if (!error) error = failover_load(e->failover, mask->responses.routes, mask->responses.n_routes, mask->banks, why);
    if (!error) error = failover_start(e->failover, catch_up_start(e, (int64_t)HISTORY_SLACK_S * c->rate), why);
    if (error)
        live_engine_close(e);
    else
        *engine = e;
    return error;
}

int live_engine_make(const hc_live_config *c, struct stream *stream, struct positions *positions,
                     const struct engine_format *format, const struct live_mask *mask, bool reports,
                     struct live_engine **engine, struct reason *why)
{
    int error = make(c, stream, positions, format, format->backend, mask, engine, why);
    if (!error || !c->cpu_if_no_device || strcmp(format->backend, "cpu") == 0) return error;
    if (reports) live_report(c, HC_LIVE_WARNING, "%s; the CPU plays", why->text);
    return make(c, stream, positions, format, "cpu", mask, engine, why);
}

bool live_engine_fits(const struct live_engine *e, const struct live_mask *mask)
{
    const hc_config *c = &e->failover->config;
    const struct bank_set *banks = mask->banks;
    if (mask->responses.n_frames > c->max_taps) return false;
    if (!banks) return c->n_sources == 0;
    return banks->n_sources <= c->n_sources && banks->n_taps <= c->bank_taps;
}
