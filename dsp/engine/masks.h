/* masks - the matrix of a mask (struct matrix of backend.h): checks the routes that a caller gives, and adds up those of
 * each pair of input and output. Also makes matrices of noise.
 *
 * Both calls check their arguments. They fail with HC_EINVAL or HC_ENOMEM, and the matrix is then empty. [setup]
 */
#ifndef HALOCONV_MASKS_H
#define HALOCONV_MASKS_H

#include "dsp/device/backend.h"

/* Applies gains and delays, and adds up the routes of each pair. Routes with the same data share a response. */
int matrix_make(struct matrix *matrix, const hc_config *config, const hc_route *routes, int n, struct reason *why);
/* has_taps: false: only the cells and the number of taps, for backend.mask_make_noise. */
int matrix_of_noise(struct matrix *matrix, const hc_config *config, const struct noise *noise, bool has_taps,
                    struct reason *why);
void matrix_free(struct matrix *matrix); /* an empty matrix is allowed */

#endif
