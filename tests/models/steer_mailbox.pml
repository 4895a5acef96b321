/* steer_mailbox - the last request for a source, from any thread to the engine thread, and the uses of its bank.
 *
 * models   dsp/scene/mailbox.c: mailbox_put, mailbox_take, record_free; dsp/scene/scene.c: scene_steer, take_requests;
 *          dsp/scene/bank.c: banks_sweep
 * atomics  dsp/scene/mailbox.h: pending, is_taken; dsp/scene/bank.h: uses
 *
 * Proved: the engine thread never takes half a request; the last request that was put plays in the end; a request is
 * dropped only if another thread puts one at the same time; no bank is deleted while a request names it or the engine
 * thread plays it; `uses` never falls below 0, and in the end counts the bank that plays alone; the engine thread plays
 * on though all other threads stall.
 *
 * Order: the exchange in mailbox_put releases the record's request, and acquires the request that it replaces. The
 * exchange in mailbox_take acquires the request. record_free releases a record after its request was copied, and the
 * exchange of is_taken acquires it. bank_unuse releases the last use, banks_sweep acquires it; the first use of a
 * request is counted before the exchange releases it. The first load in mailbox_take may be relaxed: the exchange looks
 * again. Nothing needs seq_cst: no two threads each store one variable and then load the other's.
 *
 * Sizes: a request that was put, a thread that puts two more and one that puts one, each for a bank of its own; three
 * records instead of four, so that one thread and the engine thread always have one, and the second thread may find
 * none.
 */
#include "atomics.h"
#define THREADS 2
#define PUTS    2 /* of thread 0; thread 1 puts one */
#define bank_of(number) (number > PUTS + 1)
#ifdef ONE_RECORD_LESS
#define RECORDS 2
#else
#define RECORDS 3
#endif
#define NONE    RECORDS

byte pending = NONE;
bool is_taken[RECORDS];
byte record_number[RECORDS], record_bank[RECORDS]; /* the parts of a request; requests count from 1 */
byte uses[THREADS];
bool is_deleted[THREADS];
byte last, wanted, wanted_bank;                    /* numbers of requests; 0: none */
byte n_started, n_inside, n_threads = THREADS;     /* threads begun; in mailbox_put; that still put */
bool has_met[THREADS];                             /* during its put the thread met another one in mailbox_put */
bool block;                                        /* changes with each block */

inline bank_unuse(bank)
{
    d_step { assert(uses[bank] > 0); uses[bank]-- }
}

inline record_free(record)
{
    d_step { /* an engine thread that still reads the record finds no request, a bank of no thread */
        record_number[record] = 0; record_bank[record] = THREADS;
        is_taken[record] = false
    }
}

inline mailbox_put(number, bank)
{
    d_step {
        n_inside++;
        has_met[me] = n_inside > 1;
        has_met[1 - me] = has_met[1 - me] || n_inside > 1
    };
    do
    :: i < RECORDS && record == NONE ->
#ifdef RECORD_TAKEN_WITHOUT_EXCHANGE
        before = is_taken[i];
        is_taken[i] = true;
#else
        exchange(before, is_taken[i], true);
#endif
        record = (before -> NONE : i);
        i++
    :: else -> break
    od;
    if
    :: record == NONE ->
        assert(has_met[me]);
        bank_unuse(bank)
    :: else ->
        record_number[record] = number;
        record_bank[record] = bank;
#ifdef PUT_WITHOUT_EXCHANGE
        replaced = pending;
        d_step { pending = record; last = number };
#else
        d_step { replaced = pending; pending = record; last = number };
#endif
        if
        :: replaced == NONE
        :: else ->
#ifndef REPLACED_STAYS_USED
            bank_unuse(record_bank[replaced]);
#endif
            record_free(replaced)
        fi
    fi;
    d_step { n_inside--; has_met[me] = false; record = NONE; replaced = NONE; before = false; i = 0 }
}

/* hc_steer of a bank of its own, then hc_bank_free. */
active [THREADS] proctype any_thread() may_stall
{
    byte me, n, i, record = NONE, replaced = NONE;
    bool before;
    d_step { /* the request of thread 0 that was put before */
        me = n_started;
        n_started++;
        if
        :: me == 0 -> pending = 0; is_taken[0] = true; record_number[0] = 1; uses[0] = 1; last = 1
        :: else
        fi
    };
    do
    :: n < PUTS - me ->
#ifdef USE_IS_COUNTED_LATE
        mailbox_put(me * (PUTS + 1) + n + 2 - me, me);
        uses[me]++;
#else
        uses[me]++;
        mailbox_put(me * (PUTS + 1) + n + 2 - me, me);
#endif
        n++
    :: else -> break
    od;
    n_threads--;
    atomic { uses[me] == 0 -> is_deleted[me] = true }
}

active proctype engine_thread()
{
    byte record = NONE, number, bank;
    do
    :: if
       :: pending == NONE /* mailbox_take: there is no request */
       :: else ->
#ifdef TAKE_WITHOUT_EXCHANGE
           record = pending;
           pending = NONE;
#else
           exchange(record, pending, NONE);
#endif
#ifdef RECORD_FREED_BEFORE_THE_COPY
           record_free(record);
#endif
           number = record_number[record];
           bank = record_bank[record];
#ifndef RECORD_FREED_BEFORE_THE_COPY
           record_free(record);
#endif
           assert(number > 0 && bank_of(number) == bank);
           if
           :: wanted > 0 -> bank_unuse(wanted_bank)
           :: else
           fi;
           d_step { wanted = number; wanted_bank = bank; record = NONE; number = 0; bank = 0 }
       fi;
       d_step { /* the backend plays a block */
           assert(wanted == 0 || (uses[wanted_bank] > 0 && !is_deleted[wanted_bank]));
           change(block)
       }
    od
}

#define other_bank (1 - wanted_bank)
ltl engine_thread_is_never_stuck { ([]<> (block || unstalled)) && ([]<> (!block || unstalled)) }
ltl last_request_wins { <>[] (n_threads == 0 && wanted == last && uses[wanted_bank] == 1 && is_deleted[other_bank]) } /* weak fairness */
