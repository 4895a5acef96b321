/* early_launch - launches a kernel that begins while the previous kernel in the stream still runs (programmatic
 * dependent launch, CUDA C++ Programming Guide; sm_90). On older devices it is a plain launch.
 *
 * A kernel that calls next_may_begin lets the blocks of the next kernel start as soon as they fit. A kernel that was
 * launched by launch_early calls previous_wait before it reads data of the previous kernel, and before it writes data
 * that an earlier kernel may still use.
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

/* Waits until the previous kernel is complete and its results are visible. Every kernel of launch_early calls it: the
 * next kernel relies on this wait for all earlier kernels. */
static __device__ __forceinline__ void previous_wait()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* Launches a kernel. early: the device, and the code that it runs, are sm_90 or newer. */
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
