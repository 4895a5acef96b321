/* half_pairs - two floats of 16 bits (half precision) in a register. */
#ifndef HALOCONV_HALF_PAIRS_CUH
#define HALOCONV_HALF_PAIRS_CUH

#include "dsp/base/half_floats.h"
#include "dsp/haloconv_tensors.h"

#include <cuda_runtime.h>

typedef unsigned short bits_16;   /* an element of a tensor of HC_BFLOAT16 or HC_FLOAT16 */

static __device__ __forceinline__ unsigned half_pair_of(bits_16 lo, bits_16 hi)
{
    return lo | (unsigned)hi << 16;
}

/* Returns both floats of a pair. */
template <int TYPE> static __device__ __forceinline__ float2 widened(unsigned pair)
{
    if (TYPE == HC_BFLOAT16) return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
#ifdef __CUDA_ARCH__
    float2 z;
    asm("{.reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}"
        : "=f"(z.x), "=f"(z.y)
        : "r"(pair));
    return z;
#else
    return make_float2(float_of_float16((bits_16)pair), float_of_float16((bits_16)(pair >> 16)));
#endif
}

/* bfloat16_of_float, for devices that have no such instruction. */
static __device__ __forceinline__ bits_16 bfloat16_bits(float x)
{
    const unsigned bits = __float_as_uint(x);
    return (bits_16)((x == x ? bits + 0x7fffu + (bits >> 16 & 1u) : bits | 0x400000u) >> 16);
}

/* Rounds both floats to the nearest. */
template <int TYPE> static __device__ __forceinline__ unsigned narrowed(float2 z)
{
#if __CUDA_ARCH__ >= 800
    unsigned pair;
    if (TYPE == HC_BFLOAT16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(z.y), "f"(z.x));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(z.y), "f"(z.x));
    return pair;
#else
    if (TYPE == HC_BFLOAT16) return half_pair_of(bfloat16_bits(z.x), bfloat16_bits(z.y));
#ifdef __CUDA_ARCH__
    bits_16 lo, hi;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(lo) : "f"(z.x));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(hi) : "f"(z.y));
    return half_pair_of(lo, hi);
#else
    return half_pair_of(float16_of_float(z.x), float16_of_float(z.y));
#endif
#endif
}

/* Rounds both floats to a type that the compiler does not know: without a branch, for code that is long. */
static __device__ __forceinline__ unsigned narrowed(int type, float2 z)
{
    const unsigned a = narrowed<HC_BFLOAT16>(z), b = narrowed<HC_FLOAT16>(z);
    return type == HC_BFLOAT16 ? a : b;
}

/* Calls use(kind), where kind.value is the type: a branch around a loop, instead of one in each of its steps. */
template <int TYPE> struct type_constant { static constexpr int value = TYPE; };
template <class Use> static __device__ __forceinline__ void with_type_of_16_bits(int type, Use use)
{
    if (type == HC_BFLOAT16) use(type_constant<HC_BFLOAT16>());
    else use(type_constant<HC_FLOAT16>());
}

/* Writes an element of a tensor. */
static __device__ __forceinline__ void element_put(void *data, int64_t at, int type, float value)
{
    if (type == HC_FLOAT32) ((float *)data)[at] = value;
    else ((bits_16 *)data)[at] = (bits_16)narrowed(type, make_float2(value, 0.0f));
}

#endif
