#include "text_arena.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 16 };

struct text_arena {
    struct text_arena *next;
    size_t used, capacity;
    char bytes[];
};

char *text_alloc(struct text_arena **arenas, size_t n)
{
    struct text_arena *arena = *arenas;
    if (!arena || arena->capacity - arena->used < n) {
        size_t capacity = n > ARENA_BYTES ? n : ARENA_BYTES;
        arena = malloc(sizeof *arena + capacity);
        if (!arena) return NULL;
        *arena = (struct text_arena){.next = *arenas, .capacity = capacity};
        *arenas = arena;
    }
    arena->used += n;
    return arena->bytes + arena->used - n;
}

const char *text_keep(struct text_arena **arenas, const char *text)
{
    size_t n = strlen(text) + 1;
    char *kept = text_alloc(arenas, n);
    return kept ? memcpy(kept, text, n) : NULL;
}

void text_arena_free(struct text_arena **arenas)
{
    while (*arenas) {
        struct text_arena *arena = *arenas;
        *arenas = arena->next;
        free(arena);
    }
}
