#include "audio_device_choice.h"

#include "host/json_print.h"
#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef HC_WITH_PORTAUDIO
#include <portaudio.h>
#endif

#ifdef HC_WITH_PORTAUDIO
enum { LIST_FD = 3 }; /* of the child */
static bool program_answers;

int audio_devices_ask(void)
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
    return json_dumpfd(list, LIST_FD, 0) == 0 ? 0 : 1;
}

json_t *audio_devices_list(void)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        if (null >= 0) dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
        dup2(ends[1], LIST_FD);
        if (program_answers) execl("/proc/self/exe", "haloconv", "--_devices", NULL);
        _exit(audio_devices_ask()); /* a test's program, or no /proc: as a copy of this process */
    }
    close(ends[1]);
    json_t *list = child > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return list;
}

void audio_devices_by_program(void)
{
    program_answers = true;
}
#else
void audio_devices_by_program(void) {}

int audio_devices_ask(void)
{
    return 1;
}

json_t *audio_devices_list(void)
{
    return json_array();
}
#endif

static const char *audio_device_get(const json_t *device, const char *key)
{
    return json_string_value(json_object_get(device, key));
}

static int audio_device_get_int(const json_t *device, const char *key)
{
    return (int)json_number_value(json_object_get(device, key));
}

/* Returns how well a device matches `wanted`: 4 by its number, 3 by "API: name", 2 by its name, 1 by a part of these, 0
 * not at all. */
static int match(const json_t *device, const char *wanted)
{
    char number[16], full[512];
    snprintf(number, sizeof number, "%d", audio_device_get_int(device, "index"));
    snprintf(full, sizeof full, "%s: %s", audio_device_get(device, "api"), audio_device_get(device, "name"));
    if (strcmp(wanted, number) == 0) return 4;
    if (strcmp(wanted, full) == 0) return 3;
    if (strcmp(wanted, audio_device_get(device, "name")) == 0) return 2;
    return strcasestr(full, wanted) ? 1 : 0;
}

/* Returns how well a device matches on this side; 0: no channels there. wanted NULL: the default device matches. */
static int suits(const json_t *device, const char *wanted, bool is_input)
{
    if (audio_device_get_int(device, is_input ? "inputs" : "outputs") < 1) return 0;
    if (wanted) return match(device, wanted);
    return json_is_true(json_object_get(device, is_input ? "default_input" : "default_output"));
}

static const json_t *audio_device_find(const json_t *list, const char *wanted, bool is_input)
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

/* Writes the devices that match as well as `found`, as "3 ALSA: one mic, 5 ALSA: other mic"; returns their number. */
static int list_alike(const json_t *list, const json_t *found, const char *wanted, bool is_input, char *text,
                      size_t cap)
{
    int how = suits(found, wanted, is_input), n = 0;
    const json_t *device;
    size_t i, at = 0;
    json_array_foreach(list, i, device)
    {
        if (suits(device, wanted, is_input) != how) continue;
        at +=
            (size_t)snprintf(text + at, cap - at, "%s%d %s: %s", n++ ? ", " : "", audio_device_get_int(device, "index"),
                             audio_device_get(device, "api"), audio_device_get(device, "name"));
        if (at >= cap) at = cap - 1;
    }
    return n;
}

bool audio_device_choose(struct audio_device *device, const json_t *list, const char *wanted, bool may_guess,
                         bool is_input, char *why, size_t cap)
{
    char alike[600];
    const char *side = is_input ? "input" : "output";
    const json_t *found = audio_device_find(list, wanted, is_input);
    if (!found && wanted)
        return message_write(why, cap,
                             "--%s %s: no such device with %ss was found; `haloconv devices` lists the devices, "
                             "without those that another program holds (`fuser -v /dev/snd/*` shows these programs)",
                             side, wanted, side);
    if (!found)
        return message_write(why, cap, "live: no %s device is connected; connect one, or use haloconv jack", side);
    int n = wanted && !may_guess ? list_alike(list, found, wanted, is_input, alike, sizeof alike) : 1;
    if (n > 1)
        return message_write(why, cap,
                             "--%s %s: %d devices have this name: %s; give the number or the whole name of one", side,
                             wanted, n, alike);
    snprintf(device->name, sizeof device->name, "%s", audio_device_get(found, "name"));
    snprintf(device->api, sizeof device->api, "%s", audio_device_get(found, "api"));
    device->index = audio_device_get_int(found, "index");
    device->max_channels = audio_device_get_int(found, is_input ? "inputs" : "outputs");
    device->rate = audio_device_get_int(found, "rate");
    return true;
}
