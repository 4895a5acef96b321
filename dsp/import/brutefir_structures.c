/* brutefir_structures - reads the structures of BruteFIR: coeff and filter; input and output, which are devices, their
 * channels, and the logical channels that share them. */
#include "brutefir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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

/* Checks values of one kind with commas between them, for at most n_channels channels. false: an error was reported. */
static bool brutefir_list_fits(struct brutefir *b, const struct statement *s, enum value_kind kind, int n_channels)
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

/* Returns the i-th name of a structure: a string, or a number that must be `index`. NULL: an error was reported. */
static const char *brutefir_name(struct brutefir *b, const struct statement *s, int i, int index)
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

/* ---- input and output -------------------------------------------------------------------------- */

static const char *const io_names[] = {"input", "output"};

struct device { /* a structure `input` or `output` */
    int io;
    struct brutefir_channel *channels; /* [n]: logical channels */
    int n, n_used;                     /* n_used: channels of the device */
    int mapping[BRUTEFIR_MAX];
    bool is_mapped;
    const struct statement *ports; /* JACK's ports; NULL: none */
};

static void read_channels(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    const struct value *v = s->values;
    bool good = s->n_values > 0;
    for (int i = 0; i < s->n_values; i++)
        good &= v[i].kind == VALUE_NUMBER && (i == 0 || v[i].before == (i == 1 ? '/' : ','));
    if (!good) {
        BRUTEFIR_REFUSE(b, s, "needs the device's channel count, and the channels that are used, as in 8/0,1");
        return;
    }
    if (!brutefir_number_fits(b, s, v->number, 1, BRUTEFIR_MAX)) return;
    int open = (int)v->number, n = s->n_values == 1 ? open : s->n_values - 1;
    bool is_whole = n == open, is_used[BRUTEFIR_MAX] = {false};
    for (int i = 0; s->n_values > 1 && i < n; i++) {
        if (!brutefir_number_fits(b, s, v[i + 1].number, 0, open - 1)) return;
        int channel = (int)v[i + 1].number;
        if (is_used[channel]) {
            BRUTEFIR_REFUSE(b, s, "channel %d occurs twice; remove one of them", channel);
            return;
        }
        is_used[channel] = true;
        is_whole &= channel == i;
    }
    d->n_used = n;
    if (!is_whole)
        BRUTEFIR_WARN(b, s, "%d of the %d channels of the device are used; here they are %ss %d to %d, in this order",
                      n, open, io_names[d->io], b->n_device_channels[d->io] + 1, b->n_device_channels[d->io] + n);
}

static void read_sample(struct brutefir *b, const struct statement *s, void *structure)
{
    const struct device *d = structure;
    const struct value *value = brutefir_value(b, s, VALUE_STRING);
    if (!value || strcasecmp(value->text, "AUTO") == 0) return;
    if (!raw_format_find(value->text) || strcasecmp(value->text, "text") == 0)
        BRUTEFIR_REFUSE(b, s, "\"%.40s\" is not a sample format; use S16_LE, S24_LE, S32_LE, FLOAT_LE, AUTO, ...",
                        value->text);
    else if (d->io == BRUTEFIR_OUT && strncasecmp(value->text, "S", 1) == 0)
        BRUTEFIR_WARN(
            b, s, "%.40s rounds the output and limits it to full scale; here the output file or the sound card does so",
            value->text);
}

static void read_delay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!brutefir_list_fits(b, s, VALUE_NUMBER, d->n)) return;
    for (int i = 0; i < s->n_values; i++)
        if (brutefir_number_fits(b, s, s->values[i].number, 0, CONFIGURATION_TAPS))
            d->channels[i].delay = (int)s->values[i].number;
}

static void read_mute(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!brutefir_list_fits(b, s, VALUE_BOOLEAN, d->n)) return;
    for (int i = 0; i < s->n_values; i++) d->channels[i].is_muted = s->values[i].number != 0;
}

static void read_mapping(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    if (!brutefir_list_fits(b, s, VALUE_NUMBER, d->n)) return;
    if (s->n_values != d->n) {
        BRUTEFIR_REFUSE(b, s, "has %d values for %d channels; give one for each channel", s->n_values, d->n);
        return;
    }
    for (int i = 0; i < s->n_values; i++)
        if (brutefir_number_fits(b, s, s->values[i].number, 0, BRUTEFIR_MAX - 1))
            d->mapping[i] = (int)s->values[i].number;
    d->is_mapped = true;
}

/* Reads delays of -99 to 99 hundredths of a frame; -100: none. Without an sdf_length BruteFIR ignores them. */
static void read_subdelay(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    bool is_used = false;
    if (!brutefir_list_fits(b, s, VALUE_NUMBER, d->n)) return;
    for (int i = 0; i < s->n_values; i++) is_used |= s->values[i].number > -100;
    if (is_used && b->has_sdf_length)
        BRUTEFIR_REFUSE(
            b, s, "delays by a fraction of a frame cannot be represented; write whole frames into delay, or %d here",
            -100);
    else if (is_used)
        BRUTEFIR_NOTE(b, s, "has no effect: BruteFIR delays by a fraction of a frame only if sdf_length is above 0");
}

static void read_dither(struct brutefir *b, const struct statement *s, void *structure)
{
    (void)structure;
    const struct value *value = brutefir_value(b, s, VALUE_BOOLEAN);
    if (value && value->number != 0)
        BRUTEFIR_WARN(b, s, "haloconv adds no dither here; the output keeps floats where its format can");
}

static void read_device(struct brutefir *b, const struct statement *s, void *structure)
{
    struct device *d = structure;
    const struct value *value = brutefir_value(b, s, VALUE_STRING);
    if (!value) return;
    char quoted[48];
    snprintf(quoted, sizeof quoted, "\"%.40s\"", value->text);
    if (strcmp(value->text, "jack") != 0) import_note_run(b->import, s->line, s->name, quoted);
    for (const struct statement *p = value->block; p && strcmp(value->text, "jack") == 0; p = p->next) {
        if (strcmp(p->name, "ports") == 0)
            d->ports = p;
        else if (strcmp(p->name, "clientname") == 0 && brutefir_value(b, p, VALUE_STRING))
            b->import->c->client = arena_text(b->import->c->arena, p->values->text);
    }
}

/* Reads "system:capture_1"/"name", ...: the port to connect to, and the port's own name; each may be missing. */
static void read_ports(struct brutefir *b, const struct statement *s, hc_port *ports, int n)
{
    int ch = -1;
    for (int i = 0; i < s->n_values; i++) {
        const struct value *v = &s->values[i];
        ch += v->before != '/';
        if (v->kind != VALUE_STRING || (v->before == '/' && s->values[i - 1].before == '/') || ch >= n) {
            BRUTEFIR_REFUSE(b, s, "needs a port for each of %d channels, as in \"system:capture_1\"/\"name\"", n);
            return;
        }
        if (*v->text)
            *(v->before == '/' ? &ports[ch].name : &ports[ch].connect) = arena_text(b->import->c->arena, v->text);
    }
}

static const struct field device_fields[] = {
    {"device", read_device},     {"sample", read_sample}, {"channels", read_channels},
    {"delay", read_delay},       {"mute", read_mute},     {"mapping", read_mapping},
    {"subdelay", read_subdelay}, {"maxdelay", NULL},      {"individual_maxdelay", NULL},
    {"dither", read_dither},     {"merge", NULL},
};
enum { SEEN_CHANNELS = 4, N_INPUT_FIELDS = 9 }; /* a bit; fields after the ninth are for outputs only */

/* Assigns a channel of the device to each logical channel. */
static void map_channels(struct brutefir *b, const struct statement *s, struct device *d)
{
    int base = b->n_device_channels[d->io];
    hc_port *ports = d->io == BRUTEFIR_IN ? b->import->c->in_port : b->import->c->out_port;
    if (d->n_used > d->n || (d->n_used < d->n) != d->is_mapped) {
        BRUTEFIR_REFUSE(
            b, s, "has %d names for %d channels of the device; give one for each, or more names and a mapping for each",
            d->n, d->n_used);
        return;
    }
    for (int i = 0; i < d->n; i++) {
        int channel = d->is_mapped ? d->mapping[i] : i;
        if (channel >= d->n_used) {
            BRUTEFIR_REFUSE(b, s, "\"%.40s\" is mapped to channel %d of %d; count channels from 0", d->channels[i].name,
                            channel, d->n_used);
            return;
        }
        d->channels[i].device_channel = base + channel;
        hc_port *port = &ports[base + channel];
        if (!port->name) port->name = arena_text(b->import->c->arena, d->channels[i].name);
    }
    if (d->ports) read_ports(b, d->ports, ports + base, d->n_used);
    b->n_device_channels[d->io] += d->n_used;
}

void brutefir_read_device(struct brutefir *b, const struct statement *s)
{
    int io = strcmp(s->name, "output") == 0;
    struct device *d = s->n_values ? arena_alloc(b->import->c->arena, 1, sizeof *d) : NULL;
    if (!s->n_values)
        BRUTEFIR_REFUSE(b, s, "needs a name for each channel and a block, as in: %s \"left\", \"right\" { ... };",
                        s->name);
    if (!d) return;
    *d = (struct device){.io = io, .n = s->n_values, .channels = b->channels[io] + b->n_channels[io]};
    for (int i = 0; i < d->n; i++) {
        d->channels[i] = (struct brutefir_channel){.name = brutefir_name(b, s, i, b->n_channels[io] + i)};
        if (!d->channels[i].name) return;
    }
    b->n_channels[io] += d->n;
    int n_fields = io == BRUTEFIR_IN ? N_INPUT_FIELDS : (int)(sizeof device_fields / sizeof *device_fields);
    unsigned seen = brutefir_fields(b, s->values[d->n - 1].block, device_fields, n_fields, d);
    if (!(seen & SEEN_CHANNELS)) {
        brutefir_warn_missing(b, s->line, s->name, "channels", "2");
        d->n_used = 2;
    }
    if (d->n_used) map_channels(b, s, d);
}
