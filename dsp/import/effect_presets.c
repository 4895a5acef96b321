/* effect_presets - presets of EasyEffects 7 and 8 (JSON) and of JamesDSP for Linux (KEY=VALUE): their convolver, their
 * equalizers as second-order sections, their gains. Each effect that is not taken over is named in a warning.
 *
 * Sources read: EasyEffects 8 (convolver_zita.cpp, *_preset.cpp), JamesDSP for Linux (DspHost.cpp), lsp-dsp-units
 * (Filter.cpp: the filters of the equalizer of EasyEffects).
 */
#include "dsp/base/number.h"
#include "equalizer_filter.h"
#include "relaxed_json.h"
#include "sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stereo {
    struct import *import;
    const char *statement; /* the effect, for diagnostics        */
    int line;
    const struct signal *signal[2]; /* left, right, behind the last effect */
};

#define WARN(s, at_line, ...) IMPORT_WARN((s)->import, at_line, (s)->statement, __VA_ARGS__)
#define REFUSE(s, at_line, ...) IMPORT_REFUSE((s)->import, at_line, (s)->statement, __VA_ARGS__)
#define FROM_DB(db) pow(10, (db) / 20)

static void stereo_gain(struct stereo *s, double gain)
{
    for (int ch = 0; ch < 2; ch++)
        if (gain != 1) s->signal[ch] = signal_gain(&s->import->network, s->signal[ch], gain);
}

static void stereo_filter(struct stereo *s, const struct filter *filter)
{
    for (int ch = 0; ch < 2; ch++) s->signal[ch] = signal_filter(&s->import->network, s->signal[ch], filter);
}

static void stereo_open(struct stereo *s, struct import *import)
{
    *s = (struct stereo){.import = import};
    import->c->n_in = import->c->n_out = 2;
    for (int ch = 0; ch < 2; ch++) s->signal[ch] = signal_input(&import->network, ch);
}

static void stereo_close(const struct stereo *s)
{
    for (int ch = 0; ch < 2; ch++) network_output(&s->import->network, ch, s->signal[ch]);
}

/* ---- convolver ---------------------------------------------------------------------------------- */

struct preset_convolver {
    const char *path;
    double width;      /* 1: as the file has it */
    bool has_autogain; /* the loudest channel gets an energy of 1 */
    double dry, wet;
};

/* Returns the gain of the autogain: EasyEffects computes it at the session's rate, behind the width. */
static double autogain(const struct configuration *c, const struct mask_file *file, const int *channel, double x)
{
    double loudest = 0;
    int session = c->session_rate && !c->keep_rate ? c->session_rate : c->rate ? c->rate : 48000;
    for (int i = 0; i < file->n_channels || i < 2; i++) {
        bool is_cross = i >= 2;
        double energy = 0;
        for (int k = 0; k < file->n_frames; k++) {
            double own = file->channel[channel[i]][k], other = file->channel[channel[i ^ 1]][k];
            double sample = own + (is_cross ? -x : x) * other;
            energy += sample * sample;
        }
        loudest = fmax(loudest, energy);
    }
    if (file->rate) loudest *= (double)file->rate / session; /* resampling keeps the response, not the energy */
    return loudest > 0 ? 1 / sqrt(loudest) : 1;
}

/* A file of 4 channels has left to left, left to right, right to left, right to right. */
static void stereo_convolve(struct stereo *s, const struct preset_convolver *v)
{
    struct network *net = &s->import->network;
    struct configuration *c = s->import->c;
    struct excerpt excerpt = {.line = s->line, .command = s->statement, .sound = configuration_file(c, v->path)};
    struct sound *sound = s->import->names_only ? NULL : sounds_get(c, &excerpt);
    if (!sound) return; /* sounds_report reports why */
    int n = sound->file.n_channels, channel[4] = {0, n == 4 ? 3 : n - 1, 1, 2};
    if (n != 1 && n != 2 && n != 4) {
        REFUSE(s, s->line, "%s has %d channels; give a response of 1, 2 or 4", sound->path, n);
        return;
    }
    if (!c->rate) c->rate = sound->file.rate;
    double x = (1 - v->width) / (1 + v->width);
    double gain = v->wet * (v->has_autogain ? autogain(c, &sound->file, channel, x) : 1);
    const struct filter *own[4] = {0}, *other[4] = {0};
    for (int i = 0; i < 4 && (i < 2 || n == 4); i++) {
        excerpt.channel = channel[i];
        excerpt.gain = (float)gain;
        own[i] = filter_of_file(net, &excerpt);
        excerpt.channel = channel[i ^ 1];
        excerpt.gain = (float)(gain * (i < 2 ? x : -x));
        if (x != 0) other[i] = filter_of_file(net, &excerpt);
    }
    const struct signal *in[2] = {s->signal[0], s->signal[1]};
    for (int ch = 0; ch < 2; ch++) {
        const struct signal *sum = v->dry > 0 ? signal_gain(net, in[ch], v->dry) : NULL;
        for (int cross = 0; cross < (n == 4 ? 2 : 1); cross++) {
            int path = cross ? 3 - ch : ch; /* 2 is left to right, 3 right to left */
            const struct signal *from = in[cross ? 1 - ch : ch];
            sum = signal_add(net, sum, signal_filter(net, from, own[path]));
            if (other[path]) sum = signal_add(net, sum, signal_filter(net, from, other[path]));
        }
        s->signal[ch] = sum;
    }
}

/* Finds a response as EasyEffects does, first beside the preset. NULL: there is none. */
static const char *response_find(struct stereo *s, const char *name)
{
    static const char *const folders[] = {"",
                                          "irs/",
                                          "../irs/",
                                          "~/.local/share/easyeffects/irs/",
                                          "~/.config/easyeffects/irs/",
                                          "~/.var/app/com.github.wwmm.easyeffects/data/easyeffects/irs/",
                                          "~/.var/app/com.github.wwmm.easyeffects/config/easyeffects/irs/"};
    const char *own = s->import->c->diagnostics.path, *slash = strrchr(own, '/'), *home = getenv("HOME");
    int own_length = slash ? (int)(slash - own) + 1 : 0;
    char real[4096], found[4096];
    for (size_t i = 0; i < 2 * sizeof folders / sizeof *folders; i++) {
        const char *folder = folders[i / 2];
        bool is_home = *folder == '~';
        int length = snprintf(found, sizeof found, "%s%s%s%s", is_home && home ? home : "", folder + is_home, name,
                              i % 2 ? "" : ".irs");
        int real_length = snprintf(real, sizeof real, "%.*s%s", *found == '/' ? 0 : own_length, own, found);
        if (length < (int)sizeof found && real_length < (int)sizeof real && (!is_home || home) &&
            access(real, F_OK) == 0)
            return arena_text(s->import->c->arena, found);
    }
    return NULL;
}

/* ---- EasyEffects: values ------------------------------------------------------------------------ */

static double number_from(struct stereo *s, const struct relaxed *map, const char *key, double missing, double min,
                          double max)
{
    const struct relaxed *value = relaxed_get(map, key);
    double number = relaxed_number(s->import, s->statement, map, key, missing);
    if (!value || (number >= min && number <= max)) return number;
    REFUSE(s, value->line, "%s is %g; give %g to %g", key, number, min, max);
    return missing;
}

static bool flag(struct stereo *s, const struct relaxed *map, const char *key, bool missing)
{
    const char *text = relaxed_text(s->import, s->statement, map, key, missing ? "true" : "false");
    bool is_true = strcmp(text, "true") == 0;
    if (!is_true && strcmp(text, "false") != 0)
        REFUSE(s, relaxed_get(map, key)->line, "%s is \"%.40s\"; write true or false", key, text);
    return is_true;
}

/* ---- EasyEffects: equalizer --------------------------------------------------------------------- */

enum { MAX_BANDS = 32, MAX_SLOPE = 4 };

struct equalizer {
    struct section sections[MAX_BANDS * MAX_SLOPE]; /* of one channel */
    int n;
    bool is_approximated; /* a band has the mode RLC (MT) */
};

static const struct band_type {
    const char *name;
    enum biquad_kind kind;
    bool is_apo_only, has_slope, has_gain;
} band_types[] = {
    {"Bell", BIQUAD_PEAK, .has_slope = true, .has_gain = true},
    {"Hi-pass", BIQUAD_HIGHPASS, .has_slope = true},
    {"Hi-shelf", BIQUAD_HIGHSHELF, .has_slope = true, .has_gain = true},
    {"Lo-pass", BIQUAD_LOWPASS, .has_slope = true},
    {"Lo-shelf", BIQUAD_LOWSHELF, .has_slope = true, .has_gain = true},
    {"Notch", BIQUAD_NOTCH, .has_slope = false},
    {"Resonance", BIQUAD_PEAK, .has_slope = true, .has_gain = true},
    {"Allpass", BIQUAD_ALLPASS, .is_apo_only = true},
};

/* Returns the cookbook's q of a section of LSP's RLC filters. Their prototypes are those of the cookbook, but their
 * damping is 2 / (1 + q), and that of a peak depends on its gain, too. */
static double rlc_q(const struct band_type *type, double q, double gain_db, int slope)
{
    double g = FROM_DB(gain_db);
    if (type->kind != BIQUAD_PEAK) return (1 + q) / 2;
    if (type->name[0] == 'R') return sqrt(1 + g * g) * (1 + q) / (2 * sqrt(g));
    return sqrt(g) * (1 + 2 * q / slope) / (2 * sqrt(1 + g * g));
}

static void band_read(struct stereo *s, struct equalizer *eq, const struct relaxed *band)
{
    const char *name = relaxed_text(s->import, s->statement, band, "type", "Bell");
    const char *mode = relaxed_text(s->import, s->statement, band, "mode", "RLC (BT)");
    const char *slope_text = relaxed_text(s->import, s->statement, band, "slope", "x1");
    const struct band_type *type = band_types, *end = band_types + sizeof band_types / sizeof *band_types;
    double gain_db = number_from(s, band, "gain", 0, -36, 36), q = number_from(s, band, "q", 4.36, 0, 100);
    double hz = number_from(s, band, "frequency", 0, 1, 192000);
    int slope = slope_text[0] == 'x' && slope_text[1] >= '1' && slope_text[1] <= '4' && !slope_text[2]
                    ? slope_text[1] - '0'
                    : 0;
    bool is_apo = strcmp(mode, "APO (DR)") == 0, is_mt = strcmp(mode, "RLC (MT)") == 0;
    number_from(s, band, "width", 4, 0, 12); /* only of types that are refused */
    if (strcmp(name, "Off") == 0) return;
    while (type < end && strcmp(type->name, name) != 0) type++;
    if (type == end || (type->is_apo_only && !is_apo))
        REFUSE(s, band->line,
               "%s: the type \"%.40s\" is not taken over in mode \"%.40s\"; use Bell, Hi-pass, Hi-shelf, "
               "Lo-pass, Lo-shelf, Notch, Resonance or, in mode APO (DR), Allpass",
               band->key, name, mode);
    else if (!is_apo && !is_mt && strcmp(mode, "RLC (BT)") != 0)
        REFUSE(s, band->line, "%s: the mode \"%.40s\" is not taken over; choose RLC (BT) or APO (DR)", band->key, mode);
    else if (!slope)
        REFUSE(s, band->line, "%s: the slope is \"%.40s\"; write x1 to x4", band->key, slope_text);
    else if (!relaxed_get(band, "frequency"))
        REFUSE(s, band->line, "%s has no frequency; give it one", band->key);
    else {
        int n = type->has_slope && !is_apo ? slope : 1;
        double db = type->has_gain ? gain_db / n : 0;
        struct section section = {
            .kind = type->kind, .hz = hz, .gain_db = db, .q = is_apo ? fmax(q, 0.1) : rlc_q(type, q, db, n)};
        eq->is_approximated |= is_mt;
        for (int i = 0; i < n; i++) eq->sections[eq->n++] = section;
    }
}

/* Reads the bands of a channel. A band that plays solo silences those that do not. */
static const struct filter *channel_read(struct stereo *s, struct equalizer *eq, const struct relaxed *map,
                                         const char *name, int n_bands)
{
    const struct relaxed *channel = relaxed_of(s->import, s->statement, map, name, RELAXED_MAP), *bands[MAX_BANDS];
    bool has_solo = false;
    eq->n = 0;
    if (!channel) REFUSE(s, s->line, "has no bands in \"%s\"; write the preset again with EasyEffects", name);
    if (!channel) return NULL;
    for (const struct relaxed *v = channel->members; v; v = v->next) {
        double number;
        if (strncmp(v->key, "band", 4) != 0 || !number_is(v->key + 4, 0, MAX_BANDS - 1, &number))
            WARN(s, v->line, "unknown key \"%.40s\" has no effect; known: band0 to band31", v->key);
    }
    for (int i = 0; i < n_bands; i++) {
        char key[16];
        snprintf(key, sizeof key, "band%d", i);
        bands[i] = relaxed_of(s->import, s->statement, channel, key, RELAXED_MAP);
        if (!bands[i]) REFUSE(s, channel->line, "%s has no %s; correct num-bands, or add the band", name, key);
        relaxed_keys(s->import, s->statement, bands[i], "type mode slope solo mute gain frequency q width", false);
        has_solo |= flag(s, bands[i], "solo", false);
    }
    for (int i = 0; i < n_bands; i++)
        if (bands[i] && !flag(s, bands[i], "mute", false) && (!has_solo || flag(s, bands[i], "solo", false)))
            band_read(s, eq, bands[i]);
    return eq->n ? filter_of_sections(&s->import->network, eq->sections, eq->n, channel->line, s->statement) : NULL;
}

static void equalizer_play(struct stereo *s, const struct relaxed *map)
{
    static const char *const zeros[] = {"balance", "pitch-left", "pitch-right"};
    struct equalizer eq = {.n = 0};
    int n = (int)number_from(s, map, "num-bands", MAX_BANDS, 1, MAX_BANDS);
    const char *mode = relaxed_text(s->import, s->statement, map, "mode", "IIR");
    const char *decramp = relaxed_text(s->import, s->statement, map, "decramp", "Off");
    flag(s, map, "split-channels", false); /* a preset has the bands of both channels in any case */
    if (strcmp(mode, "IIR") != 0)
        WARN(s, relaxed_get(map, "mode")->line, "mode \"%.40s\" is not taken over; the bands play as IIR", mode);
    if (strcmp(decramp, "Off") != 0)
        WARN(s, relaxed_get(map, "decramp")->line, "decramp \"%.40s\" is not taken over; high bands become narrower",
             decramp);
    for (int i = 0; i < 3; i++)
        if (relaxed_number(s->import, s->statement, map, zeros[i], 0) != 0)
            REFUSE(s, relaxed_get(map, zeros[i])->line, "%s is not taken over; set it to 0", zeros[i]);
    for (int ch = 0; ch < 2; ch++) {
        const struct filter *filter = channel_read(s, &eq, map, ch ? "right" : "left", n);
        if (filter) s->signal[ch] = signal_filter(&s->import->network, s->signal[ch], filter);
    }
    if (eq.is_approximated)
        WARN(s, s->line, "bands of mode RLC (MT) are approximated by RLC (BT); the two differ near half the rate");
}

/* ---- EasyEffects: convolver and chain ------------------------------------------------------------ */

static void convolver_play(struct stereo *s, const struct relaxed *map)
{
    double dry_db = number_from(s, map, "dry", -100, -100, 20), wet_db = number_from(s, map, "wet", 0, -100, 20);
    struct preset_convolver v = {.width = number_from(s, map, "ir-width", 100, 0, 200) / 100,
                                 .has_autogain = flag(s, map, "autogain", true),
                                 .dry = dry_db > -100 ? FROM_DB(dry_db) : 0,
                                 .wet = wet_db > -100 ? FROM_DB(wet_db) : 0};
    const char *name = relaxed_text(s->import, s->statement, map, "kernel-name", "");
    const char *path = relaxed_text(s->import, s->statement, map, "kernel-path", "");
    if (!*name && *path) { /* of EasyEffects 6 and 7 */
        const char *slash = strrchr(path, '/');
        char *stem = arena_text(s->import->c->arena, slash ? slash + 1 : path);
        if (!stem) return;
        if (strrchr(stem, '.')) *strrchr(stem, '.') = 0;
        name = stem;
        v.path = access(path, F_OK) == 0 && *path == '/' ? path : NULL;
    }
    if (*name && !v.path) v.path = response_find(s, name);
    if (v.path)
        stereo_convolve(s, &v);
    else if (!s->import->names_only && *name)
        REFUSE(s, s->line,
               "%s.irs is neither beside the preset nor in ~/.local/share/easyeffects/irs/ and the other "
               "folders of EasyEffects; copy it beside the preset",
               name);
    else if (!s->import->names_only)
        REFUSE(s, s->line, "has no kernel-name; give it the name of a file .irs");
}

static void effect_play(struct stereo *s, const char *name, const struct relaxed *map)
{
    static const char gains[] = "bypass input-gain output-gain ",
                      convolver[] = "kernel-name kernel-path ir-width "
                                    "autogain dry wet | sofa",
                      equalizer[] = "num-bands mode split-channels balance pitch-left pitch-right decramp left right";
    bool is_convolver = strncmp(name, "convolver", 9) == 0, is_equalizer = strncmp(name, "equalizer", 9) == 0;
    char known[200];
    s->statement = name;
    s->line = map->line;
    if (!is_convolver && !is_equalizer) {
        if (strncmp(name, "level_meter", 11) == 0 || strncmp(name, "spectrum", 8) == 0)
            import_note_run(s->import, map->line, name, "");
        else if (!flag(s, map, "bypass", false))
            WARN(s, map->line, "is not taken over; the preset plays without this effect");
        return;
    }
    snprintf(known, sizeof known, "%s%s", gains, is_convolver ? convolver : equalizer);
    relaxed_keys(s->import, name, map, known, false);
    double before_db = number_from(s, map, "input-gain", 0, -36, 36);
    double behind_db = number_from(s, map, "output-gain", 0, -36, 36);
    if (flag(s, map, "bypass", false)) return;
    stereo_gain(s, FROM_DB(before_db));
    (is_convolver ? convolver_play : equalizer_play)(s, map);
    stereo_gain(s, FROM_DB(behind_db));
}

static void read_easyeffects(struct import *import)
{
    const struct relaxed *all = relaxed_read(import), *order;
    struct stereo s;
    stereo_open(&s, import);
    relaxed_keys(import, NULL, all, "output input | spectrum", false);
    const struct relaxed *output = relaxed_of(import, NULL, all, "output", RELAXED_MAP);
    const struct relaxed *input = relaxed_of(import, NULL, all, "input", RELAXED_MAP), *chain = output ? output : input;
    if (output && input) IMPORT_WARN(import, input->line, "input", "is not taken over; the output is");
    order = relaxed_of(import, NULL, chain, "plugins_order", RELAXED_LIST);
    if (all && !order)
        IMPORT_REFUSE(import, 0, NULL, "has no plugins_order in output or input; name a preset of EasyEffects");
    for (const struct relaxed *item = relaxed_items(order); item; item = item->next) {
        if (!relaxed_is(import, "plugins_order", item, RELAXED_TEXT, "plugins_order")) continue;
        size_t length = strcspn(item->text, "#"); /* old presets have no instance behind the name */
        char *old = arena_text(import->c->arena, item->text);
        if (!old) return;
        old[length] = 0;
        const char *name = relaxed_get(chain, item->text) ? item->text : old;
        const struct relaxed *map = relaxed_of(import, "plugins_order", chain, name, RELAXED_MAP);
        if (map)
            effect_play(&s, name, map);
        else
            IMPORT_REFUSE(import, item->line, "plugins_order", "%.60s has no settings; remove it", item->text);
    }
    for (const struct relaxed *v = relaxed_members(chain); order && v; v = v->next) {
        bool is_used = strcmp(v->key, "plugins_order") == 0 || strcmp(v->key, "blocklist") == 0;
        for (const struct relaxed *item = order->items; item && !is_used; item = item->next)
            is_used = strncmp(item->text, v->key, strlen(v->key)) == 0;
        if (!is_used) IMPORT_WARN(import, v->line, NULL, "\"%.60s\" is not in plugins_order; it does not play", v->key);
    }
    stereo_close(&s);
}

static bool is_easyeffects(const char *text, size_t bytes)
{
    return text[strspn(text, " \t\r\n")] == '{' && memmem(text, bytes, "\"plugins_order\"", 15) != NULL;
}

const struct import_format format_easyeffects = {
    .name = "EasyEffects", .extensions = ".json", .is_format = is_easyeffects, .read = read_easyeffects};

/* ---- JamesDSP ----------------------------------------------------------------------------------- */

enum james_key { ENABLE, CONVOLVER, FILE_NAME, GRAPHIC, GRAPHIC_PARAM, TONE, TONE_EQ, POST_GAIN, N_JAMES };
static const char *const james_keys[N_JAMES] = {"master_enable",    "convolver_enable", "convolver_file",
                                                "graphiceq_enable", "graphiceq_param",  "tone_enable",
                                                "tone_eq",          "master_postgain"};
/* Effects that are not taken over, and the first words of the keys that only they and the limiter have. */
static const char james_effects[] = "bass_enable compander_enable crossfeed_enable ddc_enable reverb_enable "
                                    "liveprog_enable stereowide_enable tube_enable";
#define JAMES_KNOWN                                                                                                    \
    "master_enable convolver_enable convolver_file graphiceq_enable graphiceq_param tone_enable tone_eq "              \
    "master_postgain convolver_optimization_mode convolver_waveform_edit tone_filtertype tone_interpolation "          \
    "master_limrelease master_limthreshold bass_maxgain compander_granularity compander_timeconstant "                 \
    "compander_time_freq_transforms compander_response crossfeed_bs2b_fcut crossfeed_bs2b_feed crossfeed_mode "        \
    "ddc_file reverb_bassboost reverb_decay reverb_delay reverb_finaldry reverb_finalwet reverb_lfo_spin "             \
    "reverb_lfo_wander reverb_lpf_bass reverb_lpf_damp reverb_lpf_input reverb_lpf_output reverb_osf "                 \
    "reverb_reflection_amount reverb_reflection_factor reverb_reflection_width reverb_wet reverb_width "               \
    "liveprog_file stereowide_level tube_pregain "

/* Settings of which only JamesDSP's default plays. */
static const char *const james_defaults[][2] = {{"convolver_optimization_mode", "0"},
                                                {"convolver_waveform_edit", "-80;-100;0;0;0;0"},
                                                {"tone_filtertype", "0"},
                                                {"tone_interpolation", "0"}};

struct james {
    struct stereo s;
    struct {
        const char *text; /* NULL: the key is absent */
        int line;
    } value[N_JAMES];
};

static bool james_flag(struct james *j, int line, const char *key, const char *text)
{
    bool is_true = text && strcmp(text, "true") == 0;
    if (text && !is_true && strcmp(text, "false") != 0)
        IMPORT_REFUSE(j->s.import, line, key, "is \"%.40s\"; write true or false", text);
    return is_true;
}

static void james_line(struct james *j, char *text, int line)
{
    struct import *import = j->s.import;
    char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
    size_t end = strlen(text);
    while (end && strchr(" \t\r", text[end - 1])) text[--end] = 0;
    if (!*text || *text == '#') return;
    if (!equals || equals >= text + end + (end == 0)) {
        IMPORT_REFUSE(import, line, NULL, "\"%.40s\" is not KEY=VALUE; write one key and its value a line", text);
        return;
    }
    *equals = 0;
    if (*value == '"') *strchrnul(++value, '"') = 0;
    for (int key = 0; key < N_JAMES; key++)
        if (strcmp(text, james_keys[key]) == 0) {
            if (j->value[key].text)
                IMPORT_WARN(import, line, text, "occurs twice, and the last counts; remove the other");
            j->value[key].text = value;
            j->value[key].line = line;
            return;
        }
    for (size_t i = 0; i < sizeof james_defaults / sizeof *james_defaults; i++)
        if (strcmp(text, james_defaults[i][0]) == 0 && strcmp(value, james_defaults[i][1]) != 0)
            IMPORT_WARN(import, line, text, "\"%.40s\" is not taken over; the preset plays as with %s", value,
                        james_defaults[i][1]);
    if (!import_key_is_known(james_effects, text))
        import_key_check(import, line, NULL, text,
                         JAMES_KNOWN "bass_enable compander_enable crossfeed_enable "
                                     "ddc_enable reverb_enable liveprog_enable "
                                     "stereowide_enable tube_enable");
    else if (james_flag(j, line, text, value))
        IMPORT_WARN(import, line, text, "is not taken over; the preset plays without this effect");
}

static void james_curve(struct james *j, enum james_key key, const char *pairs)
{
    const struct filter *filter;
    char why[256] = "";
    j->s.line = j->value[key].line;
    if (!equalizer_graphic_read(&j->s.import->network, pairs, j->s.line, &filter, REASON(why, sizeof why)))
        IMPORT_REFUSE(j->s.import, j->s.line, james_keys[key], "%s", why);
    else if (filter)
        stereo_filter(&j->s, filter);
}

/* Plays the 15 bands: their frequencies, then their gains in dB. */
static void james_tone(struct james *j)
{
    enum { N_BANDS = 15 };
    double number[2 * N_BANDS];
    char pairs[2 * N_BANDS * 28];
    size_t used = 0;
    const char *at = j->value[TONE_EQ].text;
    int n = 0;
    for (; at && n < 2 * N_BANDS; n++, at += *at == ';')
        if (!(at = number_read(at, n < N_BANDS ? 1 : -200, n < N_BANDS ? 192000 : 200, &number[n]))) break;
    if (!at || *at || n != 2 * N_BANDS) {
        IMPORT_REFUSE(j->s.import, j->value[TONE_EQ].line, "tone_eq",
                      "is not a list of 15 frequencies and 15 gains; separate 30 numbers by semicolons");
        return;
    }
    for (int i = 0; i < N_BANDS; i++)
        used += (size_t)snprintf(pairs + used, sizeof pairs - used, "%s%.10g %.10g", i ? "; " : "", number[i],
                                 number[i + N_BANDS]);
    IMPORT_WARN(j->s.import, j->value[TONE_EQ].line, "tone_eq",
                "is approximated: straight lines join the bands, where JamesDSP has a smooth curve");
    james_curve(j, TONE_EQ, pairs);
}

static void james_convolve(struct james *j)
{
    const char *name = j->value[FILE_NAME].text, *slash = name ? strrchr(name, '/') : NULL;
    struct preset_convolver v = {.width = 1, .wet = 1};
    j->s.line = j->value[FILE_NAME].line;
    j->s.statement = "convolver_file";
    if (!name || !*name) {
        IMPORT_REFUSE(j->s.import, j->value[CONVOLVER].line, "convolver_enable", "has no convolver_file; name a file");
        return;
    }
    v.path = *name == '/' && access(name, F_OK) == 0 ? name : response_find(&j->s, slash ? slash + 1 : name);
    if (!v.path) v.path = name; /* the reader of sound files reports why it cannot be read */
    stereo_convolve(&j->s, &v);
}

static void read_jamesdsp(struct import *import)
{
    struct james j = {.value = {{0}}};
    bool on[N_JAMES] = {false};
    double gain_db = 0;
    int line = 1;
    stereo_open(&j.s, import);
    for (char *text = import->text, *end; *text; text = end, line++) {
        end = text + strcspn(text, "\n");
        if (*end) *end++ = 0;
        james_line(&j, text, line);
    }
    for (int key = 0; key < N_JAMES; key++)
        on[key] =
            strstr(james_keys[key], "_enable") && james_flag(&j, j.value[key].line, james_keys[key], j.value[key].text);
    const char *gain = j.value[POST_GAIN].text;
    if (gain && !number_is(gain, -60, 60, &gain_db))
        IMPORT_REFUSE(import, j.value[POST_GAIN].line, "master_postgain", "is \"%.40s\"; give -60 to 60 dB", gain);
    if (j.value[ENABLE].text && !on[ENABLE])
        IMPORT_WARN(import, j.value[ENABLE].line, "master_enable", "is false; the input plays unchanged");
    else {
        const char *curve = j.value[GRAPHIC_PARAM].text;
        IMPORT_NOTE(import, 0, NULL, "the limiter of JamesDSP is not taken over; lower the gain if the output clips");
        if (!on[TONE] && !on[GRAPHIC] && !on[CONVOLVER])
            IMPORT_WARN(import, 0, NULL, "its convolver and equalizers are off; switch one on");
        if (on[TONE]) james_tone(&j);
        if (on[GRAPHIC])
            james_curve(&j, GRAPHIC_PARAM, curve && strncmp(curve, "GraphicEQ:", 10) == 0 ? curve + 10 : "");
        if (on[CONVOLVER]) james_convolve(&j);
        stereo_gain(&j.s, FROM_DB(gain_db));
    }
    stereo_close(&j.s);
}

static bool is_jamesdsp(const char *text, size_t bytes)
{
    const char *found = memmem(text, bytes, "convolver_enable=", 17);
    if (!found) found = memmem(text, bytes, "master_enable=", 14);
    if (!found) found = memmem(text, bytes, "convolver_file=", 15);
    return found && (found == text || found[-1] == '\n');
}

const struct import_format format_jamesdsp = {
    .name = "JamesDSP", .extensions = ".conf", .is_format = is_jamesdsp, .read = read_jamesdsp};
