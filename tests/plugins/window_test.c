/* The plugins' window on an X server without a screen (Xvfb), in a host's window, with a model that the test makes. */
#include "check.h"
#include "haloconv.h"
#include "plugins/window/parts.h"
#include "x_server.h"

#include <X11/Xatom.h>
#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <X11/extensions/XTest.h>
#include <X11/keysym.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[256]; /* responses, and a file for each test that needs one */

/* ---- a model ----------------------------------------------------------------------------------------------------- */

enum { WET, DRY, GAIN, PREDELAY, ENABLED, BACKEND, N_CONTROLS };
enum { AZIMUTH = 1, ELEVATION, DISTANCE, N_SOURCE_CONTROLS };

static const char *const backends[] = {"Auto", "CPU", "GPU"};
static const struct window_control controls[N_CONTROLS] = {
    [WET] = {"Wet", "dB", WINDOW_KNOB, -90, 0, 12, 0.5, false, NULL},
    [DRY] = {"Dry", "dB", WINDOW_KNOB, -90, -90, 12, 0.5, false, NULL},
    [GAIN] = {"Output gain", "dB", WINDOW_KNOB, -90, 0, 24, 0.5, false, NULL},
    [PREDELAY] = {"Predelay", "ms", WINDOW_KNOB, 0, 0, 500, 1, false, NULL},
    [ENABLED] = {"Enabled", NULL, WINDOW_SWITCH, 0, 1, 1, 0, false, NULL},
    [BACKEND] = {"Backend", NULL, WINDOW_CHOICE, 0, 0, 2, 0, false, backends},
};
static const struct window_control source_controls[N_SOURCE_CONTROLS] = {
    {"Output gain", "dB", WINDOW_KNOB, -90, 0, 24, 0.5, false, NULL},
    [AZIMUTH] = {"Azimuth", "°", WINDOW_KNOB, -180, 0, 180, 1, false, NULL},
    [ELEVATION] = {"Elevation", "°", WINDOW_KNOB, -90, 0, 90, 1, false, NULL},
    [DISTANCE] = {"Distance", "m", WINDOW_KNOB, 0.1, 1, 20, 0, true, NULL},
};

struct fake {
    double value[WINDOW_MAX_CONTROLS];
    int gestures[WINDOW_MAX_CONTROLS]; /* begun and not ended */
    int n_ended;
    char loaded[WINDOW_PATH];
    int n_loaded, preset;
    struct window_state state;
};
static struct fake fake;

static double fake_get(void *data, int control)
{
    return fake.value[control];
}
static void fake_begin(void *data, int control)
{
    fake.gestures[control]++;
}
static void fake_set(void *data, int control, double value)
{
    check(fake.gestures[control] == 1, "control %d is set inside of %d gestures", control, fake.gestures[control]);
    fake.value[control] = value;
}
static void fake_end(void *data, int control)
{
    fake.gestures[control]--;
    fake.n_ended++;
}
static void fake_load(void *data, const char *path)
{
    (void)snprintf(fake.loaded, sizeof fake.loaded, "%s", path);
    (void)snprintf(fake.state.mask[fake.state.side], WINDOW_PATH, "%s", path);
    fake.n_loaded++;
}
static void fake_preset(void *data, int preset)
{
    fake.preset = preset;
}
static void fake_select(void *data, int side)
{
    fake.state.side = side;
}
static void fake_state(void *data, struct window_state *state)
{
    *state = fake.state;
}

static const char *folders[] = {folder};
static struct window_preset presets[] = {{"Large hall", NULL}, {"Small room", NULL}, {"Plate", NULL}};
static struct window_model model, source_model;

static void models_make(void)
{
    model = (struct window_model){.title = "haloconv Stereo",
                                  .n_controls = N_CONTROLS,
                                  .controls = controls,
                                  .n_folders = 1,
                                  .folders = folders,
                                  .get = fake_get,
                                  .begin = fake_begin,
                                  .set = fake_set,
                                  .end = fake_end,
                                  .load = fake_load,
                                  .preset = fake_preset,
                                  .select = fake_select,
                                  .state = fake_state};
    source_model = model;
    source_model.title = "haloconv Binaural";
    source_model.n_controls = N_SOURCE_CONTROLS, source_model.controls = source_controls;
    source_model.azimuth = AZIMUTH, source_model.distance = DISTANCE;
    source_model.has_banks = true, source_model.select = NULL;
}

/* ---- a host ------------------------------------------------------------------------------------------------------ */

struct host {
    Display *display;
    Window frame;
    struct window *w;
};

static struct host host_open(const struct window_model *of, double scale)
{
    struct host h = {XOpenDisplay(NULL), 0, NULL};
    char why[300] = "";
    int width, height;
    window_default_size(of, scale, &width, &height);
    h.frame = host_window(h.display, width, height);
    memset(&fake, 0, sizeof fake);
    for (int i = 0; i < of->n_controls; i++) fake.value[i] = of->controls[i].initial;
    fake.preset = -1;
    (void)snprintf(fake.state.backend, sizeof fake.state.backend, "CPU, 48 kHz, 64 frames");
    h.w = window_open(of, &(struct window_config){.parent = h.frame, .scale = scale}, why, sizeof why);
    check(h.w, "%s", why);
    return h;
}

static void host_close(struct host *h)
{
    window_close(h->w);
    XCloseDisplay(h->display);
    for (int i = 0; i < WINDOW_MAX_CONTROLS; i++)
        check(fake.gestures[i] == 0, "control %d: a gesture has not ended", i);
}

/* Runs the timer of the host until the condition holds, at most 10 s. */
#define until(h, condition, ...)                                                                                       \
    do {                                                                                                               \
        const double until_end = now_s() + 10;                                                                         \
        XSync((h)->display, False);                                                                                    \
        while (!(condition) && now_s() < until_end) {                                                                  \
            check(window_idle((h)->w) == WINDOW_OPEN, "the window has ended");                                         \
            pause_us(4000);                                                                                            \
        }                                                                                                              \
        check(condition, __VA_ARGS__);                                                                                 \
    } while (0)

static void settle(struct host *h)
{
    XSync(h->display, False);
    for (int i = 0; i < 12; i++) {
        check(window_idle(h->w) == WINDOW_OPEN, "the window has ended");
        pause_us(8000);
    }
}

static void move(struct host *h, double x, double y)
{
    XTestFakeMotionEvent(h->display, -1, (int)x, (int)y, CurrentTime);
}

static void button(struct host *h, unsigned number, bool is_down)
{
    XTestFakeButtonEvent(h->display, number, is_down, CurrentTime);
}

static void click(struct host *h, double x, double y, unsigned number)
{
    move(h, x, y);
    button(h, number, true);
    button(h, number, false);
}

static void click_part(struct host *h, int part)
{
    const struct rect r = h->w->part[part];
    click(h, r.x + r.w / 2.0, r.y + r.h / 2.0, 1);
}

/* So that the next click is not the second of a double click. */
static void click_elsewhere(struct host *h)
{
    click_part(h, PART_TITLE);
}

static void key(struct host *h, KeySym sym, bool with_shift)
{
    const KeyCode code = XKeysymToKeycode(h->display, sym), shift = XKeysymToKeycode(h->display, XK_Shift_L);
    if (with_shift) XTestFakeKeyEvent(h->display, shift, True, CurrentTime);
    XTestFakeKeyEvent(h->display, code, True, CurrentTime);
    XTestFakeKeyEvent(h->display, code, False, CurrentTime);
    if (with_shift) XTestFakeKeyEvent(h->display, shift, False, CurrentTime);
}

static void type(struct host *h, const char *text)
{
    for (; *text; text++) key(h, *text == '-' ? XK_minus : *text == '.' ? XK_period : (KeySym)*text, false);
}

/* The Tab key until a part has the focus. */
static void focus(struct host *h, int part)
{
    click_elsewhere(h);
    settle(h);
    for (int i = 0; i < PART_PICTURE && h->w->focus != part; i++) {
        key(h, XK_Tab, false);
        settle(h);
    }
    check(h->w->focus == part, "Tab never reaches part %d", part);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

/* The picture of the host's window. */
static cairo_surface_t *picture(struct host *h)
{
    XWindowAttributes is;
    XGetWindowAttributes(h->display, window_id(h->w), &is);
    XImage *image =
        XGetImage(h->display, window_id(h->w), 0, 0, (unsigned)is.width, (unsigned)is.height, AllPlanes, ZPixmap);
    check(image && image->bits_per_pixel == 32, "no picture");
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, is.width, is.height);
    cairo_surface_flush(surface);
    for (int y = 0; y < is.height; y++)
        memcpy(cairo_image_surface_get_data(surface) + (size_t)y * cairo_image_surface_get_stride(surface),
               image->data + (size_t)y * image->bytes_per_line, 4 * (size_t)is.width);
    cairo_surface_mark_dirty(surface);
    XDestroyImage(image);
    return surface;
}

/* Pixels of a part in which the channel red is at least twice the channel blue: letters of an error. */
static int red_pixels(struct host *h, int part)
{
    cairo_surface_t *surface = picture(h);
    const struct rect r = h->w->part[part];
    int n = 0;
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++) {
            const uint8_t *p = cairo_image_surface_get_data(surface) +
                               (size_t)y * cairo_image_surface_get_stride(surface) + 4 * (size_t)x;
            n += p[2] > 150 && p[2] > 3 * p[0] / 2;
        }
    cairo_surface_destroy(surface);
    return n;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum { RATE = 48000, DECAY_FRAMES = RATE };

/* A stereo WAV file of 1 s of noise that falls by 60 dB in `rt60` seconds. */
static void write_wav(const char *name, double rt60)
{
    char path[600];
    struct random random = random_seeded(1);
    const uint32_t bytes = 2 * 2 * DECAY_FRAMES, sizes[] = {36 + bytes, 16, RATE, 4 * RATE, bytes};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    check(file, "%s cannot be written", path);
    const uint16_t format[] = {1, 2}, block[] = {4, 16};
    fwrite("RIFF", 4, 1, file), fwrite(&sizes[0], 4, 1, file), fwrite("WAVEfmt ", 8, 1, file);
    fwrite(&sizes[1], 4, 1, file), fwrite(format, 4, 1, file), fwrite(&sizes[2], 4, 1, file);
    fwrite(&sizes[3], 4, 1, file), fwrite(block, 4, 1, file), fwrite("data", 4, 1, file), fwrite(&sizes[4], 4, 1, file);
    for (int i = 0; i < DECAY_FRAMES; i++) {
        const double level = 30000 * pow(10, -3.0 * i / RATE / rt60);
        const int16_t frame[] = {(int16_t)(level * random_sample(&random)), (int16_t)(level * random_sample(&random))};
        fwrite(frame, 4, 1, file);
    }
    check(fclose(file) == 0, "%s cannot be written", path);
}

static void write_text(const char *name, const char *text)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    check(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
}

static void files_make(void)
{
    char path[600];
    (void)snprintf(folder, sizeof folder, "%s/tests/window-responses", getenv("BUILD") ? getenv("BUILD") : "build");
    mkdir(folder, 0777);
    char *whole = realpath(folder, NULL);
    check(whole && strlen(whole) < sizeof folder, "no folder %s", folder);
    (void)snprintf(folder, sizeof folder, "%s", whole);
    free(whole);
    (void)snprintf(path, sizeof path, "%s/More", folder);
    mkdir(path, 0777);
    write_wav("Hall.wav", 0.5);
    write_wav("Room with a rather long name that does not fit into the list.wav", 0.2);
    write_wav("More/Plate.wav", 0.3);
    write_text("broken.wav", "this is not a sound file");
    write_text("\xff\xfe invalid \xc3.txt", "1\n0.5\n");
    write_text("Zero.txt", "0\n0\n");
    write_text("letter.doc", "not a response");
    write_text("two.csv", "file,azimuth,elevation,distance\nHall.wav,90,0,1\nMore/Plate.wav,0,0,1\n");
    write_text("matrix.conf", "/convolver/new 2 3 256 96000\n/impulse/read 1 1 0.5 0 0 0 1 Hall.wav\n"
                              "/impulse/read 2 3 1 4800 0 0 2 More/Plate.wav\n");
    (void)snprintf(path, sizeof path, "%s/large.wav", folder);
    const int large = open(path, O_CREAT | O_WRONLY, 0666); /* has no blocks on the disk */
    check(large >= 0 && ftruncate(large, 65000000) == 0 && close(large) == 0, "%s cannot be written", path);
}

static int row_of(struct host *h, const char *name)
{
    for (int i = 0; i < h->w->n_rows; i++)
        if (strcmp(browser_row_name(h->w, i), name) == 0) return i;
    return -1;
}

static void click_row(struct host *h, const char *name, int clicks)
{
    const struct rect r = h->w->part[PART_LIST];
    until(h, row_of(h, name) >= 0, "%s is not listed", name);
    const int row = row_of(h, name) - h->w->first_row;
    for (int i = 0; i < clicks; i++) click(h, r.x + 30, r.y + (row + 0.5) * h->w->row_height, 1);
    settle(h);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void opened_and_closed_100_times_it_leaves_nothing(const char *backend)
{
    double fastest = 1e9, sum = 0;
    int files = 0, threads = 0;
    const int n = 100;
    for (int i = 0; i <= n; i++) {
        struct host h = host_open(i % 2 ? &model : &source_model, 1);
        window_close(h.w);
        const double start = now_s();
        h.w = window_open(&model, &(struct window_config){.parent = h.frame, .scale = 1}, (char[300]){0}, 300);
        check(h.w, "it does not open");
        until(&h, h.w->n_drawn > 0, "nothing is drawn");
        const double took = now_s() - start;
        fastest = fmin(fastest, took);
        sum += took;
        host_close(&h);
        if (i == 0) files = count_own("fd"), threads = count_own("task");
    }
    check(count_own("fd") == files, "%d files are open, %d before", count_own("fd"), files);
    check(count_own("task") == threads, "%d threads run, %d before", count_own("task"), threads);
    check(SANITIZED || fastest < 0.1, "it opens in %.0f ms, on average in %.0f ms", 1000 * fastest,
          1000 * sum / (n + 1));
}

static void closed_while_a_knob_is_dragged_it_ends_the_gesture(const char *backend)
{
    struct host h = host_open(&model, 1);
    const struct rect r = h.w->part[PART_CONTROLS + WET];
    settle(&h);
    move(&h, r.x + 40, r.y + 40);
    button(&h, 1, true);
    until(&h, fake.gestures[WET] == 1, "no gesture begins");
    button(&h, 1, false);
    XSync(h.display, False);
    host_close(&h);
}

static void a_drag_ends_before_another_gesture_begins(const char *backend)
{
    struct host h = host_open(&model, 1);
    const struct rect wet = h.w->part[PART_CONTROLS + WET], dry = h.w->part[PART_CONTROLS + DRY];
    settle(&h);
    move(&h, wet.x + 40, wet.y + 40);
    button(&h, 1, true);
    until(&h, fake.gestures[WET] == 1, "no gesture begins");
    key(&h, XK_Up, false); /* fake_set checks the number of gestures */
    settle(&h);
    check(fake.value[WET] == model.controls[WET].initial, "a key sets a knob that is dragged to %g", fake.value[WET]);
    input_press(h.w, dry.x + 40, dry.y + 40, 0, 9); /* the release before is lost */
    check(fake.gestures[WET] == 0 && fake.gestures[DRY] == 1, "%d and %d gestures", fake.gestures[WET],
          fake.gestures[DRY]);
    button(&h, 1, false);
    settle(&h);
    host_close(&h);
}

static void the_parent_may_be_destroyed_first(const char *backend)
{
    for (int idles = 0; idles < 3; idles++) { /* 0: it is closed without another call */
        struct host h = host_open(&model, 1);
        if (idles > 0) settle(&h);
        XDestroyWindow(h.display, h.frame);
        XSync(h.display, False);
        for (int i = 0; i < idles; i++) {
            window_changed(h.w, N_PARTS);
            pause_us(40000);
            check(window_idle(h.w) == WINDOW_GONE, "the window does not notice");
        }
        window_resize(h.w, 500, 400);
        window_set_scale(h.w, 2);
        window_show(h.w, false);
        host_close(&h);
    }
}

static int n_host_errors;
static int host_error(Display *display, XErrorEvent *event)
{
    n_host_errors++;
    return 0;
}

static void errors_of_the_host_reach_the_host(const char *backend)
{
    XErrorHandler before = XSetErrorHandler(host_error);
    struct host h = host_open(&model, 1);
    n_host_errors = 0;
    XDestroyWindow(h.display, h.frame);
    XSync(h.display, False);
    while (window_idle(h.w) == WINDOW_OPEN) pause_us(1000);
    check(n_host_errors == 0, "the host gets %d errors of the window", n_host_errors);
    XMapWindow(h.display, 0x7fffffff);
    XSync(h.display, False);
    check(n_host_errors == 1, "the host gets %d errors of 1", n_host_errors);
    host_close(&h);
    check(XSetErrorHandler(before) == host_error, "the host's handler is gone");
}

static sem_t other_is_inside, other_may_end;
static pthread_t other_thread;

static void wait_inside(void *data, struct window_state *state)
{
    sem_post(&other_is_inside);
    while (sem_wait(&other_may_end) != 0) continue;
}

static void *open_other(void *data)
{
    struct window_model of = model;
    char why[300];
    of.state = wait_inside;
    struct window *w = window_open(&of, &(struct window_config){.scale = 1}, why, sizeof why);
    check(w, "%s", why);
    window_close(w);
    return NULL;
}

/* The other thread's calls begin before a call of this one, and end inside of it. */
static void see_other_end(void *data, struct window_state *state)
{
    if (!other_thread) return;
    sem_post(&other_may_end);
    pthread_join(other_thread, NULL);
    other_thread = 0;
    XErrorHandler now = XSetErrorHandler(host_error);
    XSetErrorHandler(now);
    check(now != host_error, "an error of the window would be the host's");
}

static void windows_of_two_threads_leave_each_other_their_handlers(const char *backend)
{
    struct window_model of = model;
    XErrorHandler before = XSetErrorHandler(host_error);
    of.state = see_other_end;
    sem_init(&other_is_inside, 0, 0);
    sem_init(&other_may_end, 0, 0);
    check(pthread_create(&other_thread, NULL, open_other, NULL) == 0, "no thread");
    while (sem_wait(&other_is_inside) != 0) continue;
    struct host h = host_open(&of, 1);
    check(!other_thread, "the other thread has not ended");
    host_close(&h);
    check(XSetErrorHandler(before) == host_error, "the host's handler is gone");
}

/* Another plugin with a window, whose guard begins inside of one of this window, and ends behind it. */
static XErrorHandler restored;
static XIOErrorHandler restored_loss;

static void guard_meanwhile(void *data, struct window_state *state)
{
    if (!restored) restored = XSetErrorHandler(host_error), restored_loss = XSetIOErrorHandler(NULL);
}

static void handlers_that_another_plugin_restores_do_not_call_themselves(const char *backend)
{
    struct window_model of = model;
    Display *other = XOpenDisplay(NULL);
    XErrorHandler before = XSetErrorHandler(host_error);
    XIOErrorHandler before_loss = XSetIOErrorHandler(NULL);
    of.state = guard_meanwhile;
    restored = NULL;
    struct host h = host_open(&of, 1);
    check(restored && restored != host_error, "the window has no guard");
    XSetErrorHandler(restored), XSetIOErrorHandler(restored_loss);
    settle(&h);
    check(XSetErrorHandler(restored) == host_error, "the window's handler is its own other one");
    XIOErrorHandler loss = XSetIOErrorHandler(restored_loss);
    check(loss != restored_loss, "the window's handler of a loss is its own other one");
    n_host_errors = 0;
    XMapWindow(other, 0x7fffffff);
    XSync(other, False);
    check(n_host_errors == 1, "the host gets %d errors of 1", n_host_errors);
    host_close(&h);
    XSetErrorHandler(before), XSetIOErrorHandler(before_loss);
    XCloseDisplay(other);
}

static void a_parent_that_does_not_exist_is_an_error(const char *backend)
{
    char why[300] = "";
    struct window *w = window_open(&model, &(struct window_config){.parent = 0x7fffffff}, why, sizeof why);
    check(!w && strstr(why, "0x7fffffff does not exist"), "%s", why);
}

static void without_a_display_it_is_an_error(const char *backend)
{
    char why[300] = "", display[32];
    (void)snprintf(display, sizeof display, "%s", getenv("DISPLAY"));
    setenv("DISPLAY", ":12345", 1);
    struct window *w = window_open(&model, &(struct window_config){0}, why, sizeof why);
    check(!w && strstr(why, "no X11 display at :12345; start the host"), "%s", why);
    unsetenv("DISPLAY");
    w = window_open(&model, &(struct window_config){0}, why, sizeof why);
    setenv("DISPLAY", display, 1);
    check(!w && strstr(why, "no X11 display; start the host"), "%s", why);
}

static void the_end_of_the_x_server_ends_the_window_only(const char *backend)
{
    char why[300] = "", display[32], second[16];
    (void)snprintf(display, sizeof display, "%s", getenv("DISPLAY"));
#ifdef __SANITIZE_THREAD__
    check_skip("after the loss of a connection Xlib unlocks its mutex twice");
#endif
    const pid_t server = server_start(24, second);
    check(server, "no second server");
    setenv("DISPLAY", second, 1);
    struct window *w = window_open(&model, &(struct window_config){.scale = 1}, why, sizeof why);
    setenv("DISPLAY", display, 1);
    check(w, "%s", why);
    window_idle(w);
    server_end(server);
    enum window_result result = WINDOW_OPEN;
    for (int i = 0; i < 100 && result == WINDOW_OPEN; i++) {
        window_changed(w, N_PARTS);
        result = window_idle(w);
        pause_us(10000);
    }
    check(result == WINDOW_GONE, "window_idle returns %d", result);
    window_close(w);
}

static void reparented_it_still_works(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    Window other = XCreateSimpleWindow(h.display, DefaultRootWindow(h.display), 0, 0, 900, 600, 0, 0, 0);
    XMapRaised(h.display, other);
    XReparentWindow(h.display, window_id(h.w), other, 0, 0);
    XDestroyWindow(h.display, h.frame);
    settle(&h);
    click_part(&h, PART_CONTROLS + ENABLED);
    until(&h, fake.value[ENABLED] == 0, "a click on the switch does nothing");
    host_close(&h);
}

static void two_windows_in_one_process_do_not_disturb_each_other(const char *backend)
{
    struct host a = host_open(&model, 1), b = host_open(&model, 1); /* b covers a, and the model is the same */
    settle(&a);
    settle(&b);
    XDestroyWindow(a.display, a.frame);
    XSync(a.display, False);
    click_part(&b, PART_CONTROLS + ENABLED);
    until(&b, fake.value[ENABLED] == 0, "a click on the switch does nothing");
    check(window_idle(a.w) == WINDOW_GONE, "the other window does not notice the end of its parent");
    host_close(&a);
    click_part(&b, PART_CONTROLS + ENABLED);
    until(&b, fake.value[ENABLED] == 1, "a click on the switch does nothing, after the other window is closed");
    host_close(&b);
}

static bool contains(struct rect a, struct rect b)
{
    return b.x >= a.x && b.y >= a.y && b.x + b.w <= a.x + a.w && b.y + b.h <= a.y + a.h;
}

/* All parts of the model are there, inside of the window and beside each other. */
static void check_layout(const struct window *w)
{
    const struct rect whole = {0, 0, w->width, w->height};
    for (int a = 0; a < N_PARTS; a++) {
        const bool is_wanted = part_is_control(a) ? a - PART_CONTROLS < w->model->n_controls
                               : a <= PART_SIDE_B ? w->model->select != NULL
                               : a == PART_CIRCLE ? w->model->azimuth != w->model->distance
                                                  : true;
        check((w->part[a].w > 0) == is_wanted, "%d x %d at %g: part %d is %d wide", w->width, w->height, w->scale, a,
              w->part[a].w);
        check(!is_wanted || contains(whole, w->part[a]), "%d x %d at %g: part %d is at %d, %d", w->width, w->height,
              w->scale, a, w->part[a].x, w->part[a].y);
        for (int b = a + 1; b < N_PARTS; b++)
            check((a == PART_LOAD && b == PART_PICTURE) || (part_is_control(a) && b == PART_STRIP) ||
                      !rects_touch(w->part[a], w->part[b]),
                  "%d x %d at %g: parts %d and %d overlap", w->width, w->height, w->scale, a, b);
    }
}

static void resized_and_scaled_all_parts_are_visible(const char *backend)
{
    static const double scales[] = {1, 1.25, 1.5, 2, 3};
    struct window_control many[WINDOW_MAX_CONTROLS];
    struct window_model large = model;
    for (int i = 0; i < WINDOW_MAX_CONTROLS; i++) many[i] = controls[i < N_CONTROLS ? i : WET];
    large.n_controls = WINDOW_MAX_CONTROLS, large.controls = many;
    const struct window_model *const models[] = {&model, &source_model, &large};
    for (int m = 0; m < 3; m++) {
        struct host h = host_open(models[m], 1);
        XResizeWindow(h.display, h.frame, 2400, 1600);
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
            for (int bigger = 0; bigger < 300; bigger += 149) {
                int width, height;
                window_set_scale(h.w, scales[s]);
                window_smallest_size(models[m], scales[s], &width, &height);
                window_resize(h.w, width + bigger, height + bigger);
                until(&h, h.w->width == width + bigger && h.w->height == height + bigger, "%d x %d", h.w->width,
                      h.w->height);
                check_layout(h.w);
            }
        for (int size = 1; size < 400; size += 57) { /* too small for all: it must draw something, and not fail */
            window_resize(h.w, size, size);
            until(&h, h.w->width == size, "%d pixels", h.w->width);
            settle(&h);
        }
        host_close(&h);
    }
}

static void scales_are_limited(const char *backend)
{
    static const double scales[] = {0.01, 1e9, INFINITY, 5e-324};
    int width, height, min_width, max_width;
    window_default_size(&model, 0.5, &min_width, &height);
    window_default_size(&model, 8, &max_width, &height);
    struct host h = host_open(&model, 1);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        window_set_scale(h.w, scales[i]);
        settle(&h);
        window_default_size(&model, scales[i], &width, &height);
        check(width == (scales[i] < 1 ? min_width : max_width), "at %g: %d pixels", scales[i], width);
    }
    host_close(&h);
    h = host_open(&model, 0.001);
    settle(&h);
    check_layout(h.w);
    host_close(&h);
}

/* The host makes the frame before there is a window. */
static void the_scale_of_the_desktop_is_that_of_the_default_size(const char *backend)
{
    static const char resources[] = "Xft.dpi:\t192\n";
    int width, height, twice_width, twice_height;
    Display *display = XOpenDisplay(NULL);
    XChangeProperty(display, DefaultRootWindow(display), XA_RESOURCE_MANAGER, XA_STRING, 8, PropModeReplace,
                    (const unsigned char *)resources, sizeof resources - 1);
    XSync(display, False);
    window_default_size(&model, 2, &twice_width, &twice_height);
    window_default_size(&model, 0, &width, &height);
    struct host h = host_open(&model, 0);
    const double scale = h.w->scale;
    check(h.w->width == twice_width, "the window is %d pixels wide", h.w->width);
    host_close(&h);
    XDeleteProperty(display, DefaultRootWindow(display), XA_RESOURCE_MANAGER);
    XCloseDisplay(display);
    check(scale == 2 && width == twice_width && height == twice_height, "at a scale of %g: %d x %d", scale, width,
          height);
}

static void hidden_and_shown_it_draws_again(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    window_show(h.w, false);
    settle(&h);
    fake.value[WET] = -20;
    const int before = h.w->n_drawn;
    settle(&h);
    check(h.w->n_drawn == before, "it draws while it is hidden");
    window_show(h.w, true);
    until(&h, h.w->n_drawn > before && h.w->value[WET] == -20, "it does not draw");
    host_close(&h);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void at_rest_it_draws_nothing_and_needs_no_processor(const char *backend)
{
    struct host h = host_open(&model, 1);
    for (int i = 0; i < 8; i++) settle(&h);
    const int drawn = h.w->n_drawn;
    const double start = cpu_s(), started = now_s();
    while (now_s() < started + 2) {
        window_idle(h.w);
        pause_us(16000);
    }
    const double share = (cpu_s() - start) / (now_s() - started);
    check(h.w->n_drawn == drawn, "%d drawings", h.w->n_drawn - drawn);
    check(SANITIZED || share < 0.02, "%.1f %% of a processor", 100 * share);
    host_close(&h);
}

static void meters_that_move_redraw_only_themselves_30_times_a_second(const char *backend)
{
    struct host h = host_open(&model, 1);
    for (int i = 0; i < 8; i++) settle(&h);
    const int drawn = h.w->n_drawn;
    const double start = cpu_s(), started = now_s();
    for (int i = 0; now_s() < started + 2; i++) {
        fake.state.in_peak = fake.state.out_peak = i % 2 ? 0.9f : 0.3f + 0.01f * (float)(i % 50);
        fake.state.load = (float)(i % 7);
        window_idle(h.w);
        pause_us(8000);
        check(h.w->n_drawn == drawn || contains(h.w->part[PART_METERS], h.w->drawn), "it draws %d x %d pixels",
              h.w->drawn.w, h.w->drawn.h);
    }
    const double seconds = now_s() - started, share = (cpu_s() - start) / seconds;
    check(h.w->n_drawn > drawn && h.w->n_drawn - drawn <= 33 * seconds, "%d drawings in 2 s", h.w->n_drawn - drawn);
    check(SANITIZED || share < 0.02, "%.1f %% of a processor", 100 * share);
    host_close(&h);
}

static void a_value_that_the_host_changes_redraws_its_knob(const char *backend)
{
    struct host h = host_open(&model, 1);
    for (int i = 0; i < 8; i++) settle(&h);
    const int drawn = h.w->n_drawn;
    fake.value[GAIN] = -12;
    until(&h, h.w->n_drawn > drawn, "it does not draw");
    check(memcmp(&h.w->drawn, &h.w->part[PART_CONTROLS + GAIN], sizeof h.w->drawn) == 0, "it draws %d x %d pixels",
          h.w->drawn.w, h.w->drawn.h);
    host_close(&h);
}

static void pictures_at_three_scales(const char *backend)
{
    enum { STEREO, BINAURAL, BUSY, N_PICTURES };
    static const double scales[] = {1, 1.5, 2};
    static const char *const names[] = {"stereo", "binaural", "busy"};
    const struct window_model *const models[] = {&model, &source_model, &model};
    char path[700];
    for (int m = 0; m < N_PICTURES; m++)
        for (int s = 0; s < 3; s++) {
            struct host h = host_open(models[m], scales[s]);
            (void)snprintf(fake.state.mask[0], WINDOW_PATH, "%s/Hall.wav", folder);
            (void)snprintf(fake.state.mask[1], WINDOW_PATH, "%s/More/Plate.wav", folder);
            (void)snprintf(fake.state.status, sizeof fake.state.status, "Hall.wav plays");
            fake.state.in_peak = 0.25f, fake.state.out_peak = 0.4f, fake.state.load = 3, fake.state.gain_db[0] = -3.2f;
            if (m == BINAURAL) fake.value[AZIMUTH] = 40, fake.value[DISTANCE] = 3;
            until(&h, h.w->preview && h.w->preview->facts[0] && h.w->n_rows > 0, "no preview");
            if (m == BUSY) { /* an error, a selected response, a value that is typed */
                (void)snprintf(fake.state.error, sizeof fake.state.error,
                               "Surround.wav: 5 channels, but the plugin has 2 inputs and 2 outputs; choose a response "
                               "of 1, 2 or 4 channels");
                fake.state.late = 12, fake.state.out_peak = 1.1f, fake.value[WET] = -12;
                click_row(&h, "Room with a rather long name that does not fit into the list.wav", 1);
                focus(&h, PART_CONTROLS + GAIN);
                type(&h, "-3.");
                until(&h, strstr(h.w->preview->path, "Room") && strcmp(h.w->typed, "-3.") == 0, "%s", h.w->typed);
            }
            settle(&h);
            cairo_surface_t *surface = picture(&h);
            (void)snprintf(path, sizeof path, "%s/../window-%s-%.0f.png", folder, names[m], 100 * scales[s]);
            check(cairo_surface_write_to_png(surface, path) == CAIRO_STATUS_SUCCESS, "%s cannot be written", path);
            cairo_surface_destroy(surface);
            host_close(&h);
        }
}

/* A value of 8 bits from the bits of a mask. */
static int from_mask(unsigned long pixel, unsigned long mask)
{
    const unsigned long lowest = mask & (~mask + 1);
    return (int)lrint(255.0 * (double)((pixel & mask) / lowest) / (double)(mask / lowest));
}

static void screens_of_all_depths_show_the_same_picture(const char *backend)
{
    static const int depths[] = {16, 24, 30}, tolerances[] = {5, 0, 1};
    char display[32], other[16];
    (void)snprintf(display, sizeof display, "%s", getenv("DISPLAY"));
    for (int d = 0; d < 3; d++) {
        const pid_t server = server_start(depths[d], other);
        check(server, "no server with %d bits", depths[d]);
        setenv("DISPLAY", other, 1);
        struct host h = host_open(&source_model, 1);
        setenv("DISPLAY", display, 1);
        until(&h, h.w->n_rows > 0, "nothing is listed");
        settle(&h);
        check(h.w->depth == depths[d], "%d bits, not %d", h.w->depth, depths[d]);
        cairo_surface_t *want = cairo_image_surface_create(CAIRO_FORMAT_RGB24, h.w->width, h.w->height);
        cairo_t *cr = cairo_create(want);
        draw_window(cr, h.w, (struct rect){0, 0, h.w->width, h.w->height});
        cairo_surface_flush(want);
        XImage *got =
            XGetImage(h.display, window_id(h.w), 0, 0, (unsigned)h.w->width, (unsigned)h.w->height, AllPlanes, ZPixmap);
        for (int y = 0; y < h.w->height; y++)
            for (int x = 0; x < h.w->width; x++) {
                const uint8_t *p = cairo_image_surface_get_data(want) +
                                   (size_t)y * cairo_image_surface_get_stride(want) + 4 * (size_t)x;
                const unsigned long pixel = XGetPixel(got, x, y);
                check(abs(from_mask(pixel, got->red_mask) - p[2]) <= tolerances[d] &&
                          abs(from_mask(pixel, got->green_mask) - p[1]) <= tolerances[d] &&
                          abs(from_mask(pixel, got->blue_mask) - p[0]) <= tolerances[d],
                      "%d bits, pixel %d, %d: %lx, not %02x%02x%02x", depths[d], x, y, pixel, p[2], p[1], p[0]);
            }
        XDestroyImage(got);
        cairo_destroy(cr);
        cairo_surface_destroy(want);
        host_close(&h);
        server_end(server);
    }
}

static void an_error_is_red_and_hides_the_status(const char *backend)
{
    struct host h = host_open(&model, 1);
    (void)snprintf(fake.state.status, sizeof fake.state.status, "Hall.wav plays");
    settle(&h);
    check(red_pixels(&h, PART_STATUS) == 0, "the status is red");
    (void)snprintf(fake.state.error, sizeof fake.state.error,
                   "Hall.wav: 3 channels, but the plugin has 2 inputs; choose a response of 1, 2 or 4 channels");
    settle(&h);
    check(red_pixels(&h, PART_STATUS) > 100, "%d red pixels", red_pixels(&h, PART_STATUS));
    host_close(&h);
}

/* ---- controls ---------------------------------------------------------------------------------------------------- */

/* Drags a knob down, or up if it is at its minimum. */
static void drag(struct host *h, const struct window_model *of, int i, int pixels)
{
    const struct rect r = h->w->part[PART_CONTROLS + i];
    const double from = control_position(&of->controls[i], fake.value[i]);
    const double want = control_value(&of->controls[i], from - pixels / 200.0);
    move(h, r.x + r.w / 2.0, r.y + 40);
    button(h, 1, true);
    for (int moved = 0; moved != pixels; moved += pixels < 0 ? -5 : 5)
        move(h, r.x + r.w / 2.0, r.y + 40 + moved + (pixels < 0 ? -5 : 5));
    button(h, 1, false);
    until(h, near(fake.value[i], want) && fake.gestures[i] == 0, "%s: %g, not %g", of->controls[i].name, fake.value[i],
          want);
    click_elsewhere(h);
}

static void each_control_is_set(const struct window_model *of)
{
    struct host h = host_open(of, 1);
    settle(&h);
    for (int i = 0; i < of->n_controls; i++) {
        const struct window_control *c = &of->controls[i];
        const struct rect r = h.w->part[PART_CONTROLS + i], value = layout_value(h.w, PART_CONTROLS + i);
        const double middle_x = r.x + r.w / 2.0, middle_y = r.y + r.h / 2.0;
        if (c->kind != WINDOW_KNOB) {
            const double next = fake.value[i] + 1 > c->max ? c->min : fake.value[i] + 1;
            click_part(&h, PART_CONTROLS + i);
            until(&h, fake.value[i] == next, "%s: a click sets %g", c->name, fake.value[i]);
            click(&h, middle_x, middle_y, next > 0 ? 5 : 4);
            until(&h, fake.value[i] == (next > 0 ? next - 1 : next + 1), "%s: the wheel sets %g", c->name,
                  fake.value[i]);
            focus(&h, PART_CONTROLS + i);
            key(&h, XK_Home, false);
            until(&h, fake.value[i] == c->min, "%s: Home sets %g", c->name, fake.value[i]);
            key(&h, XK_Return, false);
            until(&h, fake.value[i] == c->min + 1, "%s: Enter sets %g", c->name, fake.value[i]);
            key(&h, XK_Left, false);
            until(&h, fake.value[i] == c->min, "%s: the arrow key sets %g", c->name, fake.value[i]);
            continue;
        }
        drag(&h, of, i, control_position(c, fake.value[i]) > 0.5 ? 50 : -50);
        const double before = fake.value[i],
                     one = c->is_logarithmic ? control_value(c, control_position(c, before) + 0.01) : before + c->step;
        click(&h, middle_x, middle_y, 4);
        until(&h, near(fake.value[i], one), "%s: the wheel sets %g from %g", c->name, fake.value[i], before);
        click(&h, middle_x, middle_y, 5);
        until(&h, near(fake.value[i], before), "%s: the wheel sets %g back", c->name, fake.value[i]);
        focus(&h, PART_CONTROLS + i);
        key(&h, XK_Up, false);
        until(&h, near(fake.value[i], one), "%s: the arrow key sets %g", c->name, fake.value[i]);
        key(&h, XK_Left, false);
        until(&h, near(fake.value[i], before), "%s: the arrow key sets %g back", c->name, fake.value[i]);
        key(&h, XK_Page_Up, false);
        const double page =
            c->is_logarithmic ? control_value(c, control_position(c, before) + 0.1) : before + 10 * c->step;
        until(&h, near(fake.value[i], page), "%s: Page Up sets %g", c->name, fake.value[i]);
        key(&h, XK_Page_Down, false);
        until(&h, near(fake.value[i], before), "%s: Page Down sets %g", c->name, fake.value[i]);
        key(&h, XK_Up, true);
        const double tenth =
            c->is_logarithmic ? control_value(c, control_position(c, before) + 0.001) : before + c->step / 10;
        until(&h, near(fake.value[i], tenth), "%s: Shift sets %g", c->name, fake.value[i]);
        key(&h, XK_End, false);
        until(&h, fake.value[i] == c->max, "%s: End sets %g", c->name, fake.value[i]);
        key(&h, XK_Delete, false);
        until(&h, fake.value[i] == c->initial, "%s: Delete sets %g", c->name, fake.value[i]);
        type(&h, "7.5");
        until(&h, strcmp(h.w->typed, "7.5") == 0, "%s: \"%s\" is typed", c->name, h.w->typed);
        check(fake.value[i] == c->initial, "%s: it changes before Enter", c->name);
        key(&h, XK_Return, false);
        until(&h, near(fake.value[i], 7.5), "%s: typing sets %g", c->name, fake.value[i]);
        type(&h, "8");
        key(&h, XK_Escape, false);
        settle(&h);
        check(near(fake.value[i], 7.5) && !h.w->typing, "%s: Escape leaves %g", c->name, fake.value[i]);
        type(&h, "99999");
        key(&h, XK_Return, false);
        until(&h, h.w->notice[0], "%s: a value out of range is not refused", c->name);
        check(near(fake.value[i], 7.5) && strstr(h.w->notice, c->name) && strstr(h.w->notice, "type a value from"),
              "%s", h.w->notice);
        click_elsewhere(&h);
        click(&h, value.x + value.w / 2.0, value.y + value.h / 2.0, 1);
        until(&h, h.w->typing, "%s: a click on the value does not begin to type", c->name);
        type(&h, "3x");
        key(&h, XK_BackSpace, false);
        key(&h, XK_Tab, false);
        until(&h, near(fake.value[i], 3), "%s: typing sets %g", c->name, fake.value[i]);
        click(&h, middle_x, middle_y - 20, 1);
        click(&h, middle_x, middle_y - 20, 1);
        until(&h, fake.value[i] == c->initial, "%s: a double click sets %g", c->name, fake.value[i]);
        click_elsewhere(&h);
    }
    host_close(&h);
}

static void each_control_is_set_by_mouse_wheel_keys_and_typing(const char *backend)
{
    each_control_is_set(&model);
    each_control_is_set(&source_model);
}

static void tab_goes_round_both_ways(const char *backend)
{
    struct host h = host_open(&model, 1);
    int order[PART_PICTURE], n = 0;
    focus(&h, PART_SIDE_A);
    do {
        order[n++] = h.w->focus;
        key(&h, XK_Tab, false);
        settle(&h);
    } while (h.w->focus != PART_SIDE_A && n < PART_PICTURE);
    check(n == 4 + N_CONTROLS, "%d parts get the focus", n);
    for (int i = n - 1; i >= 0; i--) {
        key(&h, XK_Tab, true);
        settle(&h);
        check(h.w->focus == order[i], "Shift and Tab lead to %d, not %d", h.w->focus, order[i]);
    }
    host_close(&h);
}

static void the_source_follows_mouse_wheel_and_keys(const char *backend)
{
    struct host h = host_open(&source_model, 1);
    settle(&h);
    const struct rect r = h.w->part[PART_CIRCLE];
    const int x = r.x + r.w / 2, y = r.y + r.h / 2, away = (int)(layout_radius(h.w) / 2);
    move(&h, x, y - away);
    button(&h, 1, true);
    until(&h, fabs(fake.value[AZIMUTH]) < 1, "ahead is %g degrees", fake.value[AZIMUTH]);
    move(&h, x - away, y);
    until(&h, fabs(fake.value[AZIMUTH] - 90) < 1, "left is %g degrees", fake.value[AZIMUTH]);
    check(fabs(fake.value[DISTANCE] / sqrt(0.1 * 20) - 1) < 0.05, "half of the radius is %g m", fake.value[DISTANCE]);
    move(&h, x + 3 * away, y);
    until(&h, fabs(fake.value[AZIMUTH] + 90) < 1, "right is %g degrees", fake.value[AZIMUTH]);
    check(fake.value[DISTANCE] == 20, "beyond the radius is %g m", fake.value[DISTANCE]);
    button(&h, 1, false);
    until(&h, fake.gestures[AZIMUTH] == 0 && fake.gestures[DISTANCE] == 0, "the gesture does not end");
    click(&h, x, y + away, 5);
    until(&h, fake.value[DISTANCE] < 19.9, "the wheel sets %g m", fake.value[DISTANCE]);
    focus(&h, PART_CIRCLE);
    fake.value[AZIMUTH] = 178;
    settle(&h);
    key(&h, XK_Left, false);
    until(&h, near(fake.value[AZIMUTH], -177), "178 degrees and 5 are %g", fake.value[AZIMUTH]);
    host_close(&h);
}

static void a_and_b_are_chosen_by_mouse_and_key(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    click_part(&h, PART_SIDE_B);
    until(&h, fake.state.side == 1, "a click on B does nothing");
    focus(&h, PART_SIDE_A);
    key(&h, XK_Return, false);
    until(&h, fake.state.side == 0, "Enter on A does nothing");
    host_close(&h);
}

static void an_empty_side_shows_the_mask_of_the_other(const char *backend)
{
    struct host h = host_open(&model, 1);
    (void)snprintf(fake.state.mask[0], WINDOW_PATH, "%s/Hall.wav", folder);
    fake.state.mask[1][0] = '\0';
    click_part(&h, PART_SIDE_B);
    until(&h, fake.state.side == 1 && h.w->state.side == 1, "a click on B does nothing");
    settle(&h);
    check(strcmp(h.w->wanted, fake.state.mask[0]) == 0, "the picture shows \"%s\"", h.w->wanted);
    check(!browser_can_load(h.w), "the response that plays can be loaded");
    static const struct {
        bool has_b;
        int side;
        const char *a, *b;
    } rows[] = {{false, 0, "A  Hall.wav", "B  empty"},
                {false, 1, "A  Hall.wav", "B (plays A)"},
                {true, 1, "A  Hall.wav", "B  Room.wav"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int side = 0; side < 2; side++) {
            char text[WINDOW_PATH + 40];
            (void)snprintf(h.w->state.mask[1], WINDOW_PATH, "%s", rows[i].has_b ? "/Room.wav" : "");
            h.w->state.side = rows[i].side;
            draw_side_text(h.w, side, text, sizeof text);
            check(strcmp(text, side ? rows[i].b : rows[i].a) == 0, "row %zu: \"%s\"", i, text);
        }
    host_close(&h);
}

/* ---- responses --------------------------------------------------------------------------------------------------- */

static void a_response_is_chosen_seen_and_loaded_by_mouse(const char *backend)
{
    struct host h = host_open(&model, 1);
    char path[600];
    (void)snprintf(path, sizeof path, "%s/Hall.wav", folder);
    click_row(&h, "Hall.wav", 1);
    until(&h, h.w->preview && strcmp(h.w->preview->path, path) == 0, "no preview");
    check(strstr(h.w->preview->facts, "1.00 s  ·  2 channels  ·  48 kHz  ·  T30 0.5"), "%s", h.w->preview->facts);
    check(fabsf(h.w->preview->decay_db[PREVIEW_POINTS / 4] + 30) < 2, "after 0.25 s: %g dB",
          (double)h.w->preview->decay_db[PREVIEW_POINTS / 4]);
    check(fake.n_loaded == 0, "a click loads");
    click_part(&h, PART_LOAD);
    until(&h, fake.n_loaded == 1 && strcmp(fake.loaded, path) == 0, "Load loads %s", fake.loaded);
    check(row_of(&h, "letter.doc") < 0, "a letter is listed");
    click_row(&h, "More", 2);
    click_row(&h, "Plate.wav", 2);
    (void)snprintf(path, sizeof path, "%s/More/Plate.wav", folder);
    until(&h, fake.n_loaded == 2 && strcmp(fake.loaded, path) == 0, "a double click loads %s", fake.loaded);
    click_part(&h, PART_FOLDER);
    until(&h, row_of(&h, "Hall.wav") >= 0, "the folder above is not listed");
    host_close(&h);
}

static void a_response_is_chosen_by_keys(const char *backend)
{
    struct host h = host_open(&model, 1);
    until(&h, h.w->n_rows > 0, "nothing is listed");
    focus(&h, PART_LIST);
    key(&h, XK_End, false);
    until(&h, h.w->selected == h.w->n_rows - 1, "End selects %d", h.w->selected);
    key(&h, XK_Page_Up, false);
    until(&h, h.w->selected == 0, "Page Up selects %d", h.w->selected); /* More: folders come first */
    key(&h, XK_Return, false);
    until(&h, row_of(&h, "Plate.wav") == 0, "Enter does not open the folder");
    key(&h, XK_Down, false);
    until(&h, h.w->selected == 0, "Down selects %d", h.w->selected);
    key(&h, XK_Return, false);
    until(&h, strstr(fake.loaded, "/More/Plate.wav"), "Enter loads %s", fake.loaded);
    key(&h, XK_BackSpace, false);
    until(&h, row_of(&h, "Hall.wav") > 0, "Backspace does not leave the folder");
    key(&h, XK_BackSpace, false);
    until(&h, h.w->list_view == LIST_TOP, "Backspace does not leave the root");
    key(&h, XK_Escape, false);
    until(&h, h.w->selected == -1 && strcmp(h.w->wanted, fake.loaded) == 0, "Escape does not show the mask");
    host_close(&h);
}

/* Those of the model by their names, then the last one used: that of the list, at first that of the mask that plays. */
static void the_top_lists_the_last_folder_used(const char *backend)
{
    static const char *const names[] = {"Masks that ship"};
    struct window_model named = model;
    named.folder_names = names;
    named.n_presets = 3, named.presets = presets;
    struct host h = host_open(&named, 1);
    (void)snprintf(fake.state.mask[0], WINDOW_PATH, "%s/More/Plate.wav", folder);
    settle(&h);
    char path[WINDOW_PATH];
    for (int i = 0; i < 2; i++) {
        click_part(&h, PART_FOLDER);
        until(&h, h.w->list_view == LIST_TOP && h.w->n_rows == 3, "%d rows", h.w->n_rows);
        check(strcmp(browser_row_name(h.w, 0), "Presets") == 0 && strcmp(browser_row_name(h.w, 1), names[0]) == 0,
              "the rows are %s and %s", browser_row_name(h.w, 0), browser_row_name(h.w, 1));
        browser_row_path(h.w, 2, path);
        check(strcmp(path + strlen(folder), i ? "/Other" : "/More") == 0, "the last folder is %s", path);
        browser_activate(h.w, 2);
        until(&h, h.w->list_view == LIST_FOLDER && strcmp(h.w->folder, path) == 0, "it does not open");
        (void)snprintf(h.w->folder, sizeof h.w->folder, "%s/Other", folder);
        browser_open(h.w, LIST_TOP, "");
        browser_open(h.w, LIST_PRESETS, "");
    }
    browser_open(h.w, LIST_FOLDER, folder);
    check(strcmp(browser_folder_name(h.w), names[0]) == 0, "the folder is %s", browser_folder_name(h.w));
    click_part(&h, PART_FOLDER);
    until(&h, h.w->list_view == LIST_TOP && h.w->n_rows == 2, "a folder of the model is listed twice");
    host_close(&h);
}

static void a_file_that_is_not_a_response_says_why(const char *backend)
{
    struct host h = host_open(&model, 1);
    click_row(&h, "broken.wav", 1);
    until(&h, h.w->preview && strstr(h.w->preview->path, "broken.wav") && h.w->preview->error[0], "no error");
    settle(&h);
    check(red_pixels(&h, PART_PICTURE) > 100, "%d red pixels", red_pixels(&h, PART_PICTURE));
    click_row(&h, "Zero.txt", 1);
    until(&h, strstr(h.w->preview->path, "Zero.txt"), "no preview");
    check(!h.w->preview->error[0], "%s", h.w->preview->error);
    host_close(&h);
}

static void previews_tell_banks_configurations_and_large_files(const char *backend)
{
    static const struct {
        const char *name, *facts, *error;
    } files[] = {{"two.csv", "1.00 s  ·  2 directions  ·  2 outputs  ·  48 kHz  ·  T30 0.30 s", ""},
                 {"matrix.conf", "1.10 s  ·  2 inputs  ·  3 outputs  ·  T30 0.3", ""},
                 {"large.wav", "", "65 MB: files of more than 64 MB have no preview"}};
    struct host h = host_open(&source_model, 1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        click_row(&h, files[i].name, 1);
        until(&h, h.w->preview && strstr(h.w->preview->path, files[i].name), "no preview of %s", files[i].name);
        check(strncmp(h.w->preview->facts, files[i].facts, strlen(files[i].facts)) == 0, "%s: %s", files[i].name,
              h.w->preview->facts);
        check(strcmp(h.w->preview->error, files[i].error) == 0, "%s: %s", files[i].name, h.w->preview->error);
        const float at_43_ms = h.w->preview->decay_db[PREVIEW_POINTS / 25]; /* the loudest route begins at 100 ms */
        check(!strstr(files[i].name, "matrix") || at_43_ms == 0, "%s: %g dB", files[i].name, (double)at_43_ms);
    }
    host_close(&h);
}

/* Cairo draws nothing more after a character that is not UTF-8. */
static void names_that_are_not_utf8_do_not_stop_the_drawing(const char *backend)
{
    struct host h = host_open(&model, 1);
    click_row(&h, "\xff\xfe invalid \xc3.txt", 1);
    memset(fake.state.status, 0xf1, sizeof fake.state.status - 1);
    memset(fake.state.mask[1], 'x', WINDOW_PATH - 1);
    settle(&h);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, h.w->width, h.w->height);
    cairo_t *cr = cairo_create(surface);
    draw_window(cr, h.w, (struct rect){0, 0, h.w->width, h.w->height});
    check(cairo_status(cr) == CAIRO_STATUS_SUCCESS, "%s", cairo_status_to_string(cairo_status(cr)));
    cairo_destroy(cr);
    cairo_surface_destroy(surface);
    host_close(&h);
}

static void a_preset_is_chosen_by_a_double_click(const char *backend)
{
    struct window_model with = model;
    with.n_presets = 3, with.presets = presets;
    struct host h = host_open(&with, 1);
    click_row(&h, "Small room", 2);
    until(&h, fake.preset == 1, "preset %d", fake.preset);
    click_part(&h, PART_FOLDER);
    click_elsewhere(&h);
    click_row(&h, folder, 2);
    until(&h, row_of(&h, "Hall.wav") >= 0, "the folder is not listed");
    host_close(&h);
}

/* Two presets may have the same response, and a file may be back after an error. */
static void what_plays_can_be_loaded_again_where_that_changes_something(const char *backend)
{
    struct window_preset same[] = {{"Plate", NULL}, {"Plate, vocal", NULL}};
    struct window_model with = model;
    char path[600];
    (void)snprintf(path, sizeof path, "%s/Hall.wav", folder);
    same[0].path = same[1].path = path;
    with.n_presets = 2, with.presets = same;
    struct host h = host_open(&with, 1);
    (void)snprintf(fake.state.mask[0], WINDOW_PATH, "%s", path);
    click_row(&h, "Plate, vocal", 1);
    until(&h, h.w->selected == 1, "no preset is selected");
    settle(&h);
    click_part(&h, PART_LOAD);
    until(&h, fake.preset == 1, "Load loads no preset with the response that plays");
    browser_open(h.w, LIST_FOLDER, folder);
    until(&h, row_of(&h, "Hall.wav") >= 0, "the folder is not listed");
    click_elsewhere(&h);
    click_row(&h, "Hall.wav", 1);
    settle(&h);
    check(!browser_can_load(h.w), "the response that plays can be loaded");
    const int n_drawn = h.w->n_drawn;
    (void)snprintf(fake.state.error, sizeof fake.state.error, "dry: Hall.wav was missing");
    until(&h, h.w->n_drawn > n_drawn && rects_touch(h.w->drawn, h.w->part[PART_LOAD]), "Load is not drawn");
    click_part(&h, PART_LOAD);
    until(&h, fake.n_loaded == 1, "after an error Load does nothing");
    host_close(&h);
}

/* ---- drag and drop ----------------------------------------------------------------------------------------------- */

static void send(struct host *h, Window source, const char *message, long a, long b, long c)
{
    XEvent event = {.xclient = {.type = ClientMessage,
                                .window = window_id(h->w),
                                .format = 32,
                                .message_type = XInternAtom(h->display, message, False),
                                .data.l = {(long)source, a, b, c}}};
    XSendEvent(h->display, window_id(h->w), False, NoEventMask, &event);
}

/* Waits for the answer of the window to the source; returns its second number. */
static long answer(struct host *h, Window source, const char *message)
{
    XEvent event = {0};
    until(h, event.type == ClientMessage || XCheckTypedWindowEvent(h->display, source, ClientMessage, &event),
          "no %s comes back", message);
    check(event.xclient.message_type == XInternAtom(h->display, message, False), "it is not %s that comes back",
          message);
    return event.xclient.data.l[1];
}

/* Drops a list of addresses; `type` is offered. Returns 1 if the window took it. */
static long drop(struct host *h, const char *type, const char *uris)
{
    const Window source = XCreateSimpleWindow(h->display, DefaultRootWindow(h->display), 0, 0, 1, 1, 0, 0, 0);
    const Atom selection = XInternAtom(h->display, "XdndSelection", False),
               offered = XInternAtom(h->display, type, False);
    XSetSelectionOwner(h->display, selection, source, CurrentTime);
    send(h, source, "XdndEnter", 5L << 24, (long)offered, 0);
    send(h, source, "XdndPosition", 0, 100 << 16 | 100, CurrentTime);
    const long accepts = answer(h, source, "XdndStatus");
    check(h->w->is_drop_target == accepts, "the frame for a drop: %d", h->w->is_drop_target);
    if (!accepts) {
        send(h, source, "XdndLeave", 0, 0, 0);
        settle(h);
        return 0;
    }
    send(h, source, "XdndDrop", 0, CurrentTime, 0);
    XEvent event = {0};
    until(h, event.type == SelectionRequest || XCheckTypedEvent(h->display, SelectionRequest, &event),
          "the window does not ask for the files");
    const XSelectionRequestEvent *asks = &event.xselectionrequest;
    XChangeProperty(h->display, asks->requestor, asks->property, asks->target, 8, PropModeReplace,
                    (const unsigned char *)uris, (int)strlen(uris));
    XEvent note = {.xselection = {.type = SelectionNotify,
                                  .requestor = asks->requestor,
                                  .selection = asks->selection,
                                  .target = asks->target,
                                  .property = asks->property}};
    XSendEvent(h->display, asks->requestor, False, NoEventMask, &note);
    const long taken = answer(h, source, "XdndFinished");
    XDestroyWindow(h->display, source);
    return taken;
}

static void a_dropped_file_is_loaded(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    check(drop(&h, "text/uri-list", "# a comment\r\nfile:///a%20b/%C3%A4.wav\r\nfile:///second.wav\r\n") == 1,
          "it is refused");
    check(strcmp(fake.loaded, "/a b/ä.wav") == 0, "%s", fake.loaded);
    check(drop(&h, "text/uri-list", "file://computer/c.wav") == 1 && strcmp(fake.loaded, "/c.wav") == 0, "%s",
          fake.loaded);
    check(fake.n_loaded == 2, "%d loads", fake.n_loaded);
    static const char *const bad[] = {"https://example.org/a.wav\r\n", "file:", "file:///a%00b", "", "\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        h.w->notice[0] = '\0';
        check(drop(&h, "text/uri-list", bad[i]) == 0 && fake.n_loaded == 2, "%s is loaded", bad[i]);
        check(strstr(h.w->notice, "save it first"), "%s: %s", bad[i], h.w->notice);
    }
    check(drop(&h, "text/plain", "x") == 0 && !h.w->typing, "a text is accepted");
    host_close(&h);
}

static void a_drag_that_leaves_is_forgotten(const char *backend)
{
    struct host h = host_open(&model, 1);
    const Window source = XCreateSimpleWindow(h.display, DefaultRootWindow(h.display), 0, 0, 1, 1, 0, 0, 0);
    XEvent event;
    settle(&h);
    send(&h, source, "XdndEnter", 5L << 24, (long)XInternAtom(h.display, "text/uri-list", False), 0);
    send(&h, source, "XdndPosition", 0, 100 << 16 | 100, CurrentTime);
    check(answer(&h, source, "XdndStatus") == 1 && h.w->is_drop_target, "a file is refused");
    send(&h, source, "XdndLeave", 0, 0, 0);
    until(&h, !h.w->is_drop_target, "the frame for a drop stays");
    send(&h, source, "XdndDrop", 0, CurrentTime, 0);
    settle(&h);
    check(!XCheckTypedWindowEvent(h.display, source, ClientMessage, &event),
          "a drop after the drag has left is answered");
    host_close(&h);
}

static void an_answer_that_it_did_not_ask_for_does_no_harm(const char *backend)
{
    struct host h = host_open(&model, 1);
    const Atom types[] = {XA_STRING}, property = XInternAtom(h.display, "HALOCONV_TEST", False);
    settle(&h);
    XChangeProperty(h.display, window_id(h.w), property, XA_ATOM, 32, PropModeReplace, (const unsigned char *)types, 1);
    XEvent note = {.xselection = {.type = SelectionNotify,
                                  .requestor = window_id(h.w),
                                  .selection = XA_PRIMARY,
                                  .target = XInternAtom(h.display, "TARGETS", False),
                                  .property = property}};
    XSendEvent(h.display, window_id(h.w), False, NoEventMask, &note);
    settle(&h);
    check(window_idle(h.w) == WINDOW_OPEN && fake.n_loaded == 0, "the window has ended, or loads something");
    host_close(&h);
}

/* Answers requests for the clipboard, for the type that is offered, until the window has a path or refuses it. */
static void paste(struct host *h, const char *type, const char *text)
{
    const Window source = XCreateSimpleWindow(h->display, DefaultRootWindow(h->display), 0, 0, 1, 1, 0, 0, 0);
    const Atom selection = XInternAtom(h->display, "CLIPBOARD", False), offered = XInternAtom(h->display, type, False);
    const KeyCode control = XKeysymToKeycode(h->display, XK_Control_L);
    XSetSelectionOwner(h->display, selection, source, CurrentTime);
    h->w->notice[0] = '\0';
    const int n_before = fake.n_loaded;
    XTestFakeKeyEvent(h->display, control, True, CurrentTime);
    key(h, XK_v, false);
    XTestFakeKeyEvent(h->display, control, False, CurrentTime);
    for (int i = 0; i < 500 && fake.n_loaded == n_before && !h->w->notice[0]; i++) {
        XEvent event = {0};
        XSync(h->display, False);
        window_idle(h->w);
        pause_us(4000);
        if (!XCheckTypedEvent(h->display, SelectionRequest, &event)) continue;
        const XSelectionRequestEvent *asks = &event.xselectionrequest;
        XEvent note = {.xselection = {.type = SelectionNotify,
                                      .requestor = asks->requestor,
                                      .target = asks->target,
                                      .selection = asks->selection}};
        if (asks->target == offered) {
            note.xselection.property = asks->property;
            XChangeProperty(h->display, asks->requestor, asks->property, offered, 8, PropModeReplace,
                            (const unsigned char *)text, (int)strlen(text));
        }
        XSendEvent(h->display, asks->requestor, False, NoEventMask, &note);
    }
    XDestroyWindow(h->display, source);
}

static void a_pasted_file_is_loaded(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    click_elsewhere(&h); /* the window gets the keyboard */
    settle(&h);
    paste(&h, "text/uri-list", "file:///a%20b.wav\r\n");
    check(fake.n_loaded == 1 && strcmp(fake.loaded, "/a b.wav") == 0, "%s", fake.loaded);
    paste(&h, "UTF8_STRING", "/c%20d.wav");
    check(fake.n_loaded == 2 && strcmp(fake.loaded, "/c%20d.wav") == 0, "%s", fake.loaded);
    paste(&h, "UTF8_STRING", "a sentence");
    check(fake.n_loaded == 2 && h.w->notice[0], "a sentence is loaded: %s", fake.loaded);
    paste(&h, "image/png", "x");
    check(fake.n_loaded == 2 && h.w->notice[0], "a picture is loaded: %s", fake.loaded);
    host_close(&h);
}

static void a_source_that_ends_in_the_middle_of_a_drop_does_no_harm(const char *backend)
{
    struct host h = host_open(&model, 1);
    settle(&h);
    send(&h, 0x7ffffff0, "XdndEnter", 5L << 24 | 1, 0, 0);
    send(&h, 0x7ffffff0, "XdndPosition", 0, 0, 0);
    send(&h, 0x7ffffff0, "XdndDrop", 0, 0, 0);
    settle(&h);
    click_part(&h, PART_CONTROLS + ENABLED);
    until(&h, fake.value[ENABLED] == 0, "a click on the switch does nothing");
    host_close(&h);
}

static void prepare(void)
{
    files_make();
    models_make();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(opened_and_closed_100_times_it_leaves_nothing, 0),
        TEST(closed_while_a_knob_is_dragged_it_ends_the_gesture, 0),
        TEST(a_drag_ends_before_another_gesture_begins, 0),
        TEST(the_parent_may_be_destroyed_first, 0),
        TEST(errors_of_the_host_reach_the_host, 0),
        TEST(windows_of_two_threads_leave_each_other_their_handlers, 0),
        TEST(handlers_that_another_plugin_restores_do_not_call_themselves, 0),
        TEST(a_parent_that_does_not_exist_is_an_error, 0),
        TEST(without_a_display_it_is_an_error, 0),
        TEST(the_end_of_the_x_server_ends_the_window_only, 0),
        TEST(reparented_it_still_works, 0),
        TEST(two_windows_in_one_process_do_not_disturb_each_other, 0),
        TEST(resized_and_scaled_all_parts_are_visible, 0),
        TEST(scales_are_limited, 0),
        TEST(the_scale_of_the_desktop_is_that_of_the_default_size, 0),
        TEST(hidden_and_shown_it_draws_again, 0),
        TEST(at_rest_it_draws_nothing_and_needs_no_processor, 0),
        TEST(meters_that_move_redraw_only_themselves_30_times_a_second, 0),
        TEST(a_value_that_the_host_changes_redraws_its_knob, 0),
        TEST(pictures_at_three_scales, 0),
        TEST(screens_of_all_depths_show_the_same_picture, 0),
        TEST(an_error_is_red_and_hides_the_status, 0),
        TEST(each_control_is_set_by_mouse_wheel_keys_and_typing, 0),
        TEST(tab_goes_round_both_ways, 0),
        TEST(the_source_follows_mouse_wheel_and_keys, 0),
        TEST(a_and_b_are_chosen_by_mouse_and_key, 0),
        TEST(an_empty_side_shows_the_mask_of_the_other, 0),
        TEST(a_response_is_chosen_seen_and_loaded_by_mouse, 0),
        TEST(a_response_is_chosen_by_keys, 0),
        TEST(the_top_lists_the_last_folder_used, 0),
        TEST(a_file_that_is_not_a_response_says_why, 0),
        TEST(previews_tell_banks_configurations_and_large_files, 0),
        TEST(names_that_are_not_utf8_do_not_stop_the_drawing, 0),
        TEST(a_preset_is_chosen_by_a_double_click, 0),
        TEST(what_plays_can_be_loaded_again_where_that_changes_something, 0),
        TEST(a_dropped_file_is_loaded, 0),
        TEST(a_drag_that_leaves_is_forgotten, 0),
        TEST(an_answer_that_it_did_not_ask_for_does_no_harm, 0),
        TEST(a_pasted_file_is_loaded, 0),
        TEST(a_source_that_ends_in_the_middle_of_a_drop_does_no_harm, 0),
    };
    return server_check_main("window", tests, sizeof tests / sizeof *tests, prepare);
}
