/* alsa_midi - a port of ALSA's sequencer as a source of MIDI messages. Control thread. */
#ifndef ALSA_MIDI_H
#define ALSA_MIDI_H

#include "midi.h"

#include <stdbool.h>
#include <stddef.h>

struct alsa_midi;

/* Opens the port, and prints its name. connect: the output to connect the port to, as aconnect names it: CLIENT[:PORT],
 * by number or by name; NULL: none. The text must outlive the port. Returns NULL after a failure: why has the reason. */
struct alsa_midi *alsa_midi_open(const char *connect, char *why, size_t cap);
void alsa_midi_close(struct alsa_midi *midi); /* NULL is allowed */

struct midi_source alsa_midi_source(struct alsa_midi *midi);

/* Connects the port when its output appears, and again when the output reappears: a plug may be pulled. Checks once a
 * second of `now_s`. A connection that the user has removed stays removed. */
void alsa_midi_tend(struct alsa_midi *midi, double now_s);

#endif
