#include "sample_24.h"

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum {
    STEP = 8,  /* frames at once */
    BEHIND = 2 /* frames left at the end: a load or store has 16 bytes for 12 */
};

static inline __m128i AVX2 sample_words_of(const char *raw)
{
    const __m128i spread = _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)raw), spread);
}

static inline __m256 AVX2 floats_of(const char *raw)
{
    __m256i words = _mm256_inserti128_si256(_mm256_castsi128_si256(sample_words_of(raw)), sample_words_of(raw + 12), 1);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(words), _mm256_set1_ps(0x1p-31f));
}

static size_t AVX2 split_mono(const char *raw, size_t n, float *planar)
{
    size_t i = 0;
    for (; i + STEP + BEHIND <= n; i += STEP) _mm256_storeu_ps(planar + i, floats_of(raw + 3 * i));
    return i;
}

static size_t AVX2 split_stereo(const char *raw, size_t n, float *left, float *right)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    size_t i = 0;
    for (; i + STEP + BEHIND <= n; i += STEP) {
        __m256 a = floats_of(raw + 6 * i), b = floats_of(raw + 6 * i + 24);
        __m256 l = _mm256_shuffle_ps(a, b, 0x88), r = _mm256_shuffle_ps(a, b, 0xdd); /* 0 1 4 5 2 3 6 7 */
        _mm256_storeu_ps(left + i, _mm256_permutevar8x32_ps(l, order));
        _mm256_storeu_ps(right + i, _mm256_permutevar8x32_ps(r, order));
    }
    return i;
}

struct peaks {
    __m256i clipped, peak; /* eight counts below zero; eight magnitudes */
};

/* Updates the peaks with eight samples and rounds them. NaN becomes the upper limit. */
static inline __m256i AVX2 round_eight(__m256 x, struct peaks *peaks)
{
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    peaks->clipped = _mm256_add_epi32(peaks->clipped, _mm256_cmpgt_epi32(bits, _mm256_set1_epi32(0x3f800000)));
    peaks->peak = _mm256_max_epi32(peaks->peak, bits);
    __m256 v = _mm256_mul_ps(x, _mm256_set1_ps(0x1p23f));
    v = _mm256_min_ps(v, _mm256_set1_ps(0x1p23f - 1)); /* NaN: returns the second operand */
    return _mm256_cvtps_epi32(_mm256_max_ps(v, _mm256_set1_ps(-0x1p23f)));
}

static inline void AVX2 bytes_to(char *raw, __m256i words)
{
    const __m128i gather = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    _mm_storeu_si128((__m128i *)raw, _mm_shuffle_epi8(_mm256_castsi256_si128(words), gather));
    _mm_storeu_si128((__m128i *)(raw + 12), _mm_shuffle_epi8(_mm256_extracti128_si256(words, 1), gather));
}

static void AVX2 peaks_add_to(const struct peaks *peaks, struct sample_peak *seen)
{
    int32_t clipped[8], peak[8];
    _mm256_storeu_si256((__m256i *)clipped, peaks->clipped);
    _mm256_storeu_si256((__m256i *)peak, peaks->peak);
    for (int i = 0; i < 8; i++) {
        seen->clipped += (uint64_t)-(int64_t)clipped[i];
        if ((uint32_t)peak[i] > seen->peak_bits) seen->peak_bits = (uint32_t)peak[i];
    }
}

static size_t AVX2 join_mono(const float *planar, size_t n, char *raw, struct sample_peak *seen)
{
    struct peaks peaks = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + STEP + BEHIND <= n; i += STEP) bytes_to(raw + 3 * i, round_eight(_mm256_loadu_ps(planar + i), &peaks));
    peaks_add_to(&peaks, seen);
    return i;
}

static size_t AVX2 join_stereo(const float *left, const float *right, size_t n, char *raw, struct sample_peak *seen)
{
    struct peaks peaks = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + STEP + BEHIND <= n; i += STEP) {
        __m256i l = round_eight(_mm256_loadu_ps(left + i), &peaks), r = round_eight(_mm256_loadu_ps(right + i), &peaks);
        __m256i low = _mm256_unpacklo_epi32(l, r), high = _mm256_unpackhi_epi32(l, r); /* frames 0 1, 4 5; 2 3, 6 7 */
        bytes_to(raw + 6 * i, _mm256_permute2x128_si256(low, high, 0x20));
        bytes_to(raw + 6 * i + 24, _mm256_permute2x128_si256(low, high, 0x31));
    }
    peaks_add_to(&peaks, seen);
    return i;
}

size_t sample_24_split(const void *raw, int n_channels, size_t n_frames, float *planar, size_t stride)
{
    if (n_channels > 2 || !__builtin_cpu_supports("avx2")) return 0;
    return n_channels == 1 ? split_mono(raw, n_frames, planar) : split_stereo(raw, n_frames, planar, planar + stride);
}

size_t sample_24_join(const float *planar, size_t stride, int n_channels, size_t n_frames, void *raw,
                      struct sample_peak *seen)
{
    if (n_channels > 2 || !__builtin_cpu_supports("avx2")) return 0;
    return n_channels == 1 ? join_mono(planar, n_frames, raw, seen)
                           : join_stereo(planar, planar + stride, n_frames, raw, seen);
}
#else
size_t sample_24_split(const void *raw, int n_channels, size_t n_frames, float *planar, size_t stride)
{
    (void)raw, (void)n_channels, (void)n_frames, (void)planar, (void)stride;
    return 0;
}

size_t sample_24_join(const float *planar, size_t stride, int n_channels, size_t n_frames, void *raw,
                      struct sample_peak *seen)
{
    (void)planar, (void)stride, (void)n_channels, (void)n_frames, (void)raw, (void)seen;
    return 0;
}
#endif
