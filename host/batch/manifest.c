#include "manifest.h"

#include "csv.h"
#include "host/files/sound_format.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "line_reader.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARENA_BYTES = 1 << 16, MOST_COLUMNS = 256 };

enum column { INPUT, MASK, OUTPUT, GAIN, TAIL, LEVEL, SEED, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"input", "mask", "output", "gain", "tail", "level", "seed"};

struct text_arena { /* strings one after the other, because a million rows would need millions of allocations */
    struct text_arena *next;
    size_t used, capacity;
    char bytes[];
};

struct draw { /* the last pattern and its files: most rows of a list have the same pattern */
    char *pattern;
    glob_t found;
};

struct manifest_reader {
    struct manifest *manifest;
    struct draw draw;
    const struct manifest_defaults *defaults;
    struct line_reader in;
};

/* ---- memory ------------------------------------------------------------------------------------- */

/* n bytes that stay until manifest_free; NULL = no memory. */
static char *text_alloc(struct manifest *manifest, size_t n)
{
    struct text_arena *arena = manifest->texts;
    if (!arena || arena->capacity - arena->used < n) {
        size_t capacity = n > ARENA_BYTES ? n : ARENA_BYTES;
        arena = malloc(sizeof *arena + capacity);
        if (!arena) return NULL;
        *arena = (struct text_arena){.next = manifest->texts, .capacity = capacity};
        manifest->texts = arena;
    }
    arena->used += n;
    return arena->bytes + arena->used - n;
}

static const char *text_keep(struct manifest *manifest, const char *text)
{
    size_t n = strlen(text) + 1;
    char *kept = text_alloc(manifest, n);
    return kept ? memcpy(kept, text, n) : NULL;
}

static bool no_memory(char *why, size_t cap)
{
    return message_write(why, cap, "no memory for the list of files; cut it with --shard");
}

static struct manifest_row *row_new(struct manifest *manifest)
{
    if (manifest->n == manifest->capacity) {
        size_t capacity = manifest->capacity ? 2 * manifest->capacity : 1024;
        struct manifest_row *rows = realloc(manifest->rows, capacity * sizeof *rows);
        if (!rows) return NULL;
        manifest->rows = rows;
        manifest->capacity = capacity;
    }
    return &manifest->rows[manifest->n++];
}

void manifest_free(struct manifest *manifest)
{
    while (manifest->texts) {
        struct text_arena *arena = manifest->texts;
        manifest->texts = arena->next;
        free(arena);
    }
    free(manifest->rows);
    free(manifest->unused);
    *manifest = (struct manifest){0};
}

/* ---- names of outputs --------------------------------------------------------------------------- */

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

/* INPUT_MASK.EXT of the two names; number > 0: INPUT_MASK-NUMBER.EXT. */
static const char *output_name(struct manifest *manifest, const struct manifest_row *row, const char *extension,
                               size_t number)
{
    const char *input = base_name(row->input), *mask = base_name(row->mask), *dot = strrchr(input, '.');
    char suffix[32] = "";
    if (number) snprintf(suffix, sizeof suffix, "-%zu", number);
    bool keeps = dot && dot > input && !sound_format_refuses(input);
    const char *ext = extension ? extension : keeps ? dot + 1 : "wav";
    int n_input = stem_length(input), n_mask = stem_length(mask);
    size_t bytes = (size_t)n_input + (size_t)n_mask + strlen(suffix) + strlen(ext) + 3;
    char *name = text_alloc(manifest, bytes);
    if (name) snprintf(name, bytes, "%.*s_%.*s%s.%s", n_input, input, n_mask, mask, suffix, ext);
    return name;
}

static int by_output(const void *a, const void *b)
{
    const struct manifest_row *p = *(const struct manifest_row *const *)a, *q = *(const struct manifest_row *const *)b;
    int order = strcmp(p->output, q->output);
    return order ? order : p < q ? -1 : p > q;
}

/* Gives the rows without an output name one, with the row's number in it if it would not be unique. Two rows that name
 * the same output are an error. */
static bool name_outputs(struct manifest *manifest, const char *extension, char *why, size_t cap)
{
    size_t n = manifest->n;
    const struct manifest_row **sorted = malloc((n + 1) * sizeof *sorted);
    bool *named = malloc(n + 1), good = sorted && named; /* named: the list has the row's output */
    for (size_t i = 0; i < n && good; i++) {
        struct manifest_row *row = &manifest->rows[i];
        named[i] = row->output != NULL;
        if (!named[i]) row->output = output_name(manifest, row, extension, 0);
        sorted[i] = row;
        good = row->output != NULL;
    }
    if (!good) no_memory(why, cap);
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
                good = row->output || no_memory(why, cap);
            }
        }
    }
    free(sorted);
    free(named);
    return good;
}

/* ---- a row -------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char glob_folder[PATH_MAX]; /* that glob could not search; glob hands its callback no pointer of ours */
static int glob_errno;

/* If this returns 0, glob leaves out the files of a folder that it cannot search. A link to nowhere has none. */
static int glob_failed(const char *folder, int error)
{
    snprintf(glob_folder, sizeof glob_folder, "%s", folder);
    glob_errno = error;
    return error != ENOENT && error != ELOOP;
}

/* Finds the files of a pattern, sorted by bytes: the same order on every machine. Main thread only. */
static bool find_files(const char *pattern, glob_t *found, char *why, size_t cap)
{
    int error = glob(pattern, GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, glob_failed, found);
    if (error == GLOB_NOMATCH) return message_write(why, cap, "%s: matches no file; check the pattern", pattern);
    if (error == GLOB_ABORTED)
        return message_write(why, cap, "%s: cannot be searched: %s; choose a pattern without this folder", glob_folder,
                             strerror(glob_errno));
    if (error) return no_memory(why, cap);
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_text);
    return true;
}

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

static void draw_free(struct draw *draw)
{
    if (draw->pattern) globfree(&draw->found);
    free(draw->pattern);
    *draw = (struct draw){0};
}

/* Replaces a mask that is a pattern, and not the name of a file, by one of its files, drawn by the row's seed. */
static bool draw_mask(struct manifest_reader *r, struct manifest_row *row)
{
    struct draw *draw = &r->draw;
    if (!is_pattern(row->mask) || access(row->mask, F_OK) == 0) return true;
    if (!draw->pattern || strcmp(draw->pattern, row->mask) != 0) {
        draw_free(draw);
        char why[MESSAGE_CAP - 300];
        if (!find_files(row->mask, &draw->found, why, sizeof why)) return line_refuse(&r->in, "%s", why);
        draw->pattern = strdup(row->mask);
        if (!draw->pattern) {
            globfree(&draw->found);
            return no_memory(r->in.why, r->in.cap);
        }
    }
    row->mask = text_keep(r->manifest, draw->found.gl_pathv[splitmix64(row->seed) % draw->found.gl_pathc]);
    return row->mask || no_memory(r->in.why, r->in.cap);
}

/* Keeps the name without empty components and ".", so that two names of one file are equal. NULL = no memory. */
static const char *output_keep(struct manifest *manifest, const char *output)
{
    char *kept = text_alloc(manifest, strlen(output) + 1), *to = kept;
    for (const char *from = output; kept && *from;) {
        size_t length = strcspn(from, "/"), slash = from[length] == '/';
        bool empty = length == 0 && from != output, same_folder = length == 1 && *from == '.';
        if (!empty && !same_folder) to = mempcpy(to, from, length + slash);
        from += length + slash;
    }
    if (kept) *to = 0;
    return kept;
}

static bool is_journal(const char *output)
{
    return fnmatch("haloconv-batch*.journal", output, 0) == 0;
}

static bool stays_below(const char *output)
{
    if (output[0] == '/' || output[0] == 0) return false;
    for (const char *at = output; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0)) return false;
    return output[strlen(output) - 1] != '/';
}

/* The number of the word that `text` is, in the order of enum range_choice or enum level; -1: none. */
static int word_of(const char *text, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

static bool refuse(struct manifest_reader *r, enum column column, const char *value, const char *needs)
{
    return line_refuse(&r->in, "%s \"%.60s\"; needs %s", column_names[column], value, needs);
}

/* values[N_COLUMNS]; NULL or "": the row leaves the column out. */
static bool row_add(struct manifest_reader *r, const char *const *values)
{
    const struct manifest_defaults *d = r->defaults;
    struct manifest_row *row = row_new(r->manifest);
    if (!row) return no_memory(r->in.why, r->in.cap);
    *row = (struct manifest_row){.gain = d->gain, .tail = d->tail, .level = d->level};
    row->seed = splitmix64(d->seed) + r->manifest->n; /* unless the row has a seed */
    for (int column = 0; column < N_COLUMNS; column++) {
        const char *value = values[column];
        char *end = NULL;
        int word;
        if (!value || !*value) {
            if (column > MASK) continue;
            return line_refuse(&r->in, "has no %s; every row needs input and mask", column_names[column]);
        }
        switch ((enum column)column) {
        case INPUT:
            row->input = text_keep(r->manifest, value);
            break;
        case MASK:
            row->mask = text_keep(r->manifest, value);
            break;
        case OUTPUT:
            row->output = output_keep(r->manifest, value);
            if (!row->output) return no_memory(r->in.why, r->in.cap);
            if (!stays_below(row->output)) return refuse(r, OUTPUT, value, "a name below the folder of -o");
            if (is_journal(row->output)) return refuse(r, OUTPUT, value, "another name: the journal has this one");
            break;
        case GAIN: {
            double db = strcmp(value, "off") == 0 ? -INFINITY : strtod(value, &end);
            if (end && (end == value || *end || !(db >= -300 && db <= 300)))
                return refuse(r, GAIN, value, "decibels from -300 to 300, or off");
            row->gain = d->gain * pow(10, db / 20);
            break;
        }
        case TAIL:
            if ((word = word_of(value, (const char *const[]){"full", "same", "centre"})) < 0)
                return refuse(r, TAIL, value, "full, same or centre");
            row->tail = (enum range_choice)word;
            break;
        case LEVEL:
            if ((word = word_of(value, (const char *const[]){"none", "peak", "rms"})) < 0)
                return refuse(r, LEVEL, value, "none, peak or rms");
            row->level = (enum level)word;
            break;
        case SEED:
            errno = 0;
            row->seed = strtoull(value, &end, 10);
            if (end == value || *end || errno || value[0] == '-')
                return refuse(r, SEED, value, "a whole number from 0 on");
            break;
        case N_COLUMNS:
            break;
        }
    }
    if (!row->input || !row->mask) return no_memory(r->in.why, r->in.cap);
    return draw_mask(r, row);
}

/* ---- CSV ---------------------------------------------------------------------------------------- */

static void unused_add(struct manifest *manifest, const char *name)
{
    char *longer = NULL;
    const char *before = manifest->unused ? manifest->unused : "";
    if (asprintf(&longer, "%s%s%.60s", before, *before ? ", " : "", name) < 0) return; /* only the note is lost */
    free(manifest->unused);
    manifest->unused = longer;
}

/* columns[field] = the column of each field, -1 = unknown. Returns the number of fields, 0 after an error. */
static int csv_header(struct manifest_reader *r, char *record, int *columns)
{
    int n = 0;
    bool seen[N_COLUMNS] = {false};
    const char *remedy = strpbrk(record, ";\t") && !strchr(record, ',')
                             ? "put commas between the columns"
                             : "it needs input and mask, and knows output, gain, tail, level and seed";
    for (char *at = record, *name; at && n < MOST_COLUMNS; n++) {
        if (!csv_field(&r->in, &at, &name)) return 0;
        columns[n] = -1;
        for (int c = 0; c < N_COLUMNS; c++) {
            if (strcmp(name, column_names[c]) != 0) continue;
            if (seen[c]) return line_refuse(&r->in, "the header names the column \"%s\" twice; leave one out", name);
            columns[n] = c;
            seen[c] = true;
        }
        if (columns[n] < 0) unused_add(r->manifest, name);
    }
    if (seen[INPUT] && seen[MASK]) return n;
    return line_refuse(&r->in, "the header names no column \"%s\"; %s", column_names[seen[INPUT] ? MASK : INPUT],
                       remedy);
}

static bool read_csv(struct manifest_reader *r)
{
    int columns[MOST_COLUMNS], n_columns = 0;
    char *record = malloc(CSV_BYTES);
    if (!record) return no_memory(r->in.why, r->in.cap);
    bool good = true;
    enum line_state got;
    while (good && (got = csv_record(&r->in, record)) != LINE_END) {
        good = got == LINE_READ;
        if (!good || !*record) continue;
        if (n_columns == 0) {
            n_columns = csv_header(r, record, columns);
            good = n_columns > 0;
            continue;
        }
        const char *values[N_COLUMNS] = {NULL};
        int n = 0;
        for (char *at = record, *field; at && good; n++) {
            good = csv_field(&r->in, &at, &field);
            if (good && n < n_columns && columns[n] >= 0) values[columns[n]] = field;
        }
        if (good && n > n_columns)
            good = line_refuse(&r->in, "%d fields, but the header has %d; put quotes around commas", n, n_columns);
        if (good) good = row_add(r, values);
    }
    free(record);
    return good;
}

/* ---- JSON lines --------------------------------------------------------------------------------- */

/* *result = the value of a key as text; NULL: the object lacks the key. false: neither a text nor a number. */
static bool value_text(json_t *value, char *text, size_t cap, const char **result)
{
    *result = text;
    if (!value || json_is_null(value))
        *result = NULL;
    else if (json_is_string(value))
        *result = json_string_value(value);
    else if (json_is_integer(value))
        snprintf(text, cap, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, cap, "%.17g", json_real_value(value));
    else
        return false;
    return true;
}

static bool read_object(struct manifest_reader *r, const char *line)
{
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return line_refuse(&r->in, "is not an object of JSON (%.100s); write one a line",
                           object ? "another type" : error.text);
    }
    const char *values[N_COLUMNS] = {NULL};
    char texts[N_COLUMNS][40];
    bool good = true;
    for (int c = 0; c < N_COLUMNS && good; c++)
        if (!value_text(json_object_get(object, column_names[c]), texts[c], sizeof texts[c], &values[c]))
            good = line_refuse(&r->in, "\"%s\" is neither a text nor a number; write one", column_names[c]);
    if (good) good = row_add(r, values);
    json_decref(object);
    return good;
}

static bool read_json_lines(struct manifest_reader *r)
{
    enum line_state got;
    bool good = true;
    while (good && (got = line_read(&r->in)) != LINE_END) {
        good = got == LINE_READ;
        if (good && r->in.line[strspn(r->in.line, " \t\r\n")] != 0) good = read_object(r, r->in.line);
    }
    return good;
}

/* ---- public calls ------------------------------------------------------------------------------- */

bool manifest_read(struct manifest *manifest, const char *path, const struct manifest_defaults *defaults, char *why,
                   size_t cap)
{
    *manifest = (struct manifest){0};
    struct manifest_reader r = {.manifest = manifest, .defaults = defaults};
    if (!line_reader_open(&r.in, path, "check the path", why, cap)) return false;
    FILE *file = r.in.file;
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
        line_reader_close(&r.in);
        return message_write(why, cap, "%s: is a directory; give the list of its files", path);
    }
    int first = getc(file);
    if (first == 0xef && getc(file) == 0xbb && getc(file) == 0xbf) first = getc(file); /* byte order mark of UTF-8 */
    for (; first == '\n' || first == ' ' || first == '\r'; first = getc(file)) r.in.number += first == '\n';
    if (first != EOF) ungetc(first, file);
    bool good = first == '{' ? read_json_lines(&r) : read_csv(&r);
    draw_free(&r.draw);
    line_reader_close(&r.in);
    if (good && manifest->n == 0)
        good = message_write(why, cap, "%s: lists no file; write a header and a row for each", path);
    if (good) good = name_outputs(manifest, defaults->extension, why, cap);
    if (!good) manifest_free(manifest);
    return good;
}

static bool pair_add(struct manifest *manifest, const struct manifest_defaults *d, const char *input, const char *mask)
{
    struct manifest_row *row = row_new(manifest);
    if (!row) return false;
    *row = (struct manifest_row){.input = input, .mask = mask, .gain = d->gain, .tail = d->tail, .level = d->level};
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
    for (size_t m = 0; m < n_masks && good; m++) good = (names[m] = text_keep(manifest, masks->gl_pathv[m])) != NULL;
    for (size_t i = 0; i < n_inputs && good; i++) {
        const char *input = text_keep(manifest, inputs->gl_pathv[i]);
        good = input != NULL;
        if (good && zip) good = pair_add(manifest, d, input, names[i]);
        for (size_t m = 0; m < n_masks && good && all; m++) good = pair_add(manifest, d, input, names[m]);
        if (good && n_draws)
            good = pair_random(manifest, d, input, names, n_masks, n_draws, splitmix64(splitmix64(d->seed) + i));
    }
    free(names);
    return good || no_memory(why, cap);
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
