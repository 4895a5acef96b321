/* backends - the list of the library's backends; finds the one that hc_config.backend asks for, by the rules of "auto"
 * (gpu_rules.h). The list includes the GPU module's backend after the module is loaded. A test adds its own backend. */
#ifndef HALOCONV_BACKENDS_H
#define HALOCONV_BACKENDS_H

#include "dsp/device/backend.h"

/* Finds a backend by its name in hc_config.backend, without a device number. If several backends have the name, returns
 * the one added last. NULL: no backend has it, or the GPU module that has it is not loaded. [rt] */
const struct backend *backend_find(const char *name);

/* Returns backend "cuda" for a caller that asks for a GPU. Loads the GPU module if it is not loaded. NULL: `why` names
 * the missing part. [setup] */
const struct backend *backend_gpu(struct reason *why);

/* Returns backend "cuda" for "auto". Loads the GPU module only if gpu_is_likely(). NULL: no GPU module. [setup] */
const struct backend *backend_gpu_likely(void);

/* Returns backend i of the list. NULL: there is no backend i. [rt] */
const struct backend *backend_at(int i);

/* Adds a backend, which replaces an older one of the same name. The call takes no lock: call it before any engine
 * is opened. [setup] */
void backend_add(const struct backend *backend);

/* Finds the backend and the device that hc_config.backend asks for. Fails with HC_EINVAL or HC_EUNSUPPORTED. [setup] */
int backend_choose(const hc_config *config, const struct backend **backend, int *device, struct reason *why);

/* Returns backend_resident instead of a GPU's backend for live blocks, where the name asks for it or it pays off
 * (gpu_rules.h). device < 0: by the costs of the GPU that was measured most recently. */
const struct backend *backend_resident_or(const struct backend *backend, int device, const hc_config *config);

/* Does the name ask for the resident kernel, so that launches may not replace it? */
bool backend_must_be_resident(const hc_config *config);

/* Returns the CPU backend for this config: backend_cpu for live blocks, backend_cpu_files for files. */
const struct backend *backend_cpu_for(const hc_config *config);

/* Returns the backend that convolves the first taps inside the call: `backend` itself, unless it is hybrid. */
const struct backend *backend_head(const struct backend *backend);

/* Returns the device of that backend: 0 for a head on the CPU. */
int backend_head_device(const struct backend *backend, int device);

/* Writes the text of hc_info.device. has_tail: the backend is hybrid, and the plan has a tail_plan. */
void backend_device_name(const struct backend *backend, int device, bool has_tail, char *name, size_t cap);

/* Returns the shape that a resolved config asks for. */
struct plan_shape config_shape(const hc_config *config);

/* ---- the rules of "auto" (gpu_rules.h). Pure functions: no device ----------------------------------------------- */

struct auto_task {
    struct plan_shape shape;
    const char *method;
    int rate;          /* Hz                                                                             */
    int64_t n_frames;  /* length of a file; 0: live, or unknown                                          */
    int n_processors;  /* processors that share the CPU's work; 1 for live                               */
    double sources_ns; /* cost of a frame of all moving sources on the CPU, if each always changes its
                             entry; 0: no sources                                                           */
};

/* Is the CPU busy enough to look for a GPU? Starting a GPU takes tenths of a second. */
bool auto_probes_gpu(const struct auto_task *task, const struct plan_costs *cpu);

struct auto_costs {
    const struct plan_costs *cpu, *gpu;
    const struct plan_costs *resident; /* of a resident head; NULL: the GPU has no resident kernel               */
    bool measured;     /* all of them were measured on this machine                                      */
};

enum auto_way { AUTO_CPU, AUTO_CUDA, AUTO_HYBRID };

/* Returns the backend that the rules choose. */
enum auto_way auto_choose(const struct auto_task *task, const struct auto_costs *costs);

#endif
