/* rung 12, register - each thread keeps a sliding window of inputs in registers; memory only feeds the window.
 *
 *   a block is one warp; it computes tiles of TILE = 896 outputs, one after another; lane t owns V t ... V t + V-1
 *
 *   x             ..[ CHUNK ][ CHUNK ][======= tile, TILE =======]..
 *   ring (shared)  2nd chunk  1st       each further chunk of taps brings CHUNK older frames, which take the place of
 *                                       the newest, no longer needed: the tile itself is loaded once
 *   window (registers, V + 4)  [ 4 new | V kept ]    slides 4 frames down every 4 taps:
 *                              one 16-byte load of x and one of taps feed 4 V = 112 FMA
 *
 *   Two rings: while one tile is computed, cp.async fills the other with the next tile; likewise the taps. No barrier
 *   at all. V = 28: 16 bytes at a stride of 112: the 8 threads of a quarter warp hit every bank once.
 *
 *   A short shared mask is convolved at half the rate, in three parts for four (E, O: even and odd frames or taps):
 *       y[2m] = (hE * xE)[m] + (hO * xO)[m-1]      y[2m+1] = ((hE + hO) * (xE + xO) - hE * xE - hO * xO)[m]
 *   Pairs lie side by side in the window, so that only the sums xE + xO are new: 43 FMA for 2 taps, not 56.
 *
 * What made it fast, each step measured:
 *   77 -> 81 % of the FMA rate  at 4096 taps: a ring instead of loading the tile again for each chunk; V = 28 for 16
 *   81 -> 88   An FMA reads three registers, the register file delivers two a cycle, one from the even and one from the
 *              odd ones. A block of one warp makes the control flow uniform for the compiler too, so it moves the taps
 *              of a turn to uniform registers (R2UR in the SASS): two reads an FMA. A short shared mask comes as an
 *              argument of the kernel (constant memory, ULDC) and needs no load at all. __maxnreg__: fewer conflicts
 *   75 -> 79   at 64 taps: a multiple of 4 warps a multiprocessor. With 18, two of the schedulers have 5, and all wait
 *   79 -> 89 % of the copy rate  at 64 taps: three parts for four. ncu had 77% of the FMA pipe and 74% of the copy rate
 *              busy at once; 23% fewer FMA were to give 15% and gave 14 (413 to 470 G samples/s); 20% at 128 taps, 19
 *              at 256, which is 108% of the direct form's FMA rate
 *
 * cost     a tile: TILE + n_taps loads of x from device memory or L2, TILE * n_taps FMA (short, shared: 0.77 of that).
 *          n_taps = 256: 1152 loads, 176128 FMA
 * error    sums of CHUNK taps, then those added up: 2e-7 to 6e-7 of the peak on noise at any number of taps; some 1e-6
 *          where all products are equal and every rounding goes the same way (a stream: below 1e-6)
 * limits   none on taps, frames or channels. Wants 132 * 16 tiles: rung_few takes blocks that are smaller
 * ceiling  the FP32 FMA rate (65 TFLOP/s on an H200): of the issue slots of the inner loop 95% are FMA; up to 64 taps
 *          the copy rate, 8 bytes a sample
 */
#include "async_copy.cuh"
#include "fir.h"
#include "ladder.h"

#include <new>
#include <string.h>

enum {
    V = 28,                       /* outputs a thread; V / 4 odd keeps the 16-byte loads free of bank conflicts       */
    TILE = 32 * V,                /* outputs a warp                                                                   */
    THREADS = 32,                 /* a block is one warp: nothing to wait for but its own copies                      */
    SLIDE = V + 4,                /* taps after which the window is back at its start: one turn of the inner loop     */
    ROW = 128,                    /* frames that one 16-byte copy of each lane moves                                  */
    SHORT_TAPS = 256              /* up to this many taps are staged in one chunk                                     */
};

/* Shared memory of a block. SHORT: one chunk holds all taps. */
template <bool SHORT> struct staged {
    enum {
        CHUNK = SHORT ? SHORT_TAPS : ROW, /* taps staged at once, and added up in one plain sum */
        RING = TILE + (SHORT ? 1 : 2) * CHUNK,
        AGAIN = SHORT ? 0 : SLIDE /* the ring's first floats again at its end: a turn reads SLIDE floats in one piece */
    };
    float ring[2][RING + AGAIN], taps[2][CHUNK];
    static_assert(CHUNK % ROW == 0 && TILE % ROW == 0 && CHUNK % SLIDE == 0 && SLIDE <= ROW,
                  "how copies are dealt to lanes");
    static_assert(CHUNK + 0 <= TILE + 0 && (SHORT || RING % CHUNK == 0), "chunks must not wrap round");
};

struct job {
    enum { IN_JOB = false };        /* where the taps are: here or in h                                               */
    const float *x, *h; /* h: [masks][n_taps], padded with zeros to a multiple of SLIDE, 16-byte aligned              */
    float *y;
    long n_frames, x_step, y_pitch; /* x_step: floats from one output's input to the next's; 0 for one input          */
    int n_taps, h_step, n_out;      /* n_taps: padded                                                                 */
    int n_tiles, n_whole;           /* tiles of an output; those that do not reach past the end                       */
    int tile_stride, out_stride;    /* gridDim.x = tile_stride * n_out + out_stride                                   */
};

struct pair {                       /* taps 2i and 2i + 1, and their sum                                              */
    float even, odd, both;
};

struct job_with_taps : job {        /* a short mask as an argument: it lies in constant memory                        */
    enum { IN_JOB = true };
    struct pair pairs[SHORT_TAPS / 2];
};

struct unit {                       /* of work: one tile of one output                                                */
    int tile, out;
};

/* Outputs vary fastest: the masks of a bank meet the same input in L2. */
__device__ static inline struct unit unit_next(const struct job &job, struct unit u)
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

/* The tile and the CHUNK frames before it, as far as they are needed: frame first + j lies at ring[CHUNK + j]. */
template <bool SHORT, bool STAGE_TAPS>
__device__ static inline void stage_tile(float *ring, float *taps, const struct job &job, struct unit at, int lane4)
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

/* The chunk of taps k0 ..., and as many older frames to ring[to ...]. */
__device__ static inline void stage_chunk(float *ring, int to, float *taps, const struct job &job, struct unit at,
                                          int k0, int lane4)
{
    static_assert(staged<false>::CHUNK == ROW, "one copy a lane");
    const float *x = job.x + at.out * job.x_step;
    const long f = (long)at.tile * TILE - k0 - ROW + lane4;
    copy_frames(ring + to + lane4, x, f, job.n_frames);
    if (to == 0 && lane4 < SLIDE) copy_frames(ring + staged<false>::RING + lane4, x, f, job.n_frames);
    if (k0 + lane4 < job.n_taps) copy16(taps + lane4, job.h + (long)at.out * job.h_step + k0 + lane4);
}

__device__ static inline void load4(float (&to)[4], const float *from)
{
    const float4 v = *(const float4 *)from;
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

/* SLIDE taps: sum[o] += sum_k h[k] x[o - k]. below[SLIDE] is x[0]. window: x[0 .. V-1] in quads 1 .. V/4 before, and
 * again after, SLIDE frames further down. */
__device__ static inline void slide(float (&sum)[V], float (&window)[SLIDE / 4][4], const float *below, const float *h)
{
    const int quads = SLIDE / 4;
    float tap[SLIDE];
#pragma unroll
    for (int k = 0; k < SLIDE; k += 4) load4(*(float (*)[4])(tap + k), h + k);
#pragma unroll
    for (int k = 0; k < SLIDE; k++) {
        const int low = (quads - k / 4) % quads; /* the quad that the new frames replace */
        if (k % 4 == 0) load4(window[low], below + SLIDE - k - 4);
#pragma unroll
        for (int o = 0; o < V; o++) {
            const int j = 4 + o - k % 4; /* of the V + 4 frames in the window, lowest first */
            sum[o] = fmaf(tap[k], window[(low + j / 4) % quads][j % 4], sum[o]);
        }
    }
}

/* Three convolutions at half the rate. even, odd: of the even taps and frames, of the odd ones, one pair more to the
 * left; both: of the sums of pairs. */
struct thirds { float even[V / 2], odd[V / 2 + 1], both[V / 2]; };

/* As slide, with sums[i] = the sum of the two frames of pair i of the window. */
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

/* Through shared memory, so that a warp writes whole lines. */
__device__ static inline void store_tile(float *out, const float (&total)[V], const struct job &job, struct unit at,
                                         int lane4)
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

/* job.h staged in shared memory, or, for a short mask that all outputs share, job.taps */
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
        int below = CHUNK + V / 4 * lane4; /* where in the ring the window ends */
        int oldest = 0;                    /* where in the ring the frames of this chunk begin */
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
                else slide(sum, window, ring + below, taps + k);
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

/* ---- a stream: fir.h ----------------------------------------------------------------------------------------------
 * The same for inputs in rings and any number of cells an output: the unit of work is a cell of a tile, and the tile is
 * stored after its last. Copies of 16 bytes want frames in fours, so tiles start up to 3 frames before the job's first.
 * Sums of SLIDE taps, 4 of those, then compensated (Kahan): below 1e-6 of the peak also on a long average of a steady
 * level.
 */
struct cell_unit {
    int tile, out;
    int cell, end; /* which, and one past the last of this output; cell = end: it has none */
};

__device__ static inline struct cell_unit cell_unit_of(const struct fir_job &job, int tile, int out)
{
    return {tile, out, __ldg(job.first + out), __ldg(job.first + out + 1)};
}

__device__ static inline struct cell_unit cell_unit_next(const struct fir_job &job, struct cell_unit u)
{
    if (u.cell + 1 < u.end) return {u.tile, u.out, u.cell + 1, u.end};
    u.tile += gridDim.x / job.n_out, u.out += gridDim.x % job.n_out;
    if (u.out >= job.n_out) u.tile++, u.out -= job.n_out;
    return cell_unit_of(job, u.tile, u.out);
}

__device__ static inline struct fir_cell cell_at(const struct fir_job &job, struct cell_unit u)
{
    struct fir_cell cell = {NULL, 0, 0};
    if (u.cell < u.end) {
        const int4 raw = __ldg((const int4 *)(job.cells + u.cell));
        memcpy(&cell, &raw, sizeof cell);
        cell.n_taps = (cell.n_taps + SLIDE - 1) / SLIDE * SLIDE; /* the padding is zeros */
    }
    return cell;
}
static_assert(sizeof(struct fir_cell) == sizeof(int4) && FIR_PAD % SLIDE == 0, "cell_at reads it in one piece, padded");

using stream_staged = struct staged<false>;

/* 128 taps and the frames that they bring, or at k0 = 0 the tile too: to ring[to ...]. at: frame that lies at
 * ring[to]. */
__device__ static inline void stage_stream(float *ring, int to, float *taps, const struct fir_job &job,
                                           struct fir_cell cell, unsigned at, int k0, int lane4)
{
    const float *x = job.x + (size_t)cell.in * ((size_t)job.ring_mask + 1);
    at += lane4;
    copy16(ring + to + lane4, x + (at & job.ring_mask));
    if (k0 == 0)
#pragma unroll
        for (int j = ROW; j < ROW + TILE; j += ROW) copy16(ring + j + lane4, x + ((at + j) & job.ring_mask));
    if (to == 0 && lane4 < SLIDE) copy16(ring + stream_staged::RING + lane4, x + (at & job.ring_mask));
    if (k0 + lane4 < cell.n_taps) copy16(taps + lane4, cell.taps + k0 + lane4);
}

__device__ static inline void store_stream(float *out, const float (&total)[V], const struct fir_job &job,
                                           struct cell_unit u, int early, int lane)
{
    __syncwarp();
#pragma unroll
    for (int q = 0; q < V; q += 4)
        *(float4 *)(out + V * lane + q) = make_float4(total[q], total[q + 1], total[q + 2], total[q + 3]);
    __syncwarp();
    const int first = u.tile * TILE - early;
    float *to = job.y + u.out * job.y_pitch;
    const float *add = job.add ? job.add + u.out * job.add_pitch : NULL;
#pragma unroll 4
    for (int j = lane; j < TILE; j += 32) {
        const int i = first + j;
        if (i >= 0 && i < job.n) to[i] = out[j] + (add ? add[i] : 0.0f);
    }
}

static __global__ void __maxnreg__(168) fir_register_stream(const __grid_constant__ struct fir_job job, int n_tiles)
{
    const int CHUNK = stream_staged::CHUNK, RING = stream_staged::RING;
    extern __shared__ __align__(16) unsigned char shared[];
    stream_staged &s = *(stream_staged *)shared;
    float *ring = s.ring[0], *next_ring = s.ring[1], *taps = s.taps[0], *next_taps = s.taps[1];
    const int lane4 = 4 * threadIdx.x, early = (int)(job.pos % 4);
    const unsigned start = job.pos - early - CHUNK; /* of what is staged for tile 0 */
    float total[V] = {}, lost[V] = {};

    struct cell_unit at = cell_unit_of(job, blockIdx.x / job.n_out, blockIdx.x % job.n_out);
    struct fir_cell cell = cell_at(job, at);
    stage_stream(ring, 0, taps, job, cell, start + at.tile * TILE, 0, lane4);
    while (at.tile < n_tiles) {
        const struct cell_unit next = cell_unit_next(job, at);
        const struct fir_cell next_cell = cell_at(job, next);
        float part[V] = {}, sum[V] = {}, window[SLIDE / 4][4];
        int below = CHUNK + V * threadIdx.x, oldest = 0, k0 = 0; /* as in fir_register */
        do {
            copies_wait();
            __syncwarp();
            if (k0 + CHUNK < cell.n_taps) {
                oldest = oldest == 0 ? RING - CHUNK : oldest - CHUNK;
                stage_stream(ring, oldest, next_taps, job, cell, start + at.tile * TILE - k0 - CHUNK, k0 + CHUNK,
                             lane4);
            } else if (next.tile < n_tiles) {
                stage_stream(next_ring, 0, next_taps, job, next_cell, start + next.tile * TILE, 0, lane4);
            }

            if (k0 == 0)
#pragma unroll
                for (int q = 0; q < V / 4; q++) load4(window[q + 1], ring + below + 4 * q);
            const int end = min(CHUNK, cell.n_taps - k0);
#pragma unroll 1
            for (int k = 0; k < end; k += SLIDE) {
                below -= SLIDE;
                if (below < 0) below += RING;
                slide(sum, window, ring + below, taps + k);
#pragma unroll
                for (int o = 0; o < V; o++) part[o] += sum[o], sum[o] = 0.0f;
            }
            float *t = taps;
            taps = next_taps, next_taps = t;
            k0 += CHUNK;
#pragma unroll
            for (int o = 0; o < V; o++) {
                const float y = part[o] - lost[o], sum_of_both = total[o] + y;
                lost[o] = (sum_of_both - total[o]) - y;
                total[o] = sum_of_both, part[o] = 0.0f;
            }
        } while (k0 < cell.n_taps);
        if (at.cell + 1 >= at.end) {
            store_stream(ring, total, job, at, early, threadIdx.x);
#pragma unroll
            for (int o = 0; o < V; o++) total[o] = lost[o] = 0.0f;
        }
        float *r = ring;
        ring = next_ring, next_ring = r;
        at = next, cell = next_cell;
    }
}

extern "C" cudaError_t fir_register_load(void)
{
    struct cudaFuncAttributes a;
    return cudaFuncGetAttributes(&a, fir_register_stream);
}

extern "C" cudaError_t fir_register_launch(const struct fir_job *job, cudaStream_t stream)
{
    enum { BLOCKS_AN_SM = 12 }; /* as many as the registers allow, a multiple of 4 */
    const int n_tiles = (job->n + (int)(job->pos % 4) + TILE - 1) / TILE;
    const long n_work = (long)n_tiles * job->n_out, room = (long)BLOCKS_AN_SM * job->n_sm;
    const unsigned n_blocks = (unsigned)(n_work < room ? n_work : room);
    fir_register_stream<<<n_blocks, THREADS, sizeof(stream_staged), stream>>>(*job, n_tiles);
    return cudaGetLastError();
}

/* ---- the rung ---------------------------------------------------------------------------------------------------- */

struct prepared {
    float *h;           /* device; NULL: in pairs */
    struct pair pairs[SHORT_TAPS / 2];
    int n_taps, n_blocks;
};

static bool accepts(const struct task *task) { return task->n_taps >= 1 && task->n_frames >= 1; }

static void discard(void *opaque)
{
    struct prepared *p = (struct prepared *)opaque;
    if (!p) return;
    cudaFree(p->h);
    delete p;
}

/* The taps come last in struct staged. */
template <bool SHORT, class JOB> static int shared_bytes()
{
    const struct staged<SHORT> *s = NULL;
    return (int)(sizeof *s - (JOB::IN_JOB ? sizeof s->taps : 0));
}

/* Ask for the shared memory, and say how many blocks then fit on a multiprocessor. */
template <bool SHORT, class JOB> static cudaError_t fit(int *resident)
{
    const int bytes = shared_bytes<SHORT, JOB>();
    cudaError_t e = cudaFuncSetAttribute(fir_register<SHORT, JOB>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(resident, fir_register<SHORT, JOB>, THREADS, bytes);
    if (*resident > 4) *resident -= *resident % 4; /* as many warps on each of the four schedulers: 18 for 16 cost 6% */
    return e;
}

static cudaError_t prepare(const struct task *task, void **opaque)
{
    const int n_masks = task->sharing == SHARED ? 1 : task->n_out;
    struct prepared *p = new (std::nothrow) prepared();
    if (!p) return cudaErrorMemoryAllocation;
    p->n_taps = (task->n_taps + SLIDE - 1) / SLIDE * SLIDE;
    const size_t pitch = p->n_taps * sizeof(float), width = task->n_taps * sizeof(float);
    const bool is_short = p->n_taps <= SHORT_TAPS;
    int device = 0, n_sm = 0, resident = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess && is_short && n_masks == 1) {
        float taps[SHORT_TAPS] = {};
        memcpy(taps, task->h_host, width);
        for (int i = 0; i < SHORT_TAPS / 2; i++)
            p->pairs[i] = {taps[2 * i], taps[2 * i + 1], taps[2 * i] + taps[2 * i + 1]};
        e = fit<true, struct job_with_taps>(&resident);
    } else {
        if (e == cudaSuccess) e = is_short ? fit<true, struct job>(&resident) : fit<false, struct job>(&resident);
        if (e == cudaSuccess) e = cudaMalloc(&p->h, n_masks * pitch);
        if (e == cudaSuccess) e = cudaMemset(p->h, 0, n_masks * pitch);
        if (e == cudaSuccess)
            e = cudaMemcpy2D(p->h, pitch, task->h_host, width, width, n_masks, cudaMemcpyHostToDevice);
        if (e == cudaSuccess) e = cudaDeviceSynchronize(); /* the launch may use any stream */
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
    const struct prepared *p = (const struct prepared *)opaque;
    struct job_with_taps job = {};
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
    if (!p->h) {
        memcpy(job.pairs, p->pairs, sizeof job.pairs);
        fir_register<true><<<n_blocks, THREADS, shared_bytes<true, struct job_with_taps>(), stream>>>(job);
    } else if (p->n_taps <= SHORT_TAPS) {
        fir_register<true><<<n_blocks, THREADS, shared_bytes<true, struct job>(), stream>>>((const struct job &)job);
    } else {
        fir_register<false><<<n_blocks, THREADS, shared_bytes<false, struct job>(), stream>>>((const struct job &)job);
    }
    return cudaGetLastError();
}

extern "C" const struct rung rung_register;
const struct rung rung_register = {"register", "a sliding window of inputs in registers, copies under way behind it",
                                   "record.md", true, accepts, prepare, launch, discard};
