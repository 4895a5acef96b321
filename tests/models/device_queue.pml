/* device_queue - blocks for a device, and the sleep of both threads.
 *
 * models   dsp/engine/engine.c: play_on_device; dsp/device/device_queue.c: device_queue_has_capacity, device_queue_post,
 *          device_queue_skip, device_queue_is_done, device_queue_await, device_queue_failed, await_work,
 *          sem_wait_until, block_play, device_thread, device_queue_close; dsp/base/await.h: await;
 *          dsp/device/wakeup.c: wakeup_until
 * atomics  dsp/device/device_queue.c: work, done, audio_sleeps, end, posted, finished, failed
 *
 * Proved: no block is lost, played twice or overwritten while the device uses it; the device hears the stream without a
 * gap, skipped blocks as silence; a result is read when it is complete; no wake-up is lost; a wait with a deadline ends
 * though the device stalls; nothing is used after device_queue_close.
 *
 * Order: `posted` and the semaphore release a block to the device, `finished` releases its result: acquire and release
 * suffice. The sleep of the audio thread needs seq_cst: each thread stores one variable and then loads the other's
 * (audio_sleeps, finished). With acquire and release both could load the old value, and the audio thread would sleep
 * for ever. The mutation FLAG_AFTER_CHECK does what a store buffer would do. `failed` releases `why`.
 *
 * wakeup.c decides only how long the device thread sleeps: here every sleep may end at any time. Sizes: memory for two
 * blocks, a stream of four; a wait with a deadline looks twice at least.
 */
#include "atomics.h"
#define N_BLOCKS 2
#define STREAM   4
#define LOOKS    1
#define NONE     99

byte posted, finished, work, done, failed = NONE;
bool audio_sleeps, end, why;
byte skipped_before[N_BLOCKS];
/* What the model checks by. */
byte input[N_BLOCKS] = NONE, output[N_BLOCKS] = NONE; /* the owner's memory: a place in the stream */
byte in_use = NONE;                                   /* memory that the device works on */
bool streamed, freewheels, has_device_ended, is_freed;

/* bounded: with a deadline, until_us. */
inline device_queue_await(n, bounded, in_time)
{
    in_time = false; looks = 0;
    do
    :: finished > n -> in_time = true; break
    :: else ->
        if
#ifndef DEADLINE_IS_IGNORED
        :: bounded && looks == LOOKS -> break
#endif
        :: bounded && looks < LOOKS -> looks++
#ifdef DEADLINE_IS_IGNORED
        :: bounded && looks == LOOKS
#endif
        :: !bounded ->
            freewheels = true;
#ifndef FLAG_AFTER_CHECK
            audio_sleeps = true;
#endif
#ifndef NO_CHECK_BEFORE_SLEEP
            if
            :: finished > n -> in_time = true; break
            :: else
            fi;
#endif
#ifdef FLAG_AFTER_CHECK
            audio_sleeps = true;
#endif
            sem_wait(done)
        fi
    od
}

inline device_queue_post()
{
#ifdef POSTED_TOO_EARLY
    posted++; sem_post(work);
#endif
    input[slot] = place; /* engine_load */
    skipped_before[slot] = skipped;
    skipped = 0;
#ifndef POSTED_TOO_EARLY
    posted++;
    sem_post(work)
#endif
}

inline device_queue_close()
{
    end = true;
#ifndef END_WITHOUT_POST
    sem_post(work);
#endif
#ifndef FREED_WITHOUT_JOIN
    has_device_ended; /* pthread_join */
#endif
    is_freed = true
}

active proctype audio_thread()
{
    byte place, slot, skipped, looks;
    bool bounded, in_time;
    do
    :: place < STREAM -> /* play_on_device */
        if
        :: bounded = true
        :: bounded = false
        fi;
#ifdef NO_LOOK_FOR_ROOM
        in_time = true;
#else
        device_queue_await(posted - N_BLOCKS, bounded, in_time); /* device_queue_has_capacity */
#endif
        if
        :: !in_time -> skipped++ /* device_queue_skip */
        :: else ->
            slot = posted % N_BLOCKS;
            assert(in_use != slot);
            device_queue_post();
            device_queue_await(posted - 1, bounded, in_time);
            assert(!in_time || output[slot] == place)
        fi;
        assert(failed == NONE || why); /* device_queue_failed */
        place++
    :: else -> break
    od;
    streamed = true;
    device_queue_close()
}

/* The first block fails, or none does. */
inline block_play()
{
    slot = finished % N_BLOCKS;
    assert(posted > finished && !is_freed);
    in_use = slot;
    heard = heard + skipped_before[slot];
    assert(input[slot] == heard);
    heard++;
    output[slot] = input[slot];
    in_use = NONE;
    if
    :: failed == NONE ->
#ifdef FAILED_BEFORE_WHY
        failed = finished; why = true
#else
        why = true; failed = finished
#endif
    :: skip
    fi
}

inline await_work()
{
    has_come = false;
    if
    :: posted == finished -> /* sem_wait_until */
        if
        :: sem_wait(work); has_come = true
        :: skip
        fi
    :: skip /* wakeup_until says: no sleep */
    fi;
    if
#ifndef POST_IS_TAKEN_TWICE
    :: has_come
#endif
    :: else -> sem_wait(work) /* the spin before it changes nothing */
    fi
}

active proctype device_thread() may_stall
{
    byte slot, heard;
    bool has_come, sleeps;
    do
    :: await_work();
        assert(!is_freed);
        if
        :: end -> break
        :: else
        fi;
        block_play();
#ifdef WAKES_BEFORE_FINISHED
        exchange(sleeps, audio_sleeps, false);
        finished++;
#else
        finished++;
        exchange(sleeps, audio_sleeps, false);
#endif
        if
        :: sleeps -> sem_post(done)
        :: else
        fi
    od;
    has_device_ended = true
}

ltl audio_thread_is_never_stuck { (<> streamed) || (<> (stalled && freewheels)) }
ltl both_threads_end { <>[] (is_freed && has_device_ended) }
