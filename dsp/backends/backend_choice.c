#include "backend_choice.h"

#include "backends.h"
#include "costs.h"
#include "dsp/base/processors.h"
#include "dsp/cpu/cpu_costs.h"
#include "dsp/device/resident_split.h"
#include "gpu_rules.h"
#include "hybrid.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan_shape config_shape(const hc_config *c)
{
    return (struct plan_shape){c->max_taps, c->block, c->n_in, c->n_out, c->n_routes};
}

/* Returns the backend that plays this config: for a file `backend->files`, if set, else `backend` itself. */
static const struct backend *backend_for(const hc_config *c, const struct backend *backend)
{
    return c->block == 0 && backend->files ? backend->files : backend;
}

const struct backend *backend_cpu_for(const hc_config *c)
{
    return backend_for(c, backend_find("cpu"));
}

/* ---- the rules of "auto": gpu_rules.h ---------------------------------------------------------------------------- */

static double best_plan_ns(const struct auto_task *task, const struct plan_costs *costs)
{
    struct plan plan;
    plan_choose(&plan, costs, &task->shape, task->method);
    return plan_cost_ns(&plan, costs, &task->shape);
}

/* Returns true if the moving sources and masks of an engine keep the CPU busy enough to choose the GPU. */
static bool moving_needs_gpu(const struct auto_task *task, const struct plan_costs *cpu)
{
    return (best_plan_ns(task, cpu) + task->sources_ns) * task->rate >= MIN_MOVING_NS;
}

bool auto_probes_gpu(const struct auto_task *task, const struct plan_costs *cpu)
{
    if (task->sources_ns > 0) return moving_needs_gpu(task, cpu);
    double ns = best_plan_ns(task, cpu) / task->n_processors;
    return task->n_frames > 0 ? ns * (double)task->n_frames >= MIN_FILE_NS : ns * task->rate >= MIN_LIVE_NS;
}

bool auto_prefers_gpu(const struct auto_task *task, const struct plan_costs *cpu, const struct plan_costs *gpu,
                      bool measured)
{
    if (task->sources_ns > 0) return moving_needs_gpu(task, cpu);
    double cpu_ns = best_plan_ns(task, cpu) / task->n_processors, gpu_ns = best_plan_ns(task, gpu);
    if (task->n_frames > 0) return gpu_ns * (double)task->n_frames + GPU_START_NS < cpu_ns * (double)task->n_frames;
    return gpu_ns < cpu_ns && (measured || cpu_ns * task->rate > MIN_UNMEASURED_NS);
}

static double sources_ns(const hc_config *c)
{
    struct scene_plan plan;
    if (c->n_sources == 0) return 0;
    scene_plan_make(&plan, c->rate, c->block, c->steer_fade, c->bank_taps);
    return scene_cpu_ns(&plan, c->n_sources, c->n_out);
}

/* Returns the ns of a live block's launches without tail levels, which run behind the output. */
static double launched_ns(const struct plan_costs *costs, const hc_config *c)
{
    const struct plan_shape shape = config_shape(c);
    struct plan plan;
    plan_choose(&plan, costs, &shape, c->method);
    plan.n_tail_levels = 0;
    return plan_cost_ns(&plan, costs, &shape) * c->block;
}

/* Returns the ns of a live block's head by the resident kernel. */
static double resident_ns(const hc_config *c)
{
    const int head_taps = 2 * hybrid_tail_block(&backend_resident, c->rate, c->block);
    struct plan_shape head = config_shape(c);
    if (head.max_taps > head_taps) head.max_taps = head_taps;
    return 1e3 * resident_us(&head);
}

static bool auto_chooses_gpu(const hc_config *c)
{
    struct auto_task task = {config_shape(c), c->method, c->rate, c->n_frames, 1, sources_ns(c)};
    struct plan_costs cpu, gpu;
    const struct backend *device;
    char text[128];
    if (c->block == 0) task.n_processors = c->n_threads > 0 ? c->n_threads : processors_usable();
    bool measured = costs_find(backend_cpu_for(c), 0, &cpu);
    if (!auto_probes_gpu(&task, &cpu)) return false;
    device = backend_gpu_likely();
    if (!device || (c->n_sources > 0 && !device->scene)) return false;
    if (device->describe(0, text, sizeof text) != HC_OK) return false;
    measured = costs_find(device, 0, &gpu) && measured;
    if (backend_resident_or(device, c) == &backend_resident) gpu.call_ns += resident_ns(c) - launched_ns(&gpu, c);
    return auto_prefers_gpu(&task, &cpu, &gpu, measured);
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

/* Splits "cuda:1" into kind "cuda" and device 1, and returns the device. "cuda" means device 0. -1: no number follows
 * the colon. */
static int device_of(const char *name, char *kind, size_t cap)
{
    const char *colon = strchr(name, ':');
    char *end;
    snprintf(kind, cap, "%.*s", (int)strcspn(name, ":"), name);
    if (!colon) return 0;
    if (colon[1] < '0' || colon[1] > '9') return -1;
    long device = strtol(colon + 1, &end, 10);
    return *end == '\0' && device <= INT_MAX ? (int)device : -1;
}

/* The way in which backend "cuda" plays live blocks, as the end of its name says it. */
enum cuda_way { WAY_CHOSEN, WAY_LAUNCHED, WAY_RESIDENT };

/* Copies a name without ":launched" or ":resident" at its end. */
static enum cuda_way way_of(const char *name, char *rest, size_t cap)
{
    static const char *const ends[] = {"", ":launched", ":resident"};
    for (int way = WAY_RESIDENT; way > WAY_CHOSEN; way--) {
        const size_t n = strlen(name), n_end = strlen(ends[way]);
        if (strncmp(name, "cuda", 4) != 0 || n < n_end || strcmp(name + n - n_end, ends[way]) != 0) continue;
        snprintf(rest, cap, "%.*s", (int)(n - n_end), name);
        return way;
    }
    snprintf(rest, cap, "%s", name);
    return WAY_CHOSEN;
}

const struct backend *backend_resident_or(const struct backend *backend, const hc_config *c)
{
    char rest[64];
    const enum cuda_way way = way_of(c->backend, rest, sizeof rest);
    if (!backend->resident || c->block == 0 || c->n_sources > 0 || way == WAY_LAUNCHED) return backend;
    struct plan_costs costs;
    costs_find(backend, -1, &costs);
    const double max_ns = way == WAY_RESIDENT ? INFINITY : fmax(1e3 * MAX_RESIDENT_US, launched_ns(&costs, c));
    return resident_ns(c) < max_ns ? &backend_resident : backend;
}

/* Returns true if a device number may follow the name. */
static bool has_devices(const struct backend *backend)
{
    if (backend->tail) return !backend->choice;
    return !backend->in_place;
}

int backend_choose(const hc_config *c, const struct backend **backend, int *device, struct reason *why)
{
    char kind[16], name[64], missing[512] = "";
    *device = 0;
    *backend = backend_cpu_for(c);
    if (strcmp(c->backend, "auto") == 0) {
        if (auto_chooses_gpu(c)) *backend = backend_for(c, backend_find("cuda"));
        return HC_OK;
    }
    way_of(c->backend, name, sizeof name);
    int number = device_of(name, kind, sizeof kind);
    bool has_number = number >= 0 && strchr(name, ':');
    bool is_hybrid = number >= 0 && strcmp(kind, "hybrid") == 0 && c->block > 0;
    if (((number >= 0 && strcmp(kind, "cuda") == 0) || is_hybrid) && !backend_gpu(REASON(missing, sizeof missing)))
        return fail(HC_EUNSUPPORTED, why, "backend %s: %s", c->backend, missing);
    const struct backend *asked = backend_find(name);
    if (!asked && has_number) asked = backend_find(kind);
    if (asked && has_number && !has_devices(asked)) asked = NULL;
    if (asked && asked->tail && c->block == 0)
        return fail(HC_EINVAL, why, "backend %s convolves live blocks only; use cuda for files", c->backend);
    if (asked) {
        if (has_number) *device = number;
        *backend = backend_for(c, asked);
        return HC_OK;
    }
    return fail(HC_EINVAL, why, "backend \"%s\" is unknown; use auto, cpu, cuda or hybrid, or cuda:N or hybrid:N",
                c->backend);
}

const struct backend *backend_head(const struct backend *backend)
{
    return backend->head ? backend_find(backend->head) : backend;
}

int backend_head_device(const struct backend *backend, int device)
{
    return backend_head(backend) == &backend_cpu ? 0 : device;
}

void backend_device_name(const struct backend *backend, int device, bool has_tail, char *name, size_t cap)
{
    const struct backend *head = backend_head(backend), *tail = backend->tail ? backend_find(backend->tail) : NULL;
    char text[HC_DEVICE_CAP], tail_text[96];
    if (head->describe(head == backend ? device : 0, text, sizeof text) != HC_OK) text[0] = '\0';
    if (backend == &backend_resident && head->describe(device, text, sizeof text) == HC_OK)
        snprintf(name, cap, "cuda:%d %s", device, text);
    else if (!tail && head->in_place)
        snprintf(name, cap, "%s %s", head->name, text);
    else if (!tail)
        snprintf(name, cap, "%s:%d %s", head->name, device, text);
    else if (tail->in_place)
        snprintf(name, cap, "%s %s; %s", backend->name, text, has_tail ? "tail on a thread" : "no tail");
    else if (!has_tail)
        snprintf(name, cap, "%s %s; no tail for %s:%d", backend->name, text, tail->name, device);
    else if (tail->describe(device, tail_text, sizeof tail_text) == HC_OK)
        snprintf(name, cap, "%s %.32s; tail on %s:%d %.64s", backend->name, text, tail->name, device, tail_text);
}

int hc_list_devices(int i, char *text, size_t cap)
{
    char description[128], refusal[128];
    const struct backend *backend;
    if (i < 0 || !text) return HC_EINVAL;
    backend_gpu(NULL);
    for (int at = 0; (backend = backend_at(at)); at++) {
        if (backend->head || backend_find(backend->name) != backend) continue;
        for (int device = 0; backend->describe(device, description, sizeof description) == HC_OK; device++) {
            if (i-- > 0) continue;
            const struct backend *resident = backend->resident;
            if (!resident || resident->describe(device, refusal, sizeof refusal) == HC_OK) *refusal = '\0';
            if (backend->in_place)
                snprintf(text, cap, "%s\t%s", backend->name, description);
            else
                snprintf(text, cap, "%s:%d\t%s%s%s", backend->name, device, description, *refusal ? "; launched: " : "",
                         refusal);
            return HC_OK;
        }
    }
    return HC_EINVAL;
}
