#include "panel_requests.h"

#include "host/json_print.h"
#include "host/message.h"
#include "host/plot/plot_masks.h"
#include "host/stopwatch.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKING = 8 /* requests that wait for the worker */, CACHED = 16 /* plots */, NICE = 10 };
/* Processor time of the worker: its share of a core, and what may be used at once. */
static const double WORKER_SHARE = 0.04, WORKER_BURST_S = 10;
static const long END_NS = 300000000; /* how long the end waits for the worker */

struct panel_exchange {
    struct panel_exchange *next; /* in the worker's queue */
    bool is_ready, is_working;   /* is_working: the worker has it; under lock, as is_ready then */
    bool is_abandoned;           /* the connection ended; the worker frees it */
    bool is_upload;
    struct panel_answer answer;
    char policy[400];
    char *owned; /* bytes of the answer; NULL: they are static */
    char *mask;  /* plot: the path */
    unsigned panels;
    struct panel_upload upload;
};

struct plot {
    char *mask;
    unsigned panels;
    int rate;
    struct stat status;
    char *svg;
    size_t n;
    uint64_t used;
};

struct panel_requests {
    const struct panel_address *address;
    struct panel_folder folder;
    panel_added *added;
    void *data;
    pthread_t worker;
    bool has_worker;
    struct plot plots[CACHED]; /* worker's */
    uint64_t n_plots;

    pthread_mutex_t lock;
    pthread_cond_t is_queued;
    bool end;
    struct panel_exchange *first, **last;
    int n_working;
    struct bucket work; /* seconds of processor time that the worker may use */
    char **masks;       /* [n_masks + 1]: what plays, then the list */
    int n_masks, n_in, rate;
};

/* ---- answers ----------------------------------------------------------------------------------- */

static const char JSON[] = "application/json", SVG[] = "image/svg+xml";

/* Under lock, or before the worker has the exchange, as the next two */
static void request_answer(struct panel_exchange *x, int status, const char *type, const void *bytes, size_t n)
{
    x->answer = (struct panel_answer){status, type, x->policy, bytes, n};
    x->is_ready = true;
}

/* Makes {"key": text} the answer. */
static void answer_json(struct panel_exchange *x, int status, const char *key, const char *text)
{
    json_t *json = json_pack("{so}", key, json_text(text));
    x->owned = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    request_answer(x, status, JSON, x->owned, x->owned ? strlen(x->owned) : 0);
}

static void request_fail(struct panel_exchange *x, int status, const char *why)
{
    answer_json(x, status, "error", why);
}

/* ---- the worker -------------------------------------------------------------------------------- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Returns the plot of these panels, if the mask's file is as it was; else the one that was not used for the longest. */
static struct plot *find_plot(struct panel_requests *r, const struct panel_exchange *x, int rate,
                              const struct stat *status, bool *is_found)
{
    struct plot *oldest = r->plots;
    for (struct plot *p = r->plots; p < r->plots + CACHED; p++) {
        *is_found = p->svg && p->panels == x->panels && p->rate == rate && strcmp(p->mask, x->mask) == 0 &&
                    is_same_file(&p->status, status);
        if (*is_found) return p;
        if (p->used < oldest->used) oldest = p;
    }
    return oldest;
}

static void request_forget(struct plot *p)
{
    free(p->mask);
    free(p->svg);
    *p = (struct plot){0};
}

/* Draws the plot into memory, unless it is known: strangers may make names in the folder. false: why has the reason. */
static bool draw(struct panel_requests *r, const struct panel_exchange *x, int rate, struct plot **plot, char *why,
                 size_t cap)
{
    struct stat status = {0};
    bool is_found;
    bool has_file = stat(x->mask, &status) == 0; /* not if %r stands for a rate */
    struct plot *p = *plot = find_plot(r, x, rate, &status, &is_found);
    p->used = ++r->n_plots;
    if (is_found && has_file) return true;
    request_forget(p);
    struct plot_choice choice = PLOT_CHOICE_USUAL;
    choice.path = x->mask; /* the subject of messages */
    choice.settings.panels = x->panels;
    choice.settings.to = open_memstream(&p->svg, &p->n);
    p->mask = strdup(x->mask);
    bool good = choice.settings.to && plot_masks(&(char *){x->mask}, 1, rate, &choice, why, cap);
    bool has_memory = choice.settings.to && fclose(choice.settings.to) == 0 && p->mask;
    if (!has_memory) good = message_write(why, cap, "%s: no memory for the plot; free some memory", x->mask);
    p->panels = x->panels;
    p->rate = rate;
    p->status = status;
    if (!good) request_forget(p);
    return good;
}

/* Draws a plot or checks an upload, without the lock; then stores the answer. */
static void panel_requests_work(struct panel_requests *r, struct panel_exchange *x, int n_in, int rate)
{
    char why[MESSAGE_CAP] = "";
    struct plot *plot = NULL;
    double since_s = stopwatch_thread();
    bool good = x->is_upload ? panel_upload_check(&r->folder, &x->upload, n_in, rate, why, sizeof why)
                             : draw(r, x, rate, &plot, why, sizeof why);
    pthread_mutex_lock(&r->lock);
    r->work.credit -= stopwatch_thread() - since_s;
    if (!good) {
        request_fail(x, 422, why);
    } else if (x->is_upload) {
        answer_json(x, 200, "mask", x->upload.path);
    } else if (plot && (x->owned = malloc(plot->n))) {
        memcpy(x->owned, plot->svg, plot->n);
        snprintf(x->policy, sizeof x->policy, "default-src 'none'; style-src 'unsafe-inline'");
        request_answer(x, 200, SVG, x->owned, plot->n);
    } else {
        request_fail(x, 503, "no memory for the plot; free some memory");
    }
    if (good && x->is_upload && !r->end) r->added(r->data, x->upload.path);
    pthread_mutex_unlock(&r->lock);
}

static void free_exchange(struct panel_requests *r, struct panel_exchange *x)
{
    panel_upload_end(&r->folder, &x->upload);
    free(x->owned);
    free(x->mask);
    free(x);
}

/* Under lock, as refuse_work */
static bool may_work(struct panel_requests *r)
{
    bucket_fill(&r->work, WORKER_SHARE, WORKER_BURST_S, stopwatch_now());
    return r->work.credit >= 0;
}

static void refuse_work(struct panel_exchange *x)
{
    request_fail(x, 429, "too many plots and uploads; try again in a minute");
}

static void *run_worker(void *data)
{
    struct panel_requests *r = data;
    pthread_setname_np(pthread_self(), "panel worker");
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread alone, on Linux */
    pthread_mutex_lock(&r->lock);
    while (!r->end) {
        struct panel_exchange *x = r->first;
        if (!x) {
            pthread_cond_wait(&r->is_queued, &r->lock);
            continue;
        }
        if (!(r->first = x->next)) r->last = &r->first;
        int n_in = r->n_in, rate = r->rate;
        if (may_work(r)) {
            pthread_mutex_unlock(&r->lock);
            panel_requests_work(r, x, n_in, rate);
            pthread_mutex_lock(&r->lock);
        } else {
            refuse_work(x);
        }
        x->is_working = false;
        r->n_working--;
        if (x->is_abandoned) free_exchange(r, x);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Gives an exchange to the worker, or refuses it. */
static void request_enqueue(struct panel_requests *r, struct panel_exchange *x)
{
    pthread_mutex_lock(&r->lock);
    if (r->n_working == MAX_WORKING || !may_work(r)) {
        refuse_work(x);
    } else if (r->rate == 0) {
        request_fail(x, 503, "nothing plays yet; try again in a second");
    } else {
        x->is_working = true;
        x->next = NULL;
        *r->last = x;
        r->last = &x->next;
        r->n_working++;
        pthread_cond_signal(&r->is_queued);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- requests ---------------------------------------------------------------------------------- */

static const char *type_of(const char *name)
{
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".svg", SVG}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcmp(dot, types[i][0]) == 0) return types[i][1];
    return "application/octet-stream";
}

static void answer_page(struct panel_exchange *x, const char *path)
{
    const char *name = strcmp(path, "/") == 0 ? "index.html" : path + 1;
    const struct panel_page *page = panel_pages;
    while (page->name && strcmp(page->name, name) != 0) page++;
    if (page->name)
        request_answer(x, 200, type_of(name), page->bytes, page->n);
    else
        request_fail(x, 404, "this page does not exist");
}

static bool has_token(const struct panel_requests *r, const struct panel_request *request)
{
    static const char bearer[] = "Bearer ";
    const char *text = request->authorization;
    if (!*r->address->token) return true;
    return strncmp(text, bearer, sizeof bearer - 1) == 0 &&
           panel_address_is_token(r->address, text + sizeof bearer - 1);
}

/* An image in a page of another server has our Host and no Origin. Not all browsers say where it is. */
static bool is_same_site(const char *site)
{
    return !*site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

static void begin_plot(struct panel_requests *r, struct panel_exchange *x, const struct panel_request *request)
{
    static const char usual[] = "usual";
    char *end;
    long number = strtol(request->mask, &end, 10);
    for (int i = 0; i < PLOT_PANELS; i++)
        if (strcmp(request->kind, plot_panel_names[i]) == 0) x->panels = 1u << i;
    pthread_mutex_lock(&r->lock);
    if (!*end && number >= 0 && number <= r->n_masks && r->masks[number]) x->mask = strdup(r->masks[number]);
    pthread_mutex_unlock(&r->lock);
    if (*request->kind && strcmp(request->kind, usual) != 0 && !x->panels)
        request_fail(x, 400, "this kind of plot does not exist; see haloconv-info(1)");
    else if (!x->mask)
        request_fail(x, 404, "the list has no mask of this number; 0 is the mask that plays");
    else
        request_enqueue(r, x);
}

static void begin_upload(struct panel_requests *r, struct panel_exchange *x, const struct panel_request *request)
{
    char why[MESSAGE_CAP];
    x->is_upload = true;
    pthread_mutex_lock(&r->lock); /* of the folder */
    int status = panel_upload_begin(&r->folder, &x->upload, request->name, request->bytes, why, sizeof why);
    pthread_mutex_unlock(&r->lock);
    if (status) request_fail(x, status, why);
}

struct panel_exchange *panel_requests_begin(struct panel_requests *r, const struct panel_request *request)
{
    struct panel_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->upload.fd = -1;
    snprintf(x->policy, sizeof x->policy,
             "default-src 'self'; connect-src 'self' ws://%.200s; img-src 'self' blob: data:; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'",
             request->host);
    bool is_plot = strcmp(request->path, "/plot") == 0, is_upload = strcmp(request->path, "/upload") == 0;
    if (!panel_address_allows(r->address, request->host, request->origin)) {
        snprintf(x->policy, sizeof x->policy, "default-src 'none'");
        request_fail(x, 403, "this name is not the panel's; open the URL that haloconv printed");
    } else if ((is_plot || is_upload) && !is_same_site(request->site)) {
        request_fail(x, 403, "a page of another server asks for this");
    } else if ((is_plot || is_upload) && !has_token(r, request)) {
        request_fail(x, 401, "the token of this session is missing");
    } else if (is_upload ? !request->is_post : !request->is_get) {
        request_fail(x, 405, "this address has another method");
    } else if (is_plot) {
        begin_plot(r, x, request);
    } else if (is_upload) {
        begin_upload(r, x, request);
    } else {
        answer_page(x, request->path);
    }
    return x;
}

void panel_requests_body(struct panel_requests *r, struct panel_exchange *x, const void *bytes, size_t n)
{
    char why[MESSAGE_CAP];
    (void)r;
    if (x->is_ready) return;
    int status = panel_upload_add(&x->upload, bytes, n, why, sizeof why);
    if (status) request_fail(x, status, why);
}

void panel_requests_body_end(struct panel_requests *r, struct panel_exchange *x)
{
    if (x->is_ready) return;
    if (!panel_upload_is_whole(&x->upload))
        request_fail(x, 400, "the file is not complete");
    else
        request_enqueue(r, x);
}

bool panel_requests_answer(struct panel_requests *r, struct panel_exchange *x, struct panel_answer *answer)
{
    pthread_mutex_lock(&r->lock);
    bool is_ready = x->is_ready && !x->is_working;
    pthread_mutex_unlock(&r->lock);
    if (is_ready) *answer = x->answer;
    return is_ready;
}

void panel_requests_end(struct panel_requests *r, struct panel_exchange *x)
{
    pthread_mutex_lock(&r->lock);
    if (x->is_working)
        x->is_abandoned = true;
    else
        free_exchange(r, x);
    pthread_mutex_unlock(&r->lock);
}

/* ---- open and close ---------------------------------------------------------------------------- */

static void free_masks(struct panel_requests *r)
{
    for (int i = 0; r->masks && i <= r->n_masks; i++) free(r->masks[i]);
    free(r->masks);
    r->masks = NULL;
    r->n_masks = -1;
}

void panel_requests_set_session(struct panel_requests *r, const struct panel_session *s)
{
    pthread_mutex_lock(&r->lock);
    free_masks(r);
    r->rate = s ? s->rate : 0;
    r->n_in = s ? s->n_in : 0;
    r->masks = s ? calloc((size_t)s->n_masks + 1, sizeof *r->masks) : NULL;
    if (r->masks) {
        r->n_masks = s->n_masks;
        r->masks[0] = strdup(s->mask);
        for (int i = 0; i < s->n_masks; i++) r->masks[i + 1] = strdup(s->masks[i]);
    }
    pthread_mutex_unlock(&r->lock);
}

const struct panel_folder *panel_requests_folder(const struct panel_requests *r)
{
    return &r->folder;
}

struct panel_requests *panel_requests_open(const struct panel_address *address, const struct panel_settings *settings,
                                           panel_added *added, void *data, char *why, size_t cap)
{
    struct panel_requests *r = calloc(1, sizeof *r);
    if (!r) return (void)message_write(why, cap, "--panel: no memory; free some memory"), NULL;
    *r = (struct panel_requests){
        .address = address, .added = added, .data = data, .work = {.credit = WORKER_BURST_S}, .n_masks = -1};
    r->last = &r->first;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->is_queued, NULL);
    if (panel_folder_open(&r->folder, settings->folder, settings->is_private, why, cap)) {
        r->has_worker = pthread_create(&r->worker, NULL, run_worker, r) == 0;
        if (r->has_worker) return r;
        message_write(why, cap, "--panel: a thread cannot be started; raise the limit on processes (ulimit -u)");
    }
    panel_requests_close(r);
    return NULL;
}

/* false: the worker still draws or reads a mask. It keeps what it uses, until the process ends. */
static bool join_worker(struct panel_requests *r)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += END_NS;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return pthread_timedjoin_np(r->worker, NULL, &end) == 0;
}

void panel_requests_close(struct panel_requests *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_signal(&r->is_queued);
    pthread_mutex_unlock(&r->lock);
    if (r->has_worker && !join_worker(r)) {
        panel_folder_empty(&r->folder);
        return;
    }
    for (struct panel_exchange *x = r->first, *next; x; x = next) { /* their connections have ended */
        next = x->next;
        free_exchange(r, x);
    }
    for (int i = 0; i < CACHED; i++) request_forget(&r->plots[i]);
    free_masks(r);
    panel_folder_close(&r->folder);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->is_queued);
    free(r);
}
