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
    struct relaxed *members; /* first value of a mapping, each has a key; NULL: empty, or another kind  */
    struct relaxed *items;   /* first value of a list, none has a key; NULL: empty, or another kind     */
    struct relaxed *next;    /* next value of the same list or mapping; NULL: the last                  */
};

/* Parses the whole text as a mapping, in the arena. NULL: the error has been added, or the arena is short. */
const struct relaxed *relaxed_read(struct import *import);

/* Returns the (last) value of a key. NULL: the value is missing or null, or map is NULL or no mapping. */
const struct relaxed *relaxed_get(const struct relaxed *map, const char *key);

/* Return the first value to look at. NULL: the list or mapping is empty, is NULL, or is of another kind. */
static inline const struct relaxed *relaxed_members(const struct relaxed *map) { return map ? map->members : NULL; }
static inline const struct relaxed *relaxed_items(const struct relaxed *list) { return list ? list->items : NULL; }

/* Warns of a member of a map that is null, or whose key occurs again behind it. */
void relaxed_value_check(struct import *import, const char *statement, const struct relaxed *v);

/* Checks the keys of a mapping with import_key_check: PipeWire, too, ignores those that it does not know. is_open: other
 * properties of PipeWire are right, and are noted; only keys that look like those of `known` are not. */
void relaxed_keys(struct import *import, const char *statement, const struct relaxed *map, const char *known,
                  bool is_open);

/* Returns the number of values in a list; 0 for NULL or another kind. */
int relaxed_count(const struct relaxed *list);

/* Is the value an unquoted null? */
bool relaxed_is_null(const struct relaxed *value);

/* Is a value of this kind? false: an error about `statement` was reported. key: the value's, or that of its list. */
bool relaxed_is(struct import *import, const char *statement, const struct relaxed *value, enum relaxed_kind kind,
                const char *key);

/* Return the value of a key. NULL, or `missing`: it is missing, or of another kind, which adds an error. */
const struct relaxed *relaxed_of(struct import *import, const char *statement, const struct relaxed *map,
                                 const char *key, enum relaxed_kind kind);
const char *relaxed_text(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                         const char *missing);

/* Reads the number of a value in a mapping. false: it is none; an error was reported. */
bool relaxed_number_of(struct import *import, const char *statement, const struct relaxed *value, double *number);
/* Return the number of a key, or `missing`. Another value adds an error about `statement`, and counts as missing. */
double relaxed_number(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                      double missing);
int relaxed_whole(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                  int missing);

#endif
