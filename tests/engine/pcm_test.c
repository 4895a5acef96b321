/* Engines that read and write samples in the formats of sound files: each format against its definition. */
#include "check.h"
#include "haloconv_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 5 };

static const int kinds[] = {HC_S16,
                            HC_S24,
                            HC_S32,
                            HC_FLOAT,
                            HC_S16 + HC_BIG_ENDIAN,
                            HC_S24 + HC_BIG_ENDIAN,
                            HC_S32 + HC_BIG_ENDIAN,
                            HC_FLOAT + HC_BIG_ENDIAN};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int kind_bytes(int samples)
{
    int kind = samples & ~HC_BIG_ENDIAN;
    return kind == HC_S16 ? 2 : kind == HC_S24 ? 3 : 4;
}

/* ---- the definition ----------------------------------------------------------------------------- */

static uint32_t bytes_get(int samples, const unsigned char *at)
{
    int n = kind_bytes(samples);
    uint32_t word = 0;
    for (int i = 0; i < n; i++) word |= (uint32_t)at[samples & HC_BIG_ENDIAN ? n - 1 - i : i] << 8 * i;
    return word;
}

static void bytes_put(int samples, unsigned char *at, uint32_t word)
{
    int n = kind_bytes(samples);
    for (int i = 0; i < n; i++) at[samples & HC_BIG_ENDIAN ? n - 1 - i : i] = (unsigned char)(word >> 8 * i);
}

static float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static float decoded(int samples, const unsigned char *at)
{
    uint32_t word = bytes_get(samples, at);
    int shift = 32 - 8 * kind_bytes(samples);
    if ((samples & ~HC_BIG_ENDIAN) != HC_FLOAT) return (float)((double)(int32_t)(word << shift) * 0x1p-31);
    return isfinite(float_of(word)) ? float_of(word) : 0;
}

static void encode(int samples, unsigned char *at, float x)
{
    int bits = 8 * kind_bytes(samples);
    double scale = ldexp(1, bits - 1), y = rint((double)x * scale);
    uint32_t word;
    y = y > scale - 1 ? scale - 1 : y < -scale ? -scale : y;
    if ((samples & ~HC_BIG_ENDIAN) == HC_FLOAT)
        memcpy(&word, &x, sizeof word);
    else
        word = (uint32_t)(int64_t)y;
    bytes_put(samples, at, word);
}

/* ---- an engine of one tap ----------------------------------------------------------------------- */

struct pcm_play {
    hc_engine *engine;
    hc_info info;
    int n, n_blocks;
    float gain;
    unsigned char *in, *out; /* [n_frames][n] samples each */
    int64_t n_frames;
    uint64_t clipped, non_finite;
    float peak;
};

/* Output ch is input n - 1 - ch times gain: a product of two floats, the same everywhere. */
static void pcm_play_open(struct pcm_play *s, const char *backend, int in, int out, int n, float gain)
{
    static const float one = 1;
    char why[256];
    hc_config c;
    hc_mask *mask;
    hc_route *routes = must_alloc((size_t)n, sizeof *routes);
    *s = (struct pcm_play){.n = n, .gain = gain, .info.size = sizeof s->info};
    hc_config_init(&c);
    c.backend = backend;
    c.block = HC_BLOCK_FILES;
    c.n_in = c.n_out = n;
    c.max_taps = 1;
    c.method = "direct";
    c.fade_frames = HC_NO_FADE;
    c.in_samples = in;
    c.out_samples = out;
    c.queue_depth = 3;
    check(hc_open(&c, &s->engine, why, sizeof why) == HC_OK, "%s", why);
    hc_get_info(s->engine, &s->info);
    for (int ch = 0; ch < n; ch++)
        routes[ch] = (hc_route){.in = n - 1 - ch, .out = ch, .taps = &one, .n_taps = 1, .gain = gain};
    check(hc_mask_make(s->engine, routes, sizeof *routes, n, &mask, why, sizeof why) == HC_OK, "%s", why);
    hc_mask_swap(s->engine, mask);
    free(routes);
}

static void pcm_play_close(struct pcm_play *s)
{
    hc_close(s->engine);
    free(s->in);
    free(s->out);
}

/* Whole and small blocks; random bytes, but most floats have an audible magnitude. */
static void fill(struct pcm_play *s, const int *sizes, struct random *r)
{
    int samples = s->info.in_samples;
    s->n_frames = 0;
    for (int i = 0; i < s->n_blocks; i++) s->n_frames += sizes[i];
    size_t n = (size_t)s->n_frames * (size_t)s->n;
    free(s->in);
    free(s->out);
    s->in = must_alloc(n, 4);
    s->out = must_alloc(n, 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t word = random_u32(r);
        if ((samples & ~HC_BIG_ENDIAN) == HC_FLOAT && word % 64) {
            float x = 1.5f * random_sample(r);
            memcpy(&word, &x, sizeof word);
        }
        bool tiny = (samples & ~HC_BIG_ENDIAN) == HC_FLOAT && (word & 0x7f800000u) < 0x20000000u;
        if (tiny) word |= 0x20000000u; /* a denormal, or a number that the gain makes one, may count as 0 */
        bytes_put(samples, s->in + i * (size_t)kind_bytes(samples), word);
    }
}

static void pcm_play_calls(struct pcm_play *s, const int *sizes)
{
    size_t in_frame = (size_t)s->n * (size_t)kind_bytes(s->info.in_samples);
    size_t out_frame = (size_t)s->n * (size_t)kind_bytes(s->info.out_samples), fed = 0, got = 0;
    for (int started = 0, done = 0; done < s->n_blocks;) {
        void *in;
        const void *out;
        if (started < s->n_blocks && started - done < s->info.queue_depth) {
            check(hc_block_buffers(s->engine, started, &in, NULL) == HC_OK, "no buffers for block %d", started);
            memcpy(in, s->in + fed * in_frame, (size_t)sizes[started] * in_frame);
            fed += (size_t)sizes[started];
            int rc = hc_submit(s->engine, NULL, sizes[started]);
            check(rc == HC_OK, "hc_submit of block %d: %d", started, rc);
            started++;
            continue;
        }
        int n = hc_collect(s->engine, NULL);
        check(n == sizes[done], "block %d: %d frames, want %d", done, n, sizes[done]);
        hc_block_buffers(s->engine, done++, NULL, &out);
        memcpy(s->out + got * out_frame, out, (size_t)n * out_frame);
        got += (size_t)n;
    }
}

/* Compares the whole output, and the counters of the engine for frames [from, to). */
static void compare(struct pcm_play *s, int64_t from, int64_t to, const hc_info *before)
{
    int in = s->info.in_samples, out = s->info.out_samples;
    uint64_t clipped = 0, non_finite = 0;
    float peak = before->peak;
    for (int64_t f = 0; f < s->n_frames; f++)
        for (int ch = 0; ch < s->n; ch++) {
            const unsigned char *x = s->in + (size_t)(f * s->n + s->n - 1 - ch) * (size_t)kind_bytes(in);
            const unsigned char *y = s->out + (size_t)(f * s->n + ch) * (size_t)kind_bytes(out);
            unsigned char want[4];
            float wet = decoded(in, x) * s->gain;
            encode(out, want, wet);
            non_finite += (in & ~HC_BIG_ENDIAN) == HC_FLOAT && !isfinite(float_of(bytes_get(in, x)));
            if (f >= from && f < to) clipped += fabsf(wet) > 1;
            if (f >= from && f < to) peak = fmaxf(peak, fabsf(wet));
            check(memcmp(y, want, (size_t)kind_bytes(out)) == 0,
                  "%d to %d, channel %d of %d, frame %lld: %x became %x, want %x", in, out, ch, s->n, (long long)f,
                  bytes_get(in, x), bytes_get(out, y), bytes_get(out, want));
        }
    hc_info info = {.size = sizeof info};
    hc_get_info(s->engine, &info);
    check(info.non_finite - before->non_finite == non_finite, "%d: %llu not finite, want %llu", in,
          (unsigned long long)(info.non_finite - before->non_finite), (unsigned long long)non_finite);
    check(info.clipped - before->clipped == clipped, "%d to %d: %llu clipped, want %llu", in, out,
          (unsigned long long)(info.clipped - before->clipped), (unsigned long long)clipped);
    check(info.peak == peak, "%d to %d: peak %.9g, want %.9g", in, out, (double)info.peak, (double)peak);
}

/* ---- tests -------------------------------------------------------------------------------------- */

#define BY_HOST "this backend leaves decoding and encoding to the host; sample_test tests that"

static bool is_raw(const char *backend)
{
    struct pcm_play s;
    pcm_play_open(&s, backend, HC_S16, HC_S24, 1, 1);
    bool raw = s.info.in_samples != HC_PLANAR;
    check(s.info.in_samples == (raw ? HC_S16 : HC_PLANAR) && s.info.out_samples == (raw ? HC_S24 : HC_PLANAR),
          "%d to %d", s.info.in_samples, s.info.out_samples);
    pcm_play_close(&s);
    return raw;
}

static void every_kind_is_as_defined(const char *backend)
{
    static const int channels[] = {2, 1, 3, 17};
    struct random r = random_seeded(7);
    if (!is_raw(backend)) check_skip(BY_HOST);
    for (int i = 0; i < N_KINDS; i++)
        for (int o = 0; o < N_KINDS; o++) {
            struct pcm_play s;
            pcm_play_open(&s, backend, kinds[i], kinds[o], channels[(i + o) % 4], o % 2 ? 1.0f : 1.37f);
            int sizes[] = {777, s.info.block > 1500 ? 1500 : s.info.block, 1, 3, 2};
            s.n_blocks = sizeof sizes / sizeof *sizes;
            fill(&s, sizes, &r);
            hc_info before = s.info;
            pcm_play_calls(&s, sizes);
            compare(&s, 0, s.n_frames, &before);
            hc_get_info(s.engine, &before);
            hc_reset(s.engine); /* counts frames anew */
            fill(&s, sizes, &r);
            hc_count_set(s.engine, 700, 1900);
            pcm_play_calls(&s, sizes);
            compare(&s, 700, 1900, &before);
            pcm_play_close(&s);
        }
}

/* Full scale, half steps, and values just beyond. */
static void limits_and_ties_are_as_defined(const char *backend)
{
    static const float values[] = {
        1,        -1,        0,        -0.0f,    0x1.fffffep-1f, -0x1.fffffep-1f, 1.0000001f, -1.0000001f,
        0x1p-16f, -0x1p-16f, 0x3p-16f, 0x5p-16f, 0x1p-24f,       0x3p-24f,        -0x5p-24f,  0x1p-32f,
        0x3p-32f, 3e38f,     -3e38f,   1e-40f,   0x1.fffep-1f,   0x1.ffff8p-1f};
    enum { N = sizeof values / sizeof *values };
    if (!is_raw(backend)) check_skip(BY_HOST);
    for (int o = 0; o < N_KINDS; o++) {
        struct pcm_play s;
        struct random r = random_seeded(8);
        int sizes[] = {N};
        pcm_play_open(&s, backend, HC_FLOAT, kinds[o], 1, 1);
        s.n_blocks = 1;
        fill(&s, sizes, &r);
        memcpy(s.in, values, sizeof values);
        hc_info before = s.info;
        pcm_play_calls(&s, sizes);
        for (int i = 0; i < N; i++) { /* a device may flush denormals to 0 */
            unsigned char *x = s.in + 4 * i;
            if (fabsf(values[i]) < 1e-37f &&
                bytes_get(s.info.out_samples, s.out + i * kind_bytes(kinds[o])) % 0x80000000u == 0)
                memset(x, 0, 4), memset(s.out + i * kind_bytes(kinds[o]), 0, (size_t)kind_bytes(kinds[o]));
        }
        compare(&s, 0, N, &before);
        pcm_play_close(&s);
    }
}

/* Calls for planar floats refuse other formats. */
static void floats_are_refused(const char *backend)
{
    float x = 0, *out = &x;
    const float *in = &x;
    struct pcm_play s;
    if (!is_raw(backend)) check_skip(BY_HOST);
    pcm_play_open(&s, backend, HC_S16, HC_S16, 1, 1);
    check(hc_process(s.engine, &in, &out, 1) == HC_EINVAL, "hc_process took floats");
    check(hc_submit(s.engine, &in, 1) == HC_EINVAL, "hc_submit took floats");
    check(hc_submit(s.engine, NULL, 1) == HC_OK, "hc_submit");
    check(hc_collect(s.engine, &out) == HC_EINVAL, "hc_collect gave floats");
    check(hc_collect(s.engine, NULL) == 1, "hc_collect");
    pcm_play_close(&s);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(every_kind_is_as_defined, ONCE_A_DEVICE),
        TEST(limits_and_ties_are_as_defined, ONCE_A_DEVICE),
        TEST(floats_are_refused, ONCE_A_DEVICE),
    };
    return check_main("pcm", tests, sizeof tests / sizeof *tests);
}
