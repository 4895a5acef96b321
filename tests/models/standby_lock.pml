/* standby_lock - the standby engine: its thread follows the history until the audio thread takes it over.
 *
 * models   dsp/live/failover.c: failover_process, failover_has_standby, standby_acquire, standby_lock, runner_follow,
 *          failover_wake, standby_thread, standby_follow, standby_stop, failover_load;
 *          dsp/live/input_history.c: input_history_publish
 * atomics  dsp/live/failover.h: lock, end, wake, takeover, cpu_share; dsp/live/input_history.h: end
 *
 * Proved: one thread at a time uses the standby engine; it plays every block once and in order, also across the
 * takeover; it has a mask when it plays; without a takeover it has followed every block in the end; a wait with a
 * deadline ends though the standby thread stalls with the lock; standby_stop ends that thread.
 *
 * Order: the lock is acquired and released, and so are the frames of the history (`end` of input_history.h). The
 * semaphore is posted after that, so the standby thread sees them. `takeover` and `cpu_share` need seq_cst: the audio
 * thread stores the first and then loads the second, failover_load the reverse. With acquire and release the standby
 * engine could lose its mask in the block that takes it over.
 *
 * Sizes: three blocks; the device fails at any of them, or never; a mask is loaded meanwhile; the CPU may play both
 * masks, one or none; the standby engine may be one block behind; a wait with a deadline looks twice.
 */
#define ALL_MAY_END
#include "atomics.h"
#define BLOCKS 3
#define BEHIND 1 /* CATCH_UP_BLOCKS */
#define LOOKS  1

mtype = { not_needed, begun, pending, complete, impossible }; /* enum takeover */
mtype takeover = not_needed;
bool lock, end, has_share = true; /* has_share: cpu_share is finite */
byte wake, history_end;
/* What the model checks by. */
byte at;                              /* standby.at */
bool has_mask = true;                 /* the standby engine plays a mask, not silence */
bool in_use, ended, freewheels, has_thread_ended;

/* Also engine_process_clean: the block is not yet in the history, for the audio thread. */
inline runner_follow(to)
{
    d_step { assert(!in_use); in_use = true };
    d_step { assert(at < to); at++; in_use = false }
}

inline standby_lock(locked)
{
    do
    ::
#ifdef LOCK_WITHOUT_TEST_AND_SET
        was = lock;
        lock = true;
#else
        exchange(was, lock, true);
#endif
        if
        :: !was -> locked = true; has_lock = true; break
#ifndef DEADLINE_IS_IGNORED
        :: was && looks == LOOKS && !freewheels -> locked = false; break
#endif
        :: else -> looks = (looks < LOOKS -> looks + 1 : looks)
        fi
    od;
    looks = 0
}

inline standby_acquire(taken)
{
    standby_lock(taken);
    if
    :: taken && !freewheels && history_end - at > BEHIND ->
#ifndef LOCK_IS_KEPT
        lock = false; has_lock = false;
#endif
        taken = false
    :: taken && (freewheels || history_end - at <= BEHIND) ->
#ifndef NOTHING_IS_CAUGHT_UP
        do
        :: at < history_end -> runner_follow(history_end)
        :: else -> break
        od;
#endif
#ifdef LOCK_IS_RELEASED
        lock = false; has_lock = false
#endif
    :: else
    fi
}

/* false: the device fails in this block. */
inline play_main(ok)
{
    if
    :: ok = true
    :: ok = false
    fi
}

inline failover_process()
{
    if
    :: takeover == not_needed ->
        play_main(ok);
        if
        :: ok -> goto publish
        :: else
        fi;
#ifndef TAKEOVER_IS_STORED_LATE
        takeover = begun;
#endif
        next = (has_share -> pending : impossible) /* failover_has_standby */
    :: else -> next = takeover
    fi;
    if
    :: next == pending ->
        standby_acquire(ok);
        if
        :: ok -> next = complete
        :: else
        fi
    :: else
    fi;
    takeover = next;
    if
    :: takeover == complete -> /* engine_process_clean */
        assert(at == history_end && has_mask);
        runner_follow(history_end + 1)
    :: else
    fi
}

inline failover_wake()
{
    if
    :: takeover != complete -> sem_post(wake)
    :: else
    fi
}

active proctype audio_thread()
{
    byte looks;
    bool ok, was, has_lock;
    mtype next;
    if
    :: freewheels = true /* has_no_deadline */
    :: freewheels = false
    fi;
    do
    :: history_end < BLOCKS ->
        failover_process();
publish:
#ifdef WAKES_BEFORE_PUBLISHED
        failover_wake();
        history_end++
#else
        history_end++; /* input_history_publish */
        failover_wake()
#endif
    :: else -> break
    od;
    assert(has_lock == (takeover == complete));
    ended = true
}

inline standby_follow()
{
    do
    :: end -> break
    :: else ->
        exchange(was, lock, true);
        if
        :: was -> break /* the audio thread has it */
        :: else
        fi;
        to = history_end;
#ifdef LOCK_IS_RELEASED_TOO_EARLY
        lock = false;
#endif
        d_step { assert(!in_use); more = at < to };
        if
        :: more -> runner_follow(to)
        :: else
        fi;
#ifndef LOCK_IS_RELEASED_TOO_EARLY
        lock = false;
#endif
        if
        :: !more -> break
        :: else
        fi
    od
}

active proctype standby_thread() may_stall
{
    byte to;
    bool was, more;
    do
    :: end -> break
    :: else ->
        standby_follow();
end_asleep:
        sem_wait(wake)
    od;
    has_thread_ended = true
}

inline failover_load()
{
    if
    :: suffices = true
    :: suffices = false; has_share = false
    fi;
    if
    :: takeover == not_needed ->
        has_mask = suffices; /* runner_play */
        if
        :: suffices -> has_share = true
        :: else
        fi
    :: else
    fi
}

inline standby_stop()
{
    end = true;
#ifndef END_WITHOUT_POST
    sem_post(wake);
#endif
    has_thread_ended /* pthread_join */
}

active proctype worker() may_stall
{
    bool suffices;
    if
    :: atomic { takeover == not_needed && history_end == 0 -> has_share = false; has_mask = false }
    :: skip
    fi;
    failover_load();
    ended;
    if
    :: standby_stop() /* failover_close */
    :: skip
    fi
}

ltl audio_thread_is_never_stuck { (<> ended) || (<> (stalled && freewheels)) || ([] unstalled) } /* weak fairness */
ltl standby_thread_follows { (<> (takeover != not_needed || has_thread_ended)) || (<>[] (at == BLOCKS && !end)) }
