/* haloconv devices - lists the processors that can convolve here, and the audio devices. */
#include "host/commands.h"
#include "dsp/haloconv.h"
#include "host/live/devices/audio_device_choice.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/missing_gpu.h"
#include "host/option.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct option_row devices_options[] = {OPTION_JSON(.to = 0), {0}};

static const struct command_line devices_line = {
    .command = "devices",
    .text = "Lists the CPU, the GPUs, and the audio devices.\v"
            "The first column of a GPU, such as cuda:0, is a value of `haloconv convolve --backend`.\n\n"
            "  haloconv devices --json",
    .groups = {{NULL, devices_options}}};

static void add_processors(json_t *list)
{
    char line[512];
    for (int i = 0; hc_list_devices(i, line, sizeof line) == HC_OK; i++) {
        char *tab = strchr(line, '\t');
        if (tab) *tab = 0;
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "backend", json_text(line), "name", json_text(tab ? tab + 1 : "")));
    }
}

static const char *devices_get(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}
static int devices_get_int(const json_t *object, const char *key)
{
    return (int)json_number_value(json_object_get(object, key));
}

static void devices_print_text(const json_t *processors, const json_t *audio)
{
    size_t i;
    const json_t *device;
    bool gpu = false;
    json_array_foreach(processors, i, device)
    {
        printf("%-8s %s\n", devices_get(device, "backend"), devices_get(device, "name"));
        gpu = gpu || strcmp(devices_get(device, "backend"), "cpu") != 0;
    }
    if (!gpu) {
        char why[MESSAGE_CAP];
        missing_gpu(why, sizeof why);
        printf("no GPU: %s\n", why);
    }
    json_array_foreach(audio, i, device)
    {
        bool default_in = json_is_true(json_object_get(device, "default_input"));
        bool default_out = json_is_true(json_object_get(device, "default_output"));
        printf("audio %-2d %s: %s, %d in, %d out, %d Hz%s%s\n", devices_get_int(device, "index"),
               devices_get(device, "api"), devices_get(device, "name"), devices_get_int(device, "inputs"),
               devices_get_int(device, "outputs"), devices_get_int(device, "rate"), default_in ? ", default input" : "",
               default_out ? ", default output" : "");
    }
    if (json_array_size(audio) == 0) {
#ifdef HC_WITH_PORTAUDIO
        printf(audio ? "no audio device was found\n" : "audio devices could not be listed; PortAudio failed\n");
#else
        printf("audio devices are not listed; this build has no PortAudio\n");
#endif
    }
}

int devices_command(int argc, char **argv)
{
    bool as_json = false;
    int status = option_parse(&devices_line, argc, argv, &as_json);
    if (status >= 0) return status;
    status = 0;
    json_t *audio = audio_devices_list(), *processors = json_array();
    add_processors(processors);
    if (as_json) {
        status = json_print(json_pack("{s:O, s:O?}", "processors", processors, "audio", audio), 9, "devices");
    } else {
        devices_print_text(processors, audio);
    }
    json_decref(processors);
    json_decref(audio);
    return status;
}
