/* audio_devices - what PortAudio has: asked in a process of its own, because where ALSA has no configuration PortAudio
 * aborts, and ALSA and JACK tell standard error all that they tried. */
#ifndef AUDIO_DEVICES_H
#define AUDIO_DEVICES_H

#include <jansson.h>
#include <stdbool.h>

/* An array of objects: index, name, api, inputs, outputs, rate, default_input, default_output. NULL: PortAudio could
 * not be asked. Before any use of CUDA, which does not survive a fork. The caller releases it. */
json_t *audio_devices_list(void);

/* The device by its number, its name, "API: name" or a part of that; NULL: the default one. Returns NULL: none is
 * there. */
const json_t *audio_devices_find(const json_t *list, const char *wanted, bool is_input);

#endif
