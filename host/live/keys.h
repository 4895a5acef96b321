/* keys - reads single keys from standard input, if that is a terminal and this process is in its foreground, and
 * translates them into commands. */
#ifndef KEYS_H
#define KEYS_H

#include "live_command.h"

#include <stdbool.h>

/* Sets the terminal to deliver keys one by one, without echo. keys_close restores the terminal. false: there is no
 * terminal. */
bool keys_open(void);
void keys_close(void);

/* The next key; 0: none. Returns at once. */
int keys_next(void);

/* Translates a key. false: it means nothing. */
bool keys_command(int key, struct command *command);
#define KEYS_HELP \
    "keys: b bypass, + - gain, w W wet, d D dry, n p masks, a A/B (A ends it), r load again, c recentre, q quit"

#endif
