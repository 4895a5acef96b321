#include "brutefir_text.h"
#include "dsp/base/number.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_VALUES = 4096 };

#define BLANKS " \t\r\v\f\n"
static const char name_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
static const char number_letters[] = "+-.0123456789eE";
static const char *const structures[] = {"coeff", "input", "output", "filter", "route"};

struct brutefir_parser {
    struct import *import;
    char *at;
    int line;
    int depth; /* number of { that are open                 */
    int n_values;
    struct value values[MAX_VALUES]; /* [n_values]: values of all statements that have not ended */
};

/* Skips blanks and comments, and returns the next character; 0: the end. */
static char brutefir_skip_blanks(struct brutefir_parser *p)
{
    for (;;) {
        for (; *p->at && strchr(BLANKS, *p->at); p->at++) p->line += *p->at == '\n';
        if (*p->at != '#') return *p->at;
        p->at += strcspn(p->at, "\n");
    }
}

/* ---- values ------------------------------------------------------------------------------------- */

/* Reads a string behind the opening quote, and unescapes it in place. false: the closing quote is missing. */
static bool read_string(struct brutefir_parser *p, struct value *value)
{
    char *to = p->at;
    value->kind = VALUE_STRING;
    value->text = to;
    for (; *p->at && *p->at != '"'; p->at++) {
        p->line += *p->at == '\n';
        if (*p->at == '\\' && p->at[1]) p->at++;
        *to++ = *p->at;
    }
    if (!*p->at) return false;
    p->at++;
    *to = 0;
    return true;
}

static bool read_word(struct brutefir_parser *p, struct value *value)
{
    size_t length = strspn(p->at, name_letters);
    bool is_true = length == 4 && memcmp(p->at, "true", 4) == 0;
    if (is_true || (length == 5 && memcmp(p->at, "false", 5) == 0)) {
        *value = (struct value){.kind = VALUE_BOOLEAN, .before = value->before, .number = is_true};
        p->at += length;
        return true;
    }
    char *end = p->at + strspn(p->at, number_letters);
    if (end == p->at) return false;
    value->kind = VALUE_NUMBER;
    if (number_read(p->at, -INFINITY, INFINITY, &value->number) != end) return false;
    p->at = end;
    return true;
}

static struct statement *read_block(struct brutefir_parser *p, const char *name);

/* Reads one value, or none in front of a slash, and the block behind it. false: an error was reported. */
static bool brutefir_read_value(struct brutefir_parser *p, const char *name, struct value *value)
{
    int line = p->line;
    char c = *p->at, *start = p->at;
    bool good = true;
    if (c == '"') {
        p->at++;
        good = read_string(p, value);
    } else if (!strchr("/,{", c)) {
        good = read_word(p, value);
    }
    if (!good) {
        IMPORT_REFUSE(p->import, line, name,
                      "\"%.*s\" is neither a string between \"\", nor a number, true or false; correct it",
                      (int)strcspn(start, BLANKS) > 20 ? 20 : (int)strcspn(start, BLANKS), start);
        return false;
    }
    value->has_block = brutefir_skip_blanks(p) == '{';
    if (value->has_block) value->block = read_block(p, name);
    return true;
}

/* Reads the values of a statement. Returns their number; -1: an error was reported. */
static int brutefir_read_values(struct brutefir_parser *p, const char *name)
{
    int first = p->n_values;
    char before = 0;
    for (char c = brutefir_skip_blanks(p); c && !strchr(";}", c); c = brutefir_skip_blanks(p)) {
        struct value value = {.kind = VALUE_EMPTY, .before = before};
        if (p->n_values > first && !before) {
            IMPORT_REFUSE(p->import, p->line, name, "needs , / or ; between two values; add one");
            return -1;
        }
        if (!brutefir_read_value(p, name, &value)) return -1;
        if (p->n_values == MAX_VALUES) {
            IMPORT_REFUSE(p->import, p->line, name, "has more than %d values; split them", MAX_VALUES);
            return -1;
        }
        p->values[p->n_values++] = value;
        c = brutefir_skip_blanks(p);
        before = 0;
        if (c == ',' || c == '/') before = *p->at++;
    }
    if (!before) return p->n_values - first;
    IMPORT_REFUSE(p->import, p->line, name, "ends behind %c; put a value there", before);
    return -1;
}

/* ---- statements --------------------------------------------------------------------------------- */

/* Skips a statement that cannot be read: goes behind its ; or before the } of the block around it. */
static void skip_statement(struct brutefir_parser *p)
{
    int depth = 0;
    for (char c = brutefir_skip_blanks(p); c; c = brutefir_skip_blanks(p)) {
        if (c == '}' && depth == 0) return;
        p->at++;
        depth += (c == '{') - (c == '}');
        if (c == ';' && depth == 0) return;
        if (c == '"') {
            struct value ignored = {0};
            read_string(p, &ignored);
        }
    }
}

/* Reads the name in front of the values. NULL: an error was reported. */
static const char *read_name(struct brutefir_parser *p)
{
    size_t length = strspn(p->at, name_letters);
    char *name = p->at, end = name[length];
    if (*name == '{') return "";
    if (end == ':') {
        name[length] = 0;
        p->at += length + 1;
        return name;
    }
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        if (strlen(structures[i]) == length && memcmp(structures[i], name, length) == 0) {
            p->at += length;
            return structures[i];
        }
    IMPORT_REFUSE(
        p->import, p->line, NULL,
        "\"%.*s\" does not begin a statement; write NAME: VALUES; or coeff, input, output or filter NAMES {...};",
        (int)strcspn(name, BLANKS) > 20 ? 20 : (int)strcspn(name, BLANKS), name);
    return NULL;
}

/* Reads a statement. NULL: an error was reported, or there is no memory. */
static struct statement *read_statement(struct brutefir_parser *p)
{
    struct arena *arena = p->import->c->arena;
    int line = p->line, first = p->n_values;
    const char *name = read_name(p);
    int n = name ? brutefir_read_values(p, name) : -1;
    p->n_values = first;
    if (n < 0) {
        skip_statement(p);
        return NULL;
    }
    struct statement *s = arena_alloc(arena, 1, sizeof *s);
    struct value *values = s ? arena_alloc(arena, (size_t)n, sizeof *values) : NULL;
    if (!values) return NULL;
    memcpy(values, p->values + first, (size_t)n * sizeof *values);
    *s = (struct statement){.name = name, .line = line, .values = values, .n_values = n};
    if (*p->at == ';')
        p->at++;
    else
        IMPORT_REFUSE(p->import, line, name, "has no ; behind it; add one");
    return s;
}

/* Reads statements up to the } that closes their block, or to the end of the text. Returns the first of them. */
static struct statement *read_statements(struct brutefir_parser *p)
{
    struct statement *first = NULL, **end = &first;
    for (char c = brutefir_skip_blanks(p); c && !p->import->c->arena->is_short; c = brutefir_skip_blanks(p)) {
        if (c == '}' && p->depth > 0) break;
        if (c == '}' || c == ';') {
            if (c == '}') IMPORT_REFUSE(p->import, p->line, NULL, "} does not close a block; remove it");
            p->at++;
        } else if ((*end = read_statement(p))) {
            end = &(*end)->next;
        }
    }
    return first;
}

static struct statement *read_block(struct brutefir_parser *p, const char *name)
{
    int line = p->line;
    struct statement *first = NULL;
    p->at++;
    p->depth++;
    if (p->depth <= MAX_DEPTH) {
        first = read_statements(p);
    } else {
        IMPORT_REFUSE(p->import, line, name, "more than %d braces are open; close some", MAX_DEPTH);
        while (brutefir_skip_blanks(p) && *p->at != '}') skip_statement(p);
    }
    p->depth--;
    if (*p->at == '}')
        p->at++;
    else
        IMPORT_REFUSE(p->import, line, name, "its { has no }; add one");
    return first;
}

struct statement *brutefir_parse(struct import *import)
{
    struct brutefir_parser *p = arena_alloc(import->c->arena, 1, sizeof *p);
    if (!p) return NULL;
    p->import = import;
    p->at = import->text;
    p->line = 1;
    return read_statements(p);
}

bool brutefir_is_text(const char *text, size_t bytes)
{
    (void)bytes;
    while (*text && strchr(BLANKS "#", *text)) text += *text == '#' ? strcspn(text, "\n") : 1;
    size_t length = strspn(text, name_letters);
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        if (strlen(structures[i]) == length && memcmp(structures[i], text, length) == 0) {
            const char *value = text + length + strspn(text + length, BLANKS);
            return *value && strchr("\"0123456789{", *value);
        }
    /* A setting of BruteFIR ends in its line, with a semicolon; YAML has no semicolons. */
    if (length == 0 || text[length] != ':') return false;
    size_t end = strcspn(text, ";{\n#");
    return text[end] == ';' || text[end] == '{';
}
