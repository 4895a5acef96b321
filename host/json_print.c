#include "json_print.h"

#include "message.h"

#include <stdio.h>

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
