#include "device_memory.h"

#include "cuda_error.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { MAX_DEVICES = 64, PAUSE_NS = 20000 }; /* PAUSE_NS: between two queries */

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

cudaError_t device_stream_follow(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t ended;
    cudaError_t e = cudaEventCreateWithFlags(&ended, cudaEventDisableTiming);
    if (e != cudaSuccess) return e;
    e = cudaEventRecord(ended, other);
    if (e == cudaSuccess) e = cudaStreamWaitEvent(stream, ended, 0);
    cudaEventDestroy(ended);
    return e;
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */

struct memory_pools {
    bool is_open;
    cudaStream_t stream;        /* allocates and frees; NULL: the driver has no pools                           */
    cudaMemPool_t device, host; /* NULL: the driver has no such pool                                            */
};
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory_pools pools[MAX_DEVICES];

/* Makes a pool that keeps freed memory until device_free. */
static cudaMemPool_t pool_make(int device, enum cudaMemLocationType type, int id)
{
    cudaMemPool_t pool;
    struct cudaMemPoolProps properties = {};
    struct cudaMemAccessDesc access = {};
    uint64_t all = UINT64_MAX;
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = type;
    properties.location.id = id;
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = device;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    if (cudaMemPoolCreate(&pool, &properties) != cudaSuccess) return NULL;
    if (cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess &&
        cudaMemPoolSetAccess(pool, &access, 1) == cudaSuccess)
        return pool;
    cudaMemPoolDestroy(pool);
    return NULL;
}

static void pools_open(struct memory_pools *p, int device)
{
    int has_pools = 0, node = 0;
    cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device);
    cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device);
    if (has_pools && device_stream_make(&p->stream, false, NULL) == HC_OK) {
        p->device = pool_make(device, cudaMemLocationTypeDevice, device);
        p->host = pool_make(device, cudaMemLocationTypeHostNuma, node < 0 ? 0 : node);
    }
    cudaGetLastError(); /* without pools memory is allocated without them */
    p->is_open = true;
}

/* Returns the pools of the current device. */
static const struct memory_pools *pools_find(void)
{
    static const struct memory_pools none = {};
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES) return &none;
    pthread_mutex_lock(&pools_lock);
    if (!pools[device].is_open) pools_open(&pools[device], device);
    pthread_mutex_unlock(&pools_lock);
    return &pools[device];
}

/* Allocates memory that every stream may use. */
static cudaError_t pool_alloc(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    const cudaError_t e = cudaMallocFromPoolAsync(p, bytes, pool, stream);
    return e == cudaSuccess ? device_wait(stream) : e;
}

static void pool_free(void *p, cudaMemPool_t pool, cudaStream_t stream)
{
    cudaFreeAsync(p, stream);
    device_wait(stream);
    cudaMemPoolTrimTo(pool, 0);
}

int device_alloc(void **p, size_t bytes, const char *what, struct reason *why)
{
    const struct memory_pools *from = pools_find();
    uint64_t reserved = 0, used = 0; /* of the pool */
    size_t free_bytes, all;
    *p = NULL;
    TRY(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
    if (from->device) {
        TRY(cudaMemPoolGetAttribute(from->device, cudaMemPoolAttrUsedMemCurrent, &used), "cudaMemPoolGetAttribute");
        TRY(cudaMemPoolGetAttribute(from->device, cudaMemPoolAttrReservedMemCurrent, &reserved),
            "cudaMemPoolGetAttribute");
    }
    if (reserved > used) free_bytes += reserved - used;
    if (bytes > free_bytes)
        return fail(HC_ENOMEM, why,
                    "cuda: %s needs %.1f GB, but the device has %.1f GB, of which %.1f are free; lower max_taps or "
                    "block, or use the CPU",
                    what, (double)bytes * 1e-9, (double)all * 1e-9, (double)free_bytes * 1e-9);
    TRY(from->device ? pool_alloc(p, bytes, from->device, from->stream) : cudaMalloc(p, bytes), "cudaMalloc(%zu)",
        bytes);
    return HC_OK;
}

void device_free(void *p)
{
    const struct memory_pools *to = pools_find();
    if (p && to->device)
        pool_free(p, to->device, to->stream);
    else
        cudaFree(p);
}

void device_free_behind(void *p, cudaStream_t stream)
{
    const struct memory_pools *to = pools_find();
    if (!p) return;
    if (to->device && device_stream_follow(to->stream, stream) == cudaSuccess) {
        cudaFreeAsync(p, to->stream);
    } else {
        device_wait(stream);
        device_free(p);
    }
}

int device_alloc_host(void **p, size_t bytes, struct reason *why)
{
    const struct memory_pools *from = pools_find();
    *p = NULL;
    TRY(from->host ? pool_alloc(p, bytes, from->host, from->stream) : cudaHostAlloc(p, bytes, cudaHostAllocDefault),
        "cudaHostAlloc(%zu)", bytes);
    memset(*p, 0, bytes);
    return HC_OK;
}

void device_free_host(void *p)
{
    const struct memory_pools *to = pools_find();
    if (p && to->host)
        pool_free(p, to->host, to->stream);
    else
        cudaFreeHost(p);
}
