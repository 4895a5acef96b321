/* jack_connections - the connections of a JACK client: makes them once their other ends exist, and again on a server
 * that came back. Control thread.
 */
#ifndef JACK_CONNECTIONS_H
#define JACK_CONNECTIONS_H

#include <jack/jack.h>
#include <stdbool.h>

struct jack_side {        /* the inputs, the outputs or the MIDI input of the client                         */
    const char *type;     /* of JACK, audio or MIDI                                                          */
    bool is_input;
    int n;
    jack_port_t **port;   /* [n]                                                                             */
    char **name;          /* [n], from the configuration, or in-1 ...; owned                                 */
    float **buffer;       /* [n], of audio ports; audio thread                                               */
};

struct jack_connection {  /* of one of our ports                                                             */
    const struct jack_side *side;
    int port;
    char other[512];
};

struct jack_connection_list {
    struct jack_connection *list;
    int n, cap;
};

struct jack_connections {
    struct jack_connection_list asked;      /* what --connect and the configuration ask for                  */
    struct jack_connection_list wanted;     /* those that are still to be made                               */
    struct jack_connection_list seen, last; /* those of our ports: the newest list, and that of a second before */
    int n_connected;                        /* of our ports, at the last jack_connections_add_new            */
};

/* Asks for a connection, on this server and every later one. */
void jack_connections_ask(struct jack_connections *connections, const struct jack_side *side, int port,
                          const char *other);

/* Asks for a connection of each port of a side to the sound card's port of the same number. */
void jack_connections_ask_sound_card(struct jack_connections *connections, jack_client_t *client,
                                     const struct jack_side *side);

/* Makes the wanted connections whose other end exists, and returns their number; the others stay wanted. */
int jack_connections_make(struct jack_connections *connections, jack_client_t *client);

/* Lists the connections of the n sides, and keeps the list of the call before: a server that dies removes them
 * first. */
void jack_connections_remember(struct jack_connections *connections, jack_client_t *client,
                               const struct jack_side *const *sides, int n);

/* Adds the connections of the n sides to the newest list if there are more than at the call before. Cheap, for every
 * loop of the control thread. */
void jack_connections_add_new(struct jack_connections *connections, jack_client_t *client,
                              const struct jack_side *const *sides, int n);

/* Call it when the client has left its server: the connections that are asked for, and those that were there, are
 * wanted again. */
void jack_connections_restore(struct jack_connections *connections);

void jack_connections_free(struct jack_connections *connections);

#endif
