#include "configuration_sources.h"

#include "configuration_sounds.h"
#include "dsp/masks/rate_pattern.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

void configuration_sources(struct configuration *c, bool is_wanted, int rate, hc_responses *r)
{
    struct arena *arena = c->arena;
    if (c->diagnostics.n_errors == 0) warn_of_unplayed_banks(c); /* after errors, lines may be missing */
    if (c->n_sources == 0) return;
    if (!is_wanted) {
        diagnostic(&c->diagnostics, HC_EINVAL, c->sources[0].line, NEW,
                   "sources play live only (haloconv jack, pipewire, live); for files, give haloconv convolve or batch the bank "
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
