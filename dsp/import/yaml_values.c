#include "yaml_values.h"
#include "dsp/base/number.h"

#ifdef HC_WITH_YAML

#include <float.h>
#include <math.h>
#include <string.h>

/* Limits: libyaml examines all open brackets for every token, and all anchors for every anchor and alias. */
enum {
    MAX_BYTES = 1 << 24, /* bytes of a text; a node of the document is 50 times as large as its text */
    MAX_NESTING = 64,    /* nested brackets                                                          */
    MAX_ANCHORS = 1024   /* characters &, wherever they are                                          */
};

/* Does a text have few nested brackets and anchors? Characters in scalars count, too. */
static bool is_parsed_fast(const char *text)
{
    int nesting = 0, n_anchors = 0;
    for (text += strcspn(text, "[]{}&"); *text; text++, text += strcspn(text, "[]{}&")) {
        if (*text == '&')
            n_anchors++;
        else if (*text == '[' || *text == '{')
            nesting++;
        else if (nesting > 0)
            nesting--;
        if (nesting > MAX_NESTING || n_anchors > MAX_ANCHORS) return false;
    }
    return true;
}

bool yaml_open(struct yaml *y, struct import *import)
{
    yaml_parser_t parser;
    *y = (struct yaml){.import = import};
    if (import->bytes > MAX_BYTES) {
        IMPORT_REFUSE(import, 0, NULL, "has %zu bytes of text, more than %d; name a file that is a configuration",
                      import->bytes, MAX_BYTES);
        return false;
    }
    if (!is_parsed_fast(import->text)) {
        IMPORT_REFUSE(import, 0, NULL,
                      "has more than %d nested brackets or %d anchors; name a file that is a configuration",
                      MAX_NESTING, MAX_ANCHORS);
        return false;
    }
    if (!yaml_parser_initialize(&parser)) {
        import->c->arena->is_short = true;
        return false;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)import->text, import->bytes);
    bool is_open = yaml_parser_load(&parser, &y->document) != 0;
    if (!is_open && parser.error == YAML_MEMORY_ERROR)
        import->c->arena->is_short = true;
    else if (!is_open)
        IMPORT_REFUSE(import, (int)(parser.problem ? parser.problem_mark.line + 1 : 0), NULL,
                      "%s; name a file that is YAML", parser.problem ? parser.problem : "cannot be read");
    yaml_document_t more;
    if (is_open && !yaml_parser_load(&parser, &more)) {
        IMPORT_REFUSE(import, (int)parser.problem_mark.line + 1, NULL, "has text behind the document; remove it");
    } else if (is_open) {
        const yaml_node_t *root = yaml_document_get_root_node(&more);
        if (root) YAML_REFUSE(y, root, "begins a second document; put each into a file of its own");
        yaml_document_delete(&more);
    }
    yaml_parser_delete(&parser);
    return is_open;
}

void yaml_close(struct yaml *y)
{
    yaml_document_delete(&y->document);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

int yaml_line(const yaml_node_t *node)
{
    return node ? (int)node->start_mark.line + 1 : 0;
}

bool yaml_is_list(const yaml_node_t *node)
{
    return node && node->type == YAML_SEQUENCE_NODE;
}

bool yaml_is_map(const yaml_node_t *node)
{
    return node && node->type == YAML_MAPPING_NODE;
}

const char *yaml_text_of(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static bool is_null(const yaml_node_t *node)
{
    const char *text = yaml_text_of(node);
    return node && node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

int yaml_count(const yaml_node_t *list)
{
    return yaml_is_list(list) ? (int)(list->data.sequence.items.top - list->data.sequence.items.start) : 0;
}

int yaml_pairs(const yaml_node_t *map)
{
    return yaml_is_map(map) ? (int)(map->data.mapping.pairs.top - map->data.mapping.pairs.start) : 0;
}

yaml_node_t *yaml_item(struct yaml *y, const yaml_node_t *list, int i)
{
    return yaml_document_get_node(&y->document, list->data.sequence.items.start[i]);
}

yaml_node_t *yaml_key(struct yaml *y, const yaml_node_t *map, int i)
{
    return yaml_document_get_node(&y->document, map->data.mapping.pairs.start[i].key);
}

/* Returns the value of a key, even null. NULL: the key is missing. */
static yaml_node_t *yaml_find(struct yaml *y, const yaml_node_t *map, const char *key)
{
    for (int i = 0; i < yaml_pairs(map); i++) {
        if (strcmp(yaml_text_of(yaml_key(y, map, i)), key) != 0) continue;
        if (map == y->watched && i < 64) y->asked |= UINT64_C(1) << i;
        return yaml_document_get_node(&y->document, map->data.mapping.pairs.start[i].value);
    }
    return NULL;
}

yaml_node_t *yaml_value(struct yaml *y, const yaml_node_t *map, const char *key)
{
    yaml_node_t *value = yaml_find(y, map, key);
    return is_null(value) ? NULL : value;
}

/* ---- values ------------------------------------------------------------------------------------- */

static void refuse_missing(struct yaml *y, const yaml_node_t *map, const char *key)
{
    const yaml_node_t *null = yaml_find(y, map, key);
    if (null)
        YAML_REFUSE(y, null, "%.40s is null; give it a value", key);
    else
        YAML_REFUSE(y, map, "%.40s is missing; add it", key);
}

/* Adds the error that a node has another kind than it must have. */
static void refuse_kind(struct yaml *y, const yaml_node_t *node, const char *what, const char *wanted)
{
    double number;
    const char *found = yaml_is_map(node)                                           ? "a mapping"
                        : yaml_is_list(node)                                        ? "a list"
                        : is_null(node)                                             ? "null"
                        : number_is(yaml_text_of(node), -DBL_MAX, DBL_MAX, &number) ? "a number"
                                                                                    : "a text";
    YAML_REFUSE(y, node, "%.60s is %s, not a %s", what, found, wanted);
}

bool yaml_is(struct yaml *y, const yaml_node_t *node, yaml_node_type_t type, const char *what)
{
    if (node && node->type == type && (type != YAML_SCALAR_NODE || !is_null(node))) return true;
    refuse_kind(y, node, what,
                type == YAML_MAPPING_NODE    ? "mapping; indent its keys below it"
                : type == YAML_SEQUENCE_NODE ? "list; put its items between [ and ]"
                                             : "text; write one");
    return false;
}

static yaml_node_t *value_of_type(struct yaml *y, const yaml_node_t *map, const char *key, bool is_needed,
                                  yaml_node_type_t type)
{
    yaml_node_t *value = yaml_value(y, map, key);
    if (!value && is_needed) refuse_missing(y, map, key);
    return value && yaml_is(y, value, type, key) ? value : NULL;
}

yaml_node_t *yaml_map(struct yaml *y, const yaml_node_t *map, const char *key, bool is_needed)
{
    return value_of_type(y, map, key, is_needed, YAML_MAPPING_NODE);
}

yaml_node_t *yaml_list(struct yaml *y, const yaml_node_t *map, const char *key, bool is_needed)
{
    return value_of_type(y, map, key, is_needed, YAML_SEQUENCE_NODE);
}

bool yaml_number_of(struct yaml *y, const yaml_node_t *node, const char *what, double *value)
{
    const char *text = yaml_text_of(node);
    if (number_is(text, -DBL_MAX, DBL_MAX, value)) return true;
    if (!*text)
        refuse_kind(y, node, what, "number; write one, such as -6.5");
    else
        YAML_REFUSE(y, node, "%s \"%.40s\" is not a number; write one, such as -6.5", what, text);
    return false;
}

double yaml_number(struct yaml *y, const yaml_node_t *map, const char *key, double missing)
{
    const yaml_node_t *node = yaml_value(y, map, key);
    double value;
    if (node) return yaml_number_of(y, node, key, &value) ? value : 1;
    if (!isnan(missing)) return missing;
    refuse_missing(y, map, key);
    return 1;
}

int yaml_whole(struct yaml *y, const yaml_node_t *map, const char *key, int missing, int min, int max)
{
    const yaml_node_t *node = yaml_value(y, map, key);
    double value = 0;
    if (!node && missing < 0) refuse_missing(y, map, key);
    if (!node) return missing < 0 ? min : missing;
    if (!yaml_number_of(y, node, key, &value)) return min;
    if (value >= min && value <= max && value == floor(value)) return (int)value;
    YAML_REFUSE(y, node, "%s is %.40s; give a whole number from %d to %d", key, yaml_text_of(node), min, max);
    return min;
}

const char *yaml_text(struct yaml *y, const yaml_node_t *map, const char *key, const char *missing)
{
    const yaml_node_t *node = yaml_value(y, map, key);
    if (!node && missing) return missing;
    if (node && !yaml_is(y, node, YAML_SCALAR_NODE, key)) return "";
    if (!*yaml_text_of(node)) refuse_missing(y, map, key);
    return yaml_text_of(node);
}

bool yaml_bool(struct yaml *y, const yaml_node_t *map, const char *key, bool missing)
{
    const yaml_node_t *node = yaml_value(y, map, key);
    const char *text = yaml_text_of(node);
    if (!node) return missing;
    if (!yaml_is(y, node, YAML_SCALAR_NODE, key)) return missing;
    bool is_true = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "TRUE") == 0;
    if (!is_true && strcmp(text, "false") != 0 && strcmp(text, "False") != 0 && strcmp(text, "FALSE") != 0)
        YAML_REFUSE(y, node, "%s is \"%.40s\"; write true or false", key, text);
    return is_true;
}

void yaml_keys(struct yaml *y, const yaml_node_t *map, const char *known)
{
    for (int i = 0; i < yaml_pairs(map); i++) {
        const yaml_node_t *node = yaml_key(y, map, i);
        const char *key = yaml_text_of(node);
        if (known && !import_key_is_known(known, key)) {
            YAML_REFUSE(y, node, "the key \"%.40s\" is unknown; use one of %s", key, known);
            continue; /* only known keys, which are few, are compared */
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(yaml_text_of(yaml_key(y, map, k)), key) != 0) continue;
            YAML_REFUSE(y, node, "the key \"%.40s\" occurs twice; remove one", key);
            return;
        }
    }
}

void yaml_unused(struct yaml *y, const char *type)
{
    for (int i = 0; i < yaml_pairs(y->watched) && i < 64; i++)
        if (!(y->asked >> i & 1))
            YAML_REFUSE(y, yaml_key(y, y->watched, i), "the key \"%.40s\" has no effect in %.40s; remove it",
                        yaml_text_of(yaml_key(y, y->watched, i)), type);
    y->watched = NULL;
    y->asked = 0;
}

#else
typedef int yaml_values_are_not_built; /* ISO C needs a declaration */
#endif
