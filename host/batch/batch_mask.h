/* batch_mask - the masks and noises of a batch, as the entries of a cache: resampled, and cut at their direct sound.
 *
 *   |h|            direct sound          the first frame at which a channel is within 20 dB of the peak of all
 *    |  silence   |\ early               channels (as in ISO 3382-1)
 *    |____________| \____ .......
 *    0          onset    onset + early_ms
 *    <-- align -->          <-- early -->
 */
#ifndef BATCH_MASK_H
#define BATCH_MASK_H

#include "dsp/haloconv_masks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* ---- the cache -------------------------------------------------------------------------------- */

/* Masks, noises or banks of a batch, which its workers share. The first worker that needs an entry loads it,
 * and others wait. The entries used most recently stay, within a limit of memory.
 *
 * An entry is a struct of its user that begins with struct cache_entry and a key; struct cache_kind has its functions.
 */

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

/* ---- masks and noises ------------------------------------------------------------------------- */

struct batch_mask_key {
    int n_in;        /* inputs to route; 0: a noise, which has no routes */
    int rate;        /* rate of the input: the file is resampled to this rate */
    bool align;      /* leave out the frames in front of the direct sound */
    double early_ms; /* keep so much of the mask after the direct sound; INFINITY: all */
};

struct batch_mask {
    struct cache_entry entry;
    struct batch_mask_key key;
    hc_responses responses;
    int n_frames; /* length of the mask without the cut by early_ms; sets the range of the output */
    int onset;    /* the direct sound's frame before the cut; 0 if neither align nor early_ms is set */
    double t30_s; /* decay time before the cut: mean of the channels that have one; NaN: unknown or not wanted */
};

/* The settings of the cache are a bool: true if a load finds the decay time of a routed mask. */
extern const struct cache_kind batch_masks;

#endif
