#include "option.h"

#include "message.h"
#include "host/files/sound_format.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool option_int(const char *command, const char *option, const char *text, long min, long max, int *value)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < min || number > max) {
        message_usage(command, "%s %s: needs a whole number from %ld to %ld", option, text, min, max);
        return false;
    }
    *value = (int)number;
    return true;
}

bool option_number(const char *command, const char *option, const char *text, double min, double max, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= min && number <= max)) {
        message_usage(command, "%s %s: needs a number from %g to %g", option, text, min, max);
        return false;
    }
    *value = number;
    return true;
}

bool option_db(const char *command, const char *option, const char *text, double *linear)
{
    double db;
    if (strcmp(text, "off") == 0 || strcmp(text, "-inf") == 0) {
        *linear = 0;
        return true;
    }
    if (!option_number(command, option, text, -300, 300, &db)) return false;
    *linear = pow(10, db / 20);
    return true;
}

/* "cuda:N" for "cuda": the number of a device. */
static bool names_device(const char *text, const char *kind)
{
    size_t n = strlen(kind);
    if (strncmp(text, kind, n) != 0 || text[n] != ':') return false;
    const char *number = text + n + 1;
    return *number && strlen(number) < 7 && strspn(number, "0123456789") == strlen(number);
}

bool option_backend(const char *command, const char *text, bool live)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0) return true;
    if (names_device(text, "cuda")) return true;
    if (live && (strcmp(text, "hybrid") == 0 || strcmp(text, "hybrid:cpu") == 0 || names_device(text, "hybrid")))
        return true;
    message_usage(command, "--backend %s: needs %s", text,
                  live ? "auto, cpu, cuda, cuda:N, hybrid or hybrid:N" : "auto, cpu, cuda or cuda:N");
    return false;
}

bool option_method(const char *command, const char *text)
{
    if (strcmp(text, "auto") == 0 || strcmp(text, "direct") == 0 || strcmp(text, "fft") == 0) return true;
    message_usage(command, "--method %s: needs auto, direct or fft", text);
    return false;
}

bool option_format(const char *command, const char *text, int *format)
{
    *format = sound_format_parse(text);
    if (!*format) message_usage(command, "--format %s: no such container or subtype", text);
    return *format != 0;
}

bool option_output(const char *command, const char *output, bool json, const char *what)
{
    if (!output || !*output) {
        message_usage(command, "where to? Give -o");
        return false;
    }
    if (strcmp(output, "-") != 0) return true;
    if (json)
        message_usage(command, "--json and -o - both want standard output; send the %s to a file", what);
    else if (isatty(STDOUT_FILENO))
        message_usage(command, "standard output is a terminal; send the %s to a file or a pipe", what);
    return !json && !isatty(STDOUT_FILENO);
}
