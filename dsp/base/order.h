/* order - the smaller and the larger of two numbers; the orders of numbers and of texts, for qsort. */
#ifndef HALOCONV_ORDER_H
#define HALOCONV_ORDER_H

#include <stdint.h>
#include <string.h>

static inline int min_int(int a, int b) { return a < b ? a : b; }
static inline int max_int(int a, int b) { return a > b ? a : b; }
static inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

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
