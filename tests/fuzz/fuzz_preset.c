/* Any bytes as a preset. A line that is refused is named, and a preset that is accepted can be continued: later lines
 * win. */
#include "fuzz.h"

#include "host/live/session/live_options.h"
#include "host/live/session/preset.h"
#include "host/message.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MORE[] = "\ngain = -6\nmask = last.wav\nstats = s.json\n";
static int n_errors;

int __wrap_message_usage(const char *command, const char *format, ...);
int __wrap_message_usage(const char *command, const char *format, ...)
{
    char text[2 * MESSAGE_CAP];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    must(strcmp(command, "jack") == 0 && strncmp(text, "./p.conf:", 9) == 0 && atoi(text + 9) > 0);
    n_errors++;
    return EXIT_USAGE;
}

int __wrap_message_error(const char *format, ...);
int __wrap_message_error(const char *format, ...)
{
    must(n_errors > 0 && strstr(format, "more errors"));
    return EXIT_FAILED;
}

/* Reads p.conf. NULL: it is not a text, or a line was refused. */
static struct preset *open_preset(struct live_settings *settings)
{
    const struct command_line line = {.command = "jack", .groups = {{NULL, live_options}}};
    char why[MESSAGE_CAP] = "";
    struct preset *preset = preset_open("./p.conf", why, sizeof why);
    must(preset || *why);
    *settings = (struct live_settings){.session = {.gain = 1}};
    n_errors = 0;
    bool good = preset && preset_apply(preset, &line, settings);
    must(!preset || good == (n_errors == 0));
    if (good) return preset;
    preset_close(preset);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct live_settings settings;
    file_put("p.conf", data, size);
    struct preset *preset = open_preset(&settings);
    if (!preset) return 0;
    struct option_names masks = preset_masks(preset);
    for (int i = 0; i < masks.n; i++) must(*masks.list[i]);
    must(settings.session.gain >= 0 && isfinite(settings.session.gain));
    must(settings.session.n_inputs >= 0 && settings.session.n_inputs <= 1024);
    must(size < 65536);
    uint8_t *longer = malloc(size + sizeof MORE);
    must(longer);
    memcpy(longer, data, size);
    memcpy(longer + size, MORE, sizeof MORE);
    file_put("p.conf", longer, size + sizeof MORE - 1);
    free(longer);
    preset_close(preset);
    preset = open_preset(&settings);
    if (!preset) return 0; /* too long now */
    must(n_errors == 0 && preset_masks(preset).n == masks.n + 1);
    must(strcmp(preset_masks(preset).list[masks.n], "./last.wav") == 0 && strcmp(settings.stats, "./s.json") == 0);
    must(fabs((double)settings.session.gain - pow(10, -6 / 20.0)) < 1e-6);
    preset_close(preset);
    return 0;
}
