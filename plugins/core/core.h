/* core - a plugin without its standard: a live convolver (haloconv_live.h) with controls, a mask that is loaded, saved
 * and restored, meters and a state. LV2, CLAP and VST3 are faces over it.
 *
 *   audio:   core_set, core_process          values of controls; hc_live_process; meters
 *               | core_has_work
 *               v
 *   worker:  core_work                       hc_live_work: loads masks, builds engines, frees old ones
 *               | core_host.changed
 *               v
 *   face:    core_get_side_mask, core_get_status   the masks, and the result of the last load
 *
 * Threads: [rt] any thread, also the audio thread: nothing allocates, locks or waits. [setup] any thread that may wait,
 * also several at once, unless a call says otherwise. The worker is a thread of the host (LV2), which calls core_work,
 * or the core's own loader.
 *
 * The plugin with a moving source has a bank instead of the mask: here and below, "mask" means either.
 *
 * A session has a mask on side A, and may have another on side B; an empty side plays the mask of the other one. The
 * control A_B chooses the side, and the worker crossfades to its mask. While both sides have masks, hc_live_keep keeps
 * both ready, and hc_live_compare makes them equally loud. Banks and a core without a worker have neither: a switch
 * loads the bank or, with the next core_activate, the mask.
 *
 * If the mask of a state cannot be loaded, the input passes dry until a mask is loaded: another mask would not be the
 * sound of the session. A file that the user chooses and that cannot be loaded changes nothing; of a file for the side
 * that does not play, the worker finds out only whether it can be read. The status reports all cases.
 */
#ifndef PLUGIN_CORE_H
#define PLUGIN_CORE_H

#include "controls.h"
#include "dsp/base/answers.h"

#include <stdint.h>

enum { CORE_PATH_BYTES = 4096, CORE_STATUS_BYTES = 1024, CORE_STATE_BYTES = 65536 };
enum { CORE_MAX_BLOCK = 1024 }; /* for core_open: a host that renders may announce many more frames                 */

enum core_worker {
    CORE_NO_WORKER,      /* the mask of core_activate cannot change                                                 */
    CORE_HOST_WORKER,    /* the host calls core_work                                                                */
    CORE_LOADER          /* a thread of the core calls it                                                           */
};

struct core_host {       /* what a face gives. Calls come from [setup] calls and from the worker                    */
    void *data;
    enum core_worker worker;
    void (*log)(void *data, int level, const char *text); /* level: enum hc_live_level                              */
    void (*changed)(void *data); /* the mask or the status may have changed: core_get_status. NULL: not wanted      */
};

struct core;

/* Makes a plugin with the initial values and mask. folder: the path of the masks that ship, which ends in /. Opens no
 * file and no GPU. NULL: no memory. [setup] */
struct core *core_new(const struct variant *variant, const char *folder, const struct core_host *host);

/* Frees it; no other call may run. If the core's own loader reads from a stalled disk, it frees the core when the read
 * returns, and this call returns after 2 s; the host is not called any more then. NULL is allowed. [setup] */
void core_free(struct core *core);

/* Makes the live convolver, also anew for another rate or block; the mask stays. Not between core_activate and
 * core_deactivate. false: `why` has the reason. [setup] */
bool core_open(struct core *core, int rate, int usual_block, char *why, size_t cap);

/* Forgets earlier input, and loads the mask if that has not happened, or if another was restored. Returns true if it
 * tried to load one. No core_process may run. [setup] */
bool core_activate(struct core *core);
void core_deactivate(struct core *core);

/* The next core_process forgets earlier input, also while a mask is loaded. No core_process may run. [rt] */
void core_reset(struct core *core);

const struct variant *core_variant(const struct core *core);
const char *core_folder(const struct core *core); /* of core_new                                                    */

/* ---- audio ---- */

/* Sets a control, limited to its range. The next core_process applies it, A_B the next core_work. [rt] */
void core_set(struct core *core, int control, double value);

/* Adds to the value of a control until the next call: a host's modulation, which no state contains. [rt] */
void core_modulate(struct core *core, int control, double amount);

/* Returns the value of a control without its modulation; of an output, the meter. [rt] */
float core_get(const struct core *core, int control);

/* The host renders without a deadline: blocks wait for a device, and with the core's own loader the changes that were
 * asked for come first. [rt] */
void core_set_offline(struct core *core, bool offline);

struct core_events {     /* a host's automation inside a block                                                      */
    int (*apply)(void *data, int frame); /* sets the controls (core_set, core_modulate) of all events after the
                                            previous call's frame, up to `frame`; returns the frame of the next event,
                                            above `frame`. The first call is for frame 0                            */
    void *data;
};

/* Applies the controls, then convolves n frames as hc_live_process does; n = 0: only the controls. events: the gains and
 * the predelay change at the frames of their events, the engine convolves the block as a whole; a moving source goes
 * where the controls say at most every 64 frames. NULL: none. [rt], one thread at a time; while offline it may wait */
void core_process(struct core *core, const float *const *in, float *const *out, int n,
                  const struct core_events *events);

/* Returns the frames for which the output goes on after the input has ended. [rt] */
uint32_t core_tail(const struct core *core);

/* Has the output been silence since the tail of the last input ended? No fade is under way then. [rt] */
bool core_is_quiet(const struct core *core);

/* ---- masks ---- */

/* Asks for a mask on a side (enum side). The worker loads it if the side plays, else tries to read it and records its
 * path. Returns the number of the request, for core_answer; 0: the path is too long, or the core has no worker. [rt], but
 * it wakes the core's own loader by a system call */
uint64_t core_request_mask(struct core *core, int side, const char *path, size_t length);

/* Has the worker something to do? [rt] */
bool core_has_work(const struct core *core);

/* Does the worker load a mask or make an engine, or is it about to? [rt] */
bool core_is_loading(const struct core *core);

/* Returns the answer to a request; before core_activate ANSWER_PENDING. Waits as core_get_status does. [setup] */
enum answer core_answer(struct core *core, uint64_t number, char why[ANSWER_CAP]);

/* Does what was asked for. Returns true if a mask was asked for since the last call, or core_get_status has a new
 * result, also of a lost GPU. [setup] */
bool core_work(struct core *core);

enum { CORE_KEEP_SIDE = -1 };

/* Makes a and b the masks of the session, as a state has them, and, unless side is CORE_KEEP_SIDE, sets the control A_B
 * at the same moment. "": the side is empty; NULL: it stays. core_activate loads the mask of the side that plays, or, while
 * active, the worker. Returns the number of this request, for core_answer. [setup] */
uint64_t core_restore_masks(struct core *core, int side, const char *a, const char *b);

/* Asks for a mask that a user chose for the side of A_B. While active the worker loads it, and if it cannot be
 * loaded, the present one goes on; else it is restored as the mask of the session. Returns as core_request_mask does.
 * [setup] */
uint64_t core_choose_mask(struct core *core, const char *path);

/* Makes a and b the masks of the session, and loads that of the side that plays at once. No core_process may run.
 * [setup] */
void core_load_now(struct core *core, const char *a, const char *b);

/* Sets the controls and the mask of a preset, as core_choose_mask does. [setup] */
uint64_t core_load_preset(struct core *core, const struct plugin_preset *preset);

/* Copies the path that a state has for a side: a mask that plays or has played, or one that is not loaded yet or cannot
 * be read; "": the side is empty. [setup] */
void core_get_side_mask(struct core *core, int side, char path[CORE_PATH_BYTES]);

struct core_meters {
    char engine[96];     /* what plays: "cpu avx2, 48 kHz, 64 frames"; "": nothing yet                              */
    float in_peak, out_peak; /* largest magnitudes of all channels since the last call                              */
    float gain_db[N_SIDES];  /* of A and B, which make them equally loud                                            */
};

/* Fills in *meters; NaN and Inf are not peaks. Waits as core_get_status does. [setup] */
void core_get_meters(struct core *core, struct core_meters *meters);

/* Copies the result of the last load: "ok", or what is wrong, after "dry: " if the input passes dry. "": nothing was
 * loaded yet. Waits at most for the copy of such a text, not for a load. [setup] */
void core_get_status(struct core *core, char status[CORE_STATUS_BYTES]);

/* Finds the folder of the masks that ship, from the file of a plugin: Resources/masks of a VST3 bundle, or haloconv.lv2,
 * in its folder or one of five above, or there in lv2 or .lv2. It ends in /. false: it is missing; `folder` is then where the file is. [setup] */
bool core_find_folder(const char *file, char folder[CORE_PATH_BYTES]);

/* Writes the path of a mask that ships; NULL: the mask of a new instance. [rt] */
void core_shipped_path(const struct core *core, const char *file, char path[CORE_PATH_BYTES]);

/* ---- state: a text that every standard stores (state.c has the format) ---- */

/* Writes the state, with a final 0. Returns its length. [setup] */
size_t core_save(struct core *core, char text[CORE_STATE_BYTES]);

/* Sets controls and mask from a state. false: `why` has the reason, and nothing changed. [setup] */
bool core_restore(struct core *core, const char *text, size_t length, char *why, size_t cap);

#endif
