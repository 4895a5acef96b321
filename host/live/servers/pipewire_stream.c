#include "pipewire_stream.h"

#ifdef HC_WITH_PIPEWIRE
#include "host/message.h"
#include "host/stopwatch.h"
#include "pipewire_channels.h"
#include "pipewire_client.h"

#include <pipewire/extensions/metadata.h>
#include <pipewire/stream.h>
#include <spa/param/audio/format-utils.h>
#include <spa/param/latency-utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream_client {
    struct pipewire_client common;
    struct pw_stream *capture, *playback;
    struct pw_stream *keeper; /* of a sink: plays nothing into it, but keeps the graph running for a tail; NULL: none */
    bool keeps;               /* the keeper is active */
    _Atomic int64_t quiet;    /* frames of silent input in succession */
    struct spa_hook capture_hook, playback_hook;
    struct pipewire_channels in, out;       /* of the capture and of the playback stream */
    char target[256];                       /* name of the device that was asked for; "": the default one */
    const struct spa_io_position *position; /* of the graph's cycle; NULL: not known; audio thread */
    atomic_bool captures, plays;            /* the streams are streaming */
};

/* ---- audio thread ------------------------------------------------------------------------------ */

/* Returns the newest buffer of the capture stream, and gives older ones back. NULL: none. */
static struct pw_buffer *newest(struct pw_stream *stream)
{
    struct pw_buffer *buffer = NULL;
    for (struct pw_buffer *next; (next = pw_stream_dequeue_buffer(stream)); buffer = next)
        if (buffer) pw_stream_queue_buffer(stream, buffer);
    return buffer;
}

/* Sets the buffers of the inputs. *n becomes the smallest number of frames in them. */
static void find_inputs(const struct stream_client *c, const struct pw_buffer *in, int *n)
{
    struct port_side *side = &c->common.host->in;
    for (int i = 0; i < side->n; i++) {
        const struct spa_data *data = in && i < (int)in->buffer->n_datas ? &in->buffer->datas[i] : NULL;
        side->buffer[i] = c->common.silence;
        if (!data || !data->data || data->chunk->size == 0) continue;
        uint32_t offset = data->chunk->offset < data->maxsize ? data->chunk->offset : data->maxsize;
        uint32_t left = data->maxsize - offset, size = data->chunk->size < left ? data->chunk->size : left;
        side->buffer[i] = SPA_PTROFF(data->data, offset, float);
        if ((int)(size / sizeof(float)) < *n) *n = (int)(size / sizeof(float));
    }
}

/* Sets the buffers of the outputs, and the size of what will be in them: *n frames, lowered to what fits. */
static void find_outputs(const struct stream_client *c, const struct pw_buffer *out, int *n)
{
    struct port_side *side = &c->common.host->out;
    int n_datas = out ? (int)out->buffer->n_datas : 0;
    for (int i = 0; i < side->n; i++) side->buffer[i] = c->common.discarded + (size_t)i * PIPEWIRE_MAX_QUANTUM;
    for (int i = 0; i < side->n && i < n_datas; i++) {
        const struct spa_data *data = &out->buffer->datas[i];
        if (data->data) side->buffer[i] = data->data;
        if (data->data && (int)(data->maxsize / sizeof(float)) < *n) *n = (int)(data->maxsize / sizeof(float));
    }
    for (int i = 0; i < n_datas; i++)
        *out->buffer->datas[i].chunk =
            (struct spa_chunk){.size = (uint32_t)*n * sizeof(float), .stride = sizeof(float)};
}

static bool is_quiet(const struct port_side *side, int n)
{
    for (int i = 0; i < side->n; i++)
        for (int frame = 0; frame < n; frame++)
            if (side->buffer[i][frame] != 0) return false;
    return true;
}

/* Convolves a cycle. The capture stream calls it through the playback stream. */
static void on_playback(void *data)
{
    struct stream_client *c = data;
    struct port_host *h = c->common.host;
    struct pw_buffer *in = newest(c->capture), *out = pw_stream_dequeue_buffer(c->playback);
    int n = c->position ? pipewire_client_begin_cycle(&c->common, &c->position->clock) : 0;
    find_inputs(c, in, &n);
    find_outputs(c, out, &n);
    int64_t quiet = atomic_load_explicit(&c->quiet, memory_order_relaxed) + n;
    atomic_store_explicit(&c->quiet, is_quiet(&h->in, n) ? quiet : 0, memory_order_relaxed);
    if (n > 0) hc_live_process(h->live, (const float *const *)h->in.buffer, h->out.buffer, n);
    if (in) pw_stream_queue_buffer(c->capture, in);
    if (out) pw_stream_queue_buffer(c->playback, out);
}

static void on_capture(void *data)
{
    struct stream_client *c = data;
    struct pw_buffer *unused;
    if (pw_stream_trigger_process(c->playback) >= 0) return;
    if ((unused = newest(c->capture))) pw_stream_queue_buffer(c->capture, unused); /* nothing plays the result */
}

static int set_position(struct spa_loop *loop, bool async, uint32_t number, const void *area, size_t size, void *client)
{
    (void)loop, (void)async, (void)number, (void)size;
    memcpy(&((struct stream_client *)client)->position, area, sizeof(struct spa_io_position *));
    return 0;
}

/* ---- loop thread ------------------------------------------------------------------------------- */

static void stream_on_state(struct stream_client *c, struct pw_stream *stream, atomic_bool *is_streaming)
{
    enum pw_stream_state state = pw_stream_get_state(stream, NULL);
    if (state == PW_STREAM_STATE_PAUSED) pw_stream_flush(stream, false);
    bool is_gone = state == PW_STREAM_STATE_ERROR || state == PW_STREAM_STATE_UNCONNECTED; /* removed by the daemon */
    pipewire_client_changed(&c->common, is_streaming, state == PW_STREAM_STATE_STREAMING, is_gone);
}

static void on_capture_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error)
{
    (void)old, (void)state, (void)error;
    struct stream_client *c = data;
    stream_on_state(c, c->capture, &c->captures);
}

static void on_playback_state(void *data, enum pw_stream_state old, enum pw_stream_state state, const char *error)
{
    (void)old, (void)state, (void)error;
    struct stream_client *c = data;
    stream_on_state(c, c->playback, &c->plays);
}

/* Waits until the audio thread has let go of the old area, which libpipewire then unmaps. */
static void on_io(void *data, uint32_t id, void *area, uint32_t size)
{
    (void)size;
    struct stream_client *c = data;
    if (id != SPA_IO_Position) return;
    pipewire_graph_invoke(c->common.graph, set_position, &area, sizeof area, true, c);
}

/* haloconv adds no latency: what the device reports to one stream, the other reports to the programs. */
static void stream_on_parameter(void *data, uint32_t id, const struct spa_pod *parameter)
{
    struct stream_client *c = data;
    struct spa_latency_info latency;
    if (id != SPA_PARAM_Latency || !parameter || spa_latency_parse(parameter, &latency) < 0) return;
    struct pw_stream *other = latency.direction == SPA_DIRECTION_INPUT ? c->capture : c->playback;
    if (other) pw_stream_update_params(other, &parameter, 1);
}

/* ---- the client -------------------------------------------------------------------------------- */

static void stream_leave(struct port_host *h)
{
    struct stream_client *c = h->client;
    pipewire_graph_lock(c->common.graph);
    /* While one stream plays, the audio thread uses both: none is destroyed before both have stopped. */
    if (c->capture) spa_hook_remove(&c->capture_hook), pw_stream_disconnect(c->capture);
    if (c->playback) spa_hook_remove(&c->playback_hook), pw_stream_disconnect(c->playback);
    if (c->capture) pw_stream_destroy(c->capture);
    if (c->playback) pw_stream_destroy(c->playback);
    if (c->keeper) pw_stream_destroy(c->keeper);
    pipewire_graph_unlock(c->common.graph);
    pipewire_client_leave(&c->common);
}

static bool stream_join(struct port_host *h, char *why, size_t cap)
{
    return pipewire_client_join(h, sizeof(struct stream_client), why, cap);
}

/* Finds the channels of both streams. --channels are those of the sink or source. */
static bool choose_channels(struct port_host *h, char *why, size_t cap)
{
    struct stream_client *c = h->client;
    const struct live_settings *s = h->settings;
    const struct port_side *own = s->sink ? &h->in : &h->out;
    struct pipewire_channels *own_channels = s->sink ? &c->in : &c->out;
    pipewire_channels_of_ports(h->in.name, h->in.n, &c->in);
    pipewire_channels_of_ports(h->out.name, h->out.n, &c->out);
    if (s->channels && pipewire_channels_read(s->channels, own_channels) != own->n)
        return message_write(why, cap, "pipewire: --channels %s: the mask has %d %s; give as many channels",
                             s->channels, own->n, s->sink ? "inputs" : "outputs");
    if (c->in.n > 0 && c->out.n > 0) return true;
    return message_write(why, cap, "pipewire: a sink or source has at most %d channels; use a smaller mask",
                         PIPEWIRE_CHANNELS);
}

/* Returns what the user calls the device; NULL: the default one. */
static const char *asked_target(const struct live_settings *s)
{
    return s->sink ? s->output : s->input;
}

/* Finds the name of the device that was asked for: session managers know no descriptions. false: the name has not
 * changed. */
static bool find_target(struct stream_client *c)
{
    const struct live_settings *s = c->common.host->settings;
    const char *asked = asked_target(s);
    const struct pipewire_object *node =
        asked ? pipewire_graph_find_device(c->common.graph, asked, s->source != NULL) : NULL;
    const char *name = node && node->name ? node->name : *c->target ? c->target : asked ? asked : "";
    if (strcmp(name, c->target) == 0) return false;
    snprintf(c->target, sizeof c->target, "%s", name);
    return true;
}

/* Returns the properties of both streams: as those of PipeWire's own filter-chain. */
static struct pw_properties *common_properties(const struct port_host *h, const struct pipewire_channels *channels)
{
    char positions[PIPEWIRE_CHANNELS * 8];
    pipewire_channels_write(channels, positions, sizeof positions);
    struct pw_properties *p = pw_properties_new(PW_KEY_MEDIA_TYPE, "Audio", PW_KEY_APP_NAME, "haloconv",
                                                PW_KEY_NODE_VIRTUAL, "true", "resample.disable", "true", NULL);
    if (!p) return NULL;
    /* By its application's id a session manager remembers the volume and the target of this sink, not of all. */
    pw_properties_setf(p, PW_KEY_APP_ID, "haloconv.%s", h->name);
    pw_properties_setf(p, PW_KEY_NODE_GROUP, "haloconv-%d", (int)getpid());
    pw_properties_setf(p, PW_KEY_NODE_LINK_GROUP, "haloconv-%d", (int)getpid());
    pw_properties_setf(p, "audio.position", "[ %s ]", positions);
    pipewire_client_set_node(h, p);
    return p;
}

/* Returns the properties of the stream that is the sink or source. */
static struct pw_properties *desktop_node_properties(const struct port_host *h,
                                                     const struct pipewire_channels *channels)
{
    const struct live_settings *s = h->settings;
    struct pw_properties *p = common_properties(h, channels);
    if (!p) return NULL;
    pw_properties_set(p, PW_KEY_NODE_NAME, h->name);
    pw_properties_set(p, PW_KEY_NODE_DESCRIPTION, s->description ? s->description : h->name);
    pw_properties_set(p, PW_KEY_MEDIA_CLASS, s->sink ? "Audio/Sink" : "Audio/Source");
    pw_properties_set(p, PW_KEY_DEVICE_ICON_NAME, s->sink ? "audio-headphones" : "audio-input-microphone");
    if (s->is_default) pw_properties_set(p, PW_KEY_PRIORITY_SESSION, "3000"); /* sound cards have 600 to 2000 */
    return p;
}

/* Returns the properties of the stream to or from the device. It is passive: an idle sink keeps no device awake. */
static struct pw_properties *device_stream_properties(const struct port_host *h,
                                                      const struct pipewire_channels *channels)
{
    const struct live_settings *s = h->settings;
    struct stream_client *c = h->client;
    const char *asked = asked_target(s);
    struct pw_properties *p = common_properties(h, channels);
    if (!p) return NULL;
    const char *side = s->sink ? "output" : "input";
    pw_properties_setf(p, PW_KEY_NODE_NAME, "%s.%s", side, h->name);
    pw_properties_setf(p, PW_KEY_NODE_DESCRIPTION, "%s %s", s->description ? s->description : h->name, side);
    pw_properties_set(p, PW_KEY_NODE_PASSIVE, "true");
    pw_properties_set(p, PW_KEY_STREAM_DONT_REMIX, "true"); /* each output goes to the channel of its position */
    find_target(c);
    if (asked) pw_properties_set(p, PW_KEY_TARGET_OBJECT, c->target);
    /* The session manager remembers targets by this id, too: not for a sink that is to play to another device. */
    if (asked) pw_properties_setf(p, PW_KEY_APP_ID, "haloconv.%s to %s", h->name, asked);
    return p;
}

static int connect_stream(struct pw_stream *stream, enum pw_direction direction, enum pw_stream_flags flags,
                          const struct pipewire_channels *channels)
{
    uint8_t bytes[2048];
    struct spa_pod_builder builder;
    spa_pod_builder_init(&builder, bytes, sizeof bytes);
    struct spa_audio_info_raw format = {.format = SPA_AUDIO_FORMAT_F32P, .channels = (uint32_t)channels->n};
    memcpy(format.position, channels->position, sizeof *format.position * (size_t)channels->n);
    const struct spa_pod *parameter = spa_format_audio_raw_build(&builder, SPA_PARAM_EnumFormat, &format);
    return pw_stream_connect(
        stream, direction, PW_ID_ANY,
        PW_STREAM_FLAG_AUTOCONNECT | PW_STREAM_FLAG_MAP_BUFFERS | PW_STREAM_FLAG_RT_PROCESS | flags, &parameter, 1);
}

/* Makes both streams and connects them. */
static bool stream_open_streams(struct port_host *h)
{
    static const struct pw_stream_events capture_events = {PW_VERSION_STREAM_EVENTS, .state_changed = on_capture_state,
                                                           .param_changed = stream_on_parameter, .process = on_capture},
                                         playback_events = {PW_VERSION_STREAM_EVENTS,
                                                            .state_changed = on_playback_state, .io_changed = on_io,
                                                            .param_changed = stream_on_parameter,
                                                            .process = on_playback};
    struct stream_client *c = h->client;
    bool is_sink = h->settings->sink != NULL;
    /* The playback stream's process dequeues the buffers of the capture stream. */
    enum pw_stream_flags async = 0;
#if PW_CHECK_VERSION(0, 3, 73)
    async = PW_STREAM_FLAG_ASYNC;
#endif
    c->capture = pw_stream_new(c->common.graph->core, h->name,
                               (is_sink ? desktop_node_properties : device_stream_properties)(h, &c->in));
    c->playback = pw_stream_new(c->common.graph->core, h->name,
                                (is_sink ? device_stream_properties : desktop_node_properties)(h, &c->out));
    if (c->capture) pw_stream_add_listener(c->capture, &c->capture_hook, &capture_events, c);
    if (c->playback) pw_stream_add_listener(c->playback, &c->playback_hook, &playback_events, c);
    return c->capture && c->playback && connect_stream(c->capture, PW_DIRECTION_INPUT, async, &c->in) == 0 &&
           connect_stream(c->playback, PW_DIRECTION_OUTPUT, PW_STREAM_FLAG_TRIGGER, &c->out) == 0;
}

/* When a sink's last program ends, the daemon would stop the sink at once. */
static bool open_keeper(struct port_host *h)
{
    struct stream_client *c = h->client;
    if (!h->settings->sink) return true;
    struct pw_properties *p =
        pw_properties_new(PW_KEY_MEDIA_TYPE, "Audio", PW_KEY_MEDIA_CATEGORY, "Playback", PW_KEY_APP_NAME, "haloconv",
                          PW_KEY_NODE_VIRTUAL, "true", PW_KEY_TARGET_OBJECT, h->name, NULL);
    if (p) pw_properties_setf(p, PW_KEY_NODE_NAME, "tail.%s", h->name);
    c->keeper = pw_stream_new(c->common.graph->core, h->name, p);
    return c->keeper && connect_stream(c->keeper, PW_DIRECTION_OUTPUT, PW_STREAM_FLAG_INACTIVE, &c->in) == 0;
}

/* Lets the graph run while the input sounds, and for the mask's length afterwards. */
static void keep_running(struct stream_client *c)
{
    hc_live_info info = {.size = sizeof info};
    if (!c->keeper) return;
    hc_live_get_info(c->common.host->live, &info);
    bool sounds = atomic_load(&c->quiet) < info.longest + info.rate / 2; /* and for fades */
    if (sounds == c->keeps) return;
    c->keeps = sounds;
    pipewire_graph_lock(c->common.graph);
    pw_stream_set_active(c->keeper, sounds);
    pipewire_graph_unlock(c->common.graph);
}

static bool has_nodes(struct port_host *h)
{
    const struct stream_client *c = h->client;
    return pw_stream_get_node_id(c->capture) != SPA_ID_INVALID && pw_stream_get_node_id(c->playback) != SPA_ID_INVALID;
}

static bool stream_activate(struct port_host *h, char *why, size_t cap)
{
    struct stream_client *c = h->client;
    if (!choose_channels(h, why, cap) || !pipewire_client_begin(&c->common, why, cap)) return false;
    atomic_store(&c->quiet, INT64_MAX / 2);
    pipewire_graph_lock(c->common.graph);
    bool good = stream_open_streams(h) && pipewire_client_await(&c->common, has_nodes) && open_keeper(h);
    pipewire_graph_unlock(c->common.graph);
    return good || message_write(why, cap, "pipewire: the streams cannot be made; see the daemon's messages");
}

/* Leads the stream to the device that was asked for when that appears. */
static void stream_tend(struct port_host *h)
{
    struct stream_client *c = h->client;
    struct pipewire_graph *g = c->common.graph;
    keep_running(c);
    if (!pipewire_client_tend(h)) return;
    pipewire_graph_lock(g);
    uint32_t node = pw_stream_get_node_id(h->settings->sink ? c->playback : c->capture);
    if (g->defaults.proxy && find_target(c))
        pw_metadata_set_property((struct pw_metadata *)g->defaults.proxy, node, PW_KEY_TARGET_OBJECT, NULL, c->target);
    pipewire_graph_unlock(g);
}

static bool stream_is_idle(const struct port_host *h)
{
    const struct stream_client *c = h->client;
    return c && !(atomic_load(&c->captures) && atomic_load(&c->plays));
}

static void stream_report(const struct port_host *h)
{
    const struct stream_client *c = h->client;
    const struct live_settings *s = h->settings;
    const char *target = asked_target(s);
    char in[PIPEWIRE_CHANNELS * 8], out[PIPEWIRE_CHANNELS * 8];
    pipewire_channels_write(&c->in, in, sizeof in);
    pipewire_channels_write(&c->out, out, sizeof out);
    message_note("%s %s: %s to %s; %s %s", s->sink ? "sink" : "source", h->name, in, out,
                 s->sink ? "plays to" : "records from", target ? target : "the default device");
}

const struct port_server pipewire_stream_server = {.line = &pipewire_line,
                                                   .name = "the PipeWire daemon",
                                                   .list_command = "pw-link -o",
                                                   .join = stream_join,
                                                   .check = choose_channels,
                                                   .leave = stream_leave,
                                                   .rate = pipewire_client_rate,
                                                   .block = pipewire_client_block,
                                                   .activate = stream_activate,
                                                   .tend = stream_tend,
                                                   .is_idle = stream_is_idle,
                                                   .report = stream_report};
#endif
