/* pairs - the list of a batch from two patterns of names. */
#include "draw.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "manifest.h"
#include "output_names.h"
#include "text_arena.h"

#include <stdlib.h>
#include <string.h>

static bool pair_add(struct manifest *manifest, const struct manifest_defaults *d, const char *input, const char *mask)
{
    struct manifest_row *row = manifest_row_add(manifest, d);
    if (!row) return false;
    row->input = input;
    row->mask = mask;
    return true;
}

/* Draws n different masks for an input, without a list of all (Floyd 1987, in Bentley, "Programming Pearls: A Sample of
 * Brilliance"). */
static bool pair_random(struct manifest *manifest, const struct manifest_defaults *d, const char *input,
                        const char *const *masks, size_t n_masks, size_t n, uint64_t seed)
{
    size_t from = manifest->n;
    for (size_t i = n_masks - n; i < n_masks; i++) {
        size_t pick = (size_t)(splitmix64(seed + i) % (i + 1));
        for (size_t j = from; j < manifest->n; j++)
            if (manifest->rows[j].mask == masks[pick]) pick = i;
        if (!pair_add(manifest, d, input, masks[pick])) return false;
    }
    return true;
}

static bool pair_up(struct manifest *manifest, const glob_t *inputs, const glob_t *masks, const char *pairs,
                    const struct manifest_defaults *d, char *why, size_t cap)
{
    size_t n_inputs = inputs->gl_pathc, n_masks = masks->gl_pathc, n_draws = 0;
    bool all = strcmp(pairs, "all") == 0, zip = strcmp(pairs, "zip") == 0;
    if (!all && !zip) n_draws = strtoul(pairs + strlen("random:"), NULL, 10); /* the option was checked */
    if (zip && n_inputs != n_masks)
        return message_write(why, cap, "--pairs zip: %zu inputs and %zu masks; it needs as many of both", n_inputs,
                             n_masks);
    if (n_draws > n_masks)
        return message_write(why, cap, "--pairs %s: there are %zu masks; draw fewer", pairs, n_masks);
    const char **names = calloc(n_masks, sizeof *names);
    bool good = names != NULL;
    for (size_t m = 0; m < n_masks && good; m++)
        good = (names[m] = text_keep(&manifest->texts, masks->gl_pathv[m])) != NULL;
    for (size_t i = 0; i < n_inputs && good; i++) {
        const char *input = text_keep(&manifest->texts, inputs->gl_pathv[i]);
        good = input != NULL;
        if (good && zip) good = pair_add(manifest, d, input, names[i]);
        for (size_t m = 0; m < n_masks && good && all; m++) good = pair_add(manifest, d, input, names[m]);
        if (good && n_draws)
            good = pair_random(manifest, d, input, names, n_masks, n_draws, splitmix64(splitmix64(d->seed) + i));
    }
    free(names);
    return good || manifest_no_memory(why, cap);
}

bool manifest_pair(struct manifest *manifest, const char *inputs, const char *masks, const char *pairs,
                   const struct manifest_defaults *defaults, char *why, size_t cap)
{
    *manifest = (struct manifest){0};
    glob_t in, mask;
    if (!find_files(inputs, &in, why, cap)) return false;
    bool good = find_files(masks, &mask, why, cap);
    if (good) {
        good = pair_up(manifest, &in, &mask, pairs, defaults, why, cap) &&
               name_outputs(manifest, defaults->extension, why, cap);
        globfree(&mask);
    }
    globfree(&in);
    if (!good) manifest_free(manifest);
    return good;
}
