/* plugin - an LV2 adapter over a live convolver (haloconv_live.h): ports, messages, the worker and the state.
 *
 *   audio:   run()            requests from controls and patch:Set; hc_live_process; patch:Set of the mask and status
 *              |      ^
 *     schedule |      | respond: the path of the mask that plays, and the status
 *              v      |
 *   worker:  work() --+       hc_live_work: loads masks, builds engines, frees old ones
 *
 * Threads, by LV2's classes: "audio" is run(), connect_port() and work_response(); "worker" is work(), one call at a
 * time; "setup" is instantiate(), activate(), deactivate(), restore() without a schedule, and cleanup(). A host may
 * call work() inside schedule_work(), and work_response() inside work(): so schedule() is never called inside another
 * call of the live core.
 *
 * The plugin with a moving source has a bank instead of the mask: here and below, "mask" means either.
 *
 * If the mask of a state cannot be loaded, the input passes dry until a mask is loaded: another mask would not be the
 * sound of the session. A file that the user chooses and that cannot be loaded changes nothing. The status reports both
 * cases.
 */
#include "haloconv_live.h"
#include "messages.h"
#include "ports.h"

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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_BLOCK = 128, /* frames, for a host that gives none */
    MAX_USUAL_BLOCK = 4096,
    MAX_STEP = 128, /* max. frames between two directions of a source, also inside a longer block */
    PATH_BYTES = 4096,
    STATUS_BYTES = 1024,
    GRID_DEG = 4,            /* distance of the directions to which banks are interpolated; a source mixes three */
    HISTORY_S = 10,          /* input history */
    HISTORY_FLOATS = 1 << 23 /* max. input history, all channels together: 32 MiB */
};

static const char *const backends[] = {[BACKEND_AUTO] = "auto", [BACKEND_CPU] = "cpu", [BACKEND_GPU] = "gpu"};

struct plugin {
    const struct variant *variant;
    char *bundle; /* path of its folder, ends in / */
    int rate;
    hc_live *live;

    LV2_URID_Map *map;             /* NULL: no messages */
    LV2_Worker_Schedule *schedule; /* NULL: the mask of activate() cannot change */
    LV2_Log_Logger log;
    struct uris uris;
    LV2_Atom_Forge forge;

    /* audio */
    const float *in[MAX_CHANNELS];
    float *out[MAX_CHANNELS];
    float *control[N_CONTROLS];
    const LV2_Atom_Sequence *messages_in;
    LV2_Atom_Sequence *messages_out;
    int backend;              /* last value of the control */
    float direction[3];       /* azimuth, elevation, distance of the last steering; NaN: none yet */
    float load;               /* percent, smoothed */
    bool must_notify;         /* the next run() sends `playing` and `status` to the host */
    char playing[PATH_BYTES]; /* path of the mask that plays */
    char status[STATUS_BYTES];

    atomic_bool is_lost;       /* the mask of the state cannot be loaded: the input passes dry */
    atomic_bool is_scheduled;  /* the host will call work() */
    atomic_bool is_requested;  /* the host requested a mask; work() responds with the mask that plays */
    bool is_active, must_load; /* setup; must_load: activate() loads `restored` */

    pthread_mutex_t working;   /* worker and setup: one do_work() at a time. Under it: */
    char report[STATUS_BYTES]; /* the last warning or error of this do_work() */
    char result[STATUS_BYTES]; /* the status after the last load or error */
    uint64_t n_masks;          /* hc_live_stats.masks after the last do_work() */

    pthread_mutex_t lock;      /* worker, setup and save(); never held while the host or hc_live_work is called */
    char restored[PATH_BYTES]; /* a mask for save() that is not loaded yet or cannot be read; "" = none */
};

static void set_restored(struct plugin *p, const char *path)
{
    pthread_mutex_lock(&p->lock);
    snprintf(p->restored, sizeof p->restored, "%s", path);
    pthread_mutex_unlock(&p->lock);
}

/* Copies the path that save() stores. */
static void path_to_save(struct plugin *p, char path[PATH_BYTES])
{
    pthread_mutex_lock(&p->lock);
    memcpy(path, p->restored, sizeof p->restored);
    pthread_mutex_unlock(&p->lock);
    if (!path[0]) hc_live_mask(p->live, path, PATH_BYTES);
}

/* ---- work: worker and setup --------------------------------------------------------------------- */

static void report(void *data, int level, const char *text)
{
    struct plugin *p = data;
    if (level != HC_LIVE_NOTE) snprintf(p->report, sizeof p->report, "%s", text);
    if (level == HC_LIVE_ERROR)
        lv2_log_error(&p->log, "haloconv: %s\n", text);
    else if (level == HC_LIVE_WARNING)
        lv2_log_warning(&p->log, "haloconv: %s\n", text);
    else if (p->log.log) /* without a host's log, notes would go to standard error */
        lv2_log_note(&p->log, "haloconv: %s\n", text);
}

/* Could the mask of the state not be loaded? false also if it plays already. */
static bool has_lost_mask(struct plugin *p, const char *playing)
{
    pthread_mutex_lock(&p->lock);
    bool is_lost = p->restored[0] && strcmp(p->restored, playing) != 0;
    pthread_mutex_unlock(&p->lock);
    return is_lost;
}

/* Calls hc_live_work. Stores the path of the mask that plays afterwards, and the status. */
static void do_work(struct plugin *p, char playing[PATH_BYTES], char status[STATUS_BYTES])
{
    hc_live_stats stats = {.size = sizeof stats};
    pthread_mutex_lock(&p->working);
    p->report[0] = '\0';
    bool is_first = hc_live_mask(p->live, playing, PATH_BYTES) == 0;
    int error = hc_live_work(p->live);
    hc_live_mask(p->live, playing, PATH_BYTES);
    hc_live_get_stats(p->live, &stats);
    bool is_loaded = stats.masks != p->n_masks || (is_first && playing[0]), was_lost = atomic_load(&p->is_lost);
    p->n_masks = stats.masks;
    if (is_loaded && !hc_live_has_work(p->live)) set_restored(p, "");
    bool is_lost = !is_loaded && (error ? has_lost_mask(p, playing) : was_lost);
    atomic_store(&p->is_lost, is_lost);
    if (is_lost && error) lv2_log_warning(&p->log, "haloconv: the sound passes dry until a mask is loaded\n");
    if (error || is_loaded) /* else the result of an earlier do_work() stays */
        snprintf(p->result, sizeof p->result, "%s%.*s", is_lost ? "dry: " : "", (int)(STATUS_BYTES - sizeof "dry: "),
                 p->report[0] ? p->report : "ok");
    memcpy(status, p->result, STATUS_BYTES);
    pthread_mutex_unlock(&p->working);
}

/* Loads at once; run() must not be running. */
static void load_now(struct plugin *p, const char *path)
{
    set_restored(p, path);
    hc_live_request(p->live, &(hc_live_change){.size = sizeof(hc_live_change), .mask = path});
    do_work(p, p->playing, p->status);
    p->must_notify = true;
}

static LV2_Worker_Status work(LV2_Handle handle, LV2_Worker_Respond_Function respond, LV2_Worker_Respond_Handle to,
                              uint32_t size, const void *data)
{
    (void)size, (void)data;
    struct plugin *p = handle;
    char response[PATH_BYTES + STATUS_BYTES], result[STATUS_BYTES]; /* response: path and status, 0 after each */
    char *playing = response;
    atomic_store(&p->is_scheduled, false);
    bool is_requested = atomic_exchange(&p->is_requested, false);
    do_work(p, playing, result);
    if (!is_requested) return LV2_WORKER_SUCCESS;
    size_t path_bytes = strlen(playing) + 1, status_bytes = strlen(result) + 1;
    memcpy(response + path_bytes, result, status_bytes);
    LV2_Worker_Status status = respond(to, (uint32_t)(path_bytes + status_bytes), response);
    if (status != LV2_WORKER_SUCCESS)
        lv2_log_error(&p->log,
                      "haloconv: %s plays, but the host refused the worker's response and shows another path\n",
                      playing);
    return status;
}

static LV2_Worker_Status work_response(LV2_Handle handle, uint32_t size, const void *data)
{
    struct plugin *p = handle;
    const char *end = size ? memchr(data, 0, size) : NULL;
    size_t path_bytes = end ? (size_t)(end - (const char *)data) + 1 : 0, status_bytes = size - path_bytes;
    if (path_bytes == 0 || path_bytes > sizeof p->playing || status_bytes == 0 || status_bytes > sizeof p->status)
        return LV2_WORKER_ERR_UNKNOWN;
    memcpy(p->playing, data, path_bytes);
    memcpy(p->status, end + 1, status_bytes);
    p->status[status_bytes - 1] = '\0';
    p->must_notify = true; /* after a failure too: the host shows the path that it requested */
    return LV2_WORKER_SUCCESS;
}

/* ---- audio -------------------------------------------------------------------------------------- */

static void schedule(struct plugin *p, LV2_Worker_Schedule *to)
{
    /* A request may be finished, but not answered. */
    bool has_work = hc_live_has_work(p->live) || atomic_load(&p->is_requested);
    if (!to || !has_work || atomic_exchange(&p->is_scheduled, true)) return;
    if (to->schedule_work(to->handle, 1, "") != LV2_WORKER_SUCCESS)
        atomic_store(&p->is_scheduled, false); /* the next run() tries again */
}

static void request_mask(struct plugin *p, LV2_Worker_Schedule *to, const char *path, size_t length)
{
    char text[PATH_BYTES];
    if (!to || length >= sizeof text) {
        p->must_notify = true; /* the mask that plays stays */
        return;
    }
    memcpy(text, path, length);
    text[length] = '\0';
    hc_live_request(p->live, &(hc_live_change){.size = sizeof(hc_live_change), .mask = text});
    atomic_store(&p->is_requested, true);
    schedule(p, to);
}

static float control(const struct plugin *p, enum control c)
{
    float x = p->control[c] ? *p->control[c] : controls[c].initial;
    if (!(x >= controls[c].min)) return controls[c].min; /* NaN too */
    return x > controls[c].max ? controls[c].max : x;
}

static float gain(const struct plugin *p, enum control c)
{
    float db = control(p, c);
    return db <= controls[c].min ? 0 : powf(10, db / 20);
}

/* Moves the source by a glide (hc_live_steer) if its controls have changed. A host with sample-accurate automation cuts
 * its block at the events, and each run() has one value. The distance is also a gain, 1 at 1 m. */
static void move_source(struct plugin *p)
{
    const float degree = 3.14159265f / 180;
    float azimuth = control(p, AZIMUTH), elevation = control(p, ELEVATION), distance = control(p, DISTANCE);
    if (azimuth == p->direction[0] && elevation == p->direction[1] && distance == p->direction[2]) return;
    float across = distance * cosf(elevation * degree);
    hc_live_steer(p->live, 0,
                  (const float[]){across * cosf(azimuth * degree), across * sinf(azimuth * degree),
                                  distance * sinf(elevation * degree)},
                  0, 1 / distance);
    p->direction[0] = azimuth, p->direction[1] = elevation, p->direction[2] = distance;
}

static void turn_knobs(struct plugin *p)
{
    if (p->variant->n_sources > 0) move_source(p);
    hc_live_set(p->live, HC_DRY, gain(p, DRY));
    hc_live_set(p->live, HC_WET, gain(p, WET));
    hc_live_set(p->live, HC_GAIN, gain(p, GAIN));
    hc_live_set(p->live, HC_BYPASS, control(p, ENABLED) > 0.5f && !atomic_load(&p->is_lost) ? 0 : 1);
    hc_live_set(p->live, HC_PREDELAY, rintf(control(p, PREDELAY) * (float)p->rate / 1000));
    hc_live_set_freewheel(p->live, control(p, FREEWHEEL) > 0.5f);
    int backend = (int)lrintf(control(p, BACKEND));
    if (backend == p->backend || !p->schedule) return;
    hc_live_request(p->live, &(hc_live_change){.size = sizeof(hc_live_change), .backend = backends[backend]});
    p->backend = backend;
}

/* Convolves frames from...to - 1. Returns the duration in ns. */
static uint64_t play(struct plugin *p, uint32_t from, uint32_t to)
{
    const float *in[MAX_CHANNELS];
    float *out[MAX_CHANNELS];
    hc_live_stats stats = {.size = sizeof stats};
    for (int ch = 0; ch < p->variant->n_in; ch++) in[ch] = p->in[ch] + from;
    for (int ch = 0; ch < p->variant->n_out; ch++) out[ch] = p->out[ch] + from;
    hc_live_process(p->live, in, out, (int)(to - from));
    hc_live_get_stats(p->live, &stats);
    if (p->control[LATE]) *p->control[LATE] = (float)stats.late;
    if (p->control[LOST]) *p->control[LOST] = (float)stats.lost;
    if (p->control[OVERRUNS]) *p->control[OVERRUNS] = (float)stats.overruns;
    return stats.took_ns;
}

/* Convolves the block in segments, and applies each message at its frame. Returns the duration in ns. */
static uint64_t play_with_messages(struct plugin *p, uint32_t n_frames)
{
    uint32_t done = 0;
    uint64_t took_ns = 0;
    if (p->map && p->messages_in && p->messages_in->atom.type == p->uris.atom_Sequence)
        LV2_ATOM_SEQUENCE_FOREACH(p->messages_in, event)
        {
            const char *path = NULL;
            size_t length = 0;
            enum patch patch = patch_read(&p->uris, &event->body, &path, &length);
            if (patch == PATCH_NONE) continue;
            int64_t at = event->time.frames;
            if (at > done && at <= n_frames) {
                took_ns += play(p, done, (uint32_t)at);
                done = (uint32_t)at;
            }
            if (patch == PATCH_GET) p->must_notify = true;
            if (patch == PATCH_SET) request_mask(p, p->schedule, path, length);
        }
    if (done < n_frames) took_ns += play(p, done, n_frames);
    return took_ns;
}

static void notify(struct plugin *p, uint32_t n_frames)
{
    if (!p->map || !p->messages_out) return;
    LV2_Atom_Forge_Frame sequence;
    lv2_atom_forge_set_buffer(&p->forge, (uint8_t *)p->messages_out, p->messages_out->atom.size);
    lv2_atom_forge_sequence_head(&p->forge, &sequence, 0);
    int64_t at = n_frames ? n_frames - 1 : 0;
    if (p->must_notify && p->playing[0]) patch_write(&p->uris, &p->forge, at, p->uris.mask, p->playing);
    if (p->must_notify && p->status[0]) patch_write(&p->uris, &p->forge, at, p->uris.status, p->status);
    lv2_atom_forge_pop(&p->forge, &sequence);
    p->must_notify = false;
}

static void run(LV2_Handle handle, uint32_t n_frames)
{
    struct plugin *p = handle;
    turn_knobs(p);
    if (n_frames > 0) {
        double took_ns = (double)play_with_messages(p, n_frames), lasts = (double)n_frames / p->rate;
        p->load += (float)((100e-9 * took_ns / lasts - p->load) * (lasts < 0.3 ? lasts / 0.3 : 1));
    }
    schedule(p, p->schedule);
    notify(p, n_frames);
    if (p->control[LATENCY]) *p->control[LATENCY] = 0;
    if (p->control[LOAD]) *p->control[LOAD] = p->load;
}

static void connect_port(LV2_Handle handle, uint32_t port, void *data)
{
    struct plugin *p = handle;
    uint32_t n_in = (uint32_t)p->variant->n_in, n_out = (uint32_t)p->variant->n_out;
    uint32_t n_controls = (uint32_t)variant_n_controls(p->variant);
    if (port < n_in)
        p->in[port] = data;
    else if ((port -= n_in) < n_out)
        p->out[port] = data;
    else if ((port -= n_out) < n_controls)
        p->control[variant_control(p->variant, (int)port)] = data;
    else if (port == n_controls)
        p->messages_in = data;
    else if (port == n_controls + 1)
        p->messages_out = data;
}

/* ---- setup -------------------------------------------------------------------------------------- */

static void activate(LV2_Handle handle)
{
    struct plugin *p = handle;
    char path[PATH_BYTES];
    hc_live_reset(p->live);
    if (p->must_load) {
        path_to_save(p, path);
        load_now(p, path);
    }
    p->must_load = false;
    p->is_active = true;
}

static void deactivate(LV2_Handle handle)
{
    struct plugin *p = handle;
    p->is_active = false;
}

/* Returns the usual number of frames of a run(). */
static int usual_block(const struct uris *uris, const LV2_Options_Option *option)
{
    int max = 0, nominal = 0;
    for (; option && option->key; option++) {
        if (option->context != LV2_OPTIONS_INSTANCE || option->type != uris->atom_Int || !option->value) continue;
        if (option->key == uris->max_block) max = *(const int32_t *)option->value;
        if (option->key == uris->nominal_block) nominal = *(const int32_t *)option->value;
    }
    int block = nominal > 0 ? nominal : DEFAULT_BLOCK;
    if (max > 0 && block > max) block = max;
    return block < 16 ? 16 : block > MAX_USUAL_BLOCK ? MAX_USUAL_BLOCK : block;
}

static void cleanup(LV2_Handle handle)
{
    struct plugin *p = handle;
    hc_live_close(p->live);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->working);
    free(p->bundle);
    free(p);
}

static bool open_live(struct plugin *p, int block, char *why, size_t cap)
{
    hc_live_config config;
    hc_live_config_init(&config);
    config.n_in = p->variant->n_in;
    config.n_out = p->variant->n_out;
    config.rate = p->rate;
    config.block = p->variant->n_sources > 0 && block > MAX_STEP ? MAX_STEP : block;
    config.fade_ms = 20;
    config.standby_share = -1; /* fifty instances with standby engines would load the CPU as much as without a GPU */
    config.cpu_if_no_device = 1;
    config.left_of_stereo = 1;
    if (variant_has(p->variant, PREDELAY)) config.max_predelay_ms = MAX_PREDELAY_MS;
    config.n_sources = p->variant->n_sources;
    config.grid_deg = GRID_DEG;
    config.mix_entries = 1; /* a moving tone has lines below -55 dB beside it; nearest entries give -13 dB */
    config.normalise = 1;   /* banks differ by 30 dB, and users wear headphones */
    config.history_s = fmin(HISTORY_S, (double)HISTORY_FLOATS / config.n_in / config.rate);
    config.say = report;
    config.data = p;
    return hc_live_open(&config, &p->live, why, cap) == HC_OK;
}

static const LV2_Descriptor descriptors[N_VARIANTS];

static LV2_Handle instantiate(const LV2_Descriptor *descriptor, double rate, const char *bundle,
                              const LV2_Feature *const *features)
{
    struct plugin *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    LV2_Log_Log *log = NULL;
    const LV2_Options_Option *options = NULL;
    char why[400] = "no memory; close other plugins or programs";
    lv2_features_query(features, LV2_URID__map, &p->map, false, LV2_WORKER__schedule, &p->schedule, false, LV2_LOG__log,
                       &log, false, LV2_OPTIONS__options, &options, false, NULL);
    lv2_log_logger_init(&p->log, p->map, log);
    p->variant = &variants[descriptor - descriptors];
    if (p->map) {
        uris_map(&p->uris, p->map, descriptor->URI, variant_file_uri(p->variant));
        lv2_atom_forge_init(&p->forge, p->map);
    }
    p->rate = (int)lrint(rate);
    p->direction[0] = NAN;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->working, NULL);
    size_t length = strlen(bundle);
    p->bundle = malloc(length + 2);
    if (!p->bundle || !open_live(p, usual_block(&p->uris, p->map ? options : NULL), why, sizeof why)) {
        lv2_log_error(&p->log, "haloconv: %s\n", why);
        cleanup(p);
        return NULL;
    }
    snprintf(p->bundle, length + 2, "%s%s", bundle, length && bundle[length - 1] == '/' ? "" : "/");
    snprintf(p->restored, sizeof p->restored, "%s%s", p->bundle, p->variant->mask);
    p->must_load = true;
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
    path_to_save(p, path);
    if (!map_path) /* the state then works on this machine only */
        return store(to, p->uris.mask, path, strlen(path) + 1, p->uris.atom_Path, LV2_STATE_IS_POD);
    char *mapped = map_path->abstract_path(map_path->handle, path);
    if (!mapped) return LV2_STATE_ERR_UNKNOWN;
    LV2_State_Status status = store(to, p->uris.mask, mapped, strlen(mapped) + 1, p->uris.atom_Path,
                                    LV2_STATE_IS_POD | LV2_STATE_IS_PORTABLE);
    path_free(lv2_features_data(features, LV2_STATE__freePath), mapped);
    return status;
}

/* Returns the mask's path in a state, as a path on this machine; without it, the mask of a new instance. */
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
    LV2_Worker_Schedule *schedule_of_restore = lv2_features_data(features, LV2_WORKER__schedule);
    if (!p->is_active) { /* activate() loads it */
        set_restored(p, path);
        p->must_load = true;
    } else if (schedule_of_restore) { /* run() may be running */
        set_restored(p, path);
        request_mask(p, schedule_of_restore, path, strlen(path));
    } else { /* the host has paused run() for this */
        load_now(p, path);
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

#define DESCRIPTOR(symbol, name, n_in, n_out, n_sources, mask)                                                         \
    {PLUGIN_URI #symbol, instantiate, connect_port, activate, run, deactivate, cleanup, extension_data},
static const LV2_Descriptor descriptors[N_VARIANTS] = {VARIANTS(DESCRIPTOR)};

LV2_SYMBOL_EXPORT const LV2_Descriptor *lv2_descriptor(uint32_t index)
{
    return index < N_VARIANTS ? &descriptors[index] : NULL;
}
