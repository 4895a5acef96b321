/* format_option - the option --format of commands that write sound files. */
#ifndef FORMAT_OPTION_H
#define FORMAT_OPTION_H

#include "host/option.h"

option_read format_option; /* int: SF_FORMAT_..., a container, a subtype or both */

#define OPTION_FORMAT(to, preset)                                                                                      \
    {"format", 0, "FORMAT",                                                                                            \
     "CONTAINER, SUBTYPE or CONTAINER:SUBTYPE of the output, such as flac, pcm24 or wav:float [" preset "]",           \
     format_option, to}

#endif
