#include "resident.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "partition.h"

#include "dsp/base/await.h"
#include "dsp/base/priority.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    GENERATION_US = 5000, /* between two launches                                                               */
    LEAVE_US = 10000,     /* a worker leaves so long after the time of the next launch, even if no next one has come:
                             cudaFree, of others, waits until then. The manager may oversleep so long            */
    HAND_OVER_US = 2500,  /* without a block for so long, a worker hands over before one                        */
    PAUSE_US = 2000,      /* between two looks of the manager                                                   */
    IDLE_US = 2000000,    /* without a block of any engine for so long, the kernel leaves                       */
    END_S = 1,            /* see end_time                                                                       */
    ENTER_MS = 2000,      /* in this time a generation must have served a new job                               */
    ON_DEMAND_US = 50     /* so long the workers of a generation on demand wait for their first worker          */
};

/* Another process on the GPU. Beside it the kernel is launched on demand. Then a probe, a generation that stays for
 * PROBE_US, is launched now and then; after some without an interruption the kernel stays again. */
enum {
    STALLED_LOOKS = 5, /* so many looks of the manager in STALL_WINDOW_US that find stalls: another process runs  */
    STALL_WINDOW_US = 100000,
    PROBE_US = 10000,
    PROBE_EVERY_US = 1000000,
    MIN_PROBES = 10, /* that must have no stall; twice as many after each time that another process came back      */
    MAX_PROBES = 160
};

struct resident_service {
    int device, n_sm;
    size_t shared_max;
    pthread_mutex_t lock; /* of all fields but the atomic ones                                            */
    pthread_t manager;
    sem_t wake;
    int ends; /* atomic                                                                               */
    int n_jobs, n_seats;         /* n_seats: up to the last one in use                                           */
    struct resident_job *jobs[RESIDENT_SEATS];
    struct resident_seat *seats; /* device                                                                       */
    uint32_t *started;           /* pinned                                                                       */
    cudaStream_t streams[2];     /* generation g is in stream g % 2                                              */
    cudaStream_t setup;
    uint32_t generation;
    int64_t launched_us;
    uint32_t *stalls;  /* pinned, [RESIDENT_SEATS]: written by the workers                             */
    int64_t posted_us; /* atomic: when the last request was posted                                     */
    int runs;          /* atomic: the manager launches generations, without a wake-up                  */
    int on_demand;     /* atomic; written by the manager                                               */
    int lost;          /* atomic; `why` is written before                                              */
    char why[256];
    struct priority priority; /* the manager's follows the audio thread's                              */

    /* used by the manager */
    struct follower follower;
    uint32_t n_stalls;     /* sum of `stalls` at the last look                                         */
    int64_t window_us;     /* start of the window in which stalled looks are counted                   */
    int n_stalled;         /* stalled looks in it; in the first window two are enough                  */
    int n_clean, n_needed; /* probes without a stall, in sequence, and how many there must be          */
    int64_t probe_us;      /* time of the next probe                                                   */
};

static pthread_mutex_t services_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t services_process; /* that has the managers: a child of fork() has none */
static struct resident_service *services[MAX_DEVICES];

static void pause_us(int us)
{
    const struct timespec pause = {us / 1000000, us % 1000000 * 1000L};
    nanosleep(&pause, NULL);
}

/* ---- the manager ------------------------------------------------------------------------------------------------- */

/* The first reason stays. [lock] */
static void service_lose(struct resident_service *s, const char *why)
{
    if (__atomic_load_n(&s->lost, __ATOMIC_ACQUIRE)) return;
    snprintf(s->why, sizeof s->why, "%s", why);
    __atomic_store_n(&s->lost, 1, __ATOMIC_RELEASE);
}

static void service_fail(struct resident_service *s, cudaError_t e, const char *what)
{
    char text[sizeof s->why];
    struct reason why = {text, sizeof text};
    cuda_fail(e, &why, "%s", what);
    service_lose(s, text);
}

/* Launches the next generation. false: the one before the last still runs. [lock] */
static bool generation_launch(struct resident_service *s, bool on_demand)
{
    cudaStream_t stream = s->streams[(s->generation + 1) % 2];
    if (s->n_jobs == 0 || resident_lost(s)) return true; /* nothing to serve */
    const cudaError_t query = cudaStreamQuery(stream);
    if (query == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
    }
    if (query != cudaSuccess) return service_fail(s, query, "the resident kernel"), true;
    struct resident_launch launch = {};
    launch.seats = s->seats;
    launch.started = s->started;
    launch.stalls = s->stalls;
    launch.on_demand = on_demand;
    launch.idle_ns = (on_demand ? ON_DEMAND_US : HAND_OVER_US) * 1000ull;
    launch.max_ns = (GENERATION_US + LEAVE_US) * 1000ull;
    launch.n_seats = s->n_seats;
    launch.generation = ++s->generation;
    for (int i = 0; i < s->n_seats; i++) {
        if (!s->jobs[i]) continue;
        launch.jobs[i] = s->jobs[i]->on_device;
        if (s->jobs[i]->shared_bytes > launch.shared_bytes) launch.shared_bytes = s->jobs[i]->shared_bytes;
    }
    const cudaError_t e = resident_start(&launch, stream);
    s->launched_us = now_us();
    if (e != cudaSuccess) service_fail(s, e, "launching the resident kernel");
    return true;
}

/* Stops if no block came for IDLE_US. A block that comes meanwhile sees that the manager stopped, or is seen here. */
static void idle_check(struct resident_service *s)
{
    if (now_us() - __atomic_load_n(&s->posted_us, __ATOMIC_SEQ_CST) < IDLE_US) return;
    __atomic_store_n(&s->runs, 0, __ATOMIC_SEQ_CST);
    if (now_us() - __atomic_load_n(&s->posted_us, __ATOMIC_SEQ_CST) < IDLE_US)
        __atomic_store_n(&s->runs, 1, __ATOMIC_SEQ_CST);
}

/* Sleeps until this time, or until `wake` is posted: by a job that enters or, if `runs` is 0, by a block. */
static void manager_wait(struct resident_service *s, int64_t until_us)
{
    const struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    if (until_us == AWAIT_FOREVER)
        while (sem_wait(&s->wake) != 0) continue;
    else
        sem_clockwait(&s->wake, CLOCK_MONOTONIC, &until);
}

/* Did a worker stand still since the last look? */
static bool is_stalled(struct resident_service *s)
{
    uint32_t n = 0;
    for (int i = 0; i < RESIDENT_SEATS; i++) n += __atomic_load_n(&s->stalls[i], __ATOMIC_RELAXED);
    const bool has_more = n != s->n_stalls;
    s->n_stalls = n;
    return has_more;
}

/* Lets the kernel stay, or launches it on demand from now on. */
static void stay_set(struct resident_service *s, bool stays)
{
    __atomic_store_n(&s->on_demand, !stays, __ATOMIC_RELAXED);
    __atomic_store_n(&s->runs, stays, __ATOMIC_SEQ_CST);
    s->n_stalled = stays ? STALLED_LOOKS - 2 : 0;
    s->n_clean = 0;
    s->window_us = now_us();
    s->probe_us = s->window_us + PROBE_EVERY_US;
    if (stays) return;
    s->n_needed *= 2;
    if (s->n_needed < MIN_PROBES) s->n_needed = MIN_PROBES;
    if (s->n_needed > MAX_PROBES) s->n_needed = MAX_PROBES;
    sem_post(&s->wake); /* for a block that was posted before */
}

/* A step while the kernel stays. */
static void resident_step(struct resident_service *s)
{
    const int64_t us = now_us();
    pthread_mutex_lock(&s->lock);
    if (us - s->launched_us >= GENERATION_US) generation_launch(s, false);
    idle_check(s);
    pthread_mutex_unlock(&s->lock);
    if (us - s->window_us > STALL_WINDOW_US) s->window_us = us, s->n_stalled = 0;
    if (is_stalled(s) && ++s->n_stalled == STALLED_LOOKS) return stay_set(s, false);
    if (__atomic_load_n(&s->runs, __ATOMIC_SEQ_CST)) return manager_wait(s, us + PAUSE_US);
    manager_wait(s, AWAIT_FOREVER);
    __atomic_store_n(&s->runs, 1, __ATOMIC_SEQ_CST);
}

/* A step while each block wakes the manager. */
static void on_demand_step(struct resident_service *s)
{
    const bool plays = now_us() - __atomic_load_n(&s->posted_us, __ATOMIC_RELAXED) < IDLE_US;
    manager_wait(s, plays ? s->probe_us : AWAIT_FOREVER);
    while (sem_trywait(&s->wake) == 0) continue; /* the launch answers all blocks that were posted */
    const bool probes = now_us() >= s->probe_us;
    bool has_jobs = false;
    is_stalled(s);
    const int64_t start_us = now_us();
    for (bool launched = false; !launched;) {
        pthread_mutex_lock(&s->lock);
        launched = generation_launch(s, !probes);
        has_jobs = s->n_jobs > 0;
        pthread_mutex_unlock(&s->lock);
        if (!launched) pause_us(now_us() - start_us < PAUSE_US ? 20 : PAUSE_US); /* the device may hang */
    }
    if (!probes) return;
    if (has_jobs) { /* else there is no probe */
        pause_us(PROBE_US);
        s->n_clean = is_stalled(s) ? 0 : s->n_clean + 1;
    }
    s->probe_us = now_us() + PROBE_EVERY_US;
    if (s->n_clean >= s->n_needed) return stay_set(s, true);
    sem_post(&s->wake); /* a generation on demand relieves the probe */
}

static void *manager_run(void *arg)
{
    struct resident_service *s = (struct resident_service *)arg;
    prctl(PR_SET_TIMERSLACK, 1UL);
    cudaSetDevice(s->device);
    while (!__atomic_load_n(&s->ends, __ATOMIC_ACQUIRE)) {
        priority_follow(&s->priority, &s->follower);
        if (__atomic_load_n(&s->on_demand, __ATOMIC_RELAXED))
            on_demand_step(s);
        else
            resident_step(s);
        priority_rest();
    }
    return NULL;
}

void resident_posted(struct resident_service *s, int64_t at_us)
{
    int n_wakes = 0;
    __atomic_store_n(&s->posted_us, at_us, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&s->runs, __ATOMIC_SEQ_CST)) return;
    sem_getvalue(&s->wake, &n_wakes); /* a wake-up that the manager has not seen yet is enough */
    if (n_wakes <= 0) sem_post(&s->wake);
}

void resident_lead(struct resident_service *s)
{
    priority_lead(&s->priority);
}

const char *resident_mode(const struct resident_service *s)
{
    return __atomic_load_n(&s->on_demand, __ATOMIC_RELAXED) ? "launched: another process uses the GPU" : "resident";
}

const char *resident_lost(const struct resident_service *s)
{
    return __atomic_load_n(&s->lost, __ATOMIC_ACQUIRE) ? s->why : NULL;
}

/* The end of a program waits at most END_S for a lock or a thread, which may be in a call of a device that hangs. */
static struct timespec end_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += END_S;
    return t;
}

static void service_end(struct resident_service *s)
{
    const struct timespec until = end_time();
    __atomic_store_n(&s->ends, 1, __ATOMIC_RELEASE);
    if (pthread_mutex_clocklock(&s->lock, CLOCK_MONOTONIC, &until) != 0) return;
    service_lose(s, "the program ends");
    pthread_mutex_unlock(&s->lock);
    sem_post(&s->wake);
    pthread_clockjoin_np(s->manager, NULL, CLOCK_MONOTONIC, &until);
}

/* Ends the managers before the CUDA runtime ends, for a program that exits with open engines. A block or a close that
 * comes later finds the device lost. */
static void services_end(void)
{
    const struct timespec until = end_time();
    if (services_process != getpid()) return; /* in a child another thread may hold the lock for ever */
    if (pthread_mutex_clocklock(&services_lock, CLOCK_MONOTONIC, &until) != 0) return;
    for (int i = 0; i < MAX_DEVICES; i++)
        if (services[i]) service_end(services[i]);
    pthread_mutex_unlock(&services_lock);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void service_free(struct resident_service *s)
{
    for (int i = 0; i < 2; i++)
        if (s->streams[i]) cudaStreamSynchronize(s->streams[i]), cudaStreamDestroy(s->streams[i]);
    if (s->setup) cudaStreamDestroy(s->setup);
    device_free(s->seats);
    device_free_host(s->started);
    device_free_host(s->stalls);
    cudaGetLastError();
    pthread_mutex_destroy(&s->lock);
    sem_destroy(&s->wake);
    free(s);
}

static int service_make(struct resident_service *s, struct reason *why)
{
    PASS(device_use(s->device, why));
    PASS(live_sm_count(s->device, &s->n_sm, why));
    TRY(resident_load(&s->shared_max), "loading the resident kernel");
    PASS(device_alloc_host((void **)&s->started, sizeof *s->started, why));
    PASS(device_alloc_host((void **)&s->stalls, RESIDENT_SEATS * sizeof *s->stalls, why));
    for (int i = 0; i < 2; i++) PASS(live_stream_make(&s->streams[i], true, why));
    PASS(live_stream_make(&s->setup, false, why));
    PASS(device_alloc((void **)&s->seats, RESIDENT_SEATS * sizeof *s->seats, "the resident kernel", why));
    TRY(cudaMemsetAsync(s->seats, 0, RESIDENT_SEATS * sizeof *s->seats, s->setup), "cudaMemsetAsync");
    TRY(device_wait(s->setup), "clearing the seats");
    s->posted_us = now_us();
    stay_set(s, true);
    if (!services_process && atexit(services_end) != 0)
        return fail(HC_ENOMEM, why, "no memory for the resident kernel; free some memory");
    services_process = getpid();
    if (pthread_create(&s->manager, NULL, manager_run, s) != 0)
        return fail(HC_ENOMEM, why, "no thread for the resident kernel; end some programs");
    return HC_OK;
}

/* Returns the first of n free seats in a row, or -1. */
static int seats_find(const struct resident_service *s, int n)
{
    for (int first = 0, free_seats = 0, i = 0; i < RESIDENT_SEATS; i++) {
        free_seats = s->jobs[i] ? 0 : free_seats + 1;
        if (free_seats == 1) first = i;
        if (free_seats == n) return first;
    }
    return -1;
}

/* Would all workers fit on half of the multiprocessors? For a moment two generations are there. [lock] */
static bool would_fit(const struct resident_service *s, const struct resident_job *job)
{
    size_t bytes = job->shared_bytes;
    int n = job->n_workers;
    for (int i = 0; i < s->n_seats; i++) {
        if (!s->jobs[i]) continue;
        n++;
        if (s->jobs[i]->shared_bytes > bytes) bytes = s->jobs[i]->shared_bytes;
    }
    return bytes <= s->shared_max && n <= resident_workers_per_sm(bytes) * (s->n_sm / 2);
}

/* [lock] */
static int job_enter(struct resident_service *s, struct resident_job *job, struct reason *why)
{
    job->shared_bytes = resident_shared_bytes(job);
    job->first_seat = seats_find(s, job->n_workers);
    if (job->first_seat < 0 || !would_fit(s, job))
        return fail(HC_EUNSUPPORTED, why, "the resident kernel has no multiprocessors left for this head");
    TRY(cudaMemcpyAsync(job->on_device, job, sizeof *job, cudaMemcpyHostToDevice, s->setup), "cudaMemcpyAsync");
    TRY(device_wait(s->setup), "copying a job");
    for (int i = 0; i < job->n_workers; i++) s->jobs[job->first_seat + i] = job;
    if (job->first_seat + job->n_workers > s->n_seats) s->n_seats = job->first_seat + job->n_workers;
    s->n_jobs++;
    __atomic_store_n(&s->posted_us, now_us(), __ATOMIC_SEQ_CST);
    return HC_OK;
}

/* Waits until a generation that was launched after this call has started. */
static int generation_await(struct resident_service *s, struct reason *why)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t generation = s->generation + 1;
    s->launched_us = 0;
    pthread_mutex_unlock(&s->lock);
    sem_post(&s->wake);
    const int64_t until_us = now_us() + 1000LL * ENTER_MS;
    while ((int32_t)(__atomic_load_n(s->started, __ATOMIC_ACQUIRE) - generation) < 0) {
        if (resident_lost(s)) return fail(HC_EDEVICE, why, "%s", s->why);
        if (now_us() > until_us) return fail(HC_EUNSUPPORTED, why, "the resident kernel does not start");
        pause_us(50);
    }
    return HC_OK;
}

int resident_enter(int device, struct resident_job *job, struct resident_service **service, struct reason *why)
{
    *service = NULL;
    if (device < 0 || device >= MAX_DEVICES) return fail(HC_EUNSUPPORTED, why, "GPU %d has no resident kernel", device);
    pthread_mutex_lock(&services_lock);
    struct resident_service *s = services[device];
    int rc = HC_OK;
    if (!s) {
        s = (struct resident_service *)calloc(1, sizeof *s);
        if (!s) rc = fail(HC_ENOMEM, why, "no memory for the resident kernel; free some memory");
        if (s) {
            s->device = device;
            pthread_mutex_init(&s->lock, NULL);
            sem_init(&s->wake, 0, 0);
            rc = service_make(s, why);
            if (rc < 0) service_free(s);
            if (rc == HC_OK) services[device] = s;
        }
    }
    if (rc == HC_OK) {
        pthread_mutex_lock(&s->lock);
        rc = job_enter(s, job, why);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&services_lock);
    if (rc < 0) return rc;
    *service = s;
    return generation_await(s, why);
}

void resident_leave(struct resident_service *s, struct resident_job *job)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < job->n_workers; i++) s->jobs[job->first_seat + i] = NULL;
    while (s->n_seats > 0 && !s->jobs[s->n_seats - 1]) s->n_seats--;
    s->n_jobs--;
    pthread_mutex_unlock(&s->lock);
}

void resident_follow(struct resident_service *s, cudaStream_t stream)
{
    cudaSetDevice(s->device);
    for (int i = 0; i < 2; i++)
        if (device_stream_follow(stream, s->streams[i]) != cudaSuccess) device_wait(s->streams[i]);
}
