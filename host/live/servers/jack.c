/* haloconv jack - a JACK client with one port a channel. */
#include "host/commands.h"
#include "host/message.h"
#include "host/live/session/live_options.h"

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
            "out.\n\n"
            "  haloconv jack hall.wav plate.wav --connect --osc 9000\n"
            "  haloconv jack head --sources 8",
    .groups = {{NULL, jack_options}, {LIVE_OPTIONS_TITLE, live_options}},
    LIVE_OPTIONS_MASKS};

#ifdef HC_WITH_JACK
#include "jack_server.h"
#include "port_host.h"
#include "host/live/session/realtime.h"

#include <errno.h>
#include <jack/jack.h>
#include <jack/midiport.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- callbacks --------------------------------------------------------------------------------- */

/* Copies the MIDI messages of a block. */
static void copy_midi(struct midi_ring *ring, jack_port_t *port, jack_nframes_t n)
{
    void *buffer = jack_port_get_buffer(port, n);
    jack_midi_event_t event;
    for (uint32_t i = 0; jack_midi_event_get(&event, buffer, i) == 0; i++)
        midi_ring_put(ring, event.buffer, event.size);
}

static int client_on_process(jack_nframes_t n, void *data)
{
    struct port_host *h = data;
    int cancel;
    /* jack_deactivate cancels a thread at once, and a job that it left half done would never end. No system call. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    port_host_begin_block(h);
    for (int i = 0; i < h->in.n; i++) h->in.buffer[i] = jack_port_get_buffer(h->in.port[i], n);
    for (int o = 0; o < h->out.n; o++) h->out.buffer[o] = jack_port_get_buffer(h->out.port[o], n);
    hc_live_process(h->live, (const float *const *)h->in.buffer, h->out.buffer, (int)n);
    if (h->midi_in.n > 0) copy_midi(&h->midi_ring, h->midi_in.port[0], n);
    pthread_setcancelstate(cancel, NULL);
    return 0;
}

/* JACK calls it in several threads, of which one is the audio thread. */
static void client_on_thread(void *data)
{
    (void)data;
    realtime_touch_stack();
}

static int on_buffer_size(jack_nframes_t n, void *data)
{
    struct port_host *h = data;
    session_request_format(h->session, (int)jack_get_sample_rate(h->client), (int)n);
    return 0;
}

static int on_sample_rate(jack_nframes_t rate, void *data)
{
    struct port_host *h = data;
    session_request_format(h->session, (int)rate, (int)jack_get_buffer_size(h->client));
    return 0;
}

static void on_freewheel(int on, void *data)
{
    struct port_host *h = data;
    hc_live_set_freewheel(h->live, on);
}

static int on_xrun(void *data)
{
    struct port_host *h = data;
    session_count_xrun(h->session);
    return 0;
}

static void on_port(jack_port_id_t port, int is_new, void *data)
{
    (void)port;
    struct port_host *h = data;
    if (!is_new) return;
    atomic_store(&h->midi_is_missing, true); /* the new port may be that of a device that was plugged in again */
    atomic_store(&h->graph_changed, true);
}

static void on_shutdown(jack_status_t code, const char *reason, void *data)
{
    (void)code, (void)reason;
    struct port_host *h = data;
    atomic_store(&h->is_down, true);
}

/* Sets the latency range of port i of a side: the range of all ports on the other side that have a route to or from this
 * port. haloconv adds no latency. reaches: from session_reaches */
static void set_latency(struct port_host *h, jack_latency_callback_mode_t mode, const struct port_side *side, int i,
                        const unsigned char *reaches)
{
    const struct port_side *others = side->is_input ? &h->out : &h->in;
    jack_latency_range_t range = {0, 0}, other;
    bool any = false;
    for (int k = 0; k < others->n; k++) {
        if (!port_host_reaches(h, reaches, side, i, k)) continue;
        jack_port_get_latency_range(others->port[k], mode, &other);
        if (!any || other.min < range.min) range.min = other.min;
        if (!any || other.max > range.max) range.max = other.max;
        any = true;
    }
    jack_port_set_latency_range(side->port[i], mode, &range);
}

/* Capture latency goes from inputs to outputs, playback latency from outputs to inputs. */
static void on_latency(jack_latency_callback_mode_t mode, void *data)
{
    struct port_host *h = data;
    const struct port_side *side = mode == JackCaptureLatency ? &h->out : &h->in;
    unsigned char *reaches = session_reaches(h->session);
    for (int i = 0; i < side->n && reaches; i++) set_latency(h, mode, side, i, reaches);
    free(reaches);
}

/* ---- the client -------------------------------------------------------------------------------- */

static bool client_join(struct port_host *h, char *why, size_t cap)
{
    h->client = jack_server_join(h->name, h->server_name, why, cap);
    return h->client != NULL;
}

static void client_leave(struct port_host *h)
{
    jack_client_close(h->client);
}

static int rate(const struct port_host *h)
{
    return (int)jack_get_sample_rate(h->client);
}

static int block(const struct port_host *h)
{
    return (int)jack_get_buffer_size(h->client);
}

static bool client_is_realtime(const struct port_host *h)
{
    return jack_is_realtime(h->client);
}

static const char *client_name(const struct port_host *h)
{
    return jack_get_client_name(h->client);
}

static const char *port_name(const struct port_host *h, const void *port)
{
    (void)h;
    return jack_port_name(port);
}

static bool is_input_name(const struct port_host *h, const char *name)
{
    for (int i = 0; i < h->in.n; i++)
        if (strcmp(h->in.name[i], name) == 0) return true;
    return false;
}

/* JACK has one list of a client's port names. The channels of an equalizer have one name for input and output; then the
 * output is "out-NAME". */
static void *add_port(struct port_host *h, const struct port_side *side, int i, char *why, size_t cap)
{
    const char *type = side->is_midi ? JACK_DEFAULT_MIDI_TYPE : JACK_DEFAULT_AUDIO_TYPE;
    const char *prefix = side == &h->out && is_input_name(h, side->name[i]) ? "out-" : "";
    char name[512];
    snprintf(name, sizeof name, "%s%s", prefix, side->name[i]);
    void *port = jack_port_register(h->client, name, type, side->is_input ? JackPortIsInput : JackPortIsOutput, 0);
    if (!port)
        message_write(why, cap,
                      "jack: port %s cannot be made; give each port a different name, or start the server "
                      "with space for more ports (-p)",
                      side->name[i]);
    return port;
}

static bool client_activate(struct port_host *h, char *why, size_t cap)
{
    jack_set_thread_init_callback(h->client, client_on_thread, h);
    jack_set_process_callback(h->client, client_on_process, h);
    jack_set_buffer_size_callback(h->client, on_buffer_size, h);
    jack_set_sample_rate_callback(h->client, on_sample_rate, h);
    jack_set_freewheel_callback(h->client, on_freewheel, h);
    jack_set_xrun_callback(h->client, on_xrun, h);
    jack_set_port_registration_callback(h->client, on_port, h);
    jack_set_latency_callback(h->client, on_latency, h);
    jack_on_info_shutdown(h->client, on_shutdown, h);
    return jack_activate(h->client) == 0 ||
           message_write(why, cap, "jack: the client cannot be activated; see the server's messages");
}

static void update_latencies(struct port_host *h)
{
    jack_recompute_total_latencies(h->client);
}

/* ---- connections ------------------------------------------------------------------------------- */

/* Requests a connection of each port of a side to the sound card's port of the same number. By "system:" PipeWire's
 * libjack finds the ports of the default device, which need not be a card: a virtual sink's ports are not physical. */
static void request_side(struct port_host *h, const struct port_side *side)
{
    unsigned long flags = side->is_input ? JackPortIsOutput : JackPortIsInput;
    const char *name = side->is_input ? "^system:capture_" : "^system:playback_";
    const char **ports = jack_get_ports(h->client, name, JACK_DEFAULT_AUDIO_TYPE, flags);
    if (!ports) ports = jack_get_ports(h->client, NULL, JACK_DEFAULT_AUDIO_TYPE, flags | JackPortIsPhysical);
    for (int i = 0; ports && ports[i] && i < side->n; i++) connections_request(&h->connections, side, i, ports[i]);
    if (!ports) message_note("--connect: the sound card has no %s", side->is_input ? "inputs" : "outputs");
    jack_free(ports);
}

static bool request_devices(struct port_host *h)
{
    if (!h->settings->connect) return true;
    request_side(h, &h->in);
    request_side(h, &h->out);
    return !atomic_load(&h->is_down);
}

static bool connect_ports(void *data, const struct connection *c)
{
    struct port_host *h = data;
    const char *ours = jack_port_name(c->side->port[c->port]);
    bool is_input = c->side->is_input;
    int error = jack_port_by_name(h->client, c->other)
                    ? jack_connect(h->client, is_input ? c->other : ours, is_input ? ours : c->other)
                    : ENOENT;
    return !error || error == EEXIST;
}

static int count_connections(void *data, const struct port_side *side, int port)
{
    (void)data;
    return jack_port_connected(side->port[port]);
}

static void list_connections(void *data, const struct port_side *side, int port, struct connections *connections)
{
    struct port_host *h = data;
    const char **others = jack_port_get_all_connections(h->client, side->port[port]);
    for (int k = 0; others && others[k]; k++) connections_add_current(connections, side, port, others[k]);
    jack_free(others);
}

static bool is_midi_called(jack_client_t *client, const char *port, const char *part)
{
    char first[512] = "", second[512] = "";
    char *aliases[2] = {first, second}; /* a sound card's MIDI ports have the device's name in an alias */
    if (jack_port_name_size() <= (int)sizeof first) jack_port_get_aliases(jack_port_by_name(client, port), aliases);
    return strstr(port, part) || strstr(first, part) || strstr(second, part);
}

/* Finds the first MIDI output whose name contains the text. false: not found. */
static bool find_midi_output(jack_client_t *client, const char *part, char *name, size_t cap)
{
    bool is_found = false;
    const char **ports = jack_get_ports(client, NULL, JACK_DEFAULT_MIDI_TYPE, JackPortIsOutput);
    for (int i = 0; ports && ports[i] && !is_found; i++) {
        is_found = is_midi_called(client, ports[i], part);
        snprintf(name, cap, "%s", ports[i]);
    }
    jack_free(ports);
    return is_found;
}

static bool connect_midi(struct port_host *h)
{
    char output[512];
    int error = find_midi_output(h->client, h->settings->midi.connect, output, sizeof output)
                    ? jack_connect(h->client, output, jack_port_name(h->midi_in.port[0]))
                    : ENOENT;
    return !error || error == EEXIST;
}

int jack_command(int argc, char **argv)
{
    static const struct port_server server = {
        .line = &jack_line,
        .name = "the JACK server",
        .list_command = "jack_lsp",
        .join = client_join,
        .leave = client_leave,
        .rate = rate,
        .block = block,
        .is_realtime = client_is_realtime,
        .client_name = client_name,
        .port_name = port_name,
        .add_port = add_port,
        .activate = client_activate,
        .request_devices = request_devices,
        .connect_midi = connect_midi,
        .update_latencies = update_latencies,
        .connections = {.connect = connect_ports, .count = count_connections, .list = list_connections}};
    return port_host_command(&server, argc, argv);
}

#else

int jack_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&jack_line, argc, argv, false, &settings);
    if (status >= 0) return status;
    live_options_free(&settings);
    return message_error("jack: " MESSAGE_NO_PART("JACK", "libjack-jackd2-dev"));
}
#endif
