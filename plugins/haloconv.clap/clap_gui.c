/* clap_gui - the window on X11, in a frame of the host or by itself. With posix-fd-support the host calls it for events of
 * the X server, and for the ticks of a timerfd, which counts while the window is visible; else the host's timer runs it.
 */
#include "face.h"
#include "haloconv_live.h"
#include "plugins/core/plugin_window.h"

#include <clap/ext/gui.h>
#include <clap/ext/state.h>
#include <clap/ext/timer-support.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { TITLE_BYTES = 256 };

struct gui { /* main thread */
    struct plugin_window content;
    struct window *window; /* NULL before set_parent or the first show, and after the end of the window */
    const struct more_host_posix_fd *fds;    /* NULL: the host's timer runs the window */
    const clap_host_timer_support_t *timers; /* not NULL without `fds` */
    clap_id timer;
    int ticks, connection; /* descriptors: of the timerfd; of the window; -1: not registered */
    bool is_floating;
    uintptr_t transient;
    char title[TITLE_BYTES]; /* "": none was suggested */
    double scale;            /* 0: as the desktop says */
    int width, height;
};

/* ---- what the window shows and sets ------------------------------------------------------------- */

static double gui_get(void *data, int control)
{
    return (double)core_get(((const struct face *)data)->core, control);
}

static void gui_begin(void *data, int control)
{
    face_gesture(data, control, GESTURE_BEGIN);
}

static void gui_set(void *data, int control, double value)
{
    face_set_from_window(data, control, value);
}

static void gui_end(void *data, int control)
{
    face_gesture(data, control, GESTURE_END);
}

static void mark_dirty(const struct face *f)
{
    const clap_host_state_t *state = f->host->get_extension(f->host, CLAP_EXT_STATE);
    if (state) state->mark_dirty(f->host);
}

static void gui_load(void *data, const char *path)
{
    struct face *f = data;
    const uint64_t number = core_choose_mask(f->core, path);
    if (!f->is_active || f->window_request) mark_dirty(f); /* it changes at once, or by a load that may be under way */
    f->window_request = f->is_active ? number : 0;
}

void face_answer_window(struct face *f)
{
    char why[ANSWER_CAP];
    const enum answer result = f->window_request ? core_answer(f->core, f->window_request, why) : ANSWER_PENDING;
    if (result == ANSWER_PENDING) return;
    f->window_request = 0;
    if (result == ANSWER_GOOD) mark_dirty(f);
}

static void gui_state(void *data, struct window_state *to)
{
    const struct face *f = data;
    plugin_window_read(f->core, to);
}

/* ---- the extension ------------------------------------------------------------------------------ */

static bool CLAP_ABI is_api_supported(const clap_plugin_t *plugin, const char *api, bool is_floating)
{
    (void)plugin, (void)is_floating;
    return api && strcmp(api, CLAP_WINDOW_API_X11) == 0;
}

static bool CLAP_ABI get_preferred_api(const clap_plugin_t *plugin, const char **api, bool *is_floating)
{
    (void)plugin;
    *api = CLAP_WINDOW_API_X11;
    *is_floating = false;
    return true;
}

/* ---- when it runs ------------------------------------------------------------------------------- */

static void set_ticks(const struct gui *gui, bool is_on)
{
    const struct timespec period = {0, is_on ? WINDOW_PERIOD_MS * 1000000L : 0};
    if (gui->fds) timerfd_settime(gui->ticks, 0, &(struct itimerspec){period, period}, NULL);
}

static bool start_ticks(const struct face *f, struct gui *gui)
{
    gui->ticks = gui->fds ? timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) : -1;
    if (gui->ticks >= 0 && gui->fds->register_fd(f->host, gui->ticks, MORE_FD_READ)) return true;
    if (gui->ticks >= 0) close(gui->ticks);
    gui->fds = NULL;
    return gui->timers && gui->timers->register_timer(f->host, WINDOW_PERIOD_MS, &gui->timer);
}

static void stop_ticks(const struct face *f, const struct gui *gui)
{
    if (!gui->fds) {
        gui->timers->unregister_timer(f->host, gui->timer);
        return;
    }
    gui->fds->unregister_fd(f->host, gui->ticks);
    close(gui->ticks);
}

static bool gui_open_window(struct face *f, uintptr_t parent)
{
    struct gui *gui = f->gui;
    char why[400];
    const struct window_config config = {parent, gui->scale, gui->width, gui->height};
    gui->window = window_open(&gui->content.model, &config, why, sizeof why);
    if (!gui->window) {
        face_report(f, HC_LIVE_ERROR, why);
        return false;
    }
    if (gui->transient) window_set_transient(gui->window, gui->transient);
    if (gui->title[0]) window_set_title(gui->window, gui->title);
    const int connection = window_descriptor(gui->window);
    const bool is_registered = gui->fds && gui->fds->register_fd(f->host, connection, MORE_FD_READ);
    gui->connection = is_registered ? connection : -1; /* without it the ticks read the events */
    set_ticks(gui, true);
    return true;
}

/* The user may have resized a floating window, which opens again in its last size. */
static void read_size(struct gui *gui)
{
    if (gui->window && gui->is_floating) window_size(gui->window, &gui->width, &gui->height);
}

static void close_window(const struct face *f)
{
    struct gui *gui = f->gui;
    if (gui->fds && gui->connection >= 0) gui->fds->unregister_fd(f->host, gui->connection);
    gui->connection = -1;
    set_ticks(gui, false);
    read_size(gui);
    window_close(gui->window);
    gui->window = NULL;
}

static void gui_run(struct face *f)
{
    const struct gui *gui = f->gui;
    const enum window_result result = gui->window ? window_idle(gui->window) : WINDOW_OPEN;
    if (result == WINDOW_OPEN) return;
    close_window(f);
    const clap_host_gui_t *host = f->host->get_extension(f->host, CLAP_EXT_GUI);
    if (host) host->closed(f->host, result == WINDOW_GONE); /* the host may call destroy inside */
}

static void CLAP_ABI gui_on_timer(const clap_plugin_t *plugin, clap_id timer)
{
    struct face *f = face_of(plugin);
    if (f->gui && !f->gui->fds && timer == f->gui->timer) gui_run(f);
}

const clap_plugin_timer_support_t face_timer = {gui_on_timer};

static void CLAP_ABI on_fd(const clap_plugin_t *plugin, int fd, uint32_t flags)
{
    struct face *f = face_of(plugin);
    uint64_t n_ticks;
    (void)flags;
    if (!f->gui || !f->gui->fds || (fd != f->gui->ticks && fd != f->gui->connection)) return;
    if (fd == f->gui->ticks && read(fd, &n_ticks, sizeof n_ticks) < 0) return;
    gui_run(f);
}

const struct more_posix_fd face_posix_fd = {on_fd};

/* ---- its life ----------------------------------------------------------------------------------- */

static bool CLAP_ABI gui_create(const clap_plugin_t *plugin, const char *api, bool is_floating)
{
    static const struct plugin_window_face calls = {gui_get, gui_begin, gui_set, gui_end, gui_load, gui_state};
    struct face *f = face_of(plugin);
    const bool is_any = is_floating && (!api || !api[0]);
    if (f->gui || !(is_any || is_api_supported(plugin, api, is_floating)) || !face_is_on_main(f, "gui.create"))
        return false;
    struct gui *gui = calloc(1, sizeof *gui);
    if (!gui) return false;
    gui->timers = f->host->get_extension(f->host, CLAP_EXT_TIMER_SUPPORT);
    gui->fds = f->host->get_extension(f->host, MORE_POSIX_FD);
    gui->connection = -1;
    gui->is_floating = is_floating;
    plugin_window_init(&gui->content, core_variant(f->core), core_folder(f->core), &calls, f);
    window_default_size(&gui->content.model, 0, &gui->width, &gui->height);
    if (!start_ticks(f, gui)) {
        face_report(f, HC_LIVE_WARNING, "the window needs clap.posix-fd-support or clap.timer-support of the host");
        free(gui);
        return false;
    }
    f->gui = gui;
    return true;
}

static void CLAP_ABI gui_destroy(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    if (f->gui) face_close_gui(f);
}

void face_close_gui(struct face *f)
{
    close_window(f);
    stop_ticks(f, f->gui);
    free(f->gui);
    f->gui = NULL;
}

static bool CLAP_ABI gui_set_scale(const clap_plugin_t *plugin, double scale)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui || !(scale > 0)) return false;
    gui->scale = scale;
    if (gui->window)
        window_set_scale(gui->window, scale);
    else
        window_default_size(&gui->content.model, scale, &gui->width, &gui->height);
    return true;
}

static bool CLAP_ABI gui_get_size(const clap_plugin_t *plugin, uint32_t *width, uint32_t *height)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui) return false;
    read_size(gui);
    *width = (uint32_t)gui->width;
    *height = (uint32_t)gui->height;
    return true;
}

static bool CLAP_ABI gui_can_resize(const clap_plugin_t *plugin)
{
    (void)plugin;
    return true;
}

static bool CLAP_ABI get_resize_hints(const clap_plugin_t *plugin, clap_gui_resize_hints_t *hints)
{
    (void)plugin;
    *hints = (clap_gui_resize_hints_t){.can_resize_horizontally = true, .can_resize_vertically = true};
    return true;
}

static bool CLAP_ABI adjust_size(const clap_plugin_t *plugin, uint32_t *width, uint32_t *height)
{
    const struct gui *gui = face_of(plugin)->gui;
    int min_width, min_height;
    if (!gui) return false;
    window_smallest_size(&gui->content.model, gui->scale, &min_width, &min_height);
    if (*width < (uint32_t)min_width) *width = (uint32_t)min_width;
    if (*height < (uint32_t)min_height) *height = (uint32_t)min_height;
    if (*width > INT16_MAX) *width = INT16_MAX;
    if (*height > INT16_MAX) *height = INT16_MAX;
    return true;
}

static bool CLAP_ABI set_size(const clap_plugin_t *plugin, uint32_t width, uint32_t height)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui || width == 0 || height == 0 || width > WINDOW_MAX_SIZE || height > WINDOW_MAX_SIZE) return false;
    gui->width = (int)width;
    gui->height = (int)height;
    if (gui->window) window_resize(gui->window, gui->width, gui->height);
    return true;
}

static bool CLAP_ABI set_parent(const clap_plugin_t *plugin, const clap_window_t *parent)
{
    struct face *f = face_of(plugin);
    const struct gui *gui = f->gui;
    return gui && !gui->window && !gui->is_floating && parent && parent->x11 && gui_open_window(f, parent->x11);
}

static bool CLAP_ABI set_transient(const clap_plugin_t *plugin, const clap_window_t *window)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui || !gui->is_floating || !window) return false;
    gui->transient = window->x11;
    if (gui->window) window_set_transient(gui->window, gui->transient);
    return true;
}

static void CLAP_ABI suggest_title(const clap_plugin_t *plugin, const char *title)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui || !gui->is_floating || !title) return;
    snprintf(gui->title, sizeof gui->title, "%s", title);
    if (gui->window) window_set_title(gui->window, title);
}

static bool make_visible(const struct gui *gui, bool is_visible)
{
    if (!gui || !gui->window) return false;
    window_show(gui->window, is_visible);
    set_ticks(gui, is_visible);
    return true;
}

static bool CLAP_ABI gui_show(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    if (f->gui && !f->gui->window && f->gui->is_floating) return gui_open_window(f, 0);
    return make_visible(f->gui, true);
}

static bool CLAP_ABI gui_hide(const clap_plugin_t *plugin)
{
    return make_visible(face_of(plugin)->gui, false);
}

const clap_plugin_gui_t face_gui = {is_api_supported, get_preferred_api, gui_create,       gui_destroy, gui_set_scale,
                                    gui_get_size,     gui_can_resize,    get_resize_hints, adjust_size, set_size,
                                    set_parent,       set_transient,     suggest_title,    gui_show,    gui_hide};
