/* outputs - the rows of a call's outputs, and a second set of rows for the mask that fades out. */
#ifndef HALOCONV_OUTPUTS_H
#define HALOCONV_OUTPUTS_H

#include "backend.h"

/* Allocates rows and their memory: [n_out][block]. NULL: no memory. [setup] */
float **outputs_open(int n_out, int block);
void outputs_close(float **rows);

/* Sets frames [at, at + n) of all rows to 0. [rt] */
void outputs_silence(float *const *rows, int n_out, int at, int n);
/* Crossfades in place from `from`, the output of the mask that fades out, to rows[n_out][n]. [rt] */
void outputs_crossfade(float *const *rows, float *const *from, int n_out, int n, const struct fade *fade);

#endif
