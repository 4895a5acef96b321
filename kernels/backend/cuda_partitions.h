/* cuda_partitions - the calls of a plan without tail levels, on stream `audio`. Picture in cuda_partitions.cu. */
#ifndef HALOCONV_CUDA_PARTITIONS_H
#define HALOCONV_CUDA_PARTITIONS_H

#include "cuda_live.h"
#include "dsp/base/error.h"

/* As struct backend's process. */
int cuda_partitions_process(struct state *s, struct slot *slot, int n, const struct fade *fade, struct reason *why);

/* The steps of a call, for cuda_files, which has several calls under way. The frames of the call are in the ring, from
 * frame s->total on. */
/* Do the whole partitions in the next n frames go through transforms? */
bool cuda_partitions_whole(const struct state *s, int n);
/* Writes the output of mask m for this call of n frames to wet. whole: of cuda_partitions_whole. */
int cuda_partitions_play(struct state *s, struct mask *m, int n, bool whole, float *wet, struct reason *why);
/* Prepares the next call, behind the output and after s->total was advanced: makes the spectra and sums for which that
 * call would otherwise wait. to, from: the masks that it may play, or NULL. */
int cuda_partitions_prepare(struct state *s, bool whole, struct mask *to, struct mask *from, struct reason *why);

#endif
