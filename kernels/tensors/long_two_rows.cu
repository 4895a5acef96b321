/* long_two_rows - windows of two rows without scratch (long_kernels.h). A team computes both rows of a window, one
 * after the other, from the frames of x, and adds the second row's result to the frames of y.
 *
 * cost     a window: 6 N log2(N) FMA; its points of x are read twice, those of y written twice and read once
 *          both gradients: 9 N log2(N) FMA; the points of x and gy are read twice, those of gx as those of y. Through
 *          the L2 cache go 36.5 bytes of spectra for each of N: 12.5 of x, 8 of h, 16 of the sum
 */
#include "early_launch.cuh"
#include "fused_sizes.cuh"
#include "long_windows.cuh"

static __device__ window_position two_rows_window(const long_units &u, int unit, int points)
{
    return window_of_unit(u, position_of_unit(u, (unsigned)unit), points);
}

/* exp(-2 pi i (row + 1/4) / 2) is two_rows_turn(row) (1 - i). */
static __device__ __forceinline__ float two_rows_turn(int row)
{
    return row ? -0.70710678f : 0.70710678f;
}

/* Loads a row of a window of 2 rows. turn: two_rows_turn of the row. */
template <class S, bool REAL, bool STREAMED>
static __device__ __forceinline__ void two_rows_load(float2 *r, const window &w, float turn, int t)
{
    if (w.type == HC_FLOAT32) {
        const bool is_full = w.first == 0 && w.last >= (REAL ? 2 : 4) * S::N;
        with_points<float, STREAMED>(w, is_full, [&](auto point) {
#pragma unroll
            for (int j = 0; j < S::E; j++) {
                const int n = t + S::T * j;
                const float a = point(n), b = point(n + S::N);
                const float c = REAL ? 0.0f : -point(n + 2 * S::N), d = REAL ? 0.0f : -point(n + 3 * S::N);
                r[j] = make_float2(a + turn * (b + d), c + turn * (d - b));
            }
        });
        return;
    }
    t = again(t);
    with_points<bits_16, STREAMED>(w, w.first == 0 && w.last >= 2 * S::N, [&](auto point) {
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const int n = t + S::T * j;
            r[j].x = __uint_as_float(half_pair_of(point(n), point(n + S::N)));
            r[j].y = 0.0f;
        }
    });
    if (!REAL && w.last > 2 * S::N) /* real windows of 16 bits have no kernel: they skip this */
        with_points<bits_16, STREAMED>(w, w.first <= 2 * S::N && w.last >= 4 * S::N, [&](auto point) {
#pragma unroll
            for (int j = 0; j < S::E; j++) {
                const int n = t + S::T * j + 2 * S::N;
                r[j].y = __uint_as_float(half_pair_of(point(n), point(n + S::N)));
            }
        });
    with_type_of_16_bits(w.type, [&](auto type) {
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const float2 ab = widened<type.value>(__float_as_uint(r[j].x));
            const float2 cd = widened<type.value>(__float_as_uint(r[j].y));
            r[j] = make_float2(ab.x + turn * (ab.y - cd.y), -cd.x - turn * (cd.y + ab.y));
        }
    });
}

/* The points n, n + N', n + 2 N' and n + 3 N' of a window that a row's inverse adds. */
struct two_rows_points {
    float at[4];
};
static __device__ __forceinline__ two_rows_points points_of(float2 z, float turn)
{
    return two_rows_points{{z.x, turn * (z.x - z.y), -z.y, -turn * (z.x + z.y)}};
}

/* Writes the inverse of a row to the frames of y, or adds it. FULL: there is code of its own for windows all of whose
 * points are written. */
template <class S, bool REAL, bool FULL>
static __device__ __forceinline__ void two_rows_store(const float2 *r, const typename S::factors *f, float *data,
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
                const two_rows_points points = points_of(z, turn);
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const int n = t + S::T * (j0 + j.value) + part * S::N;
                    const float signal = has_signal(n) ? scale * points.at[part] : 0.0f;
                    if (is_asked(n)) out[n] = signal + before[j.value][part];
                }
            });
        });
    };
    if (FULL && first == 0 && length >= PARTS * S::N)
        each([](int) { return true; }, [](int) { return true; });
    else
        each([&](int n) { return n >= first && n < last; }, [&](int n) { return n < length; });
}

/* Writes the sum of both rows' inverses to frames of 16 bits. kept: the first row's inverse. */
template <class S, bool REAL>
static __device__ __forceinline__ void two_rows_store_pairs(const float2 *r, const float2 *kept,
                                                            const typename S::factors *f, void *data, int type,
                                                            const written_frames &frames, float scale, int t)
{
    bits_16 *out = (bits_16 *)data + frames.at;
    const int first = frames.first, last = frames.last, length = frames.length;
    const auto each = [&](auto parts) {
        constexpr int AT_ONCE = S::E < 8 ? S::E : 8;
        unrolled<S::E / AT_ONCE>([&](auto chunk) {
            constexpr int j0 = chunk.value * AT_ONCE;
            float2 before[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) before[j] = kept[(j0 + j) * S::T];
            unrolled<AT_ONCE>([&](auto j) {
                constexpr int J = j0 + j.value;
                const two_rows_points a = points_of(before[j.value], two_rows_turn(0));
                const two_rows_points b = points_of(S::template unshifted<J>(f, r[J]), two_rows_turn(1));
#pragma unroll
                for (int part = 0; part < parts.value; part += 2) {
                    const int lo = t + S::T * J + part * S::N, hi = lo + S::N;
                    const float2 z = make_float2(lo < length ? scale * (a.at[part] + b.at[part]) : 0.0f,
                                                 hi < length ? scale * (a.at[part + 1] + b.at[part + 1]) : 0.0f);
                    const unsigned pair = narrowed(type, z);
                    if (lo >= first && lo < last) out[lo] = (bits_16)pair;
                    if (hi >= first && hi < last) out[hi] = (bits_16)(pair >> 16);
                }
            });
        });
    };
    if (!REAL && last > 2 * S::N)
        each(constant<4>());
    else
        each(constant<2>());
}

/* The shifts of both rows of a window are 1/8 and 5/8: (row + 1/4) / 2. */
static __device__ __forceinline__ float two_rows_shift(int row)
{
    return row ? 0.625f : 0.125f;
}
template <class S> static __device__ __forceinline__ typename S::factors *two_rows_factors(float4 *shared, int row)
{
    return shared_at<typename S::factors>(shared, row * S::FACTOR_BYTES);
}
template <class S> static __device__ void two_rows_factors_make(float4 *shared)
{
    for (int row = 0; row < 2; row++) S::factors_make(two_rows_factors<S>(shared, row), two_rows_shift(row));
}

/* Writes a row's result of the window that this block computes. */
template <class S, bool REAL, bool FULL>
static __device__ __forceinline__ void two_rows_finish(const float2 *r, const typename S::factors *f, int row,
                                                       float2 *kept, void *data, int type, const written_frames &frames,
                                                       const long_output &output, int t)
{
    if (type == HC_FLOAT32) {
        two_rows_store<S, REAL, FULL>(r, f, (float *)data, frames, output.scale, two_rows_turn(row),
                                      output.add || row > 0, t);
        return;
    }
    t = again(t);
    kept += t; /* each thread uses its own positions */
    if (row > 0) {
        two_rows_store_pairs<S, REAL>(r, kept, f, data, type, frames, output.scale, t);
        return;
    }
    unrolled<S::E>([&](auto j) { kept[j.value * S::T] = S::template unshifted<j.value>(f, r[j.value]); });
}

struct two_rows_position { /* a window in x and y, and its spectrum */
    window_position in;    /* position in x */
    int spectrum;          /* index of the spectrum, which has two rows; -1: the result is 0 */
    written_frames out;
};

/* row_size with the constants of two_rows_kernel. */
template <int LOG_N> struct two_rows_size : row_size<LOG_N> {
    static constexpr int POSITIONS = row_size<LOG_N>::T < 32 ? row_size<LOG_N>::T : 32; /* positions computed at once */
    static constexpr size_t TWO_ROWS_BYTES =
        row_size<LOG_N>::BYTES + row_size<LOG_N>::FACTOR_BYTES + POSITIONS * sizeof(two_rows_position);
};

template <int LOG_N, bool REAL, bool HAS_16_BITS>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    two_rows_kernel(long_two_rows p, int windows_of_block)
{
    using S = two_rows_size<LOG_N>;
    extern __shared__ float4 shared[];
    two_rows_position *positions = reinterpret_cast<two_rows_position *>(two_rows_factors<S>(shared, 2));
    float2 *s = reinterpret_cast<float2 *>(positions + S::POSITIONS);
    next_may_begin();
    two_rows_factors_make<S>(shared);
    previous_wait();
    for (int step = 0; step < 2 * windows_of_block; step++) {
        const int first = (int)blockIdx.x * windows_of_block, i = first + step / 2, row = step % 2;
        int t = again((int)threadIdx.x);
        if (i >= p.in.n) return;
        if (step % (2 * S::POSITIONS) == 0) { /* each of POSITIONS threads computes another window's position */
            S::team_sync();
            if (t < S::POSITIONS && i + t < p.in.n) {
                const unit_position in = position_of_unit(p.in, (unsigned)(i + t));
                positions[t].in = window_of_unit(p.in, in, 4 * S::N);
                positions[t].out = written_frames_of(p.out, p.output, position_of_unit(p.out, (unsigned)(i + t)));
                positions[t].spectrum = in.spectrum;
            }
            S::team_sync();
        }
        const two_rows_position &position = positions[step / 2 % S::POSITIONS];
        if (position.spectrum < 0) { /* `length` is 0 */
            const written_frames &out = position.out;
            for (int n = out.first + t; n < out.last && row == 0 && !p.output.add; n += S::T)
                element_put(p.y, out.at + n, p.out.rows.type, 0.0f);
            continue;
        }
        const typename S::factors *f = two_rows_factors<S>(shared, row);
        const float turn = two_rows_turn(row);
        float2 r[S::E];
        two_rows_load<S, REAL, true>(r, row_window_at<HAS_16_BITS>(p.x, p.in.rows, position.in), turn, t);
        S::template forward<false>(s, f, t, r);
        const float2 *h = p.spectra + ((2 * (size_t)position.spectrum + (size_t)row) << LOG_N) + t;
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
        t = again(t);
        S::inverse(s, f, t, r);
        two_rows_finish<S, REAL, !HAS_16_BITS>(r, f, row, p.kept + (size_t)blockIdx.x * S::N, p.y,
                                               HAS_16_BITS ? p.out.rows.type : HC_FLOAT32, position.out, p.output, t);
    }
}

/* Loads and stores of a sum over windows, which L2 replaces last (PTX ISA, createpolicy). */
static __device__ __forceinline__ float2 sum_load(const float2 *from)
{
#if __CUDA_ARCH__ >= 800
    float2 z;
    asm volatile("{ .reg .b64 last; createpolicy.fractional.L2::evict_last.b64 last, 1.0; "
                 "ld.global.L2::cache_hint.v2.f32 {%0, %1}, [%2], last; }"
                 : "=f"(z.x), "=f"(z.y)
                 : "l"(from)
                 : "memory");
    return z;
#else
    return *from;
#endif
}
static __device__ __forceinline__ void sum_store(float2 *to, float2 z)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .b64 last; createpolicy.fractional.L2::evict_last.b64 last, 1.0; "
                 "st.global.L2::cache_hint.v2.f32 [%0], {%1, %2}, last; }" ::"l"(to),
                 "f"(z.x), "f"(z.y)
                 : "memory");
#else
    *to = z;
#endif
}

/* row_size with the constants of gradient_two_rows_kernel. Shared memory has a part of the spectrum of x. Of 256 KiB a
 * multiprocessor gives 196 to it: what is left holds the loads on their way, and 28 KiB were too few (15 points: both
 * gradients 10.0 instead of 9.5 ms at 16 x 768 x 32,768, H100). */
template <int LOG_N> struct gradient_two_rows_size : row_size<LOG_N> {
    static constexpr int SHARED = 7; /* of the E points of a thread */
    static constexpr size_t SPECTRUM_AT = row_size<LOG_N>::BYTES,
                            BYTES = SPECTRUM_AT + SHARED * row_size<LOG_N>::T * sizeof(float2);
};

/* A block computes the gradient of a filter and, with spectra, that of x: row 0 of some windows, then row 1 of the same
 * windows, until the sum over all windows is complete. */
template <int LOG_N, bool REAL, bool HAS_16_BITS>
static __global__ void __launch_bounds__(row_size<LOG_N>::T, row_size<LOG_N>::BLOCKS)
    gradient_two_rows_kernel(long_gradient_two_rows p)
{
    using S = gradient_two_rows_size<LOG_N>;
    extern __shared__ float4 shared[];
    auto *f = shared_at<typename S::factors>(shared, 0);
    float2 *s = shared_at<float2>(shared, S::FACTOR_BYTES);
    const bool is_both = p.spectra;
    next_may_begin();
    S::factors_make(f, two_rows_shift(0));
    previous_wait();
    /* One loop, because a loop in a loop spills registers. */
    for (int i = (int)blockIdx.x, pass = 0; i < p.filters.n; pass++) {
        const int row = pass % 2, begin = pass / 2 * p.of_step;
        if (begin >= p.windows) {
            i += (int)gridDim.x;
            pass = -1;
            continue;
        }
        const float turn = two_rows_turn(row);
        S::team_sync();
        S::shift_make(f, two_rows_shift(row));
        float2 r[S::E];
#pragma unroll
        for (int m = 0; m < S::E; m++) r[m] = make_float2(0.0f, 0.0f);
        /* Round p.windows, the last one, is that of the sum. The inverse is long, too: its code exists once. */
        for (int k = begin; k < begin + p.of_step ? k <= p.windows : k == p.windows; k++) {
            const bool is_sum = k == p.windows;
            const int unit = i * p.windows + k;
            int t = again((int)threadIdx.x);
            /* Each thread uses its own positions. */
            float2 *in_shared = shared_at<float2>(shared, S::SPECTRUM_AT) + t;
            float2 *stash = p.stash + (size_t)blockIdx.x * (size_t)p.n_stash * S::N + t;
            const auto of_x = [&](int m) -> float2 & { return m < S::SHARED ? in_shared[m * S::T] : stash[m * S::T]; };
            float2 *sum = stash + (p.n_stash > 2 && row ? 2 : 1) * S::N;
            if (!is_sum) {
                const window_position x = two_rows_window(p.x, unit, 4 * S::N);
                if (x.first >= x.last) {
                    for (int m = 0; m < S::E && k == 0; m++) sum[m * S::T] = make_float2(0.0f, 0.0f);
                    if (!is_both || row > 0) continue;
                    const written_frames out =
                        written_frames_of(p.gx, p.output, position_of_unit(p.gx, (unsigned)unit));
                    for (int n = out.first + t; n < out.last; n += S::T)
                        element_put(p.gx_data, out.at + n, p.gx.rows.type, 0.0f);
                    continue;
                }
                /* The transform is long, so its code exists once for x and gy. */
#pragma unroll 1
                for (int is_gy = 0; is_gy < 2; is_gy++) {
                    two_rows_load<S, REAL, REAL>(
                        r,
                        is_gy ? row_window_at<HAS_16_BITS>(p.gy_data, p.gy.rows, two_rows_window(p.gy, unit, 4 * S::N))
                              : row_window_at<HAS_16_BITS>(p.x_data, p.x.rows, x),
                        turn, t);
                    S::team_sync();
                    S::template forward<false>(s, f, t, r);
                    t = again(t);
                    if (is_gy) break;
#pragma unroll
                    for (int m = 0; m < S::E; m++) of_x(m) = conj(r[m]);
                }
                constexpr int AT_ONCE = 8; /* all loads precede the stores, so their waits overlap */
#pragma unroll
                for (int m0 = 0; m0 < S::E; m0 += AT_ONCE) {
                    float2 z[AT_ONCE];
#pragma unroll
                    for (int m = 0; m < AT_ONCE; m++) z[m] = cmul(r[m0 + m], of_x(m0 + m));
                    if (k > 0) {
#pragma unroll
                        for (int m = 0; m < AT_ONCE; m++) {
                            const float2 before = sum_load(sum + (m0 + m) * S::T);
                            z[m] = make_float2(before.x + z[m].x, before.y + z[m].y);
                        }
                    }
                    if (is_both || k + 1 < p.windows) {
#pragma unroll
                        for (int m = 0; m < AT_ONCE; m++) sum_store(sum + (m0 + m) * S::T, z[m]);
                    }
                    if (!is_both) {
#pragma unroll
                        for (int m = 0; m < AT_ONCE; m++) r[m0 + m] = z[m];
                    }
                }
                if (!is_both) continue;
                const int number = p.gx.by_bank ? (int)filter_of(p.gx.groups, (unsigned)(p.gx.groups.first + i)) : i;
                const float2 *h = p.spectra + ((2 * (size_t)number + (size_t)row) << LOG_N) + t;
#pragma unroll
                for (int m = 0; m < S::E; m++) r[m] = cmul(r[m], h[m * S::T]);
            } else {
                if (is_both) {
#pragma unroll
                    for (int m = 0; m < S::E; m++) r[m] = sum[m * S::T];
                }
                S::team_sync();
            }
            t = again(t);
            S::inverse(s, f, t, r);
            const int type = is_sum ? p.filters.rows.type : p.gx.rows.type;
            const size_t number = (size_t)blockIdx.x * (size_t)p.n_kept + (is_sum ? 0 : 1 + (size_t)(k - begin));
            two_rows_finish<S, REAL, !HAS_16_BITS>(
                r, f, row, p.kept + number * S::N, is_sum ? p.gh : p.gx_data, HAS_16_BITS ? type : HC_FLOAT32,
                is_sum ? written_frames_of(p.filters, p.output, position_of_unit(p.filters, (unsigned)i))
                       : written_frames_of(p.gx, p.output, position_of_unit(p.gx, (unsigned)unit)),
                p.output, t);
        }
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* Calls use(is_real, has_16_bits). A kernel of 16 bits has all windows. */
template <class Use> static cudaError_t with_two_rows(bool real, bool has_16_bits, Use use)
{
    using yes = std::true_type;
    using no = std::false_type;
    return has_16_bits ? use(no(), yes()) : real ? use(yes(), no()) : use(no(), no());
}

/* The larger of the two kernels' shared bytes of a block. */
static constexpr size_t TWO_ROWS_MAX_BYTES =
    two_rows_size<LOG_OF_TWO_ROWS>::TWO_ROWS_BYTES > gradient_two_rows_size<LOG_OF_TWO_ROWS>::BYTES
        ? two_rows_size<LOG_OF_TWO_ROWS>::TWO_ROWS_BYTES
        : gradient_two_rows_size<LOG_OF_TWO_ROWS>::BYTES;

static int two_rows_at_once(const struct fused_device *device)
{
    using S = two_rows_size<LOG_OF_TWO_ROWS>;
    const int fitting = (int)((size_t)device->shared_bytes / TWO_ROWS_MAX_BYTES);
    return device->n_sm * (fitting < S::BLOCKS ? fitting : S::BLOCKS);
}

bool long_two_rows_fit(const struct fused_device *device)
{
    return two_rows_at_once(device) > 0;
}

cudaError_t long_two_rows_launch(const struct fused_device *device, bool real, const struct long_two_rows *p,
                                 cudaStream_t stream)
{
    using S = two_rows_size<LOG_OF_TWO_ROWS>;
    const int at_once = two_rows_at_once(device), of_block = (p->in.n + at_once - 1) / at_once;
    const unsigned blocks = (unsigned)((p->in.n + of_block - 1) / of_block);
    return with_two_rows(real, any_has_16_bits(p->in.rows, p->out.rows), [&](auto is_real, auto has_16_bits) {
        return launch_early(device->is_early, two_rows_kernel<LOG_OF_TWO_ROWS, is_real.value, has_16_bits.value>,
                            dim3(blocks), S::T, S::TWO_ROWS_BYTES, stream, *p, of_block);
    });
}

size_t long_two_rows_kept(const struct fused_device *device, int n)
{
    const int at_once = two_rows_at_once(device);
    return (size_t)(n < at_once ? n : at_once) * row_size<LOG_OF_TWO_ROWS>::N * sizeof(float2);
}

cudaError_t long_gradient_two_rows_launch(const struct fused_device *device, bool real,
                                          const struct long_gradient_two_rows *p, cudaStream_t stream)
{
    using S = gradient_two_rows_size<LOG_OF_TWO_ROWS>;
    const int at_once = two_rows_at_once(device), rounds = (p->filters.n + at_once - 1) / at_once;
    const unsigned blocks = (unsigned)((p->filters.n + rounds - 1) / rounds);
    return with_two_rows(
        real, any_has_16_bits(p->x.rows, p->gy.rows, p->gx.rows, p->filters.rows), [&](auto is_real, auto has_16_bits) {
            return launch_early(device->is_early,
                                gradient_two_rows_kernel<LOG_OF_TWO_ROWS, is_real.value, has_16_bits.value>,
                                dim3(blocks), S::T, S::BYTES, stream, *p);
        });
}

cudaError_t long_two_rows_load(const struct fused_device *device)
{
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < 3 && !status; i++)
        status = with_two_rows(i & 1, i & 2, [&](auto is_real, auto has_16_bits) {
            return shared_allow(device, TWO_ROWS_MAX_BYTES,
                                two_rows_kernel<LOG_OF_TWO_ROWS, is_real.value, has_16_bits.value>,
                                gradient_two_rows_kernel<LOG_OF_TWO_ROWS, is_real.value, has_16_bits.value>);
        });
    return status;
}
