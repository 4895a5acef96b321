/* import - reads configurations and filter texts: finds out of which program a text is, and calls its reader.
 *
 *   text --> the format's reader --> struct configuration (counts, names, diagnostics) and signals of a network
 *        --> network_make, network_routes --> routes
 *
 * A reader reports everything that it cannot represent, with its line: as an error if the sound would be another, as a
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
    bool names_only;          /* nothing but client and server is wanted: no file has to be read              */
};

struct import_format {
    const char *name;         /* "BruteFIR"                                                                  */
    const char *extensions;   /* ".conf .bf": the names that such a file may have                            */
    bool (*is_format)(const char *text, size_t bytes); /* Does text[bytes], its first 64 KiB, look like one? */
    void (*read)(struct import *import);
};

/* format_jconvolver is that of a text which no other has: it has no is_format. */
extern const struct import_format format_jconvolver, format_brutefir, format_convolver, format_camilladsp, format_pipewire,
    format_equalizer_apo;

/* Is the file at this path read as a configuration? One of jconvolver has the extension .conf; a text of another program
 * is found by its extension and by what it looks like. */
bool import_is_configuration(const char *path);

/* hc_responses_load for a configuration. */
int import_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, struct reason *why);

/* Errors, warnings and notes of a reader, with the line, from 1, and the statement that they are about. */
#define IMPORT_REFUSE(import, line, statement, ...)                                                                    \
    diagnostic(&(import)->c->diagnostics, HC_EINVAL, line, statement, __VA_ARGS__)
#define IMPORT_WARN(import, line, statement, ...)                                                                      \
    diagnostic(&(import)->c->diagnostics, HC_OK, line, statement, __VA_ARGS__)
#define IMPORT_NOTE(import, line, statement, ...)                                                                      \
    diagnostic(&(import)->c->diagnostics, HC_NOTE, line, statement, __VA_ARGS__)

#endif
