#include "format_option.h"

#include "sound_format.h"

bool format_option(const struct option_use *use, void *to)
{
    int format = sound_format_parse(use->text);
    if (!format) return option_refuse(use, "is not a container or subtype");
    *(int *)to = format;
    return true;
}
