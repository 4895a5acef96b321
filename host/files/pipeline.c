#include "pipeline.h"

#include "dsp/base/processors.h"
#include "host/message.h"
#include "host/stopwatch.h"
#include "sample.h"
#include "sound_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_FLOATS = 1 << 19, /* a block of an engine for files has 2^19 to 2^20 samples */
    RING_BYTES = 8 << 20,   /* bytes of a side's blocks of the pipeline: they stay in the cache */
    MIN_BLOCKS = 3,         /* of the pipeline's own ring; an engine for files has hc_info.queue_depth blocks */
    MAX_BLOCKS = 32,
    ALIGNMENT = 64,
};

static const char no_threads[] = "the threads that read and write cannot be started; close some programs";

struct pipeline_block {
    enum { EMPTY, IN_USE, FULL, DONE } stage; /* IN_USE: by one reader, the caller's thread or one writer */
    void *in;                                 /* [n_in][block] floats, or [block][n_in] samples as in the file */
    const void *out;                          /* [n_out][block] floats, or [block][n_out] samples */
    float *own_in, *own_out;                  /* in and out, owned; NULL: the engine's memory */
    int64_t i;                                /* number of the block in the stream */
    int from, n;                              /* frames of the output that are written */
};

/* ---- the ring ----------------------------------------------------------------------------------- */

/* The first failure is reported; later failures follow from it. */
static void pipeline_fail(struct pipeline *p, const char *why)
{
    pthread_mutex_lock(&p->lock);
    if (!p->failed) snprintf(p->why, sizeof p->why, "%s", why);
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static bool has_failed(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    bool failed = p->failed;
    pthread_mutex_unlock(&p->lock);
    return failed;
}

static struct pipeline_block *block_at(const struct pipeline *p, int64_t i)
{
    return &p->blocks[i % p->n_blocks];
}

static void set_stage(struct pipeline *p, struct pipeline_block *block, int stage)
{
    pthread_mutex_lock(&p->lock);
    block->stage = stage;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* ---- readers ------------------------------------------------------------------------------------ */

/* Can several readers read a block each? Then the length of the input is known. */
static bool reads_anywhere(const struct pipeline *p)
{
    return sound_in_can_read_at(p->in) && !p->match && (p->raw_in || sound_format_is_native(p->in->plain));
}

static struct pipeline_block *dequeue_empty(struct pipeline *p)
{
    struct pipeline_block *block = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->failed && p->to_read < p->n_blocks_in && block_at(p, p->to_read)->stage != EMPTY)
        pthread_cond_wait(&p->changed, &p->lock);
    if (!p->failed && p->to_read < p->n_blocks_in) {
        block = block_at(p, p->to_read);
        block->stage = IN_USE;
        block->i = p->to_read++;
    }
    pthread_mutex_unlock(&p->lock);
    return block;
}

/* Returns the frames read; fewer than a block only at the end. -1: why has the reason. */
static int64_t block_read(struct pipeline *p, struct pipeline_block *block, char *why, size_t cap)
{
    const int64_t first = reads_anywhere(p) ? block->i * p->block : FILE_NEXT;
    if (!p->raw_in) return file_read(p->in, first, block->in, (size_t)p->block, p->block, why, cap);
    if (first == FILE_NEXT) return sound_in_read_plain(p->in, block->in, p->block, why, cap);
    return sound_in_read_at(p->in, first, block->in, p->block, why, cap);
}

/* Writes zeros behind the last frame. */
static void clear_from(const struct pipeline *p, struct pipeline_block *block, int64_t from)
{
    size_t n = (size_t)(p->block - from);
    if (p->raw_in) {
        size_t frame_bytes = (size_t)sound_format_frame_bytes(p->in->format, p->in->n_channels);
        memset((char *)block->in + (size_t)from * frame_bytes, 0, n * frame_bytes);
        return;
    }
    for (int ch = 0; ch < p->in->n_channels; ch++)
        memset((float *)block->in + (size_t)ch * (size_t)p->block + from, 0, n * sizeof(float));
}

static void *reader(void *data)
{
    struct pipeline *p = data;
    struct pipeline_block *block;
    char why[MESSAGE_CAP];
    while ((block = dequeue_empty(p))) {
        double start = stopwatch_now();
        int64_t n = block_read(p, block, why, sizeof why);
        if (n < 0) {
            pipeline_fail(p, why);
            break;
        }
        for (int ch = 0; p->match && ch < p->in->n_channels; ch++)
            level_meter_add(&p->match->in, (float *)block->in + (size_t)ch * (size_t)p->block, n);
        clear_from(p, block, n);
        double seconds = stopwatch_now() - start;
        pthread_mutex_lock(&p->lock);
        p->read_s += seconds;
        if (n < p->block && p->n_blocks_in == INT64_MAX) {
            p->n_blocks_in = block->i + 1;
            p->n_frames_in = block->i * p->block + n;
        }
        pthread_mutex_unlock(&p->lock);
        set_stage(p, block, FULL);
    }
    return NULL;
}

/* ---- writers ------------------------------------------------------------------------------------ */

/* The first writer writes all blocks until its first write shows whether the output can be mapped. */
static struct pipeline_block *dequeue_done(struct pipeline *p, bool first_writer)
{
    struct pipeline_block *block = NULL;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        bool may_write = first_writer || p->mapping == OUTPUT_MAPPED;
        if (p->failed || p->to_write >= p->n_blocks_out || (!first_writer && p->mapping == OUTPUT_NOT_MAPPED)) break;
        if (may_write && p->n_blocks && block_at(p, p->to_write)->stage == DONE) {
            block = block_at(p, p->to_write++);
            block->stage = IN_USE;
            break;
        }
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return block;
}

static bool block_write(struct pipeline_writer *writer, const struct pipeline_block *block, char *why, size_t cap)
{
    struct pipeline *p = writer->pipeline;
    if (p->match)
        return level_match_keep(p->match, (const float *)block->out + block->from, (size_t)p->block, p->out->n_channels,
                                block->n, p->out->path, why, cap);
    const int64_t first = block->i * p->block + block->from - p->range.skip;
    const bool mapped = p->mapping == OUTPUT_MAPPED;
    if (!p->raw_out)
        return file_write(&writer->file, mapped ? first : FILE_NEXT, (const float *)block->out + block->from,
                          (size_t)p->block, block->n, why, cap);
    const size_t frame_bytes = (size_t)sound_format_frame_bytes(p->out->format, p->out->n_channels);
    const char *raw = (const char *)block->out + (size_t)block->from * frame_bytes;
    double start = stopwatch_now();
    bool good = mapped ? sound_out_put(p->out, first, raw, block->n, why, cap)
                       : sound_out_write_plain(p->out, raw, block->n, why, cap);
    writer->file.write_s += stopwatch_now() - start;
    return good;
}

/* Called after the first write, which sets the offset of the frames. */
static void map_output(struct pipeline *p)
{
    bool mapped = p->may_map && sound_out_map(p->out);
    pthread_mutex_lock(&p->lock);
    p->mapping = mapped ? OUTPUT_MAPPED : OUTPUT_NOT_MAPPED;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void *writer_run(void *data)
{
    struct pipeline_writer *writer = data;
    struct pipeline *p = writer->pipeline;
    struct pipeline_block *block;
    char why[MESSAGE_CAP];
    bool is_first = writer == &p->writers[0];
    double start = stopwatch_now();
    bool good = !is_first || sound_out_reserve(p->out, why, sizeof why);
    writer->file.write_s += stopwatch_now() - start;
    while (good && (block = dequeue_done(p, is_first))) {
        good = block->n == 0 || block_write(writer, block, why, sizeof why);
        if (!good) break;
        if (is_first && p->mapping == MAPPING_UNKNOWN && block->n > 0) map_output(p);
        set_stage(p, block, EMPTY);
    }
    if (!good) pipeline_fail(p, why);
    return NULL;
}

/* ---- set-up ------------------------------------------------------------------------------------- */

/* Returns the threads of a side: half the processors, because the convolution needs some too. */
static int threads_a_side(void)
{
    int n = processors_usable() / 2;
    return n < 2 ? 2 : n > PIPELINE_THREADS ? PIPELINE_THREADS : n;
}

/* The first thread of a side is needed; the others only add speed. */
static bool start_readers(struct pipeline *p, int n)
{
    for (; p->n_readers < n; p->n_readers++)
        if (pthread_create(&p->readers[p->n_readers], NULL, reader, p) != 0) break;
    if (p->n_readers == 0) pipeline_fail(p, no_threads);
    return p->n_readers > 0;
}

static bool start_writers(struct pipeline *p, int n)
{
    for (; p->n_writers < n; p->n_writers++) {
        struct pipeline_writer *writer = &p->writers[p->n_writers];
        *writer = (struct pipeline_writer){.pipeline = p, .file = {.out = p->out, .gain = 1}};
        if (pthread_create(&writer->thread, NULL, writer_run, writer) != 0) break;
    }
    if (p->n_writers == 0) pipeline_fail(p, no_threads);
    return p->n_writers > 0;
}

bool pipeline_start(struct pipeline *p, struct sound_in *in, struct sound_out *out, struct output_range range,
                    struct level_match *match)
{
    *p = (struct pipeline){
        .in = in, .out = out, .range = range, .match = match, .n_blocks_in = INT64_MAX, .n_blocks_out = INT64_MAX};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    return start_writers(p, 1);
}

/* Reading and writing a block takes ten times as long as a GPU needs for it. So the queue holds nearly as many blocks
 * as the threads of both sides (each block adds 2 ms to the opening of a GPU's engine), but no more than a short file
 * fills. */
int pipeline_queue_depth(const struct sound_in *in, int n_out, int n_taps)
{
    double n_frames = in->n_frames < 0 ? INFINITY : (double)in->n_frames + n_taps;
    double floats = n_frames * (in->n_channels > n_out ? in->n_channels : n_out);
    const int max = PIPELINE_THREADS * 3 / 2;
    return floats > (double)BLOCK_FLOATS * max ? max : (int)(floats / BLOCK_FLOATS) + 1;
}

static float *planar_make(int n_channels, int block)
{
    size_t bytes = (size_t)n_channels * (size_t)block * sizeof(float);
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static bool blocks_make(struct pipeline *p, hc_engine *engine, const hc_info *info)
{
    int n_in = p->in->n_channels, n_out = p->out->n_channels;
    int64_t widest = n_in > n_out ? n_in : n_out, n = RING_BYTES / (widest * info->block * (int64_t)sizeof(float));
    n = n < MIN_BLOCKS ? MIN_BLOCKS : n > MAX_BLOCKS ? MAX_BLOCKS : n;
    if (info->queue_depth > 0) n = info->queue_depth;
    struct pipeline_block *blocks = calloc((size_t)n, sizeof *blocks);
    bool good = blocks != NULL;
    for (int i = 0; i < n && good; i++) {
        struct pipeline_block *block = &blocks[i];
        if (info->queue_depth > 0) {
            hc_block_buffers(engine, i, &block->in, &block->out);
        } else {
            block->in = block->own_in = planar_make(n_in, info->block);
            block->out = block->own_out = planar_make(n_out, info->block);
        }
        good = block->in && block->out;
    }
    pthread_mutex_lock(&p->lock);
    p->blocks = blocks;
    p->n_blocks = blocks ? (int)n : 0;
    p->block = info->block;
    pthread_mutex_unlock(&p->lock);
    if (!good) pipeline_fail(p, "no memory for the blocks of audio; use a smaller --block");
    return good;
}

static bool is_on_device(const hc_info *info)
{
    return strcmp(info->backend, "cpu") != 0;
}

/* Allocates the blocks and starts all threads: both need the engine's block size. */
static bool start_threads(struct pipeline *p, hc_engine *engine, const hc_info *info)
{
    p->raw_in = info->in_samples != HC_PLANAR;
    p->raw_out = info->out_samples != HC_PLANAR;
    p->may_map = p->raw_out || (is_on_device(info) && !p->match && sound_out_is_plain(p->out));
    if (!blocks_make(p, engine, info)) return false;
    bool anywhere = reads_anywhere(p);
    if (anywhere) {
        p->n_frames_in = p->in->n_frames;
        p->n_blocks_in = (p->n_frames_in + p->block - 1) / p->block;
    }
    return start_readers(p, anywhere ? threads_a_side() : 1) && start_writers(p, p->may_map ? threads_a_side() : 1);
}

static void join_readers(struct pipeline *p)
{
    while (p->n_readers > 0) pthread_join(p->readers[--p->n_readers], NULL);
}

/* Adds up what the writers saw. */
static void join_writers(struct pipeline *p)
{
    while (p->n_writers > 0) {
        struct pipeline_writer *writer = &p->writers[--p->n_writers];
        pthread_join(writer->thread, NULL);
        p->seen.clipped += writer->file.seen.clipped;
        if (writer->file.seen.peak_bits > p->seen.peak_bits) p->seen.peak_bits = writer->file.seen.peak_bits;
        p->encode_s += writer->file.encode_s;
        p->write_s += writer->file.write_s;
    }
}

void pipeline_finish(struct pipeline *p)
{
    pipeline_fail(p, "stopped"); /* after a success no thread is left to read it */
    join_readers(p);
    join_writers(p);
    for (int i = 0; i < p->n_blocks; i++) {
        free(p->blocks[i].own_in);
        free(p->blocks[i].own_out);
    }
    free(p->blocks);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

/* ---- the caller's thread ------------------------------------------------------------------------ */

static bool engine_failed(struct pipeline *p, hc_engine *engine)
{
    char why[MESSAGE_CAP];
    file_engine_failed(engine, why, sizeof why);
    pipeline_fail(p, why);
    return false;
}

struct feed { /* the position of the caller's thread in the stream */
    struct pipeline *pipeline;
    hc_engine *engine; /* NULL: there is a renderer */
    const struct pipeline_renderer *renderer;
    bool has_queue;            /* hc_submit and hc_collect in the engine's memory; else hc_process or the renderer */
    int max_queued;            /* blocks; 1: each is finished at once, as on the CPU, which convolves in hc_submit */
    int64_t n_started, n_done; /* blocks */
    int64_t end;               /* output_range_end; INT64_MAX = not known yet */
    const float **ins;         /* [n_in] */
    float **outs;              /* [n_out] */
};

/* Waits for the next block to convolve; behind the end of the input, an empty block (is_zero). NULL: no block is ready
 * now, or, with may_wait, the range is complete. */
static struct pipeline_block *dequeue_full(struct feed *feed, bool may_wait, bool *is_zero)
{
    struct pipeline *p = feed->pipeline;
    struct pipeline_block *block = block_at(p, feed->n_started), *found = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->failed) {
        *is_zero = feed->n_started >= p->n_blocks_in;
        bool is_known = p->n_blocks_in < INT64_MAX;
        if (is_known) feed->end = output_range_end(p->range, p->n_frames_in);
        if (is_known && feed->n_started * p->block >= feed->end) break;
        if (block->stage == (*is_zero ? EMPTY : FULL)) {
            found = block;
            found->stage = IN_USE;
            found->i = feed->n_started;
            break;
        }
        if (!may_wait) break;
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

static void point_at(struct feed *feed, const struct pipeline_block *block)
{
    struct pipeline *p = feed->pipeline;
    for (int ch = 0; ch < p->in->n_channels; ch++) feed->ins[ch] = block->own_in + (size_t)ch * (size_t)p->block;
    for (int ch = 0; ch < p->out->n_channels; ch++) feed->outs[ch] = block->own_out + (size_t)ch * (size_t)p->block;
}

/* Returns the frames of block i that the range needs: the last block may be short. */
static int frames_needed(const struct feed *feed, int64_t i)
{
    int64_t left = feed->end - i * feed->pipeline->block;
    return left < feed->pipeline->block ? (int)left : feed->pipeline->block;
}

static bool start_block(struct feed *feed, struct pipeline_block *block, bool is_zero)
{
    struct pipeline *p = feed->pipeline;
    if (is_zero) clear_from(p, block, 0);
    feed->n_started++;
    if (!feed->has_queue) return true; /* block_finish convolves it */
    if (feed->end < INT64_MAX) hc_count_set(feed->engine, p->range.skip, feed->end);
    int n = feed->max_queued == 1 ? frames_needed(feed, block->i) : p->block;
    double start = stopwatch_now();
    int rc = hc_submit(feed->engine, NULL, n);
    p->process_s += stopwatch_now() - start;
    return rc == HC_OK || engine_failed(p, feed->engine);
}

/* Convolves a block, or waits for the block that the engine convolves. */
static bool convolve_block(struct feed *feed, const struct pipeline_block *block, int n)
{
    struct pipeline *p = feed->pipeline;
    const struct pipeline_renderer *renderer = feed->renderer;
    char why[MESSAGE_CAP];
    if (feed->has_queue) return hc_collect(feed->engine, NULL) >= 0 || engine_failed(p, feed->engine);
    point_at(feed, block);
    if (renderer) {
        if (renderer->render(renderer->data, feed->ins, feed->outs, n, why, sizeof why)) return true;
        pipeline_fail(p, why);
        return false;
    }
    return hc_process(feed->engine, feed->ins, feed->outs, n) >= 0 || engine_failed(p, feed->engine);
}

static bool block_finish(struct feed *feed)
{
    struct pipeline *p = feed->pipeline;
    struct pipeline_block *block = block_at(p, feed->n_done);
    int n = frames_needed(feed, feed->n_done);
    double start = stopwatch_now();
    bool good = convolve_block(feed, block, n);
    p->process_s += stopwatch_now() - start;
    if (!good) return false;
    block->n = output_range_cut(p->range, feed->end, feed->n_done++ * p->block, p->block, &block->from);
    set_stage(p, block, DONE);
    return true;
}

/* Convolves whole blocks until every frame of the range is done. It starts blocks as long as the engine's queue has
 * space, and waits for the oldest block when no block can be started. */
static bool feed_all(struct feed *feed, struct progress *progress)
{
    struct pipeline *p = feed->pipeline;
    for (;;) {
        int64_t n_queued = feed->n_started - feed->n_done;
        bool is_zero;
        struct pipeline_block *block = n_queued < feed->max_queued ? dequeue_full(feed, n_queued == 0, &is_zero) : NULL;
        if (block) {
            if (!start_block(feed, block, is_zero)) return false;
        } else if (n_queued > 0) {
            if (!block_finish(feed)) return false;
            progress_report(progress, feed->n_done * p->block);
        } else {
            return !has_failed(p);
        }
    }
}

/* Returns when every block is in the file. */
static void end_writing(struct feed *feed)
{
    struct pipeline *p = feed->pipeline;
    char why[MESSAGE_CAP];
    pthread_mutex_lock(&p->lock);
    p->n_blocks_out = feed->n_done;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    join_writers(p);
    if (!has_failed(p) && p->mapping == OUTPUT_MAPPED &&
        !sound_out_claim(p->out, feed->end - p->range.skip, why, sizeof why))
        pipeline_fail(p, why);
}

/* Reads the peak and the clipped samples of an output that the device encoded. Refuses an output that overflowed:
 * hc_process has replaced such samples by 0, or the device has not. */
static void read_engine_counts(struct pipeline *p, hc_engine *engine)
{
    hc_info info = {.size = sizeof info};
    char why[MESSAGE_CAP];
    hc_get_info(engine, &info);
    if (p->raw_out) {
        p->seen.clipped = info.clipped;
        memcpy(&p->seen.peak_bits, &info.peak, sizeof p->seen.peak_bits);
    }
    if (!info.overflowed && !sample_peak_overflows(&p->seen)) return;
    file_too_loud(p->out->path, why, sizeof why);
    pipeline_fail(p, why);
}

static bool pipeline_convolve(struct pipeline *p, hc_engine *engine, const struct pipeline_renderer *renderer,
                              const hc_info *info, struct progress *progress)
{
    if (!start_threads(p, engine, info)) return false;
    const float **ins = calloc((size_t)p->in->n_channels, sizeof *ins);
    float **outs = calloc((size_t)p->out->n_channels, sizeof *outs);
    struct feed feed = {.pipeline = p,
                        .engine = engine,
                        .renderer = renderer,
                        .has_queue = info->queue_depth > 0,
                        .max_queued = info->queue_depth > 0 && is_on_device(info) ? info->queue_depth : 1,
                        .end = INT64_MAX,
                        .ins = ins,
                        .outs = outs};
    if (engine && p->range.skip > 0) hc_count_set(engine, p->range.skip, INT64_MAX);
    if (ins && outs)
        feed_all(&feed, progress);
    else
        pipeline_fail(p, "no memory for the blocks of audio; use a smaller --block");
    free(ins);
    free(outs);
    if (has_failed(p)) return false;
    end_writing(&feed);
    if (engine) read_engine_counts(p, engine);
    return !has_failed(p);
}

bool pipeline_run(struct pipeline *p, hc_engine *engine, struct progress *progress)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    return pipeline_convolve(p, engine, NULL, &info, progress);
}

bool pipeline_render(struct pipeline *p, const struct pipeline_renderer *renderer, struct progress *progress)
{
    const hc_info info = {.block = renderer->block,
                          .in_samples = HC_PLANAR,
                          .out_samples = HC_PLANAR,
                          .backend = renderer->is_device ? "cuda" : "cpu"};
    return pipeline_convolve(p, NULL, renderer, &info, progress);
}
