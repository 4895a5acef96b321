/* audio_device_choice - lists PortAudio's devices and chooses one by its name.
 *
 * A child process asks PortAudio, because PortAudio aborts if ALSA has no configuration, and because ALSA and JACK
 * print every attempt on standard error. It is a new start of this program (`haloconv --_devices`): a copy of a process with
 * threads may find a lock taken that nobody releases.
 */
#ifndef AUDIO_DEVICE_CHOICE_H
#define AUDIO_DEVICE_CHOICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns an array of objects: index, name, api, inputs, outputs, rate, default_input, default_output. NULL: the child
 * failed. The caller releases the array. */
json_t *audio_devices_list(void);

/* main calls it: this program answers --_devices. Another one, as a test, would start itself again and again. */
void audio_devices_by_program(void);

/* The child's part: writes the array as JSON to file descriptor 3. Returns the exit status. */
int audio_devices_ask(void);

struct audio_device {
    char name[256], api[64]; /* identify the device when it comes back; its number may change */
    int index, max_channels, rate;
};

/* Chooses the device with this number, name, "API: name" or part of it; wanted NULL: the default device. may_guess: if
 * several match equally well, the first. false: no device matches, or several do; why has the reason, with their list. */
bool audio_device_choose(struct audio_device *device, const json_t *list, const char *wanted, bool may_guess,
                         bool is_input, char *why, size_t cap);

#endif
