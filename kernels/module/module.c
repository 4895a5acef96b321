/* module - the only function that libhaloconv_cuda.so exports. */
#include "dsp/backends/gpu_module.h"

const struct gpu_module *haloconv_cuda_module(void)
{
    static const struct gpu_module module = {MODULE_VERSION, &backend_cuda, copies_measure};
    return &module;
}
