/* The window of the LV2 plugins: haloconv_ui.so in a host of one frame, on an X server without a screen (Xvfb). */
#include "plugins/haloconv.lv2/messages.h" /* before X11, which defines Bool */
#include "plugins/haloconv.lv2/ports.h"

#include "gui_frame.h"

#include <X11/Xutil.h>
#include <dlfcn.h>
#include <lv2/core/lv2.h>
#include <lv2/data-access/data-access.h>
#include <lv2/instance-access/instance-access.h>
#include <lv2/ui/ui.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a host -------------------------------------------------------------------------------------- */

static LV2_URID map(LV2_URID_Map_Handle handle, const char *uri)
{
    static char uris[64][128];
    LV2_URID i = 0;
    while (i < 64 && uris[i][0] && strcmp(uris[i], uri) != 0) i++;
    check(i < 64, "too many URIs");
    (void)snprintf(uris[i], sizeof uris[i], "%s", uri);
    return i + 1;
}

static LV2_URID_Map mapper = {NULL, map};

struct shown {
    const struct variant *variant;
    const LV2UI_Descriptor *ui;
    const LV2UI_Idle_Interface *idle;
    LV2UI_Handle handle;
    LV2UI_Widget widget;
    struct gui_frame f;
    struct uris uris;
    char log[1000]; /* what came: "hold 9\n", "9 = 1.5\n", "release 9\n", "ask\n", "load PATH\n" */
    int width, height;
};
static struct shown host;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    va_list args;
    const size_t used = strlen(host.log);
    va_start(args, format);
    (void)vsnprintf(host.log + used, sizeof host.log - used, format, args);
    va_end(args);
}

static void on_write(LV2UI_Controller controller, uint32_t port, uint32_t size, uint32_t protocol, const void *data)
{
    const char *text;
    size_t length;
    check(controller == &host, "another controller");
    if (protocol == 0) {
        check(size == sizeof(float), "a value of %u bytes", size);
        note("%u = %g\n", port, (double)*(const float *)data);
        return;
    }
    const LV2_Atom *atom = data;
    check(protocol == host.uris.event_transfer && size == lv2_atom_total_size(atom), "a message of %u bytes", size);
    check(port == (uint32_t)(host.variant->n_in + host.variant->n_out + variant_messages(host.variant)), "port %u",
          port);
    int side;
    const enum patch patch = patch_read(&host.uris, atom, &side, &text, &length);
    check(patch != PATCH_NONE, "a message that the plugin ignores");
    if (patch == PATCH_GET)
        note("ask\n");
    else
        note("load%s %.*s\n", side == SIDE_B ? " B" : "", (int)length, text);
}

static void on_touch(LV2UI_Feature_Handle handle, uint32_t port, bool is_held)
{
    note("%s %u\n", is_held ? "hold" : "release", port);
}

static int on_resize(LV2UI_Feature_Handle handle, int width, int height)
{
    host.width = width, host.height = height;
    return 0;
}

static void get_meters(void *instance, struct core_meters *meters)
{
    check(instance == &mapper, "another instance");
    (void)snprintf(meters->engine, sizeof meters->engine, "an engine");
    meters->in_peak = meters->out_peak = 1;
}

static const void *data_access(const char *uri)
{
    static const struct plugin_meters meters = {get_meters};
    return strcmp(uri, METERS_URI) == 0 ? &meters : NULL;
}

static const LV2UI_Descriptor *load_ui(void)
{
    static void *library;
    char path[2048];
    (void)snprintf(path, sizeof path, "%s/haloconv.lv2/haloconv_ui.so", getenv("BUILD") ? getenv("BUILD") : "build");
    if (!library) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(library, "%s", dlerror());
    LV2UI_DescriptorFunction descriptor = (LV2UI_DescriptorFunction)(uintptr_t)dlsym(library, "lv2ui_descriptor");
    check(descriptor && descriptor(0) && !descriptor(1) && strcmp(descriptor(0)->URI, UI_URI) == 0, "no window");
    return descriptor(0);
}

static void open_ui(const struct variant *variant, bool has_instance)
{
    char uri[128];
    memset(&host, 0, sizeof host);
    host.variant = variant;
    host.ui = load_ui();
    gui_frame_open(&host.f, 1200, 800);
    (void)snprintf(uri, sizeof uri, PLUGIN_URI "%s", variant->symbol);
    uris_map(&host.uris, &mapper, uri, variant);
    static LV2UI_Touch touch = {NULL, on_touch};
    LV2UI_Resize resize = {NULL, on_resize};
    LV2_Extension_Data_Feature access = {data_access};
    const LV2_Feature features[] = {{LV2_URID__map, &mapper},
                                    {LV2_UI__parent, (void *)(uintptr_t)host.f.window},
                                    {LV2_UI__touch, &touch},
                                    {LV2_UI__resize, &resize},
                                    {LV2_INSTANCE_ACCESS_URI, &mapper},
                                    {LV2_DATA_ACCESS_URI, &access}};
    const LV2_Feature *list[] = {
        &features[0], &features[1], &features[2], &features[3], has_instance ? &features[4] : NULL, &features[5], NULL};
    host.handle = host.ui->instantiate(host.ui, uri, "/masks", on_write, &host, &host.widget, list);
    check(host.handle && host.widget, "%s has no window", uri);
    host.idle = host.ui->extension_data(LV2_UI__idleInterface);
    check(host.idle && strcmp(host.log, "ask\n") == 0, "the window does not ask for the mask: %s", host.log);
    check(host.width > 300 && host.height > 200, "the host hears of %d x %d pixels", host.width, host.height);
    host.log[0] = '\0';
    gui_frame_lay_out(&host.f, variant, host.width, host.height);
}

static void close_ui(void)
{
    host.ui->cleanup(host.handle);
    gui_frame_close(&host.f);
}

static void tick(void)
{
    check(host.idle->idle(host.handle) == 0, "the window has ended");
}

/* Runs the host's timer until the condition holds. */
#define until(condition, ...) gui_until(&host.f, tick(), condition, __VA_ARGS__)

static void settle(void)
{
    const double end = now_s() + 0.15;
    until(now_s() > end, "time stands still");
}

static int port_of(int control)
{
    int i = 0;
    while (variant_port_control(host.variant, i) != control) i++;
    return host.variant->n_in + host.variant->n_out + i;
}

/* Differences of a part between two pictures; every other call keeps the first one. */
static int pixels_changed(int part)
{
    static XImage *before;
    const struct rect r = host.f.layout.part[part];
    settle();
    XImage *now = XGetImage(host.f.display, (Window)(uintptr_t)host.widget, r.x, r.y, (unsigned)r.w, (unsigned)r.h,
                            AllPlanes, ZPixmap);
    int n = 0;
    for (int y = 0; before && y < r.h; y++)
        for (int x = 0; x < r.w; x++) n += XGetPixel(now, x, y) != XGetPixel(before, x, y);
    if (before) XDestroyImage(before), XDestroyImage(now);
    before = before ? NULL : now;
    return n;
}

/* ---- tests --------------------------------------------------------------------------------------- */

static void a_knob_writes_its_port_inside_a_gesture(const char *backend)
{
    char want[100];
    open_ui(&variants[2], true);
    const int port = port_of(GAIN);
    gui_click(&host.f, gui_part(&host.f, GAIN), 4, 1);
    (void)snprintf(want, sizeof want, "hold %d\n%d = 0.5\nrelease %d\n", port, port, port);
    until(strcmp(host.log, want) == 0, "a notch of the wheel sends\n%s", host.log);
    host.ui->port_event(host.handle, (uint32_t)port, sizeof(float), 0, &(float){-6}); /* the host's automation */
    host.log[0] = '\0';
    gui_click(&host.f, gui_part(&host.f, GAIN), 5, 1);
    (void)snprintf(want, sizeof want, "hold %d\n%d = -6.5\nrelease %d\n", port, port, port);
    until(strcmp(host.log, want) == 0, "after the host's -6 dB, a notch sends\n%s", host.log);
    close_ui();
}

static void a_preset_sends_its_mask_and_values(const char *backend)
{
    open_ui(&variants[2], false);
    settle();
    gui_click(&host.f, gui_row(&host.f, 3), 1, 2);
    until(strstr(host.log, "load "), "a double click loads nothing: %s", host.log);
    check(strcmp(host.log, "hold 4\n4 = 0\nrelease 4\nhold 5\n5 = -12\nrelease 5\nhold 7\n7 = 0\nrelease 7\n"
                           "load /masks/plate.wav\n") == 0,
          "%s", host.log);
    close_ui();
}

static uint32_t notify_port(void)
{
    return (uint32_t)(host.variant->n_in + host.variant->n_out + variant_messages(host.variant)) + 1;
}

static void send_text(LV2_URID property, const char *text)
{
    uint64_t buffer[600];
    LV2_Atom_Forge forge;
    lv2_atom_forge_init(&forge, &mapper);
    lv2_atom_forge_set_buffer(&forge, (uint8_t *)buffer, sizeof buffer);
    patch_set(&host.uris, &forge, property, text);
    const LV2_Atom *atom = (const LV2_Atom *)(const void *)buffer;
    host.ui->port_event(host.handle, notify_port(), lv2_atom_total_size(atom), host.uris.event_transfer, atom);
}

static void the_buttons_choose_the_side_that_is_loaded(const char *backend)
{
    char want[200];
    open_ui(&variants[2], false);
    settle();
    const int port = port_of(A_B);
    check(port == 4 + variant_messages(host.variant) + 3, "A/B is port %d, not the last one", port);
    gui_click(&host.f, host.f.layout.part[PART_SIDE_B], 1, 1);
    (void)snprintf(want, sizeof want, "hold %d\n%d = 1\nrelease %d\n", port, port, port);
    until(strcmp(host.log, want) == 0, "a click on B sends\n%s", host.log);
    gui_click(&host.f, gui_row(&host.f, 3), 1, 2);
    until(strstr(host.log, "load "), "a double click loads nothing: %s", host.log);
    check(strstr(host.log, "load B /masks/plate.wav\n"), "%s", host.log);
    pixels_changed(PART_SIDE_B);
    send_text(host.uris.masks[SIDE_B], "/a/church.wav");
    check(pixels_changed(PART_SIDE_B) > 20, "the mask of B is not shown");
    close_ui();
}

static void mask_and_status_of_the_plugin_are_shown(const char *backend)
{
    for (int v = 2; v < N_VARIANTS; v += N_VARIANTS - 3) { /* a plugin with a mask, one with a bank */
        open_ui(&variants[v], true);
        pixels_changed(PART_PICTURE);
        send_text(host.uris.masks[SIDE_A], "/a/church.wav");
        check(pixels_changed(PART_PICTURE) > 50, "%s: the mask is not shown", variants[v].symbol);
        pixels_changed(PART_STATUS);
        send_text(host.uris.status, "ok");
        check(pixels_changed(PART_STATUS) == 0, "%s: ok is an error", variants[v].symbol);
        pixels_changed(PART_STATUS);
        send_text(host.uris.status, "church.wav: the file does not exist");
        check(pixels_changed(PART_STATUS) > 50, "%s: an error is not shown", variants[v].symbol);
        close_ui();
    }
}

static void meters_come_from_the_instance(const char *backend)
{
    for (int has_instance = 0; has_instance < 2; has_instance++) {
        open_ui(&variants[0], has_instance);
        pixels_changed(PART_METERS);
        host.ui->port_event(host.handle, (uint32_t)port_of(LOAD), sizeof(float), 0, &(float){37});
        check(pixels_changed(PART_METERS) > 5, "the load is not shown");
        XImage *image = XGetImage(host.f.display, (Window)(uintptr_t)host.widget, 0, 0, (unsigned)host.width,
                                  (unsigned)host.height, AllPlanes, ZPixmap);
        const struct rect r = host.f.layout.part[PART_METERS];
        int n_lit = 0; /* pixels of a meter: far from grey */
        for (int y = r.y; y < r.y + r.h; y++)
            for (int x = r.x; x < r.x + r.w; x++) {
                const unsigned long p = XGetPixel(image, x, y);
                n_lit += labs((long)(p >> 16 & 255) - (long)(p & 255)) > 90;
            }
        XDestroyImage(image);
        check(has_instance ? n_lit > 100 : n_lit < 20, "%s an instance the meters have %d coloured pixels",
              has_instance ? "with" : "without", n_lit);
        close_ui();
    }
}

static void opened_and_closed_20_times_it_leaves_nothing(const char *backend)
{
    int files = 0, threads = 0;
    for (int i = 0; i < 21; i++) {
        open_ui(&variants[i % N_VARIANTS], i % 2);
        if (i % 3 == 0) settle();
        if (i % 3 == 1) { /* the frame goes first */
            XDestroyWindow(host.f.display, host.f.window);
            gui_until(&host.f, (void)0, host.idle->idle(host.handle) != 0, "the window does not end with its frame");
        }
        close_ui();
        if (i == 0) files = count_own("fd"), threads = count_own("task");
    }
    check(count_own("fd") == files && count_own("task") == threads, "files or threads are left");
}

static void a_text_that_ends_behind_its_message_is_ignored(const char *backend)
{
    open_ui(&variants[2], true);
    uint64_t buffer[64];
    const char *text;
    size_t length;
    LV2_Atom_Forge forge;
    lv2_atom_forge_init(&forge, &mapper);
    lv2_atom_forge_set_buffer(&forge, (uint8_t *)buffer, sizeof buffer);
    patch_set(&host.uris, &forge, host.uris.status, "an error of the plugin, cut");
    LV2_Atom *atom = (LV2_Atom *)(void *)buffer;
    pixels_changed(PART_STATUS);
    host.ui->port_event(host.handle, notify_port(), lv2_atom_total_size(atom) - 8, host.uris.event_transfer, atom);
    check(pixels_changed(PART_STATUS) == 0, "a message that is cut is shown");
    check(patch_property(&host.uris, atom, &text, &length) == host.uris.status && length == 27, "the status");
    atom->size -= 8;
    check(!patch_property(&host.uris, atom, &text, &length), "a text of %zu bytes in an object that is cut", length);
    close_ui();
}

static void hostile_messages_do_nothing(const char *backend)
{
    open_ui(&variants[2], true);
    uint32_t junk[64] = {0};
    struct random r = random_seeded(3);
    for (int round = 0; round < 20000; round++) {
        const uint32_t size = (uint32_t)random_int(&r, 0, (int)sizeof junk);
        for (size_t i = 0; i < 64; i++) junk[i] = (uint32_t)random_int(&r, 0, 40);
        if (size >= sizeof(LV2_Atom)) junk[0] = size - (uint32_t)sizeof(LV2_Atom);
        host.ui->port_event(host.handle, (uint32_t)random_int(&r, 0, 30), size,
                            random_int(&r, 0, 1) ? host.uris.event_transfer : 0, junk);
    }
    settle();
    close_ui();
    check(!host.ui->instantiate(host.ui, "urn:another", "/", on_write, &host, &host.widget,
                                (const LV2_Feature *[]){NULL}),
          "a window for another's plugin");
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_knob_writes_its_port_inside_a_gesture, 0),
        TEST(a_preset_sends_its_mask_and_values, 0),
        TEST(the_buttons_choose_the_side_that_is_loaded, 0),
        TEST(mask_and_status_of_the_plugin_are_shown, 0),
        TEST(meters_come_from_the_instance, 0),
        TEST(opened_and_closed_20_times_it_leaves_nothing, 0),
        TEST(a_text_that_ends_behind_its_message_is_ignored, 0),
        TEST(hostile_messages_do_nothing, 0),
    };
    return server_check_main("lv2_ui", tests, sizeof tests / sizeof *tests, gui_ignore_errors);
}
