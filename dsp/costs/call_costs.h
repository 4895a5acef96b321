/* call_costs - what a call of hc_process costs on a backend whatever is in it: the way to the device and back. */
#ifndef HALOCONV_CALL_COSTS_H
#define HALOCONV_CALL_COSTS_H

#include <stddef.h>

/* Nanoseconds, by the median of many blocks of a small engine, back to back. Fails as hc_open does. [setup] */
int call_costs_measure(const char *backend, double *ns, char *why, size_t cap);

#endif
