/* bank_look - loads a file as a bank, and checks what haloconv_scenes.h promises of it; for fuzz targets. */
#ifndef BANK_LOOK_H
#define BANK_LOOK_H

#include "fuzz.h"
#include "haloconv_scenes.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static inline void entry_look(const hc_bank_data *bank, int e)
{
    int entries[HC_MAX_MIX];
    float weights[HC_MAX_MIX], sum = 0;
    for (int c = 0; c < 3; c++) must(isfinite(bank->position[e][c]));
    int nearest = hc_bank_nearest(bank, bank->position[e]);
    must(nearest >= 0 && nearest < bank->n_entries);
    int n = hc_bank_mix(bank, bank->position[e], entries, weights);
    must(n >= 1 && n <= HC_MAX_MIX);
    for (int i = 0; i < n; i++) {
        must(entries[i] >= 0 && entries[i] < bank->n_entries && weights[i] > 0);
        sum += weights[i];
    }
    must(fabsf(sum - 1) < 1e-5f);
}

static inline void bank_look(const char *path)
{
    char why[4 * PATH_MAX] = ""; /* of a name as long as the system allows, the remedy is there, too */
    hc_bank_data bank = {.size = sizeof bank};
    int code = hc_bank_load(path, 0, NULL, &bank, why, sizeof why);
    must((code == HC_OK) == (*why == 0) && (code == HC_OK || strchr(why, ';')));
    for (const char *at = why; *at; at++) must((unsigned char)*at >= ' ');
    if (code != HC_OK) {
        must(!bank.memory && bank.n_entries == 0);
        return;
    }
    must(bank.n_entries >= 1 && bank.n_out >= 1 && bank.n_taps >= 1 && *bank.notes);
    for (int i = 0; i < bank.n_entries * bank.n_out; i++)
        for (int k = 0; k < bank.n_taps; k++) must(isfinite(bank.taps[i][k]));
    for (int e = 0; e < bank.n_entries && bank.position; e++) entry_look(&bank, e);
    hc_bank_data_free(&bank);
}

#endif
