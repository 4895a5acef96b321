#include "stage.h"
#include "ports.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HISTORY_SECONDS = 10, HISTORY_FLOATS = 1 << 23 }; /* 32 MiB, all channels together */

/* ---- ramps -------------------------------------------------------------------------------------- */

static void ramp_turn(struct ramp *ramp, float target, int frames)
{
    if (target == ramp->target) return;
    ramp->target = target;
    ramp->left = frames;
    ramp->step = (target - ramp->value) / (float)frames;
    if (frames == 0) ramp->value = target;
}

static void ramp_jump(struct ramp *ramp)
{
    ramp->value = ramp->target;
    ramp->left = 0;
}

static float ramp_next(struct ramp *ramp)
{
    if (ramp->left == 0) return ramp->value;
    ramp->left--;
    ramp->value = ramp->left > 0 ? ramp->value + ramp->step : ramp->target;
    return ramp->value;
}

/* Share of what fades in: both signals come of one input, so the gains add up to 1. */
static float fade_gain(int pos, int len)
{
    float t = (float)(pos + 1) / (float)(len + 1);
    return pos >= len ? 1.0f : t * t * (3.0f - 2.0f * t);
}

/* ---- make and free ------------------------------------------------------------------------------ */

bool stage_make(struct stage *s, const struct convolver_shape *shape)
{
    size_t block = (size_t)shape->block, n_in = (size_t)shape->n_in, n_out = (size_t)shape->n_out;
    int64_t history = (int64_t)HISTORY_SECONDS * shape->rate, most = HISTORY_FLOATS / shape->n_in;
    *s = (struct stage){.shape = *shape, .ramp_frames = shape->rate / 50, .fade_len = shape->rate / 50};
    s->delay_size = 1;
    while (s->delay_size < (int64_t)MOST_PREDELAY_MS * shape->rate / 1000 + shape->block + 1) s->delay_size *= 2;
    s->delay = calloc(n_out * (size_t)s->delay_size, sizeof(float));
    s->memory = calloc((n_in + 2 * n_out + 2) * block, sizeof(float));
    if (!history_make(&s->history, shape->n_in, history < most ? history : most) || !s->delay || !s->memory) {
        stage_free(s);
        return false;
    }
    float *at = s->memory;
    for (size_t ch = 0; ch < n_in; ch++, at += block) s->in[ch] = at;
    for (size_t ch = 0; ch < n_out; ch++, at += block) s->out[ch] = at;
    for (size_t ch = 0; ch < n_out; ch++, at += block) s->other[ch] = at;
    s->dry_gain = at;
    s->wet_gain = at + block;
    s->fresh = true;
    return true;
}

void stage_free(struct stage *s)
{
    history_free(&s->history);
    free(s->delay);
    free(s->memory);
    s->delay = s->memory = NULL;
}

void stage_retire(struct stage *s, struct convolver *c)
{
    if (!c) return;
    c->next = s->retired;
    s->retired = c;
}

struct convolver *stage_retired(struct stage *s)
{
    struct convolver *c = s->retired;
    if (c) s->retired = c->next;
    return c;
}

struct convolver *stage_newest(const struct stage *s)
{
    return s->queued ? s->queued : s->next ? s->next : s->now;
}

void stage_reset(struct stage *s)
{
    struct convolver *newest = stage_newest(s);
    struct convolver *all[] = {s->now, s->next, s->queued};
    for (int i = 0; i < 3; i++)
        if (all[i] != newest) stage_retire(s, all[i]);
    s->now = newest;
    s->next = s->queued = NULL;
    s->fading = false;
    history_clear(&s->history);
    if (newest) convolver_reset(newest, &s->history);
    memset(s->delay, 0, (size_t)s->shape.n_out * (size_t)s->delay_size * sizeof(float));
    s->delay_end = 0;
    s->delay_from = s->delay_to;
    s->fresh = true;
}

/* ---- what changes ------------------------------------------------------------------------------- */

void stage_turn(struct stage *s, const struct knobs *knobs)
{
    ramp_turn(&s->dry, knobs->dry, s->ramp_frames);
    ramp_turn(&s->wet, knobs->wet, s->ramp_frames);
    ramp_turn(&s->gain, knobs->gain, s->ramp_frames);
    ramp_turn(&s->enabled, knobs->enabled ? 1.0f : 0.0f, s->ramp_frames);
    s->predelay = knobs->predelay;
    s->waits = knobs->waits;
    if (!s->fresh) return;
    ramp_jump(&s->dry);
    ramp_jump(&s->wet);
    ramp_jump(&s->gain);
    ramp_jump(&s->enabled);
    s->delay_from = s->delay_to = s->predelay;
}

void stage_install(struct stage *s, struct convolver *c)
{
    int64_t end = atomic_load_explicit(&s->history.end, memory_order_relaxed);
    unsigned epoch = atomic_load_explicit(&s->history.epoch, memory_order_relaxed);
    if (c->epoch != epoch) { /* made beside a reset: nothing to catch up with, and what it heard rings out */
        c->epoch = epoch;
        c->heard = end;
    }
    if (end == 0 && !s->next) {
        stage_retire(s, s->now);
        s->now = c;
        s->lost = false;
    } else if (!s->next) {
        s->next = c;
    } else {
        stage_retire(s, s->queued); /* the last one wins */
        s->queued = c;
    }
}

/* The fade is over. */
static void move_up(struct stage *s)
{
    stage_retire(s, s->now);
    s->now = s->next;
    s->next = s->queued;
    s->queued = NULL;
    s->fade_pos = 0;
    s->fading = false;
    s->lost = false;
}

/* ---- audio -------------------------------------------------------------------------------------- */

static void play(struct stage *s, struct convolver *c, float *const *out, int n)
{
    convolver_wait(c, s->waits);
    int result = convolver_play(c, (const float *const *)s->in, out, n);
    if (result == HC_LATE) s->late++;
    if (result == HC_EDEVICE) s->lost = true;
}

/* out = now, on its way to next, for the n frames of in. */
static void convolve(struct stage *s, int n)
{
    int n_out = s->shape.n_out;
    /* A new one may have missed a few blocks on its way here: at most two of ours a block until it has them. */
    if (s->next && !s->fading) {
        convolver_wait(s->next, s->waits);
        s->fading = convolver_catch_up(s->next, &s->history, s->other, n) ||
                    convolver_catch_up(s->next, &s->history, s->other, n);
    }
    if (s->now)
        play(s, s->now, s->out, n);
    else
        for (int ch = 0; ch < n_out; ch++) memset(s->out[ch], 0, (size_t)n * sizeof(float));
    if (s->fading) {
        play(s, s->next, s->other, n);
        for (int ch = 0; ch < n_out; ch++)
            for (int i = 0; i < n; i++)
                s->out[ch][i] += fade_gain(s->fade_pos + i, s->fade_len) * (s->other[ch][i] - s->out[ch][i]);
        s->fade_pos += n;
        if (s->fade_pos >= s->fade_len) move_up(s);
    }
    history_write(&s->history, (const float *const *)s->in, n);
}

/* The delay line takes n frames of out, and gives what lay in it `delay` frames ago. */
static void delay(struct stage *s, int n)
{
    int64_t mask = s->delay_size - 1;
    if (s->delay_from == s->delay_to && s->delay_to != s->predelay) {
        s->delay_to = s->predelay;
        s->delay_pos = 0;
    }
    bool fading = s->delay_from != s->delay_to;
    for (int ch = 0; ch < s->shape.n_out; ch++) {
        float *line = s->delay + ch * s->delay_size, *x = s->out[ch];
        for (int i = 0; i < n; i++) line[(s->delay_end + i) & mask] = x[i];
        if (!fading && s->delay_to == 0) continue;
        for (int i = 0; i < n; i++) x[i] = line[(s->delay_end + i - s->delay_from) & mask];
        for (int i = 0; fading && i < n; i++)
            x[i] +=
                fade_gain(s->delay_pos + i, s->ramp_frames) * (line[(s->delay_end + i - s->delay_to) & mask] - x[i]);
    }
    s->delay_end += n;
    s->delay_pos += n;
    if (fading && s->delay_pos >= s->ramp_frames) s->delay_from = s->delay_to;
}

static void mix(struct stage *s, float *const *out, int done, int n)
{
    int turning = s->dry.left + s->wet.left + s->gain.left + s->enabled.left;
    for (int i = 0; i < n; i++) {
        if (!turning && i > 0) {
            s->dry_gain[i] = s->dry_gain[0];
            s->wet_gain[i] = s->wet_gain[0];
            continue;
        }
        float dry = ramp_next(&s->dry), wet = ramp_next(&s->wet), gain = ramp_next(&s->gain);
        float enabled = ramp_next(&s->enabled);
        s->dry_gain[i] = dry * gain * enabled + (1 - enabled);
        s->wet_gain[i] = wet * gain * enabled;
    }
    for (int ch = 0; ch < s->shape.n_out; ch++) {
        const float *x = s->in[s->shape.n_in == 1 ? 0 : ch], *w = s->out[ch];
        float *y = out[ch] + done;
        for (int i = 0; i < n; i++) y[i] = s->dry_gain[i] * x[i] + s->wet_gain[i] * w[i];
    }
}

void stage_play(struct stage *s, const float *const *in, float *const *out, int n)
{
    for (int done = 0, part; done < n; done += part) {
        part = n - done < s->shape.block ? n - done : s->shape.block;
        /* A copy: an out may be an in, and a gain of 0 does not silence a NaN. */
        for (int ch = 0; ch < s->shape.n_in; ch++)
            for (int i = 0; i < part; i++) s->in[ch][i] = isfinite(in[ch][done + i]) ? in[ch][done + i] : 0;
        convolve(s, part);
        delay(s, part);
        mix(s, out, done, part);
        s->fresh = false;
    }
}
