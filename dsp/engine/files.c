/* files - blocks of files: several under way on a device, in the engine's own memory or the caller's. */
#include "engine_state.h"
#include "haloconv_files.h"

int hc_room(hc_engine *e, int64_t i, void **in, const void **out)
{
    if (!e || e->flight == 0 || i < 0) return HC_EINVAL;
    const struct slot *slot = &e->slots[i % e->n_slots];
    if (in) *in = slot->in;
    if (out) *out = slot->out;
    return HC_OK;
}

void hc_count_set(hc_engine *e, int64_t from, int64_t to)
{
    if (!e) return;
    e->count_from = from;
    e->count_to = to;
}

/* The place of a frame of the stream in a block of n frames at `at`, cut to 0 ... n. */
static int within(int64_t frame, int64_t at, int n)
{
    return frame <= at ? 0 : frame - at > n ? n : (int)(frame - at);
}

int hc_submit(hc_engine *e, const float *const *in, int n)
{
    if (!e || n < 1 || n > e->plan.block || e->n_submitted - e->n_collected >= (uint64_t)e->flight) return HC_EINVAL;
    if (in && e->config.in_samples != HC_PLANAR) return HC_EINVAL;
    unsigned fp_state = simd_denormals_off();
    int i = (int)(e->n_submitted++ % (uint64_t)e->n_slots);
    e->sizes[i] = n;
    e->slots[i].count_from = within(e->count_from, e->frames_submitted, n);
    e->slots[i].count_to = within(e->count_to, e->frames_submitted, n);
    e->frames_submitted += n;
    if (in) engine_load(e, &e->slots[i], in, n);
    engine_play(e, &e->slots[i], n);
    simd_denormals_restore(fp_state);
    return engine_is_lost(e) ? HC_EDEVICE : HC_OK;
}

static void add_seen(hc_engine *e, const struct slot_seen *seen)
{
    if (seen->peak_bits > atomic_load_explicit(&e->peak_bits, memory_order_relaxed))
        atomic_store_explicit(&e->peak_bits, seen->peak_bits, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->clipped, seen->clipped, memory_order_relaxed);
    engine_count_non_finite(e, seen->non_finite);
}

int hc_collect(hc_engine *e, float *const *out)
{
    char why[sizeof e->error] = "";
    if (!e || e->n_submitted == e->n_collected || (out && e->config.out_samples != HC_PLANAR)) return HC_EINVAL;
    int i = (int)(e->n_collected++ % (uint64_t)e->n_slots), n = e->sizes[i];
    bool lost = engine_is_lost(e);
    if (!lost && e->halves && e->backend->end(e->state, why, sizeof why) != HC_OK) {
        engine_lose(e, why);
        lost = true;
    }
    if (out && !lost) engine_unload(e, &e->slots[i], out, n);
    if (!lost && e->slots[i].seen) add_seen(e, e->slots[i].seen);
    if (out && lost) engine_silence(e, out, n);
    engine_count(e, n);
    return lost ? HC_EDEVICE : n;
}
