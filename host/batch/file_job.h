/* file_job - one file of a batch: reads its input and writes its output in blocks; adds noise, and measures and matches
 * the level.
 *
 *   open --> open_output --> per block: read, (the worker's engine), accept --> next_pass --> commit --> close
 *                            ^                                                      |
 *                            +---- a long file, once more with a gain --------------+
 *
 * The gain of the noise depends on the power of the whole convolution, and the gain of the level on the level of the
 * sum: a long file with both is convolved three times.
 */
#ifndef FILE_JOB_H
#define FILE_JOB_H

#include "batch_mask.h"
#include "batch_run.h"
#include "manifest.h"
#include "host/files/file_convolution.h"

#include <limits.h>

/* ---- noise ------------------------------------------------------------------------------------ */

/* The SNR is the power of the convolution in the written range, over the power of the noise in the same range; a power
 * is the mean square of all channels. A noise longer than the range is cut from a drawn frame on; a shorter one
 * is repeated from a drawn frame on. A noise of one channel is added to every channel; else it has as many as the
 * output. It is resampled to the rate of the input, and stays in the cache of masks as a whole.
 */

struct batch_noise { /* start with zeros */
    struct batch_mask *file;  /* NULL: none */
    int n_channels;           /* channels of the output */
    int64_t start;            /* the drawn frame, at the rate of the input */
    double gain;              /* linear; 0 before noise_fit */
};

/* Opens a noise. false: why has the reason. */
bool noise_open(struct batch_noise *noise, struct cache *masks, const char *path, int rate, int n_channels, char *why,
                size_t cap);

/* Draws the start and finds the gain for n_frames of a sound, whose power is the mean square of its samples. false: the
 * noise is silent there; why has the reason. */
bool noise_fit(struct batch_noise *noise, const struct manifest_row *row, int64_t n_frames, double power, char *why,
               size_t cap);

/* Adds the noise to planar[n_channels][stride], which are n frames of the sound from frame `first` on. */
void noise_add(const struct batch_noise *noise, int64_t first, float *planar, int64_t stride, int64_t n);

void noise_close(struct batch_noise *noise, struct cache *masks);

/* ---- the job ---------------------------------------------------------------------------------- */

enum { MIXED_FRAMES = 4096 };

struct scene_file_job;

enum job_stage {  /* the use of the engine's output */
    JOB_WRITES,   /* write it: the gain is known */
    JOB_KEEPS,    /* measure it and keep it in memory until all gains are known */
    JOB_MEASURES, /* measure it; a long file is convolved again when the next gain is known */
};

struct file_job {
    struct batch *batch;
    const struct manifest_row *row;
    struct sound_in in;
    struct sound_out out;
    struct file_writer writer;
    struct batch_mask *mask;
    struct scene_file_job *moving; /* used instead of the mask; NULL: the row has no path */
    struct batch_noise noise;   /* the gain is 0 until the convolution is measured */
    char path[PATH_MAX];  /* path of the output, or of the tar file that contains it */
    int content;          /* descriptor of an output for a tar file; -1: none */
    int n_in, n_out, n_taps;
    bool failed, at_end;  /* at_end: the input has ended */
    int pass, n_passes;   /* convolutions of the input: complete, and total */
    int64_t work_counted; /* the counted share of batch_row_work */
    enum job_stage stage;
    struct output_range range;
    int64_t end;          /* output_range_end; INT64_MAX: not known yet */
    int64_t n_read;       /* frames of the input */
    int64_t n_queued, n_convolved; /* frames of the convolution: queued in the engine, received from it */
    int64_t n_accepted;   /* the received frames in the range of the output */
    struct level_meter level_in, level_out; /* level_out: with the noise, once its gain is known */
    double level_gain;    /* linear */
    float *kept;          /* [n_out][kept_stride] if JOB_KEEPS; level_out.n / n_out frames are filled */
    int64_t kept_stride;
    float *mixed;         /* [n_out][MIXED_FRAMES]: convolution and noise; NULL before they are added */
};

/* Opens input and mask. backend: for a bank. false: the job has failed, the batch has the reason, and no file is
 * open. */
bool file_job_open(struct file_job *job, struct batch *batch, const struct manifest_row *row, const char *backend);

/* Makes the folders of an output; changes path during the call only. Refuses links out of the batch's folder, and a
 * device or a named pipe in the place of the output: others may write to the folder. false: why has the reason. */
bool file_job_make_folders(const struct batch *batch, char *path, char *why, size_t cap);

/* Opens the output, or fails the job. */
void file_job_open_output(struct file_job *job);

/* Does the job still accept frames from the engine? */
bool file_job_is_busy(const struct file_job *job);

/* Frames that the job needs from the next block of the engine; 0 = all it needs are queued. */
int64_t file_job_needs(const struct file_job *job, int block);

/* Reads n frames, or fewer at the end, to planar[n_in][stride]. Returns how many. */
int64_t file_job_read(struct file_job *job, float *planar, int64_t stride, int n);

/* Accepts the next n frames of the convolution, planar[n_out][stride]: adds the noise, and measures, keeps or writes
 * them. */
void file_job_accept(struct file_job *job, const float *planar, int64_t stride, int n);

/* After the last block: finds the gains that depend on the whole output, and writes the kept output. true: convolve the
 * input again, then repeat this call. */
bool file_job_next_pass(struct file_job *job);

/* Gives the output its name and enters it in the journal. */
void file_job_commit(struct file_job *job);

/* Enters a row in the journal. bytes: size of the row's file. Frees `figures`; NULL: no memory for the figures. */
void file_job_enter(struct batch *batch, const struct manifest_row *row, int64_t bytes, char *figures);

/* Frees everything; removes an output that is not committed. */
void file_job_close(struct file_job *job);

#endif
