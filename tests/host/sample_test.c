/* Samples of files become floats and back as defined: every format, any channels and number of frames, values out of
 * range, halfway between two steps, or NaN. Nothing behind the last frame is written. */
#include "check.h"
#include "host/files/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 2100, MAX_CHANNELS = 5, ROOM = MAX_FRAMES * MAX_CHANNELS * 4 + 64, CANARY = 0x5a };

static const struct {
    enum sample_kind kind;
    int bits;
    const char *name;
} kinds[] = {{SAMPLE_S16, 16, "16"},       {SAMPLE_S16, 8, "8 in 16"}, {SAMPLE_S24, 24, "24"},
             {SAMPLE_S24, 20, "20 in 24"}, {SAMPLE_S32, 32, "32"},     {SAMPLE_S32, 24, "24 in 32"},
             {SAMPLE_FLOAT, 0, "float"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const int counts[] = {1, 2, 7, 8, 9, 10, 11, 15, 16, 17, 18, 33, 100, 2047, 2048, 2049, 2058, MAX_FRAMES};
enum { COUNTS = sizeof counts / sizeof *counts };

/* One sample of a file, as an integer at the top of 32 bits. */
static int32_t word_at(enum sample_kind kind, const unsigned char *raw)
{
    uint32_t word = 0;
    int n = (int)sample_bytes(kind);
    for (int i = 0; i < n; i++) word |= (uint32_t)raw[i] << (8 * (i + 4 - n));
    return (int32_t)word;
}

static float split_wants(enum sample_kind kind, const unsigned char *raw)
{
    float x;
    memcpy(&x, raw, sizeof x);
    return kind == SAMPLE_FLOAT ? x : (float)word_at(kind, raw) * 0x1p-31f;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void numbers_become_floats(const char *backend)
{
    struct random r = random_seeded(1);
    unsigned char *raw = must_alloc(ROOM, 1);
    float *planar = must_alloc(MAX_CHANNELS * (MAX_FRAMES + 1), sizeof *planar);
    for (int k = 0; k < KINDS; k++)
        for (int n_channels = 1; n_channels <= MAX_CHANNELS; n_channels++)
            for (int c = 0; c < COUNTS; c++) {
                const size_t n = (size_t)counts[c], stride = n + 1, bytes = sample_bytes(kinds[k].kind);
                for (size_t i = 0; i < n * (size_t)n_channels * bytes; i++)
                    raw[i] = (unsigned char)random_int(&r, 0, 255);
                for (size_t i = 0; i < (size_t)n_channels * stride; i++) planar[i] = 77;
                sample_split(kinds[k].kind, raw, n_channels, n, planar, stride);
                for (size_t ch = 0; ch < (size_t)n_channels; ch++) {
                    for (size_t i = 0; i < n; i++) {
                        float want = split_wants(kinds[k].kind, raw + (i * (size_t)n_channels + ch) * bytes);
                        float got = planar[ch * stride + i];
                        check(same_float(got, want) || (isnan(got) && isnan(want)),
                              "%s bits, %d channels, %zu frames: channel %zu, frame %zu: got %a, want %a",
                              kinds[k].name, n_channels, n, ch, i, (double)got, (double)want);
                    }
                    check(planar[ch * stride + n] == 77, "%s bits, %d channels, %zu frames: written behind channel %zu",
                          kinds[k].name, n_channels, n, ch);
                }
            }
    free(raw);
    free(planar);
}

static float strange(struct random *r, int bits)
{
    const float step = bits ? ldexpf(1, 1 - bits) : 0.25f;
    switch (random_int(r, 0, 12)) {
    case 0:
        return 1;
    case 1:
        return -1;
    case 2:
        return 1 - step / 2;
    case 3:
        return 3 * random_sample(r);
    case 4:
        return step * ((float)random_int(r, -9, 9) + 0.5f);
    case 5:
        return -0.0f;
    case 6:
        return 1e-42f;
    default:
        return random_sample(r);
    }
}

static int32_t join_wants(float x, int bits)
{
    double scale = ldexp(1, bits - 1), v = isnan(x) ? scale : (double)x * scale;
    v = rint(fmax(-scale, fmin(scale - 1, v)));
    return (int32_t)((uint32_t)(int32_t)v << (32 - bits));
}

static void floats_become_numbers(const char *backend)
{
    struct random r = random_seeded(2);
    unsigned char *raw = must_alloc(ROOM, 1);
    float *planar = must_alloc(MAX_CHANNELS * (MAX_FRAMES + 1), sizeof *planar);
    for (int k = 0; k < KINDS; k++)
        for (int n_channels = 1; n_channels <= MAX_CHANNELS; n_channels++)
            for (int c = 0; c < COUNTS; c++) {
                const size_t n = (size_t)counts[c], stride = n + 1, bytes = sample_bytes(kinds[k].kind);
                struct sample_peak seen = {0};
                uint64_t clipped = 0;
                float peak = 0;
                for (size_t ch = 0; ch < (size_t)n_channels; ch++)
                    for (size_t i = 0; i < n; i++) {
                        float x = planar[ch * stride + i] = strange(&r, kinds[k].bits);
                        clipped += fabsf(x) > 1;
                        peak = fmaxf(peak, fabsf(x));
                    }
                memset(raw, CANARY, ROOM);
                sample_join(kinds[k].kind, kinds[k].bits, planar, stride, n_channels, n, raw, SAMPLE_UNDITHERED, &seen);
                for (size_t at = 0; at < n * (size_t)n_channels; at++) {
                    float x = planar[at % (size_t)n_channels * stride + at / (size_t)n_channels];
                    int32_t got = word_at(kinds[k].kind, raw + at * bytes), want = 0;
                    if (kinds[k].kind == SAMPLE_FLOAT)
                        memcpy(&want, &x, sizeof want);
                    else
                        want = join_wants(x, kinds[k].bits);
                    check(got == want, "%s bits, %d channels, %zu frames: channel %zu, frame %zu, %a: got %x, want %x",
                          kinds[k].name, n_channels, n, at % (size_t)n_channels, at / (size_t)n_channels, (double)x,
                          (unsigned)got, (unsigned)want);
                }
                for (size_t i = n * (size_t)n_channels * bytes; i < ROOM; i++)
                    check(raw[i] == CANARY, "%s bits, %d channels, %zu frames: written %zu bytes behind the last",
                          kinds[k].name, n_channels, n, i - n * (size_t)n_channels * bytes);
                check(seen.clipped == clipped && same_float(sample_peak_value(&seen), peak),
                      "%s bits, %d channels, %zu frames: clipped %d, want %d; peak %a, want %a", kinds[k].name,
                      n_channels, n, (int)seen.clipped, (int)clipped, (double)sample_peak_value(&seen), (double)peak);
            }
    free(raw);
    free(planar);
}

/* An infinite sample is reported wherever it is; NaN becomes the upper limit. */
static void overflow_is_seen(const char *backend)
{
    float planar[2][40] = {{0}};
    unsigned char raw[2 * 40 * 4];
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 40; i++) {
            struct sample_peak seen = {0};
            planar[i % 2][i] = i % 3 ? NAN : -INFINITY;
            sample_join(kinds[k].kind, kinds[k].bits, planar[0], 40, 2, 40, raw, SAMPLE_UNDITHERED, &seen);
            check(sample_peak_overflows(&seen), "%s bits, frame %d", kinds[k].name, i);
            if (kinds[k].bits && i % 3)
                check(word_at(kinds[k].kind, raw + (size_t)(2 * i + i % 2) * sample_bytes(kinds[k].kind)) ==
                          join_wants(NAN, kinds[k].bits),
                      "%s bits, frame %d: NaN", kinds[k].name, i);
            planar[i % 2][i] = 0;
        }
}

/* The error of a dithered sample, in steps, for a signal of x steps. */
static void dithered_errors(int bits, double x, int ch, size_t n, double *error)
{
    float *planar = must_alloc((size_t)(ch + 1) * n, sizeof *planar);
    unsigned char *raw = must_alloc((size_t)(ch + 1) * n, 2);
    struct sample_peak seen = {0};
    for (size_t i = 0; i < n; i++) planar[(size_t)ch * n + i] = (float)ldexp(x, 1 - bits);
    sample_join(SAMPLE_S16, bits, planar, n, ch + 1, n, raw, 0, &seen);
    for (size_t i = 0; i < n; i++)
        error[i] = ldexp(word_at(SAMPLE_S16, raw + 2 * (i * (size_t)(ch + 1) + (size_t)ch)), bits - 32) - x;
    check(same_float(sample_peak_value(&seen), fabsf(planar[(size_t)ch * n])), "the peak is without the dither");
    free(planar);
    free(raw);
}

static double mean_product(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum / (double)n;
}

/* The error of TPDF dither has the mean 0 and the variance 1/4 whatever the signal is. Without dither both depend on it.
 * Allowed: five standard deviations of each figure. */
static void dither_makes_the_error_independent_of_the_signal(const char *backend)
{
    enum { N = 1 << 16, CHANNELS = 3, LAGS = 4 };
    static const double steps[] = {0, 0.1, 0.25, 0.5, 0.77, -3.4, 100.3};
    const double sigma = 5 / sqrt(N);
    double *error[CHANNELS], *ones = must_alloc(N, sizeof *ones);
    for (int i = 0; i < N; i++) ones[i] = 1;
    for (int ch = 0; ch < CHANNELS; ch++) error[ch] = must_alloc(N + LAGS, sizeof **error);
    for (int bits = 8; bits <= 16; bits += 4)
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            for (int ch = 0; ch < CHANNELS; ch++) dithered_errors(bits, steps[s], ch, N + LAGS, error[ch]);
            for (int ch = 0; ch < CHANNELS; ch++) {
                double mean = mean_product(error[ch], ones, N), power = mean_product(error[ch], error[ch], N);
                check(fabs(mean) < 0.5 * sigma && fabs(power - 0.25) < 0.4 * sigma,
                      "%d bits, %g steps, channel %d: mean %g, power %g", bits, steps[s], ch, mean, power);
                for (int lag = 0; lag <= LAGS; lag++) {
                    double product = mean_product(error[0], error[ch] + lag, N);
                    check((ch == 0 && lag == 0) || fabs(product) < 0.25 * sigma,
                          "%d bits, %g steps: channels 0 and %d correlate at lag %d: %g", bits, steps[s], ch, lag,
                          product);
                }
            }
        }
    for (int ch = 0; ch < CHANNELS; ch++) free(error[ch]);
    free(ones);
}

/* Blocks of any length make the same file, also where the number of a frame passes 2^32. */
static void dither_does_not_depend_on_the_blocks(const char *backend)
{
    enum { N = 5000, CHANNELS = 3 };
    static const int64_t starts[] = {0, 1, ((int64_t)1 << 32) - 2300};
    struct random r = random_seeded(3);
    static float planar[CHANNELS][N];
    static int16_t whole[N * CHANNELS], parts[N * CHANNELS];
    struct sample_peak seen = {0};
    for (int i = 0; i < CHANNELS * N; i++) planar[i / N][i % N] = random_sample(&r);
    for (int n_channels = 1; n_channels <= CHANNELS; n_channels++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
            sample_join(SAMPLE_S16, 16, planar[0], N, n_channels, N, whole, starts[s], &seen);
            for (int at = 0, n; at < N; at += n) {
                n = random_int(&r, 1, N - at);
                sample_join(SAMPLE_S16, 16, &planar[0][at], N, n_channels, (size_t)n, parts + at * n_channels,
                            starts[s] + at, &seen);
            }
            for (int i = 0; i < N * n_channels; i++)
                check(parts[i] == whole[i], "%d channels from %lld: sample %d: got %d, want %d", n_channels,
                      (long long)starts[s], i, parts[i], whole[i]);
        }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(numbers_become_floats, false),
        TEST(floats_become_numbers, false),
        TEST(overflow_is_seen, false),
        TEST(dither_makes_the_error_independent_of_the_signal, false),
        TEST(dither_does_not_depend_on_the_blocks, false),
    };
    return check_main("sample", tests, sizeof tests / sizeof *tests);
}
