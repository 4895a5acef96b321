/* resident_sums - two workers of the resident kernel share outputs: each has some inputs, and the first one answers.
 *
 * models   kernels/resident/resident_head.cu: is_answered, resident_head_play; kernels/resident/resident_kernel.cu:
 *          block_load, resident_words_of, outputs_play, group_answer, block_answer, seat_serve
 * atomics  kernels/resident/resident.h: resident_word
 *
 * Proved: the first worker adds up sums of its block only; no sum is overwritten before it is read; if the first worker
 * leaves without all sums, its successor finds the request of that block; every block is answered.
 *
 * Order: as in resident_words.pml, a word's value and number are one store, and a reader compares the number. Words of
 * sums arrive in any order.
 *
 * Sizes: two ring entries, two sums, five blocks; another group copies the requests. The first worker may leave for
 * max_ns whenever a sum is missing. Its successor goes on with the same number, so here it is one process. The other
 * one may be away for any time. The audio thread gives up on any block but the last, so a block that is never answered
 * is a deadlock.
 */
#include "atomics.h"
#define RING   2
#define SUMS   2
#define BLOCKS 5
#ifdef SUMS_HAVE_ONE_ENTRY
#define sum_of(number, i) (i)
#else
#define sum_of(number, i) ((number) % RING * SUMS + (i))
#endif
#define is_answered(number) (answer[0] >= (number) && relayed >= (number))

byte request[RING], copy[RING], sums[RING * SUMS], answer[SUMS]; /* numbers of the words */
byte relayed;                                                    /* the answer of the worker that copies requests */
/* What the model checks by. */
byte added; /* the last block of which all sums are added up */

active proctype audio_thread()
{
    byte number;
    do
    :: number == BLOCKS -> break
    :: number < BLOCKS ->
        number < RING || is_answered(number + 1 - RING);
        number++;
        request[number % RING] = number;
        if
        :: answer[0] == number && answer[1] == number
        :: number < BLOCKS /* the deadline has passed */
        fi
    od
}

/* The first worker of another group. */
active proctype relay()
{
end: do
    :: request[(relayed + 1) % RING] == relayed + 1 ->
        copy[(relayed + 1) % RING] = relayed + 1;
        relayed++
    od
}

inline sum_read(i)
{
    d_step {
        assert(sums[sum_of(number + 1, i)] == number + 1);
#ifdef ANSWERS_BEFORE_ALL_SUMS
        answer[i] = number + 1;
#endif
        i++
    }
}

active proctype first_worker()
{
    byte number, i;
end: do
    :: copy[(number + 1) % RING] == number + 1 -> /* block_await, block_load */
        do /* group_answer */
        :: i == SUMS -> break
#ifdef SUM_NUMBER_IS_NOT_COMPARED
        :: i < SUMS -> sum_read(i)
#else
        :: i < SUMS && sums[sum_of(number + 1, i)] == number + 1 -> sum_read(i)
#endif
        :: i < SUMS && sums[sum_of(number + 1, i)] != number + 1 -> break /* max_ns */
        od;
        if
        :: i == SUMS ->
            added = number + 1;
            answer[0] = number + 1;
            answer[1] = number + 1;
            number++
        :: else -> /* the successor begins the block again */
#ifdef LEAVES_WITH_THE_NEXT_NUMBER
            number++
#else
            assert(copy[(number + 1) % RING] == number + 1)
#endif
        fi;
        i = 0
    od
}

#define send(i) d_step { assert(sums[sum_of(number, i)] <= added); sums[sum_of(number, i)] = number }

active proctype other_worker()
{
    byte number;
end: do
    :: copy[(number + 1) % RING] == number + 1 ->
        number++;
        if
        :: send(0); send(1)
        :: send(1); send(0)
        fi
    od
}
