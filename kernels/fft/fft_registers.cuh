/* fft_registers - a transform of N complex points by the threads of a team, each of which holds E points in registers:
 * struct fft_tree. log_e_of chooses E for each N.
 *
 *   Z[k] = sum over n of z[n] exp(-2 pi i n (k + shift) / N),   n, k < N
 *
 * These are the values of the polynomial z at the roots of X^N = exp(-2 pi i shift). With shift = 1/4 a product of
 * spectra is a product of polynomials modulo X^N = -i. If z = lo - i hi stands for 2N real points (lo, then hi), this
 * is their product modulo X^2N = -1: the real convolution of 2N points whose wrapped part changes its sign. The real
 * signal needs no pass that packs or unpacks it, and the spectrum has N values without symmetry ("right-angle
 * convolution", Nussbaumer, Fast Fourier Transform and Convolution Algorithms, 1982, section 7.4).
 *
 *   forward   level l splits each polynomial modulo X^L = w^2 into those modulo X^(L/2) = w and X^(L/2) = -w:
 *             (a + w b, a - w b). w depends on the block only, and the shift costs nothing. Natural order in,
 *             bit-reversed order out.
 *   inverse   decimation in time: bit-reversed order in, natural order out. The shift is a factor for each output.
 *   butterfly  6 fused multiply-adds: u = a + w b; a - w b = 2 a - u
 *
 * The log2(N) levels run in two or three phases in registers: LOG_1 = LOG_E levels, LOG_2 <= LOG_E, LOG_3 <= LOG_E. The
 * points cross the team's shared memory between phases.
 *
 *   phase 1   r[j] = point t + T j,                          j < E = 2^LOG_1,  T = N / E threads
 *   phase 2   r[g R2 + j] = point b T + i + D j,             j < R2,  b = q / D,  i = q % D,  q = t + g T,  D = R3
 *   phase 3   r[g R3 + j] = point q R3 + j,                  j < R3,  q = t + g T
 *
 * A spectrum stays in the registers' order of the last phase: value r[m] of thread t is at m T + t in memory.
 *
 * cost     N points: 3 N log2(N) FMA for each direction, 2 or 4 crossings of shared memory
 * limits   at most 9 N bytes of shared memory for the points, and the twiddle factors
 * error    about 2e-7 relative (rms) for forward, product and inverse
 */
#ifndef HALOCONV_FFT_REGISTERS_CUH
#define HALOCONV_FFT_REGISTERS_CUH

#include "team_barrier.cuh"

#include <cuda_runtime.h>

/* Calls body(integer) for 0, 1 ... N - 1. The compiler knows the integers: arrays that they index stay in registers. */
template <int I> struct constant { static constexpr int value = I; };
template <int N, int I = 0, class Body> static __device__ __forceinline__ void unrolled(Body body)
{
    if constexpr (I < N) {
        body(constant<I>());
        unrolled<N, I + 1>(body);
    }
}

/* cos(2 pi j / 256), j = 0 to 64 */
static __host__ __device__ constexpr double cos_of(int j)
{
    const double x = j * 0.024543692606170259675489401431871, q = x * x; /* 2 pi / 256 */
    double sum = 1.0, term = 1.0;
    for (int n = 1; n <= 12; n++) {
        term *= -q / ((2 * n - 1) * (2 * n));
        sum += term;
    }
    return j == 64 ? 0.0 : sum;
}

/* exp(-2 pi i J / 256), J = 0 to 64; with DIR -1 its conjugate */
template <int J, int DIR> static __device__ __forceinline__ float2 root_256()
{
    constexpr float c = (float)cos_of(J), s = (float)cos_of(64 - J);
    return make_float2(c, DIR > 0 ? -s : s);
}

/* Returns the address of byte number `byte` of a block's dynamic shared memory. */
template <class T> static __device__ __forceinline__ T *shared_at(float4 *shared, size_t byte)
{
    return reinterpret_cast<T *>(reinterpret_cast<char *>(shared) + byte);
}

static __device__ __forceinline__ float2 cmul(float2 a, float2 b)
{
    return make_float2(fmaf(-a.y, b.y, a.x * b.x), fmaf(a.y, b.x, a.x * b.y));
}
static __device__ __forceinline__ float2 conj(float2 a) { return make_float2(a.x, -a.y); }

/* (a, b) := (a + w b, a - w b) */
static __device__ __forceinline__ void butterfly(float2 &a, float2 &b, float2 w)
{
    const float2 u = make_float2(fmaf(-w.y, b.y, fmaf(w.x, b.x, a.x)), fmaf(w.y, b.x, fmaf(w.x, b.y, a.y)));
    b = make_float2(fmaf(2.0f, a.x, -u.x), fmaf(2.0f, a.y, -u.y));
    a = u;
}
static __device__ __forceinline__ void butterfly(float2 &a, float2 &b) /* w = 1 */
{
    const float2 u = make_float2(a.x + b.x, a.y + b.y);
    b = make_float2(a.x - b.x, a.y - b.y);
    a = u;
}

/* w times -i (DIR 1) or i (DIR -1). */
template <int DIR> static __device__ __forceinline__ float2 quarter_turn(float2 w)
{
    return DIR > 0 ? make_float2(w.y, -w.x) : make_float2(-w.y, w.x);
}

static __host__ __device__ constexpr int bit_reverse(int i, int bits)
{
    int r = 0;
    for (int b = 0; b < bits; b++) r |= (i >> b & 1) << (bits - 1 - b);
    return r;
}

/* w times exp(-DIR 2 pi i J / 256), J < 128 */
template <int J, int DIR> static __device__ __forceinline__ float2 turned(float2 w)
{
    if constexpr (J % 64 != 0) w = cmul(w, root_256<J % 64, DIR>());
    if constexpr (J >= 64) w = quarter_turn<DIR>(w);
    return w;
}

/* Levels FIRST to LOG_R of the forward transform over r[0 .. 2^LOG_R). base[m - 1] = exp(-2 pi i (k0 + shift) /
 * 2^(l0 + m)) is the factor of the first block in level m. The factor of block b is this one times
 * exp(-2 pi i brev(b) / 2^m). */
template <int LOG_R, int FIRST = 1> static __device__ __forceinline__ void tree_levels(float2 *r, const float2 *base)
{
    unrolled<LOG_R - FIRST + 1>([&](auto level) {
        constexpr int m = level.value + FIRST, half = 1 << (LOG_R - m);
        unrolled<1 << (m - 1)>([&](auto block) {
            constexpr int b = block.value;
            const float2 w = turned<bit_reverse(b, m - 1) * (256 >> m), 1>(base[m - 1]);
            unrolled<half>([&](auto i) { butterfly(r[2 * b * half + i.value], r[(2 * b + 1) * half + i.value], w); });
        });
    });
}

/* Levels FIRST to LOG_R of the inverse. base[m - 1] = exp(2 pi i n0 / (S 2^m)); the c-th factor of level m is
 * base[m - 1] times exp(2 pi i c / 2^m). */
template <int LOG_R, int FIRST = 1> static __device__ __forceinline__ void time_levels(float2 *r, const float2 *base)
{
    unrolled<LOG_R - FIRST + 1>([&](auto level) {
        constexpr int m = level.value + FIRST, half = 1 << (m - 1);
        unrolled<half>([&](auto position) {
            constexpr int c = position.value;
            const float2 w = turned<c * (256 >> m), -1>(base[m - 1]);
            unrolled<(1 << (LOG_R - m))>([&](auto g) {
                butterfly(r[2 * half * g.value + c], r[2 * half * g.value + c + half], w);
            });
        });
    });
}

/* time_levels for n0 = 0, where some factors are 1 or i. */
template <int LOG_R> static __device__ __forceinline__ void time_levels_from_0(float2 *r)
{
    unrolled<LOG_R>([&](auto level) {
        constexpr int m = level.value + 1, half = 1 << (m - 1);
        unrolled<half>([&](auto position) {
            constexpr int c = position.value, j = c * (256 >> m);
            unrolled<(1 << (LOG_R - m))>([&](auto g) {
                float2 &a = r[2 * half * g.value + c], &b = r[2 * half * g.value + c + half];
                if constexpr (j >= 64) b = quarter_turn<-1>(b);
                if constexpr (j % 64 == 0) butterfly(a, b);
                else butterfly(a, b, root_256<j % 64, -1>());
            });
        });
    });
}

/* exp(-2 pi i x), by the accurate functions of the device; x is exact in single precision. */
static __device__ __forceinline__ float2 root_at(float x)
{
    float s, c;
    sincospif(2.0f * x, &s, &c);
    return make_float2(c, -s);
}

/* log2 of the points of a thread. 16 points allow twice as many threads, and halve the code; 32 points are faster if
 * they save a phase. */
static constexpr int log_e_of(int log_n) { return log_n <= 8 || log_n == 11 || log_n == 12 ? 4 : 5; }

/* ANY_SHIFT: factors_make sets the shift; else the shift is 1/4. SHARED_BLOCK: a block may have several teams of more
 * than one warp. Not PADDED: the points need N of the POINTS positions, and the transform is slower. */
template <int LOG_N_, int LOG_E_, bool ANY_SHIFT = false, bool SHARED_BLOCK = false, bool PADDED = true>
struct fft_tree {
    static constexpr int LOG_N = LOG_N_, LOG_E = LOG_E_, N = 1 << LOG_N, E = 1 << LOG_E, T = N / E;
    static constexpr int LOG_1 = LOG_E, LOG_2 = LOG_N - LOG_1 < LOG_E ? LOG_N - LOG_1 : LOG_E,
                         LOG_3 = LOG_N - LOG_1 - LOG_2;
    static constexpr int R2 = 1 << LOG_2, R3 = 1 << LOG_3;
    static_assert(LOG_3 <= LOG_E && (LOG_3 == 0 || LOG_2 == LOG_E), "three phases at most");
    static constexpr bool FEW_3 = N / R3 > 256; /* saves shared memory: the factors of phase 3 are products */
    static constexpr int POINTS = LOG_3 == 0 ? N + N / T : N + N / 16 + (LOG_3 < 4 ? R3 * N / 256 : 0); /* at(N) */

    /* Twiddle factors, the same for all teams: in shared memory (tensors) or device memory (fft_teams.cuh). */
    struct factors {
        float2 forward2[LOG_2][E];                     /* phase 2: factors of block b                          */
        float2 forward3[LOG_3 ? LOG_3 : 1][LOG_3 ? (FEW_3 ? 2 * E : N / R3) : 1]; /* phase 3: of q, or q's two parts */
        float2 inverse2[LOG_2][R3];                    /* phase 2: factors of position i                       */
        float2 inverse1[LOG_1][T];                     /* phase 1: factors of position t                       */
        float2 unshift[T];                             /* exp(2 pi i shift t / N)                              */
        float2 forward1[ANY_SHIFT ? LOG_1 : 1];        /* phase 1                                              */
        float2 unshift1[ANY_SHIFT ? E : 1];            /* exp(2 pi i shift j / E)                              */
    };

    /* The position of point p in shared memory: padded, so that there are no bank conflicts in any phase. at(p + q) is
     * at(p) + at(q) for the sums below, where the bits of p and q do not meet; at(q) is then a constant. */
    static __device__ __forceinline__ constexpr int at(int p)
    {
        if (!PADDED) return p;
        if (LOG_3 == 0) return p + p / T;
        return p + (p >> 4) + (LOG_3 < 4 ? R3 * (p >> 8) : 0);
    }

    /* Waits for the threads of the team. */
    static __device__ __forceinline__ void team_sync()
    {
        if (T <= 32) __syncwarp();
        else if (SHARED_BLOCK) team_barrier(threadIdx.x / T, T);
        else __syncthreads();
    }

    /* team_sync for the crossing between phases 2 and 3, inside blocks of R2 R3 points. With LOG_3 = LOG_E, R3 adjacent
     * threads of a warp have such a block. */
    static __device__ __forceinline__ void part_sync()
    {
        if (LOG_3 == LOG_E) __syncwarp();
        else team_sync();
    }

    /* Fills the factors. All threads of a block call it; a barrier must follow. shift: a multiple of 2^-12 below 1. */
    static __device__ void factors_make(factors *f, float shift = 0.25f)
    {
        shift_make(f, shift);
        for (int i = threadIdx.x; i < LOG_2 * R3; i += blockDim.x) {
            const int m = i / R3 + 1, n = i % R3;
            f->inverse2[m - 1][n] = conj(root_at((float)n / (float)(R3 << m)));
        }
        for (int i = threadIdx.x; i < LOG_1 * T; i += blockDim.x) {
            const int m = i / T + 1, n = i % T;
            f->inverse1[m - 1][n] = conj(root_at((float)n / (float)(T << m)));
        }
    }
    /* Fills the factors that depend on the shift. */
    static __device__ void shift_make(factors *f, float shift)
    {
        if (ANY_SHIFT) {
            for (int i = threadIdx.x; i < LOG_1; i += blockDim.x) f->forward1[i] = root_at(shift / (float)(2 << i));
            for (int i = threadIdx.x; i < E; i += blockDim.x)
                f->unshift1[i] = conj(root_at(shift * (float)i / (float)E));
        }
        for (int i = threadIdx.x; i < LOG_2 * E; i += blockDim.x) {
            const int m = i / E + 1, b = i % E;
            f->forward2[m - 1][b] = root_at(((float)bit_reverse(b, LOG_1) + shift) / (float)(1 << (LOG_1 + m)));
        }
        if (LOG_3 && FEW_3) {
            for (int i = threadIdx.x; i < LOG_3 * E; i += blockDim.x) { /* low bits of q: high bits of brev(q) */
                const int m = i / E + 1, q = i % E;
                const float reversed = (float)bit_reverse(q, LOG_E);
                f->forward3[m - 1][q] = root_at(reversed / (float)(1 << (LOG_2 + m)));
                f->forward3[m - 1][E + q] = root_at((reversed + shift) / (float)(1 << (LOG_1 + LOG_2 + m)));
            }
        } else if (LOG_3) {
            for (int i = threadIdx.x; i < LOG_3 * (N / R3); i += blockDim.x) {
                const int m = i / (N / R3) + 1, q = i % (N / R3);
                f->forward3[m - 1][q] =
                    root_at(((float)bit_reverse(q, LOG_1 + LOG_2) + shift) / (float)(1 << (LOG_1 + LOG_2 + m)));
            }
        }
        for (int i = threadIdx.x; i < T; i += blockDim.x) f->unshift[i] = conj(root_at(shift * (float)i / (float)N));
    }

    /* The position of r[g R2 + j] before and after phase 2. */
    static __device__ __forceinline__ int at_2(int t, int g, int j)
    {
        const int q = t + g * T, b = q >> LOG_3, i = q & (R3 - 1);
        return at((b << (LOG_N - LOG_1)) + i) + at(j << LOG_3);
    }

    /* Forward. On entry r[j] = z[t + T j]; on return r holds the spectrum. REAL: z is real, and r[j].y is not read.
     * s: the team's shared memory. The function writes first to the positions that this thread read last in `inverse`;
     * after another `forward` a team_sync is needed. */
    template <bool REAL> static __device__ __forceinline__ void forward(float2 *s, const factors *f, int t, float2 *r)
    {
        float2 base[LOG_E];
        unrolled<LOG_1>([&](auto m) { /* exp(-2 pi i shift / (2 2^m)) */
            base[m.value] = ANY_SHIFT ? f->forward1[m.value] : root_256<(32 >> m.value), 1>();
        });
        if (REAL) {
#pragma unroll
            for (int j = 0; j < E / 2; j++) {
                const float a = r[j].x, b = r[j + E / 2].x, x = base[0].x * b, y = base[0].y * b;
                r[j] = make_float2(a + x, y);
                r[j + E / 2] = make_float2(a - x, -y);
            }
            tree_levels<LOG_1, 2>(r, base);
        } else {
            tree_levels<LOG_1>(r, base);
        }
#pragma unroll
        for (int j = 0; j < E; j++) s[at(t) + at(j * T)] = r[j];
        team_sync();
#pragma unroll
        for (int g = 0; g < E / R2; g++)
#pragma unroll
            for (int j = 0; j < R2; j++) r[g * R2 + j] = s[at_2(t, g, j)];
#pragma unroll
        for (int g = 0; g < E / R2; g++) {
#pragma unroll
            for (int m = 0; m < LOG_2; m++) base[m] = f->forward2[m][(t + g * T) >> LOG_3];
            tree_levels<LOG_2>(r + g * R2, base);
        }
        if (LOG_3) {
#pragma unroll
            for (int g = 0; g < E / R2; g++)
#pragma unroll
                for (int j = 0; j < R2; j++) s[at_2(t, g, j)] = r[g * R2 + j]; /* each thread has its own positions */
            part_sync();
#pragma unroll
            for (int g = 0; g < E / R3; g++)
#pragma unroll
                for (int j = 0; j < R3; j++) r[g * R3 + j] = s[at((t + g * T) << LOG_3) + at(j)];
#pragma unroll
            for (int g = 0; g < E / R3; g++) {
                const int q = t + g * T;
#pragma unroll
                for (int m = 0; m < LOG_3; m++)
                    base[m] = FEW_3 ? cmul(f->forward3[m][q & (R2 - 1)], f->forward3[m][E + (q >> LOG_2)])
                                    : f->forward3[m][q];
                tree_levels<LOG_3>(r + g * R3, base);
            }
        }
    }

    /* Inverse without the division by N. On entry r holds a spectrum; on return r[j] = z[n] exp(-2 pi i j shift / E),
     * n = t + T j: see unshifted. s: as in forward. */
    static __device__ __forceinline__ void inverse(float2 *s, const factors *f, int t, float2 *r)
    {
        float2 base[LOG_E];
        if (LOG_3) {
#pragma unroll
            for (int g = 0; g < E / R3; g++) time_levels_from_0<LOG_3>(r + g * R3);
#pragma unroll
            for (int g = 0; g < E / R3; g++)
#pragma unroll
                for (int j = 0; j < R3; j++) s[at((t + g * T) << LOG_3) + at(j)] = r[g * R3 + j];
            part_sync();
#pragma unroll
            for (int g = 0; g < E / R2; g++)
#pragma unroll
                for (int j = 0; j < R2; j++) r[g * R2 + j] = s[at_2(t, g, j)];
        }
#pragma unroll
        for (int g = 0; g < E / R2; g++) {
            if (LOG_3 == 0) time_levels_from_0<LOG_2>(r + g * R2);
            else {
#pragma unroll
                for (int m = 0; m < LOG_2; m++) base[m] = f->inverse2[m][(t + g * T) & (R3 - 1)];
                time_levels<LOG_2>(r + g * R2, base);
            }
        }
#pragma unroll
        for (int g = 0; g < E / R2; g++)
#pragma unroll
            for (int j = 0; j < R2; j++) s[at_2(t, g, j)] = r[g * R2 + j];
        team_sync();
#pragma unroll
        for (int j = 0; j < E; j++) r[j] = s[at(t) + at(j * T)];
#pragma unroll
        for (int m = 0; m < LOG_1; m++) base[m] = f->inverse1[m][t];
        const float2 scale = f->unshift[t]; /* each output has the factor exp(2 pi i shift t / N) */
        base[0] = cmul(base[0], scale);
#pragma unroll
        for (int j = 0; j < E; j += 2) {
            r[j] = cmul(r[j], scale);
            butterfly(r[j], r[j + 1], base[0]);
        }
        time_levels<LOG_1, 2>(r, base);
    }

    /* Multiplies r[J] by the rest of the factor exp(2 pi i shift n / N): exp(2 pi i J / (4 E)). */
    template <int J> static __device__ __forceinline__ float2 unshifted(float2 z) { return turned<J * 64 / E, -1>(z); }
    template <int J> static __device__ __forceinline__ float2 unshifted(const factors *f, float2 z)
    {
        return cmul(z, f->unshift1[J]);
    }
};

#endif
