#include "host/message.h"

#ifdef HC_WITH_JACK
#include "jack_connections.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct jack_connection_list *to, const struct jack_side *side, int port, const char *other)
{
    if (to->n == to->cap) {
        int cap = to->cap ? 2 * to->cap : 16;
        struct jack_connection *list = realloc(to->list, (size_t)cap * sizeof *list);
        if (!list) return; /* no memory: this connection is not restored */
        to->list = list;
        to->cap = cap;
    }
    struct jack_connection *connection = &to->list[to->n++];
    *connection = (struct jack_connection){.side = side, .port = port};
    snprintf(connection->other, sizeof connection->other, "%s", other);
}

/* Appends a connection, unless the list has it. */
static void add(struct jack_connection_list *to, const struct jack_side *side, int port, const char *other)
{
    for (const struct jack_connection *old = to->list; old < to->list + to->n; old++)
        if (old->side == side && old->port == port && strcmp(old->other, other) == 0) return;
    append(to, side, port, other);
}

static void add_all(struct jack_connection_list *to, const struct jack_connection_list *from)
{
    for (const struct jack_connection *one = from->list; one < from->list + from->n; one++)
        add(to, one->side, one->port, one->other);
}

void jack_connections_ask(struct jack_connections *c, const struct jack_side *side, int port, const char *other)
{
    add(&c->asked, side, port, other);
    add(&c->wanted, side, port, other);
}

void jack_connections_ask_sound_card(struct jack_connections *c, jack_client_t *client, const struct jack_side *side)
{
    const char **ports = jack_get_ports(client, NULL, JACK_DEFAULT_AUDIO_TYPE,
                                        JackPortIsPhysical | (side->is_input ? JackPortIsOutput : JackPortIsInput));
    for (int i = 0; ports && ports[i] && i < side->n; i++) jack_connections_ask(c, side, i, ports[i]);
    if (!ports) message_note("--connect: the sound card has no %s", side->is_input ? "inputs" : "outputs");
    jack_free(ports);
}

int jack_connections_make(struct jack_connections *c, jack_client_t *client)
{
    int n = c->wanted.n, left = 0;
    for (int i = 0; i < n; i++) {
        struct jack_connection *wanted = &c->wanted.list[i];
        const char *ours = jack_port_name(wanted->side->port[wanted->port]), *other = wanted->other;
        bool is_input = wanted->side->is_input;
        int error = jack_port_by_name(client, other)
                        ? jack_connect(client, is_input ? other : ours, is_input ? ours : other)
                        : ENOENT;
        if (error && error != EEXIST) c->wanted.list[left++] = *wanted;
    }
    c->wanted.n = left;
    return n - left;
}

static void list_side(struct jack_connections *c, jack_client_t *client, const struct jack_side *side)
{
    for (int i = 0; i < side->n; i++) {
        const char **others = jack_port_get_all_connections(client, side->port[i]);
        for (int k = 0; others && others[k]; k++) add(&c->seen, side, i, others[k]);
        jack_free(others);
    }
}

void jack_connections_remember(struct jack_connections *c, jack_client_t *client, const struct jack_side *const *sides,
                               int n)
{
    struct jack_connection_list former = c->last;
    c->last = c->seen;
    c->seen = former;
    c->seen.n = 0;
    for (int i = 0; i < n; i++) list_side(c, client, sides[i]);
}

void jack_connections_add_new(struct jack_connections *c, jack_client_t *client, const struct jack_side *const *sides,
                              int n)
{
    int n_connected = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < sides[i]->n; k++) n_connected += jack_port_connected(sides[i]->port[k]);
    for (int i = 0; n_connected > c->n_connected && i < n; i++) list_side(c, client, sides[i]);
    c->n_connected = n_connected;
}

void jack_connections_restore(struct jack_connections *c)
{
    add_all(&c->wanted, &c->asked);
    add_all(&c->wanted, &c->last);
    add_all(&c->wanted, &c->seen);
    c->last.n = c->seen.n = 0;
    c->n_connected = 0;
}

void jack_connections_free(struct jack_connections *c)
{
    free(c->asked.list);
    free(c->wanted.list);
    free(c->last.list);
    free(c->seen.list);
}
#endif
