/* mixer - predelay, wet, dry, gain, bypass and the fade at both ends; every change is a ramp of RAMP_MS, so that none
 * clicks.
 *
 *   out[o] = fade * ( (1 - bypass) * gain * (wet * delayed(convolved[o]) + dry * in[o]) + bypass * in[o] )
 *
 * Output o takes input o; a single input serves all outputs; an output without an input takes silence.
 */
#ifndef MIXER_H
#define MIXER_H

#include "haloconv_live.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MIXER_PIECE = 64, MIXER_RAMPS = HC_PREDELAY }; /* the knobs before HC_PREDELAY are gains */

struct ramp { float now, step, target; int left; };

struct predelay {            /* audio thread */
    int64_t size, end;       /* frames of a row, a power of two; frames written                           */
    int from, to, pos;       /* crossfade between two delays: so far                                      */
    float *frames;           /* [n_out][size]; NULL: there is none                                        */
};

struct mixer {
    int n_in, n_out, ramp_frames;
    bool fresh;                       /* no block was mixed since the start: knobs jump; audio thread     */
    _Atomic float knobs[HC_N_KNOBS];  /* what was asked for; any thread                                   */
    struct ramp ramps[MIXER_RAMPS];   /* audio thread                                                     */
    struct predelay predelay;
    float wet[MIXER_PIECE], dry[MIXER_PIECE]; /* gains while something moves                              */
};

/* most_predelay: frames. false: no memory. */
bool mixer_open(struct mixer *mixer, int n_in, int n_out, int most_predelay, bool fade_in);
void mixer_close(struct mixer *mixer);

void mixer_set(struct mixer *mixer, enum hc_live_knob knob, float value); /* any thread */
float mixer_get(const struct mixer *mixer, enum hc_live_knob knob);

/* Forget the predelay's frames; the knobs jump with the next block. Not beside mixer_run. */
void mixer_reset(struct mixer *mixer);

/* wet[n_out][n] is the convolved signal and becomes the mix; in[n_in][n]: the clean input. [rt] */
void mixer_run(struct mixer *mixer, const float *const *in, float *const *wet, int n, int rate);

/* Has the fade arrived at 0? [rt], the thread of mixer_run */
bool mixer_is_faded_out(const struct mixer *mixer);

/* The input takes the convolved signal's place. [rt] */
void mixer_pass(const struct mixer *mixer, const float *const *in, float *const *wet, int n);

#endif
