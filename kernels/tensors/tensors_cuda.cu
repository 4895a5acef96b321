/* tensors_cuda - hc_tensor_plan on a GPU (dsp/device/tensor_backend.h): chooses the way (tensor_plan.h) and the size of
 * the windows, and runs the plan. If the workspace is too small for all filters, they are processed in chunks, one
 * after the other.
 */
#include "kernels/backend/cuda_error.h"
#include "tensor_plan.h"

#include <limits.h>
#include <math.h>
#include <mutex>
#include <string.h>

enum { MAX_DEVICES = 64 };

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static std::mutex devices_lock;
static struct known_device {
    bool is_loaded;
    struct fused_device properties;
} devices[MAX_DEVICES];

/* Makes `device` the current one until the end of the scope. */
struct device_scope {
    int before;
    cudaError_t status;
    explicit device_scope(int device) : before(-1), status(cudaGetDevice(&before))
    {
        if (status == cudaSuccess && before == device)
            before = -1;
        else if (status == cudaSuccess)
            status = cudaSetDevice(device);
    }
    ~device_scope()
    {
        if (before >= 0) cudaSetDevice(before);
    }
};

/* Finds the properties of `device`, which is the current device; loads the kernels at its first call. */
static int device_properties(int device, const struct fused_device **properties, struct reason *why)
{
    if (device < 0 || device >= MAX_DEVICES)
        return fail(HC_EDEVICE, why, "cuda:%d: the number of the device is too large; use one below %d", device,
                    MAX_DEVICES);
    std::lock_guard<std::mutex> guard(devices_lock);
    struct known_device *known = &devices[device];
    if (!known->is_loaded) {
        TRY(fused_load(device, &known->properties), "loading the kernels of tensors");
        TRY(long_load(&known->properties), "loading the kernels of tensors");
        known->is_loaded = true;
    }
    *properties = &known->properties;
    return HC_OK;
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static const struct tensor_way *const ways[] = {&steps_way, &two_rows_way, &fused_way};

/* Steps take longer for both gradients than estimated, windows of two rows do not. */
static const double steps_factor = 1.3;

/* The cycles of a plan that is compared with another of the same call. */
static double cycles_beside(const struct tensor_call *c, const struct tensor_plan *plan,
                            const struct tensor_plan *other)
{
    const bool is_late = c->op == HC_GRADIENTS && plan->way == &steps_way && other->way != &fused_way;
    return plan->cycles * (is_late ? steps_factor : 1);
}

/* Finds the fastest plan; best->way is NULL if no way computes the call on this device. */
static void way_choose(const struct tensor_call *c, const struct fused_device *device, struct tensor_plan *best)
{
    *best = tensor_plan{};
    for (const struct tensor_way *way : ways)
        for (int log2_n = way->log2_min; log2_n <= way->log2_max; log2_n++) {
            struct tensor_plan plan = {};
            plan.way = way;
            plan.device = device;
            plan.log2_n = log2_n;
            plan.n_bank = c->bank.batch;
            if (!way->fits(c, &plan) || !way->memory(c, &plan)) continue;
            plan.cycles = way->cycles(c, &plan);
            if (!best->way || cycles_beside(c, &plan, best) < cycles_beside(c, best, &plan)) *best = plan;
        }
}

/* Says why no way computes a call. */
static int plan_refuse(const struct tensor_call *c, struct reason *why)
{
    if (c->op == HC_GRADIENT_H && c->has_index && c->h.type != HC_FLOAT32)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: the gradient of a bank of %lld taps in 16 bits needs too much memory; use float32 for h",
                    (long long)c->h.frames);
    if (c->op != HC_GRADIENT_H && type_of_output(c) != HC_FLOAT32)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: filters of %lld taps are too long for an output of 16 bits; use float32 for %s, or the CPU",
                    (long long)c->h.frames, c->op == HC_CONVOLVE ? "y" : "gx");
    return fail(HC_EUNSUPPORTED, why, "cuda: filters of %lld taps do not fit this device's shared memory; use the CPU",
                (long long)c->h.frames);
}

/* For HC_GRADIENTS, plan->way is NULL if no plan computes both. */
static int tensor_plan_make(const struct tensor_call *c, const struct fused_device *device, struct tensor_plan *plan,
                            struct reason *why)
{
    const int64_t filters = c->h.batch * c->h.channels, rows = rows_of_filter(c);
    if (c->has_index && c->bank.batch > INT_MAX)
        return fail(HC_EUNSUPPORTED, why, "cuda: a bank of %lld filters is too large; use at most %d",
                    (long long)c->bank.batch, INT_MAX);
    if (filters > INT_MAX || rows > INT_MAX)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: %lld filters of %lld rows each are too many; split the batch, so that both are at most %d",
                    (long long)filters, (long long)rows, INT_MAX);
    way_choose(c, device, plan);
    return plan->way || c->op == HC_GRADIENTS ? HC_OK : plan_refuse(c, why);
}

/* A plan of HC_GRADIENTS is one plan for both, or a plan for each, which run one after the other: always so for packed
 * sequences. */
struct tensor_plans {
    struct tensor_plan first, gradient_h;
    bool is_pair;
    size_t bytes; /* of the workspace */
};

static int tensor_plans_make(const struct tensor_call *c, const struct fused_device *device, struct tensor_plans *plans,
                             struct reason *why)
{
    struct tensor_plan both;
    const struct tensor_call x = tensor_part(c, HC_GRADIENT_X), h = tensor_part(c, HC_GRADIENT_H);
    PASS(tensor_plan_make(&x, device, &plans->first, why));
    PASS(tensor_plan_make(&h, device, &plans->gradient_h, why));
    plans->is_pair = true;
    if (c->x.packed) return HC_OK;
    PASS(tensor_plan_make(c, device, &both, why));
    const bool is_late = both.way == &steps_way && plans->first.way == &two_rows_way;
    const double cycles = fmax(both.cycles * (is_late ? steps_factor : 1), both.in_chunks);
    plans->is_pair = !both.way || cycles > plans->first.cycles + plans->gradient_h.cycles;
    if (!plans->is_pair) plans->first = both;
    return HC_OK;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

/* Writes zeros: the gradient of filters that no row uses. They are a bank, or shared by all items or all channels. */
static int zero_filters(const struct tensor_call *c, const hc_tensor_data *d, struct reason *why)
{
    const struct tensor_rows *h = &c->bank;
    const size_t n = (size_t)(h->batch * h->channels), bytes = (size_t)(h->frames * tensor_element(h));
    const size_t pitch = n > 1 ? (size_t)(h->stride[h->batch > 1 ? 0 : 1] * tensor_element(h)) : bytes;
    TRY(pitch == bytes ? cudaMemsetAsync(d->out, 0, n * bytes, (cudaStream_t)d->stream)
                       : cudaMemset2DAsync(d->out, pitch, 0, bytes, n, (cudaStream_t)d->stream),
        "clearing a gradient");
    return HC_OK;
}

static int workspace_check(const hc_tensor_data *d, size_t needed, struct reason *why)
{
    if (d->bytes < needed)
        return fail(HC_EINVAL, why,
                    "the workspace has %zu bytes, but needs %zu; pass as many as hc_tensor_plan_open returns", d->bytes,
                    needed);
    if (needed > 0 && (!d->workspace || (uintptr_t)d->workspace % ALIGNMENT))
        return fail(HC_EINVAL, why, "the workspace is at %p; pass memory that is aligned to %d bytes", d->workspace,
                    ALIGNMENT);
    return HC_OK;
}

static int cuda_tensors_plan(const struct tensor_call *c, void *to, size_t *bytes, struct reason *why)
{
    device_scope scope(c->device);
    TRY(scope.status, "cudaSetDevice(%d)", c->device);
    const struct fused_device *device = NULL;
    struct tensor_plans *plans = (struct tensor_plans *)to;
    PASS(device_properties(c->device, &device, why));
    if (c->op == HC_GRADIENTS)
        PASS(tensor_plans_make(c, device, plans, why));
    else
        PASS(tensor_plan_make(c, device, &plans->first, why));
    plans->bytes = plans->first.bytes;
    if (plans->is_pair && plans->gradient_h.bytes > plans->bytes) plans->bytes = plans->gradient_h.bytes;
    *bytes = plans->bytes;
    return HC_OK;
}

static int tensor_plan_run(const struct tensor_call *c, const struct tensor_plan *plan, const hc_tensor_data *d,
                           struct reason *why)
{
    if (plan->n_partial > 0) return long_bank_run(c, d, plan, why);
    return with_chunks(c, d, plan->n_bank, plan->n_groups,
                       [&](const struct fused_groups &groups) { return plan->way->run(c, d, plan, &groups, why); });
}

static int cuda_tensors_run(const struct tensor_call *c, const void *of, const hc_tensor_data *d, struct reason *why)
{
    const struct tensor_plans *plans = (const struct tensor_plans *)of;
    device_scope scope(c->device);
    TRY(scope.status, "cudaSetDevice(%d)", c->device);
    if (c->x.batch == 0 || c->x.channels == 0) return zero_filters(c, d, why);
    PASS(workspace_check(d, plans->bytes, why));
    if (!plans->is_pair) return tensor_plan_run(c, &plans->first, d, why);
    for (int op = HC_GRADIENT_X; op <= HC_GRADIENT_H; op++) {
        const struct tensor_call part = tensor_part(c, op);
        const hc_tensor_data data = tensor_part_data(d, op);
        PASS(tensor_plan_run(&part, op == HC_GRADIENT_X ? &plans->first : &plans->gradient_h, &data, why));
    }
    return HC_OK;
}

const struct tensor_backend tensors_cuda = {sizeof(struct tensor_plans), cuda_tensors_plan, cuda_tensors_run};
