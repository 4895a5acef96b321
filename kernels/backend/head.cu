/* head - a matrix of short FIR filters. A block computes 64 frames of four outputs, a stage of eight pieces at a time.
 *
 *   piece   one input, 64 taps:  x (shared) [== 64 before ==|== 64 frames ==]    h (shared) [4 outputs][64 taps]
 *   thread  8 frames of all 4 outputs, 16 taps of a piece: 32 groups of 8 threads share the quarters of the 8 pieces.
 *           Every 8 taps, 2 loads of 16 bytes of x and 8 of h (the same for 8 threads) feed 256 FMA
 *   sums    the 32 groups are added up through shared memory. With few outputs, several blocks divide the stages among
 *           themselves, and the block that finishes last adds up their sums. The order is always the same: same
 *           input, same bits
 *
 * While a stage is computed, the next one is loaded into registers. The output of the tail levels is added last.
 *
 * cost     a stage: 3072 loads (12 a thread), 131072 FMA (512 a thread)
 * error    256 taps in one sum, then the sums of the 32 groups, then stages 16 at a time
 * limits   none on inputs, outputs, taps, frames
 * ceiling  the device's FP32 FMA rate: 28 of an H200's 60.7 TFLOP/s for 512 x 512, 64 taps, 64 frames (77 us); few
 *          channels: launch and latency
 */
#include "head.h"

#include "head_sparse.h"
#include "kernels_load.h"

enum {
    TILE = 64,
    V = 8,                               /* frames a thread                                                      */
    PIECES = 8,                          /* pieces of a stage                                                    */
    THREADS = 256,
    GROUPS = THREADS / (TILE / V),       /* groups of threads, 32; each group computes the 64 frames             */
    QUARTER = PIECES * HEAD_CHUNK / GROUPS, /* taps of a thread in a stage: 16                                   */
    SPAN = HEAD_CHUNK + TILE,            /* frames of x that a piece needs                                       */
    ROW = SPAN + SPAN / 32 * 4,          /* 4 floats of padding after 32: no bank conflicts at a stride of 32    */
    LEAF = 16                            /* stages in one plain sum                                              */
};
static_assert(GROUPS == 4 * PIECES, "a thread has a quarter of a piece");

__device__ static inline int padded(int i) { return i + i / 32 * 4; }

struct piece {
    const float *x;                      /* the input's ring; NULL: no piece                                     */
    const float *taps[HEAD_OUTS];        /* NULL = no response                                                   */
    int back;                            /* the delay of the piece's first tap in frames                         */
};

/* Finds the pieces of LEAF stages, from piece0 on, of a group of outputs. Piece i is chunk i % n_chunks of term
 * i / n_chunks of the group, whose first term is first_term. */
__device__ static inline void pieces_load(struct piece *pieces, const struct head_job &job, int first_term,
                                          int n_pieces, int piece0)
{
    for (int i = threadIdx.x; i < LEAF * PIECES; i += THREADS) {
        struct piece piece = {};
        if (piece0 + i < n_pieces) {
            const struct head_terms *terms = job.terms + first_term + (piece0 + i) / job.n_chunks;
            piece.back = (piece0 + i) % job.n_chunks * HEAD_CHUNK;
            piece.x = job.x + terms->in * ((size_t)job.ring_mask + 1);
#pragma unroll
            for (int o = 0; o < HEAD_OUTS; o++) piece.taps[o] = terms->taps[o] ? terms->taps[o] + piece.back : NULL;
        }
        pieces[i] = piece;
    }
    __syncthreads();
}

struct stage { /* a thread's share of a stage, in registers, between global and shared memory */
    float x[PIECES * SPAN / THREADS];
    float4 h[PIECES * HEAD_OUTS * HEAD_CHUNK / 4 / THREADS];
};

__device__ static inline void stage_load(struct stage &stage, const struct head_job &job, const struct piece *pieces)
{
    const unsigned from = job.pos + blockIdx.x * TILE - HEAD_CHUNK;
#pragma unroll
    for (int u = 0; u < PIECES * SPAN / THREADS; u++) {
        const int i = threadIdx.x + u * THREADS;
        const struct piece *piece = pieces + i / SPAN;
        stage.x[u] = piece->x ? piece->x[(from - piece->back + i % SPAN) & job.ring_mask] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < PIECES * HEAD_OUTS * HEAD_CHUNK / 4 / THREADS; u++) {
        const int i = threadIdx.x + u * THREADS, row = i / (HEAD_CHUNK / 4);
        const float *taps = pieces[row / HEAD_OUTS].taps[row % HEAD_OUTS];
        stage.h[u] = taps ? *(const float4 *)(taps + 4 * (i % (HEAD_CHUNK / 4))) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

__device__ static inline void stage_store(const struct stage &stage, float *x, float *h)
{
#pragma unroll
    for (int u = 0; u < PIECES * SPAN / THREADS; u++) {
        const int i = threadIdx.x + u * THREADS;
        x[i / SPAN * ROW + padded(i % SPAN)] = stage.x[u];
    }
#pragma unroll
    for (int u = 0; u < PIECES * HEAD_OUTS * HEAD_CHUNK / 4 / THREADS; u++)
        *(float4 *)(h + 4 * (threadIdx.x + u * THREADS)) = stage.h[u];
}

__device__ static inline void load8(float *to, const float *from)
{
    const float4 a = *(const float4 *)from, b = *(const float4 *)(from + 4);
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w, to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

/* sum[o][i] += sum over this thread's 16 taps k of h[o][k] x[i - k]. x: the piece's row; at: the index in x of the
 * frame that the first tap multiplies for i = 0; h: the taps of output 0. */
__device__ static inline void head_stage_compute(float (&sum)[HEAD_OUTS][V], const float *x, int at, const float *h)
{
    float window[2 * V]; /* x[at - 8 ... at + 7] */
    load8(window + V, x + padded(at));
#pragma unroll
    for (int step = 0; step < QUARTER / V; step++) {
        load8(window, x + padded(at - V * (step + 1)));
#pragma unroll
        for (int o = 0; o < HEAD_OUTS; o++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float4 t = *(const float4 *)(h + o * HEAD_CHUNK + V * step + 4 * half);
                const float taps[4] = {t.x, t.y, t.z, t.w};
#pragma unroll
                for (int k = 0; k < 4; k++)
#pragma unroll
                    for (int i = 0; i < V; i++)
                        sum[o][i] = fmaf(taps[k], window[V + i - 4 * half - k], sum[o][i]);
            }
#pragma unroll
        for (int i = 0; i < V; i++) window[V + i] = window[i];
    }
}

/* Adds the 32 groups up. Thread t returns output t / 64, frame t % 64. shared: [GROUPS][HEAD_OUTS][TILE] */
__device__ static inline float groups_sum(float (&sum)[HEAD_OUTS][V], float *shared)
{
    const int lane = threadIdx.x % (TILE / V), group = threadIdx.x / (TILE / V);
    __syncthreads();
#pragma unroll
    for (int o = 0; o < HEAD_OUTS; o++) {
        float4 *to = (float4 *)(shared + (group * HEAD_OUTS + o) * TILE + V * lane);
        to[0] = make_float4(sum[o][0], sum[o][1], sum[o][2], sum[o][3]);
        to[1] = make_float4(sum[o][4], sum[o][5], sum[o][6], sum[o][7]);
#pragma unroll
        for (int i = 0; i < V; i++) sum[o][i] = 0.0f;
    }
    __syncthreads();
    float q[4] = {};
#pragma unroll
    for (int g = 0; g < GROUPS; g++) q[g % 4] += shared[g * HEAD_OUTS * TILE + threadIdx.x];
    __syncthreads();
    return (q[0] + q[1]) + (q[2] + q[3]);
}

/* grid: tiles x groups of outputs x splits. scratch: the sums of the blocks, [n_blocks][THREADS], then a counter for
 * each group and tile, 0 between launches. */
static __global__ void __launch_bounds__(THREADS, 2) head_fir(const __grid_constant__ struct head_job job)
{
    __shared__ __align__(16) float shared[GROUPS * HEAD_OUTS * TILE]; /* 32 KiB: x and h, or the groups' sums */
    __shared__ struct piece pieces[LEAF * PIECES];
    float *x = shared, *h = shared + PIECES * ROW;
    const int group = job.first_group + blockIdx.y, first_term = job.first_term[group];
    const int n_pieces = (job.first_term[group + 1] - first_term) * job.n_chunks;
    const int n_stages = (n_pieces + PIECES - 1) / PIECES;
    const int share = (n_stages + gridDim.z - 1) / gridDim.z, end = min(n_stages, share * ((int)blockIdx.z + 1));
    const int lane = threadIdx.x % (TILE / V), thread_group = threadIdx.x / (TILE / V);
    const int piece = thread_group / 4, tap = thread_group % 4 * QUARTER;
    float sum[HEAD_OUTS][V] = {}, total = 0.0f;
    struct stage stage;

    for (int s = share * blockIdx.z; s < end; s += LEAF) {
        const int n = min(LEAF, end - s);
        pieces_load(pieces, job, first_term, n_pieces, s * PIECES);
        stage_load(stage, job, pieces);
        for (int i = 0; i < n; i++) {
            __syncthreads();
            stage_store(stage, x, h);
            __syncthreads();
            if (i + 1 < n) stage_load(stage, job, pieces + (i + 1) * PIECES);
            head_stage_compute(sum, x + piece * ROW, HEAD_CHUNK + V * lane - tap,
                               h + piece * HEAD_OUTS * HEAD_CHUNK + tap);
        }
        total += groups_sum(sum, shared);
    }

    const int splits = gridDim.z;
    if (splits > 1) {
        __shared__ bool last;
        const int at = blockIdx.y * gridDim.x + blockIdx.x;
        float *blocks = (float *)job.scratch + (size_t)at * splits * THREADS;
        unsigned *arrived = (unsigned *)((float *)job.scratch + (size_t)4 * job.n_sm * THREADS) + at;
        __stcg(blocks + blockIdx.z * THREADS + threadIdx.x, total);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicInc(arrived, splits - 1) == (unsigned)splits - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        total = 0.0f;
        for (int i = 0; i < splits; i++) total += __ldcg(blocks + i * THREADS + threadIdx.x);
    }
    const int out = group * HEAD_OUTS + threadIdx.x / TILE, frame = blockIdx.x * TILE + threadIdx.x % TILE;
    if (out >= job.n_out || frame >= job.n) return;
    float due = 0.0f;
    for (int i = 0; i < job.n_due; i++) {
        const unsigned ring_mask = job.due[i].ring_mask;
        due += job.due[i].frames[out * ((size_t)ring_mask + 1) + ((job.due[i].at + frame) & ring_mask)];
    }
    job.y[out * job.y_pitch + frame] = total + due;
}

size_t head_scratch_bytes(int n_sm) { return (size_t)4 * n_sm * (THREADS * sizeof(float) + sizeof(unsigned)); }

bool head_is_sparse(size_t n_cells, size_t n_terms, int n_out, int n_sm)
{
    return n_out >= 2 * n_sm * HEAD_OUTS && 2 * n_cells <= HEAD_OUTS * n_terms;
}

cudaError_t head_launch(const struct head_job *job, cudaStream_t stream)
{
    if (job->cells) return head_sparse_launch(job, stream);
    const int tiles = (job->n + TILE - 1) / TILE, groups = job->n_groups;
    const long stages = ((long)job->max_terms * job->n_chunks + PIECES - 1) / PIECES, blocks = (long)tiles * groups;
    long splits = 2L * job->n_sm / blocks; /* two blocks a multiprocessor */
    if (splits > stages) splits = stages;
    if (splits < 1) splits = 1;
    head_fir<<<dim3(tiles, groups, (unsigned)splits), THREADS, 0, stream>>>(*job);
    return cudaGetLastError();
}

cudaError_t head_load(void)
{
    const cudaError_t e = kernels_load(head_fir);
    return e == cudaSuccess ? head_sparse_load() : e;
}
