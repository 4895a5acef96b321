/* mask_swap - decides which masks an engine plays: it dequeues requests, and crossfades from one mask to the next.
 *
 *   any thread       mask_swap_request ----> requested          the last request wins
 *   engine thread    requested ----> preparing: the backend computes its tail levels ----> to, faded in
 *                    from, faded out ----> retired: a thread of the backend may still work on it ----> unused
 *
 * The engine thread is the thread that plays blocks (backend.h). A mask may be freed when its `uses` is 0.
 */
#ifndef HALOCONV_MASK_SWAP_H
#define HALOCONV_MASK_SWAP_H

#include "dsp/device/backend.h"

#include <stdatomic.h>

struct hc_mask {
    hc_engine *engine;
    void *impl;           /* the backend's mask */
    atomic_int uses;      /* number of uses: in `requested`, and by the engine thread */
    bool is_freed;        /* hc_mask_free was called; under engine->masks_lock */
    struct hc_mask *next; /* the next in engine->masks; under engine->masks_lock */
};

struct mask_swap {
    const struct backend *backend;
    void *state; /* the backend's state */
    int fade_frames;
    _Atomic(hc_mask *) requested;           /* the mask to fade to next; &no_request: none                  */
    atomic_uint_fast64_t swaps, swap_frame; /* number of swaps; frames played before the last one */
    /* used by the engine thread only */
    hc_mask *from, *to;
    hc_mask *preparing; /* valid if is_preparing; NULL: silence */
    bool is_preparing;
    hc_mask *retired[MAX_RETIRED];
    int n_retired;
    int fade_pos, fade_len; /* fade_len 0: no fade */
    bool fresh;             /* nothing was played since open or reset: the first mask needs no fade */
    int64_t played;         /* frames since open */
};

void mask_swap_open(struct mask_swap *swap, const struct backend *backend, void *state, int fade_frames);

/* Requests a fade to a mask; NULL is silence. [rt], any thread */
void mask_swap_request(struct mask_swap *swap, hc_mask *mask);

/* Returns the masks of the next block, with its position in the fade. [rt], engine thread */
struct fade mask_swap_begin(struct mask_swap *swap);
/* Counts n frames of that block as played. [rt], engine thread */
void mask_swap_end(struct mask_swap *swap, int n);

/* Ends a fade; the next swap begins without a fade. No block may be playing. [setup] */
void mask_swap_reset(struct mask_swap *swap);

#endif
