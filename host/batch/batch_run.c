#include "batch_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- the order of the work ---------------------------------------------------------------------- */

struct entry { /* a job with what it is sorted by */
    const struct job *job;
    size_t row, mask; /* mask: number of its first row */
    int64_t bytes;
};

static int by_mask_name(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    int order = strcmp(p->job->mask, q->job->mask);
    return order ? order : p->row < q->row ? -1 : p->row > q->row;
}

/* Four classes an octave: files of one class waste little of one another's time when they go side by side. */
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

static void number_masks(struct entry *entries, size_t n)
{
    qsort(entries, n, sizeof *entries, by_mask_name);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && strcmp(entries[i].job->mask, entries[i - 1].job->mask) == 0;
        entries[i].mask = same ? entries[i - 1].mask : entries[i].row;
    }
}

/* Pieces depend on the list alone, so that every process cuts the same ones. A short list is cut finer, for there to be
 * one for every processor. */
static void cut_pieces(struct batch *batch, const struct entry *entries, size_t n)
{
    const size_t most = n / 128 < 4 ? 4 : n / 128 > BATCH_PIECE ? BATCH_PIECE : n / 128;
    batch->n_pieces = 0;
    batch->most = most;
    for (size_t i = 0; i < n; i++) {
        size_t start = batch->n_pieces ? batch->pieces[batch->n_pieces - 1] : 0;
        bool full = i == 0 || i - start == most;
        /* A piece is of one class of length; a file of many megabytes is one by itself. */
        bool other = i > 0 && length_class(entries[i].bytes) != length_class(entries[i - 1].bytes);
        bool large = i > 0 && entries[i].bytes > 8 << 20;
        if (full || other || large) batch->pieces[batch->n_pieces++] = i;
        batch->order[i] = entries[i].job;
    }
    batch->pieces[batch->n_pieces] = n;
}

bool batch_plan(struct batch *batch)
{
    size_t n = batch->manifest->n;
    struct entry *entries = calloc(n + 1, sizeof *entries);
    batch->order = calloc(n + 1, sizeof *batch->order);
    batch->pieces = calloc(n + 1, sizeof *batch->pieces);
    bool good = entries && batch->order && batch->pieces;
    for (size_t i = 0; i < n && good; i++) {
        struct stat status;
        entries[i] = (struct entry){.job = &batch->manifest->jobs[i], .row = i};
        if (stat(entries[i].job->input, &status) == 0) entries[i].bytes = status.st_size;
    }
    if (good) {
        number_masks(entries, n);
        qsort(entries, n, sizeof *entries, by_work);
        cut_pieces(batch, entries, n);
    } else {
        message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    }
    free(entries);
    return good;
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
    if (stat(batch->folder, &status) != 0) return true; /* a new one: nothing lies in it */
    struct identity *read = calloc(2 * n + 1, sizeof *read), one;
    if (!read)
        return message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    for (size_t i = 0; i < n; i++) { /* in the order of the work: many rows share a mask */
        const struct job *job = batch->order[i], *before = i > 0 ? batch->order[i - 1] : NULL;
        n_read += identify(job->input, &read[n_read]);
        if (!before || strcmp(job->mask, before->mask) != 0) n_read += identify(job->mask, &read[n_read]);
    }
    qsort(read, n_read, sizeof *read, by_identity);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        char path[PATH_MAX];
        const char *output = batch->manifest->jobs[i].output;
        int length = snprintf(path, sizeof path, "%s/%s", batch->folder, output);
        if (length >= (int)sizeof path || !identify(path, &one)) continue;
        if (bsearch(&one, read, n_read, sizeof *read, by_identity))
            good = message_write(batch->why, sizeof batch->why,
                                 "%s: is read by the list too, and would be overwritten; choose another folder or name",
                                 path);
    }
    free(read);
    return good;
}

void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->n_failures; i++) free(batch->failures[i].why);
    free(batch->failures);
    free(batch->order);
    free(batch->pieces);
}

/* ---- what goes wrong ---------------------------------------------------------------------------- */

void batch_fail(struct batch *batch, const struct job *job, const char *why)
{
    pthread_mutex_lock(&batch->lock);
    struct failure *more = realloc(batch->failures, (batch->n_failures + 1) * sizeof *more);
    if (more) {
        batch->failures = more;
        batch->failures[batch->n_failures++] = (struct failure){job, strdup(why)};
    }
    pthread_mutex_unlock(&batch->lock);
    message_error("%s", why);
    if (batch->fail_fast) atomic_store(&batch->stopped, true);
}

void batch_stop(struct batch *batch, const char *why)
{
    pthread_mutex_lock(&batch->lock);
    if (!batch->why[0]) snprintf(batch->why, sizeof batch->why, "%s", why);
    pthread_mutex_unlock(&batch->lock);
    atomic_store(&batch->stopped, true);
}

/* ---- the workers -------------------------------------------------------------------------------- */

struct crew { /* the workers' threads, and whether the last has left */
    pthread_mutex_t lock;
    pthread_cond_t left;
    int n_working;
};

struct seat {
    struct batch_worker_seat seat; /* first: a worker sees this only */
    struct crew *crew;
};

static void *work(void *data)
{
    struct seat *seat = data;
    batch_worker(&seat->seat);
    pthread_mutex_lock(&seat->crew->lock);
    if (--seat->crew->n_working == 0) pthread_cond_signal(&seat->crew->left);
    pthread_mutex_unlock(&seat->crew->lock);
    return NULL;
}

static void wait_for(struct crew *crew, void (*report)(void *data), void *data)
{
    pthread_mutex_lock(&crew->lock);
    while (crew->n_working > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&crew->left, &crew->lock, &until);
        pthread_mutex_unlock(&crew->lock);
        report(data);
        pthread_mutex_lock(&crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
}

void batch_work(struct batch *batch, void (*report)(void *data), void *data)
{
    struct crew crew = {.n_working = batch->n_workers};
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.left, NULL);
    pthread_t *threads = calloc((size_t)batch->n_workers, sizeof *threads);
    struct seat *seats = calloc((size_t)batch->n_workers, sizeof *seats);
    int n = 0;
    for (; threads && seats && n < batch->n_workers; n++) {
        seats[n] = (struct seat){{batch, n}, &crew};
        if (pthread_create(&threads[n], NULL, work, &seats[n]) != 0) break;
    }
    pthread_mutex_lock(&crew.lock);
    crew.n_working -= batch->n_workers - n; /* fewer threads do it too */
    pthread_mutex_unlock(&crew.lock);
    if (n == 0) batch_stop(batch, "no thread to work with; close some programs");
    wait_for(&crew, report, data);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    free(threads);
    free(seats);
    pthread_cond_destroy(&crew.left);
    pthread_mutex_destroy(&crew.lock);
}
