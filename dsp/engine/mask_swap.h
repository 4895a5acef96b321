/* mask_swap - which masks an engine plays: the mailbox, and the crossfade from one mask to the next.
 *
 *   any thread       mask_swap_ask ----> mailbox           the last request wins
 *   engine thread    mailbox ----> coming: its tail levels catch up ----> to, faded in; from, faded out
 *                    from ----> leaving: the backend's threads may still work on it ----> not used any more
 *
 * The engine thread is the thread that plays blocks: the audio thread for a backend that runs in place, else the thread
 * of the device queue. A mask is freed when nothing here uses it.
 */
#ifndef HALOCONV_MASK_SWAP_H
#define HALOCONV_MASK_SWAP_H

#include "backend.h"

#include <stdatomic.h>

struct hc_mask {
    hc_engine *engine;
    void *impl;           /* the backend's */
    atomic_int uses;      /* by the mailbox and the engine thread */
    bool released;        /* hc_mask_free was called; under engine->setup */
    struct hc_mask *next; /* engine->masks; under engine->setup */
};

enum { MOST_LEAVING = 4 };

struct mask_swap {
    const struct backend *backend;
    void *state; /* the backend's */
    int fade_frames;
    _Atomic(hc_mask *) mailbox; /* the mask to fade to next, or a mark that there is none */
    atomic_uint_fast64_t swaps, swap_frame; /* swaps begun; frames played before the last of them */
    /* the engine thread's */
    hc_mask *from, *to;
    hc_mask *leaving[MOST_LEAVING];
    int n_leaving;
    hc_mask *coming; /* NULL with is_coming: silence */
    bool is_coming;
    int fade_pos, fade_len; /* fade_len = 0: no fade */
    bool fresh;             /* nothing heard since open or reset: the first mask needs no fade */
    int64_t played;         /* frames */
};

void mask_swap_open(struct mask_swap *swap, const struct backend *backend, void *state, int fade_frames);

/* mask: NULL is silence. Any thread. [rt] */
void mask_swap_ask(struct mask_swap *swap, hc_mask *mask);

/* _begin: the masks of the next block, or its fade; _end: n frames of it were played. The engine thread's. [rt] */
struct fade mask_swap_begin(struct mask_swap *swap);
void mask_swap_end(struct mask_swap *swap, int n);

/* Ends a fade; the next swap begins without one. No block is under way. */
void mask_swap_reset(struct mask_swap *swap);

#endif
