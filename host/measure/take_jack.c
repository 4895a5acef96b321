/* take_jack - takes through a JACK server. One client plays and another records: the graph has no loop, and what is
 * played is recorded in the same cycle if the clients between them add no latency. Both see the same clock of frames.
 */
#include "host/message.h"
#include "take_driver.h"

#ifdef HC_WITH_JACK
#include "host/live/servers/jack_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jack_end { /* one of the two clients             */
    jack_client_t *client;
    int n;
    jack_port_t **port; /* [n]                                */
    float **buffer;     /* [n]: buffers of the cycle          */
};

struct jack_card {
    struct jack_end player, recorder;
};

/* ---- callbacks --------------------------------------------------------------------------------- */

static void get_buffers(struct jack_end *end, jack_nframes_t n)
{
    for (int i = 0; i < end->n; i++) end->buffer[i] = jack_port_get_buffer(end->port[i], n);
}

static int on_play(jack_nframes_t n, void *data)
{
    struct take *t = data;
    struct jack_card *card = t->card;
    get_buffers(&card->player, n);
    take_play_cycle(t, jack_last_frame_time(card->player.client), card->player.buffer, (int)n);
    return 0;
}

static int on_record(jack_nframes_t n, void *data)
{
    struct take *t = data;
    struct jack_card *card = t->card;
    get_buffers(&card->recorder, n);
    take_record_cycle(t, jack_last_frame_time(card->recorder.client), (const float *const *)card->recorder.buffer,
                      (int)n);
    return 0;
}

static int take_on_xrun(void *data)
{
    struct take *t = data;
    atomic_fetch_add(&t->gaps, 1);
    return 0;
}

static void take_on_shutdown(jack_status_t code, const char *reason, void *data)
{
    (void)code, (void)reason;
    struct take *t = data;
    atomic_store(&t->is_down, true);
}

/* ---- ports ------------------------------------------------------------------------------------- */

/* Is `port` that of the name, or a port of the client of the name? */
static bool is_of(const char *port, const char *name)
{
    size_t length = strlen(name);
    return strncmp(port, name, length) == 0 && (port[length] == 0 || port[length] == ':');
}

/* Connects the ports of `end`, from number `at` on, with the ports of the list that `name` means (NULL: all). Returns
 * the number of the next port, or -1. */
static int connect_to(struct jack_end *end, int at, const char *const *ports, bool plays, const char *name, char *why,
                      size_t cap)
{
    for (int i = 0; ports && ports[i] && at < end->n; i++) {
        if (name && !is_of(ports[i], name)) continue;
        const char *ours = jack_port_name(end->port[at++]);
        if (jack_connect(end->client, plays ? ours : ports[i], plays ? ports[i] : ours) == 0) continue;
        message_write(why, cap, "jack: %s and %s cannot be connected; see the server's messages", ours, ports[i]);
        return -1;
    }
    return at;
}

/* Connects a client. names: ports and clients, separated by commas; NULL: the sound card. */
static bool connect_end(struct jack_end *end, bool plays, const char *names, char *why, size_t cap)
{
    const char *side = plays ? "output" : "input";
    unsigned long flags = (plays ? JackPortIsInput : JackPortIsOutput) | (names ? 0 : JackPortIsPhysical);
    const char **ports = jack_get_ports(end->client, NULL, JACK_DEFAULT_AUDIO_TYPE, flags);
    char *list = names ? strdup(names) : NULL, *rest = list, *name;
    bool good = list || !names || message_write(why, cap, "jack: no memory; free some memory");
    int at = good && !names ? connect_to(end, 0, ports, plays, NULL, why, cap) : 0;
    while (good && at >= 0 && (name = strsep(&rest, ","))) {
        int before = at;
        at = connect_to(end, at, ports, plays, name, why, cap);
        if (at == before && at < end->n)
            good = message_write(why, cap, "jack: there is no port or client '%s' for an %s; `jack_lsp` lists them",
                                 name, side);
    }
    if (good && at >= 0 && at < end->n)
        good =
            message_write(why, cap, "jack: %s has %d ports for %ss, and %d are asked for; name more, or ask for fewer",
                          names ? names : "the sound card", at, side, end->n);
    free(list);
    jack_free(ports);
    return good && at >= 0;
}

/* ---- the two clients --------------------------------------------------------------------------- */

static bool open_end(struct take *t, struct jack_end *end, bool plays, char *why, size_t cap)
{
    int n = plays ? t->settings.n_outputs : t->settings.n_inputs;
    end->port = calloc((size_t)n, sizeof *end->port);
    end->buffer = calloc((size_t)n, sizeof *end->buffer);
    if (!end->port || !end->buffer) return message_write(why, cap, "jack: no memory; free some memory");
    end->n = n;
    end->client = jack_server_join(plays ? "haloconv-play" : "haloconv-record", t->settings.server, why, cap);
    if (!end->client) return false;
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s-%d", plays ? "out" : "in", i + 1);
        end->port[i] = jack_port_register(end->client, name, JACK_DEFAULT_AUDIO_TYPE,
                                          plays ? JackPortIsOutput : JackPortIsInput, 0);
        if (!end->port[i])
            return message_write(why, cap,
                                 "jack: port %s cannot be made; start the server with space for more ports (-p)", name);
    }
    jack_set_process_callback(end->client, plays ? on_play : on_record, t);
    if (plays) jack_set_xrun_callback(end->client, take_on_xrun, t); /* JACK reports every xrun to every client */
    jack_on_info_shutdown(end->client, take_on_shutdown, t);
    return true;
}

static bool start_end(struct jack_end *end, bool plays, const char *names, char *why, size_t cap)
{
    if (jack_activate(end->client) != 0)
        return message_write(why, cap, "jack: the client cannot be activated; see the server's messages");
    return connect_end(end, plays, names, why, cap);
}

static bool jack_open_card(struct take *t, char *why, size_t cap)
{
    const struct take_settings *s = &t->settings;
    struct jack_card *card = t->card = calloc(1, sizeof *card);
    if (!card) return message_write(why, cap, "jack: no memory; free some memory");
    if (!open_end(t, &card->player, true, why, cap) || !open_end(t, &card->recorder, false, why, cap)) return false;
    t->rate = (int)jack_get_sample_rate(card->player.client);
    if (s->rate && s->rate != t->rate)
        return message_write(why, cap,
                             "jack: the server runs at %d Hz, not at %d Hz; start it with -r %d, or use its rate",
                             t->rate, s->rate, s->rate);
    return start_end(&card->player, true, s->output_device, why, cap) &&
           start_end(&card->recorder, false, s->input_device, why, cap);
}

static void jack_name_output(const struct take *t, int output, char *name, size_t cap)
{
    const struct jack_card *card = t->card;
    const char **others = jack_port_get_connections(card->player.port[output]);
    snprintf(name, cap, "%s", others && others[0] ? others[0] : "");
    jack_free(others);
}

static void close_end(struct jack_end *end)
{
    if (end->client) jack_client_close(end->client);
    free(end->port);
    free(end->buffer);
}

static void jack_close_card(struct take *t)
{
    struct jack_card *card = t->card;
    if (!card) return;
    close_end(&card->recorder);
    close_end(&card->player);
    free(card);
    t->card = NULL;
}

#else

static bool jack_open_card(struct take *t, char *why, size_t cap)
{
    (void)t;
    return message_write(why, cap, "jack: " MESSAGE_NO_PART("JACK", "libjack-jackd2-dev"));
}

static void jack_name_output(const struct take *t, int output, char *name, size_t cap)
{
    (void)t, (void)output, (void)cap;
    *name = 0;
}

static void jack_close_card(struct take *t)
{
    (void)t;
}
#endif

const struct take_driver take_jack = {
    .gap = "close other programs, or start the server with a longer period (-p)",
    .open = jack_open_card,
    .name_output = jack_name_output,
    .close = jack_close_card,
};
