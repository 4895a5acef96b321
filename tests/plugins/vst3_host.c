#include "vst3_host.h"
#include "trap.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { MAX_POINTS = 16 };

/* ---- the library -------------------------------------------------------------------------------- */

const char *vst3_file(void)
{
    static char path[4096];
    const char *build = getenv("BUILD"), *name = getenv("VST3_PLUGIN");
    char relative[2048], in_bundle[200];
    struct utsname machine;
    uname(&machine);
    snprintf(in_bundle, sizeof in_bundle, "haloconv.vst3/Contents/%s-linux/haloconv.so", machine.machine);
    snprintf(relative, sizeof relative, "%s/%s", build ? build : "build", name ? name : in_bundle);
    if (name && name[0] == '/') snprintf(relative, sizeof relative, "%s/%s", name, strchr(in_bundle, '/') + 1);
    check(realpath(relative, path), "%s: there is no plugin", relative);
    return path;
}

struct v3_plugin_factory_3 **vst3_factory(void)
{
    static struct v3_plugin_factory_3 **factory;
    if (factory) return factory;
    void *library = dlopen(vst3_file(), RTLD_NOW | RTLD_LOCAL);
    check(library, "%s", dlerror());
    bool (*enter)(void *);
    void *(*get)(void);
    *(void **)&enter = dlsym(library, "ModuleEntry");
    *(void **)&get = dlsym(library, "GetPluginFactory");
    check(enter && get && dlsym(library, "ModuleExit") && enter(library), "an entry is missing");
    struct v3_funknown **first = get();
    check((*first)->query_interface(first, v3_plugin_factory_3_iid, (void **)&factory) == V3_OK, "no third factory");
    return factory;
}

/* ---- the component handler ---------------------------------------------------------------------- */

#define HANDLER(self, part) ((struct vst3_handler *)(void *)((char *)(self)-offsetof(struct vst3_handler, part)))

static struct vst3_session *session_of(struct vst3_handler *h)
{
    return (struct vst3_session *)(void *)((char *)h - offsetof(struct vst3_session, handler));
}

static uint32_t V3_API handler_ref(void *self)
{
    return (uint32_t)++HANDLER(self, calls)->n_refs;
}

static uint32_t V3_API handler_unref(void *self)
{
    return (uint32_t)--HANDLER(self, calls)->n_refs;
}

static v3_result V3_API handler_query(void *self, const v3_tuid iid, void **to)
{
    *to = NULL;
    check(HANDLER(self, calls)->n_refs > 0, "a handler that is gone is called");
    if (!v3_tuid_match(iid, v3_component_handler2_iid)) return V3_NO_INTERFACE;
    handler_ref(self);
    *to = &HANDLER(self, calls)->more_calls;
    return V3_OK;
}

static v3_result note_edit(void *self, char kind, v3_param_id id, double value)
{
    struct vst3_handler *h = HANDLER(self, calls);
    check(h->n_edits < (int)(sizeof h->edits / sizeof *h->edits), "too many edits");
    h->edits[h->n_edits++] = (struct vst3_edit){kind, id, value};
    return V3_OK;
}

static v3_result V3_API handler_begin(void *self, v3_param_id id)
{
    return note_edit(self, '(', id, 0);
}

static v3_result V3_API handler_perform(void *self, v3_param_id id, double value)
{
    return note_edit(self, '=', id, value);
}

static v3_result V3_API handler_end(void *self, v3_param_id id)
{
    return note_edit(self, ')', id, 0);
}

static v3_result V3_API handler_restart(void *self, int32_t flags)
{
    struct vst3_handler *h = HANDLER(self, calls);
    struct v3_edit_controller **c = session_of(h)->controller;
    h->n_restarts += flags == V3_RESTART_PARAM_VALUES_CHANGED;
    if (h->leaves) (*c)->set_component_handler(c, NULL);
    return V3_OK;
}

static uint32_t V3_API more_unref(void *self)
{
    return (uint32_t)--HANDLER(self, more_calls)->n_refs;
}

static v3_result V3_API more_dirty(void *self, v3_bool is_dirty)
{
    struct vst3_handler *h = HANDLER(self, more_calls);
    h->n_dirty += is_dirty;
    check(vst3_save(session_of(h), h->state, 4096), "no state");
    return V3_OK;
}

static const struct v3_component_handler handler_calls = {.query_interface = handler_query,
                                                          .ref = handler_ref,
                                                          .unref = handler_unref,
                                                          .begin_edit = handler_begin,
                                                          .perform_edit = handler_perform,
                                                          .end_edit = handler_end,
                                                          .restart_component = handler_restart};
static const struct v3_component_handler2 handler2_calls = {.unref = more_unref, .set_dirty = more_dirty};

/* ---- the instance ------------------------------------------------------------------------------- */

struct vst3_session *vst3_open(const char *variant)
{
    struct v3_plugin_factory_3 **f = vst3_factory();
    struct vst3_session *s = must_alloc(1, sizeof *s);
    struct v3_class_info info;
    for (int v = 0; v < N_VARIANTS; v++)
        if (strcmp(variants[v].symbol, variant) == 0) s->variant = &variants[v];
    int class = 0;
    while ((*f)->get_class_info(f, class, &info) == V3_OK && strcmp(info.name, s->variant->name) != 0) class ++;
    check((*f)->create_instance(f, info.class_id, v3_component_iid, (void **)&s->component) == V3_OK, "%s", variant);
    struct v3_component **c = s->component;
    check((*c)->initialize(c, NULL) == V3_OK, "initialize failed");
    check((*c)->query_interface(c, v3_audio_processor_iid, (void **)&s->processor) == V3_OK, "no processor");
    check((*c)->query_interface(c, v3_edit_controller_iid, (void **)&s->controller) == V3_OK, "no controller");
    s->handler.calls = &handler_calls;
    s->handler.more_calls = &handler2_calls;
    (*s->controller)->set_component_handler(s->controller, (struct v3_component_handler **)&s->handler.calls);
    for (int i = 0; i < N_CONTROLS; i++) s->meters[i] = NAN;
    s->setup = (struct v3_process_setup){V3_OFFLINE, V3_SAMPLE_32, 0, 48000};
    return s;
}

void vst3_close(struct vst3_session *s)
{
    check((*s->component)->terminate(s->component) == V3_OK, "terminate failed");
    check(s->handler.n_refs == 0, "%d references to the host are left", s->handler.n_refs);
    check((*s->controller)->unref(s->controller) == 2 && (*s->processor)->unref(s->processor) == 1 &&
              (*s->component)->unref(s->component) == 0,
          "references are left");
    free(s);
}

void vst3_activate(struct vst3_session *s, int max_frames)
{
    s->setup.max_block_size = max_frames;
    check((*s->processor)->setup_processing(s->processor, &s->setup) == V3_OK, "setup_processing failed");
    check((*s->component)->set_active(s->component, true) == V3_OK, "set_active failed");
    check((*s->processor)->set_processing(s->processor, true) == V3_OK, "set_processing failed");
}

void vst3_deactivate(struct vst3_session *s)
{
    (*s->processor)->set_processing(s->processor, false);
    check((*s->component)->set_active(s->component, false) == V3_OK, "set_active failed");
}

/* ---- automation --------------------------------------------------------------------------------- */

static struct queue {
    const struct v3_param_value_queue *calls;
    v3_param_id id;
    int n, frames[MAX_POINTS];
    double values[MAX_POINTS];
} queues[N_CONTROLS];
static int n_queues;
static bool are_sent;

static v3_param_id V3_API queue_id(void *self)
{
    return ((struct queue *)self)->id;
}

static int32_t V3_API queue_count(void *self)
{
    return ((struct queue *)self)->n;
}

static v3_result V3_API queue_point(void *self, int32_t i, int32_t *frame, double *value)
{
    const struct queue *q = self;
    if (i < 0 || i >= q->n) return V3_INVALID_ARG;
    *frame = q->frames[i];
    *value = q->values[i];
    return V3_OK;
}

static int32_t V3_API changes_count(void *self)
{
    return n_queues;
}

static struct v3_param_value_queue **V3_API changes_queue(void *self, int32_t i)
{
    return i >= 0 && i < n_queues ? (struct v3_param_value_queue **)&queues[i] : NULL;
}

void vst3_point(struct vst3_session *s, enum control control, double value, int frame)
{
    static const struct v3_param_value_queue calls = {
        .get_param_id = queue_id, .get_point_count = queue_count, .get_point = queue_point};
    v3_param_id id = control_id(control);
    if (are_sent) n_queues = 0;
    are_sent = false;
    int i = 0;
    while (i < n_queues && queues[i].id != id) i++;
    if (i == n_queues) queues[n_queues++] = (struct queue){.calls = &calls, .id = id};
    struct queue *q = &queues[i];
    check(q->n < MAX_POINTS, "too many points");
    q->frames[q->n] = frame;
    if (isfinite(value)) value = (*s->controller)->plain_parameter_to_normalised(s->controller, id, value);
    q->values[q->n++] = value;
}

struct v3_param_changes **vst3_points(void)
{
    static const struct v3_param_changes calls = {.get_param_count = changes_count, .get_param_data = changes_queue};
    static const struct v3_param_changes *changes = &calls;
    if (are_sent) n_queues = 0;
    are_sent = true;
    return (struct v3_param_changes **)&changes;
}

/* ---- meters ------------------------------------------------------------------------------------- */

static struct meter {
    const struct v3_param_value_queue *calls;
    struct vst3_session *s;
    int control;
} meter;

static v3_result V3_API meter_add_point(void *self, int32_t frame, double value, int32_t *index)
{
    const struct meter *m = self;
    check(value >= 0 && value <= 1, "a meter of %g", value);
    m->s->meters[m->control] = value;
    *index = 0;
    return frame == 0 ? V3_OK : V3_INVALID_ARG;
}

static struct v3_param_value_queue **V3_API meter_add(void *self, v3_param_id *id, int32_t *index)
{
    static const struct v3_param_value_queue calls = {.add_point = meter_add_point};
    meter.calls = &calls;
    meter.control = control_with_id(*id);
    check(meter.control < N_CONTROLS, "a block sends parameter %x", *id);
    *index = 0;
    return (struct v3_param_value_queue **)(void *)&meter;
}

static struct v3_param_changes **meters_of(struct vst3_session *s)
{
    static const struct v3_param_changes calls = {.add_param_data = meter_add};
    static const struct v3_param_changes *changes = &calls;
    meter.s = s;
    return (struct v3_param_changes **)&changes;
}

double vst3_get(struct vst3_session *s, enum control control)
{
    v3_param_id id = control_id(control);
    return (*s->controller)
        ->normalised_parameter_to_plain(s->controller, id,
                                        (*s->controller)->get_parameter_normalised(s->controller, id));
}

/* ---- blocks ------------------------------------------------------------------------------------- */

v3_result vst3_block(struct vst3_session *s, struct v3_process_data *data)
{
    bool is_trapped = s->is_trapped && data->process_mode != V3_OFFLINE;
    if (is_trapped) trap_arm();
    v3_result result = (*s->processor)->process(s->processor, data);
    const char *caught = is_trapped ? trap_disarm() : NULL;
    if (!s->caught) s->caught = caught;
    return result;
}

v3_result vst3_play(struct vst3_session *s, void *const *in, void *const *out, int n)
{
    struct v3_audio_bus_buffers from = {.num_channels = s->variant->n_in,
                                        .channel_buffers_32 = (float **)(uintptr_t)in};
    struct v3_audio_bus_buffers to = {.num_channels = s->variant->n_out,
                                      .channel_buffers_32 = (float **)(uintptr_t)out};
    const v3_result result =
        vst3_block(s, &(struct v3_process_data){.process_mode = s->setup.process_mode,
                                                .symbolic_sample_size = s->setup.symbolic_sample_size,
                                                .nframes = n,
                                                .num_input_buses = 1,
                                                .num_output_buses = 1,
                                                .inputs = &from,
                                                .outputs = &to,
                                                .input_params = vst3_points(),
                                                .output_params = meters_of(s)});
    s->n_silent = __builtin_popcountll(to.channel_silence_bitset);
    return result;
}

/* ---- state -------------------------------------------------------------------------------------- */

struct stream {
    const struct v3_bstream *calls;
    char *text;
    size_t length, at;
    int chunk;
};

static v3_result V3_API stream_write(void *self, void *bytes, int32_t size, int32_t *done)
{
    struct stream *t = self;
    *done = size < t->chunk ? size : t->chunk;
    check(t->at + (size_t)*done < t->length, "the state is too long");
    memcpy(t->text + t->at, bytes, (size_t)*done);
    t->text[t->at += (size_t)*done] = '\0';
    return V3_OK;
}

static v3_result V3_API stream_read(void *self, void *bytes, int32_t size, int32_t *done)
{
    struct stream *t = self;
    size_t n = size < t->chunk ? (size_t)size : (size_t)t->chunk;
    if (n > t->length - t->at) n = t->length - t->at;
    memcpy(bytes, t->text + t->at, n);
    t->at += n;
    *done = (int32_t)n;
    return t->chunk % 2 == 1 && t->at == t->length ? V3_FALSE : V3_OK;
}

static const struct v3_bstream stream_calls = {.read = stream_read, .write = stream_write};

bool vst3_save(struct vst3_session *s, char *text, int chunk)
{
    struct stream to = {&stream_calls, text, 32768, 0, chunk};
    text[0] = '\0';
    return (*s->component)->get_state(s->component, (struct v3_bstream **)&to) == V3_OK;
}

bool vst3_load(struct vst3_session *s, const char *text, size_t length, int chunk)
{
    struct stream from = {&stream_calls, (char *)(uintptr_t)text, length, 0, chunk};
    return (*s->component)->set_state(s->component, (struct v3_bstream **)&from) == V3_OK;
}
