#include "bridge.h"

#include "host/message.h"

#ifdef HC_WITH_SAMPLERATE
#include "clock.h"

#include <math.h>
#include <samplerate.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUALITY = SRC_SINC_MEDIUM_QUALITY, /* 121 dB, flat to 90 % of the band */
    LOOKAHEAD = 46,                    /* frames that its filter looks ahead */
    MOST_PIECE = 2048,                 /* frames resampled at once */
    LONG_BLOCKS = 32768                /* frames of the ring beyond a second */
};
static const double PI = 3.14159265358979323846;
static const double LEARN_S = 2;
static const double LEAST_MARGIN_S = 0.002, MOST_MARGIN_S = 0.25;
static const double LOOP_HZ = 0.02;   /* of what follows the clocks: far below what is heard as wow */
static const double MOST_OFF = 0.001; /* of the ratio: no card is off by 1000 ppm */
static const double GLIDE_S = 10;     /* in which what was computed gives way to what was counted */

/* "Frame k was there at time_s": the input's line, of which the output's thread takes a copy. */
struct line {
    int64_t k;
    double time_s, frame_s;
};

struct bridge {
    int n_channels, rate;
    int64_t cap; /* frames of the ring */
    float *ring; /* [cap][n_channels] */
    _Atomic int64_t written, taken;

    /* input's thread */
    struct clock in;
    /* from it; seq is odd while the line is written */
    atomic_uint seq;
    _Atomic int64_t line_k;
    _Atomic double line_time, line_frame, in_off;
    atomic_int in_block; /* the longest */

    /* output's thread */
    struct clock out;
    SRC_STATE *resampler;
    float *piece; /* [MOST_PIECE][n_channels] */
    int out_block;
    double first_s; /* of what is learned; 0: nothing yet */
    double margin_s;
    bool plays;
    double behind;   /* frames that the reader is to be behind the line when it has read */
    double position; /* frames read, with the fraction that the resampler keeps to itself */
    double steady;   /* the loop's memory: the ratio less 1 */

    /* from it */
    atomic_bool runs;
    _Atomic double ppm, latency_s;
    atomic_uint_fast64_t restarts;
};

struct bridge *bridge_open(int n_channels, int rate, char *why, size_t cap)
{
    int error = 0;
    struct bridge *b = calloc(1, sizeof *b);
    if (b) {
        *b = (struct bridge){
            .n_channels = n_channels, .rate = rate, .cap = rate + LONG_BLOCKS, .margin_s = LEAST_MARGIN_S};
        b->ring = calloc((size_t)b->cap * (size_t)n_channels, sizeof *b->ring);
        b->piece = calloc((size_t)MOST_PIECE * (size_t)n_channels, sizeof *b->piece);
        b->resampler = src_new(QUALITY, n_channels, &error);
        clock_open(&b->in, rate);
        clock_open(&b->out, rate);
    }
    if (b && b->ring && b->piece && b->resampler) return b;
    message_write(why, cap, "a resampler of %d channels: %s; free some memory", n_channels,
                  error ? src_strerror(error) : "no memory");
    bridge_close(b);
    return NULL;
}

void bridge_close(struct bridge *b)
{
    if (!b) return;
    if (b->resampler) src_delete(b->resampler);
    free(b->piece);
    free(b->ring);
    free(b);
}

/* ---- input ------------------------------------------------------------------------------------- */

static void draw_line(struct bridge *b, int64_t k, double time_s)
{
    atomic_fetch_add(&b->seq, 1);
    atomic_store(&b->line_k, k);
    atomic_store(&b->line_time, time_s);
    atomic_store(&b->line_frame, b->in.frame_s);
    atomic_fetch_add(&b->seq, 1);
}

void bridge_write(struct bridge *b, const float *in, int n, double time_s)
{
    clock_tick(&b->in, time_s, n);
    int64_t written = atomic_load_explicit(&b->written, memory_order_relaxed);
    int64_t room = b->cap - (written - atomic_load_explicit(&b->taken, memory_order_acquire));
    size_t frame = (size_t)b->n_channels * sizeof *in;
    /* Nobody reads: what does not fit is left out, and the reader will see that it is far behind. */
    int fits = n < room ? n : (int)room;
    int64_t at = written % b->cap, first = fits < b->cap - at ? fits : b->cap - at;
    memcpy(b->ring + at * b->n_channels, in, (size_t)first * frame);
    memcpy(b->ring, in + first * b->n_channels, (size_t)(fits - first) * frame);
    atomic_store_explicit(&b->written, written + fits, memory_order_release);
    if (n > atomic_load(&b->in_block)) atomic_store(&b->in_block, n);
    atomic_store(&b->in_off, b->in.most_off_s);
    draw_line(b, written + fits, b->in.now_s);
}

/* ---- output ------------------------------------------------------------------------------------ */

/* false: the writer was at it each time. */
static bool copy_line(const struct bridge *b, struct line *line)
{
    for (int i = 0; i < 100; i++) {
        unsigned before = atomic_load(&b->seq);
        *line = (struct line){atomic_load(&b->line_k), atomic_load(&b->line_time), atomic_load(&b->line_frame)};
        if (before % 2 == 0 && atomic_load(&b->seq) == before) return before != 0;
    }
    return false;
}

static void stop(struct bridge *b)
{
    atomic_fetch_add(&b->restarts, 1);
    b->plays = false;
    atomic_store(&b->runs, false);
}

/* What nobody plays must not fill the ring. */
static void pass_by(struct bridge *b)
{
    int64_t keep = atomic_load_explicit(&b->written, memory_order_acquire) - b->cap / 2;
    if (keep > atomic_load(&b->taken)) atomic_store_explicit(&b->taken, keep, memory_order_release);
}

/* Begin as far behind the line as is safe, at the ratio that both clocks tell. */
static bool begin(struct bridge *b, const struct line *line, int n)
{
    double off_s = b->out.most_off_s + atomic_load(&b->in_off), ratio = b->out.frame_s / line->frame_s;
    b->margin_s = fmin(fmax(b->margin_s, 2 * off_s), MOST_MARGIN_S); /* and as much again */
    b->behind = atomic_load(&b->in_block) + b->margin_s * b->rate + LOOKAHEAD;
    double line_now = (double)line->k + (b->out.now_s - line->time_s) / line->frame_s;
    int64_t taken = atomic_load(&b->taken), start = (int64_t)(line_now - b->behind - n * ratio);
    int64_t there = atomic_load_explicit(&b->written, memory_order_acquire) - start;
    if (start < taken || (double)there < n * ratio + LOOKAHEAD) return false; /* more must come first */
    atomic_store_explicit(&b->taken, start, memory_order_release);
    src_reset(b->resampler);
    src_set_ratio(b->resampler, 1 / ratio);
    b->position = (double)start;
    b->steady = ratio - 1;
    b->plays = true;
    atomic_store(&b->runs, true);
    return true;
}

/* Input frames an output frame: the two clocks', and a little more or less while the reader is too far behind or too
 * near. A loop of second order, critically damped. false: it is off by more than it can be. */
static bool follow(struct bridge *b, const struct line *line, int n, double *ratio)
{
    double line_now = (double)line->k + (b->out.now_s - line->time_s) / line->frame_s;
    double off_s = (line_now - b->position - n * (1 + b->steady) - b->behind) / b->rate, w = 2 * PI * LOOP_HZ,
           step_s = (double)n / b->rate;
    b->steady += w * w * off_s * step_s;
    b->steady = fmin(fmax(b->steady, -MOST_OFF), MOST_OFF);
    *ratio = 1 + fmin(fmax(b->steady + 2 * w * off_s, -2 * MOST_OFF), 2 * MOST_OFF);
    return fabs(off_s) < 0.5 * b->margin_s + 0.05;
}

/* The resampler is fed just what it needs: what it hoards would be latency. false: the ring is empty. */
static bool resample(struct bridge *b, float *const *out, int at, int n, double ratio)
{
    SRC_DATA data = {.src_ratio = 1 / ratio};
    int64_t taken = atomic_load_explicit(&b->taken, memory_order_relaxed);
    int64_t there = atomic_load_explicit(&b->written, memory_order_acquire) - taken;
    long made = 0, feed = (long)(n * ratio);
    while (made < n) {
        int64_t from = taken % b->cap, most = b->cap - from < there ? b->cap - from : there;
        data.data_in = b->ring + from * b->n_channels;
        data.input_frames = feed < most ? feed : (long)most;
        data.data_out = b->piece + made * b->n_channels;
        data.output_frames = n - made;
        if (src_process(b->resampler, &data) != 0) return false;
        taken += data.input_frames_used;
        there -= data.input_frames_used;
        made += data.output_frames_gen;
        feed = feed > data.input_frames_used ? feed - data.input_frames_used : 1;
        if (data.input_frames_used == 0 && data.output_frames_gen == 0) return false;
    }
    atomic_store_explicit(&b->taken, taken, memory_order_release);
    for (int ch = 0; ch < b->n_channels; ch++)
        for (int i = 0; i < n; i++) out[ch][at + i] = b->piece[i * b->n_channels + ch];
    b->position += n * ratio;
    b->position += ((double)taken - LOOKAHEAD - b->position) * n / (GLIDE_S * b->rate);
    return true;
}

static bool learned(struct bridge *b, double time_s)
{
    if (b->first_s == 0) b->first_s = time_s;
    return time_s - b->first_s >= LEARN_S;
}

static bool read_on(struct bridge *b, float *const *out, int n, double time_s)
{
    struct line line;
    double ratio = 1;
    bool goes_on = clock_tick(&b->out, time_s, n);
    if (n > b->out_block) b->out_block = n;
    if (!copy_line(b, &line)) return false;
    if (b->plays && (!goes_on || !follow(b, &line, n, &ratio))) stop(b);
    if (!goes_on) b->first_s = 0;
    if (!b->plays) pass_by(b);
    if (!b->plays && !(learned(b, time_s) && begin(b, &line, n) && follow(b, &line, n, &ratio))) return false;
    for (int at = 0, piece; at < n; at += piece) {
        piece = n - at < MOST_PIECE ? n - at : MOST_PIECE;
        if (resample(b, out, at, piece, ratio)) continue;
        stop(b);
        return false;
    }
    atomic_store(&b->ppm, 1e6 * b->steady);
    atomic_store(&b->latency_s, (b->behind + b->out_block) / b->rate);
    return true;
}

bool bridge_read(struct bridge *b, float *const *out, int n, double time_s)
{
    if (read_on(b, out, n, time_s)) return true;
    for (int ch = 0; ch < b->n_channels; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
    return false;
}

void bridge_get_status(const struct bridge *b, struct bridge_status *status)
{
    *status = (struct bridge_status){.runs = atomic_load(&b->runs),
                                     .ppm = atomic_load(&b->ppm),
                                     .latency_s = atomic_load(&b->latency_s),
                                     .restarts = atomic_load(&b->restarts)};
}

#else
#include <string.h>

struct bridge *bridge_open(int n_channels, int rate, char *why, size_t cap)
{
    (void)n_channels, (void)rate;
    message_write(why, cap, "this build has no libsamplerate; install libsamplerate0-dev and build again");
    return NULL;
}
void bridge_close(struct bridge *b)
{
    (void)b;
}
void bridge_write(struct bridge *b, const float *in, int n, double time_s)
{
    (void)b, (void)in, (void)n, (void)time_s;
}
bool bridge_read(struct bridge *b, float *const *out, int n, double time_s)
{
    (void)b, (void)out, (void)n, (void)time_s;
    return false;
}
void bridge_get_status(const struct bridge *b, struct bridge_status *status)
{
    (void)b;
    *status = (struct bridge_status){0};
}
#endif
