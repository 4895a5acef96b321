/* far - the far levels of the CPU backend: what is heard of them in each tick, and their work, spread evenly over
 * ticks.
 *
 * Window w of a level of partition S is made of the input frames [(w-1)S, (w+1)S). When its last tick is complete its
 * work begins: the transforms of all inputs, the products with the responses of each warm mask, the transforms back to
 * the outputs. It is a row of pieces (long_fft.h) of which each tick does the same share, counted in expected
 * nanoseconds; it ends S/tick ticks later, when the window's S output frames are first heard:
 *
 *   frames   ... (w-1)S ........ wS ........ (w+1)S ............ (w+2)S ............ (w+3)S
 *   input        [==== before ====][==== now ====]
 *   work                                       [S/tick slices      )
 *   heard                                                     [S output frames      )   from (w+2)S - tick on
 *
 * The levels share a tick: while a piece takes more than its level's share the others wait, as far as they are not due.
 *
 * With threads to help, each does whole jobs instead, an input's transform or the products and transforms of a few
 * outputs, as soon as a window is complete; what they have not begun when it is heard the driver does itself. The
 * frames that come out are the same, bit for bit.
 *
 * A mask that comes warm catches up: what it lacks of the window that is heard and of the next, in each level, is made
 * from the inputs' spectra, and the oldest of these from the inputs' frames. Without threads each tick does a bounded
 * piece of it beside its share. With threads these do it when nothing else is to be done; where they come to nothing
 * the mask is ready once windows are heard that began after it was warm. A host that freewheels has time: then the
 * driver waits for them, and helps, where it would only look, and the tick in which a mask is ready depends on the
 * calls alone.
 *
 * All calls but make and free are the driver's.
 */
#ifndef HALOCONV_TAIL_LEVELS_H
#define HALOCONV_TAIL_LEVELS_H

#include "dsp/engine/backend.h"
#include "simd.h"

struct tail;
struct tail_mask;

/* n_threads: beside the driver; 0 = it does all the work, in slices. NULL when memory ran out. [setup] */
struct tail *tail_open(const struct plan *plan, int n_in, int n_out, int n_routes, int n_threads,
                     const struct simd *simd);
void tail_close(struct tail *tail);
void tail_reset(struct tail *tail);
/* From the next call on: is there time to wait for the threads? Not at first. Any thread. */
void tail_wait(struct tail *tail, bool waits);

/* The far part of a mask; the cells stay the caller's: first_cell[n_out + 1] are those of each output. NULL when memory
 * ran out. [setup], beside the driver */
struct tail_mask *tail_mask_make(const struct tail *tail, const struct plan *plan, const struct matrix *matrix,
                               const struct cell *cells, const int *first_cell);
void tail_mask_free(struct tail_mask *mask);

/* At most two masks are warm. */
void tail_warm(struct tail *tail, struct tail_mask *mask);
void tail_rest(struct tail *tail, struct tail_mask *mask);
/* Nobody works on it any more: after tail_rest, within the time of a window. */
bool tail_idle(const struct tail *tail, const struct tail_mask *mask);
/* It plays with its full tail from the next call on: at the latest 2S frames after tail_warm, of the largest S. */
bool tail_ready(const struct tail *tail, const struct tail_mask *mask);
/* Frames that it takes until then as a rule, without threads; with threads that are not kept from it less. */
int tail_swap_frames(const struct plan *plan, const struct plan_shape *shape);

/* Frames that are left of the current tick: no call below may go past it. */
int tail_left(const struct tail *tail);
/* Before the first of the calls below for a tick: what is heard in it is there from now on. */
void tail_begin(struct tail *tail);
/* The next n frames of an input. */
void tail_push(struct tail *tail, int in, const float *x, int n);
/* y[n] += what is heard of a mask in an output in the next n frames. */
void tail_add(const struct tail *tail, const struct tail_mask *mask, int out, float *y, int n);
/* They are past: at the end of a tick its share of the work is done. */
void tail_advance(struct tail *tail, int n);

struct tail_work {       /* counted by the pieces that were done, in nanoseconds that these are expected to take      */
    double tick_ns;     /* in the tick before; 0 with threads                                                    */
    double share_ns;    /* what an even tick does                                                                */
    double catch_up_ns; /* what it might do beside, for a new mask to catch up                                   */
};
void tail_count(const struct tail *tail, struct tail_work *count);

#endif
