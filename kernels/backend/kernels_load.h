/* kernels_load - loads kernels, which the runtime otherwise does at their first launch: that launch would be slow. */
#ifndef HALOCONV_KERNELS_LOAD_H
#define HALOCONV_KERNELS_LOAD_H

#include <cuda_runtime.h>

/* Loads kernels on the current device; the first error ends it. */
template <class... Kernel> static cudaError_t kernels_load(Kernel... kernels)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaSuccess;
    ((e = e == cudaSuccess ? cudaFuncGetAttributes(&a, kernels) : e), ...);
    return e;
}

#endif
