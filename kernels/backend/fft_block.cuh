/* fft_block - a transform of 2P real points inside one thread block, in place in shared memory. P is a power of two, 32
 * to 4096. A transform has P/8 threads with 8 complex points each; if P is small, a block has several transforms.
 *
 *   z[n] = x[2n] + i x[2n+1], n < P        one complex transform of P points gives that of 2P real points
 *
 *   forward   passes of three radix-2 stages in registers (radix 8), decimation in frequency: natural order in,
 *             bit-reversed order out. The inverse runs the stages backwards: bit-reversed order in, natural order out.
 *             A reordering pass is not needed: readers and writers of bin k use position brev(k).
 *   unpack    X[k], X[P-k] from Z[k], Z[P-k]:  E = Z[k] + Z*[P-k], O = Z[k] - Z*[P-k], T = i W^k O, W = exp(-pi i / P)
 *                                              2 X[k] = E - T,  2 X*[P-k] = E + T
 *   spectrum  [P] float2, natural order; bin 0 holds the two real bins: DC in x, Nyquist in y
 *
 * Shared memory is skewed so that there are no bank conflicts at strides of 8 (last pass), of 64 and of P/16
 * (bit-reversed reads). The twiddle factors tw[i] = W^i, i < P, are a table that the host makes in double precision
 * (fft_twiddles).
 *
 * cost     2P real points: 5 P log2(P) flop; shared memory is crossed ceil(log2(P) / 3) + 1 times
 * limits   8.53 P bytes of shared memory: 34.1 KiB at P = 4096
 * error    about 1e-7 relative (rms)
 */
#ifndef HALOCONV_FFT_BLOCK_CUH
#define HALOCONV_FFT_BLOCK_CUH

#include <cuda_runtime.h>
#include <math.h>

enum { FFT_MIN = 32, FFT_MAX = 4096 };    /* P */

static inline __host__ __device__ int fft_skew(int i) { return i + (i >> 4) + (i >> 8); }
/* SKEWED false: slower, for the one size that does not fit otherwise (8192 points in the 64 KiB of sm_75). */
template <bool SKEWED> static inline __host__ __device__ int fft_at(int i) { return SKEWED ? fft_skew(i) : i; }

/* Fills tw[P], in host memory: tw[k] = (cos a, -sin a), a = pi k / P. */
static inline void fft_twiddles(float2 *tw, int P)
{
    for (int i = 0; i < P; i++) {
        const double a = 3.14159265358979323846 * i / P;
        tw[i] = make_float2((float)cos(a), (float)-sin(a));
    }
}

/* The smallest log2 with n <= 1 << log2. */
static inline int log2_of(int n)
{
    int log2 = 0;
    while (1 << log2 < n) log2++;
    return log2;
}

/* Three sizes of a thread block (64 threads or more): its transforms, its threads, its bytes of shared memory. */
static inline int fft_per_block(int P) { return P >= 512 ? 1 : 512 / P; }
static inline int fft_threads(int P) { return fft_per_block(P) * P / 8; }
static inline size_t fft_shared_bytes(int P) { return fft_per_block(P) * (size_t)fft_skew(P) * sizeof(float2); }

/* Returns the number of thread blocks of fft_threads(P) threads that a launch of n transforms needs. */
static inline unsigned fft_blocks(size_t n, int P)
{
    const size_t per_block = (size_t)fft_per_block(P);
    return (unsigned)((n + per_block - 1) / per_block);
}

struct fft_lane {          /* a thread of a launch of many transforms, several a block                            */
    int log2_P;
    int t;                 /* the thread's index in its transform                                                 */
    int which;             /* the transform's index                                                               */
    float2 *s;             /* the transform's shared memory                                                       */
};

/* Finds the transform of this thread. first_block: the thread block that has transform 0. */
template <bool SKEWED = true>
__device__ static inline struct fft_lane fft_lane_of(float2 *shared, int log2_P, int first_block = 0)
{
    const int log2_threads = log2_P - 3, i = (int)threadIdx.x >> log2_threads;
    struct fft_lane lane;
    lane.log2_P = log2_P;
    lane.t = threadIdx.x & ((1 << log2_threads) - 1);
    lane.which = ((int)blockIdx.x - first_block) * ((int)blockDim.x >> log2_threads) + i;
    lane.s = shared + i * fft_at<SKEWED>(1 << log2_P);
    return lane;
}

/* Calls each(m, i) for the points m = FIRST ... 7 of a thread. Point m is frames i and i + 1 of 2P. */
template <int FIRST = 0, class Each>
__device__ static inline void fft_points(const struct fft_lane lane, Each each)
{
#pragma unroll
    for (int m = FIRST; m < 8; m++) each(m, 2 * (lane.t + (m << (lane.log2_P - 3))));
}

__device__ static inline float2 cadd(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ static inline float2 csub(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ static inline float2 cmul(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ static inline float2 conj(float2 a) { return make_float2(a.x, -a.y); }

/* z times exp(-i pi m / 4), where the compiler knows m = 0 ... 3. dir -1: times the conjugate. */
__device__ static inline float2 turn(float2 z, int m, int dir)
{
    const float r = 0.70710678118654752f;
    float x = z.x, y = dir > 0 ? z.y : -z.y;
    if (m == 1) z = make_float2(r * (x + y), r * (y - x));
    else if (m == 2) z = make_float2(y, -x);
    else if (m == 3) z = make_float2(r * (y - x), -r * (x + y));
    else return z;
    if (dir < 0) z.y = -z.y;
    return z;
}

/* A pass: three stages, of lengths L, L/2 and L/4, over r[m] = z[j + m L/8]. w1, w2, w4 = W_L^j, W_L^2j, W_L^4j. */
__device__ static inline void fft_pass(float2 r[8], float2 w1, float2 w2, float2 w4)
{
#pragma unroll
    for (int m = 0; m < 4; m++) {
        float2 d = csub(r[m], r[m + 4]);
        r[m] = cadd(r[m], r[m + 4]);
        r[m + 4] = cmul(turn(d, m, 1), w1);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int a = i / 2 * 4 + i % 2;
        float2 d = csub(r[a], r[a + 2]);
        r[a] = cadd(r[a], r[a + 2]);
        r[a + 2] = cmul(turn(d, i % 2 * 2, 1), w2);
    }
#pragma unroll
    for (int a = 0; a < 8; a += 2) {
        float2 d = csub(r[a], r[a + 1]);
        r[a] = cadd(r[a], r[a + 1]);
        r[a + 1] = cmul(d, w4);
    }
}

/* The stages of fft_pass in reverse, with the conjugate factors: inverts fft_pass, with a gain of 8. */
__device__ static inline void fft_pass_back(float2 r[8], float2 w1, float2 w2, float2 w4)
{
#pragma unroll
    for (int a = 0; a < 8; a += 2) {
        float2 b = cmul(r[a + 1], conj(w4));
        r[a + 1] = csub(r[a], b);
        r[a] = cadd(r[a], b);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int a = i / 2 * 4 + i % 2;
        float2 b = turn(cmul(r[a + 2], conj(w2)), i % 2 * 2, -1);
        r[a + 2] = csub(r[a], b);
        r[a] = cadd(r[a], b);
    }
#pragma unroll
    for (int m = 0; m < 4; m++) {
        float2 b = turn(cmul(r[m + 4], conj(w1)), m, -1);
        r[m + 4] = csub(r[m], b);
        r[m] = cadd(r[m], b);
    }
}

/* The last stages of a forward transform, or the first stages of an inverse: lengths L, L/2 ... 2 inside 8 adjacent
 * points, L = 8, 4 or 2. All factors are those of `turn`. */
__device__ static inline void fft_ends(float2 r[8], int L, int dir)
{
    const float2 one = make_float2(1.0f, 0.0f);
    if (L == 8 && dir > 0) fft_pass(r, one, one, one);
    else if (L == 8) fft_pass_back(r, one, one, one);
    else {
#pragma unroll
        for (int stage = 0; stage < 2; stage++) {
            const bool four = (stage == 0) == (dir > 0); /* forward: the stage of 4, then that of 2; back: 2, 4 */
            if (four && L != 4) continue;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int a = four ? i / 2 * 4 + i % 2 : 2 * i, b = a + (four ? 2 : 1), m = four ? i % 2 * 2 : 0;
                float2 z = dir > 0 ? r[b] : turn(r[b], m, -1), d = csub(r[a], z);
                r[a] = cadd(r[a], z);
                r[b] = dir > 0 ? turn(d, m, 1) : d;
            }
        }
    }
}

/* The points of thread t of a transform in a pass of length L: 8 from `first` on, `step` apart. */
struct fft_reach { int first, step, j; };
__device__ static inline struct fft_reach fft_reach_of(int t, int log2_L)
{
    struct fft_reach at;
    at.step = 1 << (log2_L - 3);
    at.j = t & (at.step - 1);
    at.first = ((t >> (log2_L - 3)) << log2_L) + at.j;
    return at;
}

/* Forward transform. On entry r[m] = z[t + m P/8]. On return lane.s[fft_at(brev(k))] = Z[k], behind a barrier. All
 * threads of the block call it. */
template <bool SKEWED = true>
__device__ static inline void fft_forward(const struct fft_lane lane, const float2 *tw, float2 r[8])
{
    int log2_L = lane.log2_P;
    for (;;) {
        struct fft_reach at = fft_reach_of(lane.t, log2_L);
        const int i = at.j << (lane.log2_P + 1 - log2_L);
        fft_pass(r, __ldg(tw + i), __ldg(tw + 2 * i), __ldg(tw + 4 * i));
#pragma unroll
        for (int m = 0; m < 8; m++) lane.s[fft_at<SKEWED>(at.first + m * at.step)] = r[m];
        __syncthreads();
        log2_L -= 3;
        if (log2_L <= 3) break;
        at = fft_reach_of(lane.t, log2_L);
#pragma unroll
        for (int m = 0; m < 8; m++) r[m] = lane.s[fft_at<SKEWED>(at.first + m * at.step)];
    }
#pragma unroll
    for (int m = 0; m < 8; m++) r[m] = lane.s[fft_at<SKEWED>(8 * lane.t + m)];
    fft_ends(r, 1 << log2_L, 1);
#pragma unroll
    for (int m = 0; m < 8; m++) lane.s[fft_at<SKEWED>(8 * lane.t + m)] = r[m];
    __syncthreads();
}

/* After fft_forward: writes the spectrum of the real points, times scale, to X. */
template <bool SKEWED = true>
__device__ static inline void fft_unpack(const struct fft_lane lane, const float2 *tw, float scale, float2 *X)
{
    const int P = 1 << lane.log2_P;
    for (int k = lane.t; k <= P / 2; k += P / 8) {
        float2 z = lane.s[fft_at<SKEWED>(__brev(k) >> (32 - lane.log2_P))];
        if (k == 0) {
            X[0] = make_float2(scale * (z.x + z.y), scale * (z.x - z.y));
            continue;
        }
        float2 q = conj(lane.s[fft_at<SKEWED>(__brev(P - k) >> (32 - lane.log2_P))]);
        float2 e = cadd(z, q), o = cmul(csub(z, q), __ldg(tw + k));
        const float half = 0.5f * scale;
        X[k] = make_float2(half * (e.x + o.y), half * (e.y - o.x));
        X[P - k] = make_float2(half * (e.x - o.y), -half * (e.y + o.x)); /* k = P/2: the same value twice */
    }
}

/* Fills lane.s[fft_at(brev(k))] = Z[k] from the spectrum whose bin k is load(k). Ends with a barrier. */
template <bool SKEWED = true, class Load>
__device__ static inline void fft_pack(const struct fft_lane lane, const float2 *tw, Load load)
{
    const int P = 1 << lane.log2_P;
    for (int k = lane.t; k <= P / 2; k += P / 8) {
        float2 y = load(k), q = load((P - k) & (P - 1));
        if (k == 0) {
            lane.s[0] = make_float2(y.x + y.y, y.x - y.y);
            continue;
        }
        q = conj(q);
        float2 e = cadd(y, q), o = cmul(csub(y, q), conj(__ldg(tw + k)));
        lane.s[fft_at<SKEWED>(__brev(k) >> (32 - lane.log2_P))] = make_float2(e.x - o.y, e.y + o.x);
        lane.s[fft_at<SKEWED>(__brev(P - k) >> (32 - lane.log2_P))] = make_float2(e.x + o.y, o.x - e.y);
    }
    __syncthreads();
}

/* Inverse of the spectrum whose bin k is load(k), with a gain of 2P. On return r[m] = z[t + m P/8]. All threads of the
 * block call it. */
template <bool SKEWED = true, class Load>
__device__ static inline void fft_inverse(const struct fft_lane lane, const float2 *tw, Load load, float2 r[8])
{
    fft_pack<SKEWED>(lane, tw, load);
    int log2_L = (lane.log2_P - 1) % 3 + 1;
#pragma unroll
    for (int m = 0; m < 8; m++) r[m] = lane.s[fft_at<SKEWED>(8 * lane.t + m)];
    fft_ends(r, 1 << log2_L, -1);
#pragma unroll
    for (int m = 0; m < 8; m++) lane.s[fft_at<SKEWED>(8 * lane.t + m)] = r[m];
    for (;;) {
        __syncthreads();
        log2_L += 3;
        struct fft_reach at = fft_reach_of(lane.t, log2_L);
        const int i = at.j << (lane.log2_P + 1 - log2_L);
#pragma unroll
        for (int m = 0; m < 8; m++) r[m] = lane.s[fft_at<SKEWED>(at.first + m * at.step)];
        fft_pass_back(r, __ldg(tw + i), __ldg(tw + 2 * i), __ldg(tw + 4 * i));
        if (log2_L == lane.log2_P) return;
#pragma unroll
        for (int m = 0; m < 8; m++) lane.s[fft_at<SKEWED>(at.first + m * at.step)] = r[m];
    }
}

#endif
