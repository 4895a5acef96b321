/* missing_gpu - finds why a request for a GPU fails. */
#ifndef MISSING_GPU_H
#define MISSING_GPU_H

#include <stddef.h>

/* Writes what is missing if no GPU is listed (the GPU module, the driver or a GPU), and the remedy. */
void missing_gpu(char *why, size_t cap);

#endif
