/* jack_midi - the MIDI port of a JACK client. */
#ifndef JACK_MIDI_H
#define JACK_MIDI_H

#include "midi_ring.h"

#include <jack/jack.h>
#include <stdbool.h>

/* Copies the messages of a block from the port. [rt], audio thread */
void jack_midi_copy(struct midi_ring *ring, jack_port_t *port, jack_nframes_t n);

/* Connects the port to the first MIDI output whose name contains a text. false: not possible yet. Control thread. */
bool jack_midi_connect(jack_client_t *client, const char *part, const jack_port_t *port);

#endif
