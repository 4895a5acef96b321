/* midi_ring - MIDI messages on their way from the audio thread to the control thread.
 *
 * models   host/live/remotes/midi.c: midi_ring_put, midi_ring_read
 * atomics  host/live/remotes/midi.h: written, dequeued, lost
 *
 * Proved: every message arrives whole, once and in order, or is counted as lost; a message is lost only if the ring is
 * full; the audio thread plays on though the control thread stalls.
 *
 * Order: `written` releases the message that was copied in, and its load by the control thread acquires it. `dequeued`
 * releases the place that was copied out, and its load by the audio thread acquires that. Each thread loads its own
 * counter relaxed: nobody else stores it. Nothing needs seq_cst: a counter that is seen late makes the ring look
 * fuller, or emptier, than it is.
 *
 * Sizes: six messages of two parts through a ring of two places; the counters wrap around after four, a multiple of
 * the places.
 */
#include "atomics.h"
#define MESSAGES 6
#ifdef PLACES_DO_NOT_DIVIDE_THE_COUNTERS
#define CAP 3
#else
#define CAP 2
#endif
#define WRAP 4

byte written, dequeued, lost;
byte first[CAP], second[CAP]; /* the parts of the messages */
byte sent, arrived, last;           /* what the model checks by; messages count from 1 */

inline put_parts()
{
    first[now % CAP] = sent + 1;
    second[now % CAP] = sent + 1
}

active proctype audio_thread()
{
    byte now;
    do
    :: sent < MESSAGES -> /* midi_ring_put */
        now = written;
        if
#ifndef FULL_IS_OVERWRITTEN
        :: (now + WRAP - dequeued) % WRAP == CAP -> lost++
#endif
        :: else ->
#ifdef WRITTEN_BEFORE_THE_MESSAGE
            written = (now + 1) % WRAP;
            put_parts();
#else
            put_parts();
            written = (now + 1) % WRAP;
#endif
        fi;
        sent++
    :: else -> break
    od
}

active proctype control_thread() may_stall
{
    byte now, a, b;
end: do
    :: dequeued != written -> /* midi_ring_read */
        now = dequeued;
#ifdef TAKEN_BEFORE_THE_MESSAGE
        dequeued = (now + 1) % WRAP;
#endif
        a = first[now % CAP];
        b = second[now % CAP];
#ifndef TAKEN_BEFORE_THE_MESSAGE
        dequeued = (now + 1) % WRAP;
#endif
        d_step { assert(a == b && a > last); last = a; arrived++; a = 0; b = 0; now = 0 }
    od
}

ltl audio_thread_is_never_stuck { <> (sent == MESSAGES) }
ltl every_message_arrives_or_is_counted { <> (arrived + lost == MESSAGES) }
