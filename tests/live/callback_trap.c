/* callback_trap - preloaded into the unchanged program, it watches the process callback of JACK or PipeWire.
 *
 * trap.c catches an allocation or a lock, the kernel a system call (system call user dispatch, Linux 5.11). The first
 * one caught is reported on standard error and ends the program with status 99.
 *
 *   HC_TRAP_PLANT=malloc|lock|call     does one in the 100th callback: the trap must catch it
 *   HC_TRAP_ALLOW=sem_post             allows the wake-up of a device thread
 */
#include "trap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HC_WITH_JACK
#include <jack/jack.h>
#endif
#ifdef HC_WITH_PIPEWIRE
#include <pipewire/filter.h>
#include <pipewire/stream.h>
#endif

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

/* trap.c skips a test where the kernel cannot do what it needs; here is none. */
_Noreturn void check_skip(const char *why)
{
    abort();
}

static const char *planted, *allowed;
static _Thread_local volatile char selector; /* 0: system calls are let by, 1: they are not */
static _Thread_local bool is_watched;
static _Thread_local long calls;

static void leave(const char *what)
{
    char line[128];
    selector = 0;
    int n = snprintf(line, sizeof line, "trap: the callback reached %s\n", what);
    (void)!write(STDERR_FILENO, line, (size_t)n);
    _exit(99);
}

static void on_system_call(int number, siginfo_t *info, void *context)
{
    char what[64];
    selector = 0;
    snprintf(what, sizeof what, "system call %d", info->si_syscall);
    leave(what);
}

static void watch_this_thread(void)
{
    struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    bool good = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
    static const char yes[] = "trap: watching system calls too\n", no[] = "trap: this kernel lets system calls by\n";
    (void)!write(STDERR_FILENO, good ? yes : no, good ? sizeof yes - 1 : sizeof no - 1);
    is_watched = true;
}

static void plant(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *volatile p = NULL;
    if (strcmp(planted, "malloc") == 0) p = malloc(10);
    if (strcmp(planted, "lock") == 0) pthread_mutex_lock(&lock), pthread_mutex_unlock(&lock);
    if (strcmp(planted, "call") == 0) syscall(SYS_getppid);
    free(p);
}

/* Before a callback, and after it. */
static void begin(void)
{
    if (!is_watched) watch_this_thread();
    trap_let_by(allowed);
    trap_arm();
    if (!allowed) selector = 1; /* a wake-up is a system call as well */
}

static void end(void)
{
    if (planted && ++calls == 100) plant();
    selector = 0;
    const char *caught = trap_disarm();
    if (caught) leave(caught);
}

static void *real(const char *name)
{
    planted = getenv("HC_TRAP_PLANT");
    allowed = getenv("HC_TRAP_ALLOW");
    return dlsym(RTLD_NEXT, name);
}

enum { MAX_CLIENTS = 64 }; /* of the program; a client of a server that came back is another one */
static int n_watched;

#ifdef HC_WITH_JACK
static struct watched_client {
    JackProcessCallback callback;
    void *data;
} clients[MAX_CLIENTS];

static int on_jack(jack_nframes_t n, void *data)
{
    struct watched_client *client = data;
    begin();
    int result = client->callback(n, client->data);
    end();
    return result;
}

int jack_set_process_callback(jack_client_t *client, JackProcessCallback process, void *data)
{
    int (*set)(jack_client_t *, JackProcessCallback, void *);
    *(void **)&set = real(__func__);
    if (n_watched == MAX_CLIENTS) abort();
    clients[n_watched] = (struct watched_client){process, data};
    return set(client, on_jack, &clients[n_watched++]);
}
#endif

#ifdef HC_WITH_PIPEWIRE
static struct watched_node {
    struct pw_filter_events events, without_process, events_of_program;
    void *data;
    struct spa_hook hook; /* for the process callback; the program's own hook gets the other events */
} nodes[MAX_CLIENTS];

static void on_pipewire(void *data, struct spa_io_position *position)
{
    struct watched_node *node = data;
    begin();
    node->events_of_program.process(node->data, position);
    end();
}

void pw_filter_add_listener(struct pw_filter *filter, struct spa_hook *hook, const struct pw_filter_events *events,
                            void *data)
{
    void (*add)(struct pw_filter *, struct spa_hook *, const struct pw_filter_events *, void *);
    *(void **)&add = real(__func__);
    if (n_watched == MAX_CLIENTS) abort();
    struct watched_node *node = &nodes[n_watched++];
    *node = (struct watched_node){
        .events = {PW_VERSION_FILTER_EVENTS, .process = on_pipewire}, .events_of_program = *events, .data = data};
    add(filter, &node->hook, &node->events, node);
    node->without_process = *events;
    node->without_process.process = NULL;
    add(filter, hook, &node->without_process, data);
}

static struct watched_stream {
    struct pw_stream_events events, without_process, events_of_program;
    void *data;
    struct spa_hook hook;
} streams[MAX_CLIENTS];
static void *real_trigger;

static void on_stream(void *data)
{
    struct watched_stream *stream = data;
    begin();
    stream->events_of_program.process(stream->data);
    end();
}

/* The library wakes the node that follows the stream. */
int pw_stream_trigger_process(struct pw_stream *stream)
{
    int (*trigger)(struct pw_stream *);
    *(void **)&trigger = real_trigger;
    end();
    int result = trigger(stream);
    begin();
    return result;
}

void pw_stream_add_listener(struct pw_stream *stream, struct spa_hook *hook, const struct pw_stream_events *events,
                            void *data)
{
    void (*add)(struct pw_stream *, struct spa_hook *, const struct pw_stream_events *, void *);
    *(void **)&add = real(__func__);
    real_trigger = real("pw_stream_trigger_process");
    if (n_watched == MAX_CLIENTS) abort();
    struct watched_stream *one = &streams[n_watched++];
    *one = (struct watched_stream){
        .events = {PW_VERSION_STREAM_EVENTS, .process = on_stream}, .events_of_program = *events, .data = data};
    add(stream, &one->hook, &one->events, one);
    one->without_process = *events;
    one->without_process.process = NULL;
    add(stream, hook, &one->without_process, data);
}
#endif
