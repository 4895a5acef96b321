/* relaxed_json - a tree of relaxed JSON, the format of PipeWire's configurations.
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
    bool is_quoted;      /* the value is a text in quotes                   */
    const char *key;     /* the value's key in a mapping; NULL: it is in a list */
    const char *text;    /* "" for lists and mappings                       */
    struct relaxed *first;  /* first value of a list or mapping; NULL: empty   */
    struct relaxed *next;   /* next value of the same list or mapping; NULL: the last */
};

/* Parses the whole text as a mapping, in the arena. NULL: the error has been added, or the arena is short. */
const struct relaxed *relaxed_read(struct import *import);

/* Returns the (last) value of a key. NULL: the value is missing or null, or map is NULL or no mapping. */
const struct relaxed *relaxed_get(const struct relaxed *map, const char *key);

/* Returns the number of values in a list or mapping; 0 for NULL or a text. */
int relaxed_count(const struct relaxed *list);

/* Is the value an unquoted null? */
bool relaxed_is_null(const struct relaxed *value);

/* Returns the text of a key, or `missing`. */
const char *relaxed_text(const struct relaxed *map, const char *key, const char *missing);

/* Reads the number of a text. false: it is not a number, or not finite. */
bool relaxed_number_of(const struct relaxed *value, double *number);
/* Return the number of a key, or `missing`. Another value adds an error about `statement`, and counts as missing. */
double relaxed_number(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                      double missing);
int relaxed_whole(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                  int missing);

#endif
