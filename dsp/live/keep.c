/* keep - makes the masks of the list of hc_live_keep ready, one by one, and drops ready masks that the list lacks or
 * that cannot be played. */
#include "live.h"

#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ready masks may use these shares of the machine's memory and, while they wait, of a processor's time. */
static const double READY_MEMORY_SHARE = 0.25, READY_TIME_SHARE = 0.6;

/* Returns the first index of a path in the list; -1: the list lacks it. */
static int list_index(const struct kept_list *list, const char *path)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->paths[i], path) == 0) return i;
    return -1;
}

static bool is_outdated(hc_live *l, const struct ready_mask *m, const struct engine_format *format, bool looks)
{
    if (m == l->current)
        return false; /* change_engine or a request replaces this mask, even after it has left the list */
    if (list_index(l->list, m->path) < 0) return true;
    struct file_id now = looks ? file_identify(m->path, m->format.rate) : m->file;
    return m->format.rate != format->rate || m->format.block != format->block || m->format.trim_db != format->trim_db ||
           strcmp(m->format.backend, format->backend) != 0 || m->engine->begin != atomic_load(&l->stream.begin) ||
           atomic_load(&m->engine->failover->cannot_follow) || memcmp(&now, &m->file, sizeof now) != 0;
}

/* Drops the ready masks that the list lacks or whose engines cannot play; if `looks`, also masks of changed files. */
static void drop_outdated(hc_live *l, const struct engine_format *format, bool looks)
{
    struct kept_list *list = l->list;
    for (struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++) {
        if (!m->path[0] || !is_outdated(l, m, format, looks)) continue;
        if (ready_drop(&l->ready, m)) memset(list->failed, 0, sizeof list->failed);
    }
}

/* Returns true if the waiting ready masks exceed their share of memory or time. */
static bool is_too_much(const hc_live *l)
{
    double time = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (const struct ready_mask *m = l->ready.masks; m < l->ready.masks + MAX_READY; m++)
        if (m->path[0] && m != l->current) time += 1e-9 * m->engine->failover->info.cost_ns * m->format.rate;
    return time > READY_TIME_SHARE || (memory > 0 && (double)ready_bytes(&l->ready) > READY_MEMORY_SHARE * memory);
}

/* Drops the last ready mask of the list after mask i, except the mask that plays. false: no such mask. */
static bool drop_last(hc_live *l, int i)
{
    const struct kept_list *list = l->list;
    for (int k = list->n - 1; k > i; k--) {
        struct ready_mask *m = ready_find(&l->ready, list->paths[k]);
        if (m && m != l->current && list_index(list, m->path) > i && ready_drop(&l->ready, m)) return true;
    }
    return false;
}

/* Makes mask i of the list ready; drops later masks if all together need too much. */
static int make_ready(hc_live *l, int i, const struct engine_format *format)
{
    char why[MESSAGE_CAP] = "";
    const char *path = l->list->paths[i];
    struct file_id file = file_identify(path, format->rate);
    struct live_engine *e;
    struct live_mask loaded = {0};
    int error = live_mask_load(&l->config, path, format->rate, format->trim_db, &loaded, REASON(why, sizeof why));
    if (!error)
        error = live_engine_make(&l->config, &l->stream, &l->positions, format, &loaded, false, &e,
                                 REASON(why, sizeof why));
    struct ready_mask *mask = error ? NULL : ready_add(&l->ready, path, e, format, &file, false, &loaded.responses);
    if (!error && !mask) {
        live_engine_close(e);
        error = fail(HC_ENOMEM, REASON(why, sizeof why), "%s: cannot be kept ready for lack of memory or threads; free some memory, or keep fewer masks", path);
    }
    if (error) {
        live_mask_free(&loaded);
        live_report(&l->config, HC_LIVE_WARNING, "%s", why);
        return error;
    }
    while (is_too_much(l)) {
        if (drop_last(l, i)) continue;
        ready_drop(&l->ready, mask);
        return HC_ENOMEM;
    }
    return HC_OK;
}

static void report_ready(hc_live *l)
{
    const struct kept_list *list = l->list;
    uint64_t bytes = ready_bytes(&l->ready);
    int n = 0;
    for (int i = 0; i < list->n; i++) n += ready_find(&l->ready, list->paths[i]) != NULL;
    pthread_mutex_lock(&l->info_lock);
    l->info.ready_memory = bytes;
    pthread_mutex_unlock(&l->info_lock);
    if (n == l->n_ready_reported) return;
    l->n_ready_reported = n;
    if (n < list->n)
        live_report(&l->config, HC_LIVE_NOTE, "%d of %d masks ready, %.0f MB; the others are loaded when requested", n,
                    list->n, 1e-6 * (double)bytes);
    else if (n > 0)
        live_report(&l->config, HC_LIVE_NOTE, "%d mask%s ready, %.0f MB", n, PLURAL(n), 1e-6 * (double)bytes);
}

bool keep_ready(hc_live *l, const struct engine_format *format)
{
    struct kept_list *next = atomic_exchange(&l->next_list, NULL), *list = next ? next : l->list;
    if (next) free(l->list);
    l->list = list;
    if (!list || !l->newest) return false;
    drop_outdated(l, format, next != NULL);
    if (!l->current && list_index(list, l->path) >= 0 && live_is_current(l, format)) {
        struct file_id file = file_identify(l->path, l->format_used.rate);
        l->current = ready_add(&l->ready, l->path, l->newest, &l->format_used, &file, true, NULL);
    }
    for (int i = 0; i < list->n; i++) {
        if (list->failed[i] || ready_find(&l->ready, list->paths[i])) continue;
        int error = make_ready(l, i, format);
        list->failed[i] = error != HC_OK;
        if (error == HC_ENOMEM) memset(list->failed, true, sizeof list->failed); /* the other masks would fail, too */
        return true;
    }
    report_ready(l);
    return false;
}

int hc_live_keep(hc_live *l, const char *const *paths, int n)
{
    if (!l || n < 0 || n > HC_LIVE_MAX_KEPT || (n > 0 && (!paths || l->config.n_sources > 0))) return HC_EINVAL;
    for (int i = 0; i < n; i++)
        if (!paths[i] || !paths[i][0] || strlen(paths[i]) >= TEXT_CAP) return HC_EINVAL;
    struct kept_list *list = calloc(1, sizeof *list + (size_t)n * TEXT_CAP);
    if (!list) return HC_ENOMEM;
    list->n = n;
    for (int i = 0; i < n; i++) memcpy(list->paths[i], paths[i], strlen(paths[i]) + 1);
    free(atomic_exchange(&l->next_list, list));
    atomic_store(&l->has_work, true);
    return HC_OK;
}

void keep_close(hc_live *l)
{
    free(atomic_exchange(&l->next_list, NULL));
    free(l->list);
}

int hc_live_compare(hc_live *l, const char *a, const char *b)
{
    if (!l || !a != !b || (a && (strlen(a) >= TEXT_CAP || strlen(b) >= TEXT_CAP || strcmp(a, b) == 0)))
        return HC_EINVAL;
    ready_compare(&l->ready, a ? a : "", b ? b : "");
    return HC_OK;
}
