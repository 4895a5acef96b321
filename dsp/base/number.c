#include "number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *number_read(const char *text, double min, double max, double *value)
{
    char *end;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* glibc returns a constant: nothing to free */
    *value = c ? strtod_l(text, &end, c) : strtod(text, &end);
    return end > text && (isnan(min) || (*value >= min && *value <= max)) ? end : NULL;
}

bool number_is(const char *text, double min, double max, double *value)
{
    const char *end = number_read(text, min, max, value);
    return end && !*end;
}

int number_list_read(const char *text, double *list, int max)
{
    for (int n = 0; n < max; text++) {
        text = number_read(text, -INFINITY, INFINITY, &list[n++]);
        if (!text || (*text && *text != ',')) break;
        if (!*text) return n;
    }
    return 0;
}

/* ---- numbers as programs print them for people ---------------------------------------------------- */

enum { MAX_LETTERS = 512 }; /* max. length of a number; DBL_MIN in full has 330 letters */

static const char digits[] = "0123456789";
static const char *const hard_blanks[] = {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89", "\xa0"};
static const char *const apostrophes[] = {"'", "\xe2\x80\x99"};
#define LENGTH_OF(list) (sizeof(list) / sizeof *(list))

/* Returns the length in bytes of the list's string with which the text starts, else 0. */
static size_t length_in(const char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(text, list[i], strlen(list[i])) == 0) return strlen(list[i]);
    return 0;
}

size_t grouped_number_blanks(const char *text)
{
    const char *at = text;
    for (size_t length = 1; length > 0; at += length)
        length = *at == ' ' || *at == '\t' ? 1 : length_in(hard_blanks, LENGTH_OF(hard_blanks), at);
    return (size_t)(at - text);
}

/* Returns the length in bytes of a separator at `at` that exactly three digits follow; 0: there is none. */
static size_t separator_length(const char *at, unsigned flags)
{
    size_t length = length_in(hard_blanks, LENGTH_OF(hard_blanks), at);
    if (!length) length = length_in(apostrophes, LENGTH_OF(apostrophes), at);
    if (*at == ' ' && flags & GROUPED_BY_BLANKS) length = 1;
    if (*at == '.' || (*at == ',' && flags & GROUPED_DECIMAL_COMMA)) length = 1;
    if (!length || strspn(at + length, digits) != 3) return 0;
    if (*at != '.' && *at != ',') return length;
    const char *behind = at + 4; /* a point or comma separates if another follows, or with GROUPED_BY_POINTS */
    bool is_group = *behind == '.' || (*behind == ',' && flags & GROUPED_DECIMAL_COMMA);
    return is_group || (flags & GROUPED_BY_POINTS && (!*behind || !strchr("eE", *behind))) ? length : 0;
}

double grouped_number(const char *text, unsigned flags, const char **end)
{
    char plain[MAX_LETTERS + 8]; /* the number without separators */
    size_t n = 0;
    const char *at = text + grouped_number_blanks(text);
    *end = text;
    if (strncmp(at, "\xe2\x88\x92", 3) == 0) {
        plain[n++] = '-';
        at += 3;
    } else if (*at == '-' || *at == '+') {
        plain[n++] = *at++;
    }
    size_t length = strspn(at, digits), n_digits = length;
    bool may_group = length >= 1 && length <= 3 && *at != '0';
    for (size_t gap = 0; length && n + length < MAX_LETTERS; length = gap ? 3 : 0) {
        memcpy(plain + n, at, length);
        n += length;
        at += length;
        gap = may_group ? separator_length(at, flags) : 0;
        at += gap;
    }
    if (*at == '.' || (*at == ',' && flags & GROUPED_DECIMAL_COMMA && strspn(at + 1, digits))) {
        length = strspn(at + 1, digits);
        n_digits += length;
        if (n + length >= MAX_LETTERS) return 0;
        plain[n++] = '.';
        memcpy(plain + n, at + 1, length);
        n += length;
        at += 1 + length;
    }
    if (n_digits == 0) return 0;
    if (*at == 'e' || *at == 'E') {
        size_t sign = at[1] == '-' || at[1] == '+';
        length = strspn(at + 1 + sign, digits);
        if (length && n + length + 2 < MAX_LETTERS) {
            memcpy(plain + n, at, 1 + sign + length);
            n += 1 + sign + length;
            at += 1 + sign + length;
        }
    }
    plain[n] = 0;
    double number = 0;
    if (!number_is(plain, -DBL_MAX, DBL_MAX, &number)) return 0;
    *end = at;
    return number;
}
