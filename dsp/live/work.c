/* work - loads masks, builds engines, hands them over to the audio thread and closes the engines that it returns: all
 * that a worker of the host does in hc_live_work. */
#include "live.h"

#include "dsp/base/await.h"
#include "dsp/device/backend.h"
#include "dsp/engine/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SAY_CAP = 1024 + TEXT_CAP, /* bytes of a message, which may contain a path */
    MAX_DIAGNOSTICS = 10       /* diagnostics of a configuration that config.say gets */
};
enum { SUPERSEDED = 1 }; /* a ready mask was asked for meanwhile: nothing was changed */
/* Ready masks may take this share of the machine's memory, and, while they wait, of a processor. */
static const double READY_MEMORY_SHARE = 0.25, READY_TIME_SHARE = 0.6;
static const double PROBE_MIN_S = 1, PROBE_MAX_S = 300; /* pause between two probes of a device that hung */

static void live_say(const hc_live *l, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void live_say(const hc_live *l, int level, const char *format, ...)
{
    char text[SAY_CAP];
    va_list args;
    if (!l->config.say) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->config.say(l->config.data, level, text);
}

/* ---- masks ------------------------------------------------------------------------------------- */

/* The notes of a bank report its rate. */
static void say_diagnostics(const hc_live *l, const char *path, const hc_responses *mask, int rate)
{
    bool is_bank = mask->n_channels > 0 && l->config.n_sources > 0;
    if (!is_bank && mask->file_rate && mask->rate != mask->file_rate)
        live_say(l, HC_LIVE_NOTE, "%s: resampled from %d to %d Hz", path, mask->file_rate, mask->rate);
    if (!is_bank && mask->rate && mask->rate != rate)
        live_say(l, HC_LIVE_NOTE, "%s: its %d Hz are played at %d Hz", path, mask->rate, rate);
    for (int i = 0, n = 0; i < mask->n_diagnostics && n < MAX_DIAGNOSTICS; i++) {
        if (mask->diagnostics[i].code == HC_NOTE) continue;
        live_say(l, HC_LIVE_WARNING, "%s", mask->diagnostics[i].text);
        n++;
    }
    if (mask->n_warnings > MAX_DIAGNOSTICS)
        live_say(l, HC_LIVE_WARNING, "%s: more warnings; see `haloconv check`", path);
}

/* A single response on a single input plays at every output. */
static int mask_spread(hc_responses *mask, int n_out, const char *path, struct reason *why)
{
    hc_route *routes = realloc(mask->routes, (size_t)n_out * sizeof *routes);
    if (!routes)
        return fail(HC_ENOMEM, why, "%s: no memory for %d route%s; free some memory", path, n_out, PLURAL(n_out));
    mask->routes = routes;
    for (int o = 1; o < n_out; o++) {
        routes[o] = routes[0];
        routes[o].out = o;
    }
    mask->n_routes = mask->n_out = n_out;
    return HC_OK;
}

struct loaded {             /* what a path names */
    hc_responses responses; /* no routes: a bank file              */
    struct bank_set *banks; /* NULL: none                          */
};

static void loaded_free(struct loaded *loaded)
{
    hc_responses_free(&loaded->responses);
    bank_set_release(loaded->banks);
    *loaded = (struct loaded){0};
}

/* Checks that a mask fits the channels. */
static int mask_fit(const hc_live *l, const char *path, struct loaded *loaded, struct reason *why)
{
    hc_responses *mask = &loaded->responses;
    int n_in = l->config.n_in, n_out = l->config.n_out, error = HC_OK;
    if (l->config.left_of_stereo && n_in == 1 && n_out == 1 && mask->n_channels == 2) {
        mask->n_routes = mask->n_out = 1; /* of the first channel */
        live_say(l, HC_LIVE_WARNING, "%s: is stereo, and its left channel plays; use a mono mask to hear another",
                 path);
    }
    if (mask->n_in > n_in || mask->n_out > n_out)
        error = fail(HC_EINVAL, why,
                     "%s: has %d input%s and %d output%s, this session %d and %d; use one with at most as many", path,
                     mask->n_in, PLURAL(mask->n_in), mask->n_out, PLURAL(mask->n_out), n_in, n_out);
    else if (mask->n_sources > 0 && !loaded->banks)
        error = fail(HC_EINVAL, why, "%s: has %d source%s, but this session has none; open it with n_sources", path,
                     mask->n_sources, PLURAL(mask->n_sources));
    else if (mask->n_routes == 0 && !loaded->banks)
        error = fail(HC_EINVAL, why, "%s: connects nothing; give it a route", path);
    else if (mask->n_channels == 1 && n_in == 1 && n_out > 1)
        error = mask_spread(mask, n_out, path, why);
    return error;
}

/* Prints each line of the notes about a bank. */
static void say_notes(const hc_live *l, const char *path, const char *notes)
{
    while (notes && *notes) {
        int length = (int)strcspn(notes, "\n");
        if (length > 0) live_say(l, HC_LIVE_NOTE, "%s: %.*s", path, length, notes);
        notes += length + (notes[length] == '\n');
    }
}

/* Loads the banks of a configuration, whose responses are loaded, or of a bank file. A sound file is one, too. */
static int sources_load(const hc_live *l, const char *path, int rate, struct loaded *loaded, struct reason *why)
{
    if (loaded->responses.n_channels > 0) hc_responses_free(&loaded->responses);
    bool is_bank = hc_bank_is_file(path) || !loaded->responses.memory;
    const hc_responses *responses = is_bank ? NULL : &loaded->responses;
    int error = bank_set_load(&l->config, path, rate, responses, &loaded->banks, why);
    for (int i = 0; !error && i < loaded->banks->n_banks; i++)
        say_notes(l, is_bank ? path : responses->banks[i], loaded->banks->banks[i].notes);
    return error;
}

static int responses_load(const hc_live *l, const char *path, int rate, struct loaded *loaded, struct reason *why)
{
    hc_responses *mask = &loaded->responses;
    unsigned flags = (l->config.keep_rate ? HC_KEEP_RATE : 0) | (l->config.n_sources > 0 ? HC_WITH_SOURCES : 0);
    int error = hc_responses_load(path, 0, rate, flags, mask, REASON_TEXT(why));
    bool has_routes = mask->n_channels == 0; /* a configuration, with channel counts of its own */
    if (!error && !has_routes && l->config.n_sources == 0)
        error = hc_responses_route(mask, path, l->config.n_in, REASON_TEXT(why));
    if (!error) say_diagnostics(l, path, mask, rate);
    return error;
}

/* A failure leaves *loaded empty. */
static int mask_load(const hc_live *l, const char *path, int rate, struct loaded *loaded, struct reason *why)
{
    bool plays_banks = l->config.n_sources > 0;
    int error = plays_banks && hc_bank_is_file(path) ? HC_OK : responses_load(l, path, rate, loaded, why);
    if (!error && plays_banks) error = sources_load(l, path, rate, loaded, why);
    if (!error) error = mask_fit(l, path, loaded, why);
    if (error) loaded_free(loaded);
    return error;
}

/* ---- engines ----------------------------------------------------------------------------------- */

void live_close_engine(hc_live *l, struct failover *f)
{
    if (!failover_close(f)) l->has_hung = true;
}

void live_close_or_put(hc_live *l, struct failover *f)
{
    if (f && !ready_put(f)) live_close_engine(l, f);
}

void live_close_returned(hc_live *l)
{
    live_close_or_put(l, atomic_exchange_explicit(&l->returned, NULL, memory_order_acq_rel));
}

static void hand_over(hc_live *l, struct failover *f)
{
    l->newest = f;
    l->is_loss_told = false;
    f->order = l->ready.noted;
    struct failover *outdated = atomic_exchange_explicit(&l->next, f, memory_order_acq_rel);
    live_close_or_put(l, outdated); /* NULL, or an engine that the audio thread has not taken */
}

/* The backend that "gpu" stands for: hybrid, if by the known costs the head takes the CPU less than half the time that
 * a call to the device takes. Many engines can then share the device, because none waits for it in its block. */
static const char *gpu_backend(const hc_config *config)
{
    hc_config hybrid = *config, gpu = *config;
    hc_info here = {.size = sizeof here}, there = {.size = sizeof there};
    hybrid.backend = "hybrid";
    gpu.backend = "cuda";
    if (config->n_sources > 0) return gpu.backend; /* the costs of sources are not known */
    if (hc_plan(&hybrid, &here, NULL, 0) != HC_OK || hc_plan(&gpu, &there, NULL, 0) != HC_OK) return gpu.backend;
    return here.cost_ns < there.cost_ns / 2 ? hybrid.backend : gpu.backend;
}

/* The first frame of the history that a new engine processes: whole blocks before the end, so that its partitions end
 * where blocks do. */
static int64_t catch_up_start(const hc_live *l, const struct failover *f)
{
    int longest =
        f->config.n_sources > 0 && f->config.bank_taps > f->config.max_taps ? f->config.bank_taps : f->config.max_taps;
    int64_t begin = f->begin, block = f->config.block, taps = (longest + block - 1) / block * block;
    int64_t most = l->history.size - (int64_t)HISTORY_SLACK_S * l->config.rate;
    int64_t from = input_history_end(&l->history) - (taps < most ? taps : most);
    return from > begin ? from : begin;
}

/* Makes an engine that plays a mask and has processed the history. */
static int make_engine(hc_live *l, const struct engine_format *format, const char *backend, const struct loaded *loaded,
                       struct failover **f, struct reason *why)
{
    const hc_responses *mask = &loaded->responses;
    hc_config config;
    hc_config_init(&config);
    config.rate = format->rate;
    config.block = format->block < MAX_BLOCK ? format->block : MAX_BLOCK;
    config.n_in = l->config.n_in;
    config.n_out = l->config.n_out;
    config.max_taps = mask->n_frames > 0 ? mask->n_frames : 1;
    if (loaded->banks) {
        config.n_sources = loaded->banks->n_sources;
        config.bank_taps = loaded->banks->n_taps;
    }
    config.n_routes = mask->n_routes > config.n_out ? mask->n_routes : config.n_out;
    /* engine_crossfade, too, counts frames of the fade. */
    config.fade_frames =
        l->config.fade_ms > 0 ? (int)fmin(CONFIG_MAX_FADE, l->config.fade_ms * 1e-3 * format->rate) : 0;
    if (config.fade_frames == 0) config.fade_frames = HC_NO_FADE;
    config.method = l->config.method;
    config.spin = l->config.spin;
    config.n_threads = l->config.n_threads;
    config.backend = strcmp(backend, "gpu") == 0 ? gpu_backend(&config) : backend;
    int64_t begin = atomic_load(&l->history_begin);
    int error = failover_open(&config, &l->history, &l->places, l->config.standby_share, f, why);
    if (error) return error;
    (*f)->begin = begin;
    error = failover_load(*f, mask->routes, mask->n_routes, loaded->banks, why);
    if (!error) error = failover_start(*f, catch_up_start(l, *f), why);
    if (error) live_close_engine(l, *f);
    return error;
}

/* Frames of the longest response. */
static int longest_of(const struct loaded *loaded)
{
    int mask = loaded->responses.n_frames;
    return loaded->banks && loaded->banks->n_taps > mask ? loaded->banks->n_taps : mask;
}

static void set_info(hc_live *l, const char *path, const struct loaded *loaded)
{
    const hc_responses *mask = &loaded->responses;
    const struct bank_set *banks = loaded->banks;
    const hc_info *info = &l->newest->info;
    size_t n_out = (size_t)l->config.n_out;
    pthread_mutex_lock(&l->info_lock);
    l->info = (hc_live_info){.backend = info->backend,
                             .method = info->method,
                             .ready_memory = l->info.ready_memory,
                             .rate = l->format_used.rate,
                             .block = l->format_used.block,
                             .longest = longest_of(loaded)};
    if (banks) {
        l->info.n_sources = banks->n_sources;
        l->info.n_banks = banks->n_banks;
        l->info.n_entries = banks->n_entries;
        l->info.n_bank_out = banks->n_out;
        l->info.bank_gain_db = banks->gain_db;
    }
    memcpy(l->info.device, info->device, sizeof l->info.device);
    snprintf(l->path, sizeof l->path, "%s", path);
    memset(l->reaches, 0, (size_t)l->config.n_in * n_out);
    for (int i = 0; i < mask->n_routes; i++)
        l->reaches[(size_t)mask->routes[i].in * n_out + (size_t)mask->routes[i].out] = 1;
    for (int s = 0; s < l->config.n_sources; s++) {
        const hc_bank_data *bank = banks && s < banks->n_sources ? &banks->banks[banks->sources[s].bank] : NULL;
        if (bank) memset(l->reaches + (size_t)s * n_out, 1, (size_t)bank->n_out);
        l->n_entries[s] = bank ? bank->n_entries : 0;
    }
    pthread_mutex_unlock(&l->info_lock);
}

/* Makes an engine, or one on the CPU if the device cannot be opened and the host allows that. */
static int make_engine_here(hc_live *l, const struct engine_format *format, const struct loaded *mask, bool says,
                            struct failover **f, struct reason *why)
{
    int error = make_engine(l, format, format->backend, mask, f, why);
    if (!error || !l->config.cpu_if_no_device || strcmp(format->backend, "cpu") == 0) return error;
    if (says) live_say(l, HC_LIVE_WARNING, "%s; the CPU plays", why->text);
    return make_engine(l, format, "cpu", mask, f, why);
}

static bool is_path_of_current(const hc_live *l, const char *path)
{
    return l->current && strcmp(path, l->current->path) == 0;
}

/* Makes an engine and hands it over, unless a ready mask is asked for meanwhile. */
static int replace_engine(hc_live *l, const struct engine_format *format, const char *path, const struct loaded *mask,
                          struct reason *why)
{
    struct failover *f;
    int error = make_engine_here(l, format, mask, true, &f, why);
    if (error) return error;
    if (!ready_supersede(l, NULL, is_path_of_current(l, path) ? l->current : NULL)) {
        live_close_engine(l, f);
        return SUPERSEDED;
    }
    if (l->newest) atomic_fetch_add(&l->rebuilds, 1);
    hand_over(l, f);
    l->format_used = *format;
    return HC_OK;
}

/* Does the engine have this rate and block, and does the whole history have this rate? */
static bool is_current(const hc_live *l, const struct engine_format *format)
{
    return format->rate == l->format_used.rate && format->block == l->format_used.block &&
           l->newest->begin == atomic_load(&l->history_begin);
}

/* The ready mask that played waits again. If a new engine has its mask, it cannot be asked for, and is dropped. */
static void leave_current(hc_live *l)
{
    struct ready_mask *mask = l->current;
    l->current = NULL;
    if (!mask) return;
    if (!mask->path[0]) {
        ready_drop(l, mask);
    } else {
        mask->responses = l->responses;
        l->responses = (hc_responses){0};
    }
}

/* Can the engine play a mask and its banks by a fade inside it? */
static bool fits_engine(const struct failover *f, const struct loaded *mask)
{
    const struct bank_set *banks = mask->banks;
    if (mask->responses.n_frames > f->config.max_taps) return false;
    if (!banks) return f->config.n_sources == 0;
    return banks->n_sources <= f->config.n_sources && banks->n_taps <= f->config.bank_taps;
}

/* Plays a mask in a format: by a mask swap if the engine can, else by a new engine. Takes over `loaded`, also after a
 * failure; NULL: the mask that plays. */
static int mask_apply(hc_live *l, const char *path, struct loaded *loaded, const struct engine_format *format,
                      struct reason *why)
{
    const struct loaded present = {l->responses, l->banks}, *mask = loaded ? loaded : &present;
    struct failover *f = l->newest;
    /* The engine of a ready mask keeps this mask, so that it can be played again at once. */
    bool swaps = f && failover_state(f) == HC_LIVE_OK && !atomic_load(&f->cannot_follow) &&
                 (!l->current || is_path_of_current(l, path)) && is_current(l, format) &&
                 strcmp(format->backend, l->format_used.backend) == 0 && fits_engine(f, mask);
    int error = HC_OK;
    if (!swaps)
        error = replace_engine(l, format, path, mask, why);
    else if (!ready_supersede(l, l->current, NULL))
        error = SUPERSEDED;
    else
        error = failover_load(f, mask->responses.routes, mask->responses.n_routes, mask->banks, why);
    if (error) {
        if (loaded) loaded_free(loaded);
        return error;
    }
    if (!swaps) leave_current(l);
    set_info(l, path, mask);
    if (!loaded) return HC_OK;
    hc_responses_free(&l->responses);
    bank_set_release(l->banks);
    l->responses = loaded->responses;
    l->banks = loaded->banks;
    return HC_OK;
}

/* ---- failures of the device -------------------------------------------------------------------- */

static void schedule_probe(hc_live *l, const struct failover *f)
{
    int64_t pause = (int64_t)(1e9 * l->probe_pause_s);
    atomic_store(&l->next_probe_ns, atomic_load(&f->is_hung) ? now_ns() + pause : INT64_MAX);
}

/* May an engine on the CPU replace the device? A standby engine has shown that the CPU can play the mask. */
static bool cpu_may_play(const hc_live *l, const struct failover *f)
{
    return !f->is_on_cpu && (l->config.standby_share <= 0 || failover_has_standby(f));
}

/* Tells config.say that a device is lost or too slow. Returns whether an engine on the CPU has to replace it. */
static bool tell_failure(hc_live *l)
{
    struct failover *f = l->newest;
    if (!f) return false;
    enum hc_live_state state = failover_state(f);
    if (state != HC_LIVE_OK && !l->is_loss_told) {
        hc_info info = {.size = sizeof info};
        l->is_loss_told = true;
        /* The pause doubles each time that the device fails again. */
        l->probe_pause_s = l->probe_pause_s < PROBE_MIN_S ? PROBE_MIN_S : fmin(2 * l->probe_pause_s, PROBE_MAX_S);
        schedule_probe(l, f);
        hc_get_info(f->main.engine, &info);
        bool plays = state == HC_LIVE_STANDBY || cpu_may_play(l, f);
        live_say(l, HC_LIVE_ERROR, "%s: %s; %s", f->info.device, info.error[0] ? info.error : "it answers no more",
                 plays                ? "the CPU goes on in its place"
                 : l->config.lost_dry ? "the CPU cannot carry this mask, so the input is passed on dry; start again"
                                      : "the CPU cannot carry this mask, so it is silent; start again");
        return state == HC_LIVE_LOST && plays;
    }
    if (state != HC_LIVE_OK || !atomic_exchange(&f->is_slow, false) || !cpu_may_play(l, f)) return false;
    live_say(l, HC_LIVE_ERROR, "%s: its blocks come too late; the CPU goes on in its place", f->info.device);
    return true;
}

/* A device that hung may have been busy or suspended. Returns whether it answers again and gets a new engine. */
static bool probe(hc_live *l)
{
    struct failover *f = l->newest;
    if (!l->is_loss_told || now_ns() < atomic_load(&l->next_probe_ns)) return false;
    bool answers = failover_device_answers(f);
    schedule_probe(l, f);
    if (answers) live_say(l, HC_LIVE_NOTE, "%s: answers again", f->info.device);
    return answers;
}

/* ---- ready masks ------------------------------------------------------------------------------- */

static void say_loaded(const hc_live *l, const char *path)
{
    const hc_info *info = &l->newest->info;
    int rate = l->format_used.rate;
    const struct bank_set *banks = l->banks;
    if (banks) {
        char gain[32] = "none";
        double gain_db = rint(10 * (double)banks->gain_db) / 10 + 0.0; /* not -0.0 */
        if (gain_db > -INFINITY) snprintf(gain, sizeof gain, "%+.1f dB", gain_db);
        live_say(l, HC_LIVE_NOTE,
                 "%s: loaded, %d source%s, %d entr%s for %d output%s, %.3f s (%d frame%s at %d Hz), largest gain %s, "
                 "%d route%s; %s, %s",
                 path, banks->n_sources, PLURAL(banks->n_sources), banks->n_entries,
                 banks->n_entries == 1 ? "y" : "ies", banks->n_out, PLURAL(banks->n_out), (double)banks->n_taps / rate,
                 banks->n_taps, PLURAL(banks->n_taps), rate, gain, l->responses.n_routes, PLURAL(l->responses.n_routes),
                 info->device, info->method);
        return;
    }
    live_say(l, HC_LIVE_NOTE, "%s: loaded, %.3f s (%d frame%s at %d Hz), %d route%s; %s, %s", path,
             (double)l->responses.n_frames / rate, l->responses.n_frames, PLURAL(l->responses.n_frames), rate,
             l->responses.n_routes, PLURAL(l->responses.n_routes), info->device, info->method);
}

/* number: the request's; 0: it has none. */
static void answer(const hc_live *l, uint64_t number, int error, const char *why)
{
    if (l->config.answer && number > 0) l->config.answer(l->config.data, number, error, error ? why : "");
}

/* Takes note of a fade to a ready mask. Returns whether the mask has to be loaded again. *number becomes 0 when the
 * request is answered. */
static bool note_ready(hc_live *l, struct ready_mask *mask, uint64_t *number)
{
    bool is_lost = atomic_load(&mask->engine->cannot_follow);
    if (!is_lost) answer(l, *number, HC_OK, "");
    if (!is_lost) *number = 0;
    if (mask == l->current) return is_lost;
    leave_current(l);
    hc_responses_free(&l->responses);
    l->responses = mask->responses;
    mask->responses = (hc_responses){0};
    l->current = mask;
    l->newest = mask->engine;
    l->is_loss_told = false;
    l->format_used = mask->format;
    if (is_lost) return true;
    set_info(l, mask->path, &(struct loaded){l->responses, NULL});
    atomic_fetch_add(&l->masks, 1);
    say_loaded(l, mask->path);
    struct file_id now = file_identify(mask->path, mask->format.rate);
    return memcmp(&now, &mask->file, sizeof now) != 0;
}

/* Returns whether a mask has to be loaded: path[TEXT_CAP], and the number of a request that is not answered yet. */
static bool take_requests(hc_live *l, char *path, uint64_t *number)
{
    struct ready_mask *mask;
    uint64_t mask_number;
    bool loads = ready_note(l, &mask, &mask_number, path, number);
    if (!mask || !note_ready(l, mask, &mask_number) || loads) return loads;
    memcpy(path, mask->path, TEXT_CAP);
    *number = mask_number;
    return true;
}

/* The first index of a path in the list; -1: it is not there. */
static int list_index(const struct ready_list *list, const char *path)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->paths[i], path) == 0) return i;
    return -1;
}

static bool is_outdated(hc_live *l, const struct ready_mask *m, const struct engine_format *format, bool looks)
{
    if (m == l->current) return false; /* change_engine and requests replace it, also if it is in the list no more */
    if (list_index(l->ready.list, m->path) < 0) return true;
    struct file_id now = looks ? file_identify(m->path, m->format.rate) : m->file;
    return m->format.rate != format->rate || m->format.block != format->block ||
           strcmp(m->format.backend, format->backend) != 0 || m->engine->begin != atomic_load(&l->history_begin) ||
           atomic_load(&m->engine->cannot_follow) || memcmp(&now, &m->file, sizeof now) != 0;
}

/* Drops the ready masks that are not in the list any more, or cannot be played as they are. looks: also those whose
 * files have changed. */
static void drop_outdated(hc_live *l, const struct engine_format *format, bool looks)
{
    struct ready_list *list = l->ready.list;
    for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++) {
        if (!m->engine || m->is_dropped || !is_outdated(l, m, format, looks)) continue;
        if (ready_drop(l, m)) memset(list->failed, 0, sizeof list->failed);
    }
}

/* Do the ready masks that wait take more than their share of memory or time? */
static bool is_too_much(const hc_live *l)
{
    double time = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (const struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++)
        if (m->engine && !m->is_dropped && m != l->current) time += 1e-9 * m->engine->info.cost_ns * m->format.rate;
    return time > READY_TIME_SHARE || (memory > 0 && (double)ready_bytes(l) > READY_MEMORY_SHARE * memory);
}

/* Drops the last ready mask of the list after mask i, but not the one that plays. false: there is none. */
static bool drop_last(hc_live *l, int i)
{
    const struct ready_list *list = l->ready.list;
    for (int k = list->n - 1; k > i; k--) {
        struct ready_mask *m = ready_find(l, list->paths[k]);
        if (m && m != l->current && list_index(list, m->path) > i && ready_drop(l, m)) return true;
    }
    return false;
}

/* Makes mask i of the list ready, in the place of later ones if all together take too much. */
static int make_ready(hc_live *l, int i, const struct engine_format *format)
{
    char why[SAY_CAP] = "";
    const char *path = l->ready.list->paths[i];
    struct file_id file = file_identify(path, format->rate);
    struct failover *f;
    struct loaded loaded = {0};
    int error = mask_load(l, path, format->rate, &loaded, REASON(why, sizeof why));
    if (!error) error = make_engine_here(l, format, &loaded, false, &f, REASON(why, sizeof why));
    struct ready_mask *mask = error ? NULL : ready_add(l, path, f, format, &file, false, &loaded.responses);
    if (!error && !mask) {
        live_close_engine(l, f);
        error = fail(HC_ENOMEM, REASON(why, sizeof why), "%s: cannot be kept ready; free memory or threads", path);
    }
    if (error) {
        loaded_free(&loaded);
        live_say(l, HC_LIVE_WARNING, "%s", why);
        return error;
    }
    while (is_too_much(l)) {
        if (drop_last(l, i)) continue;
        ready_drop(l, mask);
        return HC_ENOMEM;
    }
    return HC_OK;
}

static void say_ready(hc_live *l)
{
    const struct ready_list *list = l->ready.list;
    uint64_t bytes = ready_bytes(l);
    int n = 0;
    for (int i = 0; i < list->n; i++) n += ready_find(l, list->paths[i]) != NULL;
    pthread_mutex_lock(&l->info_lock);
    l->info.ready_memory = bytes;
    pthread_mutex_unlock(&l->info_lock);
    if (n == l->ready.n_told) return;
    l->ready.n_told = n;
    if (n < list->n)
        live_say(l, HC_LIVE_NOTE, "%d of %d masks ready, %.0f MB; the others are loaded when they are asked for", n,
                 list->n, 1e-6 * (double)bytes);
    else if (n > 0)
        live_say(l, HC_LIVE_NOTE, "%d mask%s ready, %.0f MB", n, PLURAL(n), 1e-6 * (double)bytes);
}

/* Makes the next mask of the list ready. Returns whether there are more. */
static bool keep_ready(hc_live *l, const struct engine_format *format)
{
    bool is_new = ready_list_take(l);
    struct ready_list *list = l->ready.list;
    if (!list || !l->newest) return false;
    drop_outdated(l, format, is_new);
    if (!l->current && list_index(list, l->path) >= 0 && is_current(l, format)) {
        struct file_id file = file_identify(l->path, l->format_used.rate);
        l->current = ready_add(l, l->path, l->newest, &l->format_used, &file, true, NULL);
    }
    for (int i = 0; i < list->n; i++) {
        if (list->failed[i] || ready_find(l, list->paths[i])) continue;
        int error = make_ready(l, i, format);
        list->failed[i] = error != HC_OK;
        if (error == HC_ENOMEM) memset(list->failed, true, sizeof list->failed); /* the others would fail, too */
        return true;
    }
    say_ready(l);
    return false;
}

/* ---- the worker's call ------------------------------------------------------------------------- */

/* A mask that cannot be loaded or played changes nothing; the other requests then apply to the mask that plays. number:
 * the request's, for config.answer. */
static int change_mask(hc_live *l, const char *path, uint64_t number, const struct engine_format *format)
{
    char why[SAY_CAP] = "";
    struct loaded loaded = {0};
    struct file_id file = file_identify(path, format->rate);
    int error = mask_load(l, path, format->rate, &loaded, REASON(why, sizeof why));
    bool is_first = l->newest == NULL;
    if (!error) error = mask_apply(l, path, &loaded, format, REASON(why, sizeof why));
    if (error == SUPERSEDED) return HC_OK;
    answer(l, number, error, why);
    if (error) {
        live_say(l, HC_LIVE_ERROR, "%s", why);
        return error;
    }
    if (l->current) l->current->file = file;
    if (!is_first) atomic_fetch_add(&l->masks, 1);
    say_loaded(l, path);
    return HC_OK;
}

/* A path with %r stands for another file at another rate. */
static bool is_another_file(const char *path, int rate, int rate_before)
{
    char now[TEXT_CAP], before[TEXT_CAP];
    return hc_responses_find(path, rate, now, sizeof now, NULL, 0) == HC_OK &&
           hc_responses_find(path, rate_before, before, sizeof before, NULL, 0) == HC_OK && strcmp(now, before) != 0;
}

/* Makes a new engine for the mask that plays; at another rate the mask is loaded again, unless it keeps its rate and its
 * file. */
static int change_engine(hc_live *l, const struct engine_format *format)
{
    char why[SAY_CAP] = "", path[TEXT_CAP];
    struct loaded loaded = {0};
    memcpy(path, l->path, sizeof path);
    struct engine_format before = l->format_used;
    bool reloads =
        format->rate != before.rate && (!l->config.keep_rate || is_another_file(path, format->rate, before.rate));
    int error = reloads ? mask_load(l, path, format->rate, &loaded, REASON(why, sizeof why)) : HC_OK;
    if (!error) error = mask_apply(l, path, reloads ? &loaded : NULL, format, REASON(why, sizeof why));
    if (error == SUPERSEDED) return HC_OK;
    if (error)
        live_say(l, HC_LIVE_ERROR, "%s", why);
    else if (format->rate != before.rate || format->block != before.block)
        live_say(l, HC_LIVE_NOTE, "now at %d Hz in blocks of %d frame%s", format->rate, format->block,
                 PLURAL(format->block));
    else
        live_say(l, HC_LIVE_NOTE, "a new engine; %s, %s", l->newest->info.device, l->newest->info.method);
    return error;
}

/* Sets next_backend after a failure of the device, its recovery or a request. Returns whether one of these happened. */
static bool choose_backend(hc_live *l)
{
    char text[TEXT_CAP];
    uint64_t number;
    bool to_cpu = tell_failure(l), to_requested = probe(l);
    if (text_mailbox_take(&l->backend, text, &number)) {
        snprintf(l->requested_backend, sizeof l->requested_backend, "%.*s", BACKEND_CAP - 1, text);
        to_requested = true;
    }
    if (to_requested)
        memcpy(l->next_backend, l->requested_backend, sizeof l->next_backend);
    else if (to_cpu || l->is_loss_told)
        snprintf(l->next_backend, sizeof l->next_backend, "cpu");
    return to_cpu || to_requested;
}

/* The format of the next engine. */
static struct engine_format format_wanted(const hc_live *l)
{
    uint64_t requested = atomic_load_explicit(&l->format, memory_order_acquire);
    struct engine_format format = {.rate = format_rate(requested), .block = format_block(requested)};
    memcpy(format.backend, l->next_backend, sizeof format.backend);
    return format;
}

int hc_live_work(hc_live *l)
{
    char path[TEXT_CAP];
    uint64_t number;
    int error = HC_OK;
    if (!l) return HC_EINVAL;
    pthread_mutex_lock(&l->setup);
    atomic_exchange_explicit(&l->has_work, false, memory_order_acq_rel);
    live_close_returned(l);
    ready_sweep(l);
    /* With ready masks, which sources do not have, `newest` may be closed until take_requests names another one. */
    if (l->newest && l->config.n_sources > 0) failover_sweep(l->newest);
    bool loads = take_requests(l, path, &number);
    bool new_backend = choose_backend(l);
    unsigned requests = atomic_load(&l->format_requests);
    struct engine_format format = format_wanted(l);
    if (loads) error = change_mask(l, path, number, &format);
    if (l->newest && new_backend && failover_state(l->newest) == HC_LIVE_OK)
        new_backend = strcmp(format.backend, l->format_used.backend) != 0; /* change_mask may have done it */
    bool new_format = l->newest && l->refused != atomic_load(&l->format_requests) && !is_current(l, &format);
    if (l->newest && (new_backend || new_format)) {
        int failed = change_engine(l, &format);
        if (failed) l->refused = requests; /* until another format is requested */
        if (!error) error = failed;
    }
    if (keep_ready(l, &format)) atomic_store_explicit(&l->has_work, true, memory_order_release);
    pthread_mutex_unlock(&l->setup);
    return error;
}

int hc_live_play(hc_live *l, const char *path, hc_responses *responses, char *why, size_t cap)
{
    char replaced[TEXT_CAP];
    uint64_t number;
    int error = HC_OK;
    if (!l || !path || !responses) {
        hc_responses_free(responses);
        return fail(HC_EINVAL, REASON(why, cap), "hc_live_play: live, path or responses is NULL; pass all");
    }
    pthread_mutex_lock(&l->setup);
    struct engine_format format = format_wanted(l);
    struct loaded loaded = {.responses = *responses};
    *responses = (hc_responses){0};
    say_diagnostics(l, path, &loaded.responses, format.rate);
    if (l->config.n_sources > 0) error = sources_load(l, path, format.rate, &loaded, REASON(why, cap));
    if (!error) error = mask_fit(l, path, &loaded, REASON(why, cap));
    if (error) {
        loaded_free(&loaded);
    } else {
        take_requests(l, replaced, &number);
        error = mask_apply(l, path, &loaded, &format, REASON(why, cap));
    }
    if (error == SUPERSEDED) error = HC_OK;
    pthread_mutex_unlock(&l->setup);
    return error;
}

/* ---- what plays -------------------------------------------------------------------------------- */

void hc_live_get_info(hc_live *l, hc_live_info *info)
{
    if (!l || !info) return;
    pthread_mutex_lock(&l->info_lock);
    hc_live_info full = l->info;
    full.size = info->size;
    full.reaches = info->reaches;
    if (full.reaches) memcpy(full.reaches, l->reaches, (size_t)l->config.n_in * (size_t)l->config.n_out);
    memcpy(info, &full, full.size < sizeof full ? full.size : sizeof full);
    pthread_mutex_unlock(&l->info_lock);
}

size_t hc_live_mask(hc_live *l, char *path, size_t cap)
{
    if (!l) return 0;
    pthread_mutex_lock(&l->info_lock);
    size_t length = strlen(l->path);
    snprintf(path, cap, "%s", l->path);
    pthread_mutex_unlock(&l->info_lock);
    return length;
}

int hc_live_n_entries(hc_live *l, int source)
{
    if (!l || source < 0 || source >= l->config.n_sources) return 0;
    pthread_mutex_lock(&l->info_lock);
    int n_entries = l->n_entries[source];
    pthread_mutex_unlock(&l->info_lock);
    return n_entries;
}
