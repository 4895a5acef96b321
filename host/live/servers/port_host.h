/* port_host - `haloconv jack` and `haloconv pipewire`: a session whose channels are ports of a server. The server may
 * end and return: the ports and their connections then return, too.
 *
 *   jack.c       calls of libjack      --\
 *   pipewire.c   calls of libpipewire  ---+-> struct port_server -> port_host -> control, session
 *
 * Threads: [rt] calls belong to the audio thread, all others to one control thread.
 */
#ifndef PORT_HOST_H
#define PORT_HOST_H

#include "host/live/remotes/midi.h"
#include "host/live/session/live_options.h"
#include "host/live/session/session.h"
#include "host/live/session/session_state.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- connections ------------------------------------------------------------------------------ */

/* Makes the connections of a session's ports when their other ends exist, and again on a restarted
 * server. Control thread.
 */

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

/* ---- the host --------------------------------------------------------------------------------- */

struct port_host {
    const struct port_server *server;
    const struct live_settings *settings;
    struct session *session;
    hc_live *live;                      /* the session's                                                         */
    void *client;                       /* of the server; NULL: not joined                                       */
    struct port_side in, out, midi_in;  /* midi_in has no port without --midi                                    */
    struct midi midi;
    struct midi_ring midi_ring;         /* messages from the audio thread                                        */
    char name[128], server_name[128];   /* of the client and the server; server_name "": the default             */
    atomic_bool is_down;                /* the server went away                                                  */
    atomic_bool graph_changed;          /* missing connections may have their other end now                      */
    atomic_bool midi_is_missing;        /* the output of --midi-connect is searched for                          */
    atomic_int audio_thread;            /* realtime_thread of the audio thread; 0: not started yet               */
    bool has_checked_priority;
    uint64_t reach_version;             /* session_reach_version when the server's latencies were computed       */
    double next_check;                  /* time of the next check of the connections                             */
    struct connections connections;
    bool has_requested;                 /* request_devices has returned true                                     */
    bool is_misused;                    /* the options do not fit the mask                                       */
    int n_made;                         /* connections made at the last connect to the server                    */
    struct nsm *nsm;                    /* the session manager; NULL: none                                       */
    struct session_state state;         /* under a session manager: the state at the start                       */
    struct option_names masks;          /* and its list of masks                                                 */
};

struct port_server {                    /* the calls of JACK or PipeWire. NULL, where allowed: nothing to do     */
    const struct command_line *line;
    const char *name;                   /* for messages, as "the JACK server"                                    */
    const char *list_command;           /* prints the ports                                                      */
    /* Chooses another server for the options, or changes them. false: a usage error was printed. NULL is allowed. */
    bool (*choose)(struct port_host *host, struct live_settings *settings);
    /* Joins the server and sets client. false: why has the reason. */
    bool (*join)(struct port_host *host, char *why, size_t cap);
    /* Does the mask fit the options? false: why has the reason, and the exit status is 2. NULL: any does. */
    bool (*check)(struct port_host *host, char *why, size_t cap);
    void (*leave)(struct port_host *host);                /* frees client; no callback runs afterwards           */
    int (*rate)(const struct port_host *host);            /* Hz                                                  */
    int (*block)(const struct port_host *host);           /* frames                                              */
    bool (*is_realtime)(const struct port_host *host);    /* does it ask for real-time priority? NULL: yes       */
    const char *(*client_name)(const struct port_host *host);                 /* NULL: the host's name           */
    const char *(*port_name)(const struct port_host *host, const void *port); /* NULL: it has no MIDI            */
    /* NULL: activate makes the ports, and the command line alone names the client. */
    void *(*add_port)(struct port_host *host, const struct port_side *side, int i, char *why, size_t cap);
    bool (*activate)(struct port_host *host, char *why, size_t cap);   /* callbacks run from here on             */
    /* Requests connections to devices, as with --connect. false: the server is gone. NULL is allowed. */
    bool (*request_devices)(struct port_host *host);
    bool (*connect_midi)(struct port_host *host);         /* --midi-connect; false: the output does not exist    */
    void (*update_latencies)(struct port_host *host);     /* session_reaches has changed; NULL is allowed        */
    void (*tend)(struct port_host *host);                 /* called several times a second; NULL is allowed      */
    bool (*is_idle)(const struct port_host *host);        /* the server calls no callback now; NULL: never       */
    void (*report)(const struct port_host *host);         /* reports the connections; NULL: their number         */
    struct connection_server connections;                 /* its data is the host                                */
};

/* Runs the command, and returns the exit status. */
int port_host_command(const struct port_server *server, int argc, char **argv);

/* The audio thread calls it in each callback. [rt] */
void port_host_begin_block(struct port_host *host);

/* Does a route of the mask, or the dry signal, lead from or to port i of a side and port k of the other side? reaches:
 * from session_reaches */
bool port_host_reaches(const struct port_host *host, const unsigned char *reaches, const struct port_side *side, int i,
                       int k);

#endif
