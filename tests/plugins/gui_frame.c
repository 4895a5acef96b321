#include "gui_frame.h"

void gui_frame_open(struct gui_frame *f, int width, int height)
{
    f->display = XOpenDisplay(NULL);
    f->window = host_window(f->display, width, height);
}

void gui_frame_close(struct gui_frame *f)
{
    XCloseDisplay(f->display);
}

void gui_frame_lay_out(struct gui_frame *f, const struct variant *variant, int width, int height)
{
    plugin_window_init(&f->content, variant, "", NULL, NULL);
    f->layout.model = &f->content.model;
    f->layout.width = width, f->layout.height = height, f->layout.scale = 1;
    layout_make(&f->layout);
}

unsigned gui_children(const struct gui_frame *f, XWindowAttributes *is)
{
    Window root, parent, *children = NULL;
    unsigned n = 0;
    XQueryTree(f->display, f->window, &root, &parent, &children, &n);
    if (n == 1) XGetWindowAttributes(f->display, children[0], is);
    if (children) XFree(children);
    return n;
}

static int ignore_error(Display *display, XErrorEvent *event)
{
    return 0;
}

void gui_ignore_errors(void)
{
    XSetErrorHandler(ignore_error);
}

struct rect gui_part(const struct gui_frame *f, int control)
{
    int i = 0;
    while (i < f->content.model.n_controls && f->content.control[i] != control) i++;
    check(i < f->content.model.n_controls, "%s is not in the window", controls[control].name);
    return f->layout.part[PART_CONTROLS + i];
}

struct rect gui_row(const struct gui_frame *f, int n)
{
    struct rect row = f->layout.part[PART_LIST];
    row.h = f->layout.row_height;
    row.y += n * row.h;
    return row;
}

void gui_point(struct gui_frame *f, struct rect r, int dx, int dy)
{
    XTestFakeMotionEvent(f->display, -1, r.x + r.w / 2 + dx, r.y + r.h / 2 + dy, CurrentTime);
}

void gui_press(struct gui_frame *f, unsigned button, bool is_down)
{
    XTestFakeButtonEvent(f->display, button, is_down, CurrentTime);
}

void gui_click(struct gui_frame *f, struct rect r, unsigned button, int n)
{
    gui_point(f, r, 0, 0);
    for (int i = 0; i < n; i++) gui_press(f, button, true), gui_press(f, button, false);
}
