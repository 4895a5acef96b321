#include "arena.h"

#include "dsp/base/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct allocation {
    struct allocation *before;
    void *kept; /* memory that arena_keep adopted, or NULL */
    _Alignas(max_align_t) char memory[];
};

struct arena *arena_make(void)
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (arena) arena->limit = memory_limit();
    return arena;
}

void arena_free(struct arena *arena)
{
    struct allocation *before;
    if (!arena) return;
    for (struct allocation *a = arena->last; a; a = before) {
        before = a->before;
        free(a->kept);
        free(a);
    }
    free(arena);
}

void *arena_alloc(struct arena *arena, size_t n, size_t size)
{
    struct allocation *new = NULL;
    if (n == 0) n = 1;
    if (n <= (arena->limit - arena->bytes) / size) new = calloc(1, sizeof *new + n *size);
    if (!new) {
        arena->is_short = true;
        return NULL;
    }
    arena->bytes += n * size;
    new->before = arena->last;
    arena->last = new;
    return new->memory;
}

char *arena_text(struct arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = arena_alloc(arena, bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

bool arena_keep(struct arena *arena, void *memory)
{
    if (!arena_alloc(arena, 1, 1)) return false;
    arena->last->kept = memory;
    return true;
}

void *array_grow(struct arena *arena, void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return array;
    size_t more = *cap ? *cap * 2 : 64, bytes = (more - *cap) * size;
    bool fits = more < INT_MAX && bytes <= arena->limit - arena->bytes;
    void *new = fits ? realloc(array, more * size) : NULL;
    if (!new) {
        arena->is_short = true;
        return NULL;
    }
    arena->bytes += bytes;
    *cap = more;
    return new;
}

void arena_keeps_node(void *node)
{
    (void)node;
}
