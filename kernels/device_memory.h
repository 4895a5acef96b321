/* device_memory - memory on the device: counted first, then taken in one piece, and kept when it is given back. */
#ifndef HALOCONV_DEVICE_MEMORY_H
#define HALOCONV_DEVICE_MEMORY_H

#include <cuda_runtime.h>
#include <stddef.h>

/* Cut the next n bytes off a region at base; with base NULL only the size is counted. */
void *device_cut(void *base, size_t *used, size_t n);

/* Wait for a stream or an event as set-up must beside audio: cudaStreamSynchronize and its kind look without a pause and
 * hold up the launches of other threads meanwhile (256 x 256 x 1 s made without end: p50 of the audio 215 us). */
cudaError_t device_wait(cudaStream_t stream);
cudaError_t device_wait_event(cudaEvent_t event);

/* Take bytes, or HC_ENOMEM with what is needed and what there is. what: "the engine". */
int device_alloc(void **p, size_t bytes, const char *what, char *why, size_t cap);

/* Memory of masks that were given up. It is not freed at once: cudaFree waits for the device, and audio would wait with it.
 * One thread at a time. */
struct device_piece;
struct device_store { struct device_piece *pieces; }; /* newest first; all zero = empty                              */

/* Take bytes for a mask: a piece of about the size (*got bytes), once no work uses it any more, or new. */
int device_take(struct device_store *store, void **p, size_t *got, size_t bytes, char *why, size_t cap);
/* Give back; work that stands in the stream now may still use it. NULL is allowed. */
void device_give(struct device_store *store, void *p, size_t bytes, cudaStream_t stream);
void device_store_clear(struct device_store *store);

#endif
