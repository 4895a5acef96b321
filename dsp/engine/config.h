/* config - the public structs that begin with their size, and what a program may leave out of a hc_config. */
#ifndef HALOCONV_CONFIG_H
#define HALOCONV_CONFIG_H

#include "dsp/haloconv.h"

enum { CONFIG_MOST_FLIGHT = 16 }; /* queue depth of files */

/* Copies as much of *given as its program knows (NULL: nothing), sets the defaults and checks the result. Resolved for
 * the engine and its backends: block is 0 for files, fade_frames is 0 for no fade, method is a static string. backend is
 * the caller's string, n_routes, flight and n_threads may be 0, and wait_us is as given. HC_EINVAL and a text. */
int config_resolve(const hc_config *given, hc_config *resolved, char *why, size_t cap);

/* HC_EINVAL and a text unless info->size is the size of some version's hc_info. */
int info_check(const hc_info *info, char *why, size_t cap);

/* Copies *full to a checked *info, as much as that holds. info->size stays; what this library does not know is 0. */
void info_copy(const hc_info *full, hc_info *info);

#endif
