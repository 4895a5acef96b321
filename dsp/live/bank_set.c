#include "bank_set.h"

#include "dsp/engine/backend.h"

#include <stdlib.h>

static struct bank_set *set_make(int n_banks, int n_sources)
{
    struct bank_set *set = calloc(1, sizeof *set);
    if (!set) return NULL;
    set->users = 1;
    set->banks = calloc((size_t)n_banks, sizeof *set->banks);
    set->sources = calloc((size_t)n_sources, sizeof *set->sources);
    if (set->banks && set->sources) {
        set->n_sources = n_sources;
        return set;
    }
    bank_set_release(set);
    return NULL;
}

struct bank_set *bank_set_use(struct bank_set *set)
{
    if (set) set->users++;
    return set;
}

void bank_set_release(struct bank_set *set)
{
    if (!set || --set->users > 0) return;
    for (int i = 0; i < set->n_banks; i++) hc_bank_data_free(&set->banks[i]);
    free(set->banks);
    free(set->sources);
    free(set);
}

/* ---- loading ----------------------------------------------------------------------------------- */

static int bank_load(const hc_live_config *c, const char *path, int rate, struct bank_set *set, char *why, size_t cap)
{
    hc_bank_options options = {.size = sizeof options, .grid_deg = c->grid_deg, .normalise = c->normalise};
    hc_bank_data *bank = &set->banks[set->n_banks];
    bank->size = sizeof *bank;
    int error = hc_bank_load(path, c->keep_rate ? 0 : rate, &options, bank, why, cap);
    if (error) return error;
    if (set->n_banks == 0 || bank->gain_db > set->gain_db) set->gain_db = bank->gain_db;
    set->n_banks++;
    set->n_entries += bank->n_entries;
    if (bank->n_taps > set->n_taps) set->n_taps = bank->n_taps;
    if (bank->n_out > set->n_out) set->n_out = bank->n_out;
    if (bank->n_out > c->n_out)
        return fail(HC_EINVAL, why, cap, "%s: is for %d outputs, here are %d; use a bank with as many", path,
                    bank->n_out, c->n_out);
    return HC_OK;
}

int bank_set_load(const hc_live_config *c, const char *path, int rate, const hc_responses *responses,
                  struct bank_set **out, char *why, size_t cap)
{
    int n_sources = c->n_sources, error = HC_OK;
    *out = NULL;
    struct bank_set *set = set_make(1, n_sources);
    if (!set) return fail(HC_ENOMEM, why, cap, "%s: no memory for its banks; free some", path);
    for (int s = 0; s < n_sources; s++) set->sources[s].first = (struct place){{1, 0, 0}, 1, -1};
    error = bank_load(c, path, rate, set, why, cap);
    (void)responses;
    if (error)
        bank_set_release(set);
    else
        *out = set;
    return error;
}

/* ---- entries ----------------------------------------------------------------------------------- */

int bank_set_find(const struct bank_set *set, int source, const struct place *place, bool mixes, int *entries,
                  float *weights)
{
    const hc_bank_data *bank = &set->banks[set->sources[source].bank];
    int n = 1;
    if (place->gain == 0 || place->entry >= bank->n_entries) return 0;
    weights[0] = 1;
    if (place->entry >= 0)
        entries[0] = place->entry;
    else if (mixes && bank->position)
        n = hc_bank_mix(bank, place->position, entries, weights);
    else
        entries[0] = hc_bank_nearest(bank, place->position);
    for (int i = 0; i < n; i++) weights[i] *= place->gain;
    return n;
}
