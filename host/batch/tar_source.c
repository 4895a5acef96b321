#include "tar_source.h"

#include "file_job.h"
#include "manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the members of a path that an earlier row of the list has read. */
static struct tar_input *find_input(const struct manifest *manifest, const char *path)
{
    for (const struct tar_source *tar = manifest->tars; tar; tar = tar->next)
        if (strcmp(tar->path, path) == 0) return tar->input;
    return NULL;
}

struct tar_source *tar_source_add(struct manifest *manifest, const char *path, const char *members, char *why,
                                  size_t cap)
{
    struct tar_input *input = find_input(manifest, path);
    struct tar_source *tar = calloc(1, sizeof *tar);
    bool good = tar && (input || ((input = calloc(1, sizeof *input)) && (tar->owns_input = true)));
    if (!good) message_write(why, cap, "%s: no memory; free some memory", path);
    if (good && tar->owns_input) good = tar_input_read(input, path, why, cap);
    if (good && !tar_input_choose(input, members))
        good = members ? message_write(why, cap, "%s: has no sound that matches %.100s; give another --members", path,
                                       members)
                       : message_write(why, cap, "%s: has no sound; give a tar file with sound files", path);
    if (!good) {
        if (tar && tar->owns_input) {
            tar_input_free(input);
            free(input);
        }
        free(tar);
        return NULL;
    }
    if (tar->owns_input && input->n_behind)
        message_note("%s: %lld bytes behind its end are not read; join tar files with tar --concatenate", path,
                     (long long)input->n_behind);
    tar->path = path;
    tar->content = -1;
    tar->input = input;
    pthread_mutex_init(&tar->lock, NULL);
    tar->next = manifest->tars;
    manifest->tars = tar;
    return tar;
}

/* Returns "FOLDER/NAME" with another extension. extension: NULL = the name's. NULL: no memory. */
static const char *member_path(struct manifest *manifest, const char *folder, const char *name, const char *extension)
{
    const char *dot = extension ? strrchr(name, '.') : NULL;
    size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    size_t bytes = strlen(folder) + stem + (dot ? strlen(extension) + 1 : 0) + 2;
    char *text = text_alloc(&manifest->texts, bytes);
    if (text) snprintf(text, bytes, "%s/%.*s%s%s", folder, (int)stem, name, dot ? "." : "", dot ? extension : "");
    return text;
}

size_t tar_source_next_group(struct tar_source *tar, size_t member)
{
    const struct tar_member *members = tar->input->members;
    if (tar->n_groups == 0 || !tar_same_sample(members[tar->last].name, members[member].name)) tar->n_groups++;
    tar->last = member;
    return tar->n_groups - 1;
}

bool tar_source_row(struct manifest *manifest, struct manifest_row *row, struct tar_source *tar, size_t member)
{
    row->tar = tar;
    row->member = member;
    row->input = member_path(manifest, tar->path, tar->input->members[member].name, NULL);
    tar->n_rows++;
    return row->input != NULL;
}

bool tar_source_name_rows(struct manifest *manifest, struct tar_source *tar, const char *extension)
{
    for (size_t i = tar->first_row; i < tar->first_row + tar->n_rows; i++) {
        struct manifest_row *row = &manifest->rows[i];
        row->output = member_path(manifest, tar->output, tar->input->members[row->member].name, extension);
        if (!row->output) return false;
    }
    return true;
}

bool tar_source_open(struct tar_source *tar, char *why, size_t cap)
{
    pthread_mutex_lock(&tar->lock);
    if (tar->content < 0 && !tar->failure[0])
        tar->content = tar_input_open(tar->path, tar->failure, sizeof tar->failure);
    bool good = tar->content >= 0 || message_write(why, cap, "%s", tar->failure);
    pthread_mutex_unlock(&tar->lock);
    return good;
}

static void close_content(struct tar_source *tar)
{
    if (tar->content >= 0) close(tar->content);
    tar->content = -1;
}

void tar_source_row_finished(struct tar_source *tar)
{
    pthread_mutex_lock(&tar->lock);
    if (++tar->n_finished == tar->n_rows) close_content(tar);
    pthread_mutex_unlock(&tar->lock);
}

void tar_sources_free(struct tar_source *list)
{
    while (list) {
        struct tar_source *tar = list;
        list = tar->next;
        tar_output_abandon(tar->file);
        close_content(tar);
        pthread_mutex_destroy(&tar->lock);
        if (tar->owns_input) {
            tar_input_free(tar->input);
            free(tar->input);
        }
        for (size_t i = 0; tar->figures && i < tar->n_rows; i++) free(tar->figures[i]);
        free(tar->figures);
        free(tar->counts);
        free(tar->file_path);
        free(tar);
    }
}

/* ---- the tar files that file jobs fill -------------------------------------------------------- */

bool tar_job_open(const struct file_job *job, char *why, size_t cap)
{
    struct tar_source *tar = job->row->tar;
    pthread_mutex_lock(&tar->lock);
    if (!tar->file_path) tar->file_path = strdup(job->path);
    if (!tar->figures) tar->figures = calloc(tar->n_rows, sizeof *tar->figures);
    if (!tar->counts) tar->counts = calloc(N_COUNTS, sizeof *tar->counts);
    if (!tar->file_path || !tar->figures || !tar->counts) {
        message_write(why, cap, "%s: no memory; free some memory", job->path);
    } else if (!tar->file) {
        if (file_job_make_folders(job->batch, tar->file_path, why, cap))
            tar->file = tar_output_open(tar->file_path, tar->input, tar->path, tar->content, why, cap);
    }
    bool good = tar->file_path && tar->figures && tar->counts && tar->file;
    pthread_mutex_unlock(&tar->lock);
    return good;
}

/* Fails the sounds whose sample was left out because of another sound: they are not in the file. Their frames stay
 * counted, because they were convolved. */
static void fail_left_out(struct batch *batch, struct tar_source *tar)
{
    const struct manifest_row *rows = &batch->manifest->rows[tar->first_row];
    const struct tar_member *members = tar->input->members;
    char why[MESSAGE_CAP];
    for (size_t i = 0, end; i < tar->n_rows; i = end) {
        bool has_failed = false;
        for (end = i;
             end < tar->n_rows && tar_same_sample(members[rows[i].member].name, members[rows[end].member].name); end++)
            has_failed |= !tar->figures[end];
        for (size_t k = i; k < end && has_failed; k++) {
            if (!tar->figures[k]) continue;
            free(tar->figures[k]);
            tar->figures[k] = NULL;
            tar->n_failures++;
            tar->counts[COUNT_DONE]--;
            batch_count(batch, COUNT_DONE, -1);
            message_write(why, sizeof why, "%s: another sound of its sample failed, and the sample is left out",
                          rows[k].input);
            batch_fail(batch, &rows[k], why);
        }
    }
}

/* Names the tar file, and enters its rows in the journal, except the failed ones, so that --resume makes all rows
 * again. */
static bool commit(struct batch *batch, struct tar_source *tar, char *why, size_t cap)
{
    struct tar_output *file = tar->file;
    tar->file = NULL;
    fail_left_out(batch, tar);
    if (tar->n_failures == tar->n_rows) return tar_output_abandon(file), true;
    int64_t bytes = tar_output_commit(file, why, cap);
    if (bytes >= 0) memset(tar->counts, 0, N_COUNTS * sizeof *tar->counts);
    for (size_t i = 0; bytes >= 0 && i < tar->n_rows; i++) {
        if (!tar->figures[i]) continue;
        file_job_enter(batch, &batch->manifest->rows[tar->first_row + i], bytes, tar->figures[i]);
        tar->figures[i] = NULL;
    }
    return bytes >= 0;
}

/* Commits a complete tar file; ends the run after a failure. why: the reason of TAR_BROKEN. */
static void tar_go_on(struct batch *batch, struct tar_source *tar, enum tar_progress progress, char *why, size_t cap)
{
    if (progress == TAR_BROKEN || (progress == TAR_COMPLETE && !commit(batch, tar, why, cap))) batch_stop(batch, why);
}

void tar_job_put(const struct file_job *job, char *figures, const int64_t *counts)
{
    struct tar_source *tar = job->row->tar;
    const char *name = job->row->output + strlen(tar->output) + 1;
    char why[MESSAGE_CAP] = "the journal: no memory for a line; free some memory";
    enum tar_progress progress = TAR_BROKEN;
    pthread_mutex_lock(&tar->lock);
    tar->figures[(size_t)(job->row - job->batch->manifest->rows) - tar->first_row] = figures;
    for (int c = 0; c < N_COUNTS; c++) tar->counts[c] += counts[c];
    pthread_mutex_unlock(&tar->lock);
    if (figures) progress = tar_output_put(tar->file, job->row->member, name, job->content, why, sizeof why);
    tar_go_on(job->batch, tar, progress, why, sizeof why);
}

void tar_job_leave_out(const struct file_job *job)
{
    struct tar_source *tar = job->row->tar;
    char why[MESSAGE_CAP];
    if (!job->path[0] || tar->failure[0])
        return; /* its name is too long, or its input cannot be opened: all rows fail */
    pthread_mutex_lock(&tar->lock);
    tar->n_failures++;
    pthread_mutex_unlock(&tar->lock);
    enum tar_progress progress = TAR_BROKEN;
    if (tar_job_open(job, why, sizeof why))
        progress = tar_output_leave_out(tar->file, job->row->member, why, sizeof why);
    tar_go_on(job->batch, tar, progress, why, sizeof why);
}
