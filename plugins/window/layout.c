#include "dsp/base/order.h"
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels at a scale of 1. */
enum {
    MARGIN = 12,
    HEADER = 52,
    FOOTER = 72,
    BUTTON = 28,
    SWITCH_WIDTH = 84,
    CHOICE_WIDTH = 124,
    SIDE_WIDTH = 170,
    KNOB_WIDTH = 84,
    WIDEST_KNOB = 112,
    KNOB_HEIGHT = 88,
    STRIP_EDGE = 6,
    ROW = 24,
    LIST_WIDTH = 230,
    METERS_WIDTH = 400,
    DEFAULT_WIDTH = 860,
    DEFAULT_HEIGHT = 550,
    SMALLEST_WIDTH = 700,
    SMALLEST_HEIGHT = 400
};

static int scaled(const struct window *window, double pixels)
{
    return (int)lrint(pixels * window->scale);
}

double layout_scale(double scale)
{
    return fmin(fmax(scale > 0 ? scale : window_desktop_scale(), 0.5), 8);
}

static void size_at(double scale, int width, int height, int *w, int *h)
{
    scale = layout_scale(scale);
    *w = (int)lrint(width * scale);
    *h = (int)lrint(height * scale);
}

static int count_knobs(const struct window_model *model)
{
    int n = 0;
    for (int i = 0; i < model->n_controls; i++) n += model->controls[i].kind == WINDOW_KNOB;
    return n;
}

void window_default_size(const struct window_model *model, double scale, int *width, int *height)
{
    const int wider = model->azimuth != model->distance ? 120 : 0;
    size_at(scale, DEFAULT_WIDTH + wider, DEFAULT_HEIGHT, width, height);
}

void window_smallest_size(const struct window_model *model, double scale, int *width, int *height)
{
    const int per_row = (SMALLEST_WIDTH - LIST_WIDTH - 3 * MARGIN - 2 * STRIP_EDGE) / KNOB_WIDTH;
    const int rows = (count_knobs(model) + per_row - 1) / per_row;
    size_at(scale, SMALLEST_WIDTH, SMALLEST_HEIGHT + max_int(rows - 1, 0) * KNOB_HEIGHT, width, height);
}

/* Choices and switches, from the right; returns the left edge of the last. */
static int place_buttons(struct window *w)
{
    const int gap = scaled(w, 8);
    int right = w->width - scaled(w, MARGIN);
    for (int i = w->model->n_controls - 1; i >= 0; i--)
        if (w->model->controls[i].kind != WINDOW_KNOB) {
            const int width = scaled(w, w->model->controls[i].kind == WINDOW_SWITCH ? SWITCH_WIDTH : CHOICE_WIDTH);
            w->part[PART_CONTROLS + i] = (struct rect){right - width, scaled(w, MARGIN), width, scaled(w, BUTTON)};
            right -= width + gap;
        }
    return right;
}

/* Knobs, in rows on a strip above `bottom`; returns the top of the strip. */
static int place_knobs(struct window *w, int left, int right, int bottom)
{
    const int height = scaled(w, KNOB_HEIGHT), edge = scaled(w, STRIP_EDGE), inside = right - left - 2 * edge;
    const int n_knobs = count_knobs(w->model), per_row = max_int(1, inside / scaled(w, KNOB_WIDTH));
    const int rows = (n_knobs + per_row - 1) / per_row, top = bottom - rows * height - 2 * edge;
    int n = 0;
    if (n_knobs == 0) return bottom;
    const int width = min_int(scaled(w, WIDEST_KNOB), inside / min_int(n_knobs, per_row));
    w->part[PART_STRIP] = (struct rect){left, top, right - left, bottom - top};
    for (int i = 0; i < w->model->n_controls; i++)
        if (w->model->controls[i].kind == WINDOW_KNOB) {
            w->part[PART_CONTROLS + i] =
                (struct rect){left + edge + n % per_row * width, top + edge + n / per_row * height, width, height};
            n++;
        }
    return top;
}

void layout_make(struct window *w)
{
    const int margin = scaled(w, MARGIN), button = scaled(w, BUTTON), gap = scaled(w, 8);
    const int left = margin, right = w->width - margin, top = scaled(w, HEADER), bottom = w->height - scaled(w, FOOTER);
    const int list_width = max_int(scaled(w, LIST_WIDTH), min_int(w->width * 28 / 100, scaled(w, 340)));
    const int column = left + list_width + margin; /* left edge of picture and knobs */
    memset(w->part, 0, sizeof w->part);
    w->row_height = scaled(w, ROW);

    const int buttons = place_buttons(w);
    w->part[PART_TITLE] = (struct rect){left, margin, list_width, button};
    if (w->model->select) {
        const int width = max_int(0, min_int(scaled(w, SIDE_WIDTH), (buttons - column - gap) / 2));
        w->part[PART_SIDE_A] = (struct rect){column, margin, width, button};
        w->part[PART_SIDE_B] = (struct rect){column + width + gap, margin, width, button};
    }
    w->part[PART_FOLDER] = (struct rect){left, top, list_width, button};
    w->part[PART_LIST] = (struct rect){left, top + button + gap / 2, list_width, bottom - top - button - gap / 2};

    const int knobs = place_knobs(w, column, right, bottom);
    int picture_right = right;
    const int picture_height = max_int(0, knobs - margin - top);
    if (w->model->azimuth != w->model->distance) {
        const int size = min_int(picture_height, (right - column) * 2 / 5);
        picture_right = right - size - margin;
        w->part[PART_CIRCLE] = (struct rect){right - size, top, size, picture_height};
    }
    w->part[PART_PICTURE] = (struct rect){column, top, picture_right - column, picture_height};
    w->part[PART_LOAD] = (struct rect){picture_right - scaled(w, 70) - gap, top + gap, scaled(w, 70), button};
    const int meters = min_int(scaled(w, METERS_WIDTH), (right - left) * 3 / 5);
    const int footer = bottom + gap, footer_height = w->height - footer - gap;
    w->part[PART_STATUS] = (struct rect){left, footer, right - left - meters - margin, footer_height};
    w->part[PART_METERS] = (struct rect){right - meters, footer, meters, footer_height};
    for (int i = 0; i < N_PARTS; i++)
        if (w->part[i].w < 0 || w->part[i].h <= 0) w->part[i] = (struct rect){0};
}

int layout_part_at(const struct window *w, double x, double y)
{
    for (int part = 0; part < N_PARTS; part++)
        if (is_inside(w->part[part], x, y) && (part != PART_LOAD || browser_can_load(w))) return part;
    return NO_PART;
}

int layout_visible_rows(const struct window *w)
{
    return w->part[PART_LIST].h / w->row_height;
}

int layout_row_at(const struct window *w, double y)
{
    const int row = w->first_row + (int)floor((y - w->part[PART_LIST].y) / w->row_height);
    return row >= 0 && row < w->n_rows ? row : -1;
}

struct rect layout_value(const struct window *w, int part)
{
    const struct rect r = w->part[part];
    const int height = scaled(w, 20);
    return (struct rect){r.x + scaled(w, 4), r.y + r.h - height - scaled(w, 2), r.w - scaled(w, 8), height};
}

double layout_radius(const struct window *w)
{
    const struct rect r = w->part[PART_CIRCLE];
    return (r.w < r.h ? r.w : r.h) / 2.0 - scaled(w, 22);
}

void layout_source(const struct window *w, double *x, double *y)
{
    const struct rect r = w->part[PART_CIRCLE];
    const struct window_control *distance = &w->model->controls[w->model->distance];
    const double angle = w->value[w->model->azimuth] * M_PI / 180;
    const double away = layout_radius(w) * control_position(distance, w->value[w->model->distance]);
    *x = r.x + r.w / 2.0 - away * sin(angle);
    *y = r.y + r.h / 2.0 - away * cos(angle);
}

/* ---- controls ---------------------------------------------------------------------------------------------------- */

double control_position(const struct window_control *control, double value)
{
    const double position = control->is_logarithmic ? log(value / control->min) / log(control->max / control->min)
                                                    : (value - control->min) / (control->max - control->min);
    return fmin(fmax(position, 0), 1); /* NaN becomes 0 */
}

double control_value(const struct window_control *control, double position)
{
    position = fmin(fmax(position, 0), 1);
    const double value = control->is_logarithmic ? control->min * pow(control->max / control->min, position)
                                                 : control->min + position * (control->max - control->min);
    return control->kind == WINDOW_KNOB ? value : rint(value);
}

void layout_value_text(const struct window *w, int i, double value, char *text, size_t cap)
{
    const struct window_control *control = &w->model->controls[i];
    if (control->kind == WINDOW_CHOICE && control->choices)
        (void)snprintf(text, cap, "%s",
                       control->choices[(int)control_value(control, control_position(control, value))]);
    else if (control->kind == WINDOW_SWITCH)
        (void)snprintf(text, cap, "%s", value > 0.5 ? "on" : "off");
    else if (w->model->to_text)
        w->model->to_text(w->model->data, i, value, text, cap);
    else
        (void)snprintf(text, cap, "%.*f%s%s", fabs(value) < 99.95 ? 1 : 0, value, control->unit ? " " : "",
                       control->unit ? control->unit : "");
}
