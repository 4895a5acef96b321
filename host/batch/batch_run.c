#include "batch_run.h"

#include "host/files/files_read.h"
#include "host/splitmix64.h"
#include "host/stopwatch.h"
#include "tar_source.h"

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
    if (order) return order;
    return p->row < q->row ? -1 : p->row > q->row;
}

/* Four classes an octave: files of one class waste little of one another's time when one engine convolves them in
 * parallel. */
static int length_class(int64_t bytes)
{
    int class = 0;
    for (; bytes >= 8; bytes /= 2) class += 4;
    return class + (int)(bytes >= 4 ? bytes - 4 : 0);
}

/* The sounds of a tar file are sorted within sections of members. */
static size_t tar_section(const struct manifest_row *row)
{
    enum { SECTION_MEMBERS = 1024 };
    return row->tar ? row->member / SECTION_MEMBERS : 0;
}

static int by_work(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    const struct tar_source *pt = p->row->tar, *qt = q->row->tar;
    if (pt != qt) return !pt ? -1 : !qt ? 1 : pt->first_row < qt->first_row ? -1 : 1; /* tar files last */
    size_t ps = tar_section(p->row), qs = tar_section(q->row);
    if (ps != qs) return ps < qs ? -1 : 1;
    int pc = length_class(p->bytes), qc = length_class(q->bytes);
    if (pc != qc) return pc > qc ? -1 : 1; /* long files first: a long one at the end would run alone */
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

/* The pieces depend on the list alone, so that every process cuts the same pieces. A short list is cut into shorter
 * pieces, so that every processor gets a piece. */
static void cut_pieces(struct batch *batch, const struct entry *entries, size_t n)
{
    struct batch_plan *plan = &batch->plan;
    const size_t max = n / 128 < 4 ? 4 : n / 128 > BATCH_PIECE ? BATCH_PIECE : n / 128;
    plan->n_pieces = plan->n_units = 0;
    plan->max_piece = max;
    for (size_t i = 0; i < n; i++) {
        size_t start = plan->n_pieces ? plan->pieces[plan->n_pieces - 1] : 0;
        bool full = i == 0 || i - start == max;
        /* A piece has files of one length class; a file of many megabytes is a piece by itself. */
        bool other = i > 0 && length_class(entries[i].bytes) != length_class(entries[i - 1].bytes);
        bool large = i > 0 && entries[i].bytes > 8 << 20;
        bool other_tar = i > 0 && entries[i].row->tar != entries[i - 1].row->tar;
        if (full || other || large || other_tar) {
            if (!entries[i].row->tar || i == 0 || other_tar) plan->units[plan->n_units++] = plan->n_pieces;
            plan->pieces[plan->n_pieces++] = i;
        }
        plan->order[i] = entries[i].row;
    }
    plan->pieces[plan->n_pieces] = n;
    plan->units[plan->n_units] = plan->n_pieces;
}

static void find_share(struct batch *batch)
{
    struct batch_plan *plan = &batch->plan;
    const struct batch_settings *s = batch->settings;
    for (size_t unit = (size_t)s->shard; unit < plan->n_units; unit += (size_t)s->n_shards) {
        size_t first = plan->units[unit], end = plan->units[unit + 1];
        plan->share_pieces += (int64_t)(end - first);
        plan->share_rows += (int64_t)(plan->pieces[end] - plan->pieces[first]);
        for (size_t at = plan->pieces[first]; at < plan->pieces[end]; at++) {
            plan->in_share[plan->order[at] - batch->manifest->rows] = true;
            batch_count(batch, COUNT_WORK_LEFT, batch_row_work(batch, plan->order[at]));
        }
    }
}

int64_t batch_input_bytes(const struct manifest_row *row)
{
    const double bytes_a_second = 96000; /* 16 bits at 48 kHz, assumed: the rate is unknown here */
    struct stat status = {0};
    if (!row->tar && stat(row->input, &status) != 0) return 0;
    int64_t bytes = row->tar ? row->tar->input->members[row->member].bytes : status.st_size;
    double part = row->length_s * bytes_a_second;
    return part < (double)bytes ? (int64_t)part + 1 : bytes;
}

bool batch_plan_make(struct batch *batch)
{
    struct batch_plan *plan = &batch->plan;
    size_t n = batch->manifest->n;
    struct entry *entries = calloc(n + 1, sizeof *entries);
    plan->order = calloc(n + 1, sizeof *plan->order);
    plan->pieces = calloc(n + 1, sizeof *plan->pieces);
    plan->units = calloc(n + 1, sizeof *plan->units);
    plan->work = calloc(n + 1, sizeof *plan->work);
    plan->in_share = calloc(n + 1, sizeof *plan->in_share);
    plan->states = calloc(n + 1, sizeof *plan->states);
    bool good = entries && plan->order && plan->pieces && plan->units && plan->work && plan->in_share && plan->states;
    for (size_t i = 0; i < n && good; i++) {
        const struct manifest_row *row = &batch->manifest->rows[i];
        struct stat mask;
        entries[i] = (struct entry){.row = row, .bytes = batch_input_bytes(row)};
        plan->work[i] = entries[i].bytes + (stat(row->mask, &mask) == 0 ? mask.st_size / 2 : 0);
    }
    if (good) {
        find_first_rows(entries, n);
        qsort(entries, n, sizeof *entries, by_work);
        cut_pieces(batch, entries, n);
        find_share(batch);
    } else {
        message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    }
    free(entries);
    return good;
}

bool batch_reserve_piece(struct batch *batch, size_t *piece)
{
    const struct batch_plan *plan = &batch->plan;
    pthread_mutex_lock(&batch->lock);
    if (batch->next_piece == batch->unit_end) {
        int64_t unit = batch->n_units_begun++ * batch->settings->n_shards + batch->settings->shard;
        bool is_left = unit < (int64_t)plan->n_units;
        batch->next_piece = is_left ? plan->units[unit] : plan->n_pieces;
        batch->unit_end = is_left ? plan->units[unit + 1] : plan->n_pieces;
    }
    bool is_reserved = batch->next_piece < batch->unit_end;
    if (is_reserved) *piece = batch->next_piece++;
    pthread_mutex_unlock(&batch->lock);
    return is_reserved;
}

const char *batch_input_file(const struct manifest_row *row)
{
    return row->tar ? row->tar->path : row->input;
}

int64_t batch_row_work(const struct batch *batch, const struct manifest_row *row)
{
    return batch->plan.work[row - batch->manifest->rows];
}

double batch_left(const struct batch *batch, struct progress_rate *rate, double now)
{
    double done = (double)atomic_load(&batch->counts[COUNT_WORK_DONE]);
    return progress_rate_left(rate, done, done + (double)atomic_load(&batch->counts[COUNT_WORK_LEFT]), now);
}

bool batch_output_path(const struct batch *batch, const struct manifest_row *row, char *path, size_t cap)
{
    const char *output = row->tar ? row->tar->output : row->output, *name = output;
    while (*name && strcspn(name, "/") <= NAME_MAX) name += strcspn(name, "/") + (strchr(name, '/') != NULL);
    bool fits = !*name && snprintf(path, cap, "%s/%s", batch->settings->folder, output) < (int)cap;
    if (!fits) *path = 0;
    return fits;
}

struct journal_location batch_journal(const struct batch *batch)
{
    const struct batch_settings *s = batch->settings;
    return (struct journal_location){s->folder, s->shard, s->n_shards};
}

/* Adds a file with `add`, and finds its state. path: NULL = none. */
static bool add_file(struct files_read *read, bool (*add)(struct files_read *read, const char *path), const char *path,
                     uint64_t *state)
{
    read->state = 0;
    bool good = !path || add(read, path);
    *state = read->state;
    return good;
}

static bool add_files(const struct batch *batch, struct files_read *read)
{
    const struct tar_source *tar = NULL;
    uint64_t tar_state = 0;
    for (size_t i = 0; i < batch->manifest->n; i++) { /* in plan order: the rows of a tar file are neighbours */
        const struct manifest_row *row = batch->plan.order[i];
        const char *path = row->path && !path_is_random(row->path) ? row->path : NULL;
        uint64_t *states = batch->plan.states[row - batch->manifest->rows];
        if (row->tar && row->tar == tar)
            states[ROW_INPUT] = tar_state;
        else if (!add_file(read, files_read_add, batch_input_file(row), &states[ROW_INPUT]))
            return false;
        tar = row->tar;
        tar_state = states[ROW_INPUT];
        if (!add_file(read, row->path ? files_read_add_bank : files_read_add_mask, row->mask, &states[ROW_MASK]) ||
            !add_file(read, files_read_add_mask, row->noise, &states[ROW_NOISE]) ||
            !add_file(read, files_read_add, path, &states[ROW_PATH]))
            return false;
    }
    return true;
}

bool batch_spares_inputs(struct batch *batch)
{
    const struct batch_settings *s = batch->settings;
    size_t n = batch->manifest->n;
    struct stat status;
    struct files_read read = {0};
    bool good = (!s->list || files_read_add(&read, s->list)) && add_files(batch, &read);
    if (good && stat(s->folder, &status) != 0 && !s->report) n = 0; /* a new folder is empty */
    if (!good) message_write(batch->why, sizeof batch->why, "no memory for %zu files; cut the list with --shard", n);
    for (size_t i = 0; i < n && good; i++) {
        char path[PATH_MAX], why[MESSAGE_CAP - 40];
        const struct manifest_row *row = &batch->manifest->rows[i];
        if (row->tar && i > row->tar->first_row) continue; /* checked with the first row */
        if (!batch_output_path(batch, row, path, sizeof path) || files_read_spare(&read, path, why, sizeof why))
            continue;
        good = message_write(batch->why, sizeof batch->why, "row %zu: %s", i + 1, why);
    }
    if (good && s->report) good = files_read_spare(&read, s->report, batch->why, sizeof batch->why);
    files_read_free(&read);
    return good;
}

const struct journal_entry *batch_entry_find(const struct batch *batch, const struct journal_list *list,
                                             const struct manifest_row *row, enum row_file *changed)
{
    const uint64_t *states = batch->plan.states[row - batch->manifest->rows];
    const struct journal_entry *entry = journal_list_find(list, row->output);
    if (!entry || entry->hash != journal_hash(row, batch->hashed)) return NULL;
    *changed = ROW_INPUT;
    while (*changed < N_ROW_FILES && !file_state_differs(entry->states[*changed], states[*changed])) ++*changed;
    return entry;
}

struct written {
    struct file_identity file; /* comes first, for file_identity_order */
    const struct manifest_row *row;
};

/* Two names may be one file: a file system may ignore case, and a link may lead to the same folder. The later output
 * has then replaced the earlier one. Two hard links are two files to rename(2). */
bool batch_outputs_differ(struct batch *batch)
{
    size_t n = 0;
    struct written *outputs = calloc(batch->manifest->n + 1, sizeof *outputs);
    if (!outputs)
        return message_write(batch->why, sizeof batch->why, "no memory to check the outputs; free some memory");
    for (size_t i = 0; i < batch->manifest->n; i++) {
        char path[PATH_MAX];
        struct stat status;
        const struct manifest_row *row = &batch->manifest->rows[i];
        bool again = row->tar && i > row->tar->first_row; /* checked with the first row */
        if (!again && batch_output_path(batch, row, path, sizeof path) && stat(path, &status) == 0 &&
            S_ISREG(status.st_mode) && status.st_nlink == 1)
            outputs[n++] = (struct written){{status.st_dev, status.st_ino}, row};
    }
    qsort(outputs, n, sizeof *outputs, file_identity_order);
    bool good = true;
    for (size_t i = 1; i < n && good; i++)
        if (file_identity_order(&outputs[i - 1], &outputs[i]) == 0)
            good = message_write(batch->why, sizeof batch->why,
                                 "row %zu: %s is the same file as %s of row %zu, and one of them is lost; give them "
                                 "different names",
                                 manifest_row_number(batch->manifest, outputs[i - 1].row), outputs[i - 1].row->output,
                                 outputs[i].row->output, manifest_row_number(batch->manifest, outputs[i].row));
    free(outputs);
    return good;
}

void batch_free(struct batch *batch)
{
    struct batch_plan *plan = &batch->plan;
    free(plan->order);
    free(plan->pieces);
    free(plan->units);
    free(plan->work);
    free(plan->in_share);
    free(plan->states);
}

/* ---- failures and counts ------------------------------------------------------------------------ */

void batch_fail(struct batch *batch, const struct manifest_row *row, const char *reason)
{
    size_t number = manifest_row_number(batch->manifest, row);
    char why[MESSAGE_CAP];
    message_error("row %zu: %s", number, reason);
    if (!journal_add_failure(&batch->journal, number, reason, why, sizeof why)) batch_stop(batch, why);
    batch_count(batch, COUNT_FAILED, 1);
    if (batch->settings->fail_fast) atomic_store(&batch->stopped, true);
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

double batch_time(struct batch *batch, enum batch_count count, double since)
{
    double now = stopwatch_now();
    batch_count(batch, count, (int64_t)((now - since) * 1e6));
    return now;
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

/* Uncounts the finished rows of each tar file that could not be written. */
static void uncount_lost(struct batch *batch)
{
    for (const struct tar_source *tar = batch->manifest->tars; tar; tar = tar->next)
        for (int c = 0; tar->counts && c < N_COUNTS; c++) batch_count(batch, c, -tar->counts[c]);
}

void batch_work(struct batch *batch, void (*report)(void *data), void *data)
{
    pthread_t *threads = calloc((size_t)batch->n_workers, sizeof *threads);
    int n = 0;
    while (threads && n < batch->n_workers && pthread_create(&threads[n], NULL, batch_worker, batch) == 0) n++;
    if (n == 0) batch_stop(batch, "no worker thread can be started; close some programs");
    for (int i = 0; i < n; i++) join_and_report(threads[i], report, data);
    uncount_lost(batch);
    free(threads);
}
