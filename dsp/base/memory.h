/* memory - zeroed floats for spectra and histories, aligned to cache lines. Large arrays lie on huge pages if the
 * system has them: that saves a TLB miss every 4 KiB of a mask that does not fit into the processor's cache. */
#ifndef HALOCONV_MEMORY_H
#define HALOCONV_MEMORY_H

#include <stddef.h>

static inline size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Returns n floats, at least one; NULL: no memory. free() frees them. [setup] */
float *memory_floats(size_t n);

/* Does memory_floats, but does not clear. The system provides a page when it is first written. [setup] */
float *memory_floats_uncleared(size_t n);

/* Returns zeroed memory for n values of `size` bytes; half a huge page or more lies on huge pages. free() frees. [setup] */
void *memory_lines(size_t n, size_t size);

/* Does memory_floats for arrays that every block of audio uses: small arrays of several engines share huge pages, so
 * hundreds of small engines use as few pages as one large engine. memory_packed_free frees an array; NULL is allowed.
 * [setup], any thread */
float *memory_packed(size_t n);
void memory_packed_free(float *floats);

/* Returns three quarters of the machine's memory, in bytes: a small file must not be able to request all of it. */
size_t memory_limit(void);

#endif
