/* pairs - the list of a batch from two patterns of names. */
#include "draw.h"
#include "host/mask_argument.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "manifest.h"
#include "tar_source.h"

#include <stdlib.h>
#include <string.h>

struct pairing {
    struct manifest *manifest;
    const struct manifest_defaults *defaults;
    const char **masks; /* [n_masks] */
    size_t n_masks;
    size_t *picks;  /* [n_draws]: masks for the last sound */
    size_t n_draws; /* masks drawn for each sound; 0: none is drawn */
    bool is_zip;
    uint64_t n_sounds; /* sounds with drawn masks; a sample counts once */
    char *why;
    size_t cap;
};

static bool pair_add(struct pairing *p, const char *input, const char *mask, struct tar_source *tar, size_t member)
{
    struct manifest_row *row = manifest_row_add(p->manifest, p->defaults);
    if (!row) return manifest_no_memory(p->why, p->cap);
    row->input = input;
    row->mask = mask;
    if (row->path) row->seed = splitmix64(p->defaults->seed) + p->manifest->n; /* a separate path */
    return !tar || tar_source_row(p->manifest, row, tar, member) || manifest_no_memory(p->why, p->cap);
}

/* Draws different masks for a sound, without a list of all (Floyd 1987, in Bentley, "Programming Pearls: A Sample of
 * Brilliance"). */
static void draw_masks(struct pairing *p, uint64_t sound)
{
    uint64_t seed = splitmix64(splitmix64(p->defaults->seed) + sound);
    for (size_t k = 0; k < p->n_draws; k++) {
        size_t i = p->n_masks - p->n_draws + k, pick = (size_t)(splitmix64(seed + i) % (i + 1));
        for (size_t j = 0; j < k; j++)
            if (p->picks[j] == pick) pick = i;
        p->picks[k] = pick;
    }
}

/* The mask for output k of a sound of input i. */
static const char *paired_mask(const struct pairing *p, size_t i, size_t k)
{
    if (p->is_zip) return p->masks[i];
    return p->masks[p->n_draws ? p->picks[k] : k];
}

static bool tar_add(struct pairing *p, size_t i, const char *path, size_t k)
{
    struct tar_source *tar = tar_source_add(p->manifest, path, p->defaults->members, p->why, p->cap);
    if (!tar) return false;
    tar->first_row = p->manifest->n;
    tar->has_one_mask = p->n_draws == 0;
    tar->number = p->n_draws > 1 ? k + 1 : 0;
    for (size_t member = 0; member < tar->input->n; member++) {
        if (!tar->input->members[member].is_convolved) continue;
        size_t n_before = tar->n_groups;
        draw_masks(p, p->n_sounds + tar_source_next_group(tar, member));
        if (!pair_add(p, path, paired_mask(p, i, k), tar, member)) return false;
        struct manifest_row *row = &p->manifest->rows[p->manifest->n - 1];
        if (tar->n_groups == n_before) row->seed = row[-1].seed;
    }
    return true;
}

static bool input_add(struct pairing *p, size_t i, const char *path)
{
    size_t n_outputs = p->n_draws ? p->n_draws : p->n_masks;
    if (p->is_zip) n_outputs = 1;
    bool is_tar = tar_is_name(path), good = true;
    if (!is_tar) draw_masks(p, p->n_sounds);
    for (size_t k = 0; k < n_outputs && good; k++)
        good = is_tar ? tar_add(p, i, path, k) : pair_add(p, path, paired_mask(p, i, k), NULL, 0);
    p->n_sounds += is_tar && good ? p->manifest->tars->n_groups : 1;
    return good;
}

static bool pair_up(struct pairing *p, const glob_t *inputs, const glob_t *masks, const char *pairs)
{
    bool all = strcmp(pairs, "all") == 0;
    p->is_zip = strcmp(pairs, "zip") == 0;
    p->n_masks = masks->gl_pathc;
    if (!all && !p->is_zip) p->n_draws = strtoul(pairs + strlen("random:"), NULL, 10); /* the option was checked */
    if (p->is_zip && inputs->gl_pathc != p->n_masks)
        return message_write(p->why, p->cap,
                             "--pairs zip: there are %zu inputs and %zu masks; give as many masks as inputs",
                             inputs->gl_pathc, p->n_masks);
    if (p->n_draws > p->n_masks)
        return message_write(p->why, p->cap, "--pairs %s: there are only %zu masks; draw fewer", pairs, p->n_masks);
    p->masks = calloc(p->n_masks, sizeof *p->masks);
    p->picks = calloc(p->n_draws + 1, sizeof *p->picks);
    bool good = p->masks && p->picks;
    for (size_t m = 0; m < p->n_masks && good; m++)
        good = (p->masks[m] = text_keep(&p->manifest->texts, masks->gl_pathv[m])) != NULL;
    if (!good) manifest_no_memory(p->why, p->cap);
    for (size_t i = 0; i < inputs->gl_pathc && good; i++) {
        const char *input = text_keep(&p->manifest->texts, inputs->gl_pathv[i]);
        good = input ? input_add(p, i, input) : manifest_no_memory(p->why, p->cap);
    }
    free(p->masks);
    free(p->picks);
    return good;
}

bool manifest_pair(struct manifest *manifest, const char *inputs, const char *masks, const char *pairs,
                   const struct manifest_defaults *defaults, char *why, size_t cap)
{
    *manifest = (struct manifest){0};
    struct pairing pairing = {.manifest = manifest, .defaults = defaults, .why = why, .cap = cap};
    glob_t in, mask;
    if (!find_files(inputs, &in, why, cap)) return false;
    bool good = find_files(mask_argument_path(masks), &mask, why, cap);
    if (good) {
        good = pair_up(&pairing, &in, &mask, pairs) && name_outputs(manifest, defaults->extension, why, cap);
        globfree(&mask);
    }
    globfree(&in);
    if (!good) manifest_free(manifest);
    return good;
}
