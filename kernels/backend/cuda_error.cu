#include "cuda_error.h"

#include <stdarg.h>
#include <stdio.h>

int cuda_fail(cudaError_t e, struct reason *why, const char *format, ...)
{
    char call[160];
    va_list args;
    va_start(args, format);
    vsnprintf(call, sizeof call, format, args);
    va_end(args);
    cudaGetLastError(); /* clears an error that is not sticky, so that the next call does not return it */
    if (e == cudaErrorMemoryAllocation)
        return fail(HC_ENOMEM, why, "cuda: %s failed: %s; lower max_taps or use the CPU", call, cudaGetErrorString(e));
    return fail(HC_EDEVICE, why, "cuda: %s failed: %s; use the CPU", call, cudaGetErrorString(e));
}

static int refuse_no_gpu(cudaError_t e, struct reason *why)
{
    int driver = 0, needed = 0;
    cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    cudaRuntimeGetVersion(&needed);
    if (driver == 0)
        return fail(HC_EDEVICE, why, "the NVIDIA driver, which GPUs need, is missing; install it, or use the CPU");
    if (e == cudaSuccess || e == cudaErrorNoDevice)
        return fail(HC_EDEVICE, why, "no NVIDIA GPU was found (nvidia-smi -L lists them); use the CPU");
    if (e == cudaErrorInsufficientDriver)
        return fail(HC_EDEVICE, why,
                    "the NVIDIA driver is for CUDA %d.%d, but this program needs %d.%d; update it, or use the CPU",
                    driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10);
    return cuda_fail(e, why, "cudaGetDeviceCount");
}

int device_use(int device, struct reason *why)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess || n < 1) return refuse_no_gpu(e, why);
    if (device < 0 || device >= n)
        return fail(
            HC_EDEVICE, why,
            "cuda:%d does not exist: there are %d, from cuda:0 on; choose one (haloconv devices), or use the CPU",
            device, n);
    TRY(cudaSetDevice(device), "cudaSetDevice(%d)", device);
    return HC_OK;
}
