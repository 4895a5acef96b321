/* keys - reads single keys from standard input, if that is a terminal and this process is in its foreground, and
 * translates them into commands. */
#ifndef KEYS_H
#define KEYS_H

#include "host/live/session/live_command.h"

#include <stdbool.h>

/* Sets the terminal to deliver single keys without echo, until keys_close. false: standard input is not a terminal. */
bool keys_open(void);
void keys_close(void);

/* Returns the next key, or at once 0 if no key was pressed. */
int keys_next(void);

/* Translates a key into a command. false: the key has no command. */
bool keys_command(int key, struct command *command);
#define KEYS_HELP \
    "keys: b bypass, + - gain, w W wet, d D dry, n p masks, a A/B (A ends it), r load again, c recentre, S save as a " \
    "preset, q quit"

#endif
