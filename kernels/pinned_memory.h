/* pinned_memory - memory of the host that a device copies from and to by itself.
 *
 * cudaHostAlloc takes 0.6 ms a MiB, and every other thread's calls of the driver wait meanwhile: eight engines of a batch
 * that open at once with 64 MiB each had their memory after 300 ms. Here the pages come from the system first, huge ones
 * where it has them, each thread its own; only to pin them is the driver's (H200's host: 64 MiB 21 and 2 ms, against 39).
 */
#ifndef HALOCONV_PINNED_MEMORY_H
#define HALOCONV_PINNED_MEMORY_H

#include <stddef.h>

/* Zeroed bytes for the current device, or HC_ENOMEM, HC_EDEVICE. */
int pinned_alloc(void **p, size_t bytes, char *why, size_t cap);
void pinned_free(void *p); /* NULL is allowed */

#endif
