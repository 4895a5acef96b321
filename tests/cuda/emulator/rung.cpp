/* rung - the program of `make rung` without a GPU: checks the rung that it is linked with, and counts the work of a
 * launch. */
#include "emulator.h"
#include "kernels/ladder/ladder_check.h"

#include <stdio.h>

static const char *count(const struct rung *rung, int taps)
{
    const struct shape shape = {taps, 4096, 1, SHARED};
    struct grid_counts n = {};
    int n_ran;
    grid_counts = &n;
    const char *why = ladder_check(&rung, 1, &shape, 128, 1, &n_ran);
    grid_counts = NULL;
    if (!why && n_ran)
        printf("  %d taps x %ld frames: %lu launch%s, %lu blocks of %lu threads; a block passes %lu barriers and "
               "writes %lu floats of shared memory\n",
               taps, shape.frames, n.launches, n.launches == 1 ? "" : "es", n.blocks, n.threads / n.blocks,
               n.barriers / n.blocks, n.shared_floats);
    return why;
}

int main()
{
    int n, n_shapes;
    const struct rung *const *rungs = ladder_rungs(&n);
    for (int i = 0; i < n; i++) {
        printf("rung %d, %s: %s\n", rungs[i]->number, rungs[i]->name, rungs[i]->idea);
        const char *why = ladder_check_rung(rungs[i], &n_shapes);
        if (!why)
            printf("  ok: as in float64 in the book's exercises and in %d shapes, on the emulator\n", n_shapes);
        for (int taps : {11, 511})
            if (!why) why = count(rungs[i], taps);
        if (why) return printf("  wrong: %s\n", why), 1;
    }
    return 0;
}
