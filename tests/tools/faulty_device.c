/* faulty_device - a device that fails or stalls as the test asks. It adds itself to the list of backends as "cuda". It
 * convolves on the real GPU if there is one, else on the CPU; the engine thread drives it in both cases.
 *
 *   HC_FAULT="fail N"        the device is lost at its N-th block
 *   HC_FAULT="stall N"       it never returns from its N-th block
 *   HC_FAULT="stall N MS"    it returns after MS
 *   HC_FAULT="slow N MS M"   from there on every M-th block takes MS more; without M, every block
 *   HC_FAULT="hold N"        it returns from its N-th block when the test calls faulty_release
 *
 * N may be a path with a slash: the fault then comes at the first block after this file appears, and a stall ends when
 * it disappears.
 *
 * HC_FAULT_SCENE does the same to steered sources. "none", or an empty text: no fault. Any other text ends the program.
 */
#include "faulty_device.h"

#include "dsp/backends/backends.h"
#include "dsp/backends/costs.h"
#include "dsp/device/scene_backend.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct faulty_record faulty_record;
static sem_t release;

static const struct backend *real = &backend_cpu;

struct fault {
    char kind[8], file[128]; /* file: the fault waits for it; "": for no file */
    bool has_come;           /* the file */
    long at, ms, every, blocks;
};

struct faulty {
    void *state; /* of the real backend */
    struct fault fault;
    int n_in, n_out, block;
};

static void fault_read(struct fault *f, const char *variable)
{
    const char *text = getenv(variable);
    f->at = -1;
    f->every = 1;
    if (!text || !text[0] || strcmp(text, "none") == 0) return;
    int fields = strchr(text, '/') ? sscanf(text, "%7s %127s %ld %ld", f->kind, f->file, &f->ms, &f->every)
                                   : sscanf(text, "%7s %ld %ld %ld", f->kind, &f->at, &f->ms, &f->every);
    bool is_slow = strcmp(f->kind, "slow") == 0, is_stall = strcmp(f->kind, "stall") == 0;
    bool is_known = is_slow || is_stall || strcmp(f->kind, "fail") == 0 || strcmp(f->kind, "hold") == 0;
    if (!is_known || fields < (is_slow ? 3 : 2) || f->every < 1) abort();
}

/* Counts a block, and fails or waits as the test asks. */
static int fault_happen(struct fault *f, struct reason *why)
{
    if (f->file[0] && !f->has_come && access(f->file, F_OK) == 0) {
        f->at = f->blocks;
        f->has_come = true;
    }
    if (f->blocks++ < f->at || f->at < 0) return HC_OK;
    if (strcmp(f->kind, "fail") == 0) return fail(HC_EDEVICE, why, "the device fell off the bus, as the test wants");
    bool holds = strcmp(f->kind, "hold") == 0;
    while (holds && f->blocks == f->at + 1 && sem_wait(&release) != 0) continue;
    while (!holds && f->ms == 0 && !(f->has_come && access(f->file, F_OK) != 0))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bool again = strcmp(f->kind, "slow") == 0 && (f->blocks - f->at - 1) % f->every == 0;
    if (f->blocks == f->at + 1 || again)
        nanosleep(&(struct timespec){.tv_sec = f->ms / 1000, .tv_nsec = f->ms % 1000 * 1000000}, NULL);
    return HC_OK;
}

static int describe(int device, char *text, size_t cap)
{
    int error = real->describe(device, text, cap);
    if (!error) snprintf(text, cap, "a device that fails");
    return error;
}

static int faulty_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct faulty *f = calloc(1, sizeof *f);
    if (!f) return HC_ENOMEM;
    fault_read(&f->fault, "HC_FAULT");
    int error = real->open(config, plan, device, &f->state, why);
    if (error) {
        free(f);
        return error;
    }
    f->n_in = config->n_in;
    f->n_out = config->n_out;
    f->block = plan->block;
    *state = f;
    return HC_OK;
}

static void faulty_close(void *state)
{
    struct faulty *f = state;
    real->close(f->state);
    free(f);
}

/* Ends the program if the engine thread uses the state already: a GPU's driver would delay its calls. */
static int own_buffer_make(void *state, struct io_buffer *buffer, struct reason *why)
{
    struct faulty *f = state;
    if (f->fault.blocks > 0) abort();
    return io_buffer_make(real, f->state, f->n_in, f->n_out, f->block, buffer, why);
}

static void own_buffer_free(void *state, struct io_buffer *buffer)
{
    io_buffer_free(real, ((struct faulty *)state)->state, buffer);
}

static int mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why)
{
    return real->mask_make(((struct faulty *)state)->state, matrix, mask, why);
}

static void mask_free(void *state, void *mask)
{
    real->mask_free(((struct faulty *)state)->state, mask);
}

static int mask_make_noise(void *state, const struct matrix *matrix, const struct noise *noise, void **mask,
                           struct reason *why)
{
    return real->mask_make_noise(((struct faulty *)state)->state, matrix, noise, mask, why);
}

static void mask_prepare(void *state, void *mask)
{
    real->mask_prepare(((struct faulty *)state)->state, mask);
}

static bool mask_ready(void *state, const void *mask)
{
    return real->mask_ready(((struct faulty *)state)->state, mask);
}

static void mask_retire(void *state, void *mask)
{
    real->mask_retire(((struct faulty *)state)->state, mask);
}

static void process_behind(void *state)
{
    real->process_behind(((struct faulty *)state)->state);
}

static bool mask_released(void *state, const void *mask)
{
    return real->mask_released(((struct faulty *)state)->state, mask);
}

static int process(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why)
{
    struct faulty *f = state;
    atomic_store(&faulty_record.thread, (int)gettid());
    atomic_fetch_add(&faulty_record.begun, 1);
    int error = fault_happen(&f->fault, why);
    if (error) return error;
    error = io_buffer_play(real, f->state, buffer, n, fade, why);
    atomic_fetch_add(&faulty_record.finished, 1);
    return error;
}

void faulty_release(void)
{
    sem_post(&release);
}

static int reset(void *state, struct reason *why)
{
    return real->reset(((struct faulty *)state)->state, why);
}

/* ---- steered sources: the real backend plays them. That of the CPU reads and writes the rows of the buffer ---- */

enum { MAX_CHANNELS = 256 };

struct faulty_scene {
    void *state; /* of real->scene */
    struct scene_shape shape;
    struct fault fault;
};

static int scene_open(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state,
                      struct reason *why)
{
    struct faulty_scene *f = calloc(1, sizeof *f);
    if (!f || shape->n_sources > MAX_CHANNELS || shape->n_out > MAX_CHANNELS) abort();
    f->shape = *shape;
    fault_read(&f->fault, "HC_FAULT_SCENE");
    int error = real->scene->open(plan, shape, device, &f->state, why);
    if (error) {
        free(f);
        return error;
    }
    *state = f;
    return HC_OK;
}

static void scene_close(void *state)
{
    struct faulty_scene *f = state;
    real->scene->close(f->state);
    free(f);
}

static int scene_play(void *state, const struct scene_call *given, struct reason *why)
{
    struct faulty_scene *f = state;
    struct scene_call call = *given;
    const float *in[MAX_CHANNELS];
    float *out[MAX_CHANNELS];
    size_t stride = (size_t)f->shape.buffer_stride;
    for (int i = 0; i < f->shape.n_sources; i++) in[i] = call.buffer->in + (size_t)i * stride + call.buffer_offset;
    for (int i = 0; i < f->shape.n_out; i++) out[i] = call.buffer->out + (size_t)i * stride + call.buffer_offset;
    call.in = in;
    call.out = out;
    int error = fault_happen(&f->fault, why);
    if (!error && real->scene->begin) error = real->scene->begin(f->state, &call, why);
    if (!error) error = real->scene->play(f->state, &call, why);
    atomic_fetch_add(&faulty_record.scenes_still, call.is_still);
    atomic_fetch_add(&faulty_record.scenes_finished, 1);
    return error;
}

static int scene_reset(void *state, struct reason *why)
{
    return real->scene->reset(((struct faulty_scene *)state)->state, why);
}

static struct scene_backend faulty_scene = {
    .open = scene_open, .close = scene_close, .play = scene_play, .reset = scene_reset};

static struct backend faulty_device = {
    .name = "cuda",
    .describe = describe,
    .open = faulty_open,
    .close = faulty_close,
    .io_buffer_make = own_buffer_make,
    .io_buffer_free = own_buffer_free,
    .mask_make = mask_make,
    .mask_free = mask_free,
    .process = process,
    .reset = reset,
};

void faulty_costs_keep(void)
{
    struct plan_costs cpu = *backend_cpu.costs, slow = *real->costs;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    setenv("HALOCONV_COSTS", "", 1);
    cpu.mac_ns *= 29;
    cpu.cmac_ns *= 29;
    cpu.fft_ns *= 29;
    cpu.tail_fft_ns *= 29;
    cpu.tail_cmac_ns *= 29;
    slow.call_ns = 1e5;
    costs_keep(&backend_cpu, 0, &cpu);
    costs_keep(&faulty_device, 0, &slow);
}

/* Copies the costs and the operations of the real backend, then takes the place of "cuda". */
__attribute__((constructor)) static void borrow(void)
{
    sem_init(&release, 0, 0);
    const struct backend *cuda = backend_gpu_likely(); /* does not start CUDA */
    if (cuda) real = cuda;
    faulty_device.costs = real->costs;
    faulty_device.measure = real->measure;
    faulty_device.scene = &faulty_scene;
    faulty_scene.bank_make = real->scene->bank_make;
    faulty_scene.bank_free = real->scene->bank_free;
    faulty_scene.memory = real->scene->memory;
    if (real->mask_make_noise) faulty_device.mask_make_noise = mask_make_noise;
    if (real->mask_prepare) faulty_device.mask_prepare = mask_prepare;
    if (real->mask_ready) faulty_device.mask_ready = mask_ready;
    if (real->mask_retire) faulty_device.mask_retire = mask_retire;
    if (real->process_behind) faulty_device.process_behind = process_behind;
    if (real->mask_released) faulty_device.mask_released = mask_released;
    backend_add(&faulty_device);
}
