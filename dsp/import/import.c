#include "import.h"

#include "dsp/base/c_locale.h"
#include "dsp/base/error.h"
#include "dsp/masks/rate_pattern.h"
#include "dsp/masks/sound_header.h"
#include "dsp/masks/utf16.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_BYTES = 64 << 10,   /* bytes of a text that decide its format                       */
    MAX_TEXT_BYTES = 1 << 28 /* max. bytes of a text: 256 for each of 1024 x 1024 pairs */
};

/* ---- formats ------------------------------------------------------------------------------------ */

static const struct import_format *const formats[] = {
    &format_easyeffects, &format_jamesdsp, &format_equalizer_apo, &format_camilladsp,
    &format_pipewire,    &format_brutefir, &format_convolver,
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Is the path's extension one of a list such as ".conf .bf"? A dot alone means a name without extension. */
static bool has_extension_of(const char *path, const char *list)
{
    const char *slash = strrchr(path, '/');
    bool has_dot = strchr(slash ? slash : path, '.') != NULL;
    char extension[24];
    for (size_t length; *list; list += length + strspn(list + length, " ")) {
        length = strcspn(list, " ");
        if (length >= sizeof extension) continue;
        memcpy(extension, list, length);
        extension[length] = 0;
        if (length == 1 ? !has_dot : mask_file_has_extension(path, extension)) return true;
    }
    return false;
}

/* Finds the format of a text by its content and by the extension of `path`; NULL: jconvolver's or none. */
static const struct import_format *format_find(const char *path, const char *text, size_t bytes)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (has_extension_of(path, formats[i]->extensions) &&
            formats[i]->is_format(text, bytes < LOOK_BYTES ? bytes : LOOK_BYTES))
            return formats[i];
    return NULL;
}

bool import_is_configuration(const char *path)
{
    bool is_named = false;
    if (mask_file_has_extension(path, ".conf")) return true;
    for (int i = 0; i < N_FORMATS && !is_named; i++) is_named = has_extension_of(path, formats[i]->extensions);
    char *text = is_named ? malloc(LOOK_BYTES + 1) : NULL, *utf8 = NULL;
    size_t utf8_bytes;
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    ssize_t bytes = fd >= 0 ? read(fd, text, LOOK_BYTES) : -1;
    if (fd >= 0) close(fd);
    if (bytes >= 0) text[bytes] = 0;
    if (bytes >= 0 && utf16_is_text(text, (size_t)bytes)) utf8 = utf16_to_utf8(text, (size_t)bytes, &utf8_bytes);
    /* The reader of masks reports why a file cannot be read. */
    bool found = bytes >= 0 && format_find(path, utf8 ? utf8 : text, utf8 ? utf8_bytes : (size_t)bytes) != NULL;
    free(utf8);
    free(text);
    return found;
}

/* ---- keys --------------------------------------------------------------------------------------- */

static const char *import_next_word(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

bool import_key_is_known(const char *known, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = known; length && *at; at = import_next_word(at))
        if (strcspn(at, " ") == length && strncmp(at, key, length) == 0) return true;
    return false;
}

int import_key_near(const char *known, const char *key, const char **word)
{
    size_t n = strlen(key);
    for (const char *w = known; *w; w = import_next_word(w)) {
        size_t m = strcspn(w, " "), head = 0, tail = 0;
        while (head < n && head < m && key[head] == w[head]) head++;
        while (tail < n - head && tail < m - head && key[n - 1 - tail] == w[m - 1 - tail]) tail++;
        size_t a = n - head - tail, b = m - head - tail;
        bool is_swapped = a == 2 && b == 2 && key[head] == w[head + 1] && key[head + 1] == w[head];
        *word = w;
        if (m > 2 && ((a <= 1 && b <= 1) || is_swapped)) return (int)m;
    }
    return 0;
}

void import_note_run(struct import *import, int line, const char *key, const char *what)
{
    char text[160];
    size_t used = strlen(import->run);
    int length =
        snprintf(text, sizeof text, "%s%.60s%s%.60s (line %d)", used ? ", " : "", key, *what ? " " : "", what, line);
    if (import->n_run++ == 0) import->run_line = line;
    if (used + (size_t)length >= sizeof import->run) return;
    memcpy(import->run + used, text, (size_t)length + 1);
    import->n_run_named++;
}

static void report_run(struct import *import, const char *program)
{
    char more[32] = "";
    if (import->n_run > import->n_run_named)
        snprintf(more, sizeof more, " and %d more", import->n_run - import->n_run_named);
    if (import->n_run)
        IMPORT_NOTE(import, import->run_line, NULL,
                    "has no effect here, because it controls %s's run, not the sound: %s%s", program, import->run,
                    more);
}

void import_key_check(struct import *import, int line, const char *statement, const char *key, const char *known)
{
    const char *word, *idle = strchr(known, '|');
    int near = import_key_near(known, key, &word), n = (int)strcspn(known, "|");
    if (idle && import_key_is_known(idle, key))
        import_note_run(import, line, key, "");
    else if (import_key_is_known(known, key))
        return;
    else if (near)
        IMPORT_WARN(import, line, statement, "unknown key \"%.40s\" has no effect; write %.*s", key, near, word);
    else
        IMPORT_WARN(import, line, statement, "unknown key \"%.40s\" has no effect; known: %.*s", key, n ? n : 4,
                    n ? known : "none");
}

/* ---- channels ----------------------------------------------------------------------------------- */

static hc_port *ports_make(struct configuration *c, const hc_port *given, int n, const char *stem)
{
    hc_port *ports = arena_alloc(c->arena, (size_t)n, sizeof *ports);
    char name[16];
    for (int ch = 0; ports && ch < n && !c->arena->is_short; ch++) {
        int same = 0;
        snprintf(name, sizeof name, "%s-%d", stem, ch + 1);
        ports[ch] = given[ch];
        if (!ports[ch].name) ports[ch].name = arena_text(c->arena, name);
        if (!ports[ch].name) break; /* no memory */
        while (same < ch && (!ports[same].name || strcmp(ports[same].name, ports[ch].name) != 0)) same++;
        if (same < ch)
            diagnostic(&c->diagnostics, HC_OK, 0, NULL,
                       "%sputs %d and %d have one name, %.80s, which JACK refuses; rename one", stem, same + 1, ch + 1,
                       ports[ch].name);
    }
    return ports;
}

static void check_inputs(struct configuration *c, const hc_responses *r, int n_in)
{
    if (n_in == 0 || n_in == r->n_in || c->is_mask || c->diagnostics.n_errors) return;
    diagnostic(&c->diagnostics, HC_EINVAL, c->defined_line, c->defined_by,
               "has %d input channel%s, but there %s %d; give it %d, or use another configuration", r->n_in,
               r->n_in == 1 ? "" : "s", n_in == 1 ? "is" : "are", n_in, r->n_in);
}

/* ---- sources ------------------------------------------------------------------------------------ */

static const char NEW[] = "/source/new", READ[] = "/bank/read";

/* Finds the path of a bank; NULL: the error has been added, or the arena is short. */
static const char *bank_path(struct configuration *c, const struct bank_line *bank, int rate)
{
    char why[DIAGNOSTIC_CAP / 2];
    struct rated_file found;
    struct stat status;
    const char *path = bank->file ? sound_path(c, bank->file) : NULL;
    if (!path) return NULL;
    int error = rate_pattern_find(path, rate, &found, REASON(why, sizeof why));
    if (error) {
        diagnostic(&c->diagnostics, error, bank->line, READ, "%s", why);
        return NULL;
    }
    if (found.missing[0])
        diagnostic(&c->diagnostics, HC_OK, bank->line, READ, "%s is missing; %s is used", found.missing, found.path);
    if (stat(found.path, &status) == 0) return arena_text(c->arena, found.path);
    diagnostic(&c->diagnostics, HC_EFILE, bank->line, READ, "%s: %s; give the path of a bank", found.path,
               strerror(errno));
    return NULL;
}

/* Orders the sources by their inputs: source i must be input i, as an engine's first inputs are its sources. */
static void order_sources(struct configuration *c, hc_source *sources)
{
    int n = (int)c->n_sources;
    for (int i = 0; i < n; i++) {
        const struct source_line *line = &c->sources[i];
        if (line->in >= n) {
            diagnostic(&c->diagnostics, HC_EINVAL, line->line, NEW,
                       "input %d is a source, but there %s %d, and they are the first inputs; move this one to an "
                       "input from 1 to %d",
                       line->in + 1, n == 1 ? "is" : "are", n, n);
            continue;
        }
        sources[line->in].bank = line->bank;
        memcpy(sources[line->in].position, line->position, sizeof line->position);
    }
}

static void warn_of_unplayed_banks(struct configuration *c)
{
    bool *is_played = arena_alloc(c->arena, c->n_banks, sizeof *is_played);
    if (!is_played) return;
    for (size_t i = 0; i < c->n_sources; i++) is_played[c->sources[i].bank] = true;
    for (size_t i = 0; i < c->n_banks; i++)
        if (!is_played[i])
            diagnostic(&c->diagnostics, HC_OK, c->banks[i].line, READ, "no source plays this bank; add a /source/new");
}

/* Checks the banks and the steered sources that a configuration names, and returns them in *r without reading a bank.
 * is_wanted: the caller plays sources (HC_WITH_SOURCES). rate: that of the session, or 0. */
static void configuration_sources(struct configuration *c, bool is_wanted, int rate, hc_responses *r)
{
    struct arena *arena = c->arena;
    if (c->diagnostics.n_errors == 0) warn_of_unplayed_banks(c); /* after errors, lines may be missing */
    if (c->n_sources == 0) return;
    if (!is_wanted) {
        diagnostic(&c->diagnostics, HC_EINVAL, c->sources[0].line, NEW,
                   "sources play live only (haloconv jack, pipewire, live); for files, give haloconv convolve or batch "
                   "the bank "
                   "itself and a path");
        return;
    }
    hc_source *sources = arena_alloc(arena, c->n_sources, sizeof *sources);
    const char **banks = arena_alloc(arena, c->n_banks, sizeof *banks);
    if (!sources || !banks) return;
    if (c->diagnostics.n_errors == 0) order_sources(c, sources);
    for (size_t i = 0; i < c->n_banks; i++) banks[i] = bank_path(c, &c->banks[i], rate);
    r->n_sources = (int)c->n_sources;
    r->sources = sources;
    r->n_banks = (int)c->n_banks;
    r->banks = banks;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void make_responses(struct network *net, int n_in, bool with_sources, hc_responses *r)
{
    struct configuration *c = net->c;
    network_make(net);
    sounds_report(c);
    r->n_in = c->n_in;
    r->n_out = c->n_out;
    check_inputs(c, r, n_in);
    r->rate = sounds_rate(c);
    configuration_sources(c, with_sources, c->session_rate, r);
    if (!c->diagnostics.n_errors) network_routes(net, r);
    r->in_port = ports_make(c, c->in_port, r->n_in, "in");
    r->out_port = ports_make(c, c->out_port, r->n_out, "out");
    r->partition = c->partition;
}

/* Reads the text of the configuration, in memory from malloc. NULL: the error has been added. */
static char *configuration_text(struct configuration *c, size_t *bytes)
{
    const char *path = c->diagnostics.path;
    char why[DIAGNOSTIC_CAP / 2], *text;
    size_t prefix = strlen(path) + 2; /* length of "path: ", which the diagnostic adds itself */
    int error = mask_file_text(path, MAX_TEXT_BYTES, &text, bytes, REASON(why, sizeof why));
    if (error) diagnostic(&c->diagnostics, error, 0, NULL, "%s", strlen(why) > prefix ? why + prefix : why);
    return text;
}

/* Returns the code of the first error; *why gets its text and the number of the other errors. */
static int first_error(const struct diagnostics *diagnostics, struct reason *why)
{
    const hc_diagnostic *first = diagnostics->kept, *end = first + diagnostics->n_kept;
    while (first < end && first->code >= 0) first++;
    if (first == end && diagnostics->arena->is_short)
        return fail(HC_ENOMEM, why, "%s: no memory for its errors; free some memory", diagnostics->path);
    if (first == end)
        return fail(HC_EINVAL, why, "%s: has %d error%s; see haloconv check", diagnostics->path, diagnostics->n_errors,
                    PLURAL(diagnostics->n_errors));
    if (diagnostics->n_errors == 1) return fail(first->code, why, "%s", first->text);
    return fail(first->code, why, "%s (and %d more: haloconv check %s)", first->text, diagnostics->n_errors - 1,
                diagnostics->path);
}

/* Chooses the rate of the filters of another program's text. */
static void choose_rate(struct configuration *c)
{
    if (c->session_rate == 0 || (c->keep_rate && c->rate)) c->session_rate = c->rate;
    if (c->session_rate) return;
    c->session_rate = 48000;
    if (c->diagnostics.n_errors == 0)
        diagnostic(&c->diagnostics, HC_OK, 0, NULL, "names no rate; its filters are computed for 48000 Hz");
}

static void text_read(struct import *import)
{
    struct configuration *c = import->c;
    const struct import_format *format = format_find(c->diagnostics.path, import->text, import->bytes);
    const char *end = memchr(import->text, 0, import->bytes);
    const char *foreign = format ? NULL : sound_foreign(import->text, import->bytes);
    int line = 1;
    if (foreign) {
        diagnostic(&c->diagnostics, HC_EINVAL, 0, NULL, "%s", foreign);
        return;
    }
    if (end) {
        for (const char *at = import->text; at < end; at++) line += *at == '\n';
        diagnostic(&c->diagnostics, HC_EINVAL, line, NULL, "is not text; give a sound file the ending .wav");
        return;
    }
    locale_t was = c_locale_enter();
    (format ? format : &format_jconvolver)->read(import);
    c_locale_leave(was);
    if (!format) return;
    report_run(import, format->name);
    choose_rate(c);
    c->defined_line = c->defined_line ? c->defined_line : 1;
}

/* Converts the only response of a configuration to a mask of one channel. false: no memory. */
static bool mask_of_route(hc_responses *r)
{
    struct mask_file file;
    if (mask_file_make(&file, 1, r->n_frames > 0 ? r->n_frames : 1, "", NULL) != HC_OK) return false;
    for (int i = 0; i < r->n_routes; i++)
        for (int k = 0; k < r->routes[i].n_taps; k++)
            file.channel[0][r->routes[i].delay + k] = r->routes[i].gain * r->routes[i].taps[k];
    *r = (hc_responses){
        .memory = r->memory, .rate = r->rate, .n_channels = 1, .n_frames = file.n_frames, .channel = file.channel};
    return true;
}

int import_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses, struct reason *why)
{
    struct arena *arena = arena_make();
    struct configuration *c = arena ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        arena_free(arena);
        return fail(HC_ENOMEM, why, "%s: no memory to read it; free some memory", path);
    }
    const struct diagnostics *diagnostics = &c->diagnostics;
    hc_responses made = {.memory = arena};
    *c = (struct configuration){.diagnostics = {.path = path, .arena = arena},
                                .arena = arena,
                                .n_in = MASK_MAX_CHANNELS,
                                .n_out = MASK_MAX_CHANNELS,
                                .session_rate = rate,
                                .keep_rate = (flags & HC_KEEP_RATE) != 0};
    struct import import = {.c = c, .names_only = (flags & HC_NAMES_ONLY) != 0};
    import.text = configuration_text(c, &import.bytes);
    if (import.text && network_open(&import.network, c)) {
        import.network.notes_filters = (flags & HC_TELL_FILTERS) != 0;
        text_read(&import);
        made.client = c->client;
        made.server = c->server;
        made.device = c->device;
        sounds_list(c);
        if (!arena->is_short && !import.names_only)
            make_responses(&import.network, n_in, (flags & HC_WITH_SOURCES) != 0, &made);
        if (c->is_mask && !arena->is_short && !diagnostics->n_errors && made.n_in > 0 && !mask_of_route(&made))
            arena->is_short = true;
    }
    free(import.text);
    sounds_free(c);
    if (arena->is_short) {
        size_t limit = arena->limit;
        arena->limit = SIZE_MAX / 2; /* for the text of this diagnostic */
        diagnostic(&c->diagnostics, HC_ENOMEM, 0, NULL,
                   "its responses need more than %zu MB, three quarters of this machine's memory; use fewer or "
                   "shorter ones",
                   limit >> 20);
    }
    int error = diagnostics->n_errors ? first_error(diagnostics, why) : HC_OK;
    if (error && made.channel) {
        free(made.channel[0]);
        free(made.channel);
    }
    *responses = error ? (hc_responses){.memory = arena} : made;
    responses->n_diagnostics = diagnostics->n_kept;
    responses->diagnostics = diagnostics->kept;
    responses->n_errors = diagnostics->n_errors;
    responses->n_warnings = diagnostics->n_warnings;
    network_close(&import.network);
    free(c->banks);
    free(c->sources);
    free(c);
    return error;
}
