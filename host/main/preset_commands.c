/* haloconv run, haloconv presets - start a preset by its own command; list the presets. */
#include "host/commands.h"
#include "host/message.h"
#include "host/live/session/live_options.h"
#include "host/live/session/preset.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row no_options[] = {{0}};

static const struct kind {
    int (*command)(int argc, char **argv);
    const struct command_line *line;
} kinds[PRESET_KINDS] = {[PRESET_JACK] = {jack_command, &jack_line},
                         [PRESET_PIPEWIRE] = {pipewire_command, &pipewire_line},
                         [PRESET_LIVE] = {live_command, &portaudio_line}};

/* Returns the kind of a preset. jack, as every command, refuses a wrong word with the line's number. */
static const struct kind *find_kind(const struct preset *preset)
{
    enum preset_kind kind = preset_kind(preset_command(preset));
    return &kinds[kind < PRESET_KINDS ? kind : PRESET_JACK];
}

/* ---- run ----------------------------------------------------------------------------------------------------- */

struct run_settings {
    struct option_names preset;
};

static const struct command_line run_line = {
    .command = "run",
    .usage = "PRESET",
    .text =
        "Starts a preset: `haloconv jack --preset PRESET`, or `pipewire` or `live` instead of `jack`, as the preset's "
        "line `command = jack` says.\v"
        "PRESET may be followed by options of that command, which win over the preset. The units "
        "haloconv@PRESET.service of systemd call this command.\n\n"
        "  haloconv run stage --gain -3",
    .groups = {{NULL, no_options}},
    OPTION_NAMES("PRESET", 1, 1, struct run_settings, preset, 0)};

int run_command(int argc, char **argv)
{
    struct run_settings settings = {0};
    char why[MESSAGE_CAP];
    int name = 1; /* index of PRESET; options before it are those of `run` */
    while (name < argc && argv[name][0] == '-' && argv[name][1]) name++;
    int status = option_parse(&run_line, name < argc ? name + 1 : argc, argv, &settings);
    if (status >= 0) return status;
    struct preset *preset = preset_open(settings.preset.list[0], why, sizeof why);
    if (!preset) {
        message_error("%s", why);
        return EXIT_USAGE;
    }
    const struct kind *kind = find_kind(preset);
    preset_close(preset);
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (!words) return message_error("run: no memory; free some memory");
    words[0] = (char *)kind->line->command;
    words[name] = "--preset";
    for (int i = 1; i < argc; i++) words[i < name ? i : i + 1] = argv[i];
    status = kind->command(argc + 1, words);
    free(words);
    return status;
}

/* ---- presets ------------------------------------------------------------------------------------------------- */

static const struct command_line presets_line = {
    .command = "presets",
    .usage = "",
    .text = "Lists the presets and their folders. A preset is a file NAME.conf with the masks and options of "
            "`haloconv jack`, `pipewire` or `live`; `haloconv run NAME` starts it.\v"
            "  haloconv presets",
    .groups = {{NULL, no_options}}};

static int is_preset(const struct dirent *entry)
{
    return preset_stem(entry->d_name) > 0;
}

/* Prints an error for each line that the command would refuse. */
static bool preset_check(struct preset *preset)
{
    static struct live_settings settings;
    memset(&settings, 0, sizeof settings);
    return preset_apply(preset, find_kind(preset)->line, &settings);
}

static void print_preset(int folder, const char *file)
{
    char path[4400], line[4800], why[MESSAGE_CAP];
    snprintf(path, sizeof path, "%s/%s", preset_folder(0), file);
    bool is_hidden = folder > 0 && access(path, F_OK) == 0;
    snprintf(path, sizeof path, "%s/%s", preset_folder(folder), file);
    struct preset *preset = preset_open(path, why, sizeof why);
    int stem = preset_stem(file), n = preset ? preset_masks(preset).n : 0;
    if (preset)
        snprintf(line, sizeof line, "  %-20.*s %s, %d mask%s%s%s", stem, file, preset_command(preset), n, message_s(n),
                 is_hidden ? "; hidden by the preset of this name above" : "",
                 preset_check(preset) ? "" : "; has errors");
    else
        snprintf(line, sizeof line, "  %-20.*s %s", stem, file, why);
    message_clean(line);
    puts(line);
    preset_close(preset);
}

int presets_command(int argc, char **argv)
{
    bool nothing;
    int status = option_parse(&presets_line, argc, argv, &nothing);
    if (status >= 0) return status;
    for (int i = 0; preset_folder(i); i++) {
        struct dirent **files = NULL;
        int n = scandir(preset_folder(i), &files, is_preset, alphasort);
        if (n < 0 && errno != ENOENT)
            printf("%s: %s\n", preset_folder(i), strerror(errno));
        else
            printf("%s:%s\n", preset_folder(i), n > 0 ? "" : " no presets");
        for (int k = 0; k < n; k++) {
            print_preset(i, files[k]->d_name);
            free(files[k]);
        }
        free(files);
    }
    return 0;
}
