#include "sections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sections {
    int n;
    struct section sections[];
};

static struct biquad section_nearest(const struct section *s, int rate)
{
    const struct rated_biquad *best = s->given;
    for (int i = 1; i < s->n_given; i++)
        if (llabs((long long)s->given[i].rate - rate) < llabs((long long)best->rate - rate)) best = &s->given[i];
    return best->biquad;
}

static struct biquad section_biquad(const struct section *s, int rate)
{
    double max_hz = 0.499 * rate, hz = fmin(s->hz, max_hz), other_hz = fmin(s->other_hz, max_hz);
    switch (s->form) {
    case SECTION_GENERAL_NOTCH:
        return biquad_general_notch(rate, other_hz, hz, s->q, s->is_unity_at_dc);
    case SECTION_LINKWITZ_TRANSFORM:
        return biquad_linkwitz_transform(rate, hz, s->q, other_hz, s->other_q);
    case SECTION_GIVEN:
        return section_nearest(s, rate);
    default:
        return biquad_make(s->kind, rate, hz, s->gain_db,
                           s->octaves > 0 ? biquad_q_of_bandwidth(rate, hz, s->octaves) : s->q);
    }
}

static int sections_make(const void *data, int rate, double **taps, double *rest_db)
{
    const struct sections *all = data;
    struct biquad *biquads = malloc((size_t)all->n * sizeof *biquads);
    if (!biquads) return 0;
    for (int i = 0; i < all->n; i++) biquads[i] = section_biquad(&all->sections[i], rate);
    int n = biquad_taps(biquads, all->n, SECTIONS_REST_DB, SECTIONS_TAPS, taps, rest_db);
    free(biquads);
    return n;
}

const struct filter *filter_of_sections(struct network *net, const struct section *sections, int n, int line,
                                        const char *command)
{
    size_t bytes = (size_t)n * sizeof *sections;
    struct sections *all = arena_alloc(net->c->arena, 1, sizeof *all + bytes);
    if (!all) return NULL;
    all->n = n;
    memcpy(all->sections, sections, bytes);
    return filter_computed(net, sections_make, all, line, command);
}
