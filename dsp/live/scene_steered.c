#include "scene_steered.h"

#include "dsp/device/backend.h"
#include "dsp/engine/engine.h"

#include <math.h>
#include <stdlib.h>

void steered_reset(struct steered *s)
{
    for (int i = 0; i < s->n_sources; i++) {
        s->sent[i].stamp = NO_STAMP;
        s->sent[i].glides = false;
    }
}

bool steered_open(struct steered *s, const hc_config *config, struct positions *positions)
{
    size_t n = (size_t)config->n_sources;
    if (!positions || n == 0) return true;
    s->sent = calloc(n, sizeof *s->sent);
    s->glides = calloc(n, sizeof *s->glides);
    s->standby_numbers = calloc(n, sizeof *s->standby_numbers);
    if (!s->sent || !s->glides || !s->standby_numbers) return false;
    s->positions = positions;
    s->n_sources = config->n_sources;
    s->clock = (struct glide_clock){.rate = config->rate, .glide_ms = positions->glide_ms};
    steered_reset(s);
    return true;
}

void steered_close(struct steered *s)
{
    engine_banks_free(atomic_load(&s->next));
    engine_banks_free(s->playing);
    engine_banks_free(atomic_load(&s->former));
    free(s->sent);
    free(s->glides);
    free(s->standby_numbers);
}

/* ---- banks of engines -------------------------------------------------------------------------- */

static void banks_free(hc_bank **banks, int n)
{
    for (int i = 0; banks && i < n; i++) hc_bank_free(banks[i]);
    free(banks);
}

static int banks_make(const struct bank_set *set, hc_engine *engine, hc_bank ***made, struct reason *why)
{
    hc_bank **banks = calloc((size_t)set->n_banks, sizeof *banks);
    int error = banks ? HC_OK : fail(HC_ENOMEM, why, "no memory for %d banks; free some memory", set->n_banks);
    for (int i = 0; i < set->n_banks && !error; i++)
        error = hc_bank_make(engine, &set->banks[i], &banks[i], REASON_TEXT(why));
    if (error)
        banks_free(banks, set->n_banks);
    else
        *made = banks;
    return error;
}

int engine_banks_make(struct bank_set *set, hc_engine *main, struct engine_banks **out, struct reason *why)
{
    struct engine_banks *banks = calloc(1, sizeof *banks);
    if (!banks) return fail(HC_ENOMEM, why, "no memory for banks; free some memory");
    int error = banks_make(set, main, &banks->main, why);
    if (error) {
        free(banks);
        return error;
    }
    banks->set = bank_set_use(set);
    *out = banks;
    return HC_OK;
}

int engine_banks_make_standby(struct engine_banks *banks, hc_engine *standby, struct reason *why)
{
    return banks_make(banks->set, standby, &banks->standby, why);
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
    engine_banks_free(atomic_exchange_explicit(&s->next, banks,
                                               memory_order_acq_rel)); /* the banks that no block used; usually NULL */
}

void steered_sweep(struct steered *s)
{
    engine_banks_free(atomic_exchange_explicit(&s->former, NULL, memory_order_acquire));
}

/* ---- moving ------------------------------------------------------------------------------------ */

/* Switches to `next`, unless `former` still has banks: `next` waits until a worker has freed them. */
static void next_apply(struct steered *s)
{
    if (!atomic_load_explicit(&s->next, memory_order_relaxed)) return;
    if (atomic_load_explicit(&s->former, memory_order_acquire)) return;
    struct engine_banks *next = atomic_exchange_explicit(&s->next, NULL, memory_order_acquire);
    if (!next) return;
    atomic_store_explicit(&s->former, s->playing, memory_order_release);
    s->has_former = s->playing != NULL;
    s->playing = next;
    steered_reset(s);
}

static bool steered_is_same(const struct sent *a, const struct sent *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->entry[i] != b->entry[i] || a->weight[i] != b->weight[i]) return false;
    return true;
}

/* Returns how many frames before this block a target was put, at most a block, or -1 if this is unknown. */
static double age_of(const struct steered *s, const struct steer_target *target, int64_t now_us)
{
    if (now_us == 0) return -1;
    double frames = 1e-6 * (double)(int)((unsigned)now_us - target->put_us) * s->clock.rate;
    return fmin(fmax(frames, 0), s->clock.n);
}

/* Stores the position of a source at the end of this block. Returns false if the source has not moved. */
static bool target_update(struct steered *s, int source, int64_t now_us, struct steer_target *target)
{
    struct sent *sent = &s->sent[source];
    struct glide *glide = &s->glides[source];
    bool jumps = sent->stamp == NO_STAMP || s->clock.n == 0 || s->clock.frame == 0; /* the engine is not active yet */
    if (mailbox_read(&s->positions->targets, source, &sent->stamp, target)) {
        if (jumps)
            glide_jump(glide, target);
        else
            glide_to(glide, target, age_of(s, target, now_us), &s->clock);
    } else if (!sent->glides) {
        return false;
    }
    sent->glides = glide_at(glide, s->clock.frame + s->clock.n, target);
    return true;
}

/* Finds the entries for a source that has moved. Returns false if they are the same as before. */
static bool entries_update(struct steered *s, int source, int64_t now_us)
{
    const struct bank_set *set = s->playing->set;
    struct sent before = s->sent[source], *sent = &s->sent[source];
    struct steer_target target = {{1, 0, 0}, 1, -1, 0};
    if (source < set->n_sources) target = set->sources[source].first;
    if (!target_update(s, source, now_us, &target)) return false;
    sent->n = 0;
    if (source < set->n_sources)
        sent->n = bank_set_find(set, source, &target, s->positions->mixes, sent->entry, sent->weight);
    if (before.stamp != NO_STAMP && steered_is_same(&before, sent)) return false;
    sent->number++;
    return true;
}

/* Returns the bank of a source's entries. NULL: silence, which costs no time. */
static const hc_bank *bank_of(const struct steered *s, hc_bank *const *banks, int source)
{
    return banks && s->sent[source].n > 0 ? banks[s->playing->set->sources[source].bank] : NULL;
}

void steered_move(struct steered *s, hc_engine *main, int n, int64_t now_us)
{
    next_apply(s);
    s->clock.n = n;
    for (int i = 0; s->playing && i < s->n_sources; i++)
        if (entries_update(s, i, now_us)) {
            const hc_bank *bank = bank_of(s, s->playing->main, i);
            if (main) engine_steer(main, i, bank, s->sent[i].entry, s->sent[i].weight, s->sent[i].n);
        }
    s->clock.frame += n;
}

void steered_move_standby(struct steered *s, hc_engine *standby)
{
    for (int i = 0; s->playing && standby && i < s->n_sources; i++) {
        /* NO_STAMP: no position was read since the banks changed, and `sent` has entries of the former banks. */
        if (s->sent[i].stamp == NO_STAMP || s->standby_numbers[i] == s->sent[i].number) continue;
        s->standby_numbers[i] = s->sent[i].number;
        const hc_bank *bank = bank_of(s, s->playing->standby, i);
        hc_steer(standby, i, bank, s->sent[i].entry, s->sent[i].weight, bank ? s->sent[i].n : 0);
    }
}
