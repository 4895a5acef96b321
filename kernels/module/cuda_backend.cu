/* cuda_backend - the interface between the engine and a device (dsp/device/backend.h), for CUDA GPUs.
 *
 * open and mask_make allocate all memory and load all kernels. A call uploads only its own frames: the input history,
 * the last frames of each input, stays on the device, in a ring.
 *
 * There are two streams: `audio` (high priority) for process and `setup` for mask_make, so that a mask can be made
 * while audio plays. cuda_state.h lists the files; cuda_partitions.cu, cuda_tail.cu and cuda_files.cu show the course
 * of a call.
 */
#include "dsp/device/backend.h"

#include "dsp/device/render_backend.h"
#include "dsp/device/tensor_backend.h"
#include "dsp/device/scene_backend.h"
#include "crossfade.h"
#include "cuda_transfer.h"
#include "cuda_error.h"
#include "cuda_tail.h"
#include "cuda_files.h"
#include "cuda_masks.h"
#include "cuda_partitions.h"
#include "device_costs.h"
#include "fft_block.cuh"
#include "fir.h"
#include "partition.h"
#include "pcm.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t state_cut(struct state *s, void *base)
{
    const struct plan *plan = s->plan;
    const size_t P = (size_t)plan->partition, n_in = (size_t)s->n_in, n_out = (size_t)s->n_out;
    size_t used = 0;
    s->ring = (float *)device_cut(base, &used, n_in * s->ring_length * sizeof(float));
    if (s->tail) {
        for (int i = 0; i < 2; i++) s->wet[i] = (float *)device_cut(base, &used, n_out * plan->block * sizeof(float));
        const size_t receive_bytes = cuda_receive_bytes(s);
        if (receive_bytes) s->receive = (float *)device_cut(base, &used, receive_bytes);
        return used + gpu_tail_cut(s->tail, base ? (char *)base + used : NULL);
    }
    s->fir_scratch = device_cut(base, &used, fir_scratch_bytes(s->n_sm));
    if (!plan->direct) s->spectra = (float2 *)device_cut(base, &used, n_in * s->n_slots * P * sizeof(float2));
    /* history_clear zeroes everything up to here */
    for (int i = 0; i < 2; i++) s->wet[i] = (float *)device_cut(base, &used, n_out * plan->block * sizeof(float));
    if (s->queue_depth > 1)
        s->wets = (float *)device_cut(base, &used, s->queue_depth * n_out * plan->block * sizeof(float));
    if (s->in_samples) s->raw_in = (char *)device_cut(base, &used, s->queue_depth * s->raw_in_bytes);
    if (s->out_samples) s->raw_out = (char *)device_cut(base, &used, s->queue_depth * s->raw_out_bytes);
    if (s->raw_in || s->raw_out || !base)
        s->seen = (struct slot_seen *)device_cut(base, &used, s->queue_depth * sizeof *s->seen);
    if (plan->direct) return used;
    s->twiddles = (float2 *)device_cut(base, &used, P * sizeof(float2));
    s->sums = (float2 *)device_cut(base, &used, s->sums_room * P * sizeof(float2));
    s->staging = (float *)device_cut(base, &used, s->half);
    return used;
}

/* ---- describe, open, close --------------------------------------------------------------------------------------- */

static int cuda_describe(int device, char *text, size_t cap)
{
    int n = 0, driver = 0;
    struct cudaDeviceProp prop;
    struct reason why = {text, cap};
    if (cudaGetDeviceCount(&n) != cudaSuccess || device < 0 || device >= n) {
        cudaGetLastError();
        return fail(HC_EINVAL, &why, "none");
    }
    cudaError_t e = cudaGetDeviceProperties(&prop, device);
    if (e == cudaSuccess) e = cudaDriverGetVersion(&driver);
    if (e != cudaSuccess) return cuda_fail(e, &why, "cudaGetDeviceProperties(%d)", device);
    if (text && cap)
        snprintf(text, cap, "%s, %d SMs, %d GiB, driver %d.%d, sm_%d%d", prop.name, prop.multiProcessorCount,
                 (int)(prop.totalGlobalMem >> 30), driver / 1000, driver % 1000 / 10, prop.major, prop.minor);
    return HC_OK;
}

static unsigned power_of_two(size_t n)
{
    size_t p = 1;
    while (p < n) p *= 2;
    return (unsigned)p;
}

static int history_clear(struct state *s, struct reason *why)
{
    size_t n = (size_t)((char *)s->wet[0] - (char *)s->memory); /* ring, FIR scratch, FDL: see state_cut */
    TRY(cudaMemsetAsync(s->memory, 0, n, s->audio), "cudaMemsetAsync(%zu)", n);
    TRY(cudaStreamSynchronize(s->audio), "cudaStreamSynchronize");
    if (s->tail) gpu_tail_reset(s->tail);
    s->total = s->n_spectra = 0;
    s->resets++;
    return HC_OK;
}

/* The size of a buffer of n samples: pcm may read or write 16 bytes more. */
static size_t raw_bytes(int samples, size_t n) { return (n * samples_bytes(samples) + 31) / 16 * 16; }

static int state_open(struct state *s, const hc_config *config, struct reason *why)
{
    const struct plan *plan = s->plan;
    const int P = plan->partition;
    int n = 0, least, greatest;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n < 1) return cuda_refuse_no_gpu(e, why);
    if (s->device < 0 || s->device >= n)
        return fail(HC_EDEVICE, why,
                    "cuda: no device cuda:%d: there are %d, from cuda:0 on (haloconv devices); or use the CPU",
                    s->device, n);
    if (!plan->direct && !plan->n_tail_levels && (P < FFT_LEAST || P > FFT_MOST || (P & (P - 1))))
        return fail(HC_EINVAL, why, "cuda: a partition of %d frames: it must be a power of two from %d to %d", P,
                    FFT_LEAST, FFT_MOST);

    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    TRY(cudaDeviceGetAttribute(&s->n_sm, cudaDevAttrMultiProcessorCount, s->device), "cudaDeviceGetAttribute");
    TRY(crossfade_load(), "loading kernels");
    TRY(cuda_transfer_load(), "loading kernels");
    if (plan->n_tail_levels) {
        s->tail = (struct gpu_tail *)calloc(1, sizeof *s->tail);
        if (!s->tail) return fail(HC_ENOMEM, why, "cuda: out of memory");
        PASS(gpu_tail_open(s->tail, plan, config, s->n_sm, why));
    }
    TRY(fir_load(), "loading the FIR kernels");
    if (!plan->direct) TRY(part_load(), "loading the partition kernels");
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    TRY(cudaStreamCreateWithPriority(&s->audio, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    TRY(cudaStreamCreateWithPriority(&s->setup, cudaStreamNonBlocking, least), "cudaStreamCreateWithPriority");
    TRY(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    s->queue_depth = config->block == 0 && !plan->n_tail_levels ? config->queue_depth : 1;
    if (s->queue_depth > 1) PASS(cuda_files_open(s, why));
    s->in_samples = config->in_samples;
    s->out_samples = config->out_samples;
    s->raw_in_bytes = raw_bytes(s->in_samples, (size_t)s->n_in * plan->block);
    s->raw_out_bytes = raw_bytes(s->out_samples, (size_t)s->n_out * plan->block);
    if (s->in_samples || s->out_samples) TRY(pcm_load(), "loading the kernels for samples");
    /* Frames that calls under way still read or write, and the call before them: the kernels behind its output may
     * still read its frames. */
    const size_t under_way = (s->queue_depth > 1 ? s->queue_depth + 1 : 1) * (size_t)plan->block;

    if (s->tail) {
        s->ring_length = power_of_two(gpu_tail_ring_frames(s->tail, plan->block));
    } else if (plan->direct) {
        s->ring_length = power_of_two((size_t)plan->max_taps + under_way);
        if (s->ring_length < FIR_RING_LEAST) s->ring_length = FIR_RING_LEAST;
    } else {
        const int blocks = plan->block / P + 1; /* at most, that one call completes */
        s->ring_length = power_of_two(2 * (size_t)P + under_way);
        s->n_slots = plan->n_partitions + blocks + 1;
        /* A spectrum for each output and whole block of a call; if these are few, room for splits. */
        s->sums_room = (size_t)s->n_out * blocks;
        const size_t some = (size_t)s->n_sm * 2048 / P;
        if (s->sums_room < some) s->sums_room = some;
    }
    if (!s->tail) PASS(cuda_staging_open(s, config, why));
    size_t bytes = state_cut(s, NULL);
    PASS(device_alloc(&s->memory, bytes, "the engine", why));
    state_cut(s, s->memory);
    PASS(cuda_transfer_open(s, why));
    if (s->tail) {
        const size_t pinned = gpu_tail_pinned_bytes(s->tail);
        TRY(cudaHostAlloc(&s->tail->pinned, pinned, cudaHostAllocDefault), "cudaHostAlloc(%zu)", pinned);
        TRY(gpu_tail_load(s->tail, s->device, s->audio), "loading the kernels of tail levels");
    } else if (!plan->direct) {
        float2 tw[FFT_MOST];
        fft_twiddles(tw, P);
        TRY(cudaMemcpyAsync(s->twiddles, tw, P * sizeof(float2), cudaMemcpyHostToDevice, s->audio),
            "cudaMemcpyAsync(%zu)", P * sizeof(float2));
    }
    return history_clear(s, why);
}

static void cuda_close(void *state)
{
    struct state *s = (struct state *)state;
    if (!s) return;
    cudaSetDevice(s->device);
    if (s->up) cudaStreamSynchronize(s->up);
    if (s->audio) cudaStreamSynchronize(s->audio);
    if (s->down) cudaStreamSynchronize(s->down);
    device_store_clear(&s->store);
    cudaFree(s->memory);
    if (s->tail) cudaFreeHost(s->tail->pinned);
    free(s->tail);
    cuda_staging_close(s);
    if (s->done) cudaEventDestroy(s->done);
    cuda_transfer_close(s);
    cuda_files_close(s);
    if (s->down) cudaStreamDestroy(s->down);
    if (s->up) cudaStreamDestroy(s->up);
    if (s->setup) cudaStreamDestroy(s->setup);
    if (s->audio) cudaStreamDestroy(s->audio);
    cudaGetLastError();
    free(s);
}

static int cuda_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct state *s = (struct state *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s) return fail(HC_ENOMEM, why, "cuda: out of memory");
    s->device = device;
    s->plan = plan;
    s->n_in = config->n_in;
    s->n_out = config->n_out;
    int rc = state_open(s, config, why);
    if (rc < 0) {
        cuda_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

static int cuda_process(void *state, struct slot *slot, int n, const struct fade *fade, struct reason *why)
{
    struct state *s = (struct state *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    return s->tail ? cuda_tail_process(s, slot, n, fade, why) : cuda_partitions_process(s, slot, n, fade, why);
}

static int cuda_reset(void *state, struct reason *why)
{
    struct state *s = (struct state *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    return history_clear(s, why);
}

/* ---- costs, and the table ---------------------------------------------------------------------------------------- */

/* Nanoseconds on an H200, rounded; used until the costs are measured (device_costs.h). */
static constexpr struct plan_costs costs_of_a_gpu(void)
{
    struct plan_costs costs = {};
    costs.min_partition = 32;
    costs.max_partition = FFT_MOST;
    costs.max_tail = TAIL_SIZE_MOST;
    costs.mac_ns = 6e-5; /* 28 to 41 TFLOP/s, depending on the channels */
    costs.cmac_ns = 1e-4;
    costs.live_cmac_ns = 2.2e-3; /* 8 bytes from memory, and a quarter of that from L2 */
    costs.input_share = 0.8;     /* 8 bytes from memory; for independent channels as many bytes as the responses */
    costs.fft_ns = 5e-4;
    costs.launch_ns = 1500; /* a block costs between 300 (files: 32 blocks a launch) and 10000 (live: transform,
                               products, inverse) */
    costs.slice_ns = 1000;  /* a hop of eight levels has three launches */
    costs.call_ns = 13000;  /* to the card and back, including the launch of a hop */
    costs.file_block = 262144; /* stereo: 2 MiB up and 2 MiB down, 64 partitions of 4096 a launch */
    return costs;
}
static constexpr struct plan_costs costs = costs_of_a_gpu();

static constexpr struct backend backend_of_a_gpu(void)
{
    struct backend backend = {};
    backend.name = "cuda";
    backend.scene = &scene_cuda;
    backend.render = &render_cuda;
    backend.tensors = &tensors_cuda;
    backend.in_chunks = true;
    backend.costs = &costs;
    backend.describe = cuda_describe;
    backend.measure = device_costs_measure;
    backend.open = cuda_open;
    backend.close = cuda_close;
    backend.slot_make = cuda_slot_make;
    backend.slot_free = cuda_slot_free;
    backend.mask_make = cuda_mask_make;
    backend.mask_free = cuda_mask_free;
    backend.mask_make_noise = cuda_mask_make_noise;
    backend.mask_prepare = cuda_mask_prepare;
    backend.mask_ready = cuda_mask_ready;
    backend.mask_retire = cuda_mask_retire;
    backend.process = cuda_process;
    backend.reset = cuda_reset;
    backend.raw = true;
    backend.begin = cuda_files_begin;
    backend.end = cuda_files_end;
    return backend;
}
constexpr struct backend backend_cuda = backend_of_a_gpu(); /* constant: it must exist before any constructor runs */
