/* fused_kernels - the kernels of fused_kernels.h. A unit is a window of a row; units are sorted by filter, then row,
 * then window, so that the teams of a multiprocessor share spectra in the L1 cache.
 *
 * cost     a unit: 6 N log2(N) FMA, 8 N for the product and the shift; a point: 1 load (REAL) or 2, and as many stores
 * ceiling  the FMA rate from N = 1024 on; below, the bandwidth of device memory
 */
#include "early_launch.cuh"
#include "fused_kernels.h"
#include "fused_sizes.cuh"

/* The position of a unit in x and y. */
struct fused_unit {
    window_position in;       /* position in x */
    int64_t out;              /* element of y that is point 0 */
    int out_last;             /* points from out_last on are not stored */
    unsigned group;           /* number of the spectrum; NO_SPECTRUM: the points are 0 */
};
enum : unsigned { NO_SPECTRUM = ~0u };

template <int LOG_N> struct spectra_size : team_size<LOG_N> {
    using team = team_size<LOG_N>;
    static constexpr size_t BYTES = team::FACTOR_BYTES + team::TEAMS * team::POINT_BYTES;
};

/* From 2^10 to 2^12 points all teams of a multiprocessor are in one block: these teams read one spectrum from L1. */
static constexpr bool is_wide(int log_n) { return log_n >= 10 && log_n <= 12; }
template <int LOG_N> struct convolve_size : team_size<LOG_N, is_wide(LOG_N)> {
    using team = team_size<LOG_N, is_wide(LOG_N)>;
    static constexpr int THREADS = is_wide(LOG_N) ? team::RESIDENT : team::THREADS, TEAMS = THREADS / team::T,
                         BLOCKS = team::RESIDENT / THREADS,
                         MIN_TEAMS = team::T < 32 ? 32 / team::T : 1; /* whole warps */
    static constexpr size_t TEAM_BYTES = team::POINT_BYTES + team::POSITIONS * sizeof(fused_unit);
    /* The max. number of teams of a block. */
    static int max_teams(const struct fused_device *device)
    {
        const int64_t fitting = ((int64_t)device->shared_bytes - (int64_t)team::FACTOR_BYTES) / (int64_t)TEAM_BYTES;
        return fitting < MIN_TEAMS ? 0 : fitting > TEAMS ? TEAMS : (int)fitting / MIN_TEAMS * MIN_TEAMS;
    }
    static size_t bytes(int teams) { return team::FACTOR_BYTES + (size_t)teams * TEAM_BYTES; }
    /* The number of blocks of `teams` teams that run at once. */
    static int blocks(const struct fused_device *device, int teams)
    {
        const int fitting = (int)((size_t)device->shared_bytes / bytes(teams));
        return device->n_sm * (fitting < BLOCKS ? fitting : BLOCKS);
    }
};

/* Transforms the filter of a group. All threads of the block call it: it waits for the factors. */
template <class S>
static __device__ __forceinline__ void spectrum_make(const fused_spectra &p, unsigned group, float2 *s,
                                                     const typename S::factors *f, int t, float2 *r)
{
    const int64_t number = filter_of(p.groups, group);
    row_position at = position_of(p.groups, group, 0);
    if (p.groups.index) at = row_position{(int)number, 0, 0};
    const int64_t n_taps = number < 0 ? 0 : p.lengths ? p.lengths[number] : p.h.frames;
    const window_position w = window_of(p.h, at, 0, n_taps, 2 * S::N);
    team_load<S, false>(r, row_window_at<true>(p.taps, p.h, w), t);
    __syncthreads();
    S::template forward<false>(s, f, t, r);
    const float scale = 1.0f / S::N, turn = p.conjugate ? -scale : scale;
#pragma unroll
    for (int m = 0; m < S::E; m++) r[m] = make_float2(scale * r[m].x, turn * r[m].y);
}

template <int LOG_N>
static __global__ void __launch_bounds__(spectra_size<LOG_N>::THREADS,
                                         spectra_size<LOG_N>::RESIDENT / spectra_size<LOG_N>::THREADS)
    spectra_kernel(fused_spectra p)
{
    extern __shared__ float4 shared[];
    using S = spectra_size<LOG_N>;
    auto *f = shared_at<typename S::factors>(shared, 0);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES + team * S::POINT_BYTES);
    const int unit = (int)blockIdx.x * S::TEAMS + team;
    float2 r[S::E];
    next_may_begin();
    S::factors_make(f);
    spectrum_make<S>(p, (unsigned)(p.groups.first + (unit < p.groups.n ? unit : 0)), s, f, t, r);
    if (unit >= p.groups.n) return;
#pragma unroll
    for (int m = 0; m < S::E; m++) p.spectra[(size_t)unit * S::N + m * S::T + t] = r[m];
}

/* The position of a unit in x and y. Without a unit nothing is loaded or stored; an early return would make the
 * kernel slower by 2 % at N = 1024. */
template <class S>
static __device__ fused_unit unit_of(const fused_convolve &p, unsigned unit, bool is_unit, unsigned units_of_group)
{
    const unsigned group = is_unit ? unit / units_of_group : 0, task = is_unit ? unit - group * units_of_group : 0;
    const unsigned row = task / (unsigned)p.n_windows;
    const int64_t start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop;
    const int64_t left = p.out.frames - start + p.out_first;
    const row_position at = position_of(p.groups, group + (unsigned)p.groups.first, row);
    fused_unit position;
    position.in = window_of(p.in, at, start + p.in_first, p.in.frames, 2 * S::N);
    if (!is_unit) position.in.last = position.in.first;
    position.out = at.batch * p.out.stride[0] + at.channel * p.out.stride[1] + start - p.out_first;
    position.out_last = !is_unit ? 0 : left < p.out_end ? (int)left : p.out_end;
    position.group = group;
    return position;
}

/* The position of a unit for filters by index and packed sequences. The units of sequences are sorted by channel, then
 * window; some have nothing to compute, or a filter of another launch. */
template <class S>
static __device__ fused_unit listed_unit_of(const fused_convolve &p, unsigned unit, bool is_unit,
                                            unsigned units_of_group)
{
    fused_unit position = {};
    position.group = NO_SPECTRUM;
    if (!is_unit) return position;
    fused_rows in = p.in, out = p.out;
    int64_t in_begin = 0, out_begin = 0, start;
    row_position at = {};
    unsigned group;
    if (p.groups.offsets) {
        item_window w;
        at.channel = (int)(unit / (unsigned)p.n_windows);
        if (!item_window_of(p.groups, p.hop, unit - at.channel * (unsigned)p.n_windows, &w)) return position;
        group = group_of(p.groups, w.item, (unsigned)at.channel) - (unsigned)p.groups.first;
        if (group >= (unsigned)p.groups.n) return position;
        in = rows_of_item(p.groups, p.in, w.item, &in_begin);
        out = rows_of_item(p.groups, p.out, w.item, &out_begin);
        start = w.start;
    } else {
        group = unit / units_of_group;
        const unsigned task = unit - group * units_of_group, row = task / (unsigned)p.n_windows;
        start = (int64_t)(task - row * (unsigned)p.n_windows) * p.hop;
        at = position_of(p.groups, group + (unsigned)p.groups.first, row);
    }
    const int64_t left = out.frames - start + p.out_first;
    position.in = window_of(in, at, start + p.in_first, in.frames, 2 * S::N);
    position.in.at += in_begin;
    position.out = at.batch * out.stride[0] + at.channel * out.stride[1] + out_begin + start - p.out_first;
    position.out_last = left < p.out_end ? (int)left : p.out_end;
    const int64_t number = filter_of(p.groups, group + (unsigned)p.groups.first);
    if (number < 0)
        position.in.last = position.in.first; /* nothing is read */
    else
        position.group = p.by_bank ? (unsigned)number : group;
    return position;
}

/* Before sm_80 two blocks would spill registers. */
static constexpr int min_blocks(int log_n, kernel_kind kind, int blocks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    if (log_n == 13 && kind == LISTED) return 1;
#endif
    (void)log_n, (void)kind;
    return blocks;
}

template <int LOG_N, kernel_kind KIND, bool HAS_16_BITS>
static __global__ void __launch_bounds__(convolve_size<LOG_N>::THREADS,
                                         min_blocks(LOG_N, KIND, convolve_size<LOG_N>::BLOCKS))
    convolve_kernel(fused_convolve p, unsigned units, unsigned units_of_group)
{
    extern __shared__ float4 shared[];
    using S = convolve_size<LOG_N>;
    auto *f = shared_at<typename S::factors>(shared, 0);
    constexpr bool REAL = KIND == REAL_ROWS;
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T, teams = blockDim.x / S::T;
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES + team * S::POINT_BYTES);
    fused_unit *ours = shared_at<fused_unit>(shared, S::FACTOR_BYTES + teams * S::POINT_BYTES) + team * S::POSITIONS;
    /* Each block has a range of the units. Its teams compute them in turn. */
    const unsigned first = (unsigned)((uint64_t)units * blockIdx.x / gridDim.x);
    const unsigned last = (unsigned)((uint64_t)units * (blockIdx.x + 1) / gridDim.x);
    S::factors_make(f);
    __syncthreads();
    for (unsigned k = 0; first + k * teams < last; k++) { /* the same for all teams */
        const unsigned i = k % S::POSITIONS;
        if (i == 0) { /* each of POSITIONS threads computes the position of another unit */
            const unsigned unit = first + team + (k + (unsigned)t) * teams;
            S::team_sync();
            if (t < S::POSITIONS)
                ours[t] = KIND == LISTED ? listed_unit_of<S>(p, unit, unit < last, units_of_group)
                                         : unit_of<S>(p, unit, unit < last, units_of_group);
            S::team_sync();
        }
        const fused_unit &at = ours[again((int)i)]; /* 2^13 points would need one register too many */
        if (KIND == LISTED && at.group == NO_SPECTRUM) {
            previous_wait();
            for (int point = p.out_first + t; point < at.out_last; point += S::T)
                element_put(p.y, at.out + point, p.out.type, 0.0f);
        }
        if (KIND == LISTED && is_warp_idle<S>(team, [&](int other) {
                return (ours + (other - team) * S::POSITIONS)[i].group == NO_SPECTRUM;
            }))
            continue;
        float2 r[S::E];
        team_load<S, REAL>(r, row_window_at<HAS_16_BITS>(p.x, p.in, at.in), again(t));
        if (i + 1 < S::POSITIONS) prefetch<S, REAL>(row_window_at<HAS_16_BITS>(p.x, p.in, ours[i + 1].in), t);
        S::template forward<REAL>(s, f, t, r);
        previous_wait(); /* the spectra must be complete, and y free to be written */
        const bool is_stored = KIND != LISTED || at.group != NO_SPECTRUM;
        const float2 *h = p.spectra + (size_t)(is_stored ? at.group : 0) * S::N + t;
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
        S::inverse(s, f, t, r);
        team_store<S, REAL>(p.y, at.out, HAS_16_BITS ? p.out.type : HC_FLOAT32, p.out_first,
                            is_stored ? at.out_last : 0, 1.0f, r, again(t));
    }
}

/* Few units of the smallest size: each team transforms its unit's filter, too, 9 N log2(N) FMA. One launch instead of
 * two costs the host less. */
using one_launch_size = spectra_size<FUSED_MIN>;
static __global__ void __launch_bounds__(one_launch_size::THREADS, one_launch_size::RESIDENT / one_launch_size::THREADS)
    one_launch_kernel(fused_convolve p, fused_spectra filters, unsigned units, unsigned units_of_group)
{
    extern __shared__ float4 shared[];
    using S = one_launch_size;
    auto *f = shared_at<typename S::factors>(shared, 0);
    const int team = threadIdx.x / S::T, t = threadIdx.x % S::T;
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES + team * S::POINT_BYTES);
    const unsigned unit = blockIdx.x * S::TEAMS + team;
    const fused_unit at = unit_of<S>(p, unit, unit < units, units_of_group);
    float2 h[S::E], r[S::E];
    S::factors_make(f);
    spectrum_make<S>(filters, filters.groups.first + at.group, s, f, t, h);
    team_load<S, false>(r, row_window_at<false>(p.x, p.in, at.in), t);
    S::team_sync();
    S::template forward<false>(s, f, t, r);
#pragma unroll
    for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m]);
    S::inverse(s, f, t, r);
    team_store<S, false>(p.y, at.out, HC_FLOAT32, p.out_first, at.out_last, 1.0f, r, t);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

cudaError_t fused_load(int number, struct fused_device *device)
{
    cudaError_t status = cudaDeviceGetAttribute(&device->n_sm, cudaDevAttrMultiProcessorCount, number);
    if (!status)
        status = cudaDeviceGetAttribute(&device->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
    int major = 0;
    if (!status) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    struct cudaFuncAttributes code = {};
    if (!status) status = cudaFuncGetAttributes(&code, spectra_kernel<FUSED_MIN>);
    device->is_early = major >= 9 && code.ptxVersion >= 90;
    if (!status)
        status = with_every_size<spectra_size>([&](auto s) {
            using S = decltype(s);
            return shared_allow(device, S::BYTES, spectra_kernel<S::LOG_N>);
        });
    if (!status) status = shared_allow(device, one_launch_size::BYTES, one_launch_kernel);
    if (!status)
        status = with_every_size<convolve_size>([&](auto s) {
            using S = decltype(s);
            return shared_allow(device, S::bytes(S::max_teams(device)), convolve_kernel<S::LOG_N, WHOLE, false>,
                                convolve_kernel<S::LOG_N, REAL_ROWS, false>,
                                convolve_kernel<S::LOG_N, real_kind_of_16_bits(S::LOG_N), true>,
                                convolve_kernel<S::LOG_N, LISTED, true>);
        });
    return status ? status : fused_gradient_h_load(device);
}

int fused_teams(const struct fused_device *device, int log2_n)
{
    return with_size<convolve_size>(log2_n, [&](auto s) {
        const int teams = decltype(s)::max_teams(device);
        return teams ? teams * decltype(s)::blocks(device, teams) : 0;
    });
}

cudaError_t fused_spectra_launch(int log2_n, const struct fused_spectra *p, cudaStream_t stream)
{
    return with_size<spectra_size>(log2_n, [&](auto s) {
        using S = decltype(s);
        /* Not launch_early: convolve_kernel reads x before it waits. All kernels before this one must be complete. */
        spectra_kernel<S::LOG_N><<<ceil_div(p->groups.n, S::TEAMS), S::THREADS, S::BYTES, stream>>>(*p);
        return cudaGetLastError();
    });
}

cudaError_t fused_convolve_launch(const struct fused_device *device, int log2_n, bool real,
                                  const struct fused_convolve *p, cudaStream_t stream)
{
    return with_size<convolve_size>(log2_n, [&](auto s) {
        using S = decltype(s);
        const unsigned of_group = (unsigned)(rows_of_group(p->groups) * p->n_windows);
        const unsigned units =
            p->groups.offsets ? (unsigned)(p->groups.channels * p->n_windows) : (unsigned)p->groups.n * of_group;
        /* Few units are spread over all multiprocessors. */
        const int max_teams = S::max_teams(device), spread = (int)ceil_div(ceil_div(units, device->n_sm), S::MIN_TEAMS);
        const int teams = spread * S::MIN_TEAMS < max_teams ? spread * S::MIN_TEAMS : max_teams;
        const unsigned blocks = ceil_div(units, teams), at_once = (unsigned)S::blocks(device, teams);
        const dim3 grid(blocks < at_once ? blocks : at_once);
        return with_kind<real_kind_of_16_bits(S::LOG_N)>(
            kind_of(p->groups, real), any_has_16_bits(p->in, p->out), [&](auto kind, auto has_16_bits) {
                return launch_early(device->is_early, convolve_kernel<S::LOG_N, kind.value, has_16_bits.value>, grid,
                                    (unsigned)(teams * S::T), S::bytes(teams), stream, *p, units, of_group);
            });
    });
}

int fused_one_launch_windows(const struct fused_device *device)
{
    return device->n_sm * (one_launch_size::RESIDENT / one_launch_size::T) / 2;
}

cudaError_t fused_one_launch(const struct fused_convolve *p, const struct fused_spectra *filters, cudaStream_t stream)
{
    using S = one_launch_size;
    const unsigned of_group = (unsigned)(rows_of_group(p->groups) * p->n_windows);
    const unsigned units = (unsigned)p->groups.n * of_group;
    one_launch_kernel<<<ceil_div(units, S::TEAMS), S::THREADS, S::BYTES, stream>>>(*p, *filters, units, of_group);
    return cudaGetLastError();
}
