#include "tail_levels.h"

#include "dsp/base/memory.h"
#include "tail_state.h"

#include <stdlib.h>

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void find_due(struct tail *tail)
{
    for (int i = 0; i < tail->n_levels; i++) {
        struct tail_level *l = &tail->levels[i];
        int64_t next = tail->frame + tail->hop;
        l->due = next / l->size - 2;
        l->due_at = (int)(next % l->size);
    }
}

/* Returns the length of the input ring, a whole number of blocks of every level. To catch up on a block of a level with
 * n partitions, a mask needs the (n + 1) S frames up to the block's end, until 2S frames after this end. An interrupted
 * pool thread may need them for another S frames (pool_block_publish in tail_pool.c). */
static int history_frames(const struct plan *plan)
{
    int largest = plan->tail_levels[plan->n_tail_levels - 1].size, n = 3;
    for (int i = 0; i < plan->n_tail_levels; i++) {
        int64_t frames = ((int64_t)plan->tail_levels[i].n_partitions + 4) * plan->tail_levels[i].size;
        while ((int64_t)n * largest < frames) n++;
    }
    return n * largest;
}

struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads)
{
    struct tail *tail = calloc(1, sizeof *tail);
    if (!tail) return NULL;
    tail->n_in = n_in;
    tail->n_out = n_out;
    tail->hop = plan->hop;
    tail->n_levels = plan->n_tail_levels;
    tail->scheduler = n_threads > 0 ? &tail_pool : &tail_slices;
    bool good = input_ring_open(&tail->history, n_in, history_frames(plan));
    for (int i = 0; i < tail->n_levels && good; i++)
        good = tail_level_open(tail, &tail->levels[i], &plan->tail_levels[i], n_routes);
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
    memory_packed_free(tail->history.frames);
    free(tail);
}

void tail_wait_set(struct tail *tail, bool waits)
{
    atomic_store_explicit(&tail->waits, waits, memory_order_relaxed);
}

void tail_reset(struct tail *tail)
{
    tail->scheduler->reset(tail);
    input_ring_clear(&tail->history);
    for (int i = 0; i < tail->n_levels; i++) {
        tail_level_clear(tail, &tail->levels[i]);
        for (int m = 0; m < MAX_PREPARED; m++)
            if (tail->prepared[m]) tail->prepared[m]->levels[i].first_block = 0;
    }
    tail->pos = 0;
    tail->frame = 0;
    find_due(tail);
}

/* ---- prepared masks ------------------------------------------------------------------------------------------------
 *
 * A mask can play once it has the due block and the next block in every level. The work on these blocks is over, or
 * began without the mask: the scheduler computes the blocks again for this mask (it catches up). The FDL still has
 * their spectra, except the oldest, whose entry the next block overwrites: the oldest spectra are computed again from
 * the input history. (One more entry would keep them, but interrupts the stream of the other entries: 10 % of the time
 * of 64 channels of 1 s.) The scheduler computes the later block first, because the earlier one may pass meanwhile.
 */

void tail_prepare(struct tail *tail, struct tail_mask *mask)
{
    int m = 0;
    tail->scheduler->prepare(tail);
    while (m < MAX_PREPARED - 1 && tail->prepared[m]) m++;
    tail->prepared[m] = mask;
    for (int i = 0; i < tail->n_levels; i++) {
        bool included = mask->levels[i].n_outs > 0 && tail->scheduler->include(tail, i, mask, m);
        mask->levels[i].first_block = tail->levels[i].newest + !included;
    }
}

void tail_retire(struct tail *tail, struct tail_mask *mask)
{
    for (int m = 0; m < MAX_PREPARED; m++)
        if (tail->prepared[m] == mask) tail->prepared[m] = NULL;
    tail->scheduler->retire(tail, mask);
}

bool tail_released(const struct tail *tail, const struct tail_mask *mask)
{
    return !tail->scheduler->released || tail->scheduler->released(tail, mask);
}

/* Blocks before the start of the stream are silent: every mask has them. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_mask_level *ml = &mask->levels[i];
        if (ml->n_outs > 0 && ml->first_block > 0 && tail->levels[i].due < ml->first_block) return false;
    }
    return true;
}

bool tail_is_preparing(const struct tail *tail)
{
    for (int m = 0; m < MAX_PREPARED; m++)
        if (tail->prepared[m] && !tail_ready(tail, tail->prepared[m])) return true;
    return false;
}

struct tail_mask *tail_find_missing(const struct tail *tail, int level, int64_t *block)
{
    const struct tail_level *l = &tail->levels[level];
    for (int m = 0; m < MAX_PREPARED; m++) {
        struct tail_mask *mask = tail->prepared[m];
        if (!mask || mask->levels[level].n_outs == 0) continue;
        *block = mask->levels[level].first_block - 1;
        if (*block < 0 || *block < l->due) continue;
        if (*block == l->newest && !tail->scheduler->has_inputs(tail, level)) continue;
        return mask;
    }
    return NULL;
}

/* ---- hops -------------------------------------------------------------------------------------------------------- */

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

void tail_push(struct tail *tail, const float *const *in, int at, int n)
{
    input_ring_write(&tail->history, tail->frame + tail->pos, in, at, n);
}

void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n)
{
    for (int i = 0; i < tail->n_levels; i++) {
        const struct tail_level *l = &tail->levels[i];
        const struct tail_mask_level *ml = &mask->levels[i];
        if (l->due < ml->first_block || !ml->out[out]) continue;
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
    find_due(tail);
    tail->scheduler->advance(tail);
}

void tail_get_load(const struct tail *tail, struct tail_load *load)
{
    *load = (struct tail_load){0};
    if (tail->scheduler->get_load) tail->scheduler->get_load(tail, load);
}
