/* sound_format - containers and subtypes of sound files by name, and which one an output gets. */
#ifndef SOUND_FORMAT_H
#define SOUND_FORMAT_H

#include "sample.h"

#include <stdbool.h>
#include <stdint.h>

/* "wav", "wav:pcm24", "pcm24", "opus" -> bits of SF_FORMAT_..., the part that is not named 0; 0 = unknown. */
int sound_format_parse(const char *text);

/* The container of OUTPUT's extension (and a subtype where the extension says it: .opus, .mp3); 0 = unknown. */
int sound_format_of_path(const char *path);

/* What an output gets: what was asked for, then what the extension says, then the format of the input (like). Returns 0
 * and writes why when there is none. */
int sound_format_choose(int asked, const char *path, int like, int rate, int n_channels, char *why, size_t cap);

/* "wav:pcm16"; returns text. */
const char *sound_format_name(int format, char *text, size_t cap);
const char *sound_format_subtype_name(int format);

enum sample_kind sound_format_kind(int format); /* how its samples are best handled */
int sound_format_bits(int format);              /* to round to; 0 = it takes floats */
int sound_format_plain(int format);             /* enum hc_samples that lie in the file frame by frame; HC_PLANAR: none */
bool sound_format_is_native(int samples);        /* of sound_format_plain: as this host has them too */
double sound_format_bytes(int format);          /* a sample in the file; 0 = that depends on the sound */
bool sound_format_is_lossy_float(int format);   /* Vorbis, Opus, MP3: takes floats, but players limit them */

/* All names, for the help. */
extern const char sound_format_help[];

#endif
