#include "device_queue.h"

#include "backend.h"
#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/base/priority.h"
#include "dsp/base/processors.h"
#include "wakeup.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { MAX_SPIN_US = 25000 };

struct posted_block {
    int n;
    int64_t skipped; /* frames of silence before the block */
    int64_t posted_us;
};

struct device_queue {
    struct device_queue_setup setup;
    pthread_t thread;
    sem_t work; /* posted for each block, and to end the thread */
    sem_t done; /* posted after a block, if the audio thread sleeps */
    atomic_bool audio_sleeps, end;
    atomic_uint_fast64_t posted, finished; /* number of blocks */
    atomic_uint_fast64_t rested;           /* blocks after which also the work behind was launched */
    struct posted_block blocks[DEVICE_QUEUE_MAX];
    int64_t skipped;            /* frames since the last block was posted; audio thread only */
    struct priority priority;   /* follows the audio thread */
    struct wakeup wakeup;       /* device thread only */
    atomic_int_fast64_t failed; /* the first block that the device did not play; -1: none */
    char why[256];              /* written before `failed` is set */
};

int64_t device_queue_spin_us(int rate, int block)
{
    int64_t us = 2000000LL * block / rate;
    if (processors_usable() < 4) return 0;
    return us < MAX_SPIN_US ? us : MAX_SPIN_US;
}

/* ---- the device thread ------------------------------------------------------------------------------------------- */

/* Waits for the semaphore. Returns false if it was not posted before until_us. */
static bool sem_wait_until(sem_t *sem, int64_t until_us)
{
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int error;
    while ((error = sem_clockwait(sem, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) continue;
    return error == 0;
}

/* Waits for a block, or for the end of the queue. On some machines a sleeping thread needs 50 to 200 us to wake, longer
 * than a device needs for a block of audio. The thread therefore wakes shortly before the next block is expected
 * (wakeup.h) and spins. A block that comes earlier wakes the thread. */
static void await_work(struct device_queue *q)
{
    uint64_t finished = atomic_load_explicit(&q->finished, memory_order_relaxed);
    int64_t until = q->setup.spin_us && !q->setup.spins ? wakeup_until(&q->wakeup, now_us()) : 0;
    if (until > 0 && atomic_load_explicit(&q->posted, memory_order_acquire) == finished) {
        bool has_come = sem_wait_until(&q->work, until);
        wakeup_woken(&q->wakeup, now_us());
        /* This load is for race detectors, which do not know that sem_clockwait synchronizes. */
        (void)atomic_load_explicit(&q->posted, memory_order_acquire);
        if (has_come) return;
    }
    until = now_us() + q->setup.spin_us;
    while (atomic_load_explicit(&q->posted, memory_order_acquire) == finished &&
           !atomic_load_explicit(&q->end, memory_order_relaxed) && now_us() < until)
        cpu_relax();
    while (sem_wait(&q->work) != 0 && errno == EINTR) continue;
}

static void block_play(struct device_queue *q, int64_t i)
{
    const struct device_queue_setup *setup = &q->setup;
    const struct posted_block *block = &q->blocks[i % setup->n_blocks];
    char why[sizeof q->why] = "";
    struct reason reason = {why, sizeof why};
    int error = HC_OK;
    for (int64_t left = block->skipped; left > 0 && error >= 0; left -= setup->block)
        error = setup->play(setup->data, DEVICE_QUEUE_SILENCE, left < setup->block ? (int)left : setup->block, &reason);
    bool ok = error >= 0;
    error = setup->play(setup->data, i, block->n, ok ? &reason : NULL);
    if ((ok && error >= 0) || atomic_load_explicit(&q->failed, memory_order_relaxed) >= 0) return;
    memcpy(q->why, why, sizeof why);
    atomic_store_explicit(&q->failed, i, memory_order_release);
}

static void *device_thread(void *arg)
{
    struct device_queue *q = arg;
    struct follower follower = {0};
    denormals_off();
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns; by default a timed sleep may last 50 us longer */
    for (;;) {
        await_work(q);
        if (atomic_load(&q->end)) return NULL;
        uint64_t i = atomic_load_explicit(&q->finished, memory_order_relaxed);
        priority_follow(&q->priority, &follower);
        if (q->setup.spin_us) wakeup_posted(&q->wakeup, q->blocks[i % (uint64_t)q->setup.n_blocks].posted_us);
        block_play(q, (int64_t)i);
        atomic_store(&q->finished, i + 1);
        if (atomic_exchange(&q->audio_sleeps, false)) sem_post(&q->done);
        if (q->setup.behind) q->setup.behind(q->setup.data);
        atomic_store_explicit(&q->rested, i + 1, memory_order_release);
        priority_rest();
    }
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void queue_free(struct device_queue *q)
{
    sem_destroy(&q->work);
    sem_destroy(&q->done);
    free(q);
}

struct device_queue *device_queue_open(const struct device_queue_setup *setup, struct reason *why)
{
    struct device_queue *q = calloc(1, sizeof *q);
    if (!q) return (void)fail(HC_ENOMEM, why, "no memory for the queue to the device; free some memory"), NULL;
    q->setup = *setup;
    atomic_init(&q->failed, -1);
    wakeup_open(&q->wakeup);
    sem_init(&q->work, 0, 0);
    sem_init(&q->done, 0, 0);
    int error = pthread_create(&q->thread, NULL, device_thread, q);
    if (error == 0) return q;
    fail(HC_ENOMEM, why, "no thread for the device: %s; end some programs, or use backend cpu", strerror(error));
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
    device_queue_await_all(q, AWAIT_FOREVER);
    q->skipped = 0;
}

/* ---- the audio thread -------------------------------------------------------------------------------------------- */

int64_t device_queue_next(const struct device_queue *q)
{
    return (int64_t)atomic_load_explicit(&q->posted, memory_order_relaxed);
}

bool device_queue_has_capacity(struct device_queue *q, int64_t until_us)
{
    return device_queue_await(q, device_queue_next(q) - q->setup.n_blocks, until_us);
}

void device_queue_post(struct device_queue *q, int n, int64_t posted_us)
{
    q->blocks[device_queue_next(q) % q->setup.n_blocks] = (struct posted_block){n, q->skipped, posted_us};
    q->skipped = 0;
    priority_lead(&q->priority);
    atomic_fetch_add_explicit(&q->posted, 1, memory_order_release);
    sem_post(&q->work);
}

void device_queue_skip(struct device_queue *q, int n)
{
    q->skipped += n;
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
        atomic_store(&q->audio_sleeps, true); /* set it, then read `finished`; device_thread does the reverse */
        if ((int64_t)atomic_load(&q->finished) > block) break;
        while (sem_wait(&q->done) != 0 && errno == EINTR) continue;
    }
    return true;
}

bool device_queue_await_all(struct device_queue *q, int64_t until_us)
{
    int64_t n = device_queue_next(q);
    /* The work behind a block is a few short launches: a wait without bound need not sleep. */
    return device_queue_await(q, n - 1, until_us) && await(&q->rested, (uint64_t)n, until_us);
}

int64_t device_queue_failed(const struct device_queue *q, const char **why)
{
    *why = q->why;
    return atomic_load_explicit(&q->failed, memory_order_acquire);
}
