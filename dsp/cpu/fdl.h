/* fdl - a frequency-domain delay line: the spectra of the latest blocks of each input, which the partitions of a
 * response are multiplied with (partition p with the block p before the current one).
 *
 *   input 0   [slot 0: spectrum, `stride` floats][slot 1] ... [slot n_slots - 1]        a ring; the current block's
 *   input 1   ...                                                                       spectrum is in slot `at`
 *
 * The head of cpu.c and cpu_files.c use this one. Tail levels keep theirs in chunks of bins: tail_fdl.c.
 */
#ifndef HALOCONV_FDL_H
#define HALOCONV_FDL_H

#include <stddef.h>

struct fdl {
    int n_slots, at;
    size_t stride;
    float *spectra; /* [n_in][n_slots][stride]: P + 1 bins, interleaved re im; cpu_files.c: as in dsp/fft/fft.h */
};

static inline float *fdl_slot(const struct fdl *fdl, int in, int slot)
{
    return fdl->spectra + ((size_t)in * (size_t)fdl->n_slots + (size_t)slot) * fdl->stride;
}

/* The slot of the block that is `after` blocks after the current one; -n_slots < after < n_slots. */
static inline int fdl_slot_of(const struct fdl *fdl, int after)
{
    return (fdl->at + after + fdl->n_slots) % fdl->n_slots;
}

static inline float *fdl_spectrum(const struct fdl *fdl, int in, int after)
{
    return fdl_slot(fdl, in, fdl_slot_of(fdl, after));
}

#endif
