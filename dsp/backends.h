/* backends - the list of the backends that this build has. A test adds its own device to the list. */
#ifndef HALOCONV_BACKENDS_H
#define HALOCONV_BACKENDS_H

#include "dsp/engine/backend.h"

/* The backend that hc_config.backend asks for by this name, without a device number; the newest of its name. NULL: this
 * build has none. */
const struct backend *backend_find(const char *name);

/* The i-th backend, in the order in which they are listed. NULL: there is no i-th. */
const struct backend *backend_at(int i);

/* The backend takes the place of an older one of the same name. Before any engine is opened: no lock. [setup] */
void backend_add(const struct backend *backend);

#endif
