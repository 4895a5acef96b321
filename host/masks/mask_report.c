#include "mask_report.h"

#include "dsp/signal/acoustics.h"
#include "headroom.h"
#include "host/files/mask_diagnostics.h"
#include "host/json_print.h"
#include "host/message.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- acoustics -------------------------------------------------------------------------------- */

/* The acoustics of a response, as text and as JSON. */

/* The columns of the table and of the broadband line. */
static const struct column {
    enum acoustic_figure figure;
    const char *name, *unit;
    double scale;
    int digits;
    bool is_signed;
    int width; /* a row has 79 characters */
} columns[] = {{ACOUSTIC_EDT, "EDT", " s", 1, 2, false, 6},       {ACOUSTIC_T20, "T20", " s", 1, 2, false, 6},
               {ACOUSTIC_T30, "T30", " s", 1, 2, false, 6},       {ACOUSTIC_C50, "C50", " dB", 1, 1, true, 6},
               {ACOUSTIC_C80, "C80", " dB", 1, 1, true, 6},       {ACOUSTIC_D50, "D50", " %", 100, 0, false, 4},
               {ACOUSTIC_TS, "Ts", " ms", 1000, 0, false, 6},     {ACOUSTIC_DRR, "DRR", " dB", 1, 1, true, 6},
               {ACOUSTIC_NOISE_DB, "noise", " dB", 1, 1, true, 6}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void write_value(const struct acoustic_band *band, const struct column *column, char text[16])
{
    double value = band->value[column->figure] * column->scale;
    if (isnan(value))
        snprintf(text, 16, "-");
    else
        snprintf(text, 16, column->is_signed ? "%+.*f" : "%.*f", column->digits, value);
}

static void print_table(const struct acoustics *a)
{
    char text[16];
    printf("  %-16s", "octave");
    for (int i = 0; i < COLUMNS; i++) printf(" %*s", columns[i].width, columns[i].name);
    printf("\n  %-16s", "");
    for (int i = 0; i < COLUMNS; i++) printf(" %*s", columns[i].width, columns[i].unit + 1);
    putchar('\n');
    for (int band = 0; band < a->n_octaves; band++) {
        printf("  %13d Hz", a->octave[band].hz);
        if (a->octave[band].is_outside) printf("   outside the band: %.0f dB", a->octave[band].level_db);
        for (int i = 0; i < COLUMNS && !a->octave[band].is_outside; i++) {
            write_value(&a->octave[band], &columns[i], text);
            printf(" %*s", columns[i].width, text);
        }
        putchar('\n');
    }
}

static void print_broadband(const struct acoustic_band *all)
{
    char text[16];
    const char *between = " ";
    printf("  %-16s", "acoustics");
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].figure == ACOUSTIC_T30 || columns[i].figure == ACOUSTIC_NOISE_DB) continue;
        write_value(all, &columns[i], text);
        printf("%s%s %s%s", between, columns[i].name, text, *text == '-' && !text[1] ? "" : columns[i].unit);
        between = ", ";
    }
    printf("\n  %-16s ", "noise floor");
    if (isnan(all->value[ACOUSTIC_NOISE_DBFS]))
        printf("none: %s\n", all->reason[ACOUSTIC_NOISE_DBFS]);
    else
        printf("%.1f dBFS, %.1f dB below the peak; the decay meets it after %.3f s\n", all->value[ACOUSTIC_NOISE_DBFS],
               -all->value[ACOUSTIC_NOISE_DB], all->value[ACOUSTIC_NOISE_TIME]);
}

/* Prints T30 or why it is absent; for a room also the other figures, and a table by octave. */
static void acoustics_report_print(const struct acoustics *a)
{
    if (isnan(a->all.value[ACOUSTIC_T30]))
        printf("  %-16s none: %s\n", "decay time T30", a->all.reason[ACOUSTIC_T30]);
    else
        printf("  %-16s %.3f s\n", "decay time T30", a->all.value[ACOUSTIC_T30]);
    if (a->n_octaves == 0) return;
    print_broadband(&a->all);
    print_table(a);
}

static json_t *band_json(const struct acoustic_band *band)
{
    json_t *object = json_object(), *reasons = json_object();
    json_object_set_new(object, "hz", json_known(band->hz));
    for (int i = 0; i < ACOUSTIC_FIGURES; i++) {
        json_object_set_new(object, acoustic_names[i], json_number(band->value[i]));
        if (isnan(band->value[i])) json_object_set_new(reasons, acoustic_names[i], json_string(band->reason[i]));
    }
    json_object_set_new(object, "reasons", reasons);
    return object;
}

/* Makes an object that the caller owns; NULL: no memory. rate: Hz, 0 = unknown. */
static json_t *acoustics_report_json(const struct acoustics *a, int rate)
{
    json_t *octaves = json_array(), *object = band_json(&a->all);
    for (int i = 0; i < a->n_octaves; i++) {
        json_t *octave = band_json(&a->octave[i]);
        json_object_set_new(octave, "level_db", json_number(a->octave[i].level_db));
        json_object_set_new(octave, "outside_band", json_boolean(a->octave[i].is_outside));
        json_array_append_new(octaves, octave);
    }
    json_object_del(object, "hz");
    json_object_set_new(object, "start_frame", json_integer(a->start));
    json_object_set_new(object, "start_s", json_number(rate ? (double)a->start / rate : NAN));
    json_object_set_new(object, "octave", octaves);
    return object;
}

/* ---- the report ------------------------------------------------------------------------------- */

static void find_levels(const float *h, int n, struct mask_figures *f)
{
    double energy = 0;
    for (int i = 0; i < n; i++) {
        double size = fabs((double)h[i]);
        if (size > f->peak) {
            f->peak = size;
            f->peak_frame = i;
        }
        f->l1 += size;
        f->dc_gain += h[i];
        energy += size * size;
    }
    f->rms = sqrt(energy / n);
    while (f->leading_silence < n && fabs((double)h[f->leading_silence]) < f->peak * 1e-3) f->leading_silence++;
}

/* Returns the largest of the samples and of the three points between two of them, by a sinc with a Hann window. At a
 * quarter of the rate it is at most 0.2 dB below the peak of the waveform, as any at 4 times the rate. */
static double find_true_peak(const float *h, int n, double peak)
{
    enum { POINTS = 4, HALF = 8 };
    for (int point = 1; point < POINTS; point++) {
        double taps[2 * HALF]; /* of the samples from HALF - 1 before to HALF behind */
        for (int k = 0; k < 2 * HALF; k++) {
            double t = M_PI * (k - HALF + 1 - (double)point / POINTS);
            taps[k] = sin(t) / t * (0.5 + 0.5 * cos(t / HALF));
        }
        for (int first = 1 - 2 * HALF; first < n; first++) {
            double sum = 0;
            int end = n - first < 2 * HALF ? n - first : 2 * HALF;
            for (int k = first < 0 ? -first : 0; k < end; k++) sum += taps[k] * (double)h[first + k];
            peak = fmax(peak, fabs(sum));
        }
    }
    return peak;
}

/* Computes the figures, zeroed before, of a finite h[n_frames]. rate: Hz, 0 = unknown. false: no memory. */
static bool find_figures(const float *h, int n_frames, int rate, struct mask_figures *f)
{
    find_levels(h, n_frames, f);
    f->true_peak = find_true_peak(h, n_frames, f->peak);
    return sine_gain_find(&(struct sine_gain_part){h, n_frames, 1}, 1, &f->response) &&
           acoustics_find(&f->acoustics, h, n_frames, rate, true);
}

bool mask_report_make(struct mask_report *report)
{
    enum { TRUE_STEREO = 4 };
    const hc_responses *mask = report->mask;
    report->figures = calloc((size_t)mask->n_channels, sizeof *report->figures);
    if (!report->figures) return false;
    for (int ch = 0; ch < mask->n_channels; ch++) {
        if (!find_figures(mask->channel[ch], mask->n_frames, mask->rate, &report->figures[ch])) return false;
        if (report->figures[ch].response.gain > report->figures[report->loudest].response.gain) report->loudest = ch;
    }
    if (mask->n_channels != TRUE_STEREO) return true;
    hc_route routes[TRUE_STEREO];
    struct sine_gain outputs[2];
    for (int ch = 0; ch < TRUE_STEREO; ch++)
        routes[ch] =
            (hc_route){.in = ch / 2, .out = ch % 2, .taps = mask->channel[ch], .n_taps = mask->n_frames, .gain = 1};
    if (!headroom_find(routes, TRUE_STEREO, 2, outputs)) return false;
    report->true_stereo = outputs[outputs[1].gain > outputs[0].gain];
    return true;
}

void mask_report_free(struct mask_report *report)
{
    free(report->figures);
}

/* ---- as JSON ---------------------------------------------------------------------------------------------------- */

static json_t *channel_json(const struct mask_figures *f, int rate)
{
    double t30_s = f->acoustics.all.value[ACOUSTIC_T30];
    return json_pack("{s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "peak", json_number(f->peak), "peak_db", json_db(f->peak), "true_peak", json_number(f->true_peak),
                     "true_peak_db", json_db(f->true_peak), "peak_frame", f->peak_frame, "peak_s",
                     json_number(rate ? (double)f->peak_frame / rate : NAN), "rms", json_number(f->rms), "rms_db",
                     json_db(f->rms), "leading_silence", f->leading_silence, "t30_s", json_number(t30_s), "t30_reason",
                     isnan(t30_s) ? json_string(f->acoustics.all.reason[ACOUSTIC_T30]) : json_null(), "dc_gain",
                     json_number(f->dc_gain), "dc_gain_db", json_db(fabs(f->dc_gain)), "l1", json_number(f->l1),
                     "l1_db", json_db(f->l1), "response_peak", json_number(f->response.gain), "response_peak_db",
                     json_db(f->response.gain), "response_peak_hz",
                     json_number(rate ? f->response.frequency * rate : NAN), "acoustics",
                     acoustics_report_json(&f->acoustics, rate));
}

json_t *mask_report_json(const struct mask_report *report)
{
    const hc_responses *mask = report->mask;
    const struct sine_gain *true_stereo = &report->true_stereo;
    json_t *channels = json_array();
    double l1 = 0, largest = report->figures[report->loudest].response.gain;
    for (int ch = 0; ch < mask->n_channels; ch++) {
        json_array_append_new(channels, channel_json(&report->figures[ch], mask->rate));
        l1 = fmax(l1, report->figures[ch].l1);
    }
    double seconds = mask->rate ? (double)mask->n_frames / mask->rate : NAN;
    return json_pack("{s:o, s:s, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "file",
                     json_text(report->path), "format", report->format, "channels", mask->n_channels, "rate",
                     json_known(mask->rate), "file_rate", json_known(mask->file_rate), "frames", mask->n_frames,
                     "seconds", json_number(seconds), "start_s", json_number(mask->start), "largest_gain_db",
                     json_db(l1), "largest_response_db", json_db(largest), "suggested_gain_db",
                     headroom_gain_db(largest), "true_stereo",
                     true_stereo->gain > 0 ? headroom_json(true_stereo, mask->rate) : json_null(), "channel", channels,
                     "diagnostics", mask_diagnostics_json(mask));
}

/* ---- as text ---------------------------------------------------------------------------------------------------- */

static void print_frames(const char *name, int frames, int rate)
{
    printf("  %-16s %d frame%s", name, frames, message_s(frames));
    if (rate) printf(" (%.2f ms)", 1000.0 * frames / rate);
    putchar('\n');
}

static void print_channel(int ch, const struct mask_figures *f, int rate)
{
    printf("channel %d\n", ch + 1);
    printf("  %-16s %s\n", "peak", message_db(db_of_gain(f->peak), 2, "dBFS").text);
    printf("  %-16s %s\n", "true peak", message_db(db_of_gain(f->true_peak), 2, "dBTP").text);
    print_frames("peak after", f->peak_frame, rate);
    printf("  %-16s %s\n", "RMS", message_db(db_of_gain(f->rms), 2, "dBFS").text);
    print_frames("leading silence", f->leading_silence, rate);
    printf("  %-16s %s at 0 Hz", "gain", message_gain(db_of_gain(fabs(f->dc_gain)), 2).text);
    if (rate)
        printf(", at most %s for a sine (%.0f Hz)", message_gain(db_of_gain(f->response.gain), 2).text,
               f->response.frequency * rate);
    else
        printf(", at most %s for a sine", message_gain(db_of_gain(f->response.gain), 2).text);
    printf(", at most %s for any signal (L1)\n", message_gain(db_of_gain(f->l1), 2).text);
    acoustics_report_print(&f->acoustics);
}

void mask_report_print(const struct mask_report *report)
{
    const hc_responses *mask = report->mask;
    char where[32];
    printf("%s: %d channel%s, ", report->path, mask->n_channels, message_s(mask->n_channels));
    if (mask->rate)
        printf("%d Hz, %d frame%s (%.3f s), ", mask->rate, mask->n_frames, message_s(mask->n_frames),
               (double)mask->n_frames / mask->rate);
    else
        printf("%d frame%s, ", mask->n_frames, message_s(mask->n_frames));
    printf("%s\n", report->format);
    if (mask->file_rate != 0 && mask->file_rate != mask->rate) printf("resampled from %d Hz\n", mask->file_rate);
    if (mask->start != 0)
        printf("t = 0 at frame %.2f (%.3f ms), as the file says\n", -mask->start * mask->rate, -1e3 * mask->start);
    for (int ch = 0; ch < mask->n_channels; ch++) print_channel(ch, &report->figures[ch], mask->rate);
    snprintf(where, sizeof where, "channel %d", report->loudest + 1);
    headroom_print(&report->figures[report->loudest].response, mask->rate, where);
    headroom_print(&report->true_stereo, mask->rate, "true stereo, both inputs");
}
