/* choose - which backend plays a config. */
#ifndef HALOCONV_CHOOSE_H
#define HALOCONV_CHOOSE_H

#include "backend.h"

/* By hc_config.backend: the backend and the number of its device. "auto" takes a GPU if that is worth it; it never
 * chooses "hybrid" (costs.h). Fails with HC_EINVAL, HC_EUNSUPPORTED. [setup] */
int backend_choose(const hc_config *config, const struct backend **backend, int *device, char *why, size_t cap);

/* The backend that plays a config's blocks in the place of `backend`: another one for files. */
const struct backend *backend_for(const hc_config *config, const struct backend *backend);
const struct backend *backend_cpu_for(const hc_config *config);

/* The backend that computes the first taps inside the call: itself, unless it is made of two. */
const struct backend *backend_near(const struct backend *backend);

/* What hc_info.device says. */
void backend_device_name(const struct backend *backend, int device, bool has_tail, char *name, size_t cap);

struct plan_shape config_shape(const hc_config *config);

/* ---- is a GPU worth it? Pure: by the costs of both sides; no device. --------------------------------------------- */

struct worth {            /* what is to be convolved, and for how long                                      */
    struct plan_shape shape;
    const char *method;
    int rate;             /* Hz                                                                             */
    int64_t n_frames;     /* of a file; 0 = live, or nobody knows                                           */
    int n_processors;     /* that the CPU's plan is shared by; 1 for live                                   */
};

/* Could any GPU be worth it? If the CPU is nearly idle, no GPU is looked for: to start one takes tenths of a second. */
bool worth_a_look(const struct worth *worth, const struct plan_costs *cpu);

/* Is this one? measured: both costs are those of this machine, and live the smaller one wins. Where nobody has measured
 * the CPU must be busy for a third of the time as well. */
bool worth_the_gpu(const struct worth *worth, const struct plan_costs *cpu, const struct plan_costs *gpu,
                   bool measured);

#endif
