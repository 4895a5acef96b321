/* haloconv live - microphone to speakers, by PortAudio. */
#include "host/commands.h"
#include "host/message.h"
#include "live_options.h"

#include <stdio.h>

static const char help[] =
    "haloconv live MASK... [OPTIONS] - microphone to speakers\n"
    "\n"
    "MASK is a sound file, a text of coefficients or a configuration (see haloconv --help). Several masks: the\n"
    "first plays, keys n and p go through them. The latency that the devices really have is printed.\n"
    "\n"
    "      --input DEV      device by its number or (a part of) its name in `haloconv devices`   [the default]\n"
    "      --output DEV     likewise                                                             [the default]\n"
    "      --rate R         Hz                                                            [the output device's]\n"
    "      --block B        frames a callback                                                   [the device's]\n"
    "      --latency MS     to ask the devices for                                       [the devices' low one]\n"
    "      --one-clock      input and output run by one clock, though they look like two cards: nothing is resampled "
    "to\n"
    "                       keep them together, and no latency is added\n"
    "      --reconnect      wait for a device that disappeared\n"
    "      --no-guard       do not turn an output down that stays at full scale for half a second (feedback)\n";

#ifdef HC_WITH_PORTAUDIO
#include "audio_devices.h"
#include "bridge.h"
#include "console.h"
#include "control.h"
#include "drift.h"
#include "host/stopwatch.h"
#include "keys.h"
#include "realtime.h"
#include "relay.h"
#include "session.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <portaudio.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GUESSED_BLOCK = 256, SAME_CALLS = 50 };
enum { CLOSE_S = 2, MOST_JOINED = 8192, MOST_CHANNELS = 1024 };
static const double SILENT_S = 2; /* without a callback: the device is gone */

struct device {
    char name[256], api[64]; /* numbers change when a device is pulled out: it is found again by its name */
    int index, most_channels, rate;
};

struct closing {
    PaStream *stream, *input; /* NULL: not open */
    sem_t done;
};

struct host {
    const struct live_settings *settings;
    char **argv; /* the whole command, for start_over */
    struct relay relay;
    bool goes_on; /* from an earlier process, by the relay */
    int osc_port; /* 0: none */
    struct session *session;
    struct device input, output;
    bool is_initialised, is_stuck; /* is_stuck: PortAudio did not come back from closing its stream */
    PaStream *stream;              /* of both, or of the output where input is open as well */
    PaStream *input_stream;        /* of an input with a clock of its own */
    struct bridge *bridge;         /* between the two; NULL: there is one clock */
    float *joined;                 /* [n_in][MOST_JOINED], off the bridge; audio thread */
    struct bridge_status joint;
    double said_latency_s; /* of the bridge; 0: not yet */
    int rate;
    double latency_s, input_latency_s, output_latency_s;
    struct drift drift;
    double next_point, last_call_s; /* of the drift; when callbacks were last seen to go on */
    uint64_t last_calls, last_input_calls;

    /* from the callback */
    bool is_new; /* the stream's first callback is still to come; audio thread */
    atomic_uint_fast64_t calls, input_calls;
    atomic_uint_fast64_t input_overflows, input_underflows, output_overflows, output_underflows;
    atomic_int n_frames, same;    /* of the last callback, how many times in a row */
    atomic_int_fast64_t delay_us; /* from the microphone to the speakers, as the device tells now */
};

/* ---- callback ---------------------------------------------------------------------------------- */

static void count_flags(struct host *h, PaStreamCallbackFlags flags)
{
    if (flags & paInputOverflow) atomic_fetch_add_explicit(&h->input_overflows, 1, memory_order_relaxed);
    if (flags & paInputUnderflow) atomic_fetch_add_explicit(&h->input_underflows, 1, memory_order_relaxed);
    if (flags & paOutputOverflow) atomic_fetch_add_explicit(&h->output_overflows, 1, memory_order_relaxed);
    if (flags & paOutputUnderflow) atomic_fetch_add_explicit(&h->output_underflows, 1, memory_order_relaxed);
    if (flags & (paInputOverflow | paInputUnderflow | paOutputOverflow | paOutputUnderflow))
        session_count_xrun(h->session);
}

/* The input's own callback. */
static int on_input(const void *input, void *output, unsigned long n, const PaStreamCallbackTimeInfo *time,
                    PaStreamCallbackFlags flags, void *data)
{
    (void)output, (void)time;
    struct host *h = data;
    if (flags) count_flags(h, flags);
    bridge_write(h->bridge, input, (int)n, stopwatch_now());
    atomic_fetch_add_explicit(&h->input_calls, 1, memory_order_relaxed);
    return paContinue;
}

static void play_joined(struct host *h, float *const *output, int n)
{
    float *in[MOST_CHANNELS], *out[MOST_CHANNELS];
    int n_in = session_n_in(h->session), n_out = session_n_out(h->session);
    double now = stopwatch_now();
    for (int ch = 0; ch < n_in; ch++) in[ch] = h->joined + (size_t)ch * MOST_JOINED;
    for (int at = 0, piece; at < n; at += piece) {
        piece = n - at < MOST_JOINED ? n - at : MOST_JOINED;
        for (int ch = 0; ch < n_out; ch++) out[ch] = output[ch] + at;
        bridge_read(h->bridge, in, piece, now + (double)at / h->rate);
        hc_live_process(session_live(h->session), (const float *const *)in, out, piece);
    }
}

static int on_audio(const void *input, void *output, unsigned long n, const PaStreamCallbackTimeInfo *time,
                    PaStreamCallbackFlags flags, void *data)
{
    struct host *h = data;
    if (h->is_new) realtime_touch_stack();
    h->is_new = false;
    if (flags) count_flags(h, flags);
    if (h->bridge)
        play_joined(h, output, (int)n);
    else
        hc_live_process(session_live(h->session), input, output, (int)n);
    bool same = atomic_load_explicit(&h->n_frames, memory_order_relaxed) == (int)n;
    atomic_store_explicit(&h->same, same ? atomic_load_explicit(&h->same, memory_order_relaxed) + 1 : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&h->n_frames, (int)n, memory_order_relaxed);
    atomic_store_explicit(&h->delay_us, (int64_t)(1e6 * (time->outputBufferDacTime - time->inputBufferAdcTime)),
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&h->calls, 1, memory_order_relaxed);
    return paContinue;
}

/* ---- devices ----------------------------------------------------------------------------------- */

static bool take_device(struct device *device, const json_t *list, const char *wanted, bool is_input, char *why,
                        size_t cap)
{
    const char *side = is_input ? "input" : "output";
    const json_t *found = audio_devices_find(list, wanted, is_input);
    if (!found && wanted)
        return message_write(why, cap, "--%s %s: no such device with %ss; `haloconv devices` lists them", side, wanted,
                             side);
    if (!found) return message_write(why, cap, "live: there is no %s device; connect one, or use haloconv jack", side);
    snprintf(device->name, sizeof device->name, "%s", json_string_value(json_object_get(found, "name")));
    snprintf(device->api, sizeof device->api, "%s", json_string_value(json_object_get(found, "api")));
    device->index = (int)json_integer_value(json_object_get(found, "index"));
    device->most_channels = (int)json_integer_value(json_object_get(found, is_input ? "inputs" : "outputs"));
    device->rate = (int)json_number_value(json_object_get(found, "rate"));
    return true;
}

static bool find_devices(struct host *h, bool again, char *why, size_t cap)
{
    char input[400], output[400];
    snprintf(input, sizeof input, "%s: %s", h->input.api, h->input.name);
    snprintf(output, sizeof output, "%s: %s", h->output.api, h->output.name);
    json_t *list = audio_devices_list();
    if (!list)
        return message_write(why, cap,
                             "live: PortAudio fails on this machine's audio set-up; repair it (aplay -l says "
                             "what ALSA sees), or use haloconv jack");
    bool good = take_device(&h->input, list, again ? input : h->settings->input, true, why, cap) &&
                take_device(&h->output, list, again ? output : h->settings->output, false, why, cap);
    json_decref(list);
    return good;
}

/* The number of an ALSA card: "HDA Intel PCH: ALC257 Analog (hw:0,0)" is 0's. -1: the name does not tell. */
static int card_of(const struct device *device)
{
    const char *hw = strstr(device->name, "(hw:");
    return hw && hw[4] >= '0' && hw[4] <= '9' ? atoi(hw + 4) : -1;
}

/* JACK's devices are all its server's; two devices of one card share its clock. */
static bool have_one_clock(const struct host *h)
{
    int in = card_of(&h->input), out = card_of(&h->output);
    if (h->settings->one_clock) return true;
    if (strcmp(h->input.api, h->output.api) != 0) return false;
    return strncmp(h->input.api, "JACK", 4) == 0 || strcmp(h->input.name, h->output.name) == 0 ||
           (in >= 0 && in == out);
}

/* With --reconnect devices may come later. false: they did not, or a signal ended the wait; then *why is empty. */
static bool await_devices(struct host *h, char *why, size_t cap)
{
    bool said = false;
    while (!find_devices(h, false, why, cap)) {
        if (!h->settings->reconnect) return false;
        if (!said) console_say("%s; waiting for it", why);
        said = true;
        *why = 0;
        if (!control_pause()) return false;
    }
    return true;
}

/* Not in every PortAudio: the name of its client where the device is a JACK server. */
PaError PaJack_SetClientName(const char *name) __attribute__((weak));

/* ALSA and JACK tell standard error all that they tried. */
static PaError initialise_quietly(void)
{
    if (PaJack_SetClientName) PaJack_SetClientName("haloconv");
    fflush(stderr);
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (kept >= 0 && nothing >= 0) dup2(nothing, STDERR_FILENO);
    PaError error = Pa_Initialize();
    if (kept >= 0) dup2(kept, STDERR_FILENO);
    if (kept >= 0) close(kept);
    if (nothing >= 0) close(nothing);
    return error;
}

static const char *reason(PaError error)
{
    const PaHostErrorInfo *host = Pa_GetLastHostErrorInfo();
    return error == paUnanticipatedHostError && host && host->errorText && *host->errorText ? host->errorText
                                                                                            : Pa_GetErrorText(error);
}

static PaStreamParameters parameters(const struct host *h, const struct device *device, int n_channels, bool is_input)
{
    const PaDeviceInfo *info = Pa_GetDeviceInfo(device->index);
    double low = !info ? 0 : is_input ? info->defaultLowInputLatency : info->defaultLowOutputLatency;
    return (PaStreamParameters){
        .device = device->index,
        .channelCount = n_channels,
        .sampleFormat = paFloat32 | paNonInterleaved,
        .suggestedLatency = h->settings->latency_ms >= 0 ? h->settings->latency_ms * 1e-3 : low,
    };
}

/* ---- the stream -------------------------------------------------------------------------------- */

/* A bridge where there are two clocks. Without it they run as one stream, which their drift interrupts now and then. */
static bool join_clocks(struct host *h, char *why, size_t cap)
{
    if (have_one_clock(h)) return true;
    h->bridge = bridge_open(session_n_in(h->session), h->rate, why, cap);
    h->joined = h->bridge ? calloc((size_t)session_n_in(h->session) * MOST_JOINED, sizeof *h->joined) : NULL;
    if (h->joined) return true;
    bridge_close(h->bridge);
    h->bridge = NULL;
    if (strcmp(h->input.api, h->output.api) != 0) return false; /* they cannot be one stream */
    console_say("the clocks of %s and %s cannot be joined: %s", h->input.name, h->output.name, why);
    return true;
}

/* Two streams, each called back by its own device. */
static PaError open_joined(struct host *h, PaStreamParameters *in, const PaStreamParameters *out, unsigned long block)
{
    in->sampleFormat = paFloat32; /* interleaved, as the bridge takes it */
    PaError error = Pa_OpenStream(&h->input_stream, in, NULL, h->rate, block, paNoFlag, on_input, h);
    if (error != paNoError) {
        h->input_stream = NULL;
        return error;
    }
    error = Pa_OpenStream(&h->stream, NULL, out, h->rate, block, paNoFlag, on_audio, h);
    if (error == paNoError) return Pa_StartStream(h->input_stream);
    h->stream = NULL;
    return error;
}

static bool start(struct host *h, char *why, size_t cap)
{
    if (!join_clocks(h, why, cap)) return false;
    PaStreamParameters in = parameters(h, &h->input, session_n_in(h->session), true);
    PaStreamParameters out = parameters(h, &h->output, session_n_out(h->session), false);
    unsigned long block = h->settings->block ? (unsigned long)h->settings->block : paFramesPerBufferUnspecified;
    PaError error = Pa_IsFormatSupported(&in, h->bridge ? NULL : &out, h->rate);
    if (h->bridge && error == paFormatIsSupported) error = Pa_IsFormatSupported(NULL, &out, h->rate);
    if (error != paFormatIsSupported)
        return message_write(why, cap, "live: %s to %s, %d in, %d out, %d Hz: %s; try another --rate, or --inputs",
                             h->input.name, h->output.name, in.channelCount, out.channelCount, h->rate, reason(error));
    h->is_new = true;
    if (h->bridge)
        error = open_joined(h, &in, &out, block);
    else
        error = Pa_OpenStream(&h->stream, &in, &out, h->rate, block, paNoFlag, on_audio, h);
    if (error != paNoError && !h->bridge) h->stream = NULL;
    if (error == paNoError) error = Pa_StartStream(h->stream);
    if (error != paNoError)
        return message_write(why, cap, "live: %s to %s: %s; is another program using it?", h->input.name,
                             h->output.name, reason(error));
    const PaStreamInfo *info = Pa_GetStreamInfo(h->stream),
                       *input = h->bridge ? Pa_GetStreamInfo(h->input_stream) : info;
    h->input_latency_s = input ? input->inputLatency : 0;
    h->output_latency_s = info ? info->outputLatency : 0;
    h->said_latency_s = 0;
    h->drift = (struct drift){0};
    h->last_calls = atomic_load(&h->calls);
    h->last_input_calls = atomic_load(&h->input_calls);
    h->last_call_s = stopwatch_now();
    h->next_point = h->last_call_s + 5; /* the start is uneven */
    return true;
}

/* Close what is open; in a thread, because PortAudio can wait ten minutes for a JACK server that is no more. */
static void *close_stream(void *arg)
{
    struct closing *c = arg;
    if (c->stream) Pa_AbortStream(c->stream); /* faded out already */
    if (c->stream) Pa_CloseStream(c->stream);
    if (c->input) Pa_AbortStream(c->input);
    if (c->input) Pa_CloseStream(c->input);
    Pa_Terminate();
    sem_post(&c->done);
    return NULL;
}

static void stop(void *data)
{
    struct host *h = data;
    if (h->bridge) bridge_get_status(h->bridge, &h->joint);
    if (h->stream || h->input_stream) {
        static struct closing c; /* the thread may outlive this call; it is the last one then */
        pthread_t thread;
        struct timespec give_up;
        c.stream = h->stream;
        c.input = h->input_stream;
        sem_init(&c.done, 0, 0);
        clock_gettime(CLOCK_REALTIME, &give_up);
        give_up.tv_sec += CLOSE_S;
        if (pthread_create(&thread, NULL, close_stream, &c) != 0) return;
        pthread_detach(thread);
        h->is_stuck = sem_timedwait(&c.done, &give_up) != 0;
    } else if (h->is_initialised) {
        Pa_Terminate();
    }
    h->stream = h->input_stream = NULL;
    h->is_initialised = false;
    if (h->is_stuck) return; /* a callback may still be at it */
    bridge_close(h->bridge);
    h->bridge = NULL;
    free(h->joined);
    h->joined = NULL;
}

static bool initialise(struct host *h, char *why, size_t cap)
{
    PaError error = initialise_quietly();
    h->is_initialised = error == paNoError;
    return h->is_initialised ||
           message_write(why, cap, "live: PortAudio cannot start: %s; see `haloconv devices`", reason(error));
}

static void add_stats(void *data, json_t *json)
{
    struct host *h = data;
    json_object_set_new(json, "input_overflows", json_integer((json_int_t)atomic_load(&h->input_overflows)));
    json_object_set_new(json, "input_underflows", json_integer((json_int_t)atomic_load(&h->input_underflows)));
    json_object_set_new(json, "output_overflows", json_integer((json_int_t)atomic_load(&h->output_overflows)));
    json_object_set_new(json, "output_underflows", json_integer((json_int_t)atomic_load(&h->output_underflows)));
    json_object_set_new(json, "latency_ms",
                        json_real(1e3 * (h->input_latency_s + h->output_latency_s + h->joint.latency_s)));
    bool joined = h->joint.latency_s > 0;
    json_object_set_new(json, "drift_ppm", json_real(joined ? h->joint.ppm : drift_ppm(&h->drift)));
    json_object_set_new(json, "clocks", json_integer(joined ? 2 : 1));
    json_object_set_new(json, "clock_restarts", json_integer((json_int_t)h->joint.restarts));
}

/* PortAudio will not be used again in this process, but it can be in the next: the same command starts over. */
static void start_over(struct host *h)
{
    const char *asked = h->settings->osc, *colon = asked ? strrchr(asked, ':') : NULL;
    char osc[300];
    console_say("%s: is back; starting over", h->output.name);
    keys_close();
    snprintf(osc, sizeof osc, "%.*s%d", colon ? (int)(colon + 1 - asked) : 0, colon ? asked : "", h->osc_port);
    json_t *more = json_object();
    add_stats(h, more);
    relay_run(h->argv, h->session, h->osc_port ? osc : NULL, more);
}

/* The settings that the process before this one had come to. */
static void take_relay(struct host *h, struct live_settings *settings)
{
    h->goes_on = relay_take(&h->relay);
    if (!h->goes_on) return;
    keepsake_settings(&h->relay.kept, &settings->session);
    settings->mask = h->relay.kept.mask;
    if (*h->relay.osc) settings->osc = h->relay.osc;
}

static uint64_t counted(const struct host *h, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(h->relay.more, name));
}

/* Knobs and statistics go on. */
static void go_on(struct host *h)
{
    if (!h->goes_on) return;
    keepsake_give(&h->relay.kept, h->session);
    session_count_on(h->session, &h->relay.before);
    atomic_store(&h->input_overflows, counted(h, "input_overflows"));
    atomic_store(&h->input_underflows, counted(h, "input_underflows"));
    atomic_store(&h->output_overflows, counted(h, "output_overflows"));
    atomic_store(&h->output_underflows, counted(h, "output_underflows"));
}

static bool restart(void *data, char *why, size_t cap)
{
    struct host *h = data;
    if (!find_devices(h, true, why, cap)) return false;
    if (h->is_stuck) start_over(h);
    if (!h->is_stuck && initialise(h, why, cap) && start(h, why, cap)) return true;
    stop(h);
    return false;
}

static bool is_alive(void *data)
{
    struct host *h = data;
    uint64_t calls = atomic_load(&h->calls), input_calls = atomic_load(&h->input_calls);
    double now = stopwatch_now();
    bool went_on = calls != h->last_calls && (!h->bridge || input_calls != h->last_input_calls);
    if (went_on) {
        h->last_call_s = now;
        h->last_calls = calls;
        h->last_input_calls = input_calls;
    }
    return Pa_IsStreamActive(h->stream) == 1 && (!h->bridge || Pa_IsStreamActive(h->input_stream) == 1) &&
           now - h->last_call_s < SILENT_S;
}

static void say_latency(const struct host *h, double ours_s)
{
    char ours[64] = "none of ours";
    if (ours_s > 0) snprintf(ours, sizeof ours, "%.1f of ours, to join two clocks", 1e3 * ours_s);
    console_say("latency %.1f ms: input %.1f, output %.1f, and %s",
                1e3 * (h->input_latency_s + h->output_latency_s + ours_s), 1e3 * h->input_latency_s,
                1e3 * h->output_latency_s, ours);
}

/* What the bridge adds is known when it begins, and may have to grow. */
static void say_joint(struct host *h)
{
    bridge_get_status(h->bridge, &h->joint);
    if (!h->joint.runs || h->joint.latency_s == h->said_latency_s) return;
    h->said_latency_s = h->joint.latency_s;
    say_latency(h, h->joint.latency_s);
}

/* The engine's block follows the device's once that is known; the drift gets a point a second. */
static void tend(void *data)
{
    struct host *h = data;
    int n = atomic_load(&h->n_frames);
    if (atomic_load(&h->same) >= SAME_CALLS && n > 0) session_request_format(h->session, h->rate, n);
    double now = stopwatch_now();
    if (h->bridge) say_joint(h);
    if (now < h->next_point || h->bridge) return;
    h->next_point = now + 1;
    drift_add(&h->drift, now, 1e-6 * (double)atomic_load(&h->delay_us));
}

static void say_more(void *data)
{
    struct host *h = data;
    double ppm = drift_ppm(&h->drift);
    if (h->joint.restarts > 0)
        console_say("between the clocks of %s and %s the sound broke off %llu times: callbacks came late",
                    h->input.name, h->output.name, (unsigned long long)h->joint.restarts);
    if (strcmp(h->input.name, h->output.name) != 0 && (ppm > 5 || ppm < -5))
        console_say("the clocks of %s and %s part by %.0f ppm, which ends in an over- or underflow every now and then; "
                    "use one device for both, or leave --one-clock out",
                    h->input.name, h->output.name, ppm);
}

static bool open_session(struct host *h, char *why, size_t cap)
{
    struct session_settings settings = h->settings->session;
    settings.most_inputs = h->input.most_channels;
    h->rate = h->settings->rate ? h->settings->rate : h->output.rate;
    int block = h->settings->block ? h->settings->block : GUESSED_BLOCK;
    h->session = session_open(&settings, h->settings->mask, h->rate, block, why, cap);
    if (!h->session) return false;
    go_on(h);
    int n_in = session_n_in(h->session), n_out = session_n_out(h->session);
    if (n_in > h->input.most_channels)
        return message_write(why, cap, "live: %d inputs are wanted, and %s has %d; give --inputs, or another --input",
                             n_in, h->input.name, h->input.most_channels);
    if (n_out > h->output.most_channels)
        return message_write(why, cap, "live: the mask makes %d outputs, and %s has %d; give another --output", n_out,
                             h->output.name, h->output.most_channels);
    return true;
}

static void say_start(const struct host *h)
{
    char why[MESSAGE_CAP];
    struct session_status status;
    session_get_status(h->session, &status);
    console_say("%s to %s (%s): %d in, %d out, %d Hz on %s (%s)", h->input.name, h->output.name, h->output.api,
                session_n_in(h->session), session_n_out(h->session), h->rate, status.device, status.method);
    if (!h->bridge) say_latency(h, 0);
    if (!realtime_lock_memory(why, sizeof why)) console_say("%s", why);
}

int live_command(int argc, char **argv)
{
    struct live_settings settings;
    char **whole = calloc((size_t)argc + 2, sizeof *whole); /* "haloconv live ...", for start_over */
    if (!whole) return message_error("live: no memory; free some");
    int status = live_options_parse(argc, argv, "live", help, false, &settings);
    whole[0] = "haloconv";
    whole[1] = "live";
    for (int i = 1; i < argc; i++) whole[i + 1] = argv[i];
    if (status >= 0) {
        free(whole);
        return status;
    }
    char why[MESSAGE_CAP];
    struct host h = {.settings = &settings, .argv = whole};
    const struct control_host host = {.data = &h,
                                      .what = "the audio device",
                                      .is_alive = is_alive,
                                      .restart = restart,
                                      .stop = stop,
                                      .tend = tend,
                                      .add_stats = add_stats,
                                      .say_more = say_more,
                                      .osc_port = &h.osc_port};
    take_relay(&h, &settings);
    console_open(settings.quiet);
    control_hold_signals();
    if (await_devices(&h, why, sizeof why) && open_session(&h, why, sizeof why) && initialise(&h, why, sizeof why) &&
        start(&h, why, sizeof why)) {
        say_start(&h);
        status = control_run(&settings, h.session, &host);
    } else {
        status = *why ? message_error("%s", why) : 0;
    }
    stop(&h);
    free(whole);
    relay_free(&h.relay);
    return control_leave(h.session, h.is_stuck, status);
}

#else

int live_command(int argc, char **argv)
{
    struct live_settings settings;
    int status = live_options_parse(argc, argv, "live", help, false, &settings);
    if (status >= 0) return status;
    return message_error("live: this build has no PortAudio; install portaudio19-dev and build again");
}
#endif
