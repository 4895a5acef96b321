/* mask_file - reads a sound file or a text of coefficients (.txt, .csv) as channels of finite samples. */
#ifndef HALOCONV_MASK_FILE_H
#define HALOCONV_MASK_FILE_H

#include "dsp/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    MASK_MAX_CHANNELS = 1024,               /* also the max. inputs and outputs of a configuration      */
    MASK_MAX_TAPS = 1 << 28,                /* the largest hc_config.max_taps                           */
    MASK_MAX_LINE = 64 << 10,               /* longest line of a text or configuration, in bytes        */
    MASK_NOTE = 128,                        /* bytes of mask_file.note                                  */
};
#define MASK_MAX_SAMPLES ((size_t)1 << 30)  /* 4 GiB of taps; every frame count fits in an int          */

struct mask_limits {         /* mask_file_read refuses a longer file by its header, before it reads samples */
    size_t frames;           /* frames of a channel after it is resampled                   */
    size_t bytes;            /* memory for reading and resampling the file                  */
    int rate;                /* Hz to which the caller resamples the file; 0: it does not   */
    bool sizes_only;         /* read no samples if the header has the exact length: channel is then NULL */
};

struct mask_file {
    int n_channels, n_frames;
    int rate;                /* Hz; 0 for a text                                            */
    double start;            /* seconds of frame 0 from t = 0, as REW states it; 0: no statement                 */
    float **channel;         /* [n_channels][n_frames]; one allocation, channel[0] owns it  */
    char note[MASK_NOTE];    /* text of a warning, such as skipped lines of a .csv; "": none */
    int n_left;              /* frames of the file that `max` left out                        */
};

/* Reads a whole file. Fails with HC_EFILE, HC_EINVAL (too long; NaN or Inf: the message names the channel, from 1, and
 * the frame), HC_ENOMEM (also: more than limits->bytes), HC_EUNSUPPORTED; nothing has to be freed then. */
int mask_file_read(struct mask_file *file, const char *path, const struct mask_limits *limits, struct reason *why);

/* Reads a text of coefficients with any name: at most `max` frames (0: all) behind the first `skip` bytes, or
 * behind the first -skip lines if `skip` is negative. */
int mask_file_read_text(struct mask_file *file, const char *path, int skip, int max, const struct mask_limits *limits,
                        struct reason *why);

/* Reads a whole file of at most `max` bytes into (*text)[*bytes + 1], with a final 0; UTF-16 becomes UTF-8. The caller
 * frees *text, which is NULL after an error. */
int mask_file_text(const char *path, int max, char **text, size_t *bytes, struct reason *why);

/* Returns HC_OK if the limits allow this many frames, else the error. */
int mask_file_fits(const struct mask_limits *limits, int n_channels, size_t n_frames, const char *path,
                   struct reason *why);

/* Fails with HC_EINVAL if a sample is NaN or Inf. */
int mask_file_check_finite(const struct mask_file *file, const char *path, struct reason *why);

/* Allocates the channels, filled with zeros, and sets the counts, but not rate. path: for the message. */
int mask_file_make(struct mask_file *file, int n_channels, int n_frames, const char *path, struct reason *why);
void mask_file_free(struct mask_file *file);

/* Resamples all channels from the rate of the file, which is not 0. After an error the file is as before. */
int mask_file_resample(struct mask_file *file, int rate, const char *path, struct reason *why);

/* Returns HC_OK if path is a regular file that can be read and is not empty; else HC_EFILE. */
int mask_file_check(const char *path, struct reason *why);

/* Does the path have this extension (".conf"), in any case of letters? */
bool mask_file_has_extension(const char *path, const char *extension);

#endif
