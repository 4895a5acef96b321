/* long_kernels - the kernels split, rows and join of long_kernels.h.
 *
 * cost     a window: `split` and `join` 12 N or 16 N bytes each, rows 24 N with the spectrum; 6 N log2(N) FMA.
 *          Gradient of filters: `split` twice, rows 28 N to 44 N. Both gradients: `split` twice, rows 24 N, and 16 N
 *          for each filter
 * ceiling  the bandwidth of device memory, or of the L2 cache if the windows of a launch fit there
 */
#include "early_launch.cuh"
#include "fused_sizes.cuh"
#include "long_windows.cuh"

/* ---- split and join ---------------------------------------------------------------------------------------------- */

/* T threads transform a column of R points; each has E points. If T > 1 the points cross shared memory once. The
 * threads of a warp have adjacent columns, so that they load and store whole cache lines or sectors.
 *
 *   phase 1   r[j] = point t + T j
 *   phase 2   r[g T + i] = point b T + i,   b = t + g T,   i < T */
template <int LOG_R> struct column_team {
    static constexpr int R = 1 << LOG_R, LOG_E = LOG_R <= 5 ? LOG_R : LOG_R <= 8 ? 4 : 5, E = 1 << LOG_E;
    static constexpr int LOG_T = LOG_R - LOG_E, T = 1 << LOG_T;
    static constexpr int COLUMNS = T == 1 ? 256 : R <= 256 ? 32 : 8192 / R; /* max. columns of a block */
    static constexpr int THREADS = COLUMNS * T, BLOCKS = T == 1 ? 1 : (E == 16 ? 1024 : 512) / THREADS;
    static_assert(LOG_T <= LOG_E, "max. two phases");
    static constexpr int FACTORS = (LOG_E + 1) * E, POINTS = T == 1 ? 0 : (R + (COLUMNS < 32 ? E : 0)) * COLUMNS;
    static constexpr size_t BYTES = T == 1 ? 0 : sizeof(float2) * (FACTORS + POINTS);
    float2 *factors, *s; /* shared memory of the block */
    int t, lane, column; /* lane: index of the column in the block */

    __device__ __forceinline__ explicit column_team(float4 *shared)
        : factors(reinterpret_cast<float2 *>(shared)), s(factors + FACTORS), t(T > 1 ? (int)threadIdx.x / COLUMNS : 0),
          lane(T > 1 ? (int)threadIdx.x % COLUMNS : (int)threadIdx.x), column((int)(blockIdx.x * blockDim.x) / T + lane)
    {
    }
    /* In phase 2 r[j] is point t T + row_2(j). */
    static __device__ __forceinline__ constexpr int row_2(int j) { return j / T * T * T + j % T; }
    /* Point p of the column in shared memory. Padded, so that several t in a warp use different banks. */
    __device__ __forceinline__ float2 &at(int p) const { return s[(p + (COLUMNS < 32 ? p / T : 0)) * COLUMNS + lane]; }

    /* The factors of phase 2, for block b. */
    __device__ __forceinline__ void forward_factors() const
    {
        for (int i = (int)threadIdx.x; T > 1 && i < LOG_T * E; i += THREADS)
            factors[i] = root_at(((float)bit_reverse(i % E, LOG_E) + 0.25f) / (float)(2 << (LOG_E + i / E)));
    }
    /* The factors of phase 1, for t, and the factor of the shift. */
    __device__ __forceinline__ void inverse_factors() const
    {
        for (int i = (int)threadIdx.x; T > 1 && i < (LOG_E + 1) * T; i += THREADS)
            factors[i] = conj(root_at((float)(i % T) / (float)(i < LOG_E * T ? T * (2 << i / T) : 4 * R)));
    }
    /* From phase 1 to phase 2. */
    __device__ __forceinline__ void forward(float2 *r) const
    {
        float2 base[LOG_E];
        unrolled<LOG_E>([&](auto m) { base[m.value] = root_256<(32 >> m.value), 1>(); }); /* exp(-2 pi i / (8 2^m)) */
        tree_levels<LOG_E>(r, base);
        if constexpr (T > 1) {
#pragma unroll
            for (int j = 0; j < E; j++) at(t + T * j) = r[j];
            __syncthreads();
#pragma unroll
            for (int j = 0; j < E; j++) r[j] = at(t * T + row_2(j));
#pragma unroll
            for (int g = 0; g < E / T; g++) {
#pragma unroll
                for (int m = 0; m < LOG_T; m++) base[m] = factors[m * E + t + g * T];
                tree_levels<LOG_T>(r + g * T, base);
            }
        }
    }
    /* From phase 2 to phase 1. */
    __device__ __forceinline__ void inverse(float2 *r) const
    {
        if constexpr (T > 1) {
            float2 base[LOG_E];
#pragma unroll
            for (int g = 0; g < E / T; g++) time_levels_from_0<LOG_T>(r + g * T);
#pragma unroll
            for (int j = 0; j < E; j++) at(t * T + row_2(j)) = r[j];
            __syncthreads();
#pragma unroll
            for (int j = 0; j < E; j++) r[j] = cmul(at(t + T * j), factors[LOG_E * T + t]);
#pragma unroll
            for (int m = 0; m < LOG_E; m++) base[m] = factors[m * T + t];
            time_levels<LOG_E>(r, base);
        } else {
            time_levels_from_0<LOG_E>(r);
        }
        unrolled<E>([&](auto j) { r[j.value] = turned<j.value * 64 / E, -1>(r[j.value]); });
    }
};

/* `split` and `join` are compiled twice: GENERAL for 16 bits and packed sequences, else for HC_FLOAT32, with or without
 * an index. */

/* Splits the windows of a, then those of b. */
template <int LOG_R, bool GENERAL>
static __global__ void __launch_bounds__(column_team<LOG_R>::THREADS, column_team<LOG_R>::BLOCKS)
    split_kernel(long_units a, const void *a_data, long_units b, const void *b_data, float2 *scratch, int columns)
{
    using C = column_team<LOG_R>;
    extern __shared__ float4 shared[];
    const C c(shared);
    const int n = columns << LOG_R, first = c.column + columns * c.t;
    next_may_begin();
    c.forward_factors();
    const int in_b = (int)blockIdx.y - a.n;
    const unit_position position =
        in_b < 0 ? position_of_unit<GENERAL>(a, blockIdx.y) : position_of_unit<GENERAL>(b, (unsigned)in_b);
    previous_wait();
    if (position.spectrum < 0 && (in_b < 0 ? a.may_skip : b.may_skip)) return;
    const window w = in_b < 0 ? row_window_at<GENERAL>(a_data, a.rows, window_of_unit(a, position, 2 * n))
                              : row_window_at<GENERAL>(b_data, b.rows, window_of_unit(b, position, 2 * n));
    float2 r[C::E];
    if (w.type == HC_FLOAT32)
        with_points<float, true>(w, false, [&](auto point) {
#pragma unroll
            for (int j = 0; j < C::E; j++) r[j].x = point(first + columns * C::T * j);
#pragma unroll
            for (int j = 0; j < C::E; j++) r[j].y = -point(first + columns * C::T * j + n);
        });
    else
        with_points<bits_16, true>(w, false, [&](auto point) {
            unsigned pairs[C::E];
#pragma unroll
            for (int j = 0; j < C::E; j++)
                pairs[j] = half_pair_of(point(first + columns * C::T * j), point(first + columns * C::T * j + n));
            with_type_of_16_bits(w.type, [&](auto type) {
#pragma unroll
                for (int j = 0; j < C::E; j++) r[j] = conj(widened<type.value>(pairs[j]));
            });
        });
    c.forward(r);
    float2 *out = scratch + (size_t)blockIdx.y * (size_t)n + (size_t)(c.t * C::T) * (size_t)columns + c.column;
#pragma unroll
    for (int j = 0; j < C::E; j++) out[C::row_2(j) * columns] = r[j];
}

/* Before sm_80 two blocks of 2^9 rows would spill registers. Later devices have the threads for nine of 2^6;
 * without this bound the compiler takes more registers. */
static constexpr int join_blocks(int log_r, bool is_general, int blocks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    if (log_r == 9) return 1;
#else
    if (log_r == 6 && !is_general) return 9;
#endif
    (void)log_r, (void)is_general;
    return blocks;
}

template <int LOG_R, bool GENERAL>
static __global__ void __launch_bounds__(column_team<LOG_R>::THREADS,
                                         join_blocks(LOG_R, GENERAL, column_team<LOG_R>::BLOCKS))
    join_kernel(long_units u, long_output o, const float2 *scratch, int64_t stride, void *data, int columns)
{
    using C = column_team<LOG_R>;
    extern __shared__ float4 shared[];
    const C c(shared);
    const int n = columns << LOG_R, first_lo = c.column + columns * c.t;
    const float2 *in =
        scratch + (size_t)blockIdx.y * (size_t)stride + (size_t)(c.t * C::T) * (size_t)columns + c.column;
    float2 r[C::E];
    next_may_begin();
    c.inverse_factors();
    const auto has_spectrum = [&] {
        return !units_are_listed(u) || position_of_unit<GENERAL>(u, blockIdx.y).spectrum >= 0;
    };
    bool is_computed = true; /* else 0 is written */
    if constexpr (!GENERAL) is_computed = has_spectrum();
    previous_wait();
    if constexpr (GENERAL) is_computed = has_spectrum(); /* it has no register left to keep it in */
    if (is_computed) {
#pragma unroll
        for (int j = 0; j < C::E; j++) r[j] = load_streamed(in + C::row_2(j) * columns);
        c.inverse(r);
    }
    const written_frames frames = written_frames_of(u, o, position_of_unit<GENERAL>(u, blockIdx.y));
    const int first = frames.first, last = frames.last, length = frames.length;
    const auto value = [&](int p, float point) { return p < length ? o.scale * point : 0.0f; };
    if (!GENERAL || u.rows.type == HC_FLOAT32) {
        float *out = (float *)data + frames.at;
        unrolled<C::E>([&](auto j) {
            const float2 z = r[j.value];
            const int lo = first_lo + columns * C::T * j.value, hi = lo + n;
            if (lo >= first && lo < last) store_streamed(out + lo, value(lo, z.x) + (o.add ? out[lo] : 0.0f));
            if (hi >= first && hi < last) store_streamed(out + hi, value(hi, -z.y) + (o.add ? out[hi] : 0.0f));
        });
        return;
    }
    bits_16 *out = (bits_16 *)data + frames.at;
#pragma unroll
    for (int j = 0; j < C::E; j++) {
        const int lo = first_lo + columns * C::T * j, hi = lo + n;
        const unsigned pair = narrowed(u.rows.type, make_float2(value(lo, r[j].x), value(hi, -r[j].y)));
        if (lo >= first && lo < last) store_streamed(out + lo, (bits_16)pair);
        if (hi >= first && hi < last) store_streamed(out + hi, (bits_16)(pair >> 16));
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A block transforms row blockIdx.y of some windows. Each thread reads and writes the same points of the row. */
template <int LOG_N, int OP>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    rows_kernel(long_rows p, long_units listed, int log2_r, int windows_of_block)
{
    using S = row_size<LOG_N>;
    extern __shared__ float4 shared[];
    auto *f = shared_at<typename S::factors>(shared, 0);
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES);
    next_may_begin();
    S::factors_make(f, ((float)(__brev(blockIdx.y) >> (32 - log2_r)) + 0.25f) / (float)(1 << log2_r));
    for (int k = 0; k < windows_of_block; k++) {
        const int i = (int)blockIdx.x * windows_of_block + k;
        if (i >= p.n) return;
        int number = 0; /* of the spectrum, with lists */
        if (OP == LONG_CONVOLVE && p.listed) number = position_of_unit(listed, (unsigned)i).spectrum;
        if (k == 0) previous_wait();
        if (number < 0) continue;
        int t = again((int)threadIdx.x);
        float2 *at = p.data + (((((size_t)i << log2_r) + blockIdx.y) << LOG_N) + t);
        float2 r[S::E];
        if (k == 0 || OP == LONG_FORWARD || p.listed) S::team_sync(); /* listed: window 0 may be skipped */
#pragma unroll
        for (int j = 0; j < S::E; j++) r[j] = at[j * S::T];
        S::template forward<false>(s, f, t, r);
        if (OP == LONG_CONVOLVE) {
            const size_t spectrum = p.listed ? (size_t)number : (size_t)((p.first + i) / p.units_of_group);
            const float2 *h = p.spectra + ((((spectrum << log2_r) + blockIdx.y) << LOG_N) + t);
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
            t = again(t);
            S::inverse(s, f, t, r);
            unrolled<S::E>([&](auto j) { at[j.value * S::T] = S::template unshifted<j.value>(f, r[j.value]); });
        } else {
            const float turn = p.conjugate ? -p.scale : p.scale;
#pragma unroll
            for (int m = 0; m < S::E; m++) at[m * S::T] = make_float2(p.scale * r[m].x, turn * r[m].y);
        }
    }
}

/* The sums of a group: each over windows_of_sum windows, the last one over the rest. */
struct sums_of_groups { int n_sums, windows_of_sum; };

/* A block computes row blockIdx.y of some sums. The spectrum of x replaces its points, and the row of gy in a sum's first
 * window becomes the row of the sum. */
template <int LOG_N>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    gradient_rows_kernel(long_gradient_rows p, sums_of_groups sums, int log2_r, int sums_of_block)
{
    using S = row_size<LOG_N>;
    extern __shared__ float4 shared[];
    auto *f = shared_at<typename S::factors>(shared, 0);
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES);
    next_may_begin();
    S::factors_make(f, ((float)(__brev(blockIdx.y) >> (32 - log2_r)) + 0.25f) / (float)(1 << log2_r));
    previous_wait();
    for (int k = 0; k < sums_of_block; k++) {
        const int i = (int)blockIdx.x * sums_of_block + k, group = i / sums.n_sums;
        if (i >= p.n_groups * sums.n_sums) return;
        const int first = group * p.windows + (i - group * sums.n_sums) * sums.windows_of_sum;
        const int group_end = (group + 1) * p.windows, sum_end = first + sums.windows_of_sum;
        const int end = sum_end < group_end ? sum_end : group_end;
        const auto row = [&](float2 *windows, int window, int t) {
            return windows + (((((size_t)window << log2_r) + blockIdx.y) << LOG_N) + t);
        };
        float2 r[S::E];
        for (int window = first; window < end; window++) {
            int t = again((int)threadIdx.x);
            float2 *spectrum;
            /* The transform is long, so its code exists once for x and gy. */
#pragma unroll 1
            for (int is_gy = 0; is_gy < 2; is_gy++) {
                const float2 *in = row(is_gy ? p.gy : p.x, window, t);
#pragma unroll
                for (int j = 0; j < S::E; j++) r[j] = in[j * S::T];
                S::team_sync();
                S::template forward<false>(s, f, t, r);
                t = again(t);
                spectrum = row(p.x, window, t); /* each thread uses its own positions */
                if (is_gy) break;
#pragma unroll
                for (int m = 0; m < S::E; m++) spectrum[m * S::T] = r[m];
            }
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], conj(spectrum[m * S::T]));
            float2 *sum = row(p.gy, first, t);
            if (window > first) {
#pragma unroll
                for (int m = 0; m < S::E; m++) {
                    const float2 before = sum[m * S::T];
                    r[m] = make_float2(before.x + r[m].x, before.y + r[m].y);
                }
            }
            if (window + 1 < end) {
#pragma unroll
                for (int m = 0; m < S::E; m++) sum[m * S::T] = r[m];
            }
        }
        const int t = again((int)threadIdx.x);
        float2 *at = row(p.gy, first, t);
        S::inverse(s, f, t, r);
        unrolled<S::E>([&](auto j) { at[j.value * S::T] = S::template unshifted<j.value>(f, r[j.value]); });
    }
}

/* Adds up the sums of a group, or adds them to the window before. */
static __global__ void __launch_bounds__(256) sums_kernel(long_gradient_rows p, sums_of_groups sums, int points)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float2 *group = p.gy + (size_t)blockIdx.y * (size_t)p.windows * (size_t)points + i;
    float2 *to = p.add ? group - points : group;
    next_may_begin();
    previous_wait();
    float2 sum = *to;
#pragma unroll 4
    for (int k = p.add ? 0 : 1; k < sums.n_sums; k++) {
        const float2 z = group[(size_t)k * (size_t)sums.windows_of_sum * (size_t)points];
        sum = make_float2(sum.x + z.x, sum.y + z.y);
    }
    *to = sum;
}

/* A multiprocessor holds 512 threads, which have points and their sum in registers. */
template <int LOG_N> struct both_size : row_size<LOG_N> {
    static constexpr int BLOCKS = 512 / row_size<LOG_N>::T < 16 ? 512 / row_size<LOG_N>::T : 16;
    /* Two blocks of 2^12 points fit a multiprocessor of 228 KiB if a thread keeps some values of h in registers. */
    static constexpr int KEPT = 4, SHARED = row_size<LOG_N>::E - KEPT;
    static constexpr size_t SPECTRA_AT = row_size<LOG_N>::BYTES,
                            BYTES = SPECTRA_AT + (row_size<LOG_N>::N + SHARED * row_size<LOG_N>::T) * sizeof(float2);
};

/* A block computes row blockIdx.y of some groups: h first, then x and gy of each window, the sum last. */
template <int LOG_N>
static __global__ void __launch_bounds__(both_size<LOG_N>::T, both_size<LOG_N>::BLOCKS)
    both_rows_kernel(long_both_rows p, int log2_r, int groups_of_block)
{
    using S = both_size<LOG_N>;
    extern __shared__ float4 shared[];
    auto *f = shared_at<typename S::factors>(shared, 0);
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES);
    next_may_begin();
    S::factors_make(f, ((float)(__brev(blockIdx.y) >> (32 - log2_r)) + 0.25f) / (float)(1 << log2_r));
    previous_wait();
    for (int k = 0; k < groups_of_block; k++) {
        const int group = (int)blockIdx.x * groups_of_block + k, last = 2 * p.windows + 1;
        if (group >= p.n_groups) return;
        if (p.groups.index && filter_of(p.groups, (unsigned)(p.groups.first + group)) < 0) continue;
        float2 r[S::E], sum[S::E], kept[S::KEPT];
#pragma unroll
        for (int m = 0; m < S::E; m++) sum[m] = make_float2(0.0f, 0.0f);
            /* The transforms are long, so their code exists once. */
#pragma unroll 1
        for (int step = 0; step <= last; step++) {
            const int t = again((int)threadIdx.x), window = group * p.windows + (step - 1) / 2;
            const bool is_h = step == 0 || step == last, is_x = step % 2 == 1 && !is_h;
            const size_t unit = (size_t)(is_h ? group : window);
            float2 *at = (is_h ? p.h : is_x ? p.x : p.gy) + ((((unit << log2_r) + blockIdx.y) << LOG_N) + t);
            float2 *spectrum_x = shared_at<float2>(shared, S::SPECTRA_AT) + t; /* each thread uses its own positions */
            const auto of_h = [&](int m) -> float2 & {
                return m < S::SHARED ? spectrum_x[S::N + m * S::T] : kept[m - S::SHARED];
            };
            S::team_sync();
            if (step < last) {
#pragma unroll
                for (int j = 0; j < S::E; j++) r[j] = at[j * S::T];
                S::template forward<false>(s, f, t, r);
                if (step == 0) {
#pragma unroll
                    for (int m = 0; m < S::E; m++) of_h(m) = conj(r[m]);
                    continue;
                }
                if (is_x) {
#pragma unroll
                    for (int m = 0; m < S::E; m++) spectrum_x[m * S::T] = conj(r[m]);
                    continue;
                }
#pragma unroll
                for (int m = 0; m < S::E; m++) {
                    const float2 z = cmul(r[m], spectrum_x[m * S::T]);
                    sum[m] = make_float2(sum[m].x + z.x, sum[m].y + z.y);
                    r[m] = cmul(r[m], of_h(m));
                }
            } else {
#pragma unroll
                for (int m = 0; m < S::E; m++) r[m] = sum[m];
            }
            S::inverse(s, f, t, r);
            unrolled<S::E>([&](auto j) { at[j.value * S::T] = S::template unshifted<j.value>(f, r[j.value]); });
        }
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <int N> struct number { static constexpr int value = N; };
template <class Use> static cudaError_t with_split(int log2_r, Use use)
{
    switch (log2_r) {
        case 1: return use(number<1>());
        case 2: return use(number<2>());
        case 3: return use(number<3>());
        case 4: return use(number<4>());
        case 5: return use(number<5>());
        case 6: return use(number<6>());
        case 7: return use(number<7>());
        case 8: return use(number<8>());
        default: return use(number<9>());
    }
}
/* Does nothing if there is no kernel for these rows. TWO_ROWS: rows of 2^LOG_OF_TWO_ROWS points have one, too. */
template <bool TWO_ROWS, class Use> static cudaError_t with_row(int log2_row, Use use)
{
    switch (log2_row) {
#ifdef LONG_ROW
        case LONG_ROW: return use(number<LONG_ROW>());
#else
        case 12: return use(number<12>());
        case 13: return use(number<13>());
#endif
        case LOG_OF_TWO_ROWS:
            if constexpr (TWO_ROWS) return use(number<LOG_OF_TWO_ROWS>());
        default: return cudaSuccess;
    }
}

bool long_columns_fit(const struct fused_device *device, int log2_r)
{
    bool fit = false;
    with_split(log2_r, [&](auto r) {
        fit = (int)column_team<decltype(r)::value>::BYTES <= device->shared_bytes;
        return cudaSuccess;
    });
    return fit;
}

/* Calls use(number<LOG_R>(), grid, threads): the launch of a thread for every E points of the columns of n windows. */
template <class Use> static cudaError_t with_columns(struct long_size size, int n, Use use)
{
    return with_split(size.log2_r, [&](auto r) {
        using C = column_team<decltype(r)::value>;
        const int columns = 1 << size.log2_row, of_block = columns < C::COLUMNS ? columns : C::COLUMNS;
        return use(r, dim3((unsigned)(columns / of_block), (unsigned)n), (unsigned)(of_block * C::T));
    });
}

cudaError_t long_split_launch(const struct fused_device *device, struct long_size size, const struct long_units *a,
                              const void *a_data, const struct long_units *b, const void *b_data, float2 *scratch,
                              cudaStream_t stream)
{
    return with_columns(size, a->n + b->n, [&](auto r, dim3 grid, unsigned threads) {
        constexpr int LOG_R = decltype(r)::value;
        const bool is_general = any_has_16_bits(a->rows, b->rows) || a->groups.offsets || b->groups.offsets;
        const auto kernel = is_general ? split_kernel<LOG_R, true> : split_kernel<LOG_R, false>;
        return launch_early(device->is_early, kernel, grid, threads, column_team<LOG_R>::BYTES, stream, *a, a_data, *b,
                            b_data, scratch, 1 << size.log2_row);
    });
}

cudaError_t long_join_launch(const struct fused_device *device, struct long_size size, const struct long_units *units,
                             const struct long_output *output, const float2 *scratch, int64_t stride, void *data,
                             cudaStream_t stream)
{
    return with_columns(size, units->n, [&](auto r, dim3 grid, unsigned threads) {
        constexpr int LOG_R = decltype(r)::value;
        const bool is_general = any_has_16_bits(units->rows) || units->groups.offsets;
        const auto kernel = is_general ? join_kernel<LOG_R, true> : join_kernel<LOG_R, false>;
        return launch_early(device->is_early, kernel, grid, threads, column_team<LOG_R>::BYTES, stream, *units, *output,
                            scratch, stride, data, 1 << size.log2_row);
    });
}

template <class S> static int teams_at_once(const struct fused_device *device)
{
    const int fitting = (int)((size_t)device->shared_bytes / S::BYTES);
    return device->n_sm * (fitting < S::BLOCKS ? fitting : S::BLOCKS);
}

int long_rows_at_once(const struct fused_device *device, int log2_row)
{
    int n = 0;
    with_row<true>(log2_row, [&](auto size) {
        constexpr int LOG_N = decltype(size)::value;
        n = teams_at_once<row_size<LOG_N>>(device);
        return cudaSuccess;
    });
    return n;
}

cudaError_t long_load(const struct fused_device *device)
{
    cudaError_t status = long_two_rows_load(device);
    for (int log2_r = 1; log2_r <= LONG_MAX_SPLITS && !status; log2_r++)
        status = with_split(log2_r, [&](auto r) {
            constexpr int LOG_R = decltype(r)::value;
            return shared_allow(device, column_team<LOG_R>::BYTES, split_kernel<LOG_R, false>,
                                split_kernel<LOG_R, true>, join_kernel<LOG_R, false>, join_kernel<LOG_R, true>);
        });
    for (int log2_row = LONG_ROW_MIN; log2_row <= LOG_OF_TWO_ROWS && !status; log2_row++)
        status = with_row<true>(log2_row, [&](auto size) {
            constexpr int LOG_N = decltype(size)::value;
            cudaError_t allowed = shared_allow(device, row_size<LOG_N>::BYTES, rows_kernel<LOG_N, LONG_FORWARD>);
            if constexpr (LOG_N <= LONG_ROW_MAX) {
                if (!allowed) allowed = shared_allow(device, row_size<LOG_N>::BYTES, rows_kernel<LOG_N, LONG_CONVOLVE>);
                if (!allowed) allowed = shared_allow(device, row_size<LOG_N>::BYTES, gradient_rows_kernel<LOG_N>);
            }
            return allowed;
        });
    if (!status) status = shared_allow(device, both_size<LONG_BOTH_ROW>::BYTES, both_rows_kernel<LONG_BOTH_ROW>);
    return status;
}

int long_both_rows_at_once(const struct fused_device *device)
{
    return teams_at_once<both_size<LONG_BOTH_ROW>>(device);
}

/* The grid for each row of n windows or sums; sets how many of them a block computes. */
template <class S> static dim3 rows_grid(const struct fused_device *device, int n, int log2_r, int *of_block)
{
    const int64_t tasks = (int64_t)n << log2_r, at_once = teams_at_once<S>(device);
    *of_block = (int)((tasks + at_once - 1) / at_once);
    return dim3((unsigned)((n + *of_block - 1) / *of_block), 1u << log2_r);
}

cudaError_t long_rows_launch(const struct fused_device *device, struct long_size size, const struct long_rows *p,
                             cudaStream_t stream)
{
    return with_row<true>(size.log2_row, [&](auto row) {
        constexpr int LOG_N = decltype(row)::value;
        using S = row_size<LOG_N>;
        int of_block;
        const dim3 grid = rows_grid<S>(device, p->n, size.log2_r, &of_block);
        auto kernel = rows_kernel<LOG_N, LONG_FORWARD>;
        if constexpr (LOG_N <= LONG_ROW_MAX)
            if (p->op == LONG_CONVOLVE) kernel = rows_kernel<LOG_N, LONG_CONVOLVE>;
        return launch_early(device->is_early, kernel, grid, S::T, S::BYTES, stream, *p,
                            p->listed ? *p->listed : long_units{}, size.log2_r, of_block);
    });
}

cudaError_t long_gradient_rows_launch(const struct fused_device *device, struct long_size size,
                                      const struct long_gradient_rows *p, cudaStream_t stream)
{
    return with_row<false>(size.log2_row, [&](auto row) {
        constexpr int LOG_N = decltype(row)::value;
        using S = row_size<LOG_N>;
        const int parts = (teams_at_once<S>(device) >> size.log2_r) / p->n_groups; /* of a group, all at once */
        sums_of_groups sums = {1, p->windows};
        if (parts > 1) sums.windows_of_sum = (p->windows + parts - 1) / parts;
        sums.n_sums = (p->windows + sums.windows_of_sum - 1) / sums.windows_of_sum;
        int of_block;
        const dim3 grid = rows_grid<S>(device, p->n_groups * sums.n_sums, size.log2_r, &of_block);
        const cudaError_t status = launch_early(device->is_early, gradient_rows_kernel<LOG_N>, grid, S::T, S::BYTES,
                                                stream, *p, sums, size.log2_r, of_block);
        if (status || (sums.n_sums == 1 && !p->add)) return status;
        const int points = 1 << (size.log2_row + size.log2_r);
        return launch_early(device->is_early, sums_kernel, dim3((unsigned)points / 256, (unsigned)p->n_groups), 256, 0,
                            stream, *p, sums, points);
    });
}

cudaError_t long_both_rows_launch(const struct fused_device *device, int log2_r, const struct long_both_rows *p,
                                  cudaStream_t stream)
{
    using S = both_size<LONG_BOTH_ROW>;
    int of_block;
    const dim3 grid = rows_grid<S>(device, p->n_groups, log2_r, &of_block);
    return launch_early(device->is_early, both_rows_kernel<LONG_BOTH_ROW>, grid, S::T, S::BYTES, stream, *p, log2_r,
                        of_block);
}
