#include "device_memory.h"

#include "cuda_error.h"

#include <stdlib.h>
#include <time.h>

enum { KEPT_MOST = 8, PAUSE_NS = 20000 };

struct device_piece {
    void *memory;
    size_t bytes;
    cudaEvent_t idle;          /* behind the last work that may use it */
    struct device_piece *next;
};

void *device_cut(void *base, size_t *used, size_t n)
{
    void *p = base ? (char *)base + *used : NULL;
    *used += (n + 255) / 256 * 256;
    return p;
}

/* False: what `query` asked about is not done yet, and a pause was made. */
static bool is_over(cudaError_t query)
{
    if (query != cudaErrorNotReady) return true;
    cudaGetLastError();
    const struct timespec pause = {0, PAUSE_NS};
    nanosleep(&pause, NULL);
    return false;
}

cudaError_t device_wait(cudaStream_t stream)
{
    cudaError_t e;
    do e = cudaStreamQuery(stream);
    while (!is_over(e));
    return e;
}

cudaError_t device_wait_event(cudaEvent_t event)
{
    cudaError_t e;
    do e = cudaEventQuery(event);
    while (!is_over(e));
    return e;
}

int device_alloc(void **p, size_t bytes, const char *what, char *why, size_t cap)
{
    size_t free_bytes, all;
    *p = NULL;
    TRY(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
    if (bytes > free_bytes)
        return fail(HC_ENOMEM, why, cap,
                    "cuda: %s needs %.1f GB, the device has %.1f, %.1f of it free; lower max_taps or block, or use "
                    "--backend cpu",
                    what, (double)bytes * 1e-9, (double)all * 1e-9, (double)free_bytes * 1e-9);
    TRY(cudaMalloc(p, bytes), "cudaMalloc(%zu)", bytes);
    return HC_OK;
}

static void piece_drop(struct device_piece **link)
{
    struct device_piece *piece = *link;
    *link = piece->next;
    cudaFree(piece->memory);
    cudaEventDestroy(piece->idle);
    free(piece);
}

void device_give(struct device_store *store, void *p, size_t bytes, cudaStream_t stream)
{
    struct device_piece *piece = p ? (struct device_piece *)calloc(1, sizeof *piece) : NULL;
    if (piece && cudaEventCreateWithFlags(&piece->idle, cudaEventDisableTiming) == cudaSuccess) {
        cudaEventRecord(piece->idle, stream);
        piece->memory = p;
        piece->bytes = bytes;
        piece->next = store->pieces;
        store->pieces = piece;
    } else {
        free(piece);
        if (p) device_wait(stream);
        cudaFree(p);
    }
    struct device_piece **link = &store->pieces; /* of more than KEPT_MOST the oldest go */
    for (int n = 0; *link && n < KEPT_MOST; n++) link = &(*link)->next;
    while (*link && cudaEventQuery((*link)->idle) == cudaSuccess) piece_drop(link);
    cudaGetLastError(); /* "not ready" is no error */
}

int device_take(struct device_store *store, void **p, size_t *got, size_t bytes, char *why, size_t cap)
{
    for (struct device_piece **link = &store->pieces; *link; link = &(*link)->next) {
        struct device_piece *piece = *link;
        if (piece->bytes < bytes || piece->bytes / 5 * 4 > bytes) continue;
        TRY(device_wait_event(piece->idle), "cudaEventQuery"); /* the rest of a tick */
        *p = piece->memory;
        *got = piece->bytes;
        piece->memory = NULL;
        piece_drop(link);
        return HC_OK;
    }
    size_t free_bytes = 0, all;
    while (store->pieces && cudaMemGetInfo(&free_bytes, &all) == cudaSuccess && free_bytes < bytes) {
        device_wait_event(store->pieces->idle);
        piece_drop(&store->pieces);
    }
    cudaGetLastError();
    *got = bytes;
    return device_alloc(p, bytes, "the mask", why, cap);
}

void device_store_clear(struct device_store *store)
{
    while (store->pieces) piece_drop(&store->pieces);
}
