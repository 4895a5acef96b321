/* long_kernels - the kernels split, rows and join of long_kernels.h.
 *
 * cost     a window: `split` and `join` 16 N bytes each, rows 24 N with the spectrum; 6 N log2(N) FMA
 * ceiling  the bandwidth of device memory, or of the L2 cache if the windows of a launch fit there
 */
#include "early_launch.cuh"
#include "fused_sizes.cuh"
#include "long_windows.cuh"

/* ---- split and join ---------------------------------------------------------------------------------------------- */

/* The first pass: r[j] = point n' + M j of a window, M = N / R columns. */
template <int LOG_R>
static __global__ void __launch_bounds__(256) split_kernel(long_units u, const void *data, float2 *scratch, int columns)
{
    constexpr int R = 1 << LOG_R;
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = columns << LOG_R;
    next_may_begin();
    const unit_position position = position_of_unit(u, blockIdx.y);
    previous_wait();
    fused_rows rows = u.rows;
    rows.frames = frames_of(u, position.at);
    const window_position at = window_of(rows, position.at, position.start, position.start + u.end, 2 * n);
    const window w = window_at(data, rows, at);
    float2 r[R], base[LOG_R];
    if (w.type == HC_FLOAT32)
        with_points<float>(w, false, [&](auto point) {
#pragma unroll
            for (int j = 0; j < R; j++) r[j].x = point(column + columns * j);
#pragma unroll
            for (int j = 0; j < R; j++) r[j].y = -point(column + columns * j + n);
        });
    else
        with_points<half_bits>(w, false, [&](auto point) {
            unsigned pairs[R];
#pragma unroll
            for (int j = 0; j < R; j++)
                pairs[j] = pair_of(point(column + columns * j), point(column + columns * j + n));
            with_half(w.type, [&](auto type) {
#pragma unroll
                for (int j = 0; j < R; j++) r[j] = conj(widened<type.value>(pairs[j]));
            });
        });
    unrolled<LOG_R>([&](auto m) { base[m.value] = root_256<(32 >> m.value), 1>(); }); /* exp(-2 pi i / (8 2^m)) */
    tree_levels<LOG_R>(r, base);
    float2 *out = scratch + (size_t)blockIdx.y * (size_t)n + column;
#pragma unroll
    for (int j = 0; j < R; j++) out[(size_t)j * (size_t)columns] = r[j];
}

template <int LOG_R>
static __global__ void __launch_bounds__(256)
    join_kernel(long_units u, long_output o, const float2 *scratch, int64_t stride, void *data, int columns)
{
    constexpr int R = 1 << LOG_R;
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = columns << LOG_R;
    const float2 *in = scratch + (size_t)blockIdx.y * (size_t)stride + column;
    float2 r[R];
    next_may_begin();
    previous_wait();
#pragma unroll
    for (int j = 0; j < R; j++) r[j] = in[(size_t)j * (size_t)columns];
    time_levels_from_0<LOG_R>(r);
    const written_frames frames = written_frames_of(u, o, (int)blockIdx.y);
    const int first = frames.first, last = frames.last, length = frames.length;
    /* Calls put(lo, the points lo and lo + n). */
    const auto each = [&](auto put) {
        unrolled<R>([&](auto j) {
            const float2 z = turned<j.value * 64 / R, -1>(r[j.value]);
            const int lo = column + columns * j.value;
            put(lo, make_float2(lo < length ? o.scale * z.x : 0.0f, lo + n < length ? -o.scale * z.y : 0.0f));
        });
    };
    if (u.rows.type == HC_FLOAT32) {
        float *out = (float *)data + frames.at;
        each([&](int lo, float2 z) {
            const int hi = lo + n;
            if (lo >= first && lo < last) out[lo] = z.x + (o.add ? out[lo] : 0.0f);
            if (hi >= first && hi < last) out[hi] = z.y + (o.add ? out[hi] : 0.0f);
        });
        return;
    }
    half_bits *out = (half_bits *)data + frames.at;
    each([&](int lo, float2 z) {
        const int hi = lo + n;
        const unsigned pair = narrowed(u.rows.type, z);
        if (lo >= first && lo < last) out[lo] = (half_bits)pair;
        if (hi >= first && hi < last) out[hi] = (half_bits)(pair >> 16);
    });
}

/* The second pass, in place: splits row b of 2^log2_r1 rows again, or joins it from its rows. */
template <int LOG_R, bool INVERSE>
static __global__ void __launch_bounds__(256)
    second_pass_kernel(float2 *scratch, int64_t stride, int log2_r1, int columns)
{
    constexpr int R = 1 << LOG_R;
    __shared__ float2 factors[R];
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), row = (int)(blockIdx.y & ((1u << log2_r1) - 1));
    next_may_begin();
    const float k = (float)(__brev((unsigned)row) >> (32 - log2_r1)) + 0.25f;
    if (threadIdx.x < (INVERSE ? R : LOG_R)) {
        const float x = k / (float)(1 << log2_r1);
        factors[threadIdx.x] = INVERSE ? conj(root_at(x * (float)threadIdx.x / (float)R))
                                       : root_at(x / (float)(2 << threadIdx.x));
    }
    float2 *at = scratch + (size_t)(blockIdx.y >> log2_r1) * (size_t)stride + ((size_t)row * (size_t)columns << LOG_R) +
                 column;
    float2 r[R];
    previous_wait();
#pragma unroll
    for (int j = 0; j < R; j++) r[j] = at[(size_t)j * (size_t)columns];
    __syncthreads();
    if (INVERSE) {
        time_levels_from_0<LOG_R>(r);
#pragma unroll
        for (int j = 0; j < R; j++) r[j] = cmul(r[j], factors[j]);
    } else {
        float2 base[LOG_R];
#pragma unroll
        for (int m = 0; m < LOG_R; m++) base[m] = factors[m];
        tree_levels<LOG_R>(r, base);
    }
#pragma unroll
    for (int j = 0; j < R; j++) at[(size_t)j * (size_t)columns] = r[j];
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A block transforms row blockIdx.y of some windows. */
template <int LOG_N, int OP>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    rows_kernel(long_rows p, int log2_r, int windows_of_block)
{
    using S = row_size<LOG_N>;
    extern __shared__ float4 shared[];
    auto *f = shared_at<typename S::factors>(shared, 0);
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES);
    next_may_begin();
    S::factors_make(f, ((float)(__brev(blockIdx.y) >> (32 - log2_r)) + 0.25f) / (float)(1 << log2_r));
    previous_wait();
    for (int k = 0; k < windows_of_block; k++) {
        const int i = (int)blockIdx.x * windows_of_block + k;
        if (i >= p.n) return;
        int t = again((int)threadIdx.x);
        float2 *at = p.data + (size_t)i * (size_t)p.stride + ((size_t)blockIdx.y << LOG_N) + t;
        float2 r[S::E];
        if (k == 0 || OP != LONG_CONVOLVE) S::team_sync();
        if (OP == LONG_INVERSE) {
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = at[m * S::T];
        } else {
#pragma unroll
            for (int j = 0; j < S::E; j++) r[j] = at[j * S::T];
            S::template forward<false>(s, f, t, r);
        }
        if (OP == LONG_CONVOLVE) {
            const size_t spectrum = (size_t)((p.first + i) / p.units_of_group);
            const float2 *h = p.spectra + ((((spectrum << log2_r) + blockIdx.y) << LOG_N) + t);
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
        }
        if (OP == LONG_FORWARD) {
            const float turn = p.conjugate ? -p.scale : p.scale;
#pragma unroll
            for (int m = 0; m < S::E; m++) at[m * S::T] = make_float2(p.scale * r[m].x, turn * r[m].y);
        } else {
            t = again(t);
            S::inverse(s, f, t, r);
            unrolled<S::E>([&](auto j) { at[j.value * S::T] = S::template unshifted<j.value>(f, r[j.value]); });
        }
    }
}

static __global__ void __launch_bounds__(256) products_kernel(long_products p)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    next_may_begin();
    previous_wait();
    if (i >= p.points) return;
    const size_t first = (size_t)blockIdx.y * (size_t)p.windows * (size_t)p.points + (size_t)i;
    float2 *to = p.sum + (size_t)blockIdx.y * (size_t)p.stride + i;
    float2 sum = p.add ? *to : make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int k = 0; k < p.windows; k++) {
        const size_t at = first + (size_t)k * (size_t)p.points;
        const float2 z = cmul(p.gy[at], conj(p.x[at]));
        sum = make_float2(sum.x + z.x, sum.y + z.y);
    }
    *to = sum;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

enum { COLUMN_THREADS = 256 };
static unsigned column_threads(int columns) { return (unsigned)(columns < COLUMN_THREADS ? columns : COLUMN_THREADS); }

template <int N> struct number { static constexpr int value = N; };
template <class Use> static cudaError_t with_split(int log2_r, Use use)
{
    switch (log2_r) {
        case 1: return use(number<1>());
        case 2: return use(number<2>());
        case 3: return use(number<3>());
        case 4: return use(number<4>());
        default: return use(number<5>());
    }
}
template <class Use> static cudaError_t with_row(int log2_row, Use use)
{
#ifdef LONG_ROW
    return log2_row == LONG_ROW ? use(number<LONG_ROW>()) : cudaErrorInvalidValue;
#else
    switch (log2_row) {
        case 12: return use(number<12>());
        case 13: return use(number<13>());
        default: return use(number<14>());
    }
#endif
}

/* log2 of the rows of the second pass; 0: no second pass. */
static int second_split(int log2_r) { return log2_r > LONG_PASS_SPLITS ? log2_r / 2 : 0; }

template <bool INVERSE>
static cudaError_t second_pass_launch(const struct fused_device *device, struct long_size size, float2 *scratch,
                                      int64_t stride, int n, cudaStream_t stream)
{
    const int second = second_split(size.log2_r), first = size.log2_r - second, columns = 1 << size.log2_row;
    const unsigned threads = column_threads(columns), units = 65535u >> first; /* max. units of a launch */
    cudaError_t status = cudaSuccess;
    for (unsigned done = 0; done < (unsigned)n && !status; done += units) {
        const unsigned left = (unsigned)n - done;
        const dim3 grid((unsigned)columns / threads, (left < units ? left : units) << first);
        float2 *at = scratch + (size_t)done * (size_t)stride;
        const auto kernel = second == 3 ? second_pass_kernel<3, INVERSE> : second_pass_kernel<4, INVERSE>;
        status = launch_early(device->is_early, kernel, grid, threads, 0, stream, at, stride, first, columns);
    }
    return status;
}

cudaError_t long_split_launch(const struct fused_device *device, struct long_size size, const struct long_units *units,
                              const void *data, float2 *scratch, cudaStream_t stream)
{
    const int second = second_split(size.log2_r), columns = 1 << (size.log2_row + second);
    const unsigned threads = column_threads(columns);
    const dim3 grid((unsigned)columns / threads, (unsigned)units->n);
    const cudaError_t status = with_split(size.log2_r - second, [&](auto r) {
        constexpr int LOG_R = decltype(r)::value;
        return launch_early(device->is_early, split_kernel<LOG_R>, grid, threads, 0, stream, *units, data, scratch,
                            columns);
    });
    if (status || !second) return status;
    const int64_t stride = (int64_t)columns << (size.log2_r - second);
    return second_pass_launch<false>(device, size, scratch, stride, units->n, stream);
}

cudaError_t long_join_launch(const struct fused_device *device, struct long_size size, const struct long_units *units,
                             const struct long_output *output, float2 *scratch, int64_t stride, void *data,
                             cudaStream_t stream)
{
    const int second = second_split(size.log2_r), columns = 1 << (size.log2_row + second);
    const unsigned threads = column_threads(columns);
    const dim3 grid((unsigned)columns / threads, (unsigned)units->n);
    if (second) {
        const cudaError_t status = second_pass_launch<true>(device, size, scratch, stride, units->n, stream);
        if (status) return status;
    }
    return with_split(size.log2_r - second, [&](auto r) {
        constexpr int LOG_R = decltype(r)::value;
        return launch_early(device->is_early, join_kernel<LOG_R>, grid, threads, 0, stream, *units, *output, scratch,
                            stride, data, columns);
    });
}

template <int LOG_N> static int rows_at_once(const struct fused_device *device)
{
    using S = row_size<LOG_N>;
    const int fitting = (int)((size_t)device->shared_bytes / S::BYTES);
    return device->n_sm * (fitting < S::BLOCKS ? fitting : S::BLOCKS);
}

int long_rows_at_once(const struct fused_device *device, int log2_row)
{
    int n = 0;
    if (log2_row < LONG_ROW_MIN || log2_row > LONG_ROW_MAX) return 0;
    with_row(log2_row, [&](auto size) {
        constexpr int LOG_N = decltype(size)::value;
        n = rows_at_once<LOG_N>(device);
        return cudaSuccess;
    });
    return n;
}

cudaError_t long_load(const struct fused_device *device)
{
    cudaError_t status = long_halves_load(device);
    for (int log2_row = LONG_ROW_MIN; log2_row <= LONG_ROW_MAX && !status; log2_row++)
        status = with_row(log2_row, [&](auto size) {
            constexpr int LOG_N = decltype(size)::value;
            return shared_allow(device, row_size<LOG_N>::BYTES, rows_kernel<LOG_N, LONG_FORWARD>,
                                rows_kernel<LOG_N, LONG_INVERSE>, rows_kernel<LOG_N, LONG_CONVOLVE>);
        });
    return status;
}

cudaError_t long_rows_launch(const struct fused_device *device, struct long_size size, const struct long_rows *p,
                             cudaStream_t stream)
{
    return with_row(size.log2_row, [&](auto row) {
        constexpr int LOG_N = decltype(row)::value;
        using S = row_size<LOG_N>;
        const int64_t tasks = (int64_t)p->n << size.log2_r, at_once = rows_at_once<LOG_N>(device);
        const int of_block = (int)((tasks + at_once - 1) / at_once), r = size.log2_r;
        const dim3 grid((unsigned)((p->n + of_block - 1) / of_block), 1u << r);
        const auto kernel = p->op == LONG_FORWARD   ? rows_kernel<LOG_N, LONG_FORWARD>
                            : p->op == LONG_INVERSE ? rows_kernel<LOG_N, LONG_INVERSE>
                                                    : rows_kernel<LOG_N, LONG_CONVOLVE>;
        return launch_early(device->is_early, kernel, grid, S::T, S::BYTES, stream, *p, r, of_block);
    });
}

cudaError_t long_products_launch(const struct fused_device *device, const struct long_products *p, cudaStream_t stream)
{
    const dim3 grid((unsigned)((p->points + 255) / 256), (unsigned)p->n_groups);
    return launch_early(device->is_early, products_kernel, grid, 256, 0, stream, *p);
}
