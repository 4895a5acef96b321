/* batch_worker - a worker of a batch: dequeues pieces of the list, and convolves files of one shape with one engine. */
#include "batch_run.h"

#include "batch_report.h"
#include "dsp/haloconv_files.h"
#include "file_job.h"
#include "host/files/files_read.h"
#include "host/stopwatch.h"
#include "scene_file_job.h"
#include "tar_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct job_shape { /* file jobs of one shape can use the same engine */
    int n_in, n_out, rate, taps_class;
};

struct engine_entry {
    hc_engine *engine; /* NULL: the entry is empty */
    hc_info info;
    struct job_shape shape;
    int n_jobs;                    /* file jobs that the engine convolves in parallel */
    int n_queued;                  /* blocks, at most info.queue_depth */
    int64_t n_fed;                 /* blocks since the last reset */
    hc_mask *mask;                 /* the masks of all jobs of the group, or NULL */
    uint64_t serials[BATCH_PIECE]; /* serials of the jobs' masks; 0 = none */
    uint64_t last_used;
};

struct worker {
    struct batch *batch;
    char backend[32];
    struct engine_entry entries[BATCH_ENGINES];
    uint64_t clock;   /* counts up, for last_used */
    bool has_engines; /* or opens one: batch->n_with_engines counts this worker */
};

struct group { /* file jobs of one shape, at most as many as the engine convolves in parallel */
    struct worker *worker;
    struct engine_entry *entry;
    struct file_job *jobs[BATCH_PIECE];
    int n;
};

/* ---- engine entries ------------------------------------------------------------------------------- */

/* Four sizes an octave: masks of about one length share an engine. The class depends on the mask alone, so that the
 * output does not depend on the files before it. */
static int taps_class(int n_taps)
{
    int quarter = 16;
    while (quarter < 1 << 28 && 8 * quarter < n_taps) quarter *= 2;
    return (n_taps + quarter - 1) / quarter * quarter;
}

static struct job_shape job_shape(const struct file_job *job)
{
    return (struct job_shape){job->n_in, job->n_out, job->in.rate, taps_class(job->n_taps)};
}

static bool same_shape(struct job_shape a, struct job_shape b)
{
    return a.n_in == b.n_in && a.n_out == b.n_out && a.rate == b.rate && a.taps_class == b.taps_class;
}

static bool convolves_in_parallel(const struct worker *worker)
{
    return strncmp(worker->backend, "cuda", 4) == 0;
}

static int jobs_a_group(const struct worker *worker, struct job_shape shape)
{
    if (!convolves_in_parallel(worker)) return 1;
    int n = BATCH_CHANNELS / (shape.n_in > shape.n_out ? shape.n_in : shape.n_out);
    int max = (int)worker->batch->plan.max_piece;
    return n < 1 ? 1 : n > max ? max : n;
}

static void entry_close(struct engine_entry *entry)
{
    hc_close(entry->engine);
    *entry = (struct engine_entry){0};
}

/* Closes all engines of the worker. frees: their memory may be enough for a worker that waits. */
static void engines_close(struct worker *worker, bool frees)
{
    struct batch *batch = worker->batch;
    for (int i = 0; i < BATCH_ENGINES; i++) entry_close(&worker->entries[i]);
    pthread_mutex_lock(&batch->lock);
    batch->n_with_engines -= worker->has_engines;
    batch->n_freed += frees;
    worker->has_engines = false;
    pthread_cond_broadcast(&batch->engines_closed);
    pthread_mutex_unlock(&batch->lock);
}

/* Returns HC_OK, or an error and why. */
static int entry_open(struct worker *worker, struct engine_entry *entry, struct job_shape shape, char *why, size_t cap)
{
    const struct batch *batch = worker->batch;
    hc_config config;
    *entry =
        (struct engine_entry){.shape = shape, .n_jobs = jobs_a_group(worker, shape), .info.size = sizeof entry->info};
    file_engine_config(&config, shape.rate, worker->backend, batch->settings->method);
    config.n_in = entry->n_jobs * shape.n_in;
    config.n_out = entry->n_jobs * shape.n_out;
    config.max_taps = shape.taps_class;
    config.n_threads = batch->n_threads;
    config.queue_depth = 1; /* a GPU has 2: it convolves one block while the worker reads or writes another */
    int error = hc_open(&config, &entry->engine, why, cap);
    if (error != HC_OK) {
        *entry = (struct engine_entry){0};
        return error;
    }
    hc_get_info(entry->engine, &entry->info);
    pthread_mutex_lock(&worker->batch->lock);
    memcpy(worker->batch->device, entry->info.device, sizeof worker->batch->device);
    pthread_mutex_unlock(&worker->batch->lock);
    return HC_OK;
}

/* Gives the group the entry with an engine of a shape; a new engine replaces the least recently used one. Returns
 * HC_OK, or an error and why. */
static int entry_for(struct group *group, struct job_shape shape, char *why, size_t cap)
{
    struct worker *worker = group->worker;
    struct engine_entry *entry = &worker->entries[0];
    for (int i = 0; i < BATCH_ENGINES; i++) {
        struct engine_entry *other = &worker->entries[i];
        bool fits = other->engine && same_shape(other->shape, shape);
        if (fits || other->last_used < entry->last_used) entry = other;
        if (fits) break;
    }
    if (!entry->engine || !same_shape(entry->shape, shape)) {
        entry_close(entry);
        int error = entry_open(worker, entry, shape, why, cap);
        if (error != HC_OK) return error;
    }
    entry->last_used = ++worker->clock;
    group->entry = entry;
    return HC_OK;
}

/* Sets the masks of the group's jobs in the engine, unless it has them. Returns HC_OK, or an error and why. */
static int set_masks(const struct group *group, char *why, size_t cap)
{
    struct engine_entry *entry = group->entry;
    uint64_t serials[BATCH_PIECE] = {0};
    int n_routes = 0;
    for (int i = 0; i < group->n; i++) {
        serials[i] = group->jobs[i]->mask->entry.serial;
        n_routes += group->jobs[i]->mask->responses.n_routes;
    }
    hc_reset(entry->engine); /* no block is queued then */
    if (entry->mask && memcmp(serials, entry->serials, sizeof serials) == 0) return HC_OK;
    hc_mask_free(entry->engine, entry->mask);
    entry->mask = NULL;
    hc_route *routes = calloc(n_routes > 0 ? (size_t)n_routes : 1, sizeof *routes), *route = routes;
    if (!routes) {
        message_write(why, cap, "no memory for routes; free some memory");
        return HC_ENOMEM;
    }
    for (int i = 0; i < group->n; i++)
        for (int r = 0; r < group->jobs[i]->mask->responses.n_routes; r++, route++) {
            *route = group->jobs[i]->mask->responses.routes[r];
            route->in += i * entry->shape.n_in;
            route->out += i * entry->shape.n_out;
        }
    int error = hc_mask_make(entry->engine, routes, sizeof *routes, n_routes, &entry->mask, why, cap);
    free(routes);
    if (error != HC_OK) return error;
    memcpy(entry->serials, serials, sizeof serials);
    hc_mask_swap(entry->engine, entry->mask);
    return HC_OK;
}

/* Waits until another worker has closed engines. false: no other worker has had one since `begun` and `freed` were
 * read. */
static bool wait_for_memory(struct batch *batch, unsigned begun, unsigned freed)
{
    pthread_mutex_lock(&batch->lock);
    bool was_alone = batch->n_with_engines == 0 && batch->n_begun == begun && batch->n_freed == freed;
    while (batch->n_with_engines > 0 && batch->n_freed == freed)
        pthread_cond_wait(&batch->engines_closed, &batch->lock);
    pthread_mutex_unlock(&batch->lock);
    return !was_alone;
}

/* Gives the group an engine with its masks. If their memory is used up, the worker closes its other engines; then it
 * waits until another worker closes engines, so that fewer workers go on. false: batch_stop has the reason. */
static bool group_prepare(struct group *group)
{
    struct worker *worker = group->worker;
    struct batch *batch = worker->batch;
    char why[MESSAGE_CAP];
    while (!atomic_load(&batch->stopped)) {
        bool has_others = worker->has_engines;
        pthread_mutex_lock(&batch->lock);
        batch->n_with_engines += !has_others;
        unsigned begun = batch->n_begun += !has_others, freed = batch->n_freed;
        worker->has_engines = true;
        pthread_mutex_unlock(&batch->lock);
        int error = entry_for(group, job_shape(group->jobs[0]), why, sizeof why);
        if (error == HC_OK) error = set_masks(group, why, sizeof why);
        if (error == HC_OK) return true;
        engines_close(worker, has_others);
        if (error != HC_ENOMEM || (!has_others && !wait_for_memory(batch, begun, freed))) batch_stop(batch, why);
    }
    return false;
}

/* ---- groups: file jobs through an engine -------------------------------------------------------- */

static bool entry_failed(const struct group *group)
{
    char why[MESSAGE_CAP];
    file_engine_failed(group->entry->engine, why, sizeof why);
    batch_stop(group->worker->batch, why);
    return false;
}

/* Reads the next block of all jobs into the engine's memory and queues it, unless no job needs a block. The last block
 * is as long as the longest job needs, in whole partitions. */
static bool feed_block(const struct group *group)
{
    struct engine_entry *entry = group->entry;
    const int block = entry->info.block, unit = entry->info.n_partitions > 0 ? entry->info.partition : 1;
    const int n_in = entry->shape.n_in;
    int64_t max = 0, got[BATCH_PIECE] = {0};
    void *buffer;
    double start = stopwatch_now();
    if (hc_block_buffers(entry->engine, entry->n_fed, &buffer, NULL) != HC_OK) return entry_failed(group);
    float *ins = buffer; /* [n_jobs * n_in][block] */
    for (int i = 0; i < group->n; i++) {
        struct file_job *job = group->jobs[i];
        if (file_job_needs(job, block) > 0)
            got[i] = file_job_read(job, ins + (size_t)(i * n_in) * (size_t)block, block, block);
        int64_t needs = file_job_needs(job, block); /* fewer, if the job has read the end of its input */
        if (needs > max) max = needs;
    }
    if (max == 0) return true; /* the last jobs have failed */
    int n = (int)((max + unit - 1) / unit * unit);
    if (n > block) n = block;
    for (int ch = 0; ch < entry->n_jobs * n_in; ch++) { /* zeros behind the frames that were read */
        int64_t from = got[ch / n_in];
        if (from < n) memset(ins + (size_t)ch * (size_t)block + from, 0, (size_t)(n - from) * sizeof *ins);
    }
    start = batch_time(group->worker->batch, COUNT_READ_US, start);
    if (hc_submit(entry->engine, NULL, n) != HC_OK) return entry_failed(group);
    batch_time(group->worker->batch, COUNT_CONVOLVE_US, start);
    for (int i = 0; i < group->n; i++) group->jobs[i]->n_queued += n;
    entry->n_queued++;
    entry->n_fed++;
    return true;
}

static bool collect_block(const struct group *group)
{
    struct engine_entry *entry = group->entry;
    const void *buffer;
    const size_t block = (size_t)entry->info.block;
    double start = stopwatch_now();
    int n = hc_collect(entry->engine, NULL);
    start = batch_time(group->worker->batch, COUNT_CONVOLVE_US, start);
    if (n < 0 || hc_block_buffers(entry->engine, entry->n_fed - entry->n_queued, NULL, &buffer) != HC_OK)
        return entry_failed(group);
    const float *outs = buffer; /* [n_jobs * n_out][block] */
    entry->n_queued--;
    for (int i = 0; i < group->n; i++)
        if (file_job_is_busy(group->jobs[i]))
            file_job_accept(group->jobs[i], outs + (size_t)(i * entry->shape.n_out) * block, entry->info.block, n);
    batch_time(group->worker->batch, COUNT_WRITE_US, start);
    return true;
}

/* Convolves all jobs of the group to their ends. */
static bool group_convolve(const struct group *group)
{
    struct engine_entry *entry = group->entry;
    entry->n_queued = 0;
    entry->n_fed = 0;
    for (;;) {
        bool more = false;
        for (int i = 0; i < group->n; i++) more |= file_job_needs(group->jobs[i], entry->info.block) > 0;
        if (!more && entry->n_queued == 0) return true;
        if (!(more && entry->n_queued < entry->info.queue_depth ? feed_block(group) : collect_block(group)))
            return false;
    }
}

static void open_outputs(struct file_job *const *jobs, int n)
{
    double start = stopwatch_now();
    for (int i = 0; i < n; i++) file_job_open_output(jobs[i]);
    batch_time(jobs[0]->batch, COUNT_WRITE_US, start);
}

/* Finds the gains of the outputs, and writes those that were kept. true: convolve again, then repeat this call. */
static bool outputs_need_pass(struct file_job *const *jobs, int n)
{
    double start = stopwatch_now();
    bool again = false;
    for (int i = 0; i < n; i++) again |= file_job_next_pass(jobs[i]);
    batch_time(jobs[0]->batch, COUNT_WRITE_US, start);
    return again;
}

static void commit_outputs(struct file_job *const *jobs, int n)
{
    double start = stopwatch_now();
    for (int i = 0; i < n; i++) file_job_commit(jobs[i]);
    batch_time(jobs[0]->batch, COUNT_WRITE_US, start);
}

static void run_group(struct group *group)
{
    double start = stopwatch_now();
    if (!group_prepare(group)) return;
    batch_time(group->worker->batch, COUNT_CONVOLVE_US, start);
    open_outputs(group->jobs, group->n);
    if (!group_convolve(group)) return;
    while (outputs_need_pass(group->jobs, group->n)) { /* the other jobs need no block */
        hc_reset(group->entry->engine);
        if (!group_convolve(group)) return;
    }
    commit_outputs(group->jobs, group->n);
}

/* Convolves file jobs whose sources move, all over one bank. */
static void run_scene_file(struct file_job *const *jobs, int n)
{
    open_outputs(jobs, n);
    for (bool again = true; again; again = outputs_need_pass(jobs, n)) {
        double start = stopwatch_now();
        if (!scene_file_jobs_convolve(jobs, n)) return;
        batch_time(jobs[0]->batch, COUNT_CONVOLVE_US, start);
    }
    commit_outputs(jobs, n);
}

/* Runs the group of moving jobs that begins with jobs[i], and marks its jobs as done. */
static void run_scene_file_group(struct file_job *jobs, int i, int n, bool *done)
{
    struct file_job *group[BATCH_PIECE];
    int n_group = 0;
    for (int j = i; j < n; j++)
        if (!done[j] && jobs[j].moving && jobs[j].moving->bank == jobs[i].moving->bank) {
            group[n_group++] = &jobs[j];
            done[j] = true;
        }
    run_scene_file(group, n_group);
}

/* Convolves every open job once, in groups of one shape. */
static void run_jobs(struct worker *worker, struct file_job *jobs, int n)
{
    bool done[BATCH_PIECE] = {false};
    for (int i = 0; i < n; i++) {
        if (done[i] || atomic_load(&worker->batch->stopped)) continue;
        if (jobs[i].moving) {
            run_scene_file_group(jobs, i, n, done);
            continue;
        }
        struct group group = {.worker = worker};
        struct job_shape shape = job_shape(&jobs[i]);
        int max = jobs_a_group(worker, shape);
        for (int j = i; j < n && group.n < max; j++)
            if (!done[j] && !jobs[j].moving && same_shape(shape, job_shape(&jobs[j]))) {
                group.jobs[group.n++] = &jobs[j];
                done[j] = true;
            }
        run_group(&group);
    }
}

/* ---- pieces ------------------------------------------------------------------------------------- */

/* Counts a row, or all rows of its tar file, that are made again because a file has changed. */
static void count_changed(struct batch *batch, const struct manifest_row *row, enum row_file file)
{
    const char *paths[N_ROW_FILES] = {batch_input_file(row), row->mask, row->noise, row->path};
    struct changed_files *changed = &batch->changed[file];
    pthread_mutex_lock(&batch->lock);
    const char *path = paths[file] ? paths[file] : ""; /* NULL: a damaged journal has a state of no file */
    changed->is_several |= changed->first && strcmp(changed->first, path) != 0;
    if (!changed->first || strcmp(path, changed->first) < 0) changed->first = path; /* in any order of the workers */
    changed->n_rows += row->tar ? (int64_t)row->tar->n_rows : 1;
    pthread_mutex_unlock(&batch->lock);
}

/* Returns the journal's entry for the row's file, from an earlier run. NULL: no entry, a file that the row reads has
 * changed, or the entry lacks figures that --report needs. */
static const struct journal_entry *journal_entry_of(struct batch *batch, const struct manifest_row *row)
{
    char path[PATH_MAX];
    struct stat status;
    enum row_file changed;
    if (!batch_output_path(batch, row, path, sizeof path)) return NULL;
    if (stat(path, &status) != 0 || status.st_size == 0) return NULL;
    const struct journal_entry *entry = batch_entry_find(batch, &batch->journal.done, row, &changed);
    if (!entry) return NULL;
    if (entry->bytes != status.st_size) {
        message_note("%s: has %lld bytes, and the journal lists %lld; the file is made again", path,
                     (long long)status.st_size, (long long)entry->bytes);
        return NULL;
    }
    for (int i = N_ROW_FILES - 1; i >= 0 && changed == N_ROW_FILES; i--)
        if (file_state_is_unsure(entry->states[i])) changed = (enum row_file)i;
    if (changed < N_ROW_FILES) {
        count_changed(batch, row, changed);
        return NULL;
    }
    if (batch->settings->report && figures_check(entry->figures) == FIGURES_UNKNOWN) {
        message_note("%s: the journal lacks its figures for --report; the file is made again", row->output);
        return NULL;
    }
    return entry;
}

/* Gives an entry the decay time that an earlier run left out. false: the row has failed. */
static bool add_t30(struct batch *batch, const struct manifest_row *row, const struct journal_entry *entry)
{
    struct file_job job;
    if (!file_job_open(&job, batch, row, batch->backend)) return false;
    file_job_enter(batch, row, entry->bytes, figures_with_t30(entry->figures, job.mask ? job.mask->t30_s : NAN));
    file_job_close(&job);
    return true;
}

/* A tar file is done if all of its rows are. */
static bool tar_is_done(struct batch *batch, struct tar_source *tar)
{
    pthread_mutex_lock(&tar->lock);
    if (tar->resume == RESUME_UNKNOWN) {
        size_t i = tar->first_row, end = i + tar->n_rows;
        while (i < end && journal_entry_of(batch, &batch->manifest->rows[i])) i++;
        tar->resume = i == end ? RESUME_DONE : RESUME_NOT_DONE;
    }
    bool is_done = tar->resume == RESUME_DONE;
    pthread_mutex_unlock(&tar->lock);
    return is_done;
}

/* Was the row done by an earlier run, or has it failed here? */
static bool is_done(struct batch *batch, const struct manifest_row *row)
{
    if (batch->journal.done.n == 0 || (row->tar && !tar_is_done(batch, row->tar))) return false;
    const struct journal_entry *entry = journal_entry_of(batch, row);
    if (!entry) return false;
    bool lacks_t30 = batch->settings->report && figures_check(entry->figures) == FIGURES_LACK_T30;
    if (!lacks_t30) { /* else the file job does this */
        batch_count(batch, COUNT_WORK_LEFT, -batch_row_work(batch, row));
        if (row->tar) tar_source_row_finished(row->tar);
    }
    if (!lacks_t30 || add_t30(batch, row, entry)) batch_count(batch, COUNT_RESUMED, 1);
    return true;
}

static void run_piece(struct worker *worker, size_t piece, struct file_job *jobs)
{
    const struct batch_plan *plan = &worker->batch->plan;
    struct batch *batch = worker->batch;
    int n = 0;
    for (size_t i = plan->pieces[piece]; i < plan->pieces[piece + 1] && !atomic_load(&batch->stopped); i++) {
        if (is_done(batch, plan->order[i]) || !file_job_open(&jobs[n], batch, plan->order[i], worker->backend))
            continue;
        if (convolves_in_parallel(worker) || jobs[n].moving) {
            n++;
            continue;
        }
        run_jobs(worker, &jobs[n], 1);
        file_job_close(&jobs[n]);
    }
    run_jobs(worker, jobs, n);
    while (n > 0) file_job_close(&jobs[--n]);
}

/* Spreads the workers over the GPUs of this machine; each share begins with another one. */
static void worker_choose_backend(struct worker *worker, int number)
{
    const struct batch *batch = worker->batch;
    if (strcmp(batch->backend, "cuda") == 0 && batch->n_devices > 1)
        snprintf(worker->backend, sizeof worker->backend, "cuda:%d",
                 (number + batch->settings->shard) % batch->n_devices);
    else
        snprintf(worker->backend, sizeof worker->backend, "%s", batch->backend);
}

void *batch_worker(void *data)
{
    struct batch *batch = data;
    struct worker worker = {.batch = batch};
    struct file_job *jobs = calloc(BATCH_PIECE, sizeof *jobs);
    double start = stopwatch_now();
    worker_choose_backend(&worker, atomic_fetch_add(&batch->n_started, 1));
    if (!jobs) batch_stop(batch, "no memory for a worker; use fewer --workers");
    while (jobs && !atomic_load(&batch->stopped)) {
        size_t piece;
        if (!batch_reserve_piece(batch, &piece)) break;
        run_piece(&worker, piece, jobs);
    }
    engines_close(&worker, true);
    free(jobs);
    batch_time(batch, COUNT_WORKERS_US, start);
    return NULL;
}
