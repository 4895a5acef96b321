/* engine - the mailbox of masks, the queue to a worker where a backend needs one, and the counters.
 *
 *   hc_process -> slot.in -> [ in place | queue -> worker ] -> render: take a new mask?, backend->process -> slot.out
 * -> out
 *
 * The driver is the thread that calls render: the audio thread for a backend that runs in place, else the worker.
 */
#include "await.h"
#include "backend.h"
#include "dsp/backends.h"
#include "dsp/costs/call_costs.h"
#include "dsp/costs/costs.h"
#include "dsp/cpu/processors.h"
#include "dsp/cpu/simd.h"
#include "ferry.h"
#include "hybrid.h"
#include "matrix.h"
#include "nap.h"
#include "worth.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    MOST_CHANNELS = 65536,
    LOOK_MOST_US = 25000, /* longest look for the next block before a thread sleeps */
    MOST_LEAVING = 4,
    MOST_FLIGHT = 16, /* of a file's blocks */
    USUAL_FLIGHT = 4, /* three stages of a device, and a block that the host fills */
    N_SLOTS = 8,      /* blocks in flight to a worker; when all are, the device is hung and blocks are given up */
};

struct hc_mask {
    hc_engine *engine;
    void *impl;           /* the backend's */
    atomic_int uses;      /* by the mailbox and the driver */
    bool released;        /* hc_mask_free was called; under engine->setup */
    struct hc_mask *next; /* engine->masks; under engine->setup */
};

struct queue {
    pthread_t thread;
    sem_t work; /* posted once a block, and once to end */
    sem_t done; /* posted once a block where hc_process waits without end */
    atomic_bool end;
    atomic_uint_fast64_t posted, finished; /* blocks; block i lies in slot i % n_slots */
    int n_frames[N_SLOTS];
    int64_t posted_us[N_SLOTS]; /* when it was */
    int64_t gap[N_SLOTS];       /* frames lost before this block because every slot was taken: silence in the history */
    int64_t look_us;            /* how long a thread looks for the other before it sleeps; 0 = not at all */
    struct nap nap;             /* before it looks; worker only */
    int64_t lost;               /* frames lost since the last block posted; audio thread only */
    struct ferry *ferry;        /* NULL: hc_process copies by itself, before and after */
    struct slot silence;        /* for the gaps, where hc_process may go on without its block; worker only */
};

struct hc_engine {
    hc_config config;
    struct plan plan, tail_plan; /* tail_plan: where plan.tail points to it */
    struct plan_costs costs;     /* that the plan was made by */
    const struct backend *backend;
    const struct simd *simd;
    void *state;
    struct slot slots[MOST_FLIGHT];
    int n_slots;                  /* 1 where hc_process always waits for its block */
    int flight;                   /* blocks that hc_submit may start; 0 behind a queue */
    bool halves;                  /* the backend's begin and end do it; else hc_submit convolves at once */
    int sizes[MOST_FLIGHT];       /* frames of the blocks under way, by slot */
    int64_t frames_submitted;     /* since open or reset, as are n_submitted and n_collected */
    int64_t count_from, count_to; /* hc_count_set */
    uint64_t n_submitted, n_collected;
    struct queue *queue; /* NULL: in place */

    _Atomic(hc_mask *) mailbox;     /* the mask to fade to next, or &no_news */
    hc_mask *from, *to;             /* driver only */
    hc_mask *leaving[MOST_LEAVING]; /* heard no more, maybe still worked on by the backend's threads; driver only */
    int n_leaving;
    hc_mask *coming;        /* taken from the mailbox, its far levels are not there yet; driver only */
    bool is_coming;         /* driver only; `coming` may be NULL: silence */
    int fade_pos, fade_len; /* driver only; fade_len = 0: no fade */
    bool fresh;             /* nothing heard since open or reset: the first mask needs no fade; driver only */

    pthread_mutex_t setup;
    hc_mask *masks;
    char device[128];
    char error[256]; /* written before `lost` is set */
    atomic_bool lost;
    atomic_int wait_us; /* as in the config, until hc_wait_set */
    int64_t rendered;   /* frames; driver only */
    atomic_uint_fast64_t blocks, frames, late, non_finite, swaps, swap_frame;
    uint64_t clipped; /* of blocks collected */
    unsigned peak_bits;
};

static hc_mask no_news; /* its address alone is used */

void hc_config_init(hc_config *config)
{
    *config = (hc_config){.rate = 48000,
                          .block = 64,
                          .n_in = 2,
                          .n_out = 2,
                          .max_taps = 48000,
                          .n_routes = 0,
                          .wait_us = -1,
                          .fade_frames = 512,
                          .n_frames = 0,
                          .backend = "auto",
                          .method = "auto",
                          .in_samples = HC_PLANAR,
                          .out_samples = HC_PLANAR,
                          .flight = 0,
                          .n_threads = 0,
                          .spin = 0};
}

/* ---- the driver ----------------------------------------------------------------------------------------------------
 */

static void mask_drop(hc_mask *mask)
{
    if (mask) atomic_fetch_sub_explicit(&mask->uses, 1, memory_order_release);
}

/* Those that the backend's threads are done with, or that play again, may go. */
static void let_go(hc_engine *e)
{
    for (int i = 0; i < e->n_leaving;) {
        hc_mask *mask = e->leaving[i];
        bool again = mask == e->to || mask == e->from || (e->is_coming && mask == e->coming);
        if (!again && e->backend->mask_idle && !e->backend->mask_idle(e->state, mask->impl)) {
            i++;
            continue;
        }
        mask_drop(mask);
        e->leaving[i] = e->leaving[--e->n_leaving];
    }
}

/* It is heard no more. */
static void mask_leave(hc_engine *e, hc_mask *mask)
{
    if (!mask) return;
    if (e->backend->mask_rest) e->backend->mask_rest(e->state, mask->impl);
    e->leaving[e->n_leaving++] = mask;
}

static void take_news(hc_engine *e)
{
    if (e->is_coming || atomic_load_explicit(&e->mailbox, memory_order_relaxed) == &no_news) return;
    hc_mask *mask = atomic_exchange_explicit(&e->mailbox, &no_news, memory_order_acquire);
    if (mask == &no_news) return;
    if (mask == e->to) {
        mask_drop(mask); /* it plays already and is counted once for that */
        return;
    }
    e->coming = mask;
    e->is_coming = true;
    if (mask && e->backend->mask_warm) e->backend->mask_warm(e->state, mask->impl);
}

/* Begin what is coming as soon as it can sound with its full tail. What is asked for meanwhile waits in the mailbox: if
 * it took the place of what is coming, a knob that is turned without a pause would never be heard. */
static void begin_fade(hc_engine *e)
{
    hc_mask *mask = e->coming;
    if (!e->is_coming || e->n_leaving == MOST_LEAVING) return;
    if (mask && !e->fresh && e->backend->mask_ready && !e->backend->mask_ready(e->state, mask->impl)) return;
    e->coming = NULL;
    e->is_coming = false;
    atomic_store_explicit(&e->swap_frame, (uint64_t)e->rendered, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->swaps, 1, memory_order_relaxed);
    if (e->fresh || e->config.fade_frames == 0) {
        mask_leave(e, e->to);
        e->to = mask;
        return;
    }
    e->from = e->to;
    e->to = mask;
    e->fade_pos = 0;
    e->fade_len = e->config.fade_frames;
}

static void end_fade(hc_engine *e)
{
    mask_leave(e, e->from);
    e->from = NULL;
    e->fade_len = 0;
}

/* What the next block plays. */
static struct fade fade_begin(hc_engine *e)
{
    if (e->n_leaving > 0) let_go(e);
    if (e->fade_len == 0) {
        take_news(e);
        begin_fade(e);
    }
    return (struct fade){e->from ? e->from->impl : NULL, e->to ? e->to->impl : NULL, e->fade_pos, e->fade_len, NULL};
}

/* n frames of it were played. */
static void fade_advance(hc_engine *e, int n)
{
    e->fresh = false;
    e->rendered += n;
    if (e->fade_len > 0 && (e->fade_pos += n) >= e->fade_len) end_fade(e);
}

static int render(hc_engine *e, struct slot *slot, int n, char *why, size_t cap)
{
    struct fade fade = fade_begin(e);
    int error = e->halves ? e->backend->begin(e->state, slot, n, &fade, why, cap)
                          : slot_play(e->backend, e->state, slot, n, &fade, why, cap);
    fade_advance(e, n);
    return error;
}

/* To wake a thread that sleeps takes 50 to 200 us on some machines, more than a block of audio takes the device: while
 * blocks come, both sides look for each other for two blocks' time before they sleep, the worker from a while before
 * its next block is expected on (nap.h). */
static void look(const hc_engine *e, const atomic_uint_fast64_t *counter, uint64_t past)
{
    if (!e->queue->look_us) return;
    int64_t until = now_us() + e->queue->look_us;
    while (atomic_load_explicit(counter, memory_order_acquire) <= past && now_us() < until &&
           !atomic_load_explicit(&e->queue->end, memory_order_relaxed))
        cpu_relax();
}

/* Files have time; and where there are hardly more processors than threads, who looks is in the way. */
static int64_t look_time(const hc_config *c)
{
    int64_t us = 2000000LL * c->block / c->rate;
    if (processors_usable() < 4) return 0;
    return us < LOOK_MOST_US ? us : LOOK_MOST_US;
}

static void count_non_finite(hc_engine *e, size_t bad)
{
    if (bad) atomic_fetch_add_explicit(&e->non_finite, bad, memory_order_relaxed);
}

/* A block into a slot, and out of it. */
static void slot_load(hc_engine *e, struct slot *slot, const float *const *in, int n)
{
    size_t bad = 0;
    for (int ch = 0; ch < e->config.n_in; ch++)
        bad += e->simd->copy_finite(slot->in + (size_t)ch * e->plan.block, in[ch], n);
    count_non_finite(e, bad);
}

static void slot_unload(const hc_engine *e, const struct slot *slot, float *const *out, int n)
{
    for (int ch = 0; ch < e->config.n_out; ch++)
        memcpy(out[ch], slot->out + (size_t)ch * e->plan.block, (size_t)n * sizeof(float));
}

/* false: nobody posted it by then. */
static bool sem_wait_until(sem_t *sem, int64_t until_us)
{
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int error;
    while ((error = sem_clockwait(sem, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) continue;
    return error == 0;
}

/* Returns when there is a block, or the end. One that comes while the worker sleeps wakes it. */
static void await_work(hc_engine *e)
{
    struct queue *q = e->queue;
    uint64_t finished = atomic_load_explicit(&q->finished, memory_order_relaxed);
    int64_t until = q->look_us && !e->config.spin ? nap_until(&q->nap, now_us()) : 0;
    if (until > 0 && atomic_load_explicit(&q->posted, memory_order_acquire) == finished) {
        bool has_come = sem_wait_until(&q->work, until);
        nap_woken(&q->nap, now_us());
        /* The semaphore has said as much, but race detectors do not know this wait. */
        (void)atomic_load_explicit(&q->posted, memory_order_acquire);
        if (has_come) return;
    }
    look(e, &q->posted, finished);
    while (sem_wait(&q->work) != 0 && errno == EINTR) continue;
}

static void *worker(void *arg)
{
    hc_engine *e = arg;
    struct queue *q = e->queue;
    char why[sizeof e->error] = "";
    simd_denormals_off();
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns, for naps: as a rule a sleep may take 50 us more than it should */
    for (;;) {
        await_work(e);
        if (atomic_load(&q->end)) return NULL;
        uint64_t i = atomic_load_explicit(&q->finished, memory_order_relaxed);
        int slot = (int)(i % (uint64_t)e->n_slots);
        nap_posted(&q->nap, q->posted_us[slot]);
        int error = atomic_load_explicit(&e->lost, memory_order_relaxed) ? HC_EDEVICE : HC_OK;
        for (int64_t gap = q->gap[slot]; gap > 0 && !error; gap -= e->plan.block)
            error = render(e, &q->silence, gap < e->plan.block ? (int)gap : e->plan.block, why, sizeof why);
        if (!error) error = render(e, &e->slots[slot], q->n_frames[slot], why, sizeof why);
        if (error && !atomic_load_explicit(&e->lost, memory_order_relaxed)) {
            memcpy(e->error, why, sizeof why);
            atomic_store_explicit(&e->lost, true, memory_order_release);
        }
        if (q->ferry) ferry_landed(q->ferry, e->config.n_out); /* an error too: nobody is left waiting */
        atomic_store_explicit(&q->finished, i + 1, memory_order_release);
        if (e->config.wait_us < 0) sem_post(&q->done);
    }
}

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

/* Its thread has ended, or never began. */
static void queue_free(hc_engine *e)
{
    struct queue *q = e->queue;
    sem_destroy(&q->work);
    sem_destroy(&q->done);
    slot_free(e->backend, e->state, &q->silence);
    ferry_close(q->ferry);
    free(q);
    e->queue = NULL;
}

static void queue_close(hc_engine *e)
{
    struct queue *q = e->queue;
    if (!q) return;
    atomic_store(&q->end, true);
    sem_post(&q->work);
    pthread_join(q->thread, NULL);
    queue_free(e);
}

/* Where hc_process waits for its block the caller's buffers may be another thread's for a while. */
static bool queue_open_ferry(hc_engine *e, struct queue *q)
{
    const hc_config *c = &e->config;
    int n_hands = ferry_hands(c->n_in, c->n_out, e->plan.block, c->n_threads);
    if (c->wait_us >= 0 || !e->backend->in_parts || n_hands == 0) return true;
    q->ferry = ferry_open(n_hands, c->n_in, c->n_out, e->plan.block, q->look_us, e->simd);
    e->slots[0].ferry = q->ferry;
    return q->ferry != NULL;
}

/* In place and live, the slot is the input that was made finite: the output goes to the caller's buffers. */
static int engine_slot_make(hc_engine *e, struct slot *slot, char *why, size_t cap)
{
    int n_out = e->backend->in_place && e->config.block > 0 ? 0 : e->config.n_out;
    return slot_make(e->backend, e->state, e->config.n_in, n_out, e->plan.block, slot, why, cap);
}

static int queue_open(hc_engine *e, char *why, size_t cap)
{
    struct queue *q = calloc(1, sizeof *q);
    if (!q) return fail(HC_ENOMEM, why, cap, "no memory for the queue");
    if (e->config.wait_us >= 0) {
        int error = engine_slot_make(e, &q->silence, why, cap);
        if (error) {
            free(q);
            return error;
        }
    }
    q->look_us = look_time(&e->config);
    nap_open(&q->nap);
    sem_init(&q->work, 0, 0);
    sem_init(&q->done, 0, 0);
    e->queue = q;
    if (!queue_open_ferry(e, q))
        fail(HC_ENOMEM, why, cap, "no memory for the queue");
    else if (pthread_create(&q->thread, NULL, worker, e) != 0)
        fail(HC_ENOMEM, why, cap, "the worker thread cannot be started: %s", strerror(errno));
    else
        return HC_OK;
    queue_free(e);
    return HC_ENOMEM;
}

static int check(const hc_config *c, char *why, size_t cap)
{
    if (c->rate < 1) return fail(HC_EINVAL, why, cap, "rate %d Hz; it must be positive", c->rate);
    if (c->block < 0 || c->block > 1 << 20)
        return fail(HC_EINVAL, why, cap, "block %d is out of range (0 to %d)", c->block, 1 << 20);
    if (c->n_in < 1 || c->n_in > MOST_CHANNELS)
        return fail(HC_EINVAL, why, cap, "%d input channels; 1 to %d are possible", c->n_in, MOST_CHANNELS);
    if (c->n_out < 1 || c->n_out > MOST_CHANNELS)
        return fail(HC_EINVAL, why, cap, "%d output channels; 1 to %d are possible", c->n_out, MOST_CHANNELS);
    if (c->max_taps < 1 || c->max_taps > 1 << 28)
        return fail(HC_EINVAL, why, cap, "max_taps %d is out of range (1 to %d)", c->max_taps, 1 << 28);
    if (c->n_routes < 0) return fail(HC_EINVAL, why, cap, "n_routes %d is negative", c->n_routes);
    if (c->fade_frames < 0) return fail(HC_EINVAL, why, cap, "fade_frames %d is negative", c->fade_frames);
    if (c->n_threads < 0) return fail(HC_EINVAL, why, cap, "n_threads %d is negative", c->n_threads);
    if (strcmp(c->method, "auto") && strcmp(c->method, "direct") && strcmp(c->method, "fft"))
        return fail(HC_EINVAL, why, cap, "method \"%s\"; it is auto, direct or fft", c->method);
    for (int i = 0; i < 2; i++) {
        int samples = i == 0 ? c->in_samples : c->out_samples, kind = samples & ~HC_BIG_ENDIAN;
        if (kind < HC_PLANAR || kind > HC_FLOAT || samples == HC_BIG_ENDIAN)
            return fail(HC_EINVAL, why, cap, "%s_samples %d is no enum hc_samples", i == 0 ? "in" : "out", samples);
    }
    if (c->flight < 0 || c->flight > MOST_FLIGHT)
        return fail(HC_EINVAL, why, cap, "flight %d is out of range (0 to %d)", c->flight, MOST_FLIGHT);
    return HC_OK;
}

static struct plan_shape shape_of(const hc_config *c)
{
    int n_channels = c->n_in > c->n_out ? c->n_in : c->n_out;
    return (struct plan_shape){c->max_taps, c->block, c->n_in, c->n_out, c->n_routes ? c->n_routes : n_channels};
}

/* The backend that plays a config's blocks. */
static const struct backend *backend_for(const hc_config *c, const struct backend *backend)
{
    return c->block == 0 && backend->files ? backend->files : backend;
}

static const struct backend *cpu_for(const hc_config *c)
{
    return backend_for(c, backend_find("cpu"));
}

/* It never chooses "hybrid". By what a callback takes it should, where the near part's cost on the CPU (plan_cost_ns of
 * the first 2T taps, times the block) is below what a call to the device takes (call_ns) and the tail's is not. On an
 * H200 beside 16 Xeon cores a stereo engine of 3 s took 8.9/23/45 us of its blocks of 64 frames (p50/p99/p99.9), and
 * 31/52/110 with "cuda"; 50 plugins on that GPU took 29 % of the period (p99 70 %) where 50 on the CPU took 58 (96),
 * none late. What is not known is how much of T a tail's call takes: it must be less than a tenth with 1, 10 and 50
 * such engines (`bench engine --engines`), and with a GPU that others keep busy, or is as small as a laptop's. */
static bool gpu_is_worth_it(const hc_config *c)
{
    struct worth worth = {shape_of(c), c->method, c->rate, c->n_frames, 1};
    struct plan_costs cpu, gpu;
    const struct backend *device = backend_find("cuda");
    char text[128];
    if (!device) return false;
    if (c->block == 0) worth.n_processors = c->n_threads > 0 ? c->n_threads : processors_usable();
    bool measured = costs_find(cpu_for(c), 0, &cpu);
    if (!worth_a_look(&worth, &cpu) || device->describe(0, text, sizeof text) != HC_OK) return false;
    measured = costs_find(device, 0, &gpu) && measured;
    return worth_the_gpu(&worth, &cpu, &gpu, measured);
}

/* "cuda:1": 1, and the kind is "cuda"; "cuda": 0; -1: no number follows the colon. */
static int device_of(const char *name, char *kind, size_t cap)
{
    const char *colon = strchr(name, ':');
    char *end;
    snprintf(kind, cap, "%.*s", (int)strcspn(name, ":"), name);
    if (!colon) return 0;
    if (colon[1] < '0' || colon[1] > '9') return -1;
    long device = strtol(colon + 1, &end, 10);
    return *end == '\0' && device <= INT_MAX ? (int)device : -1;
}

/* Does "name:1" ask for anything? */
static bool has_devices(const struct backend *backend)
{
    if (backend->tail) return !backend->choice;
    return !backend->in_place;
}

static int choose_backend(const hc_config *c, const struct backend **backend, int *device, char *why, size_t cap)
{
    char kind[16];
    *device = 0;
    *backend = cpu_for(c);
    if (strcmp(c->backend, "auto") == 0) {
        if (gpu_is_worth_it(c)) *backend = backend_for(c, backend_find("cuda"));
        return HC_OK;
    }
    const struct backend *asked = backend_find(c->backend);
    int number = device_of(c->backend, kind, sizeof kind);
    bool has_number = number >= 0 && strchr(c->backend, ':');
    if (!asked && has_number) asked = backend_find(kind);
    if (asked && has_number && !has_devices(asked)) asked = NULL;
    if (asked && asked->tail && c->block == 0)
        return fail(HC_EINVAL, why, cap, "backend %s: it is for live blocks; use cuda for files", c->backend);
    if (asked && (!asked->tail || backend_find(asked->tail))) {
        if (has_number) *device = number;
        *backend = backend_for(c, asked);
        return HC_OK;
    }
    if (number >= 0 && (strcmp(kind, "cuda") == 0 || strcmp(kind, "hybrid") == 0))
        return fail(HC_EUNSUPPORTED, why, cap, "backend %s: this build has no CUDA; use cpu", c->backend);
    return fail(HC_EINVAL, why, cap, "backend \"%s\"; it is auto, cpu, cuda or hybrid, or cuda:N or hybrid:N",
                c->backend);
}

/* The backend that computes the first taps inside the call. */
static const struct backend *near_of(const struct backend *backend)
{
    return backend->near ? backend_find(backend->near) : backend;
}

/* What a backend's plan for a config is, and whether its costs were measured. device -1: none is touched. A mask that
 * ends before the tail would begin has none. */
static bool plan_make(const struct backend *backend, int device, const hc_config *c, struct plan *plan,
                      struct plan *tail_plan, struct plan_costs *costs)
{
    struct plan_shape shape = shape_of(c);
    int from = backend->tail ? 2 * hybrid_tail_block(c->rate, c->block) : 0;
    if (from == 0 || shape.max_taps <= from) {
        bool measured = costs_find(near_of(backend), backend->near ? 0 : device, costs);
        plan_choose(plan, costs, &shape, c->method);
        return measured;
    }
    struct plan_costs tail_costs;
    struct plan_shape near = shape, tail = shape;
    near.max_taps = from;
    tail.max_taps -= from;
    tail.block = from / 2;
    bool measured = costs_find(near_of(backend), 0, costs);
    costs_find(backend_find(backend->tail), device, &tail_costs);
    plan_choose(plan, costs, &near, c->method);
    plan_choose(tail_plan, &tail_costs, &tail, c->method);
    plan->tail = tail_plan;
    return measured;
}

static void levels_report(const struct plan *plan, int from, hc_info *info)
{
    if (info->n_levels + 1 + plan->n_far > HC_MOST_LEVELS) return; /* no plan has so many */
    hc_level *levels = info->levels + info->n_levels;
    info->n_levels += 1 + plan->n_far;
    levels[0] = (hc_level){from, plan->near_taps, plan->direct ? 0 : plan->partition, plan->n_partitions, 0};
    for (int i = 0; i < plan->n_far; i++) {
        const struct plan_level *far = &plan->far[i];
        int end = i + 1 < plan->n_far ? plan->far[i + 1].offset : plan->max_taps;
        levels[1 + i] =
            (hc_level){from + far->offset, end - far->offset, far->size, far->n_partitions, far->size / plan->tick};
    }
}

/* The most frames that the far levels of a new mask need, and what they need as a rule. */
static int far_delay(const struct plan *plan)
{
    return plan->n_far ? 2 * plan->far[plan->n_far - 1].size : 0;
}

static int far_usual(const struct backend *backend, const struct plan *plan, const struct plan_shape *shape)
{
    int most = far_delay(plan), usual = backend->swap_frames ? backend->swap_frames(plan, shape) : most;
    return usual < most ? usual : most;
}

/* How long the device of a tail may need until what is heard has a new mask in it: its own far levels, then the job
 * that is filled when they are there and the two that are ahead of it. */
static int tail_delay(const struct plan *tail, int far, int block)
{
    return (far > 0 && far < tail->block ? tail->block : far) + 2 * tail->block + 2 * block;
}

static void plan_report(const struct backend *backend, const struct plan *plan, const struct plan_costs *costs,
                        const struct plan_shape *shape, hc_info *info)
{
    info->block = plan->block;
    info->partition = plan->partition;
    info->n_partitions = plan->direct ? 0 : plan->n_partitions;
    info->method = plan->direct ? "direct" : "fft";
    info->tick = plan->tick;
    info->n_levels = 0;
    levels_report(plan, 0, info);
    info->swap_delay = plan->n_far ? far_delay(plan) + plan->block : 0;
    info->swap_usual = plan->n_far ? far_usual(near_of(backend), plan, shape) + plan->block : 0;
    struct plan_work work;
    plan_count(plan, shape, &work);
    info->bytes_a_frame = work.bytes;
    info->flops_a_frame = work.flops;
    info->memory = (uint64_t)work.memory;
    info->cost_ns = plan_cost_ns(plan, costs, shape);
    if (!plan->tail) return;
    int n_near = info->n_levels, delay = tail_delay(plan->tail, far_delay(plan->tail), plan->block);
    int usual = tail_delay(plan->tail, far_usual(backend_find(backend->tail), plan->tail, shape), plan->block);
    levels_report(plan->tail, plan->max_taps, info);
    info->n_tail_levels = info->n_levels - n_near;
    if (delay > info->swap_delay) info->swap_delay = delay;
    if (usual > info->swap_usual) info->swap_usual = usual;
    plan_count(plan->tail, shape, &work);
    info->bytes_a_frame += work.bytes;
    info->flops_a_frame += work.flops;
    info->memory += (uint64_t)(work.memory + hybrid_memory(plan->tail, shape));
}

int hc_plan(const hc_config *config, hc_info *info, char *why, size_t cap)
{
    memset(info, 0, sizeof *info);
    int error = check(config, why, cap);
    if (error) return error;
    const struct backend *backend = cpu_for(config);
    int device;
    if (strcmp(config->backend, "auto") != 0) error = choose_backend(config, &backend, &device, why, cap);
    if (error) return error;
    struct plan plan, tail_plan;
    struct plan_costs costs;
    struct plan_shape shape = shape_of(config);
    bool is_cpu = backend->in_place && !backend->tail;
    info->measured = plan_make(backend, is_cpu ? 0 : -1, config, &plan, &tail_plan, &costs);
    plan_report(backend, &plan, &costs, &shape, info);
    info->backend = backend->name;
    return HC_OK;
}

int hc_measure(const char *name, hc_costs *out, char *why, size_t cap)
{
    const struct backend *backend;
    int device;
    struct plan_costs costs;
    hc_config config;
    hc_config_init(&config);
    config.backend = name;
    int error = choose_backend(&config, &backend, &device, why, cap);
    if (error) return error;
    if (backend->near)
        return fail(HC_EINVAL, why, cap, "backend %s: it is made of two; measure cpu, and cuda", backend->name);
    costs = *backend->costs;
    if (!backend->in_place) {
        char own[32]; /* "auto" might choose another for an engine so small */
        snprintf(own, sizeof own, "%s:%d", backend->name, device);
        error = call_costs_measure(own, &costs.call_ns, why, cap);
    }
    if (!error && backend->measure) error = backend->measure(device, &costs, why, cap);
    if (error) return error;
    int n_built_in = costs_mend(backend, &costs);
    costs_keep(backend, device, &costs);
    *out = (hc_costs){costs.mac_ns,      costs.cmac_ns,   costs.live_cmac_ns, costs.fft_ns,  costs.far_fft_ns,
                      costs.far_cmac_ns, costs.launch_ns, costs.slice_ns,     costs.call_ns, n_built_in};
    return HC_OK;
}

static void device_name(const hc_engine *e, int device, char *name, size_t cap)
{
    const struct backend *near = near_of(e->backend), *tail = e->backend->tail ? backend_find(e->backend->tail) : NULL;
    char text[96], tail_text[96];
    if (near->describe(near == e->backend ? device : 0, text, sizeof text) != HC_OK) text[0] = '\0';
    if (!tail && near->in_place)
        snprintf(name, cap, "%s %s", near->name, text);
    else if (!tail)
        snprintf(name, cap, "%s:%d %s", near->name, device, text);
    else if (tail->in_place)
        snprintf(name, cap, "%s %s; %s", e->backend->name, text, e->plan.tail ? "tail on a thread" : "no tail");
    else if (!e->plan.tail)
        snprintf(name, cap, "%s %s; no tail for %s:%d", e->backend->name, text, tail->name, device);
    else if (tail->describe(device, tail_text, sizeof tail_text) == HC_OK)
        snprintf(name, cap, "%s %.32s; tail on %s:%d %.64s", e->backend->name, text, tail->name, device, tail_text);
}

static int open_on(hc_engine *e, int device, char *why, size_t cap)
{
    plan_make(e->backend, device, &e->config, &e->plan, &e->tail_plan, &e->costs);
    e->halves = e->config.block == 0 && e->backend->begin && e->plan.n_far == 0;
    if (!e->halves || !e->backend->raw) e->config.in_samples = e->config.out_samples = HC_PLANAR;
    if (e->config.flight < 2) e->config.flight = e->config.flight ? 2 : USUAL_FLIGHT;
    e->flight = e->halves ? e->config.flight : e->backend->in_place && e->config.block == 0 ? 1 : 0;
    e->n_slots = e->halves ? e->flight : e->backend->in_place || e->config.wait_us < 0 ? 1 : N_SLOTS;
    int error = e->backend->open(&e->config, &e->plan, device, &e->state, why, cap);
    if (error) return error;
    device_name(e, device, e->device, sizeof e->device);
    for (int i = 0; i < e->n_slots; i++) {
        error = engine_slot_make(e, &e->slots[i], why, cap);
        if (error) return error;
    }
    return e->backend->in_place || e->halves ? HC_OK : queue_open(e, why, cap);
}

/* Undo open_on, whole or in part. */
static void close_on(hc_engine *e)
{
    queue_close(e);
    for (int i = 0; i < e->n_slots; i++) slot_free(e->backend, e->state, &e->slots[i]);
    if (e->state) e->backend->close(e->state);
    e->state = NULL;
}

int hc_open(const hc_config *config, hc_engine **engine, char *why, size_t cap)
{
    *engine = NULL;
    int device, error = check(config, why, cap);
    if (error) return error;
    hc_engine *e = calloc(1, sizeof *e);
    if (!e) return fail(HC_ENOMEM, why, cap, "no memory for an engine");
    e->config = *config;
    if (config->block > 0) costs_measure_once(backend_find("cpu"));
    error = choose_backend(config, &e->backend, &device, why, cap);
    if (error) goto fail;
    bool automatic = strcmp(config->backend, "auto") == 0;
    e->config.backend = NULL; /* the caller's strings may go */
    e->config.method = strcmp(config->method, "direct") == 0 ? "direct"
                       : strcmp(config->method, "fft") == 0  ? "fft"
                                                             : "auto";
    e->count_to = INT64_MAX;
    atomic_init(&e->mailbox, &no_news);
    atomic_init(&e->wait_us, config->wait_us);
    e->fresh = true;
    e->simd = simd_choose();
    pthread_mutex_init(&e->setup, NULL);
    error = open_on(e, device, why, cap);
    if (error && automatic && e->backend != cpu_for(config)) {
        close_on(e);
        e->backend = cpu_for(config);
        error = open_on(e, 0, why, cap);
    }
    if (error) {
        close_on(e);
        pthread_mutex_destroy(&e->setup);
        goto fail;
    }
    *engine = e;
    return HC_OK;
fail:
    free(e);
    return error;
}

void hc_close(hc_engine *e)
{
    if (!e) return;
    queue_close(e);
    if (e->backend->in_place) e->backend->reset(e->state, NULL, 0); /* its threads let go of the masks */
    while (e->masks) {
        hc_mask *mask = e->masks;
        e->masks = mask->next;
        e->backend->mask_free(e->state, mask->impl);
        free(mask);
    }
    close_on(e);
    pthread_mutex_destroy(&e->setup);
    free(e);
}

/* ---- masks ---------------------------------------------------------------------------------------------------------
 */

/* Free the masks that were given up and are no longer played. Under e->setup. */
static void sweep(hc_engine *e)
{
    for (hc_mask **link = &e->masks; *link;) {
        hc_mask *mask = *link;
        if (mask->released && atomic_load_explicit(&mask->uses, memory_order_acquire) == 0) {
            *link = mask->next;
            e->backend->mask_free(e->state, mask->impl);
            free(mask);
        } else {
            link = &mask->next;
        }
    }
}

/* Under e->setup. */
static void mask_enlist(hc_engine *e, hc_mask *mask)
{
    mask->engine = e;
    mask->next = e->masks;
    e->masks = mask;
}

int hc_mask_make(hc_engine *e, const hc_route *routes, int n, hc_mask **out, char *why, size_t cap)
{
    *out = NULL;
    struct matrix matrix;
    int error = matrix_make(&matrix, &e->config, routes, n, why, cap);
    if (error) return error;
    hc_mask *mask = calloc(1, sizeof *mask);
    pthread_mutex_lock(&e->setup);
    sweep(e);
    error = mask ? e->backend->mask_make(e->state, &matrix, &mask->impl, why, cap)
                 : fail(HC_ENOMEM, why, cap, "no memory for a mask");
    if (!error) mask_enlist(e, *out = mask);
    pthread_mutex_unlock(&e->setup);
    matrix_free(&matrix);
    if (error) free(mask);
    return error;
}

static int impl_of_noise(hc_engine *e, const struct noise *noise, void **impl, char *why, size_t cap)
{
    if (e->backend->mask_make_noise) return e->backend->mask_make_noise(e->state, noise, impl, why, cap);
    struct matrix matrix;
    int error = matrix_of_noise(&matrix, &e->config, noise, why, cap);
    if (error) return error;
    error = e->backend->mask_make(e->state, &matrix, impl, why, cap);
    matrix_free(&matrix);
    return error;
}

/* 60 dB in rt60 frames; the squares of a response are expected to add up to 1. */
static void envelope_fill(float *envelope, int n_taps, double rt60)
{
    double decay = -3 * log(10) / rt60, energy = 0;
    for (int k = 0; k < n_taps; k++) energy += exp(2 * decay * k) / 3; /* a third: of numbers in -1...1 */
    for (int k = 0; k < n_taps; k++) envelope[k] = (float)(exp(decay * k) / sqrt(energy));
}

int hc_mask_make_noise(hc_engine *e, int diagonal, int n_taps, double rt60, uint64_t seed, hc_mask **out, char *why,
                       size_t cap)
{
    *out = NULL;
    if (n_taps < 1 || n_taps > e->config.max_taps)
        return fail(HC_EINVAL, why, cap, "noise of %d taps; 1 to max_taps (%d) are possible", n_taps,
                    e->config.max_taps);
    if (!(rt60 > 0) || !isfinite(rt60)) return fail(HC_EINVAL, why, cap, "rt60 %g; it must be positive", rt60);
    float *envelope = malloc((size_t)n_taps * sizeof *envelope);
    hc_mask *mask = calloc(1, sizeof *mask);
    int error = HC_ENOMEM;
    if (!envelope || !mask) {
        fail(HC_ENOMEM, why, cap, "no memory for a mask");
        goto end;
    }
    envelope_fill(envelope, n_taps, rt60);
    struct noise noise = {seed, diagonal != 0, n_taps, envelope};
    pthread_mutex_lock(&e->setup);
    sweep(e);
    error = impl_of_noise(e, &noise, &mask->impl, why, cap);
    if (!error) mask_enlist(e, *out = mask);
    pthread_mutex_unlock(&e->setup);
end:
    free(envelope);
    if (error) free(mask);
    return error;
}

void hc_mask_free(hc_engine *e, hc_mask *mask)
{
    if (!mask) return;
    pthread_mutex_lock(&e->setup);
    mask->released = true;
    sweep(e);
    pthread_mutex_unlock(&e->setup);
}

int hc_mask_swap(hc_engine *e, hc_mask *mask)
{
    if (mask && mask->engine != e) return HC_EINVAL;
    if (mask) atomic_fetch_add_explicit(&mask->uses, 1, memory_order_relaxed);
    /* Last wins: a knob turned quickly would otherwise queue a second of fades. */
    hc_mask *unheard = atomic_exchange_explicit(&e->mailbox, mask, memory_order_acq_rel);
    if (unheard != &no_news) mask_drop(unheard);
    return HC_OK;
}

/* ---- audio ---------------------------------------------------------------------------------------------------------
 */

static void silence(const hc_engine *e, float *const *out, int n)
{
    for (int ch = 0; ch < e->config.n_out; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
}

/* Hand the block to the worker and wait for it as long as allowed; the output is in out then. False: late. */
static bool through_worker(hc_engine *e, const float *const *in, float *const *out, int n)
{
    struct queue *q = e->queue;
    int64_t until = await_until(atomic_load_explicit(&e->wait_us, memory_order_relaxed));
    uint64_t i = atomic_load_explicit(&q->posted, memory_order_relaxed), n_slots = (uint64_t)e->n_slots;
    if (i >= n_slots && !await(&q->finished, i + 1 - n_slots, until)) {
        q->lost += n;
        return false;
    }
    int s = (int)(i % n_slots);
    struct slot *slot = &e->slots[s];
    if (q->ferry)
        ferry_begin(q->ferry, slot, in, out, n);
    else
        slot_load(e, slot, in, n);
    q->n_frames[s] = n;
    q->gap[s] = q->lost;
    q->lost = 0;
    q->posted_us[s] = now_us();
    atomic_store_explicit(&q->posted, i + 1, memory_order_release);
    sem_post(&q->work);
    if (q->ferry) count_non_finite(e, ferry_carry(q->ferry));
    if (e->config.wait_us < 0) {
        look(e, &q->finished, i);
        while (sem_wait(&q->done) != 0 && errno == EINTR) continue;
        if (!q->ferry) slot_unload(e, slot, out, n);
        return true;
    }
    if (!await(&q->finished, i + 1, until)) return false;
    slot_unload(e, slot, out, n);
    return true;
}

static void set_lost(hc_engine *e, const char *why)
{
    if (atomic_load_explicit(&e->lost, memory_order_relaxed)) return;
    snprintf(e->error, sizeof e->error, "%s", why);
    atomic_store_explicit(&e->lost, true, memory_order_release);
}

/* The first half of a block in slot: with begin on its way, else convolved. */
static void start_block(hc_engine *e, struct slot *slot, int n)
{
    char why[sizeof e->error] = "";
    if (atomic_load_explicit(&e->lost, memory_order_relaxed)) return;
    if (render(e, slot, n, why, sizeof why) < 0) set_lost(e, why);
}

int hc_room(hc_engine *e, int64_t i, void **in, const void **out)
{
    if (e->flight == 0 || i < 0) return HC_EINVAL;
    const struct slot *slot = &e->slots[i % e->n_slots];
    if (in) *in = slot->in;
    if (out) *out = slot->out;
    return HC_OK;
}

void hc_count_set(hc_engine *e, int64_t from, int64_t to)
{
    e->count_from = from;
    e->count_to = to;
}

/* Of a block of n frames at `at`, where frame `frame` of the stream lies. */
static int within(int64_t frame, int64_t at, int n)
{
    return frame <= at ? 0 : frame - at > n ? n : (int)(frame - at);
}

int hc_submit(hc_engine *e, const float *const *in, int n)
{
    if (n < 1 || n > e->plan.block || e->n_submitted - e->n_collected >= (uint64_t)e->flight) return HC_EINVAL;
    if (in && e->config.in_samples != HC_PLANAR) return HC_EINVAL;
    unsigned fp_state = simd_denormals_off();
    int i = (int)(e->n_submitted++ % (uint64_t)e->n_slots);
    e->sizes[i] = n;
    e->slots[i].count_from = within(e->count_from, e->frames_submitted, n);
    e->slots[i].count_to = within(e->count_to, e->frames_submitted, n);
    e->frames_submitted += n;
    if (in) slot_load(e, &e->slots[i], in, n);
    start_block(e, &e->slots[i], n);
    simd_denormals_restore(fp_state);
    return atomic_load_explicit(&e->lost, memory_order_acquire) ? HC_EDEVICE : HC_OK;
}

static void add_seen(hc_engine *e, const struct slot_seen *seen)
{
    if (seen->peak_bits > e->peak_bits) e->peak_bits = seen->peak_bits;
    e->clipped += seen->clipped;
    count_non_finite(e, seen->non_finite);
}

int hc_collect(hc_engine *e, float *const *out)
{
    char why[sizeof e->error] = "";
    if (e->n_submitted == e->n_collected || (out && e->config.out_samples != HC_PLANAR)) return HC_EINVAL;
    int i = (int)(e->n_collected++ % (uint64_t)e->n_slots), n = e->sizes[i];
    bool lost = atomic_load_explicit(&e->lost, memory_order_acquire);
    if (!lost && e->halves && e->backend->end(e->state, why, sizeof why) != HC_OK) {
        set_lost(e, why);
        lost = true;
    }
    if (out && !lost) slot_unload(e, &e->slots[i], out, n);
    if (!lost && e->slots[i].seen) add_seen(e, e->slots[i].seen);
    if (out && lost) silence(e, out, n);
    atomic_fetch_add_explicit(&e->blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->frames, (uint64_t)n, memory_order_relaxed);
    return lost ? HC_EDEVICE : n;
}

/* On this thread, from an input that is finite; the output is in out then, unless the device is lost. */
static int play_here(hc_engine *e, const float *const *in, float *const *out, int n)
{
    char why[sizeof e->error] = "";
    if (atomic_load_explicit(&e->lost, memory_order_relaxed)) return HC_EDEVICE;
    struct fade fade = fade_begin(e);
    int result = e->backend->play(e->state, &(struct rows){in, out}, n, &fade, why, sizeof why);
    fade_advance(e, n);
    if (result < 0) set_lost(e, why);
    return result;
}

int hc_process(hc_engine *e, const float *const *in, float *const *out, int n)
{
    if (n < 0 || n > e->plan.block || e->n_submitted != e->n_collected) return HC_EINVAL;
    if (e->config.in_samples != HC_PLANAR || e->config.out_samples != HC_PLANAR) return HC_EINVAL;
    if (n == 0) return HC_OK;
    if (e->halves) {
        hc_submit(e, in, n);
        return hc_collect(e, out) < 0 ? HC_EDEVICE : HC_OK;
    }
    unsigned fp_state = simd_denormals_off();
    bool played = true, is_late = false;
    if (e->queue) {
        played = through_worker(e, in, out, n);
        is_late = !played;
    } else {
        slot_load(e, &e->slots[0], in, n);
        is_late = play_here(e, e->slots[0].rows.in, out, n) == HC_LATE;
    }
    bool lost = atomic_load_explicit(&e->lost, memory_order_acquire);
    if (!played || lost) silence(e, out, n);
    simd_denormals_restore(fp_state);
    atomic_fetch_add_explicit(&e->blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->frames, (uint64_t)n, memory_order_relaxed);
    if (is_late) atomic_fetch_add_explicit(&e->late, 1, memory_order_relaxed);
    return lost ? HC_EDEVICE : is_late ? HC_LATE : HC_OK;
}

int hc_wait_set(hc_engine *e, int wait_us)
{
    bool has_device = !e->backend->in_place || e->backend->tail;
    /* Such an engine has one slot and a semaphore to sleep on: it cannot go on without its block. */
    if (has_device && e->config.wait_us < 0 && wait_us >= 0) return HC_EINVAL;
    atomic_store_explicit(&e->wait_us, wait_us < 0 ? -1 : wait_us, memory_order_relaxed);
    if (e->backend->wait_set) e->backend->wait_set(e->state, wait_us < 0 ? -1 : wait_us);
    return HC_OK;
}

void hc_reset(hc_engine *e)
{
    struct queue *q = e->queue;
    while (q && atomic_load_explicit(&q->finished, memory_order_acquire) < atomic_load(&q->posted))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    while (e->n_collected != e->n_submitted) hc_collect(e, NULL); /* nobody will */
    e->n_collected = e->n_submitted = 0;
    e->frames_submitted = 0;
    if (e->fade_len > 0) end_fade(e);
    if (q) q->lost = 0;
    e->fresh = true;
    char why[sizeof e->error] = "";
    if (e->backend->reset(e->state, why, sizeof why) != HC_OK) set_lost(e, why);
}

int hc_latency(const hc_engine *e)
{
    (void)e;
    return 0;
}

void hc_get_info(hc_engine *e, hc_info *info)
{
    memset(info, 0, sizeof *info);
    struct plan_shape shape = shape_of(&e->config);
    plan_report(e->backend, &e->plan, &e->costs, &shape, info);
    info->flight = e->flight;
    info->in_samples = e->config.in_samples;
    info->out_samples = e->config.out_samples;
    info->clipped = e->clipped;
    memcpy(&info->peak, &e->peak_bits, sizeof info->peak);
    info->backend = e->backend->name;
    memcpy(info->device, e->device, sizeof info->device);
    info->blocks = atomic_load_explicit(&e->blocks, memory_order_relaxed);
    info->frames = atomic_load_explicit(&e->frames, memory_order_relaxed);
    info->late = atomic_load_explicit(&e->late, memory_order_relaxed);
    info->non_finite = atomic_load_explicit(&e->non_finite, memory_order_relaxed);
    info->swaps = atomic_load_explicit(&e->swaps, memory_order_relaxed);
    info->swap_frame = atomic_load_explicit(&e->swap_frame, memory_order_relaxed);
    if (atomic_load_explicit(&e->lost, memory_order_acquire)) memcpy(info->error, e->error, sizeof info->error);
}

int hc_list_devices(int i, char *text, size_t cap)
{
    char description[128];
    const struct backend *backend;
    if (i < 0) return HC_EINVAL;
    for (int at = 0; (backend = backend_at(at)); at++) {
        if (backend->near || backend_find(backend->name) != backend) continue;
        for (int device = 0; backend->describe(device, description, sizeof description) == HC_OK; device++) {
            if (i-- > 0) continue;
            if (backend->in_place)
                snprintf(text, cap, "%s\t%s", backend->name, description);
            else
                snprintf(text, cap, "%s:%d\t%s", backend->name, device, description);
            return HC_OK;
        }
    }
    return HC_EINVAL;
}
