/* vec - the compiler's vectors, as wide as a level's registers, for files that are built once a level. */
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

#define PASTE(a, b) a##b
#define PASTED(a, b) PASTE(a, b)
#define AT_LEVEL(name) PASTED(name, SIMD_LEVEL)

#endif
