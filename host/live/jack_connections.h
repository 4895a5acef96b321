/* jack_connections - makes the connections of a JACK client when their other ends exist, and again on a restarted
 * server. Control thread.
 */
#ifndef JACK_CONNECTIONS_H
#define JACK_CONNECTIONS_H

#include <jack/jack.h>
#include <stdbool.h>

struct jack_side {        /* ports of one kind: inputs, outputs or the MIDI input                            */
    const char *type;     /* JACK's port type: audio or MIDI                                                 */
    bool is_input;
    int n;
    jack_port_t **port;   /* [n]                                                                             */
    char **name;          /* [n], from the configuration, or in-1 ...; owned                                 */
    float **buffer;       /* [n]: buffers of audio ports; audio thread                                       */
};

struct jack_connection {  /* one of our ports, and its other end                                             */
    const struct jack_side *side;
    int port;
    char other[512];
};

struct jack_connection_list {
    struct jack_connection *list;
    int n, cap;
};

struct jack_connections {
    struct jack_connection_list asked;      /* from --connect and the configuration                          */
    struct jack_connection_list wanted;     /* connections still to be made                                  */
    struct jack_connection_list seen, last; /* connections of our ports: now, and a second before               */
    int n_connected;                        /* connections at the last jack_connections_add_new              */
};

/* Asks for a connection, on this server and every later one. */
void jack_connections_ask(struct jack_connections *connections, const struct jack_side *side, int port,
                          const char *other);

/* Asks for a connection of each port of a side to the sound card's port of the same number. */
void jack_connections_ask_sound_card(struct jack_connections *connections, jack_client_t *client,
                                     const struct jack_side *side);

/* Makes the wanted connections whose other end exists, and returns their number; the others stay wanted. */
int jack_connections_make(struct jack_connections *connections, jack_client_t *client);

/* Lists the connections of the n sides, and keeps the list before: a server removes connections before it ends. */
void jack_connections_remember(struct jack_connections *connections, jack_client_t *client,
                               const struct jack_side *const *sides, int n);

/* Adds new connections of the n sides to the newest list. Cheap: the control thread calls it in every loop. */
void jack_connections_add_new(struct jack_connections *connections, jack_client_t *client,
                              const struct jack_side *const *sides, int n);

/* Call it when the client has left its server: all connections of `asked` and of the last lists are wanted again. */
void jack_connections_restore(struct jack_connections *connections);

void jack_connections_free(struct jack_connections *connections);

#endif
