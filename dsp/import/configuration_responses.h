/* configuration_responses - carries out the commands of a configuration: from a path to responses with routes. */
#ifndef HALOCONV_CONFIGURATION_RESPONSES_H
#define HALOCONV_CONFIGURATION_RESPONSES_H

#include "dsp/base/error.h"
#include "dsp/haloconv_masks.h"

/* hc_responses_load for a configuration. */
int configuration_responses(const char *path, int n_in, int rate, unsigned flags, hc_responses *responses,
                            struct reason *why);

#endif
