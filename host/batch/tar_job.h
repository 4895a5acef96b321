/* tar_job - the outputs of file jobs in tar files: the first job of its rows opens a tar file, and the last job commits
 * it. Any thread.
 */
#ifndef TAR_JOB_H
#define TAR_JOB_H

#include "file_job.h"
#include "tar_source.h"

/* Opens the tar file of the job's output, unless another job has opened it. false: why has the reason. */
bool tar_job_open(const struct file_job *job, char *why, size_t cap);

/* Adds the job's sound. Frees figures later; NULL: no memory for the figures. counts[N_COUNTS]: counts of the job. A
 * failure ends the whole run. */
void tar_job_put(const struct file_job *job, char *figures, const int64_t *counts);

/* Leaves out the sample of a job that has failed. */
void tar_job_leave_out(const struct file_job *job);

#endif
