#include "sample.h"

#include "host/splitmix64.h"
#include "sample_24.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

enum { TILE = 2048 }; /* frames at once: the tile of a channel stays in the first-level cache */

/* The compiler builds the loops below twice, and the program chooses at its start: AVX2 takes a third of the time. The
 * choice would run before a sanitizer is ready. clang 14 gives the choice a name that no other file calls. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ &&                  \
    !defined __SANITIZE_THREAD__
#define CLONED __attribute__((target_clones("avx2", "default")))
#else
#define CLONED
#endif
#define INLINED static inline __attribute__((always_inline)) /* inlined into both builds */

size_t sample_bytes(enum sample_kind kind)
{
    return kind == SAMPLE_S16 ? 2 : kind == SAMPLE_S24 ? 3 : 4;
}

/* ---- reading ------------------------------------------------------------------------------------ */

#define SPLIT(name, type, scale)                                                                                       \
    INLINED void name(const type *restrict raw, int n_channels, size_t n, float *restrict planar, size_t stride)       \
    {                                                                                                                  \
        if (n_channels == 1) {                                                                                         \
            for (size_t i = 0; i < n; i++) planar[i] = (float)raw[i] * (scale);                                        \
        } else if (n_channels == 2) {                                                                                  \
            float *restrict right = planar + stride;                                                                   \
            for (size_t i = 0; i < n; i++) {                                                                           \
                planar[i] = (float)raw[2 * i] * (scale);                                                               \
                right[i] = (float)raw[2 * i + 1] * (scale);                                                            \
            }                                                                                                          \
        } else {                                                                                                       \
            for (size_t ch = 0; ch < (size_t)n_channels; ch++)                                                         \
                for (size_t i = 0; i < n; i++)                                                                         \
                    planar[ch * stride + i] = (float)raw[i * (size_t)n_channels + ch] * (scale);                       \
        }                                                                                                              \
    }
SPLIT(split_s16, int16_t, 0x1p-15f)
SPLIT(split_s32, int32_t, 0x1p-31f)
SPLIT(split_float, float, 1.0f)

/* Reads four bytes for three, except for the last sample of all: the fourth byte may lie behind the buffer. */
INLINED void split_s24(const char *restrict raw, int n_channels, size_t n, float *restrict planar, size_t stride)
{
    size_t frame_bytes = 3 * (size_t)n_channels;
    for (size_t ch = 0; ch < (size_t)n_channels; ch++) {
        const char *from = raw + 3 * ch;
        float *to = planar + ch * stride;
        size_t whole = ch + 1 == (size_t)n_channels ? n - 1 : n;
        for (size_t i = 0; i < n; i++) {
            uint32_t word = 0;
            if (i < whole)
                memcpy(&word, from + i * frame_bytes, 4);
            else
                memcpy(&word, from + i * frame_bytes, 3);
            to[i] = (float)(int32_t)(le32toh(word) << 8) * 0x1p-31f;
        }
    }
}

CLONED void sample_split(enum sample_kind kind, const void *raw, int n_channels, size_t n_frames, float *planar,
                         size_t stride)
{
    const char *at = raw;
    size_t done = kind == SAMPLE_S24 ? sample_24_split(raw, n_channels, n_frames, planar, stride) : 0;
    for (; done < n_frames; done += TILE) {
        size_t n = n_frames - done < TILE ? n_frames - done : TILE;
        const void *tile = at + done * (size_t)n_channels * sample_bytes(kind);
        if (kind == SAMPLE_S16) split_s16(tile, n_channels, n, planar + done, stride);
        if (kind == SAMPLE_S24) split_s24(tile, n_channels, n, planar + done, stride);
        if (kind == SAMPLE_S32) split_s32(tile, n_channels, n, planar + done, stride);
        if (kind == SAMPLE_FLOAT) split_float(tile, n_channels, n, planar + done, stride);
    }
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Finds the peak by the bits: the compiler vectorises a maximum of integers, but not of floats (NaN, -0). */
INLINED void peak_update(const float *restrict x, size_t n, struct sample_peak *seen)
{
    uint32_t clipped = 0;
    int32_t peak = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        clipped += bits > 0x3f800000; /* beyond 1.0f */
        peak = bits > peak ? bits : peak;
    }
    seen->clipped += clipped;
    if ((uint32_t)peak > seen->peak_bits) seen->peak_bits = (uint32_t)peak;
}

struct dither_source { /* the noise of a channel */
    bool on;
    uint32_t frame, key[2]; /* frame: number of the first frame */
};

static struct dither_source dither_of(int64_t from, int ch)
{
    uint64_t key = splitmix64((uint64_t)ch);
    return (struct dither_source){from != SAMPLE_UNDITHERED, (uint32_t)from, {(uint32_t)key, (uint32_t)(key >> 32)}};
}

/* A hash (lowbias32 by C. Wellons, with a second key) and not a generator: any frame can be the first, and the compiler
 * vectorises it. The difference of its halves is triangular, in steps of 2^-16. */
INLINED float dither_noise(const struct dither_source *dither, uint32_t i)
{
    uint32_t h = dither->frame + i + dither->key[0];
    h = (h ^ h >> 16) * 0x7feb352du;
    h = ((h ^ h >> 15) + dither->key[1]) * 0x846ca68bu;
    h ^= h >> 16;
    return (float)((int32_t)(h & 0xffff) - (int32_t)(h >> 16)) * 0x1p-16f;
}

/* Adding 1.5 * 2^23 puts an integer of up to 22 bits, rounded to nearest even, into the low bits of a float; 1.5 * 2^52
 * does the same for 51 bits of a double. Faster than lrintf in plain SSE2. The order of the comparisons sends NaN to
 * the limit. The largest integer is 2^(bits-1) - 1: +1.0 becomes that. dither: NULL: none. */
INLINED void round_s16(const float *restrict x, size_t n, int bits, const struct dither_source *dither,
                       int16_t *restrict y)
{
    const float scale = (float)(1 << (bits - 1)), high = scale - 1, low = -scale, magic = 0x1.8p23f;
    const int shift = 16 - bits;
    for (size_t i = 0; i < n; i++) {
        float v = x[i] * scale;
        if (dither) v += dither_noise(dither, (uint32_t)i);
        v = v < high ? v : high;
        v = v > low ? v : low;
        v += magic;
        uint32_t word;
        memcpy(&word, &v, sizeof word);
        y[i] = (int16_t)(uint16_t)(word << shift);
    }
}

INLINED void round_s32(const float *restrict x, size_t n, int bits, int32_t *restrict y)
{
    const double scale = (double)(1u << (bits - 1)), high = scale - 1, low = -scale, magic = 0x1.8p52;
    const int shift = 32 - bits;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i] * scale;
        v = v < high ? v : high;
        v = v > low ? v : low;
        v += magic;
        uint64_t word;
        memcpy(&word, &v, sizeof word);
        y[i] = (int32_t)((uint32_t)word << shift);
    }
}

#define INTERLEAVE(name, type)                                                                                         \
    INLINED void name(const type *restrict x, int n_channels, int ch, size_t n, type *restrict raw)                    \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) raw[i * (size_t)n_channels + (size_t)ch] = x[i];                                \
    }                                                                                                                  \
    INLINED void name##_pair(const type *restrict left, const type *restrict right, size_t n, type *restrict raw)      \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            raw[2 * i] = left[i];                                                                                      \
            raw[2 * i + 1] = right[i];                                                                                 \
        }                                                                                                              \
    }
INTERLEAVE(interleave_16, int16_t)
INTERLEAVE(interleave_32, int32_t)

/* Writes the upper three bytes of each word, the lowest first. */
INLINED void interleave_24(const int32_t *restrict x, int n_channels, int ch, size_t n, char *restrict raw)
{
    char *to = raw + 3 * ch;
    for (size_t i = 0; i < n; i++, to += 3 * n_channels) {
        uint32_t word = (uint32_t)x[i] >> 8;
        uint16_t low = htole16((uint16_t)word);
        memcpy(to, &low, 2);
        to[2] = (char)(word >> 16);
    }
}

INLINED void round_channel(enum sample_kind kind, int bits, const float *x, size_t n,
                           const struct dither_source *dither, void *y)
{
    if (kind == SAMPLE_S16 && dither->on) round_s16(x, n, bits, dither, y);
    if (kind == SAMPLE_S16 && !dither->on) round_s16(x, n, bits, NULL, y);
    if (kind == SAMPLE_S24 || kind == SAMPLE_S32) round_s32(x, n, bits, y);
    if (kind == SAMPLE_FLOAT) memcpy(y, x, n * sizeof *x);
}

INLINED void join_tile(enum sample_kind kind, int bits, const float *planar, size_t stride, int n_channels, size_t n,
                       void *raw, int64_t dither_from, struct sample_peak *seen)
{
    union {
        int16_t s16[TILE];
        int32_t s32[TILE];
    } tile[2];
    int step = n_channels == 2 && kind != SAMPLE_S24 ? 2 : 1;
    bool mono = n_channels == 1 && kind != SAMPLE_S24; /* nothing to interleave */
    for (int ch = 0; ch < n_channels; ch += step) {
        for (int i = 0; i < step; i++) {
            const float *x = planar + (size_t)(ch + i) * stride;
            struct dither_source dither = dither_of(dither_from, ch + i);
            peak_update(x, n, seen);
            round_channel(kind, bits, x, n, &dither, mono ? raw : (void *)&tile[i]);
        }
        if (mono) break;
        if (kind == SAMPLE_S24) {
            interleave_24(tile[0].s32, n_channels, ch, n, raw);
            continue;
        }
        if (kind == SAMPLE_S16 && step == 2) interleave_16_pair(tile[0].s16, tile[1].s16, n, raw);
        if (kind == SAMPLE_S16 && step == 1) interleave_16(tile[0].s16, n_channels, ch, n, raw);
        if (kind != SAMPLE_S16 && step == 2) interleave_32_pair(tile[0].s32, tile[1].s32, n, raw);
        if (kind != SAMPLE_S16 && step == 1) interleave_32(tile[0].s32, n_channels, ch, n, raw);
    }
}

CLONED void sample_join(enum sample_kind kind, int bits, const float *planar, size_t stride, int n_channels,
                        size_t n_frames, void *raw, int64_t dither_from, struct sample_peak *seen)
{
    char *at = raw;
    bool packed = kind == SAMPLE_S24 && bits == 24;
    size_t done = packed ? sample_24_join(planar, stride, n_channels, n_frames, raw, seen) : 0;
    for (; done < n_frames; done += TILE) {
        size_t n = n_frames - done < TILE ? n_frames - done : TILE;
        join_tile(kind, bits, planar + done, stride, n_channels, n, at + done * (size_t)n_channels * sample_bytes(kind),
                  dither_from == SAMPLE_UNDITHERED ? dither_from : dither_from + (int64_t)done, seen);
    }
}

float sample_peak_value(const struct sample_peak *seen)
{
    float peak;
    memcpy(&peak, &seen->peak_bits, sizeof peak);
    return peak;
}

bool sample_peak_overflows(const struct sample_peak *seen)
{
    return seen->peak_bits >= 0x7f800000;
}
