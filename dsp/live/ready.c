#include "ready.h"

#include "compare.h"
#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/device/backend.h"
#include "live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSE_BLOCKS = 2 /* a call of the audio thread catches up on so many */ };
_Static_assert((int)MAX_READY < (int)NUMBER_MASK, "the number of a ready mask fits into hc_live.ready.wanted");

int ready_number(const hc_live *l, const struct ready_mask *mask)
{
    return mask ? (int)(mask - l->ready.masks) + 1 : 0;
}

static struct ready_mask *mask_of(hc_live *l, uint64_t wanted)
{
    int number = (int)(wanted & NUMBER_MASK);
    return number ? &l->ready.masks[number - 1] : NULL;
}

void ready_paths_lock(struct ready *r)
{
    while (atomic_flag_test_and_set_explicit(&r->paths_lock, memory_order_acquire)) sched_yield();
}

void ready_paths_unlock(struct ready *r)
{
    atomic_flag_clear_explicit(&r->paths_lock, memory_order_release);
}

/* ---- requests ---------------------------------------------------------------------------------- */

struct ready_mask *ready_find(hc_live *l, const char *path)
{
    for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY && path[0]; m++)
        if (strcmp(m->path, path) == 0) return m;
    return NULL;
}

/* Under paths_lock. */
static void want(hc_live *l, const struct ready_mask *mask)
{
    uint64_t count = (atomic_load_explicit(&l->ready.wanted, memory_order_relaxed) >> WANTED_BITS) + 1;
    atomic_store_explicit(&l->ready.wanted, count << WANTED_BITS | (unsigned)ready_number(l, mask),
                          memory_order_release);
}

/* false: the path has no ready mask, or its mask plays already and has to be loaded again. Under paths_lock. */
static bool ask(hc_live *l, const char *path, uint64_t number)
{
    struct ready_mask *mask = ready_find(l, path);
    if (!mask || mask_of(l, atomic_load_explicit(&l->ready.wanted, memory_order_relaxed)) == mask) return false;
    want(l, mask);
    l->ready.number = number;
    return true;
}

bool ready_request(hc_live *l, const char *path, uint64_t number)
{
    if (atomic_flag_test_and_set_explicit(&l->ready.paths_lock, memory_order_acquire)) return false;
    bool is_asked = ask(l, path, number);
    if (is_asked) text_mailbox_clear(&l->mask);
    ready_paths_unlock(&l->ready);
    return is_asked;
}

/* ---- audio thread ------------------------------------------------------------------------------ */

/* The ready thread has an engine for at most the time of a block, unless the system stops that thread: a longer wait
 * would not help then. */
static struct failover *await_engine(hc_live *l, struct ready_mask *mask)
{
    bool freewheels = atomic_load_explicit(&l->freewheels, memory_order_relaxed);
    uint64_t format = atomic_load_explicit(&l->format, memory_order_relaxed);
    int64_t block_ns = 1000000000LL * format_block(format) / format_rate(format);
    int64_t until = now_ns() + (freewheels ? 1000000000LL : block_ns / 8);
    struct failover *f;
    while (!(f = atomic_exchange_explicit(&mask->waiting, NULL, memory_order_acquire)) && now_ns() < until)
        freewheels ? (void)sched_yield() : cpu_relax();
    return f;
}

static bool is_at_home(const struct failover *f, const struct ready_mask *mask)
{
    return f && atomic_load_explicit(&f->home, memory_order_relaxed) == mask;
}

struct failover *ready_take(hc_live *l)
{
    struct ready *r = &l->ready;
    uint64_t wanted = atomic_load_explicit(&r->wanted, memory_order_acquire);
    struct ready_mask *mask = mask_of(l, wanted);
    struct failover *f = NULL;
    if (wanted == r->taken) return NULL;
    if (mask) f = is_at_home(l->playing, mask) ? l->playing : is_at_home(l->joining, mask) ? l->joining : NULL;
    if (mask && !f) {
        f = await_engine(l, mask);
        if (!f) return NULL; /* the next call tries again */
        int rate = format_rate(atomic_load_explicit(&l->format, memory_order_relaxed));
        if (f->config.rate != rate || f->begin != atomic_load_explicit(&l->history_begin, memory_order_relaxed) ||
            atomic_load_explicit(&f->cannot_follow, memory_order_relaxed)) { /* the worker makes another */
            atomic_store_explicit(&mask->waiting, f, memory_order_release);
            return NULL;
        }
    }
    r->taken = wanted;
    return f;
}

bool ready_is_newer(const hc_live *l, const struct failover *f)
{
    return l->ready.taken >> WANTED_BITS > f->order >> WANTED_BITS;
}

bool ready_put(struct failover *f)
{
    struct ready_mask *mask = atomic_load_explicit(&f->home, memory_order_relaxed);
    if (!mask) return false;
    int64_t at = atomic_load_explicit(&mask->at, memory_order_relaxed);
    if (at > 0) atomic_compare_exchange_strong(&mask->at, &at, f->main.at + 1); /* unless it is dropped meanwhile */
    atomic_store_explicit(&mask->waiting, f, memory_order_release);
    return true;
}

void ready_wake(hc_live *l)
{
    if (!atomic_load_explicit(&l->ready.has_thread, memory_order_relaxed)) return;
    priority_lead(&l->ready.priority);
    sem_post(&l->ready.wake);
}

int ready_count(const hc_live *l)
{
    int n = 0;
    uint64_t format = atomic_load_explicit(&l->format, memory_order_relaxed);
    int64_t close = input_history_end(&l->history) - (int64_t)CLOSE_BLOCKS * format_block(format);
    int wanted = (int)(atomic_load_explicit(&l->ready.wanted, memory_order_relaxed) & NUMBER_MASK);
    for (const struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++) {
        int64_t at = atomic_load_explicit(&m->at, memory_order_relaxed);
        n += at > 0 && (ready_number(l, m) == wanted || at > close);
    }
    return n;
}

/* ---- the ready thread -------------------------------------------------------------------------- */

/* Lets an engine that waits process a block. Returns whether there is more to do for it at once. */
static bool follow_block(hc_live *l, struct ready_mask *mask)
{
    struct ready *r = &l->ready;
    bool more = false;
    int64_t at = atomic_load_explicit(&mask->at, memory_order_relaxed);
    int64_t behind = input_history_end(&l->history) - (at - 1);
    bool is_wanted = mask_of(l, atomic_load_explicit(&r->wanted, memory_order_relaxed)) == mask;
    int64_t close = (int64_t)CLOSE_BLOCKS * format_block(atomic_load_explicit(&l->format, memory_order_relaxed));
    if (at == 0 || behind <= (is_wanted ? close : 0)) return false; /* the audio thread is about to take it */
    pthread_mutex_lock(&r->lock);
    struct failover *f = atomic_exchange_explicit(&mask->waiting, NULL, memory_order_acquire);
    if (f) {
        bool is_valid = atomic_load(&l->history_begin) == f->begin;
        int64_t from = f->main.at;
        bool could = !atomic_load(&f->cannot_follow);
        more = is_valid && failover_follow(f);
        if (could && atomic_load(&f->cannot_follow)) atomic_store(&l->has_work, true);
        int64_t to = f->main.at;
        if (is_valid && could && to > from) compare_measure(l, f, f->main.discarded, (int)(to - from));
        atomic_store_explicit(&mask->waiting, f, memory_order_release);
        atomic_compare_exchange_strong(&mask->at, &at, to + 1); /* unless it was dropped */
    }
    pthread_mutex_unlock(&r->lock);
    return more;
}

static void *ready_thread(void *arg)
{
    hc_live *l = arg;
    int followed = 0;
    denormals_off();
    while (!atomic_load(&l->ready.end)) {
        priority_follow(&l->ready.priority, &followed);
        for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++)
            while (!atomic_load(&l->ready.end) && follow_block(l, m)) continue;
        while (sem_wait(&l->ready.wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static bool thread_start(hc_live *l)
{
    struct ready *r = &l->ready;
    if (atomic_load(&r->has_thread)) return true;
    bool starts = pthread_create(&r->thread, NULL, ready_thread, l) == 0;
    atomic_store(&r->has_thread, starts);
    return starts;
}

/* ---- workers ----------------------------------------------------------------------------------- */

bool ready_note(hc_live *l, struct ready_mask **mask, uint64_t *mask_number, char *path, uint64_t *number)
{
    struct ready *r = &l->ready;
    ready_paths_lock(r);
    bool is_there = text_mailbox_take(&l->mask, path, number);
    bool loads = is_there && !ask(l, path, *number); /* false: the mask has become ready */
    uint64_t wanted = atomic_load(&r->wanted);
    *mask = wanted != r->noted ? mask_of(l, wanted) : NULL;
    *mask_number = r->number;
    r->noted = wanted;
    ready_paths_unlock(r);
    return loads;
}

/* Under paths_lock. */
static bool supersede(hc_live *l, const struct ready_mask *mask)
{
    struct ready *r = &l->ready;
    if (atomic_load(&r->wanted) != r->noted) return false;
    want(l, mask);
    r->noted = atomic_load(&r->wanted);
    return true;
}

/* Under paths_lock. */
static void hide(hc_live *l, struct ready_mask *m)
{
    m->path[0] = '\0';
    atomic_store(&m->at, 0);
    compare_renew(l);
}

bool ready_supersede(hc_live *l, const struct ready_mask *mask, struct ready_mask *gone)
{
    ready_paths_lock(&l->ready);
    bool good = supersede(l, mask);
    if (good && gone) hide(l, gone);
    ready_paths_unlock(&l->ready);
    return good;
}

struct ready_mask *ready_add(hc_live *l, const char *path, struct failover *f, const struct engine_format *format,
                             const struct file_id *file, bool plays, hc_responses *responses)
{
    struct ready_mask *m = l->ready.masks, *end = m + MAX_READY;
    while (m < end && m->engine) m++;
    if (m == end || !thread_start(l)) return NULL;
    m->engine = f;
    m->is_dropped = false;
    m->format = *format;
    m->file = *file;
    if (responses) m->responses = *responses;
    int64_t at = 1 + (plays ? input_history_end(&l->history) : f->main.at);
    atomic_store(&f->home, m);
    if (!plays) atomic_store_explicit(&m->waiting, f, memory_order_release);
    ready_paths_lock(&l->ready);
    memcpy(m->path, path, strlen(path) + 1);
    if (plays) supersede(l, m);
    atomic_store(&m->at, at);
    compare_renew(l);
    ready_paths_unlock(&l->ready);
    sem_post(&l->ready.wake);
    return m;
}

static void close_if_waiting(hc_live *l, struct ready_mask *m)
{
    pthread_mutex_lock(&l->ready.lock); /* the ready thread has put its engine back */
    struct failover *f = atomic_exchange_explicit(&m->waiting, NULL, memory_order_acquire);
    pthread_mutex_unlock(&l->ready.lock);
    if (!f) return; /* it plays */
    live_close_engine(l, f);
    m->engine = NULL;
}

bool ready_drop(hc_live *l, struct ready_mask *m)
{
    ready_paths_lock(&l->ready);
    uint64_t wanted = atomic_load(&l->ready.wanted);
    bool is_asked = wanted != l->ready.noted && mask_of(l, wanted) == m;
    if (!is_asked) hide(l, m);
    ready_paths_unlock(&l->ready);
    if (is_asked) return false;
    m->is_dropped = true;
    hc_responses_free(&m->responses);
    m->responses = (hc_responses){0};
    close_if_waiting(l, m);
    return true;
}

void ready_sweep(hc_live *l)
{
    for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++)
        if (m->engine && m->is_dropped) close_if_waiting(l, m);
}

void ready_reset(hc_live *l, int64_t begin)
{
    pthread_mutex_lock(&l->ready.lock);
    for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++) {
        struct failover *f = atomic_load(&m->waiting);
        if (!f) continue;
        failover_reset(f);
        f->begin = begin;
        if (atomic_load(&m->at) > 0) atomic_store(&m->at, f->main.at + 1);
    }
    pthread_mutex_unlock(&l->ready.lock);
}

bool ready_list_take(hc_live *l)
{
    struct ready_list *list = atomic_exchange(&l->ready.next, NULL);
    if (!list) return false;
    free(l->ready.list);
    l->ready.list = list;
    return true;
}

static uint64_t responses_bytes(const hc_responses *responses)
{
    if (responses->n_channels > 0)
        return (uint64_t)responses->n_channels * (uint64_t)responses->n_frames * sizeof(float);
    return (uint64_t)responses->distinct_frames * sizeof(float);
}

uint64_t ready_bytes(const hc_live *l)
{
    uint64_t bytes = 0;
    for (const struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++)
        if (m->engine && !m->is_dropped) bytes += failover_memory(m->engine) + responses_bytes(&m->responses);
    return bytes;
}

void ready_open(hc_live *l)
{
    struct ready *r = &l->ready;
    atomic_flag_clear(&r->paths_lock);
    sem_init(&r->wake, 0, 0);
    pthread_mutex_init(&r->lock, NULL);
}

void ready_close(hc_live *l)
{
    struct ready *r = &l->ready;
    atomic_store(&r->end, true);
    if (atomic_load(&r->has_thread)) {
        sem_post(&r->wake);
        pthread_join(r->thread, NULL);
    }
    for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++) {
        live_close_engine(l, atomic_exchange(&m->waiting, NULL));
        hc_responses_free(&m->responses);
    }
    free(atomic_exchange(&r->next, NULL));
    free(r->list);
    sem_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
}
