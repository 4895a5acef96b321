#include "memory.h"

#include "fork_safety.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

static void *aligned_bytes(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, bytes >= HUGE_PAGE ? HUGE_PAGE : LINE, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE); /* may fail: that costs only speed */
#endif
    return p;
}

float *memory_floats_uncleared(size_t n)
{
    return aligned_bytes(round_up(n ? n * sizeof(float) : 1, LINE));
}

float *memory_floats(size_t n)
{
    float *floats = memory_floats_uncleared(n);
    return floats ? memset(floats, 0, n * sizeof(float)) : NULL;
}

void *memory_lines(size_t n, size_t size)
{
    size_t bytes = n * size, whole = round_up(bytes ? bytes : 1, bytes >= HUGE_PAGE / 2 ? HUGE_PAGE : LINE);
    void *p = aligned_bytes(whole);
    return p ? memset(p, 0, bytes) : NULL;
}

#ifdef __SANITIZE_ADDRESS__ /* AddressSanitizer checks only memory that it allocated */

float *memory_packed(size_t n)
{
    return memory_floats(n);
}

void memory_packed_free(float *floats)
{
    free(floats);
}

#else

/* ---- ranges --------------------------------------------------------------------------------------------------------
 *
 * A region, a huge page or more, is cut into contiguous ranges. Free neighbours become one. A range of more than half a
 * page gets a separate region.
 */

struct range {                           /* header; the range's floats follow it */
    alignas(LINE) size_t bytes;          /* bytes of header and floats */
    struct range *before, *after;        /* the neighbours in the region */
    struct range *prev_free, *next_free; /* neighbours in `vacant` */
    bool is_used;
};

static struct range *vacant; /* list of unused ranges; under LOCK_MEMORY */

static void vacant_add(struct range *p)
{
    p->is_used = false;
    p->prev_free = NULL;
    p->next_free = vacant;
    if (vacant) vacant->prev_free = p;
    vacant = p;
}

static void vacant_remove(struct range *p)
{
    if (p->prev_free) p->prev_free->next_free = p->next_free;
    if (p->next_free) p->next_free->prev_free = p->prev_free;
    if (vacant == p) vacant = p->next_free;
}

static struct range *region_make(size_t bytes)
{
    struct range *p = aligned_bytes(bytes);
    if (!p) return NULL;
    *p = (struct range){.bytes = bytes};
    vacant_add(p);
    return p;
}

/* Shortens a range to `bytes`. The rest becomes a separate, vacant range. */
static void range_cut(struct range *p, size_t bytes)
{
    if (p->bytes - bytes < 2 * sizeof *p) return;
    struct range *left = (struct range *)((char *)p + bytes);
    *left = (struct range){.bytes = p->bytes - bytes, .before = p, .after = p->after};
    if (left->after) left->after->before = left;
    p->after = left;
    p->bytes = bytes;
    vacant_add(left);
}

static void range_join(struct range *p, struct range *next)
{
    p->bytes += next->bytes;
    p->after = next->after;
    if (p->after) p->after->before = p;
}

float *memory_packed(size_t n)
{
    size_t bytes = round_up(n ? n * sizeof(float) : 1, LINE) + sizeof(struct range);
    global_lock(LOCK_MEMORY);
    struct range *p = vacant;
    while (p && p->bytes < bytes) p = p->next_free;
    if (!p) p = region_make(bytes > HUGE_PAGE / 2 ? bytes : HUGE_PAGE);
    if (p) {
        vacant_remove(p);
        p->is_used = true;
        range_cut(p, bytes);
    }
    global_unlock(LOCK_MEMORY);
    return p ? memset(p + 1, 0, bytes - sizeof *p) : NULL;
}

void memory_packed_free(float *floats)
{
    if (!floats) return;
    struct range *p = (struct range *)(void *)floats - 1;
    global_lock(LOCK_MEMORY);
    if (p->after && !p->after->is_used) {
        vacant_remove(p->after);
        range_join(p, p->after);
    }
    if (p->before && !p->before->is_used) {
        vacant_remove(p->before);
        range_join(p->before, p);
        p = p->before;
    }
    if (p->before || p->after)
        vacant_add(p);
    else
        free(p);
    global_unlock(LOCK_MEMORY);
}

#endif

size_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages / 4 * 3 * (size_t)page : SIZE_MAX / 2;
}
