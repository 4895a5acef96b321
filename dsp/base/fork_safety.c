#include "fork_safety.h"

#include <stdatomic.h>
#include <stddef.h>

static pthread_mutex_t locks[] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
};
_Static_assert(sizeof locks / sizeof *locks == N_GLOBAL_LOCKS, "an initialiser for each lock");
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker_lock *workers; /* the locks of all pool threads; under list_lock */
static atomic_uint n_forks;

void global_lock(enum global_lock lock)
{
    pthread_mutex_lock(&locks[lock]);
}

void global_unlock(enum global_lock lock)
{
    pthread_mutex_unlock(&locks[lock]);
}

/* Makes a mutex that inherits priorities: a real-time worker may wait for an ordinary thread in fork(). */
static void inheriting_mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void worker_lock_open(struct worker_lock *w)
{
    inheriting_mutex_init(&w->mutex);
    pthread_mutex_lock(&list_lock);
    w->next = workers;
    w->link = &workers;
    if (w->next) w->next->link = &w->next;
    workers = w;
    pthread_mutex_unlock(&list_lock);
}

void worker_lock_close(struct worker_lock *w)
{
    pthread_mutex_lock(&list_lock);
    *w->link = w->next;
    if (w->next) w->next->link = w->link;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&w->mutex);
}

unsigned fork_count(void)
{
    return atomic_load_explicit(&n_forks, memory_order_relaxed);
}

/* ---- fork() ------------------------------------------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct worker_lock *w = workers; w; w = w->next) pthread_mutex_lock(&w->mutex);
    for (int i = 0; i < N_GLOBAL_LOCKS; i++) pthread_mutex_lock(&locks[i]);
}

static void global_unlock_all(void)
{
    for (int i = N_GLOBAL_LOCKS; i-- > 0;) pthread_mutex_unlock(&locks[i]);
    pthread_mutex_unlock(&list_lock);
}

static void in_parent(void)
{
    for (struct worker_lock *w = workers; w; w = w->next) pthread_mutex_unlock(&w->mutex);
    global_unlock_all();
}

/* A priority-inheriting mutex stores its owner's thread id. The child's thread has another id: make new mutexes. */
static void in_child(void)
{
    atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
    for (struct worker_lock *w = workers; w; w = w->next) inheriting_mutex_init(&w->mutex);
    global_unlock_all();
}

/* Runs at load. Handlers that a plugin registers are removed when dlclose() unloads the plugin. */
__attribute__((constructor)) static void handlers_set(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}
