/* clap_host - a small CLAP host of one instance: loads the plugin, has the extensions of a host, keeps what the plugin
 * says, and checks that it says it on the right thread.
 */
#ifndef CLAP_HOST_H
#define CLAP_HOST_H

#include "check.h"
#include "plugins/core/controls.h"
#include "plugins/haloconv.clap/clap_more.h"

#include <clap/entry.h>
#include <clap/ext/audio-ports.h>
#include <clap/ext/latency.h>
#include <clap/ext/params.h>
#include <clap/ext/state.h>
#include <clap/plugin-factory.h>
#include <stdatomic.h>

enum { MAX_LOGS = 1 << 30 };

struct clap_session {
    const clap_plugin_t *plugin;
    const struct variant *variant;
    const clap_plugin_params_t *params;
    const clap_plugin_state_t *state;
    const clap_plugin_audio_ports_t *ports;
    const struct more_tail *tail;
    const struct more_render *render;
    const struct more_preset_load *presets;
    int n_rescans, n_loaded, n_errors; /* calls of the host's params.rescan, preset_load.loaded and on_error    */
    char error[1024];        /* text of the last on_error                                                        */
    char last[4096];         /* path or key of the last preset that was loaded or refused                        */
    int n_flush_requests, n_dirty, n_closed; /* calls of params.request_flush, state.mark_dirty, gui.closed      */
    bool was_destroyed;      /* of the last gui.closed                                                           */
    struct clap_sent { uint16_t type; clap_id id; double value; } sent[64]; /* events that came out              */
    atomic_int n_sent;       /* events so far                                                                    */
    int n_refused;           /* how many of the next ones find a full list                                       */
    int n_on_fd;             /* calls of the plugin's on_fd                                                      */
    bool has_fds, lacks_timer; /* before the window: the host has posix-fd-support; it has no timer-support      */
    atomic_int n_logs_allowed; /* calls of the host's log that return; the next one waits until a test raises this */
};

/* $CLAP_PLUGIN, in $BUILD unless it begins with /, "haloconv.clap" unless it is set before the first call. Ends the test on failure. */
const char *clap_file(void);
const clap_plugin_entry_t *clap_library(void);
const clap_plugin_factory_t *clap_factory(void);

/* has_extensions: or the host has none at all. */
struct clap_session *clap_open(const char *variant, bool has_extensions);
void clap_close(struct clap_session *s);

void clap_activate(struct clap_session *s, double rate, uint32_t max_frames); /* and start_processing            */
void clap_deactivate(struct clap_session *s);
void clap_reset(struct clap_session *s);
void clap_set_offline(struct clap_session *s, bool is_offline);

/* Events of the next block, in the order of their frames. */
void clap_set(struct clap_session *s, enum control control, double value, uint32_t frame);
void clap_modulate(struct clap_session *s, enum control control, double amount, uint32_t frame);
void clap_send(struct clap_session *s, const clap_event_header_t *event);
const clap_input_events_t *clap_events(struct clap_session *s);  /* these; the next clap_set begins anew */

/* A block with these events, on the audio thread; then on_main_thread, if the plugin asked for it. A thread other than
 * that of clap_open is an audio thread alone. */
clap_process_status clap_play(struct clap_session *s, float *const *in, float *const *out, uint32_t n);
clap_process_status clap_process_block(struct clap_session *s, const clap_process_t *process);

/* Calls on_main_thread until n presets were loaded or refused, since the beginning. */
void clap_await_presets(struct clap_session *s, int n);
void clap_tick(struct clap_session *s);            /* timer and descriptors of the window, if they are there     */
int clap_n_fds(const struct clap_session *s);      /* registered descriptors                                     */
void clap_flush(struct clap_session *s);           /* params.flush, while inactive                              */
void clap_idle(struct clap_session *s);            /* on_main_thread, if the plugin asked for it                 */

/* Calls of this thread count as those of another one. */
void clap_be_another_thread(bool is_another);

/* The first forbidden call of a block in real time since the last time; NULL = none. The first call sets the trap. */
const char *clap_caught(struct clap_session *s);

/* Everything logged since the last call; valid until the next one. */
const char *clap_log(struct clap_session *s);

/* A state as a stream whose calls move at most `chunk` bytes. Saved text: [32768], with a final 0. */
bool clap_save(struct clap_session *s, char *text, size_t chunk);
bool clap_load(struct clap_session *s, const char *text, size_t length, size_t chunk);

#endif
