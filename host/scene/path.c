#include "path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void path_free(struct path *path)
{
    free(path->rows);
    free(path->first);
    *path = (struct path){0};
}

static double path_dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Turns from direction a (t = 0) to direction b (t = 1) on a great circle. Between opposite directions it turns to the
 * left, as azimuth does; from straight up or down it turns over the front. */
static void turn_on_great_circle(const double a[3], const double b[3], double t, double direction[3])
{
    double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    double sine = sqrt(path_dot(cross, cross)), angle = atan2(sine, path_dot(a, b)), side[3];
    if (sine > 1e-9) {
        for (int i = 0; i < 3; i++) side[i] = (b[i] - path_dot(a, b) * a[i]) / sine;
    } else if (path_dot(a, b) > 0) {
        memcpy(direction, a, 3 * sizeof *a);
        return;
    } else {
        double flat = hypot(a[0], a[1]);
        side[0] = flat > 1e-9 ? -a[1] / flat : 1;
        side[1] = flat > 1e-9 ? a[0] / flat : 0;
        side[2] = 0;
    }
    for (int i = 0; i < 3; i++) direction[i] = cos(t * angle) * a[i] + sin(t * angle) * side[i];
}

static void path_direction_of(double azimuth, double elevation, double direction[3])
{
    const double degree = path_degree;
    direction[0] = cos(elevation * degree) * cos(azimuth * degree);
    direction[1] = cos(elevation * degree) * sin(azimuth * degree);
    direction[2] = sin(elevation * degree);
}

static bool counts_turns(const struct path_row *row)
{
    return row->at[0] < -180 || row->at[0] >= 360;
}

static void point_on_sphere(const struct path_row *a, const struct path_row *b, double t, float position[3])
{
    double direction[3], distance = a->at[2] + t * (b->at[2] - a->at[2]);
    if (counts_turns(a) || counts_turns(b))
        path_direction_of(a->at[0] + t * (b->at[0] - a->at[0]), a->at[1] + t * (b->at[1] - a->at[1]), direction);
    else
        turn_on_great_circle(a->direction, b->direction, t, direction);
    for (int i = 0; i < 3; i++) position[i] = (float)(direction[i] * distance);
}

void path_at(const struct path *path, int source, int64_t frame, size_t *row, struct path_point *point)
{
    const size_t end = path->first[source + 1];
    while (*row + 1 < end && path->rows[*row + 1].frame <= (double)frame) ++*row;
    const struct path_row *a = &path->rows[*row], *b = *row + 1 < end ? a + 1 : a;
    double t = b->frame > a->frame ? ((double)frame - a->frame) / (b->frame - a->frame) : 0;
    if (t < 0 || path->holds) t = 0;
    point->entry = a->entry;
    point->gain = a->gain + t * (b->gain - a->gain);
    if (path->kind == PATH_SPHERE) point_on_sphere(a, b, t, point->position);
    for (int i = 0; i < 3 && path->kind == PATH_LINE; i++)
        point->position[i] = (float)(a->at[i] + t * (b->at[i] - a->at[i]));
}

static int compare_rows(const void *left, const void *right)
{
    const struct path_row *a = left, *b = right;
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

bool path_finish(struct path *path)
{
    path->first = calloc((size_t)path->n_sources + 1, sizeof *path->first);
    if (!path->first) return false;
    qsort(path->rows, path->n_rows, sizeof *path->rows, compare_rows);
    for (size_t i = 0; i < path->n_rows; i++) {
        struct path_row *row = &path->rows[i];
        if (path->kind == PATH_SPHERE) path_direction_of(row->at[0], row->at[1], row->direction);
        path->first[row->source + 1]++;
    }
    for (int s = 0; s < path->n_sources; s++) path->first[s + 1] += path->first[s];
    return true;
}

struct path_row *path_row_add(struct path *path, size_t *capacity)
{
    if (path->n_rows == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 64;
        struct path_row *rows = realloc(path->rows, more * sizeof *rows);
        if (!rows) return NULL;
        path->rows = rows;
        *capacity = more;
    }
    struct path_row *row = &path->rows[path->n_rows++];
    *row = (struct path_row){.gain = 1, .at = {0, 0, 1}};
    return row;
}
