#include "pinned_memory.h"

#include "backend.h"
#include "cuda_error.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t PAGE = 4096, HUGE_PAGE = 2 << 20;

int pinned_alloc(void **p, size_t bytes, char *why, size_t cap)
{
    const size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE; /* pages of its own: none is pinned twice */
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    *p = NULL;
    void *memory = aligned_alloc(align, (whole + align - 1) / align * align);
    if (!memory) return fail(HC_ENOMEM, why, cap, "no memory for %zu bytes of pinned blocks; free some", bytes);
    if (align == HUGE_PAGE) madvise(memory, whole, MADV_HUGEPAGE); /* a wish */
    memset(memory, 0, whole);
    cudaError_t e = cudaHostRegister(memory, whole, cudaHostRegisterDefault);
    if (e == cudaSuccess) {
        *p = memory;
        return HC_OK;
    }
    free(memory);
    cudaGetLastError();
    if (e != cudaErrorNotSupported) return cuda_fail(e, why, cap, "cudaHostRegister(%zu)", whole);
    TRY(cudaHostAlloc(p, bytes, cudaHostAllocDefault), "cudaHostAlloc(%zu)", bytes); /* the driver's own, then */
    memset(*p, 0, bytes);
    return HC_OK;
}

void pinned_free(void *p)
{
    if (!p) return;
    cudaError_t e = cudaHostUnregister(p);
    if (e == cudaSuccess) {
        free(p);
        return;
    }
    cudaGetLastError();
    if (e == cudaErrorHostMemoryNotRegistered) cudaFreeHost(p);
    /* else the device is lost, and may still write there: let it be */
}
