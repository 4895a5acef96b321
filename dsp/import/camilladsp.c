#include "camilladsp.h"
#include "import.h"

#include <string.h>

/* Is this a text of CamillaDSP? Then a line in its first 64 KiB begins with "devices", and that section has a rate. */
static bool is_camilladsp(const char *text, size_t bytes)
{
    static const char section[] = "devices:";
    if (bytes > 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, bytes -= 3; /* byte order mark of UTF-8 */
    for (const char *at = text, *end = text + bytes; at && at < end; at = memchr(at, '\n', (size_t)(end - at))) {
        at += *at == '\n';
        if ((size_t)(end - at) >= sizeof section && strncmp(at, section, sizeof section - 1) == 0)
            return memmem(at, (size_t)(end - at), "samplerate", 10) != NULL;
    }
    return false;
}

#ifdef HC_WITH_YAML

#include <math.h>
#include <stdio.h>

enum {
    MAX_NAMES = 4096,   /* filters or mixers, because a search for a name looks at all */
    MAX_APPLIED = 65536 /* filters of all channels, because aliases repeat them at no cost */
};

struct camilladsp_pipeline {
    struct camilladsp *d;
    const yaml_node_t *mixers;     /* mixers by name; NULL: absent */
    bool *is_mixed;                /* [yaml_pairs(mixers)]: is the mixer in a step that plays? */
    const struct signal **signals; /* [n]: signals of the channels after the present step */
    int n;
    int n_applied;
};

const char *camilladsp_name(struct camilladsp *d, const char *text)
{
    static const char *const tokens[] = {"$samplerate$", "$channels$"};
    const int values[] = {d->rate, d->n_captured};
    if (!strchr(text, '$')) return text;
    char *name = arena_text(d->yaml.import->c->arena, text);
    for (int t = 0; t < 2 && name; t++) {
        size_t length = strlen(tokens[t]); /* a token is longer than any number that replaces it */
        for (char *at = name, number[12]; (at = strstr(at, tokens[t]));) {
            size_t digits = (size_t)snprintf(number, sizeof number, "%d", values[t]);
            memcpy(at, number, digits);
            memmove(at + digits, at + length, strlen(at + length) + 1);
        }
    }
    return name ? name : "";
}

double camilladsp_gain(struct camilladsp *d, const yaml_node_t *map, double missing_db)
{
    struct yaml *y = &d->yaml;
    double gain = yaml_number(y, map, "gain", missing_db);
    const char *scale = yaml_text(y, map, "scale", "dB");
    if (strcmp(scale, "dB") == 0)
        gain = pow(10, gain / 20);
    else if (strcmp(scale, "linear") != 0)
        YAML_REFUSE(y, yaml_value(y, map, "scale"), "scale \"%.40s\" is unknown; use dB or linear", scale);
    if (yaml_bool(y, map, "inverted", false)) gain = -gain;
    return yaml_bool(y, map, "mute", false) ? 0 : gain;
}

/* ---- devices ------------------------------------------------------------------------------------ */

/* Names the channels by the labels, a list of texts. */
static void label_ports(struct camilladsp *d, const yaml_node_t *owner, hc_port *ports, int n)
{
    struct yaml *y = &d->yaml;
    const yaml_node_t *labels = yaml_list(y, owner, "labels", false);
    for (int i = 0; i < n; i++) {
        const yaml_node_t *item = i < yaml_count(labels) ? yaml_item(y, labels, i) : NULL;
        const char *label = yaml_text_of(item); /* null: the channel has no name */
        if (item && item->type != YAML_SCALAR_NODE) yaml_is(y, item, YAML_SCALAR_NODE, "an item of labels");
        ports[i].name = *label ? arena_text(y->import->c->arena, label) : NULL;
    }
}

/* Finds the channel count of the capture device: its own count, else that of its file, else that of the first mixer. */
static int count_captured(struct camilladsp *d, const yaml_node_t *capture, const yaml_node_t *root)
{
    struct yaml *y = &d->yaml;
    if (yaml_value(y, capture, "channels")) return yaml_whole(y, capture, "channels", -1, 1, MASK_MAX_CHANNELS);
    const yaml_node_t *pipeline = yaml_value(y, root, "pipeline"), *mixers = yaml_value(y, root, "mixers");
    for (int i = 0; yaml_is_list(pipeline) && i < yaml_count(pipeline); i++) {
        const yaml_node_t *step = yaml_item(y, pipeline, i);
        if (strcmp(yaml_text_of(yaml_value(y, step, "type")), "Mixer") != 0) continue;
        const yaml_node_t *mixer = yaml_value(y, mixers, yaml_text_of(yaml_value(y, step, "name")));
        const yaml_node_t *channels = yaml_value(y, mixer, "channels"); /* do_mixer refuses another kind */
        return yaml_is_map(channels) ? yaml_whole(y, channels, "in", -1, 1, MASK_MAX_CHANNELS) : 1;
    }
    return yaml_whole(y, yaml_value(y, yaml_value(y, root, "devices"), "playback"), "channels", -1, 1,
                      MASK_MAX_CHANNELS);
}

/* The keys of versions 0.6 to 4.1 that do not change the sound. */
#define DEVICES_KEYS                                                                                                   \
    "adjust_period buffersize capture_samplerate chunksize enable_rate_adjust enable_resampling multithreaded "        \
    "queuelimit rate_measure_interval resampler resampler_type silence_threshold silence_timeout stop_on_rate_change " \
    "target_level volume_ramp_time worker_threads"
#define DEVICE_KEYS                                                                                                    \
    "type device format filename autoconnect_to avoid_blocking_read change_format dbus_path exclusive extra_samples "  \
    "link_mute_control link_volume_control loopback node_description node_group_name node_name polling read_bytes "    \
    "retry_on_error service signal skip_bytes stop_on_inactive wav_header"

static void check_keys(struct yaml *y, const yaml_node_t *map, const char *known)
{
    yaml_keys(y, map, NULL);
    for (int i = 0; i < yaml_pairs(map); i++) {
        const yaml_node_t *key = yaml_key(y, map, i);
        import_key_check(y->import, yaml_line(key), y->statement, yaml_text_of(key), known);
    }
}

/* Reads the keys that change the sound; the others change only how it is transported. */
static void read_devices(struct camilladsp *d, const yaml_node_t *root)
{
    struct yaml *y = &d->yaml;
    struct configuration *c = y->import->c;
    snprintf(y->statement, sizeof y->statement, "devices");
    const yaml_node_t *devices = yaml_map(y, root, "devices", true);
    if (!devices) return;
    const yaml_node_t *capture = yaml_map(y, devices, "capture", true);
    const yaml_node_t *playback = yaml_map(y, devices, "playback", false);
    check_keys(y, devices, "samplerate capture playback volume_limit | " DEVICES_KEYS);
    check_keys(y, capture, "channels labels | " DEVICE_KEYS);
    check_keys(y, playback, "channels | " DEVICE_KEYS);
    if (!capture) return;
    c->defined_line = yaml_line(devices);
    c->defined_by = "devices";
    c->rate = d->rate = yaml_whole(y, devices, "samplerate", -1, 1000, 1 << 22);
    c->n_in = d->n_captured = count_captured(d, capture, root);
    label_ports(d, capture, c->in_port, c->n_in);
    d->volume_limit = pow(10, fmin(yaml_number(y, devices, "volume_limit", 0), 0) / 20);
}

/* ---- the pipeline ------------------------------------------------------------------------------- */

/* Returns the index of the pair with this name in a mapping; -1: absent, which is reported. */
static int find_name(struct yaml *y, const yaml_node_t *map, const char *name, const yaml_node_t *at, const char *what)
{
    int n = yaml_pairs(map);
    for (int i = 0; i < n && i < MAX_NAMES; i++)
        if (strcmp(yaml_text_of(yaml_key(y, map, i)), name) == 0) return i;
    YAML_REFUSE(y, at, "the %s \"%.60s\" does not exist; define it, or name another", what, name);
    return -1;
}

static struct camilladsp_filter *filter_named(struct camilladsp *d, const yaml_node_t *at)
{
    struct yaml *y = &d->yaml;
    snprintf(y->statement, sizeof y->statement, "pipeline");
    if (!yaml_is(y, at, YAML_SCALAR_NODE, "an item of names")) return NULL;
    const char *name = camilladsp_name(d, yaml_text_of(at));
    int i = find_name(y, d->filters, name, at, "filter");
    if (i < 0) return NULL;
    struct camilladsp_filter *filter = &d->read[i];
    if (!filter->is_read) {
        const yaml_node_t *node = yaml_map(y, d->filters, name, true);
        snprintf(y->statement, sizeof y->statement, "filter %.100s", name);
        filter->is_read = true;
        if (node) camilladsp_filter_read(d, node, filter);
    }
    return filter;
}

static void camilladsp_apply(struct camilladsp_pipeline *p, int channel, const struct camilladsp_filter *filter)
{
    struct network *net = &p->d->yaml.import->network;
    const struct signal **s = &p->signals[channel];
    if (filter->gain != 1) *s = signal_gain(net, *s, filter->gain);
    if (filter->delay_s != 0) *s = signal_delay(net, *s, filter->delay_s);
    if (filter->has_filter) *s = signal_filter(net, *s, filter->filter);
}

/* Reads the channels of a step: key `channels` since version 3, `channel` before; all if both are missing. */
static int camilladsp_read_channels(struct camilladsp_pipeline *p, const yaml_node_t *step, int *channels)
{
    struct yaml *y = &p->d->yaml;
    const yaml_node_t *list = yaml_list(y, step, "channels", false);
    int n = 0;
    double channel;
    if (yaml_value(y, step, "channel")) {
        if (list) YAML_REFUSE(y, step, "has channel and channels; remove one");
        channels[0] = yaml_whole(y, step, "channel", -1, 0, p->n - 1);
        return 1;
    }
    if (!list)
        for (n = 0; n < p->n; n++) channels[n] = n;
    for (int i = 0; i < yaml_count(list) && n < MASK_MAX_CHANNELS; i++) {
        const yaml_node_t *item = yaml_item(y, list, i);
        if (!yaml_number_of(y, item, "an item of channels", &channel)) continue;
        if (channel >= 0 && channel < p->n && channel == floor(channel))
            channels[n++] = (int)channel;
        else
            YAML_REFUSE(y, item, "channel %.40s does not exist here; give 0 to %d", yaml_text_of(item), p->n - 1);
    }
    return n;
}

static void do_filters(struct camilladsp_pipeline *p, const yaml_node_t *step)
{
    struct yaml *y = &p->d->yaml;
    int channels[MASK_MAX_CHANNELS];
    const yaml_node_t *names = yaml_list(y, step, "names", true);
    int n = camilladsp_read_channels(p, step, channels);
    for (int i = 0; i < yaml_count(names); i++) {
        const struct camilladsp_filter *filter = filter_named(p->d, yaml_item(y, names, i));
        p->n_applied += n + 1;
        if (p->n_applied > MAX_APPLIED) {
            YAML_REFUSE(y, step, "has more than %d filters in all channels; use fewer", MAX_APPLIED);
            return;
        }
        for (int k = 0; filter && k < n; k++) camilladsp_apply(p, channels[k], filter);
    }
}

static void camilladsp_mix(struct camilladsp_pipeline *p, const yaml_node_t *mapping, const struct signal **mixed,
                           int n_mixed)
{
    struct yaml *y = &p->d->yaml;
    struct network *net = &y->import->network;
    if (!yaml_is(y, mapping, YAML_MAPPING_NODE, "an item of mapping")) return;
    yaml_keys(y, mapping, "dest sources mute");
    int to = yaml_whole(y, mapping, "dest", -1, 0, n_mixed - 1);
    const yaml_node_t *sources = yaml_list(y, mapping, "sources", true);
    bool is_mute = yaml_bool(y, mapping, "mute", false);
    p->n_applied += 1 + yaml_count(sources);
    for (int i = 0; i < yaml_count(sources) && p->n_applied <= MAX_APPLIED; i++) {
        const yaml_node_t *source = yaml_item(y, sources, i);
        if (!yaml_is(y, source, YAML_MAPPING_NODE, "an item of sources")) continue;
        yaml_keys(y, source, "channel gain inverted mute scale");
        int from = yaml_whole(y, source, "channel", -1, 0, p->n - 1);
        double gain = camilladsp_gain(p->d, source, 0);
        if (!is_mute) mixed[to] = signal_add(net, mixed[to], signal_gain(net, p->signals[from], gain));
    }
}

static void do_mixer(struct camilladsp_pipeline *p, const yaml_node_t *step)
{
    struct yaml *y = &p->d->yaml;
    struct configuration *c = y->import->c;
    const char *name = camilladsp_name(p->d, yaml_text(y, step, "name", NULL));
    int index = *name ? find_name(y, p->mixers, name, step, "mixer") : -1;
    if (index < 0) return;
    p->is_mixed[index] = true;
    const yaml_node_t *mixer = yaml_map(y, p->mixers, name, true);
    if (!mixer) return;
    snprintf(y->statement, sizeof y->statement, "mixer %.100s", name);
    yaml_keys(y, mixer, "description channels mapping labels");
    int n_errors = c->diagnostics.n_errors;
    const yaml_node_t *channels = yaml_map(y, mixer, "channels", true);
    const yaml_node_t *mapping = yaml_list(y, mixer, "mapping", true);
    if (!channels) return;
    yaml_keys(y, channels, "in out");
    int n_in = yaml_whole(y, channels, "in", -1, 1, MASK_MAX_CHANNELS);
    int n_out = yaml_whole(y, channels, "out", -1, 1, MASK_MAX_CHANNELS);
    const struct signal **mixed = arena_alloc(c->arena, (size_t)n_out, sizeof *mixed);
    if (!mixed) return;
    if (n_in != p->n && c->diagnostics.n_errors == n_errors)
        YAML_REFUSE(y, channels, "the mixer has %d inputs, but %d channels reach it; make both equal", n_in, p->n);
    for (int k = 0; k < yaml_count(mapping) && p->n_applied <= MAX_APPLIED; k++)
        camilladsp_mix(p, yaml_item(y, mapping, k), mixed, n_out);
    if (p->n_applied > MAX_APPLIED)
        YAML_REFUSE(y, mapping, "has more than %d filters and sources in all; use fewer", MAX_APPLIED);
    p->signals = mixed;
    p->n = n_out;
    label_ports(p->d, mixer, c->out_port, n_out);
}

static void do_step(struct camilladsp_pipeline *p, const yaml_node_t *step)
{
    struct yaml *y = &p->d->yaml;
    snprintf(y->statement, sizeof y->statement, "pipeline");
    p->n_applied++;
    if (!yaml_is(y, step, YAML_MAPPING_NODE, "an item of pipeline")) return;
    const char *type = yaml_text(y, step, "type", NULL);
    yaml_keys(y, step,
              strcmp(type, "Filter") == 0 ? "type channel channels names description bypassed"
                                          : "type name description bypassed");
    if (!*type || yaml_bool(y, step, "bypassed", false)) return;
    if (strcmp(type, "Filter") == 0)
        do_filters(p, step);
    else if (strcmp(type, "Mixer") == 0)
        do_mixer(p, step);
    else if (strcmp(type, "Processor") == 0)
        YAML_REFUSE(y, step, "the processor \"%.60s\" cannot be a convolution; bypass it, or remove the step",
                    yaml_text(y, step, "name", NULL));
    else
        YAML_REFUSE(y, step, "type \"%.40s\" is unknown; use Filter, Mixer or Processor", type);
}

/* Notes the entries of a section that no step plays. is_used: of the entries, `stride` bytes apart; NULL: none is. */
static void note_idle(struct yaml *y, const char *section, const yaml_node_t *map, const bool *is_used, size_t stride)
{
    const yaml_node_t *idle = NULL;
    int n_idle = 0;
    for (int i = 0; i < yaml_pairs(map); i++)
        if (!(is_used && is_used[(size_t)i * stride]) && n_idle++ == 0) idle = yaml_key(y, map, i);
    if (n_idle > 0)
        IMPORT_NOTE(y->import, yaml_line(idle), section, "%d in no step that plays, and not checked: \"%.40s\"%s",
                    n_idle, yaml_text_of(idle), n_idle > 1 ? " first" : "");
}

static void read_pipeline(struct camilladsp *d, const yaml_node_t *root)
{
    struct yaml *y = &d->yaml;
    struct import *import = y->import;
    struct camilladsp_pipeline p = {.d = d, .n = d->n_captured};
    snprintf(y->statement, sizeof y->statement, "pipeline");
    const yaml_node_t *steps = yaml_list(y, root, "pipeline", false);
    d->filters = yaml_map(y, root, "filters", false);
    p.mixers = yaml_map(y, root, "mixers", false);
    if (yaml_pairs(d->filters) > MAX_NAMES || yaml_pairs(p.mixers) > MAX_NAMES) {
        YAML_REFUSE(y, root, "has more than %d filters or mixers; remove those that the pipeline does not use",
                    MAX_NAMES);
        return;
    }
    yaml_keys(y, d->filters, NULL);
    yaml_keys(y, p.mixers, NULL);
    d->read = arena_alloc(import->c->arena, (size_t)yaml_pairs(d->filters), sizeof *d->read);
    p.signals = arena_alloc(import->c->arena, (size_t)p.n, sizeof *p.signals);
    p.is_mixed = arena_alloc(import->c->arena, (size_t)yaml_pairs(p.mixers), sizeof *p.is_mixed);
    if (!d->read || !p.signals || !p.is_mixed) return;
    for (int i = 0; i < p.n; i++)
        p.signals[i] = signal_gain(&import->network, signal_input(&import->network, i), d->volume_limit);
    for (int i = 0; i < yaml_count(steps) && p.n_applied <= MAX_APPLIED; i++) do_step(&p, yaml_item(y, steps, i));
    note_idle(y, "filters", d->filters, &d->read->is_read, sizeof *d->read);
    note_idle(y, "mixers", p.mixers, p.is_mixed, sizeof *p.is_mixed);
    note_idle(y, "processors", yaml_map(y, root, "processors", false), NULL, 0);
    import->c->n_out = p.n;
    for (int i = 0; i < p.n; i++) network_output(&import->network, i, p.signals[i]);

    const yaml_node_t *playback = yaml_value(y, yaml_value(y, root, "devices"), "playback");
    int n_played = yaml_whole(y, playback, "channels", p.n, 1, MASK_MAX_CHANNELS);
    if (n_played != p.n && import->c->diagnostics.n_errors == 0)
        YAML_REFUSE(y, playback, "the device plays %d channels, but %d leave the pipeline; make both equal", n_played,
                    p.n);
}

static void read_camilladsp(struct import *import)
{
    struct camilladsp d = {0};
    import->c->n_in = import->c->n_out = 1;
    if (!yaml_open(&d.yaml, import)) return;
    const yaml_node_t *root = yaml_document_get_root_node(&d.yaml.document);
    bool is_map = yaml_is(&d.yaml, root, YAML_MAPPING_NODE, "the document");
    yaml_keys(&d.yaml, root, "title description devices mixers filters processors pipeline");
    if (is_map) read_devices(&d, root);
    if (d.n_captured > 0) read_pipeline(&d, root);
    yaml_close(&d.yaml);
}

#else

static void read_camilladsp(struct import *import)
{
    import->c->n_in = import->c->n_out = 1;
    IMPORT_REFUSE(import, 0, NULL, "haloconv was built without libyaml; install libyaml-dev, and build haloconv again");
}

#endif

const struct import_format format_camilladsp = {
    .name = "CamillaDSP", .extensions = ".yml .yaml", .is_format = is_camilladsp, .read = read_camilladsp};
