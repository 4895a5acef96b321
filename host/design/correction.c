#include "correction.h"

#include "correction_curve.h"
#include "dsp/signal/smoothing.h"
#include "dsp/signal/transform.h"
#include "host/message.h"
#include "fir_design.h"
#include "measured_response.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHORTEST_MS 10 /* min. length after the direct sound: a shorter one shows nothing below 100 Hz */
#define LONGEST_S 30 /* no room rings longer; a longer file may be the recording of a sweep, and needs a GB of memory */
#define MIN_GAIN 1e-5 /* smallest gain of a filter of minimum phase, relative to the largest */

/* Levels in 1/6 octave means, at points from 20 Hz to 20 kHz (band_point_hz). */
enum { LEVEL_POINTS = 10 * BAND_PER_OCTAVE };

struct level_curve {
    double before_db[LEVEL_POINTS], after_db[LEVEL_POINTS]; /* levels as measured, and behind the filter */
};

struct correction_work {
    const struct correction_settings *settings;
    const struct correction_response *responses; /* [n_positions][n_channels] */
    int n_positions, n_channels;
    int *direct; /* [n_positions][n_channels]: the frames of the direct sounds */
    struct transform transform;
    double complex *bins, *scratch;  /* [size / 2 + 1] */
    double complex *sum, *whole_sum; /* [size / 2 + 1]: sums of the windowed and of the whole responses, at one level */
    double *windowed, *whole;        /* [size / 2 + 1]: mean powers of the positions, at one level */
    double *smoothed, *octaves;      /* [size / 2 + 1]; octaves: widths of smoothing */
    double level_db;                 /* level of the channel: the mean of its positions */
    struct level_curve *levels;      /* [n_channels] */
    double complex *microphone;      /* [size / 2 + 1]: the inverse of its response; NULL: no calibration */
};

/* ---- the positions ------------------------------------------------------------------------------ */

/* Checks a response, and writes the frame of its direct sound. */
static bool response_check(const struct correction_settings *s, const struct correction_response *r, int *direct,
                           char *why, size_t cap)
{
    if (r->n_frames / s->rate >= LONGEST_S)
        return message_write(why, cap, "%s: lasts %d s; give an impulse response shorter than %d s", r->name,
                             r->n_frames / s->rate, LONGEST_S);
    *direct = direct_sound_find(r->h, r->n_frames, s->rate);
    double ms = 1e3 * (r->n_frames - *direct) / s->rate;
    if (*direct < 0)
        return message_write(why, cap, "%s: channel %d is silent; measure again with more level", r->name, r->channel);
    if (ms < SHORTEST_MS)
        return message_write(why, cap,
                             "%s: channel %d ends %.3g ms after the direct sound; record at least %d ms, and 500 ms to "
                             "correct the bass",
                             r->name, r->channel, ms, SHORTEST_MS);
    return true;
}

static size_t n_bins(const struct correction_work *w)
{
    return w->transform.size / 2 + 1;
}

static struct response_curve curve_of(const struct correction_work *w, const double *power)
{
    return (struct response_curve){power, n_bins(w), (double)w->settings->rate / (double)w->transform.size};
}

static struct correction_band find_band(const struct correction_work *w, const double *power)
{
    smooth_octaves(power, w->smoothed, n_bins(w), 1.0 / 3);
    struct response_curve curve = curve_of(w, w->smoothed);
    return band_find(&curve);
}

/* Computes the spectrum of a response, without the microphone's, in w->bins. */
static void find_spectrum(struct correction_work *w, const struct correction_response *r, int direct, double cycles)
{
    measured_response(&w->transform, r->h, r->n_frames, direct, w->settings->rate, cycles, w->bins, w->scratch);
    for (size_t k = 0; w->microphone && k < n_bins(w); k++) w->bins[k] *= w->microphone[k];
}

/* Adds a position, with its level as measured by the windowed response. */
static void correction_add_position(struct correction_work *w, const struct correction_response *r, int direct)
{
    find_spectrum(w, r, direct, w->settings->cycles);
    double *power = w->octaves; /* free until the smoothing */
    for (size_t k = 0; k < n_bins(w); k++) power[k] = bin_power(w->bins[k]);
    double level_db = find_band(w, power).level_db, scale = pow(10, -level_db / 20);
    double polarity = r->h[direct] < 0 ? -1 : 1, share = scale * scale / w->n_positions;
    w->level_db += level_db / w->n_positions;
    for (size_t k = 0; k < n_bins(w); k++) {
        w->sum[k] += polarity * scale / w->n_positions * w->bins[k];
        w->windowed[k] += share * power[k];
    }
    find_spectrum(w, r, direct, 0);
    for (size_t k = 0; k < n_bins(w); k++) {
        w->whole_sum[k] += polarity * scale / w->n_positions * w->bins[k];
        w->whole[k] += share * bin_power(w->bins[k]);
    }
}

static void add_positions(struct correction_work *w, int ch)
{
    size_t n = n_bins(w);
    memset(w->sum, 0, n * sizeof *w->sum);
    memset(w->whole_sum, 0, n * sizeof *w->whole_sum);
    memset(w->windowed, 0, n * sizeof *w->windowed);
    memset(w->whole, 0, n * sizeof *w->whole);
    w->level_db = 0;
    for (int i = ch; i < w->n_positions * w->n_channels; i += w->n_channels)
        correction_add_position(w, &w->responses[i], w->direct[i]);
    if (!w->settings->complex_average) return;
    for (size_t k = 0; k < n; k++) {
        w->windowed[k] = bin_power(w->sum[k]);
        w->whole[k] = bin_power(w->whole_sum[k]);
    }
}

static double variable_octaves(double hz)
{
    double up_to_1k = log(fmin(fmax(hz, 100), 1000) / 100) / log(10), above = log10(fmin(fmax(hz, 1000), 10000)) - 3;
    return 1.0 / 48 * pow(8, up_to_1k) * pow(2, above);
}

/* w->windowed -> w->smoothed */
static void smooth_windowed(struct correction_work *w)
{
    double octaves = w->settings->octaves, hz = (double)w->settings->rate / (double)w->transform.size;
    for (size_t k = 0; k < n_bins(w); k++)
        w->octaves[k] = octaves == CORRECTION_VARIABLE ? variable_octaves((double)k * hz) : octaves;
    smooth_octaves_varying(w->windowed, w->smoothed, n_bins(w), w->octaves);
}

static void fill_gain(const struct correction_work *w, const struct correction_curve *c, double *gain)
{
    for (size_t k = 0; k < n_bins(w); k++)
        gain[k] = pow(10, correction_curve_db(c, (double)k * c->response.bin_hz) / 20);
}

/* Scales the smoothed response such that it has as much energy as the whole response in each 1/6 octave, with both
 * corrected. The window and the smoothing then decide about the fine structure, and the whole response about the level:
 * a target is a curve of the whole response in the room. The last rounds change 0.1 dB. */
static void match_whole(struct correction_work *w, struct correction_curve *c, double *gain)
{
    enum { ROUNDS = 12 };
    size_t n = n_bins(w);
    double *product = (double *)w->bins, *whole = (double *)w->scratch, *smoothed = whole + n;
    for (size_t k = 0; k < n; k++) {
        w->octaves[k] = fmax(w->octaves[k], 1.0 / 6);
        gain[k] = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t k = 0; k < n; k++) product[k] = w->whole[k] * gain[k] * gain[k];
        smooth_octaves_varying(product, whole, n, w->octaves);
        for (size_t k = 0; k < n; k++) product[k] = w->smoothed[k] * gain[k] * gain[k];
        smooth_octaves_varying(product, smoothed, n, w->octaves);
        for (size_t k = 0; k < n; k++) product[k] = smoothed[k] > 0 ? whole[k] / smoothed[k] : 1;
        smooth_octaves_varying(product, whole, n, w->octaves); /* twice smoothed: no detail grows from round to round */
        for (size_t k = 0; k < n; k++) w->smoothed[k] *= whole[k];
        correction_curve_open(c);
        fill_gain(w, c, gain);
    }
}

/* ---- the filter --------------------------------------------------------------------------------- */

static double channel_delay(const struct correction_settings *s)
{
    if (s->phase == CORRECTION_LINEAR) return (s->taps - 1) / 2.0;
    return s->phase == CORRECTION_MIXED ? rint(s->preringing_ms * 1e-3 * s->rate) : 0;
}

/* gain[n_bins] -> h[taps] */
static void filter(struct correction_work *w, const double *gain, double *h)
{
    const struct correction_settings *s = w->settings;
    const struct transform *t = &w->transform;
    int delay = (int)channel_delay(s), fade_in = 0, fade_out = s->taps / 4;
    for (size_t k = 0; k < n_bins(w); k++) w->bins[k] = gain[k];
    switch (s->phase) {
    case CORRECTION_LINEAR:
        transform_delay(t, w->bins, channel_delay(s));
        fade_in = fade_out;
        break;
    case CORRECTION_MINIMUM:
        magnitude_minimum_phase(t, MIN_GAIN, w->bins);
        break;
    case CORRECTION_MIXED:
        excess_phase_reverse(t, w->sum, delay, s->rate, w->scratch);
        excess_phase_apply(t, w->sum, delay, w->bins);
        fade_in = delay / 8;
        break;
    }
    magnitude_taps(t, w->bins, s->taps, h);
    taps_fade_in(h, fade_in);
    taps_fade_out(h + s->taps - fade_out, fade_out);
}

/* ---- the figures -------------------------------------------------------------------------------- */

static double db_of(double power)
{
    return 10 * log10(fmax(power, 1e-40));
}

/* Writes the levels at all points to db. smoothed: as correction_curve_deviation writes it. */
static void fill_levels(const struct correction_work *w, const double *smoothed, double *db)
{
    struct response_curve curve = curve_of(w, smoothed);
    for (int i = 0; i < LEVEL_POINTS; i++)
        db[i] = w->level_db + response_curve_db(&curve, band_point_hz(CORRECTION_LOW_HZ, i));
}

static void fill_curve_target(const struct correction_curve *c, double *power)
{
    for (size_t k = 0; k < c->response.n_bins; k++) {
        double hz = (double)k * c->response.bin_hz;
        bool inside = k > 0 && hz >= c->band.low_hz && hz <= c->band.high_hz;
        power[k] = inside ? pow(10, correction_curve_target_db(c, hz) / 10) : 0;
    }
}

/* Computes the figures of a channel. curves: [CORRECTION_CURVES][n_bins], or NULL. */
static void figures(struct correction_work *w, const struct correction_curve *c, const double *h,
                    struct level_curve *levels, struct correction_channel *out, double *curves)
{
    const size_t bytes = n_bins(w) * sizeof *curves;
    double low, high, min = INFINITY, max = 0, max_anywhere = 0, *scratch = (double *)w->scratch;
    *out = (struct correction_channel){.low_hz = c->band.low_hz,
                                       .high_hz = c->band.high_hz,
                                       .low_is_found = c->band.low_is_found,
                                       .high_is_found = c->band.high_is_found,
                                       .before = correction_curve_deviation(c, w->whole, scratch)};
    fill_levels(w, scratch, levels->before_db);
    if (curves) memcpy(curves + CORRECTION_MEASURED * n_bins(w), scratch, bytes);
    if (curves) fill_curve_target(c, curves + CORRECTION_TARGET * n_bins(w));
    int n = band_points(&c->band, &low);
    high = band_point_hz(low, n - 1);
    transform_response(&w->transform, h, (size_t)w->settings->taps, w->bins);
    for (size_t k = 0; k < n_bins(w); k++) {
        double power = bin_power(w->bins[k]), hz = (double)k * c->response.bin_hz;
        bool inside = hz >= low && hz <= high;
        max_anywhere = fmax(max_anywhere, power);
        if (inside) max = fmax(max, power);
        if (inside) min = fmin(min, power);
        w->whole[k] *= power;
    }
    out->after = correction_curve_deviation(c, w->whole, scratch);
    fill_levels(w, scratch, levels->after_db);
    if (curves) memcpy(curves + CORRECTION_CORRECTED * n_bins(w), scratch, bytes);
    out->boost_db = fmax(db_of(max), 0);
    out->cut_db = fmax(-db_of(min), 0);
    out->largest_gain_db = db_of(max_anywhere);
}

/* ---- a channel ---------------------------------------------------------------------------------- */

static void fill_channel(struct correction_work *w, int ch, double *h, struct correction_channel *out, double *curves)
{
    const struct correction_settings *s = w->settings;
    struct correction_curve c = {.settings = s, .response = curve_of(w, w->smoothed)};
    add_positions(w, ch);
    c.band = find_band(w, w->windowed);
    if (s->low_hz > 0) c.band.low_hz = s->low_hz, c.band.low_is_found = false;
    if (s->high_hz > 0) c.band.high_hz = s->high_hz, c.band.high_is_found = false;
    smooth_windowed(w);
    double *gain = w->windowed; /* free after the smoothing */
    match_whole(w, &c, gain);
    filter(w, gain, h);
    figures(w, &c, h, &w->levels[ch], out, curves);
}

/* ---- levels and arrivals of several channels --------------------------------------------------- */

/* The mean of a level curve over the octaves of a band. */
static double mean_level_db(const double *db, const double *band_hz)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < LEVEL_POINTS; i++) {
        double hz = band_point_hz(CORRECTION_LOW_HZ, i);
        if (hz < band_hz[0] || hz > band_hz[1]) continue;
        sum += db[i];
        n++;
    }
    return sum / n; /* NAN: the band is empty */
}

static void find_shared_band(struct correction *c)
{
    double low = CORRECTION_LOW_HZ, high = CORRECTION_HIGH_HZ;
    for (int ch = 0; ch < c->n_channels; ch++) {
        low = fmax(low, c->channel[ch].low_hz);
        high = fmin(high, c->channel[ch].high_hz);
    }
    bool is_shared = c->n_channels > 1 && high >= 2 * low;
    c->shared_hz[0] = is_shared ? low : 0;
    c->shared_hz[1] = is_shared ? high : 0;
}

/* Scales the filter, the curve of its target and the curve of the corrected response. */
static void scale_channel(struct correction *c, int ch, double gain)
{
    double *h = c->h + (size_t)ch * (size_t)c->n_frames;
    for (int i = 0; i < c->n_frames; i++) h[i] *= gain;
    double *curves = c->curves ? c->curves + (size_t)ch * CORRECTION_CURVES * c->n_bins : NULL;
    for (size_t k = 0; curves && k < c->n_bins; k++) {
        curves[CORRECTION_TARGET * c->n_bins + k] *= gain * gain;
        curves[CORRECTION_CORRECTED * c->n_bins + k] *= gain * gain;
    }
}

/* No channel is raised: the largest gain_db is 0. */
static void match_levels(struct correction *c, const struct correction_work *w)
{
    double largest_db = -INFINITY, first_db = NAN, first_after_db = NAN;
    find_shared_band(c);
    for (int ch = 0; ch < c->n_channels; ch++) {
        struct correction_channel *channel = &c->channel[ch];
        channel->level_db = mean_level_db(w->levels[ch].before_db, c->shared_hz);
        channel->level_after_db = mean_level_db(w->levels[ch].after_db, c->shared_hz);
        double wanted_db = w->settings->levels == CORRECTION_ALIGN ? 0 : channel->level_db;
        bool is_matched = w->settings->levels != CORRECTION_EACH && c->shared_hz[1] > 0;
        channel->gain_db = is_matched ? wanted_db - channel->level_after_db : 0;
        largest_db = fmax(largest_db, channel->gain_db);
    }
    for (int ch = 0; ch < c->n_channels; ch++) {
        struct correction_channel *channel = &c->channel[ch];
        channel->gain_db -= largest_db;
        channel->level_after_db += channel->gain_db;
        channel->largest_gain_db += channel->gain_db;
        if (ch == 0) first_db = channel->level_db, first_after_db = channel->level_after_db;
        channel->level_db -= first_db;
        channel->level_after_db -= first_after_db;
        if (channel->gain_db != 0) scale_channel(c, ch, pow(10, channel->gain_db / 20));
    }
}

static void find_arrivals(struct correction *c, const struct correction_work *w)
{
    double last_s = 0, rate = w->settings->rate;
    for (int ch = 0; ch < c->n_channels; ch++) {
        double frames = 0;
        for (int i = 0; i < w->n_positions * w->n_channels; i += w->n_channels)
            frames +=
                w->direct[i + ch] - w->direct[i] + (w->responses[i + ch].start_s - w->responses[i].start_s) * rate;
        c->channel[ch].arrival_s = frames / w->n_positions / rate;
        last_s = fmax(last_s, c->channel[ch].arrival_s);
    }
    for (int ch = 0; ch < c->n_channels && w->settings->delays == CORRECTION_DELAYS_ALIGN; ch++)
        c->channel[ch].delay_frames = (int)lround((last_s - c->channel[ch].arrival_s) * rate);
}

/* Delays the filters by their delay_frames. false: no memory. */
static bool delay_channels(struct correction *c)
{
    int longest = 0;
    for (int ch = 0; ch < c->n_channels; ch++)
        if (c->channel[ch].delay_frames > longest) longest = c->channel[ch].delay_frames;
    if (longest == 0) return true;
    size_t taps = (size_t)c->n_frames, n = taps + (size_t)longest;
    double *h = calloc((size_t)c->n_channels * n, sizeof *h);
    if (!h) return false;
    for (int ch = 0; ch < c->n_channels; ch++)
        memcpy(h + (size_t)ch * n + c->channel[ch].delay_frames, c->h + (size_t)ch * taps, taps * sizeof *h);
    free(c->h);
    c->h = h;
    c->n_frames = (int)n;
    return true;
}

/* ---- all channels ------------------------------------------------------------------------------- */

static void level_normalise(struct correction *c, bool normalise)
{
    c->largest_gain_db = -INFINITY;
    for (int ch = 0; ch < c->n_channels; ch++)
        c->largest_gain_db = fmax(c->largest_gain_db, c->channel[ch].largest_gain_db);
    if (!normalise) return;
    for (int ch = 0; ch < c->n_channels; ch++) scale_channel(c, ch, pow(10, -c->largest_gain_db / 20));
}

static bool work_open(struct correction_work *w)
{
    size_t size = magnitude_fir_size(w->settings->taps, w->settings->rate);
    for (int i = 0; i < w->n_positions * w->n_channels; i++) {
        size_t whole = transform_size((size_t)w->responses[i].n_frames + (size_t)w->settings->taps);
        if (whole > size) size = whole;
    }
    if (!transform_open(&w->transform, size)) return false;
    size_t n = n_bins(w);
    w->bins = malloc(n * sizeof *w->bins);
    w->scratch = malloc(n * sizeof *w->scratch);
    w->sum = malloc(n * sizeof *w->sum);
    w->whole_sum = malloc(n * sizeof *w->whole_sum);
    w->windowed = malloc(n * sizeof *w->windowed);
    w->whole = malloc(n * sizeof *w->whole);
    w->smoothed = malloc(n * sizeof *w->smoothed);
    w->octaves = malloc(n * sizeof *w->octaves);
    w->levels = malloc((size_t)w->n_channels * sizeof *w->levels);
    if (w->settings->calibration.path) {
        w->microphone = malloc(n * sizeof *w->microphone);
        if (!w->microphone) return false;
        calibration_invert(&w->settings->calibration, &w->transform, w->settings->rate, w->microphone);
    }
    return w->bins && w->scratch && w->sum && w->whole_sum && w->windowed && w->whole && w->smoothed && w->octaves &&
           w->levels;
}

static void work_close(struct correction_work *w)
{
    free(w->bins);
    free(w->scratch);
    free(w->sum);
    free(w->whole_sum);
    free(w->windowed);
    free(w->whole);
    free(w->smoothed);
    free(w->octaves);
    free(w->levels);
    free(w->microphone);
    free(w->direct);
    transform_close(&w->transform);
}

bool correction_make(struct correction *c, const struct correction_settings *s,
                     const struct correction_response *responses, int n_positions, int n_channels, char *why,
                     size_t cap)
{
    struct correction_work w = {
        .settings = s, .responses = responses, .n_positions = n_positions, .n_channels = n_channels};
    *c = (struct correction){.n_channels = n_channels, .n_frames = s->taps};
    w.direct = malloc((size_t)n_positions * (size_t)n_channels * sizeof *w.direct);
    for (int i = 0; w.direct && i < n_positions * n_channels; i++)
        if (!response_check(s, &responses[i], &w.direct[i], why, cap)) {
            free(w.direct);
            return false;
        }
    c->delay = channel_delay(s);
    c->h = calloc((size_t)c->n_channels * (size_t)s->taps, sizeof *c->h);
    c->channel = calloc((size_t)c->n_channels, sizeof *c->channel);
    bool good = w.direct && c->h && c->channel && work_open(&w);
    if (good && s->with_curves) {
        c->n_bins = n_bins(&w);
        c->curves = malloc((size_t)c->n_channels * CORRECTION_CURVES * c->n_bins * sizeof *c->curves);
        good = c->curves != NULL;
    }
    for (int ch = 0; good && ch < c->n_channels; ch++)
        fill_channel(&w, ch, c->h + (size_t)ch * (size_t)s->taps, &c->channel[ch],
                     c->curves ? c->curves + (size_t)ch * CORRECTION_CURVES * c->n_bins : NULL);
    if (good) {
        match_levels(c, &w);
        find_arrivals(c, &w);
        good = delay_channels(c);
    }
    work_close(&w);
    if (!good) {
        correction_free(c);
        return message_write(why, cap, "%s: no memory for the correction; use fewer taps", responses[0].name);
    }
    level_normalise(c, s->normalise);
    return true;
}

void correction_free(struct correction *c)
{
    free(c->h);
    free(c->channel);
    free(c->curves);
    *c = (struct correction){0};
}
