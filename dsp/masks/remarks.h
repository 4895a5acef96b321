/* remarks - errors and warnings about the lines of a file, gathered so that all are told at once. */
#ifndef HALOCONV_REMARKS_H
#define HALOCONV_REMARKS_H

#include "dsp/haloconv_masks.h"
#include "pieces.h"

#include <stdarg.h>

enum { REMARKS_KEPT = 10000, REMARK_CAP = 1024 }; /* a million bad lines are known as well by the first of them */

struct remarks {
    const char *path;        /* of the file that they are about; the caller's                        */
    struct pieces *pieces;   /* where their texts lie                                                */
    hc_remark *kept;         /* [n_kept], by line; as they came where lines are equal                */
    int n_kept, n_errors, n_warnings;
};

/* Add "path:line: command: text" (line may be 0, command NULL); code HC_OK: a warning, and that is said too. */
void remark(struct remarks *remarks, int code, int line, const char *command, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void remark_list(struct remarks *remarks, int code, int line, const char *command, const char *format, va_list values)
    __attribute__((format(printf, 5, 0)));

#endif
