/* haloconv jack - a JACK client with one port a channel. */
#include "host/commands.h"
#include "host/message.h"
#include "live_options.h"

#include <limits.h>
#include <stdio.h>

static const struct option_row jack_options[] = {
    {"name", 0, "NAME", "Name of the client [the configuration's, else haloconv]", option_text, LIVE_OPTION_TO(name)},
    {"server", 0, "SERVER", "Name of the JACK server [the configuration's, else the default one]", option_text,
     LIVE_OPTION_TO(server)},
    {"connect", 0, NULL, "Connect the ports to those of the sound card", option_flag, LIVE_OPTION_TO(connect)},
    {"reconnect", 0, NULL,
     "If the server is absent or ends, wait for it and restore the connections. Without this option the program ends "
     "with status 1",
     option_flag, LIVE_OPTION_TO(reconnect)},
    {0}};

const struct command_line jack_line = {
    .command = "jack",
    .usage = "MASK...",
    .text = "A JACK client that convolves. MASK is a sound file, a text of coefficients, a configuration (see "
            "haloconv --help), or a bank of responses for moving sources. Ports are in-1, in-2, ... and out-1, out-2, "
            "..., or as the configuration names and "
            "connects them. No latency is added. With several masks the first plays, and keys n and p go through "
            "them.\v" LIVE_OPTIONS_KEYS "\n\n"
            "Under a session manager (NSM) the mask, gains and bypass are saved with the session, and MASK may be left "
            "out.",
    .groups = {{NULL, jack_options}, {LIVE_OPTIONS_TITLE, live_options}},
    .names = "MASK",
    .max_names = INT_MAX,
    .names_to = offsetof(struct live_settings, masks),
    .masks_from = 1};

#ifdef HC_WITH_JACK
#include "control.h"
#include "host/stopwatch.h"
#include "jack_connections.h"
#include "jack_midi.h"
#include "jack_server.h"
#include "midi.h"
#include "nsm.h"
#include "osc.h"
#include "realtime.h"
#include "session.h"

#include <jack/jack.h>
#include <jack/thread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct jack_host {
    const struct live_settings *settings;
    struct session *session;
    hc_live *live; /* the session's */
    jack_client_t *client;
    struct jack_side in, out, midi_in; /* midi_in has no port without --midi */
    struct midi midi;
    struct jack_midi jack_midi;
    char name[128], server[128]; /* names of the client and the server; server "": the default */
    atomic_bool is_down;         /* the server went away */
    atomic_bool has_new_port;    /* a port of another client appeared */
    atomic_int audio_thread;     /* gettid of the audio thread; 0: not started yet */
    bool has_checked_priority;
    uint64_t reach_version; /* session_reach_version when JACK's latencies were computed */
    double next_check;      /* time of the next check of the connections */
    struct jack_connections connections;
    bool has_asked;             /* the sound card's ports were found and asked for (--connect) */
    int n_made;                 /* connections made at the last connect to the server */
    struct nsm *nsm;            /* the session manager; NULL: none */
    struct session_state state; /* under a session manager: the state at the start */
};

/* ---- callbacks --------------------------------------------------------------------------------- */

static int on_process(jack_nframes_t n, void *data)
{
    struct jack_host *h = data;
    for (int i = 0; i < h->in.n; i++) h->in.buffer[i] = jack_port_get_buffer(h->in.port[i], n);
    for (int o = 0; o < h->out.n; o++) h->out.buffer[o] = jack_port_get_buffer(h->out.port[o], n);
    hc_live_process(h->live, (const float *const *)h->in.buffer, h->out.buffer, (int)n);
    if (h->midi_in.n > 0) jack_midi_copy(&h->jack_midi, h->midi_in.port[0], n);
    return 0;
}

static void on_thread(void *data)
{
    struct jack_host *h = data;
    atomic_store(&h->audio_thread, gettid());
    realtime_touch_stack();
}

static int on_buffer_size(jack_nframes_t n, void *data)
{
    struct jack_host *h = data;
    session_request_format(h->session, (int)jack_get_sample_rate(h->client), (int)n);
    return 0;
}

static int on_sample_rate(jack_nframes_t rate, void *data)
{
    struct jack_host *h = data;
    session_request_format(h->session, (int)rate, (int)jack_get_buffer_size(h->client));
    return 0;
}

static void on_freewheel(int on, void *data)
{
    struct jack_host *h = data;
    hc_live_set_freewheel(h->live, on);
}

static int on_xrun(void *data)
{
    struct jack_host *h = data;
    session_count_xrun(h->session);
    return 0;
}

static void on_port(jack_port_id_t port, int is_new, void *data)
{
    (void)port;
    struct jack_host *h = data;
    if (!is_new) return;
    atomic_store(&h->jack_midi.is_sought, true); /* the new port may be that of a device that was plugged in again */
    atomic_store(&h->has_new_port, true);
}

static void on_shutdown(jack_status_t code, const char *reason, void *data)
{
    (void)code, (void)reason;
    struct jack_host *h = data;
    atomic_store(&h->is_down, true);
}

/* Sets the latency range of port `index`: the range of all ports on the other side that have a route to or from this
 * port. haloconv adds no latency. reaches: from session_reaches */
static void set_latency(struct jack_host *h, jack_latency_callback_mode_t mode, jack_port_t *port, int index,
                        const struct jack_side *others, const unsigned char *reaches)
{
    jack_latency_range_t range = {0, 0}, other;
    bool any = false;
    for (int i = 0; i < others->n; i++) {
        int in = others->is_input ? i : index, out = others->is_input ? index : i;
        if (!reaches[in * h->out.n + out]) continue;
        jack_port_get_latency_range(others->port[i], mode, &other);
        if (!any || other.min < range.min) range.min = other.min;
        if (!any || other.max > range.max) range.max = other.max;
        any = true;
    }
    jack_port_set_latency_range(port, mode, &range);
}

static void on_latency(jack_latency_callback_mode_t mode, void *data)
{
    struct jack_host *h = data;
    bool is_capture =
        mode ==
        JackCaptureLatency; /* capture latency: from inputs to outputs; playback latency: from outputs to inputs */
    const struct jack_side *side = is_capture ? &h->out : &h->in, *others = is_capture ? &h->in : &h->out;
    unsigned char *reaches = session_reaches(h->session);
    for (int i = 0; i < side->n && reaches; i++) set_latency(h, mode, side->port[i], i, others, reaches);
    free(reaches);
}

/* ---- the client -------------------------------------------------------------------------------- */

/* Chooses the names of client and server: those of the command line, else of the configuration. */
static bool choose_names(struct jack_host *h, char *why, size_t cap)
{
    const struct live_settings *s = h->settings;
    hc_responses names = {0};
    bool good = true;
    if (!(s->name && s->server)) good = hc_responses_load(s->mask, 0, 0, HC_NAMES_ONLY, &names, why, cap) == HC_OK;
    const char *name = s->name ? s->name : names.client, *server = s->server ? s->server : names.server;
    snprintf(h->name, sizeof h->name, "%s", name ? name : "haloconv");
    snprintf(h->server, sizeof h->server, "%s", server ? server : "");
    hc_responses_free(&names);
    return good;
}

static bool open_client(void *data, char *why, size_t cap)
{
    struct jack_host *h = data;
    h->client = jack_server_join(h->name, h->server, why, cap);
    return h->client != NULL;
}

static bool register_side(struct jack_host *h, struct jack_side *side, char *why, size_t cap)
{
    unsigned long flags = side->is_input ? JackPortIsInput : JackPortIsOutput;
    for (int i = 0; i < side->n; i++) {
        side->port[i] = jack_port_register(h->client, side->name[i], side->type, flags, 0);
        if (!side->port[i])
            return message_write(why, cap,
                                 "jack: port %s cannot be made; give each port a different name, or start the server "
                                 "with space for more ports (-p)",
                                 side->name[i]);
    }
    return true;
}

/* Registers ports and callbacks, activates the client and connects it. */
static bool start(struct jack_host *h, char *why, size_t cap)
{
    atomic_store(&h->is_down, false);
    if (!register_side(h, &h->in, why, cap) || !register_side(h, &h->out, why, cap) ||
        !register_side(h, &h->midi_in, why, cap))
        return false;
    jack_set_thread_init_callback(h->client, on_thread, h);
    jack_set_process_callback(h->client, on_process, h);
    jack_set_buffer_size_callback(h->client, on_buffer_size, h);
    jack_set_sample_rate_callback(h->client, on_sample_rate, h);
    jack_set_freewheel_callback(h->client, on_freewheel, h);
    jack_set_xrun_callback(h->client, on_xrun, h);
    jack_set_port_registration_callback(h->client, on_port, h);
    jack_set_latency_callback(h->client, on_latency, h);
    jack_on_info_shutdown(h->client, on_shutdown, h);
    h->reach_version = session_reach_version(h->session);
    if (jack_activate(h->client) != 0)
        return message_write(why, cap, "jack: the client cannot be activated; see the server's messages");
    if (h->settings->connect && !h->has_asked) {
        jack_connections_ask_sound_card(&h->connections, h->client, &h->in);
        jack_connections_ask_sound_card(&h->connections, h->client, &h->out);
        h->has_asked = !atomic_load(&h->is_down);
    }
    h->n_made = jack_connections_make(&h->connections, h->client);
    atomic_store(&h->jack_midi.is_sought, true);
    if (h->midi_in.n > 0) jack_midi_tend(&h->jack_midi, h->client, h->midi_in.port[0]);
    h->next_check = stopwatch_now() + 1;
    return true;
}

static void stop(void *data)
{
    struct jack_host *h = data;
    if (h->client) jack_client_close(h->client);
    h->client = NULL;
    jack_connections_restore(&h->connections);
}

static bool restart(void *data, char *why, size_t cap)
{
    struct jack_host *h = data;
    if (!open_client(h, why, cap)) return false;
    session_request_format(h->session, (int)jack_get_sample_rate(h->client), (int)jack_get_buffer_size(h->client));
    if (!start(h, why, cap)) {
        stop(h);
        return false;
    }
    int n = h->n_made + h->connections.wanted.n;
    *why = 0;
    if (n > 0) snprintf(why, cap, "%d of %d connection%s", h->n_made, n, message_s(n));
    return true;
}

static bool is_alive(void *data)
{
    struct jack_host *h = data;
    return !atomic_load(&h->is_down);
}

/* Checks the audio thread's priority: libjack sets it after on_thread, and does not return the system's refusal. */
static void check_priority(struct jack_host *h)
{
    int thread = atomic_load(&h->audio_thread);
    if (thread == 0 || h->has_checked_priority) return;
    h->has_checked_priority = true;
    if (jack_is_realtime(h->client) && realtime_is_refused(thread))
        message_note("the system refuses real-time priority; expect xruns under load; %s", realtime_remedy);
}

static void tend(void *data)
{
    struct jack_host *h = data;
    uint64_t version = session_reach_version(h->session);
    if (version != h->reach_version) jack_recompute_total_latencies(h->client);
    h->reach_version = version;
    double now = stopwatch_now();
    bool has_new_port = atomic_exchange(&h->has_new_port, false), is_due = now >= h->next_check;
    if (has_new_port || is_due) {
        jack_connections_make(&h->connections, h->client);
        if (h->midi_in.n > 0) jack_midi_tend(&h->jack_midi, h->client, h->midi_in.port[0]);
    }
    const struct jack_side *sides[] = {&h->in, &h->out, &h->midi_in};
    if (h->settings->reconnect) jack_connections_add_new(&h->connections, h->client, sides, 3);
    if (!is_due) return;
    h->next_check = now + 1;
    check_priority(h);
    if (h->settings->reconnect) jack_connections_remember(&h->connections, h->client, sides, 3);
}

/* Makes the ports of a side. ports: [n] names and connections from the configuration; NULL: the defaults. */
static bool open_side(struct jack_host *h, struct jack_side *side, const char *type, bool is_input, int n,
                      const hc_port *ports)
{
    *side = (struct jack_side){.type = type,
                               .is_input = is_input,
                               .n = n,
                               .port = calloc((size_t)n, sizeof *side->port),
                               .name = calloc((size_t)n, sizeof *side->name),
                               .buffer = calloc((size_t)n, sizeof *side->buffer)};
    if (!side->port || !side->name || !side->buffer) return false;
    for (int i = 0; i < n; i++) {
        char numbered[32];
        snprintf(numbered, sizeof numbered, "%s-%d", is_input ? "in" : "out", i + 1);
        side->name[i] = strdup(ports ? ports[i].name : numbered);
        if (!side->name[i]) return false;
        if (ports && ports[i].connect) jack_connections_ask(&h->connections, side, i, ports[i].connect);
    }
    return true;
}

static void close_side(struct jack_side *side)
{
    for (int i = 0; side->name && i < side->n; i++) free(side->name[i]);
    free(side->name);
    free(side->port);
    free(side->buffer);
}

static bool open_midi(struct jack_host *h, struct control_host *host, char *why, size_t cap)
{
    if (!h->settings->midi.on) return true;
    if (!midi_open(&h->midi, &h->settings->midi, why, cap)) return false;
    h->midi.source = jack_midi_source(&h->jack_midi);
    h->jack_midi.connect = h->settings->midi.connect;
    host->midi = &h->midi;
    return true;
}

static bool open_session(struct jack_host *h, char *why, size_t cap)
{
    int rate = (int)jack_get_sample_rate(h->client), block = (int)jack_get_buffer_size(h->client);
    const struct session_settings *settings = &h->settings->session;
    const char *path = h->settings->mask;
    hc_responses mask;
    if (!session_load(settings, path, rate, &mask, why, cap)) return false;
    const hc_port midi_port = {.name = "midi-in"};
    if (!open_side(h, &h->in, JACK_DEFAULT_AUDIO_TYPE, true, mask.n_in, mask.in_port) ||
        !open_side(h, &h->out, JACK_DEFAULT_AUDIO_TYPE, false, mask.n_out, mask.out_port) ||
        !open_side(h, &h->midi_in, JACK_DEFAULT_MIDI_TYPE, true, h->settings->midi.on, &midi_port)) {
        message_write(why, cap, "jack: no memory for %d ports; free some memory", mask.n_in + mask.n_out);
        hc_responses_free(&mask);
        return false;
    }
    h->session = session_open(settings, path, &mask, rate, block, why, cap);
    if (h->session) h->live = session_live(h->session);
    return h->session != NULL;
}

static void report_connections(const struct jack_host *h)
{
    int n = h->in.n + h->out.n;
    if (h->n_made > 0)
        message_note("%d ports, %d of %d connections", n, h->n_made, h->n_made + h->connections.wanted.n);
    else
        message_note("none of %d ports is connected; use %sa patchbay", n, h->settings->connect ? "" : "--connect or ");
}

static void report_start(const struct jack_host *h)
{
    struct session_status status;
    session_get_status(h->session, &status);
    message_note("%s: %d in, %d out, %d Hz, blocks of %d frames on %s (%s)", jack_get_client_name(h->client), h->in.n,
                 h->out.n, status.info.rate, status.info.block, status.info.device, status.info.method);
    report_connections(h);
    if (h->midi_in.n > 0) message_note("MIDI on %s", jack_port_name(h->midi_in.port[0]));
    if (h->settings->midi.connect && atomic_load(&h->jack_midi.is_sought))
        message_note(
            "--midi-connect %s: this output does not exist; it is connected when it appears (`jack_lsp` lists outputs)",
            h->settings->midi.connect);
    if (!jack_is_realtime(h->client))
        message_note(
            "the server runs without real-time priority; expect xruns under load, or start it with -R; if the system "
            "refuses that, %s",
            realtime_remedy);
}

/* ---- the session manager ----------------------------------------------------------------------- */

/* The manager's saved state and client name override the command line. OSC and MIDI are always on: there is no
 * terminal, and a manager starts clients without options. */
static bool join_manager(struct jack_host *h, struct live_settings *settings, struct control_host *host, char *why,
                         size_t cap)
{
    struct session_settings *session = &settings->session;
    if (!nsm_is_wanted()) return true;
    h->nsm = host->nsm = nsm_join(why, cap);
    if (!h->nsm && *why && settings->mask) { /* NSM_URL may be left over from a manager that has ended */
        message_note("%s; haloconv continues without a session manager", why);
        return true;
    }
    if (!h->nsm) return false;
    h->state = (struct session_state){.wet = session->wet, .dry = session->dry, .gain = session->gain};
    if (settings->mask) snprintf(h->state.mask, sizeof h->state.mask, "%s", settings->mask);
    if (!nsm_load(h->nsm, &h->state, why, cap)) return false;
    session_state_settings(&h->state, session);
    settings->mask = h->state.mask;
    settings->name = nsm_client_name(h->nsm);
    if (!settings->osc) settings->osc = "0";
    settings->midi.on = true;
    return true;
}

static bool begin(struct jack_host *h, char *why, size_t cap)
{
    if (!choose_names(h, why, cap) || !control_retry(open_client, h, h->settings->reconnect, why, cap) ||
        !open_session(h, why, cap))
        return false;
    if (start(h, why, cap)) return true;
    if (!h->settings->reconnect) return false;
    stop(h); /* the server may have died while the mask was loaded */
    return control_retry(restart, h, true, why, cap);
}

int jack_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&jack_line, argc, argv, nsm_is_wanted(), &settings);
    if (status >= 0) return status;
    char why[MESSAGE_CAP] = "";
    struct jack_host h = {.settings = &settings};
    struct control_host host = {.data = &h,
                                .name = "the JACK server",
                                .is_alive = is_alive,
                                .restart = restart,
                                .stop = stop,
                                .tend = tend,
                                .stats.fd = -1};
    control_hold_signals();
    if (join_manager(&h, &settings, &host, why, sizeof why) && open_midi(&h, &host, why, sizeof why) &&
        control_open(&settings, &host, why, sizeof why) && begin(&h, why, sizeof why)) {
        if (h.nsm) nsm_opened(h.nsm, &h.state, NULL);
        report_start(&h);
        status = control_run(&settings, h.session, &host);
    } else {
        stop(&h);
        if (h.nsm && *why) nsm_opened(h.nsm, &h.state, why);
        status = *why ? message_error("%s", why) : 0;
    }
    control_close(&host);
    nsm_leave(h.nsm);
    close_side(&h.in);
    close_side(&h.out);
    close_side(&h.midi_in);
    jack_connections_free(&h.connections);
    status = control_leave(h.session, false, status);
    live_options_free(&settings);
    return status;
}

#else

int jack_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&jack_line, argc, argv, false, &settings);
    if (status >= 0) return status;
    live_options_free(&settings);
    return message_error("jack: this build has no JACK; install libjack-jackd2-dev and build again");
}
#endif
