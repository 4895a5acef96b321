/* brutefir_filters - reads the statements coeff and filter of BruteFIR. */
#include "brutefir.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* ---- coeff -------------------------------------------------------------------------------------- */

static void brutefir_read_file(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    if (s->n_values && s->values->kind == VALUE_NUMBER) {
        BRUTEFIR_REFUSE(b, s, "coefficients in shared memory cannot be read; name a file");
        return;
    }
    const struct value *value = brutefir_value(b, s, VALUE_STRING);
    if (value && *value->text) coeff->file = value->text;
    if (value && !*value->text) BRUTEFIR_REFUSE(b, s, "is empty; name a file");
}

static void read_format(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    const struct value *value = brutefir_value(b, s, VALUE_STRING);
    if (!value || (coeff->format = raw_format_find(value->text))) return;
    if (strcasecmp(value->text, "processed") == 0)
        BRUTEFIR_REFUSE(b, s,
                        "\"processed\" coefficients are spectra in BruteFIR's own layout; give the text or raw file");
    else
        BRUTEFIR_REFUSE(b, s, "\"%.40s\" is not a format; use text, S16_LE, S24_LE, S32_LE, FLOAT_LE, FLOAT64_LE, ...",
                        value->text);
}

static void read_attenuation(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    const struct value *value = brutefir_value(b, s, VALUE_NUMBER);
    if (value) coeff->gain = pow(10, -value->number / 20);
}

static void read_blocks(struct brutefir *b, const struct statement *s, void *structure)
{
    int blocks = 0;
    brutefir_int(b, s, -1, 1 << 24, &blocks);
    ((struct brutefir_coeff *)structure)->blocks = blocks > 0 ? blocks : 0;
}

static void read_skip(struct brutefir *b, const struct statement *s, void *structure)
{
    brutefir_int(b, s, 0, 1 << 30, &((struct brutefir_coeff *)structure)->skip);
}

enum { SEEN_FILENAME = 1, SEEN_FORMAT = 2 }; /* bits of the first two fields */
static const struct field coeff_fields[] = {
    {"filename", brutefir_read_file}, {"format", read_format}, {"attenuation", read_attenuation},
    {"blocks", read_blocks},          {"skip", read_skip},     {"shared_mem", NULL},
};

void brutefir_read_coeff(struct brutefir *b, const struct statement *s)
{
    struct brutefir_coeff *coeff = &b->coeffs[b->n_coeffs];
    *coeff = (struct brutefir_coeff){.line = s->line, .gain = 1};
    coeff->name = s->n_values == 1 ? brutefir_name(b, s, 0, b->n_coeffs) : NULL;
    if (s->n_values != 1) BRUTEFIR_REFUSE(b, s, "needs one name and a block, as in: coeff \"name\" { ... };");
    b->n_coeffs++;
    if (!coeff->name) return;
    unsigned seen = BRUTEFIR_FIELDS(b, s->values->block, coeff_fields, coeff);
    bool is_dirac = coeff->file && strcmp(coeff->file, "dirac pulse") == 0;
    if (!(seen & SEEN_FILENAME)) BRUTEFIR_REFUSE(b, s, "has no filename; add one");
    if (is_dirac && coeff->skip) BRUTEFIR_REFUSE(b, s, "a dirac pulse has no bytes to skip; remove the skip");
    if (!is_dirac && !(seen & SEEN_FORMAT)) {
        brutefir_warn_missing(b, s->line, s->name, "format", "\"text\"");
        coeff->format = raw_format_find("text");
    }
    if (is_dirac) coeff->file = NULL;
}

/* ---- filter ------------------------------------------------------------------------------------- */

/* Reads a list of NAME, NAME/DB, NAME/DB/FACTOR or NAME//FACTOR, with commas between them. */
static void ends_read(struct brutefir *b, const struct statement *s, struct brutefir_ends *ends, bool has_gains)
{
    struct brutefir_end *end = NULL;
    bool good = s->n_values > 0;
    int slashes = 0;
    ends->n = 0;
    ends->list = arena_alloc(b->import->c->arena, (size_t)s->n_values, sizeof *ends->list);
    for (int i = 0; ends->list && good && i < s->n_values; i++) {
        const struct value *v = &s->values[i];
        if (v->before != '/') {
            end = &ends->list[ends->n++];
            *end = (struct brutefir_end){.name = v->kind == VALUE_STRING ? v->text : NULL, .gain = 1, .line = s->line};
            good = v->kind == VALUE_STRING || (v->kind == VALUE_NUMBER && v->number == floor(v->number));
            end->index = good && !end->name && fabs(v->number) < 1e6 ? (int)v->number : -1;
            slashes = 0;
            continue;
        }
        bool is_skipped = v->kind == VALUE_EMPTY && slashes == 0 && i + 1 < s->n_values && v[1].before == '/';
        good = end && has_gains && ++slashes <= 2 && (v->kind == VALUE_NUMBER || is_skipped);
        if (good && !is_skipped) end->gain *= slashes == 1 ? pow(10, -v->number / 20) : v->number;
    }
    if (good) return;
    ends->n = 0;
    BRUTEFIR_REFUSE(b, s, "needs names or numbers%s with commas between them",
                    has_gains ? ", each with /ATTENUATION or /ATTENUATION/FACTOR or nothing,"
                              : " without attenuation,");
}

#define READ_ENDS(function, member, side, has_gains)                                                                   \
    static void function(struct brutefir *b, const struct statement *s, void *structure)                               \
    {                                                                                                                  \
        ends_read(b, s, &((struct brutefir_filter *)structure)->member[side], has_gains);                              \
    }
READ_ENDS(read_inputs, channels, BRUTEFIR_IN, true)
READ_ENDS(read_outputs, channels, BRUTEFIR_OUT, true)
READ_ENDS(read_from_filters, filters, BRUTEFIR_IN, true)
READ_ENDS(read_to_filters, filters, BRUTEFIR_OUT, false)

static void read_filter_coeff(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_filter *filter = structure;
    filter->coeff_line = s->line;
    if (s->n_values == 1 && s->values->kind == VALUE_STRING)
        filter->coeff_name = s->values->text;
    else
        brutefir_int(b, s, -1, 1 << 24, &filter->coeff);
}

static void read_filter_delay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_filter *filter = structure;
    brutefir_int(b, s, -(1 << 24), 1 << 24, &filter->delay);
    if (filter->delay < 0) filter->delay = 0;
}

/* Bits of the first rows of the table. */
enum { SEEN_FROM = 1 | 2 | 4, SEEN_TO = 8 | 16 | 32, SEEN_COEFF = 64 };
static const struct field filter_fields[] = {
    {"from_inputs", read_inputs},
    {"inputs", read_inputs}, /* an older name */
    {"from_filters", read_from_filters},
    {"to_outputs", read_outputs},
    {"outputs", read_outputs}, /* an older name */
    {"to_filters", read_to_filters},
    {"coeff", read_filter_coeff},
    {"delay", read_filter_delay},
    {"process", NULL},
    {"crossfade", NULL},
};

void brutefir_read_filter(struct brutefir *b, const struct statement *s)
{
    struct brutefir_filter *filter = &b->filters[b->n_filters];
    *filter = (struct brutefir_filter){.line = s->line, .coeff = -1};
    filter->name = s->n_values == 1 ? brutefir_name(b, s, 0, b->n_filters) : NULL;
    if (s->n_values != 1) BRUTEFIR_REFUSE(b, s, "needs one name and a block, as in: filter \"name\" { ... };");
    b->n_filters++;
    if (!filter->name) return;
    unsigned seen = BRUTEFIR_FIELDS(b, s->values->block, filter_fields, filter);
    if (!(seen & SEEN_FROM)) BRUTEFIR_REFUSE(b, s, "has no from_inputs and no from_filters; add one of them");
    if (!(seen & SEEN_TO)) BRUTEFIR_REFUSE(b, s, "has no to_outputs and no to_filters; add one of them");
    if (!(seen & SEEN_COEFF)) BRUTEFIR_REFUSE(b, s, "has no coeff; name one, or give -1 for none");
}
