/* cuda_files - the calls of a file, several of which are under way at once; for plans without tail levels. Picture in
 * cuda_files.cu. */
#ifndef HALOCONV_CUDA_FILES_H
#define HALOCONV_CUDA_FILES_H

#include "cuda_live.h"
#include "dsp/base/error.h"

int cuda_files_open(struct state *s, struct reason *why); /* if s->queue_depth > 1 */
void cuda_files_close(struct state *s);

/* As struct backend's begin and end. */
int cuda_files_begin(void *state, struct slot *slot, int n, const struct fade *fade, struct reason *why);
int cuda_files_end(void *state, struct reason *why);

#endif
