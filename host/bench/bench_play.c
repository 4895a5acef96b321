#include "bench_play.h"

#include "dsp/base/order.h"
#include "dsp/base/priority.h"
#include "dsp/bench.h"
#include "host/message.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    NOISE_FRAMES = 1 << 16,
    FIRST_BLOCKS = 50, /* blocks not counted: the caches fill */
    PRIORITY = 70,
};

static const double spin_s = 100e-6; /* before a block is due the thread spins, because a sleep may end late */

struct bench_shape bench_shape_usual(void)
{
    return (struct bench_shape){
        .block = 64, .rate = 48000, .n_engines = 1, .wait_us = -1, .backend = "auto", .method = "auto", .seed = 1};
}

const struct option_row bench_play_options[] = {
    {"seconds", 0, "S", "Length of the responses, which are decaying noise and all different [1]", option_number,
     OPTION_TO(struct bench_settings, seconds), .min = 1e-4, .max = 600},
    {"taps", 0, "N", "Length of the responses in frames, instead of --seconds", option_int,
     OPTION_TO(struct bench_settings, shape.taps), .min = 1, .max = 1 << 28},
    {"block", 0, "N", "Block size in frames [64]", option_int, OPTION_TO(struct bench_settings, shape.block), .min = 1,
     .max = 1 << 20},
    {"rate", 0, "HZ", "Sample rate [48000]", option_int, OPTION_TO(struct bench_settings, shape.rate), .min = 1,
     .max = 10000000},
    {"backend", 0, "BACKEND", "auto, cpu, cuda, cuda:N, hybrid or hybrid:N [auto]", option_text,
     OPTION_TO(struct bench_settings, shape.backend)},
    {"method", 0, "auto|direct|fft", "As for convolve [auto]", option_text,
     OPTION_TO(struct bench_settings, shape.method)},
    {"threads", 0, "N", "Threads of the CPU, including the audio thread; 0: chosen by the engine [0]", option_int,
     OPTION_TO(struct bench_settings, shape.n_threads), .max = 256},
    {"time", 0, "S", "Seconds of audio to play [10]", option_number, OPTION_TO(struct bench_settings, time_s),
     .min = 0.01, .max = 86400},
    {"seed", 0, "N", "Seed of the responses [1]", option_seed, OPTION_TO(struct bench_settings, shape.seed)},
    OPTION_JSON(OPTION_TO(struct bench_settings, json)),
    {0}};

struct bench_settings bench_settings_usual(void)
{
    return (struct bench_settings){.shape = bench_shape_usual(), .seconds = 1, .time_s = 10};
}

void bench_settings_complete(struct bench_settings *s)
{
    if (s->shape.n_out == 0) s->shape.n_out = s->shape.n_in;
    if (s->shape.taps == 0) s->shape.taps = (int)fmax(1, s->seconds * s->shape.rate);
}

static hc_config config_of(const struct bench_shape *shape)
{
    hc_config c;
    hc_config_init(&c);
    c.rate = shape->rate;
    c.block = shape->block;
    c.n_in = shape->n_in;
    c.n_out = shape->n_out;
    c.max_taps = shape->n_sources ? 1 : shape->taps;
    c.n_sources = shape->n_sources;
    c.bank_taps = shape->taps;
    int64_t n_routes = shape->diagonal ? shape->n_in : (int64_t)shape->n_in * shape->n_out;
    c.n_routes = n_routes > INT32_MAX ? INT32_MAX : (int)n_routes;
    c.n_threads = shape->n_threads;
    c.wait_us = shape->wait_us == 0 ? -2 : shape->wait_us; /* hc_config: 0 is the default, -2 does not wait */
    c.spin = shape->spin;
    c.backend = shape->backend;
    c.method = shape->method;
    return c;
}

/* Linux grants more memory than it has, and ends the program that uses it; so compare before. For a while the responses
 * are in memory twice, as taps and as spectra. */
static bool fits_in_memory(const hc_config *config, int n_engines, char *why, size_t cap)
{
    hc_info plan = {.size = sizeof plan};
    if (hc_plan(config, &plan, why, cap) != HC_OK) return false;
    if (strcmp(plan.backend, "cpu") != 0) return true; /* the backend counts the memory of a device */
    double needs = n_engines * (double)plan.memory + 4.0 * config->max_taps * config->n_routes;
    double available = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needs < 0.9 * available) return true;
    return message_write(why, cap, "%d responses of %d taps need %.1f GB, but only %.1f GB are free; use fewer",
                         config->n_routes, config->max_taps, needs * 1e-9, available * 1e-9);
}

void bench_close(const struct bench_shape *shape, hc_engine **engines)
{
    for (int i = 0; i < shape->n_engines; i++) {
        hc_close(engines[i]);
        engines[i] = NULL;
    }
}

bool bench_open(const struct bench_shape *shape, hc_engine **engines, struct bench_result *result, char *why,
                size_t cap)
{
    memset(result, 0, sizeof *result);
    hc_config config = config_of(shape);
    double start = stopwatch_now();
    for (int i = 0; i < shape->n_engines; i++) engines[i] = NULL;
    if (!fits_in_memory(&config, shape->n_engines, why, cap)) return false;
    for (int i = 0; i < shape->n_engines; i++) {
        hc_mask *mask = NULL;
        if (hc_open(&config, &engines[i], why, cap) != HC_OK ||
            (!shape->n_sources && hc_mask_make_noise(engines[i], shape->diagonal, shape->taps, shape->taps,
                                                     shape->seed + (uint64_t)i, &mask, why, cap) != HC_OK)) {
            bench_close(shape, engines);
            return false;
        }
        if (mask) hc_mask_swap(engines[i], mask);
    }
    result->setup_s = stopwatch_now() - start;
    result->info.size = sizeof result->info;
    hc_get_info(engines[0], &result->info);
    return true;
}

/* ---- playing ------------------------------------------------------------------------------------ */

struct player {
    float *noise;      /* [NOISE_FRAMES + block]: the input of every channel, each from another offset */
    float *out_frames; /* [n_out][block] */
    const float **in;
    float **out;
    double *durations, *woke; /* [n]: seconds */
};

static void player_close(struct player *p)
{
    free(p->noise);
    free(p->out_frames);
    free(p->in);
    free(p->out);
    free(p->durations);
    free(p->woke);
}

static bool player_open(struct player *p, const struct bench_shape *shape, int64_t n)
{
    size_t block = (size_t)shape->block;
    p->noise = malloc((NOISE_FRAMES + block) * sizeof *p->noise);
    p->out_frames = calloc((size_t)shape->n_out * block, sizeof *p->out_frames);
    p->in = calloc((size_t)shape->n_in, sizeof *p->in);
    p->out = calloc((size_t)shape->n_out, sizeof *p->out);
    p->durations = calloc((size_t)n, sizeof *p->durations);
    p->woke = calloc((size_t)n, sizeof *p->woke);
    if (!p->noise || !p->out_frames || !p->in || !p->out || !p->durations || !p->woke) return false;
    uint32_t state = 1;
    for (size_t i = 0; i < NOISE_FRAMES + block; i++) {
        state = state * 1664525u + 1013904223u;
        p->noise[i] = (float)((double)state / 4294967296.0 - 0.5);
    }
    for (int ch = 0; ch < shape->n_out; ch++) p->out[ch] = p->out_frames + (size_t)ch * block;
    return true;
}

static void player_aim(struct player *p, const struct bench_shape *shape, int64_t block)
{
    for (int ch = 0; ch < shape->n_in; ch++)
        p->in[ch] = p->noise + ((uint64_t)block * (uint64_t)shape->block + 977u * (uint64_t)ch) % NOISE_FRAMES;
}

/* Under RLIMIT_RTTIME (200 ms, as a rule) it also sleeps when every period is too short for a sleep. */
static void wait_for_period(double when)
{
    static double slept;
    double sleep = when - spin_s, now = stopwatch_now();
    if (sleep > now) slept = sleep;
    if (now - slept > 0.05) priority_sleep(), slept = now;
    struct timespec t = {.tv_sec = (time_t)sleep, .tv_nsec = (long)((sleep - floor(sleep)) * 1e9)};
    if (sleep > stopwatch_now())
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
    while (stopwatch_now() < when) continue;
}

static double quantile_us(const double *sorted, int64_t n, double q)
{
    int64_t i = (int64_t)(q * (double)n);
    return 1e6 * sorted[i < n ? i : n - 1];
}

static void sum_up(struct player *p, int64_t n, struct bench_result *r)
{
    r->n_blocks = n;
    r->mean_us = 0;
    for (int64_t i = 0; i < n; i++) r->mean_us += 1e6 * p->durations[i] / (double)n;
    qsort(p->durations, (size_t)n, sizeof *p->durations, order_of_doubles);
    qsort(p->woke, (size_t)n, sizeof *p->woke, order_of_doubles);
    r->p50_us = quantile_us(p->durations, n, 0.5);
    r->p99_us = quantile_us(p->durations, n, 0.99);
    r->p999_us = quantile_us(p->durations, n, 0.999);
    r->max_us = 1e6 * p->durations[n - 1];
    r->jitter_us = quantile_us(p->woke, n, 0.999);
}

/* The priority of a sound card's callback, if the system grants it. */
static bool priority_raise(void)
{
    return sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = PRIORITY}) == 0;
}
static void priority_restore(void)
{
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){.sched_priority = 0});
}

static double processor_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the processor time of the other threads of this program, in seconds. */
static double others_s(void)
{
    return processor_s(CLOCK_PROCESS_CPUTIME_ID) - processor_s(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t late_blocks(hc_engine *const *engines, int n, struct hc_info *info)
{
    int64_t late = 0;
    for (int i = 0; i < n; i++) {
        hc_get_info(engines[i], info);
        late += (int64_t)info->late;
        if (info->error[0]) break;
    }
    return late;
}

/* An engine with a tail on a device calls the device at a fixed interval, counted from the start of its stream. The
 * streams start one block apart, as those of plugins that a user adds, so that not all engines call the device in the
 * same callback. */
static int stagger(hc_engine *const *engines, const struct bench_shape *shape, struct player *p)
{
    int code = HC_OK;
    for (int k = 1; k < shape->n_engines; k++) {
        hc_info info = {.size = sizeof info};
        hc_get_info(engines[k], &info);
        if (info.n_device_levels == 0 || info.frames > 0) continue;
        int every = info.levels[info.n_levels - info.n_device_levels].offset / 2;
        player_aim(p, shape, 0);
        for (int64_t left = (int64_t)k * shape->block % every; left > 0 && code >= HC_OK; left -= shape->block)
            code = hc_process(engines[k], p->in, p->out, left < shape->block ? (int)left : shape->block);
    }
    return code;
}

/* Counts how often the system has preempted this thread. */
static long n_interruptions(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static bool too_many_late(int64_t by_wakeup, int64_t n)
{
    return by_wakeup > n / 10;
}

bool bench_is_judged(const struct bench_result *result)
{
    return !too_many_late(result->by_wakeup, result->n_blocks);
}

bool bench_play(hc_engine *const *engines, const struct bench_shape *shape, double seconds, bool paced, bool judges,
                struct bench_result *r, char *why, size_t cap)
{
    double period = (double)shape->block / shape->rate;
    int64_t n = (int64_t)ceil(seconds / period), counted = 0, late = 0;
    struct player p = {0};
    if (n < 1) n = 1;
    if (!player_open(&p, shape, n)) {
        player_close(&p);
        return message_write(why, cap, "bench: no memory for %d channels; use fewer", shape->n_in);
    }
    r->period_us = 1e6 * period;
    r->n_missed = r->by_engine = r->by_wakeup = 0;
    r->real_time = paced && priority_raise();
    int code = stagger(engines, shape, &p);
    double due = stopwatch_now() + period, began = 0, others = 0;
    for (int64_t i = -FIRST_BLOCKS; i < n && code >= HC_OK; i++) {
        player_aim(&p, shape, i + FIRST_BLOCKS);
        if (i == 0) {
            late = late_blocks(engines, shape->n_engines, &r->info);
            others = others_s();
            began = stopwatch_now();
        }
        if (paced) wait_for_period(due);
        long interrupted = n_interruptions();
        double start = stopwatch_now();
        if (shape->each.call) shape->each.call(shape->each.data);
        for (int k = 0; k < shape->n_engines && code >= HC_OK; k++)
            code = hc_process(engines[k], p.in, p.out, shape->block);
        double end = stopwatch_now();
        bool missed = paced && end > due + period;
        if (i >= 0) {
            p.durations[i] = end - start;
            p.woke[i] = paced ? start - due : 0;
            counted = i + 1;
            bool by_engine = missed && end - start > period && n_interruptions() == interrupted;
            r->n_missed += missed;
            r->by_engine += by_engine;
            r->by_wakeup += missed && !by_engine;
            if (judges && (r->by_engine > 0 || too_many_late(r->by_wakeup, n))) break;
        }
        due = missed ? end + period : due + period; /* a sound card continues with the next block */
    }
    if (counted > 0) r->other_threads = fmax(0, (others_s() - others) / (stopwatch_now() - began)); /* two clocks */
    if (r->real_time) priority_restore();
    if (code >= HC_OK || counted > 0) sum_up(&p, counted > 0 ? counted : 1, r);
    float peak = 0;
    for (size_t i = 0; i < (size_t)shape->n_out * (size_t)shape->block; i++) peak = fmaxf(peak, fabsf(p.out_frames[i]));
    r->peak = (double)peak;
    player_close(&p);
    r->n_late = late_blocks(engines, shape->n_engines, &r->info) - late;
    if (code < HC_OK) return message_write(why, cap, "bench: %s", r->info.error[0] ? r->info.error : "a block failed");
    return true;
}

json_t *bench_result_json(const struct bench_shape *shape, const struct bench_result *r)
{
    return json_pack("{s:i, s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:s, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
                     "s:f, s:I, s:I, s:I, s:I, s:f, s:b}",
                     "inputs", shape->n_in, "outputs", shape->n_out, "routes", shape->diagonal ? "diagonal" : "matrix",
                     "taps", shape->taps, "seed", (json_int_t)shape->seed, "block", shape->block, "rate", shape->rate,
                     "engines", shape->n_engines, "backend", r->info.backend, "device", r->info.device, "setup_s",
                     r->setup_s, "memory_bytes", (json_int_t)r->info.memory * shape->n_engines, "blocks",
                     (json_int_t)r->n_blocks, "period_us", r->period_us, "mean_us", r->mean_us, "p50_us", r->p50_us,
                     "p99_us", r->p99_us, "p999_us", r->p999_us, "max_us", r->max_us, "wakeup_p999_us", r->jitter_us,
                     "missed", (json_int_t)r->n_missed, "missed_by_engine", (json_int_t)r->by_engine,
                     "missed_by_wakeup", (json_int_t)r->by_wakeup, "late", (json_int_t)r->n_late,
                     "other_processors_busy", r->other_threads, "real_time", (int)r->real_time);
}
