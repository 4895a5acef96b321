/* sndfile_log - tells from libsndfile's log whether a sound file was cut short; libsndfile reads such a file without an
 * error. */
#ifndef SNDFILE_LOG_H
#define SNDFILE_LOG_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SNDFILE_LOG_CAP = 8192 }; /* bytes for SFC_GET_LOG_INFO */

/* Sizes in a header from here on mean "to the end of the file": programs that cannot go back to the header write them.
 * SoX writes 2032 MiB into an AIFF, others write 2 or 4 GiB. */
#define SNDFILE_PLACEHOLDER_BYTES 0x7eff0000

/* Does the log of SFC_GET_LOG_INFO say that a file is cut short, in a line like "data : 16000 (should be 7978)"? */
static inline bool sndfile_log_says_cut(const char *log)
{
    static const char *const sizes[] = {"data :", "SSND :", "Data Size"};
    if (strstr(log, "Seems to be a truncated file") || strstr(log, "File seems to be truncated")) return true;
    for (const char *line = log; line; line = strchr(line, '\n')) {
        line += strspn(line, " \n");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned long long claimed, real;
            if (strncmp(line, sizes[i], strlen(sizes[i])) != 0) continue;
            const char *number = strchr(line, ':') + 1;
            if (sscanf(number, "%llu (should be %llu", &claimed, &real) == 2 && claimed > real &&
                claimed < SNDFILE_PLACEHOLDER_BYTES)
                return true;
        }
    }
    return false;
}

#endif
