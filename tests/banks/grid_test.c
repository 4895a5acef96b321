/* grid_test - interpolation of a bank to a grid, and its parts: fractional delays, onsets. The bank is a model whose
 * responses are known in every direction: a pulse at each ear of a sphere, later and duller on the far side. */
#include "check.h"
#include "dsp/banks/bank.h"
#include "dsp/banks/directions.h"
#include "dsp/banks/alignment.h"
#include "dsp/signal/sine_gain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, TAPS = 256 };

/* A pulse whose spectrum ends smoothly at 0.4 of the rate, at a time in frames. */
static double pulse(double t, double width)
{
    double x = t / width;
    if (fabs(x) < 1e-12) return 1;
    double window = fabs(t) < 40 ? 0.5 + 0.5 * cos(M_PI * t / 40) : 0;
    return sin(M_PI * x) / (M_PI * x) * window;
}

/* ---- fractional delays ------------------------------------------------------------------------------------------- */

static void a_delay_moves_a_band_limited_response(const char *backend)
{
    static const double delays[] = {0, 1, 17, 0.5, 0.001, 0.999, 3.25, -2, -2.75, 20.123456};
    for (size_t d = 0; d < sizeof delays / sizeof *delays; d++) {
        float in[TAPS], out[TAPS + 64] = {0};
        double worst = 0;
        for (int i = 0; i < TAPS; i++) in[i] = (float)pulse(i - 100.3, 1.4); /* up to 0.36 of the rate, and a skirt */
        fractional_delay_add(in, TAPS, delays[d], 0.7, out, TAPS + 64);
        for (int i = 0; i < TAPS + 64; i++)
            worst = fmax(worst, fabs((double)out[i] - 0.7 * pulse(i - 100.3 - delays[d], 1.4)));
        check(worst < (delays[d] == floor(delays[d]) ? 2e-7 : 4e-5), "delay %g: error %g", delays[d], worst);
    }
}

static void a_delay_adds_and_cuts_at_the_ends(const char *backend)
{
    float in[4] = {1, 2, 3, 4}, out[4] = {10, 10, 10, 10};
    fractional_delay_add(in, 4, 2, 1, out, 4);
    check(out[0] == 10 && out[1] == 10 && out[2] == 11 && out[3] == 12, "%g %g", (double)out[2], (double)out[3]);
    fractional_delay_add(in, 4, -3, 1, out, 4);
    check(out[0] == 14 && out[1] == 10, "%g %g", (double)out[0], (double)out[1]);
    fractional_delay_add(in, 4, 100, 1, out, 4);
    fractional_delay_add(in, 4, -100, 1, out, 4);
    fractional_delay_add(in, 4, 200.5, 1, out, 4);
    fractional_delay_add(in, 4, -200.5, 1, out, 4);
    check(out[0] == 14 && out[3] == 12, "%g %g", (double)out[0], (double)out[3]);
}

/* ---- onsets ------------------------------------------------------------------------------------------------------ */

static void onsets_move_with_the_response(const char *backend)
{
    float h[TAPS];
    double first = 0, onset;
    for (int k = 0; k < 40; k++) {
        double at = 30 + k * 2.37;
        for (int i = 0; i < TAPS; i++) h[i] = (float)(pulse(i - at, 1.3) - 0.4 * pulse(i - at - 11, 3));
        check(onset_find(h, TAPS, RATE, &onset) == HC_OK && onset < at, "onset %g of a pulse at %g", onset, at);
        if (k == 0) first = onset - at;
        check(fabs(onset - at - first) < 0.02, "a pulse at %g: onset %g, %g more than at first", at, onset,
              onset - at - first);
    }
    memset(h, 0, sizeof h);
    check(onset_find(h, TAPS, RATE, &onset) == HC_OK && isnan(onset), "of silence: %g", onset);
    h[0] = 1;
    check(onset_find(h, 1, RATE, &onset) == HC_OK && fabs(onset) < 20, "of one tap: %g", onset);
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

/* Response `out` in a direction: delayed by the way around a sphere of 8.75 cm, quieter and duller on the far side. */
static void model(double azimuth, double elevation, int out, float *h, int n_taps)
{
    double az = azimuth * (M_PI / 180), el = elevation * (M_PI / 180);
    double towards = (out ? -1 : 1) * sin(az) * cos(el); /* cosine of the angle to the ear */
    double angle = acos(fmax(-1, fmin(1, towards)));
    double way = angle < M_PI / 2 ? -cos(angle) : angle - M_PI / 2; /* Woodworth */
    double at = 60 + way * 0.0875 / 343 * RATE, width = 1.8 - 0.4 * towards;
    for (int i = 0; i < n_taps; i++) h[i] = (float)((1.2 + towards) / width * pulse(i - at, width));
}

/* Rings `step` degrees apart, from the lowest elevation on. */
static void model_bank(struct bank *bank, int step, int lowest)
{
    int n = 0;
    char why[200] = "";
    float(*position)[3] = must_alloc(20000, sizeof *position);
    double(*angles)[2] = must_alloc(20000, sizeof *angles);
    for (int el = lowest; el <= 90; el += step)
        for (int i = 0, most = el == 90 ? 1 : (int)ceil(360 * cos(el * M_PI / 180) / step); i < most; i++) {
            double p[3];
            angles[n][0] = 360.0 * i / most;
            angles[n][1] = el;
            position_from_angles(angles[n][0], angles[n][1], 1.5, p);
            for (int c = 0; c < 3; c++) position[n][c] = (float)p[c];
            n++;
        }
    *bank = (struct bank){0};
    check(bank_make(bank, (size_t)n, 2, TAPS, 0, "model", REASON(why, sizeof why)) == HC_OK, "%s", why);
    bank->rate = RATE;
    bank->position = position;
    for (int e = 0; e < n; e++)
        for (int out = 0; out < 2; out++)
            model(angles[e][0], angles[e][1], out, bank_response(bank, (size_t)e, (size_t)out), TAPS);
    free(angles);
}

static double error_of(const float *h, int n_taps, const float *want)
{
    double error = 0, energy = 0;
    for (int i = 0; i < n_taps; i++) {
        double w = i < TAPS ? (double)want[i] : 0;
        error += pow((double)h[i] - w, 2);
        energy += w * w;
    }
    return sqrt(error / energy);
}

static void a_grid_keeps_the_entries_of_the_file(const char *backend)
{
    struct bank bank, old;
    char why[200] = "";
    model_bank(&bank, 15, -45);
    model_bank(&old, 15, -45);
    check(bank_grid(&bank, 5, INFINITY, "model", REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(bank.n_entries > 4 * old.n_entries && bank.n_taps >= TAPS, "%d entries", bank.n_entries);
    for (int e = 0; e < old.n_entries; e++) {
        check(memcmp(bank.position[e], old.position[e], sizeof *old.position) == 0, "position of entry %d", e);
        for (size_t out = 0; out < 2; out++) {
            const float *got = bank_response(&bank, (size_t)e, out);
            check(memcmp(got, bank_response(&old, (size_t)e, out), TAPS * sizeof *got) == 0, "entry %d", e);
            for (int i = TAPS; i < bank.n_taps; i++) check(got[i] == 0, "entry %d, tap %d: %g", e, i, (double)got[i]);
        }
    }
    bank_free(&bank);
    bank_free(&old);
}

static void grid_entries_are_near_the_true_responses(const char *backend)
{
    struct bank bank;
    char why[200] = "";
    model_bank(&bank, 15, -45);
    int n_old = bank.n_entries;
    check(bank_grid(&bank, 5, INFINITY, "model", REASON(why, sizeof why)) == HC_OK, "%s", why);
    double worst = 0, sum = 0, sum_nearest = 0;
    hc_bank_data old = {.size = sizeof old, .n_entries = n_old, .position = (const float(*)[3])bank.position};
    for (int e = n_old; e < bank.n_entries; e++)
        for (int out = 0; out < 2; out++) {
            float want[TAPS];
            const float *p = bank.position[e];
            double azimuth = atan2((double)p[1], (double)p[0]) * (180 / M_PI);
            double elevation = asin((double)p[2] / 1.5) * (180 / M_PI);
            check(elevation > -46, "entry %d is below the measured range: %g degrees", e, elevation);
            model(azimuth, elevation, out, want, TAPS);
            /* Opposite to the ear the ways around both sides meet: the delay has a peak there, which no interpolation
             * between points 15 degrees apart can follow. */
            if ((double)p[1] / 1.5 * (out ? -1 : 1) < -0.85) continue;
            double error = error_of(bank_response(&bank, (size_t)e, (size_t)out), bank.n_taps, want);
            size_t nearest = (size_t)hc_bank_nearest(&old, p);
            worst = fmax(worst, error);
            sum += error;
            sum_nearest += error_of(bank_response(&bank, nearest, (size_t)out), bank.n_taps, want);
        }
    if (getenv("HC_TEST_VERBOSE"))
        printf("grid: worst error %g, mean %g; the nearest measurement: %g\n", worst,
               sum / (2 * (bank.n_entries - n_old)), sum_nearest / (2 * (bank.n_entries - n_old)));
    check(worst < 0.25 && sum < 0.15 * sum_nearest, "worst error %g, mean %g of that of the nearest measurement", worst,
          sum / sum_nearest);
    bank_free(&bank);
}

/* The level of a weighted sum of responses in dB, or of the weighted mean of their gains: 1 to 12 kHz, every 250 Hz. */
enum { BANDS = 45 };
static void levels_of(const hc_bank_data *bank, int out, const int *entries, const float *weights, int n, bool is_sum,
                      double levels[BANDS])
{
    for (int b = 0; b < BANDS; b++) {
        double re = 0, im = 0, sum = 0, step = 2 * M_PI * (1000 + 250 * b) / RATE;
        for (int i = 0; i < n; i++) {
            double x = 0, y = 0;
            for (int k = 0; k < bank->n_taps; k++) {
                x += (double)bank->taps[entries[i] * bank->n_out + out][k] * cos(step * k);
                y -= (double)bank->taps[entries[i] * bank->n_out + out][k] * sin(step * k);
            }
            re += (double)weights[i] * x;
            im += (double)weights[i] * y;
            sum += (double)weights[i] * hypot(x, y);
        }
        levels[b] = 20 * log10(is_sum ? hypot(re, im) : sum);
    }
}

/* The largest RMS difference, over directions and ears, between the level of a mix and the mean level of its entries. */
static double comb_of(const struct bank *bank, bool aligns, double *mean_entries)
{
    char why[200] = "";
    hc_bank_data data = {.size = sizeof data,
                         .n_entries = bank->n_entries,
                         .n_out = 2,
                         .n_taps = bank->n_taps,
                         .rate = RATE,
                         .position = (const float(*)[3])bank->position};
    const float **taps = must_alloc((size_t)bank->n_entries * 2, sizeof *taps);
    for (int i = 0; i < 2 * bank->n_entries; i++) taps[i] = bank->taps + (size_t)i * (size_t)bank->n_taps;
    data.taps = (const float *const *)taps;
    struct directions *table = directions_make(data.position, data.n_entries);
    struct random random = random_seeded(5);
    double worst = 0;
    check(table && hc_bank_index(&data, why, sizeof why) == HC_OK, "%s", why);
    *mean_entries = 0;
    enum { DIRECTIONS = 30 };
    for (int i = 0; i < DIRECTIONS; i++) {
        double p[3], sum[BANDS], mean[BANDS], error = 0;
        int entries[HC_MAX_MIX], out = i % 2;
        float weights[HC_MAX_MIX];
        position_from_angles(random_int(&random, 0, 359), random_int(&random, -40, 85), 1.5, p);
        const float wanted[3] = {(float)p[0], (float)p[1], (float)p[2]};
        int n = aligns ? hc_bank_mix(&data, wanted, entries, weights) : directions_mix(table, wanted, entries, weights);
        levels_of(&data, out, entries, weights, n, true, sum);
        levels_of(&data, out, entries, weights, n, false, mean);
        for (int b = 0; b < BANDS; b++) error += pow(sum[b] - mean[b], 2) / BANDS;
        worst = fmax(worst, sqrt(error));
        *mean_entries += (double)n / DIRECTIONS;
    }
    hc_bank_data_free(&data);
    directions_free(table);
    free(taps);
    return worst;
}

static void a_mix_is_not_a_comb_filter(const char *backend)
{
    struct bank bank;
    char why[200] = "";
    double n = 0;
    model_bank(&bank, 15, -45);
    double before = comb_of(&bank, false, &n), after = comb_of(&bank, true, &n);
    check(before > 4 && after < 1.2, "15 degrees apart: %.2f dB, of entries that begin together %.2f", before, after);
    check(bank_grid(&bank, 4, INFINITY, "model", REASON(why, sizeof why)) == HC_OK, "%s", why);
    double grid = comb_of(&bank, true, &n);
    check(grid < 1.2 && n > 2, "4 degrees apart: %.2f dB with %.2f entries", grid, n);
    if (getenv("HC_TEST_VERBOSE"))
        printf("comb: %.2f dB, aligned %.2f, grid %.2f of %.2f entries\n", before, after, grid, n);
    bank_free(&bank);
}

/* A source that moves from entry to entry: neighbours of a grid differ less than those of the measured set. */
static void steps_between_neighbours_are_small(const char *backend)
{
    struct bank bank;
    char why[200] = "";
    model_bank(&bank, 15, -45);
    check(bank_grid(&bank, 2, INFINITY, "model", REASON(why, sizeof why)) == HC_OK, "%s", why);
    hc_bank_data all = {.size = sizeof all, .n_entries = bank.n_entries, .position = (const float(*)[3])bank.position};
    int before = -1, changes = 0;
    double worst = 0;
    for (int i = 0; i <= 720; i++) {
        double p[3];
        position_from_angles(i * 0.5, 7, 1.5, p);
        int now = hc_bank_nearest(&all, (float[3]){(float)p[0], (float)p[1], (float)p[2]});
        for (size_t out = 0; out < 2 && before >= 0 && now != before; out++) {
            const float *a = bank_response(&bank, (size_t)before, out), *b = bank_response(&bank, (size_t)now, out);
            double error = 0, energy = 0;
            for (int k = 0; k < bank.n_taps; k++) {
                error += pow((double)a[k] - (double)b[k], 2);
                energy += pow((double)a[k], 2);
            }
            worst = fmax(worst, sqrt(error / energy));
        }
        changes += before >= 0 && now != before;
        before = now;
    }
    /* 3 degrees at most from entry to entry: 0.0875 m / 343 m/s * 48000 * 0.05 = 0.6 frames of delay. */
    check(changes > 150 && worst < 0.75, "%d changes, the largest of %g", changes, worst);
    bank_free(&bank);
}

static void a_grid_that_cannot_be_is_refused(const char *backend)
{
    struct bank bank;
    char why[300] = "";
    model_bank(&bank, 30, -60);
    check(bank_grid(&bank, 0.5, INFINITY, "model", REASON(why, sizeof why)) == HC_EINVAL && strstr(why, "65536"), "%s",
          why);
    check(bank_grid(&bank, 5, 1e5, "model", REASON(why, sizeof why)) == HC_EINVAL && strstr(why, "large"), "%s", why);
    bank_free(&bank);
    check(bank_make(&bank, 3, 1, 4, 0, "m", REASON(why, sizeof why)) == HC_OK, "%s", why);
    bank.position = NULL;
    check(bank_grid(&bank, 5, INFINITY, "m", REASON(why, sizeof why)) == HC_EINVAL && strstr(why, "positions"), "%s",
          why);
    bank_free(&bank);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static void the_gain_is_that_of_the_loudest_response(const char *backend)
{
    struct random random = random_seeded(3);
    for (int round = 0; round < 20; round++) {
        struct bank bank = {0};
        char why[200] = "";
        double gain = 0, want = 0;
        int n = random_int(&random, 1, 30), n_taps = random_int(&random, 1, 200);
        check(bank_make(&bank, (size_t)n, 3, (size_t)n_taps, 0, "m", REASON(why, sizeof why)) == HC_OK, "%s", why);
        for (int i = 0; i < n * 3 * n_taps; i++) bank.taps[i] = random_sample(&random);
        for (int i = 0; i < n * 3; i++) {
            struct sine_gain one;
            struct sine_gain_part part = {bank.taps + i * n_taps, n_taps, 1};
            check(sine_gain_find(&part, 1, &one), "memory");
            want = fmax(want, one.gain);
        }
        check(bank_gain(&bank, &gain, "m", REASON(why, sizeof why)) == HC_OK, "%s", why);
        check(fabs(20 * log10(gain / want)) < 0.001, "%d responses of %d taps: %g, want %g", n * 3, n_taps, gain, want);
        bank_free(&bank);
    }
}

/* The transform that finds peaks has a bin at the frequency of the first response, and none at that of the second. */
static void a_gain_between_two_bins_counts(const char *backend)
{
    enum { N = 64 };
    struct bank bank = {0};
    char why[200] = "";
    double gain = 0;
    check(bank_make(&bank, 2, 1, N, 0, "m", REASON(why, sizeof why)) == HC_OK, "%s", why);
    for (int i = 0; i < N; i++) {
        bank.taps[i] = (float)sin(2 * M_PI * 40 / (4 * N) * i);
        bank.taps[N + i] = (float)(1.02 * sin(2 * M_PI * 40.5 / (4 * N) * i));
    }
    struct sine_gain first, one;
    check(sine_gain_find(&(struct sine_gain_part){bank.taps, N, 1}, 1, &first), "memory");
    check(sine_gain_find(&(struct sine_gain_part){bank.taps + N, N, 1}, 1, &one), "memory");
    check(one.gain > first.gain, "%g and %g", one.gain, first.gain);
    check(bank_gain(&bank, &gain, "m", REASON(why, sizeof why)) == HC_OK, "%s", why);
    check(gain == one.gain, "%g, want %g", gain, one.gain);
    bank_free(&bank);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_delay_moves_a_band_limited_response, false),
        TEST(a_delay_adds_and_cuts_at_the_ends, false),
        TEST(onsets_move_with_the_response, false),
        TEST(a_grid_keeps_the_entries_of_the_file, false),
        TEST(grid_entries_are_near_the_true_responses, false),
        TEST(a_mix_is_not_a_comb_filter, false),
        TEST(steps_between_neighbours_are_small, false),
        TEST(a_grid_that_cannot_be_is_refused, false),
        TEST(the_gain_is_that_of_the_loudest_response, false),
        TEST(a_gain_between_two_bins_counts, false),
    };
    return check_main("grid_test", tests, sizeof tests / sizeof *tests);
}
