/* cache - masks, noises or banks of a batch, which its workers share. The first worker that needs an entry loads it,
 * and others wait. The entries used most recently stay, within a limit of memory.
 *
 * An entry is a struct of its user that begins with struct cache_entry and a key; struct cache_kind has its functions.
 */
#ifndef BATCH_CACHE_H
#define BATCH_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct cache_entry {
    char *path;           /* owned; belongs to the key                                                        */
    uint64_t serial;      /* unique among all entries, also the freed ones                                    */
    int64_t bytes;        /* set by load                                                                      */
    int users;
    bool loading, failed; /* failed: why has the reason, for every worker that asks for the entry             */
    char why[512];
    TAILQ_ENTRY(cache_entry) use_link;
    LIST_ENTRY(cache_entry) bucket_link;
};

struct cache_kind {
    size_t size;           /* size of an entry                                                                */
    const char *no_memory; /* the reason if there is no memory for an entry                                   */
    void (*init)(struct cache_entry *entry, const void *key); /* copies the key into an entry of zeros        */
    bool (*has_key)(const struct cache_entry *entry, const void *key); /* the path is already compared        */
    bool (*load)(struct cache_entry *entry, const void *settings);     /* false: entry->why has the reason    */
    void (*free)(struct cache_entry *entry);                           /* frees the memory of init and load   */
};

enum { CACHE_BUCKETS = 4096 }; /* chosen by a hash of the path: a list may name as many masks as files */

struct cache {
    const struct cache_kind *kind;
    const void *settings;             /* for load */
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    TAILQ_HEAD(, cache_entry) by_use; /* least recently used first */
    LIST_HEAD(cache_bucket, cache_entry) buckets[CACHE_BUCKETS];
    uint64_t n_loaded;
    int64_t bytes, bound;             /* bytes of all entries, and their limit, which entries in use may exceed */
};

/* kind and settings outlive the cache. */
void cache_open(struct cache *cache, const struct cache_kind *kind, const void *settings, int64_t bound);
void cache_close(struct cache *cache); /* after every entry was released */

/* Returns the entry of a path and a key; the caller releases it. NULL: why has the reason. Any thread. */
void *cache_get(struct cache *cache, const char *path, const void *key, char *why, size_t cap);
void cache_release(struct cache *cache, struct cache_entry *entry); /* NULL is allowed */

#endif
