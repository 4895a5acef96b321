/* device_memory - streams, and memory of the device and of the host. An owner adds up the sizes of its buffers, then
 * allocates them at once. */
#ifndef HALOCONV_DEVICE_MEMORY_H
#define HALOCONV_DEVICE_MEMORY_H

#include "dsp/base/error.h"

#include <cuda_runtime.h>
#include <stddef.h>

enum { MAX_DEVICES = 64 };

/* Returns the next n bytes of a region at base and advances *used. base NULL: only counts, returns NULL. */
void *device_cut(void *base, size_t *used, size_t n);

/* Wait for a stream, or for an event that was recorded in a stream, for set-up while audio runs. cudaStreamSynchronize
 * and cudaEventSynchronize poll without a pause and delay the launches of other threads: with masks of 256 x 256 x 1 s
 * made in a loop, the median time of an audio call was 215 us. cudaErrorLaunchTimeout: the device hangs, its work has
 * not ended after 10 s. */
cudaError_t device_wait(cudaStream_t stream);
cudaError_t device_wait_event(cudaEvent_t event, cudaStream_t stream);
/* Waits for a stream. true: the device hangs, and what the stream's work uses must stay. NULL: false. */
bool device_hangs(cudaStream_t stream);

/* Makes a stream. urgent: with the highest priority, else with the lowest. */
int device_stream_make(cudaStream_t *stream, bool urgent, struct reason *why);

/* Work that is put into `stream` from now on waits until the work that is in `other` now has ended. */
cudaError_t device_stream_follow(cudaStream_t stream, cudaStream_t other);

/* ---- memory, of pools --------------------------------------------------------------------------------------------
 *
 * cudaFree and cudaFreeHost wait until the device is idle, and hold the driver's lock: audio would wait, too. A pool
 * frees memory without a wait for other work. Each device has one pool of its own memory and one of pinned host
 * memory. Calls are for the current device. */

/* Allocates bytes on the device. HC_ENOMEM: the line has the size needed and the size free. what: the owner, such as
 * "the engine". */
int device_alloc(void **p, size_t bytes, const char *what, struct reason *why);
/* Frees memory that no work uses any more, and gives the pool's vacant memory back. Waits up to 10 s for earlier calls
 * for the pool. NULL is allowed. */
void device_free(void *p);
/* Frees memory when the work that is in the stream now has ended. The pool keeps it for the next mask. NULL is allowed. */
void device_free_behind(void *p, cudaStream_t stream);
/* Allocates pinned host memory, filled with 0, that kernels read and write at any address. */
int device_alloc_host(void **p, size_t bytes, struct reason *why);
/* As device_free. */
void device_free_host(void *p);

#endif
