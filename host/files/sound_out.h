/* sound_out - a sound file, or standard output, written in blocks; under its name only when it is complete. */
#ifndef SOUND_OUT_H
#define SOUND_OUT_H

#include "part_file.h"
#include "sample.h"

#include <sndfile.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sound_out {
    SNDFILE *file;
    const char *path; /* as the user gave it */
    int rate, n_channels;
    int format;            /* SF_FORMAT_..., as it is written */
    int short_format;      /* what it becomes at the end if it stays under 4 GiB; 0 = the same */
    enum sample_kind kind; /* of the raw samples that sound_out_write takes ... */
    int bits;              /* ... and what they are rounded to; 0 = floats */
    int plain;             /* enum hc_samples as they lie in the file; HC_PLANAR: only libsndfile writes them */
    int64_t n_frames;      /* expected; -1: not known before the end */
    int64_t written;       /* frames so far */
    bool spooled;          /* standard output cannot be searched: a temporary file is copied to it at the end */
    struct part_file part;
    int fd;          /* what libsndfile writes to: of part, or of the temporary file */
    bool pwritable;  /* fd takes writes at any place */
    int64_t at, end; /* libsndfile's position in it, and how far it has been */
    int error;       /* errno of the first write that failed */
    const void *first_raw; /* what sound_out_write_... was given; libsndfile hands it on as it is */
    bool reserved;   /* the disk has room for all of it */
    char *map;       /* the file's pages, map_bytes of them; NULL: not mapped */
    int64_t map_bytes, payload; /* payload: bytes in front of the first frame; -1: not known yet */
    atomic_int_fast64_t put_bytes; /* into the pages, so far */
};

/* format is whole (sound_format_choose); strings as in sound_in, or NULL. false: why has the reason. */
bool sound_out_open(struct sound_out *out, const char *path, int format, int rate, int n_channels, int64_t n_frames,
                    char *const *strings, char *why, size_t cap);

/* Ask for the room that n_frames will take, if that can be known: a full disk is an error now. */
bool sound_out_reserve(struct sound_out *out, char *why, size_t cap);

bool sound_out_write(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap);

/* The same for a plain file, as they are to lie there. */
bool sound_out_write_plain(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap);

/* After a first write to a plain file whose length is known: from now on frames are put into its pages, by any threads, from
 * frame `first` on, and in the end claimed, n_frames with those that were written. false: go on writing. */
bool sound_out_map(struct sound_out *out);
bool sound_out_put(struct sound_out *out, int64_t first, const void *raw, int64_t n_frames, char *why, size_t cap);
bool sound_out_claim(struct sound_out *out, int64_t n_frames, char *why, size_t cap);

/* Write what is pending and give the file its name. */
bool sound_out_commit(struct sound_out *out, char *why, size_t cap);

/* Close and remove; does nothing after a commit. */
void sound_out_abandon(struct sound_out *out);

#endif
