/* jack_midi - a MIDI port of a JACK client as a source of MIDI messages. Control thread, except jack_midi_copy. */
#ifndef JACK_MIDI_H
#define JACK_MIDI_H

#include "midi.h"
#include "midi_ring.h"

#include <jack/jack.h>
#include <stdatomic.h>

struct jack_midi {
    struct midi_ring ring; /* messages from the audio thread                                    */
    const char *connect;   /* part of the name of the output to connect the port to; NULL: none */
    atomic_bool is_sought; /* the output is searched for; set it when a port appears            */
};

struct midi_source jack_midi_source(struct jack_midi *midi);

/* Copies the messages of a block from the port. [rt], audio thread */
void jack_midi_copy(struct jack_midi *midi, jack_port_t *port, jack_nframes_t n);

/* Connects the port when the output exists. A connection that the user removed stays removed until is_sought is set. */
void jack_midi_tend(struct jack_midi *midi, jack_client_t *client, const jack_port_t *port);

#endif
