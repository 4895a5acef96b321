/* changed_controls - threads of a host set controls, and the audio thread applies those that have changed.
 *
 * models   plugins/core/core.c: core_set, core_modulate, core_note_changes, core_take_changes, turn_knobs, apply_controls
 * atomics  plugins/core/core.c: values, modulation, changed
 *
 * Proved: once no thread sets a control any more, the next block applies the last value of each.
 *
 * Order: core_note_changes releases the value that was stored before, core_take_changes acquires it. An exchange of the
 * value needs no order: it only tells whether the value is new.
 *
 * Sizes: a knob that two threads set, one of them to its first value again; a direction; three blocks.
 */
#define ALL_MAY_END
#include "atomics.h"
#define KNOB      0
#define DIRECTION 1
#define BLOCKS    3

byte values[2], applied[2], n_threads = 2; /* threads that still set controls */
bool changed[2];                           /* one variable: a bit for each control */

inline core_set(control, value)
{
#ifdef BIT_BEFORE_VALUE
    changed[control] = true;
    values[control] = value;
#else
    exchange(before, values[control], value);
    if
    :: before != value ->
#ifdef BITS_WITHOUT_ATOMIC_OR
        other = changed[1 - control];
        d_step { changed[control] = true; changed[1 - control] = other }
#else
        changed[control] = true
#endif
    :: else
    fi
#endif
}

inline core_take_changes(control)
{
#ifdef VALUE_BEFORE_BIT
    value = values[control];
#endif
#ifdef ALL_BITS_ARE_TAKEN
    d_step { has_changed = changed[control]; changed[KNOB] = false; changed[DIRECTION] = false };
#else
    exchange(has_changed, changed[control], false);
#endif
    if
    :: has_changed ->
#ifndef VALUE_BEFORE_BIT
        value = values[control];
#endif
        applied[control] = value
    :: else
    fi
}

active proctype window()
{
    byte before;
    bool other;
    core_set(KNOB, 1);
    core_set(DIRECTION, 1);
    core_set(KNOB, 1); /* not new, unless the other thread has set it */
    n_threads--
}

active proctype automation()
{
    byte before;
    bool other;
    core_set(KNOB, 2);
    core_set(KNOB, 0);
    n_threads--
}

active proctype audio_thread()
{
    byte value, n;
    bool has_changed, is_last;
    do
    :: n < BLOCKS || !is_last ->
        is_last = n_threads == 0;
        core_take_changes(DIRECTION);
        core_take_changes(KNOB);
        if
        :: n < BLOCKS -> n++
        :: else
        fi
    :: else -> break
    od;
    assert(applied[KNOB] == values[KNOB] && applied[DIRECTION] == values[DIRECTION])
}
