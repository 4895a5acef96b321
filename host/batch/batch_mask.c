#include "batch_mask.h"

#include "dsp/signal/acoustics.h"
#include "host/files/output_range.h"
#include "host/mask_argument.h"
#include "host/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cache -------------------------------------------------------------------------------- */

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

/* ---- masks and noises ------------------------------------------------------------------------- */

enum { EARLY_FADE_MS = 2 };

/* ---- the cut ------------------------------------------------------------------------------------ */

/* Keeps n_frames from frame `first` on, and fades the last n_fade of them. */
static void mask_keep_frames(hc_responses *mask, int first, int n_frames, int n_fade)
{
    for (int ch = 0; ch < mask->n_channels; ch++) {
        float *taps = mask->channel[ch];
        memmove(taps, taps + first, (size_t)n_frames * sizeof *taps);
        for (int i = 0; i < n_fade; i++) taps[n_frames - 1 - i] *= (float)(0.5 - 0.5 * cos(M_PI * (i + 0.5) / n_fade));
    }
    mask->n_frames = n_frames;
    for (int i = 0; i < mask->n_routes; i++) mask->routes[i].n_taps = n_frames;
}

/* Cuts a mask as its key asks. The last EARLY_FADE_MS of the early part, or its second half if that is shorter, fall to
 * 0 as half a cosine. false: the mask is a configuration. */
static bool batch_mask_cut(struct batch_mask *mask)
{
    hc_responses *responses = &mask->responses;
    const struct batch_mask_key *key = &mask->key;
    mask->n_frames = routes_taps(responses->routes, responses->n_routes);
    if (!key->align && isinf(key->early_ms)) return true;
    if (responses->n_channels == 0)
        return message_write(mask->entry.why, sizeof mask->entry.why,
                             "%s: is a configuration; align and early need a sound file or a text", mask->entry.path);
    mask->onset = acoustics_start(responses->channel, responses->n_channels, responses->n_frames);
    int first = key->align ? mask->onset : 0, n_fade = 0;
    int left = mask->n_frames = responses->n_frames - first;
    double early = fmax(round(key->early_ms * key->rate / 1000), 1); /* frames, may be infinite */
    if (mask->onset - first + early < left) {
        left = mask->onset - first + (int)early;
        n_fade = EARLY_FADE_MS * key->rate / 1000;
        if (n_fade > early / 2) n_fade = (int)early / 2;
    }
    mask_keep_frames(responses, first, left, n_fade);
    return true;
}

/* ---- the entries of the cache ------------------------------------------------------------------- */

static void mask_init(struct cache_entry *entry, const void *key)
{
    ((struct batch_mask *)entry)->key = *(const struct batch_mask_key *)key;
}

static bool mask_has_key(const struct cache_entry *entry, const void *key)
{
    const struct batch_mask_key *a = &((const struct batch_mask *)entry)->key, *b = key;
    return a->n_in == b->n_in && a->rate == b->rate && a->align == b->align && a->early_ms == b->early_ms;
}

/* Finds the mean over the channels that have a decay time. A configuration has no channels. */
static bool find_t30(struct batch_mask *mask)
{
    const hc_responses *taps = &mask->responses;
    struct acoustics acoustics;
    double sum = 0;
    int n = 0;
    for (int ch = 0; ch < taps->n_channels; ch++) {
        if (!acoustics_find(&acoustics, taps->channel[ch], taps->n_frames, mask->key.rate, false))
            return message_write(mask->entry.why, sizeof mask->entry.why,
                                 "%s: no memory for its decay time; leave --report out", mask->entry.path);
        double t30_s = acoustics.all.value[ACOUSTIC_T30];
        if (!isnan(t30_s)) sum += t30_s, n++;
    }
    if (n) mask->t30_s = sum / n;
    return true;
}

static bool batch_mask_load(struct cache_entry *entry, const void *finds_t30)
{
    struct batch_mask *mask = (struct batch_mask *)entry;
    const struct batch_mask_key *key = &mask->key;
    hc_responses *taps = &mask->responses;
    entry->bytes = (int64_t)sizeof *mask;
    mask->t30_s = NAN;
    if (hc_responses_load(entry->path, key->n_in, key->rate, 0, taps, entry->why, sizeof entry->why) != HC_OK) {
        mask_argument_explain(entry->path, entry->why, sizeof entry->why);
        return false;
    }
    /* A sound file has only channels, a configuration only responses. */
    entry->bytes += ((int64_t)taps->n_channels * taps->n_frames + taps->distinct_frames) * (int64_t)sizeof(float);
    if (key->n_in == 0) return true;
    if (*(const bool *)finds_t30 && !find_t30(mask)) return false;
    return batch_mask_cut(mask);
}

static void mask_free(struct cache_entry *entry)
{
    hc_responses_free(&((struct batch_mask *)entry)->responses);
}

const struct cache_kind batch_masks = {.size = sizeof(struct batch_mask),
                                       .no_memory = "no memory for a mask; use a smaller --cache",
                                       .init = mask_init,
                                       .has_key = mask_has_key,
                                       .load = batch_mask_load,
                                       .free = mask_free};
