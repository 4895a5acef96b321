/* resident_split - how the workers of the resident kernel (kernels/resident/resident.h) share a head, and how long a
 * block takes. Arithmetic only.
 *
 *   group   some workers, which compute the same outputs
 *   part    a worker of a group: it has some inputs. The group's first worker adds up the sums of all parts
 *
 * Several parts pay off if the history or the taps of a worker do not fit in shared memory, or if there are fewer
 * outputs than the workers that the multiply-adds need. They cost one more hop.
 */
#ifndef HALOCONV_RESIDENT_SPLIT_H
#define HALOCONV_RESIDENT_SPLIT_H

#include "plan.h"

#include <math.h>

enum {
    MAX_RESIDENT_WORKERS = 64,   /* of an engine                                                                      */
    MAX_RESIDENT_PARTS = 8,
    RESIDENT_FRAMES = 8,         /* frames that a thread computes at once                                             */
    RESIDENT_ROOM = 64           /* min. frames of an input behind its history; short blocks then rarely move it      */
};

/* Figures of an H100 that are not measured on each machine (the others: struct plan_costs). */
#define RESIDENT_COPY_US 7.5e-5  /* a frame of an input that one of several workers loads                             */
#define RESIDENT_SHARED 225e3    /* bytes of a worker, if the device is not known                                     */
#define RESIDENT_WORKER_US 0.05  /* what a worker must save: its multiprocessor is lost for other engines             */

struct resident_split {
    int n_groups, n_parts;       /* n_parts 0: the inputs do not fit in shared memory, us is infinite                 */
    int outs, ins;               /* max. of a worker                                                                  */
    int cells;                   /* of a worker, whose taps get room in shared memory: all of a dense matrix          */
    double us;                   /* of a block, about                                                                 */
};

static inline int resident_round_up(int n, int unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Frames behind the history that a block may touch: it begins at any of 4 frames. */
static inline int resident_block_span(int block)
{
    return resident_round_up(block + 3, RESIDENT_FRAMES);
}

/* Floats of an input in shared memory. */
static inline int resident_row(int history, int block)
{
    const int span = resident_block_span(block);
    return history + (span < RESIDENT_ROOM ? RESIDENT_ROOM : span);
}

/* Returns the max. workers of an engine on n_sm multiprocessors, which two generations share for a moment. */
static inline int resident_max_workers(int n_sm)
{
    return n_sm / 2 < MAX_RESIDENT_WORKERS ? n_sm / 2 : MAX_RESIDENT_WORKERS;
}

/* Chooses the split of a head for up to max_workers workers with shared_bytes of shared memory. costs: of the resident
 * kernel; a worker should have multiply-adds for 1 us. */
static inline struct resident_split resident_split_choose(const struct plan_costs *costs, const struct plan_shape *head,
                                                          int max_workers, double shared_bytes)
{
    const double macs = (double)head->n_routes * head->max_taps * resident_round_up(head->block, RESIDENT_FRAMES);
    const int history = resident_round_up(head->max_taps, 4);
    struct resident_split best = {0, 0, 0, 0, 0, INFINITY};
    double best_us = INFINITY;
    for (int parts = 1; parts <= MAX_RESIDENT_PARTS && parts <= head->n_in && parts <= max_workers; parts *= 2) {
        const double wanted = 1e-3 * macs * costs->mac_ns / parts;
        int groups = head->n_out < max_workers / parts ? head->n_out : max_workers / parts;
        if (wanted < groups) groups = wanted > 1 ? (int)ceil(wanted) : 1;
        const int workers = groups * parts, outs = (head->n_out + groups - 1) / groups;
        const int ins = (head->n_in + parts - 1) / parts, likely = 2 * ((head->n_routes + workers - 1) / workers);
        const int cells = likely < outs * ins ? likely : outs * ins;
        const double rows = (double)ins * resident_row(history, head->block) + (double)parts * outs * head->block;
        const double tables = (double)outs * ins + outs + 16, taps = (double)cells * history;
        if (4 * (rows + tables) > shared_bytes) continue;
        const bool fits = 4 * (rows + tables + taps) <= shared_bytes;
        const double ns = costs->call_ns + costs->hop_ns * ((workers > 1) + (parts > 1)) +
                          costs->word_ns * ((double)head->n_in + head->n_out) * head->block +
                          macs / workers * (fits ? costs->mac_ns : costs->far_mac_ns);
        const double us = 1e-3 * ns + (workers > 1 ? RESIDENT_COPY_US * workers * ins * head->block : 0);
        if (us + RESIDENT_WORKER_US * workers >= best_us) continue;
        best_us = us + RESIDENT_WORKER_US * workers;
        best.n_groups = groups, best.n_parts = parts, best.outs = outs, best.ins = ins, best.cells = cells;
        best.us = us;
    }
    return best;
}

/* Returns about the us of a block. */
static inline double resident_us(const struct plan_costs *costs, const struct plan_shape *head)
{
    return resident_split_choose(costs, head, costs->max_workers, costs->worker_bytes).us;
}

#endif
