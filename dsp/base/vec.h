/* vec - the compiler's vectors, as wide as the registers of the instruction set that a file is built for. */
#ifndef HALOCONV_VEC_H
#define HALOCONV_VEC_H

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
#define ISA_NAME "avx512"
#elif defined __AVX2__
#define ISA_NAME "avx2"
#else
#define ISA_NAME "baseline"
#endif

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float vec_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vec vec_load(const float *p)
{
    return *(const vec_any *)p;
}
ALWAYS_INLINE void vec_store(float *p, vec v)
{
    *(vec_any *)p = v;
}
ALWAYS_INLINE vec broadcast(float f)
{
    return f - (vec){0};
}

#define PASTE(a, b) a##b
#define PASTED(a, b) PASTE(a, b)
#define FOR_ISA(name) PASTED(name, ISA)

#endif
