/* haloconv jack - a JACK client with one port a channel. */
#include "host/commands.h"
#include "host/message.h"
#include "live_options.h"

#include <stdio.h>

static const char help[] =
    "haloconv jack MASK... [OPTIONS] - a JACK client that convolves\n"
    "\n"
    "MASK is a sound file, a text of coefficients or a configuration (see haloconv --help). Ports are in-1, in-2,\n"
    "... and out-1, out-2, ..., or as the configuration names and connects them. No latency is added. Several\n"
    "masks: the first plays, keys n and p go through them.\n"
    "\n"
    "      --name N         name of the client                             [the configuration's, else haloconv]\n"
    "      --server S       name of the JACK server                     [the configuration's, else the default]\n"
    "      --connect        connect the ports to the sound card's; else they stay as they are\n"
    "      --reconnect      wait for a server that is not there or went away, and connect again as it was\n"
    "\n"
    "Under a session manager (NSM) the mask, gains and bypass are saved with the session, and MASK may be left out.\n";

#ifdef HC_WITH_JACK
#include "console.h"
#include "control.h"
#include "host/stopwatch.h"
#include "nsm.h"
#include "realtime.h"
#include "session.h"

#include <jack/jack.h>
#include <jack/thread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct wire { /* a connection of one of our ports */
    bool is_input;
    int port;
    char other[512];
};

struct wires {
    struct wire *list;
    int n, cap;
};

struct host {
    const struct live_settings *settings;
    struct session *session;
    hc_live *live; /* the session's */
    jack_client_t *client;
    jack_port_t **in, **out;     /* [n_in], [n_out] */
    char **in_name, **out_name;  /* [n_in], [n_out], as a configuration wishes, or in-1 ...; owned */
    char name[128], server[128]; /* of the client; of the server, "" is the default one */
    const float **from;          /* [n_in], [n_out]: the ports' buffers; audio thread */
    float **to;
    int n_in, n_out;
    atomic_bool is_down;     /* the server went away */
    uint64_t paths_version;  /* as JACK knows it */
    double next_look;        /* at our connections */
    struct wires wanted;     /* to be made */
    struct wires last, seen; /* as they were a second before, as they are */
    struct nsm *nsm;         /* the session manager; NULL: none */
    struct keepsake kept;    /* what it has of us, or what the command line says */
};

static char jack_said[256]; /* the library's last line about an error */

static void listen_to_jack(const char *text)
{
    snprintf(jack_said, sizeof jack_said, "%s", text);
}

static void ignore_jack(const char *text)
{
    (void)text;
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static int on_process(jack_nframes_t n, void *data)
{
    struct host *h = data;
    for (int i = 0; i < h->n_in; i++) h->from[i] = jack_port_get_buffer(h->in[i], n);
    for (int o = 0; o < h->n_out; o++) h->to[o] = jack_port_get_buffer(h->out[o], n);
    hc_live_process(h->live, h->from, h->to, (int)n);
    return 0;
}

static void on_thread(void *data)
{
    (void)data;
    realtime_touch_stack();
}

static int on_buffer_size(jack_nframes_t n, void *data)
{
    struct host *h = data;
    session_request_format(h->session, (int)jack_get_sample_rate(h->client), (int)n);
    return 0;
}

static int on_sample_rate(jack_nframes_t rate, void *data)
{
    struct host *h = data;
    session_request_format(h->session, (int)rate, (int)jack_get_buffer_size(h->client));
    return 0;
}

static void on_freewheel(int on, void *data)
{
    struct host *h = data;
    hc_live_set_freewheel(h->live, on);
}

static int on_xrun(void *data)
{
    struct host *h = data;
    session_count_xrun(h->session);
    return 0;
}

static void on_shutdown(jack_status_t code, const char *reason, void *data)
{
    (void)code, (void)reason;
    struct host *h = data;
    atomic_store(&h->is_down, true);
}

/* The latency of `port` becomes the range of those ports on the other side that a path joins it to; we add none. */
static void pass_latency(struct host *h, jack_latency_callback_mode_t mode, int index, jack_port_t *port,
                         jack_port_t **others, int n_others)
{
    jack_latency_range_t range = {0, 0}, other;
    bool any = false;
    for (int i = 0; i < n_others; i++) {
        bool capture = mode == JackCaptureLatency;
        if (!session_path(h->session, capture ? i : index, capture ? index : i)) continue;
        jack_port_get_latency_range(others[i], mode, &other);
        if (!any || other.min < range.min) range.min = other.min;
        if (!any || other.max > range.max) range.max = other.max;
        any = true;
    }
    jack_port_set_latency_range(port, mode, &range);
}

static void on_latency(jack_latency_callback_mode_t mode, void *data)
{
    struct host *h = data;
    if (mode == JackCaptureLatency)
        for (int o = 0; o < h->n_out; o++) pass_latency(h, mode, o, h->out[o], h->in, h->n_in);
    else
        for (int i = 0; i < h->n_in; i++) pass_latency(h, mode, i, h->in[i], h->out, h->n_out);
}

/* ---- connections ------------------------------------------------------------------------------- */

static void wires_add(struct wires *wires, bool is_input, int port, const char *other)
{
    if (wires->n == wires->cap) {
        int cap = wires->cap ? 2 * wires->cap : 16;
        struct wire *list = realloc(wires->list, (size_t)cap * sizeof *list);
        if (!list) return; /* a connection less to be restored */
        wires->list = list;
        wires->cap = cap;
    }
    struct wire *wire = &wires->list[wires->n++];
    *wire = (struct wire){.is_input = is_input, .port = port};
    snprintf(wire->other, sizeof wire->other, "%s", other);
}

/* Every port of the sound card, in their order, to ours. */
static void want_sound_card(struct host *h)
{
    for (int side = 0; side < 2; side++) {
        bool is_input = side == 0;
        const char **ports = jack_get_ports(h->client, NULL, JACK_DEFAULT_AUDIO_TYPE,
                                            JackPortIsPhysical | (is_input ? JackPortIsOutput : JackPortIsInput));
        for (int i = 0; ports && ports[i] && i < (is_input ? h->n_in : h->n_out); i++)
            wires_add(&h->wanted, is_input, i, ports[i]);
        if (!ports) console_say("--connect: the sound card has no %s", is_input ? "inputs" : "outputs");
        jack_free(ports);
    }
}

/* Make the wanted connections whose other end is there; the others stay wanted. */
static void connect_wanted(struct host *h)
{
    int left = 0;
    for (int i = 0; i < h->wanted.n; i++) {
        struct wire *wire = &h->wanted.list[i];
        const char *ours = jack_port_name(wire->is_input ? h->in[wire->port] : h->out[wire->port]);
        bool is_there = jack_port_by_name(h->client, wire->other) != NULL;
        if (is_there) jack_connect(h->client, wire->is_input ? wire->other : ours, wire->is_input ? ours : wire->other);
        if (!is_there) h->wanted.list[left++] = *wire;
    }
    h->wanted.n = left;
}

static void look_at_side(struct host *h, bool is_input, jack_port_t **ports, int n)
{
    for (int i = 0; i < n; i++) {
        const char **others = jack_port_get_all_connections(h->client, ports[i]);
        for (int k = 0; others && others[k]; k++) wires_add(&h->seen, is_input, i, others[k]);
        jack_free(others);
    }
}

/* Remember the connections of a second ago: what is seen while a server dies is not what the user made. */
static void remember_wires(struct host *h)
{
    struct wires former = h->last;
    h->last = h->seen;
    h->seen = former;
    h->seen.n = 0;
    look_at_side(h, true, h->in, h->n_in);
    look_at_side(h, false, h->out, h->n_out);
}

/* ---- the client -------------------------------------------------------------------------------- */

/* A configuration may name the client and its server; the command line goes before it. */
static bool choose_names(struct host *h, char *why, size_t cap)
{
    const struct live_settings *s = h->settings;
    const char *mask = s->mask, *dot = strrchr(mask, '.');
    hc_responses wishes = {0};
    bool good = true;
    if (dot && strcasecmp(dot, ".conf") == 0 && !(s->name && s->server))
        good = hc_responses_load(mask, 0, 0, HC_NAMES_ONLY, &wishes, why, cap) == HC_OK;
    const char *name = s->name ? s->name : wishes.client, *server = s->server ? s->server : wishes.server;
    snprintf(h->name, sizeof h->name, "%s", name ? name : "haloconv");
    snprintf(h->server, sizeof h->server, "%s", server ? server : "");
    hc_responses_free(&wishes);
    return good;
}

static bool open_client(struct host *h, char *why, size_t cap)
{
    const char *server = h->server[0] ? h->server : NULL;
    jack_options_t options = JackNoStartServer | (server ? JackServerName : JackNullOption);
    jack_status_t status = 0;
    jack_said[0] = 0;
    h->client = jack_client_open(h->name, options, &status, server);
    if (h->client) return true;
    if (status & JackServerFailed)
        return message_write(why, cap, "jack: no server%s%s answers; start one, as with: jackd%s%s -d alsa",
                             server ? " " : "", h->server, server ? " -n " : "", h->server);
    return message_write(why, cap, "jack: the server refused the client (status 0x%x%s%s); see the server's messages",
                         (unsigned)status, *jack_said ? ", " : "", jack_said);
}

static bool register_side(struct host *h, jack_port_t **ports, char **names, int n, unsigned long flags, char *why,
                          size_t cap)
{
    for (int i = 0; i < n; i++) {
        ports[i] = jack_port_register(h->client, names[i], JACK_DEFAULT_AUDIO_TYPE, flags, 0);
        if (!ports[i])
            return message_write(why, cap,
                                 "jack: port %s cannot be made; give each a name of its own, or start the server with "
                                 "room for more (-p)",
                                 names[i]);
    }
    return true;
}

/* Ports, callbacks (all of them before the client is active), and go. */
static bool start(struct host *h, char *why, size_t cap)
{
    atomic_store(&h->is_down, false);
    if (!register_side(h, h->in, h->in_name, h->n_in, JackPortIsInput, why, cap) ||
        !register_side(h, h->out, h->out_name, h->n_out, JackPortIsOutput, why, cap))
        return false;
    jack_set_thread_init_callback(h->client, on_thread, h);
    jack_set_process_callback(h->client, on_process, h);
    jack_set_buffer_size_callback(h->client, on_buffer_size, h);
    jack_set_sample_rate_callback(h->client, on_sample_rate, h);
    jack_set_freewheel_callback(h->client, on_freewheel, h);
    jack_set_xrun_callback(h->client, on_xrun, h);
    jack_set_latency_callback(h->client, on_latency, h);
    jack_on_info_shutdown(h->client, on_shutdown, h);
    h->paths_version = session_paths_version(h->session);
    if (jack_activate(h->client) != 0)
        return message_write(why, cap, "jack: the client cannot be activated; see the server's messages");
    connect_wanted(h);
    h->next_look = stopwatch_now() + 1;
    return true;
}

static void stop(void *data)
{
    struct host *h = data;
    if (h->client) jack_client_close(h->client);
    h->client = NULL;
    for (int i = 0; i < h->last.n; i++)
        wires_add(&h->wanted, h->last.list[i].is_input, h->last.list[i].port, h->last.list[i].other);
    h->last.n = h->seen.n = 0;
}

static bool restart(void *data, char *why, size_t cap)
{
    struct host *h = data;
    if (!open_client(h, why, cap)) return false;
    session_request_format(h->session, (int)jack_get_sample_rate(h->client), (int)jack_get_buffer_size(h->client));
    if (start(h, why, cap)) return true;
    jack_client_close(h->client);
    h->client = NULL;
    return false;
}

static bool is_alive(void *data)
{
    struct host *h = data;
    return !atomic_load(&h->is_down);
}

static void tend(void *data)
{
    struct host *h = data;
    uint64_t version = session_paths_version(h->session);
    if (version != h->paths_version) jack_recompute_total_latencies(h->client);
    h->paths_version = version;
    double now = stopwatch_now();
    if (now < h->next_look) return;
    h->next_look = now + 1;
    connect_wanted(h);
    if (h->settings->reconnect) remember_wires(h);
}

/* With --reconnect a server may come later. false: it did not, or a signal ended the wait; then *why is empty. */
static bool await_client(struct host *h, char *why, size_t cap)
{
    bool said = false;
    while (!open_client(h, why, cap)) {
        if (!h->settings->reconnect) return false;
        if (!said) console_say("%s; waiting for it", why);
        said = true;
        *why = 0;
        if (!control_pause()) return false;
    }
    return true;
}

/* Names of our ports, and the connections that the mask wishes for them. */
static bool name_side(struct host *h, bool is_input)
{
    const hc_port *ports = session_ports(h->session, !is_input);
    char **names = is_input ? h->in_name : h->out_name, counted[32];
    for (int i = 0; i < (is_input ? h->n_in : h->n_out); i++) {
        snprintf(counted, sizeof counted, "%s-%d", is_input ? "in" : "out", i + 1);
        names[i] = strdup(ports ? ports[i].name : counted);
        if (!names[i]) return false;
        if (ports && ports[i].connect) wires_add(&h->wanted, is_input, i, ports[i].connect);
    }
    return true;
}

static bool open_session(struct host *h, char *why, size_t cap)
{
    struct session_settings settings = h->settings->session;
    int rate = (int)jack_get_sample_rate(h->client), block = (int)jack_get_buffer_size(h->client);
    h->session = session_open(&settings, h->settings->mask, rate, block, why, cap);
    if (!h->session) return false;
    h->live = session_live(h->session);
    h->n_in = session_n_in(h->session);
    h->n_out = session_n_out(h->session);
    h->in = calloc((size_t)h->n_in, sizeof *h->in);
    h->out = calloc((size_t)h->n_out, sizeof *h->out);
    h->from = calloc((size_t)h->n_in, sizeof *h->from);
    h->to = calloc((size_t)h->n_out, sizeof *h->to);
    h->in_name = calloc((size_t)h->n_in, sizeof *h->in_name);
    h->out_name = calloc((size_t)h->n_out, sizeof *h->out_name);
    if (h->in && h->out && h->from && h->to && h->in_name && h->out_name && name_side(h, true) && name_side(h, false))
        return true;
    return message_write(why, cap, "jack: no memory for %d ports; free some", h->n_in + h->n_out);
}

static void say_start(const struct host *h)
{
    char why[MESSAGE_CAP];
    struct session_status status;
    session_get_status(h->session, &status);
    console_say("%s: %d in, %d out, %d Hz, blocks of %d frames on %s (%s)", jack_get_client_name(h->client), h->n_in,
                h->n_out, status.rate, status.block, status.device, status.method);
    if (!realtime_lock_memory(why, sizeof why)) console_say("%s", why);
    if (!jack_is_realtime(h->client))
        console_say("the server runs without real-time priority; expect xruns under load");
}

static void host_free(struct host *h)
{
    for (int i = 0; h->in_name && i < h->n_in; i++) free(h->in_name[i]);
    for (int i = 0; h->out_name && i < h->n_out; i++) free(h->out_name[i]);
    free(h->in_name);
    free(h->out_name);
    free(h->in);
    free(h->out);
    free(h->from);
    free(h->to);
    free(h->wanted.list);
    free(h->last.list);
    free(h->seen.list);
}

/* ---- the session manager ----------------------------------------------------------------------- */

/* What it saved goes before the command line, and its name for us before any other; OSC is how to get at us then. */
static bool join_manager(struct host *h, struct live_settings *settings, struct control_host *host, char *why,
                         size_t cap)
{
    struct session_settings *session = &settings->session;
    if (!nsm_is_wanted()) return true;
    h->nsm = host->nsm = nsm_join(why, cap);
    if (!h->nsm && *why && settings->mask) { /* a terminal may have kept the address of one that is no more */
        console_say("%s; going on without it", why);
        return true;
    }
    if (!h->nsm) return false;
    h->kept = (struct keepsake){.wet = session->wet, .dry = session->dry, .gain = session->gain};
    if (settings->mask) snprintf(h->kept.mask, sizeof h->kept.mask, "%s", settings->mask);
    if (!nsm_load(h->nsm, &h->kept, why, cap)) return false;
    keepsake_settings(&h->kept, session);
    settings->mask = h->kept.mask;
    settings->name = nsm_client_name(h->nsm);
    if (!settings->osc) settings->osc = "0";
    return true;
}

static void answer_manager(struct host *h, const char *why)
{
    if (h->nsm) nsm_opened(h->nsm, &h->kept, why);
}

static bool begin(struct host *h, char *why, size_t cap)
{
    if (h->nsm) keepsake_give(&h->kept, h->session);
    if (h->settings->connect) want_sound_card(h);
    return start(h, why, cap);
}

int jack_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(argc, argv, "jack", help, nsm_is_wanted(), &settings);
    if (status >= 0) return status;
    char why[MESSAGE_CAP] = "";
    struct host h = {.settings = &settings};
    struct control_host host = {
        .data = &h, .what = "the JACK server", .is_alive = is_alive, .restart = restart, .stop = stop, .tend = tend};
    console_open(settings.quiet);
    control_hold_signals();
    jack_set_error_function(listen_to_jack);
    jack_set_info_function(ignore_jack);
    if (join_manager(&h, &settings, &host, why, sizeof why) && choose_names(&h, why, sizeof why) &&
        await_client(&h, why, sizeof why) && open_session(&h, why, sizeof why) && begin(&h, why, sizeof why)) {
        answer_manager(&h, NULL);
        say_start(&h);
        status = control_run(&settings, h.session, &host);
    } else {
        stop(&h);
        if (*why) answer_manager(&h, why);
        status = *why ? message_error("%s", why) : 0;
    }
    nsm_leave(h.nsm);
    host_free(&h);
    return control_leave(h.session, false, status);
}

#else

int jack_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(argc, argv, "jack", help, false, &settings);
    if (status >= 0) return status;
    return message_error("jack: this build has no JACK; install libjack-jackd2-dev and build again");
}
#endif
