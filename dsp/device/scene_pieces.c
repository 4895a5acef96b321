#include "scene_pieces.h"

#include "hc_bank.h"

#include <stdlib.h>
#include <string.h>

struct piece_key {
    const hc_bank *bank;
    uint64_t list;    /* the list that uses this key; a number of an older list: the key is free */
    int entry, piece; /* piece -1: the bank has no taps in the level */
};

static int log2_table(int max_terms)
{
    int log2 = 4;
    while (1 << log2 < 2 * max_terms) log2++;
    return log2;
}

/* Allocates memory and sets all bits: a first write to a page inside a call would wait for the system. */
static void *ones_written(size_t bytes)
{
    void *p = malloc(bytes);
    return p ? memset(p, 0xff, bytes) : NULL;
}

bool piece_maker_open(struct piece_maker *m, const struct scene_shape *shape, int max_sources,
                      piece_responses *responses)
{
    const int max_terms = shape->n_sources * HC_MAX_SOUNDING;
    m->responses = responses;
    m->part = shape->part;
    m->max_sources = max_sources;
    m->log2_table = log2_table(max_terms);
    m->table = ones_written(sizeof *m->table << m->log2_table);
    m->piece_of = ones_written((size_t)max_terms * sizeof *m->piece_of);
    return m->table && m->piece_of;
}

void piece_maker_close(struct piece_maker *m)
{
    free(m->table);
    free(m->piece_of);
}

double piece_maker_bytes(const struct scene_shape *shape)
{
    const int max_terms = shape->n_sources * HC_MAX_SOUNDING;
    return (double)sizeof(struct piece_key) * (1 << log2_table(max_terms)) + (double)sizeof(int) * max_terms;
}

/* Neighbouring entries have neighbouring keys, so that a bank of 1,000 entries stays in the cache. */
static struct piece_key *key_find(const struct piece_maker *m, const hc_bank *bank, int entry)
{
    const size_t mask = ((size_t)1 << m->log2_table) - 1;
    size_t i = (size_t)((uint64_t)(uintptr_t)bank / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 20) + (size_t)entry;
    for (;; i++) {
        struct piece_key *key = &m->table[i & mask];
        if (key->list != m->n_lists || (key->entry == entry && key->bank == bank)) return key;
    }
}

/* Counts the terms of each piece. Returns the number of pieces. */
static int pieces_count(struct piece_maker *m, const struct scene_mix *mix, int level, struct scene_piece *pieces)
{
    int n = 0;
    m->n_lists++;
    for (int i = 0; i < mix->n; i++) {
        const struct scene_term *term = &mix->terms[i];
        struct piece_key *key = key_find(m, term->bank, term->entry);
        if (key->list != m->n_lists) {
            *key = (struct piece_key){term->bank, m->n_lists, term->entry, -1};
            pieces[n].n = 0;
            const void *impl = term->bank->impl[m->part];
            if (impl && m->responses(impl, level, term->entry, &pieces[n])) key->piece = n++;
        } else if (key->piece >= 0 && pieces[key->piece].n == m->max_sources) {
            pieces[n] = pieces[key->piece];
            pieces[n].n = 0;
            key->piece = n++;
        }
        m->piece_of[i] = key->piece;
        if (key->piece >= 0) pieces[key->piece].n++;
    }
    return n;
}

void scene_list_make(struct piece_maker *m, const struct scene_mix *mix, int level, struct scene_list *list)
{
    list->n = pieces_count(m, mix, level, list->pieces);
    list->n_sources = 0;
    for (struct scene_piece *piece = list->pieces; piece < list->pieces + list->n; piece++) {
        piece->first = list->n_sources;
        list->n_sources += piece->n;
        piece->n = 0;
    }
    for (int i = 0; i < mix->n; i++) {
        if (m->piece_of[i] < 0) continue;
        struct scene_piece *piece = &list->pieces[m->piece_of[i]];
        list->sources[piece->first + piece->n++] = (struct scene_source){mix->terms[i].source, mix->terms[i].weight};
    }
}
