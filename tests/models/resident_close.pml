/* resident_close - jobs enter and close while generations of the resident kernel come and go.
 *
 * models   kernels/resident/resident_service.cu: generation_launch, job_enter, generation_await, resident_leave,
 *          resident_follow; kernels/resident/resident_kernel.cu: resident_start, seat_acquire, seat_serve,
 *          is_superseded; kernels/resident/resident_head.cu: resident_head_close
 * atomics  kernels/resident/resident.h: resident_seat
 *
 * Proved: a worker does not use a job after its engine has closed it; a request of 0 frames ends all workers of a job,
 * also one that waits for its seat or finds the request when it starts, without max_ns; a job that enters at the seat of
 * one that closes is served.
 *
 * Order: the lock of the service orders launches and changes of the table. A launch contains the table.
 *
 * Time: a worker that finds no request may leave for max_ns at any time, unless the request of its job has 0 frames: a
 * worker that needs max_ns then is a deadlock. The manager may stop when all blocks are answered.
 *
 * Sizes: a seat; two jobs of one worker and one ring entry, which play a block each. The second job enters when the
 * first one has left the table. A late block: its engine sends no request of 0 frames.
 * resident_sleep.pml has the sleep of the manager.
 */
#include "atomics.h"
#define JOBS 2
#define NONE JOBS

byte table = NONE;                    /* the job of the seat */
bit newest = 1;                       /* the stream of the last generation */
bool launched[2];                     /* a generation in a stream: a worker */
byte arrived = NONE;                  /* the stream of the last worker that arrived at the seat; NONE: one that left */
bool is_held;
byte job_of[2] = NONE;                /* the table of the generation in a stream */
byte gone[JOBS] = NONE;               /* an engine's event: the stream in which it has not come yet */
byte start;                           /* of the second job: 1: expected, 2: launched, 3: started */
bit start_stream;
byte request[JOBS], answer[JOBS], saved[JOBS]; /* numbers */
bool closes[JOBS];                    /* the request has 0 frames */
/* What the model checks by. */
bool is_freed[JOBS];
byte n_waiting = JOBS;                /* engines that have no answer */

#define uses(job)      assert(!is_freed[job])

/* ---- manager */

/* Unless the one before the last still runs. */
inline generation_launch()
{
    d_step {
        !launched[1 - newest] ->
        newest = 1 - newest;
        launched[newest] = true;
        arrived = (arrived == newest -> NONE : arrived);
        job_of[newest] = table;
        if
        :: start == 1 -> start = 2; start_stream = newest
        :: else
        fi
    }
}

proctype manager()
{
    do
    :: generation_launch()
    :: n_waiting == 0 -> break
    od
}

/* ---- engines */

inline job_enter()
{
    atomic { table == NONE -> table = job };
    start = 1; /* generation_await */
    start == 3
}

inline resident_leave() { table = NONE }

#ifdef EVENT_IS_SHARED
#define event 0
#else
#define event job
#endif

/* Waits for the generation that is now the last one in a stream, by the engine's own event. */
inline stream_await(stream)
{
    d_step { gone[event] = (launched[stream] -> stream : NONE) };
    gone[event] == NONE
}

proctype engine(bit job)
{
    if
    :: job == 1 -> job_enter()
    :: else
    fi;
    request[job] = 1;
    answer[job] == 1;
    n_waiting--;
    /* resident_head_close */
#ifndef JOB_LEAVES_AFTER_THE_WAIT
    resident_leave();
#endif
    if
    :: d_step { request[job] = 2; closes[job] = true }
    :: true /* a block is late */
    fi;
#ifndef ONE_STREAM_IS_AWAITED
    stream_await(0);
#endif
    stream_await(1);
#ifdef JOB_LEAVES_AFTER_THE_WAIT
    resident_leave();
#endif
    is_freed[job] = true
}

/* ---- workers */

#define is_superseded (arrived == 1 - stream && newest != stream)

inline seat_serve()
{
    uses(job);
    number = saved[job];
    do
    :: request[job] == number + 1 ->
        uses(job);
        if
        :: closes[job] ->
#ifdef CLOSE_INCREMENTS_THE_NUMBER
            number++;
#endif
#ifdef NOT_SAVED_AT_CLOSE
            number = saved[job];
#endif
            break /* the number of the last block is saved: the next worker leaves, too */
        :: else
        fi;
        d_step { assert(answer[job] == number); number++; answer[job] = number };
        if
        :: is_superseded -> break
        :: else
        fi
    :: request[job] != number + 1 && (is_superseded || !closes[job]) -> break
    od;
    uses(job);
    saved[job] = number;
    is_held = false
}

proctype worker(bit stream)
{
    byte job = NONE, number;
end: do
    :: launched[stream] ->
        if
        :: start == 2 && start_stream == stream -> start = 3
        :: else
        fi;
        job = job_of[stream];
        if
        :: job == NONE
        :: else ->
            uses(job);
            arrived = stream;
            if
            :: atomic { !is_held -> is_held = true }; seat_serve()
            :: is_held && !closes[job] /* for max_ns */
            fi
        fi;
        d_step {
            job = NONE; number = 0;
            launched[stream] = false;
            gone[0] = (gone[0] == stream -> NONE : gone[0]);
            gone[1] = (gone[1] == stream -> NONE : gone[1])
        }
    od
}

init {
    atomic {
        table = 0;
        run manager();
        run engine(0);
        run engine(1);
        run worker(0);
        run worker(1)
    }
}
