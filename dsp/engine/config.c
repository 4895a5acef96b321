#include "config.h"

#include "dsp/base/struct_copy.h"
#include "dsp/device/backend.h"

#include <string.h>

enum {
    MAX_CHANNELS = 65536,
    MAX_BLOCK = 1 << 20,
    MAX_TAPS = 1 << 28,
    MAX_BANK_TAPS = 1 << 24,
    MAX_STEER_FADE = 65536,
};

/* The padding at the end of a struct is undefined, so a later field must not lie there. */
_Static_assert(sizeof(hc_config) == offsetof(hc_config, steer_fade) + sizeof(int), "hc_config ends in padding");

const char *hc_version(void)
{
    return HC_VERSION;
}

static void config_set_defaults(hc_config *c)
{
    if (!c->rate) c->rate = 48000;
    if (!c->block) c->block = 64;
    if (!c->n_in) c->n_in = 2;
    if (!c->n_out) c->n_out = 2;
    if (!c->max_taps) c->max_taps = 48000;
    if (!c->bank_taps) c->bank_taps = 48000;
    if (!c->fade_frames) c->fade_frames = 512;
    if (!c->backend) c->backend = "auto";
    if (!c->method) c->method = "auto";
}

void hc_config_init(hc_config *config)
{
    if (!config) return;
    *config = (hc_config){.size = sizeof *config};
    config_set_defaults(config);
}

static int config_check_shape(const hc_config *c, struct reason *why)
{
    if (c->rate < 1) return fail(HC_EINVAL, why, "rate is %d Hz; give a positive rate", c->rate);
    if (c->block != HC_BLOCK_FILES && (c->block < 1 || c->block > MAX_BLOCK))
        return fail(HC_EINVAL, why, "block %d is out of range; give 1 to %d, or HC_BLOCK_FILES", c->block, MAX_BLOCK);
    if (c->n_in < 1 || c->n_in > MAX_CHANNELS)
        return fail(HC_EINVAL, why, "n_in is %d; give 1 to %d input channels", c->n_in, MAX_CHANNELS);
    if (c->n_out < 1 || c->n_out > MAX_CHANNELS)
        return fail(HC_EINVAL, why, "n_out is %d; give 1 to %d output channels", c->n_out, MAX_CHANNELS);
    if (c->max_taps < 1 || c->max_taps > MAX_TAPS)
        return fail(HC_EINVAL, why, "max_taps %d is out of range; give 1 to %d", c->max_taps, MAX_TAPS);
    if (c->n_routes < 0) return fail(HC_EINVAL, why, "n_routes %d is negative; give 0 or more", c->n_routes);
    return HC_OK;
}

static int check_samples(const char *field, int samples, struct reason *why)
{
    int kind = samples & ~HC_BIG_ENDIAN;
    if (kind >= HC_PLANAR && kind <= HC_FLOAT && samples != HC_BIG_ENDIAN) return HC_OK;
    return fail(HC_EINVAL, why, "%s is %d; give a value of enum hc_samples", field, samples);
}

static int check_sources(const hc_config *c, struct reason *why)
{
    if (c->n_sources < 0 || c->n_sources > c->n_in)
        return fail(HC_EINVAL, why, "n_sources %d is out of range; give 0 to n_in, %d", c->n_sources, c->n_in);
    if (c->n_sources > 0 && c->block == HC_BLOCK_FILES)
        return fail(HC_EINVAL, why, "n_sources is for live blocks only; use hc_render for files");
    if (c->bank_taps < 1 || c->bank_taps > MAX_BANK_TAPS)
        return fail(HC_EINVAL, why, "bank_taps %d is out of range; give 1 to %d", c->bank_taps, MAX_BANK_TAPS);
    if (c->steer_fade < 0 || c->steer_fade > MAX_STEER_FADE)
        return fail(HC_EINVAL, why, "steer_fade %d is out of range; give 0 to %d", c->steer_fade, MAX_STEER_FADE);
    return HC_OK;
}

static int check_work(const hc_config *c, struct reason *why)
{
    if (c->wait_us < HC_WAIT_NONE)
        return fail(HC_EINVAL, why, "wait_us is %d; give microseconds, HC_WAIT_FOREVER or HC_WAIT_NONE", c->wait_us);
    if (c->fade_frames < HC_NO_FADE)
        return fail(HC_EINVAL, why, "fade_frames %d is negative; use HC_NO_FADE for no fade", c->fade_frames);
    if (strcmp(c->method, "auto") != 0 && strcmp(c->method, "direct") != 0 && strcmp(c->method, "fft") != 0)
        return fail(HC_EINVAL, why, "method \"%s\" is unknown; use auto, direct or fft", c->method);
    int error = check_samples("in_samples", c->in_samples, why);
    if (!error) error = check_samples("out_samples", c->out_samples, why);
    if (error) return error;
    if (c->queue_depth < 0 || c->queue_depth > CONFIG_MAX_QUEUE_DEPTH)
        return fail(HC_EINVAL, why, "queue_depth %d is out of range; give 0 to %d", c->queue_depth,
                    CONFIG_MAX_QUEUE_DEPTH);
    if (c->n_threads < 0) return fail(HC_EINVAL, why, "n_threads %d is negative; give 0 or more", c->n_threads);
    return HC_OK;
}

int config_resolve(const hc_config *given, hc_config *resolved, struct reason *why)
{
    int error = struct_copy(given, resolved, sizeof *resolved, "hc_config", why);
    if (error) return error;
    config_set_defaults(resolved);
    error = config_check_shape(resolved, why);
    if (!error) error = check_work(resolved, why);
    if (!error) error = check_sources(resolved, why);
    if (error) return error;
    const int n_channels = resolved->n_in > resolved->n_out ? resolved->n_in : resolved->n_out;
    if (resolved->n_routes == 0) resolved->n_routes = n_channels;
    if (resolved->block == HC_BLOCK_FILES) resolved->block = 0;
    if (resolved->steer_fade == 0)
        resolved->steer_fade = resolved->block < MAX_STEER_FADE ? resolved->block : MAX_STEER_FADE;
    if (resolved->fade_frames == HC_NO_FADE) resolved->fade_frames = 0;
    if (resolved->fade_frames > CONFIG_MAX_FADE) resolved->fade_frames = CONFIG_MAX_FADE;
    if (resolved->n_threads > CONFIG_MAX_THREADS) resolved->n_threads = CONFIG_MAX_THREADS;
    resolved->method = strcmp(resolved->method, "direct") == 0 ? "direct"
                       : strcmp(resolved->method, "fft") == 0  ? "fft"
                                                               : "auto";
    return HC_OK;
}

int info_check(const hc_info *info, struct reason *why)
{
    if (!info) return fail(HC_EINVAL, why, "hc_info is NULL; pass one");
    if (is_struct_size(info->size)) return HC_OK;
    return fail(HC_EINVAL, why, "hc_info.size is %zu; set it to sizeof(hc_info)", info->size);
}

void info_copy(const hc_info *full, hc_info *info)
{
    size_t size = info->size, known = size < sizeof *full ? size : sizeof *full;
    memcpy(info, full, known);
    if (size > known) memset((char *)info + known, 0, size - known);
    info->size = size;
}
