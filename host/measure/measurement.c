#include "measurement.h"

#include "host/message.h"
#include "sweep_analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- harmonics -------------------------------------------------------------------------------- */

/* The distortion of a system, from the responses of higher order before its linear response. */

struct harmonics_scratch {
    double complex *linear, *order; /* [size / 2 + 1] each */
};

/* Returns the powers [size / 2 + 1] of the spectrum of n frames of h from frame `first` on, which may be negative
 * because h is periodic. The first and the last tenth fade. The powers overwrite the bins. */
static const double *window_powers(const struct sweep_analysis *a, const double *h, int64_t first, int64_t n,
                                   double complex *bins)
{
    int64_t size = (int64_t)a->transform.size;
    double *real = (double *)bins, fade = 0.1 * (double)n;
    memset(bins, 0, (a->transform.size / 2 + 1) * sizeof *bins);
    for (int64_t i = 0; i < n; i++) {
        double edge = fmin((double)i, (double)(n - i)) / fade;
        double gain = edge < 1 ? 0.5 - 0.5 * cos(M_PI * edge) : 1;
        real[i] = gain * h[((first + i) % size + size) % size];
    }
    transform_forward(&a->transform, bins);
    for (size_t k = 0; k <= a->transform.size / 2; k++) real[k] = bin_power(bins[k]);
    return real;
}

/* Measures the distortion of one order. noise: noise of a frame. */
static void measure_order(const struct sweep_analysis *a, int order, const double *linear_powers,
                          const double *order_powers, const double *noise, struct harmonic *harmonic)
{
    const double edge = exp2(1.0 / 6), lowest = 1000.0 / 1024; /* Hz: octaves below 1000 */
    double linear_sum = 0, order_sum = 0, noise_sum = 0;
    *harmonic = (struct harmonic){0};
    for (int third = 0;; third++) {
        double hz = lowest * exp2(third / 3.0);
        if (hz * edge * order > a->sweep->to_hz) break;
        if (hz < a->sweep->from_hz * edge) continue;
        double linear = sweep_band_power(a, linear_powers, hz);
        double distorted = sweep_band_power(a, order_powers, order * hz);
        linear_sum += linear;
        order_sum += distorted;
        noise_sum += sweep_band_power(a, noise, order * hz);
        if (third % 3 != 0 || harmonic->n_octaves == MAX_OCTAVES) continue;
        harmonic->octave[harmonic->n_octaves].hz = hz;
        harmonic->octave[harmonic->n_octaves++].share = sqrt(distorted / linear);
    }
    harmonic->share = sqrt(order_sum / linear_sum); /* NAN: the band is too narrow for this order */
    harmonic->noise = sqrt(noise_sum / linear_sum);
}

/* Fills in harmonics[N_HARMONICS]. h: [size] of the transform, as sweep_section_bins lays it out; direct: the frame of
 * its direct sound; noise: power of the noise, as sweep_noise_power gives it, over the number of sections. */
static void harmonics_measure(const struct sweep_analysis *a, const double *h, int64_t direct, const double *noise,
                              struct harmonics_scratch *scratch, struct harmonic *harmonics)
{
    double growth = sweep_growth_s(a->sweep) * a->rate * a->stretch;
    int64_t n_linear = (int64_t)(a->rate * a->sweep->silence_s);
    const double *linear = window_powers(a, h, direct - a->reach, a->reach + n_linear, scratch->linear);
    for (int order = HARMONIC_FIRST; order <= HARMONIC_LAST; order++) {
        double at = (double)direct - growth * log(order);
        int64_t before = (int64_t)(0.25 * growth * log((order + 1.0) / order));
        int64_t behind = (int64_t)(0.75 * growth * log(order / (order - 1.0)));
        const double *powers = window_powers(a, h, (int64_t)at - before, before + behind, scratch->order);
        struct harmonic *harmonic = &harmonics[order - HARMONIC_FIRST];
        measure_order(a, order, linear, powers, noise, harmonic);
        harmonic->noise *= sqrt((double)(before + behind)); /* the noise of a frame, in the window */
    }
}

/* ---- the measurement -------------------------------------------------------------------------- */

static const double full_scale = 0.9999; /* the largest number of 16 bits is 0.99997 */
static const double max_drift = 1e-3;    /* difference of two clocks; a larger one means another sweep */
static const double max_error = 0.12;    /* max. distance of a sweep from the mean: 1 dB */

struct measurement_work {
    const struct measurement_settings *settings;
    const struct sweep_recording *recordings;
    struct measurement *m;
    struct sweep_analysis a;
    double complex *bins, *extra, *linear; /* [size / 2 + 1] each */
    double complex *inverse; /* [size / 2 + 1]: inverse of the loopback, without delay, and microphone; NULL: none */
    double *noise;           /* [size / 2 + 1] */
    int64_t reference;       /* frame of the time zero in the sections' responses */
    double origin;           /* the position of frame 0 of m->h in them */
};

/* ---- one pair ---------------------------------------------------------------------------------------------------- */

/* Computes the spectrum of a pair's response, the mean of its sections. power[size / 2 + 1]: the mean of their powers;
 * NULL: not wanted. */
static void average(struct measurement_work *k, int output, int input, double complex *bins, double *power)
{
    int n = k->settings->sweep->averages;
    size_t n_bins = k->a.transform.size / 2 + 1;
    memset(bins, 0, n_bins * sizeof *bins);
    if (power) memset(power, 0, n_bins * sizeof *power);
    for (int section = 0; section < n; section++) {
        sweep_section_bins(&k->a, &k->recordings[output], input, section, k->extra);
        for (size_t b = 0; b < n_bins; b++) bins[b] += k->extra[b] / n;
        for (size_t b = 0; power && b < n_bins; b++) power[b] += bin_power(k->extra[b]) / n;
    }
}

/* Returns the RMS before all measured harmonics, where h has only noise. h is a whole transform. */
static double rms_ahead(const struct sweep_analysis *a, const double *h)
{
    int64_t end = (int64_t)a->transform.size - (int64_t)(sweep_growth_s(a->sweep) * log(8) * a->rate);
    int64_t first = (int64_t)a->transform.size - (int64_t)(0.9 * a->sweep->length_s * a->rate);
    double sum = 0;
    for (int64_t i = first; i < end; i++) sum += h[i] * h[i];
    return end > first ? sqrt(sum / (double)(end - first)) : 0;
}

static int64_t find_direct(const struct sweep_analysis *a, const double *h, double *peak, bool *has_signal)
{
    const double min = 10; /* peak over RMS; that of noise alone is 5 */
    int64_t peak_frame, direct = sweep_direct(a, h, a->n_section, &peak_frame);
    *peak = fabs(h[peak_frame]);
    *has_signal = *peak > min * rms_ahead(a, h);
    return direct;
}

/* Removes the responses of the loopback and of the microphone by division. */
static void divide_by_inverse(const struct measurement_work *k, double complex *bins)
{
    for (size_t b = 0; k->inverse && b <= k->a.transform.size / 2; b++) bins[b] *= k->inverse[b];
}

static void measure_noise(struct measurement_work *k, int output, int input, struct measured_pair *pair)
{
    size_t half = k->a.transform.size / 2;
    double sum = 0;
    pair->silence_rms = sweep_noise_power(&k->a, &k->recordings[output], input, k->extra, k->noise);
    for (size_t b = 0; b <= half; b++) {
        k->noise[b] /= k->settings->sweep->averages;
        if (k->inverse) k->noise[b] *= bin_power(k->inverse[b]);
        sum += k->noise[b] * (b == 0 || b == half ? 1 : 2);
    }
    pair->noise_before = sqrt(sum / (double)k->a.transform.size);
}

/* Finds the band in which the sections differ most. bins: the mean of the sections; power[size / 2 + 1]: the mean of
 * their powers; mean: scratch, of the same length. */
static void compare_sections(const struct measurement_work *k, const double complex *bins, double *power, double *mean,
                             struct measured_pair *pair)
{
    const double min_share = 1e-3; /* share of the loudest band; below it a loudspeaker gives only noise */
    const double max_noise = 10;   /* times the noise of the silence, which is known from a few bins at 20 Hz */
    const struct sweep *s = k->settings->sweep;
    const int n_bands = (int)(3 * log2(s->to_hz * exp2(-1.0 / 6) / s->from_hz)) + 1; /* thirds of an octave */
    double loudest = 0, noise_frames = (double)(s->averages - 1) * k->a.n_section;   /* whose noise differs */
    bool is_compared = s->averages > 1 && !isnan(pair->silence_rms);
    pair->repeat_error = pair->repeat_hz = is_compared ? 0 : NAN;
    for (size_t b = 0; b <= k->a.transform.size / 2; b++) {
        double gain = k->inverse ? bin_power(k->inverse[b]) : 1;
        mean[b] = bin_power(bins[b]);
        power[b] = power[b] * gain - mean[b];
    }
    for (int i = 0; i < n_bands; i++)
        loudest = fmax(loudest, sweep_band_power(&k->a, mean, s->from_hz * exp2(i / 3.0)));
    for (int i = 0; i < n_bands && is_compared; i++) {
        double hz = s->from_hz * exp2(i / 3.0);
        double band = sweep_band_power(&k->a, mean, hz), variance = sweep_band_power(&k->a, power, hz);
        bool is_noise = variance < max_noise * noise_frames * sweep_band_power(&k->a, k->noise, hz);
        if (is_noise || !(band > min_share * loudest && sqrt(variance / band) > pair->repeat_error)) continue;
        pair->repeat_error = sqrt(variance / band);
        pair->repeat_hz = hz;
    }
}

/* Measures the noise at the end. h: the response in the player's frames, from the origin on. */
static void measure_tail(const struct measurement *m, const double *h, struct measured_pair *pair)
{
    int first = m->n_frames - (m->n_frames - m->reference_frame) / 10;
    double sum = 0;
    for (int i = first; i < m->n_frames; i++) sum += h[i] * h[i];
    pair->noise_tail = sqrt(sum / (m->n_frames - first));
}

static void measure_pair(struct measurement_work *k, int output, int input, double *h, struct measured_pair *pair)
{
    const struct sweep_analysis *a = &k->a;
    struct measurement *m = k->m;
    double *response = (double *)k->bins, *power = (double *)k->linear, *mean = power + a->transform.size / 2 + 1;
    average(k, output, input, k->bins, power);
    divide_by_inverse(k, k->bins);
    measure_noise(k, output, input, pair);
    compare_sections(k, k->bins, power, mean, pair);
    transform_inverse(&a->transform, k->bins);
    int64_t direct = find_direct(a, response, &pair->peak, &pair->has_signal);
    pair->direct_s = (double)(direct - k->reference) / a->rate / a->stretch;
    harmonics_measure(a, response, direct, k->noise, &(struct harmonics_scratch){k->linear, k->extra}, pair->harmonics);
    /* The harmonics lie before the direct sound. */
    for (int64_t i = 0; i < direct - a->reach; i++) response[i] = 0;
    sweep_stretch(response, (size_t)a->n_section, k->origin, a->stretch, h, (size_t)m->n_frames);
    for (int i = 0; i < m->n_frames; i++) h[i] *= a->stretch;
    measure_tail(m, h, pair);
}

/* ---- set-up for all pairs ---------------------------------------------------------------------------------------- */

static void measure_inputs(struct measurement_work *k)
{
    for (int o = 0; o < k->settings->sweep->n_outputs; o++) {
        const struct sweep_recording *r = &k->recordings[o];
        if (o > 0 && r->channel == k->recordings[o - 1].channel) continue; /* the same file */
        for (int i = 0; i < k->settings->n_inputs; i++) {
            struct measured_input *input = &k->m->inputs[i];
            for (int64_t n = 0; n < r->n_frames; n++) {
                double value = fabs((double)r->channel[i][n]);
                if (value > input->peak) input->peak = value;
                input->n_clipped += value >= full_scale;
            }
        }
    }
}

/* Returns the loudest input, by its peak; not the loopback, which may receive one output only. */
static int loudest_input(const struct measurement_work *k)
{
    int loopback = k->settings->loopback - 1, best = loopback == 0 ? 1 : 0;
    for (int i = 0; i < k->settings->n_inputs; i++)
        if (i != loopback && k->m->inputs[i].peak > k->m->inputs[best].peak) best = i;
    return best;
}

static bool measurement_no_memory(char *why, size_t cap)
{
    return message_write(why, cap, "measure: no memory for a sweep of this length; use a shorter one");
}

static bool find_clock(struct measurement_work *k, char *why, size_t cap)
{
    double drift;
    for (int step = 0; step < 2; step++) { /* the second step measures the remaining difference */
        if (!sweep_find_clock(&k->a, k->recordings, k->settings->n_inputs, &drift))
            return measurement_no_memory(why, cap);
        k->m->drift = drift;
        if (isnan(drift)) return true;
        if (fabs(drift) > max_drift)
            return message_write(why, cap,
                                 "the recording does not fit the sweep: it repeats after %.4f s, not %.4f s; give "
                                 "--sweep the file that was played, and record without a gap",
                                 sweep_section_s(k->a.sweep) * (1 + drift), sweep_section_s(k->a.sweep));
        sweep_analysis_set_clock(&k->a, 1 + drift);
    }
    return true;
}

/* Computes the response of an output to the loopback in k->bins; returns its peak. */
static double loopback_response(struct measurement_work *k, int output, int64_t *direct, bool *has_signal)
{
    double peak;
    average(k, output, k->settings->loopback - 1, k->bins, NULL);
    transform_inverse(&k->a.transform, k->bins);
    *direct = find_direct(&k->a, (const double *)k->bins, &peak, has_signal);
    return peak;
}

/* Inverts the loopback of the output that is strongest there. Its delay stays, so that no response is shifted. */
static bool find_loopback(struct measurement_work *k, char *why, size_t cap)
{
    const double min_share = 1e-10; /* share of the largest power */
    const struct transform *t = &k->a.transform;
    int best = 0;
    double best_peak = 0, largest = 0;
    bool has_signal;
    for (int o = 0; o < k->settings->sweep->n_outputs; o++) {
        double peak = loopback_response(k, o, &k->reference, &has_signal);
        if (has_signal && peak > best_peak) best = o;
        if (has_signal) best_peak = fmax(best_peak, peak);
    }
    if (!(best_peak > 0))
        return message_write(why, cap, "--loopback %d: no sweep arrives at this input; connect an output with it",
                             k->settings->loopback);
    loopback_response(k, best, &k->reference, &has_signal);
    double *h = (double *)k->bins;
    for (int64_t i = 0; i < k->reference - k->a.reach; i++) h[i] = 0;
    memset(h + k->a.n_section, 0, (t->size - (size_t)k->a.n_section) * sizeof *h);
    transform_forward(t, k->bins);
    k->inverse = malloc((t->size / 2 + 1) * sizeof *k->inverse);
    if (!k->inverse) return measurement_no_memory(why, cap);
    for (size_t b = 0; b <= t->size / 2; b++) largest = fmax(largest, bin_power(k->bins[b]));
    for (size_t b = 0; b <= t->size / 2; b++) {
        double hz = (double)b * k->a.rate * k->a.stretch / (double)t->size;
        double complex delay = cexp(-2 * M_PI * I * fmod((double)b * (double)k->reference / (double)t->size, 1));
        k->inverse[b] =
            delay * sweep_limits(k->a.sweep, hz) * conj(k->bins[b]) / (bin_power(k->bins[b]) + min_share * largest);
    }
    return true;
}

static bool find_microphone(struct measurement_work *k, char *why, size_t cap)
{
    size_t n_bins = k->a.transform.size / 2 + 1;
    calibration_invert(&k->settings->calibration, &k->a.transform, k->a.rate * k->a.stretch, k->extra);
    if (k->inverse) {
        for (size_t b = 0; b < n_bins; b++) k->inverse[b] *= k->extra[b];
        return true;
    }
    k->inverse = malloc(n_bins * sizeof *k->inverse);
    if (!k->inverse) return measurement_no_memory(why, cap);
    memcpy(k->inverse, k->extra, n_bins * sizeof *k->inverse);
    return true;
}

/* The time zero is the direct sound of the first pair with a signal, if there is no loopback. */
static void find_reference(struct measurement_work *k)
{
    double peak;
    bool has_signal = false;
    for (int pair = 0; !has_signal && pair < k->m->n_outputs * k->m->n_inputs; pair++) {
        average(k, pair / k->m->n_inputs, pair % k->m->n_inputs, k->bins, NULL);
        divide_by_inverse(k, k->bins);
        transform_inverse(&k->a.transform, k->bins);
        k->reference = find_direct(&k->a, (const double *)k->bins, &peak, &has_signal);
    }
}

/* Chooses the frames of the responses. */
static bool choose_frames(struct measurement_work *k, char *why, size_t cap)
{
    const double before_s = 50 / k->a.sweep->to_hz; /* the upper limit of the band rings for so long */
    struct measurement *m = k->m;
    bool keep = k->settings->keep_latency;
    m->latency_s = (double)(k->reference - k->a.guard + k->a.delay) / k->a.rate / k->a.stretch;
    if (keep && m->latency_s < 0)
        return message_write(why, cap,
                             "--latency keep: the recording begins %.3f s after the sweep; use --latency remove",
                             -m->latency_s);
    m->reference_frame = (int)(keep ? round(m->latency_s * k->a.rate) : ceil(before_s * k->a.rate));
    k->origin = keep ? (double)(k->a.guard - k->a.delay) : (double)k->reference - m->reference_frame * k->a.stretch;
    m->n_frames = m->reference_frame + (int)ceil(k->a.sweep->silence_s * k->a.rate);
    m->h = malloc((size_t)m->n_outputs * (size_t)m->n_inputs * (size_t)m->n_frames * sizeof *m->h);
    return m->h || measurement_no_memory(why, cap);
}

/* ---- the measurement --------------------------------------------------------------------------------------------- */

static bool check_signals(const struct measurement *m, char *why, size_t cap)
{
    for (int o = 0; o < m->n_outputs; o++) {
        bool has_signal = false;
        for (int i = 0; i < m->n_inputs; i++) has_signal |= m->pairs[o * m->n_inputs + i].has_signal;
        if (!has_signal)
            return message_write(why, cap,
                                 "no input recorded the sweep of output %d; check cables and levels, and whether this "
                                 "sweep was played",
                                 o + 1);
    }
    return true;
}

/* A shift in time means lost frames: an error. Other differences get a warning. */
static bool check_gap(struct measurement_work *k, int output, int input, const struct measured_pair *pair, char *why,
                      size_t cap)
{
    double shift_s;
    double complex *const scratch[2] = {k->bins, k->extra};
    for (int section = 1; measurement_differs(pair) && section < k->settings->sweep->averages; section++)
        if (sweep_find_shift(&k->a, &k->recordings[output], input, section, pair->repeat_hz, scratch, &shift_s))
            return message_write(why, cap,
                                 "the recording has a gap: sweep %d of output %d is shifted by %.1f ms around %.0f Hz; "
                                 "record again without a gap",
                                 section + 1, output + 1, 1000 * shift_s, pair->repeat_hz);
    return true;
}

static bool measure_pairs(struct measurement_work *k, char *why, size_t cap)
{
    struct measurement *m = k->m;
    for (int o = 0; o < m->n_outputs; o++)
        for (int i = 0; i < m->n_inputs; i++) {
            bool skip = k->settings->loopback > 0 && i >= k->settings->loopback - 1;
            int pair = o * m->n_inputs + i;
            measure_pair(k, o, i + skip, m->h + (size_t)pair * (size_t)m->n_frames, &m->pairs[pair]);
            if (!check_gap(k, o, i + skip, &m->pairs[pair], why, cap)) return false;
        }
    return true;
}

static bool make_pairs(struct measurement_work *k, char *why, size_t cap)
{
    const struct measurement_settings *s = k->settings;
    size_t n_bins = k->a.transform.size / 2 + 1;
    k->bins = malloc(n_bins * sizeof *k->bins);
    k->extra = malloc(n_bins * sizeof *k->extra);
    k->linear = malloc(n_bins * sizeof *k->linear);
    k->noise = malloc(n_bins * sizeof *k->noise);
    if (!k->m->pairs || !k->m->inputs || !k->bins || !k->extra || !k->linear || !k->noise)
        return measurement_no_memory(why, cap);
    measure_inputs(k);
    if (!sweep_find_delay(&k->a, k->recordings, loudest_input(k))) return measurement_no_memory(why, cap);
    if (!find_clock(k, why, cap)) return false;
    if (s->loopback && !find_loopback(k, why, cap)) return false;
    if (s->calibration.path && !find_microphone(k, why, cap)) return false;
    if (!s->loopback) find_reference(k);
    if (!choose_frames(k, why, cap)) return false;
    return measure_pairs(k, why, cap) && check_signals(k->m, why, cap);
}

bool measurement_make(const struct measurement_settings *s, const struct sweep_recording *recordings,
                      struct measurement *m, char *why, size_t cap)
{
    struct measurement_work k = {.settings = s, .recordings = recordings, .m = m};
    *m = (struct measurement){
        .rate = s->rate, .n_outputs = s->sweep->n_outputs, .n_inputs = s->n_inputs - (s->loopback > 0), .drift = NAN};
    m->pairs = calloc((size_t)m->n_outputs * (size_t)m->n_inputs, sizeof *m->pairs);
    m->inputs = calloc((size_t)s->n_inputs, sizeof *m->inputs);
    if (!sweep_analysis_open(&k.a, s->sweep, s->rate, 0)) return measurement_no_memory(why, cap);
    bool good = make_pairs(&k, why, cap);
    free(k.bins);
    free(k.extra);
    free(k.linear);
    free(k.noise);
    free(k.inverse);
    sweep_analysis_close(&k.a);
    return good;
}

void measurement_free(struct measurement *m)
{
    free(m->h);
    free(m->pairs);
    free(m->inputs);
    *m = (struct measurement){0};
}

bool measurement_differs(const struct measured_pair *pair)
{
    return pair->has_signal && pair->repeat_error > max_error;
}

double measurement_noise(const struct measured_pair *pair)
{
    return pair->noise_tail / pair->peak;
}
