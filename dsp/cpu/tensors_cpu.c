/* tensors_cpu - the CPU backend of hc_tensor_plan: chooses between sums in the time domain and transforms, by their
 * costs, and divides the work among threads that exist during the call.
 *
 * The choice depends on the sizes alone, and the order of every sum is fixed: a result has the same bits for any number
 * of threads. The workspace is not used: the bytes of scratch memory depend on the number of threads.
 */
#include "tensors_cpu.h"

#include "dsp/base/denormals.h"
#include "dsp/base/memory.h"
#include "dsp/base/processors.h"
#include "dsp/device/backend.h"

#include <stdatomic.h>
#include <string.h>

enum {
    MAX_SIZE = 65536, /* largest S: a transform and its spectrum fit into a second-level cache */
    N_SIZES = 9,
    MIN_SCRATCH = 256 << 20, /* max. scratch bytes of all threads, unless the workspace limit is larger */
};

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

struct tensor_filter tensor_filter_at(const struct tensor_call *call, int64_t i)
{
    struct tensor_filter filter = {i / call->h.channels, i % call->h.channels, call->h.frames};
    if (call->lengths) filter.n_taps = tensor_max(0, tensor_min(call->lengths[i], call->h.frames));
    return filter;
}

void tensor_sharer(const struct tensor_call *call, const struct tensor_filter *filter, int64_t i, int64_t *item,
                   int64_t *channel)
{
    int64_t channels = call->x.channels / call->h.channels;
    *item = call->h.batch > 1 ? filter->item : i / channels;
    *channel = call->h.channels > 1 ? filter->channel : i % channels;
}

void tensor_copy(float *frames, const float *x, int64_t n_x, int64_t from, int64_t n)
{
    int64_t begin = tensor_min(tensor_max(from, 0), from + n), end = tensor_max(tensor_min(from + n, n_x), begin);
    memset(frames, 0, (size_t)(begin - from) * sizeof *frames);
    if (end > begin) memcpy(frames + (begin - from), x + begin, (size_t)(end - begin) * sizeof *frames);
    memset(frames + (end - from), 0, (size_t)(from + n - end) * sizeof *frames);
}

void tensor_window(const struct tensor_work *w, const float *x, int64_t n_x, int64_t from, float *frames,
                   float *spectrum)
{
    int size = w->fft->size;
    const float *window = frames;
    if (from >= 0 && from + 2 * size <= n_x)
        window = x + from;
    else
        tensor_copy(frames, x, n_x, from, 2 * size);
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

static double method_ns(const struct tensor_call *call, int size)
{
    return call->op == HC_GRADIENT_H ? tensor_gradient_ns(call, size) : tensor_filter_ns(call, size);
}

static struct tensor_method method_choose(const struct tensor_call *call)
{
    struct tensor_method best = {0, method_ns(call, 0)};
    for (int size = FFT_LONG; size <= MAX_SIZE; size *= 2) {
        double ns = method_ns(call, size);
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

/* Writes the plan, which is a struct tensor_method. */
static int cpu_plan(const struct tensor_call *call, void *plan, size_t *bytes, struct reason *why)
{
    (void)why;
    *(struct tensor_method *)plan = method_choose(call);
    *bytes = 0;
    return HC_OK;
}

/* Returns the number of threads for a call: as many as repay their start, 20 us each, and their scratch memory. */
static int tensor_threads(const struct tensor_call *call, const struct tensor_method *method)
{
    const double min_ns = 200e3;
    bool sums = call->op == HC_GRADIENT_H;
    size_t floats = (sums ? tensor_gradient_scratch : tensor_filter_scratch)(call, method->size);
    double bytes = call->limit > MIN_SCRATCH ? (double)call->limit : MIN_SCRATCH;
    double by_scratch = bytes / ((double)floats * sizeof(float));
    double max = call->n_threads > 0 ? call->n_threads : processors_usable();
    if (max > method->ns / min_ns) max = method->ns / min_ns;
    if (max > by_scratch) max = by_scratch;
    return max > 1 ? (int)max : 1;
}

static int cpu_run(const struct tensor_call *call, const void *plan, const struct tensor_data *data, struct reason *why)
{
    const struct tensor_method method = *(const struct tensor_method *)plan;
    struct tensor_work work = {.call = call, .data = data, .simd = simd_choose()};
    work.pool = thread_pool_open(tensor_threads(call, &method));
    if (method.size > 0) work.fft = tables_of(method.size);
    unsigned denormals = denormals_off();
    bool ok = work.pool && (method.size == 0 || work.fft);
    if (ok) ok = call->op == HC_GRADIENT_H ? tensor_gradient_run(&work) : tensor_filter_run(&work);
    denormals_restore(denormals);
    thread_pool_close(work.pool);
    return ok ? HC_OK : fail(HC_ENOMEM, why, "cpu: no memory to convolve with; lower n_threads or n_taps");
}

const struct tensor_backend tensors_cpu = {sizeof(struct tensor_method), cpu_plan, cpu_run};
