#include "mixer.h"

#include "dsp/base/memory.h"
#include "dsp/device/backend.h" /* for fade_gain */

#include <stddef.h>
#include <string.h>

bool mixer_open(struct mixer *mixer, int n_in, int n_out, int max_predelay, bool fade_in)
{
    const float start[HC_N_KNOBS] = {[HC_WET] = 1, [HC_GAIN] = 1, [HC_FADE] = 1};
    *mixer = (struct mixer){.n_in = n_in, .n_out = n_out, .is_fresh = true};
    for (int k = 0; k < HC_N_KNOBS; k++) atomic_init(&mixer->knobs[k], start[k]);
    for (int k = 0; k < MIXER_RAMPS; k++) mixer->ramps[k].now = mixer->ramps[k].target = start[k];
    if (fade_in) mixer->ramps[HC_FADE] = (struct ramp){0};
    if (max_predelay <= 0) return true;
    struct predelay *p = &mixer->predelay;
    for (p->size = MIXER_CHUNK; p->size < max_predelay + MIXER_CHUNK;) p->size *= 2;
    p->frames = memory_packed((size_t)n_out * (size_t)p->size);
    return p->frames != NULL;
}

void mixer_close(struct mixer *mixer)
{
    memory_packed_free(mixer->predelay.frames);
    mixer->predelay.frames = NULL;
}

void mixer_set(struct mixer *mixer, enum hc_live_knob knob, float value)
{
    atomic_store_explicit(&mixer->knobs[knob], value, memory_order_relaxed);
}

float mixer_get(const struct mixer *mixer, enum hc_live_knob knob)
{
    return atomic_load_explicit(&mixer->knobs[knob], memory_order_relaxed);
}

void mixer_reset(struct mixer *mixer)
{
    mixer->predelay.end = 0; /* the frames before frame 0 count as 0 */
    mixer->is_fresh = true;
}

/* Starts ramps to the values of the knobs. Before the first block all values but the fade jump. true: a ramp moves. */
static bool start_ramps(struct mixer *mixer)
{
    bool moves = false;
    for (int k = 0; k < MIXER_RAMPS; k++) {
        struct ramp *ramp = &mixer->ramps[k];
        float target = mixer_get(mixer, (enum hc_live_knob)k);
        if (mixer->is_fresh && k != HC_FADE) *ramp = (struct ramp){.now = target, .target = target};
        ramp_to(ramp, target, mixer->ramp_frames);
        moves = moves || ramp->left > 0;
    }
    return moves;
}

/* Computes the gains of the convolved signal (wet) and of the input (dry). */
static void gains(const float knob[MIXER_RAMPS], float *wet, float *dry)
{
    float bypass = knob[HC_BYPASS], effect = (1 - bypass) * knob[HC_GAIN];
    *wet = knob[HC_FADE] * effect * knob[HC_WET];
    *dry = knob[HC_FADE] * (effect * knob[HC_DRY] + bypass);
}

static const float *mixer_input_of(const struct mixer *mixer, const float *const *in, int out)
{
    return mixer->n_in == 1 ? in[0] : out < mixer->n_in ? in[out] : NULL;
}

static void mix_still(const struct mixer *mixer, const float *const *in, float *const *out, int at, int n, float wet,
                      float dry)
{
    for (int o = 0; o < mixer->n_out; o++) {
        const float *x = mixer_input_of(mixer, in, o);
        float *y = out[o] + at;
        if (wet == 0) /* 0 * infinity would be NaN, if the convolution overflows */
            memset(y, 0, (size_t)n * sizeof(float));
        else if (wet != 1)
            for (int i = 0; i < n; i++) y[i] *= wet;
        if (x && dry != 0)
            for (int i = 0; i < n; i++) y[i] += dry * x[at + i];
    }
}

static void mix_scene(struct mixer *mixer, const float *const *in, float *const *out, int at, int n)
{
    for (int end = at + n; at < end; at += MIXER_CHUNK) {
        int chunk = end - at < MIXER_CHUNK ? end - at : MIXER_CHUNK;
        for (int i = 0; i < chunk; i++) {
            float knob[MIXER_RAMPS];
            for (int k = 0; k < MIXER_RAMPS; k++) knob[k] = ramp_step(&mixer->ramps[k]);
            gains(knob, &mixer->wet[i], &mixer->dry[i]);
        }
        for (int o = 0; o < mixer->n_out; o++) {
            const float *x = mixer_input_of(mixer, in, o);
            float *y = out[o] + at;
            for (int i = 0; i < chunk; i++) y[i] = mixer->wet[i] * y[i] + (x ? mixer->dry[i] * x[at + i] : 0);
        }
    }
}

/* ---- predelay ---------------------------------------------------------------------------------- */

static float mixer_row_read(const float *row, int64_t frame, int64_t mask)
{
    return frame < 0 ? 0 : row[frame & mask];
}

/* Writes up to MIXER_CHUNK frames of y to the row and replaces them by the frames that are `from` frames older,
 * crossfaded to those that are `to` frames older. */
static void delay_chunk(struct mixer *mixer, float *row, float *y, int n)
{
    const struct predelay *p = &mixer->predelay;
    int64_t mask = p->size - 1;
    for (int i = 0; i < n; i++) row[(p->end + i) & mask] = y[i];
    if (p->from == 0 && p->to == 0) return;
    for (int i = 0; i < n; i++) y[i] = mixer_row_read(row, p->end + i - p->from, mask);
    if (p->from == p->to) return;
    for (int i = 0; i < n; i++) {
        float gain = fade_gain(p->pos + i, mixer->ramp_frames);
        y[i] += gain * (mixer_row_read(row, p->end + i - p->to, mask) - y[i]);
    }
}

static void predelay_run(struct mixer *mixer, float *const *wet, int at, int n)
{
    struct predelay *p = &mixer->predelay;
    float max = (float)(p->size - MIXER_CHUNK), knob = mixer_get(mixer, HC_PREDELAY);
    int wanted = (int)(knob < 0 ? 0 : knob > max ? max : knob);
    if (mixer->is_fresh) p->from = p->to = wanted;
    for (int end = at + n; at < end; at += MIXER_CHUNK) {
        int chunk = end - at < MIXER_CHUNK ? end - at : MIXER_CHUNK;
        if (p->from == p->to && p->to != wanted) {
            p->to = wanted;
            p->pos = 0;
        }
        for (int o = 0; o < mixer->n_out; o++) delay_chunk(mixer, p->frames + o * p->size, wet[o] + at, chunk);
        p->end += chunk;
        if (p->from != p->to && (p->pos += chunk) >= mixer->ramp_frames) p->from = p->to;
    }
}

/* ---- the block --------------------------------------------------------------------------------- */

void mixer_pass_input(const struct mixer *mixer, const float *const *in, float *const *wet, int n)
{
    for (int o = 0; o < mixer->n_out; o++) {
        const float *x = mixer_input_of(mixer, in, o);
        if (x) memcpy(wet[o], x, (size_t)n * sizeof(float));
    }
}

void mixer_run(struct mixer *mixer, const float *const *in, float *const *wet, int at, int n, int rate)
{
    mixer->ramp_frames = rate * RAMP_MS / 1000 + 1;
    if (mixer->predelay.frames) predelay_run(mixer, wet, at, n);
    if (start_ramps(mixer)) {
        mix_scene(mixer, in, wet, at, n);
    } else {
        float knob[MIXER_RAMPS], wet_gain, dry_gain;
        for (int k = 0; k < MIXER_RAMPS; k++) knob[k] = mixer->ramps[k].now;
        gains(knob, &wet_gain, &dry_gain);
        mix_still(mixer, in, wet, at, n, wet_gain, dry_gain);
    }
    mixer->is_fresh = false;
}

bool mixer_is_faded_out(const struct mixer *mixer)
{
    const struct ramp *fade = &mixer->ramps[HC_FADE];
    return fade->now == 0 && fade->left == 0;
}
