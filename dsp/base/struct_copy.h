/* struct_copy - copies public structs that begin with their size. A later version of a struct has more fields, whose
 * default is 0, at its end. */
#ifndef HALOCONV_STRUCT_COPY_H
#define HALOCONV_STRUCT_COPY_H

#include "error.h"

#include <stdbool.h>

/* Can this be the size of some version of a public struct? false: the size is not initialised. [rt] */
bool is_struct_size(size_t size);

/* Sets the fields of `copy`, a struct of `size` bytes, to those of the caller's version; the other fields become 0, and
 * if given is NULL all do. Both structs begin with their size. name: the name of the struct type, for messages. Fails
 * with HC_EINVAL and a text. [setup] */
int struct_copy(const void *given, void *copy, size_t size, const char *name, struct reason *why);

#endif
