/* moving_job - the file jobs of a batch whose sources move: a group of one bank goes through hc_render together. */
#ifndef MOVING_JOB_H
#define MOVING_JOB_H

#include "bank_cache.h"
#include "file_job.h"
#include "host/moving/moving_stream.h"

struct moving_job {
    struct cached_bank *bank;
    struct moving_stream stream;
    float **outs; /* [n_out][stream.block] */
    int n_in, n;  /* frames of the block: read, and computed */
};

/* Takes the bank and the path of a row, and sets n_out and n_taps of the job. false: why has the reason. */
bool moving_job_open(struct file_job *job, const char *backend, char *why, size_t cap);
void moving_job_close(struct file_job *job);

/* Convolves n jobs of one bank to their ends, without further passes. false: batch_stop has the reason. */
bool moving_jobs_convolve(struct file_job *const *jobs, int n);

#endif
