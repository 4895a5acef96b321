/* resident_kernel - the workers of the resident kernel: FIR of some outputs of an engine, in the time domain.
 *
 *   unit     4 taps of one cell and 8 frames of one output: 4 loads of 16 bytes feed 32 FMA
 *   warp     the units of 8 frames of an output; if there are fewer of these than warps, several warps share the units
 *            and add up their sums through shared memory. The order is always the same
 *   group    the first worker adds up the sums of all parts, in their order
 *
 * Shared memory has a row of each input: its history, then the block. The next block comes behind it, and the row moves
 * down when its end is reached. Frame i of the stream is at a multiple of 4 if i is one, for loads of 16 bytes: the
 * first unit begins up to 3 frames before the block. Taps are read past the first-level cache, which would keep those
 * of a freed mask.
 *
 * cost     an answer: cells * n_taps * n FMA; 3.9 us for 128 words to the GPU and back (H100), 1.4 more with several
 *          workers, and again with several parts
 * limits   history and block of the inputs of a part in shared memory
 * error    the sums of 32 lanes or more, each of every 32nd unit
 */
#include "resident.h"

#include "async_copy.cuh"
#include "words.cuh"

#include "dsp/device/backend.h"

enum { WARPS = RESIDENT_THREADS / 32, CHUNK = 4, FRAMES = RESIDENT_FRAMES, LOADS = 2, POLLS = 16 };
enum { STALL_NS = 300000 }; /* POLLS take 15 us; a turn of another process 1 to 2 ms */

struct mask_key {
    uint32_t low, high, number;
}; /* as in a request's header */

/* A mask's tables in x[], for the rows of a worker. */
struct mask_view {
    struct mask_key key;
    int n_taps; /* 0: silence */
    struct resident_tables at;
    const float4 *device_taps; /* if they do not fit in x[]; else NULL */
};

struct resident_worker {
    struct resident_job job;
    int self, part, first_out, n_outs, first_in, n_ins;
    uint32_t number; /* of the last block */
    uint32_t end;    /* the position after it */
    int at;          /* where it ends in a row; at - history is end modulo 4 */
    uint64_t born_ns;
    bool goes_on; /* it has a request, its seat, all sums */
    bool is_superseded;
    uint32_t header[RESIDENT_HEADER];
    struct mask_view views[2]; /* the first n_cached are used */
    struct mask_key saved;     /* the mask in the checkpoint */
    float sums[WARPS][FRAMES];
};

/* All threads' state. As globals the compiler knows that they are in shared memory: through pointers the loads of
 * units_sum took three times as long. */
__shared__ struct resident_worker w;
extern __shared__ __align__(16) float x[]; /* [ins][row], the sums, then for each view tables and taps */

__device__ static inline int *x_ints(int at)
{
    return (int *)x + at;
}

/* Has the next generation's worker arrived? */
__device__ static inline bool is_superseded(const struct resident_seat *seat, uint32_t generation)
{
    return (int32_t)(*(const volatile uint32_t *)&seat->newest_generation - generation) > 0;
}

/* Waits for the next block. false: this worker leaves. */
__device__ static bool block_await(const struct resident_word *request, bool is_first, const struct resident_seat *seat,
                                   const struct resident_launch &launch)
{
    if (threadIdx.x == 0) {
        uint64_t from_ns = time_ns();
        uint64_t last_ns = from_ns;
        w.goes_on = false;
        for (unsigned polls = 0; !w.goes_on; polls++) {
            const struct resident_word word = word_load(request + HEADER_N);
            w.header[HEADER_N] = word.value;
            w.goes_on = word.number == w.number + 1;
            if (is_first && launch.on_demand) break;
            if (polls % POLLS != POLLS - 1) continue;
            const uint64_t ns = time_ns();
            if (ns - last_ns > STALL_NS) { /* the time in which this worker stood still does not count */
                if (is_first) ++*(volatile uint32_t *)(launch.stalls + blockIdx.x);
                from_ns = ns;
            }
            last_ns = ns;
            if (ns - w.born_ns > launch.max_ns) break;
            if (ns - from_ns > launch.idle_ns && (launch.on_demand || is_superseded(seat, launch.generation))) break;
        }
    }
    __syncthreads();
    return w.goes_on;
}

/* Copies a request's words of this worker's inputs into shared memory. copy: also copies all words there. */
__device__ static void block_load(const struct resident_word *request, struct resident_word *copy)
{
    const struct resident_job *job = &w.job;
    const uint32_t number = w.number + 1;
    struct resident_word words[LOADS];
    const int n = (int)w.header[HEADER_N], n_words = RESIDENT_HEADER + (copy ? job->n_in : w.n_ins) * n;
    const int skipped = w.first_in * n; /* words of other parts' inputs before the own ones */
    for (int from = 0; from < n_words; from += LOADS * RESIDENT_THREADS) {
        for (bool all = false; !all;) {
            all = true;
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = from + u * RESIDENT_THREADS + threadIdx.x;
                if (i < n_words) words[u] = word_load(request + i + (i < RESIDENT_HEADER ? 0 : skipped));
            }
#pragma unroll
            for (int u = 0; u < LOADS; u++)
                if (from + u * RESIDENT_THREADS + (int)threadIdx.x < n_words) all = all && words[u].number == number;
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int i = from + u * RESIDENT_THREADS + threadIdx.x, k = i - RESIDENT_HEADER;
            if (i >= n_words) continue;
            if (copy) word_store(copy + i, words[u]); /* worker 0: its inputs are the first ones */
            if (i < RESIDENT_HEADER && i != HEADER_N) w.header[i] = words[u].value;
            if (k >= 0 && k / n < w.n_ins) x[k / n * job->row + w.at + k % n] = __uint_as_float(words[u].value);
        }
    }
    __syncthreads();
}

/* Moves the history of all inputs down from `from` to `to`. */
__device__ static void history_move(int from, int to)
{
    const struct resident_job *job = &w.job;
    for (int base = 0; base < job->history; base += LOADS * 32) { /* a warp moves whole inputs, from front to back */
        for (int in = threadIdx.x / 32; in < w.n_ins; in += WARPS) {
            float *row = x + (size_t)in * job->row;
            float v[LOADS];
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = base + u * 32 + threadIdx.x % 32;
                if (i < job->history) v[u] = row[from + i];
            }
            __syncwarp();
#pragma unroll
            for (int u = 0; u < LOADS; u++) {
                const int i = base + u * 32 + threadIdx.x % 32;
                if (i < job->history) row[to + i] = v[u];
            }
            __syncwarp();
        }
    }
}

/* Appends the n frames behind the history to it, and makes room for the next block. */
__device__ static void history_append(int n)
{
    const struct resident_job *job = &w.job;
    const uint32_t end = w.end + n;
    const int to = end % 4;
    int at = w.at + n;
    __syncthreads(); /* all threads have read, and have done with the rows */
    if (at / 4 * 4 + job->block_span > job->row) {
        history_move(at - job->history, to);
        at = job->history + to;
    }
    if (threadIdx.x == 0) w.end = end, w.at = at;
    __syncthreads();
}

/* Appends n frames of silence to the history. */
__device__ static void history_skip(uint32_t n)
{
    const struct resident_job *job = &w.job;
    const uint32_t max = (uint32_t)job->history;
    __syncthreads();
    if (threadIdx.x == 0 && n > max) { /* all that is there is skipped, too */
        w.end += n - max;
        w.at = job->history + w.end % 4;
    }
    __syncthreads();
    for (int left = (int)(n < max ? n : max), len; left > 0; left -= len) {
        len = left < job->block ? left : job->block;
        for (int i = threadIdx.x; i < w.n_ins * len; i += RESIDENT_THREADS)
            x[i / len * job->row + w.at + i % len] = 0.0f;
        history_append(len);
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

__device__ static inline bool mask_key_is_same(struct mask_key a, struct mask_key b)
{
    return a.low == b.low && a.high == b.high && a.number == b.number;
}

/* Copies the tables of this worker's rows of a mask, and their taps if they fit, to shared memory. */
__device__ static void resident_mask_load(int v, struct mask_key key)
{
    const struct resident_job *job = &w.job;
    const int *mask = (const int *)(key.low | (uint64_t)key.high << 32);
    struct mask_view loaded = {key, 0, {}, NULL};
    __syncthreads();
    if (mask) {
        const struct resident_mask *head = (const struct resident_mask *)mask;
        const int n_taps = __ldcg(&head->n_taps), chunks = n_taps / CHUNK;
        const struct resident_tables all =
            resident_tables_at(sizeof *head / 4, job->n_parts * job->n_out, __ldcg(&head->n_cells));
        const int *first_cell = mask + all.first_cell + w.part * job->n_out + w.first_out;
        const int from = __ldcg(first_cell), n_cells = __ldcg(first_cell + w.n_outs) - from;
        int base = job->views_at;
        if (v > 0) base = resident_tables_at(base, job->outs, job->outs * job->ins).taps + job->cache_taps;
        const struct resident_tables at = resident_tables_at(base, w.n_outs, n_cells);
        const float4 *taps = (const float4 *)(mask + all.taps) + (size_t)from * chunks;
        const bool fits = n_cells * n_taps <= job->cache_taps;
        for (int i = threadIdx.x; i < n_cells * chunks && fits; i += RESIDENT_THREADS)
            copy16(x + at.taps + CHUNK * i, (const float *)(taps + i));
        for (int i = threadIdx.x; i <= w.n_outs; i += RESIDENT_THREADS)
            *x_ints(at.first_cell + i) = __ldcg(first_cell + i) - from;
        for (int i = threadIdx.x; i < n_cells; i += RESIDENT_THREADS)
            *x_ints(at.in_of + i) = __ldcg(mask + all.in_of + from + i);
        copies_wait();
        loaded = {key, n_taps, at, fits ? NULL : taps};
    }
    if (threadIdx.x == 0) w.views[v] = loaded;
    __syncthreads();
}

/* Returns the view of a mask. It loads the mask if no view has it, and then does not replace the mask `other`. */
__device__ static int resident_view_of(struct mask_key key, struct mask_key other)
{
    for (int v = 0; v < w.job.n_cached; v++)
        if (mask_key_is_same(w.views[v].key, key)) return v;
    const int v = w.job.n_cached > 1 && mask_key_is_same(w.views[0].key, other);
    resident_mask_load(v, key);
    return v;
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

/* Sets sum[f] to this thread's share of frame 8 * group + f of output `out`; frame 0 is up to 3 before the block. The
 * thread adds up every `stride`th unit of the output's cells, from unit `first` on. It loads the taps of BATCH units
 * before it uses them. */
template <bool SHARED>
__device__ static void units_sum(float (&sum)[FRAMES], int view_at, int out, int group, int first, int stride)
{
    constexpr int BATCH = SHARED ? 1 : 4;
    const struct mask_view view = w.views[view_at];
    const int row = w.job.row, chunks = view.n_taps / CHUNK;
    const int end = *x_ints(view.at.first_cell + out + 1);
    const int step_cell = stride / chunks, step_chunk = stride % chunks;
    const int frames = w.at / 4 * 4 + FRAMES * group - CHUNK;
    int cell = *x_ints(view.at.first_cell + out) + first / chunks, c = first % chunks;
    while (cell < end) {
        float4 h4[BATCH];
        int next = cell, next_c = c;
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            h4[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            const int unit = next * chunks + next_c;
            if (next < end)
                h4[u] = SHARED ? ((const float4 *)(x + view.at.taps))[unit] : __ldcg(view.device_taps + unit);
            next += step_cell;
            next_c += step_chunk;
            if (next_c >= chunks) next_c -= chunks, next++;
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const int at = cell < end ? frames + *x_ints(view.at.in_of + cell) * row - CHUNK * c : frames;
            cell += step_cell;
            c += step_chunk;
            if (c >= chunks) c -= chunks, cell++;
            const float4 *v4 = (const float4 *)(x + at), a = v4[0], b = v4[1], d = v4[2];
            const float h[CHUNK] = {h4[u].x, h4[u].y, h4[u].z, h4[u].w};
            const float v[CHUNK + FRAMES] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, d.x, d.y, d.z, d.w};
#pragma unroll
            for (int t = 0; t < CHUNK; t++)
#pragma unroll
                for (int f = 0; f < FRAMES; f++) sum[f] = fmaf(h[t], v[CHUNK + f - t], sum[f]);
        }
    }
}

/* Returns the words of the next block to which this worker sends its sums of an output: the answer, or those that the
 * first worker of its group awaits. */
__device__ static inline struct resident_word *resident_words_of(int out)
{
    const struct resident_job *job = &w.job;
    if (job->n_parts == 1) return job->answer + (size_t)(w.first_out + out) * job->block;
    const uint32_t sums_entry = w.self * RESIDENT_RING + (w.number + 1) % RESIDENT_RING;
    return job->sums + ((size_t)sums_entry * job->outs + out) * job->block;
}

/* Computes the sums of this worker's outputs by the mask of a view and leaves them in x[]. fades: crossfades to them
 * from those that are there. sends: sends them, too. */
__device__ static void outputs_play(int v, bool fades, bool sends)
{
    const int groups = (w.at % 4 + (int)w.header[HEADER_N] + FRAMES - 1) / FRAMES, items = w.n_outs * groups;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int share = 1; /* warps that share an item */
    while (share * 2 * items <= WARPS) share *= 2;
    for (int base = 0; base < items; base += WARPS / share) {
        const int item = base + warp / share, out = item / groups, group = item % groups;
        float sum[FRAMES] = {};
        if (item < items && w.views[v].n_taps) {
            if (!w.views[v].device_taps)
                units_sum<true>(sum, v, out, group, warp % share * 32 + lane, share * 32);
            else
                units_sum<false>(sum, v, out, group, warp % share * 32 + lane, share * 32);
        }
        const float share_sum = lanes_sum(sum, lane);
        if (lane % 4 == 0) w.sums[warp][lane / 4] = share_sum;
        if (share > 1)
            __syncthreads();
        else
            __syncwarp();
        const int n = (int)w.header[HEADER_N], frame = group * FRAMES + lane - w.at % 4;
        if (item < items && warp % share == 0 && lane < FRAMES && frame >= 0 && frame < n) {
            float total = 0.0f, *y = x + w.job.sums_at + out * n + frame;
            for (int i = 0; i < share; i++) total += w.sums[warp + i][lane];
            if (fades)
                total = *y + fade_gain(w.header[HEADER_FADE_POS] + frame, w.header[HEADER_FADE_LEN]) * (total - *y);
            *y = total;
            if (sends) word_store(resident_words_of(out) + frame, {__float_as_uint(total), w.number + 1});
        }
        if (share > 1)
            __syncthreads();
        else
            __syncwarp();
    }
}

/* Adds up the sums of all parts of the group, and sends them. false: a part has left, and no other one came in time. */
__device__ static bool group_answer(const struct resident_launch &launch)
{
    const struct resident_job *job = &w.job;
    const uint32_t number = w.number + 1;
    const int n = (int)w.header[HEADER_N], count = w.n_outs * n;
    const size_t stride = (size_t)RESIDENT_RING * job->outs * job->block; /* words from a part to the next one */
    float *y = x + w.job.sums_at;
    for (int i = threadIdx.x + count; i < job->n_parts * count; i += RESIDENT_THREADS) {
        const struct resident_word *from = resident_words_of(i % count / n) + i / count * stride + i % n;
        struct resident_word word = word_load(from);
        for (unsigned polls = 1; word.number != number && w.goes_on; polls++) {
            if (polls % POLLS == 0 && time_ns() - w.born_ns > launch.max_ns) w.goes_on = false;
            word = word_load(from);
        }
        y[i] = __uint_as_float(word.value);
    }
    __syncthreads();
    if (!w.goes_on) return false;
    for (int i = threadIdx.x; i < count; i += RESIDENT_THREADS) {
        float total = y[i];
        for (int part = 1; part < job->n_parts; part++) total += y[part * count + i];
        word_store(job->answer + (size_t)(w.first_out + i / n) * job->block + i % n, {__float_as_uint(total), number});
    }
    return true;
}

__device__ static inline uint32_t *checkpoint_of(int worker)
{
    return w.job.checkpoints + CHECKPOINT_WORDS * worker;
}

/* Returns the mask that a worker of this seat has saved; silence while it is being written. */
__device__ static inline struct mask_key saved_mask(void)
{
    const struct resident_word *words = (const struct resident_word *)(checkpoint_of(w.self) + 2);
    const struct resident_word low = word_load(words), high = word_load(words + 1);
    if (low.number != high.number) return {};
    return {low.value, high.value, low.number};
}

/* Saves the mask before the answer: when a block without a mask is answered, no later generation loads that mask. */
__device__ static void mask_save(struct mask_key mask)
{
    if (mask_key_is_same(w.saved, mask)) return;
    __syncthreads();
    if (threadIdx.x == 0) {
        struct resident_word *words = (struct resident_word *)(checkpoint_of(w.self) + 2);
        word_store(words, {mask.low, mask.number});
        word_store(words + 1, {mask.high, mask.number});
        w.saved = mask;
        __threadfence();
    }
    __syncthreads();
}

/* Computes and sends this worker's outputs. false: it has not sent any, and leaves. */
__device__ static bool block_answer(const struct resident_launch &launch)
{
    const struct resident_job *job = &w.job;
    const struct mask_key to = {w.header[HEADER_TO], w.header[HEADER_TO + 1], w.header[HEADER_TO + 2]};
    const struct mask_key from = {w.header[HEADER_FROM], w.header[HEADER_FROM + 1], w.header[HEADER_FROM + 2]};
    const bool fades = w.header[HEADER_FADE_LEN] > 0;
    mask_save(to);
    /* One copy of the code for both masks: with two the compiler spills registers. */
#pragma unroll 1
    for (int is_last = !fades; is_last <= 1; is_last++)
        outputs_play(is_last ? resident_view_of(to, from) : resident_view_of(from, to), is_last && fades,
                     is_last && (job->n_parts == 1 || w.part > 0));
    return job->n_parts == 1 || w.part > 0 || group_answer(launch);
}

/* Waits until the previous generation's worker has left the seat. false: it did not in time. */
__device__ static bool seat_acquire(struct resident_seat *seat, const struct resident_launch &launch)
{
    if (threadIdx.x == 0) {
        *(volatile uint32_t *)&seat->newest_generation = launch.generation;
        w.goes_on = false;
        while (!w.goes_on && time_ns() - w.born_ns < launch.max_ns) w.goes_on = seat_try_acquire(seat);
    }
    __syncthreads();
    return w.goes_on;
}

/* Prepares a worker while the previous generation's one still serves: loads its mask, and computes a dummy block. The
 * first block then finds taps and instructions in caches. */
__device__ static void worker_prepare(int self)
{
    const struct resident_job *job = &w.job;
    if (threadIdx.x == 0) {
        w.self = self;
        w.part = self % job->n_parts;
        w.first_out = resident_first_out(job, self / job->n_parts);
        w.n_outs = resident_first_out(job, self / job->n_parts + 1) - w.first_out;
        w.first_in = resident_first_in(job, w.part);
        w.n_ins = resident_first_in(job, w.part + 1) - w.first_in;
        w.at = job->history;
        w.is_superseded = false;
        w.header[HEADER_N] = job->block;
        w.views[0] = w.views[1] = {};
        w.saved = saved_mask(); /* one thread reads it: the worker in the seat may write it meanwhile */
    }
    __syncthreads();
    outputs_play(resident_view_of(w.saved, w.saved), false, false);
    __syncthreads();
}

/* Plays blocks until the next generation arrives. Then history and checkpoint are in memory for it. */
__device__ static void seat_serve(const struct resident_seat *seat, const struct resident_launch &launch)
{
    const struct resident_job *job = &w.job;
    float *history = job->histories + (size_t)w.self * job->ins * job->history;
    uint32_t *checkpoint = checkpoint_of(w.self);
    if (threadIdx.x == 0) {
        w.number = __ldcg(checkpoint);
        w.end = __ldcg(checkpoint + 1);
        w.at = job->history + w.end % 4;
        w.saved = saved_mask();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.n_ins * job->history; i += RESIDENT_THREADS)
        x[i / job->history * job->row + w.at - job->history + i % job->history] = __ldcg(history + i);
    __syncthreads();
    while (!w.is_superseded) {
        const size_t entry = (size_t)((w.number + 1) % RESIDENT_RING) * job->request_words;
        struct resident_word *copy = job->copy ? job->copy + entry : NULL;
        const struct resident_word *request = w.self == 0 ? job->request + entry : copy;
        if (!block_await(request, w.self == 0, seat, launch)) break;
        if (w.header[HEADER_N] == 0) { /* the number stays: the next generation's worker leaves, too */
            if (w.self == 0 && copy && threadIdx.x == 0) word_store(copy + HEADER_N, {0, w.number + 1});
            break;
        }
        block_load(request, w.self == 0 ? copy : NULL);
        const uint32_t n_skipped = w.header[HEADER_AT] - w.end;
        if (n_skipped) { /* rare: the block was loaded behind the history; load it again behind the silence */
            history_skip(n_skipped);
            block_load(request, NULL);
        }
        if (!block_answer(launch)) break;
        history_append((int)w.header[HEADER_N]);
        if (threadIdx.x == 0) {
            w.number++;
            w.is_superseded = is_superseded(seat, launch.generation); /* the next request comes a period later */
        }
        __syncthreads();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w.n_ins * job->history; i += RESIDENT_THREADS)
        history[i] = x[i / job->history * job->row + w.at - job->history + i % job->history];
    if (threadIdx.x == 0) checkpoint[0] = w.number, checkpoint[1] = w.end;
}

/* grid: seats */
static __global__ void __launch_bounds__(RESIDENT_THREADS, 2)
    resident(const __grid_constant__ struct resident_launch launch)
{
    if (threadIdx.x == 0) w.born_ns = time_ns();
    const uint32_t *job = (const uint32_t *)launch.jobs[blockIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0) *(volatile uint32_t *)launch.started = launch.generation;
    if (!job) return;
    for (unsigned i = threadIdx.x; i < sizeof(struct resident_job) / 4; i += RESIDENT_THREADS)
        ((uint32_t *)&w.job)[i] = __ldcg(job + i);
    __syncthreads();
    worker_prepare((int)blockIdx.x - w.job.first_seat);
    struct resident_seat *seat = launch.seats + blockIdx.x;
    if (!seat_acquire(seat, launch)) return;
    seat_serve(seat, launch);
    __syncthreads();
    if (threadIdx.x == 0) seat_release(seat);
}

size_t resident_shared_bytes(const struct resident_job *job)
{
    const size_t view = resident_tables_at(0, job->outs, job->outs * job->ins).taps + job->cache_taps;
    return (job->views_at + job->n_cached * view) * sizeof(float);
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
