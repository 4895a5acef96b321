/* parts - what the files of the window share: its parts, where they are, and the state of the user's input. */
#ifndef PARTS_H
#define PARTS_H

#include "responses.h"
#include "window.h"

#include <X11/Xlib.h>
#include <cairo.h>
#include <pugl/pugl.h>

/* A part is drawn, and found below the pointer, by its rectangle. The Tab key follows this order. */
enum part {
    PART_SIDE_A,
    PART_SIDE_B,
    PART_FOLDER,                   /* the folder whose responses are listed; leads to the folder above            */
    PART_LIST,
    PART_LOAD,                     /* plays the response of the preview                                           */
    PART_CIRCLE,
    PART_CONTROLS,                 /* first control of the model                                                  */
    PART_PICTURE = PART_CONTROLS + WINDOW_MAX_CONTROLS, /* from here on: parts that are only looked at            */
    PART_STRIP,                    /* with the knobs on it                                                        */
    PART_TITLE,
    PART_STATUS,
    PART_METERS,
    N_PARTS,
    NO_PART = -1
};

struct rect {
    int x, y, w, h;                /* pixels; w = 0: the part is absent                                           */
};

enum list_view { LIST_TOP, LIST_PRESETS, LIST_FOLDER };
enum row_kind { ROW_PRESETS, ROW_PRESET, ROW_ROOT, ROW_FOLDER, ROW_FILE };

struct row {
    enum row_kind kind;
    int index;                     /* of the preset, of the root folder, or of the entry in the listing           */
};

struct window_meter {              /* falls by 20 dB a second                                                     */
    float db, drawn_db;
};

struct window {
    const struct window_model *model;
    PuglWorld *world;
    PuglView *view;
    Visual *visual;                /* of the X11 window                                                           */
    int depth;
    struct drop *drop;
    struct responses *responses;
    bool is_gone, is_closed;
    double drawn_at;               /* when changes were last drawn, seconds                                       */
    struct rect changed;           /* what the next drawing redraws                                               */
    struct rect drawn;             /* what the last one has drawn                                                 */
    int n_drawn;                   /* drawings so far                                                             */

    int width, height;
    double scale;
    struct rect part[N_PARTS];
    int row_height;

    struct window_state state;     /* as drawn                                                                    */
    double value[WINDOW_MAX_CONTROLS];
    struct window_meter in, out;
    char notice[256];              /* an error of the window itself; "": none                                     */

    /* the list */
    enum list_view list_view;
    char folder[WINDOW_PATH];      /* of LIST_FOLDER, also the last one while another view is shown               */
    char last[WINDOW_PATH];        /* the last folder used, in LIST_TOP; "": it is one of the model's             */
    struct listing *listing;       /* of that folder; NULL: not yet read                                          */
    struct row *rows;
    int n_rows, first_row, selected; /* first_row: at the top of the list; selected: -1 = none                    */

    /* the picture */
    char wanted[WINDOW_PATH];      /* path of the preview that was requested last                                 */
    struct preview *preview;       /* NULL: none yet                                                              */

    /* input */
    int focus, hover, pressed;     /* parts, or NO_PART                                                           */
    bool shows_focus;              /* the keyboard was used last                                                  */
    bool is_drop_target;           /* a dragged file is above the window                                          */
    double press_x, press_y, press_position, press_time;
    int press_row, last_part, last_row; /* for double clicks                                                      */
    double last_press;
    bool typing;                   /* into the control that has the focus                                         */
    char typed[40];
};

/* layout.c */
double layout_scale(double scale); /* limited to 0.5 to 8; 0: as the desktop says */
void layout_make(struct window *window);
int layout_part_at(const struct window *window, double x, double y);
int layout_row_at(const struct window *window, double y); /* of the list; -1: no row */
int layout_visible_rows(const struct window *window);
struct rect layout_value(const struct window *window, int part); /* where the value of a knob stands */
void layout_source(const struct window *window, double *x, double *y); /* centre of the source on the circle */
double layout_radius(const struct window *window);
double control_position(const struct window_control *control, double value); /* 0 to 1 */
double control_value(const struct window_control *control, double position);
void layout_value_text(const struct window *window, int control, double value, char *text, size_t cap);

/* input.c */
void input_press(struct window *window, double x, double y, PuglMods mods, double time);
void input_motion(struct window *window, double x, double y, PuglMods mods);
void input_release(struct window *window);
void input_leave(struct window *window);
void input_wheel(struct window *window, double x, double y, double notches, PuglMods mods);
void input_key(struct window *window, uint32_t key, PuglMods mods);
void input_text(struct window *window, const char *text);

/* browser.c */
void browser_open(struct window *window, enum list_view view, const char *folder);
void browser_up(struct window *window);
void browser_select(struct window *window, int row); /* -1: none; the picture shows the mask that plays */
void browser_activate(struct window *window, int row); /* opens a folder, or loads */
void browser_load(struct window *window, const char *path);
bool browser_can_load(const struct window *window); /* a preset, a response that does not play, or one after an error */
void browser_update(struct window *window); /* results of the thread; the mask that plays */
const char *browser_folder_name(const struct window *window); /* of LIST_FOLDER: a name of the model, or the path */
const char *browser_row_name(const struct window *window, int row);
void browser_row_path(const struct window *window, int row, char path[WINDOW_PATH]); /* "": none */
void browser_close(struct window *window);

/* draw.c: draws the parts that touch `clip`. */
void draw_side_text(const struct window *window, int side, char *text, size_t cap); /* on the buttons A and B */
void draw_window(cairo_t *cr, const struct window *window, struct rect clip);

/* window.c */
void window_changed(struct window *window, int part); /* the part is drawn anew; N_PARTS: all; NO_PART: none */
void window_show_value(struct window *window, int control); /* reads the value; if it is new, it is drawn */
double window_desktop_scale(void); /* 1 without a display */
int window_next_event(Display *display, XEvent *event); /* for pugl */

/* An empty side plays the mask of the other one. */
static inline const char *mask_that_plays(const struct window *w)
{
    return w->state.mask[w->state.mask[w->state.side][0] ? w->state.side : !w->state.side];
}

static inline bool part_is_control(int part)
{
    return part >= PART_CONTROLS && part < PART_PICTURE;
}

static inline bool is_inside(struct rect r, double x, double y)
{
    return x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h;
}

static inline bool rects_touch(struct rect a, struct rect b)
{
    return a.w > 0 && b.w > 0 && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

#endif
