#include "core.h"
#include "dsp/base/mailbox.h"
#include "haloconv_live.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    END_S = 2,    /* how long core_free waits for the loader */
    POLL_MS = 50, /* how often the loader looks for work, so that the audio thread need not wake it */
    MAX_USUAL_BLOCK = 4096,
    MAX_STEP = 128,     /* max. frames between two directions of a source, also inside a longer block */
    MIN_STEP = 64,      /* min. frames, so that a device has time for each piece of a block */
    MAX_CHANGES = 1024, /* of knobs in a piece of a block */
    FADE_MS = 20,
    GRID_DEG = 4,            /* distance of the directions to which banks are interpolated; a source mixes three */
    HISTORY_S = 10,          /* input history */
    HISTORY_FLOATS = 1 << 23 /* max. input history, all channels together: 32 MiB */
};
enum { /* a bit for each control */
       KNOB_BITS = 1 << DRY | 1 << WET | 1 << GAIN | 1 << ENABLED | 1 << PREDELAY,
       DIRECTION_BITS = 1 << AZIMUTH | 1 << ELEVATION | 1 << DISTANCE,
       ENGINE_BITS = 1 << BACKEND | 1 << TRIM
};
_Static_assert(N_CONTROLS < 32, "core.changed has a bit for each control");

struct request { /* of core_request_mask */
    uint64_t number;
    char path[CORE_PATH_BYTES];
};

static const char *const backends[] = {[BACKEND_AUTO] = "auto", [BACKEND_CPU] = "cpu", [BACKEND_GPU] = "gpu"};

struct core {
    const struct variant *variant;
    char *folder;
    struct core_host host;
    hc_live *live; /* NULL before core_open */
    int rate, block;

    _Atomic float values[N_CONTROLS], modulation[N_CONTROLS]; /* values: inputs, and meters */
    atomic_uint changed; /* bits of the controls that have changed since the audio thread applied them */
    atomic_bool is_offline;
    atomic_uint longest;       /* frames of the longest response of the mask */
    atomic_bool is_lost;       /* the mask of the state cannot be loaded: the input passes dry */
    atomic_bool is_requested;  /* a mask was requested since the last core_work */
    atomic_bool is_set;        /* a backend or TRIM was requested since then */
    atomic_int side;           /* the side whose mask was requested last; written under `lock` */
    struct mailboxes requests; /* [N_SIDES] of struct request, for core_work */
    struct answers answers;    /* to requests for masks */
    atomic_bool is_working;    /* core_work is under way */

    /* audio */
    hc_live_knob_change changes[MAX_CHANGES]; /* for the next hc_live_process_changes */
    int n_changes;
    uint64_t quiet; /* frames of silent input since the last other input or change */

    atomic_bool is_active;

    pthread_t loader;
    sem_t wake, ended; /* ended: the loader will use the core no more */
    atomic_bool must_end;
    atomic_bool is_left; /* by the loader, or by core_free: the second of them frees the core */
    bool has_loader;
    pthread_mutex_t calls; /* recursive; held while the loader calls the host */
    bool host_is_gone;     /* under `calls`: the host is not called any more */

    pthread_mutex_t working;        /* worker and setup: one core_work at a time. Under it: */
    char report[CORE_STATUS_BYTES]; /* the last warning or error since the status was written */
    bool has_failed;                /* the status is that of a failure after the mask was loaded */
    uint64_t loaded;                /* number of the request whose mask was loaded last */
    bool keeps;                     /* the masks of both sides are kept ready and compared */

    pthread_mutex_t lock;                 /* never held while the host or hc_live_work is called. Under it: */
    char masks[N_SIDES][CORE_PATH_BYTES]; /* of the session */
    bool must_load;                       /* the mask of the side that plays was restored, or `live` is new */
    bool must_keep;                       /* the masks have changed since hc_live_keep was called  */
    uint64_t restored_number;             /* of the request for the masks that were restored last */
    char status[CORE_STATUS_BYTES];       /* core_get_status */
    char engine[96];                      /* core_get_meters */
};

static void core_note_changes(struct core *c, unsigned bits)
{
    atomic_fetch_or_explicit(&c->changed, bits, memory_order_release);
}

/* ---- masks of the session ----------------------------------------------------------------------- */

static int wanted_side(const struct core *c)
{
    return control_side(core_get(c, A_B));
}

/* Returns the mask of a side. Under `lock`. */
static const char *core_mask_of(const struct core *c, int side)
{
    return c->masks[c->masks[side][0] ? side : !side];
}

void core_get_side_mask(struct core *c, int side, char path[CORE_PATH_BYTES])
{
    pthread_mutex_lock(&c->lock);
    memcpy(path, c->masks[side], CORE_PATH_BYTES);
    pthread_mutex_unlock(&c->lock);
}

void core_get_status(struct core *c, char status[CORE_STATUS_BYTES])
{
    pthread_mutex_lock(&c->lock);
    memcpy(status, c->status, sizeof c->status);
    pthread_mutex_unlock(&c->lock);
}

void core_get_meters(struct core *c, struct core_meters *meters)
{
    meters->in_peak = meters->out_peak = 0; /* without `live` they stay so */
    hc_live_take_peaks(c->live, &meters->in_peak, &meters->out_peak);
    hc_live_stats stats = {.size = sizeof stats, .compared_gain = {1, 1}};
    hc_live_get_stats(c->live, &stats);
    for (int side = 0; side < N_SIDES; side++) meters->gain_db[side] = 20 * log10f(stats.compared_gain[side]);
    pthread_mutex_lock(&c->lock);
    memcpy(meters->engine, c->engine, sizeof c->engine);
    pthread_mutex_unlock(&c->lock);
}

void core_shipped_path(const struct core *c, const char *file, char path[CORE_PATH_BYTES])
{
    snprintf(path, CORE_PATH_BYTES, "%s%s", c->folder, file ? file : c->variant->mask);
}

const char *core_folder(const struct core *c)
{
    return c->folder;
}

const struct variant *core_variant(const struct core *c)
{
    return c->variant;
}

/* ---- work: worker and setup --------------------------------------------------------------------- */

static void log_line(struct core *c, int level, const char *text)
{
    pthread_mutex_lock(&c->calls);
    if (!c->host_is_gone) c->host.log(c->host.data, level, text);
    pthread_mutex_unlock(&c->calls);
}

static void core_report(void *data, int level, const char *text)
{
    struct core *c = data;
    if (level != HC_LIVE_NOTE) snprintf(c->report, sizeof c->report, "%s", text);
    log_line(c, level, text);
}

/* hc_live_load calls it. */
static void core_take_answer(void *data, uint64_t number, int error, const char *why)
{
    struct core *c = data;
    if (!error) c->loaded = number;
    answers_put(&c->answers, number, error, why);
}

static bool is_other_side_wanted(const struct core *c)
{
    return atomic_load(&c->side) != wanted_side(c) && !(c->is_active && c->host.worker == CORE_NO_WORKER);
}

/* Keeps the masks of both sides ready and compares them, while they are two. */
static void keep_both(struct core *c)
{
    char masks[N_SIDES][CORE_PATH_BYTES];
    if (c->variant->n_sources > 0 || c->host.worker == CORE_NO_WORKER) return;
    pthread_mutex_lock(&c->lock);
    bool is_new = c->must_keep;
    c->must_keep = false;
    memcpy(masks, c->masks, sizeof masks);
    pthread_mutex_unlock(&c->lock);
    bool differ = masks[SIDE_A][0] && masks[SIDE_B][0] && strcmp(masks[SIDE_A], masks[SIDE_B]) != 0;
    if (!is_new || (!differ && !c->keeps)) return;
    c->keeps = differ;
    const char *a = differ ? masks[SIDE_A] : NULL, *b = differ ? masks[SIDE_B] : NULL;
    if (hc_live_keep(c->live, (const char *const[]){a, b}, differ ? N_SIDES : 0) != HC_OK ||
        hc_live_compare(c->live, a, b) != HC_OK)
        core_report(c, HC_LIVE_ERROR,
                    "A and B are not both kept ready: a switch takes longer, and their loudness differs");
}

/* Makes the wanted side the one that plays. Returns true if its mask must be loaded: that of *request. loads: masks that
 * were restored are loaded, too. */
static bool switch_side(struct core *c, bool loads, struct request *request)
{
    char playing[CORE_PATH_BYTES];
    hc_live_mask(c->live, playing, sizeof playing);
    pthread_mutex_lock(&c->lock);
    bool restores = loads && c->must_load, switches = is_other_side_wanted(c);
    if (restores || switches) atomic_store(&c->side, wanted_side(c));
    const char *mask = core_mask_of(c, c->side);
    bool must_load = restores || (switches && (atomic_load(&c->is_lost) || strcmp(mask, playing) != 0));
    if (must_load) snprintf(request->path, sizeof request->path, "%s", mask);
    if (restores && c->restored_number > atomic_load(&c->answers.published)) request->number = c->restored_number;
    if (restores) c->must_load = false;
    pthread_mutex_unlock(&c->lock);
    return must_load;
}

/* Reads the requests of core_request_mask: `chosen` gets that for the side that plays, `other` that for the other side.
 * Their paths are "": none. */
static void core_read_requests(struct core *c, struct request *chosen, struct request *other)
{
    *chosen = *other = (struct request){0};
    pthread_mutex_lock(&c->lock);
    mailbox_remove(&c->requests, c->side, chosen);
    mailbox_remove(&c->requests, !c->side, other);
    if (chosen->number < c->restored_number) chosen->path[0] = '\0'; /* of the session before, and put late */
    if (other->number < c->restored_number) other->path[0] = '\0';
    pthread_mutex_unlock(&c->lock);
}

static int core_check_file(const struct core *c, const char *path, char *why, size_t cap)
{
    hc_responses responses;
    bool has_banks = c->variant->n_sources > 0;
    if (has_banks && hc_bank_is_file(path)) return HC_OK; /* it is read when it plays */
    int error = hc_responses_load(path, 0, 0, has_banks ? HC_WITH_SOURCES : 0, &responses, why, cap);
    if (!error) hc_responses_free(&responses);
    return error;
}

/* Under `lock`. */
static void core_store_mask(struct core *c, int side, const char *path)
{
    c->must_keep = c->must_keep || strcmp(c->masks[side], path) != 0;
    snprintf(c->masks[side], sizeof c->masks[side], "%s", path);
}

/* Makes a mask that of the side that does not play, unless its file cannot be read, and answers the request. If a session
 * was restored meanwhile, its masks stay, and the request has no answer. */
static void store_other(struct core *c, const struct request *other)
{
    char why[ANSWER_CAP] = "";
    int error = core_check_file(c, other->path, why, sizeof why);
    if (error) core_report(c, HC_LIVE_ERROR, why);
    pthread_mutex_lock(&c->lock);
    bool is_current = other->number > c->restored_number;
    if (!error && is_current) core_store_mask(c, !c->side, other->path);
    pthread_mutex_unlock(&c->lock);
    if (is_current) answers_put(&c->answers, other->number, error, why);
}

/* Loads a mask, and does what was requested of `live`. wanted: a mask of the session, or NULL. chosen: a mask that is the
 * session's once it is loaded, or NULL. Returns true if the status is new. */
static bool work_once(struct core *c, const struct request *wanted, const struct request *chosen)
{
    char playing[CORE_PATH_BYTES], status[CORE_STATUS_BYTES] = "";
    hc_live_info info = {.size = sizeof info};
    uint64_t loaded = c->loaded;
    bool is_set = atomic_exchange(&c->is_set, false);
    keep_both(c);
    const struct request *loads = chosen ? chosen : wanted;
    int error = loads ? hc_live_load(c->live, loads->path, loads->number) : hc_live_work(c->live);
    hc_live_mask(c->live, playing, sizeof playing);
    pthread_mutex_lock(&c->lock);
    if (chosen && chosen->number > c->restored_number && strcmp(chosen->path, playing) == 0)
        core_store_mask(c, c->side, playing);
    bool is_other = strcmp(core_mask_of(c, c->side), playing) != 0;
    pthread_mutex_unlock(&c->lock);
    bool is_loaded = c->loaded != loaded || (wanted && !error), was_lost = atomic_load(&c->is_lost);
    bool is_lost = !is_loaded && (error ? is_other : was_lost);
    if (atomic_exchange(&c->is_lost, is_lost) != is_lost) core_note_changes(c, 1 << ENABLED);
    if (is_lost && error) log_line(c, HC_LIVE_WARNING, "the sound passes dry until a mask is loaded");
    hc_live_get_info(c->live, &info);
    atomic_store(&c->longest, (unsigned)info.longest);
    bool has_failed = error || c->report[0];
    if (has_failed || is_loaded || (is_set && c->has_failed && !is_lost)) { /* else the earlier result stays */
        snprintf(status, sizeof status, "%s%.*s", is_lost ? "dry: " : "", (int)(sizeof status - sizeof "dry: "),
                 c->report[0] ? c->report : "ok");
        c->has_failed = has_failed && !is_loaded;
    }
    c->report[0] = '\0';
    keep_both(c);
    pthread_mutex_lock(&c->lock);
    if (status[0]) memcpy(c->status, status, sizeof c->status);
    if (info.device[0])
        snprintf(c->engine, sizeof c->engine, "%.50s, %g kHz, %d frames", info.device, info.rate / 1000.0, info.block);
    pthread_mutex_unlock(&c->lock);
    return status[0];
}

/* loads: masks that were restored are loaded, too. */
static bool core_do_work(struct core *c, bool loads)
{
    struct request request = {0}, other;
    pthread_mutex_lock(&c->working);
    atomic_store(&c->is_working, true);
    /* A step of its own: the switch stands even if the chosen file cannot be loaded. */
    bool is_news = switch_side(c, loads, &request) && work_once(c, &request, NULL);
    if (atomic_exchange(&c->is_requested, false)) is_news = true;
    core_read_requests(c, &request, &other);
    if (other.path[0]) store_other(c, &other);
    if (work_once(c, NULL, request.path[0] ? &request : NULL)) is_news = true;
    answers_publish(&c->answers); /* the session has the masks */
    atomic_store(&c->is_working, false);
    pthread_mutex_unlock(&c->working);
    pthread_mutex_lock(&c->calls);
    if (is_news && c->host.changed && !c->host_is_gone) c->host.changed(c->host.data);
    pthread_mutex_unlock(&c->calls);
    return is_news;
}

bool core_work(struct core *c)
{
    return core_do_work(c, c->is_active);
}

/* ---- the loader --------------------------------------------------------------------------------- */

/* Waits for a wake-up; while active, at most POLL_MS. */
static void core_rest(struct core *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    if (atomic_load(&c->is_active))
        sem_clockwait(&c->wake, CLOCK_MONOTONIC, &until);
    else
        sem_wait(&c->wake);
}

static void free_all(struct core *c)
{
    hc_live_close(c->live);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->working);
    pthread_mutex_destroy(&c->calls);
    sem_destroy(&c->wake);
    sem_destroy(&c->ended);
    mailboxes_close(&c->requests);
    answers_close(&c->answers);
    free(c->folder);
    free(c);
}

static void *core_load(void *data)
{
    struct core *c = data;
    for (;;) {
        core_rest(c);
        if (atomic_load(&c->must_end)) break;
        pthread_mutex_lock(&c->working); /* core_open changes `live` under it */
        bool has_work = core_has_work(c);
        pthread_mutex_unlock(&c->working);
        if (has_work) core_work(c);
    }
    if (atomic_exchange(&c->is_left, true))
        free_all(c);
    else
        sem_post(&c->ended);
    return NULL;
}

static void wake_loader(struct core *c)
{
    if (c->has_loader) sem_post(&c->wake);
}

/* A loader of an audio thread's priority would disturb it, if an audio thread makes the plugin. */
static bool start_loader(struct core *c)
{
    pthread_attr_t normal;
    if (c->host.worker != CORE_LOADER || c->has_loader) return true;
    if (pthread_attr_init(&normal) != 0) return false;
    pthread_attr_setinheritsched(&normal, PTHREAD_EXPLICIT_SCHED);
    c->has_loader = pthread_create(&c->loader, &normal, core_load, c) == 0;
    pthread_attr_destroy(&normal);
    return c->has_loader;
}

/* false: the loader, which reads from a stalled disk, will free the core when the read returns. The host may close the
 * plugin's file before, so the code stays in memory. */
static bool stop_loader(struct core *c)
{
    struct timespec until;
    Dl_info here;
    if (!c->has_loader) return true;
    pthread_t loader = c->loader;
    atomic_store(&c->must_end, true);
    sem_post(&c->wake);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += END_S;
    bool has_ended = sem_clockwait(&c->ended, CLOCK_MONOTONIC, &until) == 0;
    if (!has_ended) {
        pthread_mutex_lock(&c->calls);
        c->host_is_gone = true;
        pthread_mutex_unlock(&c->calls);
        if (dladdr((void *)(uintptr_t)stop_loader, &here))
            dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
        has_ended = atomic_exchange(&c->is_left, true);
    }
    if (has_ended)
        pthread_join(loader, NULL);
    else
        pthread_detach(loader);
    return has_ended;
}

/* ---- requests ----------------------------------------------------------------------------------- */

bool core_has_work(const struct core *c)
{
    /* A request may be finished, but not answered. */
    return hc_live_has_work(c->live) || atomic_load(&c->is_requested) || is_other_side_wanted(c);
}

bool core_is_loading(const struct core *c)
{
    return atomic_load(&c->is_working) || (c->is_active && core_has_work(c));
}

enum answer core_answer(struct core *c, uint64_t number, char why[ANSWER_CAP])
{
    return answers_get(&c->answers, number, why);
}

uint64_t core_request_mask(struct core *c, int side, const char *path, size_t length)
{
    struct request request = {0};
    if (c->host.worker == CORE_NO_WORKER || length >= sizeof request.path) return 0;
    memcpy(request.path, path, length);
    request.number = answers_next(&c->answers);
    mailbox_put(&c->requests, side, &request, NULL);
    atomic_store(&c->is_requested, true);
    wake_loader(c);
    return request.number;
}

/* Sets side and masks at once, so that no worker sees one without the others. */
uint64_t core_restore_masks(struct core *c, int side, const char *a, const char *b)
{
    pthread_mutex_lock(&c->lock);
    if (side != CORE_KEEP_SIDE) core_set(c, A_B, side);
    if (a) snprintf(c->masks[SIDE_A], CORE_PATH_BYTES, "%s", a);
    if (b) snprintf(c->masks[SIDE_B], CORE_PATH_BYTES, "%s", b);
    for (int i = 0; i < N_SIDES; i++) mailbox_remove(&c->requests, i, NULL); /* of the session before */
    uint64_t number = c->restored_number = answers_next(&c->answers);
    c->must_load = c->must_keep = true;
    pthread_mutex_unlock(&c->lock);
    if (!c->is_active || c->host.worker == CORE_NO_WORKER) return number;
    atomic_store(&c->is_requested, true);
    wake_loader(c);
    return number;
}

void core_load_now(struct core *c, const char *a, const char *b)
{
    core_restore_masks(c, CORE_KEEP_SIDE, a, b);
    core_do_work(c, true);
}

uint64_t core_choose_mask(struct core *c, const char *path)
{
    int side = wanted_side(c);
    if (c->is_active) return core_request_mask(c, side, path, strlen(path));
    if (strlen(path) >= CORE_PATH_BYTES) return 0;
    return core_restore_masks(c, CORE_KEEP_SIDE, side == SIDE_A ? path : NULL, side == SIDE_B ? path : NULL);
}

uint64_t core_load_preset(struct core *c, const struct plugin_preset *preset)
{
    char path[CORE_PATH_BYTES];
    for (int i = 0; i < N_PRESET_CONTROLS; i++) core_set(c, preset_controls[i], (double)preset->values[i]);
    core_shipped_path(c, preset->file, path);
    return core_choose_mask(c, path);
}

/* ---- audio -------------------------------------------------------------------------------------- */

void core_set(struct core *c, int control, double value)
{
    float limited = control_limit(control, value);
    if (atomic_exchange_explicit(&c->values[control], limited, memory_order_relaxed) != limited)
        core_note_changes(c, 1u << control);
}

void core_modulate(struct core *c, int control, double amount)
{
    float finite = isfinite(amount) ? (float)amount : 0;
    if (atomic_exchange_explicit(&c->modulation[control], finite, memory_order_relaxed) != finite)
        core_note_changes(c, 1u << control);
}

float core_get(const struct core *c, int control)
{
    return atomic_load_explicit(&c->values[control], memory_order_relaxed);
}

void core_set_offline(struct core *c, bool offline)
{
    atomic_store(&c->is_offline, offline);
    hc_live_set_freewheel(c->live, offline); /* the worker may be faster than core_process */
}

static float value(const struct core *c, int control)
{
    return control_limit(control, (double)core_get(c, control) +
                                      (double)atomic_load_explicit(&c->modulation[control], memory_order_relaxed));
}

static float gain(const struct core *c, int control)
{
    float db = value(c, control);
    return db <= controls[control].min ? 0 : powf(10, db / 20);
}

/* Returns which of these controls have changed, and counts them as applied. */
static unsigned core_take_changes(struct core *c, unsigned bits)
{
    return atomic_fetch_and_explicit(&c->changed, ~bits, memory_order_acquire) & bits;
}

/* Moves the source by a glide (hc_live_steer). The distance is also a gain, 1 at 1 m. */
static void move_source(struct core *c)
{
    const float degree = 3.14159265f / 180;
    float azimuth = value(c, AZIMUTH), elevation = value(c, ELEVATION), distance = value(c, DISTANCE);
    float across = distance * cosf(elevation * degree);
    hc_live_steer(c->live, 0,
                  (const float[]){across * cosf(azimuth * degree), across * sinf(azimuth * degree),
                                  distance * sinf(elevation * degree)},
                  0, 1 / distance);
}

static void core_turn(struct core *c, int frame, enum hc_live_knob knob, float to)
{
    c->changes[c->n_changes++] = (hc_live_knob_change){frame, knob, to};
}

/* Turns the knobs whose controls have changed, at a frame of a piece. */
static void turn_knobs(struct core *c, int frame)
{
    unsigned changed = core_take_changes(c, KNOB_BITS);
    if (changed & 1 << DRY) core_turn(c, frame, HC_DRY, gain(c, DRY));
    if (changed & 1 << WET) core_turn(c, frame, HC_WET, gain(c, WET));
    if (changed & 1 << GAIN) core_turn(c, frame, HC_GAIN, gain(c, GAIN));
    if (changed & 1 << ENABLED)
        core_turn(c, frame, HC_BYPASS, value(c, ENABLED) > 0.5f && !atomic_load(&c->is_lost) ? 0 : 1);
    if (changed & 1 << PREDELAY) core_turn(c, frame, HC_PREDELAY, rintf(value(c, PREDELAY) * (float)c->rate / 1000));
}

/* Applies the controls that are no knobs before a piece. */
static void apply_controls(struct core *c)
{
    if (core_take_changes(c, DIRECTION_BITS) && c->variant->n_sources > 0) move_source(c);
    hc_live_set_freewheel(c->live, atomic_load(&c->is_offline) || value(c, FREEWHEEL) > 0.5f);
    if (c->is_active && c->host.worker == CORE_NO_WORKER) return;
    unsigned changed = core_take_changes(c, ENGINE_BITS);
    if (!changed) return;
    hc_live_change change = {.size = sizeof change};
    float trim_db = value(c, TRIM);
    if (changed & 1 << BACKEND) change.backend = backends[(int)value(c, BACKEND)];
    if (changed & 1 << TRIM) change.trim_db = trim_db < controls[TRIM].max ? trim_db : INFINITY;
    atomic_store(&c->is_set, true);
    hc_live_request(c->live, &change);
}

static bool is_silence(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i] != 0) return false; /* NaN too */
    return true;
}

/* Sets the meters, and counts the frames of silent input. */
static void read_meters(struct core *c, bool was_silent, int n)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(c->live, &stats);
    double lasts = (double)n / c->rate, load = (double)core_get(c, LOAD);
    load += (100e-9 * (double)stats.took_ns / lasts - load) * (lasts < 0.3 ? lasts / 0.3 : 1);
    core_set(c, LOAD, load);
    core_set(c, LATE, (double)stats.late);
    core_set(c, LOST, (double)stats.lost);
    core_set(c, OVERRUNS, (double)stats.overruns);
    c->quiet = was_silent && !stats.changing && !core_has_work(c) ? c->quiet + (uint64_t)n : 0;
}

/* Waits for a core_work that is under way, and does what is left. */
static void finish_work(struct core *c)
{
    pthread_mutex_lock(&c->working);
    pthread_mutex_unlock(&c->working);
    if (core_has_work(c)) core_work(c);
}

/* Convolves frames [at, end). */
static void core_play(struct core *c, const float *const *in, float *const *out, int at, int end)
{
    const float *from[MAX_CHANNELS];
    float *to[MAX_CHANNELS];
    bool is_silent = true; /* before the call, which may replace the input by the output */
    for (int ch = 0; ch < c->variant->n_in; ch++) {
        from[ch] = in[ch] + at;
        is_silent = is_silent && is_silence(from[ch], end - at);
    }
    for (int ch = 0; ch < c->variant->n_out; ch++) to[ch] = out[ch] + at;
    hc_live_process_changes(c->live, from, to, end - at, c->changes, c->n_changes);
    read_meters(c, is_silent, end - at);
}

/* Collects changes of knobs for a piece of a block, which begins at frame `at`. next: the first frame with an event after
 * `at`. Returns the end of the piece. */
static int collect(struct core *c, int at, int n, int next, const struct core_events *events)
{
    int max_piece = c->variant->n_sources > 0 ? MIN_STEP : n;
    while (next < n && next - at < max_piece && c->n_changes + HC_N_KNOBS <= MAX_CHANGES) {
        int frame = next;
        next = events->apply(events->data, frame);
        turn_knobs(c, frame - at);
    }
    return next < n ? next : n;
}

void core_process(struct core *c, const float *const *in, float *const *out, int n, const struct core_events *events)
{
    int at = 0;
    do {
        int next = events && n > 0 ? events->apply(events->data, at) : n;
        apply_controls(c);
        if (c->has_loader && atomic_load(&c->is_offline)) finish_work(c);
        if (n == 0) return;
        c->n_changes = 0;
        turn_knobs(c, 0); /* the mask may be lost, or there again */
        int end = collect(c, at, n, next, events);
        core_play(c, in, out, at, end);
        at = end;
    } while (at < n);
}

uint32_t core_tail(const struct core *c)
{
    return atomic_load(&c->longest) + (uint32_t)(value(c, PREDELAY) * (float)c->rate / 1000);
}

bool core_is_quiet(const struct core *c)
{
    /* Knobs and masks fade; the engine's partitions end later than the response. */
    return c->quiet > core_tail(c) + 2 * ((uint64_t)c->rate * FADE_MS / 1000 + MAX_USUAL_BLOCK);
}

/* ---- setup -------------------------------------------------------------------------------------- */

struct core *core_new(const struct variant *variant, const char *folder, const struct core_host *host)
{
    struct core *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->folder = strdup(folder);
    if (!c->folder || !mailboxes_open(&c->requests, N_SIDES, sizeof(struct request))) {
        free(c->folder);
        free(c);
        return NULL;
    }
    c->variant = variant;
    c->host = *host;
    for (int i = 0; i < N_CONTROLS; i++) core_set(c, i, (double)controls[i].initial);
    sem_init(&c->wake, 0, 0);
    sem_init(&c->ended, 0, 0);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->calls, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->working, NULL);
    answers_open(&c->answers);
    core_shipped_path(c, NULL, c->masks[SIDE_A]);
    return c;
}

void core_free(struct core *c)
{
    if (c && stop_loader(c)) free_all(c);
}

bool core_open(struct core *c, int rate, int block, char *why, size_t cap)
{
    hc_live_config config;
    block = block < 16 ? 16 : block > MAX_USUAL_BLOCK ? MAX_USUAL_BLOCK : block;
    if (c->variant->n_sources > 0 && block > MAX_STEP) block = MAX_STEP;
    if (c->live && rate == c->rate && block == c->block) return true;
    if (!start_loader(c)) return snprintf(why, cap, "a thread cannot be started; raise the limit on processes"), false;
    hc_live_config_init(&config);
    config.n_in = c->variant->n_in;
    config.n_out = c->variant->n_out;
    config.rate = rate;
    config.block = block;
    config.fade_ms = FADE_MS;
    config.standby_share = -1; /* fifty instances with standby engines would load the CPU as much as without a GPU */
    config.cpu_if_no_device = 1;
    config.left_of_stereo = 1;
    if (variant_has(c->variant, PREDELAY)) config.max_predelay_ms = MAX_PREDELAY_MS;
    config.n_sources = c->variant->n_sources;
    config.grid_deg = GRID_DEG;
    config.mix_entries = 1; /* a moving tone has lines below -55 dB beside it; nearest entries give -13 dB */
    config.normalise = 1;   /* banks differ by 30 dB, and users wear headphones */
    config.history_s = fmin(HISTORY_S, (double)HISTORY_FLOATS / config.n_in / config.rate);
    config.say = core_report;
    config.answer = core_take_answer;
    config.data = c;
    hc_live *live;
    if (hc_live_open(&config, &live, why, cap) != HC_OK) return false;
    if (c->has_loader && c->live) finish_work(c); /* a mask that was asked for stays, too */
    pthread_mutex_lock(&c->working);              /* the loader uses `live` under it */
    hc_live_close(c->live);
    c->live = live;
    c->rate = rate, c->block = block;
    c->keeps = false;
    pthread_mutex_lock(&c->lock);
    c->must_load = c->must_keep = true;
    pthread_mutex_unlock(&c->lock);
    core_note_changes(c, ~0u); /* `live` has none of the values yet */
    pthread_mutex_unlock(&c->working);
    return true;
}

void core_reset(struct core *c)
{
    hc_live_forget(c->live);
    c->quiet = 0;
}

bool core_activate(struct core *c)
{
    pthread_mutex_lock(&c->lock);
    bool loads = c->must_load;
    pthread_mutex_unlock(&c->lock);
    hc_live_reset(c->live);
    c->quiet = 0;
    apply_controls(c); /* the backend of a state is there with the mask */
    if (loads || (c->host.worker == CORE_NO_WORKER && core_has_work(c))) core_do_work(c, true);
    c->is_active = true;
    pthread_mutex_lock(&c->lock);
    if (c->must_load) atomic_store(&c->is_requested, true); /* restored while the core was not active yet */
    pthread_mutex_unlock(&c->lock);
    wake_loader(c);
    return loads;
}

void core_deactivate(struct core *c)
{
    c->is_active = false;
}
