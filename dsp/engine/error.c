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

const char *hc_strerror(int code)
{
    switch (code) {
    case HC_OK:
        return "success";
    case HC_LATE:
        return "the device was late";
    case HC_EINVAL:
        return "invalid argument";
    case HC_ENOMEM:
        return "out of memory";
    case HC_EDEVICE:
        return "device missing or lost";
    case HC_EFILE:
        return "file cannot be read";
    case HC_EUNSUPPORTED:
        return "not supported by this build";
    default:
        return code > 0 ? "success, with a count" : "unknown error";
    }
}
