#include "connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
