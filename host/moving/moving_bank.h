/* moving_bank - loads a bank for a command, and says what was done to it. */
#ifndef MOVING_BANK_H
#define MOVING_BANK_H

#include "dsp/haloconv_scenes.h"

#include <stdbool.h>

struct moving_bank_options {
    double grid_deg;    /* 0: the directions of the file */
    bool normalise;
    bool keeps_rate;    /* the samples count as samples of `rate` */
};

/* rate: of the sounds. mixes: sources will play mixes of entries. Free *data with hc_bank_data_free. false: why has the
 * reason. */
bool moving_bank_load(hc_bank_data *data, const char *path, int rate, const struct moving_bank_options *options,
                      bool mixes, char *why, size_t cap);

/* Prints what the library did, and the level. */
void moving_bank_print(const hc_bank_data *data, const char *path);

#endif
