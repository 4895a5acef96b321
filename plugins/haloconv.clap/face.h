/* face - an instance of a CLAP plugin: the plugin core, and what the host offers. */
#ifndef CLAP_FACE_H
#define CLAP_FACE_H

#include "clap_more.h"
#include "plugins/core/core.h"

#include <clap/ext/gui.h>
#include <clap/ext/params.h>
#include <clap/ext/thread-check.h>
#include <clap/ext/timer-support.h>
#include <stdatomic.h>

#define PLUGIN_ID "haloconv." /* followed by the variant's symbol */

enum { PIECE = 256 }; /* frames that are converted from and to 64 bits at once */

struct face {
    clap_plugin_t plugin;
    const clap_host_t *host;
    struct core *core;
    const clap_host_thread_check_t *threads; /* of the host, like the following: NULL: it has none */
    const clap_host_params_t *params;
    const struct more_host_log *log;
    const struct more_host_tail *tail;
    const struct more_host_preset_load *presets;

    bool is_active;              /* main thread; others read it between activate and deactivate */
    uint32_t reported_tail;      /* audio */
    float (*pieces)[PIECE];      /* [n_in + n_out]; audio */
    atomic_bool has_news;        /* set by the worker, cleared by on_main_thread */
    atomic_uint gestures[N_CONTROLS]; /* enum gesture: what the window did, and the host does not know yet */
    _Atomic float window_values[N_CONTROLS]; /* for GESTURE_VALUE: the last value that the window set */
    struct gui *gui;             /* main thread; NULL: no window */
    uint64_t window_request;     /* main thread: number of the window's request, whose end changes the state; 0: none */

    /* main thread: the last preset or file that was not refused; preset_request: its number, 0: it is answered */
    uint64_t preset_request;
    uint32_t preset_kind;
    char preset_location[CORE_PATH_BYTES], preset_key[32];
};

/* false, and a line in the host's log, if the host says that this is not its main thread. */
bool face_is_on_main(const struct face *face, const char *call);

static inline struct face *face_of(const clap_plugin_t *plugin)
{
    return plugin->plugin_data;
}

/* clap_params.c */
extern const clap_plugin_params_t face_params;
void face_apply_event(struct face *face, const clap_event_header_t *event); /* audio, or main while inactive */
void face_rescan(struct face *face); /* main thread: a state or preset has set the controls, maybe after the window */

enum gesture { GESTURE_BEGIN = 1, GESTURE_VALUE = 2, GESTURE_END = 4 };
void face_gesture(struct face *face, int control, enum gesture gesture); /* main thread: for the next block or flush */
void face_set_from_window(struct face *face, int control, double value); /* main thread */
void face_send_gestures(struct face *face, const clap_output_events_t *out); /* as face_apply_event; NULL: no list */

/* clap_process.c: audio */
clap_process_status face_process(const clap_plugin_t *plugin, const clap_process_t *process);

/* clap_presets.c: main thread */
extern const struct more_preset_load face_preset_load;
extern const struct more_preset_discovery face_preset_discovery;
void face_answer_preset(struct face *face); /* reports the end of a load to the host */

/* clap_gui.c: main thread; a build without X11 lacks it */
extern const clap_plugin_gui_t face_gui;
extern const clap_plugin_timer_support_t face_timer;
extern const struct more_posix_fd face_posix_fd;
void face_close_gui(struct face *face);
void face_answer_window(struct face *face); /* a mask is loaded */

/* clap_plugin.c: any thread */
void face_report(void *face, int level, const char *text); /* to the host's log; enum hc_live_level */
const clap_plugin_t *face_create(const clap_plugin_descriptor_t *descriptor, const struct variant *variant,
                                 const char *folder, const clap_host_t *host);

/* Writes the masks that are inside the plugin into the user's cache folder, unless they are there. folder: its path, which
 * ends in /. false: it cannot be written, or this build has none inside. [main-thread] */
#ifdef HC_PLUGIN_MASKS
bool face_unpack_masks(char folder[CORE_PATH_BYTES]);
#else
#define face_unpack_masks(folder) ((void)(folder))
#endif

#endif
