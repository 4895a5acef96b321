/* file_blocks - blocks of files: hc_submit and hc_collect, with several blocks queued on a device. */
#include "dsp/base/denormals.h"
#include "engine_state.h"
#include "haloconv_files.h"

int hc_block_buffers(hc_engine *e, int64_t i, void **in, const void **out)
{
    if (!e || e->queue_depth == 0 || i < 0) return HC_EINVAL;
    const struct io_buffer *buffer = &e->buffers[i % e->n_buffers];
    if (in) *in = buffer->in;
    if (out) *out = buffer->out;
    return HC_OK;
}

void hc_count_set(hc_engine *e, int64_t from, int64_t to)
{
    if (!e) return;
    e->count_from = from;
    e->count_to = to;
}

/* Returns the index of a frame in a block of n frames that begins at frame `start`, limited to 0 ... n. */
static int index_in_block(int64_t frame, int64_t start, int n)
{
    return frame <= start ? 0 : frame - start > n ? n : (int)(frame - start);
}

int hc_submit(hc_engine *e, const float *const *in, int n)
{
    if (!e || n < 1 || n > e->plan.block || e->n_submitted - e->n_collected >= (uint64_t)e->queue_depth)
        return HC_EINVAL;
    if (in && e->config.in_samples != HC_PLANAR) return HC_EINVAL;
    unsigned fp_state = denormals_off();
    int i = (int)(e->n_submitted++ % (uint64_t)e->n_buffers);
    e->sizes[i] = n;
    e->buffers[i].count_from = index_in_block(e->count_from, e->frames_submitted, n);
    e->buffers[i].count_to = index_in_block(e->count_to, e->frames_submitted, n);
    e->frames_submitted += n;
    if (!engine_is_left_behind(e)) {
        if (in) engine_load(e, &e->buffers[i], in, n);
        engine_play(e, &e->buffers[i], NULL, n);
    }
    denormals_restore(fp_state);
    return engine_is_lost(e) ? HC_EDEVICE : HC_OK;
}

int hc_collect(hc_engine *e, float *const *out)
{
    char why[sizeof e->error] = "";
    if (!e || e->n_submitted == e->n_collected || (out && e->config.out_samples != HC_PLANAR)) return HC_EINVAL;
    int i = (int)(e->n_collected++ % (uint64_t)e->n_buffers), n = e->sizes[i];
    bool lost = engine_is_left_behind(e) || engine_is_lost(e);
    if (!lost && e->async && e->backend->end(e->state, REASON(why, sizeof why)) != HC_OK) {
        engine_fail(e, why);
        lost = true;
    }
    engine_count(e, n);
    if (lost) {
        if (out) outputs_silence(out, e->config.n_out, 0, n);
        return HC_EDEVICE;
    }
    if (out) engine_unload(e, &e->buffers[i], out, n);
    const struct io_counts *seen = e->buffers[i].seen;
    if (seen) {
        if (seen->peak_bits > atomic_load_explicit(&e->peak_bits, memory_order_relaxed))
            atomic_store_explicit(&e->peak_bits, seen->peak_bits, memory_order_relaxed);
        atomic_fetch_add_explicit(&e->clipped, seen->clipped, memory_order_relaxed);
        engine_count_non_finite(e, seen->non_finite);
    }
    return n;
}
