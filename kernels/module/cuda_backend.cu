/* cuda_backend - the tables of the CUDA backends (dsp/device/backend.h): live blocks and files, and the costs by which
 * their plans are chosen. */
#include "dsp/device/backend.h"

#include "cuda_error.h"
#include "cuda_files.h"
#include "cuda_live.h"
#include "device_costs.h"
#include "dsp/device/scene_render_backend.h"
#include "dsp/device/resident_split.h"
#include "dsp/device/scene_backend.h"
#include "dsp/device/tensor_backend.h"
#include "fft_factors.h"
#include "partition.h"
#include "resident_head.h"

#include <stdio.h>

static int cuda_describe(int device, char *text, size_t cap)
{
    int n = 0, driver = 0;
    struct cudaDeviceProp prop;
    struct reason why = {text, cap};
    if (cudaGetDeviceCount(&n) != cudaSuccess || device < 0 || device >= n) {
        cudaGetLastError();
        return fail(HC_EINVAL, &why, "none");
    }
    cudaError_t e = cudaGetDeviceProperties(&prop, device);
    if (e == cudaSuccess) e = cudaDriverGetVersion(&driver);
    if (e != cudaSuccess) return cuda_fail(e, &why, "cudaGetDeviceProperties(%d)", device);
    const char *missing;
    const int n_live = partition_size(device, &missing);
    char of[16] = "";
    if (n_live) snprintf(of, sizeof of, "%d of ", n_live);
    if (text && cap)
        snprintf(text, cap, "%s, %s%d SMs, %d GiB, driver %d.%d, sm_%d%d%s%s", prop.name, of, prop.multiProcessorCount,
                 (int)(prop.totalGlobalMem >> 30), driver / 1000, driver % 1000 / 10, prop.major, prop.minor,
                 missing[0] ? "; no partition: " : "", missing);
    return HC_OK;
}

/* Nanoseconds on an H200, rounded; used until the costs are measured (device_costs.h). */
static constexpr struct plan_costs costs_of_a_gpu(void)
{
    struct plan_costs costs = {};
    costs.min_partition = 32;
    costs.max_partition = FFT_MAX;
    costs.max_tail = TAIL_SIZE_MAX;
    costs.fir_first = true;
    costs.mac_ns = 6e-5; /* 28 to 41 TFLOP/s, depending on the channels */
    costs.cmac_ns = 1e-4;
    costs.live_cmac_ns = 2.2e-3; /* 8 bytes from memory, 2 bytes from L2 */
    costs.input_share = 0.8;     /* 8 bytes from memory; for independent channels as many bytes as the responses */
    costs.fft_ns = 5e-4;
    costs.launch_ns = 1500; /* a block costs between 300 (files: 32 blocks a launch) and 10000 (live: transform,
                               products, inverse) */
    costs.slice_ns = 1000;  /* a hop of eight levels has three launches */
    costs.call_ns = 18000;  /* a trip to the card and back, including the launch of a hop */
    costs.file_block = 262144; /* stereo: 2 MiB up and 2 MiB down, 64 partitions of 4096 a launch */
    return costs;
}
static constexpr struct plan_costs costs = costs_of_a_gpu();

/* The fields that all three backends share. */
static constexpr struct backend backend_of_a_gpu(void)
{
    struct backend backend = {};
    backend.name = "cuda";
    backend.costs = &costs;
    backend.describe = cuda_describe;
    backend.measure = device_costs_measure;
    return backend;
}

static constexpr struct backend files_backend(void)
{
    struct backend backend = backend_of_a_gpu();
    backend.open = cuda_files_open;
    backend.close = cuda_files_close;
    backend.io_buffer_make = cuda_files_buffer_make;
    backend.io_buffer_free = cuda_files_buffer_free;
    backend.mask_make = cuda_files_mask_make;
    backend.mask_free = cuda_files_mask_free;
    backend.reset = cuda_files_reset;
    backend.raw = true;
    backend.begin = cuda_files_begin;
    backend.end = cuda_files_end;
    return backend;
}
static constexpr struct backend backend_cuda_files = files_backend();

/* A resident head has no transforms. Its time is that of resident_us: from 2 x 2 to 64 x 64 channels and 1 to 1024
 * frames, it is within 15 % of the median of an H100. */
static constexpr struct plan_costs costs_of_a_resident_head(void)
{
    struct plan_costs c = {};
    c.min_partition = 32;
    c.max_partition = 4096;
    c.call_ns = 6500; /* there and back, with the audio thread's part */
    c.hop_ns = 1400;
    c.word_ns = 3.7;
    c.mac_ns = 7.63e-3;
    c.far_mac_ns = 4.55e-2;
    c.max_workers = MAX_RESIDENT_WORKERS;
    c.worker_bytes = RESIDENT_SHARED;
    return c;
}
static constexpr struct plan_costs resident_costs = costs_of_a_resident_head();

/* HC_EUNSUPPORTED: the text is the reason why this device has no resident kernel. */
static int resident_describe(int device, char *text, size_t cap)
{
    struct reason why = {text, cap};
    PASS(cuda_describe(device, text, cap));
    const char *refusal = resident_head_refusal(device);
    return refusal ? fail(HC_EUNSUPPORTED, &why, "%s", refusal) : HC_OK;
}

static constexpr struct backend resident_backend(void)
{
    struct backend backend = backend_of_a_gpu();
    backend.name = "resident";
    backend.costs = &resident_costs;
    backend.describe = resident_describe;
    backend.measure = resident_costs_measure;
    backend.limit = resident_head_limit;
    backend.in_place = true;
    backend.open = resident_head_open;
    backend.close = resident_head_close;
    backend.mask_make = resident_head_mask_make;
    backend.mask_free = resident_head_mask_free;
    backend.mask_retire = resident_head_mask_retire;
    backend.mask_released = resident_head_mask_released;
    backend.play = resident_head_play;
    backend.mode = resident_head_mode;
    backend.reset = resident_head_reset;
    return backend;
}
static constexpr struct backend backend_resident_head = resident_backend();

static constexpr struct backend live_backend(void)
{
    struct backend backend = backend_of_a_gpu();
    backend.files = &backend_cuda_files;
    backend.resident = &backend_resident_head;
    backend.scene = &scene_cuda;
    backend.render = &scene_render_cuda;
    backend.tensors = &tensors_cuda;
    backend.in_chunks = true;
    backend.open = cuda_live_open;
    backend.close = cuda_live_close;
    backend.io_buffer_make = cuda_live_buffer_make;
    backend.io_buffer_free = cuda_live_buffer_free;
    backend.mask_make = cuda_live_mask_make;
    backend.mask_free = cuda_live_mask_free;
    backend.mask_make_noise = cuda_live_mask_make_noise;
    backend.mask_prepare = cuda_live_mask_prepare;
    backend.mask_ready = cuda_live_mask_ready;
    backend.mask_retire = cuda_live_mask_retire;
    backend.process = cuda_live_process;
    backend.process_behind = cuda_live_process_behind;
    backend.reset = cuda_live_reset;
    return backend;
}
constexpr struct backend backend_cuda = live_backend(); /* constant: it must exist before any constructor runs */
