/* memory - zeroed floats for spectra and histories, aligned to cache lines. Large arrays lie on huge pages if the
 * system has them: that saves a TLB miss every 4 KiB of a mask that does not fit into the processor's cache. */
#ifndef HALOCONV_MEMORY_H
#define HALOCONV_MEMORY_H

#include <stddef.h>

static inline size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* [n], 0 counts as 1; NULL: no memory. free() gives them back. [setup] */
float *memory_floats(size_t n);

/* The same without zeros. The system provides a page when it is first written. [setup] */
float *memory_floats_uncleared(size_t n);

/* Zeroed memory for n values of `size` bytes; half a huge page or more lies on huge pages. free() gives it back.
 * [setup] */
void *memory_lines(size_t n, size_t size);

/* As memory_floats, for memory that every block of audio touches: small places share huge pages with those of other engines, so
 * that hundreds of small engines take as few pages as one large engine. memory_place_free gives them back; NULL is
 * allowed. [setup], any thread */
float *memory_place(size_t n);
void memory_place_free(float *floats);

/* Three quarters of the machine's memory: a small file must not be able to ask for all of it. */
size_t memory_limit(void);

#endif
