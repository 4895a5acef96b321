#include "session.h"

#include "host/message.h"
#include "host/stopwatch.h"
#include "watch.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LIMITED_PAUSE_S = 30; /* between two messages about feedback */
static const time_t LOADER_END_S = 2;     /* the longest wait for a mask that is being loaded */

struct session {
    hc_live *live;
    struct live_scene *scene; /* NULL: there are no sources */
    char *first_error; /* [MESSAGE_CAP] while the first bank is loaded: load_first_bank returns errors; else NULL */
    bool is_opening;   /* the first mask or bank is loaded */
    int n_in, n_out;
    double start_s;
    struct session_status before;        /* status at the end of an earlier process */
    atomic_uint_fast64_t xruns, xrun_ms; /* xrun_ms: when the last one was, since start_s */

    pthread_t loader;
    sem_t wake;
    atomic_bool end, is_busy;
    bool has_loader;
    struct message_limit lines; /* OSC messages and a watched file can cause any number */

    int preload; /* preload of the settings */
    const char *kept[HC_LIVE_MAX_KEPT];
    int n_kept;
    struct watch *watches; /* [n_kept], of `kept`; NULL: no memory, or nothing is kept */

    struct answers answers; /* to requests of masks */

    uint64_t said_limited, said_non_finite, said_overflowed; /* counts at the last messages of session_tend */
    double next_limited_s;
};

/* ---- the loader -------------------------------------------------------------------------------- */

static void say(void *data, int level, const char *text)
{
    struct session *s = data;
    if (s->is_opening && level == HC_LIVE_NOTE && strstr(text, ": loaded, ")) return; /* the program prints the same */
    if (s->first_error && level == HC_LIVE_ERROR)
        snprintf(s->first_error, MESSAGE_CAP, "%s", text);
    else if (message_limit_allows(&s->lines))
        (level == HC_LIVE_ERROR ? message_error : message_note)("%s", text);
}

static void session_keep_answer(void *data, uint64_t number, int error, const char *why)
{
    struct session *s = data;
    answers_put(&s->answers, number, error, why);
    answers_publish(&s->answers);
}

enum answer session_answer(struct session *s, uint64_t number, char why[ANSWER_CAP])
{
    return answers_get(&s->answers, number, why);
}

static void *loader(void *arg)
{
    struct session *s = arg;
    while (!atomic_load(&s->end)) {
        atomic_store(&s->is_busy, true);
        while (hc_live_has_work(s->live) && !atomic_load(&s->end)) hc_live_work(s->live);
        atomic_store(&s->is_busy, false);
        while (sem_wait(&s->wake) != 0 && errno == EINTR) continue;
    }
    return NULL;
}

static void request(struct session *s, const hc_live_change *change)
{
    char why[ANSWER_CAP];
    if (hc_live_request(s->live, change) != HC_OK) {
        if (change->mask)
            message_write(why, sizeof why, "%.200s: the path has 4096 bytes or more; use a shorter one", change->mask);
        else
            message_write(why, sizeof why, "%d Hz in blocks of %d frames cannot be played; choose another format",
                          change->rate, change->block);
        if (message_limit_allows(&s->lines)) message_error("%s", why);
        if (change->number) answers_put(&s->answers, change->number, HC_EINVAL, why), answers_publish(&s->answers);
    }
    sem_post(&s->wake);
}

uint64_t session_request_mask(struct session *s, const char *path)
{
    uint64_t number = answers_next(&s->answers);
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .mask = path, .number = number});
    return number;
}

void session_request_format(struct session *s, int rate, int block)
{
    request(s, &(hc_live_change){.size = sizeof(hc_live_change), .rate = rate, .block = block});
}

/* ---- masks that are ready ---------------------------------------------------------------------- */

static void session_keep_ready(struct session *s)
{
    if (hc_live_keep(s->live, s->kept, s->n_kept) != HC_OK && message_limit_allows(&s->lines))
        message_error("the masks of the list cannot be kept ready; use shorter paths, or --preload 0");
    sem_post(&s->wake);
}

/* Returns the i-th mask around `current` in the list: the next, the previous, the second next, ... */
static int session_nearest(int i, int current, int n)
{
    int step = (i + 1) / 2;
    return (current + (i % 2 ? step : n - step)) % n;
}

static bool is_kept(const struct session *s, const char *path)
{
    for (int i = 0; i < s->n_kept; i++)
        if (strcmp(s->kept[i], path) == 0) return true;
    return false;
}

void session_keep(struct session *s, char *const *paths, int n, int current, int other)
{
    int max = s->preload >= 0 && s->preload < HC_LIVE_MAX_KEPT ? s->preload + 1 : HC_LIVE_MAX_KEPT;
    if (s->preload == 0) return;
    if (n < 2) n = 0; /* the mask that plays is ready anyway */
    if (max > n) max = n;
    const char *before[HC_LIVE_MAX_KEPT];
    int n_before = s->n_kept;
    memcpy(before, s->kept, sizeof before);
    for (int i = 0; i < max; i++) s->kept[i] = paths[max < n ? session_nearest(i, current, n) : i];
    s->n_kept = max;
    if (max > 0 && other >= 0 && !is_kept(s, paths[other])) s->kept[max - 1] = paths[other];
    if (max == n_before && memcmp(s->kept, before, (size_t)max * sizeof *before) == 0) return;
    free(s->watches);
    s->watches = calloc((size_t)max, sizeof *s->watches);
    for (int i = 0; i < max && s->watches; i++) watch_open(&s->watches[i], s->kept[i], session_rate(s));
    session_keep_ready(s);
}

bool session_compare(struct session *s, const char *a, const char *b)
{
    if (a && b && !(is_kept(s, a) && is_kept(s, b))) return false;
    return hc_live_compare(s->live, a, b) == HC_OK;
}

void session_watch_kept(struct session *s)
{
    bool changed = false;
    int rate = session_rate(s);
    for (int i = 0; i < s->n_kept && s->watches; i++) changed = watch_changed(&s->watches[i], rate) || changed;
    if (changed) session_keep_ready(s);
}

bool session_can_compare(const struct session *s)
{
    return s->n_kept > 1;
}

/* ---- open and close ---------------------------------------------------------------------------- */

/* Returns the number of inputs for a sound file: two if the file has one channel or four, else one for each channel. */
static int choose_inputs(const struct session_settings *settings, const hc_responses *mask)
{
    int n = mask->n_channels;
    if (settings->n_inputs > 0) return settings->n_inputs;
    if (n == 1 || n == 4) n = 2;
    return settings->max_inputs > 0 && n > settings->max_inputs ? settings->max_inputs : n;
}

/* Finds the outputs and the length of a bank, for which the engine is opened; load_first_bank reads the responses. */
static bool bank_look(const char *path, int n_sources, int rate, hc_responses *mask, char *why, size_t cap)
{
    hc_bank_data bank = {.size = sizeof bank};
    hc_bank_options options = {.size = sizeof options, .sizes_only = 1};
    if (hc_bank_load(path, 0, &options, &bank, why, cap) != HC_OK) return false;
    double growth = bank.file_rate > 0 ? (double)rate / bank.file_rate : 1;
    mask->n_in = mask->n_sources = n_sources;
    mask->n_out = bank.n_out;
    mask->n_frames = (int)ceil(fmax(growth, 1) * bank.n_taps);
    hc_bank_data_free(&bank);
    return true;
}

static bool is_bank(const hc_responses *mask)
{
    return mask->n_sources > 0 && !mask->sources; /* bank_look made such a mask */
}

bool session_load(const struct session_settings *settings, const char *path, int rate, hc_responses *mask, char *why,
                  size_t cap)
{
    unsigned flags = HC_WITH_SOURCES | (settings->live.keep_rate ? HC_KEEP_RATE : 0);
    int n_sources = settings->live.n_sources;
    *mask = (hc_responses){0};
    if (hc_bank_is_file(path)) return bank_look(path, n_sources > 0 ? n_sources : 1, rate, mask, why, cap);
    if (hc_responses_load(path, 0, rate, flags, mask, why, cap) == HC_OK) {
        bool is_configuration = mask->n_channels == 0; /* it states its input count */
        if (!is_configuration && n_sources > 0) {      /* a bank of one entry */
            hc_responses_free(mask);
            *mask = (hc_responses){0};
            return bank_look(path, n_sources, rate, mask, why, cap);
        }
        int n_in = is_configuration ? settings->n_inputs : choose_inputs(settings, mask);
        bool is_restored = settings->scene && settings->scene->is_restored; /* its mask may have fewer sources */
        if (is_configuration && n_sources > 0 && n_sources != mask->n_sources && !is_restored)
            message_write(why, cap, "%s: has %d source%s, and --sources asks for %d; omit --sources", path,
                          mask->n_sources, message_s(mask->n_sources), n_sources);
        else if (n_in == 0 || hc_responses_route(mask, path, n_in, why, cap) == HC_OK)
            return true;
    }
    hc_responses_free(mask);
    return false;
}

/* Loads the first bank. Its error ends the program, and is therefore returned, not printed. */
static bool load_first_bank(struct session *s, const char *path, char *why, size_t cap)
{
    char error[MESSAGE_CAP] = "";
    s->first_error = error;
    bool good = hc_live_load(s->live, path, 0) == HC_OK;
    s->first_error = NULL;
    return good || message_write(why, cap, "%s", *error ? error : "the bank cannot be loaded; use a shorter path");
}

static void report_bank(struct session *s, const struct session_settings *settings)
{
    hc_live_info info = {.size = sizeof info};
    hc_live_get_info(s->live, &info);
    if (info.n_banks == 0) return;
    message_note("bank: %d entr%s, %d output%s, %.3g s, largest gain %s", info.n_entries,
                 info.n_entries == 1 ? "y" : "ies", info.n_bank_out, message_s(info.n_bank_out),
                 (double)info.longest / info.rate, message_gain((double)info.bank_gain_db, 1).text);
    if (info.bank_gain_db > 0 && !settings->live.normalise)
        message_note("the bank amplifies some sounds by up to %.1f dB, and they may clip; "
                     "give --normalise, or a lower --gain",
                     (double)info.bank_gain_db);
}

static bool open_live(struct session *s, const struct session_settings *settings, const char *path, int rate, int block,
                      hc_responses *mask, char *why, size_t cap)
{
    hc_live_config config = settings->live;
    double longest_s = (double)mask->n_frames / rate;
    config.n_in = s->n_in = mask->n_in;
    config.n_sources = mask->n_sources;
    config.n_out = s->n_out = mask->n_out;
    config.rate = rate;
    config.block = block;
    if (config.history_s < longest_s) config.history_s = longest_s;
    config.fade_in = config.lost_dry = 1;
    config.say = say;
    config.answer = session_keep_answer;
    config.data = s;
    if (hc_live_open(&config, &s->live, why, cap) != HC_OK) {
        hc_responses_free(mask);
        return false;
    }
    session_set(s, HC_WET, settings->wet);
    session_set(s, HC_DRY, settings->dry);
    session_set(s, HC_GAIN, settings->gain);
    session_set(s, HC_BYPASS, settings->bypass);
    if (config.n_sources > 0 &&
        !(s->scene = live_scene_open(s->live, config.n_sources, mask->sources, settings->scene, why, cap))) {
        hc_responses_free(mask);
        return false;
    }
    s->is_opening = true;
    bool good =
        is_bank(mask) ? load_first_bank(s, path, why, cap) : hc_live_play(s->live, path, mask, why, cap) == HC_OK;
    s->is_opening = false;
    if (good) report_bank(s, settings);
    return good;
}

struct session *session_open(const struct session_settings *settings, const char *path, hc_responses *mask, int rate,
                             int block, char *why, size_t cap)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        hc_responses_free(mask);
        return (void)message_write(why, cap, "no memory for a session; free some memory"), NULL;
    }
    s->start_s = stopwatch_now();
    s->preload = settings->preload < 0 && settings->live.spin ? 0 : settings->preload;
    if (mask->n_sources > 0) s->preload = 0; /* no bank is kept ready */
    s->lines = (struct message_limit){.topic = "masks and devices", .max = 50};
    sem_init(&s->wake, 0, 0);
    answers_open(&s->answers);
    if (open_live(s, settings, path, rate, block, mask, why, cap)) {
        s->has_loader = pthread_create(&s->loader, NULL, loader, s) == 0;
        if (s->has_loader) return s;
        message_write(why, cap, "the loader thread cannot be started; raise the limit on processes (ulimit -u)");
    }
    session_close(s);
    return NULL;
}

/* Ends the loader. false: the loader does not end, because it waits for a file server, say. */
static bool loader_end(struct session *s)
{
    struct timespec until;
    atomic_store(&s->end, true);
    sem_post(&s->wake);
    if (!s->has_loader) return true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOADER_END_S;
    return pthread_clockjoin_np(s->loader, NULL, CLOCK_MONOTONIC, &until) == 0;
}

bool session_close(struct session *s)
{
    if (!s) return true;
    if (!loader_end(s)) {
        message_note("the mask is still being loaded; the program ends without it");
        return false;
    }
    live_scene_close(s->scene);
    bool is_clean = hc_live_close(s->live) == HC_OK; /* a device that hangs writes to hc_live's memory only */
    message_limit_tend(&s->lines, true);
    sem_destroy(&s->wake);
    answers_close(&s->answers);
    free(s->watches);
    free(s);
    return is_clean;
}

/* ---- state ------------------------------------------------------------------------------------- */

hc_live *session_live(struct session *s)
{
    return s->live;
}

struct live_scene *session_scene(struct session *s)
{
    return s->scene;
}

int session_rate(struct session *s)
{
    hc_live_info info = {.size = sizeof info};
    hc_live_get_info(s->live, &info);
    return info.rate;
}

void session_channels(const struct session *s, int *n_in, int *n_out)
{
    *n_in = s->n_in;
    *n_out = s->n_out;
}

void session_set(struct session *s, enum hc_live_knob knob, float value)
{
    hc_live_set(s->live, knob, value);
}

float session_get(const struct session *s, enum hc_live_knob knob)
{
    return hc_live_get(s->live, knob);
}

unsigned char *session_reaches(struct session *s)
{
    hc_live_info info = {.size = sizeof info, .reaches = malloc((size_t)s->n_in * (size_t)s->n_out)};
    if (!info.reaches) return NULL;
    hc_live_get_info(s->live, &info);
    for (int o = 0; o < s->n_out && hc_live_get(s->live, HC_DRY) > 0; o++) {
        int in = s->n_in == 1 ? 0 : o;
        if (in < s->n_in) info.reaches[in * s->n_out + o] = 1;
    }
    return info.reaches;
}

static hc_live_stats stats_of(const struct session *s)
{
    hc_live_stats stats = {.size = sizeof stats};
    hc_live_get_stats(s->live, &stats);
    return stats;
}

bool session_is_settled(struct session *s)
{
    return !hc_live_has_work(s->live) && !atomic_load(&s->is_busy) && !stats_of(s).changing;
}

uint64_t session_reach_version(struct session *s)
{
    return 2 * stats_of(s).masks + (hc_live_get(s->live, HC_DRY) > 0);
}

void session_count_xrun(struct session *s)
{
    atomic_fetch_add_explicit(&s->xruns, 1, memory_order_relaxed);
    atomic_store_explicit(&s->xrun_ms, (uint64_t)((stopwatch_now() - s->start_s) * 1e3), memory_order_relaxed);
}

void session_tend(struct session *s)
{
    hc_live_stats stats = stats_of(s);
    if (hc_live_has_work(s->live)) sem_post(&s->wake);
    message_limit_tend(&s->lines, false);
    if (stats.limited != s->said_limited && stopwatch_now() > s->next_limited_s) {
        message_note("the output stays at full scale (feedback?) and is turned down by 40 dB for two seconds; move the "
                     "microphone, lower --gain, or give --no-feedback-limiter");
        s->said_limited = stats.limited;
        s->next_limited_s = stopwatch_now() + LIMITED_PAUSE_S;
    }
    if (stats.non_finite && !s->said_non_finite && !s->before.stats.non_finite)
        message_note("the input has NaN, infinite or huge samples, which are replaced by 0 (the summary has their "
                     "number); look for raw bytes or a fault in the program that plays them");
    if (stats.overflowed && !s->said_overflowed && !s->before.stats.overflowed)
        message_note("the output is beyond the range of a float, and such samples are replaced by 0 (the summary has "
                     "their number); lower --gain, or use a quieter mask or input");
    s->said_non_finite = stats.non_finite;
    s->said_overflowed = stats.overflowed;
}

void session_get_status(struct session *s, struct session_status *status)
{
    struct session_status before = s->before;
    uint64_t xruns = atomic_load(&s->xruns);
    *status = (struct session_status){.info.size = sizeof status->info,
                                      .stats = stats_of(s),
                                      .seconds = before.seconds + stopwatch_now() - s->start_s,
                                      .xruns = before.xruns + xruns,
                                      .last_xrun_s = before.last_xrun_s};
    if (xruns) status->last_xrun_s = before.seconds + (double)atomic_load(&s->xrun_ms) / 1e3;
    for (int i = 0; i < SESSION_COUNTERS; i++) session_counters(status)[i] += session_counters(&before)[i];
    status->stats.overflowed += before.stats.overflowed;
    hc_live_get_info(s->live, &status->info);
    if (status->stats.state == HC_LIVE_STANDBY) status->info.backend = "cpu";
    hc_live_mask(s->live, status->mask, sizeof status->mask);
    hc_live_get_times(s->live, &status->times);
    status->times.n += before.times.n;
    if (before.times.max_ns > status->times.max_ns) status->times.max_ns = before.times.max_ns;
    for (int i = 0; i < HC_TIME_CLASSES; i++) status->times.classes[i] += before.times.classes[i];
}

void session_continue_counters(struct session *s, const struct session_status *before)
{
    s->before = *before;
    s->before.stats.rebuilds++; /* counts this process's first engine */
}
