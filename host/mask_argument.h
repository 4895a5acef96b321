/* mask_argument - what a command names as its mask: a file, or a mask that ships with haloconv. */
#ifndef MASK_ARGUMENT_H
#define MASK_ARGUMENT_H

#include <stddef.h>

/* hc_responses_load has failed for this path: if it is a bank of responses, why says how banks are played. */
void mask_argument_explain(const char *path, char *why, size_t cap);

#endif
