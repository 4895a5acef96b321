/* sweep_file - the sound file of a sweep, a channel for each output, whose comment describes the sweep. */
#ifndef SWEEP_FILE_H
#define SWEEP_FILE_H

#include "sweep.h"

/* Writes the file. format: the bits that the user gave. Reads the file back: some formats keep no comment, or are too
 * coarse for the level. false: why has the reason, and the file is removed. */
bool sweep_file_write(const struct sweep *sweep, int rate, const char *path, int format, char *why, size_t cap);

/* Reads the sweep that the comment of a file of sweep_file_write describes, and checks the samples: other programs copy
 * the comment to a recording. false: why has the reason. */
bool sweep_file_read(const char *path, struct sweep *sweep, char *why, size_t cap);

#endif
