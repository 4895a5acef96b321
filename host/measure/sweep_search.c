#include "sweep_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the start ------------------------------------------------------------------------------------------------------
 *
 * The whole recording is divided by the sweep's spectrum, so that each section becomes a peak. The energy of blocks of
 * 10 ms forgets the shape of the peaks; the delay is the one for which the blocks at all sections' places sum up to the
 * most. Square roots keep a loud output from outweighing the others.
 */

struct search {
    struct sweep_analysis whole; /* of the longest recording            */
    double complex *bins;        /* [size / 2 + 1] of it                */
    int block, n_blocks;
    double *energy; /* [n_blocks], of a recording          */
    double *score;  /* [n_delays], of blocks               */
    int first_delay, n_delays;
};

static void fill_energy(struct search *s, const struct sweep_recording *r, int input)
{
    const struct transform *t = &s->whole.transform;
    transform_response_float(t, r->channel[input], (size_t)r->n_frames, s->bins);
    for (size_t k = 0; k <= t->size / 2; k++) s->bins[k] *= s->whole.inverse[k];
    transform_inverse(t, s->bins);
    memset(s->energy, 0, (size_t)s->n_blocks * sizeof *s->energy);
    const double *h = (const double *)s->bins;
    for (int64_t i = 0; i < r->n_frames; i++) s->energy[i / s->block] += h[i] * h[i];
}

/* The largest energy of three blocks: clocks drift apart by a block in a minute. */
static double energy_near(const struct search *s, double at)
{
    double largest = 0;
    int block = (int)floor(at);
    for (int i = block - 1; i <= block + 1; i++)
        if (i >= 0 && i < s->n_blocks) largest = fmax(largest, s->energy[i]);
    return largest;
}

static void add_scores(struct search *s, const struct sweep_recording *r)
{
    const struct sweep_analysis *a = &s->whole;
    for (int section = 0; section < a->sweep->averages; section++) {
        double start = (sweep_start_s(a->sweep, section) - r->begins_s) * a->rate / s->block;
        for (int d = 0; d < s->n_delays; d++) s->score[d] += sqrt(energy_near(s, start + d + s->first_delay));
    }
}

static bool search_open(struct search *s, const struct sweep *sweep, int rate, const struct sweep_recording *recordings)
{
    int64_t longest = 0;
    for (int o = 0; o < sweep->n_outputs; o++)
        if (recordings[o].n_frames > longest) longest = recordings[o].n_frames;
    if (!sweep_analysis_open(&s->whole, sweep, rate, longest)) return false;
    s->block = rate / 100 > 0 ? rate / 100 : 1;
    s->n_blocks = (int)(longest / s->block) + 1;
    s->first_delay = -(int)(sweep_start_s(sweep, 0) * rate) / s->block;
    s->n_delays = s->n_blocks - s->first_delay;
    s->bins = malloc((s->whole.transform.size / 2 + 1) * sizeof *s->bins);
    s->energy = malloc((size_t)s->n_blocks * sizeof *s->energy);
    s->score = calloc((size_t)s->n_delays, sizeof *s->score);
    return s->bins && s->energy && s->score;
}

static void search_close(struct search *s)
{
    sweep_analysis_close(&s->whole);
    free(s->bins);
    free(s->energy);
    free(s->score);
}

bool sweep_find_delay(struct sweep_analysis *a, const struct sweep_recording *recordings, int input)
{
    struct search s = {0};
    bool good = search_open(&s, a->sweep, a->rate, recordings);
    for (int o = 0; good && o < a->sweep->n_outputs; o++) {
        bool is_same = o > 0 && recordings[o].channel == recordings[o - 1].channel;
        if (!is_same) fill_energy(&s, &recordings[o], input);
        add_scores(&s, &recordings[o]);
    }
    int best = 0;
    for (int d = 0; good && d < s.n_delays; d++)
        if (s.score[d] > s.score[best]) best = d;
    a->delay = (int64_t)(best + s.first_delay) * s.block;
    search_close(&s);
    return good;
}

/* ---- the clock ------------------------------------------------------------------------------------------------------
 *
 * Two sections of an output differ by noise and by a delay: the difference of the clocks over the time between them.
 * The sum of their cross spectra, over all outputs and inputs, is W e^(i w delay) with W > 0. Its transform has a peak
 * at the delay, which gives whole frames; the slope of its phase gives the rest. W is the power of the recordings, not
 * of the responses: that is the best weight in white noise.
 */

static bool in_band(const struct sweep_analysis *a, size_t k)
{
    double hz = (double)k * a->rate / (double)a->transform.size;
    return hz >= a->sweep->from_hz && hz <= a->sweep->to_hz;
}

static void add_cross(const struct sweep_analysis *a, const double complex *first, const double complex *last,
                      double complex *cross)
{
    for (size_t k = 0; k <= a->transform.size / 2; k++)
        if (in_band(a, k)) cross[k] += last[k] * conj(first[k]) / bin_power(a->inverse[k]);
}

/* The frame of the peak, negative ones included. scratch: [size / 2 + 1]. */
static double whole_frames(const struct sweep_analysis *a, const double complex *cross, double complex *scratch)
{
    size_t size = a->transform.size, best = 0;
    const double *correlation = (const double *)scratch;
    memcpy(scratch, cross, (size / 2 + 1) * sizeof *scratch);
    transform_inverse(&a->transform, scratch);
    for (size_t i = 0; i < size; i++)
        if (correlation[i] > correlation[best]) best = i;
    return best < size / 2 ? (double)best : (double)best - (double)size;
}

/* The delay in frames: Newton's method on the phases, each weighted by its spectrum. */
static double find_delay(const struct sweep_analysis *a, const double complex *cross, double delay)
{
    double unit = 2 * M_PI / (double)a->transform.size;
    for (int step = 0; step < 5; step++) {
        double slope = 0, weight = 0;
        for (size_t k = 1; k < a->transform.size / 2; k++) {
            double w = unit * (double)k, share = cabs(cross[k]);
            if (!(share > 0)) continue;
            slope += share * w * carg(cross[k] * cexp(I * w * delay));
            weight += share * w * w;
        }
        if (!(weight > 0)) break;
        delay -= slope / weight;
    }
    return delay;
}

bool sweep_find_shift(const struct sweep_analysis *a, const struct sweep_recording *r, int input, int section,
                      double hz, double complex *const scratch[2], double *shift_s)
{
    const double min_share = 0.5; /* of the correlation of two equal responses */
    double complex *cross = scratch[0], *other = scratch[1];
    double unit = (double)a->rate / (double)a->transform.size, sum = 0;
    double middle = fmax(fmin(hz, a->sweep->to_hz * M_SQRT1_2), a->sweep->from_hz * M_SQRT2);
    sweep_section_bins(a, r, input, 0, cross);
    sweep_section_bins(a, r, input, section, other);
    for (size_t k = 0; k <= a->transform.size / 2; k++) {
        bool is_inside = fabs(log2((double)k * unit / middle)) <= 0.5;
        cross[k] = is_inside ? other[k] * conj(cross[k]) : 0;
        sum += 2 * cabs(cross[k]) / (double)a->transform.size;
    }
    double frames = whole_frames(a, cross, other);
    size_t peak = (size_t)(frames < 0 ? frames + (double)a->transform.size : frames);
    *shift_s = fabs(frames) / a->rate;
    return ((double *)other)[peak] > min_share * sum && fabs(frames) > 2 + 0.25 * a->rate / middle;
}

bool sweep_find_clock(const struct sweep_analysis *a, const struct sweep_recording *recordings, int n_inputs,
                      double *drift)
{
    int last = a->sweep->averages - 1;
    size_t n = a->transform.size / 2 + 1;
    *drift = NAN;
    if (last < 1) return true;
    double complex *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q), *cross = calloc(n, sizeof *cross);
    bool good = p && q && cross;
    for (int o = 0; good && o < a->sweep->n_outputs; o++)
        for (int i = 0; i < n_inputs; i++) {
            sweep_section_bins(a, &recordings[o], i, 0, p);
            sweep_section_bins(a, &recordings[o], i, last, q);
            add_cross(a, p, q, cross);
        }
    if (good) {
        double frames = find_delay(a, cross, whole_frames(a, cross, p));
        *drift = a->stretch * (1 + frames / (last * sweep_section_s(a->sweep) * a->rate * a->stretch)) - 1;
    }
    free(p);
    free(q);
    free(cross);
    return good;
}
