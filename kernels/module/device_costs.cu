/* device_costs - measures the costs of a GPU's kernels. Each cost is measured by one launch, or a few launches that
 * always occur together, repeated on one stream between two events. The sizes depend on the number of multiprocessors,
 * so that every device is full.
 *
 *   cost           launches                                           one unit
 *   mac_ns         head: 64 frames, 64 taps of 256 inputs             a tap of a frame
 *   cmac_ns        products of 64 blocks at once (mac_many)           a bin of a partition and block
 *   live_cmac_ns   tail products over four times L2: from memory      a bin of a partition
 *   fft_ns         forward, inverse: 4 of 8192 points a processor     N log2(N)
 *   launch_ns      a kernel that does nothing                         a launch
 *   slice_ns       forwards, products, inverses of eight levels,      an eighth of the time less launch_ns
 *                  the share of one hop of a stereo engine
 *
 *   memory         [ zeros: all input ][ out: all output ][ tables ][ scratch ]
 *
 * All launches read the same memory, which holds zeros; zeros do not make any of these kernels faster.
 */
#include "device_costs.h"

#include "dsp/base/order.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "tail_product.h"
#include "fft_factors.h"
#include "head.h"
#include "partition_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS = 5,     /* the result is their median                                                      */
    MAX_RUNS = 500, /* max. runs of a round: fewer launches than a stream can queue                    */
    HEAD_INS = 256,
    MAC_P = 1024,
    MAC_PARTS = 32,
    MAC_BLOCKS = 64,
    MAC_ENTRIES = MAC_BLOCKS + MAC_PARTS + 1,
    FFT_A_SM = 4, /* transforms a multiprocessor                                                     */
    LIVE_LOG2 = 12,
    LIVE_SIZE = 1 << LIVE_LOG2,
    LIVE_INS = 32,
    LIVE_PARTS = 2,
    STEP_LEVELS = 8,
    STEP_LOG2 = 6,
    STEP_INS = 2,
    STEP_PARTS = 2 /* levels of 64 to 8192 frames                  */
};
static const size_t LIVE_GROUP_BYTES = (size_t)TAIL_OUTS * LIVE_INS * LIVE_PARTS * LIVE_SIZE * sizeof(float2);
static const size_t LIVE_MIN_BYTES = 32 << 20; /* min. bytes of a launch on devices with a small L2 */
static const double round_s = 4e-3;
static const double warm_up_s = 0.1; /* an idle device raises its clock in this time */

static __global__ void nothing() {}

struct cost_bench {
    int n_sm;
    cudaStream_t stream;
    cudaEvent_t from, to;
    void *memory;             /* device; the pointers below point into it                                        */
    float *zeros, *out;
    size_t zeros_bytes, out_bytes;
    struct head_terms *head_terms;
    struct part_cell *cells;
    struct tail_terms *live_terms, *step_terms;
    int *first;               /* first_term and first_cell of the four jobs, one after another                   */
    void *head_scratch;
    int head_groups, mac_outs, live_groups;
    int head_first, mac_first, live_first, step_first; /* their indices in `first` */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t live_x_bytes() { return (size_t)LIVE_INS * (LIVE_PARTS + 1) * LIVE_SIZE * sizeof(float2); }

/* Chooses the sizes of the launches. l2: the size of the device's L2 cache. */
static void sizes_choose(struct cost_bench *s, size_t l2)
{
    const size_t live = max_of(4 * l2, LIVE_MIN_BYTES);
    s->live_groups = (int)((live + LIVE_GROUP_BYTES - 1) / LIVE_GROUP_BYTES);
    s->head_groups = s->n_sm;
    s->mac_outs = (int)max_of(1, (size_t)s->n_sm / 16);
    const size_t transforms = (size_t)FFT_A_SM * s->n_sm * FFT_MAX;
    const size_t mac_in = (size_t)s->mac_outs * (MAC_ENTRIES + MAC_PARTS) * MAC_P * sizeof(float2);
    const size_t mac_out = (size_t)s->mac_outs * MAC_BLOCKS * MAC_P * sizeof(float2);
    const size_t head_in = ((size_t)s->head_groups * HEAD_OUTS + 4) * HEAD_INS * HEAD_CHUNK * sizeof(float);
    const size_t live_out = (size_t)s->live_groups * TAIL_OUTS * LIVE_SIZE * sizeof(float2);
    const size_t step = (size_t)STEP_INS * 4 * TAIL_SIZE_MAX * sizeof(float2);  /* size of each buffer of a level */
    s->zeros_bytes = s->live_groups * LIVE_GROUP_BYTES + live_x_bytes();
    s->zeros_bytes = max_of(max_of(s->zeros_bytes, head_in), max_of(mac_in, max_of(transforms * sizeof(float2), step)));
    s->out_bytes = max_of(max_of(live_out, mac_out), max_of(transforms * sizeof(float2), STEP_LEVELS * step));
}

static size_t cost_bench_cut(struct cost_bench *s, void *base)
{
    size_t used = 0;
    const size_t groups = (size_t)s->head_groups + s->mac_outs + s->live_groups + 1;
    s->zeros = (float *)device_cut(base, &used, s->zeros_bytes);
    s->out = (float *)device_cut(base, &used, s->out_bytes);
    s->head_terms =
        (struct head_terms *)device_cut(base, &used, (size_t)s->head_groups * HEAD_INS * sizeof(struct head_terms));
    s->cells = (struct part_cell *)device_cut(base, &used, s->mac_outs * sizeof(struct part_cell));
    s->live_terms =
        (struct tail_terms *)device_cut(base, &used, (size_t)s->live_groups * LIVE_INS * sizeof(struct tail_terms));
    s->step_terms = (struct tail_terms *)device_cut(base, &used, STEP_INS * sizeof(struct tail_terms));
    s->first = (int *)device_cut(base, &used, (groups + 4) * sizeof(int));
    s->head_scratch = device_cut(base, &used, head_scratch_bytes(s->n_sm));
    return used;
}

/* Sets first[at + i] = i * step, i <= n. Returns the next free index. */
static int first_fill(int *first, int at, int n, int step)
{
    for (int i = 0; i <= n; i++) first[at + i] = i * step;
    return at + n + 1;
}

static void tail_terms_fill(struct tail_terms *terms, int n_groups, int n_ins, int n_parts, const float *h, size_t part)
{
    for (int i = 0; i < n_groups * n_ins; i++) {
        terms[i].in = i % n_ins;
        terms[i].max_parts = n_parts;
        for (int o = 0; o < TAIL_OUTS; o++) {
            terms[i].h[o] = (const float2 *)h + ((size_t)i * TAIL_OUTS + o) * n_parts * part;
            terms[i].n_parts[o] = n_parts;
        }
    }
}

/* Copies a table to the device and waits, so that the host's buffer is free for the next table. */
static int table_send(struct cost_bench *s, void *to, const void *host, size_t bytes, struct reason *why)
{
    TRY(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, s->stream), "cudaMemcpyAsync(%zu)", bytes);
    TRY(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
    return HC_OK;
}

/* Sends all tables and fills `zeros`. host: a buffer for the largest table. */
static int tables_send(struct cost_bench *s, void *host, struct reason *why)
{
    const size_t n_head = (size_t)s->head_groups * HEAD_INS, n_live = (size_t)s->live_groups * LIVE_INS;
    TRY(cudaMemsetAsync(s->zeros, 0, s->zeros_bytes, s->stream), "cudaMemsetAsync(%zu)", s->zeros_bytes);
    TRY(cudaMemsetAsync(s->head_scratch, 0, head_scratch_bytes(s->n_sm), s->stream), "cudaMemsetAsync");

    struct head_terms *head_terms = (struct head_terms *)host;
    for (size_t i = 0; i < n_head; i++) {
        head_terms[i].in = (int)(i % HEAD_INS);
        for (int o = 0; o < HEAD_OUTS; o++) head_terms[i].taps[o] = s->zeros + (i * HEAD_OUTS + o) * HEAD_CHUNK;
    }
    PASS(table_send(s, s->head_terms, head_terms, n_head * sizeof *head_terms, why));

    struct part_cell *cells = (struct part_cell *)host;
    for (int i = 0; i < s->mac_outs; i++) {
        const size_t part = (size_t)s->mac_outs * MAC_ENTRIES + (size_t)i * MAC_PARTS;
        cells[i].spectra = (const float2 *)s->zeros + part * MAC_P;
        cells[i].n_parts = MAC_PARTS;
        cells[i].in = i;
    }
    PASS(table_send(s, s->cells, cells, s->mac_outs * sizeof *cells, why));

    struct tail_terms *tail_terms = (struct tail_terms *)host;
    tail_terms_fill(tail_terms, s->live_groups, LIVE_INS, LIVE_PARTS, s->zeros, LIVE_SIZE);
    PASS(table_send(s, s->live_terms, tail_terms, n_live * sizeof *tail_terms, why));
    tail_terms_fill(tail_terms, 1, STEP_INS, STEP_PARTS, s->zeros, TAIL_SIZE_MAX);
    PASS(table_send(s, s->step_terms, tail_terms, STEP_INS * sizeof *tail_terms, why));

    int *first = (int *)host;
    s->mac_first = first_fill(first, s->head_first = 0, s->head_groups, HEAD_INS);
    s->live_first = first_fill(first, s->mac_first, s->mac_outs, 1);
    s->step_first = first_fill(first, s->live_first, s->live_groups, LIVE_INS);
    const int n_first = first_fill(first, s->step_first, 1, STEP_INS);
    return table_send(s, s->first, first, n_first * sizeof *first, why);
}

static size_t largest_table(const struct cost_bench *s)
{
    return max_of(
        (size_t)s->head_groups * HEAD_INS * sizeof(struct head_terms),
        max_of((size_t)s->live_groups * LIVE_INS * sizeof(struct tail_terms), 4096 + s->n_sm * sizeof(part_cell)));
}

/* ---- the launches that are timed --------------------------------------------------------------------------------- */

static cudaError_t run_head(struct cost_bench *s)
{
    struct head_job job = {};
    job.x = s->zeros;
    job.ring_mask = 4 * HEAD_CHUNK - 1;
    job.pos = 2 * HEAD_CHUNK;
    job.terms = s->head_terms;
    job.first_term = s->first + s->head_first;
    job.n_chunks = 1;
    job.max_terms = HEAD_INS;
    job.y = s->out;
    job.y_pitch = HEAD_CHUNK;
    job.n = HEAD_CHUNK;
    job.n_out = s->head_groups * HEAD_OUTS;
    job.n_groups = s->head_groups;
    job.scratch = s->head_scratch;
    job.n_sm = s->n_sm;
    return head_launch(&job, s->stream);
}
static double head_units(const struct cost_bench *s)
{
    return (double)s->head_groups * HEAD_OUTS * HEAD_INS * HEAD_CHUNK * HEAD_CHUNK;
}

static cudaError_t run_mac(struct cost_bench *s)
{
    struct part_mac job = {};
    int n_splits;
    job.x = (const float2 *)s->zeros;
    job.entry = MAC_PARTS;
    job.n_entries = MAC_ENTRIES;
    job.cells = s->cells;
    job.first_cell = s->first + s->mac_first;
    job.n_out = s->mac_outs;
    job.n_blocks = MAC_BLOCKS;
    job.max_parts = MAC_PARTS;
    job.sums = (float2 *)s->out;
    job.sums_capacity = (size_t)s->mac_outs * MAC_BLOCKS;
    job.n_sm = s->n_sm;
    return part_mac_launch(&job, MAC_P, &n_splits, s->stream);
}
static double mac_units(const struct cost_bench *s) { return (double)s->mac_outs * MAC_BLOCKS * MAC_PARTS * MAC_P; }

static cudaError_t run_live(struct cost_bench *s)
{
    struct tail_products job = {};
    struct tail_product *level = &job.level[job.n++];
    level->terms = s->live_terms;
    level->first_term = s->first + s->live_first;
    level->x = (const float2 *)(s->zeros + s->live_groups * LIVE_GROUP_BYTES / sizeof(float));
    level->sums = (float2 *)s->out;
    level->log2_size = LIVE_LOG2;
    level->entry = LIVE_PARTS;
    level->n_entries = LIVE_PARTS + 1;
    level->n_windows = LIVE_PARTS;
    level->n_groups = s->live_groups;
    level->n_out = s->live_groups * TAIL_OUTS;
    level->n_units = LIVE_SIZE / TAIL_BINS * s->live_groups;
    level->max_terms = LIVE_INS;
    level->max_parts = LIVE_PARTS;
    return tail_product_launch(&job, s->n_sm, s->stream);
}
static double live_units(const struct cost_bench *s)
{
    return (double)s->live_groups * TAIL_OUTS * LIVE_INS * LIVE_PARTS * LIVE_SIZE;
}

static cudaError_t cost_bench_fft(struct cost_bench *s)
{
    struct part_forward forward = {};
    struct part_inverse inverse = {};
    forward.x = s->zeros;
    forward.ring_mask = (1 << 20) - 1; /* 4 MiB: the next transform's input is half of this one's */
    forward.hop = FFT_MAX;
    forward.log2_P = inverse.log2_P = log2_of(FFT_MAX);
    forward.tw = inverse.tw = (const float2 *)s->zeros;
    forward.n_ch = 1;
    forward.n_blocks = forward.n_entries = FFT_A_SM * s->n_sm;
    forward.spectra = (float2 *)s->out;
    inverse.sums = (const float2 *)s->zeros;
    inverse.n_splits = inverse.n_out = 1;
    inverse.n_blocks = forward.n_blocks;
    inverse.y = s->out;
    const cudaError_t e = part_forward_launch(&forward, s->stream);
    return e == cudaSuccess ? part_inverse_launch(&inverse, s->stream) : e;
}
static double fft_units(const struct cost_bench *s)
{
    const double n = 2.0 * FFT_MAX;
    return 2.0 * FFT_A_SM * s->n_sm * n * log2(n);
}

static cudaError_t run_nothing(struct cost_bench *s)
{
    nothing<<<1, 32, 0, s->stream>>>();
    return cudaGetLastError();
}

/* A hop of 64 frames of two channels: one unit of every level's products; two transforms of the smallest level, which
 * has a window in each hop, and one of the next two levels, which have a window in every second and every fourth
 * hop. */
static cudaError_t run_step(struct cost_bench *s)
{
    struct tail_forwards forwards = {};
    struct tail_products products = {};
    struct tail_inverses inverses = {};
    const size_t capacity = (size_t)STEP_INS * 4 * TAIL_SIZE_MAX; /* capacity of a level in `out`, in float2 */
    const float2 *tw = (const float2 *)s->zeros;
    forwards.x = s->zeros;
    forwards.ring_mask = TAIL_SIZE_MAX - 1;
    for (int i = STEP_LEVELS - 1; i >= 0; i--) {
        float2 *own = (float2 *)s->out + i * capacity;
        const int log2_size = STEP_LOG2 + i, n = i == 0 ? 2 : i < 3;
        struct tail_product *product = &products.level[products.n++];
        product->terms = s->step_terms;
        product->first_term = s->first + s->step_first;
        product->x = (const float2 *)s->zeros;
        product->sums = own;
        product->log2_size = log2_size;
        product->entry = STEP_PARTS;
        product->n_entries = STEP_PARTS + 1;
        product->n_windows = STEP_PARTS;
        product->n_groups = product->n_units = 1;
        product->n_out = STEP_INS;
        product->max_terms = STEP_INS;
        product->max_parts = STEP_PARTS;
        if (!n) continue;
        struct tail_forward *forward = &forwards.level[forwards.n++];
        forward->tw = tw;
        forward->spectra = own + capacity / 2;
        forward->log2_size = log2_size;
        forward->n_ch = n;
        forward->n_entries = 1;
        struct tail_inverse *inverse = &inverses.level[inverses.n++];
        inverse->tw = tw;
        inverse->sums = own;
        inverse->due = (float *)(own + capacity / 2);
        inverse->log2_size = log2_size;
        inverse->n_out = n;
    }
    cudaError_t e = tail_forward_launch(&forwards, s->stream);
    if (e == cudaSuccess) e = tail_product_launch(&products, s->n_sm, s->stream);
    return e == cudaSuccess ? tail_inverse_launch(&inverses, s->stream) : e;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs a round of n runs. *ns: the time of one run, by the device's clock. */
static int round_of(struct cost_bench *s, cudaError_t (*run)(struct cost_bench *), int n, double *ns,
                    struct reason *why)
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

/* Measures the time *ns of a unit, the median of ROUNDS rounds. The runs of a round last round_s by the host's
 * clock. */
static int cost_bench_time_of(struct cost_bench *s, cudaError_t (*run)(struct cost_bench *), double units, double *ns,
                              struct reason *why)
{
    double rounds[ROUNDS];
    PASS(round_of(s, run, 1, rounds, why)); /* warm-up: the first launch is slow */
    const double start = now();
    PASS(round_of(s, run, 2, rounds, why));
    const double n = 2 * round_s / (now() - start);
    for (int r = 0; r < ROUNDS; r++)
        PASS(round_of(s, run, n < 1 ? 1 : n > MAX_RUNS ? MAX_RUNS : (int)n, &rounds[r], why));
    qsort(rounds, ROUNDS, sizeof *rounds, order_of_doubles);
    *ns = rounds[ROUNDS / 2] / units;
    return HC_OK;
}

static int warm_up(struct cost_bench *s, struct reason *why)
{
    double ns;
    for (const double end = now() + warm_up_s; now() < end;) PASS(round_of(s, run_head, 10, &ns, why));
    return HC_OK;
}

static int cost_bench_measure(struct cost_bench *s, struct plan_costs *costs, struct reason *why)
{
    struct plan_costs found = *costs;
    double step_ns;
    PASS(warm_up(s, why));
    PASS(cost_bench_time_of(s, run_head, head_units(s), &found.mac_ns, why));
    PASS(cost_bench_time_of(s, run_mac, mac_units(s), &found.cmac_ns, why));
    PASS(cost_bench_time_of(s, run_live, live_units(s), &found.live_cmac_ns, why));
    PASS(cost_bench_time_of(s, cost_bench_fft, fft_units(s), &found.fft_ns, why));
    PASS(cost_bench_time_of(s, run_nothing, 1, &found.launch_ns, why));
    PASS(cost_bench_time_of(s, run_step, 1, &step_ns, why));
    found.slice_ns = (step_ns - found.launch_ns) / STEP_LEVELS;
    *costs = found;
    return HC_OK;
}

/* Fails if memory is too small for all bytes: with fewer bytes, the kernels would read from the cache. */
static int memory_alloc(struct cost_bench *s, size_t bytes, struct reason *why)
{
    size_t free_bytes, all;
    TRY(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
    if (bytes > free_bytes)
        return fail(
            HC_ENOMEM, why,
            "cuda: measuring the costs needs %.0f MB, but only %.0f MB of the device's memory are free; end other "
            "programs that use it",
            (double)bytes * 1e-6, (double)free_bytes * 1e-6);
    TRY(cudaMalloc(&s->memory, bytes), "cudaMalloc(%zu)", bytes);
    return HC_OK;
}

static int cost_bench_load(struct cost_bench *s, int device, struct reason *why)
{
    int l2 = 0;
    TRY(cudaSetDevice(device), "cudaSetDevice(%d)", device);
    TRY(cudaDeviceGetAttribute(&s->n_sm, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    TRY(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    TRY(head_load(), "loading the kernels");
    TRY(part_load(), "loading the kernels");
    TRY(tail_transform_load(), "loading the kernels");
    TRY(tail_product_load(), "loading the kernels");
    TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    TRY(cudaEventCreate(&s->from), "cudaEventCreate");
    TRY(cudaEventCreate(&s->to), "cudaEventCreate");
    sizes_choose(s, (size_t)l2);
    PASS(memory_alloc(s, cost_bench_cut(s, NULL), why));
    cost_bench_cut(s, s->memory);
    void *host = calloc(1, largest_table(s));
    if (!host) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    const int error = tables_send(s, host, why);
    cudaStreamSynchronize(s->stream); /* after an error the copy may still read `host` */
    free(host);
    return error;
}

static void unload(struct cost_bench *s)
{
    if (s->stream) cudaStreamSynchronize(s->stream);
    cudaFree(s->memory);
    if (s->to) cudaEventDestroy(s->to);
    if (s->from) cudaEventDestroy(s->from);
    if (s->stream) cudaStreamDestroy(s->stream);
    cudaGetLastError();
}

int device_costs_measure(int device, struct plan_costs *costs, struct reason *why)
{
    struct cost_bench s = {};
    int error = cost_bench_load(&s, device, why);
    if (!error) error = cost_bench_measure(&s, costs, why);
    unload(&s);
    return error;
}
