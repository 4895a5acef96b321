#include "bench_play.h"

#include "dsp/bench.h"
#include "host/message.h"
#include "host/option.h"
#include "host/stopwatch.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    NOISE_FRAMES = 1 << 16,
    FIRST_BLOCKS = 50, /* that do not count */
    PRIORITY = 70,
};

static const double spin_s = 100e-6; /* before a block is due: a sleep ends when the system likes */

struct bench_shape bench_shape_usual(void)
{
    return (struct bench_shape){
        .block = 64, .rate = 48000, .n_engines = 1, .wait_us = -1, .backend = "auto", .method = "auto", .seed = 1};
}

bool bench_play_option(int option, const char *text, struct bench_shape *shape, double *seconds)
{
    switch (option) {
    case BENCH_TAPS:
        *seconds = 0;
        return option_int("bench", "--taps", text, 1, 1 << 28, &shape->taps);
    case BENCH_SECONDS:
        return option_number("bench", "--seconds", text, 1e-4, 600, seconds);
    case BENCH_BLOCK:
        return option_int("bench", "--block", text, 1, 1 << 20, &shape->block);
    case BENCH_RATE:
        return option_int("bench", "--rate", text, 1, 10000000, &shape->rate);
    case BENCH_BACKEND:
        shape->backend = text;
        return true;
    case BENCH_THREADS:
        return option_int("bench", "--threads", text, 0, 256, &shape->n_threads);
    case BENCH_METHOD:
        shape->method = text;
        return true;
    default:
        message_note("see `haloconv bench --help`");
        return false;
    }
}

static hc_config config_of(const struct bench_shape *shape)
{
    hc_config c;
    hc_config_init(&c);
    c.rate = shape->rate;
    c.block = shape->block;
    c.n_in = shape->n_in;
    c.n_out = shape->n_out;
    c.max_taps = shape->taps;
    int64_t n_routes = shape->diagonal ? shape->n_in : (int64_t)shape->n_in * shape->n_out;
    c.n_routes = n_routes > INT32_MAX ? INT32_MAX : (int)n_routes;
    c.n_threads = shape->n_threads;
    c.wait_us = shape->wait_us == 0 ? -2 : shape->wait_us; /* hc_config: 0 is the default, -2 does not wait */
    c.spin = shape->spin;
    c.backend = shape->backend;
    c.method = shape->method;
    return c;
}

/* The system hands out more memory than it has and ends the program that uses it: look before. The responses are there
 * twice for a while, as taps and as spectra. */
static bool fits(const hc_config *config, int n_engines, char *why, size_t cap)
{
    hc_info plan = {.size = sizeof plan};
    if (hc_plan(config, &plan, why, cap) != HC_OK) return false;
    if (strcmp(plan.backend, "cpu") != 0) return true; /* the device's memory is the backend's to count */
    double needs = n_engines * (double)plan.memory + 4.0 * config->max_taps * config->n_routes;
    double there = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needs < 0.9 * there) return true;
    return message_write(why, cap, "%d responses of %d taps: need %.1f GB, and %.1f GB are free; take fewer",
                         config->n_routes, config->max_taps, needs * 1e-9, there * 1e-9);
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
    if (!fits(&config, shape->n_engines, why, cap)) return false;
    for (int i = 0; i < shape->n_engines; i++) {
        hc_mask *mask;
        if (hc_open(&config, &engines[i], why, cap) != HC_OK ||
            hc_mask_make_noise(engines[i], shape->diagonal, shape->taps, shape->taps, shape->seed + (uint64_t)i, &mask,
                               why, cap) != HC_OK) {
            bench_close(shape, engines);
            return false;
        }
        hc_mask_swap(engines[i], mask);
    }
    result->setup_s = stopwatch_now() - start;
    result->info.size = sizeof result->info;
    hc_get_info(engines[0], &result->info);
    return true;
}

/* ---- playing ------------------------------------------------------------------------------------ */

struct player {
    float *noise;      /* [NOISE_FRAMES + block]: every channel's input, each from a place of its own */
    float *out_frames; /* [n_out][block] */
    const float **in;
    float **out;
    double *took, *woke; /* [n]: seconds */
};

static void player_close(struct player *p)
{
    free(p->noise);
    free(p->out_frames);
    free(p->in);
    free(p->out);
    free(p->took);
    free(p->woke);
}

static bool player_open(struct player *p, const struct bench_shape *shape, int64_t n)
{
    size_t block = (size_t)shape->block;
    p->noise = malloc((NOISE_FRAMES + block) * sizeof *p->noise);
    p->out_frames = calloc((size_t)shape->n_out * block, sizeof *p->out_frames);
    p->in = calloc((size_t)shape->n_in, sizeof *p->in);
    p->out = calloc((size_t)shape->n_out, sizeof *p->out);
    p->took = calloc((size_t)n, sizeof *p->took);
    p->woke = calloc((size_t)n, sizeof *p->woke);
    if (!p->noise || !p->out_frames || !p->in || !p->out || !p->took || !p->woke) return false;
    uint32_t state = 1;
    for (size_t i = 0; i < NOISE_FRAMES + block; i++) {
        state = state * 1664525u + 1013904223u;
        p->noise[i] = (float)((double)state / 4294967296.0 - 0.5);
    }
    for (int ch = 0; ch < shape->n_out; ch++) p->out[ch] = p->out_frames + (size_t)ch * block;
    return true;
}

static void aim(struct player *p, const struct bench_shape *shape, int64_t block)
{
    for (int ch = 0; ch < shape->n_in; ch++)
        p->in[ch] = p->noise + ((uint64_t)block * (uint64_t)shape->block + 977u * (uint64_t)ch) % NOISE_FRAMES;
}

static void wait_until(double when)
{
    double sleep = when - spin_s;
    struct timespec t = {.tv_sec = (time_t)sleep, .tv_nsec = (long)((sleep - floor(sleep)) * 1e9)};
    if (sleep > stopwatch_now())
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
    while (stopwatch_now() < when) continue;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
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
    for (int64_t i = 0; i < n; i++) r->mean_us += 1e6 * p->took[i] / (double)n;
    qsort(p->took, (size_t)n, sizeof *p->took, by_size);
    qsort(p->woke, (size_t)n, sizeof *p->woke, by_size);
    r->p50_us = quantile_us(p->took, n, 0.5);
    r->p99_us = quantile_us(p->took, n, 0.99);
    r->p999_us = quantile_us(p->took, n, 0.999);
    r->max_us = 1e6 * p->took[n - 1];
    r->jitter_us = quantile_us(p->woke, n, 0.999);
}

/* A sound card's priority, where the system lets us; put back afterwards. */
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

/* Processors' seconds of this program's other threads. */
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

/* Each engine with a tail on a device calls that once in so many frames, counted from the begin of its stream. The
 * streams begin one block apart, as those of plugins do that a user adds, so that the engines do not all call it in the
 * same callback. */
static int stagger(hc_engine *const *engines, const struct bench_shape *shape, struct player *p)
{
    int code = HC_OK;
    for (int k = 1; k < shape->n_engines; k++) {
        hc_info info = {.size = sizeof info};
        hc_get_info(engines[k], &info);
        if (info.n_tail_levels == 0 || info.frames > 0) continue;
        int every = info.levels[info.n_levels - info.n_tail_levels].offset / 2;
        aim(p, shape, 0);
        for (int64_t left = (int64_t)k * shape->block % every; left > 0 && code >= HC_OK; left -= shape->block)
            code = hc_process(engines[k], p->in, p->out, left < shape->block ? (int)left : shape->block);
    }
    return code;
}

bool bench_play(hc_engine *const *engines, const struct bench_shape *shape, double seconds, bool paced,
                int64_t may_miss, struct bench_result *r, char *why, size_t cap)
{
    double period = (double)shape->block / shape->rate;
    int64_t n = (int64_t)ceil(seconds / period), counted = 0, late = 0;
    struct player p = {0};
    if (n < 1) n = 1;
    if (!player_open(&p, shape, n)) {
        player_close(&p);
        return message_write(why, cap, "bench: no memory for %d channels; take fewer", shape->n_in);
    }
    r->period_us = 1e6 * period;
    r->n_missed = r->by_engine = r->by_wakeup = 0;
    r->real_time = paced && priority_raise();
    int code = stagger(engines, shape, &p);
    double due = stopwatch_now() + period, began = 0, others = 0;
    for (int64_t i = -FIRST_BLOCKS; i < n && code >= HC_OK; i++) {
        aim(&p, shape, i + FIRST_BLOCKS);
        if (i == 0) {
            late = late_blocks(engines, shape->n_engines, &r->info);
            others = others_s();
            began = stopwatch_now();
        }
        if (paced) wait_until(due);
        double start = stopwatch_now();
        for (int k = 0; k < shape->n_engines && code >= HC_OK; k++)
            code = hc_process(engines[k], p.in, p.out, shape->block);
        double end = stopwatch_now();
        bool missed = paced && end > due + period;
        if (i >= 0) {
            p.took[i] = end - start;
            p.woke[i] = paced ? start - due : 0;
            counted = i + 1;
            if (missed) r->n_missed++, (end - start > period ? r->by_engine++ : r->by_wakeup++);
            if (may_miss >= 0 && r->n_missed > may_miss) break;
        }
        due = missed ? end + period : due + period; /* a card goes on with what comes next */
    }
    if (counted > 0) r->beside = fmax(0, (others_s() - others) / (stopwatch_now() - began)); /* two clocks */
    if (r->real_time) priority_restore();
    if (code >= HC_OK || counted > 0) sum_up(&p, counted > 0 ? counted : 1, r);
    r->peak = 0;
    for (size_t i = 0; i < (size_t)shape->n_out * (size_t)shape->block; i++)
        r->peak = fmax(r->peak, fabs((double)p.out_frames[i]));
    player_close(&p);
    r->n_late = late_blocks(engines, shape->n_engines, &r->info) - late;
    if (code < HC_OK) return message_write(why, cap, "bench: %s", r->info.error[0] ? r->info.error : "a block failed");
    return true;
}
