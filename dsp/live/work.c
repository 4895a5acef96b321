/* work - hc_live_work: applies requests for masks and formats, hands new engines over to the audio thread, and closes
 * engines that the audio thread returns. */
#include "live.h"

#include "messages.h"

#include <string.h>

static void hand_over(hc_live *l, struct live_engine *e)
{
    l->newest = e;
    l->is_loss_reported = false;
    e->order = l->ready.noted;
    struct live_engine *outdated = atomic_exchange_explicit(&l->next, e, memory_order_acq_rel);
    ready_put_or_close(&l->ready, outdated); /* NULL, or an engine that the audio thread has not dequeued */
}

static bool is_path_of_current(const hc_live *l, const char *path)
{
    return l->current && strcmp(path, l->current->path) == 0;
}

/* Makes an engine and hands it over, unless a ready mask is requested meanwhile: *plays is then false. */
static int replace_engine(hc_live *l, const struct engine_format *format, const char *path,
                          const struct live_mask *mask, bool *plays, struct reason *why)
{
    struct live_engine *e;
    int error = live_engine_make(&l->config, &l->stream, &l->positions, format, mask, true, &e, why);
    if (error) return error;
    *plays = ready_supersede(&l->ready, NULL, is_path_of_current(l, path) ? l->current : NULL);
    if (!*plays) {
        live_engine_close(e);
        return HC_OK;
    }
    if (l->newest) atomic_fetch_add(&l->rebuilds, 1);
    hand_over(l, e);
    l->format_used = *format;
    return HC_OK;
}

/* Lets the ready mask that played wait again. If a new engine has the same mask, drops the ready mask. */
static void leave_current(hc_live *l)
{
    struct ready_mask *mask = l->current;
    l->current = NULL;
    if (!mask) return;
    if (!mask->path[0]) {
        ready_drop(&l->ready, mask);
    } else {
        mask->responses = l->mask.responses;
        l->mask.responses = (hc_responses){0};
    }
}

/* Plays a mask in a format: by a mask swap if the engine can, else by a new engine. Owns `loaded`, even after a
 * failure. loaded NULL: plays the present mask. *plays: false after a failure, and if a ready mask was requested
 * meanwhile; nothing was changed then. */
static int mask_apply(hc_live *l, const char *path, struct live_mask *loaded, const struct engine_format *format,
                      bool *plays, struct reason *why)
{
    const struct live_mask present = l->mask, *mask = loaded ? loaded : &present;
    struct failover *f = l->newest ? l->newest->failover : NULL;
    /* The engine of a ready mask keeps this mask, so that it can be played again at once. */
    bool swaps = f && failover_state(f) == HC_LIVE_OK && !atomic_load(&f->cannot_follow) &&
                 (!l->current || is_path_of_current(l, path)) && live_is_current(l, format) &&
                 strcmp(format->backend, l->format_used.backend) == 0 && live_engine_fits(l->newest, mask);
    int error = HC_OK;
    *plays = false;
    if (!swaps) {
        error = replace_engine(l, format, path, mask, plays, why);
    } else if (ready_supersede(&l->ready, l->current, NULL)) {
        error = failover_load(f, mask->responses.routes, mask->responses.n_routes, mask->banks, why);
        *plays = !error;
        if (*plays) l->format_used.trim_db = format->trim_db;
        if (*plays && l->current) l->current->format.trim_db = format->trim_db;
    }
    if (!*plays) {
        if (loaded) live_mask_free(loaded);
        return error;
    }
    if (!swaps) leave_current(l);
    live_info_set(l, path, mask);
    if (!loaded) return HC_OK;
    live_mask_free(&l->mask);
    l->mask = *loaded;
    return HC_OK;
}

/* Records a fade to a ready mask. true: the mask must be loaded again. *number becomes 0 if the request is answered. */
static bool note_ready(hc_live *l, struct ready_mask *mask, uint64_t *number)
{
    bool is_lost = atomic_load(&mask->engine->failover->cannot_follow);
    if (!is_lost) live_answer(&l->config, *number, HC_OK, "");
    if (!is_lost) *number = 0;
    if (mask == l->current) return is_lost;
    leave_current(l);
    hc_responses_free(&l->mask.responses);
    l->mask.responses = mask->responses;
    mask->responses = (hc_responses){0};
    l->current = mask;
    l->newest = mask->engine;
    l->is_loss_reported = false;
    l->format_used = mask->format;
    if (is_lost) return true;
    live_info_set(l, mask->path, &l->mask);
    atomic_fetch_add(&l->masks, 1);
    live_info_report(l, mask->path);
    struct file_id now = file_identify(mask->path, mask->format.rate);
    return memcmp(&now, &mask->file, sizeof now) != 0;
}

/* Reads the requests. true: the mask of *request must be loaded, and the request has no answer. is_given: as for
 * ready_note. */
static bool work_read_requests(hc_live *l, struct text_request *request, bool is_given)
{
    struct ready_mask *mask;
    uint64_t mask_number;
    bool loads = ready_note(&l->ready, &mask, &mask_number, request, is_given);
    if (!mask || !note_ready(l, mask, &mask_number) || loads) return loads;
    memcpy(request->text, mask->path, TEXT_CAP);
    request->number = mask_number;
    return true;
}

/* Counts and reports a mask that was loaded and plays. */
static void note_loaded(hc_live *l, const char *path, bool is_first)
{
    if (!is_first) atomic_fetch_add(&l->masks, 1);
    live_info_report(l, path);
}

/* Loads and plays a mask. After a failure nothing changes, and the other requests apply to the mask that plays. number:
 * the request's, for config.answer. */
static int change_mask(hc_live *l, const char *path, uint64_t number, const struct engine_format *format)
{
    char why[MESSAGE_CAP] = "";
    struct live_mask loaded = {0};
    struct file_id file = file_identify(path, format->rate);
    int error = live_mask_load(&l->config, path, format->rate, format->trim_db, &loaded, REASON(why, sizeof why));
    bool is_first = l->newest == NULL, plays;
    if (!error) error = mask_apply(l, path, &loaded, format, &plays, REASON(why, sizeof why));
    if (!error && !plays) return HC_OK;
    live_answer(&l->config, number, error, why);
    if (error) {
        live_report(&l->config, HC_LIVE_ERROR, "%s", why);
        return error;
    }
    if (l->current) l->current->file = file;
    note_loaded(l, path, is_first);
    return HC_OK;
}

/* Plays the mask in another format; at another rate the mask is loaded again, unless its rate and file stay, and with
 * another trim_db. */
static int change_engine(hc_live *l, const struct engine_format *format)
{
    char why[MESSAGE_CAP] = "", path[TEXT_CAP];
    struct live_mask loaded = {0};
    memcpy(path, l->path, sizeof path);
    struct engine_format before = l->format_used;
    bool reloads = format->trim_db != before.trim_db ||
                   (format->rate != before.rate &&
                    (!l->config.keep_rate || live_mask_is_another_file(path, format->rate, before.rate)));
    bool plays;
    int error = HC_OK;
    if (reloads)
        error = live_mask_load(&l->config, path, format->rate, format->trim_db, &loaded, REASON(why, sizeof why));
    if (!error) error = mask_apply(l, path, reloads ? &loaded : NULL, format, &plays, REASON(why, sizeof why));
    if (!error && !plays) return HC_OK;
    if (error)
        live_report(&l->config, HC_LIVE_ERROR, "%s", why);
    else if (format->rate != before.rate || format->block != before.block)
        live_report(&l->config, HC_LIVE_NOTE, "now at %d Hz in blocks of %d frame%s", format->rate, format->block,
                    PLURAL(format->block));
    else if (format->trim_db != before.trim_db)
        live_info_report(l, path);
    else
        live_report(&l->config, HC_LIVE_NOTE, "a new engine plays; %s, %s", l->newest->failover->info.device,
                    l->newest->failover->info.method);
    return error;
}

/* Returns the format of the next engine. */
static struct engine_format format_wanted(const hc_live *l)
{
    uint64_t requested = atomic_load_explicit(&l->stream.format, memory_order_acquire);
    struct engine_format format = {
        .rate = format_rate(requested), .block = format_block(requested), .trim_db = atomic_load(&l->trim_db)};
    memcpy(format.backend, l->next_backend, sizeof format.backend);
    return format;
}

/* is_given: *request has a request, which is newer than those of hc_live_request. */
static int live_work(hc_live *l, struct text_request *request, bool is_given)
{
    int error = HC_OK;
    priority_look();
    pthread_mutex_lock(&l->setup);
    atomic_exchange_explicit(&l->has_work, false, memory_order_acq_rel);
    ready_put_or_close(&l->ready, atomic_exchange_explicit(&l->returned, NULL, memory_order_acq_rel));
    ready_sweep(&l->ready);
    /* With ready masks, which sources do not have, `newest` may be closed until work_read_requests names another. */
    if (l->newest && l->config.n_sources > 0) failover_sweep(l->newest->failover);
    bool loads = work_read_requests(l, request, is_given);
    bool new_backend = recovery_choose_backend(l);
    unsigned requests = atomic_load(&l->format_requests);
    struct engine_format format = format_wanted(l);
    if (loads) error = change_mask(l, request->text, request->number, &format);
    bool is_refused = l->refused == requests;
    if (l->newest && is_refused) format.trim_db = l->format_used.trim_db;
    if (l->newest && new_backend && failover_state(l->newest->failover) == HC_LIVE_OK)
        new_backend = strcmp(format.backend, l->format_used.backend) != 0; /* change_mask may have switched already */
    bool new_format =
        l->newest && !is_refused && (!live_is_current(l, &format) || format.trim_db != l->format_used.trim_db);
    if (l->newest && (new_backend || new_format)) {
        int failed = change_engine(l, &format);
        if (failed) l->refused = requests; /* do not try until another format is requested */
        if (!error) error = failed;
        if (failed && format.trim_db != l->format_used.trim_db) { /* the file may be gone: the mask plays as it is */
            format.trim_db = l->format_used.trim_db;
            if (new_backend || !live_is_current(l, &format)) change_engine(l, &format);
        }
    }
    if (keep_ready(l, &format)) atomic_store_explicit(&l->has_work, true, memory_order_release);
    pthread_mutex_unlock(&l->setup);
    return error;
}

int hc_live_work(hc_live *l)
{
    return l ? live_work(l, &(struct text_request){0}, false) : HC_EINVAL;
}

int hc_live_load(hc_live *l, const char *path, uint64_t number)
{
    struct text_request request = {.number = number};
    if (!l || !path || strlen(path) >= TEXT_CAP) return HC_EINVAL;
    memcpy(request.text, path, strlen(path));
    return live_work(l, &request, true);
}

int hc_live_play(hc_live *l, const char *path, hc_responses *responses, char *why, size_t cap)
{
    struct text_request replaced = {0};
    bool plays = false;
    int error = HC_OK;
    if (!l || !path || !responses) {
        hc_responses_free(responses);
        return fail(HC_EINVAL, REASON(why, cap), "hc_live_play: live, path or responses is NULL; pass all");
    }
    pthread_mutex_lock(&l->setup);
    struct engine_format format = format_wanted(l);
    bool is_first = l->newest == NULL;
    struct live_mask loaded;
    error = live_mask_adopt(&l->config, path, format.rate, format.trim_db, responses, &loaded, REASON(why, cap));
    if (!error) {
        work_read_requests(l, &replaced, false);
        error = mask_apply(l, path, &loaded, &format, &plays, REASON(why, cap));
    }
    if (plays) note_loaded(l, path, is_first);
    pthread_mutex_unlock(&l->setup);
    return error;
}
