#include "configuration.h"

#include "dsp/base/number.h"

#include <float.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\v\f"

struct reader { /* reads one line */
    struct configuration *configuration;
    const struct command *command;
    int line;
    char *at;
    bool is_bad;    /* the line has an error: its command is skipped                    */
    bool is_broken; /* the rest of the line cannot be read: no further errors about it  */
    struct {
        int line;
        const struct command *command;
    } early; /* the first command of the file that stands before /convolver/new; line 0: none */
};

struct command {
    const char *name, *fields;
    void (*take)(struct reader *r);
    enum impulse_kind kind; /* take_impulse uses it */
};

#define LINE_DIAGNOSTIC(r, code, ...)                                                                                  \
    diagnostic(&(r)->configuration->diagnostics, code, (r)->line, (r)->command ? (r)->command->name : NULL, __VA_ARGS__)
#define LINE_WARN(r, ...) LINE_DIAGNOSTIC(r, HC_OK, __VA_ARGS__)
#define LINE_REFUSE(r, ...) ((r)->is_bad = true, LINE_DIAGNOSTIC(r, HC_EINVAL, __VA_ARGS__))

/* ---- fields ------------------------------------------------------------------------------------- */

/* Goes to the next field. false: there is none; the line gets one error about that. */
static bool has_field(struct reader *r, const char *what)
{
    if (r->is_broken) return false;
    r->at += strspn(r->at, BLANKS);
    if (*r->at) return true;
    LINE_REFUSE(r, "the %s is missing; needs %s", what, r->command->fields);
    r->is_broken = true;
    return false;
}

static void not_a_number(struct reader *r, const char *what, const char *kind)
{
    LINE_REFUSE(r, "the %s \"%.*s\" is not a %s; needs %s", what, (int)strcspn(r->at, BLANKS), r->at, kind,
                r->command->fields);
    r->is_broken = true;
}

/* A whole number; one that is too large for a long long becomes its limit, which is outside every range. */
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

/* Refuses a number out of its range and returns min, so that the fields behind the number are checked too. */
static int take_int(struct reader *r, const char *what, int min, int max)
{
    long long value;
    int length;
    if (!read_int(r, what, &value, &length)) return min;
    if (value >= min && value <= max) return (int)value;
    LINE_REFUSE(r, "%s %.*s; %d to %d are possible", what, length, r->at - length, min, max);
    return min;
}

/* A channel, counted from 1 in the file and from 0 here. kind: "input" or "output"; what: its name in messages. */
static int take_channel(struct reader *r, const char *kind, const char *what)
{
    const struct configuration *c = r->configuration;
    int n = strcmp(kind, "input") == 0 ? c->n_in : c->n_out;
    long long value;
    int length;
    if (!read_int(r, what, &value, &length)) return 0;
    if (value >= 1 && value <= n) return (int)value - 1;
    const char *at = r->at - length;
    if (value > n && c->defined_line)
        LINE_REFUSE(r, "%s %.*s, but /convolver/new gave %d %s%s; give it more, or name another", what, length, at, n,
                    kind, n == 1 ? "" : "s");
    else
        LINE_REFUSE(r, "%s %.*s; they count from 1 to at most %d", what, length, at, n);
    return 0;
}

static bool field_number(struct reader *r, double *value)
{
    const char *end = number_read(r->at, NAN, NAN, value);
    if (!end || (*end && !strchr(BLANKS, *end))) return false;
    r->at += end - r->at;
    return true;
}

/* Returns 0 after an error. */
static double take_number(struct reader *r, const char *what, double min, double max)
{
    double value = 0;
    if (!has_field(r, what)) return 0;
    const char *start = r->at;
    if (!field_number(r, &value)) {
        not_a_number(r, what, "number");
        return 0;
    }
    if (value >= min && value <= max) return value;
    LINE_REFUSE(r, "%s %.*s; %g to %g are possible", what, (int)(r->at - start), start, min, max);
    return 0;
}

static float take_gain(struct reader *r)
{
    double gain = 0;
    if (!has_field(r, "gain")) return 0;
    const char *start = r->at;
    if (!field_number(r, &gain)) {
        not_a_number(r, "gain", "number");
    } else if (!(fabs(gain) <= (double)FLT_MAX)) {
        LINE_REFUSE(r, "the gain %.*s is not finite; needs a factor, such as 0.5", (int)(r->at - start), start);
        gain = 0;
    }
    return (float)gain;
}

/* A text: up to the next blank, or between "" or ''. A backslash keeps the next character, except between ''. Unescapes
 * the text in place. NULL: the error has been added. */
static char *take_text(struct reader *r, const char *what)
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
    LINE_REFUSE(r, "the %s is empty; needs %s", what, r->command->fields);
    return NULL;
}

static const char *text_keep(struct reader *r, const char *text)
{
    return text ? arena_text(r->configuration->arena, text) : NULL;
}

/* jconvolver ignores all text behind the last field, even the second half of a name with a blank. */
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

static int by_name(const void *a, const void *b)
{
    const struct sound_name *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    if (!order) order = strcmp(p->folder ? p->folder->path : "", q->folder ? q->folder->path : "");
    if (order) return order;
    if (p->raw.format != q->raw.format) return p->raw.format < q->raw.format ? -1 : 1;
    if (p->raw.skip != q->raw.skip) return p->raw.skip < q->raw.skip ? -1 : 1;
    return (p->raw.most > q->raw.most) - (p->raw.most < q->raw.most);
}

int configuration_raw_file(struct configuration *c, const char *name, const struct raw_samples *raw)
{
    struct sound_name key = {.folder = c->folder, .name = name, .raw = *raw};
    void *known = tfind(&key, &c->names, by_name);
    if (known) return (*(struct sound_name **)known)->index;

    struct sound_name **files = array_grow(c->arena, c->files, c->n_files, &c->files_cap, sizeof *files);
    if (files) c->files = files;
    struct sound_name *new = files ? arena_alloc(c->arena, 1, sizeof *new) : NULL;
    if (!new) return 0;
    *new = key;
    new->name = arena_text(c->arena, name);
    new->index = (int)c->n_files;
    if (!new->name) return 0;
    if (!tsearch(new, &c->names, by_name)) c->arena->is_short = true;
    c->files[c->n_files] = new;
    return (int)c->n_files++;
}

int configuration_file(struct configuration *c, const char *name)
{
    return configuration_raw_file(c, name, &(struct raw_samples){0});
}

static int take_file(struct reader *r)
{
    const char *name = take_text(r, "file");
    return name ? configuration_file(r->configuration, name) : 0;
}

/* mcfx_convolver reads the rest of the line as the name of a packed file, with its blanks. */
static int take_rest_as_file(struct reader *r)
{
    if (!has_field(r, "file")) return 0;
    if (*r->at == '"' || *r->at == '\'') return take_file(r);
    char *name = r->at, *end = name + strlen(name);
    while (strchr(BLANKS, end[-1])) end--;
    *end = 0;
    r->at = end;
    return configuration_file(r->configuration, name);
}

/* ---- commands ----------------------------------------------------------------------------------- */

/* Notes a command that should come below /convolver/new. check_new decides at the end of the file. */
static void note_early(struct reader *r)
{
    if (r->configuration->defined_line || r->early.line) return;
    r->early.line = r->line;
    r->early.command = r->command;
}

static void take_client(struct reader *r)
{
    const char *name = text_keep(r, take_text(r, "name"));
    end_fields(r);
    if (r->configuration->defined_line)
        LINE_WARN(r, "comes below /convolver/new, where jconvolver ignores it; move it to the top");
    if (strcmp(r->command->name, "/jack/client") == 0)
        r->configuration->client = name;
    else
        r->configuration->server = name;
}

static void forget_ports(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (c->n_impulses + c->n_sources > 0)
        LINE_WARN(r, "replaces that of line %d, and drops its %zu responses and %zu sources; leave one of them",
                  c->defined_line, c->n_impulses, c->n_sources);
    else if (c->defined_line)
        LINE_WARN(r, "replaces that of line %d; leave one of them", c->defined_line);
    memset(c->in_port, 0, sizeof c->in_port);
    memset(c->out_port, 0, sizeof c->out_port);
}

static void take_density(struct reader *r)
{
    double density = 0;
    r->at += strspn(r->at, BLANKS);
    const char *start = r->at;
    if (r->is_broken || !*start || !field_number(r, &density)) return;
    if (!(density >= 0 && density <= 1))
        LINE_REFUSE(r, "density %.*s; 0 to 1 are possible, or leave it out", (int)(r->at - start), start);
}

static void take_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (c->defined_line) forget_ports(r);
    c->n_banks = c->n_sources = 0;
    memset(c->source_line, 0, sizeof c->source_line);
    c->n_impulses = 0; /* impulses above a first /convolver/new too: check_new refuses them */
    int n_in = take_int(r, "inputs", 1, MASK_MAX_CHANNELS);
    bool in_known = !r->is_bad;
    int n_out = take_int(r, "outputs", 1, MASK_MAX_CHANNELS);
    bool out_known = !r->is_broken && (!r->is_bad || !in_known);
    int partition = take_int(r, "partition", 0, 1 << 30);
    bool partition_known = !r->is_broken;
    int max_taps = take_int(r, "maximum length", 1, CONFIGURATION_TAPS);
    bool is_bad = r->is_bad;
    take_density(r);
    end_fields(r);
    c->partition = partition >= 64 && partition <= 8192 && (partition & (partition - 1)) == 0 ? partition : 0;
    if (partition_known && !c->partition)
        LINE_WARN(r, "partition %d is ignored; a power of two from 64 to 8192 is one", partition);
    c->defined_line = r->line;
    /* A wrong count becomes the largest: the lines below it get no errors for its sake. */
    c->n_in = in_known ? n_in : MASK_MAX_CHANNELS;
    c->n_out = out_known && n_out > 0 ? n_out : MASK_MAX_CHANNELS;
    c->max_taps = is_bad ? CONFIGURATION_TAPS : max_taps;
}

static void take_port(struct reader *r)
{
    struct configuration *c = r->configuration;
    note_early(r);
    bool input = strcmp(r->command->name, "/input/name") == 0;
    int ch = input ? take_channel(r, "input", "input") : take_channel(r, "output", "output");
    hc_port port = {.name = text_keep(r, take_text(r, "port name"))};
    if (!r->is_broken) {
        r->at += strspn(r->at, BLANKS);
        if (*r->at && *r->at != '#') port.connect = text_keep(r, take_text(r, "port to connect to"));
    }
    end_fields(r);
    if (!r->is_bad) (input ? c->in_port : c->out_port)[ch] = port;
}

static void take_folder(struct reader *r)
{
    struct configuration *c = r->configuration;
    r->at += strspn(r->at, BLANKS);
    if (!*r->at || *r->at == '#') { /* mcfx_convolver writes it so */
        c->folder = NULL;
        return;
    }
    struct folder *folder = arena_alloc(c->arena, 1, sizeof *folder);
    if (!folder) return;
    *folder = (struct folder){.path = text_keep(r, take_text(r, "folder")), .line = r->line};
    end_fields(r);
    if (folder->path) c->folder = folder;
}

/* All /impulse commands: each kind has some of these fields, in this order. */
static void take_impulse(struct reader *r)
{
    struct configuration *c = r->configuration;
    enum impulse_kind kind = r->command->kind;
    bool is_packed = kind == IMPULSE_PACKED, has_file = is_packed || kind == IMPULSE_READ;
    struct impulse i = {.kind = kind, .line = r->line, .command = r->command->name};
    note_early(r);
    i.in = take_channel(r, "input", is_packed ? "inputs" : "input") + is_packed; /* packed: a count */
    if (!is_packed) i.out = take_channel(r, "output", "output");
    if (kind == IMPULSE_COPY) {
        i.from_in = take_channel(r, "input", "from-input");
        i.from_out = take_channel(r, "output", "from-output");
    } else {
        i.gain = take_gain(r);
        i.delay = take_int(r, "delay", 0, CONFIGURATION_TAPS);
    }
    if (has_file) {
        i.offset = take_int(r, "offset", 0, 1 << 30);
        i.length = take_int(r, "length", 0, 1 << 30);
    }
    if (kind == IMPULSE_HILBERT) i.length = take_int(r, "length", 64, 65536);
    if (kind == IMPULSE_READ) i.channel = take_int(r, "channel", 1, MASK_MAX_CHANNELS) - 1;
    if (has_file) i.file = is_packed ? take_rest_as_file(r) : take_file(r);
    if (!r->is_bad && kind == IMPULSE_HILBERT && i.delay < i.length / 2)
        LINE_REFUSE(r, "delay %d, but its middle is at %d frames already; give a delay of at least %d", i.delay,
                    i.length / 2, i.length / 2);
    if (!r->is_bad && kind == IMPULSE_COPY && i.in == i.from_in && i.out == i.from_out)
        LINE_REFUSE(r, "input %d, output %d is copied to itself; name another pair", i.in + 1, i.out + 1);
    end_fields(r);
    if (r->is_bad) return;
    struct impulse *impulses = array_grow(c->arena, c->impulses, c->n_impulses, &c->impulses_cap, sizeof *impulses);
    if (!impulses) return;
    c->impulses = impulses;
    c->impulses[c->n_impulses++] = i;
}

static void take_bank(struct reader *r)
{
    struct configuration *c = r->configuration;
    note_early(r);
    struct bank_line bank = {.line = r->line, .file = take_file(r)};
    if (r->is_bad) bank.file = -1;
    end_fields(r);
    /* A bank with an error counts too: the numbers of the others stay right. */
    struct bank_line *banks = array_grow(c->arena, c->banks, c->n_banks, &c->banks_cap, sizeof *banks);
    if (!banks) return;
    c->banks = banks;
    c->banks[c->n_banks++] = bank;
}

/* The number of a bank that a line above reads, from 1 in the file and from 0 here. */
static int take_bank_number(struct reader *r)
{
    size_t n = r->configuration->n_banks;
    long long value;
    int length;
    if (!read_int(r, "bank", &value, &length)) return 0;
    if (value >= 1 && value <= (long long)n) return (int)value - 1;
    LINE_REFUSE(r, "bank %.*s, but the lines above read %zu; they count from 1: put its /bank/read above", length,
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

static void take_source(struct reader *r)
{
    struct configuration *c = r->configuration;
    struct source_line source = {.line = r->line};
    double distance = 1;
    note_early(r);
    source.in = take_channel(r, "input", "input");
    source.bank = take_bank_number(r);
    double azimuth = take_number(r, "azimuth", -360, 360);
    double elevation = take_number(r, "elevation", -90, 90);
    if (!r->is_broken) {
        r->at += strspn(r->at, BLANKS);
        if (*r->at && *r->at != '#') distance = take_number(r, "distance", 0.01, 1e6);
    }
    end_fields(r);
    if (!r->is_bad && c->source_line[source.in])
        LINE_REFUSE(r, "input %d is a source since line %d; leave one of them", source.in + 1,
                    c->source_line[source.in]);
    if (r->is_bad) return;
    c->source_line[source.in] = r->line;
    position_set(source.position, azimuth, elevation, distance);
    struct source_line *sources = array_grow(c->arena, c->sources, c->n_sources, &c->sources_cap, sizeof *sources);
    if (!sources) return;
    c->sources = sources;
    c->sources[c->n_sources++] = source;
}

#define PAIR "INPUT OUTPUT "
static const struct command commands[] = {
    {"/impulse/read", PAIR "GAIN DELAY OFFSET LENGTH CHANNEL FILE", take_impulse, IMPULSE_READ},
    {"/impulse/copy", PAIR "FROM-INPUT FROM-OUTPUT", take_impulse, IMPULSE_COPY},
    {"/impulse/dirac", PAIR "GAIN DELAY", take_impulse, IMPULSE_DIRAC},
    {"/impulse/hilbert", PAIR "GAIN DELAY LENGTH", take_impulse, IMPULSE_HILBERT},
    {"/impulse/packedmatrix", "INPUTS GAIN DELAY OFFSET LENGTH FILE", take_impulse, IMPULSE_PACKED},
    {"/convolver/new", "INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH [DENSITY]", take_new, 0},
    {"/bank/read", "FILE", take_bank, 0},
    {"/source/new", "INPUT BANK AZIMUTH ELEVATION [DISTANCE]", take_source, 0},
    {"/input/name", "INPUT NAME [PORT]", take_port, 0},
    {"/output/name", "OUTPUT NAME [PORT]", take_port, 0},
    {"/cd", "FOLDER", take_folder, 0},
    {"/jack/client", "NAME", take_client, 0},
    {"/jack/server", "NAME", take_client, 0},
};

/* ---- lines -------------------------------------------------------------------------------------- */

static void take_line(struct reader *r, char *line)
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
        LINE_REFUSE(r,
                    "%.*s is not a command; there are /convolver/new, /input/name, /output/name, /cd, /jack/client, "
                    "/jack/server, /bank/read, /source/new, /impulse/read, dirac, hilbert, copy and packedmatrix",
                    length > 80 ? 80 : length, start);
        return;
    }
    if (start != line) LINE_WARN(r, "is indented, and jconvolver refuses that; take the blanks away");
    r->at = start + length;
    r->command->take(r);
}

/* Refuses commands above /convolver/new, and a file without /convolver/new unless it is one of mcfx_convolver. */
static void check_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    bool packed = false, has_sources = c->n_banks + c->n_sources > 0; /* of packed files alone the counts are known */
    for (size_t i = 0; i < c->n_impulses; i++) packed |= c->impulses[i].kind == IMPULSE_PACKED;
    r->line = r->early.line;
    r->command = r->early.command;
    if (c->defined_line && r->early.line)
        LINE_REFUSE(r, "comes before /convolver/new, which is in line %d; move it below", c->defined_line);
    else if (!c->defined_line && r->early.line && (!packed || has_sources))
        LINE_REFUSE(r,
                    "there is no /convolver/new; put /convolver/new INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH above it");
    else if (!c->defined_line && !r->early.line)
        LINE_REFUSE(r, "has no /convolver/new; a configuration needs one");
}

static void take_lines(struct reader *r, char *text, size_t bytes)
{
    char *end = text + bytes, *line = text;
    *end = 0;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) line += 3; /* byte order mark of UTF-8 */
    while (line < end && !r->configuration->arena->is_short) {
        r->line++;
        r->command = NULL;
        char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        if (memchr(line, 0, (size_t)(stop - line))) {
            LINE_REFUSE(r, "is not text; name a sound file .wav");
            return;
        }
        *stop = 0;
        if (stop - line > MASK_MAX_LINE)
            LINE_REFUSE(r, "a line of %zu bytes; %d are possible, cut it", (size_t)(stop - line), MASK_MAX_LINE);
        else
            take_line(r, line);
        line = stop + 1;
    }
    check_new(r);
}

void configuration_read(struct configuration *c, char *text, size_t bytes)
{
    struct reader r = {.configuration = c};
    take_lines(&r, text, bytes);
}

void configuration_open(struct configuration *c, const char *path, struct arena *arena)
{
    *c = (struct configuration){.diagnostics = {.path = path, .arena = arena},
                                .arena = arena,
                                .n_in = MASK_MAX_CHANNELS,
                                .n_out = MASK_MAX_CHANNELS,
                                .max_taps = CONFIGURATION_TAPS};
}

void configuration_free(struct configuration *c)
{
    tdestroy(c->names, arena_keeps_node);
    free(c->files);
    free(c->impulses);
    free(c->banks);
    free(c->sources);
}
