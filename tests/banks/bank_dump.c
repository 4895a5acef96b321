/* bank_dump - prints a bank as hc_bank_load reads it, for tests in Python: a line of JSON, then all samples.
 *
 *   bank_dump FILE [RATE [GRID_DEG [NORMALISE]]]
 *   stdout: {"entries": 710, ..., "positions": [[x, y, z], ...]}\n, then float32 [entries][outputs][taps]
 *   exit 1: standard error has "CODE text"
 */
#include "haloconv_scenes.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void print_head(const hc_bank_data *bank)
{
    printf("{\"entries\": %d, \"outputs\": %d, \"taps\": %d, \"rate\": %d, \"file_rate\": %d, \"file_entries\": %d, ",
           bank->n_entries, bank->n_out, bank->n_taps, bank->rate, bank->file_rate, bank->n_file_entries);
    if (isfinite(bank->gain_db))
        printf("\"gain_db\": %.9g, \"notes\": [", (double)bank->gain_db);
    else
        printf("\"gain_db\": null, \"notes\": [");
    for (const char *at = bank->notes, *from = at; *at; at++) {
        if (*at != '\n') continue;
        printf("%s\"%.*s\"", from == bank->notes ? "" : ", ", (int)(at - from), from);
        from = at + 1;
    }
    printf("], \"positions\": ");
    for (int e = 0; e < bank->n_entries && bank->position; e++)
        printf("%s[%.9g, %.9g, %.9g]", e ? ", " : "[", (double)bank->position[e][0], (double)bank->position[e][1],
               (double)bank->position[e][2]);
    printf("%s}\n", bank->position ? "]" : "null");
}

/* Does the probe of the headers find the sizes of the bank, which was loaded at the rate of the file? */
static bool is_probed(const char *path, const hc_bank_data *bank, bool has_grid)
{
    hc_bank_data sizes = {.size = sizeof sizes};
    hc_bank_options options = {.size = sizeof options, .sizes_only = 1};
    char why[1024] = "";
    int code = hc_bank_load(path, 0, &options, &sizes, why, sizeof why);
    bool good = code == HC_OK && !sizes.taps && !sizes.position && sizes.n_entries == bank->n_file_entries &&
                sizes.n_out == bank->n_out && (has_grid || sizes.n_taps == bank->n_taps) && sizes.rate == bank->rate &&
                sizes.file_rate == bank->file_rate;
    if (!good)
        fprintf(stderr, "probe: %d %s; %d entries, %d outputs, %d taps\n", code, why, sizes.n_entries, sizes.n_out,
                sizes.n_taps);
    hc_bank_data_free(&sizes);
    return good;
}

int main(int argc, char **argv)
{
    hc_bank_data bank = {.size = sizeof bank};
    hc_bank_options options = {.size = sizeof options};
    char why[1024] = "";
    if (argc < 2) return 2;
    int rate = argc > 2 ? atoi(argv[2]) : 0;
    options.grid_deg = argc > 3 ? atof(argv[3]) : 0;
    options.normalise = argc > 4 ? atoi(argv[4]) : 0;
    int code = hc_bank_load(argv[1], rate, &options, &bank, why, sizeof why);
    if (code != HC_OK) {
        fprintf(stderr, "%d %s\n", code, why);
        return 1;
    }
    if (rate == 0 && !is_probed(argv[1], &bank, options.grid_deg > 0)) return 1;
    print_head(&bank);
    for (int i = 0; i < bank.n_entries * bank.n_out; i++)
        if (fwrite(bank.taps[i], sizeof(float), (size_t)bank.n_taps, stdout) != (size_t)bank.n_taps) return 1;
    hc_bank_data_free(&bank);
    return 0;
}
