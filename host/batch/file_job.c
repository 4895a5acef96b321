#include "file_job.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEPT_FLOATS = 16 << 20 }; /* of an output in memory; a longer one is convolved twice */

static void job_fail(struct file_job *job, const char *why)
{
    if (!job->failed) batch_fail(job->batch, job->row, why);
    job->failed = true;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static bool open_input(struct file_job *job, char *why, size_t cap)
{
    struct batch *batch = job->batch;
    const struct manifest_row *row = job->row;
    if (!batch_output_path(batch, row, job->path, sizeof job->path))
        return message_write(why, cap, "%.60s...: the name is too long; give a shorter output or folder", row->output);
    if (!sound_in_open(&job->in, row->input, NULL, why, cap)) return false;
    job->n_in = job->in.n_channels;
    job->mask = mask_cache_take(&batch->cache, row->mask, job->n_in, job->in.rate, why, cap);
    if (!job->mask) return false;
    const hc_responses *responses = &job->mask->responses;
    job->n_out = responses->n_out;
    job->n_taps = routes_taps(responses->routes, responses->n_routes);
    job->range = output_range_make(row->tail, job->n_taps);
    job->kept_stride = job->in.n_frames + job->n_taps;
    if (row->level != LEVEL_NONE)
        job->stage = job->in.n_frames < 0 || job->kept_stride * job->n_out > KEPT_FLOATS ? JOB_MEASURES : JOB_KEEPS;
    return true;
}

bool file_job_open(struct file_job *job, struct batch *batch, const struct manifest_row *row)
{
    char why[MESSAGE_CAP];
    *job = (struct file_job){
        .batch = batch, .row = row, .end = INT64_MAX, .writer = {.out = &job->out, .gain = (float)row->gain}};
    if (open_input(job, why, sizeof why)) return true;
    job_fail(job, why);
    file_job_close(job);
    return false;
}

/* Counts the work up to this share of the row's work. */
static void count_work(struct file_job *job, double share)
{
    int64_t more = (int64_t)(share * (double)batch_row_work(job->batch, job->row)) - job->work_counted;
    job->work_counted += more;
    batch_count(job->batch, COUNT_WORK_DONE, more);
    batch_count(job->batch, COUNT_WORK_LEFT, -more);
}

void file_job_close(struct file_job *job)
{
    count_work(job, 1);
    sound_in_close(&job->in);
    sound_out_abandon(&job->out);
    mask_cache_give_back(&job->batch->cache, job->mask);
    free(job->kept);
    job->mask = NULL;
    job->kept = NULL;
}

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* a failure shows when the file is opened */
        *slash = '/';
    }
}

void file_job_open_output(struct file_job *job)
{
    char why[MESSAGE_CAP];
    if (strchr(job->row->output, '/')) make_folders(job->path);
    if (!file_open_output(&job->out, job->path, job->batch->format, &job->in, job->n_out, job->range, why, sizeof why))
        job_fail(job, why);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

bool file_job_is_busy(const struct file_job *job)
{
    return !job->failed && job->n_convolved < job->end;
}

int64_t file_job_needs(const struct file_job *job, int block)
{
    if (job->failed || job->n_queued >= job->end) return 0;
    return job->end - job->n_queued > block ? block : job->end - job->n_queued;
}

static void loudness_add(struct loudness *loudness, const float *x, int64_t n)
{
    float peak = 0;
    double squares = 0;
    for (int64_t done = 0; done < n;) { /* short sums in floats: the compiler vectorises them */
        int64_t end = done + 1024 < n ? done + 1024 : n;
        float sum = 0;
        for (; done < end; done++) {
            float size = fabsf(x[done]);
            peak = size > peak ? size : peak;
            sum += x[done] * x[done];
        }
        squares += (double)sum;
    }
    if ((double)peak > loudness->peak) loudness->peak = (double)peak;
    loudness->sum += squares;
    loudness->n += n;
}

/* An engine does not check what lies in its own memory. */
static void clear_non_finite(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = fabsf(x[i]) <= FLT_MAX ? x[i] : 0;
}

int64_t file_job_read(struct file_job *job, float *planar, int64_t stride, int n)
{
    char why[MESSAGE_CAP];
    if (job->at_end || job->failed) return 0;
    int64_t got = file_read(&job->in, FILE_NEXT, planar, (size_t)stride, n, why, sizeof why);
    if (got < 0) {
        job_fail(job, why);
        return 0;
    }
    job->at_end = got < n;
    job->n_read += got;
    if (job->at_end && job->end == INT64_MAX) job->end = output_range_end(job->range, job->n_read);
    for (int ch = 0; ch < job->n_in; ch++) {
        if (job->in.kind == SAMPLE_FLOAT) clear_non_finite(planar + ch * stride, got);
        if (job->stage != JOB_WRITES) loudness_add(&job->loudness_in, planar + ch * stride, got);
    }
    return got;
}

static void write_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    char why[MESSAGE_CAP];
    if (job->failed || file_write(&job->writer, planar, (size_t)stride, n, why, sizeof why)) return;
    job_fail(job, why);
    if (!sample_peak_overflows(&job->writer.seen)) batch_stop(job->batch, why); /* a full disk fails all files */
}

static void keep_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    int64_t n_kept = job->loudness_out.n / job->n_out;
    if (!job->kept) job->kept = malloc((size_t)job->n_out * (size_t)job->kept_stride * sizeof *job->kept);
    if (!job->kept || n_kept + n > job->kept_stride) {
        job_fail(job, "no memory to match the level of an output; use fewer --workers");
        return;
    }
    for (int ch = 0; ch < job->n_out; ch++)
        memcpy(job->kept + ch * job->kept_stride + n_kept, planar + ch * stride, (size_t)n * sizeof *planar);
}

void file_job_take(struct file_job *job, const float *planar, int64_t stride, int n)
{
    int from, n_cut = output_range_cut(job->range, job->end, job->n_convolved, n, &from);
    job->n_convolved += n;
    int64_t end =
        job->end < INT64_MAX || job->in.n_frames < 0 ? job->end : output_range_end(job->range, job->in.n_frames);
    double share = job->n_convolved < end ? (double)job->n_convolved / (double)end : 1;
    count_work(job, job->stage == JOB_MEASURES ? share / 2 : job->is_second ? (1 + share) / 2 : share);
    if (n_cut == 0 || job->failed) return;
    planar += from;
    if (job->stage == JOB_WRITES) {
        write_frames(job, planar, stride, n_cut);
        return;
    }
    if (job->stage == JOB_KEEPS) keep_frames(job, planar, stride, n_cut);
    for (int ch = 0; ch < job->n_out; ch++) loudness_add(&job->loudness_out, planar + ch * stride, n_cut);
}

/* ---- the end ------------------------------------------------------------------------------------ */

static double level_of(const struct loudness *loudness, enum level level)
{
    return level == LEVEL_RMS ? sqrt(loudness->sum / (double)loudness->n) : loudness->peak;
}

/* The gain that gives the output the level of the input; silence stays as it is. */
static double level_gain(const struct file_job *job)
{
    double in = level_of(&job->loudness_in, job->row->level), out = level_of(&job->loudness_out, job->row->level);
    return in > 0 && out > 0 && isfinite(in / out) ? in / out : 1;
}

/* Back to the start of the input. */
static void rewind_input(struct file_job *job)
{
    char why[MESSAGE_CAP];
    sound_in_close(&job->in);
    if (!sound_in_open(&job->in, job->row->input, NULL, why, sizeof why)) job_fail(job, why);
    job->n_read = job->n_queued = job->n_convolved = 0;
    job->at_end = false;
    job->is_second = true;
}

bool file_job_match_level(struct file_job *job)
{
    enum job_stage stage = job->stage;
    if (job->failed || stage == JOB_WRITES) return false;
    if (!isfinite(job->loudness_in.sum) || !isfinite(job->loudness_out.sum)) {
        char why[MESSAGE_CAP];
        file_too_loud(job->path, why, sizeof why);
        job_fail(job, why);
        return false;
    }
    job->writer.gain = (float)(job->row->gain * level_gain(job));
    job->stage = JOB_WRITES;
    if (stage == JOB_MEASURES) rewind_input(job);
    if (job->kept) write_frames(job, job->kept, job->kept_stride, job->loudness_out.n / job->n_out);
    return stage == JOB_MEASURES && !job->failed;
}

void file_job_commit(struct file_job *job)
{
    struct batch *batch = job->batch;
    const struct sample_peak *seen = &job->writer.seen;
    char why[MESSAGE_CAP];
    if (job->failed) return;
    if (!sound_out_commit(&job->out, why, sizeof why)) {
        job_fail(job, why);
        batch_stop(batch, why);
        return;
    }
    if (!journal_add(&batch->journal, journal_hash(job->row, batch->settings), job->out.end, job->row->output, why,
                     sizeof why))
        batch_stop(batch, why);
    batch_count(batch, COUNT_DONE, 1);
    batch_count(batch, COUNT_FRAMES_IN, job->n_read);
    batch_count(batch, COUNT_FRAMES_OUT, job->out.written);
    batch_count(batch, COUNT_SOUND_US, job->n_read * 1000000 / job->in.rate);
    if (job->out.bits == 0 || seen->clipped == 0) return; /* floats are not limited */
    batch_count(batch, COUNT_CLIPPED_SAMPLES, (int64_t)seen->clipped);
    batch_count(batch, COUNT_CLIPPED_FILES, 1);
}
