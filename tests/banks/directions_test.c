/* directions_test - the search for entries by direction: hc_bank_nearest and hc_bank_mix of a bank with a table. */
#include "check.h"
#include "dsp/banks/directions.h"
#include "haloconv_scenes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef float place[3];

static void random_direction(struct random *random, double distance, float out[3])
{
    double length;
    do {
        length = 0;
        for (int c = 0; c < 3; c++) {
            out[c] = random_sample(random);
            length += (double)out[c] * (double)out[c];
        }
    } while (length > 1 || length < 1e-3);
    for (int c = 0; c < 3; c++) out[c] = (float)((double)out[c] * distance / sqrt(length));
}

static void at_angles(double azimuth, double elevation, double distance, float out[3])
{
    double az = azimuth * (M_PI / 180), el = elevation * (M_PI / 180);
    out[0] = (float)(distance * cos(az) * cos(el));
    out[1] = (float)(distance * sin(az) * cos(el));
    out[2] = (float)(distance * sin(el));
}

static double angle(const float *a, const float *b)
{
    double chord = 0, aa = 0, bb = 0;
    for (int c = 0; c < 3; c++) {
        aa += (double)a[c] * (double)a[c];
        bb += (double)b[c] * (double)b[c];
    }
    for (int c = 0; c < 3; c++) chord += pow((double)a[c] / sqrt(aa) - (double)b[c] / sqrt(bb), 2);
    return 2 * asin(fmin(1, sqrt(chord) / 2));
}

/* ---- sets of positions ------------------------------------------------------------------------------------------- */

static place *set_random(int n)
{
    struct random random = random_seeded(7);
    place *set = must_alloc((size_t)n, sizeof *set);
    for (int i = 0; i < n; i++) random_direction(&random, 0.5 + random_sample(&random) * 0.4, set[i]);
    return set;
}

/* Rings 10 degrees apart from -40 to 90, as most measured sets have them. *n: how many. */
static place *set_rings(int step, int *n)
{
    place *set = must_alloc(70000, sizeof *set);
    *n = 0;
    for (int el = -40; el <= 90; el += step)
        for (int i = 0, most = el == 90 ? 1 : (int)lrint(360 * cos(el * M_PI / 180) / step); i < most; i++)
            at_angles(360.0 * i / most, el, 1.4, set[(*n)++]);
    return set;
}

static place *set_circle(int n)
{
    place *set = must_alloc((size_t)n, sizeof *set);
    for (int i = 0; i < n; i++) at_angles(360.0 * i / n, 0, 2, set[i]);
    return set;
}

/* Compares the table with a search through all entries, for random directions and for the entries themselves. */
static void compare_nearest(const place *set, int n, const char *name)
{
    struct random random = random_seeded(11);
    struct directions *table = directions_make(set, n);
    check(table, "%s: no memory", name);
    for (int i = 0; i < (n > 10000 ? 300 : 1000); i++) {
        place wanted;
        if (i % 10 == 0)
            memcpy(wanted, set[random_int(&random, 0, n - 1)], sizeof wanted);
        else
            random_direction(&random, 0.1 + fabs((double)random_sample(&random)) * 2, wanted);
        int got = directions_nearest(table, wanted), want = positions_nearest(set, n, wanted);
        check(got >= 0 && got < n, "%s: entry %d of %d", name, got, n);
        /* Rounding may prefer either of two entries that are equally near. */
        check(got == want || fabs(angle(set[got], wanted) - angle(set[want], wanted)) < 1e-7,
              "%s: direction %d: got %d, want %d", name, i, got, want);
    }
    directions_free(table);
}

static void nearest_is_that_of_a_full_search(const char *backend)
{
    int sizes[] = {1, 2, 3, 4, 5, 24, 150, 151, 6143, 6145}, n;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        place *set = set_random(sizes[i]);
        compare_nearest((const place *)set, sizes[i], "random");
        free(set);
        set = set_circle(sizes[i]);
        compare_nearest((const place *)set, sizes[i], "circle");
        free(set);
    }
    place *set = set_rings(10, &n);
    compare_nearest((const place *)set, n, "rings");
    free(set);
}

static void a_full_bank_is_searched(const char *backend)
{
    int n = SANITIZED ? 5000 : 65536;
    place *set = set_random(n);
    for (int i = n / 2; i < n; i++) /* the other half: one direction, at all distances */
        for (int c = 0; c < 3; c++) set[i][c] = set[0][c] * (float)(i - n / 2 + 1) / (float)n;
    compare_nearest((const place *)set, n, "full");
    free(set);
}

static long peak_memory(void) /* MB */
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

/* A room with a source 5 m ahead of a dense grid of listeners: all directions are within 12 degrees. */
static void directions_of_one_region_take_little_memory(const char *backend)
{
    int n = SANITIZED ? 5000 : 65536;
    struct random random = random_seeded(5);
    place *set = must_alloc((size_t)n, sizeof *set);
    for (int i = 0; i < n; i++) {
        set[i][0] = 5;
        for (int c = 1; c < 3; c++) set[i][c] = random_sample(&random) / 2;
    }
    long before = peak_memory();
    compare_nearest((const place *)set, n, "region");
    check(SANITIZED || peak_memory() - before < 300, "%ld MB", peak_memory() - before);
    free(set);
}

static void distance_decides_between_entries_of_one_direction(const char *backend)
{
    enum { N = 60 };
    place set[N];
    for (int i = 0; i < N; i++) at_angles(30 * (i / 5), 20, 1 + (i * 2 % 5), set[i]); /* 1 to 5 m, in any order */
    struct directions *table = directions_make((const place *)set, N);
    check(table, "no memory");
    for (int direction = 0; direction < N / 5; direction++)
        for (int distance = 0; distance <= 7; distance++) {
            place wanted;
            int best = direction * 5;
            double wish = distance - 0.3;
            if (!(wish > 0)) wish = 0.01;
            at_angles(30 * direction, 20, wish, wanted);
            for (int i = direction * 5; i < direction * 5 + 5; i++) {
                double off = fabs(1 + (i * 2 % 5) - wish), least = fabs(1 + (best * 2 % 5) - wish);
                if (off < least) best = i;
            }
            int got = directions_nearest(table, wanted);
            check(got == best, "direction %d, %.1f m: got %d, want %d", direction, wish, got, best);
        }
    directions_free(table);
}

/* The mix of a direction inside of the set: weights that are positive, sum to 1, and point to the direction. */
static void compare_mix(const place *set, int n, double least_elevation, double largest_angle, const char *name)
{
    struct random random = random_seeded(13);
    struct directions *table = directions_make(set, n);
    check(table, "%s: no memory", name);
    for (int i = 0; i < 3000; i++) {
        place wanted, mixed = {0};
        int entries[3];
        float weights[3];
        double sum = 0;
        random_direction(&random, 1, wanted);
        int got = directions_mix(table, wanted, entries, weights);
        check(got >= 1 && got <= 3, "%s: %d entries", name, got);
        for (int k = 0; k < got; k++) {
            check(entries[k] >= 0 && entries[k] < n && weights[k] > 0, "%s: entry %d with weight %g", name, entries[k],
                  (double)weights[k]);
            for (int j = 0; j < k; j++) check(entries[j] != entries[k], "%s: entry %d twice", name, entries[k]);
            sum += (double)weights[k];
            double length = 0;
            for (int c = 0; c < 3; c++) length += pow((double)set[entries[k]][c], 2);
            for (int c = 0; c < 3; c++) mixed[c] += weights[k] * (float)((double)set[entries[k]][c] / sqrt(length));
        }
        check(fabs(sum - 1) < 1e-6, "%s: weights sum to %.9g", name, sum);
        if (asin((double)wanted[2]) < least_elevation * (M_PI / 180)) continue;
        check(angle(mixed, wanted) < 3e-4, "%s: %g %g %g: the mix is %g degrees away", name, (double)wanted[0],
              (double)wanted[1], (double)wanted[2], angle(mixed, wanted) * 180 / M_PI);
        for (int k = 0; k < got; k++)
            check(angle(set[entries[k]], wanted) < largest_angle * (M_PI / 180), "%s: an entry %g degrees away", name,
                  angle(set[entries[k]], wanted) * 180 / M_PI);
    }
    directions_free(table);
}

static void a_mix_surrounds_its_direction(const char *backend)
{
    int n;
    place *set = set_rings(10, &n);
    compare_mix((const place *)set, n, -39, 15, "rings");
    free(set);
    set = set_random(3000);
    compare_mix((const place *)set, 3000, -90, 20, "random");
    free(set);
}

static void an_entry_is_its_own_mix(const char *backend)
{
    int n;
    place *set = set_rings(10, &n);
    struct directions *table = directions_make((const place *)set, n);
    check(table, "no memory");
    for (int i = 0; i < n; i++) {
        int entries[3];
        float weights[3];
        int got = directions_mix(table, set[i], entries, weights);
        check(got == 1 && entries[0] == i && weights[0] == 1, "entry %d: %d entries, the first is %d with %g", i, got,
              entries[0], (double)weights[0]);
    }
    directions_free(table);
    free(set);
}

/* A sphere would have no hull around its centre without the helpers. */
static void beyond_the_measured_range_a_mix_is_at_its_edge(const char *backend)
{
    int n;
    place *rings = set_rings(10, &n), *circle = set_circle(72);
    struct directions *table = directions_make((const place *)rings, n),
                      *flat = directions_make((const place *)circle, 72);
    check(table && flat, "no memory");
    for (int az = 0; az < 360; az++)
        for (int el = -89; el < 90; el += 8) {
            place wanted;
            int entries[3];
            float weights[3];
            at_angles(az, el, 1, wanted);
            for (int which = 0; which < 2; which++) {
                place mixed = {0};
                if (which == 0 && el > -42) continue;
                int got = directions_mix(which ? flat : table, wanted, entries, weights);
                for (int k = 0; k < got; k++)
                    for (int c = 0; c < 3; c++) mixed[c] += weights[k] * (which ? circle : rings)[entries[k]][c];
                double azimuth = atan2((double)mixed[1], (double)mixed[0]) * 180 / M_PI;
                double elevation = asin((double)mixed[2] / sqrt(pow((double)mixed[0], 2) + pow((double)mixed[1], 2) +
                                                                pow((double)mixed[2], 2))) *
                                   180 / M_PI;
                check(fabs(remainder(azimuth - az, 360)) < 0.3 && fabs(elevation - (which ? 0 : -40)) < 0.5,
                      "%s, azimuth %d, elevation %d: the mix is at %g, %g", which ? "circle" : "rings", az, el, azimuth,
                      elevation);
            }
        }
    directions_free(table);
    directions_free(flat);
    free(rings);
    free(circle);
}

static void a_bank_of_the_caller_needs_no_table(const char *backend)
{
    place *set = set_random(100), wanted = {0.1f, 0.5f, -0.3f};
    int entries[HC_MAX_MIX];
    float weights[HC_MAX_MIX];
    hc_bank_data bank = {.size = sizeof bank, .n_entries = 100, .position = (const float(*)[3])set};
    int nearest = hc_bank_nearest(&bank, wanted);
    for (int i = 0; i < 100; i++) check(angle(set[i], wanted) >= angle(set[nearest], wanted), "%d is nearer", i);
    check(hc_bank_mix(&bank, wanted, entries, weights) == 1 && entries[0] == nearest && weights[0] == 1, "the mix");
    bank.position = NULL;
    check(hc_bank_nearest(&bank, wanted) == 0, "without positions");
    check(hc_bank_mix(&bank, wanted, entries, weights) == 1 && entries[0] == 0, "mix without positions");
    free(set);
}

static void an_index_of_a_bank_without_responses_is_refused(const char *backend)
{
    static const float position[1][3] = {{1, 0, 0}}, tap[1] = {1}, *const one[1] = {tap}, *const none[1] = {NULL};
    const hc_bank_data good = {
        .size = sizeof good, .n_entries = 1, .n_out = 1, .n_taps = 1, .taps = one, .position = position};
    hc_bank_data banks[] = {good, good, good, good, good};
    char why[200];
    double frame;
    banks[0].taps = NULL;
    banks[1].taps = none;
    banks[2].n_entries = 0;
    banks[3].n_out = -1;
    banks[4].n_taps = 0;
    for (int i = 0; i < 5; i++) {
        check(hc_bank_index(&banks[i], why, sizeof why) == HC_EINVAL && !banks[i].memory, "bank %d", i);
        check(hc_bank_onset(&banks[i], 0, 0, &frame) == HC_EINVAL, "onset of bank %d", i);
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(nearest_is_that_of_a_full_search, false),
        TEST(a_full_bank_is_searched, false),
        TEST(directions_of_one_region_take_little_memory, false),
        TEST(distance_decides_between_entries_of_one_direction, false),
        TEST(a_mix_surrounds_its_direction, false),
        TEST(an_entry_is_its_own_mix, false),
        TEST(beyond_the_measured_range_a_mix_is_at_its_edge, false),
        TEST(a_bank_of_the_caller_needs_no_table, false),
        TEST(an_index_of_a_bank_without_responses_is_refused, false),
    };
    return check_main("directions_test", tests, sizeof tests / sizeof *tests);
}
