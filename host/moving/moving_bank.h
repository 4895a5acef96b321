/* moving_bank - loads a bank for a command, and prints the notes of the library about the bank. */
#ifndef MOVING_BANK_H
#define MOVING_BANK_H

#include "dsp/haloconv_scenes.h"

#include <stdbool.h>

struct moving_bank_options {
    double grid_deg;    /* 0: the directions of the file */
    bool normalise;
    bool keeps_rate;    /* the bank is not resampled: its samples count as samples of `rate` */
};

/* Loads a bank. rate: rate of the sounds. mixes: sources will play mixes of entries. Free *data with hc_bank_data_free.
 * false: why has the reason. */
bool moving_bank_load(hc_bank_data *data, const char *path, int rate, const struct moving_bank_options *options,
                      bool mixes, char *why, size_t cap);

/* Prints the library's notes, the size of the bank and its largest gain. */
void moving_bank_print(const hc_bank_data *data, const char *path);

#endif
