/* routes - checks the routes that a caller gives for a mask, adds those of one pair of input and output, and makes the
 * matrix of the mask (struct matrix of backend.h) from them; or a matrix of noise.
 *
 * Both calls check their arguments. They fail with HC_EINVAL or HC_ENOMEM, and the matrix is then empty. [setup]
 */
#ifndef HALOCONV_ROUTES_H
#define HALOCONV_ROUTES_H

#include "dsp/device/backend.h"

/* Applies gains and delays, and adds routes on the same pair. Routes with the same data share a response. */
int matrix_make(struct matrix *matrix, const hc_config *config, const hc_route *routes, int n, struct reason *why);
int matrix_of_noise(struct matrix *matrix, const hc_config *config, const struct noise *noise, struct reason *why);
void matrix_free(struct matrix *matrix); /* an empty matrix is allowed */

#endif
