/* clap_process - a block of CLAP's: it is cut at the events, and buffers of 64 bits are converted in pieces. */
#include "face.h"

/* Are the channels there, as floats or doubles? */
static bool is_complete(const clap_audio_buffer_t *buffers, uint32_t n_buffers, int n_channels)
{
    if (!buffers || n_buffers != 1 || buffers->channel_count != (uint32_t)n_channels) return false;
    if (!buffers->data32 && !buffers->data64) return false;
    for (int ch = 0; ch < n_channels; ch++)
        if (buffers->data32 ? !buffers->data32[ch] : !buffers->data64[ch]) return false;
    return true;
}

/* At most PIECE frames from frame `at` on. The output may be the input. */
static void play_piece(struct face *f, const clap_audio_buffer_t *in, const clap_audio_buffer_t *out, uint32_t at,
                       int n)
{
    const struct variant *v = core_variant(f->core);
    const float *from[MAX_CHANNELS];
    float *to[MAX_CHANNELS];
    for (int ch = 0; ch < v->n_in; ch++) {
        from[ch] = in->data32 ? in->data32[ch] + at : f->pieces[ch];
        for (int i = 0; !in->data32 && i < n; i++) f->pieces[ch][i] = (float)in->data64[ch][at + (uint32_t)i];
    }
    for (int ch = 0; ch < v->n_out; ch++) to[ch] = out->data32 ? out->data32[ch] + at : f->pieces[v->n_in + ch];
    core_process(f->core, from, to, n);
    for (int ch = 0; ch < v->n_out && !out->data32; ch++)
        for (int i = 0; i < n; i++) out->data64[ch][at + (uint32_t)i] = (double)to[ch][i];
}

static void play(struct face *f, const clap_process_t *p, uint32_t from, uint32_t to)
{
    bool is_float = p->audio_inputs->data32 && p->audio_outputs->data32;
    for (uint32_t n; from < to; from += n) {
        n = is_float || to - from < PIECE ? to - from : PIECE;
        play_piece(f, p->audio_inputs, p->audio_outputs, from, (int)n);
    }
}

clap_process_status face_process(const clap_plugin_t *plugin, const clap_process_t *p)
{
    struct face *f = face_of(plugin);
    const struct variant *v = core_variant(f->core);
    if (!p || !f->is_active || p->frames_count > INT32_MAX) return CLAP_PROCESS_ERROR;
    if (p->frames_count > 0 && (!is_complete(p->audio_inputs, p->audio_inputs_count, v->n_in) ||
                                !is_complete(p->audio_outputs, p->audio_outputs_count, v->n_out)))
        return CLAP_PROCESS_ERROR;
    face_send_gestures(f, p->out_events);
    uint32_t done = 0, n_events = p->in_events ? p->in_events->size(p->in_events) : 0;
    for (uint32_t i = 0; i < n_events; i++) {
        const clap_event_header_t *event = p->in_events->get(p->in_events, i);
        uint32_t at = event && event->time < p->frames_count ? event->time : p->frames_count;
        if (at > done) {
            play(f, p, done, at);
            done = at;
        }
        face_apply_event(f, event);
    }
    if (done < p->frames_count)
        play(f, p, done, p->frames_count);
    else
        core_process(f->core, NULL, NULL, 0); /* the controls hold after the last event */
    if (p->frames_count > 0) p->audio_outputs->constant_mask = 0;
    uint32_t tail = core_tail(f->core);
    if (tail != f->reported_tail && f->tail) f->tail->changed(f->host);
    f->reported_tail = tail;
    return core_is_quiet(f->core) ? CLAP_PROCESS_SLEEP : CLAP_PROCESS_CONTINUE;
}
