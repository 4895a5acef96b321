/* mask_write - writes a mask: a sound file, or coefficients as text if the name ends with .txt or .csv. */
#ifndef MASK_WRITE_H
#define MASK_WRITE_H

#include "host/files/sound_format.h"

#include <stdbool.h>
#include <stddef.h>

struct mask_out {
    const char *path;        /* "-": standard output                                      */
    int format;              /* bits of SF_FORMAT_... that the user gave; 0: float         */
    int rate, n_channels, n_frames;
    const double *h;         /* [n_channels][n_frames]                                    */
};

/* Rows of a table of options (host/option.h): -o, --format and --json, for fields of these names. */
#define MASK_WRITE_OPTIONS(settings)                                                                                   \
    {"output", 'o', "FILE", "A sound file, or .txt or .csv for text; - is standard output", option_text,               \
     OPTION_TO(settings, output)},                                                                                     \
    OPTION_FORMAT(OPTION_TO(settings, format), "OUTPUT's extension and float"), OPTION_JSON(OPTION_TO(settings, json))

/* Checks the options -o, --format and --json of a command that writes a mask. Returns -1: they fit; else the exit
 * status, after a usage error was printed. */
int mask_write_check(const char *command, const char *path, int format, bool json);

/* Checks that the mask replaces none of paths[n], which the command reads; a path may be NULL. Returns -1: it does not;
 * else the exit status, after an error was printed. */
int mask_write_check_read(const char *output, char *const *paths, int n);

/* Writes the file, which gets its name only when it is complete. false: why has the reason. */
bool mask_write(const struct mask_out *out, char *why, size_t cap);

#endif
