#include "mask_shelf.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

void mask_shelf_open(struct mask_shelf *shelf, int64_t bound)
{
    *shelf = (struct mask_shelf){.bound = bound};
    pthread_mutex_init(&shelf->lock, NULL);
    pthread_cond_init(&shelf->loaded, NULL);
}

static void unlink_mask(struct mask_shelf *shelf, struct shelf_mask *mask)
{
    *(mask->older ? &mask->older->newer : &shelf->oldest) = mask->newer;
    *(mask->newer ? &mask->newer->older : &shelf->newest) = mask->older;
}

static void put_newest(struct mask_shelf *shelf, struct shelf_mask *mask)
{
    mask->older = shelf->newest;
    mask->newer = NULL;
    *(shelf->newest ? &shelf->newest->newer : &shelf->oldest) = mask;
    shelf->newest = mask;
}

static struct shelf_mask **row_of(struct mask_shelf *shelf, const char *path)
{
    uint32_t hash = 0x811c9dc5u; /* FNV-1a */
    for (const char *at = path; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x01000193u;
    return &shelf->rows[hash % SHELF_ROWS];
}

static void drop(struct mask_shelf *shelf, struct shelf_mask *mask)
{
    struct shelf_mask **link = row_of(shelf, mask->path);
    while (*link != mask) link = &(*link)->next;
    *link = mask->next;
    unlink_mask(shelf, mask);
    shelf->bytes -= mask->bytes;
    hc_responses_free(&mask->responses);
    free(mask->path);
    free(mask);
}

/* Under lock: the oldest that nobody uses go until the rest fits. */
static void make_room(struct mask_shelf *shelf)
{
    for (struct shelf_mask *mask = shelf->oldest, *next; mask && shelf->bytes > shelf->bound; mask = next) {
        next = mask->newer;
        if (mask->users == 0) drop(shelf, mask);
    }
}

void mask_shelf_close(struct mask_shelf *shelf)
{
    while (shelf->oldest) drop(shelf, shelf->oldest);
    pthread_cond_destroy(&shelf->loaded);
    pthread_mutex_destroy(&shelf->lock);
}

static struct shelf_mask *find(struct mask_shelf *shelf, const char *path, int n_in, int rate)
{
    for (struct shelf_mask *mask = *row_of(shelf, path); mask; mask = mask->next)
        if (mask->n_in == n_in && mask->rate == rate && strcmp(mask->path, path) == 0) return mask;
    return NULL;
}

/* Under lock, which is free while the file is read. */
static void load(struct mask_shelf *shelf, struct shelf_mask *mask)
{
    pthread_mutex_unlock(&shelf->lock);
    bool good = hc_responses_load(mask->path, mask->n_in, mask->rate, 0, &mask->responses, mask->why,
                                  sizeof mask->why) == HC_OK;
    pthread_mutex_lock(&shelf->lock);
    mask->failed = !good;
    mask->loading = false;
    mask->bytes = (int64_t)sizeof *mask;
    const hc_responses *taps = &mask->responses; /* of a sound file by channels, of a configuration by responses */
    int64_t floats = (int64_t)taps->n_channels * taps->n_frames + taps->distinct_frames;
    if (good) mask->bytes += floats * (int64_t)sizeof(float);
    shelf->bytes += mask->bytes;
    pthread_cond_broadcast(&shelf->loaded);
    make_room(shelf);
}

struct shelf_mask *mask_shelf_take(struct mask_shelf *shelf, const char *path, int n_in, int rate, char *why,
                                   size_t cap)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_mask *mask = find(shelf, path, n_in, rate);
    if (mask) {
        mask->users++;
        unlink_mask(shelf, mask);
        put_newest(shelf, mask);
        while (mask->loading) pthread_cond_wait(&shelf->loaded, &shelf->lock);
    } else {
        mask = calloc(1, sizeof *mask);
        char *copy = strdup(path);
        if (!mask || !copy) {
            pthread_mutex_unlock(&shelf->lock);
            free(mask);
            free(copy);
            message_write(why, cap, "%s: no memory for a mask; use a smaller --cache", path);
            return NULL;
        }
        *mask = (struct shelf_mask){
            .path = copy, .n_in = n_in, .rate = rate, .serial = ++shelf->n_loaded, .users = 1, .loading = true};
        struct shelf_mask **row = row_of(shelf, path);
        mask->next = *row;
        *row = mask;
        put_newest(shelf, mask);
        load(shelf, mask);
    }
    bool good = !mask->failed;
    if (!good) {
        message_write(why, cap, "%s", mask->why);
        mask->users--;
    }
    pthread_mutex_unlock(&shelf->lock);
    return good ? mask : NULL;
}

void mask_shelf_give_back(struct mask_shelf *shelf, struct shelf_mask *mask)
{
    if (!mask) return;
    pthread_mutex_lock(&shelf->lock);
    mask->users--;
    make_room(shelf);
    pthread_mutex_unlock(&shelf->lock);
}
