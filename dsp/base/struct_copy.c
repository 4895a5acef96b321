#include "struct_copy.h"

#include <string.h>

enum { MAX_STRUCT_BYTES = 1 << 14 }; /* larger than any version of a public struct */

bool is_struct_size(size_t size)
{
    return size > sizeof(size_t) && size <= MAX_STRUCT_BYTES && size % sizeof(size_t) == 0;
}

/* Also checks that fields of a newer program, which this library does not know and would ignore, are 0. */
int struct_copy(const void *given, void *copy, size_t size, const char *name, struct reason *why)
{
    memset(copy, 0, size);
    memcpy(copy, &size, sizeof size);
    if (!given) return HC_OK;
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (!is_struct_size(given_size))
        return fail(HC_EINVAL, why, "%s.size is %zu; set it to sizeof(%s)", name, given_size, name);
    for (size_t i = size; i < given_size; i++)
        if (((const unsigned char *)given)[i])
            return fail(HC_EINVAL, why,
                        "%s has a field that haloconv " HC_VERSION " does not know; use a newer library", name);
    memcpy(copy, given, given_size < size ? given_size : size);
    memcpy(copy, &size, sizeof size);
    return HC_OK;
}
