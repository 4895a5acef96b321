#include "pipeline.h"

#include "message.h"
#include "sample.h"
#include "stopwatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 17,    /* a read or a write: stays in the second-level cache, and is few system calls */
    QUEUE_BYTES = 8 << 20,    /* blocks on their way, on each side of the engine: a few at least, ... */
    MIN_BLOCKS = 3,
    MAX_BLOCKS = 32, /* ... and not so many that they leave the cache */
    N_RAW_CHUNKS = 8,
    ALIGNMENT = 64,
};

struct raw_chunk {
    struct raw_chunk *next;
    int64_t n, used; /* frames in it, and how many of them were taken */
    char data[];
};

struct in_block {
    float *planar; /* [n_in][block] */
    int n;         /* frames of the input; the rest is zeros */
    bool last;
};

struct out_block {
    float *planar; /* [n_out][block] */
    int from, n;   /* the frames that are written */
};

/* ---- failure ------------------------------------------------------------------------------------ */

/* The first failure is the one that is told; the others follow from it. */
static void give_up(struct pipeline *pipeline, const char *why)
{
    struct block_queue *const queues[] = {&pipeline->in_free,  &pipeline->in_full,  &pipeline->out_free,
                                          &pipeline->out_full, &pipeline->raw_free, &pipeline->raw_full};
    pthread_mutex_lock(&pipeline->lock);
    if (!pipeline->failed) snprintf(pipeline->why, sizeof pipeline->why, "%s", why);
    pipeline->failed = true;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) block_queue_stop(queues[i]);
}

static bool has_failed(struct pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    bool failed = pipeline->failed;
    pthread_mutex_unlock(&pipeline->lock);
    return failed;
}

/* ---- the reader --------------------------------------------------------------------------------- */

static size_t in_frame_bytes(const struct pipeline *pipeline)
{
    return sample_bytes(pipeline->in->kind) * (size_t)pipeline->in->n_channels;
}

static int64_t chunk_frames(size_t frame_bytes)
{
    int64_t n = (int64_t)(CHUNK_BYTES / frame_bytes);
    return n > 0 ? n : 1;
}

static struct raw_chunk *chunk_make(int64_t n_frames, size_t frame_bytes)
{
    return calloc(1, sizeof(struct raw_chunk) + (size_t)n_frames * frame_bytes);
}

/* Fill a chunk; *end when nothing comes behind it. */
static bool read_chunk(struct pipeline *pipeline, struct raw_chunk *chunk, bool *end)
{
    char why[MESSAGE_CAP];
    int64_t frames = chunk_frames(in_frame_bytes(pipeline));
    double start = stopwatch_now();
    int64_t n = sound_in_read(pipeline->in, chunk->data, frames, why, sizeof why);
    pipeline->read_s += stopwatch_now() - start;
    if (n < 0) {
        give_up(pipeline, why);
        return false;
    }
    chunk->n = n;
    chunk->used = 0;
    *end = n < frames;
    return true;
}

static int block_size(struct pipeline *pipeline, bool wait)
{
    pthread_mutex_lock(&pipeline->lock);
    while (wait && !pipeline->block && !pipeline->failed) pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    int block = pipeline->failed ? -1 : pipeline->block;
    pthread_mutex_unlock(&pipeline->lock);
    return block;
}

/* Read on while there is no engine. Returns the engine's block; -1 after a failure. */
static int read_ahead(struct pipeline *pipeline, bool *end)
{
    size_t frame_bytes = in_frame_bytes(pipeline);
    int64_t bytes = 0, chunk_bytes = chunk_frames(frame_bytes) * (int64_t)frame_bytes;
    for (;;) {
        int block = block_size(pipeline, *end || bytes + chunk_bytes > pipeline->backlog_bytes);
        if (block) return block;
        struct raw_chunk *chunk = chunk_make(chunk_frames(frame_bytes), frame_bytes);
        if (!chunk) {
            give_up(pipeline, "no memory to read the input; free some");
            return -1;
        }
        *pipeline->backlog_end = chunk;
        pipeline->backlog_end = &chunk->next;
        bytes += chunk_bytes;
        if (!read_chunk(pipeline, chunk, end)) return -1;
    }
}

static void backlog_drop_first(struct pipeline *pipeline)
{
    struct raw_chunk *first = pipeline->backlog;
    pipeline->backlog = first->next;
    if (!pipeline->backlog) pipeline->backlog_end = &pipeline->backlog;
    free(first);
}

/* Fill a block from the backlog, then from the file. false: the input failed. */
static bool fill_block(struct pipeline *pipeline, struct in_block *block, int size, struct raw_chunk *scratch,
                       bool *end)
{
    size_t frame_bytes = in_frame_bytes(pipeline);
    block->n = 0;
    block->last = false;
    while (block->n < size) {
        struct raw_chunk *chunk = pipeline->backlog ? pipeline->backlog : scratch;
        if (chunk->used < chunk->n) {
            int64_t left = chunk->n - chunk->used;
            int n = left < size - block->n ? (int)left : size - block->n;
            double start = stopwatch_now();
            sample_split(pipeline->in->kind, chunk->data + (size_t)chunk->used * frame_bytes, pipeline->in->n_channels,
                         (size_t)n, block->planar + block->n, (size_t)size);
            pipeline->read_s += stopwatch_now() - start;
            chunk->used += n;
            block->n += n;
        } else if (pipeline->backlog) {
            backlog_drop_first(pipeline);
        } else if (*end) {
            block->last = true;
            break;
        } else if (!read_chunk(pipeline, scratch, end)) {
            return false;
        }
    }
    for (int ch = 0; ch < pipeline->in->n_channels; ch++)
        memset(block->planar + (size_t)ch * (size_t)size + block->n, 0, (size_t)(size - block->n) * sizeof(float));
    return true;
}

static void *reader(void *data)
{
    struct pipeline *pipeline = data;
    bool end = false;
    int size = read_ahead(pipeline, &end);
    struct raw_chunk *scratch = chunk_make(chunk_frames(in_frame_bytes(pipeline)), in_frame_bytes(pipeline));
    if (!scratch) give_up(pipeline, "no memory to read the input; free some");
    while (scratch && size > 0) {
        struct in_block *block = block_queue_pop(&pipeline->in_free);
        if (!block || !fill_block(pipeline, block, size, scratch, &end)) break;
        bool last = block->last; /* it is the caller's once it is pushed */
        block_queue_push(&pipeline->in_full, block);
        if (last) break;
    }
    free(scratch);
    return NULL;
}

/* ---- the encoder and the writer ----------------------------------------------------------------- */

static bool encode_block(struct pipeline *pipeline, const struct out_block *block)
{
    const struct sound_out *out = pipeline->out;
    size_t stride = (size_t)pipeline->block; /* set before the first block came */
    for (int64_t done = 0; done < block->n;) {
        struct raw_chunk *chunk = block_queue_pop(&pipeline->raw_free);
        if (!chunk) return false;
        chunk->n = block->n - done < pipeline->raw_frames ? block->n - done : pipeline->raw_frames;
        double start = stopwatch_now();
        sample_join(out->kind, out->bits, block->planar + block->from + done, stride, out->n_channels, (size_t)chunk->n,
                    chunk->data, &pipeline->seen);
        pipeline->encode_s += stopwatch_now() - start;
        if (sample_peak_overflows(&pipeline->seen)) {
            char why[MESSAGE_CAP];
            message_write(why, sizeof why,
                          "%s: beyond the range of a float; use a lower --gain, or a quieter mask or input", out->path);
            give_up(pipeline, why);
            return false;
        }
        done += chunk->n;
        block_queue_push(&pipeline->raw_full, chunk);
    }
    return true;
}

static void *encoder(void *data)
{
    struct pipeline *pipeline = data;
    struct out_block *block;
    while ((block = block_queue_pop(&pipeline->out_full)) && encode_block(pipeline, block))
        block_queue_push(&pipeline->out_free, block);
    block_queue_end(&pipeline->raw_full);
    return NULL;
}

static void *writer(void *data)
{
    struct pipeline *pipeline = data;
    struct raw_chunk *chunk;
    char why[MESSAGE_CAP];
    double start = stopwatch_now();
    bool good = sound_out_reserve(pipeline->out, why, sizeof why);
    pipeline->write_s += stopwatch_now() - start;
    while (good && (chunk = block_queue_pop(&pipeline->raw_full))) {
        start = stopwatch_now();
        good = sound_out_write(pipeline->out, chunk->data, chunk->n, why, sizeof why);
        pipeline->write_s += stopwatch_now() - start;
        block_queue_push(&pipeline->raw_free, chunk);
    }
    if (!good) give_up(pipeline, why);
    return NULL;
}

/* ---- set-up ------------------------------------------------------------------------------------- */

bool pipeline_start(struct pipeline *pipeline, struct sound_in *in, int64_t backlog_bytes, char *why, size_t cap)
{
    *pipeline = (struct pipeline){.in = in, .backlog_bytes = backlog_bytes};
    pipeline->backlog_end = &pipeline->backlog;
    pthread_mutex_init(&pipeline->lock, NULL);
    pthread_cond_init(&pipeline->changed, NULL);
    block_queue_init(&pipeline->in_free);
    block_queue_init(&pipeline->in_full);
    block_queue_init(&pipeline->out_free);
    block_queue_init(&pipeline->out_full);
    block_queue_init(&pipeline->raw_free);
    block_queue_init(&pipeline->raw_full);
    if (pthread_create(&pipeline->reader, NULL, reader, pipeline) == 0) {
        pipeline->n_threads = 1;
        return true;
    }
    pipeline_finish(pipeline);
    return message_write(why, cap, "no thread to read with; close some programs");
}

static float *planar_make(int n_channels, int block)
{
    size_t bytes = (size_t)n_channels * (size_t)block * sizeof(float);
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static bool blocks_make(struct pipeline *pipeline, int block)
{
    int n_in = pipeline->in->n_channels, n_out = pipeline->out->n_channels;
    int64_t widest = n_in > n_out ? n_in : n_out;
    int64_t n = QUEUE_BYTES / (widest * block * (int64_t)sizeof(float));
    n = n < MIN_BLOCKS ? MIN_BLOCKS : n > MAX_BLOCKS ? MAX_BLOCKS : n;
    pipeline->in_blocks = calloc((size_t)n, sizeof *pipeline->in_blocks);
    pipeline->out_blocks = calloc((size_t)n, sizeof *pipeline->out_blocks);
    if (!pipeline->in_blocks || !pipeline->out_blocks) return false;
    pipeline->n_blocks = (int)n;
    for (int i = 0; i < pipeline->n_blocks; i++) {
        pipeline->in_blocks[i].planar = planar_make(n_in, block);
        pipeline->out_blocks[i].planar = planar_make(n_out, block);
        if (!pipeline->in_blocks[i].planar || !pipeline->out_blocks[i].planar) return false;
        block_queue_push(&pipeline->in_free, &pipeline->in_blocks[i]);
        block_queue_push(&pipeline->out_free, &pipeline->out_blocks[i]);
    }
    return true;
}

static bool raw_chunks_make(struct pipeline *pipeline)
{
    size_t frame_bytes = sample_bytes(pipeline->out->kind) * (size_t)pipeline->out->n_channels;
    pipeline->raw_frames = chunk_frames(frame_bytes);
    pipeline->raw_chunks = calloc(N_RAW_CHUNKS, sizeof *pipeline->raw_chunks);
    if (!pipeline->raw_chunks) return false;
    pipeline->n_raw_chunks = N_RAW_CHUNKS;
    for (int i = 0; i < N_RAW_CHUNKS; i++) {
        pipeline->raw_chunks[i] = chunk_make(pipeline->raw_frames, frame_bytes);
        if (!pipeline->raw_chunks[i]) return false;
        block_queue_push(&pipeline->raw_free, pipeline->raw_chunks[i]);
    }
    return true;
}

bool pipeline_open_output(struct pipeline *pipeline, struct sound_out *out)
{
    pipeline->out = out;
    if (!raw_chunks_make(pipeline)) {
        give_up(pipeline, "no memory for the blocks of audio; free some");
        return false;
    }
    if (pthread_create(&pipeline->encoder, NULL, encoder, pipeline) == 0) pipeline->n_threads = 2;
    if (pipeline->n_threads == 2 && pthread_create(&pipeline->writer, NULL, writer, pipeline) == 0)
        pipeline->n_threads = 3;
    if (pipeline->n_threads == 3) return true;
    give_up(pipeline, "no threads to write with; close some programs");
    return false;
}

/* Everything that needs the engine's block; now the reader can fill blocks. */
static bool go(struct pipeline *pipeline, int block)
{
    if (!blocks_make(pipeline, block)) {
        give_up(pipeline, "no memory for the blocks of audio; use a smaller --block");
        return false;
    }
    pthread_mutex_lock(&pipeline->lock);
    pipeline->block = block;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    return true;
}

void pipeline_finish(struct pipeline *pipeline)
{
    give_up(pipeline, "stopped"); /* after a success nobody is left to hear it */
    if (pipeline->n_threads >= 1) pthread_join(pipeline->reader, NULL);
    if (pipeline->n_threads >= 2) pthread_join(pipeline->encoder, NULL);
    if (pipeline->n_threads >= 3) pthread_join(pipeline->writer, NULL);
    pipeline->n_threads = 0;
    while (pipeline->backlog) backlog_drop_first(pipeline);
    for (int i = 0; i < pipeline->n_blocks; i++) {
        free(pipeline->in_blocks[i].planar);
        free(pipeline->out_blocks[i].planar);
    }
    for (int i = 0; i < pipeline->n_raw_chunks; i++) free(pipeline->raw_chunks[i]);
    free(pipeline->in_blocks);
    free(pipeline->out_blocks);
    free(pipeline->raw_chunks);
    struct block_queue *const queues[] = {&pipeline->in_free,  &pipeline->in_full,  &pipeline->out_free,
                                          &pipeline->out_full, &pipeline->raw_free, &pipeline->raw_full};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) block_queue_destroy(queues[i]);
    pthread_cond_destroy(&pipeline->changed);
    pthread_mutex_destroy(&pipeline->lock);
}

/* ---- the caller's thread ------------------------------------------------------------------------ */

static bool engine_failed(struct pipeline *pipeline, hc_engine *engine)
{
    hc_info info;
    hc_get_info(engine, &info);
    char why[MESSAGE_CAP];
    snprintf(why, sizeof why, "%s: %s", info.device,
             info.error[0] ? info.error : "the engine stopped; use --backend cpu");
    give_up(pipeline, why);
    return false;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

struct feed { /* where the caller's thread is in the stream */
    struct pipeline *pipeline;
    hc_engine *engine;
    struct pipeline_range range;
    int flight; /* blocks that the engine takes before it gives one back; 0: it knows no halves */
    int n_started;
    struct in_block *held; /* with flight 0: the block that was started */
    int64_t fed, started, produced, end; /* frames; end: INT64_MAX = not known yet */
    const float *zeros, **ins;
    float **outs;
};

static bool start_block(struct feed *feed, const float *in)
{
    struct pipeline *pipeline = feed->pipeline;
    for (int ch = 0; ch < pipeline->in->n_channels; ch++) feed->ins[ch] = in + (size_t)ch * (size_t)pipeline->block;
    if (feed->flight == 0) return true; /* finish_block does it all */
    double start = stopwatch_now();
    int rc = hc_submit(feed->engine, feed->ins, pipeline->block);
    pipeline->process_s += stopwatch_now() - start;
    return rc == HC_OK || engine_failed(pipeline, feed->engine);
}

static bool finish_block(struct feed *feed, float *out)
{
    struct pipeline *pipeline = feed->pipeline;
    for (int ch = 0; ch < pipeline->out->n_channels; ch++) feed->outs[ch] = out + (size_t)ch * (size_t)pipeline->block;
    double start = stopwatch_now();
    int rc = feed->flight > 0 ? hc_collect(feed->engine, feed->outs)
                              : hc_process(feed->engine, feed->ins, feed->outs, pipeline->block);
    pipeline->process_s += stopwatch_now() - start;
    if (feed->held) block_queue_push(&pipeline->in_free, feed->held);
    feed->held = NULL;
    return rc >= 0 || engine_failed(pipeline, feed->engine);
}

/* Start blocks until the engine has as many as it takes; behind the end of the input follow zeros. */
static bool start_blocks(struct feed *feed)
{
    struct pipeline *pipeline = feed->pipeline;
    int most = feed->flight > 0 ? feed->flight : 1;
    while (feed->n_started < most && feed->started < feed->end) {
        struct in_block *in = NULL;
        if (feed->end == INT64_MAX) {
            in = block_queue_pop(&pipeline->in_full);
            if (!in) return false;
            feed->fed += in->n;
            if (in->last) feed->end = feed->range.skip + feed->fed + feed->range.tail;
        }
        bool wanted = feed->started < feed->end;
        if (wanted && !start_block(feed, in ? in->planar : feed->zeros)) return false;
        if (wanted && feed->flight == 0)
            feed->held = in;
        else if (in)
            block_queue_push(&pipeline->in_free, in);
        feed->n_started += wanted;
        feed->started += wanted ? pipeline->block : 0;
    }
    return true;
}

/* Whole blocks in until every frame of the range has come out. */
static bool feed_all(struct feed *feed, struct pipeline_progress progress)
{
    struct pipeline *pipeline = feed->pipeline;
    for (;;) {
        if (!start_blocks(feed)) return false;
        if (feed->n_started == 0) return true;
        struct out_block *out = block_queue_pop(&pipeline->out_free);
        if (!out || !finish_block(feed, out->planar)) return false;
        feed->n_started--;
        out->from = (int)clamp(feed->range.skip - feed->produced, 0, pipeline->block);
        out->n = (int)clamp(feed->end - feed->produced, 0, pipeline->block) - out->from;
        if (out->n < 0) out->n = 0;
        feed->produced += pipeline->block;
        block_queue_push(&pipeline->out_full, out);
        if (progress.report) progress.report(progress.data, feed->produced);
    }
}

bool pipeline_run(struct pipeline *pipeline, hc_engine *engine, struct pipeline_range range,
                  struct pipeline_progress progress)
{
    hc_info info;
    hc_get_info(engine, &info);
    if (!go(pipeline, info.block)) return false;
    float *zeros = calloc((size_t)pipeline->in->n_channels * (size_t)info.block, sizeof *zeros);
    const float **ins = calloc((size_t)pipeline->in->n_channels, sizeof *ins);
    float **outs = calloc((size_t)pipeline->out->n_channels, sizeof *outs);
    struct feed feed = {.pipeline = pipeline, .engine = engine, .range = range, .flight = info.flight, .end = INT64_MAX,
                        .zeros = zeros, .ins = ins, .outs = outs};
    if (zeros && ins && outs)
        feed_all(&feed, progress);
    else
        give_up(pipeline, "no memory for the blocks of audio; use a smaller --block");
    free(zeros);
    free(ins);
    free(outs);
    /* What is on its way to the file gets there. */
    block_queue_end(&pipeline->out_full);
    if (!has_failed(pipeline)) {
        pthread_join(pipeline->encoder, NULL);
        pthread_join(pipeline->writer, NULL);
        pipeline->n_threads = 1;
    }
    return !has_failed(pipeline);
}
