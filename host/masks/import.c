/* haloconv import - writes the configuration of another program, or any mask, as one of jconvolver. */
#include "configuration_write.h"
#include "host/commands.h"
#include "host/files/mask_diagnostics.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct import_settings {
    struct option_names names; /* FILE */
    const char *output;
    int rate;
    bool json;
};

static const struct option_row import_options[] = {
    {"output", 'o', "CONF",
     "The configuration to write; its name ends with .conf. Its sound files get names such as "
     "CONF-1.wav",
     option_text, OPTION_TO(struct import_settings, output)},
    {"rate", 0, "HZ", "Compute filters and resample files for that rate [the rate of FILE, or of its files]",
     option_int, OPTION_TO(struct import_settings, rate), .min = 1, .max = 100000000},
    OPTION_JSON(OPTION_TO(struct import_settings, json)),
    {0}};

static const struct command_line import_line = {
    .command = "import",
    .usage = "FILE -o CONF",
    .text =
        "Writes a configuration in the format of jconvolver that plays the same as FILE: a configuration of BruteFIR, "
        "CamillaDSP, Convolver or PipeWire, filters of Equalizer APO, a preset of EasyEffects or JamesDSP "
        "(haloconv-masks(5) lists what is read), or any other mask. "
        "The responses that are not in sound files already are written beside it. Each statement that cannot be "
        "represented is printed with its line; a note has the number of computed filters, and the length of the "
        "longest. If FILE makes a sink or microphone of PipeWire, the command that replaces it is printed. "
        "FILE can be given to the other commands directly, too.\v"
        "Exit status: 0 the configuration is written, 1 it is not, 2 wrong usage.\n\n"
        "  haloconv import brutefir.conf -o room.conf",
    .groups = {{NULL, import_options}},
    OPTION_NAMES("one FILE", 1, 1, struct import_settings, names, 1)};

/* Appends an option and its value for a shell, in quotes if the value needs them. */
static void append_word(FILE *to, const char *option, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-,%+:=@";
    bool is_plain = *word && !word[strspn(word, plain)];
    fprintf(to, " %s%s", option, is_plain ? "" : "'");
    for (; *word; word++) fprintf(to, *word == '\'' ? "'\\''" : "%c", *word);
    if (!is_plain) putc('\'', to);
}

/* Would printing the text steer the terminal? */
static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127 || (text[0] == '\xc2' && (unsigned char)text[1] < 0xa0))
            return true;
    return false;
}

static void append_number(FILE *to, const char *before, double value)
{
    fprintf(to, "%s%.6g", before, rint(1e4 * value) / 1e4 + 0.0); /* -0 + 0 is 0 */
}

/* Appends the options and the bank that play the same as the mask. */
static void append_sources(FILE *to, const hc_responses *mask)
{
    const hc_virtual_device *device = mask->device;
    char *channels = NULL;
    size_t size;
    FILE *list = open_memstream(&channels, &size);
    for (int i = 0; list && i < mask->n_in; i++) fprintf(list, "%s%s", i ? "," : "", mask->in_port[i].name);
    if (list && fclose(list) == 0 && strncmp(channels, "in-", 3) != 0)
        append_word(to, "--channels ", channels);
    else
        fprintf(to, " --channels %d", mask->n_in);
    free(channels);
    append_number(to, " --gain ", 20 * log10((double)device->gain));
    for (int i = 0; i < device->n_sources; i++) {
        const float *p = device->sources[i].position;
        double x = (double)p[0], y = (double)p[1], z = (double)p[2], flat = hypot(x, y);
        fprintf(to, " --place %d", i + 1);
        append_number(to, ":", atan2(y, x) * 180 / M_PI);
        append_number(to, ",", atan2(z, flat) * 180 / M_PI);
        append_number(to, ",", hypot(flat, z));
    }
    append_word(to, "", device->bank);
}

/* Makes the command that replaces the sink or virtual microphone of the mask, with the mask at a path or, without a
 * path, with a bank and its sources. The ports of the mask name the channels. NULL: there is none, or a name has
 * control characters. The caller frees it. */
static char *command_make(const hc_responses *mask, const char *path)
{
    const hc_virtual_device *device = mask->device;
    char *command = NULL;
    size_t size;
    FILE *to = device && (path || device->n_sources) ? open_memstream(&command, &size) : NULL;
    if (!to) return NULL;
    fputs("haloconv pipewire", to);
    append_word(to, device->is_source ? "--source " : "--sink ", device->name);
    if (device->description) append_word(to, "--description ", device->description);
    if (device->target) append_word(to, device->is_source ? "--input " : "--output ", device->target);
    if (path)
        append_word(to, *path == '-' ? "./" : "", path);
    else
        append_sources(to, mask);
    if (fclose(to) == 0 && !has_control(command)) return command;
    free(command);
    return NULL;
}

static void print_report(const struct configuration_out *out)
{
    const hc_responses *mask = out->mask;
    printf("%s: %d input%s, %d output%s, %d response%s", out->path, mask->n_in, message_s(mask->n_in), mask->n_out,
           message_s(mask->n_out), mask->n_routes, message_s(mask->n_routes));
    if (mask->rate) printf(", %d Hz", mask->rate);
    putchar('\n');
    for (int i = 0; i < out->n_files; i++)
        printf("%s: %d channel%s of %d frame%s\n", out->files[i].path, out->files[i].n_channels,
               message_s(out->files[i].n_channels), out->files[i].n_frames, message_s(out->files[i].n_frames));
    char *command = command_make(mask, out->source), *moving = command_make(mask, NULL);
    const char *device = !mask->device ? "" : mask->device->is_source ? "microphone" : "sink";
    if (command)
        printf("replaces its %s: %s\n", device, command);
    else if (mask->device)
        printf("its %s has a name with control characters: no command is printed; give it another name\n", device);
    if (moving) printf("or with sources that can move: %s\n", moving);
    free(command);
    free(moving);
}

static int import_print_json(const struct configuration_out *out, const char *why)
{
    const hc_responses *mask = out->mask;
    json_t *files = json_array();
    for (int i = 0; i < out->n_files; i++)
        json_array_append_new(files, json_pack("{s:o, s:i, s:i}", "file", json_text(out->files[i].path), "channels",
                                               out->files[i].n_channels, "frames", out->files[i].n_frames));
    char *command = command_make(mask, out->source), *moving = command_make(mask, NULL);
    json_t *all =
        json_pack("{s:o, s:o, s:b, s:i, s:i, s:i, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o}", "file",
                  json_text(out->source), "output", json_text(out->path), "ok", !why, "inputs", mask->n_in, "outputs",
                  mask->n_out, "responses", mask->n_routes, "rate", json_known(mask->rate), "files", files, "errors",
                  mask->n_errors, "warnings", mask->n_warnings, "error", json_text(why), "diagnostics",
                  mask_diagnostics_json(mask), "command", json_text(command), "moving_command", json_text(moving));
    free(command);
    free(moving);
    int status = json_print(all, 17, out->path);
    return why ? EXIT_FAILED : status;
}

/* Loads FILE; a mask that is not a configuration gets a route for each channel. */
static bool mask_load(const char *path, int rate, hc_responses *mask, char *why, size_t cap)
{
    if (hc_responses_load(path, 0, rate, HC_TELL_FILTERS, mask, why, cap) != HC_OK) return false;
    return !mask->channel || hc_responses_route(mask, path, mask->n_channels, why, cap) == HC_OK;
}

static int import(const struct import_settings *s)
{
    hc_responses mask;
    struct files_read read = {0};
    char why[MESSAGE_CAP];
    struct configuration_out out = {.path = s->output, .source = s->names.list[0], .mask = &mask, .read = &read};
    int status = EXIT_FAILED;
    bool is_loaded = mask_load(out.source, s->rate, &mask, why, sizeof why);
    bool good = is_loaded && (files_read_add_mask(&read, out.source) ||
                              message_write(why, sizeof why, "%s: no memory; free some memory", out.source));
    good = good && configuration_write(&out, why, sizeof why);
    if (s->json) {
        status = import_print_json(&out, good ? NULL : why);
    } else if (is_loaded) {
        mask_diagnostics_print_all(&mask);
        if (good && !message_is_quiet()) print_report(&out);
        status = good ? 0 : message_error("%s", why);
    } else {
        mask_diagnostics_fail(&mask, out.source, why);
    }
    configuration_write_free(&out);
    files_read_free(&read);
    hc_responses_free(&mask);
    return status;
}

int import_command(int argc, char **argv)
{
    struct import_settings settings = {0};
    int status = option_parse(&import_line, argc, argv, &settings);
    if (status >= 0) return status;
    const char *output = settings.output, *dot = output ? strrchr(output, '.') : NULL;
    if (!output || !*output) return message_usage("import", "needs an output; give -o");
    if (!dot || strcasecmp(dot, ".conf") != 0)
        return message_usage("import", "%s: is not a name of a configuration; end it with .conf", output);
    return import(&settings);
}
