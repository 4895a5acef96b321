/* haloconv masks - lists the masks that ship. */
#include "host/commands.h"
#include "host/mask_argument.h"
#include "host/message.h"
#include "host/option.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct command_line masks_line = {
    .command = "masks",
    .usage = "",
    .text =
        "Lists the masks that ship with haloconv, and their folder. Their names are masks of every command, unless "
        "a file has the name.\v"
        "  haloconv convolve voice.wav hall -o wet.wav"};

int masks_command(int argc, char **argv)
{
    bool nothing;
    char folder[PATH_MAX + 40];
    int status = option_parse(&masks_line, argc, argv, &nothing);
    if (status >= 0) return status;
    if (!shipped_folder(folder, sizeof folder))
        return message_error(
            "masks: the masks that ship are not beside the program; run make impulses or make install");
    printf("%.*s:\n", (int)strlen(folder) - 1, folder); /* without its final slash */
    for (const struct shipped_mask *mask = shipped_masks; mask->name; mask++)
        printf("  %-10s %s%s\n", mask->name, mask->text, shipped_path(mask->name) ? "" : "; its file is missing");
    return 0;
}
