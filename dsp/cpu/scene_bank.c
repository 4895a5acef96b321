#include "scene_bank.h"

#include "dsp/base/memory.h"
#include "dsp/device/backend.h"
#include "mask_partitions.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

enum { MAX_RATIO = 16 };

double scene_transform_ns(const struct scene_cut *cut)
{
    return cpu_scene_costs.transform_ns * cut->frames * log2(cut->frames);
}

/* Returns the expected nanoseconds of a source with two outputs in a hop. */
static double cut_ns(const struct scene_cut *cut)
{
    return scene_products_ns(3.0 * cut->n_partitions * cut->frames) + scene_transform_ns(cut);
}

static struct scene_cut cut_with(const struct scene_level *level, int window, int ratio)
{
    struct scene_cut cut = {.hop = level->hop, .ratio = ratio, .size = ratio * level->hop, .window = window};
    cut.n_partitions = (level->n_taps + cut.size - 1) / cut.size;
    cut.frames = 2 * FFT_MIN;
    while (cut.frames < cut.size + window || cut.frames < 2 * window) cut.frames *= 2;
    cut.chunk = cut.frames < FFT_CHUNK ? cut.frames : FFT_CHUNK;
    cut.n_chunks = cut.frames / cut.chunk;
    return cut;
}

void scene_cut_make(struct scene_cut *cut, const struct scene_plan *plan, int level)
{
    const struct scene_level *l = &plan->levels[level];
    *cut = cut_with(l, level == 0 ? l->hop : l->hop + l->fade, 1);
    for (int ratio = 2; level > 0 && ratio <= MAX_RATIO; ratio++) {
        struct scene_cut other = cut_with(l, cut->window, ratio);
        if (cut_ns(&other) < cut_ns(cut)) *cut = other;
    }
}

double scene_max_floats(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / sizeof(float);
}

int scene_bank_fits(double floats, const hc_bank_data *data, struct reason *why)
{
    if (floats <= scene_max_floats()) return HC_OK;
    return fail(HC_ENOMEM, why,
                "a bank of %d entries, %d outputs and %d taps needs %.1f GiB of memory; make the bank smaller",
                data->n_entries, data->n_out, data->n_taps, floats * sizeof(float) / (1 << 30));
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

void scene_bank_cpu_free(void *impl)
{
    struct bank_cpu *bank = impl;
    if (!bank) return;
    for (int l = 0; l < bank->n_levels; l++) free(bank->spectra[l]);
    free(bank);
}

bool scene_bank_cpu_responses(const void *impl, int level, int entry, struct scene_piece *piece)
{
    const struct bank_cpu *bank = impl;
    if (!bank->spectra[level]) return false;
    piece->h = bank->spectra[level] + (size_t)entry * bank->floats[level];
    piece->n_partitions = bank->n_partitions[level];
    piece->n_out = bank->n_out;
    return true;
}

/* Transforms the taps of a response in level l. work: [2][cut->frames]. */
static void row_make(const struct bank_cpu *bank, int l, const struct scene_cut *cut, const float *taps, int n_taps,
                     int entry, int out, const struct fft *fft, float *work)
{
    size_t n_partitions = (size_t)bank->n_partitions[l], chunk = (size_t)cut->chunk;
    size_t stride = n_partitions * (size_t)bank->n_out * chunk;
    int first = out / SCENE_PAIR * SCENE_PAIR, n_outs = bank->n_out - first < SCENE_PAIR ? 1 : SCENE_PAIR;
    float *row = bank->spectra[l] + (size_t)entry * (size_t)cut->n_chunks * stride +
                 ((size_t)first * n_partitions + (size_t)(out - first)) * chunk;
    for (int p = 0; p < bank->n_partitions[l]; p++, row += n_outs * cut->chunk) {
        int from = p * cut->size, n = n_taps - from < cut->size ? n_taps - from : cut->size;
        taps_transform(fft, taps + from, n, work, row, stride);
    }
}

/* Returns the number of taps of a bank's responses in a level; may be 0. */
static int taps_in(const struct scene_level *level, const hc_bank_data *data)
{
    int n = data->n_taps - level->offset;
    return n < 0 ? 0 : n > level->n_taps ? level->n_taps : n;
}

static double level_floats(const struct scene_plan *plan, int l, const hc_bank_data *data)
{
    struct scene_cut cut;
    scene_cut_make(&cut, plan, l);
    int n_partitions = (taps_in(&plan->levels[l], data) + cut.size - 1) / cut.size;
    return (double)data->n_entries * data->n_out * n_partitions * cut.frames;
}

/* Returns false if there is no memory. */
static bool level_make(struct bank_cpu *bank, int l, const struct scene_plan *plan, const hc_bank_data *data,
                       uint64_t *bytes)
{
    struct scene_cut cut;
    scene_cut_make(&cut, plan, l);
    int offset = plan->levels[l].offset, n_taps = taps_in(&plan->levels[l], data);
    if (n_taps == 0) return true;
    bank->n_partitions[l] = (n_taps + cut.size - 1) / cut.size;
    bank->floats[l] = (size_t)cut.frames * (size_t)bank->n_out * (size_t)bank->n_partitions[l];
    double floats = level_floats(plan, l, data);
    const struct fft *fft = fft_get(cut.frames / 2);
    float *work = memory_floats(2 * (size_t)cut.frames);
    bank->spectra[l] = memory_floats_uncleared((size_t)floats);
    bool ok = fft && work && bank->spectra[l];
    for (int entry = 0; ok && entry < data->n_entries; entry++)
        for (int out = 0; out < data->n_out; out++)
            row_make(bank, l, &cut, data->taps[(size_t)entry * (size_t)data->n_out + (size_t)out] + offset, n_taps,
                     entry, out, fft, work);
    *bytes += 4 * (uint64_t)floats;
    free(work);
    fft_put(fft);
    return ok;
}

int scene_bank_cpu_make(const struct scene_plan *plan, int device, const hc_bank_data *data, void **impl,
                        uint64_t *bytes, struct reason *why)
{
    (void)device;
    double floats = 0;
    for (int l = 0; l < plan->n_levels; l++) floats += level_floats(plan, l, data);
    int error = scene_bank_fits(floats, data, why);
    if (error) return error;
    struct bank_cpu *bank = calloc(1, sizeof *bank);
    bool ok = bank != NULL;
    *bytes = 0;
    if (ok) {
        bank->n_out = data->n_out;
        bank->n_levels = plan->n_levels;
    }
    for (int l = 0; ok && l < plan->n_levels; l++) ok = level_make(bank, l, plan, data, bytes);
    if (ok) {
        *impl = bank;
        return HC_OK;
    }
    scene_bank_cpu_free(bank);
    return fail(
        HC_ENOMEM, why,
        "no memory for a bank of %d entries, %d outputs and %d taps; free another bank, or make this one smaller",
        data->n_entries, data->n_out, data->n_taps);
}
