/* The window of the VST3 plugin in a host's frame, on an X server without a screen (Xvfb). */
#include "gui_frame.h"
#include "plugins/haloconv.vst3/vst3_classes.h"
#include "vst3_host.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RATE = 48000, BLOCK = 64, STATE_BYTES = 32768 };

/* ---- a host ------------------------------------------------------------------------------------- */

struct shown {
    const struct v3_plugin_frame *frame; /* the first two are interfaces */
    const struct v3_run_loop *loop;
    bool has_loop, is_raw; /* is_raw: the loop references no timer, but while it is unregistered */
    int n_refs;            /* of frame and loop */
    v3_timer_handler **timer;
    uint64_t period_ms;
    struct v3_view_rect asked; /* by the last resize_view */
    struct vst3_session *s;
    struct v3_plugin_view **view;
    struct gui_frame f;
};

#define SHOWN(self, part) ((struct shown *)(void *)((char *)(self)-offsetof(struct shown, part)))

static v3_result V3_API frame_query(void *self, const v3_tuid iid, void **to)
{
    struct shown *h = SHOWN(self, frame);
    *to = NULL;
    if (!h->has_loop || !v3_tuid_match(iid, v3_run_loop_iid)) return V3_NO_INTERFACE;
    h->n_refs++;
    *to = &h->loop;
    return V3_OK;
}

static uint32_t V3_API loop_unref(void *self)
{
    return (uint32_t)--SHOWN(self, loop)->n_refs;
}

static v3_result V3_API resize_view(void *self, struct v3_plugin_view **view, struct v3_view_rect *size)
{
    struct shown *h = SHOWN(self, frame);
    check(view == h->view, "another view is resized");
    h->asked = *size;
    XResizeWindow(h->f.display, h->f.window, (unsigned)(size->right - size->left),
                  (unsigned)(size->bottom - size->top));
    return (*view)->on_size(view, size);
}

static v3_result V3_API register_timer(void *self, v3_timer_handler **timer, uint64_t ms)
{
    struct shown *h = SHOWN(self, loop);
    void *same;
    check(!h->timer && (*timer)->query_interface(timer, v3_timer_handler_iid, &same) == V3_OK && same == timer,
          "a second timer, or none");
    h->timer = timer; /* with the reference of the query */
    if (h->is_raw) (*timer)->unref(timer);
    h->period_ms = ms;
    return V3_OK;
}

static v3_result V3_API unregister_timer(void *self, v3_timer_handler **timer)
{
    struct shown *h = SHOWN(self, loop);
    check(timer == h->timer, "another timer ends");
    h->timer = NULL;
    if (h->is_raw) (*timer)->ref(timer);
    (*timer)->unref(timer);
    return V3_OK;
}

static const struct v3_plugin_frame frame_calls = {.query_interface = frame_query, .resize_view = resize_view};
static const struct v3_run_loop loop_calls = {
    .unref = loop_unref, .register_timer = register_timer, .unregister_timer = unregister_timer};

static struct v3_plugin_view **make_view(struct vst3_session *s)
{
    struct v3_plugin_view **view = (*s->controller)->create_view(s->controller, "editor");
    check(view, "no view");
    return view;
}

static struct v3_plugin_frame **frame_of(struct shown *h)
{
    return (struct v3_plugin_frame **)&h->frame;
}

static v3_result attach(struct shown *h)
{
    return (*h->view)->attached(h->view, (void *)(uintptr_t)h->f.window, V3_VIEW_PLATFORM_TYPE_X11);
}

static v3_result set_scale(struct shown *h, float factor)
{
    struct v3_plugin_view_content_scale **scale;
    check((*h->view)->query_interface(h->view, v3_plugin_view_content_scale_iid, (void **)&scale) == V3_OK, "no scale");
    v3_result result = (*scale)->set_content_scale_factor(scale, factor);
    (*scale)->unref(scale);
    return result;
}

/* An instance, and a view of it in a frame that is not attached. */
static struct shown *make_shown(const char *variant, float scale)
{
    struct shown *h = must_alloc(1, sizeof *h);
    struct v3_view_rect size = {0};
    h->frame = &frame_calls;
    h->loop = &loop_calls;
    h->has_loop = true;
    h->s = vst3_open(variant);
    h->view = make_view(h->s);
    check(set_scale(h, scale) == V3_OK && (*h->view)->get_size(h->view, &size) == V3_OK, "no size");
    check(size.left == 0 && size.top == 0 && size.right > 300 && size.bottom > 200, "%d x %d pixels", size.right,
          size.bottom);
    gui_frame_open(&h->f, size.right, size.bottom);
    gui_frame_lay_out(&h->f, h->s->variant, size.right, size.bottom);
    check((*h->view)->set_frame(h->view, frame_of(h)) == V3_OK, "set_frame");
    return h;
}

static struct shown *open_gui(const char *variant)
{
    struct shown *h = make_shown(variant, 1);
    check(attach(h) == V3_OK && h->timer && h->period_ms >= 16 && h->period_ms <= 50, "attached");
    return h;
}

static void end_view(struct shown *h)
{
    check((*h->view)->removed(h->view) == V3_OK && !h->timer, "removed");
    check((*h->view)->set_frame(h->view, NULL) == V3_OK, "set_frame");
    check((*h->view)->unref(h->view) == 0 && h->n_refs == 0, "%d references to the frame are left", h->n_refs);
    h->view = NULL;
}

static void close_gui(struct shown *h)
{
    if (h->view) end_view(h);
    vst3_close(h->s);
    gui_frame_close(&h->f);
    free(h);
}

static void play(struct shown *h)
{
    static float x[MAX_CHANNELS][BLOCK], y[MAX_CHANNELS][BLOCK];
    void *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    for (int ch = 0; ch < MAX_CHANNELS; ch++) in[ch] = x[ch], out[ch] = y[ch];
    check(vst3_play(h->s, in, out, BLOCK) == V3_OK, "a block is refused");
}

static void tick(struct shown *h)
{
    if (h->timer) (*h->timer)->on_timer(h->timer);
}

/* Runs the host's timer, and `step`, until the condition holds. */
#define until(h, step, condition, ...) gui_until(&(h)->f, (tick(h), step), condition, __VA_ARGS__)

static void settle(struct shown *h)
{
    const double end = now_s() + 0.1;
    until(h, (void)0, now_s() > end, "time stands still");
}

static void check_edit(const struct shown *h, int i, char kind, int control, double value)
{
    const struct vst3_edit *e = &h->s->handler.edits[i];
    struct v3_edit_controller **c = h->s->controller;
    check(i < h->s->handler.n_edits && e->kind == kind && e->id == control_id(control), "edit %d of %d: %c of %x", i,
          h->s->handler.n_edits, e->kind, e->id);
    double plain = (*c)->normalised_parameter_to_plain(c, e->id, e->value);
    check(kind != '=' || fabs(plain - value) < 1e-5, "edit %d: %g, want %g", i, plain, value);
}

static void check_state(struct shown *h, const char *line)
{
    char text[STATE_BYTES];
    check(vst3_save(h->s, text, 4096) && strstr(text, line), "the state lacks %s:\n%s", line, text);
}

/* ---- tests -------------------------------------------------------------------------------------- */

static void a_drag_of_a_knob_is_an_edit_of_the_host(const char *backend)
{
    struct shown *h = open_gui("stereo");
    const struct rect knob = gui_part(&h->f, GAIN);
    h->s->setup.process_mode = V3_REALTIME;
    vst3_activate(h->s, BLOCK);
    gui_point(&h->f, knob, 0, 0);
    gui_press(&h->f, 1, true);
    until(h, play(h), h->s->handler.n_edits == 1, "a press does not begin an edit");
    check_edit(h, 0, '(', GAIN, 0);
    gui_point(&h->f, knob, 0, -20);
    until(h, play(h), h->s->handler.n_edits == 2, "a drag sends no value");
    const double dragged = vst3_get(h->s, GAIN);
    check(dragged > 0.1, "a drag upwards sets %g dB", dragged);
    check_edit(h, 1, '=', GAIN, dragged);
    gui_press(&h->f, 1, false);
    until(h, play(h), h->s->handler.n_edits == 3, "a release does not end the edit");
    check_edit(h, 2, ')', GAIN, 0);
    char text[STATE_BYTES]; /* has it, though the host has sent no queue */
    check(vst3_save(h->s, text, 4096) && fabs(atof(strstr(text, "\ngain ") + 6) - dragged) < 1e-4, "%s", text);
    vst3_point(h->s, GAIN, 3, 0); /* automation, which the host also shows */
    play(h);
    (*h->s->controller)->set_parameter_normalised(h->s->controller, control_id(GAIN), 1);
    gui_click(&h->f, knob, 5, 1);
    until(h, play(h), h->s->handler.n_edits == 6, "a notch sends %d edits", h->s->handler.n_edits - 3);
    check_edit(h, 4, '=', GAIN, 23.5);
    close_gui(h);
}

static void a_switch_is_the_bypass_and_needs_no_handler(const char *backend)
{
    struct shown *h = open_gui("stereo");
    gui_click(&h->f, gui_part(&h->f, ENABLED), 1, 1);
    until(h, (void)0, h->s->handler.n_edits == 3, "a click sends %d edits", h->s->handler.n_edits);
    check_edit(h, 1, '=', ENABLED, 1);
    check_state(h, "\nenabled 0\n");
    (*h->s->controller)->set_component_handler(h->s->controller, NULL);
    gui_click(&h->f, gui_part(&h->f, WET), 5, 1);
    until(h, (void)0, vst3_get(h->s, WET) < -0.4, "a notch sets %g dB", vst3_get(h->s, WET));
    check_state(h, "\nwet -0.5\n");
    check(h->s->handler.n_edits == 3, "a handler that is gone is called");
    close_gui(h);
}

static void check_preset(struct shown *h, const char *want)
{
    struct v3_edit_controller **c = h->s->controller;
    v3_str_128 text;
    (*c)->get_parameter_string_for_value(c, VST3_PRESET, (*c)->get_parameter_normalised(c, VST3_PRESET), text);
    for (size_t i = 0; i <= strlen(want); i++) check(text[i] == want[i], "the host does not show preset %s", want);
}

static void a_preset_of_the_window_loads_and_makes_the_state_dirty(const char *backend)
{
    for (int way = 0; way < 3; way++) { /* inactive, active, active and closed before the mask is loaded */
        struct shown *h = open_gui("stereo");
        struct v3_edit_controller **c = h->s->controller;
        if (way) vst3_activate(h->s, BLOCK);
        (*c)->set_parameter_normalised(c, VST3_PRESET, 1); /* another preset, which the host has chosen */
        const int n_restarts = h->s->handler.n_restarts;
        settle(h); /* the list is there */
        gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
        until(h, (void)0, h->s->handler.n_edits == 9, "a preset sends %d edits", h->s->handler.n_edits);
        check_edit(h, 1, '=', DRY, 0);
        check_edit(h, 4, '=', WET, -12);
        if (way == 2) end_view(h);
        for (double end = now_s() + 10; way == 1 && h->s->handler.n_dirty == 0 && now_s() < end; pause_us(2000))
            play(h), tick(h);
        if (way == 0) tick(h);
        if (way == 2) play(h);
        check(h->s->handler.n_dirty == 1 && h->s->handler.n_restarts == n_restarts + 1,
              "way %d: the host is notified %d times of a new state, %d times of new values", way,
              h->s->handler.n_dirty, h->s->handler.n_restarts - n_restarts);
        check(strstr(h->s->handler.state, "shipped plate.wav\n"), "way %d: a new state before the mask", way);
        check_state(h, "shipped plate.wav\n");
        check_state(h, "\nwet -12\n");
        check_preset(h, "Plate");
        close_gui(h);
    }
}

static void a_host_may_leave_inside_a_call(const char *backend)
{
    struct shown *h = open_gui("stereo");
    h->s->handler.leaves = true;
    settle(h); /* the list is there */
    gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
    until(h, (void)0, h->s->handler.n_dirty == 1, "a preset sends %d edits", h->s->handler.n_edits);
    check(h->s->handler.n_refs == 0, "%d references to the host are left", h->s->handler.n_refs);
    close_gui(h);
}

static void the_buttons_choose_the_side_that_is_loaded(const char *backend)
{
    struct shown *h = open_gui("stereo");
    vst3_activate(h->s, BLOCK);
    settle(h); /* the list is there */
    gui_click(&h->f, h->f.layout.part[PART_SIDE_B], 1, 1);
    until(h, play(h), h->s->handler.n_edits == 3, "a click on B sends %d edits", h->s->handler.n_edits);
    check_edit(h, 1, '=', A_B, SIDE_B);
    check(h->s->handler.n_restarts == 1, "the host is not notified of the preset of side B");
    gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
    until(h, (void)0, h->s->handler.n_edits == 12, "a preset sends %d edits", h->s->handler.n_edits - 3);
    for (double end = now_s() + 10; h->s->handler.n_dirty == 0 && now_s() < end; pause_us(2000)) play(h), tick(h);
    check_state(h, "\nshipped hall.wav\nshipped_b plate.wav\n");
    check_state(h, "\nab 1\n");
    check_preset(h, "Plate");
    close_gui(h);
}

static void the_mask_before_a_preset_of_the_host_is_chosen_again(const char *backend)
{
    struct shown *h = open_gui("stereo");
    (*h->s->controller)->set_parameter_normalised(h->s->controller, VST3_PRESET, 1);
    check_preset(h, "Through");
    settle(h); /* the list is there */
    gui_click(&h->f, gui_row(&h->f, 0), 1, 2);
    until(h, (void)0, h->s->handler.n_edits == 9, "a preset sends %d edits", h->s->handler.n_edits);
    check_preset(h, "Hall");
    close_gui(h);
}

static atomic_bool must_end;

static void *play_on(void *data)
{
    for (; !atomic_load(&must_end); pause_us(300)) play(data);
    return NULL;
}

static void presets_and_values_are_set_while_blocks_play(const char *backend)
{
    struct shown *h = open_gui("stereo");
    pthread_t audio;
    h->s->setup.process_mode = V3_REALTIME;
    vst3_activate(h->s, BLOCK);
    atomic_store(&must_end, false);
    check(pthread_create(&audio, NULL, play_on, h) == 0, "no thread");
    settle(h); /* the list is there */
    for (int i = 0; i < 4; i++) {
        gui_click(&h->f, gui_row(&h->f, i % 2 ? 0 : 3), 1, 2);
        until(h, (void)0, h->s->handler.n_dirty == i + 1, "mask %d is not loaded", i);
        gui_click(&h->f, gui_part(&h->f, GAIN), 5, 1);
        until(h, (void)0, h->s->handler.n_edits == 12 * (i + 1), "%d edits", h->s->handler.n_edits);
    }
    atomic_store(&must_end, true);
    pthread_join(audio, NULL);
    check_state(h, "shipped hall.wav\n");
    check_state(h, "\ngain -2\n");
    close_gui(h);
}

static void opened_and_closed_100_times_it_leaves_nothing(const char *backend)
{
    int files = 0, threads = 0;
    for (int i = 0; i < 101; i++) {
        struct shown *h = open_gui(variants[i % N_VARIANTS].symbol);
        XWindowAttributes is;
        check(gui_children(&h->f, &is) == 1, "the frame is empty");
        if (i % 4 == 0) settle(h);
        if (i % 4 == 1) { /* the frame goes first */
            XDestroyWindow(h->f.display, h->f.window);
            until(h, (void)0, !h->timer, "the end of the frame is not noticed");
        }
        if (i % 4 == 2) { /* the host forgets `removed`, and its frame goes before the view */
            check((*h->view)->set_frame(h->view, NULL) == V3_OK && !h->timer && h->n_refs == 0, "a timer is left");
            check((*h->view)->unref(h->view) == 0, "references are left");
            h->view = NULL;
        }
        if (i % 4 == 3) { /* closed, and opened in another frame */
            check((*h->view)->removed(h->view) == V3_OK && !h->timer && h->n_refs == 0, "removed");
            XDestroyWindow(h->f.display, h->f.window);
            h->f.window = host_window(h->f.display, 900, 600);
            check(attach(h) == V3_OK && gui_children(&h->f, &is) == 1, "it does not open again");
        }
        close_gui(h);
        if (i == 0) files = count_own("fd"), threads = count_own("task");
    }
    check(count_own("fd") == files && count_own("task") == threads, "files or threads are left");
}

static void the_last_reference_closes_the_view(const char *backend)
{
    struct shown *h = make_shown("stereo", 1);
    h->is_raw = true;
    check(attach(h) == V3_OK && (*h->view)->unref(h->view) == 0, "references are left");
    check(!h->timer && h->n_refs == 0, "a timer is left");
    h->view = NULL;
    close_gui(h);
}

static void the_view_may_outlive_the_references_to_its_plugin(const char *backend)
{
    struct shown *h = open_gui("mono");
    struct vst3_session *s = h->s;
    check((*s->component)->terminate(s->component) == V3_OK, "terminate");
    (*s->controller)->unref(s->controller), (*s->processor)->unref(s->processor);
    check((*s->component)->unref(s->component) == 1, "the view has no reference");
    gui_click(&h->f, gui_part(&h->f, WET), 5, 1);
    settle(h);
    check(s->handler.n_edits == 0 && s->handler.n_refs == 0, "a handler that is gone is called");
    end_view(h);
    gui_frame_close(&h->f);
    free(s);
    free(h);
}

static void sizes_are_those_of_the_window(const char *backend)
{
    struct shown *h = open_gui("binaural");
    struct v3_view_rect size = {5, 5, 15, 15}, none = {.right = 500};
    check((*h->view)->can_resize(h->view) == V3_TRUE && (*h->view)->check_size_constraint(h->view, &size) == V3_TRUE,
          "no size");
    check(size.left == 5 && size.top == 5 && size.right > 305 && size.bottom > 205, "the min. size is %d to %d",
          size.right, size.bottom);
    struct v3_view_rect same = size;
    check((*h->view)->check_size_constraint(h->view, &same) == V3_TRUE && same.right == size.right, "the min. size");
    size.right += 7;
    check((*h->view)->on_size(h->view, &size) == V3_OK, "on_size");
    check((*h->view)->on_size(h->view, &none) != V3_OK && (*h->view)->on_size(h->view, NULL) != V3_OK,
          "a window without a height");
    XWindowAttributes is;
    settle(h);
    check(gui_children(&h->f, &is) == 1 && is.width == size.right - 5 && is.height == size.bottom - 5, "%d x %d",
          is.width, is.height);
    check((*h->view)->get_size(h->view, &same) == V3_OK && same.right == is.width && same.bottom == is.height,
          "get_size: %d x %d", same.right, same.bottom);
    close_gui(h);
}

static void a_scale_changes_the_size(const char *backend)
{
    struct v3_view_rect one, two;
    XWindowAttributes is;
    struct shown *h = make_shown("stereo", 2);
    (*h->view)->get_size(h->view, &two);
    check(set_scale(h, 1) == V3_OK && (*h->view)->get_size(h->view, &one) == V3_OK, "a scale");
    check(two.right == 2 * one.right && two.bottom == 2 * one.bottom, "at 200 %%: %d x %d, at 100 %%: %d x %d",
          two.right, two.bottom, one.right, one.bottom);
    check(attach(h) == V3_OK && h->asked.right == 0, "attached");
    check(set_scale(h, 2) == V3_OK && h->asked.right == two.right && h->asked.bottom == two.bottom,
          "the frame is asked for %d x %d", h->asked.right, h->asked.bottom);
    settle(h);
    check(gui_children(&h->f, &is) == 1 && is.width == two.right && is.height == two.bottom, "%d x %d", is.width,
          is.height);
    check(set_scale(h, NAN) != V3_OK && set_scale(h, 0) != V3_OK && set_scale(h, -1) != V3_OK, "no scale");
    gui_frame_lay_out(&h->f, h->s->variant, one.right, one.bottom);
    const struct rect r = gui_part(&h->f, GAIN);
    gui_click(&h->f, (struct rect){2 * r.x, 2 * r.y, 2 * r.w, 2 * r.h}, 4, 1);
    until(h, (void)0, vst3_get(h->s, GAIN) > 0.4, "the knobs are elsewhere");
    close_gui(h);
}

static void two_views_show_the_same_values(const char *backend)
{
    struct shown *h = open_gui("stereo"), *other = make_shown("mono", 1);
    (*other->view)->unref(other->view);
    other->view = make_view(h->s); /* as hosts do that only ask whether there is one */
    check((*other->view)->set_frame(other->view, frame_of(other)) == V3_OK && attach(other) == V3_OK, "a second view");
    gui_click(&h->f, gui_part(&h->f, WET), 5, 2);
    until(h, tick(other), vst3_get(h->s, WET) < -0.9, "two notches set %g dB", vst3_get(h->s, WET));
    end_view(other);
    XUnmapWindow(other->f.display, other->f.window);
    XSync(other->f.display, False);
    gui_click(&h->f, gui_part(&h->f, WET), 4, 2);
    until(h, (void)0, vst3_get(h->s, WET) > -0.1, "two notches set %g dB", vst3_get(h->s, WET));
    close_gui(other);
    close_gui(h);
}

static char log_file[] = "/tmp/haloconv-log-XXXXXX"; /* $HALOCONV_LOG */

static void check_logged(const char *text)
{
    char all[4096];
    FILE *file = fopen(log_file, "r");
    check(file, "no log");
    all[fread(all, 1, sizeof all - 1, file)] = '\0';
    fclose(file);
    check(strstr(all, text), "the log lacks \"%s\": %s", text, all);
}

static void without_a_timer_or_a_display_there_is_a_plugin_without_window(const char *backend)
{
    struct shown *h = make_shown("stereo", 1);
    h->has_loop = false;
    check(attach(h) == V3_FALSE && !h->timer, "a window without a timer");
    check_logged("needs a timer");
    check((*h->view)->set_frame(h->view, NULL) == V3_OK && attach(h) == V3_FALSE, "a window without a frame");
    h->has_loop = true;
    (*h->view)->set_frame(h->view, frame_of(h));
    char *display = strdup(getenv("DISPLAY"));
    unsetenv("DISPLAY");
    check(attach(h) == V3_FALSE && !h->timer && h->n_refs == 0, "a window without a display");
    check_logged("no X11 display");
    setenv("DISPLAY", display, 1);
    free(display);
    vst3_activate(h->s, BLOCK);
    play(h);
    check(attach(h) == V3_OK, "a display that is there later");
    close_gui(h);
}

static void calls_out_of_order_are_refused(const char *backend)
{
    struct shown *h = make_shown("stereo", 1);
    struct v3_plugin_view **view = h->view;
    void *parent = (void *)(uintptr_t)h->f.window, *to = h;
    check(!(*h->s->controller)->create_view(h->s->controller, "other") &&
              !(*h->s->controller)->create_view(h->s->controller, NULL),
          "a view of another kind");
    check((*view)->is_platform_type_supported(view, V3_VIEW_PLATFORM_TYPE_X11) == V3_TRUE &&
              (*view)->is_platform_type_supported(view, V3_VIEW_PLATFORM_TYPE_HWND) == V3_FALSE &&
              (*view)->is_platform_type_supported(view, NULL) == V3_FALSE,
          "platforms");
    check((*view)->attached(view, NULL, V3_VIEW_PLATFORM_TYPE_X11) != V3_OK &&
              (*view)->attached(view, parent, "NSView") != V3_OK && (*view)->attached(view, parent, NULL) != V3_OK,
          "attached to nothing");
    check((*view)->query_interface(view, v3_bstream_iid, &to) == V3_NO_INTERFACE && !to &&
              (*view)->query_interface(view, NULL, &to) != V3_OK,
          "an unknown interface");
    check((*view)->removed(view) == V3_OK && (*view)->get_size(view, NULL) != V3_OK &&
              (*view)->check_size_constraint(view, NULL) != V3_OK,
          "before it is attached");
    check(attach(h) == V3_OK && attach(h) != V3_OK, "attached twice");
    check((*view)->set_frame(view, NULL) == V3_OK && !h->timer, "a frame that is gone has a timer");
    check((*view)->set_frame(view, frame_of(h)) == V3_OK && h->timer, "a new frame has no timer");
    check((*view)->on_key_down(view, 'a', 0, 0) == V3_FALSE && (*view)->on_wheel(view, 1) == V3_FALSE &&
              (*view)->on_focus(view, true) == V3_OK,
          "keys");
    close_gui(h);
}

static void prepare(void)
{
    gui_ignore_errors();
    const int file = mkstemp(log_file);
    check(file >= 0 && close(file) == 0, "mkstemp");
    setenv("HALOCONV_LOG", log_file, 1);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_drag_of_a_knob_is_an_edit_of_the_host, 0),
        TEST(a_switch_is_the_bypass_and_needs_no_handler, 0),
        TEST(a_preset_of_the_window_loads_and_makes_the_state_dirty, 0),
        TEST(a_host_may_leave_inside_a_call, 0),
        TEST(the_buttons_choose_the_side_that_is_loaded, 0),
        TEST(the_mask_before_a_preset_of_the_host_is_chosen_again, 0),
        TEST(presets_and_values_are_set_while_blocks_play, 0),
        TEST(opened_and_closed_100_times_it_leaves_nothing, 0),
        TEST(the_last_reference_closes_the_view, 0),
        TEST(the_view_may_outlive_the_references_to_its_plugin, 0),
        TEST(sizes_are_those_of_the_window, 0),
        TEST(a_scale_changes_the_size, 0),
        TEST(two_views_show_the_same_values, 0),
        TEST(without_a_timer_or_a_display_there_is_a_plugin_without_window, 0),
        TEST(calls_out_of_order_are_refused, 0),
    };
    const int result = server_check_main("vst3_gui", tests, sizeof tests / sizeof *tests, prepare);
    remove(log_file);
    return result;
}
