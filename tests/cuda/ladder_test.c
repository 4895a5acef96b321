/* Compares every rung of the kernel ladder with float64, at the edges of tiles, chunks and masks. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#ifdef HC_WITH_CUDA
#include "kernels/ladder/ladder.h"

#include <math.h>

enum { EDGE = 128 }; /* frames of NaN before the first row and after the last, to see if they are read or written */

static void need_device(void)
{
    const char *only = getenv("HC_TEST_BACKEND");
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaSuccess && n > 0) return;
    check(!only || strcmp(only, "cuda") != 0, "no CUDA device: %s", cudaGetErrorString(status));
    check_skip("no CUDA device");
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        check(status_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(status_));                                   \
    } while (0)

static const char *const sharing_name[] = {"shared", "own", "bank"};

/* A task, its device memory, and the expected output. */
struct case_ {
    struct task task;
    float *x_all, *y_all, *h; /* device */
    float *x_host, *h_host, *y_host;
    double *want;              /* [n_out][n_frames] */
    size_t x_floats, y_floats; /* with the edges */
    cudaStream_t stream;
};

static void case_free(struct case_ *c)
{
    cudaFree(c->x_all), cudaFree(c->y_all), cudaFree(c->h);
    free(c->x_host), free(c->h_host), free(c->y_host), free(c->want);
    if (c->stream) cudaStreamDestroy(c->stream);
}

static void case_make(struct case_ *c, int n_taps, long n_frames, int n_ch, enum sharing sharing, int pitch_unit,
                      const float *x, const float *h, struct random *r)
{
    struct task *t = &c->task;
    memset(c, 0, sizeof *c);
    t->n_taps = n_taps, t->n_frames = n_frames, t->n_out = n_ch, t->n_in = sharing == BANK ? 1 : n_ch,
    t->sharing = sharing;
    t->x_pitch = t->y_pitch = (n_frames + pitch_unit - 1) / pitch_unit * pitch_unit;
    const int n_masks = sharing == SHARED ? 1 : n_ch;
    c->x_floats = (size_t)(t->n_in * t->x_pitch + 2 * EDGE), c->y_floats = (size_t)(t->n_out * t->y_pitch + 2 * EDGE);
    c->x_host = must_alloc(c->x_floats, sizeof(float)), c->y_host = must_alloc(c->y_floats, sizeof(float));
    c->h_host = must_alloc((size_t)(n_masks * n_taps), sizeof(float));
    c->want = must_alloc((size_t)(n_ch * n_frames), sizeof(double));
    memset(c->x_host, 0xff, c->x_floats * sizeof(float)); /* NaN: also between n_frames and the pitch */
    for (int ch = 0; ch < t->n_in; ch++)
        for (long i = 0; i < n_frames; i++)
            c->x_host[EDGE + ch * t->x_pitch + i] = x ? x[ch * n_frames + i] : random_sample(r);
    for (int k = 0; k < n_masks * n_taps; k++) c->h_host[k] = h ? h[k] : random_sample(r);
    for (int out = 0; out < n_ch; out++) {
        const float *xr = c->x_host + EDGE + (sharing == BANK ? 0 : out) * t->x_pitch;
        const float *hr = c->h_host + (sharing == SHARED ? 0 : out) * n_taps;
        for (long i = 0; i < n_frames; i++) {
            double sum = 0;
            for (int k = 0; k < n_taps && k <= i; k++) sum += (double)hr[k] * (double)xr[i - k];
            c->want[out * n_frames + i] = sum;
        }
    }
    CUDA(cudaMalloc((void **)&c->x_all, c->x_floats * sizeof(float)));
    CUDA(cudaMalloc((void **)&c->y_all, c->y_floats * sizeof(float)));
    CUDA(cudaMalloc((void **)&c->h, (size_t)(n_masks * n_taps) * sizeof(float)));
    CUDA(cudaMemcpy(c->x_all, c->x_host, c->x_floats * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(c->h, c->h_host, (size_t)(n_masks * n_taps) * sizeof(float), cudaMemcpyHostToDevice));
    /* Fails a rung that launches on another stream. */
    CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    t->x = c->x_all + EDGE, t->y = c->y_all + EDGE, t->h = c->h, t->h_host = c->h_host;
}

/* tolerance: of the relative error in the 2-norm; < 0: every output must be exact to 1e-4. */
static void case_run(struct case_ *c, const struct rung *rung, double tolerance)
{
    const struct task *t = &c->task;
    void *prepared = NULL;
    CUDA(cudaMemset(c->y_all, 0xff, c->y_floats * sizeof(float)));
    CUDA(cudaDeviceSynchronize());
    cudaError_t status = rung->prepare ? rung->prepare(t, &prepared) : cudaSuccess;
    if (status == cudaSuccess) status = rung->launch(t, prepared, c->stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(c->stream);
    if (rung->discard) rung->discard(prepared);
#define SEEN "%s: %d taps, %ld frames, %d channels, %s"
#define SEEN_ARGS rung->name, t->n_taps, t->n_frames, t->n_out, sharing_name[t->sharing]
    check(status == cudaSuccess, SEEN ": %s", SEEN_ARGS, cudaGetErrorString(status));
    CUDA(cudaMemcpy(c->y_host, c->y_all, c->y_floats * sizeof(float), cudaMemcpyDeviceToHost));

    double wrong = 0, all = 0, worst = 0;
    long at = 0;
    int at_out = 0;
    const float *y = c->y_host + EDGE;
    for (int out = 0; out < t->n_out; out++) {
        for (long i = 0; i < t->n_frames; i++) {
            const double want = c->want[out * t->n_frames + i], d = fabs(y[out * t->y_pitch + i] - want);
            if (!(d <= worst)) worst = d >= 0 ? d : INFINITY, at = i, at_out = out;
            wrong += d >= 0 ? d * d : INFINITY;
            all += want * want;
        }
        for (long i = t->n_frames; i < t->y_pitch; i++)
            check(isnan(y[out * t->y_pitch + i]), SEEN ": wrote frame %ld of output %d, after its end", SEEN_ARGS, i,
                  out);
    }
    for (int i = 0; i < EDGE; i++)
        check(isnan(c->y_host[i]) && isnan(c->y_host[c->y_floats - 1 - (size_t)i]), SEEN ": wrote outside its rows",
              SEEN_ARGS);
    const double error = sqrt(wrong / all);
    check(tolerance < 0 ? worst <= 1e-4 : error <= tolerance,
          SEEN ": error %.3g, worst at output %d, frame %ld: got %g, want %g", SEEN_ARGS, error, at_out, at,
          (double)y[at_out * t->y_pitch + at], c->want[at_out * t->n_frames + at]);
}

/* The rounding error of a float sum of noise grows with the root of its length; that of split fp16 and of transforms
 * does not fall below a constant. */
static double tolerance_of(int n_taps)
{
    return 4e-6 + 5e-8 * sqrt(n_taps);
}

static int all_rungs(struct case_ *c, double tolerance)
{
    int n, ran = 0;
    const struct rung *const *rungs = ladder_rungs(&n);
    for (int i = 0; i < n; i++) {
        if (!rungs[i]->accepts(&c->task)) continue;
        case_run(c, rungs[i], tolerance);
        ran++;
    }
    return ran;
}

static void rungs_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    static const int taps[] = {1,    2,    3,    5,    11,   31,   32,    33,    63,   64,  65,
                               127,  128,  129,  240,  241,  255,  256,   257,   511,  512, 513,
                               1023, 1024, 1025, 2049, 4096, 8193, 16384, 16385, 20000};
    static const long frames[] = {1,   2,    31,   32,   33,   64,   127,  128,  129,  255,  257,  511,  512,  513, 767,
                                  769, 1023, 1025, 1279, 1280, 1281, 1535, 1537, 2047, 2049, 3000, 4097, 6151, 8195};
    enum { TAPS = sizeof taps / sizeof *taps, FRAMES = sizeof frames / sizeof *frames };
    struct random r = random_seeded(3);
    for (int i = 0; i < TAPS; i++)
        for (int j = 0; j < (taps[i] > 2048 ? 3 : 7); j++) {
            const long n = frames[random_int(&r, taps[i] > 64 ? 6 : 0, FRAMES - 1)];
            const int n_ch = 1 + (i + j) % 3;
            struct case_ c;
            case_make(&c, taps[i], n, n_ch, n_ch == 1 ? SHARED : (enum sharing)((i + j + j / 3) % 3), j % 2 ? 4 : 128,
                      NULL, NULL, &r);
            check(all_rungs(&c, tolerance_of(taps[i])) >= 1, "no rung takes %d taps", taps[i]);
            case_free(&c);
        }
}

static void many_channels_match_reference(const char *backend)
{
    (void)backend;
    need_device();
    struct random r = random_seeded(4);
    static const struct {
        int taps;
        long frames;
        int n_ch;
    } shapes[] = {{100, 64, 130}, {4096, 64, 6}, {300, 1600, 37}, {33, 5000, 16}, {512, 1, 65}, {700, 512, 12}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int sharing = SHARED; sharing <= BANK; sharing++) {
            struct case_ c;
            case_make(&c, shapes[i].taps, shapes[i].frames, shapes[i].n_ch, (enum sharing)sharing, 128, NULL, NULL, &r);
            check(all_rungs(&c, tolerance_of(shapes[i].taps)) >= 1, "no rung takes %d channels", shapes[i].n_ch);
            case_free(&c);
        }
}

/* Exercise 1 of chapter 7 and its like: N = {4,1,3,2,3}, M = {2,1,4} centred and not flipped is 8 21 13 20 7. Ours is
 * flipped and causal: the mask reversed, the output one frame later. */
static void textbook_exercises_are_exact(const char *backend)
{
    (void)backend;
    need_device();
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
    for (size_t i = 0; i < sizeof exercises / sizeof *exercises; i++) {
        struct case_ c;
        case_make(&c, 3, 6, 1, SHARED, 8, N, exercises[i].mask, NULL);
        for (int j = 0; j < 6; j++)
            check(c.want[j] == (double)exercises[i].want[j], "%s: the reference has %g at %d", exercises[i].name,
                  c.want[j], j);
        all_rungs(&c, -1);
        case_free(&c);
    }
}
#else
static void rungs_match_reference(const char *backend)
{
    (void)backend;
    check_skip("built without CUDA");
}
#endif

int main(void)
{
    static const struct test tests[] = {
        {"rungs_match_reference", rungs_match_reference, false},
#ifdef HC_WITH_CUDA
        {"many_channels_match_reference", many_channels_match_reference, false},
        {"textbook_exercises_are_exact", textbook_exercises_are_exact, false},
#endif
    };
    return check_main("ladder_test", tests, sizeof tests / sizeof *tests);
}
