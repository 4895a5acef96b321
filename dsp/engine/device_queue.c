#include "device_queue.h"

#include "await.h"
#include "backend.h"
#include "dsp/cpu/priority.h"
#include "dsp/cpu/processors.h"
#include "dsp/cpu/simd.h"
#include "nap.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { SPIN_MOST_US = 25000 };

struct block {
    int n;
    int64_t lost; /* frames lost before it */
    int64_t posted_us;
};

struct device_queue {
    struct device_queue_setup setup;
    pthread_t thread;
    sem_t work; /* posted once a block, and once to end */
    sem_t done; /* posted if the audio thread sleeps */
    atomic_bool sleeps, end;
    atomic_uint_fast64_t posted, finished; /* blocks */
    struct block blocks[DEVICE_QUEUE_MOST];
    int64_t lost;               /* frames since the last block posted; audio thread only */
    struct priority priority;   /* of the audio thread */
    struct nap nap;             /* device thread only, as is why until failed is set */
    atomic_int_fast64_t failed; /* -1: no block */
    char why[256];
};

int64_t device_queue_spin_us(int rate, int block)
{
    int64_t us = 2000000LL * block / rate;
    if (processors_usable() < 4) return 0;
    return us < SPIN_MOST_US ? us : SPIN_MOST_US;
}

/* ---- the device thread ---------------------------------------------------------------------------------------------
 */

/* false: nobody posted it by then. */
static bool sem_wait_until(sem_t *sem, int64_t until_us)
{
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int error;
    while ((error = sem_clockwait(sem, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) continue;
    return error == 0;
}

/* To wake a thread that sleeps takes 50 to 200 us on some machines, more than a block of audio takes the device: while
 * blocks come, the thread spins from a while before its next block is expected (nap.h). */
static void spin(struct device_queue *q, uint64_t past)
{
    int64_t until = q->setup.spin_us ? now_us() + q->setup.spin_us : 0;
    while (atomic_load_explicit(&q->posted, memory_order_acquire) <= past && until > 0 && now_us() < until &&
           !atomic_load_explicit(&q->end, memory_order_relaxed))
        cpu_relax();
}

/* Returns when there is a block, or the end. A block that comes while the thread sleeps wakes it. */
static void await_work(struct device_queue *q)
{
    uint64_t finished = atomic_load_explicit(&q->finished, memory_order_relaxed);
    int64_t until = q->setup.spin_us && !q->setup.spins ? nap_until(&q->nap, now_us()) : 0;
    if (until > 0 && atomic_load_explicit(&q->posted, memory_order_acquire) == finished) {
        bool has_come = sem_wait_until(&q->work, until);
        nap_woken(&q->nap, now_us());
        /* The semaphore has said as much, but race detectors do not know this wait. */
        (void)atomic_load_explicit(&q->posted, memory_order_acquire);
        if (has_come) return;
    }
    spin(q, finished);
    while (sem_wait(&q->work) != 0 && errno == EINTR) continue;
}

static void play(struct device_queue *q, int64_t i)
{
    const struct device_queue_setup *setup = &q->setup;
    const struct block *block = &q->blocks[i % setup->n_blocks];
    char why[sizeof q->why] = "";
    int error = HC_OK;
    for (int64_t left = block->lost; left > 0 && error >= 0; left -= setup->block)
        error = setup->play(setup->data, DEVICE_QUEUE_SILENCE, left < setup->block ? (int)left : setup->block, why,
                            sizeof why);
    bool is_well = error >= 0;
    error = setup->play(setup->data, i, block->n, is_well ? why : NULL, is_well ? sizeof why : 0);
    if ((is_well && error >= 0) || atomic_load_explicit(&q->failed, memory_order_relaxed) >= 0) return;
    memcpy(q->why, why, sizeof why);
    atomic_store_explicit(&q->failed, i, memory_order_release);
}

static void *device_thread(void *arg)
{
    struct device_queue *q = arg;
    int followed = 0;
    simd_denormals_off();
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns, for naps: as a rule a sleep may take 50 us more than it should */
    for (;;) {
        await_work(q);
        if (atomic_load(&q->end)) return NULL;
        uint64_t i = atomic_load_explicit(&q->finished, memory_order_relaxed);
        priority_follow(&q->priority, &followed);
        if (q->setup.spin_us) nap_posted(&q->nap, q->blocks[i % (uint64_t)q->setup.n_blocks].posted_us);
        play(q, (int64_t)i);
        atomic_store(&q->finished, i + 1);
        if (atomic_exchange(&q->sleeps, false)) sem_post(&q->done);
    }
}

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static void queue_free(struct device_queue *q)
{
    sem_destroy(&q->work);
    sem_destroy(&q->done);
    free(q);
}

struct device_queue *device_queue_open(const struct device_queue_setup *setup, char *why, size_t cap)
{
    struct device_queue *q = calloc(1, sizeof *q);
    if (!q) return (void)fail(HC_ENOMEM, why, cap, "no memory for the queue to the device"), NULL;
    q->setup = *setup;
    atomic_init(&q->failed, -1);
    nap_open(&q->nap);
    sem_init(&q->work, 0, 0);
    sem_init(&q->done, 0, 0);
    int error = pthread_create(&q->thread, NULL, device_thread, q);
    if (error == 0) return q;
    fail(HC_ENOMEM, why, cap, "no thread for the device: %s; end some, or use backend cpu", strerror(error));
    queue_free(q);
    return NULL;
}

void device_queue_close(struct device_queue *q)
{
    if (!q) return;
    atomic_store(&q->end, true);
    sem_post(&q->work);
    pthread_join(q->thread, NULL);
    queue_free(q);
}

void device_queue_drain(struct device_queue *q)
{
    device_queue_await(q, device_queue_next(q) - 1, AWAIT_FOREVER);
    q->lost = 0;
}

/* ---- the audio thread ----------------------------------------------------------------------------------------------
 */

int64_t device_queue_next(const struct device_queue *q)
{
    return (int64_t)atomic_load_explicit(&q->posted, memory_order_relaxed);
}

bool device_queue_room(struct device_queue *q, int64_t until_us)
{
    return device_queue_await(q, device_queue_next(q) - q->setup.n_blocks, until_us);
}

void device_queue_post(struct device_queue *q, int n, int64_t posted_us)
{
    q->blocks[device_queue_next(q) % q->setup.n_blocks] = (struct block){n, q->lost, posted_us};
    q->lost = 0;
    priority_lead(&q->priority);
    atomic_fetch_add_explicit(&q->posted, 1, memory_order_release);
    sem_post(&q->work);
}

void device_queue_lose(struct device_queue *q, int n)
{
    q->lost += n;
}

bool device_queue_is_done(const struct device_queue *q, int64_t block)
{
    return (int64_t)atomic_load_explicit(&q->finished, memory_order_acquire) > block;
}

bool device_queue_await(struct device_queue *q, int64_t block, int64_t until_us)
{
    if (device_queue_is_done(q, block)) return true;
    if (until_us != AWAIT_FOREVER) return await(&q->finished, (uint64_t)block + 1, until_us);
    if (q->setup.spin_us) await(&q->finished, (uint64_t)block + 1, now_us() + q->setup.spin_us);
    while (!device_queue_is_done(q, block)) {
        atomic_store(&q->sleeps, true); /* before the look at `finished`: the device thread looks the other way round */
        if ((int64_t)atomic_load(&q->finished) > block) break;
        while (sem_wait(&q->done) != 0 && errno == EINTR) continue;
    }
    return true;
}

int64_t device_queue_lost(const struct device_queue *q, const char **why)
{
    *why = q->why;
    return atomic_load_explicit(&q->failed, memory_order_acquire);
}
