/* preset - a file with the masks and options of a live session, a line KEY = VALUE each:
 *
 *   command = jack          `haloconv run` starts this command (pipewire, live); jack if the line is missing
 *   mask = hall.wav         a line for each mask; the path is relative to the file's folder
 *   gain = -3               any option of the command
 *   reconnect = yes         an option without a value is yes or no
 */
#ifndef PRESET_H
#define PRESET_H

#include "host/option.h"

#include <stdbool.h>
#include <stddef.h>

struct preset;

/* Returns folder i of the search for presets, in its order; NULL: i is behind the last folder. */
const char *preset_folder(int i);

/* Reads NAME.conf from the first folder that has it. A name with a slash is a path. NULL: why has the reason. */
struct preset *preset_open(const char *name, char *why, size_t cap);
void preset_close(struct preset *preset); /* NULL is allowed */

/* Returns the command of the preset: "jack", "pipewire", "live" or a wrong word. */
const char *preset_command(const struct preset *preset);

enum preset_kind { PRESET_JACK, PRESET_PIPEWIRE, PRESET_LIVE, PRESET_KINDS };
extern const char *const preset_kind_names[PRESET_KINDS];
enum preset_kind preset_kind(const char *command); /* PRESET_KINDS: a wrong word */

/* Writes all lines but the masks into the settings of a command, which then point to texts of the preset. false: a
 * usage error was printed for each wrong line. */
bool preset_apply(struct preset *preset, const struct command_line *line, void *settings);

/* Returns the key of line i, from 0, in the order of the file; NULL: the file has no such line. */
const char *preset_key(const struct preset *preset, int i);

/* Returns the names of the presets of a command, each once, sorted: an array of n texts, for option_names_free. */
struct option_names preset_names(const char *command);

/* Writes NAME.conf into the user's folder; name "": the first free one of session, session-2, ... A preset that exists
 * is replaced only if this process saved it and nobody has edited it, or if `replace`. saved[cap] gets the name; false:
 * the reason. Control thread. */
bool preset_save(const char *name, bool replace, const char *text, char *saved, size_t cap);

/* Returns the number of characters of a file's name before .conf; 0: the name is not that of a preset. */
int preset_stem(const char *file);

/* Returns the masks, which belong to the preset. */
struct option_names preset_masks(const struct preset *preset);

#endif
