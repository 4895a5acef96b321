/* live_take - a recording of a live convolver, and the expected output in float64: a list of sounds, each reached from
 * the one before by a cut, a ramp or a crossfade. The first frame of a change may be open: it is then found in the
 * recording, and every frame around it must lie on that one crossfade.
 */
#ifndef LIVE_TAKE_H
#define LIVE_TAKE_H

#include "live_driver.h"

enum { TAKE_CAP = 600000, TAKE_CALLS = 20000, TAKE_CHANGES = 12 };

struct live_mask {                   /* channel by channel */
    char path[128];
    int n_taps;
    float *taps[LIVE_CHANNELS];
};

struct sound {
    enum { SOUND_SILENCE, SOUND_DRY, SOUND_MASK } kind;
    const struct live_mask *mask;
    int origin;                      /* frames before that count as silence                                      */
};

struct take_change {
    struct sound to;
    enum { CHANGE_CUT, CHANGE_RAMP, CHANGE_FADE } shape;
    int length;                      /* frames                                                                   */
    int earliest;                    /* frame                                                                    */
    int at;                          /* frame; -1: the recording says it                                         */
    bool inside;                     /* in the engine that the change before it fades to                         */
};

struct take {                        /* in memory that a child process shares                                    */
    const struct live_driver *driver;
    const char *scenario;
    int pos, n_calls;
    int calls[TAKE_CALLS + 1];       /* frame of each callback, and the end                                      */
    struct sound first;
    int n_changes;
    struct take_change changes[TAKE_CHANGES];
    float *in[LIVE_CHANNELS], *out[LIVE_CHANNELS];
    const char *caught;              /* by trap.c, in any callback                                               */
};

struct take *take_open(const struct live_driver *driver, const char *scenario);

/* One callback of n frames. */
void take_call(struct take *take, int n);

void take_expect(struct take *take, struct take_change change);

/* n frames without a callback: of the input they are silence. The output after them is checked, with this sound. */
void take_gap(struct take *take, int n, struct sound sound);

/* Does the last frame sound like this? */
bool take_sounds_like(struct take *take, struct sound sound);

/* Begin anew at this frame, with this sound: what was played so far is not checked. */
void take_begin_here(struct take *take, struct sound sound);

/* The frame at which the last run of silent callbacks begins; -1: there is none. */
int take_last_silence(const struct take *take);

/* Checks every frame. A callback may be late if may_be_late: silent, or attenuated in a crossfade. Returns how many were. */
int take_check(struct take *take, bool may_be_late);

#endif
