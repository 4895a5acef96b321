#include "relaxed_json.h"

#include "dsp/base/number.h"
#include "dsp/masks/utf16.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 32, MAX_VALUES = 1 << 20 };
#define BLANKS " \t\r\n,:="
#define ENDS BLANKS "\"#{}[]" /* these characters end a text without quotes */

struct parser {
    struct import *import;
    const char *at;
    int line;
    int n_values;
    bool is_bad; /* the error has been added, or the arena is short: reading ends */
};

#define REFUSE(p, ...) ((p)->is_bad = true, IMPORT_REFUSE((p)->import, (p)->line, NULL, __VA_ARGS__))

static void relaxed_skip_blanks(struct parser *p)
{
    for (; *p->at && (strchr(BLANKS, *p->at) || *p->at == '#'); p->at++) {
        if (*p->at == '#') p->at += strcspn(p->at, "\n");
        if (*p->at == '\n') p->line++;
        if (!*p->at) return;
    }
}

/* ---- texts -------------------------------------------------------------------------------------- */

/* Replaces the escapes of text[length] in place; no escape becomes longer. */
static void unescape(char *text, size_t length)
{
    static const char names[] = "nrtbf", values[] = "\n\r\t\b\f";
    char *to = text, hex[5] = "", *end;
    for (const char *at = text; at < text + length; at++) {
        if (*at != '\\' || at + 1 == text + length) {
            *to++ = *at;
            continue;
        }
        const char *name = strchr(names, *++at);
        if (*at == 'u' && text + length - at > 4) {
            memcpy(hex, at + 1, 4);
            unsigned c = (unsigned)strtoul(hex, &end, 16);
            to = utf8_put(to, end == hex + 4 && c ? c : '?');
            at += 4;
        } else {
            *to++ = (char)(name && *name ? values[name - names] : *at);
        }
    }
    *to = 0;
}

/* Reads the text at p->at, with or without quotes. NULL: the error has been added. */
static char *relaxed_read_text(struct parser *p, bool *is_quoted)
{
    struct arena *arena = p->import->c->arena;
    const char *start = p->at, *end = start + strcspn(start, ENDS);
    *is_quoted = *start == '"';
    if (*is_quoted)
        for (end = ++start; *end && *end != '"'; end++) {
            if (*end == '\n') p->line++;
            if (*end == '\\' && end[1]) end++;
        }
    if (*is_quoted && !*end) {
        REFUSE(p, "a text is not closed; put \" behind it");
        return NULL;
    }
    if (!*is_quoted && end == start) {
        REFUSE(p, "\"%c\" is not expected here; check the brackets", *start);
        return NULL;
    }
    char *text = arena_alloc(arena, (size_t)(end - start) + 1, 1);
    if (!text) {
        p->is_bad = true;
        return NULL;
    }
    memcpy(text, start, (size_t)(end - start));
    if (*is_quoted) unescape(text, (size_t)(end - start));
    p->at = end + *is_quoted;
    return text;
}

/* ---- values ------------------------------------------------------------------------------------- */

static struct relaxed *value_new(struct parser *p, enum relaxed_kind kind)
{
    if (++p->n_values > MAX_VALUES) {
        REFUSE(p, "has more than %d values; name a file that is a configuration", MAX_VALUES);
        return NULL;
    }
    struct relaxed *value = arena_alloc(p->import->c->arena, 1, sizeof *value);
    if (!value) p->is_bad = true;
    if (value) *value = (struct relaxed){.kind = kind, .line = p->line, .text = ""};
    return value;
}

static struct relaxed *relaxed_read_value(struct parser *p, int nesting);

/* Reads the values up to `end`: a bracket, or 0 for the end of the text. */
static void relaxed_read_values(struct parser *p, struct relaxed *owner, char end, int nesting)
{
    bool is_quoted;
    struct relaxed **last = owner->kind == RELAXED_MAP ? &owner->members : &owner->items;
    while (!p->is_bad) {
        const char *key = NULL;
        relaxed_skip_blanks(p);
        if (*p->at == end) {
            p->at += end != 0;
            return;
        }
        if (!*p->at) REFUSE(p, "the bracket of line %d is not closed; put %c behind the last value", owner->line, end);
        if (p->is_bad || (owner->kind == RELAXED_MAP && !(key = relaxed_read_text(p, &is_quoted)))) return;
        relaxed_skip_blanks(p);
        *last = relaxed_read_value(p, nesting);
        if (!*last) return;
        (*last)->key = key;
        last = &(*last)->next;
    }
}

static struct relaxed *relaxed_read_value(struct parser *p, int nesting)
{
    char open = *p->at;
    struct relaxed *value = value_new(p, open == '{' ? RELAXED_MAP : open == '[' ? RELAXED_LIST : RELAXED_TEXT);
    if (!value) return NULL;
    if (value->kind == RELAXED_TEXT) {
        if (!*p->at) REFUSE(p, "the last key has no value; give it one");
        value->text = p->is_bad ? "" : relaxed_read_text(p, &value->is_quoted);
        return p->is_bad ? NULL : value;
    }
    if (nesting == MAX_NESTING) {
        REFUSE(p, "brackets are nested more than %d times; name a file that is a configuration", MAX_NESTING);
        return NULL;
    }
    p->at++;
    relaxed_read_values(p, value, open == '{' ? '}' : ']', nesting + 1);
    return p->is_bad ? NULL : value;
}

const struct relaxed *relaxed_read(struct import *import)
{
    struct parser p = {.import = import, .at = import->text, .line = 1};
    relaxed_skip_blanks(&p);
    bool has_braces = *p.at == '{';
    struct relaxed *all = has_braces ? relaxed_read_value(&p, 0) : value_new(&p, RELAXED_MAP);
    if (!all) return NULL;
    if (!has_braces) relaxed_read_values(&p, all, 0, 0);
    relaxed_skip_blanks(&p);
    if (!p.is_bad && *p.at) REFUSE(&p, "text follows the last bracket; check the brackets");
    return p.is_bad ? NULL : all;
}

/* ---- access ------------------------------------------------------------------------------------- */

int relaxed_count(const struct relaxed *list)
{
    int n = 0;
    for (const struct relaxed *item = relaxed_items(list); item; item = item->next) n++;
    return n;
}

bool relaxed_is_null(const struct relaxed *value)
{
    return value->kind == RELAXED_TEXT && !value->is_quoted && strcmp(value->text, "null") == 0;
}

const struct relaxed *relaxed_get(const struct relaxed *map, const char *key)
{
    const struct relaxed *found = NULL;
    for (const struct relaxed *v = relaxed_members(map); v; v = v->next)
        if (strcmp(v->key, key) == 0) found = relaxed_is_null(v) ? NULL : v;
    return found;
}

/* Adds the error that a value has another kind. form: what it must be; key: its own or, for an item, the list's. */
static void relaxed_refuse_kind(struct import *import, const char *statement, const struct relaxed *value,
                                const char *key, const char *form)
{
    double number;
    const char *found = value->kind == RELAXED_MAP                           ? "a mapping"
                        : value->kind == RELAXED_LIST                        ? "a list"
                        : relaxed_is_null(value)                             ? "null"
                        : number_is(value->text, -DBL_MAX, DBL_MAX, &number) ? "a number"
                                                                             : "a text";
    if (value->key)
        IMPORT_REFUSE(import, value->line, statement, "%.40s is %s; write %.40s = %s", key, found, key, form);
    else
        IMPORT_REFUSE(import, value->line, statement, "an item of %.40s is %s; write %.40s = [ %s ]", key, found, key,
                      form);
}

bool relaxed_is(struct import *import, const char *statement, const struct relaxed *value, enum relaxed_kind kind,
                const char *key)
{
    static const char *const forms[] = {"TEXT", "[ VALUE ]", "{ NAME = VALUE }"};
    if (value->kind == kind) return true;
    relaxed_refuse_kind(import, statement, value, key, forms[kind]);
    return false;
}

const struct relaxed *relaxed_of(struct import *import, const char *statement, const struct relaxed *map,
                                 const char *key, enum relaxed_kind kind)
{
    const struct relaxed *value = relaxed_get(map, key);
    return value && relaxed_is(import, statement, value, kind, key) ? value : NULL;
}

const char *relaxed_text(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                         const char *missing)
{
    const struct relaxed *value = relaxed_of(import, statement, map, key, RELAXED_TEXT);
    return value ? value->text : missing;
}

void relaxed_value_check(struct import *import, const char *statement, const struct relaxed *v)
{
    const struct relaxed *again = v->next;
    while (again && strcmp(again->key, v->key) != 0) again = again->next;
    if (again)
        IMPORT_WARN(import, v->line, statement, "%.40s occurs again in line %d, which counts; remove one", v->key,
                    again->line);
    else if (relaxed_is_null(v))
        IMPORT_WARN(import, v->line, statement, "%.40s is null and has no effect; give it a value", v->key);
}

void relaxed_keys(struct import *import, const char *statement, const struct relaxed *map, const char *known,
                  bool is_open)
{
    for (const struct relaxed *v = relaxed_members(map); v; v = v->next) {
        const char *word;
        if (import_key_is_known(known, v->key)) relaxed_value_check(import, statement, v); /* few keys are known */
        bool is_other = is_open && strchr(v->key, '.') && strncmp(v->key, "audio.", 6) != 0;
        if (is_other && !import_key_is_known(known, v->key) && !import_key_near(known, v->key, &word))
            import_note_run(import, v->line, v->key, "");
        else
            import_key_check(import, v->line, statement, v->key, known);
    }
}

bool relaxed_number_of(struct import *import, const char *statement, const struct relaxed *value, double *number)
{
    if (number_is(value->text, -DBL_MAX, DBL_MAX, number)) return true;
    if (value->kind != RELAXED_TEXT)
        relaxed_refuse_kind(import, statement, value, value->key, "NUMBER");
    else
        IMPORT_REFUSE(import, value->line, statement, "%.40s \"%.40s\" is not a number; write one, such as 0.5",
                      value->key, value->text);
    return false;
}

double relaxed_number(struct import *import, const char *statement, const struct relaxed *map, const char *key,
                      double missing)
{
    const struct relaxed *value = relaxed_get(map, key);
    double number;
    return value && relaxed_number_of(import, statement, value, &number) ? number : missing;
}

int relaxed_whole(struct import *import, const char *statement, const struct relaxed *map, const char *key, int missing)
{
    const struct relaxed *value = relaxed_get(map, key);
    double number = relaxed_number(import, statement, map, key, missing);
    if (!value || (number >= INT32_MIN && number <= INT32_MAX && number == floor(number))) return (int)number;
    IMPORT_REFUSE(import, value->line, statement, "%s %g is not a whole number; write one", key, number);
    return missing;
}
