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

/* Makes a text. A byte xx that belongs to no character becomes U+FFFD, or in a name 0 and the digits xx. */
static json_t *json_make_text(const char *text, bool is_name)
{
    enum { LONGEST = sizeof UTF8_REPLACEMENT - 1 };
    if (!text) return json_null();
    char *copy = json_malloc(strlen(text) * LONGEST + 1), *to = copy;
    if (!copy) return NULL;
    for (const char *at = text; *at;) {
        size_t n = utf8_bytes((const unsigned char *)at);
        if (n)
            to = mempcpy(to, at, n);
        else
            to += is_name ? sprintf(to, "%c%02x", 0, *at & 0xff) : sprintf(to, "%s", UTF8_REPLACEMENT);
        at += n ? n : 1;
    }
    json_t *json = json_stringn(copy, (size_t)(to - copy));
    free(copy);
    return json;
}

json_t *json_text(const char *text)
{
    return json_make_text(text, false);
}

/* ---- names of any bytes ------------------------------------------------------------------------- */

json_t *json_name(const char *text)
{
    return json_make_text(text, true);
}

void json_names_write(char *line)
{
    char *to = line;
    for (const char *at = line; *at;) {
        if (strncmp(at, "\\u0000", 6) == 0) { /* the digits follow */
            to = mempcpy(to, "\\udc", 4);
            at += 6;
            continue;
        }
        if (*at == '\\') *to++ = *at++;
        *to++ = *at++;
    }
    *to = 0;
}

json_t *json_names_read(const char *line, size_t flags, json_error_t *error)
{
    char *copy = strstr(line, "\\u") ? malloc(2 * strlen(line) + 1) : NULL, *to = copy;
    bool has_zero = false; /* the line's own: jansson refuses it, unless it may read the zeros of names */
    for (const char *at = line; copy && *at;) {
        unsigned code = 1;
        bool is_code = at[0] == '\\' && at[1] == 'u' && strspn(at + 2, "0123456789abcdefABCDEF") >= 4 &&
                       sscanf(at + 2, "%4x", &code) == 1;
        has_zero |= code == 0;
        if (code >= 0xdc80 && code <= 0xdcff) {
            to += sprintf(to, "\\u0000%02x", code & 0xff);
            at += 6;
            continue;
        }
        bool is_pair = code >= 0xd800 && code < 0xdc00; /* of two codes that are one character */
        size_t n = strnlen(at, is_pair ? 12 : is_code ? 6 : *at == '\\' ? 2 : 1);
        to = mempcpy(to, at, n);
        at += n;
    }
    if (copy) *to = 0;
    json_t *object = json_loads(copy ? copy : line, flags | (copy && !has_zero ? JSON_ALLOW_NUL : 0), error);
    free(copy);
    return object;
}

const char *json_name_value(json_t *string)
{
    char *text = (char *)json_string_value(string), *to = text; /* in place: the bytes are fewer than the digits */
    for (size_t i = 0, n = json_string_length(string); i < n; i++) {
        unsigned byte = (unsigned char)text[i];
        if (byte == 0 && i + 2 < n && sscanf((char[]){text[i + 1], text[i + 2], 0}, "%x", &byte) == 1) i += 2;
        *to++ = (char)byte;
    }
    *to = 0;
    return text;
}

json_t *json_known(int value)
{
    return value > 0 ? json_integer(value) : json_null();
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_db(double gain)
{
    return json_number(db_of_gain(gain));
}
