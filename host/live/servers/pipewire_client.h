/* pipewire_client - state and calls that the node with ports (pipewire.c) and the desktop's sink or source
 * (pipewire_stream.c) share. */
#ifndef PIPEWIRE_CLIENT_H
#define PIPEWIRE_CLIENT_H

#include "pipewire_graph.h"
#include "port_host.h"

#include <spa/node/io.h>
#include <stdatomic.h>

/* ---- cycles ----------------------------------------------------------------------------------- */

/* The cycles of PipeWire's graph tell a session its rate, quantum, missing cycles and freewheel.
 */

struct pipewire_cycle {
    atomic_bool is_first;        /* the next cycle follows a pause       */
    struct spa_io_clock clock;   /* of the last cycle; audio thread      */
};

struct pipewire_gap {            /* between the last cycle and this      */
    int64_t n;                   /* frames in which the node was not called; not counted if the rate is another */
    bool is_pause;               /* the graph was suspended, as by PipeWire 1.4 for a quantum that is forced    */
    bool is_long;                /* half a second or more: what played before is over                           */
};

/* ---- the client ------------------------------------------------------------------------------- */

enum { PIPEWIRE_MAX_QUANTUM = 8192 }; /* frames of a buffer of libpipewire */

struct pipewire_client {         /* the first member of port_host.client                                         */
    struct port_host *host;
    struct pipewire_graph *graph;
    struct pipewire_cycle cycle;
    float *silence;              /* [PIPEWIRE_MAX_QUANTUM]: of each input without a buffer                      */
    float *discarded;            /* [out.n][PIPEWIRE_MAX_QUANTUM]: of outputs without a buffer, whose peaks are shown */
    atomic_bool is_cut;          /* a cycle had more frames than PIPEWIRE_MAX_QUANTUM                            */
    bool has_reported_cut;
    bool asks;                   /* the graph has changed: pipewire_graph_ask waits for its answer               */
};

/* Sets host.client, of `size` bytes, with a connection to the daemon. false: why has the reason. */
bool pipewire_client_join(struct port_host *host, size_t size, char *why, size_t cap);

/* Frees the client, without its filter or streams. */
void pipewire_client_leave(struct pipewire_client *client);

/* Calls of struct port_server. Before the first cycle the daemon's settings say what rate and block will be. */
int pipewire_client_rate(const struct port_host *host);
int pipewire_client_block(const struct port_host *host);

/* Asks for the cycles of --block and the rate of --rate, and for the graph's data loop. */
void pipewire_client_set_node(const struct port_host *host, struct pw_properties *properties);

/* Makes what the first cycle needs. Call it once, before that, without the graph's lock. */
bool pipewire_client_begin(struct pipewire_client *client, char *why, size_t cap);

/* Waits until is_ready, with the graph's lock. false: it did not come. */
bool pipewire_client_await(struct pipewire_client *client, bool (*is_ready)(struct port_host *));

/* A filter or stream, whose is_streaming this sets, plays or not, or is gone. libpipewire also reports errors that
 * change no state, as when there is no device: the caller asks for the state. [loop thread] */
void pipewire_client_changed(struct pipewire_client *client, atomic_bool *is_streaming, bool plays, bool is_gone);

/* Call it in each cycle before hc_live_process. Returns the number of frames to process. [rt] */
int pipewire_client_begin_cycle(struct pipewire_client *client, const struct spa_io_clock *clock);

/* Passes on that the daemon went away. Returns whether the graph has changed, and the daemon has reported all effects
 * of what it did before; it never waits for that. */
bool pipewire_client_tend(struct port_host *host);

#endif
