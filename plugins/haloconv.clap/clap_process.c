/* clap_process - a block of CLAP's, with its events; buffers of 64 bits are converted in pieces. */
#include "face.h"

/* Are the channels there, as floats or doubles? */
static bool clap_is_complete(const clap_audio_buffer_t *buffers, uint32_t n_buffers, int n_channels)
{
    if (!buffers || n_buffers != 1 || buffers->channel_count != (uint32_t)n_channels) return false;
    if (!buffers->data32 && !buffers->data64) return false;
    for (int ch = 0; ch < n_channels; ch++)
        if (buffers->data32 ? !buffers->data32[ch] : !buffers->data64[ch]) return false;
    return true;
}

struct events { /* of a block, and those of a piece of it */
    struct face *face;
    const clap_input_events_t *list;
    uint32_t next, n;
    uint32_t first; /* frame of the block where the piece begins */
};

/* For struct core_events. */
static int clap_apply(void *data, int frame)
{
    struct events *e = data;
    for (; e->next < e->n; e->next++) {
        const clap_event_header_t *event = e->list->get(e->list, e->next);
        if (event && event->time > e->first + (uint32_t)frame)
            return event->time - e->first < INT32_MAX ? (int)(event->time - e->first) : INT32_MAX;
        face_apply_event(e->face, event);
    }
    return INT32_MAX;
}

/* At most PIECE frames of 64 bits, or any number of 32 bits, from frame `at` on. The output may be the input. */
static void clap_play_piece(struct face *f, const clap_audio_buffer_t *in, const clap_audio_buffer_t *out, uint32_t at,
                            int n, struct events *events)
{
    const struct variant *v = core_variant(f->core);
    const float *from[MAX_CHANNELS];
    float *to[MAX_CHANNELS];
    for (int ch = 0; ch < v->n_in; ch++) {
        from[ch] = in->data32 ? in->data32[ch] + at : f->pieces[ch];
        for (int i = 0; !in->data32 && i < n; i++) f->pieces[ch][i] = (float)in->data64[ch][at + (uint32_t)i];
    }
    for (int ch = 0; ch < v->n_out; ch++) to[ch] = out->data32 ? out->data32[ch] + at : f->pieces[v->n_in + ch];
    events->first = at;
    core_process(f->core, from, to, n, &(struct core_events){clap_apply, events});
    for (int ch = 0; ch < v->n_out && !out->data32; ch++)
        for (int i = 0; i < n; i++) out->data64[ch][at + (uint32_t)i] = (double)to[ch][i];
}

static void clap_play_block(struct face *f, const clap_process_t *p, struct events *events)
{
    bool is_float = p->audio_inputs->data32 && p->audio_outputs->data32;
    for (uint32_t at = 0, n; at < p->frames_count; at += n) {
        n = is_float || p->frames_count - at < PIECE ? p->frames_count - at : PIECE;
        clap_play_piece(f, p->audio_inputs, p->audio_outputs, at, (int)n, events);
    }
}

clap_process_status face_process(const clap_plugin_t *plugin, const clap_process_t *p)
{
    struct face *f = face_of(plugin);
    const struct variant *v = core_variant(f->core);
    if (!p || !f->is_active || p->frames_count > INT32_MAX) return CLAP_PROCESS_ERROR;
    if (p->frames_count > 0 && (!clap_is_complete(p->audio_inputs, p->audio_inputs_count, v->n_in) ||
                                !clap_is_complete(p->audio_outputs, p->audio_outputs_count, v->n_out)))
        return CLAP_PROCESS_ERROR;
    face_send_gestures(f, p->out_events);
    struct events events = {f, p->in_events, 0, p->in_events ? p->in_events->size(p->in_events) : 0, 0};
    if (p->frames_count > 0) clap_play_block(f, p, &events);
    events.first = 0;
    clap_apply(&events, INT32_MAX); /* events behind the block hold for the next one */
    if (p->frames_count == 0) core_process(f->core, NULL, NULL, 0, NULL);
    if (p->frames_count > 0) p->audio_outputs->constant_mask = 0;
    uint32_t tail = core_tail(f->core);
    if (tail != f->reported_tail && f->tail) f->tail->changed(f->host);
    f->reported_tail = tail;
    return core_is_quiet(f->core) ? CLAP_PROCESS_SLEEP : CLAP_PROCESS_CONTINUE;
}
