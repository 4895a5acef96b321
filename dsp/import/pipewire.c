#include "pipewire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 2048, DEFAULT_RATE = 48000 };
enum { MAX_COPIES = 64, MAX_SINK_CHANNELS = 64 }; /* PipeWire's limits */
#define MODULE "libpipewire-module-filter-chain"
#define STREAM_KEYS                                                                                                    \
    "node.name node.description media.class target.object node.target audio.rate audio.channels audio.position "       \
    "audio.layout | audio.format audio.allowed-rates"
#define OTHER_SECTIONS                                                                                                 \
    "context.spa-libs context.objects context.exec context.properties context.properties.rules context.modules.rules " \
    "stream.properties stream.rules filter.properties filter.rules node.rules device.rules alsa.properties "           \
    "alsa.rules "                                                                                                      \
    "jack.properties jack.rules pulse.properties pulse.properties.rules pulse.rules pulse.cmd avb.properties"
#define OTHER_MODULES                                                                                                  \
    "libpipewire-module-rt libpipewire-module-rtkit libpipewire-module-protocol-native "                               \
    "libpipewire-module-client-node "                                                                                  \
    "libpipewire-module-adapter libpipewire-module-metadata libpipewire-module-client-device "                         \
    "libpipewire-module-session-manager libpipewire-module-access libpipewire-module-profiler "                        \
    "libpipewire-module-spa-node-factory libpipewire-module-link-factory libpipewire-module-portal"

struct graph {
    struct import *import;
    const struct relaxed *args, *capture, *playback; /* properties of the module and of its streams; NULL: none */
    struct node *nodes;                              /* [n_nodes] */
    int n_nodes;
    struct spatializer_bank bank;
    int *order;      /* [n_nodes]: each node comes after the nodes that feed it */
    int n_in, n_out; /* ports of a copy of the graph */
    struct output {
        int node, port; /* node -1: the port is silent */
    } outputs[MASK_MAX_CHANNELS];
};

static bool is_pipewire(const char *text, size_t bytes)
{
    return memmem(text, bytes, "filter.graph", 12) && memmem(text, bytes, "nodes", 5);
}

/* ---- ports -------------------------------------------------------------------------------------- */

static int find_node(const struct graph *g, const char *name, size_t length)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (strlen(g->nodes[i].name) == length && strncmp(g->nodes[i].name, name, length) == 0) return i;
    return -1;
}

/* Finds a port by its index or its name, which is In, or In 1 if the node has several; the outputs of a spatializer are
 * Out L and Out R. -1: absent. */
static int find_port(const char *name, const struct node_type *type, bool is_output)
{
    const char *stem = is_output ? "Out" : "In";
    const char *suffixes = is_output && type == &node_spatializer ? "LR" : "12345678";
    int n = is_output ? type->n_out : type->n_in;
    char known[16], *end;
    unsigned long index = strtoul(name, &end, 10);
    if (*name >= '0' && *name <= '9' && !*end) return index < (unsigned long)n ? (int)index : -1;
    if (n == 1) return strcmp(name, stem) == 0 ? 0 : -1;
    for (int i = 0; i < n; i++) {
        snprintf(known, sizeof known, "%s %c", stem, suffixes[i]);
        if (strcmp(name, known) == 0) return i;
    }
    return -1;
}

/* Finds a port named "node:port", or "port" of the node `own`. key: of the name, or of its list. false: it is absent;
 * an error was reported. */
static bool port_find(struct graph *g, const struct relaxed *at, const char *key, int own, bool is_output, int *node,
                      int *port)
{
    if (!relaxed_is(g->import, "filter.graph", at, RELAXED_TEXT, key)) return false;
    const char *name = at->text, *colon = strchr(name, ':');
    *node = colon ? find_node(g, name, (size_t)(colon - name)) : -1;
    const char *port_name = *node >= 0 ? colon + 1 : name;
    if (*node < 0) *node = own;
    const struct node_type *type = g->nodes[*node].type;
    *port = find_port(port_name, type, is_output);
    if (*port >= 0) return true;
    const char *example = !is_output ? "In" : type == &node_spatializer ? "Out L" : "Out";
    IMPORT_REFUSE(g->import, at->line, "filter.graph", "the %s \"%.80s\" does not exist; name another, as NODE:%s",
                  is_output ? "output" : "input", name, example);
    return false;
}

/* ---- the graph ---------------------------------------------------------------------------------- */

/* Reads a node. false: it has no type, cannot be a convolution, or has a wrong value; an error was reported. */
static bool add_node(struct graph *g, const struct relaxed *json)
{
    struct import *import = g->import;
    struct node *node = &g->nodes[g->n_nodes++];
    int n_errors = import->c->diagnostics.n_errors;
    *node = (struct node){.json = json, .name = relaxed_text(import, "filter.graph", json, "name", "")};
    snprintf(node->statement, sizeof node->statement, "node %.50s", node->name);
    int same = find_node(g, node->name, strlen(node->name));
    if (*node->name && &g->nodes[same] != node)
        IMPORT_WARN(import, json->line, node->statement,
                    "the node in line %d has the same name, and links take its ports; write another name",
                    g->nodes[same].json->line);
    const char *type = relaxed_text(import, node->statement, json, "type", "");
    const char *label = relaxed_text(import, node->statement, json, "label", "");
    node->control = relaxed_of(import, node->statement, json, "control", RELAXED_MAP);
    node->config = relaxed_of(import, node->statement, json, "config", RELAXED_MAP);
    for (int i = 0; i < NODE_PORTS; i++) node->in[i] = (struct node_port){.node = -1, .external = -1};
    node->bank = &g->bank;
    if (!relaxed_is(import, "filter.graph", json, RELAXED_MAP, "nodes") || import->c->diagnostics.n_errors > n_errors)
        return false;
    bool is_sofa = strcmp(type, "sofa") == 0;
    if (is_sofa && strcmp(label, node_spatializer.label) == 0)
        node->type = &node_spatializer;
    else if (strcmp(type, "builtin") == 0)
        node->type = node_type_find(label);
    if (!is_sofa && strcmp(type, "builtin") != 0)
        IMPORT_REFUSE(import, json->line, node->statement, "is a program of type \"%.40s\"; remove the node", type);
    else if (!node->type)
        IMPORT_REFUSE(import, json->line, node->statement, "the label \"%.40s\" is unknown; use another node", label);
    else if (!node->type->play)
        IMPORT_REFUSE(import, json->line, node->statement, "%s cannot be a convolution; remove the node", label);
    if (!node->type || !node->type->play) return false;
    node_check_controls(import, node);
    return import->c->diagnostics.n_errors == n_errors;
}

static void add_link(struct graph *g, const struct relaxed *json)
{
    struct import *import = g->import;
    relaxed_keys(import, "link", json, "output input", false);
    const struct relaxed *output = relaxed_get(json, "output"), *input = relaxed_get(json, "input");
    int from, from_port, to, to_port;
    if (!relaxed_is(import, "filter.graph", json, RELAXED_MAP, "links")) return;
    if (!output || !input) {
        IMPORT_REFUSE(import, json->line, "filter.graph", "a link has no output or no input; give both");
        return;
    }
    if (!port_find(g, output, "output", 0, true, &from, &from_port) ||
        !port_find(g, input, "input", g->n_nodes - 1, false, &to, &to_port))
        return;
    struct node_port *in = &g->nodes[to].in[to_port];
    if (in->node >= 0)
        IMPORT_REFUSE(import, json->line, "filter.graph", "%.80s is linked twice; use a mixer", input->text);
    in->node = from;
    in->port = from_port;
}

static void add_inputs(struct graph *g, const struct relaxed *names)
{
    int node, port;
    if (!names)
        for (g->n_in = 0; g->n_in < g->nodes[0].type->n_in; g->n_in++) g->nodes[0].in[g->n_in].external = g->n_in;
    for (const struct relaxed *name = relaxed_items(names); name && g->n_in < MASK_MAX_CHANNELS;
         name = name->next, g->n_in++) {
        if (relaxed_is_null(name) || !port_find(g, name, "inputs", 0, false, &node, &port)) continue;
        struct node_port *in = &g->nodes[node].in[port];
        if (in->external >= 0 || in->node >= 0)
            IMPORT_REFUSE(g->import, name->line, "filter.graph", "input %.80s has a signal already; use a mixer",
                          name->text);
        in->external = g->n_in;
    }
}

static void add_outputs(struct graph *g, const struct relaxed *names)
{
    int last = g->n_nodes - 1;
    if (!names)
        for (g->n_out = 0; g->n_out < g->nodes[last].type->n_out; g->n_out++)
            g->outputs[g->n_out] = (struct output){last, g->n_out};
    for (const struct relaxed *name = relaxed_items(names); name && g->n_out < MASK_MAX_CHANNELS;
         name = name->next, g->n_out++) {
        struct output *out = &g->outputs[g->n_out];
        if (relaxed_is_null(name) || !port_find(g, name, "outputs", last, true, &out->node, &out->port)) out->node = -1;
    }
}

/* Orders the nodes by Kahn's algorithm: appends a node whose inputs are all ordered, and repeats. false: there is a
 * loop, and an error was reported, or memory is short. */
static bool order_nodes(struct graph *g)
{
    struct arena *arena = g->import->c->arena;
    int n = g->n_nodes, n_ordered = 0;
    bool *is_ordered = arena_alloc(arena, (size_t)n, sizeof *is_ordered);
    g->order = arena_alloc(arena, (size_t)n, sizeof *g->order);
    if (!is_ordered || !g->order) return false;
    for (int before = -1; before != n_ordered;) {
        before = n_ordered;
        for (int i = 0; i < n; i++) {
            bool is_ready = !is_ordered[i];
            for (int port = 0; port < NODE_PORTS && is_ready; port++)
                is_ready = g->nodes[i].in[port].node < 0 || is_ordered[g->nodes[i].in[port].node];
            if (!is_ready) continue;
            is_ordered[i] = true;
            g->order[n_ordered++] = i;
        }
    }
    for (int i = 0; i < n && n_ordered < n; i++) {
        if (is_ordered[i]) continue;
        IMPORT_REFUSE(g->import, g->nodes[i].json->line, g->nodes[i].statement, "its links form a loop; remove one");
        break;
    }
    return n_ordered == n;
}

/* ---- streams ------------------------------------------------------------------------------------ */

/* Returns the mapping that has a property: the stream or, if the stream lacks it, the module. */
static const struct relaxed *owner_of(const struct graph *g, const struct relaxed *stream, const char *key)
{
    return relaxed_get(stream, key) ? stream : g->args;
}

/* clang-format off */
static const struct {
    const char *name, *positions;
} layouts[] = { /* of PipeWire 1.6 */
    {"Mono", "MONO"}, {"Stereo", "FL FR"}, {"Quad", "FL FR RL RR"}, {"Pentagonal", "FL FR RL RR FC"},
    {"Hexagonal", "FL FR RL RR FC RC"}, {"Octagonal", "FL FR RL RR FC RC SL SR"},
    {"Cube", "FL FR RL RR TFL TFR TRL TRR"}, {"MPEG-1.0", "MONO"}, {"MPEG-2.0", "FL FR"},
    {"MPEG-3.0A", "FL FR FC"}, {"MPEG-3.0B", "FC FL FR"}, {"MPEG-4.0A", "FL FR FC RC"},
    {"MPEG-4.0B", "FC FL FR RC"}, {"MPEG-5.0A", "FL FR FC SL SR"}, {"MPEG-5.0B", "FL FR SL SR FC"},
    {"MPEG-5.0C", "FL FC FR SL SR"}, {"MPEG-5.0D", "FC FL FR SL SR"}, {"MPEG-5.1A", "FL FR FC LFE SL SR"},
    {"MPEG-5.1B", "FL FR SL SR FC LFE"}, {"MPEG-5.1C", "FL FC FR SL SR LFE"}, {"MPEG-5.1D", "FC FL FR SL SR LFE"},
    {"MPEG-6.1A", "FL FR FC LFE SL SR RC"}, {"MPEG-7.1A", "FL FR FC LFE RL RR SL SR"},
    {"MPEG-7.1B", "FC SL SR FL FR RL RR LFE"}, {"MPEG-7.1C", "FL FR FC LFE SL SR RL RR"}, {"2.1", "FL FR LFE"},
    {"2RC", "FL FR RC"}, {"2FC", "FL FR FC"}, {"3.1", "FL FR FC LFE"}, {"4.0", "FL FR FC RC"},
    {"2.2", "FL FR SL SR"}, {"4.1", "FL FR FC LFE RC"}, {"5.0", "FL FR FC SL SR"}, {"5.0R", "FL FR FC RL RR"},
    {"5.1", "FL FR FC LFE SL SR"}, {"5.1R", "FL FR FC LFE RL RR"}, {"6.0", "FL FR FC RC SL SR"},
    {"6.0F", "FL FR FLC FRC SL SR"}, {"6.1", "FL FR FC LFE RC SL SR"}, {"6.1F", "FL FR FC LFE RL RR RC"},
    {"7.0", "FL FR FC RL RR SL SR"}, {"7.0F", "FL FR FC FLC FRC SL SR"}, {"7.1", "FL FR FC LFE RL RR SL SR"},
    {"7.1W", "FL FR FC LFE FLC FRC SL SR"}, {"7.1WR", "FL FR FC LFE RL RR FLC FRC"},
};
/* clang-format on */

/* Returns the positions of audio.layout. NULL: it is missing, or AUX with a number, which *number gets, or an error was
 * reported. */
static const char *layout_positions(struct import *import, const struct relaxed *owner, const char *name, int *number)
{
    const char *layout = relaxed_text(import, name, owner, "audio.layout", NULL);
    if (!layout) return NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(layout, layouts[i].name) == 0) return layouts[i].positions;
    if (strncmp(layout, "AUX", 3) == 0 && layout[3] && !layout[3 + strspn(layout + 3, "0123456789")])
        *number = strlen(layout) < 8 ? atoi(layout + 3) : MASK_MAX_CHANNELS + 1;
    else
        IMPORT_REFUSE(import, relaxed_get(owner, "audio.layout")->line, name,
                      "audio.layout \"%.40s\" is unknown; use a layout of PipeWire, such as 5.1, or audio.position",
                      layout);
    return NULL;
}

/* Reads the channel count and the channel names of a stream. Returns 0 if there is no count. */
static int graph_read_channels(const struct graph *g, const struct relaxed *stream, const char *name, hc_port *ports)
{
    struct import *import = g->import;
    const struct relaxed *position = relaxed_get(owner_of(g, stream, "audio.position"), "audio.position");
    const struct relaxed *owner = owner_of(g, stream, "audio.channels");
    int number = relaxed_whole(import, name, owner, "audio.channels", 0), n = 0;
    const struct relaxed *with_layout = owner_of(g, stream, "audio.layout");
    const char *positions = position ? position->text : layout_positions(import, with_layout, name, &number);
    if (position && position->kind != RELAXED_TEXT) {
        if (!relaxed_is(import, name, position, RELAXED_LIST, "audio.position")) return 0;
        for (const struct relaxed *item = position->items; item; item = item->next, n++) {
            if (!relaxed_is(import, name, item, RELAXED_TEXT, "audio.position")) return 0;
            if (n < MASK_MAX_CHANNELS) ports[n].name = item->text;
        }
        number = n;
    } else if (positions) { /* one text: "FL,FR" */
        char *names = arena_text(import->c->arena, positions), *rest;
        for (char *item = names ? strtok_r(names, " ,[]", &rest) : NULL; item;
             item = strtok_r(NULL, " ,[]", &rest), n++)
            if (n < MASK_MAX_CHANNELS) ports[n].name = item;
        number = n;
    }
    if (number >= 0 && number <= MASK_MAX_CHANNELS) return number;
    const struct relaxed *count = relaxed_get(owner, "audio.channels");
    IMPORT_REFUSE(import, count ? count->line : g->args->line, name, "the number of channels is wrong; give 1 to %d",
                  MASK_MAX_CHANNELS);
    return 0;
}

/* Computes how many copies of the graph the streams' channels need; 0: the graph has no ports. Sets the channel
 * counts. */
static int count_copies(struct graph *g)
{
    const struct relaxed *args = g->args;
    int in_each = g->n_in ? g->n_in : g->n_out, out_each = g->n_out ? g->n_out : g->n_in;
    if (in_each == 0 || out_each == 0) {
        IMPORT_REFUSE(g->import, args->line, "filter.graph", "has neither inputs nor outputs; name them");
        return 0;
    }
    struct configuration *c = g->import->c;
    int n_in = graph_read_channels(g, g->capture, "capture.props", c->in_port);
    int n_out = graph_read_channels(g, g->playback, "playback.props", c->out_port);
    if (n_in == 0) n_in = in_each;
    int copies = n_in / in_each;
    if (n_out == 0) n_out = out_each * (copies ? copies : 1);
    if (copies > MAX_COPIES)
        IMPORT_REFUSE(g->import, args->line, "filter.graph",
                      "the channels need %d copies of the graph; give channels for at most %d", copies, MAX_COPIES);
    if (copies != n_out / out_each)
        IMPORT_REFUSE(g->import, args->line, "filter.graph",
                      "%d channels for %d inputs need %d copies of the graph, but %d for %d outputs need %d; give "
                      "audio.channels that fit",
                      n_in, in_each, copies, n_out, out_each, n_out / out_each);
    c->n_in = n_in < MASK_MAX_CHANNELS ? n_in : MASK_MAX_CHANNELS;
    c->n_out = n_out < MASK_MAX_CHANNELS ? n_out : MASK_MAX_CHANNELS;
    return copies < 1 ? 1 : copies < MAX_COPIES ? copies : MAX_COPIES;
}

/* ---- the signals -------------------------------------------------------------------------------- */

static void play_graph(struct graph *g, int copy)
{
    struct import *import = g->import;
    struct network *net = &import->network;
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *node = &g->nodes[g->order[i]];
        for (int port = 0; port < NODE_PORTS; port++) {
            const struct node_port *in = &node->in[port];
            int channel = copy * g->n_in + in->external;
            node->play_out[port] = NULL;
            node->play_in[port] = in->node >= 0 ? g->nodes[in->node].play_out[in->port]
                                  : in->external >= 0 && channel < import->c->n_in ? signal_input(net, channel)
                                                                                   : NULL;
        }
        node->copy = copy;
        node->type->play(import, node);
    }
    for (int out = 0; out < g->n_out && copy * g->n_out + out < import->c->n_out; out++)
        if (g->outputs[out].node >= 0)
            network_output(net, copy * g->n_out + out, g->nodes[g->outputs[out].node].play_out[g->outputs[out].port]);
}

static void warn_volumes(struct import *import, const struct relaxed *graph)
{
    static const char *const keys[] = {"capture.volumes", "playback.volumes", "input.volumes", "output.volumes"};
    for (int i = 0; i < 4; i++) {
        const struct relaxed *volumes = relaxed_of(import, "filter.graph", graph, keys[i], RELAXED_LIST);
        if (relaxed_items(volumes))
            IMPORT_WARN(import, volumes->line, keys[i], "a volume control is ignored: the controls stay as set");
    }
}

/* The streams of the module have channels of their own, and replace those that the graph suggests. */
static void warn_ports(struct import *import, const struct relaxed *graph)
{
    static const char *const keys[] = {"n_inputs", "n_outputs", "inputs.audio.position", "outputs.audio.position"};
    for (int i = 0; i < 4; i++) {
        const struct relaxed *value = relaxed_get(graph, keys[i]);
        if (value && i < 2) relaxed_whole(import, "filter.graph", graph, keys[i], 0);
        if (value && (i < 2 || relaxed_is(import, "filter.graph", value, RELAXED_LIST, keys[i])))
            IMPORT_WARN(import, value->line, keys[i], "is not taken over; give audio.channels or audio.position in %s",
                        i % 2 ? "playback.props" : "capture.props");
    }
}

/* A spatializer stays where its controls say. */
static void note_sources(struct graph *g)
{
    for (const struct node *node = g->nodes; node < g->nodes + g->n_nodes; node++) {
        if (node->type != &node_spatializer) continue;
        IMPORT_NOTE(g->import, node->json->line, node->statement,
                    "plays one direction; for moving sources make a sink of the bank itself, with a channel for each");
        return;
    }
}

static void read_graph(struct graph *g)
{
    struct import *import = g->import;
    int n_errors = import->c->diagnostics.n_errors;
    const struct relaxed *graph = relaxed_of(import, "args", g->args, "filter.graph", RELAXED_MAP);
    relaxed_keys(import, "filter.graph", graph,
                 "nodes links inputs outputs capture.volumes playback.volumes input.volumes output.volumes n_inputs "
                 "n_outputs inputs.audio.position outputs.audio.position",
                 false);
    const struct relaxed *nodes = relaxed_of(import, "filter.graph", graph, "nodes", RELAXED_LIST);
    int n = relaxed_count(nodes);
    if (import->c->diagnostics.n_errors > n_errors) return;
    if (n < 1 || n > MAX_NODES) {
        IMPORT_REFUSE(import, g->args->line, "filter.graph", "has %d nodes; give 1 to %d", n, MAX_NODES);
        return;
    }
    g->nodes = arena_alloc(import->c->arena, (size_t)n, sizeof *g->nodes);
    if (!g->nodes) return;
    bool are_known = true;
    for (const struct relaxed *node = nodes->items; node; node = node->next) are_known &= add_node(g, node);
    note_sources(g);
    if (!are_known) return; /* the ports of an unknown node are unknown, too */
    const struct relaxed *links = relaxed_of(import, "filter.graph", graph, "links", RELAXED_LIST);
    int n_left = NODE_PORTS * n;
    for (const struct relaxed *link = relaxed_items(links); link && n_left >= 0; link = link->next)
        if (n_left-- > 0)
            add_link(g, link);
        else
            IMPORT_REFUSE(import, link->line, "filter.graph", "has more links than the nodes have inputs; remove some");
    add_inputs(g, relaxed_of(import, "filter.graph", graph, "inputs", RELAXED_LIST));
    add_outputs(g, relaxed_of(import, "filter.graph", graph, "outputs", RELAXED_LIST));
    warn_volumes(import, graph);
    warn_ports(import, graph);
    int copies = count_copies(g);
    if (copies == 0 || !order_nodes(g)) return;
    for (int copy = 0; copy < copies && (copy == 0 || import->c->diagnostics.n_errors == 0); copy++)
        play_graph(g, copy);
}

/* Finds the spatializer that plays input `in`. NULL: none does. */
static const struct node *find_source(const struct graph *g, int in)
{
    for (const struct node *node = g->nodes; node < g->nodes + g->n_nodes; node++)
        if (node->type == &node_spatializer && node->in[0].external == in && node->path) return node;
    return NULL;
}

/* Records the sources and the bank, if the outputs are what both ears hear of them, and nothing else. */
static void read_sources(struct graph *g, hc_virtual_device *device)
{
    struct configuration *c = g->import->c;
    struct network *net = &g->import->network;
    const struct signal *ears[2] = {NULL, NULL};
    const struct node *first =
        c->diagnostics.n_errors == 0 && c->n_out == 2 && c->n_in <= MAX_SINK_CHANNELS ? find_source(g, 0) : NULL;
    hc_source *sources = first ? arena_alloc(c->arena, (size_t)c->n_in, sizeof *sources) : NULL;
    if (!sources) return;
    for (int in = 0; in < c->n_in; in++) {
        const struct node *node = find_source(g, in);
        if (!node || strcmp(node->path, first->path) != 0 || node->gain != first->gain || !(node->gain > 0)) return;
        memcpy(sources[in].position, node->position, sizeof node->position);
        for (int ear = 0; ear < 2; ear++)
            ears[ear] = signal_add(net, ears[ear], signal_filter(net, signal_input(net, in), node->filter[ear]));
    }
    if (!signal_is_equal(ears[0], net->outputs[0]) || !signal_is_equal(ears[1], net->outputs[1])) return;
    device->n_sources = c->n_in;
    device->sources = sources;
    device->bank = first->path;
    device->gain = (float)first->gain;
}

/* Returns the name of a stream's node: its own or, as PipeWire makes it, that of the module with a prefix. */
static const char *node_name(const struct graph *g, const struct relaxed *stream, const char *statement,
                             const char *prefix)
{
    struct import *import = g->import;
    const char *own = relaxed_text(import, statement, stream, "node.name", NULL);
    const char *name = relaxed_text(import, "args", g->args, "node.name", "haloconv");
    size_t cap = strlen(prefix) + strlen(name) + 1;
    char *text = own ? NULL : arena_alloc(import->c->arena, cap, 1);
    if (!text) return own ? own : name;
    snprintf(text, cap, "%s%s", prefix, name);
    return text;
}

/* Returns the name of the node to which a stream leads; NULL: any. A number is that of a node that has gone. */
static const char *target_name(struct import *import, const struct relaxed *stream, const char *statement)
{
    const char *name = relaxed_text(import, statement, stream, "target.object",
                                    relaxed_text(import, statement, stream, "node.target", NULL));
    return name && name[strspn(name, "-0123456789")] ? name : NULL;
}

/* Records the sink or virtual microphone that the streams make. */
static void graph_read_device(struct graph *g)
{
    struct import *import = g->import;
    const struct relaxed *in = g->capture, *out = g->playback;
    const char *in_class = relaxed_text(import, "capture.props", in, "media.class", "");
    const char *out_class = relaxed_text(import, "playback.props", out, "media.class", "");
    bool is_sink = strncmp(in_class, "Audio/Sink", 10) == 0, is_source = strncmp(out_class, "Audio/Source", 12) == 0;
    const struct relaxed *node = is_sink ? in : out;
    const char *statement = is_sink ? "capture.props" : "playback.props";
    hc_virtual_device *device = is_sink != is_source ? arena_alloc(import->c->arena, 1, sizeof *device) : NULL;
    if (!device) return;
    *device = (hc_virtual_device){
        .is_source = is_source,
        .name = node_name(g, node, statement, is_sink ? "input." : "output."),
        .description = relaxed_text(import, statement, node, "node.description",
                                    relaxed_text(import, "args", g->args, "node.description", NULL)),
        .target = target_name(import, is_sink ? out : in, is_sink ? "playback.props" : "capture.props")};
    if (is_sink) read_sources(g, device);
    import->c->device = device;
}

static void read_module(struct import *import, const struct relaxed *args)
{
    struct configuration *c = import->c;
    struct graph g = {.import = import,
                      .args = args,
                      .capture = relaxed_of(import, "args", args, "capture.props", RELAXED_MAP),
                      .playback = relaxed_of(import, "args", args, "playback.props", RELAXED_MAP)};
    relaxed_keys(import, "args", args, "filter.graph capture.props playback.props " STREAM_KEYS, true);
    relaxed_keys(import, "capture.props", g.capture, STREAM_KEYS, true);
    relaxed_keys(import, "playback.props", g.playback, STREAM_KEYS, true);
    const struct relaxed *owner = owner_of(&g, g.capture, "audio.rate");
    double hz = relaxed_number(import, "audio.rate", owner, "audio.rate", DEFAULT_RATE);
    if (hz >= 1000 && hz <= 1 << 22)
        c->rate = (int)hz;
    else
        IMPORT_REFUSE(import, relaxed_get(owner, "audio.rate")->line, "audio.rate",
                      "%g is not possible; give 1000 to %d", hz, 1 << 22);
    c->defined_line = args->line;
    c->client =
        relaxed_text(import, "args", args, "node.name", relaxed_text(import, "args", args, "node.description", NULL));
    read_graph(&g);
    hc_bank_data_free(&g.bank.data);
    if (c->diagnostics.n_errors == 0) graph_read_device(&g);
}

/* Reads a configuration. A text without a rate has 48000 Hz, the default of PipeWire's graph. */
static void read_pipewire(struct import *import)
{
    const struct relaxed *all = relaxed_read(import);
    bool is_read = false;
    import->c->n_in = import->c->n_out = 1;
    import->c->rate = DEFAULT_RATE;
    relaxed_keys(import, NULL, all, "context.modules | " OTHER_SECTIONS, false);
    const struct relaxed *modules = relaxed_of(import, NULL, all, "context.modules", RELAXED_LIST);
    for (const struct relaxed *module = relaxed_items(modules); module; module = module->next) {
        if (!relaxed_is(import, NULL, module, RELAXED_MAP, "context.modules")) continue;
        relaxed_keys(import, "context.modules", module, "name args | flags condition", false);
        const char *name = relaxed_text(import, "context.modules", module, "name", "");
        if (strcmp(name, MODULE) != 0) {
            if (!import_key_is_known(OTHER_MODULES, name))
                IMPORT_WARN(import, module->line, "context.modules", "\"%.60s\" is not taken over; only %s is", name,
                            MODULE);
            continue;
        }
        const struct relaxed *args = relaxed_of(import, "context.modules", module, "args", RELAXED_MAP);
        if (!args) continue;
        if (is_read)
            IMPORT_REFUSE(import, module->line, "context.modules",
                          "has a second filter-chain; put each into a separate file");
        else
            read_module(import, args);
        is_read = true;
    }
    if (all && !is_read && import->c->diagnostics.n_errors == 0)
        IMPORT_REFUSE(import, 0, NULL, "has no module %s with args; name a file of filter-chain.conf.d", MODULE);
}

const struct import_format format_pipewire = {
    .name = "PipeWire filter-chain", .extensions = ".conf", .is_format = is_pipewire, .read = read_pipewire};
