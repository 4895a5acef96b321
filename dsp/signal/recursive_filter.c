#include "recursive_filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int response_cut(const double *h, int n, double rest_db, int max, double *cut_db)
{
    double energy = 0, rest = 0;
    for (int i = 0; i < n; i++) energy += h[i] * h[i];
    double allowed = energy * pow(10, rest_db / 10);
    while (n > 1 && (n > max || rest + h[n - 1] * h[n - 1] <= allowed)) {
        n--;
        rest += h[n] * h[n];
    }
    if (cut_db) *cut_db = rest > 0 ? 10 * log10(rest / energy) : -INFINITY;
    return n;
}

/* ---- second-order sections --------------------------------------------------------------------------------------- */

static struct biquad normalised(double b0, double b1, double b2, double a0, double a1, double a2)
{
    return (struct biquad){b0 / a0, b1 / a0, b2 / a0, a1 / a0, a2 / a0};
}

static struct biquad first_order(enum biquad_kind kind, double k, double gain) /* k = tan(w0 / 2) */
{
    double root = sqrt(gain);
    switch (kind) {
    case BIQUAD_LOWPASS_1:
        return normalised(k, k, 0, k + 1, k - 1, 0);
    case BIQUAD_HIGHPASS_1:
        return normalised(1, -1, 0, k + 1, k - 1, 0);
    case BIQUAD_ALLPASS_1:
        return normalised(k - 1, k + 1, 0, k + 1, k - 1, 0);
    case BIQUAD_LOWSHELF_1: /* at hz, the gain in dB is half of gain_db */
        return normalised(k * root + 1, k * root - 1, 0, k / root + 1, k / root - 1, 0);
    default:
        return normalised(k + root, k - root, 0, k + 1 / root, k - 1 / root, 0);
    }
}

struct biquad biquad_make(enum biquad_kind kind, int rate, double hz, double gain_db, double q)
{
    double w = 2 * M_PI * hz / rate, c = cos(w), s = sin(w), alpha = s / (2 * q);
    double a = pow(10, gain_db / 40), beta = 2 * sqrt(a) * alpha;
    switch (kind) {
    case BIQUAD_LOWPASS:
        return normalised((1 - c) / 2, 1 - c, (1 - c) / 2, 1 + alpha, -2 * c, 1 - alpha);
    case BIQUAD_HIGHPASS:
        return normalised((1 + c) / 2, -(1 + c), (1 + c) / 2, 1 + alpha, -2 * c, 1 - alpha);
    case BIQUAD_BANDPASS:
        return normalised(alpha, 0, -alpha, 1 + alpha, -2 * c, 1 - alpha);
    case BIQUAD_NOTCH:
        return normalised(1, -2 * c, 1, 1 + alpha, -2 * c, 1 - alpha);
    case BIQUAD_ALLPASS:
        return normalised(1 - alpha, -2 * c, 1 + alpha, 1 + alpha, -2 * c, 1 - alpha);
    case BIQUAD_PEAK:
        return normalised(1 + alpha * a, -2 * c, 1 - alpha * a, 1 + alpha / a, -2 * c, 1 - alpha / a);
    case BIQUAD_LOWSHELF:
        return normalised(a * ((a + 1) - (a - 1) * c + beta), 2 * a * ((a - 1) - (a + 1) * c),
                          a * ((a + 1) - (a - 1) * c - beta), (a + 1) + (a - 1) * c + beta,
                          -2 * ((a - 1) + (a + 1) * c), (a + 1) + (a - 1) * c - beta);
    case BIQUAD_HIGHSHELF:
        return normalised(a * ((a + 1) + (a - 1) * c + beta), -2 * a * ((a - 1) + (a + 1) * c),
                          a * ((a + 1) + (a - 1) * c - beta), (a + 1) - (a - 1) * c + beta, 2 * ((a - 1) - (a + 1) * c),
                          (a + 1) - (a - 1) * c - beta);
    default:
        return first_order(kind, tan(w / 2), a * a);
    }
}

double biquad_q_of_slope(double gain_db, double slope)
{
    double a = pow(10, gain_db / 40);
    return 1 / sqrt((a + 1 / a) * (1 / slope - 1) + 2);
}

double biquad_q_of_bandwidth(int rate, double hz, double octaves)
{
    double w = 2 * M_PI * hz / rate;
    return 1 / (2 * sinh(M_LN2 / 2 * octaves * w / sin(w)));
}

double biquad_butterworth_q(int order, int pair)
{
    return 1 / (2 * sin(M_PI / order * (pair + 0.5)));
}

struct biquad biquad_general_notch(int rate, double hz_zeros, double hz_poles, double q_poles, bool is_unity_at_dc)
{
    double z = tan(M_PI * hz_zeros / rate), p = tan(M_PI * hz_poles / rate);
    double gain = is_unity_at_dc ? p * p / (z * z) : 1;
    return normalised(gain * (1 + z * z), -2 * gain * (1 - z * z), gain * (1 + z * z), 1 + p / q_poles + p * p,
                      -2 * (1 - p * p), 1 - p / q_poles + p * p);
}

struct biquad biquad_linkwitz_transform(int rate, double hz_from, double q_from, double hz_to, double q_to)
{
    /* s^2 + s w / q + w^2 with s = g (1 - z^-1) / (1 + z^-1): g is w / tan(w / 2 rate) at the mean frequency */
    double from = 2 * M_PI * hz_from, to = 2 * M_PI * hz_to, mean = (from + to) / 2;
    double g = mean / tan(mean / 2 / rate), from_1 = g * from / q_from, to_1 = g * to / q_to;
    from *= from;
    to *= to;
    return normalised(from + from_1 + g * g, 2 * (from - g * g), from - from_1 + g * g, to + to_1 + g * g,
                      2 * (to - g * g), to - to_1 + g * g);
}

bool biquad_is_stable(const struct biquad *b)
{
    return fabs(b->a2) < 1 && fabs(b->a1) < 1 + b->a2; /* the stable a1 and a2 form a triangle */
}

double complex biquad_response(const struct biquad *b, int rate, double hz)
{
    double complex z = cexp(-I * 2 * M_PI * hz / rate);
    return (b->b0 + z * (b->b1 + z * b->b2)) / (1 + z * (b->a1 + z * b->a2));
}

void biquad_run(const struct biquad *b, double *x, int n)
{
    double s1 = 0, s2 = 0; /* state of the transposed direct form II */
    for (int i = 0; i < n; i++) {
        double in = x[i], out = b->b0 * in + s1;
        s1 = b->b1 * in - b->a1 * out + s2;
        s2 = b->b2 * in - b->a2 * out;
        x[i] = out;
    }
}

/* Returns the taps after which the slowest pole has decayed by 400 dB, to below the precision of a double. */
static int longest_ring(const struct biquad *biquads, int n_biquads, int max)
{
    double radius = 0;
    for (int i = 0; i < n_biquads; i++) {
        const struct biquad *b = &biquads[i];
        double root = b->a1 * b->a1 / 4 - b->a2;
        radius = fmax(radius, root > 0 ? fabs(b->a1) / 2 + sqrt(root) : sqrt(b->a2));
    }
    if (!(radius < 1)) return max; /* rounding, at a frequency near 0 */
    double taps = radius < 1e-9 ? 64 : 64 + n_biquads * 16 + 20 * log(10) / -log(radius);
    return taps < max ? (int)taps : max;
}

int biquad_taps(const struct biquad *biquads, int n_biquads, double error_db, int max, double **taps, double *rest_db)
{
    /* 2 max taps: response_cut needs the taps behind `max` to measure the energy that the cut removes. */
    int n = longest_ring(biquads, n_biquads, 2 * max);
    double *h = *taps = calloc((size_t)n, sizeof *h);
    if (!h) return 0;
    h[0] = 1;
    for (int i = 0; i < n_biquads; i++) biquad_run(&biquads[i], h, n);
    return response_cut(h, n, error_db, max, rest_db);
}

/* BS.1770 lists coefficients for 48 kHz. The bilinear transform makes them from two analogue filters: a shelf of
 * +4 dB, and a high-pass at 38 Hz, whose numerator is not scaled. */
void k_weighting(int rate, struct biquad filters[2])
{
    const double shelf_hz = 1681.974450955533, gain_db = 3.999843853973347, shelf_q = 0.7071752369554196;
    const double low_hz = 38.13547087602444, low_q = 0.5003270373238773, hz = rate > 4000 ? rate : 4000;
    double k = tan(M_PI * shelf_hz / hz), vh = pow(10, gain_db / 20), vb = pow(vh, 0.4996667741545416);
    double a0 = 1 + k / shelf_q + k * k;
    filters[0] = (struct biquad){.b0 = (vh + vb * k / shelf_q + k * k) / a0,
                                 .b1 = 2 * (k * k - vh) / a0,
                                 .b2 = (vh - vb * k / shelf_q + k * k) / a0,
                                 .a1 = 2 * (k * k - 1) / a0,
                                 .a2 = (1 - k / shelf_q + k * k) / a0};
    k = tan(M_PI * low_hz / hz);
    a0 = 1 + k / low_q + k * k;
    filters[1] =
        (struct biquad){.b0 = 1, .b1 = -2, .b2 = 1, .a1 = 2 * (k * k - 1) / a0, .a2 = (1 - k / low_q + k * k) / a0};
}

/* ---- any order --------------------------------------------------------------------------------------------------- */

bool recursion_is_stable(const double *a, int n_a)
{
    double p[RECURSION_ORDER + 1] = {0}, q[RECURSION_ORDER + 1] = {0};
    if (n_a - 1 > RECURSION_ORDER) return false;
    if (n_a > 0) memcpy(p, a, (size_t)n_a * sizeof *p);
    for (int order = n_a - 1; order > 0; order--) {
        double k = p[order];
        if (!(fabs(k) < 1)) return false;
        for (int i = 1; i < order; i++) q[i] = (p[i] - k * p[order - i]) / (1 - k * k);
        memcpy(p + 1, q + 1, (size_t)(order - 1) * sizeof *p);
    }
    return true;
}

static void recursive_run(const double *b, int n_b, const double *a, int n_a, double *h, int n)
{
    for (int i = 0; i < n; i++) {
        double y = i < n_b ? b[i] : 0;
        for (int k = 1; k < n_a && k <= i; k++) y -= a[k] * h[i - k];
        h[i] = y;
    }
}

int recursion_taps(const double *b, int n_b, const double *a, int n_a, double error_db, int max, double **taps,
                   double *rest_db)
{
    /* The response is long enough when its second half is 20 dB below the error. */
    for (int n = n_b + 4096;; n *= 2) {
        double *h = *taps = malloc((size_t)n * sizeof *h);
        if (!h) return 0;
        recursive_run(b, n_b, a, n_a, h, n);
        if (n_a == 1 || n / 2 > max || (n / 2 >= n_b && response_cut(h, n, error_db - 20, n, NULL) <= n / 2))
            return response_cut(h, n, error_db, max, rest_db);
        free(h);
    }
}
