/* take - a sound to play and the buffers for its recording, lent to two callbacks.
 *
 * models   host/measure/take.c: take_play_cycle, take_record_cycle, play_job, pass
 * atomics  host/measure/take_driver.h: job, has_start, start, played, recorded, passed
 *
 * Proved: no callback touches a job that the control thread has taken back, also one that a gap ended early; the recorder
 * loses no frame, and numbers the frames as the player does.
 *
 * Order: all accesses are seq_cst, as here.
 *
 * Sizes: two jobs of two cycles, in ten cycles. The two callbacks run once in a cycle, in either order or at once, as
 * JACK runs clients that do not depend on each other.
 */
#include "atomics.h"
#define JOBS 2
#define LENGTH 2
#define CYCLES 10
#ifdef START_IN_THIS_CYCLE
#define LATER 0
#else
#define LATER 2
#endif

byte job;                     /* 0: none */
bool has_start[JOBS + 1];
byte start[JOBS + 1], played[JOBS + 1], recorded[JOBS + 1];
byte passed[2];               /* cycles of the player and the recorder */
byte cycle;
bool is_lent[JOBS + 1];       /* what the model checks by */

inline announce()
{
#ifdef HAS_START_BEFORE_START
    has_start[j] = true;
    start[j] = cycle + LATER
#else
    start[j] = cycle + LATER;
    has_start[j] = true
#endif
}

active proctype player()
{
    byte j;
    do
    :: passed[0] == cycle && cycle < CYCLES -> /* take_play_cycle */
        j = job;
        if
        :: j != 0 ->
            if
            :: !has_start[j] -> announce()
            :: else
            fi;
            if
            :: cycle >= start[j] -> played[j] = cycle + 1 - start[j]
            :: else
            fi
        :: else
        fi;
        assert(j == 0 || is_lent[j]);
        passed[0]++
    :: cycle == CYCLES -> break
    od
}

active proctype recorder()
{
    byte j;
    do
    :: passed[1] == cycle && cycle < CYCLES -> /* take_record_cycle */
        j = job;
        if
        :: j != 0 && has_start[j] ->
            if
            :: cycle >= start[j] && cycle < start[j] + LENGTH ->
                assert(recorded[j] == cycle - start[j]);
                recorded[j] = cycle + 1 - start[j]
            :: else
            fi
        :: else
        fi;
        assert(j == 0 || is_lent[j]);
        passed[1]++
    :: cycle == CYCLES -> break
    od
}

active proctype server()
{
    do
    :: passed[0] == cycle + 1 && passed[1] == cycle + 1 && cycle < CYCLES -> cycle++
    :: cycle == CYCLES -> break
    od
}

active proctype control_thread()
{
    byte k = 1, goal;
    do
    :: k <= JOBS -> /* play_job */
        is_lent[k] = true;
        job = k;
end_of_cycles:
        if
        :: played[k] >= LENGTH && recorded[k] >= LENGTH
        :: true /* a gap */
        fi;
        job = 0;
        goal = passed[0];
        if
        :: passed[1] > goal -> goal = passed[1]
        :: else
        fi;
        goal++;
#ifndef NO_CYCLE_IS_WAITED_FOR
end_of_pass:
#ifdef ONLY_THE_PLAYER_IS_WAITED_FOR
        passed[0] >= goal;
#else
        passed[0] >= goal && passed[1] >= goal;
#endif
#endif
        is_lent[k] = false;
        k++
    :: else -> break
    od
}
