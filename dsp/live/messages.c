#include "messages.h"

#include "dsp/base/c_locale.h"
#include "dsp/base/error.h"

#include <stdarg.h>
#include <stdio.h>

void live_report(const hc_live_config *c, int level, const char *format, ...)
{
    char text[MESSAGE_CAP];
    va_list args;
    if (!c->say) return;
    locale_t was = c_locale_enter();
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c_locale_leave(was);
    text_clean(text);
    c->say(c->data, level, text);
}

void live_answer(const hc_live_config *c, uint64_t number, int error, const char *why)
{
    if (c->answer && number > 0) c->answer(c->data, number, error, error ? why : "");
}
