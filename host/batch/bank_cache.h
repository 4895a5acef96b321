/* bank_cache - banks that the workers of a batch share, each ready on a device. A bank is loaded once, and stays until
 * another one needs its memory. */
#ifndef BANK_CACHE_H
#define BANK_CACHE_H

#include "host/moving/moving_options.h"

#include <pthread.h>
#include <stdint.h>

struct cached_bank {
    hc_bank_data data;
    hc_renderer *renderer;
    pthread_mutex_t turn;    /* of the callers of hc_render                                   */
    char *path, *backend;    /* owned                                                         */
    int rate;                /* of the inputs: the bank is resampled to it                    */
    int64_t bytes;
    int users;
    bool loading, failed;    /* failed: why has the reason, for every worker that takes the bank */
    char why[512];
    struct cached_bank *next; /* the one used before                                          */
};

struct bank_cache {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct cached_bank *banks;   /* the last one used first                                   */
    int64_t bytes, bound;
    int n_threads;               /* of a renderer on the CPU                                  */
    const struct moving_settings *settings;
};

/* bound: bytes of all banks; those in use may exceed the bound. settings outlive the cache. */
void bank_cache_open(struct bank_cache *cache, int64_t bound, int n_threads, const struct moving_settings *settings);
void bank_cache_close(struct bank_cache *cache); /* after every bank was given back */

/* The bank at `path`, ready on a backend; the first caller loads it, others wait. NULL: why has the reason. Any
 * thread. */
struct cached_bank *bank_cache_take(struct bank_cache *cache, const char *path, const char *backend, int rate,
                                    char *why, size_t cap);
void bank_cache_give_back(struct bank_cache *cache, struct cached_bank *bank); /* NULL is allowed */

/* hc_render, one caller after another. */
bool cached_bank_render(struct cached_bank *bank, const hc_render_job *jobs, int n, char *why, size_t cap);

#endif
