/* device - the properties of the device, the errors of the runtime's calls, and the limits of a launch. */
#include "emulator.h"

#include "cuda.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { /* of sm_90 */
    SHARED_DEFAULT = 48 << 10,
    SHARED_OF_SM = 228 << 10,
    THREADS_OF_SM = 2048,
    BLOCKS_OF_SM = 32
};
enum { RUNTIME_VERSION = CUDART_VERSION };

static std::recursive_mutex &mutex_of_all()
{
    static auto *mutex = new std::recursive_mutex; /* engines may be closed by a destructor */
    return *mutex;
}

static std::atomic<int> n_waiting;

std::unique_lock<std::recursive_mutex> runtime_lock()
{
    n_waiting++;
    std::unique_lock<std::recursive_mutex> lock(mutex_of_all());
    while (fault_now().is_stuck) runtime_yield();
    n_waiting--;
    return lock;
}

void runtime_yield()
{
    mutex_of_all().unlock();
    usleep(100);
    mutex_of_all().lock();
}

bool runtime_is_wanted() { return n_waiting > 0; }

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

const fault &fault_now()
{
    enum { AGE_NS = 1000000 };
    static const char *const path = getenv("CUDA_ON_CPU_FAULT");
    static struct fault now = {false, false, false, 1};
    static int64_t read_ns = -AGE_NS;
    timespec t;
    char text[32] = "";
    if (!path) return now;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t ns = t.tv_sec * 1000000000LL + t.tv_nsec;
    if (ns - read_ns < AGE_NS) return now;
    read_ns = ns;
    now = {false, false, false, 1};
    if (FILE *file = fopen(path, "r")) {
        if (!fgets(text, sizeof text, file)) text[0] = 0;
        fclose(file);
    }
    now.is_lost = strcmp(text, "lost") == 0;
    now.is_stuck = strcmp(text, "stuck") == 0;
    now.hangs = now.is_stuck || strcmp(text, "hangs") == 0;
    if (sscanf(text, "slow %lf", &now.slowness) == 1 || now.is_lost || now.hangs || !text[0]) return now;
    device_fault("%s: \"%s\" is not a fault", path, text);
}

/* ---- chance ------------------------------------------------------------------------------------------------------ */

uint64_t device_seed()
{
    static const uint64_t seed = (uint64_t)setting("CUDA_ON_CPU_SEED", 1);
    return seed;
}

unsigned device_random(unsigned n)
{
    static uint64_t state = device_seed() * 0x9E3779B97F4A7C15u + 0x1234567u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return n ? (unsigned)((state * 0x2545F4914F6CDD1Du) >> 32) % n : 0;
}

device_order::device_order(size_t n_) : n(n_), at(0), stride(1)
{
    if (n < 2) {
        stride = 0;
        return;
    }
    at = device_random((unsigned)n);
    do stride = 1 + device_random((unsigned)(n - 1));
    while (std::gcd(stride, n) != 1);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static thread_local cudaError_t last_error;
static thread_local int current_device;

cudaError_t remember(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

static const struct {
    cudaError_t error;
    const char *text;
} errors[] = {{cudaSuccess, "no error"},
              {cudaErrorInvalidValue, "invalid argument"},
              {cudaErrorMemoryAllocation, "out of memory"},
              {cudaErrorInvalidConfiguration, "invalid configuration argument"},
              {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
              {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
              {cudaErrorNoDevice, "no CUDA-capable device is detected"},
              {cudaErrorInvalidDevice, "invalid device ordinal"},
              {cudaErrorInvalidResourceHandle, "invalid resource handle"},
              {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
              {cudaErrorNotReady, "device not ready"},
              {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
              {cudaErrorLaunchFailure, "unspecified launch failure"}};

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &e : errors)
        if (e.error == error) return e.text;
    return "unrecognized error code";
}

void device_fault(const char *format, ...)
{
    char what[512], where[256] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const bool in_kernel = grid_where(where, sizeof where);
    printf("FAIL cuda_on_cpu: %s%s%s (CUDA_ON_CPU_SEED=%llu)\n", what, in_kernel ? "\n    in " : "", where,
           (unsigned long long)device_seed());
    fflush(stdout);
    abort();
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

int device_current() { return current_device; }
double device_haste() { return (double)setting("CUDA_ON_CPU_HASTE", 1); }
size_t device_bytes() { return (size_t)setting("CUDA_ON_CPU_MIB", 2048) << 20; }
static int n_devices() { return (int)setting("CUDA_ON_CPU_DEVICES", 1); }
static int driver_version() { return (int)setting("CUDA_ON_CPU_DRIVER", RUNTIME_VERSION); }
static int n_sm() { return (int)setting("CUDA_ON_CPU_SMS", 4); }
static int shared_optin() { return (int)setting("CUDA_ON_CPU_SHARED_KIB", 227) << 10; }
static int capability() { return (int)setting("CUDA_ON_CPU_CAPABILITY", 9); }

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = n_devices();
    if (driver_version() < RUNTIME_VERSION) return *n = 0, remember(cudaErrorInsufficientDriver);
    return remember(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= n_devices()) return remember(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (device < 0 || device >= n_devices()) return remember(cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "CUDA on the CPU");
    size_t free_bytes;
    cudaMemGetInfo(&free_bytes, &prop->totalGlobalMem);
    prop->major = capability();
    prop->multiProcessorCount = n_sm();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    if (device < 0 || device >= n_devices()) return remember(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = n_sm(); break;
    case cudaDevAttrKernelExecTimeout: *value = 0; break;
    case cudaDevAttrCanMapHostMemory: *value = 1; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = 1 << 20; break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability(); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = shared_optin(); break;
    case cudaDevAttrHostRegisterSupported: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrMpsEnabled: *value = 0; break;
    case cudaDevAttrHostNumaId: *value = -1; break;
    default: return remember(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) { return *version = driver_version(), cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = RUNTIME_VERSION, cudaSuccess; }

/* ---- green contexts: they hold, but grids have no multiprocessors here ------------------------------------------- */

enum { SPLIT_STEP = 4 }; /* the driver rounds groups of multiprocessors up to multiples of it */

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **call, unsigned version, unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        void *call;
    } calls[] = {{"cuDeviceGet", (void *)cuDeviceGet},
                 {"cuDeviceGetDevResource", (void *)cuDeviceGetDevResource},
                 {"cuDevSmResourceSplitByCount", (void *)cuDevSmResourceSplitByCount},
                 {"cuDevResourceGenerateDesc", (void *)cuDevResourceGenerateDesc},
                 {"cuGreenCtxCreate", (void *)cuGreenCtxCreate},
                 {"cuGreenCtxStreamCreate", (void *)cuGreenCtxStreamCreate}};
    *call = NULL;
    if (version > (unsigned)driver_version()) return remember(cudaErrorInvalidValue);
    for (const auto &c : calls)
        if (setting("CUDA_ON_CPU_GREEN", 1) && strcmp(c.name, name) == 0) *call = c.call;
    *result = *call ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

CUresult cuDeviceGet(CUdevice *device, int number) { return *device = number, CUDA_SUCCESS; }

CUresult cuDeviceGetDevResource(CUdevice, CUdevResource *resource, CUdevResourceType type)
{
    *resource = {type, {(unsigned)n_sm()}};
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned *n_groups, const CUdevResource *all,
                                     CUdevResource *rest, unsigned, unsigned min_count)
{
    const unsigned n = (min_count + SPLIT_STEP - 1) / SPLIT_STEP * SPLIT_STEP, n_all = all->sm.smCount;
    if (n > n_all) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *n_groups = 1;
    groups[0] = {CU_DEV_RESOURCE_TYPE_SM, {n}};
    *rest = {n < n_all ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID, {n_all - n}};
    return CUDA_SUCCESS;
}

/* A description is its number of multiprocessors; a context is its description. */
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned n)
{
    if (n != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM || !resources->sm.smCount) return CUDA_ERROR_INVALID_VALUE;
    *description = (CUdevResourceDesc)(size_t)resources->sm.smCount;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice, unsigned flags)
{
    *context = (CUgreenCtx)description;
    return flags == CU_GREEN_CTX_DEFAULT_STREAM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx context, unsigned flags, int priority)
{
    if (!context || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const cudaError_t e = cudaStreamCreateWithPriority(stream, flags, priority);
    return e == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static std::map<const void *, int> &shared_allowed()
{
    static auto *allowed = new std::map<const void *, int>;
    return *allowed;
}

static int shared_allowed_to(const void *entry)
{
    const auto found = shared_allowed().find(entry);
    return found == shared_allowed().end() ? (int)SHARED_DEFAULT : found->second;
}

cudaError_t cuda_func_attributes(struct cudaFuncAttributes *attributes, const void *entry)
{
    auto lock = runtime_lock();
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 64;
    attributes->maxDynamicSharedSizeBytes = shared_allowed_to(entry);
    attributes->ptxVersion = 10 * capability();
    return cudaSuccess;
}

cudaError_t cuda_func_attribute(const void *entry, enum cudaFuncAttribute attribute, int value)
{
    auto lock = runtime_lock();
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > shared_optin())
        return remember(cudaErrorInvalidValue);
    shared_allowed()[entry] = value;
    return cudaSuccess;
}

cudaError_t cuda_occupancy(int *blocks, const void *entry, int threads, size_t shared)
{
    auto lock = runtime_lock();
    *blocks = 0;
    if (threads < 1 || threads > 1024) return remember(cudaErrorInvalidValue);
    if (shared > (size_t)shared_allowed_to(entry)) return cudaSuccess;
    *blocks = std::min({(int)BLOCKS_OF_SM, THREADS_OF_SM / ((threads + 31) / 32 * 32),
                        (int)(SHARED_OF_SM / (shared + 1024))});
    return cudaSuccess;
}

cudaError_t launch_check(const cuda_grid &grid, const void *entry, int max_threads)
{
    const dim3 g = grid.grid, b = grid.block;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
    if (!b.x || !b.y || !b.z || b.x > 1024 || b.y > 1024 || b.z > 64 || (size_t)b.x * b.y * b.z > 1024)
        return cudaErrorInvalidConfiguration;
    if (max_threads && b.x * b.y * b.z > (unsigned)max_threads) return cudaErrorInvalidValue;
    if (grid.shared > (size_t)shared_allowed_to(entry)) return cudaErrorInvalidValue;
    return cudaSuccess;
}
