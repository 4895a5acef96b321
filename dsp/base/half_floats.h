/* half_floats - floats of 16 bits: bfloat16 and IEEE float16. Conversions to them round to the nearest, ties to even. A
 * NaN stays a NaN. The results are the same if the processor flushes denormal floats. */
#ifndef HALOCONV_HALF_FLOATS_H
#define HALOCONV_HALF_FLOATS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float float_of_bfloat16(uint16_t x)
{
    return float_of_bits((uint32_t)x << 16);
}
static inline uint16_t bfloat16_of_float(float x)
{
    uint32_t bits = bits_of_float(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

static inline float float_of_float16(uint16_t x)
{
    /* The exponent's bias is 112 larger in a float. A subnormal number m 2^-24 is the low bits of 0.5, minus 0.5. */
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fff;
    float normal = float_of_bits((rest << 13) + (224u << 23)) * 0x1p-112f;
    float subnormal = float_of_bits(rest | 126u << 23) - 0.5f;
    return float_of_bits(sign | bits_of_float(rest < 0x400 ? subnormal : normal));
}
static inline uint16_t float16_of_float(float x)
{
    /* Adds a power of two whose last bit has the value of the last bit that stays: the addition rounds. The scale makes
     * too large numbers infinite. */
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, twice = bits << 1, exponent = twice & 0xff000000;
    float scaled = float_of_bits(bits & 0x7fffffff) * 0x1p112f * 0x1p-110f;
    uint32_t power = ((exponent > 0x71000000 ? exponent : 0x71000000) >> 1) + 0x07800000;
    uint32_t sum = bits_of_float(float_of_bits(power) + scaled);
    uint32_t rounded = (sum >> 13 & 0x7c00) + (sum & 0xfff);
    return (uint16_t)(sign | (twice > 0xff000000 ? 0x7e00 : rounded));
}

#endif
