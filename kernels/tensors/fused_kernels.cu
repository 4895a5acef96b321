/* fused_kernels - see the header. A unit is a window of a row; units are sorted by the filter, then the row, then the
 * window, so that the teams of a multiprocessor share spectra in the L1 cache.
 *
 * cost     a unit: 6 N log2(N) FMA, 8 N for the product and the shift, 2 loads or 1 and 1 or 2 stores a point
 * ceiling  of the FMA rate from N = 1024 on; below, of device memory
 */
#include "early_launch.cuh"
#include "fft_tree.cuh"
#include "fused_kernels.h"
#include "row_windows.cuh"

/* Where a unit is. */
struct unit_place {
    int64_t in, out;          /* of its first point, in x and in y                                                    */
    int first, last;          /* points in x                                                                          */
    int out_last;             /* the first point behind y                                                             */
    unsigned group;
};

/* The windows of x and of gy whose spectra are multiplied. */
struct window_pair {
    int64_t x, gy;
    int x_first, x_last, gy_first, gy_last;
};

/* A thread has 32 points and 128 registers, or 16 points and 64 registers: a multiprocessor holds 512 or 1024 threads. */
template <int LOG_N> struct size : fft_tree<LOG_N, log_e_of(LOG_N)> {
    using tree = fft_tree<LOG_N, log_e_of(LOG_N)>;
    static constexpr int THREADS = tree::T > 128 ? tree::T : 128, TEAMS = THREADS / tree::T,
                         BLOCKS = (tree::E == 16 && LOG_N > 8 ? 1024 : 512) / THREADS,
                         PLACES = tree::T < 32 ? tree::T : 32; /* of a team, at once */
    static constexpr size_t POINT_BYTES = tree::POINTS * sizeof(float2),
                            FACTOR_BYTES = (sizeof(typename tree::factors) + 15) / 16 * 16,
                            PLACE_BYTES = TEAMS * PLACES * sizeof(window_pair), /* or unit_place */
                            BYTES = FACTOR_BYTES + TEAMS * POINT_BYTES;
    /* gradient_h_kernel keeps the spectrum of x and the sum of the products: up to 2^12 in shared memory and in registers,
     * else both in device memory. */
    static constexpr bool IS_SMALL = LOG_N <= 12;
    static constexpr int GRADIENT_BLOCKS = LOG_N <= 8 ? 4 : LOG_N <= 10 ? 3 : LOG_N == 11 ? 5 : LOG_N <= 13 ? 2 : 1;
    static constexpr size_t CONVOLVE_BYTES = BYTES + PLACE_BYTES,
                            GRADIENT_BYTES = CONVOLVE_BYTES + (IS_SMALL ? TEAMS * tree::N * sizeof(float2) : 0),
                            STASH_BYTES = IS_SMALL ? 0 : 2 * tree::N * sizeof(float2); /* of a team, in device memory */
};

/* Loads the 2N points of a window as lo - i hi. REAL: hi is 0. */
template <class S, bool REAL> static __device__ __forceinline__ void load(float2 *r, const window &w, int t)
{
    if (w.first == 0 && w.last >= (REAL ? S::N : 2 * S::N)) {
        const float *from = w.data + t;
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].x = from[S::T * j];
        if (!REAL) {
#pragma unroll
            for (int j = 0; j < S::E; j++) r[j].y = -from[S::T * j + S::N];
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < S::E; j++) r[j].x = point(w, t + S::T * j);
    if (!REAL) {
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j].y = -point(w, t + S::T * j + S::N);
    }
}

/* Writes points first <= p < last of an inverse to out[p]. */
template <class S, bool REAL>
static __device__ __forceinline__ void store(float *out, int first, int last, float scale, float2 *r, int t)
{
    unrolled<S::E>([&](auto j) {
        const float2 z = S::template unshifted<j.value>(r[j.value]);
        r[j.value] = make_float2(scale * z.x, -scale * z.y);
    });
    if (first == 0 && last >= (REAL ? S::N : 2 * S::N)) {
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            out[t + S::T * j] = r[j].x;
            if (!REAL) out[t + S::T * j + S::N] = r[j].y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < S::E; j++) {
        const int p = t + S::T * j;
        if (p >= first && p < last) out[p] = r[j].x;
        if (!REAL && p + S::N >= first && p + S::N < last) out[p + S::N] = r[j].y;
    }
}

template <int LOG_N>
static __global__ void __launch_bounds__(size<LOG_N>::THREADS, size<LOG_N>::BLOCKS) spectra_kernel(fused_spectra p)
{
    extern __shared__ float4 shared[];
    using S = size<LOG_N>;
    typename S::factors *f = reinterpret_cast<typename S::factors *>(shared);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::FACTOR_BYTES) + team * S::POINTS;
    const int unit = blockIdx.x * S::TEAMS + team;
    float2 r[S::E];
    next_may_begin();
    S::factors_make(f);
    const unsigned group = (unsigned)(p.groups.first + (unit < p.groups.n ? unit : 0));
    row_place at = place_of(p.groups, group, 0);
    if (p.groups.h_batch == 1) at.batch = 0;
    if (p.groups.h_channels == 1) at.channel = 0;
    const window w = window_of(p.taps, p.h, at, 0, p.lengths ? p.lengths[group] : p.h.frames, 2 * S::N);
    load<S, false>(r, w, t);
    __syncthreads();
    S::template forward<false>(s, f, t, r);
    if (unit >= p.groups.n) return;
    const float scale = 1.0f / S::N, turn = p.conjugate ? -scale : scale;
#pragma unroll
    for (int m = 0; m < S::E; m++)
        p.spectra[(size_t)unit * S::N + m * S::T + t] = make_float2(scale * r[m].x, turn * r[m].y);
}

template <class S>
static __device__ unit_place place_of_unit(const fused_convolve &p, unsigned unit, bool is_unit, unsigned units_of_group)
{
    const unsigned group = is_unit ? unit / units_of_group : 0, task = is_unit ? unit - group * units_of_group : 0;
    const unsigned row = task / (unsigned)p.n_windows;
    const int64_t start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop, left = p.out.frames - start + p.out_first;
    const row_place at = place_of(p.groups, group + (unsigned)p.groups.first, row);
    const window w = window_of(p.x, p.in, at, start + p.in_first, p.in.frames, 2 * S::N);
    unit_place place;
    place.in = w.data - p.x;
    place.out = at.batch * p.out.stride[0] + at.channel * p.out.stride[1] + start - p.out_first;
    place.first = w.first;
    place.last = is_unit ? w.last : w.first;
    place.out_last = !is_unit ? 0 : left < p.out_end ? (int)left : p.out_end;
    place.group = group;
    return place;
}

template <int LOG_N, bool REAL>
static __global__ void __launch_bounds__(size<LOG_N>::THREADS, size<LOG_N>::BLOCKS)
    convolve_kernel(fused_convolve p, unsigned units, unsigned units_of_group)
{
    extern __shared__ float4 shared[];
    using S = size<LOG_N>;
    typename S::factors *f = reinterpret_cast<typename S::factors *>(shared);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::FACTOR_BYTES) + team * S::POINTS;
    unit_place *places = reinterpret_cast<unit_place *>(reinterpret_cast<char *>(shared) + S::BYTES) + team * S::PLACES;
    /* Blocks i and i + n_sm start on the same multiprocessor. Its teams take units by turns, so that they use the same
     * spectrum, from L1. */
    const unsigned n_sm = p.n_sm, sm = blockIdx.x % n_sm, blocks = (gridDim.x - sm + n_sm - 1) / n_sm;
    const unsigned from = (unsigned)((uint64_t)units * sm / n_sm), to = (unsigned)((uint64_t)units * (sm + 1) / n_sm);
    const unsigned step = blocks * S::TEAMS, first = from + blockIdx.x / n_sm * S::TEAMS;
    S::factors_make(f);
    __syncthreads();
    for (unsigned k = 0; first + k * step < to; k++) { /* the same for all teams of a block */
        const unsigned slot = k % S::PLACES;
        if (slot == 0) { /* each thread divides for another unit */
            const unsigned unit = first + team + (k + (unsigned)t) * step;
            S::team_sync();
            if (t < S::PLACES) places[t] = place_of_unit<S>(p, unit, unit < to, units_of_group);
            S::team_sync();
        }
        const unit_place &at = places[slot];
        const window w = {p.x + at.in, at.first, at.last};
        float2 r[S::E];
        load<S, REAL>(r, w, t);
        S::template forward<REAL>(s, f, t, r);
        previous_wait(); /* for the spectra */
        const float2 *h = p.spectra + (size_t)at.group * S::N + t;
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], __ldg(h + m * S::T));
        S::inverse(s, f, t, r);
        store<S, REAL>(p.y + at.out, p.out_first, at.out_last, 1.0f, r, t);
    }
}

template <class S>
static __device__ window_pair pair_of_task(const fused_gradient_h &p, unsigned group, unsigned task, bool is_task)
{
    if (!is_task) return window_pair{0, 0, 0, 0, 0, 0};
    const unsigned row = task / (unsigned)p.n_windows;
    const int64_t start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop, gy_start = start + p.gy_first;
    const row_place at = place_of(p.groups, group, row);
    const window x = window_of(p.x_data, p.x, at, start, start + p.hop, 2 * S::N);
    const window gy = window_of(p.gy_data, p.gy, at, gy_start, gy_start + 2 * S::N, 2 * S::N);
    return window_pair{x.data - p.x_data, gy.data - p.gy_data, x.first, x.last, gy.first, gy.last};
}

template <int LOG_N, bool REAL>
static __global__ void __launch_bounds__(size<LOG_N>::THREADS, size<LOG_N>::GRADIENT_BLOCKS)
    gradient_h_kernel(fused_gradient_h p, unsigned tasks, unsigned tasks_of_slice)
{
    extern __shared__ float4 shared[];
    using S = size<LOG_N>;
    typename S::factors *f = reinterpret_cast<typename S::factors *>(shared);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::FACTOR_BYTES) + team * S::POINTS;
    window_pair *places = reinterpret_cast<window_pair *>(reinterpret_cast<char *>(shared) + S::BYTES) + team * S::PLACES;
    const unsigned unit = blockIdx.x * S::TEAMS + team, n_units = (unsigned)(p.groups.n * p.n_slices);
    const unsigned local = unit / (unsigned)p.n_slices, slice = unit - local * (unsigned)p.n_slices;
    const unsigned group = (unsigned)p.groups.first + local;
    /* Each thread reads and writes places of its own. */
    float2 *spectrum = t + (S::IS_SMALL ? reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::CONVOLVE_BYTES) +
                                              team * S::N
                                        : p.stash + (size_t)unit * 2 * S::N);
    float2 *sums = spectrum + S::N, sum[S::IS_SMALL ? S::E : 1];
    S::factors_make(f);
    __syncthreads();
    float2 r[S::E];
#pragma unroll
    for (int m = 0; m < S::E; m++) {
        if (S::IS_SMALL) sum[S::IS_SMALL * m] = make_float2(0.0f, 0.0f);
        else sums[m * S::T] = make_float2(0.0f, 0.0f);
    }
    for (unsigned k = 0; k < tasks_of_slice; k++) { /* the same for all teams of a warp */
        if (k % S::PLACES == 0) { /* each thread divides for another task */
            const unsigned later = k + (unsigned)t, task = slice * tasks_of_slice + later;
            S::team_sync();
            if (t < S::PLACES)
                places[t] = pair_of_task<S>(p, group, task, unit < n_units && later < tasks_of_slice && task < tasks);
            S::team_sync();
        }
        const window_pair &at = places[k % S::PLACES];
        load<S, REAL>(r, window{p.x_data + at.x, at.x_first, at.x_last}, t);
        S::team_sync();
        S::template forward<REAL>(s, f, t, r);
#pragma unroll
        for (int m = 0; m < S::E; m++) spectrum[m * S::T] = r[m];
        load<S, REAL>(r, window{p.gy_data + at.gy, at.gy_first, at.gy_last}, t);
        S::team_sync();
        S::template forward<REAL>(s, f, t, r);
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
    }
#pragma unroll
    for (int m = 0; m < S::E; m++) r[m] = S::IS_SMALL ? sum[S::IS_SMALL * m] : sums[m * S::T];
    S::inverse(s, f, t, r);
    if (unit >= n_units) return;
    float *out;
    int last = (int)p.out.frames;
    if (p.n_slices == 1) {
        row_place at = place_of(p.groups, group, 0);
        out = p.gh + (p.groups.h_batch == 1 ? 0 : at.batch) * p.out.stride[0] +
              (p.groups.h_channels == 1 ? 0 : at.channel) * p.out.stride[1];
        if (p.lengths) {
            const int64_t given = p.lengths[group];
            const int length = given < 0 ? 0 : given < last ? (int)given : last;
#pragma unroll
            for (int j = 0; j < (REAL ? 1 : 2) * S::E; j++)
                if (t + S::T * j >= length && t + S::T * j < last) out[t + S::T * j] = 0.0f;
            last = length;
        }
    } else {
        out = p.partial + ((size_t)slice * (size_t)p.groups.n + local) * (size_t)p.out.frames;
    }
    store<S, REAL>(out, 0, last, 1.0f / S::N, r, t);
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
    const row_place at = place_of(p.groups, group, 0);
    p.gh[(p.groups.h_batch == 1 ? 0 : at.batch) * p.out.stride[0] +
         (p.groups.h_channels == 1 ? 0 : at.channel) * p.out.stride[1] + k] = sum;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Calls use with the kernels of a size. */
template <class Use> static auto with_size(int log2_n, Use use) -> decltype(use(size<7>()))
{
    switch (log2_n) {
        case 7: return use(size<7>());
        case 9: return use(size<9>());
        case 10: return use(size<10>());
        case 11: return use(size<11>());
        case 12: return use(size<12>());
        case 13: return use(size<13>());
        default: return use(size<14>());
    }
}

static unsigned ceil_div(int64_t a, int64_t b) { return (unsigned)((a + b - 1) / b); }

/* Blocks of `bytes` shared memory that run at once on the device. */
static unsigned resident(const struct fused_device *device, int most, size_t bytes)
{
    const int fitting = (int)((size_t)device->shared_bytes / bytes);
    return (unsigned)(device->n_sm * (fitting < 1 ? 1 : fitting < most ? fitting : most));
}

template <int LOG_N> struct load_kernels {
    static cudaError_t run(const struct fused_device *device)
    {
        using S = size<LOG_N>;
        const struct { const void *kernel; size_t bytes; } kernels[] = {
            {(const void *)spectra_kernel<LOG_N>, S::BYTES},
            {(const void *)convolve_kernel<LOG_N, false>, S::CONVOLVE_BYTES},
            {(const void *)convolve_kernel<LOG_N, true>, S::CONVOLVE_BYTES},
            {(const void *)gradient_h_kernel<LOG_N, false>, S::GRADIENT_BYTES},
            {(const void *)gradient_h_kernel<LOG_N, true>, S::GRADIENT_BYTES}};
        cudaError_t status = cudaSuccess;
        for (const auto &k : kernels)
            if (!status && k.bytes <= (size_t)device->shared_bytes)
                status = cudaFuncSetAttribute(k.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)k.bytes);
        return status;
    }
};

cudaError_t fused_load(int number, struct fused_device *device)
{
    cudaError_t status = cudaDeviceGetAttribute(&device->n_sm, cudaDevAttrMultiProcessorCount, number);
    if (!status)
        status = cudaDeviceGetAttribute(&device->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
    int major = 0;
    if (!status) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    device->is_early = major >= 9;
    if (!status) status = load_kernels<7>::run(device);
    if (!status) status = load_kernels<9>::run(device);
    if (!status) status = load_kernels<10>::run(device);
    if (!status) status = load_kernels<11>::run(device);
    if (!status) status = load_kernels<12>::run(device);
    if (!status) status = load_kernels<13>::run(device);
    if (!status) status = load_kernels<14>::run(device);
    return status;
}

int fused_teams(const struct fused_device *device, int log2_n, bool gradient_h)
{
    if (log2_n < FUSED_LEAST || log2_n > FUSED_MOST || log2_n == 8) return 0;
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        const size_t bytes = gradient_h ? S::GRADIENT_BYTES : S::CONVOLVE_BYTES;
        if (bytes > (size_t)device->shared_bytes) return 0;
        return S::TEAMS * (int)resident(device, gradient_h ? S::GRADIENT_BLOCKS : S::BLOCKS, bytes);
    });
}

cudaError_t fused_spectra_launch(int log2_n, const struct fused_spectra *p, cudaStream_t stream)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned blocks = ceil_div(p->groups.n, S::TEAMS);
        spectra_kernel<S::LOG_N><<<blocks, S::THREADS, S::BYTES, stream>>>(*p);
        return cudaGetLastError();
    });
}

cudaError_t fused_convolve_launch(const struct fused_device *device, int log2_n, bool real,
                                  const struct fused_convolve *p, cudaStream_t stream)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned of_group = (unsigned)(rows_of_group(p->groups) * p->n_windows);
        const unsigned units = (unsigned)p->groups.n * of_group, blocks = ceil_div(units, S::TEAMS);
        const unsigned most = (unsigned)fused_teams(device, log2_n, false) / S::TEAMS;
        struct fused_convolve all = *p;
        all.n_sm = (unsigned)device->n_sm < blocks ? (unsigned)device->n_sm : blocks;
        return launch_early(device->is_early, real ? convolve_kernel<S::LOG_N, true> : convolve_kernel<S::LOG_N, false>,
                            dim3(blocks < most ? blocks : most), S::THREADS, S::CONVOLVE_BYTES, stream, all, units, of_group);
    });
}

size_t fused_gradient_h_stash(int log2_n, int64_t n_units)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        return ceil_div(n_units, S::TEAMS) * S::TEAMS * S::STASH_BYTES;
    });
}

cudaError_t fused_gradient_h_launch(int log2_n, bool real, const struct fused_gradient_h *p, cudaStream_t stream)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned tasks = (unsigned)(rows_of_group(p->groups) * p->n_windows);
        const unsigned blocks = ceil_div((int64_t)p->groups.n * p->n_slices, S::TEAMS);
        const unsigned of_slice = ceil_div(tasks, p->n_slices);
        if (real) gradient_h_kernel<S::LOG_N, true><<<blocks, S::THREADS, S::GRADIENT_BYTES, stream>>>(*p, tasks, of_slice);
        else gradient_h_kernel<S::LOG_N, false><<<blocks, S::THREADS, S::GRADIENT_BYTES, stream>>>(*p, tasks, of_slice);
        cudaError_t status = cudaGetLastError();
        if (status || p->n_slices == 1) return status;
        sum_kernel<<<dim3(ceil_div(p->out.frames, 256), (unsigned)p->groups.n), 256, 0, stream>>>(*p);
        return cudaGetLastError();
    });
}
