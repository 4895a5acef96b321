#include "sine_gain.h"

#include "transform.h"

#include <math.h>
#include <stdlib.h>

enum {
    REACH = 10, /* a point is interpolated from so many bins on each side */
    POINTS = 8, /* points between two bins, and also between two of these points */
    STEPS = POINTS * POINTS,
    MIN_SIZE = 64
};

struct kernel { /* interpolates POINTS equally spaced points between two bins */
    double weight[2 * REACH][POINTS];
};

struct zoom {
    const struct sine_gain_part *parts;
    int n_parts;
    size_t size, stride;  /* size of the transform; bins of a part in `bins` */
    double complex *bins; /* [n_parts][stride]: REACH mirrored bins, size / 2 + 1 bins, REACH mirrored bins */
    double *sum;          /* [size / 2 + 1]: sums at the bins */
    struct kernel coarse, fine[POINTS];
    double best, at; /* the largest sum and its position in bins */
};

/* ---- the transform ------------------------------------------------------------------------------------------------ */

/* Removes the zeros at both ends of a response: they do not change a magnitude. */
static struct sine_gain_part cut_zeros(struct sine_gain_part part)
{
    while (part.n_taps > 1 && part.taps[part.n_taps - 1] == 0) part.n_taps--;
    while (part.n_taps > 1 && part.taps[0] == 0) part.taps++, part.n_taps--;
    return part;
}

/* Computes the spectrum of a response, with its middle moved to time 0: it then changes slowly from bin to bin. */
static void transform_part(const struct transform *t, struct sine_gain_part part, double complex *bins)
{
    double *real = (double *)bins;
    int middle = part.n_taps / 2;
    for (size_t i = 0; i < t->size; i++) real[i] = 0;
    for (int i = 0; i < part.n_taps; i++)
        real[i >= middle ? (size_t)(i - middle) : t->size - (size_t)(middle - i)] = part.gain * (double)part.taps[i];
    transform_forward(t, bins);
    double complex *last = bins + t->size / 2;
    for (int i = 1; i <= REACH; i++) {
        bins[-i] = conj(bins[i]);
        last[i] = conj(last[-i]);
    }
}

static double complex *bins_of(const struct zoom *z, int part)
{
    return z->bins + (size_t)part * z->stride + REACH;
}

static bool transform_parts(struct zoom *z)
{
    struct transform t;
    if (!transform_open(&t, z->size)) return false;
    for (int p = 0; p < z->n_parts; p++) {
        double complex *bins = bins_of(z, p);
        transform_part(&t, cut_zeros(z->parts[p]), bins);
        for (size_t k = 0; k <= z->size / 2; k++) z->sum[k] += sqrt(bin_power(bins[k]));
    }
    transform_close(&t);
    return true;
}

/* ---- between the bins --------------------------------------------------------------------------------------------- */

static double weight_at(double x) /* x is in bins */
{
    const double beta = M_PI * REACH / 2; /* the window's, for a response of half the transform's length */
    double root = sqrt(fmax(1 - x * x / (REACH * REACH), 0));
    double window = root > 1e-9 ? sinh(beta * root) / (sinh(beta) * root) : beta / sinh(beta);
    return x == 0 ? 1 : window * sin(M_PI * x) / (M_PI * x);
}

static void kernel_make(struct kernel *kernel, double first, double step)
{
    for (int j = 0; j < 2 * REACH; j++)
        for (int i = 0; i < POINTS; i++) kernel->weight[j][i] = weight_at(first + step * i - (j - REACH + 1));
}

/* Computes the sums of magnitudes at the kernel's points between bins k and k + 1. */
static void sum_points(const struct zoom *z, const struct kernel *kernel, size_t k, double sums[POINTS])
{
    for (int i = 0; i < POINTS; i++) sums[i] = 0;
    for (int p = 0; p < z->n_parts; p++) {
        const double complex *from = bins_of(z, p) + k - (REACH - 1);
        double re[POINTS] = {0}, im[POINTS] = {0};
        for (int j = 0; j < 2 * REACH; j++) {
            for (int i = 0; i < POINTS; i++) {
                re[i] += kernel->weight[j][i] * creal(from[j]);
                im[i] += kernel->weight[j][i] * cimag(from[j]);
            }
        }
        for (int i = 0; i < POINTS; i++) sums[i] += sqrt(re[i] * re[i] + im[i] * im[i]);
    }
}

static void update_peak(struct zoom *z, double sum, double at)
{
    if (sum <= z->best) return;
    z->best = sum;
    z->at = at;
}

/* Searches between bins k and k + 1. Skips a part if both ends are below part_share of the largest sum. */
static void search_interval(struct zoom *z, size_t k, double part_share)
{
    double sums[POINTS + 1], parts[POINTS];
    sum_points(z, &z->coarse, k, sums);
    sums[POINTS] = z->sum[k + 1];
    for (int i = 0; i < POINTS; i++) update_peak(z, sums[i], (double)k + (double)i / POINTS);
    for (int i = 0; i < POINTS; i++) {
        if (fmax(sums[i], sums[i + 1]) < z->best * part_share) continue;
        sum_points(z, &z->fine[i], k, parts);
        for (int j = 1; j < POINTS; j++) update_peak(z, parts[j], (double)k + (double)(i * POINTS + j) / STEPS);
    }
}

static void search(struct zoom *z, int longest)
{
    double angle = M_PI / 2 * (longest - 1) / (double)z->size; /* n / 2 times half the distance between bins */
    const double interpolation_error = 1e-5;                   /* an upper bound */
    double share = cos(angle) - interpolation_error, part_share = cos(angle / POINTS) - interpolation_error;
    kernel_make(&z->coarse, 0, 1.0 / POINTS);
    for (int i = 0; i < POINTS; i++) kernel_make(&z->fine[i], (double)i / POINTS, 1.0 / STEPS);
    for (size_t k = 0; k <= z->size / 2; k++) update_peak(z, z->sum[k], (double)k);
    for (size_t k = 0; k < z->size / 2 && longest > 1; k++)
        if (fmax(z->sum[k], z->sum[k + 1]) >= z->best * share) search_interval(z, k, part_share);
}

bool sine_gain_find(const struct sine_gain_part *parts, int n_parts, struct sine_gain *result)
{
    struct zoom z = {.parts = parts, .n_parts = n_parts};
    int longest = 1;
    for (int p = 0; p < n_parts; p++) {
        int n = cut_zeros(parts[p]).n_taps;
        if (n > longest) longest = n;
    }
    z.size = transform_size(2 * (size_t)longest > MIN_SIZE ? 2 * (size_t)longest : MIN_SIZE);
    z.stride = z.size / 2 + 1 + 2 * (size_t)REACH;
    z.bins = malloc((size_t)(n_parts > 0 ? n_parts : 1) * z.stride * sizeof *z.bins);
    z.sum = calloc(z.size / 2 + 1, sizeof *z.sum);
    bool good = z.bins && z.sum && transform_parts(&z);
    if (good) {
        search(&z, longest);
        *result = (struct sine_gain){z.best, z.at / (double)z.size};
    }
    free(z.bins);
    free(z.sum);
    return good;
}
