/* tail_transform_many - forward and inverse transforms of one size, known to the compiler, for thousands of channels.
 *
 *   block    one transform (S / 8 threads; at least 64 threads), so that a barrier does not stop other transforms. A
 *            transform of up to 256 points lies inside a warp and needs no barrier
 *   forward  8 pairs of frames a thread | pass | pass .. last stages | unpack: bins k and S - k
 *   inverse  8 bins a thread, k = t + m S / 8, and their partners S - k. Packed in registers, these bins are the points
 *            that the first stages of thread t need: a spectrum does not cross shared memory | pass .. | pass: 8 pairs,
 *            of which 4 are kept
 *
 * The factors, the passes and the order of bins are those of fft_block.cuh. Shared memory has no padding. Instead, the
 * low four bits of an index, which choose the banks, are changed by its other bits (swizzled). In every access pattern
 * here (runs of 1, 2, 4, 8 or 16, and bit-reversed order) the 16 threads that are served at once then use 16 different
 * pairs of banks, at every size; only one of 16 partners conflicts with another.
 *
 * cost     a channel: 8 S bytes read and written (forward), 8 S and 4 S (inverse); shared memory is crossed 3 and 2
 *          times up to 512 points, 4 and 3 times from 1024 on
 * limits   S from 128 to 4096
 * ceiling  memory bandwidth
 */
#include "tail_transform_many.h"

#include "fft_block.cuh"
#include "kernels_load.h"

enum { MIN_LOG2 = 7, MAX_LOG2 = 12, THREADS_A_SM = 2048 };

/* The index of point i in shared memory. swizzled(a | b) = swizzled(a) ^ swizzled(b) if a and b share no bit. */
__host__ __device__ static constexpr int swizzled(int i)
{
    return i ^ ((i >> 3) & 14) ^ ((i >> 6) & 1) ^ ((i >> 7) & 15) ^ ((i >> 11) & 1);
}

template <int LOG2> struct many {
    enum {
        P = 1 << LOG2,
        T = P / 8,                       /* threads a transform */
        THREADS = T < 64 ? 64 : T,
        SIDE_BY_SIDE = THREADS / T,
        BLOCKS_A_SM = THREADS_A_SM / 2 / THREADS
    };
};

template <int LOG2> __device__ static inline void in_step()
{
    if (many<LOG2>::T <= 32) __syncwarp();
    else __syncthreads();
}

template <int LOG2> __device__ static inline void points_load(float2 r[8], const float2 *s, int first, int step)
{
#pragma unroll
    for (int m = 0; m < 8; m++) r[m] = s[swizzled(first) ^ swizzled(m * step)];
}

template <int LOG2> __device__ static inline void points_store(float2 *s, const float2 r[8], int first, int step)
{
#pragma unroll
    for (int m = 0; m < 8; m++) s[swizzled(first) ^ swizzled(m * step)] = r[m];
}

/* reversed3 reverses three bits. `reversed` reverses all bits of a thread's number, which gives the position of its
 * bins. */
__device__ static constexpr int reversed3(int m) { return (m & 1) << 2 | (m & 2) | m >> 2; }
template <int LOG2> __device__ static inline int reversed(int t) { return (int)(__brev((unsigned)t) >> (32 - LOG2)); }

/* W^(j S / 8), j < 8, conjugate for dir -1. */
__device__ static inline float2 eighth(int j, int dir)
{
    const float c = 0.92387953251128674f, r = 0.70710678118654752f, s = 0.38268343236508977f;
    const float x[8] = {1, c, r, s, 0, -s, -r, -c}, y[8] = {0, -s, -r, -c, -1, -c, -r, -s};
    return make_float2(x[j], dir > 0 ? y[j] : -y[j]);
}

/* The partner of bin k = t + m S / 8: bin S - k = low + high S / 8. The partner of bin 0 is bin of_zero S / 8. */
struct partner { int low, high; };
template <int LOG2> __device__ static inline struct partner partner_of(int t, int m, int of_zero)
{
    struct partner partner;
    partner.low = t ? many<LOG2>::T - t : 0;
    partner.high = t ? 7 - m : m ? 8 - m : of_zero;
    return partner;
}

/* Forward transform and unpacking, as fft_forward and fft_unpack. On entry r[m] = z[t + m S / 8]. */
template <int LOG2>
__device__ static inline void transform(float2 *s, int t, const float2 *tw, float2 r[8], float2 *X, bool active)
{
    const int T = many<LOG2>::T;
#pragma unroll
    for (int log2_L = LOG2; log2_L > 3; log2_L -= 3) {
        const struct fft_reach at = fft_reach_of(t, log2_L);
        const int i = at.j << (LOG2 + 1 - log2_L);
        if (log2_L < LOG2) points_load<LOG2>(r, s, at.first, at.step);
        fft_pass(r, __ldg(tw + i), __ldg(tw + 2 * i), __ldg(tw + 4 * i));
        points_store<LOG2>(s, r, at.first, at.step);
        in_step<LOG2>();
    }
    points_load<LOG2>(r, s, 8 * t, 1);
    fft_ends(r, 1 << ((LOG2 - 1) % 3 + 1), 1);
    points_store<LOG2>(s, r, 8 * t, 1);
    const float2 w = __ldg(tw + t);
    in_step<LOG2>();
    if (!active) return;
#pragma unroll
    for (int m = 0; m < 4; m++) {
        const struct partner partner = partner_of<LOG2>(t, m, 4); /* bin 0 and bin S / 2 are a pair here */
        const bool own = t == 0 && m == 0;
        const float2 z = s[swizzled(reversed<LOG2>(t)) ^ reversed3(m)];
        const float2 q = s[swizzled(reversed<LOG2>(partner.low)) ^ reversed3(partner.high)];
        const float2 e = cadd(z, conj(q)), o = cmul(csub(z, conj(q)), cmul(w, eighth(m, 1)));
        const float2 a = make_float2(0.5f * (e.x + o.y), 0.5f * (e.y - o.x));
        const float2 b = make_float2(0.5f * (e.x - o.y), -0.5f * (e.y + o.x));
        X[t + m * T] = own ? make_float2(z.x + z.y, z.x - z.y) : a;
        X[partner.low + partner.high * T] = own ? conj(q) : b;
    }
}

/* Inverse transform, as fft_inverse. On return r[m] = z[t + m S / 8]. */
template <int LOG2>
__device__ static inline void transform_back(float2 *s, int t, const float2 *tw, const float2 *Y, float2 r[8])
{
    const int T = many<LOG2>::T, log2_ends = (LOG2 - 1) % 3 + 1;
    const float2 w = conj(__ldg(tw + t));
    float2 q[8];
#pragma unroll
    for (int m = 0; m < 8; m++) { /* in the order in which the first stages read them */
        const struct partner partner = partner_of<LOG2>(t, reversed3(m), 0);
        r[m] = Y[t + reversed3(m) * T];
        q[m] = Y[partner.low + partner.high * T];
    }
#pragma unroll
    for (int m = 0; m < 8; m++) {
        const float2 y = r[m], e = cadd(y, conj(q[m]));
        const float2 o = cmul(csub(y, conj(q[m])), cmul(w, eighth(reversed3(m), -1)));
        r[m] = t == 0 && m == 0 ? make_float2(y.x + y.y, y.x - y.y) : make_float2(e.x - o.y, e.y + o.x);
    }
    fft_ends(r, 1 << log2_ends, -1);
    points_store<LOG2>(s, r, reversed<LOG2>(t), 1);
#pragma unroll
    for (int log2_L = log2_ends + 3; log2_L <= LOG2; log2_L += 3) {
        const struct fft_reach at = fft_reach_of(t, log2_L);
        const int i = at.j << (LOG2 + 1 - log2_L);
        in_step<LOG2>();
        points_load<LOG2>(r, s, at.first, at.step);
        fft_pass_back(r, __ldg(tw + i), __ldg(tw + 2 * i), __ldg(tw + 4 * i));
        if (log2_L < LOG2) points_store<LOG2>(s, r, at.first, at.step);
    }
}

/* grid: the channels */
template <int LOG2>
static __global__ void __launch_bounds__(many<LOG2>::THREADS, many<LOG2>::BLOCKS_A_SM)
    forward_many(const __grid_constant__ struct tail_forward level, const float *x_all, unsigned ring_mask)
{
    __shared__ float2 shared[many<LOG2>::SIDE_BY_SIDE][many<LOG2>::P];
    const int T = many<LOG2>::T, mine = (int)threadIdx.x / T, t = (int)threadIdx.x % T;
    const int which = blockIdx.x * many<LOG2>::SIDE_BY_SIDE + mine;
    const bool active = which < level.n_ch;
    const size_t ch = level.first_ch + (active ? which : 0);
    const float *x = x_all + ch * ((size_t)ring_mask + 1);
    float2 r[8];
#pragma unroll
    for (int m = 0; m < 8; m++) r[m] = *(const float2 *)(x + ((level.from + 2 * (t + m * T)) & ring_mask));
    transform<LOG2>(shared[mine], t, level.tw, r, level.spectra + ((ch * level.n_entries + level.entry) << LOG2),
                    active);
}

/* grid: the outputs */
template <int LOG2>
static __global__ void __launch_bounds__(many<LOG2>::THREADS, many<LOG2>::BLOCKS_A_SM)
    inverse_many(const __grid_constant__ struct tail_inverse level)
{
    __shared__ float2 shared[many<LOG2>::SIDE_BY_SIDE][many<LOG2>::P];
    const int P = many<LOG2>::P, T = many<LOG2>::T, mine = (int)threadIdx.x / T, t = (int)threadIdx.x % T;
    const int which = blockIdx.x * many<LOG2>::SIDE_BY_SIDE + mine;
    const bool active = which < level.n_out;
    const size_t out = level.first_out + (active ? which : 0);
    float2 r[8];
    transform_back<LOG2>(shared[mine], t, level.tw, level.sums + (out << LOG2), r);
    if (!active) return;
    float *due = level.due + (out << (LOG2 + 1));
#pragma unroll
    for (int m = 4; m < 8; m++) /* `at` is even: every hop is even */
        *(float2 *)(due + ((level.at + 2 * (t + m * T) - P) & (2 * P - 1))) = r[m];
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

bool tail_are_many(int n, int log2_size, int n_sm)
{
    const long threads = (long)n << (log2_size - 3);
    return log2_size >= MIN_LOG2 && log2_size <= MAX_LOG2 && threads >= (long)THREADS_A_SM * n_sm;
}

template <int LOG2> static unsigned blocks_for(int n)
{
    return (unsigned)((n + many<LOG2>::SIDE_BY_SIDE - 1) / many<LOG2>::SIDE_BY_SIDE);
}

/* Expands LAUNCH(log2_size) with log2_size as a constant. */
#define OF_EACH_SIZE(log2_size, LAUNCH) \
    switch (log2_size) {           \
    case 7: LAUNCH(7); break;      \
    case 8: LAUNCH(8); break;      \
    case 9: LAUNCH(9); break;      \
    case 10: LAUNCH(10); break;    \
    case 11: LAUNCH(11); break;    \
    case 12: LAUNCH(12); break;    \
    default: return cudaErrorInvalidValue; \
    }
static_assert(MIN_LOG2 == 7 && MAX_LOG2 == 12, "the sizes above");

cudaError_t tail_forward_many_launch(const struct tail_forward *level, const float *x, unsigned ring_mask,
                                     cudaStream_t stream)
{
#define LAUNCH(LOG2) \
    forward_many<LOG2><<<blocks_for<LOG2>(level->n_ch), many<LOG2>::THREADS, 0, stream>>>(*level, x, ring_mask)
    OF_EACH_SIZE(level->log2_size, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t tail_inverse_many_launch(const struct tail_inverse *level, cudaStream_t stream)
{
#define LAUNCH(LOG2) inverse_many<LOG2><<<blocks_for<LOG2>(level->n_out), many<LOG2>::THREADS, 0, stream>>>(*level)
    OF_EACH_SIZE(level->log2_size, LAUNCH)
#undef LAUNCH
    return cudaGetLastError();
}

cudaError_t tail_transform_many_load(void)
{
#define KERNELS(LOG2) forward_many<LOG2>, inverse_many<LOG2>
    return kernels_load(KERNELS(7), KERNELS(8), KERNELS(9), KERNELS(10), KERNELS(11), KERNELS(12));
#undef KERNELS
}
