/* places - the place of a source: any thread puts one, and any thread reads the last one as often as it likes.
 *
 * models   dsp/live/places.c: place_put, place_read
 * atomics  dsp/live/places.h: newest, is_taken, words
 *
 * Proved: a reader that returns a place has both its words from one place, which was the newest at some moment of the
 * call; it never returns an older place than before; a record is never filled in by two threads, nor while `newest`
 * names it; in the end the last place can be read; a reader ends though all other threads stall.
 *
 * Order: the exchange of `newest` releases the words, and the load of `newest` acquires them. A word of a later writer
 * is stored with release, after this writer has acquired is_taken from the thread that replaced the stamp: a reader
 * that acquires such a word also sees the later stamp in its second load.
 *
 * Sizes: two records instead of four, so that they are reused at once and a writer may find none free; two writers with
 * two places each; two words. A stamp is the number of its version here, and record_of its record. MAX_READS is 2.
 */
#include "atomics.h"
#define RECORDS    2
#define WRITERS    2
#define PUTS       2
#define READS      2
#define MAX_READS 2
#define MAX_STAMPS 6

byte newest;                       /* stamp; 0: none */
bool is_taken[RECORDS];
byte word_a[RECORDS], word_b[RECORDS];
byte filling[RECORDS];             /* threads that fill it in */
byte record_of[MAX_STAMPS], value_of[MAX_STAMPS]; /* of each stamp */
byte order_of[MAX_STAMPS];        /* likewise: when it came to `newest` */
byte stamps, values, published;    /* so far */
byte n_writers = WRITERS;

inline place_put()
{
    record = 0;
    do
    :: record == RECORDS -> break
    :: else ->
        exchange(was, is_taken[record], true);
#ifdef TAKEN_RECORD_IS_USED
        was = false;
#endif
        if
        :: !was -> break
        :: else -> record++
        fi
    od;
    if
    :: record == RECORDS /* the place of another thread wins */
    :: else ->
        d_step { values++; value = values; filling[record]++ };
        assert(filling[record] == 1 && (newest == 0 || record_of[newest] != record));
        word_a[record] = value;
#ifdef PUBLISHED_HALF
        d_step { stamps++; stamp = stamps; record_of[stamp] = record; value_of[stamp] = value };
        d_step { replaced = newest; newest = stamp; published++; order_of[stamp] = published };
        word_b[record] = value;
        filling[record]--;
#else
        word_b[record] = value;
        d_step { filling[record]--; stamps++; stamp = stamps; record_of[stamp] = record; value_of[stamp] = value };
#ifdef RELEASED_BEFORE_REPLACED
        if
        :: newest -> is_taken[record_of[newest]] = false
        :: else
        fi;
#endif
        d_step { replaced = newest; newest = stamp; published++; order_of[stamp] = published };
#endif
#ifndef RELEASED_BEFORE_REPLACED
        if
        :: replaced -> is_taken[record_of[replaced]] = false
        :: else
        fi;
#endif
        d_step { value = 0; stamp = 0; replaced = 0 }
    fi;
    d_step { record = 0; was = false }
}

proctype writer() may_stall
{
    byte record, value, stamp, replaced, n;
    bool was;
    do
    :: n == PUTS -> break
    :: else -> place_put(); n++
    od;
    n_writers--
}

inline place_read()
{
    d_step { is_read = false; reads = 0; seen = newest };
    do
    :: reads == MAX_READS || seen == known -> break
    :: else ->
        a = word_a[record_of[seen]];
        b = word_b[record_of[seen]];
#ifdef NOT_LOOKED_AGAIN
        now = seen;
#else
        now = newest;
#endif
        if
        :: now == seen ->
            d_step {
                assert(a == b && a == value_of[seen] && order_of[seen] > order_of[known]);
                known = seen; is_read = true
            };
            break
        :: else -> d_step { seen = now; reads++ }
        fi
    od;
    a = 0; b = 0; seen = 0; now = 0; reads = 0
}

bool reader_ends;

active proctype reader()
{
    byte known, seen, now, reads, a, b, n;
    bool is_read;
    run writer();
    run writer();
    do
    :: n == READS -> break
    :: else ->
        if
        :: n == READS - 1 -> reader_ends = true; n_writers == 0 /* the last call finds the last place */
        :: else
        fi;
        place_read();
        n++
    od;
    assert(known == newest && newest > 0)
}

ltl reader_never_stuck { (<> reader_ends) || ([] unstalled) }
