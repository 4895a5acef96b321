/* arena - memory that is freed all at once: the results of reading a configuration. */
#ifndef HALOCONV_ARENA_H
#define HALOCONV_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena {
    struct allocation *last;
    size_t bytes;            /* allocated so far; array_grow and the reader of sound files count too */
    size_t limit;            /* of bytes                                                             */
    bool is_short;           /* an allocation failed or met the limit                                */
    const char **files;      /* [n_files]: paths that the configuration names, for hc_responses_file */
    size_t n_files;
};

/* Sets the limit to memory_limit(). NULL: no memory. */
struct arena *arena_make(void);
void arena_free(struct arena *arena);

/* n * size bytes of zeros; NULL, and is_short, if memory is short. */
void *arena_alloc(struct arena *arena, size_t n, size_t size);
char *arena_text(struct arena *arena, const char *text);

/* Takes over memory of malloc, and frees it with the arena. false: the memory is still the caller's. */
bool arena_keep(struct arena *arena, void *memory);

/* Returns `array`, which is from malloc, or a larger copy: more than n elements of `size` bytes fit. *cap: the number
 * that fits. NULL, and is_short: no memory; `array` stays. */
void *array_grow(struct arena *arena, void *array, size_t n, size_t *cap, size_t size);

/* Does nothing. For tdestroy(3), if the elements of the tree are in an arena, which frees them. */
void arena_keeps_node(void *node);

#endif
