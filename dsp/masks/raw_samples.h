/* raw_samples - reads files of samples without a header: the coefficients of BruteFIR, DRC and rePhase.
 *
 * A raw file has one channel. Its format is a name, as BruteFIR writes it: S8, S16_LE, S24_LE, S24_4LE, S32_LE,
 * FLOAT_LE, FLOAT64_LE, the same with BE or NE (the byte order of this machine), or TEXT: a coefficient on each line.
 */
#ifndef HALOCONV_RAW_SAMPLES_H
#define HALOCONV_RAW_SAMPLES_H

#include "dsp/base/error.h"
#include "mask_file.h"

struct raw_format;

struct raw_samples {         /* how to read a raw file                        */
    const struct raw_format *format;
    int skip;                /* bytes before the first sample; of a text, -skip lines if negative     */
    int max;                 /* max. frames that are read; 0: all             */
    const char *cut_by;      /* name of the setting that set `max`, for a report of the cut; NULL: no report    */
};

/* Finds a format by its name, in any case of letters; NULL: no such format. */
const struct raw_format *raw_format_find(const char *name);

/* Reads a raw file as one channel without a rate. Fails as mask_file_read does; nothing has to be freed then. */
int raw_samples_read(struct mask_file *file, const char *path, const struct raw_samples *raw,
                     const struct mask_limits *limits, struct reason *why);

/* Finds the format of a raw file of floats by its extension: .pcm .raw .bin .f32 have 32 bits, .dbl .f64 have 64 bits,
 * as DRC and rePhase write them. NULL: another extension. */
const struct raw_format *raw_format_of_name(const char *path);

/* Reads a file with such an extension. Also fails with HC_EINVAL if samples are too large for a response:
 * integers, read as floats, would be deafening. */
int raw_samples_read_named(struct mask_file *file, const char *path, const struct raw_format *format,
                           const struct mask_limits *limits, struct reason *why);

#endif
