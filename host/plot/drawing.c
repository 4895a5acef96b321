#include "drawing.h"

#include "host/utf8.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void drawing_free(struct drawing *d)
{
    for (size_t i = 0; i < d->n_shapes; i++) free(d->shapes[i].text);
    free(d->shapes);
    free(d->points);
    *d = (struct drawing){0};
}

/* Returns the list with capacity for `more` items. Without memory: the same list, and d->failed. */
static void *grown(struct drawing *d, void *list, size_t item_bytes, size_t n, size_t more, size_t *capacity)
{
    if (d->failed || n + more <= *capacity) return list;
    size_t wanted = 2 * (n + more);
    void *larger = realloc(list, wanted * item_bytes);
    d->failed = !larger;
    if (!larger) return list;
    *capacity = wanted;
    return larger;
}

static void shape_add(struct drawing *d, struct shape shape, const struct point *points, size_t n)
{
    d->shapes = grown(d, d->shapes, sizeof *d->shapes, d->n_shapes, 1, &d->shapes_cap);
    d->points = grown(d, d->points, sizeof *d->points, d->n_points, n, &d->points_cap);
    if (d->failed) {
        free(shape.text);
        return;
    }
    if (n > 0) memcpy(d->points + d->n_points, points, n * sizeof *points);
    shape.first = d->n_points;
    shape.n = n;
    d->n_points += n;
    d->shapes[d->n_shapes++] = shape;
}

static char *cleaned(struct drawing *d, const char *text, double max_cells)
{
    char *clean = text && !d->failed ? plain_text_make(text, max_cells) : NULL;
    if (text && !clean) d->failed = true;
    return clean;
}

void drawing_path(struct drawing *d, struct ink ink, const char *name, const struct point *points, size_t n)
{
    shape_add(d, (struct shape){.kind = SHAPE_PATH, .ink = ink, .text = cleaned(d, name, INFINITY)}, points, n);
}

void drawing_line(struct drawing *d, struct ink ink, double x0, double y0, double x1, double y1)
{
    drawing_path(d, ink, NULL, (const struct point[]){{x0, y0}, {x1, y1}}, 2);
}

void drawing_box(struct drawing *d, struct ink ink, double x, double y, double width, double height)
{
    const struct point corners[] = {{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}, {x, y}};
    drawing_path(d, ink, NULL, corners, 5);
}

static double add_text(struct drawing *d, struct shape shape, double max, const char *text, struct point at)
{
    const double cell = 0.63 * shape.size; /* the mean width of a letter or digit of DejaVu Sans, a wide font */
    shape.kind = SHAPE_TEXT;
    shape.text = cleaned(d, text, max / cell);
    double width = shape.text ? cell * plain_text_cells(shape.text) : 0;
    shape_add(d, shape, &at, 1);
    return width;
}

double drawing_text(struct drawing *d, double x, double y, double size, enum text_anchor anchor, double max,
                    const char *text)
{
    return add_text(d, (struct shape){.size = size, .anchor = anchor}, max, text, (struct point){x, y});
}

void drawing_heading(struct drawing *d, double x, double y, double size, double max, const char *text)
{
    add_text(d, (struct shape){.size = size, .is_bold = true}, max, text, (struct point){x, y});
}

void drawing_group(struct drawing *d, const char *name, const struct point corners[2])
{
    shape_add(d, (struct shape){.kind = SHAPE_GROUP, .text = cleaned(d, name, INFINITY)}, corners, corners ? 2 : 0);
}

void drawing_group_end(struct drawing *d)
{
    shape_add(d, (struct shape){.kind = SHAPE_GROUP_END}, NULL, 0);
}

/* ---- plain texts ------------------------------------------------------------------------------ */

/* Returns the character of n bytes, n from utf8_bytes. */
static uint32_t code_of(const unsigned char *at, size_t n)
{
    uint32_t code = n == 1 ? at[0] : at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) code = code << 6 | (at[i] & 0x3f);
    return code;
}

static bool code_is_shown(uint32_t code)
{
    bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
    bool turns = code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                 (code >= 0x2066 && code <= 0x2069);
    return !is_control && !turns && code != 0xfffe && code != 0xffff;
}

static int code_cells(uint32_t code)
{
    bool is_wide = (code >= 0x1100 && code < 0x1160) || (code >= 0x2e80 && code < 0xa4d0) ||
                   (code >= 0xac00 && code < 0xd7b0) || (code >= 0xf900 && code < 0xfb00) ||
                   (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff00 && code < 0xff61) || code >= 0x1f000;
    return is_wide ? 2 : 1;
}

int plain_text_cells(const char *text)
{
    int cells = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t n = utf8_bytes(at);
        cells += n ? code_cells(code_of(at, n)) : 1;
        at += n ? n : 1;
    }
    return cells;
}

/* Returns the number of bytes of clean UTF-8 that fill at most so many cells, from the start, or if `from_end` at the
 * end. */
static size_t bytes_in(const char *text, int cells, bool from_end)
{
    size_t length = strlen(text), bytes = 0;
    if (!from_end) {
        while (bytes < length) {
            size_t n = utf8_bytes((const unsigned char *)text + bytes);
            cells -= code_cells(code_of((const unsigned char *)text + bytes, n));
            if (cells < 0) break;
            bytes += n;
        }
        return bytes;
    }
    while (bytes < length && plain_text_cells(text + bytes) > cells)
        bytes += utf8_bytes((const unsigned char *)text + bytes);
    return length - bytes;
}

static void cut_middle(char *text, int max)
{
    static const char gap[] = "\xe2\x80\xa6"; /* U+2026 */
    size_t length = strlen(text), before = bytes_in(text, (max - 1) / 2, false);
    size_t behind = bytes_in(text, max - 1 - (max - 1) / 2, true);
    if (before + behind + sizeof gap - 1 > length) return; /* no space for the gap: max is tiny */
    memmove(text + before + sizeof gap - 1, text + length - behind, behind + 1);
    memcpy(text + before, gap, sizeof gap - 1);
}

char *plain_text_make(const char *text, double max_cells)
{
    enum { LONGEST = 4096 }; /* cells: more than the name of any file */
    char *copy = calloc(strlen(text) + 1, sizeof UTF8_REPLACEMENT - 1), *to = copy;
    if (!copy) return NULL; /* else zeroed: the text ends with a 0 */
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t n = utf8_bytes(at);
        bool shown = n > 0 && code_is_shown(code_of(at, n));
        to = shown ? mempcpy(to, at, n) : mempcpy(to, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT - 1);
        at += n ? n : 1;
    }
    int max = max_cells < LONGEST ? (int)max_cells : LONGEST;
    if (plain_text_cells(copy) > max) cut_middle(copy, max);
    return copy;
}
