#include "team.h"

#include "processors.h"
#include "simd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_THREADS = 256 };

struct team {
    pthread_mutex_t turn; /* of the callers */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t begin, done;
    void (*piece)(void *data, int i, int thread);
    void *data;
    int n;
    unsigned round; /* counts calls of team_run */
    int n_active;   /* threads beside the caller that are at it; one that wakes too late is not waited for */
    bool end;

    atomic_int next; /* piece to take */
    int n_threads;   /* with the caller */
    int n_numbers;   /* handed out to threads that started */
    pthread_t threads[];
};

static void take_pieces(struct team *team, int thread)
{
    for (int i; (i = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed)) < team->n;)
        team->piece(team->data, i, thread);
}

static void *member(void *arg)
{
    struct team *team = arg;
    unsigned seen = 0;
    simd_denormals_off();
    pthread_mutex_lock(&team->lock);
    int thread = ++team->n_numbers;
    for (;;) {
        while (team->round == seen && !team->end) pthread_cond_wait(&team->begin, &team->lock);
        if (team->end) break;
        seen = team->round;
        if (atomic_load_explicit(&team->next, memory_order_relaxed) >= team->n) continue;
        team->n_active++;
        pthread_mutex_unlock(&team->lock);
        take_pieces(team, thread);
        pthread_mutex_lock(&team->lock);
        if (--team->n_active == 0) pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

struct team *team_open(int n_threads)
{
    int most = n_threads > 0 ? n_threads : processors_usable();
    if (most > MOST_THREADS) most = MOST_THREADS;
    struct team *team = calloc(1, sizeof *team + (size_t)most * sizeof *team->threads);
    if (!team) return NULL;
    pthread_mutex_init(&team->turn, NULL);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begin, NULL);
    pthread_cond_init(&team->done, NULL);
    team->n_threads = 1;
    while (team->n_threads < most && pthread_create(&team->threads[team->n_threads - 1], NULL, member, team) == 0)
        team->n_threads++;
    return team;
}

void team_close(struct team *team)
{
    if (!team) return;
    pthread_mutex_lock(&team->lock);
    team->end = true;
    pthread_cond_broadcast(&team->begin);
    pthread_mutex_unlock(&team->lock);
    for (int i = 0; i < team->n_threads - 1; i++) pthread_join(team->threads[i], NULL);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->begin);
    pthread_mutex_destroy(&team->lock);
    pthread_mutex_destroy(&team->turn);
    free(team);
}

int team_size(const struct team *team)
{
    return team->n_threads;
}

void team_run(struct team *team, void (*piece)(void *data, int i, int thread), void *data, int n)
{
    pthread_mutex_lock(&team->turn);
    pthread_mutex_lock(&team->lock);
    team->piece = piece;
    team->data = data;
    team->n = n;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    if (n > 1 && team->n_threads > 1) {
        team->round++;
        pthread_cond_broadcast(&team->begin);
    }
    pthread_mutex_unlock(&team->lock);
    take_pieces(team, 0);
    pthread_mutex_lock(&team->lock);
    while (team->n_active > 0) pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
    pthread_mutex_unlock(&team->turn);
}
