/* cuda_backend - the engine's contract with a device (dsp/backend.h) on a CUDA GPU.
 *
 * Everything is allocated, and every kernel loaded, in open and mask_make. A call uploads its frames and nothing more: the
 * halo, the last frames of each input, stays on the device and is carried from call to call in a ring.
 *
 *   stream   |  block b-1  |   block b   |  block b+1  |..     blocks of P frames from the start of the stream
 *   a call         [ head  |     whole blocks     | rest ]
 *
 *   head, rest   a part of a block: its first P taps in the time domain (fir) + the tail of the block, which is what
 *                partitions 1 ... add to it: known when the block before is complete
 *   whole        transforms, all blocks of the call in one launch (partition)
 *
 * After the output is on its way the spectra and tails that the next call needs are made; nobody waits for them. A single
 * block of P <= 256 counts as a rest: then the only thing between input and output is the FIR.
 *
 * A plan with far levels (far_levels.h) has neither head, whole nor rest: a call is cut at ticks, and each piece is its near taps in
 * the time domain (near) plus what the far levels hold for it. The step of a tick that a call completes comes behind the
 * output, between calls. A large block goes through the copy engines, beside that step: up while the tick before's runs,
 * down while its own does.
 *
 *   up      | in b |        | in b+1 |
 *   audio   .. step | near b | step b .. | near b+1 | step ..
 *   down            | out b     |        | out b+1     |
 *
 * Two streams: `audio` (high priority) carries process, `setup` carries mask_make, so that a mask can be made meanwhile.
 *
 * A file (block 0) has several calls under way (config.flight), on three streams: the copy up of one, the kernels of the one before and
 * the copy down of the one before that run beside one another.
 *
 *   up      | in 0 | in 1 | in 2 | in 3 |
 *   audio          | 0    | 1    | 2    | 3    |
 *   down                  | out 0| out 1| out 2| out 3|
 *
 * Samples that are not planar floats go up and down as they are in the file; pcm decodes them behind the copy up and encodes
 * them before the copy down.
 */
#include "backend.h"

#include "cuda_error.h"
#include "device_costs.h"
#include "device_memory.h"
#include "far_levels.h"
#include "fft_block.cuh"
#include "fir.h"
#include "partition.h"
#include "pcm.h"
#include "pinned_memory.h"

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An input or output of so many bytes goes beside the far levels: of 16384 channels at 64 frames it would be heard 30 us
 * later, of 32768 it is all one, and without it 65536 are not held. Tests on the CPU want less. */
#ifndef BESIDE_BYTES
#define BESIDE_BYTES (8 << 20)
#endif
enum {
    NEAR_MOST = 256,    /* a call of one whole block of up to so many frames goes through the FIR       */
    LIVE_FLOATS = 16384, /* a call of up to so many samples, in and out together, makes no copies (64 KiB) */
    FLIGHT_MOST = 16,   /* calls of a file that are under way                                           */
    FERRY_BYTES = 512 << 10, /* a ferry's block goes up and comes down in pieces of so many bytes: 10 us of the bus ... */
    LANDINGS = 16,      /* ... but not in more than these */
    HALF_LEAST = 2 * FFT_MOST * (int)sizeof(float), /* of the staging memory: whole partitions of every size */
    HALF_MOST = 1 << 20 /* sent in 20 us (55 GB/s), filled in longer: with more it would not be faster   */
};

struct state {
    int device, n_sm;
    const struct plan *plan;
    int n_in, n_out;
    cudaStream_t audio, setup;
    cudaEvent_t done;        /* the output of a call is in its slot                                            */
    cudaEvent_t landing[LANDINGS]; /* the first outputs of a ferry's block are                                  */
    int flight;              /* calls that may be under way: 2 to FLIGHT_MOST for a file, else 1               */
    cudaStream_t up, down;   /* where flight > 1, or beside the far levels                                     */
    cudaEvent_t sent[FLIGHT_MOST], played[FLIGHT_MOST], landed[FLIGHT_MOST]; /* of call i, at i % flight; flight > 1 */
    uint64_t n_begun, n_ended;
    void *memory;            /* device memory; all below points into it                                        */
    float *ring;             /* [n_in][ring_length], frame f at f & (ring_length - 1)                          */
    unsigned ring_length;
    float *wet[2];           /* [n_out][block]: what `to` and `from` of a fade play                            */
    float *inbox;            /* [n_in][block]: where a large block waits for its place in the ring; NULL: none */
    cudaEvent_t arrived[LANDINGS]; /* the first channels of a large block are there                            */
    bool out_beside;         /* the output goes from wet[0] to its slot by the copy engine                     */
    float *wets;             /* [flight][n_out][block]: what is on its way down; flight > 1                    */
    int in_samples, out_samples; /* enum hc_samples                                                            */
    size_t raw_in_bytes, raw_out_bytes;
    char *raw_in, *raw_out;  /* [flight][raw_..._bytes]: samples as they are in a file; NULL: planar           */
    struct slot_seen *seen;  /* [flight]; NULL: all planar                                                     */
    void *fir_scratch;
    float2 *twiddles;        /* [P]; from here on not for direct                                               */
    float2 *spectra;         /* [n_in][n_slots][P]: block b of an input at slot b % n_slots                    */
    int n_slots;
    float2 *sums;            /* [sums_room][P]: output spectra before the inverse                              */
    size_t sums_room;
    float *staging;          /* [half]: partitions on their way to spectra; stream setup                       */
    char *pinned;            /* [2][half], the host's: what a mask is made of; NULL with far levels            */
    size_t half;             /* bytes: a power of two                                                          */
    cudaEvent_t left[2];     /* what was sent of a half has left it                                            */
    int64_t total;           /* frames in the history                                                          */
    int64_t n_spectra;       /* blocks whose spectra are made                                                  */
    int resets;
    struct far *far;         /* NULL = a plan without far levels                                               */
    struct device_store store; /* memory of masks; set-up only                                                 */
};

struct mask {
    void *memory;            /* device; all below points into it                                               */
    size_t bytes;
    struct far_mask far;     /* with far levels: this, and nothing below                                       */
    float *taps;             /* the first P taps (direct: all) of each response, each padded to FIR_PAD        */
    int *first;              /* [n_out + 1]: cells of an output                                                */
    struct fir_cell *fir_cells;   /* [n_cells]                                                                 */
    struct part_cell *part_cells; /* [n_cells]                                                                 */
    float2 *spectra;         /* responses one after another, [n_parts][P] each                                 */
    float *tail;             /* [n_out][P]: what partitions 1 ... add to block tail_block                      */
    int64_t tail_block;
    int tail_resets;         /* state.resets when the tail was made                                            */
    int most_taps, most_cells, most_parts; /* of one output, of one output, of one response                    */
    int needs[LANDINGS];     /* with far levels: inputs [0, needs[i]) are all that the first pieces of the output,
                                up to the i-th, are made of                                                    */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t state_cut(struct state *s, void *base)
{
    const struct plan *plan = s->plan;
    const size_t P = (size_t)plan->partition, n_in = (size_t)s->n_in, n_out = (size_t)s->n_out;
    size_t used = 0;
    s->ring = (float *)device_cut(base, &used, n_in * s->ring_length * sizeof(float));
    if (s->far) {
        for (int i = 0; i < 2; i++) s->wet[i] = (float *)device_cut(base, &used, n_out * plan->block * sizeof(float));
        const size_t in_bytes = n_in * plan->block * sizeof(float);
        if (in_bytes >= BESIDE_BYTES) s->inbox = (float *)device_cut(base, &used, in_bytes);
        return used + far_cut(s->far, base ? (char *)base + used : NULL);
    }
    s->fir_scratch = device_cut(base, &used, fir_scratch_bytes(s->n_sm));
    if (!plan->direct) s->spectra = (float2 *)device_cut(base, &used, n_in * s->n_slots * P * sizeof(float2));
    /* so far: to be zero at the start */
    for (int i = 0; i < 2; i++) s->wet[i] = (float *)device_cut(base, &used, n_out * plan->block * sizeof(float));
    if (s->flight > 1) s->wets = (float *)device_cut(base, &used, s->flight * n_out * plan->block * sizeof(float));
    if (s->in_samples) s->raw_in = (char *)device_cut(base, &used, s->flight * s->raw_in_bytes);
    if (s->out_samples) s->raw_out = (char *)device_cut(base, &used, s->flight * s->raw_out_bytes);
    if (s->raw_in || s->raw_out || !base) s->seen = (struct slot_seen *)device_cut(base, &used, s->flight * sizeof *s->seen);
    if (plan->direct) return used;
    s->twiddles = (float2 *)device_cut(base, &used, P * sizeof(float2));
    s->sums = (float2 *)device_cut(base, &used, s->sums_room * P * sizeof(float2));
    s->staging = (float *)device_cut(base, &used, s->half);
    return used;
}

/* ---- kernels of its own ------------------------------------------------------------------------------------------ */

/* y = a crossfade between two wet signals, of which y may be one; NULL is silence. grid: n_out x frames */
static __global__ void blend(float *y, const float *from, const float *to, size_t pitch, int n, int pos, int len)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const size_t at = blockIdx.x * pitch + i;
    const float g = fade_gain(pos + i, len);
    y[at] = (from ? from[at] * (1.0f - g) : 0.0f) + (to ? to[at] * g : 0.0f);
}

/* ring[ch][at + i] = in[ch][i], read from the host's pinned memory. grid: channels x frames */
static __global__ void fetch(float *ring, unsigned ring_mask, unsigned at, const float *in, size_t pitch, int n)
{
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) ring[blockIdx.x * ((size_t)ring_mask + 1) + ((at + i) & ring_mask)] = in[blockIdx.x * pitch + i];
}

/* The same from device memory, for many channels: ROWS of them a block, 16 or 4 bytes a thread. All counts are in T. */
enum { ROWS = 16, ROW_THREADS = 16 };
template <class T>
static __global__ void __launch_bounds__(ROWS * ROW_THREADS) spread(T *ring, unsigned ring_mask, unsigned at,
                                                                    const T *in, size_t pitch, int n, int n_ch)
{
    const int ch = blockIdx.x * ROWS + threadIdx.y;
    if (ch >= n_ch) return;
    for (int i = threadIdx.x; i < n; i += ROW_THREADS)
        ring[ch * ((size_t)ring_mask + 1) + ((at + i) & ring_mask)] = in[ch * pitch + i];
}

static cudaError_t load_kernels(void)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaFuncGetAttributes(&a, blend);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, fetch);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, spread<float>);
    return e == cudaSuccess ? cudaFuncGetAttributes(&a, spread<float4>) : e;
}

/* ---- describe, open, close --------------------------------------------------------------------------------------- */

static int cuda_describe(int device, char *text, size_t cap)
{
    int n = 0, driver = 0;
    struct cudaDeviceProp prop;
    if (cudaGetDeviceCount(&n) != cudaSuccess || device < 0 || device >= n) {
        cudaGetLastError();
        return fail(HC_EINVAL, text, cap, "none");
    }
    cudaError_t e = cudaGetDeviceProperties(&prop, device);
    if (e == cudaSuccess) e = cudaDriverGetVersion(&driver);
    if (e != cudaSuccess) return cuda_fail(e, text, cap, "cudaGetDeviceProperties(%d)", device);
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

static int history_clear(struct state *s, char *why, size_t cap)
{
    size_t n = (size_t)((char *)s->wet[0] - (char *)s->memory); /* ring, scratch, spectra: see state_cut */
    TRY(cudaMemsetAsync(s->memory, 0, n, s->audio), "cudaMemsetAsync(%zu)", n);
    TRY(cudaStreamSynchronize(s->audio), "cudaStreamSynchronize");
    if (s->far) far_reset(s->far);
    s->total = s->n_spectra = 0;
    s->resets++;
    return HC_OK;
}

static int flight_open(struct state *s, char *why, size_t cap)
{
    TRY(cudaStreamCreateWithFlags(&s->up, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaStreamCreateWithFlags(&s->down, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (int i = 0; i < s->flight; i++) {
        TRY(cudaEventCreateWithFlags(&s->sent[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->played[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
        TRY(cudaEventCreateWithFlags(&s->landed[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    return HC_OK;
}

static void flight_close(struct state *s)
{
    for (int i = 0; i < FLIGHT_MOST; i++) {
        if (s->sent[i]) cudaEventDestroy(s->sent[i]);
        if (s->played[i]) cudaEventDestroy(s->played[i]);
        if (s->landed[i]) cudaEventDestroy(s->landed[i]);
    }
    if (s->down) cudaStreamDestroy(s->down);
    if (s->up) cudaStreamDestroy(s->up);
}

/* Both streams, of which one may have no work: a state that has one large side is rare. */
static int beside_open(struct state *s, char *why, size_t cap)
{
    int least, greatest;
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    TRY(cudaStreamCreateWithPriority(&s->up, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    TRY(cudaStreamCreateWithPriority(&s->down, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    for (int i = 0; i < LANDINGS; i++)
        TRY(cudaEventCreateWithFlags(&s->arrived[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

/* Pinned memory is slow to get, and other threads' calls wait meanwhile: once, and no more than a mask of this shape
 * fills. A larger mask goes through it in pieces. */
static int staging_open(struct state *s, const hc_config *config, char *why, size_t cap)
{
    const size_t n_channels = s->n_in > s->n_out ? s->n_in : s->n_out;
    const size_t n_routes = config->n_routes ? (size_t)config->n_routes : n_channels;
    const size_t taps = s->plan->direct ? s->plan->max_taps : (size_t)(s->plan->n_partitions + 1) * s->plan->partition;
    for (s->half = HALF_LEAST; s->half < HALF_MOST && 2 * s->half < n_routes * taps * sizeof(float);) s->half *= 2;
    PASS(pinned_alloc((void **)&s->pinned, 2 * s->half, why, cap));
    for (int i = 0; i < 2; i++)
        TRY(cudaEventCreateWithFlags(&s->left[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return HC_OK;
}

static void staging_close(struct state *s)
{
    for (int i = 0; i < 2; i++)
        if (s->left[i]) cudaEventDestroy(s->left[i]);
    pinned_free(s->pinned);
}

/* Of a block; pcm reads whole words. */
static size_t raw_bytes(int samples, size_t n) { return (n * samples_bytes(samples) + 31) / 16 * 16; }

static int state_open(struct state *s, const hc_config *config, char *why, size_t cap)
{
    const struct plan *plan = s->plan;
    const int P = plan->partition;
    int n = 0, least, greatest;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n < 1) {
        cudaGetLastError();
        return fail(HC_EDEVICE, why, cap, "cuda: no CUDA device: %s; use --backend cpu",
                    cudaGetErrorString(e != cudaSuccess ? e : cudaErrorNoDevice));
    }
    if (s->device < 0 || s->device >= n)
        return fail(HC_EDEVICE, why, cap,
                    "cuda: no device cuda:%d: there are %d, from cuda:0 on (haloconv devices); or use --backend cpu",
                    s->device, n);
    if (!plan->direct && !plan->n_far && (P < FFT_LEAST || P > FFT_MOST || (P & (P - 1))))
        return fail(HC_EINVAL, why, cap, "cuda: a partition of %d frames: it must be a power of two from %d to %d", P,
                    FFT_LEAST, FFT_MOST);

    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    TRY(cudaDeviceGetAttribute(&s->n_sm, cudaDevAttrMultiProcessorCount, s->device), "cudaDeviceGetAttribute");
    TRY(load_kernels(), "loading kernels");
    if (plan->n_far) {
        s->far = (struct far *)calloc(1, sizeof *s->far);
        if (!s->far) return fail(HC_ENOMEM, why, cap, "cuda: out of memory");
        PASS(far_open(s->far, plan, config, s->n_sm, why, cap));
    }
    TRY(fir_load_kernels(), "loading the FIR kernels");
    if (!plan->direct) TRY(part_load_kernels(), "loading the partition kernels");
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    TRY(cudaStreamCreateWithPriority(&s->audio, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
    TRY(cudaStreamCreateWithPriority(&s->setup, cudaStreamNonBlocking, least), "cudaStreamCreateWithPriority");
    TRY(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    for (int i = 0; i < LANDINGS; i++)
        TRY(cudaEventCreateWithFlags(&s->landing[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    s->flight = config->block == 0 && !plan->n_far ? config->flight : 1;
    if (s->flight > 1) PASS(flight_open(s, why, cap));
    s->in_samples = config->in_samples;
    s->out_samples = config->out_samples;
    s->raw_in_bytes = raw_bytes(s->in_samples, (size_t)s->n_in * plan->block);
    s->raw_out_bytes = raw_bytes(s->out_samples, (size_t)s->n_out * plan->block);
    if (s->in_samples || s->out_samples) TRY(pcm_load(), "loading the kernels of samples");
    /* Frames that calls under way still read or write. The spectra behind the output of the call before may not be made yet. */
    const size_t kept = (s->flight > 1 ? s->flight + 1 : 1) * (size_t)plan->block;

    if (s->far) {
        s->ring_length = power_of_two(far_ring_frames(s->far, plan->block));
    } else if (plan->direct) {
        s->ring_length = power_of_two((size_t)plan->max_taps + kept);
        if (s->ring_length < FIR_RING_LEAST) s->ring_length = FIR_RING_LEAST;
    } else {
        const int blocks = plan->block / P + 1; /* most blocks that one call completes */
        s->ring_length = power_of_two(2 * (size_t)P + kept);
        s->n_slots = plan->n_partitions + blocks + 1;
        /* A spectrum for each output and whole block of a call, and room for splits when those are few. */
        s->sums_room = (size_t)s->n_out * blocks;
        const size_t some = (size_t)s->n_sm * 2048 / P;
        if (s->sums_room < some) s->sums_room = some;
    }
    if (!s->far) PASS(staging_open(s, config, why, cap));
    s->out_beside = s->far && (size_t)s->n_out * plan->block * sizeof(float) >= BESIDE_BYTES;
    size_t bytes = state_cut(s, NULL);
    PASS(device_alloc(&s->memory, bytes, "the engine", why, cap));
    state_cut(s, s->memory);
    if (s->inbox || s->out_beside) PASS(beside_open(s, why, cap));
    if (s->far) {
        const size_t pinned = far_pinned_bytes(s->far);
        TRY(cudaHostAlloc(&s->far->pinned, pinned, cudaHostAllocDefault), "cudaHostAlloc(%zu)", pinned);
        TRY(far_load(s->far, s->device, s->audio), "loading the kernels of far levels");
    } else if (!plan->direct) {
        float2 tw[FFT_MOST];
        part_twiddles(tw, P);
        TRY(cudaMemcpyAsync(s->twiddles, tw, P * sizeof(float2), cudaMemcpyHostToDevice, s->audio),
            "cudaMemcpyAsync(%zu)", P * sizeof(float2));
    }
    return history_clear(s, why, cap);
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
    if (s->far) cudaFreeHost(s->far->pinned);
    free(s->far);
    staging_close(s);
    if (s->done) cudaEventDestroy(s->done);
    for (int i = 0; i < LANDINGS; i++) {
        if (s->arrived[i]) cudaEventDestroy(s->arrived[i]);
        if (s->landing[i]) cudaEventDestroy(s->landing[i]);
    }
    flight_close(s);
    if (s->setup) cudaStreamDestroy(s->setup);
    if (s->audio) cudaStreamDestroy(s->audio);
    cudaGetLastError();
    free(s);
}

static int cuda_open(const hc_config *config, const struct plan *plan, int device, void **state, char *why, size_t cap)
{
    struct state *s = (struct state *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s) return fail(HC_ENOMEM, why, cap, "cuda: out of memory");
    s->device = device;
    s->plan = plan;
    s->n_in = config->n_in;
    s->n_out = config->n_out;
    int rc = state_open(s, config, why, cap);
    if (rc < 0) {
        cuda_close(s);
        return rc;
    }
    *state = s;
    return HC_OK;
}

/* ---- slots: pinned, so that copies run beside everything else ---------------------------------------------------- */

static void cuda_slot_free(void *state, struct slot *slot)
{
    const struct state *s = (const struct state *)state;
    cudaSetDevice(s->device);
    if (s->flight == 1) {
        cudaFreeHost(slot->in);
        cudaFreeHost(slot->out);
    } else {
        pinned_free(slot->in);
        pinned_free(slot->out);
        pinned_free(slot->seen);
    }
    slot->in = slot->out = NULL;
    slot->seen = NULL;
}

static int slot_alloc(struct state *s, struct slot *slot, char *why, size_t cap)
{
    const size_t n_in = (size_t)s->n_in * s->plan->block, n_out = (size_t)s->n_out * s->plan->block;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (s->flight == 1) { /* live: a device that reads and writes there by itself wants the driver's own memory */
        TRY(cudaHostAlloc((void **)&slot->in, n_in * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc(%zu)", n_in);
        TRY(cudaHostAlloc((void **)&slot->out, n_out * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc(%zu)", n_out);
        memset(slot->in, 0, n_in * sizeof(float));
        memset(slot->out, 0, n_out * sizeof(float));
        return HC_OK;
    }
    PASS(pinned_alloc((void **)&slot->in, n_in * samples_bytes(s->in_samples), why, cap));
    PASS(pinned_alloc((void **)&slot->out, n_out * samples_bytes(s->out_samples), why, cap));
    if (s->in_samples || s->out_samples) PASS(pinned_alloc((void **)&slot->seen, sizeof *slot->seen, why, cap));
    return HC_OK;
}

static int cuda_slot_make(void *state, struct slot *slot, char *why, size_t cap)
{
    slot->in = slot->out = NULL;
    slot->seen = NULL;
    int rc = slot_alloc((struct state *)state, slot, why, cap);
    if (rc < 0) cuda_slot_free(state, slot);
    return rc;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* A mask is made in the host's pinned memory and sent from there, in a few calls whatever the number of its responses: a
 * call to the driver holds up those of all other threads. Copies from other memory and waits that spin hold up audio.
 *
 *   head, to the mask's memory     | first | fir_cells | part_cells | near taps, padded |
 *   parts, to `staging`            | part 0 of response 0 | part 1 | .. | part 0 of response 1 | ..
 *                                    P taps, the last of a response with zeros behind: one launch transforms them all
 *
 * The two halves of the pinned memory take turns: one is filled while the other is on its way. */
struct mask_plan { int *near, *near_at, *parts, *parts_at; }; /* of each response: taps for the FIR, partitions, offsets */

struct head { size_t fir_cells, part_cells, taps, bytes; }; /* where they start, in bytes */

struct cargo {               /* what is packed, and where it goes                                              */
    char *to;                /* in the mask; moves on                                                          */
    float2 *spectra;         /* NULL, or of the next partition: through `staging` and the transform            */
    int half;                /* that is filled                                                                 */
    size_t sent, used;       /* of its bytes                                                                   */
};

static size_t taps_padded(int n) { return ((size_t)n + FIR_PAD - 1) / FIR_PAD * FIR_PAD; }

static struct head head_of(const struct state *s, const struct matrix *matrix, size_t near_taps)
{
    const size_t n_part_cells = s->plan->direct ? 0 : matrix->n_cells;
    struct head head;
    head.fir_cells = ((size_t)s->n_out + 1 + 3) / 4 * 4 * sizeof(int); /* all start at 16 bytes */
    head.part_cells = head.fir_cells + matrix->n_cells * sizeof(struct fir_cell);
    head.taps = head.part_cells + n_part_cells * sizeof(struct part_cell);
    head.bytes = head.taps + near_taps * sizeof(float);
    return head;
}
static_assert(sizeof(struct fir_cell) == 16 && sizeof(struct part_cell) == 16, "what lies behind them is aligned");

static size_t mask_cut(struct mask *m, const struct state *s, const struct head *head, size_t parts, void *base)
{
    const size_t P = (size_t)s->plan->partition;
    size_t used = 0;
    char *at = (char *)device_cut(base, &used, head->bytes);
    if (at) {
        m->first = (int *)at;
        m->fir_cells = (struct fir_cell *)(at + head->fir_cells);
        m->part_cells = (struct part_cell *)(at + head->part_cells);
        m->taps = (float *)(at + head->taps);
    }
    if (s->plan->direct) return used;
    m->tail = (float *)device_cut(base, &used, s->n_out * P * sizeof(float));
    m->spectra = (float2 *)device_cut(base, &used, parts * P * sizeof(float2));
    return used;
}

static int parts_transform(struct state *s, float2 *spectra, int n, char *why, size_t cap)
{
    const int P = s->plan->partition;
    struct part_forward job = {};
    job.x = s->staging;
    job.ring_mask = ~0u;
    job.hop = job.n_valid = P;
    job.n_ch = 1;
    job.n_blocks = job.n_slots = n;
    job.spectra = spectra;
    job.scale = 0.5f / (float)P; /* undoes the gain of the inverse */
    TRY(part_forward_launch(&job, P, s->twiddles, s->setup), "the transform of responses");
    return HC_OK;
}

/* Send what was packed since the last time. */
static int cargo_send(struct state *s, struct cargo *c, char *why, size_t cap)
{
    const size_t bytes = c->used - c->sent, P = (size_t)s->plan->partition;
    const char *from = s->pinned + c->half * s->half + c->sent;
    if (!bytes) return HC_OK;
    TRY(cudaMemcpyAsync(c->spectra ? (char *)s->staging : c->to, from, bytes, cudaMemcpyHostToDevice, s->setup),
        "cudaMemcpyAsync(%zu)", bytes);
    c->sent = c->used;
    if (!c->spectra) {
        c->to += bytes;
        return HC_OK;
    }
    const size_t n = bytes / (P * sizeof(float));
    PASS(parts_transform(s, c->spectra, (int)n, why, cap));
    c->spectra += n * P;
    return HC_OK;
}

/* A half is full: on to the other one, as soon as that is empty. */
static int cargo_turn(struct state *s, struct cargo *c, char *why, size_t cap)
{
    PASS(cargo_send(s, c, why, cap));
    TRY(cudaEventRecord(s->left[c->half], s->setup), "cudaEventRecord");
    c->half ^= 1;
    c->sent = c->used = 0;
    TRY(device_wait_event(s->left[c->half]), "making a mask");
    return HC_OK;
}

/* Pack `bytes` and zeros behind them, `padded` in all. */
static int cargo_pack(struct state *s, struct cargo *c, const void *from, size_t bytes, size_t padded, char *why,
                      size_t cap)
{
    for (size_t done = 0, n; done < padded; done += n) {
        if (c->used == s->half) PASS(cargo_turn(s, c, why, cap));
        char *to = s->pinned + c->half * s->half + c->used;
        const size_t end = done < bytes ? bytes : padded, room = s->half - c->used;
        n = end - done < room ? end - done : room;
        if (done < bytes) memcpy(to, (const char *)from + done, n);
        else memset(to, 0, n);
        c->used += n;
    }
    return HC_OK;
}

static int head_pack(struct state *s, struct cargo *c, const struct matrix *matrix, const struct mask_plan *cuts,
                     const struct head *head, const int *first, const struct fir_cell *fir,
                     const struct part_cell *part, char *why, size_t cap)
{
    const size_t fir_bytes = head->part_cells - head->fir_cells, part_bytes = head->taps - head->part_cells;
    PASS(cargo_pack(s, c, first, (s->n_out + 1) * sizeof *first, head->fir_cells, why, cap));
    PASS(cargo_pack(s, c, fir, fir_bytes, fir_bytes, why, cap));
    PASS(cargo_pack(s, c, part, part_bytes, part_bytes, why, cap));
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(cargo_pack(s, c, matrix->taps[r], cuts->near[r] * sizeof(float),
                        taps_padded(cuts->near[r]) * sizeof(float), why, cap));
    return cargo_send(s, c, why, cap);
}

static int parts_pack(struct state *s, struct mask *m, struct cargo *c, const struct matrix *matrix,
                      const struct mask_plan *cuts, char *why, size_t cap)
{
    const size_t bytes = s->plan->partition * sizeof(float);
    c->used = c->sent = (c->used + bytes - 1) / bytes * bytes; /* so that a half ends with a whole partition */
    c->spectra = m->spectra;
    for (int r = 0; r < matrix->n_responses; r++)
        PASS(cargo_pack(s, c, matrix->taps[r], matrix->n_taps[r] * sizeof(float), cuts->parts[r] * bytes, why, cap));
    return cargo_send(s, c, why, cap);
}

/* The tables of cells; the arrays are room for them. */
static void cells_make(const struct state *s, struct mask *m, const struct matrix *matrix,
                       const struct mask_plan *cuts, int *first, struct fir_cell *fir, struct part_cell *part)
{
    const int n = matrix->n_cells;
    for (int out = 0, c = 0; out <= s->n_out; out++) {
        int taps = 0, cells = 0;
        first[out] = c;
        for (; c < n && matrix->cells[c].out == out; c++, cells++) {
            const int r = matrix->cells[c].response;
            fir[c].taps = m->taps + cuts->near_at[r];
            fir[c].n_taps = cuts->near[r];
            fir[c].in = matrix->cells[c].in;
            taps += cuts->near[r];
            if (s->plan->direct) continue;
            part[c].spectra = m->spectra + (size_t)cuts->parts_at[r] * s->plan->partition;
            part[c].n_parts = cuts->parts[r];
            part[c].in = matrix->cells[c].in;
        }
        if (taps > m->most_taps) m->most_taps = taps;
        if (cells > m->most_cells) m->most_cells = cells;
    }
}

static int mask_fill(struct state *s, struct mask *m, const struct matrix *matrix, const struct mask_plan *cuts,
                     int *first, struct fir_cell *fir, struct part_cell *part, char *why, size_t cap)
{
    const int P = s->plan->partition;
    size_t near_taps = 0, parts = 0;
    for (int r = 0; r < matrix->n_responses; r++) {
        const int n = matrix->n_taps[r];
        cuts->near[r] = s->plan->direct || n < P ? n : P;
        cuts->near_at[r] = (int)near_taps;
        cuts->parts[r] = s->plan->direct ? 0 : (n + P - 1) / P;
        cuts->parts_at[r] = (int)parts;
        near_taps += taps_padded(cuts->near[r]);
        parts += cuts->parts[r];
        if (cuts->parts[r] > m->most_parts) m->most_parts = cuts->parts[r];
        if (near_taps > INT32_MAX || parts > INT32_MAX)
            return fail(HC_ENOMEM, why, cap, "cuda: the mask has over 2^31 taps; use fewer or shorter responses");
    }
    const struct head head = head_of(s, matrix, near_taps);
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(device_take(&s->store, &m->memory, &m->bytes, mask_cut(m, s, &head, parts, NULL), why, cap));
    mask_cut(m, s, &head, parts, m->memory);
    cells_make(s, m, matrix, cuts, first, fir, part);
    struct cargo cargo = {};
    cargo.to = (char *)m->memory;
    PASS(head_pack(s, &cargo, matrix, cuts, &head, first, fir, part, why, cap));
    if (!s->plan->direct) PASS(parts_pack(s, m, &cargo, matrix, cuts, why, cap));
    TRY(device_wait(s->setup), "making a mask");
    return HC_OK;
}

static void cuda_mask_free(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    struct mask *m = (struct mask *)mask;
    if (!m) return;
    cudaSetDevice(s->device);
    device_give(&s->store, m->memory, m->bytes, s->audio); /* its last tail may still be under way */
    free(m);
}

/* Of a block of so many channels: how many pieces are worth their launches. */
static int pieces_of(const struct state *s, int n_channels)
{
    const size_t n = (size_t)n_channels * s->plan->block * sizeof(float) / FERRY_BYTES;
    return n < 1 ? 1 : n > LANDINGS ? LANDINGS : (int)n;
}

/* The groups of NEAR_OUTS outputs in front of piece i of so many. */
static int piece_start(const struct state *s, int i, int pieces)
{
    const int groups = (s->n_out + NEAR_OUTS - 1) / NEAR_OUTS;
    return (int)((int64_t)groups * i / pieces);
}

static void needs_count(const struct state *s, const struct matrix *matrix, int *needs)
{
    const int pieces = pieces_of(s, s->n_out);
    for (int i = 0, c = 0, most = 0; i < pieces; i++) {
        const int end = piece_start(s, i + 1, pieces) * NEAR_OUTS;
        for (; c < matrix->n_cells && matrix->cells[c].out < end; c++)
            if (matrix->cells[c].in >= most) most = matrix->cells[c].in + 1;
        needs[i] = most;
    }
}

/* With far levels. noise: instead of matrix->taps, or NULL. */
static int far_make(struct state *s, const struct matrix *matrix, const struct noise *noise, struct mask *m, char *why,
                    size_t cap)
{
    struct far_draft draft;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    PASS(far_draft_make(&draft, s->far, matrix, noise, why, cap));
    int rc = device_take(&s->store, &m->memory, &m->bytes, far_mask_cut(&m->far, s->far, &draft, NULL), why, cap);
    if (rc == HC_OK) {
        needs_count(s, matrix, m->needs);
        far_mask_cut(&m->far, s->far, &draft, m->memory);
        cudaError_t e = far_mask_fill(&m->far, s->far, &draft, s->setup);
        const cudaError_t done = device_wait(s->setup);
        if (e == cudaSuccess) e = done;
        if (e != cudaSuccess) rc = cuda_fail(e, why, cap, "making a mask");
    }
    far_draft_free(&draft);
    return rc;
}

static int cuda_mask_make(void *state, const struct matrix *matrix, void **mask, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    const size_t n_r = (size_t)matrix->n_responses, n_c = (size_t)matrix->n_cells;
    struct mask *m = (struct mask *)calloc(1, sizeof *m);
    int *counts = (int *)calloc(4 * n_r + s->n_out + 1, sizeof(int));
    struct fir_cell *fir = (struct fir_cell *)calloc(n_c + 1, sizeof *fir);
    struct part_cell *part = (struct part_cell *)calloc(n_c + 1, sizeof *part);
    int rc = HC_OK;
    *mask = NULL;
    if (!m || !counts || !fir || !part) rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    if (m) m->tail_block = -1;
    if (rc == HC_OK && s->far) {
        rc = far_make(s, matrix, NULL, m, why, cap);
    } else if (rc == HC_OK) {
        struct mask_plan cuts = {counts, counts + n_r, counts + 2 * n_r, counts + 3 * n_r};
        rc = mask_fill(s, m, matrix, &cuts, counts + 4 * n_r, fir, part, why, cap);
    }
    free(part);
    free(fir);
    free(counts);
    if (rc < 0) {
        device_wait(s->setup);
        cuda_mask_free(s, m);
    } else {
        *mask = m;
    }
    return rc;
}

/* The matrix that noise stands for; taps: [n_responses] rows on the host, or NULL where the device makes them. */
static void noise_matrix_free(struct matrix *matrix)
{
    for (int r = 0; matrix->taps && r < matrix->n_responses; r++) free(matrix->taps[r]);
    free(matrix->taps);
    free(matrix->n_taps);
    free(matrix->cells);
}

static bool noise_matrix_make(struct matrix *matrix, const struct state *s, const struct noise *noise, bool with_taps)
{
    const int n_diagonal = s->n_in < s->n_out ? s->n_in : s->n_out;
    const size_t n = noise->diagonal ? n_diagonal : (size_t)s->n_in * s->n_out;
    memset(matrix, 0, sizeof *matrix);
    if (n > INT32_MAX / 2) return false;
    matrix->n_taps = (int *)malloc(n * sizeof(int));
    matrix->cells = (struct cell *)malloc(n * sizeof(struct cell));
    if (with_taps) matrix->taps = (float **)calloc(n, sizeof(float *));
    if (!matrix->n_taps || !matrix->cells || (with_taps && !matrix->taps)) return false;
    matrix->n_responses = matrix->n_cells = (int)n;
    for (int r = 0; r < (int)n; r++) {
        struct cell *cell = &matrix->cells[r]; /* by out, then in; so r is what noise_response says */
        cell->in = noise->diagonal ? r : r % s->n_in;
        cell->out = noise->diagonal ? r : r / s->n_in;
        cell->response = r;
        matrix->n_taps[r] = noise->n_taps;
        if (!with_taps) continue;
        const struct noise_key key = noise_key_of(noise->seed, (uint32_t)r);
        matrix->taps[r] = (float *)malloc(noise->n_taps * sizeof(float));
        if (!matrix->taps[r]) return false;
        for (int k = 0; k < noise->n_taps; k++) matrix->taps[r][k] = noise_tap(key, (uint32_t)k, noise->envelope[k]);
    }
    return true;
}

static int cuda_mask_make_noise(void *state, const struct noise *noise, void **mask, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    struct matrix matrix;
    struct mask *m = NULL;
    int rc = HC_OK;
    *mask = NULL;
    if (!noise_matrix_make(&matrix, s, noise, !s->far)) {
        rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    } else if (!s->far) {
        rc = cuda_mask_make(s, &matrix, mask, why, cap);
    } else if (!(m = (struct mask *)calloc(1, sizeof *m))) {
        rc = fail(HC_ENOMEM, why, cap, "cuda: out of memory for a mask");
    } else {
        rc = far_make(s, &matrix, noise, m, why, cap);
        if (rc < 0) cuda_mask_free(s, m);
        else *mask = m;
    }
    noise_matrix_free(&matrix);
    return rc;
}

/* ---- process ----------------------------------------------------------------------------------------------------- */

/* Make the spectra of all blocks before `end`, whose input is in the ring. */
static int spectra_make(struct state *s, int64_t end, char *why, size_t cap)
{
    const int P = s->plan->partition;
    if (s->n_spectra >= end) return HC_OK;
    struct part_forward job = {};
    job.x = s->ring;
    job.x_pitch = s->ring_length;
    job.ring_mask = s->ring_length - 1;
    job.first = (unsigned)((s->n_spectra - 1) * P);
    job.hop = P;
    job.n_valid = 2 * P;
    job.n_ch = s->n_in;
    job.n_blocks = (int)(end - s->n_spectra);
    job.spectra = s->spectra;
    job.slot = (int)(s->n_spectra % s->n_slots);
    job.n_slots = s->n_slots;
    job.scale = 1.0f;
    TRY(part_forward_launch(&job, P, s->twiddles, s->audio), "the transform of the input");
    s->n_spectra = end;
    return HC_OK;
}

/* y: what partitions first_part ... add to n_blocks blocks from b on. */
static int parts_play(struct state *s, const struct mask *m, int64_t b, int n_blocks, int first_part, float *y,
                      size_t y_pitch, char *why, size_t cap)
{
    const int P = s->plan->partition;
    struct part_mac mac = {};
    struct part_inverse inverse = {};
    mac.x = s->spectra;
    mac.slot = (int)(b % s->n_slots);
    mac.n_slots = s->n_slots;
    mac.cells = m->part_cells;
    mac.first = m->first;
    mac.n_out = inverse.n_out = s->n_out;
    mac.n_blocks = inverse.n_blocks = n_blocks;
    mac.first_part = first_part;
    mac.most_parts = m->most_parts;
    mac.sums = s->sums;
    mac.sums_room = s->sums_room;
    mac.n_sm = s->n_sm;
    TRY(part_mac_launch(&mac, P, &inverse.n_splits, s->audio), "the products of spectra");
    inverse.sums = s->sums;
    inverse.y = y;
    inverse.y_pitch = y_pitch;
    TRY(part_inverse_launch(&inverse, P, s->twiddles, s->audio), "the inverse transform");
    return HC_OK;
}

/* Make the tail of block b, unless it is there. The blocks before b are in the ring. */
static int tail_make(struct state *s, struct mask *m, int64_t b, char *why, size_t cap)
{
    if (m->most_parts < 2 || (m->tail_block == b && m->tail_resets == s->resets)) return HC_OK;
    PASS(spectra_make(s, b, why, cap));
    PASS(parts_play(s, m, b, 1, 1, m->tail, (size_t)s->plan->partition, why, cap));
    m->tail_block = b;
    m->tail_resets = s->resets;
    return HC_OK;
}

/* y[n_out][.]: n frames from frame `from` of the stream on; tail: where their tail starts, NULL = none. */
static int fir_play(struct state *s, const struct mask *m, int64_t from, int n, const float *tail, float *y, char *why,
                    size_t cap)
{
    struct fir_job job = {};
    job.x = s->ring;
    job.ring_mask = s->ring_length - 1;
    job.pos = (unsigned)from;
    job.cells = m->fir_cells;
    job.first = m->first;
    job.y = y;
    job.y_pitch = (size_t)s->plan->block;
    job.add = tail;
    job.add_pitch = (size_t)s->plan->partition;
    job.n = n;
    job.n_out = s->n_out;
    job.most_taps = m->most_taps;
    job.most_cells = m->most_cells;
    job.scratch = s->fir_scratch;
    job.n_sm = s->n_sm;
    TRY(fir_launch(&job, s->audio), "the FIR");
    return HC_OK;
}

/* Do whole blocks of the next n frames go through transforms? */
static bool has_wholes(const struct state *s, int n)
{
    const int P = s->plan->partition;
    const int64_t n_whole = s->plan->direct ? 0 : (s->total + n) / P - (s->total + P - 1) / P; /* -1: inside one block */
    return n_whole > 1 || (n_whole == 1 && P > NEAR_MOST);
}

/* What mask m plays in this call of n frames, into wet. whole: whole blocks through transforms. */
static int mask_play(struct state *s, struct mask *m, int n, bool whole, float *wet, char *why, size_t cap)
{
    const int P = s->plan->partition;
    if (s->plan->direct) return fir_play(s, m, s->total, n, NULL, wet, why, cap);
    for (int frame = 0, len; frame < n; frame += len) {
        const int64_t b = (s->total + frame) / P;
        const int at = (int)((s->total + frame) % P);
        if (whole && at == 0 && n - frame >= P) {
            const int n_blocks = (n - frame) / P;
            len = n_blocks * P;
            PASS(spectra_make(s, b + n_blocks, why, cap));
            PASS(parts_play(s, m, b, n_blocks, 0, wet + frame, (size_t)s->plan->block, why, cap));
        } else {
            len = P - at < n - frame ? P - at : n - frame;
            PASS(tail_make(s, m, b, why, cap));
            PASS(fir_play(s, m, s->total + frame, len, m->most_parts < 2 ? NULL : m->tail + at, wet + frame, why, cap));
        }
    }
    return HC_OK;
}

/* Inputs [ch, end) of n frames, by a kernel. */
static int fetch_channels(struct state *s, const struct slot *slot, int n, int ch, int end, cudaStream_t stream,
                          char *why, size_t cap)
{
    const size_t block = (size_t)s->plan->block;
    fetch<<<dim3(end - ch, (n + 127) / 128), 128, 0, stream>>>(s->ring + (size_t)ch * s->ring_length,
                                                               s->ring_length - 1, (unsigned)s->total,
                                                               slot->in + ch * block, block, n);
    TRY(cudaGetLastError(), "fetching the input");
    return HC_OK;
}

/* Which of the `flight` places the call that is begun now has. */
static int place(const struct state *s) { return (int)(s->n_begun % s->flight); }

static int upload_raw(struct state *s, const struct slot *slot, int n, cudaStream_t stream, char *why, size_t cap)
{
    char *raw = s->raw_in + place(s) * s->raw_in_bytes;
    const size_t bytes = (size_t)n * s->n_in * samples_bytes(s->in_samples);
    TRY(cudaMemcpyAsync(raw, slot->in, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync(%zu)", bytes);
    const struct pcm_decode job = {s->in_samples, raw, s->n_in, n, s->ring, s->ring_length - 1, (unsigned)s->total,
                                   s->seen + place(s)};
    TRY(pcm_decode_launch(&job, stream), "decoding the input");
    return HC_OK;
}

static int upload(struct state *s, const struct slot *slot, int n, bool live, cudaStream_t stream, char *why,
                  size_t cap)
{
    if (s->seen) TRY(cudaMemsetAsync(s->seen + place(s), 0, sizeof *s->seen, stream), "cudaMemsetAsync");
    if (s->raw_in) return upload_raw(s, slot, n, stream, why, cap);
    const int pieces = slot->ferry ? pieces_of(s, s->n_in) : 0;
    for (int i = 0, part = 0, ch = 0; i < pieces && part < FERRY_PARTS; i++) {
        while (part < FERRY_PARTS * (i + 1) / pieces) part = ferry_loaded(slot->ferry, part);
        const int end = (int)((int64_t)s->n_in * part / FERRY_PARTS);
        if (live && end > ch) PASS(fetch_channels(s, slot, n, ch, end, stream, why, cap));
        ch = end;
    }
    if (live) return slot->ferry ? HC_OK : fetch_channels(s, slot, n, 0, s->n_in, stream, why, cap);
    const size_t block = (size_t)s->plan->block, pitch = s->ring_length * sizeof(float);
    const unsigned at = (unsigned)s->total & (s->ring_length - 1);
    const size_t room = s->ring_length - at, head = (size_t)n < room ? n : room;
    TRY(cudaMemcpy2DAsync(s->ring + at, pitch, slot->in, block * sizeof(float), head * sizeof(float), s->n_in,
                          cudaMemcpyHostToDevice, stream), "cudaMemcpy2DAsync(%zu)", head * sizeof(float));
    if (head < (size_t)n) /* round the end of the ring */
        TRY(cudaMemcpy2DAsync(s->ring, pitch, slot->in + head, block * sizeof(float), (n - head) * sizeof(float),
                              s->n_in, cudaMemcpyHostToDevice, stream),
            "cudaMemcpy2DAsync(%zu)", (n - head) * sizeof(float));
    return HC_OK;
}

/* An output from rows `block` frames apart to the host: `down` copies what `audio` has made. */
static int download(struct state *s, const struct slot *slot, const float *wet, int n, cudaStream_t down, char *why,
                    size_t cap)
{
    const size_t pitch = s->plan->block * sizeof(float), width = n * sizeof(float);
    char *raw = s->raw_out ? s->raw_out + place(s) * s->raw_out_bytes : NULL;
    if (raw) {
        const struct pcm_encode job = {s->out_samples, wet, (size_t)s->plan->block, s->n_out, n, raw, slot->count_from,
                                       slot->count_to, s->seen + place(s)};
        TRY(pcm_encode_launch(&job, s->audio), "encoding the output");
    }
    if (down != s->audio) {
        TRY(cudaEventRecord(s->played[place(s)], s->audio), "cudaEventRecord");
        TRY(cudaStreamWaitEvent(down, s->played[place(s)], 0), "cudaStreamWaitEvent");
    }
    const size_t bytes = (size_t)n * s->n_out * samples_bytes(s->out_samples);
    if (raw) TRY(cudaMemcpyAsync(slot->out, raw, bytes, cudaMemcpyDeviceToHost, down), "cudaMemcpyAsync(%zu)", bytes);
    else
        TRY(cudaMemcpy2DAsync(slot->out, pitch, wet, pitch, width, s->n_out, cudaMemcpyDeviceToHost, down),
            "cudaMemcpy2DAsync(%zu)", width);
    return HC_OK;
}

/* What was seen of the block; behind its last kernel. */
static int seen_download(struct state *s, const struct slot *slot, cudaStream_t down, char *why, size_t cap)
{
    if (s->seen)
        TRY(cudaMemcpyAsync(slot->seen, s->seen + place(s), sizeof *s->seen, cudaMemcpyDeviceToHost, down),
            "cudaMemcpyAsync(%zu)", sizeof *s->seen);
    return HC_OK;
}

/* n frames of channels [ch, end) by a copy engine, from rows of `block` frames to such rows. */
static int rows_copy(const struct state *s, float *to, const float *from, int ch, int end, int n,
                     enum cudaMemcpyKind kind, cudaStream_t stream, char *why, size_t cap)
{
    const size_t block = (size_t)s->plan->block, at = ch * block, pitch = block * sizeof(float);
    if ((size_t)n == block)
        TRY(cudaMemcpyAsync(to + at, from + at, (end - ch) * pitch, kind, stream), "cudaMemcpyAsync(%zu)",
            (end - ch) * pitch);
    else
        TRY(cudaMemcpy2DAsync(to + at, pitch, from + at, pitch, n * sizeof(float), end - ch, kind, stream),
            "cudaMemcpy2DAsync(%zu)", n * sizeof(float));
    return HC_OK;
}

/* How far a large block has come on its way up and, in pieces, down. */
struct crossing {
    int part;               /* of the ferry's: loaded                                                      */
    int up;                 /* pieces under way to the ring                                                */
    int n_channels;         /* that are in the ring for whoever comes next in `audio`                      */
    int down, told;         /* pieces of the output under way; the ferry knows that they have landed       */
};

/* The next piece of a large block, with far levels: it crosses the bus beside their last step, and goes to the ring in
 * turn, so nothing that the step reads there is written. The inbox is free: the call before was waited for. */
static int upload_piece(struct state *s, const struct slot *slot, int n, struct crossing *c, char *why, size_t cap)
{
    const int pieces = pieces_of(s, s->n_in), i = c->up++, first = c->n_channels;
    const int share = FERRY_PARTS * (i + 1) / pieces;
    while (slot->ferry && c->part < share) c->part = ferry_loaded(slot->ferry, c->part);
    const int end = c->n_channels = (int)((int64_t)s->n_in * (c->part > share ? c->part : share) / FERRY_PARTS);
    if (end == first) return HC_OK;
    PASS(rows_copy(s, s->inbox, slot->in, first, end, n, cudaMemcpyHostToDevice, s->up, why, cap));
    TRY(cudaEventRecord(s->arrived[i], s->up), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->audio, s->arrived[i], 0), "cudaStreamWaitEvent");
    const unsigned at = (unsigned)s->total & (s->ring_length - 1), blocks = (end - first + ROWS - 1) / ROWS;
    const size_t block = (size_t)s->plan->block;
    const dim3 threads(ROW_THREADS, ROWS);
    float *ring = s->ring + (size_t)first * s->ring_length;
    const float *in = s->inbox + first * block;
    if (n % 4 == 0 && at % 4 == 0 && block % 4 == 0)
        spread<<<blocks, threads, 0, s->audio>>>((float4 *)ring, s->ring_length / 4 - 1, at / 4, (const float4 *)in,
                                                 block / 4, n / 4, end - first);
    else
        spread<<<blocks, threads, 0, s->audio>>>(ring, s->ring_length - 1, at, in, block, n, end - first);
    TRY(cudaGetLastError(), "the input's way into the ring");
    return HC_OK;
}

static int upload_beside(struct state *s, const struct slot *slot, int n, char *why, size_t cap)
{
    struct crossing c = {};
    while (c.n_channels < s->n_in) PASS(upload_piece(s, slot, n, &c, why, cap));
    return HC_OK;
}

/* Outputs [ch, end) of n frames, whose work stands in `audio`: from wet[0] to the slot; `there` tells when they are. */
static int download_beside(struct state *s, struct slot *slot, int n, int ch, int end, cudaEvent_t there, char *why,
                           size_t cap)
{
    TRY(cudaEventRecord(there, s->audio), "cudaEventRecord");
    TRY(cudaStreamWaitEvent(s->down, there, 0), "cudaStreamWaitEvent");
    PASS(rows_copy(s, slot->out, s->wet[0], ch, end, n, cudaMemcpyDeviceToHost, s->down, why, cap));
    TRY(cudaEventRecord(there, s->down), "cudaEventRecord");
    return HC_OK;
}

static int steps_run(struct state *s, int64_t ticks, char *why, size_t cap)
{
    while (s->far->step < ticks)
        TRY(far_step(s->far, s->ring, s->ring_length - 1, s->audio), "a step of the far levels");
    return HC_OK;
}

static void rows_clear(float *rows, int n_rows, size_t pitch, int n)
{
    for (int row = 0; row < n_rows; row++) memset(rows + row * pitch, 0, n * sizeof(float));
}

/* The near taps of the next piece of the output, and its way down; an event tells of it. n: all in one tick. */
static int land_piece(struct state *s, struct slot *slot, int n, struct far_mask *mask, float *wet, struct crossing *c,
                      char *why, size_t cap)
{
    const int pieces = pieces_of(s, s->n_out), i = c->down++;
    const int first = piece_start(s, i, pieces), end = piece_start(s, i + 1, pieces);
    const int last = end * NEAR_OUTS < s->n_out ? end * NEAR_OUTS : s->n_out;
    if (end > first)
        TRY(far_play(s->far, mask, s->ring, s->ring_length - 1, s->total, n, wet, (size_t)s->plan->block, first,
                     end - first, s->audio), "the near taps");
    if (s->out_beside) return download_beside(s, slot, n, first * NEAR_OUTS, last, s->landing[i], why, cap);
    TRY(cudaEventRecord(s->landing[i], s->audio), "cudaEventRecord");
    return HC_OK;
}

/* Tell the ferry what has landed; wait: until all but the last piece has, of which `done` tells. */
static int landings_tell(struct state *s, struct slot *slot, struct crossing *c, bool wait, char *why, size_t cap)
{
    const int pieces = pieces_of(s, s->n_out);
    for (; slot->ferry && c->told < c->down && c->told < pieces - 1; c->told++) {
        const cudaError_t e = wait ? cudaEventSynchronize(s->landing[c->told]) : cudaEventQuery(s->landing[c->told]);
        if (e == cudaErrorNotReady) {
            cudaGetLastError();
            return HC_OK;
        }
        TRY(e, "waiting for outputs");
        ferry_landed(slot->ferry, piece_start(s, c->told + 1, pieces) * NEAR_OUTS);
    }
    return HC_OK;
}

/* A block in pieces: of the output each as soon as the inputs that it is made of are in the ring. Of channels that share
 * nothing the last piece goes up while the first ones come down.
 *
 *   up      | 0 | 1 | 2 | 3 |
 *   audio       |0 |1  |2  |3 |  step ..
 *   down           | 0 | 1 | 2 | 3 |
 */
static int far_play_pieces(struct state *s, struct slot *slot, int n, struct mask *mask, float *wet,
                           struct crossing *c, char *why, size_t cap)
{
    const int pieces = pieces_of(s, s->n_out);
    PASS(steps_run(s, s->total / s->plan->tick, why, cap));
    if (!s->inbox) {
        PASS(upload(s, slot, n, true, s->audio, why, cap));
        c->n_channels = s->n_in;
    }
    do {
        if (c->n_channels < s->n_in) PASS(upload_piece(s, slot, n, c, why, cap));
        while (c->down < pieces && mask->needs[c->down] <= c->n_channels)
            PASS(land_piece(s, slot, n, &mask->far, wet, c, why, cap));
        PASS(landings_tell(s, slot, c, false, why, cap));
    } while (c->n_channels < s->n_in);
    return HC_OK;
}

/* process, with far levels. The device reads the frames of a small block from pinned memory and writes them there: no
 * copies. */
static int far_process(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    const int tick = s->plan->tick;
    const size_t block = (size_t)s->plan->block;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    struct mask *masks[2] = {(struct mask *)fade->to, two ? (struct mask *)fade->from : NULL};
    float *const out = s->out_beside ? s->wet[0] : slot->out; /* where the frames of the slot are made */
    float *const wet[2] = {fading ? s->wet[0] : out, fading ? s->wet[1] : fade->apart};
    const int all = (s->n_out + NEAR_OUTS - 1) / NEAR_OUTS;
    const bool sounds = masks[0] || (fading && masks[1]);
    const bool landing = (slot->ferry || s->out_beside) && masks[0] && !two && s->total % tick + n <= tick;
    struct crossing crossing = {};
    if (landing) PASS(far_play_pieces(s, slot, n, masks[0], out, &crossing, why, cap));
    else PASS(s->inbox ? upload_beside(s, slot, n, why, cap) : upload(s, slot, n, true, s->audio, why, cap));
    for (int frame = 0, len; frame < n && !landing; frame += len) {
        const int64_t at = s->total + frame;
        len = tick - (int)(at % tick) < n - frame ? tick - (int)(at % tick) : n - frame;
        PASS(steps_run(s, at / tick, why, cap));
        for (int i = 0; i < 2; i++)
            if (masks[i])
                TRY(far_play(s->far, &masks[i]->far, s->ring, s->ring_length - 1, at, len,
                             wet[i] + frame, block, 0, all, s->audio), "the near taps");
    }
    if (fading && sounds) {
        blend<<<dim3(s->n_out, (n + 127) / 128), 128, 0, s->audio>>>(out, masks[1] ? s->wet[1] : NULL,
                                                                      masks[0] ? s->wet[0] : NULL, block, n, fade->pos,
                                                                      fade->len);
        TRY(cudaGetLastError(), "the crossfade");
    }
    if (s->out_beside && sounds && !landing)
        PASS(download_beside(s, slot, n, 0, s->n_out, s->done, why, cap));
    else
        TRY(cudaEventRecord(s->done, s->out_beside && landing ? s->down : s->audio), "cudaEventRecord");
    s->total += n;
    PASS(steps_run(s, s->total / tick, why, cap)); /* behind the output */
    if (!sounds) rows_clear(slot->out, s->n_out, block, n);
    if (two && !fading && !masks[1]) rows_clear(fade->apart, s->n_out, block, n);
    if (landing) PASS(landings_tell(s, slot, &crossing, true, why, cap));
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}

static int cuda_process(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    const int P = s->plan->partition, block = s->plan->block;
    struct mask *to = (struct mask *)fade->to, *from = fade->pos < fade->len ? (struct mask *)fade->from : NULL;
    const bool two = fade->pos < fade->len, fading = two && !fade->apart;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (s->far) return far_process(s, slot, n, fade, why, cap);
    /* Few frames: a copy engine's start costs more than the frames. The device reads them from pinned memory and writes
     * the output there. */
    const bool live = (size_t)n * (s->n_in + s->n_out) <= LIVE_FLOATS && !s->seen;
    float *wet = live && !fading ? slot->out : s->wet[0]; /* rows of `block` frames, both */
    PASS(upload(s, slot, n, live, s->audio, why, cap));

    const int64_t end = s->total + n;
    const bool whole = has_wholes(s, n);
    if (to) PASS(mask_play(s, to, n, whole, wet, why, cap));
    float *other = live && two && !fading ? fade->apart : s->wet[1];
    if (from) PASS(mask_play(s, from, n, whole, other, why, cap));
    if (fading && (to || from)) {
        blend<<<dim3(s->n_out, (n + 127) / 128), 128, 0, s->audio>>>(
            s->wet[0], from ? s->wet[1] : NULL, to ? s->wet[0] : NULL, (size_t)block, n, fade->pos, fade->len);
        TRY(cudaGetLastError(), "the crossfade");
    }
    if ((to || (from && fading)) && wet != slot->out) PASS(download(s, slot, s->wet[0], n, s->audio, why, cap));
    PASS(seen_download(s, slot, s->audio, why, cap));
    if (from && !fading && other != fade->apart)
        TRY(cudaMemcpy2DAsync(fade->apart, block * sizeof(float), other, block * sizeof(float), n * sizeof(float),
                              s->n_out, cudaMemcpyDeviceToHost, s->audio), "cudaMemcpy2DAsync(%zu)", n * sizeof(float));
    TRY(cudaEventRecord(s->done, s->audio), "cudaEventRecord");

    /* Behind the output: what the next call would otherwise wait for. A file, all whole blocks, needs no tail. */
    s->total = end;
    if (!s->plan->direct) {
        PASS(spectra_make(s, end / P, why, cap));
        const bool rest = !whole || end % P != 0;
        if (rest && to) PASS(tail_make(s, to, end / P, why, cap));
        if (rest && from && fade->pos + n < fade->len) PASS(tail_make(s, from, end / P, why, cap));
    }
    if (!to && !(from && fading) && s->raw_out)
        memset(slot->out, 0, (size_t)n * s->n_out * samples_bytes(s->out_samples));
    else if (!to && !(from && fading))
        rows_clear(slot->out, s->n_out, (size_t)block, n);
    if (two && !fading && !from) rows_clear(fade->apart, s->n_out, (size_t)block, n);
    TRY(cudaEventSynchronize(s->done), "cudaEventSynchronize");
    return HC_OK;
}

/* ---- files: several calls under way ------------------------------------------------------------------------------ */

/* A call that fades, or of a few frames, as any live one: alone. */
static int begin_alone(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    TRY(cudaStreamSynchronize(s->up), "cudaStreamSynchronize");
    TRY(cudaStreamSynchronize(s->audio), "cudaStreamSynchronize");
    PASS(cuda_process(s, slot, n, fade, why, cap));
    TRY(cudaEventRecord(s->landed[place(s)], s->down), "cudaEventRecord");
    s->n_begun++;
    return HC_OK;
}

static int cuda_begin(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    const int P = s->plan->partition, i = place(s);
    const size_t block = (size_t)s->plan->block;
    struct mask *to = (struct mask *)fade->to;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    if (!to || fade->pos < fade->len || ((size_t)n * (s->n_in + s->n_out) <= LIVE_FLOATS && !s->seen))
        return begin_alone(s, slot, n, fade, why, cap);

    PASS(upload(s, slot, n, false, s->up, why, cap));
    TRY(cudaEventRecord(s->sent[i], s->up), "cudaEventRecord");

    TRY(cudaStreamWaitEvent(s->audio, s->sent[i], 0), "cudaStreamWaitEvent");
    float *wet = s->wets + (size_t)i * s->n_out * block;
    const int64_t end = s->total + n;
    const bool whole = has_wholes(s, n);
    PASS(mask_play(s, to, n, whole, wet, why, cap));
    PASS(download(s, slot, wet, n, s->down, why, cap));
    PASS(seen_download(s, slot, s->down, why, cap));
    TRY(cudaEventRecord(s->landed[i], s->down), "cudaEventRecord");

    s->total = end;
    if (!s->plan->direct) {
        PASS(spectra_make(s, end / P, why, cap));
        if (!whole || end % P != 0) PASS(tail_make(s, to, end / P, why, cap));
    }
    s->n_begun++;
    return HC_OK;
}

static int cuda_end(void *state, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    TRY(cudaEventSynchronize(s->landed[s->n_ended % s->flight]), "cudaEventSynchronize");
    s->n_ended++;
    return HC_OK;
}

static int cuda_reset(void *state, char *why, size_t cap)
{
    struct state *s = (struct state *)state;
    TRY(cudaSetDevice(s->device), "cudaSetDevice(%d)", s->device);
    return history_clear(s, why, cap);
}

/* ---- masks whose far levels must be current before they sound ---------------------------------------------------- */

static void cuda_mask_warm(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (!s->far || cudaSetDevice(s->device) != cudaSuccess) return;
    far_warm(s->far, &((struct mask *)mask)->far, s->audio); /* an error sticks: process meets it */
}

static bool cuda_mask_ready(void *state, const void *mask)
{
    const struct state *s = (const struct state *)state;
    return !s->far || far_ready(s->far, &((const struct mask *)mask)->far);
}

static void cuda_mask_rest(void *state, void *mask)
{
    struct state *s = (struct state *)state;
    if (s->far) far_rest(s->far, &((struct mask *)mask)->far);
}

/* Nanoseconds on an H200, rounded: what counts until somebody measures (device_costs.h). */
static constexpr struct plan_costs costs_of_a_gpu(void)
{
    struct plan_costs costs = {};
    costs.min_partition = 32;
    costs.max_partition = FFT_MOST;
    costs.max_far = FAR_SIZE_MOST;
    costs.mac_ns = 6e-5; /* 28 to 41 TFLOP/s by channels */
    costs.cmac_ns = 1e-4;
    costs.live_cmac_ns = 2.2e-3; /* 8 bytes from memory, and a quarter of the input's from L2 */
    costs.input_share = 0.8;     /* 8 bytes from memory: of independent channels as many as the responses' */
    costs.fft_ns = 5e-4;
    costs.launch_ns = 1500; /* between a live block (transform, products, inverse: 10000) and a file's, 32 a launch (300) */
    costs.slice_ns = 1000;  /* of eight levels, three launches */
    costs.call_ns = 13000;  /* to the card and back, of which a tick's launch is a part */
    costs.file_block = 262144; /* of stereo 2 MiB up and down, 64 partitions of 4096 a launch */
    return costs;
}
static constexpr struct plan_costs costs = costs_of_a_gpu();

static constexpr struct backend backend_of_a_gpu(void)
{
    struct backend backend = {};
    backend.name = "cuda";
    backend.in_parts = true;
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
    backend.mask_warm = cuda_mask_warm;
    backend.mask_ready = cuda_mask_ready;
    backend.mask_rest = cuda_mask_rest;
    backend.process = cuda_process;
    backend.reset = cuda_reset;
    backend.raw = true;
    backend.begin = cuda_begin;
    backend.end = cuda_end;
    return backend;
}
constexpr struct backend backend_cuda = backend_of_a_gpu(); /* there before any constructor runs */
