/* mask_file - a sound file or a text of coefficients (.txt, .csv), as channels of finite samples. */
#ifndef HALOCONV_MASK_FILE_H
#define HALOCONV_MASK_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { MASK_MAX_CHANNELS = 1024 };          /* also a configuration's inputs and outputs */
#define MASK_MAX_SAMPLES ((size_t)1 << 30)  /* 4 GiB of taps; also keeps every frame count inside an int */

struct mask_file {
    int n_channels, n_frames;
    int rate;                /* Hz; 0 for a text                                            */
    float **channel;         /* [n_channels][n_frames]; one allocation, channel[0] owns it  */
};

/* Read it whole. HC_EFILE, HC_EINVAL (NaN or Inf: the text has channel and frame), HC_ENOMEM, HC_EUNSUPPORTED; nothing
 * is to be freed then. */
int mask_file_read(struct mask_file *file, const char *path, char *why, size_t cap);

/* Room for the channels, zeroed; path is for the message. Leaves rate. */
int mask_file_make(struct mask_file *file, int n_channels, int n_frames, const char *path, char *why, size_t cap);
void mask_file_free(struct mask_file *file);

/* What the system says about a path that should be a regular file with something in it. */
int mask_file_check(const char *path, char *why, size_t cap);

/* Does the path end so (".conf"), in any case? */
bool mask_file_is(const char *path, const char *extension);

#endif
