/* haloconv mask decay - changes the decay time of a mask, broadband or by octaves.
 *
 *   h  -->  band of each octave, of linear phase; all bands add up to h  -->  times an exponential  -->  sum
 *
 *   weight   1 ----.    .--.    .---     of the bands over the logarithm of the frequency: between two octaves half a
 *                   \  /    \  /         cosine from one band to the other
 *            0       ''      ''
 */
#include "dsp/base/number.h"
#include "dsp/signal/hann.h"
#include "dsp/signal/transform.h"
#include "dsp/signal/acoustics.h"
#include "mask_operation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_octaves(const struct option_use *use, void *to)
{
    struct mask_settings *s = to;
    const char *at = use->text;
    memset(s->octave_to_s, 0, sizeof s->octave_to_s);
    for (s->n_octaves = 0;; at++) {
        double hz, seconds = 0;
        const char *end = number_read(at, 0, INFINITY, &hz);
        end = end && *end == ':' ? number_read(end + 1, 1e-3, 600, &seconds) : NULL;
        int i = 0;
        while (i < OCTAVES && octave_hz[i] != hz) i++;
        if (!end || i == OCTAVES || s->octave_to_s[i] > 0 || (*end && *end != ',')) break;
        s->octave_to_s[i] = seconds;
        s->n_octaves++;
        at = end;
        if (!*at) return true;
    }
    return option_refuse(use, "needs octaves from 63 to 8000 Hz and seconds, such as 125:1.8,1000:1.2,8000:0.6");
}

static int check_decay(const struct mask_settings *s)
{
    if ((s->to_s > 0) != (s->n_octaves > 0)) return -1;
    return message_usage("mask decay", "needs one of --to SECONDS (the new decay time) and --octaves, not both");
}

/* ---- the present decay times -------------------------------------------------------------------- */

/* Sums of decay times over channels; index OCTAVES: the whole band. */
struct times {
    double sum[OCTAVES + 1];
    int n[OCTAVES + 1];
    char reason[ACOUSTIC_REASON]; /* why a decay time is absent */
};

static void add_time(struct times *times, int i, const struct acoustic_band *band)
{
    double t30 = band->value[ACOUSTIC_T30], seconds = isnan(t30) ? band->value[ACOUSTIC_T20] : t30;
    if (isnan(seconds)) {
        memcpy(times->reason, band->reason[ACOUSTIC_T30], sizeof times->reason);
        return;
    }
    times->sum[i] += seconds;
    times->n[i]++;
}

/* Computes the mean T30 (or T20) over the channels that have it, by given octave; index OCTAVES: the whole band. */
static bool find_times(struct mask_job *job, double *from_s)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    struct acoustics *a = malloc(sizeof *a);
    struct times times = {.reason = "the mask is not the response of a room, or the octave is above half the rate"};
    bool good = a != NULL;
    for (int ch = 0; good && ch < mask->n_channels; ch++) {
        good = acoustics_find(a, mask->channel[ch], mask->n_frames, job->out.rate, s->n_octaves > 0);
        if (!good) break;
        add_time(&times, OCTAVES, &a->all);
        for (int i = 0; i < a->n_octaves; i++) add_time(&times, i, &a->octave[i]);
    }
    free(a);
    if (!good) return mask_job_no_memory(job);
    for (int i = 0; i <= OCTAVES; i++) {
        bool is_used = i == OCTAVES ? s->n_octaves == 0 : s->octave_to_s[i] > 0;
        char band[32] = "";
        if (i < OCTAVES) snprintf(band, sizeof band, " at %d Hz", octave_hz[i]);
        if (is_used && times.n[i] == 0)
            return MASK_REFUSE(job, "%s: its decay time%s is not known: %s; give it with --from", s->names.list[0],
                               band, times.reason);
        if (times.n[i]) from_s[i] = times.sum[i] / times.n[i];
    }
    return true;
}

/* ---- the change --------------------------------------------------------------------------------- */

/* Multiplies h[n], from the onset on, by the exponential that changes the decay time from `from` to `to` seconds. */
static void decay_shape(double *h, int n, int onset, double a_frame)
{
    for (int i = onset; i < n; i++) h[i] *= exp(a_frame * (i - onset));
}

static double exponent(const struct mask_job *job, double from_s, double to_s)
{
    return log(1e-3) * (1 / to_s - 1 / from_s) / job->out.rate;
}

/* Computes the exponents of all octaves: as given, linear between given octaves, constant beyond. */
static void fill_exponents(const struct mask_job *job, const double *from_s, double *a_frame)
{
    const double *to_s = job->settings->octave_to_s;
    for (int i = 0; i < OCTAVES; i++)
        if (to_s[i] > 0) a_frame[i] = exponent(job, from_s[i], to_s[i]);
    for (int i = 0; i < OCTAVES; i++) {
        int below = i, above = i;
        while (below >= 0 && !(to_s[below] > 0)) below--;
        while (above < OCTAVES && !(to_s[above] > 0)) above++;
        if (below == i) continue;
        double share = below < 0 ? 1 : above == OCTAVES ? 0 : (double)(i - below) / (above - below);
        a_frame[i] = (share > 0 ? share * a_frame[above] : 0) + (share < 1 ? (1 - share) * a_frame[below] : 0);
    }
}

/* Returns the weight of the band of octave i at a frequency. */
static double weight(int i, double hz)
{
    int other = hz < octave_hz[i] ? i - 1 : i + 1;
    if (other < 0 || other >= OCTAVES) return 1;
    double share = hz > 0 ? log(hz / octave_hz[i]) / log((double)octave_hz[other] / octave_hz[i]) : 1;
    return hann_rise(1 - share);
}

/* Computes y, the sum of the bands of channel ch, each multiplied by its exponential. */
static bool shape_octaves(const struct mask_job *job, int ch, int onset, const double *from_s)
{
    const hc_responses *mask = &job->masks[0];
    struct transform t;
    double *y = mask_job_result(job, ch), a_frame[OCTAVES];
    if (!transform_open(&t, transform_size(2 * (size_t)mask->n_frames))) return false;
    double complex *bins = malloc((t.size / 2 + 1) * sizeof *bins), *band = malloc((t.size / 2 + 1) * sizeof *band);
    bool good = bins && band;
    if (good) transform_response_float(&t, mask->channel[ch], (size_t)mask->n_frames, bins);
    memset(y, 0, (size_t)mask->n_frames * sizeof *y);
    fill_exponents(job, from_s, a_frame);
    for (int i = 0; good && i < OCTAVES; i++) {
        double *h = (double *)band;
        for (size_t k = 0; k <= t.size / 2; k++)
            band[k] = bins[k] * weight(i, (double)k / (double)t.size * job->out.rate);
        transform_inverse(&t, band);
        decay_shape(h, mask->n_frames, onset, a_frame[i]);
        for (int frame = 0; frame < mask->n_frames; frame++) y[frame] += h[frame];
    }
    free(band);
    free(bins);
    transform_close(&t);
    return good;
}

/* Records the times, and by how much the end becomes louder. */
static void note_times(struct mask_job *job, int onset, const double *from_s)
{
    const struct mask_settings *s = job->settings;
    double max = s->n_octaves ? -INFINITY : exponent(job, from_s[OCTAVES], s->to_s);
    for (int i = 0; i < OCTAVES; i++)
        if (s->octave_to_s[i] > 0) max = fmax(max, exponent(job, from_s[i], s->octave_to_s[i]));
    if (!s->n_octaves) mask_job_note(job, "from", "decay time %.3f s before", from_s[OCTAVES]);
    if (!s->n_octaves) mask_job_note(job, "to", "%.3f s now", s->to_s);
    double end_db = 20 / M_LN10 * max * (job->masks[0].n_frames - 1 - onset);
    if (end_db > 0) mask_job_note(job, "end_db", "the end, with its noise, raised by %.1f dB", end_db);
}

static bool decay(struct mask_job *job)
{
    const struct mask_settings *s = job->settings;
    const hc_responses *mask = &job->masks[0];
    double from_s[OCTAVES + 1];
    for (int i = 0; i <= OCTAVES; i++) from_s[i] = s->from_s;
    if (!(s->from_s > 0) && !find_times(job, from_s)) return false;
    if (!mask_job_copy(job, mask->n_frames, 0)) return false;
    int onset = acoustics_start(mask->channel, mask->n_channels, mask->n_frames);
    for (int ch = 0; ch < mask->n_channels; ch++) {
        if (!s->n_octaves)
            decay_shape(mask_job_result(job, ch), mask->n_frames, onset, exponent(job, from_s[OCTAVES], s->to_s));
        else if (!shape_octaves(job, ch, onset, from_s))
            return mask_job_no_memory(job);
    }
    note_times(job, onset, from_s);
    return true;
}

static const struct option_row decay_options[] = {
    {"to", 0, "SECONDS", "The new decay time T60", option_number, OPTION_TO(struct mask_settings, to_s), .min = 1e-3,
     .max = 600},
    {"octaves", 0, "HZ:SECONDS,...",
     "The new decay times of octaves, 63 to 8000 Hz; the change of other octaves is interpolated", read_octaves,
     .to = 0},
    {"from", 0, "SECONDS", "The present decay time [T30 or T20 as in info, the mean of the channels]", option_number,
     OPTION_TO(struct mask_settings, from_s), .min = 1e-3, .max = 600},
    {0}};

const struct mask_operation mask_decay = {
    .line =
        MASK_LINE("decay", "MASK",
                  "Changes the decay time of a mask, of the whole band or by octaves: multiplies it by an exponential "
                  "from the direct sound on.",
                  "  haloconv mask decay hall.wav --to 1.2 -o drier.wav\n"
                  "  haloconv mask decay hall.wav --octaves 125:2.4,1000:1.8,8000:0.9 -o warm.wav",
                  decay_options, "one MASK", 1, 1),
    .summary = "change the decay time, also by octaves",
    .check = check_decay,
    .apply = decay};
