/* take_portaudio - takes through PortAudio: one stream of both devices. */
#include "host/message.h"
#include "take_driver.h"

#ifdef HC_WITH_PORTAUDIO
#include "host/live/devices/portaudio_device.h"

#include <stdio.h>
#include <stdlib.h>

struct portaudio_card {
    struct portaudio_pair pair;
    bool is_started;  /* Pa_Initialize */
    PaStream *stream; /* NULL: not open */
    uint32_t time;    /* frames since the start of the stream; audio thread */
};

static int on_sound(const void *input, void *output, unsigned long n, const PaStreamCallbackTimeInfo *time,
                    PaStreamCallbackFlags flags, void *data)
{
    (void)time;
    struct take *t = data;
    struct portaudio_card *card = t->card;
    if (flags & (paInputOverflow | paInputUnderflow | paOutputOverflow | paOutputUnderflow))
        atomic_fetch_add(&t->gaps, 1);
    take_play_cycle(t, card->time, (float *const *)output, (int)n);
    take_record_cycle(t, card->time, (const float *const *)input, (int)n);
    card->time += (uint32_t)n;
    return paContinue;
}

static void on_end(void *data)
{
    struct take *t = data;
    atomic_store(&t->is_down, true);
}

static bool has_channels(const struct audio_device *device, const char *side, int n, char *why, size_t cap)
{
    return n <= device->max_channels ||
           message_write(why, cap,
                         "portaudio: %s has %d %ss, and %d are asked for; ask for fewer, or use another device",
                         device->name, device->max_channels, side, n);
}

static bool stream_start(struct take *t, struct portaudio_card *card, char *why, size_t cap)
{
    PaStreamParameters in = portaudio_side(&card->pair.input, t->settings.n_inputs, true, -1);
    PaStreamParameters out = portaudio_side(&card->pair.output, t->settings.n_outputs, false, -1);
    PaError error = Pa_IsFormatSupported(&in, &out, t->rate);
    if (error != paFormatIsSupported && error != paDeviceUnavailable)
        return message_write(why, cap,
                             "portaudio: %s to %s cannot be opened with %d in, %d out at %d Hz: %s; try another --rate",
                             card->pair.input.name, card->pair.output.name, in.channelCount, out.channelCount, t->rate,
                             portaudio_reason(error));
    if (error == paNoError)
        error = Pa_OpenStream(&card->stream, &in, &out, t->rate, paFramesPerBufferUnspecified, paNoFlag, on_sound, t);
    if (error != paNoError) card->stream = NULL;
    if (error == paNoError) error = Pa_SetStreamFinishedCallback(card->stream, on_end);
    if (error == paNoError) error = Pa_StartStream(card->stream);
    return error == paNoError || portaudio_refuse(&card->pair, "measure", error, why, cap);
}

static bool portaudio_open_card(struct take *t, char *why, size_t cap)
{
    const struct take_settings *s = &t->settings;
    struct portaudio_card *card = t->card = calloc(1, sizeof *card);
    if (!card) return message_write(why, cap, "portaudio: no memory; free some memory");
    if (!portaudio_find(&card->pair, "measure", s->input_device, s->output_device, false, why, cap) ||
        !has_channels(&card->pair.input, "input", s->n_inputs, why, cap) ||
        !has_channels(&card->pair.output, "output", s->n_outputs, why, cap))
        return false;
    if (!portaudio_has_one_clock(&card->pair))
        message_note(
            "%s and %s may have two clocks, which blurs the highest frequencies; one device for both avoids this",
            card->pair.input.name, card->pair.output.name);
    t->rate = s->rate ? s->rate : card->pair.output.rate;
    card->is_started = portaudio_start("measure", why, cap);
    return card->is_started && stream_start(t, card, why, cap);
}

static void portaudio_name_output(const struct take *t, int output, char *name, size_t cap)
{
    (void)output;
    const struct audio_device *device = &((const struct portaudio_card *)t->card)->pair.output;
    snprintf(name, cap, "%s: %s", device->api, device->name);
}

static void portaudio_close_card(struct take *t)
{
    struct portaudio_card *card = t->card;
    if (!card) return;
    bool is_stuck = card->stream && !portaudio_close(card->stream, NULL);
    if (!card->stream && card->is_started) Pa_Terminate();
    t->is_stuck = is_stuck;
    if (is_stuck) return; /* a callback may still run */
    free(card);
    t->card = NULL;
}

#else

static bool portaudio_open_card(struct take *t, char *why, size_t cap)
{
    (void)t;
    return message_write(why, cap, "portaudio: " MESSAGE_NO_PART("PortAudio", "portaudio19-dev"));
}

static void portaudio_name_output(const struct take *t, int output, char *name, size_t cap)
{
    (void)t, (void)output, (void)cap;
    *name = 0;
}

static void portaudio_close_card(struct take *t)
{
    (void)t;
}
#endif

const struct take_driver take_portaudio = {
    .gap = "close other programs",
    .open = portaudio_open_card,
    .name_output = portaudio_name_output,
    .close = portaudio_close_card,
};
