/* backends - the list of the backends in this build. A test adds its own. */
#ifndef HALOCONV_BACKENDS_H
#define HALOCONV_BACKENDS_H

#include "dsp/engine/backend.h"

/* The backend with this name in hc_config.backend, without a device number; the last one added, if several have the
 * name. NULL: this build has none. [rt] */
const struct backend *backend_find(const char *name);

/* Backend i of the list. NULL: there is no backend i. [rt] */
const struct backend *backend_at(int i);

/* Adds a backend, which replaces an older one of the same name. Call it before any engine is opened: it takes no lock.
 * [setup] */
void backend_add(const struct backend *backend);

#endif
