/* bank_sounds - reads the sound files that bank_csv.c or bank_folder.c lists, or a single one, into a bank. */
#include "bank_sounds.h"

#include "dsp/base/error.h"
#include "dsp/base/memory.h"
#include "dsp/masks/mask_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sounds_no_memory(const char *path, struct reason *why)
{
    return fail(HC_ENOMEM, why, "%s: no memory for its sound files; free some memory", path);
}

int bank_sounds_add(struct bank_sounds *sounds, const char *folder, int folder_length, const char *name,
                    const double position[3], const char *path, struct reason *why)
{
    if (sounds->n == BANK_MAX_ENTRIES)
        return fail(HC_EINVAL, why, "%s: has more than %d sound files, the maximum of a bank; use fewer", path,
                    BANK_MAX_ENTRIES);
    if (sounds->n == sounds->capacity) {
        size_t more = sounds->capacity ? 2 * sounds->capacity : 64;
        char **paths = realloc(sounds->paths, more * sizeof *paths);
        if (paths) sounds->paths = paths;
        double(*positions)[3] = realloc(sounds->positions, more * sizeof *positions);
        if (positions) sounds->positions = positions;
        if (!paths || !positions) return sounds_no_memory(path, why);
        sounds->capacity = more;
    }
    char *file = NULL;
    if (*name == '/') folder_length = 0;
    if (asprintf(&file, "%.*s%s%s", folder_length, folder, folder_length > 0 ? "/" : "", name) < 0)
        return sounds_no_memory(path, why);
    for (int c = 0; c < 3; c++) sounds->positions[sounds->n][c] = position ? position[c] : 0;
    sounds->paths[sounds->n++] = file;
    return HC_OK;
}

void bank_sounds_free(struct bank_sounds *sounds)
{
    for (size_t i = 0; i < sounds->n; i++) free(sounds->paths[i]);
    free(sounds->paths);
    free(sounds->positions);
    *sounds = (struct bank_sounds){0};
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct sounds_reading {
    struct mask_file *files; /* [n]                                  */
    size_t n, bytes;         /* number and bytes of the files read   */
    int n_taps, n_resampled, file_rate;
    bool sizes_only;
};

static int sounds_file_read(struct sounds_reading *reading, const char *path, const char *first, int rate,
                            struct reason *why)
{
    struct mask_file *file = &reading->files[reading->n];
    size_t limit = memory_limit();
    struct mask_limits limits = {.frames = MASK_MAX_TAPS,
                                 .bytes = limit > reading->bytes ? limit - reading->bytes : 0,
                                 .rate = rate,
                                 .sizes_only = reading->sizes_only};
    int error = mask_file_read(file, path, &limits, why);
    if (error) return error;
    reading->n++; /* so it is freed with the others */
    if (file->n_channels != reading->files[0].n_channels)
        return fail(HC_EINVAL, why, "%s: has %d channel%s, but %s has %d; give all files of a bank the same number",
                    path, file->n_channels, file->n_channels == 1 ? "" : "s", first, reading->files[0].n_channels);
    if (!rate && file->rate != reading->files[0].rate)
        return fail(HC_EINVAL, why, "%s: has a rate of %d Hz, but %s has %d Hz; load the bank at one rate", path,
                    file->rate, first, reading->files[0].rate);
    if (reading->n == 1) reading->file_rate = file->rate;
    if (rate && file->rate && file->rate != rate) {
        error = mask_file_resample(file, rate, path, why);
        reading->n_resampled++;
    }
    if (file->n_frames > reading->n_taps) reading->n_taps = file->n_frames;
    reading->bytes += (size_t)file->n_channels * (size_t)file->n_frames * sizeof(float);
    return error;
}

static int sounds_bank_fill(const struct sounds_reading *reading, struct bank *bank, const char *path,
                            struct reason *why)
{
    size_t n_out = (size_t)reading->files[0].n_channels;
    int n_padded = 0;
    int error = bank_make(bank, reading->n, n_out, (size_t)reading->n_taps, (double)reading->bytes, path, why);
    for (size_t e = 0; e < reading->n && !error; e++) {
        const struct mask_file *file = &reading->files[e];
        for (size_t out = 0; out < n_out && !bank->sizes_only; out++)
            memcpy(bank_response(bank, e, out), file->channel[out], (size_t)file->n_frames * sizeof(float));
        n_padded += file->n_frames < reading->n_taps;
    }
    if (n_padded > 0)
        bank_note(bank, "%d shorter response%s padded with zeros to %d taps", n_padded, n_padded == 1 ? " is" : "s are",
                  reading->n_taps);
    return error;
}

static int positions_fill(const struct bank_sounds *sounds, struct bank *bank, const char *path, struct reason *why)
{
    bank->position = malloc(sounds->n * sizeof *bank->position);
    if (!bank->position) return sounds_no_memory(path, why);
    for (size_t i = 0; i < sounds->n; i++)
        for (int c = 0; c < 3; c++) bank->position[i][c] = (float)sounds->positions[i][c];
    return HC_OK;
}

int bank_sounds_read(const struct bank_sounds *sounds, bool has_positions, struct bank *bank, const char *path,
                     int rate, struct reason *why)
{
    struct sounds_reading reading = {.sizes_only = bank->sizes_only};
    if (sounds->n == 0) return fail(HC_EINVAL, why, "%s: lists no sound files; write a line for each entry", path);
    reading.files = calloc(sounds->n, sizeof *reading.files);
    int error = reading.files ? HC_OK : sounds_no_memory(path, why);
    for (size_t i = 0; i < sounds->n && !error; i++)
        error = sounds_file_read(&reading, sounds->paths[i], sounds->paths[0], rate, why);
    if (!error) error = sounds_bank_fill(&reading, bank, path, why);
    if (!error && has_positions) error = positions_fill(sounds, bank, path, why);
    if (!error) {
        bank->file_rate = reading.file_rate;
        bank->rate = rate && reading.file_rate ? rate : reading.file_rate;
        if (reading.n_resampled > 0)
            bank_note(bank, "%d of %zu file%s resampled to %d Hz", reading.n_resampled, reading.n, PLURAL(reading.n),
                      rate);
    }
    for (size_t i = 0; i < reading.n; i++) mask_file_free(&reading.files[i]);
    free(reading.files);
    return error;
}

/* ---- a single file ----------------------------------------------------------------------------------------------- */

int sound_bank_read(struct bank *bank, const char *path, int rate, struct reason *why)
{
    struct bank_sounds sounds = {0};
    int error = bank_sounds_add(&sounds, "", 0, path, NULL, path, why);
    bank_note(bank, "sound file");
    if (!error) error = bank_sounds_read(&sounds, false, bank, path, rate, why);
    bank_sounds_free(&sounds);
    return error;
}
