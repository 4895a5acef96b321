/* tensors_cpu - the CPU backend of hc_tensor_plan: chooses between sums in the time domain and transforms, by their
 * costs, and divides the work among threads that exist during the call.
 *
 * The choice depends on the sizes alone, and the order of every sum is fixed: a result has the same bits for any number
 * of threads. The workspace is not used: the bytes of scratch memory depend on the number of threads.
 */
#include "tensors_cpu.h"

#include "dsp/base/denormals.h"
#include "dsp/base/half_floats.h"
#include "dsp/base/memory.h"
#include "dsp/base/processors.h"
#include "dsp/device/backend.h"

#include <stdatomic.h>
#include <string.h>

enum {
    MAX_SIZE = 65536, /* largest S: a transform and its spectrum fit into a second-level cache */
    N_SIZES = 9,
    SCRATCH_BYTES = 256 << 20, /* max. scratch bytes of all threads, if the limit of the workspace is lower */
};

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

struct tensor_filter tensor_filter_at(const struct tensor_work *w, int64_t number)
{
    const int64_t *lengths = w->call->lengths, n_taps = w->call->bank.frames;
    struct tensor_filter filter = {number, number < 0 ? 0 : n_taps};
    if (number >= 0 && lengths) filter.n_taps = tensor_max(0, tensor_min(lengths[number], n_taps));
    return filter;
}

struct tensor_row tensor_filter_row(const struct tensor_work *w, const struct tensor_filter *filter, const void *data)
{
    const struct tensor_rows *bank = &w->call->bank;
    int64_t number = tensor_max(0, filter->number);
    struct tensor_row row = tensor_row(bank, NULL, data, number / bank->channels, number % bank->channels);
    row.n = filter->n_taps;
    return row;
}

void tensor_sharer(const struct tensor_call *call, int64_t group, int64_t i, int64_t *item, int64_t *channel)
{
    int64_t channels = call->x.channels / call->h.channels;
    *item = call->h.batch > 1 ? group / call->h.channels : i / channels;
    *channel = call->h.channels > 1 ? group % call->h.channels : i % channels;
}

/* Reads n frames that x has. */
static void frames_read(float *frames, const struct tensor_row *x, int64_t from, int64_t n)
{
    const uint16_t *halves = (const uint16_t *)x->data + from;
    if (x->type == HC_FLOAT32)
        memcpy(frames, (const float *)x->data + from, (size_t)n * sizeof *frames);
    else if (x->type == HC_BFLOAT16)
        for (int64_t i = 0; i < n; i++) frames[i] = float_of_bfloat16(halves[i]);
    else
        for (int64_t i = 0; i < n; i++) frames[i] = float_of_float16(halves[i]);
}

void tensor_copy(float *frames, const struct tensor_row *x, int64_t from, int64_t n)
{
    int64_t begin = tensor_min(tensor_max(from, 0), from + n), end = tensor_max(tensor_min(from + n, x->n), begin);
    memset(frames, 0, (size_t)(begin - from) * sizeof *frames);
    if (end > begin) frames_read(frames + (begin - from), x, begin, end - begin);
    memset(frames + (end - from), 0, (size_t)(from + n - end) * sizeof *frames);
}

void tensor_copy_reversed(float *frames, const struct tensor_row *x, int64_t from, int64_t n)
{
    int64_t begin = tensor_min(tensor_max(from, 0), from + n), end = tensor_max(tensor_min(from + n, x->n), begin);
    float *to = frames + (from + n - end);
    memset(frames, 0, (size_t)(from + n - end) * sizeof *frames);
    memset(frames + (from + n - begin), 0, (size_t)(begin - from) * sizeof *frames);
    if (x->type == HC_FLOAT32) {
        const float *last = (const float *)x->data + end - 1;
        for (int64_t i = 0; i < end - begin; i++) to[i] = last[-i];
        return;
    }
    frames_read(to, x, begin, end - begin);
    for (int64_t i = 0, j = end - begin - 1; i < j; i++, j--) {
        float first = to[i];
        to[i] = to[j];
        to[j] = first;
    }
}

void tensor_write(const struct tensor_row *y, int64_t from, const float *frames, int64_t n)
{
    uint16_t *halves = (uint16_t *)y->data + from;
    if (!frames) /* all types have the same zero */
        memset(y->type == HC_FLOAT32 ? (void *)((float *)y->data + from) : halves, 0,
               (size_t)n * (y->type == HC_FLOAT32 ? sizeof *frames : sizeof *halves));
    else if (y->type == HC_FLOAT32)
        memcpy((float *)y->data + from, frames, (size_t)n * sizeof *frames);
    else if (y->type == HC_BFLOAT16)
        for (int64_t i = 0; i < n; i++) halves[i] = bfloat16_of_float(frames[i]);
    else
        for (int64_t i = 0; i < n; i++) halves[i] = float16_of_float(frames[i]);
}

void tensor_window(const struct tensor_work *w, const struct tensor_row *x, int64_t from, float *frames,
                   float *spectrum)
{
    int size = w->fft->size;
    const float *window = frames;
    if (x->type == HC_FLOAT32 && from >= 0 && from + 2 * size <= x->n)
        window = (const float *)x->data + from;
    else
        tensor_copy(frames, x, from, 2 * size);
    fft_forward(w->fft, window, window + size, spectrum, spectrum, FFT_CHUNK);
}

void tensor_sums(const struct offline *rows, const struct offline_list *list, int64_t window, int n, float *const *y)
{
    enum { CHUNKS = 4 }; /* for each group of chunks, all windows are computed: partitions stay cached */
    const struct offline_range *range = &rows->ranges[list->products->row];
    bool together = window - list->products->end >= range->first - 1 && window + n - 1 <= range->last;
    for (int from = 0; from < rows->fft->n_chunks; from += CHUNKS) {
        int end = from + CHUNKS < rows->fft->n_chunks ? from + CHUNKS : rows->fft->n_chunks;
        for (int t = 0, some; t < n; t += some) {
            some = together ? offline_windows(n - t) : 1;
            offline_sum(rows, list, window + t, some, from, end, y + t);
        }
    }
}

/* ---- the method -------------------------------------------------------------------------------------------------- */

/* Returns the call with the frames of one sequence instead of those of all. */
static struct tensor_call call_of_sequence(const struct tensor_call *call, int64_t frames)
{
    struct tensor_call one = *call;
    one.x.frames = tensor_max(1, frames);
    one.y.frames = one.x.frames + one.y.gap;
    return one;
}

static double method_ns(const struct tensor_call *call, int size)
{
    return call->op == HC_GRADIENT_H ? tensor_gradient_ns(call, size) : tensor_filter_ns(call, size);
}

/* Only the mean length of packed sequences is known. */
static struct tensor_method method_choose(const struct tensor_call *call)
{
    struct tensor_call one = *call;
    if (call->x.packed > 0) one = call_of_sequence(call, call->x.packed / call->x.batch);
    struct tensor_method best = {0, method_ns(&one, 0)};
    for (int size = FFT_LONG; size <= MAX_SIZE; size *= 2) {
        double ns = method_ns(&one, size);
        if (ns < best.ns) best = (struct tensor_method){size, ns};
    }
    return best;
}

/* Returns the tables of a size. They stay until the process ends: a training step has many short calls, and sines of a
 * long transform cost as much as a hundred transforms. All sizes together are 2 MB. NULL: no memory. */
static const struct fft *tables_of(int size)
{
    static const struct fft *_Atomic kept[N_SIZES];
    const struct fft *_Atomic *entry = kept, *none = NULL;
    for (int s = FFT_LONG; s < size; s *= 2) entry++;
    const struct fft *tables = atomic_load(entry);
    if (tables) return tables;
    tables = fft_get(size);
    if (!tables || atomic_compare_exchange_strong(entry, &none, tables)) return tables;
    fft_put(tables); /* another thread was faster */
    return none;
}

/* ---- the backend ------------------------------------------------------------------------------------------------- */

struct cpu_tensor_plan {
    struct tensor_method method[2]; /* of HC_GRADIENTS: of the gradient of x, then of that of h */
};

static int cpu_plan(const struct tensor_call *call, void *to, size_t *bytes, struct reason *why)
{
    (void)why;
    struct cpu_tensor_plan *plan = to;
    bool both = call->op == HC_GRADIENTS;
    *bytes = 0;
    for (int i = 0; i < (both ? 2 : 1); i++) {
        struct tensor_call part = both ? tensor_part(call, HC_GRADIENT_X + i) : *call;
        plan->method[i] = method_choose(&part);
    }
    return HC_OK;
}

/* Returns the number of threads for a call: as many as repay their start, 20 us each, and their scratch memory. */
static int tensor_threads(const struct tensor_call *call, const struct tensor_method *method)
{
    const double min_ns = 200e3;
    bool sums = call->op == HC_GRADIENT_H;
    size_t floats = (sums ? tensor_gradient_scratch : tensor_filter_scratch)(call, method->size);
    double bytes = call->limit > SCRATCH_BYTES ? (double)call->limit : SCRATCH_BYTES;
    double by_scratch = bytes / ((double)floats * sizeof(float));
    double max = call->n_threads > 0 ? call->n_threads : processors_usable();
    if (max > method->ns / min_ns) max = method->ns / min_ns;
    if (max > by_scratch) max = by_scratch;
    return max > 1 ? (int)max : 1;
}

static int method_run(const struct tensor_call *call, const struct tensor_method *method, const hc_tensor_data *data,
                      struct reason *why)
{
    struct tensor_call longest = *call;
    if (call->x.packed > 0) {
        int64_t frames = 0;
        for (int64_t i = 0; i < call->x.batch; i++)
            frames = tensor_max(frames, tensor_row(&call->x, data->offsets, NULL, i, 0).n);
        longest = call_of_sequence(call, frames);
    }
    struct tensor_work work = {.call = &longest, .data = data, .simd = simd_choose()};
    work.pool = thread_pool_open(tensor_threads(&longest, method));
    if (method->size > 0) work.fft = tables_of(method->size);
    unsigned denormals = denormals_off();
    bool ok = work.pool && (method->size == 0 || work.fft);
    if (ok) ok = call->op == HC_GRADIENT_H ? tensor_gradient_run(&work) : tensor_filter_run(&work);
    denormals_restore(denormals);
    thread_pool_close(work.pool);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "cpu: no memory to convolve with; lower n_threads or n_taps");
}

/* Writes the gradient of filters that no rows share. */
static int zeros_write(const struct tensor_rows *gh, void *out)
{
    for (int64_t f = 0; f < gh->batch * gh->channels; f++) {
        struct tensor_row row = tensor_row(gh, NULL, out, f / gh->channels, f % gh->channels);
        tensor_write(&row, 0, NULL, row.n);
    }
    return HC_OK;
}

static int cpu_run(const struct tensor_call *call, const void *of, const hc_tensor_data *data, struct reason *why)
{
    const struct cpu_tensor_plan *plan = of;
    if (tensor_sharers(call) == 0) return zeros_write(&call->bank, data->out);
    if (call->op != HC_GRADIENTS) return method_run(call, &plan->method[0], data, why);
    int error = HC_OK;
    for (int i = 0; i < 2 && !error; i++) {
        struct tensor_call part = tensor_part(call, HC_GRADIENT_X + i);
        hc_tensor_data part_data = tensor_part_data(data, HC_GRADIENT_X + i);
        error = method_run(&part, &plan->method[i], &part_data, why);
    }
    return error;
}

const struct tensor_backend tensors_cpu = {sizeof(struct cpu_tensor_plan), cpu_plan, cpu_run};
