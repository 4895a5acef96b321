/* portaudio_device - finds devices, starts PortAudio and closes streams, for every command that uses PortAudio.
 * `command` is the command's name, for messages. */
#ifndef PORTAUDIO_DEVICE_H
#define PORTAUDIO_DEVICE_H

#include "audio_device_choice.h"

#include <portaudio.h>

struct portaudio_pair {
    struct audio_device input, output;
};

/* Finds both devices by audio_device_choose. false: why has the reason. */
bool portaudio_find(struct portaudio_pair *pair, const char *command, const char *input, const char *output,
                    bool may_guess, char *why, size_t cap);

/* Do the names of both devices suggest one clock? */
bool portaudio_has_one_clock(const struct portaudio_pair *pair);

/* Pa_Initialize, with no output of ALSA and JACK on standard error. Pa_Terminate ends it, or portaudio_close. */
bool portaudio_start(const char *command, char *why, size_t cap);

/* Returns one side of a stream, with float channels that are not interleaved. latency_s: the requested latency; below
 * 0: the device's low latency. */
PaStreamParameters portaudio_side(const struct audio_device *device, int n_channels, bool is_input, double latency_s);

const char *portaudio_reason(PaError error);

/* Writes the error text of a device that is busy, or of a stream that cannot be opened; returns false. */
bool portaudio_refuse(const struct portaudio_pair *pair, const char *command, PaError error, char *why, size_t cap);

/* Aborts and closes two streams (NULL: not open), and ends PortAudio. false: PortAudio is stuck, and a callback may
 * still run; do not call PortAudio again. */
bool portaudio_close(PaStream *one, PaStream *other);

#endif
