#include "drop.h"
#include "parts.h"

#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <math.h>
#include <pthread.h>
#include <pugl/stub.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double frame_s = 0.031; /* at most 30 drawings a second, with a timer of the host that is a little early */
static const float silence_db = -100, fall_db_s = 20;

static Display *display_of(const struct window *w)
{
    return puglGetNativeWorld(w->world);
}

/* ---- errors of the X server -------------------------------------------------------------------------------------- */

/* Xlib has one handler of a kind in a process, and the default ones end the process. The windows' handlers are in place
 * only during calls of a window, which several threads may make at once: the first call installs them, and the last one
 * restores those of the host. Xlib reports the errors of a connection to the thread that reads from it. */
static _Thread_local struct window *guarded;
static pthread_mutex_t guards = PTHREAD_MUTEX_INITIALIZER;
static int n_guards; /* under guards */
static _Atomic XErrorHandler other_handler;
static _Atomic XIOErrorHandler other_loss_handler;

static int note_error(Display *display, XErrorEvent *event)
{
    struct window *w = guarded;
    XErrorHandler other = other_handler;
    if (!w || display != display_of(w)) return other ? other(display, event) : 0;
    /* The window itself is gone, or never came about. Others are, for example, a source of a drop that has ended. */
    if (!w->view || event->resourceid == window_id(w)) w->is_gone = true;
    return 0;
}

/* The connection is lost. */
static int note_loss(Display *display)
{
    XIOErrorHandler other = other_loss_handler;
    if (!guarded || display != display_of(guarded)) return other ? other(display) : 0;
    guarded->is_gone = true;
    return 0;
}

/* Xlib calls it after note_loss, and returns to the window after it. */
static void window_go_on(Display *display, void *data)
{
    (void)display, (void)data;
}

/* Returns the window of the call that this call is inside of, for unguard. */
static struct window *guard(struct window *w)
{
    struct window *outer = guarded;
    guarded = w;
    pthread_mutex_lock(&guards);
    if (n_guards++ == 0) {
        XErrorHandler other = XSetErrorHandler(note_error);
        XIOErrorHandler other_loss = XSetIOErrorHandler(note_loss);
        /* Another plugin that guarded meanwhile may have restored these handlers, which must not call themselves. */
        if (other != note_error) other_handler = other;
        if (other_loss != note_loss) other_loss_handler = other_loss;
    }
    pthread_mutex_unlock(&guards);
    return outer;
}

static void unguard(struct window *outer)
{
    guarded = outer;
    pthread_mutex_lock(&guards);
    if (--n_guards == 0) {
        XSetErrorHandler(other_handler);
        XSetIOErrorHandler(other_loss_handler);
    }
    pthread_mutex_unlock(&guards);
}

/* ---- what has changed -------------------------------------------------------------------------------------------- */

static struct rect rect_joined(struct rect a, struct rect b)
{
    if (a.w <= 0) return b;
    if (b.w <= 0) return a;
    const int x = a.x < b.x ? a.x : b.x, y = a.y < b.y ? a.y : b.y;
    const int right = a.x + a.w > b.x + b.w ? a.x + a.w : b.x + b.w;
    const int bottom = a.y + a.h > b.y + b.h ? a.y + a.h : b.y + b.h;
    return (struct rect){x, y, right - x, bottom - y};
}

void window_changed(struct window *w, int part)
{
    if (part == NO_PART) return;
    w->changed = rect_joined(w->changed, part == N_PARTS ? (struct rect){0, 0, w->width, w->height} : w->part[part]);
}

static bool meter_moves(struct window_meter *meter, float peak, double seconds)
{
    const float db = peak > 0 ? 20 * log10f(peak) : silence_db, fallen = meter->db - fall_db_s * (float)seconds;
    meter->db = fmaxf(fmaxf(db, fallen), silence_db);
    const float drawn = rintf(5 * meter->db) / 5, before = meter->drawn_db;
    meter->drawn_db = drawn;
    return drawn != before;
}

static bool masks_differ(const struct window_state *a, const struct window_state *b)
{
    return a->side != b->side || a->gain_db[0] != b->gain_db[0] || a->gain_db[1] != b->gain_db[1] ||
           strcmp(a->mask[0], b->mask[0]) != 0 || strcmp(a->mask[1], b->mask[1]) != 0;
}

static void refresh_state(struct window *w, double seconds)
{
    struct window_state now, *was = &w->state;
    memset(&now, 0, sizeof now);
    w->model->state(w->model->data, &now);
    now.load = rintf(now.load);
    bool meters = meter_moves(&w->in, now.in_peak, seconds);
    meters |= meter_moves(&w->out, now.out_peak, seconds);
    if (meters || now.load != was->load || now.late != was->late || now.lost != was->lost ||
        now.overruns != was->overruns || strcmp(now.backend, was->backend) != 0)
        window_changed(w, PART_METERS);
    if (strcmp(now.status, was->status) != 0) window_changed(w, PART_STATUS);
    if (strcmp(now.error, was->error) != 0) {
        window_changed(w, PART_STATUS);
        window_changed(w, PART_LOAD);
    }
    if (masks_differ(&now, was)) {
        window_changed(w, PART_SIDE_A);
        window_changed(w, PART_SIDE_B);
        window_changed(w, PART_LIST);
        window_changed(w, PART_PICTURE);
    }
    *was = now;
}

void window_show_value(struct window *w, int i)
{
    const double value = w->model->get(w->model->data, i);
    if (value == w->value[i]) return;
    w->value[i] = value;
    window_changed(w, PART_CONTROLS + i);
    if (i == w->model->azimuth || i == w->model->distance) window_changed(w, PART_CIRCLE);
}

static void show_values(struct window *w)
{
    for (int i = 0; i < w->model->n_controls; i++) window_show_value(w, i);
}

static void refresh(struct window *w)
{
    const double now = puglGetTime(w->world);
    if (now - w->drawn_at < frame_s) return;
    refresh_state(w, now - w->drawn_at);
    show_values(w);
    browser_update(w);
    w->drawn_at = now;
    const struct rect r = w->changed;
    w->changed = (struct rect){0};
    if (r.w > 0 && r.h > 0)
        puglPostRedisplayRect(w->view, (PuglRect){(PuglCoord)r.x, (PuglCoord)r.y, (PuglSpan)r.w, (PuglSpan)r.h});
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* The value of 8 bits, in the bits of a mask. */
static unsigned long in_mask(unsigned value, unsigned long mask)
{
    const unsigned long lowest = mask & (~mask + 1), largest = lowest ? mask / lowest : 0;
    return (value * largest + 127) / 255 * lowest;
}

/* Copies the picture to the window. An X server with another format than that of Cairo gets a converted one. */
static void put_image(struct window *w, cairo_surface_t *image, struct rect r)
{
    const int one = 1, stride = cairo_image_surface_get_stride(image);
    uint32_t *pixels = (uint32_t *)(void *)cairo_image_surface_get_data(image);
    XImage *to = XCreateImage(display_of(w), w->visual, (unsigned)w->depth, ZPixmap, 0, NULL, (unsigned)r.w,
                              (unsigned)r.h, 32, 0);
    if (!to) return;
    to->byte_order = *(const char *)&one ? LSBFirst : MSBFirst; /* Xlib swaps the bytes for another server */
    const bool is_same =
        to->bits_per_pixel == 32 && to->red_mask == 0xff0000 && to->green_mask == 0xff00 && to->blue_mask == 0xff;
    to->data = is_same ? (char *)pixels : malloc((size_t)to->bytes_per_line * r.h);
    if (is_same) to->bytes_per_line = stride;
    for (int y = 0; y < r.h && !is_same && to->data; y++)
        for (int x = 0; x < r.w; x++) {
            const uint32_t pixel = pixels[(size_t)y * (stride / 4) + x];
            XPutPixel(to, x, y,
                      in_mask(pixel >> 16 & 255, to->red_mask) | in_mask(pixel >> 8 & 255, to->green_mask) |
                          in_mask(pixel & 255, to->blue_mask));
        }
    GC gc = XCreateGC(display_of(w), window_id(w), 0, NULL);
    if (to->data) XPutImage(display_of(w), window_id(w), gc, to, 0, 0, r.x, r.y, (unsigned)r.w, (unsigned)r.h);
    XFreeGC(display_of(w), gc);
    if (is_same) to->data = NULL; /* Cairo's */
    XDestroyImage(to);
}

/* Draws into memory: Cairo 1.16 does not free all that it keeps for a connection to an X server. */
static void expose(struct window *w, struct rect r)
{
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, r.w, r.h);
    cairo_t *cr = cairo_create(image);
    w->drawn = r;
    w->n_drawn++;
    cairo_translate(cr, -r.x, -r.y);
    draw_window(cr, w, r);
    cairo_surface_flush(image);
    if (cairo_status(cr) == CAIRO_STATUS_SUCCESS) put_image(w, image, r);
    cairo_destroy(cr);
    cairo_surface_destroy(image);
}

static PuglStatus on_event(PuglView *view, const PuglEvent *event)
{
    struct window *w = puglGetHandle(view);
    switch (event->type) {
    case PUGL_CONFIGURE:
        if (w->width == event->configure.width && w->height == event->configure.height) break;
        w->width = event->configure.width;
        w->height = event->configure.height;
        layout_make(w);
        window_changed(w, N_PARTS);
        break;
    case PUGL_UPDATE:
        refresh(w);
        break;
    case PUGL_EXPOSE:
        expose(w, (struct rect){event->expose.x, event->expose.y, event->expose.width, event->expose.height});
        break;
    case PUGL_CLOSE:
        w->is_closed = true;
        break;
    case PUGL_BUTTON_PRESS:
        if (event->button.button != 0) break;
        puglGrabFocus(view);
        input_press(w, event->button.x, event->button.y, event->button.state, event->button.time);
        break;
    case PUGL_BUTTON_RELEASE:
        if (event->button.button == 0) input_release(w);
        break;
    case PUGL_MOTION:
        input_motion(w, event->motion.x, event->motion.y, event->motion.state);
        break;
    case PUGL_POINTER_OUT:
        input_leave(w);
        break;
    case PUGL_SCROLL:
        input_wheel(w, event->scroll.x, event->scroll.y, event->scroll.dy, event->scroll.state);
        break;
    case PUGL_KEY_PRESS:
        if (event->key.key == 'v' && event->key.state == PUGL_MOD_CTRL) drop_paste(w->drop);
        input_key(w, event->key.key, event->key.state);
        break;
    case PUGL_TEXT:
        input_text(w, event->text.string);
        break;
    default:
        break;
    }
    return PUGL_SUCCESS;
}

static void load_dropped(struct window *w, XEvent *event)
{
    char path[WINDOW_PATH];
    if (drop_read(w->drop, event, path, sizeof path)) {
        if (path[0])
            browser_load(w, path);
        else
            (void)snprintf(w->notice, sizeof w->notice, "This is not a file of this computer; save it first");
        window_changed(w, PART_STATUS);
    }
    if (w->is_drop_target != drop_is_over(w->drop)) {
        w->is_drop_target = !w->is_drop_target;
        window_changed(w, N_PARTS);
    }
}

/* pugl calls it instead of XNextEvent (window.mk), and ignores the events that are handled here. A SelectionNotify it would
 * read without a check, and any client can send one: pugl does not know the window that it gets instead. */
int window_next_event(Display *display, XEvent *event)
{
    const int result = XNextEvent(display, event);
    if (event->type == DestroyNotify && event->xdestroywindow.window == window_id(guarded)) guarded->is_gone = true;
    if (!guarded->is_gone) load_dropped(guarded, event);
    /* Xlib crashes on a key of code 0 that another client sends; its own ones, of input methods, were not sent. */
    bool is_key = event->type == KeyPress || event->type == KeyRelease;
    if (event->type == SelectionNotify || (is_key && event->xany.send_event && event->xkey.keycode < 8))
        event->xany.window = None;
    return result;
}

enum window_result window_idle(struct window *w)
{
    struct window *outer = guard(w);
    if (!w->is_gone) puglUpdate(w->world, 0);
    if (!w->is_gone) XFlush(display_of(w));
    unguard(outer);
    return w->is_gone ? WINDOW_GONE : w->is_closed ? WINDOW_CLOSED : WINDOW_OPEN;
}

/* ---- opens and closes -------------------------------------------------------------------------------------------- */

double window_desktop_scale(void)
{
    PuglWorld *world = puglNewWorld(PUGL_MODULE, 0);
    PuglView *view = world ? puglNewView(world) : NULL;
    const double scale = view ? puglGetScaleFactor(view) : 1;
    if (view) puglFreeView(view);
    if (world) puglFreeWorld(world);
    return scale;
}

static void set_smallest_size(struct window *w)
{
    int width, height;
    window_smallest_size(w->model, w->scale, &width, &height);
    puglSetSizeHint(w->view, PUGL_MIN_SIZE, (PuglSpan)width, (PuglSpan)height);
}

/* Makes view and X11 window. false with is_gone: the parent does not exist; else: no memory. */
static bool open_view(struct window *w, const struct window_config *config)
{
    XWindowAttributes attributes;
    XSetIOErrorExitHandler(display_of(w), window_go_on, NULL);
    if (config->parent && !XGetWindowAttributes(display_of(w), config->parent, &attributes)) return false;
    if (!(w->view = puglNewView(w->world))) return false;
    w->scale = layout_scale(config->scale > 0 ? config->scale : puglGetScaleFactor(w->view));
    w->width = config->width, w->height = config->height;
    if (w->width <= 0 || w->height <= 0) window_default_size(w->model, w->scale, &w->width, &w->height);
    puglSetHandle(w->view, w);
    puglSetEventFunc(w->view, on_event);
    puglSetViewHint(w->view, PUGL_RESIZABLE, PUGL_TRUE);
    puglSetParentWindow(w->view, config->parent);
    puglSetSize(w->view, (unsigned)w->width, (unsigned)w->height);
    set_smallest_size(w);
    puglSetWindowTitle(w->view, w->model->title);
    puglSetBackend(w->view, puglStubBackend());
    if (puglRealize(w->view) != PUGL_SUCCESS || !(w->drop = drop_open(display_of(w), window_id(w)))) return false;
    if (!XGetWindowAttributes(display_of(w), window_id(w), &attributes)) return false;
    w->visual = attributes.visual;
    w->depth = attributes.depth;
    layout_make(w);
    refresh_state(w, 0);
    show_values(w);
    puglShow(w->view);
    XSync(display_of(w), False); /* some hosts look for the window at once */
    return !w->is_gone;
}

struct window *window_open(const struct window_model *model, const struct window_config *config, char *why, size_t cap)
{
    struct window *w = calloc(1, sizeof *w);
    (void)snprintf(why, cap, "not enough memory for the window; close other programs");
    if (!w) return NULL;
    w->model = model;
    w->focus = w->hover = w->pressed = w->last_part = NO_PART;
    w->selected = -1;
    w->in = w->out = (struct window_meter){silence_db, silence_db};
    if (!(w->world = puglNewWorld(PUGL_MODULE, 0))) {
        (void)snprintf(why, cap, "no X11 display%s%s; start the host on a desktop with X11 or Xwayland",
                       getenv("DISPLAY") ? " at " : "", getenv("DISPLAY") ? getenv("DISPLAY") : "");
        free(w);
        return NULL;
    }
    puglSetClassName(w->world, "haloconv");
    struct window *outer = guard(w);
    const bool is_open = (w->responses = responses_open(model->has_banks)) && open_view(w, config);
    unguard(outer);
    if (!is_open) {
        if (w->is_gone)
            (void)snprintf(why, cap, "the host's window 0x%llx does not exist; close the window and open it again",
                           (unsigned long long)config->parent);
        window_close(w);
        return NULL;
    }
    const bool has_presets = model->n_presets > 0, has_folder = model->n_folders > 0;
    browser_open(w,
                 has_presets  ? LIST_PRESETS
                 : has_folder ? LIST_FOLDER
                              : LIST_TOP,
                 has_folder ? model->folders[0] : "");
    return w;
}

void window_close(struct window *w)
{
    if (!w) return;
    struct window *outer = guard(w);
    input_release(w);
    browser_close(w);
    drop_close(w->drop);
    if (w->view) puglFreeView(w->view);
    w->view = NULL;
    puglFreeWorld(w->world);
    unguard(outer);
    free(w);
}

void window_resize(struct window *w, int width, int height)
{
    struct window *outer = guard(w);
    if (!w->is_gone && width > 0 && height > 0) puglSetSize(w->view, (unsigned)width, (unsigned)height);
    XFlush(display_of(w));
    unguard(outer);
}

void window_set_scale(struct window *w, double scale)
{
    struct window *outer = guard(w);
    if (!w->is_gone && scale > 0) {
        w->scale = layout_scale(scale);
        set_smallest_size(w);
        layout_make(w);
        window_changed(w, N_PARTS);
    }
    unguard(outer);
}

void window_show(struct window *w, bool is_visible)
{
    struct window *outer = guard(w);
    if (!w->is_gone) (void)(is_visible ? puglShow(w->view) : puglHide(w->view));
    XFlush(display_of(w));
    unguard(outer);
}

void window_set_title(struct window *w, const char *title)
{
    struct window *outer = guard(w);
    if (!w->is_gone) puglSetWindowTitle(w->view, title);
    XFlush(display_of(w));
    unguard(outer);
}

void window_set_transient(struct window *w, uintptr_t owner)
{
    struct window *outer = guard(w);
    if (!w->is_gone) puglSetTransientParent(w->view, owner);
    XFlush(display_of(w));
    unguard(outer);
}

void window_size(const struct window *w, int *width, int *height)
{
    *width = w->width, *height = w->height;
}

uintptr_t window_id(const struct window *w)
{
    return puglGetNativeView(w->view);
}

int window_descriptor(const struct window *w)
{
    return ConnectionNumber(display_of(w));
}
