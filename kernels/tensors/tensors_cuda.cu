/* tensors_cuda - hc_tensor_plan on a GPU (dsp/device/tensor_backend.h): chooses the size of the transforms, cuts the
 * workspace, launches the kernels.
 *
 *   workspace, convolve and gradient x   [spectra of a chunk of filters], or nothing for few short windows
 *   workspace, gradient h                [stash] [partial sums] [sums of a chunk of a bank]
 *   workspace, both gradients            [partial sums] [sums of a chunk of a bank] [spectra of a chunk of filters]
 *
 * If the workspace is too small for all filters, they are processed in chunks, one after the other. Filters too long
 * for one kernel have a separate plan and workspace (long_plan.h, long_rows.cu).
 */
#include "dsp/device/tensor_backend.h"

#include "fused_kernels.h"
#include "kernels/backend/cuda_error.h"
#include "long_rows.h"
#include "plan_sizes.h"

#include <limits.h>
#include <math.h>
#include <mutex>
#include <string.h>

enum { MAX_DEVICES = 64, MAX_GROUPS = 65535, MAX_WINDOWS = INT_MAX }; /* max. groups and windows of a launch */

/* Tests of long_rows lower this, for short filters. */
#ifndef FUSED_UP_TO
#define FUSED_UP_TO FUSED_MAX
#endif

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
        if (status == cudaSuccess && before == device) before = -1;
        else if (status == cudaSuccess) status = cudaSetDevice(device);
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

struct tensor_plan {
    const struct fused_device *device;
    int log2_n;
    bool is_single;          /* one window computes a row, and its wrapped part is 0 or not needed                   */
    int64_t hop, n_windows;
    int n_groups;            /* filters of a chunk                                                                   */
    bool is_one_launch;      /* each window's kernel transforms its filter, too: no workspace                        */
    bool by_bank;            /* with an index: a spectrum for each filter of the bank, not for each that rows use    */
    int n_slices;            /* slices of the gradient of h                                                          */
    int64_t n_bank;          /* filters of a chunk of the bank                                                       */
    size_t stash, partial;   /* bytes of the workspace's stash and partial sums                                      */
    size_t sums;             /* bytes of the sums of a chunk, if groups of several launches add up to 16 bits        */
    size_t bytes;            /* bytes of the workspace                                                               */
    double cycles;           /* estimated                                                                            */
    bool is_long;            /* `longer` is the plan, and `bytes` its workspace; the other fields are unused         */
    struct long_plan longer;
};

/* The time of windows in cycles, as measured on an H200: rounds of teams that run alone or, if all multiprocessors are
 * full, 1.05 cycles of a multiprocessor for a point (points cross shared memory twice) or 1.6 (four times). */
static double cycles(const struct fused_device *device, int log2_n, int teams, double windows)
{
    const double n = (double)(1 << log2_n), a_point = log2_n <= 10 ? 1.05 : 1.6;
    const double full = windows * n * a_point / device->n_sm, alone = ceil(windows / teams) * team_cycles(log2_n);
    return full > alone ? full : alone;
}

static int teams_of_op(int op, const struct fused_device *device, int log2_n)
{
    return op == HC_GRADIENTS    ? fused_gradients_teams(device, log2_n)
           : op == HC_GRADIENT_H ? fused_gradient_h_teams(device, log2_n)
                                 : fused_teams(device, log2_n);
}

/* The cycles of the windows of both gradients relative to those of one: three transforms of a window instead of two. */
static const double gradients_factor = 1.5;

/* For HC_GRADIENTS, log2_n is 0 and is_long false if no plan computes both. */
static int tensor_plan_make(const struct tensor_call *c, const struct fused_device *device, struct tensor_plan *plan,
                            struct reason *why)
{
    const int64_t filters = c->h.batch * c->h.channels, rows = rows_of_filter(c);
    double best = 0;
    memset(plan, 0, sizeof *plan);
    plan->n_bank = c->bank.batch;
    if (c->has_index && c->bank.batch > INT_MAX)
        return fail(HC_EUNSUPPORTED, why, "cuda: a bank of %lld filters is too large; use at most %d",
                    (long long)c->bank.batch, INT_MAX);
    if (filters > INT_MAX || rows > INT_MAX)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: %lld filters of %lld rows each are too many; split the batch, so that both are at most %d",
                    (long long)filters, (long long)rows, INT_MAX);
    for (int log2_n = FUSED_MIN; log2_n <= FUSED_UP_TO; log2_n++) {
        const int teams = teams_of_op(c->op, device, log2_n);
        const int64_t points = (int64_t)2 << log2_n;
        const int64_t frames = c->op == HC_CONVOLVE ? c->y.frames : c->x.frames;
        const bool is_single = holds_row(c, points);
        if (!teams || (!is_single && c->h.frames > points)) continue;
        const int64_t hop = is_single ? points : points - c->h.frames + 1;
        const int64_t windows = is_single && !c->x.packed ? 1 : windows_in(c, frames, hop);
        const double all = windows_in_all(c, windows);
        if ((c->x.packed ? all : (double)windows * (double)rows) > MAX_WINDOWS) continue;
        const double time = cycles(device, log2_n, teams, all) * (c->op == HC_GRADIENTS ? gradients_factor : 1);
        if (plan->log2_n && time >= best) continue;
        best = time;
        plan->log2_n = log2_n;
        plan->is_single = is_single;
        plan->hop = hop;
        plan->n_windows = windows;
    }
    plan->cycles = best;
    if (long_plan_make(c, device, &plan->longer) && (!plan->log2_n || plan->longer.cycles < best)) {
        plan->is_long = true;
        plan->bytes = plan->longer.bytes;
        plan->cycles = plan->longer.cycles;
        return HC_OK;
    }
    if (c->op == HC_GRADIENTS && !plan->log2_n) return HC_OK;
    if (!plan->log2_n && c->op == HC_GRADIENT_H && c->has_index && c->h.type != HC_FLOAT32)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: the gradient of a bank of %lld taps in 16 bits needs too much memory; use float32 for h",
                    (long long)c->h.frames);
    if (!plan->log2_n && c->op != HC_GRADIENT_H && type_of_output(c) != HC_FLOAT32)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: filters of %lld taps are too long for an output of 16 bits; use float32 for %s, or the CPU",
                    (long long)c->h.frames, c->op == HC_CONVOLVE ? "y" : "gx");
    if (!plan->log2_n)
        return fail(HC_EUNSUPPORTED, why,
                    "cuda: filters of %lld taps do not fit this device's shared memory; use "
                    "the CPU",
                    (long long)c->h.frames);
    const size_t spectrum = sizeof(float2) << plan->log2_n;
    int64_t groups = min_of(filters, MAX_GROUPS);
    if (!c->x.packed) groups = min_of(groups, MAX_WINDOWS / (rows * plan->n_windows));
    if (c->op >= HC_GRADIENT_H) {
        const size_t for_bank = c->limit / (c->h.type == HC_FLOAT32 ? 2 : 4); /* 16 bits have sums, too */
        plan->by_bank =
            c->op == HC_GRADIENTS && c->has_index && c->bank.batch <= min_of(filters, (int64_t)(for_bank / spectrum));
        const int teams = teams_of_op(c->op, device, plan->log2_n);
        const int64_t tasks = c->x.packed ? plan->n_windows * c->x.channels : rows * plan->n_windows; /* max. */
        int64_t slices = min_of(tasks, max_of(1, teams / groups)); /* slices that all run at once */
        slices = ceil_div(tasks, ceil_div(tasks, slices));      /* fewer slices, if not slower */
        const size_t partial = (size_t)c->h.frames * sizeof(float), limit = c->has_index ? bank_limit(c) : c->limit;
        for (;;) {
            plan->n_slices = (int)slices;
            plan->n_groups = (int)groups;
            if (c->op == HC_GRADIENT_H) plan->stash = aligned(fused_gradient_h_stash(plan->log2_n, groups * slices));
            plan->partial = slices > 1 || c->has_index ? aligned(partial * (size_t)(slices * groups)) : 0;
            if (c->has_index && c->h.type != HC_FLOAT32 && groups < filters) {
                plan->n_bank = min_of(c->bank.batch, max_of(1, (int64_t)(limit / 2 / partial)));
                plan->sums = aligned((size_t)plan->n_bank * partial);
            }
            plan->bytes = plan->stash + plan->partial + plan->sums;
            if (c->op == HC_GRADIENTS) plan->bytes += (size_t)(plan->by_bank ? c->bank.batch : groups) * spectrum;
            if (plan->bytes <= limit || (slices == 1 && groups == 1)) break;
            if (slices > 1) slices /= 2;
            else groups = (groups + 1) / 2;
        }
        /* Each chunk of the bank would compute gx again. */
        if (c->op == HC_GRADIENTS && (plan->n_bank < c->bank.batch || plan->bytes > limit)) plan->log2_n = 0;
        if (c->op == HC_GRADIENTS) { /* chunks of few groups do not fill the device */
            const int64_t rounds =
                ceil_div(filters, groups) * ceil_div(groups * slices, teams) * ceil_div(tasks, slices);
            const double alone = (double)rounds * team_cycles(plan->log2_n) * gradients_factor;
            if (alone > plan->cycles) plan->cycles = alone;
        }
    } else if (!c->has_index && !c->x.packed && c->x.type == HC_FLOAT32 && c->y.type == HC_FLOAT32 &&
               plan->log2_n == FUSED_MIN && filters * rows * plan->n_windows <= fused_one_launch_windows(device)) {
        plan->is_one_launch = true;
        plan->n_groups = (int)groups;
    } else {
        plan->by_bank = c->has_index && c->bank.batch <= min_of(filters, (int64_t)(c->limit / spectrum));
        if (!plan->by_bank) groups = min_of(groups, (int64_t)(c->limit / spectrum));
        plan->n_groups = groups < 1 ? 1 : (int)groups;
        plan->bytes = aligned((size_t)(plan->by_bank ? c->bank.batch : plan->n_groups) * spectrum);
    }
    return HC_OK;
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
    const bool has_steps = both.is_long && !both.longer.has_two_rows;
    const double margin = has_steps && plans->first.is_long && plans->first.longer.has_two_rows ? long_steps_factor : 1;
    plans->is_pair =
        (!both.log2_n && !both.is_long) || both.cycles * margin > plans->first.cycles + plans->gradient_h.cycles;
    if (!plans->is_pair) plans->first = both;
    return HC_OK;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Computes the spectra of the filters of `groups`, or once those of a whole bank. */
static int spectra_run(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                       struct fused_spectra *filters, struct reason *why)
{
    const bool is_first = filters->groups.first == 0;
    if (plan->by_bank) filters->groups = groups_of_bank(c);
    if (!plan->by_bank || is_first)
        TRY(fused_spectra_launch(plan->log2_n, filters, (cudaStream_t)d->stream), "the spectra of filters");
    return HC_OK;
}

/* Is the second half of the points of each window 0 or not needed? */
static bool call_is_real(const struct tensor_call *c, const struct tensor_plan *plan)
{
    const int64_t n = (int64_t)1 << plan->log2_n;
    return plan->is_single && c->from + c->y.frames <= n && c->x.frames <= n &&
           (c->op < HC_GRADIENT_H || c->h.frames <= n);
}

static int run_convolve(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                        struct fused_groups groups, struct reason *why)
{
    cudaStream_t stream = (cudaStream_t)d->stream;
    const int n = 1 << plan->log2_n;
    const bool is_gradient = c->op == HC_GRADIENT_X;
    float2 *spectra = (float2 *)d->workspace;
    struct fused_spectra filters = {groups, rows_of(&c->bank), d->b, c->lengths, is_gradient, spectra};
    if (!plan->is_one_launch) PASS(spectra_run(c, d, plan, &filters, why));
    struct fused_convolve p = {};
    p.groups = groups;
    p.in = rows_of(is_gradient ? &c->y : &c->x);
    p.out = rows_of(is_gradient ? &c->x : &c->y);
    p.x = d->a;
    p.y = d->out;
    p.spectra = spectra;
    p.by_bank = plan->by_bank;
    p.n_windows = plan->n_windows;
    p.hop = plan->hop;
    if (is_gradient) {
        p.in_first = -c->from;
        p.out_end = (int)plan->hop;
    } else {
        p.out_first = (int)(plan->is_single ? c->from : 2 * n - plan->hop); /* is at least taps - 1 */
        p.in_first = plan->is_single ? 0 : c->from - p.out_first;
        p.out_end = 2 * n;
    }
    if (call_is_real(c, plan)) p.out_end = n;
    if (plan->is_one_launch) {
        TRY(fused_one_launch(&p, &filters, stream), "a convolution of tensors");
        return HC_OK;
    }
    TRY(fused_convolve_launch(plan->device, plan->log2_n, call_is_real(c, plan), &p, stream),
        "a convolution of tensors");
    return HC_OK;
}

/* HC_GRADIENT_H or HC_GRADIENTS. */
static int run_gradient_h(const struct tensor_call *c, const hc_tensor_data *d, const struct tensor_plan *plan,
                          struct fused_groups groups, struct reason *why)
{
    const bool is_both = c->op == HC_GRADIENTS;
    struct fused_gradient_h p = {};
    p.groups = groups;
    p.x = rows_of(&c->x);
    p.gy = rows_of(&c->y);
    p.out = rows_of(is_both ? &c->gh : &c->bank);
    p.gy_data = d->a;
    p.x_data = d->b;
    p.n_windows = plan->n_windows;
    p.hop = plan->hop;
    p.gy_first = -c->from;
    p.n_slices = plan->n_slices;
    p.lengths = c->lengths;
    p.gh = is_both ? d->out_h : d->out;
    p.stash = (float2 *)d->workspace;
    p.partial = (float *)((char *)d->workspace + plan->stash);
    if (c->has_index)
        bank_output_set(c, p.out, p.gh, plan->sums ? (float *)((char *)p.partial + plan->partial) : NULL, &p);
    if (is_both) {
        float2 *spectra = (float2 *)((char *)d->workspace + plan->partial + plan->sums);
        struct fused_spectra filters = {groups, rows_of(&c->bank), d->c, c->lengths, true, spectra};
        PASS(spectra_run(c, d, plan, &filters, why));
        p.gx = rows_of(&c->gx);
        p.gx_data = d->out;
        p.spectra = spectra;
        p.by_bank = plan->by_bank;
    }
    TRY(fused_gradient_h_launch(plan->log2_n, call_is_real(c, plan), &p, (cudaStream_t)d->stream),
        "a gradient of filters");
    return HC_OK;
}

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
    plans->first.device = plans->gradient_h.device = device;
    plans->bytes = plans->first.bytes;
    if (plans->is_pair && plans->gradient_h.bytes > plans->bytes) plans->bytes = plans->gradient_h.bytes;
    *bytes = plans->bytes;
    return HC_OK;
}

static int plan_run(const struct tensor_call *c, const struct tensor_plan *plan, const hc_tensor_data *d,
                    struct reason *why)
{
    if (plan->is_long) return long_run(c, d, plan->device, &plan->longer, why);
    return with_chunks(c, d, plan->n_bank, plan->n_groups, [&](const struct fused_groups &groups) {
        return c->op >= HC_GRADIENT_H ? run_gradient_h(c, d, plan, groups, why) : run_convolve(c, d, plan, groups, why);
    });
}

static int cuda_tensors_run(const struct tensor_call *c, const void *of, const hc_tensor_data *d, struct reason *why)
{
    const struct tensor_plans *plans = (const struct tensor_plans *)of;
    device_scope scope(c->device);
    TRY(scope.status, "cudaSetDevice(%d)", c->device);
    if (c->x.batch == 0 || c->x.channels == 0) return zero_filters(c, d, why);
    PASS(workspace_check(d, plans->bytes, why));
    if (!plans->is_pair) return plan_run(c, &plans->first, d, why);
    for (int op = HC_GRADIENT_X; op <= HC_GRADIENT_H; op++) {
        const struct tensor_call part = tensor_part(c, op);
        const hc_tensor_data data = tensor_part_data(d, op);
        PASS(plan_run(&part, op == HC_GRADIENT_X ? &plans->first : &plans->gradient_h, &data, why));
    }
    return HC_OK;
}

const struct tensor_backend tensors_cuda = {sizeof(struct tensor_plans), cuda_tensors_plan, cuda_tensors_run};
