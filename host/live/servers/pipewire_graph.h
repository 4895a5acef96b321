/* pipewire_graph - a connection to a PipeWire daemon, and what the daemon reports of its graph: nodes, ports, links,
 * the default devices, rate and quantum.
 *
 * Threads: libpipewire calls back on the graph's loop thread. Every function but pipewire_graph_open,
 * pipewire_graph_close, pipewire_graph_lock and pipewire_graph_unlock needs the lock, or runs on the loop thread.
 */
#ifndef PIPEWIRE_GRAPH_H
#define PIPEWIRE_GRAPH_H

#include <pipewire/pipewire.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PIPEWIRE_ANSWER_S = 5 }; /* longest wait for the daemon */

enum pipewire_kind {
    PIPEWIRE_NODE,
    PIPEWIRE_PORT,
    PIPEWIRE_LINK,
    PIPEWIRE_REFUSED_LINK,           /* a link that the daemon refused; it lasts as long as both ports           */
    PIPEWIRE_METADATA
};

struct pipewire_object {
    enum pipewire_kind kind;
    uint32_t id;                     /* in the daemon's list, which gives ids of lost objects to new ones        */
    uint64_t serial;                 /* no other object has had it; not 0                                        */
    char *name, *alias;              /* node: node.name and node.description; port: port.name and port.alias;
                                        metadata: metadata.name                                                  */
    char *class;                     /* node: media.class; port: format.dsp                                      */
    uint32_t node, number;           /* port: id of its node, and its number in that node and direction          */
    bool is_output;                  /* port                                                                     */
    uint32_t from, to;               /* link, refused link: ids of an output and an input                        */
    int priority;                    /* node: priority.session                                                   */
};

struct pipewire_metadata {           /* the newest metadata of a name that the daemon has                           */
    const char *name;
    const struct pw_metadata_events *events;
    struct pw_proxy *proxy;          /* NULL: absent                                                             */
    struct spa_hook hook;
    uint32_t id;
};

struct pipewire_graph {
    struct pw_thread_loop *loop;
    struct pw_context *context;
    struct pw_loop *data_loop;       /* calls process; before PipeWire 1.1 NULL: a context has only one          */
    struct pw_core *core;
    struct pw_registry *registry;
    struct pipewire_metadata settings, defaults;
    struct spa_hook core_hook, registry_hook;
    struct spa_list links;           /* struct own_link: made by pipewire_graph_link, and not removed yet        */
    struct pipewire_object *objects;
    int n_objects, cap;
    int asked;                       /* number of the last pipewire_graph_ask                                    */
    bool is_answered;                /* by the daemon                                                            */
    int rate, quantum;               /* Hz and frames, from the daemon's settings                                */
    int forced_rate, forced_quantum; /* 0: not forced                                                            */
    char sink[256], source[256];     /* names of the default nodes; "": not reported                             */
    atomic_bool is_down;             /* the daemon went away                                                     */
    atomic_bool has_changed;         /* the graph changed; for the owner, who clears it                          */
    atomic_bool has_new_port;        /* likewise: a port appeared                                                */
};

/* Connects to a daemon (remote NULL: the default one) and waits until its graph is known. NULL: why has the reason. */
struct pipewire_graph *pipewire_graph_open(const char *remote, char *why, size_t cap);
void pipewire_graph_close(struct pipewire_graph *graph);

void pipewire_graph_lock(struct pipewire_graph *graph);
void pipewire_graph_unlock(struct pipewire_graph *graph);

/* Makes a node run on the data loop; runs a function there. wait: returns after it. */
void pipewire_graph_set_data_loop(const struct pipewire_graph *graph, struct pw_properties *node);
void pipewire_graph_invoke(const struct pipewire_graph *graph, spa_invoke_func_t function, const void *data,
                           size_t size, bool wait, void *user);

/* Asks the daemon to set is_answered when it has processed all earlier calls, and reported their effects. */
void pipewire_graph_ask(struct pipewire_graph *graph);

/* Asks, and waits for the answer. false: there is none. */
bool pipewire_graph_sync(struct pipewire_graph *graph);

/* Return the rate and the quantum that the first cycle will probably have. wanted: of the command line; 0: any. */
int pipewire_graph_rate(const struct pipewire_graph *graph, int wanted);
int pipewire_graph_quantum(const struct pipewire_graph *graph, int wanted);

/* Returns the node of a device by its name or description, or the default one for "system"; NULL: absent. Of several
 * nodes of one description, such as the sink and the source of a card, the first is chosen whose own ports have the
 * direction. */
const struct pipewire_object *pipewire_graph_find_device(const struct pipewire_graph *graph, const char *text,
                                                         bool is_output);

/* Returns a port of a node by its name; NULL: absent. */
const struct pipewire_object *pipewire_graph_own_port(const struct pipewire_graph *graph, uint32_t node, bool is_output,
                                                      const char *name);

/* Returns the port that a text names; NULL: absent. The text is "NODE:PORT" with names or descriptions as pw-link and
 * JACK have them, or "NODE:playback_N" or "NODE:capture_N" for port N of a device. NODE "system" is the default sink or
 * source. */
const struct pipewire_object *pipewire_graph_find_port(const struct pipewire_graph *graph, const char *text,
                                                       bool is_output);

/* Returns the first MIDI output whose name contains a text; NULL: absent. */
const struct pipewire_object *pipewire_graph_find_midi(const struct pipewire_graph *graph, const char *part);

/* Writes "NODE:PORT" of a port. */
void pipewire_graph_port_name(const struct pipewire_graph *graph, const struct pipewire_object *port, char *text,
                              size_t cap);

/* Return the object of an id or a serial; NULL: absent. */
const struct pipewire_object *pipewire_graph_object(const struct pipewire_graph *graph, uint32_t id);
const struct pipewire_object *pipewire_graph_find_serial(const struct pipewire_graph *graph, uint64_t serial);

/* Links an output and an input, unless they are linked or the daemon has refused that; a refusal is reported to the
 * user. */
void pipewire_graph_link(struct pipewire_graph *graph, uint32_t from, uint32_t to);

/* Removes a link, or forgets that it was refused. false: there is neither. */
bool pipewire_graph_unlink(struct pipewire_graph *graph, uint32_t from, uint32_t to);

#endif
