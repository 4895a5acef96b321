#include "cache.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

void cache_open(struct cache *cache, const struct cache_kind *kind, const void *settings, int64_t bound)
{
    *cache = (struct cache){.kind = kind, .settings = settings, .bound = bound};
    TAILQ_INIT(&cache->by_use);
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->loaded, NULL);
}

static struct cache_bucket *bucket_of(struct cache *cache, const char *path)
{
    uint32_t hash = 0x811c9dc5u; /* FNV-1a */
    for (const char *at = path; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x01000193u;
    return &cache->buckets[hash % CACHE_BUCKETS];
}

static void drop(struct cache *cache, struct cache_entry *entry)
{
    LIST_REMOVE(entry, bucket_link);
    TAILQ_REMOVE(&cache->by_use, entry, use_link);
    cache->bytes -= entry->bytes;
    cache->kind->free(entry);
    free(entry->path);
    free(entry);
}

void cache_close(struct cache *cache)
{
    while (!TAILQ_EMPTY(&cache->by_use)) drop(cache, TAILQ_FIRST(&cache->by_use));
    pthread_cond_destroy(&cache->loaded);
    pthread_mutex_destroy(&cache->lock);
}

/* Under lock: drops the oldest entries that no worker uses, until the others fit. */
static void shrink(struct cache *cache)
{
    struct cache_entry *next;
    for (struct cache_entry *entry = TAILQ_FIRST(&cache->by_use); entry && cache->bytes > cache->bound; entry = next) {
        next = TAILQ_NEXT(entry, use_link);
        if (entry->users == 0) drop(cache, entry);
    }
}

/* Under lock. */
static struct cache_entry *entry_find(struct cache *cache, const char *path, const void *key)
{
    struct cache_entry *entry = LIST_FIRST(bucket_of(cache, path));
    while (entry && !(strcmp(entry->path, path) == 0 && cache->kind->has_key(entry, key)))
        entry = LIST_NEXT(entry, bucket_link);
    return entry;
}

/* Makes an entry, under lock. NULL: no memory. */
static struct cache_entry *entry_make(struct cache *cache, const char *path, const void *key)
{
    struct cache_entry *entry = calloc(1, cache->kind->size);
    char *copy = entry ? strdup(path) : NULL;
    if (!copy) {
        free(entry);
        return NULL;
    }
    cache->kind->init(entry, key);
    entry->path = copy;
    entry->serial = ++cache->n_loaded;
    entry->loading = true;
    LIST_INSERT_HEAD(bucket_of(cache, path), entry, bucket_link);
    TAILQ_INSERT_TAIL(&cache->by_use, entry, use_link);
    return entry;
}

/* Loads an entry. Call it under lock; it unlocks while it loads. */
static void entry_load(struct cache *cache, struct cache_entry *entry)
{
    pthread_mutex_unlock(&cache->lock);
    bool good = cache->kind->load(entry, cache->settings);
    pthread_mutex_lock(&cache->lock);
    entry->failed = !good;
    entry->loading = false;
    cache->bytes += entry->bytes;
    pthread_cond_broadcast(&cache->loaded);
    shrink(cache);
}

void *cache_get(struct cache *cache, const char *path, const void *key, char *why, size_t cap)
{
    pthread_mutex_lock(&cache->lock);
    struct cache_entry *entry = entry_find(cache, path, key);
    bool is_new = !entry;
    if (is_new) entry = entry_make(cache, path, key);
    if (entry) {
        entry->users++;
        TAILQ_REMOVE(&cache->by_use, entry, use_link);
        TAILQ_INSERT_TAIL(&cache->by_use, entry, use_link);
        if (is_new) entry_load(cache, entry);
        while (entry->loading) pthread_cond_wait(&cache->loaded, &cache->lock);
    } else {
        message_write(why, cap, "%s: %s", path, cache->kind->no_memory);
    }
    if (entry && entry->failed) {
        message_write(why, cap, "%s", entry->why);
        entry->users--;
        entry = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

void cache_release(struct cache *cache, struct cache_entry *entry)
{
    if (!entry) return;
    pthread_mutex_lock(&cache->lock);
    entry->users--;
    shrink(cache);
    pthread_mutex_unlock(&cache->lock);
}
