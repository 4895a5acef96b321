#include "mask_argument.h"

#include "dsp/haloconv_scenes.h"
#include "message.h"

#include <sys/stat.h>

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
