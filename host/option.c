#include "option.h"

#include "message.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
