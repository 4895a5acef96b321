/* configuration_sounds - the sound files that a configuration names: finds them, reads each of them once, and resamples
 * the segments that the configuration plays.
 *
 *   sound     a file, read whole
 *   segment   `length` frames from `offset` on of one channel of a sound
 */
#ifndef HALOCONV_CONFIGURATION_SOUNDS_H
#define HALOCONV_CONFIGURATION_SOUNDS_H

#include "configuration.h"

struct sound {
    struct mask_file file;   /* channel is NULL if the file is not read yet, or cannot be read        */
    bool is_read;            /* the file was read, or reading it failed                               */
    const char *path;
    float peak;              /* largest magnitude                                                     */
    bool is_played;          /* terms point into file                                                 */
    void *segments;          /* tsearch(3) of struct segment, those at the session's rate             */
    int n_named;             /* commands that name the file                                           */
    int error;               /* reported once, by sounds_report, with the first command of the file   */
    char *why;
    const struct impulse *first;
};

struct sounds {
    struct configuration *c;
    int rate;                /* Hz of the session; 0 = each file keeps its own                        */
    bool keep_rate;          /* play files of any rate as they are                                    */
    bool has_errors;         /* a file cannot be read: pairs lack its segments                        */
    struct sound *sounds;    /* [c->n_files]                                                          */
};

/* The file of a command; NULL: it cannot be read, and sounds_report will say so. */
struct sound *sounds_get(struct sounds *sounds, const struct impulse *impulse);

/* The taps of the segment of impulse->channel and impulse->offset at the session's rate. Two calls for the same segment
 * return the same taps. *n_taps is the length of the segment: in, at the rate of the file; out, at the session's. NULL:
 * the error has been added. */
const float *sounds_segment(struct sounds *sounds, struct sound *sound, const struct impulse *impulse, int *n_taps);

/* How many of n frames of a file offset and length select; 0: the command is refused, and the error has been added. */
int sounds_length(struct sounds *sounds, const struct sound *sound, const struct impulse *impulse, int n);

/* The taps of a command that plays a segment of a file, at the session's rate. NULL: the error has been added, or
 * sounds_report will add it. */
const float *sounds_taps(struct sounds *sounds, const struct impulse *impulse, int *n_taps);

/* Replaces segments taps[n] of *n_taps frames each by the same segments at the session's rate. false: the error has
 * been added. */
bool sounds_resample(struct sounds *sounds, struct sound *sound, const struct impulse *impulse, const float **taps,
                     int n, int *n_taps);

/* Keeps the paths of all files that the configuration names in its arena, before the first file is read. The arena may
 * be short afterwards. */
void sounds_keep_paths(struct configuration *configuration);

/* Adds an error for each file that could not be read. */
void sounds_report(const struct sounds *sounds);

/* The rate of the samples: the session's, or the one that all files have; 0 = there is none. */
int sounds_rate(const struct sounds *sounds);

/* Frees the files, except those that are played: they move to the arena. */
void sounds_free(struct sounds *sounds);

#endif
