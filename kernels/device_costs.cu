/* device_costs - see device_costs.h. Every subject is one launch, or the few that always come together, over and over
 * on one stream between two events; sizes go by the count of multiprocessors, so that small and large devices are full.
 *
 *   cost           launches                                           one unit
 *   mac_ns         near: 64 frames, 64 taps of 256 inputs             a tap of a frame
 *   cmac_ns        products of 64 blocks at once (mac_many)           a bin of a partition and block
 *   live_cmac_ns   far products over four times L2: from memory       a bin of a partition
 *   fft_ns         forward, inverse: 4 of 8192 points a processor     N log2(N)
 *   launch_ns      a kernel that does nothing                         a launch
 *   slice_ns       forwards, products, inverses of eight levels,      an eighth, less a launch
 *                  of each what one tick of a stereo engine has
 *
 *   memory         [ zeros: what is read ][ out: what is written ][ tables ][ scratch ]
 *
 * What is read is zeros, which makes no kernel here faster, and is the same memory for all subjects.
 */
#include "device_costs.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "far_product.h"
#include "fft_block.cuh"
#include "near.h"
#include "partition.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS = 5,               /* of which the median counts                                                      */
    MOST_RUNS = 500,          /* a round: fewer launches than a stream holds                                     */
    NEAR_INS = 256,
    MAC_P = 1024, MAC_PARTS = 32, MAC_BLOCKS = 64, MAC_SLOTS = MAC_BLOCKS + MAC_PARTS + 1,
    FFT_A_SM = 4,             /* transforms a multiprocessor                                                     */
    LIVE_LOG2 = 12, LIVE_SIZE = 1 << LIVE_LOG2, LIVE_INS = 32, LIVE_PARTS = 2,
    STEP_LEVELS = 8, STEP_LOG2 = 6, STEP_INS = 2, STEP_PARTS = 2 /* levels of 64 to 8192 frames                  */
};
static const size_t LIVE_GROUP_BYTES = (size_t)FAR_OUTS * LIVE_INS * LIVE_PARTS * LIVE_SIZE * sizeof(float2);
static const size_t LIVE_LEAST_BYTES = 32 << 20; /* a launch lasts for some time even where L2 is small */
static const double round_s = 4e-3;
static const double warm_s = 0.1; /* a device that was idle needs so long to come up to its clock */

static __global__ void nothing() {}

struct subject {
    int n_sm;
    cudaStream_t stream;
    cudaEvent_t from, to;
    void *memory;             /* device; the next ones point into it                                             */
    float *zeros, *out;
    size_t zeros_bytes, out_bytes;
    struct near_terms *near_terms;
    struct part_cell *cells;
    struct far_terms *live_terms, *step_terms;
    int *first;               /* [most + 1] of each of the four tables, one after another                        */
    void *near_scratch;
    int near_groups, mac_outs, live_groups;
    int near_first, mac_first, live_first, step_first; /* where in `first` */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static size_t live_x_bytes() { return (size_t)LIVE_INS * (LIVE_PARTS + 1) * LIVE_SIZE * sizeof(float2); }

/* How large everything is, on a device with so much L2 cache. */
static void sizes_choose(struct subject *s, size_t l2)
{
    const size_t live = most(4 * l2, LIVE_LEAST_BYTES);
    s->live_groups = (int)((live + LIVE_GROUP_BYTES - 1) / LIVE_GROUP_BYTES);
    s->near_groups = s->n_sm;
    s->mac_outs = (int)most(1, (size_t)s->n_sm / 16);
    const size_t transforms = (size_t)FFT_A_SM * s->n_sm * FFT_MOST;
    const size_t mac_in = (size_t)s->mac_outs * (MAC_SLOTS + MAC_PARTS) * MAC_P * sizeof(float2);
    const size_t mac_out = (size_t)s->mac_outs * MAC_BLOCKS * MAC_P * sizeof(float2);
    const size_t near_in = ((size_t)s->near_groups * NEAR_OUTS + 4) * NEAR_INS * NEAR_CHUNK * sizeof(float);
    const size_t live_out = (size_t)s->live_groups * FAR_OUTS * LIVE_SIZE * sizeof(float2);
    const size_t step = (size_t)STEP_INS * 4 * FAR_SIZE_MOST * sizeof(float2); /* any one thing of a level */
    s->zeros_bytes = s->live_groups * LIVE_GROUP_BYTES + live_x_bytes();
    s->zeros_bytes = most(most(s->zeros_bytes, near_in), most(mac_in, most(transforms * sizeof(float2), step)));
    s->out_bytes = most(most(live_out, mac_out), most(transforms * sizeof(float2), STEP_LEVELS * step));
}

static size_t cut(struct subject *s, void *base)
{
    size_t used = 0;
    const size_t groups = (size_t)s->near_groups + s->mac_outs + s->live_groups + 1;
    s->zeros = (float *)device_cut(base, &used, s->zeros_bytes);
    s->out = (float *)device_cut(base, &used, s->out_bytes);
    s->near_terms =
        (struct near_terms *)device_cut(base, &used, (size_t)s->near_groups * NEAR_INS * sizeof(struct near_terms));
    s->cells = (struct part_cell *)device_cut(base, &used, s->mac_outs * sizeof(struct part_cell));
    s->live_terms = (struct far_terms *)device_cut(base, &used, (size_t)s->live_groups * LIVE_INS * sizeof(struct far_terms));
    s->step_terms = (struct far_terms *)device_cut(base, &used, STEP_INS * sizeof(struct far_terms));
    s->first = (int *)device_cut(base, &used, (groups + 4) * sizeof(int));
    s->near_scratch = device_cut(base, &used, near_scratch_bytes(s->n_sm));
    return used;
}

/* first[at + i] = i * step, i <= n; the next free place. */
static int first_fill(int *first, int at, int n, int step)
{
    for (int i = 0; i <= n; i++) first[at + i] = i * step;
    return at + n + 1;
}

static void far_terms_fill(struct far_terms *terms, int n_groups, int n_ins, int n_parts, const float *h, size_t part)
{
    for (int i = 0; i < n_groups * n_ins; i++) {
        terms[i].in = i % n_ins;
        terms[i].most_parts = n_parts;
        for (int o = 0; o < FAR_OUTS; o++) {
            terms[i].h[o] = (const float2 *)h + ((size_t)i * FAR_OUTS + o) * n_parts * part;
            terms[i].n_parts[o] = n_parts;
        }
    }
}

/* The tables of all subjects, and zeros; host: room for the largest table. */
static int tables_send(struct subject *s, void *host, char *why, size_t cap)
{
    const size_t n_near = (size_t)s->near_groups * NEAR_INS, n_live = (size_t)s->live_groups * LIVE_INS;
    TRY(cudaMemsetAsync(s->zeros, 0, s->zeros_bytes, s->stream), "cudaMemsetAsync(%zu)", s->zeros_bytes);
    TRY(cudaMemsetAsync(s->near_scratch, 0, near_scratch_bytes(s->n_sm), s->stream), "cudaMemsetAsync");

    struct near_terms *near_terms = (struct near_terms *)host;
    for (size_t i = 0; i < n_near; i++) {
        near_terms[i].in = (int)(i % NEAR_INS);
        for (int o = 0; o < NEAR_OUTS; o++) near_terms[i].taps[o] = s->zeros + (i * NEAR_OUTS + o) * NEAR_CHUNK;
    }
    TRY(cudaMemcpyAsync(s->near_terms, near_terms, n_near * sizeof *near_terms, cudaMemcpyHostToDevice, s->stream),
        "cudaMemcpyAsync");
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");

    struct part_cell *cells = (struct part_cell *)host;
    for (int i = 0; i < s->mac_outs; i++) {
        const size_t part = (size_t)s->mac_outs * MAC_SLOTS + (size_t)i * MAC_PARTS;
        cells[i].spectra = (const float2 *)s->zeros + part * MAC_P;
        cells[i].n_parts = MAC_PARTS;
        cells[i].in = i;
    }
    TRY(cudaMemcpyAsync(s->cells, cells, s->mac_outs * sizeof *cells, cudaMemcpyHostToDevice, s->stream),
        "cudaMemcpyAsync");
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");

    struct far_terms *far_terms = (struct far_terms *)host;
    far_terms_fill(far_terms, s->live_groups, LIVE_INS, LIVE_PARTS, s->zeros, LIVE_SIZE);
    TRY(cudaMemcpyAsync(s->live_terms, far_terms, n_live * sizeof *far_terms, cudaMemcpyHostToDevice, s->stream),
        "cudaMemcpyAsync");
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
    far_terms_fill(far_terms, 1, STEP_INS, STEP_PARTS, s->zeros, FAR_SIZE_MOST);
    TRY(cudaMemcpyAsync(s->step_terms, far_terms, STEP_INS * sizeof *far_terms, cudaMemcpyHostToDevice, s->stream),
        "cudaMemcpyAsync");
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");

    int *first = (int *)host;
    s->mac_first = first_fill(first, s->near_first = 0, s->near_groups, NEAR_INS);
    s->live_first = first_fill(first, s->mac_first, s->mac_outs, 1);
    s->step_first = first_fill(first, s->live_first, s->live_groups, LIVE_INS);
    const int n_first = first_fill(first, s->step_first, 1, STEP_INS);
    TRY(cudaMemcpyAsync(s->first, first, n_first * sizeof *first, cudaMemcpyHostToDevice, s->stream),
        "cudaMemcpyAsync");
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
    return HC_OK;
}

static size_t largest_table(const struct subject *s)
{
    return most((size_t)s->near_groups * NEAR_INS * sizeof(struct near_terms),
                most((size_t)s->live_groups * LIVE_INS * sizeof(struct far_terms), 4096 + s->n_sm * sizeof(part_cell)));
}

/* ---- what is timed ----------------------------------------------------------------------------------------------- */

static cudaError_t run_near(struct subject *s)
{
    struct near_job job = {};
    job.x = s->zeros;
    job.ring_mask = 4 * NEAR_CHUNK - 1;
    job.pos = 2 * NEAR_CHUNK;
    job.terms = s->near_terms;
    job.first = s->first + s->near_first;
    job.n_chunks = 1;
    job.most_terms = NEAR_INS;
    job.y = s->out;
    job.y_pitch = NEAR_CHUNK;
    job.n = NEAR_CHUNK;
    job.n_out = s->near_groups * NEAR_OUTS;
    job.n_groups = s->near_groups;
    job.scratch = s->near_scratch;
    job.n_sm = s->n_sm;
    return near_launch(&job, s->stream);
}
static double near_units(const struct subject *s)
{
    return (double)s->near_groups * NEAR_OUTS * NEAR_INS * NEAR_CHUNK * NEAR_CHUNK;
}

static cudaError_t run_mac(struct subject *s)
{
    struct part_mac job = {};
    int n_splits;
    job.x = (const float2 *)s->zeros;
    job.slot = MAC_PARTS;
    job.n_slots = MAC_SLOTS;
    job.cells = s->cells;
    job.first = s->first + s->mac_first;
    job.n_out = s->mac_outs;
    job.n_blocks = MAC_BLOCKS;
    job.most_parts = MAC_PARTS;
    job.sums = (float2 *)s->out;
    job.sums_room = (size_t)s->mac_outs * MAC_BLOCKS;
    job.n_sm = s->n_sm;
    return part_mac_launch(&job, MAC_P, &n_splits, s->stream);
}
static double mac_units(const struct subject *s) { return (double)s->mac_outs * MAC_BLOCKS * MAC_PARTS * MAC_P; }

static cudaError_t run_live(struct subject *s)
{
    struct far_products job = {};
    struct far_product *level = &job.level[job.n++];
    level->terms = s->live_terms;
    level->first = s->first + s->live_first;
    level->x = (const float2 *)(s->zeros + s->live_groups * LIVE_GROUP_BYTES / sizeof(float));
    level->sums = (float2 *)s->out;
    level->log2_size = LIVE_LOG2;
    level->slot = LIVE_PARTS;
    level->n_slots = LIVE_PARTS + 1;
    level->n_windows = LIVE_PARTS;
    level->n_groups = s->live_groups;
    level->n_out = s->live_groups * FAR_OUTS;
    level->n_units = LIVE_SIZE / FAR_BINS * s->live_groups;
    level->most_terms = LIVE_INS;
    level->most_parts = LIVE_PARTS;
    return far_product_launch(&job, s->n_sm, s->stream);
}
static double live_units(const struct subject *s)
{
    return (double)s->live_groups * FAR_OUTS * LIVE_INS * LIVE_PARTS * LIVE_SIZE;
}

static cudaError_t run_fft(struct subject *s)
{
    struct part_forward forward = {};
    forward.x = s->zeros;
    forward.ring_mask = (1 << 20) - 1; /* 4 MiB: the next transform's input is half of this one's */
    forward.hop = FFT_MOST;
    forward.n_valid = 2 * FFT_MOST;
    forward.n_ch = 1;
    forward.n_blocks = forward.n_slots = FFT_A_SM * s->n_sm;
    forward.spectra = (float2 *)s->out;
    forward.scale = 1;
    struct part_inverse inverse = {};
    inverse.sums = (const float2 *)s->zeros;
    inverse.n_splits = inverse.n_out = 1;
    inverse.n_blocks = forward.n_blocks;
    inverse.y = s->out;
    const cudaError_t e = part_forward_launch(&forward, FFT_MOST, (const float2 *)s->zeros, s->stream);
    return e == cudaSuccess ? part_inverse_launch(&inverse, FFT_MOST, (const float2 *)s->zeros, s->stream) : e;
}
static double fft_units(const struct subject *s)
{
    const double n = 2.0 * FFT_MOST;
    return 2.0 * FFT_A_SM * s->n_sm * n * log2(n);
}

static cudaError_t run_nothing(struct subject *s)
{
    nothing<<<1, 32, 0, s->stream>>>();
    return cudaGetLastError();
}
static double one(const struct subject *) { return 1; }

/* A tick of 64 frames of two channels: one unit of every level's products; two transforms of the shortest level, which
 * has a window a tick, and one of the next two, which are every second and every fourth tick's. */
static cudaError_t run_step(struct subject *s)
{
    struct far_forwards forwards = {};
    struct far_products products = {};
    struct far_inverses inverses = {};
    const size_t room = (size_t)STEP_INS * 4 * FAR_SIZE_MOST; /* float2 a level in `out` */
    const float2 *tw = (const float2 *)s->zeros;
    forwards.x = s->zeros;
    forwards.ring_mask = FAR_SIZE_MOST - 1;
    for (int i = STEP_LEVELS - 1; i >= 0; i--) {
        float2 *own = (float2 *)s->out + i * room;
        const int log2_size = STEP_LOG2 + i, n = i == 0 ? 2 : i < 3;
        struct far_product *product = &products.level[products.n++];
        product->terms = s->step_terms;
        product->first = s->first + s->step_first;
        product->x = (const float2 *)s->zeros;
        product->sums = own;
        product->log2_size = log2_size;
        product->slot = STEP_PARTS;
        product->n_slots = STEP_PARTS + 1;
        product->n_windows = STEP_PARTS;
        product->n_groups = product->n_units = 1;
        product->n_out = STEP_INS;
        product->most_terms = STEP_INS;
        product->most_parts = STEP_PARTS;
        if (!n) continue;
        struct far_forward *forward = &forwards.level[forwards.n++];
        forward->tw = tw;
        forward->spectra = own + room / 2;
        forward->log2_size = log2_size;
        forward->n_ch = n;
        forward->n_slots = 1;
        struct far_inverse *inverse = &inverses.level[inverses.n++];
        inverse->tw = tw;
        inverse->sums = own;
        inverse->due = (float *)(own + room / 2);
        inverse->log2_size = log2_size;
        inverse->n_out = n;
    }
    cudaError_t e = far_forward_launch(&forwards, s->stream);
    if (e == cudaSuccess) e = far_product_launch(&products, s->n_sm, s->stream);
    return e == cudaSuccess ? far_inverse_launch(&inverses, s->stream) : e;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A round of n runs: nanoseconds of one, on the device. */
static int round_of(struct subject *s, cudaError_t (*run)(struct subject *), int n, double *ns, char *why, size_t cap)
{
    float ms;
    TRY(cudaEventRecord(s->from, s->stream), "cudaEventRecord");
    for (int i = 0; i < n; i++) TRY(run(s), "measuring the costs");
    TRY(cudaEventRecord(s->to, s->stream), "cudaEventRecord");
    TRY(cudaEventSynchronize(s->to), "measuring the costs");
    TRY(cudaEventElapsedTime(&ms, s->from, s->to), "cudaEventElapsedTime");
    *ns = 1e6 * ms / n;
    return HC_OK;
}

/* Nanoseconds a unit: the median of ROUNDS, each of as many runs as take round_s by the host's clock. */
static int time_of(struct subject *s, cudaError_t (*run)(struct subject *), double units, double *ns, char *why,
                   size_t cap)
{
    double rounds[ROUNDS];
    PASS(round_of(s, run, 1, rounds, why, cap)); /* the first launch is none */
    const double start = now();
    PASS(round_of(s, run, 2, rounds, why, cap));
    const double n = 2 * round_s / (now() - start);
    for (int r = 0; r < ROUNDS; r++)
        PASS(round_of(s, run, n < 1 ? 1 : n > MOST_RUNS ? MOST_RUNS : (int)n, &rounds[r], why, cap));
    qsort(rounds, ROUNDS, sizeof *rounds, ascending);
    *ns = rounds[ROUNDS / 2] / units;
    return HC_OK;
}

static int warm_up(struct subject *s, char *why, size_t cap)
{
    double ns;
    for (const double end = now() + warm_s; now() < end;) PASS(round_of(s, run_near, 10, &ns, why, cap));
    return HC_OK;
}

static int measure(struct subject *s, struct plan_costs *costs, char *why, size_t cap)
{
    struct plan_costs found = *costs;
    double step_ns;
    PASS(warm_up(s, why, cap));
    PASS(time_of(s, run_near, near_units(s), &found.mac_ns, why, cap));
    PASS(time_of(s, run_mac, mac_units(s), &found.cmac_ns, why, cap));
    PASS(time_of(s, run_live, live_units(s), &found.live_cmac_ns, why, cap));
    PASS(time_of(s, run_fft, fft_units(s), &found.fft_ns, why, cap));
    PASS(time_of(s, run_nothing, one(s), &found.launch_ns, why, cap));
    PASS(time_of(s, run_step, one(s), &step_ns, why, cap));
    found.slice_ns = (step_ns - found.launch_ns) / STEP_LEVELS;
    *costs = found;
    return HC_OK;
}

/* A smaller working set would be measured from the cache. */
static int memory_take(struct subject *s, size_t bytes, char *why, size_t cap)
{
    size_t free_bytes, all;
    TRY(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
    if (bytes > free_bytes)
        return fail(HC_ENOMEM, why, cap,
                    "cuda: measuring the costs needs %.0f MB, and %.0f MB of the device's memory are free; end what "
                    "else uses it",
                    (double)bytes * 1e-6, (double)free_bytes * 1e-6);
    TRY(cudaMalloc(&s->memory, bytes), "cudaMalloc(%zu)", bytes);
    return HC_OK;
}

static int load(struct subject *s, int device, char *why, size_t cap)
{
    int l2 = 0;
    TRY(cudaSetDevice(device), "cudaSetDevice(%d)", device);
    TRY(cudaDeviceGetAttribute(&s->n_sm, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    TRY(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    TRY(near_load(), "loading the kernels");
    TRY(part_load_kernels(), "loading the kernels");
    TRY(far_transform_load(device), "loading the kernels");
    TRY(far_product_load(), "loading the kernels");
    TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaEventCreate(&s->from), "cudaEventCreate");
    TRY(cudaEventCreate(&s->to), "cudaEventCreate");
    sizes_choose(s, (size_t)l2);
    PASS(memory_take(s, cut(s, NULL), why, cap));
    cut(s, s->memory);
    void *host = calloc(1, largest_table(s));
    if (!host) return fail(HC_ENOMEM, why, cap, "cuda: out of memory");
    const int error = tables_send(s, host, why, cap);
    cudaStreamSynchronize(s->stream); /* after an error: it may still read */
    free(host);
    return error;
}

static void unload(struct subject *s)
{
    if (s->stream) cudaStreamSynchronize(s->stream);
    cudaFree(s->memory);
    if (s->to) cudaEventDestroy(s->to);
    if (s->from) cudaEventDestroy(s->from);
    if (s->stream) cudaStreamDestroy(s->stream);
    cudaGetLastError();
}

int device_costs_measure(int device, struct plan_costs *costs, char *why, size_t cap)
{
    struct subject s = {};
    int error = load(&s, device, why, cap);
    if (!error) error = measure(&s, costs, why, cap);
    unload(&s);
    return error;
}
