/* jconvolver - reads the text format of jconvolver and mcfx_convolver. haloconv-masks(5) has the grammar.
 *
 * Each command takes effect when its line is read: a file is opened then. A /cd sets the folder of the files below it;
 * configuration_sounds.c resolves their paths. */
#include "dsp/base/number.h"
#include "dsp/signal/hann.h"
#include "import.h"
#include "jconvolver_pairs.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\v\f"

enum { HILBERT_MAX = 65536 };

struct reader {
    struct configuration *configuration;
    const struct jconvolver_command *command;
    int line;
    char *at;
    bool is_bad;    /* the line has an error: its command is skipped                    */
    bool is_broken; /* the rest of the line cannot be read, and gets no more errors     */
    bool plays;     /* the line is below the last /convolver/new, and names_only is not set */
    struct {
        int line;
        const struct jconvolver_command *command;
    } early; /* the first command above /convolver/new; line 0: none */
    struct pairs pairs;
    int max_taps;
    size_t n_impulses;                  /* good lines since /convolver/new */
    bool has_packed;                    /* a line has a packed matrix, so the text is mcfx_convolver's */
    int max_in, max_out;                /* the highest channels of a text with has_packed */
    int source_line[MASK_MAX_CHANNELS]; /* line of the source of each input; 0: absent */
    float **hilbert;                    /* [HILBERT_MAX / 2 + 1]: Hilbert transformers, by half length */
};

struct impulse { /* the fields of an /impulse command, from 0 */
    int in, out; /* packed: `in` is the number of inputs       */
    int from_in, from_out, delay;
    struct excerpt at; /* the excerpt and gain; Hilbert: the length */
};

struct jconvolver_command {
    const char *name, *fields;
    void (*read)(struct reader *r);
    void (*play)(struct reader *r, const struct impulse *i); /* for /impulse commands */
};

#define LINE_DIAGNOSTIC(r, code, ...)                                                                                  \
    diagnostic(&(r)->configuration->diagnostics, code, (r)->line, (r)->command ? (r)->command->name : NULL, __VA_ARGS__)
#define LINE_WARN(r, ...) LINE_DIAGNOSTIC(r, HC_OK, __VA_ARGS__)
#define LINE_REFUSE(r, ...) ((r)->is_bad = true, LINE_DIAGNOSTIC(r, HC_EINVAL, __VA_ARGS__))

/* ---- fields ------------------------------------------------------------------------------------- */

/* Moves to the next field. false: the line has no more fields, and one error was reported. */
static bool has_field(struct reader *r, const char *what)
{
    if (r->is_broken) return false;
    r->at += strspn(r->at, BLANKS);
    if (*r->at) return true;
    LINE_REFUSE(r, "the %s is missing; write %s", what, r->command->fields);
    r->is_broken = true;
    return false;
}

static void not_a_number(struct reader *r, const char *what, const char *kind)
{
    LINE_REFUSE(r, "the %s \"%.*s\" is not a %s; write %s", what, (int)strcspn(r->at, BLANKS), r->at, kind,
                r->command->fields);
    r->is_broken = true;
}

/* Reads a whole number; a number too large for a long long becomes LLONG_MAX, which is outside every range. */
static bool read_int(struct reader *r, const char *what, long long *value, int *length)
{
    if (!has_field(r, what)) return false;
    size_t end = strcspn(r->at, BLANKS), sign = *r->at == '-' || *r->at == '+';
    size_t digits = strspn(r->at + sign, "0123456789");
    if (digits == 0 || sign + digits != end) {
        not_a_number(r, what, "whole number");
        return false;
    }
    *value = strtoll(r->at, NULL, 10);
    *length = (int)end;
    r->at += end;
    return true;
}

/* Reads a number. If it is out of range, refuses it and returns min, so that the fields behind are checked, too. */
static int read_bounded_int(struct reader *r, const char *what, int min, int max)
{
    long long value;
    int length;
    if (!read_int(r, what, &value, &length)) return min;
    if (value >= min && value <= max) return (int)value;
    LINE_REFUSE(r, "%s %.*s is out of range; give %d to %d", what, length, r->at - length, min, max);
    return min;
}

/* Reads a channel, counted from 1 in the file and from 0 here. kind: "input" or "output"; messages name `what`. */
static int read_channel(struct reader *r, const char *kind, const char *what)
{
    const struct configuration *c = r->configuration;
    int n = strcmp(kind, "input") == 0 ? c->n_in : c->n_out;
    long long value;
    int length;
    if (!read_int(r, what, &value, &length)) return 0;
    if (value >= 1 && value <= n) return (int)value - 1;
    const char *at = r->at - length;
    if (value > n && c->defined_line)
        LINE_REFUSE(r, "%s %.*s is above the %d %s%s of /convolver/new; raise that number, or lower this one", what,
                    length, at, n, kind, n == 1 ? "" : "s");
    else
        LINE_REFUSE(r, "%s %.*s is out of range; give 1 to %d", what, length, at, n);
    return 0;
}

static bool field_number(struct reader *r, double *value)
{
    const char *end = number_read(r->at, NAN, NAN, value);
    if (!end || (*end && !strchr(BLANKS, *end))) return false;
    r->at += end - r->at;
    return true;
}

/* Reads a number from min to max. Returns 0 after an error. */
static double jconvolver_read_number(struct reader *r, const char *what, double min, double max)
{
    double value = 0;
    if (!has_field(r, what)) return 0;
    const char *start = r->at;
    if (!field_number(r, &value)) {
        not_a_number(r, what, "number");
        return 0;
    }
    if (value >= min && value <= max) return value;
    LINE_REFUSE(r, "%s %.*s is out of range; give %g to %g", what, (int)(r->at - start), start, min, max);
    return 0;
}

static float jconvolver_read_gain(struct reader *r)
{
    double gain = 0;
    if (!has_field(r, "gain")) return 0;
    const char *start = r->at;
    if (!field_number(r, &gain)) {
        not_a_number(r, "gain", "number");
    } else if (!(fabs(gain) <= (double)FLT_MAX)) {
        LINE_REFUSE(r, "the gain %.*s is not finite; write a factor, such as 0.5", (int)(r->at - start), start);
        gain = 0;
    }
    return (float)gain;
}

/* Reads a text up to the next blank, or between "" or ''. A backslash quotes the next character, except between ''.
 * Unescapes the text in place. NULL: the error has been added. */
static char *jconvolver_read_text(struct reader *r, const char *what)
{
    if (!has_field(r, what)) return NULL;
    char *at = r->at, quote = *at == '"' || *at == '\'' ? *at++ : 0, *text = at, *to = at;
    for (; *at && !(quote ? *at == quote : !!strchr(BLANKS, *at)); *to++ = *at++)
        if (*at == '\\' && quote != '\'' && at[1]) at++;
    if (quote && !*at) {
        LINE_REFUSE(r, "the %s is not closed; put %c behind it", what, quote);
        r->is_broken = true;
        return NULL;
    }
    r->at = *at ? at + 1 : at;
    *to = 0;
    if (*text) return text;
    LINE_REFUSE(r, "the %s is empty; write %s", what, r->command->fields);
    return NULL;
}

static const char *jconvolver_text_keep(struct reader *r, const char *text)
{
    return text ? arena_text(r->configuration->arena, text) : NULL;
}

/* Warns about text behind the last field, which jconvolver ignores, even the second half of a name with a blank. */
static void end_fields(struct reader *r)
{
    if (r->is_broken) return;
    r->at += strspn(r->at, BLANKS);
    if (*r->at && *r->at != '#')
        LINE_WARN(r,
                  "\"%.80s\" behind the last field is ignored; put # in front of a comment, and a name with blanks "
                  "between \"\"",
                  r->at);
}

/* ---- files -------------------------------------------------------------------------------------- */

static struct sound *jconvolver_read_file(struct reader *r)
{
    const char *name = jconvolver_read_text(r, "file");
    return name ? configuration_file(r->configuration, name) : NULL;
}

/* Reads the rest of the line as the name of a packed file, with its blanks, as mcfx_convolver does. */
static struct sound *read_rest_as_file(struct reader *r)
{
    if (!has_field(r, "file")) return NULL;
    if (*r->at == '"' || *r->at == '\'') return jconvolver_read_file(r);
    char *name = r->at, *end = name + strlen(name);
    while (strchr(BLANKS, end[-1])) end--;
    *end = 0;
    r->at = end;
    return configuration_file(r->configuration, name);
}

/* ---- commands ----------------------------------------------------------------------------------- */

/* Records a command that should be below /convolver/new. check_new reports it at the end of the file. */
static void note_early(struct reader *r)
{
    if (r->configuration->defined_line || r->early.line) return;
    r->early.line = r->line;
    r->early.command = r->command;
}

static void read_client(struct reader *r)
{
    const char *name = jconvolver_text_keep(r, jconvolver_read_text(r, "name"));
    end_fields(r);
    if (r->configuration->defined_line)
        LINE_WARN(r, "is below /convolver/new, where jconvolver ignores it; move it to the top");
    if (strcmp(r->command->name, "/jack/client") == 0)
        r->configuration->client = name;
    else
        r->configuration->server = name;
}

static void forget_ports(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (r->n_impulses + c->n_sources > 0)
        LINE_WARN(r, "replaces line %d, and drops its %zu responses and %zu sources; remove one of them",
                  c->defined_line, r->n_impulses, c->n_sources);
    else if (c->defined_line)
        LINE_WARN(r, "replaces line %d; remove one of them", c->defined_line);
    memset(c->in_port, 0, sizeof c->in_port);
    memset(c->out_port, 0, sizeof c->out_port);
}

static void read_density(struct reader *r)
{
    double density = 0;
    r->at += strspn(r->at, BLANKS);
    const char *start = r->at;
    if (r->is_broken || !*start || !field_number(r, &density)) return;
    if (!(density >= 0 && density <= 1))
        LINE_REFUSE(r, "density %.*s is out of range; give 0 to 1, or omit it", (int)(r->at - start), start);
}

static void read_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (c->defined_line) forget_ports(r);
    c->n_banks = c->n_sources = 0;
    memset(r->source_line, 0, sizeof r->source_line);
    r->n_impulses = 0; /* lines above the first /convolver/new do not count, either: check_new refuses them */
    pairs_free(&r->pairs);
    int n_in = read_bounded_int(r, "inputs", 1, MASK_MAX_CHANNELS);
    bool in_known = !r->is_bad;
    int n_out = read_bounded_int(r, "outputs", 1, MASK_MAX_CHANNELS);
    bool out_known = !r->is_broken && (!r->is_bad || !in_known);
    int partition = read_bounded_int(r, "partition", 0, 1 << 30);
    bool partition_known = !r->is_broken;
    int max_taps = read_bounded_int(r, "maximum length", 1, CONFIGURATION_TAPS);
    bool is_bad = r->is_bad;
    read_density(r);
    end_fields(r);
    c->partition = partition >= 64 && partition <= 8192 && (partition & (partition - 1)) == 0 ? partition : 0;
    if (partition_known && !c->partition)
        LINE_WARN(r, "partition %d is ignored; give a power of two from 64 to 8192", partition);
    c->defined_line = r->line;
    c->defined_by = "/convolver/new";
    /* A wrong count becomes the maximum, so that the lines below cause no further errors. */
    c->n_in = in_known ? n_in : MASK_MAX_CHANNELS;
    c->n_out = out_known && n_out > 0 ? n_out : MASK_MAX_CHANNELS;
    r->max_taps = is_bad ? CONFIGURATION_TAPS : max_taps;
}

static void jconvolver_read_port(struct reader *r)
{
    struct configuration *c = r->configuration;
    note_early(r);
    bool input = strcmp(r->command->name, "/input/name") == 0;
    int ch = input ? read_channel(r, "input", "input") : read_channel(r, "output", "output");
    hc_port port = {.name = jconvolver_text_keep(r, jconvolver_read_text(r, "port name"))};
    if (!r->is_broken) {
        r->at += strspn(r->at, BLANKS);
        if (*r->at && *r->at != '#')
            port.connect = jconvolver_text_keep(r, jconvolver_read_text(r, "port to connect to"));
    }
    end_fields(r);
    hc_port *kept = &(input ? c->in_port : c->out_port)[ch];
    if (!r->is_bad && kept->name)
        LINE_WARN(r, "replaces the name %.80s of %sput %d; remove one of them", kept->name, input ? "in" : "out",
                  ch + 1);
    if (!r->is_bad) *kept = port;
}

static void read_folder(struct reader *r)
{
    struct configuration *c = r->configuration;
    r->at += strspn(r->at, BLANKS);
    if (!*r->at || *r->at == '#') { /* as mcfx_convolver writes it */
        c->folder = NULL;
        return;
    }
    struct folder *folder = arena_alloc(c->arena, 1, sizeof *folder);
    if (!folder) return;
    *folder = (struct folder){.path = jconvolver_text_keep(r, jconvolver_read_text(r, "folder")), .line = r->line};
    end_fields(r);
    if (!folder->path) return;
    c->folder = folder;
    if (!configuration_folder_exists(c, folder->path))
        LINE_WARN(r, "the folder %s does not exist; correct it", folder->path);
}

/* ---- responses ---------------------------------------------------------------------------------- */

/* Returns how many of n frames behind a delay the maximum length allows; adds a warning if these are fewer than n. */
static int cut_to_max(struct reader *r, int n, int delay)
{
    if (delay >= r->max_taps) {
        LINE_WARN(r, "a delay of %d leaves nothing of the maximum length %d; raise that length in /convolver/new",
                  delay, r->max_taps);
        return 0;
    }
    if (n <= r->max_taps - delay) return n;
    LINE_WARN(r, "is cut from %d to %d frames by the maximum length %d; raise it in /convolver/new", n,
              r->max_taps - delay, r->max_taps);
    return r->max_taps - delay;
}

static void play_taps(struct reader *r, const struct impulse *i, const float *taps, int n_taps, int delay)
{
    n_taps = taps ? cut_to_max(r, n_taps, delay) : 0;
    if (n_taps > 0) pairs_add(&r->pairs, &i->at, i->in, i->out, taps, n_taps, delay);
}

static void play_file(struct reader *r, const struct impulse *i)
{
    int n_taps = 0;
    const float *taps = sounds_taps(r->configuration, &i->at, &n_taps);
    play_taps(r, i, taps, n_taps, i->delay);
}

/* Plays a packed matrix. A channel of the file has the responses of one output, one after the other: input 1, input 2
 * ... */
static void play_packed(struct reader *r, const struct impulse *i)
{
    struct configuration *c = r->configuration;
    struct sound *sound = sounds_get(c, &i->at);
    if (!sound) return;
    int n_in = i->in, n_out = sound->file.n_channels, frames = sound->file.n_frames / n_in, n = n_in * n_out;
    if (n_out > r->max_out) r->max_out = n_out;
    if (frames * n_in != sound->file.n_frames) {
        LINE_REFUSE(r, "%s has %d frames, which %d inputs do not divide; give the file's number of inputs", sound->path,
                    sound->file.n_frames, n_in);
        return;
    }
    if (n_out > c->n_out) {
        LINE_REFUSE(r, "%s has %d channels, but /convolver/new has %d outputs; make both equal", sound->path, n_out,
                    c->n_out);
        return;
    }
    int n_taps = sounds_length(c, &i->at, frames);
    const float **taps = n_taps ? calloc((size_t)n, sizeof *taps) : NULL;
    if (n_taps && !taps) c->arena->is_short = true;
    if (!taps) return;
    for (int k = 0; k < n; k++) taps[k] = sound->file.channel[k / n_in] + k % n_in * frames + i->at.offset;
    const float *first = taps[0];
    if (sounds_resample(c, &i->at, sound->path, sound->file.rate, taps, n, &n_taps)) {
        if (taps[0] == first) sound->is_played = true;
        n_taps = cut_to_max(r, n_taps, i->delay);
        for (int k = 0; n_taps > 0 && k < n; k++)
            pairs_add(&r->pairs, &i->at, k % n_in, k / n_in, taps[k], n_taps, i->delay);
    }
    free(taps);
}

static void play_dirac(struct reader *r, const struct impulse *i)
{
    static const float one = 1.0f;
    play_taps(r, i, &one, 1, i->delay);
}

/* Makes a Hilbert transformer of 2 * half frames: x[half - k] = v, x[half + k] = -v for odd k. NULL: the arena is
 * short. */
static const float *hilbert(struct reader *r, int half)
{
    struct arena *arena = r->configuration->arena;
    if (!r->hilbert) r->hilbert = arena_alloc(arena, HILBERT_MAX / 2 + 1, sizeof *r->hilbert);
    if (!r->hilbert || r->hilbert[half]) return r->hilbert ? r->hilbert[half] : NULL;
    float *x = arena_alloc(arena, 2 * (size_t)half, sizeof *x);
    if (!x) return NULL;
    for (int k = 1; k < half; k += 2) {
        double v = hilbert_tap(k, half);
        x[half - k] = (float)v;
        x[half + k] = (float)-v;
    }
    return r->hilbert[half] = x;
}

static void play_hilbert(struct reader *r, const struct impulse *i)
{
    int half = i->at.length / 2;
    play_taps(r, i, hilbert(r, half), 2 * half, i->delay - half);
}

static void jconvolver_play_copy(struct reader *r, const struct impulse *i)
{
    const struct configuration *c = r->configuration;
    pairs_link(&r->pairs, &i->at, i->in, i->out, i->from_in, i->from_out,
               !c->lacks_sounds && c->diagnostics.n_errors == 0);
}

/* Reads any /impulse command: each kind has some of these fields, in this order. */
static void read_impulse(struct reader *r)
{
    void (*play)(struct reader *, const struct impulse *) = r->command->play;
    bool is_packed = play == play_packed, has_file = is_packed || play == play_file;
    struct impulse i = {.at = {.line = r->line, .command = r->command->name}};
    note_early(r);
    i.in = read_channel(r, "input", is_packed ? "inputs" : "input") + is_packed; /* packed: `in` is a count */
    if (!is_packed) i.out = read_channel(r, "output", "output");
    if (play == jconvolver_play_copy) {
        i.from_in = read_channel(r, "input", "from-input");
        i.from_out = read_channel(r, "output", "from-output");
    } else {
        i.at.gain = jconvolver_read_gain(r);
        i.delay = read_bounded_int(r, "delay", 0, CONFIGURATION_TAPS);
    }
    if (has_file) {
        i.at.offset = read_bounded_int(r, "offset", 0, 1 << 30);
        i.at.length = read_bounded_int(r, "length", 0, 1 << 30);
    }
    if (play == play_hilbert) i.at.length = read_bounded_int(r, "length", 64, HILBERT_MAX);
    if (play == play_file) i.at.channel = read_bounded_int(r, "channel", 1, MASK_MAX_CHANNELS) - 1;
    if (has_file) i.at.sound = is_packed ? read_rest_as_file(r) : jconvolver_read_file(r);
    if (!r->is_bad && play == play_hilbert && i.delay < i.at.length / 2)
        LINE_REFUSE(r, "the delay is %d, but the transformer's middle is at frame %d; give a delay of at least %d",
                    i.delay, i.at.length / 2, i.at.length / 2);
    if (!r->is_bad && play == jconvolver_play_copy && i.in == i.from_in && i.out == i.from_out)
        LINE_REFUSE(r, "input %d, output %d is copied to itself; name another pair", i.in + 1, i.out + 1);
    end_fields(r);
    if (r->is_bad) return;
    r->n_impulses++;
    r->has_packed |= is_packed;
    if (i.in + !is_packed > r->max_in) r->max_in = i.in + !is_packed;
    if (i.out + 1 > r->max_out) r->max_out = i.out + 1;
    if (r->plays && (r->pairs.pairs || pairs_open(&r->pairs, r->configuration->n_in, r->configuration->n_out)))
        play(r, &i);
}

/* ---- banks and sources -------------------------------------------------------------------------- */

static void jconvolver_read_bank(struct reader *r)
{
    struct configuration *c = r->configuration;
    note_early(r);
    struct bank_line bank = {.line = r->line, .file = jconvolver_read_file(r)};
    if (r->is_bad) bank.file = NULL;
    end_fields(r);
    /* A bank with an error counts, too, so that the numbers of later banks stay right. */
    struct bank_line *banks = array_grow(c->arena, c->banks, c->n_banks, &c->banks_cap, sizeof *banks);
    if (!banks) return;
    c->banks = banks;
    c->banks[c->n_banks++] = bank;
}

/* Reads the number of a bank in a line above, counted from 1 in the file and from 0 here. */
static int read_bank_number(struct reader *r)
{
    size_t n = r->configuration->n_banks;
    long long value;
    int length;
    if (!read_int(r, "bank", &value, &length)) return 0;
    if (value >= 1 && value <= (long long)n) return (int)value - 1;
    LINE_REFUSE(r, "bank %.*s does not exist: the lines above read %zu; put its /bank/read above", length,
                r->at - length, n);
    return 0;
}

static void position_set(float position[3], double azimuth, double elevation, double distance)
{
    const double degree = acos(-1) / 180;
    position[0] = (float)(distance * cos(elevation * degree) * cos(azimuth * degree));
    position[1] = (float)(distance * cos(elevation * degree) * sin(azimuth * degree));
    position[2] = (float)(distance * sin(elevation * degree));
}

static void read_source(struct reader *r)
{
    struct configuration *c = r->configuration;
    struct source_line source = {.line = r->line};
    double distance = 1;
    note_early(r);
    source.in = read_channel(r, "input", "input");
    source.bank = read_bank_number(r);
    double azimuth = jconvolver_read_number(r, "azimuth", -360, 360);
    double elevation = jconvolver_read_number(r, "elevation", -90, 90);
    if (!r->is_broken) {
        r->at += strspn(r->at, BLANKS);
        if (*r->at && *r->at != '#') distance = jconvolver_read_number(r, "distance", 0.01, 1e6);
    }
    end_fields(r);
    if (!r->is_bad && r->source_line[source.in])
        LINE_REFUSE(r, "input %d is a source since line %d; remove one of them", source.in + 1,
                    r->source_line[source.in]);
    if (r->is_bad) return;
    r->source_line[source.in] = r->line;
    position_set(source.position, azimuth, elevation, distance);
    struct source_line *sources = array_grow(c->arena, c->sources, c->n_sources, &c->sources_cap, sizeof *sources);
    if (!sources) return;
    c->sources = sources;
    c->sources[c->n_sources++] = source;
}

#define PAIR "INPUT OUTPUT "
static const struct jconvolver_command commands[] = {
    {"/impulse/read", PAIR "GAIN DELAY OFFSET LENGTH CHANNEL FILE", read_impulse, play_file},
    {"/impulse/copy", PAIR "FROM-INPUT FROM-OUTPUT", read_impulse, jconvolver_play_copy},
    {"/impulse/dirac", PAIR "GAIN DELAY", read_impulse, play_dirac},
    {"/impulse/hilbert", PAIR "GAIN DELAY LENGTH", read_impulse, play_hilbert},
    {"/impulse/packedmatrix", "INPUTS GAIN DELAY OFFSET LENGTH FILE", read_impulse, play_packed},
    {"/convolver/new", "INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH [DENSITY]", read_new, NULL},
    {"/bank/read", "FILE", jconvolver_read_bank, NULL},
    {"/source/new", "INPUT BANK AZIMUTH ELEVATION [DISTANCE]", read_source, NULL},
    {"/input/name", "INPUT NAME [PORT]", jconvolver_read_port, NULL},
    {"/output/name", "OUTPUT NAME [PORT]", jconvolver_read_port, NULL},
    {"/cd", "FOLDER", read_folder, NULL},
    {"/jack/client", "NAME", read_client, NULL},
    {"/jack/server", "NAME", read_client, NULL},
};

/* ---- lines -------------------------------------------------------------------------------------- */

static void jconvolver_read_line(struct reader *r, char *line)
{
    char *start = line + strspn(line, BLANKS);
    r->command = NULL;
    r->is_bad = r->is_broken = false;
    if (!*start || *start == '#') return;
    int length = (int)strcspn(start, BLANKS);
    if (*start != '/') {
        LINE_REFUSE(r, "\"%.*s\" is not a command; a command starts with /, a comment with #",
                    length > 80 ? 80 : length, start);
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands && !r->command; i++)
        if (strncmp(start, commands[i].name, (size_t)length) == 0 && !commands[i].name[length])
            r->command = &commands[i];
    if (!r->command) {
        LINE_REFUSE(
            r,
            "%.*s is not a command; the commands are /convolver/new, /input/name, /output/name, /cd, /jack/client, "
            "/jack/server, /bank/read, /source/new, /impulse/read, dirac, hilbert, copy and packedmatrix",
            length > 80 ? 80 : length, start);
        return;
    }
    if (start != line) LINE_WARN(r, "is indented, which jconvolver refuses; remove the blanks");
    r->at = start + length;
    r->command->read(r);
}

/* Refuses commands above /convolver/new, and a file without /convolver/new unless it is one of mcfx_convolver. */
static void check_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    bool has_sources = c->n_banks + c->n_sources > 0;
    r->line = r->early.line;
    r->command = r->early.command;
    if (c->defined_line && r->early.line)
        LINE_REFUSE(r, "is above /convolver/new, which is in line %d; move it below", c->defined_line);
    else if (!c->defined_line && r->early.line &&
             (!r->has_packed || has_sources)) /* packed files determine the counts alone */
        LINE_REFUSE(r,
                    "/convolver/new is missing; put /convolver/new INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH above this");
    else if (!c->defined_line && !r->early.line)
        LINE_REFUSE(r, "has no /convolver/new; add one");
}

/* Returns the last line with a /convolver/new, which drops the responses of all lines above; `text` if absent. */
static const char *last_new(const char *text)
{
    static const char name[] = "/convolver/new";
    const char *last = text;
    for (const char *at = text; (at = strstr(at, name)); at += strlen(name)) {
        const char *start = at;
        while (start > text && strchr(BLANKS, start[-1])) start--;
        if ((start == text || start[-1] == '\n') && strchr("\n" BLANKS, at[strlen(name)])) last = start;
    }
    return last;
}

static void jconvolver_read_lines(struct reader *r, char *text, size_t bytes, bool names_only)
{
    char *end = text + bytes, *line = text;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) line += 3; /* byte order mark of UTF-8 */
    const char *last = last_new(line);
    while (line < end && !r->configuration->arena->is_short) {
        r->line++;
        r->command = NULL;
        char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        *stop = 0;
        r->plays = !names_only && line >= last;
        if (stop - line > MASK_MAX_LINE)
            LINE_REFUSE(r, "the line has %zu bytes; shorten it to at most %d", (size_t)(stop - line), MASK_MAX_LINE);
        else
            jconvolver_read_line(r, line);
        line = stop + 1;
    }
    check_new(r);
}

static void read_jconvolver(struct import *import)
{
    struct configuration *c = import->c;
    struct reader r = {.configuration = c,
                       .pairs = {.net = &import->network},
                       .max_taps = CONFIGURATION_TAPS,
                       .max_in = 1,
                       .max_out = 1};
    jconvolver_read_lines(&r, import->text, import->bytes, import->names_only);
    if (!c->defined_line) {
        c->n_in = r.max_in;
        c->n_out = r.max_out;
    }
    if (r.pairs.pairs && !c->diagnostics.n_errors) pairs_play(&r.pairs);
    pairs_free(&r.pairs);
}

const struct import_format format_jconvolver = {
    .name = "jconvolver",
    .extensions = ".conf",
    .read = read_jconvolver,
};
