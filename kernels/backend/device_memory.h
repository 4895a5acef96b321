/* device_memory - memory on the device. An owner adds up the sizes of its buffers, then allocates them at once. The
 * memory of freed masks is kept for the next mask. */
#ifndef HALOCONV_DEVICE_MEMORY_H
#define HALOCONV_DEVICE_MEMORY_H

#include "dsp/base/error.h"

#include <cuda_runtime.h>
#include <stddef.h>

/* Returns the next n bytes of a region at base and advances *used. base NULL: only counts, returns NULL. */
void *device_cut(void *base, size_t *used, size_t n);

/* Wait for a stream or an event, for set-up while audio runs. cudaStreamSynchronize and cudaEventSynchronize poll
 * without a pause and delay the launches of other threads: with masks of 256 x 256 x 1 s made in a loop, the median
 * time of an audio call was 215 us. */
cudaError_t device_wait(cudaStream_t stream);
cudaError_t device_wait_event(cudaEvent_t event);

/* Makes a stream. urgent: with the highest priority, else with the lowest. */
int device_stream_make(cudaStream_t *stream, bool urgent, struct reason *why);

/* Allocates bytes. HC_ENOMEM: the line has the size needed and the size free. what: the owner, such as "the engine". */
int device_alloc(void **p, size_t bytes, const char *what, struct reason *why);

/* The memory of freed masks. It is not freed at once, because cudaFree waits for the device, and audio would wait too.
 * One thread at a time uses a store. */
struct kept_memory;
struct device_store { struct kept_memory *newest; }; /* a list, newest first; all zero: empty */

/* Allocates memory for a mask: kept memory of *got >= bytes, after a wait until no work uses it, or new memory. */
int device_store_alloc(struct device_store *store, void **p, size_t *got, size_t bytes, struct reason *why);
/* Keeps the memory of a freed mask. Work already in the stream may still use the memory. NULL is allowed. */
void device_store_keep(struct device_store *store, void *p, size_t bytes, cudaStream_t stream);
void device_store_clear(struct device_store *store);

#endif
