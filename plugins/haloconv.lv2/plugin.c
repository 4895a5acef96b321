/* plugin - the LV2 side of an instance: ports, messages, the worker and the state.
 *
 *   run()  patch:Set, backend, a lost GPU --- WORK_LOAD --->  work()  a convolver that plays the mask and heard the
 * history work_response()  fade over to it      <--- answer ----- run()  what is no longer played       --- WORK_CLOSE
 * -->  work()  frees it
 *
 * Threads, by LV2's classes: "audio" is run(), connect_port() and work_response(); "worker" is work(), one at a time;
 * "setup" is instantiate(), activate(), deactivate(), restore() without a schedule, cleanup(). A host may call work()
 * out of schedule_work() in run(), and work_response() out of that: nothing here is in the middle of anything then.
 */
#include "messages.h"
#include "ports.h"
#include "stage.h"

#include <lv2/atom/atom.h>
#include <lv2/atom/forge.h>
#include <lv2/atom/util.h>
#include <lv2/core/lv2.h>
#include <lv2/core/lv2_util.h>
#include <lv2/log/logger.h>
#include <lv2/options/options.h>
#include <lv2/state/state.h>
#include <lv2/worker/worker.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STANDARD_BLOCK = 128, /* frames, for a host that does not say */
    MOST_BLOCK = 4096,
    MOST_REMARKS = 10, /* about a configuration, in the log */
    PATH_BYTES = 4096,
    WHY_BYTES = 1024 + PATH_BYTES,
};

static const char *const backends[] = {[BACKEND_AUTO] = "auto", [BACKEND_CPU] = "cpu", [BACKEND_GPU] = "cuda"};

struct plugin {
    const struct variant *variant;
    char *bundle; /* folder, ends in / */
    struct convolver_shape shape;

    LV2_URID_Map *map;             /* NULL: no messages */
    LV2_Worker_Schedule *schedule; /* NULL: the mask that activate() loads stays */
    LV2_Log_Logger log;
    struct uris uris;
    LV2_Atom_Forge forge;

    /* audio */
    const float *in[MOST_CHANNELS];
    float *out[MOST_CHANNELS];
    float *control[N_CONTROLS];
    const LV2_Atom_Sequence *messages_in;
    LV2_Atom_Sequence *messages_out;
    struct stage stage;
    int backend;       /* the control's, as it was acted upon */
    bool tell;         /* the mask's path goes out with the next run() */
    double late_score; /* blocks that were late of late */
    uint64_t late_seen;
    float load;         /* percent, smoothed */
    unsigned installed; /* serial of the newest answer: an older one comes too late */

    bool active, stale;     /* setup; stale: `path` is not what plays */
    atomic_int load_on;     /* the backend for the next WORK_LOAD: the control's, or the CPU after a GPU failed */
    atomic_uint last_asked; /* serial of the newest WORK_LOAD: older ones need not be done */

    /* Worker and setup; a host may run them beside each other. Never held while the host is called. */
    pthread_mutex_t load_lock;
    struct convolver *all; /* every convolver that is not closed */

    pthread_mutex_t path_lock; /* worker, setup and save() */
    char path[PATH_BYTES];     /* of the mask that plays, or that was restored and could not be read; "" = none yet */
};

enum cause { CAUSE_NONE, CAUSE_LOST, CAUSE_LATE }; /* why a GPU gives way to the CPU */

struct work {
    enum { WORK_LOAD, WORK_CLOSE } what;
    unsigned serial;             /* WORK_LOAD */
    int backend;                 /* WORK_LOAD */
    enum cause cause;            /* WORK_LOAD */
    bool restored;               /* WORK_LOAD: path is kept for save() even if it cannot be read */
    struct convolver *convolver; /* WORK_CLOSE */
    char path[PATH_BYTES];       /* WORK_LOAD; "" = as it is. Last, so that a message is as long as its path */
};

struct answer {
    unsigned serial;
    struct convolver *convolver; /* NULL: it failed, and what plays goes on */
};

/* ---- loading: worker and setup ------------------------------------------------------------------ */

static void path_set(struct plugin *p, const char *path)
{
    pthread_mutex_lock(&p->path_lock);
    snprintf(p->path, sizeof p->path, "%s", path);
    pthread_mutex_unlock(&p->path_lock);
}

static void path_get(struct plugin *p, char path[PATH_BYTES])
{
    pthread_mutex_lock(&p->path_lock);
    memcpy(path, p->path, sizeof p->path);
    pthread_mutex_unlock(&p->path_lock);
}

static int open_convolver(struct plugin *p, const char *backend, const hc_responses *responses, const char *path,
                          struct convolver **convolver, char *why, size_t cap)
{
    int error = convolver_open(&p->shape, backend, responses, path, convolver, why, cap);
    if (error && strcmp(backend, backends[BACKEND_GPU]) == 0) {
        lv2_log_warning(&p->log, "haloconv: %s; the CPU plays\n", why);
        error = convolver_open(&p->shape, backends[BACKEND_CPU], responses, path, convolver, why, cap);
    }
    if (!error) error = convolver_hear(*convolver, &p->stage.history, why, cap);
    if (error) {
        convolver_close(*convolver);
        *convolver = NULL;
        return error;
    }
    (*convolver)->older = p->all;
    p->all = *convolver;
    return HC_OK;
}

static void forget(struct plugin *p, struct convolver *convolver)
{
    for (struct convolver **link = &p->all; *link; link = &(*link)->older)
        if (*link == convolver) {
            *link = convolver->older;
            break;
        }
    convolver_close(convolver);
}

static void say_what_plays(struct plugin *p, struct convolver *convolver, const hc_responses *responses,
                           const char *path)
{
    hc_info info = {.size = sizeof info};
    if (!p->log.log) return; /* this is no error: not on standard error */
    hc_get_info(convolver->engine, &info);
    lv2_log_note(&p->log, "haloconv: %s: %d frames at %d Hz, %d routes; %s, %s\n", path, responses->n_frames,
                 p->shape.rate, responses->n_routes, info.device, info.method);
}

/* Under load_lock. */
static void say_why_the_cpu(struct plugin *p, enum cause cause)
{
    hc_info info = {.size = sizeof info, .device = "the GPU", .error = "its blocks come too late"};
    for (const struct convolver *c = p->all; c && cause == CAUSE_LOST; c = c->older) {
        hc_get_info(c->engine, &info);
        if (info.error[0]) break;
    }
    lv2_log_warning(&p->log, "haloconv: %s: %s; the CPU goes on in its place\n", info.device, info.error);
}

/* Read a mask and make what plays it. On failure what plays goes on, and the log has the reason. Under load_lock. */
static struct answer load(struct plugin *p, const char *path, int backend, unsigned serial)
{
    struct answer answer = {.serial = serial};
    hc_responses responses;
    char why[WHY_BYTES] = "";
    int error = responses_fit(path, &p->shape, &responses, why, sizeof why);
    for (int i = 0; !error && i < responses.n_remarks && i < MOST_REMARKS; i++)
        lv2_log_warning(&p->log, "haloconv: %s\n", responses.remarks[i].text);
    if (!error) error = open_convolver(p, backends[backend], &responses, path, &answer.convolver, why, sizeof why);
    if (error)
        lv2_log_error(&p->log, "haloconv: %s\n", why);
    else
        say_what_plays(p, answer.convolver, &responses, path);
    hc_responses_free(&responses);
    return answer;
}

/* As load, on a thread that may install the answer itself. What was asked for before is done with. */
static struct answer load_here(struct plugin *p, const char *path)
{
    pthread_mutex_lock(&p->load_lock);
    unsigned serial = atomic_fetch_add(&p->last_asked, 1) + 1;
    path_set(p, path);
    struct answer answer = load(p, path, atomic_load(&p->load_on), serial);
    pthread_mutex_unlock(&p->load_lock);
    return answer;
}

static LV2_Worker_Status work(LV2_Handle handle, LV2_Worker_Respond_Function respond, LV2_Worker_Respond_Handle to,
                              uint32_t size, const void *data)
{
    struct plugin *p = handle;
    struct work w = {0};
    struct answer answer;
    memcpy(&w, data, size < sizeof w ? size : sizeof w);
    pthread_mutex_lock(&p->load_lock);
    if (w.what == WORK_CLOSE) forget(p, w.convolver);
    bool wanted = w.what == WORK_LOAD && w.serial == atomic_load(&p->last_asked);
    if (wanted) {
        if (w.cause != CAUSE_NONE) say_why_the_cpu(p, w.cause);
        if (w.path[0] == '\0') path_get(p, w.path);
        answer = load(p, w.path, w.backend, w.serial);
        if (answer.convolver || w.restored) path_set(p, w.path);
    }
    pthread_mutex_unlock(&p->load_lock);
    if (!wanted) return LV2_WORKER_SUCCESS;
    LV2_Worker_Status status = respond(to, sizeof answer, &answer);
    if (status != LV2_WORKER_SUCCESS) {
        lv2_log_error(&p->log, "haloconv: %s: the host took no answer from the worker; try again\n", w.path);
        pthread_mutex_lock(&p->load_lock);
        if (answer.convolver) forget(p, answer.convolver);
        pthread_mutex_unlock(&p->load_lock);
    }
    return status;
}

/* ---- the audio thread's half of it -------------------------------------------------------------- */

static bool ask(LV2_Worker_Schedule *schedule, const struct work *w)
{
    uint32_t size = (uint32_t)(offsetof(struct work, path) + strlen(w->path) + 1);
    return schedule && schedule->schedule_work(schedule->handle, size, w) == LV2_WORKER_SUCCESS;
}

static bool ask_to_load(struct plugin *p, LV2_Worker_Schedule *schedule, const char *path, size_t length, bool restored,
                        enum cause cause)
{
    struct work w = {.what = WORK_LOAD, .restored = restored, .cause = cause};
    if (length >= sizeof w.path) return false;
    memcpy(w.path, path, length);
    w.backend = atomic_load(&p->load_on);
    w.serial = atomic_fetch_add(&p->last_asked, 1) + 1;
    return ask(schedule, &w);
}

static void install(struct plugin *p, const struct answer *answer)
{
    bool overtaken = (int)(answer->serial - p->installed) < 0; /* by a restore() between two runs */
    if (!overtaken) p->installed = answer->serial;
    p->tell = true; /* after a failure too: the host shows the path that was asked for */
    if (!answer->convolver) return;
    if (overtaken)
        stage_retire(&p->stage, answer->convolver);
    else
        stage_install(&p->stage, answer->convolver);
}

static LV2_Worker_Status work_response(LV2_Handle handle, uint32_t size, const void *data)
{
    struct plugin *p = handle;
    if (size != sizeof(struct answer)) return LV2_WORKER_ERR_UNKNOWN;
    struct answer answer;
    memcpy(&answer, data, sizeof answer);
    install(p, &answer);
    return LV2_WORKER_SUCCESS;
}

static float control(const struct plugin *p, enum control c)
{
    float x = p->control[c] ? *p->control[c] : controls[c].standard;
    if (!(x >= controls[c].least)) return controls[c].least; /* NaN too */
    return x > controls[c].most ? controls[c].most : x;
}

static float gain(const struct plugin *p, enum control c)
{
    float db = control(p, c);
    return db <= controls[c].least ? 0 : powf(10, db / 20);
}

static void turn_knobs(struct plugin *p)
{
    struct knobs knobs = {
        .dry = gain(p, DRY),
        .wet = gain(p, WET),
        .gain = gain(p, GAIN),
        .enabled = control(p, ENABLED) > 0.5f,
        .predelay = (int)lrintf(control(p, PREDELAY) * (float)p->shape.rate / 1000),
        .waits = control(p, FREEWHEEL) > 0.5f,
    };
    stage_turn(&p->stage, &knobs);
    int backend = (int)lrintf(control(p, BACKEND));
    if (backend == p->backend || !p->schedule) return;
    atomic_store(&p->load_on, backend);
    if (ask_to_load(p, p->schedule, "", 0, false, CAUSE_NONE)) p->backend = backend;
}

/* A GPU that is lost, or late more often than four times a second for some seconds, gives way to the CPU. */
static void watch_device(struct plugin *p, uint32_t n_frames)
{
    p->late_score += (double)(p->stage.late - p->late_seen) - 4.0 * n_frames / p->shape.rate;
    p->late_seen = p->stage.late;
    if (p->late_score < 0) p->late_score = 0;
    if ((!p->stage.lost && p->late_score < 16) || atomic_load(&p->load_on) == BACKEND_CPU) return;
    atomic_store(&p->load_on, BACKEND_CPU);
    p->late_score = 0;
    enum cause cause = p->stage.lost ? CAUSE_LOST : CAUSE_LATE;
    if (!ask_to_load(p, p->schedule, "", 0, false, cause)) atomic_store(&p->load_on, p->backend); /* next time */
}

static void play(struct plugin *p, uint32_t from, uint32_t to)
{
    const float *in[MOST_CHANNELS];
    float *out[MOST_CHANNELS];
    for (int ch = 0; ch < p->shape.n_in; ch++) in[ch] = p->in[ch] + from;
    for (int ch = 0; ch < p->shape.n_out; ch++) out[ch] = p->out[ch] + from;
    stage_play(&p->stage, in, out, (int)(to - from));
}

/* Play the block, and do in it what the messages ask for at their frames. */
static void play_with_messages(struct plugin *p, uint32_t n_frames)
{
    uint32_t done = 0;
    if (p->map && p->messages_in && p->messages_in->atom.type == p->uris.atom_Sequence)
        LV2_ATOM_SEQUENCE_FOREACH(p->messages_in, event)
        {
            const char *path = NULL;
            size_t length = 0;
            enum message message = message_read(&p->uris, &event->body, &path, &length);
            if (message == MESSAGE_NONE) continue;
            int64_t at = event->time.frames;
            if (at > done && at <= n_frames) {
                play(p, done, (uint32_t)at);
                done = (uint32_t)at;
            }
            if (message == MESSAGE_GET) p->tell = true;
            if (message == MESSAGE_SET && !ask_to_load(p, p->schedule, path, length, false, CAUSE_NONE)) p->tell = true;
        }
    play(p, done, n_frames);
}

static void tell(struct plugin *p, uint32_t n_frames)
{
    if (!p->map || !p->messages_out) return;
    LV2_Atom_Forge_Frame sequence;
    const struct convolver *newest = stage_newest(&p->stage);
    lv2_atom_forge_set_buffer(&p->forge, (uint8_t *)p->messages_out, p->messages_out->atom.size);
    lv2_atom_forge_sequence_head(&p->forge, &sequence, 0);
    if (p->tell && newest) message_write(&p->uris, &p->forge, n_frames ? n_frames - 1 : 0, newest->path);
    lv2_atom_forge_pop(&p->forge, &sequence);
    p->tell = false;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* read from shared memory, no system call */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run(LV2_Handle handle, uint32_t n_frames)
{
    struct plugin *p = handle;
    double start = now_s();
    turn_knobs(p);
    if (n_frames > 0) play_with_messages(p, n_frames);
    tell(p, n_frames);
    watch_device(p, n_frames);
    for (struct convolver *c = p->stage.retired; c; c = p->stage.retired) {
        struct work w = {.what = WORK_CLOSE, .convolver = c};
        stage_retired(&p->stage);
        if (ask(p->schedule, &w)) continue;
        stage_retire(&p->stage, c);
        break;
    }
    if (n_frames > 0) {
        double lasts = (double)n_frames / p->shape.rate, share = (now_s() - start) / lasts;
        p->load += (float)((100 * share - p->load) * (lasts < 0.3 ? lasts / 0.3 : 1));
    }
    if (p->control[LATENCY]) *p->control[LATENCY] = 0;
    if (p->control[LOAD]) *p->control[LOAD] = p->load;
    if (p->control[LATE]) *p->control[LATE] = (float)p->stage.late;
}

static void connect_port(LV2_Handle handle, uint32_t port, void *data)
{
    struct plugin *p = handle;
    uint32_t n_in = (uint32_t)p->shape.n_in, n_out = (uint32_t)p->shape.n_out;
    if (port < n_in)
        p->in[port] = data;
    else if ((port -= n_in) < n_out)
        p->out[port] = data;
    else if ((port -= n_out) < N_CONTROLS)
        p->control[port] = data;
    else if (port == N_CONTROLS)
        p->messages_in = data;
    else if (port == N_CONTROLS + 1)
        p->messages_out = data;
}

/* ---- setup -------------------------------------------------------------------------------------- */

static void activate(LV2_Handle handle)
{
    struct plugin *p = handle;
    stage_reset(&p->stage);
    if (p->stale) {
        char path[PATH_BYTES];
        path_get(p, path);
        struct answer answer = load_here(p, path);
        install(p, &answer);
    }
    p->stale = false;
    p->active = true;
}

static void deactivate(LV2_Handle handle)
{
    struct plugin *p = handle;
    p->active = false;
}

/* Frames a run() is likely to have. */
static int usual_block(const struct uris *uris, const LV2_Options_Option *option)
{
    int most = 0, nominal = 0;
    for (; option && option->key; option++) {
        if (option->context != LV2_OPTIONS_INSTANCE || option->type != uris->atom_Int || !option->value) continue;
        if (option->key == uris->max_block) most = *(const int32_t *)option->value;
        if (option->key == uris->nominal_block) nominal = *(const int32_t *)option->value;
    }
    int block = nominal > 0 ? nominal : STANDARD_BLOCK;
    if (most > 0 && block > most) block = most;
    return block < 16 ? 16 : block > MOST_BLOCK ? MOST_BLOCK : block;
}

static void cleanup(LV2_Handle handle)
{
    struct plugin *p = handle;
    while (p->all) forget(p, p->all);
    stage_free(&p->stage);
    pthread_mutex_destroy(&p->load_lock);
    pthread_mutex_destroy(&p->path_lock);
    free(p->bundle);
    free(p);
}

static const LV2_Descriptor descriptors[N_VARIANTS];

static LV2_Handle instantiate(const LV2_Descriptor *descriptor, double rate, const char *bundle,
                              const LV2_Feature *const *features)
{
    struct plugin *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    LV2_Log_Log *log = NULL;
    const LV2_Options_Option *options = NULL;
    lv2_features_query(features, LV2_URID__map, &p->map, false, LV2_WORKER__schedule, &p->schedule, false, LV2_LOG__log,
                       &log, false, LV2_OPTIONS__options, &options, false, NULL);
    lv2_log_logger_init(&p->log, p->map, log);
    p->variant = &variants[descriptor - descriptors];
    if (p->map) {
        uris_map(&p->uris, p->map, descriptor->URI);
        lv2_atom_forge_init(&p->forge, p->map);
    }
    p->shape = (struct convolver_shape){.n_in = p->variant->n_in,
                                        .n_out = p->variant->n_out,
                                        .rate = (int)lrint(rate),
                                        .block = usual_block(&p->uris, p->map ? options : NULL)};
    pthread_mutex_init(&p->load_lock, NULL);
    pthread_mutex_init(&p->path_lock, NULL);
    atomic_init(&p->load_on, BACKEND_AUTO);
    atomic_init(&p->last_asked, 0);
    size_t length = strlen(bundle);
    p->bundle = malloc(length + 2);
    if (!p->bundle || !stage_make(&p->stage, &p->shape)) {
        lv2_log_error(&p->log, "haloconv: no memory for %d inputs; close something\n", p->shape.n_in);
        cleanup(p);
        return NULL;
    }
    snprintf(p->bundle, length + 2, "%s%s", bundle, length && bundle[length - 1] == '/' ? "" : "/");
    snprintf(p->path, sizeof p->path, "%s%s", p->bundle, p->variant->mask);
    p->stale = true;
    return p;
}

/* ---- state -------------------------------------------------------------------------------------- */

static void path_free(const LV2_State_Free_Path *free_path, char *path)
{
    if (free_path)
        free_path->free_path(free_path->handle, path);
    else
        free(path);
}

static LV2_State_Status save(LV2_Handle handle, LV2_State_Store_Function store, LV2_State_Handle to, uint32_t flags,
                             const LV2_Feature *const *features)
{
    (void)flags;
    struct plugin *p = handle;
    if (!p->map) return LV2_STATE_ERR_NO_FEATURE;
    LV2_State_Map_Path *map_path = lv2_features_data(features, LV2_STATE__mapPath);
    char path[PATH_BYTES];
    path_get(p, path);
    if (!map_path) /* then it is good on this machine only */
        return store(to, p->uris.mask, path, strlen(path) + 1, p->uris.atom_Path, LV2_STATE_IS_POD);
    char *mapped = map_path->abstract_path(map_path->handle, path);
    if (!mapped) return LV2_STATE_ERR_UNKNOWN;
    LV2_State_Status status = store(to, p->uris.mask, mapped, strlen(mapped) + 1, p->uris.atom_Path,
                                    LV2_STATE_IS_POD | LV2_STATE_IS_PORTABLE);
    path_free(lv2_features_data(features, LV2_STATE__freePath), mapped);
    return status;
}

/* The path out of a state, as a path on this machine; without one, the mask of a new instance. */
static LV2_State_Status path_of_state(struct plugin *p, LV2_State_Retrieve_Function retrieve, LV2_State_Handle from,
                                      const LV2_Feature *const *features, char *path, size_t cap)
{
    LV2_State_Map_Path *map_path = lv2_features_data(features, LV2_STATE__mapPath);
    size_t size = 0;
    uint32_t type = 0, flags = 0;
    const char *value = retrieve(from, p->uris.mask, &size, &type, &flags);
    if (!value || size == 0) {
        snprintf(path, cap, "%s%s", p->bundle, p->variant->mask);
        return LV2_STATE_SUCCESS;
    }
    if (type != p->uris.atom_Path && type != p->uris.atom_String) return LV2_STATE_ERR_BAD_TYPE;
    char given[PATH_BYTES];
    if ((size_t)snprintf(given, sizeof given, "%.*s", (int)(size < sizeof given ? size : sizeof given), value) >=
        sizeof given)
        return LV2_STATE_ERR_NO_SPACE;
    char *absolute = map_path ? map_path->absolute_path(map_path->handle, given) : NULL;
    snprintf(path, cap, "%s", absolute ? absolute : given);
    if (absolute) path_free(lv2_features_data(features, LV2_STATE__freePath), absolute);
    return LV2_STATE_SUCCESS;
}

static LV2_State_Status restore(LV2_Handle handle, LV2_State_Retrieve_Function retrieve, LV2_State_Handle from,
                                uint32_t flags, const LV2_Feature *const *features)
{
    (void)flags;
    struct plugin *p = handle;
    if (!p->map) return LV2_STATE_ERR_NO_FEATURE;
    char path[PATH_BYTES];
    LV2_State_Status status = path_of_state(p, retrieve, from, features, path, sizeof path);
    if (status != LV2_STATE_SUCCESS) return status;
    LV2_Worker_Schedule *schedule = lv2_features_data(features, LV2_WORKER__schedule);
    if (!p->active) { /* activate() loads it */
        path_set(p, path);
        p->stale = true;
    } else if (schedule) { /* run() may be under way */
        if (!ask_to_load(p, schedule, path, strlen(path), true, CAUSE_NONE)) return LV2_STATE_ERR_UNKNOWN;
    } else { /* the host has paused run() for this */
        struct answer answer = load_here(p, path);
        install(p, &answer);
    }
    return LV2_STATE_SUCCESS;
}

static const void *extension_data(const char *uri)
{
    static const LV2_Worker_Interface worker = {work, work_response, NULL};
    static const LV2_State_Interface state = {save, restore};
    if (strcmp(uri, LV2_WORKER__interface) == 0) return &worker;
    if (strcmp(uri, LV2_STATE__interface) == 0) return &state;
    return NULL;
}

#define DESCRIPTOR(symbol, name, n_in, n_out, mask)                                                                    \
    {PLUGIN_URI #symbol, instantiate, connect_port, activate, run, deactivate, cleanup, extension_data},
static const LV2_Descriptor descriptors[N_VARIANTS] = {VARIANTS(DESCRIPTOR)};

LV2_SYMBOL_EXPORT const LV2_Descriptor *lv2_descriptor(uint32_t index)
{
    return index < N_VARIANTS ? &descriptors[index] : NULL;
}
