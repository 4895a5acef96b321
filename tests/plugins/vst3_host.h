/* vst3_host - a small VST3 host of one instance: loads the bundle, and sends blocks with automation. */
#ifndef VST3_HOST_H
#define VST3_HOST_H

#include "check.h"
#include "plugins/core/controls.h"
#include "plugins/haloconv.vst3/vst3_interfaces.h"

struct vst3_session {
    const struct variant *variant;
    struct v3_component **component;
    struct v3_audio_processor **processor;
    struct v3_edit_controller **controller;
    struct v3_process_setup setup;
    bool is_trapped;             /* forbidden calls of blocks in real time are noted                             */
    const char *caught;          /* the first one; NULL = none                                                   */
    int n_silent;                /* outputs of the last vst3_play that are flagged as silence                       */
    double meters[N_CONTROLS];   /* normalised values that blocks have sent; NaN: none                           */
    struct vst3_handler {        /* of the host, for the window and the presets                                  */
        const struct v3_component_handler *calls;
        const struct v3_component_handler2 *more_calls;
        int n_refs, n_restarts, n_dirty; /* restarts: those for values                                           */
        struct vst3_edit { char kind; v3_param_id id; double value; } edits[64]; /* kind: '(', '=' or ')'        */
        int n_edits;
        bool leaves;             /* inside restart_component, the host takes itself back                         */
        char state[32768];       /* at the last set_dirty                                                        */
    } handler;
};

/* The plugin, $VST3_PLUGIN in $BUILD or the file of the bundle, and its factory. They end the test on failure. */
const char *vst3_file(void);
struct v3_plugin_factory_3 **vst3_factory(void);

/* Makes an instance. Its blocks are of 32 bits, at 48 kHz, offline, until `setup` is changed before vst3_activate. */
struct vst3_session *vst3_open(const char *variant);
void vst3_close(struct vst3_session *s);
void vst3_activate(struct vst3_session *s, int max_frames);
void vst3_deactivate(struct vst3_session *s);

/* Adds a point to the queue of a parameter of the next block, at most 16 for each. value: in the control's units, of
 * ENABLED the bypass; one that is not finite is sent as it is. */
void vst3_point(struct vst3_session *s, enum control control, double value, int frame);

/* A block with these points; in and out are floats or doubles, as in `setup`. */
v3_result vst3_play(struct vst3_session *s, void *const *in, void *const *out, int n);
v3_result vst3_block(struct vst3_session *s, struct v3_process_data *data);
struct v3_param_changes **vst3_points(void);

double vst3_get(struct vst3_session *s, enum control control); /* as vst3_point's value                          */

/* A state as a stream whose calls move at most `chunk` bytes; if it is odd, the last bytes are read with V3_FALSE.
 * Saved text: [32768], with a final 0. */
bool vst3_save(struct vst3_session *s, char *text, int chunk);
bool vst3_load(struct vst3_session *s, const char *text, size_t length, int chunk);

#endif
