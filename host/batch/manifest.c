#include "manifest.h"

#include "host/files/sound_format.h"
#include "host/json_print.h"
#include "host/line_reader.h"
#include "host/message.h"
#include "row_cells.h"
#include "tar_source.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- texts ------------------------------------------------------------------------------------ */

enum { ARENA_BYTES = 1 << 16 };

struct text_arena {
    struct text_arena *next;
    size_t used, capacity;
    char bytes[];
};

char *text_alloc(struct text_arena **arenas, size_t n)
{
    struct text_arena *arena = *arenas;
    if (!arena || arena->capacity - arena->used < n) {
        size_t capacity = n > ARENA_BYTES ? n : ARENA_BYTES;
        arena = malloc(sizeof *arena + capacity);
        if (!arena) return NULL;
        *arena = (struct text_arena){.next = *arenas, .capacity = capacity};
        *arenas = arena;
    }
    arena->used += n;
    return arena->bytes + arena->used - n;
}

const char *text_keep(struct text_arena **arenas, const char *text)
{
    size_t n = strlen(text) + 1;
    char *kept = text_alloc(arenas, n);
    return kept ? memcpy(kept, text, n) : NULL;
}

void text_arena_free(struct text_arena **arenas)
{
    while (*arenas) {
        struct text_arena *arena = *arenas;
        *arenas = arena->next;
        free(arena);
    }
}

/* ---- the list --------------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 256 };

struct manifest_reader {
    struct row_reader rows;
    struct line_reader in;
};

/* ---- memory ------------------------------------------------------------------------------------- */

bool manifest_no_memory(char *why, size_t cap)
{
    return message_write(why, cap, "no memory for the list of files; cut it with --shard");
}

struct manifest_row *manifest_row_add(struct manifest *manifest, const struct manifest_defaults *defaults)
{
    if (manifest->n == manifest->capacity) {
        size_t capacity = manifest->capacity ? 2 * manifest->capacity : 1024;
        struct manifest_row *rows = realloc(manifest->rows, capacity * sizeof *rows);
        if (!rows) return NULL;
        manifest->rows = rows;
        manifest->capacity = capacity;
    }
    struct manifest_row *row = &manifest->rows[manifest->n++];
    *row = (struct manifest_row){.gain = defaults->gain,
                                 .tail = defaults->tail,
                                 .level = defaults->level,
                                 .seed = defaults->seed,
                                 .path = defaults->path,
                                 .length_s = INFINITY,
                                 .early_ms = INFINITY};
    return row;
}

void manifest_free(struct manifest *manifest)
{
    tar_sources_free(manifest->tars);
    text_arena_free(&manifest->texts);
    free(manifest->rows);
    free(manifest->unused);
    *manifest = (struct manifest){0};
}

static bool row_read_values(struct manifest_reader *r, const char *const *values)
{
    char why[MESSAGE_CAP - 300];
    return row_add(&r->rows, values, why, sizeof why) || line_refuse(&r->in, "row %zu: %s", r->rows.manifest->n, why);
}

/* ---- CSV ---------------------------------------------------------------------------------------- */

static int column_of(const char *name)
{
    for (int c = 0; c < N_COLUMNS; c++)
        if (strcmp(name, column_names[c]) == 0) return c;
    return -1;
}

/* Is the name in the list? A list of MESSAGE_CAP bytes is full: each JSON object may have other keys. */
static bool manifest_is_listed(const char *list, const char *name)
{
    size_t n = strnlen(name, 60);
    for (const char *at = list; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
    return strlen(list) > MESSAGE_CAP;
}

static void unused_add(struct manifest *manifest, const char *name)
{
    char *longer = NULL;
    const char *before = manifest->unused ? manifest->unused : "";
    if (manifest_is_listed(before, name)) return;
    if (asprintf(&longer, "%s%s%.60s", before, *before ? ", " : "", name) < 0) return; /* left out of the note */
    free(manifest->unused);
    manifest->unused = longer;
}

/* Reads a header: columns[field] becomes the column of each field, -1 = unknown. Returns the number of fields, 0 after
 * an error. */
static int csv_header(struct manifest_reader *r, char *record, int *columns)
{
    int n = 0;
    bool seen[N_COLUMNS] = {false};
    const char *remedy = strpbrk(record, ";\t") && !strchr(record, ',')
                             ? "put commas between the columns"
                             : "it needs input and mask; --help lists the others";
    for (char *at = record, *name; at && n < MAX_COLUMNS; n++) {
        if (!csv_field(&r->in, &at, &name)) return 0;
        int c = columns[n] = column_of(name);
        if (c < 0) {
            unused_add(r->rows.manifest, name);
            continue;
        }
        if (seen[c]) return line_refuse(&r->in, "the header names the column \"%s\" twice; leave one out", name);
        seen[c] = true;
    }
    if (seen[INPUT] && seen[MASK]) return n;
    return line_refuse(&r->in, "the header names no column \"%s\"; %s", column_names[seen[INPUT] ? MASK : INPUT],
                       remedy);
}

static bool read_csv(struct manifest_reader *r)
{
    int columns[MAX_COLUMNS], n_columns = 0;
    char *record = malloc(CSV_BYTES);
    if (!record) return manifest_no_memory(r->in.why, r->in.cap);
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
            good = line_refuse(&r->in,
                               "row %zu: has %d fields, but the header has %d; put quotes around fields with commas",
                               r->rows.manifest->n + 1, n, n_columns);
        if (good) good = row_read_values(r, values);
    }
    free(record);
    return good;
}

/* ---- JSON lines --------------------------------------------------------------------------------- */

/* The value of a key as text, perhaps in text[cap]; NULL: the object lacks the key. */
static const char *value_text(json_t *value, enum column column, char *text, size_t cap)
{
    if (!value || json_is_null(value)) return NULL;
    if (json_is_string(value)) return json_name_value(value);
    if (json_is_boolean(value) && column == ALIGN) return json_is_true(value) ? "yes" : "no";
    if (!json_is_number(value)) return cell_wrong_type;
    if (json_is_integer(value))
        snprintf(text, cap, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, cap, "%.17g", json_real_value(value));
    return text;
}

static bool read_object(struct manifest_reader *r, const char *line)
{
    json_error_t error;
    json_t *object = json_names_read(line, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return line_refuse(&r->in, "is not an object of JSON (%.100s); write one object on each line",
                           object ? "another type" : error.text);
    }
    const char *values[N_COLUMNS] = {NULL};
    char texts[N_COLUMNS][40];
    const char *key;
    json_t *value;
    for (int c = 0; c < N_COLUMNS; c++)
        values[c] = value_text(json_object_get(object, column_names[c]), c, texts[c], sizeof texts[c]);
    json_object_foreach(object, key, value) if (column_of(key) < 0) unused_add(r->rows.manifest, key);
    bool good = row_read_values(r, values);
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
    struct manifest_reader r = {.rows = {.manifest = manifest, .defaults = defaults}};
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
    draw_free(&r.rows.masks);
    draw_free(&r.rows.noises);
    line_reader_close(&r.in);
    if (good && manifest->n == 0)
        good = message_write(why, cap, "%s: lists no files; write a header, and a row for each file", path);
    if (good) good = name_outputs(manifest, defaults->extension, why, cap);
    if (!good) manifest_free(manifest);
    return good;
}

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
