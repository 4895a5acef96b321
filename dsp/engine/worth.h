/* worth - is a GPU worth taking for an engine? Pure: by the costs of both sides; no device. */
#ifndef HALOCONV_WORTH_H
#define HALOCONV_WORTH_H

#include "plan.h"

#include <stdint.h>

struct worth {            /* what is to be convolved, and for how long                                      */
    struct plan_shape shape;
    const char *method;
    int rate;             /* Hz                                                                             */
    int64_t n_frames;     /* of a file; 0 = live, or nobody knows                                           */
    int n_processors;     /* that the CPU's plan is shared by; 1 for live                                   */
};

/* Could any GPU be? Where the CPU has nothing to do none is looked for: to start one takes tenths of a second. */
bool worth_a_look(const struct worth *worth, const struct plan_costs *cpu);

/* Is this one? measured: both costs are those of this machine, and live the smaller one wins. Where nobody has measured
 * the CPU must be busy for a third of the time as well. */
bool worth_the_gpu(const struct worth *worth, const struct plan_costs *cpu, const struct plan_costs *gpu,
                   bool measured);

#endif
