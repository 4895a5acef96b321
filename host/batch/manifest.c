#include "manifest.h"

#include "csv.h"
#include "draw.h"
#include "host/message.h"
#include "host/splitmix64.h"
#include "line_reader.h"
#include "output_names.h"
#include "text_arena.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_COLUMNS = 256 };

enum column { INPUT, MASK, OUTPUT, GAIN, TAIL, LEVEL, SEED, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"input", "mask", "output", "gain", "tail", "level", "seed"};

struct manifest_reader {
    struct manifest *manifest;
    struct draw draw;
    const struct manifest_defaults *defaults;
    struct line_reader in;
};

/* ---- memory ------------------------------------------------------------------------------------- */

bool manifest_no_memory(char *why, size_t cap)
{
    return message_write(why, cap, "no memory for the list of files; cut it with --shard");
}

struct manifest_row *manifest_row_add(struct manifest *manifest)
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
    text_arena_free(&manifest->texts);
    free(manifest->rows);
    free(manifest->unused);
    *manifest = (struct manifest){0};
}

/* ---- a row -------------------------------------------------------------------------------------- */

/* Replaces a mask that is a pattern, and not the name of a file, by one of its files, drawn by the row's seed. */
static bool draw_mask(struct manifest_reader *r, struct manifest_row *row)
{
    char why[MESSAGE_CAP - 300];
    const char *drawn = draw_file(&r->draw, row->mask, splitmix64(row->seed), why, sizeof why);
    if (!drawn) return line_refuse(&r->in, "%s", why);
    if (drawn != row->mask) row->mask = text_keep(&r->manifest->texts, drawn);
    return row->mask || manifest_no_memory(r->in.why, r->in.cap);
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
    struct manifest_row *row = manifest_row_add(r->manifest);
    if (!row) return manifest_no_memory(r->in.why, r->in.cap);
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
            row->input = text_keep(&r->manifest->texts, value);
            break;
        case MASK:
            row->mask = text_keep(&r->manifest->texts, value);
            break;
        case OUTPUT:
            row->output = output_keep(r->manifest, value);
            if (!row->output) return manifest_no_memory(r->in.why, r->in.cap);
            if (!output_stays_below(row->output)) return refuse(r, OUTPUT, value, "a name below the folder of -o");
            if (output_is_journal(row->output))
                return refuse(r, OUTPUT, value, "another name: the journal has this one");
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
    if (!row->input || !row->mask) return manifest_no_memory(r->in.why, r->in.cap);
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
