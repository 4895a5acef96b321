#include "cuda_error.h"

#include <stdarg.h>
#include <stdio.h>

int cuda_fail(cudaError_t e, char *why, size_t cap, const char *format, ...)
{
    char call[160];
    va_list args;
    va_start(args, format);
    vsnprintf(call, sizeof call, format, args);
    va_end(args);
    cudaGetLastError(); /* clears an error that is not sticky, so that the next call does not find it */
    if (e == cudaErrorMemoryAllocation)
        return fail(HC_ENOMEM, why, cap, "cuda: %s failed: %s; lower max_taps or use --backend cpu", call,
                    cudaGetErrorString(e));
    return fail(HC_EDEVICE, why, cap, "cuda: %s failed: %s; use --backend cpu", call, cudaGetErrorString(e));
}
