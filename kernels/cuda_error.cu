#include "cuda_error.h"

#include <stdarg.h>
#include <stdio.h>

int cuda_fail(cudaError_t e, char *why, size_t cap, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    cudaGetLastError(); /* an error that does not stick must not be found again by the next call */
    if (e == cudaErrorMemoryAllocation)
        return fail(HC_ENOMEM, why, cap, "cuda: %s failed: %s; lower max_taps or use --backend cpu", what,
                    cudaGetErrorString(e));
    return fail(HC_EDEVICE, why, cap, "cuda: %s failed: %s; use --backend cpu", what, cudaGetErrorString(e));
}
