#include "bench_steer.h"

#include "host/message.h"
#include "host/splitmix64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 256 }; /* different responses */

bool steer_data_make(hc_bank_data *data, int n_entries, int n_out, int n_taps, uint64_t seed)
{
    size_t n_rows = (size_t)n_entries * (size_t)n_out, pool = n_rows < POOL ? n_rows : POOL;
    float *taps = malloc(pool * (size_t)n_taps * sizeof *taps);
    const float **rows = malloc(n_rows * sizeof *rows);
    *data = (hc_bank_data){.size = sizeof *data, .n_entries = n_entries, .n_out = n_out, .n_taps = n_taps};
    if (!taps || !rows) {
        free(taps);
        free(rows);
        return false;
    }
    double fall = exp(-6.9 / n_taps); /* falls by 60 dB in all */
    uint32_t state = (uint32_t)splitmix64(seed);
    for (size_t r = 0; r < pool; r++) {
        double level = sqrt(2 * 6.9 / n_taps); /* gives an energy of about a third */
        for (int k = 0; k < n_taps; k++, level *= fall) {
            state = state * 1664525u + 1013904223u;
            taps[r * (size_t)n_taps + (size_t)k] = (float)(level * ((double)state / 2147483648.0 - 1));
        }
    }
    for (size_t r = 0; r < n_rows; r++) rows[r] = taps + (r < pool ? r : splitmix64(seed + r) % pool) * (size_t)n_taps;
    data->taps = rows;
    data->memory = taps;
    return true;
}

void steer_data_free(hc_bank_data *data)
{
    free(data->memory);
    free((void *)data->taps);
}

static void steer_some(struct steer_bench *b, int first, int end, uint64_t *random)
{
    float weights[HC_MAX_MIX];
    int entries[HC_MAX_MIX];
    for (int m = 0; m < b->n_mix; m++) weights[m] = 1.0f / (float)b->n_mix;
    for (int source = first; source < end; source++) {
        uint64_t r = splitmix64(*random += SPLITMIX64_STEP);
        for (int m = 0; m < b->n_mix; m++, r >>= 16)
            entries[m] = (int)(((r & 0xffffff) * (uint64_t)b->n_entries) >> 24);
        int code = hc_steer(b->engine, source, b->bank, entries, weights, b->n_mix);
        if (code != HC_OK) atomic_store(&b->error, code);
    }
}

static void *steer_run(void *arg)
{
    struct steer_thread *t = arg;
    for (;;) {
        while (sem_wait(&t->block) != 0) continue;
        if (atomic_load(&t->bench->end)) return NULL;
        steer_some(t->bench, t->first, t->end, &t->random);
        atomic_fetch_add(&t->rounds, 1);
    }
}

void steer_block(void *arg)
{
    struct steer_bench *b = arg;
    if (b->n_blocks++ % b->every) return;
    if (!b->n_threads) {
        steer_some(b, 0, b->n_sources, &b->threads[0].random);
        atomic_fetch_add_explicit(&b->threads[0].rounds, 1, memory_order_relaxed);
    }
    for (int i = 0; i < b->n_threads; i++) sem_post(&b->threads[i].block);
}

bool steer_open(struct steer_bench *b, hc_engine *engine, const struct bench_shape *shape, char *why, size_t cap)
{
    hc_bank_data data;
    b->engine = engine;
    b->n_sources = shape->n_sources;
    b->n_blocks = 0;
    b->bank = NULL;
    atomic_store(&b->end, false);
    atomic_store(&b->error, HC_OK);
    memset(b->threads, 0, sizeof b->threads);
    int wanted = b->n_threads;
    b->n_threads = 0;
    if (!steer_data_make(&data, b->n_entries, shape->n_out, shape->taps, shape->seed))
        return message_write(why, cap, "bench: no memory for a bank of %d entries; use fewer", b->n_entries);
    int code = hc_bank_make(engine, &data, &b->bank, why, cap);
    steer_data_free(&data);
    if (code != HC_OK) return false;
    for (int i = 0; i < (wanted ? wanted : 1); i++) {
        struct steer_thread *t = &b->threads[i];
        t->bench = b;
        t->random = splitmix64(shape->seed + (uint64_t)i);
        t->first = (int)((int64_t)b->n_sources * i / (wanted ? wanted : 1));
        t->end = (int)((int64_t)b->n_sources * (i + 1) / (wanted ? wanted : 1));
        if (!wanted) break;
        sem_init(&t->block, 0, 0);
        if (pthread_create(&t->thread, NULL, steer_run, t) != 0) {
            steer_close(b);
            return message_write(why, cap, "bench: no thread for requests; use fewer --steer-threads");
        }
        b->n_threads++;
    }
    uint64_t seed = shape->seed;
    steer_some(b, 0, b->n_sources, &seed);
    return true;
}

int64_t steer_rounds(struct steer_bench *b)
{
    int64_t min = atomic_load(&b->threads[0].rounds);
    for (int i = 1; i < b->n_threads; i++) {
        int64_t rounds = atomic_load(&b->threads[i].rounds);
        if (rounds < min) min = rounds;
    }
    return min;
}

void steer_close(struct steer_bench *b)
{
    atomic_store(&b->end, true);
    for (int i = 0; i < b->n_threads; i++) sem_post(&b->threads[i].block);
    for (int i = 0; i < b->n_threads; i++) {
        pthread_join(b->threads[i].thread, NULL);
        sem_destroy(&b->threads[i].block);
    }
    b->n_threads = 0;
    hc_bank_free(b->bank);
    b->bank = NULL;
}
