#include "parallel_copy.h"

#include "dsp/base/await.h"
#include "dsp/base/processors.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum {
    MIN_BYTES = 512 << 10,    /* min. bytes of a block: a smaller one is copied before other threads are awake */
    THREAD_BYTES = 512 << 10, /* min. bytes of a block for each copy thread */
    MAX_COPY_THREADS = 7,     /* more were not faster (16 processors of a Xeon, 32 MiB a block) */
};

struct copy_thread {
    pthread_t thread;
    struct parallel_copy *copy;
    sem_t work; /* posted for each block, and to end the threads */
};

struct parallel_copy {
    const struct samples *samples;
    int n_in, n_out, block;
    int64_t spin_us;
    /* The current block. The audio thread writes these fields when all chunks of the previous block are done. */
    struct io_buffer *buffer;
    const float *const *in;
    float *const *out;
    int n;
    /* The next chunk to claim. A copy thread that wakes late finds no chunk, or a chunk of the next block: the fields
     * above are written before a chunk can be claimed. */
    atomic_int next_in, next_out;
    atomic_int loaded[COPY_CHUNKS];
    atomic_int outputs_done; /* channels of the output that are in the buffer */
    atomic_int chunks_unloaded;
    atomic_size_t non_finite, overflowed;
    atomic_uint_fast64_t begun; /* number of blocks */
    atomic_bool end;
    int n_threads;
    struct copy_thread threads[];
};

static int copy_chunk_start(int n_channels, int chunk)
{
    return (int)((int64_t)n_channels * chunk / COPY_CHUNKS);
}

/* Yields if spin_us is 0, as on a machine with few processors: another thread may need this processor. */
static void relax(const struct parallel_copy *c)
{
    if (c->spin_us)
        cpu_relax();
    else
        sched_yield();
}

static bool claim_chunk(atomic_int *next, int *chunk)
{
    if (atomic_load_explicit(next, memory_order_relaxed) >= COPY_CHUNKS) return false;
    *chunk = atomic_fetch_add_explicit(next, 1, memory_order_acq_rel);
    return *chunk < COPY_CHUNKS;
}

/* Claims and copies chunks until none is left. */
static void parallel_copy_chunks(struct parallel_copy *c)
{
    int chunk;
    while (claim_chunk(&c->next_in, &chunk)) {
        size_t bad = 0;
        uint32_t peak = 0;
        for (int ch = copy_chunk_start(c->n_in, chunk); ch < copy_chunk_start(c->n_in, chunk + 1); ch++)
            bad += c->samples->copy_live(c->buffer->in + (size_t)ch * (size_t)c->block, c->in[ch], c->n, &peak);
        if (bad) atomic_fetch_add_explicit(&c->non_finite, bad, memory_order_relaxed);
        atomic_store_explicit(&c->loaded[chunk], 1, memory_order_release);
    }
    while (claim_chunk(&c->next_out, &chunk)) {
        int end = copy_chunk_start(c->n_out, chunk + 1);
        size_t bad = 0;
        uint32_t peak = 0;
        while (atomic_load_explicit(&c->outputs_done, memory_order_acquire) < end) relax(c);
        for (int ch = copy_chunk_start(c->n_out, chunk); ch < end; ch++)
            bad += c->samples->copy_finite(c->out[ch], c->buffer->out + (size_t)ch * (size_t)c->block, c->n, &peak);
        if (bad) atomic_fetch_add_explicit(&c->overflowed, bad, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->chunks_unloaded, 1, memory_order_release);
    }
}

static void *copy_thread(void *data)
{
    struct copy_thread *self = data;
    struct parallel_copy *c = self->copy;
    for (uint64_t seen = 0;; seen++) {
        if (c->spin_us) await(&c->begun, seen + 1, now_us() + c->spin_us);
        while (sem_wait(&self->work) != 0 && errno == EINTR) continue;
        if (atomic_load(&c->end)) return NULL;
        parallel_copy_chunks(c);
    }
}

int parallel_copy_threads(int n_in, int n_out, int block, int n_threads)
{
    int64_t bytes = ((int64_t)n_in + n_out) * block * (int64_t)sizeof(float);
    if (bytes < MIN_BYTES) return 0;
    int max = n_threads > 0 ? n_threads - 1 : processors_usable() / 2 - 1;
    if (max > MAX_COPY_THREADS) max = MAX_COPY_THREADS;
    return bytes / THREAD_BYTES < max ? (int)(bytes / THREAD_BYTES) : max < 0 ? 0 : max;
}

struct parallel_copy *parallel_copy_open(int n_threads, int n_in, int n_out, int block, int64_t spin_us,
                                         const struct samples *samples)
{
    struct parallel_copy *c = calloc(1, sizeof *c + (size_t)n_threads * sizeof *c->threads);
    if (!c) return NULL;
    c->samples = samples;
    c->n_in = n_in;
    c->n_out = n_out;
    c->block = block;
    c->spin_us = spin_us;
    atomic_init(&c->next_in, COPY_CHUNKS);
    atomic_init(&c->next_out, COPY_CHUNKS);
    for (; c->n_threads < n_threads; c->n_threads++) {
        struct copy_thread *thread = &c->threads[c->n_threads];
        thread->copy = c;
        sem_init(&thread->work, 0, 0);
        if (pthread_create(&thread->thread, NULL, copy_thread, thread) == 0) continue;
        sem_destroy(&thread->work);
        break;
    }
    return c;
}

void parallel_copy_close(struct parallel_copy *c)
{
    if (!c) return;
    atomic_store(&c->end, true);
    for (int i = 0; i < c->n_threads; i++) sem_post(&c->threads[i].work);
    for (int i = 0; i < c->n_threads; i++) {
        pthread_join(c->threads[i].thread, NULL);
        sem_destroy(&c->threads[i].work);
    }
    free(c);
}

void parallel_copy_begin(struct parallel_copy *c, struct io_buffer *buffer, const float *const *in, float *const *out,
                         int n)
{
    c->buffer = buffer;
    c->in = in;
    c->out = out;
    c->n = n;
    for (int i = 0; i < COPY_CHUNKS; i++) atomic_store_explicit(&c->loaded[i], 0, memory_order_relaxed);
    atomic_store_explicit(&c->outputs_done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->chunks_unloaded, 0, memory_order_relaxed);
    atomic_store_explicit(&c->next_out, 0, memory_order_release);
    atomic_store_explicit(&c->next_in, 0, memory_order_release);
    atomic_fetch_add_explicit(&c->begun, 1, memory_order_release);
    for (int i = 0; i < c->n_threads; i++) sem_post(&c->threads[i].work);
}

size_t parallel_copy_finish(struct parallel_copy *c)
{
    parallel_copy_chunks(c);
    for (int i = 0; i < COPY_CHUNKS;)
        i = parallel_copy_loaded(c, i); /* after a loss nothing has waited for the input */
    while (atomic_load_explicit(&c->chunks_unloaded, memory_order_acquire) < COPY_CHUNKS) relax(c);
    return atomic_exchange_explicit(&c->non_finite, 0, memory_order_relaxed);
}

size_t parallel_copy_overflowed(struct parallel_copy *c)
{
    return atomic_exchange_explicit(&c->overflowed, 0, memory_order_relaxed);
}

int parallel_copy_loaded(struct parallel_copy *c, int from)
{
    while (!atomic_load_explicit(&c->loaded[from], memory_order_acquire)) relax(c);
    while (from < COPY_CHUNKS && atomic_load_explicit(&c->loaded[from], memory_order_acquire)) from++;
    return from;
}

void parallel_copy_done(struct parallel_copy *c, int n_channels)
{
    atomic_store_explicit(&c->outputs_done, n_channels, memory_order_release);
}
