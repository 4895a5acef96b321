/* The window of the CLAP plugin in a host's frame, on an X server without a screen (Xvfb). */
#include "clap_host.h"
#include "gui_frame.h"

#include <clap/ext/gui.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 48000, BLOCK = 64 };

struct shown {
    struct clap_session *s;
    const clap_plugin_gui_t *gui;
    struct gui_frame f;
};

/* has_fds: the host has posix-fd-support and no timer-support. */
static struct shown *open_gui_in(const char *variant, bool has_fds)
{
    struct shown *h = must_alloc(1, sizeof *h);
    uint32_t width = 0, height = 0;
    h->s = clap_open(variant, true);
    h->s->has_fds = h->s->lacks_timer = has_fds;
    h->gui = h->s->plugin->get_extension(h->s->plugin, CLAP_EXT_GUI);
    check(h->gui && h->gui->create(h->s->plugin, CLAP_WINDOW_API_X11, false), "no window: %s", clap_log(h->s));
    check(h->gui->set_scale(h->s->plugin, 1) && h->gui->get_size(h->s->plugin, &width, &height), "no size");
    gui_frame_open(&h->f, (int)width, (int)height);
    check(h->gui->set_parent(h->s->plugin, &(clap_window_t){CLAP_WINDOW_API_X11, {.x11 = h->f.window}}),
          "set_parent: %s", clap_log(h->s));
    check(h->gui->show(h->s->plugin), "show");
    gui_frame_lay_out(&h->f, h->s->variant, (int)width, (int)height);
    return h;
}

static struct shown *open_gui(const char *variant)
{
    return open_gui_in(variant, false);
}

static void close_gui(struct shown *h)
{
    clap_close(h->s);
    gui_frame_close(&h->f);
    free(h);
}

static void play(struct shown *h)
{
    static float x[MAX_CHANNELS][BLOCK], y[MAX_CHANNELS][BLOCK];
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    for (int ch = 0; ch < MAX_CHANNELS; ch++) in[ch] = x[ch], out[ch] = y[ch];
    clap_play(h->s, in, out, BLOCK);
}

/* Runs the host's timer, and `step`, until the condition holds. */
#define until(h, step, condition, ...) gui_until(&(h)->f, (clap_tick((h)->s), step), condition, __VA_ARGS__)

static void settle(struct shown *h)
{
    const double end = now_s() + 0.1;
    until(h, (void)0, now_s() > end, "time stands still");
}

static double value_of(struct shown *h, int control)
{
    double value = NAN;
    check(h->s->params->get_value(h->s->plugin, control_id(control), &value), "%s has no value",
          controls[control].name);
    return value;
}

static void check_sent(const struct shown *h, int i, uint16_t type, int control, double value)
{
    const struct clap_sent *e = &h->s->sent[i];
    check(i < h->s->n_sent && e->type == type && e->id == control_id(control) && fabs(e->value - value) < 1e-6,
          "event %d of %d: type %d, id %x, value %g; want %d, %x, %g", i, h->s->n_sent, e->type, e->id, e->value, type,
          control_id(control), value);
}

static void a_drag_of_a_knob_is_a_gesture_for_the_host(const char *backend)
{
    struct shown *h = open_gui("stereo");
    clap_activate(h->s, RATE, BLOCK);
    clap_caught(h->s); /* from now on blocks are trapped */
    const struct rect knob = gui_part(&h->f, GAIN);
    gui_point(&h->f, knob, 0, 0);
    gui_press(&h->f, 1, true);
    until(h, play(h), h->s->n_sent == 1, "a press does not begin a gesture");
    check_sent(h, 0, CLAP_EVENT_PARAM_GESTURE_BEGIN, GAIN, 0);
    check(h->s->n_flush_requests > 0, "a sleeping plugin would not be called");
    gui_point(&h->f, knob, 0, -20);
    until(h, play(h), h->s->n_sent == 2, "a drag sends no value");
    check(value_of(h, GAIN) > 0.1, "a drag upwards sets %g dB", value_of(h, GAIN));
    check_sent(h, 1, CLAP_EVENT_PARAM_VALUE, GAIN, value_of(h, GAIN));
    const double dragged = value_of(h, GAIN);
    gui_press(&h->f, 1, false);
    gui_press(&h->f, 4, true), gui_press(&h->f, 4, false); /* before the host knows of the end */
    until(h, (void)0, value_of(h, GAIN) > dragged + 0.4, "a notch sets %g dB", value_of(h, GAIN));
    until(h, play(h), h->s->n_sent == 4, "a release and a notch send %d events", h->s->n_sent - 2);
    check_sent(h, 2, CLAP_EVENT_PARAM_VALUE, GAIN, value_of(h, GAIN));
    check_sent(h, 3, CLAP_EVENT_PARAM_GESTURE_END, GAIN, 0);
    const char *caught = clap_caught(h->s);
    check(!caught, "the audio thread calls %s", caught);
    close_gui(h);
}

static void an_inactive_plugin_sends_in_order_when_it_is_flushed(const char *backend)
{
    struct shown *h = open_gui("stereo");
    gui_click(&h->f, gui_part(&h->f, WET), 5, 3);
    until(h, (void)0, value_of(h, WET) < -1.4, "three notches set %g dB", value_of(h, WET));
    clap_flush(h->s);
    check(h->s->n_sent == 3, "three gestures before a flush are %d events", h->s->n_sent);
    check_sent(h, 0, CLAP_EVENT_PARAM_GESTURE_BEGIN, WET, 0);
    check_sent(h, 1, CLAP_EVENT_PARAM_VALUE, WET, value_of(h, WET));
    check_sent(h, 2, CLAP_EVENT_PARAM_GESTURE_END, WET, 0);
    gui_click(&h->f, gui_part(&h->f, ENABLED), 1, 1);
    until(h, (void)0, value_of(h, ENABLED) > 0.5, "a click on the switch does not bypass");
    clap_flush(h->s);
    check_sent(h, 4, CLAP_EVENT_PARAM_VALUE, ENABLED, 1);
    char state[32768];
    const double saved = value_of(h, WET);
    check(clap_save(h->s, state, 4096), "save");
    gui_click(&h->f, gui_part(&h->f, WET), 5, 1);
    until(h, (void)0, value_of(h, WET) < saved - 0.4, "a notch sets %g dB", value_of(h, WET));
    check(clap_load(h->s, state, strlen(state), 4096), "load");
    clap_flush(h->s);
    check(fabs(value_of(h, WET) - saved) < 1e-6, "the state's %g dB became %g", saved, value_of(h, WET));
    close_gui(h);
}

static void destroyed_during_a_drag_it_asks_for_no_flush(const char *backend)
{
    struct shown *h = open_gui("stereo");
    gui_point(&h->f, gui_part(&h->f, GAIN), 0, 0);
    gui_press(&h->f, 1, true);
    until(h, clap_flush(h->s), h->s->n_sent == 1, "a press does not begin a gesture");
    gui_press(&h->f, 1, false);
    XSync(h->f.display, False); /* the plugin does not see it */
    close_gui(h);
}

static void a_full_list_of_events_gets_the_rest_later(const char *backend)
{
    struct shown *h = open_gui("stereo");
    const struct rect knob = gui_part(&h->f, GAIN);
    gui_point(&h->f, knob, 0, 0);
    gui_press(&h->f, 1, true);
    until(h, clap_flush(h->s), h->s->n_sent == 1, "a press does not begin a gesture");
    gui_point(&h->f, knob, 0, -20);
    gui_press(&h->f, 1, false);
    settle(h);
    h->s->n_refused = 1;
    clap_flush(h->s);
    check(h->s->n_refused == 0 && h->s->n_sent == 1, "a full list got %d events", h->s->n_sent);
    gui_press(&h->f, 4, true), gui_press(&h->f, 4, false); /* the next gesture, before the host knows of the end */
    settle(h);
    clap_flush(h->s);
    check(h->s->n_sent == 3, "the list gets %d events later", h->s->n_sent - 1);
    check_sent(h, 1, CLAP_EVENT_PARAM_VALUE, GAIN, value_of(h, GAIN));
    check_sent(h, 2, CLAP_EVENT_PARAM_GESTURE_END, GAIN, 0);
    gui_press(&h->f, 4, true), gui_press(&h->f, 4, false);
    settle(h);
    const double set = value_of(h, GAIN);
    h->s->n_refused = 1;
    clap_set(h->s, GAIN, -20, 0); /* the host's automation, before the host knows of the notch */
    clap_flush(h->s);
    clap_flush(h->s);
    check_sent(h, 4, CLAP_EVENT_PARAM_VALUE, GAIN, set);
    check(fabs(value_of(h, GAIN) - set) < 1e-6, "the user's %g dB became %g", set, value_of(h, GAIN));
    close_gui(h);
}

static void a_preset_of_the_window_loads_and_makes_the_state_dirty(const char *backend)
{
    char text[32768];
    for (int is_active = 0; is_active < 2; is_active++) {
        struct shown *h = open_gui("stereo");
        if (is_active) clap_activate(h->s, RATE, BLOCK);
        settle(h); /* the list is there */
        gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
        until(h, is_active ? play(h) : clap_idle(h->s), h->s->n_dirty > 0, "the host does not hear of a new state");
        check(clap_save(h->s, text, 4096) && strstr(text, "shipped plate.wav\n") && strstr(text, "\nwet -12\n"),
              "active %d: the state is\n%s", is_active, text);
        if (!is_active) {
            clap_flush(h->s);
            clap_activate(h->s, RATE, BLOCK);
            settle(h);
            check(h->s->n_dirty == 1, "the state is dirty %d times", h->s->n_dirty);
        }
        check(h->s->n_sent == 9, "a preset of three controls sends %d events", h->s->n_sent);
        check_sent(h, 1, CLAP_EVENT_PARAM_VALUE, DRY, 0);
        check_sent(h, 4, CLAP_EVENT_PARAM_VALUE, WET, -12);
        close_gui(h);
    }
}

static void only_a_mask_that_is_loaded_makes_the_state_dirty(const char *backend)
{
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("XDG_CACHE_HOME"), unsetenv("HOME"); /* where it would unpack the masks that ship */
    check(clap_library()->init("/nonexistent/haloconv.clap"), "init");
    struct shown *h = open_gui("stereo");
    check(clap_library()->init(clap_file()), "init");
    setenv("HOME", home, 1);
    free(home);
    clap_activate(h->s, RATE, BLOCK);
    settle(h); /* the list is there */
    gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
    bool has_failed = false;
    until(h, (play(h), has_failed |= strstr(clap_log(h->s), "error: /nonexistent/plate.wav") != NULL), has_failed,
          "the log has no error");
    settle(h);
    play(h);
    check(h->s->n_dirty == 0, "a load that failed makes the state dirty");
    close_gui(h);
}

static void the_buttons_choose_the_side_that_is_loaded(const char *backend)
{
    char text[32768];
    struct shown *h = open_gui("stereo");
    clap_activate(h->s, RATE, BLOCK);
    settle(h);
    gui_click(&h->f, h->f.layout.part[PART_SIDE_B], 1, 1);
    until(h, play(h), h->s->n_sent == 3, "a click on B sends %d events", h->s->n_sent);
    check_sent(h, 0, CLAP_EVENT_PARAM_GESTURE_BEGIN, A_B, 0);
    check_sent(h, 1, CLAP_EVENT_PARAM_VALUE, A_B, SIDE_B);
    check_sent(h, 2, CLAP_EVENT_PARAM_GESTURE_END, A_B, 0);
    gui_click(&h->f, gui_row(&h->f, 3), 1, 2);
    until(h, play(h), h->s->n_dirty > 0, "the host does not hear of a new state");
    check(clap_save(h->s, text, 4096) && strstr(text, "\nshipped hall.wav\nshipped_b plate.wav\n") &&
              strstr(text, "\nab 1\n"),
          "the state is\n%s", text);
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
    char text[32768];
    struct shown *h = open_gui("stereo");
    pthread_t audio;
    clap_activate(h->s, RATE, BLOCK);
    atomic_store(&must_end, false);
    check(pthread_create(&audio, NULL, play_on, h) == 0, "no thread");
    settle(h); /* the list is there */
    for (int i = 0; i < 4; i++) {
        gui_click(&h->f, gui_row(&h->f, i % 2 ? 0 : 3), 1, 2);
        until(h, clap_idle(h->s), h->s->n_dirty == i + 1, "mask %d is not loaded", i);
        gui_click(&h->f, gui_part(&h->f, GAIN), 5, 1);
        until(h, clap_idle(h->s), h->s->n_sent == 12 * (i + 1), "%d events", h->s->n_sent);
    }
    atomic_store(&must_end, true);
    pthread_join(audio, NULL);
    check(clap_save(h->s, text, 4096) && strstr(text, "shipped hall.wav\n") && strstr(text, "\ngain -2\n"),
          "the state is\n%s", text);
    close_gui(h);
}

static void opened_and_closed_20_times_it_leaves_nothing(const char *backend)
{
    int files = 0, threads = 0;
    for (int i = 0; i < 21; i++) {
        struct shown *h = open_gui_in(variants[i % N_VARIANTS].symbol, i % 2);
        check(!h->gui->create(h->s->plugin, CLAP_WINDOW_API_X11, false), "a second window");
        if (i % 3 == 0) settle(h);
        if (i % 3 == 1) { /* the frame goes first */
            XDestroyWindow(h->f.display, h->f.window);
            until(h, (void)0, h->s->n_closed == 1, "the host does not hear of the end of the window");
            clap_tick(h->s);
        }
        if (i % 3 < 2) { /* else the plugin goes with its window */
            h->gui->destroy(h->s->plugin);
            check(!h->gui->show(h->s->plugin) && h->s->n_closed == (i % 3 == 1), "the window is still there");
            check(clap_n_fds(h->s) == 0 && (i % 3 == 0 || h->s->was_destroyed), "descriptors are left");
        }
        close_gui(h);
        if (i == 0) files = count_own("fd"), threads = count_own("task");
    }
    check(count_own("fd") == files && count_own("task") == threads, "files or threads are left");
}

static void sizes_are_those_of_the_window(const char *backend)
{
    struct shown *h = open_gui("binaural");
    uint32_t width = 10, height = 10;
    check(h->gui->can_resize(h->s->plugin) && h->gui->adjust_size(h->s->plugin, &width, &height), "no size");
    check(width > 300 && height > 200, "the least size is %u x %u", width, height);
    check(h->gui->set_size(h->s->plugin, width + 5, height), "set_size");
    check(!h->gui->set_size(h->s->plugin, 0, height), "a window without a width");
    uint32_t large[] = {1 << 20, 1 << 20};
    check(h->gui->adjust_size(h->s->plugin, &large[0], &large[1]) && large[0] == INT16_MAX && large[1] == INT16_MAX,
          "%u x %u is not adjusted", large[0], large[1]);
    XWindowAttributes is;
    settle(h);
    check(gui_children(&h->f, &is) == 1, "not one window in the frame");
    check(is.width == (int)width + 5 && is.height == (int)height, "%d x %d", is.width, is.height);
    check(h->gui->hide(h->s->plugin), "hide");
    until(h, gui_children(&h->f, &is), is.map_state == IsUnmapped, "a hidden window is visible");
    close_gui(h);
}

static void with_descriptors_it_needs_no_timer(const char *backend)
{
    struct shown *h = open_gui_in("stereo", true);
    check(clap_n_fds(h->s) == 2, "%d descriptors", clap_n_fds(h->s));
    gui_point(&h->f, gui_part(&h->f, WET), 0, 0);
    gui_press(&h->f, 5, true), gui_press(&h->f, 5, false);
    until(h, (void)0, value_of(h, WET) < -0.4, "a notch sets %g dB", value_of(h, WET));
    settle(h);
    const int before = h->s->n_on_fd;
    settle(h);
    check(h->s->n_on_fd > before, "the meters stand still");
    check(h->gui->hide(h->s->plugin), "hide");
    settle(h);
    const int hidden = h->s->n_on_fd;
    settle(h);
    check(h->s->n_on_fd == hidden, "hidden, it runs %d times", h->s->n_on_fd - hidden);
    check(h->gui->show(h->s->plugin), "show");
    settle(h);
    check(h->s->n_on_fd > hidden, "shown again, it does not run");
    close_gui(h);
}

/* Returns the window of the desktop with this name, 0: there is none. */
static Window window_named(Display *display, const char *name)
{
    Window root, parent, *all = NULL, found = 0;
    unsigned n = 0;
    XQueryTree(display, DefaultRootWindow(display), &root, &parent, &all, &n);
    for (unsigned i = 0; i < n; i++) {
        char *is = NULL;
        if (XFetchName(display, all[i], &is) && strcmp(is, name) == 0) found = all[i];
        if (is) XFree(is);
    }
    if (all) XFree(all);
    return found;
}

static void a_floating_window_has_a_title_and_an_owner_and_comes_again(const char *backend)
{
    struct shown *h = must_alloc(1, sizeof *h);
    Window owner = 0;
    h->f.display = XOpenDisplay(NULL);
    h->f.window = XCreateSimpleWindow(h->f.display, DefaultRootWindow(h->f.display), 0, 0, 9, 9, 0, 0, 0);
    XSync(h->f.display, False);
    const clap_window_t frame = {CLAP_WINDOW_API_X11, {.x11 = h->f.window}};
    h->s = clap_open("stereo", true);
    const clap_plugin_t *plugin = h->s->plugin;
    h->gui = plugin->get_extension(plugin, CLAP_EXT_GUI);
    check(h->gui->is_api_supported(plugin, CLAP_WINDOW_API_X11, true), "it does not float");
    check(h->gui->create(plugin, NULL, true) && !h->gui->set_parent(plugin, &frame), "create, or a parent");
    check(h->gui->set_transient(plugin, &frame), "set_transient");
    h->gui->suggest_title(plugin, "Track 1");
    for (int i = 0; i < 2; i++) {
        check(!window_named(h->f.display, "Track 1"), "the window is there before show");
        check(h->gui->show(plugin), "show: %s", clap_log(h->s));
        settle(h);
        const Window window = window_named(h->f.display, "Track 1");
        check(window && XGetTransientForHint(h->f.display, window, &owner) && owner == h->f.window, "owner %lx", owner);
        h->gui->suggest_title(plugin, "Track 2");
        settle(h);
        check(window_named(h->f.display, "Track 2") == window, "the title stays");
        const clap_window_t root = {CLAP_WINDOW_API_X11, {.x11 = DefaultRootWindow(h->f.display)}};
        check(h->gui->set_transient(plugin, &root), "set_transient of a window that is visible");
        settle(h);
        check(XGetTransientForHint(h->f.display, window, &owner) && owner == root.x11, "owner %lx", owner);
        check(h->gui->set_transient(plugin, &frame), "set_transient");
        h->gui->suggest_title(plugin, "Track 1");
        XWindowAttributes is;
        XGetWindowAttributes(h->f.display, window, &is);
        check(i == 0 || (is.width == 1001 && is.height == 701), "it comes again with %d x %d", is.width, is.height);
        XResizeWindow(h->f.display, window, 1001, 701); /* the user */
        settle(h);
        XEvent close = {.xclient = {.type = ClientMessage,
                                    .window = window,
                                    .message_type = XInternAtom(h->f.display, "WM_PROTOCOLS", False),
                                    .format = 32,
                                    .data.l = {(long)XInternAtom(h->f.display, "WM_DELETE_WINDOW", False)}}};
        XSendEvent(h->f.display, window, False, NoEventMask, &close);
        until(h, (void)0, h->s->n_closed == i + 1, "the host does not hear that the user closes the window");
        check(!h->s->was_destroyed, "the host would have to destroy it");
    }
    close_gui(h);
}

/* X reserves keycodes below 8; Xlib takes 0 for a composed text, and reads a table that it lacks without a compose file. */
static void keys_without_a_code_that_another_client_sends_are_ignored(const char *backend)
{
    struct shown *h = must_alloc(1, sizeof *h);
    setenv("XCOMPOSEFILE", "/dev/null", 1);
    h->f.display = XOpenDisplay(NULL);
    h->f.window = XCreateSimpleWindow(h->f.display, DefaultRootWindow(h->f.display), 0, 0, 9, 9, 0, 0, 0);
    XSync(h->f.display, False);
    h->s = clap_open("stereo", true);
    const clap_plugin_t *plugin = h->s->plugin;
    h->gui = plugin->get_extension(plugin, CLAP_EXT_GUI);
    check(h->gui->create(plugin, NULL, true), "create");
    h->gui->suggest_title(plugin, "Track 3");
    check(h->gui->show(plugin), "show: %s", clap_log(h->s));
    settle(h);
    const Window window = window_named(h->f.display, "Track 3");
    check(window != None, "no window");
    for (unsigned i = 0; i < 32; i++) {
        XEvent key = {.xkey = {.type = i % 2 ? KeyRelease : KeyPress,
                               .window = window,
                               .root = DefaultRootWindow(h->f.display),
                               .same_screen = True,
                               .keycode = i / 2 % 8}};
        XSendEvent(h->f.display, window, False, NoEventMask, &key);
    }
    XSync(h->f.display, False);
    settle(h);
    check(window_named(h->f.display, "Track 3") == window, "the window is gone");
    close_gui(h);
    unsetenv("XCOMPOSEFILE");
}

static void without_a_timer_or_a_display_there_is_a_plugin_without_window(const char *backend)
{
    struct clap_session *s = clap_open("stereo", false);
    const clap_plugin_gui_t *gui = s->plugin->get_extension(s->plugin, CLAP_EXT_GUI);
    check(!gui->create(s->plugin, CLAP_WINDOW_API_X11, false), "a window without a timer");
    check(!gui->is_api_supported(s->plugin, CLAP_WINDOW_API_WAYLAND, false), "Wayland");
    clap_close(s);
    char *display = strdup(getenv("DISPLAY"));
    unsetenv("DISPLAY");
    s = clap_open("stereo", true);
    check(gui->create(s->plugin, CLAP_WINDOW_API_X11, false), "create");
    check(!gui->set_parent(s->plugin, &(clap_window_t){CLAP_WINDOW_API_X11, {.x11 = 5}}), "a window without a display");
    const char *log = clap_log(s);
    check(strstr(log, "no X11 display"), "the log: %s", log);
    clap_tick(s);
    clap_activate(s, RATE, BLOCK);
    clap_close(s);
    setenv("DISPLAY", display, 1);
    free(display);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_drag_of_a_knob_is_a_gesture_for_the_host, 0),
        TEST(an_inactive_plugin_sends_in_order_when_it_is_flushed, 0),
        TEST(destroyed_during_a_drag_it_asks_for_no_flush, 0),
        TEST(a_full_list_of_events_gets_the_rest_later, 0),
        TEST(a_preset_of_the_window_loads_and_makes_the_state_dirty, 0),
        TEST(only_a_mask_that_is_loaded_makes_the_state_dirty, 0),
        TEST(the_buttons_choose_the_side_that_is_loaded, 0),
        TEST(presets_and_values_are_set_while_blocks_play, 0),
        TEST(opened_and_closed_20_times_it_leaves_nothing, 0),
        TEST(sizes_are_those_of_the_window, 0),
        TEST(with_descriptors_it_needs_no_timer, 0),
        TEST(a_floating_window_has_a_title_and_an_owner_and_comes_again, 0),
        TEST(keys_without_a_code_that_another_client_sends_are_ignored, 0),
        TEST(without_a_timer_or_a_display_there_is_a_plugin_without_window, 0),
    };
    return server_check_main("clap_gui", tests, sizeof tests / sizeof *tests, gui_ignore_errors);
}
