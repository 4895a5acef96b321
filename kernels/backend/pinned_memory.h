/* pinned_memory - host memory that a device copies from and to by DMA.
 *
 * cudaHostAlloc needs 0.6 ms a MiB, and blocks the driver calls of all other threads: eight engines of a batch that
 * opened at once with 64 MiB each had their memory after 300 ms. Here the system allocates the pages first, huge pages
 * if it has them, and the driver only pins them (for 64 MiB on an H200's host: 21 and 2 ms, cudaHostAlloc 39).
 */
#ifndef HALOCONV_PINNED_MEMORY_H
#define HALOCONV_PINNED_MEMORY_H

#include "dsp/base/error.h"

#include <stddef.h>

/* Allocates zeroed bytes, pinned for the current device. HC_ENOMEM, HC_EDEVICE. */
int pinned_alloc(void **p, size_t bytes, struct reason *why);
void pinned_free(void *p); /* NULL is allowed */

#endif
