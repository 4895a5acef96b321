/* tensors - hc_tensor_plan: checks an operation, finds the device and gives it a struct tensor_call
 * (dsp/device/tensor_backend.h).
 */
#include "dsp/device/tensor_backend.h"

#include "dsp/backends/backends.h"
#include "dsp/base/struct_copy.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 1 << 30,
    MAX_SEQUENCES = 1 << 30,
    WORKSPACE_BYTES = 64 << 20, /* max. bytes of a workspace, if a quarter of the tensors is less */
};

/* Rows with stride 0 share memory, so memory does not limit their number. The limit keeps rows * blocks in 64 bits. */
static const int64_t max_rows = (int64_t)1 << 36;

/* Computes *from, the first frame of y in the full convolution, and *frames of y. false: the mode is unknown. */
static bool mode_frames(const hc_tensors *t, int64_t *from, int64_t *frames)
{
    int64_t n = t->n_frames, k = t->n_taps;
    *from = 0;
    *frames = n;
    if (t->mode == HC_FULL) {
        *frames = n + (t->n_sequences ? t->n_sequences : 1) * (k - 1);
    } else if (t->mode == HC_SAME) {
        *from = (k - 1) / 2;
    } else if (t->mode == HC_VALID) {
        *from = tensor_min(n, k) - 1;
        *frames = n + k - 1 - 2 * *from;
    }
    return t->mode == HC_FULL || t->mode == HC_SAME || t->mode == HC_VALID || t->mode == HC_CAUSAL;
}

/* Checks everything but the strides, the operation and the backend, and copies the caller's version of the struct. */
static int sizes_copy(const hc_tensors *given, hc_tensors *t, struct reason *why)
{
    int64_t from, frames, rows;
    if (!given) return fail(HC_EINVAL, why, "hc_tensors is NULL; pass one");
    int error = struct_copy(given, t, sizeof *t, "hc_tensors", why);
    if (error) return error;
    if (t->n_frames < 1 || t->n_frames > MAX_FRAMES)
        return fail(HC_EINVAL, why, "n_frames %" PRId64 " is out of range; give 1 to %d", t->n_frames, MAX_FRAMES);
    if (t->n_taps < 1 || t->n_taps > MAX_FRAMES)
        return fail(HC_EINVAL, why, "n_taps %" PRId64 " is out of range; give 1 to %d", t->n_taps, MAX_FRAMES);
    if (t->n_sequences < 0 || t->n_sequences > MAX_SEQUENCES)
        return fail(HC_EINVAL, why, "n_sequences is %" PRId64 "; give 0 (not packed) to %d", t->n_sequences,
                    MAX_SEQUENCES);
    if (!mode_frames(t, &from, &frames))
        return fail(HC_EINVAL, why, "mode is %d; use HC_FULL, HC_SAME, HC_VALID or HC_CAUSAL", t->mode);
    if (t->n_batch < 0 || t->n_channels < 0)
        return fail(HC_EINVAL, why, "n_batch is %" PRId64 ", n_channels is %" PRId64 "; give 0 or more of each",
                    t->n_batch, t->n_channels);
    if (t->n_filters < 0 || t->n_filters > max_rows)
        return fail(HC_EINVAL, why, "n_filters is %" PRId64 "; give 0 (no index) to 2^36", t->n_filters);
    if (t->n_sequences && t->n_batch != 1)
        return fail(HC_EINVAL, why, "n_batch is %" PRId64 "; give 1, because packed sequences are the items",
                    t->n_batch);
    if (t->n_sequences && t->mode == HC_VALID)
        return fail(HC_EUNSUPPORTED, why, "packed sequences have no mode HC_VALID; use HC_FULL, HC_SAME or HC_CAUSAL");
    int64_t items = t->n_sequences ? t->n_sequences : t->n_batch;
    const char *items_name = t->n_sequences ? "n_sequences" : "n_batch";
    if (__builtin_mul_overflow(items, t->n_channels, &rows) || rows > max_rows)
        return fail(HC_EINVAL, why, "%s %" PRId64 " times n_channels %" PRId64 " exceeds 2^36; lower them", items_name,
                    items, t->n_channels);
    if (t->h_batch != 0 && t->h_batch != 1 && t->h_batch != items)
        return fail(HC_EINVAL, why, "h_batch is %" PRId64 "; give 1 (shared by all items) or %s, %" PRId64, t->h_batch,
                    items_name, items);
    if (t->h_channels != 0 && t->h_channels != 1 && t->h_channels != t->n_channels)
        return fail(HC_EINVAL, why,
                    "h_channels is %" PRId64 "; give 1 (shared by all channels) or n_channels, %" PRId64, t->h_channels,
                    t->n_channels);
    if (t->n_threads < 0) return fail(HC_EINVAL, why, "n_threads is %d; give 0 or more", t->n_threads);
    int types[] = {t->x_type, t->h_type, t->y_type};
    for (int i = 0; i < 3; i++)
        if (types[i] < HC_FLOAT32 || types[i] > HC_FLOAT16)
            return fail(HC_EINVAL, why, "%c_type is %d; use HC_FLOAT32, HC_BFLOAT16 or HC_FLOAT16", "xhy"[i], types[i]);
    return HC_OK;
}

int64_t hc_tensors_frames(const hc_tensors *given)
{
    hc_tensors t = {0};
    int64_t from, frames;
    int error = sizes_copy(given, &t, NULL);
    if (error) return error;
    mode_frames(&t, &from, &frames);
    return frames;
}

/* ---- strides ----------------------------------------------------------------------------------------------------- */

/* Computes *end, the index after the tensor's last element. false: this exceeds the address space. */
static bool rows_end(const struct tensor_rows *rows, int64_t *end)
{
    int64_t items, channels;
    *end = 0;
    if (rows->batch == 0 || rows->channels == 0) return true;
    return !__builtin_mul_overflow(rows->batch - 1, rows->stride[0], &items) &&
           !__builtin_mul_overflow(rows->channels - 1, rows->stride[1], &channels) &&
           !__builtin_add_overflow(items, channels, end) && !__builtin_add_overflow(*end, rows->frames, end) &&
           *end <= PTRDIFF_MAX / tensor_element(rows);
}

/* May two rows share an element? No if the larger stride steps over all rows of the other dimension. */
static bool rows_overlap(const struct tensor_rows *rows)
{
    bool items_outside = rows->channels == 1 || (rows->batch > 1 && rows->stride[0] >= rows->stride[1]);
    int outer = items_outside ? 0 : 1;
    int64_t n[2] = {rows->batch, rows->channels}, inner_end = rows->frames;
    if (n[!outer] > 1) {
        if (rows->stride[!outer] < rows->frames) return true;
        inner_end += (n[!outer] - 1) * rows->stride[!outer]; /* rows_end found no overflow */
    }
    return n[outer] > 1 && rows->stride[outer] < inner_end;
}

static int strides_check(const struct tensor_rows *rows, const char *name, bool is_out, struct reason *why)
{
    int64_t end, items = rows->stride[0], channels = rows->stride[1];
    if (items < 0 || channels < 0)
        return fail(HC_EINVAL, why, "%s_stride is %" PRId64 ", %" PRId64 ", but must not be negative; copy the tensor",
                    name, items, channels);
    if (!rows_end(rows, &end))
        return fail(HC_EINVAL, why,
                    "%s: %" PRId64 " items of %" PRId64 " channels of %" PRId64
                    " frames exceed the address space; lower the sizes or the strides",
                    name, rows->batch, rows->channels, rows->frames);
    if (is_out && end > 0 && rows_overlap(rows))
        return fail(HC_EINVAL, why,
                    "%s_stride is %" PRId64 ", %" PRId64 ": channels of %" PRId64
                    " frames of the output may overlap; let one stride step over all rows of the other dimension",
                    name, items, channels, rows->frames);
    return HC_OK;
}

static void strides_set(struct tensor_rows *rows, const int64_t *stride, bool dense)
{
    rows->stride[0] = stride[0];
    rows->stride[1] = stride[1];
    if (!dense) return;
    rows->stride[1] = rows->frames;
    if (__builtin_mul_overflow(rows->channels, rows->frames, &rows->stride[0])) rows->stride[0] = INT64_MAX;
}

/* Returns the bytes of the tensor's memory; a stride of 0 repeats the same elements. */
static double rows_bytes(const struct tensor_rows *rows)
{
    double items = rows->stride[0] > 0 ? (double)rows->batch : rows->batch > 0;
    double channels = rows->stride[1] > 0 ? (double)rows->channels : rows->channels > 0;
    return items * channels * (double)rows->frames * tensor_element(rows);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Finds the backend and the device by name. */
static int device_find(const hc_tensors *t, const struct tensor_backend **tensors, int *device, struct reason *why)
{
    const struct backend *backend;
    const char *name = t->backend ? t->backend : "cpu";
    hc_config config = {.size = sizeof config, .backend = name, .block = 1};
    int error = strcmp(name, "auto") == 0 ? HC_EINVAL : backend_choose(&config, &backend, device, why);
    if (error == HC_EINVAL)
        return fail(error, why, "backend \"%s\" does not name a device; give that of the tensors: cpu, cuda or cuda:N",
                    name);
    if (error) return error;
    *tensors = backend->tensors;
    if (*tensors) return HC_OK;
    return fail(HC_EUNSUPPORTED, why, "backend \"%s\" cannot convolve tensors; use cpu or cuda", name);
}

/* Checks a call whose sizes are right, fills in *call and returns its backend. NULL: *error says why. */
static const struct tensor_backend *call_make(const hc_tensors *t, int op, struct tensor_call *call, int *error,
                                              struct reason *why)
{
    if (op < HC_CONVOLVE || op > HC_GRADIENTS) {
        *error =
            fail(HC_EINVAL, why, "operation %d is unknown; use one of enum hc_tensors_op, 0 to %d", op, HC_GRADIENTS);
        return NULL;
    }
    int64_t h_batch = t->h_batch ? t->h_batch : 1, h_channels = t->h_channels ? t->h_channels : 1, frames;
    *call = (struct tensor_call){.op = op, .n_threads = t->n_threads};
    mode_frames(t, &call->from, &frames);
    call->x = (struct tensor_rows){t->n_batch, t->n_channels, t->n_frames, .type = t->x_type};
    call->h = (struct tensor_rows){h_batch, h_channels, t->n_taps, .type = t->h_type};
    call->y = (struct tensor_rows){t->n_batch, t->n_channels, frames, .type = t->y_type};
    bool dense = true;
    for (int i = 0; i < 2; i++) dense = dense && !t->x_stride[i] && !t->h_stride[i] && !t->y_stride[i];
    strides_set(&call->x, t->x_stride, dense);
    call->has_index = t->n_filters > 0;
    call->bank = call->h;
    if (call->has_index) call->bank.batch = t->n_filters, call->bank.channels = 1;
    strides_set(&call->bank, t->h_stride, dense);
    if (!call->has_index) call->h = call->bank;
    strides_set(&call->y, t->y_stride, dense);
    call->gx = call->x;
    call->gh = call->bank;
    dense = !t->gx_stride[0] && !t->gx_stride[1] && !t->gh_stride[0] && !t->gh_stride[1];
    strides_set(&call->gx, t->gx_stride, dense);
    strides_set(&call->gh, t->gh_stride, dense);
    *error = strides_check(&call->x, "x", op == HC_GRADIENT_X, why);
    if (!*error) *error = strides_check(&call->bank, "h", op == HC_GRADIENT_H, why);
    if (!*error) *error = strides_check(&call->y, "y", op == HC_CONVOLVE, why);
    if (!*error && op == HC_GRADIENTS) *error = strides_check(&call->gx, "gx", true, why);
    if (!*error && op == HC_GRADIENTS) *error = strides_check(&call->gh, "gh", true, why);
    if (*error) return NULL;
    double quarter = (rows_bytes(&call->x) + rows_bytes(&call->bank) + rows_bytes(&call->y)) / 4;
    call->limit = quarter > WORKSPACE_BYTES ? (size_t)quarter : WORKSPACE_BYTES;
    if (t->n_sequences) {
        call->x.batch = call->y.batch = call->gx.batch = t->n_sequences;
        call->x.packed = call->y.packed = call->gx.packed = t->n_frames;
        call->y.gap = t->mode == HC_FULL ? t->n_taps - 1 : 0;
    }
    const struct tensor_backend *tensors = NULL;
    *error = device_find(t, &tensors, &call->device, why);
    return tensors;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

struct hc_tensor_plan {
    const struct tensor_backend *backend;
    struct tensor_call call;                     /* call.lengths is not set */
    bool has_rows;                               /* false: no items or no channels, so nothing to sum */
    _Alignas(max_align_t) unsigned char state[]; /* [backend->plan_size] */
};

int hc_tensor_plan_open(const hc_tensors *given, int op, hc_tensor_plan **plan, size_t *bytes, char *why, size_t cap)
{
    hc_tensors t = {0};
    struct tensor_call call;
    if (plan) *plan = NULL;
    if (bytes) *bytes = 0;
    if (!plan || !bytes)
        return fail(HC_EINVAL, REASON(why, cap), "hc_tensor_plan_open: plan or bytes is NULL; pass both");
    int error = sizes_copy(given, &t, REASON(why, cap));
    const struct tensor_backend *backend = error ? NULL : call_make(&t, op, &call, &error, REASON(why, cap));
    if (!backend) return error;
    hc_tensor_plan *p = calloc(1, sizeof *p + backend->plan_size);
    if (!p) return fail(HC_ENOMEM, REASON(why, cap), "no memory for a plan; free some memory");
    p->backend = backend;
    p->call = call;
    p->has_rows = t.n_batch > 0 && t.n_channels > 0;
    if (p->has_rows) error = backend->plan(&call, p->state, bytes, REASON(why, cap));
    if (error)
        free(p);
    else
        *plan = p;
    return error;
}

/* Returns what is wrong with the pointers of a run; NULL: nothing. */
static const char *missing_in(const struct tensor_call *call, bool has_rows, const hc_tensor_data *data)
{
    bool both = call->op == HC_GRADIENTS;
    if (both && !data->out_h) return "out_h is NULL; pass a tensor";
    if ((has_rows || !both) && !data->out) return "out is NULL; pass a tensor";
    if (!has_rows) return NULL;
    if (!data->a) return "a is NULL; pass a tensor";
    if (!data->b) return "b is NULL; pass a tensor";
    if (both && !data->c) return "c is NULL; pass a tensor";
    if (call->has_index && !data->index) return "index is NULL; pass one, or set n_filters to 0";
    if (!call->has_index && data->index) return "index is given, but n_filters is 0; set n_filters, too";
    if (call->x.packed && !data->offsets) return "offsets is NULL; pass those of n_sequences sequences";
    if (!call->x.packed && data->offsets) return "offsets are given, but n_sequences is 0; set n_sequences, too";
    return NULL;
}

int hc_tensor_plan_run(const hc_tensor_plan *p, const hc_tensor_data *given, char *why, size_t cap)
{
    hc_tensor_data data = {0};
    if (!p) return fail(HC_EINVAL, REASON(why, cap), "hc_tensor_plan_run: plan is NULL; pass one");
    if (!given) return fail(HC_EINVAL, REASON(why, cap), "hc_tensor_plan_run: data is NULL; pass the tensors");
    int error = struct_copy(given, &data, sizeof data, "hc_tensor_data", REASON(why, cap));
    if (error) return error;
    struct tensor_call call = p->call;
    call.lengths = data.lengths;
    bool both = call.op == HC_GRADIENTS;
    if (!p->has_rows && call.op != HC_GRADIENT_H && !both) return HC_OK;
    const char *missing = missing_in(&call, p->has_rows, &data);
    if (missing) return fail(HC_EINVAL, REASON(why, cap), "hc_tensor_plan_run: %s", missing);
    if (both && !p->has_rows) {
        call = tensor_part(&call, HC_GRADIENT_H);
        data = tensor_part_data(&data, HC_GRADIENT_H);
    }
    return p->backend->run(&call, p->state, &data, REASON(why, cap));
}

void hc_tensor_plan_close(hc_tensor_plan *p)
{
    free(p);
}
