/* bank_load - hc_bank_load and the other calls for hc_bank_data: chooses the reader of a path, then delays, resamples
 * and scales the bank. The readers: sofa.c; bank_sounds.c (lists, folders, single sound files). */
#include "alignment.h"
#include "bank.h"
#include "directions.h"
#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/masks/mask_file.h"
#include "dsp/scene/device_bank.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

static const double MIX_GRID_DEG = 2; /* mixes on the sphere that ships then err by 0.12 dB; at 4 degrees by 0.39 dB */
static const double MIX_GRID_BYTES = 0x1p30; /* a sphere of responses of 0.15 s at 48 kHz to two ears */

struct memory { /* hc_bank_data.memory points to it */
    struct bank bank;
    const float **taps;
    struct directions *directions; /* NULL: no positions */
};

static void memory_free(struct memory *memory)
{
    if (!memory) return;
    bank_free(&memory->bank);
    free(memory->taps);
    directions_free(memory->directions);
    free(memory);
}

/* ---- kinds of paths ---------------------------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int hc_bank_is_file(const char *path)
{
    if (!path) return 0;
    return mask_file_has_extension(path, ".sofa") || is_folder(path) ||
           (mask_file_has_extension(path, ".csv") && csv_is_bank(path));
}

static int bank_read_path(struct bank *bank, const char *path, int rate, struct reason *why)
{
    if (mask_file_has_extension(path, ".sofa")) return sofa_bank_read(bank, path, why);
    if (is_folder(path)) return folder_bank_read(bank, path, rate, why);
    if (mask_file_has_extension(path, ".csv") && csv_is_bank(path)) return csv_bank_read(bank, path, rate, why);
    return sound_bank_read(bank, path, rate, why);
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

static int levels_set(struct bank *bank, bool normalise, float *gain_db, const char *path, struct reason *why)
{
    double gain = 0;
    int error = bank_gain(bank, &gain, path, why);
    if (error) return error;
    *gain_db = (float)(20 * log10(gain)); /* silence has -inf */
    if (!normalise || !(gain > 0)) return HC_OK;
    size_t n = (size_t)bank->n_entries * (size_t)bank->n_out * (size_t)bank->n_taps;
    for (size_t i = 0; i < n; i++) bank->taps[i] = (float)((double)bank->taps[i] / gain);
    bank_note(bank, "normalised: scaled by %.2f dB, to a largest gain of 0 dB",
              rint(-2000 * log10(gain)) / 100 + 0.0); /* avoids -0.00 */
    *gain_db = 0;
    return HC_OK;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static int check_arguments(const char *path, int rate, const hc_bank_options *options, const hc_bank_data *data,
                           hc_bank_options *chosen, struct reason *why)
{
    if (!path || !data) return fail(HC_EINVAL, why, "hc_bank_load: path or data is NULL; pass both");
    if (data->size < sizeof *data)
        return fail(HC_EINVAL, why, "hc_bank_load: data->size is %zu; set it to sizeof(hc_bank_data)", data->size);
    if (rate < 0)
        return fail(HC_EINVAL, why, "%s: the rate is %d Hz; give a positive rate, or 0 to keep the file's", path, rate);
    if (options && options->size < sizeof *options)
        return fail(HC_EINVAL, why, "hc_bank_load: options->size is %zu; set it to sizeof(hc_bank_options)",
                    options->size);
    *chosen = options ? *options : (hc_bank_options){0};
    if (chosen->grid_deg != 0 && chosen->grid_deg != HC_GRID_NONE &&
        !(chosen->grid_deg >= 0.5 && chosen->grid_deg <= 45))
        return fail(HC_EINVAL, why, "%s: grid_deg is %g; give 0.5 to 45, 0 for the default, or HC_GRID_NONE", path,
                    chosen->grid_deg);
    return HC_OK;
}

/* Prepares the bank for mixes, and adds the entries of a grid: the grid that was asked for, or one for mixes. */
static int entries_add(struct bank *bank, const hc_bank_options *chosen, const char *path, struct reason *why)
{
    double degrees = chosen->grid_deg > 0 ? chosen->grid_deg : 0;
    int error = chosen->mix && bank->position ? bank_onsets(bank, path, why) : HC_OK;
    if (error) return error;
    if (degrees > 0) return bank_grid(bank, degrees, INFINITY, path, why);
    if (!bank->onsets || chosen->grid_deg != 0 || bank_onset_spread(bank, NULL, bank->n_entries) <= BANK_MIX_SPREAD_S)
        return HC_OK;
    char no_grid[512] = "";
    error = bank_grid(bank, MIX_GRID_DEG, fmin(MIX_GRID_BYTES, (double)memory_limit() / 3), path,
                      REASON(no_grid, sizeof no_grid));
    if (error != HC_EINVAL) return error ? fail(error, why, "%s", no_grid) : HC_OK;
    bank_note(bank, "mixed without a grid, which would have too many entries, samples or distances");
    return HC_OK;
}

static int pointers_make(struct memory *memory, const char *path, struct reason *why)
{
    struct bank *bank = &memory->bank;
    size_t n = (size_t)bank->n_entries * (size_t)bank->n_out;
    memory->taps = malloc(n * sizeof *memory->taps);
    if (memory->taps && bank->position)
        memory->directions = directions_make((const float(*)[3])bank->position, bank->n_entries);
    if (!memory->taps || (bank->position && !memory->directions))
        return fail(HC_ENOMEM, why, "%s: no memory for the table of %d entries; free some memory", path,
                    bank->n_entries);
    for (size_t i = 0; i < n; i++) memory->taps[i] = bank->taps + i * (size_t)bank->n_taps;
    return HC_OK;
}

/* Does the steps after the file is read. */
static int responses_finish(struct memory *memory, const hc_bank_options *chosen, int rate, float *gain_db,
                            const char *path, struct reason *why)
{
    struct bank *bank = &memory->bank;
    int error = rate && bank->rate && bank->rate != rate ? bank_resample(bank, rate, path, why) : HC_OK;
    if (!error) error = entries_add(bank, chosen, path, why);
    if (!error) error = bank_check_finite(bank, path, why);
    if (!error) error = levels_set(bank, chosen->normalise, gain_db, path, why);
    return error ? error : pointers_make(memory, path, why);
}

int hc_bank_load(const char *path, int rate, const hc_bank_options *options, hc_bank_data *data, char *why, size_t cap)
{
    hc_bank_options chosen = {0};
    int error = check_arguments(path, rate, options, data, &chosen, REASON(why, cap));
    if (error) return error;
    size_t size = data->size;
    *data = (hc_bank_data){.size = size};
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory) return fail(HC_ENOMEM, REASON(why, cap), "%s: no memory; free some memory", path);
    struct bank *bank = &memory->bank;
    int n_file_entries;
    float gain_db = 0;
    bank->sizes_only = chosen.sizes_only;
    error = bank_read_path(bank, path, chosen.sizes_only ? 0 : rate, REASON(why, cap));
    n_file_entries = bank->n_entries;
    if (!error && !chosen.sizes_only) error = responses_finish(memory, &chosen, rate, &gain_db, path, REASON(why, cap));
    if (error) {
        memory_free(memory);
        return error;
    }
    *data = (hc_bank_data){.size = size,
                           .n_entries = bank->n_entries,
                           .n_out = bank->n_out,
                           .n_taps = bank->n_taps,
                           .rate = bank->rate,
                           .taps = (const float *const *)memory->taps,
                           .position = chosen.sizes_only ? NULL : (const float(*)[3])bank->position,
                           .gain_db = gain_db,
                           .file_rate = bank->file_rate,
                           .n_file_entries = n_file_entries,
                           .notes = bank->notes,
                           .memory = memory,
                           .onsets = bank->onsets};
    return HC_OK;
}

int hc_bank_index(hc_bank_data *data, char *why, size_t cap)
{
    int error = bank_check(data, REASON(why, cap));
    if (error) return error;
    if (data->size < sizeof *data || !data->position || data->memory)
        return fail(HC_EINVAL, REASON(why, cap),
                    "hc_bank_index: the bank has a wrong size, has no positions, or has its table already; give a bank "
                    "that you made");
    struct memory *memory = calloc(1, sizeof *memory);
    size_t n = (size_t)data->n_entries * (size_t)data->n_out;
    double *onsets = malloc(n * sizeof *onsets);
    error = memory && onsets ? HC_OK : HC_ENOMEM;
    for (size_t i = 0; i < n && !error; i++) {
        if (data->onsets)
            onsets[i] = data->onsets[i];
        else
            error = onset_find(data->taps[i], data->n_taps, data->rate, &onsets[i]);
    }
    if (!error && !(memory->directions = directions_make(data->position, data->n_entries))) error = HC_ENOMEM;
    if (error) {
        free(onsets);
        free(memory);
        return fail(error, REASON(why, cap), "no memory for the table of %d entries; free some memory",
                    data->n_entries);
    }
    memory->bank =
        (struct bank){.n_entries = data->n_entries, .n_out = data->n_out, .rate = data->rate, .onsets = onsets};
    data->memory = memory;
    return HC_OK;
}

void hc_bank_data_free(hc_bank_data *data)
{
    if (!data) return;
    memory_free(data->memory);
    *data = (hc_bank_data){.size = data->size};
}

int hc_bank_nearest(const hc_bank_data *data, const float position[3])
{
    if (!data || !data->position || !position) return 0;
    const struct memory *memory = data->memory;
    return memory ? directions_nearest(memory->directions, position)
                  : positions_nearest(data->position, data->n_entries, position);
}

/* Leaves out the entries with the smallest weights until the others begin together. Returns how many are left. */
static int mix_align(const struct bank *bank, int *entries, float *weights, int n)
{
    float sum = 0;
    while (n > 1 && bank_onset_spread(bank, entries, n) > BANK_MIX_SPREAD_S) {
        int min = 0;
        for (int i = 1; i < n; i++)
            if (weights[i] < weights[min]) min = i;
        n--;
        entries[min] = entries[n];
        weights[min] = weights[n];
    }
    for (int i = 0; i < n; i++) sum += weights[i];
    for (int i = 0; i < n; i++) weights[i] /= sum;
    return n;
}

int hc_bank_mix(const hc_bank_data *data, const float position[3], int *entries, float *weights)
{
    const struct memory *memory = data ? data->memory : NULL;
    if (memory && memory->bank.onsets && position) {
        int n = directions_mix(memory->directions, position, entries, weights);
        return mix_align(&memory->bank, entries, weights, n);
    }
    entries[0] = hc_bank_nearest(data, position);
    weights[0] = 1;
    return 1;
}

int hc_bank_onset(const hc_bank_data *data, int entry, int out, double *frame)
{
    if (!data || !frame || !data->taps || data->n_taps < 1) return HC_EINVAL;
    if (entry < 0 || entry >= data->n_entries || out < 0 || out >= data->n_out) return HC_EINVAL;
    size_t i = (size_t)entry * (size_t)data->n_out + (size_t)out;
    const struct memory *memory = data->memory;
    if (!memory || !memory->bank.onsets)
        return data->taps[i] ? onset_find(data->taps[i], data->n_taps, data->rate, frame) : HC_EINVAL;
    *frame = memory->bank.onsets[i];
    return HC_OK;
}
