/* fused_gradient - the gradient of filters, alone or with that of x (fused_kernels.h). A team transforms the windows of
 * x and of gy of one filter, adds up their products, and transforms the sum back once. The spectrum of gy times that of
 * the filter, transformed back, is a window of gx.
 *
 * cost     a task: the transforms of a window of x and of one of gy, 6 N log2(N) FMA; with gx 9 N log2(N)
 */
#include "fused_kernels.h"
#include "fused_sizes.cuh"

/* Smaller windows would need so many registers that both gradients in one run take longer than one after the other (2^10
 * points on an H100: 7 % longer). Tests lower this. */
#ifndef GRADIENTS_FROM
#define GRADIENTS_FROM 11
#endif

/* More blocks would spill registers before sm_90. Three blocks of 2^9 or 2^10 points fit sm_80, but not the shared
 * memory of the others. */
static constexpr int gradient_min_blocks(int log_n, bool both, int blocks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    if (log_n == 11 && both) return 3;
    if ((log_n == 9 || log_n == 10) && __CUDA_ARCH__ != 800) return 2;
#endif
    (void)log_n, (void)both;
    return blocks;
}

/* The windows of x and of gy whose spectra are multiplied. */
template <bool BOTH> struct window_pair {
    window_position x, gy;
};
template <> struct window_pair<true> {
    window_position x, gy;
    int64_t gx; /* element of gx that is point 0 */
    int filter; /* index of the spectrum; -1: gx becomes 0 */
};

/* HAS_GX: the kernel computes both gradients. */
template <int LOG_N, bool HAS_GX> struct gradient_size : team_size<LOG_N> {
    static constexpr bool BOTH = HAS_GX;
    using team = team_size<LOG_N>;
    /* The spectrum of x and the sum of the products are in shared memory and in registers, or both in device memory. */
    static constexpr bool IS_SMALL = LOG_N <= 12, HAS_BOTH = IS_SMALL && LOG_N >= GRADIENTS_FROM;
    static constexpr kernel_kind REAL_16_BITS = IS_SMALL ? real_kind_of_16_bits(LOG_N) : LISTED;
    /* With 32 points a thread, no registers are left for a prefetch. From 2^13 points on, a prefetch would also evict
     * spectra and sums from the L2 cache. */
    static constexpr bool HAS_PREFETCH = team::E == 16;
    using pair = window_pair<BOTH>;
    static constexpr int BLOCKS = LOG_N <= 8 ? 4 : LOG_N <= 10 ? 3 : LOG_N == 11 ? 4 : LOG_N <= 13 ? 2 : 1;
    static constexpr size_t POSITIONS_AT = team::FACTOR_BYTES + team::TEAMS * team::POINT_BYTES,
                            WITHOUT_SPECTRA = POSITIONS_AT + team::TEAMS * team::POSITIONS * sizeof(pair),
                            BYTES = WITHOUT_SPECTRA + (IS_SMALL ? team::TEAMS * team::N * sizeof(float2) : 0),
                            STASH_BYTES = IS_SMALL ? 0 : 2 * team::N * sizeof(float2); /* device memory of a team */
};

template <int LOG_N> using gradient_h_size = gradient_size<LOG_N, false>;
template <int LOG_N> using gradients_size = gradient_size<LOG_N, true>;

/* The windows of a task of a group. n_windows: those of a row. */
template <class S, bool IS_LISTED>
static __device__ typename S::pair pair_of_task(const fused_gradient_h &p, unsigned group, unsigned task, bool is_task,
                                                unsigned n_windows)
{
    if (!is_task) return {};
    const unsigned row = task / n_windows;
    row_position at = position_of(p.groups, group, row);
    fused_rows x = p.x, gy = p.gy;
    int64_t x_begin = 0, gy_begin = 0;
    item_window w = {0, (int64_t)(task - row * n_windows) * p.hop};
    if (IS_LISTED && !S::BOTH && p.groups.offsets) {
        at.channel = (int)(p.groups.h_channels == 1 ? row : group % (unsigned)p.groups.h_channels);
        at.batch = 0;
        w.item = (int)(group / (unsigned)p.groups.h_channels);
        if (p.groups.h_batch == 1 && !item_window_of(p.groups, p.hop, task - row * n_windows, &w)) return {};
        x = rows_of_item(p.groups, p.x, w.item, &x_begin);
        gy = rows_of_item(p.groups, p.gy, w.item, &gy_begin);
    }
    const int64_t gy_start = w.start + p.gy_first;
    typename S::pair pair;
    pair.x = window_of(x, at, w.start, w.start + p.hop, 2 * S::N);
    pair.gy = window_of(gy, at, gy_start, gy_start + 2 * S::N, 2 * S::N);
    pair.x.at += x_begin;
    pair.gy.at += gy_begin;
    if constexpr (S::BOTH) {
        pair.gx = at.batch * p.gx.stride[0] + at.channel * p.gx.stride[1] + w.start;
        pair.filter = (int)group - p.groups.first;
        if (IS_LISTED) {
            const int number = (int)filter_of(p.groups, group);
            if (p.by_bank || number < 0) pair.filter = number;
            if (number < 0) { /* nothing is read */
                pair.x.first = pair.x.last;
                pair.gy.first = pair.gy.last;
            }
        }
    }
    return pair;
}

/* The windows of a row of a group. */
static __device__ unsigned windows_of_row(const fused_gradient_h &p, unsigned group)
{
    if (filter_of(p.groups, group) < 0) return 0;
    if (!p.groups.offsets || p.groups.h_batch == 1) return (unsigned)p.n_windows;
    int64_t begin;
    const fused_rows x = rows_of_item(p.groups, p.x, (int)(group / (unsigned)p.groups.h_channels), &begin);
    return (unsigned)((x.frames + p.hop - 1) / p.hop);
}

/* The element of gh that is the first tap of a filter. */
static __device__ __forceinline__ int64_t filter_at(const fused_gradient_h &p, unsigned group)
{
    const row_position at = position_of(p.groups, group, 0);
    return at.batch * p.out.stride[0] + at.channel * p.out.stride[1];
}

/* A team computes a slice of a group. The function finds it again at each call, because no registers are left
 * to keep it in. */
struct gradient_unit {
    unsigned local, slice, group;
    bool exists;
};
template <class S> static __device__ __forceinline__ gradient_unit unit_of_team(const fused_gradient_h &p)
{
    const unsigned index = (unsigned)again((int)blockIdx.x) * S::TEAMS + threadIdx.x / S::T;
    gradient_unit unit;
    unit.local = index / (unsigned)p.n_slices;
    unit.slice = index - unit.local * (unsigned)p.n_slices;
    unit.group = (unsigned)p.groups.first + unit.local;
    unit.exists = index < (unsigned)(p.groups.n * p.n_slices);
    return unit;
}

/* The tasks of a group, and those of each slice. */
struct task_counts {
    unsigned n_windows, tasks, of_slice;
};
static __device__ task_counts listed_tasks(const fused_gradient_h &p, const gradient_unit &unit)
{
    if (!unit.exists) return task_counts{};
    const unsigned n_windows = windows_of_row(p, unit.group);
    const unsigned rows =
        p.groups.offsets ? (p.groups.h_channels == 1 ? (unsigned)p.groups.channels : 1u) : rows_of_group(p.groups);
    return task_counts{n_windows, n_windows * rows,
                       (n_windows * rows + (unsigned)p.n_slices - 1) / (unsigned)p.n_slices};
}

template <int LOG_N, kernel_kind KIND, bool HAS_16_BITS, bool BOTH>
static __global__ void __launch_bounds__(team_size<LOG_N>::THREADS,
                                         gradient_min_blocks(LOG_N, BOTH, gradient_size<LOG_N, BOTH>::BLOCKS))
    gradient_h_kernel(fused_gradient_h p, unsigned tasks, unsigned tasks_of_slice)
{
    extern __shared__ float4 shared[];
    using S = gradient_size<LOG_N, BOTH>;
    constexpr bool REAL = KIND == REAL_ROWS;
    /* Tasks differ for packed sequences and for groups without a filter, which have none; with gx, those write zeros. */
    constexpr bool HAS_COUNTS = KIND == LISTED && !BOTH;
    auto *f = shared_at<typename S::factors>(shared, 0);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES + team * S::POINT_BYTES);
    auto *pairs = shared_at<typename S::pair>(shared, S::POSITIONS_AT) + team * S::POSITIONS;
    /* Each thread reads and writes only its own elements. */
    float2 *spectrum = t + (S::IS_SMALL ? shared_at<float2>(shared, S::WITHOUT_SPECTRA) + team * S::N
                                        : p.stash + ((size_t)blockIdx.x * S::TEAMS + team) * 2 * S::N);
    float2 *sums = spectrum + S::N, sum[S::IS_SMALL ? S::E : 1]; /* either sums or sum is used */
    S::factors_make(f);
    __syncthreads();
    float2 r[S::E];
#pragma unroll
    for (int m = 0; m < S::E; m++) {
        if (S::IS_SMALL) sum[S::IS_SMALL * m] = make_float2(0.0f, 0.0f);
        else sums[m * S::T] = make_float2(0.0f, 0.0f);
    }
    task_counts counts = {};
    if (HAS_COUNTS) {
        counts = listed_tasks(p, unit_of_team<S>(p));
        tasks = counts.tasks;
        tasks_of_slice = counts.of_slice;
        for (int lanes = S::T; lanes < 32; lanes *= 2) { /* the teams of a warp run together */
            const unsigned other = __shfl_xor_sync(~0u, tasks_of_slice, lanes);
            if (other > tasks_of_slice) tasks_of_slice = other;
        }
    }
    for (unsigned k = 0; k < tasks_of_slice; k++) { /* the same for all teams */
        const unsigned i = k % S::POSITIONS;
        if (i == 0) { /* each of POSITIONS threads computes the position of another task */
            const gradient_unit unit = unit_of_team<S>(p);
            const unsigned of_slice = HAS_COUNTS ? counts.of_slice : tasks_of_slice;
            const unsigned later = k + (unsigned)t, task = unit.slice * of_slice + later;
            S::team_sync();
            if (t < S::POSITIONS)
                pairs[t] = pair_of_task<S, KIND == LISTED>(p, unit.group, task,
                                                           unit.exists && later < of_slice && task < tasks,
                                                           HAS_COUNTS ? counts.n_windows : (unsigned)p.n_windows);
            S::team_sync();
        }
        const auto &pair = pairs[i];
        bool has_filter = true;
        if constexpr (KIND == LISTED && BOTH) {
            has_filter = pair.filter >= 0;
            for (int point = t; point < pair.x.last && !has_filter; point += S::T)
                element_put(p.gx_data, pair.gx + point, p.gx.type, 0.0f);
        }
        if (KIND == LISTED && is_warp_idle<S>(team, [&](int other) {
                const window_position &x = (pairs + (other - team) * S::POSITIONS)[i].x;
                return x.first >= x.last;
            }))
            continue;
            /* The transform is long, so its code exists once for x and gy. */
#pragma unroll 1
        for (int is_gy = 0; is_gy < 2; is_gy++) {
            const auto window_of_x = [&](int at) { return row_window_at<HAS_16_BITS>(p.x_data, p.x, pairs[at].x); };
            const auto window_of_gy = [&] { return row_window_at<HAS_16_BITS>(p.gy_data, p.gy, pair.gy); };
            team_load<S, REAL>(r, is_gy ? window_of_gy() : window_of_x((int)i), again(t));
            if (S::HAS_PREFETCH && (!is_gy || i + 1 < S::POSITIONS))
                prefetch<S, REAL>(is_gy ? window_of_x((int)i + 1) : window_of_gy(), t);
            if (!BOTH || is_gy) S::team_sync();
            S::template forward<REAL>(s, f, again(t), r);
            if (is_gy) break;
#pragma unroll
            for (int m = 0; m < S::E; m++) spectrum[m * S::T] = r[m];
        }
#pragma unroll
        for (int m = 0; m < S::E; m++) {
            const float2 z = cmul(r[m], conj(spectrum[m * S::T]));
            if (S::IS_SMALL) {
                float2 &to = sum[S::IS_SMALL * m];
                to = make_float2(to.x + z.x, to.y + z.y);
            } else {
                const float2 before = sums[m * S::T];
                sums[m * S::T] = make_float2(before.x + z.x, before.y + z.y);
            }
        }
        if constexpr (BOTH) {
            const float2 *h = p.spectra + (size_t)(has_filter ? pair.filter : 0) * S::N + t;
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
            S::inverse(s, f, t, r);
            team_store<S, REAL>(p.gx_data, pair.gx, HAS_16_BITS ? p.gx.type : HC_FLOAT32, 0,
                                has_filter ? pair.x.last : 0, 1.0f, r, again(t));
        }
    }
    if (BOTH) S::team_sync();
#pragma unroll
    for (int m = 0; m < S::E; m++) r[m] = S::IS_SMALL ? sum[S::IS_SMALL * m] : sums[m * S::T];
    S::inverse(s, f, t, r);
    const gradient_unit unit = unit_of_team<S>(p);
    if (!unit.exists) return;
    void *out = p.gh;
    int64_t at;
    int last = (int)p.out.frames, type = HAS_16_BITS ? p.out.type : HC_FLOAT32;
    if (p.n_slices == 1 && (KIND != LISTED || !p.groups.index)) {
        at = filter_at(p, unit.group);
        if (p.lengths) {
            const int64_t given = p.lengths[unit.group];
            const int length = given < 0 ? 0 : given < last ? (int)given : last;
#pragma unroll 1
            for (int k = again(t); k < last; k += S::T)
                if (k >= length) element_put(out, at + k, type, 0.0f);
            last = length;
        }
    } else {
        out = p.partial;
        at = ((int64_t)unit.slice * p.groups.n + unit.local) * p.out.frames;
        type = HC_FLOAT32;
    }
    team_store<S, REAL>(out, at, type, 0, last, 1.0f / S::N, r, again(t));
}

/* Adds the slices of a group, in their order. */
static __global__ void __launch_bounds__(256) sum_kernel(fused_gradient_h p)
{
    const int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, frames = p.out.frames;
    const unsigned local = blockIdx.y, group = (unsigned)p.groups.first + local;
    if (k >= frames) return;
    float sum = 0;
    if (!p.lengths || k < p.lengths[group])
        for (int i = 0; i < p.n_slices; i++)
            sum += p.partial[((size_t)i * (size_t)p.groups.n + local) * (size_t)frames + k];
    element_put(p.gh, filter_at(p, group) + k, p.out.type, sum);
}

/* A thread sums a tap of filter blockIdx.y + first over the groups that use it. */
static __global__ void __launch_bounds__(256) bank_sum_kernel(fused_gradient_h p, unsigned first)
{
    __shared__ unsigned users[8]; /* bit i of word w: group 32 w + i of the next 256 uses the filter */
    const int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, frames = p.out.frames;
    const int64_t number = first + blockIdx.y, length = p.lengths ? p.lengths[number] : frames;
    const int64_t at = number * p.out.stride[0] + k;
    const bool has_tap = k < frames && k < length;
    float sum = has_tap && p.sums ? p.sums[number * p.sums_stride + k] : 0.0f;
    for (int from = 0; from < p.groups.n; from += 256) {
        const int group = from + (int)threadIdx.x;
        const bool is_user = group < p.groups.n && filter_of(p.groups, (unsigned)(p.groups.first + group)) == number;
        const unsigned word = __ballot_sync(~0u, is_user);
        __syncthreads();
        if (threadIdx.x % 32 == 0) users[threadIdx.x / 32] = word;
        __syncthreads();
        for (int w = 0; w < 8; w++)
            for (unsigned left = has_tap ? users[w] : 0; left; left &= left - 1) {
                const size_t user = (size_t)(from + 32 * w + __ffs((int)left) - 1);
                for (int slice = 0; slice < p.n_slices; slice++)
                    sum += p.partial[((size_t)slice * (size_t)p.groups.n + user) * (size_t)frames + (size_t)k];
            }
    }
    if (k < frames) element_put(p.gh, at, p.out.type, sum);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <int LOG_N, bool BOTH> static cudaError_t kernels_allow(const struct fused_device *device)
{
    using S = gradient_size<LOG_N, BOTH>;
    return shared_allow(device, S::BYTES, gradient_h_kernel<LOG_N, WHOLE, false, BOTH>,
                        gradient_h_kernel<LOG_N, LISTED, true, BOTH>, gradient_h_kernel<LOG_N, REAL_ROWS, false, BOTH>,
                        gradient_h_kernel<LOG_N, S::REAL_16_BITS, true, BOTH>);
}

cudaError_t fused_gradient_h_load(const struct fused_device *device)
{
    return with_every_size<gradient_h_size>([&](auto s) {
        using S = decltype(s);
        cudaError_t status = kernels_allow<S::LOG_N, false>(device);
        if constexpr (S::HAS_BOTH)
            if (!status) status = kernels_allow<S::LOG_N, true>(device);
        return status;
    });
}

template <class S> static int teams_of(const struct fused_device *device)
{
    const int fitting = (int)((size_t)device->shared_bytes / S::BYTES);
    return device->n_sm * S::TEAMS * (fitting < S::BLOCKS ? fitting : S::BLOCKS);
}

int fused_gradient_h_teams(const struct fused_device *device, int log2_n)
{
    return with_size<gradient_h_size>(log2_n, [&](auto s) { return teams_of<decltype(s)>(device); });
}

int fused_gradients_teams(const struct fused_device *device, int log2_n)
{
    return with_size<gradients_size>(log2_n,
                                     [&](auto s) { return decltype(s)::HAS_BOTH ? teams_of<decltype(s)>(device) : 0; });
}

size_t fused_gradient_h_stash(int log2_n, int64_t n_units)
{
    return with_size<gradient_h_size>(log2_n, [&](auto s) {
        using S = decltype(s);
        return ceil_div(n_units, S::TEAMS) * S::TEAMS * S::STASH_BYTES;
    });
}

cudaError_t fused_bank_sum_launch(const struct fused_gradient_h *p, cudaStream_t stream)
{
    enum : unsigned { MAX_Y = 65535 };
    for (unsigned first = 0, n; first < p->groups.n_filters; first += n) {
        n = (unsigned)p->groups.n_filters - first < MAX_Y ? (unsigned)p->groups.n_filters - first : MAX_Y;
        bank_sum_kernel<<<dim3(ceil_div(p->out.frames, 256), n), 256, 0, stream>>>(*p, first);
    }
    return cudaGetLastError();
}

cudaError_t fused_gradient_h_launch(int log2_n, bool real, const struct fused_gradient_h *p, cudaStream_t stream)
{
    return with_size<gradient_h_size>(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned tasks = (unsigned)(rows_of_group(p->groups) * p->n_windows);
        const unsigned blocks = ceil_div((int64_t)p->groups.n * p->n_slices, S::TEAMS);
        const unsigned of_slice = ceil_div(tasks, p->n_slices);
        const kernel_kind kind = kind_of(p->groups, real);
        const bool is_general = any_has_16_bits(p->x, p->gy, p->out, p->spectra ? p->gx : p->x);
        const cudaError_t status = with_kind<S::REAL_16_BITS>(kind, is_general, [&](auto a_kind, auto has_16_bits) {
            auto kernel = gradient_h_kernel<S::LOG_N, a_kind.value, has_16_bits.value, false>;
            size_t bytes = S::BYTES;
            if constexpr (S::HAS_BOTH)
                if (p->spectra) {
                    kernel = gradient_h_kernel<S::LOG_N, a_kind.value, has_16_bits.value, true>;
                    bytes = gradients_size<S::LOG_N>::BYTES;
                }
            kernel<<<blocks, S::THREADS, bytes, stream>>>(*p, tasks, of_slice);
            return cudaGetLastError();
        });
        if (!status && p->groups.index) return fused_bank_sum_launch(p, stream);
        if (status || p->n_slices == 1) return status;
        sum_kernel<<<dim3(ceil_div(p->out.frames, 256), (unsigned)p->groups.n), 256, 0, stream>>>(*p);
        return cudaGetLastError();
    });
}
