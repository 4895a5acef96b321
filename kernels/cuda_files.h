/* cuda_files - a file's calls, of which several are under way. Picture in cuda_files.cu. Plans without far levels. */
#ifndef HALOCONV_CUDA_FILES_H
#define HALOCONV_CUDA_FILES_H

#include "cuda_state.h"

int cuda_flight_open(struct state *s, char *why, size_t cap); /* where s->flight > 1 */
void cuda_flight_close(struct state *s);

int cuda_begin(void *state, struct slot *slot, int n, const struct fade *fade, char *why, size_t cap);
int cuda_end(void *state, char *why, size_t cap);

#endif
