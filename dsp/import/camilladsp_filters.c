#include "camilladsp.h"

#ifdef HC_WITH_YAML

#include "dsp/signal/recursive_filter.h"
#include "sections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOUND_M_PER_S 343.0
enum {
    MAX_STEPS = 1 << 26, /* of all filters together: as many as the longest text has numbers */
    NUMBER_STEPS = 8     /* steps for a number in a list; a tap of a recursion takes a step for each coefficient a */
};

struct network *reading_network(const struct reading *r)
{
    return &r->d->yaml.import->network;
}

bool reading_has(const struct reading *r, const char *key)
{
    return yaml_value(&r->d->yaml, r->map, key) != NULL;
}

void reading_set_filter(struct reading *r, const struct filter *filter)
{
    r->filter->filter = filter;
    r->filter->has_filter = true;
}

/* Counts n steps before they are done. false: too many; an error was reported. */
static bool camilladsp_has_budget(struct reading *r, int64_t n_steps)
{
    r->d->n_steps += n_steps;
    if (r->d->n_steps <= MAX_STEPS) return true;
    REFUSE(r, "the lists and recursions of all filters are too long; use files for them, or fewer filters");
    return false;
}

double *reading_numbers(struct reading *r, const char *key, int *n)
{
    struct yaml *y = &r->d->yaml;
    const yaml_node_t *list = yaml_list(y, r->map, key, false);
    char item[48];
    snprintf(item, sizeof item, "an item of %.30s", key);
    *n = yaml_count(list);
    if (!list && reading_has(r, key)) *n = -1; /* another kind: an error was reported */
    if (!camilladsp_has_budget(r, *n > 0 ? (int64_t)*n * NUMBER_STEPS : 0)) return NULL;
    double *values = *n > 0 ? malloc((size_t)*n * sizeof *values) : NULL;
    if (*n > 0 && !values) y->import->c->arena->is_short = true;
    for (int i = 0; values && i < *n; i++) {
        if (yaml_number_of(y, yaml_item(y, list, i), item, &values[i])) continue;
        free(values);
        return NULL;
    }
    return values;
}

/* ---- DiffEq ------------------------------------------------------------------------------------- */

void reading_set_recursion(struct reading *r, const double *b, int n_b, const double *a, int n_a)
{
    struct network *net = reading_network(r);
    double *taps, rest_db;
    if (n_a > RECURSION_ORDER + 1) {
        REFUSE(r, "has %d coefficients a; give at most %d", n_a, RECURSION_ORDER + 1);
        return;
    }
    if (!recursion_is_stable(a, n_a)) {
        REFUSE(r, "the filter is not stable: its output grows without bound; correct its coefficients a");
        return;
    }
    if (!camilladsp_has_budget(r, 0)) return;
    int n = recursion_taps(b, n_b, a, n_a, SECTIONS_REST_DB, SECTIONS_TAPS, &taps, &rest_db);
    r->d->n_steps += (int64_t)n * n_a;
    if (n == 0) {
        net->c->arena->is_short = true;
        return;
    }
    if (rest_db > NETWORK_REST_DB)
        WARN(r, "becomes %d taps: the rest that is cut off is only %.0f dB below the filter", n, -rest_db);
    reading_set_filter(r, filter_of_taps(net, taps, n, r->line, r->command));
    free(taps);
}

static void read_difference_equation(struct reading *r)
{
    static const double one[] = {1};
    int n_a, n_b;
    double *a = reading_numbers(r, "a", &n_a), *b = reading_numbers(r, "b", &n_b);
    if (a) a[0] = 1; /* CamillaDSP does not use a0 */
    if ((a || n_a == 0) && (b || n_b == 0))
        reading_set_recursion(r, b ? b : one, b ? n_b : 1, a ? a : one, a ? n_a : 1);
    free(a);
    free(b);
}

/* ---- Conv --------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *raw; /* the format's name in CamillaDSP, and in raw_samples */
    int bytes;              /* bytes of a sample; 1 for a text, which counts lines     */
} raw_names[] = {
    {"TEXT", "TEXT", 1},
    {"S16LE", "S16_LE", 2},
    {"S24LE", "S24_4LE", 4},
    {"S24LE3", "S24_3LE", 3},
    {"S32LE", "S32_LE", 4},
    {"FLOAT32LE", "FLOAT_LE", 4},
    {"FLOAT64LE", "FLOAT64_LE", 8},
    /* names since version 4; LJ: the 24 high bits of 32 */
    {"S16_LE", "S16_LE", 2},
    {"S24_3_LE", "S24_3LE", 3},
    {"S24_4_RJ_LE", "S24_4LE", 4},
    {"S24_4_LJ_LE", "S32_LE", 4},
    {"S32_LE", "S32_LE", 4},
    {"F32_LE", "FLOAT_LE", 4},
    {"F64_LE", "FLOAT64_LE", 8},
};

static void camilladsp_read_sound(struct reading *r)
{
    struct yaml *y = &r->d->yaml;
    struct excerpt excerpt = {.gain = 1, .line = r->line, .command = r->command};
    const char *name = camilladsp_name(r->d, yaml_text(y, r->map, "filename", NULL));
    if (!*name) return;
    excerpt.channel = yaml_whole(y, r->map, "channel", 0, 0, MASK_MAX_CHANNELS - 1);
    excerpt.sound = configuration_file(y->import->c, name);
    reading_set_filter(r, filter_of_file(reading_network(r), &excerpt));
}

/* Reads a raw file. skip_bytes_lines and read_bytes_lines count lines of a text, but bytes of other formats. */
static void read_raw(struct reading *r)
{
    struct yaml *y = &r->d->yaml;
    struct excerpt excerpt = {.gain = 1, .line = r->line, .command = r->command};
    struct raw_samples raw = {0};
    const char *name = camilladsp_name(r->d, yaml_text(y, r->map, "filename", NULL));
    const char *format = yaml_text(y, r->map, "format", "TEXT");
    int skip = yaml_whole(y, r->map, "skip_bytes_lines", 0, 0, INT32_MAX);
    int max = yaml_whole(y, r->map, "read_bytes_lines", 0, 0, INT32_MAX), bytes = 1;
    for (size_t i = 0; i < sizeof raw_names / sizeof *raw_names; i++) {
        if (strcmp(format, raw_names[i].name) != 0) continue;
        raw.format = raw_format_find(raw_names[i].raw);
        bytes = raw_names[i].bytes;
    }
    if (!raw.format || !*name) {
        if (*name && *format) REFUSE(r, "the format \"%.40s\" is unknown; use one of CamillaDSP's", format);
        return;
    }
    raw.skip = strcmp(format, "TEXT") == 0 ? -skip : skip;
    raw.max = max / bytes;
    excerpt.sound = configuration_raw_file(y->import->c, name, &raw);
    reading_set_filter(r, filter_of_file(reading_network(r), &excerpt));
}

static void camilladsp_read_values(struct reading *r)
{
    int n;
    double *values = reading_numbers(r, "values", &n);
    if (reading_has(r, "length")) NOTE(r, "length has no effect; all values are read");
    if (values)
        reading_set_filter(r, filter_of_taps(reading_network(r), values, n, r->line, r->command));
    else if (n == 0)
        REFUSE(r, "values is missing; give a list of coefficients");
    free(values);
}

static void read_convolution(struct reading *r)
{
    if (strcmp(r->type, "Wav") == 0)
        camilladsp_read_sound(r);
    else if (strcmp(r->type, "Raw") == 0 || strcmp(r->type, "File") == 0)
        read_raw(r);
    else if (strcmp(r->type, "Values") == 0)
        camilladsp_read_values(r);
    else if (strcmp(r->type, "Dummy") == 0) /* a dummy has no effect */
        reading_has(r, "length");
    else
        REFUSE(r, "the type \"%.40s\" is unknown; use Raw, Wav, Values or Dummy", r->type);
}

/* ---- Gain, Delay, and types that are not filters --------------------------------------------------------- */

static void camilladsp_read_gain(struct reading *r)
{
    r->filter->gain = camilladsp_gain(r->d, r->map, NAN);
}

/* Makes a delay by a fraction of a frame with an allpass of Thiran (1971). Below 1.1 frames the allpass has first
 * order; else it has second order, delays by 1.1 to 2.1 frames, and whole frames precede it. */
static int fractional_delay_make(const void *data, int rate, double **taps, double *rest_db)
{
    double delay = *(const double *)data * rate, whole = 0, d;
    struct biquad b;
    if (delay < 1.1) {
        double k = (1 - delay) / (1 + delay);
        b = (struct biquad){k, 1, 0, k, 0};
    } else {
        whole = fmax(floor(delay - 1.1), 0);
        d = delay - whole;
        double k1 = 2 * (2 - d) / (1 + d), k2 = (2 - d) / (2 + d) * (1 - d) / (1 + d);
        b = (struct biquad){k2, k1, 1, k1, k2};
    }
    double *tail;
    int n = biquad_taps(&b, 1, SECTIONS_REST_DB, SECTIONS_TAPS, &tail, rest_db), shift = (int)whole;
    *taps = n ? calloc((size_t)n + (size_t)shift, sizeof **taps) : NULL;
    if (*taps) memcpy(*taps + shift, tail, (size_t)n * sizeof *tail);
    free(tail);
    return *taps ? n + shift : 0;
}

static void camilladsp_read_delay(struct reading *r)
{
    static const struct {
        const char *name;
        double seconds; /* 0: the unit is frames */
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"mm", 1e-3 / SOUND_M_PER_S}, {"samples", 0}};
    struct yaml *y = &r->d->yaml;
    double delay = NUMBER(r, "delay"), frames = -1;
    const char *unit = yaml_text(y, r->map, "unit", "ms");
    if (!*unit) return;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            frames = units[i].seconds > 0 ? delay * units[i].seconds * r->d->rate : delay;
    if (!(frames >= 0 && frames <= CONFIGURATION_TAPS)) {
        REFUSE(r, "the delay is %g %.20s; give at most %d frames, in ms, us, mm or samples", delay, unit,
               CONFIGURATION_TAPS);
        return;
    }
    if (!yaml_bool(y, r->map, "subsample", false)) {
        r->filter->delay_s = network_seconds(reading_network(r), round(frames));
        return;
    }
    if (frames < 0.1) return; /* CamillaDSP does the same */
    double whole = frames < 4 ? 0 : floor(frames) - 4, *rest_s = arena_alloc(y->import->c->arena, 1, sizeof *rest_s);
    if (!rest_s) return;
    *rest_s = network_seconds(reading_network(r), frames - whole);
    r->filter->delay_s = network_seconds(reading_network(r), whole);
    reading_set_filter(r, filter_computed(reading_network(r), fractional_delay_make, rest_s, r->line, r->command));
}

static void read_volume(struct reading *r)
{
    double limit_db = fmin(yaml_number(&r->d->yaml, r->map, "limit", 0), 0);
    r->filter->gain = pow(10, limit_db / 20);
    WARN(r, "a volume control becomes its gain at rest, %g dB", limit_db);
}

/* Reads a loudness filter at rest: the volume is 0 dB, and loudness acts below its reference level only. */
static void read_loudness(struct reading *r)
{
    if (NUMBER(r, "reference_level") > 0)
        REFUSE(r, "loudness follows a volume control, and has an effect at rest; remove it, or set a reference_level "
                  "below 0");
    else
        NOTE(r, "loudness follows a volume control, and is omitted: at rest it has no effect");
}

static void read_limiter(struct reading *r)
{
    if (yaml_bool(&r->d->yaml, r->map, "soft_clip", false))
        REFUSE(r, "a soft clipper cannot be a convolution; remove it");
    else
        WARN(r, "the limiter is omitted: peaks above %g dB are not limited",
             yaml_number(&r->d->yaml, r->map, "clip_limit", 0));
}

static void camilladsp_read_dither(struct reading *r)
{
    r->d->yaml.watched = NULL; /* no value has an effect */
    WARN(r, "dither is omitted: haloconv adds dither when it writes integers");
}

/* ---- the filter --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*read)(struct reading *r);
    const char *keys; /* parameters of all types of this filter */
} filter_types[] = {
    {"Conv", read_convolution, "type filename format skip_bytes_lines read_bytes_lines channel values length"},
    {"Gain", camilladsp_read_gain, "gain inverted mute scale"},
    {"Delay", camilladsp_read_delay, "delay unit subsample"},
    {"Biquad", camilladsp_biquad,
     "type freq q gain bandwidth slope a1 a2 b0 b1 b2 freq_p freq_z q_p normalize_at_dc freq_act q_act freq_target "
     "q_target"},
    {"BiquadCombo", camilladsp_combination,
     "type freq order gain fls qls gls fp1 qp1 gp1 fp2 qp2 gp2 fp3 qp3 gp3 fhs qhs ghs freq_min freq_max gains"},
    {"DiffEq", read_difference_equation, "a b"},
    {"Volume", read_volume, "ramp_time fader limit"},
    {"Loudness", read_loudness, "reference_level high_boost low_boost fader attenuate_mid ramp_time"},
    {"Limiter", read_limiter, "soft_clip clip_limit"},
    {"Dither", camilladsp_read_dither, "type bits amplitude"},
};

void camilladsp_filter_read(struct camilladsp *d, const yaml_node_t *node, struct camilladsp_filter *filter)
{
    struct yaml *y = &d->yaml;
    struct reading r = {.d = d, .node = node, .filter = filter, .line = yaml_line(node)};
    filter->gain = 1;
    yaml_keys(y, node, "type description parameters");
    r.map = yaml_map(y, node, "parameters", false);
    if (!r.map && yaml_value(y, node, "parameters")) return;
    r.command = arena_text(y->import->c->arena, y->statement);
    const char *type = yaml_text(y, node, "type", NULL);
    for (size_t i = 0; i < sizeof filter_types / sizeof *filter_types; i++) {
        if (strcmp(type, filter_types[i].name) != 0) continue;
        bool has_type = strncmp(filter_types[i].keys, "type ", 5) == 0;
        yaml_keys(y, r.map, filter_types[i].keys);
        y->watched = has_type ? r.map : NULL;
        r.type = has_type ? yaml_text(y, r.map, "type", NULL) : "";
        int n_errors = N_ERRORS(&r);
        if (*r.type || !has_type) filter_types[i].read(&r);
        if (N_ERRORS(&r) > n_errors) y->watched = NULL; /* the reader may have stopped early */
        yaml_unused(y, r.type);
        return;
    }
    if (*type) YAML_REFUSE(y, node, "the filter type \"%.40s\" is unknown; use one of CamillaDSP's", type);
}

#else
typedef int camilladsp_filters_are_not_built; /* ISO C needs a declaration */
#endif
