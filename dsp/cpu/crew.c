#include "crew.h"

#include "memory.h"
#include "simd.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

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
    pthread_t audio;      /* that woke them last; crew_wake's own */
    atomic_int audio_tid; /* its number in the system; 0: none yet */
    int n_threads;
    struct member members[];
};

/* Right below the audio thread, if that has a real-time priority. A refusal is no failure: then the audio thread does
 * more of the work itself. */
static void settle_below(int tid)
{
    struct sched_param param = {0};
    int policy = sched_getscheduler(tid), least = sched_get_priority_min(SCHED_FIFO);
    bool real_time = (policy == SCHED_FIFO || policy == SCHED_RR) && sched_getparam(tid, &param) == 0;
    if (!real_time || param.sched_priority <= least) {
        param.sched_priority = 0;
        pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
        return;
    }
    param.sched_priority--;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static void *work(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    int settled = 0;
    simd_denormals_off();
    for (;;) {
        while (sem_wait(&crew->wake) != 0 && errno == EINTR) continue;
        if (atomic_load(&crew->end)) return NULL;
        int tid = atomic_load_explicit(&crew->audio_tid, memory_order_relaxed);
        if (tid != settled) settle_below(settled = tid);
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
    if (atomic_load_explicit(&crew->audio_tid, memory_order_relaxed) == 0 ||
        !pthread_equal(crew->audio, pthread_self())) { /* once a thread: the one system call but wake-ups */
        crew->audio = pthread_self();
        atomic_store_explicit(&crew->audio_tid, (int)gettid(), memory_order_relaxed);
    }
    sem_post(&crew->wake);
}
