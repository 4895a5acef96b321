/* memory - zeroed floats for spectra and histories: aligned to cache lines, large ones on huge pages where the system
 * has them, which saves a miss of the address cache every 4 KiB of a mask that does not fit into the processor's. */
#ifndef HALOCONV_MEMORY_H
#define HALOCONV_MEMORY_H

#include <stddef.h>

/* [n], 0 counts as 1; NULL when there is no more. free() gives them back. [setup] */
float *memory_floats(size_t n);

/* The same for what every block of audio touches: small ones share huge pages with those of other engines, so that
 * hundreds of small engines are as few pages as one large engine. memory_place_free gives them back; NULL is allowed.
 * [setup], any thread */
float *memory_place(size_t n);
void memory_place_free(float *floats);

#endif
