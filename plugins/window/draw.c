#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- colours, shapes, texts -------------------------------------------------------------------------------------- */

struct colour {
    double r, g, b;
};
static const struct colour background = {0.082, 0.090, 0.106}, panel = {0.114, 0.125, 0.149},
                           raised = {0.161, 0.176, 0.208}, line = {0.247, 0.267, 0.310},
                           text_dim = {0.576, 0.604, 0.655}, text_bright = {0.878, 0.894, 0.918},
                           accent = {0.333, 0.745, 0.733}, accent_dark = {0.149, 0.325, 0.341},
                           wave = {0.247, 0.518, 0.525}, red = {0.937, 0.463, 0.427};

/* Sizes of letters at a scale of 1. */
static const double small = 11, normal = 12.5, large = 15;

enum align { ALIGN_LEFT, ALIGN_CENTRE, ALIGN_RIGHT };

struct canvas {
    cairo_t *cr;
    const struct window *w;
    double scale;
};

static void colour_use(const struct canvas *c, struct colour colour)
{
    cairo_set_source_rgb(c->cr, colour.r, colour.g, colour.b);
}

static void path_box(const struct canvas *c, struct rect r, double radius)
{
    const double x = r.x, y = r.y, right = r.x + r.w, bottom = r.y + r.h, corner = radius * c->scale;
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, right - corner, y + corner, corner, -M_PI / 2, 0);
    cairo_arc(c->cr, right - corner, bottom - corner, corner, 0, M_PI / 2);
    cairo_arc(c->cr, x + corner, bottom - corner, corner, M_PI / 2, M_PI);
    cairo_arc(c->cr, x + corner, y + corner, corner, M_PI, 3 * M_PI / 2);
    cairo_close_path(c->cr);
}

static void fill_box(const struct canvas *c, struct rect r, double radius, struct colour colour)
{
    path_box(c, r, radius);
    colour_use(c, colour);
    cairo_fill(c->cr);
}

/* The outline is inside of the rectangle. */
static void outline(const struct canvas *c, struct rect r, double radius, struct colour colour)
{
    const double half = 0.5 * fmax(1, c->scale);
    cairo_save(c->cr);
    cairo_translate(c->cr, half, half);
    path_box(c, (struct rect){r.x, r.y, r.w - (int)(2 * half), r.h - (int)(2 * half)}, radius);
    cairo_restore(c->cr);
    cairo_set_line_width(c->cr, 2 * half);
    colour_use(c, colour);
    cairo_stroke(c->cr);
}

static struct rect inset(struct rect r, double pixels)
{
    const int by = (int)lrint(pixels);
    return (struct rect){r.x + by, r.y + by, r.w - 2 * by, r.h - 2 * by};
}

/* The length of the character of valid UTF-8 at s; 0: invalid. */
static int utf8_length(const unsigned char *s)
{
    const int n = s[0] < 0x80                   ? 1
                  : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                  : (s[0] & 0xf0) == 0xe0       ? 3
                  : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* Copies a text, at most `cap` bytes, without control characters. Cairo draws nothing more after an invalid character;
 * names of files may have them. */
static void make_valid(const char *from, char *to, size_t cap)
{
    const unsigned char *s = (const unsigned char *)from;
    size_t n = 0;
    while (*s && n + 5 < cap) {
        const int length = utf8_length(s);
        if (length == 0 || *s < ' ' || *s == 0x7f)
            to[n++] = '?';
        else
            for (int i = 0; i < length; i++) to[n++] = (char)s[i];
        s += length > 0 ? length : 1;
    }
    to[n] = '\0';
}

static double text_width(const struct canvas *c, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(c->cr, text, &extents);
    return extents.x_advance;
}

static void set_font(const struct canvas *c, double size, bool is_bold)
{
    cairo_select_font_face(c->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c->cr, size * c->scale);
}

/* The length of the longest start of `text` that fits with an ellipsis. */
static size_t length_that_fits(const struct canvas *c, const char *text, double width)
{
    char cut[520];
    size_t fits = 0, length = strlen(text);
    for (size_t low = 0, high = length; low < high;) {
        const size_t middle = (low + high + 1) / 2;
        size_t n = middle;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
        (void)snprintf(cut, sizeof cut, "%.*s…", (int)n, text);
        if (text_width(c, cut) <= width)
            fits = n, low = middle;
        else
            high = middle - 1;
    }
    return fits;
}

/* A line of text in the middle of the rectangle's height; a text that is too long ends with an ellipsis. */
static void draw_text(const struct canvas *c, const char *text, struct rect r, enum align align, struct colour colour)
{
    char valid[512], cut[520];
    cairo_font_extents_t font;
    make_valid(text, valid, sizeof valid);
    (void)snprintf(cut, sizeof cut, "%s", valid);
    double width = text_width(c, cut);
    if (width > r.w) {
        (void)snprintf(cut, sizeof cut, "%.*s…", (int)length_that_fits(c, valid, r.w), valid);
        width = text_width(c, cut);
    }
    cairo_font_extents(c->cr, &font);
    const double x = align == ALIGN_LEFT ? r.x : align == ALIGN_CENTRE ? r.x + (r.w - width) / 2 : r.x + r.w - width;
    colour_use(c, colour);
    cairo_move_to(c->cr, rint(x), rint(r.y + (r.h + font.ascent - font.descent) / 2));
    cairo_show_text(c->cr, cut);
}

/* Draws lines of words from the top of the rectangle; the last line ends with an ellipsis if the text is longer. */
static void draw_paragraph(const struct canvas *c, const char *text, struct rect r, double size, struct colour colour)
{
    const int height = (int)lrint(1.4 * size * c->scale), n_lines = r.h / height > 0 ? r.h / height : 1;
    char valid[512];
    const char *from = valid;
    make_valid(text, valid, sizeof valid);
    for (int i = 0; i < n_lines && *from; i++) {
        char words[512];
        size_t n = 0;
        for (size_t end = 1; end <= strlen(from); end++) /* the longest line that ends behind a word */
            if (from[end] == ' ' || from[end] == '\0') {
                (void)snprintf(words, sizeof words, "%.*s", (int)end, from);
                if (n > 0 && text_width(c, words) > r.w) break;
                n = end;
            }
        (void)snprintf(words, sizeof words, "%.*s", i + 1 < n_lines ? (int)n : (int)sizeof words, from);
        draw_text(c, words, (struct rect){r.x, r.y + i * height, r.w, height}, ALIGN_LEFT, colour);
        from += n + (from[n] == ' ');
    }
}

static const char *path_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool has_focus(const struct canvas *c, int part)
{
    return c->w->shows_focus && c->w->focus == part;
}

static void draw_button(const struct canvas *c, int part, const char *text, bool is_on, enum align align)
{
    const struct rect r = c->w->part[part];
    fill_box(c, r, 5, is_on ? accent_dark : c->w->hover == part ? line : raised);
    if (has_focus(c, part)) outline(c, r, 5, accent);
    set_font(c, normal, false);
    draw_text(c, text, inset(r, 7 * c->scale), align, is_on || c->w->hover == part ? text_bright : text_dim);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void draw_title(const struct canvas *c, int part)
{
    set_font(c, large, true);
    draw_text(c, c->w->model->title, c->w->part[part], ALIGN_LEFT, text_bright);
}

void draw_side_text(const struct window *w, int side, char *text, size_t cap)
{
    const char *path = w->state.mask[side];
    const float gain_db = w->state.gain_db[side];
    if (!path[0] && w->state.side == side && w->state.mask[!side][0])
        (void)snprintf(text, cap, "%c (plays %c)", "AB"[side], "AB"[!side]);
    else if (path[0] && fabsf(gain_db) >= 0.05f)
        (void)snprintf(text, cap, "%c  %.1f dB  %s", "AB"[side], gain_db, path_name_of(path));
    else
        (void)snprintf(text, cap, "%c  %s", "AB"[side], path[0] ? path_name_of(path) : "empty");
}

static void draw_side(const struct canvas *c, int part)
{
    const int side = part == PART_SIDE_B;
    char text[WINDOW_PATH + 40];
    draw_side_text(c->w, side, text, sizeof text);
    draw_button(c, part, text, c->w->state.side == side, ALIGN_LEFT);
}

static void draw_folder(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    char text[WINDOW_PATH + 8];
    if (w->list_view == LIST_TOP)
        (void)snprintf(text, sizeof text, "Responses");
    else
        (void)snprintf(text, sizeof text, "‹  %s",
                       w->list_view == LIST_PRESETS ? "Presets" : path_name_of(browser_folder_name(w)));
    draw_button(c, part, text, false, ALIGN_LEFT);
}

static void draw_row(const struct canvas *c, int row, struct rect r)
{
    const struct window *w = c->w;
    const enum row_kind kind = w->rows[row].kind;
    char path[WINDOW_PATH], text[WINDOW_PATH + 8];
    browser_row_path(w, row, path);
    const bool plays = path[0] && strcmp(path, mask_that_plays(w)) == 0;
    const bool leads_on = kind == ROW_PRESETS || kind == ROW_ROOT || kind == ROW_FOLDER;
    if (row == w->selected) fill_box(c, r, 4, accent_dark);
    (void)snprintf(text, sizeof text, "%s",
                   kind == ROW_ROOT ? path_name_of(browser_row_name(w, row)) : browser_row_name(w, row));
    set_font(c, normal, false);
    r = inset(r, 0);
    r.x += (int)(8 * c->scale), r.w -= (int)(24 * c->scale);
    draw_text(c, text, r, ALIGN_LEFT,
              plays                ? accent
              : row == w->selected ? text_bright
              : leads_on           ? text_bright
                                   : text_dim);
    if (leads_on) draw_text(c, "›", (struct rect){r.x + r.w, r.y, (int)(10 * c->scale), r.h}, ALIGN_RIGHT, text_dim);
}

static void draw_list(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const struct rect r = w->part[part];
    const int visible = layout_visible_rows(w), bar = (int)lrint(4 * c->scale);
    fill_box(c, r, 6, panel);
    if (has_focus(c, part)) outline(c, r, 6, accent);
    for (int i = 0; i < visible && w->first_row + i < w->n_rows; i++)
        draw_row(c, w->first_row + i,
                 (struct rect){r.x + bar, r.y + i * w->row_height + bar / 2, r.w - 3 * bar, w->row_height});
    if (w->n_rows > visible) {
        const int track = r.h - 2 * bar, height = track * visible / w->n_rows;
        const int top = (int)((int64_t)(track - height) * w->first_row / (w->n_rows - visible));
        fill_box(c, (struct rect){r.x + r.w - 3 * bar / 2, r.y + bar + top, bar, height}, 2, line);
    }
    set_font(c, small, false);
    const char *text =
        w->list_view == LIST_TOP ? "No folders: drop or paste a file here" : "No responses in this folder";
    if (w->list_view == LIST_FOLDER && !w->listing) text = "Reading the folder";
    if (w->list_view == LIST_FOLDER && w->listing && w->listing->error[0]) text = w->listing->error;
    if (w->n_rows == 0) draw_paragraph(c, text, inset(r, 12 * c->scale), small, text_dim);
}

static void draw_load(const struct canvas *c, int part)
{
    if (browser_can_load(c->w)) draw_button(c, part, "Load", true, ALIGN_CENTRE);
}

/* A round number of seconds between the lines of an axis with at most `n` lines. */
static double axis_step(double seconds, int n)
{
    double step = pow(10, floor(log10(seconds / n)));
    if (seconds / step > n) step *= 2;
    if (seconds / step > n) step *= 2.5;
    if (seconds / step > n) step *= 2;
    return step;
}

static void draw_time_axis(const struct canvas *c, struct rect r, double seconds)
{
    const double step = axis_step(seconds, r.w / (int)(70 * c->scale) + 1);
    set_font(c, small, false);
    for (int i = 1; i * step < seconds * 0.97; i++) {
        const double t = i * step, x = floor(r.x + r.w * t / seconds) + 0.5;
        char text[24];
        colour_use(c, raised);
        cairo_set_line_width(c->cr, 1);
        cairo_move_to(c->cr, x, r.y);
        cairo_line_to(c->cr, x, r.y + r.h);
        cairo_stroke(c->cr);
        (void)snprintf(text, sizeof text, step < 0.1 ? "%.4g ms" : "%.3g s", step < 0.1 ? 1000 * t : t);
        draw_text(c, text,
                  (struct rect){(int)(x - 30 * c->scale), r.y + r.h, (int)(60 * c->scale), (int)(18 * c->scale)},
                  ALIGN_CENTRE, text_dim);
    }
}

static void draw_waveform(const struct canvas *c, const struct preview *p, struct rect r)
{
    const double middle = r.y + r.h / 2.0, half = r.h / 2.0, thin = 0.5 * c->scale;
    cairo_new_path(c->cr);
    for (int i = 0; i < PREVIEW_POINTS; i++)
        cairo_line_to(c->cr, r.x + (double)r.w * i / (PREVIEW_POINTS - 1), middle - half * p->high[i] - thin);
    for (int i = PREVIEW_POINTS - 1; i >= 0; i--)
        cairo_line_to(c->cr, r.x + (double)r.w * i / (PREVIEW_POINTS - 1), middle - half * p->low[i] + thin);
    cairo_close_path(c->cr);
    colour_use(c, wave);
    cairo_fill(c->cr);
}

/* 0 dB at the top, -80 dB at the bottom. */
static void draw_decay(const struct canvas *c, const struct preview *p, struct rect r)
{
    enum { LOWEST_DB = 80, STEP_DB = 20 };
    set_font(c, small, false);
    for (int db = STEP_DB; db < LOWEST_DB; db += STEP_DB) {
        const int y = r.y + r.h * db / LOWEST_DB;
        char text[16];
        colour_use(c, raised);
        cairo_rectangle(c->cr, r.x, y, r.w, 1);
        cairo_fill(c->cr);
        (void)snprintf(text, sizeof text, "-%d dB", db);
        draw_text(c, text,
                  (struct rect){r.x + r.w - (int)(56 * c->scale), y - (int)(15 * c->scale), (int)(52 * c->scale),
                                (int)(15 * c->scale)},
                  ALIGN_RIGHT, text_dim);
    }
    cairo_save(c->cr);
    cairo_rectangle(c->cr, r.x, r.y, r.w, r.h);
    cairo_clip(c->cr);
    cairo_new_path(c->cr);
    for (int i = 0; i < PREVIEW_POINTS && isfinite(p->decay_db[i]); i++)
        cairo_line_to(c->cr, r.x + (double)r.w * i / (PREVIEW_POINTS - 1),
                      r.y - r.h * (double)p->decay_db[i] / LOWEST_DB);
    colour_use(c, accent);
    cairo_set_line_width(c->cr, 1.6 * c->scale);
    cairo_stroke(c->cr);
    cairo_restore(c->cr);
}

static void draw_picture(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const struct rect r = w->part[part], inner = inset(r, 12 * c->scale);
    const struct preview *p = w->preview && strcmp(w->preview->path, w->wanted) == 0 ? w->preview : NULL;
    const int row = (int)lrint(19 * c->scale), axis = (int)lrint(18 * c->scale);
    const int head_width = inner.w - (browser_can_load(w) ? (int)(84 * c->scale) : 0);
    fill_box(c, r, 6, panel);
    set_font(c, normal, true);
    const char *name = w->wanted[0] ? path_name_of(w->wanted) : "No response: choose, drop or paste a file";
    draw_text(c, name, (struct rect){inner.x, inner.y - row / 5, head_width, row}, ALIGN_LEFT, text_bright);
    set_font(c, small, false);
    const char *facts = !w->wanted[0] ? "" : !p ? "Reading the file" : p->error[0] ? "" : p->facts;
    draw_text(c, facts, (struct rect){inner.x, inner.y + row - row / 5, head_width, row}, ALIGN_LEFT, text_dim);
    struct rect plot = {inner.x, inner.y + 2 * row + row / 4, inner.w, inner.h - 2 * row - row / 4 - axis / 2};
    if (!p || plot.h < 3 * axis) return;
    if (p->error[0]) {
        draw_paragraph(c, p->error, plot, small, red);
        return;
    }
    plot.h -= axis / 2;
    const int wave_height = plot.h * 2 / 5, gap = axis / 2;
    if (p->seconds > 0) draw_time_axis(c, plot, p->seconds);
    draw_waveform(c, p, (struct rect){plot.x, plot.y, plot.w, wave_height});
    draw_decay(c, p, (struct rect){plot.x, plot.y + wave_height + gap, plot.w, plot.h - wave_height - gap});
}

static void draw_circle(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const struct rect r = w->part[part];
    const double x = r.x + r.w / 2.0, y = r.y + r.h / 2.0, radius = layout_radius(w), head = 9 * c->scale;
    const struct window_control *distance = &w->model->controls[w->model->distance];
    const int letter = (int)lrint(18 * c->scale);
    double source_x = 0, source_y = 0;
    fill_box(c, r, 6, panel);
    if (has_focus(c, part)) outline(c, r, 6, accent);
    if (radius < 2 * head) return;
    cairo_set_line_width(c->cr, c->scale);
    colour_use(c, line);
    for (int ring = 1; ring <= 3; ring++) { /* lines of equal distance */
        cairo_new_sub_path(c->cr);
        cairo_arc(c->cr, x, y, radius * ring / 3, 0, 2 * M_PI);
        cairo_stroke(c->cr);
    }
    set_font(c, small, false);
    draw_text(c, "Front", (struct rect){r.x, (int)(y - radius) - letter, r.w, letter}, ALIGN_CENTRE, text_dim);
    char text[40];
    layout_value_text(w, w->model->distance, distance->max, text, sizeof text);
    draw_text(c, text, (struct rect){r.x, (int)(y + radius), r.w, letter}, ALIGN_CENTRE, text_dim);
    layout_source(w, &source_x, &source_y);
    colour_use(c, accent_dark);
    cairo_move_to(c->cr, x, y);
    cairo_line_to(c->cr, source_x, source_y);
    cairo_stroke(c->cr);
    colour_use(c, text_dim); /* a head from above */
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x, y, head, 0, 2 * M_PI);
    cairo_fill(c->cr);
    cairo_move_to(c->cr, x - head / 2, y - head * 0.8);
    cairo_line_to(c->cr, x, y - head * 1.5);
    cairo_line_to(c->cr, x + head / 2, y - head * 0.8);
    cairo_fill(c->cr);
    colour_use(c, accent);
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, source_x, source_y, (w->pressed == part || w->hover == part ? 8 : 7) * c->scale, 0, 2 * M_PI);
    cairo_fill(c->cr);
}

static void draw_knob(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const int i = part - PART_CONTROLS;
    const struct window_control *control = &w->model->controls[i];
    const struct rect r = w->part[part], value = layout_value(w, part);
    const double from = 0.75 * M_PI, whole = 1.5 * M_PI, radius = 20 * c->scale, x = r.x + r.w / 2.0,
                 y = r.y + 23 * c->scale + radius, turn = from + whole * control_position(control, w->value[i]);
    const double zero = control->min < 0 && control->max > 0 && -control->min == control->max
                            ? from + whole / 2
                            : from; /* the arc of a symmetric control begins in its middle */
    const bool is_hot = w->hover == part || w->pressed == part;
    char text[64];
    if (has_focus(c, part)) outline(c, r, 6, accent);
    set_font(c, small, false);
    draw_text(c, control->name, (struct rect){r.x, r.y + (int)(3 * c->scale), r.w, (int)(18 * c->scale)}, ALIGN_CENTRE,
              is_hot ? text_bright : text_dim);
    cairo_set_line_width(c->cr, 4 * c->scale);
    cairo_set_line_cap(c->cr, CAIRO_LINE_CAP_ROUND);
    colour_use(c, line);
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x, y, radius, from, from + whole);
    cairo_stroke(c->cr);
    colour_use(c, accent);
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x, y, radius, fmin(zero, turn), fmax(zero, turn));
    cairo_stroke(c->cr);
    colour_use(c, is_hot ? line : raised);
    cairo_new_sub_path(c->cr);
    cairo_arc(c->cr, x, y, radius - 5 * c->scale, 0, 2 * M_PI);
    cairo_fill(c->cr);
    cairo_set_line_width(c->cr, 2.4 * c->scale);
    colour_use(c, text_bright);
    cairo_move_to(c->cr, x + (radius - 12 * c->scale) * cos(turn), y + (radius - 12 * c->scale) * sin(turn));
    cairo_line_to(c->cr, x + (radius - 6 * c->scale) * cos(turn), y + (radius - 6 * c->scale) * sin(turn));
    cairo_stroke(c->cr);
    cairo_set_line_cap(c->cr, CAIRO_LINE_CAP_BUTT);
    set_font(c, normal, false);
    layout_value_text(w, i, w->value[i], text, sizeof text);
    if (w->typing && w->focus == part) {
        fill_box(c, value, 4, raised);
        outline(c, value, 4, accent);
        if (w->typed[0]) (void)snprintf(text, sizeof text, "%s", w->typed);
        draw_text(c, text, inset(value, 2 * c->scale), ALIGN_CENTRE, w->typed[0] ? text_bright : text_dim);
    } else
        draw_text(c, text, value, ALIGN_CENTRE, text_bright);
}

static void draw_strip(const struct canvas *c, int part)
{
    fill_box(c, c->w->part[part], 6, panel);
}

static void draw_switch(const struct canvas *c, int part)
{
    const int i = part - PART_CONTROLS;
    const struct window_control *control = &c->w->model->controls[i];
    char text[80], value[40];
    layout_value_text(c->w, i, c->w->value[i], value, sizeof value);
    (void)snprintf(text, sizeof text, "%s%s%s", control->name, control->kind == WINDOW_SWITCH ? "" : ": ",
                   control->kind == WINDOW_SWITCH ? "" : value);
    draw_button(c, part, text, control->kind == WINDOW_SWITCH && c->w->value[i] > 0.5, ALIGN_CENTRE);
}

static void draw_status(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const char *error = w->notice[0] ? w->notice : w->state.error;
    set_font(c, small, false);
    draw_paragraph(c, error[0] ? error : w->state.status, w->part[part], small, error[0] ? red : text_dim);
}

/* -60 dB to 0 dB. */
static void draw_meter(const struct canvas *c, const char *name, float db, struct rect r)
{
    const int label = (int)lrint(28 * c->scale), number = (int)lrint(46 * c->scale), height = (int)lrint(6 * c->scale);
    const struct rect bar = {r.x + label, r.y + (r.h - height) / 2, r.w - label - number, height};
    const int filled = (int)lrint(bar.w * fmin(fmax(1 + db / 60, 0), 1));
    char text[24] = "-inf";
    draw_text(c, name, (struct rect){r.x, r.y, label, r.h}, ALIGN_LEFT, text_dim);
    fill_box(c, bar, 2, raised);
    if (filled > 3 * c->scale) fill_box(c, (struct rect){bar.x, bar.y, filled, height}, 2, db > -0.05f ? red : accent);
    if (db > -99) (void)snprintf(text, sizeof text, "%.1f", (double)db);
    draw_text(c, text, (struct rect){bar.x + bar.w, r.y, number, r.h}, ALIGN_RIGHT, db > -0.05f ? red : text_dim);
}

static void draw_meters(const struct canvas *c, int part)
{
    const struct window *w = c->w;
    const struct window_state *s = &w->state;
    const struct rect r = w->part[part];
    const int row = (int)lrint(17 * c->scale), gap = (int)lrint(16 * c->scale), half = (r.w - gap) / 2;
    const struct rect right = {r.x + half + gap, r.y, r.w - half - gap, row};
    char text[120];
    set_font(c, small, false);
    draw_meter(c, "In", w->in.drawn_db, (struct rect){r.x, r.y, half, row});
    draw_meter(c, "Out", w->out.drawn_db, (struct rect){r.x, r.y + row, half, row});
    (void)snprintf(text, sizeof text, "Load %.0f %%", (double)s->load);
    draw_text(c, text, right, ALIGN_LEFT, s->load > 80 ? red : text_dim);
    (void)snprintf(text, sizeof text, "Late %llu   Lost %llu   Overruns %llu", (unsigned long long)s->late,
                   (unsigned long long)s->lost, (unsigned long long)s->overruns);
    draw_text(c, text, (struct rect){right.x, right.y + row, right.w, row}, ALIGN_LEFT,
              s->late + s->lost + s->overruns > 0 ? red : text_dim);
    draw_text(c, s->backend, (struct rect){right.x, right.y + 2 * row, right.w, row}, ALIGN_LEFT, text_dim);
}

void draw_window(cairo_t *cr, const struct window *w, struct rect clip)
{
    static void (*const draw[N_PARTS])(const struct canvas *, int) = {
        [PART_SIDE_A] = draw_side, [PART_SIDE_B] = draw_side,   [PART_FOLDER] = draw_folder,
        [PART_LIST] = draw_list,   [PART_CIRCLE] = draw_circle, [PART_PICTURE] = draw_picture,
        [PART_TITLE] = draw_title, [PART_STATUS] = draw_status, [PART_METERS] = draw_meters};
    const struct canvas c = {cr, w, w->scale};
    cairo_save(cr);
    cairo_rectangle(cr, clip.x, clip.y, clip.w, clip.h);
    cairo_clip(cr);
    colour_use(&c, background);
    cairo_paint(cr);
    if (rects_touch(w->part[PART_STRIP], clip)) draw_strip(&c, PART_STRIP); /* below the knobs */
    for (int part = 0; part < N_PARTS; part++) {
        if (!rects_touch(w->part[part], clip)) continue;
        if (part_is_control(part))
            (w->model->controls[part - PART_CONTROLS].kind == WINDOW_KNOB ? draw_knob : draw_switch)(&c, part);
        else if (draw[part])
            draw[part](&c, part);
    }
    if (rects_touch(w->part[PART_LOAD], clip)) draw_load(&c, PART_LOAD); /* on the picture */
    if (w->is_drop_target) outline(&c, (struct rect){0, 0, w->width, w->height}, 0, accent);
    cairo_restore(cr);
}
