#include "compare.h"

#include "live.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MAX_CUT_DB = 40;

/* The number of mask 0 (A) or 1 (B) of a comparison; 0: it is not ready. */
static int compared_number(uint64_t comparing, int which)
{
    return (int)(comparing >> (which * WANTED_BITS)) & NUMBER_MASK;
}

void compare_renew(hc_live *l)
{
    struct ready *r = &l->ready;
    uint64_t was = atomic_load(&r->comparing), now = was >> (2 * WANTED_BITS) << (2 * WANTED_BITS);
    for (int i = 0; i < 2; i++) now |= (uint64_t)ready_number(l, ready_find(l, r->compared[i])) << (i * WANTED_BITS);
    if (now == was) return;
    for (int i = 0; i < 2; i++) {
        int number = compared_number(now, i);
        if (number > 0) atomic_store(&r->masks[number - 1].loudness, -INFINITY);
    }
    atomic_store(&r->comparing, now + (1 << (2 * WANTED_BITS)));
}

/* 0 for A, 1 for B; -1: the mask is not compared. */
static int compared_as(const hc_live *l, const struct ready_mask *mask, uint64_t comparing)
{
    int number = ready_number(l, mask), a = compared_number(comparing, 0), b = compared_number(comparing, 1);
    return number == 0 || a == 0 || b == 0 ? -1 : number == a ? 0 : number == b ? 1 : -1;
}

void compare_measure(hc_live *l, struct failover *f, float *const *out, int n)
{
    uint64_t comparing = atomic_load_explicit(&l->ready.comparing, memory_order_acquire);
    struct ready_mask *mask = atomic_load_explicit(&f->home, memory_order_relaxed);
    if (compared_as(l, mask, comparing) < 0) return;
    if (f->compared != comparing) loudness_reset(&f->loudness);
    f->compared = comparing;
    if (loudness_add(&f->loudness, out, n))
        atomic_store_explicit(&mask->loudness, (float)loudness_get(&f->loudness), memory_order_relaxed);
}

static float loudness_of(const hc_live *l, uint64_t comparing, int which)
{
    int number = compared_number(comparing, which);
    if (number == 0) return -INFINITY;
    return atomic_load_explicit(&l->ready.masks[number - 1].loudness, memory_order_relaxed);
}

static float gain_of(const hc_live *l, uint64_t comparing, int which)
{
    float own = loudness_of(l, comparing, which), other = loudness_of(l, comparing, 1 - which);
    if (!isfinite(own) || !isfinite(other) || own <= other) return 1;
    return (float)pow(10, -fmin(MAX_CUT_DB, (double)(own - other)) / 20);
}

float compare_gain(const hc_live *l, const struct failover *f)
{
    uint64_t comparing = atomic_load_explicit(&l->ready.comparing, memory_order_acquire);
    int which = compared_as(l, atomic_load_explicit(&f->home, memory_order_relaxed), comparing);
    return which < 0 ? 1 : gain_of(l, comparing, which);
}

void compare_get_stats(const hc_live *l, hc_live_stats *stats)
{
    uint64_t comparing = atomic_load_explicit(&l->ready.comparing, memory_order_acquire);
    uint64_t wanted = atomic_load_explicit(&l->ready.wanted, memory_order_relaxed);
    int number = (int)(wanted & NUMBER_MASK);
    stats->compared = number ? compared_as(l, &l->ready.masks[number - 1], comparing) + 1 : 0;
    for (int i = 0; i < 2; i++) {
        stats->loudness[i] = loudness_of(l, comparing, i);
        stats->compared_gain[i] = gain_of(l, comparing, i);
    }
}

int hc_live_compare(hc_live *l, const char *a, const char *b)
{
    if (!l || !a != !b || (a && (strlen(a) >= TEXT_CAP || strlen(b) >= TEXT_CAP || strcmp(a, b) == 0)))
        return HC_EINVAL;
    struct ready *r = &l->ready;
    ready_paths_lock(r);
    snprintf(r->compared[0], TEXT_CAP, "%s", a ? a : "");
    snprintf(r->compared[1], TEXT_CAP, "%s", b ? b : "");
    compare_renew(l);
    ready_paths_unlock(r);
    return HC_OK;
}
