#include "output_names.h"

#include "host/files/sound_format.h"
#include "host/message.h"
#include "tar_source.h"
#include "text_arena.h"

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

/* Returns INPUT_MASK.EXT; number > 0: INPUT_MASK-NUMBER.EXT. A tar file with several masks becomes INPUT.tar. */
static const char *output_name(struct manifest *manifest, const struct manifest_row *row, const char *extension,
                               size_t number)
{
    const char *input = base_name(row->tar ? row->tar->path : row->input), *mask = base_name(row->mask);
    const char *dot = strrchr(input, '.');
    bool has_mask = !row->tar || row->tar->has_one_mask;
    char suffix[32] = "";
    if (!number && row->tar) number = row->tar->number;
    if (number) snprintf(suffix, sizeof suffix, "-%zu", number);
    bool keeps = dot && dot > input && (row->tar || !sound_format_refuses(input));
    const size_t n_packed = row->tar ? tar_packed_suffix(input) : 0; /* .tar.gz becomes .tar */
    const char *ext = n_packed ? "tar" : extension && !row->tar ? extension : keeps ? dot + 1 : "wav";
    int n_input = n_packed ? (int)(strlen(input) - n_packed) : stem_length(input),
        n_mask = has_mask ? stem_length(mask) : 0;
    size_t bytes = (size_t)n_input + (size_t)n_mask + strlen(suffix) + strlen(ext) + 3;
    char *name = text_alloc(&manifest->texts, bytes);
    if (name) snprintf(name, bytes, "%.*s%s%.*s%s.%s", n_input, input, has_mask ? "_" : "", n_mask, mask, suffix, ext);
    return name;
}

static int by_output(const void *a, const void *b)
{
    const struct manifest_row *p = *(const struct manifest_row *const *)a, *q = *(const struct manifest_row *const *)b;
    int order = strcmp(p->output, q->output);
    return order ? order : p < q ? -1 : p > q;
}

bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap)
{
    size_t n = 0; /* rows; the first one of a tar file stands for all */
    const struct manifest_row **sorted = malloc((manifest->n + 1) * sizeof *sorted);
    bool *named = malloc(manifest->n + 1), good = sorted && named; /* named: the list has the row's output */
    for (size_t i = 0; i < manifest->n && good; i++) {
        struct manifest_row *row = &manifest->rows[i];
        if (row->tar && row->tar->first_row != i) continue;
        if (row->tar) row->output = row->tar->output;
        named[i] = row->output != NULL;
        if (!named[i]) row->output = output_name(manifest, row, extension, 0);
        sorted[n++] = row;
        good = row->output != NULL;
    }
    if (!good) manifest_no_memory(why, cap);
    for (int attempt = 0; attempt < 2 && good; attempt++) {
        qsort(sorted, n, sizeof *sorted, by_output);
        for (size_t i = 0, end; i < n && good; i = end) {
            for (end = i + 1; end < n && strcmp(sorted[end]->output, sorted[i]->output) == 0; end++) continue;
            if (end == i + 1) continue;
            size_t n_named = 0;
            for (size_t j = i; j < end; j++) n_named += named[sorted[j] - manifest->rows];
            if (n_named > 1 || attempt > 0)
                good = message_write(why, cap, "output %s: rows %td and %td both write it; give them different names",
                                     sorted[i]->output, sorted[i] - manifest->rows + 1,
                                     sorted[i + 1] - manifest->rows + 1);
            for (size_t j = i; j < end && good; j++) {
                size_t number = (size_t)(sorted[j] - manifest->rows);
                struct manifest_row *row = &manifest->rows[number];
                if (!named[number]) row->output = output_name(manifest, row, extension, number + 1);
                good = row->output || manifest_no_memory(why, cap);
            }
        }
    }
    for (struct tar_source *tar = manifest->tars; tar && good; tar = tar->next) {
        tar->output = manifest->rows[tar->first_row].output;
        good = tar_source_name_rows(manifest, tar, extension) || manifest_no_memory(why, cap);
    }
    free(sorted);
    free(named);
    return good;
}
