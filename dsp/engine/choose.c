#include "choose.h"

#include "dsp/backends.h"
#include "dsp/costs/costs.h"
#include "dsp/cpu/processors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- is a GPU worth it? --------------------------------------------------------------------------------------------
 */

static const double start_ns = 0.4e9;                   /* of a GPU */
static const double least_ns = 2e9;                     /* of the CPU on a file, for a GPU to be thought of */
static const double idle_ns = 0.02e9, busy_ns = 0.33e9; /* of the CPU in a second of audio */

static double frame_ns(const struct worth *w, const struct plan_costs *costs)
{
    struct plan plan;
    plan_choose(&plan, costs, &w->shape, w->method);
    return plan_cost_ns(&plan, costs, &w->shape);
}

static double cpu_frame_ns(const struct worth *w, const struct plan_costs *cpu)
{
    return frame_ns(w, cpu) / w->n_processors;
}

bool worth_a_look(const struct worth *w, const struct plan_costs *cpu)
{
    double ns = cpu_frame_ns(w, cpu);
    return w->n_frames > 0 ? ns * (double)w->n_frames >= least_ns : ns * w->rate >= idle_ns;
}

bool worth_the_gpu(const struct worth *w, const struct plan_costs *cpu, const struct plan_costs *gpu, bool measured)
{
    double cpu_ns = cpu_frame_ns(w, cpu), gpu_ns = frame_ns(w, gpu);
    if (w->n_frames > 0) return gpu_ns * (double)w->n_frames + start_ns < cpu_ns * (double)w->n_frames;
    return gpu_ns < cpu_ns && (measured || cpu_ns * w->rate > busy_ns);
}

/* ---- by name -------------------------------------------------------------------------------------------------------
 */

struct plan_shape config_shape(const hc_config *c)
{
    int n_channels = c->n_in > c->n_out ? c->n_in : c->n_out;
    return (struct plan_shape){c->max_taps, c->block, c->n_in, c->n_out, c->n_routes ? c->n_routes : n_channels};
}

const struct backend *backend_for(const hc_config *c, const struct backend *backend)
{
    return c->block == 0 && backend->files ? backend->files : backend;
}

const struct backend *backend_cpu_for(const hc_config *c)
{
    return backend_for(c, backend_find("cpu"));
}

static bool gpu_is_worth_it(const hc_config *c)
{
    struct worth worth = {config_shape(c), c->method, c->rate, c->n_frames, 1};
    struct plan_costs cpu, gpu;
    const struct backend *device = backend_find("cuda");
    char text[128];
    if (!device) return false;
    if (c->block == 0) worth.n_processors = c->n_threads > 0 ? c->n_threads : processors_usable();
    bool measured = costs_find(backend_cpu_for(c), 0, &cpu);
    if (!worth_a_look(&worth, &cpu) || device->describe(0, text, sizeof text) != HC_OK) return false;
    measured = costs_find(device, 0, &gpu) && measured;
    return worth_the_gpu(&worth, &cpu, &gpu, measured);
}

/* "cuda:1": 1, and the kind is "cuda"; "cuda": 0; -1: no number follows the colon. */
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

/* Does "name:1" ask for anything? */
static bool has_devices(const struct backend *backend)
{
    if (backend->tail) return !backend->choice;
    return !backend->in_place;
}

int backend_choose(const hc_config *c, const struct backend **backend, int *device, char *why, size_t cap)
{
    char kind[16];
    *device = 0;
    *backend = backend_cpu_for(c);
    if (strcmp(c->backend, "auto") == 0) {
        if (gpu_is_worth_it(c)) *backend = backend_for(c, backend_find("cuda"));
        return HC_OK;
    }
    const struct backend *asked = backend_find(c->backend);
    int number = device_of(c->backend, kind, sizeof kind);
    bool has_number = number >= 0 && strchr(c->backend, ':');
    if (!asked && has_number) asked = backend_find(kind);
    if (asked && has_number && !has_devices(asked)) asked = NULL;
    if (asked && asked->tail && c->block == 0)
        return fail(HC_EINVAL, why, cap, "backend %s: it is for live blocks; use cuda for files", c->backend);
    if (asked && (!asked->tail || backend_find(asked->tail))) {
        if (has_number) *device = number;
        *backend = backend_for(c, asked);
        return HC_OK;
    }
    if (number >= 0 && (strcmp(kind, "cuda") == 0 || strcmp(kind, "hybrid") == 0))
        return fail(HC_EUNSUPPORTED, why, cap, "backend %s: this build has no CUDA; use cpu", c->backend);
    return fail(HC_EINVAL, why, cap, "backend \"%s\"; it is auto, cpu, cuda or hybrid, or cuda:N or hybrid:N",
                c->backend);
}

const struct backend *backend_near(const struct backend *backend)
{
    return backend->near ? backend_find(backend->near) : backend;
}

void backend_device_name(const struct backend *backend, int device, bool has_tail, char *name, size_t cap)
{
    const struct backend *near = backend_near(backend), *tail = backend->tail ? backend_find(backend->tail) : NULL;
    char text[96], tail_text[96];
    if (near->describe(near == backend ? device : 0, text, sizeof text) != HC_OK) text[0] = '\0';
    if (!tail && near->in_place)
        snprintf(name, cap, "%s %s", near->name, text);
    else if (!tail)
        snprintf(name, cap, "%s:%d %s", near->name, device, text);
    else if (tail->in_place)
        snprintf(name, cap, "%s %s; %s", backend->name, text, has_tail ? "tail on a thread" : "no tail");
    else if (!has_tail)
        snprintf(name, cap, "%s %s; no tail for %s:%d", backend->name, text, tail->name, device);
    else if (tail->describe(device, tail_text, sizeof tail_text) == HC_OK)
        snprintf(name, cap, "%s %.32s; tail on %s:%d %.64s", backend->name, text, tail->name, device, tail_text);
}

int hc_list_devices(int i, char *text, size_t cap)
{
    char description[128];
    const struct backend *backend;
    if (i < 0 || !text) return HC_EINVAL;
    for (int at = 0; (backend = backend_at(at)); at++) {
        if (backend->near || backend_find(backend->name) != backend) continue;
        for (int device = 0; backend->describe(device, description, sizeof description) == HC_OK; device++) {
            if (i-- > 0) continue;
            if (backend->in_place)
                snprintf(text, cap, "%s\t%s", backend->name, description);
            else
                snprintf(text, cap, "%s:%d\t%s", backend->name, device, description);
            return HC_OK;
        }
    }
    return HC_EINVAL;
}
