/* pipewire_nodes - the controls and signals of PipeWire's node types; the convolver's response is elsewhere. */
#include "pipewire.h"
#include "sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECTIONS = 64 };
#define MAX_DELAY_S 100.0
#define MAX_Q 10.0          /* of the biquads' controls in PipeWire 1.6 */
#define DEFAULT_Q M_SQRT1_2 /* the q of low passes, high passes and shelves if the text has 0 */

/* ---- controls ----------------------------------------------------------------------------------- */

double node_control(struct import *import, const struct node *node, int index, double missing)
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

double node_whole_frames(const struct import *import, double seconds, double max_s)
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
