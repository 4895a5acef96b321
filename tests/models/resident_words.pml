/* resident_words - requests and answers of the resident kernel: words that arrive in any order.
 *
 * models   kernels/resident/resident_head.cu: is_answered, answer_await, word_write, request_write, answer_read,
 *          resident_head_play; kernels/resident/words.cuh: word_load, word_store; kernels/resident/resident_kernel.cu:
 *          block_await, block_load, block_answer
 * atomics  kernels/resident/resident.h: resident_word
 *
 * Proved: no worker plays, and no audio thread hears, a word of another block, also if the audio thread gives up on
 * blocks; no word of a request or of its copy is overwritten before its reader has read it; each worker plays every
 * block once, in order; every block is answered.
 *
 * Order: a word's value and number are one store, and a reader compares the number; no order of words is needed. Here
 * a word is on its way until it arrives, also while its writer goes on. Two stores of one word arrive in their order.
 *
 * Sizes: two ring entries, two workers, two words, five blocks. The audio thread gives up on any block but the last. A
 * block that is skipped because its ring entry is not free has no request: here the audio thread waits for the entry.
 * Numbers do not overflow. Workers stay; resident_seats.pml has the generations.
 */
#include "atomics.h"
#define RING      2
#define BLOCKS    5
#define ADDRESSES 12
/* Where words are. Word 0 of a request is its header. */
#define request(number, i)  ((number) % RING * 2 + (i))
#define copy(number, i)     (4 + (number) % RING * 2 + (i))
#define answer(w, i)        (8 + (w) * 2 + (i))
#define input(w, number, i) (w == 0 -> request(number, i) : copy(number, i))

byte word[ADDRESSES], coming[ADDRESSES]; /* a word's value is its number; coming: on its way; 0: none */
/* What the model checks by. */
byte loaded[2]; /* the last block of which a worker has all words */

/* Words arrive. */
#define arrives(at) d_step { coming[at] != 0 -> word[at] = coming[at]; coming[at] = 0 }
active proctype memory()
{
end: do
    :: arrives(0)
    :: arrives(1)
    :: arrives(2)
    :: arrives(3)
    :: arrives(4)
    :: arrives(5)
    :: arrives(6)
    :: arrives(7)
    :: arrives(8)
    :: arrives(9)
    :: arrives(10)
    :: arrives(11)
    od
}

/* ---- audio thread */

#define has_answered(w, number) (word[answer(w, 0)] >= (number))
#ifdef ONE_WORKER_IS_AWAITED
#define is_answered(number) has_answered(0, number)
#else
#define is_answered(number) (has_answered(0, number) && has_answered(1, number))
#endif

/* No word of the request before is read any more, nor on its way. */
inline request_write()
{
    d_step {
        number++;
        assert(number <= RING || loaded[0] + RING >= number);
        assert(coming[request(number, 0)] == 0 && coming[request(number, 1)] == 0);
        coming[request(number, 0)] = number;
        coming[request(number, 1)] = number
    }
}

inline answer_read()
{
    do
    :: i == 4 -> break
    :: i < 4 ->
        if
        :: word[8 + i] == number
#ifdef ANSWER_NUMBER_IS_NOT_COMPARED
        :: i == 3 && word[8 + i] != number
#endif
        :: word[8 + i] != number && number < BLOCKS -> break /* the deadline has passed */
        fi;
        d_step {
            assert(word[8 + i] == number);
            i++
        }
    od;
    i = 0
}

active proctype audio_thread()
{
    byte number, i;
    do
    :: number == BLOCKS -> break
    :: number < BLOCKS ->
#ifndef ENTRY_IS_NOT_AWAITED
        number < RING || is_answered(number + 1 - RING);
#endif
        request_write();
        answer_read()
    od
}

/* ---- workers */

inline block_load()
{
    do
    :: i == 2 -> break
    :: i < 2 ->
#ifdef REQUEST_NUMBER_IS_NOT_COMPARED
        i == 1 || word[input(w, number + 1, i)] == number + 1;
#else
        word[input(w, number + 1, i)] == number + 1;
#endif
        d_step {
            assert(word[input(w, number + 1, i)] == number + 1);
            if
            :: w == 0 ->
                assert(number < RING || loaded[1] + RING > number);
                assert(coming[copy(number + 1, i)] == 0);
                coming[copy(number + 1, i)] = number + 1
            :: else
            fi;
            i++
        }
    od;
    i = 0
}

#define send(at) d_step { coming[at] == 0 -> coming[at] = number + 1 }

proctype worker(bit w)
{
    byte number, i;
end: do
    :: word[input(w, number + 1, 0)] == number + 1 -> /* block_await */
#ifdef FIRST_WORD_BEFORE_THE_REQUEST_IS_READ
        send(answer(w, 0));
        block_load();
        loaded[w] = number + 1;
#else
        block_load();
        loaded[w] = number + 1;
        send(answer(w, 0));
#endif
        send(answer(w, 1));
        number++
    od
}

init {
    atomic {
        run worker(0);
        run worker(1)
    }
}
