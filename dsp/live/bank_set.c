#include "bank_set.h"

#include "dsp/device/backend.h"

#include <stdlib.h>

static struct bank_set *set_make(int n_banks, int n_sources)
{
    struct bank_set *set = calloc(1, sizeof *set);
    if (!set) return NULL;
    atomic_init(&set->users, 1);
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
    if (set) atomic_fetch_add(&set->users, 1);
    return set;
}

void bank_set_release(struct bank_set *set)
{
    if (!set || atomic_fetch_sub(&set->users, 1) > 1) return;
    for (int i = 0; i < set->n_banks; i++) hc_bank_data_free(&set->banks[i]);
    free(set->banks);
    free(set->sources);
    free(set);
}

/* ---- loading ----------------------------------------------------------------------------------- */

static int bank_load(const hc_live_config *c, const char *path, int rate, struct bank_set *set, struct reason *why)
{
    hc_bank_options options = {
        .size = sizeof options, .grid_deg = c->grid_deg, .normalise = c->normalise, .mix = c->mix_entries >= 0};
    hc_bank_data *bank = &set->banks[set->n_banks];
    bank->size = sizeof *bank;
    int error = hc_bank_load(path, c->keep_rate ? 0 : rate, &options, bank, REASON_TEXT(why));
    if (error) return error;
    if (set->n_banks == 0 || bank->gain_db > set->gain_db) set->gain_db = bank->gain_db;
    set->n_banks++;
    set->n_entries += bank->n_entries;
    if (bank->n_taps > set->n_taps) set->n_taps = bank->n_taps;
    if (bank->n_out > set->n_out) set->n_out = bank->n_out;
    if (bank->n_out > c->n_out)
        return fail(HC_EINVAL, why, "%s: has %d outputs, but this session has %d; use a bank with at most as many",
                    path, bank->n_out, c->n_out);
    return HC_OK;
}

/* Makes a bank file the bank of every source; all sources are straight ahead at first. */
static int set_of_file(const hc_live_config *c, const char *path, int rate, struct bank_set *set, struct reason *why)
{
    for (int s = 0; s < c->n_sources; s++) set->sources[s].first = (struct steer_target){{1, 0, 0}, 1, -1, 0};
    return bank_load(c, path, rate, set, why);
}

static int set_of_configuration(const hc_live_config *c, const hc_responses *r, int rate, struct bank_set *set,
                                struct reason *why)
{
    int error = HC_OK;
    for (int i = 0; i < r->n_banks && !error; i++) error = bank_load(c, r->banks[i], rate, set, why);
    for (int s = 0; s < r->n_sources; s++) {
        const float *p = r->sources[s].position;
        set->sources[s] = (struct set_source){r->sources[s].bank, {{p[0], p[1], p[2]}, 1, -1, 0}};
    }
    return error;
}

int bank_set_load(const hc_live_config *c, const char *path, int rate, const hc_responses *r, struct bank_set **out,
                  struct reason *why)
{
    *out = NULL;
    if (r && r->n_sources == 0)
        return fail(HC_EINVAL, why, "%s: has no sources; give a bank, or a configuration with /source/new", path);
    if (r && r->n_sources > c->n_sources)
        return fail(HC_EINVAL, why, "%s: needs %d source%s, but this session has %d; start it with as many", path,
                    r->n_sources, PLURAL(r->n_sources), c->n_sources);
    struct bank_set *set = set_make(r ? r->n_banks : 1, r ? r->n_sources : c->n_sources);
    if (!set) return fail(HC_ENOMEM, why, "%s: no memory for its banks; free some memory", path);
    int error = r ? set_of_configuration(c, r, rate, set, why) : set_of_file(c, path, rate, set, why);
    if (error)
        bank_set_release(set);
    else
        *out = set;
    return error;
}

/* ---- entries ----------------------------------------------------------------------------------- */

int bank_set_find(const struct bank_set *set, int source, const struct steer_target *target, bool mixes, int *entries,
                  float *weights)
{
    const hc_bank_data *bank = &set->banks[set->sources[source].bank];
    int n = 1;
    if (target->gain == 0 || target->entry >= bank->n_entries) return 0;
    weights[0] = 1;
    if (target->entry >= 0)
        entries[0] = target->entry;
    else if (mixes && bank->position)
        n = hc_bank_mix(bank, target->position, entries, weights);
    else
        entries[0] = hc_bank_nearest(bank, target->position);
    for (int i = 0; i < n; i++) weights[i] *= target->gain;
    return n;
}
