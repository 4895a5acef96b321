/* yaml_values - typed values of a YAML document, for readers that report errors with their line. YAML's lists and
 * mappings are nodes of libyaml's document; an alias is the node that it names, so nothing is copied.
 */
#ifndef HALOCONV_YAML_VALUES_H
#define HALOCONV_YAML_VALUES_H

#ifdef HC_WITH_YAML

#include "import.h"

#include <yaml.h>

struct yaml {
    struct import *import;
    yaml_document_t document;
    char statement[128];        /* the statement that errors name, as "filter lowpass"          */
    const yaml_node_t *watched; /* the mapping whose keys yaml_unused checks; NULL: none        */
    uint64_t asked;             /* a bit for each pair of `watched` that a reader asked for     */
};

/* Add an error or warning about the text at a node. */
#define YAML_REFUSE(y, node, ...) IMPORT_REFUSE((y)->import, yaml_line(node), (y)->statement, __VA_ARGS__)
#define YAML_WARN(y, node, ...) IMPORT_WARN((y)->import, yaml_line(node), (y)->statement, __VA_ARGS__)

/* Parses a text; close the document after success. false: not YAML, or memory is short; an error was reported. */
bool yaml_open(struct yaml *y, struct import *import);
void yaml_close(struct yaml *y);

int yaml_line(const yaml_node_t *node);
bool yaml_is_list(const yaml_node_t *node);
bool yaml_is_map(const yaml_node_t *node);

/* Returns the text of a scalar; "" for another node. */
const char *yaml_text_of(const yaml_node_t *node);

/* Return the number of nodes in a list, and that of pairs in a mapping; 0 for another node. */
int yaml_count(const yaml_node_t *list);
int yaml_pairs(const yaml_node_t *map);
/* Return a node of a list, and a key of a mapping; i is below their number. */
yaml_node_t *yaml_item(struct yaml *y, const yaml_node_t *list, int i);
yaml_node_t *yaml_key(struct yaml *y, const yaml_node_t *map, int i);

/* Returns the value of a key. NULL: the value is missing or null, or map is NULL or no mapping. */
yaml_node_t *yaml_value(struct yaml *y, const yaml_node_t *map, const char *key);

/* Is a node of this type? false: an error was reported. what: its key, or "an item of ..." */
bool yaml_is(struct yaml *y, const yaml_node_t *node, yaml_node_type_t type, const char *what);

/* Return a value that must be a mapping, or a list; else report an error. Without is_needed it may be missing. */
yaml_node_t *yaml_map(struct yaml *y, const yaml_node_t *map, const char *key, bool is_needed);
yaml_node_t *yaml_list(struct yaml *y, const yaml_node_t *map, const char *key, bool is_needed);

/* Return the value of a key or, if it is missing, `missing`. A wrong value is an error, and so is a missing value if
 * `missing` is NAN, -1 or NULL. */
double yaml_number(struct yaml *y, const yaml_node_t *map, const char *key, double missing);
int yaml_whole(struct yaml *y, const yaml_node_t *map, const char *key, int missing, int min, int max);
const char *yaml_text(struct yaml *y, const yaml_node_t *map, const char *key, const char *missing);
bool yaml_bool(struct yaml *y, const yaml_node_t *map, const char *key, bool missing); /* `missing` is not an error */

/* Reads the number of a scalar. false: the error has been added. */
bool yaml_number_of(struct yaml *y, const yaml_node_t *node, const char *what, double *value);

/* Refuses keys that are not in `known`, separated by spaces (NULL: accept all), and keys that are there twice. `known`
 * must have few keys, or the keys of the mapping. */
void yaml_keys(struct yaml *y, const yaml_node_t *map, const char *known);

/* Refuses keys of y->watched that no reader has asked for: they have no effect in this type. Ends the watch. */
void yaml_unused(struct yaml *y, const char *type);

#endif
#endif
