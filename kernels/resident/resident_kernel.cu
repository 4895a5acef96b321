/* resident_kernel - the workers of the resident kernel: FIR of some outputs of an engine, in the time domain.
 *
 *   unit     4 taps of one cell and 8 frames of one output: 4 loads of 16 bytes feed 32 FMA
 *   warp     the units of 8 frames of an output; if there are fewer of these than warps, several warps share the units
 *            and add up their sums through shared memory. The order is always the same
 *
 * Shared memory has the history and the block of each input, one after another; after an answer the frames move down by
 * the length of the block. Taps are read past the first-level cache, which would keep those of a freed mask.
 *
 * cost     an answer: cells * n_taps * n FMA; 3.9 us for 128 words to the GPU and back (H100), 1.4 more with several
 *          workers
 * limits   history and block of all inputs in shared memory
 * error    the sums of 32 lanes or more, each of every 32nd unit
 */
#include "resident.h"

#include "words.cuh"

#include "dsp/device/backend.h"

enum { WARPS = RESIDENT_THREADS / 32, CHUNK = 4, FRAMES = RESIDENT_FRAMES, LOADS = 2, POLLS = 16 };
enum { STALL_NS = 300000 }; /* POLLS take 15 us; a turn of another process 1 to 2 ms */

struct mask_key {
    uint32_t low, high, number;
}; /* as in a request's header */

/* The cells of a worker's outputs and their taps. */
struct mask_view {
    int n_taps;                /* 0: silence                                                                     */
    int in_of, taps;           /* where x[] has int in_of[cells] and, if device_taps is NULL, n_taps of each cell */
    const float4 *device_taps; /* n_taps of each cell, if they do not fit in x[]                                */
};

struct worker {
    const volatile struct resident_job *from; /* its entry in the table; NULL: no job                           */
    struct resident_job job;
    uint32_t number, end; /* of the last block: its number, and the position after it                           */
    bool comes, leaves;
    uint32_t header[RESIDENT_HEADER];
    struct mask_key cached; /* the mask of `view` */
    struct mask_view view;
    float sums[WARPS][FRAMES];
};

/* All threads' state. As globals the compiler knows that they are in shared memory: through pointers the loads of
 * units_sum took three times as long. */
__shared__ struct worker w;
extern __shared__ __align__(16) float x[]; /* [n_in][row], then the mask: first_cell[outputs + 1], in_of, taps */

__device__ static inline int *x_ints(int at)
{
    return (int *)x + at;
}

/* Has the next generation's worker arrived? */
__device__ static inline bool is_relieved(const struct resident_seat *seat, uint32_t generation)
{
    return (int32_t)(*(const volatile uint32_t *)&seat->arrived - generation) > 0;
}

/* Waits for the next block. false: this worker leaves. */
__device__ static bool block_await(const struct resident_word *request, bool is_first, const struct resident_seat *seat,
                                   const struct resident_launch &launch, uint64_t born_ns)
{
    if (threadIdx.x == 0) {
        const uint64_t from_ns = time_ns();
        uint64_t last_ns = from_ns;
        w.comes = false;
        for (unsigned polls = 0; !w.comes; polls++) {
            const struct resident_word word = word_load(request + HEADER_N);
            w.header[HEADER_N] = word.value;
            w.comes = word.number == w.number + 1;
            if (is_first && launch.on_demand) break;
            if (polls % POLLS != POLLS - 1) continue;
            const uint64_t ns = time_ns();
            if (is_first && ns - last_ns > STALL_NS) ++*(volatile uint32_t *)(launch.stalls + blockIdx.x);
            last_ns = ns;
            if (ns - born_ns > launch.max_ns) break;
            if (ns - from_ns > launch.idle_ns && (launch.on_demand || is_relieved(seat, launch.generation))) break;
        }
    }
    __syncthreads();
    return w.comes;
}

/* Copies a request's words into shared memory and, if `copy` is set, to the other workers. */
__device__ static void block_load(const struct resident_word *request, struct resident_word *copy)
{
    const struct resident_job *job = &w.job;
    const uint32_t number = w.number + 1;
    struct resident_word words[LOADS];
    const int n = (int)w.header[HEADER_N], n_words = RESIDENT_HEADER + job->n_in * n;
    for (int from = 0; from < n_words; from += LOADS * RESIDENT_THREADS) {
        for (bool all = false; !all;) {
            all = true;
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = from + u * RESIDENT_THREADS + threadIdx.x;
                if (i < n_words) words[u] = word_load(request + i);
            }
#pragma unroll
            for (int u = 0; u < LOADS; u++)
                if (from + u * RESIDENT_THREADS + (int)threadIdx.x < n_words) all = all && words[u].number == number;
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int i = from + u * RESIDENT_THREADS + threadIdx.x, k = i - RESIDENT_HEADER;
            if (i >= n_words) continue;
            if (copy) word_store(copy + i, words[u]);
            if (i < RESIDENT_HEADER && i != HEADER_N) w.header[i] = words[u].value;
            if (k >= 0) x[k / n * job->row + job->history + k % n] = __uint_as_float(words[u].value);
        }
    }
    __syncthreads();
}

/* Moves all inputs down by n frames: the frame at history + n comes to `history`. */
__device__ static void history_move(int n)
{
    const struct resident_job *job = &w.job;
    for (int from = 0; from < job->history; from += LOADS * 32) { /* a warp moves whole inputs, from front to back */
        for (int in = threadIdx.x / 32; in < job->n_in; in += WARPS) {
            float *row = x + (size_t)in * job->row;
            float v[LOADS];
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = from + u * 32 + threadIdx.x % 32;
                if (i < job->history) v[u] = row[i + n];
            }
            __syncwarp();
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = from + u * 32 + threadIdx.x % 32;
                if (i < job->history) row[i] = v[u];
            }
            __syncwarp();
        }
    }
    __syncthreads();
}

/* Inserts n frames of silence at the end of the history. */
__device__ static void history_skip(uint32_t n_skipped)
{
    const struct resident_job *job = &w.job;
    for (uint32_t left = n_skipped < (uint32_t)job->history ? n_skipped : (uint32_t)job->history; left > 0;) {
        const int n = left < (uint32_t)job->block ? (int)left : job->block;
        for (int i = threadIdx.x; i < job->n_in * n; i += RESIDENT_THREADS)
            x[i / n * job->row + job->history + i % n] = 0.0f;
        __syncthreads();
        history_move(n);
        left -= n;
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

struct mask_tables { /* of a mask in device memory (struct resident_mask) */
    int n_taps;
    const int *first_cell, *in_of;
    const float4 *taps;
};

__device__ static inline bool is_same(struct mask_key a, struct mask_key b)
{
    return a.low == b.low && a.high == b.high && a.number == b.number;
}

__device__ static struct mask_tables tables_of(const struct resident_job *job, struct mask_key key)
{
    const char *mask = (const char *)(key.low | (uint64_t)key.high << 32);
    if (!mask) return {};
    const int *first_cell = (const int *)(mask + sizeof(struct resident_mask));
    const int *in_of = first_cell + (job->n_out + 1 + 3) / 4 * 4;
    const int n_taps = __ldcg(&((const struct resident_mask *)mask)->n_taps), n_cells = __ldcg(first_cell + job->n_out);
    return {n_taps, first_cell, in_of, (const float4 *)(in_of + (n_cells + 3) / 4 * 4)};
}

/* Copies the cells of outputs [first, first + n) of a mask, and their taps if they fit, to shared memory. */
__device__ static void mask_cache(struct mask_key key, int first, int n)
{
    const struct resident_job *job = &w.job;
    const struct mask_tables m = tables_of(job, key);
    const int first_at = job->n_in * job->row, in_at = first_at + (n + 1 + 3) / 4 * 4;
    const int taps_at = in_at + (job->cache_cells + 3) / 4 * 4;
    __syncthreads();
    if (m.n_taps) {
        const int from = __ldcg(m.first_cell + first), cells = __ldcg(m.first_cell + first + n) - from;
        for (int i = threadIdx.x; i <= n; i += RESIDENT_THREADS)
            *x_ints(first_at + i) = __ldcg(m.first_cell + first + i) - from;
        for (int i = threadIdx.x; i < cells; i += RESIDENT_THREADS) *x_ints(in_at + i) = __ldcg(m.in_of + from + i);
        const float4 *taps = m.taps + (size_t)from * (m.n_taps / CHUNK);
        const int loads = cells * (m.n_taps / CHUNK);
        const bool fits = loads * CHUNK <= job->cache_taps;
        for (int i = threadIdx.x; i < loads && fits; i += RESIDENT_THREADS)
            ((float4 *)(x + taps_at))[i] = __ldcg(taps + i);
        if (threadIdx.x == 0) w.view = {m.n_taps, in_at, taps_at, fits ? NULL : taps};
    } else if (threadIdx.x == 0) {
        w.view = {};
    }
    if (threadIdx.x == 0) w.cached = key;
    __syncthreads();
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* Adds up sum[f] of all lanes: returns the sum of frame lane / 4. Each step halves the frames of a lane. */
__device__ static inline float lanes_sum(float (&sum)[FRAMES], int lane)
{
#pragma unroll
    for (int n = FRAMES / 2; n > 0; n /= 2) { /* lanes 4 n apart exchange n frames */
        const bool high = lane & 4 * n;
#pragma unroll
        for (int f = 0; f < n; f++) {
            const float mine = high ? sum[f + n] : sum[f], other = high ? sum[f] : sum[f + n];
            sum[f] = mine + __shfl_xor_sync(~0u, other, 4 * n);
        }
    }
    sum[0] += __shfl_xor_sync(~0u, sum[0], 2);
    return sum[0] + __shfl_xor_sync(~0u, sum[0], 1);
}

/* Sets sum[f] to this thread's share of frame 8 * group + f of output `out`, by the cached mask. The thread adds up
 * every `stride`th unit of the output's cells, from unit `first` on. It loads the taps of BATCH units before it uses
 * them. */
template <bool SHARED> __device__ static void units_sum(float (&sum)[FRAMES], int out, int group, int first, int stride)
{
    constexpr int BATCH = SHARED ? 1 : 3;
    const struct mask_view view = w.view;
    const int row = w.job.row, chunks = view.n_taps / CHUNK, first_at = w.job.n_in * row;
    const int end = *x_ints(first_at + out + 1);
    const int step_cell = stride / chunks, step_chunk = stride % chunks;
    const int frames = w.job.history + FRAMES * group - CHUNK;
    int cell = *x_ints(first_at + out) + first / chunks, c = first % chunks;
    while (cell < end) {
        float4 h4[BATCH];
        int at[BATCH];
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            h4[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            at[u] = frames;
            if (cell < end) {
                const int unit = cell * chunks + c;
                h4[u] = SHARED ? ((const float4 *)(x + view.taps))[unit] : __ldcg(view.device_taps + unit);
                at[u] = frames + *x_ints(view.in_of + cell) * row - CHUNK * c;
            }
            cell += step_cell;
            c += step_chunk;
            if (c >= chunks) c -= chunks, cell++;
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const float4 *v4 = (const float4 *)(x + at[u]), a = v4[0], b = v4[1], d = v4[2];
            const float h[CHUNK] = {h4[u].x, h4[u].y, h4[u].z, h4[u].w};
            const float v[CHUNK + FRAMES] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, d.x, d.y, d.z, d.w};
#pragma unroll
            for (int t = 0; t < CHUNK; t++)
#pragma unroll
                for (int f = 0; f < FRAMES; f++) sum[f] = fmaf(h[t], v[CHUNK + f - t], sum[f]);
        }
    }
}

/* Computes this worker's outputs by the cached mask. Without `y` it sends them: to `y` it is, or, if y_from is set, as
 * the end of a crossfade from it. */
__device__ static void outputs_play(int first_out, int n_outs, float *y, const float *y_from)
{
    const struct resident_job *job = &w.job;
    const int n = (int)w.header[HEADER_N], groups = (n + FRAMES - 1) / FRAMES, items = n_outs * groups;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int pos = (int)w.header[HEADER_FADE_POS], len = (int)w.header[HEADER_FADE_LEN];
    int share = 1; /* warps that share an item */
    while (share * 2 * items <= WARPS) share *= 2;
    for (int base = 0; base < items; base += WARPS / share) {
        const int item = base + warp / share, out = item / groups, group = item % groups;
        float sum[FRAMES] = {};
        if (item < items && w.view.n_taps) {
            if (!w.view.device_taps)
                units_sum<true>(sum, out, group, warp % share * 32 + lane, share * 32);
            else
                units_sum<false>(sum, out, group, warp % share * 32 + lane, share * 32);
        }
        const float share_sum = lanes_sum(sum, lane);
        if (lane % 4 == 0) w.sums[warp][lane / 4] = share_sum;
        if (share > 1)
            __syncthreads();
        else
            __syncwarp();
        const int frame = group * FRAMES + lane;
        if (item < items && warp % share == 0 && lane < FRAMES && frame < n) {
            float total = 0.0f;
            for (int i = 0; i < share; i++) total += w.sums[warp + i][lane];
            const size_t at = (size_t)(first_out + out) * job->block + frame;
            if (y)
                y[at] = total;
            else
                word_store(
                    job->answer + at,
                    {__float_as_uint(y_from ? y_from[at] + fade_gain(pos + frame, len) * (total - y_from[at]) : total),
                     w.number + 1});
        }
        if (share > 1)
            __syncthreads();
        else
            __syncwarp();
    }
}

/* Computes and sends this worker's outputs. */
__device__ static void block_answer(int self)
{
    const struct resident_job *job = &w.job;
    const int first_out = resident_first_out(job, self), n_outs = resident_first_out(job, self + 1) - first_out;
    const uint32_t *to = w.header + HEADER_TO, *from = w.header + HEADER_FROM;
    const bool fades = w.header[HEADER_FADE_LEN] > 0;
    if (fades) {
        if (!is_same(w.cached, {from[0], from[1], from[2]})) mask_cache({from[0], from[1], from[2]}, first_out, n_outs);
        outputs_play(first_out, n_outs, job->faded, NULL);
        __syncthreads();
    }
    if (!is_same(w.cached, {to[0], to[1], to[2]})) mask_cache({to[0], to[1], to[2]}, first_out, n_outs);
    outputs_play(first_out, n_outs, NULL, fades ? job->faded : NULL);
    __syncthreads();
}

/* Waits until the previous generation's worker has left the seat. false: it did not in time. */
__device__ static bool seat_take(struct resident_seat *seat, const struct resident_launch &launch, uint64_t born_ns)
{
    if (threadIdx.x == 0) {
        *(volatile uint32_t *)&seat->arrived = launch.generation;
        w.comes = false;
        while (!w.comes && time_ns() - born_ns < launch.max_ns) w.comes = seat_try(seat);
    }
    __syncthreads();
    return w.comes;
}

/* Plays blocks until the next generation arrives. Then history and numbers are in memory for it. */
__device__ static void seat_serve(int self, const struct resident_seat *seat, const struct resident_launch &launch,
                                  uint64_t born_ns)
{
    const struct resident_job *job = &w.job;
    float *history = job->histories + (size_t)self * job->n_in * job->history;
    uint32_t *numbers = job->numbers + RESIDENT_SAVED * self;
    const int first_out = resident_first_out(job, self), n_outs = resident_first_out(job, self + 1) - first_out;
    if (threadIdx.x == 0) {
        w.number = __ldcg(numbers);
        w.end = __ldcg(numbers + 1);
        w.leaves = false;
        w.header[HEADER_N] = job->block;
    }
    for (int i = threadIdx.x; i < job->n_in * job->history; i += RESIDENT_THREADS)
        x[i / job->history * job->row + i % job->history] = __ldcg(history + i);
    /* Loads the last mask and computes a dummy block: the first block then finds taps and instructions in caches. */
    mask_cache({__ldcg(numbers + 2), __ldcg(numbers + 3), __ldcg(numbers + 4)}, first_out, n_outs);
    outputs_play(first_out, n_outs, job->faded, NULL);
    __syncthreads();
    while (!w.leaves) {
        const size_t slot = (size_t)((w.number + 1) % RESIDENT_SLOTS) * job->request_words;
        struct resident_word *copy = job->copy ? job->copy + slot : NULL;
        const struct resident_word *request = self == 0 ? job->request + slot : copy;
        if (!block_await(request, self == 0, seat, launch, born_ns)) break;
        if (w.header[HEADER_N] == 0) { /* the number stays: the next generation's worker leaves, too */
            if (self == 0 && copy && threadIdx.x == 0) word_store(copy + HEADER_N, {0, w.number + 1});
            break;
        }
        block_load(request, self == 0 ? copy : NULL);
        const uint32_t n_skipped = w.header[HEADER_AT] - w.end;
        if (n_skipped) { /* rare: the block was loaded behind the history; load it again behind the silence */
            history_skip(n_skipped);
            block_load(request, NULL);
        }
        block_answer(self);
        const int n = (int)w.header[HEADER_N];
        history_move(n);
        if (threadIdx.x == 0) {
            w.number++;
            w.end = w.header[HEADER_AT] + n;
            w.leaves = is_relieved(seat, launch.generation); /* the next request comes a period later */
        }
        __syncthreads();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < job->n_in * job->history; i += RESIDENT_THREADS)
        history[i] = x[i / job->history * job->row + i % job->history];
    if (threadIdx.x == 0) {
        const uint32_t saved[RESIDENT_SAVED] = {w.number, w.end, w.cached.low, w.cached.high, w.cached.number};
        for (int i = 0; i < RESIDENT_SAVED; i++) numbers[i] = saved[i];
    }
}

/* grid: seats */
static __global__ void __launch_bounds__(RESIDENT_THREADS, 2)
    resident(const __grid_constant__ struct resident_launch launch)
{
    const uint64_t born_ns = time_ns();
    struct resident_seat *seat = launch.seats + blockIdx.x;
    if (threadIdx.x == 0) { /* one thread reads the table: the host may change it meanwhile */
        w.from = *(struct resident_job *const volatile *)(launch.jobs + blockIdx.x);
        if (blockIdx.x == 0) *(volatile uint32_t *)launch.started = launch.generation;
    }
    __syncthreads();
    const volatile struct resident_job *job = w.from;
    if (!job || job->shared_bytes > launch.shared_bytes) return; /* a job that entered after the launch */
    for (unsigned i = threadIdx.x; i < sizeof(struct resident_job) / 4; i += RESIDENT_THREADS)
        ((uint32_t *)&w.job)[i] = ((const volatile uint32_t *)job)[i];
    __syncthreads();
    if (!seat_take(seat, launch, born_ns)) return;
    seat_serve((int)blockIdx.x - w.job.first_seat, seat, launch, born_ns);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) seat_free(seat);
}

size_t resident_shared_bytes(const struct resident_job *job)
{
    const int outs = (job->n_out + job->n_workers - 1) / job->n_workers;
    return ((size_t)job->n_in * job->row + (outs + 1 + 3) / 4 * 4 + (job->cache_cells + 3) / 4 * 4 + job->cache_taps) *
           sizeof(float);
}

cudaError_t resident_start(const struct resident_launch *launch, cudaStream_t stream)
{
    resident<<<launch->n_seats, RESIDENT_THREADS, launch->shared_bytes, stream>>>(*launch);
    return cudaGetLastError();
}

cudaError_t resident_load(size_t *shared_max)
{
    int device = 0, max = 0;
    struct cudaFuncAttributes a;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&max, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess) e = cudaFuncGetAttributes(&a, resident);
    if (e != cudaSuccess) return e;
    *shared_max = (size_t)max - a.sharedSizeBytes;
    return cudaFuncSetAttribute(resident, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)*shared_max);
}

int resident_workers_per_sm(size_t shared_bytes)
{
    int n = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, resident, RESIDENT_THREADS, shared_bytes) != cudaSuccess)
        cudaGetLastError();
    return n;
}
