/* configuration_sounds - the sound files that a configuration names: finds their paths, reads each of them once, and
 * resamples the excerpts that the configuration plays. A file is in the configuration's folder or in that of a /cd.
 *
 *   sound     a file, read whole
 *   excerpt   `length` frames from `offset` on of one channel of a sound
 */
#ifndef HALOCONV_CONFIGURATION_SOUNDS_H
#define HALOCONV_CONFIGURATION_SOUNDS_H

#include "configuration.h"
#include "dsp/masks/raw_samples.h"

struct folder {              /* a folder that a /cd names                                                       */
    const char *path;        /* the path in the text                                                            */
    int line;
    const char *found;       /* the path that exists; NULL: not searched for yet                                */
};

struct sound {               /* one sound for each name in a folder and each way of reading it                  */
    struct folder *folder;   /* NULL: the configuration's own                                                   */
    const char *name;
    struct raw_samples raw;  /* how to read a raw file; format NULL: a sound file or a text                     */
    const char *named_path;  /* result of sound_path; NULL: not called yet                                      */
    const char *path;        /* the path that was read: named_path with a rate in place of %r                   */
    bool is_read;            /* the file was read, or reading it failed                                         */
    struct mask_file file;   /* channel is NULL if the file is not read yet, or cannot be read                  */
    float peak;              /* largest magnitude of a sample                                                   */
    bool is_played;          /* terms point into `file`                                                         */
    void *excerpts;          /* a tree, for tsearch(3), of excerpts at the session's rate                       */
    int n_named;             /* number of excerpts of the file                                                  */
    int error;               /* sounds_report reports it once, for the first excerpt                            */
    char *why;
    struct excerpt first;
};

/* Is the folder of a /cd in one of the places where its files are looked for, or one with %r? */
bool configuration_folder_exists(const struct configuration *configuration, const char *path);

/* Finds or adds the sound of this name in the folder of the last /cd. NULL: the arena is short. */
struct sound *configuration_file(struct configuration *configuration, const char *name);

/* Does the same for a file of samples without a header; another way of reading it makes another sound. */
struct sound *configuration_raw_file(struct configuration *configuration, const char *name,
                                     const struct raw_samples *raw);

/* Returns the path of a sound as named, with its %r. NULL: the arena is short. */
const char *sound_path(struct configuration *configuration, struct sound *sound);

/* Lists the paths of all sounds in the arena, for hc_responses_file. */
void sounds_list(struct configuration *configuration);

/* Reads the sound of an excerpt, unless it has been read. NULL: it cannot be read; sounds_report reports why. */
struct sound *sounds_get(struct configuration *configuration, const struct excerpt *excerpt);

/* Returns how many of the n frames of a sound an excerpt selects by offset and length; 0: an error has been added. */
int sounds_length(struct configuration *configuration, const struct excerpt *excerpt, int n);

/* Returns the taps of an excerpt at the session's rate, without its gain. Two calls for the same excerpt return the
 * same taps. NULL: the error has been added, or sounds_report will add it. */
const float *sounds_taps(struct configuration *configuration, const struct excerpt *excerpt, int *n_taps);

/* Resamples taps[n], each of *n_taps frames, from `from` Hz to the session's rate, if the rates differ. path: the file
 * of the taps. false: the error has been added. */
bool sounds_resample(struct configuration *configuration, const struct excerpt *excerpt, const char *path, int from,
                     const float **taps, int n, int *n_taps);

/* Adds an error for each file that could not be read. */
void sounds_report(struct configuration *configuration);

/* Returns the rate of the samples: the session's, else the common rate of all files; 0: no such rate. */
int sounds_rate(struct configuration *configuration);

/* Frees the files that are not played; the others move to the arena. */
void sounds_free(struct configuration *configuration);

#endif
