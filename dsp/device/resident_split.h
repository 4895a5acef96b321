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

/* Figures of an H100. From 2 x 2 to 64 x 64 channels and 1 to 1024 frames, the sum is within 15 % of the median. */
#define RESIDENT_TRIP_US 6.5     /* there and back, with the audio thread's part                                      */
#define RESIDENT_HOP_US 1.4      /* words from a multiprocessor to another                                            */
#define RESIDENT_WORD_US 3.7e-3  /* a frame of a channel                                                              */
#define RESIDENT_COPY_US 7.5e-5  /* a frame of an input that one of several workers loads                             */
#define RESIDENT_MACS 131072     /* multiply-adds of a worker in a us, with taps in shared memory                     */
#define RESIDENT_FAR_MACS 22e3   /* the same with taps in device memory                                               */
#define RESIDENT_SHARED 225e3    /* bytes of a worker                                                                 */
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
static inline int resident_room(int block)
{
    return resident_round_up(block + 3, RESIDENT_FRAMES);
}

/* Floats of an input in shared memory. */
static inline int resident_row(int history, int block)
{
    const int room = resident_room(block);
    return history + (room < RESIDENT_ROOM ? RESIDENT_ROOM : room);
}

/* Chooses the split of a head for up to max_workers workers with shared_bytes of shared memory. */
static inline struct resident_split resident_split_choose(const struct plan_shape *head, int max_workers,
                                                          double shared_bytes)
{
    const double macs = (double)head->n_routes * head->max_taps * resident_round_up(head->block, RESIDENT_FRAMES);
    const int history = resident_round_up(head->max_taps, 4);
    struct resident_split best = {0, 0, 0, 0, 0, INFINITY};
    double best_us = INFINITY;
    for (int parts = 1; parts <= MAX_RESIDENT_PARTS && parts <= head->n_in && parts <= max_workers; parts *= 2) {
        const double wanted = macs / RESIDENT_MACS / parts;
        int groups = head->n_out < max_workers / parts ? head->n_out : max_workers / parts;
        if (wanted < groups) groups = wanted > 1 ? (int)ceil(wanted) : 1;
        const int workers = groups * parts, outs = (head->n_out + groups - 1) / groups;
        const int ins = (head->n_in + parts - 1) / parts, likely = 2 * ((head->n_routes + workers - 1) / workers);
        const int cells = likely < outs * ins ? likely : outs * ins;
        const double rows = (double)ins * resident_row(history, head->block) + (double)parts * outs * head->block;
        const double tables = (double)outs * ins + outs + 16, taps = (double)cells * history;
        if (4 * (rows + tables) > shared_bytes) continue;
        const bool fits = 4 * (rows + tables + taps) <= shared_bytes;
        const double us = RESIDENT_TRIP_US + RESIDENT_HOP_US * ((workers > 1) + (parts > 1)) +
                          RESIDENT_WORD_US * ((double)head->n_in + head->n_out) * head->block +
                          (workers > 1 ? RESIDENT_COPY_US * workers * ins * head->block : 0) +
                          macs / workers / (fits ? RESIDENT_MACS : RESIDENT_FAR_MACS);
        if (us + RESIDENT_WORKER_US * workers >= best_us) continue;
        best_us = us + RESIDENT_WORKER_US * workers;
        best.n_groups = groups, best.n_parts = parts, best.outs = outs, best.ins = ins, best.cells = cells;
        best.us = us;
    }
    return best;
}

/* Returns about the us of a block on a GPU with as much shared memory as an H100. */
static inline double resident_us(const struct plan_shape *head)
{
    return resident_split_choose(head, MAX_RESIDENT_WORKERS, RESIDENT_SHARED).us;
}

#endif
