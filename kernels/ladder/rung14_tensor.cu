/* rung 14, tensor - the mask as Toeplitz blocks on the tensor cores, every operand split in two fp16 parts.
 *
 *   The outputs of a tile are a matrix, ROWS = 64 frames a column:   Y[m][n] = y[64 n + m] = sum_j T[m][j] X[j][n]
 *
 *        j ->                           n ->                     X[j][n] = x[64 n + j - 16 q_first]: columns overlap,
 *     m  [ q   q-1 q-2 .. ]          j  [ | | | | ]              so X is the signal itself, in rows of 64 in shared
 *     |  [ q+1 q   q-1 .. ]          |  [ | | | | ]              memory, read by ldmatrix at any j
 *     v  [ q+2 q+1 q   .. ]  16x16   v  [ | | | | ]  16x8
 *
 *   T[m][j] = h[m - j + ..]: a 16 x 16 block depends on its diagonal q alone, so a step of 16 taps loads ONE new block
 *   of T and the other three slide down by one row of blocks in registers. A warp holds 64 x 16 outputs: a step is 4 x
 *   2 blocks times 3 products = 24 mma for 2 + 2 loads of 16 bytes.
 *
 *   v = hi + lo, both fp16 (22 bits of v), scaled by a power of two so that the largest value is near 2^15 and lo stays
 *   out of the denormals: x a tile, h a mask.   x h = hi hi + hi lo + lo hi; lo lo is below fp32's last bit.
 *
 * Speed: 4 x 2 blocks a warp and 16 warps a multiprocessor, instead of 4 x 4 and 8, give 2.0 instead of 1.5 times the
 * FMA rate at 512 taps, because the start of one tile overlaps the work on others. The tile's first frames stay in
 * registers between the search for the peak and the split (2.0 -> 2.15).
 *
 * cost     a tile: 3 (n_taps + 64) TILE products.  n_taps = 512: 36 steps, each 24 mma a warp
 * error    the tensor cores cut off where fp32 rounds: sums of LEAF steps (128 taps) in them, then added up in fp32.
 *          6e-7 of the peak and 124 to 128 dB on noise; in one sum of 512 taps 2e-6 and 116 dB
 * limits   compute capability 8.0 and up; needs 528 tiles of 4096 frames to fill an H200; none on |x| and |h|, which
 *          are scaled for each tile
 * ceiling  a third of the fp16 rate of mma.sync (about 580 TFLOP/s of the 990 of wgmma) * n_taps / (n_taps + 64)
 */
#include "rung.cuh"

#include <cuda_fp16.h>
#include <math.h>
#include <new>
#include <stdint.h>
#include <string.h>

enum {
    BLOCK = 16,                         /* side of a Toeplitz block: the taps of a step                               */
    SLIDE = 4,                          /* blocks on top of each other: they slide down, one new at the top           */
    ROWS = SLIDE * BLOCK,               /* outputs in a column                                                        */
    COLS = 2,                           /* column groups (8 columns) a warp                                           */
    WARPS = 4,
    THREADS = 32 * WARPS,
    COLUMNS = 8 * COLS * WARPS,
    TILE = ROWS * COLUMNS,
    STEPS = 16,                         /* of a chunk: staged at once; a multiple of SLIDE                            */
    CHUNK = STEPS * BLOCK,
    AHEAD = TILE - ROWS + CHUNK,        /* frames that the first chunk reads                                          */
    MINE = (AHEAD + 4 * THREADS - 1) / (4 * THREADS),
    LEAF = 8,                           /* steps in one sum of the tensor cores, which cut off instead of rounding    */
    LINES = COLUMNS + 2 * CHUNK / ROWS, /* the ring of inputs, in lines of ROWS frames                                */
    LINE = ROWS + 8,                    /* halves a line: 16 bytes apart: the 8 lines of an ldmatrix miss each other  */
    OUT_LINE = ROWS + 4                 /* floats a column on its way out: no bank conflicts                          */
};

struct fragment {                    /* hi or lo of a block of T, as the lanes of mma.m16n8k16 hold it               */
    uint4 lane[32];
};

struct toeplitz {
    struct fragment hi, lo;
};

struct shared {
    struct toeplitz blocks[2][STEPS];
    union {
        struct {
            __half hi[LINES][LINE], lo[LINES][LINE];
        } ring;
        float out[COLUMNS][OUT_LINE];
    };
    float peak[WARPS];
};

struct tensor_job {
    const float *x;
    float *y;
    const struct toeplitz *blocks;   /* [masks][n_steps]: diagonal q = n_steps - SLIDE - step                         */
    const float *unscale;            /* [masks]: 1 / the scale of the mask                                            */
    long n_frames, x_step, y_pitch;  /* x_step: 0 for one input                                                       */
    int n_steps, n_out;              /* n_steps: a multiple of SLIDE                                                  */
    bool shared_mask;
};

#if __CUDA_ARCH__ >= 800
__device__ static inline uint32_t address_of(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ static inline void copy16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address_of(to)), "l"(from) : "memory");
}

__device__ static inline void mma(float (&d)[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/* Loads four 8x8 matrices. `line`, in lanes 8 i ... 8 i + 7: the addresses of the lines of matrix i. */
__device__ static inline void load_matrices(uint32_t (&m)[4], uint32_t line)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(line)
                 : "memory");
}

/* Four frames from f on; those before frame 0 or past the end are 0. f is a multiple of 4. */
__device__ static inline float4 frames4(const float *x, long f, long n_frames)
{
    if (f >= 0 && f + 4 <= n_frames) return *(const float4 *)(x + f);
    const long left = f < 0 ? 0 : n_frames - f;
    return make_float4(left > 0 ? x[f] : 0.0f, left > 1 ? x[f + 1] : 0.0f, left > 2 ? x[f + 2] : 0.0f, 0.0f);
}

__device__ static inline float peak_of(float4 v)
{
    return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

/* Splits v into hi and lo and stores them at frame j of the ring. */
__device__ static inline void put4(struct shared &s, int j, float4 v, float scale)
{
    const float2 in[2] = {{v.x * scale, v.y * scale}, {v.z * scale, v.w * scale}};
    __half2 hi[2], lo[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        hi[i] = __floats2half2_rn(in[i].x, in[i].y);
        const float2 got = __half22float2(hi[i]);
        lo[i] = __floats2half2_rn(in[i].x - got.x, in[i].y - got.y);
    }
    *(uint2 *)&s.ring.hi[j / ROWS][j % ROWS] = *(const uint2 *)hi;
    *(uint2 *)&s.ring.lo[j / ROWS][j % ROWS] = *(const uint2 *)lo;
}

/* The power of two that brings peak to [2^14, 2^15); 1 for silence, Inf and NaN. */
__device__ static inline float scale_for(float peak)
{
    const int exponent = (int)(__float_as_uint(peak) >> 23) - 127;
    if (!(peak > 0.0f) || exponent > 127) return 1.0f;
    return __uint_as_float((uint32_t)(127 + min(14 - exponent, 100)) << 23);
}

/* Copies the blocks of chunk c to buffer c % 2, in the background. */
__device__ static inline void stage_blocks(struct shared &s, const struct toeplitz *blocks, int c, int n_steps)
{
    const int n = min(STEPS, n_steps - c * STEPS) * (int)(sizeof(struct toeplitz) / 16);
    const uint4 *from = (const uint4 *)(blocks + c * STEPS);
    uint4 *to = (uint4 *)s.blocks[c % 2];
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += THREADS) copy16(to + i, from + i);
}
#endif

static __global__ void __launch_bounds__(THREADS, 4) fir_tensor(const __grid_constant__ struct tensor_job job)
{
#if __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) unsigned char raw[];
    struct shared &s = *(struct shared *)raw;
    const int tile = (int)blockIdx.x / job.n_out, out = (int)blockIdx.x % job.n_out, mask = job.shared_mask ? 0 : out;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int n_chunks = (job.n_steps + STEPS - 1) / STEPS;
    const struct toeplitz *blocks = job.blocks + (long)mask * job.n_steps;
    const float *x = job.x + out * job.x_step;
    /* Frame j of the tile's input is x[first + j]. */
    const long first = (long)tile * TILE - (job.n_steps - SLIDE) * (long)BLOCK;

    stage_blocks(s, blocks, 0, job.n_steps);
    float4 ahead[MINE];
#pragma unroll
    for (int i = 0; i < MINE; i++) ahead[i] = frames4(x, first + 4 * (int)threadIdx.x + 4 * THREADS * i, job.n_frames);
    float peak = 0.0f;
#pragma unroll
    for (int i = 0; i < MINE; i++) peak = fmaxf(peak, peak_of(ahead[i]));
    const int span = TILE - ROWS + job.n_steps * BLOCK;
#pragma unroll 4
    for (int j = 4 * (threadIdx.x + THREADS * MINE); j < span; j += 4 * THREADS)
        peak = fmaxf(peak, peak_of(frames4(x, first + j, job.n_frames)));
#pragma unroll
    for (int i = 16; i > 0; i /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, i));
    if (lane == 0) s.peak[warp] = peak;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARPS; i++) peak = fmaxf(peak, s.peak[i]);
    const float scale = scale_for(peak);
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int j = 4 * (threadIdx.x + THREADS * i);
        if (j < AHEAD) put4(s, j, ahead[i], scale);
    }
    int staged = AHEAD; /* frames that are in the ring or were */

    /* ldmatrix: hi at j ... j + 7, hi at j + 8 ..., lo at j ..., lo at j + 8 ...; lines are columns */
    const uint32_t ring = address_of(lane < 16 ? s.ring.hi : s.ring.lo) + (lane / 8 % 2) * 8 * (uint32_t)sizeof(__half);
    int line = warp * 8 * COLS + lane % 8;
    float total[SLIDE][COLS][4] = {}, sum[SLIDE][COLS][4] = {};
    uint4 hi[SLIDE] = {}, lo[SLIDE] = {};
    const float unscale = job.unscale[mask] / scale;

    for (int c = 0; c < n_chunks; c++) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads(); /* this chunk is there, and all are done with the one before it */
        const bool more = c + 1 < n_chunks, mine = more && threadIdx.x < CHUNK / 4;
        float4 next = {};
        if (more) stage_blocks(s, blocks, c + 1, job.n_steps);
        if (mine) next = frames4(x, first + staged + 4 * threadIdx.x, job.n_frames);

        const int end = min(STEPS, job.n_steps - c * STEPS);
#pragma unroll 1
        for (int step = 0; step < end; step += SLIDE) {
            uint32_t at[COLS];
#pragma unroll
            for (int col = 0; col < COLS; col++) {
                const int l = line + 8 * col;
                at[col] = ring + (l < LINES ? l : l - LINES) * (LINE * (uint32_t)sizeof(__half));
            }
#pragma unroll
            for (int i = 0; i < SLIDE; i++) {
                hi[i] = s.blocks[c % 2][step + i].hi.lane[lane];
                lo[i] = s.blocks[c % 2][step + i].lo.lane[lane];
#pragma unroll
                for (int col = 0; col < COLS; col++) {
                    uint32_t b[4];
                    load_matrices(b, at[col] + i * BLOCK * (uint32_t)sizeof(__half));
#pragma unroll
                    for (int row = 0; row < SLIDE; row++) mma(sum[row][col], lo[(i - row + SLIDE) % SLIDE], b[0], b[1]);
#pragma unroll
                    for (int row = 0; row < SLIDE; row++) mma(sum[row][col], hi[(i - row + SLIDE) % SLIDE], b[2], b[3]);
#pragma unroll
                    for (int row = 0; row < SLIDE; row++) mma(sum[row][col], hi[(i - row + SLIDE) % SLIDE], b[0], b[1]);
                }
            }
            if (++line >= LINES) line -= LINES;
            if (step % LEAF == LEAF - SLIDE || step + SLIDE >= end)
#pragma unroll
                for (int i = 0; i < SLIDE * COLS * 4; i++) {
                    float &part = sum[i / (4 * COLS)][i / 4 % COLS][i % 4];
                    total[i / (4 * COLS)][i / 4 % COLS][i % 4] += part;
                    part = 0.0f;
                }
        }

        if (mine) put4(s, (staged + 4 * (int)threadIdx.x) % (LINES * ROWS), next, scale);
        staged += CHUNK;
    }

    __syncthreads();
#pragma unroll
    for (int i = 0; i < SLIDE * COLS * 4; i++) { /* lane l holds rows l / 4 and + 8, columns l % 4 * 2 and + 1 */
        const int row = i / (4 * COLS), col = i / 4 % COLS, e = i % 4;
        s.out[warp * 8 * COLS + 8 * col + lane % 4 * 2 + e % 2][row * BLOCK + lane / 4 + e / 2 * 8] =
            total[row][col][e] * unscale;
    }
    __syncthreads();
    float *y = job.y + out * job.y_pitch;
#pragma unroll 4
    for (int j = 4 * threadIdx.x; j < TILE; j += 4 * THREADS) {
        const long f = (long)tile * TILE + j;
        const float *v = &s.out[j / ROWS][j % ROWS];
        if (f + 4 <= job.n_frames) *(float4 *)(y + f) = *(const float4 *)v;
        else
            for (int i = 0; i < 4; i++)
                if (f + i < job.n_frames) y[f + i] = v[i];
    }
#endif
}

/* ---- the rung ---------------------------------------------------------------------------------------------------- */

struct tensor_prepared {
    struct toeplitz *blocks;
    float *unscale;
    int n_steps;
};

static bool accepts(const struct task *task)
{
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return false;
    return major >= 8 && task->n_taps >= 1 && task->n_frames >= 1;
}

static void discard(void *opaque)
{
    struct tensor_prepared *p = (struct tensor_prepared *)opaque;
    if (!p) return;
    cudaFree(p->blocks);
    cudaFree(p->unscale);
    delete p;
}

/* Fills the block of diagonal q, whose element (m, k) is h[16 q + m - k]. Lane 4 g + t / 2 holds rows g and g + 8 of
 * columns t and t + 1, then of columns t + 8 and t + 9. */
static void block_fill(struct toeplitz *b, const float *h, int n_taps, int q, float scale)
{
    for (int lane = 0; lane < 32; lane++) {
        __half hi[8], lo[8];
        for (int e = 0; e < 8; e++) {
            const int m = lane / 4 + e / 2 % 2 * 8, k = lane % 4 * 2 + e % 2 + e / 4 * 8, tap = BLOCK * q + m - k;
            const float v = tap >= 0 && tap < n_taps ? h[tap] * scale : 0.0f;
            hi[e] = __float2half_rn(v);
            lo[e] = __float2half_rn(v - __half2float(hi[e]));
        }
        memcpy(&b->hi.lane[lane], hi, sizeof hi);
        memcpy(&b->lo.lane[lane], lo, sizeof lo);
    }
}

static cudaError_t prepare(const struct task *task, void **opaque)
{
    const int n_masks = task_masks(task);
    struct tensor_prepared *p = new (std::nothrow) tensor_prepared();
    if (!p) return cudaErrorMemoryAllocation;
    const int diagonals = (task->n_taps - 1 + BLOCK - 1) / BLOCK; /* after diagonal 0 */
    p->n_steps = (diagonals + SLIDE - 1) / SLIDE * SLIDE + SLIDE;
    const size_t bytes = p->n_steps * sizeof(struct toeplitz);
    struct toeplitz *blocks = new (std::nothrow) struct toeplitz[p->n_steps];
    cudaError_t e = blocks ? cudaSuccess : cudaErrorMemoryAllocation;
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(fir_tensor, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(struct shared));
    if (e == cudaSuccess) e = cudaMalloc(&p->blocks, n_masks * bytes);
    if (e == cudaSuccess) e = cudaMalloc(&p->unscale, n_masks * sizeof(float));
    for (int mask = 0; mask < n_masks && e == cudaSuccess; mask++) {
        const float *h = task->h_host + (size_t)mask * task->n_taps;
        float peak = 0.0f;
        for (int k = 0; k < task->n_taps; k++) peak = fmaxf(peak, fabsf(h[k]));
        int exponent = 0;
        if (peak > 0.0f && isfinite(peak)) frexpf(peak, &exponent); /* peak < 2^exponent */
        const float scale = ldexpf(1.0f, fminf(15 - exponent, 100)), unscale = 1.0f / scale;
        for (int step = 0; step < p->n_steps; step++)
            block_fill(&blocks[step], h, task->n_taps, p->n_steps - SLIDE - step, scale);
        e = cudaMemcpy((char *)p->blocks + mask * bytes, blocks, bytes, cudaMemcpyHostToDevice);
        if (e == cudaSuccess) e = cudaMemcpy(p->unscale + mask, &unscale, sizeof unscale, cudaMemcpyHostToDevice);
    }
    delete[] blocks;
    if (e == cudaSuccess) e = cudaDeviceSynchronize(); /* the launch may use any stream */
    if (e != cudaSuccess) {
        discard(p);
        return e;
    }
    *opaque = p;
    return cudaSuccess;
}

static cudaError_t launch(const struct task *task, void *opaque, cudaStream_t stream)
{
    const struct tensor_prepared *p = (const struct tensor_prepared *)opaque;
    struct tensor_job job = {};
    job.x = task->x, job.y = task->y;
    job.blocks = p->blocks, job.unscale = p->unscale;
    job.n_frames = task->n_frames, job.y_pitch = task->y_pitch;
    job.x_step = task->sharing == BANK ? 0 : task->x_pitch;
    job.n_steps = p->n_steps, job.n_out = task->n_out;
    job.shared_mask = task->sharing == SHARED;
    const long n_blocks = (task->n_frames + TILE - 1) / TILE * task->n_out;
    fir_tensor<<<(unsigned)n_blocks, THREADS, sizeof(struct shared), stream>>>(job);
    return cudaGetLastError();
}

extern "C" const struct rung rung_tensor;
const struct rung rung_tensor = {14, "tensor", "Toeplitz blocks on the tensor cores, fp16 in two parts", "",
                                 true, accepts, prepare, launch, discard};
