/* sound_in - a sound file, or standard input, read in blocks. */
#ifndef SOUND_IN_H
#define SOUND_IN_H

#include "dsp/masks/sound_header.h"
#include "sample.h"

#include <sndfile.h>
#include <stdbool.h>
#include <stdint.h>

struct sound_in {
    SNDFILE *file;                  /* NULL: not open */
    const char *path;               /* path as the user gave it */
    int rate, n_channels;
    int format;                     /* SF_FORMAT_... */
    enum sample_kind kind;          /* kind of the raw samples that sound_in_read returns */
    int plain;                      /* enum hc_samples of the file; HC_PLANAR: only libsndfile can read them */
    int fd;                         /* descriptor for sound_in_read_at; -1: none */
    int64_t payload;                /* bytes before the first frame */
    int64_t n_frames;               /* -1: not known before the end */
    int64_t promised;               /* frames according to the header; 0 if the header cannot be trusted */
    int64_t read;                   /* frames read */
    _Atomic uint64_t non_finite;    /* NaN and infinite samples that file_read replaced by 0 */
    struct sound_part inside;       /* position of the sound in another file, or its edited header; fd -1: neither */
    int64_t first, end;             /* sound_in_cut: the frames first ... end - 1 are read; else 0, INT64_MAX */
    bool is_pipe;                   /* a read may wait forever for another program */
    bool spooled;                   /* copied to a temporary file, because the format needs seeking */
    bool cut;                       /* the file is shorter than its header says */
    char *strings[SF_STR_LAST + 1]; /* title, artist, ...; NULL = none */
};

/* Opens a file. raw: rate, channels and format of a headerless file; NULL: the file has a header. path must outlive in.
 * false: why has the reason. */
bool sound_in_open(struct sound_in *in, const char *path, const SF_INFO *raw, char *why, size_t cap);

/* Opens a sound inside another file, such as a member of a tar file: `bytes` of the file that is open
 * as `fd`, which stays the caller's, from offset `from` on. name: for messages; it must outlive in. */
bool sound_in_open_inside(struct sound_in *in, const char *name, int fd, int64_t from, int64_t bytes, char *why,
                          size_t cap);

/* Before the first read: limits the input to n_frames frames from frame `first` on, or fewer at the end of the file.
 * n_frames of *in becomes their number. Formats whose frames depend on one another, and pipes, are read up to `first`.
 * Not for sound_in_read_at. false: why has the reason; the file may end before `first`. */
bool sound_in_cut(struct sound_in *in, int64_t first, int64_t n_frames, char *why, size_t cap);

/* Reads up to n_frames to raw; fewer only at the end. Returns their number; -1: why has the reason. */
int64_t sound_in_read(struct sound_in *in, void *raw, int64_t n_frames, char *why, size_t cap);

/* Does the same for a plain file: raw has the format of the file. */
int64_t sound_in_read_plain(struct sound_in *in, void *raw, int64_t n_frames, char *why, size_t cap);

/* Does the same from frame `first` on: on any thread and in any order, but not mixed with the calls above. Call it only
 * if sound_in_can_read_at: the file is plain, and the offset of its first frame is known. */
int64_t sound_in_read_at(struct sound_in *in, int64_t first, void *raw, int64_t n_frames, char *why, size_t cap);
bool sound_in_can_read_at(const struct sound_in *in);

/* Does nothing if in is not open. */
void sound_in_close(struct sound_in *in);

#endif
