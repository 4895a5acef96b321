/* equalizer_apo - reads the texts of Equalizer APO, which AutoEq and REW write, too.
 *
 * A line is "Command: parameters". Each channel has a signal, and the commands act on the selected ones. A text that
 * treats all channels alike becomes a mask of one channel, which fits any number of inputs.
 */
#include "import.h"

#include "dsp/base/error.h"
#include "dsp/base/number.h"
#include "dsp/masks/mask_file.h"
#include "equalizer_filter.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_CHANNELS = 64,
    MAX_DEPTH = 16,           /* max. nested includes                                                    */
    INCLUDE_BYTES = 1 << 20,  /* max. bytes of an included text                                          */
    INCLUDES_BYTES = 16 << 20 /* max. bytes of all included texts: includes can multiply */
};

struct channel {
    char name[24];
    const struct signal *signal; /* the channel's signal after the last line */
    bool is_selected;
};

struct apo_reader {
    struct import *import;
    struct network *net;
    struct channel channels[MAX_CHANNELS]; /* the first n_layout are inputs and outputs, the others are virtual */
    int n_channels, n_layout;
    bool is_survey;      /* first pass, which finds the channels                       */
    unsigned used;       /* survey: a bit for each enum position                        */
    int highest;         /* survey: the highest channel number                    */
    bool names_channels; /* a Channel or Copy occurs: channels are not all alike   */
    bool is_capture;     /* the last Stage line has neither pre-mix nor post-mix  */
    const char *device;  /* device of the last Device line; NULL: all              */
    int line;            /* line of the main text                                 */
    const char *include; /* path of the included text, from the folder of the main text; NULL: the main text */
    int include_line, depth;
    size_t n_included; /* bytes of all included texts                           */
    bool is_too_much;  /* no more texts are included; the error was reported    */
    const char *command;
};

#define EQ_REFUSE(r, ...) report(r, HC_EINVAL, __VA_ARGS__)
#define EQ_WARN(r, ...) report(r, HC_OK, __VA_ARGS__)
#define EQ_NOTE(r, ...) report(r, HC_NOTE, __VA_ARGS__)

/* Reports in the second pass only, so that no warning appears twice. */
static void __attribute__((format(printf, 3, 4))) report(struct apo_reader *r, int code, const char *format, ...)
{
    char text[DIAGNOSTIC_CAP / 2];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (r->is_survey) return;
    if (r->include)
        diagnostic(&r->import->c->diagnostics, code, r->line, r->command, "%s:%d: %s", r->include, r->include_line,
                   text);
    else
        diagnostic(&r->import->c->diagnostics, code, r->line, r->command, "%s", text);
}

/* ---- channels ----------------------------------------------------------------------------------- */

enum position { L, R, C, LFE, RL, RR, RC, SL, SR, POSITIONS };
static const char *const position_names[POSITIONS] = {"L", "R", "C", "LFE", "RL", "RR", "RC", "SL", "SR"};

static enum position position_find(const char *name)
{
    int i = 0;
    if (strcasecmp(name, "SUB") == 0) return LFE;
    while (i < POSITIONS && strcasecmp(name, position_names[i]) != 0) i++;
    return (enum position)i;
}

static void use_channel(struct apo_reader *r, const char *name)
{
    enum position position = position_find(name);
    int number = atoi(name);
    if (position < POSITIONS) r->used |= 1U << position;
    if (isdigit((unsigned char)*name) && number > r->highest) r->highest = number;
}

/* Chooses the smallest layout of Equalizer APO that has all channels that the text names. */
static void choose_layout(struct apo_reader *r)
{
    static const enum position mono[] = {L}, stereo[] = {L, R}, quad[] = {L, R, RL, RR}, surround[] = {L, R, C, RC},
                               rear[] = {L, R, C, LFE, RL, RR}, side[] = {L, R, C, LFE, SL, SR},
                               all[] = {L, R, C, LFE, RL, RR, SL, SR};
    static const struct {
        const enum position *positions;
        int n;
    } layouts[] = {{mono, 1}, {stereo, 2}, {quad, 4}, {surround, 4}, {rear, 6}, {side, 6}, {all, 8}};
    enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };
    for (int i = r->names_channels ? 1 : 0; i < N_LAYOUTS; i++) {
        unsigned has = 0;
        for (int k = 0; k < layouts[i].n; k++) has |= 1U << layouts[i].positions[k];
        if ((r->used & ~has) != 0 || r->highest > layouts[i].n) continue;
        for (int k = 0; k < layouts[i].n; k++)
            snprintf(r->channels[k].name, sizeof r->channels[k].name, "%s", position_names[layouts[i].positions[k]]);
        r->n_layout = layouts[i].n;
        break;
    }
    if (r->n_layout == 0) /* no layout fits: channels above the eight of 7.1 have numbers only */
        r->n_layout = r->highest > 8 && r->highest <= MAX_CHANNELS ? r->highest : 8;
    for (int k = 0; k < r->n_layout; k++) {
        struct channel *c = &r->channels[k];
        if (!*c->name && k < 8) snprintf(c->name, sizeof c->name, "%s", position_names[all[k]]);
        if (!*c->name) snprintf(c->name, sizeof c->name, "%d", k + 1);
        c->signal = signal_input(r->net, k);
        c->is_selected = true;
    }
    r->n_channels = r->n_layout;
}

/* Finds the channel of a name or number. may_add: an unknown name becomes a silent virtual channel. NULL: not found. */
static struct channel *channel_find(struct apo_reader *r, const char *name, bool may_add)
{
    char *end;
    long number = strtol(name, &end, 10);
    if (*name && !*end) return number >= 1 && number <= r->n_layout ? &r->channels[number - 1] : NULL;
    if (strcasecmp(name, "SUB") == 0) name = "LFE";
    for (int i = 0; i < r->n_channels; i++)
        if (strcasecmp(r->channels[i].name, name) == 0) return &r->channels[i];
    if (!may_add || r->n_channels == MAX_CHANNELS || strlen(name) >= sizeof r->channels[0].name) return NULL;
    struct channel *new = &r->channels[r->n_channels++];
    *new = (struct channel){0};
    snprintf(new->name, sizeof new->name, "%s", name);
    return new;
}

static void apply_channel(struct apo_reader *r, char *parameters)
{
    char *save = NULL;
    r->names_channels = true;
    for (int i = 0; !r->is_survey && i < r->n_channels; i++) r->channels[i].is_selected = false;
    for (char *name = strtok_r(parameters, " \t", &save); name; name = strtok_r(NULL, " \t", &save)) {
        if (r->is_survey) {
            use_channel(r, name);
            continue;
        }
        struct channel *found = strcasecmp(name, "all") == 0 ? r->channels : channel_find(r, name, false);
        if (!found) EQ_REFUSE(r, "channel %s does not exist here; name one of L, R, C, LFE, RL, RR, SL, SR", name);
        if (found) found->is_selected = true;
        for (int i = 0; found && strcasecmp(name, "all") == 0 && i < r->n_channels; i++)
            r->channels[i].is_selected = true;
    }
}

/* ---- Copy --------------------------------------------------------------------------------------- */

/* Reads one term of an assignment: 0.5*R, -6dB*R, R or 0.0. */
static bool read_summand(struct apo_reader *r, char *text, const struct signal **sum)
{
    char *star = strchr(text, '*'), *name = star ? star + 1 : text;
    const char *end = NULL;
    double factor = 1;
    if (star || strchr(text, '.') || strcmp(text, "0") == 0) {
        end = number_read(text, -DBL_MAX, DBL_MAX, &factor);
        if (!end) return false;
        bool is_db = strncasecmp(end, "dB", 2) == 0;
        if (is_db) factor = pow(10, factor / 20);
        if (end[is_db ? 2 : 0] != (star ? '*' : 0)) return false;
    }
    if (!star && end) { /* the term is a constant */
        if (factor != 0 && !r->is_survey)
            EQ_REFUSE(r, "%s adds a constant (DC), which a filter cannot do; remove it", text);
        return true;
    }
    if (r->is_survey) {
        use_channel(r, name);
        return true;
    }
    const struct channel *from = channel_find(r, name, false);
    if (!from) {
        EQ_WARN(r, "channel %s is silent: no line above assigns it", name);
        return true;
    }
    *sum = signal_add(r->net, *sum, signal_gain(r->net, from->signal, factor));
    return true;
}

/* Applies a line of assignments, all of which read the signals as they are before the line. */
static void apply_copy(struct apo_reader *r, char *parameters)
{
    const struct signal *made[MAX_CHANNELS];
    struct channel *to[MAX_CHANNELS];
    int n = 0;
    char *save = NULL;
    r->names_channels = true;
    for (char *word = strtok_r(parameters, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        char *equals = strchr(word, '='), *save_sum = NULL;
        const struct signal *sum = NULL;
        if (!equals || equals == word) {
            EQ_REFUSE(r, "%s is not an assignment; write TARGET=SOURCE+FACTOR*SOURCE without blanks", word);
            return;
        }
        *equals = 0;
        if (r->is_survey) use_channel(r, word);
        for (char *s = strtok_r(equals + 1, "+", &save_sum); s; s = strtok_r(NULL, "+", &save_sum))
            if (!read_summand(r, s, &sum)) {
                EQ_REFUSE(r, "%s has no factor; write a number, such as 0.5 or -6dB, in front of *", s);
                return;
            }
        if (r->is_survey) continue;
        if (n == MAX_CHANNELS) {
            EQ_REFUSE(r, "has more than %d assignments; write the others in another line", MAX_CHANNELS);
            return;
        }
        to[n] = channel_find(r, word, true);
        for (int i = 0; i < n && to[n]; i++)
            if (to[i] == to[n]) EQ_WARN(r, "assigns %s twice, and the last counts; remove the other", word);
        if (!to[n]) {
            EQ_REFUSE(r, "channel %s is not defined, and %d channels is the maximum; use fewer", word, MAX_CHANNELS);
            return;
        }
        made[n++] = sum;
    }
    for (int i = 0; i < n; i++) to[i]->signal = made[i];
}

/* ---- filters ------------------------------------------------------------------------------------ */

static void filter_selected(struct apo_reader *r, const struct filter *filter)
{
    for (int i = 0; i < r->n_channels; i++)
        if (filter && r->channels[i].is_selected)
            r->channels[i].signal = signal_filter(r->net, r->channels[i].signal, filter);
}

/* Warns about words that are neither numbers nor `known`: Equalizer APO skips them. */
static void warn_words(struct apo_reader *r, const char *parameters, const char *known)
{
    char word[25];
    for (size_t n; *(parameters += strspn(parameters, " \t")); parameters += n) {
        n = strcspn(parameters, " \t");
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), parameters);
        if (isalpha((unsigned char)*word) && !import_key_is_known(known, word))
            EQ_WARN(r, "\"%s\" has no effect; known: %s", word, known);
    }
}

static void apply_filter(struct apo_reader *r, char *parameters)
{
    static const char words[] = "Fc Hz Gain dB Q BW Oct T60 target ms Order Coefficients";
    size_t type = strspn(parameters, " \t") + strcspn(parameters, " \t") + 1;
    char why[256] = "";
    const struct filter *filter;
    if (!equalizer_filter_read(r->net, parameters, r->line, &filter, REASON(why, sizeof why))) {
        EQ_REFUSE(r, "%s", why);
        return;
    }
    if (*why) EQ_WARN(r, "%s", why);
    if (filter) warn_words(r, parameters + type + strcspn(parameters + type, " \t"), words);
    filter_selected(r, filter);
}

static void apply_graphic(struct apo_reader *r, char *parameters)
{
    char why[256] = "";
    const struct filter *filter;
    if (!equalizer_graphic_read(r->net, parameters, r->line, &filter, REASON(why, sizeof why)))
        EQ_REFUSE(r, "%s", why);
    else
        filter_selected(r, filter);
}

static void apply_preamp(struct apo_reader *r, char *parameters)
{
    const char *end;
    double db;
    if (equalizer_number(parameters, "dB", false, &db, &end) < NUMBER_BARE || !(fabs(db) <= 400)) {
        EQ_REFUSE(r, "\"%.40s\" is not a gain; write a number of dB", parameters);
        return;
    }
    warn_words(r, parameters, "dB");
    for (int i = 0; i < r->n_channels; i++)
        if (r->channels[i].is_selected)
            r->channels[i].signal = signal_gain(r->net, r->channels[i].signal, pow(10, db / 20));
}

static void apply_delay(struct apo_reader *r, char *parameters)
{
    const char *end;
    double delay;
    bool is_ms = equalizer_number(parameters, "ms", false, &delay, &end) == NUMBER_WITH_UNIT;
    bool has_unit = is_ms || equalizer_number(parameters, "samples", false, &delay, &end) == NUMBER_WITH_UNIT;
    if (!(delay >= 0 && delay <= CONFIGURATION_TAPS) || !has_unit) {
        EQ_REFUSE(r, "\"%.40s\" is not a delay; write a number of ms or samples", parameters);
        return;
    }
    warn_words(r, parameters, "ms samples");
    if (!is_ms && r->import->c->rate == 0)
        EQ_WARN(r, "its %g samples are read as samples at 48000 Hz; write ms", delay);
    double seconds = is_ms ? delay / 1000 : network_seconds(r->net, delay);
    for (int i = 0; i < r->n_channels; i++)
        if (r->channels[i].is_selected) r->channels[i].signal = signal_delay(r->net, r->channels[i].signal, seconds);
}

/* Converts a Windows path relative to its text to a path relative to the main text. NULL: no memory. */
static char *path_from_main(struct apo_reader *r, const char *path)
{
    const char *slash = r->include && *path != '/' && *path != '\\' ? strrchr(r->include, '/') : NULL;
    size_t folder = slash ? (size_t)(slash - r->include) + 1 : 0, bytes = folder + strlen(path) + 1;
    char *joined = arena_alloc(r->import->c->arena, bytes, 1);
    if (!joined) return NULL;
    snprintf(joined, bytes, "%.*s%s", (int)folder, folder ? r->include : "", path);
    for (char *at = joined; *at; at++)
        if (*at == '\\') *at = '/';
    return joined;
}

/* Convolves the selected channels with the channels of a file, one after the other. */
static void apply_convolution(struct apo_reader *r, char *parameters)
{
    struct excerpt excerpt = {.line = r->line, .command = "Convolution", .gain = 1};
    const char *path = path_from_main(r, parameters);
    if (!path) return;
    excerpt.sound = configuration_file(r->import->c, path);
    for (int i = 0; i < r->n_channels; i++) {
        if (!r->channels[i].is_selected) continue;
        r->channels[i].signal = signal_filter(r->net, r->channels[i].signal, filter_of_file(r->net, &excerpt));
        excerpt.channel++;
        excerpt.is_in_turn = true;
    }
}

/* ---- control ------------------------------------------------------------------------------------ */

static void apply_text(struct apo_reader *r, char *text);

/* Reads an included text. NULL: the error was reported. */
static char *include_read(struct apo_reader *r, const char *name)
{
    const char *own = r->import->c->diagnostics.path, *slash = strrchr(own, '/');
    char path[4096], why[DIAGNOSTIC_CAP / 2], *text = NULL;
    size_t bytes = 0;
    int length = snprintf(path, sizeof path, "%.*s%s", *name != '/' && slash ? (int)(slash - own) + 1 : 0, own, name);
    if (length >= (int)sizeof path)
        EQ_REFUSE(r, "a path of %d bytes is too long; shorten it", length);
    else if (mask_file_text(path, INCLUDE_BYTES, &text, &bytes, REASON(why, sizeof why)) != HC_OK)
        EQ_REFUSE(r, "%s", why);
    else if (memchr(text, 0, bytes))
        EQ_REFUSE(r, "%s: is not text; name a text of Equalizer APO", path);
    else {
        r->n_included += bytes;
        return text;
    }
    free(text);
    return NULL;
}

/* Includes a text. The channels and the stage that this text selects end with it. */
static void apply_include(struct apo_reader *r, char *parameters)
{
    const struct apo_reader was = *r;
    if (r->is_too_much) return;
    r->is_too_much = r->depth == MAX_DEPTH || r->n_included > INCLUDES_BYTES;
    if (r->is_too_much) {
        EQ_REFUSE(r, "the texts include each other, or have more than %d bytes in all; remove the line",
                  INCLUDES_BYTES);
        return;
    }
    char *name = path_from_main(r, parameters), *text = name ? include_read(r, name) : NULL;
    if (!text) return;
    if (!r->is_survey) configuration_file(r->import->c, name); /* so that live sessions watch the file */
    r->depth++;
    r->include = name;
    r->include_line = 0;
    apply_text(r, text);
    free(text);
    r->depth = was.depth;
    r->include = was.include;
    r->include_line = was.include_line;
    r->is_capture = was.is_capture;
    for (int i = 0; i < r->n_channels; i++) r->channels[i].is_selected = was.channels[i].is_selected;
}

static void apply_device(struct apo_reader *r, char *parameters)
{
    const char *device = strcasecmp(parameters, "all") == 0 ? NULL : arena_text(r->import->c->arena, parameters);
    if (device && r->device && strcmp(device, r->device) != 0)
        EQ_REFUSE(r, "%s: the text has filters for several devices; keep those of one", device);
    else if (device && !r->device)
        EQ_WARN(r, "the filters for %s are used", device);
    if (device) r->device = device;
}

static void apply_stage(struct apo_reader *r, char *parameters)
{
    r->is_capture = !strstr(parameters, "pre-mix") && !strstr(parameters, "post-mix");
    if (r->is_capture) EQ_WARN(r, "the lines below, for the capture stage, are ignored");
}

static void apply_expression(struct apo_reader *r, char *parameters)
{
    (void)parameters;
    EQ_REFUSE(r, "expressions are not evaluated; write the values");
}

static void apply_other(struct apo_reader *r, char *parameters)
{
    (void)parameters;
    EQ_REFUSE(r, "no linear filter can do this; remove the line");
}

static void apply_nothing(struct apo_reader *r, char *parameters)
{
    (void)r, (void)parameters;
}

/* ---- lines -------------------------------------------------------------------------------------- */

static const struct command {
    const char *name;
    void (*apply)(struct apo_reader *r, char *parameters);
} commands[] = {
    {"Preamp", apply_preamp},
    {"GraphicEQ", apply_graphic},
    {"Channel", apply_channel},
    {"Copy", apply_copy},
    {"Delay", apply_delay},
    {"Convolution", apply_convolution},
    {"Include", apply_include},
    {"Device", apply_device},
    {"Stage", apply_stage},
    {"If", apply_expression},
    {"ElseIf", apply_expression},
    {"Else", apply_expression},
    {"EndIf", apply_nothing},
    {"Eval", apply_expression},
    {"VSTPlugin", apply_other},
    {"MultiConvolution", apply_other}, /* of Equalizer APO XT */
    {"LoudnessCorrection", apply_other},
    /* These are in the head of REW's texts: */
    {"Notes", apply_nothing},
    {"Dated", apply_nothing},
    {"Equaliser", apply_nothing},
    {"Equalizer", apply_nothing},
    {"Average 1", apply_nothing},
    {"Room EQ V", apply_nothing},
};

/* Is the name written as Equalizer APO writes it? */
static bool command_has_case(const struct command *command, const char *name)
{
    return strncmp(name, command->name, strlen(command->name)) == 0;
}

/* Finds the command of a name, in small letters or in capitals. */
static const struct command *command_find(const char *name, size_t length)
{
    static const struct command filter = {"Filter", apply_filter};
    if (length >= 6 && strncasecmp(name, "Filter", 6) == 0 && name[6 + strspn(name + 6, " \t0123456789")] == ':')
        return &filter; /* "Filter N": N has no effect */
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == length && strncasecmp(name, commands[i].name, length) == 0) return &commands[i];
    return NULL;
}

/* A command that differs from one of these in a letter is refused: the sound would lack a filter. */
#define COMMAND_NAMES                                                                                                  \
    "Filter Preamp GraphicEQ Channel Copy Delay Convolution Include Device Stage ElseIf EndIf VSTPlugin "              \
    "LoudnessCorrection MultiConvolution"

/* Does a command name channels, or decide which lines apply? */
static bool is_surveyed(const struct command *command)
{
    return command->apply == apply_channel || command->apply == apply_copy || command->apply == apply_include ||
           command->apply == apply_stage;
}

static void apo_apply_line(struct apo_reader *r, char *line)
{
    line += strspn(line, " \t");
    char *colon = strchr(line, ':');
    size_t length = colon ? (size_t)(colon - line) : 0;
    while (length > 0 && strchr(" \t", line[length - 1])) length--;
    r->command = NULL;
    if (!*line || *line == '#') return;
    if (!colon && !line[strspn(line, " \t\r")]) return;
    if (!colon && strstr(line, " Fc "))
        EQ_WARN(r, "\"%.40s\" has no colon, and is a comment; write Filter: ON ...", line);
    else if (!colon)
        EQ_NOTE(r, "\"%.40s\" has no colon, and is a comment, as in Equalizer APO", line);
    if (!colon) return;
    const struct command *command = command_find(line, length);
    const char *word;
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), line);
    int near = command || r->is_capture ? 0 : import_key_near(COMMAND_NAMES, name, &word);
    if (near) {
        EQ_REFUSE(r, "\"%s\" is not a command; write %.*s", name, near, word);
        return;
    }
    if (!command) {
        EQ_WARN(r, "\"%.40s\" is not a command of Equalizer APO, and the line is ignored", line);
        return;
    }
    if (!r->is_capture && !command_has_case(command, line)) {
        EQ_REFUSE(r, "\"%s\" is not a command, as Equalizer APO heeds small and capital letters; write %s", name,
                  command->name);
        return;
    }
    r->command = command->name;
    if (r->is_capture && command->apply != apply_stage && command->apply != apply_device) return;
    if (r->is_survey && !is_surveyed(command)) return;
    char *parameters = colon + 1 + strspn(colon + 1, " \t"), *end = parameters + strlen(parameters);
    while (end > parameters && strchr(" \t\r", end[-1])) *--end = 0;
    if (strchr(parameters, '`'))
        apply_expression(r, parameters);
    else
        command->apply(r, parameters);
}

static void apply_text(struct apo_reader *r, char *text)
{
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* byte order mark of UTF-8 */
    for (char *end; *text && !r->import->c->arena->is_short; text = end) {
        end = text + strcspn(text, "\n");
        if (*end) *end++ = 0;
        *(r->include ? &r->include_line : &r->line) += 1;
        apo_apply_line(r, text);
    }
}

static void read_equalizer_apo(struct import *import)
{
    struct configuration *c = import->c;
    struct apo_reader *r = arena_alloc(c->arena, 1, sizeof *r);
    char *copy = r ? arena_text(c->arena, import->text) : NULL;
    if (!copy) return;
    r->import = import;
    r->net = &import->network;
    r->is_survey = true;
    apply_text(r, copy);
    r->is_survey = r->is_capture = r->is_too_much = false;
    r->n_included = 0;
    r->line = 0;
    choose_layout(r);
    apply_text(r, import->text);
    c->n_in = c->n_out = r->n_layout;
    c->is_mask = !r->names_channels;
    for (int i = 0; i < r->n_layout; i++) {
        network_output(r->net, i, r->channels[i].signal);
        if (r->names_channels) c->in_port[i].name = c->out_port[i].name = r->channels[i].name;
    }
}

/* Does a line of the text begin with a filter command? */
static bool is_equalizer_apo(const char *text, size_t bytes)
{
    const char *line = text + (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        line += strspn(line, " \t");
        size_t length = strcspn(line, ":\n");
        const struct command *command = line[length] == ':' ? command_find(line, length) : NULL;
        if (command && command->apply != apply_nothing && command_has_case(command, line)) return true;
        if (command && import_key_is_known("Filter Preamp GraphicEQ Convolution", command->name)) return true;
    }
    return false;
}

const struct import_format format_equalizer_apo = {
    .name = "Equalizer APO", .extensions = ".txt", .is_format = is_equalizer_apo, .read = read_equalizer_apo};
