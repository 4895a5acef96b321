/* backends - the list of the backends: those in the library, and that of the GPU module once it is loaded. A test adds
 * its own. */
#ifndef HALOCONV_BACKENDS_H
#define HALOCONV_BACKENDS_H

#include "dsp/device/backend.h"

/* The backend with this name in hc_config.backend, without a device number; the last one added, if several have the
 * name. NULL: there is none, or the GPU module with it is not loaded. [rt] */
const struct backend *backend_find(const char *name);

/* The backend "cuda" for a caller that asks for a GPU: loads the GPU module if need be. NULL: `why` says what is
 * missing. [setup] */
const struct backend *backend_gpu(struct reason *why);

/* The same for "auto", which loads the module only if gpu_is_likely(). NULL: no GPU module. [setup] */
const struct backend *backend_gpu_likely(void);

/* Backend i of the list. NULL: there is no backend i. [rt] */
const struct backend *backend_at(int i);

/* Adds a backend, which replaces an older one of the same name. Call it before any engine is opened: it takes no lock.
 * [setup] */
void backend_add(const struct backend *backend);

#endif
