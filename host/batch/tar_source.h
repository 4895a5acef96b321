/* tar_source - a tar file of the list, and the tar file that the batch makes of it. Each of its sounds is a row.
 *
 *   list     shards-{000..099}.tar  -->  rows: input "shards-000.tar/a/1.flac", output "shards-000.tar/a/1.flac", ...
 *   batch    a worker opens the output with the first of these rows, and commits it after the last one
 */
#ifndef TAR_SOURCE_H
#define TAR_SOURCE_H

#include "tar_input.h"
#include "tar_output.h"
#include "host/message.h"

#include <pthread.h>

struct manifest;
struct manifest_row;

struct tar_source {
    const char *path;             /* path of the input                                        */
    const char *output;           /* name as in manifest_row; NULL: not named yet             */
    struct tar_input *input;      /* shared by the tar sources of one path; the first of them owns it */
    bool owns_input;
    size_t first_row, n_rows;     /* in the manifest, one after the other                     */
    size_t n_groups, last;        /* groups (samples of WebDataset) with a row; the member of the last row */
    bool has_one_mask;            /* all rows have one mask, which the output's name contains */
    size_t number;                /* from 1, if the input becomes several outputs by draws; else 0 */
    struct tar_source *next;

    pthread_mutex_t lock;         /* for all fields below, while the batch runs               */
    struct tar_output *file;      /* NULL: no row has begun, or the file is committed         */
    char *file_path;
    int content;                  /* the input, unpacked, from its first row to its last; else -1 */
    char failure[MESSAGE_CAP];    /* why the input cannot be opened: all rows fail; "": it can */
    size_t n_failures, n_finished; /* rows; n_finished: done, resumed or failed                */
    char **figures;               /* [n_rows]: figures of the outputs, for the journal         */
    int64_t *counts;              /* [N_COUNTS]: counts of done rows, until the file is committed */
    enum { RESUME_UNKNOWN, RESUME_NOT_DONE, RESUME_DONE } resume; /* are all rows in the journal? */
};

/* Adds a tar source to the manifest's list, and reads its members; the caller sets first_row. members: as in
 * tar_input_choose. path must outlive the manifest. NULL: why has the reason. */
struct tar_source *tar_source_add(struct manifest *manifest, const char *path, const char *members, char *why,
                                  size_t cap);

/* Returns the number, from 0 on, of the group of a member that gets a row. All sounds of a sample of WebDataset are a
 * group, and share a draw. Call it for each row, in their order. */
size_t tar_source_next_group(struct tar_source *tar, size_t member);

/* Sets tar, member and input of a row. false: no memory. */
bool tar_source_row(struct manifest *manifest, struct manifest_row *row, struct tar_source *tar, size_t member);

/* Sets the outputs of the tar source's rows, after the tar source's own output is named. extension: the sounds'
 * extension; NULL = that of the input. false: no memory. */
bool tar_source_name_rows(struct manifest *manifest, struct tar_source *tar, const char *extension);

/* Opens the input's content for a row, if no other row has opened it. false: why has the reason. Any thread. */
bool tar_source_open(struct tar_source *tar, char *why, size_t cap);

/* Call it for each row, at its end: after the last one the content is closed, and its space is free. Any thread. */
void tar_source_row_finished(struct tar_source *tar);

void tar_sources_free(struct tar_source *list);

struct file_job;

/* ---- the tar files that file jobs fill -------------------------------------------------------- */

/* The outputs of file jobs in tar files: the first job of its rows opens a tar file, and the last job commits
 * it. Any thread.
 */

/* Opens the tar file of the job's output, unless another job has opened it. false: why has the reason. */
bool tar_job_open(const struct file_job *job, char *why, size_t cap);

/* Adds the job's sound. Frees figures later; NULL: no memory for the figures. counts[N_COUNTS]: counts of the job. A
 * failure ends the whole run. */
void tar_job_put(const struct file_job *job, char *figures, const int64_t *counts);

/* Leaves out the sample of a job that has failed. */
void tar_job_leave_out(const struct file_job *job);

#endif
