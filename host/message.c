#include "message.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

const char *message_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

void message_clean(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        bool dot = from[0] == '.' && from[1] == ';' && from[2] == ' '; /* libsndfile ends its reasons with one */
        if (!dot) *to++ = (unsigned char)*from < ' ' || *from == 127 ? '?' : *from;
    }
    *to = 0;
}

/* One write a line: two threads' lines, or a progress line, do not mix. */
static void say(const char *prefix, const char *format, va_list values, const char *suffix)
{
    char text[MESSAGE_CAP];
    vsnprintf(text, sizeof text, format, values);
    message_clean(text);
    fprintf(stderr, "%s%s%s\n", prefix, text, suffix);
}

int message_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say("haloconv: ", format, values, "");
    va_end(values);
    return EXIT_FAILED;
}

int message_usage(const char *command, const char *format, ...)
{
    char suffix[64];
    snprintf(suffix, sizeof suffix, "; see `haloconv %s%s--help`", command, *command ? " " : "");
    va_list values;
    va_start(values, format);
    say("haloconv: ", format, values, suffix);
    va_end(values);
    return EXIT_USAGE;
}

void message_note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say("", format, values, "");
    va_end(values);
}

int message_write(char *why, size_t cap, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(why, cap, format, values);
    va_end(values);
    return 0;
}
