/* midi - MIDI messages become commands: from JACK's port or ALSA's sequencer, through the map. Control thread.
 *
 *   JACK   audio thread -> midi_ring ----------\
 *   ALSA   a descriptor that can be polled -----+-> midi_tend: channel, map -> command_apply
 */
#ifndef MIDI_H
#define MIDI_H

#include "host/message.h"
#include "midi_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A source of MIDI messages. */
struct midi_source {
    void *data;
    bool (*next)(void *data, struct midi_message *message); /* false: no message waits                */
    uint64_t (*lost)(void *data);                           /* count of losses since the start       */
    int fd;                                                 /* readable when a message waits; -1: poll next */
};

/* Pause between two polls of a source without a descriptor: to wake the control thread, the audio thread would need a
 * system call. A message takes effect within this time and a period; knobs are ramped over 20 ms. */
enum { MIDI_POLL_MS = 10 };

struct midi {
    struct midi_source source;
    struct midi_map map;
    int channel;                   /* 1 to 16; 0: all */
    uint64_t reported_lost;
    struct message_limit limit;    /* limits lines about messages that were refused or lost */
};

/* Reads the map, or uses the default one if the settings name none. false: why has the reason; further wrong lines were
 * printed. The caller sets the source. */
bool midi_open(struct midi *midi, const struct midi_settings *settings, char *why, size_t cap);

/* Applies the commands of the messages that wait. Returns at once. */
void midi_tend(struct midi *midi, struct command_target *target);

/* Prints how many messages were refused or lost. */
void midi_close(struct midi *midi);

#endif
