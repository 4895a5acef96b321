/* midi - MIDI messages become commands: from JACK's port or ALSA's sequencer, through the map. Control thread.
 *
 *   JACK   audio thread -> midi_ring ----------\
 *   ALSA   a descriptor that can be polled -----+-> midi_tend: channel, map -> command_apply
 */
#ifndef MIDI_H
#define MIDI_H

#include "host/live/session/live_command.h"
#include "host/message.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the map ---------------------------------------------------------------------------------- */

/* Maps MIDI messages to commands by a text with one assignment a line:
 *
 *   program mask           program 1, as devices count, is the first mask of the command line
 *   cc 20 wet -57 6        controller 20: value 0 is off, and 1 to 127 are -57 to 6 dB in equal steps
 *   cc 80 bypass           on from value 64, off below
 *   note 60 next           a key that is pressed; # starts a comment
 *
 * Control thread.
 */

struct midi_message { uint8_t bytes[3]; }; /* status, number, value; a program change has no value */

struct midi_assignment {
    struct command command;        /* lacks db, on and a program's number: the message has them           */
    double low_db, high_db;        /* COMMAND_GAIN: gains of the values 1 and 127                         */
    size_t line;                   /* line of the map, from 1                                             */
};

struct midi_map {
    struct midi_assignment cc[128], note[128], program;
};

void midi_map_default(struct midi_map *map);

enum { MIDI_MAP_REFUSALS = 20 }; /* wrong lines after which reading ends */

/* Reads a map from a file; path "-" is standard input. false: the file cannot be read, or has wrong lines: `refuse`
 * gets "PATH:LINE: error; remedy" of each wrong line but the last, and `why` gets the last one's. */
bool midi_map_read(struct midi_map *map, const char *path, void (*refuse)(const char *why), char *why, size_t cap);

/* Finds the command that the map has for a message. false: none. */
bool midi_map_find(const struct midi_map *map, const struct midi_message *message, struct command *command);

/* ---- sources of messages ---------------------------------------------------------------------- */

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

/* ---- the ring of messages --------------------------------------------------------------------- */

/* MIDI messages on their way from the audio thread to the control thread: a lock-free ring with one writer
 * and one reader. tests/models/midi_ring.pml is its model.
 */

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
