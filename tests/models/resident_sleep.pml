/* resident_sleep - the manager of the resident kernel sleeps while no block comes, and wakes up; beside another process
 * each block wakes it.
 *
 * models   kernels/resident/resident_service.cu: generation_launch, idle_check, manager_wait, stay_set, resident_step,
 *          on_demand_step, manager_run, resident_posted, job_enter, generation_await;
 *          kernels/resident/resident_kernel.cu: resident_start, block_await
 * atomics  kernels/resident/resident_service.cu: resident_service, wake
 *
 * Proved: each block is answered, also one that comes while the manager falls asleep or begins to launch on demand; a
 * job that enters is served.
 *
 * Order: posted_us and runs need seq_cst: resident_posted stores the first and then loads the second, idle_check the
 * reverse. With acquire and release both could load the old value, and no generation would play the block. The
 * other fields are under the lock of the service: a step here.
 *
 * Time: a worker that finds no request may leave for max_ns, a launch may wait for GENERATION_US, and manager_wait may
 * end, at any time, on demand only by a post. IDLE_US may pass whenever no engine waits: it is longer than any answer takes.
 *
 * Sizes: an engine that plays two blocks, and one that enters and plays a block. An engine waits for its answers. A
 * kernel answers what has come, then leaves; resident_seats.pml has its workers. Another process comes once.
 */
#include "atomics.h"
#define ENGINES 2
#define BLOCKS  2

bool is_new = true, runs = true; /* is_new: posted_us is not older than IDLE_US */
bool on_demand;
byte wake;
bool launched[2];                /* kernels in the streams */
bool is_expected;                /* engine 1 waits for a generation that is launched from now on */
bool carries[2], has_started;    /* carries: its start ends the wait */
bool is_posted[ENGINES];         /* a request that is not answered */
byte n_waiting;                  /* what the model checks by: engines that wait */

/* Unless the one before the last still runs. */
inline generation_launch()
{
    d_step {
        if
        :: !launched[stream] ->
            launched[stream] = true;
            carries[stream] = is_expected;
            is_expected = false;
            stream = 1 - stream
        :: else
        fi
    }
}

inline idle_check()
{
    if
    :: is_new
    :: else ->
        runs = false;
#ifndef NO_SECOND_LOOK
        if
        :: is_new -> runs = true
        :: else
        fi
#endif
    fi
}

/* stay_set(s, false) */
inline leave()
{
    on_demand = true;
    runs = false;
#ifndef LEAVES_WITHOUT_POST
    sem_post(wake)
#endif
}

inline sem_drain()
{
    d_step { wake = 0 } /* sem_trywait, until it fails: a post meanwhile is of a block that came before the launch */
}

inline on_demand_step()
{
#ifndef DRAINS_AFTER_THE_LAUNCH
    sem_drain();
#endif
#ifndef SKIPS_A_BUSY_STREAM
    !launched[stream];
#endif
    generation_launch();
#ifdef DRAINS_AFTER_THE_LAUNCH
    sem_drain();
#endif
    if
    :: true /* no probe */
    :: true -> sem_post(wake)
    :: true -> on_demand = false; runs = true /* the other process has gone */
    fi
}

active proctype manager()
{
    bit stream;
    bool has_left;
    do
    :: on_demand ->
end_on_demand:
        sem_wait(wake);
        on_demand_step()
    :: !on_demand && runs -> /* resident_step */
        if
        :: generation_launch()
        :: true /* not yet time */
        fi;
        idle_check();
        if
        :: !has_left -> leave(); has_left = true
        :: runs -> /* manager_wait */
            if
            :: sem_wait(wake)
            :: true
            fi
        :: !runs
        fi
    :: !on_demand && !runs ->
end_asleep:
        sem_wait(wake);
#ifndef WAKES_WITHOUT_RUNS
        runs = true
#endif
    od
}

/* IDLE_US passes. */
active proctype clock()
{
end: do
#ifdef IDLE_IS_SHORTER_THAN_AN_ANSWER
    :: is_new -> is_new = false
#else
    :: d_step { is_new && n_waiting == 0 -> is_new = false }
#endif
    od
}

proctype kernel(bit stream)
{
end: do
    :: launched[stream] ->
        has_started = has_started || carries[stream];
        do
        :: is_posted[0] -> is_posted[0] = false
        :: is_posted[1] -> is_posted[1] = false
        :: !is_posted[0] && !is_posted[1] -> break
        od;
        launched[stream] = false
    od
}

inline job_enter()
{
    d_step { n_waiting++; is_new = true };
    is_expected = true; /* generation_await */
#ifndef ENTERS_WITHOUT_POST
    sem_post(wake);
#endif
    has_started;
    n_waiting--
}

inline resident_posted()
{
#ifdef LOOKS_BEFORE_POSTED
    asleep = !runs;
    d_step { is_new = true; n_waiting++ };
#else
    d_step { is_new = true; n_waiting++ }; /* posted_us */
    asleep = !runs;
#endif
    if
    :: asleep && wake == 0 -> sem_post(wake)
    :: else
    fi;
    asleep = false
}

proctype engine(bit me)
{
    byte n;
    bool asleep;
    if
    :: me == 1 -> job_enter()
    :: else
    fi;
    do
    :: n + me < BLOCKS ->
        is_posted[me] = true;
        resident_posted();
        !is_posted[me];
        n_waiting--;
        n++
    :: else -> break
    od
}

init {
    atomic {
        run kernel(0);
        run kernel(1);
        run engine(0);
        run engine(1)
    }
}
