/* ready_masks - engines of masks that wait to be asked for: who uses them, and which of them plays.
 *
 * models   dsp/live/ready.c: ready_request, ready_dequeue, ready_put, follow_block, ready_note, ready_supersede,
 *          ready_drop, close_if_waiting, ready_sweep, ready_put_or_close; dsp/live/live.c: join_next, retire;
 *          dsp/live/work.c: note_ready, replace_engine, hand_over; dsp/live/keep.c: drop_outdated
 * atomics  dsp/live/ready.h: waiting, wanted; dsp/live/live.h: next, returned
 *
 * Proved: an engine is used by one thread at a time, and not after it was closed; the engine that the worker takes for
 * the newest one is never closed; in the end the last request plays; the audio thread plays on though all other threads
 * stall.
 *
 * Order: an exchange of `waiting` acquires what the store that put the engine there released, as do those of `next` and
 * `returned`. `wanted` only names a mask: whoever reads an old value tries again. paths_lock and the lock of the ready
 * thread are held for steps without a wait; each is one step here, and the audio thread takes neither.
 *
 * Sizes: ready masks 0, which plays at first, and 1, with engines of the same number; an engine that the worker hands
 * over; a thread that asks for mask 1 and then for 0; a list that loses mask 1. A fade lasts a block.
 */
#include "atomics.h"
#define MASKS 2
#define X     MASKS       /* the worker's engine, which belongs to no ready mask */
#define NONE  (MASKS + 1)

byte waiting[MASKS] = NONE, next = NONE, returned = NONE;
bool can_be_asked[MASKS] = true, is_closed[NONE];
byte users[NONE];
byte wanted, asked = 0;             /* one variable: the count of requests, and the mask */
byte order;                         /* of X: the count of requests when the worker made it the newest */
byte last = 0, playing = 0;
bool block;                         /* changes with each block */
bool is_dropped;                    /* mask 1 */

inline use(e) { assert(!is_closed[e] && users[e] == 0); users[e]++ }
inline leave(e) { assert(users[e] == 1); users[e]-- }
inline close(e) { assert(!is_closed[e] && users[e] == 0); is_closed[e] = true }

/* [audio thread] */
inline retire(e)
{
    leave(e);
    if
    :: e == X -> returned = e
    :: else -> waiting[e] = e
    fi
}

/* An engine becomes `joining`, which catches up for a block; the one that was to join goes back. */
inline join(e)
{
    outdated = joining;
    joining = e;
    is_behind = true;
    if
    :: outdated != NONE -> retire(outdated)
    :: else
    fi
}

/* The mask that was asked for is to join, unless it plays. */
inline ready_dequeue()
{
    d_step { count = wanted; mask = asked };
    if
    :: count == obeyed
    :: else ->
        if
        :: mask == NONE || mask == joining -> obeyed = count
        :: mask == playing && mask != joining -> obeyed = count; join(NONE)
        :: else ->
            exchange(e, waiting[mask], NONE);
            if
            :: e == NONE /* the next call tries again */
            :: else -> use(e); obeyed = count; join(e)
            fi
        fi
    fi;
    e = NONE; mask = NONE; count = 0
}

active proctype audio_thread()
{
    byte joining = NONE, former = NONE, obeyed, count, mask = NONE, e = NONE, outdated = NONE;
    bool is_behind;
    users[0] = 1;
    do
    :: outdated = NONE; /* join_next */
        if
        :: former == NONE && returned == NONE ->
            exchange(e, next, NONE);
            if
#ifdef ORDER_IS_FORGOTTEN
            :: e != NONE ->
#else
            :: e != NONE && obeyed > order -> outdated = e; returned = e /* a newer request was obeyed */
            :: e != NONE && obeyed <= order ->
#endif
                use(e);
                outdated = joining;
                joining = e;
                is_behind = true;
                if
                :: outdated != NONE -> leave(outdated); waiting[outdated] = outdated /* there is one X */
                :: else
                fi
            :: else
            fi;
            if
            :: outdated == NONE -> ready_dequeue()
            :: else
            fi;
            e = NONE;
            if
            :: outdated != NONE || joining == NONE
            :: outdated == NONE && joining != NONE && is_behind -> is_behind = false
            :: else -> d_step { former = playing; playing = joining; joining = NONE }
            fi
        :: else
        fi;
        d_step { assert(!is_closed[playing] && users[playing] == 1); change(block) };
        if
        :: former != NONE -> retire(former); former = NONE
        :: else
        fi
    od
}

active proctype ready_thread() may_stall
{
    byte e = NONE, m;
end: do
    :: waiting[m] != NONE && asked != m -> /* the audio thread is about to take a mask that was asked for */
#ifdef FOLLOWS_WITHOUT_EXCHANGE
        e = waiting[m];
#else
        exchange(e, waiting[m], NONE);
#endif
        if
        :: e != NONE -> d_step { use(e); leave(e); waiting[m] = e; e = NONE }
        :: else
        fi;
        m = 1 - m
    :: (waiting[m] == NONE || asked == m) && waiting[1 - m] != NONE && asked != 1 - m -> m = 1 - m
    od
}

/* Asks for a mask; one that cannot be asked for is left to the worker. */
inline request(m)
{
    d_step {
        if
        :: can_be_asked[m] && asked != m -> wanted++; asked = m; last = m
        :: else
        fi
    }
}

active proctype any_thread() may_stall
{
    request(1);
    request(0)
}

/* [worker] */
inline note()
{
    d_step {
        if
        :: wanted != noted ->
            noted = wanted;
            if
            :: asked != NONE -> newest = asked
            :: else
            fi
        :: else
        fi;
        assert(!is_closed[newest])
    }
}

/* Hands X over, unless a newer request came. */
inline hand_over()
{
    d_step {
        if
#ifndef SUPERSEDE_WITHOUT_COMPARE
        :: wanted != noted -> is_superseded = true
#endif
        :: else ->
            last = (wanted == noted -> X : last);
            wanted++; noted = wanted; order = wanted;
            asked = NONE; newest = X
        fi
    };
    if
    :: is_superseded -> close(X)
    :: else -> next = X
    fi
}

/* Drops mask 1, unless it was asked for just now, or plays. */
inline drop()
{
    d_step {
        if
#ifndef CURRENT_IS_DROPPED
        :: newest == 1
#endif
#ifndef DROP_IGNORES_REQUESTS
        :: wanted != noted && asked == 1
#endif
        :: else -> can_be_asked[1] = false; is_dropped = true
        fi
    }
}

inline sweep()
{
    exchange(e, returned, NONE);
    if
    :: e != NONE -> d_step { close(e); e = NONE }
    :: else
    fi;
    if
    :: is_dropped && waiting[1] != NONE ->
        exchange(e, waiting[1], NONE);
        if
        :: e != NONE -> d_step { close(e); e = NONE }
        :: else
        fi
    :: else
    fi
}

active proctype worker() may_stall
{
    byte newest = 0, noted, e = NONE;
    bool is_superseded;
    note();
    hand_over();
end: do
    :: returned != NONE || wanted != noted || !is_dropped && newest != 1 || is_dropped && waiting[1] != NONE ->
        sweep();
        note();
        drop()
    od
}

init { waiting[1] = 1 }

ltl audio_thread_is_never_stuck { ([]<> (block || unstalled)) && ([]<> (!block || unstalled)) } /* weak fairness */
ltl last_request_wins { <>[] (playing == last) } /* weak fairness */
