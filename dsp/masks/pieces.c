#include "pieces.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct piece {
    struct piece *before;
    void *kept; /* from malloc, or NULL */
    _Alignas(max_align_t) char memory[];
};

struct pieces *pieces_make(void)
{
    struct pieces *pieces = calloc(1, sizeof *pieces);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pieces) pieces->limit = pages > 0 && page > 0 ? (size_t)pages / 4 * 3 * (size_t)page : SIZE_MAX / 2;
    return pieces;
}

void pieces_free(struct pieces *pieces)
{
    if (!pieces) return;
    for (struct piece *piece = pieces->last; piece;) {
        struct piece *before = piece->before;
        free(piece->kept);
        free(piece);
        piece = before;
    }
    free(pieces);
}

void *pieces_alloc(struct pieces *pieces, size_t n, size_t size)
{
    struct piece *piece = NULL;
    if (n == 0) n = 1;
    if (n <= (pieces->limit - pieces->bytes) / size) piece = calloc(1, sizeof *piece + n * size);
    if (!piece) {
        pieces->is_short = true;
        return NULL;
    }
    pieces->bytes += n * size;
    piece->before = pieces->last;
    pieces->last = piece;
    return piece->memory;
}

char *pieces_text(struct pieces *pieces, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = pieces_alloc(pieces, bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

bool pieces_keep(struct pieces *pieces, void *memory, size_t bytes)
{
    if (!pieces_alloc(pieces, 1, 1)) return false;
    pieces->last->kept = memory;
    pieces->bytes += bytes;
    return true;
}
