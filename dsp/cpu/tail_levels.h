/* tail_levels - the tail levels of the CPU backend: their output for each hop, with the FFT work spread evenly across
 * hops.
 *
 * The tail advances in hops of plan->tick frames. A level of partition size S counts windows of 2S input frames: the
 * window with hop index w is [(w-1)S, (w+1)S). Work on a window begins when its last frame is there: the transforms of
 * all inputs, the products with the responses of each warm mask, the transforms back to the outputs. The output of S
 * frames is due S frames later:
 *
 *   frames   ... (w-1)S ........ wS ........ (w+1)S ............ (w+2)S ............ (w+3)S
 *   input        [=== previous ===][=== current ===]
 *   work                                       [S/hop slices       )
 *   due                                                       [S output frames      )   from (w+2)S - hop on
 *
 * Without threads the work is a row of pieces (long_fft.h), and every hop does an equal share, counted in expected
 * nanoseconds. All levels draw on one budget: while a piece takes more than its level's share, the other levels wait,
 * unless they are due.
 *
 * With a worker pool, the threads do whole jobs: the transform of one input, or the products and transforms of a few
 * outputs. Jobs are offered as soon as a window is complete. When the output is due, the engine thread does the jobs
 * that no thread has begun. The output is the same, bit for bit.
 *
 * A mask that becomes warm catches up: for each level, it needs the window that is due and the next one. Without
 * threads, each hop does a bounded amount of this work beside its share. The worker pool does it when it has nothing
 * else to do. If the pool gets no CPU time, the mask is ready when the windows due began after it became warm. A host
 * that freewheels has time: then the engine thread waits for the pool and helps it, and the hop in which a mask is
 * ready depends on the calls alone.
 *
 * All calls but make and free belong to the engine thread.
 */
#ifndef HALOCONV_TAIL_LEVELS_H
#define HALOCONV_TAIL_LEVELS_H

#include "dsp/engine/backend.h"
#include "simd.h"

struct tail;
struct tail_mask;

/* n_threads: of the worker pool; 0: none, the engine thread does all work in slices. NULL: no memory. [setup] */
struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads,
                       const struct simd *simd);
void tail_close(struct tail *tail);
void tail_reset(struct tail *tail);
/* Sets whether there is time to wait for the pool, from the next call on. Not at first. Any thread. */
void tail_wait(struct tail *tail, bool waits);

/* The tail levels of a mask. The caller keeps the cells: first_cell[n_out + 1] are those of each output. NULL: no
 * memory. [setup], beside the engine thread */
struct tail_mask *tail_mask_make(const struct tail *tail, const struct plan *plan, const struct matrix *matrix,
                                 const struct cell *cells, const int *first_cell);
void tail_mask_free(struct tail_mask *mask);

/* At most two masks are warm. */
void tail_warm(struct tail *tail, struct tail_mask *mask);
void tail_rest(struct tail *tail, struct tail_mask *mask);
/* No thread works on the mask any more: after tail_rest, within the time of a window. */
bool tail_idle(const struct tail *tail, const struct tail_mask *mask);
/* The mask plays with its full tail from the next call on: at the latest 2S frames after tail_warm (largest S). */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask);
/* Frames from tail_warm to tail_ready, usually, without threads. A pool that gets CPU time is faster. */
int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape);

/* Frames left of the current hop: no call below may go past it. */
int tail_left(const struct tail *tail);
/* Before the other calls for a hop: the output that is due in it is complete from now on. */
void tail_begin(struct tail *tail);
/* The next n frames of an input. */
void tail_push(struct tail *tail, int in, const float *x, int n);
/* y[n] += the tail of a mask in an output, the next n frames. */
void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n);
/* These n frames are past. The end of a hop does its share of the work. */
void tail_advance(struct tail *tail, int n);

struct tail_work {      /* counted by the pieces done, in expected nanoseconds; 0 with a pool */
    double hop_ns;      /* in the previous hop                                                */
    double share_ns;    /* an even hop                                                        */
    double catch_up_ns; /* the most that it may do beside, for a new mask to catch up         */
};
void tail_count(const struct tail *tail, struct tail_work *count);

#endif
