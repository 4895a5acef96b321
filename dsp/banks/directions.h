/* directions - finds entries of a bank by direction: the nearest one, and the three around a direction. A table is made
 * at load; searches use no lock and allocate nothing.
 *
 *   point   a direction that entries have; entries within 0.001 degrees of each other share a point, sorted by distance
 *   cell    one of 6 * K * K areas of the sphere (on the faces of a cube); lists the points that can be nearest to a
 *           direction in the cell, and a triangle at which a search for the triangle around a direction begins
 */
#ifndef HALOCONV_DIRECTIONS_H
#define HALOCONV_DIRECTIONS_H

struct directions;

/* Makes the table. A position at the listener, {0, 0, 0}, counts as ahead. NULL: no memory. */
struct directions *directions_make(const float (*position)[3], int n);
void directions_free(struct directions *directions);

/* Returns the entry with the smallest angle to a direction; if a point has several, the nearest in distance. [rt] */
int directions_nearest(const struct directions *directions, const float position[3]);

/* Finds up to three entries around a direction, with weights that add up to 1. Returns their number. Beyond the
 * measured range, moves the direction along a great circle to the edge of the range (spherical_hull.h). [rt] */
int directions_mix(const struct directions *directions, const float position[3], int entries[3], float weights[3]);

/* Returns how many radians a direction is beyond the measured range; 0 inside. [rt] */
double directions_beyond(const struct directions *directions, const float position[3]);

/* Finds the nearest entry as directions_nearest does, but without a table: examines every entry. [rt] */
int positions_nearest(const float (*position)[3], int n, const float wanted[3]);

#endif
