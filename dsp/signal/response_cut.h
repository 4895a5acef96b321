/* response_cut - finds the shortest length that keeps nearly all energy of a response. */
#ifndef HALOCONV_RESPONSE_CUT_H
#define HALOCONV_RESPONSE_CUT_H

/* Returns the smallest length, 1 to `max`, of h[n] such that the energy of the rest is at most rest_db below the whole.
 * *cut_db (cut_db may be NULL): the energy of the rest relative to the whole; -INFINITY: the rest is silent. */
int response_cut(const double *h, int n, double rest_db, int max, double *cut_db);

#endif
