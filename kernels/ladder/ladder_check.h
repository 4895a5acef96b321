/* ladder_check - compares rungs with a sum in float64, for the test, `haloconv-ladder --rung` and `make rung`. */
#ifndef HALOCONV_LADDER_CHECK_H
#define HALOCONV_LADDER_CHECK_H

#include "ladder.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shape {
    int taps;
    long frames;
    int channels; /* outputs */
    enum sharing sharing;
};
extern const char *const sharing_name[]; /* "shared", "own", "bank" */

/* The task of a shape, without its memory; pitch_unit: rows begin at multiples of it, in frames. */
struct task shape_task(const struct shape *shape, int pitch_unit);

/* Each function returns NULL, or the first fault, in static memory. */

/* Runs the rungs that accept the shape, *n_ran of n, on noise. pitch_unit: as in shape_task. */
const char *ladder_check(const struct rung *const *rungs, int n, const struct shape *shape, int pitch_unit,
                         uint64_t seed, int *n_ran);
/* Exercises of the book, whose outputs must be exact to 1e-4. */
const char *ladder_check_exercises(const struct rung *const *rungs, int n);
/* The exercises, and 64 shapes at the edges of tiles, chunks and masks; the rung accepts *n_shapes of them. */
const char *ladder_check_rung(const struct rung *rung, int *n_shapes);

#ifdef __cplusplus
}
#endif
#endif
