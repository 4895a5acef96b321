#include "error.h"
#include "c_locale.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void text_clean(char *text)
{
    unsigned char *to = (unsigned char *)text;
    for (const unsigned char *from = to; *from; from++) {
        bool c1 = from[0] == 0xc2 && from[1] >= 0x80 && from[1] < 0xa0; /* U+0080 to U+009F in UTF-8 */
        if (c1) from++;
        *to++ = c1 || *from < ' ' || *from == 127 ? '?' : *from;
    }
    *to = 0;
}

int fail(int code, struct reason *why, const char *format, ...)
{
    if (why && why->text && why->capacity > 0) {
        va_list args;
        locale_t was = c_locale_enter();
        va_start(args, format);
        vsnprintf(why->text, why->capacity, format, args);
        va_end(args);
        c_locale_leave(was);
        text_clean(why->text);
    }
    return code;
}

const char *hc_strerror(int code)
{
    static const char *const phrases[] = {"not supported by this build",
                                          "file cannot be read",
                                          "device missing or lost",
                                          "out of memory",
                                          "invalid argument",
                                          "success",
                                          "the device was late"};
    if (code >= HC_EUNSUPPORTED && code <= HC_LATE) return phrases[code - HC_EUNSUPPORTED];
    return code > 0 ? "success, with a count" : "unknown error";
}
