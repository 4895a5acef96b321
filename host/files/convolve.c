/* haloconv convolve - convolves a sound file with a mask. */
#include "dsp/haloconv_masks.h"
#include "files_read.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/mask_argument.h"
#include "host/message.h"
#include "host/option.h"
#include "host/stopwatch.h"
#include "mask_diagnostics.h"
#include "pipeline.h"
#include "scene_file.h"
#include "sound_format.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct convolve_settings {
    struct option_names names; /* INPUT and MASK */
    const char *input, *mask, *output;
    const char *backend, *method;
    int block;
    double gain, wet, dry; /* linear; 0 = off */
    enum level level;
    double normalise; /* the peak of the output, linear; 0 = off */
    enum range_choice tail;
    enum dither dither;
    int format;  /* SF_FORMAT_..., the bits of --format */
    SF_INFO raw; /* format of an INPUT without a header; samplerate 0: INPUT has a header */
    struct scene_file_settings moving;
    uint64_t seed; /* seed of a random path */
    bool no_resample, json;
};

struct convolution { /* one run of the command; freed by convolution_close */
    const struct convolve_settings *settings;
    struct sound_in in;
    struct sound_out out;
    hc_responses responses;
    hc_route *routes;     /* routes of the mask, with gains; then of the dry signal */
    int n_routes, n_taps; /* n_taps: length of the longest route */
    hc_engine *engine;
    struct scene_file moving; /* used with --path instead of responses, routes and engine */
    struct pipeline pipeline;
    struct level_match match;
    double scale; /* gain of the output, linear, if is_scaled */
    bool pipeline_running;
    struct progress progress;
    double start, open_s, mask_s;
    hc_info info;
    char why[MESSAGE_CAP];
};

/* ---- options ------------------------------------------------------------------------------------ */

static bool read_raw_option(const struct option_use *use, void *to)
{
    char *end;
    SF_INFO *raw = to;
    errno = 0;
    long rate = strtol(use->text, &end, 10), channels = *end == ',' ? strtol(end + 1, &end, 10) : 0;
    const char *subtype = *end == ',' ? end + 1 : "";
    if (errno || rate < 1 || rate > INT_MAX || channels < 1 || channels > 1024 ||
        !(sound_format_parse(subtype) & SF_FORMAT_SUBMASK))
        return option_refuse(use, "needs rate, channels and subtype, as in 48000,2,pcm16");
    int format = SF_FORMAT_RAW | (sound_format_parse(subtype) & SF_FORMAT_SUBMASK) | SF_ENDIAN_LITTLE;
    *raw = (SF_INFO){.samplerate = (int)rate, .channels = (int)channels, .format = format};
    return sf_format_check(raw) ||
           option_refuse(use, "libsndfile reads no headerless %s of %ld channels", subtype, channels);
}

static const struct option_row convolve_options[] = {
    {"output", 'o', "FILE", "Output file; it appears only when it is complete", option_text,
     OPTION_TO(struct convolve_settings, output)},
    OPTION_TAIL(OPTION_TO(struct convolve_settings, tail)),
    {"gain", 0, "DB", "Gain of the whole output [0]", option_db, OPTION_TO(struct convolve_settings, gain)},
    {"wet", 0, "DB", "Gain of the convolved signal, or off [0]", option_db, OPTION_TO(struct convolve_settings, wet)},
    {"dry", 0, "DB", "Gain of the input in the output, or off; one channel goes to every output [off]", option_db,
     OPTION_TO(struct convolve_settings, dry)},
    OPTION_LEVEL(OPTION_TO(struct convolve_settings, level)),
    {"normalise", 0, "DB", "Scale the output to this peak, in dB of full scale, such as -1 [off]", option_db,
     OPTION_TO(struct convolve_settings, normalise), .old_name = "normalize"},
    OPTION_FORMAT(OPTION_TO(struct convolve_settings, format), "OUTPUT's extension and the subtype of INPUT"),
    OPTION_DITHER(OPTION_TO(struct convolve_settings, dither)),
    {"no-resample", 0, NULL, "Use the mask's samples unchanged, whatever its rate", option_flag,
     OPTION_TO(struct convolve_settings, no_resample)},
    {"raw", 0, "RATE,CHANNELS,SUBTYPE", "INPUT has no header and is little endian, as in 48000,2,pcm16",
     read_raw_option, OPTION_TO(struct convolve_settings, raw)},
    OPTION_BACKEND(OPTION_TO(struct convolve_settings, backend)),
    OPTION_METHOD(OPTION_TO(struct convolve_settings, method)),
    {"block", 0, "N", "Block size of the engine in frames; 0: the engine chooses [0]", option_int,
     OPTION_TO(struct convolve_settings, block), .max = 1 << 20},
    OPTION_JSON(OPTION_TO(struct convolve_settings, json)),
    {0}};

static const struct option_row scene_file_options[] = {
    {"path", 0, "FILE",
     "Path of the sources: a CSV file, or random:OPTIONS. MASK is then a bank, and each channel of INPUT a "
     "moving source. The output is the sum of all sources",
     option_text, OPTION_TO(struct convolve_settings, moving.path)},
    OPTION_MOVING(struct convolve_settings),
    {"seed", 0, "S", "Seed of a random path [0]", option_seed, OPTION_TO(struct convolve_settings, seed)},
    {0}};

static const struct command_line convolve_line = {
    .command = "convolve",
    .usage = "INPUT MASK -o OUTPUT\nINPUT BANK --path PATH.csv -o OUTPUT",
    .text = "Convolves a sound file with a mask. INPUT and OUTPUT are sound files, or - for standard input and output. "
            "MASK is a sound file (.irs too), a text of coefficients (see haloconv --help for its channels), or a "
            "configuration (.conf) with as many inputs as INPUT has channels. A mask at another rate is resampled to "
            "INPUT's.\v"
            "A WAV file of more than 4 GiB becomes RF64. Samples beyond full scale are limited where the format has a "
            "limit, and counted. OUTPUT has the loudspeakers of INPUT's channels if it has as many. On a pipe, WAV and "
            "AU are read as they come, and AU, raw, Ogg, IRCAM, PVF and PAF are written as they come; other formats "
            "pass through a temporary file in $TMPDIR.\n\n"
            "  haloconv convolve voice.wav hall.wav -o wet.flac --dry 0 --wet -12\n"
            "  haloconv convolve voice.wav kemar.sofa --path walk.csv -o moving.wav\n\n"
            "Names for --format:",
    .more = sound_format_help,
    .groups = {{NULL, convolve_options}, {"Moving sources:", scene_file_options}},
    OPTION_NAMES("INPUT and MASK", 2, 2, struct convolve_settings, names, 2)};

/* Does the gain of the output depend on the whole convolution? */
static bool is_scaled(const struct convolve_settings *s)
{
    return s->level != LEVEL_NONE || s->normalise > 0;
}

static int check_path(struct convolve_settings *s)
{
    char why[MESSAGE_CAP];
    if (s->dry > 0) return message_usage("convolve", "--dry: moving sources have no dry signal; leave it out");
    if (s->block > 0) return message_usage("convolve", "--block is not for moving sources; use --step");
    if (strcmp(s->method, "direct") == 0)
        return message_usage("convolve", "--method direct is not for moving sources; leave it out");
    if (!scene_file_options_check(&s->moving, why, sizeof why))
        return message_usage("convolve", "--path %s: %s", s->moving.path, why);
    if (strcmp(s->moving.path, "-") == 0 && strcmp(s->input, "-") == 0)
        return message_usage("convolve", "INPUT and the path are both standard input; give a file for one of them");
    s->moving.path_options.gain = s->wet * (is_scaled(s) ? 1 : s->gain);
    s->moving.bank.keeps_rate = s->no_resample;
    return -1;
}

/* Refuses options that have no effect without a path. */
static int check_no_path(const struct convolve_settings *s)
{
    const char *name = scene_file_options_given(&s->moving);
    return name ? message_usage("convolve", "--%s is for moving sources; give --path too", name) : -1;
}

static int convolve_parse(int argc, char **argv, struct convolve_settings *s)
{
    *s = (struct convolve_settings){.backend = "auto", .method = "auto", .gain = 1, .wet = 1, .dither = DITHER_TPDF};
    s->moving.path_options.step = MOVING_STEP;
    int status = option_parse(&convolve_line, argc, argv, s);
    if (status >= 0) return status;
    s->input = s->names.list[0];
    s->mask = s->names.list[1];
    if (!option_output("convolve", s->output, s->json, "sound")) return EXIT_USAGE;
    if (s->normalise > 0 && s->level != LEVEL_NONE)
        return message_usage("convolve", "--level and --normalise both set the level of the output; give one of them");
    if (s->normalise > 0 && s->gain != 1)
        return message_usage("convolve", "--normalise sets the peak, whatever --gain is; leave --gain out");
    if (strcmp(s->mask, "-") == 0)
        return message_usage("convolve", "a mask cannot come from standard input; give a file");
    return s->moving.path ? check_path(s) : check_no_path(s);
}

/* ---- the run ------------------------------------------------------------------------------------ */

/* Makes routes of the mask with all gains applied (without --gain if the output is scaled at the end), and of the
 * dry signal as responses of one tap, which cost nothing. A mono input goes dry to every output, as in `live`. */
static bool routes_make(struct convolution *run)
{
    static const float one = 1.0f;
    const struct convolve_settings *s = run->settings;
    const hc_responses *mask = &run->responses;
    const double gain = is_scaled(s) ? 1 : s->gain;
    if (s->dry > 0 && mask->n_out != mask->n_in && mask->n_in != 1)
        return message_write(run->why, sizeof run->why,
                             "--dry: the mask makes %d channels from %d, so the outputs do not match the inputs; "
                             "leave --dry out",
                             mask->n_out, mask->n_in);
    int n_dry = s->dry > 0 ? mask->n_out : 0;
    run->routes = calloc((size_t)mask->n_routes + (size_t)n_dry, sizeof *run->routes);
    if (!run->routes)
        return message_write(run->why, sizeof run->why, "%s: no memory for its routes; free some memory", s->mask);
    run->n_routes = mask->n_routes + n_dry;
    for (int i = 0; i < mask->n_routes; i++) {
        run->routes[i] = mask->routes[i];
        run->routes[i].gain = (float)(mask->routes[i].gain * s->wet * gain);
    }
    for (int i = 0; i < n_dry; i++)
        run->routes[mask->n_routes + i] = (hc_route){
            .in = mask->n_in == 1 ? 0 : i, .out = i, .taps = &one, .n_taps = 1, .gain = (float)(s->dry * gain)};
    run->n_taps = routes_taps(run->routes, run->n_routes);
    return true;
}

static bool load_mask(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    hc_responses *mask = &run->responses;
    if (hc_responses_load(s->mask, run->in.n_channels, run->in.rate, s->no_resample ? HC_KEEP_RATE : 0, mask, run->why,
                          sizeof run->why) != HC_OK) {
        mask_argument_explain(s->mask, run->why, sizeof run->why);
        return false;
    }
    mask_diagnostics_print(mask, s->mask);
    if (mask->file_rate && mask->rate != mask->file_rate)
        message_note("%s: resampled from %d to %d Hz", s->mask, mask->file_rate, mask->rate);
    if (mask->rate && mask->rate != run->in.rate)
        message_note("%s: its samples at %d Hz are played at %d Hz", s->mask, mask->rate, run->in.rate);
    return routes_make(run);
}

static bool open_engine(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    hc_config config;
    file_engine_config(&config, run->in.rate, s->backend, s->method);
    if (s->block > 0) config.block = s->block;
    config.n_in = run->responses.n_in;
    config.n_out = run->responses.n_out;
    config.max_taps = run->n_taps;
    config.n_routes = run->n_routes;
    config.n_frames = run->in.n_frames > 0 ? run->in.n_frames : 0;
    config.in_samples = is_scaled(s) ? HC_PLANAR : run->in.plain;
    /* a device does not dither */
    config.out_samples = is_scaled(s) || run->out.dithers ? HC_PLANAR : run->out.plain;
    config.queue_depth = pipeline_queue_depth(&run->in, run->responses.n_out, run->n_taps);
    hc_mask *mask;
    double start = stopwatch_now();
    if (hc_open(&config, &run->engine, run->why, sizeof run->why) != HC_OK) {
        run->engine = NULL;
        return false;
    }
    double opened = stopwatch_now();
    run->open_s = opened - start;
    if (hc_mask_make(run->engine, run->routes, sizeof *run->routes, run->n_routes, &mask, run->why, sizeof run->why) !=
        HC_OK)
        return false;
    hc_mask_swap(run->engine, mask);
    run->mask_s += stopwatch_now() - opened;
    return true;
}

static bool load_bank(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    if (!scene_file_load(&run->moving, &s->moving, s->seed, s->mask, run->in.rate, run->in.n_channels, run->in.n_frames,
                         run->why, sizeof run->why))
        return false;
    run->n_taps = run->moving.data.n_taps;
    return true;
}

static bool open_renderer(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    double start = stopwatch_now();
    if (!scene_file_open(&run->moving, s->backend, run->why, sizeof run->why)) return false;
    run->open_s = stopwatch_now() - start;
    memcpy(run->info.device, run->moving.device, sizeof run->info.device);
    run->info.backend = strncmp(run->info.device, "cpu", 3) == 0 ? "cpu" : "cuda";
    run->info.method = "fft";
    run->info.block = run->moving.stream.block;
    run->info.partition = s->moving.path_options.step;
    return true;
}

static void convolution_close(struct convolution *run)
{
    if (run->pipeline_running) pipeline_finish(&run->pipeline);
    level_match_close(&run->match);
    sound_out_abandon(&run->out);
    hc_close(run->engine);
    scene_file_close(&run->moving);
    sound_in_close(&run->in);
    free(run->routes);
    hc_responses_free(&run->responses);
}

static bool spare_inputs(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    struct files_read read = {0};
    bool is_file = s->moving.path && !path_is_random(s->moving.path);
    bool good = files_read_add(&read, s->input) &&
                (s->moving.path ? files_read_add_bank(&read, s->mask) : files_read_add_mask(&read, s->mask)) &&
                (!is_file || files_read_add(&read, s->moving.path));
    if (!good) message_write(run->why, sizeof run->why, "%s: no memory to read its names; free some memory", s->mask);
    good = good && files_read_spare(&read, s->output, run->why, sizeof run->why);
    files_read_free(&read);
    return good;
}

/* The largest float gain that keeps `peak` at or below `max`; 1 for silence. */
static float peak_gain(double peak, double max)
{
    float gain = peak > 0 && isfinite(max / peak) ? (float)(max / peak) : 1;
    while (gain > 0 && (double)((float)peak * gain) > max) gain = nextafterf(gain, 0);
    return gain;
}

/* Writes the kept output with the gain that is known now. */
static bool write_scaled(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    const struct level_match *match = &run->match;
    struct pipeline *p = &run->pipeline;
    if (!isfinite(match->in.sum)) return file_too_loud(s->input, run->why, sizeof run->why);
    run->scale = s->normalise > 0 ? (double)peak_gain(match->out.peak, s->normalise)
                                  : s->gain * level_meter_gain(&match->in, &match->out, s->level);
    struct file_writer writer = {.out = &run->out, .gain = (float)run->scale};
    if (!level_match_write(&run->match, &writer, run->why, sizeof run->why)) return false;
    p->seen = writer.seen;
    p->encode_s += writer.encode_s;
    p->write_s += writer.write_s;
    return true;
}

static bool convolve_sound(struct convolution *run)
{
    const struct convolve_settings *s = run->settings;
    if (!spare_inputs(run)) return false;
    if (!sound_in_open(&run->in, s->input, s->raw.samplerate ? &s->raw : NULL, run->why, sizeof run->why)) return false;
    if (run->in.spooled)
        message_note("%s: copied to a temporary file, because its format cannot be read from a pipe", s->input);
    if (run->in.inside.header.is_unclosed) message_note("%s: " SOUND_UNCLOSED, s->input);
    double start = stopwatch_now();
    if (!(s->moving.path ? load_bank(run) : load_mask(run))) return false;
    run->mask_s = stopwatch_now() - start;
    struct output_range range = output_range_make(s->tail, run->n_taps);
    int n_out = s->moving.path ? run->moving.data.n_out : run->responses.n_out;
    if (!file_open_output(&run->out, -1, s->output, s->format, s->dither, &run->in, n_out, range, run->why,
                          sizeof run->why))
        return false;
    if (is_scaled(s) && !level_match_open(&run->match, run->why, sizeof run->why)) return false;
    bool good = pipeline_start(&run->pipeline, &run->in, &run->out, range, is_scaled(s) ? &run->match : NULL);
    run->pipeline_running = true;
    if (good) {
        if (!(s->moving.path ? open_renderer(run) : open_engine(run))) return false;
        if (run->engine) hc_get_info(run->engine, &run->info);
        struct progress_work work =
            progress_work_make(&run->info, run->in.n_channels, run->out.n_channels, run->n_routes, run->in.n_frames,
                               run->n_taps, output_range_end(range, run->in.n_frames));
        progress_start(&run->progress, run->in.rate, work, run->start, stopwatch_now());
        good = s->moving.path ? scene_file_run(&run->moving, &run->pipeline, &run->progress)
                              : pipeline_run(&run->pipeline, run->engine, &run->progress);
        progress_clear(&run->progress);
    }
    if (!good) {
        snprintf(run->why, sizeof run->why, "%s", run->pipeline.why);
        return false;
    }
    if (is_scaled(s) && !write_scaled(run)) return false;
    start = stopwatch_now();
    good = sound_out_commit(&run->out, run->why, sizeof run->why);
    run->pipeline.write_s += stopwatch_now() - start;
    if (run->engine) hc_get_info(run->engine, &run->info);
    run->info.non_finite += run->in.non_finite;
    return good;
}

/* ---- the report --------------------------------------------------------------------------------- */

/* The gain in dB that puts the peak at full scale, rounded down so that no sample clips; 0 = none is needed. */
static double gain_to_avoid_clipping(double peak)
{
    return peak > 1 ? -ceil(20 * log10(peak) * 1e4) / 1e4 : 0;
}

static double times_realtime(const struct convolution *run, double seconds)
{
    return seconds > 0 ? (double)run->in.read / run->in.rate / seconds : 0;
}

static bool clips(const struct convolution *run)
{
    return run->out.bits > 0;
}

static void convolve_report_summary(const struct convolution *run, double seconds)
{
    char format[64];
    const struct convolve_settings *s = run->settings;
    double peak = sample_peak_value(&run->pipeline.seen), db = gain_to_avoid_clipping(peak);
    const char *option = s->normalise > 0 ? "normalise" : "gain";
    double remedy_db = 20 * log10(s->normalise > 0 ? s->normalise : s->gain) + floor(db * 10) / 10;
    message_note("%s: %d channel%s, %.3f s, %d Hz, %s; %.0f x real time on %s (%s, partition %d)",
                 run->settings->output, run->out.n_channels, message_s(run->out.n_channels),
                 (double)run->out.written / run->out.rate, run->out.rate,
                 sound_format_name(run->out.format, format, sizeof format), times_realtime(run, seconds),
                 run->info.device, run->info.method, run->info.partition);
    if (is_scaled(s))
        message_note("scaled by %s, to a peak of %s", message_db(20 * log10(run->scale), 1, "dB").text,
                     message_db(20 * log10(peak), 1, "dB").text);
    if (clips(run) && run->pipeline.seen.clipped)
        message_note("%llu sample%s clipped; --%s %.1f would have avoided it",
                     (unsigned long long)run->pipeline.seen.clipped, message_s((int64_t)run->pipeline.seen.clipped),
                     option, remedy_db);
    else if (peak > 1 && sound_format_is_lossy_float(run->out.format))
        message_note("the peak is %.1f dB over full scale, and players will limit it; --%s %.1f would avoid it",
                     20 * log10(peak), option, remedy_db);
    if (run->info.non_finite)
        message_note("replaced %llu NaN or infinite sample%s of the input by 0",
                     (unsigned long long)run->info.non_finite, message_s((int64_t)run->info.non_finite));
}

static int convolve_print_json(const struct convolution *run, double seconds)
{
    char format[64];
    const struct pipeline *p = &run->pipeline;
    double peak = sample_peak_value(&p->seen);
    json_t *time = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "open", run->open_s, "mask", run->mask_s, "read",
                             p->read_s, "process", p->process_s, "encode", p->encode_s, "write", p->write_s);
    json_t *all = json_pack(
        "{s:I, s:I, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:s, s:f, s:f, s:I, s:f, s:f, s:I, s:o}", "frames_in",
        (json_int_t)run->in.read, "frames_out", (json_int_t)run->out.written, "channels_in", run->in.n_channels,
        "channels_out", run->out.n_channels, "rate", run->in.rate, "mask_frames", run->n_taps, "backend",
        run->info.backend, "device", run->info.device, "method", run->info.method, "block", run->info.block,
        "partition", run->info.partition, "format", sound_format_name(run->out.format, format, sizeof format),
        "seconds", seconds, "times_realtime", times_realtime(run, seconds), "clipped",
        (json_int_t)(clips(run) ? p->seen.clipped : 0), "gain_to_avoid_clipping", gain_to_avoid_clipping(peak), "peak",
        peak, "non_finite", (json_int_t)run->info.non_finite, "time", time);
    if (all && is_scaled(run->settings)) json_object_set_new(all, "scaled_db", json_db(run->scale));
    return json_print(all, 9, run->settings->output);
}

int convolve_command(int argc, char **argv)
{
    struct convolve_settings settings;
    int status = convolve_parse(argc, argv, &settings);
    if (status >= 0) return status;
    struct convolution run = {
        .settings = &settings, .match.fd = -1, .start = stopwatch_now(), .info = {.size = sizeof run.info}};
    if (!convolve_sound(&run)) {
        status = message_error("%s", run.why);
        if (run.in.is_pipe) { /* the thread that reads the pipe may wait forever */
            if (run.out.path) part_file_abandon(&run.out.part);
            _exit(status);
        }
    } else {
        double seconds = stopwatch_now() - run.start;
        status = 0;
        convolve_report_summary(&run, seconds);
        if (settings.json) status = convolve_print_json(&run, seconds);
    }
    convolution_close(&run);
    return status;
}
