#include "brutefir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const io_names[] = {"input", "output"};

#define REFUSE(b, s, ...) IMPORT_REFUSE((b)->import, (s)->line, (s)->name, __VA_ARGS__)
#define WARN(b, s, ...) IMPORT_WARN((b)->import, (s)->line, (s)->name, __VA_ARGS__)

/* ---- values ------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"nothing", "string", "number", "boolean"};

/* The statement's only value; NULL: an error was reported. */
static const struct value *value_take(struct brutefir *b, const struct statement *s, enum value_kind kind)
{
    if (s->n_values == 1 && s->values->kind == kind) return s->values;
    REFUSE(b, s, "needs one %s", kind_names[kind]);
    return NULL;
}

static bool number_fits(struct brutefir *b, const struct statement *s, double number, int min, int max)
{
    if (number >= min && number <= max && number == floor(number)) return true;
    REFUSE(b, s, "%g; whole numbers from %d to %d are possible", number, min, max);
    return false;
}

static void int_take(struct brutefir *b, const struct statement *s, int min, int max, int *number)
{
    const struct value *value = value_take(b, s, VALUE_NUMBER);
    if (value && number_fits(b, s, value->number, min, max)) *number = (int)value->number;
}

/* Values of one kind with commas between them, for at most `most` channels. false: an error was reported. */
static bool list_fits(struct brutefir *b, const struct statement *s, enum value_kind kind, int most)
{
    bool good = s->n_values > 0;
    for (int i = 0; i < s->n_values; i++) good &= s->values[i].kind == kind && s->values[i].before != '/';
    if (!good) REFUSE(b, s, "needs a %s for each channel, with commas between them", kind_names[kind]);
    if (good && s->n_values > most) REFUSE(b, s, "%d values for %d channels; give one each", s->n_values, most);
    return good && s->n_values <= most;
}

/* Notes what has no counterpart here, because it is about the run and not about the sound. */
static void note_run(struct brutefir *b, const struct statement *s, const char *what)
{
    char text[160];
    size_t used = strlen(b->run);
    int length = snprintf(text, sizeof text, "%s%.60s%s%.60s (line %d)", used ? ", " : "", s->name, what ? " " : "",
                          what ? what : "", s->line);
    if (b->n_run++ == 0) b->run_line = s->line;
    if (used + (size_t)length >= sizeof b->run) return;
    memcpy(b->run + used, text, (size_t)length + 1);
    b->n_run_named++;
}

static void warn_missing(struct brutefir *b, int line, const char *structure, const char *field, const char *usual)
{
    IMPORT_WARN(b->import, line, structure,
                "gives no %s, ~/.brutefir_defaults is not read, and %s is taken; write it here", field, usual);
}

/* ---- fields ------------------------------------------------------------------------------------- */

struct field {
    const char *name;
    void (*take)(struct brutefir *b, const struct statement *s, void *structure); /* NULL: about the run */
};

/* Takes the statements of a structure. Returns a bit for each field of the table that is there. */
static unsigned fields_take(struct brutefir *b, const struct statement *s, const struct field *fields, int n,
                            void *structure)
{
    unsigned seen = 0;
    for (; s; s = s->next) {
        int i = 0;
        while (i < n && strcmp(fields[i].name, s->name) != 0) i++;
        if (i == n) {
            REFUSE(b, s, "is unknown there; mend its name");
            continue;
        }
        if (seen & 1U << i) REFUSE(b, s, "is there twice; leave one of them");
        seen |= 1U << i;
        if (fields[i].take)
            fields[i].take(b, s, structure);
        else
            note_run(b, s, NULL);
    }
    return seen;
}
#define FIELDS_TAKE(b, first, fields, structure)                                                                       \
    fields_take(b, first, fields, (int)(sizeof(fields) / sizeof *(fields)), structure)

static const char *text_of_index(struct brutefir *b, int index)
{
    char text[16];
    snprintf(text, sizeof text, "%d", index);
    return arena_text(b->import->c->arena, text);
}

/* The i-th name of a structure: a string, or the number that it has anyway. NULL: an error was reported. */
static const char *name_take(struct brutefir *b, const struct statement *s, int i, int index)
{
    const struct value *v = &s->values[i];
    bool is_last = i == s->n_values - 1;
    if (v->before == '/' || v->has_block != is_last || v->kind == VALUE_BOOLEAN || v->kind == VALUE_EMPTY)
        REFUSE(b, s, "needs names and a block, as in: %s \"name\" { ... };", s->name);
    else if (v->kind == VALUE_NUMBER && v->number != index)
        REFUSE(b, s, "has the number %g, but is number %d of them, from 0; give that number or a string", v->number,
               index);
    else
        return v->kind == VALUE_NUMBER ? text_of_index(b, index) : v->text;
    return NULL;
}

/* ---- coeff -------------------------------------------------------------------------------------- */

static void take_file(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    if (s->n_values && s->values->kind == VALUE_NUMBER) {
        REFUSE(b, s, "coefficients in shared memory cannot be read; name a file");
        return;
    }
    const struct value *value = value_take(b, s, VALUE_STRING);
    if (value && *value->text) coeff->file = value->text;
    if (value && !*value->text) REFUSE(b, s, "is empty; name a file");
}

static void take_format(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    const struct value *value = value_take(b, s, VALUE_STRING);
    if (!value || (coeff->format = raw_format_find(value->text))) return;
    if (strcasecmp(value->text, "processed") == 0)
        REFUSE(b, s, "\"processed\" coefficients are spectra in BruteFIR's own layout; give it the text or raw file");
    else
        REFUSE(b, s, "\"%.40s\" is no format; there are text, S16_LE, S24_LE, S32_LE, FLOAT_LE, FLOAT64_LE, ...",
               value->text);
}

static void take_attenuation(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_coeff *coeff = structure;
    const struct value *value = value_take(b, s, VALUE_NUMBER);
    if (value) coeff->gain = pow(10, -value->number / 20);
}

static void take_blocks(struct brutefir *b, const struct statement *s, void *structure)
{
    int blocks = 0;
    int_take(b, s, -1, 1 << 24, &blocks);
    ((struct brutefir_coeff *)structure)->blocks = blocks > 0 ? blocks : 0;
}

static void take_skip(struct brutefir *b, const struct statement *s, void *structure)
{
    int_take(b, s, 0, 1 << 30, &((struct brutefir_coeff *)structure)->skip);
}

static const struct field coeff_fields[] = {
    {"filename", take_file}, {"format", take_format}, {"attenuation", take_attenuation},
    {"blocks", take_blocks}, {"skip", take_skip},     {"shared_mem", NULL},
};

static void take_coeff(struct brutefir *b, const struct statement *s)
{
    struct brutefir_coeff *coeff = &b->coeffs[b->n_coeffs];
    *coeff = (struct brutefir_coeff){.line = s->line, .gain = 1};
    coeff->name = s->n_values == 1 ? name_take(b, s, 0, b->n_coeffs) : NULL;
    if (s->n_values != 1) REFUSE(b, s, "needs one name and a block, as in: coeff \"name\" { ... };");
    b->n_coeffs++;
    if (!coeff->name) return;
    unsigned seen = FIELDS_TAKE(b, s->values->block, coeff_fields, coeff);
    bool is_dirac = coeff->file && strcmp(coeff->file, "dirac pulse") == 0;
    if (!(seen & 1)) REFUSE(b, s, "has no filename; add one");
    if (is_dirac && coeff->skip) REFUSE(b, s, "a dirac pulse has no bytes to skip; take the skip away");
    if (!is_dirac && !(seen & 2)) {
        warn_missing(b, s->line, s->name, "format", "\"text\"");
        coeff->format = raw_format_find("text");
    }
    if (is_dirac) coeff->file = NULL;
}

/* ---- input and output --------------------------------------------------------------------------- */

struct device { /* an input or output structure */
    int io;
    struct brutefir_channel *channels; /* [n]: its logical channels */
    int n, open, n_used;
    int used[BRUTEFIR_MOST], mapping[BRUTEFIR_MOST];
    bool is_mapped;
    const struct statement *ports; /* of JACK */
};

static void take_channels(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    const struct value *v = s->values;
    bool good = s->n_values > 0;
    for (int i = 0; i < s->n_values; i++)
        good &= v[i].kind == VALUE_NUMBER && (i == 0 || v[i].before == (i == 1 ? '/' : ','));
    if (!good) {
        REFUSE(b, s, "needs the number of channels of the device, and those used, as in 8/0,1");
        return;
    }
    if (!number_fits(b, s, v->number, 1, BRUTEFIR_MOST)) return;
    int open = (int)v->number, n = s->n_values == 1 ? open : s->n_values - 1;
    bool is_whole = n == open;
    for (int i = 0; i < n && i < open; i++) {
        d->used[i] = i;
        if (s->n_values > 1 && !number_fits(b, s, v[i + 1].number, 0, open - 1)) return;
        if (s->n_values > 1) d->used[i] = (int)v[i + 1].number;
        is_whole &= d->used[i] == i;
        for (int k = 0; k < i; k++)
            if (d->used[k] == d->used[i]) {
                REFUSE(b, s, "channel %d is there twice; leave one of them", d->used[i]);
                return;
            }
    }
    if (n > open) {
        REFUSE(b, s, "%d of %d channels; name each once", n, open);
        return;
    }
    d->open = open;
    d->n_used = n;
    if (!is_whole)
        WARN(b, s, "%d of the %d channels of the device are used; they are %ss %d to %d here, in this order", n, open,
             io_names[d->io], b->n_device_channels[d->io] + 1, b->n_device_channels[d->io] + n);
}

static void take_sample(struct brutefir *b, const struct statement *s, void *structure)
{
    const struct device *d = structure;
    const struct value *value = value_take(b, s, VALUE_STRING);
    if (!value || strcasecmp(value->text, "AUTO") == 0) return;
    if (!raw_format_find(value->text) || strcasecmp(value->text, "text") == 0)
        REFUSE(b, s, "\"%.40s\" is no sample format; there are S16_LE, S24_LE, S32_LE, FLOAT_LE, AUTO, ...",
               value->text);
    else if (d->io == BRUTEFIR_OUT && strncasecmp(value->text, "S", 1) == 0)
        WARN(b, s, "%.40s rounds the output and limits it to full scale; here the output file or the sound card does",
             value->text);
}

static void take_delay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!list_fits(b, s, VALUE_NUMBER, d->n)) return;
    for (int i = 0; i < s->n_values; i++)
        if (number_fits(b, s, s->values[i].number, 0, CONFIGURATION_TAPS))
            d->channels[i].delay = (int)s->values[i].number;
}

static void take_mute(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!list_fits(b, s, VALUE_BOOLEAN, d->n)) return;
    for (int i = 0; i < s->n_values; i++) d->channels[i].is_muted = s->values[i].number != 0;
}

static void take_mapping(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!list_fits(b, s, VALUE_NUMBER, d->n)) return;
    if (s->n_values != d->n) {
        REFUSE(b, s, "%d values for %d channels; give one each", s->n_values, d->n);
        return;
    }
    for (int i = 0; i < s->n_values; i++)
        if (number_fits(b, s, s->values[i].number, 0, BRUTEFIR_MOST - 1)) d->mapping[i] = (int)s->values[i].number;
    d->is_mapped = true;
}

/* The valid range is -99 to 99 hundredths of a frame; BruteFIR ignores all of them without an sdf_length. */
static void take_subdelay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    bool is_used = false;
    if (!list_fits(b, s, VALUE_NUMBER, d->n)) return;
    for (int i = 0; i < s->n_values; i++) is_used |= s->values[i].number > -100;
    if (is_used && b->sdf_line)
        REFUSE(b, s, "delays of parts of a frame cannot be represented; give whole frames in delay, or %d here", -100);
    else if (is_used)
        WARN(b, s, "is without effect, because there is no sdf_length above 0");
}

static void take_dither(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *value = value_take(b, s, VALUE_BOOLEAN);
    if (value && value->number) WARN(b, s, "no dither is added here; the output keeps floats where its format can");
}

static void take_device(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    const struct value *value = value_take(b, s, VALUE_STRING);
    if (!value) return;
    char quoted[48];
    snprintf(quoted, sizeof quoted, "\"%.40s\"", value->text);
    if (strcmp(value->text, "jack") != 0) note_run(b, s, quoted);
    for (const struct statement *p = value->block; p && strcmp(value->text, "jack") == 0; p = p->next) {
        if (strcmp(p->name, "ports") == 0)
            d->ports = p;
        else if (strcmp(p->name, "clientname") == 0 && value_take(b, p, VALUE_STRING))
            b->import->c->client = arena_text(b->import->c->arena, p->values->text);
        else
            note_run(b, p, NULL);
    }
}

/* "system:capture_1"/"name", ...: the port to connect to, and the own name; each may be missing. */
static void take_ports(struct brutefir *b, const struct statement *s, hc_port *ports, int n)
{
    int ch = -1;
    for (int i = 0; i < s->n_values; i++) {
        const struct value *v = &s->values[i];
        ch += v->before != '/';
        if (v->kind != VALUE_STRING || (v->before == '/' && s->values[i - 1].before == '/') || ch >= n) {
            REFUSE(b, s, "needs a port for each of %d channels, as in \"system:capture_1\"/\"name\"", n);
            return;
        }
        if (*v->text)
            *(v->before == '/' ? &ports[ch].name : &ports[ch].connect) = arena_text(b->import->c->arena, v->text);
    }
}

static const struct field device_fields[] = {
    {"device", take_device},     {"sample", take_sample}, {"channels", take_channels},
    {"delay", take_delay},       {"mute", take_mute},     {"mapping", take_mapping},
    {"subdelay", take_subdelay}, {"maxdelay", NULL},      {"individual_maxdelay", NULL},
    {"dither", take_dither},     {"merge", NULL},
};
enum { N_INPUT_FIELDS = 9 };

/* Gives the logical channels their channels of the device. */
static void map_channels(struct brutefir *b, const struct statement *s, struct device *d)
{
    int base = b->n_device_channels[d->io];
    hc_port *ports = d->io == BRUTEFIR_IN ? b->import->c->in_port : b->import->c->out_port;
    if (d->n_used > d->n || (d->n_used < d->n) != d->is_mapped) {
        REFUSE(b, s, "%d names for %d channels of the device; give as many, or more names and a mapping for each", d->n,
               d->n_used);
        return;
    }
    for (int i = 0; i < d->n; i++) {
        int channel = d->is_mapped ? d->mapping[i] : i;
        if (channel >= d->n_used) {
            REFUSE(b, s, "the mapping of \"%.40s\" to channel %d of %d; they count from 0", d->channels[i].name,
                   channel, d->n_used);
            return;
        }
        d->channels[i].device_channel = base + channel;
        hc_port *port = &ports[base + channel];
        if (!port->name) port->name = arena_text(b->import->c->arena, d->channels[i].name);
    }
    if (d->ports) take_ports(b, d->ports, ports + base, d->n_used);
    b->n_device_channels[d->io] += d->n_used;
}

static void take_io(struct brutefir *b, const struct statement *s)
{
    int io = strcmp(s->name, "output") == 0;
    struct device *d = s->n_values ? arena_alloc(b->import->c->arena, 1, sizeof *d) : NULL;
    if (!s->n_values)
        REFUSE(b, s, "needs a name for each channel and a block, as in: %s \"left\", \"right\" { ... };", s->name);
    if (!d) return;
    *d = (struct device){.io = io, .n = s->n_values, .channels = b->channels[io] + b->n_channels[io]};
    for (int i = 0; i < d->n; i++) {
        d->channels[i] = (struct brutefir_channel){.name = name_take(b, s, i, b->n_channels[io] + i)};
        if (!d->channels[i].name) return;
    }
    b->n_channels[io] += d->n;
    int n_fields = io == BRUTEFIR_IN ? N_INPUT_FIELDS : (int)(sizeof device_fields / sizeof *device_fields);
    unsigned seen = fields_take(b, s->values[d->n - 1].block, device_fields, n_fields, d);
    if (!(seen & 4)) {
        warn_missing(b, s->line, s->name, "channels", "2");
        d->n_used = d->open = 2;
    }
    if (d->n_used) map_channels(b, s, d);
}

/* ---- filter ------------------------------------------------------------------------------------- */

/* NAME, NAME/DB, NAME/DB/FACTOR or NAME//FACTOR, with commas between them. */
static void ends_take(struct brutefir *b, const struct statement *s, struct brutefir_ends *ends, bool has_gains)
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
        good = has_gains && ++slashes <= 2 && (v->kind == VALUE_NUMBER || is_skipped);
        if (good && !is_skipped) end->gain *= slashes == 1 ? pow(10, -v->number / 20) : v->number;
    }
    if (good) return;
    ends->n = 0;
    REFUSE(b, s, "needs names or numbers%s with commas between them",
           has_gains ? ", each with /ATTENUATION or /ATTENUATION/FACTOR or nothing," : " without attenuation,");
}

#define TAKE_ENDS(function, member, side, has_gains)                                                                   \
    static void function(struct brutefir *b, const struct statement *s, void *structure)                               \
    {                                                                                                                  \
        ends_take(b, s, &((struct brutefir_filter *)structure)->member[side], has_gains);                              \
    }
TAKE_ENDS(take_inputs, channels, BRUTEFIR_IN, true)
TAKE_ENDS(take_outputs, channels, BRUTEFIR_OUT, true)
TAKE_ENDS(take_from_filters, filters, BRUTEFIR_IN, true)
TAKE_ENDS(take_to_filters, filters, BRUTEFIR_OUT, false)

static void take_filter_coeff(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_filter *filter = structure;
    filter->coeff_line = s->line;
    if (s->n_values == 1 && s->values->kind == VALUE_STRING)
        filter->coeff_name = s->values->text;
    else
        int_take(b, s, -1, 1 << 24, &filter->coeff);
}

static void take_filter_delay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct brutefir_filter *filter = structure;
    int_take(b, s, -(1 << 24), 1 << 24, &filter->delay);
    if (filter->delay < 0) filter->delay = 0;
}

static const struct field filter_fields[] = {
    {"from_inputs", take_inputs},
    {"inputs", take_inputs},
    {"to_outputs", take_outputs},
    {"outputs", take_outputs},
    {"coeff", take_filter_coeff},
    {"from_filters", take_from_filters},
    {"to_filters", take_to_filters},
    {"delay", take_filter_delay},
    {"process", NULL},
    {"crossfade", NULL},
};

static void take_filter(struct brutefir *b, const struct statement *s)
{
    struct brutefir_filter *filter = &b->filters[b->n_filters];
    *filter = (struct brutefir_filter){.line = s->line, .coeff = -1};
    filter->name = s->n_values == 1 ? name_take(b, s, 0, b->n_filters) : NULL;
    if (s->n_values != 1) REFUSE(b, s, "needs one name and a block, as in: filter \"name\" { ... };");
    b->n_filters++;
    if (!filter->name) return;
    unsigned seen = FIELDS_TAKE(b, s->values->block, filter_fields, filter);
    if (!(seen & 0x23)) REFUSE(b, s, "has no from_inputs and no from_filters; add one of them");
    if (!(seen & 0x4c)) REFUSE(b, s, "has no to_outputs and no to_filters; add one of them");
    if (!(seen & 0x10)) REFUSE(b, s, "has no coeff; name one, or give -1 for none");
}

/* ---- settings ----------------------------------------------------------------------------------- */

static void take_rate(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    int_take(b, s, 1, 10000000, &b->import->c->rate);
}

static void take_length(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *v = s->values;
    bool has_blocks = s->n_values == 2 && v[1].kind == VALUE_NUMBER && v[1].before == ',';
    if (!(s->n_values == 1 || has_blocks) || v->kind != VALUE_NUMBER) {
        REFUSE(b, s, "needs a length, or a length and a number of blocks, as in 4096,16");
        return;
    }
    if (!number_fits(b, s, v->number, 4, CONFIGURATION_TAPS)) return;
    int frames = (int)v->number;
    if (frames & (frames - 1))
        REFUSE(b, s, "%d is no power of two; BruteFIR needs one", frames);
    else if (!has_blocks || number_fits(b, s, v[1].number, 1, CONFIGURATION_TAPS / frames)) {
        b->block_frames = frames;
        b->n_blocks = has_blocks ? (int)v[1].number : 1;
    }
}

static void take_logic(struct brutefir *b, const struct statement *s, void *structure)
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
                          "write what it sets into the filters");
        else if (strcmp(module, "cli") == 0)
            note_run(b, s, "\"cli\"");
        else if (strcmp(module, "eq") == 0)
            REFUSE(b, s,
                   "the filters that \"eq\" computes cannot be represented; write them as coefficients with its "
                   "debug_dump_filter");
        else
            REFUSE(b, s, "the module \"%.40s\" is unknown, and may change the sound; take it away", module);
    }
}

static void take_powersave(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    bool is_level = s->n_values == 1 && s->values->kind == VALUE_NUMBER;
    if (!is_level && !value_take(b, s, VALUE_BOOLEAN)) return;
    if (is_level && s->values->number < 0)
        WARN(b, s, "input below %g dB is played here, and silence in BruteFIR", s->values->number);
}

static void take_safety_limit(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *value = value_take(b, s, VALUE_NUMBER);
    if (value && value->number != 0)
        WARN(b, s, "louder output than %g dB ends BruteFIR, and is played here", value->number);
}

static void take_sdf_length(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    if (s->n_values && s->values->kind == VALUE_NUMBER && s->values->number > 0) b->sdf_line = s->line;
}

static const struct field settings[] = {
    {"sampling_rate", take_rate},
    {"filter_length", take_length},
    {"logic", take_logic},
    {"powersave", take_powersave},
    {"safety_limit", take_safety_limit},
    {"sdf_length", take_sdf_length},
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

/* ---- the whole ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*take)(struct brutefir *b, const struct statement *s);
} structures[] = {
    {"coeff", take_coeff}, {"input", take_io}, {"output", take_io}, {"filter", take_filter}, {"route", take_filter},
};
enum { COEFF, INPUT, OUTPUT, FILTER, ROUTE, N_STRUCTURES };

static int structure_of(const struct statement *s)
{
    int i = 0;
    while (i < N_STRUCTURES && strcmp(structures[i].name, s->name) != 0) i++;
    return i;
}

/* Divides the statements of a text into settings and structures, each in their order. */
static void split(struct statement *first, struct statement **only_settings, struct statement **only_structures)
{
    for (struct statement *s = first; s; s = s->next) {
        struct statement ***end = structure_of(s) < N_STRUCTURES ? &only_structures : &only_settings;
        **end = s;
        *end = &s->next;
    }
    *only_settings = *only_structures = NULL;
}

/* Allocates the structures, as many as there are. false: too many, or no memory. */
static bool structures_make(struct brutefir *b, const struct statement *first)
{
    struct arena *arena = b->import->c->arena;
    int n[N_STRUCTURES + 1] = {0};
    for (const struct statement *s = first; s; s = s->next) {
        int i = structure_of(s), *count = &n[i == ROUTE ? FILTER : i];
        *count += i == INPUT || i == OUTPUT ? s->n_values : 1;
        if (*count <= BRUTEFIR_MOST) continue;
        REFUSE(b, s, "more than %d of them; use fewer", BRUTEFIR_MOST);
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

static void warn_run(struct brutefir *b)
{
    char more[32] = "";
    if (b->n_run > b->n_run_named) snprintf(more, sizeof more, " and %d more", b->n_run - b->n_run_named);
    if (b->n_run)
        IMPORT_WARN(b->import, b->run_line, NULL,
                    "about BruteFIR's run and not the sound, and without effect here: %s%s", b->run, more);
}

static void read_brutefir(struct import *import)
{
    struct brutefir b = {.import = import, .block_frames = 65536, .n_blocks = 1};
    struct configuration *c = import->c;
    struct statement *only_settings = NULL, *only_structures = NULL;
    split(brutefir_parse(import), &only_settings, &only_structures);
    unsigned seen = FIELDS_TAKE(&b, only_settings, settings, NULL);
    if (!(seen & 1)) warn_missing(&b, 0, NULL, "sampling_rate", "44100");
    if (!(seen & 1)) c->rate = 44100;
    if (!(seen & 2)) warn_missing(&b, 0, NULL, "filter_length", "65536");
    if (c->arena->is_short || !structures_make(&b, only_structures)) return;
    for (const struct statement *s = only_structures; s && !c->arena->is_short; s = s->next)
        structures[structure_of(s)].take(&b, s);
    warn_run(&b);
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
