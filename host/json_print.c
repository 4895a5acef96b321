#include "json_print.h"

#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int json_print(json_t *object, int digits, const char *subject)
{
    if (!object)
        return message_error("%s: no report as JSON: no memory, or a text that is not UTF-8; leave --json out",
                             subject);
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits));
    putchar('\n');
    json_decref(object);
    return 0;
}

json_t *json_text(const char *text)
{
    if (!text) return json_null();
    json_t *json = json_string(text);
    char *ascii = json ? NULL : strdup(text);
    if (!ascii) return json ? json : json_null();
    for (char *at = ascii; *at; at++)
        if (*at & 0x80) *at = '?';
    json = json_string(ascii);
    free(ascii);
    return json;
}

json_t *json_known(int value)
{
    return value > 0 ? json_integer(value) : json_null();
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
