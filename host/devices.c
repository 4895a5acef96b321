/* haloconv devices - what can convolve here, and what can record and play. */
#include "host/live/audio_devices.h"
#include "commands.h"
#include "dsp/haloconv.h"
#include "json_print.h"
#include "message.h"

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char help[] = "haloconv devices - the CPU, the GPUs, and the audio devices\n"
                           "\n"
                           "      --json           all of it as one object on standard output\n"
                           "  -h, --help           this text\n"
                           "\n"
                           "The name of a GPU (cuda:0) is what `haloconv convolve --backend` takes.\n";

static json_t *text(const char *value)
{
    json_t *json = json_string(value);
    return json ? json : json_string("(name is not UTF-8)");
}

static void add_processors(json_t *list)
{
    char line[512];
    for (int i = 0; hc_list_devices(i, line, sizeof line) == HC_OK; i++) {
        char *tab = strchr(line, '\t');
        if (tab) *tab = 0;
        json_array_append_new(list, json_pack("{s:o, s:o}", "backend", text(line), "name", text(tab ? tab + 1 : "")));
    }
}

static const char *get(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}
static int get_int(const json_t *object, const char *key)
{
    return (int)json_number_value(json_object_get(object, key));
}

static void print_text(const json_t *processors, const json_t *audio)
{
    size_t i;
    const json_t *device;
    bool gpu = false;
    json_array_foreach(processors, i, device)
    {
        printf("%-8s %s\n", get(device, "backend"), get(device, "name"));
        gpu = gpu || strcmp(get(device, "backend"), "cpu") != 0;
    }
    if (!gpu) printf("no GPU was found; `auto` runs on the CPU\n");
    json_array_foreach(audio, i, device)
    {
        bool default_in = json_is_true(json_object_get(device, "default_input"));
        bool default_out = json_is_true(json_object_get(device, "default_output"));
        printf("audio %-2d %s: %s, %d in, %d out, %d Hz%s%s\n", get_int(device, "index"), get(device, "api"),
               get(device, "name"), get_int(device, "inputs"), get_int(device, "outputs"), get_int(device, "rate"),
               default_in ? ", default input" : "", default_out ? ", default output" : "");
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
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool as_json = false;
    int option, status = 0;
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option != 'j') {
            message_note("see `haloconv devices --help`");
            return EXIT_USAGE;
        }
        as_json = true;
    }
    if (optind < argc) return message_usage("devices", "%s: takes no names", argv[optind]);
    json_t *audio = audio_devices_list(), *processors = json_array();
    add_processors(processors);
    if (as_json) {
        status = json_print(json_pack("{s:O, s:O?}", "processors", processors, "audio", audio), 9, "devices");
    } else {
        print_text(processors, audio);
    }
    json_decref(processors);
    json_decref(audio);
    return status;
}
