/* memory - zeroed floats for spectra and histories: aligned to cache lines, large ones on huge pages where the system
 * has them, which saves a miss of the address cache every 4 KiB of a mask that does not fit into the processor's. */
#ifndef HALOCONV_MEMORY_H
#define HALOCONV_MEMORY_H

#include <stddef.h>

/* [n], 0 counts as 1; NULL when there is no more. free() gives them back. [setup] */
float *memory_floats(size_t n);

#endif
