#include "configuration_responses.h"

#include "configuration_sounds.h"
#include "configuration_sources.h"
#include "dsp/base/c_locale.h"
#include "dsp/base/error.h"
#include "dsp/signal/hilbert.h"
#include "import.h"
#include "jconvolver_pairs.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HILBERT_MAX = 65536,
    MAX_TEXT_BYTES = 1 << 28 /* of a configuration: 256 for each of 1024 x 1024 pairs */
};

struct loader {
    struct configuration c;
    struct sounds sounds;
    struct pairs pairs;
    bool plays_sources;   /* HC_WITH_SOURCES */
    struct import import; /* network.c is NULL: the text is one of jconvolver */
    float **hilbert;      /* [HILBERT_MAX / 2 + 1]: Hilbert transformers, by half their length */
};

/* ---- checks ------------------------------------------------------------------------------------- */

/* How many of n frames behind a delay the maximum length allows; adds a warning if fewer than n. */
static int cut_to_most(struct configuration *c, const struct impulse *i, int n, int delay)
{
    if (delay >= c->max_taps) {
        IMPULSE_WARN(c, i, "a delay of %d leaves nothing of the maximum length %d; raise it in /convolver/new", delay,
                     c->max_taps);
        return 0;
    }
    if (n <= c->max_taps - delay) return n;
    IMPULSE_WARN(c, i, "cut from %d to %d frames by the maximum length %d; raise it in /convolver/new", n,
                 c->max_taps - delay, c->max_taps);
    return c->max_taps - delay;
}

/* ---- the commands ------------------------------------------------------------------------------- */

static void do_read(struct loader *l, const struct impulse *i)
{
    int n_taps;
    const float *taps = sounds_taps(&l->sounds, i, &n_taps);
    if (!taps) return;
    n_taps = cut_to_most(&l->c, i, n_taps, i->delay);
    if (n_taps > 0) pairs_add(&l->pairs, i, i->in, i->out, taps, n_taps, i->delay);
}

/* Each channel of the file holds the responses of one output, one behind the other: of input 1, of input 2 ... */
static void do_packed(struct loader *l, const struct impulse *i)
{
    struct configuration *c = &l->c;
    struct sound *sound = sounds_get(&l->sounds, i);
    if (!sound) return;
    int n_in = i->in, n_out = sound->file.n_channels, frames = sound->file.n_frames / n_in, n = n_in * n_out;
    if (frames * n_in != sound->file.n_frames) {
        IMPULSE_REFUSE(c, i, "%s has %d frames, which %d inputs do not divide; give the number that it was made for",
                       sound->path, sound->file.n_frames, n_in);
        return;
    }
    if (n_out > c->n_out) {
        IMPULSE_REFUSE(c, i, "%s has %d channels, but /convolver/new gave %d outputs; give it as many", sound->path,
                       n_out, c->n_out);
        return;
    }
    int n_taps = sounds_length(&l->sounds, sound, i, frames);
    if (n_taps == 0) return;
    const float **taps = calloc((size_t)n, sizeof *taps);
    if (!taps) {
        c->arena->is_short = true;
        return;
    }
    for (int k = 0; k < n; k++) taps[k] = sound->file.channel[k / n_in] + k % n_in * frames + i->offset;
    if (sounds_resample(&l->sounds, sound, i, taps, n, &n_taps)) {
        n_taps = cut_to_most(c, i, n_taps, i->delay);
        for (int k = 0; n_taps > 0 && k < n; k++)
            pairs_add(&l->pairs, i, k % n_in, k / n_in, taps[k], n_taps, i->delay);
    }
    free(taps);
}

static void do_dirac(struct loader *l, const struct impulse *i)
{
    static const float one = 1.0f;
    if (cut_to_most(&l->c, i, 1, i->delay) > 0) pairs_add(&l->pairs, i, i->in, i->out, &one, 1, i->delay);
}

/* A Hilbert transformer of 2 * half frames: x[half - k] = v, x[half + k] = -v for odd k. NULL: the arena is short. */
static const float *hilbert(struct loader *l, int half)
{
    if (!l->hilbert) l->hilbert = arena_alloc(l->c.arena, HILBERT_MAX / 2 + 1, sizeof *l->hilbert);
    if (!l->hilbert || l->hilbert[half]) return l->hilbert ? l->hilbert[half] : NULL;
    float *x = arena_alloc(l->c.arena, 2 * (size_t)half, sizeof *x);
    if (!x) return NULL;
    for (int k = 1; k < half; k += 2) {
        double v = hilbert_tap(k, half);
        x[half - k] = (float)v;
        x[half + k] = (float)-v;
    }
    return l->hilbert[half] = x;
}

static void do_hilbert(struct loader *l, const struct impulse *i)
{
    int half = i->length / 2;
    const float *taps = hilbert(l, half);
    int n_taps = cut_to_most(&l->c, i, 2 * half, i->delay - half);
    if (taps && n_taps > 0) pairs_add(&l->pairs, i, i->in, i->out, taps, n_taps, i->delay - half);
}

static void do_copy(struct loader *l, const struct impulse *i)
{
    pairs_link(&l->pairs, i, !l->sounds.has_errors && l->c.diagnostics.n_errors == 0);
}

/* ---- channels ----------------------------------------------------------------------------------- */

static hc_port *ports_make(struct arena *arena, const hc_port *given, int n, const char *stem)
{
    hc_port *ports = arena_alloc(arena, (size_t)n, sizeof *ports);
    char name[16];
    for (int ch = 0; ports && ch < n; ch++) {
        snprintf(name, sizeof name, "%s-%d", stem, ch + 1);
        ports[ch] = given[ch];
        if (!ports[ch].name) ports[ch].name = arena_text(arena, name);
    }
    return ports;
}

/* A file of mcfx_convolver gives no counts: its highest channels are the counts. */
static void count_channels(const struct loader *l, hc_responses *r)
{
    const struct configuration *c = &l->c;
    r->n_in = c->n_in;
    r->n_out = c->n_out;
    if (c->defined_line) return;
    r->n_in = r->n_out = 1;
    for (size_t k = 0; k < c->n_impulses; k++) {
        const struct impulse *i = &c->impulses[k];
        bool packed = i->kind == IMPULSE_PACKED;
        int n_in = packed ? i->in : i->in + 1;
        int n_out = packed ? l->sounds.sounds[i->file].file.n_channels : i->out + 1;
        if (n_in > r->n_in) r->n_in = n_in;
        if (n_out > r->n_out) r->n_out = n_out;
    }
}

static void check_inputs(struct configuration *c, const hc_responses *r, int n_in)
{
    if (n_in == 0 || n_in == r->n_in || c->is_mask || c->diagnostics.n_errors) return;
    diagnostic(&c->diagnostics, HC_EINVAL, c->defined_line, c->defined_line ? "/convolver/new" : NULL,
               "it takes %d input channel%s, and there %s %d; give it %d, or another configuration", r->n_in,
               r->n_in == 1 ? "" : "s", n_in == 1 ? "is" : "are", n_in, r->n_in);
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void make_responses(struct loader *l, int n_in, hc_responses *r)
{
    static void (*const carry_out[])(struct loader *, const struct impulse *) = {do_read, do_dirac, do_hilbert, do_copy,
                                                                                 do_packed};
    struct configuration *c = &l->c;
    l->sounds.sounds = arena_alloc(c->arena, c->n_files, sizeof *l->sounds.sounds);
    if (!pairs_open(&l->pairs, c)) c->arena->is_short = true;
    if (l->sounds.sounds && l->pairs.pairs) {
        for (size_t i = 0; i < c->n_impulses && !c->arena->is_short; i++)
            carry_out[c->impulses[i].kind](l, &c->impulses[i]);
        if (l->import.network.outputs) network_pairs(&l->import.network, &l->sounds, &l->pairs, l->sounds.rate);
        sounds_report(&l->sounds);
        count_channels(l, r);
        check_inputs(c, r, n_in);
        r->rate = sounds_rate(&l->sounds);
        configuration_sources(c, l->plays_sources, l->sounds.rate, r);
        if (!c->diagnostics.n_errors) pairs_routes(&l->pairs, r);
        r->in_port = ports_make(c->arena, c->in_port, r->n_in, "in");
        r->out_port = ports_make(c->arena, c->out_port, r->n_out, "out");
        r->partition = c->partition;
    }
    sounds_free(&l->sounds);
    pairs_free(&l->pairs);
}

/* The text of the configuration, from malloc. NULL: the error has been added. */
static char *configuration_text(struct configuration *c, size_t *bytes)
{
    const char *path = c->diagnostics.path;
    char why[DIAGNOSTIC_CAP / 2], *text;
    size_t prefix = strlen(path) + 2; /* "path: ", which the diagnostic has too */
    int error = mask_file_text(path, MAX_TEXT_BYTES, &text, bytes, REASON(why, sizeof why));
    if (error) diagnostic(&c->diagnostics, error, 0, NULL, "%s", strlen(why) > prefix ? why + prefix : why);
    return text;
}

/* Returns the code of the first error; why gets its text and the number of the others. */
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

/* Reads a text of another program, whose filters need a rate. */
static void import_read(struct loader *l, const struct import_format *format, char *text, size_t bytes,
                        bool tells_filters)
{
    struct configuration *c = &l->c;
    l->import = (struct import){.c = c, .text = text, .bytes = bytes};
    if (memchr(text, 0, bytes)) {
        diagnostic(&c->diagnostics, HC_EINVAL, 0, NULL, "is not text; name a sound file .wav");
        return;
    }
    if (!network_open(&l->import.network, c)) return;
    l->import.network.tells_filters = tells_filters;
    locale_t was = c_locale_enter();
    format->read(&l->import);
    c_locale_leave(was);
    if (l->sounds.rate == 0 || l->sounds.keep_rate) l->sounds.rate = c->rate;
    if (l->sounds.rate == 0) {
        l->sounds.rate = 48000;
        if (c->diagnostics.n_errors == 0)
            diagnostic(&c->diagnostics, HC_OK, 0, NULL, "names no rate; its filters are computed for 48000 Hz");
    }
    c->defined_line = c->defined_line ? c->defined_line : 1;
}

/* Makes the only response of a configuration a mask of one channel. false: no memory. */
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

int configuration_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses,
                            struct reason *why)
{
    struct arena *arena = arena_make();
    struct loader *l = arena ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        arena_free(arena);
        return fail(HC_ENOMEM, why, "%s: no memory to read it; free some memory", path);
    }
    struct configuration *c = &l->c;
    const struct diagnostics *diagnostics = &c->diagnostics;
    hc_responses made = {.memory = arena};
    size_t bytes = 0;
    configuration_open(c, path, arena);
    l->plays_sources = (flags & HC_WITH_SOURCES) != 0;
    l->sounds = (struct sounds){.c = c, .rate = rate, .keep_rate = (flags & HC_KEEP_RATE) != 0};
    char *text = configuration_text(c, &bytes);
    if (text) {
        const struct import_format *format = import_find(path, text, bytes);
        if (format)
            import_read(l, format, text, bytes, (flags & HC_TELL_FILTERS) != 0);
        else
            configuration_read(c, text, bytes);
        made.client = c->client;
        made.server = c->server;
        sounds_keep_paths(c);
        if (!arena->is_short && !(flags & HC_NAMES_ONLY)) make_responses(l, n_in, &made);
        if (c->is_mask && !arena->is_short && !c->diagnostics.n_errors && made.n_in > 0 && !mask_of_route(&made))
            arena->is_short = true;
    }
    free(text);
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
    network_close(&l->import.network);
    configuration_free(c);
    free(l);
    return error;
}
