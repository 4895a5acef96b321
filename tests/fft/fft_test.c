/* The transform of dsp/fft beside sums in float64, with each instruction set that the processor has. */
#include "check.h"
#include "dsp/base/isa.h"
#include "dsp/base/memory.h"
#include "dsp/fft/fft.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SIZES = 19, EVERY_OUTPUT = 1024, SOME_OUTPUTS = 64 };
_Static_assert(FFT_MIN << (N_SIZES - 1) == FFT_MAX, "every size");

static int size_at(int i)
{
    return FFT_MIN << i;
}

static float *floats(size_t n)
{
    float *p = memory_floats(n);
    check(p, "no memory for %zu floats", n);
    return p;
}

static float *noise_at(float *p, size_t n, uint64_t seed)
{
    struct random r = random_seeded(seed);
    for (size_t i = 0; i < n; i++) p[i] = random_sample(&r);
    return p;
}

static const struct fft *get(int size)
{
    const struct fft *fft = fft_get(size);
    check(fft, "no memory for the tables of %d", size);
    return fft;
}

static void check_same(const float *got, const float *want, size_t n, int size, const char *what)
{
    for (size_t i = 0; i < n; i++)
        check(got[i] == want[i], "S %d, %s, number %zu of %zu: got %.9g, want %.9g", size, what, i, n, (double)got[i],
              (double)want[i]);
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

struct task {
    float *x, *taps; /* [2 S], [S] */
    double *want;    /* [outputs] */
    int outputs;
};

static int output_at(int size, int i)
{
    return size <= EVERY_OUTPUT ? i : (int)((int64_t)i * (size - 1) / (SOME_OUTPUTS - 1));
}

/* Each instruction set has the same tasks: their sums in float64 are made once. */
static const struct task *task_at(int i)
{
    static struct task tasks[N_SIZES];
    struct task *t = &tasks[i];
    if (t->want) return t;
    int size = size_at(i);
    t->x = noise_at(floats(2 * (size_t)size), 2 * (size_t)size, (uint64_t)size);
    t->taps = noise_at(floats((size_t)size), (size_t)size, (uint64_t)size + 1);
    t->outputs = size <= EVERY_OUTPUT ? size : SOME_OUTPUTS;
    t->want = must_alloc((size_t)t->outputs, sizeof *t->want);
    for (int k = 0; k < t->outputs; k++)
        t->want[k] = reference_sum(t->taps, size, t->x, 2 * size, size + output_at(size, k));
    return t;
}

static void products_of_spectra_convolve(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        const struct task *t = task_at(i);
        size_t size = (size_t)size_at(i);
        const struct fft *fft = get((int)size);
        float *work = floats(2 * size), *x = floats(2 * size), *h = floats(2 * size), *y = floats(2 * size);
        fft_forward(fft, t->x, t->x + size, work, x, (size_t)fft->chunk);
        memset(y, 0, size * sizeof *y);
        fft_forward(fft, t->taps, y, work, h, (size_t)fft->chunk);
        for (int c = 0; c < fft->n_chunks; c++) {
            size_t at = (size_t)c * (size_t)fft->chunk;
            struct fft_ring ring = {.x = x + at, .h = h + at, .n_entries = 1, .n_partitions = 1};
            fft->products->rings(y + at, &ring, 1, false, fft->chunk);
        }
        fft_inverse(fft, y, x);
        double off = 0, peak = 0;
        for (int k = 0; k < t->outputs; k++) {
            double d = fabs((double)x[output_at((int)size, k)] / (double)size - t->want[k]);
            if (!(d <= off) && !isnan(off)) off = d; /* NaN stays */
            peak = fmax(peak, fabs(t->want[k]));
        }
        check(off <= 1e-6 * peak, "S %zu: off by %g of the peak", size, off / peak);
        free(work);
        free(x);
        free(h);
        free(y);
        fft_put(fft);
    }
}

/* ---- forward and back -------------------------------------------------------------------------------------------- */

static void forward_and_back_is_the_input(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        const float *x = task_at(i)->x;
        size_t size = (size_t)size_at(i);
        const struct fft *fft = get((int)size);
        float *spectrum = floats(2 * size), *out = floats(size);
        double off = 0, power = 0;
        fft_forward(fft, x, x + size, spectrum, spectrum, (size_t)fft->chunk);
        fft_inverse(fft, spectrum, out);
        for (size_t n = 0; n < size; n++) {
            double want = (double)x[size + n], d = (double)out[n] / (double)size - want;
            off += d * d;
            power += want * want;
        }
        check(sqrt(off / power) <= 3e-7, "S %zu: an rms error of %g", size, sqrt(off / power));
        free(spectrum);
        free(out);
        fft_put(fft);
    }
}

enum { MAX_BATCH = 9, MAX_BATCH_SIZE = 4096 };

/* Signals side by side in the lanes of a vector have the bits that each has alone. */
static void batches_equal_single_signals(void)
{
    for (int size = FFT_MIN; size <= MAX_BATCH_SIZE; size *= 2) {
        const struct fft *fft = get(size);
        size_t n = 2 * (size_t)size, chunk = (size_t)fft->chunk;
        float *x = noise_at(floats(MAX_BATCH * n), MAX_BATCH * n, (uint64_t)size), *work = floats(n);
        float *spectra = floats(MAX_BATCH * n), *outs = floats(MAX_BATCH * n), *spectrum = floats(n), *out = floats(n);
        for (int rows = 1; rows <= MAX_BATCH; rows++) {
            const float *before[MAX_BATCH], *now[MAX_BATCH];
            float *to[MAX_BATCH], *back[MAX_BATCH];
            for (int r = 0; r < rows; r++) {
                before[r] = x + (size_t)r * n;
                now[r] = before[r] + size;
                to[r] = spectra + (size_t)r * n;
                back[r] = outs + (size_t)r * n;
            }
            fft_forward_batch(fft, rows, before, now, work, to, chunk);
            for (int r = 0; r < rows; r++) {
                fft_forward(fft, before[r], now[r], work, spectrum, chunk);
                check_same(to[r], spectrum, n, size, "a spectrum of several");
            }
            fft_inverse_batch(fft, rows, to, back);
            for (int r = 0; r < rows; r++) {
                fft_forward(fft, before[r], now[r], work, spectrum, chunk);
                fft_inverse(fft, spectrum, out);
                check_same(back[r], out, (size_t)size, size, "an output of several");
            }
        }
        free(x);
        free(work);
        free(spectra);
        free(outs);
        free(spectrum);
        free(out);
        fft_put(fft);
    }
}

static void frames_may_lie_anywhere(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        const float *x = task_at(i)->x;
        size_t size = (size_t)size_at(i);
        const struct fft *fft = get((int)size);
        float *before = floats(size + 16), *now = floats(size + 16), *spectrum = floats(2 * size);
        float *want = floats(2 * size), *back = floats(size), *out = floats(size + 16);
        fft_forward(fft, x, x + size, want, want, (size_t)fft->chunk);
        memcpy(spectrum, want, 2 * size * sizeof *want);
        fft_inverse(fft, spectrum, back);
        for (int at = 1; at < 16; at += SANITIZED ? 6 : 2) {
            memcpy(before + at, x, size * sizeof *x);
            memcpy(now + 16 - at, x + size, size * sizeof *x);
            fft_forward(fft, before + at, now + 16 - at, spectrum, spectrum, (size_t)fft->chunk);
            check_same(spectrum, want, 2 * size, (int)size, "a spectrum of unaligned frames");
            fft_inverse(fft, spectrum, out + at);
            check_same(out + at, back, size, (int)size, "an unaligned output");
        }
        free(before);
        free(now);
        free(spectrum);
        free(want);
        free(back);
        free(out);
        fft_put(fft);
    }
}

static void chunks_may_lie_apart(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        const float *x = task_at(i)->x;
        size_t size = (size_t)size_at(i);
        const struct fft *fft = get((int)size);
        size_t chunk = (size_t)fft->chunk, stride = 3 * chunk;
        float *work = floats(2 * size), *want = floats(2 * size), *apart = floats((size_t)fft->n_chunks * stride);
        fft_forward(fft, x, x + size, work, want, chunk);
        fft_forward(fft, x, x + size, work, apart, stride);
        for (int c = 0; c < fft->n_chunks; c++) {
            const float *got = apart + (size_t)c * stride;
            check_same(got, want + (size_t)c * chunk, chunk, (int)size, "a chunk apart");
            for (size_t k = chunk; k < stride; k++) check(got[k] == 0, "S %zu: wrote between chunks", size);
        }
        free(work);
        free(want);
        free(apart);
        fft_put(fft);
    }
}

/* Column steps in reverse order, then groups of rows in reverse order; the first stage of a group comes first, and in
 * the inverse the last stage last. */
static void steps_equal_the_whole(void)
{
    for (int i = 0; i < N_SIZES; i++) {
        if (size_at(i) < FFT_LONG) continue;
        const float *x = task_at(i)->x;
        size_t size = (size_t)size_at(i);
        const struct fft *fft = get((int)size);
        float *work = floats(2 * size), *got = floats(2 * size), *want = floats(2 * size);
        float *out = floats(size), *back = floats(size);
        int stages = fft->row_stages;
        check(fft->steps && fft->row_steps % stages == 0, "S %zu: no steps", size);
        fft_forward(fft, x, x + size, work, want, (size_t)fft->chunk);
        for (int s = fft->column_steps; s-- > 0;) fft->steps->columns_in(fft, work, x, x + size, s);
        for (int group = fft->row_steps / stages; group-- > 0;) {
            fft->steps->rows_in(fft, work, got, (size_t)fft->chunk, group * stages);
            for (int s = stages; s-- > 1;) fft->steps->rows_in(fft, work, got, (size_t)fft->chunk, group * stages + s);
        }
        check_same(got, want, 2 * size, (int)size, "a spectrum by steps");
        fft_inverse(fft, want, back);
        for (int group = fft->row_steps / stages; group-- > 0;) {
            for (int s = stages - 1; s-- > 0;) fft->steps->rows_out(fft, got, group * stages + s);
            fft->steps->rows_out(fft, got, group * stages + stages - 1);
        }
        for (int s = fft->column_steps; s-- > 0;) fft->steps->columns_out(fft, got, out, s);
        check_same(out, back, size, (int)size, "an output by steps");
        free(work);
        free(got);
        free(want);
        free(out);
        free(back);
        fft_put(fft);
    }
}

/* ---- products of spectra ----------------------------------------------------------------------------------------- */

struct sum {
    double y[FFT_CHUNK], size[FFT_CHUNK]; /* sums, and sums of magnitudes: the rounding is a share of these */
};

static void sum_add(struct sum *sum, const float *x, const float *h, int n)
{
    for (int i = 0; i < n; i++) {
        bool is_im = i & FFT_LANES;
        int re = i & ~FFT_LANES, im = re + FFT_LANES;
        double a = (double)x[re] * (double)h[is_im ? im : re], b = (double)x[im] * (double)h[is_im ? re : im];
        sum->y[i] += is_im ? a + b : a - b;
        sum->size[i] += fabs(a) + fabs(b);
    }
}

static void check_sum(const float *got, const struct sum *want, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        check(fabs((double)got[i] - want->y[i]) <= 1e-6 * want->size[i],
              "%s, chunk of %d, number %d: got %.9g, want %.9g", what, n, i, (double)got[i], want->y[i]);
}

static void rings_are_sums_of_products(void)
{
    enum { N_RINGS = 5, ENTRIES = 7 };
    struct random r = random_seeded(3);
    for (int size = FFT_MIN; size <= FFT_CHUNK; size *= 2) {
        const struct fft *fft = get(size);
        size_t chunk = (size_t)fft->chunk;
        float *x = noise_at(floats(N_RINGS * ENTRIES * chunk), N_RINGS * ENTRIES * chunk, 5);
        float *h = noise_at(floats(N_RINGS * ENTRIES * chunk), N_RINGS * ENTRIES * chunk, 6), *y = floats(chunk);
        for (int round = 0; round < 40; round++) {
            struct fft_ring rings[N_RINGS];
            int n = round % (N_RINGS + 1);
            bool add = round % 2;
            struct sum want = {{0}, {0}};
            noise_at(y, chunk, (uint64_t)round);
            for (size_t i = 0; i < chunk && add; i++) want.y[i] = (double)y[i], want.size[i] = fabs(want.y[i]);
            for (int k = 0; k < n; k++) {
                int n_entries = random_int(&r, 1, ENTRIES), entry = random_int(&r, 0, n_entries - 1);
                int partitions = round == 0 ? 0 : random_int(&r, 0, n_entries);
                rings[k] = (struct fft_ring){x + (size_t)(k * ENTRIES) * chunk, h + (size_t)(k * ENTRIES) * chunk,
                                             entry, n_entries, partitions};
                for (int p = 0; p < partitions; p++)
                    sum_add(&want, rings[k].x + (size_t)((entry + n_entries - p) % n_entries) * chunk,
                            rings[k].h + (size_t)p * chunk, (int)chunk);
            }
            fft->products->rings(y, rings, n, add, (int)chunk);
            check_sum(y, &want, (int)chunk, "rings");
        }
        free(x);
        free(h);
        free(y);
        fft_put(fft);
    }
}

static void blocks_are_sums_of_products(void)
{
    enum { N = 5, X_AT = 2 * FFT_CHUNK, H_AT = FFT_CHUNK }; /* spectra lie this far from the pointers */
    for (int size = FFT_MIN; size <= FFT_CHUNK; size *= 2) {
        const struct fft *fft = get(size);
        size_t chunk = (size_t)fft->chunk, n_x = N * FFT_BLOCKS * chunk;
        float *x = noise_at(floats(X_AT + n_x), X_AT + n_x, 8),
              *h = noise_at(floats(H_AT + N * chunk), H_AT + N * chunk, 9);
        float *y = floats(FFT_BLOCKS * chunk), *to[FFT_BLOCKS];
        for (int round = 0; round < 2 * (N + 1); round++) {
            struct fft_blocks blocks[N];
            int n = round / 2;
            bool add = round % 2;
            noise_at(y, FFT_BLOCKS * chunk, (uint64_t)round);
            struct sum want[FFT_BLOCKS] = {{{0}, {0}}};
            for (int t = 0; t < FFT_BLOCKS; t++) {
                to[t] = y + (size_t)(FFT_BLOCKS - 1 - t) * chunk;
                for (size_t i = 0; i < chunk && add; i++)
                    want[t].y[i] = (double)to[t][i], want[t].size[i] = fabs(want[t].y[i]);
            }
            for (int k = 0; k < n; k++) {
                blocks[k].h = h + (size_t)k * chunk;
                for (int t = 0; t < FFT_BLOCKS; t++) {
                    blocks[k].x[t] = x + (size_t)(k + 2 * t) * chunk; /* some are shared */
                    sum_add(&want[t], blocks[k].x[t] + X_AT, blocks[k].h + H_AT, (int)chunk);
                }
            }
            int n_t = 1 << n % 3;
            fft->products->blocks(to, n_t, add, blocks, n, X_AT, H_AT, (int)chunk);
            for (int t = 0; t < n_t; t++) check_sum(to[t], &want[t], (int)chunk, "blocks");
        }
        free(x);
        free(h);
        free(y);
        fft_put(fft);
    }
}

/* ---- instruction sets -------------------------------------------------------------------------------------------- */

static void with(const char *name, enum isa isa, void (*promise)(void))
{
    setenv("HALOCONV_SIMD", name, 1);
    if (isa_best() != isa) check_skip("this processor lacks these instructions");
    promise();
}

#define WITH_EACH(promise)                                                                                             \
    static void promise##_baseline(const char *unused)                                                                 \
    {                                                                                                                  \
        with("baseline", ISA_BASELINE, promise);                                                                       \
    }                                                                                                                  \
    static void promise##_avx2(const char *unused)                                                                     \
    {                                                                                                                  \
        with("avx2", ISA_AVX2, promise);                                                                               \
    }                                                                                                                  \
    static void promise##_avx512(const char *unused)                                                                   \
    {                                                                                                                  \
        with("avx512", ISA_AVX512, promise);                                                                           \
    }
#define TESTS(promise) TEST(promise##_baseline, false), TEST(promise##_avx2, false), TEST(promise##_avx512, false)

WITH_EACH(products_of_spectra_convolve)
WITH_EACH(forward_and_back_is_the_input)
WITH_EACH(batches_equal_single_signals)
WITH_EACH(frames_may_lie_anywhere)
WITH_EACH(chunks_may_lie_apart)
WITH_EACH(steps_equal_the_whole)
WITH_EACH(rings_are_sums_of_products)
WITH_EACH(blocks_are_sums_of_products)

int main(void)
{
    static const struct test tests[] = {
        TESTS(products_of_spectra_convolve), TESTS(forward_and_back_is_the_input), TESTS(batches_equal_single_signals),
        TESTS(frames_may_lie_anywhere),      TESTS(chunks_may_lie_apart),          TESTS(steps_equal_the_whole),
        TESTS(rings_are_sums_of_products),   TESTS(blocks_are_sums_of_products),
    };
    return check_main("fft", tests, sizeof tests / sizeof *tests);
}
