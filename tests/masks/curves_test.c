/* Curves over frequency: smoothed ones next to the definition, summed bin by bin, and those read from a text. */
#include "check.h"
#include "dsp/signal/frequency_curve.h"
#include "dsp/signal/smoothing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The mean of bins, each from k - 1/2 to k + 1/2, from `low` to `high`. */
static double mean(const double *power, int n, double low, double high)
{
    long double sum = 0, width = 0;
    for (int k = 0; k < n; k++) {
        double share = fmin(high, k + 0.5) - fmax(low, k - 0.5);
        if (share <= 0) continue;
        sum += (long double)(share * power[k]);
        width += (long double)share;
    }
    return width > 0 ? (double)(sum / width) : power[(int)lrint(low)];
}

static void smoothing_is_the_mean_of_its_band(const char *backend)
{
    enum { MOST = 700, SEED = 3 };
    static const double widths[] = {0, 1.0 / 48, 1.0 / 6, 1, 3};
    struct random r = random_seeded(SEED);
    for (int n = 1; n <= MOST; n = n * 3 + 1)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            double power[MOST], got[MOST], octaves[MOST], varying[MOST];
            for (int k = 0; k < n; k++) { /* 130 dB from the largest to the smallest */
                power[k] = pow(10, 3.5 * (double)random_sample(&r) - (k > n / 2 ? 6 : 0));
                octaves[k] = widths[w];
            }
            smooth_octaves(power, got, (size_t)n, widths[w]);
            smooth_octaves_varying(power, varying, (size_t)n, octaves);
            for (int k = 0; k < n; k++) {
                double ratio = exp2(widths[w] / 2), want = mean(power, n, k / ratio, k * ratio);
                check(fabs(got[k] - want) <= 1e-5 * want && got[k] == varying[k],
                      "%d bins, %g octaves, bin %d: %g and %g, want %g; seed %d", n, widths[w], k, got[k], varying[k],
                      want, SEED);
            }
        }
}

static void smoothing_of_a_constant_is_that_constant(const char *backend)
{
    enum { BINS = 1 << 14 };
    double *power = must_alloc(BINS, sizeof *power), *got = must_alloc(BINS, sizeof *got);
    for (int k = 0; k < BINS; k++) power[k] = 0.1;
    smooth_octaves(power, got, BINS, 1.0 / 3);
    for (int k = 0; k < BINS; k++) check(fabs(got[k] - 0.1) < 1e-13, "bin %d: %.17g", k, got[k]);
    free(power);
    free(got);
}

static void curves_are_read_as_programs_write_them(const char *backend)
{
    static const char *const texts[] = {
        "20 -3\n200 3\n",
        "* Freq(Hz) SPL(dB) Phase(degrees)\n* 1/6 smoothing\n20.0, -3.0, 12\n200.0, 3.0, 1.5\n",
        "\xef\xbb\xbf"
        "frequency,raw,error\r\n20,-3,0\r\n200,3,0.1\r\n",
        "# house curve\n\n200;3 # sorted\n  20;-3",
        "GraphicEQ: 20 -3; 200 3",
        "Preamp\n graphiceq: 20 -3 ; 2e2 +3;\n",
        "0 0\n20\t-3.0\n200\t3\n200\t3\n",
        "20 \xe2\x88\x92"
        "3\n200 3\n1\xe2\x80\xaf"
        "000 3\n1\xc2\xa0"
        "250\t3\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct frequency_curve c;
        char why[200] = "";
        int line;
        bool good = frequency_curve_read(&c, texts[i], &line, why, sizeof why);
        check(good && c.n == (strstr(texts[i], "000") ? 4 : 2) && c.points[1].hz == 200, "\"%s\": %s; %zu points",
              texts[i], why, c.n);
        const double hz[] = {0, 20, sqrt(20 * 200), 200, 24000}, db[] = {-3, -3, 0, 3, 3};
        for (int k = 0; k < 5; k++)
            check(fabs(frequency_curve_db(&c, hz[k]) - db[k]) < 1e-12, "\"%s\" at %g Hz: %g dB", texts[i], hz[k],
                  frequency_curve_db(&c, hz[k]));
        frequency_curve_free(&c);
    }
}

static void microphone_calibrations_are_read_as_their_makers_write_them(const char *backend)
{
    static const struct {
        const char *text;
        bool has_phase;
        double sensitivity_db, degrees; /* degrees: in the middle of both points */
    } cases[] = {
        {"\"Sens Factor =-.7dB, SERNO: 7000001\"\n20.0\t-3\n200\t3\n", false, -0.7, 0}, /* UMIK */
        {"\"Sens Factor =-10.06dB, AGain =18dB, SERNO: 8100001\"\r\n20.0 -3 1\r\n200 3 3\r\n", true, -10.06, 2},
        {"*1000Hz\t-37.1\n20.00\t-3.0\n200.00\t3.0\n", false, -37.1, 0}, /* Dayton */
        {"* from REW\n* 1000 Hz -40\n20 -3 170\n200 3 -170\n", true, -40, 180},
        {"*1000Hz\n20 -3\n200 3\n", false, NAN, 0},
        {"Sens Factor = \n20 -3 1\n200 3\n", false, NAN, 0},
        {"20 -3 1\n200 3 1e999\n", false, NAN, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frequency_curve c;
        char why[200] = "";
        int line;
        bool good = frequency_curve_read(&c, cases[i].text, &line, why, sizeof why);
        check(good && c.n == 2 && c.points[0].db == -3 && c.points[1].db == 3, "\"%s\": %s", cases[i].text, why);
        check(c.has_phase == cases[i].has_phase, "\"%s\": phase %d", cases[i].text, c.has_phase);
        double want = cases[i].sensitivity_db, degrees = frequency_curve_degrees(&c, sqrt(20 * 200));
        check(isnan(want) ? isnan(c.sensitivity_db) : c.sensitivity_db == want, "\"%s\": %g dB", cases[i].text,
              c.sensitivity_db);
        check(fabs(degrees - cases[i].degrees) < 1e-12, "\"%s\": %g degrees", cases[i].text, degrees);
        frequency_curve_free(&c);
    }
}

static void curves_are_refused_with_their_line(const char *backend)
{
    static const struct {
        const char *text, *says;
        int line;
    } cases[] = {
        {"", "no points", 0},
        {"names only\n", "no points", 1},
        {"20 1\n30\n", "write a frequency", 2},
        {"20 1\nend\n", "frequency", 2},
        {"20 1\n30 -1 dBFS\n", "text behind its numbers", 2},
        {"20,5 -1,2\n", "decimal comma", 1},
        {"20,0;1\n", "decimal comma", 1},
        {"20 1\n-3 1\n", "frequency", 2},
        {"20 1e999\n", "gain", 1},
        {"20 1\n20 2\n", "two gains at 20", 2},
        {"GraphicEQ: 20 1; x", "frequency", 1},
        {"20 1x\n", "write a frequency", 1},
        {"500 1\n1 250 1\n", "1250 for 1 250", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frequency_curve c;
        char why[200] = "";
        int line;
        bool good = frequency_curve_read(&c, cases[i].text, &line, why, sizeof why);
        check(!good && line == cases[i].line && strstr(why, cases[i].says) && strchr(why, ';') && !c.points,
              "\"%s\": line %d: %s", cases[i].text, line, why);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(smoothing_is_the_mean_of_its_band, false),
        TEST(smoothing_of_a_constant_is_that_constant, false),
        TEST(curves_are_read_as_programs_write_them, false),
        TEST(microphone_calibrations_are_read_as_their_makers_write_them, false),
        TEST(curves_are_refused_with_their_line, false),
    };
    return check_main("curves", tests, sizeof tests / sizeof *tests);
}
