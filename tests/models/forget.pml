/* forget - a session forgets its input, while engines are built, wait and follow the history in other threads.
 *
 * models   dsp/live/live.c: hc_live_forget, hc_live_process, live_forget, join_next; dsp/live/live_engine.c:
 *          live_engine_forget, make, catch_up_start; dsp/live/ready.c: follow_block, await_engine;
 *          dsp/live/failover.c: failover_forget, standby_forget, standby_follow, standby_acquire
 * atomics  dsp/live/live.h: forgets; dsp/live/stream.h: forgotten; dsp/live/failover.h: forgotten, lock;
 *          dsp/live/ready.h: waiting; dsp/live/input_history.h: end
 *
 * Proved: no engine that plays knows a frame from before the last hc_live_forget that a block has applied; one thread at
 * a time uses an engine.
 *
 * Order: an engine compares what it has forgotten after it came by an acquire (waiting, lock), and the audio thread has
 * stored `forgotten` before it dequeues an engine. Nobody else stores it, so relaxed would suffice there.
 *
 * Sizes: three blocks of a frame; two requests to forget; an engine that plays, one that is built and then waits, and a
 * standby engine that takes over in any block.
 */
#define ALL_MAY_END
#include "atomics.h"
#define FRAMES 3
#define NONE   3 /* no engine */
#define BUILT  1
#define STANDBY 2

byte history_end, forgotten, waiting = NONE;
byte standby_wish; /* failover.forgotten */
bool forgets, lock, ended;
/* What the model checks by. */
byte first[3]; /* oldest frame that the engine knows, or its position */
byte at[3];    /* position in the history */
byte has_forgotten[3]; /* live_engine.forgotten; failover.standby_forgotten */
bool in_use[3];

inline reset(e, frame)
{
    d_step { assert(!in_use[e]); in_use[e] = true };
    d_step { has_forgotten[e] = frame; first[e] = frame; at[e] = frame; in_use[e] = false }
}

inline follow(e)
{
    d_step { assert(!in_use[e]); in_use[e] = true };
    d_step { at[e] = history_end; in_use[e] = false }
}

inline live_engine_forget(e)
{
    if
    :: has_forgotten[e] != forgotten -> reset(e, forgotten)
    :: else
    fi
}

inline standby_forget()
{
    if
    :: has_forgotten[STANDBY] != standby_wish -> reset(STANDBY, standby_wish)
    :: else
    fi
}

active proctype host()
{
    byte n;
    do
    :: n < 2 -> n++; forgets = true
    :: break
    od
}

/* A worker makes an engine; then the ready thread has it. */
active proctype worker()
{
    byte e;
#ifdef STAMP_AFTER_THE_HISTORY
    first[BUILT] = 0;
    follow(BUILT);
    has_forgotten[BUILT] = forgotten;
#else
    has_forgotten[BUILT] = forgotten;
    first[BUILT] = has_forgotten[BUILT];
    follow(BUILT);
#endif
    waiting = BUILT;
    do
    ::
#ifdef WAITING_WITHOUT_EXCHANGE
        e = waiting;
#else
        exchange(e, waiting, NONE);
#endif
        if
        :: e == NONE -> break
        :: else ->
            live_engine_forget(e);
            follow(e);
            waiting = e;
            if
            :: ended -> break
            :: else
            fi
        fi
    od
}

active proctype standby_thread()
{
    bool was;
    do
    :: ended -> break
    :: else ->
        exchange(was, lock, true);
        if
        :: was -> break /* the audio thread has it */
        :: else ->
            standby_forget();
            if
            :: at[STANDBY] < history_end -> follow(STANDBY)
            :: else
            fi;
            lock = false
        fi
    od
}

active proctype audio_thread()
{
    byte playing, joining, last; /* engine 0 plays */
    bool wants, was, has_standby;
    do
    :: history_end < FRAMES ->
        wants = forgets;
        if
        :: wants ->
            exchange(was, forgets, false);
            forgotten = history_end;
            last = history_end;
#ifndef STANDBY_IS_NOT_ASKED
            standby_wish = history_end;
#endif
            if
            :: !has_standby -> live_engine_forget(playing)
            :: else
            fi
        :: else
        fi;
        if
        :: playing == 0 && !has_standby -> /* join_next */
            exchange(joining, waiting, NONE);
            if
            :: joining != NONE ->
#ifndef AN_ENGINE_THAT_COMES_IS_NOT_ASKED
                live_engine_forget(joining);
#endif
                follow(joining);
                playing = joining
            :: else
            fi
        :: else
        fi;
        if
        :: !has_standby -> /* standby_acquire */
            exchange(was, lock, true);
            if
            :: !was -> has_standby = true
            :: else
            fi
        :: true
        fi;
        if
        :: has_standby ->
#ifndef A_STANDBY_ENGINE_THAT_PLAYS_IS_NOT_ASKED
            standby_forget();
#endif
            follow(STANDBY);
            assert(first[STANDBY] >= last)
        :: else -> assert(first[playing] >= last)
        fi;
        history_end++;
        if
        :: has_standby -> at[STANDBY] = history_end
        :: else -> at[playing] = history_end
        fi
    :: else -> break
    od;
    ended = true
}
