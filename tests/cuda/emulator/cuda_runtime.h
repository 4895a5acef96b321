/* cuda_runtime - replaces CUDA's header of that name, so that g++ compiles kernels/ and tests run the kernels on the
 * CPU.
 *
 * The functions have the names, values and meaning of the CUDA runtime's documentation; device.cpp, memory.cpp and
 * streams.cpp define them. The second part, for C++ only, is the language of kernels: translate.py rewrites the syntax
 * that g++ does not have, and grid.cpp runs the threads. This header has only the functions that kernels/ uses: any
 * other does not compile until it is added here.
 */
#ifndef CUDA_ON_CPU_RUNTIME_H
#define CUDA_ON_CPU_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorLaunchTimeout = 702,
    cudaErrorHostMemoryNotRegistered = 713,
    cudaErrorLaunchFailure = 719
} cudaError_t;

#ifndef __cplusplus /* the part of the kernel language that C tests need */
typedef struct { float x, y; } __attribute__((aligned(8))) float2;
#endif

typedef struct CUstream_st *cudaStream_t; /* NULL: the legacy default stream */
typedef struct CUevent_st *cudaEvent_t;

#define CUDART_VERSION 13000

enum { cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventDisableTiming = 2 };
enum { cudaHostRegisterDefault = 0 };
enum { cudaHostAllocDefault = 0 };
enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice
};
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrKernelExecTimeout = 17,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrHostRegisterSupported = 99,
    cudaDevAttrMemoryPoolsSupported = 115,
    cudaDevAttrMpsEnabled = 133,
    cudaDevAttrHostNumaId = 134
};
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHostNuma = 3 };
enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtReadWrite = 3 };
enum cudaMemPoolAttr {
    cudaMemPoolReuseAllowInternalDependencies = 3,
    cudaMemPoolAttrReleaseThreshold = 4,
    cudaMemPoolAttrReservedMemCurrent = 5,
    cudaMemPoolAttrUsedMemCurrent = 7
};
struct cudaMemLocation { enum cudaMemLocationType type; int id; };
struct cudaMemAccessDesc { struct cudaMemLocation location; enum cudaMemAccessFlags flags; };
struct cudaMemPoolProps { enum cudaMemAllocationType allocType; struct cudaMemLocation location; };
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    int maxThreadsPerBlock, numRegs, maxDynamicSharedSizeBytes, ptxVersion;
    size_t sharedSizeBytes;
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDriverGetVersion(int *version); /* 0: no driver is installed */
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **call, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all);

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t n);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes);
cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

#ifdef __cplusplus
}

/* ---- the language of kernels ------------------------------------------------------------------------------------- */

#include <initializer_list>
#include <tuple>
#include <type_traits>

#define __host__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __global__
#define __constant__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))

struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

/* Of the running thread. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

static inline int min(int a, int b) { return a < b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline long min(long a, long b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }

static inline void sincospif(float x, float *s, float *c)
{
    const double turns = x - 2.0 * floor(0.5 * x); /* exact: 0 to 2 */
    *s = (float)sin(3.14159265358979323846 * turns);
    *c = (float)cos(3.14159265358979323846 * turns);
}
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T value) { *p = value; }
template <class T> static inline void __stcs(T *p, T value) { *p = value; }
static inline int __float2int_rn(float x)
{
    return x != x ? 0 : x >= 0x1p31f ? 0x7fffffff : x <= -0x1p31f ? -0x7fffffff - 1 : (int)nearbyintf(x);
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __brev(unsigned x)
{
    x = __builtin_bswap32(x);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    return (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
}
static inline float __uint_as_float(unsigned x) { float f; memcpy(&f, &x, sizeof f); return f; }
static inline unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, sizeof u); return u; }

/* No two threads run at once, so atomics are plain operations; there is no memory model. */
static inline void __threadfence() {}
template <class T> static inline T atomicAdd(T *p, T value) { const T was = *p; *p += value; return was; }
template <class T> static inline T atomicMax(T *p, T value)
{
    const T was = *p;
    *p = value > was ? value : was;
    return was;
}
static inline unsigned atomicInc(unsigned *p, unsigned most)
{
    const unsigned was = *p;
    *p = was >= most ? 0 : was + 1;
    return was;
}

void cuda_block_barrier(const char *file, int line);
void cuda_warp_barrier(unsigned lanes);
/* Each of `lanes` offers `bytes` (up to 16) at `mine` and receives those of lane `from`. */
void cuda_exchange(unsigned lanes, const void *mine, void *theirs, size_t bytes, unsigned from);
unsigned cuda_lane();
extern void *cuda_dynamic_shared; /* of the running block */
void cuda_poll();                 /* gives way to the other blocks now and then */
bool cuda_chance(unsigned n);     /* true at random, once in n calls; never with CUDA_ON_CPU_SEED=0 */
/* A variable in shared memory exists once, for the running block; grid.cpp fills it with NaN before each block. */
void *cuda_static_shared_bytes(size_t bytes);
template <class T> static inline T &cuda_static_shared() { return *(T *)cuda_static_shared_bytes(sizeof(T)); }
/* As cp.async: reads `from` when this thread calls cuda_copies_wait; `to` is undefined until then. */
void cuda_copy_later(void *to, const void *from, size_t bytes, size_t valid);
void cuda_copies_wait();

#define __syncthreads() cuda_block_barrier(__FILE__, __LINE__)
static inline void __syncwarp(unsigned lanes = ~0u) { cuda_warp_barrier(lanes); }
template <class T> static inline T cuda_shuffled(unsigned lanes, T value, unsigned from)
{
    T got;
    cuda_exchange(lanes, &value, &got, sizeof got, from);
    return got;
}
template <class T> static inline T __shfl_sync(unsigned lanes, T value, int from, int width = 32)
{
    const unsigned within = (unsigned)width - 1;
    return cuda_shuffled(lanes, value, (cuda_lane() & ~within) | ((unsigned)from & within));
}
template <class T> static inline T __shfl_xor_sync(unsigned lanes, T value, int bits, int width = 32)
{
    const unsigned lane = cuda_lane(), from = lane ^ (unsigned)bits;
    return cuda_shuffled(lanes, value, (from & ~(unsigned)(width - 1)) > lane ? lane : from);
}

static inline unsigned __ballot_sync(unsigned lanes, bool vote)
{
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) votes |= cuda_shuffled(lanes, (unsigned)vote, lane) << lane;
    return votes;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

struct cuda_grid {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

/* translate.py puts this call at the start of each kernel. A launch enters the kernel once, only to get its name. */
bool cuda_kernel_named(const void *entry, const char *name, int max_threads);
/* The work of each thread of a launch. std::function would take half of the compiler's time for a short kernel. */
struct cuda_thread {
    virtual void run() const = 0;
    virtual ~cuda_thread() {}
};
template <class Kernel, class... Args> struct cuda_call final : cuda_thread {
    const Kernel kernel;
    const std::tuple<Args...> kept;
    cuda_call(Kernel kernel_, const Args &...args) : kernel(kernel_), kept(args...) {}
    void run() const override { std::apply(kernel, kept); }
};
void cuda_kernel_launch(const cuda_grid &grid, const cuda_thread *thread); /* deletes `thread` in the end */

struct cuda_configured {
    cuda_grid grid;
    cuda_configured(dim3 grid_, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr)
        : grid{grid_, block, shared, stream} {}
    /* Arguments are copied at the launch, as on a device. */
    template <class Kernel, class... Args> void launch(Kernel kernel, const Args &...args) const
    {
        cuda_kernel_launch(grid, new cuda_call<Kernel, std::decay_t<Args>...>(kernel, args...));
    }
};

/* Programmatic dependent launch: a device may treat these launches as plain ones, as this one does. */
enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    int id;
    struct { int programmaticStreamSerializationAllowed; } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
template <class... Params, class... Args>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(Params...), Args &&...args)
{
    cuda_configured(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream)
        .launch(kernel, static_cast<std::decay_t<Params>>(args)...);
    return cudaGetLastError();
}

cudaError_t cuda_func_attributes(struct cudaFuncAttributes *attributes, const void *entry);
cudaError_t cuda_func_attribute(const void *entry, enum cudaFuncAttribute attribute, int value);
cudaError_t cuda_occupancy(int *blocks, const void *entry, int threads, size_t shared);
cudaError_t cuda_to_symbol(void *symbol, size_t symbol_bytes, const void *from, size_t bytes, size_t offset);

template <class F> static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, F *entry)
{
    return cuda_func_attributes(attributes, (const void *)entry);
}
template <class F> static inline cudaError_t cudaFuncSetAttribute(F *entry, enum cudaFuncAttribute attribute, int value)
{
    return cuda_func_attribute((const void *)entry, attribute, value);
}
template <class F>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *entry, int threads,
                                                                        size_t shared)
{
    return cuda_occupancy(blocks, (const void *)entry, threads, shared);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t bytes, size_t offset = 0)
{
    return cuda_to_symbol((void *)&symbol, sizeof symbol, from, bytes, offset);
}
template <class T> static inline cudaError_t cudaMalloc(T **p, size_t bytes) { return cudaMalloc((void **)p, bytes); }
template <class T> static inline cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned flags)
{
    return cudaHostAlloc((void **)p, bytes, flags);
}
#endif
#endif
