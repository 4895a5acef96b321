#include "steered.h"

#include "dsp/engine/backend.h"

#include <stdlib.h>

static void forget_stamps(struct steered *s)
{
    for (int i = 0; i < s->n_sources; i++) s->told[i].stamp = NO_STAMP;
}

bool steered_open(struct steered *s, int n_sources, struct places *places)
{
    if (!places || n_sources == 0) return true;
    s->told = calloc((size_t)n_sources, sizeof *s->told);
    s->standby_numbers = calloc((size_t)n_sources, sizeof *s->standby_numbers);
    if (!s->told || !s->standby_numbers) return false;
    s->places = places;
    s->n_sources = n_sources;
    forget_stamps(s);
    return true;
}

void steered_close(struct steered *s)
{
    engine_banks_free(atomic_load(&s->next));
    engine_banks_free(s->playing);
    engine_banks_free(atomic_load(&s->former));
    free(s->told);
    free(s->standby_numbers);
}

/* ---- banks of engines -------------------------------------------------------------------------- */

static void banks_free(hc_bank **banks, int n)
{
    for (int i = 0; banks && i < n; i++) hc_bank_free(banks[i]);
    free(banks);
}

static int banks_make(const struct bank_set *set, hc_engine *engine, hc_bank ***made, char *why, size_t cap)
{
    hc_bank **banks = calloc((size_t)set->n_banks, sizeof *banks);
    int error = banks ? HC_OK : fail(HC_ENOMEM, why, cap, "no memory for %d banks; free some", set->n_banks);
    for (int i = 0; i < set->n_banks && !error; i++) error = hc_bank_make(engine, &set->banks[i], &banks[i], why, cap);
    if (error)
        banks_free(banks, set->n_banks);
    else
        *made = banks;
    return error;
}

int engine_banks_make(struct bank_set *set, hc_engine *main, struct engine_banks **out, char *why, size_t cap)
{
    struct engine_banks *banks = calloc(1, sizeof *banks);
    if (!banks) return fail(HC_ENOMEM, why, cap, "no memory for banks; free some");
    int error = banks_make(set, main, &banks->main, why, cap);
    if (error) {
        free(banks);
        return error;
    }
    banks->set = bank_set_use(set);
    *out = banks;
    return HC_OK;
}

int engine_banks_make_standby(struct engine_banks *banks, hc_engine *standby, char *why, size_t cap)
{
    return banks_make(banks->set, standby, &banks->standby, why, cap);
}

void engine_banks_free_standby(struct engine_banks *banks)
{
    banks_free(banks->standby, banks->set->n_banks);
    banks->standby = NULL;
}

void engine_banks_free(struct engine_banks *banks)
{
    if (!banks) return;
    engine_banks_free_standby(banks);
    banks_free(banks->main, banks->set->n_banks);
    bank_set_release(banks->set);
    free(banks);
}

void steered_load(struct steered *s, struct engine_banks *banks)
{
    engine_banks_free(atomic_exchange_explicit(&s->next, banks, memory_order_acq_rel)); /* not taken: NULL mostly */
}

void steered_sweep(struct steered *s)
{
    engine_banks_free(atomic_exchange_explicit(&s->former, NULL, memory_order_acquire));
}

/* ---- moving ------------------------------------------------------------------------------------ */

/* `former` holds one set of banks: `next` waits until a worker has freed it. */
static void take_next(struct steered *s)
{
    if (!atomic_load_explicit(&s->next, memory_order_relaxed)) return;
    if (atomic_load_explicit(&s->former, memory_order_acquire)) return;
    struct engine_banks *next = atomic_exchange_explicit(&s->next, NULL, memory_order_acquire);
    if (!next) return;
    atomic_store_explicit(&s->former, s->playing, memory_order_release);
    s->has_former = s->playing != NULL;
    s->playing = next;
    forget_stamps(s);
}

static bool is_same(const struct told *a, const struct told *b)
{
    if (a->bank != b->bank || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->entry[i] != b->entry[i] || a->weight[i] != b->weight[i]) return false;
    return true;
}

/* Finds the entries for a place that has changed. false: they are the same as before. */
static bool entries_update(struct steered *s, int source)
{
    const struct bank_set *set = s->playing->set;
    struct told before = s->told[source], *told = &s->told[source];
    struct place place = {{1, 0, 0}, 1, -1};
    if (source < set->n_sources) place = set->sources[source].first;
    if (!place_read(&s->places->mailboxes[source], &told->stamp, &place)) return false;
    told->bank = told->n = 0;
    if (source < set->n_sources) {
        told->bank = set->sources[source].bank;
        told->n = bank_set_find(set, source, &place, s->places->mixes, told->entry, told->weight);
    }
    if (before.stamp != NO_STAMP && is_same(&before, told)) return false;
    told->number++;
    return true;
}

/* banks NULL: silence, which does not keep a core busy. */
static void entries_request(hc_engine *engine, int source, hc_bank *const *banks, const struct told *told)
{
    int n = banks ? told->n : 0;
    hc_steer(engine, source, n > 0 ? banks[told->bank] : NULL, told->entry, told->weight, n);
}

void steered_move(struct steered *s, hc_engine *main)
{
    take_next(s);
    for (int i = 0; s->playing && i < s->n_sources; i++)
        if (entries_update(s, i)) entries_request(main, i, s->playing->main, &s->told[i]);
}

void steered_move_standby(struct steered *s, hc_engine *standby)
{
    for (int i = 0; s->playing && standby && i < s->n_sources; i++) {
        /* NO_STAMP: no place was read since the banks changed, and `told` has entries of the former banks. */
        if (s->told[i].stamp == NO_STAMP || s->standby_numbers[i] == s->told[i].number) continue;
        s->standby_numbers[i] = s->told[i].number;
        entries_request(standby, i, s->playing->standby, &s->told[i]);
    }
}
