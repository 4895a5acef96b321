#include "brutefir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"nothing", "string", "number", "boolean"};

const struct value *brutefir_value(struct brutefir *b, const struct statement *s, enum value_kind kind)
{
    if (s->n_values == 1 && s->values->kind == kind) return s->values;
    BRUTEFIR_REFUSE(b, s, "needs one %s", kind_names[kind]);
    return NULL;
}

bool brutefir_number_fits(struct brutefir *b, const struct statement *s, double number, int min, int max)
{
    if (number >= min && number <= max && number == floor(number)) return true;
    BRUTEFIR_REFUSE(b, s, "%g is not possible; give a whole number from %d to %d", number, min, max);
    return false;
}

void brutefir_int(struct brutefir *b, const struct statement *s, int min, int max, int *number)
{
    const struct value *value = brutefir_value(b, s, VALUE_NUMBER);
    if (value && brutefir_number_fits(b, s, value->number, min, max)) *number = (int)value->number;
}

bool brutefir_list_fits(struct brutefir *b, const struct statement *s, enum value_kind kind, int n_channels)
{
    bool good = s->n_values > 0;
    for (int i = 0; i < s->n_values; i++) good &= s->values[i].kind == kind && s->values[i].before != '/';
    if (!good) BRUTEFIR_REFUSE(b, s, "needs a %s for each channel, with commas between them", kind_names[kind]);
    if (good && s->n_values > n_channels)
        BRUTEFIR_REFUSE(b, s, "has %d values for %d channels; give one for each channel", s->n_values, n_channels);
    return good && s->n_values <= n_channels;
}

void brutefir_warn_missing(struct brutefir *b, int line, const char *structure, const char *field, const char *usual)
{
    IMPORT_WARN(b->import, line, structure,
                "has no %s, and ~/.brutefir_defaults is not read, so that %s is used; add it here", field, usual);
}

/* ---- fields ------------------------------------------------------------------------------------- */

/* Checks the blocks behind the values of a field: only the values of two fields, the names of modules, have a block. */
static void check_blocks(struct brutefir *b, const struct statement *s)
{
    const char *known = NULL;
    if (strcmp(s->name, "device") == 0)
        known = "ports clientname | priority device param ignore_xrun access link path skip append loop text";
    if (strcmp(s->name, "logic") == 0) known = "script debug_dump_filter | port echo line_speed";
    for (const struct value *v = s->values; v < s->values + s->n_values; v++) {
        if (v->has_block && !known) BRUTEFIR_REFUSE(b, s, "has a block { ... } behind its value; remove the block");
        for (const struct statement *p = v->has_block && known ? v->block : NULL; p; p = p->next)
            import_key_check(b->import, p->line, s->name, p->name, known);
    }
}

unsigned brutefir_fields(struct brutefir *b, const struct statement *s, const struct field *fields, int n,
                         void *structure)
{
    unsigned seen = 0;
    for (; s; s = s->next) {
        int i = 0;
        while (i < n && strcmp(fields[i].name, s->name) != 0) i++;
        if (i == n) {
            BRUTEFIR_REFUSE(b, s, "is unknown here; correct its name");
            continue;
        }
        if (seen & 1U << i) BRUTEFIR_REFUSE(b, s, "occurs twice; remove one of them");
        seen |= 1U << i;
        if (fields[i].read)
            fields[i].read(b, s, structure);
        else
            import_note_run(b->import, s->line, s->name, "");
        check_blocks(b, s);
    }
    return seen;
}

static const char *text_of_index(struct brutefir *b, int index)
{
    char text[16];
    snprintf(text, sizeof text, "%d", index);
    return arena_text(b->import->c->arena, text);
}

const char *brutefir_name(struct brutefir *b, const struct statement *s, int i, int index)
{
    const struct value *v = &s->values[i];
    bool is_last = i == s->n_values - 1;
    if (v->before == '/' || v->has_block != is_last || v->kind == VALUE_BOOLEAN || v->kind == VALUE_EMPTY)
        BRUTEFIR_REFUSE(b, s, "needs names and a block, as in: %s \"name\" { ... };", s->name);
    else if (v->kind == VALUE_NUMBER && v->number != index)
        BRUTEFIR_REFUSE(
            b, s, "has the number %g, but it is number %d of its kind, counted from 0; give that number or a string",
            v->number, index);
    else
        return v->kind == VALUE_NUMBER ? text_of_index(b, index) : v->text;
    return NULL;
}
