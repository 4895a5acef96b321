#include "configuration.h"

#include "dsp/engine/c_locale.h"

#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\v\f"

struct reader { /* of one line */
    struct configuration *configuration;
    const struct command *command;
    int line;
    char *at;
    bool is_bad;    /* something is wrong with it: it is not carried out        */
    bool is_broken; /* it cannot be followed any further: no more to say of it  */
    bool is_short;  /* of memory                                                */
    struct {
        int line;
        const struct command *command;
    } early; /* the first that came before /convolver/new, of all */
};

struct command {
    const char *name, *fields;
    void (*take)(struct reader *r);
};

/* ---- remarks ------------------------------------------------------------------------------------ */

static void refuse(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct reader *r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    remark_list(&r->configuration->remarks, HC_EINVAL, r->line, r->command ? r->command->name : NULL, format, values);
    va_end(values);
    r->is_bad = true;
}

static void warn(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct reader *r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    remark_list(&r->configuration->remarks, HC_OK, r->line, r->command ? r->command->name : NULL, format, values);
    va_end(values);
}

/* ---- fields ------------------------------------------------------------------------------------- */

/* The next field, to the next blank; false when there is none: said, and once a line is enough. */
static bool has_field(struct reader *r, const char *what)
{
    if (r->is_broken) return false;
    r->at += strspn(r->at, BLANKS);
    if (*r->at) return true;
    refuse(r, "the %s is missing; needs %s", what, r->command->fields);
    r->is_broken = true;
    return false;
}

static void not_a_number(struct reader *r, const char *what, const char *kind)
{
    refuse(r, "the %s \"%.*s\" is not a %s; needs %s", what, (int)strcspn(r->at, BLANKS), r->at, kind,
           r->command->fields);
    r->is_broken = true;
}

/* A whole number; one too large for a long long is at its limit, and out of every range. */
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

/* What is out of its range is refused, and min returned, so that the fields behind it are looked at too. */
static int take_int(struct reader *r, const char *what, int min, int max)
{
    long long value;
    int length;
    if (!read_int(r, what, &value, &length)) return min;
    if (value >= min && value <= max) return (int)value;
    refuse(r, "%s %.*s; %d to %d are possible", what, length, r->at - length, min, max);
    return min;
}

/* A channel, in the file from 1, here from 0. kind: "input" or "output"; what: as it is called. */
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
        refuse(r, "%s %.*s, but /convolver/new gave %d %s%s; give it more, or name another", what, length, at, n, kind,
               n == 1 ? "" : "s");
    else
        refuse(r, "%s %.*s; they count from 1 to at most %d", what, length, at, n);
    return 0;
}

static bool read_number(struct reader *r, double *value)
{
    char *end;
    *value = strtod(r->at, &end);
    if (end == r->at || (*end && !strchr(BLANKS, *end))) return false;
    r->at = end;
    return true;
}

static float take_gain(struct reader *r)
{
    double gain = 0;
    if (!has_field(r, "gain")) return 0;
    const char *start = r->at;
    if (!read_number(r, &gain)) {
        not_a_number(r, "gain", "number");
    } else if (!(fabs(gain) <= (double)3.402823466e38f)) {
        refuse(r, "the gain %.*s is not finite; needs a factor, such as 0.5", (int)(r->at - start), start);
        gain = 0;
    }
    return (float)gain;
}

/* A text: to the next blank, or inside "" or '' that open at its start; \ takes the next character as it is, except
 * inside
 * ''. Unescaped in place. NULL: said why. */
static char *take_text(struct reader *r, const char *what)
{
    if (!has_field(r, what)) return NULL;
    char *at = r->at, quote = *at == '"' || *at == '\'' ? *at++ : 0, *text = at, *to = at;
    for (; *at && !(quote ? *at == quote : !!strchr(BLANKS, *at)); *to++ = *at++)
        if (*at == '\\' && quote != '\'' && at[1]) at++;
    if (quote && !*at) {
        refuse(r, "the %s is not closed; put %c behind it", what, quote);
        r->is_broken = true;
        return NULL;
    }
    r->at = *at ? at + 1 : at;
    *to = 0;
    if (*text) return text;
    refuse(r, "the %s is empty; needs %s", what, r->command->fields);
    return NULL;
}

/* A name is kept with the configuration. */
static const char *keep(struct reader *r, const char *text)
{
    const char *kept = text ? pieces_text(r->configuration->pieces, text) : NULL;
    if (text && !kept) r->is_short = true;
    return kept;
}

/* Anything behind the last field is a comment to jconvolver, even the second half of a name with a blank. */
static void end_fields(struct reader *r)
{
    if (r->is_broken) return;
    r->at += strspn(r->at, BLANKS);
    if (*r->at && *r->at != '#')
        warn(r,
             "\"%.80s\" behind the last field is ignored; put # in front of a comment, and a name with blanks "
             "between \"\"",
             r->at);
}

/* ---- files -------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct sound_name *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    return order ? order : strcmp(p->folder ? p->folder->path : "", q->folder ? q->folder->path : "");
}

static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return array;
    size_t more = *cap ? *cap * 2 : 64;
    void *new = realloc(array, more * size);
    if (new) *cap = more;
    return new;
}

/* The index of a file in the present folder. */
static int file_index(struct reader *r, const char *name)
{
    struct configuration *c = r->configuration;
    struct sound_name key = {.folder = c->folder, .name = name};
    void *known = tfind(&key, &c->names, by_name);
    if (known) return (*(struct sound_name **)known)->index;

    size_t cap = (size_t)c->files_cap;
    struct sound_name **files = grow(c->files, (size_t)c->n_files, &cap, sizeof *files);
    if (files) c->files = files;
    struct sound_name *new = files ? pieces_alloc(c->pieces, 1, sizeof *new) : NULL;
    if (!new) return r->is_short = true, 0;
    c->files_cap = (int)cap;
    *new = (struct sound_name){.folder = c->folder, .name = keep(r, name), .index = c->n_files};
    if (!new->name || !tsearch(new, &c->names, by_name)) return r->is_short = true, 0;
    c->files[c->n_files] = new;
    return c->n_files++;
}

static int take_file(struct reader *r)
{
    const char *name = take_text(r, "file");
    return name ? file_index(r, name) : 0;
}

/* mcfx_convolver takes the rest of the line for the name of a packed file, blanks and all. */
static int take_rest_as_file(struct reader *r)
{
    if (!has_field(r, "file")) return 0;
    if (*r->at == '"' || *r->at == '\'') return take_file(r);
    char *name = r->at, *end = name + strlen(name);
    while (strchr(BLANKS, end[-1])) end--;
    *end = 0;
    r->at = end;
    return file_index(r, name);
}

/* ---- commands ----------------------------------------------------------------------------------- */

/* These come below /convolver/new. Whether a file may do without is known at its end. */
static void below_new(struct reader *r)
{
    if (r->configuration->defined_line || r->early.line) return;
    r->early.line = r->line;
    r->early.command = r->command;
}

static void take_client(struct reader *r)
{
    const char *name = keep(r, take_text(r, "name"));
    end_fields(r);
    if (r->configuration->defined_line)
        warn(r, "comes below /convolver/new, where jconvolver ignores it; move it to the top");
    if (strcmp(r->command->name, "/jack/client") == 0)
        r->configuration->client = name;
    else
        r->configuration->server = name;
}

static void forget_ports(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (c->n_impulses > 0)
        warn(r, "replaces that of line %d, and drops its %zu responses; leave one of them", c->defined_line,
             c->n_impulses);
    else if (c->defined_line)
        warn(r, "replaces that of line %d; leave one of them", c->defined_line);
    memset(c->in_port, 0, sizeof c->in_port);
    memset(c->out_port, 0, sizeof c->out_port);
}

static void take_density(struct reader *r)
{
    double density = 0;
    r->at += strspn(r->at, BLANKS);
    const char *start = r->at;
    if (r->is_broken || !*start || !read_number(r, &density)) return;
    if (!(density >= 0 && density <= 1))
        refuse(r, "density %.*s; 0 to 1 are possible, or leave it out", (int)(r->at - start), start);
}

static void take_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    if (c->defined_line) forget_ports(r);
    c->n_impulses = 0; /* also of those above a first one, which are refused in the end */
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
        warn(r, "partition %d is ignored; a power of two from 64 to 8192 is one", partition);
    c->defined_line = r->line;
    /* Where a count is wrong, as many as can be: so the lines below are not blamed for it. */
    c->n_in = in_known ? n_in : MASK_MAX_CHANNELS;
    c->n_out = out_known && n_out > 0 ? n_out : MASK_MAX_CHANNELS;
    c->max_taps = is_bad ? CONFIGURATION_TAPS : max_taps;
}

static void take_port(struct reader *r)
{
    struct configuration *c = r->configuration;
    below_new(r);
    bool input = strcmp(r->command->name, "/input/name") == 0;
    int ch = input ? take_channel(r, "input", "input") : take_channel(r, "output", "output");
    hc_port port = {.name = keep(r, take_text(r, "port name"))};
    if (!r->is_broken) {
        r->at += strspn(r->at, BLANKS);
        if (*r->at && *r->at != '#') port.connect = keep(r, take_text(r, "port to connect to"));
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
    struct folder *folder = pieces_alloc(c->pieces, 1, sizeof *folder);
    if (!folder) {
        r->is_short = true;
        return;
    }
    *folder = (struct folder){.path = keep(r, take_text(r, "folder")), .line = r->line};
    end_fields(r);
    if (folder->path) c->folder = folder;
}

static void add_impulse(struct reader *r, struct impulse impulse)
{
    struct configuration *c = r->configuration;
    end_fields(r);
    if (r->is_bad) return;
    struct impulse *impulses = grow(c->impulses, c->n_impulses, &c->impulses_cap, sizeof *impulses);
    if (!impulses) {
        r->is_short = true;
        return;
    }
    c->impulses = impulses;
    impulse.line = r->line;
    c->impulses[c->n_impulses++] = impulse;
}

static struct impulse take_pair(struct reader *r, enum impulse_kind kind)
{
    struct impulse impulse = {.kind = kind};
    below_new(r);
    impulse.in = take_channel(r, "input", "input");
    impulse.out = take_channel(r, "output", "output");
    return impulse;
}

static void take_read(struct reader *r)
{
    struct impulse impulse = take_pair(r, IMPULSE_READ);
    impulse.gain = take_gain(r);
    impulse.delay = take_int(r, "delay", 0, CONFIGURATION_TAPS);
    impulse.offset = take_int(r, "offset", 0, 1 << 30);
    impulse.length = take_int(r, "length", 0, 1 << 30);
    impulse.channel = take_int(r, "channel", 1, MASK_MAX_CHANNELS) - 1;
    impulse.file = take_file(r);
    add_impulse(r, impulse);
}

static void take_dirac(struct reader *r)
{
    struct impulse impulse = take_pair(r, IMPULSE_DIRAC);
    impulse.gain = take_gain(r);
    impulse.delay = take_int(r, "delay", 0, CONFIGURATION_TAPS);
    add_impulse(r, impulse);
}

static void take_hilbert(struct reader *r)
{
    struct impulse impulse = take_pair(r, IMPULSE_HILBERT);
    impulse.gain = take_gain(r);
    impulse.delay = take_int(r, "delay", 0, CONFIGURATION_TAPS);
    impulse.length = take_int(r, "length", 64, 65536);
    if (!r->is_bad && impulse.delay < impulse.length / 2)
        refuse(r, "delay %d, but its middle is at %d frames already; give a delay of at least %d", impulse.delay,
               impulse.length / 2, impulse.length / 2);
    add_impulse(r, impulse);
}

static void take_copy(struct reader *r)
{
    struct impulse impulse = take_pair(r, IMPULSE_COPY);
    impulse.from_in = take_channel(r, "input", "from-input");
    impulse.from_out = take_channel(r, "output", "from-output");
    if (!r->is_bad && impulse.in == impulse.from_in && impulse.out == impulse.from_out)
        refuse(r, "input %d, output %d is copied to itself; name another pair", impulse.in + 1, impulse.out + 1);
    add_impulse(r, impulse);
}

static void take_packed(struct reader *r)
{
    struct impulse impulse = {.kind = IMPULSE_PACKED};
    below_new(r);
    impulse.in = take_channel(r, "input", "inputs") + 1;
    impulse.gain = take_gain(r);
    impulse.delay = take_int(r, "delay", 0, CONFIGURATION_TAPS);
    impulse.offset = take_int(r, "offset", 0, 1 << 30);
    impulse.length = take_int(r, "length", 0, 1 << 30);
    impulse.file = take_rest_as_file(r);
    add_impulse(r, impulse);
}

#define PAIR "INPUT OUTPUT "
static const struct command commands[] = {
    {"/impulse/read", PAIR "GAIN DELAY OFFSET LENGTH CHANNEL FILE", take_read},
    {"/impulse/copy", PAIR "FROM-INPUT FROM-OUTPUT", take_copy},
    {"/impulse/dirac", PAIR "GAIN DELAY", take_dirac},
    {"/impulse/hilbert", PAIR "GAIN DELAY LENGTH", take_hilbert},
    {"/impulse/packedmatrix", "INPUTS GAIN DELAY OFFSET LENGTH FILE", take_packed},
    {"/convolver/new", "INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH [DENSITY]", take_new},
    {"/input/name", "INPUT NAME [PORT]", take_port},
    {"/output/name", "OUTPUT NAME [PORT]", take_port},
    {"/cd", "FOLDER", take_folder},
    {"/jack/client", "NAME", take_client},
    {"/jack/server", "NAME", take_client},
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
        refuse(r, "\"%.*s\" is not a command; a command starts with /, a comment with #", length > 80 ? 80 : length,
               start);
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands && !r->command; i++)
        if (strncmp(start, commands[i].name, (size_t)length) == 0 && !commands[i].name[length])
            r->command = &commands[i];
    if (!r->command) {
        refuse(r,
               "%.*s is not a command; there are /convolver/new, /input/name, /output/name, /cd, /jack/client, "
               "/jack/server, /impulse/read, dirac, hilbert, copy and packedmatrix",
               length > 80 ? 80 : length, start);
        return;
    }
    if (start != line) warn(r, "is indented, and jconvolver refuses that; take the blanks away");
    r->at = start + length;
    r->command->take(r);
}

/* Commands above /convolver/new, or a file without it. */
static void check_new(struct reader *r)
{
    struct configuration *c = r->configuration;
    bool packed = false;
    for (size_t i = 0; i < c->n_impulses; i++) packed |= c->impulses[i].kind == IMPULSE_PACKED;
    r->line = r->early.line;
    r->command = r->early.command;
    if (c->defined_line && r->early.line)
        refuse(r, "comes before /convolver/new, which is in line %d; move it below", c->defined_line);
    else if (!c->defined_line && r->early.line && !packed)
        refuse(r, "there is no /convolver/new; put /convolver/new INPUTS OUTPUTS PARTITION MAXIMUM-LENGTH above it");
    else if (!c->defined_line && !r->early.line)
        refuse(r, "has no /convolver/new; a configuration needs one");
}

static void take_lines(struct reader *r, char *text, size_t bytes)
{
    char *end = text + bytes, *line = text;
    *end = 0;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) line += 3; /* byte order mark of UTF-8 */
    while (line < end && !r->is_short) {
        r->line++;
        r->command = NULL;
        char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        if (memchr(line, 0, (size_t)(stop - line))) {
            refuse(r, "is not text; name a sound file .wav");
            return;
        }
        *stop = 0;
        if (stop - line > CONFIGURATION_LINE)
            refuse(r, "a line of %zu bytes; %d are possible, cut it", (size_t)(stop - line), CONFIGURATION_LINE);
        else
            take_line(r, line);
        line = stop + 1;
    }
    check_new(r);
}

int configuration_read(struct configuration *c, const char *path, struct pieces *pieces, char *text, size_t bytes)
{
    *c = (struct configuration){.remarks = {.path = path, .pieces = pieces},
                                .pieces = pieces,
                                .n_in = MASK_MAX_CHANNELS,
                                .n_out = MASK_MAX_CHANNELS,
                                .max_taps = CONFIGURATION_TAPS};
    struct reader r = {.configuration = c};
    locale_t was = c_locale_enter();
    take_lines(&r, text, bytes);
    c_locale_leave(was);
    return r.is_short ? HC_ENOMEM : HC_OK;
}

static void leave(void *name)
{
    (void)name; /* it lies in the pieces */
}

void configuration_free(struct configuration *c)
{
    tdestroy(c->names, leave);
    free(c->files);
    free(c->impulses);
}
