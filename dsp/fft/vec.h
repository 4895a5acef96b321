/* simd_vec - the compiler's vectors, as wide as a level's registers, for files that are built once a level. */
#ifndef HALOCONV_SIMD_VEC_H
#define HALOCONV_SIMD_VEC_H

#ifndef LANES
#if defined __AVX512F__
#define LANES 16
#elif defined __AVX2__
#define LANES 8
#else
#define LANES 4
#endif
#endif

#if defined __AVX512F__
#define LEVEL_NAME "avx512"
#elif defined __AVX2__
#define LEVEL_NAME "avx2"
#else
#define LEVEL_NAME "baseline"
#endif

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float vec_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vec load(const float *p)
{
    return *(const vec_any *)p;
}
ALWAYS_INLINE void store(float *p, vec v)
{
    *(vec_any *)p = v;
}
ALWAYS_INLINE vec broadcast(float f)
{
    return f - (vec){0};
}

/* The real parts, and the imaginary parts, of interleaved bins, each twice. */
#if LANES == 16
#define EVEN(v) __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14)
#define ODD(v) __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15)
#elif LANES == 8
#define EVEN(v) __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6)
#define ODD(v) __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7)
#else
#define EVEN(v) __builtin_shufflevector(v, v, 0, 0, 2, 2)
#define ODD(v) __builtin_shufflevector(v, v, 1, 1, 3, 3)
#endif

#define PASTE(a, b) a##b
#define PASTED(a, b) PASTE(a, b)
#define AT_LEVEL(name) PASTED(name, SIMD_LEVEL)

#endif
