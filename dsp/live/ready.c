#include "ready.h"

#include "dsp/base/await.h"
#include "dsp/base/denormals.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { CLOSE_BLOCKS = 2 /* blocks of history that one call of the audio thread can process */ };
_Static_assert((int)MAX_READY < (int)NUMBER_MASK, "the number of a ready mask fits into ready.wanted");

static int ready_number_of(const struct ready *r, const struct ready_mask *mask)
{
    return mask ? (int)(mask - r->masks) + 1 : 0;
}

static struct ready_mask *ready_mask_of(struct ready *r, uint64_t wanted)
{
    int number = (int)(wanted & NUMBER_MASK);
    return number ? &r->masks[number - 1] : NULL;
}

/* Locks for a worker, which yields the processor while it waits. */
static void paths_lock(struct ready *r)
{
    while (atomic_flag_test_and_set_explicit(&r->paths_lock, memory_order_acquire)) sched_yield();
}

static void paths_unlock(struct ready *r)
{
    atomic_flag_clear_explicit(&r->paths_lock, memory_order_release);
}

/* ---- requests ---------------------------------------------------------------------------------- */

struct ready_mask *ready_find(struct ready *r, const char *path)
{
    for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY && path[0]; m++)
        if (strcmp(m->path, path) == 0) return m;
    return NULL;
}

/* Makes this mask the wanted one. Under paths_lock. */
static void ready_want(struct ready *r, const struct ready_mask *mask)
{
    uint64_t count = (atomic_load_explicit(&r->wanted, memory_order_relaxed) >> NUMBER_BITS) + 1;
    atomic_store_explicit(&r->wanted, count << NUMBER_BITS | (unsigned)ready_number_of(r, mask), memory_order_release);
}

/* Requests a ready mask. false: no mask has the path, or the mask plays and must be loaded again. Under paths_lock. */
static bool ready_ask(struct ready *r, const char *path, uint64_t number)
{
    struct ready_mask *mask = ready_find(r, path);
    if (!mask || ready_mask_of(r, atomic_load_explicit(&r->wanted, memory_order_relaxed)) == mask) return false;
    ready_want(r, mask);
    r->number = number;
    return true;
}

void ready_request(struct ready *r, const char *path, uint64_t number)
{
    bool is_asked = false;
    if (!atomic_flag_test_and_set_explicit(&r->paths_lock, memory_order_acquire)) {
        is_asked = ready_ask(r, path, number);
        if (is_asked) mailbox_remove(&r->loads, 0, NULL);
        paths_unlock(r);
    }
    if (!is_asked) text_request_put(&r->loads, path, number);
}

/* ---- audio thread ------------------------------------------------------------------------------ */

/* Waits for an engine, which the ready thread has for at most a block's time unless the system stops it: a longer wait
 * would not help then. */
static struct live_engine *await_engine(struct ready *r, struct ready_mask *mask)
{
    bool freewheels = stream_freewheels(r->stream);
    int64_t block_ns = 1000000000LL * stream_block(r->stream) / stream_rate(r->stream);
    int64_t until = now_ns() + (freewheels ? 1000000000LL : block_ns / 8);
    struct live_engine *e;
    while (!(e = atomic_exchange_explicit(&mask->waiting, NULL, memory_order_acquire)) && now_ns() < until)
        freewheels ? (void)sched_yield() : cpu_relax();
    return e;
}

static bool belongs_to(const struct ready *r, struct live_engine *e, const struct ready_mask *mask)
{
    return e && atomic_load_explicit(&e->number, memory_order_relaxed) == ready_number_of(r, mask);
}

struct live_engine *ready_dequeue(struct ready *r, struct live_engine *playing, struct live_engine *joining)
{
    uint64_t wanted = atomic_load_explicit(&r->wanted, memory_order_acquire);
    struct ready_mask *mask = ready_mask_of(r, wanted);
    struct live_engine *e = NULL;
    if (wanted == r->obeyed) return NULL;
    if (mask) e = belongs_to(r, playing, mask) ? playing : belongs_to(r, joining, mask) ? joining : NULL;
    if (mask && !e) {
        e = await_engine(r, mask);
        if (!e) return NULL; /* the next call tries again */
        if (e->failover->config.rate != stream_rate(r->stream) ||
            e->begin != atomic_load_explicit(&r->stream->begin, memory_order_relaxed) ||
            atomic_load_explicit(&e->failover->cannot_follow, memory_order_relaxed)) { /* a worker makes another */
            atomic_store_explicit(&mask->waiting, e, memory_order_release);
            return NULL;
        }
    }
    r->obeyed = wanted;
    return e;
}

bool ready_is_newer(const struct ready *r, const struct live_engine *e)
{
    return r->obeyed >> NUMBER_BITS > e->order >> NUMBER_BITS;
}

bool ready_put(struct ready *r, struct live_engine *e)
{
    struct ready_mask *mask = ready_mask_of(r, (uint64_t)atomic_load_explicit(&e->number, memory_order_relaxed));
    if (!mask) return false;
    int64_t at = atomic_load_explicit(&mask->at, memory_order_relaxed);
    /* This fails if the mask was dropped meanwhile: */
    if (at > 0) atomic_compare_exchange_strong(&mask->at, &at, e->failover->main.at + 1);
    atomic_store_explicit(&mask->waiting, e, memory_order_release);
    return true;
}

void ready_wake(struct ready *r)
{
    if (!atomic_load_explicit(&r->has_thread, memory_order_relaxed)) return;
    priority_lead(&r->priority);
    sem_post(&r->wake);
}

void ready_get_stats(const struct ready *r, hc_live_stats *stats)
{
    int64_t close = input_history_end(&r->stream->history) - (int64_t)CLOSE_BLOCKS * stream_block(r->stream);
    int wanted = (int)(atomic_load_explicit(&r->wanted, memory_order_relaxed) & NUMBER_MASK);
    stats->ready = 0;
    for (const struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++) {
        int64_t at = atomic_load_explicit(&m->at, memory_order_relaxed);
        stats->ready += at > 0 && (ready_number_of(r, m) == wanted || at > close);
    }
    compare_get_stats(&r->compare, wanted, stats);
}

/* ---- the ready thread -------------------------------------------------------------------------- */

/* Lets an engine that waits process a block. Returns true if it can process another block at once. */
static bool follow_block(struct ready *r, struct ready_mask *mask)
{
    bool more = false;
    int64_t at = atomic_load_explicit(&mask->at, memory_order_relaxed);
    int64_t behind = input_history_end(&r->stream->history) - (at - 1);
    bool is_wanted = ready_mask_of(r, atomic_load_explicit(&r->wanted, memory_order_relaxed)) == mask;
    int64_t close = (int64_t)CLOSE_BLOCKS * stream_block(r->stream);
    if (at == 0 || behind <= (is_wanted ? close : 0))
        return false; /* without new input, or the audio thread is
                                                                          about to dequeue the engine */
    pthread_mutex_lock(&r->lock);
    struct live_engine *e = atomic_exchange_explicit(&mask->waiting, NULL, memory_order_acquire);
    if (e) {
        struct failover *f = e->failover;
        bool is_valid = atomic_load(&r->stream->begin) == e->begin, could = !atomic_load(&f->cannot_follow);
        live_engine_forget(e);
        int64_t from = f->main.at;
        more = is_valid && failover_follow(f);
        if (could && atomic_load(&f->cannot_follow)) atomic_store(r->has_work, true);
        int64_t to = f->main.at;
        if (is_valid && could && to > from)
            compare_measure(&r->compare, ready_number_of(r, mask), &e->meter, f->main.discarded, (int)(to - from));
        atomic_store_explicit(&mask->waiting, e, memory_order_release);
        atomic_compare_exchange_strong(&mask->at, &at, to + 1); /* fails if the mask was dropped */
    }
    pthread_mutex_unlock(&r->lock);
    return more;
}

static void *ready_thread(void *arg)
{
    struct ready *r = arg;
    struct follower follower = {0};
    denormals_off();
    while (!atomic_load(&r->end)) {
        priority_follow(&r->priority, &follower);
        for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++)
            while (!atomic_load(&r->end) && follow_block(r, m)) priority_rest();
        while (sem_wait(&r->wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static bool thread_start(struct ready *r)
{
    if (atomic_load(&r->has_thread)) return true;
    bool starts = pthread_create(&r->thread, NULL, ready_thread, r) == 0;
    atomic_store(&r->has_thread, starts);
    return starts;
}

/* ---- workers ----------------------------------------------------------------------------------- */

void ready_put_or_close(struct ready *r, struct live_engine *e)
{
    if (e && !ready_put(r, e)) live_engine_close(e);
}

bool ready_note(struct ready *r, struct ready_mask **mask, uint64_t *mask_number, struct text_request *request,
                bool is_given)
{
    paths_lock(r);
    bool is_there = mailbox_remove(&r->loads, 0, is_given ? NULL : request) || is_given;
    bool loads = is_there && !ready_ask(r, request->text, request->number); /* false: the mask has become ready */
    uint64_t wanted = atomic_load(&r->wanted);
    *mask = wanted != r->noted ? ready_mask_of(r, wanted) : NULL;
    *mask_number = r->number;
    r->noted = wanted;
    paths_unlock(r);
    return loads;
}

/* Under paths_lock. */
static bool supersede(struct ready *r, const struct ready_mask *mask)
{
    if (atomic_load(&r->wanted) != r->noted) return false;
    ready_want(r, mask);
    r->noted = atomic_load(&r->wanted);
    return true;
}

/* Updates the comparison after a change of the ready masks or of the compared paths. Under paths_lock. */
static void compare_again(struct ready *r)
{
    compare_renew(&r->compare, ready_number_of(r, ready_find(r, r->compare.paths[0])),
                  ready_number_of(r, ready_find(r, r->compare.paths[1])));
}

void ready_compare(struct ready *r, const char *a, const char *b)
{
    paths_lock(r);
    snprintf(r->compare.paths[0], TEXT_CAP, "%s", a);
    snprintf(r->compare.paths[1], TEXT_CAP, "%s", b);
    compare_again(r);
    paths_unlock(r);
}

/* Makes a mask unavailable for requests. Under paths_lock. */
static void ready_hide(struct ready *r, struct ready_mask *m)
{
    m->path[0] = '\0';
    atomic_store(&m->at, 0);
    compare_again(r);
}

bool ready_supersede(struct ready *r, const struct ready_mask *mask, struct ready_mask *gone)
{
    paths_lock(r);
    bool good = supersede(r, mask);
    if (good && gone) ready_hide(r, gone);
    paths_unlock(r);
    return good;
}

struct ready_mask *ready_add(struct ready *r, const char *path, struct live_engine *e,
                             const struct engine_format *format, const struct file_id *file, bool plays,
                             hc_responses *responses)
{
    struct ready_mask *m = r->masks, *end = m + MAX_READY;
    while (m < end && m->engine) m++;
    if (m == end || !thread_start(r)) return NULL;
    m->engine = e;
    m->format = *format;
    m->file = *file;
    if (responses) m->responses = *responses;
    int64_t at = 1 + (plays ? input_history_end(&r->stream->history) : e->failover->main.at);
    atomic_store(&e->number, ready_number_of(r, m));
    if (!plays) atomic_store_explicit(&m->waiting, e, memory_order_release);
    paths_lock(r);
    memcpy(m->path, path, strlen(path) + 1);
    if (plays) supersede(r, m);
    atomic_store(&m->at, at);
    compare_again(r);
    paths_unlock(r);
    sem_post(&r->wake);
    return m;
}

static void close_if_waiting(struct ready *r, struct ready_mask *m)
{
    pthread_mutex_lock(&r->lock); /* under this lock the ready thread has no engine */
    struct live_engine *e = atomic_exchange_explicit(&m->waiting, NULL, memory_order_acquire);
    pthread_mutex_unlock(&r->lock);
    if (!e) return; /* the engine plays */
    live_engine_close(e);
    m->engine = NULL;
}

bool ready_drop(struct ready *r, struct ready_mask *m)
{
    paths_lock(r);
    uint64_t wanted = atomic_load(&r->wanted);
    bool is_asked = wanted != r->noted && ready_mask_of(r, wanted) == m;
    if (!is_asked) ready_hide(r, m);
    paths_unlock(r);
    if (is_asked) return false;
    hc_responses_free(&m->responses);
    m->responses = (hc_responses){0};
    close_if_waiting(r, m);
    return true;
}

void ready_sweep(struct ready *r)
{
    for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++)
        if (m->engine && !m->path[0]) close_if_waiting(r, m);
}

void ready_reset(struct ready *r)
{
    pthread_mutex_lock(&r->lock);
    for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++) {
        struct live_engine *e = atomic_load(&m->waiting);
        if (!e) continue;
        failover_reset(e->failover);
        e->begin = atomic_load(&r->stream->begin);
        e->forgotten = atomic_load(&r->stream->forgotten);
        if (atomic_load(&m->at) > 0) atomic_store(&m->at, e->failover->main.at + 1);
    }
    pthread_mutex_unlock(&r->lock);
}

static uint64_t responses_bytes(const hc_responses *responses)
{
    if (responses->n_channels > 0)
        return (uint64_t)responses->n_channels * (uint64_t)responses->n_frames * sizeof(float);
    return (uint64_t)responses->distinct_frames * sizeof(float);
}

uint64_t ready_bytes(const struct ready *r)
{
    uint64_t bytes = 0;
    for (const struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++)
        if (m->path[0]) bytes += failover_memory(m->engine->failover) + responses_bytes(&m->responses);
    return bytes;
}

void ready_open(struct ready *r, const struct stream *stream, atomic_bool *has_work)
{
    r->stream = stream;
    r->has_work = has_work;
    atomic_flag_clear(&r->paths_lock);
    sem_init(&r->wake, 0, 0);
    pthread_mutex_init(&r->lock, NULL);
}

void ready_close(struct ready *r)
{
    atomic_store(&r->end, true);
    if (atomic_load(&r->has_thread)) {
        sem_post(&r->wake);
        pthread_join(r->thread, NULL);
    }
    for (struct ready_mask *m = r->masks; m < r->masks + MAX_READY; m++) {
        live_engine_close(atomic_exchange(&m->waiting, NULL));
        hc_responses_free(&m->responses);
    }
    sem_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
}
