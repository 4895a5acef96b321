#include "mask_argument.h"

#include "dsp/haloconv_scenes.h"
#include "message.h"
#include "own_library.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* impulses/README.md describes these masks. */
const struct shipped_mask shipped_masks[] = {
    {"hall", "hall.wav", "a concert hall: 2 channels, 2.2 s"},
    {"room", "room.wav", "a living room: 2 channels, 0.6 s"},
    {"chamber", "chamber.wav", "a stone chamber in true stereo: 4 channels, 1.4 s"},
    {"plate", "plate.wav", "a plate reverb without the direct sound: 2 channels, 2.0 s"},
    {"spring", "spring.wav", "a spring reverb without the direct sound: 1 channel, 1.6 s"},
    {"cabinet", "cabinet.wav", "a guitar loudspeaker: 1 channel, 43 ms"},
    {"head", "head", "a bank for moving sources: 266 directions around a rigid sphere"},
    {NULL, NULL, NULL},
};
enum { N_SHIPPED = sizeof shipped_masks / sizeof *shipped_masks - 1 };

bool shipped_folder(char *folder, size_t cap)
{
    static const char *const below[] = {"../share/haloconv/impulses/", "impulses/"};
    char program[PATH_MAX];
    if (!own_folder(program, sizeof program)) return false;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (snprintf(folder, cap, "%s%s", program, below[i]) < (int)cap && access(folder, X_OK) == 0) return true;
    return false;
}

const char *shipped_path(const char *name)
{
    static char paths[N_SHIPPED][PATH_MAX + 80];
    char folder[PATH_MAX + 40];
    int i = 0;
    while (i < N_SHIPPED && strcmp(name, shipped_masks[i].name) != 0) i++;
    if (i == N_SHIPPED || !shipped_folder(folder, sizeof folder)) return NULL;
    snprintf(paths[i], sizeof paths[i], "%s%s", folder, shipped_masks[i].file);
    return access(paths[i], R_OK) == 0 ? paths[i] : NULL;
}

const char *mask_argument_shipped(const char *name, const char *path)
{
    struct stat own, status;
    const char *shipped = shipped_path(name);
    if (!shipped || stat(path, &own) != 0) return shipped;
    bool is_bank = stat(shipped, &status) == 0 && S_ISDIR(status.st_mode);
    return S_ISDIR(own.st_mode) && !is_bank ? shipped : NULL;
}

const char *mask_argument_path(const char *argument)
{
    const char *shipped = mask_argument_shipped(argument, argument);
    return shipped ? shipped : argument;
}

void mask_argument_explain(const char *path, char *why, size_t cap)
{
    struct stat status;
    if (!hc_bank_is_file(path)) return;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        message_write(
            why, cap,
            "%s: is a directory; give a sound file or a text of coefficients, or --path (of convolve and batch) "
            "if it is a bank of responses",
            path);
    else
        message_write(why, cap,
                      "%s: is a bank of responses, which is not a mask; convolve and batch play it with --path, jack "
                      "and live with --sources",
                      path);
}
