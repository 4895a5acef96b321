/* haloconv measure - measures impulse responses with sweeps. */
#include "dsp/haloconv_masks.h"
#include "host/commands.h"
#include "host/files/file_convolution.h"
#include "host/files/sound_format.h"
#include "host/mask_argument.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "host/plot/plot_masks.h"
#include "measure_report.h"
#include "measure_run.h"
#include "sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the file of a sweep ---------------------------------------------------------------------- */

/* The sound file of a sweep, a channel for each output, whose comment describes the sweep. */

enum { BLOCK = 1 << 14 };

/* Fills planar[n_outputs][BLOCK] with n frames of the file from frame `first` on: takes on one channel after the
 * other. */
static void fill_block(const struct sweep *s, int rate, int64_t first, float *planar, int n)
{
    for (int o = 0; o < s->n_outputs; o++)
        sweep_fill(s, rate, first - llround(o * sweep_take_s(s) * rate), planar + (size_t)o * BLOCK, n);
}

static int64_t file_frames(const struct sweep *s, int rate)
{
    return llround(s->n_outputs * sweep_take_s(s) * rate);
}

static bool write_takes(const struct sweep *s, struct sound_out *out, char *why, size_t cap)
{
    struct file_writer writer = {.out = out, .gain = 1};
    float *planar = malloc((size_t)s->n_outputs * BLOCK * sizeof *planar);
    if (!planar) return message_write(why, cap, "%s: no memory; free some memory", out->path);
    bool good = true;
    for (int64_t first = 0; good && first < out->n_frames; first += BLOCK) {
        int n = out->n_frames - first < BLOCK ? (int)(out->n_frames - first) : BLOCK;
        fill_block(s, out->rate, first, planar, n);
        good = file_write(&writer, FILE_NEXT, planar, BLOCK, n, why, cap);
    }
    free(planar);
    return good;
}

/* Returns the correlation of a sweep with its samples in a format: rounding adds the noise step^2 / 12. */
static double find_min_likeness(int format, double level)
{
    const double min = 0.95;
    int bytes = sound_format_bytes(format), bits = bytes ? 8 * bytes : sound_format_bits(format);
    double step = exp2(1 - bits), noise = step * step / 12, signal = level * level / 2;
    return sound_format_is_lossy_float(format) ? min : fmax(min, 0.999 / sqrt(1 + noise / signal));
}

/* Compares the samples with the sweep, up to the format's error. is_unfit: NULL, or this run wrote the file;
 * it becomes true if the format cannot keep the sweep. memory: [2][n_outputs][BLOCK] */
static bool compare_samples(struct sound_in *in, const struct sweep *s, bool *is_unfit, float *memory, char *why,
                            size_t cap)
{
    const double max_level = 0.12, min_likeness = find_min_likeness(in->format, s->level);
    const size_t size = (size_t)s->n_outputs * BLOCK;
    double written = 0, read = 0, both = 0; /* sums of squares; `both`: of products */
    for (int64_t first = 0, n = BLOCK; n > 0 || first < file_frames(s, in->rate); first += BLOCK) {
        memset(memory, 0, 2 * size * sizeof *memory);
        n = file_read(in, FILE_NEXT, memory + size, BLOCK, BLOCK, why, cap);
        if (n < 0) return false;
        fill_block(s, in->rate, first, memory, BLOCK);
        for (size_t i = 0; i < size; i++) {
            double x = (double)memory[i], y = (double)memory[size + i];
            written += x * x;
            read += y * y;
            both += x * y;
        }
    }
    bool is_alike = both > min_likeness * sqrt(written * read) && fabs(both / written - 1) < max_level;
    if (is_alike && in->non_finite == 0) return true;
    char name[64];
    if (is_unfit) *is_unfit = true;
    return is_unfit
               ? message_write(why, cap, "--format %s: is too coarse for --level %g; use pcm24",
                               sound_format_name(in->format, name, sizeof name), 20 * log10(s->level))
               : message_write(why, cap,
                               "%s: is not the sweep that its comment describes, perhaps a recording of it; give the "
                               "file of --write-sweep that was played, unchanged",
                               in->path);
}

static bool check_sweep_file(struct sound_in *in, const struct sweep *s, bool *is_unfit, char *why, size_t cap)
{
    struct sweep complete = *s;
    if (!sweep_complete(&complete, in->rate, why, cap)) return false; /* also refuses a sweep that is too long */
    if (in->n_channels != s->n_outputs)
        return message_write(why, cap,
                             "%s: has %d channel%s, but its comment describes a sweep of %d channels; give the file "
                             "of --write-sweep that was played",
                             in->path, in->n_channels, message_s(in->n_channels), s->n_outputs);
    float *memory = malloc(2 * (size_t)s->n_outputs * BLOCK * sizeof *memory);
    bool good = memory ? compare_samples(in, s, is_unfit, memory, why, cap)
                       : message_write(why, cap, "%s: no memory; free some memory", in->path);
    free(memory);
    return good;
}

/* Reads the sweep that the comment of a file of sweep_file_write describes, and checks the samples: other programs copy
 * the comment to a recording. is_unfit: as for compare_samples. false: why has the reason. */
static bool sweep_file_read(const char *path, struct sweep *sweep, bool *is_unfit, char *why, size_t cap)
{
    struct sound_in in;
    if (!sound_in_open(&in, path, NULL, why, cap)) return false;
    bool has_comment = sweep_parse(in.strings[SF_STR_COMMENT], sweep);
    if (!has_comment && is_unfit) *is_unfit = true;
    bool good = has_comment
                    ? check_sweep_file(&in, sweep, is_unfit, why, cap)
                    : message_write(why, cap,
                                    "%s: has no comment that describes its sweep; use a file of --write-sweep, as WAV "
                                    "or FLAC",
                                    path);
    sound_in_close(&in);
    return good;
}

/* Writes the file. format: the bits that the user gave. Reads the file back: some formats keep no comment, or are too
 * coarse for the level. false: why has the reason, and the file is removed. */
static bool sweep_file_write(const struct sweep *s, int rate, const char *path, int format, char *why, size_t cap)
{
    char comment[MESSAGE_CAP], *strings[SF_STR_LAST + 1] = {[SF_STR_COMMENT] = comment};
    struct sound_out out;
    int whole = sound_format_choose(format, path, SF_FORMAT_WAV | SF_FORMAT_PCM_24, rate, s->n_outputs, why, cap);
    sweep_describe(s, comment, sizeof comment);
    if (!whole || !sound_out_open(&out, -1, path, whole, rate, s->n_outputs, file_frames(s, rate), strings, why, cap))
        return false;
    if (!write_takes(s, &out, why, cap)) {
        sound_out_abandon(&out);
        return false;
    }
    struct sweep read;
    bool is_file = out.part.regular, is_unfit = false;
    if (!sound_out_commit(&out, why, cap)) return false;
    sweep_file_read(path, &read, &is_unfit, why, cap); /* a file that cannot be read now may still be right */
    if (!is_unfit) return true;
    if (is_file) unlink(path);
    return false;
}

/* ---- the command ------------------------------------------------------------------------------ */

struct measure_settings {
    const char *write_sweep, *from_recording, *sweep_file, *output, *filter, *calibration;
    struct take_settings take; /* take.rate is also the rate of --write-sweep */
    bool is_jack, is_portaudio;
    int format, latency;
    bool json;
    struct sweep sweep;
    int loopback;
    struct plot_choice plot;
};

enum { LATENCY_KEEP, LATENCY_REMOVE };

/* ---- options ----------------------------------------------------------------------------------------------------- */

#define TO(field) OPTION_TO(struct measure_settings, field)

static const struct option_row measure_options[] = {
    {"write-sweep", 0, "FILE", "Write the sweep to a sound file, to be played and recorded by another program",
     option_text, TO(write_sweep)},
    {"from-recording", 0, "FILE", "Measure by this recording of the sweep; a channel is an input", option_text,
     TO(from_recording)},
    {"sweep", 0, "FILE", "The file of --write-sweep that was played; the file has the options of the sweep",
     option_text, TO(sweep_file)},
    {"output", 'o', "FILE",
     "The responses: a sound file with a channel for each pair, output 1 to all inputs first; - is standard output",
     option_text, TO(output)},
    {"jack", 0, NULL, "Measure through JACK", option_flag, TO(is_jack)},
    {"portaudio", 0, NULL, "Measure through a sound card, by PortAudio", option_flag, TO(is_portaudio)},
    {"latency", 0, "keep|remove",
     "Keep the time from play to record in the responses, or remove one time from all responses: the delay of the "
     "loopback, or else of the direct sound of the first pair [remove]",
     option_choice, TO(latency)},
    {"loopback", 0, "INPUT",
     "This input is connected with an output: its response is the time reference, and is divided out of the others",
     option_int, TO(loopback), .min = 1, .max = 1024},
    CALIBRATION_OPTION(TO(calibration)),
    OPTION_FORMAT(TO(format), "OUTPUT's extension; float for responses, pcm24 for a sweep"),
    OPTION_JSON(TO(json)),
    PLOT_OPTIONS(struct measure_settings, plot),
    {0}};

static const struct option_row sweep_options[] = {
    {"outputs", 0, "N", "Outputs, measured one after the other [1]", option_int, TO(sweep.n_outputs), .min = 1,
     .max = SWEEP_MAX_OUTPUTS},
    {"rate", 0, "HZ", "Sample rate of the sound card [unchanged], or of --write-sweep [48000]", option_int,
     TO(take.rate), .min = 1000, .max = 1000000},
    {"from", 0, "HZ", "Lowest frequency of the responses; the sweep begins an octave below [20]", option_number,
     TO(sweep.from_hz), .min = 0.1, .max = 1e6},
    {"to", 0, "HZ", "Highest frequency of the responses; the sweep ends at 1.1 times this [20000, or 0.45 of the rate]",
     option_number, TO(sweep.to_hz), .min = 1, .max = 1e6},
    {"length", 0, "SECONDS", "Length of a sweep; twice the length lowers the noise by 3 dB [6]", option_number,
     TO(sweep.length_s), .min = 0.01, .max = 300},
    {"silence", 0, "SECONDS",
     "Silence behind a sweep, and length of the responses: longer than the decay of the room [2]", option_number,
     TO(sweep.silence_s), .min = 0.01, .max = 60},
    {"averages", 0, "N",
     "Sweeps of each output, which are averaged; two or more also measure the difference of the clocks of recorder "
     "and player [2]",
     option_int, TO(sweep.averages), .min = 1, .max = 100},
    {"level", 0, "DB", "Peak of the sweep, re full scale [-20]", option_db, TO(sweep.level)},
    {0}};

static const struct option_row card_options[] = {
    {"inputs", 0, "N", "Inputs to record, the loopback included [1]", option_int, TO(take.n_inputs), .min = 1,
     .max = 1024},
    {"play-to", 0, "NAME",
     "Device to play to, by its number or (a part of) its name in `haloconv devices`; with JACK, ports or clients "
     "with commas between [the default device; the ports of the sound card]",
     option_text, TO(take.output_device)},
    {"record-from", 0, "NAME", "Device to record from, likewise", option_text, TO(take.input_device)},
    {"filter", 0, "MASK",
     "Play the sweep through this filter, with a channel for each output or one for all: measures the "
     "loudspeakers through the filter",
     option_text, TO(filter)},
    {"server", 0, "SERVER", "Name of the JACK server [the default one]", option_text, TO(take.server)},
    {0}};

static const struct command_line measure_line = {
    .command = "measure",
    .usage = "-o MASK",
    .text = "Measures the impulse responses of a room, of loudspeakers or of a device, from each output to each input, "
            "with exponential sine sweeps. Prints the noise floor, the dynamic range and the harmonic distortion.\v"
            "  haloconv measure --portaudio --outputs 2 -o room.wav\n"
            "  haloconv measure --jack --outputs 2 --inputs 2 --loopback 2 -o room.wav\n"
            "  haloconv measure --write-sweep sweep.wav --outputs 2\n"
            "  haloconv measure --from-recording rec.wav --sweep sweep.wav -o room.wav",
    .groups = {{NULL, measure_options},
               {"Sweep (--from-recording reads it from the file of --sweep):", sweep_options},
               {"Sound card:", card_options}}};

static int measure_check(const struct measure_settings *s)
{
    bool is_live = s->is_jack || s->is_portaudio;
    const struct take_settings *take = &s->take;
    if ((s->write_sweep != NULL) + (s->from_recording != NULL) + s->is_jack + s->is_portaudio != 1)
        return message_usage("measure", "needs one of --jack, --portaudio, --write-sweep and --from-recording");
    if (s->write_sweep && (s->output || s->json || s->loopback || s->calibration || s->plot.path))
        return message_usage(
            "measure", "--write-sweep measures nothing; leave out -o, --json, --plot, --loopback and --calibration");
    if (s->write_sweep && strcmp(s->write_sweep, "-") == 0)
        return message_usage("measure", "--write-sweep: needs a file, which --sweep reads later");
    if (!s->sweep_file != !s->from_recording)
        return message_usage("measure", "--from-recording and --sweep need each other: the sweep's file describes the "
                                        "sweep");
    if (!is_live && (take->n_inputs || take->output_device || take->input_device || s->filter))
        return message_usage("measure", "--inputs, --play-to, --record-from and --filter: need --jack or --portaudio");
    if (take->server && !s->is_jack) return message_usage("measure", "--server %s: needs --jack", take->server);
    if (is_live && s->loopback && (take->n_inputs < 2 || s->loopback > take->n_inputs))
        return message_usage("measure",
                             "--loopback %d: --inputs is too small for this input and a microphone; raise --inputs",
                             s->loopback);
    if (!(s->sweep.level > 0 && s->sweep.level <= 1)) return message_usage("measure", "--level: needs 0 dB or less");
    if (s->write_sweep) return -1;
    enum { INPUTS = 4 };
    char *const inputs[INPUTS] = {(char *)s->from_recording, (char *)s->sweep_file, (char *)s->calibration,
                                  (char *)s->filter};
    int status = mask_write_check("measure", s->output, s->format, s->json);
    if (status < 0) status = mask_write_check_read(s->output, inputs, INPUTS);
    return status >= 0 ? status : plot_check("measure", &s->plot, s->output, inputs, INPUTS);
}

static int measure_parse(int argc, char **argv, struct measure_settings *s)
{
    *s = (struct measure_settings){
        .latency = LATENCY_REMOVE,
        .plot = PLOT_CHOICE_USUAL,
        .sweep = {.n_outputs = 1, .averages = 2, .from_hz = 20, .length_s = 6, .silence_s = 2, .level = 0.1}};
    int status = option_parse(&measure_line, argc, argv, s);
    if (s->filter) s->filter = mask_argument_path(s->filter);
    return status >= 0 ? status : measure_check(s);
}

/* ---- a recording ------------------------------------------------------------------------------------------------- */

static bool check_recording(const struct measure_settings *s, const struct measurement_settings *m, int64_t n_frames,
                            char *why, size_t cap)
{
    double lasts = (double)n_frames / m->rate, needs = s->sweep.n_outputs * sweep_take_s(&s->sweep);
    double min = needs - sweep_lead_s() - s->sweep.silence_s;
    if (s->loopback && (m->n_inputs < 2 || s->loopback > m->n_inputs))
        return message_write(why, cap,
                             "%s: has %d channel%s, and --loopback %d needs one more; record the microphones, too",
                             s->from_recording, m->n_inputs, message_s(m->n_inputs), s->loopback);
    return lasts >= min ||
           message_write(why, cap,
                         "%s: lasts %.2f s, but the sweep lasts %.2f s; record all of it, or name another --sweep",
                         s->from_recording, lasts, needs);
}

static bool analyse(struct measure_settings *s, const hc_responses *file, struct measurement_settings *settings,
                    struct measurement *m, char *why, size_t cap)
{
    struct sweep_recording recordings[SWEEP_MAX_OUTPUTS];
    if (!file->channel || !file->rate)
        return message_write(why, cap, "%s: is not a recording with a sample rate; give a sound file",
                             s->from_recording);
    if (!sweep_file_read(s->sweep_file, &s->sweep, NULL, why, cap)) return false;
    settings->sweep = &s->sweep;
    settings->rate = file->rate;
    settings->n_inputs = file->n_channels;
    if (!sweep_complete(&s->sweep, file->rate, why, cap) || !check_recording(s, settings, file->n_frames, why, cap))
        return false;
    for (int o = 0; o < s->sweep.n_outputs; o++)
        recordings[o] = (struct sweep_recording){file->channel, file->n_frames, -o * sweep_take_s(&s->sweep)};
    return measurement_make(settings, recordings, m, why, cap);
}

static int report_measurement(const struct measure_settings *s, const struct measurement_settings *settings,
                              const struct measurement *m)
{
    char why[MESSAGE_CAP];
    struct mask_out out = {s->output, s->format, m->rate, m->n_outputs * m->n_inputs, m->n_frames, m->h};
    calibration_check_band(&settings->calibration, s->sweep.from_hz, s->sweep.to_hz);
    if (!mask_write(&out, why, sizeof why)) return message_error("%s", why);
    measure_report_warn(settings, m);
    int status = s->json ? measure_report_json(settings, m, s->output) : 0;
    if (!s->json && !message_is_quiet()) measure_report_print(settings, m, s->output);
    return plot_written(status, s->output, m->rate, &s->plot);
}

static int measure_recording(struct measure_settings *s, struct measurement_settings *settings)
{
    char why[MESSAGE_CAP];
    hc_responses file = {0};
    struct measurement m = {0};
    bool good = hc_responses_load(s->from_recording, 0, 0, HC_KEEP_RATE, &file, why, sizeof why) == HC_OK &&
                analyse(s, &file, settings, &m, why, sizeof why);
    int status = good ? report_measurement(s, settings, &m) : message_error("%s", why);
    measurement_free(&m);
    hc_responses_free(&file);
    return status;
}

/* ---- a sound card ------------------------------------------------------------------------------------------------ */

static int measure_card(struct measure_settings *s, struct measurement_settings *settings)
{
    char why[MESSAGE_CAP];
    struct measurement m;
    struct take_settings take = s->take;
    take.api = s->is_jack ? "jack" : "portaudio";
    take.n_outputs = s->sweep.n_outputs;
    if (take.n_inputs == 0) take.n_inputs = 1;
    settings->n_inputs = take.n_inputs;
    bool good = measure_run(take, &s->sweep, s->filter, settings, &m, why, sizeof why);
    int status = good ? report_measurement(s, settings, &m) : message_error("%s", why);
    measurement_free(&m);
    return status;
}

/* ---- the sweep --------------------------------------------------------------------------------------------------- */

static int write_sweep(struct measure_settings *s)
{
    char why[MESSAGE_CAP];
    int rate = s->take.rate ? s->take.rate : 48000;
    if (!sweep_complete(&s->sweep, rate, why, sizeof why) ||
        !sweep_file_write(&s->sweep, rate, s->write_sweep, s->format, why, sizeof why))
        return message_error("%s", why);
    message_note("%s: %d channel%s, %.1f s, peak %s; play it once, and record without a pause", s->write_sweep,
                 s->sweep.n_outputs, message_s(s->sweep.n_outputs), s->sweep.n_outputs * sweep_take_s(&s->sweep),
                 message_db(20 * log10(s->sweep.level), 1, "dBFS").text);
    return 0;
}

static int measure_with_card(struct measure_settings *s)
{
    char why[MESSAGE_CAP];
    struct measurement_settings settings = {.loopback = s->loopback, .keep_latency = s->latency == LATENCY_KEEP};
    if (!calibration_read(&settings.calibration, s->calibration, why, sizeof why)) return message_error("%s", why);
    int status = s->from_recording ? measure_recording(s, &settings) : measure_card(s, &settings);
    calibration_free(&settings.calibration);
    return status;
}

int measure_command(int argc, char **argv)
{
    struct measure_settings settings;
    int status = measure_parse(argc, argv, &settings);
    if (status >= 0) return status;
    return settings.write_sweep ? write_sweep(&settings) : measure_with_card(&settings);
}
