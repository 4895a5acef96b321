/* rung16_passes - the passes of a transform in a thread's registers, for rung16_overlap_save.cu.
 *
 * Complex points z[n], n < M, are the coefficients of a polynomial modulo z^M - i. With c the square root of e^ia,
 *   modulo z^2n - e^ia  ->  modulo z^n - c (low + c high)  and  modulo z^n + c (low - c high)
 * reduces it in log2 M stages to its values at the M roots of z^M = i, which are the transform at the odd frequencies
 * (4k + 1) / 4M. A factor belongs to a node of this tree, not to a point: so the first pass has all its factors in
 * constants, the second shares them among neighbours, and there are no multiplications between passes. The values are
 * in bit-reversed order.
 *
 * The inverse is the textbook's decimation in time, from bit-reversed to natural order, with factors that belong to a
 * point's position. Each output must still be multiplied by e^(-i pi n / 2M), because of the odd frequencies; 1/M is in
 * the spectra.
 *
 * Both ways a butterfly is a +- cb. With c = cos (1 + i tan) that is 6 FMA (Linzer and Feig), against 8 for a product,
 * a sum and a difference. A large tan does no harm, since cos is then small: rounding stays relative to |cb|. Half of a
 * stage's factors are the others turned by a quarter, which costs nothing: R points need R/2 factors.
 */
#ifndef HALOCONV_RUNG16_PASSES_CUH
#define HALOCONV_RUNG16_PASSES_CUH

#include <cuda_runtime.h>

/* e^ia as cos a and tan a */
struct factor { float cos, tan; };

static constexpr double PI = 3.14159265358979323846;

static constexpr double series(double a, int from) /* sin (from = 1) or cos (0) for the compiler, |a| <= pi */
{
    double term = from ? a : 1.0, sum = term;
    for (int k = from + 1; k < 40; k += 2) sum += term *= -a * a / (k * (k + 1.0));
    return sum;
}
static constexpr factor fixed_factor(double a) { return {(float)series(a, 0), (float)(series(a, 1) / series(a, 0))}; }

/* The bits of i < 2^n_bits in reverse order. */
static constexpr int reverse(int i, int n_bits)
{
    int r = 0;
    for (int bit = 0; bit < n_bits; bit++) r = r << 1 | (i >> bit & 1);
    return r;
}

template <int N> struct fixed_factors { factor f[N]; };

static constexpr fixed_factors<16> make_root()
{
    fixed_factors<16> t = {};
    int k = 0;
    for (int stage = 0; stage < 5; stage++)
        for (int g = 0; g < 1 << stage; g += 2)
            t.f[k++] = fixed_factor((PI / 4 + PI * reverse(g, stage)) / (1 << stage));
    return t;
}
static constexpr fixed_factors<8> make_leaf()
{
    fixed_factors<8> t = {};
    int k = 0;
    for (int half = 1; half <= 8; half *= 2)
        for (int m = 0; m < (half + 1) / 2; m++) t.f[k++] = fixed_factor(-PI * m / half);
    return t;
}
static constexpr fixed_factors<32> make_untwist()
{
    fixed_factors<32> t = {};
    for (int j = 0; j < 32; j++) t.f[j] = fixed_factor(-PI * j / 64);
    return t;
}
static __constant__ fixed_factors<16> root_factors = make_root();
static __constant__ fixed_factors<8> leaf_factors = make_leaf();
static __constant__ fixed_factors<32> untwist_factors = make_untwist();

struct from_root { __device__ factor operator[](int k) const { return root_factors.f[k]; } };
struct from_leaf { __device__ factor operator[](int k) const { return leaf_factors.f[k]; } };

/* The R/2 factors of a pass, two in a float4, from a table [R/4][n]. */
template <int R> struct from_table {
    float4 w[R / 4];
    __device__ void load(const float4 *table, int n, int i)
    {
#pragma unroll
        for (int k = 0; k < R / 4; k++) w[k] = __ldg(table + (size_t)k * n + i);
    }
    __device__ factor operator[](int k) const
    {
        return k & 1 ? factor{w[k / 2].z, w[k / 2].w} : factor{w[k / 2].x, w[k / 2].y};
    }
};

/* a, b = a + cb, a - cb, where c is f turned by a quarter (turn 1: forward, -1: back), or f (turn 0). */
__device__ static inline void butterfly(float2 &a, float2 &b, factor f, int turn)
{
    float p = fmaf(-f.tan, b.y, b.x), q = fmaf(f.tan, b.x, b.y);
    if (turn) {
        float swap = p;
        p = turn > 0 ? -q : q;
        q = turn > 0 ? swap : -swap;
    }
    b = make_float2(fmaf(-f.cos, p, a.x), fmaf(-f.cos, q, a.y));
    a = make_float2(fmaf(f.cos, p, a.x), fmaf(f.cos, q, a.y));
}

__host__ __device__ static constexpr int log2_of(int n) { return n > 1 ? 1 + log2_of(n / 2) : 0; }

/* Forward: from the R points of a polynomial modulo z^R - e^ia to its values at the R roots of z^R = e^ia. */
template <int R, class F> __device__ static inline void pass_forward(float2 *r, const F &f)
{
    constexpr int STAGES = log2_of(R);
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
        const int groups = 1 << stage, half = R / 2 / groups;
#pragma unroll
        for (int i = 0; i < R / 2; i++) {
            const int g = i / half, a = g * half + i;
            butterfly(r[a], r[a + half], f[groups / 2 + g / 2], g & 1);
        }
    }
}

/* Back: joins R transforms, whose bins are interleaved, to one. */
template <int R, bool leaf, class F> __device__ static inline void pass_back(float2 *r, const F &f)
{
    constexpr int STAGES = log2_of(R);
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
        const int half = 1 << stage, own = (half + 1) / 2; /* factors; the upper half of the points use them turned */
#pragma unroll
        for (int i = 0; i < R / 2; i++) {
            const int m = i % half, j = (i - m) * 2 + m, turn = m >= own ? -1 : 0;
            if (leaf && m % own == 0) {
                float2 a = r[j], b = r[j + half];
                if (turn) b = make_float2(b.y, -b.x);
                r[j] = make_float2(a.x + b.x, a.y + b.y);
                r[j + half] = make_float2(a.x - b.x, a.y - b.y);
            } else butterfly(r[j], r[j + half], f[half / 2 + m % own], turn);
        }
    }
}

#endif
