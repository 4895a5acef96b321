#include "audio_devices.h"

#include "host/json_print.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef HC_WITH_PORTAUDIO
#include <portaudio.h>
#endif

#ifdef HC_WITH_PORTAUDIO
static json_t *ask_portaudio(void)
{
    json_t *list = json_array();
    bool started = Pa_Initialize() == paNoError;
    for (int i = 0; started && i < Pa_GetDeviceCount(); i++) {
        const PaDeviceInfo *device = Pa_GetDeviceInfo(i);
        const PaHostApiInfo *api = Pa_GetHostApiInfo(device->hostApi);
        json_array_append_new(
            list, json_pack("{s:i, s:o, s:o, s:i, s:i, s:f, s:b, s:b}", "index", i, "name", json_text(device->name),
                            "api", json_text(api->name), "inputs", device->maxInputChannels, "outputs",
                            device->maxOutputChannels, "rate", device->defaultSampleRate, "default_input",
                            Pa_GetDefaultInputDevice() == i, "default_output", Pa_GetDefaultOutputDevice() == i));
    }
    if (started) Pa_Terminate();
    return list;
}

json_t *audio_devices_list(void)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        if (null >= 0) dup2(null, STDERR_FILENO);
        close(ends[0]);
        json_dumpfd(ask_portaudio(), ends[1], 0);
        _exit(0);
    }
    close(ends[1]);
    json_t *list = child > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return list;
}
#else
json_t *audio_devices_list(void)
{
    return json_array();
}
#endif

/* Returns how well a device matches: 4 by its number, 3 by "API: name", 2 by its name, 1 by a part of these, 0: it does
 * not. */
static int match(const json_t *device, const char *wanted)
{
    char number[16], full[512];
    const char *name = json_string_value(json_object_get(device, "name"));
    snprintf(number, sizeof number, "%d", (int)json_integer_value(json_object_get(device, "index")));
    snprintf(full, sizeof full, "%s: %s", json_string_value(json_object_get(device, "api")), name);
    if (strcmp(wanted, number) == 0) return 4;
    if (strcmp(wanted, full) == 0) return 3;
    if (strcmp(wanted, name) == 0) return 2;
    return strcasestr(full, wanted) ? 1 : 0;
}

/* Returns how well a device matches on this side, 0 if it has no channels there. wanted NULL: the default one does. */
static int suits(const json_t *device, const char *wanted, bool is_input)
{
    if (json_integer_value(json_object_get(device, is_input ? "inputs" : "outputs")) < 1) return 0;
    if (wanted) return match(device, wanted);
    return json_is_true(json_object_get(device, is_input ? "default_input" : "default_output"));
}

const json_t *audio_devices_find(const json_t *list, const char *wanted, bool is_input)
{
    const json_t *best = NULL, *device;
    int best_match = 0;
    size_t i;
    json_array_foreach(list, i, device)
    {
        int how = suits(device, wanted, is_input);
        if (how <= best_match) continue;
        best = device;
        best_match = how;
    }
    return best;
}

int audio_devices_alike(const json_t *list, const char *wanted, bool is_input, char *text, size_t cap)
{
    int how = suits(audio_devices_find(list, wanted, is_input), wanted, is_input), n = 0;
    const json_t *device;
    size_t i, at = 0;
    json_array_foreach(list, i, device)
    {
        if (suits(device, wanted, is_input) != how) continue;
        at += (size_t)snprintf(text + at, cap - at, "%s%d %s: %s", n++ ? ", " : "",
                               (int)json_integer_value(json_object_get(device, "index")),
                               json_string_value(json_object_get(device, "api")),
                               json_string_value(json_object_get(device, "name")));
        if (at >= cap) at = cap - 1;
    }
    return n;
}
