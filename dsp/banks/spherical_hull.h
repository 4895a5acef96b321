/* spherical_hull - triangles between directions: the convex hull of points on the unit sphere, which is their Delaunay
 * triangulation.
 *
 * The origin must be inside the hull, or some directions have no triangle. Each of the six directions +-x, +-y, +-z
 * that has no point within 35 degrees gets a helper point; then every half-space has a point, because each direction is
 * within 54.8 degrees of one of the six. A weight that falls on a helper is shared among the other corners, so a
 * direction beyond the measured range moves along the great circle through the helper to the edge of that range.
 * Example: a set ends at -40 degrees. A direction below keeps its azimuth and moves to -40 degrees.
 *
 * Points are added one by one; the facets that a new point sees are replaced by a fan (e.g. M. de Berg et al.,
 * Computational Geometry, chapter 11). Regular sets have many points on one circle; each point is moved by 1e-7 on the
 * sphere at random while facets are chosen, so that no four are in one plane. Weights come from the true points.
 */
#ifndef HALOCONV_SPHERICAL_HULL_H
#define HALOCONV_SPHERICAL_HULL_H

#include <stdbool.h>

struct facet {
    int point[3];       /* counter-clockwise as seen from outside                        */
    int next[3];        /* next[i]: the facet across the edge opposite to point[i]       */
};

struct spherical_hull {
    double (*point)[3]; /* [n_points]: unit vectors; those from n_true on are helpers    */
    int n_points, n_true;
    struct facet *facets; /* [n_facets]                                                  */
    int n_facets;
};

/* Makes the hull of points[n], unit vectors, no two of them closer than 1e-5. false: no memory. */
bool spherical_hull_make(struct spherical_hull *hull, const double (*points)[3], int n);
void spherical_hull_free(struct spherical_hull *hull);

/* Finds the facet through which a direction passes, by a walk from facet `from`, and its weights. [rt] */
int spherical_hull_find(const struct spherical_hull *hull, const double direction[3], int from, double weights[3]);

/* Moves the weights of helpers to the other corners, drops tiny weights, and makes their sum 1. Returns the number of
 * remaining corners, 0 if all are helpers; corners[] and weights[] begin with these. [rt] */
int spherical_hull_corners(const struct spherical_hull *hull, int facet, double weights[3], int corners[3]);

/* Returns how many radians a direction in a facet is beyond the facet's edge of two true points; 0: the facet has no
 * helper; -1: it has two or more. [rt] */
double spherical_hull_beyond(const struct spherical_hull *hull, int facet, const double direction[3]);

#endif
