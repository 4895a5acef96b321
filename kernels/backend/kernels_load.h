/* kernels_load - loads kernels at set-up: otherwise the runtime loads a kernel at its first launch, which is slow. */
#ifndef HALOCONV_KERNELS_LOAD_H
#define HALOCONV_KERNELS_LOAD_H

#include <cuda_runtime.h>

/* Loads kernels on the current device; returns at the first error. */
template <class... Kernel> static cudaError_t kernels_load(Kernel... kernels)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaSuccess;
    ((e = e == cudaSuccess ? cudaFuncGetAttributes(&a, kernels) : e), ...);
    return e;
}

#endif
