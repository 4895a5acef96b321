/* sound_out - a sound file, or standard output, written in blocks; it gets its name only when it is complete. */
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
    const char *path; /* path as the user gave it */
    int rate, n_channels;
    int format;                    /* SF_FORMAT_..., as it is written */
    int short_format;              /* the format at the end if the file stays under 4 GiB; 0 = the same */
    enum sample_kind kind;         /* kind of the raw samples for sound_out_write */
    int bits;                      /* bits that these samples are rounded to; 0 = floats */
    int plain;                     /* enum hc_samples of the file; HC_PLANAR: only libsndfile can write them */
    bool dithers;                  /* file_write adds dither; set by file_open_output */
    int64_t n_frames;              /* expected; -1: not known before the end */
    int64_t written;               /* frames written */
    bool spooled;                  /* a pipe cannot seek: a temporary file is copied to it at the end */
    struct part_file part;
    int fd;                        /* libsndfile writes to it: the descriptor of part, or of the temporary file */
    bool pwritable;                /* fd can be written at any offset */
    int64_t at, end;               /* libsndfile's offset in the file, and its maximum */
    int64_t loudspeakers;          /* dwChannelMask for a container that has it; NO_LOUDSPEAKERS: libsndfile chooses */
    int64_t loudspeakers_at;       /* its offset; 0: none */
    int error;                     /* errno of the first write that failed */
    const void *first_raw;         /* argument of sound_out_write_plain; shows when libsndfile writes the first frame */
    bool reserved;                 /* the disk has space for the whole file */
    char *map;                     /* the mapped file, map_bytes long; NULL: not mapped */
    int64_t map_bytes, payload;    /* payload: bytes before the first frame; -1: not known yet */
    atomic_int_fast64_t put_bytes; /* bytes that sound_out_put has written */
};

/* Opens an output. fd: a descriptor that can be written anywhere, which belongs to out, also after a failure; -1: the
 * file at `path`. format has container and subtype (sound_format_choose); strings as in sound_in, or NULL; path must
 * outlive out. false: why has the reason. */
bool sound_out_open(struct sound_out *out, int fd, const char *path, int format, int rate, int n_channels,
                    int64_t n_frames, char *const *strings, char *why, size_t cap);

/* Reserves the disk space of n_frames, if their number is known: a full disk is an error now. */
bool sound_out_reserve(struct sound_out *out, char *why, size_t cap);

bool sound_out_write(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap);

/* Does the same for a plain file: raw has the format of the file. */
bool sound_out_write_plain(struct sound_out *out, const void *raw, int64_t n_frames, char *why, size_t cap);

/* Do the raw samples of sound_out_write have the format of the file? */
bool sound_out_is_plain(const struct sound_out *out);

/* After the first write to a plain file of known length, sound_out_map maps the file. false: continue with
 * sound_out_write or sound_out_write_plain. From then on any thread copies frames into the map with sound_out_put,
 * from frame `first` on; at the end sound_out_claim sets the length for libsndfile: n_frames in all. */
bool sound_out_map(struct sound_out *out);
bool sound_out_put(struct sound_out *out, int64_t first, const void *raw, int64_t n_frames, char *why, size_t cap);
bool sound_out_claim(struct sound_out *out, int64_t n_frames, char *why, size_t cap);

/* Writes pending data and the header, and gives the file its name. */
bool sound_out_commit(struct sound_out *out, char *why, size_t cap);

/* Closes and removes the file; does nothing after a commit, or if out was never opened (all zeros). */
void sound_out_abandon(struct sound_out *out);

#endif
