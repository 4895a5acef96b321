/* text_arena - strings one after the other, because a million rows would need millions of allocations. */
#ifndef TEXT_ARENA_H
#define TEXT_ARENA_H

#include <stddef.h>

struct text_arena;

/* Allocates n bytes, which live until text_arena_free; NULL = no memory. *arenas: NULL at first. */
char *text_alloc(struct text_arena **arenas, size_t n);
const char *text_keep(struct text_arena **arenas, const char *text);
void text_arena_free(struct text_arena **arenas);

#endif
