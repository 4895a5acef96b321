/* cuda_partitions - a call of a plan without far levels: heads, whole blocks and rests, on stream `audio`. Picture in
 * cuda_partitions.cu. */
#ifndef HALOCONV_CUDA_PARTITIONS_H
#define HALOCONV_CUDA_PARTITIONS_H

#include "cuda_state.h"

/* The whole call, as backend.process. */
int cuda_partitions_process(struct state *s, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap);

/* Its parts, for calls that are under way together. The frames of a call are in the ring, from s->total on. */
/* Do whole blocks of the next n frames go through transforms? */
bool cuda_has_wholes(const struct state *s, int n);
/* What mask m plays in this call of n frames, into wet. whole: whole blocks through transforms. */
int cuda_mask_play(struct state *s, struct mask *m, int n, bool whole, float *wet, char *why, size_t cap);
/* Behind the output, once s->total counts its frames: what the next call would otherwise wait for. to, from: masks that
 * it may play, or NULL. */
int cuda_next_make(struct state *s, bool whole, struct mask *to, struct mask *from, char *why, size_t cap);

#endif
