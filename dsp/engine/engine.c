/* engine - open, close, and the way of a block.
 *
 *   in place    hc_process: input, made finite once -> backend->play -> the caller's output
 *   device      hc_process: input -> slot -> device queue -> [ device thread: backend->process ] -> slot -> output
 *
 * engine_state.h says what the other files of the engine know.
 */
#include "engine.h"

#include "await.h"
#include "choose.h"
#include "config.h"
#include "dsp/backends.h"
#include "dsp/costs/costs.h"
#include "engine_state.h"
#include "plan_report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_FLIGHT = 4,            /* three stages of a device, and a block that the host fills */
    N_SLOTS = DEVICE_QUEUE_MOST, /* blocks in flight; when all are, the device is hung and blocks are given up */
};

/* hc_config.wait_us and hc_wait_set: -1 = without bound, else microseconds. 0 asks for the default: half a block's
 * time, and for files, which have no deadline, no bound. */
static int wait_resolve(const hc_config *config, int wait_us)
{
    if (wait_us == HC_WAIT_NONE) return 0;
    if (wait_us != 0) return wait_us;
    if (config->block == 0) return HC_WAIT_FOREVER;
    int64_t half_us = 500000LL * config->block / config->rate;
    return half_us < 1 ? 1 : half_us > INT_MAX ? INT_MAX : (int)half_us;
}

/* ---- a block -------------------------------------------------------------------------------------------------------
 */

/* One thread counts: no other can come between its load and its store. */
static void add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void engine_count(hc_engine *e, int n)
{
    add(&e->blocks, 1);
    add(&e->frames, (uint64_t)n);
}

void engine_count_non_finite(hc_engine *e, size_t n)
{
    if (n) atomic_fetch_add_explicit(&e->non_finite, n, memory_order_relaxed);
}

void engine_load(hc_engine *e, struct slot *slot, const float *const *in, int n)
{
    size_t bad = 0;
    uint32_t peak = 0;
    for (int ch = 0; ch < e->config.n_in; ch++)
        bad += e->simd->copy_finite(slot->in + (size_t)ch * (size_t)e->plan.block, in[ch], n, &peak);
    engine_count_non_finite(e, bad);
}

void engine_unload(const hc_engine *e, const struct slot *slot, float *const *out, int n)
{
    for (int ch = 0; ch < e->config.n_out; ch++)
        memcpy(out[ch], slot->out + (size_t)ch * (size_t)e->plan.block, (size_t)n * sizeof(float));
}

void engine_silence(const hc_engine *e, float *const *out, int n)
{
    for (int ch = 0; ch < e->config.n_out; ch++) memset(out[ch], 0, (size_t)n * sizeof(float));
}

void engine_lose(hc_engine *e, const char *why)
{
    if (atomic_load_explicit(&e->lost, memory_order_relaxed)) return;
    snprintf(e->error, sizeof e->error, "%s", why);
    atomic_store_explicit(&e->lost, true, memory_order_release);
}

bool engine_is_lost(const hc_engine *e)
{
    return atomic_load_explicit(&e->lost, memory_order_acquire);
}

int engine_play(hc_engine *e, struct slot *slot, int n)
{
    char why[sizeof e->error] = "";
    if (engine_is_lost(e)) return HC_EDEVICE;
    struct fade fade = mask_swap_begin(&e->swap);
    int result = e->halves ? e->backend->begin(e->state, slot, n, &fade, why, sizeof why)
                           : slot_play(e->backend, e->state, slot, n, &fade, why, sizeof why);
    mask_swap_end(&e->swap, n);
    if (result < 0) engine_lose(e, why);
    return result;
}

/* ---- the device queue ----------------------------------------------------------------------------------------------
 */

/* The device thread's. */
static int device_play(void *data, int64_t block, int n, char *why, size_t cap)
{
    hc_engine *e = data;
    (void)why, (void)cap; /* engine_play keeps the reason */
    struct slot *slot = block == DEVICE_QUEUE_SILENCE ? &e->silence : &e->slots[e->slot_of[block % N_SLOTS]];
    int result = engine_play(e, slot, n);
    if (slot->ferry) ferry_landed(slot->ferry, e->config.n_out); /* after an error too: nobody is left waiting */
    return result;
}

/* A slot for the next block. One that was used just now is in the caches: the first one again, unless blocks that
 * nobody waited for are still in flight. */
static struct slot *slot_take(hc_engine *e, int64_t block)
{
    e->slot_last = device_queue_is_done(e->queue, block - 1) ? 0 : (e->slot_last + 1) % N_SLOTS;
    e->slot_of[block % N_SLOTS] = e->slot_last;
    return &e->slots[e->slot_last];
}

/* Through the device queue; the output is in out then. False: late. */
static bool play_on_device(hc_engine *e, const float *const *in, float *const *out, int n, int64_t now_us,
                           int64_t until_us)
{
    struct device_queue *q = e->queue;
    int64_t block = device_queue_next(q);
    if (!device_queue_room(q, until_us)) {
        device_queue_lose(q, n);
        return false;
    }
    struct slot *slot = slot_take(e, block);
    /* Its threads touch the caller's buffers until all is done. */
    slot->ferry = until_us == AWAIT_FOREVER ? e->ferry : NULL;
    if (slot->ferry)
        ferry_begin(slot->ferry, slot, in, out, n);
    else
        engine_load(e, slot, in, n);
    device_queue_post(q, n, now_us);
    if (slot->ferry) engine_count_non_finite(e, ferry_carry(slot->ferry));
    if (!device_queue_await(q, block, until_us)) return false;
    if (!slot->ferry) engine_unload(e, slot, out, n);
    return true;
}

/* ---- open and close ------------------------------------------------------------------------------------------------
 */

static int engine_slot_make(hc_engine *e, struct slot *slot, char *why, size_t cap)
{
    int n_out = e->backend->in_place && e->config.block > 0 ? 0 : e->config.n_out; /* play writes to the caller's */
    return slot_make(e->backend, e->state, e->config.n_in, n_out, e->plan.block, slot, why, cap);
}

static int queue_open(hc_engine *e, char *why, size_t cap)
{
    const hc_config *c = &e->config;
    int64_t spin_us = device_queue_spin_us(c->rate, e->plan.block);
    int error = engine_slot_make(e, &e->silence, why, cap);
    if (error) return error;
    int n_hands = ferry_hands(c->n_in, c->n_out, e->plan.block, c->n_threads);
    if (c->wait_us < 0 && e->backend->in_parts && n_hands > 0) {
        e->ferry = ferry_open(n_hands, c->n_in, c->n_out, e->plan.block, spin_us, e->simd);
        if (!e->ferry) return fail(HC_ENOMEM, why, cap, "no memory for the queue to the device");
    }
    struct device_queue_setup setup = {.n_blocks = N_SLOTS,
                                       .block = e->plan.block,
                                       .spin_us = spin_us,
                                       .spins = c->spin,
                                       .play = device_play,
                                       .data = e};
    e->queue = device_queue_open(&setup, why, cap);
    return e->queue ? HC_OK : HC_ENOMEM;
}

static int open_on(hc_engine *e, int device, char *why, size_t cap)
{
    plan_make(e->backend, device, &e->config, &e->plan, &e->tail_plan, &e->costs);
    e->halves = e->config.block == 0 && e->backend->begin && e->plan.n_far == 0;
    if (!e->halves || !e->backend->raw) e->config.in_samples = e->config.out_samples = HC_PLANAR;
    if (e->config.flight < 2) e->config.flight = e->config.flight ? 2 : USUAL_FLIGHT;
    e->flight = e->halves ? e->config.flight : e->backend->in_place && e->config.block == 0 ? 1 : 0;
    e->n_slots = e->halves ? e->flight : e->backend->in_place ? 1 : N_SLOTS;
    int error = e->backend->open(&e->config, &e->plan, device, &e->state, why, cap);
    if (error) return error;
    backend_device_name(e->backend, device, e->plan.tail, e->device, sizeof e->device);
    mask_swap_open(&e->swap, e->backend, e->state, e->config.fade_frames);
    for (int i = 0; i < e->n_slots; i++) {
        error = engine_slot_make(e, &e->slots[i], why, cap);
        if (error) return error;
    }
    return e->backend->in_place || e->halves ? HC_OK : queue_open(e, why, cap);
}

/* Undo open_on, whole or in part. */
static void close_on(hc_engine *e)
{
    device_queue_close(e->queue);
    ferry_close(e->ferry);
    e->queue = NULL;
    e->ferry = NULL;
    slot_free(e->backend, e->state, &e->silence);
    for (int i = 0; i < e->n_slots; i++) slot_free(e->backend, e->state, &e->slots[i]);
    if (e->state) e->backend->close(e->state);
    e->state = NULL;
}

int hc_open(const hc_config *given, hc_engine **engine, char *why, size_t cap)
{
    if (!engine) return fail(HC_EINVAL, why, cap, "hc_open: engine is NULL; pass a place for it");
    *engine = NULL;
    hc_config resolved, *config = &resolved;
    int device, error = config_resolve(given, config, why, cap);
    if (error) return error;
    hc_engine *e = calloc(1, sizeof *e);
    if (!e) return fail(HC_ENOMEM, why, cap, "no memory for an engine");
    e->config = *config;
    if (config->block > 0) costs_measure_once(backend_find("cpu"));
    error = backend_choose(config, &e->backend, &device, why, cap);
    if (error) goto fail;
    bool automatic = strcmp(config->backend, "auto") == 0;
    e->config.backend = NULL; /* the caller's string may go */
    e->count_to = INT64_MAX;
    e->config.wait_us = wait_resolve(config, config->wait_us);
    atomic_init(&e->wait_us, e->config.wait_us);
    e->simd = simd_choose();
    pthread_mutex_init(&e->setup, NULL);
    error = open_on(e, device, why, cap);
    if (error && automatic && e->backend != backend_cpu_for(config)) {
        close_on(e);
        e->backend = backend_cpu_for(config);
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
    device_queue_close(e->queue);
    e->queue = NULL;
    if (e->backend->in_place) e->backend->reset(e->state, NULL, 0); /* its threads let go of the masks */
    engine_masks_free(e);
    close_on(e);
    pthread_mutex_destroy(&e->setup);
    free(e);
}

/* ---- audio ---------------------------------------------------------------------------------------------------------
 */

static bool waits_for_device(const hc_engine *e)
{
    return e->queue || e->plan.tail;
}

/* In place, on this thread, from an input that is finite; the output is in out then, unless the device is lost. */
static int play_here(hc_engine *e, const float *const *in, float *const *out, int n, int64_t until_us)
{
    char why[sizeof e->error] = "";
    if (engine_is_lost(e)) return HC_EDEVICE;
    struct rows rows = {in, out, until_us};
    struct fade fade = mask_swap_begin(&e->swap);
    int result = e->backend->play(e->state, &rows, n, &fade, why, sizeof why);
    mask_swap_end(&e->swap, n);
    if (result < 0) engine_lose(e, why);
    return result;
}

int engine_process_clean(hc_engine *e, const float *const *in, float *const *out, int n, int64_t now_ns)
{
    if (n < 0 || n > e->plan.block || e->halves) return HC_EINVAL;
    if (n == 0) return HC_OK;
    int wait_us = atomic_load_explicit(&e->wait_us, memory_order_relaxed);
    int64_t now_us = now_ns / 1000, until_us = wait_us < 0 ? AWAIT_FOREVER : now_us + wait_us;
    bool is_late, played = true;
    if (e->queue)
        played = !(is_late = !play_on_device(e, in, out, n, now_us, until_us));
    else
        is_late = play_here(e, in, out, n, until_us) == HC_LATE;
    bool lost = engine_is_lost(e);
    if (!played || lost) engine_silence(e, out, n);
    engine_count(e, n);
    if (is_late) add(&e->late, 1);
    return lost ? HC_EDEVICE : is_late ? HC_LATE : HC_OK;
}

int hc_process(hc_engine *e, const float *const *in, float *const *out, int n)
{
    if (!e || n < 0 || n > e->plan.block || e->n_submitted != e->n_collected) return HC_EINVAL;
    if (e->config.in_samples != HC_PLANAR || e->config.out_samples != HC_PLANAR) return HC_EINVAL;
    if (n == 0) return HC_OK;
    if (!in || !out) return HC_EINVAL;
    if (e->halves) {
        hc_submit(e, in, n);
        return hc_collect(e, out) < 0 ? HC_EDEVICE : HC_OK;
    }
    unsigned fp_state = simd_denormals_off();
    if (!e->queue) { /* a device's slot takes the input as it is, and cleans it there */
        engine_load(e, &e->slots[0], in, n);
        in = e->slots[0].rows.in;
    }
    int result = engine_process_clean(e, in, out, n, waits_for_device(e) ? now_ns() : 0);
    simd_denormals_restore(fp_state);
    return result;
}

int hc_wait_set(hc_engine *e, int wait_us)
{
    if (!e || wait_us < HC_WAIT_NONE) return HC_EINVAL;
    int resolved = wait_resolve(&e->config, wait_us);
    atomic_store_explicit(&e->wait_us, resolved, memory_order_relaxed);
    if (e->backend->wait_set) e->backend->wait_set(e->state, resolved < 0);
    return HC_OK;
}

void hc_reset(hc_engine *e)
{
    if (!e) return;
    if (e->queue) device_queue_drain(e->queue);
    while (e->n_collected != e->n_submitted) hc_collect(e, NULL); /* nobody will */
    e->n_collected = e->n_submitted = 0;
    e->frames_submitted = 0;
    mask_swap_reset(&e->swap);
    char why[sizeof e->error] = "";
    if (e->backend->reset(e->state, why, sizeof why) != HC_OK) engine_lose(e, why);
}

int hc_latency(const hc_engine *e)
{
    (void)e;
    return 0;
}

int hc_get_info(hc_engine *e, hc_info *out)
{
    hc_info full = {0}, *info = &full;
    if (!e || info_check(out, NULL, 0) != HC_OK) return HC_EINVAL;
    struct plan_shape shape = config_shape(&e->config);
    plan_report(e->backend, &e->plan, &e->costs, &shape, info);
    info->flight = e->flight;
    info->in_samples = e->config.in_samples;
    info->out_samples = e->config.out_samples;
    info->clipped = atomic_load_explicit(&e->clipped, memory_order_relaxed);
    unsigned peak_bits = atomic_load_explicit(&e->peak_bits, memory_order_relaxed);
    memcpy(&info->peak, &peak_bits, sizeof info->peak);
    info->backend = e->backend->name;
    memcpy(info->device, e->device, sizeof info->device);
    info->blocks = atomic_load_explicit(&e->blocks, memory_order_relaxed);
    info->frames = atomic_load_explicit(&e->frames, memory_order_relaxed);
    info->late = atomic_load_explicit(&e->late, memory_order_relaxed);
    info->non_finite = atomic_load_explicit(&e->non_finite, memory_order_relaxed);
    info->swaps = atomic_load_explicit(&e->swap.swaps, memory_order_relaxed);
    info->swap_frame = atomic_load_explicit(&e->swap.swap_frame, memory_order_relaxed);
    if (engine_is_lost(e)) memcpy(info->error, e->error, sizeof info->error);
    info_copy(info, out);
    return HC_OK;
}
