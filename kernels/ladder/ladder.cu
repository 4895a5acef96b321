/* ladder - the list of rungs, in the order in which they are climbed. The symbols are weak: NULL in a program that lacks the
 * file of a rung. The emulator cannot run all rungs, and `make rung` links one. */
#include "ladder.h"

extern "C" {
extern const struct rung __attribute__((weak)) rung_basic, rung_constant, rung_halo, rung_halo_32, rung_cached_halo,
    rung_two_step, rung_cooperative, rung_texture, rung_shuffle, rung_coarsened, rung_unrolled, rung_grid_2d,
    rung_window, rung_register, rung_few, rung_tensor, rung_many, rung_overlap_save;

const struct rung *const *ladder_rungs(int *n)
{
    static const struct rung *const all[] = {
        &rung_basic,       &rung_constant, &rung_halo,    &rung_halo_32,   &rung_cached_halo, &rung_two_step,
        &rung_cooperative, &rung_texture,  &rung_shuffle, &rung_coarsened, &rung_unrolled,    &rung_grid_2d,
        &rung_window,      &rung_register, &rung_few,     &rung_tensor,    &rung_many,        &rung_overlap_save,
    };
    static const struct rung *linked[sizeof all / sizeof *all];
    *n = 0;
    for (const struct rung *rung : all)
        if (rung) linked[(*n)++] = rung;
    return linked;
}
}
