/* read_back - reads the end of a sound file that was just written, because libsndfile does not report every loss. */
#ifndef READ_BACK_H
#define READ_BACK_H

#include <sndfile.h>
#include <stdbool.h>

/* Does the header of the file on fd count all frames of `written`, and can the last frame be read? If not, every frame
 * is read and counted. fd stays open; its offset may change. *found: the number of frames; -1: it is not a sound file.
 * true also if standard output cannot be read. */
bool read_back_is_whole(int fd, const SF_INFO *written, sf_count_t *found);

#endif
