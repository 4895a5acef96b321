/* midi_map - maps MIDI messages to commands by a text with one assignment a line:
 *
 *   program mask           program 1, as devices count, is the first mask of the command line
 *   cc 20 wet -57 6        controller 20: value 0 is off, and 1 to 127 are -57 to 6 dB in equal steps
 *   cc 80 bypass           on from value 64, off below
 *   note 60 next           a key that is pressed; # starts a comment
 *
 * Control thread.
 */
#ifndef MIDI_MAP_H
#define MIDI_MAP_H

#include "host/live/session/live_command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
