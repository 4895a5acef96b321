#include "backend.h"
#include "c_locale.h"

#include <stdarg.h>
#include <stdio.h>

int fail(int code, char *why, size_t cap, const char *format, ...)
{
    if (why && cap > 0) {
        va_list args;
        locale_t was = c_locale_enter();
        va_start(args, format);
        vsnprintf(why, cap, format, args);
        va_end(args);
        c_locale_leave(was);
    }
    return code;
}
