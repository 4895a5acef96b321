/* relaxed_json - a tree of the relaxed JSON that PipeWire's configurations are written in.
 *
 *   context.modules = [ { name = filter-chain args = { gain = 0.5 } } ]     # a comment
 *
 * Colons, equals signs and commas are blanks. A text needs quotes only if it contains one of these, a blank, quotes, #,
 * or brackets. The braces around the whole may be missing.
 */
#ifndef HALOCONV_RELAXED_JSON_H
#define HALOCONV_RELAXED_JSON_H

#include "import.h"

enum json_kind { JSON_TEXT, JSON_LIST, JSON_MAP };

struct json {
    enum json_kind kind;
    int line;
    bool is_quoted;      /* a text                                          */
    const char *key;     /* of a value in a mapping; NULL: a list's         */
    const char *text;    /* "" for lists and mappings                       */
    struct json *first;  /* of a list or mapping; NULL: it is empty         */
    struct json *next;   /* in the same list or mapping; NULL: the last     */
};

/* The mapping that is the whole text, in the arena. NULL: the error has been added, or the arena is short. */
const struct json *json_read(struct import *import);

/* The value of a key; the last one, if it is there twice. NULL: it is missing or null, or map is NULL or no mapping. */
const struct json *json_get(const struct json *map, const char *key);

/* Is it an unquoted null? */
bool json_is_null(const struct json *value);

/* The text, or `missing`. */
const char *json_text(const struct json *map, const char *key, const char *missing);

/* The number of a text; false: it is none, or not finite. */
bool json_number_of(const struct json *value, double *number);
/* The same that refuses: an error about `statement` is added, and the result is `missing`, as if the key were. */
double json_number(struct import *import, const char *statement, const struct json *map, const char *key,
                   double missing);
int json_whole(struct import *import, const char *statement, const struct json *map, const char *key, int missing);

#endif
