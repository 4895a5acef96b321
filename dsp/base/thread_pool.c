#include "thread_pool.h"

#include "denormals.h"
#include "fork_safety.h"
#include "processors.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_POOL_THREADS = 256 };

struct thread_pool {
    pthread_mutex_t turn; /* held by the caller of thread_pool_run */
    pthread_mutex_t lock; /* protects the fields up to `end` */
    pthread_cond_t begin, done;
    void (*job)(void *data, int64_t i, int thread);
    void *data;
    int64_t n;
    unsigned round; /* counts calls of thread_pool_run */
    int n_active;   /* threads that do jobs, without the caller; the caller waits for these threads only */
    bool end;

    atomic_int_fast64_t next; /* first job that no thread has begun */
    unsigned forks;           /* fork_count() when the pool was opened */
    int n_threads;            /* threads, the caller included */
    int n_started;            /* threads that run and have a number; under `lock` */
    pthread_t threads[];
};

static void do_jobs(struct thread_pool *pool, int thread)
{
    for (int64_t i; (i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n;)
        pool->job(pool->data, i, thread);
}

static void *thread_pool_thread(void *arg)
{
    struct thread_pool *pool = arg;
    unsigned seen = 0;
    denormals_off();
    pthread_mutex_lock(&pool->lock);
    int thread = ++pool->n_started;
    for (;;) {
        while (pool->round == seen && !pool->end) pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->end) break;
        seen = pool->round;
        if (atomic_load_explicit(&pool->next, memory_order_relaxed) >= pool->n) continue;
        pool->n_active++;
        pthread_mutex_unlock(&pool->lock);
        do_jobs(pool, thread);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_active == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct thread_pool *thread_pool_open(int n_threads)
{
    int max = n_threads > 0 ? n_threads : processors_usable();
    if (max > MAX_POOL_THREADS) max = MAX_POOL_THREADS;
    struct thread_pool *pool = calloc(1, sizeof *pool + (size_t)max * sizeof *pool->threads);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->forks = fork_count();
    pool->n_threads = 1;
    while (pool->n_threads < max &&
           pthread_create(&pool->threads[pool->n_threads - 1], NULL, thread_pool_thread, pool) == 0)
        pool->n_threads++;
    return pool;
}

/* Returns false in a child of fork(). Condition variables still count the parent's threads there: keep them. */
static bool has_threads(const struct thread_pool *pool)
{
    return pool->forks == fork_count();
}

void thread_pool_close(struct thread_pool *pool)
{
    if (!pool) return;
    if (!has_threads(pool)) {
        free(pool);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->end = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_threads - 1; i++) pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    free(pool);
}

int thread_pool_size(const struct thread_pool *pool)
{
    return pool->n_threads;
}

void thread_pool_run(struct thread_pool *pool, void (*job)(void *data, int64_t i, int thread), void *data, int64_t n)
{
    if (!has_threads(pool)) {
        for (int64_t i = 0; i < n; i++) job(data, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->turn);
    pthread_mutex_lock(&pool->lock);
    pool->job = job;
    pool->data = data;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    if (n > 1 && pool->n_threads > 1) {
        pool->round++;
        pthread_cond_broadcast(&pool->begin);
    }
    pthread_mutex_unlock(&pool->lock);
    do_jobs(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->n_active > 0) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->turn);
}
