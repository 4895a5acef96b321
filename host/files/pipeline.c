#include "pipeline.h"

#include "host/message.h"
#include "sample.h"
#include "sound_format.h"
#include "host/stopwatch.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 17, /* decoded or encoded at once: stays in the second-level cache, and is few system calls */
    BLOCK_FLOATS = 1 << 20, /* about what an engine for files takes at once */
    QUEUE_BYTES = 8 << 20, /* blocks of our own, on each side of the engine: a few at least, ... */
    MIN_BLOCKS = 3,
    MAX_BLOCKS = 32, /* ... and not so many that they leave the cache */
    ALIGNMENT = 64,
};

struct pipeline_block {
    enum { EMPTY, IN_HANDS, FULL, DONE } stage;
    void *in;         /* [n_in][block] floats, or [block][n_in] samples as in the file */
    const void *out;  /* likewise */
    float *own_in, *own_out; /* NULL: the engine's */
    int64_t i;        /* which of the stream */
    int from, n;      /* frames of the output that are written */
};

/* ---- the ring ----------------------------------------------------------------------------------- */

/* The first failure is the one that is told; the others follow from it. */
static void give_up(struct pipeline *p, const char *why)
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

static void pass(struct pipeline *p, struct pipeline_block *block, int stage)
{
    pthread_mutex_lock(&p->lock);
    block->stage = stage;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void add_time(struct pipeline *p, double *sum, double seconds)
{
    pthread_mutex_lock(&p->lock);
    *sum += seconds;
    pthread_mutex_unlock(&p->lock);
}

/* ---- readers ------------------------------------------------------------------------------------ */

static size_t in_frame_bytes(const struct pipeline *p)
{
    size_t bytes = p->raw_in ? (size_t)sound_format_bytes(p->in->format) : sample_bytes(p->in->kind);
    return bytes * (size_t)p->in->n_channels;
}

/* As libsndfile takes them. */
static size_t out_frame_bytes(const struct pipeline *p)
{
    return sample_bytes(p->out->kind) * (size_t)p->out->n_channels;
}

static int64_t chunk_frames(size_t frame_bytes)
{
    int64_t n = (int64_t)(CHUNK_BYTES / frame_bytes);
    return n > 0 ? n : 1;
}

/* Can each reader take a block? Then it is known from the start where the input ends. */
static bool reads_anywhere(const struct pipeline *p)
{
    return sound_in_is_placed(p->in) && (p->raw_in || sound_format_is_native(p->in->plain));
}

static struct pipeline_block *take_empty(struct pipeline *p)
{
    struct pipeline_block *block = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->failed && p->to_read < p->n_blocks_in && block_at(p, p->to_read)->stage != EMPTY)
        pthread_cond_wait(&p->changed, &p->lock);
    if (!p->failed && p->to_read < p->n_blocks_in) {
        block = block_at(p, p->to_read);
        block->stage = IN_HANDS;
        block->i = p->to_read++;
    }
    pthread_mutex_unlock(&p->lock);
    return block;
}

/* Up to n frames from frame `first` on, as libsndfile gives them or as they lie in the file. -1: why has the reason. */
static int64_t read_frames(struct pipeline *p, int64_t first, void *raw, int64_t n, char *why, size_t cap)
{
    if (reads_anywhere(p)) return sound_in_read_at(p->in, first, raw, n, why, cap);
    return p->raw_in ? sound_in_read_plain(p->in, raw, n, why, cap) : sound_in_read(p->in, raw, n, why, cap);
}

/* A block of planar floats through a chunk; raw: straight into the block. Returns its frames; -1 after a failure. */
static int64_t read_block(struct pipeline *p, struct pipeline_block *block, void *chunk)
{
    const size_t frame_bytes = in_frame_bytes(p);
    const int64_t first = block->i * p->block, most = p->raw_in ? p->block : chunk_frames(frame_bytes);
    char why[MESSAGE_CAP];
    int64_t done = 0;
    while (done < p->block) {
        int64_t want = p->block - done < most ? p->block - done : most;
        int64_t n = read_frames(p, first + done, p->raw_in ? block->in : chunk, want, why, sizeof why);
        if (n < 0) {
            give_up(p, why);
            return -1;
        }
        if (!p->raw_in)
            sample_split(p->in->kind, chunk, p->in->n_channels, (size_t)n, (float *)block->in + done, (size_t)p->block);
        done += n;
        if (n < want) break;
    }
    return done;
}

/* Zeros behind the last frame. */
static void clear_rest(const struct pipeline *p, struct pipeline_block *block, int64_t from)
{
    size_t n = (size_t)(p->block - from);
    if (p->raw_in) {
        memset((char *)block->in + (size_t)from * in_frame_bytes(p), 0, n * in_frame_bytes(p));
        return;
    }
    for (int ch = 0; ch < p->in->n_channels; ch++)
        memset((float *)block->in + (size_t)ch * (size_t)p->block + from, 0, n * sizeof(float));
}

static void *reader(void *data)
{
    struct pipeline *p = data;
    struct pipeline_block *block;
    double busy = 0;
    void *chunk = malloc((size_t)chunk_frames(in_frame_bytes(p)) * in_frame_bytes(p));
    if (!chunk) give_up(p, "no memory to read the input; free some");
    while ((block = take_empty(p))) {
        double start = stopwatch_now();
        int64_t n = read_block(p, block, chunk);
        if (n < 0) break;
        clear_rest(p, block, n);
        busy += stopwatch_now() - start;
        pthread_mutex_lock(&p->lock);
        if (n < p->block && p->n_blocks_in == INT64_MAX) {
            p->n_blocks_in = block->i + 1;
            p->n_frames_in = block->i * p->block + n;
        }
        pthread_mutex_unlock(&p->lock);
        pass(p, block, FULL);
    }
    free(chunk);
    add_time(p, &p->read_s, busy);
    return NULL;
}

/* ---- writers ------------------------------------------------------------------------------------ */

struct hand { /* what a writer has of its own */
    struct pipeline *pipeline;
    void *chunk;
    struct sample_peak seen;
    double encode_s, write_s;
};

/* Where there are no places the first writer takes all blocks; it finds out with the first one. */
static struct pipeline_block *take_done(struct pipeline *p, bool first_hand)
{
    struct pipeline_block *block = NULL;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        bool mine = first_hand || p->places == PLACES_MAPPED;
        bool no_more = p->failed || p->to_write >= p->n_blocks_out || (!first_hand && p->places == PLACES_NONE);
        if (no_more) break;
        if (mine && p->n_blocks && block_at(p, p->to_write)->stage == DONE) {
            block = block_at(p, p->to_write++);
            block->stage = IN_HANDS;
            break;
        }
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return block;
}

/* Planar floats to samples as libsndfile takes them. */
static bool encode(struct hand *hand, const struct pipeline_block *block, int64_t at, int64_t n, void *raw)
{
    struct pipeline *p = hand->pipeline;
    const struct sound_out *out = p->out;
    double start = stopwatch_now();
    sample_join(out->kind, out->bits, (const float *)block->out + block->from + at, (size_t)p->block, out->n_channels,
                (size_t)n, raw, &hand->seen);
    hand->encode_s += stopwatch_now() - start;
    return !sample_peak_overflows(&hand->seen);
}

static bool write_chunks(struct hand *hand, const struct pipeline_block *block, char *why, size_t cap)
{
    struct pipeline *p = hand->pipeline;
    int64_t most = chunk_frames(out_frame_bytes(p));
    for (int64_t done = 0; done < block->n; done += most) {
        int64_t n = block->n - done < most ? block->n - done : most;
        if (!encode(hand, block, done, n, hand->chunk)) return true; /* said elsewhere */
        double start = stopwatch_now();
        if (!sound_out_write(p->out, hand->chunk, n, why, cap)) return false;
        hand->write_s += stopwatch_now() - start;
    }
    return true;
}

static bool write_block(struct hand *hand, const struct pipeline_block *block, char *why, size_t cap)
{
    struct pipeline *p = hand->pipeline;
    const size_t raw_bytes = (size_t)sound_format_bytes(p->out->format) * (size_t)p->out->n_channels;
    const char *raw = (const char *)block->out + (size_t)block->from * raw_bytes;
    int64_t first = block->i * p->block + block->from - p->range.skip;
    if (block->n == 0) return true;
    if (!p->raw_out) return write_chunks(hand, block, why, cap);
    double start = stopwatch_now();
    bool good = p->places == PLACES_MAPPED ? sound_out_put(p->out, first, raw, block->n, why, cap)
                                           : sound_out_write_plain(p->out, raw, block->n, why, cap);
    hand->write_s += stopwatch_now() - start;
    return good;
}

static void say_too_loud(struct pipeline *p)
{
    char why[MESSAGE_CAP];
    message_write(why, sizeof why, "%s: beyond the range of a float; use a lower --gain, or a quieter mask or input",
                  p->out->path);
    give_up(p, why);
}

static void set_places(struct pipeline *p)
{
    bool mapped = p->raw_out && sound_out_map(p->out);
    pthread_mutex_lock(&p->lock);
    p->places = mapped ? PLACES_MAPPED : PLACES_NONE;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void write_all(struct hand *hand, bool first_hand)
{
    struct pipeline *p = hand->pipeline;
    struct pipeline_block *block;
    char why[MESSAGE_CAP];
    double start = stopwatch_now();
    if (first_hand && !sound_out_reserve(p->out, why, sizeof why)) {
        give_up(p, why);
        return;
    }
    hand->write_s += stopwatch_now() - start;
    while ((block = take_done(p, first_hand))) {
        if (!write_block(hand, block, why, sizeof why)) {
            give_up(p, why);
            return;
        }
        if (sample_peak_overflows(&hand->seen)) {
            say_too_loud(p);
            return;
        }
        if (first_hand && p->places == PLACES_UNKNOWN && block->n > 0) set_places(p);
        pass(p, block, EMPTY);
    }
}

static void *work(struct pipeline *p, bool first_hand)
{
    struct hand hand = {.pipeline = p, .chunk = malloc((size_t)chunk_frames(out_frame_bytes(p)) * out_frame_bytes(p))};
    if (hand.chunk)
        write_all(&hand, first_hand);
    else
        give_up(p, "no memory to write the output; free some");
    free(hand.chunk);
    pthread_mutex_lock(&p->lock);
    p->seen.clipped += hand.seen.clipped;
    if (hand.seen.peak_bits > p->seen.peak_bits) p->seen.peak_bits = hand.seen.peak_bits;
    p->encode_s += hand.encode_s;
    p->write_s += hand.write_s;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void *first_writer(void *data)
{
    return work(data, true);
}

static void *other_writer(void *data)
{
    return work(data, false);
}

/* ---- set-up ------------------------------------------------------------------------------------- */

/* Threads a side: where there are few processors the convolution needs them. */
static int hands(void)
{
    cpu_set_t set; /* those that this process may use, which may be fewer than are online */
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) / 2 : 0;
    return n < 2 ? 2 : n > PIPELINE_HANDS ? PIPELINE_HANDS : n;
}

static bool no_threads(struct pipeline *p)
{
    give_up(p, "no threads to read and write with; close some programs");
    return false;
}

bool pipeline_start(struct pipeline *p, struct sound_in *in, struct sound_out *out, struct pipeline_range range)
{
    *p = (struct pipeline){.in = in, .out = out, .range = range, .n_blocks_in = INT64_MAX, .n_blocks_out = INT64_MAX};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (pthread_create(&p->writers[0], NULL, first_writer, p) != 0) return no_threads(p);
    p->n_writers = 1;
    return true;
}

/* A block takes ten times longer to be read and written than a GPU has it: nearly as many as the hands of both sides hold
 * (each costs a GPU's engine 2 ms to open), but no more than a short file fills. */
int pipeline_flight(const struct sound_in *in, int n_out)
{
    double n_frames = in->n_frames < 0 ? INFINITY : (double)in->n_frames;
    double floats = n_frames * (in->n_channels > n_out ? in->n_channels : n_out);
    const int most = PIPELINE_HANDS * 3 / 2;
    int n = floats > (double)BLOCK_FLOATS * most ? most : (int)(floats / BLOCK_FLOATS) + 1;
    return n < 4 ? 4 : n;
}

static float *planar_make(int n_channels, int block)
{
    size_t bytes = (size_t)n_channels * (size_t)block * sizeof(float);
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static bool blocks_make(struct pipeline *p, hc_engine *engine, const hc_info *info)
{
    int n_in = p->in->n_channels, n_out = p->out->n_channels;
    int64_t widest = n_in > n_out ? n_in : n_out, n = QUEUE_BYTES / (widest * info->block * (int64_t)sizeof(float));
    n = n < MIN_BLOCKS ? MIN_BLOCKS : n > MAX_BLOCKS ? MAX_BLOCKS : n;
    if (p->raw_in || p->raw_out) n = info->flight;
    struct pipeline_block *blocks = calloc((size_t)n, sizeof *blocks);
    bool good = blocks != NULL;
    for (int i = 0; i < n && good; i++) {
        struct pipeline_block *block = &blocks[i];
        hc_room(engine, i, &block->in, &block->out);
        if (!p->raw_in) block->in = block->own_in = planar_make(n_in, info->block);
        if (!p->raw_out) block->out = block->own_out = planar_make(n_out, info->block);
        good = block->in && block->out;
    }
    pthread_mutex_lock(&p->lock);
    p->blocks = blocks;
    p->n_blocks = blocks ? (int)n : 0;
    p->block = info->block;
    pthread_mutex_unlock(&p->lock);
    if (!good) give_up(p, "no memory for the blocks of audio; use a smaller --block");
    return good;
}

/* Everything that needs the engine's block. */
static bool go(struct pipeline *p, hc_engine *engine, const hc_info *info)
{
    p->raw_in = info->in_samples != HC_PLANAR;
    p->raw_out = info->out_samples != HC_PLANAR;
    if (!blocks_make(p, engine, info)) return false;
    bool anywhere = reads_anywhere(p);
    if (anywhere) {
        p->n_frames_in = p->in->n_frames;
        p->n_blocks_in = (p->n_frames_in + p->block - 1) / p->block;
    }
    for (int most = anywhere ? hands() : 1; p->n_readers < most; p->n_readers++)
        if (pthread_create(&p->readers[p->n_readers], NULL, reader, p) != 0) return p->n_readers > 0 || no_threads(p);
    for (int most = p->raw_out ? hands() : 1; p->n_writers < most; p->n_writers++)
        if (pthread_create(&p->writers[p->n_writers], NULL, other_writer, p) != 0) break; /* the first one will do */
    return true;
}

static void join(pthread_t *threads, int *n)
{
    while (*n > 0) pthread_join(threads[--*n], NULL);
}

void pipeline_finish(struct pipeline *p)
{
    give_up(p, "stopped"); /* after a success nobody is left to hear it */
    join(p->readers, &p->n_readers);
    join(p->writers, &p->n_writers);
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
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    char why[MESSAGE_CAP];
    snprintf(why, sizeof why, "%s: %s", info.device,
             info.error[0] ? info.error : "the engine stopped; use --backend cpu");
    give_up(p, why);
    return false;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

struct feed { /* where the caller's thread is in the stream */
    struct pipeline *pipeline;
    hc_engine *engine;
    int flight; /* blocks that the engine takes before it gives one back; 0: it has no halves */
    int64_t n_started, n_done; /* blocks */
    int64_t end; /* frames of the full convolution that are wanted; INT64_MAX = not known yet */
    const float **ins;
    float **outs;
};

/* The next block that is to be convolved, once it is full; behind the end of the input they are empty. NULL: there is
 * none now, or, with may_wait, none any more. */
static struct pipeline_block *take_full(struct feed *feed, bool may_wait, bool *is_zero)
{
    struct pipeline *p = feed->pipeline;
    struct pipeline_block *block = block_at(p, feed->n_started), *found = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->failed) {
        *is_zero = feed->n_started >= p->n_blocks_in;
        bool is_known = p->n_blocks_in < INT64_MAX;
        if (is_known) feed->end = p->range.skip + p->n_frames_in + p->range.tail;
        if (is_known && feed->n_started * p->block >= feed->end) break;
        if (block->stage == (*is_zero ? EMPTY : FULL)) {
            found = block;
            found->stage = IN_HANDS;
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
    for (int ch = 0; ch < p->in->n_channels && !p->raw_in; ch++)
        feed->ins[ch] = (const float *)block->in + (size_t)ch * (size_t)p->block;
    for (int ch = 0; ch < p->out->n_channels && !p->raw_out; ch++)
        feed->outs[ch] = block->own_out + (size_t)ch * (size_t)p->block;
}

static bool start_block(struct feed *feed, struct pipeline_block *block, bool is_zero)
{
    struct pipeline *p = feed->pipeline;
    if (is_zero) clear_rest(p, block, 0);
    feed->n_started++;
    if (feed->flight == 0) return true; /* finish_block does it all */
    if (feed->end < INT64_MAX) hc_count_set(feed->engine, p->range.skip, feed->end);
    point_at(feed, block);
    double start = stopwatch_now();
    int rc = hc_submit(feed->engine, p->raw_in ? NULL : feed->ins, p->block);
    p->process_s += stopwatch_now() - start;
    return rc == HC_OK || engine_failed(p, feed->engine);
}

static bool finish_block(struct feed *feed)
{
    struct pipeline *p = feed->pipeline;
    struct pipeline_block *block = block_at(p, feed->n_done);
    int64_t first = feed->n_done++ * p->block;
    point_at(feed, block);
    double start = stopwatch_now();
    int rc = feed->flight > 0 ? hc_collect(feed->engine, p->raw_out ? NULL : feed->outs)
                              : hc_process(feed->engine, feed->ins, feed->outs, p->block);
    p->process_s += stopwatch_now() - start;
    if (rc < 0) return engine_failed(p, feed->engine);
    block->from = (int)clamp(p->range.skip - first, 0, p->block);
    block->n = (int)clamp(feed->end - first, 0, p->block) - block->from;
    if (block->n < 0) block->n = 0;
    pass(p, block, DONE);
    return true;
}

/* Whole blocks in until every frame of the range has come out. Blocks are started as long as the engine takes them; the
 * oldest is waited for when there is nothing to start. */
static bool feed_all(struct feed *feed, struct pipeline_progress progress)
{
    struct pipeline *p = feed->pipeline;
    int most = feed->flight > 0 ? feed->flight : 1;
    for (;;) {
        int64_t under_way = feed->n_started - feed->n_done;
        bool is_zero;
        struct pipeline_block *block = under_way < most ? take_full(feed, under_way == 0, &is_zero) : NULL;
        if (block) {
            if (!start_block(feed, block, is_zero)) return false;
        } else if (under_way > 0) {
            if (!finish_block(feed)) return false;
            if (progress.report) progress.report(progress.data, feed->n_done * p->block);
        } else {
            return !has_failed(p);
        }
    }
}

/* What is on its way to the file gets there. */
static void end_writing(struct feed *feed)
{
    struct pipeline *p = feed->pipeline;
    pthread_mutex_lock(&p->lock);
    p->n_blocks_out = feed->n_done;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    join(p->writers, &p->n_writers);
    char why[MESSAGE_CAP];
    if (!has_failed(p) && p->places == PLACES_MAPPED && !sound_out_claim(p->out, feed->end - p->range.skip, why, sizeof why)) give_up(p, why);
}

/* What the device saw, where it made the samples. */
static void take_seen(struct pipeline *p, hc_engine *engine)
{
    hc_info info = {.size = sizeof info};
    if (!p->raw_out) return;
    hc_get_info(engine, &info);
    p->seen.clipped = info.clipped;
    memcpy(&p->seen.peak_bits, &info.peak, sizeof p->seen.peak_bits);
    if (sample_peak_overflows(&p->seen)) say_too_loud(p);
}

bool pipeline_run(struct pipeline *p, hc_engine *engine, struct pipeline_progress progress)
{
    hc_info info = {.size = sizeof info};
    hc_get_info(engine, &info);
    if (!go(p, engine, &info)) return false;
    const float **ins = calloc((size_t)p->in->n_channels, sizeof *ins);
    float **outs = calloc((size_t)p->out->n_channels, sizeof *outs);
    struct feed feed = {.pipeline = p, .engine = engine, .flight = info.flight, .end = INT64_MAX, .ins = ins, .outs = outs};
    if (info.flight > p->n_blocks) feed.flight = p->n_blocks;
    if (info.flight == 1) feed.flight = 0; /* one at a time: a copy less */
    if (p->range.skip > 0) hc_count_set(engine, p->range.skip, INT64_MAX);
    if (ins && outs)
        feed_all(&feed, progress);
    else
        give_up(p, "no memory for the blocks of audio; use a smaller --block");
    free(ins);
    free(outs);
    if (has_failed(p)) return false;
    end_writing(&feed);
    take_seen(p, engine);
    return !has_failed(p);
}
