#include "dsp/base/number.h"
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAG_PIXELS = 200, /* of a knob from end to end, at a scale of 1 */ PAGE = 10, WHEEL_ROWS = 3 };
static const double double_click_s = 0.4, fine = 0.1, circle_degrees = 5;

/* ---- controls ---------------------------------------------------------------------------------------------------- */

static const struct window_control *control_of(const struct window *w, int part)
{
    return &w->model->controls[part - PART_CONTROLS];
}

static void control_set(struct window *w, int i, double value)
{
    const struct window_control *control = &w->model->controls[i];
    w->model->set(w->model->data, i, fmin(fmax(value, control->min), control->max));
    window_show_value(w, i);
}

static void control_set_once(struct window *w, int i, double value)
{
    w->model->begin(w->model->data, i);
    control_set(w, i, value);
    w->model->end(w->model->data, i);
}

/* A step is in the control's unit, or of a hundredth of the way if the control is logarithmic. */
static void control_step(struct window *w, int i, double steps)
{
    const struct window_control *control = &w->model->controls[i];
    const double value = w->model->get(w->model->data, i);
    if (control->kind == WINDOW_KNOB && (control->is_logarithmic || control->step <= 0))
        control_set_once(w, i, control_value(control, control_position(control, value) + 0.01 * steps));
    else
        control_set_once(w, i, value + steps * (control->step > 0 ? control->step : 1));
}

/* A switch changes over; a choice goes to the next, and from the last to the first. */
static void toggle(struct window *w, int i)
{
    const struct window_control *control = &w->model->controls[i];
    const double next = w->model->get(w->model->data, i) + 1;
    control_set_once(w, i, next > control->max ? control->min : next);
}

static void focus(struct window *w, int part)
{
    if (w->focus == part) return;
    window_changed(w, w->focus);
    w->focus = part;
    w->typing = false;
    window_changed(w, part);
}

/* ---- typing ------------------------------------------------------------------------------------------------------ */

static void begin_typing(struct window *w)
{
    w->typing = true;
    w->typed[0] = '\0';
    window_changed(w, w->focus);
}

static void end_typing(struct window *w, bool is_wanted)
{
    const int i = w->focus - PART_CONTROLS;
    const struct window_control *control = control_of(w, w->focus);
    double value = 0;
    w->typing = false;
    window_changed(w, w->focus);
    if (!is_wanted || w->typed[0] == '\0') return;
    /* A unit may follow the number. */
    const bool is_number = w->model->from_text ? w->model->from_text(w->model->data, i, w->typed, &value)
                                               : number_read(w->typed, NAN, NAN, &value) != NULL && isfinite(value);
    if (is_number && value >= control->min && value <= control->max) {
        control_set_once(w, i, value);
        return;
    }
    char low[40], high[40];
    layout_value_text(w, i, control->min, low, sizeof low);
    layout_value_text(w, i, control->max, high, sizeof high);
    (void)snprintf(w->notice, sizeof w->notice, "%s cannot be \"%s\"; type a value from %s to %s", control->name,
                   w->typed, low, high);
    window_changed(w, PART_STATUS);
}

/* ---- mouse ------------------------------------------------------------------------------------------------------- */

/* Puts the source below the pointer. */
static void drag_source(struct window *w, double x, double y)
{
    const struct rect r = w->part[PART_CIRCLE];
    const double left = r.x + r.w / 2.0 - x, ahead = r.y + r.h / 2.0 - y;
    control_set(w, w->model->azimuth, atan2(left, ahead) * 180 / M_PI);
    control_set(w, w->model->distance,
                control_value(&w->model->controls[w->model->distance], hypot(left, ahead) / layout_radius(w)));
}

static void press_row(struct window *w, double y, bool is_double)
{
    const int row = layout_row_at(w, y);
    w->press_row = row;
    if (row < 0) return;
    if (is_double && row == w->last_row)
        browser_activate(w, row);
    else
        browser_select(w, row);
    w->last_row = row;
}

static void press_control(struct window *w, double x, double y, bool is_double)
{
    const int i = w->focus - PART_CONTROLS;
    const struct window_control *control = control_of(w, w->focus);
    const struct rect value = layout_value(w, w->focus);
    if (control->kind != WINDOW_KNOB) {
        toggle(w, i);
    } else if (is_inside(value, x, y)) {
        begin_typing(w);
    } else if (is_double) {
        control_set_once(w, i, control->initial);
    } else {
        w->pressed = w->focus;
        w->press_position = control_position(control, w->model->get(w->model->data, i));
        w->model->begin(w->model->data, i);
    }
}

/* Presses a part, also by the keyboard. */
static void press_button(struct window *w, int part)
{
    if (part == PART_SIDE_A || part == PART_SIDE_B) w->model->select(w->model->data, part == PART_SIDE_B);
    if (part == PART_FOLDER) browser_up(w);
    if (part == PART_LOAD && browser_can_load(w)) {
        if (w->rows[w->selected].kind == ROW_FOLDER)
            browser_load(w, w->wanted);
        else
            browser_activate(w, w->selected);
    }
}

void input_press(struct window *w, double x, double y, PuglMods mods, double time)
{
    const int part = layout_part_at(w, x, y);
    const bool is_double = part == w->last_part && time - w->last_press < double_click_s;
    (void)mods;
    input_release(w); /* a drag whose release is lost */
    if (w->typing) end_typing(w, true);
    if (w->notice[0] && part != PART_STATUS) {
        w->notice[0] = '\0';
        window_changed(w, PART_STATUS);
    }
    w->last_part = part;
    w->last_press = time;
    w->press_x = x, w->press_y = y;
    if (w->shows_focus) window_changed(w, w->focus);
    w->shows_focus = false;
    focus(w, part < PART_PICTURE ? part : NO_PART);
    if (part == PART_LIST) press_row(w, y, is_double);
    if (part_is_control(part)) press_control(w, x, y, is_double);
    if (part == PART_CIRCLE) {
        w->pressed = part;
        w->model->begin(w->model->data, w->model->azimuth);
        w->model->begin(w->model->data, w->model->distance);
        drag_source(w, x, y);
    }
    press_button(w, part);
    if (is_double) w->last_part = NO_PART; /* a third click is a first one */
}

void input_motion(struct window *w, double x, double y, PuglMods mods)
{
    if (w->pressed == PART_CIRCLE) {
        drag_source(w, x, y);
    } else if (w->pressed != NO_PART) {
        const struct window_control *control = control_of(w, w->pressed);
        /* Added step by step, so that Shift may be pressed and released during a drag. */
        const double moved = (w->press_y - y + x - w->press_x) / (DRAG_PIXELS * w->scale);
        w->press_position = fmin(fmax(w->press_position + moved * (mods & PUGL_MOD_SHIFT ? fine : 1), 0), 1);
        w->press_x = x, w->press_y = y;
        control_set(w, w->pressed - PART_CONTROLS, control_value(control, w->press_position));
    } else {
        const int part = layout_part_at(w, x, y);
        if (part == w->hover) return;
        window_changed(w, w->hover);
        window_changed(w, part);
        w->hover = part;
    }
}

void input_release(struct window *w)
{
    if (w->pressed == PART_CIRCLE) {
        w->model->end(w->model->data, w->model->azimuth);
        w->model->end(w->model->data, w->model->distance);
    } else if (w->pressed != NO_PART)
        w->model->end(w->model->data, w->pressed - PART_CONTROLS);
    w->pressed = NO_PART;
}

void input_leave(struct window *w)
{
    window_changed(w, w->hover);
    w->hover = NO_PART;
}

static void scroll_list(struct window *w, int rows)
{
    const int last = w->n_rows - layout_visible_rows(w);
    w->first_row += rows;
    if (w->first_row > last) w->first_row = last;
    if (w->first_row < 0) w->first_row = 0;
    window_changed(w, PART_LIST);
}

void input_wheel(struct window *w, double x, double y, double notches, PuglMods mods)
{
    const int part = layout_part_at(w, x, y);
    const double steps = notches * (mods & PUGL_MOD_SHIFT ? fine : 1);
    if (w->pressed != NO_PART || w->typing) return;
    if (part == PART_LIST) scroll_list(w, (int)lrint(-WHEEL_ROWS * notches));
    if (part == PART_CIRCLE) control_step(w, w->model->distance, steps);
    if (part_is_control(part))
        control_step(w, part - PART_CONTROLS, control_of(w, part)->kind == WINDOW_KNOB ? steps : notches);
}

/* ---- keyboard ---------------------------------------------------------------------------------------------------- */

static void focus_next(struct window *w, int direction)
{
    int part = w->focus == NO_PART && direction < 0 ? 0 : w->focus;
    do part = (part + direction + PART_PICTURE) % PART_PICTURE;
    while (w->part[part].w == 0 || (part == PART_LOAD && !browser_can_load(w)));
    focus(w, part);
}

static void key_in_list(struct window *w, uint32_t key)
{
    const int page = layout_visible_rows(w) - 1, last = w->n_rows - 1;
    int row = w->selected;
    if (key == PUGL_KEY_DOWN) row++;
    if (key == PUGL_KEY_UP) row = row < 0 ? 0 : row - 1;
    if (key == PUGL_KEY_PAGE_DOWN) row += page;
    if (key == PUGL_KEY_PAGE_UP) row -= page;
    if (key == PUGL_KEY_HOME) row = 0;
    if (key == PUGL_KEY_END) row = last;
    if (key == '\r') browser_activate(w, row);
    if (key == PUGL_KEY_BACKSPACE || key == PUGL_KEY_LEFT) browser_up(w);
    if (row != w->selected && w->n_rows > 0 && key != '\r') browser_select(w, row < 0 ? 0 : row > last ? last : row);
}

static void key_in_circle(struct window *w, uint32_t key, double size)
{
    const double turn = (key == PUGL_KEY_LEFT) - (key == PUGL_KEY_RIGHT);
    const double away = (key == PUGL_KEY_UP) - (key == PUGL_KEY_DOWN);
    if (turn != 0) /* past 180 degrees it goes on at -180 */
        control_set_once(w, w->model->azimuth,
                         remainder(w->value[w->model->azimuth] + turn * size * circle_degrees, 360));
    if (away != 0) control_step(w, w->model->distance, away * size);
}

static void key_in_control(struct window *w, uint32_t key, double size)
{
    const int i = w->focus - PART_CONTROLS;
    const struct window_control *control = control_of(w, w->focus);
    const bool is_knob = control->kind == WINDOW_KNOB;
    const double steps = (key == PUGL_KEY_UP || key == PUGL_KEY_RIGHT) -
                         (key == PUGL_KEY_DOWN || key == PUGL_KEY_LEFT) +
                         PAGE * ((key == PUGL_KEY_PAGE_UP) - (key == PUGL_KEY_PAGE_DOWN));
    if (steps != 0) control_step(w, i, is_knob ? steps * size : steps);
    if (key == PUGL_KEY_HOME) control_set_once(w, i, control->min);
    if (key == PUGL_KEY_END) control_set_once(w, i, control->max);
    if (key == PUGL_KEY_DELETE) control_set_once(w, i, control->initial);
    if (key == '\r' && is_knob) begin_typing(w);
    if ((key == '\r' || key == ' ') && !is_knob) toggle(w, i);
}

static void key_while_typing(struct window *w, uint32_t key)
{
    size_t length = strlen(w->typed);
    if (key == PUGL_KEY_BACKSPACE) {
        while (length > 0 && (w->typed[length - 1] & 0xc0) == 0x80) length--; /* the bytes of one character */
        w->typed[length > 0 ? length - 1 : 0] = '\0';
    }
    if (key == '\r' || key == '\t' || key == PUGL_KEY_ESCAPE) end_typing(w, key != PUGL_KEY_ESCAPE);
    window_changed(w, w->focus);
}

void input_key(struct window *w, uint32_t key, PuglMods mods)
{
    const double size = mods & PUGL_MOD_SHIFT ? fine : 1;
    if (mods & (PUGL_MOD_CTRL | PUGL_MOD_ALT | PUGL_MOD_SUPER)) return; /* the host's */
    if (w->pressed != NO_PART) return;                                  /* one gesture at a time */
    w->shows_focus = true;
    window_changed(w, w->focus);
    if (w->typing) {
        key_while_typing(w, key);
        if (key != '\t') return;
    }
    if (key == '\t') {
        focus_next(w, mods & PUGL_MOD_SHIFT ? -1 : 1);
        return;
    }
    if (w->notice[0]) {
        w->notice[0] = '\0';
        window_changed(w, PART_STATUS);
    }
    if (key == PUGL_KEY_ESCAPE) browser_select(w, -1);
    if (w->focus == PART_LIST) key_in_list(w, key);
    if (w->focus == PART_CIRCLE) key_in_circle(w, key, size);
    if (part_is_control(w->focus)) key_in_control(w, key, size);
    if (key == '\r' || key == ' ') press_button(w, w->focus);
}

/* A digit or a sign begins to type into the knob that has the focus. */
void input_text(struct window *w, const char *text)
{
    if (!part_is_control(w->focus) || control_of(w, w->focus)->kind != WINDOW_KNOB) return;
    if ((unsigned char)text[0] < ' ' || text[0] == 0x7f) return;
    if (!w->typing && strchr("0123456789+-.", text[0])) begin_typing(w);
    const size_t length = strlen(w->typed), more = strlen(text);
    if (w->typing && length + more < sizeof w->typed) memcpy(w->typed + length, text, more + 1);
    window_changed(w, w->focus);
}
