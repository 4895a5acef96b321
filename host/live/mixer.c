#include "mixer.h"

#include <stddef.h>
#include <string.h>

enum { FADE_MS = 20, PIECE = 64 };

void mixer_open(struct mixer *mixer, int n_in, int n_out, int rate, float wet, float dry, float gain)
{
    const float start[MIXER_KNOBS] = {wet, dry, gain, 0, 0};
    *mixer = (struct mixer){.n_in = n_in, .n_out = n_out, .ramp_frames = rate * FADE_MS / 1000 + 1};
    for (int k = 0; k < MIXER_KNOBS; k++) {
        atomic_init(&mixer->knobs[k], start[k]);
        mixer->ramps[k] = (struct ramp){.now = start[k], .target = start[k]};
    }
    atomic_init(&mixer->is_faded, true);
    mixer_set(mixer, MIXER_FADE, 1);
}

void mixer_set(struct mixer *mixer, enum mixer_knob knob, float value)
{
    atomic_store_explicit(&mixer->knobs[knob], value, memory_order_relaxed);
}

float mixer_get(const struct mixer *mixer, enum mixer_knob knob)
{
    return atomic_load_explicit(&mixer->knobs[knob], memory_order_relaxed);
}

/* Look at the knobs; does anything move? */
static bool turn(struct mixer *mixer)
{
    bool moves = false;
    for (int k = 0; k < MIXER_KNOBS; k++) {
        struct ramp *ramp = &mixer->ramps[k];
        float target = mixer_get(mixer, (enum mixer_knob)k);
        if (target != ramp->target) {
            ramp->target = target;
            ramp->left = mixer->ramp_frames;
            ramp->step = (target - ramp->now) / (float)ramp->left;
        }
        moves = moves || ramp->left > 0;
    }
    return moves;
}

static float step(struct ramp *ramp)
{
    if (ramp->left == 0) return ramp->now;
    ramp->now = --ramp->left == 0 ? ramp->target : ramp->now + ramp->step;
    return ramp->now;
}

/* The gains of the convolved signal and of the input. */
static void gains(const float knob[MIXER_KNOBS], float *wet, float *dry)
{
    float bypass = knob[MIXER_BYPASS], effect = (1 - bypass) * knob[MIXER_GAIN];
    *wet = knob[MIXER_FADE] * effect * knob[MIXER_WET];
    *dry = knob[MIXER_FADE] * (effect * knob[MIXER_DRY] + bypass);
}

static const float *input_of(const struct mixer *mixer, const float *const *in, int out)
{
    return mixer->n_in == 1 ? in[0] : out < mixer->n_in ? in[out] : NULL;
}

static void mix_still(const struct mixer *mixer, const float *const *in, float *const *out, int n, float wet, float dry)
{
    for (int o = 0; o < mixer->n_out; o++) {
        const float *x = input_of(mixer, in, o);
        float *y = out[o];
        if (wet != 1)
            for (int i = 0; i < n; i++) y[i] *= wet;
        if (x && dry != 0)
            for (int i = 0; i < n; i++) y[i] += dry * x[i];
    }
}

static void mix_moving(struct mixer *mixer, const float *const *in, float *const *out, int n)
{
    for (int at = 0; at < n; at += PIECE) {
        int piece = n - at < PIECE ? n - at : PIECE;
        for (int i = 0; i < piece; i++) {
            float knob[MIXER_KNOBS];
            for (int k = 0; k < MIXER_KNOBS; k++) knob[k] = step(&mixer->ramps[k]);
            gains(knob, &mixer->wet[i], &mixer->dry[i]);
        }
        for (int o = 0; o < mixer->n_out; o++) {
            const float *x = input_of(mixer, in, o);
            float *y = out[o] + at;
            for (int i = 0; i < piece; i++) y[i] = mixer->wet[i] * y[i] + (x ? mixer->dry[i] * x[at + i] : 0);
        }
    }
}

void mixer_run(struct mixer *mixer, const float *const *in, float *const *out, int n, bool as_dry)
{
    if (as_dry)
        for (int o = 0; o < mixer->n_out; o++) {
            const float *x = input_of(mixer, in, o);
            if (x) memcpy(out[o], x, (size_t)n * sizeof(float));
        }
    if (turn(mixer)) {
        mix_moving(mixer, in, out, n);
    } else {
        float knob[MIXER_KNOBS], wet, dry;
        for (int k = 0; k < MIXER_KNOBS; k++) knob[k] = mixer->ramps[k].now;
        gains(knob, &wet, &dry);
        mix_still(mixer, in, out, n, wet, dry);
    }
    const struct ramp *fade = &mixer->ramps[MIXER_FADE];
    atomic_store_explicit(&mixer->is_faded, fade->now == 0 && fade->left == 0, memory_order_relaxed);
}
