/* scene_memory - zeroed memory for what the engine thread touches of each source in every block. */
#ifndef HALOCONV_SCENE_MEMORY_H
#define HALOCONV_SCENE_MEMORY_H

#include <stddef.h>

/* Aligned to cache lines; on huge pages if there is much of it and the system has them: with 8,192 sources each source
 * would be a TLB miss. NULL: no memory. free() gives it back. [setup] */
void *scene_memory(size_t n, size_t size);

#endif
