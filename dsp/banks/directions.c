#include "directions.h"

#include "spherical_hull.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CELLS_A_SIDE = 128,   /* makes 98304 cells, more than there are entries                                    */
    MAX_CANDIDATES = 1 << 24, /* 64 MB. Points all around the listener need 15 for each point; points of one region
                                  many more: seen from the far side, all of them are about as near                  */
};
static const double same_direction = 2e-5; /* chord of 0.001 degrees; rounding to float is 1e-7         */

struct directions {
    int n_points;
    double (*point)[3]; /* [n_points]: unit vectors                                              */
    int *first;         /* [n_points + 1]: the entries of point p are entry[first[p]] and after  */
    int *entry;         /* [n_entries]: entries, by point, then by distance                      */
    double *distance;   /* [n_entries], in the order of entry[]                                  */
    int n_side;         /* K: cells along the side of a face                                     */
    int *cell_first;    /* [6 * K * K + 1]: cell c has candidate[cell_first[c]] and after        */
    int *candidate;     /* the points that cells list                                            */
    size_t n_candidates, candidates_cap;
    int *cell_facet; /* [6 * K * K]: a facet near the middle of the cell                      */
    struct spherical_hull hull;
};

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

/* Computes the direction of a position; at the listener it is {1, 0, 0}. Returns the distance. */
static double direction_of_position(const float position[3], double direction[3])
{
    double x = (double)position[0], y = (double)position[1], z = (double)position[2];
    double length = sqrt(x * x + y * y + z * z);
    if (!(length > 0) || !isfinite(length)) {
        direction[0] = 1;
        direction[1] = direction[2] = 0;
        return 0;
    }
    direction[0] = x / length;
    direction[1] = y / length;
    direction[2] = z / length;
    return length;
}

/* Returns the squared chord between two directions, which unlike the cosine is exact for small angles. */
static double chord2(const double a[3], const double b[3])
{
    double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return x * x + y * y + z * z;
}

int positions_nearest(const float (*position)[3], int n, const float wanted[3])
{
    double to[3], best[3] = {0}, min = INFINITY, min_off = INFINITY;
    double distance = direction_of_position(wanted, to);
    int nearest = 0;
    for (int i = 0; i < n; i++) {
        double direction[3], off = fabs(direction_of_position(position[i], direction) - distance);
        double chord = chord2(direction, to);
        bool same = chord2(direction, best) <= same_direction * same_direction;
        if (same ? !(off < min_off) : !(chord < min)) continue;
        if (!same) {
            memcpy(best, direction, sizeof best);
            min = chord;
        }
        min_off = off;
        nearest = i;
    }
    return nearest;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

struct sorted { /* an entry, for sorting entries of one direction together */
    double key; /* coordinate along a line that is oblique to every regular set; later the distance */
    int entry, point;
};

static int by_key(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->point != y->point) return x->point < y->point ? -1 : 1;
    if (x->key < y->key || x->key > y->key) return x->key < y->key ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Assigns each entry to a point. `sorted` is sorted by key. */
static void find_points(struct directions *d, const float (*position)[3], struct sorted *sorted, int n)
{
    for (int i = 0; i < n; i++) {
        double from[3], to[3];
        if (sorted[i].point >= 0) continue;
        direction_of_position(position[sorted[i].entry], from);
        memcpy(d->point[d->n_points], from, sizeof from);
        sorted[i].point = d->n_points;
        for (int j = i + 1; j < n && sorted[j].key - sorted[i].key <= same_direction; j++) {
            direction_of_position(position[sorted[j].entry], to);
            if (sorted[j].point < 0 && chord2(from, to) <= same_direction * same_direction)
                sorted[j].point = d->n_points;
        }
        d->n_points++;
    }
}

static bool directions_points_make(struct directions *d, const float (*position)[3], int n)
{
    struct sorted *sorted = malloc((size_t)n * sizeof *sorted);
    d->point = malloc((size_t)n * sizeof *d->point);
    d->first = malloc(((size_t)n + 1) * sizeof *d->first);
    d->entry = malloc((size_t)n * sizeof *d->entry);
    d->distance = malloc((size_t)n * sizeof *d->distance);
    bool good = sorted && d->point && d->first && d->entry && d->distance;
    for (int i = 0; i < n && good; i++) {
        double v[3];
        direction_of_position(position[i], v);
        sorted[i] = (struct sorted){0.5314 * v[0] + 0.7211 * v[1] + 0.4446 * v[2], i, -1};
    }
    if (good) {
        qsort(sorted, (size_t)n, sizeof *sorted, by_key);
        find_points(d, position, sorted, n);
        double unused[3];
        for (int i = 0; i < n; i++) sorted[i].key = direction_of_position(position[sorted[i].entry], unused);
        qsort(sorted, (size_t)n, sizeof *sorted, by_key);
        for (int i = 0; i < n; i++) {
            if (i == 0 || sorted[i].point != sorted[i - 1].point) d->first[sorted[i].point] = i;
            d->entry[i] = sorted[i].entry;
            d->distance[i] = sorted[i].key;
        }
        d->first[d->n_points] = n;
    }
    free(sorted);
    return good;
}

/* Returns the entry of a point whose distance is nearest to `distance`. */
static int directions_entry(const struct directions *d, int point, double distance)
{
    int low = d->first[point], high = d->first[point + 1] - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (d->distance[middle] < distance)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > d->first[point] && distance - d->distance[low - 1] <= d->distance[low] - distance) {
        /* The bank's first entry wins among equal distances. */
        low--;
        while (low > d->first[point] && !(d->distance[low - 1] < d->distance[low])) low--;
    }
    return d->entry[low];
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Returns the cell of a direction: the face of the cube through which it passes, and the position on that face. */
static int cell_of(int n_side, const double v[3])
{
    int axis = 0;
    for (int c = 1; c < 3; c++)
        if (fabs(v[c]) > fabs(v[axis])) axis = c;
    double scale = n_side / (2 * fabs(v[axis]));
    int column = (int)(v[(axis + 1) % 3] * scale + n_side * 0.5), row = (int)(v[(axis + 2) % 3] * scale + n_side * 0.5);
    if (column >= n_side) column = n_side - 1;
    if (row >= n_side) row = n_side - 1;
    if (column < 0) column = 0;
    if (row < 0) row = 0;
    return ((axis * 2 + (v[axis] < 0)) * n_side + row) * n_side + column;
}

/* Computes a direction in a cell; x, y: 0 to 1 along its sides. */
static void cell_direction(int n_side, int cell, double x, double y, double v[3])
{
    int column = cell % n_side, row = cell / n_side % n_side, face = cell / n_side / n_side, axis = face / 2;
    v[axis] = face % 2 ? -1 : 1;
    v[(axis + 1) % 3] = 2 * (column + x) / n_side - 1;
    v[(axis + 2) % 3] = 2 * (row + y) / n_side - 1;
    double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int c = 0; c < 3; c++) v[c] /= length;
}

/* Returns the largest chord from the middle of a cell to a corner. */
static double cell_radius(int n_side, int cell, const double middle[3])
{
    double max = 0;
    for (int corner = 0; corner < 4; corner++) {
        double v[3];
        cell_direction(n_side, cell, corner & 1 ? 1 : 0, corner & 2 ? 1 : 0, v);
        max = fmax(max, chord2(middle, v));
    }
    return sqrt(max);
}

static bool candidate_add(struct directions *d, int point)
{
    if (d->n_candidates == d->candidates_cap) {
        size_t more = d->candidates_cap ? 2 * d->candidates_cap : 1024;
        int *candidate = realloc(d->candidate, more * sizeof *candidate);
        if (!candidate) return false;
        d->candidate = candidate;
        d->candidates_cap = more;
    }
    d->candidate[d->n_candidates++] = point;
    return true;
}

/* Lists the candidates of a cell among from[n] (NULL: all points). A direction in the cell is at most `radius` from the
 * middle, so its nearest point is at most 2 * radius farther from the middle than the middle's nearest point. */
static bool cell_fill(struct directions *d, const int *from, int n, const double middle[3], double radius)
{
    double min = INFINITY;
    for (int i = 0; i < n; i++) min = fmin(min, chord2(middle, d->point[from ? from[i] : i]));
    double max = sqrt(min) + 2 * radius + same_direction;
    for (int i = 0; i < n; i++) {
        int point = from ? from[i] : i;
        if (chord2(middle, d->point[point]) <= max * max && !candidate_add(d, point)) return false;
    }
    return true;
}

/* The lists of a coarser division, which has [n_side / times]^2 * 6 cells, each `times` as wide. */
struct coarse {
    int n_side;
    int *first, *point;
};

/* Makes lists for n_side cells a side from the lists of a coarser division (NULL: from all points), in d->cell_first
 * and d->candidate. Ends early if they have more than MAX_CANDIDATES. */
static bool directions_cells_make(struct directions *d, int n_side, const struct coarse *coarse)
{
    int n_cells = 6 * n_side * n_side;
    d->n_side = n_side;
    d->candidate = NULL;
    d->n_candidates = d->candidates_cap = 0;
    d->cell_first = malloc(((size_t)n_cells + 1) * sizeof *d->cell_first);
    if (!d->cell_first) return false;
    for (int cell = 0; cell < n_cells; cell++) {
        double middle[3];
        const int *from = NULL;
        int n = d->n_points;
        cell_direction(n_side, cell, 0.5, 0.5, middle);
        if (coarse->point) {
            int around = cell_of(coarse->n_side, middle);
            from = coarse->point + coarse->first[around];
            n = coarse->first[around + 1] - coarse->first[around];
        }
        d->cell_first[cell] = (int)d->n_candidates;
        if (!cell_fill(d, from, n, middle, cell_radius(n_side, cell, middle))) return false;
        if (d->n_candidates > MAX_CANDIDATES) return true;
    }
    d->cell_first[n_cells] = (int)d->n_candidates;
    return true;
}

/* Divides the sphere four times finer in each step, until there are about as many cells as points, or the lists
 * would be too long. */
static bool table_make(struct directions *d)
{
    struct coarse coarse = {0};
    int finest = 1;
    while (finest < MAX_CELLS_A_SIDE && 6 * finest * finest < d->n_points) finest *= 2;
    for (int n_side = 1;; n_side *= 2) {
        bool good = directions_cells_make(d, n_side, &coarse);
        if (good && d->n_candidates > MAX_CANDIDATES) { /* never true for the first division of 6 lists */
            free(d->cell_first);
            free(d->candidate);
            d->n_side = coarse.n_side;
            d->cell_first = coarse.first;
            d->candidate = coarse.point;
            return true;
        }
        free(coarse.first);
        free(coarse.point);
        if (n_side >= finest || !good) return good;
        coarse = (struct coarse){n_side, d->cell_first, d->candidate};
        d->cell_first = d->candidate = NULL;
    }
}

static bool cell_facets_make(struct directions *d)
{
    int n_cells = 6 * d->n_side * d->n_side, at = 0;
    d->cell_facet = malloc((size_t)n_cells * sizeof *d->cell_facet);
    if (!d->cell_facet) return false;
    for (int cell = 0; cell < n_cells; cell++) {
        double middle[3], weights[3];
        cell_direction(d->n_side, cell, 0.5, 0.5, middle);
        d->cell_facet[cell] = at = spherical_hull_find(&d->hull, middle, at, weights);
    }
    return true;
}

struct directions *directions_make(const float (*position)[3], int n)
{
    struct directions *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    if (directions_points_make(d, position, n) && table_make(d) &&
        spherical_hull_make(&d->hull, (const double(*)[3])d->point, d->n_points) && cell_facets_make(d))
        return d;
    directions_free(d);
    return NULL;
}

void directions_free(struct directions *d)
{
    if (!d) return;
    free(d->point);
    free(d->first);
    free(d->entry);
    free(d->distance);
    free(d->cell_first);
    free(d->candidate);
    free(d->cell_facet);
    spherical_hull_free(&d->hull);
    free(d);
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

static int point_nearest(const struct directions *d, const double to[3])
{
    int cell = cell_of(d->n_side, to), nearest = d->candidate[d->cell_first[cell]];
    double min = INFINITY;
    for (int i = d->cell_first[cell]; i < d->cell_first[cell + 1]; i++) {
        double chord = chord2(d->point[d->candidate[i]], to);
        if (!(chord < min)) continue;
        min = chord;
        nearest = d->candidate[i];
    }
    return nearest;
}

int directions_nearest(const struct directions *d, const float position[3])
{
    double to[3], distance = direction_of_position(position, to);
    return directions_entry(d, point_nearest(d, to), distance);
}

int directions_mix(const struct directions *d, const float position[3], int entries[3], float weights[3])
{
    double to[3], w[3], distance = direction_of_position(position, to);
    int corners[3], facet = spherical_hull_find(&d->hull, to, d->cell_facet[cell_of(d->n_side, to)], w);
    int n = spherical_hull_corners(&d->hull, facet, w, corners);
    if (n == 0) {
        corners[n++] = point_nearest(d, to);
        w[0] = 1;
    }
    for (int i = 0; i < n; i++) {
        entries[i] = directions_entry(d, corners[i], distance);
        weights[i] = (float)w[i];
    }
    return n;
}

double directions_beyond(const struct directions *d, const float position[3])
{
    double to[3], w[3];
    direction_of_position(position, to);
    int facet = spherical_hull_find(&d->hull, to, d->cell_facet[cell_of(d->n_side, to)], w);
    double angle = spherical_hull_beyond(&d->hull, facet, to);
    if (angle >= 0) return angle;
    return 2 * asin(fmin(1, sqrt(chord2(to, d->point[point_nearest(d, to)])) / 2));
}
