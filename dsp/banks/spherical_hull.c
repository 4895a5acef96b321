#include "spherical_hull.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const double helper_gap = 0.8191520442889918; /* cos 35 degrees */
enum { MAX_STEPS = 4096 };                           /* more steps than any walk across the largest set needs */
static const double flat = -2e-9;                    /* rounding may put a direction so far outside its facet */
static const double min_weight = 5e-5;               /* smaller weights, below -86 dB, are dropped */

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double c[3])
{
    for (int i = 0; i < 3; i++) c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static double triple_product(const double a[3], const double b[3], const double c[3])
{
    double ab[3];
    cross(a, b, ab);
    return dot(ab, c);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct making {
    struct spherical_hull *hull;
    double (*moved)[3];    /* [n_points]: the points, moved at random                          */
    int capacity;          /* number of facets with memory                                     */
    int *stamp;            /* [capacity]: the last point that sees the facet; -1: none         */
    int *seen;             /* [capacity]: the facets that the new point sees                   */
    int *fan;              /* [n_points]: the new facet whose edge begins at this point        */
    int *fan_end;          /* [n_points]: the new facet whose edge ends at this point          */
    int *unused, n_unused; /* facets that can be used again                                   */
};

/* Does the point see the facet from outside? */
static bool sees(const struct making *making, int facet, const double p[3])
{
    const int *c = making->hull->facets[facet].point;
    double ab[3], ac[3], ap[3];
    for (int i = 0; i < 3; i++) {
        ab[i] = making->moved[c[1]][i] - making->moved[c[0]][i];
        ac[i] = making->moved[c[2]][i] - making->moved[c[0]][i];
        ap[i] = p[i] - making->moved[c[0]][i];
    }
    return triple_product(ab, ac, ap) > 0;
}

/* Finds a facet that p sees: the facet through which its direction passes. */
static int find_seen(const struct making *making, const double p[3], int from)
{
    const struct facet *facets = making->hull->facets;
    int at = from;
    for (int step = 0; step < making->hull->n_facets; step++) {
        int go = -1;
        for (int i = 0; i < 3 && go < 0; i++) {
            const double *b = making->moved[facets[at].point[(i + 1) % 3]];
            const double *c = making->moved[facets[at].point[(i + 2) % 3]];
            if (triple_product(b, c, p) < 0) go = facets[at].next[i];
        }
        if (go < 0) break;
        at = go;
    }
    if (sees(making, at, p)) return at;
    for (int i = 0; i < making->hull->n_facets; i++) /* the walk failed by rounding: search all facets */
        if (making->stamp[i] != -2 && sees(making, i, p)) return i;
    return -1;
}

static void link_to(struct spherical_hull *hull, int facet, int from, int to, int neighbour)
{
    for (int i = 0; i < 3; i++) {
        int a = hull->facets[facet].point[(i + 1) % 3], b = hull->facets[facet].point[(i + 2) % 3];
        if (a == from && b == to) hull->facets[facet].next[i] = neighbour;
    }
}

/* Adds point p, which sees facet `first`. Returns a new facet. */
static int hull_add_point(struct making *making, int p, int first)
{
    struct spherical_hull *hull = making->hull;
    int n_seen = 1, last = -1, start = -1;
    making->seen[0] = first;
    making->stamp[first] = p;
    for (int i = 0; i < n_seen; i++)
        for (int k = 0; k < 3; k++) {
            int next = hull->facets[making->seen[i]].next[k];
            if (making->stamp[next] == p || !sees(making, next, making->moved[p])) continue;
            making->stamp[next] = p;
            making->seen[n_seen++] = next;
        }
    for (int i = 0; i < n_seen; i++)
        for (int k = 0; k < 3; k++) {
            struct facet old = hull->facets[making->seen[i]];
            int outside = old.next[k], from = old.point[(k + 1) % 3], to = old.point[(k + 2) % 3];
            if (making->stamp[outside] == p) continue;
            int new = making->n_unused > 0 ? making->unused[--making->n_unused] : hull->n_facets++;
            making->stamp[new] = -1;
            hull->facets[new] = (struct facet){{p, from, to}, {outside, -1, -1}};
            link_to(hull, outside, to, from, new);
            making->fan[from] = new;
            making->fan_end[to] = new;
            start = from;
            last = new;
        }
    for (int at = start, turn = 0; last >= 0 && turn <= hull->n_points; turn++) { /* go around the horizon */
        int new = making->fan[at], to = hull->facets[new].point[2];
        hull->facets[new].next[1] = making->fan[to]; /* facet across the edge from `to` to p */
        hull->facets[new].next[2] = making->fan_end[at];
        at = to;
        if (at == start) break;
    }
    for (int i = 0; i < n_seen; i++) {
        making->stamp[making->seen[i]] = -2;
        making->unused[making->n_unused++] = making->seen[i];
    }
    return last;
}

static double random_move(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return ((double)((*state * 0x2545F4914F6CDD1Du) >> 40) / (1 << 23) - 1) * 1e-7;
}

/* Adds the helpers, and moves all points. */
static void hull_points_make(struct making *making, const double (*points)[3], int n)
{
    struct spherical_hull *hull = making->hull;
    uint64_t state = 88172645463325252u;
    memcpy(hull->point, points, (size_t)n * sizeof *points);
    hull->n_true = hull->n_points = n;
    for (int axis = 0; axis < 6; axis++) {
        double helper[3] = {0}, largest = -1;
        helper[axis / 2] = axis % 2 ? -1 : 1;
        for (int i = 0; i < n; i++) largest = fmax(largest, dot(helper, points[i]));
        if (largest < helper_gap) memcpy(hull->point[hull->n_points++], helper, sizeof helper);
    }
    for (int i = 0; i < hull->n_points; i++) {
        double *moved = making->moved[i];
        for (int c = 0; c < 3; c++) moved[c] = hull->point[i][c] + random_move(&state);
        double length = sqrt(dot(moved, moved)); /* stay on the sphere, or neighbours could cover the point */
        for (int c = 0; c < 3; c++) moved[c] /= length;
    }
}

/* Chooses the first four points, which surround the origin: ends of axes, or the points nearest to them. */
static bool first_facets(struct making *making, int first[4])
{
    static const double corner[4][3] = {{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}};
    struct spherical_hull *hull = making->hull;
    for (int k = 0; k < 4; k++) {
        first[k] = -1;
        for (int i = 0; i < hull->n_points; i++) {
            bool used = false;
            for (int j = 0; j < k; j++) used = used || first[j] == i;
            if (!used && (first[k] < 0 || dot(corner[k], making->moved[i]) > dot(corner[k], making->moved[first[k]])))
                first[k] = i;
        }
        if (first[k] < 0) return false;
    }
    double a[3], b[3], c[3];
    for (int i = 0; i < 3; i++) {
        a[i] = making->moved[first[1]][i] - making->moved[first[0]][i];
        b[i] = making->moved[first[2]][i] - making->moved[first[0]][i];
        c[i] = making->moved[first[3]][i] - making->moved[first[0]][i];
    }
    if (triple_product(a, b, c) > 0) { /* facet 0 1 2 must not see point 3 */
        int swap = first[1];
        first[1] = first[2];
        first[2] = swap;
    }
    static const int facets[4][3] = {{0, 1, 2}, {0, 3, 1}, {1, 3, 2}, {2, 3, 0}};
    for (int f = 0; f < 4; f++)
        for (int i = 0; i < 3; i++) hull->facets[f].point[i] = first[facets[f][i]];
    hull->n_facets = 4;
    for (int f = 0; f < 4; f++)
        for (int i = 0; i < 3; i++)
            for (int g = 0; g < 4; g++)
                for (int k = 0; k < 3; k++)
                    if (hull->facets[f].point[(i + 1) % 3] == hull->facets[g].point[(k + 2) % 3] &&
                        hull->facets[f].point[(i + 2) % 3] == hull->facets[g].point[(k + 1) % 3])
                        hull->facets[f].next[i] = g;
    return true;
}

/* Moves the used facets to the front. new_index[n_facets]: scratch. */
static void close_gaps(struct making *making, int *new_index)
{
    struct spherical_hull *hull = making->hull;
    int n = 0;
    for (int i = 0; i < hull->n_facets; i++) new_index[i] = making->stamp[i] == -2 ? -1 : n++;
    for (int i = 0; i < hull->n_facets; i++) {
        if (new_index[i] < 0) continue;
        struct facet facet = hull->facets[i];
        for (int k = 0; k < 3; k++) facet.next[k] = new_index[facet.next[k]];
        hull->facets[new_index[i]] = facet;
    }
    hull->n_facets = n;
}

static void facets_make(struct making *making)
{
    int first[4], at = 0;
    for (int i = 0; i < making->capacity; i++) making->stamp[i] = -1;
    if (!first_facets(making, first)) return;
    for (int p = 0; p < making->hull->n_points; p++) {
        if (p == first[0] || p == first[1] || p == first[2] || p == first[3]) continue;
        int seen = find_seen(making, making->moved[p], at);
        if (seen >= 0) at = hull_add_point(making, p, seen);
        for (int i = 0; seen < 0 && i < making->hull->n_facets; i++)
            if (making->stamp[i] != -2) at = i;
    }
    close_gaps(making, making->seen);
}

bool spherical_hull_make(struct spherical_hull *hull, const double (*points)[3], int n)
{
    size_t max = (size_t)n + 6;
    /* n points have 2 n - 4 facets; facets that a fan replaces can be used again from the next point on. */
    struct making making = {.hull = hull, .capacity = (int)(4 * max)};
    size_t n_facets = 4 * max;
    *hull = (struct spherical_hull){0};
    hull->point = malloc(max * sizeof *hull->point);
    hull->facets = malloc(n_facets * sizeof *hull->facets);
    making.moved = malloc(max * sizeof *making.moved);
    making.stamp = malloc(n_facets * sizeof *making.stamp);
    making.seen = malloc(n_facets * sizeof *making.seen);
    making.unused = malloc(n_facets * sizeof *making.unused);
    making.fan = malloc(max * sizeof *making.fan);
    making.fan_end = malloc(max * sizeof *making.fan_end);
    bool good = hull->point && hull->facets && making.moved && making.stamp && making.seen && making.unused &&
                making.fan && making.fan_end;
    if (good) {
        hull_points_make(&making, points, n);
        facets_make(&making);
    }
    free(making.moved);
    free(making.stamp);
    free(making.seen);
    free(making.unused);
    free(making.fan);
    free(making.fan_end);
    if (!good) spherical_hull_free(hull);
    return good;
}

void spherical_hull_free(struct spherical_hull *hull)
{
    free(hull->point);
    free(hull->facets);
    *hull = (struct spherical_hull){0};
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

int spherical_hull_find(const struct spherical_hull *hull, const double direction[3], int from, double weights[3])
{
    int at = from;
    for (int step = 0;; step++) {
        const struct facet *facet = &hull->facets[at];
        int min = 0;
        for (int i = 0; i < 3; i++) {
            weights[i] = triple_product(hull->point[facet->point[(i + 1) % 3]], hull->point[facet->point[(i + 2) % 3]],
                                        direction);
            if (weights[i] < weights[min]) min = i;
        }
        /* The hull is of moved points: a flat facet may not contain the direction exactly. */
        if (weights[min] >= flat || step >= MAX_STEPS) return at;
        at = facet->next[min];
    }
}

int spherical_hull_corners(const struct spherical_hull *hull, int facet, double weights[3], int corners[3])
{
    double sum = 0, left = 0;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (weights[i] < 0 || hull->facets[facet].point[i] >= hull->n_true) weights[i] = 0;
        sum += weights[i];
    }
    for (int i = 0; i < 3; i++) {
        if (!(weights[i] > sum * min_weight)) continue;
        corners[n] = hull->facets[facet].point[i];
        left += weights[n] = weights[i];
        n++;
    }
    for (int i = 0; i < n; i++) weights[i] /= left;
    return n;
}

double spherical_hull_beyond(const struct spherical_hull *hull, int facet, const double direction[3])
{
    const int *point = hull->facets[facet].point;
    int helper = -1, n_helpers = 0;
    for (int i = 0; i < 3; i++)
        if (point[i] >= hull->n_true) {
            helper = i;
            n_helpers++;
        }
    if (n_helpers == 0) return 0;
    if (n_helpers > 1) return -1;
    double normal[3];
    cross(hull->point[point[(helper + 1) % 3]], hull->point[point[(helper + 2) % 3]], normal);
    double length = sqrt(dot(normal, normal)), sine = dot(normal, direction) / (length > 0 ? length : 1);
    return asin(fmin(1, fmax(0, sine)));
}
