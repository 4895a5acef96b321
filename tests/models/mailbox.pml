/* mailbox - the last value that any thread put, for a thread that removes it or for readers; and the bank that a
 * request for a source names.
 *
 * models   dsp/base/mailbox.c: mailbox_put, mailbox_remove, mailbox_read, record_end; dsp/scene/scene.c: scene_steer,
 *          apply_requests; dsp/scene/device_bank.c: banks_sweep; dsp/live/ready.c: ready_request
 * atomics  dsp/base/mailbox.c: newest, is_used, words; dsp/device/hc_bank.h: uses
 *
 * Proved: a thread never gets half a value; one thread gets each value that is removed; a value that is read was the
 * newest at some moment of the call and is never older than the one before; the last value that was put wins in the
 * end, unless a thread drops it; a value is lost only if another thread puts or drops one at the same time; a record
 * is never filled in by two threads, nor while `newest` names it; no bank is deleted while a request names it or the
 * engine thread plays it; `uses` never falls below 0, and in the end counts the bank that plays alone; the engine
 * thread plays on though all other threads stall.
 *
 * Order: the exchange of `newest` in mailbox_put releases the words, and acquires those of the record that it replaces.
 * The exchange in mailbox_remove, and the loads in mailbox_read, acquire the words. record_end releases a record after its
 * words were copied, and the exchange of is_used acquires it. A word of a later writer is stored with release, after this
 * writer has acquired is_used from the thread that replaced the stamp: a reader that acquires such a word also sees the
 * later stamp in its second load. bank_unuse releases the last use, banks_sweep acquires it; the first use of a request
 * is counted before the exchange releases it. The first load in mailbox_remove may be relaxed: the exchange looks again.
 * Nothing needs seq_cst: no two threads each store one variable and then load the other's.
 *
 * Sizes: a value that was put, a thread that puts two more and one that puts one and may then drop a value, each for a
 * separate bank; three records instead of four, so that one thread and the engine thread always have one, and the
 * second thread may find none; two words. Readers see a stamp that counts the values; a thread that removes looks at
 * the record of a stamp alone. MAX_READS is 2.
 */
#include "atomics.h"
#define THREADS   2
#define PUTS      2 /* of thread 0; thread 1 puts one */
#define MAX_READS 2
#define STAMPS    5 /* values, and 0 */
#define bank_of(number) (number > PUTS + 1)
#ifdef ONE_RECORD_LESS
#define RECORDS 2
#else
#define RECORDS 3
#endif
#define NONE    RECORDS

bool removes;                                   /* the engine thread removes values: requests; else it reads: places */
byte newest;                                    /* a stamp; 0: empty */
bool is_used[RECORDS];
byte filling[RECORDS];                          /* threads that fill it in */
byte word_a[RECORDS], word_b[RECORDS];          /* of a request: its number, from 1, and its bank; of a place: its number */
byte record_of[STAMPS], value_of[STAMPS], order_of[STAMPS]; /* of a stamp; order_of: when it came to `newest` */
byte stamps, published;                         /* so far */
byte uses[THREADS];
bool is_deleted[THREADS];
byte last, wanted, wanted_bank;                 /* numbers of values; 0: none */
byte n_started, n_inside, n_threads = THREADS;  /* threads begun; in a call; that still make calls */
bool has_met[THREADS];                          /* during its call the thread met another one in a call */
bool block;                                     /* changes with each block */

inline bank_unuse(bank)
{
    d_step {
        if
        :: removes -> assert(uses[bank] > 0); uses[bank]--
        :: else
        fi
    }
}

inline record_end(record)
{
    d_step { /* a thread that still copies the record finds no value, a bank of no thread */
        if
        :: removes -> word_a[record] = 0; word_b[record] = THREADS
        :: else
        fi;
        is_used[record] = false
    }
}

inline publish()
{
    filling[record]--;
    newest = stamp; last = number; published = published + !removes; order_of[stamp] = published
}

inline enter()
{
    d_step {
        n_inside++;
        has_met[me] = n_inside > 1;
        has_met[1 - me] = has_met[1 - me] || n_inside > 1
    }
}

inline mailbox_put(number, bank)
{
    enter();
    do
    :: i < RECORDS && record == NONE ->
#ifdef RECORD_CLAIMED_WITHOUT_EXCHANGE
        before = is_used[i];
        d_step {
#else
        d_step {
            before = is_used[i];
#endif
            is_used[i] = true;
            record = (before -> NONE : i);
            i++
        }
    :: else -> break
    od;
    if
    :: record == NONE ->
        assert(has_met[me]);
        bank_unuse(bank)
    :: else ->
        d_step {
            filling[record]++;
            stamps = stamps + !removes;
            stamp = (removes -> record + 1 : stamps);
            record_of[stamp] = record;
            value_of[stamp] = (removes -> 0 : number);
            assert(filling[record] == 1 && (newest == 0 || record_of[newest] != record));
            word_a[record] = number
        };
#ifndef PUBLISHED_HALF
        word_b[record] = (removes -> bank : number);
#endif
#ifdef RELEASED_BEFORE_REPLACED
        if
        :: newest -> is_used[record_of[newest]] = false
        :: else
        fi;
#endif
#ifdef PUT_WITHOUT_EXCHANGE
        replaced = newest;
        d_step { publish() };
#else
        d_step { replaced = newest; publish() };
#endif
#ifdef PUBLISHED_HALF
        word_b[record] = (removes -> bank : number);
#endif
        if
        :: replaced == 0
        :: else ->
            record = record_of[replaced];
#ifndef REPLACED_STAYS_USED
            bank_unuse(word_b[record]);
#endif
#ifndef RELEASED_BEFORE_REPLACED
            record_end(record)
#endif
        fi
    fi;
    d_step { n_inside--; has_met[me] = false; record = NONE; stamp = 0; replaced = 0; before = false; i = 0 }
}

inline mailbox_remove()
{
#ifdef REMOVED_WITHOUT_EXCHANGE
    stamp = newest;
    newest = 0;
#else
    exchange(stamp, newest, 0);
#endif
}

/* hc_steer for a separate bank, then hc_bank_free; or hc_live_steer. */
proctype any_thread() may_stall
{
    byte me, n, i, record = NONE, stamp, replaced, number;
    bool before;
    d_step { me = n_started; n_started++ };
    do
    :: n < PUTS - me ->
        d_step {
            number = me * (PUTS + 1) + n + 2 - me;
            n++;
#ifndef USE_IS_COUNTED_LATE
            uses[me] = uses[me] + removes
#endif
        };
        mailbox_put(number, me);
#ifdef USE_IS_COUNTED_LATE
        uses[me] = uses[me] + removes;
#endif
        number = 0
    :: else -> break
    od;
    if
    :: me == 1 && removes -> /* drops a value */
        enter();
        mailbox_remove();
        if
        :: stamp == 0
        :: else ->
            record = record_of[stamp];
            d_step { number = word_a[record]; i = word_b[record]; assert(number > 0 && bank_of(number) == i) };
            record_end(record);
            bank_unuse(i);
            d_step {
                if
                :: number == last -> last = 0 /* what was wanted before stays */
                :: else
                fi
            }
        fi;
        d_step { n_inside--; has_met[me] = false; record = NONE; number = 0; i = 0; stamp = 0 }
    :: true
    fi;
    n_threads--;
    atomic { removes && uses[me] == 0 -> is_deleted[me] = true }
}

inline apply_request()
{
    if
    :: newest == 0
    :: else ->
        mailbox_remove();
        if
        :: stamp == 0
        :: else ->
            record = record_of[stamp];
#ifdef RECORD_ENDED_BEFORE_THE_COPY
            record_end(record);
#endif
            number = word_a[record];
            bank = word_b[record];
#ifndef RECORD_ENDED_BEFORE_THE_COPY
            record_end(record);
#endif
            assert(number > 0 && bank_of(number) == bank);
            if
            :: wanted > 0 -> bank_unuse(wanted_bank)
            :: else
            fi;
            d_step { wanted = number; wanted_bank = bank; record = 0; number = 0; bank = 0; stamp = 0 }
        fi
    fi
}

inline mailbox_read()
{
    stamp = newest;
    do
    :: reads == MAX_READS || stamp == known -> break
    :: else ->
        number = word_a[record_of[stamp]];
        bank = word_b[record_of[stamp]];
#ifdef NOT_LOOKED_AGAIN
        now = stamp;
#else
        now = newest;
#endif
        if
        :: now == stamp ->
            d_step {
                assert(number == bank && number == value_of[stamp] && order_of[stamp] > order_of[known]);
                wanted = number; known = stamp
            };
            break
        :: else -> d_step { stamp = now; reads++ }
        fi
    od;
    stamp = 0; now = 0; number = 0; bank = 0; reads = 0
}

proctype engine_thread()
{
    byte record, stamp, number, bank, known, now, reads;
    do
    :: if
       :: removes -> apply_request()
       :: else -> mailbox_read()
       fi;
       d_step { /* the backend plays a block */
           assert(!removes || wanted == 0 || (uses[wanted_bank] > 0 && !is_deleted[wanted_bank]));
           change(block)
       }
    od
}

/* A value was put before. */
init {
    atomic {
        if
        :: removes = true; uses[0] = 1; word_b[0] = 0
        :: stamps = 1; published = 1; order_of[1] = 1; value_of[1] = 1; word_b[0] = 1
        fi;
        newest = 1; word_a[0] = 1; is_used[0] = true; last = 1;
        run any_thread();
        run any_thread();
        run engine_thread()
    }
}

#define other_bank (1 - wanted_bank)
#define has_won (last == 0 || wanted == last)
#define plays_alone (wanted == 0 || (uses[wanted_bank] == 1 && is_deleted[other_bank]))
ltl engine_thread_is_never_stuck { ([]<> (block || unstalled)) && ([]<> (!block || unstalled)) }
ltl last_value_wins { <>[] (n_threads == 0 && has_won && (!removes || (newest == 0 && plays_alone))) } /* weak fairness */
