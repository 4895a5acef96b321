#include "measure_report.h"

#include "host/json_print.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>

/* Returns the user's number of an input: the loopback is not among the measured inputs. */
static int input_number(const struct measurement_settings *s, int input)
{
    return input + 1 + (s->loopback > 0 && input + 1 >= s->loopback);
}

static bool is_faint(const struct harmonic *harmonic)
{
    return !(harmonic->share >= 2 * harmonic->noise); /* NAN: the noise is not known */
}

/* Returns the distortion of all orders. with_noise: includes orders that are mostly noise. */
static double total_distortion(const struct measured_pair *pair, bool with_noise)
{
    double sum = 0;
    for (int i = 0; i < N_HARMONICS; i++) {
        const struct harmonic *harmonic = &pair->harmonics[i];
        if (harmonic->n_octaves > 0 && (with_noise || !is_faint(harmonic))) sum += harmonic->share * harmonic->share;
    }
    return pair->harmonics[0].n_octaves > 0 ? sqrt(sum) : NAN;
}

static double repeat_db(const struct measured_pair *pair)
{
    return db_of_gain(1 + pair->repeat_error);
}

/* ---- warnings ---------------------------------------------------------------------------------------------------- */

static void warn_input(const struct measured_input *input, int number)
{
    const double loud = db_of_gain(input->peak) + 1, quiet = -50 - db_of_gain(input->peak);
    if (input->n_clipped > 0)
        message_note("warning: input %d: %lld sample%s clipped; lower its gain by 6 dB and measure again", number,
                     (long long)input->n_clipped, message_s(input->n_clipped));
    else if (loud > 0)
        message_note("warning: input %d is too loud: its peak is %s; lower its gain by %.0f dB", number,
                     message_db(db_of_gain(input->peak), 1, "dBFS").text, ceil(loud + 5));
    else if (quiet > 0)
        message_note("warning: input %d is too quiet: its peak is %.1f dBFS; raise its gain or --level by %.0f dB",
                     number, db_of_gain(input->peak), ceil(quiet + 20));
}

static void warn_pair(const struct measured_pair *pair, int output, int input)
{
    const double min_range_db = 40, rise_db = 6;
    const double max_distortion = 0.03;
    double range = -db_of_gain(measurement_noise(pair)), before = -db_of_gain(pair->noise_before / pair->peak);
    double distortion = total_distortion(pair, false);
    if (!pair->has_signal)
        message_note("warning: output %d is not heard by input %d; its response is noise", output, input);
    else if (range < min_range_db && before > range + rise_db)
        message_note("warning: output %d, input %d: the response has not decayed at its end; use a longer --silence",
                     output, input);
    else if (range < min_range_db)
        message_note(
            "warning: output %d, input %d: the response is only %.0f dB above the noise; raise --level, or use a "
            "longer --length or more --averages",
            output, input, range);
    if (measurement_differs(pair))
        message_note(
            "warning: output %d, input %d: the sweeps differ by %.1f dB from their average around %.0f Hz; keep "
            "the room quiet and still, look for gaps in the recording, and measure again",
            output, input, repeat_db(pair), pair->repeat_hz);
    if (pair->has_signal && distortion > max_distortion)
        message_note("warning: output %d, input %d: the distortion is %.3g %%; lower --level, and look for a limiter "
                     "or an input that clips below full scale",
                     output, input, 100 * distortion);
}

void measure_report_warn(const struct measurement_settings *s, const struct measurement *m)
{
    const double max_drift = 200e-6; /* two crystals are off by 100 ppm each */
    const double min_early_s = 1e-3; /* the direct sound of a device without latency is exact to a frame */
    if (m->latency_s < -min_early_s)
        message_note("warning: the recording starts %.1f ms after the sweep was started, or has a gap; start the "
                     "recording first",
                     -1000 * m->latency_s);
    if (fabs(m->drift) > max_drift)
        message_note(
            "warning: the clocks of player and recorder differ by %.0f ppm, which is too much for sound cards; "
            "look for a gap between the sweeps in the recording",
            1e6 * m->drift);
    for (int i = 0; i < s->n_inputs; i++) warn_input(&m->inputs[i], i + 1);
    for (int o = 0; o < m->n_outputs; o++)
        for (int i = 0; i < m->n_inputs; i++) warn_pair(&m->pairs[o * m->n_inputs + i], o + 1, input_number(s, i));
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *harmonic_json(const struct harmonic *harmonic, int order)
{
    json_t *octaves = json_array();
    for (int i = 0; i < harmonic->n_octaves; i++)
        json_array_append_new(octaves, json_pack("{s:o, s:o, s:o}", "hz", json_number(harmonic->octave[i].hz), "db",
                                                 json_db(harmonic->octave[i].share), "percent",
                                                 json_number(100 * harmonic->octave[i].share)));
    bool is_known = harmonic->n_octaves > 0;
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "order", order, "db",
                     json_number(is_known ? db_of_gain(harmonic->share) : NAN), "percent",
                     json_number(is_known ? 100 * harmonic->share : NAN), "noise_db",
                     json_number(is_known ? db_of_gain(harmonic->noise) : NAN), "octaves", octaves);
}

static json_t *pair_json(const struct measurement_settings *s, const struct measurement *m, int output, int input)
{
    const struct measured_pair *pair = &m->pairs[output * m->n_inputs + input];
    json_t *harmonics = json_array();
    double known = pair->has_signal ? 1 : NAN; /* figures of a response that is only noise are null */
    for (int i = 0; pair->has_signal && i < N_HARMONICS; i++)
        json_array_append_new(harmonics, harmonic_json(&pair->harmonics[i], HARMONIC_FIRST + i));
    return json_pack("{s:i, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "channel",
                     output * m->n_inputs + input + 1, "output", output + 1, "input", input_number(s, input), "heard",
                     pair->has_signal, "direct_s", json_number(known * pair->direct_s), "peak_db", json_db(pair->peak),
                     "silence_dbfs", json_db(pair->silence_rms), "noise_before_db",
                     json_db(pair->noise_before / pair->peak), "noise_floor_db", json_db(measurement_noise(pair)),
                     "dynamic_range_db", json_number(known * -db_of_gain(measurement_noise(pair))), "distortion_db",
                     json_number(known * db_of_gain(total_distortion(pair, true))), "distortion_percent",
                     json_number(known * 100 * total_distortion(pair, true)), "repeat_error_db",
                     json_number(known * repeat_db(pair)), "repeat_error_hz",
                     json_number(pair->repeat_error > 0 ? known * pair->repeat_hz : NAN), "harmonics", harmonics);
}

static json_t *inputs_json(const struct measurement_settings *s, const struct measurement *m)
{
    json_t *inputs = json_array();
    for (int i = 0; i < s->n_inputs; i++)
        json_array_append_new(inputs, json_pack("{s:i, s:b, s:o, s:I}", "input", i + 1, "loopback",
                                                i + 1 == s->loopback, "peak_dbfs", json_db(m->inputs[i].peak),
                                                "clipped", (json_int_t)m->inputs[i].n_clipped));
    return inputs;
}

int measure_report_json(const struct measurement_settings *s, const struct measurement *m, const char *path)
{
    const struct sweep *w = s->sweep;
    json_t *pairs = json_array();
    for (int o = 0; o < m->n_outputs; o++)
        for (int i = 0; i < m->n_inputs; i++) json_array_append_new(pairs, pair_json(s, m, o, i));
    json_t *sweep = json_pack("{s:o, s:o, s:o, s:o, s:i, s:o}", "from_hz", json_number(w->from_hz), "to_hz",
                              json_number(w->to_hz), "length_s", json_number(w->length_s), "silence_s",
                              json_number(w->silence_s), "averages", w->averages, "level_db", json_db(w->level));
    json_t *all =
        json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "file", json_text(path), "rate",
                  m->rate, "frames", m->n_frames, "outputs", m->n_outputs, "inputs", m->n_inputs, "reference_frame",
                  m->reference_frame, "latency_s", json_number(m->latency_s), "clock_ppm", json_number(1e6 * m->drift),
                  "latency", s->keep_latency ? "keep" : "remove", "sweep", sweep, "calibration",
                  calibration_json(&s->calibration), "recorded", inputs_json(s, m), "pairs", pairs);
    return json_print(all, 9, path);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_harmonics(const struct measured_pair *pair)
{
    printf("  %-18s", "distortion");
    for (int i = 0; i < N_HARMONICS; i++)
        if (pair->harmonics[i].n_octaves > 0)
            printf("%s%d. order %.3g %% (%.1f dB%s)", i > 0 ? ", " : "", HARMONIC_FIRST + i,
                   100 * pair->harmonics[i].share, db_of_gain(pair->harmonics[i].share),
                   isnan(pair->harmonics[i].noise) ? ", noise not measured"
                   : is_faint(&pair->harmonics[i]) ? ", noise"
                                                   : "");
    putchar('\n');
}

static void print_pair(const struct measurement_settings *s, const struct measurement *m, int output, int input)
{
    const struct measured_pair *pair = &m->pairs[output * m->n_inputs + input];
    printf("channel %d: output %d, input %d%s\n", output * m->n_inputs + input + 1, output + 1, input_number(s, input),
           pair->has_signal ? "" : ": not heard");
    if (!pair->has_signal) return;
    printf("  %-18s %.3f ms after the reference\n", "direct sound", 1000 * pair->direct_s);
    printf("  %-18s %s\n", "peak", message_db(db_of_gain(pair->peak), 1, "dB").text);
    if (isnan(pair->silence_rms))
        printf("  %-18s not measured; there is too little silence before the sweep\n", "noise");
    else if (pair->silence_rms > 0)
        printf("  %-18s %.1f dBFS in the silence before the sweep\n", "noise", db_of_gain(pair->silence_rms));
    else
        printf("  %-18s none in the silence before the sweep\n", "noise");
    printf("  %-18s %.1f dB from the peak to the noise floor\n", "dynamic range", -db_of_gain(measurement_noise(pair)));
    if (pair->repeat_error > 0)
        printf("  %-18s %.2f dB from their average, around %.0f Hz\n", "sweeps", repeat_db(pair), pair->repeat_hz);
    else if (pair->repeat_error == 0)
        printf("  %-18s alike, within the noise\n", "sweeps");
    else
        printf("  %-18s not compared; %s\n", "sweeps",
               isnan(pair->silence_rms) ? "there is too little silence before the sweep"
                                        : "needs --averages 2 or more");
    print_harmonics(pair);
}

void measure_report_print(const struct measurement_settings *s, const struct measurement *m, const char *path)
{
    int n = m->n_outputs * m->n_inputs;
    printf("%s: %d response%s, %d Hz, %d frames (%.3f s), flat from %g to %g Hz\n", path, n, message_s(n), m->rate,
           m->n_frames, (double)m->n_frames / m->rate, s->sweep->from_hz, s->sweep->to_hz);
    printf("  %-18s frame %d; %.3f ms after the play\n", "reference", m->reference_frame, 1000 * m->latency_s);
    if (isnan(m->drift))
        printf("  %-18s not measured; it needs --averages 2 or more\n", "clock difference");
    else
        printf("  %-18s %s, corrected\n", "clock difference", message_signed(1e6 * m->drift, 3, "ppm").text);
    if (s->calibration.path) {
        printf("  %-18s %s", "calibration", s->calibration.path);
        if (!isnan(s->calibration.curve.sensitivity_db))
            printf(", sensitivity %g dB", s->calibration.curve.sensitivity_db);
        putchar('\n');
    }
    for (int i = 0; i < s->n_inputs; i++)
        printf("  input %-12d peak %s, %lld clipped sample%s%s\n", i + 1,
               message_db(db_of_gain(m->inputs[i].peak), 1, "dBFS").text, (long long)m->inputs[i].n_clipped,
               message_s(m->inputs[i].n_clipped), i + 1 == s->loopback ? ", the loopback" : "");
    for (int o = 0; o < m->n_outputs; o++)
        for (int i = 0; i < m->n_inputs; i++) print_pair(s, m, o, i);
}
