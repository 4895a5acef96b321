/* osc - sends and receives Open Sound Control messages over UDP; listens on the loopback interface by default. */
#ifndef OSC_H
#define OSC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct osc;
struct osc_peer;

/* Sends a message as osc_send_to does, to a peer that UDP does not reach. */
typedef void osc_sender(const struct osc_peer *to, const char *path, const char *types, va_list args);

struct osc_peer {
    struct sockaddr_storage address;
    socklen_t size;
    osc_sender *send;   /* NULL: a peer of UDP, with an address; else a client of a panel: */
    void *panel;        /* the panel */
    uint64_t client;    /* number of the client */
};

enum { OSC_MAX_TEXTS = 4, OSC_MAX_NUMBERS = 8 };
struct osc_message {
    const char *path;
    const char *text;   /* the first argument; NULL: it is not a string */
    bool has_number;    /* the first argument is a number */
    double number;      /* value of the first argument, 1 and 0 for T and F; 0: not a number */
    double second;      /* value of the second argument, likewise */
    const char *texts[OSC_MAX_TEXTS]; /* the strings among all arguments, in their order */
    int n_texts;
    double numbers[OSC_MAX_NUMBERS]; /* the values of the first arguments, up to one that is not a number */
    int n_numbers;
    int n_args;
    const struct osc_peer *from; /* the sender; lives as long as the message */
};
typedef void osc_handler(void *data, const struct osc_message *message);

/* Listens on "PORT" or "HOST:PORT"; port 0: any free one. NULL: why has the reason, for example no liblo. */
struct osc *osc_open(const char *where, char *why, size_t cap);

/* Exchanges messages with the server at "osc.udp://HOST:PORT/" through the interface that routes to it. Drops packets
 * of others. */
struct osc *osc_open_to(const char *url, char *why, size_t cap);

void osc_close(struct osc *osc);
int osc_port(const struct osc *osc);
int osc_fd(const struct osc *osc); /* readable when osc_receive has a message to read; osc_split changes it  */

/* ---- a thread that handles some messages first ---- The thread that calls osc_receive may be busy. After osc_split
 * another thread calls osc_handle_first in a loop. osc_receive gets the messages that this thread does not handle. */

/* Returns true if it has handled the message. */
typedef bool osc_first_handler(void *data, const struct osc_message *message);

/* Call it before the thread starts. false: why has the reason, and osc is as it was. */
bool osc_split(struct osc *osc, char *why, size_t cap);

/* Ends the wait of osc_handle_first, by an empty packet to our own port. */
void osc_wake_first(struct osc *osc);

/* Ends what osc_split began. No thread may call osc_handle_first any more. */
void osc_join(struct osc *osc);

/* Waits for a packet, at most 0.2 s, and gives its messages to the handler. Returns the number of messages, 1 for a
 * packet without messages; 0: no packet came. If osc_receive is not called for long, messages for it are lost. */
int osc_handle_first(struct osc *osc, osc_first_handler *handler, void *data);

/* ---- messages ---- */

/* Calls the handler for every message that has arrived. Returns at once. */
void osc_receive(struct osc *osc, osc_handler *handler, void *data);

/* Sends a message to the server of osc_open_to. types has an s (const char *), i (int) or f (double) for each argument.
 * A receiver that has ended is not an error. */
void osc_send(struct osc *osc, const char *path, const char *types, ...);

/* Sends a message to a peer. Strangers cannot cause a flood: all handlers of one osc_receive together send at most 128
 * messages over UDP, and so do the calls between two osc_receive; further messages are dropped. osc may be NULL if the
 * peer is a client of a panel. */
void osc_send_to(struct osc *osc, const struct osc_peer *to, const char *path, const char *types, ...);

/* Stores the next peer whose port was closed when a message was sent to it. false: no such peer. Whenever osc_fd is
 * ready, call it until it returns false. */
bool osc_next_unreachable(struct osc *osc, struct osc_peer *peer);

bool osc_same_peer(const struct osc_peer *a, const struct osc_peer *b);
bool osc_same_host(const struct osc_peer *a, const struct osc_peer *b); /* ignores ports, and clients of a panel */

/* Is this the address of osc's own socket? Packets from this address are dropped: they are our own answers, or forged. */
bool osc_is_own(const struct osc *osc, const struct osc_peer *peer);

/* Changes the port of a peer's address. */
void osc_set_port(struct osc_peer *peer, int port);

#endif
