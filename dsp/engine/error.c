#include "backend.h"

#include <stdarg.h>
#include <stdio.h>

int fail(int code, char *why, size_t cap, const char *format, ...)
{
    if (why && cap > 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(why, cap, format, args);
        va_end(args);
    }
    return code;
}
