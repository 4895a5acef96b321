/* portaudio - the command `haloconv live`: microphone to speakers through PortAudio. */
#include "host/commands.h"
#include "host/message.h"
#include "host/live/session/live_options.h"

#include <limits.h>
#include <stdio.h>

static const struct option_row portaudio_options[] = {
    {"input", 0, "DEV", "Input device, by its number or (a part of) its name in `haloconv devices` [the default one]",
     option_text, LIVE_OPTION_TO(input)},
    {"output", 0, "DEV", "Output device, likewise [the default one]", option_text, LIVE_OPTION_TO(output)},
    {"rate", 0, "HZ", "Sample rate [the output device's]", option_int, LIVE_OPTION_TO(rate), .min = 1000,
     .max = 768000},
    {"block", 0, "N", "Frames a callback [the device's choice]", option_int, LIVE_OPTION_TO(block), .min = 1,
     .max = 8192},
    {"latency", 0, "MS", "Latency that is requested from the devices [their low latency]", option_number,
     LIVE_OPTION_TO(latency_ms), .max = 10000},
    {"one-clock", 0, NULL,
     "Input and output run by one clock (linked by word clock, say), although they look like two cards: nothing is "
     "resampled between them, and no latency is added. The drift between them is measured, and printed at the end if "
     "it is more than 5 ppm",
     option_flag, LIVE_OPTION_TO(one_clock)},
    {"reconnect", 0, NULL, "Wait for a device that is absent or busy, or that disappears", option_flag,
     LIVE_OPTION_TO(reconnect)},
    {"no-feedback-limiter", 0, NULL,
     "Do not turn the output down by 40 dB for two seconds when it stays at full scale for half a second, as it does "
     "in feedback",
     option_set, LIVE_OPTION_TO(session.live.limit_feedback), .min = 0, .old_name = "no-guard"},
    {0}};

const struct command_line portaudio_line = {
    .command = "live",
    .usage = "MASK...",
    .text = "Sends a microphone through a mask to the speakers, by PortAudio. MASK is a sound file, a text of "
            "coefficients, a configuration (see haloconv --help), or a bank of responses for moving sources. With "
            "several masks the first plays, and keys n and "
            "p go through them. The latency of the devices is printed.\v" LIVE_OPTIONS_KEYS "\n\n"
            "  haloconv live hall.wav plate.wav --latency 5",
    .groups = {{NULL, portaudio_options}, {LIVE_OPTIONS_TITLE, live_options}},
    LIVE_OPTIONS_MASKS};

#ifdef HC_WITH_PORTAUDIO
#include "host/live/remotes/alsa_midi.h"
#include "async_resampler.h"
#include "host/live/remotes/control.h"
#include "host/stopwatch.h"
#include "host/live/remotes/keys.h"
#include "host/live/remotes/osc.h"
#include "portaudio_device.h"
#include "host/live/session/realtime.h"
#include "host/live/session/restart.h"
#include "host/live/session/session.h"

#include <jansson.h>
#include <portaudio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUESSED_BLOCK = 256,    /* frames, until callbacks show the device's block */
    SAME_CALLS = 50,        /* callbacks of one length in a row that show it */
    RESAMPLED_CHUNK = 8192, /* frames that the resampler delivers at once */
    MAX_CHANNELS = 1024
};
static const double SILENT_S = 2; /* a device without a callback for this time is lost */

/* Over- and underflows that PortAudio reports, with their names in the statistics. */
static const struct flow {
    PaStreamCallbackFlags flag;
    const char *name;
} flows[] = {{paInputOverflow, "input_overflows"},
             {paInputUnderflow, "input_underflows"},
             {paOutputOverflow, "output_overflows"},
             {paOutputUnderflow, "output_underflows"}};
enum { N_FLOWS = sizeof flows / sizeof *flows };

struct portaudio_host {
    const struct live_settings *settings;
    char **argv; /* the whole command, for start_over; owned */
    struct restart restart;
    bool was_restarted; /* restart_run of an earlier process started this one */
    const struct control_host *host;
    struct midi midi;
    struct alsa_midi *alsa_midi; /* NULL: none */
    struct session *session;
    int n_in, n_out;
    struct portaudio_pair pair;
    bool has_names;                    /* both devices were found once: later searches use their names */
    bool is_busy;                      /* the last start failed, because another program has the device */
    bool is_initialised, is_stuck;     /* is_stuck: PortAudio did not come back from closing its streams */
    PaStream *stream;                  /* stream of both devices, or of the output if input_stream is open */
    PaStream *input_stream;            /* stream of an input with a separate clock; NULL: none */
    struct async_resampler *resampler; /* converts the input's clock to the output's; NULL: both have one clock */
    float *resampled;                  /* [n_in][RESAMPLED_CHUNK]; audio thread */
    struct async_resampler_status resampling;
    bool has_said_block;
    double reported_latency_s; /* the resampler's latency when last printed; 0: not printed yet */
    int rate;
    double input_latency_s, output_latency_s;
    struct drift drift;
    double next_point_s,
        last_call_s; /* time of the drift's next point; of the last new callbacks that portaudio_is_alive saw */
    uint64_t last_calls, last_input_calls;

    /* written by the callbacks */
    bool is_new; /* the stream's first callback is still to come; audio thread */
    atomic_uint_fast64_t calls, input_calls;
    atomic_uint_fast64_t flows[N_FLOWS]; /* over- and underflows */
    atomic_int n_frames, same;           /* length of the last callback, and how many in a row had it */
    atomic_int_fast64_t delay_us;        /* delay from the microphone to the speakers, as the device reports it */
};

/* ---- callback ---------------------------------------------------------------------------------- */

static void count_flags(struct portaudio_host *h, PaStreamCallbackFlags flags)
{
    bool any = false;
    for (int i = 0; i < N_FLOWS; i++) {
        if (!(flags & flows[i].flag)) continue;
        atomic_fetch_add_explicit(&h->flows[i], 1, memory_order_relaxed);
        any = true;
    }
    if (any) session_count_xrun(h->session);
}

/* Callback of an input with a separate clock. */
static int on_input(const void *input, void *output, unsigned long n, const PaStreamCallbackTimeInfo *time,
                    PaStreamCallbackFlags flags, void *data)
{
    (void)output, (void)time;
    struct portaudio_host *h = data;
    if (flags) count_flags(h, flags);
    async_resampler_write(h->resampler, input, (int)n, stopwatch_now());
    atomic_fetch_add_explicit(&h->input_calls, 1, memory_order_relaxed);
    return paContinue;
}

static void play_resampled(struct portaudio_host *h, float *const *output, int n)
{
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    double now = stopwatch_now();
    for (int ch = 0; ch < h->n_in; ch++) in[ch] = h->resampled + (size_t)ch * RESAMPLED_CHUNK;
    for (int at = 0, chunk; at < n; at += chunk) {
        chunk = n - at < RESAMPLED_CHUNK ? n - at : RESAMPLED_CHUNK;
        for (int ch = 0; ch < h->n_out; ch++) out[ch] = output[ch] + at;
        async_resampler_read(h->resampler, in, chunk, now + (double)at / h->rate);
        hc_live_process(session_live(h->session), (const float *const *)in, out, chunk);
    }
}

static int on_audio(const void *input, void *output, unsigned long n, const PaStreamCallbackTimeInfo *time,
                    PaStreamCallbackFlags flags, void *data)
{
    struct portaudio_host *h = data;
    if (h->is_new) realtime_touch_stack();
    h->is_new = false;
    if (flags) count_flags(h, flags);
    if (h->resampler)
        play_resampled(h, output, (int)n);
    else
        hc_live_process(session_live(h->session), input, output, (int)n);
    /* `same` stops at SAME_CALLS: a session of weeks would overflow it. */
    int same = atomic_load_explicit(&h->same, memory_order_relaxed);
    if (atomic_load_explicit(&h->n_frames, memory_order_relaxed) != (int)n) same = -1;
    atomic_store_explicit(&h->same, same < SAME_CALLS ? same + 1 : same, memory_order_relaxed);
    atomic_store_explicit(&h->n_frames, (int)n, memory_order_relaxed);
    atomic_store_explicit(&h->delay_us, (int64_t)(1e6 * (time->outputBufferDacTime - time->inputBufferAdcTime)),
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&h->calls, 1, memory_order_relaxed);
    return paContinue;
}

/* ---- devices ----------------------------------------------------------------------------------- */

static bool find_devices(void *data, char *why, size_t cap)
{
    struct portaudio_host *h = data;
    const struct audio_device *in = &h->pair.input, *out = &h->pair.output;
    char input[400], output[400];
    snprintf(input, sizeof input, "%s: %s", in->api, in->name);
    snprintf(output, sizeof output, "%s: %s", out->api, out->name);
    bool again = h->has_names;
    bool good = portaudio_find(&h->pair, "live", again ? input : h->settings->input,
                               again ? output : h->settings->output, again, why, cap);
    h->has_names = h->has_names || good;
    return good;
}

/* ---- the stream -------------------------------------------------------------------------------- */

/* Opens a resampler if the devices have two clocks. Without a resampler both devices run as one stream, which drift
 * interrupts now and then. */
static bool open_resampler(struct portaudio_host *h, char *why, size_t cap)
{
    if (h->settings->one_clock || portaudio_has_one_clock(&h->pair)) return true;
    h->resampler = async_resampler_open(h->n_in, h->rate, why, cap);
    h->resampled = h->resampler ? calloc((size_t)h->n_in * RESAMPLED_CHUNK, sizeof *h->resampled) : NULL;
    if (h->resampled) return true;
    async_resampler_close(h->resampler);
    h->resampler = NULL;
    if (strcmp(h->pair.input.api, h->pair.output.api) != 0) return false; /* they cannot be one stream */
    message_note("the clocks of %s and %s are not joined: %s", h->pair.input.name, h->pair.output.name, why);
    return true;
}

/* Opens one stream, or with a resampler two, each with callbacks from one device. */
static PaError open_streams(struct portaudio_host *h, PaStreamParameters *in, const PaStreamParameters *out,
                            unsigned long block)
{
    PaError error = paNoError;
    if (h->resampler) {
        in->sampleFormat = paFloat32; /* interleaved, as async_resampler_write reads it */
        error = Pa_OpenStream(&h->input_stream, in, NULL, h->rate, block, paNoFlag, on_input, h);
        if (error != paNoError) h->input_stream = NULL;
        in = NULL;
    }
    if (error == paNoError) error = Pa_OpenStream(&h->stream, in, out, h->rate, block, paNoFlag, on_audio, h);
    if (error != paNoError) h->stream = NULL;
    return error == paNoError && h->resampler ? Pa_StartStream(h->input_stream) : error;
}

static bool portaudio_begin_audio(struct portaudio_host *h, char *why, size_t cap)
{
    h->is_busy = false;
    if (!open_resampler(h, why, cap)) return false;
    double latency_s = h->settings->latency_ms * 1e-3;
    PaStreamParameters in = portaudio_side(&h->pair.input, h->n_in, true, latency_s);
    PaStreamParameters out = portaudio_side(&h->pair.output, h->n_out, false, latency_s);
    unsigned long block = h->settings->block ? (unsigned long)h->settings->block : paFramesPerBufferUnspecified;
    PaError error = Pa_IsFormatSupported(&in, h->resampler ? NULL : &out, h->rate);
    if (h->resampler && error == paFormatIsSupported) error = Pa_IsFormatSupported(NULL, &out, h->rate);
    h->is_busy = error == paDeviceUnavailable;
    if (h->is_busy) return portaudio_refuse(&h->pair, "live", error, why, cap);
    if (error != paFormatIsSupported)
        return message_write(why, cap,
                             "live: %s to %s cannot be opened with %d in, %d out at %d Hz: %s; try another "
                             "--rate, or --inputs",
                             h->pair.input.name, h->pair.output.name, in.channelCount, out.channelCount, h->rate,
                             portaudio_reason(error));
    h->is_new = true;
    error = open_streams(h, &in, &out, block);
    if (error == paNoError) error = Pa_StartStream(h->stream);
    h->is_busy = error == paDeviceUnavailable;
    if (error != paNoError) return portaudio_refuse(&h->pair, "live", error, why, cap);
    const PaStreamInfo *info = Pa_GetStreamInfo(h->stream),
                       *input = h->resampler ? Pa_GetStreamInfo(h->input_stream) : info;
    h->input_latency_s = input ? input->inputLatency : 0;
    h->output_latency_s = info ? info->outputLatency : 0;
    h->reported_latency_s = 0;
    h->drift = (struct drift){0};
    h->last_calls = atomic_load(&h->calls);
    h->last_input_calls = atomic_load(&h->input_calls);
    h->last_call_s = stopwatch_now();
    h->next_point_s = h->last_call_s + 5; /* delays vary at the start */
    return true;
}

static void portaudio_stop(void *data)
{
    struct portaudio_host *h = data;
    if (h->resampler) async_resampler_get_status(h->resampler, &h->resampling);
    if (h->stream || h->input_stream)
        h->is_stuck = !portaudio_close(h->stream, h->input_stream);
    else if (h->is_initialised)
        Pa_Terminate();
    h->stream = h->input_stream = NULL;
    h->is_initialised = false;
    if (h->is_stuck) return; /* a callback may still run */
    async_resampler_close(h->resampler);
    h->resampler = NULL;
    free(h->resampled);
    h->resampled = NULL;
}

static bool initialise(struct portaudio_host *h, char *why, size_t cap)
{
    h->is_initialised = portaudio_start("live", why, cap);
    return h->is_initialised;
}

static void add_stats(void *data, json_t *json)
{
    struct portaudio_host *h = data;
    for (int i = 0; i < N_FLOWS; i++)
        json_object_set_new(json, flows[i].name, json_integer((json_int_t)atomic_load(&h->flows[i])));
    bool two_clocks = h->resampling.latency_s > 0;
    json_object_set_new(json, "latency_ms",
                        json_real(1e3 * (h->input_latency_s + h->output_latency_s + h->resampling.latency_s)));
    json_object_set_new(json, "drift_ppm", json_real(two_clocks ? h->resampling.ppm : drift_ppm(&h->drift)));
    json_object_set_new(json, "clocks", json_integer(two_clocks ? 2 : 1));
    json_object_set_new(json, "clock_restarts", json_integer((json_int_t)h->resampling.restarts));
}

/* Runs the same command again: PortAudio is stuck in this process, and works in a new one. */
static void start_over(struct portaudio_host *h)
{
    const char *asked = h->settings->osc, *colon = asked ? strrchr(asked, ':') : NULL;
    char osc[300];
    message_note("%s: is back; starting over", h->pair.output.name);
    keys_close();
    snprintf(osc, sizeof osc, "%.*s%d", colon ? (int)(colon + 1 - asked) : 0, colon ? asked : "",
             h->host->osc ? osc_port(h->host->osc) : 0);
    json_t *more = json_object();
    add_stats(h, more);
    if (h->host->panel) json_object_set_new(more, "panel", panel_settings_json(h->host->panel));
    restart_run(h->argv, h->session, h->host->osc ? osc : NULL, more);
}

/* After a restart: applies the settings of the process that this one replaces. */
static void apply_restart(struct portaudio_host *h, struct live_settings *settings)
{
    h->was_restarted = restart_read(&h->restart);
    if (!h->was_restarted) return;
    session_state_settings(&h->restart.state, &settings->session);
    settings->mask = h->restart.state.mask;
    settings->compared[0] = 0; /* perhaps ended since */
    if (*h->restart.osc) settings->osc = h->restart.osc;
    const json_t *panel = json_object_get(h->restart.more, "panel");
    if (panel) panel_settings_read(panel, &settings->panel);
}

/* After a restart: continues the statistics. */
static void continue_statistics(struct portaudio_host *h)
{
    if (!h->was_restarted) return;
    session_continue_counters(h->session, &h->restart.before);
    for (int i = 0; i < N_FLOWS; i++) {
        const json_t *count = json_object_get(h->restart.more, flows[i].name);
        atomic_store(&h->flows[i], (uint64_t)json_integer_value(count));
    }
}

static bool portaudio_restart(void *data, char *why, size_t cap)
{
    struct portaudio_host *h = data;
    if (!find_devices(h, why, cap)) return false;
    if (h->is_stuck) start_over(h);
    bool good = !h->is_stuck && initialise(h, why, cap) && portaudio_begin_audio(h, why, cap);
    if (good) *why = 0;
    if (!good) portaudio_stop(h);
    return good;
}

static bool portaudio_is_alive(void *data)
{
    struct portaudio_host *h = data;
    uint64_t calls = atomic_load(&h->calls), input_calls = atomic_load(&h->input_calls);
    double now = stopwatch_now();
    bool went_on = calls != h->last_calls && (!h->resampler || input_calls != h->last_input_calls);
    if (went_on) {
        h->last_call_s = now;
        h->last_calls = calls;
        h->last_input_calls = input_calls;
    }
    return Pa_IsStreamActive(h->stream) == 1 && (!h->resampler || Pa_IsStreamActive(h->input_stream) == 1) &&
           now - h->last_call_s < SILENT_S;
}

static void report_latency(const struct portaudio_host *h, double added_s)
{
    char added[64] = "none added";
    if (added_s > 0) snprintf(added, sizeof added, "%.1f added to join two clocks", 1e3 * added_s);
    message_note("latency %.1f ms: input %.1f, output %.1f, %s",
                 1e3 * (h->input_latency_s + h->output_latency_s + added_s), 1e3 * h->input_latency_s,
                 1e3 * h->output_latency_s, added);
}

/* The resampler's latency is known once it runs, and may grow later. */
static void report_resampling(struct portaudio_host *h)
{
    async_resampler_get_status(h->resampler, &h->resampling);
    if (!h->resampling.runs || h->resampling.latency_s == h->reported_latency_s) return;
    h->reported_latency_s = h->resampling.latency_s;
    report_latency(h, h->resampling.latency_s);
}

static bool open_midi(struct portaudio_host *h, struct control_host *host, char *why, size_t cap)
{
    const struct midi_settings *settings = &h->settings->midi;
    if (!settings->on) return true;
    if (!midi_open(&h->midi, settings, why, cap)) return false;
    h->alsa_midi = alsa_midi_open(settings->connect, why, cap);
    if (!h->alsa_midi) return false;
    h->midi.source = alsa_midi_source(h->alsa_midi);
    host->midi = &h->midi;
    return true;
}

/* Requests the device's block once it is known, and adds a point to the drift each second. */
static void portaudio_tend(void *data)
{
    struct portaudio_host *h = data;
    int n = atomic_load(&h->n_frames);
    if (atomic_load(&h->same) >= SAME_CALLS && n > 0) {
        bool is_guess =
            !h->settings->block && n == GUESSED_BLOCK; /* else the session or the start has printed the block */
        if (is_guess && !h->has_said_block) message_note("at %d Hz in blocks of %d frames", h->rate, n);
        h->has_said_block = true;
        session_request_format(h->session, h->rate, n);
    }
    double now = stopwatch_now();
    if (h->resampler) report_resampling(h);
    if (h->alsa_midi) alsa_midi_tend(h->alsa_midi, now);
    if (now < h->next_point_s || h->resampler) return;
    h->next_point_s = now + 1;
    drift_add(&h->drift, now, 1e-6 * (double)atomic_load(&h->delay_us));
}

static void report_more(void *data)
{
    struct portaudio_host *h = data;
    double ppm = drift_ppm(&h->drift);
    if (h->resampling.restarts > 0)
        message_note("late callbacks interrupted the sound from %s to %s %llu time%s", h->pair.input.name,
                     h->pair.output.name, (unsigned long long)h->resampling.restarts,
                     message_s((int64_t)h->resampling.restarts));
    if (strcmp(h->pair.input.name, h->pair.output.name) != 0 && (ppm > 5 || ppm < -5))
        message_note(
            "the clocks of %s and %s drift apart by %.0f ppm, which now and then causes an over- or underflow; "
            "use one device for both, or omit --one-clock",
            h->pair.input.name, h->pair.output.name, ppm);
}

static bool open_session(struct portaudio_host *h, char *why, size_t cap)
{
    struct session_settings settings = h->settings->session;
    settings.max_inputs = h->pair.input.max_channels;
    h->rate = h->settings->rate ? h->settings->rate : h->pair.output.rate;
    int block = h->settings->block ? h->settings->block : GUESSED_BLOCK;
    hc_responses mask;
    if (!session_load(&settings, h->settings->mask, h->rate, &mask, why, cap)) return false;
    h->n_in = mask.n_in;
    h->n_out = mask.n_out;
    h->session = session_open(&settings, h->settings->mask, &mask, h->rate, block, why, cap);
    if (!h->session) return false;
    continue_statistics(h);
    if (h->n_in > h->pair.input.max_channels)
        return message_write(why, cap,
                             "live: the mask needs %d inputs, but %s has %d; give --inputs, or another --input",
                             h->n_in, h->pair.input.name, h->pair.input.max_channels);
    if (h->n_out > h->pair.output.max_channels)
        return message_write(why, cap, "live: the mask makes %d outputs, but %s has %d; give another --output",
                             h->n_out, h->pair.output.name, h->pair.output.max_channels);
    return true;
}

/* Opens the streams. --reconnect waits for a device that is busy; a format that the device lacks is an error. */
static bool portaudio_begin(struct portaudio_host *h, char *why, size_t cap)
{
    if (!control_retry(find_devices, h, h->settings->reconnect, why, cap) || !open_session(h, why, cap) ||
        !initialise(h, why, cap))
        return false;
    if (portaudio_begin_audio(h, why, cap)) return true;
    if (!h->is_busy || !h->settings->reconnect) return false;
    portaudio_stop(h);
    return control_retry(portaudio_restart, h, true, why, cap);
}

static void report_start(const struct portaudio_host *h)
{
    struct session_status status;
    session_get_status(h->session, &status);
    char blocks[48] = "blocks of the device's size";
    if (h->settings->block) snprintf(blocks, sizeof blocks, "blocks of %d frames", h->settings->block);
    message_note("%s to %s (%s): %d in, %d out, %d Hz, %s, on %s (%s)", h->pair.input.name, h->pair.output.name,
                 h->pair.output.api, h->n_in, h->n_out, h->rate, blocks, status.info.device, status.info.method);
    if (!h->resampler) report_latency(h, 0);
}

int live_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&portaudio_line, argc, argv, false, &settings);
    if (status >= 0) return status;
    char **whole = calloc((size_t)argc + 2, sizeof *whole);
    if (!whole) {
        live_options_free(&settings);
        return message_error("live: no memory; free some memory");
    }
    whole[0] = "haloconv";
    whole[1] = "live";
    for (int i = 1; i < argc; i++) whole[i + 1] = argv[i];
    char why[MESSAGE_CAP];
    struct control_host host;
    static struct portaudio_host h; /* too large for a stack */
    memset(&h, 0, sizeof h);
    h.settings = &settings;
    h.argv = whole;
    h.host = &host;
    host = (struct control_host){.data = &h,
                                 .name = "the audio device",
                                 .is_alive = portaudio_is_alive,
                                 .restart = portaudio_restart,
                                 .stop = portaudio_stop,
                                 .tend = portaudio_tend,
                                 .add_stats = add_stats,
                                 .report_more = report_more,
                                 .stats.fd = -1};
    apply_restart(&h, &settings);
    control_hold_signals();
    realtime_note_limit(0, false);
    if (open_midi(&h, &host, why, sizeof why) && control_open(&settings, &host, why, sizeof why) &&
        portaudio_begin(&h, why, sizeof why)) {
        report_start(&h);
        status = control_run(&settings, h.session, &host);
    } else {
        status = *why ? message_error("%s", why) : 0;
    }
    portaudio_stop(&h);
    control_close(&host);
    alsa_midi_close(h.alsa_midi);
    free(whole);
    restart_free(&h.restart);
    status = control_leave(h.session, h.is_stuck, status);
    live_options_free(&settings);
    return status;
}

#else

int live_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(&portaudio_line, argc, argv, false, &settings);
    if (status >= 0) return status;
    live_options_free(&settings);
    return message_error("live: " MESSAGE_NO_PART("PortAudio", "portaudio19-dev"));
}
#endif
