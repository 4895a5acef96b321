/* audio_devices - lists PortAudio's devices and finds one by its name.
 *
 * A child process asks PortAudio, because PortAudio aborts if ALSA has no configuration, and because ALSA and JACK
 * print every attempt on standard error.
 */
#ifndef AUDIO_DEVICES_H
#define AUDIO_DEVICES_H

#include <jansson.h>
#include <stdbool.h>

/* Returns an array of objects: index, name, api, inputs, outputs, rate, default_input, default_output. NULL: the child
 * failed. The caller releases it. Call it before any use of CUDA, which does not survive a fork. */
json_t *audio_devices_list(void);

/* Finds the device with this number, name, "API: name" or part of it; wanted NULL: the default one. NULL: none. */
const json_t *audio_devices_find(const json_t *list, const char *wanted, bool is_input);

/* Writes the devices that match as well as the one of audio_devices_find, as "3 ALSA: one mic, 5 ALSA: other mic", and
 * returns their number. There is at least one. */
int audio_devices_alike(const json_t *list, const char *wanted, bool is_input, char *text, size_t cap);

#endif
