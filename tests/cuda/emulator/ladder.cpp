/* ladder - replaces kernels/ladder/ladder.cu by the list of rungs that run here: without textures, tensor cores and
 * PTX. */
#include "kernels/ladder/ladder.h"

extern "C" {
extern const struct rung rung_basic, rung_constant, rung_halo, rung_halo_32, rung_cached_halo, rung_two_step,
    rung_cooperative, rung_shuffle, rung_coarsened, rung_unrolled, rung_grid2d, rung_register, rung_few, rung_many;

const struct rung *const *ladder_rungs(int *n)
{
    static const struct rung *const rungs[] = {
        &rung_basic,    &rung_constant,    &rung_halo,    &rung_halo_32,   &rung_cached_halo,
        &rung_two_step, &rung_cooperative, &rung_shuffle, &rung_coarsened, &rung_unrolled,
        &rung_grid2d,   &rung_register,    &rung_few,     &rung_many,
    };
    *n = sizeof rungs / sizeof *rungs;
    return rungs;
}
}
