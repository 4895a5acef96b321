/* Convolution of tensors: the promises of haloconv_tensors.h, on every backend, beside sums in float64. */
#include "check.h"
#include "dsp/backends/backends.h"
#include "dsp/base/half_floats.h"
#include "dsp/device/tensor_backend.h"
#include "dsp/signal/transform.h"
#include "haloconv_tensors.h"
#include "reference.h"
#ifdef HC_WITH_CUDA
#include <cuda_runtime.h>
#endif

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#if defined(CUDA_ON_CPU)
enum { FEW = 1 }; /* cases: the emulated device is slow */
#else
enum { FEW = 0 };
#endif

/* A case tests one result of an operation: those of enum hc_tensors_op, and HC_GRADIENTS has two. */
enum { GX_OF_BOTH = HC_GRADIENTS, GH_OF_BOTH, RESULTS };
static const char *const op_names[RESULTS] = {"convolve", "gradient x", "gradient h", "gx of both", "gh of both"};
static const char *const mode_names[] = {"full", "same", "valid", "causal"};
static const double most_error = 1e-6; /* of the norm of the output */

/* Skips the test on a backend that has no tensors. */
static const struct tensor_backend *need_tensors(const char *backend)
{
    const struct backend *found = strcmp(backend, "cuda") == 0 ? backend_gpu(NULL) : backend_find(backend);
    if (!found || !found->tensors) check_skip("this backend convolves no tensors");
    return found->tensors;
}

/* ---- the memory of a device -------------------------------------------------------------------------------------- */

static bool on_gpu(const char *backend)
{
    return strcmp(backend, "cuda") == 0;
}

#ifdef HC_WITH_CUDA
static void cuda(cudaError_t status, const char *call)
{
    check(status == cudaSuccess, "%s: %s", call, cudaGetErrorString(status));
}
static void *gpu_alloc(size_t bytes)
{
    void *p = NULL;
    cuda(cudaMalloc(&p, bytes), "cudaMalloc");
    return p;
}
static void gpu_free(void *p)
{
    cuda(cudaFree(p), "cudaFree");
}
static void gpu_copy(void *to, const void *from, size_t bytes, bool to_gpu)
{
    cuda(cudaMemcpy(to, from, bytes, to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost), "cudaMemcpy");
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}
/* The stream of all calls: it does not wait for the default stream. */
static void *gpu_stream(void)
{
    static cudaStream_t stream;
    if (!stream) cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
}
static void gpu_wait(void)
{
    cuda(cudaStreamSynchronize(gpu_stream()), "cudaStreamSynchronize");
}
#else
static void *gpu_alloc(size_t bytes)
{
    check_skip("built without CUDA");
}
static void gpu_free(void *p) {}
static void gpu_copy(void *to, const void *from, size_t bytes, bool to_gpu) {}
static void *gpu_stream(void)
{
    return NULL;
}
static void gpu_wait(void) {}
#endif

/* A copy of `host`, or bytes of 0xff (NaN) if that is NULL, in the memory of the device; aligned to 256 bytes. */
static void *to_device(const char *backend, const void *host, size_t bytes)
{
    size_t room = (bytes + 256) / 256 * 256;
    void *there, *here = NULL;
    check(posix_memalign(&here, 256, room) == 0, "no memory");
    memset(here, 0xff, room);
    if (host) memcpy(here, host, bytes);
    if (!on_gpu(backend)) return here;
    there = gpu_alloc(room);
    gpu_copy(there, here, room, true);
    free(here);
    return there;
}

static void drop(const char *backend, void *p)
{
    if (p && on_gpu(backend))
        gpu_free(p);
    else
        free(p);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {"float32", "bfloat16", "float16"};

/* Returns the distance of the numbers of a type that are nearest to v. */
static double spacing(double v, int type)
{
    static const int digits[] = {24, 8, 11}, smallest[] = {-149, -133, -24};
    int exponent = 0;
    frexp(v, &exponent);
    exponent -= digits[type];
    return ldexp(1, exponent > smallest[type] ? exponent : smallest[type]);
}
/* Returns the nearest number of a type, ties to even. */
static float rounded(double v, int type)
{
    static const double largest[] = {0x1.fffffep127, 0x1.fep127, 65504};
    if (!isfinite(v)) return (float)v;
    double unit = spacing(v, type), near = nearbyint(v / unit) * unit;
    return fabs(near) > largest[type] ? copysignf(INFINITY, (float)v) : (float)near;
}
/* The bits of a number that the type has. */
static uint16_t half_encode(float v, int type)
{
    int exponent;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (type == HC_BFLOAT16) return (uint16_t)(bits >> 16);
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double size = fabs((double)v);
    if (isnan(v)) return sign | 0x7e00;
    if (isinf(v)) return sign | 0x7c00;
    if (size < 0x1p-14) return (uint16_t)(sign | (int)(size * 0x1p24));
    double part = frexp(size, &exponent);
    return (uint16_t)(sign | ((exponent + 14) << 10) | ((int)(part * 2048) - 1024));
}
static float half_decode(uint16_t half, int type)
{
    uint32_t bits = (uint32_t)half << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    if (type == HC_BFLOAT16) return v;
    int exponent = half >> 10 & 31, part = half & 1023;
    double size = exponent == 31  ? part ? NAN : INFINITY
                  : exponent == 0 ? part * 0x1p-24
                                  : ldexp(1024 + part, exponent - 25);
    return half & 0x8000 ? -(float)size : (float)size;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum layout { DENSE, PADDED, TRANSPOSED, EXPANDED, LAYOUTS }; /* EXPANDED: inputs have a stride of 0 */

struct tensor {
    int64_t n[3]; /* items, channels, frames */
    int64_t stride[2];
    const int64_t *begins; /* [items + 1], of packed sequences: their first frames, and the end; or NULL */
    int64_t floats;        /* of its memory, with a margin behind it */
    int type;       /* in the memory of the device; `data` has numbers of this type */
    float *data;
};

/* A copy in the memory of the device, in the tensor's type. */
static void *tensor_to_device(const char *backend, const struct tensor *t)
{
    if (t->type == HC_FLOAT32) return to_device(backend, t->data, (size_t)t->floats * sizeof(float));
    uint16_t *halves = must_alloc((size_t)t->floats, sizeof *halves);
    for (int64_t i = 0; i < t->floats; i++) halves[i] = half_encode(t->data[i], t->type);
    void *there = to_device(backend, halves, (size_t)t->floats * sizeof *halves);
    free(halves);
    return there;
}

static void tensor_from_device(const char *backend, const struct tensor *t, const void *there)
{
    size_t bytes = (size_t)t->floats * (t->type == HC_FLOAT32 ? sizeof(float) : sizeof(uint16_t));
    void *here = must_alloc(1, bytes);
    if (on_gpu(backend))
        gpu_copy(here, there, bytes, false);
    else
        memcpy(here, there, bytes);
    for (int64_t i = 0; i < t->floats; i++)
        t->data[i] = t->type == HC_FLOAT32 ? ((float *)here)[i] : half_decode(((uint16_t *)here)[i], t->type);
    free(here);
}

enum { MARGIN = 7 };

static struct tensor tensor_make(int64_t items, int64_t channels, int64_t frames, int type, enum layout layout,
                                 bool is_out, struct random *r)
{
    struct tensor t = {.n = {items, channels, frames}, .stride = {channels * frames, frames}, .type = type};
    if (layout == EXPANDED && !is_out) {
        int which = random_int(r, 1, 3);
        if (which & 1) t.stride[0] = 0, t.stride[1] = frames;
        if (which & 2) t.stride[1] = 0;
        if (which == 2) t.stride[0] = frames + 1;
    } else if (layout == TRANSPOSED) {
        t.stride[0] = frames + 2;
        t.stride[1] = items * t.stride[0] + 1;
    } else if (layout != DENSE) {
        t.stride[1] = frames + 3;
        t.stride[0] = channels * t.stride[1] + 5;
    }
    t.floats = (items - 1) * t.stride[0] + (channels - 1) * t.stride[1] + frames + MARGIN;
    t.data = must_alloc((size_t)t.floats, sizeof *t.data);
    for (int64_t i = 0; i < t.floats; i++) t.data[i] = rounded(random_sample(r), type);
    return t;
}

static float *row_of(const struct tensor *t, int64_t item, int64_t channel)
{
    if (t->begins) return t->data + t->begins[item] + (t->n[1] > 1 ? channel * t->stride[1] : 0);
    return t->data + (t->n[0] > 1 ? item * t->stride[0] : 0) + (t->n[1] > 1 ? channel * t->stride[1] : 0);
}

static int64_t frames_of(const struct tensor *t, int64_t item)
{
    return t->begins ? t->begins[item + 1] - t->begins[item] : t->n[2];
}

/* ---- a case ------------------------------------------------------------------------------------------------------ */

struct shape {
    int mode;
    int64_t n_batch, n_channels, h_batch, h_channels, n_frames, n_taps;
    enum layout layout;
    bool lengths; /* random ones */
    int x_type, h_type, y_type;
    int64_t n_filters; /* of a bank; the index is random */
    bool packed;       /* n_frames in n_batch sequences of random lengths */
};

struct trial {
    struct shape shape;
    int op;    /* HC_CONVOLVE to HC_GRADIENT_H: of the result, also if a call computes both gradients */
    bool both; /* HC_GRADIENTS, with other inputs and another output than op alone: */
    hc_tensors sizes;
    struct tensor a, b, out, other, other_out;
    int64_t from, frames;
    int64_t *lengths;            /* [filters], on the host; NULL: all n_taps */
    int64_t *index;              /* [h_batch * h_channels], or NULL */
    int64_t *offsets, *y_begins; /* [n_batch + 1], or NULL */
};

static void describe(const struct trial *c, char *text, size_t cap)
{
    const struct shape *s = &c->shape;
    snprintf(text, cap, "%s, %s, %dx%dx%d%s, filters %dx%dx%d of %d, layout %d%s, %s %s %s",
             op_names[c->both ? c->op + 2 : c->op], mode_names[s->mode], (int)s->n_batch, (int)s->n_channels,
             (int)s->n_frames, s->packed ? " packed" : "", (int)s->h_batch, (int)s->h_channels, (int)s->n_taps,
             (int)s->n_filters, (int)s->layout, s->lengths ? ", lengths" : "", type_names[s->x_type],
             type_names[s->h_type], type_names[s->y_type]);
}

/* By the definition in haloconv_tensors.h. */
static void mode_frames(const struct shape *s, int64_t *from, int64_t *frames)
{
    int64_t least = s->n_frames < s->n_taps ? s->n_frames : s->n_taps;
    *from = s->mode == HC_SAME ? (s->n_taps - 1) / 2 : s->mode == HC_VALID ? least - 1 : 0;
    *frames = s->mode == HC_FULL    ? s->n_frames + s->n_taps - 1
              : s->mode == HC_VALID ? s->n_frames + s->n_taps - 1 - 2 * (least - 1)
                                    : s->n_frames;
}

static void offsets_make(struct trial *c, struct random *r)
{
    const struct shape *s = &c->shape;
    int64_t gap = s->mode == HC_FULL ? s->n_taps - 1 : 0;
    c->offsets = must_alloc((size_t)s->n_batch + 1, sizeof *c->offsets);
    c->y_begins = must_alloc((size_t)s->n_batch + 1, sizeof *c->y_begins);
    for (int64_t i = 1; i <= s->n_batch; i++) {
        c->offsets[i] = random_int(r, 0, 3) ? random_int(r, 0, (int)s->n_frames) : c->offsets[i - 1];
        if (i == s->n_batch) c->offsets[i] = s->n_frames;
        for (int64_t k = i; k > 1 && c->offsets[k] < c->offsets[k - 1]; k--) { /* sorted, with empty sequences */
            int64_t later = c->offsets[k - 1];
            c->offsets[k - 1] = c->offsets[k];
            c->offsets[k] = later;
        }
    }
    for (int64_t i = 0; i <= s->n_batch; i++) c->y_begins[i] = c->offsets[i] + i * gap;
    c->frames = c->y_begins[s->n_batch];
}

/* Returns the number of the filter of a row, or -1. */
static int64_t filter_of(const struct trial *c, int64_t item, int64_t channel)
{
    const struct shape *s = &c->shape;
    int64_t group = (s->h_batch > 1 ? item : 0) * s->h_channels + (s->h_channels > 1 ? channel : 0);
    if (!c->index) return group;
    return c->index[group] >= 0 && c->index[group] < s->n_filters ? c->index[group] : -1;
}

/* Makes a random index, which also names filters that do not exist, and whose rows must not be read. */
static void index_make(struct trial *c, struct tensor *x, struct tensor *y, struct random *r)
{
    static const int64_t others[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
    const struct shape *s = &c->shape;
    c->index = must_alloc((size_t)(s->h_batch * s->h_channels), sizeof *c->index);
    for (int64_t g = 0; g < s->h_batch * s->h_channels; g++) {
        c->index[g] = random_int(r, 0, (int)s->n_filters); /* n_filters: none */
        if (random_int(r, 0, 5) == 0) c->index[g] = others[random_int(r, 0, 3)];
    }
    for (int64_t i = 0; i < s->n_batch && s->layout != EXPANDED; i++)
        for (int64_t k = 0; k < s->n_channels; k++) {
            if (filter_of(c, i, k) >= 0) continue;
            for (int64_t m = 0; m < frames_of(x, i); m++) row_of(x, i, k)[m] = NAN;
            for (int64_t m = 0; m < frames_of(y, i); m++) row_of(y, i, k)[m] = NAN;
        }
}

/* op: HC_CONVOLVE to GH_OF_BOTH */
static struct trial trial_make(const char *backend, const struct shape *s, int op, struct random *r)
{
    bool both = op >= HC_GRADIENTS;
    if (both) op -= 2;
    struct trial c = {.shape = *s, .op = op, .both = both};
    int64_t items = s->packed ? 1 : s->n_batch, h_items = s->n_filters ? s->n_filters : s->h_batch;
    int64_t h_channels = s->n_filters ? 1 : s->h_channels;
    bool is_gx = op == HC_GRADIENT_X && !both, is_gh = op == HC_GRADIENT_H && !both;
    mode_frames(s, &c.from, &c.frames);
    if (s->packed) offsets_make(&c, r);
    struct tensor x = tensor_make(items, s->n_channels, s->n_frames, s->x_type, s->layout, is_gx, r);
    struct tensor h = tensor_make(h_items, h_channels, s->n_taps, s->h_type, s->layout, is_gh, r);
    struct tensor gx = {0}, gh = {0};
    if (both) gx = tensor_make(items, s->n_channels, s->n_frames, s->x_type, s->layout, true, r);
    if (both) gh = tensor_make(h_items, h_channels, s->n_taps, s->h_type, s->layout, true, r);
    bool is_zero = both && !x.stride[0] && !x.stride[1] && !h.stride[0] && !h.stride[1]; /* all six would mean dense */
    struct tensor y = tensor_make(items, s->n_channels, c.frames, s->y_type, s->layout,
                                  op == HC_CONVOLVE || (s->layout == EXPANDED && is_zero), r);
    x.begins = c.offsets, y.begins = c.y_begins;
    x.n[0] = y.n[0] = s->n_batch;
    if (!both) gx = x, gh = h;
    gx.begins = c.offsets, gx.n[0] = s->n_batch;
    if (s->n_filters) index_make(&c, &x, &y, r);
    c.sizes = (hc_tensors){.size = sizeof c.sizes,
                           .backend = backend,
                           .mode = s->mode,
                           .n_batch = items,
                           .n_channels = s->n_channels,
                           .n_frames = s->n_frames,
                           .n_taps = s->n_taps,
                           .h_batch = s->h_batch,
                           .h_channels = s->h_channels,
                           .n_filters = s->n_filters,
                           .n_sequences = s->packed ? s->n_batch : 0,
                           .x_type = s->x_type,
                           .h_type = s->h_type,
                           .y_type = s->y_type};
    for (int i = 0; i < 2 && s->layout != DENSE; i++) {
        c.sizes.x_stride[i] = x.stride[i];
        c.sizes.h_stride[i] = h.stride[i];
        c.sizes.y_stride[i] = y.stride[i];
        if (both) c.sizes.gx_stride[i] = gx.stride[i];
        if (both) c.sizes.gh_stride[i] = gh.stride[i];
    }
    c.a = op == HC_CONVOLVE ? x : y;
    c.b = op == HC_GRADIENT_H ? x : h;
    c.out = op == HC_CONVOLVE ? y : op == HC_GRADIENT_X ? gx : gh;
    if (both) {
        c.other = op == HC_GRADIENT_H ? h : x;
        c.other_out = op == HC_GRADIENT_H ? gx : gh;
    }
    if (!s->lengths) return c;
    c.lengths = must_alloc((size_t)(h_items * h_channels), sizeof *c.lengths);
    for (int64_t f = 0; f < h_items * h_channels; f++) {
        c.lengths[f] = random_int(r, 0, 5) == 0 ? random_int(r, 0, 1) * s->n_taps : random_int(r, 0, (int)s->n_taps);
        float *taps = row_of(&h, f / h_channels, f % h_channels);
        if ((both || op != HC_GRADIENT_H) && s->layout != EXPANDED) /* no operation may use these */
            for (int64_t k = c.lengths[f]; k < s->n_taps; k++) taps[k] = NAN;
    }
    return c;
}

static void trial_drop(struct trial *c)
{
    free(c->a.data);
    free(c->b.data);
    free(c->out.data);
    free(c->other.data);
    free(c->other_out.data);
    free(c->lengths);
    free(c->index);
    free(c->offsets);
    free(c->y_begins);
}

static int64_t *to_device_or_null(const char *backend, const int64_t *host, int64_t n)
{
    return host ? to_device(backend, host, (size_t)n * sizeof *host) : NULL;
}

/* Runs the case: out.data becomes the memory of the output after the call, which had the same floats before it. */
static int trial_run_why(const char *backend, struct trial *c, char *why, size_t cap)
{
    const struct shape *s = &c->shape;
    int64_t n_groups = s->h_batch * s->h_channels;
    size_t bytes = 1;
    hc_tensor_plan *plan;
    int error = hc_tensor_plan_open(&c->sizes, c->both ? HC_GRADIENTS : c->op, &plan, &bytes, why, cap);
    if (error) return error;
    void *a = tensor_to_device(backend, &c->a), *b = tensor_to_device(backend, &c->b);
    void *out = tensor_to_device(backend, &c->out), *other = NULL, *other_out = NULL;
    if (c->both) other = tensor_to_device(backend, &c->other), other_out = tensor_to_device(backend, &c->other_out);
    void *workspace = to_device(backend, NULL, bytes);
    int64_t *lengths = to_device_or_null(backend, c->lengths, s->n_filters ? s->n_filters : n_groups);
    int64_t *index = to_device_or_null(backend, c->index, n_groups);
    int64_t *offsets = to_device_or_null(backend, c->offsets, s->n_batch + 1);
    hc_tensor_data data = {.size = sizeof data,
                           .a = a,
                           .b = b,
                           .out = out,
                           .lengths = lengths,
                           .workspace = workspace,
                           .bytes = bytes,
                           .stream = on_gpu(backend) ? gpu_stream() : NULL,
                           .index = index,
                           .offsets = offsets};
    bool is_x = c->op == HC_GRADIENT_X;
    if (c->both) {
        data.b = is_x ? other : b, data.c = is_x ? b : other;
        data.out = is_x ? out : other_out, data.out_h = is_x ? other_out : out;
    }
    error = hc_tensor_plan_run(plan, &data, why, cap);
    hc_tensor_plan_close(plan);
    if (on_gpu(backend)) gpu_wait();
    tensor_from_device(backend, &c->out, out);
    drop(backend, a), drop(backend, b), drop(backend, out), drop(backend, workspace), drop(backend, lengths);
    drop(backend, other), drop(backend, other_out), drop(backend, index), drop(backend, offsets);
    return error;
}

static void trial_run(const char *backend, struct trial *c)
{
    char why[256] = "", text[200];
    int error = trial_run_why(backend, c, why, sizeof why);
    describe(c, text, sizeof text);
    check(error == HC_OK, "%s: %s", text, why);
}

/* ---- the sums in float64 ----------------------------------------------------------------------------------------- */

/* The output row that is right.
 *   squares   the products of each sum, squared and added: the root is the size that the sum may be expected to have
 *   average   the same for a row of the full convolution, as many frames of it as the output row has: a transform's
 *             rounding has this size also in frames that no tap reaches */
struct wanted {
    double *sum, *squares; /* [frames] */
    double average;
};

static double energy(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

/* The sums of reference_add by transforms. The squares are those of the sums. */
static void add_fast(const float *a, int64_t n_a, const float *b, int64_t n_b, const struct wanted *y, int64_t n_y,
                     int64_t from, bool reversed)
{
    int64_t n = n_a + n_b - 1, first = reversed ? n_b - 1 - from : from;
    double *full = must_alloc((size_t)n, sizeof *full), *taps = must_alloc((size_t)n_b, sizeof *taps);
    for (int64_t i = 0; i < n_a; i++) full[i] = a[i];
    for (int64_t i = 0; i < n_b; i++) taps[i] = b[reversed ? n_b - 1 - i : i];
    check(transform_convolve(full, (size_t)n_a, taps, (size_t)n_b, full), "no memory");
    for (int64_t m = 0; m < n_y; m++) {
        double sum = m + first >= 0 && m + first < n ? full[m + first] : 0;
        y->sum[m] += sum;
        y->squares[m] += sum * sum;
    }
    free(full);
    free(taps);
}

/* Adds a row of x or gy to the sums of its output. */
static void wanted_add(const struct trial *c, struct wanted *wanted, int64_t item, int64_t channel, int64_t n_taps)
{
    bool sums = c->op == HC_GRADIENT_H;
    const float *a = row_of(&c->a, item, channel);
    int64_t f = filter_of(c, item, channel), n_a = frames_of(&c->a, item);
    const float *b = sums ? row_of(&c->b, item, channel) : row_of(&c->b, f / c->b.n[1], f % c->b.n[1]);
    int64_t n_b = sums ? frames_of(&c->b, item) : n_taps, n_y = sums ? n_taps : frames_of(&c->out, item);
    if (n_a == 0 || n_b == 0) return;
    double full = energy(a, n_a) * energy(b, n_b);
    wanted->average += full * (double)n_y / (double)(n_a + n_b);
    bool plain = n_y < 64 || (double)n_b * (double)n_y < 1e6;
    bool reversed = c->op != HC_CONVOLVE;
    if (plain)
        reference_add(a, n_a, b, n_b, c->from, reversed, n_y, wanted->sum, wanted->squares);
    else
        add_fast(a, n_a, b, n_b, wanted, n_y, c->from, reversed);
}

/* Compares the output with the sums in float64, and what lies between its rows with what was there before. */
static void trial_check(const char *backend, struct trial *c)
{
    const struct shape *s = &c->shape;
    char text[200];
    describe(c, text, sizeof text);
    int type = c->out.type;
    double *off = must_alloc((size_t)c->out.floats, sizeof *off),
           *half = must_alloc((size_t)c->out.floats, sizeof *half);
    float *before = must_alloc((size_t)c->out.floats, sizeof *before);
    bool *is_out = must_alloc((size_t)c->out.floats, sizeof *is_out);
    for (int64_t i = 0; i < c->out.floats; i++) c->out.data[i] = before[i] = rounded((double)(i % 1000) - 2000, type);
    trial_run(backend, c);
    double error = 0, rounding = 0, size = 0, average = 0, n_out = 0;
    double norm = 0; /* norm: more than size if rows are the same, as EXPANDED ones */
    for (int64_t item = 0; item < c->out.n[0]; item++)
        for (int64_t channel = 0; channel < c->out.n[1]; channel++) {
            int64_t frames = frames_of(&c->out, item);
            struct wanted wanted = {.sum = must_alloc((size_t)frames, sizeof(double)),
                                    .squares = must_alloc((size_t)frames, sizeof(double))};
            /* The rows that are summed: one, or those that share the filter. */
            bool sums = c->op == HC_GRADIENT_H;
            int64_t f = sums ? item * c->out.n[1] + channel : filter_of(c, item, channel);
            int64_t n_taps = f < 0 ? 0 : c->lengths ? c->lengths[f] : s->n_taps;
            if (!sums && f >= 0) wanted_add(c, &wanted, item, channel, n_taps);
            for (int64_t i = 0; i < s->n_batch && sums; i++)
                for (int64_t k = 0; k < s->n_channels; k++)
                    if (filter_of(c, i, k) == f) wanted_add(c, &wanted, i, k, n_taps);
            const float *got = row_of(&c->out, item, channel);
            for (int64_t m = 0; m < frames; m++) {
                int64_t at = got + m - c->out.data;
                double near = 1e-4 * (sqrt(wanted.squares[m]) + sqrt((double)s->n_taps));
                off[at] = got[m] - wanted.sum[m];
                if (type != HC_FLOAT32) half[at] = spacing(wanted.sum[m], type) / 2;
                check(fabs(off[at]) <= near + half[at], "%s: item %d, channel %d, frame %d: got %.9g, want %.9g", text,
                      (int)item, (int)channel, (int)m, (double)got[m], wanted.sum[m]);
                n_out++;
                check((sums ? m < n_taps : f >= 0) || got[m] == 0, "%s: filter %d, tap %d of %d: got %.9g, want 0",
                      text, (int)f, (int)m, (int)n_taps, (double)got[m]);
                error += off[at] * off[at];
                rounding += half[at] * half[at];
                size += wanted.squares[m];
                norm += wanted.sum[m] * wanted.sum[m];
                is_out[at] = true;
            }
            average += wanted.average;
            free(wanted.sum);
            free(wanted.squares);
        }
    size = fmax(fmax(size, norm), average);
    check(sqrt(error) <= most_error * sqrt(size) + sqrt(rounding), "%s: the error is %.3g of the norm", text,
          sqrt(error / size));
    /* A number that is rounded twice is further from the sum than half of the spacing. */
    double few = 8 * most_error * sqrt(size / fmax(n_out, 1));
    for (int64_t i = 0; i < c->out.floats && type != HC_FLOAT32; i++)
        check(!is_out[i] || fabs(off[i]) <= half[i] + few, "%s: float %d is off by %.9g, half of the spacing is %.9g",
              text, (int)i, off[i], half[i]);
    if (getenv("HC_TEST_VERBOSE") && size > 0) printf("%s: error %.3g\n", text, sqrt(error / size));
    for (int64_t i = 0; i < c->out.floats; i++)
        check(is_out[i] || c->out.data[i] == before[i], "%s: float %d between the rows was written", text, (int)i);
    free(before);
    free(is_out);
    free(off);
    free(half);
}

/* sharing: 1: a filter for each item; 2: for each channel; 3: both */
static struct shape shape_of(int mode, int64_t items, int64_t channels, int sharing, int64_t frames, int64_t taps)
{
    struct shape s = {.mode = mode, .n_batch = items, .n_channels = channels, .n_frames = frames, .n_taps = taps};
    s.h_batch = sharing & 1 ? items : 1;
    s.h_channels = sharing & 2 ? channels : 1;
    return s;
}

/* All results of a shape. */
static void shape_check(const char *backend, const struct shape *s, struct random *r)
{
    for (int op = HC_CONVOLVE; op < RESULTS; op++) {
        struct trial c = trial_make(backend, s, op, r);
        trial_check(backend, &c);
        trial_drop(&c);
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static const int64_t odd_sizes[][2] = {/* frames, taps */
                                       {1, 1},     {1, 2},     {2, 1},     {3, 3},     {1, 97},    {97, 1},
                                       {31, 32},   {32, 31},   {64, 64},   {63, 65},   {127, 128}, {129, 127},
                                       {255, 256}, {256, 255}, {257, 257}, {509, 13},  {13, 509},  {512, 511},
                                       {513, 512}, {700, 301}, {301, 700}, {1023, 90}, {1025, 257}};
enum { ODD_SIZES = sizeof odd_sizes / sizeof *odd_sizes };

static void all_modes_and_sharings_match_a_float64_sum(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(191);
    for (int i = 0; i < ODD_SIZES; i++)
        for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++)
            for (int sharing = 0; sharing < 4; sharing++) {
                if (FEW && (i + mode + sharing) % 3 != 0) continue;
                struct shape s = shape_of(mode, 2, 3, sharing, odd_sizes[i][0], odd_sizes[i][1]);
                shape_check(backend, &s, &r);
            }
}

static void long_filters_and_signals_match_a_float64_transform(const char *backend)
{
    static const int64_t sizes[][3] = {
        /* frames, taps, mode */
        {4096, 4096, HC_CAUSAL},      {4097, 2048, HC_CAUSAL},     {9973, 1000, HC_SAME},     {1000, 9973, HC_FULL},
        {16000, 16384, HC_CAUSAL},    {100003, 3, HC_VALID},       {3, 140001, HC_FULL},      {8191, 65537, HC_SAME},
        {160000, 16000, HC_FULL},     {131072, 131071, HC_VALID},  {262144, 262145, HC_FULL}, /* below: GPUs only */
        {1 << 19, 1 << 19, HC_FULL},  {1 << 20, 1 << 20, HC_FULL}, {1 << 22, 70, HC_CAUSAL},  {90, 1 << 22, HC_FULL},
        {1 << 22, 1 << 22, HC_CAUSAL}};
    need_tensors(backend);
    struct random r = random_seeded(192);
    int n = (int)(sizeof sizes / sizeof *sizes);
    n -= FEW ? 7 : on_gpu(backend) || getenv("HC_TEST_VERBOSE") ? 0 : 5;
    for (int i = 0; i < n; i++) {
        bool small = sizes[i][0] + sizes[i][1] < 100000;
        struct shape s = shape_of((int)sizes[i][2], small ? 3 : 1, small ? 2 : 1, 2, sizes[i][0], sizes[i][1]);
        shape_check(backend, &s, &r);
    }
    /* The CUDA backend sums the gradients of h in parts, the last of which has fewer windows. */
    struct shape shared = shape_of(HC_CAUSAL, FEW ? 3 : 17, 1, 0, FEW ? 2048 : 70000, FEW ? 2048 : 70000);
    shape_check(backend, &shared, &r);
    /* Windows of two rows: one a row, of more filters than a GPU computes at once; several a row; by index; packed. */
    for (int i = 0; i < 4; i++) {
        bool is_large = on_gpu(backend) && !FEW;
        int64_t taps = is_large ? 32768 : 1024, frames = i ? 2 * taps + 77 : taps;
        int64_t channels = (is_large ? 130 : 64) * (i ? 1 : 2);
        struct shape s = shape_of(i ? HC_SAME : HC_CAUSAL, i == 2 ? 44 : 1 + i, channels, 2, frames, taps);
        if (i == 3) s.packed = true, s.n_batch = FEW ? 9 : 3, s.n_frames = s.n_batch * taps;
        if (i == 2) s.n_channels = s.h_channels = 3, s.h_batch = s.n_batch, s.n_filters = 30;
        s.lengths = i > 0;
        for (int op = HC_GRADIENT_H; op < RESULTS; op++) {
            struct trial c = trial_make(backend, &s, op, &r);
            trial_check(backend, &c);
            trial_drop(&c);
        }
    }
}

static void any_strides_are_read_and_gaps_are_not_written(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(193);
    static const int64_t sizes[][2] = {{50, 20}, {300, 301}, {1500, 700}};
    for (int i = 0; i < 3; i++)
        for (int layout = PADDED; layout < LAYOUTS; layout++)
            for (int sharing = 0; sharing < 4; sharing++) {
                if (FEW && (i + layout + sharing) % 4 != 0) continue;
                struct shape s = shape_of((i + layout) % 4, 4, 3, sharing, sizes[i][0], sizes[i][1]);
                s.layout = (enum layout)layout;
                shape_check(backend, &s, &r);
            }
}

static void taps_beyond_a_length_count_as_zero(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(194);
    static const int64_t sizes[][2] = {{40, 30}, {1000, 600}, {300, 3000}};
    for (int i = 0; i < 3; i++)
        for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++)
            for (int sharing = 0; sharing < 4; sharing++) {
                if (FEW && (i + mode + sharing) % 6 != 0) continue;
                struct shape s = shape_of(mode, 3, 4, sharing, sizes[i][0], sizes[i][1]);
                s.layout = sharing == 1 ? PADDED : DENSE;
                s.lengths = true;
                shape_check(backend, &s, &r);
            }
}

/* Types number i of 3^3. */
static void types_set(struct shape *s, int i)
{
    s->x_type = i % 3;
    s->h_type = i / 3 % 3;
    s->y_type = i / 9;
}

/* Each size with few and many filters, all sharings and modes. */
static void filters_by_index_match_a_float64_sum(const char *backend)
{
    static const int64_t sizes[][3] = {{40, 30, 4}, {1000, 600, 3}, {300, 3000, 50}, {9000, 40, 3}, {5000, 20000, 5}};
    need_tensors(backend);
    struct random r = random_seeded(203);
    for (int i = 0; i < (FEW ? 3 : SANITIZED ? 4 : 5); i++)
        for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++)
            for (int sharing = 0; sharing < 4; sharing++) {
                if (FEW && (i + mode + sharing) % 4 != 0) continue;
                struct shape s = shape_of(mode, 5, 3, sharing, sizes[i][0], sizes[i][1]);
                s.n_filters = sizes[i][2];
                s.layout = (enum layout)(sharing + mode) % LAYOUTS;
                s.lengths = (i + mode) % 3 == 0;
                types_set(&s, i == 1 ? mode * 5 + sharing : 0);
                shape_check(backend, &s, &r);
            }
    /* A GPU looks for the users of a filter among 256 at once. */
    struct shape many = shape_of(HC_CAUSAL, 100, 3, 3, 20, 5);
    many.n_filters = 7;
    shape_check(backend, &many, &r);
}

/* The partial sums of the groups, and the sums of the filters, exceed the workspace of a GPU. */
static void a_bank_in_16_bits_is_rounded_once(const char *backend)
{
    static const int64_t all_sizes[][2][3] = {/* items, taps, filters: for a GPU; for others */
                                              {{370, 16000, 600}, {20, 600, 40}},
                                              {{3, 1500000, 5}, {5, 3000, 5}},
                                              {{5500, 2500, 7}, {20, 600, 5}}}; /* chunks of groups, one of the bank */
    need_tensors(backend);
    struct random r = random_seeded(207);
    for (int i = 0; i < 9; i++) {
        const int64_t *sizes = all_sizes[i < 8 ? i % 2 : 2][FEW || !on_gpu(backend)];
        struct shape s = shape_of(i / 4 == 1 ? HC_CAUSAL : HC_FULL, sizes[0], 3, 3, i % 2 ? 2000 : 20, sizes[1]);
        s.n_filters = sizes[2];
        s.h_type = i / 2 % 2 ? HC_BFLOAT16 : HC_FLOAT16;
        s.packed = i / 4 == 1;
        s.lengths = i == 2 || i == 5;
        if (s.packed) s.n_frames *= s.n_batch;
        for (int op = HC_GRADIENT_H; op < (s.packed ? GX_OF_BOTH : RESULTS); op++) {
            struct trial c = trial_make(backend, &s, op, &r);
            trial_check(backend, &c);
            trial_drop(&c);
        }
    }
}

/* The second item has no memory, and a number in the index that is not a filter. */
static void a_row_without_a_filter_is_not_read(const char *backend)
{
    static const int64_t all_taps[] = {5, 700, 30000};
    const int64_t far = (int64_t)1 << 40;
    need_tensors(backend);
    char why[256] = "";
    for (int i = 0; i < (FEW ? 2 : 3) * 4; i++) {
        int op = i % 4;
        bool is_gh = op == HC_GRADIENT_H;
        const int64_t taps = all_taps[i / 4], index[] = {0, -1}, n = 2 * taps + 100, n_out = is_gh ? taps : 2 * n;
        hc_tensors t = {.size = sizeof t,
                        .backend = backend,
                        .mode = HC_CAUSAL,
                        .n_batch = 2,
                        .n_channels = 1,
                        .n_frames = n,
                        .n_taps = taps,
                        .h_batch = 2,
                        .n_filters = 1,
                        .x_stride = {op == HC_GRADIENT_X ? n : far, n},
                        .h_stride = {taps, 0},
                        .y_stride = {op == HC_CONVOLVE ? n : far, n}};
        if (op == HC_GRADIENTS) t.gx_stride[0] = t.gx_stride[1] = n, t.gh_stride[0] = taps;
        size_t bytes;
        hc_tensor_plan *plan;
        check(hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
        float *ones = calloc((size_t)n, 2 * sizeof *ones), *out = to_device(backend, NULL, (size_t)n_out * sizeof *out);
        for (int64_t k = 0; k < n; k++) ones[k] = 1;
        void *a = to_device(backend, ones, (size_t)n * sizeof *ones),
             *numbers = to_device(backend, index, sizeof index),
             *gh = to_device(backend, NULL, (size_t)taps * sizeof *out);
        hc_tensor_data data = {.size = sizeof data, .a = a, .b = a, .out = out, .bytes = bytes, .index = numbers};
        if (op == HC_GRADIENTS) data.c = a, data.out_h = gh;
        data.workspace = to_device(backend, NULL, bytes);
        if (on_gpu(backend)) data.stream = gpu_stream();
        int error = hc_tensor_plan_run(plan, &data, why, sizeof why);
        hc_tensor_plan_close(plan);
        check(error == HC_OK, "operation %d: %d: %s", op, error, why);
        if (on_gpu(backend))
            gpu_wait(), gpu_copy(ones, out, (size_t)n_out * sizeof *ones, false);
        else
            memcpy(ones, out, (size_t)n_out * sizeof *ones);
        for (int64_t k = is_gh ? n_out : n; k < n_out; k++)
            check(ones[k] == 0, "operation %d, %d taps: frame %d is %g", op, (int)taps, (int)(k - n), (double)ones[k]);
        check(fabs((double)ones[is_gh ? 0 : n / 2] / (double)(is_gh ? n : taps) - 1) < 1e-3,
              "operation %d, %d taps: %g", op, (int)taps, (double)ones[is_gh ? 0 : n / 2]);
        drop(backend, a), drop(backend, out), drop(backend, numbers), drop(backend, data.workspace), drop(backend, gh);
        free(ones);
    }
}

static void packed_sequences_match_a_float64_sum(const char *backend)
{
    static const int64_t sizes[][3] = {{40, 30, 4},     {1000, 60, 7},     {3000, 700, 5}, {300, 3000, 3},
                                       {20000, 40, 20}, {60000, 20000, 5}, {9, 3, 40}};
    need_tensors(backend);
    struct random r = random_seeded(204);
    for (int i = 0; i < (FEW ? 3 : SANITIZED ? 5 : 7); i++)
        for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++)
            for (int sharing = 0; sharing < 8 && mode != HC_VALID; sharing++) {
                if (FEW && (i + mode + sharing) % 4 != 0) continue;
                struct shape s = shape_of(mode, sizes[i][2], 3, sharing % 4, sizes[i][0], sizes[i][1]);
                s.packed = true;
                s.n_filters = sharing < 4 ? 0 : 3;
                s.layout = (enum layout)(sharing + mode + i) % LAYOUTS;
                s.lengths = (i + mode) % 3 == 0;
                types_set(&s, i == 1 ? mode * 5 + sharing : 0);
                shape_check(backend, &s, &r);
            }
}

/* Sequences beyond the tensor, backwards or overlapping: only the result may be wrong. */
static void wrong_offsets_reach_no_other_memory(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(205);
    for (int i = 0; i < (FEW ? 12 : 60); i++)
        for (int op = HC_CONVOLVE; op < RESULTS; op++) {
            struct shape s =
                shape_of(i % 2 ? HC_FULL : HC_CAUSAL, 6, 2, i / 2 % 4, i % 3 ? 500 : 2000, i % 5 ? 90 : 900);
            s.packed = true;
            s.n_filters = i / 8 % 2 * 3;
            s.layout = PADDED;
            struct trial c = trial_make(backend, &s, op, &r);
            int64_t *right = c.offsets, wrong[7];
            for (int k = 0; k < 7; k++) {
                wrong[k] = random_int(&r, -(int)s.n_frames, 2 * (int)s.n_frames);
                if (random_int(&r, 0, 9) == 0) wrong[k] = random_int(&r, 0, 1) ? INT64_MIN : INT64_MAX;
            }
            c.offsets = wrong;
            for (int64_t k = 0; k < c.out.floats; k++) c.out.data[k] = (float)k;
            trial_run(backend, &c);
            c.offsets = right;
            for (int64_t k = c.out.floats - MARGIN; k < c.out.floats; k++)
                check(c.out.data[k] == (float)k, "%s, %d: float %d behind the rows was written", op_names[op], i,
                      (int)k);
            trial_drop(&c);
        }
}

static void any_mix_of_types_is_rounded_once(const char *backend)
{
    static const int64_t sizes[][2] = {{60, 25}, {1300, 700}, {300, 3000}};
    need_tensors(backend);
    struct random r = random_seeded(199);
    for (int types = 1; types < 27; types++)
        for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++)
            for (int i = 0; i < 3; i++) {
                if (FEW && i > 0 && (types + mode) % 4 != 0) continue;
                struct shape s = shape_of(mode, 3, 2, (types + mode + i) % 4, sizes[i][0], sizes[i][1]);
                types_set(&s, types);
                s.layout = (enum layout)((types + i) % LAYOUTS);
                s.lengths = (types + mode) % 3 == 0;
                shape_check(backend, &s, &r);
            }
}

static void long_filters_in_16_bits_are_rounded_once(const char *backend)
{
    static const struct {
        int64_t items, channels, frames, taps;
        int mode;
    } sizes[] = {{1, 1, 3, 100003, HC_FULL},          {3, 2, 5000, 60000, HC_CAUSAL},
                 {1, 1, 8191, 65537, HC_SAME},        {3, 2, 32768, 32768, HC_CAUSAL},
                 {6, 64, 1024, 1024, HC_CAUSAL},      {2, 64, 2500, 1100, HC_SAME},
                 {1, 1, 160000, 16000, HC_FULL},      {1, 1, 131072, 131071, HC_VALID},
                 {1, 1, 1 << 20, 1 << 20, HC_FULL},   /* from here on GPUs only */
                 {1, 1, 1 << 23, 6000000, HC_CAUSAL}, /* as long as a window holds */
                 {40, 1, 200000, 60000, HC_CAUSAL},   /* several launches for the gradient of a filter */
                 {8, 132, 32768, 32768, HC_CAUSAL}};  /* enough windows for long_two_rows */
    enum { N = sizeof sizes / sizeof *sizes };
    need_tensors(backend);
    struct random r = random_seeded(200);
    for (int i = 0; i < (FEW ? 6 : on_gpu(backend) || getenv("HC_TEST_VERBOSE") ? N : N - 4); i++)
        for (int k = 0; k < (i == 5 ? 4 : i < 8 ? 2 : 1); k++) {
            static const int types[] = {13, 26, 1, 3}; /* all the same; x alone; h alone */
            struct shape s =
                shape_of(sizes[i].mode, sizes[i].items, sizes[i].channels, 2, sizes[i].frames, sizes[i].taps);
            types_set(&s, types[k]);
            s.lengths = i == 1;
            shape_check(backend, &s, &r);
        }
}

static void filters_in_parts_need_an_output_of_float32_on_a_gpu(const char *backend)
{
    need_tensors(backend);
    if (!on_gpu(backend)) check_skip("the CPU computes each frame at once");
    static const char *const remedies[] = {"use float32 for y", "use float32 for gx", ""};
    char why[256] = "";
    for (int op = HC_CONVOLVE; op <= HC_GRADIENT_H; op++)
        for (int type = HC_FLOAT32; type <= HC_FLOAT16; type++) {
            hc_tensors t = {.size = sizeof t, .backend = backend, .mode = HC_CAUSAL, .n_batch = 1, .n_channels = 1};
            t.n_frames = t.n_taps = 1 << 24;
            *(op == HC_CONVOLVE ? &t.y_type : op == HC_GRADIENT_X ? &t.x_type : &t.h_type) = type;
            int want = op == HC_GRADIENT_H || type == HC_FLOAT32 ? HC_OK : HC_EUNSUPPORTED;
            size_t bytes = 0;
            hc_tensor_plan *plan;
            int error = hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why);
            hc_tensor_plan_close(plan);
            check(error == want, "%s of %s: got %d: %s", op_names[op], type_names[type], error, why);
            check(error == HC_OK || strstr(why, remedies[op]), "%s: no remedy in \"%s\"", op_names[op], why);
        }
}

static void floats_of_16_bits_are_converted_as_in_IEEE_754(const char *backend)
{
    struct random r = random_seeded(201);
    for (int type = HC_BFLOAT16; type <= HC_FLOAT16; type++)
        for (int i = 0; i < 1 << 16; i++) {
            uint16_t half = (uint16_t)i, next = (uint16_t)(i + 1);
            float v = half_decode(half, type), got = (type == HC_BFLOAT16 ? float_of_bfloat16 : float_of_float16)(half);
            check(isnan(v) ? isnan(got) : got == v, "%s %04x: got %a, want %a", type_names[type], i, (double)got,
                  (double)v);
            /* A number of the type, the middle to the next, and two numbers beside the middle. */
            float middle = (v + half_decode(next, type)) / 2, u = random_sample(&r);
            float some[] = {v, middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY), v * (1 + u / 99)};
            for (int k = 0; k < 5; k++) {
                uint16_t want = half_encode(rounded(some[k], type), type);
                uint16_t bits = (type == HC_BFLOAT16 ? bfloat16_of_float : float16_of_float)(some[k]);
                check(isnan(some[k]) ? isnan(half_decode(bits, type)) : bits == want, "%s of %a: got %04x, want %04x",
                      type_names[type], (double)some[k], bits, want);
            }
        }
}

static int64_t random_size(struct random *r, int most)
{
    double u = 0.5 + 0.5 * (double)random_sample(r);
    int64_t n = (int64_t)exp(u * log(most + 1));
    return n < 1 ? 1 : n > most ? most : n;
}

static void random_shapes_match_a_float64_sum(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(195);
    for (int i = 0; i < (FEW ? 300 : SANITIZED ? 500 : 2000); i++) {
        int most = FEW ? 300 : random_int(&r, 0, 19) == 0 ? 3000 : 300;
        struct shape s = shape_of(random_int(&r, 0, 3), random_int(&r, 1, 4), random_int(&r, 1, 4),
                                  random_int(&r, 0, 3), random_size(&r, most), random_size(&r, most));
        s.layout = (enum layout)random_int(&r, 0, LAYOUTS - 1);
        s.lengths = random_int(&r, 0, 3) == 0;
        if (random_int(&r, 0, 2) == 0) s.n_filters = random_int(&r, 1, 6);
        s.packed = s.mode != HC_VALID && random_int(&r, 0, 2) == 0;
        struct trial c = trial_make(backend, &s, random_int(&r, 0, RESULTS - 1), &r);
        trial_check(backend, &c);
        trial_drop(&c);
    }
}

/* <gy, convolve(x, h)> = <gradient x(gy, h), x> = <gradient h(gy, x), h> */
static double product(const struct tensor *a, const struct tensor *b, double *norms)
{
    double sum = 0, norm_a = 0, norm_b = 0;
    for (int64_t i = 0; i < a->n[0] * a->n[1] * a->n[2]; i++) {
        sum += (double)a->data[i] * b->data[i];
        norm_a += (double)a->data[i] * a->data[i];
        norm_b += (double)b->data[i] * b->data[i];
    }
    *norms = sqrt(norm_a * norm_b);
    return sum;
}

static void gradients_are_the_adjoint(const char *backend)
{
    enum { LAST = 16 }; /* a long one */
    need_tensors(backend);
    struct random r = random_seeded(196);
    for (int i = 0; i < (FEW ? 4 : SANITIZED ? LAST : LAST + 1); i++) {
        int sharing = i / 4 % 4;
        struct shape s = shape_of(i % 4, 2, 3, sharing, 1777, 601);
        if (i == LAST) s = shape_of(HC_CAUSAL, 1, 1, 0, 1 << 22, 1 << 22);
        struct trial y = trial_make(backend, &s, HC_CONVOLVE, &r), gx = trial_make(backend, &s, HC_GRADIENT_X, &r);
        struct trial gh = trial_make(backend, &s, HC_GRADIENT_H, &r);
        const struct tensor *x = &y.a, *h = &y.b, *gy = &gx.a;
        memcpy(gx.b.data, h->data, (size_t)h->floats * sizeof(float));
        memcpy(gh.a.data, gy->data, (size_t)gy->floats * sizeof(float));
        memcpy(gh.b.data, x->data, (size_t)x->floats * sizeof(float));
        trial_run(backend, &y), trial_run(backend, &gx), trial_run(backend, &gh);
        double norm, other, by_y = product(gy, &y.out, &norm), by_x = product(x, &gx.out, &other);
        double by_h = product(h, &gh.out, &other);
        check(fabs(by_y - by_x) <= 1e-6 * norm && fabs(by_y - by_h) <= 1e-6 * norm,
              "mode %s, sharing %d: %.9g, %.9g and %.9g", mode_names[s.mode], sharing, by_y, by_x, by_h);
        trial_drop(&y), trial_drop(&gx), trial_drop(&gh);
    }
}

/* Are the frames of a row the same bits in both tensors? */
static bool same_row(const struct tensor *a, const struct tensor *b, int64_t item, int64_t channel)
{
    return memcmp(row_of(a, item, channel), row_of(b, item, channel), (size_t)frames_of(a, item) * sizeof(float)) == 0;
}

static void nan_and_infinity_pass_and_stay_in_their_row(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(197);
    static const int64_t sizes[][2] = {{60, 5}, {1100, 500}};
    for (int i = 0; i < 2; i++)
        for (int op = HC_CONVOLVE; op < RESULTS; op++)
            for (int bad = 0; bad < 6; bad++) {
                struct shape s = shape_of(HC_CAUSAL, 3, 2, 3, sizes[i][0], sizes[i][1]);
                types_set(&s, bad / 2 * 13); /* all of one type */
                struct trial c = trial_make(backend, &s, op, &r), clean = c;
                clean.out.data = must_alloc((size_t)c.out.floats, sizeof(float));
                trial_run(backend, &clean);
                int64_t at = s.n_frames / 2, first = 0, end = c.out.n[2]; /* outputs whose sums have this frame */
                if (op == HC_CONVOLVE) first = at, end = at + s.n_taps < end ? at + s.n_taps : end;
                if (c.op == HC_GRADIENT_X) first = at - s.n_taps < 0 ? 0 : at - s.n_taps + 1, end = at + 1;
                row_of(&c.a, 1, 1)[at] = bad % 2 ? INFINITY : NAN;
                trial_run(backend, &c);
                for (int64_t m = first; m < end; m++)
                    check(!isfinite(row_of(&c.out, 1, 1)[m]), "%s: frame %d is finite", op_names[op], (int)m);
                for (int row = 0; row < 6; row++)
                    check(row == 3 || same_row(&c.out, &clean.out, row / 2, row % 2), "%s: row %d changed",
                          op_names[op], row);
                free(clean.out.data);
                trial_drop(&c);
            }
}

static void the_same_tensors_give_the_same_bits(const char *backend)
{
    need_tensors(backend);
    struct random r = random_seeded(198);
    static const int64_t sizes[][4] = {/* items, frames, taps, threads of the second run */
                                       {4, 200, 30, 2},    {4, 200, 30, 0},        {5, 3000, 3000, 3},
                                       {1, 70000, 900, 4}, {1, 100000, 200000, 3}, {16, 9000, 40, 7}};
    for (int i = 0; i < (FEW ? 3 : 6); i++)
        for (int op = HC_CONVOLVE; op < RESULTS; op++)
            for (int shared = 0, form = 0; form < 4; shared++, form += shared / 2, shared %= 2) {
                struct shape s = shape_of(HC_FULL, sizes[i][0], 2, shared ? 0 : 1, sizes[i][1], sizes[i][2]);
                if (form & 1) s.n_filters = 3;
                s.packed = form & 2;
                struct trial c = trial_make(backend, &s, op, &r), again = c;
                again.out.data = must_alloc((size_t)c.out.floats, sizeof(float));
                c.sizes.n_threads = 1;
                trial_run(backend, &c);
                again.sizes.n_threads = (int)sizes[i][3];
                trial_run(backend, &again);
                for (int64_t f = 0; f < c.out.n[0] * c.out.n[1]; f++)
                    check(same_row(&c.out, &again.out, f / c.out.n[1], f % c.out.n[1]),
                          "%s, %d frames, %d taps: row %d has other bits", op_names[op], (int)s.n_frames, (int)s.n_taps,
                          (int)f);
                free(again.out.data);
                trial_drop(&c);
            }
}

static void packed_gradients_at_once_have_the_bits_of_each_alone(const char *backend)
{
    need_tensors(backend);
    if (on_gpu(backend)) check_skip("a GPU may sum both in another order");
    struct random r = random_seeded(206);
    struct shape s = shape_of(HC_FULL, 512, 2, 2, 512 * 30, 100); /* all frames: transforms; a sequence: direct */
    s.packed = true;
    for (int op = GX_OF_BOTH; op <= GH_OF_BOTH; op++) {
        struct trial c = trial_make(backend, &s, op, &r), alone = c;
        alone.both = false;
        alone.out.data = must_alloc((size_t)c.out.floats, sizeof(float));
        trial_run(backend, &c);
        trial_run(backend, &alone);
        for (int64_t f = 0; f < c.out.n[0] * c.out.n[1]; f++)
            check(same_row(&c.out, &alone.out, f / c.out.n[1], f % c.out.n[1]), "%s: row %d has other bits",
                  op_names[op], (int)f);
        free(alone.out.data);
        trial_drop(&c);
    }
}

static void an_empty_batch_computes_nothing(const char *backend)
{
    need_tensors(backend);
    char why[256] = "";
    for (int form = 0; form < 4; form++) /* no items, no channels; of packed sequences, with an index */
        for (int op = HC_CONVOLVE; op <= HC_GRADIENTS; op++) {
            bool has_gh = op >= HC_GRADIENT_H;
            hc_tensors t = {.size = sizeof t,
                            .backend = backend,
                            .n_batch = form > 0,
                            .n_channels = form == 0,
                            .n_frames = 9,
                            .n_taps = 5,
                            .n_filters = form == 3,
                            .n_sequences = form == 2 ? 3 : 0};
            size_t bytes = 1;
            float gh[6] = {1, 2, 3, 4, 5, 6};
            hc_tensor_plan *plan;
            int error = hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why);
            check(error == HC_OK && bytes == 0, "%d, %zu bytes: %s", error, bytes, why);
            float *out = to_device(backend, gh, sizeof gh);
            hc_tensor_data data = {.size = sizeof data, .out = op == HC_GRADIENT_H ? out : NULL};
            if (op == HC_GRADIENTS) data.out_h = out;
            if (on_gpu(backend)) data.stream = gpu_stream();
            error = hc_tensor_plan_run(plan, &data, why, sizeof why);
            hc_tensor_plan_close(plan);
            check(error == HC_OK, "%s: %d: %s", op_names[op], error, why);
            if (on_gpu(backend))
                gpu_wait(), gpu_copy(gh, out, sizeof gh, false);
            else
                memcpy(gh, out, sizeof gh);
            for (int k = 0; k < 6; k++)
                check(gh[k] == (float)(has_gh && k < 5 ? 0 : k + 1), "%s: tap %d is %g", op_names[op], k,
                      (double)gh[k]);
            drop(backend, out);
        }
}

static void an_empty_batch_zeroes_each_filters_gradient(const char *backend)
{
    need_tensors(backend);
    char why[256] = "";
    for (int i = 0; i < 6; i++) { /* of three channels, of three items, of a bank */
        const int stride = 2 + i % 2, form = i / 2;
        hc_tensors t = {.size = sizeof t,
                        .backend = backend,
                        .n_batch = form == 1 ? 3 : 0,
                        .n_channels = form == 0 ? 3 : 0,
                        .n_frames = 9,
                        .n_taps = 2,
                        .h_batch = form == 1 ? 3 : 1,
                        .h_channels = form == 0 ? 3 : 1,
                        .n_filters = form == 2 ? 3 : 0,
                        .h_stride = {form ? stride : 9, form ? 9 : stride}};
        float gh[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        float *out = to_device(backend, gh, sizeof gh);
        hc_tensor_plan *plan;
        size_t bytes;
        int error = hc_tensor_plan_open(&t, HC_GRADIENT_H, &plan, &bytes, why, sizeof why);
        hc_tensor_data data = {.size = sizeof data, .out = out};
        if (on_gpu(backend)) data.stream = gpu_stream();
        if (!error) error = hc_tensor_plan_run(plan, &data, why, sizeof why);
        hc_tensor_plan_close(plan);
        check(error == HC_OK, "%d: %s", error, why);
        if (on_gpu(backend))
            gpu_wait(), gpu_copy(gh, out, sizeof gh, false);
        else
            memcpy(gh, out, sizeof gh);
        for (int k = 0; k < 9; k++)
            check(gh[k] == (float)(k % stride < 2 && k / stride < 3 ? 0 : k + 1), "form %d, stride %d: float %d is %g",
                  form, stride, k, (double)gh[k]);
        drop(backend, out);
    }
}

static void an_empty_batch_needs_no_memory(const char *backend)
{
    need_tensors(backend);
    if (on_gpu(backend) || SANITIZED) check_skip("the limit holds for the CPU's memory, and not under a sanitizer");
    hc_tensors t = {.size = sizeof t, .backend = backend, .n_channels = 1, .n_frames = 9, .n_taps = 1 << 24};
    t.h_type = HC_BFLOAT16;
    uint16_t *gh = to_device(backend, NULL, (size_t)t.n_taps * sizeof *gh);
    char why[256] = "";
    hc_tensor_plan *plan;
    size_t bytes;
    check(hc_tensor_plan_open(&t, HC_GRADIENT_H, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
    hc_tensor_data data = {.size = sizeof data, .out = gh};
    struct rlimit before;
    getrlimit(RLIMIT_AS, &before);
    setrlimit(RLIMIT_AS, &(struct rlimit){0, before.rlim_max}); /* the process keeps what it has */
    int error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    setrlimit(RLIMIT_AS, &before);
    hc_tensor_plan_close(plan);
    check(error == HC_OK && gh[t.n_taps - 1] == 0 && gh[t.n_taps] == 0xffff, "%d: %s", error, why);
    drop(backend, gh);
}

static void the_workspace_keeps_its_bound(const char *backend)
{
    need_tensors(backend);
    static const int64_t frames[] = {1, 100, 1000, 4096, 32768, 160000, 1 << 20, 1 << 22, 1 << 24};
    enum { N = sizeof frames / sizeof *frames };
    char why[256] = "";
    for (int i = 0; i < N * N * 4 * 2 * 4 * 8; i++) {
        int op = i % 4, sharing = i / 4 % 4, many = i / 16 % 2, form = i / 32 / N / N;
        int64_t n = frames[i / 32 % N], k = frames[i / 32 / N % N], y;
        int64_t items = many ? 1 + (1 << 26) / (n + k) : 2;
        hc_tensors t = {.size = sizeof t,
                        .backend = backend,
                        .mode = (i / 4 + i / 32) % 4,
                        .n_batch = items,
                        .n_channels = 3,
                        .n_frames = n,
                        .n_taps = k,
                        .h_batch = sharing & 1 ? items : 1,
                        .h_channels = sharing & 2 ? 3 : 1,
                        .n_filters = form & 1 ? 7 : 0,
                        .h_type = form & 4 ? HC_BFLOAT16 : HC_FLOAT32};
        if (form & 2) {
            if (t.mode == HC_VALID || items * n > 1 << 30) continue;
            t.n_batch = 1, t.n_sequences = items, t.n_frames = items * n;
        }
        y = hc_tensors_frames(&t);
        size_t bytes = 0;
        double most = (double)(t.n_batch * 3 * (t.n_frames + y)) +
                      (double)((form & 1 ? 7 : t.h_batch * t.h_channels) * k) / (form & 4 ? 2 : 1);
        hc_tensor_plan *plan;
        int error = hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why);
        hc_tensor_plan_close(plan);
        if (error == HC_EUNSUPPORTED && (form & 5) == 5 && op >= HC_GRADIENT_H && k > 1 << 23) continue;
        check(error == HC_OK, "%s, form %d, %d items, %d frames, %d taps: %s", op_names[op], form, (int)items, (int)n,
              (int)k, why);
        check((double)bytes <= (most < 1 << 26 ? 1 << 26 : most),
              "%s, form %d, %d items, %d frames, %d taps, sharing %d: %zu bytes", op_names[op], form, (int)items,
              (int)n, (int)k, sharing, bytes);
        check(bytes == 0 || form || op >= HC_GRADIENT_H || items * (n + k) > 400,
              "%s, %d items, %d frames, %d taps: %zu bytes for one launch", op_names[op], (int)items, (int)n, (int)k,
              bytes);
    }
}

static void the_frames_of_each_mode(const char *backend)
{
    static const int64_t wanted[4][3] = {{14, 14, 1}, {10, 5, 1}, {6, 6, 1}, {10, 5, 1}};
    for (int mode = HC_FULL; mode <= HC_CAUSAL; mode++) {
        hc_tensors t = {.size = sizeof t, .mode = mode, .n_frames = 10, .n_taps = 5};
        check(hc_tensors_frames(&t) == wanted[mode][0], "%d", (int)hc_tensors_frames(&t));
        t.n_batch = 1, t.n_sequences = 3;
        int64_t y = hc_tensors_frames(&t), want = mode == HC_VALID  ? HC_EUNSUPPORTED
                                                  : mode == HC_FULL ? 10 + 3 * 4
                                                                    : 10;
        check(y == want, "%s: %d frames, want %d", mode_names[mode], (int)y, (int)want);
        t.n_sequences = 0;
        t.n_frames = 5, t.n_taps = 10;
        check(hc_tensors_frames(&t) == wanted[mode][1], "%d", (int)hc_tensors_frames(&t));
        t.n_frames = t.n_taps = 1;
        check(hc_tensors_frames(&t) == wanted[mode][2], "%d", (int)hc_tensors_frames(&t));
        t.n_taps = 0;
        check(hc_tensors_frames(&t) == HC_EINVAL, "%d", (int)hc_tensors_frames(&t));
    }
    check(hc_tensors_frames(NULL) == HC_EINVAL, "NULL");
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

struct refusal {
    int code;
    const char *text; /* of the error line */
    int op;
    hc_tensors change; /* fields that are not 0 replace those of the sound call; -1 becomes 0 */
};

#define EACH_FIELD(F)                                                                                                  \
    F(size)                                                                                                            \
    F(mode)                                                                                                            \
    F(n_threads)                                                                                                       \
    F(n_batch)                                                                                                         \
    F(n_channels)                                                                                                      \
    F(n_frames)                                                                                                        \
    F(n_taps)                                                                                                          \
    F(x_type)                                                                                                          \
    F(h_type)                                                                                                          \
    F(n_filters)                                                                                                       \
    F(n_sequences)                                                                                                     \
    F(y_type)                                                                                                          \
    F(gx_stride[0])                                                                                                    \
    F(gx_stride[1])                                                                                                    \
    F(gh_stride[0])                                                                                                    \
    F(gh_stride[1]) F(h_batch) F(h_channels) F(x_stride[0]) F(x_stride[1]) F(h_stride[0]) F(h_stride[1])               \
        F(y_stride[0]) F(y_stride[1])

static void a_wrong_call_is_refused_with_a_remedy(const char *backend)
{
    static const struct refusal refusals[] = {
        {HC_EINVAL, "sizeof(hc_tensors)", 0, {.size = 8}},
        {HC_EINVAL, "mode is 9", 0, {.mode = 9}},
        {HC_EINVAL, "operation 4", 4, {0}},
        {HC_EINVAL, "operation -1", -1, {0}},
        {HC_EINVAL, "n_threads is -2", 0, {.n_threads = -2}},
        {HC_EINVAL, "n_batch is -2", 0, {.n_batch = -2, .h_batch = 1}},
        {HC_EINVAL, "n_channels is -3", 0, {.n_channels = -3, .h_channels = 1}},
        {HC_EINVAL, "exceeds 2^36", 0, {.n_batch = INT64_MAX, .n_channels = 5, .h_batch = 1, .h_channels = 1}},
        {HC_EINVAL, "exceeds 2^36", 2, {.n_batch = ((int64_t)1 << 36) / 3 + 1, .h_batch = 1, .x_stride[1] = 20}},
        {HC_EINVAL, "exceed the address space", 0, {.n_batch = (int64_t)1 << 34, .n_frames = 1 << 29, .h_batch = 1}},
        {HC_EINVAL, "exceed the address space", 2, {.x_stride[0] = INT64_MAX}},
        {HC_EINVAL, "exceed the address space", 0, {.h_stride[1] = INT64_MAX / 4}},
        {HC_EINVAL, "n_sequences is -", 0, {.n_sequences = INT64_MIN}},
        {HC_EINVAL, "n_frames 0 ", 0, {.n_frames = -1}},
        {HC_EINVAL, "n_frames 1073741825", 0, {.n_frames = (1 << 30) + 1}},
        {HC_EINVAL, "n_taps 0 ", 0, {.n_taps = -1}},
        {HC_EINVAL, "n_taps 1073741825", 0, {.n_taps = (1 << 30) + 1}},
        {HC_EINVAL, "x_type is 3; use HC_FLOAT32", 0, {.x_type = 3}},
        {HC_EINVAL, "h_type is -1", 1, {.h_type = -1}},
        {HC_EINVAL, "y_type is 7", 2, {.y_type = 7}},
        {HC_EINVAL, "h_batch is 3", 0, {.h_batch = 3}},
        {HC_EINVAL, "n_filters is -1; give 0", 0, {.n_filters = -1}},
        {HC_EINVAL, "exceed the address space", 2, {.n_filters = 5, .h_stride[0] = INT64_MAX / 4}},
        {HC_EINVAL, "may overlap", 2, {.n_filters = 2, .h_stride[0] = 14}},
        {HC_EINVAL, "n_sequences is -1; give 0", 0, {.n_sequences = -1}},
        {HC_EINVAL, "n_batch is 2; give 1", 0, {.n_sequences = 4}},
        {HC_EINVAL, "or n_sequences, 4", 0, {.n_batch = 1, .n_sequences = 4}},
        {HC_EINVAL, "exceeds 2^36", 0, {.n_batch = 1, .n_sequences = 1 << 30, .n_channels = 65}},
        {HC_EUNSUPPORTED, "use HC_FULL", 0, {.mode = HC_VALID, .n_batch = 1, .h_batch = 1, .n_sequences = 4}},
        {HC_EINVAL, "h_channels is 2", 0, {.h_channels = 2}},
        {HC_EINVAL, "x_stride is -5, 0", 0, {.x_stride[0] = -5}},
        {HC_EINVAL, "h_stride is 0, -5", 0, {.h_stride[1] = -5}},
        {HC_EINVAL, "may overlap", 0, {.y_stride[0] = 99, .y_stride[1] = 33}}, /* 34 frames */
        {HC_EINVAL, "may overlap", 0, {.y_stride[0] = 67, .y_stride[1] = 34}},
        {HC_EINVAL, "may overlap; let one stride step over all rows", 0, {.y_stride = {105, 70}}}, /* does not */
        {HC_EINVAL, "may overlap", 0, {.x_stride[0] = 60, .x_stride[1] = 20}}, /* y has strides of 0 */
        {HC_EINVAL, "may overlap", 1, {.x_stride[0] = 60, .x_stride[1] = 19}},
        {HC_EINVAL, "may overlap", 2, {.h_stride[0] = 15, .h_stride[1] = 29}},
        {HC_EINVAL, "gx_stride is 60, 19", HC_GRADIENTS, {.gx_stride[0] = 60, .gx_stride[1] = 19}},
        {HC_EINVAL, "gh_stride is 15, 29", HC_GRADIENTS, {.gx_stride = {60, 20}, .gh_stride = {15, 29}}},
    };
    char why[256], memory[1];
    need_tensors(backend);
    for (int i = 0; i < (int)(sizeof refusals / sizeof *refusals); i++) {
        const struct refusal *refusal = &refusals[i];
        hc_tensors t = {.size = sizeof t,
                        .backend = backend,
                        .mode = HC_FULL,
                        .n_batch = 2,
                        .n_channels = 3,
                        .n_frames = 20,
                        .n_taps = 15,
                        .h_batch = 2,
                        .h_channels = 3};
#define CHANGE(field)                                                                                                  \
    if (refusal->change.field) t.field = refusal->change.field;
        EACH_FIELD(CHANGE)
        if (t.n_frames == -1) t.n_frames = 0;
        if (t.n_taps == -1) t.n_taps = 0;
        size_t bytes = 1;
        hc_tensor_plan *plan = (hc_tensor_plan *)memory;
        int error = hc_tensor_plan_open(&t, refusal->op, &plan, &bytes, why, sizeof why);
        check(error == refusal->code && strstr(why, refusal->text), "%d: want \"%s\", got %d: %s", i, refusal->text,
              error, why);
        check(bytes == 0 && !plan, "%d: %zu bytes, a plan %d", i, bytes, plan != NULL);
    }
}

/* The struct of an older program ends before the types; what stands behind it is not read. */
static void the_struct_of_an_older_program_has_float32(const char *backend)
{
    struct random r = random_seeded(202);
    struct shape s = shape_of(HC_SAME, 2, 3, 2, 90, 40);
    for (int op = HC_CONVOLVE; op <= HC_GRADIENT_H; op++) {
        struct trial c = trial_make(backend, &s, op, &r);
        c.sizes.size = offsetof(hc_tensors, x_type);
        c.sizes.x_type = c.sizes.h_type = c.sizes.y_type = HC_BFLOAT16;
        trial_check(backend, &c);
        trial_drop(&c);
    }
}

static void more_filters_or_rows_than_a_gpu_counts_are_refused(const char *backend)
{
    need_tensors(backend);
    if (!on_gpu(backend)) check_skip("the CPU counts in 64 bits");
    char why[256] = "";
    for (int is_shared = 0; is_shared < 2; is_shared++)
        for (int op = HC_CONVOLVE; op <= HC_GRADIENTS; op++)
            for (int64_t n = INT32_MAX; n <= (int64_t)INT32_MAX + 1; n++) {
                hc_tensors t = {.size = sizeof t,
                                .backend = backend,
                                .n_batch = n,
                                .n_channels = 1,
                                .n_frames = 4,
                                .n_taps = 1,
                                .h_batch = is_shared ? 1 : n};
                size_t bytes;
                hc_tensor_plan *plan;
                int error = hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why);
                hc_tensor_plan_close(plan);
                check(error == (n == INT32_MAX ? HC_OK : HC_EUNSUPPORTED), "%s, shared %d: %d: %s", op_names[op],
                      is_shared, error, why);
                check(error == HC_OK || strstr(why, "split the batch"), "%s", why);
            }
}

static void a_missing_tensor_or_workspace_is_refused(const char *backend)
{
    need_tensors(backend);
    hc_tensors t = {.size = sizeof t,
                    .backend = backend,
                    .mode = HC_CAUSAL,
                    .n_batch = 64,
                    .n_channels = 2,
                    .n_frames = 3000,
                    .n_taps = 3000};
    char why[256];
    float x = 0;
    int64_t one = 1;
    size_t bytes = 0;
    hc_tensor_plan *plan;
    int error = hc_tensor_plan_open(NULL, HC_CONVOLVE, &plan, &bytes, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "hc_tensors is NULL"), "%d: %s", error, why);
    error = hc_tensor_plan_open(&t, HC_CONVOLVE, NULL, &bytes, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "plan or bytes is NULL"), "%d: %s", error, why);
    error = hc_tensor_plan_open(&t, HC_CONVOLVE, &plan, NULL, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "plan or bytes is NULL") && !plan, "%d: %s", error, why);
    hc_tensor_data data = {.size = sizeof data, .a = &x, .b = &x, .out = &x};
    error = hc_tensor_plan_run(NULL, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "plan is NULL"), "%d: %s", error, why);
    hc_tensor_plan_close(NULL);
    check(hc_tensor_plan_open(&t, HC_CONVOLVE, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
    void *workspace = to_device(backend, NULL, bytes);
    error = hc_tensor_plan_run(plan, NULL, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "data is NULL"), "%d: %s", error, why);
    data.workspace = workspace, data.bytes = bytes, data.size = 0;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "hc_tensor_data"), "%d: %s", error, why);
    data.size = sizeof data, data.a = NULL;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "a is NULL"), "%d: %s", error, why);
    data.a = &x, data.b = NULL;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "b is NULL"), "%d: %s", error, why);
    data.b = &x, data.out = NULL;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "out is NULL"), "%d: %s", error, why);
    data.out = &x;
    data.index = &one;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "set n_filters"), "%d: %s", error, why);
    data.index = NULL, data.offsets = &one;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "set n_sequences"), "%d: %s", error, why);
    data.offsets = NULL;
    hc_tensor_plan_close(plan);
    for (int is_packed = 0; is_packed < 2; is_packed++) {
        hc_tensors u = t;
        u.n_batch = 1;
        *(is_packed ? &u.n_sequences : &u.n_filters) = 1;
        check(hc_tensor_plan_open(&u, HC_CONVOLVE, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
        error = hc_tensor_plan_run(plan, &data, why, sizeof why);
        check(error == HC_EINVAL && strstr(why, is_packed ? "offsets is NULL" : "index is NULL"), "%d: %s", error, why);
        hc_tensor_plan_close(plan);
    }
    data.c = data.out_h = &x;
    for (int op = HC_CONVOLVE; op <= HC_GRADIENTS; op++) {
        check(hc_tensor_plan_open(&t, op, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
        if (bytes > 0) {
            char both[96];
            snprintf(both, sizeof both, "%zu bytes, but needs %zu", bytes - 1, bytes);
            data.workspace = workspace, data.bytes = bytes - 1;
            error = hc_tensor_plan_run(plan, &data, why, sizeof why);
            check(error == HC_EINVAL && strstr(why, both), "%d: want \"%s\", got %s", error, both, why);
            data.workspace = NULL, data.bytes = bytes;
            error = hc_tensor_plan_run(plan, &data, why, sizeof why);
            check(error == HC_EINVAL && strstr(why, "aligned to 256"), "%d: %s", error, why);
            data.workspace = (char *)workspace + 64, data.bytes = bytes;
            error = hc_tensor_plan_run(plan, &data, why, sizeof why);
            check(error == HC_EINVAL && strstr(why, "aligned to 256"), "%d: %s", error, why);
        }
        hc_tensor_plan_close(plan);
    }
    check(hc_tensor_plan_open(&t, HC_GRADIENTS, &plan, &bytes, why, sizeof why) == HC_OK, "%s", why);
    data.c = NULL;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "c is NULL"), "%d: %s", error, why);
    data.c = &x, data.out_h = NULL;
    error = hc_tensor_plan_run(plan, &data, why, sizeof why);
    check(error == HC_EINVAL && strstr(why, "out_h is NULL"), "%d: %s", error, why);
    hc_tensor_plan_close(plan);
    drop(backend, workspace);
}

static void an_unknown_backend_is_refused(const char *backend)
{
    static const struct {
        const char *name;
        int code;
    } names[] = {{"auto", HC_EINVAL},
                 {"gpu", HC_EINVAL},
                 {"cpu:1", HC_EINVAL},
                 {"cuda:x", HC_EINVAL},
                 {"hybrid", HC_EUNSUPPORTED}};
    char why[256];
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        hc_tensors t = {
            .size = sizeof t, .backend = names[i].name, .n_batch = 1, .n_channels = 1, .n_frames = 1, .n_taps = 1};
        size_t bytes;
        hc_tensor_plan *plan;
        int error = hc_tensor_plan_open(&t, HC_CONVOLVE, &plan, &bytes, why, sizeof why);
        check(error == names[i].code && strstr(why, names[i].name), "%s: %d: %s", names[i].name, error, why);
    }
}

int main(void)
{
    static const struct test tests[] = {TEST(the_frames_of_each_mode, false),
                                        TEST(all_modes_and_sharings_match_a_float64_sum, ONCE_A_DEVICE),
                                        TEST(long_filters_and_signals_match_a_float64_transform, ONCE_A_DEVICE),
                                        TEST(any_strides_are_read_and_gaps_are_not_written, ONCE_A_DEVICE),
                                        TEST(taps_beyond_a_length_count_as_zero, ONCE_A_DEVICE),
                                        TEST(filters_by_index_match_a_float64_sum, ONCE_A_DEVICE),
                                        TEST(a_bank_in_16_bits_is_rounded_once, ONCE_A_DEVICE),
                                        TEST(a_row_without_a_filter_is_not_read, ONCE_A_DEVICE),
                                        TEST(packed_sequences_match_a_float64_sum, ONCE_A_DEVICE),
                                        TEST(wrong_offsets_reach_no_other_memory, ONCE_A_DEVICE),
                                        TEST(any_mix_of_types_is_rounded_once, ONCE_A_DEVICE),
                                        TEST(long_filters_in_16_bits_are_rounded_once, ONCE_A_DEVICE),
                                        TEST(filters_in_parts_need_an_output_of_float32_on_a_gpu, ONCE_A_DEVICE),
                                        TEST(floats_of_16_bits_are_converted_as_in_IEEE_754, false),
                                        TEST(random_shapes_match_a_float64_sum, ONCE_A_DEVICE),
                                        TEST(gradients_are_the_adjoint, ONCE_A_DEVICE),
                                        TEST(nan_and_infinity_pass_and_stay_in_their_row, ONCE_A_DEVICE),
                                        TEST(the_same_tensors_give_the_same_bits, ONCE_A_DEVICE),
                                        TEST(packed_gradients_at_once_have_the_bits_of_each_alone, ONCE_A_DEVICE),
                                        TEST(an_empty_batch_computes_nothing, ONCE_A_DEVICE),
                                        TEST(an_empty_batch_zeroes_each_filters_gradient, ONCE_A_DEVICE),
                                        TEST(an_empty_batch_needs_no_memory, ONCE_A_DEVICE),
                                        TEST(the_workspace_keeps_its_bound, ONCE_A_DEVICE),
                                        TEST(a_wrong_call_is_refused_with_a_remedy, ONCE_A_DEVICE),
                                        TEST(the_struct_of_an_older_program_has_float32, ONCE_A_DEVICE),
                                        TEST(more_filters_or_rows_than_a_gpu_counts_are_refused, ONCE_A_DEVICE),
                                        TEST(a_missing_tensor_or_workspace_is_refused, ONCE_A_DEVICE),
                                        TEST(an_unknown_backend_is_refused, false)};
    return check_main("tensors", tests, sizeof tests / sizeof *tests);
}
