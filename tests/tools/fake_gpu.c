/* fake_gpu - a GPU module with one device, which plays its input as it is: a stand-in for kernels/, to test how the module
 * is found, loaded and left. tests.mk builds it with this library's version and with another one. */
#include "dsp/backends/gpu_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    int block, n_in, n_out;
};

static int describe(int device, char *text, size_t cap)
{
    if (device != 0) return fail(HC_EINVAL, REASON(text, cap), "none");
    snprintf(text, cap, "a fake of %s", MODULE_VERSION);
    return HC_OK;
}

static int state_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct state *s = malloc(sizeof *s);
    if (device != 0 || !s) return fail(HC_EDEVICE, why, "no such fake; use the CPU");
    *s = (struct state){plan->block, config->n_in, config->n_out};
    *state = s;
    return HC_OK;
}

static int mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why)
{
    (void)state, (void)matrix;
    *mask = malloc(1);
    return *mask ? HC_OK : fail(HC_ENOMEM, why, "no memory");
}

static void mask_free(void *state, void *mask)
{
    (void)state;
    free(mask);
}

static int process(void *state, struct io_buffer *buffer, int n, const struct fade *fade, struct reason *why)
{
    const struct state *s = state;
    (void)fade, (void)why;
    for (int ch = 0; ch < s->n_out && ch < s->n_in; ch++)
        memcpy(buffer->out + (size_t)ch * (size_t)s->block, buffer->in + (size_t)ch * (size_t)s->block,
               (size_t)n * sizeof(float));
    return HC_OK;
}

static int reset(void *state, struct reason *why)
{
    (void)state, (void)why;
    return HC_OK;
}

static const struct plan_costs costs = {.min_partition = 32,
                                        .max_partition = 4096,
                                        .mac_ns = 1e-4,
                                        .cmac_ns = 1e-4,
                                        .fft_ns = 1e-4,
                                        .launch_ns = 1000,
                                        .slice_ns = 1000,
                                        .call_ns = 1000,
                                        .file_block = 65536};

const struct backend backend_cuda = {
    .name = "cuda",
    .costs = &costs,
    .describe = describe,
    .open = state_open,
    .close = free,
    .mask_make = mask_make,
    .mask_free = mask_free,
    .process = process,
    .reset = reset,
};

int copies_measure(int64_t up, int64_t down, size_t block_bytes, int n_runs, struct hc_copies *copies,
                   struct reason *why)
{
    (void)up, (void)down, (void)block_bytes, (void)n_runs, (void)copies;
    return fail(HC_EDEVICE, why, "a fake copies nothing");
}
