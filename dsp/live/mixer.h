/* mixer - predelay, wet, dry, gain, bypass, and the fades at the beginning and the end. Every change is a ramp of 20
 * ms, so that it does not click.
 *
 *   out[o] = fade * ( (1 - bypass) * gain * (wet * delayed(convolved[o]) + dry * in[o]) + bypass * in[o] )
 *
 * Output o gets input o; a single input goes to all outputs; an output without an input gets silence.
 */
#ifndef MIXER_H
#define MIXER_H

#include "haloconv_live.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MIXER_CHUNK = 64 /* frames */, RAMP_MS = 20 };
enum { MIXER_RAMPS = HC_PREDELAY }; /* the knobs before HC_PREDELAY are gains */

struct ramp { float now, step, target; int left; }; /* left: frames until now is target */

/* Starts a ramp of this many frames to a value, unless the value is the ramp's target already. [rt] */
static inline void ramp_to(struct ramp *ramp, float target, int frames)
{
    if (target == ramp->target) return;
    float step = (target - ramp->now) / (float)frames;
    *ramp = (struct ramp){.now = ramp->now, .step = step, .target = target, .left = frames};
}

/* Returns the next value of a ramp. [rt] */
static inline float ramp_step(struct ramp *ramp)
{
    if (ramp->left == 0) return ramp->now;
    ramp->now = --ramp->left == 0 ? ramp->target : ramp->now + ramp->step;
    return ramp->now;
}

struct predelay {            /* audio thread */
    int64_t size, end;       /* frames of a row, a power of two; frames written since the reset           */
    int from, to, pos;       /* delays, in frames, of a crossfade; pos: frames of it that were played     */
    float *frames;           /* [n_out][size]; NULL: no predelay                                          */
};

struct mixer {
    int n_in, n_out, ramp_frames;
    bool is_fresh;                    /* no block was mixed yet, so values jump; audio thread             */
    _Atomic float knobs[HC_N_KNOBS];  /* the last values from mixer_set; any thread                       */
    struct ramp ramps[MIXER_RAMPS];   /* used by the audio thread                                         */
    struct predelay predelay;
    float wet[MIXER_CHUNK], dry[MIXER_CHUNK]; /* gains of a chunk while a ramp moves                      */
};

/* max_predelay is in frames. false: no memory. [setup] */
bool mixer_open(struct mixer *mixer, int n_in, int n_out, int max_predelay, bool fade_in);
void mixer_close(struct mixer *mixer);

void mixer_set(struct mixer *mixer, enum hc_live_knob knob, float value); /* any thread */
float mixer_get(const struct mixer *mixer, enum hc_live_knob knob);        /* any thread */

/* Forgets the predelay's frames; the knobs jump with the next block. No mixer_run may run. [rt] */
void mixer_reset(struct mixer *mixer);

/* Mixes n frames, from frame `at` on, of the convolved signal wet[n_out] with the input in[n_in]; wet becomes the output.
 * [rt] */
void mixer_run(struct mixer *mixer, const float *const *in, float *const *wet, int at, int n, int rate);

/* Has the ramp of HC_FADE ended at 0? [rt], the thread of mixer_run */
bool mixer_is_faded_out(const struct mixer *mixer);

/* Replaces the convolved signal by the input. [rt] */
void mixer_pass_input(const struct mixer *mixer, const float *const *in, float *const *wet, int n);

#endif
