/* manifest - the list of a batch: a row has an input, a mask, an output and their settings.
 *
 * The list comes from a file (CSV with a header, or one JSON object a line) or from two patterns of names. Every
 * process that reads it gets the same list, whatever its share of the work.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include "host/files/level_match.h"
#include "host/files/output_range.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- texts ------------------------------------------------------------------------------------ */

/* Strings one after the other, because a million rows would need millions of allocations. */

struct text_arena;

/* Allocates n bytes, which live until text_arena_free; NULL = no memory. *arenas: NULL at first. */
char *text_alloc(struct text_arena **arenas, size_t n);
const char *text_keep(struct text_arena **arenas, const char *text);
void text_arena_free(struct text_arena **arenas);

/* ---- the list --------------------------------------------------------------------------------- */

struct tar_source;

struct manifest_row {
    const char *input, *mask;
    const char *path;       /* the mask is a bank, and the sources move: a CSV file, or random:...; NULL = none */
    const char *output;     /* below the folder of the outputs, with forward slashes */
    double gain;            /* linear */
    enum range_choice tail; /* the column and option "tail" */
    enum level level;
    uint64_t seed;          /* draws a mask and a noise from their patterns, the start of the noise, and the path */
    double start_s, length_s; /* section of the input; length_s: INFINITY = to the end */
    const char *noise;      /* added after the convolution; NULL = none */
    double snr_db;
    bool align;             /* leave out the mask in front of its direct sound */
    double early_ms;        /* length of the mask after its direct sound; INFINITY = whole mask */
    struct tar_source *tar; /* input and output are members of tar files; NULL: they are files */
    size_t member;
};

struct manifest {
    struct manifest_row *rows;
    size_t n;
    char *unused;             /* columns that batch does not know, "speaker, text"; NULL = none */
    struct text_arena *texts; /* the rows' strings */
    size_t capacity;          /* allocated rows */
    struct tar_source *tars;
};

struct manifest_defaults { /* values of the columns that a row leaves out */
    double gain;
    enum range_choice tail;
    enum level level;
    uint64_t seed;
    const char *path;      /* NULL = none */
    const char *extension; /* extension of outputs without a name; NULL = that of the input */
    const char *members;   /* pattern of sounds in tar files: tar_input_choose */
};

/* Reads a list. path: "-" is standard input. false: why has the reason, with the line. */
bool manifest_read(struct manifest *manifest, const char *path, const struct manifest_defaults *defaults, char *why,
                   size_t cap);

/* Makes a list from two patterns. pairs: "all", "zip" or "random:N" (N masks drawn for every input). */
bool manifest_pair(struct manifest *manifest, const char *inputs, const char *masks, const char *pairs,
                   const struct manifest_defaults *defaults, char *why, size_t cap);

void manifest_free(struct manifest *manifest);

/* The number of a row from 1 on, as in the user's list without its header and blank lines. */
static inline size_t manifest_row_number(const struct manifest *manifest, const struct manifest_row *row)
{
    return (size_t)(row - manifest->rows) + 1;
}

/* The files that build a list call these functions. manifest_row_add adds a row with the defaults; NULL: no memory.
 * manifest_no_memory writes the error, and returns false. */
struct manifest_row *manifest_row_add(struct manifest *manifest, const struct manifest_defaults *defaults);
bool manifest_no_memory(char *why, size_t cap);

/* ---- the names of outputs --------------------------------------------------------------------- */

/* Keeps the name without empty components and ".", so that two names of one file are equal. NULL = no memory. */
const char *output_keep(struct manifest *manifest, const char *output);

bool output_is_journal(const char *output);
bool output_stays_below(const char *output); /* is it below the folder of the outputs? */

/* Names the outputs of the rows without a name; a name that is not unique gets the number of the row. Two rows that
 * name the same output are an error. extension: NULL = the input's. false: why has the reason. */
bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap);

#endif
