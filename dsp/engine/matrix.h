/* matrix - a caller's routes made plain for a backend: checked, gains and delays applied, routes on one pair added. */
#ifndef HALOCONV_MATRIX_H
#define HALOCONV_MATRIX_H

#include "backend.h"

int matrix_make(struct matrix *matrix, const hc_config *config, const hc_route *routes, int n, char *why, size_t cap);
int matrix_of_noise(struct matrix *matrix, const hc_config *config, const struct noise *noise, char *why, size_t cap);
void matrix_free(struct matrix *matrix);

#endif
