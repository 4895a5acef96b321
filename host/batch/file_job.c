#include "file_job.h"

#include "batch_report.h"
#include "draw.h"
#include "host/files/level_match.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "scene_file_job.h"
#include "tar_source.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- noise ------------------------------------------------------------------------------------ */

bool noise_open(struct batch_noise *noise, struct cache *masks, const char *path, int rate, int n_channels, char *why,
                size_t cap)
{
    const struct batch_mask_key key = {.rate = rate, .early_ms = INFINITY};
    noise->file = cache_get(masks, path, &key, why, cap);
    noise->n_channels = n_channels;
    if (!noise->file) return false;
    int n_noise = noise->file->responses.n_channels;
    if (n_noise == 0) return message_write(why, cap, "%s: is a configuration; give a noise as a sound file", path);
    if (n_noise == 1 || n_noise == n_channels) return true;
    return message_write(why, cap,
                         "%s: a noise of %d channels does not fit %d output channels; give a noise of 1 or %d channels",
                         path, n_noise, n_channels, n_channels);
}

/* Finds the frames until the noise repeats: *at = their first frame in the noise. Returns their number, at most n. */
static int64_t run_at(const struct batch_noise *noise, int64_t first, int64_t n, int64_t *at)
{
    int64_t n_noise = noise->file->responses.n_frames;
    *at = (noise->start + first) % n_noise;
    return n_noise - *at < n ? n_noise - *at : n;
}

bool noise_fit(struct batch_noise *noise, const struct manifest_row *row, int64_t n_frames, double power, char *why,
               size_t cap)
{
    const hc_responses *file = &noise->file->responses;
    int64_t starts = file->n_frames > n_frames ? file->n_frames - n_frames + 1 : file->n_frames, run, at;
    struct level_meter meter = {0};
    noise->start = (int64_t)(draw_number(row->seed, DRAW_NOISE_START) % (uint64_t)starts);
    for (int64_t done = 0; done < n_frames; done += run) {
        run = run_at(noise, done, n_frames - done, &at);
        for (int ch = 0; ch < file->n_channels; ch++) level_meter_add(&meter, file->channel[ch] + at, run);
    }
    if (!(power > 0))
        return message_write(why, cap, "%s: is silent after the convolution, and has no SNR; leave its noise out",
                             row->input);
    if (!(meter.sum > 0))
        return message_write(why, cap, "%s: is silent for %.3g s from %.6g s on; choose another noise or seed",
                             row->noise, (double)n_frames / noise->file->key.rate,
                             (double)noise->start / noise->file->key.rate);
    noise->gain = sqrt(power / (meter.sum / (double)meter.n)) * pow(10, -row->snr_db / 20);
    return true;
}

void noise_add(const struct batch_noise *noise, int64_t first, float *planar, int64_t stride, int64_t n)
{
    const hc_responses *file = &noise->file->responses;
    const float gain = (float)noise->gain;
    int64_t run, at;
    for (int64_t done = 0; done < n; done += run) {
        run = run_at(noise, first + done, n - done, &at);
        for (int ch = 0; ch < noise->n_channels; ch++) {
            const float *from = file->channel[file->n_channels > 1 ? ch : 0] + at;
            float *to = planar + ch * stride + done;
            for (int64_t i = 0; i < run; i++) to[i] += gain * from[i];
        }
    }
}

void noise_close(struct batch_noise *noise, struct cache *masks)
{
    if (noise->file) cache_release(masks, &noise->file->entry);
    *noise = (struct batch_noise){0};
}

/* ---- the job ---------------------------------------------------------------------------------- */

enum { KEPT_FLOATS = 16 << 20 }; /* output kept in memory; a longer output is convolved twice */

static void job_fail(struct file_job *job, const char *why)
{
    if (!job->failed) batch_fail(job->batch, job->row, why);
    job->failed = true;
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* Opens the input of the row, cut to start and length. Every input is opened here. */
static bool open_sound(struct file_job *job, char *why, size_t cap)
{
    const struct manifest_row *row = job->row;
    const struct tar_member *member = row->tar ? &row->tar->input->members[row->member] : NULL;
    if (member && !tar_source_open(row->tar, why, cap)) return false;
    bool good =
        member ? sound_in_open_inside(&job->in, row->input, row->tar->content, member->from, member->bytes, why, cap)
               : sound_in_open(&job->in, row->input, NULL, why, cap);
    if (good && job->in.inside.header.is_unclosed) message_note("%s: " SOUND_UNCLOSED, row->input);
    if (!good || (row->start_s == 0 && isinf(row->length_s))) return good;
    double first = round(row->start_s * job->in.rate), n = fmax(round(row->length_s * job->in.rate), 1);
    return sound_in_cut(&job->in, (int64_t)first, n < 1e18 ? (int64_t)n : INT64_MAX, why, cap);
}

/* Gets the mask of the row from the cache. */
static bool open_mask(struct file_job *job, char *why, size_t cap)
{
    const struct manifest_row *row = job->row;
    const struct batch_mask_key key = {job->n_in, job->in.rate, row->align, row->early_ms};
    job->mask = cache_get(&job->batch->masks, row->mask, &key, why, cap);
    if (!job->mask) return false;
    const hc_responses *responses = &job->mask->responses;
    job->n_out = responses->n_out;
    job->n_taps = routes_taps(responses->routes, responses->n_routes);
    return true;
}

static bool open_input(struct file_job *job, const char *backend, char *why, size_t cap)
{
    struct batch *batch = job->batch;
    const struct manifest_row *row = job->row;
    if (!batch_output_path(batch, row, job->path, sizeof job->path))
        return message_write(why, cap, "%.60s...: the name is too long; give a shorter output or folder", row->output);
    double start = stopwatch_now();
    if (!open_sound(job, why, cap)) return false;
    start = batch_time(batch, COUNT_READ_US, start);
    job->n_in = job->in.n_channels;
    if (!(row->path ? scene_file_job_open(job, backend, why, cap) : open_mask(job, why, cap))) return false;
    const int n_frames = job->mask ? job->mask->n_frames : job->n_taps;
    job->range = output_range_make(row->tail, n_frames);
    job->kept_stride = job->in.n_frames + n_frames;
    if (row->level != LEVEL_NONE || row->noise)
        job->stage = job->in.n_frames < 0 || job->kept_stride * job->n_out > KEPT_FLOATS ? JOB_MEASURES : JOB_KEEPS;
    job->n_passes = 1 + (job->stage == JOB_MEASURES) * ((row->level != LEVEL_NONE) + (row->noise != NULL));
    bool good = !row->noise || noise_open(&job->noise, &batch->masks, row->noise, job->in.rate, job->n_out, why, cap);
    batch_time(batch, COUNT_MASKS_US, start);
    return good;
}

bool file_job_open(struct file_job *job, struct batch *batch, const struct manifest_row *row, const char *backend)
{
    char why[MESSAGE_CAP];
    *job = (struct file_job){.batch = batch,
                             .row = row,
                             .content = -1,
                             .end = INT64_MAX,
                             .level_gain = 1,
                             .writer = {.out = &job->out, .gain = (float)row->gain}};
    if (open_input(job, backend, why, sizeof why)) return true;
    job_fail(job, why);
    file_job_close(job);
    return false;
}

/* Counts the row's work up to a share of 0 to 1. */
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
    if (job->mask) cache_release(&job->batch->masks, &job->mask->entry);
    scene_file_job_close(job);
    noise_close(&job->noise, &job->batch->masks);
    free(job->kept);
    free(job->mixed);
    if (job->content >= 0) close(job->content);
    if (job->row->tar && job->failed) tar_job_leave_out(job);
    if (job->row->tar) tar_source_row_finished(job->row->tar);
    job->content = -1;
    job->mask = NULL;
    job->kept = job->mixed = NULL;
}

/* Does the link lead to a place inside the folder? */
static bool link_stays_inside(const char *link, const char *folder)
{
    char *target = realpath(link, NULL), *top = realpath(folder, NULL);
    size_t n = top ? strlen(top) : 0;
    bool is_inside = target && top && strncmp(target, top, n) == 0 && (target[n] == '/' || n == 1);
    free(target);
    free(top);
    return is_inside;
}

bool file_job_make_folders(const struct batch *batch, char *path, char *why, size_t cap)
{
    const char *folder = batch->settings->folder;
    char *slash = path + strlen(folder);
    struct stat status;
    while (slash) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = 0;
        bool is_there = lstat(path, &status) == 0;
        bool good = !is_there || !S_ISLNK(status.st_mode) || link_stays_inside(path, folder) ||
                    message_write(why, cap, "%s: is a link that leads out of %s; remove it, or choose another output",
                                  path, folder);
        if (good && stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
            good = message_write(why, cap, "%s: is not a regular file; remove it, or choose another output", path);
        if (slash && !is_there) mkdir(path, 0777); /* a failure shows when the file is opened */
        if (slash) *slash = '/';
        if (!good) return false;
    }
    return true;
}

void file_job_open_output(struct file_job *job)
{
    const struct batch_settings *s = job->batch->settings;
    char why[MESSAGE_CAP] = "too many open files; raise ulimit -n, or use fewer --workers";
    int fd = -1;
    if (!job->row->tar && !file_job_make_folders(job->batch, job->path, why, sizeof why)) {
        job_fail(job, why);
        return;
    }
    if (job->row->tar && (!tar_job_open(job, why, sizeof why) || (job->content = tar_sound_open(why, sizeof why)) < 0 ||
                          (fd = fcntl(job->content, F_DUPFD_CLOEXEC, 3)) < 0)) {
        batch_stop(job->batch, why);
        job_fail(job, why);
        return;
    }
    const char *path = job->row->tar ? job->row->output : job->path;
    if (!file_open_output(&job->out, fd, path, s->format, s->dither, &job->in, job->n_out, job->range, why, sizeof why))
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
    for (int ch = 0; ch < job->n_in && job->stage != JOB_WRITES; ch++)
        level_meter_add(&job->level_in, planar + ch * stride, got);
    return got;
}

static void job_write_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    char why[MESSAGE_CAP];
    if (job->failed || file_write(&job->writer, FILE_NEXT, planar, (size_t)stride, n, why, sizeof why)) return;
    job_fail(job, why);
    if (!sample_peak_overflows(&job->writer.seen)) batch_stop(job->batch, why); /* a full disk fails all files */
}

static void job_keep_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    int64_t n_kept = job->level_out.n / job->n_out;
    if (!job->kept) job->kept = malloc((size_t)job->n_out * (size_t)job->kept_stride * sizeof *job->kept);
    if (!job->kept || n_kept + n > job->kept_stride) {
        job_fail(job, "no memory to keep an output for its level or noise; use fewer --workers");
        return;
    }
    for (int ch = 0; ch < job->n_out; ch++)
        memcpy(job->kept + ch * job->kept_stride + n_kept, planar + ch * stride, (size_t)n * sizeof *planar);
}

static void use_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    if (job->stage == JOB_WRITES) {
        job_write_frames(job, planar, stride, n);
        return;
    }
    if (job->stage == JOB_KEEPS) job_keep_frames(job, planar, stride, n);
    for (int ch = 0; ch < job->n_out; ch++) level_meter_add(&job->level_out, planar + ch * stride, n);
}

/* Adds the noise in a separate buffer: the memory of the engine is read-only here. */
static void mix_frames(struct file_job *job, const float *planar, int64_t stride, int64_t n)
{
    if (!job->mixed) job->mixed = malloc((size_t)job->n_out * MIXED_FRAMES * sizeof *job->mixed);
    if (!job->mixed) job_fail(job, "no memory to add noise to an output; use fewer --workers");
    for (int64_t done = 0, some; done < n && !job->failed; done += some) {
        some = n - done < MIXED_FRAMES ? n - done : MIXED_FRAMES;
        for (int ch = 0; ch < job->n_out; ch++)
            memcpy(job->mixed + (size_t)ch * MIXED_FRAMES, planar + ch * stride + done, (size_t)some * sizeof *planar);
        noise_add(&job->noise, job->n_accepted + done, job->mixed, MIXED_FRAMES, some);
        use_frames(job, job->mixed, MIXED_FRAMES, some);
    }
}

void file_job_accept(struct file_job *job, const float *planar, int64_t stride, int n)
{
    int from, n_cut = output_range_cut(job->range, job->end, job->n_convolved, n, &from);
    job->n_convolved += n;
    int64_t end =
        job->end < INT64_MAX || job->in.n_frames < 0 ? job->end : output_range_end(job->range, job->in.n_frames);
    double share = job->n_convolved < end ? (double)job->n_convolved / (double)end : 1;
    count_work(job, (job->pass + share) / job->n_passes);
    if (n_cut == 0 || job->failed) return;
    if (job->noise.gain > 0)
        mix_frames(job, planar + from, stride, n_cut);
    else
        use_frames(job, planar + from, stride, n_cut);
    job->n_accepted += n_cut;
}

/* ---- passes ------------------------------------------------------------------------------------- */

/* Returns to the start of the input. */
static void rewind_input(struct file_job *job)
{
    char why[MESSAGE_CAP];
    sound_in_close(&job->in);
    if (!open_sound(job, why, sizeof why)) job_fail(job, why);
    job->n_read = job->n_queued = job->n_convolved = job->n_accepted = 0;
    job->at_end = false;
    job->pass++;
}

static bool is_too_loud(struct file_job *job)
{
    char why[MESSAGE_CAP];
    if (isfinite(job->level_in.sum) && isfinite(job->level_out.sum)) return false;
    file_too_loud(job->path, why, sizeof why);
    job_fail(job, why);
    return true;
}

/* Finds the gain of the noise, and adds the noise to the kept output. */
static void fit_noise(struct file_job *job)
{
    const struct level_meter found = job->level_out;
    int64_t n_frames = found.n / job->n_out;
    char why[MESSAGE_CAP];
    if (!noise_fit(&job->noise, job->row, n_frames, found.sum / (double)found.n, why, sizeof why)) {
        job_fail(job, why);
        return;
    }
    if (!job->kept) return;
    noise_add(&job->noise, 0, job->kept, job->kept_stride, n_frames);
    job->level_out = (struct level_meter){0};
    for (int ch = 0; ch < job->n_out; ch++)
        level_meter_add(&job->level_out, job->kept + ch * job->kept_stride, n_frames);
}

bool file_job_next_pass(struct file_job *job)
{
    enum job_stage stage = job->stage;
    if (job->failed || stage == JOB_WRITES || is_too_loud(job)) return false;
    bool fits = job->row->noise && job->noise.gain == 0;
    if (fits) fit_noise(job);
    if (job->failed || is_too_loud(job)) return false;
    if (fits && stage == JOB_MEASURES && job->row->level != LEVEL_NONE) { /* the level of the sum is unknown */
        job->level_in = job->level_out = (struct level_meter){0};
    } else {
        enum level level = job->row->level;
        job->level_gain = level == LEVEL_NONE ? 1 : level_meter_gain(&job->level_in, &job->level_out, level);
        job->writer.gain = (float)(job->row->gain * job->level_gain);
        job->stage = JOB_WRITES;
    }
    if (stage == JOB_MEASURES) rewind_input(job);
    if (job->kept) job_write_frames(job, job->kept, job->kept_stride, job->level_out.n / job->n_out);
    return stage == JOB_MEASURES && !job->failed;
}

/* ---- the end ------------------------------------------------------------------------------------ */

void file_job_enter(struct batch *batch, const struct manifest_row *row, int64_t bytes, char *figures)
{
    char why[MESSAGE_CAP] = "the journal: no memory for a line; free some memory";
    struct journal_entry entry = {.hash = journal_hash(row, batch->hashed), .bytes = bytes, .figures = figures};
    memcpy(entry.states, batch->plan.states[row - batch->manifest->rows], sizeof entry.states);
    if (!figures || !journal_add(&batch->journal, entry, row->output, why, sizeof why)) batch_stop(batch, why);
    free(figures);
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
    int64_t non_finite = (int64_t)job->in.non_finite;
    if (non_finite)
        message_note("%s: replaced %lld NaN or infinite sample%s of the input by 0", job->row->input,
                     (long long)non_finite, message_s(non_finite));
    bool is_clipped = job->out.bits > 0 && seen->clipped > 0; /* floats are not limited */
    const int64_t counts[N_COUNTS] = {
        [COUNT_DONE] = 1,
        [COUNT_FRAMES_IN] = job->n_read,
        [COUNT_FRAMES_OUT] = job->out.written,
        [COUNT_SOUND_US] = job->n_read * 1000000 / job->in.rate,
        [COUNT_CLIPPED_SAMPLES] = is_clipped ? (int64_t)seen->clipped : 0,
        [COUNT_CLIPPED_FILES] = is_clipped,
    };
    if (job->row->tar)
        tar_job_put(job, figures_of(job), counts);
    else
        file_job_enter(batch, job->row, job->out.end, figures_of(job));
    for (int c = 0; c < N_COUNTS; c++) batch_count(batch, c, counts[c]);
}
