/* arena - memory that is freed all at once. It holds what is read from a configuration. */
#ifndef HALOCONV_ARENA_H
#define HALOCONV_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena {
    struct allocation *last;
    size_t bytes;            /* bytes allocated here, by array_grow and by the sound file reader     */
    size_t limit;            /* largest allowed value of bytes                                       */
    bool is_short;           /* an allocation failed or met the limit                                */
    const char **files;      /* [n_files]: paths that the configuration names, for hc_responses_file */
    size_t n_files;
};

/* Sets the limit to memory_limit(). NULL: no memory. */
struct arena *arena_make(void);
void arena_free(struct arena *arena);

/* Allocates n * size bytes of zeros; NULL: memory is short, and is_short is set. */
void *arena_alloc(struct arena *arena, size_t n, size_t size);
char *arena_text(struct arena *arena, const char *text);

/* Adopts memory from malloc, and frees it with the arena. false: the memory still belongs to the caller. */
bool arena_keep(struct arena *arena, void *memory);

/* Returns `array`, which is from malloc, or a larger copy with room for more than n elements of `size` bytes. *cap is
 * its capacity. NULL: no memory, is_short is set, and `array` stays. */
void *array_grow(struct arena *arena, void *array, size_t n, size_t *cap, size_t size);

/* Does nothing. Pass it to tdestroy(3) if the elements of the tree are in an arena, which frees them. */
void arena_keeps_node(void *node);

#endif
