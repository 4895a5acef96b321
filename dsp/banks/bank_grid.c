/* bank_grid - fills the gaps between the entries of a bank, so that the nearest entry is never far.
 *
 *   shell      entries at the same distance (to 1 %); each has its own grid
 *   grid       rings of directions `degrees` apart, within the measured range; entries of the file stay, with
 *              their numbers, and new ones follow behind them
 *   new entry  h = sum w_i h_i(t + d_i - sum w_j d_j) over the three entries i around the direction, with barycentric
 *              weights w and onsets d: the delay is interpolated apart from the aligned responses, for each output
 */
#include "alignment.h"
#include "bank.h"
#include "directions.h"
#include "dsp/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHELLS = 64, MIN_POINTS = 2 }; /* a single direction has no gaps */
static const double same_distance = 1.01;

struct new_entry {
    int n;
    int entries[3]; /* entries of the file */
    float weights[3];
    float position[3];
};

struct grid {
    const struct bank *bank;
    const char *path;
    double degrees, max_bytes;
    struct new_entry *entries; /* [n] */
    size_t n, capacity;
};

static int grid_no_memory(const struct grid *grid, struct reason *why)
{
    return fail(HC_ENOMEM, why, "%s: no memory for a grid; free some memory", grid->path);
}

/* ---- directions -------------------------------------------------------------------------------------------------- */

struct shell {
    int *entries;          /* [n]: entries of the bank      */
    float (*positions)[3]; /* [n]                         */
    int n;
    double distance;
    struct directions *directions;
};

static int entry_add(struct grid *grid, const struct new_entry *entry, struct reason *why)
{
    size_t max = BANK_MAX_ENTRIES - (size_t)grid->bank->n_entries;
    if (grid->n >= max)
        return fail(HC_EINVAL, why,
                    "%s: a grid of %g degrees makes more than %d entries, the maximum of a bank; choose a coarser "
                    "one",
                    grid->path, grid->degrees, BANK_MAX_ENTRIES);
    if (grid->n == grid->capacity) {
        size_t more = grid->capacity ? 2 * grid->capacity : 1024;
        struct new_entry *entries = realloc(grid->entries, more * sizeof *entries);
        if (!entries) return grid_no_memory(grid, why);
        grid->entries = entries;
        grid->capacity = more;
    }
    grid->entries[grid->n++] = *entry;
    return HC_OK;
}

static double angle_between(const float a[3], const float b[3])
{
    double aa = 0, bb = 0, chord = 0;
    for (int c = 0; c < 3; c++) {
        aa += (double)a[c] * (double)a[c];
        bb += (double)b[c] * (double)b[c];
    }
    for (int c = 0; c < 3; c++) {
        double d = (double)a[c] / sqrt(aa) - (double)b[c] / sqrt(bb);
        chord += d * d;
    }
    return 2 * asin(fmin(1, sqrt(chord) / 2)) * (180 / M_PI);
}

/* Adds an entry in this direction, if the direction is within the shell's range and has no entry close by. */
static int direction_add(struct grid *grid, const struct shell *shell, double azimuth, double elevation,
                         struct reason *why)
{
    struct new_entry entry = {0};
    double v[3];
    position_from_angles(azimuth, elevation, shell->distance, v);
    for (int c = 0; c < 3; c++) entry.position[c] = (float)v[c];
    int nearest = directions_nearest(shell->directions, entry.position);
    if (angle_between(entry.position, shell->positions[nearest]) < grid->degrees / 4) return HC_OK;
    if (directions_beyond(shell->directions, entry.position) * (180 / M_PI) > grid->degrees / 4) return HC_OK;
    entry.n = directions_mix(shell->directions, entry.position, entry.entries, entry.weights);
    if (entry.n < 2) return HC_OK;
    for (int i = 0; i < entry.n; i++) entry.entries[i] = shell->entries[entry.entries[i]];
    return entry_add(grid, &entry, why);
}

static int shell_add(struct grid *grid, struct shell *shell, struct reason *why)
{
    int error = HC_OK, n_steps = (int)ceil(180 / grid->degrees);
    shell->directions = directions_make((const float(*)[3])shell->positions, shell->n);
    if (!shell->directions) return grid_no_memory(grid, why);
    for (int ring = 0; ring <= n_steps && !error; ring++) {
        double elevation = -90 + 180.0 * ring / n_steps;
        int n = (int)ceil(360 * cos(elevation * (M_PI / 180)) / grid->degrees - 1e-9);
        if (n < 1) n = 1;
        for (int i = 0; i < n && !error; i++) error = direction_add(grid, shell, 360.0 * i / n, elevation, why);
    }
    directions_free(shell->directions);
    return error;
}

struct by_distance {
    double distance;
    int entry;
};

static int compare_distance(const void *a, const void *b)
{
    const struct by_distance *x = a, *y = b;
    if (x->distance < y->distance || x->distance > y->distance) return x->distance < y->distance ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Sorts the entries into shells, and adds the grid of each. sorted[n], positions[n], entries[n]: scratch. */
static int shells_add(struct grid *grid, struct by_distance *sorted, float (*positions)[3], int *entries, int *n_shells,
                      struct reason *why)
{
    int n = grid->bank->n_entries, error = HC_OK;
    for (int i = 0; i < n; i++) {
        const float *p = grid->bank->position[i];
        sorted[i] = (struct by_distance){hypot(hypot((double)p[0], (double)p[1]), (double)p[2]), i};
    }
    qsort(sorted, (size_t)n, sizeof *sorted, compare_distance);
    *n_shells = 0;
    for (int from = 0, to; from < n && !error; from = to) {
        struct shell shell = {.entries = entries, .positions = positions};
        for (to = from; to < n && sorted[to].distance <= sorted[from].distance * same_distance; to++) {
            memcpy(positions[to - from], grid->bank->position[sorted[to].entry], sizeof *positions);
            entries[to - from] = sorted[to].entry;
            shell.distance += sorted[to].distance;
        }
        shell.n = to - from;
        shell.distance /= shell.n;
        if (!(shell.distance > 0) || shell.n < MIN_POINTS) continue;
        if (++*n_shells > MAX_SHELLS)
            return fail(
                HC_EINVAL, why,
                "%s: its entries are at more than %d distances, too many for a grid; load the bank without a grid",
                grid->path, MAX_SHELLS);
        error = shell_add(grid, &shell, why);
    }
    return error;
}

static int directions_find(struct grid *grid, int *n_shells, struct reason *why)
{
    size_t n = (size_t)grid->bank->n_entries;
    struct by_distance *sorted = malloc(n * sizeof *sorted);
    float(*positions)[3] = malloc(n * sizeof *positions);
    int *entries = malloc(n * sizeof *entries);
    int error = sorted && positions && entries ? shells_add(grid, sorted, positions, entries, n_shells, why)
                                               : grid_no_memory(grid, why);
    free(sorted);
    free(positions);
    free(entries);
    return error;
}

/* ---- responses --------------------------------------------------------------------------------------------------- */

/* Computes by how many frames each corner's response moves; 0 for a silent response. Returns the sum's onset. */
static double shifts_of(const struct grid *grid, const struct new_entry *entry, size_t out, double shifts[3])
{
    double mean = 0, sum = 0, onset[3];
    for (int i = 0; i < entry->n; i++) {
        onset[i] = grid->bank->onsets[(size_t)entry->entries[i] * (size_t)grid->bank->n_out + out];
        if (isnan(onset[i])) continue;
        mean += (double)entry->weights[i] * onset[i];
        sum += (double)entry->weights[i];
    }
    for (int i = 0; i < entry->n; i++) shifts[i] = isnan(onset[i]) ? 0 : mean / sum - onset[i];
    return mean / sum;
}

static double largest_shift(const struct grid *grid)
{
    double max = 0, shifts[3];
    for (size_t e = 0; e < grid->n; e++)
        for (size_t out = 0; out < (size_t)grid->bank->n_out; out++) {
            shifts_of(grid, &grid->entries[e], out, shifts);
            for (int i = 0; i < grid->entries[e].n; i++) max = fmax(max, shifts[i]);
        }
    return max;
}

/* Makes the new responses. to->onsets[n_entries][n_out] begins with the onsets of the old entries. */
static void responses_make(const struct grid *grid, struct bank *to)
{
    const struct bank *from = grid->bank;
    size_t n_old = (size_t)from->n_entries, n_out = (size_t)from->n_out;
    for (size_t e = 0; e < n_old; e++)
        for (size_t out = 0; out < n_out; out++)
            memcpy(bank_response(to, e, out), bank_response(from, e, out), (size_t)from->n_taps * sizeof(float));
    for (size_t e = 0; e < grid->n; e++)
        for (size_t out = 0; out < n_out; out++) {
            const struct new_entry *entry = &grid->entries[e];
            double shifts[3];
            to->onsets[(n_old + e) * n_out + out] = shifts_of(grid, entry, out, shifts);
            for (int i = 0; i < entry->n; i++)
                fractional_delay_add(bank_response(from, (size_t)entry->entries[i], out), (size_t)from->n_taps,
                                     shifts[i], (double)entry->weights[i], bank_response(to, n_old + e, out),
                                     (size_t)to->n_taps);
        }
}

static int grid_make(struct grid *grid, struct bank *bank, struct reason *why)
{
    struct bank filled = {0};
    int n_shells = 0;
    int error = directions_find(grid, &n_shells, why);
    if (error) return error;
    size_t n = (size_t)bank->n_entries + grid->n;
    size_t n_taps = (size_t)bank->n_taps + (size_t)ceil(largest_shift(grid)) + FRACTIONAL_DELAY_HALF;
    double old = (double)bank->n_entries * bank->n_out * bank->n_taps * sizeof(float);
    if ((double)n * bank->n_out * (double)n_taps * sizeof(float) > grid->max_bytes)
        return fail(HC_EINVAL, why, "%s: its grid is too large", grid->path);
    error = bank_make(&filled, n, (size_t)bank->n_out, n_taps, old, grid->path, why);
    if (error) return error;
    float(*position)[3] = realloc(bank->position, n * sizeof *position);
    if (position) bank->position = position;
    double *onsets = realloc(bank->onsets, n * (size_t)bank->n_out * sizeof *onsets);
    if (onsets) bank->onsets = onsets;
    if (!position || !onsets) {
        bank_free(&filled);
        return grid_no_memory(grid, why);
    }
    for (size_t e = 0; e < grid->n; e++)
        memcpy(position[(size_t)bank->n_entries + e], grid->entries[e].position, sizeof *position);
    filled.onsets = onsets;
    responses_make(grid, &filled);
    bank_note(bank,
              "interpolated to a grid of %g degrees: %zu entries added to %d; the onset delays and the aligned "
              "responses are interpolated separately, from three entries each, at %d distance%s",
              grid->degrees, grid->n, bank->n_entries, n_shells, n_shells == 1 ? "" : "s");
    free(bank->taps);
    bank->taps = filled.taps;
    bank->n_taps = filled.n_taps;
    bank->n_entries = filled.n_entries;
    return HC_OK;
}

int bank_grid(struct bank *bank, double degrees, double max_bytes, const char *path, struct reason *why)
{
    if (!bank->position)
        return fail(HC_EINVAL, why, "%s: has no positions, which a grid needs; load the bank without a grid", path);
    struct grid grid = {.bank = bank, .path = path, .degrees = degrees, .max_bytes = max_bytes};
    int error = bank->onsets ? HC_OK : bank_onsets(bank, path, why);
    if (!error) error = grid_make(&grid, bank, why);
    free(grid.entries);
    return error;
}
