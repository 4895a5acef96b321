/* bench_offline - copies a ring of pinned buffers up and down on two streams, without a kernel between the copies.
 *
 *   up     | block 0 | block 1 | block 2 |
 *   down             | block 0 | block 1 | block 2 |        a block goes down after it has come up
 */
#include "dsp/backends/gpu_module.h"

#include <algorithm>
#include <chrono>
#include <cuda_runtime.h>
#include <string.h>
#include <vector>

namespace {

enum { DEPTH = 4 };

struct ring {
    cudaStream_t up = nullptr, down = nullptr;
    cudaEvent_t uploaded[DEPTH] = {}, downloaded[DEPTH] = {};
    char *in[DEPTH] = {}, *out[DEPTH] = {}, *device[DEPTH] = {};

    cudaError_t open(size_t bytes)
    {
        cudaError_t e = cudaStreamCreateWithFlags(&up, cudaStreamNonBlocking);
        if (!e) e = cudaStreamCreateWithFlags(&down, cudaStreamNonBlocking);
        for (int i = 0; i < DEPTH && !e; i++) {
            e = cudaEventCreateWithFlags(&uploaded[i], cudaEventDisableTiming);
            if (!e) e = cudaEventCreateWithFlags(&downloaded[i], cudaEventDisableTiming);
            if (!e) e = cudaHostAlloc((void **)&in[i], bytes, cudaHostAllocDefault);
            if (!e) e = cudaHostAlloc((void **)&out[i], bytes, cudaHostAllocDefault);
            if (!e) e = cudaMalloc((void **)&device[i], bytes);
            if (!e) memset(in[i], 1, bytes);
        }
        return e;
    }

    ~ring()
    {
        for (int i = 0; i < DEPTH; i++) {
            cudaFree(device[i]);
            if (in[i]) cudaFreeHost(in[i]);
            if (out[i]) cudaFreeHost(out[i]);
            if (uploaded[i]) cudaEventDestroy(uploaded[i]);
            if (downloaded[i]) cudaEventDestroy(downloaded[i]);
        }
        if (up) cudaStreamDestroy(up);
        if (down) cudaStreamDestroy(down);
    }

    /* Copies all blocks once. A buffer is used again after its block has come down. */
    cudaError_t pass(int64_t n_blocks, size_t up_bytes, size_t down_bytes)
    {
        cudaError_t e = cudaSuccess;
        for (int64_t b = 0; b < n_blocks && !e; b++) {
            const int i = (int)(b % DEPTH);
            if (b >= DEPTH) e = cudaEventSynchronize(downloaded[i]);
            if (!e && up_bytes) e = cudaMemcpyAsync(device[i], in[i], up_bytes, cudaMemcpyHostToDevice, up);
            if (!e) e = cudaEventRecord(uploaded[i], up);
            if (!e) e = cudaStreamWaitEvent(down, uploaded[i], 0);
            if (!e && down_bytes) e = cudaMemcpyAsync(out[i], device[i], down_bytes, cudaMemcpyDeviceToHost, down);
            if (!e) e = cudaEventRecord(downloaded[i], down);
        }
        return e ? e : cudaStreamSynchronize(down);
    }
};

double median_of_passes(ring &r, int64_t n_blocks, size_t up_bytes, size_t down_bytes, int n_runs, cudaError_t *e)
{
    std::vector<double> seconds;
    for (int run = 0; run <= n_runs && !*e; run++) { /* the first warms up */
        const auto start = std::chrono::steady_clock::now();
        *e = r.pass(n_blocks, up_bytes, down_bytes);
        const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (run > 0) seconds.push_back(s);
    }
    if (seconds.empty()) return 0;
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

} // namespace

int copies_measure(int64_t bytes_up, int64_t bytes_down, size_t block_bytes, int n_runs, struct hc_copies *result,
                   struct reason *why)
{
    const int64_t max_bytes = std::max(bytes_up, bytes_down),
                  n_blocks = (max_bytes + (int64_t)block_bytes - 1) / (int64_t)block_bytes;
    const size_t up = (size_t)(bytes_up / n_blocks), down = (size_t)(bytes_down / n_blocks);
    ring r;
    cudaError_t e = r.open(block_bytes);
    if (!e) result->both = median_of_passes(r, n_blocks, up, down, n_runs, &e);
    if (!e) result->up = median_of_passes(r, n_blocks, up, 0, n_runs, &e);
    if (!e) result->down = median_of_passes(r, n_blocks, 0, down, n_runs, &e);
    if (e)
        return fail(HC_EDEVICE, why, "cuda: copying failed: %s; use a machine with an NVIDIA GPU",
                    cudaGetErrorString(e));
    return HC_OK;
}
