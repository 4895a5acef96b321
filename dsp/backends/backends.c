#include "backends.h"

#include "gpu_module.h"

#include <assert.h>
#include <string.h>

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
