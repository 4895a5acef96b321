/* draw - finds the files of a pattern, and draws one of them by a seed. The same files and seed draw the same file on
 * every machine. Main thread only.
 */
#ifndef DRAW_H
#define DRAW_H

#include "host/splitmix64.h"

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the files of a pattern, sorted by bytes; {000..099} stands for a hundred numbers. false: why has the reason;
 * else the caller calls globfree. */
bool find_files(const char *pattern, glob_t *found, char *why, size_t cap);

enum draw_purpose { DRAW_MASK, DRAW_NOISE, DRAW_NOISE_START, DRAW_PATH };

/* The draws of one seed do not depend on one another. */
static inline uint64_t draw_number(uint64_t seed, enum draw_purpose purpose)
{
    return purpose == DRAW_MASK ? splitmix64(seed) : splitmix64(splitmix64(seed) + (uint64_t)purpose);
}

struct draw { /* the last pattern and its files: most rows of a list have the same pattern; start with zeros */
    char *pattern;
    glob_t found;
};

/* Is the name a pattern, and not the name of a file? Then one of the pattern's files is drawn. */
bool draw_is_pattern(const char *name);

/* Returns the name itself, or for a pattern one of its files. The result is valid until the next call. NULL: why has
 * the reason. */
const char *draw_file(struct draw *draw, const char *name, uint64_t number, char *why, size_t cap);
void draw_free(struct draw *draw);

#endif
