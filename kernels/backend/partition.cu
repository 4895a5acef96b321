#include "partition.h"

#include "cuda_error.h"
#include "device_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#if CUDART_VERSION >= 12050 /* older toolkits do not declare the calls */
#include <cuda.h>
#endif

struct partition {
    bool is_tried;
    int n_sm; /* 0: no partition */
    char missing[48];
    struct CUgreenCtx_st *context; /* the driver's CUgreenCtx */
    void *stream_create;           /* the driver's cuGreenCtxStreamCreate */
};

static pthread_mutex_t partitions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct partition partitions[MAX_DEVICES];

#if CUDART_VERSION >= 12050
/* Finds a call of the driver as of CUDA `version`. The module is not linked with the driver, which may be older. */
template <class Call> static bool call_find(const char *name, unsigned version, Call *call)
{
    enum cudaDriverEntryPointQueryResult found;
    *call = NULL;
    if (cudaGetDriverEntryPointByVersion(name, (void **)call, version, cudaEnableDefault, &found) != cudaSuccess)
        cudaGetLastError();
    return *call != NULL;
}

/* Splits off the last n_wanted multiprocessors or, because the driver rounds the first group up, a few more. */
static CUresult rest_find(decltype(&cuDevSmResourceSplitByCount) split, const CUdevResource *all, int n_wanted,
                          CUdevResource *rest)
{
    CUresult e = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    for (int n_first = (int)all->sm.smCount - n_wanted; n_first > 0; n_first--) {
        CUdevResource first;
        unsigned n_groups = 1;
        e = split(&first, &n_groups, all, rest, 0, (unsigned)n_first);
        if (e != CUDA_SUCCESS || n_groups != 1) continue; /* rounded up, it is more than the device has */
        if (rest->type == CU_DEV_RESOURCE_TYPE_SM && (int)rest->sm.smCount >= n_wanted) return e;
        e = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    return e;
}

static void partition_make(struct partition *p, int device, long n_wanted)
{
    decltype(&cuDeviceGet) get;
    decltype(&cuDeviceGetDevResource) get_resource;
    decltype(&cuDevSmResourceSplitByCount) split;
    decltype(&cuDevResourceGenerateDesc) generate;
    decltype(&cuGreenCtxCreate) create;
    if (!call_find("cuDeviceGet", 2000, &get) || !call_find("cuDeviceGetDevResource", 12040, &get_resource) ||
        !call_find("cuDevSmResourceSplitByCount", 12040, &split) ||
        !call_find("cuDevResourceGenerateDesc", 12040, &generate) || !call_find("cuGreenCtxCreate", 12040, &create) ||
        !call_find("cuGreenCtxStreamCreate", 12050, &p->stream_create)) {
        snprintf(p->missing, sizeof p->missing, "the driver has no green contexts");
        return;
    }
    CUdevice number;
    CUdevResource all = {}, rest = {};
    CUdevResourceDesc description;
    CUresult e = get(&number, device);
    if (e == CUDA_SUCCESS) e = get_resource(number, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (e == CUDA_SUCCESS && (n_wanted < 1 || n_wanted >= (long)all.sm.smCount)) {
        snprintf(p->missing, sizeof p->missing, "HALOCONV_PARTITION must be 1 to %d", (int)all.sm.smCount - 1);
        return;
    }
    if (e == CUDA_SUCCESS) e = rest_find(split, &all, (int)n_wanted, &rest);
    if (e == CUDA_SUCCESS) e = generate(&description, &rest, 1);
    if (e == CUDA_SUCCESS) e = create(&p->context, description, number, CU_GREEN_CTX_DEFAULT_STREAM);
    if (e == CUDA_SUCCESS)
        p->n_sm = (int)rest.sm.smCount;
    else
        snprintf(p->missing, sizeof p->missing, "the driver's error %d", (int)e);
}

static int green_stream_make(const struct partition *p, cudaStream_t *stream, bool urgent, struct reason *why)
{
    int lowest, highest;
    const auto create = (decltype(&cuGreenCtxStreamCreate))p->stream_create;
    TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    const CUresult e = create(stream, p->context, CU_STREAM_NON_BLOCKING, urgent ? highest : lowest);
    if (e == CUDA_SUCCESS) return HC_OK;
    return fail(HC_EDEVICE, why, "cuda: cuGreenCtxStreamCreate failed: error %d; unset HALOCONV_PARTITION", (int)e);
}
#else
static void partition_make(struct partition *p, int, long)
{
    snprintf(p->missing, sizeof p->missing, "built with a CUDA before 12.5");
}

static int green_stream_make(const struct partition *, cudaStream_t *stream, bool urgent, struct reason *why)
{
    return device_stream_make(stream, urgent, why);
}
#endif

/* Returns the device's partition. NULL: none was asked for. */
static const struct partition *partition_of(int device)
{
    const char *text = getenv("HALOCONV_PARTITION");
    if (!text || !text[0] || device < 0 || device >= MAX_DEVICES) return NULL;
    struct partition *p = &partitions[device];
    pthread_mutex_lock(&partitions_lock);
    if (!p->is_tried) {
        char *end;
        const long n = strtol(text, &end, 10);
        p->is_tried = true;
        partition_make(p, device, *end ? 0 : n);
    }
    pthread_mutex_unlock(&partitions_lock);
    return p;
}

int partition_size(int device, const char **missing)
{
    const struct partition *p = partition_of(device);
    *missing = p ? p->missing : "";
    return p ? p->n_sm : 0;
}

int live_sm_count(int device, int *n_sm, struct reason *why)
{
    const char *missing;
    *n_sm = partition_size(device, &missing);
    if (!*n_sm) TRY(cudaDeviceGetAttribute(n_sm, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    return HC_OK;
}

int live_stream_make(cudaStream_t *stream, bool urgent, struct reason *why)
{
    int device;
    TRY(cudaGetDevice(&device), "cudaGetDevice");
    const struct partition *p = partition_of(device);
    return p && p->n_sm ? green_stream_make(p, stream, urgent, why) : device_stream_make(stream, urgent, why);
}
