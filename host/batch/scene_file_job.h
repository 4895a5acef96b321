/* scene_file_job - the file jobs of a batch whose sources move: one call of hc_render computes a group of one bank. */
#ifndef MOVING_JOB_H
#define MOVING_JOB_H

#include "batch_mask.h"
#include "file_job.h"
#include "host/scene/scene_file_stream.h"

struct scene_file_job {
    struct batch_bank *bank;
    struct scene_file_stream stream;
    float *out;   /* [n_out][stream.block] */
    float **outs; /* [n_out] */
    int n_in, n;  /* frames of the block: n_in read, n computed */
};

/* Loads or shares the bank of a row, reads its path, and sets n_out and n_taps of the job. false: why has the reason. */
bool scene_file_job_open(struct file_job *job, const char *backend, char *why, size_t cap);
void scene_file_job_close(struct file_job *job);

/* Convolves n jobs of one bank to their ends, without further passes. false: batch_stop has the reason. */
bool scene_file_jobs_convolve(struct file_job *const *jobs, int n);

/* The banks that the workers share, each ready on a device. The cache's settings are a struct scene_file_settings. */
extern const struct cache_kind batch_banks;

#endif
