/* haloconv pipewire - a node of PipeWire with one port a channel. */
#include "host/commands.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "host/live/session/live_options.h"
#include "pipewire_channels.h"

#include <limits.h>
#include <stdio.h>

static bool node_read_channels(const struct option_use *use, void *to)
{
#ifdef HC_WITH_PIPEWIRE
    struct pipewire_channels channels;
    if (!pipewire_channels_read(use->text, &channels))
        return option_refuse(use, "needs a number up to %d or positions such as FL,FR,FC,LFE", PIPEWIRE_CHANNELS);
#endif
    return option_text(use, to);
}

static const struct option_row pipewire_options[] = {
    {"name", 0, "NAME", "Name of the node [the configuration's, else haloconv]", option_text, LIVE_OPTION_TO(name)},
    {"description", 0, "TEXT", "Name of the node that patchbays and mixers show [NAME]", option_text,
     LIVE_OPTION_TO(description)},
    {"remote", 0, "NAME", "Name or socket of the PipeWire daemon [the default one]", option_text,
     LIVE_OPTION_TO(server)},
    {"sink", 0, "NAME",
     "Make a virtual sink NAME of the desktop, into which programs play, and play the result to the default device, "
     "which may "
     "change, or to that of --output",
     option_text, LIVE_OPTION_TO(sink)},
    {"source", 0, "NAME", "Make a virtual microphone NAME of the desktop, from the default one or that of --input",
     option_text, LIVE_OPTION_TO(source)},
    {"channels", 0, "N|LIST",
     "Channels of the sink or source: their number, or their positions, as FL,FR,FC,LFE,RL,RR,SL,SR or AUX0,AUX1 [the "
     "configuration's port names, else as suits the mask]",
     node_read_channels, LIVE_OPTION_TO(channels)},
    {"default", 0, NULL, "Make the sink or source the default one, unless the user has chosen another", option_flag,
     LIVE_OPTION_TO(is_default)},
    {"connect", 0, NULL, "Link the ports to those of the default source and sink, and follow these", option_flag,
     LIVE_OPTION_TO(connect)},
    {"input", 0, "NODE", "Link the inputs to the outputs of this node, by its name or description", option_text,
     LIVE_OPTION_TO(input)},
    {"output", 0, "NODE", "Link the outputs to the inputs of this node", option_text, LIVE_OPTION_TO(output)},
    {"block", 0, "N", "Request cycles of N frames, the quantum [the daemon's choice]", option_int,
     LIVE_OPTION_TO(block), .min = 1, .max = 8192},
    {"rate", 0, "HZ", "Request this rate of the graph [the daemon's choice]", option_int, LIVE_OPTION_TO(rate),
     .min = 1000, .max = 768000},
    {"reconnect", 0, NULL,
     "If the daemon is absent or ends, wait for it and restore the links. Without this option the program ends "
     "with status 1",
     option_flag, LIVE_OPTION_TO(reconnect)},
    {0}};

const struct command_line pipewire_line = {
    .command = "pipewire",
    .usage = "MASK...",
    .text = "A node of PipeWire that convolves. MASK is a sound file, a text of coefficients, a configuration (see "
            "haloconv --help), or a bank of responses for moving sources. Ports are in-1, in-2, ... and out-1, out-2, "
            "..., or as the configuration names and connects them; there, system:capture_1 and system:playback_1 are "
            "the first ports of the default source and sink. No latency is added. Quantum and rate may change while it "
            "plays. With --sink or --source the program is a device of the desktop. With several masks the first "
            "plays, and keys n and p go through them.\v" LIVE_OPTIONS_KEYS "\n\n"
            "Under a session manager (NSM) the mask, gains and bypass are saved with the session, and MASK may be left "
            "out.\n\n"
            "  haloconv pipewire hall.wav plate.wav --connect\n"
            "  haloconv pipewire --sink phones --channels 8 hrir.wav",
    .groups = {{NULL, pipewire_options}, {LIVE_OPTIONS_TITLE, live_options}},
    LIVE_OPTIONS_MASKS};

#ifdef HC_WITH_PIPEWIRE
#include "pipewire_client.h"
#include "pipewire_stream.h"
#include "port_host.h"

#include <pipewire/filter.h>
#include <spa/control/control.h>
#include <spa/param/latency-utils.h>
#include <spa/pod/iter.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct pipewire_port { /* PipeWire's data of a port */
    const struct port_side *side;
    uint32_t id;                  /* in the daemon's list; SPA_ID_INVALID: it is not there yet */
    struct spa_latency_info peer; /* latency that the port's links report; loop thread */
    char full_name[300];
};

struct filter_client {
    struct pipewire_client common;
    struct pw_filter *filter;
    struct spa_hook hook;
    atomic_bool has_new_latency; /* of a port's links */
    atomic_bool is_streaming;
};

/* ---- audio thread ------------------------------------------------------------------------------ */

/* Sets the buffers of a side. Ports without a link have none: port i gets unlinked + i * stride. */
static void find_buffers(struct port_side *side, float *unlinked, size_t stride, int n)
{
    for (int i = 0; i < side->n; i++) {
        float *buffer = pw_filter_get_dsp_buffer(side->port[i], (uint32_t)n);
        side->buffer[i] = buffer ? buffer : unlinked + (size_t)i * stride;
    }
}

static void node_copy_midi(struct midi_ring *ring, void *port)
{
    struct pw_buffer *buffer = pw_filter_dequeue_buffer(port);
    if (!buffer) return;
    const struct spa_data *data = &buffer->buffer->datas[0];
    struct spa_pod *pod = data->data ? spa_pod_from_data(data->data, data->maxsize, data->chunk->offset, //
                                                         data->chunk->size)
                                     : NULL;
    struct spa_pod_control *event;
    if (pod && spa_pod_is_sequence(pod)) SPA_POD_SEQUENCE_FOREACH((struct spa_pod_sequence *)pod, event)
    if (event->type == SPA_CONTROL_Midi)
        midi_ring_put(ring, SPA_POD_BODY(&event->value), SPA_POD_BODY_SIZE(&event->value));
    pw_filter_queue_buffer(port, buffer);
}

static void node_on_process(void *data, struct spa_io_position *position)
{
    struct filter_client *c = data;
    struct port_host *h = c->common.host;
    int n = pipewire_client_begin_cycle(&c->common, &position->clock);
    find_buffers(&h->in, c->common.silence, 0, n);
    find_buffers(&h->out, c->common.discarded, PIPEWIRE_MAX_QUANTUM, n);
    hc_live_process(h->live, (const float *const *)h->in.buffer, h->out.buffer, n);
    if (h->midi_in.n > 0) node_copy_midi(&h->midi_ring, h->midi_in.port[0]);
}

/* ---- loop thread ------------------------------------------------------------------------------- */

static void node_on_state(void *data, enum pw_filter_state old, enum pw_filter_state reported, const char *error)
{
    (void)old, (void)reported, (void)error;
    struct filter_client *c = data;
    enum pw_filter_state state = pw_filter_get_state(c->filter, NULL);
    bool is_gone = state == PW_FILTER_STATE_ERROR || state == PW_FILTER_STATE_UNCONNECTED; /* removed by the daemon */
    pipewire_client_changed(&c->common, &c->is_streaming, state == PW_FILTER_STATE_STREAMING, is_gone);
}

/* Sets the latency of port i of a side: the range of all ports on the other side that have a route to or from this
 * port. haloconv adds no latency. */
static void node_set_latency(struct port_host *h, const struct port_side *side, int i, const unsigned char *reaches)
{
    const struct port_side *others = side->is_input ? &h->out : &h->in;
    struct spa_latency_info range;
    uint8_t bytes[1024];
    struct spa_pod_builder builder;
    spa_pod_builder_init(&builder, bytes, sizeof bytes);
    spa_latency_info_combine_start(&range, side->is_input ? SPA_DIRECTION_INPUT : SPA_DIRECTION_OUTPUT);
    for (int k = 0; k < others->n; k++) {
        const struct pipewire_port *other = others->port[k];
        if (port_host_reaches(h, reaches, side, i, k)) spa_latency_info_combine(&range, &other->peer);
    }
    spa_latency_info_combine_finish(&range);
    const struct spa_pod *parameter = spa_latency_build(&builder, SPA_PARAM_Latency, &range);
    pw_filter_update_params(((struct filter_client *)h->client)->filter, side->port[i], &parameter, 1);
}

/* Capture latency goes from inputs to outputs, playback latency from outputs to inputs. */
static void set_latencies(struct port_host *h, const struct port_side *side)
{
    unsigned char *reaches = session_reaches(h->session);
    for (int i = 0; i < side->n && reaches; i++) node_set_latency(h, side, i, reaches);
    free(reaches);
}

static void node_on_parameter(void *data, void *port_data, uint32_t id, const struct spa_pod *parameter)
{
    struct filter_client *c = data;
    struct pipewire_port *port = port_data;
    struct spa_latency_info latency;
    if (!port || id != SPA_PARAM_Latency || !parameter || port->side->is_midi ||
        spa_latency_parse(parameter, &latency) < 0)
        return;
    port->peer = latency;
    atomic_store(&c->has_new_latency, true);
}

/* ---- the client -------------------------------------------------------------------------------- */

static void node_leave(struct port_host *h)
{
    struct filter_client *c = h->client;
    for (int i = 0; i < h->connections.requested.n; i++)
        h->connections.requested.list[i].other_serial = 0; /* those were of this daemon */
    pipewire_graph_lock(c->common.graph);
    if (c->filter) {
        spa_hook_remove(&c->hook);
        pw_filter_destroy(c->filter);
    }
    pipewire_graph_unlock(c->common.graph);
    pipewire_client_leave(&c->common);
}

static struct pw_properties *node_properties(const struct port_host *h)
{
    const struct live_settings *s = h->settings;
    /* Like a client of JACK it runs without links: a mask that is asked for plays, and a reverberation ends. */
    struct pw_properties *p =
        pw_properties_new(PW_KEY_MEDIA_TYPE, "Audio", PW_KEY_MEDIA_CATEGORY, "Filter", PW_KEY_MEDIA_ROLE, "DSP",
                          PW_KEY_APP_NAME, "haloconv", PW_KEY_NODE_NAME, h->name, PW_KEY_NODE_DESCRIPTION,
                          s->description ? s->description : h->name, PW_KEY_NODE_ALWAYS_PROCESS, "true", NULL);
    if (p) pipewire_client_set_node(h, p);
    return p;
}

static bool open_filter(struct port_host *h, struct filter_client *c, char *why, size_t cap)
{
    static const struct pw_filter_events events = {PW_VERSION_FILTER_EVENTS, .state_changed = node_on_state,
                                                   .param_changed = node_on_parameter, .process = node_on_process};
    pipewire_graph_lock(c->common.graph);
    c->filter = pw_filter_new(c->common.graph->core, h->name, node_properties(h));
    if (c->filter) pw_filter_add_listener(c->filter, &c->hook, &events, c);
    pipewire_graph_unlock(c->common.graph);
    return c->filter || message_write(why, cap, "pipewire: no memory for a node; free some memory");
}

static bool node_join(struct port_host *h, char *why, size_t cap)
{
    if (!pipewire_client_join(h, sizeof(struct filter_client), why, cap)) return false;
    if (open_filter(h, h->client, why, cap)) return true;
    node_leave(h);
    h->client = NULL;
    return false;
}

static const char *node_port_name(const struct port_host *h, const void *port)
{
    (void)h;
    return ((const struct pipewire_port *)port)->full_name;
}

/* Has an earlier port this name? PipeWire would allow it, but a link would not know which one is meant. */
static bool is_taken(const struct port_host *h, const struct port_side *side, int i)
{
    const struct port_side *audio = side->is_input ? &h->in : &h->out;
    int n = side == audio ? i : audio->n; /* MIDI's port comes after them */
    while (n > 0 && strcmp(audio->name[n - 1], side->name[i]) != 0) n--;
    return n > 0;
}

static void *node_add_port(struct port_host *h, const struct port_side *side, int i, char *why, size_t cap)
{
    struct filter_client *c = h->client;
    if (is_taken(h, side, i)) {
        message_write(why, cap, "pipewire: port %s cannot be made; give each port a different name", side->name[i]);
        return NULL;
    }
    pipewire_graph_lock(c->common.graph);
    struct pipewire_port *port = pw_filter_add_port(
        c->filter, side->is_input ? PW_DIRECTION_INPUT : PW_DIRECTION_OUTPUT, PW_FILTER_PORT_FLAG_MAP_BUFFERS,
        sizeof *port,
        pw_properties_new(PW_KEY_FORMAT_DSP, side->is_midi ? "8 bit raw midi" : "32 bit float mono audio",
                          PW_KEY_PORT_NAME, side->name[i], NULL),
        NULL, 0);
    pipewire_graph_unlock(c->common.graph);
    if (!port) {
        message_write(why, cap, "pipewire: port %s cannot be made; free some memory", side->name[i]);
        return NULL;
    }
    *port = (struct pipewire_port){.side = side, .id = SPA_ID_INVALID};
    port->peer = SPA_LATENCY_INFO(side->is_input ? SPA_DIRECTION_OUTPUT : SPA_DIRECTION_INPUT);
    snprintf(port->full_name, sizeof port->full_name, "%s:%s", h->name, side->name[i]);
    return port;
}

/* Finds the ids of our ports in the daemon's list. false: it has not all of them yet. */
static bool find_ids(struct port_host *h, const struct port_side *side)
{
    const struct filter_client *c = h->client;
    for (int i = 0; i < side->n; i++) {
        const struct pipewire_object *object =
            pipewire_graph_own_port(c->common.graph, pw_filter_get_node_id(c->filter), !side->is_input, side->name[i]);
        if (!object) return false;
        ((struct pipewire_port *)side->port[i])->id = object->id;
    }
    return true;
}

static bool has_ports(struct port_host *h)
{
    return find_ids(h, &h->in) && find_ids(h, &h->out) && find_ids(h, &h->midi_in);
}

static bool node_activate(struct port_host *h, char *why, size_t cap)
{
    struct filter_client *c = h->client;
    if (!pipewire_client_begin(&c->common, why, cap)) return false;
    pipewire_graph_lock(c->common.graph);
    bool good = pw_filter_connect(c->filter, PW_FILTER_FLAG_RT_PROCESS | PW_FILTER_FLAG_CUSTOM_LATENCY, NULL, 0) == 0 &&
                pipewire_client_await(&c->common, has_ports);
    pipewire_graph_unlock(c->common.graph);
    return good || message_write(why, cap, "pipewire: the node cannot be made; see the daemon's messages");
}

static void node_update_latencies(struct port_host *h)
{
    struct filter_client *c = h->client;
    pipewire_graph_lock(c->common.graph);
    set_latencies(h, &h->in);
    set_latencies(h, &h->out);
    pipewire_graph_unlock(c->common.graph);
}

/* ---- links ------------------------------------------------------------------------------------- */

/* Requests a link of each port of a side to the port of the same number of a node. */
static void node_request_side(struct port_host *h, const struct port_side *side, const char *node)
{
    char other[512];
    for (int i = 0; node && i < side->n; i++) {
        snprintf(other, sizeof other, "%.400s:%s_%d", node, side->is_input ? "capture" : "playback", i + 1);
        connections_request(&h->connections, side, i, other);
    }
}

static bool node_request_devices(struct port_host *h)
{
    const struct live_settings *s = h->settings;
    const char *otherwise = s->connect ? "system" : NULL;
    node_request_side(h, &h->in, s->input ? s->input : otherwise);
    node_request_side(h, &h->out, s->output ? s->output : otherwise);
    return true;
}

static uint32_t own_id(const struct port_side *side, int i)
{
    return ((const struct pipewire_port *)side->port[i])->id;
}

/* Makes or removes the link of a connection to a port. false: there is none to remove. */
static bool link_ports(struct port_host *h, const struct connection *connection, uint32_t other, bool on)
{
    const struct filter_client *c = h->client;
    bool is_input = connection->side->is_input;
    uint32_t ours = own_id(connection->side, connection->port);
    uint32_t from = is_input ? other : ours, to = is_input ? ours : other;
    if (!on) return pipewire_graph_unlink(c->common.graph, from, to);
    pipewire_graph_link(c->common.graph, from, to);
    return true;
}

static bool node_connect_ports(void *data, const struct connection *connection)
{
    struct port_host *h = data;
    struct filter_client *c = h->client;
    struct connection *requested =
        connections_find(&h->connections.requested, connection->side, connection->port, connection->other);
    pipewire_graph_lock(c->common.graph);
    const struct pipewire_object *other =
        pipewire_graph_find_port(c->common.graph, connection->other, connection->side->is_input);
    if (other) link_ports(h, connection, other->id, true);
    if (other && requested) requested->other_serial = other->serial;
    pipewire_graph_unlock(c->common.graph);
    return other != NULL;
}

static const struct pipewire_object *next_link(const struct port_host *h, const struct port_side *side, int port,
                                               const struct pipewire_object *link)
{
    const struct filter_client *c = h->client;
    const struct pipewire_graph *g = c->common.graph;
    uint32_t ours = own_id(side, port);
    for (link = link ? link + 1 : g->objects; link < g->objects + g->n_objects; link++)
        if (link->kind == PIPEWIRE_LINK && (side->is_input ? link->to : link->from) == ours) return link;
    return NULL;
}

static int node_count_connections(void *data, const struct port_side *side, int port)
{
    struct port_host *h = data;
    struct filter_client *c = h->client;
    int n = 0;
    pipewire_graph_lock(c->common.graph);
    for (const struct pipewire_object *link = NULL; (link = next_link(h, side, port, link));) n++;
    pipewire_graph_unlock(c->common.graph);
    return n;
}

/* Does a requested connection lead to this port? It is then restored as it was requested. */
static bool is_requested(const struct port_host *h, const struct port_side *side, int port, uint64_t other)
{
    const struct connection_list *requested = &h->connections.requested;
    for (const struct connection *one = requested->list; one < requested->list + requested->n; one++)
        if (one->side == side && one->port == port && one->other_serial == other) return true;
    return false;
}

static void node_list_connections(void *data, const struct port_side *side, int port, struct connections *connections)
{
    struct port_host *h = data;
    struct filter_client *c = h->client;
    char name[512];
    pipewire_graph_lock(c->common.graph);
    for (const struct pipewire_object *link = NULL; (link = next_link(h, side, port, link));) {
        const struct pipewire_object *other =
            pipewire_graph_object(c->common.graph, side->is_input ? link->from : link->to);
        if (!other || is_requested(h, side, port, other->serial)) continue;
        pipewire_graph_port_name(c->common.graph, other, name, sizeof name);
        connections_add_current(connections, side, port, name);
    }
    pipewire_graph_unlock(c->common.graph);
}

static bool node_connect_midi(struct port_host *h)
{
    struct filter_client *c = h->client;
    pipewire_graph_lock(c->common.graph);
    const struct pipewire_object *output = pipewire_graph_find_midi(c->common.graph, h->settings->midi.connect);
    if (output) pipewire_graph_link(c->common.graph, output->id, own_id(&h->midi_in, 0));
    pipewire_graph_unlock(c->common.graph);
    return output != NULL;
}

/* Moves the requested links whose other end is now another port: the default device changed, or a device returned. A
 * link that the user removed stays removed. */
static void follow(struct port_host *h)
{
    const struct filter_client *c = h->client;
    const struct connection_list *list = &h->connections.requested;
    for (struct connection *one = list->list; one < list->list + list->n; one++) {
        const struct pipewire_object *other =
            pipewire_graph_find_port(c->common.graph, one->other, one->side->is_input);
        if (!one->other_serial || !other || other->serial == one->other_serial) continue;
        const uint32_t id = other->id;
        const uint64_t serial = other->serial; /* link_ports moves the objects if it removes one */
        const struct pipewire_object *former = pipewire_graph_find_serial(c->common.graph, one->other_serial);
        bool was_removed = former && !link_ports(h, one, former->id, false);
        one->other_serial = was_removed ? 0 : serial;
        if (!was_removed) link_ports(h, one, id, true);
    }
}

static void node_tend(struct port_host *h)
{
    struct filter_client *c = h->client;
    if (atomic_exchange(&c->has_new_latency, false)) node_update_latencies(h);
    if (!pipewire_client_tend(h)) return;
    pipewire_graph_lock(c->common.graph);
    follow(h);
    pipewire_graph_unlock(c->common.graph);
    /* A new port may be that of a device that was plugged in again. */
    if (atomic_exchange(&c->common.graph->has_new_port, false)) atomic_store(&h->midi_is_missing, true);
    atomic_store(&h->graph_changed, true);
}

static bool node_is_idle(const struct port_host *h)
{
    const struct filter_client *c = h->client;
    return c && !atomic_load(&c->is_streaming);
}

/* A sink or source of the desktop is two streams. */
static bool choose(struct port_host *h, struct live_settings *s)
{
    struct pipewire_channels channels;
    if (!s->sink && !s->source) {
        if (!s->channels && !s->is_default) return true;
        message_usage("pipewire", "--%s belongs to --sink or --source; give one", s->channels ? "channels" : "default");
        return false;
    }
    const char *refused = s->source && s->sink     ? "--source"
                          : s->name                ? "--name"
                          : s->midi.on             ? "--midi"
                          : s->connect             ? "--connect"
                          : s->sink && s->input    ? "--input"
                          : s->source && s->output ? "--output"
                                                   : NULL;
    if (refused) {
        message_usage("pipewire", "%s cannot be with %s; leave it out", refused, s->sink ? "--sink" : "--source");
        return false;
    }
    s->name = s->sink ? s->sink : s->source;
    int n = s->sink && s->channels ? pipewire_channels_read(s->channels, &channels) : 0;
    if (n) s->session.n_inputs = n;
    if (n && !s->session.live.n_sources && s->mask && hc_bank_is_file(s->mask)) s->session.live.n_sources = n;
    h->server = &pipewire_stream_server;
    return true;
}

int pipewire_command(int argc, char **argv)
{
    static const struct port_server server = {
        .line = &pipewire_line,
        .name = "the PipeWire daemon",
        .list_command = "pw-link -o",
        .choose = choose,
        .join = node_join,
        .leave = node_leave,
        .rate = pipewire_client_rate,
        .block = pipewire_client_block,
        .port_name = node_port_name,
        .add_port = node_add_port,
        .activate = node_activate,
        .request_devices = node_request_devices,
        .connect_midi = node_connect_midi,
        .update_latencies = node_update_latencies,
        .tend = node_tend,
        .is_idle = node_is_idle,
        .connections = {.connect = node_connect_ports, .count = node_count_connections, .list = node_list_connections}};
    return port_host_command(&server, argc, argv);
}

#else

int pipewire_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&pipewire_line, argc, argv, false, &settings);
    if (status >= 0) return status;
    live_options_free(&settings);
    return message_error("pipewire: " MESSAGE_NO_PART("PipeWire", "libpipewire-0.3-dev"));
}
#endif
