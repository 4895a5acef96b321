/* tail_levels - the tail levels of the CPU backend: their output for each hop, with the FFT work spread evenly across
 * hops.
 *
 * The tail advances in hops of plan->hop frames. A level of partition size S cuts the input into blocks of S frames:
 * block b is [bS, (b+1)S). The work on block b begins when its last frame arrives: the transforms of all inputs, each
 * of the 2S frames of blocks b-1 and b (overlap-save), into the level's FDL (frequency-domain delay line); the products
 * of the FDL with the partitions of each prepared mask; the inverse transforms of the outputs. The S output frames are
 * due S frames later:
 *
 *   frames   ... (b-1)S ........ bS ........ (b+1)S ............ (b+2)S ............ (b+3)S
 *   input        [== block b - 1 ==][=== block b ===]
 *   work                                       [S/hop slices       )
 *   due                                                       [S output frames      )   from (b+2)S - hop on
 *
 * Without threads, the work is a row of steps (dsp/fft/fft.h), and every hop does an equal slice, counted in expected
 * nanoseconds. All levels share one budget: if a step costs more than its level's slice, the other levels wait, unless
 * they are due.
 *
 * With a real-time pool, the threads do whole jobs: the transform of one input, or the products and transforms of a few
 * outputs. Jobs are published as soon as a block is complete. When the output is due, the engine thread does the jobs
 * that no thread has begun. The output is the same, bit for bit.
 *
 * A mask that is prepared catches up: for each level, it needs the due block and the next block. Without threads, each
 * hop does a bounded amount of this work in addition to its slice. A pool does this work when it has no other jobs. If
 * the pool gets no CPU time, the mask is ready when the due blocks are ones that began after tail_prepare. While calls
 * wait (tail_wait_set), the engine thread helps the pool to complete this work: the hop in which a mask is ready then
 * depends on the calls alone.
 *
 * The engine thread makes all calls that have no other tag.
 */
#ifndef HALOCONV_TAIL_LEVELS_H
#define HALOCONV_TAIL_LEVELS_H

#include "dsp/device/backend.h"

struct routing; /* mask_partitions.h */
struct tail;
struct tail_mask;

/* n_threads: threads of the pool; 0: no pool, and the engine thread works in slices. NULL: no memory. [setup] */
struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads);
void tail_close(struct tail *tail);
void tail_reset(struct tail *tail);
/* Sets whether the next calls wait for the pool, as in a host that freewheels; initially false. Any thread. */
void tail_wait_set(struct tail *tail, bool waits);

/* Makes the tail levels of a mask, which keep `routing`. NULL: no memory. [setup], while the engine thread plays */
struct tail_mask *tail_mask_make(const struct tail *tail, const struct plan *plan, const struct matrix *matrix,
                                 const struct routing *routing);
void tail_mask_free(struct tail_mask *mask);

/* Begins to compute a mask's tail. At most MAX_PREPARED masks are prepared and not retired. */
void tail_prepare(struct tail *tail, struct tail_mask *mask);
void tail_retire(struct tail *tail, struct tail_mask *mask);
/* Has every thread ended its work on the mask? Yes at the latest S frames after tail_retire (S of the last level). */
bool tail_released(const struct tail *tail, const struct tail_mask *mask);
/* May the mask play with its full tail from the next call on? Yes at the latest 2S frames after tail_prepare. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask);
/* Returns the usual frames from tail_prepare to tail_ready, without threads. A pool that gets CPU time is faster. */
int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape);

/* Returns the number of frames left in the current hop: n in the calls below is at most this number. */
int tail_left(const struct tail *tail);
/* Completes the output that is due in this hop. Call it before tail_push and tail_add. */
void tail_begin(struct tail *tail);
/* Appends the next n frames of all inputs, in[n_in][at ...]. */
void tail_push(struct tail *tail, const float *const *in, int at, int n);
/* Adds the next n frames of an output's tail, as a mask gives it, to y[n]. */
void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n);
/* Moves on by n frames. At the end of a hop, does the hop's slice of the work. */
void tail_advance(struct tail *tail, int n);

struct tail_load {      /* work in expected nanoseconds; all 0 with a pool                       */
    double hop_ns;      /* work in the previous hop                                              */
    double slice_ns;    /* work of every hop if the load were perfectly even                     */
    double catch_up_ns; /* max. additional work of a hop, for a new mask to catch up             */
};
void tail_get_load(const struct tail *tail, struct tail_load *load);

#endif
