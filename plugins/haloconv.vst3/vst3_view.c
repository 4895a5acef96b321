/* vst3_view - the window in a frame of the host, on X11. The run loop of the frame has a timer for it. Main thread. */
#include "haloconv_live.h"
#include "plugins/core/plugin_window.h"
#include "vst3_face.h"

#include <stdlib.h>
#include <string.h>

/* The first three are interfaces: the host knows the object by their addresses. */
struct view {
    const struct v3_plugin_view *in_frame;
    const struct v3_plugin_view_content_scale *scaled;
    const v3_timer_handler *timed;
    atomic_uint n_refs;
    struct vst3 *face; /* referenced */
    struct plugin_window content;
    struct window *window;         /* NULL before attached, and after the end of the host's window */
    struct v3_plugin_frame **host; /* NULL: none; not referenced, as in VST3's SDK */
    struct v3_run_loop **loop;     /* referenced; NULL: no timer runs */
    double scale;                  /* 0: as the desktop says */
    int width, height;
    bool must_notify; /* the host, of a mask that the window has chosen */
};

static struct view *view_of(void *self)
{
    return VST3_PART_OF(self, struct view, in_frame);
}

/* ---- what the window shows and sets ------------------------------------------------------------- */

static double view_get(void *data, int control)
{
    return atomic_load(&((const struct view *)data)->face->shown[control]);
}

static void view_begin(void *data, int control)
{
    struct v3_component_handler **host = ((const struct view *)data)->face->handler;
    if (host) (*host)->begin_edit(host, control_id(control));
}

/* The core has the value at once: a host that does not process would send no queue, and save an earlier state. */
static void view_set(void *data, int control, double value)
{
    struct vst3 *face = ((const struct view *)data)->face;
    double limited = (double)control_limit(control, value);
    core_set(face->core, control, limited);
    atomic_store(&face->shown[control], limited);
    if (face->handler)
        (*face->handler)->perform_edit(face->handler, control_id(control), vst3_to_normalised(control, limited));
    if (control == A_B) vst3_notify_of_values(face); /* Preset is that of the side */
}

static void view_end(void *data, int control)
{
    struct v3_component_handler **host = ((const struct view *)data)->face->handler;
    if (host) (*host)->end_edit(host, control_id(control));
}

static void view_load(void *data, const char *path)
{
    struct view *view = data;
    view->face->preset = 0; /* vst3_preset_now finds the preset of another mask */
    vst3_note_request(view->face, core_choose_mask(view->face->core, path));
    view->must_notify = true;
}

static void view_state(void *data, struct window_state *to)
{
    plugin_window_read(((const struct view *)data)->face->core, to);
}

/* The state has another mask, and the parameter Preset another value. */
static void notify_of_mask(struct view *view)
{
    struct v3_component_handler **host = view->face->handler;
    struct v3_component_handler2 **more = NULL;
    view->must_notify = false;
    if (!host) return;
    (*host)->ref(host); /* it may leave inside the calls */
    (*host)->restart_component(host, V3_RESTART_PARAM_VALUES_CHANGED);
    if ((*host)->query_interface(host, v3_component_handler2_iid, (void **)&more) == V3_OK && more) {
        (*more)->set_dirty(more, true);
        (*more)->unref(more);
    }
    (*host)->unref(host);
}

/* ---- the timer ---------------------------------------------------------------------------------- */

static bool start_timer(struct view *view)
{
    void *loop = NULL;
    if (!view->host || (*view->host)->query_interface(view->host, v3_run_loop_iid, &loop) != V3_OK || !loop)
        return false;
    view->loop = loop;
    if ((*view->loop)->register_timer(view->loop, (v3_timer_handler **)&view->timed, WINDOW_PERIOD_MS) == V3_OK)
        return true;
    (*view->loop)->unref(view->loop);
    view->loop = NULL;
    return false;
}

static void stop_timer(struct view *view)
{
    struct v3_run_loop **loop = view->loop;
    view->loop = NULL;
    if (!loop) return;
    (*loop)->unregister_timer(loop, (v3_timer_handler **)&view->timed);
    (*loop)->unref(loop);
}

static void close_view(struct view *view)
{
    stop_timer(view);
    window_close(view->window);
    view->window = NULL;
    if (view->must_notify) notify_of_mask(view);
}

static void V3_API view_on_timer(void *self)
{
    struct view *view = VST3_PART_OF(self, struct view, timed);
    if (!view->window) return;
    if (window_idle(view->window) != WINDOW_OPEN)
        close_view(view);
    else if (view->must_notify && !vst3_is_loading(view->face))
        notify_of_mask(view);
}

/* ---- the interfaces ----------------------------------------------------------------------------- */

static v3_result view_query(struct view *view, const v3_tuid iid, void **to)
{
    if (!to) return V3_INVALID_ARG;
    *to = NULL;
    if (!iid) return V3_NO_INTERFACE;
    if (v3_tuid_match(iid, v3_funknown_iid) || v3_tuid_match(iid, v3_plugin_view_iid)) *to = &view->in_frame;
    if (v3_tuid_match(iid, v3_plugin_view_content_scale_iid)) *to = &view->scaled;
    if (v3_tuid_match(iid, v3_timer_handler_iid)) *to = &view->timed;
    if (!*to) return V3_NO_INTERFACE;
    atomic_fetch_add(&view->n_refs, 1);
    return V3_OK;
}

static uint32_t view_ref(struct view *view)
{
    return atomic_fetch_add(&view->n_refs, 1) + 1;
}

static uint32_t view_unref(struct view *view)
{
    uint32_t left = atomic_fetch_sub(&view->n_refs, 1) - 1;
    if (left > 0) return left;
    atomic_store(&view->n_refs, 1); /* the host may reference it while it closes */
    close_view(view);
    vst3_unref(view->face);
    free(view);
    return 0;
}

VST3_COUNTED(struct view, view, in_frame)
VST3_COUNTED(struct view, view, scaled)
VST3_COUNTED(struct view, view, timed)

static v3_result V3_API is_supported(void *self, const char *type)
{
    (void)self;
    return type && strcmp(type, V3_VIEW_PLATFORM_TYPE_X11) == 0 ? V3_TRUE : V3_FALSE;
}

static v3_result V3_API attached(void *self, void *parent, const char *type)
{
    struct view *view = view_of(self);
    char why[400];
    if (view->window || !parent || is_supported(self, type) != V3_TRUE) return V3_INVALID_ARG;
    if (!start_timer(view)) {
        vst3_report(view->face, HC_LIVE_WARNING, "the window needs a timer (IRunLoop), which this host's frame lacks");
        return V3_FALSE;
    }
    const struct window_config config = {(uintptr_t)parent, view->scale, view->width, view->height};
    view->window = window_open(&view->content.model, &config, why, sizeof why);
    if (view->window) return V3_OK;
    stop_timer(view);
    vst3_report(view->face, HC_LIVE_ERROR, why);
    return V3_FALSE;
}

static v3_result V3_API removed(void *self)
{
    close_view(view_of(self));
    return V3_OK;
}

/* The keys come from X11. */
static v3_result V3_API on_wheel(void *self, float distance)
{
    (void)self, (void)distance;
    return V3_FALSE;
}

static v3_result V3_API on_key(void *self, int16_t key_char, int16_t key_code, int16_t modifiers)
{
    (void)self, (void)key_char, (void)key_code, (void)modifiers;
    return V3_FALSE;
}

static v3_result V3_API on_focus(void *self, v3_bool is_focused)
{
    (void)self, (void)is_focused;
    return V3_OK;
}

static v3_result V3_API view_get_size(void *self, struct v3_view_rect *size)
{
    const struct view *view = view_of(self);
    if (!size) return V3_INVALID_ARG;
    *size = (struct v3_view_rect){.right = view->width, .bottom = view->height};
    return V3_OK;
}

static v3_result V3_API on_size(void *self, struct v3_view_rect *size)
{
    struct view *view = view_of(self);
    if (!size) return V3_INVALID_ARG;
    int64_t width = (int64_t)size->right - size->left, height = (int64_t)size->bottom - size->top;
    if (width < 1 || height < 1 || width > WINDOW_MAX_SIZE || height > WINDOW_MAX_SIZE) return V3_INVALID_ARG;
    view->width = (int)width;
    view->height = (int)height;
    if (view->window) window_resize(view->window, view->width, view->height);
    return V3_OK;
}

/* A frame of the host that ends takes its run loop with it. */
static v3_result V3_API set_frame(void *self, struct v3_plugin_frame **host)
{
    struct view *view = view_of(self);
    if (host == view->host) return V3_OK;
    stop_timer(view);
    view->host = host;
    return !view->window || !host || start_timer(view) ? V3_OK : V3_FALSE;
}

static v3_result V3_API view_can_resize(void *self)
{
    (void)self;
    return V3_TRUE;
}

static v3_result V3_API check_size(void *self, struct v3_view_rect *size)
{
    const struct view *view = view_of(self);
    int width, height;
    if (!size) return V3_INVALID_ARG;
    window_smallest_size(&view->content.model, view->scale, &width, &height);
    if ((int64_t)size->right - size->left < width) size->right = size->left + width;
    if ((int64_t)size->bottom - size->top < height) size->bottom = size->top + height;
    return V3_TRUE;
}

static const struct v3_plugin_view in_frame = {VST3_CALLS(in_frame),
                                               .is_platform_type_supported = is_supported,
                                               .attached = attached,
                                               .removed = removed,
                                               .on_wheel = on_wheel,
                                               .on_key_down = on_key,
                                               .on_key_up = on_key,
                                               .get_size = view_get_size,
                                               .on_size = on_size,
                                               .on_focus = on_focus,
                                               .set_frame = set_frame,
                                               .can_resize = view_can_resize,
                                               .check_size_constraint = check_size};

/* A window that is open asks the host for its size at the new scale. */
static v3_result V3_API view_set_scale(void *self, float scale)
{
    struct view *view = VST3_PART_OF(self, struct view, scaled);
    struct v3_view_rect size = {0};
    if (!(scale > 0)) return V3_INVALID_ARG;
    if ((double)scale == view->scale) return V3_OK;
    view->scale = (double)scale;
    window_default_size(&view->content.model, view->scale, &size.right, &size.bottom);
    if (!view->window) return on_size(&view->in_frame, &size);
    window_set_scale(view->window, view->scale);
    if (view->host) (*view->host)->resize_view(view->host, (struct v3_plugin_view **)&view->in_frame, &size);
    return V3_OK;
}

static const struct v3_plugin_view_content_scale scaled = {VST3_CALLS(scaled),
                                                           .set_content_scale_factor = view_set_scale};

static const v3_timer_handler timed = {VST3_CALLS(timed), .on_timer = view_on_timer};

struct v3_plugin_view **vst3_view_create(struct vst3 *face)
{
    static const struct plugin_window_face calls = {view_get, view_begin, view_set, view_end, view_load, view_state};
    struct view *view = calloc(1, sizeof *view);
    if (!view) return NULL;
    view->in_frame = &in_frame;
    view->scaled = &scaled;
    view->timed = &timed;
    view->n_refs = 1;
    view->face = face;
    vst3_ref(face);
    plugin_window_init(&view->content, core_variant(face->core), core_folder(face->core), &calls, view);
    window_default_size(&view->content.model, 0, &view->width, &view->height);
    return (struct v3_plugin_view **)&view->in_frame;
}
