/* row_cells - the columns of a batch's list, and the cells of a row. */
#ifndef ROW_CELLS_H
#define ROW_CELLS_H

#include "draw.h"
#include "manifest.h"

enum column {
    INPUT, MASK, OUTPUT, GAIN, TAIL, LEVEL, SEED, START, LENGTH, NOISE, SNR, ALIGN, EARLY, PATH,
    N_COLUMNS
};
extern const char *const column_names[N_COLUMNS];
extern const char *const tail_words[], *const level_words[]; /* for enum range_choice, enum level; NULL ends each */
extern const char cell_wrong_type[]; /* the value of a cell that is neither a text nor a number */

struct row_reader {
    struct manifest *manifest;
    const struct manifest_defaults *defaults;
    struct draw masks, noises; /* start with zeros; draw_free frees them */
};

/* Adds a row. values[N_COLUMNS]; NULL or "": the row leaves the column out. false: why has all wrong cells. */
bool row_add(struct row_reader *reader, const char *const *values, char *why, size_t cap);

#endif
