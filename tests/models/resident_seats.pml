/* resident_seats - the generations of the resident kernel: workers that hand their seats over, and masks.
 *
 * models   kernels/resident/resident_head.cu: is_answered, resident_head_play, resident_head_mask_retire,
 *          resident_head_mask_released; kernels/resident/resident_kernel.cu: is_superseded, block_await, resident_mask_load,
 *          block_answer, seat_acquire, seat_serve; kernels/resident/words.cuh: seat_try_acquire, seat_release;
 *          kernels/resident/resident_service.cu: generation_launch
 * atomics  kernels/resident/resident.h: resident_seat
 *
 * Proved: one worker at a time serves a seat; each worker plays every block once, in order, across generations; a block
 * is answered though a worker leaves without a successor, or a successor gives up; a request is not overwritten before
 * it is read; no worker reads a mask that was released.
 *
 * Order: a fence and atomicExch of `is_held` release the checkpoint that a worker hands over; atomicCAS and a fence
 * acquire it. `newest_generation` decides only when a worker leaves: a worker may read an old value.
 *
 * Sizes: a seat, two ring entries, four generations, four blocks of one word that arrives at once; resident_words.pml
 * has two workers and more words. A worker may leave for max_ns whenever no block has come, and give up whenever its
 * seat is held. The worker of the last generation stays, so a block that nobody answers is a deadlock. The audio thread
 * gives up on any block but the last. It swaps masks before block 2 or 3, and frees the first mask as soon as it may.
 */
#include "atomics.h"
#define RING        2
#define BLOCKS      4
#define GENERATIONS 4

byte request[RING], answer;   /* numbers of the words */
byte newest_generation, saved; /* saved: the last block that was played */
bool is_held;
bit saved_mask;               /* the mask that was in the cache then */
byte generation, generation_in[2];
bool runs[2];                 /* the kernel of a stream */
byte second;                  /* the first block that plays mask 1 */
/* What the model checks by. */
byte played;
bool is_serving, is_freed;    /* is_freed: mask 0 */

#define mask_of(number)     ((number) >= second)
#define is_answered(number) (answer >= (number))
#define mask_is_freed(mask) (is_freed && (mask) == 0)

/* ---- audio thread */

/* A mask is retired before the first block without it. It may be freed when the workers have answered that block: then
 * they have another mask in their caches. */
inline retired_sweep()
{
    if
#ifdef RELEASED_BY_ITS_LAST_BLOCK
    :: number + 1 >= second && is_answered(second - 1) -> is_freed = true
#else
    :: number >= second && is_answered(second) -> is_freed = true
#endif
    :: else
    fi
}

proctype audio_thread()
{
    byte number;
    do
    :: number == BLOCKS -> break
    :: number < BLOCKS ->
        number < RING || is_answered(number + 1 - RING);
        number++;
        d_step {
            assert(number <= RING || played + RING >= number);
            request[number % RING] = number
        };
        if
        :: is_answered(number)
        :: !is_answered(number) && number < BLOCKS /* the deadline has passed */
        fi;
        retired_sweep()
    od
}

/* ---- workers */

/* false: the deadline has passed. */
inline seat_acquire()
{
    newest_generation = generation_in[stream];
    do
#ifdef TAKEN_WITHOUT_ATOMIC
    :: !is_held -> is_held = true; goes_on = true; break
#else
    :: atomic { !is_held -> is_held = true }; goes_on = true; break
#endif
    :: is_held && generation_in[stream] < GENERATIONS -> break
    od
}

inline checkpoint_save()
{
    saved = number;
    saved_mask = mask
}

inline seat_serve()
{
    d_step { assert(!is_serving); is_serving = true };
    number = saved;
    mask = saved_mask;
    assert(!mask_is_freed(mask)); /* resident_mask_load */
end_poll:
    do
    :: request[(number + 1) % RING] == number + 1 -> /* block_await */
        d_step { /* block_load */
            assert(played == number);
            number++;
            mask = mask_of(number);
            played = number
        };
        answer = number; /* the first word */
        assert(!mask_is_freed(mask)); /* the taps of the last output are read */
        if
        :: newest_generation > generation_in[stream] -> break
        :: else
        fi
    :: request[(number + 1) % RING] != number + 1 && generation_in[stream] < GENERATIONS ->
        is_alone = newest_generation <= generation_in[stream]; /* max_ns; else idle_ns */
        break
    od;
    is_serving = false;
#ifdef SAVED_AFTER_THE_SEAT_IS_FREE
    is_held = false;
    checkpoint_save()
#else
    if
#ifdef LEAVES_ALONE_WITHOUT_SAVING
    :: is_alone
#endif
    :: else -> checkpoint_save()
    fi;
    is_held = false
#endif
}

proctype worker(bit stream)
{
    byte number;
    bit mask;
    bool goes_on, is_alone;
end: do
    :: runs[stream] ->
        seat_acquire();
        if
        :: goes_on -> seat_serve()
        :: else
        fi;
        d_step { runs[stream] = false; number = 0; mask = 0; goes_on = false; is_alone = false }
    od
}

/* Launches a generation, unless the one before the last still runs. */
active proctype manager()
{
    bit stream;
    do
    :: generation == GENERATIONS -> break
    :: atomic {
           generation < GENERATIONS && !runs[stream] ->
           generation++;
           generation_in[stream] = generation;
           runs[stream] = true;
           stream = 1 - stream
       }
    od
}

init {
    atomic {
        if
        :: second = 2
        :: second = 3
        fi;
        run audio_thread();
        run worker(0);
        run worker(1)
    }
}
