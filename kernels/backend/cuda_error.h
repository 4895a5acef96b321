/* cuda_error - turns a CUDA error into an enum hc_error and a line for `why`. The macros use the parameter `why` of the
 * enclosing function. */
#ifndef HALOCONV_CUDA_ERROR_H
#define HALOCONV_CUDA_ERROR_H

#include "dsp/device/backend.h"

#include <cuda_runtime.h>

/* Returns the enum hc_error for e. The format and its arguments name the call that failed. */
int cuda_fail(cudaError_t e, struct reason *why, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Makes a device the current one of this thread. HC_EDEVICE: this GPU is absent. */
int device_use(int device, struct reason *why);

/* TRY(call, "cudaSomething(%d)", n): if the call fails, returns cuda_fail(...) from the enclosing function. */
#define TRY(call, ...)                                                                                                 \
    do {                                                                                                               \
        cudaError_t try_error = (call);                                                                                \
        if (try_error != cudaSuccess) return cuda_fail(try_error, why, __VA_ARGS__);                                   \
    } while (0)
/* PASS(call): if the call returns a negative enum hc_error, returns it from the enclosing function. */
#define PASS(call)                      \
    do {                                \
        int pass_rc = (call);           \
        if (pass_rc < 0) return pass_rc; \
    } while (0)

#endif
