/* connections - makes the connections of a session's ports when their other ends exist, and again on a restarted
 * server. Control thread.
 */
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct port_side {        /* ports of one kind: inputs, outputs or the MIDI input                                */
    bool is_input, is_midi;
    int n;
    void **port;          /* [n], of the server: jack_port_t *, or the port's data of PipeWire                   */
    char **name;          /* [n], from the configuration, or in-1 ...; owned                                     */
    float **buffer;       /* [n]: buffers of audio ports; audio thread                                           */
};

struct connection {       /* one of our ports, and its other end                                                 */
    const struct port_side *side;
    int port;
    char other[512];
    uint64_t other_serial; /* of `requested`: the port to which it led last; 0: none. PipeWire alone uses it      */
};

struct connection_list {
    struct connection *list;
    int n, cap;
};

struct connections;

struct connection_server { /* the server's calls; all NULL: it makes the connections itself                      */
    void *data;
    bool (*connect)(void *data, const struct connection *connection); /* false: the other end does not exist yet */
    int (*count)(void *data, const struct port_side *side, int port); /* connections of a port                   */
    /* Calls connections_add_current for every connection of a port. */
    void (*list)(void *data, const struct port_side *side, int port, struct connections *connections);
};

struct connections {
    struct connection_server server;
    struct connection_list requested;  /* by --connect, --input, --output and the configuration                  */
    struct connection_list missing;    /* connections still to be made                                           */
    struct connection_list current, previous; /* connections of our ports: now, and a second before              */
    int n_connected;                   /* connections at the last connections_add_new                            */
};

/* Requests a connection, on this server and every later one. */
void connections_request(struct connections *connections, const struct port_side *side, int port, const char *other);

/* Makes the missing connections whose other end exists, and returns their number; the others stay missing. */
int connections_make(struct connections *connections);

/* Returns the connection of a port in a list; NULL: absent. */
struct connection *connections_find(const struct connection_list *list, const struct port_side *side, int port,
                                    const char *other);

void connections_add_current(struct connections *connections, const struct port_side *side, int port,
                             const char *other);

/* Lists the connections of the n sides, and keeps the list before: a server removes connections before it ends. */
void connections_remember(struct connections *connections, const struct port_side *const *sides, int n);

/* Adds new connections of the n sides to the newest list. Cheap: the control thread calls it in every loop. */
void connections_add_new(struct connections *connections, const struct port_side *const *sides, int n);

/* Call it when the client has left its server: all requested connections and those of the newest lists are missing. */
void connections_restore(struct connections *connections);

void connections_free(struct connections *connections);

#endif
