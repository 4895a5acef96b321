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

enum relaxed_kind { RELAXED_TEXT, RELAXED_LIST, RELAXED_MAP };

struct relaxed {
    enum relaxed_kind kind;
    int line;
    bool is_quoted;      /* a text                                          */
    const char *key;     /* of a value in a mapping; NULL: a list's         */
    const char *text;    /* "" for lists and mappings                       */
    struct relaxed *first;  /* of a list or mapping; NULL: it is empty         */
    struct relaxed *next;   /* in the same list or mapping; NULL: the last     */
};

/* The mapping that is the whole text, in the arena. NULL: the error has been added, or the arena is short. */
const struct relaxed *relaxed_read(struct import *import);

/* The value of a key; the last one, if it is there twice. NULL: it is missing or null, or map is NULL or no mapping. */
const struct relaxed *relaxed_get(const struct relaxed *map, const char *key);

/* The values in a list or mapping; 0: it is NULL or a text. */
int relaxed_count(const struct relaxed *list);

/* Is it an unquoted null? */
bool relaxed_is_null(const struct relaxed *value);

/* The text, or `missing`. */
const char *relaxed_text(const struct relaxed *map, const char *key, const char *missing);

/* The number of a text; false: it is none, or not finite. */
bool relaxed_number_of(const struct relaxed *value, double *number);
/* The same that refuses: an error about `statement` is added, and the result is `missing`, as if the key were. */
double relaxed_number(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                      double missing);
int relaxed_whole(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                  int missing);

#endif
