/* live_command - everything that a key, a signal, an OSC message or a MIDI event can ask of a live session, and the
 * function that applies it. Control thread.
 */
#ifndef LIVE_COMMAND_H
#define LIVE_COMMAND_H

#include "live_options.h"
#include "session.h"
#include "watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command_gain {
    const char *name;            /* "gain", "wet", "dry": in this order */
    int knob;                    /* enum hc_live_knob                    */
};
enum { COMMAND_GAINS = 3 };
enum { COMMAND_MAX_MASKS = 1000, COMMAND_MAX_BYTES = 1 << 18 /* of the list: COMMAND_MASK_ADD adds no more */ };
extern const struct command_gain command_gains[COMMAND_GAINS];

enum command_act {               /* fields that the act reads                                 */
    COMMAND_NONE,                /*                                                           */
    COMMAND_MASK,                /* path, also the name of a mask that ships                  */
    COMMAND_MASK_NUMBER,         /* number: in the list of masks, from 1                      */
    COMMAND_MASK_STEP,           /* number: 1 next, -1 previous; the first follows the last   */
    COMMAND_MASK_ADD,            /* path: joins the end of the list                           */
    COMMAND_PRESET,              /* path: name of a preset: its masks, gains, bypass, A/B and places */
    COMMAND_PRESET_SAVE,         /* path: name of a preset for the present state, "": a free one; on: replace one  */
    COMMAND_RELOAD,              /*                                                           */
    COMMAND_GAIN,                /* gain, db: at most 60; -INFINITY is off                    */
    COMMAND_GAIN_STEP,           /* gain, db: added to the gain                               */
    COMMAND_BYPASS,              /* on                                                        */
    COMMAND_BYPASS_TOGGLE,       /*                                                           */
    COMMAND_COMPARE,             /* number or path: A, else the mask that plays; other or
                                    other_path: B, else the mask after A; on: B plays         */
    COMMAND_COMPARE_SWITCH,      /* begins a comparison, or plays the other of the two masks  */
    COMMAND_COMPARE_END,         /*                                                           */
    COMMAND_RECENTRE,            /* the present orientation of the head becomes the front     */
    COMMAND_QUIT
};

struct command {
    enum command_act act;
    const char *path, *other_path;
    int number, other;
    const struct command_gain *gain;
    double db;
    bool on;
};

struct command_target {          /* what commands change                                      */
    struct session *session;
    const struct live_settings *settings; /* those of the session, for presets; NULL: none can be applied */
    const struct option_names *masks; /* the list of masks; may be empty                      */
    struct option_names own;     /* that list after COMMAND_MASK_ADD and COMMAND_PRESET; owned */
    int list_version;            /* changes with the list                                     */
    int mask;                    /* the mask that was last asked for: its index in `masks`    */
    struct watch watch;          /* watches the mask that was last asked for                  */
    uint64_t request;            /* number of the last request, for session_answer            */
    bool compares;               /* the masks of `compared`, at equal loudness                */
    int compared[2];             /* indices of A and B in the list                            */
    char saved[128];             /* name of the preset that was saved last                    */
    bool end;                    /* true after COMMAND_QUIT                                   */
};

/* Opens a target for the session that plays `mask`. */
void command_target_open(struct command_target *target, struct session *session, const struct option_names *masks,
                         const char *mask);

/* Begins the comparison of the settings. false: `text` has the reason. */
bool command_begin_comparison(struct command_target *target, const struct live_settings *settings, char *text,
                              size_t cap);

void command_target_close(struct command_target *target);

/* Returns the number of a mask in the list, from 1; 0: the list does not have the mask. */
int command_mask_number(const struct command_target *target, const char *path);

/* Does a command of this kind ask the loader for a mask? Any thread */
bool command_loads_mask(enum command_act act);

/* Applies a command. A mask is requested here, and loaded later by the session's loader. false: nothing changed, and
 * `text` has the reason. true: `text` has the new value, as "gain 1 dB", or is "". */
bool command_apply(struct command_target *target, const struct command *command, char *text, size_t cap);

#endif
