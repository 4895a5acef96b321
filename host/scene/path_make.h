/* path_make - builds a path: add rows in any order, then call path_finish. */
#ifndef PATH_MAKE_H
#define PATH_MAKE_H

#include "path.h"

static const double path_degree = 3.14159265358979323846 / 180; /* in radians */

/* Adds a row with gain 1 and position 0, 0, 1. *capacity: capacity of path->rows, 0 at first. NULL: no memory. */
struct path_row *path_row_add(struct path *path, size_t *capacity);

/* Sorts the rows by source and line, and finds the first of each source. false: no memory. */
bool path_finish(struct path *path);

#endif
