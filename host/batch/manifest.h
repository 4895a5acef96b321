/* manifest - the list of a batch: which input goes through which mask to which output, and how.
 *
 * It comes from a file (CSV with a header, or an object of JSON a line) or from two patterns of names. It is the same
 * list for every process that reads it, whatever its share of the work.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include "host/files/tail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum level { LEVEL_NONE, LEVEL_PEAK, LEVEL_RMS };

struct job {
    const char *input, *mask;
    const char *output; /* below the folder of the outputs, with forward slashes */
    double gain;        /* linear */
    enum tail tail;
    enum level level;
    uint64_t seed;      /* chooses among masks where the mask is a pattern */
};

struct manifest {
    struct job *jobs;
    size_t n;
    char *unused; /* columns that nobody reads, "speaker, text"; NULL = none */
    struct text_block *texts; /* what the jobs' strings point into */
    size_t room;
};

struct manifest_defaults { /* what a row leaves out */
    double gain;
    enum tail tail;
    enum level level;
    uint64_t seed;
    const char *extension; /* of outputs without a name; NULL = the input's */
};

/* path: "-" is standard input. false: why has the reason, with the line. */
bool manifest_read(struct manifest *manifest, const char *path, const struct manifest_defaults *defaults, char *why,
                   size_t cap);

/* pairs: "all", "zip" or "random:N" (N masks drawn for every input). */
bool manifest_pair(struct manifest *manifest, const char *inputs, const char *masks, const char *pairs,
                   const struct manifest_defaults *defaults, char *why, size_t cap);

void manifest_free(struct manifest *manifest);

/* "none", "peak", "rms". */
bool level_parse(const char *text, enum level *level);

#endif
