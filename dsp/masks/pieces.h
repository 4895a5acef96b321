/* pieces - memory that is freed all at once: whatever a configuration makes. */
#ifndef HALOCONV_PIECES_H
#define HALOCONV_PIECES_H

#include <stdbool.h>
#include <stddef.h>

struct pieces {
    struct piece *last;
    size_t bytes, limit;     /* handed out, and how much may be      */
    bool is_short;           /* an allocation failed or met the limit */
};

/* limit: three quarters of the machine's memory, so that a few lines of text cannot ask for all of it. NULL: no
 * memory. */
struct pieces *pieces_make(void);
void pieces_free(struct pieces *pieces);

/* Zeroed; NULL when memory is short. */
void *pieces_alloc(struct pieces *pieces, size_t n, size_t size);
char *pieces_text(struct pieces *pieces, const char *text);

/* Take over memory of malloc; false: it is still the caller's. */
bool pieces_keep(struct pieces *pieces, void *memory, size_t bytes);

#endif
