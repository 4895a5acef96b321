/* slot - makes, frees and plays the slots of backend.h, in the host's memory if the backend has none of its own. */
#include "backend.h"

#include "dsp/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void host_slot_free(struct slot *slot)
{
    memory_place_free(slot->in);
    memory_place_free(slot->out);
    free((void *)slot->rows.in);
    free((void *)slot->rows.out);
}

int slot_make(const struct backend *backend, void *state, int n_in, int n_out, int block, struct slot *slot,
              struct reason *why)
{
    memset(slot, 0, sizeof *slot);
    if (backend->slot_make) return backend->slot_make(state, slot, why);
    float **in = calloc((size_t)n_in + 1, sizeof *in), **out = calloc((size_t)n_out + 1, sizeof *out);
    slot->in = memory_place((size_t)n_in * (size_t)block);
    slot->out = memory_place((size_t)n_out * (size_t)block);
    slot->rows = (struct rows){.in = (const float *const *)in, .out = out};
    if (in && out && slot->in && slot->out) {
        for (int ch = 0; ch < n_in; ch++) in[ch] = slot->in + (size_t)ch * (size_t)block;
        for (int ch = 0; ch < n_out; ch++) out[ch] = slot->out + (size_t)ch * (size_t)block;
        return HC_OK;
    }
    host_slot_free(slot);
    memset(slot, 0, sizeof *slot);
    return fail(HC_ENOMEM, why, "%s: no memory for blocks of %d frames; lower block", backend->name, block);
}

void slot_free(const struct backend *backend, void *state, struct slot *slot)
{
    if (!slot->in) return;
    if (backend->slot_free)
        backend->slot_free(state, slot);
    else
        host_slot_free(slot);
    memset(slot, 0, sizeof *slot);
}

int slot_play(const struct backend *backend, void *state, struct slot *slot, int n, const struct fade *fade,
              struct reason *why)
{
    return backend->play ? backend->play(state, &slot->rows, n, fade, why)
                         : backend->process(state, slot, n, fade, why);
}
