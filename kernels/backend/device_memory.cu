#include "device_memory.h"

#include "cuda_error.h"

#include <stdlib.h>
#include <time.h>

enum { KEPT_MAX = 8, PAUSE_NS = 20000 };  /* max. masks in a store; time between queries */

struct kept_memory {
    void *memory;
    size_t bytes;
    cudaEvent_t unused; /* recorded behind the last work that may use the memory */
    struct kept_memory *next;
};

void *device_cut(void *base, size_t *used, size_t n)
{
    void *p = base ? (char *)base + *used : NULL;
    *used += (n + 255) / 256 * 256;
    return p;
}

/* Reads the result of a query. true: the work is done or has failed; else pauses and returns false. */
static bool query_over(cudaError_t query)
{
    if (query != cudaErrorNotReady) return true;
    cudaGetLastError();
    const struct timespec pause = {0, PAUSE_NS};
    nanosleep(&pause, NULL);
    return false;
}

cudaError_t device_wait(cudaStream_t stream)
{
    cudaError_t e;
    do e = cudaStreamQuery(stream);
    while (!query_over(e));
    return e;
}

cudaError_t device_wait_event(cudaEvent_t event)
{
    cudaError_t e;
    do e = cudaEventQuery(event);
    while (!query_over(e));
    return e;
}

int device_stream_make(cudaStream_t *stream, bool urgent, struct reason *why)
{
    int lowest, highest;
    TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    TRY(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, urgent ? highest : lowest),
        "cudaStreamCreateWithPriority");
    return HC_OK;
}

int device_alloc(void **p, size_t bytes, const char *what, struct reason *why)
{
    size_t free_bytes, all;
    *p = NULL;
    TRY(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
    if (bytes > free_bytes)
        return fail(HC_ENOMEM, why,
                    "cuda: %s needs %.1f GB, but the device has %.1f GB, of which %.1f are free; lower max_taps or "
                    "block, or use the CPU",
                    what, (double)bytes * 1e-9, (double)all * 1e-9, (double)free_bytes * 1e-9);
    TRY(cudaMalloc(p, bytes), "cudaMalloc(%zu)", bytes);
    return HC_OK;
}

static void kept_free(struct kept_memory **link)
{
    struct kept_memory *kept = *link;
    *link = kept->next;
    cudaFree(kept->memory);
    cudaEventDestroy(kept->unused);
    free(kept);
}

void device_store_keep(struct device_store *store, void *p, size_t bytes, cudaStream_t stream)
{
    struct kept_memory *kept = p ? (struct kept_memory *)calloc(1, sizeof *kept) : NULL;
    if (kept && cudaEventCreateWithFlags(&kept->unused, cudaEventDisableTiming) == cudaSuccess) {
        cudaEventRecord(kept->unused, stream);
        kept->memory = p;
        kept->bytes = bytes;
        kept->next = store->newest;
        store->newest = kept;
    } else {
        free(kept);
        if (p) device_wait(stream);
        cudaFree(p);
    }
    struct kept_memory **link = &store->newest; /* if there are more than KEPT_MAX, free the oldest */
    for (int n = 0; *link && n < KEPT_MAX; n++) link = &(*link)->next;
    while (*link && cudaEventQuery((*link)->unused) == cudaSuccess) kept_free(link);
    cudaGetLastError(); /* clears cudaErrorNotReady, which is not an error here */
}

int device_store_alloc(struct device_store *store, void **p, size_t *got, size_t bytes, struct reason *why)
{
    for (struct kept_memory **link = &store->newest; *link; link = &(*link)->next) {
        struct kept_memory *kept = *link;
        if (kept->bytes < bytes || kept->bytes / 5 * 4 > bytes) continue;
        TRY(device_wait_event(kept->unused), "cudaEventQuery"); /* the wait lasts at most the rest of a hop */
        *p = kept->memory;
        *got = kept->bytes;
        kept->memory = NULL;
        kept_free(link);
        return HC_OK;
    }
    size_t free_bytes = 0, all;
    while (store->newest && cudaMemGetInfo(&free_bytes, &all) == cudaSuccess && free_bytes < bytes) {
        device_wait_event(store->newest->unused);
        kept_free(&store->newest);
    }
    cudaGetLastError();
    *got = bytes;
    return device_alloc(p, bytes, "the mask", why);
}

void device_store_clear(struct device_store *store)
{
    while (store->newest) kept_free(&store->newest);
}
