#include "backends.h"

#include <assert.h>
#include <string.h>

enum { MOST_BACKENDS = 16 };

static const struct backend *backends[MOST_BACKENDS] = {
    &backend_cpu,
#ifdef HC_WITH_CUDA
    &backend_cuda,
#endif
    &backend_hybrid,
    &backend_hybrid_cpu,
};

static int count(void)
{
    int n = 0;
    while (n < MOST_BACKENDS && backends[n]) n++;
    return n;
}

const struct backend *backend_find(const char *name)
{
    for (int i = count() - 1; i >= 0; i--)
        if (strcmp(backends[i]->choice ? backends[i]->choice : backends[i]->name, name) == 0) return backends[i];
    return NULL;
}

const struct backend *backend_at(int i)
{
    return i >= 0 && i < count() ? backends[i] : NULL;
}

void backend_add(const struct backend *backend)
{
    assert(count() < MOST_BACKENDS);
    backends[count()] = backend;
}
