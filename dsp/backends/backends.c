#include "backends.h"

#include "costs.h"
#include "dsp/base/processors.h"
#include "dsp/cpu/cpu_costs.h"
#include "dsp/device/resident_split.h"
#include "gpu_module.h"
#include "gpu_rules.h"
#include "hybrid.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---------------------------------------------------------------------------------------------------- */

enum { MAX_BACKENDS = 16 };

static const struct backend *backends[MAX_BACKENDS] = {&backend_cpu, &backend_hybrid, &backend_hybrid_cpu,
                                                       &backend_resident};

static int backends_count(void)
{
    int n = 0;
    while (n < MAX_BACKENDS && backends[n]) n++;
    return n;
}

/* The GPU module's backend follows the last backend of the list. */
const struct backend *backend_at(int i)
{
    int n = backends_count();
    return i < 0 || i > n ? NULL : i < n ? backends[i] : gpu_module_backend();
}

static bool backend_has_name(const struct backend *backend, const char *name)
{
    return strcmp(backend->choice ? backend->choice : backend->name, name) == 0;
}

const struct backend *backend_find(const char *name)
{
    const struct backend *gpu = gpu_module_backend();
    for (int i = backends_count() - 1; i >= 0; i--)
        if (backend_has_name(backends[i], name)) return backends[i];
    if (gpu && gpu->resident && backend_has_name(gpu->resident, name)) return gpu->resident;
    return gpu && backend_has_name(gpu, name) ? gpu : NULL;
}

const struct backend *backend_gpu(struct reason *why)
{
    const struct backend *added = backend_find("cuda");
    return added ? added : gpu_module_load(why) ? gpu_module_backend() : NULL;
}

const struct backend *backend_gpu_likely(void)
{
    return gpu_is_likely() ? backend_gpu(NULL) : backend_find("cuda");
}

void backend_add(const struct backend *backend)
{
    assert(backends_count() < MAX_BACKENDS);
    backends[backends_count()] = backend;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

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
    return backend_for(c, &backend_cpu);
}

/* ---- the rules of "auto": gpu_rules.h ---------------------------------------------------------------------------- */

static double best_plan_ns(const struct auto_task *task, const struct plan_costs *costs)
{
    struct plan plan;
    plan_choose(&plan, costs, &task->shape, task->method);
    return plan_cost_ns(&plan, costs, &task->shape);
}

/* Returns true if the moving sources and masks of an engine keep the CPU busy enough to choose the GPU. */
static bool scene_needs_gpu(const struct auto_task *task, const struct plan_costs *cpu)
{
    return (best_plan_ns(task, cpu) + task->sources_ns) * task->rate >= MIN_MOVING_NS;
}

bool auto_probes_gpu(const struct auto_task *task, const struct plan_costs *cpu)
{
    if (task->sources_ns > 0) return scene_needs_gpu(task, cpu);
    double ns = best_plan_ns(task, cpu) / task->n_processors;
    return task->n_frames > 0 ? ns * (double)task->n_frames >= MIN_FILE_NS : ns * task->rate >= MIN_LIVE_NS;
}

/* Returns the ns of a live block's launches without tail levels, which run behind the output. */
static double launched_ns(const struct plan_costs *gpu, const struct plan_shape *shape, const char *method)
{
    struct plan plan;
    plan_choose(&plan, gpu, shape, method);
    plan.n_tail_levels = 0;
    return plan_cost_ns(&plan, gpu, shape) * shape->block;
}

/* Returns the ns of a live block's head by the resident kernel. */
static double resident_ns(const struct plan_costs *resident, const struct plan_shape *shape, int rate)
{
    struct plan_shape head, tail;
    hybrid_split(&backend_resident, rate, shape, &head, &tail);
    return 1e3 * resident_us(resident, &head);
}

/* Returns the ns of a frame for the audio thread, which waits for wait_ns, or those of the device if it would be busy
 * all the time. */
static double way_ns(double wait_ns, double device_ns, int rate)
{
    return device_ns * rate < 1e9 ? wait_ns : fmax(wait_ns, device_ns);
}

/* Returns the ns of a frame of a tail that the GPU plays in launches; 0: no tail. */
static double tail_ns(const struct auto_task *task, const struct plan_costs *gpu, const struct backend *backend,
                      struct plan_shape *head)
{
    struct auto_task tail = *task;
    return hybrid_split(backend, task->rate, &task->shape, head, &tail.shape) ? best_plan_ns(&tail, gpu) : 0;
}

static double cuda_ns(const struct auto_task *task, const struct auto_costs *costs)
{
    const struct plan_shape *shape = &task->shape;
    struct plan_shape head;
    double launched = launched_ns(costs->gpu, shape, task->method);
    double resident = costs->resident ? resident_ns(costs->resident, shape, task->rate) : INFINITY;
    if (resident < launched)
        return way_ns(resident / shape->block, tail_ns(task, costs->gpu, &backend_resident, &head), task->rate);
    return way_ns(launched / shape->block, best_plan_ns(task, costs->gpu), task->rate);
}

/* Infinite: the response has no tail. */
static double hybrid_ns(const struct auto_task *task, const struct auto_costs *costs)
{
    struct auto_task head = *task;
    double tail = tail_ns(task, costs->gpu, &backend_hybrid, &head.shape);
    return tail > 0 ? way_ns(best_plan_ns(&head, costs->cpu), tail, task->rate) : INFINITY;
}

enum auto_way auto_choose(const struct auto_task *task, const struct auto_costs *costs)
{
    if (task->sources_ns > 0) return scene_needs_gpu(task, costs->cpu) ? AUTO_CUDA : AUTO_CPU;
    double cpu = best_plan_ns(task, costs->cpu) / task->n_processors, frames = (double)task->n_frames;
    if (frames > 0) return best_plan_ns(task, costs->gpu) * frames + GPU_START_NS < cpu * frames ? AUTO_CUDA : AUTO_CPU;
    if (!costs->measured && cpu * task->rate <= MIN_UNMEASURED_NS) return AUTO_CPU;
    bool live = task->shape.block > 0;
    double cuda = live ? cuda_ns(task, costs) : best_plan_ns(task, costs->gpu);
    if (live && gpu_is_hybrid(hybrid_ns(task, costs), fmin(cpu, cuda))) return AUTO_HYBRID;
    return cuda < cpu ? AUTO_CUDA : AUTO_CPU;
}

static double sources_ns(const hc_config *c)
{
    struct scene_plan plan;
    if (c->n_sources == 0) return 0;
    scene_plan_make(&plan, c->rate, c->block, c->steer_fade, c->bank_taps);
    return scene_cpu_ns(&plan, c->n_sources, c->n_out);
}

static enum auto_way auto_way_of(const hc_config *c)
{
    struct auto_task task = {config_shape(c), c->method, c->rate, c->block == 0 ? c->n_frames : 0, 1, sources_ns(c)};
    struct plan_costs cpu, gpu, resident;
    struct auto_costs costs = {&cpu, &gpu, NULL, costs_find(backend_cpu_for(c), 0, &cpu)};
    char text[128];
    if (c->block == 0) task.n_processors = c->n_threads > 0 ? c->n_threads : processors_usable();
    if (!auto_probes_gpu(&task, &cpu)) return AUTO_CPU;
    const struct backend *device = backend_gpu_likely();
    if (!device || (c->n_sources > 0 && !device->scene)) return AUTO_CPU;
    if (device->describe(0, text, sizeof text) != HC_OK) return AUTO_CPU;
    costs.measured = costs_find(device, 0, &gpu) && costs.measured;
    if (c->block > 0 && device->resident && device->resident->describe(0, text, sizeof text) == HC_OK) {
        const bool measured = costs_find(device->resident, 0, &resident);
        if (measured || !costs.measured) costs.resident = &resident; /* else it could not be measured */
    }
    return auto_choose(&task, &costs);
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

/* Does the name ask for this way of backend "cuda"? way: ":launched" or ":resident". */
static bool is_by_name(const char *name, const char *way)
{
    const size_t n = strlen(name), n_way = strlen(way);
    return strncmp(name, "cuda", 4) == 0 && n > n_way && strcmp(name + n - n_way, way) == 0;
}

bool backend_must_be_resident(const hc_config *c)
{
    return c->block > 0 && is_by_name(c->backend, ":resident");
}

const struct backend *backend_resident_or(const struct backend *backend, int device, const hc_config *c)
{
    if (!backend->resident || c->block == 0 || is_by_name(c->backend, ":launched")) return backend;
    if (backend_must_be_resident(c)) return &backend_resident;
    if (c->n_sources > 0) return backend;
    const struct plan_shape shape = config_shape(c);
    struct plan_costs gpu, resident;
    costs_find(backend, device, &gpu);
    costs_find(backend->resident, device, &resident);
    const bool pays_off = resident_ns(&resident, &shape, c->rate) < launched_ns(&gpu, &shape, c->method);
    return pays_off ? &backend_resident : backend;
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
        const enum auto_way chosen = auto_way_of(c);
        if (chosen != AUTO_CPU) *backend = backend_for(c, backend_find(chosen == AUTO_CUDA ? "cuda" : "hybrid"));
        return HC_OK;
    }
    const bool has_way = is_by_name(c->backend, ":launched") || is_by_name(c->backend, ":resident");
    snprintf(name, sizeof name, "%.*s", (int)(strlen(c->backend) - (has_way ? strlen(":launched") : 0)), c->backend);
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
    if (asked && backend_must_be_resident(c) && c->n_sources > 0)
        return fail(HC_EINVAL, why, "backend %s plays no moving sources; use cuda", c->backend);
    if (asked && backend_must_be_resident(c) && !asked->resident)
        return fail(HC_EUNSUPPORTED, why, "backend %s: the GPU module has no resident kernel; use cuda", c->backend);
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
    const struct backend *head = backend->head ? backend_find(backend->head) : NULL;
    return head ? head : backend;
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
