#include "brutefir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- settings ----------------------------------------------------------------------------------- */

static void read_rate(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    brutefir_int(b, s, 1, 10000000, &b->import->c->rate);
}

static void read_length(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *v = s->values;
    bool has_blocks = s->n_values == 2 && v[1].kind == VALUE_NUMBER && v[1].before == ',';
    if (!(s->n_values == 1 || has_blocks) || v->kind != VALUE_NUMBER) {
        BRUTEFIR_REFUSE(b, s, "needs a length, or a length and a number of blocks, as in 4096,16");
        return;
    }
    if (!brutefir_number_fits(b, s, v->number, 4, CONFIGURATION_TAPS)) return;
    int frames = (int)v->number;
    if (frames & (frames - 1))
        BRUTEFIR_REFUSE(b, s, "%d is not a power of two; give one", frames);
    else if (!has_blocks || brutefir_number_fits(b, s, v[1].number, 1, CONFIGURATION_TAPS / frames)) {
        b->block_frames = frames;
        b->n_blocks = has_blocks ? (int)v[1].number : 1;
    }
}

static void read_logic(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    for (int i = 0; i < s->n_values; i++) {
        const struct value *v = &s->values[i];
        const char *module = v->kind == VALUE_STRING ? v->text : "";
        const struct statement *p = v->block;
        while (p && strcmp(p->name, "script") != 0) p = p->next;
        if (strcmp(module, "cli") == 0 && p)
            IMPORT_REFUSE(b->import, p->line, "logic",
                          "the script of \"cli\" changes the filters while it plays; "
                          "write its settings into the filters");
        else if (strcmp(module, "cli") == 0)
            import_note_run(b->import, s->line, s->name, "\"cli\"");
        else if (strcmp(module, "eq") == 0)
            BRUTEFIR_REFUSE(
                b, s,
                "the filters that \"eq\" computes cannot be represented; write them as coefficients with its "
                "debug_dump_filter");
        else
            BRUTEFIR_REFUSE(b, s, "the module \"%.40s\" is unknown, and may change the sound; remove it", module);
    }
}

static void read_powersave(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    bool is_level = s->n_values == 1 && s->values->kind == VALUE_NUMBER;
    if (!is_level && !brutefir_value(b, s, VALUE_BOOLEAN)) return;
    if (is_level && s->values->number < 0)
        BRUTEFIR_WARN(b, s, "haloconv plays input below %g dB; BruteFIR replaces it by silence", s->values->number);
}

static void read_safety_limit(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *value = brutefir_value(b, s, VALUE_NUMBER);
    if (value && value->number != 0)
        BRUTEFIR_WARN(b, s, "output above %g dB ends BruteFIR; haloconv plays it", value->number);
}

static void read_sdf_length(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    if (s->n_values && s->values->kind == VALUE_NUMBER && s->values->number > 0) b->has_sdf_length = true;
}

enum { SEEN_RATE = 1, SEEN_LENGTH = 2, N_DEFAULTS = 2 }; /* bits of the settings that the defaults may have, too */
static const struct field settings[] = {
    {"sampling_rate", read_rate},
    {"filter_length", read_length},
    {"logic", read_logic},
    {"powersave", read_powersave},
    {"safety_limit", read_safety_limit},
    {"sdf_length", read_sdf_length},
    {"float_bits", NULL},
    {"config_file", NULL},
    {"overflow_warnings", NULL},
    {"show_progress", NULL},
    {"n_processors", NULL},
    {"max_dither_table_size", NULL},
    {"lock_memory", NULL},
    {"modules_path", NULL},
    {"monitor_rate", NULL},
    {"debug", NULL},
    {"allow_poll_mode", NULL},
    {"convolver_config", NULL},
    {"benchmark", NULL},
};

/* ---- the file of defaults ----------------------------------------------------------------------- */

/* Applies the default settings that the text lacks. Returns their bits. */
static unsigned defaults_apply(struct brutefir *b, struct import *import, unsigned seen)
{
    struct configuration *c = import->c;
    struct brutefir own = {.import = import};
    unsigned found = 0;
    for (struct statement *s = brutefir_parse(import); s; s = s->next)
        for (unsigned i = 0; i < N_DEFAULTS; i++) {
            if (seen & 1U << i || strcmp(s->name, settings[i].name) != 0) continue;
            settings[i].read(&own, s, NULL);
            found |= 1U << i;
        }
    if (c->diagnostics.n_errors) {
        IMPORT_WARN(b->import, 0, NULL, "%s", c->diagnostics.n_kept ? c->diagnostics.kept->text : c->diagnostics.path);
        return 0;
    }
    if (found & SEEN_RATE) b->import->c->rate = c->rate;
    if (found & SEEN_LENGTH) {
        b->block_frames = own.block_frames;
        b->n_blocks = own.n_blocks;
    }
    return found;
}

/* Reads ~/.brutefir_defaults, if it exists; BruteFIR reads it before the text. */
static unsigned defaults_read(struct brutefir *b, unsigned seen)
{
    enum { MAX_BYTES = 1 << 20 };
    struct arena *arena = b->import->c->arena;
    const char *home = getenv("HOME");
    char path[4096], why[DIAGNOSTIC_CAP / 2], *text;
    size_t bytes;
    unsigned found = 0;
    int length = snprintf(path, sizeof path, "%s/.brutefir_defaults", home ? home : "");
    if (length >= (int)sizeof path || access(path, F_OK) != 0) return 0;
    struct configuration *c = arena_alloc(arena, 1, sizeof *c);
    if (!c) return 0;
    *c = (struct configuration){.arena = arena, .diagnostics = {.path = path, .arena = arena}};
    if (mask_file_text(path, MAX_BYTES, &text, &bytes, REASON(why, sizeof why)) != HC_OK)
        IMPORT_WARN(b->import, 0, NULL, "%s", why);
    else
        found = defaults_apply(b, &(struct import){.c = c, .text = text, .bytes = bytes}, seen);
    free(text);
    if (found & SEEN_RATE) IMPORT_NOTE(b->import, 0, NULL, "sampling_rate %d is from %s", b->import->c->rate, path);
    if (found & SEEN_LENGTH)
        IMPORT_NOTE(b->import, 0, NULL, "filter_length %d,%d is from %s", b->block_frames, b->n_blocks, path);
    return found;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*read)(struct brutefir *b, const struct statement *s);
} structures[] = {
    {"coeff", brutefir_read_coeff},   {"input", brutefir_read_device}, {"output", brutefir_read_device},
    {"filter", brutefir_read_filter}, {"route", brutefir_read_filter},
};
enum { COEFF, INPUT, OUTPUT, FILTER, ROUTE, N_STRUCTURES };

static int structure_of(const struct statement *s)
{
    int i = 0;
    while (i < N_STRUCTURES && strcmp(structures[i].name, s->name) != 0) i++;
    return i;
}

/* Divides the statements of a text into settings and structures; both keep their order. */
static void statements_split(struct statement *first, struct statement **only_settings,
                             struct statement **only_structures)
{
    for (struct statement *s = first; s; s = s->next) {
        struct statement ***end = structure_of(s) < N_STRUCTURES ? &only_structures : &only_settings;
        **end = s;
        *end = &s->next;
    }
    *only_settings = *only_structures = NULL;
}

/* Allocates the structures by their count in the text. false: too many, or no memory. */
static bool structures_make(struct brutefir *b, const struct statement *first)
{
    struct arena *arena = b->import->c->arena;
    int n[N_STRUCTURES + 1] = {0};
    for (const struct statement *s = first; s; s = s->next) {
        int i = structure_of(s), *count = &n[i == ROUTE ? FILTER : i];
        *count += i == INPUT || i == OUTPUT ? s->n_values : 1;
        if (*count <= BRUTEFIR_MAX) continue;
        BRUTEFIR_REFUSE(b, s, "is number %d of its kind; use at most %d", BRUTEFIR_MAX + 1, BRUTEFIR_MAX);
        return false;
    }
    for (int i = COEFF; i < ROUTE; i++)
        if (i != COEFF && n[i] == 0) IMPORT_REFUSE(b->import, 0, NULL, "has no %s; add one", structures[i].name);
    b->coeffs = arena_alloc(arena, (size_t)n[COEFF], sizeof *b->coeffs);
    b->filters = arena_alloc(arena, (size_t)n[FILTER], sizeof *b->filters);
    b->channels[BRUTEFIR_IN] = arena_alloc(arena, (size_t)n[INPUT], sizeof *b->channels[0]);
    b->channels[BRUTEFIR_OUT] = arena_alloc(arena, (size_t)n[OUTPUT], sizeof *b->channels[0]);
    return !arena->is_short;
}

static void read_brutefir(struct import *import)
{
    struct brutefir b = {.import = import, .block_frames = 65536, .n_blocks = 1};
    struct configuration *c = import->c;
    struct statement *only_settings = NULL, *only_structures = NULL;
    statements_split(brutefir_parse(import), &only_settings, &only_structures);
    unsigned seen = BRUTEFIR_FIELDS(&b, only_settings, settings, NULL);
    if (!(seen & SEEN_RATE) || !(seen & SEEN_LENGTH)) seen |= defaults_read(&b, seen);
    if (!(seen & SEEN_RATE)) brutefir_warn_missing(&b, 0, NULL, "sampling_rate", "44100");
    if (!(seen & SEEN_RATE)) c->rate = 44100;
    if (!(seen & SEEN_LENGTH)) brutefir_warn_missing(&b, 0, NULL, "filter_length", "65536");
    if (c->arena->is_short || !structures_make(&b, only_structures)) return;
    for (const struct statement *s = only_structures; s && !c->arena->is_short; s = s->next)
        structures[structure_of(s)].read(&b, s);
    if (b.n_device_channels[BRUTEFIR_IN]) c->n_in = b.n_device_channels[BRUTEFIR_IN];
    if (b.n_device_channels[BRUTEFIR_OUT]) c->n_out = b.n_device_channels[BRUTEFIR_OUT];
    if (!c->arena->is_short) brutefir_network(&b);
}

const struct import_format format_brutefir = {
    .name = "BruteFIR",
    .extensions = ".conf .cfg .bf .brutefir .brutefir_config .",
    .is_format = brutefir_is_text,
    .read = read_brutefir,
};
