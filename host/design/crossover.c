#include "crossover.h"

#include "dsp/signal/recursive_filter.h"
#include "dsp/signal/transform.h"
#include "fir_design.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TAPS = 1 << 22, MAX_SECTIONS = 4 * CROSSOVER_MAX_CUTOFFS };

/* ---- Linkwitz-Riley ----------------------------------------------------------------------------- */

enum kind { LOWPASS, HIGHPASS, ALLPASS };

struct way_sections {
    struct biquad list[MAX_SECTIONS];
    int n;
};

/* Adds the Butterworth filter of half the crossover's order at a cutoff, once (power 1) or squared (2). */
static void add_butterworth(struct way_sections *s, const struct crossover *c, enum kind kind, int cutoff, int power)
{
    static const enum biquad_kind first_order[] = {BIQUAD_LOWPASS_1, BIQUAD_HIGHPASS_1, BIQUAD_ALLPASS_1};
    static const enum biquad_kind second_order[] = {BIQUAD_LOWPASS, BIQUAD_HIGHPASS, BIQUAD_ALLPASS};
    int order = c->order / 2;
    for (int time = 0; time < power; time++)
        for (int k = 0; k < (order + 1) / 2; k++)
            s->list[s->n++] = biquad_make(order == 1 ? first_order[kind] : second_order[kind], c->rate,
                                          c->cutoff_hz[cutoff], 0, biquad_butterworth_q(order, k));
}

/* The sections of a band. Returns its sign: the two sides of order 2 add up if one of them is inverted. */
static double band_sections(const struct crossover *c, int way, struct way_sections *s)
{
    s->n = 0;
    for (int k = 0; k < c->n_cutoffs; k++)
        add_butterworth(s, c, k < way ? HIGHPASS : k == way ? LOWPASS : ALLPASS, k, k <= way ? 2 : 1);
    return c->order == 2 && way % 2 ? -1 : 1;
}

static bool make_linkwitz_riley(struct crossover *c)
{
    struct way_sections s;
    double *taps[CROSSOVER_MAX_CUTOFFS + 1] = {NULL}, rest_db;
    int n[CROSSOVER_MAX_CUTOFFS + 1] = {0};
    bool good = true;
    c->n_frames = 1;
    for (int way = 0; good && way < c->n_ways; way++) {
        double sign = band_sections(c, way, &s);
        n[way] = biquad_taps(s.list, s.n, c->error_db, MAX_TAPS, &taps[way], &rest_db);
        good = n[way] > 0;
        for (int i = 0; i < n[way]; i++) taps[way][i] *= sign;
        if (n[way] > c->n_frames) c->n_frames = n[way];
    }
    c->h = good ? calloc((size_t)c->n_ways * (size_t)c->n_frames, sizeof *c->h) : NULL;
    for (int way = 0; c->h && way < c->n_ways; way++)
        memcpy(c->h + (size_t)way * (size_t)c->n_frames, taps[way], (size_t)n[way] * sizeof *c->h);
    for (int way = 0; way < c->n_ways; way++) free(taps[way]);
    return c->h != NULL;
}

/* ---- linear phase ------------------------------------------------------------------------------- */

struct symmetric_fir { /* taps h[2 * middle + 1], from malloc */
    double *h;
    int middle;
};

/* The low-pass with the squared magnitude of a Butterworth filter: this filter backwards, and forwards. */
static struct symmetric_fir squared_butterworth(const struct crossover *c, int cutoff)
{
    struct way_sections s = {.n = 0};
    struct symmetric_fir low = {NULL, 0};
    double *taps, rest_db;
    add_butterworth(&s, c, LOWPASS, cutoff, 1);
    int n = biquad_taps(s.list, s.n, c->error_db, MAX_TAPS / 2, &taps, &rest_db);
    double *reversed = n > 0 ? malloc((size_t)n * sizeof *reversed) : NULL;
    if (reversed) low = (struct symmetric_fir){malloc((size_t)(2 * n - 1) * sizeof *low.h), n - 1};
    for (int i = 0; low.h && i < n; i++) reversed[i] = taps[n - 1 - i];
    if (low.h && !transform_convolve(taps, (size_t)n, reversed, (size_t)n, low.h)) {
        free(low.h);
        low.h = NULL;
    }
    free(reversed);
    free(taps);
    return low;
}

double crossover_transition(const struct crossover *c, int cutoff)
{
    return c->transition_hz > 0 ? c->transition_hz : c->cutoff_hz[cutoff] / 2;
}

int crossover_steep_taps(const struct crossover *c, int cutoff)
{
    double taps = fir_kaiser_length(c->attenuation_db, crossover_transition(c, cutoff) / (0.5 * c->rate));
    return taps < INT_MAX ? (int)taps | 1 : INT_MAX;
}

static struct symmetric_fir windowed_sinc(const struct crossover *c, int cutoff)
{
    double edge[2] = {c->cutoff_hz[cutoff] / (0.5 * c->rate)};
    int n = crossover_steep_taps(c, cutoff);
    struct symmetric_fir low = {malloc((size_t)n * sizeof *low.h), n / 2};
    double *w = malloc((size_t)n * sizeof *w);
    if (low.h && w) {
        fir_window_fill(FIR_KAISER, fir_kaiser_beta(c->attenuation_db), n, w);
        fir_band_fill(FIR_LOWPASS, edge, w, n, low.h);
    } else {
        free(low.h);
        low.h = NULL;
    }
    free(w);
    return low;
}

/* Cuts bands[0], the rest: it becomes the band low * rest. bands[1] becomes the new rest, delayed by low's delay.
 * false: no memory. */
static bool cut_band(const struct symmetric_fir *low, struct symmetric_fir *bands)
{
    size_t n_low = 2 * (size_t)low->middle + 1, n_rest = 2 * (size_t)bands[0].middle + 1, n = n_low + n_rest - 1;
    struct symmetric_fir band = {malloc(n * sizeof *band.h), low->middle + bands[0].middle};
    double *left = calloc(n, sizeof *left);
    if (!band.h || !left || !transform_convolve(low->h, n_low, bands[0].h, n_rest, band.h)) {
        free(band.h);
        free(left);
        return false;
    }
    memcpy(left + low->middle, bands[0].h, n_rest * sizeof *left);
    for (size_t i = 0; i < n; i++) left[i] -= band.h[i];
    free(bands[0].h);
    bands[0] = band;
    bands[1] = (struct symmetric_fir){left, band.middle};
    return true;
}

/* Joins bands of different lengths as filters of one length, with their middles at the same frame. */
static bool join_bands(struct crossover *c, const struct symmetric_fir *bands)
{
    c->delay = bands[c->n_ways - 1].middle;
    c->n_frames = 2 * c->delay + 1;
    c->h = calloc((size_t)c->n_ways * (size_t)c->n_frames, sizeof *c->h);
    for (int way = 0; c->h && way < c->n_ways; way++)
        memcpy(c->h + (size_t)way * (size_t)c->n_frames + c->delay - bands[way].middle, bands[way].h,
               (2 * (size_t)bands[way].middle + 1) * sizeof *c->h);
    return c->h != NULL;
}

static bool make_linear(struct crossover *c)
{
    struct symmetric_fir bands[CROSSOVER_MAX_CUTOFFS + 1] = {{malloc(sizeof(double)), 0}};
    bool good = bands[0].h != NULL;
    if (good) bands[0].h[0] = 1;
    for (int k = 0; good && k < c->n_cutoffs; k++) {
        struct symmetric_fir low = c->type == CROSSOVER_STEEP ? windowed_sinc(c, k) : squared_butterworth(c, k);
        good = low.h && cut_band(&low, &bands[k]);
        free(low.h);
    }
    good = good && join_bands(c, bands);
    for (int way = 0; way <= CROSSOVER_MAX_CUTOFFS; way++) free(bands[way].h);
    return good;
}

bool crossover_make(struct crossover *c)
{
    c->n_ways = c->n_cutoffs + 1;
    c->delay = 0;
    c->h = NULL;
    return c->type == CROSSOVER_LINKWITZ_RILEY ? make_linkwitz_riley(c) : make_linear(c);
}

/* ---- figures ------------------------------------------------------------------------------------ */

/* The exact response of a band with these sections. */
static double complex exact_response(const struct crossover *c, const struct way_sections *s, double sign, double hz)
{
    double complex product = sign;
    for (int i = 0; i < s->n; i++) product *= biquad_response(&s->list[i], c->rate, hz);
    return c->type == CROSSOVER_LINEAR ? cabs(product) * cexp(-2 * M_PI * I * hz / c->rate * c->delay) : product;
}

/* Is the frequency in a stop band of a steep way? */
static bool is_stopped(const struct crossover *c, int way, double hz)
{
    return (way > 0 && hz < c->cutoff_hz[way - 1] - crossover_transition(c, way - 1) / 2) ||
           (way < c->n_cutoffs && hz > c->cutoff_hz[way] + crossover_transition(c, way) / 2);
}

bool crossover_measure(const struct crossover *c, struct crossover_figures *figures)
{
    struct transform t;
    bool is_steep = c->type == CROSSOVER_STEEP;
    *figures = (struct crossover_figures){0};
    if (!transform_open(&t, transform_size(4 * (size_t)c->n_frames))) return false;
    size_t n_bins = t.size / 2 + 1;
    double complex *bins = malloc(n_bins * sizeof *bins), *sum = calloc(n_bins, sizeof *sum);
    float *taps = malloc((size_t)c->n_frames * sizeof *taps);
    bool good = bins && sum && taps;
    for (int way = 0; good && way < c->n_ways; way++) {
        struct way_sections s;
        double sign = is_steep ? 0 : band_sections(c, way, &s);
        for (int i = 0; i < c->n_frames; i++) taps[i] = (float)c->h[(size_t)way * (size_t)c->n_frames + (size_t)i];
        transform_response_float(&t, taps, (size_t)c->n_frames, bins);
        for (size_t k = 0; k < n_bins; k++) {
            sum[k] += bins[k];
            double hz = (double)k / (double)t.size * c->rate;
            if (is_steep && !is_stopped(c, way, hz)) continue;
            double complex exact = is_steep ? 0 : exact_response(c, &s, sign, hz);
            figures->error = fmax(figures->error, cabs(bins[k] - exact));
        }
    }
    for (size_t k = 0; good && k < n_bins; k++) figures->sum_db = fmax(figures->sum_db, fabs(20 * log10(cabs(sum[k]))));
    free(taps);
    free(sum);
    free(bins);
    transform_close(&t);
    return good;
}
