/* bench_peers - cuBLAS, cuDNN and cuFFT, opened at run time. This file declares the few functions that it uses, so that
 * the build needs none of these libraries. */
#include "bench_peers.h"

#include "rung.cuh"

#include <dlfcn.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char choice[128];
const char *peer_choice(void) { return choice; }

/* Opens the first library of the list that is installed. NULL: none; *why has the reason. */
static void *library(const char *const *names, const char **why)
{
    for (int i = 0; names[i]; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib) return lib;
    }
    *why = "not found (looked along LD_LIBRARY_PATH)";
    return NULL;
}

/* Sets the pointer `function`; if the library lacks it, the enclosing function returns why. */
#define LOAD(lib, function)                                                                                            \
    if (!(function = (decltype(function))dlsym(lib, #function))) return why = "has no " #function
/* Returns an error of the call from the enclosing function. */
#define GO(call)                                                                                                       \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) return status_;                                                                    \
    } while (0)

/* The time between two events, after a wait for the second one. */
static double elapsed_ms(cudaEvent_t a, cudaEvent_t b)
{
    float ms = 1e9f;
    if (cudaEventSynchronize(b) != cudaSuccess || cudaEventElapsedTime(&ms, a, b) != cudaSuccess) ms = 1e9f;
    return ms;
}

/* ---- cuBLAS ------------------------------------------------------------------------------------------------------ */

static int (*cublasCreate_v2)(void **);
static int (*cublasSetMathMode)(void *, int);
static int (*cublasSgemm_v2)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,
                             const float *, float *, int);
static void *cublas;

const char *peer_cublas_missing(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
    static const char *why;
    if (cublas || why) return why;
    void *lib = library(names, &why);
    if (!lib) return why;
    LOAD(lib, cublasCreate_v2);
    LOAD(lib, cublasSetMathMode);
    LOAD(lib, cublasSgemm_v2);
    if (cublasCreate_v2(&cublas) != 0) return cublas = NULL, why = "cublasCreate failed";
    cublasSetMathMode(cublas, 2); /* CUBLAS_PEDANTIC_MATH */
    return NULL;
}

cudaError_t peer_sgemm(int n, const float *a, const float *b, float *c)
{
    const float one = 1.0f, zero = 0.0f;
    return cublasSgemm_v2(cublas, 0, 0, n, n, n, &one, a, n, b, n, &zero, c, n) == 0 ? cudaSuccess : cudaErrorUnknown;
}

/* ---- cuDNN ------------------------------------------------------------------------------------------------------- */

static int (*cudnnCreate)(void **);
static int (*cudnnSetStream)(void *, cudaStream_t);
static int (*cudnnCreateTensorDescriptor)(void **);
static int (*cudnnSetTensor4dDescriptorEx)(void *, int, int, int, int, int, int, int, int, int);
static int (*cudnnDestroyTensorDescriptor)(void *);
static int (*cudnnCreateFilterDescriptor)(void **);
static int (*cudnnSetFilter4dDescriptor)(void *, int, int, int, int, int, int);
static int (*cudnnDestroyFilterDescriptor)(void *);
static int (*cudnnCreateConvolutionDescriptor)(void **);
static int (*cudnnSetConvolution2dDescriptor)(void *, int, int, int, int, int, int, int, int);
static int (*cudnnSetConvolutionMathType)(void *, int);
static int (*cudnnSetConvolutionGroupCount)(void *, int);
static int (*cudnnDestroyConvolutionDescriptor)(void *);
static int (*cudnnGetConvolutionForwardWorkspaceSize)(void *, void *, void *, void *, void *, int, size_t *);
static int (*cudnnConvolutionForward)(void *, const float *, void *, const void *, void *, const void *, void *, int,
                                      void *, size_t, const float *, void *, void *);
static void *cudnn;

const char *peer_cudnn_missing(void)
{
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    static const char *why;
    if (cudnn || why) return why;
    void *lib = library(names, &why);
    if (!lib) return why;
    LOAD(lib, cudnnCreate);
    LOAD(lib, cudnnSetStream);
    LOAD(lib, cudnnCreateTensorDescriptor);
    LOAD(lib, cudnnSetTensor4dDescriptorEx);
    LOAD(lib, cudnnDestroyTensorDescriptor);
    LOAD(lib, cudnnCreateFilterDescriptor);
    LOAD(lib, cudnnSetFilter4dDescriptor);
    LOAD(lib, cudnnDestroyFilterDescriptor);
    LOAD(lib, cudnnCreateConvolutionDescriptor);
    LOAD(lib, cudnnSetConvolution2dDescriptor);
    LOAD(lib, cudnnSetConvolutionMathType);
    LOAD(lib, cudnnSetConvolutionGroupCount);
    LOAD(lib, cudnnDestroyConvolutionDescriptor);
    LOAD(lib, cudnnGetConvolutionForwardWorkspaceSize);
    LOAD(lib, cudnnConvolutionForward);
    if (cudnnCreate(&cudnn) != 0) return cudnn = NULL, why = "cudnnCreate failed";
    return NULL;
}

enum { CUDNN_ALGORITHMS = 8, CUDNN_FLOAT = 0, CUDNN_NCHW = 0, CUDNN_CROSS_CORRELATION = 1, CUDNN_FMA_MATH = 3 };
static const size_t WORKSPACE_MOST = (size_t)8 << 30;
static const double TOO_SLOW_MS = 1000.0;

struct dnn {
    void *x_shape, *h_shape, *y_shape, *how;
    float *x, *h; /* x with n_taps - 1 zeros before each row; the masks reversed */
    void *workspace;
    size_t workspace_bytes;
    int algorithm;
};

static void dnn_discard(void *prepared)
{
    struct dnn *d = (struct dnn *)prepared;
    if (!d) return;
    if (d->x_shape) cudnnDestroyTensorDescriptor(d->x_shape);
    if (d->y_shape) cudnnDestroyTensorDescriptor(d->y_shape);
    if (d->h_shape) cudnnDestroyFilterDescriptor(d->h_shape);
    if (d->how) cudnnDestroyConvolutionDescriptor(d->how);
    cudaFree(d->x);
    cudaFree(d->h);
    cudaFree(d->workspace);
    delete d;
}

static cudaError_t dnn_launch(const struct task *t, void *prepared, cudaStream_t stream)
{
    struct dnn *d = (struct dnn *)prepared;
    const float one = 1.0f, zero = 0.0f;
    cudnnSetStream(cudnn, stream);
    int status = cudnnConvolutionForward(cudnn, &one, d->x_shape, d->x, d->h_shape, d->h, d->how, d->algorithm,
                                         d->workspace, d->workspace_bytes, &zero, d->y_shape, t->y);
    return status == 0 ? cudaSuccess : cudaErrorUnknown;
}

/* The fastest algorithm that accepts the task; -1: none. Its workspace is left in d. */
static int dnn_choose(struct dnn *d, const struct task *t)
{
    double best_ms = 1e9;
    int best = -1;
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    for (int i = 0; i < CUDNN_ALGORITHMS; i++) {
        size_t bytes = 0;
        if (cudnnGetConvolutionForwardWorkspaceSize(cudnn, d->x_shape, d->h_shape, d->how, d->y_shape, i, &bytes) != 0)
            continue;
        if (bytes > WORKSPACE_MOST) continue;
        if (bytes > d->workspace_bytes) {
            cudaFree(d->workspace);
            d->workspace_bytes = 0, d->workspace = NULL;
            if (cudaMalloc(&d->workspace, bytes) != cudaSuccess) {
                cudaGetLastError();
                continue;
            }
            d->workspace_bytes = bytes;
        }
        d->algorithm = i;
        double ms = 1e9;
        for (int run = 0; run < 2; run++) { /* the first one loads the kernel */
            cudaEventRecord(a, 0);
            bool ran = dnn_launch(t, d, 0) == cudaSuccess;
            cudaEventRecord(b, 0);
            ms = elapsed_ms(a, b);
            if (!ran) ms = 1e9;
            if (ms > TOO_SLOW_MS) break;
        }
        if (ms < best_ms) best_ms = ms, best = i;
    }
    cudaEventDestroy(a), cudaEventDestroy(b);
    cudaGetLastError();
    return d->algorithm = best;
}

static cudaError_t dnn_prepare(const struct task *t, void **prepared)
{
    const int K = t->n_taps, W = (int)t->n_frames + K - 1, N = (int)t->n_frames, n_masks = task_masks(t);
    const bool batch = t->sharing == SHARED;
    struct dnn *d = new (std::nothrow) struct dnn();
    if (!d) return cudaErrorMemoryAllocation;
    *prepared = d;
    GO(cudaMalloc(&d->x, (size_t)t->n_in * W * sizeof(float)));
    GO(cudaMemset(d->x, 0, (size_t)t->n_in * W * sizeof(float)));
    GO(cudaMemcpy2D(d->x + K - 1, W * sizeof(float), t->x, t->x_pitch * sizeof(float), N * sizeof(float), t->n_in,
                    cudaMemcpyDeviceToDevice));
    float *reversed = (float *)malloc((size_t)n_masks * K * sizeof(float));
    if (!reversed) return cudaErrorMemoryAllocation;
    for (int m = 0; m < n_masks; m++)
        for (int k = 0; k < K; k++) reversed[(size_t)m * K + k] = t->h_host[(size_t)m * K + K - 1 - k];
    cudaError_t status = cudaMalloc(&d->h, (size_t)n_masks * K * sizeof(float));
    if (status == cudaSuccess)
        status = cudaMemcpy(d->h, reversed, (size_t)n_masks * K * sizeof(float), cudaMemcpyHostToDevice);
    free(reversed);
    GO(status);

    int bad = cudnnCreateTensorDescriptor(&d->x_shape) | cudnnCreateTensorDescriptor(&d->y_shape) |
              cudnnCreateFilterDescriptor(&d->h_shape) | cudnnCreateConvolutionDescriptor(&d->how);
    if (bad) return cudaErrorUnknown;
    const int P = (int)t->y_pitch, images = batch ? t->n_out : 1, channels_in = batch ? 1 : t->n_in,
              channels_out = batch ? 1 : t->n_out;
    bad = cudnnSetTensor4dDescriptorEx(d->x_shape, CUDNN_FLOAT, images, channels_in, 1, W, channels_in * W, W, W, 1) |
          cudnnSetTensor4dDescriptorEx(d->y_shape, CUDNN_FLOAT, images, channels_out, 1, N, channels_out * P, P, N, 1) |
          cudnnSetFilter4dDescriptor(d->h_shape, CUDNN_FLOAT, CUDNN_NCHW, channels_out, 1, 1, K) |
          cudnnSetConvolution2dDescriptor(d->how, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_FLOAT) |
          cudnnSetConvolutionMathType(d->how, CUDNN_FMA_MATH) |
          cudnnSetConvolutionGroupCount(d->how, t->sharing == OWN ? t->n_in : 1);
    if (bad || dnn_choose(d, t) < 0) return cudaErrorNotSupported;
    snprintf(choice, sizeof choice, "algorithm %d", d->algorithm);
    return cudaSuccess;
}

static bool dnn_accepts(const struct task *t)
{
    return !peer_cudnn_missing() && (double)t->n_in * ((double)t->n_frames + t->n_taps) < 2147483647.0 &&
           (double)t->n_out * (double)t->y_pitch < 2147483647.0;
}

const struct rung peer_cudnn = {
    0, "cuDNN", "cudnnConvolutionForward, fp32", "peer", false, dnn_accepts, dnn_prepare, dnn_launch, dnn_discard};

/* ---- cuFFT ------------------------------------------------------------------------------------------------------- */

static int (*cufftPlanMany)(int *, int, int *, int *, int, int, int *, int, int, int, int);
static int (*cufftExecR2C)(int, float *, float2 *);
static int (*cufftExecC2R)(int, float2 *, float *);
static int (*cufftSetStream)(int, cudaStream_t);
static int (*cufftDestroy)(int);
static void *cufft;

const char *peer_cufft_missing(void)
{
    static const char *const names[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so", NULL};
    static const char *why;
    if (cufft || why) return why;
    void *lib = library(names, &why);
    if (!lib) return why;
    LOAD(lib, cufftPlanMany);
    LOAD(lib, cufftExecR2C);
    LOAD(lib, cufftExecC2R);
    LOAD(lib, cufftSetStream);
    LOAD(lib, cufftDestroy);
    cufft = lib;
    return NULL;
}

enum { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, NO_PLAN = -1 };
static const size_t SCRATCH_MOST = (size_t)24 << 30;
static const size_t GROUP_BYTES = (size_t)20 << 20; /* of spectra: a group's stay in the L2 of an H200 or an A100 */

/* Overlap-save in segments of L frames, `hop` apart: the first L - hop >= K - 1 frames of each are history, and
 * dropped. With one input, x is one row with L - hop zeros before it, in which the segments overlap. With several, x
 * has a copy of each segment. */
struct ols {
    int L, hop, n_segments;          /* n_segments: of a row                                                  */
    int in_dist;                     /* frames from one segment of x to the next                              */
    int group, n_groups;             /* segments of one forward transform, BANK: all; number of groups        */
    int forward, inverse, mask_plan;
    float *x, *back;                /* input segments; the inverse transforms of a group                     */
    float2 *spectra, *products, *H; /* products: the same memory as spectra, except for BANK                 */
};

static __global__ void ols_lay_out(struct task t, struct ols o)
{
    const long total = (long)t.n_in * o.n_segments * o.L;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (long)gridDim.x * blockDim.x) {
        const long s = i / o.L, ch = s / o.n_segments, frame = s % o.n_segments * o.hop + i % o.L - (o.L - o.hop);
        o.x[s * o.in_dist + i % o.L] = frame_or_ghost(t.x + ch * t.x_pitch, frame, t.n_frames);
    }
}

/* grid: bins x rows of products. Row r: BANK: mask r / n_segments, segment r % n_segments; else segment first + r. */
static __global__ void ols_product(struct ols o, int sharing, int first, int n_out)
{
    const int bin = blockIdx.x * blockDim.x + threadIdx.x, bins = o.L / 2 + 1;
    if (bin >= bins) return;
    for (int r = blockIdx.y; r < (sharing == BANK ? n_out * o.n_segments : o.group); r += gridDim.y) {
        const int m = sharing == SHARED ? 0 : min((first + r) / o.n_segments, n_out - 1);
        const int from = sharing == BANK ? r % o.n_segments : r;
        const float2 X = o.spectra[(long)from * bins + bin], H = o.H[(long)m * bins + bin];
        const float gain = 1.0f / o.L;
        o.products[(long)r * bins + bin] = make_float2((X.x * H.x - X.y * H.y) * gain, (X.x * H.y + X.y * H.x) * gain);
    }
}

/* grid: frames of a hop x segments */
static __global__ void ols_keep(struct task t, struct ols o, int first, int n)
{
    for (int r = blockIdx.y; r < n; r += gridDim.y) {
        const int s = first + r, out = s / o.n_segments;
        if (out >= t.n_out) return;
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < o.hop; j += gridDim.x * blockDim.x) {
            const long frame = (long)(s % o.n_segments) * o.hop + j;
            if (frame < t.n_frames) t.y[out * t.y_pitch + frame] = o.back[(long)r * o.L + o.L - o.hop + j];
        }
    }
}

static void ols_free(struct ols *o)
{
    if (o->forward != NO_PLAN) cufftDestroy(o->forward);
    if (o->inverse != NO_PLAN) cufftDestroy(o->inverse);
    if (o->mask_plan != NO_PLAN) cufftDestroy(o->mask_plan);
    if (o->products != o->spectra) cudaFree(o->products);
    cudaFree(o->spectra), cudaFree(o->x), cudaFree(o->back), cudaFree(o->H);
    memset(o, 0, sizeof *o);
    o->forward = o->inverse = o->mask_plan = NO_PLAN;
}

static cudaError_t ols_launch(const struct task *t, void *prepared, cudaStream_t stream)
{
    struct ols *o = (struct ols *)prepared;
    const int bins = o->L / 2 + 1, n_back = t->sharing == BANK ? t->n_out * o->n_segments : o->group;
    const dim3 by_bin((bins + 127) / 128, n_back < 65535 ? n_back : 65535);
    const dim3 by_frame(o->hop < 4096 ? (o->hop + 127) / 128 : 32, n_back < 65535 ? n_back : 65535);
    cufftSetStream(o->forward, stream), cufftSetStream(o->inverse, stream);
    for (int g = 0; g < o->n_groups; g++) {
        const int first = g * o->group;
        if (cufftExecR2C(o->forward, o->x + (long)first * o->in_dist, o->spectra) != 0) return cudaErrorUnknown;
        ols_product<<<by_bin, 128, 0, stream>>>(*o, t->sharing, first, t->n_out);
        if (cufftExecC2R(o->inverse, o->products, o->back) != 0) return cudaErrorUnknown;
        ols_keep<<<by_frame, 128, 0, stream>>>(*t, *o, first, n_back);
    }
    return cudaGetLastError();
}

static cudaError_t ols_set_up(struct ols *o, const struct task *t, int L, bool in_groups)
{
    const int K = t->n_taps, n_masks = task_masks(t), bins = L / 2 + 1;
    memset(o, 0, sizeof *o);
    o->forward = o->inverse = o->mask_plan = NO_PLAN;
    o->L = L;
    o->hop = L - (K - 1 + 3) / 4 * 4;
    o->n_segments = (int)((t->n_frames + o->hop - 1) / o->hop);
    o->in_dist = t->n_in == 1 ? o->hop : L;
    const long all = (long)t->n_in * o->n_segments;
    o->group = (int)all;
    if (in_groups) {
        o->group = (int)(GROUP_BYTES / (bins * sizeof(float2)));
        if (t->sharing == BANK || o->group < 1 || o->group * 2 > all) return cudaErrorNotSupported;
    }
    o->n_groups = (int)((all + o->group - 1) / o->group);
    const long n_back = t->sharing == BANK ? (long)t->n_out * o->n_segments : o->group;
    const size_t x_floats = (size_t)o->n_groups * o->group * o->in_dist + L;
    const size_t bytes = x_floats * 4 + ((size_t)o->group + n_back) * bins * 8 + n_back * L * 4;
    if (bytes > SCRATCH_MOST || n_back > 1L << 30) return cudaErrorNotSupported;

    GO(cudaMalloc(&o->x, x_floats * sizeof(float)));
    GO(cudaMemset(o->x, 0, x_floats * sizeof(float)));
    GO(cudaMalloc(&o->spectra, (size_t)o->group * bins * sizeof(float2)));
    o->products = o->spectra;
    if (t->sharing == BANK) GO(cudaMalloc(&o->products, n_back * bins * sizeof(float2)));
    GO(cudaMalloc(&o->back, n_back * L * sizeof(float)));
    GO(cudaMalloc(&o->H, (size_t)n_masks * bins * sizeof(float2)));
    ols_lay_out<<<4096, 256>>>(*t, *o);
    GO(cudaGetLastError());

    float *h;
    GO(cudaMalloc(&h, (size_t)n_masks * L * sizeof(float)));
    GO(cudaMemset(h, 0, (size_t)n_masks * L * sizeof(float)));
    GO(cudaMemcpy2D(h, L * sizeof(float), t->h, K * sizeof(float), K * sizeof(float), n_masks,
                    cudaMemcpyDeviceToDevice));
    int n[1] = {L}, spectrum[1] = {bins}, bad = 0;
    bad |= cufftPlanMany(&o->mask_plan, 1, n, n, 1, L, spectrum, 1, bins, CUFFT_R2C, n_masks);
    bad = bad || cufftExecR2C(o->mask_plan, h, o->H) != 0;
    bad = bad || cudaDeviceSynchronize() != cudaSuccess;
    cudaFree(h);
    bad = bad || cufftPlanMany(&o->forward, 1, n, n, 1, o->in_dist, spectrum, 1, bins, CUFFT_R2C, o->group) != 0;
    bad = bad || cufftPlanMany(&o->inverse, 1, n, spectrum, 1, bins, n, 1, L, CUFFT_C2R, (int)n_back) != 0;
    return bad ? cudaErrorUnknown : cudaSuccess;
}

static void ols_discard(void *prepared)
{
    if (!prepared) return;
    ols_free((struct ols *)prepared);
    delete (struct ols *)prepared;
}

static cudaError_t ols_prepare(const struct task *t, void **prepared)
{
    struct ols *o = new (std::nothrow) struct ols();
    if (!o) return cudaErrorMemoryAllocation;
    int least = 256, best_L = 0;
    bool best_groups = false;
    double best_ms = 1e9;
    while (least < 2 * t->n_taps) least *= 2;
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    for (int L = least; L <= 32 * least && L <= 1 << 22; L *= 2)
        for (int in_groups = 0; in_groups < 2; in_groups++) {
            double ms = 1e9;
            if (L > least && L / 2 > t->n_frames + t->n_taps) continue; /* one segment was enough */
            if (ols_set_up(o, t, L, in_groups != 0) == cudaSuccess && ols_launch(t, o, 0) == cudaSuccess) {
                for (int run = 0; run < 2; run++) {
                    cudaEventRecord(a, 0);
                    ols_launch(t, o, 0);
                    cudaEventRecord(b, 0);
                    double once = elapsed_ms(a, b);
                    if (once < ms) ms = once;
                }
            }
            cudaGetLastError();
            if (ms < best_ms) best_ms = ms, best_L = L, best_groups = in_groups != 0;
            ols_free(o);
        }
    cudaEventDestroy(a), cudaEventDestroy(b);
    cudaError_t status = best_L ? ols_set_up(o, t, best_L, best_groups) : cudaErrorNotSupported;
    snprintf(choice, sizeof choice, "%d points, %d group%s", best_L, o->n_groups, o->n_groups == 1 ? "" : "s");
    *prepared = o;
    return status;
}

static bool ols_accepts(const struct task *) { return !peer_cufft_missing(); }

const struct rung peer_cufft = {
    0, "cuFFT", "overlap-save, best segment length", "peer", false, ols_accepts, ols_prepare, ols_launch, ols_discard};
