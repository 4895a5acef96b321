#include "json_print.h"

#include "message.h"
#include "utf8.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Notes a failed allocation: jansson omits a value that found no memory, and callers do not check each value. */
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

bool json_lacks_memory(void)
{
    return atomic_load(&out_of_memory);
}

int json_print(json_t *object, int digits, const char *subject)
{
    bool good = object && !json_lacks_memory() &&
                json_dumpf(object, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits)) == 0;
    json_decref(object);
    if (good) putchar('\n');
    if (good || ferror(stdout)) return 0; /* main reports an error of standard output */
    return message_error("%s: no memory for the report as JSON; omit --json", subject);
}

json_t *json_text(const char *text)
{
    static const char replacement[] = UTF8_REPLACEMENT;
    if (!text) return json_null();
    char *copy = json_malloc(strlen(text) * (sizeof replacement - 1) + 1), *to = copy;
    if (!copy) return NULL;
    for (const char *at = text; *at;) {
        size_t n = utf8_bytes((const unsigned char *)at);
        to = n ? mempcpy(to, at, n) : mempcpy(to, replacement, sizeof replacement - 1);
        at += n ? n : 1;
    }
    json_t *json = json_stringn(copy, (size_t)(to - copy));
    free(copy);
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
