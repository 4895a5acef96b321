/* rung 13, register - each thread keeps a sliding window of inputs in registers; memory only feeds the window
 * (backend/fir_register.cuh has the picture).
 *
 *   A short mask that all channels share is convolved at half the rate, by three convolutions instead of four (E, O:
 *   even and odd frames or taps):
 *       y[2m] = (hE * xE)[m] + (hO * xO)[m-1]      y[2m+1] = ((hE + hO) * (xE + xO) - hE * xE - hO * xO)[m]
 *   Pairs lie side by side in the window, so that only the sums xE + xO are new: 43 FMA for 2 taps instead of 56. Such
 *   a mask is an argument of the kernel (constant memory, ULDC) and needs no load.
 *
 * Speed: the gain of each step, after those of fir_register.cuh:
 *   75 -> 79 % of the FMA rate   At 64 taps: a multiple of 4 warps a multiprocessor. With 18 warps, two of the four
 *              schedulers have 5, and all wait for those two.
 *   79 -> 89 % of the copy rate  At 64 taps: three convolutions instead of four. Before, ncu showed 77% of the FMA pipe
 *              and 74% of the copy rate busy at once; 23% fewer FMA gave 14% (413 to 470 G samples/s). It gave 20% at
 *              128 taps and 19% at 256, which is 108% of the direct form's FMA rate.
 *
 * cost     a tile: TILE + n_taps loads of x from device memory or L2, TILE * n_taps FMA (short, shared: 0.77 of that).
 *          n_taps = 256: 1152 loads, 176128 FMA
 * error    sums of CHUNK taps, then those added up: 2e-7 to 6e-7 of the peak on noise at any number of taps; some 1e-6
 *          where all products are equal and every rounding goes the same way
 * limits   none on taps, frames or channels. Needs 132 * 16 tiles to fill an H200; rung 13b is for smaller blocks
 * ceiling  the FP32 FMA rate; up to 64 taps the copy rate, 8 bytes a sample
 */
#include "fir_register.cuh"
#include "rung.cuh"

#include <new>
#include <string.h>

struct register_job {
    enum { IN_JOB = false };        /* the taps are in h, not in the job                                              */
    const float *x, *h;             /* h: [masks][n_taps], padded with zeros to a multiple of SLIDE, 16-byte aligned  */
    float *y;
    long n_frames, x_step, y_pitch; /* x_step: floats from one output's input to the next's; 0 for one input          */
    int n_taps, h_step, n_out;      /* n_taps: padded                                                                 */
    int n_tiles, n_whole;           /* tiles of an output; those that do not reach past the end                       */
    int tile_stride, out_stride;    /* gridDim.x = tile_stride * n_out + out_stride                                   */
};

struct pair {                       /* taps 2i and 2i + 1, and their sum                                              */
    float even, odd, both;
};

struct register_job_with_taps : register_job { /* a short mask as an argument, in constant memory                */
    enum { IN_JOB = true };
    struct pair pairs[SHORT_TAPS / 2];
};

struct unit {                       /* of work: one tile of one output                                                */
    int tile, out;
};

/* Outputs vary fastest: the masks of a bank meet the same input in L2. */
__device__ static inline struct unit unit_next(const struct register_job &job, struct unit u)
{
    u.tile += job.tile_stride, u.out += job.out_stride;
    if (u.out >= job.n_out) u.tile++, u.out -= job.n_out;
    return u;
}

/* Four frames from frame f on; those before frame 0 or past the end are 0. */
__device__ static inline void copy_frames(float *to, const float *x, long f, long n_frames)
{
    const long left = f < 0 ? 0 : n_frames - f;
    copy16(to, left > 0 ? x + f : x, left >= 4 ? 16 : left > 0 ? 4 * (int)left : 0);
}

/* Stages a tile, those of the CHUNK frames before it that are needed, and its first chunk of taps. Frame j of the tile
 * goes to ring[CHUNK + j]. */
template <bool SHORT, bool STAGE_TAPS>
__device__ static inline void stage_tile(float *ring, float *taps, const struct register_job &job, struct unit at,
                                         int lane4)
{
    const int CHUNK = staged<SHORT>::CHUNK;
    const float *x = job.x + at.out * job.x_step, *h = job.h + (long)at.out * job.h_step + lane4;
    const long from = (long)at.tile * TILE - CHUNK + lane4;
    if (at.tile > 0 && at.tile < job.n_whole) {
        const float *frames = x + from;
        ring += lane4;
#pragma unroll
        for (int j = 0; j < CHUNK; j += ROW)
            if (lane4 + j >= CHUNK - job.n_taps) copy16(ring + j, frames + j);
#pragma unroll
        for (int j = CHUNK; j < CHUNK + TILE; j += ROW) copy16(ring + j, frames + j);
        ring -= lane4;
    } else {
#pragma unroll 1
        for (int j = 0; j < CHUNK + TILE; j += ROW) copy_frames(ring + lane4 + j, x, from + j, job.n_frames);
    }
#pragma unroll
    for (int j = 0; STAGE_TAPS && j < CHUNK; j += ROW)
        if (lane4 + j < job.n_taps) copy16(taps + lane4 + j, h + j);
    if (!SHORT && lane4 < SLIDE) copy_frames(ring + staged<SHORT>::RING + lane4, x, from, job.n_frames);
}

/* Stages the chunk of taps from k0 on, and as many older frames, which go to ring[to ...]. */
__device__ static inline void stage_chunk(float *ring, int to, float *taps, const struct register_job &job,
                                          struct unit at, int k0, int lane4)
{
    static_assert(staged<false>::CHUNK == ROW, "one copy a lane");
    const float *x = job.x + at.out * job.x_step;
    const long f = (long)at.tile * TILE - k0 - ROW + lane4;
    copy_frames(ring + to + lane4, x, f, job.n_frames);
    if (to == 0 && lane4 < SLIDE) copy_frames(ring + staged<false>::RING + lane4, x, f, job.n_frames);
    if (k0 + lane4 < job.n_taps) copy16(taps + lane4, job.h + (long)at.out * job.h_step + k0 + lane4);
}

/* The three convolutions at half the rate: of the even taps with the even frames; of the odd taps with the odd frames,
 * from one pair earlier on; of the sums of pairs of taps and frames. */
struct thirds { float even[V / 2], odd[V / 2 + 1], both[V / 2]; };

/* As register_slide. sums[i] is the sum of the two frames of pair i of the window. */
__device__ static inline void slide_pairs(struct thirds &sum, float (&window)[SLIDE / 4][4], float (&sums)[SLIDE / 2],
                                          const float *below, const struct pair *h)
{
    const int quads = SLIDE / 4, pairs = SLIDE / 2;
#pragma unroll
    for (int k = 0; k < SLIDE; k += 4) {
        const int low = (quads - k / 4) % quads;
        load4(window[low], below + SLIDE - k - 4);
        sums[2 * low] = window[low][0] + window[low][1];
        sums[2 * low + 1] = window[low][2] + window[low][3];
#pragma unroll
        for (int d = 0; d < 2; d++) {
            const struct pair tap = h[k / 2 + d];
#pragma unroll
            for (int m = 0; m < V / 2; m++) {
                const int q = (2 * low + m + 2 - d) % pairs; /* pair m of the outputs, less d */
                sum.even[m] = fmaf(tap.even, window[q / 2][q % 2 * 2], sum.even[m]);
                sum.both[m] = fmaf(tap.both, sums[q], sum.both[m]);
            }
#pragma unroll
            for (int m = 0; m <= V / 2; m++) {
                const int q = (2 * low + m + 1 - d) % pairs;
                sum.odd[m] = fmaf(tap.odd, window[q / 2][q % 2 * 2 + 1], sum.odd[m]);
            }
        }
    }
}

/* Writes a tile to y, through shared memory, so that a warp writes whole lines. */
__device__ static inline void store_tile(float *out, const float (&total)[V], const struct register_job &job,
                                         struct unit at, int lane4)
{
    __syncwarp();
#pragma unroll
    for (int q = 0; q < V; q += 4)
        *(float4 *)(out + V / 4 * lane4 + q) = make_float4(total[q], total[q + 1], total[q + 2], total[q + 3]);
    __syncwarp();
    const long first = (long)at.tile * TILE + lane4;
    float *to = job.y + at.out * job.y_pitch + first;
    out += lane4;
    if (at.tile < job.n_whole) {
#pragma unroll
        for (int j = 0; j < TILE; j += ROW) *(float4 *)(to + j) = *(const float4 *)(out + j);
    } else {
#pragma unroll 1
        for (int j = 0; j < TILE; j += ROW)
            for (int i = j; i < j + 4; i++)
                if (first + i < job.n_frames) to[i] = out[i];
    }
}

/* JOB: register_job, or register_job_with_taps for a short mask that all outputs share. */
template <bool SHORT, class JOB>
static __global__ void __maxnreg__(JOB::IN_JOB ? 112 : SHORT ? 96 : 120) fir_register(const __grid_constant__ JOB job)
{
    const int CHUNK = staged<SHORT>::CHUNK, RING = staged<SHORT>::RING;
    extern __shared__ __align__(16) unsigned char shared[];
    struct staged<SHORT> &s = *(struct staged<SHORT> *)shared;
    float *ring = s.ring[0], *next_ring = s.ring[1], *taps = s.taps[0], *next_taps = s.taps[1];
    const int lane4 = 4 * threadIdx.x;

    struct unit at = {(int)blockIdx.x / job.n_out, (int)blockIdx.x % job.n_out};
    stage_tile<SHORT, !JOB::IN_JOB>(ring, taps, job, at, lane4);
    while (at.tile < job.n_tiles) {
        const struct unit next = unit_next(job, at);
        float total[V] = {}, sum[V] = {}, window[SLIDE / 4][4], sums[SLIDE / 2];
        struct thirds third = {};
        int below = CHUNK + V / 4 * lane4; /* the index in the ring where the window ends */
        int oldest = 0;                    /* the index in the ring where the frames of this chunk begin */
        int k0 = 0;
        do {
            copies_wait();
            __syncwarp(); /* this chunk is there, and all lanes are done with the one before it */
            if (!SHORT && k0 + CHUNK < job.n_taps) {
                oldest = oldest == 0 ? RING - CHUNK : oldest - CHUNK;
                stage_chunk(ring, oldest, next_taps, job, at, k0 + CHUNK, lane4);
            } else if (next.tile < job.n_tiles) {
                stage_tile<SHORT, !JOB::IN_JOB>(next_ring, next_taps, job, next, lane4);
            }

            if (k0 == 0)
#pragma unroll
                for (int q = 0; q < V / 4; q++) {
                    load4(window[q + 1], ring + below + 4 * q);
                    sums[2 * q + 2] = window[q + 1][0] + window[q + 1][1];
                    sums[2 * q + 3] = window[q + 1][2] + window[q + 1][3];
                }
            const int end = SHORT ? job.n_taps : min(CHUNK, job.n_taps - k0);
#pragma unroll 1
            for (int k = 0; k < end; k += SLIDE) {
                below -= SLIDE;
                if (!SHORT && below < 0) below += RING;
                if constexpr (JOB::IN_JOB) slide_pairs(third, window, sums, ring + below, job.pairs + k / 2);
                else register_slide(sum, window, ring + below, taps + k);
            }
            if constexpr (JOB::IN_JOB)
#pragma unroll
                for (int m = 0; m < V / 2; m++) {
                    sum[2 * m] = third.even[m] + third.odd[m];
                    sum[2 * m + 1] = third.both[m] - third.even[m] - third.odd[m + 1];
                }
            float *t = taps;
            taps = next_taps, next_taps = t;
            k0 += CHUNK;
            if (!SHORT)
#pragma unroll
                for (int o = 0; o < V; o++) total[o] += sum[o], sum[o] = 0.0f;
        } while (!SHORT && k0 < job.n_taps);
        store_tile(ring, SHORT ? sum : total, job, at, lane4);
        float *r = ring;
        ring = next_ring, next_ring = r;
        at = next;
    }
}

struct register_prepared {
    float *h;           /* device; NULL: the taps are in `pairs` */
    struct pair pairs[SHORT_TAPS / 2];
    int n_taps, n_blocks;
};

static bool accepts(const struct task *task) { return task->n_taps >= 1 && task->n_frames >= 1; }

static void discard(void *opaque)
{
    struct register_prepared *p = (struct register_prepared *)opaque;
    if (!p) return;
    cudaFree(p->h);
    delete p;
}

/* Without the taps, which come last in struct staged, if the job has them. */
template <bool SHORT, class JOB> static int shared_bytes()
{
    const struct staged<SHORT> *s = NULL;
    return (int)(sizeof *s - (JOB::IN_JOB ? sizeof s->taps : 0));
}

/* Allows the kernel its shared memory. *resident: the number of blocks that a multiprocessor then runs at once. */
template <bool SHORT, class JOB> static cudaError_t fit(int *resident)
{
    const int bytes = shared_bytes<SHORT, JOB>();
    cudaError_t e = cudaFuncSetAttribute(fir_register<SHORT, JOB>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(resident, fir_register<SHORT, JOB>, THREADS, bytes);
    /* As many warps on each of the four schedulers: 18 warps were 6% slower than 16. */
    if (*resident > 4) *resident -= *resident % 4;
    return e;
}

static cudaError_t prepare(const struct task *task, void **opaque)
{
    struct register_prepared *p = new (std::nothrow) register_prepared();
    if (!p) return cudaErrorMemoryAllocation;
    p->n_taps = (task->n_taps + SLIDE - 1) / SLIDE * SLIDE;
    const bool is_short = p->n_taps <= SHORT_TAPS;
    int device = 0, n_sm = 0, resident = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess && is_short && task_masks(task) == 1) {
        float taps[SHORT_TAPS] = {};
        memcpy(taps, task->h_host, task->n_taps * sizeof(float));
        for (int i = 0; i < SHORT_TAPS / 2; i++)
            p->pairs[i] = {taps[2 * i], taps[2 * i + 1], taps[2 * i] + taps[2 * i + 1]};
        e = fit<true, struct register_job_with_taps>(&resident);
    } else {
        if (e == cudaSuccess)
            e = is_short ? fit<true, struct register_job>(&resident) : fit<false, struct register_job>(&resident);
        if (e == cudaSuccess) e = masks_upload(task, p->n_taps, &p->h);
    }
    if (e == cudaSuccess && resident == 0) e = cudaErrorInvalidConfiguration;
    if (e != cudaSuccess) {
        discard(p);
        return e;
    }
    p->n_blocks = resident * n_sm;
    *opaque = p;
    return cudaSuccess;
}

static cudaError_t launch(const struct task *task, void *opaque, cudaStream_t stream)
{
    const struct register_prepared *p = (const struct register_prepared *)opaque;
    struct register_job_with_taps job = {};
    job.x = task->x, job.h = p->h, job.y = task->y;
    job.n_frames = task->n_frames, job.y_pitch = task->y_pitch;
    job.x_step = task->sharing == BANK ? 0 : task->x_pitch;
    job.h_step = task->sharing == SHARED ? 0 : p->n_taps;
    job.n_taps = p->n_taps, job.n_out = task->n_out;
    job.n_tiles = (int)((task->n_frames + TILE - 1) / TILE);
    job.n_whole = (int)(task->n_frames / TILE);
    const long n_work = (long)job.n_tiles * task->n_out;
    const int n_blocks = n_work < p->n_blocks ? (int)n_work : p->n_blocks;
    job.tile_stride = n_blocks / task->n_out, job.out_stride = n_blocks % task->n_out;
    const struct register_job &in_memory = job;
    if (!p->h) {
        memcpy(job.pairs, p->pairs, sizeof job.pairs);
        fir_register<true><<<n_blocks, THREADS, shared_bytes<true, struct register_job_with_taps>(), stream>>>(job);
    } else if (p->n_taps <= SHORT_TAPS) {
        fir_register<true><<<n_blocks, THREADS, shared_bytes<true, struct register_job>(), stream>>>(in_memory);
    } else {
        fir_register<false><<<n_blocks, THREADS, shared_bytes<false, struct register_job>(), stream>>>(in_memory);
    }
    return cudaGetLastError();
}

extern "C" const struct rung rung_register;
const struct rung rung_register = {13, "register", "a wider window by 16-byte loads, copies under way behind it", "",
                                   true, accepts, prepare, launch, discard};
