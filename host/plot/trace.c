#include "trace.h"

#include <math.h>
#include <stdlib.h>

static void point_add(struct trace *t, struct point point)
{
    if (t->n == t->capacity && !t->failed) {
        size_t capacity = t->capacity ? 2 * t->capacity : 1024;
        struct point *grown = realloc(t->points, capacity * sizeof *grown);
        t->failed = !grown;
        if (grown) {
            t->points = grown;
            t->capacity = capacity;
        }
    }
    if (!t->failed) t->points[t->n++] = point;
}

void trace_finish(struct trace *t)
{
    if (!t->has_kept) return;
    struct point first = t->kept[0], low = t->kept[1], high = t->kept[2], last = t->kept[3];
    struct point early = low.x <= high.x ? low : high, late = low.x <= high.x ? high : low;
    point_add(t, first);
    if (early.x > first.x) point_add(t, early);
    if (late.x > early.x && late.x > first.x) point_add(t, late);
    if (last.x > late.x) point_add(t, last);
    t->has_kept = false;
}

void trace_gap(struct trace *t)
{
    if (!t->has_kept || (t->has_gap && t->column == t->gap_column)) return;
    trace_finish(t);
    point_add(t, (struct point){t->points ? t->points[t->n - 1].x : 0, NAN});
    t->gap_column = t->column;
    t->has_gap = true;
}

void trace_add(struct trace *t, double x, double y)
{
    if (!isfinite(y)) {
        trace_gap(t);
        return;
    }
    const struct point point = {x, y};
    if (t->has_kept && floor(x) != t->column) trace_finish(t);
    if (!t->has_kept) {
        for (int i = 0; i < 4; i++) t->kept[i] = point;
        t->has_kept = true;
        t->column = floor(x);
        return;
    }
    if (y < t->kept[1].y) t->kept[1] = point;
    if (y > t->kept[2].y) t->kept[2] = point;
    t->kept[3] = point;
}

void trace_free(struct trace *t)
{
    free(t->points);
    *t = (struct trace){0};
}
