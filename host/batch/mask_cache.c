#include "mask_cache.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

void mask_cache_open(struct mask_cache *cache, int64_t bound)
{
    *cache = (struct mask_cache){.bound = bound};
    TAILQ_INIT(&cache->by_use);
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->loaded, NULL);
}

static struct cache_bucket *bucket_of(struct mask_cache *cache, const char *path)
{
    uint32_t hash = 0x811c9dc5u; /* FNV-1a */
    for (const char *at = path; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x01000193u;
    return &cache->buckets[hash % CACHE_BUCKETS];
}

static void drop(struct mask_cache *cache, struct cached_mask *mask)
{
    LIST_REMOVE(mask, bucket_link);
    TAILQ_REMOVE(&cache->by_use, mask, use_link);
    cache->bytes -= mask->bytes;
    hc_responses_free(&mask->responses);
    free(mask->path);
    free(mask);
}

/* Under lock: drops the oldest masks that no worker uses, until the others fit. */
static void shrink(struct mask_cache *cache)
{
    struct cached_mask *next;
    for (struct cached_mask *mask = TAILQ_FIRST(&cache->by_use); mask && cache->bytes > cache->bound; mask = next) {
        next = TAILQ_NEXT(mask, use_link);
        if (mask->users == 0) drop(cache, mask);
    }
}

void mask_cache_close(struct mask_cache *cache)
{
    while (!TAILQ_EMPTY(&cache->by_use)) drop(cache, TAILQ_FIRST(&cache->by_use));
    pthread_cond_destroy(&cache->loaded);
    pthread_mutex_destroy(&cache->lock);
}

/* Under lock. */
static struct cached_mask *find(struct mask_cache *cache, const char *path, int n_in, int rate)
{
    struct cached_mask *mask = LIST_FIRST(bucket_of(cache, path));
    while (mask && (mask->n_in != n_in || mask->rate != rate || strcmp(mask->path, path) != 0))
        mask = LIST_NEXT(mask, bucket_link);
    return mask;
}

/* Under lock. NULL: no memory. */
static struct cached_mask *add(struct mask_cache *cache, const char *path, int n_in, int rate)
{
    struct cached_mask *mask = calloc(1, sizeof *mask);
    if (!mask || !(mask->path = strdup(path))) {
        free(mask);
        return NULL;
    }
    mask->n_in = n_in;
    mask->rate = rate;
    mask->serial = ++cache->n_loaded;
    mask->users = 1;
    mask->loading = true;
    LIST_INSERT_HEAD(bucket_of(cache, path), mask, bucket_link);
    TAILQ_INSERT_TAIL(&cache->by_use, mask, use_link);
    return mask;
}

/* Under lock; unlocks while it reads the file. */
static void load(struct mask_cache *cache, struct cached_mask *mask)
{
    pthread_mutex_unlock(&cache->lock);
    bool good = hc_responses_load(mask->path, mask->n_in, mask->rate, 0, &mask->responses, mask->why,
                                  sizeof mask->why) == HC_OK;
    pthread_mutex_lock(&cache->lock);
    mask->failed = !good;
    mask->loading = false;
    mask->bytes = (int64_t)sizeof *mask;
    const hc_responses *taps = &mask->responses; /* a sound file has channels, a configuration responses */
    int64_t floats = (int64_t)taps->n_channels * taps->n_frames + taps->distinct_frames;
    if (good) mask->bytes += floats * (int64_t)sizeof(float);
    cache->bytes += mask->bytes;
    pthread_cond_broadcast(&cache->loaded);
    shrink(cache);
}

struct cached_mask *mask_cache_take(struct mask_cache *cache, const char *path, int n_in, int rate, char *why,
                                    size_t cap)
{
    pthread_mutex_lock(&cache->lock);
    struct cached_mask *mask = find(cache, path, n_in, rate);
    if (mask) {
        mask->users++;
        TAILQ_REMOVE(&cache->by_use, mask, use_link);
        TAILQ_INSERT_TAIL(&cache->by_use, mask, use_link);
        while (mask->loading) pthread_cond_wait(&cache->loaded, &cache->lock);
    } else if ((mask = add(cache, path, n_in, rate))) {
        load(cache, mask);
    } else {
        message_write(why, cap, "%s: no memory for a mask; use a smaller --cache", path);
    }
    if (mask && mask->failed) {
        message_write(why, cap, "%s", mask->why);
        mask->users--;
        mask = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
    return mask;
}

void mask_cache_give_back(struct mask_cache *cache, struct cached_mask *mask)
{
    if (!mask) return;
    pthread_mutex_lock(&cache->lock);
    mask->users--;
    shrink(cache);
    pthread_mutex_unlock(&cache->lock);
}
