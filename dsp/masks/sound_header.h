/* sound_header - reads the parts of a sound file's header that libsndfile ignores, and opens a file whose header has to
 * be read differently.
 *
 *   nBlockAlign   libsndfile takes the width of a sample from wBitsPerSample. A wider container holds the bits at its
 *                 top: 24 bits in 4 bytes are read as 32 bits.
 *   length 0      of the samples, with samples behind it: a stream, or a recorder that did not close the file
 *   BW64          the name of RF64 in ITU-R BS.2088
 *   loudspeakers  of WAVE_FORMAT_EXTENSIBLE, and in the comments of a FLAC
 *
 * WAV, RF64 and W64 have all three; AIFF, CAF and AU have a length.
 */
#ifndef HALOCONV_SOUND_HEADER_H
#define HALOCONV_SOUND_HEADER_H

#include "dsp/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#ifdef HC_WITH_SNDFILE
#include <sndfile.h>
#endif

enum { HEADER_EDITS = 4, NO_LOUDSPEAKERS = -1 };

struct sound_header {
    struct header_edit {
        int64_t at;          /* from the start of the sound                             */
        int n_bytes;
        unsigned char bytes[8];
    } edits[HEADER_EDITS];   /* bytes that libsndfile gets instead of those in the file */
    int n_edits;
    bool is_unclosed;        /* the length is 0, but samples follow; or it is none, and more than the file has */
    bool is_cut;             /* the file has fewer samples than its header promises */
    const char *foreign;     /* sound_foreign of the file; it counts after libsndfile has failed */
    int64_t loudspeakers;    /* dwChannelMask, which may be 0; NO_LOUDSPEAKERS: the header has none */
};

#define SOUND_UNCLOSED "has the header of a stream that was not closed; it is read to the end of the file"

/* The kind of a file that no reader here takes, by its first bytes, and the remedy: "is a zip archive; unpack it ...".
 * NULL: none of these. */
const char *sound_foreign(const char *head, size_t bytes);

/* A sound in `bytes` of a file, from offset `from` on. */
struct sound_part {
    int fd;
    const char *head;        /* the first `bytes` of a pipe, in place of a file; NULL: a file */
    int64_t from, bytes, at; /* at: libsndfile's offset in the sound */
    struct sound_header header;
};

/* Reads part->header of a file that can seek, or of a pipe. path: for the message. Fails with HC_EINVAL if the width of
 * the samples is not clear. A header that cannot be read has no edits: libsndfile reports why. */
int sound_header_read(struct sound_part *part, const char *path, struct reason *why);

#ifdef HC_WITH_SNDFILE
/* Opens the sound, with the edits. part must outlive the SNDFILE, and part->fd stays the caller's. NULL: sf_error. */
SNDFILE *sound_part_open(struct sound_part *part, SF_INFO *info);

/* Writes why libsndfile has just refused the sound, with the remedy; remedy: that for a file of an unknown kind. */
void sound_refusal(const struct sound_part *part, const char *remedy, char *text, size_t cap);
#endif

#endif
