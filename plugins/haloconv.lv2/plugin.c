/* plugin - the LV2 face of the plugin core (plugins/core/core.h): ports, messages, the worker and the state.
 *
 *   audio:   run()            requests from controls and patch:Set; core_process; patch:Set of the masks and status
 *              |      ^
 *     schedule |      | respond: the paths of the masks A and B, and the status
 *              v      |
 *   worker:  work() --+       core_work
 *
 * Threads, by LV2's classes: "audio" is run(), connect_port() and work_response(); "worker" is work(), one call at a
 * time; "setup" is instantiate(), activate(), deactivate(), restore() without a schedule, and cleanup(). A host may
 * call work() inside schedule_work(), and work_response() inside work(): so schedule() is never called inside another
 * call of the core.
 */
#include "haloconv_live.h"
#include "messages.h"
#include "plugins/core/core.h"
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
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BLOCK = 128 }; /* frames, for a host that gives none */

struct plugin {
    const struct variant *variant;
    struct core *core;

    LV2_URID_Map *map;             /* NULL: no messages */
    LV2_Worker_Schedule *schedule; /* NULL: the mask of activate() cannot change */
    LV2_Log_Logger log;
    struct uris uris;
    LV2_Atom_Forge forge;
    bool is_active; /* setup */

    /* audio */
    const float *in[MAX_CHANNELS];
    float *out[MAX_CHANNELS];
    float *control[N_CONTROLS];
    const LV2_Atom_Sequence *messages_in;
    LV2_Atom_Sequence *messages_out;
    bool must_notify; /* the next run() with frames sends `masks` and `status` to the host */
    const char
        *refused; /* why the last request was refused: then the status of the next notification; NULL: it was not */
    char masks[N_SIDES][CORE_PATH_BYTES];
    char status[CORE_STATUS_BYTES];

    atomic_bool is_scheduled; /* the host will call work() */
};

/* ---- work: worker and setup --------------------------------------------------------------------- */

static void lv2_report(void *data, int level, const char *text)
{
    struct plugin *p = data;
    if (level == HC_LIVE_ERROR)
        lv2_log_error(&p->log, "haloconv: %s\n", text);
    else if (level == HC_LIVE_WARNING)
        lv2_log_warning(&p->log, "haloconv: %s\n", text);
    else if (p->log.log) /* without a host's log, notes would go to standard error */
        lv2_log_note(&p->log, "haloconv: %s\n", text);
}

static void get_status(struct plugin *p, char masks[N_SIDES][CORE_PATH_BYTES], char status[CORE_STATUS_BYTES])
{
    for (int side = 0; side < N_SIDES; side++) core_get_side_mask(p->core, side, masks[side]);
    core_get_status(p->core, status);
}

/* The next run() notifies the host; run() must not be running. */
static void lv2_read_status(struct plugin *p)
{
    get_status(p, p->masks, p->status);
    p->must_notify = true;
}

static LV2_Worker_Status lv2_work(LV2_Handle handle, LV2_Worker_Respond_Function respond, LV2_Worker_Respond_Handle to,
                                  uint32_t size, const void *data)
{
    (void)size, (void)data;
    struct plugin *p = handle;
    char masks[N_SIDES][CORE_PATH_BYTES], result[CORE_STATUS_BYTES];
    char response[N_SIDES * CORE_PATH_BYTES + CORE_STATUS_BYTES]; /* the paths and the status, 0 after each */
    const char *texts[] = {masks[SIDE_A], masks[SIDE_B], result};
    size_t bytes = 0;
    atomic_store(&p->is_scheduled, false);
    if (!core_work(p->core)) return LV2_WORKER_SUCCESS;
    get_status(p, masks, result);
    for (int i = 0; i < 3; i++) {
        memcpy(response + bytes, texts[i], strlen(texts[i]) + 1);
        bytes += strlen(texts[i]) + 1;
    }
    LV2_Worker_Status status = respond(to, (uint32_t)bytes, response);
    if (status != LV2_WORKER_SUCCESS)
        lv2_log_error(&p->log, "haloconv: the host refused the worker's response, and may show another mask\n");
    return status;
}

static LV2_Worker_Status work_response(LV2_Handle handle, uint32_t size, const void *data)
{
    struct plugin *p = handle;
    const char *texts[3], *at = data;
    for (int i = 0; i < 3; i++) {
        const char *end = size ? memchr(at, 0, size) : NULL;
        if (!end || (size_t)(end - at) >= (i < N_SIDES ? sizeof p->masks[0] : sizeof p->status))
            return LV2_WORKER_ERR_UNKNOWN;
        texts[i] = at;
        size -= (uint32_t)(end + 1 - at);
        at = end + 1;
    }
    for (int side = 0; side < N_SIDES; side++) memcpy(p->masks[side], texts[side], strlen(texts[side]) + 1);
    memcpy(p->status, texts[N_SIDES], strlen(texts[N_SIDES]) + 1);
    p->must_notify = true; /* after a failure too: the host shows the path that it requested */
    return LV2_WORKER_SUCCESS;
}

/* ---- audio -------------------------------------------------------------------------------------- */

static void schedule(struct plugin *p, LV2_Worker_Schedule *to)
{
    if (!to || !core_has_work(p->core) || atomic_exchange(&p->is_scheduled, true)) return;
    if (to->schedule_work(to->handle, 1, "") != LV2_WORKER_SUCCESS)
        atomic_store(&p->is_scheduled, false); /* the next run() tries again */
}

/* Convolves frames from...to - 1. */
static void lv2_play(struct plugin *p, uint32_t from, uint32_t to)
{
    const float *in[MAX_CHANNELS];
    float *out[MAX_CHANNELS];
    for (int ch = 0; ch < p->variant->n_in; ch++) in[ch] = p->in[ch] + from;
    for (int ch = 0; ch < p->variant->n_out; ch++) out[ch] = p->out[ch] + from;
    core_process(p->core, in, out, (int)(to - from), NULL);
}

/* Convolves the block in segments, and applies each request for a mask at its frame. */
static void play_with_messages(struct plugin *p, uint32_t n_frames)
{
    uint32_t done = 0;
    if (p->map && p->messages_in && p->messages_in->atom.type == p->uris.atom_Sequence)
        LV2_ATOM_SEQUENCE_FOREACH(p->messages_in, event)
        {
            const char *path = NULL;
            size_t length = 0;
            int side;
            enum patch patch = patch_read(&p->uris, &event->body, &side, &path, &length);
            if (patch == PATCH_GET) p->must_notify = true;
            if (patch != PATCH_SET) continue;
            int64_t at = event->time.frames;
            if (at > done && at <= n_frames) {
                lv2_play(p, done, (uint32_t)at);
                done = (uint32_t)at;
            }
            if (core_request_mask(p->core, side, path, length)) {
                schedule(p, p->schedule);
            } else {
                p->refused = p->schedule ? "the path is too long; move the file to a folder with a shorter path"
                                         : "this host has no worker, so that the mask cannot change while it plays";
                p->must_notify = true; /* the mask that plays stays */
            }
        }
    if (done < n_frames) lv2_play(p, done, n_frames);
}

static void lv2_notify(struct plugin *p, uint32_t n_frames)
{
    if (!p->map || !p->messages_out) return;
    LV2_Atom_Forge_Frame sequence;
    lv2_atom_forge_set_buffer(&p->forge, (uint8_t *)p->messages_out, p->messages_out->atom.size);
    lv2_atom_forge_sequence_head(&p->forge, &sequence, 0);
    if (p->must_notify && n_frames > 0) { /* hosts drop the output of an empty block */
        const char *status = p->refused ? p->refused : p->status;
        for (int side = 0; side < N_SIDES; side++)
            if (p->masks[side][0]) patch_write(&p->uris, &p->forge, n_frames - 1, p->uris.masks[side], p->masks[side]);
        if (status[0]) patch_write(&p->uris, &p->forge, n_frames - 1, p->uris.status, status);
        p->must_notify = false;
        p->refused = NULL;
    }
    lv2_atom_forge_pop(&p->forge, &sequence);
}

static void lv2_run(LV2_Handle handle, uint32_t n_frames)
{
    struct plugin *p = handle;
    for (int c = 0; c < N_CONTROLS; c++)
        if (p->control[c] && !(controls[c].flags & CONTROL_OUTPUT)) core_set(p->core, c, (double)*p->control[c]);
    core_process(p->core, NULL, NULL, 0, NULL); /* the controls hold before the messages */
    play_with_messages(p, n_frames);
    schedule(p, p->schedule);
    lv2_notify(p, n_frames);
    for (int c = 0; c < N_CONTROLS; c++)
        if (p->control[c] && controls[c].flags & CONTROL_OUTPUT) *p->control[c] = core_get(p->core, c);
}

static void lv2_connect_port(LV2_Handle handle, uint32_t port, void *data)
{
    struct plugin *p = handle;
    uint32_t n_in = (uint32_t)p->variant->n_in, n_out = (uint32_t)p->variant->n_out;
    uint32_t n_messages = (uint32_t)variant_messages(p->variant);
    if (port < n_in)
        p->in[port] = data;
    else if ((port -= n_in) < n_out)
        p->out[port] = data;
    else if ((port -= n_out) == n_messages)
        p->messages_in = data;
    else if (port == n_messages + 1)
        p->messages_out = data;
    else if (port < N_CONTROLS + 2 && variant_port_control(p->variant, (int)port) < N_CONTROLS)
        p->control[variant_port_control(p->variant, (int)port)] = data;
}

/* ---- setup -------------------------------------------------------------------------------------- */

static void lv2_activate(LV2_Handle handle)
{
    struct plugin *p = handle;
    atomic_store(&p->is_scheduled, false); /* a host may drop its queue in deactivate() */
    if (core_activate(p->core)) lv2_read_status(p);
    p->is_active = true;
}

static void lv2_deactivate(LV2_Handle handle)
{
    struct plugin *p = handle;
    core_deactivate(p->core);
    p->is_active = false;
}

/* Returns the usual number of frames of a run(). */
static int usual_block(const struct uris *uris, const LV2_Options_Option *option)
{
    int min = 0, max = 0, nominal = 0;
    for (; option && option->key; option++) {
        if (option->context != LV2_OPTIONS_INSTANCE || option->type != uris->atom_Int || !option->value) continue;
        if (option->key == uris->min_block) min = *(const int32_t *)option->value;
        if (option->key == uris->max_block) max = *(const int32_t *)option->value;
        if (option->key == uris->nominal_block) nominal = *(const int32_t *)option->value;
    }
    if (nominal <= 0 && min == max) nominal = max; /* jalv gives no other number */
    int block = nominal > 0 ? nominal : DEFAULT_BLOCK;
    return max > 0 && block > max ? max : block;
}

static void lv2_cleanup(LV2_Handle handle)
{
    struct plugin *p = handle;
    core_free(p->core);
    free(p);
}

static struct core *make_core(struct plugin *p, const char *bundle)
{
    char folder[CORE_PATH_BYTES];
    bundle_folder(bundle, folder);
    return core_new(p->variant, folder,
                    &(struct core_host){p, p->schedule ? CORE_HOST_WORKER : CORE_NO_WORKER, lv2_report, NULL});
}

static const LV2_Descriptor descriptors[N_VARIANTS];

static LV2_Handle lv2_instantiate(const LV2_Descriptor *descriptor, double rate, const char *bundle,
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
        uris_map(&p->uris, p->map, descriptor->URI, p->variant);
        lv2_atom_forge_init(&p->forge, p->map);
    }
    p->core = make_core(p, bundle);
    int block = usual_block(&p->uris, p->map ? options : NULL);
    if (p->core && core_open(p->core, (int)lrint(rate), block, why, sizeof why)) return p;
    lv2_log_error(&p->log, "haloconv: %s\n", why);
    lv2_cleanup(p);
    return NULL;
}

/* ---- state -------------------------------------------------------------------------------------- */

static void lv2_path_free(const LV2_State_Free_Path *free_path, char *path)
{
    if (free_path)
        free_path->free_path(free_path->handle, path);
    else
        free(path);
}

/* Stores the path of a side; "", a string, of an empty one: a host would make a path of a relative path. */
static LV2_State_Status save_side(struct plugin *p, int side, LV2_State_Store_Function store, LV2_State_Handle to,
                                  const LV2_Feature *const *features)
{
    LV2_State_Map_Path *map_path = lv2_features_data(features, LV2_STATE__mapPath);
    char path[CORE_PATH_BYTES];
    core_get_side_mask(p->core, side, path);
    if (!path[0])
        return store(to, p->uris.masks[side], "", 1, p->uris.atom_String, LV2_STATE_IS_POD | LV2_STATE_IS_PORTABLE);
    if (!map_path) /* the state then works on this machine only */
        return store(to, p->uris.masks[side], path, strlen(path) + 1, p->uris.atom_Path, LV2_STATE_IS_POD);
    char *mapped = map_path->abstract_path(map_path->handle, path);
    if (!mapped) return LV2_STATE_ERR_UNKNOWN;
    LV2_State_Status status = store(to, p->uris.masks[side], mapped, strlen(mapped) + 1, p->uris.atom_Path,
                                    LV2_STATE_IS_POD | LV2_STATE_IS_PORTABLE);
    lv2_path_free(lv2_features_data(features, LV2_STATE__freePath), mapped);
    return status;
}

static LV2_State_Status lv2_save(LV2_Handle handle, LV2_State_Store_Function store, LV2_State_Handle to, uint32_t flags,
                                 const LV2_Feature *const *features)
{
    (void)flags;
    struct plugin *p = handle;
    if (!p->map) return LV2_STATE_ERR_NO_FEATURE;
    LV2_State_Status status = save_side(p, SIDE_A, store, to, features);
    return status == LV2_STATE_SUCCESS ? save_side(p, SIDE_B, store, to, features) : status;
}

/* Finds the path of a side in a state, as a path on this machine. Without it, A is the mask of a new instance, and B
 * stays: a preset has A only. */
static LV2_State_Status path_of_state(struct plugin *p, int side, LV2_State_Retrieve_Function retrieve,
                                      LV2_State_Handle from, const LV2_Feature *const *features,
                                      char path[CORE_PATH_BYTES])
{
    LV2_State_Map_Path *map_path = lv2_features_data(features, LV2_STATE__mapPath);
    size_t size = 0;
    uint32_t type = 0, flags = 0;
    const char *value = retrieve(from, p->uris.masks[side], &size, &type, &flags);
    if (!value || size == 0) {
        if (side == SIDE_A)
            core_shipped_path(p->core, NULL, path);
        else
            core_get_side_mask(p->core, side, path);
        return LV2_STATE_SUCCESS;
    }
    if (type != p->uris.atom_Path && type != p->uris.atom_String) return LV2_STATE_ERR_BAD_TYPE;
    char given[CORE_PATH_BYTES];
    if ((size_t)snprintf(given, sizeof given, "%.*s", (int)(size < sizeof given ? size : sizeof given), value) >=
        sizeof given)
        return LV2_STATE_ERR_NO_SPACE;
    char *absolute = map_path && given[0] ? map_path->absolute_path(map_path->handle, given) : NULL;
    snprintf(path, CORE_PATH_BYTES, "%s", absolute ? absolute : given);
    if (absolute) lv2_path_free(lv2_features_data(features, LV2_STATE__freePath), absolute);
    return LV2_STATE_SUCCESS;
}

static LV2_State_Status lv2_restore(LV2_Handle handle, LV2_State_Retrieve_Function retrieve, LV2_State_Handle from,
                                    uint32_t flags, const LV2_Feature *const *features)
{
    (void)flags;
    struct plugin *p = handle;
    if (!p->map) return LV2_STATE_ERR_NO_FEATURE;
    char masks[N_SIDES][CORE_PATH_BYTES];
    for (int side = 0; side < N_SIDES; side++) {
        LV2_State_Status status = path_of_state(p, side, retrieve, from, features, masks[side]);
        if (status != LV2_STATE_SUCCESS) return status;
    }
    LV2_Worker_Schedule *schedule_of_restore = lv2_features_data(features, LV2_WORKER__schedule);
    if (p->is_active && !schedule_of_restore) { /* the host has paused run() for this */
        core_load_now(p->core, masks[SIDE_A], masks[SIDE_B]);
        lv2_read_status(p);
    } else {
        core_restore_masks(p->core, CORE_KEEP_SIDE, masks[SIDE_A], masks[SIDE_B]);
        if (p->is_active) schedule(p, schedule_of_restore); /* run() may be running */
    }
    return LV2_STATE_SUCCESS;
}

static void get_meters(void *instance, struct core_meters *meters)
{
    core_get_meters(((struct plugin *)instance)->core, meters);
}

static const void *lv2_extension_data(const char *uri)
{
    static const struct plugin_meters meters = {get_meters};
    static const LV2_Worker_Interface worker = {lv2_work, work_response, NULL};
    static const LV2_State_Interface state = {lv2_save, lv2_restore};
    if (strcmp(uri, LV2_WORKER__interface) == 0) return &worker;
    if (strcmp(uri, LV2_STATE__interface) == 0) return &state;
    if (strcmp(uri, METERS_URI) == 0) return &meters;
    return NULL;
}

#define DESCRIPTOR(symbol, name, n_in, n_out, n_sources, mask)                                                         \
    {PLUGIN_URI #symbol, lv2_instantiate, lv2_connect_port,  lv2_activate, lv2_run,                                    \
     lv2_deactivate,     lv2_cleanup,     lv2_extension_data},
static const LV2_Descriptor descriptors[N_VARIANTS] = {VARIANTS(DESCRIPTOR)};

LV2_SYMBOL_EXPORT const LV2_Descriptor *lv2_descriptor(uint32_t index)
{
    return index < N_VARIANTS ? &descriptors[index] : NULL;
}
