/* clap_gui - the window in a frame of the host, on X11. The host's timer runs it. */
#include "face.h"
#include "haloconv_live.h"
#include "plugins/core/plugin_window.h"

#include <clap/ext/gui.h>
#include <clap/ext/state.h>
#include <clap/ext/timer-support.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD_MS = 33 };

struct gui { /* main thread */
    struct plugin_window content;
    struct window *window; /* NULL before set_parent, and after the end of the host's window */
    const clap_host_timer_support_t *timers;
    clap_id timer;
    double scale; /* 0: as the desktop says */
    int width, height;
};

/* ---- what the window shows and sets ------------------------------------------------------------- */

static double get(void *data, int control)
{
    return (double)core_get(((const struct face *)data)->core, control);
}

static void begin(void *data, int control)
{
    face_gesture(data, control, GESTURE_BEGIN);
}

static void set(void *data, int control, double value)
{
    core_set(((struct face *)data)->core, control, value);
    face_gesture(data, control, GESTURE_VALUE);
}

static void end(void *data, int control)
{
    face_gesture(data, control, GESTURE_END);
}

static void mark_dirty(const struct face *f)
{
    const clap_host_state_t *state = f->host->get_extension(f->host, CLAP_EXT_STATE);
    if (state) state->mark_dirty(f->host);
}

static void load(void *data, const char *path)
{
    struct face *f = data;
    f->is_mask_chosen = core_choose_mask(f->core, path) && f->is_active;
    if (!f->is_active) mark_dirty(f);
}

void face_answer_window(struct face *f)
{
    if (!f->is_mask_chosen) return;
    mark_dirty(f);
    f->is_mask_chosen = core_has_work(f->core); /* an earlier mask may have been loaded */
}

static void state(void *data, struct window_state *to)
{
    struct face *f = data;
    struct core_meters meters;
    char playing[CORE_PATH_BYTES], status[CORE_STATUS_BYTES];
    core_get_status(f->core, playing, status);
    core_get_meters(f->core, &meters);
    for (int side = 0; side < N_SIDES; side++) {
        core_get_side(f->core, side, to->mask[side]);
        to->gain_db[side] = meters.gain_db[side];
    }
    to->side = core_get(f->core, A_B) > 0.5f;
    plugin_window_status(to, status, f->is_active && core_has_work(f->core));
    snprintf(to->backend, sizeof to->backend, "%s", meters.engine);
    to->in_peak = meters.in_peak, to->out_peak = meters.out_peak;
    to->load = core_get(f->core, LOAD);
    to->late = (uint64_t)core_get(f->core, LATE);
    to->lost = (uint64_t)core_get(f->core, LOST);
    to->overruns = (uint64_t)core_get(f->core, OVERRUNS);
}

/* ---- the extension ------------------------------------------------------------------------------ */

static bool CLAP_ABI is_api_supported(const clap_plugin_t *plugin, const char *api, bool is_floating)
{
    (void)plugin;
    return api && strcmp(api, CLAP_WINDOW_API_X11) == 0 && !is_floating;
}

static bool CLAP_ABI get_preferred_api(const clap_plugin_t *plugin, const char **api, bool *is_floating)
{
    (void)plugin;
    *api = CLAP_WINDOW_API_X11;
    *is_floating = false;
    return true;
}

static bool CLAP_ABI create(const clap_plugin_t *plugin, const char *api, bool is_floating)
{
    static const struct plugin_window_face calls = {get, begin, set, end, load, state};
    struct face *f = face_of(plugin);
    char folder[CORE_PATH_BYTES];
    if (f->gui || !is_api_supported(plugin, api, is_floating) || !face_is_on_main(f, "gui.create")) return false;
    const clap_host_timer_support_t *timers = f->host->get_extension(f->host, CLAP_EXT_TIMER_SUPPORT);
    if (!timers) {
        face_report(f, HC_LIVE_WARNING, "the window needs a timer (clap.timer-support), which this host lacks");
        return false;
    }
    struct gui *gui = calloc(1, sizeof *gui);
    if (!gui) return false;
    gui->timers = timers;
    core_shipped_path(f->core, "", folder);
    plugin_window_init(&gui->content, core_variant(f->core), folder, &calls, f);
    window_default_size(&gui->content.model, 0, &gui->width, &gui->height);
    if (!timers->register_timer(f->host, PERIOD_MS, &gui->timer)) {
        free(gui);
        return false;
    }
    f->gui = gui;
    return true;
}

static void CLAP_ABI destroy(const clap_plugin_t *plugin)
{
    struct face *f = face_of(plugin);
    if (f->gui) face_close_gui(f);
}

void face_close_gui(struct face *f)
{
    f->gui->timers->unregister_timer(f->host, f->gui->timer);
    window_close(f->gui->window);
    free(f->gui);
    f->gui = NULL;
}

static bool CLAP_ABI set_scale(const clap_plugin_t *plugin, double scale)
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

static bool CLAP_ABI get_size(const clap_plugin_t *plugin, uint32_t *width, uint32_t *height)
{
    const struct gui *gui = face_of(plugin)->gui;
    if (!gui) return false;
    *width = (uint32_t)gui->width;
    *height = (uint32_t)gui->height;
    return true;
}

static bool CLAP_ABI can_resize(const clap_plugin_t *plugin)
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
    return true;
}

static bool CLAP_ABI set_size(const clap_plugin_t *plugin, uint32_t width, uint32_t height)
{
    struct gui *gui = face_of(plugin)->gui;
    if (!gui || width == 0 || height == 0 || width > INT16_MAX || height > INT16_MAX) return false;
    gui->width = (int)width;
    gui->height = (int)height;
    if (gui->window) window_resize(gui->window, gui->width, gui->height);
    return true;
}

static bool CLAP_ABI set_parent(const clap_plugin_t *plugin, const clap_window_t *parent)
{
    struct face *f = face_of(plugin);
    struct gui *gui = f->gui;
    char why[400];
    if (!gui || gui->window || !parent || !parent->x11) return false;
    const struct window_config config = {parent->x11, gui->scale, gui->width, gui->height};
    gui->window = window_open(&gui->content.model, &config, why, sizeof why);
    if (!gui->window) face_report(f, HC_LIVE_ERROR, why);
    return gui->window;
}

static bool CLAP_ABI set_transient(const clap_plugin_t *plugin, const clap_window_t *window)
{
    (void)plugin, (void)window;
    return false;
}

static void CLAP_ABI suggest_title(const clap_plugin_t *plugin, const char *title)
{
    (void)plugin, (void)title;
}

static bool make_visible(const struct gui *gui, bool is_visible)
{
    if (!gui || !gui->window) return false;
    window_show(gui->window, is_visible);
    return true;
}

static bool CLAP_ABI show(const clap_plugin_t *plugin)
{
    return make_visible(face_of(plugin)->gui, true);
}

static bool CLAP_ABI hide(const clap_plugin_t *plugin)
{
    return make_visible(face_of(plugin)->gui, false);
}

const clap_plugin_gui_t face_gui = {is_api_supported, get_preferred_api, create,           destroy,     set_scale,
                                    get_size,         can_resize,        get_resize_hints, adjust_size, set_size,
                                    set_parent,       set_transient,     suggest_title,    show,        hide};

static void CLAP_ABI on_timer(const clap_plugin_t *plugin, clap_id timer)
{
    struct face *f = face_of(plugin);
    struct gui *gui = f->gui;
    if (!gui || !gui->window || timer != gui->timer || window_idle(gui->window) == WINDOW_OPEN) return;
    window_close(gui->window);
    gui->window = NULL;
    const clap_host_gui_t *host = f->host->get_extension(f->host, CLAP_EXT_GUI);
    if (host) host->closed(f->host, true); /* the host may call destroy inside */
}

const clap_plugin_timer_support_t face_timer = {on_timer};
