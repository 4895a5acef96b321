#include "row_cells.h"

#include "dsp/base/number.h"
#include "host/mask_argument.h"
#include "host/message.h"
#include "host/scene/path.h"
#include "host/splitmix64.h"
#include "tar_source.h"
#include "manifest.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const column_names[N_COLUMNS] = {"input", "mask",   "output", "gain", "tail",  "level", "seed",
                                             "start", "length", "noise",  "snr",  "align", "early", "path"};
const char *const tail_words[] = {"full", "same", "centre", NULL};
const char *const level_words[] = {"none", "peak", "rms", NULL};
const char cell_wrong_type[] = "neither a text nor a number";

struct faults { /* the faults of a row: `gain is "loud"; give decibels, and tail is "long"; give ...` */
    char *text; /* [cap] */
    size_t cap, used;
};

__attribute__((format(printf, 2, 3))) static void fault_add(struct faults *faults, const char *format, ...)
{
    size_t left = faults->cap - faults->used;
    va_list values;
    va_start(values, format);
    int n = faults->used ? snprintf(faults->text + faults->used, left, ", and ") : 0;
    if ((size_t)n < left) n += vsnprintf(faults->text + faults->used + n, left - (size_t)n, format, values);
    va_end(values);
    faults->used += (size_t)n < left ? (size_t)n : left - 1;
}

/* The number of a word in its list; -1: none. */
static int word_of(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

static bool row_seed_read(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return end != text && !*end && !errno && !strchr(text, '-');
}

/* Reads a cell into the row. Returns NULL, or for a wrong cell the text of the values that it accepts. */
static const char *cell_read(struct row_reader *reader, struct manifest_row *row, enum column column, const char *text)
{
    static const char *const truths[] = {"no", "yes", "0", "1", "false", "true", "False", "True", NULL};
    const double longest_s = 1e9, shortest_s = 1e-9, max_db = 300;
    struct text_arena **texts = &reader->manifest->texts;
    double db = -INFINITY;
    int word;
    switch (column) {
    case INPUT:
        row->input = text_keep(texts, text);
        break;
    case MASK:
        row->mask = text_keep(texts, mask_argument_path(text));
        break;
    case PATH:
        row->path = text_keep(texts, text);
        break;
    case NOISE:
        row->noise = text_keep(texts, text);
        break;
    case OUTPUT:
        row->output = output_keep(reader->manifest, text);
        if (!row->output) break;
        if (!output_stays_below(row->output)) return "a name below the folder of -o";
        return output_is_journal(row->output) ? "another name: the journal has this one" : NULL;
    case GAIN:
        if (strcmp(text, "off") != 0 && !number_is(text, -max_db, max_db, &db))
            return "decibels from -300 to 300, or off";
        row->gain = reader->defaults->gain * pow(10, db / 20);
        break;
    case TAIL:
        if ((word = word_of(text, tail_words)) < 0) return "full, same or centre";
        row->tail = (enum range_choice)word;
        break;
    case LEVEL:
        if ((word = word_of(text, level_words)) < 0) return "none, peak or rms";
        row->level = (enum level)word;
        break;
    case SEED:
        return row_seed_read(text, &row->seed) ? NULL : "a whole number from 0 on";
    case START:
        return number_is(text, 0, longest_s, &row->start_s) ? NULL : "seconds from 0 on";
    case LENGTH:
        return number_is(text, shortest_s, longest_s, &row->length_s) ? NULL : "seconds above 0";
    case SNR:
        return number_is(text, -max_db, max_db, &row->snr_db) ? NULL : "decibels from -300 to 300";
    case ALIGN:
        if ((word = word_of(text, truths)) < 0) return "yes or no";
        row->align = word % 2;
        break;
    case EARLY:
        return number_is(text, shortest_s, 1000 * longest_s, &row->early_ms) ? NULL : "milliseconds above 0";
    case N_COLUMNS:
        break;
    }
    return NULL;
}

/* Replaces a pattern by one of its files. */
static const char *name_draw(struct row_reader *reader, struct draw *draw, const char *name, uint64_t number,
                             struct faults *faults)
{
    char why[MESSAGE_CAP / 4];
    const char *drawn = draw_file(draw, name, number, why, sizeof why);
    if (!drawn) fault_add(faults, "%s", why);
    return !drawn || drawn == name ? name : text_keep(&reader->manifest->texts, drawn);
}

static void draw_names(struct row_reader *reader, struct manifest_row *row, struct faults *faults)
{
    row->mask = name_draw(reader, &reader->masks, row->mask, draw_number(row->seed, DRAW_MASK), faults);
    if (!row->noise) return;
    row->noise = name_draw(reader, &reader->noises, row->noise, draw_number(row->seed, DRAW_NOISE), faults);
}

/* Expands the last row, whose input is a tar file: it becomes the row of the first sound, and each other sound gets a
 * row. The sounds of a sample share their draws. false: no memory. */
static bool tar_expand(struct row_reader *reader, struct faults *faults)
{
    struct manifest *manifest = reader->manifest;
    size_t first_row = manifest->n - 1;
    struct manifest_row common = manifest->rows[first_row];
    char why[MESSAGE_CAP / 2];
    if (common.output && (!tar_is_name(common.output) || tar_packed_suffix(common.output)))
        fault_add(faults, "output is \"%.40s\", but the input is a tar file; end the name in .tar", common.output);
    struct tar_source *tar = tar_source_add(manifest, common.input, reader->defaults->members, why, sizeof why);
    if (!tar) fault_add(faults, "%s", why);
    if (!tar || faults->used) return true;
    tar->first_row = first_row;
    tar->output = common.output;
    tar->has_one_mask = !draw_is_pattern(common.mask);
    for (size_t member = 0; member < tar->input->n && !faults->used; member++) {
        if (!tar->input->members[member].is_convolved) continue;
        struct manifest_row *row =
            tar->n_rows ? manifest_row_add(manifest, reader->defaults) : &manifest->rows[first_row];
        if (!row) return false;
        *row = common;
        row->seed = common.seed + tar_source_next_group(tar, member);
        if (!tar_source_row(manifest, row, tar, member)) return false;
        draw_names(reader, row, faults);
        if (!row->mask || (common.noise && !row->noise)) return false;
    }
    return true;
}

static void path_check(const struct manifest_row *row, struct faults *faults)
{
    char why[MESSAGE_CAP / 4];
    if (!row->path) return;
    if (row->align || isfinite(row->early_ms))
        fault_add(faults, "has both path and %s; leave one out", row->align ? "align" : "early");
    if (path_is_random(row->path) && !path_random_check(row->path, why, sizeof why))
        fault_add(faults, "path \"%.60s\": %s", row->path, why);
    if (strcmp(row->path, "-") == 0) /* workers would read standard input at once, and in any order */
        fault_add(faults, "path is \"-\", but a list cannot read paths from standard input; give a file");
}

bool row_add(struct row_reader *reader, const char *const *values, char *why, size_t cap)
{
    struct manifest_row *row = manifest_row_add(reader->manifest, reader->defaults);
    struct faults faults = {.text = why, .cap = cap};
    if (!row) return manifest_no_memory(why, cap);
    row->seed = splitmix64(reader->defaults->seed) + reader->manifest->n; /* a seed in the row replaces it */
    bool has[N_COLUMNS];
    for (int column = 0; column < N_COLUMNS; column++) {
        const char *text = values[column], *name = column_names[column];
        has[column] = text && *text;
        if (text == cell_wrong_type)
            fault_add(&faults, "\"%s\" is %s; write a text or a number", name, text);
        else if (!has[column] && column <= MASK)
            fault_add(&faults, "has no %s; every row needs input and mask", name);
        const char *needs = has[column] && text != cell_wrong_type ? cell_read(reader, row, column, text) : NULL;
        if (needs) fault_add(&faults, "%s is \"%.40s\"; give %s", name, text, needs);
    }
    if (has[NOISE] != has[SNR])
        fault_add(&faults, "has %s without %s; give both or none", has[NOISE] ? "noise" : "snr",
                  has[NOISE] ? "snr" : "noise");
    path_check(row, &faults);
    bool is_tar = row->input && tar_is_name(row->input);
    if (row->mask && !is_tar) draw_names(reader, row, &faults);
    if (faults.used && !is_tar) return false;
    bool good = row->input && row->mask && (row->output || !has[OUTPUT]) && (row->noise || !has[NOISE]) &&
                (row->path || !has[PATH]);
    if (is_tar && row->mask) good = good && tar_expand(reader, &faults);
    return !faults.used && (good || manifest_no_memory(why, cap));
}
