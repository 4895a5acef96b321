#include "json_print.h"

#include "message.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An object that found no memory for a value lacks the value, and its caller does not look. */
static atomic_bool out_of_memory;

static void *json_malloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) atomic_store(&out_of_memory, true);
    return p;
}

void json_start(void)
{
    json_set_alloc_funcs(json_malloc, free);
}

int json_print(json_t *object, int digits, const char *subject)
{
    bool good = object && !atomic_load(&out_of_memory) &&
                json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits)) == 0;
    json_decref(object);
    if (good) putchar('\n');
    if (good || ferror(stdout)) return 0; /* main reports a standard output that cannot be written */
    return message_error("%s: no report as JSON: no memory, or a text that is not UTF-8; leave --json out", subject);
}

json_t *json_text(const char *text)
{
    if (!text) return json_null();
    json_t *json = json_string(text);
    char *ascii = json ? NULL : json_malloc(strlen(text) + 1);
    if (!ascii) return json;
    strcpy(ascii, text);
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
