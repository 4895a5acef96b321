/* missing_gpu - says why a request for a GPU fails. */
#ifndef MISSING_GPU_H
#define MISSING_GPU_H

#include <stddef.h>

/* Writes what is missing where no GPU is listed (the GPU module, the driver or a GPU), and its remedy. */
void missing_gpu(char *why, size_t cap);

#endif
