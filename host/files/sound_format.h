/* sound_format - names of containers and subtypes of sound files, and the format that an output gets. */
#ifndef SOUND_FORMAT_H
#define SOUND_FORMAT_H

#include "sample.h"
#include "host/option.h"

#include <stdbool.h>
#include <stdint.h>

/* "wav", "wav:pcm24", "pcm24", "opus" -> bits of SF_FORMAT_...; container or subtype is 0 if not named. 0 = unknown. */
int sound_format_parse(const char *text);

/* The container of a path's extension (and the subtype of .opus and .mp3); 0 = unknown. */
int sound_format_of_path(const char *path);

/* The format of an output: from `asked`, else from the path's extension, else, if it has none, from the format of the
 * input (like). 0: why has the reason. */
int sound_format_choose(int asked, const char *path, int like, int rate, int n_channels, char *why, size_t cap);

/* Does no format have the extension of the path? Only --format allows such an output. */
bool sound_format_refuses(const char *path);

/* Writes a name such as "wav:pcm16"; returns text. */
const char *sound_format_name(int format, char *text, size_t cap);

enum sample_kind sound_format_kind(int format); /* for reading and writing without loss */
int sound_format_bits(int format);              /* bits that samples are rounded to; 0 = floats */
int sound_format_plain(int format);             /* enum hc_samples if the file stores plain frames, else HC_PLANAR */
bool sound_format_is_native(int samples);       /* are samples of this kind in the host's byte order? */
int sound_format_bytes(int format);             /* bytes of a sample in the file; 0 = depends on the sound */
int64_t sound_format_frame_bytes(int format, int n_channels); /* bytes of a frame; 0 = depends on the sound */
bool sound_format_can_dither(int format);       /* stores integers of 16 bits or fewer, without loss */
bool sound_format_is_small(int format);         /* the container counts bytes or frames in 32 bits */
bool sound_format_streams(int format);          /* the writer never goes back to the header */
bool sound_format_is_lossy_float(int format);   /* Vorbis, Opus, MP3: stores floats, but players limit them */

/* All names, for the help. */
extern const char sound_format_help[];

/* ---- the option --format ---------------------------------------------------------------------- */

option_read format_option; /* int: SF_FORMAT_..., a container, a subtype or both */

#define OPTION_FORMAT(to, preset)                                                                                      \
    {"format", 0, "FORMAT",                                                                                            \
     "CONTAINER, SUBTYPE or CONTAINER:SUBTYPE of the output, such as flac, pcm24 or wav:float [" preset "]",           \
     format_option, to}

#endif
