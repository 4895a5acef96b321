/* import - reads configurations and filter texts: finds the program of a text, and calls the reader of its format.
 *
 *   text --> the format's reader --> struct configuration (counts, names, diagnostics) and signals of a network
 *        --> network_make, network_routes --> routes
 *
 * A reader reports each statement that it cannot represent, with its line: as an error if the sound would differ, as a
 * warning if the sound may differ in some set-ups, else as a note. Nothing is dropped silently.
 */
#ifndef HALOCONV_IMPORT_H
#define HALOCONV_IMPORT_H

#include "network.h"

struct import {
    struct configuration *c;  /* the reader sets n_in, n_out, rate, ports, client, is_mask                   */
    struct network network;
    char *text;               /* [bytes + 1], with a final 0 and no other; the reader may overwrite it       */
    size_t bytes;
    bool names_only;          /* the caller wants only client and server: read no sound file                  */
    char run[600];            /* keys that control the program's run, not the sound, for one note             */
    int run_line, n_run, n_run_named; /* line of the first such key; their number; their number in `run`      */
};

struct import_format {
    const char *name;         /* the program, as "BruteFIR"                                                  */
    const char *extensions;   /* ".conf .bf": the names that such a file may have                            */
    bool (*is_format)(const char *text, size_t bytes); /* Has text[bytes], the first 64 KiB, this format?    */
    void (*read)(struct import *import);
};

/* format_jconvolver applies to a text of no other format: its is_format is NULL. */
extern const struct import_format format_jconvolver, format_brutefir, format_convolver, format_camilladsp, format_pipewire,
    format_equalizer_apo, format_easyeffects, format_jamesdsp;

/* Is the file at this path a configuration? For jconvolver the extension .conf decides; for other programs the
 * extension and the content. */
bool import_is_configuration(const char *path);

/* Loads a configuration, as hc_responses_load does. */
int import_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, struct reason *why);

/* Is the key one of the words of `known`, which blanks separate? */
bool import_key_is_known(const char *known, const char *key);

/* Returns the length of the word of `known` that differs from the key in one letter only: another, a missing, an added
 * or a swapped one; *word is its start. 0: there is none. */
int import_key_near(const char *known, const char *key, const char **word);

/* Warns about a key that is not in `known`. Keys behind a word | of `known` are right, but have no effect on the sound:
 * they are noted. */
void import_key_check(struct import *import, int line, const char *statement, const char *key, const char *known);

/* Records a key that controls the program's run, not the sound, for one note at the end. what: its first value; "" */
void import_note_run(struct import *import, int line, const char *key, const char *what);

/* Add an error, warning or note of a reader, with its line, from 1, and its statement. */
#define IMPORT_REFUSE(import, line, statement, ...)                                                                    \
    diagnostic(&(import)->c->diagnostics, HC_EINVAL, line, statement, __VA_ARGS__)
#define IMPORT_WARN(import, line, statement, ...)                                                                      \
    diagnostic(&(import)->c->diagnostics, HC_OK, line, statement, __VA_ARGS__)
#define IMPORT_NOTE(import, line, statement, ...)                                                                      \
    diagnostic(&(import)->c->diagnostics, HC_NOTE, line, statement, __VA_ARGS__)

#endif
