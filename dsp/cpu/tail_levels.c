#include "tail_levels.h"

#include "memory.h"
#include "tail_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static void find_due(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct tail_level *l = &tail->levels[i];
        int64_t next = tail->frame + tail->hop;
        l->due = next / l->size - 2;
        l->due_at = (int)(next % l->size);
    }
}

/* A mask that catches up on a window of a level needs frames from (n + 1) S before the window's end on, n partitions
 * back, until the window is past, 2S after its end. A thread of the pool that is interrupted may take another S
 * (window_release in tail_pool.c). The ring holds whole partitions of every level. */
static int ring_frames(const struct plan *plan)
{
    int largest = plan->far[plan->n_far - 1].size, n = 3;
    for (int i = 0; i < plan->n_far; i++) {
        int64_t frames = ((int64_t)plan->far[i].n_partitions + 4) * plan->far[i].size;
        while ((int64_t)n * largest < frames) n++;
    }
    return n * largest;
}

struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads,
                       const struct simd *simd)
{
    struct tail *tail = calloc(1, sizeof *tail);
    if (!tail) return NULL;
    tail->simd = simd;
    tail->n_in = n_in;
    tail->n_out = n_out;
    tail->hop = plan->tick;
    tail->n_levels = plan->n_far;
    tail->scheduler = n_threads > 0 ? &tail_pool : &tail_slices;
    tail->ring_size = ring_frames(plan);
    tail->ring_stride = (size_t)tail->ring_size + LONG_LANES;
    tail->ring = memory_place((size_t)n_in * tail->ring_stride);
    bool good = tail->ring != NULL;
    for (int i = 0; i < tail->n_levels && good; i++)
        good = tail_level_open(tail, &tail->levels[i], &plan->far[i], n_routes);
    if (!good || !tail->scheduler->open(tail, n_threads)) {
        tail_close(tail);
        return NULL;
    }
    find_due(tail);
    return tail;
}

void tail_close(struct tail *tail)
{
    if (!tail) return;
    if (tail->schedule) tail->scheduler->close(tail);
    for (int i = 0; i < tail->n_levels; i++) tail_level_close(&tail->levels[i]);
    memory_place_free(tail->ring);
    free(tail);
}

void tail_wait(struct tail *tail, bool waits)
{
    atomic_store_explicit(&tail->waits, waits, memory_order_relaxed);
}

void tail_reset(struct tail *tail)
{
    tail->scheduler->reset(tail);
    memset(tail->ring, 0, (size_t)tail->n_in * tail->ring_stride * sizeof(float));
    for (int i = 0; i < tail->n_levels; i++) {
        tail_level_clear(tail, &tail->levels[i]);
        for (int m = 0; m < MOST_WARM; m++)
            if (tail->warm[m]) tail->warm[m]->levels[i].join = 0;
    }
    tail->pos = tail->ring_at = 0;
    tail->frame = 0;
    find_due(tail);
}

/* ---- warm masks ----------------------------------------------------------------------------------------------------
 *
 * A mask can play once it has, in every level, the window that is due and the one after it. The work on these windows
 * is over, or began without the mask; the scheduler makes them for this mask (catching up). The inputs' spectra remain
 * until the window is past, except the oldest, whose slot the next window takes: these are computed again from the ring
 * of input frames. (One slot more would keep them, but costs 64 channels of 1 s a tenth of their time: it interrupts
 * the stream of the other slots.) The later window comes first, because the earlier one may pass meanwhile.
 */

void tail_warm(struct tail *tail, struct tail_mask *mask)
{
    int m = 0;
    tail->scheduler->warm(tail);
    while (m < MOST_WARM - 1 && tail->warm[m]) m++;
    tail->warm[m] = mask;
    for (int i = 0; i < tail->n_levels; i++) {
        bool joins = mask->levels[i].n_outs > 0 && tail->scheduler->join(tail, i, mask, m);
        mask->levels[i].join = tail->levels[i].newest + !joins;
    }
}

void tail_rest(struct tail *tail, struct tail_mask *mask)
{
    for (int m = 0; m < MOST_WARM; m++)
        if (tail->warm[m] == mask) tail->warm[m] = NULL;
    tail->scheduler->rest(tail, mask);
}

bool tail_idle(const struct tail *tail, const struct tail_mask *mask)
{
    return !tail->scheduler->is_idle || tail->scheduler->is_idle(tail, mask);
}

/* Windows before the first one are silent: no mask lacks them. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_mask_level *ml = &mask->levels[i];
        if (ml->n_outs > 0 && ml->join > 0 && tail->levels[i].due < ml->join) return false;
    }
    return true;
}

bool tail_lacks_something(const struct tail *tail)
{
    for (int m = 0; m < MOST_WARM; m++)
        if (tail->warm[m] && !tail_ready(tail, tail->warm[m])) return true;
    return false;
}

struct tail_mask *tail_lacking(const struct tail *tail, int level, int64_t *index)
{
    const struct tail_level *l = &tail->levels[level];
    for (int m = 0; m < MOST_WARM; m++) {
        struct tail_mask *mask = tail->warm[m];
        if (!mask || mask->levels[level].n_outs == 0) continue;
        *index = mask->levels[level].join - 1;
        if (*index < 0 || *index < l->due) continue;
        if (*index == l->newest && !tail->scheduler->has_inputs(tail, level)) continue;
        return mask;
    }
    return NULL;
}

/* ---- hops ----------------------------------------------------------------------------------------------------------
 */

int tail_left(const struct tail *tail)
{
    return tail->hop - tail->pos;
}

void tail_begin(struct tail *tail)
{
    if (tail->pos > 0 || !tail->scheduler->finish) return;
    for (int i = 0; i < tail->n_levels; i++)
        if (tail->levels[i].due_at == 0) tail->scheduler->finish(tail, i);
}

void tail_push(struct tail *tail, int in, const float *x, int n)
{
    float *ring = tail->ring + (size_t)in * tail->ring_stride + tail->pos;
    int next = tail->ring_at + tail->hop < tail->ring_size ? tail->ring_at + tail->hop : 0;
    memcpy(ring + tail->ring_at, x, (size_t)n * sizeof(float));
    for (int k = 0; k < n; k += LONG_LANES) __builtin_prefetch(ring + next + k, 1); /* out of the cache by now */
}

void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        const struct tail_mask_level *ml = &mask->levels[i];
        if (l->due < ml->join || !ml->out[out]) continue;
        const float *from = ml->out[out] + (l->due & 1) * l->size + l->due_at + tail->pos;
        for (int k = 0; k < n; k++) y[k] += from[k];
    }
}

void tail_advance(struct tail *tail, int n)
{
    tail->pos += n;
    if (tail->pos < tail->hop) return;
    tail->pos = 0;
    tail->frame += tail->hop;
    tail->ring_at += tail->hop;
    if (tail->ring_at == tail->ring_size) tail->ring_at = 0;
    find_due(tail);
    tail->scheduler->advance(tail);
}

void tail_count(const struct tail *tail, struct tail_work *count)
{
    *count = (struct tail_work){0};
    if (tail->scheduler->count) tail->scheduler->count(tail, count);
}
