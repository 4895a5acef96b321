#include "mask_cache.h"

#include "host/acoustics/acoustics.h"
#include "host/mask_argument.h"
#include "host/message.h"
#include "mask_cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void mask_cache_open(struct mask_cache *cache, int64_t bound, bool finds_t30)
{
    *cache = (struct mask_cache){.bound = bound, .finds_t30 = finds_t30};
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
    free((char *)mask->key.path);
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

static bool same_key(const struct mask_key *a, const struct mask_key *b)
{
    return a->n_in == b->n_in && a->rate == b->rate && a->align == b->align && a->early_ms == b->early_ms &&
           strcmp(a->path, b->path) == 0;
}

/* Under lock. */
static struct cached_mask *find(struct mask_cache *cache, const struct mask_key *key)
{
    struct cached_mask *mask = LIST_FIRST(bucket_of(cache, key->path));
    while (mask && !same_key(&mask->key, key)) mask = LIST_NEXT(mask, bucket_link);
    return mask;
}

/* Under lock. NULL: no memory. */
static struct cached_mask *add(struct mask_cache *cache, const struct mask_key *key)
{
    struct cached_mask *mask = calloc(1, sizeof *mask);
    char *path = mask ? strdup(key->path) : NULL;
    if (!path) {
        free(mask);
        return NULL;
    }
    mask->key = *key;
    mask->key.path = path;
    mask->serial = ++cache->n_loaded;
    mask->users = 1;
    mask->loading = true;
    LIST_INSERT_HEAD(bucket_of(cache, path), mask, bucket_link);
    TAILQ_INSERT_TAIL(&cache->by_use, mask, use_link);
    return mask;
}

/* The mean of the channels that have one; a configuration has none. */
static bool find_t30(struct cached_mask *mask)
{
    const hc_responses *taps = &mask->responses;
    struct acoustics acoustics;
    double sum = 0;
    int n = 0;
    for (int ch = 0; ch < taps->n_channels; ch++) {
        if (!acoustics_find(&acoustics, taps->channel[ch], taps->n_frames, mask->key.rate, false))
            return message_write(mask->why, sizeof mask->why, "%s: no memory for its decay time; leave --report out",
                                 mask->key.path);
        double t30_s = acoustics.all.value[ACOUSTIC_T30];
        if (!isnan(t30_s)) sum += t30_s, n++;
    }
    if (n) mask->t30_s = sum / n;
    return true;
}

static bool read_file(const struct mask_cache *cache, struct cached_mask *mask)
{
    const struct mask_key *key = &mask->key;
    hc_responses *taps = &mask->responses;
    mask->bytes = (int64_t)sizeof *mask;
    mask->t30_s = NAN;
    if (hc_responses_load(key->path, key->n_in, key->rate, 0, taps, mask->why, sizeof mask->why) != HC_OK) {
        mask_argument_explain(key->path, mask->why, sizeof mask->why);
        return false;
    }
    /* A sound file has channels, a configuration responses. */
    mask->bytes += ((int64_t)taps->n_channels * taps->n_frames + taps->distinct_frames) * (int64_t)sizeof(float);
    if (key->n_in == 0) return true;
    if (cache->finds_t30 && !find_t30(mask)) return false;
    return mask_cut(mask);
}

/* Under lock; unlocks while it reads the file. */
static void load(struct mask_cache *cache, struct cached_mask *mask)
{
    pthread_mutex_unlock(&cache->lock);
    bool good = read_file(cache, mask);
    pthread_mutex_lock(&cache->lock);
    mask->failed = !good;
    mask->loading = false;
    cache->bytes += mask->bytes;
    pthread_cond_broadcast(&cache->loaded);
    shrink(cache);
}

struct cached_mask *mask_cache_take(struct mask_cache *cache, const struct mask_key *key, char *why, size_t cap)
{
    pthread_mutex_lock(&cache->lock);
    struct cached_mask *mask = find(cache, key);
    if (mask) {
        mask->users++;
        TAILQ_REMOVE(&cache->by_use, mask, use_link);
        TAILQ_INSERT_TAIL(&cache->by_use, mask, use_link);
        while (mask->loading) pthread_cond_wait(&cache->loaded, &cache->lock);
    } else if ((mask = add(cache, key))) {
        load(cache, mask);
    } else {
        message_write(why, cap, "%s: no memory for a mask; use a smaller --cache", key->path);
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
