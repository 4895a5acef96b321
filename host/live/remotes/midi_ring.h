/* midi_ring - MIDI messages on their way from the audio thread to the control thread: a lock-free ring with one writer
 * and one reader. tests/models/midi_ring.pml is its model.
 */
#ifndef MIDI_RING_H
#define MIDI_RING_H

#include "midi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MIDI_RING_CAP = 1024 }; /* a power of two: the counters wrap around */

struct midi_ring {
    struct midi_message message[MIDI_RING_CAP]; /* message i is at i % MIDI_RING_CAP */
    atomic_uint written, dequeued;              /* since the start                      */
    atomic_uint_fast64_t lost;                  /* messages that found the ring full    */
};

/* Copies a channel message; ignores all others: clocks, system messages, and fragments of a long exclusive message. The
 * caller gives a whole message, as JACK and PipeWire do. [rt], audio thread */
void midi_ring_put(struct midi_ring *ring, const uint8_t *bytes, size_t n);

/* Dequeues the oldest message. false: the ring is empty. Control thread. */
bool midi_ring_read(struct midi_ring *ring, struct midi_message *message);

struct midi_source midi_ring_source(struct midi_ring *ring);

#endif
