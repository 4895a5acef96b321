/* room_compare - how far measured loudspeakers are from a target, octave by octave. */
#ifndef ROOM_COMPARE_H
#define ROOM_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

/* Prints a table of two files of responses, a channel for each loudspeaker, and draws both with the target. curve: the
 * file of the target; "": flat. false: why has the reason. */
bool room_compare(const char *before, const char *after, const char *curve, const char *picture, char *why, size_t cap);

#endif
