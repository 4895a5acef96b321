/* response_cut - where a response may end. */
#ifndef HALOCONV_RESPONSE_CUT_H
#define HALOCONV_RESPONSE_CUT_H

/* The smallest length, at least 1, of h[n] such that the energy behind it is at most rest_db of the whole; at most
 * `max`. *cut_db: the energy behind it, relative to the whole; -INFINITY: nothing. NULL is allowed. */
int response_cut(const double *h, int n, double rest_db, int max, double *cut_db);

#endif
