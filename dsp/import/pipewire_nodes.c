/* pipewire_nodes - the controls and signals of PipeWire's node types. The response of a "convolver" is a file, a list of
 * files, or a computed one; those of a "spatializer" (type sofa) are a bank's in one direction. */
#include "dsp/base/number.h"
#include "dsp/signal/hann.h"
#include "pipewire.h"
#include "sections.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECTIONS = 64 };
#define MAX_DELAY_S 100.0
#define MAX_Q 10.0          /* of the biquads' controls in PipeWire 1.6 */
#define DEFAULT_Q M_SQRT1_2 /* the q of low passes, high passes and shelves if the text has 0 */

/* ---- controls ----------------------------------------------------------------------------------- */

/* Returns the value of a control, which the text names by name or index. */
static double node_control(struct import *import, const struct node *node, int index, double missing)
{
    const char *name = node->type->controls[index];
    char number[4];
    snprintf(number, sizeof number, "%d", index);
    return relaxed_number(import, node->statement, node->control, relaxed_get(node->control, name) ? name : number,
                          missing);
}

static void note_q(struct import *import, const struct node *node, const struct relaxed *at, double q)
{
    IMPORT_NOTE(import, at->line, node->statement, "Q %g is played; PipeWire 1.6 limits it to %g", q, MAX_Q);
}

void node_check_controls(struct import *import, const struct node *node)
{
    const char *const *controls = node->type->controls;
    relaxed_keys(import, node->statement, node->json, "type name label control config | plugin", false);
    relaxed_keys(import, node->statement, node->config, node->type->keys, false);
    for (const struct relaxed *c = relaxed_members(node->control); c; c = c->next) {
        int n = 0, index = -1, used = 0;
        double number = 0;
        char known[160] = "none";
        for (; n <= NODE_PORTS && controls[n]; n++) {
            used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", n > 0 ? ", " : "", controls[n]);
            if (strcmp(c->key, controls[n]) == 0) index = n;
        }
        if (index < 0 && *c->key && !c->key[strspn(c->key, "0123456789")] && strlen(c->key) < 3 && atoi(c->key) < n)
            index = atoi(c->key);
        if (index >= 0 && !relaxed_is_null(c)) relaxed_number_of(import, node->statement, c, &number);
        if (index >= 0) relaxed_value_check(import, node->statement, c);
        if (index < 0)
            IMPORT_WARN(import, c->line, node->statement, "unknown control \"%.40s\" has no effect; known: %s", c->key,
                        known);
        else if (strcmp(controls[index], "Q") == 0 && number > MAX_Q)
            note_q(import, node, c, number);
    }
}

/* ---- nodes without a filter --------------------------------------------------------------------- */

static void node_play_copy(struct import *import, struct node *node)
{
    (void)import;
    node->play_out[0] = node->play_in[0];
}

static void play_invert(struct import *import, struct node *node)
{
    node->play_out[0] = signal_gain(&import->network, node->play_in[0], -1);
}

static void play_linear(struct import *import, struct node *node)
{
    double mult = node_control(import, node, 1, 1), add = node_control(import, node, 2, 0);
    if (add != 0) NODE_REFUSE(import, node, "Add %g adds a constant, which a convolution cannot do; remove it", add);
    node->play_out[0] = signal_gain(&import->network, node->play_in[0], mult);
}

static void play_mixer(struct import *import, struct node *node)
{
    for (int i = 0; i < NODE_PORTS; i++)
        node->play_out[0] = signal_add(
            &import->network, node->play_out[0],
            signal_gain(&import->network, node->play_in[i], node->play_in[i] ? node_control(import, node, i, 1) : 1));
}

/* ---- delay -------------------------------------------------------------------------------------- */

struct comb { /* y = feedforward * x + d, v = x + feedback * d; d is v, delayed */
    double delay_s, feedback, feedforward;
};

static int comb_make(const void *data, int rate, double **taps, double *rest_db)
{
    const struct comb *c = data;
    double period = fmax(rint(c->delay_s * rate), 1);
    double rounds = c->feedback == 0 ? 1 : 1 + ceil(SECTIONS_REST_DB / 20 * log(10) / log(fabs(c->feedback)));
    double max_taps = fmin(fmax(SECTIONS_TAPS, period + 1), CONFIGURATION_TAPS);
    int n = (int)fmin(period * rounds + 1, max_taps), each = (int)period;
    double *h = *taps = calloc((size_t)n, sizeof *h), gain = 1;
    if (!h) return 0;
    for (int i = each; i < n; i += each, gain *= c->feedback) h[i] = gain;
    h[0] = c->feedforward;
    double echoes = 1 / (1 - c->feedback * c->feedback); /* energy of an echo of 1 and of all later echoes */
    *rest_db = 10 * log10(gain * gain * echoes / (c->feedforward * c->feedforward + echoes));
    return n;
}

/* Limits a delay to max_s seconds, and rounds it down to whole frames of the graph, as PipeWire does. */
static double node_whole_frames(const struct import *import, double seconds, double max_s)
{
    int rate = import->c->rate;
    double longest = ceil(floor(max_s * rate) / 64) * 64 - 1;
    return fmax(fmin(floor((double)((float)seconds * (float)rate)), longest), 0) / rate;
}

static void play_delay(struct import *import, struct node *node)
{
    struct network *net = &import->network;
    double max_s = relaxed_number(import, node->statement, node->config, "max-delay", 1);
    struct comb comb = {.feedback = node_control(import, node, 1, 0), .feedforward = node_control(import, node, 2, 0)};
    double longest_s = max_s > 0 ? fmin(max_s, MAX_DELAY_S) : 1, asked_s = node_control(import, node, 0, 0);
    comb.delay_s = node_whole_frames(import, asked_s, longest_s);
    if (fabs(comb.delay_s - asked_s) > 0.01) /* frames, and the multiple of 64 frames, are finer */
        IMPORT_WARN(import, node->json->line, node->statement, "the delay is %g s; it becomes %g s, as in PipeWire",
                    asked_s, comb.delay_s);
    bool is_comb = comb.feedback != 0 || comb.feedforward != 0;
    if (is_comb && (comb.delay_s == 0 || fabs(comb.feedback) >= 1))
        NODE_REFUSE(import, node,
                    "the output of Feedback would never end; give it a delay, and a value between -1 and 1");
    if (!is_comb) {
        node->play_out[0] = signal_delay(net, node->play_in[0], comb.delay_s);
        return;
    }
    if (comb.delay_s == 0 || fabs(comb.feedback) >= 1) return;
    if (!node->filter[0]) {
        struct comb *kept = arena_alloc(import->c->arena, 1, sizeof *kept);
        if (!kept) return;
        *kept = comb;
        node->filter[0] = filter_computed(net, comb_make, kept, node->json->line, node->statement);
    }
    node->play_out[0] = signal_filter(net, node->play_in[0], node->filter[0]);
}

/* ---- biquads ------------------------------------------------------------------------------------ */

static const struct {
    const char *label;
    enum biquad_kind kind;
    bool has_default_q;
    double at_q_0; /* the gain if q is 0 and has no default; NAN: the control `gain` */
    double at_hz_0;
} biquads[] = {
    {"bq_lowpass", BIQUAD_LOWPASS, true, 0, 0},       {"bq_highpass", BIQUAD_HIGHPASS, true, 0, 1},
    {"bq_bandpass", BIQUAD_BANDPASS, false, 1, 0},    {"bq_lowshelf", BIQUAD_LOWSHELF, true, 0, 1},
    {"bq_highshelf", BIQUAD_HIGHSHELF, true, 0, NAN}, {"bq_peaking", BIQUAD_PEAK, false, NAN, 1},
    {"bq_notch", BIQUAD_NOTCH, false, 0, 1},          {"bq_allpass", BIQUAD_ALLPASS, false, -1, 1},
};

/* Makes a section of a label. If frequency or q is 0, PipeWire computes only a gain. false: no such label. */
static bool section_of(struct import *import, const char *label, double hz, double q, double gain_db, struct section *s)
{
    for (size_t i = 0; i < sizeof biquads / sizeof *biquads; i++) {
        if (strcmp(label, biquads[i].label) != 0) continue;
        if (q <= 0 && biquads[i].has_default_q) q = DEFAULT_Q;
        *s = (struct section){.kind = biquads[i].kind, .hz = hz, .q = q, .gain_db = gain_db};
        if (hz > 0 && q > 0) return true;
        double gain = hz > 0 ? biquads[i].at_q_0 : biquads[i].at_hz_0;
        struct rated_biquad *given = arena_alloc(import->c->arena, 1, sizeof *given);
        *s = (struct section){.form = SECTION_GIVEN, .given = given, .n_given = given ? 1 : 0};
        if (given) given->biquad.b0 = isnan(gain) ? pow(10, gain_db / 20) : gain;
        return true;
    }
    return false;
}

static void play_sections(struct import *import, struct node *node, int in, const struct section *sections, int n)
{
    struct network *net = &import->network;
    const struct filter **filter = &node->filter[in];
    if (n && !*filter && node->play_in[in])
        *filter = filter_of_sections(net, sections, n, node->json->line, node->statement);
    node->play_out[in] = n ? signal_filter(net, node->play_in[in], *filter) : node->play_in[in];
}

static void play_biquad(struct import *import, struct node *node)
{
    struct section s;
    if (section_of(import, node->type->label, node_control(import, node, 0, 0), node_control(import, node, 1, 0),
                   node_control(import, node, 2, 0), &s))
        play_sections(import, node, 0, &s, s.form == SECTION_GIVEN && !s.given ? 0 : 1);
}

/* PipeWire takes no coefficients without a rate, nor those of twice its own rate and more. */
static void note_rates(struct import *import, const struct node *node, const struct relaxed *list,
                       const struct section *s)
{
    const struct configuration *c = import->c;
    int rate = c->session_rate && !c->keep_rate ? c->session_rate : c->rate;
    for (int i = 0; i < s->n_given; i++)
        if (s->given[i].rate > 0 && s->given[i].rate < 2 * rate) return;
    IMPORT_NOTE(
        import, list->line, node->statement,
        "the coefficients of the nearest rate are played; PipeWire plays none of them at %d Hz; give those of its "
        "rate",
        rate);
}

/* Reads coefficients for several rates; those whose rate is nearest to the session's are used. */
static void play_raw(struct import *import, struct node *node)
{
    const struct relaxed *list = relaxed_of(import, node->statement, node->config, "coefficients", RELAXED_LIST);
    struct section s = {.form = SECTION_GIVEN, .n_given = relaxed_count(list)};
    if (!list && relaxed_get(node->config, "coefficients")) return;
    if (!list || s.n_given == 0) {
        NODE_REFUSE(import, node, "has no coefficients; give config = { coefficients = [ { rate = ... } ] }");
        return;
    }
    s.given = arena_alloc(import->c->arena, (size_t)s.n_given, sizeof *s.given);
    if (!s.given) return;
    struct rated_biquad *to = s.given;
    for (const struct relaxed *item = list->items; item; item = item->next, to++) {
        double c[6];
        static const char *const keys[] = {"a0", "a1", "a2", "b0", "b1", "b2"};
        if (!relaxed_is(import, node->statement, item, RELAXED_MAP, "coefficients")) return;
        for (int k = 0; k < 6; k++)
            c[k] = relaxed_number(import, node->statement, item, keys[k], k == 0 || k == 3 ? 1 : 0);
        if (node->copy == 0) relaxed_keys(import, node->statement, item, "rate a0 a1 a2 b0 b1 b2", false);
        double scale = c[0] != 0 ? 1 / c[0] : 0;
        to->rate = relaxed_whole(import, node->statement, item, "rate", 0);
        to->biquad = (struct biquad){c[3] * scale, c[4] * scale, c[5] * scale, c[1] * scale, c[2] * scale};
        if (biquad_is_stable(&to->biquad)) continue;
        IMPORT_REFUSE(import, item->line, node->statement,
                      "the filter is not stable: its output grows without bound; correct a1 and a2");
        return;
    }
    if (node->copy == 0) note_rates(import, node, list, &s);
    play_sections(import, node, 0, &s, 1);
}

/* Reads the filters of all channels, or `filters1` and so on of one channel. */
static void play_parametric(struct import *import, struct node *node)
{
    const struct relaxed *all = relaxed_of(import, node->statement, node->config, "filters", RELAXED_LIST);
    for (const struct relaxed *key = relaxed_members(node->config); key; key = key->next)
        if (strncmp(key->key, "filename", 8) == 0)
            IMPORT_REFUSE(
                import, key->line, node->statement,
                "reads a text of Equalizer APO; give its lines as filters = [ ... ], or convolve with the text");
    for (int i = 0; i < NODE_PORTS; i++) {
        struct section sections[MAX_SECTIONS];
        char key[24];
        int n = 0;
        snprintf(key, sizeof key, "filters%d", i + 1);
        const struct relaxed *own = relaxed_of(import, node->statement, node->config, key, RELAXED_LIST),
                             *list = own ? own : all;
        for (const struct relaxed *item = relaxed_items(list); item; item = item->next) {
            if (!relaxed_is(import, node->statement, item, RELAXED_MAP, own ? key : "filters")) return;
            bool has_type = relaxed_get(item, "type") != NULL;
            const char *type = has_type ? relaxed_text(import, node->statement, item, "type", NULL) : "";
            if (!type) return; /* an error was reported */
            bool is_first = node->copy == 0 && (own || i == 0);
            if (is_first) relaxed_keys(import, node->statement, item, "type freq gain q", false);
            double hz = relaxed_number(import, node->statement, item, "freq", 0);
            double q = relaxed_number(import, node->statement, item, "q", 1);
            double gain_db = relaxed_number(import, node->statement, item, "gain", 0);
            if (n == MAX_SECTIONS || !section_of(import, type, hz, q, gain_db, &sections[n])) {
                IMPORT_REFUSE(
                    import, item->line, node->statement,
                    "the type \"%.40s\" is unknown or one too many; use labels of biquads, in at most %d filters", type,
                    MAX_SECTIONS);
                return;
            }
            n += sections[n].form != SECTION_GIVEN || sections[n].given;
        }
        play_sections(import, node, i, sections, n);
    }
}

static void play_dc_block(struct import *import, struct node *node)
{
    double r = node_control(import, node, 0, 0.995);
    struct rated_biquad given = {.biquad = {1, -1, 0, -r, 0}}, *kept = arena_alloc(import->c->arena, 1, sizeof *kept);
    struct section s = {.form = SECTION_GIVEN, .given = kept, .n_given = 1};
    if (!kept) return;
    *kept = given;
    if (!biquad_is_stable(&given.biquad)) NODE_REFUSE(import, node, "R is %g; give 0 or more, and below 1", r);
    for (int i = 0; biquad_is_stable(&given.biquad) && i < NODE_PORTS; i++) play_sections(import, node, i, &s, 1);
}

/* ---- convolvers --------------------------------------------------------------------------------- */

#define CONVOLVER_KEYS "filename gain delay offset length channel | latency resample_quality blocksize tailsize"

#define INLINE_IR "/ir:"

struct convolver { /* the config of an impulse response */
    struct import *import;
    const struct node *node;
    const struct relaxed *json;
    const char *file;
    double gain;
    int offset, length, channel;
};

static const struct filter *hilbert_response(const struct convolver *v)
{
    int length = (v->length > 0 ? v->length : 64) - v->offset, half = length / 2;
    double *taps = length > 0 && length <= CONFIGURATION_TAPS ? calloc((size_t)length, sizeof *taps) : NULL;
    if (!taps) {
        NODE_REFUSE(v->import, v->node, "the Hilbert transformer has %d frames; give a length above its offset",
                    length);
        return NULL;
    }
    for (int k = 1; k < half; k += 2) {
        taps[half - k] = v->gain * hilbert_tap(k, half);
        taps[half + k] = -taps[half - k];
    }
    const struct filter *filter =
        filter_of_taps(&v->import->network, taps, length, v->node->json->line, v->node->statement);
    free(taps);
    return filter;
}

/* Reads a response in the text, "/ir:RATE,VALUE,VALUE...". */
static const struct filter *inline_response(const struct convolver *v)
{
    const char *text = v->file + strlen(INLINE_IR);
    int n = 0;
    double rate, value,
        *taps = malloc((strlen(text) / 2 + 1) * sizeof *taps); /* each value has a digit and a separator */
    if (!taps) {
        v->import->c->arena->is_short = true;
        return NULL;
    }
    text = number_read(text, -DBL_MAX, DBL_MAX, &rate);
    while (text && *(text += strspn(text, ", ")) && (text = number_read(text, -DBL_MAX, DBL_MAX, &value)))
        taps[n++] = v->gain * value;
    const struct filter *filter = NULL;
    if (!text || n == 0 || rate != v->import->c->rate)
        NODE_REFUSE(v->import, v->node, "\"%.40s\" is not a response for %d Hz; write /ir:%d,VALUE,VALUE ...", v->file,
                    v->import->c->rate, v->import->c->rate);
    else
        filter = filter_of_taps(&v->import->network, taps, n, v->node->json->line, v->node->statement);
    free(taps);
    return filter;
}

/* Reads an excerpt of the file. `length` counts from the start of the file, even if there is an offset. */
static const struct filter *file_response(const struct convolver *v)
{
    struct excerpt excerpt = {.line = v->node->json->line,
                              .command = v->node->statement,
                              .gain = (float)v->gain,
                              .offset = v->offset,
                              .channel = v->channel,
                              .is_in_turn = true};
    if (v->length > 0) excerpt.length = v->length - v->offset;
    if (v->length > 0 && excerpt.length <= 0) {
        NODE_REFUSE(v->import, v->node,
                    "length %d does not exceed offset %d; count the length from the start of the file", v->length,
                    v->offset);
        return NULL;
    }
    excerpt.sound = configuration_file(v->import->c, v->file);
    return filter_of_file(&v->import->network, &excerpt);
}

/* Do two names differ only in one number, which %r can replace? Stores the length of the text before and behind the
 * number. */
static bool rate_differs(const char *a, const char *b, size_t *start, size_t *end)
{
    size_t same = 0, tail = 0, n = strlen(a), m = strlen(b);
    while (a[same] && a[same] == b[same]) same++;
    while (same > 0 && a[same - 1] >= '0' && a[same - 1] <= '9') same--;
    while (tail < n - same && tail < m - same && a[n - 1 - tail] == b[m - 1 - tail]) tail++;
    while (tail > 0 && a[n - tail] >= '0' && a[n - tail] <= '9') tail--;
    *start = same;
    *end = n - tail;
    return n - tail > same && strspn(a + same, "0123456789") == n - tail - same &&
           strspn(b + same, "0123456789") == m - tail - same;
}

/* Reads a list with a file for each rate. The names become a pattern with %r; if they have none, the first is used.
 * NULL: an item is no text; an error was reported. */
static const char *choose_file(const struct convolver *v, const struct relaxed *list)
{
    const struct relaxed *first = list->items;
    size_t start = 0, end = 0;
    bool is_pattern = first && first->next;
    if (!first) return "";
    for (const struct relaxed *item = first; item; item = item->next)
        if (!relaxed_is(v->import, v->node->statement, item, RELAXED_TEXT, list->key)) return NULL;
    for (const struct relaxed *item = first->next; item && is_pattern; item = item->next) {
        size_t item_start, item_end;
        is_pattern = rate_differs(first->text, item->text, &item_start, &item_end) &&
                     (item == first->next || (item_start == start && item_end == end));
        start = item_start;
        end = item_end;
    }
    if (!first->next) return first->text;
    char *name = is_pattern ? arena_alloc(v->import->c->arena, strlen(first->text) + 3, 1) : NULL;
    if (name) {
        snprintf(name, strlen(first->text) + 3, "%.*s%%r%s", (int)start, first->text, first->text + end);
        return name;
    }
    if (v->node->copy == 0)
        IMPORT_WARN(v->import, list->line, v->node->statement,
                    "%.200s is used and resampled, since no file is for this rate; name the files by their rates",
                    first->text);
    return first->text;
}

/* Reads a delay: a whole number is in frames, another in seconds; at most 10 s. */
static double convolver_delay(const struct convolver *v)
{
    const struct relaxed *delay = relaxed_get(v->json, "delay");
    double value = relaxed_number(v->import, v->node->statement, v->json, "delay", 0);
    bool is_frames = delay && !delay->text[strspn(delay->text, "+-0123456789")];
    double seconds = is_frames ? network_seconds(&v->import->network, value) : node_whole_frames(v->import, value, 10);
    double asked = is_frames ? seconds : value;
    if (delay && !(asked >= 0 && asked <= 10))
        IMPORT_WARN(v->import, delay->line, v->node->statement, "delay is %g s; it becomes %d s, as in PipeWire", asked,
                    asked > 0 ? 10 : 0);
    return fmax(fmin(seconds, 10), 0);
}

/* Convolves a signal with the impulse response that a config names. channel: which channel of the file to use if the
 * config names none. */
static const struct signal *node_convolve(struct import *import, const struct node *node, const struct relaxed *json,
                                          int channel, const struct signal *in)
{
    struct network *net = &import->network;
    struct convolver v = {.import = import, .node = node, .json = json};
    const struct relaxed *file = relaxed_get(json, "filename");
    if (!in) return NULL;
    v.gain = relaxed_number(import, node->statement, json, "gain", 1);
    v.offset = (int)fmax(relaxed_whole(import, node->statement, json, "offset", 0), 0);
    v.length = relaxed_whole(import, node->statement, json, "length", 0);
    v.channel = (int)fmax(relaxed_whole(import, node->statement, json, "channel", channel), 0);
    v.file = !file                        ? ""
             : file->kind == RELAXED_LIST ? choose_file(&v, file)
                                          : relaxed_text(import, node->statement, json, "filename", NULL);
    if (!v.file) return NULL; /* an error was reported */
    if (!*v.file) {
        NODE_REFUSE(import, node, "has no file; give config = { filename = ... }");
        return NULL;
    }
    in = signal_delay(net, in, convolver_delay(&v));
    if (strncmp(v.file, "/dirac", 6) == 0) return signal_gain(net, in, v.gain);
    if (strncmp(v.file, "/hilbert", 8) == 0) return signal_filter(net, in, hilbert_response(&v));
    if (strncmp(v.file, INLINE_IR, strlen(INLINE_IR)) == 0) return signal_filter(net, in, inline_response(&v));
    return signal_filter(net, in, file_response(&v));
}

static void play_convolver(struct import *import, struct node *node)
{
    node->play_out[0] = node_convolve(import, node, node->config, node->copy, node->play_in[0]);
}

static void play_convolver_2(struct import *import, struct node *node)
{
    const struct relaxed *list = relaxed_of(import, node->statement, node->config, "impulses", RELAXED_LIST);
    int n = relaxed_count(list), i = 0;
    if (!list && relaxed_get(node->config, "impulses")) return;
    if (!list || n < 1 || n > NODE_PORTS) {
        NODE_REFUSE(import, node, "has %d impulses; give 1 to %d", n, NODE_PORTS);
        return;
    }
    for (const struct relaxed *item = list->items; item; item = item->next, i++)
        if (relaxed_is(import, node->statement, item, RELAXED_MAP, "impulses")) {
            if (node->copy == 0) relaxed_keys(import, node->statement, item, CONVOLVER_KEYS, false);
            node->play_out[i] = node_convolve(import, node, item, i, node->play_in[0]);
        }
}

static void play_null(struct import *import, struct node *node)
{
    (void)import, (void)node;
}

/* ---- spatializer ------------------------------------------------------------------------------- */

struct ear_response {
    double *taps; /* at the rate at which the bank was loaded */
    int n_taps;
};

static int ear_make(const void *data, int rate, double **taps, double *rest_db)
{
    const struct ear_response *ear = data;
    (void)rate;
    *rest_db = -INFINITY;
    *taps = malloc((size_t)ear->n_taps * sizeof **taps);
    if (!*taps) return 0;
    memcpy(*taps, ear->taps, (size_t)ear->n_taps * sizeof **taps);
    return ear->n_taps;
}

/* Returns the gain that libmysofa gives a bank when it opens the file: the responses of the entry whose sum of azimuth
 * (0 to 360 degrees) and elevation is the smallest, of the farthest of such entries, get an energy of 2 together. */
static double loudness_gain(const hc_bank_data *bank)
{
    double min_sum = INFINITY, farthest = 0, energy = 0;
    int front = 0;
    for (int e = 0; e < bank->n_file_entries && bank->position; e++) {
        const float *p = bank->position[e];
        double azimuth = atan2((double)p[1], (double)p[0]) * 180 / M_PI, flat = hypot((double)p[0], (double)p[1]);
        double sum = rint(1e3 * (azimuth + (azimuth < 0) * 360 + atan2((double)p[2], flat) * 180 / M_PI));
        double distance = hypot(flat, (double)p[2]);
        if (sum > min_sum || (sum == min_sum && distance <= farthest)) continue;
        min_sum = sum;
        farthest = distance;
        front = e;
    }
    for (int i = 0; i < bank->n_out * bank->n_taps; i++) {
        double tap = (double)bank->taps[front * bank->n_out + i / bank->n_taps][i % bank->n_taps];
        energy += tap * tap;
    }
    return energy > 0 ? sqrt(2 / energy) : 1;
}

/* Loads the file of the node, unless the last spatializer of the graph had the same one. */
static const hc_bank_data *bank_get(struct import *import, const struct node *node, const char *file)
{
    struct configuration *c = import->c;
    struct spatializer_bank *bank = node->bank;
    char why[DIAGNOSTIC_CAP / 2];
    struct sound *sound = configuration_file(c, file);
    const char *path = sound ? sound_path(c, sound) : NULL;
    int rate = c->session_rate && !c->keep_rate ? c->session_rate : c->rate;
    if (!path) return NULL;
    if (bank->path && strcmp(bank->path, path) == 0) return bank->data.n_entries ? &bank->data : NULL;
    hc_bank_data_free(&bank->data);
    *bank = (struct spatializer_bank){.path = path, .data.size = sizeof bank->data};
    hc_bank_options options = {.size = sizeof options, .mix = 1};
    int error = hc_bank_load(path, rate, &options, &bank->data, why, sizeof why);
    if (!error && bank->data.n_out != 2)
        NODE_REFUSE(import, node, "%s: has %d outputs; give a bank for two ears", path, bank->data.n_out);
    if (error) diagnostic(&c->diagnostics, error, node->json->line, node->statement, "%s", why);
    if (error || bank->data.n_out != 2) {
        hc_bank_data_free(&bank->data); /* the next node of this file finds no entries */
        return NULL;
    }
    bank->gain = loudness_gain(&bank->data);
    return &bank->data;
}

static const struct filter *ear_filter(struct import *import, const struct node *node, const hc_bank_data *bank,
                                       int out)
{
    struct arena *arena = import->c->arena;
    struct ear_response *ear = arena_alloc(arena, 1, sizeof *ear);
    int entries[HC_MAX_MIX];
    float weights[HC_MAX_MIX];
    if (!ear || !(ear->taps = arena_alloc(arena, (size_t)bank->n_taps, sizeof *ear->taps))) return NULL;
    ear->n_taps = bank->n_taps;
    for (int i = hc_bank_mix(bank, node->position, entries, weights) - 1; i >= 0; i--)
        for (int k = 0; k < bank->n_taps; k++)
            ear->taps[k] += node->gain * (double)weights[i] * (double)bank->taps[entries[i] * bank->n_out + out][k];
    return filter_computed(&import->network, ear_make, ear, node->json->line, node->statement);
}

static void play_spatializer(struct import *import, struct node *node)
{
    bool has_file = relaxed_get(node->config, "filename") != NULL;
    const char *file = has_file ? relaxed_text(import, node->statement, node->config, "filename", NULL) : "";
    if (!file) return; /* an error was reported */
    if (!*file) {
        NODE_REFUSE(import, node, "has no file; give config = { filename = ... }");
        return;
    }
    double gain = relaxed_number(import, node->statement, node->config, "gain", 1);
    double azimuth = node_control(import, node, 0, 0) * M_PI / 180;
    double elevation = node_control(import, node, 1, 0) * M_PI / 180, radius = node_control(import, node, 2, 1);
    const hc_bank_data *bank = node->filter[0] || import->names_only ? NULL : bank_get(import, node, file);
    if (bank) {
        node->path = node->bank->path;
        node->gain = gain * node->bank->gain;
        node->position[0] = (float)(radius * cos(elevation) * cos(azimuth));
        node->position[1] = (float)(radius * cos(elevation) * sin(azimuth));
        node->position[2] = (float)(radius * sin(elevation));
    }
    for (int out = 0; out < 2; out++) {
        if (bank) node->filter[out] = ear_filter(import, node, bank, out);
        node->play_out[out] =
            node->filter[out] ? signal_filter(&import->network, node->play_in[0], node->filter[out]) : NULL;
    }
}

const struct node_type node_spatializer = {"spatializer",
                                           1,
                                           2,
                                           play_spatializer,
                                           {"Azimuth", "Elevation", "Radius"},
                                           "filename gain normalize blocksize tailsize latency"};

/* ---- the types ---------------------------------------------------------------------------------- */

/* clang-format off */
#define BIQUAD_CONTROLS {"Freq", "Q", "Gain", "b0", "b1", "b2", "a0", "a1", "a2"}
static const struct node_type types[] = {
    {"copy", 1, 1, node_play_copy, {NULL}, ""},
    {"debug", 1, 1, node_play_copy, {NULL}, ""},
    {"mixer", 8, 1, play_mixer,
     {"Gain 1", "Gain 2", "Gain 3", "Gain 4", "Gain 5", "Gain 6", "Gain 7", "Gain 8"}, ""},
    {"invert", 1, 1, play_invert, {NULL}, ""},
    {"linear", 1, 1, play_linear, {"Control", "Mult", "Add"}, ""},
    {"delay", 1, 1, play_delay, {"Delay (s)", "Feedback", "Feedforward"}, "max-delay | latency"},
    {"convolver", 1, 1, play_convolver, {NULL}, CONVOLVER_KEYS},
    {"convolver2", 1, 8, play_convolver_2, {NULL}, "impulses | latency blocksize tailsize"},
    {"bq_lowpass", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_highpass", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_bandpass", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_lowshelf", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_highshelf", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_peaking", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_notch", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_allpass", 1, 1, play_biquad, BIQUAD_CONTROLS, ""},
    {"bq_raw", 1, 1, play_raw, {NULL}, "coefficients"},
    {"param_eq", 8, 8, play_parametric, {NULL},
     "filters filters1 filters2 filters3 filters4 filters5 filters6 filters7 filters8 filename filename1 filename2 "
     "filename3 filename4 filename5 filename6 filename7 filename8"},
    {"dcblock", 8, 8, play_dc_block, {"R"}, ""},
    {"null", 1, 0, play_null, {NULL}, ""},
    {"clamp", 1, 1, NULL, {NULL}, ""}, {"recip", 1, 1, NULL, {NULL}, ""}, {"abs", 1, 1, NULL, {NULL}, ""},
    {"sqrt", 1, 1, NULL, {NULL}, ""}, {"exp", 1, 1, NULL, {NULL}, ""}, {"log", 1, 1, NULL, {NULL}, ""},
    {"mult", 8, 1, NULL, {NULL}, ""}, {"max", 8, 1, NULL, {NULL}, ""}, {"min", 8, 1, NULL, {NULL}, ""},
    {"sine", 0, 1, NULL, {NULL}, ""}, {"ramp", 0, 1, NULL, {NULL}, ""}, {"zeroramp", 1, 1, NULL, {NULL}, ""},
    {"noisegate", 1, 1, NULL, {NULL}, ""}, {"busy", 0, 0, NULL, {NULL}, ""},
};
/* clang-format on */

const struct node_type *node_type_find(const char *label)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(label, types[i].label) == 0) return &types[i];
    return NULL;
}
