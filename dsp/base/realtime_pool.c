#include "realtime_pool.h"

#include "await.h"
#include "denormals.h"
#include "fork_safety.h"
#include "priority.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_SPIN_NS = 50000000, SLEEP_NS = 100000 };

struct realtime_pool {
    bool (*job)(void *data, int thread);
    void *data;
    sem_t wake;
    atomic_bool end;
    struct priority priority; /* follows the thread that wakes the pool */
    atomic_int n_started;     /* threads that run and have a number */
    unsigned forks;           /* fork_count() when the pool was opened */
    int n_threads;
    struct worker {
        pthread_t thread;
        struct worker_lock lock;
    } workers[];
};

static bool do_job(struct realtime_pool *pool, int thread)
{
    struct worker_lock *lock = &pool->workers[thread - 1].lock;
    pthread_mutex_lock(&lock->mutex);
    bool found = pool->job(pool->data, thread);
    pthread_mutex_unlock(&lock->mutex);
    return found;
}

static void *realtime_pool_thread(void *arg)
{
    struct realtime_pool *pool = arg;
    int thread = atomic_fetch_add(&pool->n_started, 1) + 1;
    struct follower follower = {0};
    denormals_off();
    for (;;) {
        while (sem_wait(&pool->wake) != 0 && errno == EINTR) continue;
        if (atomic_load(&pool->end)) return NULL;
        priority_follow(&pool->priority, &follower);
        if (!do_job(pool, thread)) continue;
        sem_post(&pool->wake);
        do priority_rest();
        while (do_job(pool, thread));
    }
}

struct realtime_pool *realtime_pool_open(int n_threads, bool (*job)(void *data, int thread), void *data)
{
    struct realtime_pool *pool = calloc(1, sizeof *pool + (size_t)n_threads * sizeof *pool->workers);
    if (!pool) return NULL;
    pool->job = job;
    pool->data = data;
    pool->forks = fork_count();
    sem_init(&pool->wake, 0, 0);
    for (int i = 0; i < n_threads; i++) worker_lock_open(&pool->workers[i].lock);
    while (pool->n_threads < n_threads &&
           pthread_create(&pool->workers[pool->n_threads].thread, NULL, realtime_pool_thread, pool) == 0)
        pool->n_threads++;
    for (int i = pool->n_threads; i < n_threads; i++) worker_lock_close(&pool->workers[i].lock);
    return pool;
}

static bool realtime_pool_has_threads(const struct realtime_pool *pool)
{
    return pool->forks == fork_count();
}

void realtime_pool_close(struct realtime_pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->end, true);
    for (int i = 0; i < pool->n_threads; i++) sem_post(&pool->wake);
    for (int i = 0; i < pool->n_threads; i++) {
        if (realtime_pool_has_threads(pool)) pthread_join(pool->workers[i].thread, NULL);
        worker_lock_close(&pool->workers[i].lock);
    }
    sem_destroy(&pool->wake);
    free(pool);
}

void realtime_pool_wake(struct realtime_pool *pool)
{
    if (!realtime_pool_has_threads(pool)) {
        while (pool->job(pool->data, 1)) continue;
        return;
    }
    priority_lead(&pool->priority);
    sem_post(&pool->wake);
}

void realtime_pool_await(int64_t *since_ns)
{
    int64_t now = now_ns();
    if (*since_ns == 0) *since_ns = now;
    if (now - *since_ns < MAX_SPIN_NS)
        cpu_relax();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

void realtime_pool_step(int64_t *since_ns, bool has_worked)
{
    if (!has_worked)
        realtime_pool_await(since_ns);
    else if (*since_ns == 0)
        *since_ns = now_ns();
    else if (now_ns() - *since_ns >= MAX_SPIN_NS)
        *since_ns = 0, priority_sleep();
}
