#include "fake_jack.h"
#include "trap.h"

#ifdef HC_WITH_JACK

#include <errno.h>
#include <jack/jack.h>
#include <jack/midiport.h>
#include <jack/thread.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PORTS = 16, MAX_CONNECTIONS = 16, NAME_CAP = 140 };

struct _jack_port {
    char name[128];
    unsigned long flags;
    void *buffer;
    jack_latency_range_t latency[2];
};

struct _jack_client {
    char name[64];
    struct _jack_port ports[MAX_PORTS];
    int n_ports;
    bool is_active, has_thread;
    JackThreadInitCallback on_thread;
    JackProcessCallback on_process;
    JackBufferSizeCallback on_block;
    JackSampleRateCallback on_rate;
    JackFreewheelCallback on_freewheel;
    JackLatencyCallback on_latency;
    JackPortRegistrationCallback on_port;
    JackInfoShutdownCallback on_shutdown;
    void *thread_data, *process_data, *block_data, *rate_data, *freewheel_data, *latency_data, *port_data;
    void *shutdown_data;
};

/* The lock keeps the client from closing inside a cycle. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct _jack_client client;
static bool is_open;
static atomic_int server_rate, server_block;

/* The sound card, and the connections of the client's ports; under lock. */
static const char *const card_ports[] = {"system:capture_1", "system:capture_2", "system:playback_1",
                                         "system:playback_2"};
enum { N_CARD_PORTS = 4 };
static int n_card_ports; /* of card_ports, the first */
static bool is_dead;
static char connections[MAX_CONNECTIONS][2][NAME_CAP]; /* from, to */
static int n_connections;
static int n_checks; /* how often the client has listed the connections of its first port */
static bool is_dying;
static int absent_after_activation; /* of fake_jack_die_in_activation; 0: the next activation succeeds */
static int n_absent;                /* attempts to open a client until the server is back */

enum { N_NOTIFIERS = 2 };
static pthread_t notifiers[N_NOTIFIERS];
static sem_t has_begun, is_closing;

/* ---- the server -------------------------------------------------------------------------------- */

void fake_jack_start(int rate, int block)
{
    atomic_store(&server_rate, rate);
    atomic_store(&server_block, block);
}

void fake_jack_return(int ports)
{
    pthread_mutex_lock(&lock);
    is_dead = false;
    for (; n_card_ports < ports; n_card_ports++)
        if (is_open && client.is_active && client.on_port) client.on_port(0, 1, client.port_data);
    n_card_ports = ports;
    pthread_mutex_unlock(&lock);
}

/* Takes the lock. */
static void die(void)
{
    pthread_mutex_lock(&lock);
    is_dead = true;
    is_dying = false;
    n_card_ports = n_connections = 0;
    pthread_mutex_unlock(&lock);
    client.on_shutdown(JackFailure, "the test wants it", client.shutdown_data);
}

void fake_jack_die(bool while_listed)
{
    pthread_mutex_lock(&lock);
    is_dying = while_listed;
    pthread_mutex_unlock(&lock);
    if (!while_listed) die();
}

void fake_jack_die_in_activation(int absent)
{
    pthread_mutex_lock(&lock);
    absent_after_activation = absent;
    pthread_mutex_unlock(&lock);
}

static int connections_find(const char *from, const char *to)
{
    for (int i = 0; i < n_connections; i++)
        if (strcmp(connections[i][0], from) == 0 && strcmp(connections[i][1], to) == 0) return i;
    return -1;
}

void fake_jack_connect(const char *from, const char *to)
{
    pthread_mutex_lock(&lock);
    if (n_connections < MAX_CONNECTIONS) {
        snprintf(connections[n_connections][0], NAME_CAP, "%s", from);
        snprintf(connections[n_connections++][1], NAME_CAP, "%s", to);
    }
    pthread_mutex_unlock(&lock);
}

bool fake_jack_connects(const char *from, const char *to)
{
    pthread_mutex_lock(&lock);
    bool connects = connections_find(from, to) >= 0;
    pthread_mutex_unlock(&lock);
    return connects;
}

int fake_jack_checks(void)
{
    pthread_mutex_lock(&lock);
    int n = n_checks;
    pthread_mutex_unlock(&lock);
    return n;
}

bool fake_jack_has_client(void)
{
    pthread_mutex_lock(&lock);
    bool has = is_open && client.is_active;
    pthread_mutex_unlock(&lock);
    return has;
}

static void give_buffers(unsigned long side, void *const *buffers)
{
    int n = 0;
    for (int i = 0; i < client.n_ports; i++)
        if (client.ports[i].flags & side) client.ports[i].buffer = buffers[n++];
}

/* A thread that reports the server's notices, as two of each JACK2 client. */
static void *notify(void *unused)
{
    client.on_thread(client.thread_data);
    sem_post(&has_begun);
    while (sem_wait(&is_closing) != 0) continue;
    return NULL;
}

/* Calls the callback for new threads as JACK2 does: in the audio thread, then in two without real-time priority. */
static void threads_begin(void)
{
    pthread_attr_t ordinary;
    client.on_thread(client.thread_data);
    sem_init(&has_begun, 0, 0);
    sem_init(&is_closing, 0, 0);
    pthread_attr_init(&ordinary);
    pthread_attr_setinheritsched(&ordinary, PTHREAD_EXPLICIT_SCHED);
    for (int i = 0; i < N_NOTIFIERS; i++)
        if (pthread_create(&notifiers[i], &ordinary, notify, NULL) != 0) abort();
    for (int i = 0; i < N_NOTIFIERS; i++)
        while (sem_wait(&has_begun) != 0) continue;
    pthread_attr_destroy(&ordinary);
}

static void threads_end(void)
{
    for (int i = 0; i < N_NOTIFIERS; i++) sem_post(&is_closing);
    for (int i = 0; i < N_NOTIFIERS; i++) pthread_join(notifiers[i], NULL);
}

const char *fake_jack_cycle(const float *const *in, float *const *out, int n)
{
    const char *caught = NULL;
    pthread_mutex_lock(&lock);
    if (is_open && client.is_active) {
        if (!client.has_thread) threads_begin();
        client.has_thread = true;
        give_buffers(JackPortIsInput, (void *const *)in);
        give_buffers(JackPortIsOutput, (void *const *)out);
        if (!SANITIZED) trap_arm();
        client.on_process((jack_nframes_t)n, client.process_data);
        if (!SANITIZED) caught = trap_disarm();
    }
    pthread_mutex_unlock(&lock);
    return caught;
}

void fake_jack_set_block(int block)
{
    atomic_store(&server_block, block);
    client.on_block((jack_nframes_t)block, client.block_data);
}

void fake_jack_set_rate(int rate)
{
    atomic_store(&server_rate, rate);
    client.on_rate((jack_nframes_t)rate, client.rate_data);
}

void fake_jack_set_freewheel(bool on)
{
    client.on_freewheel(on, client.freewheel_data);
}

/* ---- what the client calls --------------------------------------------------------------------- */

jack_client_t *jack_client_open(const char *name, jack_options_t options, jack_status_t *status, ...)
{
    pthread_mutex_lock(&lock);
    if (n_absent > 0 && --n_absent == 0) {
        is_dead = false;
        n_card_ports = N_CARD_PORTS;
    }
    is_open = !is_dead;
    if (is_open) {
        client = (struct _jack_client){0};
        snprintf(client.name, sizeof client.name, "%s", name);
    }
    if (status) *status = is_open ? 0 : JackServerFailed;
    jack_client_t *opened = is_open ? &client : NULL;
    pthread_mutex_unlock(&lock);
    return opened;
}

int jack_client_close(jack_client_t *c)
{
    pthread_mutex_lock(&lock);
    if (c->has_thread) threads_end();
    c->has_thread = c->is_active = is_open = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

int jack_activate(jack_client_t *c)
{
    pthread_mutex_lock(&lock);
    bool dies = absent_after_activation > 0;
    c->is_active = !dies;
    n_absent = absent_after_activation;
    absent_after_activation = 0;
    pthread_mutex_unlock(&lock);
    if (dies) die();
    return dies ? -1 : 0;
}

char *jack_get_client_name(jack_client_t *c)
{
    return c->name;
}

const char *jack_get_version_string(void)
{
    return "1.9.21";
}

int jack_is_realtime(jack_client_t *c)
{
    return 1;
}

jack_nframes_t jack_get_sample_rate(jack_client_t *c)
{
    return (jack_nframes_t)atomic_load(&server_rate);
}

jack_nframes_t jack_get_buffer_size(jack_client_t *c)
{
    return (jack_nframes_t)atomic_load(&server_block);
}

jack_port_t *jack_port_register(jack_client_t *c, const char *name, const char *type, unsigned long flags,
                                unsigned long size)
{
    if (c->n_ports == MAX_PORTS) return NULL;
    struct _jack_port *port = &c->ports[c->n_ports++];
    strcpy(port->name, "test:");
    strncat(port->name, name, sizeof port->name - 6);
    port->flags = flags;
    return port;
}

void *jack_port_get_buffer(jack_port_t *port, jack_nframes_t n)
{
    return port->buffer;
}

int jack_midi_event_get(jack_midi_event_t *event, void *buffer, uint32_t i)
{
    return ENODATA;
}

int jack_port_get_aliases(const jack_port_t *port, char *const aliases[2])
{
    return 0;
}

int jack_port_name_size(void)
{
    return sizeof client.ports[0].name;
}

const char *jack_port_name(const jack_port_t *port)
{
    return port->name;
}

/* The client asks only whether the port exists. */
jack_port_t *jack_port_by_name(jack_client_t *c, const char *name)
{
    static struct _jack_port found;
    bool exists = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_card_ports; i++) exists = exists || strcmp(card_ports[i], name) == 0;
    pthread_mutex_unlock(&lock);
    return exists ? &found : NULL;
}

int jack_connect(jack_client_t *c, const char *from, const char *to)
{
    if (fake_jack_connects(from, to)) return EEXIST;
    fake_jack_connect(from, to);
    return 0;
}

/* Those of the sound card: of its 4 ports the first two are outputs. */
const char **jack_get_ports(jack_client_t *c, const char *name, const char *type, unsigned long flags)
{
    const char **list = calloc(N_CARD_PORTS + 1, sizeof *list);
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; list && i < n_card_ports; i++)
        if ((i < 2) == !!(flags & JackPortIsOutput)) list[n++] = card_ports[i];
    pthread_mutex_unlock(&lock);
    return list;
}

const char **jack_port_get_all_connections(const jack_client_t *c, const jack_port_t *port)
{
    const char **list = calloc(MAX_CONNECTIONS + 1, sizeof *list);
    bool is_first = port == c->ports, dies = false;
    int n = 0;
    pthread_mutex_lock(&lock);
    dies = is_first && is_dying;
    n_checks += is_first;
    for (int i = 0; list && !dies && i < n_connections; i++)
        for (int end = 0; end < 2; end++)
            if (strcmp(connections[i][end], port->name) == 0) list[n++] = connections[i][1 - end];
    pthread_mutex_unlock(&lock);
    if (dies) die();
    return list;
}

int jack_port_connected(const jack_port_t *port)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_connections; i++)
        for (int end = 0; end < 2; end++) n += strcmp(connections[i][end], port->name) == 0;
    pthread_mutex_unlock(&lock);
    return n;
}

void jack_free(void *p)
{
    free(p);
}

void jack_port_get_latency_range(jack_port_t *port, jack_latency_callback_mode_t mode, jack_latency_range_t *range)
{
    *range = port->latency[mode == JackPlaybackLatency];
}

void jack_port_set_latency_range(jack_port_t *port, jack_latency_callback_mode_t mode, jack_latency_range_t *range)
{
    port->latency[mode == JackPlaybackLatency] = *range;
}

int jack_recompute_total_latencies(jack_client_t *c)
{
    if (!c->on_latency) return 0;
    c->on_latency(JackCaptureLatency, c->latency_data);
    c->on_latency(JackPlaybackLatency, c->latency_data);
    return 0;
}

#define SETTER(function, type, callback, data)                                                                         \
    int function(jack_client_t *c, type handler, void *arg)                                                            \
    {                                                                                                                  \
        c->callback = handler;                                                                                         \
        c->data = arg;                                                                                                 \
        return 0;                                                                                                      \
    }
SETTER(jack_set_thread_init_callback, JackThreadInitCallback, on_thread, thread_data)
SETTER(jack_set_process_callback, JackProcessCallback, on_process, process_data)
SETTER(jack_set_buffer_size_callback, JackBufferSizeCallback, on_block, block_data)
SETTER(jack_set_sample_rate_callback, JackSampleRateCallback, on_rate, rate_data)
SETTER(jack_set_freewheel_callback, JackFreewheelCallback, on_freewheel, freewheel_data)
SETTER(jack_set_latency_callback, JackLatencyCallback, on_latency, latency_data)
SETTER(jack_set_port_registration_callback, JackPortRegistrationCallback, on_port, port_data)

int jack_set_xrun_callback(jack_client_t *c, JackXRunCallback handler, void *arg)
{
    return 0;
}

void jack_on_info_shutdown(jack_client_t *c, JackInfoShutdownCallback handler, void *arg)
{
    c->on_shutdown = handler;
    c->shutdown_data = arg;
}

void jack_set_error_function(void (*say)(const char *)) {}

void jack_set_info_function(void (*say)(const char *)) {}

#else /* never called: live_driver.missing is set */
void fake_jack_start(int rate, int block) {}
void fake_jack_return(int ports) {}
void fake_jack_die(bool while_listed) {}
void fake_jack_die_in_activation(int absent) {}
void fake_jack_connect(const char *from, const char *to) {}
bool fake_jack_connects(const char *from, const char *to)
{
    return false;
}
int fake_jack_checks(void)
{
    return 0;
}
bool fake_jack_has_client(void)
{
    return false;
}
const char *fake_jack_cycle(const float *const *in, float *const *out, int n)
{
    return "no JACK";
}
void fake_jack_set_block(int block) {}
void fake_jack_set_rate(int rate) {}
void fake_jack_set_freewheel(bool on) {}
#endif
