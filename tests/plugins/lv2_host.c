#include "lv2_host.h"
#include "trap.h"

#include <dlfcn.h>
#include <lv2/atom/atom.h>
#include <lv2/atom/forge.h>
#include <lv2/atom/util.h>
#include <lv2/buf-size/buf-size.h>
#include <lv2/log/log.h>
#include <lv2/options/options.h>
#include <lv2/patch/patch.h>
#include <lv2/state/state.h>
#include <lv2/urid/urid.h>
#include <lv2/worker/worker.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_BYTES = 1 << 16, LOG_BYTES = 1 << 16 };

/* One writer, one reader, no lock: the audio thread is at one end of it. */
struct queue {
    atomic_size_t head, tail;
    char bytes[QUEUE_BYTES];
};

struct lv2_host {
    const struct variant *variant;
    const LV2_Descriptor *descriptor;
    LV2_Handle instance;
    const LV2_Worker_Interface *work;
    const LV2_State_Interface *state;
    enum lv2_host_worker worker;
    LV2_URID_Map map;
    LV2_Worker_Schedule schedule;
    LV2_Log_Log log;
    float control[N_CONTROLS];
    LV2_Atom_Forge forge;
    _Alignas(8) uint8_t in[MESSAGE_BYTES], out[MESSAGE_BYTES];
    LV2_Atom_Forge_Frame sequence;
    char notified[N_SIDES][4096], status[2048];
    bool trapped, drops_work;
    const char *caught;
    struct queue requests, answers;
    pthread_t thread;
    atomic_bool end, working;
    pthread_mutex_t log_lock;
    char text[LOG_BYTES], shown[LOG_BYTES];
};

/* ---- URIs: one table for the program ------------------------------------------------------------ */

static pthread_mutex_t uri_lock = PTHREAD_MUTEX_INITIALIZER;
static char uris[256][96];
static uint32_t n_uris;

static LV2_URID map_uri(void *handle, const char *uri)
{
    pthread_mutex_lock(&uri_lock);
    uint32_t i = 0;
    while (i < n_uris && strcmp(uris[i], uri) != 0) i++;
    if (i == n_uris && n_uris < 256) snprintf(uris[n_uris++], sizeof *uris, "%s", uri);
    pthread_mutex_unlock(&uri_lock);
    return i + 1;
}

static LV2_URID id(const char *uri)
{
    return map_uri(NULL, uri);
}

/* ---- the log ------------------------------------------------------------------------------------ */

static int log_v(void *handle, LV2_URID type, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
static int log_v(void *handle, LV2_URID type, const char *format, va_list args)
{
    struct lv2_host *h = handle;
    const char *kind = type == id(LV2_LOG__Error) ? "error: " : type == id(LV2_LOG__Warning) ? "warning: " : "note: ";
    pthread_mutex_lock(&h->log_lock);
    size_t used = strlen(h->text);
    int n = snprintf(h->text + used, sizeof h->text - used, "%s", kind);
    used += (size_t)n;
    if (used < sizeof h->text) vsnprintf(h->text + used, sizeof h->text - used, format, args);
    pthread_mutex_unlock(&h->log_lock);
    return n;
}

static int log_f(void *handle, LV2_URID type, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int log_f(void *handle, LV2_URID type, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = log_v(handle, type, format, args);
    va_end(args);
    return n;
}

const char *lv2_host_log(struct lv2_host *h)
{
    pthread_mutex_lock(&h->log_lock);
    memcpy(h->shown, h->text, sizeof h->shown);
    h->text[0] = '\0';
    pthread_mutex_unlock(&h->log_lock);
    return h->shown;
}

/* ---- the worker --------------------------------------------------------------------------------- */

static void queue_copy(struct queue *q, size_t at, void *data, size_t n, bool in)
{
    for (size_t i = 0; i < n; i++) {
        char *byte = &q->bytes[(at + i) % QUEUE_BYTES];
        if (in)
            *byte = ((const char *)data)[i];
        else
            ((char *)data)[i] = *byte;
    }
}

static bool queue_push(struct queue *q, uint32_t size, const void *data)
{
    size_t head = atomic_load(&q->head), tail = atomic_load(&q->tail);
    if (head - tail + size + sizeof size > QUEUE_BYTES) return false;
    queue_copy(q, head, &size, sizeof size, true);
    queue_copy(q, head + sizeof size, (void *)(uintptr_t)data, size, true);
    atomic_store(&q->head, head + sizeof size + size);
    return true;
}

/* The size of the next item, copied to data; 0 = none. */
static uint32_t queue_pop(struct queue *q, void *data)
{
    size_t tail = atomic_load(&q->tail);
    uint32_t size;
    if (atomic_load(&q->head) == tail) return 0;
    queue_copy(q, tail, &size, sizeof size, false);
    queue_copy(q, tail + sizeof size, data, size, false);
    atomic_store(&q->tail, tail + sizeof size + size);
    return size;
}

static LV2_Worker_Status respond_queued(LV2_Worker_Respond_Handle handle, uint32_t size, const void *data)
{
    struct lv2_host *h = handle;
    return queue_push(&h->answers, size, data) ? LV2_WORKER_SUCCESS : LV2_WORKER_ERR_NO_SPACE;
}

static LV2_Worker_Status respond_at_once(LV2_Worker_Respond_Handle handle, uint32_t size, const void *data)
{
    struct lv2_host *h = handle;
    return h->work->work_response(h->instance, size, data);
}

static LV2_Worker_Status schedule_work(LV2_Worker_Schedule_Handle handle, uint32_t size, const void *data)
{
    struct lv2_host *h = handle;
    if (h->drops_work) return LV2_WORKER_SUCCESS;
    if (h->worker == WORKER_AT_ONCE) return h->work->work(h->instance, respond_at_once, h, size, data);
    if (h->worker == WORKER_AFTER_RUN) return h->work->work(h->instance, respond_queued, h, size, data);
    return queue_push(&h->requests, size, data) ? LV2_WORKER_SUCCESS : LV2_WORKER_ERR_NO_SPACE;
}

static void *work_thread(void *arg)
{
    struct lv2_host *h = arg;
    static _Thread_local char data[QUEUE_BYTES];
    while (!atomic_load(&h->end)) {
        atomic_store(&h->working, true);
        uint32_t size = queue_pop(&h->requests, data);
        if (size) h->work->work(h->instance, respond_queued, h, size, data);
        atomic_store(&h->working, false);
        if (!size) pause_us(200);
    }
    return NULL;
}

bool lv2_host_busy(struct lv2_host *h)
{
    return atomic_load(&h->requests.head) != atomic_load(&h->requests.tail) || atomic_load(&h->working) ||
           atomic_load(&h->answers.head) != atomic_load(&h->answers.tail);
}

/* ---- open and close ----------------------------------------------------------------------------- */

const char *lv2_host_bundle(void)
{
    static char path[4096];
    const char *build = getenv("BUILD"), *bundle = getenv("LV2_BUNDLE");
    char relative[2048];
    snprintf(relative, sizeof relative, "%s/%s", build ? build : "build", bundle ? bundle : "haloconv.lv2");
    char *absolute = realpath(relative, NULL);
    check(absolute, "%s: there is no bundle", relative);
    snprintf(path, sizeof path, "%s/", absolute);
    free(absolute);
    return path;
}

static LV2_Descriptor_Function lv2_entry(void)
{
    static LV2_Descriptor_Function entry;
    if (entry) return entry;
    char path[4200];
    snprintf(path, sizeof path, "%shaloconv.so", lv2_host_bundle());
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(library, "%s", dlerror());
    *(void **)&entry = dlsym(library, "lv2_descriptor");
    check(entry, "%s", dlerror());
    return entry;
}

static void begin_messages(struct lv2_host *h)
{
    lv2_atom_forge_set_buffer(&h->forge, h->in, sizeof h->in);
    lv2_atom_forge_sequence_head(&h->forge, &h->sequence, 0);
}

struct lv2_host *lv2_host_open(const char *variant, double rate, int frames, int nominal, enum lv2_host_worker worker)
{
    struct lv2_host *h = must_alloc(1, sizeof *h);
    int v = 0;
    while (v < N_VARIANTS && strcmp(variants[v].symbol, variant) != 0) v++;
    check(v < N_VARIANTS, "no variant %s", variant);
    h->variant = &variants[v];
    h->worker = worker;
    pthread_mutex_init(&h->log_lock, NULL);
    h->map = (LV2_URID_Map){h, map_uri};
    h->schedule = (LV2_Worker_Schedule){h, schedule_work};
    h->log = (LV2_Log_Log){h, log_f, log_v};
    lv2_atom_forge_init(&h->forge, &h->map);
    int32_t min_frames = nominal < 0 ? frames : 0, max_frames = frames, usual = nominal < 0 ? 0 : nominal;
    LV2_Options_Option options[] = {
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__minBlockLength), sizeof min_frames, id(LV2_ATOM__Int), &min_frames},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__maxBlockLength), sizeof max_frames, id(LV2_ATOM__Int), &max_frames},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__nominalBlockLength), sizeof usual, id(LV2_ATOM__Int), &usual},
        {LV2_OPTIONS_INSTANCE, 0, 0, 0, 0, NULL},
    };
    const LV2_Feature map = {LV2_URID__map, &h->map}, log = {LV2_LOG__log, &h->log},
                      schedule = {LV2_WORKER__schedule, &h->schedule}, said = {LV2_OPTIONS__options, options};
    const LV2_Feature *features[5] = {&map, &log};
    int n = 2;
    if (worker != WORKER_NONE) features[n++] = &schedule;
    if (nominal != 0) features[n++] = &said;

    h->descriptor = lv2_entry()((uint32_t)v);
    check(h->descriptor && strcmp(h->descriptor->URI + strlen(PLUGIN_URI), variant) == 0, "descriptor %d is not %s", v,
          variant);
    h->instance = h->descriptor->instantiate(h->descriptor, rate, lv2_host_bundle(), features);
    check(h->instance, "%s cannot be instantiated: %s", variant, h->text);
    h->work = h->descriptor->extension_data(LV2_WORKER__interface);
    h->state = h->descriptor->extension_data(LV2_STATE__interface);
    check(h->work && h->state, "no worker or no state interface");
    uint32_t port = (uint32_t)(h->variant->n_in + h->variant->n_out);
    for (int c = 0; c < N_CONTROLS; c++) {
        h->control[c] = controls[c].initial;
        if (c == TRIM) { /* the ports of messages were the last ones before this control came */
            h->descriptor->connect_port(h->instance, port++, h->in);
            h->descriptor->connect_port(h->instance, port++, h->out);
        }
        if (variant_has(h->variant, c)) h->descriptor->connect_port(h->instance, port++, &h->control[c]);
    }
    begin_messages(h);
    if (worker == WORKER_THREAD) check(pthread_create(&h->thread, NULL, work_thread, h) == 0, "pthread_create");
    return h;
}

/* Work and answers that are under way are dropped, as a host that is closed in a hurry does. */
void lv2_host_meters(struct lv2_host *h, struct core_meters *meters)
{
    const struct plugin_meters *from = h->descriptor->extension_data(METERS_URI);
    check(from, "the plugin has no meters");
    from->get(h->instance, meters);
}

void lv2_host_close(struct lv2_host *h)
{
    if (h->worker == WORKER_THREAD) {
        atomic_store(&h->end, true);
        pthread_join(h->thread, NULL);
    }
    h->descriptor->cleanup(h->instance);
    pthread_mutex_destroy(&h->log_lock);
    free(h);
}

/* ---- ports and messages ------------------------------------------------------------------------- */

float *lv2_host_control(struct lv2_host *h, enum control control)
{
    return &h->control[control];
}

void lv2_host_connect_audio(struct lv2_host *h, float *const *in, float *const *out)
{
    uint32_t port = 0;
    for (int ch = 0; ch < h->variant->n_in; ch++) h->descriptor->connect_port(h->instance, port++, in[ch]);
    for (int ch = 0; ch < h->variant->n_out; ch++) h->descriptor->connect_port(h->instance, port++, out[ch]);
}

void lv2_host_send_mask(struct lv2_host *h, const char *path, int frame)
{
    lv2_host_send_side(h, SIDE_A, path, frame);
}

void lv2_host_send_side(struct lv2_host *h, int side, const char *path, int frame)
{
    LV2_Atom_Forge_Frame object;
    lv2_atom_forge_frame_time(&h->forge, frame);
    lv2_atom_forge_object(&h->forge, &object, 0, id(LV2_PATCH__Set));
    lv2_atom_forge_key(&h->forge, id(LV2_PATCH__property));
    lv2_atom_forge_urid(&h->forge, id(variant_file_uri(h->variant, side)));
    lv2_atom_forge_key(&h->forge, id(LV2_PATCH__value));
    lv2_atom_forge_path(&h->forge, path, (uint32_t)strlen(path));
    lv2_atom_forge_pop(&h->forge, &object);
}

void lv2_host_send_get(struct lv2_host *h)
{
    LV2_Atom_Forge_Frame object;
    lv2_atom_forge_frame_time(&h->forge, 0);
    lv2_atom_forge_object(&h->forge, &object, 0, id(LV2_PATCH__Get));
    lv2_atom_forge_key(&h->forge, id(LV2_PATCH__property));
    lv2_atom_forge_urid(&h->forge, id(variant_file_uri(h->variant, SIDE_A)));
    lv2_atom_forge_pop(&h->forge, &object);
}

void lv2_host_send_junk(struct lv2_host *h, unsigned kind)
{
    LV2_Atom_Forge_Frame object;
    lv2_atom_forge_frame_time(&h->forge, kind % 7);
    if (kind % 5 == 0) {
        lv2_atom_forge_int(&h->forge, 5);
        return;
    }
    lv2_atom_forge_object(&h->forge, &object, 0, id(kind % 5 == 1 ? LV2_PATCH__Put : LV2_PATCH__Set));
    if (kind % 5 > 1) {
        lv2_atom_forge_key(&h->forge, id(LV2_PATCH__property));
        lv2_atom_forge_urid(&h->forge,
                            kind % 5 == 2 ? id("urn:nothing:known") : id(variant_file_uri(h->variant, SIDE_A)));
    }
    if (kind % 5 > 2) {
        lv2_atom_forge_key(&h->forge, id(LV2_PATCH__value));
        if (kind % 5 == 3)
            lv2_atom_forge_float(&h->forge, 1); /* what jalv's prompt sends for a path */
        else
            lv2_atom_forge_path(&h->forge, "", 0);
    }
    lv2_atom_forge_pop(&h->forge, &object);
}

static void listen(struct lv2_host *h)
{
    LV2_Atom_Sequence *out = (LV2_Atom_Sequence *)(void *)h->out;
    if (out->atom.type != id(LV2_ATOM__Sequence)) return;
    LV2_ATOM_SEQUENCE_FOREACH(out, event)
    {
        const LV2_Atom *property = NULL, *value = NULL;
        const LV2_Atom_Object *object = (const LV2_Atom_Object *)&event->body;
        check(object->atom.type == id(LV2_ATOM__Object) && object->body.otype == id(LV2_PATCH__Set),
              "the plugin sent a message other than patch:Set");
        lv2_atom_object_get(object, id(LV2_PATCH__property), &property, id(LV2_PATCH__value), &value, 0);
        LV2_URID of = property ? ((const LV2_Atom_URID *)property)->body : 0;
        bool is_status = of == id(STATUS_URI);
        int side = of == id(variant_file_uri(h->variant, SIDE_B)) ? SIDE_B : SIDE_A;
        check(value && (is_status || of == id(variant_file_uri(h->variant, side))) &&
                  value->type == id(is_status ? LV2_ATOM__String : LV2_ATOM__Path),
              "the plugin sent a patch:Set that is neither of a mask's path nor of the status");
        snprintf(is_status ? h->status : h->notified[side], is_status ? sizeof h->status : sizeof h->notified[side],
                 "%.*s", (int)value->size, (const char *)(value + 1));
    }
}

const char *lv2_host_notified(struct lv2_host *h)
{
    return lv2_host_notified_side(h, SIDE_A);
}

const char *lv2_host_notified_side(struct lv2_host *h, int side)
{
    static char notified[N_SIDES][4096];
    memcpy(notified[side], h->notified[side], sizeof notified[side]);
    h->notified[side][0] = '\0';
    return notified[side];
}

const char *lv2_host_status(struct lv2_host *h)
{
    static char status[2048];
    memcpy(status, h->status, sizeof status);
    h->status[0] = '\0';
    return status;
}

void lv2_host_activate(struct lv2_host *h)
{
    h->descriptor->activate(h->instance);
}

void lv2_host_deactivate(struct lv2_host *h)
{
    h->descriptor->deactivate(h->instance);
}

void lv2_host_drop_work(struct lv2_host *h, bool drops)
{
    h->drops_work = drops;
}

const char *lv2_host_caught(struct lv2_host *h)
{
    const char *caught = h->caught;
    h->trapped = true;
    h->caught = NULL;
    return caught;
}

void lv2_host_run(struct lv2_host *h, int n)
{
    LV2_Atom_Sequence *out = (LV2_Atom_Sequence *)(void *)h->out;
    static char data[QUEUE_BYTES];
    lv2_atom_forge_pop(&h->forge, &h->sequence);
    out->atom.type = id(LV2_ATOM__Chunk);
    out->atom.size = sizeof h->out - sizeof(LV2_Atom);
    if (h->trapped) trap_arm();
    h->descriptor->run(h->instance, (uint32_t)n);
    for (uint32_t size; (size = queue_pop(&h->answers, data)) > 0;) h->work->work_response(h->instance, size, data);
    const char *caught = h->trapped ? trap_disarm() : NULL;
    if (caught && !h->caught) h->caught = caught;
    listen(h);
    begin_messages(h);
}

/* ---- state -------------------------------------------------------------------------------------- */

static LV2_State_Status store(LV2_State_Handle handle, uint32_t key, const void *value, size_t size, uint32_t type,
                              uint32_t flags)
{
    struct lv2_host_state *s = handle;
    if (s->size > 0 && !s->second && size == 1) return LV2_STATE_SUCCESS; /* the empty side of a test without it */
    if (s->size > 0 && s->second) s = s->second;
    check(s->size == 0, "the plugin stores a property too many");
    if (size > sizeof s->value) return LV2_STATE_ERR_NO_SPACE;
    s->key = key;
    s->type = type;
    s->flags = flags;
    s->size = size;
    memcpy(s->value, value, size);
    return LV2_STATE_SUCCESS;
}

static const void *retrieve(LV2_State_Handle handle, uint32_t key, size_t *size, uint32_t *type, uint32_t *flags)
{
    const struct lv2_host_state *s = handle;
    if (s->second && key == s->second->key) s = s->second;
    if (s->size == 0 || key != s->key) return NULL;
    *size = s->size;
    *type = s->type;
    *flags = s->flags;
    return s->value;
}

static char *to_abstract(LV2_State_Map_Path_Handle handle, const char *path)
{
    char *mapped = must_alloc(strlen(path) + 10, 1);
    sprintf(mapped, "session:%s", path);
    return mapped;
}

static char *to_absolute(LV2_State_Map_Path_Handle handle, const char *path)
{
    check(strncmp(path, "session:", 8) == 0, "%s was not mapped when it was saved", path);
    return strcpy(must_alloc(strlen(path), 1), path + 8);
}

static void free_path(LV2_State_Free_Path_Handle handle, char *path)
{
    free(path);
}

static LV2_State_Map_Path map_path = {NULL, to_abstract, to_absolute};
static LV2_State_Free_Path freer = {NULL, free_path};
static const LV2_Feature map_feature = {LV2_STATE__mapPath, &map_path}, free_feature = {LV2_STATE__freePath, &freer};

int lv2_host_save(struct lv2_host *h, struct lv2_host_state *state, bool map_paths)
{
    const LV2_Feature *features[] = {map_paths ? &map_feature : NULL, &free_feature, NULL};
    state->size = 0;
    if (state->second) state->second->size = 0;
    return h->state->save(h->instance, store, state, LV2_STATE_IS_POD, features);
}

int lv2_host_restore(struct lv2_host *h, const struct lv2_host_state *state, bool map_paths, bool with_schedule)
{
    const LV2_Feature schedule = {LV2_WORKER__schedule, &h->schedule};
    const LV2_Feature *features[4] = {NULL};
    int n = 0;
    if (map_paths) {
        features[n++] = &map_feature;
        features[n++] = &free_feature;
    }
    if (with_schedule) features[n++] = &schedule;
    return h->state->restore(h->instance, retrieve, (void *)(uintptr_t)state, 0, features);
}
