/* haloconv convolve - a sound file through a mask. */
#include "dsp/haloconv_masks.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/masks/mask_remarks.h"
#include "host/message.h"
#include "host/option.h"
#include "host/progress.h"
#include "host/stopwatch.h"
#include "pipeline.h"
#include "sound_format.h"
#include "sound_in.h"
#include "sound_out.h"
#include "tail.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "haloconv convolve INPUT MASK -o OUTPUT - a sound file through a mask\n"
    "\n"
    "INPUT and OUTPUT are sound files, or - for standard input and output. MASK is a sound file, a text of\n"
    "coefficients (see haloconv --help for its channels), or a configuration (.conf) that takes as many channels as\n"
    "INPUT has; what is at another rate is resampled to the input's.\n"
    "\n"
    "  -o, --output FILE    where to; appears only when it is complete\n"
    "      --tail WHICH     full: input + mask - 1 frames; same: as many as the input; centre: as many as the\n"
    "                       input, from half the mask on                                              [full]\n"
    "      --gain DB        gain of the whole output                                                     [0]\n"
    "      --wet DB         gain of the convolved signal, or off                                         [0]\n"
    "      --dry DB         gain of the input in the output (one channel: in every output), or off     [off]\n"
    "      --format F       CONTAINER, SUBTYPE or CONTAINER:SUBTYPE   [OUTPUT's extension, else as the input]\n"
    "      --no-resample    take the mask's samples as they are, whatever its rate\n"
    "      --raw R,C,S      INPUT has no header: R Hz, C channels, subtype S (48000,2,pcm16), little endian\n"
    "      --backend B      auto, cpu, cuda or cuda:N                                                 [auto]\n"
    "      --method M       auto, direct (time domain) or fft (partitions)                            [auto]\n"
    "      --block N        frames handed to the engine at once; 0 = it chooses                          [0]\n"
    "      --json           what was done, as one object on standard output\n"
    "  -q, --quiet          no progress and no summary; errors only\n"
    "  -h, --help           this text\n"
    "\n"
    "%s"
    "A WAV of more than 4 GiB becomes RF64. Samples beyond full scale are limited where the format has a limit,\n"
    "and counted. On a pipe, WAV, AU and AIFF are read as they come and AU, raw, Ogg, IRCAM, PVF and PAF are\n"
    "written as they come; other formats pass through a temporary file in $TMPDIR.\n"
    "\n"
    "  haloconv convolve voice.wav hall.wav -o wet.flac --dry 0 --wet -12\n";

struct settings {
    const char *input, *mask, *output;
    const char *backend, *method;
    int block;
    double gain, wet, dry; /* linear; 0 = off */
    enum tail tail;
    int format; /* SF_FORMAT_... as far as asked for */
    bool headerless;
    SF_INFO raw;
    bool no_resample, json, quiet;
};

struct job { /* one run; what is open is freed by job_close */
    const struct settings *settings;
    struct sound_in in;
    struct sound_out out;
    hc_responses responses;
    hc_route *routes; /* of the mask, gains applied, and the dry signal behind them */
    int n_routes;
    hc_engine *engine;
    struct pipeline pipeline;
    bool in_open, out_open, pipeline_running;
    struct progress progress;
    double start, open_s, mask_s;
    hc_info info;
    char why[MESSAGE_CAP];
};

/* ---- options ------------------------------------------------------------------------------------ */

static bool parse_raw(const char *text, SF_INFO *raw)
{
    char *end;
    errno = 0;
    long rate = strtol(text, &end, 10), channels = *end == ',' ? strtol(end + 1, &end, 10) : 0;
    const char *subtype = *end == ',' ? end + 1 : "";
    if (errno || rate < 1 || rate > INT_MAX || channels < 1 || channels > 1024 ||
        !(sound_format_parse(subtype) & SF_FORMAT_SUBMASK)) {
        message_usage("convolve", "--raw %s: needs rate, channels and subtype, as in 48000,2,pcm16", text);
        return false;
    }
    int format = SF_FORMAT_RAW | (sound_format_parse(subtype) & SF_FORMAT_SUBMASK) | SF_ENDIAN_LITTLE;
    *raw = (SF_INFO){.samplerate = (int)rate, .channels = (int)channels, .format = format};
    if (sf_format_check(raw)) return true;
    message_usage("convolve", "--raw %s: libsndfile reads no headerless %s of %ld channels", text, subtype, channels);
    return false;
}

static bool check_mask(const struct settings *s)
{
    if (strcmp(s->mask, "-") != 0) return true;
    message_usage("convolve", "a mask cannot come from standard input; give a file");
    return false;
}

enum {
    OPT_TAIL = 256,
    OPT_GAIN,
    OPT_WET,
    OPT_DRY,
    OPT_FORMAT,
    OPT_NO_RESAMPLE,
    OPT_RAW,
    OPT_BACKEND,
    OPT_METHOD,
    OPT_BLOCK,
    OPT_JSON
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"tail", required_argument, NULL, OPT_TAIL},
    {"gain", required_argument, NULL, OPT_GAIN},
    {"wet", required_argument, NULL, OPT_WET},
    {"dry", required_argument, NULL, OPT_DRY},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"no-resample", no_argument, NULL, OPT_NO_RESAMPLE},
    {"raw", required_argument, NULL, OPT_RAW},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"method", required_argument, NULL, OPT_METHOD},
    {"block", required_argument, NULL, OPT_BLOCK},
    {"json", no_argument, NULL, OPT_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* One option; -1 = go on, else the exit status. */
static int take_option(int option, struct settings *s)
{
    bool good = true;
    switch (option) {
    case 'o':
        s->output = optarg;
        break;
    case OPT_TAIL:
        good = tail_parse(optarg, &s->tail);
        if (!good) message_usage("convolve", "--tail %s: needs " TAIL_NEEDS, optarg);
        break;
    case OPT_GAIN:
        good = option_db("convolve", "--gain", optarg, &s->gain);
        break;
    case OPT_WET:
        good = option_db("convolve", "--wet", optarg, &s->wet);
        break;
    case OPT_DRY:
        good = option_db("convolve", "--dry", optarg, &s->dry);
        break;
    case OPT_FORMAT:
        good = option_format("convolve", optarg, &s->format);
        break;
    case OPT_NO_RESAMPLE:
        s->no_resample = true;
        break;
    case OPT_RAW:
        good = s->headerless = parse_raw(optarg, &s->raw);
        break;
    case OPT_BACKEND:
        good = option_backend("convolve", s->backend = optarg, false);
        break;
    case OPT_METHOD:
        good = option_method("convolve", s->method = optarg);
        break;
    case OPT_BLOCK:
        good = option_int("convolve", "--block", optarg, 0, 1 << 20, &s->block);
        break;
    case OPT_JSON:
        s->json = true;
        break;
    case 'q':
        s->quiet = true;
        break;
    case 'h':
        printf(help, sound_format_help);
        return 0;
    default:
        message_note("see `haloconv convolve --help`");
        return EXIT_USAGE; /* getopt has said what is wrong */
    }
    return good ? -1 : EXIT_USAGE;
}

static int parse(int argc, char **argv, struct settings *s)
{
    int option, status;
    *s = (struct settings){.backend = "auto", .method = "auto", .gain = 1, .wet = 1};
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "o:qh", options, NULL)) != -1)
        if ((status = take_option(option, s)) >= 0) return status;
    if (argc - optind != 2) return message_usage("convolve", "needs INPUT and MASK, and got %d names", argc - optind);
    s->input = argv[optind];
    s->mask = argv[optind + 1];
    return option_output("convolve", s->output, s->json, "sound") && check_mask(s) ? -1 : EXIT_USAGE;
}

/* ---- the run ------------------------------------------------------------------------------------ */

/* The mask's routes with the gains in them, and the dry signal as a response of one tap: it costs nothing then. One
 * channel goes dry to every output, as it does live. */
static bool routes_make(struct job *job)
{
    static const float one = 1.0f;
    const struct settings *s = job->settings;
    const hc_responses *mask = &job->responses;
    if (s->dry > 0 && mask->n_out != mask->n_in && mask->n_in != 1)
        return message_write(job->why, sizeof job->why,
                             "--dry: the mask makes %d channels of %d, so there is no place "
                             "for the input; leave --dry out",
                             mask->n_out, mask->n_in);
    int n_dry = s->dry > 0 ? mask->n_out : 0;
    job->routes = calloc((size_t)(mask->n_routes + n_dry), sizeof *job->routes);
    if (!job->routes)
        return message_write(job->why, sizeof job->why, "%s: no memory for its routes; free some", s->mask);
    job->n_routes = mask->n_routes + n_dry;
    for (int i = 0; i < mask->n_routes; i++) {
        job->routes[i] = mask->routes[i];
        job->routes[i].gain = (float)(mask->routes[i].gain * s->wet * s->gain);
    }
    for (int i = 0; i < n_dry; i++)
        job->routes[mask->n_routes + i] = (hc_route){.in = mask->n_in == 1 ? 0 : i,
                                                     .out = i,
                                                     .taps = &one,
                                                     .n_taps = 1,
                                                     .gain = (float)(s->dry * s->gain)};
    return true;
}

static bool load_mask(struct job *job)
{
    const struct settings *s = job->settings;
    hc_responses *mask = &job->responses;
    if (hc_responses_load(s->mask, job->in.n_channels, job->in.rate, s->no_resample ? HC_KEEP_RATE : 0, mask, job->why,
                          sizeof job->why) != HC_OK)
        return false;
    if (!s->quiet) mask_remarks_print(mask, s->mask);
    if (!s->quiet && mask->file_rate && mask->rate != mask->file_rate)
        message_note("%s: resampled from %d to %d Hz", s->mask, mask->file_rate, mask->rate);
    if (!s->quiet && mask->rate && mask->rate != job->in.rate)
        message_note("%s: its %d Hz are played at %d Hz", s->mask, mask->rate, job->in.rate);
    return routes_make(job);
}

static int longest_route(const struct job *job)
{
    return tail_taps(job->routes, job->n_routes);
}

static bool open_engine(struct job *job)
{
    const struct settings *s = job->settings;
    hc_config config;
    hc_config_init(&config);
    config.rate = job->in.rate;
    config.block = s->block > 0 ? s->block : HC_BLOCK_FILES;
    config.n_in = job->responses.n_in;
    config.n_out = job->responses.n_out;
    config.n_routes = job->responses.n_routes;
    config.max_taps = longest_route(job);
    config.n_routes = job->n_routes;
    config.fade_frames = HC_NO_FADE; /* the one mask is there from the start */
    config.n_frames = job->in.n_frames > 0 ? job->in.n_frames : 0;
    config.in_samples = job->in.plain;
    config.out_samples = job->out.plain;
    config.wait_us = -1; /* a file has no deadline */
    config.flight = pipeline_flight(&job->in, job->responses.n_out);
    config.backend = s->backend;
    config.method = s->method;
    hc_mask *mask;
    double start = stopwatch_now();
    if (hc_open(&config, &job->engine, job->why, sizeof job->why) != HC_OK) {
        job->engine = NULL;
        return false;
    }
    double opened = stopwatch_now();
    job->open_s = opened - start;
    if (hc_mask_make(job->engine, job->routes, job->n_routes, &mask, job->why, sizeof job->why) != HC_OK) return false;
    hc_mask_swap(job->engine, mask);
    job->mask_s += stopwatch_now() - opened;
    return true;
}

static bool open_output(struct job *job, struct pipeline_range range)
{
    const struct settings *s = job->settings;
    int format = sound_format_choose(s->format, s->output, job->in.format, job->in.rate, job->responses.n_out, job->why,
                                     sizeof job->why);
    if (!format) return false;
    int64_t n_frames = job->in.n_frames < 0 ? -1 : job->in.n_frames + range.tail;
    job->out_open = sound_out_open(&job->out, s->output, format, job->in.rate, job->responses.n_out, n_frames,
                                   job->in.strings, job->why, sizeof job->why);
    return job->out_open;
}

static void job_close(struct job *job)
{
    if (job->pipeline_running) pipeline_finish(&job->pipeline);
    if (job->out_open) sound_out_abandon(&job->out);
    hc_close(job->engine);
    if (job->in_open) sound_in_close(&job->in);
    free(job->routes);
    hc_responses_free(&job->responses);
}

static bool convolve(struct job *job)
{
    const struct settings *s = job->settings;
    job->in_open = sound_in_open(&job->in, s->input, s->headerless ? &s->raw : NULL, job->why, sizeof job->why);
    if (!job->in_open) return false;
    if (job->in.spooled && !s->quiet)
        message_note("%s: copied to a temporary file, because its format cannot be read from a pipe", s->input);
    double start = stopwatch_now();
    if (!load_mask(job)) return false;
    job->mask_s = stopwatch_now() - start;
    int n_taps = longest_route(job);
    struct pipeline_range range = {tail_skip(s->tail, n_taps), tail_extra(s->tail, n_taps)};
    if (!open_output(job, range)) return false;
    bool good = pipeline_start(&job->pipeline, &job->in, &job->out, range);
    job->pipeline_running = true;
    if (good) {
        if (!open_engine(job)) return false;
        progress_start(&job->progress, s->quiet, job->in.rate, job->out.n_frames);
        good = pipeline_run(&job->pipeline, job->engine, (struct pipeline_progress){progress_report, &job->progress});
        progress_clear(&job->progress);
    }
    if (!good) {
        snprintf(job->why, sizeof job->why, "%s", job->pipeline.why);
        return false;
    }
    start = stopwatch_now();
    good = sound_out_commit(&job->out, job->why, sizeof job->why);
    job->pipeline.write_s += stopwatch_now() - start;
    job->info.size = sizeof job->info;
    hc_get_info(job->engine, &job->info);
    return good;
}

/* ---- the report --------------------------------------------------------------------------------- */

/* The gain that puts the peak at full scale, rounded down so that it does so for certain; 0 = none is needed. */
static double gain_to_avoid_clipping(double peak)
{
    return peak > 1 ? -ceil(20 * log10(peak) * 1e4) / 1e4 : 0;
}

static double times_realtime(const struct job *job, double seconds)
{
    return seconds > 0 ? (double)job->in.read / job->in.rate / seconds : 0;
}

static bool clips(const struct job *job)
{
    return job->out.bits > 0;
}

static void say_summary(const struct job *job, double seconds)
{
    char format[64];
    double peak = sample_peak_value(&job->pipeline.seen), db = gain_to_avoid_clipping(peak);
    message_note("%s: %d channel%s, %.3f s, %d Hz, %s; %.0f x real time on %s (%s, partition %d)",
                 job->settings->output, job->out.n_channels, message_s(job->out.n_channels),
                 (double)job->out.written / job->out.rate, job->out.rate,
                 sound_format_name(job->out.format, format, sizeof format), times_realtime(job, seconds),
                 job->info.device, job->info.method, job->info.partition);
    if (clips(job) && job->pipeline.seen.clipped)
        message_note("%llu sample%s clipped; --gain %.1f would have avoided it",
                     (unsigned long long)job->pipeline.seen.clipped, message_s((int64_t)job->pipeline.seen.clipped),
                     20 * log10(job->settings->gain) + floor(db * 10) / 10);
    else if (peak > 1 && sound_format_is_lossy_float(job->out.format))
        message_note("the peak is %.1f dB over full scale, and players will limit it; --gain %.1f would avoid it",
                     20 * log10(peak), 20 * log10(job->settings->gain) + floor(db * 10) / 10);
    if (job->info.non_finite)
        message_note("%llu sample%s of the input, NaN or infinite, replaced by 0",
                     (unsigned long long)job->info.non_finite, message_s((int64_t)job->info.non_finite));
}

static int print_json(const struct job *job, double seconds)
{
    char format[64];
    const struct pipeline *p = &job->pipeline;
    double peak = sample_peak_value(&p->seen);
    json_t *time = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "open", job->open_s, "mask", job->mask_s, "read",
                             p->read_s, "process", p->process_s, "encode", p->encode_s, "write", p->write_s);
    json_t *all = json_pack(
        "{s:I, s:I, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:s, s:f, s:f, s:I, s:f, s:f, s:I, s:o}", "frames_in",
        (json_int_t)job->in.read, "frames_out", (json_int_t)job->out.written, "channels_in", job->in.n_channels,
        "channels_out", job->out.n_channels, "rate", job->in.rate, "mask_frames", longest_route(job), "backend",
        job->info.backend, "device", job->info.device, "method", job->info.method, "block", job->info.block,
        "partition", job->info.partition, "format", sound_format_name(job->out.format, format, sizeof format),
        "seconds", seconds, "times_realtime", times_realtime(job, seconds), "clipped",
        (json_int_t)(clips(job) ? p->seen.clipped : 0), "gain_to_avoid_clipping", gain_to_avoid_clipping(peak), "peak",
        peak, "non_finite", (json_int_t)job->info.non_finite, "time", time);
    return json_print(all, 9, job->settings->output);
}

int convolve_command(int argc, char **argv)
{
    struct settings settings;
    int status = parse(argc, argv, &settings);
    if (status >= 0) return status;
    struct job job = {.settings = &settings, .start = stopwatch_now()};
    if (!convolve(&job)) {
        status = message_error("%s", job.why);
        if (job.in.is_pipe) { /* its reader may wait for ever */
            if (job.out_open) part_file_abandon(&job.out.part);
            _exit(status);
        }
    } else {
        double seconds = stopwatch_now() - job.start;
        status = 0;
        if (!settings.quiet) say_summary(&job, seconds);
        if (settings.json) status = print_json(&job, seconds);
    }
    job_close(&job);
    return status;
}
