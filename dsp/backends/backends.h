/* backends - the list of the library's backends; after it is loaded, the GPU module's backend too. A test adds its own
 * backend. */
#ifndef HALOCONV_BACKENDS_H
#define HALOCONV_BACKENDS_H

#include "dsp/device/backend.h"

/* The backend with this name in hc_config.backend, without a device number. If several backends have the name, returns
 * the one added last. NULL: no backend has it, or the GPU module that has it is not loaded. [rt] */
const struct backend *backend_find(const char *name);

/* The backend "cuda" for a caller that asks for a GPU. Loads the GPU module if it is not loaded. NULL: `why` names the
 * missing part. [setup] */
const struct backend *backend_gpu(struct reason *why);

/* The backend "cuda" for "auto". Loads the GPU module only if gpu_is_likely(). NULL: no GPU module. [setup] */
const struct backend *backend_gpu_likely(void);

/* Backend i of the list. NULL: there is no backend i. [rt] */
const struct backend *backend_at(int i);

/* Adds a backend, which replaces an older backend of the same name. The call does not lock: call it before any engine
 * is opened. [setup] */
void backend_add(const struct backend *backend);

#endif
