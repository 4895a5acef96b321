/* stage - the audio path of an instance: convolvers and their crossfade, predelay, dry, wet, gain and bypass, all
 * smoothed. It knows no LV2.
 *
 *   in ---+-- history
 *         +-- convolver now (next fades in) -- predelay -- wet --+-- gain --+-- enabled -- out
 *         +-- dry ------------------------------------------------+          |
 *         +-- (bypass) ------------------------------------------------------+
 *
 * All but make, free and reset belongs to the audio thread.
 */
#ifndef STAGE_H
#define STAGE_H

#include "convolver.h"
#include "history.h"

#include <stdbool.h>
#include <stdint.h>

struct ramp { float value, target, step; int left; };     /* linear, over the same time whatever the block */

struct knobs {               /* what is asked for                                                        */
    float dry, wet, gain;    /* linear                                                                   */
    bool enabled;
    int predelay;            /* frames                                                                   */
    bool waits;              /* no deadline                                                              */
};

struct stage {
    struct convolver_shape shape;
    struct history history;
    struct convolver *now, *next, *queued; /* what plays, what fades in, what comes after it; NULL = silence, none  */
    struct convolver *retired;             /* to be closed, elsewhere                                                */
    int fade_pos, fade_len;                /* of next; frames                                                        */
    bool fading;                           /* false while next still catches up                                      */
    bool fresh;                            /* nothing has been played since the reset: knobs jump                    */
    struct ramp dry, wet, gain, enabled;
    int ramp_frames;
    bool waits;
    int predelay, delay_from, delay_to, delay_pos; /* asked for; crossfade of two places in the delay line           */
    int64_t delay_size, delay_end;         /* of the delay line: a power of two; frames written                      */
    float *delay;                          /* [n_out][delay_size]                                                    */
    float *memory, *in[64], *out[64], *other[64]; /* [block] each                                                    */
    float *dry_gain, *wet_gain;            /* [block]                                                                */
    uint64_t late;                         /* blocks                                                                 */
    bool lost;                             /* a device: its convolver is silent                                      */
};

bool stage_make(struct stage *stage, const struct convolver_shape *shape); /* false: no memory [setup] */
void stage_free(struct stage *stage);        /* not the convolvers [setup] */
void stage_reset(struct stage *stage);       /* forget what was heard; end fades [setup] */
void stage_turn(struct stage *stage, const struct knobs *knobs);

/* Fade over to a convolver; before anything was heard, at once. */
void stage_install(struct stage *stage, struct convolver *convolver);

/* The convolver that was installed last; NULL = none. */
struct convolver *stage_newest(const struct stage *stage);

/* A convolver that is no longer played, to be closed; NULL = none. */
struct convolver *stage_retired(struct stage *stage);
void stage_retire(struct stage *stage, struct convolver *convolver); /* put it back */

/* Any number of frames; an in may be an out. */
void stage_play(struct stage *stage, const float *const *in, float *const *out, int n);

#endif
