/* noise - responses of decaying noise, made from a seed on the device that plays them. CPU and GPU make the same bits.
 *
 * Tap k of response r is a hash of (seed, r, k), as a number in -1...1, times an envelope that the host computes once.
 * Any tap of any response can be made alone, in any order, on any device. Benches and tests use it.
 */
#ifndef HALOCONV_NOISE_H
#define HALOCONV_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define NOISE_CALL static inline __host__ __device__
#else
#define NOISE_CALL static inline
#endif

struct noise {
    uint64_t seed;
    bool diagonal;         /* only input i to output i has a response; else every input to every output          */
    int n_taps;            /* 1 to plan.max_taps                                                                  */
    const float *envelope; /* [n_taps]; host memory, read during mask_make_noise only                             */
};

/* Returns the index of a pair's response. For a diagonal, in and out are the same channel. */
NOISE_CALL uint32_t noise_response(const struct noise *noise, int n_in, int in, int out)
{
    return noise->diagonal ? (uint32_t)in : (uint32_t)out * (uint32_t)n_in + (uint32_t)in;
}

NOISE_CALL uint32_t noise_mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

struct noise_key { uint32_t a, b; };

/* A response has two keys, so that no response is a shifted copy of another. */
NOISE_CALL struct noise_key noise_key_of(uint64_t seed, uint32_t response)
{
    struct noise_key key;
    key.a = noise_mix((uint32_t)seed + noise_mix(response + 0x9e3779b9u));
    key.b = noise_mix((uint32_t)(seed >> 32) ^ noise_mix(key.a ^ 0x85ebca6bu));
    return key;
}

/* The conversion and the product round once each, in the same way on every device. */
NOISE_CALL float noise_tap(struct noise_key key, uint32_t tap, float envelope)
{
    uint32_t bits = noise_mix(noise_mix(tap * 0x9e3779b9u + key.a) ^ key.b);
    return (float)(int32_t)bits * 0x1p-31f * envelope;
}

#endif
