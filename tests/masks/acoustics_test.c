/* Tests of the decay curve and of the octave filters of dsp/signal/. */
#include "check.h"
#include "dsp/signal/acoustics.h"

#include <math.h>
#include <stdlib.h>

enum { RATE = 48000, FRAMES = 48000 };

/* A decay of 60 dB in a second, of random signs, behind 100 frames of silence. */
static float *decay_of_a_second(void)
{
    struct random random = random_seeded(1);
    float *h = must_alloc(FRAMES, sizeof *h);
    for (int i = 100; i < FRAMES; i++)
        h[i] = (float)pow(10, -3.0 * (i - 100) / RATE) * (random_u32(&random) & 1 ? 1 : -1);
    return h;
}

static void the_curve_falls_as_the_response(const char *backend)
{
    float *h = decay_of_a_second();
    struct decay d;
    check(acoustics_curve(&d, h, FRAMES, RATE), "no memory");
    check(d.n == FRAMES - 100 && d.noise == 0, "%d frames, noise %g", d.n, d.noise);
    for (int i = 0; i <= d.n; i += 1000) {
        double want = -60.0 * i / RATE;
        check(fabs(decay_db(&d, i) - want) < 0.05, "frame %d: %g dB, want %g", i, decay_db(&d, i), want);
    }
    decay_free(&d);
    free(h);
}

static void a_fit_lies_on_the_curve(const char *backend)
{
    float *h = decay_of_a_second();
    struct decay d;
    struct acoustics *a = must_alloc(1, sizeof *a);
    check(acoustics_find(a, h, FRAMES, RATE, false) && acoustics_curve(&d, h, FRAMES, RATE), "no memory");
    const struct decay_fit *fit = &a->all.fit[ACOUSTIC_T20];
    check(fabs(-60 / fit->slope - a->all.value[ACOUSTIC_T20]) < 1e-9, "slope %g", fit->slope);
    double middle_s = (fit->from_s + fit->to_s) / 2, line = fit->at_start_db + fit->slope * middle_s;
    double curve = decay_db(&d, (int)(middle_s * RATE));
    check(fabs(curve - line) < 0.05, "curve %g dB, line %g", curve, line);
    check(fabs(decay_db(&d, (int)lrint(fit->from_s * RATE)) + 5) < 0.1, "from %g s", fit->from_s);
    decay_free(&d);
    free(a);
    free(h);
}

/* IEC 61260-1:2014, table 1, class 1: the least and the most attenuation at G^exponent of the midband frequency. */
static const struct limit {
    double exponent, min_db, max_db;
} limits[] = {{0, -0.4, 0.4},      {1.0 / 8, -0.4, 0.5},    {1.0 / 4, -0.4, 0.7}, {3.0 / 8, -0.4, 1.4},
              {0.4999, -0.4, 5.3}, {0.5001, 1.6, INFINITY}, {1, 16.6, INFINITY},  {2, 40.5, INFINITY},
              {3, 60, INFINITY},   {4, 70, INFINITY}};

static double attenuation_db(const struct octave_bank *bank, const double *y, double hz)
{
    double complex sum = 0;
    for (size_t i = 0; i < bank->size; i++) { /* the ringing before the click is at the end */
        double frame = i < bank->size / 2 ? (double)i : (double)i - (double)bank->size;
        if (fabs(y[i]) > 1e-12) sum += y[i] * cexp(-2 * M_PI * I * hz / bank->rate * frame);
    }
    return -20 * log10(cabs(sum));
}

static void octaves_are_class_1(const char *backend)
{
    struct octave_bank bank;
    const double click = 1;
    check(octave_open(&bank, &click, 1, RATE), "no memory");
    for (int band = 0; band < OCTAVES; band++) {
        const double *y = octave_filter(&bank, octave_hz[band]);
        for (size_t i = 0; i < 2 * (sizeof limits / sizeof *limits); i++) {
            const struct limit *l = &limits[i / 2];
            double hz = 1000 * pow(10, 0.3 * (band - 4 + (i % 2 ? l->exponent : -l->exponent)));
            if (hz > RATE / 2.0) continue;
            double db = attenuation_db(&bank, y, hz);
            check(db > l->min_db && db < l->max_db, "%d Hz at %g Hz: %g dB", octave_hz[band], hz, db);
        }
    }
    octave_close(&bank);
}

static const struct test tests[] = {
    TEST(the_curve_falls_as_the_response, 0),
    TEST(a_fit_lies_on_the_curve, 0),
    TEST(octaves_are_class_1, 0),
};

int main(void)
{
    return check_main("acoustics", tests, sizeof tests / sizeof *tests);
}
