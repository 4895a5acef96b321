/* engine - opens and closes an engine, and plays a live block.
 *
 *   in place   hc_process: input, made finite -> backend->play -> the caller's output
 *   device     hc_process: input, made finite -> buffer -> device queue -> (wait until the deadline) -> buffer -> output
 *              device thread:                           device queue -> backend->process -> buffer
 *
 * engine_state.h lists the other files of the engine.
 */
#include "engine.h"

#include "closing.h"
#include "config.h"
#include "dsp/backends/backends.h"
#include "dsp/backends/costs.h"
#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/base/fork_safety.h"
#include "dsp/base/order.h"
#include "dsp/scene/scene.h"
#include "engine_state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_QUEUE_DEPTH = 4,        /* blocks of a file: three are on a device, the host fills one */
    IN_PLACE_QUEUE_DEPTH = 3,     /* maximum: one block is filled, one convolved, one emptied */
    CLOSE_US = 10000000,          /* hc_close waits so long for a device */
    N_BUFFERS = DEVICE_QUEUE_MAX, /* live only. If all are in use, the device hangs, and blocks are skipped */
};

/* Converts the wait_us of hc_config or engine_wait_set to microseconds; -1: without bound. The default is half of a
 * block's time; files have no deadline and wait without bound. */
static int wait_resolve(const hc_config *config, int wait_us)
{
    if (wait_us == HC_WAIT_NONE) return 0;
    if (wait_us != 0) return wait_us;
    if (config->block == 0) return HC_WAIT_FOREVER;
    int64_t half_us = 500000LL * config->block / config->rate;
    return half_us < 1 ? 1 : half_us > INT_MAX ? INT_MAX : (int)half_us;
}

/* Returns how many blocks of a file may be queued; 0: the blocks are live. */
static int queue_depth_resolve(const hc_engine *e)
{
    int asked = e->config.queue_depth;
    if (e->async) return asked == 0 ? USUAL_QUEUE_DEPTH : max_int(asked, 2);
    if (!e->backend->in_place || e->config.block > 0) return 0;
    return asked == 0 ? 1 : min_int(asked, IN_PLACE_QUEUE_DEPTH);
}

/* Returns the deadline of a block: wait_us after the call began. hc_process, hybrid's tail and a resident head wait
 * until then. If the device's output is not complete, the block is late, and hc_process returns HC_LATE. */
static int64_t deadline_us(const hc_engine *e, int64_t call_us)
{
    int wait_us = atomic_load_explicit(&e->wait_us, memory_order_relaxed);
    return wait_us < 0 ? AWAIT_FOREVER : call_us + wait_us;
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

/* Adds to a counter. Only one thread adds, so no other store can come between the load and the store. */
static void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

void engine_count(hc_engine *e, int n)
{
    counter_add(&e->blocks, 1);
    counter_add(&e->frames, (uint64_t)n);
}

void engine_count_non_finite(hc_engine *e, size_t n)
{
    if (n) atomic_fetch_add_explicit(&e->non_finite, n, memory_order_relaxed);
}

void engine_load(hc_engine *e, struct io_buffer *buffer, const float *const *in, int n)
{
    size_t bad = 0;
    uint32_t peak = 0;
    size_t (*copy)(float *, const float *, int, uint32_t *) =
        e->config.block > 0 ? e->samples->copy_live : e->samples->copy_finite;
    for (int ch = 0; ch < e->config.n_in; ch++)
        bad += copy(buffer->in + (size_t)ch * (size_t)e->plan.block, in[ch], n, &peak);
    engine_count_non_finite(e, bad);
}

void engine_unload(hc_engine *e, const struct io_buffer *buffer, float *const *out, int n)
{
    size_t bad = 0;
    uint32_t peak = 0;
    for (int ch = 0; ch < e->config.n_out; ch++)
        bad += e->samples->copy_finite(out[ch], buffer->out + (size_t)ch * (size_t)e->plan.block, n, &peak);
    if (bad) counter_add(&e->overflowed, bad);
}

/* Makes the output of a backend in place finite. */
static void engine_finish_output(hc_engine *e, float *const *out, int n)
{
    size_t bad = 0, clipped;
    uint32_t peak = 0;
    for (int ch = 0; ch < e->config.n_out; ch++) bad += samples_finish_output(e->samples, out[ch], n, &clipped, &peak);
    if (bad) counter_add(&e->overflowed, bad);
}

uint64_t engine_overflowed(const hc_engine *e)
{
    return atomic_load_explicit(&e->overflowed, memory_order_relaxed);
}

void engine_fail(hc_engine *e, const char *why)
{
    if (engine_loss(e)) return;
    snprintf(e->error, sizeof e->error, "%s", why);
    atomic_store_explicit(&e->loss, e->error, memory_order_release);
}

const char *engine_loss(const hc_engine *e)
{
    return atomic_load_explicit(&e->loss, memory_order_acquire);
}

bool engine_is_lost(const hc_engine *e)
{
    return engine_loss(e) != NULL;
}

bool engine_is_on_cpu(const hc_engine *e)
{
    return !e->queue && !e->async && !e->has_device_tail;
}

bool engine_is_left_behind(hc_engine *e)
{
    if (engine_is_on_cpu(e) || e->forks == fork_count()) return false;
    const char *none = NULL;
    atomic_compare_exchange_strong(
        &e->loss, &none, "the device serves the parent process, which opened the engine; open an engine after fork()");
    return true;
}

/* Returns true if the engine has no mask, and no history that a later mask needs. Then a scene's input is copied to a
 * device only once. */
static bool plays_only_sources(const hc_engine *e, const struct io_buffer *buffer, const struct fade *fade)
{
    return e->scene && buffer && !fade->from && !fade->to && e->config.max_taps == 1;
}

static int play_silence(const hc_engine *e, struct io_buffer *buffer, int n)
{
    for (int ch = 0; ch < e->config.n_out; ch++)
        memset(buffer->out + (size_t)ch * (size_t)e->plan.block, 0, (size_t)n * sizeof *buffer->out);
    return HC_OK;
}

int engine_play(hc_engine *e, struct io_buffer *buffer, const struct rows *rows, int n)
{
    char why[sizeof e->error] = "";
    struct reason reason = {why, sizeof why};
    if (engine_is_lost(e)) return HC_EDEVICE;
    struct io_buffer whole;
    if (e->scene && buffer && buffer->copy) { /* chunks are complete when the sources are added to the mask's output */
        scene_prepare(e->scene);
        for (int i = 0; i < COPY_CHUNKS;) i = parallel_copy_loaded(buffer->copy, i);
        whole = *buffer;
        whole.copy = NULL;
        buffer = &whole;
    }
    struct fade fade = mask_swap_begin(&e->swap);
    int result;
    if (rows)
        result = e->backend->play(e->state, rows, n, &fade, &reason);
    else if (plays_only_sources(e, buffer, &fade))
        result = play_silence(e, buffer, n);
    else if (e->async)
        result = e->backend->begin(e->state, buffer, n, &fade, &reason);
    else
        result = io_buffer_play(e->backend, e->state, buffer, n, &fade, &reason);
    mask_swap_end(&e->swap, n);
    if (e->scene && result >= 0) {
        int scene_result = scene_play(e->scene, rows, buffer, n, &reason);
        if (scene_result != HC_OK) result = scene_result;
    }
    if (result < 0) engine_fail(e, why);
    return result;
}

/* ---- the device queue -------------------------------------------------------------------------------------------- */

/* Plays a block of the device queue. [device thread] */
static int device_play(void *data, int64_t block, int n, struct reason *why)
{
    hc_engine *e = data;
    (void)why; /* engine_play keeps the reason */
    struct io_buffer *buffer =
        block == DEVICE_QUEUE_SILENCE ? &e->silence : &e->buffers[e->buffer_of[block % N_BUFFERS]];
    int result = engine_play(e, buffer, NULL, n);
    if (buffer->copy) parallel_copy_done(buffer->copy, e->config.n_out); /* after an error, too: threads wait for it */
    return result;
}

static void device_play_behind(void *data)
{
    hc_engine *e = data;
    if (e->backend->process_behind && !engine_is_lost(e)) e->backend->process_behind(e->state);
}

/* Chooses a buffer for the next block: buffer 0, which is in the caches, unless late blocks are still in the queue. */
static struct io_buffer *buffer_next(hc_engine *e, int64_t block)
{
    e->buffer_last = device_queue_is_done(e->queue, block - 1) ? 0 : (e->buffer_last + 1) % N_BUFFERS;
    e->buffer_of[block % N_BUFFERS] = e->buffer_last;
    return &e->buffers[e->buffer_last];
}

/* Plays a block through the device queue and fills `out`. false: the block is late, and `out` is untouched. */
static bool play_on_device(hc_engine *e, const float *const *in, float *const *out, int n, int64_t call_us,
                           int64_t until_us)
{
    struct device_queue *q = e->queue;
    int64_t block = device_queue_next(q);
    if (!device_queue_has_capacity(q, until_us)) {
        device_queue_skip(q, n);
        return false;
    }
    struct io_buffer *buffer = buffer_next(e, block);
    /* The copy threads use the caller's buffers until the block is complete. */
    buffer->copy = until_us == AWAIT_FOREVER ? e->copy : NULL;
    if (buffer->copy)
        parallel_copy_begin(buffer->copy, buffer, in, out, n);
    else
        engine_load(e, buffer, in, n);
    device_queue_post(q, n, call_us);
    if (buffer->copy) {
        engine_count_non_finite(e, parallel_copy_finish(buffer->copy));
        counter_add(&e->overflowed, parallel_copy_overflowed(buffer->copy));
    }
    if (!device_queue_await(q, block, until_us)) return false;
    if (!buffer->copy) engine_unload(e, buffer, out, n);
    return true;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int engine_buffer_make(hc_engine *e, struct io_buffer *buffer, struct reason *why)
{
    /* A live block in place needs no output buffer: play writes to the caller's rows. */
    int n_out = e->backend->in_place && e->config.block > 0 ? 0 : e->config.n_out;
    return io_buffer_make(e->backend, e->state, e->config.n_in, n_out, e->plan.block, buffer, why);
}

static int queue_open(hc_engine *e, struct reason *why)
{
    const hc_config *c = &e->config;
    int64_t spin_us = device_queue_spin_us(c->rate, e->plan.block);
    int error = engine_buffer_make(e, &e->silence, why);
    if (error) return error;
    int n_copy = parallel_copy_threads(c->n_in, c->n_out, e->plan.block, c->n_threads);
    if (c->wait_us < 0 && e->backend->in_chunks && n_copy > 0) {
        e->copy = parallel_copy_open(n_copy, c->n_in, c->n_out, e->plan.block, spin_us, e->samples);
        if (!e->copy) return fail(HC_ENOMEM, why, "no memory for the queue to the device; free some memory");
    }
    struct device_queue_setup setup = {.n_blocks = N_BUFFERS,
                                       .block = e->plan.block,
                                       .spin_us = spin_us,
                                       .spins = c->spin,
                                       .play = device_play,
                                       .behind = device_play_behind,
                                       .data = e};
    e->queue = device_queue_open(&setup, why);
    return e->queue ? HC_OK : HC_ENOMEM;
}

/* Returns the name of the backend that has the engine's device. */
static const char *device_backend(const hc_engine *e)
{
    return e->backend->tail ? e->backend->tail : e->backend->name;
}

static int open_on(hc_engine *e, int device, struct reason *why)
{
    int error = closing_check(device_backend(e), device, why);
    if (error) return error;
    e->device_index = device;
    plan_make(e->backend, device, &e->config, &e->plan, &e->tail_plan, &e->costs);
    e->async = e->backend->begin != NULL;
    if (!e->async || !e->backend->raw) e->config.in_samples = e->config.out_samples = HC_PLANAR;
    e->queue_depth = e->config.queue_depth = queue_depth_resolve(e);
    e->n_buffers = e->queue_depth > 0 ? e->queue_depth : e->backend->in_place ? 1 : N_BUFFERS;
    error = e->backend->open(&e->config, &e->plan, device, &e->state, why);
    if (error) return error;
    mask_swap_open(&e->swap, e->backend, e->state, e->config.fade_frames);
    e->has_device_tail = e->plan.tail_plan || e->backend == &backend_resident;
    if (e->config.n_sources > 0) error = engine_scene_open(e, device, why);
    if (error) return error;
    backend_device_name(e->backend, device, e->has_device_tail, e->device, sizeof e->device);
    for (int i = 0; i < e->n_buffers; i++) {
        error = engine_buffer_make(e, &e->buffers[i], why);
        if (error) return error;
    }
    return e->backend->in_place || e->async ? HC_OK : queue_open(e, why);
}

/* Frees an engine without masks, even if open_on failed. */
static void engine_discard(hc_engine *e)
{
    device_queue_close(e->queue);
    parallel_copy_close(e->copy);
    io_buffer_free(e->backend, e->state, &e->silence);
    for (int i = 0; i < e->n_buffers; i++) io_buffer_free(e->backend, e->state, &e->buffers[i]);
    scene_close(e->scene);
    if (e->state) e->backend->close(e->state);
    pthread_mutex_destroy(&e->masks_lock);
    free(e);
}

/* config: resolved. If the backend does not open, another thread frees what it has: the device may hang. */
static int engine_make(const hc_config *config, const struct backend *backend, int device, hc_engine **engine,
                       struct reason *why)
{
    hc_engine *e = calloc(1, sizeof *e);
    if (!e) return fail(HC_ENOMEM, why, "no memory for an engine; free some memory");
    e->backend = backend;
    e->config = *config;
    e->config.backend = NULL; /* the string is the caller's */
    e->count_to = INT64_MAX;
    e->config.wait_us = wait_resolve(config, config->wait_us);
    atomic_init(&e->wait_us, e->config.wait_us);
    e->samples = samples_choose();
    e->forks = fork_count();
    pthread_mutex_init(&e->masks_lock, NULL);
    int error = open_on(e, device, why);
    if (!error)
        *engine = e;
    else if (backend->in_place && !backend->tail)
        engine_discard(e);
    else
        closing_run(engine_discard, e, device_backend(e), device, now_us() + CLOSE_US);
    return error;
}

/* Makes a resident engine or, if that fails, a launched one: hc_info.device then has the reason. */
static int engine_make_either(const hc_config *config, const struct backend *launched, int device, hc_engine **engine,
                              struct reason *why)
{
    char refusal[HC_DEVICE_CAP] = "";
    int error = engine_make(config, &backend_resident, device, engine, REASON(refusal, sizeof refusal));
    if (error == HC_OK) return HC_OK;
    error = engine_make(config, launched, device, engine, why);
    if (error) return error;
    size_t n = strlen((*engine)->device);
    snprintf((*engine)->device + n, sizeof(*engine)->device - n, "; launched: %s", refusal);
    return HC_OK;
}

int hc_open(const hc_config *given, hc_engine **engine, char *why, size_t cap)
{
    if (!engine) return fail(HC_EINVAL, REASON(why, cap), "hc_open: engine is NULL; pass a pointer to a hc_engine *");
    *engine = NULL;
    hc_config config;
    const struct backend *backend;
    int device, error = config_resolve(given, &config, REASON(why, cap));
    if (error) return error;
    if (config.block > 0) costs_measure_once(backend_find("cpu"));
    error = backend_choose(&config, &backend, &device, REASON(why, cap));
    if (error) return error;
    const struct backend *cpu = backend_cpu_for(&config), *chosen = backend_resident_or(backend, device, &config);
    if (chosen != backend && !backend_must_be_resident(&config))
        error = engine_make_either(&config, backend, device, engine, REASON(why, cap));
    else
        error = engine_make(&config, chosen, device, engine, REASON(why, cap));
    if (error && strcmp(config.backend, "auto") == 0 && chosen != cpu)
        error = engine_make(&config, cpu, 0, engine, REASON(why, cap));
    return error;
}

static void engine_free(hc_engine *e)
{
    device_queue_close(e->queue);
    e->queue = NULL;
    if (e->backend->in_place) e->backend->reset(e->state, NULL); /* the backend's threads stop work on the masks */
    engine_masks_free(e);
    void (*then)(void *) = e->then;
    void *then_data = e->then_data;
    engine_discard(e);
    if (then) then(then_data);
}

bool engine_close(hc_engine *e, int wait_us, void (*then)(void *), void *then_data)
{
    if (!e || engine_is_left_behind(e)) {
        if (then) then(then_data);
        return true;
    }
    e->then = then;
    e->then_data = then_data;
    if (!engine_is_on_cpu(e))
        return closing_run(engine_free, e, device_backend(e), e->device_index, now_us() + wait_us);
    engine_free(e);
    return true;
}

void hc_close(hc_engine *e)
{
    engine_close(e, CLOSE_US, NULL, NULL);
}

/* ---- audio ------------------------------------------------------------------------------------------------------- */

int engine_process_clean(hc_engine *e, const float *const *in, float *const *out, int n, int64_t now_ns)
{
    if (n < 0 || n > e->plan.block || e->async) return HC_EINVAL;
    if (n == 0) return HC_OK;
    int64_t call_us = now_ns / 1000, until_us = deadline_us(e, call_us);
    bool is_here = !engine_is_left_behind(e), is_late = false;
    if (is_here && e->queue) {
        is_late = !play_on_device(e, in, out, n, call_us, until_us);
    } else if (is_here) {
        struct rows rows = {in, out, until_us};
        /* If late, `out` has the head of "hybrid", and of a resident engine silence. */
        is_late = engine_play(e, NULL, &rows, n) == HC_LATE;
    }
    bool lost = engine_is_lost(e);
    if (lost || (e->queue && is_late)) outputs_silence(out, e->config.n_out, 0, n);
    engine_count(e, n);
    if (is_late) counter_add(&e->late, 1);
    return lost ? HC_EDEVICE : is_late ? HC_LATE : HC_OK;
}

int hc_process(hc_engine *e, const float *const *in, float *const *out, int n)
{
    if (!e || n < 0 || n > e->plan.block || e->n_submitted != e->n_collected) return HC_EINVAL;
    if (e->config.in_samples != HC_PLANAR || e->config.out_samples != HC_PLANAR) return HC_EINVAL;
    if (n == 0) return HC_OK;
    if (!in || !out) return HC_EINVAL;
    if (e->async) {
        hc_submit(e, in, n);
        return hc_collect(e, out) < 0 ? HC_EDEVICE : HC_OK;
    }
    unsigned fp_state = denormals_off();
    if (!e->queue) { /* else play_on_device loads the buffer */
        engine_load(e, &e->buffers[0], in, n);
        in = e->buffers[0].rows.in;
    }
    bool has_deadline = e->queue || e->has_device_tail;
    int result = engine_process_clean(e, in, out, n, has_deadline ? now_ns() : 0);
    if (!e->queue) engine_finish_output(e, out, n); /* else engine_unload has done so */
    denormals_restore(fp_state);
    return result;
}

int engine_wait_set(hc_engine *e, int wait_us)
{
    if (!e || wait_us < HC_WAIT_NONE) return HC_EINVAL;
    int resolved = wait_resolve(&e->config, wait_us);
    atomic_store_explicit(&e->wait_us, resolved, memory_order_relaxed);
    if (e->backend->wait_set) e->backend->wait_set(e->state, resolved < 0);
    return HC_OK;
}

bool engine_await_all(hc_engine *e)
{
    int64_t until_us = deadline_us(e, now_us());
    if (engine_is_left_behind(e)) return false;
    if (e->queue && !device_queue_await_all(e->queue, until_us)) return false;
    if (e->backend->await_all && !e->backend->await_all(e->state, until_us)) return false;
    return !e->scene || scene_await_all(e->scene, until_us);
}

void hc_reset(hc_engine *e)
{
    if (!e || engine_is_left_behind(e)) return;
    if (e->queue) device_queue_drain(e->queue);
    while (e->n_collected != e->n_submitted) hc_collect(e, NULL);
    e->n_collected = e->n_submitted = 0;
    e->frames_submitted = 0;
    mask_swap_reset(&e->swap);
    char why[sizeof e->error] = "";
    struct reason reason = {why, sizeof why};
    int error = e->backend->reset(e->state, &reason);
    if (!error && e->scene) error = scene_reset(e->scene, &reason);
    if (error) engine_fail(e, why);
}

int hc_get_info(hc_engine *e, hc_info *out)
{
    hc_info full = {0}, *info = &full;
    if (!e || info_check(out, NULL) != HC_OK) return HC_EINVAL;
    struct plan_shape shape = config_shape(&e->config);
    plan_report(e->backend, &e->plan, &e->costs, &shape, info);
    info->queue_depth = e->queue_depth;
    info->in_samples = e->config.in_samples;
    info->out_samples = e->config.out_samples;
    info->clipped = atomic_load_explicit(&e->clipped, memory_order_relaxed);
    unsigned peak_bits = atomic_load_explicit(&e->peak_bits, memory_order_relaxed);
    memcpy(&info->peak, &peak_bits, sizeof info->peak);
    info->backend = e->backend->name;
    const char *mode = e->backend->mode ? e->backend->mode(e->state) : NULL;
    size_t n = strlen(e->device);
    memcpy(info->device, e->device, n + 1);
    if (mode) snprintf(info->device + n, sizeof info->device - n, "; %s", mode);
    info->blocks = atomic_load_explicit(&e->blocks, memory_order_relaxed);
    info->frames = atomic_load_explicit(&e->frames, memory_order_relaxed);
    info->late = atomic_load_explicit(&e->late, memory_order_relaxed);
    info->non_finite = atomic_load_explicit(&e->non_finite, memory_order_relaxed);
    info->overflowed = engine_overflowed(e);
    info->swaps = atomic_load_explicit(&e->swap.swaps, memory_order_relaxed);
    info->swap_frame = atomic_load_explicit(&e->swap.swap_frame, memory_order_relaxed);
    if (e->scene) scene_report(e->scene, info);
    const char *loss = engine_loss(e);
    if (loss) snprintf(info->error, sizeof info->error, "%s", loss);
    info_copy(info, out);
    return HC_OK;
}
