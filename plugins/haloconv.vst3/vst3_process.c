/* vst3_process - a block of VST3's: values change at the points of the parameters' queues, and on the lines between them;
 * buffers of 64 bits are converted in pieces.
 */
#include "vst3_face.h"

enum {
    RAMP_STEP = 64, /* max. frames between two values on a line */
    METERS_MS = 50  /* time between two values of a meter */
};

/* The queue of a control, at the line between two of its points. */
struct value_ramp {
    struct v3_param_value_queue **queue;
    int control;
    int32_t next, n;   /* point after this line; number of points */
    int64_t from, to;  /* frames; `to` is ENDED after the last point */
    double start, end; /* normalised values at these */
};
static const int64_t ENDED = INT64_MAX;

/* ---- queues ------------------------------------------------------------------------------------- */

static void ramp_next(struct value_ramp *r)
{
    r->from = r->to;
    r->start = r->end;
    while (r->next < r->n) {
        int32_t frame = 0;
        if ((*r->queue)->get_point(r->queue, r->next++, &frame, &r->end) != V3_OK) continue;
        r->to = frame > r->from ? frame : r->from;
        return;
    }
    r->to = ENDED;
}

/* Finds the queues of the controls that a host sets, each control once. Returns their number. */
static int open_ramps(struct vst3 *face, struct v3_param_changes **changes, struct value_ramp ramps[N_CONTROLS])
{
    int n = 0, n_queues = changes ? (*changes)->get_param_count(changes) : 0;
    bool is_open[N_CONTROLS] = {false};
    for (int i = 0; i < n_queues; i++) {
        struct v3_param_value_queue **queue = (*changes)->get_param_data(changes, i);
        int control = queue ? vst3_find(face, (*queue)->get_param_id(queue)) : N_CONTROLS;
        if (control == N_CONTROLS || vst3_is_meter(control) || is_open[control]) continue;
        is_open[control] = true;
        ramps[n] = (struct value_ramp){.queue = queue,
                                       .control = control,
                                       .n = (*queue)->get_point_count(queue),
                                       .end = vst3_to_normalised(control, (double)core_get(face->core, control))};
        ramp_next(&ramps[n++]);
    }
    return n;
}

/* Sets the control to its value at a frame. */
static void ramp_apply(struct core *core, struct value_ramp *r, int64_t frame)
{
    while (r->to <= frame) ramp_next(r);
    double x = r->start;
    if (r->to != ENDED && controls[r->control].kind < CONTROL_INTEGER)
        x += (r->end - r->start) * (double)(frame - r->from) / (double)(r->to - r->from);
    core_set(core, r->control, vst3_from_normalised(r->control, x));
}

/* Returns the frame, at most n, up to which no control changes after frame `at`. */
static int64_t next_change(const struct value_ramp *ramps, int n_ramps, int64_t at, int64_t n)
{
    for (const struct value_ramp *r = ramps; r < ramps + n_ramps; r++) {
        bool is_ramp = r->to != ENDED && r->start != r->end && controls[r->control].kind < CONTROL_INTEGER;
        int64_t end = is_ramp && r->to - at > RAMP_STEP ? at + RAMP_STEP : r->to;
        if (end < n) n = end;
    }
    return n;
}

/* Sends the meters that have changed. */
static void send_meters(struct vst3 *face, struct v3_param_changes **changes, int64_t n)
{
    face->unsent += n;
    if (!changes || (double)face->unsent < METERS_MS * face->setup.sample_rate / 1000) return;
    face->unsent = 0;
    for (int c = 0; c < N_CONTROLS; c++) {
        if (!vst3_is_meter(c)) continue;
        double value = vst3_to_normalised(c, (double)core_get(face->core, c));
        if (value == face->sent[c]) continue;
        v3_param_id id = control_id(c);
        int32_t index;
        struct v3_param_value_queue **queue = (*changes)->add_param_data(changes, &id, &index);
        if (queue && (*queue)->add_point(queue, 0, value, &index) == V3_OK) face->sent[c] = value;
    }
}

struct block_ramps {
    struct value_ramp ramps[N_CONTROLS];
    int n;
    struct core *core;
    int64_t first; /* frame of the block where a piece begins */
};

/* For struct core_events. */
static int vst3_apply(void *data, int frame)
{
    struct block_ramps *b = data;
    int64_t at = b->first + frame;
    for (int i = 0; i < b->n; i++) ramp_apply(b->core, &b->ramps[i], at);
    return (int)(next_change(b->ramps, b->n, at, b->first + INT32_MAX) - b->first);
}

/* ---- samples ------------------------------------------------------------------------------------ */

/* Are the channels there? */
static bool vst3_is_complete(const struct v3_audio_bus_buffers *buses, int32_t n_buses, int n_channels)
{
    if (!buses || n_buses != 1 || buses->num_channels != n_channels || !buses->channel_buffers_32) return false;
    for (int ch = 0; ch < n_channels; ch++)
        if (!buses->channel_buffers_32[ch]) return false;
    return true;
}

/* At most PIECE frames, of 64 bits or without an input. The output may be the input. */
static void vst3_play_piece(struct vst3 *face, const struct v3_process_data *d, bool has_input, int64_t at, int n,
                            struct block_ramps *block)
{
    const struct variant *v = core_variant(face->core);
    const bool is_double = d->symbolic_sample_size == V3_SAMPLE_64;
    const float *from[MAX_CHANNELS];
    float *to[MAX_CHANNELS];
    for (int ch = 0; ch < v->n_in; ch++) {
        for (int i = 0; i < n; i++)
            face->pieces[ch][i] = has_input ? (float)d->inputs->channel_buffers_64[ch][at + i] : 0;
        from[ch] = face->pieces[ch];
    }
    for (int ch = 0; ch < v->n_out; ch++)
        to[ch] = is_double ? face->pieces[v->n_in + ch] : d->outputs->channel_buffers_32[ch] + at;
    block->first = at;
    core_process(face->core, from, to, n, &(struct core_events){vst3_apply, block});
    for (int ch = 0; is_double && ch < v->n_out; ch++)
        for (int i = 0; i < n; i++) d->outputs->channel_buffers_64[ch][at + i] = (double)to[ch][i];
}

/* Hosts turn a bus off by taking its channels away. */
static void vst3_play_block(struct vst3 *face, const struct v3_process_data *d, struct block_ramps *block)
{
    int n = d->nframes;
    const bool has_input = vst3_is_complete(d->inputs, d->num_input_buses, core_variant(face->core)->n_in);
    if (d->symbolic_sample_size == V3_SAMPLE_64 || !has_input)
        for (int at = 0; at < n; at += PIECE)
            vst3_play_piece(face, d, has_input, at, n - at < PIECE ? n - at : PIECE, block);
    else
        core_process(face->core, (const float *const *)d->inputs->channel_buffers_32, d->outputs->channel_buffers_32, n,
                     &(struct core_events){vst3_apply, block});
}

v3_result V3_API vst3_process(void *self, struct v3_process_data *d)
{
    struct vst3 *face = VST3_OF(self, processor);
    const struct variant *v = core_variant(face->core);
    struct block_ramps block = {.core = face->core};
    if (!d || !atomic_load(&face->is_active)) return V3_NOT_INITIALIZED;
    bool is_whole =
        d->nframes <= 0 || ((d->symbolic_sample_size == V3_SAMPLE_32 || d->symbolic_sample_size == V3_SAMPLE_64) &&
                            vst3_is_complete(d->outputs, d->num_output_buses, v->n_out));
    bool plays = is_whole && d->nframes > 0;
    bool was_quiet = core_is_quiet(face->core);
    block.n = open_ramps(face, d->input_params, block.ramps);
    core_set_offline(face->core, d->process_mode == V3_OFFLINE || face->setup.process_mode == V3_OFFLINE);
    if (plays) vst3_play_block(face, d, &block);
    for (int i = 0; i < block.n; i++) ramp_apply(face->core, &block.ramps[i], ENDED - 1); /* the last point holds */
    if (!is_whole) return V3_INVALID_ARG;
    send_meters(face, d->output_params, plays ? d->nframes : 0);
    if (!plays)
        core_process(face->core, NULL, NULL, 0, NULL);
    else
        d->outputs->channel_silence_bitset = was_quiet && core_is_quiet(face->core) ? UINT64_MAX >> (64 - v->n_out) : 0;
    return V3_OK;
}
