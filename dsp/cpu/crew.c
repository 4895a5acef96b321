#include "crew.h"

#include "memory.h"
#include "priority.h"
#include "simd.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

struct member {
    pthread_t thread;
    struct crew *crew;
    float *scratch;
};

struct crew {
    bool (*job)(void *data, float *scratch);
    void *data;
    sem_t wake;
    atomic_bool end;
    struct priority priority; /* of the thread that wakes them */
    int n_threads;
    struct member members[];
};

static void *work(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    int followed = 0;
    simd_denormals_off();
    for (;;) {
        while (sem_wait(&crew->wake) != 0 && errno == EINTR) continue;
        if (atomic_load(&crew->end)) return NULL;
        priority_follow(&crew->priority, &followed);
        if (!crew->job(crew->data, member->scratch)) continue;
        sem_post(&crew->wake);
        while (crew->job(crew->data, member->scratch)) continue;
    }
}

struct crew *crew_open(int n_threads, size_t n_scratch, bool (*job)(void *data, float *scratch), void *data)
{
    struct crew *crew = calloc(1, sizeof *crew + (size_t)n_threads * sizeof *crew->members);
    if (!crew) return NULL;
    crew->job = job;
    crew->data = data;
    sem_init(&crew->wake, 0, 0);
    while (crew->n_threads < n_threads) {
        struct member *member = &crew->members[crew->n_threads];
        member->crew = crew;
        member->scratch = memory_floats(n_scratch);
        if (!member->scratch || pthread_create(&member->thread, NULL, work, member) != 0) {
            free(member->scratch);
            break;
        }
        crew->n_threads++;
    }
    return crew;
}

void crew_close(struct crew *crew)
{
    if (!crew) return;
    atomic_store(&crew->end, true);
    for (int i = 0; i < crew->n_threads; i++) sem_post(&crew->wake);
    for (int i = 0; i < crew->n_threads; i++) {
        pthread_join(crew->members[i].thread, NULL);
        free(crew->members[i].scratch);
    }
    sem_destroy(&crew->wake);
    free(crew);
}

int crew_size(const struct crew *crew)
{
    return crew->n_threads;
}

void crew_wake(struct crew *crew)
{
    priority_lead(&crew->priority);
    sem_post(&crew->wake);
}
