/* devices - the reason why a request for a GPU fails. */
#ifndef DEVICES_H
#define DEVICES_H

#include <stddef.h>

/* Writes what is missing where no GPU is listed (the GPU module, the driver or a GPU), and its remedy. */
void devices_no_gpu(char *why, size_t cap);

#endif
