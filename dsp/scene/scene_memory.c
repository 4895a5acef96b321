#include "scene_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t LINE = 64, HUGE_PAGE = 2 << 20;

void *scene_memory(size_t n, size_t size)
{
    size_t bytes = n * size, align = bytes >= HUGE_PAGE / 2 ? HUGE_PAGE : LINE;
    size_t whole = (bytes + align) / align * align; /* never 0 */
    void *p = aligned_alloc(align, whole);
    if (!p) return NULL;
    if (align == HUGE_PAGE) madvise(p, whole, MADV_HUGEPAGE); /* best effort */
    memset(p, 0, bytes);
    return p;
}
