/* scene_lists - turns the terms of a mix into pieces: up to SCENE_PIECE_MOST sources that play the same entry.
 *
 *   terms     source 0: entry 7    source 1: entry 2    source 2: entry 7    ...      sorted by source
 *   pieces    entry 7 [0, 2)       entry 2 [2, 3)       ...                           in the order of their first term
 *   sources   0, 2                 1                    ...
 *
 * Two passes over the terms and a hash table; 4 ns a term. The order depends on the mix alone.
 */
#include "scene_gpu.h"

#include "dsp/device/backend.h"

#include <stdlib.h>

struct list_place {
    const void *bank;
    uint64_t epoch;         /* the list that has this place; an older one: free                                       */
    int entry, piece;
};

size_t list_bytes_most(int n_terms)
{
    return (size_t)n_terms * (sizeof(struct scene_piece) + sizeof(struct scene_source));
}

int list_maker_open(struct list_maker *maker, int max_terms, struct reason *why)
{
    *maker = {};
    maker->max_terms = max_terms;
    maker->log2_table = 4;
    while (1 << maker->log2_table < 2 * max_terms) maker->log2_table++;
    maker->table = (struct list_place *)calloc((size_t)1 << maker->log2_table, sizeof *maker->table);
    maker->piece_of = (int *)calloc((size_t)max_terms, sizeof *maker->piece_of);
    if (!maker->table || !maker->piece_of) {
        list_maker_close(maker);
        return fail(HC_ENOMEM, why, "cuda: no memory for the steering of %d terms; take fewer sources", max_terms);
    }
    return HC_OK;
}

void list_maker_close(struct list_maker *maker)
{
    free(maker->table);
    free(maker->piece_of);
    *maker = {};
}

/* Neighbouring entries have neighbouring places, so that a bank of 1,000 entries stays in the cache. */
static struct list_place *place_find(struct list_maker *maker, const void *bank, int entry)
{
    const size_t mask = ((size_t)1 << maker->log2_table) - 1;
    size_t i = ((size_t)bank / 64 * 0x9e3779b97f4a7c15u >> 20) + (size_t)entry;
    for (;; i++) {
        struct list_place *place = maker->table + (i & mask);
        if (place->epoch != maker->epoch) {
            *place = {bank, maker->epoch, entry, -1};
            return place;
        }
        if (place->entry == entry && place->bank == bank) return place;
    }
}

size_t list_make(struct list_maker *maker, const struct scene_mix *mix, int level, void *to, int *n_pieces)
{
    struct scene_piece *pieces = (struct scene_piece *)to;
    int n = 0, n_sources = 0;
    maker->epoch++;
    for (int i = 0; i < mix->n; i++) {
        const struct scene_term *term = &mix->terms[i];
        const struct scene_bank *bank = (const struct scene_bank *)term->bank;
        maker->piece_of[i] = -1;
        if (term->weight == 0.0f || bank->n_parts[level] == 0) continue;
        struct list_place *place = place_find(maker, bank, term->entry);
        if (place->piece < 0 || pieces[place->piece].n == SCENE_PIECE_MOST) {
            const size_t row = (size_t)bank->n_parts[level] * bank->n_out;
            pieces[n] = {bank->h[level] + ((term->entry * row) << bank->log2_P[level]), 0, 0, bank->n_parts[level],
                         bank->n_out};
            place->piece = n++;
        }
        pieces[place->piece].n++;
        maker->piece_of[i] = place->piece;
    }
    for (int i = 0; i < n; i++) {
        pieces[i].first = n_sources;
        n_sources += pieces[i].n;
        pieces[i].n = 0;
    }
    struct scene_source *sources = (struct scene_source *)(pieces + n);
    for (int i = 0; i < mix->n; i++) {
        if (maker->piece_of[i] < 0) continue;
        struct scene_piece *piece = pieces + maker->piece_of[i];
        sources[piece->first + piece->n++] = {mix->terms[i].source, mix->terms[i].weight};
    }
    *n_pieces = n;
    return (size_t)n * sizeof *pieces + (size_t)n_sources * sizeof *sources;
}

struct scene_list list_at(const void *base, int n_pieces)
{
    const struct scene_piece *pieces = (const struct scene_piece *)base;
    return {pieces, (const struct scene_source *)(pieces + n_pieces), n_pieces};
}
