/* ladder_check - compares rungs with a sum in float64.
 *
 *   x, y (device)   [ EDGE: NaN ][ row 0 | NaN up to the pitch ][ row 1 | NaN .. ] ... [ EDGE: NaN ]
 *
 * A rung that reads outside its rows gets NaN, and one that writes there replaces a NaN. */
#include "ladder_check.h"
#include "rung.cuh"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <vector>

const char *const sharing_name[] = {"shared", "own", "bank"};

struct task shape_task(const struct shape *shape, int pitch_unit)
{
    struct task t = {};
    t.n_taps = shape->taps, t.n_frames = shape->frames, t.sharing = shape->sharing;
    t.n_out = shape->channels, t.n_in = t.sharing == BANK ? 1 : t.n_out;
    t.x_pitch = t.y_pitch = (t.n_frames + pitch_unit - 1) / pitch_unit * pitch_unit;
    return t;
}

namespace {

enum { EDGE = 128 }; /* frames */

struct checked_case {
    struct task task;
    std::vector<float> x, h, y;                         /* x and y with the edges */
    std::vector<double> want;                           /* [n_out][n_frames]      */
    float *x_device = NULL, *h_device = NULL, *y_device = NULL;
    cudaStream_t stream = NULL;                         /* fails a rung that launches on another one */
    ~checked_case()
    {
        cudaFree(x_device), cudaFree(h_device), cudaFree(y_device);
        if (stream) cudaStreamDestroy(stream);
    }
};

char fault[512];

__attribute__((format(printf, 1, 2))) const char *fault_write(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault, sizeof fault, format, args);
    va_end(args);
    return fault;
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) return fault_write("%s: %s", #call, cudaGetErrorString(status_));                  \
    } while (0)

/* x, h: NULL stands for noise. */
const char *case_make(checked_case &c, const struct shape *shape, int pitch_unit, const float *x, const float *h,
                      uint64_t seed)
{
    struct task &t = c.task = shape_task(shape, pitch_unit);
    c.x.assign(t.n_in * t.x_pitch + 2 * EDGE, NAN);
    c.y.assign(t.n_out * t.y_pitch + 2 * EDGE, NAN);
    c.h.resize((size_t)task_masks(&t) * t.n_taps);
    c.want.resize(t.n_out * t.n_frames);
    for (int in = 0; in < t.n_in; in++)
        for (long i = 0; i < t.n_frames; i++) {
            const long at = in * t.x_pitch + i;
            c.x[EDGE + at] = x ? x[i] : noise_at(seed, at);
        }
    for (size_t k = 0; k < c.h.size(); k++) c.h[k] = h ? h[k] : noise_at(~seed, k);
    t.x = c.x.data() + EDGE, t.h = t.h_host = c.h.data(), t.y = c.y.data() + EDGE; /* of the host, for task_row */
    for (int out = 0; out < t.n_out; out++) {
        const struct row r = task_row(&t, out);
        for (long i = 0; i < t.n_frames; i++) {
            double sum = 0.0;
            for (int k = 0; k < t.n_taps && k <= i; k++) sum += (double)r.h[k] * (double)r.x[i - k];
            c.want[out * t.n_frames + i] = sum;
        }
    }
    CUDA(cudaMalloc(&c.x_device, c.x.size() * sizeof(float)));
    CUDA(cudaMalloc(&c.y_device, c.y.size() * sizeof(float)));
    CUDA(cudaMalloc(&c.h_device, c.h.size() * sizeof(float)));
    CUDA(cudaMemcpy(c.x_device, c.x.data(), c.x.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(c.h_device, c.h.data(), c.h.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    t.x = c.x_device + EDGE, t.h = c.h_device, t.y = c.y_device + EDGE;
    return NULL;
}

/* exact: every output to 1e-4. Otherwise the error is relative, in the 2-norm: the rounding error of a float sum of
 * noise grows with the root of its length; that of split fp16 and of transforms does not fall below a constant. */
const char *case_run(checked_case &c, const struct rung *rung, bool exact)
{
    const struct task &t = c.task;
    void *prepared = NULL;
    CUDA(cudaMemset(c.y_device, 0xff, c.y.size() * sizeof(float))); /* NaN */
    CUDA(cudaDeviceSynchronize());
    cudaError_t status = rung->prepare ? rung->prepare(&t, &prepared) : cudaSuccess;
    if (status == cudaSuccess) status = rung->launch(&t, prepared, c.stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(c.stream);
    if (rung->discard) rung->discard(prepared);
    char which[128];
    snprintf(which, sizeof which, "%s: %d taps, %ld frames, %d channels, %s", rung->name, t.n_taps, t.n_frames,
             t.n_out, sharing_name[t.sharing]);
    if (status != cudaSuccess) return fault_write("%s: %s", which, cudaGetErrorString(status));
    CUDA(cudaMemcpy(c.y.data(), c.y_device, c.y.size() * sizeof(float), cudaMemcpyDeviceToHost));

    double wrong = 0.0, all = 0.0, worst = 0.0;
    long at = 0;
    int at_out = 0;
    const float *y = c.y.data() + EDGE;
    for (int out = 0; out < t.n_out; out++) {
        for (long i = 0; i < t.n_frames; i++) {
            const double want = c.want[out * t.n_frames + i], d = fabs(y[out * t.y_pitch + i] - want);
            if (!(d <= worst)) worst = d >= 0 ? d : INFINITY, at = i, at_out = out;
            wrong += d >= 0 ? d * d : INFINITY;
            all += want * want;
        }
        for (long i = t.n_frames; i < t.y_pitch; i++)
            if (!isnan(y[out * t.y_pitch + i]))
                return fault_write("%s: wrote frame %ld of output %d, after its end", which, i, out);
    }
    for (int i = 0; i < EDGE; i++)
        if (!isnan(c.y[i]) || !isnan(c.y[c.y.size() - 1 - i])) return fault_write("%s: wrote outside its rows", which);
    const double error = sqrt(wrong / all);
    if (exact ? worst <= 1e-4 : error <= 4e-6 + 5e-8 * sqrt(t.n_taps)) return NULL;
    return fault_write("%s: error %.3g, worst at output %d, frame %ld: got %g, want %g", which, error, at_out, at,
                       y[at_out * t.y_pitch + at], c.want[at_out * t.n_frames + at]);
}

const char *case_run_all(checked_case &c, const struct rung *const *rungs, int n, bool exact, int *n_ran)
{
    const char *why = NULL;
    *n_ran = 0;
    for (int i = 0; i < n && !why; i++)
        if (rungs[i]->accepts(&c.task)) why = case_run(c, rungs[i], exact), ++*n_ran;
    return why;
}

} // namespace

const char *ladder_check(const struct rung *const *rungs, int n, const struct shape *shape, int pitch_unit,
                         uint64_t seed, int *n_ran)
{
    checked_case c;
    const char *why = case_make(c, shape, pitch_unit, NULL, NULL, seed);
    return why ? why : case_run_all(c, rungs, n, false, n_ran);
}

/* Exercise 1 of chapter 7 and its like: N = {4,1,3,2,3}, M = {2,1,4} centred and not flipped is 8 21 13 20 7. Ours is
 * flipped and causal: the mask reversed, the output one frame later. */
const char *ladder_check_exercises(const struct rung *const *rungs, int n)
{
    static const float N[] = {4, 1, 3, 2, 3, 0};
    static const struct {
        const char *name;
        float mask[3], want[6];
    } exercises[] = {
        {"2 1 4", {4, 1, 2}, {16, 8, 21, 13, 20, 7}},
        {"identity", {0, 1, 0}, {0, 4, 1, 3, 2, 3}},
        {"shift", {1, 0, 0}, {4, 1, 3, 2, 3, 0}},
        {"smoothing", {0.25f, 0.5f, 0.25f}, {1, 2.25f, 2.25f, 2.25f, 2.5f, 2}},
    };
    static const struct shape shape = {3, 6, 1, SHARED};
    for (const auto &exercise : exercises) {
        checked_case c;
        int n_ran;
        const char *why = case_make(c, &shape, 8, N, exercise.mask, 0);
        for (int i = 0; i < 6 && !why; i++)
            if (c.want[i] != (double)exercise.want[i])
                why = fault_write("%s: the reference has %g at %d", exercise.name, c.want[i], i);
        if (!why) why = case_run_all(c, rungs, n, true, &n_ran);
        if (why) return why;
    }
    return NULL;
}

const char *ladder_check_rung(const struct rung *rung, int *n_shapes)
{
    static const int taps[] = {1, 2, 3, 5, 11, 31, 32, 33, 64, 127, 129, 256, 257, 511, 513, 1025};
    static const long frames[] = {1, 31, 32, 33, 127, 128, 129, 513, 1023, 1025, 2049, 3000, 4097};
    enum { TAPS = sizeof taps / sizeof *taps, FRAMES = sizeof frames / sizeof *frames };
    *n_shapes = 0;
    const char *why = ladder_check_exercises(&rung, 1);
    for (int i = 0; i < 4 * TAPS && !why; i++) {
        const int channels = 1 + i % 3;
        const struct shape shape = {taps[i / 4], frames[5 * i % FRAMES], channels,
                                    channels == 1 ? SHARED : (enum sharing)(i / 3 % 3)};
        int n_ran = 0;
        why = ladder_check(&rung, 1, &shape, i % 2 ? 4 : 128, i, &n_ran);
        *n_shapes += n_ran;
    }
    return why;
}
