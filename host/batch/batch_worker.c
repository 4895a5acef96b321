/* batch_worker - one thread of a batch: opens the files of a piece, groups those that fit one engine, runs them through
 * it side by side, levels and writes them. */
#include "batch_run.h"

#include "dsp/haloconv_files.h"
#include "host/files/sample.h"
#include "host/files/sound_format.h"
#include "host/files/sound_in.h"
#include "host/files/sound_out.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    RAW_BYTES = 1 << 17,     /* a read or a write: stays in the second-level cache */
    KEEP_FLOATS = 16 << 20,  /* of an output whose level is not known yet; a longer one is convolved twice */
    AHEAD = 2,               /* blocks that an engine has, so that it works on one while files are read or written */
};

struct bay { /* an engine, for lanes of one shape */
    hc_engine *engine;
    hc_info info;
    int n_lanes, n_in, n_out, rate, taps; /* channels of a lane; taps: class of the masks' length */
    int ahead, n_under_way;               /* blocks: at most, and now */
    int64_t n_fed;                        /* since the last reset; their audio is in the engine's own memory */
    hc_mask *mask;
    uint64_t serials[BATCH_PIECE];        /* of the masks in it, by lane; 0 = none */
    uint64_t used;
};

struct lane { /* one file on its way */
    const struct job *job;
    struct sound_in in;
    struct sound_out out;
    struct shelf_mask *mask;
    bool in_open, out_open, failed, at_end, measure_only;
    char path[PATH_MAX];
    int n_taps;
    int64_t skip, end;     /* frames of the convolution: the first that is written, the first that is not; end: -1 = not
                              known yet */
    int64_t fed, asked, produced; /* frames read; of the convolution: given to the engine, and back from it */
    double in_peak, in_sum, out_peak, out_sum; /* sums of squares */
    int64_t out_samples;
    double gain;           /* of the output, once its level is known */
    float *kept;           /* [n_out][kept_stride]: the output, where its level is to be matched */
    int64_t kept_stride;
    struct sample_peak seen;
};

struct worker {
    struct batch *batch;
    char backend[32];
    struct bay bays[BATCH_ENGINES];
    uint64_t clock;
    char *raw; /* [RAW_BYTES], or a frame if that is larger */
    float *loud; /* as many samples at the gain of their lane */
    size_t raw_bytes;
};

/* ---- engines ------------------------------------------------------------------------------------ */

/* Four sizes an octave: masks of about one length share an engine. A function of the mask alone, so that what comes out
 * does not depend on what was played before. */
static int taps_class(int n_taps)
{
    int quarter = 16;
    while (quarter < 1 << 28 && 8 * quarter < n_taps) quarter *= 2;
    return (n_taps + quarter - 1) / quarter * quarter;
}

static void bay_close(struct bay *bay)
{
    hc_close(bay->engine);
    *bay = (struct bay){0};
}

static bool bay_open(struct worker *worker, struct bay *bay, char *why, size_t cap)
{
    hc_config config;
    hc_config_init(&config);
    config.rate = bay->rate;
    config.block = HC_BLOCK_FILES;
    config.n_in = bay->n_lanes * bay->n_in;
    config.n_out = bay->n_lanes * bay->n_out;
    config.max_taps = bay->taps;
    config.fade_frames = HC_NO_FADE;
    config.backend = worker->backend;
    config.method = worker->batch->method;
    config.n_threads = worker->batch->n_threads;
    config.wait_us = -1; /* a file has no deadline */
    config.flight = AHEAD;
    if (hc_open(&config, &bay->engine, why, cap) != HC_OK) {
        bay->engine = NULL;
        return false;
    }
    bay->info.size = sizeof bay->info;
    hc_get_info(bay->engine, &bay->info);
    bay->ahead = bay->info.flight < AHEAD ? bay->info.flight : AHEAD;
    return true;
}

static int lanes_of(const struct worker *worker, const struct lane *lane)
{
    if (strncmp(worker->backend, "cuda", 4) != 0) return 1;
    int n_in = lane->in.n_channels, n_out = lane->mask->responses.n_out;
    int n = BATCH_CHANNELS / (n_in > n_out ? n_in : n_out), most = (int)worker->batch->most;
    return n < 1 ? 1 : n > most ? most : n;
}

static bool fits(const struct bay *bay, const struct lane *lane)
{
    return bay->engine && bay->n_in == lane->in.n_channels && bay->n_out == lane->mask->responses.n_out &&
           bay->rate == lane->in.rate && bay->taps == taps_class(lane->n_taps);
}

/* The engine for a lane's shape; the one that was not used for longest makes room. NULL: batch_stop has the reason. */
static struct bay *bay_for(struct worker *worker, const struct lane *lane)
{
    struct bay *bay = &worker->bays[0];
    for (int i = 0; i < BATCH_ENGINES; i++) {
        if (fits(&worker->bays[i], lane)) {
            worker->bays[i].used = ++worker->clock;
            return &worker->bays[i];
        }
        if (worker->bays[i].used < bay->used) bay = &worker->bays[i];
    }
    bay_close(bay);
    *bay = (struct bay){.n_lanes = lanes_of(worker, lane),
                        .n_in = lane->in.n_channels,
                        .rate = lane->in.rate,
                        .n_out = lane->mask->responses.n_out,
                        .taps = taps_class(lane->n_taps),
                        .used = ++worker->clock};
    char why[MESSAGE_CAP];
    if (bay_open(worker, bay, why, sizeof why)) return bay;
    bay_close(bay);
    batch_stop(worker->batch, why);
    return NULL;
}

/* The lanes' masks into the engine, unless they are there. */
static bool bay_set_masks(struct worker *worker, struct bay *bay, struct lane *const *lanes, int n)
{
    uint64_t serials[BATCH_PIECE] = {0};
    int n_routes = 0;
    for (int i = 0; i < n; i++) {
        serials[i] = lanes[i]->mask->serial;
        n_routes += lanes[i]->mask->responses.n_routes;
    }
    hc_reset(bay->engine); /* nothing is under way then */
    if (bay->mask && memcmp(serials, bay->serials, sizeof serials) == 0) return true;
    hc_mask_free(bay->engine, bay->mask);
    bay->mask = NULL;
    hc_route *routes = calloc((size_t)n_routes, sizeof *routes), *route = routes;
    if (!routes) {
        batch_stop(worker->batch, "no memory for routes; use fewer --workers");
        return false;
    }
    for (int i = 0; i < n; i++)
        for (int r = 0; r < lanes[i]->mask->responses.n_routes; r++, route++) {
            *route = lanes[i]->mask->responses.routes[r];
            route->in += i * bay->n_in;
            route->out += i * bay->n_out;
        }
    char why[MESSAGE_CAP];
    int rc = hc_mask_make(bay->engine, routes, n_routes, &bay->mask, why, sizeof why);
    free(routes);
    if (rc != HC_OK) {
        batch_stop(worker->batch, why);
        return false;
    }
    memcpy(bay->serials, serials, sizeof serials);
    hc_mask_swap(bay->engine, bay->mask);
    return true;
}

/* ---- lanes -------------------------------------------------------------------------------------- */

static void lane_fail(struct worker *worker, struct lane *lane, const char *why)
{
    if (!lane->failed) batch_fail(worker->batch, lane->job, why);
    lane->failed = true;
}

static void lane_is_too_loud(struct worker *worker, struct lane *lane)
{
    char why[MESSAGE_CAP];
    message_write(why, sizeof why, "%s: beyond the range of a float; use a lower gain, or a quieter mask or input",
                  lane->path);
    lane_fail(worker, lane, why);
}

static void lane_close(struct worker *worker, struct lane *lane)
{
    if (lane->in_open) sound_in_close(&lane->in);
    if (lane->out_open) sound_out_abandon(&lane->out);
    mask_shelf_give_back(&worker->batch->shelf, lane->mask);
    free(lane->kept);
    lane->in_open = lane->out_open = false;
    lane->mask = NULL;
    lane->kept = NULL;
}

static void set_end(struct lane *lane, int64_t n_frames)
{
    lane->end = lane->skip + n_frames + tail_extra(lane->job->tail, lane->n_taps);
}

/* The input, its mask, and what range of the convolution is written. */
static bool lane_open(struct worker *worker, struct lane *lane, const struct job *job)
{
    struct batch *batch = worker->batch;
    char why[MESSAGE_CAP];
    *lane = (struct lane){.job = job, .end = -1, .gain = job->gain};
    if (snprintf(lane->path, sizeof lane->path, "%s/%s", batch->folder, job->output) >= (int)sizeof lane->path) {
        message_write(why, sizeof why, "%.60s...: the name is too long; give a shorter output or folder", job->output);
        lane_fail(worker, lane, why);
        return false;
    }
    lane->in_open = sound_in_open(&lane->in, job->input, NULL, why, sizeof why);
    if (lane->in_open)
        lane->mask = mask_shelf_take(&batch->shelf, job->mask, lane->in.n_channels, lane->in.rate, why, sizeof why);
    if (!lane->mask) {
        lane_fail(worker, lane, why);
        lane_close(worker, lane);
        return false;
    }
    lane->n_taps = tail_taps(lane->mask->responses.routes, lane->mask->responses.n_routes);
    lane->skip = tail_skip(job->tail, lane->n_taps);
    int64_t floats = (lane->in.n_frames + lane->n_taps) * lane->mask->responses.n_out;
    lane->measure_only = job->level != LEVEL_NONE && (lane->in.n_frames < 0 || floats > KEEP_FLOATS);
    return true;
}

static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* that it cannot be made is seen when the file is */
        *slash = '/';
    }
    return true;
}

static bool open_output(struct worker *worker, struct lane *lane)
{
    char why[MESSAGE_CAP];
    int n_out = lane->mask->responses.n_out;
    int format = sound_format_choose(worker->batch->format, lane->path, lane->in.format, lane->in.rate, n_out, why,
                                     sizeof why);
    int64_t n_frames = lane->in.n_frames;
    if (n_frames >= 0) n_frames += tail_extra(lane->job->tail, lane->n_taps);
    if (strchr(lane->job->output, '/')) make_folders(lane->path);
    lane->out_open = format && sound_out_open(&lane->out, lane->path, format, lane->in.rate, n_out, n_frames,
                                              lane->in.strings, why, sizeof why);
    if (!lane->out_open) lane_fail(worker, lane, why);
    return lane->out_open;
}

static void look(const float *x, int64_t n, double *peak, double *sum)
{
    float most = 0;
    double squares = 0;
    for (int64_t done = 0; done < n;) { /* a part of the sum in floats: it vectorises, and is short */
        int64_t end = done + 1024 < n ? done + 1024 : n;
        float part = 0;
        for (; done < end; done++) {
            float size = fabsf(x[done]);
            most = size > most ? size : most;
            part += x[done] * x[done];
        }
        squares += (double)part;
    }
    if ((double)most > *peak) *peak = (double)most;
    *sum += squares;
}

/* An engine that is given its own memory takes every number in it for one. */
static void clear_non_finite(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = fabsf(x[i]) <= FLT_MAX ? x[i] : 0;
}

/* n frames, or fewer at the end, from the file to planar[n_in][stride]: how many. */
static int64_t lane_read(struct worker *worker, struct lane *lane, float *planar, int64_t stride, int64_t n)
{
    int n_in = lane->in.n_channels;
    size_t frame_bytes = sample_bytes(lane->in.kind) * (size_t)n_in;
    int64_t got = 0, step = (int64_t)(worker->raw_bytes / frame_bytes);
    char why[MESSAGE_CAP];
    while (got < n && !lane->at_end && !lane->failed) {
        int64_t want = n - got < step ? n - got : step;
        int64_t read = sound_in_read(&lane->in, worker->raw, want, why, sizeof why);
        if (read < 0) lane_fail(worker, lane, why);
        if (read <= 0 || lane->failed) read = 0;
        lane->at_end = read < want;
        sample_split(lane->in.kind, worker->raw, n_in, (size_t)read, planar + got, (size_t)stride);
        got += read;
    }
    lane->fed += got;
    if (lane->at_end && lane->end < 0) set_end(lane, lane->fed);
    for (int ch = 0; ch < n_in; ch++) {
        float *row = planar + ch * stride;
        if (lane->in.kind == SAMPLE_FLOAT) clear_non_finite(row, got);
        if (lane->job->level != LEVEL_NONE) look(row, got, &lane->in_peak, &lane->in_sum);
    }
    return got;
}

/* Frames of planar[n_out][stride] to the file, at the lane's gain. */
static void lane_write(struct worker *worker, struct lane *lane, const float *planar, int64_t stride, int64_t n)
{
    int n_out = lane->mask->responses.n_out;
    size_t frame_bytes = sample_bytes(lane->out.kind) * (size_t)n_out;
    int64_t step = (int64_t)(worker->raw_bytes / frame_bytes);
    char why[MESSAGE_CAP];
    float gain = (float)lane->gain;
    for (int64_t done = 0; done < n && !lane->failed; done += step) {
        int64_t some = n - done < step ? n - done : step;
        for (int ch = 0; ch < n_out && gain != 1.0f; ch++)
            for (int64_t i = 0; i < some; i++) worker->loud[ch * some + i] = planar[ch * stride + done + i] * gain;
        sample_join(lane->out.kind, lane->out.bits, gain != 1.0f ? worker->loud : planar + done,
                    (size_t)(gain != 1.0f ? some : stride), n_out, (size_t)some, worker->raw, &lane->seen);
        if (sample_peak_overflows(&lane->seen)) {
            lane_is_too_loud(worker, lane);
        } else if (!sound_out_write(&lane->out, worker->raw, some, why, sizeof why)) {
            lane_fail(worker, lane, why);
            batch_stop(worker->batch, why); /* a full disk would fail all that follow */
        }
    }
}

static bool keep(struct worker *worker, struct lane *lane, const float *planar, int64_t stride, int64_t n)
{
    int n_out = lane->mask->responses.n_out;
    if (!lane->kept) {
        lane->kept_stride = lane->in.n_frames + lane->n_taps;
        lane->kept = malloc((size_t)n_out * (size_t)lane->kept_stride * sizeof *lane->kept);
    }
    if (!lane->kept || lane->out_samples / n_out + n > lane->kept_stride) {
        lane_fail(worker, lane, "no memory to match the level of an output; use fewer --workers");
        return false;
    }
    for (int ch = 0; ch < n_out; ch++)
        memcpy(lane->kept + ch * lane->kept_stride + lane->out_samples / n_out, planar + ch * stride,
               (size_t)n * sizeof *planar);
    return true;
}

/* What the engine made of n frames: measured, kept or written. */
static void lane_take(struct worker *worker, struct lane *lane, const float *planar, int64_t stride, int64_t n,
                      bool final)
{
    int64_t end = lane->end < 0 ? INT64_MAX : lane->end;
    int64_t from = lane->skip > lane->produced ? lane->skip - lane->produced : 0;
    int64_t to = end - lane->produced < n ? end - lane->produced : n;
    lane->produced += n;
    if (from >= to || lane->failed) return;
    int n_out = lane->mask->responses.n_out;
    if (final || lane->job->level == LEVEL_NONE) {
        lane_write(worker, lane, planar + from, stride, to - from);
    } else {
        for (int ch = 0; ch < n_out; ch++)
            look(planar + ch * stride + from, to - from, &lane->out_peak, &lane->out_sum);
        if (!lane->measure_only && !keep(worker, lane, planar + from, stride, to - from)) return;
    }
    lane->out_samples += (to - from) * n_out;
}

/* The gain that gives the output the input's peak, or its mean power; silence stays as it is. */
static void find_gain(struct worker *worker, struct lane *lane)
{
    if (!isfinite(lane->in_sum) || !isfinite(lane->out_sum)) lane_is_too_loud(worker, lane);
    double in = lane->in_peak, out = lane->out_peak;
    if (lane->job->level == LEVEL_RMS) {
        in = sqrt(lane->in_sum / (double)(lane->fed * lane->in.n_channels));
        out = sqrt(lane->out_sum / (double)lane->out_samples);
    }
    lane->gain = lane->job->gain * (in > 0 && out > 0 && isfinite(in / out) ? in / out : 1);
}

/* ---- a stack of lanes through an engine --------------------------------------------------------- */

/* Is there more to come out of this lane, or to go in? Zeros that bring its end count too. */
static bool is_busy(const struct lane *lane)
{
    return !lane->failed && (lane->end < 0 || lane->produced < lane->end);
}

static bool is_hungry(const struct lane *lane)
{
    return !lane->failed && (lane->end < 0 || lane->asked < lane->end);
}

static int64_t frames_needed(const struct lane *lane, int block)
{
    if (!is_hungry(lane)) return 0;
    return lane->end < 0 || lane->end - lane->asked > block ? block : lane->end - lane->asked;
}

static bool bay_failed(struct worker *worker, struct bay *bay)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(bay->engine, &info);
    batch_stop(worker->batch, info.error[0] ? info.error : "the engine stopped; use --backend cpu");
    return false;
}

/* The next block of all lanes, into the engine's memory and on its way, unless no lane needs one. The last is as long
 * as the longest lane needs, in whole partitions. */
static bool feed_block(struct worker *worker, struct bay *bay, struct lane *const *lanes, int n)
{
    int block = bay->info.block, unit = bay->info.n_partitions > 0 ? bay->info.partition : 1;
    int64_t need = 0, got[BATCH_PIECE] = {0};
    void *room;
    if (hc_room(bay->engine, bay->n_fed, &room, NULL) != HC_OK) return bay_failed(worker, bay);
    float *ins = room; /* [n_lanes * n_in][block] */
    for (int i = 0; i < n; i++) {
        if (is_hungry(lanes[i]))
            got[i] = lane_read(worker, lanes[i], ins + (size_t)(i * bay->n_in) * (size_t)block, block, block);
        int64_t frames = frames_needed(lanes[i], block);
        if (frames > need) need = frames;
    }
    if (need == 0) return true; /* the last lanes have failed */
    int call = (int)((need + unit - 1) / unit * unit);
    if (call > block) call = block;
    for (int ch = 0; ch < bay->n_lanes * bay->n_in; ch++) { /* zeros behind what was read */
        int64_t from = got[ch / bay->n_in];
        if (from < call) memset(ins + (size_t)ch * (size_t)block + from, 0, (size_t)(call - from) * sizeof *ins);
    }
    if (hc_submit(bay->engine, NULL, call) != HC_OK) return bay_failed(worker, bay);
    for (int i = 0; i < n; i++) lanes[i]->asked += call;
    bay->n_under_way++;
    bay->n_fed++;
    return true;
}

static bool take_block(struct worker *worker, struct bay *bay, struct lane *const *lanes, int n, bool final)
{
    const void *room;
    size_t block = (size_t)bay->info.block;
    int call = hc_collect(bay->engine, NULL);
    if (call < 0 || hc_room(bay->engine, bay->n_fed - bay->n_under_way, NULL, &room) != HC_OK)
        return bay_failed(worker, bay);
    const float *outs = room; /* [n_lanes * n_out][block] */
    bay->n_under_way--;
    for (int i = 0; i < n; i++)
        if (is_busy(lanes[i]))
            lane_take(worker, lanes[i], outs + (size_t)(i * bay->n_out) * block, bay->info.block, call, final);
    return true;
}

/* All lanes to their ends. */
static bool play(struct worker *worker, struct bay *bay, struct lane *const *lanes, int n, bool final)
{
    bay->n_under_way = 0;
    bay->n_fed = 0;
    for (;;) {
        bool hungry = false;
        for (int i = 0; i < n; i++) hungry |= is_hungry(lanes[i]);
        if (!hungry && bay->n_under_way == 0) return true;
        bool feed = hungry && bay->n_under_way < bay->ahead;
        if (!(feed ? feed_block(worker, bay, lanes, n) : take_block(worker, bay, lanes, n, final))) return false;
    }
}

static bool rewind_lane(struct worker *worker, struct lane *lane)
{
    char why[MESSAGE_CAP];
    sound_in_close(&lane->in);
    lane->in_open = sound_in_open(&lane->in, lane->job->input, NULL, why, sizeof why);
    if (!lane->in_open) lane_fail(worker, lane, why);
    lane->fed = lane->asked = lane->produced = lane->out_samples = 0;
    lane->at_end = false;
    return lane->in_open;
}

/* The outputs that wait for their level: from memory, or by convolving once more. */
static bool finish_levels(struct worker *worker, struct bay *bay, struct lane *const *lanes, int n)
{
    bool again = false;
    for (int i = 0; i < n; i++) {
        struct lane *lane = lanes[i];
        if (lane->failed || lane->job->level == LEVEL_NONE) continue;
        find_gain(worker, lane);
        if (lane->failed) continue;
        if (lane->measure_only)
            again |= rewind_lane(worker, lane);
        else if (lane->kept)
            lane_write(worker, lane, lane->kept, lane->kept_stride,
                       lane->out_samples / lane->mask->responses.n_out);
    }
    if (!again) return true;
    hc_reset(bay->engine);
    return play(worker, bay, lanes, n, true); /* lanes that are at their end are not busy */
}

static void commit(struct worker *worker, struct lane *lane)
{
    struct batch *batch = worker->batch;
    char why[MESSAGE_CAP];
    if (lane->failed) return;
    if (!sound_out_commit(&lane->out, why, sizeof why)) {
        lane_fail(worker, lane, why);
        batch_stop(batch, why);
        return;
    }
    lane->out_open = false;
    if (!journal_add(&batch->journal, journal_hash(lane->job, batch->settings), lane->job->output, why, sizeof why))
        batch_stop(batch, why);
    atomic_fetch_add(&batch->n_done, 1);
    atomic_fetch_add(&batch->frames_in, lane->fed);
    atomic_fetch_add(&batch->frames_out, lane->out.written);
    atomic_fetch_add(&batch->sound_us, lane->fed * 1000000 / lane->in.rate);
    bool clips = lane->out.bits > 0 && lane->seen.clipped > 0;
    if (clips) atomic_fetch_add(&batch->clipped_samples, (int_fast64_t)lane->seen.clipped);
    if (clips) atomic_fetch_add(&batch->clipped_files, 1);
}

/* Lanes of one shape, at most as many as the bay has. */
static void run_stack(struct worker *worker, struct lane *const *lanes, int n)
{
    struct bay *bay = bay_for(worker, lanes[0]);
    if (!bay) return;
    for (int i = 0; i < n; i++) open_output(worker, lanes[i]);
    if (!bay_set_masks(worker, bay, lanes, n) || !play(worker, bay, lanes, n, false) ||
        !finish_levels(worker, bay, lanes, n))
        return;
    for (int i = 0; i < n; i++) commit(worker, lanes[i]);
}

static bool same_shape(const struct lane *a, const struct lane *b)
{
    return a->in.n_channels == b->in.n_channels && a->in.rate == b->in.rate &&
           a->mask->responses.n_out == b->mask->responses.n_out && taps_class(a->n_taps) == taps_class(b->n_taps);
}

/* Every open lane exactly once, in stacks of one shape. */
static void run_lanes(struct worker *worker, struct lane *lanes, int n)
{
    bool done[BATCH_PIECE] = {false};
    for (int i = 0; i < n; i++) {
        if (done[i] || atomic_load(&worker->batch->stopped)) continue;
        struct lane *stack[BATCH_PIECE];
        int n_stack = 0, most = lanes_of(worker, &lanes[i]);
        for (int j = i; j < n && n_stack < most; j++)
            if (!done[j] && same_shape(&lanes[i], &lanes[j])) {
                stack[n_stack++] = &lanes[j];
                done[j] = true;
            }
        run_stack(worker, stack, n_stack);
    }
}

/* ---- pieces ------------------------------------------------------------------------------------- */

static bool is_done(struct batch *batch, const struct job *job)
{
    char path[PATH_MAX];
    struct stat status;
    if (!journal_has(&batch->journal, journal_hash(job, batch->settings))) return false;
    snprintf(path, sizeof path, "%s/%s", batch->folder, job->output);
    if (stat(path, &status) != 0 || status.st_size == 0) return false;
    atomic_fetch_add(&batch->n_resumed, 1);
    return true;
}

static void run_piece(struct worker *worker, size_t piece, struct lane *lanes)
{
    struct batch *batch = worker->batch;
    bool side_by_side = strncmp(worker->backend, "cuda", 4) == 0;
    int n = 0;
    for (size_t i = batch->pieces[piece]; i < batch->pieces[piece + 1] && !atomic_load(&batch->stopped); i++) {
        if (is_done(batch, batch->order[i])) continue;
        if (lane_open(worker, &lanes[n], batch->order[i])) n++;
        if (n > 0 && !side_by_side) {
            run_lanes(worker, lanes, n);
            lane_close(worker, &lanes[--n]);
        }
    }
    run_lanes(worker, lanes, n);
    while (n > 0) lane_close(worker, &lanes[--n]);
}

/* A GPU of the machine for this worker: those of one process and the processes of one machine are spread. */
static void choose_backend(struct worker *worker, int number)
{
    const struct batch *batch = worker->batch;
    if (strcmp(batch->backend, "cuda") == 0 && batch->n_devices > 1)
        snprintf(worker->backend, sizeof worker->backend, "cuda:%d", (number + batch->ranks.local) % batch->n_devices);
    else
        snprintf(worker->backend, sizeof worker->backend, "%s", batch->backend);
}

void *batch_worker(void *data)
{
    const struct batch_worker_seat *seat = data;
    struct batch *batch = seat->batch;
    struct worker worker = {.batch = batch, .raw_bytes = RAW_BYTES};
    struct lane *lanes = calloc(BATCH_PIECE, sizeof *lanes);
    worker.raw = malloc(worker.raw_bytes);
    worker.loud = malloc(worker.raw_bytes / 2 * sizeof *worker.loud); /* a sample has two bytes at least */
    choose_backend(&worker, seat->number);
    if (!lanes || !worker.raw || !worker.loud) batch_stop(batch, "no memory for a worker; use fewer --workers");
    while (!atomic_load(&batch->stopped)) {
        int64_t piece = ranks_next(&batch->ranks) * batch->n_shards + batch->shard;
        if (piece >= (int64_t)batch->n_pieces) break;
        run_piece(&worker, (size_t)piece, lanes);
    }
    for (int i = 0; i < BATCH_ENGINES; i++) {
        if (worker.bays[i].engine) {
            pthread_mutex_lock(&batch->lock);
            memcpy(batch->device, worker.bays[i].info.device, sizeof batch->device);
            pthread_mutex_unlock(&batch->lock);
        }
        bay_close(&worker.bays[i]);
    }
    free(worker.loud);
    free(worker.raw);
    free(lanes);
    return NULL;
}
