/* engine_exchange - engines on their way from the worker to the audio thread and back.
 *
 * models   dsp/live/live.c: hc_live_request, hc_live_has_work, hc_live_process, join_next, engine_fade_begin,
 *          engine_fade_end, retire, process_chunk; dsp/live/work.c: hc_live_work, mask_apply, hand_over;
 *          dsp/live/ready.c: ready_put_or_close; dsp/live/live_engine.c: live_engine_close
 * atomics  dsp/live/live.h: next, returned, has_work
 *
 * Proved: no engine is lost, closed twice, or used after it is closed; the last request plays in the end, and every
 * engine before it is closed; no request waits for ever; the audio thread plays on though the worker stalls.
 *
 * Order: `next` and `returned` hold one engine each and pass it on by a release and an acquire of the same variable.
 * The loads of join_next may be relaxed: the audio thread alone fills `returned`, and takes `next` by an exchange.
 * has_work is released after the request or the engine that it announces, and the worker's exchange acquires it before
 * the worker looks for these. Nothing needs seq_cst: no two threads each store one variable and then load the other's.
 *
 * Sizes: three requests, each for a new engine or a mask of the engine that plays; a new engine catches up in one
 * call or two, and fades in two.
 */
#include "atomics.h"
#define REQUESTS 3
#define CALLS    1
#define FADE     2

byte next, returned; /* engines; 0: none */
bool has_work;
byte requests, applied;
/* What the model checks by. */
byte built, n_open, newest, playing, mask[REQUESTS + 1];
bool is_open[REQUESTS + 1], block;

active proctype host() may_stall
{
    do
    :: requests < REQUESTS -> /* hc_live_request */
        requests++;
        has_work = true
    :: else -> break
    od
}

inline live_engine_close(e)
{
    if
    :: e != 0 -> d_step { assert(is_open[e] && e != playing); is_open[e] = false; n_open-- }
    :: else
    fi
}

inline put_or_close_returned()
{
#ifdef RETURNED_WITHOUT_EXCHANGE
    e = returned;
    returned = 0;
#else
    exchange(e, returned, 0);
#endif
    live_engine_close(e)
}

inline hand_over()
{
    newest = built;
#ifdef NEXT_WITHOUT_EXCHANGE
    e = next;
    next = newest;
#else
    exchange(e, next, newest);
#endif
    live_engine_close(e)
}

active proctype worker() may_stall
{
    byte e;
end: do
    :: has_work -> /* hc_live_has_work, hc_live_work */
#ifndef WORK_IS_FORGOTTEN
        has_work = false;
#endif
        put_or_close_returned();
        if
        :: applied != requests ->
            applied = requests; /* mailbox_remove */
            if
            :: newest != 0 -> assert(is_open[newest]); mask[newest] = applied /* mask_apply: failover_load */
            :: d_step { built++; is_open[built] = true; n_open++; mask[built] = applied } /* replace_engine */
                hand_over()
            fi
        :: else
        fi
#ifdef WORK_IS_FORGOTTEN
        ; has_work = false
#endif
    od
}

inline retire(e)
{
    if
    :: e != 0 ->
        assert(returned == 0);
#ifdef WORK_BEFORE_RETURNED
        has_work = true;
        returned = e
#else
        returned = e;
        has_work = true
#endif
    :: else
    fi
}

inline engine_fade_end()
{
    retire(former);
    former = 0; pos = 0;
    is_fading = false
}

inline engine_fade_begin()
{
    former = playing;
    playing = joining;
    joining = 0;
    is_fading = true;
    pos = 0; calls = 0;
    if
    :: is_fresh -> engine_fade_end()
    :: else
    fi
}

inline join_next()
{
    outdated = 0;
    if
#ifdef RETURNED_MAY_BE_FULL
    :: is_fading
#else
    :: is_fading || returned != 0
#endif
    :: else ->
        if
        :: next != 0 ->
            outdated = joining;
#ifdef TAKE_WITHOUT_EXCHANGE
            joining = next;
            next = 0;
#else
            exchange(joining, next, 0);
#endif
            calls = 0;
            retire(outdated)
        :: else
        fi;
        if
#ifdef TWO_ARE_RETURNED
        :: joining == 0
#else
        :: outdated != 0 || joining == 0
#endif
        :: else -> /* failover_catch_up */
            assert(is_open[joining]);
            if
            :: calls < CALLS -> calls++
            :: engine_fade_begin()
            fi
        fi
    fi;
    outdated = 0
}

active proctype audio_thread()
{
    byte former, joining, outdated, calls, pos;
    bool is_fading, is_fresh = true, was_reset;
    do
    :: !was_reset && !is_fading && joining == 0 -> was_reset = true; is_fresh = true /* hc_live_reset */
    :: join_next();
        assert(playing == 0 || is_open[playing]); /* process_chunk */
        assert(former == 0 || is_open[former]);
#ifdef RETIRED_BEFORE_LAST_USE
        if
        :: is_fading && pos + 1 == FADE -> retire(former)
        :: else
        fi;
        assert(former == 0 || is_open[former]);
#endif
        if
        :: is_fading ->
            pos++;
            if
#ifdef RETIRED_BEFORE_LAST_USE
            :: pos == FADE -> former = 0; is_fading = false
#else
            :: pos == FADE -> engine_fade_end()
#endif
            :: else
            fi
        :: else
        fi;
        is_fresh = false;
        change(block)
    od
}

ltl audio_thread_is_never_stuck { ([]<> (block || unstalled)) && ([]<> (!block || unstalled)) }
ltl last_request_wins { <>[] (playing != 0 && playing == newest && mask[playing] == REQUESTS && n_open == 1) } /* weak fairness */
