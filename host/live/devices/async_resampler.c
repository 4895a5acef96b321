#include "async_resampler.h"

#include "host/message.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the clock of a card ---------------------------------------------------------------------- */

static const double WIDE_HZ = 1, NARROW_HZ = 0.02; /* bandwidth at the start, and after 1 / NARROW_HZ seconds */
static const double LOST_S = 0.25;                 /* a larger deviation: the card or the program stood still */
static const double MAX_WRONG = 0.002; /* largest deviation from the nominal rate; late callbacks cause more */
static const double SETTLED_S = 1;     /* a card's first callbacks come in a burst */
static const double MIN_DRIFT_S = 60;  /* a delay is known to about a millisecond: 10 ppm a minute */

void clock_open(struct clock *clock, int rate)
{
    *clock = (struct clock){.frame_s = 1.0 / rate, .nominal_s = 1.0 / rate};
}

bool clock_update(struct clock *clock, double time_s, int n)
{
    double due_s = clock->now_s + n * clock->frame_s, off_s = time_s - due_s;
    bool is_regular = clock->runs && fabs(off_s) < LOST_S;
    if (!is_regular) {
        off_s = 0;
        due_s = time_s;
        clock->age_s = 0;
        clock->runs = true;
    }
    double hz = fmin(WIDE_HZ, fmax(NARROW_HZ, 1 / (clock->age_s + 1e-9)));
    double w = fmin(2 * M_PI * hz * n * clock->frame_s, 0.5); /* a step of a long block must not overshoot */
    clock->now_s = due_s + sqrt(2) * w * off_s;
    clock->frame_s += w * w * off_s / n;
    clock->frame_s = fmin(fmax(clock->frame_s, (1 - MAX_WRONG) * clock->nominal_s), (1 + MAX_WRONG) * clock->nominal_s);
    clock->age_s += n * clock->frame_s;
    if (fabs(off_s) > clock->max_off_s && clock->age_s > SETTLED_S) clock->max_off_s = fabs(off_s);
    return is_regular;
}

void drift_add(struct drift *drift, double time_s, double delay_s)
{
    if (drift->n == 0) drift->first_s = time_s;
    double t = time_s - drift->first_s;
    drift->n++;
    drift->t += t;
    drift->d += delay_s;
    drift->tt += t * t;
    drift->td += t * delay_s;
}

double drift_ppm(const struct drift *drift)
{
    if (drift->n < 2 || 2 * drift->t / drift->n < MIN_DRIFT_S) return 0; /* the mean time is half of the last point's */
    double spread = drift->tt - drift->t * drift->t / drift->n;
    return spread > 0 ? 1e6 * (drift->td - drift->t * drift->d / drift->n) / spread : 0;
}

/* ---- the resampler ---------------------------------------------------------------------------- */

#ifdef HC_WITH_SAMPLERATE
#include <samplerate.h>

enum {
    QUALITY = SRC_SINC_MEDIUM_QUALITY, /* 121 dB, flat to 90 % of the band */
    LOOKAHEAD = 46,                    /* delay of the resampler's filter, in frames */
    READ_CHUNK = 2048,                 /* frames resampled at once */
    LONG_BLOCKS = 32768                /* frames of the ring beyond a second, for long blocks */
};
static const double LEARN_S = 2; /* silence while the clocks settle */
static const double MIN_MARGIN_S = 0.002, MAX_MARGIN_S = 0.25;
static const double LOOP_HZ = 0.02;  /* bandwidth of the control loop: far below audible wow */
static const double MAX_OFF = 0.001; /* largest deviation of the ratio from 1: no card is off by 1000 ppm */
static const double GLIDE_S = 10;    /* time constant with which the computed position follows the counted one */

/* "Frame k was written at time_s, and a frame lasts frame_s": the input thread's estimate. */
struct line {
    int64_t k;
    double time_s, frame_s;
};

struct async_resampler {
    int n_channels, rate;
    int64_t cap;                       /* frames of the ring */
    float *ring;                       /* [cap][n_channels] */
    _Atomic int64_t written, consumed; /* frames since the start */

    /* input thread */
    struct clock in;
    /* the input thread's estimate, which the output thread reads; a sequence lock: seq is odd during a write of
     * `line` */
    atomic_uint seq;
    _Atomic int64_t line_k;
    _Atomic double line_time, line_frame, in_off;
    atomic_int in_block; /* longest block of the input, in frames */

    /* output thread */
    struct clock out;
    SRC_STATE *resampler;
    float *chunk;    /* [READ_CHUNK][n_channels] */
    int out_block;   /* longest block of the output, in frames */
    double first_s;  /* start of the LEARN_S seconds; 0: not begun */
    double margin_s; /* allowance for late callbacks */
    bool plays;
    double behind;   /* frames by which the reader follows the line, after it has read */
    double position; /* frames read, with the fraction inside the resampler */
    double steady;   /* integral part of the control loop: the ratio minus 1 */

    /* written by the output thread, read by any */
    atomic_bool runs;
    _Atomic double ppm, latency_s;
    atomic_uint_fast64_t restarts;
};

struct async_resampler *async_resampler_open(int n_channels, int rate, char *why, size_t cap)
{
    int error = 0;
    struct async_resampler *r = calloc(1, sizeof *r);
    if (r) {
        *r = (struct async_resampler){
            .n_channels = n_channels, .rate = rate, .cap = rate + LONG_BLOCKS, .margin_s = MIN_MARGIN_S};
        r->ring = calloc((size_t)r->cap * (size_t)n_channels, sizeof *r->ring);
        r->chunk = calloc((size_t)READ_CHUNK * (size_t)n_channels, sizeof *r->chunk);
        r->resampler = src_new(QUALITY, n_channels, &error);
        clock_open(&r->in, rate);
        clock_open(&r->out, rate);
    }
    if (r && r->ring && r->chunk && r->resampler) return r;
    message_write(why, cap, "a resampler of %d channels cannot be made: %s; free some memory", n_channels,
                  error ? src_strerror(error) : "no memory");
    async_resampler_close(r);
    return NULL;
}

void async_resampler_close(struct async_resampler *r)
{
    if (!r) return;
    if (r->resampler) src_delete(r->resampler);
    free(r->chunk);
    free(r->ring);
    free(r);
}

/* ---- input ------------------------------------------------------------------------------------- */

static void publish_line(struct async_resampler *r, int64_t k, double time_s)
{
    atomic_fetch_add(&r->seq, 1);
    atomic_store(&r->line_k, k);
    atomic_store(&r->line_time, time_s);
    atomic_store(&r->line_frame, r->in.frame_s);
    atomic_fetch_add(&r->seq, 1);
}

void async_resampler_write(struct async_resampler *r, const float *in, int n, double time_s)
{
    clock_update(&r->in, time_s, n);
    int64_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
    int64_t space = r->cap - (written - atomic_load_explicit(&r->consumed, memory_order_acquire));
    size_t frame = (size_t)r->n_channels * sizeof *in;
    /* A full ring drops frames. The reader then sees that it is too far behind, and starts again. */
    int fits = n < space ? n : (int)space;
    int64_t at = written % r->cap, first = fits < r->cap - at ? fits : r->cap - at;
    memcpy(r->ring + at * r->n_channels, in, (size_t)first * frame);
    memcpy(r->ring, in + first * r->n_channels, (size_t)(fits - first) * frame);
    atomic_store_explicit(&r->written, written + fits, memory_order_release);
    if (n > atomic_load(&r->in_block)) atomic_store(&r->in_block, n);
    atomic_store(&r->in_off, r->in.max_off_s);
    publish_line(r, written + fits, r->in.now_s);
}

/* ---- output ------------------------------------------------------------------------------------ */

/* Copies the input thread's estimate. false: no estimate yet, or the writer interrupted every attempt. */
static bool copy_line(const struct async_resampler *r, struct line *line)
{
    for (int i = 0; i < 100; i++) {
        unsigned before = atomic_load(&r->seq);
        *line = (struct line){atomic_load(&r->line_k), atomic_load(&r->line_time), atomic_load(&r->line_frame)};
        if (before % 2 == 0 && atomic_load(&r->seq) == before) return before != 0;
    }
    return false;
}

static void resampler_stop(struct async_resampler *r)
{
    atomic_fetch_add(&r->restarts, 1);
    r->plays = false;
    atomic_store(&r->runs, false);
}

/* While nothing plays, keeps only the newest half of the ring. */
static void skip_old(struct async_resampler *r)
{
    int64_t oldest = atomic_load_explicit(&r->written, memory_order_acquire) - r->cap / 2;
    if (oldest > atomic_load(&r->consumed)) atomic_store_explicit(&r->consumed, oldest, memory_order_release);
}

/* Begins to read at the ratio of both clocks, behind the line by the distance that late callbacks need. false: the ring
 * has too few frames yet. */
static bool resampler_begin(struct async_resampler *r, const struct line *line, int n)
{
    double off_s = r->out.max_off_s + atomic_load(&r->in_off), ratio = r->out.frame_s / line->frame_s;
    r->margin_s = fmin(fmax(r->margin_s, 2 * off_s), MAX_MARGIN_S);
    r->behind = atomic_load(&r->in_block) + r->margin_s * r->rate + LOOKAHEAD;
    double line_now = (double)line->k + (r->out.now_s - line->time_s) / line->frame_s;
    int64_t consumed = atomic_load(&r->consumed), start = (int64_t)(line_now - r->behind - n * ratio);
    int64_t available = atomic_load_explicit(&r->written, memory_order_acquire) - start;
    if (start < consumed || (double)available < n * ratio + LOOKAHEAD) return false;
    atomic_store_explicit(&r->consumed, start, memory_order_release);
    src_reset(r->resampler);
    src_set_ratio(r->resampler, 1 / ratio);
    r->position = (double)start;
    r->steady = ratio - 1;
    r->plays = true;
    atomic_store(&r->runs, true);
    return true;
}

/* Computes the ratio, in input frames an output frame, that keeps the reader `behind` frames behind the line: a control
 * loop of second order, critically damped. false: the deviation is too large, and the reader must start again. */
static bool control_ratio(struct async_resampler *r, const struct line *line, int n, double *ratio)
{
    double line_now = (double)line->k + (r->out.now_s - line->time_s) / line->frame_s;
    double off_s = (line_now - r->position - n * (1 + r->steady) - r->behind) / r->rate;
    double w = 2 * M_PI * LOOP_HZ, step_s = (double)n / r->rate;
    r->steady += w * w * off_s * step_s;
    r->steady = fmin(fmax(r->steady, -MAX_OFF), MAX_OFF);
    *ratio = 1 + fmin(fmax(r->steady + 2 * w * off_s, -2 * MAX_OFF), 2 * MAX_OFF);
    return fabs(off_s) < 0.5 * r->margin_s + 0.05;
}

/* Gives the resampler only the frames that it needs: frames that wait inside the resampler would add latency. false:
 * the ring is empty. */
static bool async_resample(struct async_resampler *r, float *const *out, int at, int n, double ratio)
{
    SRC_DATA data = {.src_ratio = 1 / ratio};
    int64_t consumed = atomic_load_explicit(&r->consumed, memory_order_relaxed);
    int64_t available = atomic_load_explicit(&r->written, memory_order_acquire) - consumed;
    long made = 0, feed = (long)(n * ratio);
    while (made < n) {
        int64_t from = consumed % r->cap, max = r->cap - from < available ? r->cap - from : available;
        data.data_in = r->ring + from * r->n_channels;
        data.input_frames = feed < max ? feed : (long)max;
        data.data_out = r->chunk + made * r->n_channels;
        data.output_frames = n - made;
        if (src_process(r->resampler, &data) != 0) return false;
        consumed += data.input_frames_used;
        available -= data.input_frames_used;
        made += data.output_frames_gen;
        feed = feed > data.input_frames_used ? feed - data.input_frames_used : 1;
        if (data.input_frames_used == 0 && data.output_frames_gen == 0) return false;
    }
    atomic_store_explicit(&r->consumed, consumed, memory_order_release);
    for (int ch = 0; ch < r->n_channels; ch++)
        for (int i = 0; i < n; i++) out[ch][at + i] = r->chunk[i * r->n_channels + ch];
    r->position += n * ratio;
    r->position += ((double)consumed - LOOKAHEAD - r->position) * n / (GLIDE_S * r->rate);
    return true;
}

static bool has_learned(struct async_resampler *r, double time_s)
{
    if (r->first_s == 0) r->first_s = time_s;
    return time_s - r->first_s >= LEARN_S;
}

static bool read_resampled(struct async_resampler *r, float *const *out, int n, double time_s)
{
    struct line line;
    double ratio = 1;
    bool is_regular = clock_update(&r->out, time_s, n);
    if (n > r->out_block) r->out_block = n;
    if (!copy_line(r, &line)) return false;
    if (r->plays && (!is_regular || !control_ratio(r, &line, n, &ratio))) resampler_stop(r);
    if (!is_regular) r->first_s = 0;
    if (!r->plays) skip_old(r);
    if (!r->plays && !(has_learned(r, time_s) && resampler_begin(r, &line, n) && control_ratio(r, &line, n, &ratio)))
        return false;
    for (int at = 0, chunk; at < n; at += chunk) {
        chunk = n - at < READ_CHUNK ? n - at : READ_CHUNK;
        if (async_resample(r, out, at, chunk, ratio)) continue;
        resampler_stop(r);
        return false;
    }
    atomic_store(&r->ppm, 1e6 * r->steady);
    atomic_store(&r->latency_s, (r->behind + r->out_block) / r->rate);
    return true;
}

bool async_resampler_read(struct async_resampler *r, float *const *out, int n, double time_s)
{
    if (read_resampled(r, out, n, time_s)) return true;
    for (int ch = 0; ch < r->n_channels; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
    return false;
}

void async_resampler_get_status(const struct async_resampler *r, struct async_resampler_status *status)
{
    *status = (struct async_resampler_status){.runs = atomic_load(&r->runs),
                                              .ppm = atomic_load(&r->ppm),
                                              .latency_s = atomic_load(&r->latency_s),
                                              .restarts = atomic_load(&r->restarts)};
}

#else

struct async_resampler *async_resampler_open(int n_channels, int rate, char *why, size_t cap)
{
    (void)n_channels, (void)rate;
    message_write(why, cap, MESSAGE_NO_PART("libsamplerate", "libsamplerate0-dev"));
    return NULL;
}
void async_resampler_close(struct async_resampler *r)
{
    (void)r;
}
void async_resampler_write(struct async_resampler *r, const float *in, int n, double time_s)
{
    (void)r, (void)in, (void)n, (void)time_s;
}
bool async_resampler_read(struct async_resampler *r, float *const *out, int n, double time_s)
{
    (void)r, (void)out, (void)n, (void)time_s;
    return false;
}
void async_resampler_get_status(const struct async_resampler *r, struct async_resampler_status *status)
{
    (void)r;
    *status = (struct async_resampler_status){0};
}
#endif
