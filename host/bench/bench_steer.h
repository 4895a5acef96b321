/* bench_steer - a bank of decaying noise for an engine with steered sources, and requests for random entries of it. */
#ifndef BENCH_STEER_H
#define BENCH_STEER_H

#include "bench_play.h"
#include "dsp/haloconv_scenes.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { STEER_MAX_THREADS = 16 };

struct steer_thread {
    struct steer_bench *bench;
    pthread_t thread;
    sem_t block;           /* posted once a block */
    int first, end;        /* the sources of this thread */
    uint64_t random;
    atomic_llong rounds;   /* how often all of its sources got a request */
};

struct steer_bench {
    hc_engine *engine;
    hc_bank *bank;
    int n_entries, n_sources, n_mix, every;
    int n_threads;         /* 0: the audio thread makes the requests */
    int64_t n_blocks;
    atomic_bool end;
    atomic_int error;      /* HC_OK, or the error of a request */
    struct steer_thread threads[STEER_MAX_THREADS];
};

/* Fills *data with a bank of decaying noise; free it with steer_data_free. Some entries share their response in memory;
 * a device stores each entry. false: no memory. */
bool steer_data_make(hc_bank_data *data, int n_entries, int n_out, int n_taps, uint64_t seed);
void steer_data_free(hc_bank_data *data);

/* Makes the bank, and starts the threads. false: why has the reason. */
bool steer_open(struct steer_bench *bench, hc_engine *engine, const struct bench_shape *shape, char *why, size_t cap);
/* Requests other entries for every source, or wakes the threads that do. It is the call of a struct bench_each. */
void steer_block(void *bench);
/* Returns the smallest number of requests of any source, to compare with n_blocks / every. */
int64_t steer_rounds(struct steer_bench *bench);
/* Ends the threads and frees the bank. Call it before hc_close. */
void steer_close(struct steer_bench *bench);

#endif
