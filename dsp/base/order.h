/* order - the orders of numbers and of texts, for qsort. */
#ifndef HALOCONV_ORDER_H
#define HALOCONV_ORDER_H

#include <string.h>

/* Of double, or of structs that begin with one. */
static inline int order_of_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int order_of_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

#endif
