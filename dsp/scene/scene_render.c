/* render - hc_render: whole signals through a bank. Checks the jobs, resolves their steps into windows of terms
 * (scene_render_windows.c), and passes the windows to a backend.
 */
#include "device_bank.h"
#include "dsp/backends/backend_choice.h"
#include "dsp/backends/backends.h"
#include "dsp/base/struct_copy.h"
#include "scene_render_windows.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STEP = 256, MIN_STEP = 16, MAX_STEP = 65536 };

struct hc_renderer {
    const struct scene_render_backend *backend;
    void *state;
    int step;
    struct scene_render_bank bank;
};

/* Finds the backend and the device by name ("auto": see gpu_rules.h). Writes its description to `text`, if not NULL. */
static int scene_render_choose_backend(hc_renderer *r, const char *name, int *device, char *text, struct reason *why)
{
    const struct backend *backend;
    char seen[HC_DEVICE_CAP];
    *device = 0;
    if (strcmp(name, "auto") == 0) {
        backend = backend_gpu_likely();
        if (!backend || !backend->render || backend->describe(0, seen, sizeof seen) != HC_OK)
            backend = backend_find("cpu");
    } else {
        hc_config config = {.size = sizeof config, .backend = name, .block = 1};
        int error = backend_choose(&config, &backend, device, why);
        if (error) return error;
    }
    r->backend = backend->render;
    if (text) backend_device_name(backend, *device, false, text, HC_DEVICE_CAP);
    if (r->backend) return HC_OK;
    return fail(HC_EUNSUPPORTED, why, "backend \"%s\" cannot render; use \"cpu\" or \"cuda\"", name);
}

int hc_renderer_open(const hc_render_config *config, const hc_bank_data *data, hc_renderer **renderer, char *why,
                     size_t cap)
{
    hc_render_config c;
    if (!renderer) return fail(HC_EINVAL, REASON(why, cap), "hc_renderer_open: renderer is NULL; pass a pointer");
    *renderer = NULL;
    int error = struct_copy(config, &c, sizeof c, "hc_render_config", REASON(why, cap));
    if (error) return error;
    if (!c.step) c.step = DEFAULT_STEP;
    if (c.step < MIN_STEP || c.step > MAX_STEP)
        return fail(HC_EINVAL, REASON(why, cap), "step %d is out of range; give %d to %d", c.step, MIN_STEP, MAX_STEP);
    if (c.n_threads < 0) return fail(HC_EINVAL, REASON(why, cap), "n_threads is %d; give 0 or more", c.n_threads);
    error = bank_check(data, REASON(why, cap));
    if (error) return error;
    hc_renderer *r = calloc(1, sizeof *r);
    if (!r) return fail(HC_ENOMEM, REASON(why, cap), "no memory for a renderer; free some memory");
    r->step = c.step;
    r->bank = (struct scene_render_bank){data->n_entries, data->n_out};
    struct scene_render_setup setup = {.step = c.step, .n_threads = c.n_threads, .data = data};
    const char *name = c.backend ? c.backend : "auto";
    error = scene_render_choose_backend(r, name, &setup.device, c.device, REASON(why, cap));
    if (!error) error = r->backend->open(&setup, &r->state, REASON(why, cap));
    if (error && strcmp(name, "auto") == 0) { /* the GPU fails, for example with long steps: use the CPU */
        error = scene_render_choose_backend(r, "cpu", &setup.device, c.device, REASON(why, cap));
        if (!error) error = r->backend->open(&setup, &r->state, REASON(why, cap));
    }
    if (error)
        free(r);
    else
        *renderer = r;
    return error;
}

int hc_render(hc_renderer *r, const hc_render_job *jobs, size_t job_size, int n_jobs, char *why, size_t cap)
{
    if (!r || n_jobs < 0 || (n_jobs > 0 && !jobs))
        return fail(HC_EINVAL, REASON(why, cap),
                    "hc_render: renderer or jobs is NULL, or n_jobs is negative; pass both, and 0 or more");
    if (n_jobs == 0) return HC_OK;
    if (job_size != sizeof *jobs)
        return fail(HC_EINVAL, REASON(why, cap), "job_size is %zu; give sizeof(hc_render_job), %zu", job_size,
                    sizeof *jobs);
    struct scene_render_windows *windows = calloc((size_t)n_jobs, sizeof *windows);
    struct scene_render_work *works = calloc((size_t)n_jobs, sizeof *works);
    if (!windows || !works) {
        free(windows);
        free(works);
        return fail(HC_ENOMEM, REASON(why, cap), "no memory for %d jobs; use fewer", n_jobs);
    }
    int error = HC_OK;
    for (int i = 0; i < n_jobs && !error; i++) {
        error = scene_render_windows_make(&windows[i], i, &jobs[i], r->step, &r->bank, REASON(why, cap));
        works[i] = (struct scene_render_work){&jobs[i], windows[i].n_windows, windows[i].windows};
    }
    if (!error) error = r->backend->run(r->state, works, n_jobs, REASON(why, cap));
    for (int i = 0; i < n_jobs; i++) scene_render_windows_free(&windows[i]);
    free(windows);
    free(works);
    return error;
}

void hc_renderer_close(hc_renderer *r)
{
    if (!r) return;
    r->backend->close(r->state);
    free(r);
}
