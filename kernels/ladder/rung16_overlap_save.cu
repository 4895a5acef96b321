/* rung 16, overlap-save - forward transform, product with the mask's spectrum and inverse in one thread block
 *
 *   x (global)   ..[= drop: n_taps - 1, up to a multiple of 32 =][========= fresh =========]..    2M frames a segment
 *   z[n] = x[n] + i x[n + M], n < M                              y = the fresh ones; the others have wrapped
 *
 *   Nothing is unpacked: 2M real frames are a polynomial modulo z^2M + 1 = (z^M - i)(z^M + i), and z is its residue
 *   modulo z^M - i. So M complex points convolve 2M real frames, which change their sign where they wrap
 *   (rung16_passes.cuh). The forward transform ends in bit-reversed order; spectra have this order and the inverse
 *   begins in it: no reordering.
 *
 *   M = 4096:      pass A            pass B             C, x H, back C      back B            back A
 *   a thread's     256 apart         16 apart in 256    a row of 16         16 apart in 256   256 apart
 *      x     ->    [ registers ]  =  [ registers ]  ~   [ registers ]   ~   [ registers ]  =  [ registers ]   ->   y
 *
 *   =  shared memory and all warps: a barrier     ~  shared memory among 16 threads of a warp: __syncwarp
 *   A thread writes only where it has read, so an exchange has one barrier. Rows of 16 points are padded by 2,
 *   so that there are no bank conflicts. For M = 8192 and 16384 a thread has 32 points. Longer segments are cut by an
 *   outer pass over 2^C points that are 2^L apart:
 *
 *   BANKED    one input, many masks: the input is transformed once for several of them, its spectrum stays in registers
 *   RING      three steps: outer pass | all the rest | outer pass back. One persistent grid computes steps of several
 *             segments in turns, so that the points between the steps stay in the L2 cache:
 *                round of tickets   k              FORWARD of segment k, INNER of k - lag, BACK of k - 2 lag
 *
 * cost     a frame of a segment at M = 4096: 42 FP32 of 53 instructions, 32 bytes through shared memory, 8 bytes of
 *          device memory. A frame is in 2M / (2M - n_taps) segments; the second read comes from L2
 * limits   none on masks: a mask that leaves less than an eighth of a segment fresh is cut in parts, with a launch
 *          each, which add to y. Shared memory 36, 72 and 144 KiB
 * error    131 to 135 dB against float64 on white noise; factors and spectra are made in double
 * ceiling  8 bytes a frame at the copy rate: 530 G frames/s on an H200. There, one channel of 2^26 frames (ncu):
 *          M = 4096 has three limits at once: L2 (80% busy: every block reads spectrum and factors anew, twice
 *          the bytes of its input), L1 and shared memory (70%) and issue slots (69%), and they alternate: when a
 *          warp issues, three more are ready, and in a third of the cycles none is. 64 taps 77% of the copy rate, 1024
 *          taps 70%. M = 8192: 16 warps hide less, issue slots 62%; 4096 taps 52%: the load/store pipe is busy in 8.2k
 *          of a segment's 11.3k cycles (counted). Changes that did not help (363 and 272 G frames/s at 1024 and 4096
 *          taps without them):
 *            32 warps a multiprocessor at 64 registers   358, 270     M = 8192 with 24 warps    272 (20 bytes spilled)
 *            input past L1, so that tables stay there    361, 272     spectra past L1           339, 271
 *            tables and spectrum loaded a pass earlier   364, 271     upper half stored untested   357, 271
 *            blocks that loop over segments, the next one copied to shared memory behind the last pass: 297, 235
 *          BANKED: 64 masks of 512 taps, 2^18 frames: 417 G frames/s, 345 without it
 *          RING on an H100 (copy rate 341 G frames/s): 131 and 111 G frames/s at 48000 and 144000 taps. With the
 *          tables, about 30 bytes a frame pass through L2 (counted). Three kernels with the points in device memory
 *          reached 110 and 94, on an H200 141 and 120: 24 bytes a frame, at 86% of the copy rate. With a channel of
 *          2^20 frames there are too few segments for the lags: 31 us at 65536 taps, the three kernels took 25. One
 *          kernel for a segment, a cluster of 16 blocks with the outer pass through distributed shared memory, reached
 *          103 and 84 on the H200: one block a multiprocessor hides nothing of its exchanges, and 7 clusters of 16
 *          leave 20 multiprocessors without work. Other changes, on the H100 (131, 111, 340 and 264 G frames/s at
 *          48000, 144000, 1024 and 4096 taps without them):
 *            RING with M = 2^19   102, 95      RING with lag + 1, lag + 3 at 48000 taps   126, 112
 *            blocks that loop over segments of M = 4096 or 8192, the spectrum in shared memory   257, 233 (ALONE)
 *            tables of a factor a stage, the others by products; x past L1     136, 114, 334, 263; 2 to 3 dB more error
 */
#include "rung.cuh"
#include "rung16_passes.cuh"

#include <math.h>
#include <stdlib.h>

#include <vector>

enum {
    ROW = 16,     /* points of pass C: one thread's, next to each other                                               */
    ROW_SKEW = 2, /* padding: rows start 4 banks apart, so that 8 threads read 16 bytes each at once                  */
    ALIGN = 32,   /* frames: segments begin on a sector of 128 bytes if their channel does                            */
    MAX_HIGH = 65536 /* of a grid                                                                                    */
};

struct overlap_job {
    const float *x;
    float *y;
    long x_pitch, y_pitch, n_frames;
    int n_out, masks_a_block; /* BANKED                                                                               */
    int n_segments;         /* of a channel                                                                           */
    int in_step, mask_step; /* 0 or 1: from one output to the next                                                    */
    bool out_first;         /* grid: (outputs, segments), so that neighbours share their input; else reversed         */
    bool add;               /* add to y: every part of the mask but the first                                         */
    int drop;               /* frames at the front of a segment that have wrapped and are dropped                     */
    long delay;             /* of this part of the mask                                                               */
    int ahead;              /* blocks that run at once: the distance of the prefetch; 0: no prefetch                  */
    const float4 *spectra;  /* [mask][8][points / 16], two points a float4                                            */
    size_t spectrum_step;
    const float4 *forward_a, *forward_b, *forward_c, *back_b, *back_a, *back_outer; /* [factors / 2][node or place]   */
    const float2 *untwist;  /* [2^(C + L) / points of the last pass]                                                  */
    float2 *scratch;        /* RING: [ring][2^C][2^L]                                                                 */
    int ring, lag;          /* RING: segments in the scratch memory; rounds from a segment's step to the next step    */
    int n_listed;           /* RING: segments of all outputs                                                          */
    unsigned *ticket, *done; /* RING: the next ticket; [step][n_listed] tickets that are done                         */
};

/* 2^L points in a block: passes of 2^A, 2^B and 16 points, 2^A points a thread. */
template <int L> struct layout {
    static constexpr int A = L >= 13 ? 5 : 4, B = L - A - 4;
    static constexpr int POINTS = 1 << A, STEP = (1 << L) / POINTS, THREADS = STEP, ROWS = (1 << L) / ROW;
    static constexpr int BLOCKS_AN_SM = L == 12 ? 3 : L == 13 ? 2 : 1;
    static constexpr int BYTES = ROWS * (ROW + ROW_SKEW) * (int)sizeof(float2);
};

/* The position of point i in shared memory; skewed(i + j) = skewed(i) + skewed(j) if j is a multiple of 16. */
__host__ __device__ static constexpr int skewed(int i) { return i + i / ROW * ROW_SKEW; }

/* ---- in and out -------------------------------------------------------------------------------------------------- */

/* The segment of a block: the output, and the first fresh frame. */
struct place { int out; long frame; };
__device__ static inline place place_in_grid(const overlap_job &job, int wide, int high, int frames)
{
    const long fresh = frames - job.drop;
    return job.out_first ? place{wide, high * fresh} : place{high, wide * fresh};
}
__device__ static inline place place_in_list(const overlap_job &job, int i, int frames)
{
    return {i / job.n_segments, (long)(i % job.n_segments) * (frames - job.drop)};
}
/* The input channel of a segment. The first frame of the segment in it. */
__device__ static inline const float *input(const overlap_job &job, place at)
{
    return job.x + (long)at.out * job.in_step * job.x_pitch;
}
__device__ static inline long begin(const overlap_job &job, place at) { return at.frame - job.drop - job.delay; }

/* The index in y of frame 0 of the segment (frames before `drop` are not stored). The end of the channel, in frames of
 * the segment. */
__device__ static inline float *output(const overlap_job &job, place at)
{
    return job.y + (long)at.out * job.y_pitch + at.frame - job.drop;
}
__device__ static inline int end(const overlap_job &job, place at, int frames)
{
    return (int)min((long)frames, job.n_frames - at.frame + job.drop);
}

/* r[j] = x[n + j S] + i x[n + j S + R S], counted from frame `start`; outside of the input there is silence. */
template <int R, int S> __device__ static inline void load(float2 *r, const float *x, long start, long n_frames, int n)
{
    if (start >= 0 && start + 2 * R * S <= n_frames) {
        const float *from = x + start + n;
#pragma unroll
        for (int j = 0; j < R; j++) r[j] = make_float2(__ldg(from + j * S), __ldg(from + (j + R) * S));
    } else {
#pragma unroll
        for (int j = 0; j < R; j++) {
            const long a = start + n + j * S, b = a + R * S;
            r[j].x = a >= 0 && a < n_frames ? x[a] : 0.0f;
            r[j].y = b >= 0 && b < n_frames ? x[b] : 0.0f;
        }
    }
}

/* Prefetches BYTES at p, which the next block on this multiprocessor reads, to the L2 cache. */
template <int BYTES, int THREADS> __device__ static inline void prefetch(const void *p)
{
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < BYTES / 128 / THREADS; i++)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)p + (threadIdx.x + i * THREADS) * 128));
#else
    (void)p;
#endif
}

/* r[j] turned back, which gives frames n + j S (real part) and n + j S + R S (imaginary part). */
template <int R> __device__ static inline float2 turned_back(const float2 *r, int j, float2 turn)
{
    const factor f = untwist_factors.f[j * (32 / R)];
    const float p = fmaf(-f.tan, r[j].y, r[j].x), q = fmaf(f.tan, r[j].x, r[j].y);
    const float x = f.cos * turn.x, y = f.cos * turn.y;
    return make_float2(p * x - q * y, p * y + q * x);
}

/* Stores the frames of r that are in [drop, end) of the segment. */
template <int R, int S>
__device__ static inline void store(const float2 *r, float2 turn, float *y, int drop, int end, bool add, int n)
{
    if (end == 2 * R * S && !add) {
        y += n;
        drop -= n;
        asm("" : "+l"(y), "+r"(drop)); /* without this, ptxas computes both again for every store */
#pragma unroll
        for (int j = 0; j < R; j++) {
            const float2 z = turned_back<R>(r, j, turn);
            if (j * S >= drop) __stcs(y + j * S, z.x);
            if ((j + R) * S >= drop) __stcs(y + (j + R) * S, z.y);
        }
    } else {
#pragma unroll
        for (int j = 0; j < R; j++) {
            const float2 z = turned_back<R>(r, j, turn);
            const int a = n + j * S, b = a + R * S;
            if (a >= drop && a < end) y[a] = add ? y[a] + z.x : z.x;
            if (b >= drop && b < end) y[b] = add ? y[b] + z.y : z.y;
        }
    }
}

/* ---- the passes of a block --------------------------------------------------------------------------------------- */

/* From pass A to back A: r[j] = point t + j STEP; on entry after pass A, on return after back A. s: shared memory, in
 * which the thread may write these points. rank: the index of this block among the 2^C blocks of the segment. */
template <int C, int L>
__device__ static inline void through_spectrum(const overlap_job &job, float2 *s, int rank, int out, float2 *r)
{
    using lay = layout<L>;
    constexpr int A = lay::A, B = lay::B, STEP = lay::STEP, ROWS = lay::ROWS;
    const int t = threadIdx.x;
    const float4 *spectrum = job.spectra + (size_t)out * job.mask_step * job.spectrum_step + rank * ROWS;
    float2 *const column = s + skewed(t);
#pragma unroll
    for (int j = 0; j < 1 << A; j++) column[j * skewed(STEP)] = r[j];

#pragma unroll
    for (int u = 0; u < 1 << (A - B); u++) { /* 16 threads have a group of 2^B rows to themselves from here to back B */
        const int group = t / 16 + u * lay::THREADS / 16, lane = t % 16;
        float2 *const across = s + group * skewed(STEP) + lane;
        from_table<1 << B> f;
        f.load(job.forward_b, 1 << (C + A), (rank << A) + group);
        if (u == 0) __syncthreads();
#pragma unroll
        for (int j = 0; j < 1 << B; j++) r[j] = across[j * skewed(ROW)];
        pass_forward<1 << B>(r, f);
#pragma unroll
        for (int j = 0; j < 1 << B; j++) across[j * skewed(ROW)] = r[j];

#pragma unroll
        for (int v = 0; v < (1 << B) / 16; v++) {
            const int row = (group << B) + lane + 16 * v;
            float4 *const along = (float4 *)(s + row * skewed(ROW));
            from_table<ROW> g;
            float4 h[ROW / 2];
            g.load(job.forward_c, ROWS << C, rank * ROWS + row);
#pragma unroll
            for (int k = 0; k < ROW / 2; k++) h[k] = __ldg(spectrum + k * (ROWS << C) + row);
            if (v == 0) __syncwarp();
#pragma unroll
            for (int k = 0; k < ROW / 2; k++) {
                const float4 two = along[k];
                r[2 * k] = make_float2(two.x, two.y);
                r[2 * k + 1] = make_float2(two.z, two.w);
            }
            pass_forward<ROW>(r, g);
#pragma unroll
            for (int k = 0; k < ROW / 2; k++) {
                const float2 a = r[2 * k], b = r[2 * k + 1];
                r[2 * k] = make_float2(a.x * h[k].x - a.y * h[k].y, a.x * h[k].y + a.y * h[k].x);
                r[2 * k + 1] = make_float2(b.x * h[k].z - b.y * h[k].w, b.x * h[k].w + b.y * h[k].z);
            }
            pass_back<ROW, true>(r, from_leaf());
#pragma unroll
            for (int k = 0; k < ROW / 2; k++)
                along[k] = make_float4(r[2 * k].x, r[2 * k].y, r[2 * k + 1].x, r[2 * k + 1].y);
        }

        from_table<1 << B> b;
        b.load(job.back_b, ROW, lane);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 1 << B; j++) r[j] = across[j * skewed(ROW)];
        pass_back<1 << B, false>(r, b);
#pragma unroll
        for (int j = 0; j < 1 << B; j++) across[j * skewed(ROW)] = r[j];
    }

    from_table<1 << A> f;
    f.load(job.back_a, STEP, t);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 1 << A; j++) r[j] = column[j * skewed(STEP)];
    pass_back<1 << A, false>(r, f);
}

/* ---- ALONE: a segment a block ------------------------------------------------------------------------------------ */

template <int L>
static __global__ void __launch_bounds__(layout<L>::THREADS, layout<L>::BLOCKS_AN_SM)
    alone(const __grid_constant__ overlap_job job)
{
    using lay = layout<L>;
    constexpr int FRAMES = 2 << L;
    extern __shared__ float4 shared[];
    const place at = place_in_grid(job, blockIdx.x, blockIdx.y, FRAMES);
    const int t = threadIdx.x;
    float2 r[lay::POINTS];

    load<lay::POINTS, lay::STEP>(r, input(job, at), begin(job, at), job.n_frames, t);
    pass_forward<lay::POINTS>(r, from_root());
    if (job.ahead) {
        const long next = begin(job, at) + job.ahead * (long)(FRAMES - job.drop);
        if (next + FRAMES <= job.n_frames) prefetch<FRAMES * (int)sizeof(float), lay::THREADS>(input(job, at) + next);
    }
    through_spectrum<0, L>(job, (float2 *)shared, 0, at.out, r);
    const float2 turn = __ldg(job.untwist + t);
    store<lay::POINTS, lay::STEP>(r, turn, output(job, at), job.drop, end(job, at, FRAMES), job.add, t);
}

/* ---- BANKED: a segment a block, for many masks ------------------------------------------------------------------- */

/* grid: (segments, groups of masks). The spectrum of the input stays in registers: after three passes of 16 points each
 * thread has one row. Two barriers a mask. */
template <int L>
static __global__ void __launch_bounds__(layout<L>::THREADS, 2) bank(const __grid_constant__ overlap_job job)
{
    using lay = layout<L>;
    static_assert(lay::A == 4 && lay::B == 4 && lay::ROWS == lay::THREADS, "a thread has a row");
    constexpr int FRAMES = 2 << L, STEP = lay::STEP, ROWS = lay::ROWS;
    extern __shared__ float4 shared[];
    const int t = threadIdx.x, group = t / 16, lane = t % 16;
    float2 *const column = (float2 *)shared + skewed(t), *const across = (float2 *)shared + group * skewed(STEP) + lane;
    float4 *const along = (float4 *)((float2 *)shared + t * skewed(ROW));
    place at = {(int)blockIdx.y * job.masks_a_block, blockIdx.x * (long)(FRAMES - job.drop)};
    const int last = min(at.out + job.masks_a_block, job.n_out);
    float2 x[ROW], r[ROW];

    load<ROW, STEP>(r, job.x, begin(job, at), job.n_frames, t);
    pass_forward<ROW>(r, from_root());
#pragma unroll
    for (int j = 0; j < ROW; j++) column[j * skewed(STEP)] = r[j];
    from_table<ROW> f;
    f.load(job.forward_b, ROW, group);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < ROW; j++) r[j] = across[j * skewed(ROW)];
    pass_forward<ROW>(r, f);
#pragma unroll
    for (int j = 0; j < ROW; j++) across[j * skewed(ROW)] = r[j];
    f.load(job.forward_c, ROWS, t);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < ROW / 2; k++) {
        const float4 two = along[k];
        x[2 * k] = make_float2(two.x, two.y);
        x[2 * k + 1] = make_float2(two.z, two.w);
    }
    pass_forward<ROW>(x, f);

    for (; at.out < last; at.out++) {
        const float4 *spectrum = job.spectra + (size_t)at.out * job.spectrum_step + t;
#pragma unroll
        for (int k = 0; k < ROW / 2; k++) {
            const float4 h = __ldg(spectrum + k * ROWS);
            const float2 a = x[2 * k], b = x[2 * k + 1];
            r[2 * k] = make_float2(a.x * h.x - a.y * h.y, a.x * h.y + a.y * h.x);
            r[2 * k + 1] = make_float2(b.x * h.z - b.y * h.w, b.x * h.w + b.y * h.z);
        }
        pass_back<ROW, true>(r, from_leaf());
        __syncthreads(); /* all threads have read their columns for the mask before */
#pragma unroll
        for (int k = 0; k < ROW / 2; k++)
            along[k] = make_float4(r[2 * k].x, r[2 * k].y, r[2 * k + 1].x, r[2 * k + 1].y);
        f.load(job.back_b, ROW, lane);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < ROW; j++) r[j] = across[j * skewed(ROW)];
        pass_back<ROW, false>(r, f);
#pragma unroll
        for (int j = 0; j < ROW; j++) across[j * skewed(ROW)] = r[j];
        f.load(job.back_a, STEP, t);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ROW; j++) r[j] = column[j * skewed(STEP)];
        pass_back<ROW, false>(r, f);
        store<ROW, STEP>(r, __ldg(job.untwist + t), output(job, at), job.drop, end(job, at, FRAMES), false, t);
    }
}

/* ---- RING: a segment in three steps ------------------------------------------------------------------------------ */

/* A ticket is a step of 2^L points of a segment. Each round of tickets has those of FORWARD for one segment, of INNER
 * for the one `lag` rounds before, and of BACK for the one 2 lag rounds before. */
enum step { FORWARD, INNER, BACK, STEPS };
struct step_of_segment {
    int step, segment, part;
    bool exists, is_last;
};
template <int R> __device__ static inline step_of_segment step_of(const overlap_job &job, unsigned ticket)
{
    const int round = (int)(ticket / (STEPS * R)), step = (int)(ticket / R % STEPS), segment = round - step * job.lag;
    return {step, segment, (int)(ticket % R), segment >= 0 && segment < job.n_listed,
            round >= job.n_listed + BACK * job.lag};
}
/* Waits for the step before; FORWARD waits for the last step of the segment that it overwrites. Blocks draw tickets in
 * order, and these steps have smaller tickets: they run already. */
template <int R> __device__ static inline void wait_for_steps_before(const overlap_job &job, const step_of_segment &at)
{
    const int before = at.step == FORWARD ? BACK : at.step - 1;
    const int segment = at.step == FORWARD ? at.segment - job.ring : at.segment;
    if (!at.exists || segment < 0) return;
    while (atomicAdd(job.done + before * job.n_listed + segment, 0u) < R) {}
    __threadfence();
}

template <int C, int L>
static __global__ void __launch_bounds__(layout<L>::THREADS, layout<L>::BLOCKS_AN_SM)
    ring(const __grid_constant__ overlap_job job)
{
    using lay = layout<L>;
    constexpr int R = 1 << C, S = 1 << L, STEP = lay::STEP;
    static_assert(R == lay::POINTS && S == R * lay::THREADS, "a ticket is as much work for each step");
    extern __shared__ float4 shared[];
    __shared__ unsigned ticket;
    const int t = threadIdx.x;
    unsigned next = t ? 0 : atomicAdd(job.ticket, 1u);
    for (;;) {
        if (t == 0) {
            ticket = next;
            wait_for_steps_before<R>(job, step_of<R>(job, next));
        }
        __syncthreads();
        const step_of_segment at = step_of<R>(job, ticket);
        if (at.is_last) return;
        float2 *const points = job.scratch + (size_t)(at.segment % job.ring) * (R * S);
        const place segment = place_in_list(job, at.segment, 2 * R * S);
        const int n = at.part * lay::THREADS + t;
        float2 r[R];
        if (at.exists && at.step == FORWARD) {
            load<R, S>(r, input(job, segment), begin(job, segment), job.n_frames, n);
            if (t == 0) next = atomicAdd(job.ticket, 1u);
            pass_forward<R>(r, from_root());
#pragma unroll
            for (int j = 0; j < R; j++) __stcg(points + n + j * S, r[j]);
        } else if (at.exists && at.step == INNER) {
            float2 *const mine = points + at.part * S + t;
            from_table<R> f;
            f.load(job.forward_a, R, at.part);
#pragma unroll
            for (int j = 0; j < R; j++) r[j] = __ldcg(mine + j * STEP);
            pass_forward<R>(r, f);
            through_spectrum<C, L>(job, (float2 *)shared, at.part, segment.out, r);
            if (t == 0) next = atomicAdd(job.ticket, 1u);
#pragma unroll
            for (int j = 0; j < R; j++) __stcg(mine + j * STEP, r[j]);
        } else if (at.exists) {
            from_table<R> f;
#pragma unroll
            for (int j = 0; j < R; j++) r[j] = __ldcg(points + n + j * S);
            f.load(job.back_outer, S, n);
            if (t == 0) next = atomicAdd(job.ticket, 1u);
            pass_back<R, false>(r, f);
            store<R, S>(r, __ldg(job.untwist + n), output(job, segment), job.drop, end(job, segment, 2 * R * S),
                        job.add, n);
        } else if (t == 0)
            next = atomicAdd(job.ticket, 1u);
        __syncthreads();
        if (t == 0 && at.exists) {
            __threadfence();
            atomicAdd(job.done + at.step * job.n_listed + at.segment, 1u);
        }
    }
}

/* ---- host -------------------------------------------------------------------------------------------------------- */

enum variant { ALONE, BANKED, RING };

struct overlap_shape {
    enum variant variant;
    int C, L, a, b, threads, bytes;
    double us; /* H200; ALONE: for a wave of blocks; BANKED: for a wave and a mask; RING, on an H100: for a segment */
    decltype(&alone<12>) kernel;
};

#define LAYOUT(L) L, layout<L>::A, layout<L>::B, layout<L>::THREADS, layout<L>::BYTES
static const struct overlap_shape shapes[] = {
    {ALONE, 0, LAYOUT(12), 7.6, alone<12>},  {ALONE, 0, LAYOUT(13), 11.4, alone<13>},
    {ALONE, 0, LAYOUT(14), 13.5, alone<14>}, {BANKED, 0, LAYOUT(12), 3.4, bank<12>},
    {RING, 5, LAYOUT(13), 3.5, ring<5, 13>},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

struct overlap_prepared {
    const struct overlap_shape *shape;
    int part, n_parts; /* taps of a part of the mask; number of parts */
    int n_masks;
    int drop, fresh;   /* frames of a segment */
    long n_segments;   /* of a channel */
    int masks_a_block; /* BANKED */
    float4 *spectra;   /* [part][mask][8][points / 16] */
    float4 *tables;
    struct overlap_job job;    /* with the tables filled in */
};

static int round_up(int n, int to) { return (n + to - 1) / to * to; }

/* The number of blocks that run at once; 0: the device cannot run the shape. */
static int slots_of(const struct overlap_shape *s)
{
    int device, n_sm, max_shared, n = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&max_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess && s->bytes > max_shared) return 0;
    if (e == cudaSuccess) e = cudaFuncSetAttribute(s->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, s->bytes);
    if (e == cudaSuccess) e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, s->kernel, s->threads, s->bytes);
    if (e == cudaSuccess) return n * n_sm;
    cudaGetLastError();
    return 0;
}

/* The time, in masks, if a block takes `masks` masks. A forward transform takes as long as 0.8 of a mask's inverse. */
static double bank_waves(double n_segments, int n_out, int masks, int slots)
{
    return ceil(n_segments * ((n_out + masks - 1) / masks) / slots) * (0.8 + masks);
}

/* Chooses the shape, and the parts of the mask, with the least expected time. */
static void choose(const struct task *task, struct overlap_prepared *p)
{
    double best = 1e300;
    for (int i = 0; i < N_SHAPES; i++) {
        const int slots = slots_of(&shapes[i]), frames = 2 << (shapes[i].C + shapes[i].L);
        if (!slots) continue;
        const bool banked = shapes[i].variant == BANKED;
        if (banked && (task->sharing != BANK || task->n_out < 2 || task->n_taps > frames / 2)) continue;
        int least = 1;
        while (round_up((task->n_taps + least - 1) / least, ALIGN) > frames / 8 * 7) least++;
        for (int n = least; n < 4 * least; n++) {
            const int part = n == 1 ? task->n_taps : round_up((task->n_taps + n - 1) / n, ALIGN);
            const int fresh = frames - round_up(part - 1, ALIGN);
            const long n_segments = (task->n_frames + fresh - 1) / fresh;
            const double segments = (double)n_segments * task->n_out;
            double waves = shapes[i].variant == RING ? segments + 6 : ceil(segments / slots);
            int masks = 1;
            for (int m = 1; banked && n == 1 && m <= task->n_out; m++)
                if (m == 1 || bank_waves(n_segments, task->n_out, m, slots) < waves)
                    waves = bank_waves(n_segments, task->n_out, masks = m, slots);
            const double us = n * shapes[i].us * waves;
            if (us >= best || (banked && n > 1)) continue;
            p->masks_a_block = masks;
            best = us;
            p->shape = &shapes[i];
            p->part = part;
            p->n_parts = (task->n_taps + part - 1) / part;
            p->drop = frames - fresh;
            p->fresh = fresh;
            p->n_segments = n_segments;
            p->job.ahead = slots;
        }
    }
}

static bool accepts(const struct task *task)
{
    return task->n_taps > 0 && task->n_frames > 0 && task->n_out < MAX_HIGH && slots_of(&shapes[0]) > 0;
}

static factor factor_of(double a)
{
    double c = cos(a);
    if (fabs(c) < 1e-9) c = ldexp(1, -30);
    return {(float)c, (float)(sin(a) / c)};
}

/* Factors of a forward pass of 2^r points whose roots are the nodes of a level; [2^r / 4][2^level] float4. */
static void forward_table(std::vector<factor> &all, int level, int r)
{
    const int n = 1 << level;
    const size_t base = all.size();
    all.resize(base + ((size_t)n << (r - 1)));
    for (int node = 0; node < n; node++) {
        const double angle = (PI / 2 + 2 * PI * reverse(node, level)) / n;
        int k = 0;
        for (int stage = 0; stage < r; stage++)
            for (int g = 0; g < 1 << stage; g += 2, k++)
                all[base + ((size_t)(k / 2) * n + node) * 2 + k % 2] =
                    factor_of(angle / (2 << stage) + PI * reverse(g, stage) / (1 << stage));
    }
}

/* Factors of a pass back that joins 2^r transforms of n points; [2^r / 4][n] float4. */
static void back_table(std::vector<factor> &all, int n, int r)
{
    const size_t base = all.size();
    all.resize(base + ((size_t)n << (r - 1)));
    for (int i = 0; i < n; i++) {
        int k = 0;
        for (int half = 1; half < 1 << r; half *= 2)
            for (int m = 0; m < (half + 1) / 2; m++, k++)
                all[base + ((size_t)(k / 2) * n + i) * 2 + k % 2] = factor_of(-PI * ((double)i / n + m) / half);
    }
}

struct root { double re, im; };

/* Writes the spectrum of a part of a mask, divided by M and in the order of the passes, to out; computes in double.
 * roots: [node of the tree, counted from 1] */
static void spectrum_of(const float *h, int n_taps, int log2_points, const std::vector<root> &roots,
                        std::vector<root> &z, float *out)
{
    const int M = 1 << log2_points;
    for (int i = 0; i < M; i++) z[i] = {i < n_taps ? h[i] : 0.0, i + M < n_taps ? h[i + M] : 0.0};
    for (int level = 0; level < log2_points; level++) {
        const int half = M >> (level + 1);
        for (int node = 0; node < 1 << level; node++) {
            const root c = roots[(1 << level) + node];
            root *a = &z[(size_t)node * 2 * half], *b = a + half;
            for (int i = 0; i < half; i++) {
                const double re = b[i].re * c.re - b[i].im * c.im, im = b[i].re * c.im + b[i].im * c.re;
                b[i] = {a[i].re - re, a[i].im - im};
                a[i] = {a[i].re + re, a[i].im + im};
            }
        }
    }
    for (int i = 0; i < M; i++) {
        const int row = i / ROW, k = i % ROW;
        float *to = out + ((size_t)(k / 2) * (M / ROW) + row) * 4 + k % 2 * 2;
        to[0] = (float)(z[i].re / M);
        to[1] = (float)(z[i].im / M);
    }
}

static cudaError_t make_tables(struct overlap_prepared *p)
{
    const struct overlap_shape *s = p->shape;
    const int log2_points = s->C + s->L, step = 1 << (s->L - s->a), last_step = s->C ? 1 << s->L : step;
    const float4 **tables[] = {&p->job.forward_a, &p->job.forward_b, &p->job.forward_c,
                               &p->job.back_b,    &p->job.back_a,    &p->job.back_outer};
    size_t at[6];
    std::vector<factor> all;
    at[0] = all.size(), forward_table(all, s->C, s->a);
    at[1] = all.size(), forward_table(all, s->C + s->a, s->b);
    at[2] = all.size(), forward_table(all, s->C + s->a + s->b, 4);
    at[3] = all.size(), back_table(all, ROW, s->b);
    at[4] = all.size(), back_table(all, step, s->a);
    at[5] = all.size();
    if (s->C) back_table(all, last_step, s->C);
    const size_t untwist = all.size();
    for (int i = 0; i < last_step; i++) {
        const double a = -PI * i / (2 << log2_points);
        all.push_back({(float)cos(a), (float)sin(a)}); /* not a factor: cos and sin */
    }
    cudaError_t e = cudaMalloc(&p->tables, all.size() * sizeof(factor));
    if (e == cudaSuccess) e = cudaMemcpy(p->tables, all.data(), all.size() * sizeof(factor), cudaMemcpyHostToDevice);
    for (int i = 0; i < 6; i++) *tables[i] = p->tables + at[i] / 2;
    p->job.untwist = (const float2 *)p->tables + untwist;
    return e;
}

static cudaError_t make_spectra(struct overlap_prepared *p, const struct task *task)
{
    const int log2_points = p->shape->C + p->shape->L, M = 1 << log2_points;
    std::vector<root> roots(M), z(M);
    std::vector<float> out(2 * (size_t)M);
    for (int level = 0; level < log2_points; level++)
        for (int node = 0; node < 1 << level; node++) {
            const double a = (PI / 4 + PI * reverse(node, level)) / (1 << level);
            roots[(1 << level) + node] = {cos(a), sin(a)};
        }
    p->job.spectrum_step = M / 2;
    cudaError_t e = cudaMalloc(&p->spectra, (size_t)p->n_parts * p->n_masks * M * sizeof(float2));
    for (int part = 0; part < p->n_parts && e == cudaSuccess; part++)
        for (int mask = 0; mask < p->n_masks && e == cudaSuccess; mask++) {
            const int from = part * p->part, n = task->n_taps - from < p->part ? task->n_taps - from : p->part;
            spectrum_of(task->h_host + (size_t)mask * task->n_taps + from, n, log2_points, roots, z, out.data());
            e = cudaMemcpy(p->spectra + ((size_t)part * p->n_masks + mask) * p->job.spectrum_step, out.data(),
                           out.size() * sizeof(float), cudaMemcpyHostToDevice);
        }
    return e;
}

/* The ring is as small as possible, so that it stays in the L2 cache: the tickets that a ticket depends on were
 * drawn at least as many tickets earlier as blocks run at once. */
static cudaError_t make_ring(struct overlap_prepared *p, int n_out)
{
    struct overlap_job *job = &p->job;
    const int rounds_at_once = job->ahead / (STEPS << p->shape->C);
    job->lag = rounds_at_once + 1;
    job->ring = BACK * job->lag + rounds_at_once + 2;
    job->n_listed = (int)(p->n_segments * n_out);
    cudaError_t e = cudaMalloc(&job->scratch, sizeof(float2) * job->ring << (p->shape->C + p->shape->L));
    if (e == cudaSuccess) e = cudaMalloc(&job->ticket, (1 + STEPS * (size_t)job->n_listed) * sizeof *job->ticket);
    job->done = job->ticket + 1;
    return e;
}

static void discard(void *prepared)
{
    struct overlap_prepared *p = (struct overlap_prepared *)prepared;
    if (!p) return;
    cudaFree(p->spectra);
    cudaFree(p->tables);
    cudaFree(p->job.scratch);
    cudaFree(p->job.ticket);
    free(p);
}

static cudaError_t prepare(const struct task *task, void **prepared)
{
    struct overlap_prepared *p = (struct overlap_prepared *)calloc(1, sizeof *p);
    if (!p) return cudaErrorMemoryAllocation;
    p->n_masks = task_masks(task);
    choose(task, p);
    cudaError_t e = p->shape ? make_tables(p) : cudaErrorInvalidConfiguration;
    if (e == cudaSuccess) e = make_spectra(p, task);
    if (e == cudaSuccess && p->shape->variant == RING) e = make_ring(p, task->n_out);
    if (e == cudaSuccess) e = cudaDeviceSynchronize(); /* the launch may use any stream */
    if (e != cudaSuccess) {
        discard(p);
        return e;
    }
    *prepared = p;
    return cudaSuccess;
}

static cudaError_t launch(const struct task *task, void *prepared, cudaStream_t stream)
{
    const struct overlap_prepared *p = (const struct overlap_prepared *)prepared;
    const struct overlap_shape *s = p->shape;
    struct overlap_job job = p->job;
    job.x = task->x;
    job.y = task->y;
    job.x_pitch = task->x_pitch;
    job.y_pitch = task->y_pitch;
    job.n_frames = task->n_frames;
    job.n_segments = (int)p->n_segments;
    job.in_step = task->sharing != BANK;
    job.mask_step = task->sharing != SHARED;
    job.out_first = task->sharing == BANK && p->n_segments < MAX_HIGH;
    job.drop = p->drop;
    job.n_out = task->n_out, job.masks_a_block = p->masks_a_block;
    if (job.out_first && s->variant == ALONE) job.ahead = 0; /* the next block on the grid reads the same segment */

    const unsigned n_segments = (unsigned)p->n_segments, n_out = (unsigned)task->n_out;
    const dim3 grid = s->variant == BANKED ? dim3(n_segments, (n_out + p->masks_a_block - 1) / p->masks_a_block)
                      : s->variant == RING ? dim3((unsigned)job.ahead)
                      : job.out_first      ? dim3(n_out, n_segments)
                                           : dim3(n_segments, n_out);
    const auto kernel = s->kernel;
    cudaError_t e = cudaSuccess;
    for (int part = 0; part < p->n_parts && e == cudaSuccess; part++) {
        job.add = part > 0;
        job.delay = (long)part * p->part;
        job.spectra = p->spectra + (size_t)part * p->n_masks * job.spectrum_step;
        if (s->variant == RING)
            e = cudaMemsetAsync(job.ticket, 0, (1 + STEPS * (size_t)job.n_listed) * sizeof *job.ticket, stream);
        if (e == cudaSuccess) {
            kernel<<<grid, s->threads, s->bytes, stream>>>(job);
            e = cudaGetLastError();
        }
    }
    return e;
}

extern "C" const struct rung rung_overlap_save = {
    16, "overlap-save", "transform, product and inverse in one block: 8 bytes a frame", "",
    true, accepts, prepare, launch, discard,
};
