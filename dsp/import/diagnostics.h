/* diagnostics - errors and warnings about the lines of a file, collected so that a user sees all of them at once. */
#ifndef HALOCONV_DIAGNOSTICS_H
#define HALOCONV_DIAGNOSTICS_H

#include "arena.h"
#include "dsp/haloconv_masks.h"

enum {
    DIAGNOSTICS_KEPT = 10000, /* more do not help to correct a file with a million bad lines               */
    DIAGNOSTIC_CAP = 1024     /* bytes of a text                                                        */
};

struct diagnostics {
    const char *path;        /* the file with the errors; the string is the caller's                 */
    struct arena *arena;     /* holds the texts                                                      */
    hc_diagnostic *kept;     /* [n_kept], sorted by line, then in the order of the calls             */
    int n_kept, n_errors, n_warnings;
};

/* Adds "path:line: command: text". If code is HC_OK, "warning: " precedes the command; if HC_NOTE, "note: ".
 * line 0: the text has no line; command NULL: it has no command. */
void diagnostic(struct diagnostics *diagnostics, int code, int line, const char *command, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
