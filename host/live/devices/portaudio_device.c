#include "host/message.h"

#ifdef HC_WITH_PORTAUDIO
#include "portaudio_device.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_S = 2 }; /* longest wait for PortAudio to close its streams */

/* ---- devices ----------------------------------------------------------------------------------- */

bool portaudio_find(struct portaudio_pair *pair, const char *command, const char *input, const char *output,
                    bool may_guess, char *why, size_t cap)
{
    json_t *list = audio_devices_list();
    if (!list)
        return message_write(why, cap,
                             "%s: PortAudio fails on this machine's audio set-up; repair it (`aplay -l` lists "
                             "ALSA's devices), or use JACK",
                             command);
    bool good = audio_device_choose(&pair->input, list, input, may_guess, true, why, cap) &&
                audio_device_choose(&pair->output, list, output, may_guess, false, why, cap);
    json_decref(list);
    return good;
}

/* Returns the number of an ALSA card: 0 for "HDA Intel PCH: ALC257 Analog (hw:0,0)". -1: the name has none. */
static int card_of(const struct audio_device *device)
{
    const char *hw = strstr(device->name, "(hw:");
    return hw && hw[4] >= '0' && hw[4] <= '9' ? atoi(hw + 4) : -1;
}

/* Do two devices share a clock? Devices of JACK share the server's; devices of one card share the card's. */
bool portaudio_has_one_clock(const struct portaudio_pair *pair)
{
    const struct audio_device *input = &pair->input, *output = &pair->output;
    int in = card_of(input), out = card_of(output);
    if (strcmp(input->api, output->api) != 0) return false;
    return strncmp(input->api, "JACK", 4) == 0 || strcmp(input->name, output->name) == 0 || (in >= 0 && in == out);
}

/* ---- the library ------------------------------------------------------------------------------- */

/* Sets the name of PortAudio's JACK client; some builds of PortAudio lack it. */
PaError PaJack_SetClientName(const char *name) __attribute__((weak));

/* ALSA and JACK print every attempt on standard error. */
static PaError initialise_quietly(void)
{
    if (PaJack_SetClientName) PaJack_SetClientName("haloconv");
    fflush(stderr);
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved >= 0 && null >= 0) dup2(null, STDERR_FILENO);
    PaError error = Pa_Initialize();
    if (saved >= 0) dup2(saved, STDERR_FILENO);
    if (saved >= 0) close(saved);
    if (null >= 0) close(null);
    return error;
}

const char *portaudio_reason(PaError error)
{
    const PaHostErrorInfo *host = Pa_GetLastHostErrorInfo();
    return error == paUnanticipatedHostError && host && host->errorText && *host->errorText ? host->errorText
                                                                                            : Pa_GetErrorText(error);
}

bool portaudio_start(const char *command, char *why, size_t cap)
{
    PaError error = initialise_quietly();
    return error == paNoError || message_write(why, cap, "%s: PortAudio cannot start: %s; see `haloconv devices`",
                                               command, portaudio_reason(error));
}

/* ---- streams ----------------------------------------------------------------------------------- */

PaStreamParameters portaudio_side(const struct audio_device *device, int n_channels, bool is_input, double latency_s)
{
    const PaDeviceInfo *info = Pa_GetDeviceInfo(device->index);
    double low = !info ? 0 : is_input ? info->defaultLowInputLatency : info->defaultLowOutputLatency;
    return (PaStreamParameters){
        .device = device->index,
        .channelCount = n_channels,
        .sampleFormat = paFloat32 | paNonInterleaved,
        .suggestedLatency = latency_s >= 0 ? latency_s : low,
    };
}

bool portaudio_refuse(const struct portaudio_pair *pair, const char *command, PaError error, char *why, size_t cap)
{
    if (error == paDeviceUnavailable)
        return message_write(
            why, cap,
            "%s: %s to %s: the device is busy; `fuser -v /dev/snd/*` shows which program holds it, and "
            "`pasuspender -- haloconv %s ...` frees it from PulseAudio or PipeWire",
            command, pair->input.name, pair->output.name, command);
    return message_write(why, cap,
                         "%s: %s to %s: %s; end other programs that use the device, or add the user to the group audio",
                         command, pair->input.name, pair->output.name, portaudio_reason(error));
}

struct device_closing {
    PaStream *streams[2]; /* NULL: not open */
    sem_t done;
};

static void *close_streams(void *arg)
{
    struct device_closing *c = arg;
    for (int i = 0; i < 2; i++) {
        if (!c->streams[i]) continue;
        Pa_AbortStream(c->streams[i]); /* without a fade: the output has faded out */
        Pa_CloseStream(c->streams[i]);
    }
    Pa_Terminate();
    sem_post(&c->done);
    return NULL;
}

/* Closes the streams in a thread, because PortAudio can wait ten minutes for a JACK server that has ended. */
bool portaudio_close(PaStream *one, PaStream *other)
{
    static struct device_closing
        c; /* static: a thread that is stuck outlives this call; no other thread is started after it */
    pthread_t thread;
    struct timespec give_up;
    c.streams[0] = one;
    c.streams[1] = other;
    sem_init(&c.done, 0, 0);
    clock_gettime(CLOCK_REALTIME, &give_up);
    give_up.tv_sec += CLOSE_S;
    if (pthread_create(&thread, NULL, close_streams, &c) != 0) return false;
    pthread_detach(thread);
    return sem_timedwait(&c.done, &give_up) == 0;
}
#endif
