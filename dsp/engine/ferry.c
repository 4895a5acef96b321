#include "ferry.h"

#include "await.h"
#include "dsp/cpu/processors.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_BYTES = 512 << 10, /* of a block, in and out: below, one thread is as fast as what is told to the others */
    HAND_BYTES = 512 << 10,  /* for each hand */
    MOST_HANDS = 7,          /* more found no faster memory (16 processors of a Xeon, 32 MiB a block) */
};

struct hand {
    pthread_t thread;
    struct ferry *ferry;
    sem_t work; /* posted once a block, and once to end */
};

struct ferry {
    const struct simd *simd;
    int n_in, n_out, block;
    int64_t look_us;
    /* the block under way: written by the audio thread while no part is left of the one before */
    struct slot *slot;
    const float *const *in;
    float *const *out;
    int n;
    /* The part to take next. A hand that comes late finds none, or one of the next block: what is above was written
     * before there was one to take. */
    atomic_int next_in, next_out;
    atomic_int loaded[FERRY_PARTS];
    atomic_int landed;   /* channels of the output */
    atomic_int unloaded; /* parts */
    atomic_size_t non_finite;
    atomic_uint_fast64_t begun; /* blocks */
    atomic_bool end;
    int n_hands;
    struct hand hands[];
};

static int part_start(int n_channels, int part)
{
    return (int)((int64_t)n_channels * part / FERRY_PARTS);
}

/* Where there are hardly more processors than threads, who is waited for may need this one. */
static void spin(const struct ferry *f)
{
    if (f->look_us)
        cpu_relax();
    else
        sched_yield();
}

static bool take(atomic_int *next, int *part)
{
    if (atomic_load_explicit(next, memory_order_relaxed) >= FERRY_PARTS) return false;
    *part = atomic_fetch_add_explicit(next, 1, memory_order_acq_rel);
    return *part < FERRY_PARTS;
}

static void load(struct ferry *f, int part)
{
    size_t bad = 0;
    uint32_t peak = 0;
    for (int ch = part_start(f->n_in, part); ch < part_start(f->n_in, part + 1); ch++)
        bad += f->simd->copy_finite(f->slot->in + (size_t)ch * (size_t)f->block, f->in[ch], f->n, &peak);
    if (bad) atomic_fetch_add_explicit(&f->non_finite, bad, memory_order_relaxed);
    atomic_store_explicit(&f->loaded[part], 1, memory_order_release);
}

static void unload(struct ferry *f, int part)
{
    int end = part_start(f->n_out, part + 1);
    while (atomic_load_explicit(&f->landed, memory_order_acquire) < end) spin(f);
    for (int ch = part_start(f->n_out, part); ch < end; ch++)
        memcpy(f->out[ch], f->slot->out + (size_t)ch * (size_t)f->block, (size_t)f->n * sizeof(float));
    atomic_fetch_add_explicit(&f->unloaded, 1, memory_order_release);
}

static void carry(struct ferry *f)
{
    int part;
    while (take(&f->next_in, &part)) load(f, part);
    while (take(&f->next_out, &part)) unload(f, part);
}

static void *work(void *data)
{
    struct hand *hand = data;
    struct ferry *f = hand->ferry;
    for (uint64_t seen = 0;; seen++) {
        if (f->look_us) await(&f->begun, seen + 1, now_us() + f->look_us);
        while (sem_wait(&hand->work) != 0 && errno == EINTR) continue;
        if (atomic_load(&f->end)) return NULL;
        carry(f);
    }
}

int ferry_hands(int n_in, int n_out, int block, int n_threads)
{
    int64_t bytes = ((int64_t)n_in + n_out) * block * (int64_t)sizeof(float);
    if (bytes < LEAST_BYTES) return 0;
    int most = n_threads > 0 ? n_threads - 1 : processors_usable() / 2 - 1;
    if (most > MOST_HANDS) most = MOST_HANDS;
    return bytes / HAND_BYTES < most ? (int)(bytes / HAND_BYTES) : most < 0 ? 0 : most;
}

struct ferry *ferry_open(int n_hands, int n_in, int n_out, int block, int64_t look_us, const struct simd *simd)
{
    struct ferry *f = calloc(1, sizeof *f + (size_t)n_hands * sizeof *f->hands);
    if (!f) return NULL;
    f->simd = simd;
    f->n_in = n_in;
    f->n_out = n_out;
    f->block = block;
    f->look_us = look_us;
    atomic_init(&f->next_in, FERRY_PARTS);
    atomic_init(&f->next_out, FERRY_PARTS);
    while (f->n_hands < n_hands) {
        struct hand *hand = &f->hands[f->n_hands];
        hand->ferry = f;
        sem_init(&hand->work, 0, 0);
        if (pthread_create(&hand->thread, NULL, work, hand) != 0) {
            sem_destroy(&hand->work);
            break;
        }
        f->n_hands++;
    }
    return f;
}

void ferry_close(struct ferry *f)
{
    if (!f) return;
    atomic_store(&f->end, true);
    for (int i = 0; i < f->n_hands; i++) sem_post(&f->hands[i].work);
    for (int i = 0; i < f->n_hands; i++) {
        pthread_join(f->hands[i].thread, NULL);
        sem_destroy(&f->hands[i].work);
    }
    free(f);
}

void ferry_begin(struct ferry *f, struct slot *slot, const float *const *in, float *const *out, int n)
{
    f->slot = slot;
    f->in = in;
    f->out = out;
    f->n = n;
    for (int i = 0; i < FERRY_PARTS; i++) atomic_store_explicit(&f->loaded[i], 0, memory_order_relaxed);
    atomic_store_explicit(&f->landed, 0, memory_order_relaxed);
    atomic_store_explicit(&f->unloaded, 0, memory_order_relaxed);
    atomic_store_explicit(&f->next_out, 0, memory_order_release);
    atomic_store_explicit(&f->next_in, 0, memory_order_release);
    atomic_fetch_add_explicit(&f->begun, 1, memory_order_release);
    for (int i = 0; i < f->n_hands; i++) sem_post(&f->hands[i].work);
}

size_t ferry_carry(struct ferry *f)
{
    carry(f);
    while (atomic_load_explicit(&f->unloaded, memory_order_acquire) < FERRY_PARTS) spin(f);
    return atomic_exchange_explicit(&f->non_finite, 0, memory_order_relaxed);
}

int ferry_loaded(struct ferry *f, int from)
{
    while (!atomic_load_explicit(&f->loaded[from], memory_order_acquire)) spin(f);
    while (from < FERRY_PARTS && atomic_load_explicit(&f->loaded[from], memory_order_acquire)) from++;
    return from;
}

void ferry_landed(struct ferry *f, int n_channels)
{
    atomic_store_explicit(&f->landed, n_channels, memory_order_release);
}
