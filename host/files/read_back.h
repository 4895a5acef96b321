/* read_back - reads the end of a sound file that was just written, because libsndfile does not report every loss. */
#ifndef READ_BACK_H
#define READ_BACK_H

#include <sndfile.h>
#include <stdbool.h>

/* Has the file on fd all frames of `written`, as its header counts them, and can the last one be read? fd stays open;
 * its offset may change. Codecs of packets may add up to READ_BACK_PADDING frames. found: the frames that were found,
 * -1 if it is no sound file. */
enum { READ_BACK_PADDING = 4096 };
bool read_back_is_whole(int fd, const SF_INFO *written, sf_count_t *found);

#endif
