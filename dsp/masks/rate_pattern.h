/* rate_pattern - a path that has %r instead of a rate: hall-%r.wav stands for hall-44100.wav, hall-96000.wav, ...
 *
 * The file of the session's rate is used. If it is missing, the file of the next higher rate is used, because
 * resampling then loses nothing; else the file of the highest lower rate, which lacks sound above half of that rate.
 */
#ifndef HALOCONV_RATE_PATTERN_H
#define HALOCONV_RATE_PATTERN_H

#include "dsp/base/error.h"

#include <limits.h>

struct rated_file {
    char path[PATH_MAX];
    char missing[PATH_MAX];  /* the file of the session's rate, if another one is used; else "" */
    int rate;                /* Hz that replaces %r; 0: the path is not a pattern                   */
};

/* Finds the file of a path at a rate in Hz; rate 0: the highest. For a path without %r, or a file whose name contains
 * "%r", this is the path itself. Fails with HC_EFILE. */
int rate_pattern_find(const char *path, int rate, struct rated_file *file, struct reason *why);

#endif
