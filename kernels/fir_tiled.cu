/* fir_tiled - one tile of T outputs a block; tile and halo in shared memory, CHUNK taps of it at a time.
 *
 *   x (ring)    ..[======= halo, CHUNK =======][======= tile, T =======]..     moves CHUNK frames back for each chunk
 *   s (shared)    0 ....................CHUNK-1 CHUNK ........... CHUNK+T-1
 *
 *   thread i owns outputs o = V i ... V i + V-1:   y[o] = sum_k h[k] s[CHUNK + o - k]
 *   window (registers)   [ 4 new | V kept ]  slides 4 frames down every 4 taps: one 16-byte load feeds 4 V FMA.
 *   With V = 12 the eight threads of a quarter warp read 16 bytes at a stride of 48: every bank once, no conflict.
 *
 * Two places for the taps, one kernel:
 *   bank     in constant memory, read through the uniform path, for masks that got a lease of the 64 KiB
 *   staged   CHUNK taps at a time in shared memory; any number of taps
 *
 * When the outputs are too few to fill the device with tiles (live audio: 64 frames, thousands of taps), fir_few splits
 * the taps instead: 16 threads take 64 outputs and one segment of one response, private to them; a block adds up its 16
 * segments, and the last block to finish an output tile adds up the blocks, in a fixed order: same input, same bits.
 * fir_few always stages its taps: each is read once a block, and 16 segments at once would thrash the constant cache.
 *
 * cost     a tile and chunk: T + CHUNK loads of x, T * CHUNK FMA.  T = 768, CHUNK = 256: 1024 loads, 196608 FMA
 * error    32 taps in one sum, 8 of those in the next, those compensated (Kahan): independent of the number of taps, also
 *          where equal products let roundings pile up (a long average of a steady level): below 1e-6 at any length
 * limits   none on taps, frames, cells; n_out up to 65535
 * ceiling  the device's FP32 FMA rate: 60.7 TFLOP/s on an H200, of which fir_tile reaches 41 (8 channels, 16384 taps)
 */
#include "fir_tiled.h"

#include <mutex>

enum {
    V = 12,              /* outputs a thread                                                              */
    TILE_THREADS = 64,
    TILE = V * TILE_THREADS,
    CHUNK = 256,         /* taps staged at once                                                           */
    LEAF = 32,           /* taps in one plain sum                                                         */
    FEW_V = 4,
    FEW_TILE = 64,       /* outputs of a group of 16 threads                                              */
    FEW_GROUPS = 16,
    FEW_THREADS = FEW_GROUPS * FEW_TILE / FEW_V,
    FEW_SEGMENT_LOG2 = 8 /* a group's segment: up to 256 taps; 16 of them with halo are 36 KiB of shared  */
};

static __constant__ float bank[FIR_BANK_TAPS];

/* LEAF taps for W outputs: acc[o] = sum_k h[k] x[o - k]. below: x[-1] lies at below[-1]. window holds x[0 .. W-1] in quads
 * 1 .. W/4 before and, LEAF frames further down, after. */
template <int W, bool IN_BANK>
__device__ static inline void leaf(float (&acc)[W], float (&window)[W / 4 + 1][4], const float *below, const float *taps,
                                   int bank_at)
{
    const int quads = W / 4 + 1;
    static_assert(LEAF / 4 % quads == 0, "the window must be back at its start after a leaf");
#pragma unroll
    for (int o = 0; o < W; o++) acc[o] = 0.0f;
#pragma unroll
    for (int step = 0; step < LEAF / 4; step++) {
        const int low = (LEAF - step) % quads; /* the quad that the new frames replace */
        float4 x = *(const float4 *)(below - 4 * step - 4);
        window[low][0] = x.x, window[low][1] = x.y, window[low][2] = x.z, window[low][3] = x.w;
        float h[4];
        if (IN_BANK) {
#pragma unroll
            for (int k = 0; k < 4; k++) h[k] = bank[bank_at + 4 * step + k];
        } else {
            float4 t = *(const float4 *)(taps + 4 * step);
            h[0] = t.x, h[1] = t.y, h[2] = t.z, h[3] = t.w;
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int o = 0; o < W; o++) {
                const int j = 4 + o - k; /* of the W + 4 frames in the window, lowest first */
                acc[o] = fmaf(h[k], window[(low + j / 4) % quads][j % 4], acc[o]);
            }
    }
}

template <int W> __device__ static inline void window_fill(float (&window)[W / 4 + 1][4], const float *x)
{
#pragma unroll
    for (int q = 0; q < W / 4; q++) {
        float4 v = ((const float4 *)x)[q];
        window[q + 1][0] = v.x, window[q + 1][1] = v.y, window[q + 1][2] = v.z, window[q + 1][3] = v.w;
    }
}

/* total += part, with what rounding takes from the total kept in lost (Kahan). */
__device__ static inline void add_kept(float &total, float &lost, float part)
{
    float y = part - lost, t = total + y;
    lost = (t - total) - y;
    total = t;
}

/* grid: tiles x n_out */
template <bool IN_BANK> static __global__ void __launch_bounds__(TILE_THREADS) fir_tile(struct fir_job job)
{
    __shared__ __align__(16) float s[CHUNK + TILE];
    __shared__ __align__(16) float taps[IN_BANK ? 4 : CHUNK];
    const int out = blockIdx.y, tile = blockIdx.x * TILE, mine = threadIdx.x * V;
    float total[V] = {}, lost[V] = {};

    for (int c = job.first[out]; c < job.first[out + 1]; c++) {
        const struct fir_cell cell = job.cells[c];
        const float *x = job.x + (size_t)cell.in * (job.ring_mask + 1);
        for (int k0 = 0; k0 < cell.n_taps; k0 += CHUNK) {
            const unsigned from = job.pos + tile - k0 - CHUNK;
            __syncthreads();
#pragma unroll 8
            for (int j = threadIdx.x; j < CHUNK + TILE; j += TILE_THREADS) s[j] = x[(from + j) & job.ring_mask];
            if (!IN_BANK)
                for (int j = threadIdx.x; j < CHUNK; j += TILE_THREADS)
                    taps[j] = k0 + j < cell.n_taps ? cell.taps[k0 + j] : 0.0f;
            __syncthreads();

            float window[V / 4 + 1][4], part[V] = {};
            window_fill<V>(window, s + CHUNK + mine);
            const int end = min(CHUNK, cell.n_taps - k0); /* the last leaf runs on over the padding */
            for (int k = 0; k < end; k += LEAF) {
                float acc[V];
                leaf<V, IN_BANK>(acc, window, s + CHUNK + mine - k, taps + (IN_BANK ? 0 : k), cell.bank + k0 + k);
#pragma unroll
                for (int o = 0; o < V; o++) part[o] += acc[o];
            }
#pragma unroll
            for (int o = 0; o < V; o++) add_kept(total[o], lost[o], part[o]);
        }
    }
    __syncthreads(); /* through shared memory, so that a warp writes whole lines */
#pragma unroll
    for (int q = 0; q < V / 4; q++)
        ((float4 *)(s + mine))[q] = make_float4(total[4 * q], total[4 * q + 1], total[4 * q + 2], total[4 * q + 3]);
    __syncthreads();
    for (int o = threadIdx.x; o < TILE && tile + o < job.n; o += TILE_THREADS)
        job.y[out * job.y_pitch + tile + o] = s[o] + (job.add ? job.add[out * job.add_pitch + tile + o] : 0.0f);
}

/* Add up rows [n][FEW_TILE] of device memory: row r by quarter r % 4 of the block, then the quarters. The sums end in the
 * first FEW_TILE threads. quarters: [FEW_THREADS], shared. */
__device__ static inline float sum_rows(const float *rows, int n, float *quarters)
{
    const int o = threadIdx.x % FEW_TILE;
    float sum = 0.0f;
    for (int r = threadIdx.x / FEW_TILE; r < n; r += FEW_THREADS / FEW_TILE) sum += __ldcg(rows + r * FEW_TILE + o);
    quarters[threadIdx.x] = sum;
    __syncthreads();
    return (quarters[o] + quarters[o + FEW_TILE]) + (quarters[o + 2 * FEW_TILE] + quarters[o + 3 * FEW_TILE]);
}

/* grid: tiles x n_out x splits. Segment i of an output goes to group i % 16 of split i / 16 % splits. scratch: the sums of
 * the blocks [tile and out][split][FEW_TILE], then a counter for each tile and out, 0 between launches. */
static __global__ void __launch_bounds__(FEW_THREADS) fir_few(struct fir_job job, int segment_log2, int rounds)
{
    extern __shared__ __align__(16) float shared[];
    const int segment = 1 << segment_log2, out = blockIdx.y, tile = blockIdx.x * FEW_TILE;
    const int group = threadIdx.x / 16, lane = threadIdx.x % 16;
    float *x = shared + group * (FEW_TILE + 2 * segment), *taps = x + FEW_TILE + segment;
    float total[FEW_V] = {}, lost[FEW_V] = {};
    int c = job.first[out], skip = blockIdx.z * FEW_GROUPS + group; /* segments still to pass over */
    const int c_end = job.first[out + 1];

    for (int round = 0; round < rounds; round++, skip += gridDim.z * FEW_GROUPS) {
        while (c < c_end) { /* skip counts from the first segment of cell c */
            int n = (job.cells[c].n_taps + segment - 1) >> segment_log2;
            if (skip < n) break;
            skip -= n;
            c++;
        }
        int end = 0;
        __syncwarp();
        if (c < c_end) {
            const struct fir_cell cell = job.cells[c];
            const float *ring = job.x + (size_t)cell.in * (job.ring_mask + 1);
            const int k0 = skip << segment_log2;
            const unsigned from = job.pos + tile - k0 - segment;
            end = min(segment, cell.n_taps - k0);
#pragma unroll 8
            for (int j = lane; j < FEW_TILE + segment; j += 16) x[j] = ring[(from + j) & job.ring_mask];
#pragma unroll 4
            for (int j = 4 * lane; j < segment; j += 64)
                *(float4 *)(taps + j) =
                    j < end ? *(const float4 *)(cell.taps + k0 + j) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        __syncwarp();
        float window[FEW_V / 4 + 1][4], part[FEW_V] = {};
        window_fill<FEW_V>(window, x + segment + FEW_V * lane);
        for (int k = 0; k < end; k += LEAF) {
            float acc[FEW_V];
            leaf<FEW_V, false>(acc, window, x + segment + FEW_V * lane - k, taps + k, 0);
#pragma unroll
            for (int o = 0; o < FEW_V; o++) part[o] += acc[o];
        }
#pragma unroll
        for (int o = 0; o < FEW_V; o++) add_kept(total[o], lost[o], part[o]);
    }

    __syncthreads();
    float *sums = shared; /* [FEW_GROUPS][FEW_TILE] */
    *(float4 *)(sums + group * FEW_TILE + FEW_V * lane) = make_float4(total[0], total[1], total[2], total[3]);
    __syncthreads();
    const int o = threadIdx.x, splits = gridDim.z, tiles = gridDim.x, at = out * tiles + blockIdx.x;
    float sum = 0.0f;
    if (o < FEW_TILE) {
        float q[4] = {};
#pragma unroll
        for (int g = 0; g < FEW_GROUPS; g++) q[g % 4] += sums[g * FEW_TILE + o];
        sum = (q[0] + q[1]) + (q[2] + q[3]);
    }
    if (splits > 1) {
        __shared__ bool last;
        float *blocks = (float *)job.scratch + (size_t)at * splits * FEW_TILE;
        unsigned *arrived = (unsigned *)((float *)job.scratch + (size_t)job.n_sm * FEW_TILE) + at;
        if (o < FEW_TILE) __stcg(blocks + blockIdx.z * FEW_TILE + o, sum);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicInc(arrived, splits - 1) == (unsigned)splits - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        sum = sum_rows(blocks, splits, sums);
    }
    if (o < FEW_TILE && tile + o < job.n)
        job.y[out * job.y_pitch + tile + o] = sum + (job.add ? job.add[out * job.add_pitch + tile + o] : 0.0f);
}

size_t fir_scratch_bytes(int n_sm) { return (size_t)n_sm * (FEW_TILE * sizeof(float) + sizeof(unsigned)); }

cudaError_t fir_launch(const struct fir_job *job, cudaStream_t stream)
{
    const int tiles = (job->n + TILE - 1) / TILE;
    if ((long)tiles * job->n_out >= 2L * job->n_sm) {
        dim3 grid(tiles, job->n_out);
        if (job->in_bank) fir_tile<true><<<grid, TILE_THREADS, 0, stream>>>(*job);
        else fir_tile<false><<<grid, TILE_THREADS, 0, stream>>>(*job);
        return cudaGetLastError();
    }
    /* As many splits as leave every block a multiprocessor of its own, and segments short enough to use them. */
    dim3 grid((job->n + FEW_TILE - 1) / FEW_TILE, job->n_out);
    int most_splits = (int)(job->n_sm / ((long)grid.x * grid.y));
    if (most_splits < 1) most_splits = 1;
    int log2 = 5;
    while (log2 < FEW_SEGMENT_LOG2 && job->most_taps > (long)most_splits * FEW_GROUPS << log2) log2++;
    int segments = (job->most_taps >> log2) + job->most_cells; /* at least as many as there are */
    int splits = (segments + FEW_GROUPS - 1) / FEW_GROUPS;
    if (splits > most_splits) splits = most_splits;
    if (splits < 1) splits = 1;
    grid.z = splits;
    int rounds = (segments + splits * FEW_GROUPS - 1) / (splits * FEW_GROUPS);
    size_t shared = FEW_GROUPS * (FEW_TILE + (2u << log2)) * sizeof(float);
    fir_few<<<grid, FEW_THREADS, shared, stream>>>(*job, log2, rounds);
    return cudaGetLastError();
}

cudaError_t fir_load_kernels(void)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaFuncGetAttributes(&a, fir_tile<true>);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, fir_tile<false>);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, fir_few);
    return e;
}

/* ---- the constant bank ---------------------------------------------------------------------------------------------
 * First fit over pieces of FIR_PAD taps: 256 bytes, so that no line of a constant cache holds taps of two masks. */
enum { MOST_DEVICES = 64, PIECES = FIR_BANK_TAPS / FIR_PAD };
static std::mutex bank_lock;
static bool leased[MOST_DEVICES][PIECES];

int fir_bank_lease(int device, int n)
{
    const int want = (n + FIR_PAD - 1) / FIR_PAD;
    if (device >= MOST_DEVICES || n < 1 || want > PIECES) return -1;
    std::lock_guard<std::mutex> hold(bank_lock);
    for (int i = 0, run = 0; i < PIECES; i++) {
        run = leased[device][i] ? 0 : run + 1;
        if (run < want) continue;
        for (int j = i - want + 1; j <= i; j++) leased[device][j] = true;
        return (i - want + 1) * FIR_PAD;
    }
    return -1;
}

void fir_bank_return(int device, int offset, int n)
{
    std::lock_guard<std::mutex> hold(bank_lock);
    for (int i = 0; i < (n + FIR_PAD - 1) / FIR_PAD; i++) leased[device][offset / FIR_PAD + i] = false;
}

cudaError_t fir_bank_write(int offset, const float *taps, int n, cudaStream_t stream)
{
    return cudaMemcpyToSymbolAsync(bank, taps, n * sizeof(float), offset * sizeof(float), cudaMemcpyDeviceToDevice,
                                   stream);
}
