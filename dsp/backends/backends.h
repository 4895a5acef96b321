/* backends - the list of the library's backends. It includes the GPU module's backend after the module is loaded. A
 * test adds its own backend. */
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

#endif
