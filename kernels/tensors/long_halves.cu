/* long_halves - windows of two rows without scratch (long_kernels.h). A team computes both rows of a window, one after
 * the other, from the frames of x, and adds the second row's result to the frames of y.
 *
 * cost     a window: 6 N log2(N) FMA; its points of x are read twice, those of y written twice and read once
 */
#include "early_launch.cuh"
#include "fused_sizes.cuh"
#include "long_windows.cuh"

static __device__ window halves_window(const long_units &u, const float *data, int unit, int points)
{
    const unit_position position = position_of_unit(u, (unsigned)unit);
    return window_of(data, u.rows, position.at, position.start, position.start + u.end, points);
}

/* exp(-2 pi i (row + 1/4) / 2) is halves_turn(row) (1 - i). */
static __device__ __forceinline__ float halves_turn(int row) { return row ? -0.70710678f : 0.70710678f; }

/* Loads a row of a window of 2 rows. turn: halves_turn of the row. */
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

/* Writes the inverse of a row to the frames of y, or adds it. */
template <class S, bool REAL>
static __device__ __forceinline__ void halves_store(const float2 *r, const typename S::factors *f, float *data,
                                                    const written_frames &frames, float scale, float turn, bool add,
                                                    int t)
{
    float *out = data + frames.at;
    const int first = frames.first, last = frames.last, length = frames.length;
    constexpr int PARTS = REAL ? 2 : 4, AT_ONCE = S::E < 16 / PARTS ? S::E : 16 / PARTS;
    const auto each = [&](auto is_asked, auto has_signal) {
        unrolled<S::E / AT_ONCE>([&](auto chunk) {
            constexpr int j0 = chunk.value * AT_ONCE;
            float before[AT_ONCE][PARTS]; /* all loads precede the stores, so their waits overlap */
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

struct halves_position {      /* a window in x and y, and its spectrum */
    window_position in;       /* position in x */
    int64_t spectrum;         /* index of the spectrum; it has two rows */
    written_frames out;
};

/* row_size with the constants of halves_kernel. */
template <int LOG_N> struct halves_size : row_size<LOG_N> {
    static constexpr int POSITIONS = row_size<LOG_N>::T < 32 ? row_size<LOG_N>::T : 32; /* positions computed at once */
    static constexpr size_t HALVES_BYTES = row_size<LOG_N>::BYTES + row_size<LOG_N>::FACTOR_BYTES +
                                           POSITIONS * sizeof(halves_position);
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
    halves_position *positions = reinterpret_cast<halves_position *>(halves_factors<S>(shared, 2));
    float2 *s = reinterpret_cast<float2 *>(positions + S::POSITIONS);
    next_may_begin();
    halves_factors_make<S>(shared);
    previous_wait();
    for (int step = 0; step < 2 * windows_of_block; step++) {
        const int first = (int)blockIdx.x * windows_of_block, i = first + step / 2, row = step % 2;
        int t = again((int)threadIdx.x);
        if (i >= p.in.n) return;
        if (step % (2 * S::POSITIONS) == 0) { /* each of POSITIONS threads computes another window's position */
            S::team_sync();
            if (t < S::POSITIONS && i + t < p.in.n) {
                positions[t].in = position_of_window(p.x, halves_window(p.in, p.x, i + t, 4 * S::N));
                positions[t].out = written_frames_of(p.out, p.output, i + t);
                positions[t].spectrum = (p.in.first + i + t) / p.in.units_of_group;
            }
            S::team_sync();
        }
        const halves_position &position = positions[step / 2 % S::POSITIONS];
        const typename S::factors *f = halves_factors<S>(shared, row);
        const float turn = halves_turn(row);
        float2 r[S::E];
        halves_load<S, REAL>(r, window_at(p.x, position.in), turn, t);
        S::template forward<false>(s, f, t, r);
        const float2 *h = p.spectra + ((2 * (size_t)position.spectrum + (size_t)row) << LOG_N) + t;
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
        t = again(t);
        S::inverse(s, f, t, r);
        halves_store<S, REAL>(r, f, p.y, position.out, p.output.scale, turn, p.output.add || row > 0, t);
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
            float2 *spectrum = p.stash + (size_t)blockIdx.x * 2 * S::N + t; /* each thread uses its own positions */
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
        halves_store<S, REAL>(r, f, p.gh, written_frames_of(p.filters, p.output, i), p.output.scale, turn, row > 0, t);
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

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

cudaError_t long_halves_load(const struct fused_device *device)
{
    return shared_allow(device, halves_size<HALVES_ROW>::HALVES_BYTES, halves_kernel<HALVES_ROW, true>,
                        halves_kernel<HALVES_ROW, false>, gradient_halves_kernel<HALVES_ROW, true>,
                        gradient_halves_kernel<HALVES_ROW, false>);
}
