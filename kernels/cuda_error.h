/* cuda_error - a CUDA error as an enum hc_error and a line for (why, cap), which the functions that use these have. */
#ifndef HALOCONV_CUDA_ERROR_H
#define HALOCONV_CUDA_ERROR_H

#include "dsp/engine/backend.h"

#include <cuda_runtime.h>

/* The format says what failed. */
int cuda_fail(cudaError_t e, char *why, size_t cap, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* TRY(call, "what(%d)", n): on an error the enclosing function returns it with its text. */
#define TRY(call, ...)                                                                  \
    do {                                                                                \
        cudaError_t try_error = (call);                                                 \
        if (try_error != cudaSuccess) return cuda_fail(try_error, why, cap, __VA_ARGS__); \
    } while (0)
#define PASS(call)                      \
    do {                                \
        int pass_rc = (call);           \
        if (pass_rc < 0) return pass_rc; \
    } while (0)

#endif
