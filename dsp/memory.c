#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

float *memory_floats(size_t n)
{
    void *p = NULL;
    size_t bytes = (n * sizeof(float) + LINE - 1) / LINE * LINE;
    if (bytes == 0) bytes = LINE;
    if (posix_memalign(&p, bytes >= HUGE_PAGE ? HUGE_PAGE : LINE, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE); /* a refusal costs speed only */
#endif
    return memset(p, 0, bytes);
}
