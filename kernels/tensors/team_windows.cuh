/* team_windows - loads and stores of the windows that teams of threads transform (fft_registers.cuh), and the shared
 * memory of a team. */
#ifndef HALOCONV_TEAM_WINDOWS_CUH
#define HALOCONV_TEAM_WINDOWS_CUH

#include "fft_registers.cuh"
#include "row_windows.cuh"

/* A multiprocessor holds RESIDENT threads: 1024 of 16 points and 64 registers, or 512 of up to 128 registers. */
template <int LOG_N, bool ANY_SHIFT, bool SHARED_BLOCK = false>
struct team_tree : fft_tree<LOG_N, log_e_of(LOG_N), ANY_SHIFT, SHARED_BLOCK> {
    using tree = fft_tree<LOG_N, log_e_of(LOG_N), ANY_SHIFT, SHARED_BLOCK>;
    static constexpr int RESIDENT = tree::E == 16 && LOG_N > 8 ? 1024 : 512;
    static constexpr size_t POINT_BYTES = tree::POINTS * sizeof(float2),
                            FACTOR_BYTES = (sizeof(typename tree::factors) + 15) / 16 * 16;
};

/* A block has THREADS threads, unless its kernel says otherwise: one team, or the teams of four warps. */
template <int LOG_N, bool SHARED_BLOCK = false> struct team_size : team_tree<LOG_N, false, SHARED_BLOCK> {
    using tree = team_tree<LOG_N, false, SHARED_BLOCK>;
    static constexpr int THREADS = tree::T > 128 ? tree::T : 128, TEAMS = THREADS / tree::T,
                         POSITIONS = tree::T < 32 ? tree::T : 32; /* computed at once */
    static_assert(TEAMS == 1 || tree::T <= 32 || SHARED_BLOCK, "__syncthreads waits for all teams");
};

/* LISTED: for filters by index and packed sequences. */
enum kernel_kind { WHOLE, REAL_ROWS, LISTED };

/* Is is_idle(team) true for all teams of a warp? They run together, so they skip a step together. */
template <class S, class Idle> static __device__ __forceinline__ bool is_warp_idle(int team, Idle is_idle)
{
    constexpr int TEAMS = S::T < 32 ? 32 / S::T : 1;
    bool idle = true;
#pragma unroll
    for (int k = 0; k < TEAMS; k++) idle = idle && is_idle(team / TEAMS * TEAMS + k);
    return idle;
}

/* Loads the 2N points of a window as lo - i hi. REAL: hi is 0. */
template <class S, bool REAL> static __device__ __forceinline__ void team_load(float2 *r, const window &w, int t)
{
    const bool is_full = w.first == 0 && w.last >= (REAL ? S::N : 2 * S::N);
    if (w.type == HC_FLOAT32) {
        with_points<float>(w, is_full, [&](auto point) {
#pragma unroll
            for (int j = 0; j < S::E; j++) r[j].x = point(t + S::T * j);
            if (!REAL) {
#pragma unroll
                for (int j = 0; j < S::E; j++) r[j].y = -point(t + S::T * j + S::N);
            }
        });
        return;
    }
    t = again(t);
    unsigned pairs[S::E];
    with_points<bits_16>(w, is_full, [&](auto point) {
#pragma unroll
        for (int j = 0; j < S::E; j++)
            pairs[j] = half_pair_of(point(t + S::T * j), REAL ? bits_16(0) : point(t + S::T * j + S::N));
    });
    with_type_of_16_bits(w.type, [&](auto type) {
#pragma unroll
        for (int j = 0; j < S::E; j++) {
            const float2 z = widened<type.value>(pairs[j]);
            r[j] = make_float2(z.x, -z.y);
        }
    });
}

/* Prefetches a window into the L2 cache. May leave out cache lines at the window's ends. */
template <class S, bool REAL> static __device__ __forceinline__ void prefetch(const window &w, int t)
{
    constexpr int LINE = 32; /* floats of a cache line */
#pragma unroll
    for (int p = LINE * t; p < (REAL ? S::N : 2 * S::N); p += LINE * S::T)
        if (p >= w.first && p < w.last) 
            prefetch_line(w.type == HC_FLOAT32 ? (const void *)((const float *)w.data + p)
                                               : (const void *)((const bits_16 *)w.data + p));
}

/* Writes points first <= p < last of an inverse to elements at + p of data. REAL: points from N on are not written, and
 * each point of HC_FLOAT32 is stored as soon as it is computed, because many adjacent stores fill the queue of the
 * load/store unit. Otherwise all points are computed first, because the computation would make the loops of stores too
 * long. */
template <class S, bool REAL>
static __device__ __forceinline__ void team_store(void *data, int64_t at, int type, int first, int last, float scale,
                                                  float2 *r, int t)
{
    const bool is_full = first == 0 && last >= (REAL ? S::N : 2 * S::N);
    const auto value = [&](auto j) {
        const float2 z = S::template unshifted<j.value>(r[j.value]);
        return make_float2(scale * z.x, -scale * z.y);
    };
    const auto each = [&](auto put) { /* put(p, j, is_asked) */
        const auto store_if = [&](auto is_asked) {
            unrolled<S::E>([&](auto j) { put(t + S::T * j.value, j, is_asked); });
        };
        if (is_full) store_if([](int) { return true; });
        else store_if([&](int p) { return p >= first && p < last; });
    };
    if (type == HC_FLOAT32) {
        float *out = (float *)data + at;
        if (!REAL) unrolled<S::E>([&](auto j) { r[j.value] = value(j); });
        each([&](int p, auto j, auto is_asked) {
            const float2 z = REAL ? value(j) : r[j.value];
            if (is_asked(p)) out[p] = z.x;
            if (!REAL && is_asked(p + S::N)) out[p + S::N] = z.y;
        });
        return;
    }
    t = again(t);
    bits_16 *out = (bits_16 *)data + at;
    unsigned pairs[S::E];
    unrolled<S::E>([&](auto j) { r[j.value] = value(j); });
    with_type_of_16_bits(type, [&](auto kind) {
#pragma unroll
        for (int j = 0; j < S::E; j++) pairs[j] = narrowed<kind.value>(make_float2(r[j].x, REAL ? 0.0f : r[j].y));
    });
    each([&](int p, auto j, auto is_asked) {
        if (is_asked(p)) out[p] = (bits_16)pairs[j.value];
        if (!REAL && is_asked(p + S::N)) out[p + S::N] = (bits_16)(pairs[j.value] >> 16);
    });
}

#endif
