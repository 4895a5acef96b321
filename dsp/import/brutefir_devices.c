/* brutefir_devices - reads BruteFIR's statements `input` and `output`: devices, their channels, and the logical
 * channels that share them. */
#include "brutefir.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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
