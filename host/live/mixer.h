/* mixer - wet, dry, gain, bypass and the fade at both ends, every change smoothed over FADE_MS so that none clicks.
 *
 *   out[o] = fade * ( (1 - bypass) * gain * (wet * convolved[o] + dry * in[o]) + bypass * in[o] )
 *
 * The input of output o is input o; a single input serves all outputs; where there is none, it is silence.
 */
#ifndef MIXER_H
#define MIXER_H

#include <stdatomic.h>
#include <stdbool.h>

enum mixer_knob { MIXER_WET, MIXER_DRY, MIXER_GAIN, MIXER_BYPASS, MIXER_FADE, MIXER_KNOBS };

struct ramp { float now, step, target; int left; }; /* audio thread */

struct mixer {
    int n_in, n_out, ramp_frames;
    _Atomic float knobs[MIXER_KNOBS]; /* linear; set by any thread */
    struct ramp ramps[MIXER_KNOBS];
    float wet[64], dry[64];           /* gains of 64 frames while something moves */
    atomic_bool is_faded;             /* the fade has arrived at 0 */
};

/* Starts faded out, with the fade's knob at 1: the first blocks fade in. */
void mixer_open(struct mixer *mixer, int n_in, int n_out, int rate, float wet, float dry, float gain);

void mixer_set(struct mixer *mixer, enum mixer_knob knob, float value); /* any thread */
float mixer_get(const struct mixer *mixer, enum mixer_knob knob);

/* out[n_out][n] holds what was convolved and becomes the mix. as_dry: this block nobody convolved; the input takes its
 * place. [rt] */
void mixer_run(struct mixer *mixer, const float *const *in, float *const *out, int n, bool as_dry);

#endif
