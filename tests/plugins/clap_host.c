#include "clap_host.h"
#include "trap.h"

#include <clap/ext/gui.h>
#include <clap/ext/thread-check.h>
#include <clap/ext/timer-support.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FDS = 4, MAX_EVENTS = 1024, LOG_BYTES = 1 << 16 };

struct full {
    struct clap_session session;
    clap_host_t host;
    union {
        clap_event_header_t header;
        clap_event_param_value_t value;
        clap_event_param_mod_t mod;
    } events[MAX_EVENTS];
    uint32_t n_events;
    bool events_sent;
    atomic_bool wants_callback;
    bool is_active, is_trapped, is_offline, has_timer, ends;
    struct pollfd fds[MAX_FDS];
    int n_fds;
    const char *caught;
    pthread_mutex_t log_lock;
    char text[LOG_BYTES], shown[LOG_BYTES];
};

enum role { OTHER, MAIN, AUDIO };
static _Thread_local enum role role;

static struct full *full_of(const clap_host_t *host)
{
    return host->host_data;
}

/* ---- extensions of the host --------------------------------------------------------------------- */

static bool CLAP_ABI is_main_thread(const clap_host_t *host)
{
    return role == MAIN;
}

static bool CLAP_ABI is_audio_thread(const clap_host_t *host)
{
    return role == AUDIO;
}

static void CLAP_ABI log_line(const clap_host_t *host, int32_t severity, const char *text)
{
    struct full *f = full_of(host);
    const char *kind = severity == MORE_LOG_ERROR ? "error" : severity == MORE_LOG_WARNING ? "warning" : "note";
    pthread_mutex_lock(&f->log_lock);
    size_t used = strlen(f->text);
    snprintf(f->text + used, sizeof f->text - used, "%s: %s\n", kind, text);
    pthread_mutex_unlock(&f->log_lock);
    const double until = now_s() + 10; /* at most 10 s, in case the test fails */
    while (atomic_fetch_sub(&f->session.n_logs_allowed, 1) <= 0 && now_s() < until) {
        atomic_fetch_add(&f->session.n_logs_allowed, 1);
        pause_us(200);
    }
}

static void CLAP_ABI rescan(const clap_host_t *host, clap_param_rescan_flags flags)
{
    check(role == MAIN && flags == CLAP_PARAM_RESCAN_VALUES, "params.rescan: role %d, flags %u", role, flags);
    full_of(host)->session.n_rescans++;
}

static void CLAP_ABI tail_changed(const clap_host_t *host)
{
    check(role == AUDIO, "tail.changed: role %d", role);
}

static void CLAP_ABI preset_error(const clap_host_t *host, uint32_t kind, const char *location, const char *key,
                                  int32_t os_error, const char *text)
{
    struct clap_session *s = &full_of(host)->session;
    check(role == MAIN, "preset_load.on_error: role %d", role);
    snprintf(s->last, sizeof s->last, "%s", location ? location : key ? key : "");
    snprintf(s->error, sizeof s->error, "%s", text);
    s->n_errors++;
}

static void CLAP_ABI preset_loaded(const clap_host_t *host, uint32_t kind, const char *location, const char *key)
{
    struct clap_session *s = &full_of(host)->session;
    check(role == MAIN && (kind == MORE_LOCATION_FILE) == (location != NULL),
          "preset_load.loaded: role %d, kind %u, %s", role, kind, location ? location : "no location");
    snprintf(s->last, sizeof s->last, "%s", location ? location : key);
    s->n_loaded++;
}

static void CLAP_ABI request_flush(const clap_host_t *host)
{
    check(role == MAIN && !full_of(host)->ends, "params.request_flush: role %d", role);
    full_of(host)->session.n_flush_requests++;
}

static void CLAP_ABI mark_dirty(const clap_host_t *host)
{
    check(role == MAIN, "state.mark_dirty: role %d", role);
    full_of(host)->session.n_dirty++;
}

enum { TIMER = 7 };

static bool CLAP_ABI register_timer(const clap_host_t *host, uint32_t period_ms, clap_id *id)
{
    check(role == MAIN && !full_of(host)->has_timer && period_ms >= 16, "register_timer(%u): role %d", period_ms, role);
    *id = TIMER;
    return full_of(host)->has_timer = true;
}

static bool CLAP_ABI unregister_timer(const clap_host_t *host, clap_id id)
{
    check(role == MAIN && full_of(host)->has_timer && id == TIMER, "unregister_timer(%u): role %d", id, role);
    full_of(host)->has_timer = false;
    return true;
}

static int find_fd(const struct full *f, int fd)
{
    int i = 0;
    while (i < f->n_fds && f->fds[i].fd != fd) i++;
    return i;
}

static bool CLAP_ABI register_fd(const clap_host_t *host, int fd, uint32_t flags)
{
    struct full *f = full_of(host);
    check(role == MAIN && flags == MORE_FD_READ && find_fd(f, fd) == f->n_fds && f->n_fds < MAX_FDS,
          "register_fd(%d): role %d, flags %u", fd, role, flags);
    f->fds[f->n_fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return true;
}

static bool CLAP_ABI unregister_fd(const clap_host_t *host, int fd)
{
    struct full *f = full_of(host);
    const int i = find_fd(f, fd);
    check(role == MAIN && i < f->n_fds, "unregister_fd(%d): role %d", fd, role);
    f->fds[i] = f->fds[--f->n_fds];
    return true;
}

static void CLAP_ABI closed(const clap_host_t *host, bool was_destroyed)
{
    full_of(host)->session.n_closed++;
    full_of(host)->session.was_destroyed = was_destroyed;
}

static const void *CLAP_ABI get_extension(const clap_host_t *host, const char *id)
{
    static const clap_host_thread_check_t threads = {is_main_thread, is_audio_thread};
    static const clap_host_params_t params = {.rescan = rescan, .request_flush = request_flush};
    static const clap_host_state_t state = {mark_dirty};
    static const clap_host_timer_support_t timers = {register_timer, unregister_timer};
    static const struct more_host_posix_fd fds = {.register_fd = register_fd, .unregister_fd = unregister_fd};
    static const clap_host_gui_t gui = {.closed = closed};
    static const struct more_host_log log = {log_line};
    static const struct more_host_tail tail = {tail_changed};
    static const struct more_host_preset_load presets = {preset_error, preset_loaded};
    if (strcmp(id, CLAP_EXT_THREAD_CHECK) == 0) return &threads;
    if (strcmp(id, CLAP_EXT_PARAMS) == 0) return &params;
    if (strcmp(id, CLAP_EXT_STATE) == 0) return &state;
    if (strcmp(id, CLAP_EXT_TIMER_SUPPORT) == 0) return full_of(host)->session.lacks_timer ? NULL : &timers;
    if (strcmp(id, MORE_POSIX_FD) == 0) return full_of(host)->session.has_fds ? &fds : NULL;
    if (strcmp(id, CLAP_EXT_GUI) == 0) return &gui;
    if (strcmp(id, MORE_LOG) == 0) return &log;
    if (strcmp(id, MORE_TAIL) == 0) return &tail;
    return strcmp(id, MORE_PRESET_LOAD) == 0 ? &presets : NULL;
}

static const void *CLAP_ABI no_extension(const clap_host_t *host, const char *id)
{
    return NULL;
}

static void CLAP_ABI request(const clap_host_t *host) {}

static void CLAP_ABI request_callback(const clap_host_t *host)
{
    atomic_store(&full_of(host)->wants_callback, true);
}

/* ---- open and close ----------------------------------------------------------------------------- */

const char *clap_file(void)
{
    static char path[4096];
    const char *build = getenv("BUILD"), *name = getenv("CLAP_PLUGIN");
    char relative[2048];
    snprintf(relative, sizeof relative, "%s/%s", build ? build : "build", name ? name : "haloconv.clap");
    if (name && name[0] == '/') snprintf(relative, sizeof relative, "%s", name);
    check(realpath(relative, path), "%s: there is no plugin", relative);
    return path;
}

const clap_plugin_entry_t *clap_library(void)
{
    static const clap_plugin_entry_t *entry;
    role = MAIN;
    if (entry) return entry;
    void *library = dlopen(clap_file(), RTLD_NOW | RTLD_LOCAL);
    check(library, "%s", dlerror());
    entry = dlsym(library, "clap_entry");
    check(entry, "%s", dlerror());
    check(entry->init(clap_file()), "clap_entry.init failed");
    return entry;
}

const clap_plugin_factory_t *clap_factory(void)
{
    const clap_plugin_factory_t *factory = clap_library()->get_factory(CLAP_PLUGIN_FACTORY_ID);
    check(factory, "there is no factory");
    return factory;
}

struct clap_session *clap_open(const char *variant, bool has_extensions)
{
    const clap_plugin_factory_t *factory = clap_factory();
    struct full *f = must_alloc(1, sizeof *f);
    struct clap_session *s = &f->session;
    char id[64];
    atomic_init(&s->n_logs_allowed, MAX_LOGS);
    snprintf(id, sizeof id, "haloconv.%s", variant);
    f->host = (clap_host_t){
        CLAP_VERSION_INIT, f,       "haloconv's tests", "", "", "1", has_extensions ? get_extension : no_extension,
        request,           request, request_callback};
    pthread_mutex_init(&f->log_lock, NULL);
    s->plugin = factory->create_plugin(factory, &f->host, id);
    check(s->plugin, "%s cannot be created", id);
    check(s->plugin->init(s->plugin), "%s: init failed", id);
    for (int v = 0; v < N_VARIANTS; v++)
        if (strcmp(variants[v].symbol, variant) == 0) s->variant = &variants[v];
    s->params = s->plugin->get_extension(s->plugin, CLAP_EXT_PARAMS);
    s->state = s->plugin->get_extension(s->plugin, CLAP_EXT_STATE);
    s->ports = s->plugin->get_extension(s->plugin, CLAP_EXT_AUDIO_PORTS);
    s->tail = s->plugin->get_extension(s->plugin, MORE_TAIL);
    s->render = s->plugin->get_extension(s->plugin, MORE_RENDER);
    s->presets = s->plugin->get_extension(s->plugin, MORE_PRESET_LOAD);
    check(s->params && s->state && s->ports && s->tail && s->render && s->presets, "an extension is missing");
    return s;
}

void clap_close(struct clap_session *s)
{
    struct full *f = (struct full *)s;
    if (f->is_active) clap_deactivate(s);
    f->ends = true;
    s->plugin->destroy(s->plugin);
    pthread_mutex_destroy(&f->log_lock);
    free(f);
}

void clap_activate(struct clap_session *s, double rate, uint32_t max_frames)
{
    check(s->plugin->activate(s->plugin, rate, 1, max_frames), "activate(%g, 1, %u) failed: %s", rate, max_frames,
          clap_log(s));
    ((struct full *)s)->is_active = true;
    role = AUDIO;
    check(s->plugin->start_processing(s->plugin), "start_processing failed");
    role = MAIN;
    clap_idle(s);
}

void clap_deactivate(struct clap_session *s)
{
    role = AUDIO;
    s->plugin->stop_processing(s->plugin);
    role = MAIN;
    s->plugin->deactivate(s->plugin);
    ((struct full *)s)->is_active = false;
}

void clap_set_offline(struct clap_session *s, bool is_offline)
{
    ((struct full *)s)->is_offline = is_offline;
    check(s->render->set(s->plugin, is_offline ? MORE_RENDER_OFFLINE : MORE_RENDER_REALTIME), "render.set failed");
}

void clap_reset(struct clap_session *s)
{
    struct full *f = (struct full *)s;
    role = AUDIO;
    if (f->is_trapped) trap_arm();
    s->plugin->reset(s->plugin);
    const char *caught = f->is_trapped ? trap_disarm() : NULL;
    if (caught && !f->caught) f->caught = caught;
    role = MAIN;
}

void clap_be_another_thread(bool is_another)
{
    role = is_another ? OTHER : MAIN;
}

/* ---- events ------------------------------------------------------------------------------------- */

static uint32_t CLAP_ABI events_size(const clap_input_events_t *list)
{
    return ((const struct full *)list->ctx)->n_events;
}

static const clap_event_header_t *CLAP_ABI events_get(const clap_input_events_t *list, uint32_t i)
{
    return &((const struct full *)list->ctx)->events[i].header;
}

void clap_send(struct clap_session *s, const clap_event_header_t *event)
{
    struct full *f = (struct full *)s;
    if (f->events_sent) f->n_events = 0;
    f->events_sent = false;
    check(f->n_events < MAX_EVENTS && event->size <= sizeof *f->events, "too many events, or a large one");
    memcpy(&f->events[f->n_events++], event, event->size);
}

void clap_set(struct clap_session *s, enum control control, double value, uint32_t frame)
{
    clap_event_param_value_t e = {.header = {sizeof e, frame, CLAP_CORE_EVENT_SPACE_ID, CLAP_EVENT_PARAM_VALUE, 0},
                                  .param_id = control_id(control),
                                  .note_id = -1,
                                  .port_index = -1,
                                  .channel = -1,
                                  .key = -1,
                                  .value = value};
    clap_send(s, &e.header);
}

void clap_modulate(struct clap_session *s, enum control control, double amount, uint32_t frame)
{
    clap_event_param_mod_t e = {.header = {sizeof e, frame, CLAP_CORE_EVENT_SPACE_ID, CLAP_EVENT_PARAM_MOD, 0},
                                .param_id = control_id(control),
                                .note_id = -1,
                                .port_index = -1,
                                .channel = -1,
                                .key = -1,
                                .amount = amount};
    clap_send(s, &e.header);
}

const clap_input_events_t *clap_events(struct clap_session *s)
{
    static clap_input_events_t list;
    struct full *f = (struct full *)s;
    if (f->events_sent) f->n_events = 0;
    f->events_sent = true;
    list = (clap_input_events_t){f, events_size, events_get};
    return &list;
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static bool CLAP_ABI try_push(const clap_output_events_t *list, const clap_event_header_t *event)
{
    struct full *f = list->ctx;
    check(f->has_timer || f->n_fds > 0, "without a window the plugin sent event %d", event->type);
    const bool is_value = event->type == CLAP_EVENT_PARAM_VALUE;
    if (f->session.n_refused > 0) return f->session.n_refused--, false;
    const clap_event_param_value_t *value = (const clap_event_param_value_t *)(const void *)event;
    const clap_event_param_gesture_t *gesture = (const clap_event_param_gesture_t *)(const void *)event;
    check(event->size == (is_value ? sizeof *value : sizeof *gesture) && event->time == 0, "an event of %u bytes",
          event->size);
    check(f->session.n_sent < 64, "too many events come out");
    f->session.sent[f->session.n_sent++] =
        (struct clap_sent){event->type, is_value ? value->param_id : gesture->param_id, is_value ? value->value : 0};
    return true;
}

void clap_flush(struct clap_session *s)
{
    const clap_output_events_t out = {s, try_push};
    s->params->flush(s->plugin, clap_events(s), &out);
}

void clap_tick(struct clap_session *s)
{
    const clap_plugin_timer_support_t *timer = s->plugin->get_extension(s->plugin, CLAP_EXT_TIMER_SUPPORT);
    struct full *f = (struct full *)s;
    if (f->has_timer) timer->on_timer(s->plugin, TIMER);
    const struct more_posix_fd *posix_fd = s->plugin->get_extension(s->plugin, MORE_POSIX_FD);
    struct pollfd fds[MAX_FDS];
    const int n = f->n_fds;
    memcpy(fds, f->fds, sizeof fds);
    if (n == 0 || poll(fds, (nfds_t)n, 0) <= 0) return;
    for (int i = 0; i < n; i++)
        if (fds[i].revents && find_fd(f, fds[i].fd) < f->n_fds) {
            posix_fd->on_fd(s->plugin, fds[i].fd, MORE_FD_READ);
            s->n_on_fd++;
        }
}

int clap_n_fds(const struct clap_session *s)
{
    return ((const struct full *)s)->n_fds;
}

clap_process_status clap_process_block(struct clap_session *s, const clap_process_t *process)
{
    struct full *f = (struct full *)s;
    const enum role was = role;
    role = AUDIO;
    bool is_trapped = f->is_trapped && !f->is_offline;
    if (is_trapped) trap_arm();
    clap_process_status status = s->plugin->process(s->plugin, process);
    const char *caught = is_trapped ? trap_disarm() : NULL;
    if (caught && !f->caught) f->caught = caught;
    role = was;
    if (role == MAIN) clap_idle(s);
    return status;
}

clap_process_status clap_play(struct clap_session *s, float *const *in, float *const *out, uint32_t n)
{
    const clap_output_events_t events_out = {s, try_push};
    clap_audio_buffer_t from = {.data32 = (float **)(uintptr_t)in, .channel_count = (uint32_t)s->variant->n_in};
    clap_audio_buffer_t to = {.data32 = (float **)(uintptr_t)out, .channel_count = (uint32_t)s->variant->n_out};
    return clap_process_block(s, &(clap_process_t){.steady_time = -1,
                                                   .frames_count = n,
                                                   .audio_inputs = &from,
                                                   .audio_outputs = &to,
                                                   .audio_inputs_count = 1,
                                                   .audio_outputs_count = 1,
                                                   .in_events = clap_events(s),
                                                   .out_events = &events_out});
}

void clap_idle(struct clap_session *s)
{
    if (atomic_exchange(&((struct full *)s)->wants_callback, false)) s->plugin->on_main_thread(s->plugin);
}

void clap_await_presets(struct clap_session *s, int n)
{
    double give_up = now_s() + 60;
    while (clap_idle(s), s->n_loaded + s->n_errors < n) {
        check(now_s() < give_up, "the preset is not loaded after a minute: %s", clap_log(s));
        pause_us(200);
    }
}

const char *clap_caught(struct clap_session *s)
{
    struct full *f = (struct full *)s;
    const char *caught = f->caught;
    f->is_trapped = true;
    f->caught = NULL;
    return caught;
}

const char *clap_log(struct clap_session *s)
{
    struct full *f = (struct full *)s;
    pthread_mutex_lock(&f->log_lock);
    memcpy(f->shown, f->text, sizeof f->shown);
    f->text[0] = '\0';
    pthread_mutex_unlock(&f->log_lock);
    return f->shown;
}

/* ---- state -------------------------------------------------------------------------------------- */

struct stream {
    char *text;
    size_t length, at, chunk;
};

static int64_t CLAP_ABI stream_write(const clap_ostream_t *stream, const void *bytes, uint64_t size)
{
    struct stream *t = stream->ctx;
    size_t n = size < t->chunk ? (size_t)size : t->chunk;
    check(t->at + n < t->length, "the state is too long");
    memcpy(t->text + t->at, bytes, n);
    t->text[t->at += n] = '\0';
    return (int64_t)n;
}

static int64_t CLAP_ABI stream_read(const clap_istream_t *stream, void *bytes, uint64_t size)
{
    struct stream *t = stream->ctx;
    size_t n = size < t->chunk ? (size_t)size : t->chunk;
    if (n > t->length - t->at) n = t->length - t->at;
    memcpy(bytes, t->text + t->at, n);
    t->at += n;
    return (int64_t)n;
}

bool clap_save(struct clap_session *s, char *text, size_t chunk)
{
    struct stream to = {text, 32768, 0, chunk};
    text[0] = '\0';
    return s->state->save(s->plugin, &(clap_ostream_t){&to, stream_write});
}

bool clap_load(struct clap_session *s, const char *text, size_t length, size_t chunk)
{
    struct stream from = {(char *)(uintptr_t)text, length, 0, chunk};
    return s->state->load(s->plugin, &(clap_istream_t){&from, stream_read});
}
