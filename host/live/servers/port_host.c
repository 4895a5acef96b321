#include "port_host.h"

#include "host/live/remotes/control.h"
#include "host/live/remotes/nsm.h"
#include "host/live/session/realtime.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- connections ------------------------------------------------------------------------------ */

static void append(struct connection_list *to, const struct port_side *side, int port, const char *other)
{
    if (to->n == to->cap) {
        int cap = to->cap ? 2 * to->cap : 16;
        struct connection *list = realloc(to->list, (size_t)cap * sizeof *list);
        if (!list) return; /* no memory: this connection is not restored */
        to->list = list;
        to->cap = cap;
    }
    struct connection *connection = &to->list[to->n++];
    *connection = (struct connection){.side = side, .port = port};
    snprintf(connection->other, sizeof connection->other, "%s", other);
}

struct connection *connections_find(const struct connection_list *list, const struct port_side *side, int port,
                                    const char *other)
{
    for (struct connection *one = list->list; one < list->list + list->n; one++)
        if (one->side == side && one->port == port && strcmp(one->other, other) == 0) return one;
    return NULL;
}

static void connections_add(struct connection_list *to, const struct port_side *side, int port, const char *other)
{
    if (!connections_find(to, side, port, other)) append(to, side, port, other);
}

static void connections_add_all(struct connection_list *to, const struct connection_list *from)
{
    for (const struct connection *one = from->list; one < from->list + from->n; one++)
        connections_add(to, one->side, one->port, one->other);
}

void connections_request(struct connections *c, const struct port_side *side, int port, const char *other)
{
    connections_add(&c->requested, side, port, other);
    connections_add(&c->missing, side, port, other);
}

int connections_make(struct connections *c)
{
    int n = c->missing.n, left = 0;
    for (int i = 0; i < n; i++)
        if (!c->server.connect(c->server.data, &c->missing.list[i])) c->missing.list[left++] = c->missing.list[i];
    c->missing.n = left;
    return n - left;
}

void connections_add_current(struct connections *c, const struct port_side *side, int port, const char *other)
{
    connections_add(&c->current, side, port, other);
}

static void list_side(struct connections *c, const struct port_side *side)
{
    for (int i = 0; i < side->n; i++) c->server.list(c->server.data, side, i, c);
}

void connections_remember(struct connections *c, const struct port_side *const *sides, int n)
{
    struct connection_list former = c->previous;
    c->previous = c->current;
    c->current = former;
    c->current.n = 0;
    for (int i = 0; i < n; i++) list_side(c, sides[i]);
}

void connections_add_new(struct connections *c, const struct port_side *const *sides, int n)
{
    int n_connected = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < sides[i]->n; k++) n_connected += c->server.count(c->server.data, sides[i], k);
    for (int i = 0; n_connected != c->n_connected && i < n; i++) list_side(c, sides[i]);
    c->n_connected = n_connected;
}

void connections_restore(struct connections *c)
{
    connections_add_all(&c->missing, &c->requested);
    connections_add_all(&c->missing, &c->previous);
    connections_add_all(&c->missing, &c->current);
    c->previous.n = c->current.n = 0;
    c->n_connected = 0;
}

void connections_free(struct connections *c)
{
    free(c->requested.list);
    free(c->missing.list);
    free(c->previous.list);
    free(c->current.list);
}

/* ---- the host --------------------------------------------------------------------------------- */

void port_host_begin_block(struct port_host *h)
{
    atomic_store_explicit(&h->audio_thread, realtime_thread(), memory_order_relaxed);
}

bool port_host_reaches(const struct port_host *h, const unsigned char *reaches, const struct port_side *side, int i,
                       int k)
{
    int in = side->is_input ? i : k, out = side->is_input ? k : i;
    return reaches[in * h->out.n + out] != 0;
}

/* ---- the client -------------------------------------------------------------------------------- */

/* Chooses the names of client and server: those of the command line, else of the configuration. */
static bool choose_names(struct port_host *h, char *why, size_t cap)
{
    const struct live_settings *s = h->settings;
    hc_responses names = {0};
    bool good = true;
    if (!(s->name && s->server)) good = hc_responses_load(s->mask, 0, 0, HC_NAMES_ONLY, &names, why, cap) == HC_OK;
    const char *name = s->name ? s->name : names.client, *server = s->server ? s->server : names.server;
    snprintf(h->name, sizeof h->name, "%s", name ? name : "haloconv");
    snprintf(h->server_name, sizeof h->server_name, "%s", server ? server : "");
    hc_responses_free(&names);
    return good;
}

static bool port_host_join(void *data, char *why, size_t cap)
{
    struct port_host *h = data;
    return h->server->join(h, why, cap);
}

static bool add_ports(struct port_host *h, struct port_side *side, char *why, size_t cap)
{
    for (int i = 0; h->server->add_port && i < side->n; i++)
        if (!(side->port[i] = h->server->add_port(h, side, i, why, cap))) return false;
    return true;
}

static void tend_midi(struct port_host *h)
{
    if (h->midi_in.n > 0 && h->settings->midi.connect && atomic_exchange(&h->midi_is_missing, false) &&
        !h->server->connect_midi(h))
        atomic_store(&h->midi_is_missing, true); /* try again: the port's client may not be active yet */
}

/* Makes the ports, activates the client and connects it. */
static bool port_host_start(struct port_host *h, char *why, size_t cap)
{
    atomic_store(&h->is_down, false);
    if (!add_ports(h, &h->in, why, cap) || !add_ports(h, &h->out, why, cap) || !add_ports(h, &h->midi_in, why, cap))
        return false;
    h->reach_version = session_reach_version(h->session);
    if (!h->server->activate(h, why, cap)) return false;
    if (!h->has_requested) h->has_requested = !h->server->request_devices || h->server->request_devices(h);
    h->n_made = connections_make(&h->connections);
    atomic_store(&h->midi_is_missing, true);
    tend_midi(h);
    h->next_check = stopwatch_now() + 1;
    return true;
}

static void port_host_stop(void *data)
{
    struct port_host *h = data;
    if (h->client) h->server->leave(h);
    h->client = NULL;
    connections_restore(&h->connections);
}

static bool port_host_restart(void *data, char *why, size_t cap)
{
    struct port_host *h = data;
    if (!port_host_join(h, why, cap)) return false;
    session_request_format(h->session, h->server->rate(h), h->server->block(h));
    if (!port_host_start(h, why, cap)) {
        port_host_stop(h);
        return false;
    }
    int n = h->n_made + h->connections.missing.n;
    *why = 0;
    if (n > 0) snprintf(why, cap, "%d of %d connection%s", h->n_made, n, message_s(n));
    return true;
}

static bool port_host_is_alive(void *data)
{
    struct port_host *h = data;
    return !atomic_load(&h->is_down);
}

static bool port_host_is_idle(void *data)
{
    const struct port_host *h = data;
    return h->server->is_idle && h->server->is_idle(h);
}

static bool asks_for_realtime(const struct port_host *h)
{
    return !h->server->is_realtime || h->server->is_realtime(h);
}

/* Checks the audio thread's priority: the libraries set it after the thread has begun, and do not return the system's
 * refusal. */
static void check_priority(struct port_host *h)
{
    int thread = atomic_load(&h->audio_thread);
    if (thread == 0 || h->has_checked_priority) return;
    h->has_checked_priority = true;
    if (asks_for_realtime(h) && realtime_is_refused(thread))
        message_note("the system refuses real-time priority; expect xruns under load; %s", realtime_remedy);
}

static void port_host_tend(void *data)
{
    struct port_host *h = data;
    uint64_t version = session_reach_version(h->session);
    if (version != h->reach_version && h->server->update_latencies) h->server->update_latencies(h);
    h->reach_version = version;
    if (h->server->tend) h->server->tend(h);
    double now = stopwatch_now();
    bool graph_changed = atomic_exchange(&h->graph_changed, false), is_due = now >= h->next_check;
    bool restores = h->settings->reconnect && h->connections.server.list;
    if (graph_changed || is_due) {
        connections_make(&h->connections);
        tend_midi(h);
    }
    const struct port_side *sides[] = {&h->in, &h->out, &h->midi_in};
    if (restores) connections_add_new(&h->connections, sides, 3);
    if (!is_due) return;
    h->next_check = now + 1;
    check_priority(h);
    if (restores) connections_remember(&h->connections, sides, 3);
}

/* ---- ports and session ------------------------------------------------------------------------- */

/* Makes the ports of a side. ports: [n] names and connections from the configuration; NULL: the defaults. */
static bool open_side(struct port_host *h, struct port_side *side, bool is_input, int n, const hc_port *ports)
{
    *side = (struct port_side){.is_input = is_input,
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
        if (ports && ports[i].connect && h->connections.server.connect)
            connections_request(&h->connections, side, i, ports[i].connect);
    }
    return true;
}

static void close_side(struct port_side *side)
{
    for (int i = 0; side->name && i < side->n; i++) free(side->name[i]);
    free(side->name);
    free(side->port);
    free(side->buffer);
}

static bool port_host_open_midi(struct port_host *h, struct control_host *host, char *why, size_t cap)
{
    if (!h->settings->midi.on) return true;
    if (!midi_open(&h->midi, &h->settings->midi, why, cap)) return false;
    h->midi.source = midi_ring_source(&h->midi_ring);
    host->midi = &h->midi;
    return true;
}

static bool port_host_open_session(struct port_host *h, char *why, size_t cap)
{
    int rate = h->server->rate(h), block = h->server->block(h);
    const struct session_settings *settings = &h->settings->session;
    const char *path = h->settings->mask;
    hc_responses mask;
    if (!session_load(settings, path, rate, &mask, why, cap)) return false;
    const hc_port midi_port = {.name = "midi-in"};
    if (!open_side(h, &h->in, true, mask.n_in, mask.in_port) ||
        !open_side(h, &h->out, false, mask.n_out, mask.out_port) ||
        !open_side(h, &h->midi_in, true, h->settings->midi.on, &midi_port)) {
        message_write(why, cap, "%s: no memory for %d ports; free some memory", h->server->line->command,
                      mask.n_in + mask.n_out);
        hc_responses_free(&mask);
        return false;
    }
    h->midi_in.is_midi = true;
    if (h->server->check && !h->server->check(h, why, cap)) {
        h->is_misused = true;
        hc_responses_free(&mask);
        return false;
    }
    h->session = session_open(settings, path, &mask, rate, block, why, cap);
    if (h->session) h->live = session_live(h->session);
    return h->session != NULL;
}

static void report_connections(const struct port_host *h)
{
    int n = h->in.n + h->out.n;
    if (h->n_made > 0)
        message_note("%d ports, %d of %d connections", n, h->n_made, h->n_made + h->connections.missing.n);
    else
        message_note("none of %d ports is connected; use %sa patchbay", n, h->settings->connect ? "" : "--connect or ");
}

static void port_host_report_start(const struct port_host *h)
{
    struct session_status status;
    session_get_status(h->session, &status);
    const char *name = h->server->client_name ? h->server->client_name(h) : h->name;
    message_note("%s: %d in, %d out, %d Hz, blocks of %d frames on %s (%s)", name, h->in.n, h->out.n, status.info.rate,
                 status.info.block, status.info.device, status.info.method);
    if (h->server->report)
        h->server->report(h);
    else
        report_connections(h);
    if (h->midi_in.n > 0) message_note("MIDI on %s", h->server->port_name(h, h->midi_in.port[0]));
    if (h->settings->midi.connect && atomic_load(&h->midi_is_missing))
        message_note(
            "--midi-connect %s: this output does not exist; it is connected when it appears (`%s` lists outputs)",
            h->settings->midi.connect, h->server->list_command);
    if (!asks_for_realtime(h))
        message_note(
            "the server runs without real-time priority; expect xruns under load, or start it with -R; if the system "
            "refuses that, %s",
            realtime_remedy);
}

/* ---- the session manager ----------------------------------------------------------------------- */

/* The manager's saved state and client name override the command line. OSC and MIDI are always on: there is no
 * terminal, and a manager starts clients without options. */
static bool join_manager(struct port_host *h, struct live_settings *settings, struct control_host *host, char *why,
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
    h->state = (struct session_state){
        .wet = session->wet, .dry = session->dry, .gain = session->gain, .bypass = session->bypass};
    if (settings->mask) snprintf(h->state.mask, sizeof h->state.mask, "%s", settings->mask);
    if (!nsm_load(h->nsm, &h->state, &h->masks, why, cap)) return false;
    if (h->masks.n > 0) {
        settings->masks = h->masks;
        settings->compared[0] = 0; /* a number in the other list */
    }
    session_state_settings(&h->state, session);
    settings->mask = h->state.mask;
    if (!settings->osc) settings->osc = "0";
    if (!h->server->add_port) return true; /* a device of the desktop keeps its name, and has no port for MIDI */
    settings->name = nsm_client_name(h->nsm);
    settings->midi.on = true;
    return true;
}

static bool port_host_begin(struct port_host *h, char *why, size_t cap)
{
    if (!choose_names(h, why, cap) || !control_retry(port_host_join, h, h->settings->reconnect, why, cap) ||
        !port_host_open_session(h, why, cap))
        return false;
    if (port_host_start(h, why, cap)) return true;
    if (!h->settings->reconnect) return false;
    port_host_stop(h); /* the server may have died while the mask was loaded */
    return control_retry(port_host_restart, h, true, why, cap);
}

int port_host_command(const struct port_server *server, int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(server->line, argc, argv, nsm_is_wanted(), &settings);
    if (status >= 0) return status;
    char why[MESSAGE_CAP] = "";
    static struct port_host h; /* the ring of MIDI messages in it is too large for a stack */
    memset(&h, 0, sizeof h);
    h.server = server;
    h.settings = &settings;
    if (server->choose && !server->choose(&h, &settings)) {
        live_options_free(&settings);
        return EXIT_USAGE;
    }
    h.connections.server = h.server->connections;
    struct control_host host = {.data = &h,
                                .name = server->name,
                                .is_alive = port_host_is_alive,
                                .is_idle = port_host_is_idle,
                                .restart = port_host_restart,
                                .stop = port_host_stop,
                                .tend = port_host_tend,
                                .stats.fd = -1};
    h.connections.server.data = &h;
    control_hold_signals();
    realtime_note_limit(0, false);
    if (join_manager(&h, &settings, &host, why, sizeof why) && port_host_open_midi(&h, &host, why, sizeof why) &&
        control_open(&settings, &host, why, sizeof why) && port_host_begin(&h, why, sizeof why)) {
        if (h.nsm) nsm_opened(h.nsm, &h.state, NULL);
        port_host_report_start(&h);
        status = control_run(&settings, h.session, &host);
    } else {
        port_host_stop(&h);
        if (h.nsm && *why) nsm_opened(h.nsm, &h.state, why);
        status = *why ? message_error("%s", why) : 0;
        if (h.is_misused) status = EXIT_USAGE;
    }
    control_close(&host);
    nsm_leave(h.nsm);
    close_side(&h.in);
    close_side(&h.out);
    close_side(&h.midi_in);
    connections_free(&h.connections);
    option_names_free(&h.masks);
    status = control_leave(h.session, false, status);
    live_options_free(&settings);
    return status;
}
