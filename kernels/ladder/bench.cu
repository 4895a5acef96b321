/* bench - the program haloconv-ladder: checks and times the rungs of the ladder, and writes the tables of
 * kernels/ladder/README.md.
 *
 * A measurement fills the outputs with NaN, runs the rung once, checks that no NaN is left, and compares about 200
 * outputs (first and last frames, around tile sizes, around n_taps) with float64. Then it warms up and times each run
 * by two events. Up to 8 copies of input and output take turns, as many as it takes to fill 256 MB, so that they are
 * not in the L2 cache.
 *
 * The input is noise, a hash of the frame's index: the device makes it, and the CPU computes single frames of it. */
#include "bench_peers.h"
#include "ladder_check.h"
#include "rung.cuh"

#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SETS = 8, MAX_RUNS = 1000, SAMPLES = 208, MAX_RUNGS = 40, MAX_SHAPES = 40 };
static const double MAX_ERROR = 1e-5; /* relative, in the 2-norm; a wrong tap gives more, rounding less */
static const double MAX_FLOP = 1.2e12; /* a step of the ladder needs 0.2 s; larger tasks are for production rungs */
static const double CUDNN_FLOP = 5e10;  /* a larger task, which takes seconds, has fewer frames for cuDNN           */
static const size_t ROTATE_BYTES = 256 << 20;

#define M(log2) (1L << (log2))
static const struct shape full_shapes[] = {
    {5, M(26), 1, SHARED},     {11, M(26), 1, SHARED},     {64, M(26), 1, SHARED},
    {256, M(26), 1, SHARED},   {511, M(26), 1, SHARED},    {1024, M(26), 1, SHARED},
    {4096, M(26), 1, SHARED},  {16384, M(24), 1, SHARED},  {65536, M(24), 1, SHARED},
    {48000, M(26), 1, SHARED}, {144000, M(26), 1, SHARED}, {512, M(20), 64, SHARED},
    {4096, 64, 2, SHARED},     {4096, 64, 64, SHARED},     {256, 256, 256, SHARED},
    {4096, 512, 16, SHARED},   {1024, M(16), 256, OWN},    {4096, 64, 128, OWN},
    {512, M(18), 64, BANK},    {4096, M(16), 32, BANK},
};
static const struct shape quick_shapes[] = {
    {5, M(26), 1, SHARED}, {11, M(26), 1, SHARED}, {511, M(24), 1, SHARED}, {4096, M(22), 1, SHARED},
    {4096, 64, 2, SHARED}, {1024, M(14), 64, OWN}, {512, M(16), 16, BANK},
};

struct result {
    const struct rung *rung;
    int shape;
    long frames;         /* those of the shape, but for cuDNN                 */
    const char *not_run; /* why; NULL: measured                               */
    char choice[64];
    double error, median_us, p99_us, gsamples, tflops, of_fma, of_copy, x_cudnn, x_cufft;
    int runs;
};

struct options {
    bool json, quick;
    const char *table, *rung; /* NULL: no table, all rungs                                             */
    int seed;                 /* of the noise, > 0; 0: the clock gives it. The report names the seed   */
};

struct bench {
    const struct options *options;
    char why[512];
    char gpu[256], driver[64], date[32];
    double fma_tflops, sm_mhz, copy_tbs, sgemm_tflops; /* sgemm 0: no cuBLAS */
    const struct shape *shapes;
    int n_shapes, n_rungs, n_results, n_wrong;
    const struct rung *rungs[MAX_RUNGS]; /* the peers first */
    struct result results[MAX_SHAPES * MAX_RUNGS];
    int first_seed;                       /* of the run; `seed` is that of the current shape           */
    uint64_t seed;
    double budget_us;                     /* for the runs of one rung on one shape                     */
    cudaEvent_t *events;                  /* [2 MAX_RUNS]                                             */
};

#define PEERS 2

__attribute__((format(printf, 2, 3))) static int bench_fail(struct bench *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->why, sizeof b->why, format, args);
    va_end(args);
    return -1;
}

#define BENCH_TRY(call, what)                                                                                          \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) return bench_fail(b, "%s failed: %s", what, cudaGetErrorString(status_));          \
    } while (0)

/* ---- noise and reference ----------------------------------------------------------------------------------------- */

static __global__ void noise(float *x, long n, uint64_t seed)
{
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
        x[i] = noise_at(seed, i);
}

struct sample { /* one output frame and what it should be */
    int out;
    long frame;
    double want;
};

static __global__ void pick(const float *y, long pitch, const struct sample *samples, float *got)
{
    got[threadIdx.x] = y[samples[threadIdx.x].out * pitch + samples[threadIdx.x].frame];
}

static __global__ void count_nan(const float *y, long pitch, long n_frames, int n_out, unsigned *count)
{
    for (int out = blockIdx.y; out < n_out; out += gridDim.y)
        for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n_frames; i += (long)gridDim.x * blockDim.x)
            if (!(fabsf(y[out * pitch + i]) < 1e30f)) atomicAdd(count, 1u);
}

/* The frames where faults are likely: the first and last, around n_taps, around tiles; then frames anywhere. */
static void samples_make(struct sample *samples, const struct task *t, uint64_t seed)
{
    static const long tiles[] = {32, 64, 128, 512, 768, 1280, 1536, 2048, 4096};
    long edges[SAMPLES];
    int n = 0;
    for (int i = 0; i < 12; i++) edges[n++] = i, edges[n++] = t->n_frames - 1 - i;
    for (int i = -2; i <= 2; i++) edges[n++] = t->n_taps + i;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int j = -1; j <= 1; j++) edges[n++] = tiles[i] + j, edges[n++] = t->n_frames / tiles[i] / 2 * tiles[i] + j;
    for (int s = 0; s < SAMPLES; s++) {
        const uint64_t dice = (uint64_t)((noise_at(~seed, s) + 1.0f) * 4194304.0f);
        long frame = s < n ? edges[s] : (long)(dice * 2654435761u % (uint64_t)t->n_frames);
        if (frame < 0 || frame >= t->n_frames) frame = (long)(dice % (uint64_t)t->n_frames);
        const int out = s % 4 == 0 ? 0 : s % 4 == 1 ? t->n_out - 1 : (int)(dice % (uint64_t)t->n_out);
        const struct row at = task_row(t, out);
        const long in = (at.x - t->x) / t->x_pitch;
        const float *h = t->h_host + (long)at.mask * t->n_taps;
        double sum = 0.0;
        for (int k = 0; k < t->n_taps && k <= frame; k++)
            sum += (double)h[k] * noise_at(seed, (uint64_t)(in * t->x_pitch + frame - k));
        samples[s] = {out, frame, sum};
    }
}

/* Relative error in the 2-norm, of the samples before frame n_frames; a NaN makes it infinite. */
static double error_of(const struct sample *samples, const float *got, long n_frames)
{
    double wrong = 0.0, all = 0.0;
    for (int s = 0; s < SAMPLES; s++) {
        if (samples[s].frame >= n_frames) continue;
        const double d = got[s] - samples[s].want;
        wrong += d == d ? d * d : INFINITY;
        all += samples[s].want * samples[s].want;
    }
    return sqrt(wrong / all);
}

/* ---- ceilings ---------------------------------------------------------------------------------------------------- */

enum { CHAINS = 16, FMA_STEPS = 4000, FMA_UNROLL = 16, FMA_THREADS = 256 };

/* 16 independent chains a thread, so that an FMA can issue in every cycle though each takes 4. */
static __global__ void fma_loop(float *y, float b, float c, unsigned long long *cycles)
{
    long long begin = clock64();
    float a[CHAINS];
    b += 1e-9f * threadIdx.x, c += 1e-9f * threadIdx.x; /* registers, not operands from constant memory */
#pragma unroll
    for (int i = 0; i < CHAINS; i++) a[i] = threadIdx.x * 0.1f + i;
    for (int step = 0; step < FMA_STEPS; step++)
#pragma unroll
        for (int i = 0; i < FMA_UNROLL * CHAINS; i++) a[i % CHAINS] = fmaf(a[i % CHAINS], b, c);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; i++) sum += a[i];
    if (sum == 123.456f) y[0] = sum; /* never; the compiler does not know */
    __syncthreads();
    if (threadIdx.x == 0)
        atomicMax(cycles, (unsigned long long)(clock64() - begin)); /* of the slowest block */
}

template <class Run> static double best_ms(int runs, Run run)
{
    cudaEvent_t a, b;
    cudaEventCreate(&a), cudaEventCreate(&b);
    double best = 1e9;
    run();
    for (int i = 0; i < runs; i++) {
        float ms = 1e9f;
        cudaEventRecord(a);
        cudaError_t status = run();
        cudaEventRecord(b);
        cudaEventSynchronize(b);
        if (cudaEventElapsedTime(&ms, a, b) == cudaSuccess && status == cudaSuccess && ms < best) best = ms;
    }
    cudaEventDestroy(a), cudaEventDestroy(b);
    return best;
}

static int ceilings(struct bench *b)
{
    const size_t bytes = (size_t)1 << 30;
    const int n = b->options->quick ? 4096 : 8192;
    float *from = NULL, *to = NULL;
    unsigned long long *cycles = NULL, n_cycles = 0;
    int sms = 1, device = 0;
    BENCH_TRY(cudaGetDevice(&device), "cudaGetDevice");
    BENCH_TRY(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    BENCH_TRY(cudaMalloc(&from, bytes), "cudaMalloc(1 GiB)");
    BENCH_TRY(cudaMalloc(&to, bytes), "cudaMalloc(1 GiB)");
    BENCH_TRY(cudaMalloc(&cycles, sizeof *cycles), "cudaMalloc");
    noise<<<8 * sms, 256>>>(from, bytes / sizeof(float), b->seed);
    const int blocks = 4 * sms; /* 32 warps a multiprocessor, all at once: a block takes as long as the launch */
    BENCH_TRY(cudaMemset(cycles, 0, sizeof *cycles), "cudaMemset");
    double ms = best_ms(
        7, [&] { return fma_loop<<<blocks, FMA_THREADS>>>(to, 0.999f, 0.001f, cycles), cudaGetLastError(); });
    b->fma_tflops = 2.0 * blocks * FMA_THREADS * FMA_STEPS * FMA_UNROLL * (double)CHAINS / ms * 1e-9;
    BENCH_TRY(cudaMemcpy(&n_cycles, cycles, sizeof n_cycles, cudaMemcpyDeviceToHost), "cudaMemcpy");
    b->sm_mhz = 1e-3 * n_cycles / ms;
    ms = best_ms(9, [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice); });
    b->copy_tbs = 2.0 * bytes / ms * 1e-9;
    if (!peer_cublas_missing()) {
        ms = best_ms(3, [&] { return peer_sgemm(n, from, from + (size_t)n * n, to); });
        b->sgemm_tflops = 2.0 * n * n * n / ms * 1e-9;
    }
    BENCH_TRY(cudaDeviceSynchronize(), "a ceiling");
    cudaFree(from), cudaFree(to), cudaFree(cycles);
    return 0;
}

/* ---- one rung on one shape --------------------------------------------------------------------------------------- */

struct sets { /* copies of a task that take turns */
    int n;
    struct task task[MAX_SETS];
    float *h_host;
    struct sample *samples, *samples_device;
    float *got_device;
    unsigned *nan_device;
    cudaEvent_t *events; /* [2 MAX_RUNS] */
};

static void sets_free(struct sets *s)
{
    for (int i = 0; i < MAX_SETS; i++) cudaFree((void *)s->task[i].x), cudaFree(s->task[i].y);
    cudaFree((void *)s->task[0].h);
    cudaFree(s->samples_device), cudaFree(s->got_device), cudaFree(s->nan_device);
    free(s->h_host), free(s->samples);
}

static int sets_make(struct bench *b, struct sets *s, const struct shape *shape)
{
    struct task t = shape_task(shape, 128);
    const size_t x_bytes = t.n_in * t.x_pitch * sizeof(float), y_bytes = t.n_out * t.y_pitch * sizeof(float);
    const size_t h_floats = (size_t)task_masks(&t) * t.n_taps;
    s->n = (int)((ROTATE_BYTES + x_bytes + y_bytes - 1) / (x_bytes + y_bytes));
    if (s->n > MAX_SETS) s->n = MAX_SETS;

    s->h_host = (float *)malloc(h_floats * sizeof(float));
    s->samples = (struct sample *)malloc(SAMPLES * sizeof *s->samples);
    if (!s->h_host || !s->samples) return bench_fail(b, "out of memory");
    for (size_t i = 0; i < h_floats; i++) s->h_host[i] = noise_at(b->seed * 3 + 1, i);
    float *h;
    BENCH_TRY(cudaMalloc(&h, h_floats * sizeof(float)), "cudaMalloc");
    s->task[0].h = h;
    BENCH_TRY(cudaMemcpy(h, s->h_host, h_floats * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    t.h = h, t.h_host = s->h_host;
    for (int i = 0; i < s->n; i++) {
        float *x, *y;
        BENCH_TRY(cudaMalloc(&x, x_bytes), "cudaMalloc of a bench's input");
        t.x = x, t.y = NULL;
        s->task[i] = t;
        BENCH_TRY(cudaMalloc(&y, y_bytes), "cudaMalloc of a bench's output");
        s->task[i].y = y;
        noise<<<2048, 256>>>(x, t.n_in * t.x_pitch, b->seed);
        BENCH_TRY(cudaGetLastError(), "the noise");
    }
    samples_make(s->samples, &s->task[0], b->seed);
    BENCH_TRY(cudaMalloc(&s->samples_device, SAMPLES * sizeof *s->samples), "cudaMalloc");
    BENCH_TRY(cudaMalloc(&s->got_device, SAMPLES * sizeof(float)), "cudaMalloc");
    BENCH_TRY(cudaMalloc(&s->nan_device, sizeof(unsigned)), "cudaMalloc");
    BENCH_TRY(cudaMemcpy(s->samples_device, s->samples, SAMPLES * sizeof *s->samples, cudaMemcpyHostToDevice),
              "cudaMemcpy");
    return 0;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int check(struct bench *b, const struct sets *s, const struct task *t, const struct rung *rung, void *prepared,
                 double *error)
{
    float got[SAMPLES];
    unsigned unwritten = 0;
    BENCH_TRY(cudaMemset(t->y, 0xff, t->n_out * t->y_pitch * sizeof(float)), "cudaMemset"); /* NaN */
    BENCH_TRY(cudaMemset(s->nan_device, 0, sizeof(unsigned)), "cudaMemset");
    BENCH_TRY(rung->launch(t, prepared, 0), rung->name);
    pick<<<1, SAMPLES>>>(t->y, t->y_pitch, s->samples_device, s->got_device);
    count_nan<<<dim3(1024, t->n_out < 1024 ? t->n_out : 1024), 256>>>(t->y, t->y_pitch, t->n_frames, t->n_out,
                                                                      s->nan_device);
    BENCH_TRY(cudaMemcpy(got, s->got_device, sizeof got, cudaMemcpyDeviceToHost), rung->name);
    BENCH_TRY(cudaMemcpy(&unwritten, s->nan_device, sizeof unwritten, cudaMemcpyDeviceToHost), rung->name);
    *error = unwritten ? INFINITY : error_of(s->samples, got, t->n_frames);
    return 0;
}

static int time_it(struct bench *b, const struct sets *s, const struct task *tasks, const struct rung *rung,
                   void *const *prepared, struct result *r)
{
    float us[MAX_RUNS], first = 0.0f;
    for (int i = 0; i < s->n; i++) BENCH_TRY(rung->launch(&tasks[i], prepared[i], 0), rung->name);
    BENCH_TRY(cudaEventRecord(s->events[0]), "cudaEventRecord");
    BENCH_TRY(rung->launch(&tasks[0], prepared[0], 0), rung->name);
    BENCH_TRY(cudaEventRecord(s->events[1]), "cudaEventRecord");
    BENCH_TRY(cudaEventSynchronize(s->events[1]), rung->name);
    BENCH_TRY(cudaEventElapsedTime(&first, s->events[0], s->events[1]), "cudaEventElapsedTime");
    r->runs = (int)(b->budget_us / (1e3 * first + 1.0));
    if (r->runs < 5) r->runs = first > 100.0f ? 3 : 5;
    if (r->runs > (tasks->n_out > 16 ? 200 : MAX_RUNS)) r->runs = tasks->n_out > 16 ? 200 : MAX_RUNS;
    for (int i = 0; i < r->runs; i++) {
        BENCH_TRY(cudaEventRecord(s->events[2 * i]), "cudaEventRecord");
        BENCH_TRY(rung->launch(&tasks[i % s->n], prepared[i % s->n], 0), rung->name);
        BENCH_TRY(cudaEventRecord(s->events[2 * i + 1]), "cudaEventRecord");
    }
    BENCH_TRY(cudaDeviceSynchronize(), rung->name);
    for (int i = 0; i < r->runs; i++) {
        float ms;
        BENCH_TRY(cudaEventElapsedTime(&ms, s->events[2 * i], s->events[2 * i + 1]), "cudaEventElapsedTime");
        us[i] = 1e3f * ms;
    }
    qsort(us, r->runs, sizeof *us, ascending);
    r->median_us = us[r->runs / 2];
    r->p99_us = us[(int)(0.99 * (r->runs - 1) + 0.5)];
    return 0;
}

static int measure(struct bench *b, const struct sets *s, const struct rung *rung, struct result *r)
{
    struct task tasks[MAX_SETS];
    void *prepared[MAX_SETS] = {};
    memcpy(tasks, s->task, sizeof tasks);
    const struct task *t = tasks;
    const double flop_a_frame = 2.0 * t->n_taps * t->n_out;
    r->rung = rung, r->frames = t->n_frames;
    const bool peer = rung == &peer_cudnn || rung == &peer_cufft;
    if (rung == &peer_cudnn && peer_cudnn_missing())
        r->not_run = peer_cudnn_missing();
    else if (rung == &peer_cufft && peer_cufft_missing())
        r->not_run = peer_cufft_missing();
    else if (!peer && !rung->production && flop_a_frame * t->n_frames > MAX_FLOP)
        r->not_run = "would take over 0.2 s";
    else if (!rung->accepts(t))
        r->not_run = "does not accept this shape";
    if (r->not_run) return 0;
    int n_sets = s->n, status = 0;
    if (rung == &peer_cudnn && flop_a_frame * t->n_frames > CUDNN_FLOP) { /* rows keep their pitch */
        long fewer = (long)(CUDNN_FLOP / flop_a_frame) / 128 * 128;
        if (fewer < 4096) fewer = 4096;
        if (fewer > t->n_frames) fewer = t->n_frames;
        for (int i = 0; i < n_sets; i++) tasks[i].n_frames = fewer;
        r->frames = fewer;
    }
    for (int i = 0; i < n_sets && status == 0; i++) {
        cudaError_t ready = rung->prepare ? rung->prepare(&tasks[i], &prepared[i]) : cudaSuccess;
        if (ready != cudaSuccess) r->not_run = cudaGetErrorString(ready), cudaGetLastError(), status = 1;
        if (peer) snprintf(r->choice, sizeof r->choice, "%s", peer_choice());
        if (peer && i == 0) break; /* their search is slow, and their scratch memory is larger than the cache */
    }
    struct sets turns = *s;
    if (peer) turns.n = 1;
    if (status == 0) {
        status = check(b, s, t, rung, prepared[0], &r->error);
        if (status == 0 && !(r->error <= MAX_ERROR)) b->n_wrong += !peer, r->not_run = "WRONG", status = 1;
    }
    if (status == 0) status = time_it(b, &turns, tasks, rung, prepared, r);
    if (rung->discard)
        for (int i = 0; i < n_sets; i++)
            if (prepared[i]) rung->discard(prepared[i]);
    if (status < 0) return -1;
    if (r->not_run) return 0;
    const double frames = (double)r->frames;
    r->gsamples = t->n_out * frames / r->median_us * 1e-3;
    r->tflops = flop_a_frame * frames / r->median_us * 1e-6;
    r->of_fma = 100.0 * r->tflops / b->fma_tflops;
    r->of_copy = 100.0 * 4.0 * (t->n_in + t->n_out) * frames / r->median_us * 1e-6 / b->copy_tbs;
    return 0;
}

/* ---- report ------------------------------------------------------------------------------------------------------ */

static const struct result *result_of(const struct bench *b, int shape, const struct rung *rung)
{
    for (int i = 0; i < b->n_results; i++)
        if (b->results[i].shape == shape && b->results[i].rung == rung)
            return b->results[i].not_run ? NULL : &b->results[i];
    return NULL;
}

/* The fastest rung on a shape, without the peers; NULL: none ran. */
static const struct result *best_of(const struct bench *b, int shape)
{
    const struct result *best = NULL;
    for (int i = PEERS; i < b->n_rungs; i++) {
        const struct result *r = result_of(b, shape, b->rungs[i]);
        if (r && (!best || r->median_us < best->median_us)) best = r;
    }
    return best;
}

static const char *number(char *text, size_t cap, double value, const char *format)
{
    if (value > 0.0)
        snprintf(text, cap, format, value);
    else
        snprintf(text, cap, "-");
    return text;
}

static void print_heading(const struct bench *b)
{
    printf("%s, driver %s, %.0f MHz under load, %s, --seed %d\n", b->gpu, b->driver, b->sm_mhz, b->date,
            b->first_seed);
    printf("ceilings: FMA %.1f TFLOP/s, copy %.2f TB/s, cuBLAS SGEMM ", b->fma_tflops, b->copy_tbs);
    if (b->sgemm_tflops > 0)
        printf("%.1f TFLOP/s\n", b->sgemm_tflops);
    else
        printf("%s\n", peer_cublas_missing());
    printf("%-13s %6s %9s %4s %-6s %8s %10s %10s %8s %8s %6s %6s %8s %8s\n", "rung", "taps", "frames", "ch",
            "masks", "error", "median us", "p99 us", "Gs/s", "TFLOP/s", "%FMA", "%copy", "x cuDNN", "x cuFFT");
}

static void print_result(const struct bench *b, const struct result *r)
{
    const struct shape *s = &b->shapes[r->shape];
    char x[2][16], error[16];
    printf("%-13s %6d %9ld %4d %-6s ", r->rung->name, s->taps, r->frames, s->channels,
            sharing_name[s->sharing]);
    if (r->not_run)
        printf("%s\n", r->not_run);
    else
        printf("%8s %10.1f %10.1f %8.4g %8.4g %6.1f %6.1f %8s %8s%s%s\n", number(error, 16, r->error, "%.1e"),
                r->median_us, r->p99_us, r->gsamples, r->tflops, r->of_fma, r->of_copy,
                number(x[0], 16, r->x_cudnn, "%.2f"), number(x[1], 16, r->x_cufft, "%.2f"), r->choice[0] ? "  " : "",
                r->choice);
    fflush(stdout);
}

static void json_number(const char *name, double value)
{
    if (value == value && value > 0 && value < 1e300)
        printf(", \"%s\": %.6g", name, value);
    else
        printf(", \"%s\": null", name);
}

static void print_json(const struct bench *b)
{
    printf("{\"gpu\": \"%s\", \"driver\": \"%s\", \"date\": \"%s\", \"seed\": %d", b->gpu, b->driver, b->date,
            b->first_seed);
    json_number("sm_mhz", b->sm_mhz);
    json_number("fma_tflops", b->fma_tflops);
    json_number("copy_tbs", b->copy_tbs);
    json_number("sgemm_tflops", b->sgemm_tflops);
    printf(", \"results\": [");
    for (int i = 0; i < b->n_results; i++) {
        const struct result *r = &b->results[i];
        const struct shape *s = &b->shapes[r->shape];
        fprintf(stdout,
                "%s\n  {\"rung\": \"%s\", \"taps\": %d, \"frames\": %ld, \"channels\": %d, \"masks\": \"%s\", "
                "\"production\": %s",
                i ? "," : "", r->rung->name, s->taps, r->frames, s->channels, sharing_name[s->sharing],
                r->rung->production ? "true" : "false");
        if (r->not_run) {
            printf(", \"not_run\": \"%s\"}", r->not_run);
            continue;
        }
        if (r->choice[0]) printf(", \"choice\": \"%s\"", r->choice);
        printf(", \"runs\": %d", r->runs);
        json_number("error", r->error);
        json_number("median_us", r->median_us);
        json_number("p99_us", r->p99_us);
        json_number("gsamples", r->gsamples);
        json_number("tflops", r->tflops);
        json_number("percent_fma", r->of_fma);
        json_number("percent_copy", r->of_copy);
        json_number("x_cudnn", r->x_cudnn);
        json_number("x_cufft", r->x_cufft);
        printf("}");
    }
    printf("\n]}\n");
}

static void length_text(char *text, size_t cap, long n)
{
    if (n >= 1 << 14 && (n & (n - 1)) == 0)
        snprintf(text, cap, "2^%d", 63 - __builtin_clzl((unsigned long)n));
    else
        snprintf(text, cap, "%ld", n);
}

/* Does the rung use transforms? They need fewer operations than the direct sum, so their TFLOP/s mean nothing. */
static bool transforms(const struct rung *rung)
{
    return rung == &peer_cufft || strcmp(rung->name, "overlap-save") == 0;
}

/* The share of the ceiling that is the limit, in percent; for a transform, of the copy rate. */
static double share_of(const struct result *r)
{
    return transforms(r->rung) || r->of_copy > r->of_fma ? r->of_copy : r->of_fma;
}

/* A row for each rung, a column for each shape. A cell has G samples/s and the share of the ceiling, or, if in_us, the
 * median time. */
static void table_grid(const struct bench *b, FILE *f, const char *title, bool (*wanted)(const struct shape *),
                       bool in_us)
{
    char length[32], cell[64];
    fprintf(f, "\n%s\n\n| rung |", title);
    for (int s = 0; s < b->n_shapes; s++) {
        const struct shape *shape = &b->shapes[s];
        if (!wanted(shape)) continue;
        length_text(length, sizeof length, shape->frames);
        if (shape->channels == 1)
            fprintf(f, " %d x %s |", shape->taps, length);
        else
            fprintf(f, " %d x %s x %d %s |", shape->taps, length, shape->channels, sharing_name[shape->sharing]);
    }
    fprintf(f, "\n|---|");
    for (int s = 0; s < b->n_shapes; s++)
        if (wanted(&b->shapes[s])) fprintf(f, "--:|");
    fprintf(f, "\n");
    for (int i = 0; i < b->n_rungs; i++) {
        const struct rung *rung = b->rungs[(i + PEERS) % b->n_rungs]; /* the peers last */
        bool any = false;
        for (int s = 0; s < b->n_shapes; s++) any = any || (wanted(&b->shapes[s]) && result_of(b, s, rung));
        if (!any) continue;
        fprintf(f, "| %s |", rung->name);
        for (int s = 0; s < b->n_shapes; s++) {
            if (!wanted(&b->shapes[s])) continue;
            const struct result *r = result_of(b, s, rung);
            if (!r) {
                fprintf(f, " |");
                continue;
            }
            if (in_us)
                snprintf(cell, sizeof cell, "%.1f", r->median_us);
            else
                snprintf(cell, sizeof cell, r->gsamples < 10 ? "%.3g (%.0f%%)" : "%.0f (%.0f%%)", r->gsamples,
                         share_of(r));
            fprintf(f, r == best_of(b, s) ? " **%s** |" : " %s |", cell);
        }
        fprintf(f, "\n");
    }
}

static bool one_channel(const struct shape *s) { return s->channels == 1; }
static bool many_frames(const struct shape *s) { return s->channels > 1 && s->frames > 512; }
static bool live_blocks(const struct shape *s) { return s->channels > 1 && s->frames <= 512; }

/* The speed of each rung over the one before. */
static void table_ablation(const struct bench *b, FILE *f)
{
    static const int taps[] = {5, 11, 511};
    fprintf(f,
            "\n### The gain of each rung\n\nOne channel; G samples/s, and times the rung before. book: the section.\n\n"
            "| rung | idea | book | 5 taps | | 11 taps | | 511 taps | | error "
            "|\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|\n");
    const struct rung *side_step = NULL; /* the next rung is compared with the rung before this one */
    for (int i = PEERS; i < b->n_rungs; i++)
        if (strcmp(b->rungs[i]->name, "halo-32") == 0) side_step = b->rungs[i];
    double before[3] = {};
    for (int i = PEERS; i < b->n_rungs; i++) {
        const struct rung *rung = b->rungs[i];
        double worst = 0.0;
        fprintf(f, "| %s | %s | %s |", rung->name, rung->idea, rung->book);
        for (int c = 0; c < 3; c++) {
            const struct result *r = NULL;
            for (int s = 0; s < b->n_shapes && !r; s++)
                if (b->shapes[s].taps == taps[c] && b->shapes[s].channels == 1) r = result_of(b, s, rung);
            if (!r) {
                fprintf(f, " | |");
                continue;
            }
            if (before[c] > 0)
                fprintf(f, " %.*f | %.2f |", r->gsamples < 100, r->gsamples, r->gsamples / before[c]);
            else
                fprintf(f, " %.*f | |", r->gsamples < 100, r->gsamples);
            if (rung != side_step) before[c] = r->gsamples;
        }
        for (int k = 0; k < b->n_results; k++)
            if (b->results[k].rung == rung && !b->results[k].not_run && b->results[k].error > worst)
                worst = b->results[k].error;
        fprintf(f, " %.0e |\n", worst);
    }
    fprintf(f, "\nerror: the worst of all shapes, relative to float64.\n");
}

static void table_best(const struct bench *b, FILE *f)
{
    char length[32], x[4][16];
    fprintf(f, "\n### The fastest rung of each shape\n\n"
               "| taps | frames | channels | masks | fastest | error | median us | p99 us | G samples/s | TFLOP/s | of "
               "FMA | of copy "
               "| x cuDNN | x cuFFT |\n|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int s = 0; s < b->n_shapes; s++) {
        const struct result *best = best_of(b, s);
        if (!best) continue;
        length_text(length, sizeof length, b->shapes[s].frames);
        const double direct = transforms(best->rung) ? 0.0 : 1.0;
        fprintf(f, "| %d | %s | %d | %s | %s | %.0e | %.1f | %.1f | %.4g | %s | %s | %.0f%% | %s | %s |\n",
                b->shapes[s].taps, length, b->shapes[s].channels, sharing_name[b->shapes[s].sharing], best->rung->name,
                best->error, best->median_us, best->p99_us, best->gsamples,
                number(x[0], 16, direct * best->tflops, "%.1f"), number(x[1], 16, direct * best->of_fma, "%.0f%%"),
                best->of_copy, number(x[2], 16, best->x_cudnn, "%.1f"), number(x[3], 16, best->x_cufft, "%.1f"));
    }
}

static void table_write(const struct bench *b, FILE *f)
{
    fprintf(f, "\n%s, driver %s, %.0f MHz under load, %s. Measured in the same run:\n\n", b->gpu, b->driver, b->sm_mhz,
            b->date);
    fprintf(f,
            "| ceiling | |\n|---|--:|\n| FMA loop | %.1f TFLOP/s |\n| device copy, bytes read and written | %.2f TB/s "
            "= %.0f G "
            "samples/s |\n",
            b->fma_tflops, b->copy_tbs, b->copy_tbs * 125);
    if (b->sgemm_tflops > 0) fprintf(f, "| cuBLAS SGEMM | %.1f TFLOP/s |\n", b->sgemm_tflops);
    table_grid(
        b, f,
        "### One channel\n\nG samples/s, and the share of the ceiling that is the limit: the FMA rate or the copy rate "
        "(transforms: the copy "
        "rate). taps x frames. Empty: the rung does not accept the shape, or would run for over 0.2 s.",
        one_channel, false);
    table_ablation(b, f);
    table_grid(b, f,
               "### Many channels\n\ntaps x frames x channels; one mask for all (shared), each its own (own), one "
               "input and many "
               "masks (bank).",
               many_frames, false);
    table_grid(b, f, "### Live blocks\n\nMicroseconds, launch included: rungs 1 to 10 launch once a channel.",
               live_blocks, true);
    table_best(b, f);
    for (int i = 0; i < PEERS; i++) {
        const char *why = i ? peer_cufft_missing() : peer_cudnn_missing();
        if (why) fprintf(f, "\n%s: %s.\n", b->rungs[i]->name, why);
    }
    fprintf(f, "\n");
}

static const char table_from[] = "<!-- bench kernels -->", table_to[] = "<!-- end -->";

/* Returns the text of the file, which the caller frees, and the positions of the markers. NULL: the reason is in
 * b->why. */
static char *table_open(struct bench *b, const char *path, char **begin, char **end)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = fopen(path, "r");
    if (!f) return bench_fail(b, "%s: cannot be read", path), (char *)NULL;
    for (size_t cap = 1 << 16;; cap *= 2) {
        char *more = (char *)realloc(text, cap);
        if (!more) break;
        text = more;
        n += fread(text + n, 1, cap - 1 - n, f);
        text[n] = 0;
        if (n < cap - 1) break;
    }
    fclose(f);
    *begin = text ? strstr(text, table_from) : NULL;
    *end = *begin ? strstr(*begin, table_to) : NULL;
    if (*end) return text;
    free(text);
    return bench_fail(b, "%s: has no lines %s and %s to write between", path, table_from, table_to), (char *)NULL;
}

/* Replaces the text between the markers: writes FILE.part, then renames it. */
static int table_replace(struct bench *b, const char *path)
{
    char *begin, *end, *text = table_open(b, path, &begin, &end), part[4096];
    if (!text) return -1;
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "w");
    if (f) {
        fwrite(text, 1, begin - text + sizeof table_from - 1, f);
        fputc('\n', f);
        table_write(b, f);
        fputs(end, f);
    }
    free(text);
    if (!f || ferror(f) | fclose(f) || rename(part, path) != 0) return bench_fail(b, "%s: cannot be written", path);
    return 0;
}

/* ---- a whole run ------------------------------------------------------------------------------------------------- */

static void machine_name(struct bench *b)
{
    struct cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, 0) == cudaSuccess) snprintf(b->gpu, sizeof b->gpu, "%s", p.name);
    snprintf(b->driver, sizeof b->driver, "unknown");
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (lib) {
        auto init = (int (*)(void))dlsym(lib, "nvmlInit_v2");
        auto version = (int (*)(char *, unsigned))dlsym(lib, "nvmlSystemGetDriverVersion");
        if (init && version && init() == 0) version(b->driver, sizeof b->driver);
    }
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm)) strftime(b->date, sizeof b->date, "%Y-%m-%d", &tm);
}

/* The seed of the next shape. */
static uint64_t next_seed(uint64_t seed) { return seed * 6364136223846793005u + 1442695040888963407u; }

static int run_shape(struct bench *b, int index)
{
    struct sets s = {};
    s.events = b->events;
    b->seed = next_seed(b->seed);
    b->budget_us = b->options->quick ? 15e3 : 60e3;
    int status = sets_make(b, &s, &b->shapes[index]);
    const struct result *peer[PEERS] = {};
    for (int i = b->options->rung ? PEERS : 0; i < b->n_rungs && status == 0; i++) {
        struct result *r = &b->results[b->n_results];
        r->shape = index;
        status = measure(b, &s, b->rungs[i], r);
        if (status != 0) break;
        b->n_results++;
        if (i < PEERS) peer[i] = r->not_run ? NULL : r;
        if (!r->not_run && i >= PEERS) {
            r->x_cudnn = peer[0] ? r->gsamples / peer[0]->gsamples : 0.0;
            r->x_cufft = peer[1] ? r->gsamples / peer[1]->gsamples : 0.0;
        }
        if (!b->options->json) print_result(b, r);
    }
    sets_free(&s);
    return status;
}

/* Is it the rung of this name, or of this number? NULL: all rungs are wanted. */
static bool is_wanted(const struct rung *rung, const char *name)
{
    return !name || strcmp(rung->name, name) == 0 || atoi(name) == rung->number;
}

/* Compares the rungs that --rung names with float64. */
static int check_wanted(struct bench *b)
{
    for (int i = PEERS; i < b->n_rungs; i++) {
        int n_shapes;
        const char *why = ladder_check_rung(b->rungs[i], &n_shapes);
        if (why) return bench_fail(b, "%s", why);
        if (!b->options->json)
            printf("rung %d, %s: as in float64 in the book's exercises and in %d shapes\n", b->rungs[i]->number,
                   b->rungs[i]->name, n_shapes);
    }
    return 0;
}

/* Prepares the measurements; bench_end frees what it allocates. */
static int bench_begin(struct bench *b)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n < 1)
        return bench_fail(b, "no CUDA device; `nvidia-smi` shows what the driver sees");
    BENCH_TRY(cudaSetDevice(0), "cudaSetDevice(0)");
    machine_name(b);
    const struct rung *const *ladder = ladder_rungs(&n);
    b->rungs[b->n_rungs++] = &peer_cudnn;
    b->rungs[b->n_rungs++] = &peer_cufft;
    for (int i = 0; i < n && b->n_rungs < MAX_RUNGS; i++)
        if (is_wanted(ladder[i], b->options->rung)) b->rungs[b->n_rungs++] = ladder[i];
    b->shapes = b->options->quick ? quick_shapes : full_shapes;
    b->n_shapes = (int)(b->options->quick ? sizeof quick_shapes / sizeof *quick_shapes
                                          : sizeof full_shapes / sizeof *full_shapes);
    b->first_seed = b->options->seed > 0 ? b->options->seed : (int)(time(NULL) & INT32_MAX);
    b->seed = (uint64_t)b->first_seed * 1000003u;
    b->fma_tflops = b->copy_tbs = 1.0; /* until the ceilings are measured */
    b->events = (cudaEvent_t *)calloc(2 * MAX_RUNS, sizeof *b->events);
    if (!b->events) return bench_fail(b, "out of memory");
    for (int i = 0; i < 2 * MAX_RUNS; i++) BENCH_TRY(cudaEventCreate(&b->events[i]), "cudaEventCreate");
    return 0;
}

static void bench_end(struct bench *b)
{
    for (int i = 0; b->events && i < 2 * MAX_RUNS; i++)
        if (b->events[i]) cudaEventDestroy(b->events[i]);
    free(b->events);
}

static int bench_all(struct bench *b)
{
    if (b->options->table) { /* so that an error comes before the work, not after it */
        char *begin, *end, *text = table_open(b, b->options->table, &begin, &end);
        if (!text) return -1;
        free(text);
    }
    if (bench_begin(b) != 0 || (b->options->rung && check_wanted(b) != 0) || ceilings(b) != 0) return -1;
    if (!b->options->json) print_heading(b);
    for (int i = 0; i < b->n_shapes; i++)
        if (run_shape(b, i) != 0) return -1;
    if (b->options->json) print_json(b);
    if (b->options->table && table_replace(b, b->options->table) != 0) return -1;
    if (b->n_wrong)
        return bench_fail(b, "%d measurement%s wrong; see WRONG above; the same numbers again: --seed %d", b->n_wrong,
                          b->n_wrong == 1 ? " is" : "s are", b->first_seed);
    return 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static const char usage[] =
    "haloconv-ladder [OPTIONS] - checks every rung of the kernel ladder in float64 and times it on the first GPU, with\n"
    "the ceilings of the GPU and, if they are found along LD_LIBRARY_PATH, cuBLAS, cuDNN and cuFFT for comparison\n"
    "\n"
    "  --rung NAME         One rung, by name or number, without cuDNN and cuFFT\n"
    "  --quick             A few shapes, 5 seconds; all of them take about a minute\n"
    "  --json              One JSON object on standard output instead of a line a measurement\n"
    "  --write-table FILE  Rewrite FILE between its lines <!-- bench kernels --> and <!-- end -->\n"
    "  --seed N            Seed of the noise, as a report prints it [by the clock]\n"
    "  --list              The rungs\n"
    "  --help              This text\n";

static int list_rungs(FILE *f)
{
    int n;
    const struct rung *const *rungs = ladder_rungs(&n);
    for (int i = 0; i < n; i++) fprintf(f, "%4d  %-13s %s\n", rungs[i]->number, rungs[i]->name, rungs[i]->idea);
    return 0;
}

static bool is_rung(const char *name)
{
    int n;
    const struct rung *const *rungs = ladder_rungs(&n);
    for (int i = 0; i < n; i++)
        if (is_wanted(rungs[i], name)) return true;
    return false;
}

int main(int argc, char **argv)
{
    enum { FAILED = 1, USAGE = 2 };
    static const struct option known[] = {
        {"rung", 1, NULL, 'r'}, {"quick", 0, NULL, 'q'}, {"json", 0, NULL, 'j'}, {"write-table", 1, NULL, 'w'},
        {"seed", 1, NULL, 's'}, {"list", 0, NULL, 'l'},  {"help", 0, NULL, 'h'}, {}};
    struct options options = {};
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) switch (c) {
        case 'r': options.rung = optarg; break;
        case 'q': options.quick = true; break;
        case 'j': options.json = true; break;
        case 'w': options.table = optarg; break;
        case 's': options.seed = atoi(optarg); break;
        case 'l': return list_rungs(stdout);
        case 'h': return fputs(usage, stdout), 0;
        default: return USAGE;
        }
    if (optind < argc || (options.rung && options.table)) return fputs(usage, stderr), USAGE;
    if (options.rung && !is_rung(options.rung)) {
        fprintf(stderr, "haloconv-ladder: %s: is not a rung; these are:\n", options.rung);
        list_rungs(stderr);
        return USAGE;
    }
    static struct bench b;
    b.options = &options;
    const int status = bench_all(&b);
    if (status != 0) fprintf(stderr, "haloconv-ladder: %s\n", b.why);
    bench_end(&b);
    return status == 0 ? 0 : FAILED;
}
