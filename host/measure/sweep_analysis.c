#include "sweep_analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double complex sweep_limits(const struct sweep *s, double hz)
{
    double x = hz / (s->from_hz / 4), sigma = 0.0125 * s->to_hz; /* the skirt is 4 sigma wide on each side */
    double complex high_pass = -x * x / CMPLX(1 - x * x, M_SQRT2 * x);
    return high_pass * 0.5 * erfc((hz - 1.05 * s->to_hz) / (sigma * M_SQRT2));
}

bool sweep_analysis_open(struct sweep_analysis *a, const struct sweep *s, int rate, int64_t n_frames)
{
    const double max_reach_s = 0.2, spread_s = 0.1; /* spread of the arrivals at all inputs */
    double octave = sweep_growth_s(s) * log(2);
    *a = (struct sweep_analysis){.sweep = s, .rate = rate};
    a->reach = (int)(rate * fmin(max_reach_s, 0.5 * octave));
    a->guard = a->reach + (int)(rate * spread_s);
    a->n_section = a->guard + (int)ceil(rate * sweep_section_s(s));
    /* The noise of the division fills the sweep's length before frame 0. */
    size_t size = transform_size((size_t)(n_frames ? n_frames : a->n_section) + (size_t)ceil(rate * s->length_s));
    if (!transform_open(&a->transform, size)) return false;
    a->inverse = malloc((size / 2 + 1) * sizeof *a->inverse);
    if (a->inverse) {
        sweep_analysis_set_clock(a, 1);
        return true;
    }
    sweep_analysis_close(a);
    return false;
}

void sweep_analysis_close(struct sweep_analysis *a)
{
    transform_close(&a->transform);
    free(a->inverse);
    a->inverse = NULL;
}

void sweep_analysis_set_clock(struct sweep_analysis *a, double stretch)
{
    const double min_share = 1e-16; /* share of the largest power; far below the sweep's band */
    size_t half = a->transform.size / 2;
    double *sweep = (double *)a->inverse, largest = 0;
    a->stretch = stretch;
    memset(a->inverse, 0, (half + 1) * sizeof *a->inverse);
    int n = (int)ceil(a->sweep->length_s * a->rate * stretch);
    for (int i = 0; i < n; i++) sweep[i] = sweep_value(a->sweep, i / (a->rate * stretch));
    transform_forward(&a->transform, a->inverse);
    for (size_t k = 0; k <= half; k++) largest = fmax(largest, bin_power(a->inverse[k]));
    for (size_t k = 0; k <= half; k++) {
        double hz = (double)k * a->rate * stretch / (double)a->transform.size;
        double power = bin_power(a->inverse[k]) + min_share * largest;
        a->inverse[k] = sweep_limits(a->sweep, hz) * conj(a->inverse[k]) / power;
    }
}

/* Returns the frame of the recording at t seconds of the take. */
static double frame_at(const struct sweep_analysis *a, const struct sweep_recording *r, double t)
{
    return (t - r->begins_s) * a->stretch * a->rate + (double)a->delay;
}

/* Finds the frames of the silence before a take in which no filter rings. Returns their number. */
static int64_t find_silence(const struct sweep_analysis *a, const struct sweep_recording *r, int64_t *first)
{
    double start = frame_at(a, r, sweep_start_s(a->sweep, 0));
    int64_t begin = (int64_t)(start - 0.95 * sweep_lead_s() * a->rate), end = (int64_t)start - a->guard;
    *first = begin > 0 ? begin : 0;
    if (end > r->n_frames) end = r->n_frames;
    return end - *first;
}

static double mean(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return n > 0 ? sum / (double)n : 0;
}

void sweep_section_bins(const struct sweep_analysis *a, const struct sweep_recording *r, int input, int section,
                        double complex *bins)
{
    size_t half = a->transform.size / 2;
    const float *x = r->channel[input];
    int64_t silence, n_silence = find_silence(a, r, &silence);
    double *real = (double *)bins, offset = mean(x + silence, n_silence); /* a converter's DC */
    double start = frame_at(a, r, sweep_start_s(a->sweep, section));
    int64_t first = (int64_t)floor(start) - a->guard;
    memset(bins, 0, (half + 1) * sizeof *bins);
    for (int64_t i = 0; i < a->n_section; i++)
        if (first + i >= 0 && first + i < r->n_frames) real[i] = (double)x[first + i] - offset;
    transform_forward(&a->transform, bins);
    double turn = 2 * M_PI * (start - floor(start)) / (double)a->transform.size;
    for (size_t k = 0; k <= half; k++) bins[k] *= a->inverse[k] * cexp(I * turn * (double)k);
}

double sweep_noise_power(const struct sweep_analysis *a, const struct sweep_recording *r, int input,
                         double complex *bins, double *power)
{
    const double min_s = 0.1, window_power = 3.0 / 8; /* power of a Hann window */
    size_t half = a->transform.size / 2;
    const float *x = r->channel[input];
    int64_t silence, n = find_silence(a, r, &silence);
    memset(bins, 0, (half + 1) * sizeof *bins);
    if ((double)n < min_s * a->rate) {
        for (size_t k = 0; k <= half; k++) power[k] = NAN;
        return NAN;
    }
    if (n > (int64_t)a->transform.size) n = (int64_t)a->transform.size; /* a short sweep has a short transform */
    double *real = (double *)bins, offset = mean(x + silence, n), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = (double)x[silence + i] - offset;
        sum += value * value;
        real[i] = value * (0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)n));
    }
    transform_forward(&a->transform, bins);
    for (size_t k = 0; k <= half; k++) power[k] = bin_power(bins[k] * a->inverse[k]) / (window_power * (double)n);
    return sqrt(sum / (double)n);
}

double sweep_band_power(const struct sweep_analysis *a, const double *powers, double hz)
{
    double unit = (double)a->rate / (double)a->transform.size, sum = 0;
    size_t first = (size_t)ceil(hz * exp2(-1.0 / 6) / unit), end = (size_t)floor(hz * exp2(1.0 / 6) / unit) + 1;
    if (end > a->transform.size / 2 + 1) end = a->transform.size / 2 + 1;
    for (size_t k = first; k < end; k++) sum += powers[k];
    return end > first ? sum / (double)(end - first) : 0;
}

int64_t sweep_direct(const struct sweep_analysis *a, const double *h, int64_t n, int64_t *peak)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(h[i]) > fabs(h[largest])) largest = i;
    int64_t at = largest > a->reach ? largest - a->reach : 0;
    while (fabs(h[at]) < 0.1 * fabs(h[largest])) at++;
    int64_t end = at + (int64_t)ceil(2 * a->rate / a->sweep->to_hz); /* the upper limit rings before the direct sound */
    for (int64_t i = at; i < n && i <= end; i++)
        if (fabs(h[i]) > fabs(h[at])) at = i;
    *peak = largest;
    return at;
}

/* ---- where the sweeps begin ------------------------------------------------------------------- */

/* Finds where the sweeps begin in a recording whose start is not known.
 *
 * The whole recording is divided by the sweep's spectrum, so that each section becomes a peak. The energy of blocks of
 * 10 ms forgets the shape of the peaks; at the delay, the blocks at the positions of all sections have the largest
 * sum. Square roots keep a loud output from outweighing the others.
 */

struct search {
    struct sweep_analysis whole; /* analysis for the longest recording  */
    double complex *bins;        /* [size / 2 + 1] of `whole`           */
    int block, n_blocks;
    double *energy; /* [n_blocks] of a recording           */
    double *score;  /* [n_delays], in blocks               */
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

/* Returns the largest energy of three blocks: clocks drift apart by a block in a minute. */
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

/* ---- clocks ----------------------------------------------------------------------------------- */

/* Measures by the sweeps how far the clocks of two sound cards drift apart, and whether frames were lost.
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

/* Returns the frame of the peak, which may be negative. scratch: [size / 2 + 1]. */
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

/* Returns the delay in frames by Newton's method on the phases, each weighted by its spectrum. */
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
    const double min_share = 0.5; /* share of the correlation of two equal responses */
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

/* ---- the other clock ---------------------------------------------------------------------------- */

enum { REACH = 256 /* frames on each side */, STEPS = 8192 /* in the table: linear interpolation is exact to 1e-7 */ };

/* Kaiser's window with beta 12 from its middle to its end; its Bessel function is a series. */
static void fill_window(double *table)
{
    for (int i = 0; i <= STEPS; i++) {
        double x = (double)i / STEPS, square = 36 * (1 - x * x), term = 1;
        table[i] = 1;
        for (int k = 1; k < 40; k++) table[i] += term *= square / ((double)k * k);
    }
    table[STEPS + 1] = 0;
}

void sweep_stretch(const double *x, size_t n_x, double first, double ratio, double *y, size_t n)
{
    const double min_fraction = 1e-6; /* makes an error of -110 dB */
    static double table[STEPS + 2];   /* too large for a stack; one thread measures */
    fill_window(table);
    for (size_t i = 0; i < n; i++) {
        double at = first + (double)i * ratio, whole = floor(at + min_fraction), fraction = at - whole, sum = 0;
        if (fabs(fraction) < min_fraction) { /* nearly always, if both sides have one clock */
            y[i] = whole >= 0 && whole < (double)n_x ? x[(size_t)whole] : 0;
            continue;
        }
        double sine = sin(M_PI * fraction) / M_PI;
        for (int k = 1 - REACH; k <= REACH; k++) {
            double from = whole + k, distance = fraction - k, position = fabs(distance) / REACH * STEPS;
            if (!(from >= 0 && from < (double)n_x && position <= STEPS)) continue;
            double sinc = fabs(distance) < 1e-9 ? 1 : sine * (k % 2 ? -1 : 1) / distance;
            int step = (int)position;
            double window = table[step] + (position - step) * (table[step + 1] - table[step]);
            sum += x[(size_t)from] * sinc * window;
        }
        y[i] = sum / table[0];
    }
}
