/* io_buffer - makes, frees and plays the buffers of backend.h, in the host's memory if the backend makes none; rows of
 * outputs. */
#include "backend.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void host_buffer_free(struct io_buffer *buffer)
{
    memory_packed_free(buffer->in);
    memory_packed_free(buffer->out);
    free((void *)buffer->rows.in);
    free((void *)buffer->rows.out);
}

int io_buffer_make(const struct backend *backend, void *state, int n_in, int n_out, int block, struct io_buffer *buffer,
                   struct reason *why)
{
    memset(buffer, 0, sizeof *buffer);
    if (backend->io_buffer_make) return backend->io_buffer_make(state, buffer, why);
    float **in = calloc((size_t)n_in + 1, sizeof *in), **out = calloc((size_t)n_out + 1, sizeof *out);
    buffer->in = memory_packed((size_t)n_in * (size_t)block);
    buffer->out = memory_packed((size_t)n_out * (size_t)block);
    buffer->rows = (struct rows){.in = (const float *const *)in, .out = out};
    if (in && out && buffer->in && buffer->out) {
        for (int ch = 0; ch < n_in; ch++) in[ch] = buffer->in + (size_t)ch * (size_t)block;
        for (int ch = 0; ch < n_out; ch++) out[ch] = buffer->out + (size_t)ch * (size_t)block;
        return HC_OK;
    }
    host_buffer_free(buffer);
    memset(buffer, 0, sizeof *buffer);
    return fail(HC_ENOMEM, why, "%s: no memory for blocks of %d frames; lower block", backend->name, block);
}

void io_buffer_free(const struct backend *backend, void *state, struct io_buffer *buffer)
{
    if (!buffer->in) return;
    if (backend->io_buffer_free)
        backend->io_buffer_free(state, buffer);
    else
        host_buffer_free(buffer);
    memset(buffer, 0, sizeof *buffer);
}

int io_buffer_play(const struct backend *backend, void *state, struct io_buffer *buffer, int n, const struct fade *fade,
                   struct reason *why)
{
    return backend->play ? backend->play(state, &buffer->rows, n, fade, why)
                         : backend->process(state, buffer, n, fade, why);
}

/* ---- rows of outputs --------------------------------------------------------------------------------------------- */

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
