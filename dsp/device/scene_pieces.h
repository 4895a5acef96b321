/* scene_pieces - the terms of a mix, grouped by entry: the sources that play the same entry are added first, and then
 * multiplied by its responses once.
 *
 *   terms     source 0: entry 7    source 1: entry 2    source 2: entry 7    ...      sorted by source
 *   pieces    entry 7 [0, 2)       entry 2 [2, 3)       ...                           in the order of their first term
 *   sources   0, 2                 1                    ...
 *
 * This takes two passes over the terms and a hash table, 4 ns a term. The order depends on the mix alone.
 */
#ifndef HALOCONV_SCENE_PIECES_H
#define HALOCONV_SCENE_PIECES_H

#include "scene_backend.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct scene_source { int source; float weight; };

struct scene_piece {        /* an entry of a bank, and some of the sources that play it                               */
    const void *h;          /* the entry's responses in a level, in the backend's memory and layout                   */
    int n_partitions, n_out; /* partitions and outputs of these responses                                             */
    int first, n;           /* sources [first, first + n) of the list                                                 */
};

struct scene_list {         /* a mix in pieces                                                                        */
    struct scene_piece *pieces; /* [n], with memory for a piece for each term of the mix                              */
    struct scene_source *sources; /* [n_sources], with memory for a source for each term of the mix                   */
    int n, n_sources;
};

/* Fills in the responses of an entry of a backend's bank in a level. false: the bank has no taps in the level. */
typedef bool piece_responses(const void *bank, int level, int entry, struct scene_piece *piece);

struct piece_key;
struct piece_maker {        /* makes lists; one thread uses a maker                                                   */
    piece_responses *responses;
    int part;               /* hc_bank.impl[part] is the backend's bank                                               */
    int max_sources;        /* max. sources of a piece                                                                */
    struct piece_key *table; /* [1 << log2_table]: an entry's newest piece, by bank and number of the entry           */
    int log2_table;
    uint64_t n_lists;       /* number of lists made                                                                   */
    int *piece_of;          /* [max. terms of a mix]: index of each term's piece; -1: no piece                        */
};

/* false: no memory; the caller must call piece_maker_close then, too. [setup] */
bool piece_maker_open(struct piece_maker *maker, const struct scene_shape *shape, int max_sources,
                      piece_responses *responses);
void piece_maker_close(struct piece_maker *maker);
/* Returns the bytes of a maker. */
double piece_maker_bytes(const struct scene_shape *shape);

/* Makes the list of a mix for a level. [rt] */
void scene_list_make(struct piece_maker *maker, const struct scene_mix *mix, int level, struct scene_list *list);

#ifdef __cplusplus
}
#endif
#endif
