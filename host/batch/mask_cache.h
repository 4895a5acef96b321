/* mask_cache - decoded masks and noises that the workers share. It keeps those used most recently, within a limit of
 * memory. */
#ifndef MASK_CACHE_H
#define MASK_CACHE_H

#include "dsp/haloconv_masks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct mask_key {
    const char *path;
    int n_in;        /* inputs to route; 0: a noise, which has no routes */
    int rate;        /* of the input: the file is resampled to it */
    bool align;      /* as in mask_cut.h ... */
    double early_ms; /* ... INFINITY: all */
};

struct cached_mask {
    hc_responses responses;
    struct mask_key key;  /* its path is owned */
    int n_frames;         /* of the mask without the cut by early_ms; gives the range of the output */
    int onset;            /* the direct sound's frame before the cut; 0 if neither align nor early_ms is set */
    double t30_s;         /* decay time before the cut, the mean of the channels that have one; NaN: none, unwanted */
    uint64_t serial;      /* no other mask ever has the same */
    int64_t bytes;
    int users;
    bool loading, failed; /* failed: why has the reason, for every worker that takes the mask */
    char why[512];
    TAILQ_ENTRY(cached_mask) use_link;
    LIST_ENTRY(cached_mask) bucket_link;
};

enum { CACHE_BUCKETS = 4096 }; /* by a hash of the path: a list may name as many masks as files */

struct mask_cache {
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    TAILQ_HEAD(, cached_mask) by_use; /* the oldest first */
    LIST_HEAD(cache_bucket, cached_mask) buckets[CACHE_BUCKETS];
    uint64_t n_loaded;
    int64_t bytes, bound;             /* of all masks; those in use may exceed the bound */
    bool finds_t30;
};

/* finds_t30: of each mask that is routed. */
void mask_cache_open(struct mask_cache *cache, int64_t bound, bool finds_t30);
void mask_cache_close(struct mask_cache *cache); /* after every mask was given back */

/* The mask of a key; the first caller loads it, others wait. NULL: why has the reason. Any thread. */
struct cached_mask *mask_cache_take(struct mask_cache *cache, const struct mask_key *key, char *why, size_t cap);
void mask_cache_give_back(struct mask_cache *cache, struct cached_mask *mask);

#endif
