#include "outputs.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

float **outputs_open(int n_out, int block)
{
    float **rows = calloc((size_t)n_out, sizeof *rows);
    float *frames = rows ? memory_packed((size_t)n_out * (size_t)block) : NULL;
    if (!frames) {
        free(rows);
        return NULL;
    }
    for (int o = 0; o < n_out; o++) rows[o] = frames + (size_t)o * (size_t)block;
    return rows;
}

void outputs_close(float **rows)
{
    if (rows) memory_packed_free(rows[0]);
    free(rows);
}

void outputs_silence(float *const *rows, int n_out, int at, int n)
{
    for (int o = 0; o < n_out; o++) memset(rows[o] + at, 0, (size_t)n * sizeof(float));
}

void outputs_crossfade(float *const *rows, float *const *from, int n_out, int n, const struct fade *fade)
{
    for (int i = 0; i < n; i++) {
        float gain = fade_gain(fade->pos + i, fade->len);
        for (int o = 0; o < n_out; o++) rows[o][i] = from[o][i] + gain * (rows[o][i] - from[o][i]);
    }
}
