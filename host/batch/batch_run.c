#include "batch_run.h"

#include "host/splitmix64.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- the order of the work ---------------------------------------------------------------------- */

struct entry { /* a row of the list with its sort keys; the rows' addresses are in the order of the list */
    const struct manifest_row *row, *mask; /* mask: the first row that names the same mask */
    int64_t bytes;
};

static int by_mask_name(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    int order = strcmp(p->row->mask, q->row->mask);
    return order ? order : p->row < q->row ? -1 : p->row > q->row;
}

/* Four classes an octave: files of one class waste little of one another's time when one engine convolves them in
 * parallel. */
static int length_class(int64_t bytes)
{
    int class = 0;
    for (; bytes >= 8; bytes /= 2) class += 4;
    return class + (int)(bytes >= 4 ? bytes - 4 : 0);
}

static int by_work(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    int pc = length_class(p->bytes), qc = length_class(q->bytes);
    if (pc != qc) return pc > qc ? -1 : 1; /* long files first: none is left alone at the end */
    if (p->mask != q->mask) return p->mask < q->mask ? -1 : 1;
    return p->row < q->row ? -1 : p->row > q->row;
}

static void find_first_rows(struct entry *entries, size_t n)
{
    qsort(entries, n, sizeof *entries, by_mask_name);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && strcmp(entries[i].row->mask, entries[i - 1].row->mask) == 0;
        entries[i].mask = same ? entries[i - 1].mask : entries[i].row;
    }
}

/* The pieces depend on the list alone, so that every process cuts the same ones. A short list is cut finer, so that
 * every processor gets one. */
static void cut_pieces(struct batch *batch, const struct entry *entries, size_t n)
{
    const size_t most = n / 128 < 4 ? 4 : n / 128 > BATCH_PIECE ? BATCH_PIECE : n / 128;
    batch->n_pieces = 0;
    batch->max_piece = most;
    for (size_t i = 0; i < n; i++) {
        size_t start = batch->n_pieces ? batch->pieces[batch->n_pieces - 1] : 0;
        bool full = i == 0 || i - start == most;
        /* A piece has files of one length class; a file of many megabytes is a piece by itself. */
        bool other = i > 0 && length_class(entries[i].bytes) != length_class(entries[i - 1].bytes);
        bool large = i > 0 && entries[i].bytes > 8 << 20;
        if (full || other || large) batch->pieces[batch->n_pieces++] = i;
        batch->order[i] = entries[i].row;
    }
    batch->pieces[batch->n_pieces] = n;
}

/* 32 bits, so that their sum over all ranks fits in a count. */
static int64_t plan_hash(const struct batch *batch)
{
    uint64_t hash = batch->n_pieces;
    for (size_t i = 0; i < batch->n_pieces; i++)
        for (size_t at = batch->pieces[i]; at < batch->pieces[i + 1]; at++)
            hash = splitmix64(hash ^ i ^ journal_hash(batch->order[at], batch->settings));
    return (int64_t)(hash >> 32);
}

bool batch_plans_agree(struct batch *batch, const int64_t *counts)
{
    return counts[COUNT_PLAN] == batch->ranks.n * atomic_load(&batch->counts[COUNT_PLAN]) ||
           message_write(batch->why, sizeof batch->why,
                         "mpirun: the processes read different lists, or inputs of different sizes, and outputs may be "
                         "missing; give all of them the same files, and run it again with --resume");
}

bool batch_plan(struct batch *batch)
{
    size_t n = batch->manifest->n;
    struct entry *entries = calloc(n + 1, sizeof *entries);
    batch->order = calloc(n + 1, sizeof *batch->order);
    batch->pieces = calloc(n + 1, sizeof *batch->pieces);
    batch->work = calloc(n + 1, sizeof *batch->work);
    bool good = entries && batch->order && batch->pieces && batch->work;
    for (size_t i = 0; i < n && good; i++) {
        struct stat status;
        entries[i] = (struct entry){.row = &batch->manifest->rows[i]};
        if (stat(entries[i].row->input, &status) == 0) entries[i].bytes = status.st_size;
        batch->work[i] = entries[i].bytes + (stat(entries[i].row->mask, &status) == 0 ? status.st_size / 2 : 0);
    }
    if (good) {
        find_first_rows(entries, n);
        qsort(entries, n, sizeof *entries, by_work);
        cut_pieces(batch, entries, n);
        for (size_t i = (size_t)batch->shard; i < batch->n_pieces; i += (size_t)batch->n_shards)
            for (size_t at = batch->pieces[i]; at < batch->pieces[i + 1]; at++)
                batch_count(batch, COUNT_WORK_LEFT, batch_row_work(batch, batch->order[at]));
    } else {
        message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    }
    free(entries);
    if (good && batch->ranks.n > 1) batch_count(batch, COUNT_PLAN, plan_hash(batch));
    return good;
}

int64_t batch_row_work(const struct batch *batch, const struct manifest_row *row)
{
    return batch->work[row - batch->manifest->rows];
}

double batch_left(const struct batch *batch, struct progress_rate *rate, double now)
{
    double done = (double)atomic_load(&batch->counts[COUNT_WORK_DONE]);
    return progress_rate_left(rate, done, done + (double)atomic_load(&batch->counts[COUNT_WORK_LEFT]), now);
}

bool batch_output_path(const struct batch *batch, const struct manifest_row *row, char *path, size_t cap)
{
    return snprintf(path, cap, "%s/%s", batch->folder, row->output) < (int)cap;
}

struct identity { /* of a file, whatever its name */
    dev_t device;
    ino_t number;
};

static int by_identity(const void *a, const void *b)
{
    const struct identity *p = a, *q = b;
    if (p->device != q->device) return p->device < q->device ? -1 : 1;
    return p->number < q->number ? -1 : p->number > q->number;
}

static bool identify(const char *path, struct identity *identity)
{
    struct stat status;
    if (stat(path, &status) != 0) return false;
    *identity = (struct identity){status.st_dev, status.st_ino};
    return true;
}

bool batch_spares_inputs(struct batch *batch)
{
    size_t n = batch->manifest->n, n_read = 0;
    struct stat status;
    if (stat(batch->folder, &status) != 0) return true; /* a new folder is empty */
    struct identity *read = calloc(2 * n + 1, sizeof *read), one;
    if (!read)
        return message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    for (size_t i = 0; i < n; i++) { /* in the order of the work: many rows share a mask */
        const struct manifest_row *row = batch->order[i], *before = i > 0 ? batch->order[i - 1] : NULL;
        n_read += identify(row->input, &read[n_read]);
        if (!before || strcmp(row->mask, before->mask) != 0) n_read += identify(row->mask, &read[n_read]);
    }
    qsort(read, n_read, sizeof *read, by_identity);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        char path[PATH_MAX];
        bool exists = batch_output_path(batch, &batch->manifest->rows[i], path, sizeof path) && identify(path, &one);
        if (exists && bsearch(&one, read, n_read, sizeof *read, by_identity))
            good = message_write(batch->why, sizeof batch->why,
                                 "%s: is read by the list too, and would be overwritten; choose another folder or name",
                                 path);
    }
    free(read);
    return good;
}

struct written {
    struct identity file; /* comes first, for by_identity */
    const struct manifest_row *row;
};

/* A file system may ignore case, and a link may lead to another folder: the later output replaced the earlier one. Two
 * hard links are two files to rename(2). */
bool batch_outputs_differ(struct batch *batch)
{
    size_t n = 0;
    struct written *outputs = calloc(batch->manifest->n + 1, sizeof *outputs);
    if (!outputs) return message_write(batch->why, sizeof batch->why, "no memory to check the outputs; free some");
    for (size_t i = 0; i < batch->manifest->n; i++) {
        char path[PATH_MAX];
        struct stat status;
        const struct manifest_row *row = &batch->manifest->rows[i];
        if (batch_output_path(batch, row, path, sizeof path) && stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            status.st_nlink == 1)
            outputs[n++] = (struct written){{status.st_dev, status.st_ino}, row};
    }
    qsort(outputs, n, sizeof *outputs, by_identity);
    bool good = true;
    for (size_t i = 1; i < n && good; i++)
        if (by_identity(&outputs[i - 1], &outputs[i]) == 0)
            good =
                message_write(batch->why, sizeof batch->why,
                              "output %s: is the same file as %s, and one of them is lost; give them different names",
                              outputs[i - 1].row->output, outputs[i].row->output);
    free(outputs);
    return good;
}

void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->n_failures; i++) free(batch->failures[i].why);
    free(batch->failures);
    free(batch->order);
    free(batch->pieces);
    free(batch->work);
}

/* ---- failures and counts ------------------------------------------------------------------------ */

void batch_fail(struct batch *batch, const struct manifest_row *row, const char *why)
{
    pthread_mutex_lock(&batch->lock);
    struct failure *more = realloc(batch->failures, (batch->n_failures + 1) * sizeof *more);
    if (more) {
        batch->failures = more;
        batch->failures[batch->n_failures++] = (struct failure){row, strdup(why)};
    }
    pthread_mutex_unlock(&batch->lock);
    message_error("%s", why);
    batch_count(batch, COUNT_FAILED, 1);
    if (batch->fail_fast) atomic_store(&batch->stopped, true);
}

void batch_stop(struct batch *batch, const char *why)
{
    pthread_mutex_lock(&batch->lock);
    if (!batch->why[0]) snprintf(batch->why, sizeof batch->why, "%s", why);
    pthread_mutex_unlock(&batch->lock);
    atomic_store(&batch->stopped, true);
}

void batch_count(struct batch *batch, enum batch_count count, int64_t n)
{
    atomic_fetch_add(&batch->counts[count], n);
}

/* ---- the workers -------------------------------------------------------------------------------- */

static void join_and_report(pthread_t thread, void (*report)(void *data), void *data)
{
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        if (pthread_timedjoin_np(thread, NULL, &until) == 0) return;
        report(data);
    }
}

void batch_work(struct batch *batch, void (*report)(void *data), void *data)
{
    pthread_t *threads = calloc((size_t)batch->n_workers, sizeof *threads);
    int n = 0;
    while (threads && n < batch->n_workers && pthread_create(&threads[n], NULL, batch_worker, batch) == 0) n++;
    if (n == 0) batch_stop(batch, "no thread to work with; close some programs");
    for (int i = 0; i < n; i++) join_and_report(threads[i], report, data);
    free(threads);
}
