#include "host/message.h"

#ifdef HC_WITH_PIPEWIRE
#include "host/stopwatch.h"
#include "pipewire_graph.h"

#include <errno.h>
#include <jansson.h>
#include <pipewire/extensions/metadata.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ----------------------------------------------------------------------------------- */

const struct pipewire_object *pipewire_graph_object(const struct pipewire_graph *g, uint32_t id)
{
    for (int i = 0; i < g->n_objects; i++)
        if (g->objects[i].id == id) return &g->objects[i];
    return NULL;
}

const struct pipewire_object *pipewire_graph_find_serial(const struct pipewire_graph *g, uint64_t serial)
{
    for (int i = 0; i < g->n_objects; i++)
        if (g->objects[i].serial == serial) return &g->objects[i];
    return NULL;
}

static bool is_equal(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void free_object(struct pipewire_object *object)
{
    free(object->name);
    free(object->alias);
    free(object->class);
}

static char *copy_text(const struct spa_dict *properties, const char *key)
{
    const char *text = spa_dict_lookup(properties, key);
    return text ? strdup(text) : NULL;
}

static uint32_t graph_read_number(const struct spa_dict *properties, const char *key, uint32_t otherwise)
{
    const char *text = spa_dict_lookup(properties, key);
    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static struct pipewire_object read_node(const struct spa_dict *p)
{
    return (struct pipewire_object){.kind = PIPEWIRE_NODE,
                                    .name = copy_text(p, PW_KEY_NODE_NAME),
                                    .alias = copy_text(p, PW_KEY_NODE_DESCRIPTION),
                                    .class = copy_text(p, PW_KEY_MEDIA_CLASS),
                                    .priority = (int)graph_read_number(p, PW_KEY_PRIORITY_SESSION, 0)};
}

static struct pipewire_object graph_read_port(const struct spa_dict *p)
{
    const char *direction = spa_dict_lookup(p, PW_KEY_PORT_DIRECTION);
    return (struct pipewire_object){.kind = PIPEWIRE_PORT,
                                    .name = copy_text(p, PW_KEY_PORT_NAME),
                                    .alias = copy_text(p, PW_KEY_PORT_ALIAS),
                                    .class = copy_text(p, PW_KEY_FORMAT_DSP),
                                    .node = graph_read_number(p, PW_KEY_NODE_ID, SPA_ID_INVALID),
                                    .number = graph_read_number(p, PW_KEY_PORT_ID, 0),
                                    .is_output = direction && strcmp(direction, "out") == 0};
}

static struct pipewire_object read_link(const struct spa_dict *p)
{
    return (struct pipewire_object){.kind = PIPEWIRE_LINK,
                                    .from = graph_read_number(p, PW_KEY_LINK_OUTPUT_PORT, SPA_ID_INVALID),
                                    .to = graph_read_number(p, PW_KEY_LINK_INPUT_PORT, SPA_ID_INVALID)};
}

static struct pipewire_object read_metadata(const struct spa_dict *p)
{
    return (struct pipewire_object){.kind = PIPEWIRE_METADATA, .name = copy_text(p, PW_KEY_METADATA_NAME)};
}

/* Without memory the object is left out. */
static void add_object(struct pipewire_graph *g, uint32_t id, const struct spa_dict *properties,
                       struct pipewire_object object)
{
    const char *serial = spa_dict_lookup(properties, PW_KEY_OBJECT_SERIAL);
    if (g->n_objects == g->cap) {
        int cap = g->cap ? 2 * g->cap : 64;
        struct pipewire_object *objects = realloc(g->objects, (size_t)cap * sizeof *objects);
        if (!objects) {
            free_object(&object);
            return;
        }
        g->objects = objects;
        g->cap = cap;
    }
    object.id = id;
    object.serial = serial ? strtoull(serial, NULL, 10) : id; /* a daemon before 0.3.41 has none */
    g->objects[g->n_objects++] = object;
    atomic_store(&g->has_changed, true);
    if (object.kind == PIPEWIRE_PORT) atomic_store(&g->has_new_port, true);
}

static void remove_object(struct pipewire_graph *g, struct pipewire_object *object)
{
    free_object(object);
    g->n_objects--;
    memmove(object, object + 1, (size_t)(g->objects + g->n_objects - object) * sizeof *object);
}

/* ---- metadata ---------------------------------------------------------------------------------- */

static int on_setting(void *data, uint32_t subject, const char *key, const char *type, const char *value)
{
    (void)type;
    struct pipewire_graph *g = data;
    int number = value && atoi(value) > 0 ? atoi(value) : 0;
    if (!key || subject != PW_ID_CORE) return 0;
    if (strcmp(key, "clock.rate") == 0) g->rate = number;
    if (strcmp(key, "clock.quantum") == 0) g->quantum = number;
    if (strcmp(key, "clock.force-rate") == 0) g->forced_rate = number;
    if (strcmp(key, "clock.force-quantum") == 0) g->forced_quantum = number;
    return 0;
}

/* The value is {"name": NODE}. Other subjects are nodes, which have settings of their own in this metadata. */
static int on_default(void *data, uint32_t subject, const char *key, const char *type, const char *value)
{
    (void)type;
    struct pipewire_graph *g = data;
    if (subject != PW_ID_CORE) return 0;
    bool is_sink = !key || strcmp(key, "default.audio.sink") == 0;
    bool is_source = !key || strcmp(key, "default.audio.source") == 0; /* no key: all are removed */
    json_t *json = value ? json_loads(value, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(json, "name"));
    if (is_sink) snprintf(g->sink, sizeof g->sink, "%s", name ? name : "");
    if (is_source) snprintf(g->source, sizeof g->source, "%s", name ? name : "");
    if (is_sink || is_source) atomic_store(&g->has_changed, true);
    json_decref(json);
    return 0;
}

static const struct pw_metadata_events setting_events = {PW_VERSION_METADATA_EVENTS, .property = on_setting},
                                       default_events = {PW_VERSION_METADATA_EVENTS, .property = on_default};

static void unbind(struct pipewire_metadata *metadata)
{
    if (!metadata->proxy) return;
    spa_hook_remove(&metadata->hook);
    pw_proxy_destroy(metadata->proxy);
    metadata->proxy = NULL;
}

/* Follows the newest metadata of a name: the default one belongs to the session manager and goes with it, and the next
 * session manager may come before that. */
static void bind_newest(struct pipewire_graph *g, struct pipewire_metadata *metadata)
{
    const struct pipewire_object *newest = NULL;
    for (const struct pipewire_object *object = g->objects; object < g->objects + g->n_objects; object++)
        if (object->kind == PIPEWIRE_METADATA && is_equal(object->name, metadata->name)) newest = object;
    if (newest && metadata->proxy && newest->id == metadata->id) return;
    unbind(metadata);
    if (!newest) return;
    metadata->id = newest->id;
    metadata->proxy = pw_registry_bind(g->registry, newest->id, PW_TYPE_INTERFACE_Metadata, PW_VERSION_METADATA, 0);
    if (metadata->proxy)
        pw_metadata_add_listener((struct pw_metadata *)metadata->proxy, &metadata->hook, metadata->events, g);
}

/* ---- the daemon's list ------------------------------------------------------------------------- */

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                      const struct spa_dict *properties)
{
    (void)permissions, (void)version;
    struct pipewire_graph *g = data;
    if (!properties) return;
    if (strcmp(type, PW_TYPE_INTERFACE_Node) == 0) add_object(g, id, properties, read_node(properties));
    if (strcmp(type, PW_TYPE_INTERFACE_Port) == 0) add_object(g, id, properties, graph_read_port(properties));
    if (strcmp(type, PW_TYPE_INTERFACE_Link) == 0) add_object(g, id, properties, read_link(properties));
    if (strcmp(type, PW_TYPE_INTERFACE_Metadata) != 0) return;
    add_object(g, id, properties, read_metadata(properties));
    bind_newest(g, &g->settings);
    bind_newest(g, &g->defaults);
}

static void on_global_remove(void *data, uint32_t id)
{
    struct pipewire_graph *g = data;
    int n = g->n_objects;
    for (int i = n - 1; i >= 0; i--) {
        struct pipewire_object *object = &g->objects[i];
        bool is_refused = object->kind == PIPEWIRE_REFUSED_LINK;
        if (is_refused ? object->from == id || object->to == id : object->id == id) remove_object(g, object);
    }
    if (g->n_objects == n) return;
    bind_newest(g, &g->settings);
    bind_newest(g, &g->defaults);
    atomic_store(&g->has_changed, true);
}

static void on_done(void *data, uint32_t id, int number)
{
    struct pipewire_graph *g = data;
    if (id != PW_ID_CORE) return;
    if (number == g->asked) g->is_answered = true;
    pw_thread_loop_signal(g->loop, false);
}

/* Other errors leave the connection as it is. */
static void on_error(void *data, uint32_t id, int number, int error, const char *message)
{
    (void)number, (void)message;
    struct pipewire_graph *g = data;
    if (id != PW_ID_CORE || error != -EPIPE) return;
    atomic_store(&g->is_down, true);
    pw_thread_loop_signal(g->loop, false);
}

/* ---- links ------------------------------------------------------------------------------------- */

struct own_link {       /* data of the proxy of a link that was asked for */
    struct spa_list at; /* in pipewire_graph.links */
    struct spa_hook hook;
    struct pipewire_graph *graph;
    struct pw_proxy *proxy;
    uint32_t from, to;
    bool is_refused;
};

static void forget_link(void *data)
{
    struct own_link *link = data;
    spa_list_remove(&link->at);
    spa_hook_remove(&link->hook);
    pw_proxy_destroy(link->proxy);
}

static struct pipewire_object *find_link(struct pipewire_graph *g, uint32_t from, uint32_t to)
{
    for (struct pipewire_object *link = g->objects; link < g->objects + g->n_objects; link++)
        if ((link->kind == PIPEWIRE_LINK || link->kind == PIPEWIRE_REFUSED_LINK) && link->from == from &&
            link->to == to)
            return link;
    return NULL;
}

/* The daemon makes no link, or makes one, finds that its ports have no common format, and removes it. */
static void on_link_error(void *data, int number, int error, const char *message)
{
    (void)number;
    struct own_link *link = data;
    struct pipewire_graph *g = link->graph;
    const struct pipewire_object *from = pipewire_graph_object(g, link->from), *to = pipewire_graph_object(g, link->to);
    char output[512], input[512];
    if (error == -EEXIST || !from || !to || link->is_refused) return; /* another program made it, or a port has gone */
    pipewire_graph_port_name(g, from, output, sizeof output);
    pipewire_graph_port_name(g, to, input, sizeof input);
    message_note("the daemon refuses to link %s to %s: %s; choose another port", output, input, message);
    link->is_refused = true;
    add_object(g, SPA_ID_INVALID, &SPA_DICT_INIT(NULL, 0),
               (struct pipewire_object){.kind = PIPEWIRE_REFUSED_LINK, .from = link->from, .to = link->to});
}

void pipewire_graph_link(struct pipewire_graph *g, uint32_t from, uint32_t to)
{
    static const struct pw_proxy_events events = {PW_VERSION_PROXY_EVENTS, .removed = forget_link,
                                                  .error = on_link_error};
    char output[16], input[16];
    if (find_link(g, from, to)) return;
    snprintf(output, sizeof output, "%u", from);
    snprintf(input, sizeof input, "%u", to);
    /* It lingers: the link lasts as long as both ports. */
    const struct spa_dict_item items[] = {SPA_DICT_ITEM_INIT(PW_KEY_LINK_OUTPUT_PORT, output),
                                          SPA_DICT_ITEM_INIT(PW_KEY_LINK_INPUT_PORT, input),
                                          SPA_DICT_ITEM_INIT(PW_KEY_OBJECT_LINGER, "true")};
    struct pw_proxy *proxy = pw_core_create_object(g->core, "link-factory", PW_TYPE_INTERFACE_Link, PW_VERSION_LINK,
                                                   &SPA_DICT_INIT_ARRAY(items), sizeof(struct own_link));
    if (!proxy) return;
    struct own_link *link = pw_proxy_get_user_data(proxy);
    *link = (struct own_link){.graph = g, .proxy = proxy, .from = from, .to = to};
    spa_list_append(&g->links, &link->at);
    pw_proxy_add_listener(proxy, &link->hook, &events, link);
}

bool pipewire_graph_unlink(struct pipewire_graph *g, uint32_t from, uint32_t to)
{
    struct pipewire_object *link = find_link(g, from, to);
    if (!link) return false;
    if (link->kind == PIPEWIRE_REFUSED_LINK)
        remove_object(g, link);
    else
        pw_registry_destroy(g->registry, link->id);
    return true;
}

/* ---- open and close ---------------------------------------------------------------------------- */

void pipewire_graph_lock(struct pipewire_graph *g)
{
    pw_thread_loop_lock(g->loop);
}

void pipewire_graph_unlock(struct pipewire_graph *g)
{
    pw_thread_loop_unlock(g->loop);
}

void pipewire_graph_ask(struct pipewire_graph *g)
{
    g->is_answered = false;
    g->asked = pw_core_sync(g->core, PW_ID_CORE, 0);
}

bool pipewire_graph_sync(struct pipewire_graph *g)
{
    double end = stopwatch_now() + PIPEWIRE_ANSWER_S;
    pipewire_graph_ask(g);
    while (!g->is_answered && !atomic_load(&g->is_down)) {
        pw_thread_loop_timed_wait(g->loop, 1);
        if (!g->is_answered && stopwatch_now() > end) return false;
    }
    return !atomic_load(&g->is_down);
}

/* Each node of a context may have another loop, but the streams of a sink share their buffers. */
void pipewire_graph_set_data_loop(const struct pipewire_graph *g, struct pw_properties *node)
{
#if PW_CHECK_VERSION(1, 1, 0)
    if (g->data_loop) pw_properties_set(node, PW_KEY_NODE_LOOP_NAME, g->data_loop->name);
#else
    (void)g, (void)node;
#endif
}

void pipewire_graph_invoke(const struct pipewire_graph *g, spa_invoke_func_t function, const void *data, size_t size,
                           bool wait, void *user)
{
#if PW_CHECK_VERSION(1, 1, 0)
    if (g->data_loop) pw_loop_invoke(g->data_loop, function, 0, data, size, wait, user);
#else
    pw_data_loop_invoke(pw_context_get_data_loop(g->context), function, 0, data, size, wait, user);
#endif
}

static bool connect_core(struct pipewire_graph *g, const char *remote, char *why, size_t cap)
{
    static const struct pw_core_events core_events = {PW_VERSION_CORE_EVENTS, .done = on_done, .error = on_error};
    static const struct pw_registry_events registry_events = {PW_VERSION_REGISTRY_EVENTS, .global = on_global,
                                                              .global_remove = on_global_remove};
    /* The program has a session of its own for quick restarts: libpipewire must not connect again by itself. */
    g->core = pw_context_connect(g->context, remote ? pw_properties_new(PW_KEY_REMOTE_NAME, remote, NULL) : NULL, 0);
    if (!g->core)
        return message_write(why, cap,
                             "pipewire: no daemon%s%s answers: %s; start it, as with: systemctl --user start pipewire",
                             remote ? " " : "", remote ? remote : "", strerror(errno));
    pw_core_add_listener(g->core, &g->core_hook, &core_events, g);
    g->registry = pw_core_get_registry(g->core, PW_VERSION_REGISTRY, 0);
    if (g->registry) pw_registry_add_listener(g->registry, &g->registry_hook, &registry_events, g);
    /* The second answer comes after the properties of the metadata that the first part of the list had. */
    return (g->registry && pipewire_graph_sync(g) && pipewire_graph_sync(g)) ||
           message_write(why, cap, "pipewire: the daemon does not answer; start it again");
}

struct pipewire_graph *pipewire_graph_open(const char *remote, char *why, size_t cap)
{
    struct pipewire_graph *g = calloc(1, sizeof *g);
    if (!g) {
        message_write(why, cap, "pipewire: no memory; free some memory");
        return NULL;
    }
    g->settings = (struct pipewire_metadata){.name = "settings", .events = &setting_events};
    g->defaults = (struct pipewire_metadata){.name = "default", .events = &default_events};
    spa_list_init(&g->links);
    if (remote) unsetenv("PIPEWIRE_REMOTE"); /* libpipewire prefers it to a name that it is given */
    pw_init(NULL, NULL);
    if (!getenv("PIPEWIRE_DEBUG")) pw_log_set_level(SPA_LOG_LEVEL_NONE); /* its messages would hide the program's */
    g->loop = pw_thread_loop_new("haloconv", NULL);
    /* The client's configuration with real-time priority; newer daemons have only one and use that. */
    if (g->loop)
        g->context = pw_context_new(pw_thread_loop_get_loop(g->loop),
                                    pw_properties_new(PW_KEY_CONFIG_NAME, "client-rt.conf", NULL), 0);
    if (!g->context || pw_thread_loop_start(g->loop) != 0) {
        message_write(why, cap,
                      "pipewire: the client cannot be started; install pipewire's configuration (client-rt.conf)");
        pipewire_graph_close(g);
        return NULL;
    }
    pipewire_graph_lock(g);
#if PW_CHECK_VERSION(1, 1, 0)
    g->data_loop = pw_context_acquire_loop(g->context, NULL);
#endif
    bool good = connect_core(g, remote, why, cap);
    pipewire_graph_unlock(g);
    if (good) return g;
    pipewire_graph_close(g);
    return NULL;
}

void pipewire_graph_close(struct pipewire_graph *g)
{
    if (!g) return;
    if (g->loop) pw_thread_loop_stop(g->loop);
    struct own_link *link;
    spa_list_consume(link, &g->links, at) forget_link(link);
    unbind(&g->settings);
    unbind(&g->defaults);
    if (g->registry) pw_proxy_destroy((struct pw_proxy *)g->registry);
    if (g->core) pw_core_disconnect(g->core);
#if PW_CHECK_VERSION(1, 1, 0)
    if (g->data_loop) pw_context_release_loop(g->context, g->data_loop);
#endif
    if (g->context) pw_context_destroy(g->context);
    if (g->loop) pw_thread_loop_destroy(g->loop);
    for (int i = 0; i < g->n_objects; i++) free_object(&g->objects[i]);
    free(g->objects);
    free(g);
    pw_deinit();
}

int pipewire_graph_rate(const struct pipewire_graph *g, int wanted)
{
    if (g->forced_rate) return g->forced_rate;
    return wanted ? wanted : g->rate ? g->rate : 48000;
}

int pipewire_graph_quantum(const struct pipewire_graph *g, int wanted)
{
    if (g->forced_quantum) return g->forced_quantum;
    return wanted ? wanted : g->quantum ? g->quantum : 1024;
}

/* ---- search ------------------------------------------------------------------------------------ */

/* Returns the default sink, else source; NULL: none. */
static const struct pipewire_object *pipewire_graph_default(const struct pipewire_graph *g, bool is_sink)
{
    const char *name = is_sink ? g->sink : g->source;
    const struct pipewire_object *best = NULL;
    for (const struct pipewire_object *node = g->objects; node < g->objects + g->n_objects; node++) {
        if (node->kind != PIPEWIRE_NODE) continue;
        if (*name && is_equal(node->name, name)) return node;
        if (is_equal(node->class, is_sink ? "Audio/Sink" : "Audio/Source") &&
            (!best || node->priority > best->priority))
            best = node;
    }
    return best; /* no session manager has chosen a default */
}

const struct pipewire_object *pipewire_graph_own_port(const struct pipewire_graph *g, uint32_t node, bool is_output,
                                                      const char *name)
{
    for (const struct pipewire_object *port = g->objects; port < g->objects + g->n_objects; port++)
        if (port->kind == PIPEWIRE_PORT && port->node == node && port->is_output == is_output &&
            is_equal(port->name, name))
            return port;
    return NULL;
}

void pipewire_graph_port_name(const struct pipewire_graph *g, const struct pipewire_object *port, char *text,
                              size_t cap)
{
    const struct pipewire_object *node = pipewire_graph_object(g, port->node);
    snprintf(text, cap, "%s:%s", node && node->name ? node->name : "", port->name ? port->name : "");
}

/* Does a text name a port: "NODE:PORT", with the node's name or description, or the port's alias? */
static bool is_named(const struct pipewire_graph *g, const struct pipewire_object *port, const char *text)
{
    const struct pipewire_object *node = pipewire_graph_object(g, port->node);
    const char *names[] = {node ? node->name : NULL, node ? node->alias : NULL};
    for (int i = 0; i < 2; i++) {
        size_t n = names[i] ? strlen(names[i]) : 0;
        if (n > 0 && strncmp(text, names[i], n) == 0 && text[n] == ':' && is_equal(port->name, text + n + 1))
            return true;
    }
    return is_equal(port->alias, text);
}

/* Do n bytes of text name a node, by its name or description? */
static bool is_device(const struct pipewire_object *node, const char *text, size_t n)
{
    const char *names[] = {node->name, node->alias};
    for (int i = 0; i < 2 && node->kind == PIPEWIRE_NODE; i++)
        if (names[i] && strlen(names[i]) == n && strncmp(names[i], text, n) == 0) return true;
    return false;
}

/* Has a node ports of its own in a direction? The outputs of a sink only monitor what it plays. */
static bool fits(const struct pipewire_object *node, bool is_output)
{
    const char *others[] = {is_output ? "/Sink" : "/Source", is_output ? "/Input" : "/Output"};
    return !node->class || !(strstr(node->class, others[0]) || strstr(node->class, others[1]));
}

static const struct pipewire_object *find_device(const struct pipewire_graph *g, const char *text, size_t n,
                                                 bool is_output)
{
    const struct pipewire_object *best = NULL;
    if (n == 6 && strncmp(text, "system", 6) == 0) return pipewire_graph_default(g, !is_output);
    for (const struct pipewire_object *node = g->objects; node < g->objects + g->n_objects; node++)
        if (is_device(node, text, n) && (!best || (fits(node, is_output) && !fits(best, is_output)))) best = node;
    return best;
}

const struct pipewire_object *pipewire_graph_find_device(const struct pipewire_graph *g, const char *text,
                                                         bool is_output)
{
    return find_device(g, text, strlen(text), is_output);
}

/* Returns the port of a device that has `index` ports of lower numbers in its direction. */
static const struct pipewire_object *find_numbered(const struct pipewire_graph *g, const struct pipewire_object *node,
                                                   bool is_output, int index)
{
    for (const struct pipewire_object *port = g->objects; port < g->objects + g->n_objects; port++) {
        int lower = 0;
        if (port->kind != PIPEWIRE_PORT || port->node != node->id || port->is_output != is_output) continue;
        for (const struct pipewire_object *other = g->objects; other < g->objects + g->n_objects; other++)
            lower += other->kind == PIPEWIRE_PORT && other->node == node->id && other->is_output == is_output &&
                     other->number < port->number;
        if (lower == index) return port;
    }
    return NULL;
}

const struct pipewire_object *pipewire_graph_find_port(const struct pipewire_graph *g, const char *text, bool is_output)
{
    const char *colon = strrchr(text, ':'), *numbered = is_output ? "capture_" : "playback_";
    for (const struct pipewire_object *port = g->objects; port < g->objects + g->n_objects; port++)
        if (port->kind == PIPEWIRE_PORT && port->is_output == is_output && is_named(g, port, text)) return port;
    if (!colon || strncmp(colon + 1, numbered, strlen(numbered)) != 0) return NULL;
    const struct pipewire_object *node = find_device(g, text, (size_t)(colon - text), is_output);
    return node ? find_numbered(g, node, is_output, atoi(colon + 1 + strlen(numbered)) - 1) : NULL;
}

/* PipeWire 1.4 calls MIDI "32 bit raw UMP", and converts it for a port of "8 bit raw midi". */
static bool is_midi(const char *format)
{
    return format && (strstr(format, "midi") || strstr(format, "UMP"));
}

const struct pipewire_object *pipewire_graph_find_midi(const struct pipewire_graph *g, const char *part)
{
    char name[512];
    for (const struct pipewire_object *port = g->objects; port < g->objects + g->n_objects; port++) {
        if (port->kind != PIPEWIRE_PORT || !port->is_output || !is_midi(port->class)) continue;
        pipewire_graph_port_name(g, port, name, sizeof name);
        if (strstr(name, part) || (port->alias && strstr(port->alias, part))) return port;
    }
    return NULL;
}

#endif
