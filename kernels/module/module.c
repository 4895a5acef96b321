/* module - the one function of libhaloconv_cuda.so that is not hidden. */
#include "dsp/backends/gpu_module.h"

const struct gpu_module *haloconv_cuda_module(void)
{
    static const struct gpu_module module = {MODULE_VERSION, &backend_cuda, copies_measure};
    return &module;
}
