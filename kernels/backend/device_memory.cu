#include "device_memory.h"

#include "cuda_error.h"

#include "dsp/base/await.h"

#include <pthread.h>
#include <string.h>

enum {
    PAUSE_NS = 20000,     /* between two queries                                                            */
    COUNTED_NS = 1000000, /* a longer pause counts as this: the process was stopped                         */
    HANG_MS = 10000,      /* a device that needs longer hangs                                               */
    HUNG_MS = 100         /* while it hangs                                                                 */
};

void *device_cut(void *base, size_t *used, size_t n)
{
    void *p = base ? (char *)base + *used : NULL;
    *used += (n + 255) / 256 * 256;
    return p;
}

/* A device hangs from a wait that took too long until a wait succeeds, or the work that took too long has ended. */
struct hang {
    int is_set;        /* atomic */
    cudaEvent_t ended; /* behind that work; NULL: unknown. Under hangs_lock */
};
static pthread_mutex_t hangs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hang hangs[MAX_DEVICES];

struct wait {
    struct hang *hang;          /* of the device */
    cudaStream_t stream;        /* that has the work */
    int64_t last_ns, waited_ns; /* the last query; the time before it */
};

static struct wait wait_begin(cudaStream_t stream)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES) device = 0;
    struct hang *hang = hangs + device;
    if (__atomic_load_n(&hang->is_set, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&hangs_lock);
        if (hang->ended && cudaEventQuery(hang->ended) == cudaSuccess)
            __atomic_store_n(&hang->is_set, 0, __ATOMIC_RELAXED);
        cudaGetLastError();
        pthread_mutex_unlock(&hangs_lock);
    }
    return {hang, stream, 0, 0};
}

/* The device hangs, with the work that is in the stream now. */
static void hang_set(struct hang *hang, cudaStream_t stream)
{
    pthread_mutex_lock(&hangs_lock);
    if (!__atomic_exchange_n(&hang->is_set, 1, __ATOMIC_RELAXED)) {
        if (hang->ended) cudaEventDestroy(hang->ended);
        hang->ended = NULL;
        if (cudaEventCreateWithFlags(&hang->ended, cudaEventDisableTiming) == cudaSuccess &&
            cudaEventRecord(hang->ended, stream) != cudaSuccess) {
            cudaEventDestroy(hang->ended);
            hang->ended = NULL;
        }
        cudaGetLastError();
    }
    pthread_mutex_unlock(&hangs_lock);
}

/* Reads the result of a query. true: the work is done, has failed or takes too long; else pauses and returns false. */
static bool query_over(cudaError_t *query, struct wait *wait)
{
    const int max_ms = __atomic_load_n(&wait->hang->is_set, __ATOMIC_RELAXED) ? HUNG_MS : HANG_MS;
    if (*query != cudaErrorNotReady) {
        if (wait->last_ns) __atomic_store_n(&wait->hang->is_set, 0, __ATOMIC_RELAXED); /* it did work */
        return true;
    }
    cudaGetLastError();
    const int64_t ns = now_ns(), passed = wait->last_ns ? ns - wait->last_ns : 0;
    wait->last_ns = ns;
    wait->waited_ns += passed < COUNTED_NS ? passed : (int64_t)COUNTED_NS;
    if (wait->waited_ns > max_ms * 1000000LL) {
        hang_set(wait->hang, wait->stream);
        *query = cudaErrorLaunchTimeout;
        return true;
    }
    const struct timespec pause = {0, PAUSE_NS};
    nanosleep(&pause, NULL);
    return false;
}

cudaError_t device_wait(cudaStream_t stream)
{
    cudaError_t e;
    struct wait wait = wait_begin(stream);
    do e = cudaStreamQuery(stream);
    while (!query_over(&e, &wait));
    return e;
}

cudaError_t device_wait_event(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t e;
    struct wait wait = wait_begin(stream);
    do e = cudaEventQuery(event);
    while (!query_over(&e, &wait));
    return e;
}

bool device_hangs(cudaStream_t stream)
{
    return stream && device_wait(stream) == cudaErrorLaunchTimeout;
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
    cudaStream_t stream;        /* allocates, and frees what no work uses; NULL: the driver has no pools        */
    cudaStream_t behind;        /* frees what work may still use: an allocation does not wait for that work     */
    cudaMemPool_t device, host; /* NULL: the driver has no such pool                                            */
};
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory_pools pools[MAX_DEVICES];

/* Makes a pool that keeps freed memory until device_free. */
static cudaMemPool_t pool_make(int device, enum cudaMemLocationType type, int id)
{
    cudaMemPool_t pool;
    int waits = 0; /* an allocation may not wait for a free in another stream */
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
        cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &waits) == cudaSuccess &&
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
    if (has_pools && device_stream_make(&p->stream, false, NULL) == HC_OK &&
        device_stream_make(&p->behind, false, NULL) == HC_OK) {
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

/* Allocates memory that every stream may use. After a failure *p is NULL: a device that hangs keeps the memory. */
static cudaError_t pool_alloc(void **p, size_t bytes, cudaMemPool_t pool, const struct memory_pools *from)
{
    cudaError_t e = cudaMallocFromPoolAsync(p, bytes, pool, from->stream);
    if (e == cudaErrorMemoryAllocation) { /* memory that is about to be freed may suffice */
        cudaGetLastError();
        device_wait(from->behind);
        e = cudaMallocFromPoolAsync(p, bytes, pool, from->stream);
    }
    if (e == cudaSuccess) e = device_wait(from->stream);
    if (e != cudaSuccess) *p = NULL;
    return e;
}

static void pool_free(void *p, cudaMemPool_t pool, const struct memory_pools *to)
{
    cudaFreeAsync(p, to->stream);
    if (device_wait(to->stream) == cudaSuccess && device_wait(to->behind) == cudaSuccess) cudaMemPoolTrimTo(pool, 0);
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
    TRY(from->device ? pool_alloc(p, bytes, from->device, from) : cudaMalloc(p, bytes), "cudaMalloc(%zu)", bytes);
    return HC_OK;
}

void device_free(void *p)
{
    const struct memory_pools *to = pools_find();
    if (p && to->device)
        pool_free(p, to->device, to);
    else
        cudaFree(p);
}

void device_free_behind(void *p, cudaStream_t stream)
{
    const struct memory_pools *to = pools_find();
    if (!p) return;
    if (to->device && device_stream_follow(to->behind, stream) == cudaSuccess)
        cudaFreeAsync(p, to->behind);
    else if (!device_hangs(stream))
        device_free(p);
}

int device_alloc_host(void **p, size_t bytes, struct reason *why)
{
    const struct memory_pools *from = pools_find();
    *p = NULL;
    TRY(from->host ? pool_alloc(p, bytes, from->host, from) : cudaHostAlloc(p, bytes, cudaHostAllocDefault),
        "cudaHostAlloc(%zu)", bytes);
    memset(*p, 0, bytes);
    return HC_OK;
}

void device_free_host(void *p)
{
    const struct memory_pools *to = pools_find();
    if (p && to->host)
        pool_free(p, to->host, to);
    else
        cudaFreeHost(p);
}
