/* bank_sounds - the sound files of a bank, listed and then read: a file is an entry, a channel is an output. */
#ifndef HALOCONV_BANK_SOUNDS_H
#define HALOCONV_BANK_SOUNDS_H

#include "bank.h"
#include "dsp/base/error.h"

static const double BANK_MAX_DISTANCE = 1e6; /* max. metres in a list of positions or a file name */

struct bank_sounds {
    char **paths;               /* [n], allocated for [capacity]; each path is from malloc          */
    double (*positions)[3];     /* [n]                                                              */
    size_t n, capacity;
};

/* Adds a file. position NULL means {0, 0, 0}. HC_EINVAL: too many files; HC_ENOMEM: no memory. */
int bank_sounds_add(struct bank_sounds *sounds, const char *folder, int folder_length, const char *name,
                    const double position[3], const char *path, struct reason *why);
void bank_sounds_free(struct bank_sounds *sounds);

/* Reads the files into a bank of zeros, at `rate` (0: at the rate of the files, which must have the same). Shorter ones
 * are padded with zeros. path: the list or folder, for messages. */
int bank_sounds_read(const struct bank_sounds *sounds, bool has_positions, struct bank *bank, const char *path,
                     int rate, struct reason *why);

#endif
