#include "fake_pipewire.h"
#include "trap.h"

#ifdef HC_WITH_PIPEWIRE

#include <pipewire/filter.h>
#include <pipewire/pipewire.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pipewire/extensions/metadata.h> /* needs pipewire.h before it */

enum { MAX_PORTS = 16, SETTINGS_ID = 2, NODE_ID = 3, FIRST_PORT_ID = 10 };

struct port {
    enum pw_direction direction;
    char name[64];
    void *data; /* the client's */
    void *buffer;
};

struct pw_filter {
    const struct pw_filter_events *events;
    void *data;
    struct port ports[MAX_PORTS];
    int n_ports;
    bool is_connected;
};

/* The lock keeps the client from ending inside a cycle. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pw_filter filter;
static int rate, quantum;
static bool freewheels;
static struct spa_io_position position;
static enum pw_filter_state state = PW_FILTER_STATE_STREAMING;
static const struct pw_core_events *core_events;
static const struct pw_registry_events *registry_events;
static void *core_data, *registry_data;
static int n_syncs;

/* ---- the daemon -------------------------------------------------------------------------------- */

void fake_pipewire_start(int new_rate, int new_quantum)
{
    pthread_mutex_lock(&lock);
    rate = new_rate;
    quantum = new_quantum;
    freewheels = false;
    position = (struct spa_io_position){0};
    pthread_mutex_unlock(&lock);
}

bool fake_pipewire_has_node(void)
{
    pthread_mutex_lock(&lock);
    bool has = filter.is_connected;
    pthread_mutex_unlock(&lock);
    return has;
}

const char *fake_pipewire_cycle(const float *const *in, float *const *out, int n)
{
    const char *caught = NULL;
    int n_in = 0, n_out = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < filter.n_ports; i++) {
        bool is_input = filter.ports[i].direction == PW_DIRECTION_INPUT;
        filter.ports[i].buffer = is_input ? (void *)in[n_in++] : out[n_out++];
    }
    if (filter.is_connected) {
        struct spa_io_clock *clock = &position.clock;
        clock->position += clock->duration;
        clock->nsec += clock->duration * 1000000000 / (clock->rate.denom ? clock->rate.denom : 1);
        clock->duration = (uint64_t)n;
        clock->rate = SPA_FRACTION(1, (uint32_t)rate);
        clock->flags = freewheels ? SPA_IO_CLOCK_FLAG_FREEWHEEL : 0;
        if (!SANITIZED) trap_arm();
        filter.events->process(filter.data, &position);
        if (!SANITIZED) caught = trap_disarm();
    }
    pthread_mutex_unlock(&lock);
    return caught;
}

void fake_pipewire_pause(int n, bool is_reported)
{
    state = PW_FILTER_STATE_PAUSED;
    if (is_reported) filter.events->state_changed(filter.data, PW_FILTER_STATE_STREAMING, state, NULL);
    state = PW_FILTER_STATE_STREAMING;
    if (is_reported) filter.events->state_changed(filter.data, PW_FILTER_STATE_PAUSED, state, NULL);
    position.clock.nsec += (uint64_t)n * 1000000000 / (uint64_t)rate;
    position.clock.position += is_reported ? 4321 : (uint64_t)n; /* another node may drive the graph */
}

void fake_pipewire_set_rate(int new_rate)
{
    rate = new_rate;
}

void fake_pipewire_set_freewheel(bool on)
{
    freewheels = on;
}

/* ---- core, registry and settings --------------------------------------------------------------- */

static int listen_to_settings(void *object, struct spa_hook *hook, const struct pw_metadata_events *events, void *data)
{
    char value[16];
    snprintf(value, sizeof value, "%d", rate);
    events->property(data, 0, "clock.rate", "", value);
    snprintf(value, sizeof value, "%d", quantum);
    events->property(data, 0, "clock.quantum", "", value);
    return 0;
}
static const struct pw_metadata_methods settings_methods = {.add_listener = listen_to_settings};
static struct spa_interface settings = {.type = PW_TYPE_INTERFACE_Metadata, .cb.funcs = &settings_methods};

static int listen_to_registry(void *object, struct spa_hook *hook, const struct pw_registry_events *events, void *data)
{
    const struct spa_dict_item items[] = {SPA_DICT_ITEM_INIT(PW_KEY_METADATA_NAME, "settings")};
    registry_events = events;
    registry_data = data;
    events->global(data, SETTINGS_ID, 0, PW_TYPE_INTERFACE_Metadata, 0, &SPA_DICT_INIT_ARRAY(items));
    return 0;
}
static void *bind(void *object, uint32_t id, const char *type, uint32_t version, size_t size)
{
    return id == SETTINGS_ID ? &settings : NULL;
}
static const struct pw_registry_methods registry_methods = {.add_listener = listen_to_registry, .bind = bind};
static struct spa_interface registry = {.type = PW_TYPE_INTERFACE_Registry, .cb.funcs = &registry_methods};

static int listen_to_core(void *object, struct spa_hook *hook, const struct pw_core_events *events, void *data)
{
    core_events = events;
    core_data = data;
    return 0;
}

static int take_sync(void *object, uint32_t id, int number)
{
    return ++n_syncs;
}

static struct pw_registry *get_registry(void *object, uint32_t version, size_t size)
{
    return (struct pw_registry *)&registry;
}
static const struct pw_core_methods core_methods = {
    .add_listener = listen_to_core, .sync = take_sync, .get_registry = get_registry};
static struct spa_interface core = {.type = PW_TYPE_INTERFACE_Core, .cb.funcs = &core_methods};

/* ---- what the client calls --------------------------------------------------------------------- */

/* Properties keep the name of a port only. */
struct properties {
    struct pw_properties empty;
    char port_name[64];
};

struct pw_properties *pw_properties_new(const char *key, ...)
{
    struct properties *p = calloc(1, sizeof *p);
    va_list rest;
    va_start(rest, key);
    for (; key; key = va_arg(rest, const char *)) {
        const char *value = va_arg(rest, const char *);
        if (strcmp(key, PW_KEY_PORT_NAME) == 0) snprintf(p->port_name, sizeof p->port_name, "%s", value);
    }
    va_end(rest);
    return &p->empty;
}

int pw_properties_setf(struct pw_properties *properties, const char *key, const char *format, ...)
{
    return 0;
}

void pw_init(int *argc, char ***argv) {}
void pw_deinit(void) {}
void pw_log_set_level(enum spa_log_level level) {}

/* Events come inside the client's own calls; no loop has a thread. */
static char a_loop;
struct pw_thread_loop *pw_thread_loop_new(const char *name, const struct spa_dict *properties)
{
    return (struct pw_thread_loop *)&a_loop;
}
struct pw_loop *pw_thread_loop_get_loop(struct pw_thread_loop *loop)
{
    return (struct pw_loop *)loop;
}
int pw_thread_loop_start(struct pw_thread_loop *loop)
{
    return 0;
}
void pw_thread_loop_stop(struct pw_thread_loop *loop) {}
void pw_thread_loop_destroy(struct pw_thread_loop *loop) {}
void pw_thread_loop_lock(struct pw_thread_loop *loop) {}
void pw_thread_loop_unlock(struct pw_thread_loop *loop)
{
    if (n_syncs > 0) core_events->done(core_data, PW_ID_CORE, n_syncs);
}
void pw_thread_loop_signal(struct pw_thread_loop *loop, bool wait) {}
int pw_thread_loop_timed_wait(struct pw_thread_loop *loop, int seconds)
{
    core_events->done(core_data, PW_ID_CORE, n_syncs);
    return 0;
}

static char a_context;
struct pw_context *pw_context_new(struct pw_loop *loop, struct pw_properties *properties, size_t size)
{
    free(properties);
    return (struct pw_context *)&a_context;
}
void pw_context_destroy(struct pw_context *context) {}
struct pw_core *pw_context_connect(struct pw_context *context, struct pw_properties *properties, size_t size)
{
    free(properties);
    return (struct pw_core *)&core;
}
int pw_core_disconnect(struct pw_core *ended)
{
    return 0;
}
void pw_proxy_destroy(struct pw_proxy *proxy) {}
uint32_t pw_proxy_get_bound_id(struct pw_proxy *proxy)
{
    return 0;
}
struct pw_data_loop *pw_context_get_data_loop(struct pw_context *context)
{
    return NULL;
}
#if PW_CHECK_VERSION(1, 1, 0)
struct pw_loop *pw_context_acquire_loop(struct pw_context *context, const struct spa_dict *properties)
{
    return NULL;
}
void pw_context_release_loop(struct pw_context *context, struct pw_loop *loop) {}
#endif
int pw_data_loop_invoke(struct pw_data_loop *loop, spa_invoke_func_t function, uint32_t number, const void *data,
                        size_t size, bool block, void *user)
{
    return function(NULL, false, number, data, size, user);
}

struct pw_filter *pw_filter_new(struct pw_core *of, const char *name, struct pw_properties *properties)
{
    free(properties);
    pthread_mutex_lock(&lock);
    filter = (struct pw_filter){0};
    pthread_mutex_unlock(&lock);
    return &filter;
}

void pw_filter_add_listener(struct pw_filter *f, struct spa_hook *hook, const struct pw_filter_events *events,
                            void *data)
{
    spa_zero(*hook);
    f->events = events;
    f->data = data;
}

void *pw_filter_add_port(struct pw_filter *f, enum pw_direction direction, enum pw_filter_port_flags flags, size_t size,
                         struct pw_properties *properties, const struct spa_pod **parameters, uint32_t n)
{
    struct port *port = &f->ports[f->n_ports++];
    check(f->n_ports <= MAX_PORTS, "more ports than there is room for");
    port->direction = direction;
    snprintf(port->name, sizeof port->name, "%s", ((struct properties *)properties)->port_name);
    free(properties);
    return port->data = calloc(1, size);
}

static void report_port(const struct port *port, uint32_t id)
{
    char node[16];
    snprintf(node, sizeof node, "%d", NODE_ID);
    const struct spa_dict_item items[] = {
        SPA_DICT_ITEM_INIT(PW_KEY_NODE_ID, node), SPA_DICT_ITEM_INIT(PW_KEY_PORT_NAME, port->name),
        SPA_DICT_ITEM_INIT(PW_KEY_PORT_DIRECTION, port->direction == PW_DIRECTION_INPUT ? "in" : "out")};
    registry_events->global(registry_data, id, 0, PW_TYPE_INTERFACE_Port, 0, &SPA_DICT_INIT_ARRAY(items));
}

int pw_filter_connect(struct pw_filter *f, enum pw_filter_flags flags, const struct spa_pod **parameters, uint32_t n)
{
    for (int i = 0; i < f->n_ports; i++) report_port(&f->ports[i], FIRST_PORT_ID + (uint32_t)i);
    f->events->state_changed(f->data, PW_FILTER_STATE_PAUSED, PW_FILTER_STATE_STREAMING, NULL);
    f->events->state_changed(f->data, PW_FILTER_STATE_STREAMING, PW_FILTER_STATE_ERROR, "changes no state");
    pthread_mutex_lock(&lock);
    f->is_connected = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

enum pw_filter_state pw_filter_get_state(struct pw_filter *f, const char **error)
{
    return state;
}

uint32_t pw_filter_get_node_id(struct pw_filter *f)
{
    return NODE_ID;
}

void pw_filter_destroy(struct pw_filter *f)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < f->n_ports; i++) free(f->ports[i].data);
    *f = (struct pw_filter){0};
    pthread_mutex_unlock(&lock);
}

void *pw_filter_get_dsp_buffer(void *port_data, uint32_t n)
{
    for (int i = 0; i < filter.n_ports; i++)
        if (filter.ports[i].data == port_data) return filter.ports[i].buffer;
    return NULL;
}

struct pw_buffer *pw_filter_dequeue_buffer(void *port_data)
{
    return NULL;
}

int pw_filter_queue_buffer(void *port_data, struct pw_buffer *buffer)
{
    return 0;
}

int pw_filter_update_params(struct pw_filter *f, void *port_data, const struct spa_pod **parameters, uint32_t n)
{
    return 0;
}

#else /* never called: live_driver.missing is set */
void fake_pipewire_start(int rate, int quantum) {}
bool fake_pipewire_has_node(void)
{
    return false;
}
const char *fake_pipewire_cycle(const float *const *in, float *const *out, int n)
{
    return "no PipeWire";
}
void fake_pipewire_pause(int n, bool is_reported) {}
void fake_pipewire_set_rate(int rate) {}
void fake_pipewire_set_freewheel(bool on) {}
#endif
