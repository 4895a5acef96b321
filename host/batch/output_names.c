#include "output_names.h"

#include "host/files/sound_format.h"
#include "host/message.h"
#include "tar_source.h"
#include "manifest.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names that the list has --------------------------------------------------------------------- */

const char *output_keep(struct manifest *manifest, const char *output)
{
    char *kept = text_alloc(&manifest->texts, strlen(output) + 1), *to = kept;
    for (const char *from = output; kept && *from;) {
        size_t length = strcspn(from, "/"), slash = from[length] == '/';
        bool empty = length == 0 && from != output, same_folder = length == 1 && *from == '.';
        if (!empty && !same_folder) to = mempcpy(to, from, length + slash);
        from += length + slash;
    }
    if (kept) *to = 0;
    return kept;
}

bool output_is_journal(const char *output)
{
    return fnmatch("haloconv-batch*.journal", output, 0) == 0;
}

bool output_stays_below(const char *output)
{
    if (output[0] == '/' || output[0] == 0) return false;
    for (const char *at = output; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0)) return false;
    return output[strlen(output) - 1] != '/';
}

/* ---- names that the list leaves out -------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int stem_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static const char *output_extension(const struct manifest_row *row, const char *extension)
{
    if (row->tar) return "tar";
    if (extension) return extension;
    const char *input = base_name(row->input), *dot = strrchr(input, '.');
    return dot && dot > input && !sound_format_refuses(input) ? dot + 1 : "wav";
}

/* Returns INPUT_MASK.EXT; number > 0: INPUT_MASK-NUMBER.EXT. A tar file with several masks becomes INPUT.tar. */
static const char *output_name(struct manifest *manifest, const struct manifest_row *row, const char *extension,
                               size_t number)
{
    const struct tar_source *tar = row->tar;
    const char *input = base_name(tar ? tar->path : row->input), *mask = base_name(row->mask);
    const char *ext = output_extension(row, extension);
    const size_t n_packed = tar ? tar_packed_suffix(input) : 0; /* .tar.gz becomes .tar */
    const bool has_mask = !tar || tar->has_one_mask;
    int n_input = n_packed ? (int)(strlen(input) - n_packed) : stem_length(input);
    int n_mask = has_mask ? stem_length(mask) : 0;
    char suffix[32] = "";
    if (!number && tar) number = tar->number;
    if (number) snprintf(suffix, sizeof suffix, "-%zu", number);
    size_t bytes = (size_t)n_input + (size_t)n_mask + strlen(suffix) + strlen(ext) + 3;
    char *name = text_alloc(&manifest->texts, bytes);
    if (name) snprintf(name, bytes, "%.*s%s%.*s%s.%s", n_input, input, has_mask ? "_" : "", n_mask, mask, suffix, ext);
    return name;
}

static int by_output(const void *a, const void *b)
{
    const struct manifest_row *p = *(const struct manifest_row *const *)a, *q = *(const struct manifest_row *const *)b;
    int order = strcmp(p->output, q->output);
    if (order) return order;
    return p < q ? -1 : p > q;
}

struct naming {
    struct manifest *manifest;
    const char *extension;
    const struct manifest_row **sorted; /* [n], by output; the first row of a tar file stands for all */
    size_t n;
    bool *listed; /* [manifest->n]: the list has the row's output */
};

/* Names the outputs that the list leaves out. false: no memory. */
static bool name_rows(struct naming *naming)
{
    struct manifest *manifest = naming->manifest;
    for (size_t i = 0; i < manifest->n; i++) {
        struct manifest_row *row = &manifest->rows[i];
        if (row->tar && row->tar->first_row != i) continue;
        if (row->tar) row->output = row->tar->output;
        naming->listed[i] = row->output != NULL;
        if (!row->output) row->output = output_name(manifest, row, naming->extension, 0);
        if (!row->output) return false;
        naming->sorted[naming->n++] = row;
    }
    return true;
}

/* Numbers the names that several rows have, except one that the list has. is_numbered: they are, and still meet. */
static bool number_names(struct naming *naming, bool is_numbered, char *why, size_t cap)
{
    struct manifest *manifest = naming->manifest;
    const struct manifest_row **sorted = naming->sorted;
    qsort(sorted, naming->n, sizeof *sorted, by_output);
    for (size_t i = 0, end; i < naming->n; i = end) {
        size_t n_listed = naming->listed[sorted[i] - manifest->rows];
        for (end = i + 1; end < naming->n && strcmp(sorted[end]->output, sorted[i]->output) == 0; end++)
            n_listed += naming->listed[sorted[end] - manifest->rows];
        if (end == i + 1) continue;
        if (n_listed > 1 || is_numbered)
            return message_write(why, cap, "output %s: rows %zu and %zu both write it; give them different names",
                                 sorted[i]->output, manifest_row_number(manifest, sorted[i]),
                                 manifest_row_number(manifest, sorted[i + 1]));
        for (size_t j = i; j < end; j++) {
            struct manifest_row *row = &manifest->rows[sorted[j] - manifest->rows];
            if (naming->listed[row - manifest->rows]) continue;
            row->output = output_name(manifest, row, naming->extension, manifest_row_number(manifest, row));
            if (!row->output) return manifest_no_memory(why, cap);
        }
    }
    return true;
}

bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap)
{
    struct naming naming = {.manifest = manifest,
                            .extension = extension,
                            .sorted = malloc((manifest->n + 1) * sizeof *naming.sorted),
                            .listed = malloc(manifest->n + 1)};
    bool good = naming.sorted && naming.listed && name_rows(&naming);
    if (!good) manifest_no_memory(why, cap);
    good = good && number_names(&naming, false, why, cap) && number_names(&naming, true, why, cap);
    for (struct tar_source *tar = manifest->tars; tar && good; tar = tar->next) {
        tar->output = manifest->rows[tar->first_row].output;
        good = tar_source_name_rows(manifest, tar, extension) || manifest_no_memory(why, cap);
    }
    free(naming.sorted);
    free(naming.listed);
    return good;
}
