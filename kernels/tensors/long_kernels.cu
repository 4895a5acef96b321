/* long_kernels - see the header.
 *
 * cost     a window: `split` and `join` 16 N bytes each, rows 24 N with the spectrum; 6 N log2(N) FMA
 * ceiling  the bandwidth of device memory, or of the L2 cache if the windows of a launch fit there
 */
#include "early_launch.cuh"
#include "fft_tree.cuh"
#include "long_kernels.h"
#include "row_windows.cuh"

/* ---- split and join ---------------------------------------------------------------------------------------------- */

struct unit_place { row_place at; int64_t start; }; /* start: the frame of the window's point 0 */
template <class Int>
static __device__ __forceinline__ unit_place divide(const long_units &u, Int unit, Int units_of_group, Int n_windows)
{
    const Int group = unit / units_of_group, task = unit - group * units_of_group, row = task / n_windows;
    unit_place place;
    place.at = place_of(u.groups, (unsigned)(u.groups.first + group), (unsigned)row);
    place.start = (int64_t)(task - row * n_windows) * u.hop + u.start;
    return place;
}
static __device__ __forceinline__ unit_place place_of_unit(const long_units &u, unsigned local)
{
    const int64_t unit = u.first + local;
    if ((unit | u.units_of_group | u.n_windows) >> 32) return divide<int64_t>(u, unit, u.units_of_group, u.n_windows);
    /* The division of 64 bits is slow. */
    return divide(u, (unsigned)unit, (unsigned)u.units_of_group, (unsigned)u.n_windows);
}

static __device__ __forceinline__ int64_t frames_of(const long_units &u, row_place at)
{
    const int64_t length = u.lengths ? u.lengths[at.filter] : u.rows.frames;
    return length < u.rows.frames ? length : u.rows.frames;
}

/* The first pass: r[j] = point n' + M j of a window, M = N / R columns. */
template <int LOG_R>
static __global__ void __launch_bounds__(256)
    split_kernel(long_units u, const float *data, float2 *scratch, int columns)
{
    constexpr int R = 1 << LOG_R;
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = columns << LOG_R;
    next_may_begin();
    const unit_place place = place_of_unit(u, blockIdx.y);
    previous_wait();
    fused_rows rows = u.rows;
    rows.frames = frames_of(u, place.at);
    const window w = window_of(data, rows, place.at, place.start, place.start + u.end, 2 * n);
    float2 r[R], base[LOG_R];
#pragma unroll
    for (int j = 0; j < R; j++) r[j].x = point(w, column + columns * j);
#pragma unroll
    for (int j = 0; j < R; j++) r[j].y = -point(w, column + columns * j + n);
    unrolled<LOG_R>([&](auto m) { base[m.value] = root_256<(32 >> m.value), 1>(); }); /* exp(-2 pi i / (8 2^m)) */
    tree_levels<LOG_R>(r, base);
    float2 *out = scratch + (size_t)blockIdx.y * (size_t)n + column;
#pragma unroll
    for (int j = 0; j < R; j++) out[(size_t)j * (size_t)columns] = r[j];
}

template <int LOG_R>
static __global__ void __launch_bounds__(256)
    join_kernel(long_units u, long_output o, const float2 *scratch, int64_t stride, float *data, int columns)
{
    constexpr int R = 1 << LOG_R;
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = columns << LOG_R;
    const unit_place place = place_of_unit(u, blockIdx.y);
    const float2 *in = scratch + (size_t)blockIdx.y * (size_t)stride + column;
    float2 r[R];
    next_may_begin();
    previous_wait();
#pragma unroll
    for (int j = 0; j < R; j++) r[j] = in[(size_t)j * (size_t)columns];
    time_levels_from_0<LOG_R>(r);
    const int64_t left = u.rows.frames - place.start, used = frames_of(u, place.at) - place.start;
    const int last = (int)(left < u.end ? left > 0 ? left : 0 : u.end);
    const int length = (int)(used < last ? used > 0 ? used : 0 : last);
    const int first = (int)o.first_point;
    float *out = data + place.at.batch * u.rows.stride[0] + place.at.channel * u.rows.stride[1] + place.start;
    unrolled<R>([&](auto j) {
        const float2 z = turned<j.value * 64 / R, -1>(r[j.value]);
        const int lo = column + columns * j.value, hi = lo + n;
        if (lo >= first && lo < last) out[lo] = (lo < length ? o.scale * z.x : 0.0f) + (o.add ? out[lo] : 0.0f);
        if (hi >= first && hi < last) out[hi] = (hi < length ? -o.scale * z.y : 0.0f) + (o.add ? out[hi] : 0.0f);
    });
}

/* The second pass, in place: row b of 2^log2_r1 rows is split again, or joined from its parts. */
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

template <int LOG_N> struct row_size : fft_tree<LOG_N, log_e_of(LOG_N), true> {
    using tree = fft_tree<LOG_N, log_e_of(LOG_N), true>;
    static constexpr int RESIDENT = tree::E == 16 ? 1024 : 512, /* threads of a multiprocessor */
                         BLOCKS = RESIDENT / tree::T < 16 ? RESIDENT / tree::T : 16;
    static constexpr size_t FACTOR_BYTES = (sizeof(typename tree::factors) + 15) / 16 * 16,
                            BYTES = FACTOR_BYTES + tree::POINTS * sizeof(float2);
};

/* Returns t, which the compiler takes for another number: it then computes addresses again, rather than keep all of
 * them in registers. */
static __device__ __forceinline__ int again(int t)
{
    asm volatile("" : "+r"(t));
    return t;
}

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

static __device__ window halves_window(const long_units &u, const float *data, int unit, int points)
{
    const unit_place place = place_of_unit(u, (unsigned)unit);
    return window_of(data, u.rows, place.at, place.start, place.start + u.end, points);
}

/* exp(-2 pi i (row + 1/4) / 2) is halves_turn(row) (1 - i). */
static __device__ __forceinline__ float halves_turn(int row) { return row ? -0.70710678f : 0.70710678f; }

/* A row of a window of 2 rows, before its transform. turn: halves_turn of the row. */
template <class S, bool REAL>
static __device__ __forceinline__ void halves_load(float2 *r, const window &w, float turn, int t)
{
    const auto each = [&](auto at) {
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const int n = t + S::T * j;
            const float a = at(n), b = at(n + S::N);
            const float c = REAL ? 0.0f : -at(n + 2 * S::N), d = REAL ? 0.0f : -at(n + 3 * S::N);
            r[j] = make_float2(a + turn * (b + d), c + turn * (d - b));
        }
    };
    if (w.first == 0 && w.last >= (REAL ? 2 : 4) * S::N) each([&](int n) { return w.data[n]; });
    else each([&](int n) { return point(w, n); });
}

/* The frames of a window that are written: point p is float at + p of the data, for first <= p < last. From `length` on
 * it is 0. */
struct halves_frames {
    int64_t at;
    int first, last, length;
};
static __device__ halves_frames halves_frames_of(const long_units &u, const long_output &o, int unit)
{
    const unit_place place = place_of_unit(u, (unsigned)unit);
    const int64_t left = u.rows.frames - place.start, used = frames_of(u, place.at) - place.start;
    halves_frames frames;
    frames.at = place.at.batch * u.rows.stride[0] + place.at.channel * u.rows.stride[1] + place.start;
    frames.first = (int)o.first_point;
    frames.last = (int)(left < u.end ? left > 0 ? left : 0 : u.end);
    frames.length = (int)(used < frames.last ? used > 0 ? used : 0 : frames.last);
    return frames;
}

/* Writes, or adds, an inverse. */
template <class S, bool REAL>
static __device__ __forceinline__ void halves_store(const float2 *r, const typename S::factors *f, float *data,
                                                    const halves_frames &frames, float scale, float turn, bool add,
                                                    int t)
{
    float *out = data + frames.at;
    const int first = frames.first, last = frames.last, length = frames.length;
    constexpr int PARTS = REAL ? 2 : 4, AT_ONCE = S::E < 16 / PARTS ? S::E : 16 / PARTS;
    const auto each = [&](auto is_asked, auto has_signal) {
        unrolled<S::E / AT_ONCE>([&](auto chunk) {
            constexpr int j0 = chunk.value * AT_ONCE;
            float before[AT_ONCE][PARTS]; /* all loads precede the stores: they wait for the memory together */
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const int n = t + S::T * (j0 + j) + part * S::N;
                    before[j][part] = add && is_asked(n) ? out[n] : 0.0f;
                }
            unrolled<AT_ONCE>([&](auto j) {
                const float2 z = S::template unshifted<j0 + j.value>(f, r[j0 + j.value]);
                const float points[4] = {z.x, turn * (z.x - z.y), -z.y, -turn * (z.x + z.y)};
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const int n = t + S::T * (j0 + j.value) + part * S::N;
                    const float signal = has_signal(n) ? scale * points[part] : 0.0f;
                    if (is_asked(n)) out[n] = signal + before[j.value][part];
                }
            });
        });
    };
    if (first == 0 && length >= PARTS * S::N) each([](int) { return true; }, [](int) { return true; });
    else each([&](int n) { return n >= first && n < last; }, [&](int n) { return n < length; });
}

struct halves_place {         /* a window in x and y, and its spectrum */
    int64_t in;               /* its first point, in x */
    int64_t spectrum;
    halves_frames out;
    int first, last;          /* points in x */
};

/* Adds to row_size what halves_kernel needs. */
template <int LOG_N> struct halves_size : row_size<LOG_N> {
    static constexpr int PLACES = row_size<LOG_N>::T < 32 ? row_size<LOG_N>::T : 32; /* made at once */
    static constexpr size_t HALVES_BYTES = row_size<LOG_N>::BYTES + row_size<LOG_N>::FACTOR_BYTES +
                                           PLACES * sizeof(halves_place);
};

/* The factors of both rows of a window, whose shifts are 1/8 and 5/8: (row + 1/4) / 2. */
template <class S> static __device__ __forceinline__ typename S::factors *halves_factors(float4 *shared, int row)
{
    return shared_at<typename S::factors>(shared, row * S::FACTOR_BYTES);
}
template <class S> static __device__ void halves_factors_make(float4 *shared)
{
    for (int row = 0; row < 2; row++) S::factors_make(halves_factors<S>(shared, row), 0.125f + 0.5f * (float)row);
}

template <int LOG_N, bool REAL>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    halves_kernel(long_halves p, int windows_of_block)
{
    using S = halves_size<LOG_N>;
    extern __shared__ float4 shared[];
    halves_place *places = reinterpret_cast<halves_place *>(halves_factors<S>(shared, 2));
    float2 *s = reinterpret_cast<float2 *>(places + S::PLACES);
    next_may_begin();
    halves_factors_make<S>(shared);
    previous_wait();
    for (int step = 0; step < 2 * windows_of_block; step++) {
        const int first = (int)blockIdx.x * windows_of_block, i = first + step / 2, row = step % 2;
        int t = again((int)threadIdx.x);
        if (i >= p.in.n) return;
        if (step % (2 * S::PLACES) == 0) { /* each thread divides for another window */
            S::team_sync();
            if (t < S::PLACES && i + t < p.in.n) {
                const window w = halves_window(p.in, p.x, i + t, 4 * S::N);
                places[t].in = w.data - p.x;
                places[t].first = w.first;
                places[t].last = w.last;
                places[t].out = halves_frames_of(p.out, p.output, i + t);
                places[t].spectrum = (p.in.first + i + t) / p.in.units_of_group;
            }
            S::team_sync();
        }
        const halves_place &place = places[step / 2 % S::PLACES];
        const typename S::factors *f = halves_factors<S>(shared, row);
        const float turn = halves_turn(row);
        float2 r[S::E];
        halves_load<S, REAL>(r, window{p.x + place.in, place.first, place.last}, turn, t);
        S::template forward<false>(s, f, t, r);
        const float2 *h = p.spectra + ((2 * (size_t)place.spectrum + (size_t)row) << LOG_N) + t;
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
        t = again(t);
        S::inverse(s, f, t, r);
        halves_store<S, REAL>(r, f, p.y, place.out, p.output.scale, turn, p.output.add || row > 0, t);
    }
}

/* A block computes the gradient of a filter: for each row, the sum over the windows, then the inverse. */
template <int LOG_N, bool REAL>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    gradient_halves_kernel(long_gradient_halves p)
{
    using S = halves_size<LOG_N>;
    extern __shared__ float4 shared[];
    float2 *s = reinterpret_cast<float2 *>(halves_factors<S>(shared, 2));
    next_may_begin();
    halves_factors_make<S>(shared);
    previous_wait();
    for (int step = 0;; step++) {
        const int i = (int)(blockIdx.x + (unsigned)(step / 2) * gridDim.x), row = step % 2;
        if (i >= p.filters.n) return;
        const typename S::factors *f = halves_factors<S>(shared, row);
        const float turn = halves_turn(row);
        float2 r[S::E];
        for (int k = 0; k < p.windows; k++) {
            int t = again((int)threadIdx.x);
            halves_load<S, REAL>(r, halves_window(p.x, p.x_data, i * p.windows + k, 4 * S::N), turn, t);
            S::team_sync();
            S::template forward<false>(s, f, t, r);
            t = again(t);
            float2 *spectrum = p.stash + (size_t)blockIdx.x * 2 * S::N + t; /* each thread its own places */
#pragma unroll
            for (int m = 0; m < S::E; m++) spectrum[m * S::T] = r[m];
            halves_load<S, REAL>(r, halves_window(p.gy, p.gy_data, i * p.windows + k, 4 * S::N), turn, t);
            S::team_sync();
            S::template forward<false>(s, f, t, r);
            t = again(t);
            spectrum = p.stash + (size_t)blockIdx.x * 2 * S::N + t;
#pragma unroll
            for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], conj(spectrum[m * S::T]));
            float2 *sum = spectrum + S::N;
            if (k > 0) {
#pragma unroll
                for (int m = 0; m < S::E; m++) {
                    const float2 before = sum[m * S::T];
                    r[m] = make_float2(before.x + r[m].x, before.y + r[m].y);
                }
            }
            if (k + 1 < p.windows) {
#pragma unroll
                for (int m = 0; m < S::E; m++) sum[m * S::T] = r[m];
            }
        }
        const int t = again((int)threadIdx.x);
        S::inverse(s, f, t, r);
        halves_store<S, REAL>(r, f, p.gh, halves_frames_of(p.filters, p.output, i), p.output.scale, turn, row > 0, t);
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

/* log2 of the rows of the second pass; 0: there is none. */
static int second_split(int log2_r) { return log2_r > LONG_PASS_SPLITS ? log2_r / 2 : 0; }

template <bool INVERSE>
static cudaError_t second_pass_launch(const struct fused_device *device, struct long_size size, float2 *scratch,
                                      int64_t stride, int n, cudaStream_t stream)
{
    const int second = second_split(size.log2_r), first = size.log2_r - second, columns = 1 << size.log2_row;
    const unsigned threads = column_threads(columns), units = 65535u >> first; /* of a launch */
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
                              const float *data, float2 *scratch, cudaStream_t stream)
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
                             const struct long_output *output, float2 *scratch, int64_t stride, float *data,
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
    if (log2_row < LONG_ROW_LEAST || log2_row > LONG_ROW_MOST) return 0;
    with_row(log2_row, [&](auto size) {
        constexpr int LOG_N = decltype(size)::value;
        n = rows_at_once<LOG_N>(device);
        return cudaSuccess;
    });
    return n;
}

template <class Kernel> static cudaError_t shared_allow(Kernel kernel, size_t bytes)
{
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

#ifdef LONG_ROW
enum { HALVES_ROW = LONG_ROW };
#else
enum { HALVES_ROW = 14 };
#endif

static int halves_at_once(const struct fused_device *device)
{
    using S = halves_size<HALVES_ROW>;
    const int fitting = (int)((size_t)device->shared_bytes / S::HALVES_BYTES);
    return device->n_sm * (fitting < S::BLOCKS ? fitting : S::BLOCKS);
}

bool long_halves_fit(const struct fused_device *device, int log2_row)
{
    return log2_row == HALVES_ROW && halves_at_once(device) > 0;
}

cudaError_t long_halves_launch(const struct fused_device *device, bool real, const struct long_halves *p,
                               cudaStream_t stream)
{
    using S = halves_size<HALVES_ROW>;
    const int at_once = halves_at_once(device), of_block = (p->in.n + at_once - 1) / at_once;
    const unsigned blocks = (unsigned)((p->in.n + of_block - 1) / of_block);
    return launch_early(device->is_early, real ? halves_kernel<HALVES_ROW, true> : halves_kernel<HALVES_ROW, false>,
                        dim3(blocks), S::T, S::HALVES_BYTES, stream, *p, of_block);
}

size_t long_gradient_halves_stash(const struct fused_device *device, int n)
{
    const int at_once = halves_at_once(device);
    return (size_t)(n < at_once ? n : at_once) * 2 * row_size<HALVES_ROW>::N * sizeof(float2);
}

cudaError_t long_gradient_halves_launch(const struct fused_device *device, bool real,
                                        const struct long_gradient_halves *p, cudaStream_t stream)
{
    using S = halves_size<HALVES_ROW>;
    const int at_once = halves_at_once(device), rounds = (p->filters.n + at_once - 1) / at_once;
    const unsigned blocks = (unsigned)((p->filters.n + rounds - 1) / rounds);
    return launch_early(device->is_early,
                        real ? gradient_halves_kernel<HALVES_ROW, true> : gradient_halves_kernel<HALVES_ROW, false>,
                        dim3(blocks), S::T, S::HALVES_BYTES, stream, *p);
}

cudaError_t long_load(const struct fused_device *device)
{
    cudaError_t status = cudaSuccess;
    for (int log2_row = LONG_ROW_LEAST; log2_row <= LONG_ROW_MOST && !status; log2_row++)
        status = with_row(log2_row, [&](auto size) {
            constexpr int LOG_N = decltype(size)::value;
            constexpr size_t BYTES = row_size<LOG_N>::BYTES;
            if (BYTES > (size_t)device->shared_bytes) return cudaSuccess;
            cudaError_t error = shared_allow(rows_kernel<LOG_N, LONG_FORWARD>, BYTES);
            if (!error) error = shared_allow(rows_kernel<LOG_N, LONG_INVERSE>, BYTES);
            if (!error) error = shared_allow(rows_kernel<LOG_N, LONG_CONVOLVE>, BYTES);
            if (error || !long_halves_fit(device, LOG_N)) return error;
            constexpr size_t HALVES = halves_size<LOG_N>::HALVES_BYTES;
            error = shared_allow(halves_kernel<HALVES_ROW, true>, HALVES);
            if (!error) error = shared_allow(halves_kernel<HALVES_ROW, false>, HALVES);
            if (!error) error = shared_allow(gradient_halves_kernel<HALVES_ROW, true>, HALVES);
            if (!error) error = shared_allow(gradient_halves_kernel<HALVES_ROW, false>, HALVES);
            return error;
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
