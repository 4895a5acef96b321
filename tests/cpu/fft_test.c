/* Transforms by FFTW, with plans that are measured and plans that are not, beside their definition in float64. */
#include "check.h"
#include "dsp/cpu/fft.h"
#include "dsp/cpu/memory.h"

#include <math.h>
#include <stdlib.h>

/* The largest distance of got from want as a share of the largest want. */
static double share_off(const float *got, const double *want, int n)
{
    double off = 0, peak = 0;
    for (int i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        off = d <= off ? off : d; /* NaN stays */
        peak = fmax(peak, fabs(want[i]));
    }
    return off / peak;
}

static void check_size(struct planned_fft *fft, int n, const char *kind)
{
    check(fft, "no plan of %d points, %s", n, kind);
    size_t points = (size_t)n + 2;
    float *x = memory_floats(points), *spectrum = memory_floats(points), *back = memory_floats(points);
    double *want = must_alloc(points, sizeof *want), *turns = must_alloc((size_t)n, 2 * sizeof *turns);
    struct random r = random_seeded((uint64_t)n);
    for (int i = 0; i < n; i++) {
        x[i] = random_sample(&r);
        turns[2 * i] = cos(2 * 3.14159265358979323846 * i / n);
        turns[2 * i + 1] = -sin(2 * 3.14159265358979323846 * i / n);
    }
    for (int bin = 0; bin <= n / 2; bin++)
        for (int i = 0; i < n; i++) {
            int64_t turn = (int64_t)bin * i % n;
            want[2 * bin] += (double)x[i] * turns[2 * turn];
            want[2 * bin + 1] += (double)x[i] * turns[2 * turn + 1];
        }
    planned_fft_forward(fft, x, spectrum);
    double off = share_off(spectrum, want, 2 * (n / 2 + 1));
    check(off < 1e-6, "the spectrum of %d points, %s: off by %g of its peak", n, kind, off);
    planned_fft_inverse(fft, spectrum, back);
    for (int i = 0; i < n; i++) want[i] = (double)n * (double)x[i];
    off = share_off(back, want, n);
    check(off < 1e-6, "%d points and back, %s: off by %g of the peak", n, kind, off);
    free(x);
    free(spectrum);
    free(back);
    free(want);
    free(turns);
    planned_fft_close(fft);
}

/* With the measured plans of FFTW's own wisdom (1024), and of sizes that are measured here. */
static void transforms_match_their_definition(const char *unused)
{
    if (!fft_library()) check_skip("this build has no FFT");
    static const int sizes[] = {2, 16, 30, 64, 96, 128, 202, 258, 480, 512, 960, 1024, 1434, 1920};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        int n = sizes[i];
        setenv("HALOCONV_FFT", "guess", 1);
        check_size(planned_fft_open(n), n, "guessed");
        check_size(planned_fft_open_repeatable(n), n, "repeatable");
        unsetenv("HALOCONV_FFT");
        if (n <= 258 || n == 960 || n == 1024) check_size(planned_fft_open(n), n, "measured"); /* up to 0.6 s each */
        check_size(planned_fft_open_repeatable(n), n, "repeatable after a measured one");
    }
}

/* A measured plan of this process must not serve it. */
static void a_repeatable_transform_has_the_same_bits(const char *unused)
{
    if (!fft_library()) check_skip("this build has no FFT");
    enum { N = 252 }; /* no other test has measured it */
    float *x = memory_floats(N), *first = memory_floats(N + 2), *second = memory_floats(N + 2);
    struct random r = random_seeded(5);
    for (int i = 0; i < N; i++) x[i] = random_sample(&r);
    for (int i = 0; i < 2; i++) {
        struct planned_fft *fft = planned_fft_open_repeatable(N);
        check(fft, "no plan");
        planned_fft_forward(fft, x, i ? second : first);
        planned_fft_close(fft);
        unsetenv("HALOCONV_FFT");
        planned_fft_close(planned_fft_open(N));
    }
    for (int i = 0; i < N + 2; i++)
        check(first[i] == second[i], "number %d: %g, then %g", i, (double)first[i], (double)second[i]);
    free(x);
    free(first);
    free(second);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(transforms_match_their_definition, false),
        TEST(a_repeatable_transform_has_the_same_bits, false),
    };
    return check_main("fft", tests, sizeof tests / sizeof *tests);
}
