/* mask_mailbox - requests for masks, their crossfade, and the retirement of the masks before.
 *
 * models   dsp/engine/mask_swap.c: mask_swap_request, mask_unuse, mask_swap_begin, retired_sweep, dequeue_request,
 *          begin_fade, end_fade, mask_retire, mask_swap_end; dsp/engine/masks.c: masks_sweep, hc_mask_free;
 *          dsp/live/failover.c: runner_play
 * atomics  dsp/engine/mask_swap.h: requested, uses
 *
 * Proved: no mask is deleted while it plays, waits or is worked on; `uses` never falls below 0; in the end the last
 * request plays and every other mask is unused; the engine thread plays on though all other threads stall.
 *
 * Order: the exchange in mask_swap_request releases the mask, the exchange in dequeue_request acquires it. mask_unuse
 * releases the last use, masks_sweep acquires it. The first load in dequeue_request may be relaxed: the exchange looks
 * again. Nothing needs seq_cst: no two threads each store one variable and then load the other's.
 *
 * Sizes: a mask that a worker plays and frees, and one that another thread requests twice; one retired mask instead of
 * four; fades of two blocks.
 */
#include "atomics.h"
#define MASKS        2
#define SILENCE      MASKS /* NULL */
#define NO_REQUEST   (MASKS + 1)
#define MAX_RETIRED 1
#define FADE         2

byte requested = NO_REQUEST, uses[MASKS];
bool is_deleted[MASKS];
mtype = { unused, prepared, ready, retiring }; /* what the threads of the backend do with a mask */
mtype work[MASKS] = unused;
byte last = SILENCE, n_threads = 2; /* the last request; threads that still request */
byte from = SILENCE, to = SILENCE;
bool block;                         /* changes with each block */

inline mask_unuse(mask)
{
    d_step {
        if
        :: mask < MASKS -> assert(uses[mask] > 0); uses[mask]--
        :: else
        fi
    }
}

inline mask_swap_request(mask)
{
#ifndef USE_IS_COUNTED_LATE
    if
    :: mask < MASKS -> uses[mask]++
    :: else
    fi;
#endif
#ifdef REQUEST_WITHOUT_EXCHANGE
    replaced = requested;
    requested = mask; last = mask;
#else
    d_step { replaced = requested; requested = mask; last = mask }
#endif
#ifdef USE_IS_COUNTED_LATE
    if
    :: mask < MASKS -> uses[mask]++
    :: else
    fi;
#endif
#ifndef REPLACED_STAYS_USED
    mask_unuse(replaced);
#endif
    replaced = 0
}

/* [engine thread] */
inline retired_sweep()
{
    i = 0;
    do
    :: i < n_retired ->
        mask = retired[i];
        if
#ifndef RELEASE_IS_NOT_AWAITED
        :: mask < MASKS && mask != to && mask != from && !(is_preparing && mask == preparing) &&
               work[mask] == retiring -> i++ /* mask_released is false */
#endif
        :: else ->
            d_step {
                mask_unuse(mask);
                n_retired--;
                retired[i] = retired[n_retired];
                retired[n_retired] = 0
            }
        fi
    :: else -> break
    od;
    i = 0; mask = 0
}

inline mask_retire(mask)
{
    d_step {
        if
        :: mask != SILENCE ->
            work[mask] = retiring;
            retired[n_retired] = mask;
            n_retired++
        :: else
        fi
    }
}

inline dequeue_request()
{
    if
#ifdef PREPARATION_IS_REPLACED
    :: requested == NO_REQUEST
#else
    :: is_preparing || requested == NO_REQUEST
#endif
    :: else ->
#ifdef TAKE_WITHOUT_EXCHANGE
        mask = requested;
        requested = NO_REQUEST;
#else
        exchange(mask, requested, NO_REQUEST);
#endif
        if
#ifndef SAME_MASK_FADES
        :: mask == to -> mask_unuse(mask)
#endif
        :: else ->
            d_step {
                preparing = mask;
                is_preparing = true;
                if
                :: mask != SILENCE -> work[mask] = prepared /* mask_prepare */
                :: else
                fi
            }
        fi;
        mask = 0
    fi
}

inline end_fade()
{
    atomic {
        mask_retire(from);
        from = SILENCE;
        fade_len = 0
    }
}

inline begin_fade()
{
    if
#ifdef RETIRED_OVERFLOW
    :: !is_preparing
#else
    :: !is_preparing || n_retired == MAX_RETIRED
#endif
    :: is_preparing && preparing != SILENCE && !fresh && work[preparing] != ready
    :: else ->
        d_step {
            is_preparing = false;
            from = to;
            to = preparing;
            preparing = SILENCE;
            fade_pos = 0;
            fade_len = (fresh -> 0 : FADE) /* fresh: `from` is silence, so end_fade has nothing to retire */
        }
    fi
}

active proctype engine_thread()
{
    byte mask, preparing = SILENCE, retired[MAX_RETIRED], n_retired, i, fade_pos, fade_len;
    bool is_preparing, fresh = true;
    do
    :: retired_sweep(); /* mask_swap_begin */
        if
        :: fade_len == 0 -> dequeue_request(); begin_fade()
        :: else
        fi;
        d_step { /* the backend plays a block; mask_swap_end */
            assert(to == SILENCE || (!is_deleted[to] && (work[to] == prepared || work[to] == ready)));
            assert(from == SILENCE || (!is_deleted[from] && work[from] != unused));
            change(block);
            fresh = false;
            fade_pos = (fade_len > 0 -> fade_pos + 1 : 0)
        };
        if
        :: fade_len > 0 && fade_pos == fade_len -> end_fade()
        :: else
        fi
    od
}

/* The threads of the backend. */
inline backend_work(mask)
{
    assert(!is_deleted[mask]);
    work[mask] = (work[mask] == prepared -> ready : unused)
}

active proctype backend() may_stall
{
end: do
    :: atomic { work[0] == prepared || work[0] == retiring -> backend_work(0) }
    :: atomic { work[1] == prepared || work[1] == retiring -> backend_work(1) }
    od
}

/* runner_play: plays a mask, then silence, and frees the mask (hc_mask_free; masks_sweep, now or in a later call). */
active proctype worker() may_stall
{
    byte mask, replaced;
    do
    :: mask_swap_request(mask);
        if
        :: mask == SILENCE -> break
        :: else -> mask = SILENCE
        fi
    od;
    n_threads--;
    atomic { uses[0] == 0 -> assert(work[0] == unused); is_deleted[0] = true }
}

/* Requests a mask twice. */
active proctype any_thread() may_stall
{
    byte mask = 1, replaced;
    mask_swap_request(mask);
    mask_swap_request(mask);
    n_threads--
}

#define only(mask) ((last == mask && uses[mask] == 1) || (last != mask && uses[mask] == 0))
ltl engine_thread_is_never_stuck { ([]<> (block || unstalled)) && ([]<> (!block || unstalled)) }
ltl last_request_wins { <>[] (n_threads == 0 && to == last && only(0) && only(1) && is_deleted[0]) } /* weak fairness */
