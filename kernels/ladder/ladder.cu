/* ladder - the list of rungs, in the order in which they are climbed. */
#include "ladder.h"

extern "C" {
extern const struct rung rung_basic, rung_constant, rung_halo, rung_halo_32, rung_cached_halo, rung_two_step,
    rung_cooperative, rung_texture, rung_shuffle, rung_coarsened, rung_unrolled, rung_grid2d, rung_register,
    rung_few, rung_tensor, rung_many, rung_overlap_save;

const struct rung *const *ladder_rungs(int *n)
{
    static const struct rung *const rungs[] = {
        &rung_basic,       &rung_constant, &rung_halo,    &rung_halo_32,   &rung_cached_halo,  &rung_two_step,
        &rung_cooperative, &rung_texture,  &rung_shuffle, &rung_coarsened, &rung_unrolled,     &rung_grid2d,
        &rung_register,    &rung_few,      &rung_tensor,  &rung_many,      &rung_overlap_save,
    };
    *n = sizeof rungs / sizeof *rungs;
    return rungs;
}
}
