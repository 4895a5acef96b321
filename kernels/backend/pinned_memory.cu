#include "pinned_memory.h"

#include "dsp/device/backend.h"
#include "cuda_error.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t PAGE = 4096, HUGE_PAGE = 2 << 20;

/* Can the driver pin memory of malloc? Some systems pin only memory that the driver has allocated. */
static bool can_register(void)
{
    int device = 0, can = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterSupported, device);
    return e == cudaSuccess && can;
}

int pinned_alloc(void **p, size_t bytes, struct reason *why)
{
    const size_t align = bytes >= HUGE_PAGE / 2 ? HUGE_PAGE : PAGE; /* whole pages, so that no page is pinned twice */
    const size_t whole = (bytes + align - 1) / align * align;
    *p = NULL;
    if (!can_register()) {
        TRY(cudaHostAlloc(p, bytes, cudaHostAllocDefault), "cudaHostAlloc(%zu)", bytes);
        memset(*p, 0, bytes);
        return HC_OK;
    }
    void *memory = aligned_alloc(align, whole);
    if (!memory) return fail(HC_ENOMEM, why, "no memory for %zu bytes of pinned blocks; free some memory", bytes);
    if (align == HUGE_PAGE) madvise(memory, whole, MADV_HUGEPAGE); /* best effort */
    memset(memory, 0, bytes);
    cudaError_t e = cudaHostRegister(memory, bytes, cudaHostRegisterDefault);
    if (e != cudaSuccess) {
        free(memory);
        return cuda_fail(e, why, "cudaHostRegister(%zu)", bytes);
    }
    *p = memory;
    return HC_OK;
}

void pinned_free(void *p)
{
    if (!p) return;
    if (!can_register())
        cudaFreeHost(p);
    else if (cudaHostUnregister(p) == cudaSuccess) /* else the device is lost and may still write to p: leak p */
        free(p);
}
