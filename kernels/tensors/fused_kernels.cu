/* fused_kernels - see the header. A unit is a window of a row; units are sorted by the filter, then the row, then the
 * window, so that the teams of a multiprocessor share spectra in the L1 cache.
 *
 * cost     a unit: 6 N log2(N) FMA, 8 N for the product and the shift, 2 loads or 1 and 1 or 2 stores a point
 * ceiling  of the FMA rate from N = 1024 on; below, of device memory
 */
#include "fft_tree.cuh"
#include "fused_kernels.h"
#include "row_windows.cuh"

/* A thread has 16 or 32 points, and 128 registers: a multiprocessor holds 512 threads. */
template <int LOG_N> struct size : fft_tree<LOG_N, LOG_N <= 8 ? 4 : 5> {
    using tree = fft_tree<LOG_N, LOG_N <= 8 ? 4 : 5>;
    static constexpr int THREADS = tree::T > 32 ? tree::T : 128, TEAMS = THREADS / tree::T, BLOCKS = 512 / THREADS;
    static constexpr size_t POINT_BYTES = tree::POINTS * sizeof(float2),
                            FACTOR_BYTES = (sizeof(typename tree::factors) + 15) / 16 * 16,
                            BYTES = FACTOR_BYTES + TEAMS * POINT_BYTES, STASH_BYTES = 2 * tree::N * sizeof(float2);
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
    const float scale = 1.0f / S::N;
#pragma unroll
    for (int m = 0; m < S::E; m++)
        p.spectra[(size_t)unit * S::N + m * S::T + t] = make_float2(scale * r[m].x, scale * r[m].y);
}

template <int LOG_N, bool REAL>
static __global__ void __launch_bounds__(size<LOG_N>::THREADS, size<LOG_N>::BLOCKS)
    convolve_kernel(fused_convolve p, unsigned units, unsigned units_of_group, unsigned units_of_block)
{
    extern __shared__ float4 shared[];
    using S = size<LOG_N>;
    typename S::factors *f = reinterpret_cast<typename S::factors *>(shared);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::FACTOR_BYTES) + team * S::POINTS;
    /* Neighbours in the order of units are blocks that start on the same multiprocessor: they share spectra in L1. */
    const unsigned rounds = gridDim.x / p.n_sm, rank = rounds && blockIdx.x < rounds * p.n_sm
                                                           ? blockIdx.x % p.n_sm * rounds + blockIdx.x / p.n_sm
                                                           : blockIdx.x;
    const unsigned from = rank * units_of_block;
    S::factors_make(f);
    __syncthreads();
    for (unsigned k = 0; k < units_of_block; k += S::TEAMS) { /* the same for all teams of a warp */
        const unsigned unit = from + k + team;
        const bool is_unit = k + team < units_of_block && unit < units;
        const unsigned group = is_unit ? unit / units_of_group : 0, task = is_unit ? unit - group * units_of_group : 0;
        const unsigned row = task / (unsigned)p.n_windows;
        const int64_t start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop;
        const row_place at = place_of(p.groups, group + (unsigned)p.groups.first, row);
        window w = window_of(p.x, p.in, at, start + p.in_first, p.in.frames, 2 * S::N);
        if (!is_unit) w.last = w.first;
        float2 r[S::E];
        load<S, REAL>(r, w, t);
        S::template forward<REAL>(s, f, t, r);
        const float2 *h = p.spectra + (size_t)group * S::N + t;
        if (p.conjugate) {
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], conj(__ldg(h + m * S::T)));
        } else {
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], __ldg(h + m * S::T));
        }
        S::inverse(s, f, t, r);
        const int64_t left = p.out.frames - start + p.out_first;
        float *out = p.y + at.batch * p.out.stride[0] + at.channel * p.out.stride[1] + start - p.out_first;
        store<S, REAL>(out, p.out_first, !is_unit ? 0 : left < p.out_end ? (int)left : p.out_end, 1.0f, r, t);
    }
}

template <int LOG_N>
static __global__ void __launch_bounds__(size<LOG_N>::THREADS, (size<LOG_N>::BLOCKS + 1) / 2)
    gradient_h_kernel(fused_gradient_h p, unsigned tasks, unsigned tasks_of_slice, bool stash_is_shared)
{
    extern __shared__ float4 shared[];
    using S = size<LOG_N>;
    typename S::factors *f = reinterpret_cast<typename S::factors *>(shared);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *points = reinterpret_cast<float2 *>(reinterpret_cast<char *>(shared) + S::FACTOR_BYTES);
    float2 *s = points + team * S::POINTS;
    const unsigned unit = blockIdx.x * S::TEAMS + team, n_units = (unsigned)(p.groups.n * p.n_slices);
    const unsigned local = unit / (unsigned)p.n_slices, slice = unit - local * (unsigned)p.n_slices;
    const unsigned group = (unsigned)p.groups.first + local;
    /* Each thread reads and writes places of its own. */
    float2 *spectrum = stash_is_shared ? points + S::TEAMS * S::POINTS + team * 2 * S::N + t
                                       : p.stash + (size_t)unit * 2 * S::N + t;
    float2 *sum = spectrum + S::N;
    S::factors_make(f);
    __syncthreads();
    float2 r[S::E];
    for (int m = 0; m < S::E; m++)
        if (unit < n_units) sum[m * S::T] = make_float2(0.0f, 0.0f);
    for (unsigned k = 0; k < tasks_of_slice; k++) { /* the same for all teams of a warp */
        unsigned task = slice * tasks_of_slice + k;
        const bool is_task = unit < n_units && task < tasks;
        if (!is_task) task = 0;
        const auto window_at = [&](const float *data, const fused_rows &rows, int64_t first, int64_t most) {
            const unsigned row = task / (unsigned)p.n_windows;
            const int64_t start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop;
            const row_place at = place_of(p.groups, is_task ? group : 0, row);
            window w = window_of(data, rows, at, start + first, start + most, 2 * S::N);
            if (!is_task) w.last = w.first;
            return w;
        };
        load<S, false>(r, window_at(p.x_data, p.x, 0, p.hop), t);
        S::team_sync();
        S::template forward<false>(s, f, t, r);
#pragma unroll
        for (int m = 0; m < S::E; m++)
            if (unit < n_units) spectrum[m * S::T] = r[m];
        asm volatile("" : "+r"(task)); /* computes the place again: its registers are needed for the transform */
        load<S, false>(r, window_at(p.gy_data, p.gy, p.gy_first, p.gy_first + 2 * S::N), t);
        S::team_sync();
        S::template forward<false>(s, f, t, r);
        if (unit < n_units) {
#pragma unroll
            for (int m = 0; m < S::E; m++) {
                const float2 x = spectrum[m * S::T], z = cmul(r[m], conj(x));
                const float2 before = sum[m * S::T];
                sum[m * S::T] = make_float2(before.x + z.x, before.y + z.y);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < S::E; m++) r[m] = unit < n_units ? sum[m * S::T] : make_float2(0.0f, 0.0f);
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
            for (int j = 0; j < 2 * S::E; j++)
                if (t + S::T * j >= length && t + S::T * j < last) out[t + S::T * j] = 0.0f;
            last = length;
        }
    } else {
        out = p.partial + ((size_t)slice * (size_t)p.groups.n + local) * (size_t)p.out.frames;
    }
    store<S, false>(out, 0, last, 1.0f / S::N, r, t);
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

/* The shared memory of gradient_h_kernel, with the stash if it fits beside another block's. */
template <class S> static size_t gradient_bytes(const struct fused_device *device)
{
    const size_t with_stash = S::BYTES + S::TEAMS * S::STASH_BYTES;
    return 2 * with_stash <= (size_t)device->shared_bytes ? with_stash : S::BYTES;
}

template <int LOG_N> struct load_kernels {
    static cudaError_t run(const struct fused_device *device)
    {
        using S = size<LOG_N>;
        if (S::BYTES > (size_t)device->shared_bytes) return cudaSuccess;
        const void *kernels[] = {(const void *)spectra_kernel<LOG_N>, (const void *)convolve_kernel<LOG_N, false>,
                                 (const void *)convolve_kernel<LOG_N, true>, (const void *)gradient_h_kernel<LOG_N>};
        cudaError_t status = cudaSuccess;
        for (int i = 0; i < 4 && !status; i++)
            status = cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          (int)(i == 3 ? gradient_bytes<S>(device) : S::BYTES));
        return status;
    }
};

cudaError_t fused_load(int number, struct fused_device *device)
{
    cudaError_t status = cudaDeviceGetAttribute(&device->n_sm, cudaDevAttrMultiProcessorCount, number);
    if (!status)
        status = cudaDeviceGetAttribute(&device->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
    if (!status) status = load_kernels<7>::run(device);
    if (!status) status = load_kernels<9>::run(device);
    if (!status) status = load_kernels<10>::run(device);
    if (!status) status = load_kernels<11>::run(device);
    if (!status) status = load_kernels<12>::run(device);
    if (!status) status = load_kernels<13>::run(device);
    if (!status) status = load_kernels<14>::run(device);
    return status;
}

int fused_teams(const struct fused_device *device, int log2_n)
{
    if (log2_n < FUSED_LEAST || log2_n > FUSED_MOST || log2_n == 8) return 0;
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        return S::BYTES > (size_t)device->shared_bytes ? 0 : S::TEAMS * (int)resident(device, S::BLOCKS, S::BYTES);
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
        const unsigned units = (unsigned)p->groups.n * of_group;
        const unsigned rounds = ceil_div(units, (int64_t)S::TEAMS * resident(device, S::BLOCKS, S::BYTES));
        const unsigned of_block = rounds * S::TEAMS, blocks = ceil_div(units, of_block);
        struct fused_convolve all = *p;
        all.n_sm = (unsigned)device->n_sm;
        if (real)
            convolve_kernel<S::LOG_N, true><<<blocks, S::THREADS, S::BYTES, stream>>>(all, units, of_group, of_block);
        else
            convolve_kernel<S::LOG_N, false><<<blocks, S::THREADS, S::BYTES, stream>>>(all, units, of_group, of_block);
        return cudaGetLastError();
    });
}

size_t fused_gradient_h_stash(const struct fused_device *device, int log2_n, int64_t n_units)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        return gradient_bytes<S>(device) > S::BYTES ? (size_t)0
                                                    : ceil_div(n_units, S::TEAMS) * S::TEAMS * S::STASH_BYTES;
    });
}

cudaError_t fused_gradient_h_launch(const struct fused_device *device, int log2_n, const struct fused_gradient_h *p,
                                    cudaStream_t stream)
{
    return with_size(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned tasks = (unsigned)(rows_of_group(p->groups) * p->n_windows);
        const unsigned blocks = ceil_div((int64_t)p->groups.n * p->n_slices, S::TEAMS);
        const size_t bytes = gradient_bytes<S>(device);
        gradient_h_kernel<S::LOG_N><<<blocks, S::THREADS, bytes, stream>>>(*p, tasks, ceil_div(tasks, p->n_slices),
                                                                           bytes > S::BYTES);
        cudaError_t status = cudaGetLastError();
        if (status || p->n_slices == 1) return status;
        sum_kernel<<<dim3(ceil_div(p->out.frames, 256), (unsigned)p->groups.n), 256, 0, stream>>>(*p);
        return cudaGetLastError();
    });
}
