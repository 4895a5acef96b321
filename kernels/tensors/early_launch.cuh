/* early_launch - launches of kernels that begin while the kernel before them in the stream still runs (programmatic
 * dependent launch, CUDA C++ Programming Guide; sm_90). On older devices they are plain launches.
 *
 * A kernel that calls next_may_begin lets the blocks of the next one start as soon as they fit. A kernel that was
 * launched by launch_early calls previous_wait before it reads what the one before it wrote, and before it writes
 * anything that an earlier kernel may still use.
 */
#ifndef HALOCONV_EARLY_LAUNCH_CUH
#define HALOCONV_EARLY_LAUNCH_CUH

#include <cuda_runtime.h>

static __device__ __forceinline__ void next_may_begin()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Waits until the kernel before this one is complete and its results are visible. All kernels of launch_early call it:
 * the kernel after one of them relies on it for the earlier kernels. */
static __device__ __forceinline__ void previous_wait()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* early: the device, and the code that it runs, are sm_90 or newer. */
template <class... Params, class... Args>
static cudaError_t launch_early(bool early, void (*kernel)(Params...), dim3 grid, unsigned threads, size_t shared_bytes,
                                cudaStream_t stream, const Args &...args)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

#endif
